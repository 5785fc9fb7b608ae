"""Groups of a request whose answers are compared letter by letter, as `Groups.of` compares them."""

import math


def exact(answers, **columns):
    """A group for each list of answers; `columns` hold one number per rollout. None and NaN are nothing."""
    out = []
    for p, group in enumerate(answers):
        own = {name: rows[p] for name, rows in columns.items()}
        rollouts = [
            {"answer": answer, **{name: row[i] for name, row in own.items() if not math.isnan(row[i])}}
            for i, answer in enumerate(group)
        ]
        out.append({"kind": "exact", "rollouts": rollouts})
    return out
