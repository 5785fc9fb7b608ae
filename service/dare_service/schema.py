"""The JSON body: a strict model of its envelope, and a schema of all of it, from the base layer's declarations.

Groups are checked once, by the base layer, which checks columns; `openapi.json` describes what it checks. Unknown keys
are refused by it too, and it names the first one: pydantic would list every one of a hostile body's hundred thousand.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import Field as Rule
from typing_extensions import TypedDict

from dare_reward.inputs import ACCEPTED, ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS, Field
from dare_reward.options import BODY
from dare_reward.params import Spec
from dare_reward.scoring.request import LIMITS

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


# What may stand in the place of a text: a number, and the parts of a chat reply.
_STAND_FOR_TEXT: dict[str, Any] = {
    "answer": Annotated[float, Rule(allow_inf_nan=False)],
    "text": list[dict[str, Any]],
}


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
    if field.name in _STAND_FOR_TEXT:
        return str | _STAND_FOR_TEXT[field.name]
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


ENVELOPE = _request(Any, "allow")


def described() -> TypeAdapter[dict[str, Any]]:
    """The body with the rules that the base layer checks, for openapi.json."""
    return _request(group_model(), "forbid", most=LIMITS.groups)
