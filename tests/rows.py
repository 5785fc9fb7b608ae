"""One test over many rows: every row is checked, and every row that fails is reported."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest


def each(names: str | tuple[str, ...], rows: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, for rows that are too many and too small for a test each.

    Parameters that `names` does not have stay those of the test: fixtures, further rows.
    """
    fields = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [row if len(fields) > 1 else (row,) for row in rows]
    assert table, "no rows"

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(**others: Any) -> None:
            failed = []
            for number, row in enumerate(table):
                given = dict(zip(fields, row, strict=True))
                try:
                    check(**given, **others)
                except (Exception, pytest.fail.Exception) as error:
                    why = f"{type(error).__name__}: {error}".replace("\n", "\n    ")
                    failed.append(f"row {number}, {given!r}\n    {why}")
            if failed:
                text = "\n".join(failed).encode("utf-8", "backslashreplace").decode()
                pytest.fail(f"{len(failed)} of {len(table)} rows\n{text}", pytrace=False)

        signature = inspect.signature(check)
        left = [parameter for name, parameter in signature.parameters.items() if name not in fields]
        test.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
