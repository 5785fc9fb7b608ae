"""One place scores what several ranks generated: a group may be split over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from ..errors import ServiceError

Row = TypeVar("Row")
Found = TypeVar("Found")


def scored_together(
    rows: Sequence[Row], score: Callable[[list[Row]], list[Found]], *, rank: int, ranks: int
) -> list[Found]:
    """`score` on the rows of all ranks, in rank order, at rank 0; each rank gets what was found of its own rows.

    A failure at rank 0 is everyone's, or the others would wait for ever.
    """
    if ranks == 1:
        return score(list(rows))
    from accelerate.utils import broadcast_object_list, gather_object

    parts: list[Sequence[Row]] = gather_object([rows])
    outcome: list[object] = [None, ""]
    if rank == 0:
        try:
            outcome = [score([row for part in parts for row in part]), ""]
        except Exception as error:  # noqa: BLE001
            outcome = [None, f"{type(error).__name__}: {error}"]
    broadcast_object_list(outcome)
    results, failure = outcome
    if not isinstance(results, list):
        raise ServiceError(str(failure))
    first = sum(map(len, parts[:rank]))
    return results[first : first + len(rows)]
