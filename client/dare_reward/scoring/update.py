"""What a request asks for beside rewards, for the update of the policy: advantages, a selection, and what carries
nothing. `Update` declares the options once: the service's body and URL, the clients and the adapters are made of it.

The order is fixed: select, then take advantages over what is selected, reshape, clip, and say what to drop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal

import numpy as np

from ..advantages import ADVANTAGES, advantages, ddrl_flags, ear, find_advantage, select_ddrl
from ..errors import GroupError, RequestError
from ..estimators.method import Estimate, Method, errors_of
from ..groups import Groups
from ..methods import methods, require_rewards
from ..params import Param, Spec, parameters, resolve
from ..segments import Bools, Floats, Ints
from .diagnostics import leader_probabilities

Labelled = Literal["method", "gt"]  # what rewards a group that has a label


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The options of a request that say what becomes of its rewards."""

    advantage: Annotated[str | None, Param("also return advantages, see docs/advantages.md", le=64)] = None
    selection: Annotated[Literal["ddrl"] | None, Param("train on these rollouts only, see docs/advantages.md")] = None
    selection_size: Annotated[
        int | None, Param("rollouts to select; default: the trained ones where some only vote, else half", ge=1)
    ] = None
    reshape: Annotated[Literal["ear"] | None, Param("reshape the advantages, see docs/advantages.md")] = None
    ear_floor: Annotated[
        float | None, Param("least factor of reshape=ear; null: none, so that signs may change", le=2)
    ] = 0.0
    adv_clip: Annotated[float | None, Param("clip advantages to [-adv_clip, adv_clip], after reshaping", gt=0)] = None
    spans: Annotated[bool, Param("also return where in its text each rollout's answer stands")] = False
    settled: Annotated[float | None, Param("drop a group whose leader_probability is below this", ge=0.5, le=1)] = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Update:
        """The options with the values `given`; RequestError for a wrong one."""
        return cls(**resolve(update_specs(), given))

    @classmethod
    def split(cls, given: Mapping[str, Any]) -> tuple[Update, dict[str, Any]]:
        """The options among `given`, and the rest."""
        names = {s.name for s in update_specs()}
        rest = {k: v for k, v in given.items() if k not in names}
        return cls.of({k: v for k, v in given.items() if k in names}), rest

    def asked(self) -> dict[str, Any]:
        """The options that are not as they are by default."""
        return {k: v for k, v in asdict(self).items() if v != getattr(AS_THEY_ARE, k)}

    @property
    def own(self) -> Method | None:
        """The method whose own advantages these are."""
        named = methods().get(self.advantage or "")
        return named if named is not None and named.advantages else None

    def check(self, method: Method, params: Mapping[str, Any], *, groups: int) -> None:
        """RequestError if the options do not go with the method, its parameters and the number of groups."""
        if self == AS_THEY_ARE:
            return
        for option, code, words in self._conflicts(method, params, groups):
            raise RequestError(words, loc=(option,), code=code)
        if self.advantage is not None and self.own is None:
            find_advantage(self.advantage)
            require_rewards(method, consumer=f"advantage={self.advantage}")

    def _conflicts(self, method: Method, params: Mapping[str, Any], groups: int) -> Iterator[tuple[str, str, str]]:
        """What does not go with what: the place, the rule's code, and what to do."""
        for name, of in (("selection_size", "selection"), ("ear_floor", "reshape")):
            if name in self.asked() and getattr(self, of) is None:
                yield name, "conflict", f"there is no {of}: set {of} too"
        if self.selection is not None and method.selects:
            words = "selects by itself, which selection={} would replace: leave out selection, or choose another method"
            yield "selection", "conflict", f"{method.name} {words.format(self.selection)}"
        if self.selection is not None and (self.own is not None or method.output == "advantages"):
            words = (
                "which are over all trained rollouts: leave out selection, or choose a method that gives rewards and"
            )
            words = f"cannot go with {method.name}'s own advantages, {words} another advantage"
            yield "selection", "conflict", f"selection={self.selection} {words}"
        if self.own is not None and self.own != method:
            words = f"leave out advantage, or score the groups of {method.name} in a request of their own"
            words = f"{self.advantage} is the advantage of the method of that name, not of {method.name}: {words}"
            yield "advantage", "advantage", words
        whole = method.whole_batch
        if self.own is not None and whole is not None and groups == 1 and whole.holds(params):
            words = (
                f"weighs all prompts alike, which undoes {method.name}: send all groups of a step, or {whole.remedy}"
            )
            yield "params", "whole_batch", f"{whole.words} over a single group {words}"
        if self.advantage is None and method.output == "rewards" and (self.reshape or self.adv_clip):
            name = "reshape" if self.reshape else "adv_clip"
            yield name, "conflict", "there are no advantages: set advantage too"

    def over_request(self, method: Method | None, params: Mapping[str, Any]) -> str:
        """What to do instead where the groups of a step cannot come in one request; empty if they can."""
        if self.own is not None and method is not None and method.whole_batch and method.whole_batch.holds(params):
            return method.whole_batch.remedy
        known = ADVANTAGES.get(self.advantage or "")
        if known is not None and known.over == "request":
            return "ask for rewards, and use dare_reward.advantages.advantages on all of them"
        return ""

    def flags(self, method: Method) -> tuple[str, ...]:
        """What a trainer has to know of such a reply."""
        if not method.keeps_scale or self.own is not None:
            return ()
        known = ADVANTAGES.get(self.advantage or "")
        return ("scale_undone",) if known is not None and known.divides else ("centre_only",)


AS_THEY_ARE: Final = Update()
LACKING: Final = "no mean_entropy or token_entropies for {count} rollouts ({where}), for reshape"


@cache
def update_specs() -> tuple[Spec, ...]:
    return parameters(Update)


@dataclass(frozen=True, slots=True, eq=False)
class Updated:
    """Of a batch of groups: advantages (NaN: none), places of the rollouts to train on, why groups carry nothing,
    groups that lack what the options need, and flags of the selection."""

    advantages_R: Floats | None
    second_R: Floats | None
    place_R: Ints | None
    drop_P: Sequence[str | None]
    errors: Mapping[int, GroupError]
    flags_P: Mapping[str, Bools]


def update_groups(
    update: Update, groups: Groups, method: Method, result: Estimate, truth_P: Bools | None = None
) -> Updated:
    """What becomes of the rewards of a request; those of the groups `truth_P` were made of labels."""
    place_R = result.place_R if update.selection is None else select_ddrl(groups, update.selection_size)
    trained_R = groups.trains_R if place_R is None else place_R >= 0
    errors: dict[int, GroupError] = {}
    if update.reshape is not None:
        missing_R = trained_R & ~groups.has("mean_entropy") & (groups.column("num_tokens") != 0)
        errors = errors_of(groups, missing_R, "missing_input", LACKING)
    gain_R = _gains(
        update, groups, method, result, trained_R=trained_R, failed={*result.errors, *errors}, truth_P=truth_P
    )
    final_R = None if gain_R is None else _reshaped(update, groups, trained_R, gain_R)
    second_R = None
    if result.second_R is not None and update.advantage is not None:
        second_R = advantages(update.advantage, result.second_R, second_sizes(groups))
    flags = {} if update.selection is None or place_R is None else ddrl_flags(groups, place_R)
    return Updated(final_R, second_R, place_R, _drops(update, groups, result, trained_R, final_R), errors, flags)


def second_sizes(groups: Groups) -> Ints:
    """Rollouts of each group's `second_group`."""
    view = groups.views.get("second_group")
    return np.zeros(len(groups.sizes_P), np.int64) if view is None else view.pooled.sizes_P - groups.sizes_P


def _gains(
    update: Update,
    groups: Groups,
    method: Method,
    result: Estimate,
    *,
    trained_R: Bools,
    failed: Collection[int],
    truth_P: Bools | None,
) -> Floats | None:
    """Advantages of the trained rollouts of the groups that have rewards, NaN for the others.

    What is over a request is over the label-free groups, and apart over those that labels rewarded: no truth gets into
    the mean or the deviation of a label-free group.
    """
    if update.advantage is None or update.own is not None:
        own_R = result.rewards_R if method.output == "advantages" else result.advantages_R
        wanted = method.output == "advantages" or update.advantage is not None
        return np.where(trained_R, own_R, np.nan) if wanted and own_R is not None else None
    scored_P = np.ones(len(groups.sizes_P), bool)
    scored_P[[*failed]] = False
    gain_R = np.full(len(trained_R), np.nan)
    for part_P in [scored_P] if truth_P is None else [scored_P & ~truth_P, scored_P & truth_P]:
        on_R = part_P[groups.group_R]
        gain_R[on_R] = advantages(
            update.advantage, result.rewards_R[on_R], groups.sizes_P[part_P], trained_R=trained_R[on_R]
        )
    return gain_R


def _reshaped(update: Update, groups: Groups, trained_R: Bools, gain_R: Floats) -> Floats:
    if update.reshape == "ear":
        entropy_R, silent_R = groups.column("mean_entropy"), groups.column("num_tokens") == 0
        told = ear(gain_R, entropy_R, groups.sizes_P, trained_R=trained_R & ~silent_R, floor=update.ear_floor)
        gain_R = np.where(silent_R, gain_R, told)  # without a token there is nothing to reshape
    return gain_R if update.adv_clip is None else np.clip(gain_R, -update.adv_clip, update.adv_clip)


def _drops(
    update: Update, groups: Groups, result: Estimate, trained_R: Bools, gain_R: Floats | None
) -> list[str | None]:
    """The first reason that holds, for each group."""
    if gain_R is None:
        equal_P = groups.all_equal(result.rewards_R, trained_R)
    else:
        equal_P = groups.sum_rollouts(trained_R & (np.nan_to_num(gain_R) != 0)) == 0
    empty_P = groups.support_P == 0
    reasons: dict[str, Bools] = {**result.drop_P, "all_invalid": equal_P & empty_P, "zero_variance": equal_P}
    if update.settled is not None:
        told = [0.0 if p is None else p for p in leader_probabilities(groups)]
        reasons["unsettled"] = np.array(told) < update.settled
    return [held[0] if held else None for held in named(reasons, len(groups.sizes_P))]


def named(conditions: Mapping[str, Bools], groups: int) -> list[tuple[str, ...]]:
    """Of each group the names of the conditions that hold, in their order."""
    names, at = [*conditions], np.array([*conditions.values()]).nonzero()
    out: list[tuple[str, ...]] = [()] * groups
    for n, p in zip(*(places.tolist() for places in at), strict=True):
        out[p] = (*out[p], names[n])
    return out
