"""What a reply has to be before anything of it is handed on.

`read_json` is strict JSON with numbers that are numbers. `check_types` says whether such a body is a reply: COLUMNS and
FACTS declare every field of a group once. Whether that reply answers what was asked, `reply.check_fit` says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from .errors import ReplyError

JSON = Mapping[str, Any]

# A 64-bit integer has at most 20 characters. What is longer is no count, and float() of it may overflow.
LONGEST_INTEGER: Final = 20


def read_json(content: bytes | bytearray | str) -> Any:
    """The JSON value of `content`; ReplyError if there is none, or if a number of it is not finite."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=_refuse)
    except RecursionError:
        raise ReplyError("the reply is nested too deeply") from None
    except ValueError as error:  # of JSON, and of UTF-8
        raise ReplyError(f"the reply is not JSON: {str(error)[:200]}") from None


def _float(text: str) -> float:
    if abs(value := float(text)) > sys.float_info.max:
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def _int(text: str) -> int:
    if len(text) > LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(text)} digits")
    return int(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not a finite number")


# --- types -----------------------------------------------------------------------------------------------------------


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and abs(value) <= sys.float_info.max  # True is not a number; NaN is not <=


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value is, in words and as a test; of a list, also what each of its entries is."""

    words: str
    holds: Callable[[Any], bool]
    each: Rule | None = None


TEXT: Final = Rule("a string", _is_text)
NUMBER: Final = Rule("a finite number", _is_number)
COUNT: Final = Rule("a count", _is_count)
FLAG: Final = Rule("true or false", _is_flag)
OBJECT: Final = Rule("an object", _is_object)


def _is_span(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_count, value)) and value[0] < value[1]


SPAN: Final = Rule("a start and an end", _is_span)


def _or_null(rule: Rule) -> Rule:
    return Rule(f"{rule.words} or null", lambda value: value is None or rule.holds(value), rule.each)


def _list_of(rule: Rule) -> Rule:
    return Rule("a list", lambda value: isinstance(value, list | tuple) and all(map(rule.holds, value)), rule)


def _object_of(rules: Mapping[str, Rule]) -> Rule:
    def holds(value: Any) -> bool:
        return (
            isinstance(value, Mapping)
            and value.keys() == rules.keys()
            and all(rule.holds(value[name]) for name, rule in rules.items())
        )

    return Rule(f"an object of {', '.join(f'{name} ({rule.words})' for name, rule in rules.items())}", holds)


@dataclass(frozen=True, slots=True)
class _Field:
    """What a field of a group is. `full`: only the short form of a reply leaves it out."""

    rule: Rule
    full: bool = False


SUPPORT: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        "answer": TEXT,
        "key": TEXT,
        "count": COUNT,
        **dict.fromkeys(("uncertainty", "p_hat", "p", "bonus", "reward"), _or_null(NUMBER)),
        "kept": FLAG,
    }
)
# One entry per rollout, or per rollout of `second_group`.
COLUMNS: Final[Mapping[str, _Field]] = MappingProxyType(
    {
        "rewards": _Field(NUMBER),
        "keep": _Field(FLAG, full=True),
        "valid": _Field(FLAG, full=True),
        "answers": _Field(_or_null(TEXT), full=True),
        "answer_spans": _Field(_or_null(SPAN)),
        "advantages": _Field(_or_null(NUMBER)),
        "second_rewards": _Field(NUMBER),
        "second_advantages": _Field(NUMBER),
        "token_mask": _Field(_or_null(_list_of(FLAG))),
    }
)
SECOND: Final = frozenset({"second_rewards", "second_advantages"})
FACTS: Final[Mapping[str, _Field]] = MappingProxyType(
    {
        "method": _Field(TEXT, full=True),
        "config_id": _Field(TEXT, full=True),
        "select": _Field(_list_of(COUNT)),
        "drop": _Field(TEXT),
        "pseudo_label": _Field(TEXT),
        "entropy_source": _Field(TEXT, full=True),
        "support": _Field(_list_of(_object_of(SUPPORT)), full=True),
        "flags": _Field(_list_of(TEXT), full=True),
        "diagnostics": _Field(OBJECT, full=True),
    }
)
FIELD_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {**{name: _list_of(f.rule) for name, f in COLUMNS.items()}, **{name: f.rule for name, f in FACTS.items()}}
)
HEAD: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(("method", "config_id", "version"), TEXT),
        "output": Rule("rewards or advantages", lambda value: value in ("rewards", "advantages")),
        "groups": _list_of(OBJECT),
    }
)
HEAD_OPTIONAL: Final[Mapping[str, Rule]] = MappingProxyType(
    {"answers_version": TEXT, "request_id": _or_null(TEXT), "flags": _list_of(TEXT), "diagnostics": OBJECT}
)
ERROR: Final = _object_of({"code": TEXT, "message": TEXT})


def check_types(body: Any) -> None:
    """ReplyError unless `body` is what `Reply.to_json` writes: every field of its type, values or an error."""
    if not isinstance(body, Mapping):
        raise ReplyError("not a reply of this service: no object")
    for name, rule in HEAD.items():
        _check(body.get(name), rule, name)
    for name, rule in HEAD_OPTIONAL.items():
        if name in body:
            _check(body[name], rule, name)
    for p, group in enumerate(body["groups"]):
        _check(group.get("group_id"), TEXT, f"groups[{p}].group_id")
        given = [name for name in FIELD_RULES if group.get(name) is not None]
        for name in given:
            _check(group[name], FIELD_RULES[name], f"groups[{p}].{name}")
        if group.get("error") is not None:
            _check(group["error"], ERROR, f"groups[{p}].error")
            if given:
                raise ReplyError(f"not a reply of this service: groups[{p}] has an error and {given[0]}")


def _check(value: Any, rule: Rule, place: str) -> None:
    if rule.holds(value):
        return
    if rule.each is not None and isinstance(value, list | tuple):
        for i, entry in enumerate(value):
            _check(entry, rule.each, f"{place}[{i}]")
    raise ReplyError(f"not a reply of this service: {place} is not {rule.words}")
