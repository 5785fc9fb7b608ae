"""Parameters of pure functions, declared once, in the function's own signature.

    def f(x: Array, *, eps: Annotated[float, Param("Eq. 10", ge=0)] = 0.05, weight: Literal["a", "b"] = "a"): ...

`parameters(f)` reads name, type, default, range and documentation from there; validation of requests, `GET /methods`,
the command line and the docs table are all made from what it returns.
"""

from __future__ import annotations

import inspect
import math
import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import numpy as np

from .errors import RequestError, unknown_name

REQUIRED: Any = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Param:
    """What a signature cannot say by itself.

    Attributes:
        doc: what the parameter means
        ge: it is at least this
        gt: it is greater
        le: it is at most this; the greatest length of a text
        lt: it is less
        source: where the default comes from: an equation, a paper, official code
    """

    doc: str
    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec(Param):
    """One parameter: `type` is float, int, bool, str or tuple (different names); `choices` are the literal values of a
    str or int, `le` is the length of a str at most, and `words` say what its `pattern` allows."""

    name: str = ""
    type: type
    default: Any
    choices: tuple[Any, ...] = ()
    optional: bool = False
    pattern: str = ""
    words: str = ""

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def accepts(self) -> str:
        """The accepted values in words, for documentation and errors."""
        if self.choices:
            words = "one of " + ", ".join(map(str, self.choices))
        elif self.pattern:
            words = self.words
        elif self.type is bool:
            words = "true or false"
        elif self.type is tuple:
            words = "different names, between commas or blanks"
        elif self.type is str:
            words = "a string" if self.le is None else f"a string of at most {self.le} characters"
        else:
            bounds = ((">=", self.ge), (">", self.gt), ("<=", self.le), ("<", self.lt))
            told = " and ".join(f"{sign} {bound:.10g}" for sign, bound in bounds if bound is not None)
            words = f"{'a finite number' if self.type is float else 'an integer'} {told}".strip()
        return words + (" or null" if self.optional else "")

    def check(self, value: Any, *, loc: Sequence[str | int] = ()) -> Any:
        """`value` as this parameter's type, or RequestError with the accepted values."""
        if value is None and self.optional:
            return None
        good, value = self._typed(value)
        if not good or not self._in_range(value) or (self.choices and value not in self.choices):
            raise RequestError(f"must be {self.accepts}", loc=(*loc, self.name), code="parameter")
        return value

    def parse(self, text: str, *, loc: Sequence[str | int] = ()) -> Any:
        """The value that `text` writes, as in a query string."""
        if self.optional and text.lower() in {"null", "none"}:
            return None
        try:
            value = (
                tuple(text.replace(",", " ").replace("+", " ").split())
                if self.type is tuple
                else {"true": True, "false": False, "1": True, "0": False}[text.lower()]
                if self.type is bool
                else self.type(text if self.type is str or (text.isascii() and "_" not in text) else "")
            )  # Python takes 0_05 and the digits of other scripts for numbers
        except (KeyError, ValueError):
            if self.type is float and re.fullmatch(r"-?\d*,\d+", text):
                message = f"has a decimal comma; write {text.replace(',', '.')}"
                raise RequestError(message, loc=(*loc, self.name), code="parameter") from None
            value = math.nan
        return self.check(value, loc=loc)

    def _typed(self, value: Any) -> tuple[bool, Any]:
        value = value.item() if isinstance(value, np.generic) else value
        if self.type is bool or isinstance(value, bool):
            return self.type is bool and isinstance(value, bool), value
        if isinstance(value, int) and abs(value) >= 1 << 63:
            return False, value
        if self.type is float and isinstance(value, int):
            return True, float(value)
        if self.type is tuple:
            good = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
            return good and len({*value}) == len(value), tuple(value) if good else value
        return isinstance(value, self.type), value

    def _in_range(self, value: Any) -> bool:
        if isinstance(value, str):
            short = self.le is None or len(value) <= self.le
            return short and (not self.pattern or re.fullmatch(self.pattern, value) is not None)
        if not isinstance(value, int | float):
            return True
        return (
            math.isfinite(value)
            and (self.ge is None or value >= self.ge)
            and (self.gt is None or value > self.gt)
            and (self.le is None or value <= self.le)
            and (self.lt is None or value < self.lt)
        )


@cache  # reading hints takes 0.5 ms, and every request asks
def parameters(function: Callable[..., object], *, skip: frozenset[str] = frozenset()) -> tuple[Spec, ...]:
    """The keyword-only parameters of `function`, or the fields of a tuple, except those in `skip`.

    Before them come those of `g` where it passes further keywords on to it: `**further: Annotated[Any, g]`.
    """
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function).parameters.values()
    further = (hints[p.name].__metadata__[0] for p in signature if p.kind is p.VAR_KEYWORD and p.name in hints)
    declared = (p for p in signature if (p.kind is p.KEYWORD_ONLY or isinstance(function, type)) and p.name not in skip)
    return (
        *(spec for other in further for spec in parameters(other, skip=skip)),
        *(_spec(p.name, hints[p.name], p.default) for p in declared),
    )


def query_texts(query: str, *, loc: Sequence[str | int] = ("query",)) -> dict[str, str]:
    """What a URL's query, or a line in its form, says by name; RequestError for a name that stands twice."""
    out: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in out:
            raise RequestError(f"{name[:64]!r} is given twice", loc=loc, code="duplicate")
        out[name] = value
    return out


def parse(specs: Iterable[Spec], texts: Mapping[str, str], *, loc: Sequence[str | int] = ()) -> dict[str, Any]:
    """The values that `texts` write, checked. Unknown names are an error."""
    known = {s.name: s for s in specs}
    _check_known(known, texts, loc)
    return {name: known[name].parse(text, loc=loc) for name, text in texts.items()}


def resolve(specs: Sequence[Spec], values: Mapping[str, Any], *, loc: Sequence[str | int] = ()) -> dict[str, Any]:
    """Every parameter's value: checked where `values` has it, its default elsewhere. Unknown names are an error."""
    _check_known([s.name for s in specs], values, loc)
    if missing := [s for s in specs if s.default is REQUIRED and s.name not in values]:
        names, docs = (", ".join(s.name for s in missing), "; ".join(s.doc for s in missing))
        raise RequestError(f"missing: {names} ({docs})", loc=loc, code="missing_parameter")
    return {s.name: s.check(values[s.name], loc=loc) if s.name in values else s.default for s in specs}


def _check_known(known: Collection[str], names: Iterable[str], loc: Sequence[str | int]) -> None:
    for name in names:
        if name not in known:
            message = unknown_name("parameter", name, known, listed=True)
            raise RequestError(message, loc=loc, code="unknown_parameter")


def _spec(name: str, hint: Any, default: Any) -> Spec:
    param = Param("")
    if get_origin(hint) is Annotated:
        hint, *extra = get_args(hint)
        param = next((e for e in extra if isinstance(e, Param)), param)
    optional = get_origin(hint) in {Union, types.UnionType} and type(None) in get_args(hint)
    if optional:
        hint = next(a for a in get_args(hint) if a is not type(None))
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    kind = type(choices[0]) if choices else get_origin(hint) or hint
    return Spec(**asdict(param), name=name, type=kind, default=default, choices=choices, optional=optional)
