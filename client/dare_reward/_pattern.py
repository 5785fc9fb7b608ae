"""Regular expressions that are compiled at their first use.

The package declares some 300, and a process needs the few that its texts reach: compiling all of them would cost each
start 0.1 s.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, Final, cast

METHODS: Final = ("match", "fullmatch", "search", "finditer", "findall", "sub", "subn", "split")


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """`re.compile`, later. re.error for a wrong one comes at its first use: a test compiles all."""
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """The methods of a compiled pattern; an empty slot asks `__getattr__`, which fills them all, once."""

    __slots__ = ("flags", "text", *METHODS)

    def __init__(self, text: Any, flags: int) -> None:
        self.text, self.flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name not in METHODS:
            raise AttributeError(name)
        compiled = re.compile(self.text, self.flags)
        for method in METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)
