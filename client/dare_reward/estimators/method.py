"""What a method is: a pure function `f(groups, *, parameters) -> Estimate`, and what its entry says of it.

Every method that reads `mean_entropy` has the parameter `over`: which tokens say how sure a policy is of an answer,
all, those of the answer, or the last ones. It sees in that column what `over` names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from ..errors import GroupError
from ..groups import Groups, Ragged
from ..inputs import FIELDS, GROUP_FIELDS
from ..params import Spec, parameters, resolve
from ..reply import Output
from ..segments import Bools, Floats, Ints, offsets, segment_means

Certainty = Literal["entropy", "answer_probability"]
PROBABILITY: Final = "answer_probability"

TRACE: Final = "trace"
ANSWER: Final = "answer"
LAST: Final = "last="
FALLBACK: Final = "trace_entropy"  # flag of groups, and share of their answered rollouts, that fell back to the trace
OVER: Final = Spec(
    name="over",
    type=str,
    default=TRACE,
    doc="tokens whose mean entropy counts: all (trace), the answer's and the one that ends it (answer), or the last K "
    "(last=K). A rollout without them counts with its trace",
    source="Eq. 9 has the trace; answer: ours, docs/parameters.md; last: RENT, arXiv:2505.22660",
    pattern=r"trace|answer|last=[1-9][0-9]{0,6}",
    words="trace, answer or last=K with K from 1 on",
)


def last_tokens(over: object) -> int:
    """K of last=K; 0 for anything else."""
    return int(over.removeprefix(LAST)) if isinstance(over, str) and over.startswith(LAST) else 0


def reads_answers(params: Mapping[str, Any]) -> bool:
    """A method with these parameters wants the answer's tokens found."""
    return params.get(OVER.name) == ANSWER or params.get("certainty") == PROBABILITY


def entropies_over(groups: Groups, over: str) -> tuple[Groups, Bools]:
    """The groups with the entropies that `over` names as `mean_entropy`, and the rollouts that lack them: these keep
    the mean of their whole trace."""
    count = last_tokens(over)
    values_R = _means_of_last(groups.generated("token_entropies"), count) if count else groups.column("answer_entropy")
    trace_R = groups.column("mean_entropy")
    missing_R = np.isnan(values_R)
    return groups.with_column("mean_entropy", np.where(missing_R, trace_R, values_R)), missing_R & ~np.isnan(trace_R)


def _means_of_last(tokens: Ragged, count: int) -> Floats:
    """Mean over the last tokens of each rollout, NaN where it has none. Shape [R]."""
    lengths: Ints = np.minimum(tokens.lengths, count)
    inside_T = np.arange(len(tokens.values)) >= np.repeat(offsets(tokens.lengths)[1:] - lengths, tokens.lengths)
    return segment_means(tokens.values[inside_T], lengths)


Evidence = Literal["verified against official code", "from the paper", "ours", "experimental"]


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """What a method says of a batch. Arrays are over rollouts (R), answers (A) or groups (P) of the batch.

    Attributes:
        rewards_R: one finite value per rollout; advantages where the method's output is advantages
        keep_R: the rollout's answer was not pruned
        support_A: columns of the support table: kept, reward, and what the method computes of p_hat, p, bonus,
            uncertainty (NaN: not defined)
        used_entropy_P: entropies entered this group's rewards
        label_A: answers that may be the pseudo-label, if that is not every kept one
        label_P: the pseudo-label as text where no rollout of the group itself may have it (paired groups)
        flags_P: named conditions of a group
        errors: groups that cannot be scored, by index
        second_R: rewards of the second group's rollouts, in the order of its groups
        token_mask: tokens to train on, for the rollouts that sent per-token inputs
        extra_P: further numbers of a group for its diagnostics, NaN where not defined
        extra: further numbers of the request for its diagnostics
        advantages_R: the method's own advantages beside its rewards
        place_R: place of the rollout among those of its group to train on, -1 for the others
        drop_P: why a group carries nothing, beside what is said of any method's (docs/advantages.md)
    """

    rewards_R: Floats
    keep_R: Bools
    support_A: Mapping[str, Floats | Bools]
    used_entropy_P: Bools
    label_A: Bools | None = None
    label_P: tuple[str | None, ...] | None = None
    flags_P: Mapping[str, Bools] = field(default_factory=dict)
    errors: Mapping[int, GroupError] = field(default_factory=dict)
    second_R: Floats | None = None
    token_mask: Ragged | None = None
    extra_P: Mapping[str, Floats] = field(default_factory=dict)
    extra: Mapping[str, float] = field(default_factory=dict)
    advantages_R: Floats | None = None
    place_R: Ints | None = None
    drop_P: Mapping[str, Bools] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Ballots:
    """How the groups vote, for a method that pays the most voted answer.

    groups      the groups, of which only the answers count
    leader_A    the answers that have the label; none or several where a tie leaves it open
    first_wins  at equal votes the answer that was seen first has the label
    """

    groups: Groups
    leader_A: Bools
    first_wins: bool


@dataclass(frozen=True, slots=True)
class When:
    """An input that only some parameters need: `words` say which, `holds` decides."""

    name: str
    words: str
    holds: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class WholeBatch:
    """The method's advantages are over all groups of a step: `words` say by which parameter, `remedy` what to set."""

    words: str
    remedy: str
    holds: Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Method:
    """A registry entry.

    Attributes:
        requires: keys of `dare_reward.Rollout` and `dare_reward.Group`; `a|b` is either.
            With `answer` among them, rollouts without an answer need nothing else.
        when: inputs that only some parameters need
        imputes: required inputs whose absence the function itself deals with
        optional: inputs that it uses where they are there
        advantages: beside rewards it has advantages of its own, for `advantage=NAME` with its name
        pays_one: rewards are 1 for the answer with the label and 0 otherwise, as gt's, and nothing stands beside them,
            unless its parameter `reward` says share
        keeps_scale: the spread of its rewards says how much a prompt counts: dividing by a group's deviation undoes it
        whole_batch: when its own advantages are over all groups of a step
        selects: it says itself which rollouts of a group to train on
        masks: it says itself which tokens of them
        ballots: how the groups vote, if rewards are 1 for the most voted answer and 0 otherwise: its label settles them
        defaults: what a preset changes in the function's own defaults
        cost: what the inputs cost to produce, in words for the documentation
        steps: what its own computation takes of a request's budget, for each group, in steps of about 5 us; None:
            passes over the arrays, which are not counted
        unverified: what could not be checked, in words for the documentation
    """

    name: str
    function: Callable[..., Estimate]
    summary: str
    paper: str
    evidence: Evidence
    requires: tuple[str, ...] = ("answer",)
    when: tuple[When, ...] = ()
    imputes: frozenset[str] = frozenset()
    optional: tuple[str, ...] = ()
    output: Output = "rewards"
    advantages: bool = False
    pays_one: bool = False
    keeps_scale: bool = False
    whole_batch: WholeBatch | None = None
    selects: bool = False
    masks: bool = False
    ballots: Callable[[Groups, Mapping[str, Any]], Ballots] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cost: str = "none: answers are there anyway"
    unverified: str = ""
    steps: Callable[[Groups, Mapping[str, Any]], Iterable[int]] | None = None

    @cached_property
    def specs(self) -> tuple[Spec, ...]:
        """The parameters, with this preset's defaults; of a method that reads entropies also over which tokens."""
        reads = "mean_entropy" in self.requires or any(w.name == "mean_entropy" for w in self.when)
        declared = (*parameters(self.function), *((OVER,) if reads else ()))
        return tuple(replace(s, default=self.defaults[s.name]) if s.name in self.defaults else s for s in declared)

    @property
    def experimental(self) -> bool:
        return self.evidence == "experimental"

    @property
    def offered(self) -> bool:
        """What a user should choose from; the rest is as usable, and listed on demand: presets of another method that
        need nothing of their own, experimental methods, and those that need a reference answer."""
        preset = self.defaults and not any(s.required for s in self.specs)
        return not (self.experimental or preset or "reference" in self.inputs)

    @cached_property
    def inputs(self) -> frozenset[str]:
        """Every input that it may look at, alternatives included."""
        entries = (*self.requires, *(w.name for w in self.when), *self.optional)
        return frozenset(name for entry in entries for name in entry.split("|"))

    def resolve(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return resolve(self.specs, params, loc=("params",))

    def run(self, groups: Groups, params: Mapping[str, Any]) -> Estimate:
        """The estimate with the value of every parameter given; groups that lack an input carry an error."""
        needed = [*self.requires, *(w.name for w in self.when if w.holds(params))]
        others = {k: v for k, v in params.items() if k != OVER.name}
        over = params.get(OVER.name, TRACE)
        if over != TRACE:
            groups, trace_R = entropies_over(groups, over)
        lacking = missing_inputs(
            groups, [n for n in needed if n not in self.imputes], answered="answer" in self.requires
        )
        result = self.function(groups, **others)
        if over != TRACE:
            share_P = groups.mean_rollouts(trace_R, groups.valid_R)
            result = replace(
                result,
                flags_P={**result.flags_P, FALLBACK: share_P > 0},
                extra_P={**result.extra_P, FALLBACK: share_P},
            )
        return replace(result, errors={**result.errors, **lacking}) if lacking else result

    def __call__(self, groups: Groups, **params: Any) -> Estimate:
        return self.run(groups, self.resolve(params))


USABLE: Final = (
    "send a label that an answer can equal (not blank, no empty formula; of a choice, a letter of its options), "
    "or `correct` flags"
)


def missing_inputs(groups: Groups, names: Iterable[str], *, answered: bool) -> dict[int, GroupError]:
    """One error per group that lacks something, which lists all that it lacks.

    Inputs of rollouts are needed of each rollout that generated something; if `answered`, of each that has an answer.
    """
    needed_R = groups.valid_R if answered else groups.column("num_tokens") != 0
    lacks: dict[int, list[str]] = {}
    for entry in names:
        options = entry.split("|")
        if FIELDS.keys().isdisjoint(options) and entry != "label":
            for p in np.flatnonzero(_absent(groups, entry)).tolist():
                lacks.setdefault(p, []).append(f"no {entry}")
            continue
        hint = f": {USABLE}" if entry == "label" else ""
        missing_R = needed_R & ~np.logical_or.reduce([groups.has(n) for n in options])
        for p, count, where in lacking(groups, missing_R):
            lacks.setdefault(p, []).append(f"no {_words(options)} for {count} rollouts ({where}){hint}")
    return {p: GroupError("missing_input", "; ".join(parts)) for p, parts in sorted(lacks.items())}


def lacking(groups: Groups, missing_R: Bools) -> Iterator[tuple[int, int, str]]:
    """Each group in which rollouts are marked: its index, how many they are, and the first ones' indices in words."""
    if not missing_R.any():
        return
    starts = offsets(groups.sizes_P)
    for p in np.flatnonzero(groups.sum_rollouts(missing_R)).tolist():
        at = np.flatnonzero(missing_R[starts[p] : starts[p + 1]])
        yield p, len(at), ", ".join(map(str, at[:8])) + (", ..." if len(at) > 8 else "")


def errors_of(groups: Groups, missing_R: Bools, code: str, words: str) -> dict[int, GroupError]:
    """One error per group with such rollouts. The words may have their {count}, the group's {size} and {where} they
    stand."""
    return {
        p: GroupError(code, words.format(count=count, size=groups.sizes_P[p], where=where))
        for p, count, where in lacking(groups, missing_R)
    }


def _absent(groups: Groups, entry: str) -> Bools:
    """Groups without an input that belongs to a whole group."""
    if entry not in GROUP_FIELDS:
        return np.zeros(len(groups.sizes_P), bool)  # answers: a rollout without one is legal
    if GROUP_FIELDS[entry].type != "rollouts":
        return np.isnan(groups.column_P(entry))
    view = groups.views.get(entry)
    return np.ones(len(groups.sizes_P), bool) if view is None else view.pooled.sizes_P == groups.sizes_P


def _words(options: list[str]) -> str:
    """The inputs, and the per-token inputs that would give them."""
    sources = [f.name for f in FIELDS.values() if f.gives and f.gives[0] in options and f.name not in options]
    return " or ".join([*options, *sources])
