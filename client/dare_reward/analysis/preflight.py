"""Before training: should entropy weigh the votes of this policy? One verdict, from labelled rollouts.

The front of `calibrate`, compared on label accuracy: the share of prompts whose pseudo-label is right is what training
follows (research/docs/training.md: one step's label accuracy predicts the gain of training).

    use         train with `calibrated_vote` and this exponent
    vote        train with the vote: entropy tells too little here, or no exponent gives better labels
    undecided   the vote for now: more labels would decide
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from ..groups import Groups
from ..segments import Floats
from .calibrate import GATE, LEVEL, MINIMUM, WORTH, Calibration, calibrate

__all__ = ["WEAK", "Preflight", "Verdict", "decide", "preflight", "warnings"]

Verdict = Literal["use", "vote", "undecided"]
# Within-prompt AUROC at which `dare` broke even with the vote in trained models: the estimate, and its interval's end.
EVEN, WEAK = 0.57, 0.60


@dataclass(frozen=True, slots=True)
class Preflight:
    """The verdict with its reason, warnings, and what they rest on."""

    verdict: Verdict
    reason: str
    warnings: tuple[str, ...]
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
    reading: Mapping[str, Any] = MappingProxyType({}),
) -> Preflight:
    """Calibrate and decide; the arguments are those of `calibrate`."""
    found = calibrate(
        groups, correct_R, eps=eps, eps_scale=eps_scale, u_floor=u_floor, level=level, seed=seed, reading=reading
    )
    verdict, reason = decide(found)
    return Preflight(verdict, reason, warnings(found), found)


def decide(c: Calibration) -> tuple[Verdict, str]:
    """The verdict and its reason."""
    if c.exponent:
        sure = "sure" if c.exponent > 0 else "unsure"
        return "use", f"the {sure} answer is the likelier one (t = {c.statistic:.1f}); expect {_gain(c)}"
    if not c.prompts:
        return "undecided", "no labelled prompt can be scored"
    if not c.mixed:
        return "undecided", "every prompt is all right or all wrong: entropy cannot make a label right or wrong here"
    if c.mixed < MINIMUM:
        have = "prompt has" if c.mixed == 1 else "prompts have"
        return "undecided", f"{c.mixed} {have} right and wrong answers; at least {MINIMUM} are needed"
    if not c.telling:
        return "vote", "entropies weigh right and wrong answers alike, so no exponent changes a label"
    if c.vetoed:
        return "vote", f"exponent {c.fitted:g} passes its test and names fewer right labels than the vote"
    if abs(c.statistic) >= GATE:
        return "vote", _passed_in_vain(c)
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


def _gain(c: Calibration) -> str:
    own = f"{100 * c.gain.estimate:+.1f} points of label accuracy on prompts without a label"
    return f"{own}, {100 * c.gain.low:+.1f} to {100 * c.gain.high:+.1f}"


def _passed_in_vain(c: Calibration) -> str:
    """Why a test that passes leads to no exponent."""
    if c.statistic * c.fitted < 0:
        return f"test (t = {c.statistic:.1f}) and likelihood (exponent {c.fitted:g}) contradict each other"
    hint = "; the entropies are small beside eps: try -p eps_scale=0.5" if c.small else ""
    return f"the test passes (t = {c.statistic:.1f}), but no exponent of the grid is likelier than 0{hint}"


def warnings(c: Calibration) -> tuple[str, ...]:
    """An exponent without an expected gain, and what to know of methods with a fixed weight."""
    found = []
    if c.exponent and c.gain.estimate <= 0:
        found.append(
            "no gain is expected: on prompts left out of the fit, the exponent names no more right labels than the "
            "vote. More labels would tell whether the vote is as good."
        )
    if c.auroc.estimate < WEAK:
        found.append(
            f"within-prompt AUROC {c.auroc.estimate:.2f} is below {WEAK:.2f}: `dare`, whose exponent is 1, broke even "
            f"with the vote at {EVEN:.2f} (0.54 to {WEAK:.2f}) in trained models"
        )
    return tuple(found)
