"""The JSON body's envelope: what a request says beside its groups, as a strict model.

Groups are checked once, by the base layer, which checks columns; `openapi.json` describes what it checks. Unknown keys
are refused by it too, and it names the first one: pydantic would list every one of a hostile body's hundred thousand.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required

from pydantic import ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import Field as Rule
from typing_extensions import TypedDict

from dare_reward.options import BODY
from dare_reward.params import Spec


def _option(spec: Spec) -> Any:
    """The model of a setting."""
    kind: Any = Literal[spec.choices] if spec.choices else list[str] if spec.type is tuple else spec.type
    rules: list[Any] = []
    if spec.type is str and not spec.choices and spec.le is not None:
        rules.append(StringConstraints(max_length=int(spec.le)))
    elif not spec.choices:
        rules.append(Rule(ge=spec.ge, gt=spec.gt, le=spec.le, lt=spec.lt))
    return Annotated[kind | None if spec.optional else kind, *rules, Rule(description=spec.doc)]


def strict(name: str, keys: dict[str, Any], extra: Literal["allow", "forbid"]) -> Any:
    """The model of an object with these keys, none of them required by itself."""
    make: Any = TypedDict
    out = make(name, keys, total=False)
    out.__pydantic_config__ = ConfigDict(strict=True, extra=extra, hide_input_in_errors=True)
    return out


ENVELOPE_KEYS: dict[str, Any] = {
    **{name: _option(spec) for name, spec in BODY.items()},
    "params": Annotated[dict[str, Any], Rule(description="parameters of the method, see GET /methods")],
    "answers_version": Annotated[str | None, Rule(description="version that extracted the answers")],
    "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
}
REQUEST_KEYS = frozenset({*ENVELOPE_KEYS, "groups"})
_GROUPS = Required[Annotated[list[Any], FailFast()]]
ENVELOPE: TypeAdapter[dict[str, Any]] = TypeAdapter(
    strict("RewardRequest", {**ENVELOPE_KEYS, "groups": _GROUPS}, "allow")
)
