"""Which facts of a prompt are hard, and which sets of a base's prompts share them.

Bases share the hard facts (`corpus.hardness`) if they have learned the same set of them, and prompts of one set share
facts with those of another, so a prompt is not the unit that a misconception belongs to. Subsets are of a base's
prompts, in the order of its records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from dare_reward.segments import Bools

from .corpus import Facts, hard_facts
from .plan import DEFAULT, fact_set, problems_of


@cache
def _of_base(stage: str, base: int) -> Mapping[str, tuple[Facts, ...]]:
    """The hard facts of every prompt, by set."""
    return {
        name: tuple(hard_facts(family, problem, fact_set(base)) for family, problem in problems)
        for name, problems in problems_of(DEFAULT, stage, base).items()
    }


SUBSETS: Mapping[str, Callable[[Facts, Facts], bool]] = {
    "without a hard fact": lambda own, _: not own,
    "with a hard fact": lambda own, _: bool(own),
    "all hard facts adapted to": lambda own, adapted: bool(own) and own <= adapted,
    "some hard facts adapted to": lambda own, adapted: bool(own & adapted) and not own <= adapted,
    "no hard fact adapted to": lambda own, adapted: bool(own) and not own & adapted,
}


def beside_labels(labelled: Sequence[int], *, stage: str, base: int) -> dict[str, Bools]:
    """The adapted prompts in four parts: those with these numbers are labelled."""
    own = _of_base(stage, base)["adapted"]
    known: Facts = frozenset().union(*(own[at] for at in labelled))
    has_label = np.isin(np.arange(len(own)), labelled)
    shares, hard = (np.array([bool(part) for part in parts], bool) for parts in ([o & known for o in own], own))
    return {
        "labelled": has_label,
        "hard fact of a labelled one": ~has_label & shares,
        "other hard facts": ~has_label & hard & ~shares,
        "no hard fact": ~has_label & ~hard,
    }


def subset(name: str, *, stage: str, base: int, where: str) -> Bools:
    """Which prompts of a set are in a subset: by their own hard facts, and those of the adapted prompts."""
    facts = _of_base(stage, base)
    adapted: Facts = frozenset().union(*facts["adapted"])
    return np.array([SUBSETS[name](own, adapted) for own in facts[where]], bool)
