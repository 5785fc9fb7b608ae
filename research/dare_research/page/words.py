"""Numbers of a contrast in words: no sentence says more than its interval does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dare_reward.commands.methods import markdown

from ..statistics.contrasts import FEWEST_BASES, Contrast, Ends, Judgement, judge

NOTHING = "No record yet."
SCALE = 100  # shares are shown in points


def number(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None or not math.isfinite(value) else format(value, form)


def points(value: float) -> str:
    """A difference of shares, in points."""
    said = f"{SCALE * value:+.1f}"
    return "-" if not math.isfinite(value) else "0.0" if said in {"+0.0", "-0.0"} else said


def percent(value: float) -> str:
    """A share, in points."""
    return "-" if not math.isfinite(value) else f"{SCALE * value:.1f}"


def interval(low: float, high: float) -> str:
    return "-" if not (math.isfinite(low) and math.isfinite(high)) else f"[{points(low)}, {points(high)}]"


def signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+g}" if value else "0"


def estimate_cells(found: Contrast | None) -> list[str]:
    """In points: the estimate, the interval that decides, and the t over bases."""
    if found is None:
        return ["-"] * 3
    return [points(found.estimate), *(interval(e.low, e.high) for e in (found.deciding, found.over_bases))]


def level(found: Contrast | None) -> str:
    """A share with its 95 per cent interval."""
    if found is None:
        return "-"
    ends = found.bootstrap
    return f"{percent(found.estimate)} [{percent(ends.low)}, {percent(ends.high)}]"


def pairs(found: Contrast) -> str:
    return f"{found.pairs} on {found.bases} base{'s' if found.bases != 1 else ''}"


def verdicts(found: Contrast, *, margin: float, p: float | None = None) -> tuple[Judgement, Judgement]:
    """By the interval that decides (with p after a correction), and by the t interval over the means of bases."""
    by_rule = judge(found.deciding, margin=margin, p=found.deciding_p if p is None else p)
    return by_rule, judge(found.over_bases, margin=margin, p=found.p_bases)


def sentence(
    left: str, right: str, found: Contrast | None, *, margin: float, p: float | None = None, what: str = "pass@1"
) -> str:
    """One plain sentence with its numbers."""
    if found is None:
        return f"{left} against {right}: not run."
    judged, firm = verdicts(found, margin=margin, p=p)
    numbers = f"{points(found.estimate)} points of {what}, {_ends(found.deciding)}, {pairs(found)}"
    corrected = ", Holm-corrected" if p is not None else ""
    if judged.word == "undecided":
        few = f" (fewer than {FEWEST_BASES} bases: the t interval decides too)" if found.bases < FEWEST_BASES else ""
        return f"Undecided{corrected}: {left} minus {right} is {numbers}{few}; these runs do not tell which is better."
    if judged.word == "equivalent":
        inner = interval(found.deciding.low90, found.deciding.high90)
        return (
            f"Equivalent: {left} minus {right} is {numbers}; its 90% interval {inner} lies within "
            f"±{SCALE * margin:g} point.{_firmness(judged, firm)}"
        )
    within = f", by less than {SCALE * margin:g} point" if judged.within else ""
    return (
        f"{judged.word.capitalize()}{within}{corrected}: {left} minus {right} is {numbers}.{_firmness(judged, firm, p)}"
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown(head, rows) if rows else NOTHING


def _firmness(judged: Judgement, firm: Judgement, p: float | None = None) -> str:
    if judged.word == firm.word:
        return f" The t interval over base means agrees{', without a correction' if p is not None else ''}."
    return f" The t interval over base means, which allows for how few bases there are, says {firm.word}."


def _ends(ends: Ends) -> str:
    return f"95% {interval(ends.low, ends.high)}" if math.isfinite(ends.low) else "no interval from a single base"
