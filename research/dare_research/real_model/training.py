"""What runs on the real model learnt (E8, bars 7 to 10; E9, 12 and 13): from packed records of
`examples/real_model/train.py`.

pass@1 of a question is its share of right rollouts. A difference has two intervals, as the plan fixed them: Student's t
over seeds, and the bootstrap of seeds and, in them, questions, which the seeds share. A bar is met if both allow it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dare_reward.answers.classes import classify, grades
from dare_reward.answers.labels import read_labels
from dare_reward.segments import Floats

from ..contrasts import Ends, contrast, judged, student, within
from .sample import SampledQuestion
from .weights import heaviest, label_right

JSON = dict[str, Any]
Record = Mapping[str, Any]


class RunsOfForm(NamedTuple):
    """Arms that are compared: each with the first one. `size`: rollouts of a question in training."""

    form: str
    size: int
    arms: tuple[str, ...]


COMPARED = {
    "bare": RunsOfForm("bare", 16, ("ttrl", "dare", "calibrated_vote", "gt_quarter", "both")),
    "reasoned": RunsOfForm("reasoned", 8, ("ttrl", "dare", "calibrated_vote")),
    "bare-8": RunsOfForm("bare", 8, ("ttrl", "ppc")),
    "reasoned-answer": RunsOfForm("reasoned", 8, ("dare", "dare_answer")),  # `dare` is E8's
}
SEEDS = (0, 1, 2)
PARTS = ("adapted", "unseen")
NULL = 0.03  # a contrast whose 90% intervals lie within is a null
BARS = (
    ("E8", 7, "bare", "dare", "adapted", "within", 0.03),
    ("E8", 8, "bare", "gt_quarter", "adapted", "above", 0.0),
    ("E8", 9, "bare", "both", "unseen", "above", 0.0),
    ("E8", 10, "reasoned", "dare", "adapted", "above", 0.0),
    ("E9", 12, "bare-8", "ppc", "adapted", "above", 0.0),
    ("E9", 13, "reasoned-answer", "dare_answer", "adapted", "above", 0.0),
)


def blocks(
    records: Iterable[Record], compared: Mapping[str, RunsOfForm] = COMPARED, seeds: Iterable[int] = SEEDS
) -> dict[str, dict[int, dict[str, Record]]]:
    """Records by part, seed and arm; of the plans' blocks only those that are whole."""
    runs = {(r["form"], r["size"], r["seed"], r["arm"]): r for r in records}
    return {
        name: {
            seed: {arm: runs[form, size, seed, arm] for arm in arms}
            for seed in seeds
            if all((form, size, seed, arm) in runs for arm in arms)
        }
        for name, (form, size, arms) in compared.items()
    }


def learnt(records: Sequence[Record], questions: Mapping[str, Sequence[SampledQuestion]]) -> JSON:
    """Levels and differences by part, questions and arm, and bars. `questions`: the untrained model's, by form."""
    figures = {
        name: _form(COMPARED[name].arms, list(seeds.values()), {q.id: q for q in questions[COMPARED[name].form]})
        for name, seeds in blocks(records).items()
    }
    return {"forms": figures, "bars": bars(figures)}


def _form(arms: Sequence[str], seeds: Sequence[Mapping[str, Record]], questions: Mapping[str, SampledQuestion]) -> JSON:
    base = arms[0]
    before = seeds[0][base]["before"]
    unseen = set(seeds[0][base]["unseen"])
    names = {"adapted": [n for n in before if n not in unseen], "unseen": [n for n in before if n in unseen]}

    def gains(arm: str, part: str) -> Floats:
        """What each question gained, [S, Q]."""
        runs = [block[arm] for block in seeds]
        return np.array([[(r["after"][n] - r["before"][n]) / r["evaluated"] for n in names[part]] for r in runs])

    rows = {
        part: {
            arm: {
                "before": round(float(np.mean([before[n] for n in names[part]]) / seeds[0][arm]["evaluated"]), 5),
                "gain": _figure(gains(arm, part)),
                f"minus {base}": _figure(gains(arm, part) - gains(base, part)),
            }
            for arm in arms
        }
        for part in PARTS
    }
    vote = partial(majorities, seeds, rollouts=seeds[0][base]["evaluated"])
    return {"arms": rows, "majority": {part: vote([questions[n] for n in own]) for part, own in names.items()}}


def majorities(seeds: Sequence[Mapping[str, Record]], questions: Sequence[SampledQuestion], *, rollouts: int) -> JSON:
    """maj@`rollouts`, the share of questions whose vote is right: of the untrained model, and of each arm by seed.

    None for a run whose answers were not kept.
    """

    def share(rights: Iterable[float]) -> float:
        return round(float(np.mean(list(rights))), 5)

    def after(run: Record) -> float | None:
        answers = run.get("answers")
        return share(majority(answers[q.id], q) for q in questions) if answers else None

    return {
        "before": share(label_right(q, "vote", rollouts) for q in questions),
        "after": {arm: [after(block[arm]) for block in seeds] for arm in seeds[0]},
    }


def majority(tally: Mapping[str, int], question: SampledQuestion) -> float:
    """Share of the commonest answers that are right, as the service tells answers apart; 0 without an answer."""
    raws = [raw for raw in tally if raw]
    found = classify(raws, kind=question.kind)
    votes_A = np.zeros(len(found.answers) + 1)  # the last of what is no answer
    np.add.at(votes_A, list(found.index), [tally[raw] for raw in raws])
    right_A = grades(found.answers, read_labels(question.accepted, kind=question.kind), kind=question.kind)
    top = heaviest(votes_A[:-1])
    return float(np.mean([right_A[a] for a in top])) if len(top) else 0.0


def _figure(gains_SQ: Floats) -> JSON:
    """Mean, both intervals at 95 and 90 per cent, and the greater of their p."""
    measured = contrast([list(gains_SQ)])
    _, p = student(gains_SQ.mean(axis=1))
    ends = {"t": measured.over_pairs, "bootstrap": measured.bootstrap}
    wide = {name: [round(e.low, 5), round(e.high, 5)] for name, e in ends.items()}
    narrow = {f"{name}90": [round(e.low90, 5), round(e.high90, 5)] for name, e in ends.items()}
    return {"estimate": round(measured.estimate, 5), "p": round(max(p, measured.p), 5), **wide, **narrow}


def bars(forms: Mapping[str, Any]) -> list[JSON]:
    """The bars with their fates, by both intervals, and whether they are nulls.

    Holm's p is over 8 to 10, or 12 and 13: E9 names no family for its part c, and it is all that the part asks.
    """
    rows: list[JSON] = [
        {"plan": plan, "bar": n, "kind": kind, "than": than, "figure": forms[f]["arms"][part][a][f"minus {base}"]}
        for plan, n, f, a, part, kind, than in BARS
        for base in COMPARED[f].arms[:1]
    ]
    return [row | {"null": within(NULL, _ends(row["figure"]))} for row in judged(rows, _ends)]


def _ends(figure: Mapping[str, Any]) -> list[Ends]:
    return [Ends(*figure[name], *figure[f"{name}90"]) for name in ("t", "bootstrap")]
