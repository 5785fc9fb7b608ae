"""By which method and parameters each group of a request is scored: the request's, or its own.

A group's `params` stand beside the request's if it has the request's method, and alone if it has another. How answers
are read and compared is the whole request's. Labels reach the groups of a method that asks for them, and no other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..answers.rollouts import ANSWER_SPECS
from ..errors import RequestError
from ..groups import Groups
from ..methods import Configured, find, settle
from ..segments import Bools
from .update import Update

JSON = Mapping[str, Any]
ANSWERS = frozenset(s.name for s in ANSWER_SPECS)


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The configurations of a request, and which of them each group has; all have the first without `at_P`."""

    configured: tuple[Configured, ...]
    at_P: tuple[int, ...] | None = None

    def parts(self, groups: int) -> Iterator[tuple[Configured, Bools]]:
        """Each configuration with its groups."""
        at_P = np.zeros(groups, np.int64) if self.at_P is None else np.array(self.at_P, np.int64)
        for i, configured in enumerate(self.configured):
            yield configured, at_P == i

    def check(self, update: Update) -> None:
        """RequestError if the configurations do not go into one step."""
        outputs = {c.method.output: c.method.name for c in self.configured}
        if len(outputs) > 1:
            names = " and ".join(f"{output} ({name})" for output, name in sorted(outputs.items()))
            raise RequestError(
                f"the groups of a request give one thing, here they give {names}: send them in two requests, or choose "
                "methods of one output",
                loc=("groups",),
                code="output",
            )
        if len(self.configured) > 1 and update.own is not None:
            for configured in self.configured:
                whole = configured.method.whole_batch
                if whole is not None and whole.holds(configured.values):
                    raise RequestError(
                        f"{whole.words} is over groups of one configuration, and these have several: {whole.remedy}",
                        loc=("groups",),
                        code="whole_batch",
                    )


def plan_of(
    groups: Sequence[JSON] | Groups, base: Configured, params: Mapping[str, Any], seed: int | None, *, most: int
) -> Plan:
    """What each of at most `most` groups asks for; `base` is the request's own, settled from `params`."""
    if isinstance(groups, Groups) or not isinstance(groups, Sequence) or not any(map(is_own, groups)):
        return Plan((base,))
    if len(groups) > most:  # it will be refused for that, so nothing is settled for it
        return Plan((base,))
    places: dict[Hashable, int] = {}
    by_id: dict[str, int] = {}
    configured: list[Configured] = []
    at_P = []
    for p, group in enumerate(groups):
        key = _key(group, p) if is_own(group) else None
        if key not in places:
            one = base if key is None else _settled(group, p, base, params, seed)
            places[key] = by_id.setdefault(one.id, len(configured))
            if places[key] == len(configured):
                configured.append(one)
        at_P.append(places[key])
    return Plan(tuple(configured), tuple(at_P))


def request_config_id(ids: Sequence[str]) -> str:
    """The one configuration's, or the sha256 of all."""
    different = sorted(set(ids))
    if len(different) == 1:
        return different[0]
    return hashlib.sha256(json.dumps(different, separators=(",", ":")).encode()).hexdigest()


def is_own(group: Any) -> bool:
    """The group has a method or parameters of its own."""
    return isinstance(group, Mapping) and (group.get("method") is not None or bool(group.get("params")))


def _key(group: JSON, p: int) -> Hashable:
    params = group.get("params") or {}
    if not isinstance(params, Mapping):
        raise RequestError("must be an object", loc=("groups", p, "params"), code="type")
    name = group.get("method")
    if name is not None and not isinstance(name, str):
        raise RequestError("must be a string or null", loc=("groups", p, "method"), code="type")
    key = (name, frozenset((k, type(v), v) for k, v in params.items() if isinstance(v, Hashable)))
    return key if len(key[1]) == len(params) else p  # what holds a list is refused, when it is settled


def _settled(group: JSON, p: int, base: Configured, params: Mapping[str, Any], seed: int | None) -> Configured:
    of_group = group.get("params") or {}
    if answers := sorted(ANSWERS & of_group.keys()):
        raise RequestError(
            f"{answers[0]} says how answers are read, which is one for the whole request: set it there",
            loc=("groups", p, "params"),
            code="parameter",
        )
    try:
        name = base.method.name if group.get("method") is None else find(group["method"]).name
        inherited = params if name == base.method.name else {k: v for k, v in params.items() if k in ANSWERS}
        return settle(name, {**inherited, **of_group}, seed=seed)
    except RequestError as error:
        raise RequestError(error.message, loc=("groups", p, *error.loc), code=error.code) from None
