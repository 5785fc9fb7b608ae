"""Why a group is worth reading: for the report and the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..numbers import majority


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


def reasons(line: Mapping[str, Any]) -> dict[str, float]:
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
