"""Before training: what should weigh the votes of this policy, and how many rollouts? One verdict, from labels.

The front of `calibrate`: every certainty of the file is calibrated, with a gate that rises with their number, and of
those that pass, the one that names most right labels is used: the share of prompts whose pseudo-label is right is what
training follows (research/docs/training.md: one step's label accuracy predicts the gain of training).

    use           train with this method, certainty and exponent
    informative   train with the vote: certainty tells right from wrong answers, but changes no label for the better
    vote          train with the vote: certainty tells too little here
    undecided     the vote for now: more labels would decide
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from ..groups import Groups
from ..segments import Bools, Floats
from .calibrate import (
    CHOSEN,
    CHOSEN_MIXED,
    LABELS,
    LEVEL,
    MIXED,
    WORTH,
    Calibration,
    Tables,
    calibrate,
    changed,
    evidence,
    tables,
)
from .certainty import ENTROPY, GRID, Certainty, available
from .group_size import BySize, Labeller, by_size
from .label_choice import calibration_worth
from .labels import known_groups
from .power import Power, power

Verdict = Literal["use", "informative", "vote", "undecided"]
# Within-prompt AUROC at which `dare` broke even with the vote in trained models: the estimate, and its interval's end.
EVEN, WEAK = 0.57, 0.60
SHORTER = 0.5  # of the distance from .5: an AUROC that keeps less of it among equally long answers is one of length
FEW_PAIRS = 0.05
TIE = 1e-9  # an exponent too small to do anything but break ties
VOTES = "vote"


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict with its reason, warnings, and what they rest on.

    calibration    of the certainty to use; of entropy (or the first there is) where none is
    calibrations   of every certainty of the file
    rollouts       right labels by group size
    power          what these labels could have found
    """

    verdict: Verdict
    reason: str
    warnings: tuple[str, ...]
    calibration: Calibration
    calibrations: tuple[Calibration, ...]
    rollouts: BySize
    power: Power


def preflight(
    groups: Groups,
    correct_R: Floats,
    *,
    eps: float = 0.05,
    eps_scale: float | None = None,
    u_floor: float = 0.0,
    level: float = LEVEL,
    seed: int = 0,
    reading: Mapping[str, Any] = MappingProxyType({}),
    chosen: bool = False,
) -> Preflight:
    """Calibrate and decide; the arguments are those of `calibrate`."""
    weight = {"eps": eps, "eps_scale": eps_scale, "u_floor": u_floor}
    certainties = available(groups, weight)
    calibrations = tuple(
        _of_use(
            calibrate(
                groups,
                correct_R,
                eps=eps,
                eps_scale=eps_scale,
                u_floor=u_floor,
                level=level,
                seed=seed,
                reading=reading,
                certainty=certainty,
                tried=len(certainties),
                chosen=chosen,
            ),
            ENTROPY.line(0.0, {**changed(ENTROPY, weight), **reading}),
        )
        for certainty in certainties
    )
    common_P = _whole(groups, certainties, weight) & known_groups(groups, correct_R)
    best = _best(calibrations, [_right(groups, correct_R, tables(groups, c, weight), common_P) for c in certainties])
    certainty, own = certainties[best], calibrations[best]
    verdict, reason = decide(own)
    by_exponent = tables(groups, certainty, weight)
    e = evidence(groups, correct_R, by_exponent)
    return Preflight(
        verdict,
        reason,
        warnings(own),
        own,
        calibrations,
        by_size(
            groups,
            correct_R,
            _labellers(certainties, weight, certainty, own.exponent),
            usable_P=_whole(groups, certainties, weight) & e.known_P,
            level=level,
            seed=seed,
        ),
        power(
            groups,
            certainty.of_R(groups),
            by_exponent,
            e,
            calibration_worth(groups, eps=eps),
            tried=len(certainties),
            chosen=chosen,
            seed=seed,
        ),
    )


def agreement(groups: Groups, *, weight: Mapping[str, Any], seed: int = 0) -> BySize:
    """Without labels: how far labels of a few rollouts agree with those of all."""
    certainties = available(groups, weight)
    usable_P = _whole(groups, certainties, weight) & (groups.support_P > 0)
    return by_size(groups, None, _labellers(certainties, weight, ENTROPY, 0.0), usable_P=usable_P, seed=seed)


def _whole(groups: Groups, certainties: Sequence[Certainty], weight: Mapping[str, Any]) -> Bools:
    """Groups that lack no certainty."""
    usable_P: Bools = groups.sizes_P > 0
    for certainty in certainties:
        usable_P = usable_P & ~certainty.values(groups, weight)[1]
    return usable_P


def _labellers(
    certainties: Sequence[Certainty], weight: Mapping[str, Any], used: Certainty, exponent: float
) -> dict[str, Labeller]:
    """The vote, ties to the surer answer, each certainty with exponent 1, and what is used."""

    def labeller(certainty: Certainty, b: float) -> Labeller:
        return lambda groups: tables(groups, certainty, weight).winners(groups, b)

    first = certainties[0]
    found: dict[str, Labeller] = {VOTES: lambda groups: groups.first_max(groups.votes_A)}
    found[f"ties by {first.name}"] = labeller(first, TIE)
    for certainty in certainties:
        found[row_of(certainty.name, 1.0)] = labeller(certainty, 1.0)
    if exponent:
        found[row_of(used.name, exponent)] = labeller(used, exponent)
    return found


def row_of(certainty: str, exponent: float) -> str:
    """The name of a row of right labels by rollouts."""
    if exponent == 1:
        return certainty + (" (the weight of dare)" if certainty == ENTROPY.name else "")
    return f"{certainty}, exponent {exponent:g}"


def _of_use(c: Calibration, vote: str) -> Calibration:
    """The vote, where prompts that are left out of the fit gain nothing by the exponent that the others choose."""
    return replace(c, exponent=0.0, params=vote) if c.exponent and not c.gain.estimate > 0 else c


def decide(c: Calibration) -> tuple[Verdict, str]:
    """The verdict of one certainty, and its reason."""
    return ("use", _use(c)) if c.exponent else _without(c)


def _best(calibrations: Sequence[Calibration], right_CB: Sequence[Floats]) -> int:
    """Of those to use the one that names most right labels, by certainty and exponent of GRID; else the first that is
    informative; else the first."""
    used = [i for i, c in enumerate(calibrations) if c.exponent]
    if used:
        return max(used, key=lambda i: right_CB[i][GRID.index(calibrations[i].exponent)])
    return next((i for i, c in enumerate(calibrations) if decide(c)[0] == "informative"), 0)


def _right(groups: Groups, correct_R: Floats, found: Tables, common_P: Bools) -> Floats:
    """The share of right labels by exponent of GRID, over the prompts that lack no certainty: the same for each."""
    right_PB: Floats = evidence(groups, correct_R, found).right_PB[common_P]
    return right_PB.mean(axis=0) if len(right_PB) else np.zeros(len(GRID))


def _use(c: Calibration) -> str:
    sure = "sure" if c.exponent > 0 else "unsure"
    return f"the {sure} answer is the likelier one (t = {c.statistic:.1f}); expect {_gain(c)}"


def _without(c: Calibration) -> tuple[Verdict, str]:
    """The verdict of a calibration that leads to no exponent."""
    if not c.prompts:
        return "undecided", "no labelled prompt can be scored"
    if not c.mixed:
        return "undecided", "every prompt is all right or all wrong: entropy cannot make a label right or wrong here"
    if not c.enough:
        labels, mixed = (CHOSEN, CHOSEN_MIXED) if c.chosen else (LABELS, MIXED)
        hint = "" if c.chosen else f", or {CHOSEN} labels of prompts that `dare-reward label` chooses"
        have = "1 has" if c.mixed == 1 else f"{c.mixed} have"
        return (
            "undecided",
            f"{c.prompts} labelled, of which {have} right and wrong answers; {labels} and {mixed} are needed{hint}",
        )
    if not c.telling:
        return "vote", "entropies weigh right and wrong answers alike, so no exponent changes a label"
    if c.informative:
        return "informative", _in_vain(c)
    if abs(c.statistic) >= c.gate:
        return "vote", _contradiction(c)
    if not c.undecided:
        return "vote", f"t = {c.statistic:.1f}: {WORTH} labelled prompts would hardly show so small an effect"
    if c.more is not None and c.prompts + c.more <= WORTH:
        return (
            "undecided",
            f"t = {c.statistic:.1f} is below {c.gate:.2g}; some {c.more} more labelled prompts would decide",
        )
    return (
        "undecided",
        f"t = {c.statistic:.1f}: too few prompts to tell a small effect from none; label up to {WORTH}",
    )


def _gain(c: Calibration) -> str:
    own = f"{100 * c.gain.estimate:+.1f} points of label accuracy on prompts without a label"
    return f"{own}, {100 * c.gain.low:+.1f} to {100 * c.gain.high:+.1f}"


def _in_vain(c: Calibration) -> str:
    """Why what is informative changes no label."""
    sign = 1 if c.fitted > 0 else -1
    if not c.contended * sign >= c.rival_gate:
        t = f"t = {c.contended:.1f}, {c.rival_gate:.3g} needed" if c.contests > 1 else "too few to test"
        return (
            f"it separates the leading answer from rare ones (t = {c.statistic:.1f}), not from those that could win: "
            f"answers with at least half of the leader's votes differ in {c.contests} prompts ({t})"
        )
    return f"t = {c.statistic:.1f}, but the exponent labels no more prompts right than the vote: expect {_gain(c)}"


def _contradiction(c: Calibration) -> str:
    """Why a test that passes leads to no exponent."""
    if c.statistic * c.fitted < 0:
        return f"test (t = {c.statistic:.1f}) and likelihood (exponent {c.fitted:g}) contradict each other"
    hint = "; the entropies are small beside eps: try -p eps_scale=0.5" if c.small else ""
    return f"the test passes (t = {c.statistic:.1f}), but no exponent of the grid is likelier than 0{hint}"


def warnings(c: Calibration) -> tuple[str, ...]:
    """What to know before the line is used, and of methods with a fixed weight."""
    found = []
    if c.exponent and c.gain.estimate <= 0:
        found.append(
            "no gain is expected: on prompts left out of the fit, the exponent labels no more prompts right than the "
            "vote. More labels would tell whether the vote is as good."
        )
    away, kept = c.auroc.estimate - 0.5, c.equally_long.estimate - 0.5
    if c.pairs >= FEW_PAIRS and abs(c.auroc.estimate - 0.5) >= WEAK - 0.5 and kept / away < SHORTER:
        found.append(
            f"length explains much of it: the AUROC of {c.auroc.estimate:.2f} is {c.equally_long.estimate:.2f} among "
            f"answers of equal length ({100 * c.pairs:.0f}% of the pairs)"
        )
    if c.certainty == ENTROPY.name and c.auroc.estimate < WEAK:
        found.append(
            f"within-prompt AUROC {c.auroc.estimate:.2f} is below {WEAK:.2f}: `dare`, whose exponent is 1, broke even "
            f"with the vote at {EVEN:.2f} (0.54 to {WEAK:.2f}) in trained models"
        )
    return tuple(found)
