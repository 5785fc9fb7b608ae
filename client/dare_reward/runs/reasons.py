"""Why a group is worth reading: for the report and the page; and for trackers, the table of such groups.

What rollouts wrote is made harmless: trackers render Markdown and HTML, and tables are opened in spreadsheets.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from .._pattern import pattern
from ..answers.classes import listed
from ..errors import printable
from ..numbers import MAJORITY, majority

JSON = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reason:
    """In a few words, and in a sentence."""

    short: str
    meaning: str


# The first to read comes first.
REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "failed": Reason("not scored", "the group could not be scored"),
        "wrong": Reason("confident and wrong", "the label says that a confident majority is wrong"),
        "flip": Reason(
            "a shadow method differs",
            "a shadow method would have chosen another label, or given advantages of the other sign",
        ),
        "pruned": Reason("nothing kept", "every answer was pruned"),
        "tie": Reason("tie", "several answers have the most votes"),
    }
)


def reasons(line: JSON) -> dict[str, float]:
    """Those of REASONS that hold for a line of a run log, in their order, each with how much it does."""
    reply = line["reply"]
    if reply.get("error") is not None:
        return {"failed": 0.0}
    diagnostics, flags = reply.get("diagnostics") or {}, reply.get("flags") or ()
    share = majority(diagnostics)
    out = {}
    if diagnostics.get("label_accuracy") == 0 and share > 0.5:
        out["wrong"] = share
    shadows = [s for s in (diagnostics.get("shadow") or {}).values() if isinstance(s, Mapping) and "error" not in s]
    if shadows and (strength := max(_differs(s) for s in shadows)) > 0:
        out["flip"] = strength
    if "all_pruned" in flags:
        out["pruned"] = float(len(reply.get("support") or ()))
    if "tie" in flags:
        out["tie"] = share
    return out


def _differs(shadow: Mapping[str, Any]) -> float:
    return (1.0 - float(shadow.get("label_agreement", 1.0))) + float(shadow.get("flipped") or 0.0)


MOST_GROUPS: Final = 16
WIDTH: Final = 200  # characters of a cell
SHOWN: Final = 6  # answers of a group in its row


# --- what rollouts wrote ---------------------------------------------------------------------------------------------

FORMULA: Final = ("=", "+", "-", "@", "\n", "＝", "＋", "－", "＠")  # what begins one in a spreadsheet
NUMBER: Final = pattern(r"[+-]?\d+(?:\.\d+)?")
BREAK: Final = "\u200b"  # a space without width: it takes the meaning from a sequence and is not seen
LINKS: Final = pattern(r"(?<=!)(?=\[)|(?<=\])(?=[(:\[])|(?<=:)(?=//)|(?<=www)(?=\.)|(?<=[jJ])(?=avascript)")


def harmless(text: str | None, *, width: int | None = WIDTH) -> str | None:
    """The text for a cell: control characters escaped, HTML quoted, links and images of Markdown broken, no formula.

    None stays None. What is longer than `width` is cut.
    """
    if text is None:
        return None
    cut = text if width is None or len(text) <= width else text[: width - 3] + "..."
    quoted = LINKS.sub(BREAK, html.escape(printable(cut, keep="\n"), quote=False)).replace("`", "'")
    return f"'{quoted}" if quoted.startswith(FORMULA) and not NUMBER.fullmatch(quoted) else quoted


COLUMNS: Final = (
    "group_id", "pseudo_label", "label", "right", MAJORITY, "answers", "flags", "why", "prompt",
)  # fmt: skip


def worth_reading(lines: Sequence[JSON], most: int = MOST_GROUPS) -> list[tuple[JSON, str]]:
    """The groups of a step to read first, with the reason, which is empty for those that are there to fill up."""
    order = [*REASONS, ""]
    why = [next(iter(reasons(line)), "") for line in lines]
    ranked = sorted(range(len(lines)), key=lambda i: (order.index(why[i]), i))
    return [(lines[i], why[i] and REASONS[why[i]].short) for i in ranked[:most]]


def table_rows(groups: Sequence[tuple[JSON, str]]) -> list[dict[str, Any]]:
    """A row with COLUMNS for each group of `worth_reading`."""
    return [_row(line, why) for line, why in groups]


def _row(line: JSON, why: str) -> dict[str, Any]:
    reply = line["reply"]
    diagnostics, error = reply.get("diagnostics") or {}, reply.get("error") or {}
    right = diagnostics.get("label_accuracy")
    return {
        "group_id": harmless(str(reply.get("group_id"))),
        "pseudo_label": harmless(reply.get("pseudo_label")),
        "label": harmless(" or ".join(listed(line.get("label"))) or None),
        "right": None if right is None else bool(right),
        MAJORITY: diagnostics.get(MAJORITY),
        "answers": _answers(reply.get("support") or ()),
        "flags": ", ".join(reply.get("flags") or ()),
        "why": harmless(f"{why}: {error.get('code')}") if error else why,
        "prompt": harmless(line.get("prompt")),
    }


def _answers(support: Sequence[JSON]) -> str:
    """`204: 31 votes, reward 0.52; 17: 3 votes, pruned`, most votes first."""
    ordered = sorted(support, key=lambda s: -s["count"])
    parts = []
    for row in ordered[:SHOWN]:
        reward = "" if row.get("reward") is None else f", reward {row['reward']:.3g}"
        parts.append(f"{row['answer'][:40]}: {row['count']} votes{reward if row.get('kept') else ', pruned'}")
    more = [f"{len(ordered) - SHOWN} more"] if len(ordered) > SHOWN else []
    return harmless("; ".join(parts + more), width=8 * WIDTH) or ""
