"""Values of program output: Python and JSON literals, compared as values; anything else as the text that it is.

`[1, 2]` and `[1,2]`, `{'a': 1}` and `{"a": 1}`, `null` and `None` are one value, `'5'` and `5` are two. Blanks and
quotes inside a string count. A text that is no literal is the string with these characters: `ab c` is `'ab c'`.
Nothing is run: the grammar admits constants, brackets and signs, and bounds length and depth before they are parsed.
"""

from __future__ import annotations

import ast
import re

from .._pattern import pattern

LONGEST = 20_000  # characters
DEEPEST = 60  # brackets in brackets
UNPARSED = object()
_TOKEN = pattern(
    r"(?s)(?P<string>[bB]?(?:'(?:[^'\\\n]|\\.)*+'|\"(?:[^\"\\\n]|\\.)*+\"))|(?P<open>[\[({])|(?P<close>[\])}])"
    r"|(?P<plain>(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?j?(?![\w.])|set\(\)|(?:True|False|None)(?!\w)|[,:\s]++)"
    r"|(?P<sign>[-+](?=\s?[\d.]))|(?P<json>(?:true|false|null)(?!\w))"
)
_JSON = {"true": "True", "false": "False", "null": "None"}
_ESCAPE = pattern(r"\\(.)", re.DOTALL)
_ESCAPES = frozenset("\n\\'\"abfnrtvx01234567uUN/")


def literal_value(text: str) -> object:
    """The value that the whole of `text` writes, or `UNPARSED`."""
    text = text.strip()
    found = _scan(text)
    return found[0] if found is not None and found[1] == len(text) else UNPARSED


def leading_literal(text: str) -> str | None:
    """The literal that `text` begins with: `[1, 2]` of "[1, 2], because". A word that is none gives None."""
    found = _scan(text, first=True)
    return None if found is None else text[: found[1]].strip()


def value_text(value: object) -> str:
    """One spelling for equal values: entries of dictionaries and sets in one order, `1.0` as `1`, `True` not as `1`."""
    if isinstance(value, list | tuple):
        left, right = "[]" if isinstance(value, list) else "()"
        return left + ",".join(map(value_text, value)) + right
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{value_text(k)}:{value_text(v)}" for k, v in value.items())) + "}"
    if isinstance(value, set):
        return "set{" + ",".join(sorted(map(value_text, value))) + "}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value) if type(value) is int else repr(value)


def _scan(text: str, *, first: bool = False) -> tuple[object, int] | None:
    """The value and the end of the literal at the start of `text`; `first`: of the first complete one."""
    out: list[str] = []
    depth = at = 0
    closed = False
    while at < min(len(text), LONGEST):
        token = _TOKEN.match(text, at)
        if token is None or (first and closed):
            break
        kind, said = token.lastgroup, token[0]
        depth += (kind == "open") - (kind == "close")
        if not 0 <= depth <= DEEPEST or (not depth and kind == "plain" and said[0] in ",:"):
            break
        out.append(_JSON.get(said, said) if kind == "json" else _escaped(said) if kind == "string" else said)
        at = token.end()
        closed = not depth and not (kind == "sign" or said.isspace())
    if not closed and not (out and not depth):
        return None
    try:
        return ast.literal_eval("".join(out).strip()), at
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def _escaped(string: str) -> str:
    r"""`string` with the backslashes doubled that escape nothing, such as the one of `'\d'`; JSON's `\/` is `/`."""
    if "\\" not in string:
        return string
    return _ESCAPE.sub(lambda m: "/" if m[1] == "/" else m[0] if m[1] in _ESCAPES else "\\" + m[0], string)
