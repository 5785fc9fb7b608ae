"""The JSON body as strict models, made from the fields that the base layer declares.

They are typed dictionaries, because the base layer takes groups as dictionaries and a model object per rollout would
only be unpacked again. Unknown keys are kept by the parser and refused by the base layer, which names the first one:
pydantic would list every one of a hostile body's hundred thousand.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import Field as Rule
from typing_extensions import TypedDict

from dare_reward._request import KINDS, LIMITS, MAX_WEIGHT, MODES, SOURCES, Limits
from dare_reward.inputs import FIELDS, Field
from dare_reward.reply import Reply

__all__ = ["REQUEST_KEYS", "components", "parser"]

Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _value(field: Field) -> Any:
    if field.type == "bool":
        return bool
    if field.type == "int":
        return Annotated[int, Rule(ge=field.ge, le=field.le)]
    return Annotated[float, Rule(ge=field.ge, le=field.le, allow_inf_nan=False)]


def _list(item: Any) -> Any:
    return list[item]


def _field(field: Field) -> Any:
    value = _value(field)
    if field.shape == "scalar":
        return Annotated[value | None, Rule(description=field.doc)]
    if field.shape == "matrix":
        value = Annotated[_list(value), Rule(min_length=1, fail_fast=True)]
    return Annotated[_list(value) | None, Rule(description=field.doc, fail_fast=True)]


def _dictionary(name: str, keys: dict[str, Any], extra: Literal["allow", "forbid"]) -> Any:
    make: Any = TypedDict
    out = make(name, keys, total=False)
    out.__pydantic_config__ = ConfigDict(strict=True, extra=extra, hide_input_in_errors=True)
    return out


def _body(extra: Literal["allow", "forbid"], limits: Limits) -> TypeAdapter[dict[str, Any]]:
    said: dict[str, Any] = {
        "id": Annotated[str | None, Rule(description="default: the rollout's index")],
        "answer": Annotated[str | None, Rule(description="final answer; wins over text; null: no answer")],
        "text": Annotated[str | None, Rule(description="generated text, from which the answer is extracted")],
        "finish_reason": Annotated[str | None, Rule(description="length: cut off, see the parameter truncated")],
        "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
    }
    answered = _dictionary("AnsweredRollout", said, extra)
    rollout = _dictionary(
        "Rollout",
        {
            **said,
            "trained": Annotated[bool, Rule(description="false: a vote only")],
            "correct": Annotated[bool | None, Rule(description="for diagnostics only")],
            **{f.name: _field(f) for f in FIELDS.values()},
        },
        extra,
    )
    group = _dictionary(
        "Group",
        {
            "group_id": Annotated[Name, Rule(description="default: the group's index")],
            "kind": Annotated[Literal[KINDS] | None, Rule(description="how answers are compared; default math")],
            "options": Annotated[
                list[str] | int | None, Rule(description="kind=choice: letters or their number; default A-J")
            ],
            "prompt": Annotated[str | None, Rule(description="ignored")],
            "label": Annotated[str | None, Rule(description="right answer, for diagnostics only (and method gt)")],
            "reference": Annotated[str | None, Rule(description="for methods that need a reference answer")],
            "prompt_weight": Annotated[
                float | None, Rule(ge=0, le=MAX_WEIGHT, allow_inf_nan=False, description="u_x of restrain")
            ],
            "entropy_source": Annotated[
                Literal[SOURCES] | None, Rule(description="how entropies were made; default exact")
            ],
            "entropy_mode": Annotated[Literal[MODES] | None, Rule(description="distribution that they are of")],
            "rollouts": Required[Annotated[_list(rollout), Rule(min_length=1, max_length=limits.rollouts), FailFast()]],
            "second_group": Annotated[
                _list(answered) | None,
                FailFast(),
                Rule(max_length=limits.rollouts, description="rollouts of a paraphrase, for paired methods"),
            ],
            "teacher_group": Annotated[
                _list(answered) | None,
                FailFast(),
                Rule(max_length=limits.rollouts, description="rollouts of a teacher, for co_rewarding_2"),
            ],
            "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
        },
        extra,
    )
    return TypeAdapter(
        _dictionary(
            "RewardRequest",
            {
                "method": Annotated[str, Rule(description="a name of GET /methods; default: the server's, dare")],
                "params": Annotated[dict[str, Any], Rule(description="parameters of the method, see GET /methods")],
                "run": Annotated[str | None, StringConstraints(max_length=256), Rule(description="label for logs")],
                "step": Annotated[int | None, Rule(ge=0, lt=1 << 63, description="label for logs")],
                "seed": Annotated[int | None, Rule(ge=0, lt=1 << 63, description="for methods that draw")],
                "advantage": Annotated[
                    str | None,
                    StringConstraints(max_length=64),
                    Rule(description="also return advantages, see docs/advantages.md"),
                ],
                "shadow": Annotated[list[str], Rule(description="methods to compare with, in the diagnostics")],
                "answers_version": Annotated[str | None, Rule(description="version that extracted the answers")],
                "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
                "groups": Required[Annotated[_list(group), Rule(max_length=limits.groups), FailFast()]],
            },
            extra,
        )
    )


def parser(limits: Limits) -> TypeAdapter[dict[str, Any]]:
    """What parses a body. Lengths are limited here too, so that a long list is refused before it is built."""
    return _body("allow", limits)


REQUEST_KEYS = frozenset(
    {"method", "params", "run", "step", "seed", "advantage", "shadow", "answers_version", "meta", "groups"}
)


def components() -> tuple[dict[str, Any], dict[str, Any]]:
    """JSON schemas for OpenAPI, by name: of the request body and of the reply (with what they refer to)."""
    template = "#/components/schemas/{model}"
    request = _body("forbid", LIMITS).json_schema(ref_template=template)
    reply = TypeAdapter(Reply).json_schema(ref_template=template, mode="serialization")
    reply["required"].remove("answers_version")  # with detail=rewards there is none
    return request, reply
