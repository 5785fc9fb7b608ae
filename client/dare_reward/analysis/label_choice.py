"""Which prompts are worth a label as a reward: ranked from answers alone, before anybody has labelled one.

With p(y) the share of the votes of an answer: p of the second answer where the two leading ones hold half of the votes
or more, else 0. There a label, as a reward, can turn a prompt. `tests/golden/labels.json` holds values of another
implementation.
"""

from __future__ import annotations

import numpy as np

from ..groups import Groups
from ..segments import Floats, positions


def contested(groups: Groups) -> Floats:
    """The second answer's share of the votes where the first two hold at least half of them, else 0."""
    order = np.lexsort((-groups.votes_A, groups.group_A))
    place_A = np.empty(len(order), np.int64)
    place_A[order] = positions(groups.support_P)
    first_P, second_P = (groups.sum_by_group(groups.share(groups.votes_A) * (place_A == k)) for k in (0, 1))
    return np.where(first_P + second_P >= 0.5, second_P, 0.0)
