"""Of what a run gained in pass@1: what comes of prompts that it sharpened, learnt and lost.

A prompt's vote is right where more than half of its most voted answers are right (there are several in a tie). Over
the prompts P that were seen before and after, with p their share of right rollouts:

    sharpened   the vote was right before and is after        points of each part: its sum of
    learnt      the vote was wrong and became right           (p after - p before) over P
    lost        the vote was right and became wrong
    never right the vote was wrong before and is after        The four add up to the gain of pass@1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..groups import Groups
from ..segments import Floats
from .bootstrap import Interval, mean_interval
from .shown import Shown, percent, signed
from .truth import known_groups, right_answers

PARTS: Final = {
    "sharpened": "sharpened: the vote was right, and is",
    "learnt": "learnt: the vote was wrong, and is right",
    "lost": "lost: the vote was right, and is wrong",
    "never": "never right: the vote was wrong, and is",
}


@dataclass(frozen=True, slots=True)
class Became:
    """So many prompts, their share of all, and what they add to the change of pass@1."""

    prompts: int
    share: float
    gain: float


@dataclass(frozen=True, slots=True, eq=False)
class Visit:
    """Of each prompt: the share of its rollouts that are right, and of its most voted answers."""

    pass_P: Floats
    vote_P: Floats

    def of(self, places: Sequence[int]) -> Visit:
        """That of these prompts, in this order."""
        return Visit(self.pass_P[list(places)], self.vote_P[list(places)])


@dataclass(frozen=True, slots=True)
class Learnt:
    """`before` and `after` are pass@1 over `prompts`; `once` prompts were seen once, and are none of them.

    greedy   what the untrained model gets right when it is decoded greedily
    """

    prompts: int
    once: int
    before: float
    after: float
    parts: Mapping[str, Became]
    greedy: Interval | None = None

    def shown(self) -> Shown:
        """Everything as text."""
        gain, most = self.after - self.before, max(PARTS, key=lambda name: self.parts[name].gain)
        own = f"{signed(self.parts[most].gain)} of {signed(gain)} points come from prompts whose vote "
        why = {
            "sharpened": f"Mostly sharpened: {own}was right before.",
            "learnt": f"Mostly learnt: {own}became right.",
        }.get(most, "Neither what was sharpened nor what was learnt gained most.")
        notes = []
        if self.greedy:
            ends = f"{percent(self.greedy.low)} to {percent(self.greedy.high)}"
            notes.append(
                f"Decoding control: decoded greedily, the untrained model is right on {percent(self.greedy.estimate)}% "
                f"({ends})."
            )
        if self.once:
            notes.append(
                f"{self.once:,} labelled prompt{'s were' if self.once > 1 else ' was'} seen once: not counted."
            )
        notes.append("Votes change by chance too, the more so the fewer rollouts they have (docs/report.md).")
        rows = [(PARTS[name], f"{p.prompts:,}", percent(p.share), signed(p.gain)) for name, p in self.parts.items()]
        return Shown(
            f"pass@1 {percent(self.before)}% to {percent(self.after)}%, {signed(gain)} points",
            why if gain > 0 else "pass@1 did not rise.",
            tuple(notes),
            head=("what became of a prompt", "prompts", "% of prompts", "points of pass@1"),
            rows=tuple(rows),
        )


def visit(groups: Groups, correct_R: Floats) -> Visit:
    """What the rollouts of each prompt say; NaN where truth is unknown."""
    leads_A = groups.votes_A == groups.most_votes_P[groups.group_A]
    right_P = groups.sum_by_group(leads_A * right_answers(groups, correct_R))
    vote_P = np.where(known_groups(groups, correct_R), right_P / np.maximum(groups.sum_by_group(leads_A), 1), np.nan)
    return Visit(groups.sum_rollouts(correct_R) / np.maximum(groups.sizes_P, 1), vote_P)


def learnt(before: Visit, after: Visit, *, once: int = 0, greedy_P: Floats | None = None) -> Learnt:
    """The ledger of prompts that were seen before and after; those of which one is not known are left out."""
    known_P = ~np.isnan(before.vote_P + after.vote_P + before.pass_P + after.pass_P)
    was_P, is_P = before.vote_P[known_P] > 0.5, after.vote_P[known_P] > 0.5
    gain_P = (after.pass_P - before.pass_P)[known_P]
    count = max(len(gain_P), 1)
    where = {"sharpened": was_P & is_P, "learnt": ~was_P & is_P, "lost": was_P & ~is_P, "never": ~was_P & ~is_P}
    parts = {
        n: Became(int(at.sum()), float(at.sum() / count), float(gain_P[at].sum() / count)) for n, at in where.items()
    }
    return Learnt(
        len(gain_P),
        once,
        float(before.pass_P[known_P].sum() / count),
        float(after.pass_P[known_P].sum() / count),
        parts,
        None if greedy_P is None else mean_interval(greedy_P[known_P]),
    )
