"""How many votes are asked for, and by which rule they stop: the options of `settled`, declared once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl

from ..errors import RequestError, unknown_name
from ..estimators.method import Method
from ..inputs import FIELDS, GROUP_FIELDS
from ..methods import methods
from ..params import Param, Spec, parameters, resolve
from ..segments import Bools
from .futures import rewards
from .rules import predictive

RuleName = Literal["predictive", "rewards"]
RULES: Final[Mapping[str, Callable[..., Bools]]] = MappingProxyType({"predictive": predictive, "rewards": rewards})
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """The options of `settled`. The trained rollouts are the first wave; what follows only votes."""

    votes: Annotated[int, Param("rollouts of a group that vote in full, the trained ones included", ge=1, le=1024)] = 64
    rule: Annotated[
        RuleName | None,
        Param(
            "when a group is settled; default: predictive for a method that pays the most voted answer, else rewards"
        ),
    ] = None
    wave: Annotated[int, Param("votes of one further wave", ge=1, le=1024)] = 8
    rule_params: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Self:
        """The options with the values `given`; RequestError for a wrong one."""
        settings = {k: v for k, v in options.items() if k != "rule_params"}
        params = options.get("rule_params") or NOTHING
        if not isinstance(params, Mapping):
            raise RequestError("must be an object", loc=("rule_params",), code="type")
        return cls(**resolve(wave_specs(), settings), rule_params=MappingProxyType(dict(params)))

    @classmethod
    def read(cls, line: str, *, votes: int | None = None) -> Self:
        """Of a line such as `rule=predictive&delta=0.02&wave=4`; `auto` says nothing. `votes` wins over the line's."""
        text = line.strip()
        pairs = [] if text in {"", "auto", "true"} else parse_qsl(text, keep_blank_values=True)
        texts = dict(pairs)
        if len(texts) < len(pairs):
            raise RequestError(
                f"{line[:80]!r}: must be auto, or rule=NAME&PARAMETER=VALUE, each name once",
                loc=("adaptive",),
                code="line",
            )
        known = {s.name: s for s in wave_specs()}
        options = {k: known[k].parse(texts.pop(k), loc=("adaptive",)) for k in list(texts) if k in known}
        if votes is not None:
            options["votes"] = votes
        return cls.of({**options, "rule_params": _typed(options.get("rule"), texts)})

    def rule_of(self, method: Method) -> RuleName:
        """The rule for this method's groups; RequestError if none can foresee it, or if the rule asked for cannot."""
        if why := unforeseen(method):
            others = ", ".join(m.name for m in methods().values() if m.offered and not unforeseen(m))
            raise RequestError(
                f"{method.name} {why}: no rule settles its groups before all votes are in. Leave adaptive voting out, "
                f"or choose a method that has a rule: {others}",
                loc=("method",),
                code="rule",
            )
        if self.rule is None:
            return "rewards" if method.ballots is None else "predictive"
        if self.rule != "rewards" and method.ballots is None:
            raise RequestError(
                f"{self.rule} judges the most voted answer, and {method.name} may pay another one, or more than one: "
                "use rule=rewards",
                loc=("rule",),
                code="rule",
            )
        return self.rule

    def resolved(self, rule: RuleName) -> dict[str, Any]:
        """Each parameter of the rule with its value."""
        return resolve(rule_specs(rule), self.rule_params, loc=("rule_params",))

    def asked(self) -> dict[str, Any]:
        """The options as a request has them."""
        rule = {"rule": self.rule, "rule_params": dict(self.rule_params)}
        return {"votes": self.votes, "wave": self.wave} | {name: value for name, value in rule.items() if value}


def unforeseen(method: Method) -> str:
    """Why no rule can say what votes to come would change for this method; empty if one can.

    A vote to come is foreseen as a copy of a rollout that was seen, and a copy brings an answer and one number of each
    kind: its tokens, an embedding, another group or a label would be made up.
    """
    if method.selects:
        return "chooses the rollouts to train on among all, so that none of them only votes"
    for entry in (*method.requires, *(w.name for w in method.when)):
        options = entry.split("|")
        if not any(_copied(name) for name in options):
            return f"reads {' or '.join(options)}, which cannot be foreseen for votes to come"
    return ""


def _copied(name: str) -> bool:
    if name in FIELDS:
        return FIELDS[name].shape == "scalar"
    return name == "answer" or (name in GROUP_FIELDS and GROUP_FIELDS[name].type != "rollouts" and name != "label")


@cache
def wave_specs() -> tuple[Spec, ...]:
    return parameters(Waves, skip=frozenset({"rule_params"}))


@cache
def rule_specs(rule: str) -> tuple[Spec, ...]:
    """The parameters of a rule."""
    return parameters(RULES[rule])


def _typed(rule: str | None, texts: Mapping[str, str]) -> dict[str, Any]:
    """Parameters of a rule from a line. Without a rule, those that `predictive` and `rewards` share may be set."""
    known = {s.name: s for name in ([rule] if rule else RULES) for s in rule_specs(name)}
    if unknown := texts.keys() - known.keys():
        names = [s.name for s in wave_specs()] + list(known)
        raise RequestError(unknown_name("setting", min(unknown), names), loc=("adaptive",), code="unknown_parameter")
    return {name: known[name].parse(text, loc=("adaptive",)) for name, text in texts.items()}
