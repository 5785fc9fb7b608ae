"""Before training: should entropy weigh the votes of this policy? One verdict, from labelled rollouts.

The front of `calibrate`, compared on label accuracy: the share of prompts whose pseudo-label is right is what training
follows (research/docs/training.md: one step's label accuracy predicts the gain of training).

    use         train with `calibrated_vote` and this exponent
    vote        train with the vote: entropy tells too little here, or its best exponent loses labels
    undecided   the vote for now: more labels would decide
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .._segments import Floats
from ..groups import Groups
from .calibrate import GATE, LEVEL, MINIMUM, WORTH, Calibration, calibrate

__all__ = ["WEAK", "Preflight", "Verdict", "decide", "preflight", "warning"]

Verdict = Literal["use", "vote", "undecided"]
# Within-prompt AUROC at which `dare` broke even with the vote in trained models: the estimate, and its interval's end.
EVEN, WEAK = 0.57, 0.60


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict with its reason, a warning or "", and what both rest on."""

    verdict: Verdict
    reason: str
    warning: str
    calibration: Calibration


def preflight(
    groups: Groups,
    correct_R: Floats,
    *,
    eps: float = 0.05,
    eps_scale: float | None = None,
    u_floor: float = 0.0,
    level: float = LEVEL,
    seed: int = 0,
) -> Preflight:
    """Calibrate and decide; the arguments are those of `calibrate`."""
    found = calibrate(groups, correct_R, eps=eps, eps_scale=eps_scale, u_floor=u_floor, level=level, seed=seed)
    verdict, reason = decide(found)
    return Preflight(verdict, reason, warning(found), found)


def decide(c: Calibration) -> tuple[Verdict, str]:
    """The verdict and its reason."""
    if c.exponent:
        sure = "sure" if c.exponent > 0 else "unsure"
        gain = f"{100 * c.gain.estimate:+.1f} points of label accuracy on prompts without a label"
        return "use", f"the {sure} answer is the likelier one (t = {c.statistic:.1f}); expect {gain}"
    if c.mixed < MINIMUM:
        return "undecided", f"{c.mixed} prompts have right and wrong answers; at least {MINIMUM} are needed"
    if c.vetoed:
        return "vote", f"exponent {c.fitted:g} passes its test and names fewer right labels than the vote"
    if abs(c.statistic) >= GATE:
        return (
            "vote",
            f"test (t = {c.statistic:.1f}) and likelihood (exponent {c.fitted:g}) contradict each other",
        )
    if not c.undecided:
        return (
            "vote",
            f"t = {c.statistic:.1f}: {WORTH} labelled prompts would hardly show so small an effect",
        )
    if c.more is not None and c.prompts + c.more <= WORTH:
        return "undecided", f"t = {c.statistic:.1f} is below {GATE:g}; some {c.more} more labelled prompts would decide"
    return (
        "undecided",
        f"t = {c.statistic:.1f}: too few prompts to tell a small effect from none; label up to {WORTH}",
    )


def warning(c: Calibration) -> str:
    """What to know of methods with a fixed weight."""
    if not c.auroc.estimate < WEAK:
        return ""
    return (
        f"within-prompt AUROC {c.auroc.estimate:.2f} is below {WEAK:.2f}: `dare`, whose exponent is 1, broke even with "
        f"the vote at {EVEN:.2f} (0.54 to {WEAK:.2f}) in trained models"
    )
