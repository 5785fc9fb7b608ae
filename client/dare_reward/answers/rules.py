"""The judgement calls: where two mathematicians would not agree whether two spellings are the same answer."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from ..params import Param


class Rules(NamedTuple):
    """All judgement calls of one request. A tuple, so that the cache hashes it at the speed of C."""

    percent: Annotated[
        Literal["group", "fraction", "distinct"],
        Param(
            "50% against 50: group (the same where no other tag of 50 occurs in the group), "
            "fraction (50% is 0.5), distinct (50% equals only 50%)",
            source="ours",
        ),
    ] = "group"
    units: Annotated[
        Literal["group", "ignore", "distinct"],
        Param(
            "3 cm against 3, also money, degrees, number bases and ratios: group (the same where no other tag of "
            "3 occurs in the group), ignore (the unit is dropped: 3 cm is 3 m), distinct (3 cm equals only 3 cm)",
            source="ours",
        ),
    ] = "group"
    names: Annotated[
        Literal["group", "ignore", "distinct"],
        Param(
            "x = 3 against 3: group (the same where no other name of 3 occurs in the group), "
            "ignore (the name is dropped: x = 3 is y = 3), distinct (x = 3 equals only x = 3)",
            source="ours",
        ),
    ] = "group"
    list_order: Annotated[
        Literal["ignore", "keep"],
        Param("2, 3 against 3, 2, written without brackets: ignore (the same) or keep (not the same)", source="ours"),
    ] = "ignore"
    intervals: Annotated[
        Literal["group", "distinct"],
        Param(
            "(1,2) against 1 < x < 2: group (the same where the group says that it is an interval), "
            "distinct (a pair in round brackets is a point)",
            source="ours",
        ),
    ] = "group"
    significant: Annotated[
        int,
        Param(
            "round real numbers to this many significant digits before they are compared; 0 never rounds", ge=0, le=30
        ),
    ] = 0
    log: Annotated[
        Literal["decimal", "natural"],
        Param(
            r"\log without a base: decimal (\log 100 is 2) or natural (\log e is 1, as in analysis and number theory); "
            r"\ln and \lg keep their own bases",
            source="ours",
        ),
    ] = "decimal"


DEFAULT = Rules()
