"""The JSON body: a strict model of its envelope, and a schema of all of it, from the base layer's declarations.

Groups are checked once, by the base layer, which checks columns; `openapi.json` describes what it checks. Unknown keys
are refused by it too, and it names the first one: pydantic would list every one of a hostile body's hundred thousand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal, Required

import orjson
from pydantic import ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import Field as Rule
from pydantic_core import from_json
from typing_extensions import TypedDict

from dare_reward.inputs import ACCEPTED, ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS, Field
from dare_reward.options import BODY
from dare_reward.params import Spec
from dare_reward.scoring.request import LIMITS

from .problems import RefusalError

# What a request says beside its groups.
_SETTINGS: dict[str, Any] = {
    "params": Annotated[dict[str, Any], Rule(description="parameters of the method, see GET /methods")],
    "answers_version": Annotated[str | None, Rule(description="version that extracted the answers")],
    "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
}


def _option(spec: Spec) -> Any:
    """The model of a setting."""
    kind: Any = Literal[spec.choices] if spec.choices else list[str] if spec.type is tuple else spec.type
    rules: list[Any] = []
    if spec.type is str and not spec.choices and spec.le is not None:
        rules.append(StringConstraints(max_length=int(spec.le)))
    elif not spec.choices:
        rules.append(Rule(ge=spec.ge, gt=spec.gt, le=spec.le, lt=spec.lt))
    return Annotated[kind | None if spec.optional else kind, *rules, Rule(description=spec.doc)]


_SETTINGS = {name: _option(spec) for name, spec in BODY.items()} | _SETTINGS
REQUEST_KEYS = frozenset({*_SETTINGS, "groups"})


def _input(field: Field, rollouts: Any = None) -> Any:
    """The model of one input; `rollouts` is that of its rollouts, if it has any."""
    described = Rule(description=field.doc or None)
    if field.type == "rollouts":
        rules = FailFast(), Rule(min_length=1 if field.required else None, max_length=LIMITS.rollouts), described
        return (
            Required[Annotated[_list(rollouts), *rules]]
            if field.required
            else Annotated[_list(rollouts) | None, *rules]
        )
    value = _value(field)
    if field.ragged or field.shape == "vector":
        if field.shape == "matrix":
            value = Annotated[_list(value), Rule(min_length=1, fail_fast=True)]
        return Annotated[_list(value) | None, Rule(description=field.doc, fail_fast=True)]
    return Annotated[value | None if field.nullable else value, described]


def _value(field: Field) -> Any:
    """One value of an input that is there."""
    if field.type == "bool":
        return bool
    if field.type == "int":
        return Annotated[int, Rule(ge=field.ge, le=field.le)]
    if field.type == "float":
        return Annotated[float, Rule(ge=field.ge, le=field.le, allow_inf_nan=False)]
    if field.type == "choice":
        return Literal[field.choices]
    if field.type == "texts":
        return str | Annotated[list[str], Rule(min_length=1, max_length=ACCEPTED)]
    if field.type == "options":
        return list[str] | int
    if field.type == "object":
        return dict[str, Any]
    if field.length:
        return Annotated[str, StringConstraints(min_length=field.length[0], max_length=field.length[1])]
    return str


def _list(item: Any) -> Any:
    return list[item]


Extra = Literal["allow", "forbid"]


def _dictionary(name: str, keys: dict[str, Any], extra: Extra) -> Any:
    make: Any = TypedDict
    out = make(name, keys, total=False)
    out.__pydantic_config__ = ConfigDict(strict=True, extra=extra, hide_input_in_errors=True)
    return out


def group_model() -> Any:
    answered = _dictionary("AnsweredRollout", {f.name: _input(f) for f in ANSWERED_FIELDS.values()}, "forbid")
    rollout = _dictionary("Rollout", {f.name: _input(f) for f in ROLLOUT_FIELDS.values()}, "forbid")
    keys = {f.name: _input(f, rollout if f.required else answered) for f in GROUP_FIELDS.values()}
    return _dictionary("Group", keys, "forbid")


def _request(group: Any, extra: Extra, *, most: int | None = None) -> TypeAdapter[dict[str, Any]]:
    groups = Required[Annotated[_list(group), Rule(max_length=most), FailFast()]]
    return TypeAdapter(_dictionary("RewardRequest", {**_SETTINGS, "groups": groups}, extra))


class Parser:
    """What reads a body."""

    def __init__(self) -> None:
        self._request = _request(Any, "allow")

    def read(self, text: bytes | bytearray | memoryview) -> dict[str, Any]:
        """The request. RefusalError 400 for what is no JSON, ValidationError for what does not fit the model."""
        content = self._request.validate_python(_parsed(text))
        check_keys(bytes(text) if isinstance(text, memoryview) else text, content)
        return content


_APART = re.compile(rb'"\s++:')


def check_keys(text: bytes | bytearray, content: Mapping[str, Any]) -> None:
    """RefusalError 400 where an object holds a key twice: parsers take the last one, and nobody could tell which is
    meant.

    As many colons as keys means that none stands twice, and costs next to nothing. A body with colons in its texts is
    looked at more closely, and one whose texts look like keys is read again, one object at a time.
    """
    keys = len(content) + len(content.get("params") or ())
    for group in content["groups"] if isinstance(content.get("groups"), list) else ():
        rollouts = group.get("rollouts") if isinstance(group, dict) else None
        if not isinstance(rollouts, list) or not set(map(type, rollouts)) <= {dict}:
            return  # it will be refused for that
        keys += len(group) + sum(map(len, rollouts))
    if keys == text.count(b":") or (keys == text.count(b'":') and not _APART.search(text)):
        return
    try:
        json.loads(text, object_pairs_hook=_once)
    except (UnicodeDecodeError, RecursionError):
        raise RefusalError(400, "not JSON: not UTF-8, or nested too deeply", code="json") from None


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Nothing is kept of an object but that its keys are different."""
    if len(dict(pairs)) < len(pairs):
        left = Counter(key for key, _ in pairs)
        twice = next(key for key, count in left.items() if count > 1)
        raise RefusalError(400, f"the key {twice[:64]!r} stands twice in one object: keep one", code="duplicate_key")


def _parsed(text: bytes | bytearray | memoryview) -> Any:
    """The JSON. What orjson refuses is read again: NaN, Infinity and 1e999 are refused where they stand."""
    with suppress(ValueError):
        return orjson.loads(text)
    try:
        # The cache of strings doubles the time of the longest call, that of a hundred thousand different keys.
        return from_json(bytes(text) if isinstance(text, memoryview) else text, cache_strings=False)
    except ValueError as error:
        raise RefusalError(400, f"not JSON: {error}", code="json") from None


def described() -> TypeAdapter[dict[str, Any]]:
    """The body with the rules that the base layer checks, for openapi.json."""
    return _request(group_model(), "forbid", most=LIMITS.groups)
