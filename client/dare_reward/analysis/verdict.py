"""One verdict from labels: the plain vote, a line that weighs it, or how many labels are missing.

`judge` makes one frozen object. Terminal, report, `measure` and demo show its `Shown`, which holds every figure as
text: none of them computes or rounds one. Every certainty of the file is calibrated (`calibrate`), with a gate that
rises with their number; of those that pass, the one that names most right labels is used, for the share of prompts
whose label is right is what training follows (research/docs/training.md).

    line    train with `line`: certainty tells, and the line labels more prompts right, each by a fit of the others
    vote    train with the vote: certainty tells nothing here, or changes no label for the better
    open    the vote for now: more labels would decide
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any, Literal, Unpack

import numpy as np

from ..errors import counted
from ..groups import Groups
from ..segments import Bools, Floats
from .calibrate import MIXED, WORTH, Calibration, Evidence, Options, changed, evidence, fit, tables, weight_of, winners
from .certainty import ENTROPY, GRID, Certainty, available
from .group_size import BySize, Labeller, by_size
from .power import Power, power
from .shown import Shown, points
from .truth import LABELS, known_groups

Use = Literal["line", "vote", "open"]
# Within-prompt AUROC at which `dare` broke even with the vote in trained models: the estimate, and its interval's end.
EVEN, WEAK = 0.57, 0.60
SHORTER = 0.5  # of the distance from .5: an AUROC that keeps less of it among equally long answers is one of length
FEW_PAIRS = 0.05
VOTES = "plain vote"
LINE = "this line"
OWN = "exponent"  # the column of the exponent that a prompt's label is made by


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to train with, why, and what that rests on.

    use            what to do
    why            one sentence
    more           labels that are missing; 0 unless `use` is open
    calibration    of the certainty to use; of entropy (or the first there is) where none is
    calibrations   of every certainty of the file
    rollouts       right labels by group size; of the line each prompt by the exponent that is best for all others
    power          what these labels could have found
    """

    use: Use
    why: str
    more: int
    warnings: tuple[str, ...]
    calibration: Calibration
    calibrations: tuple[Calibration, ...]
    rollouts: BySize
    power: Power

    @property
    def line(self) -> str:
        """Method and parameters as `dare_reward.methods.read_line` reads them."""
        return self.calibration.params

    @property
    def headline(self) -> str:
        if self.use == "open":
            return f"Not decided: label {self.more} more"
        return "Use this line" if self.use == "line" else "Use the plain vote"

    def shown(self) -> Shown:
        """Everything as text."""
        c = self.calibration
        left = f" {c.left_out:,} more {'lacks' if c.left_out == 1 else 'lack'} {c.certainty}." if c.left_out else ""
        notes = [
            f"{counted(c.prompts, 'labelled prompt')}, {c.mixed} with right and wrong answers.{left}",
            *self.warnings,
        ]
        if c.mixed and c.enough and not isnan(self.power.tested):
            notes.append(
                f"Had {c.certainty} been moderately good (AUROC {self.power.auroc:.2f}), these labels would have "
                f"noticed in {100 * self.power.tested:.0f}% of cases."
            )
        notes.append(
            f"The verdict tests whether {c.certainty} tells right answers from wrong ones. Gains and the table "
            "describe these prompts."
        )
        return Shown(self.headline, self.why, tuple(notes), self.line, *self.rollouts.table())


def judge(groups: Groups, correct_R: Floats, **options: Unpack[Options]) -> Verdict:
    """The verdict of these labels; `correct_R` and the options are those of `calibrate`."""
    weight, seed = weight_of(options), options.get("seed", 0)
    certainties = available(groups, weight)
    every = [evidence(groups, correct_R, tables(groups, c, weight)) for c in certainties]
    vote = ENTROPY.line(0.0, {**changed(ENTROPY, weight), **options.get("reading", {})})
    calibrations = tuple(
        _of_use(fit(groups, correct_R, c, e, tried=len(certainties), **options), vote)
        for c, e in zip(certainties, every, strict=True)
    )
    # Certainties are compared on the prompts that lack none.
    common_P = known_groups(groups, correct_R) & ~np.any([e.found.lacking_P for e in every], axis=0)
    best = _best(calibrations, every, common_P)
    certainty, own = certainties[best], calibrations[best]
    use, why, more = decide(own)
    labellers = _labellers(certainties, weight)
    if use == "line":
        groups = replace(groups, columns_P={**groups.columns_P, OWN: np.array(own.exponents_of_others)})
        labellers[LINE] = lambda part: winners(part, certainty, weight, part.columns_P[OWN][part.group_A])
    return Verdict(
        use,
        why,
        more,
        warnings(own),
        own,
        calibrations,
        by_size(groups, correct_R, labellers, usable_P=common_P, seed=seed),
        power(groups, certainty.of_R(groups), every[best], tried=len(certainties), seed=seed),
    )


def _labellers(certainties: Sequence[Certainty], weight: Mapping[str, Any]) -> dict[str, Labeller]:
    """The vote, and each certainty with exponent 1, which no label of the file chose."""

    def labeller(certainty: Certainty) -> Labeller:
        return lambda groups: winners(groups, certainty, weight, 1.0)

    found: dict[str, Labeller] = {VOTES: lambda groups: groups.first_max(groups.votes_A)}
    for certainty in certainties:
        found[certainty.name + (" (the weight of dare)" if certainty is ENTROPY else "")] = labeller(certainty)
    return found


def _of_use(c: Calibration, vote: str) -> Calibration:
    """The vote, where prompts that are left out of the fit gain nothing by the exponent that is best for the others."""
    return replace(c, exponent=0.0, params=vote) if c.exponent and not c.gain.estimate > 0 else c


def decide(c: Calibration) -> tuple[Use, str, int]:
    """What to use by one certainty, why in a sentence, and how many labels are missing."""
    if c.exponent:
        sure = "more" if c.exponent > 0 else "less"
        gain = f"{points(c.gain)} of label accuracy over the vote here; expect less on other prompts"
        return "line", f"Answers that the model is {sure} sure of are right more often: {gain}.", 0
    if not c.mixed:
        return (
            "open",
            f"Every labelled prompt is all right or all wrong, where {c.certainty} can change nothing.",
            LABELS,
        )
    if not c.enough:
        return (
            "open",
            f"{LABELS} labelled prompts are needed, {MIXED} of them with right and wrong answers.",
            max(LABELS - c.prompts, MIXED - c.mixed),
        )
    if c.informative:
        return "vote", f"{c.certainty.capitalize()} is informative here, but {_in_vain(c)}.", 0
    if not c.telling:
        return (
            "vote",
            f"{c.certainty.capitalize()} weighs right and wrong answers alike, so no line changes a label.",
            0,
        )
    if abs(c.statistic) >= c.gate:
        return "vote", _contradiction(c), 0
    if not c.undecided:
        return (
            "vote",
            f"If the {c.certainty} tells anything here, it is too little for {WORTH} labelled prompts to show.",
            0,
        )
    wanted = c.more if c.more is not None and c.prompts + c.more <= WORTH else max(WORTH - c.prompts, 1)
    return "open", f"These labels are too few to tell a small effect of {c.certainty} from none.", wanted


def _best(calibrations: Sequence[Calibration], every: Sequence[Evidence], common_P: Bools) -> int:
    """Of those to use the one that names most right labels on these prompts; else the first that is informative; else
    the first."""

    def right(i: int) -> float:
        return float(every[i].right_PB[common_P, GRID.index(calibrations[i].exponent)].sum())

    used = [i for i, c in enumerate(calibrations) if c.exponent]
    return max(used, key=right) if used else next((i for i, c in enumerate(calibrations) if c.informative), 0)


def _in_vain(c: Calibration) -> str:
    """Why what is informative changes no label."""
    sign = 1 if c.fitted > 0 else -1
    vain = "we could not show that it labels more prompts right"
    if not c.contended * sign >= c.rival_gate:
        return f"{vain}: it tells the leading answer from rare ones, not from those that could win"
    return f"{vain}: exponents changed it by {points(c.gain)} on prompts that took no part in their fit"


def _contradiction(c: Calibration) -> str:
    """Why a test that passes leads to no exponent."""
    if c.statistic * c.fitted < 0:
        return f"Two measures of {c.certainty} contradict each other: its test (t) and its likeliest exponent."
    hint = " The entropies are small beside eps: try -p eps_scale=0.5." if c.small else ""
    return f"{c.certainty.capitalize()} is informative here, but no exponent is likelier than the vote's.{hint}"


def warnings(c: Calibration) -> tuple[str, ...]:
    """What to know before the line is used, and of methods with a fixed weight."""
    found = []
    away, kept = c.auroc.estimate - 0.5, c.equally_long.estimate - 0.5
    if c.pairs >= FEW_PAIRS and abs(c.auroc.estimate - 0.5) >= WEAK - 0.5 and kept / away < SHORTER:
        found.append(
            f"Length explains much of it: the AUROC of {c.auroc.estimate:.3f} is {c.equally_long.estimate:.3f} among "
            "answers of equal length."
        )
    if c.certainty == ENTROPY.name and c.auroc.estimate < WEAK:
        found.append(
            f"The AUROC within prompts is {c.auroc.estimate:.3f}. In trained models `dare`, whose exponent is 1, broke "
            f"even with the vote at {EVEN:.2f} (0.54 to {WEAK:.2f})."
        )
    return tuple(found)
