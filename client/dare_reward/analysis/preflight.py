"""Before training: will DARE's rewards beat a majority vote with this policy? From some fifty labelled prompts.

The rule, with every interval a percentile bootstrap over prompts at `LEVEL`; difference is gain(dare) - gain(ttrl),
gain the first-order accuracy change of one step (`direction`), AUROC that of entropy within groups:

    rule       use                                         do not use
    auroc      AUROC above 0.5, difference not below 0     AUROC below 0.5, difference not above 0
    gain       difference above 0, AUROC above 0.5         difference below 0
    difference difference above 0                          difference below 0

`difference` is for methods that do not look at entropies, and is taken for them whatever was asked.
"above" and "below" are of whole intervals. Anything else is undecided, and always below `MINIMUM` prompts with right
and wrong rollouts. Rule and level were chosen on one half of the scenarios of a simulation; research/docs/preflight.md
has how often they were right on the other half. On trained language models that is open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from .._segments import Floats, Ints
from ..groups import Groups
from ..methods import find
from .auroc import group_auroc
from .bootstrap import Interval, mean_interval
from .direction import direction_gain, normalised
from .labels import known_groups, mode_answers, right_answers, share_right

__all__ = ["LEVEL", "MINIMUM", "RULE", "RULES", "Preflight", "Rule", "Word", "confident_wrong", "decide", "preflight"]

Rule = Literal["auroc", "gain", "difference"]
RULES: tuple[Rule, ...] = ("auroc", "gain")
RULE: Rule = "auroc"
LEVEL = 0.8
MINIMUM = 20

Word = Literal["use", "do not use", "undecided"]


@dataclass(frozen=True, slots=True)
class Preflight:
    """What was measured and what it says.

    auroc              within-group P(entropy of a right rollout < entropy of a wrong one)
    candidate, rival   first-order gain of each method, per unit step
    difference         candidate minus rival, paired by prompt
    confident_wrong    share of prompts whose most voted answer is wrong and less uncertain than the rest of its group
    mixed              prompts with right and with wrong rollouts: only these say anything
    """

    auroc: Interval
    candidate: Interval
    rival: Interval
    difference: Interval
    confident_wrong: Interval
    prompts: int
    mixed: int
    verdict: Word
    reason: str


def preflight(
    groups: Groups,
    correct_R: Floats,
    *,
    candidate: str = "dare",
    rival: str = "ttrl",
    rule: Rule = RULE,
    level: float = LEVEL,
    seed: int = 0,
) -> Preflight:
    """Measure and decide. Groups with unknown truth, or that a method cannot score, are left out."""
    gains = [_gain(groups, name, correct_R) for name in (candidate, rival)]
    usable_P = ~np.isnan(gains[0]) & ~np.isnan(gains[1])
    kept = [np.where(usable_P, g, np.nan) for g in gains]
    auroc_P = np.where(usable_P, group_auroc(groups, groups.column("mean_entropy"), correct_R), np.nan)
    wrong_P = np.where(usable_P, confident_wrong(groups, correct_R), np.nan)
    auroc, first, second, difference, wrong = (
        mean_interval(v, level=level, seed=seed) for v in (auroc_P, *kept, kept[0] - kept[1], wrong_P)
    )
    share_P = share_right(groups, correct_R)
    mixed = int((usable_P & (share_P > 0) & (share_P < 1)).sum())
    found = Preflight(auroc, first, second, difference, wrong, int(usable_P.sum()), mixed, "undecided", "")
    if not {"mean_entropy", "token_entropies"} & find(candidate).inputs:
        rule, auroc = "difference", replace(auroc, prompts=mixed)
    verdict, reason = decide(auroc, difference, rule=rule, names=(candidate, rival))
    return replace(found, verdict=verdict, reason=reason)


def decide(
    auroc: Interval, difference: Interval, *, rule: Rule = RULE, names: tuple[str, str] = ("dare", "ttrl")
) -> tuple[Word, str]:
    """The verdict and its reason, from the two intervals."""
    one, other = names
    if auroc.prompts < MINIMUM:
        return "undecided", f"{auroc.prompts} prompts have right and wrong rollouts; at least {MINIMUM} are needed"
    more, less = difference.low > 0, difference.high < 0
    low, high = (True, False) if rule == "difference" else (auroc.low > 0.5, auroc.high < 0.5)
    use = low and not less if rule == "auroc" else low and more
    avoid = high and not more if rule == "auroc" else less
    if use:
        cause = "" if rule == "difference" else "right rollouts have the lower entropy, and "
        return "use", f"{cause}one step of {one} gains {_words(difference, other)}"
    if avoid:
        lower = (
            "right rollouts have the higher entropy" if high else f"one step of {one} gains less than one of {other}"
        )
        return "do not use", lower
    if rule != "difference" and ((low and less) or (high and more)):
        return "undecided", "entropy and the gain of one step contradict each other"
    return "undecided", "the intervals are too wide: label more prompts"


def _words(difference: Interval, other: str) -> str:
    return f"more than one of {other}" if difference.low > 0 else f"no less than one of {other}"


def confident_wrong(groups: Groups, correct_R: Floats) -> Floats:
    """1 where the most voted answer is wrong and its mean entropy is below that of the group's other answered rollouts.

    0 elsewhere; NaN where truth is unknown.
    """
    entropy_R = np.nan_to_num(groups.column("mean_entropy"))
    mode_A = mode_answers(groups)
    inside_R = groups.spread(mode_A, fill=False)
    other_R = groups.valid_R & ~inside_R
    means = [
        groups.sum_rollouts(np.where(at, entropy_R, 0.0)) / np.maximum(groups.sum_rollouts(at), 1)
        for at in (inside_R, other_R)
    ]
    wrong_P = groups.sum_by_group(mode_A & (right_answers(groups, correct_R) < 0.5)) > 0
    found_P = wrong_P & (groups.sum_rollouts(other_R) > 0) & (means[0] < means[1])
    return np.where(known_groups(groups, correct_R), found_P.astype(np.float64), np.nan)


def _gain(groups: Groups, name: str, correct_R: Floats) -> Floats:
    found = find(name)(groups)
    gain_P = direction_gain(groups, normalised(groups, found.rewards_R), correct_R)
    failed: Ints = np.array(list(found.errors), np.int64)
    gain_P[failed] = np.nan
    return gain_P
