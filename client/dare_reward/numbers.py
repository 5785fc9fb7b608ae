"""Every number of a group and of a step, declared once.

A group's reply, OpenRLHF's log, the scalars of trackers and adapters, the columns, tiles and charts of the report and
of the page, and the tables of the docs are made of `NUMBERS`. To add a number that shows in all of them, add an entry.

A number of a group is a sum and its weight; those of a step are the sums over its groups, and its value is their ratio.
Shapes: _R rollouts, _P prompts. What is not known is NaN in a column, and weighs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, Self

import numpy as np

from .analysis.auroc import group_auroc
from .analysis.passk import pass_at_k
from .answers.rollouts import UNFINISHED
from .segments import Bools, Floats, Ints

Line = Mapping[str, Any]  # of a run log: a group, and its reply as JSON under `reply`
Sums = tuple[Floats, Floats]  # of a number's values and of their weights, a group each
Tone = Literal["main", "other", "good", "bad", "warn", "quiet"]
MAJORITY: Final = "majority_ratio"  # the one number of a group by which others are told apart and sorted
EQUAL: Final = 1e-12  # rewards whose standard deviation is at most this are equal
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
OF_ROLLOUT: Final = frozenset({"trained", "mean_entropy", "num_tokens", "correct", "finish_reason"})
# Of a rollout: it has an answer; this was not pruned; its reward; it trains, the others only vote; the mean over its
# tokens, in nats; and whether it has the pseudo-label, NaN without an answer.
ROWS: Final = ("valid", "keep", "rewards", "trained", "mean_entropy", "num_tokens", "truncated", "correct", "agrees")


class Columns:
    """Scored groups as columns over their rollouts and groups."""

    def __init__(self, groups: Sequence[GroupNumbers]) -> None:
        rows = np.concatenate([np.zeros((len(ROWS), 0)), *[group.rows for group in groups]], axis=1)
        valid_R, self.keep_R, self.rewards_R, trained_R, self.mean_entropy_R, self.num_tokens_R, *rest = rows
        self.truncated_R, self.correct_R, self.agrees_R = rest  # by ROWS
        self.valid_R: Bools = valid_R > 0
        self.trained_R: Bools = trained_R != 0  # by default it trains
        self.sizes_P: Ints = np.array([group.rows.shape[1] for group in groups], np.int64)
        self.group_R = np.repeat(np.arange(len(groups)), self.sizes_P)
        self.distinct_P = np.array([group.distinct for group in groups], np.float64)
        self.dropped_P = np.array([group.dropped for group in groups], np.float64)
        self.diagnostics_P = [group.diagnostics for group in groups]

    def sum(self, values_R: Any) -> Floats:
        """Over the rollouts of each group."""
        filled_P, sums_P = self.sizes_P > 0, np.zeros(len(self.sizes_P))
        starts_P = np.cumsum(self.sizes_P) - self.sizes_P
        sums_P[filled_P] = np.add.reduceat(values_R, starts_P[filled_P], dtype=np.float64)
        return sums_P

    @cached_property
    def reward_std_P(self) -> Floats:
        """Population deviation over the trained rollouts; what differs by rounding is equal."""
        on_R = self.trained_R & ~np.isnan(self.rewards_R)
        number_P = self.sum(on_R)
        count_P = np.maximum(number_P, 1)
        mean_P = self.sum(np.where(on_R, self.rewards_R, 0.0)) / count_P
        square_P = self.sum(np.where(on_R, (self.rewards_R - mean_P[self.group_R]) ** 2, 0.0)) / count_P
        deviation_P = np.where(square_P > EQUAL**2, np.sqrt(square_P), 0.0)
        return np.where(number_P > 0, deviation_P, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class GroupNumbers:
    """What the numbers of a scored group are made of.

    rows   of what is known of its rollouts, one for each of ROWS: NaN where there is not an entry for each of them
    """

    rows: Floats
    distinct: int | None
    dropped: bool
    diagnostics: Mapping[str, Any]

    @classmethod
    def of(cls, line: Line) -> Self:
        """Of a group with its reply. AttributeError, TypeError or ValueError for a line that somebody edited."""
        reply = line.get("reply") or NOTHING
        sent, diagnostics = line.get("rollouts") or (), reply.get("diagnostics") or NOTHING
        known = {name: reply.get(name) or () for name in ("valid", "keep", "rewards")}
        known |= {name: [r.get(name) for r in sent] for name in set[str]().union(*sent) & OF_ROLLOUT}
        known |= {"agrees": _agreement(reply), "truncated": _cut_off(known.get("finish_reason", ()))}
        rows = np.full((len(ROWS), len(known["valid"])), np.nan)
        for row, values in zip(rows, map(known.get, ROWS), strict=True):
            if values is not None and len(values) == len(row):
                row[:] = values
        said = {k: float(v) if k in BY_NAME else v for k, v in diagnostics.items() if v is not None}
        distinct = None if (support := reply.get("support")) is None else len(support)
        return cls(rows, distinct, reply.get("drop") is not None, said)


def _agreement(reply: Line) -> Sequence[bool | None]:
    """Whether each has the pseudo-label; nothing where there is none."""
    answers, label = reply.get("answers") or (), reply.get("pseudo_label")
    return () if label is None else [None if answer is None else answer == label for answer in answers]


def _cut_off(ends: Sequence[Any]) -> Sequence[bool]:
    """Whether each was cut off; nothing where no rollout of the group says how it ended."""
    return () if ends.count(None) == len(ends) else [str(end).casefold() in UNFINISHED for end in ends]


# --- formulas --------------------------------------------------------------------------------------------------------

Formula = Callable[[Columns], Sums]


def _over_rollouts(values: Callable[[Columns], Any], among: Callable[[Columns], Any] | None = None) -> Formula:
    """The mean over the rollouts of all groups that have the value, and are `among` these."""

    def formula(c: Columns) -> Sums:
        values_R = values(c)
        known_R = ~np.isnan(values_R) if among is None else ~np.isnan(values_R) & among(c)
        if not known_R.any():
            return np.zeros(len(c.sizes_P)), np.zeros(len(c.sizes_P))
        return c.sum(np.where(known_R, values_R, 0.0)), c.sum(known_R)

    return formula


def _over_groups(values: Callable[[Columns], Floats]) -> Formula:
    """The mean over the groups that have the value."""

    def formula(c: Columns) -> Sums:
        values_P = values(c)
        known_P = ~np.isnan(values_P)
        return np.where(known_P, values_P, 0.0), known_P.astype(np.float64)

    return formula


def _diagnostic(name: str) -> Formula:
    """What scoring said of the group."""
    return _over_groups(lambda c: np.array([group.get(name) for group in c.diagnostics_P], np.float64))


def _pruned(c: Columns) -> Floats:
    return np.where(np.isnan(c.keep_R), np.nan, c.valid_R & (c.keep_R == 0))


def _entropy(right: Callable[[Columns], Any] | None = None) -> Formula:
    """Over rollouts that have an answer: without one a rollout is neither right nor wrong."""
    return _over_rollouts(lambda c: c.mean_entropy_R, lambda c: c.valid_R if right is None else c.valid_R & right(c))


# --- the numbers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunNumber:
    """One number.

    meaning    with its formula
    of         its sum and weight of each group; None where it takes the groups of a step together
    over       what its value in a step is a mean of
    labels     it takes labels
    better     where it goes in a run that learns what is right; nothing where that is not the case by itself
    reply      it stands in the diagnostics of a group's reply
    openrlhf   it stands in OpenRLHF's log
    tile       its name on the report's tiles
    charts     the charts of the report that have it: the curve's name and tone
    """

    name: str
    meaning: str
    of: Formula | None
    unit: str = "share"
    over: Literal["groups", "rollouts", "step"] = "groups"
    labels: bool = False
    better: Literal["up", "down", ""] = ""
    reply: bool = False
    openrlhf: bool = False
    tile: str = ""
    charts: Mapping[str, tuple[str, Tone]] = field(default_factory=dict)


# Names are those of TTRL, TRL and OpenRLHF where they have the number. In the order of tiles, curves and tables.
NUMBERS: Final = (
    RunNumber(
        MAJORITY, "votes of a group's most voted answer, over M", _diagnostic(MAJORITY),
        reply=True, openrlhf=True, tile="Majority ratio",
        charts={"truth": ("majority ratio", "main"), "agreement": ("majority ratio", "main")},
    ),
    RunNumber(
        "leader_probability", "probability that the most voted answer is the likelier one of the first two",
        _diagnostic("leader_probability"), reply=True,
    ),
    RunNumber(
        "label_accuracy", "share of groups whose pseudo-label is right", _diagnostic("label_accuracy"),
        labels=True, better="up", reply=True, openrlhf=True, tile="Label accuracy",
        charts={"truth": ("label accuracy", "good")},
    ),
    RunNumber(
        "reward_accuracy", "share of rollouts whose agreement with the pseudo-label equals their correctness",
        _diagnostic("reward_accuracy"),
        labels=True, better="up", reply=True, openrlhf=True, charts={"truth": ("reward accuracy", "other")},
    ),
    RunNumber(
        "ground_truth_ratio", "share of rollouts that are right", _diagnostic("ground_truth_ratio"),
        labels=True, better="up", reply=True, openrlhf=True,
    ),
    RunNumber(
        "pass@1", "the same: chance that one rollout is right", None,
        labels=True, better="up", tile="pass@1", charts={"truth": ("pass@1", "bad")},
    ),
    RunNumber(
        "pass@k", "chance that one of k rollouts is right, 1 - C(M-c, k) / C(M, k) with c right ones, k a power of 2",
        None, labels=True, better="up", charts={"truth": ("pass@k", "quiet")},
    ),
    RunNumber(
        "frac_reward_zero_std", "share of groups whose trained rollouts all have the same reward: they teach nothing",
        _over_groups(lambda c: np.where(np.isnan(c.reward_std_P), np.nan, c.reward_std_P == 0)),
        tile="Groups with equal rewards", charts={"agreement": ("equal rewards", "warn")},
    ),
    RunNumber(
        "distinct_answers", "distinct answers of a group",
        _over_groups(lambda c: c.distinct_P), unit="answers", tile="Answers in a prompt",
        charts={"distinct": ("answers", "main")},
    ),
    RunNumber(
        "distinct_labels", "different pseudo-labels of a step, over its groups that have one",
        None, over="step", tile="Distinct pseudo-labels across prompts",
        charts={"across": ("pseudo-labels per prompt", "main")},
    ),
    RunNumber(
        "reward", "mean reward of the rollouts",
        _over_rollouts(lambda c: c.rewards_R), unit="reward", over="rollouts",
        tile="Mean reward", charts={"reward": ("mean", "main")},
    ),
    RunNumber(
        "reward_std", "standard deviation of a group's rewards, over its trained rollouts",
        _over_groups(lambda c: c.reward_std_P), unit="reward", charts={"reward": ("deviation in a group", "other")},
    ),
    RunNumber(
        "pruned", "share of rollouts whose answer was pruned", _over_rollouts(_pruned), over="rollouts", openrlhf=True,
        tile="Pruned", charts={"lost": ("pruned", "other")},
    ),
    RunNumber(
        "invalid", "share of rollouts without an answer", _over_rollouts(lambda c: 1.0 - c.valid_R), over="rollouts",
        better="down", openrlhf=True, tile="No answer", charts={"lost": ("no answer", "warn")},
    ),
    RunNumber(
        "truncated", "share of rollouts that the length limit cut off", _over_rollouts(lambda c: c.truncated_R),
        over="rollouts", better="down", tile="Cut off", charts={"lost": ("cut off", "bad")},
    ),
    RunNumber(
        "trace_entropy",
        "share of answered rollouts whose whole trace counted, because the tokens that `over` names were not found",
        _diagnostic("trace_entropy"), reply=True, openrlhf=True, better="down", tile="Whole trace counted",
        charts={"lost": ("whole trace", "quiet")},
    ),
    RunNumber(
        "dropped", "share of groups that carry nothing", _over_groups(lambda c: c.dropped_P),
    ),
    RunNumber(
        "entropy", "mean entropy per token of the rollouts that have an answer", _entropy(),
        unit="nats", over="rollouts", openrlhf=True, tile="Entropy, nats", charts={"entropy": ("all", "main")},
    ),
    RunNumber(
        "entropy_agrees", "of those that have the pseudo-label", _entropy(lambda c: c.agrees_R == 1),
        unit="nats", over="rollouts", charts={"entropy": ("agrees", "other")},
    ),
    RunNumber(
        "entropy_differs", "of those that have another answer", _entropy(lambda c: c.agrees_R == 0),
        unit="nats", over="rollouts", charts={"entropy": ("differs", "quiet")},
    ),
    RunNumber(
        "entropy_right", "of those that are right", _entropy(lambda c: c.correct_R == 1),
        unit="nats", over="rollouts", labels=True, charts={"entropy_truth": ("right", "good")},
    ),
    RunNumber(
        "entropy_wrong", "of those that have a wrong answer", _entropy(lambda c: c.correct_R == 0),
        unit="nats", over="rollouts", labels=True, charts={"entropy_truth": ("wrong", "bad")},
    ),
    RunNumber(
        "entropy_auroc", "chance that, of a right and a wrong answer of one group, the right one has the lower entropy",
        _over_groups(lambda c: group_auroc(c, c.mean_entropy_R, c.correct_R)),
        labels=True, better="up", charts={"auroc": ("AUROC", "main")},
    ),
    RunNumber(
        "num_tokens", "mean number of generated tokens of a rollout", _over_rollouts(lambda c: c.num_tokens_R),
        unit="tokens", over="rollouts", tile="Tokens", charts={"length": ("tokens", "main")},
    ),
    RunNumber(
        "votes", "rollouts of a group, which the reward is estimated from",
        _over_groups(lambda c: c.sizes_P.astype(np.float64)),
        unit="rollouts", openrlhf=True, charts={"votes": ("all", "main")},
    ),
    RunNumber(
        "votes_trained", "those of them that are trained", _over_groups(lambda c: c.sum(c.trained_R)),
        unit="rollouts", charts={"votes": ("trained", "quiet")},
    ),
    RunNumber(
        "flips", "share of the prompts seen again, by group_id, whose pseudo-label differs from the last visit's",
        None, over="step", charts={"flips": ("flipped", "main")},
    ),
)  # fmt: skip
BY_NAME: Final[Mapping[str, RunNumber]] = MappingProxyType({n.name: n for n in NUMBERS})
LABELLED: Final = tuple(n.name for n in NUMBERS if n.labels)
SHADOW: Final = ("flipped", "cosine", "label_agreement", "label_accuracy")  # of each, as `shadow_METHOD_KEY`


def majority(diagnostics: Mapping[str, Any] | None) -> float:
    """The majority ratio in the diagnostics of a group's reply; 0 where there is none."""
    return float((diagnostics or NOTHING).get(MAJORITY) or 0.0)


def sums(columns: Columns) -> dict[str, Sums]:
    """The sum and the weight of each number in each group, by name."""
    out = {n.name: n.of(columns) for n in NUMBERS if n.of is not None}
    right_P = columns.sum(columns.correct_R)
    return {**out, **pass_sums(columns.sizes_P, right_P), **shadow_sums(columns.diagnostics_P)}


def pass_sums(sizes_P: Ints, right_P: Floats) -> dict[str, Sums]:
    """`pass@k` for each power of two up to the size of a group; `right_P` is its number of right rollouts, or NaN."""
    known_P = ~np.isnan(right_P) & (sizes_P > 0)
    out = {}
    for k in (1 << i for i in range(int(sizes_P[known_P].max(initial=0)).bit_length())):
        has_P, values_P = known_P & (sizes_P >= k), np.zeros(len(sizes_P))
        pairs = zip(sizes_P[has_P].tolist(), right_P[has_P].tolist(), strict=True)
        values_P[has_P] = [pass_at_k(size, int(right), k) for size, right in pairs]
        out[f"pass@{k}"] = (values_P, has_P.astype(np.float64))
    return out


def means(summed: Mapping[str, Sums]) -> dict[str, float]:
    """The numbers of a step of these groups, where known; `pass@k` for each k that every labelled group has."""
    totals = {name: (math.fsum(v.tolist()), float(w.sum())) for name, (v, w) in summed.items() if ":" not in name}
    labelled = totals.get("pass@1", (0.0, 0.0))[1]
    return {
        name: value / weight
        for name, (value, weight) in totals.items()
        if weight and not (name.startswith("pass@") and weight < labelled)
    }


def shadow_sums(diagnostics_P: Sequence[Mapping[str, Any]]) -> dict[str, Sums]:
    """What shadow methods say, by `shadow_METHOD_KEY`; and, of the groups that they label otherwise where the truth is
    known, `judged_METHOD`: who is right there, the shadow (`theirs`) or the method (`ours`)."""
    out: dict[str, Sums] = {}
    for p, group in enumerate(diagnostics_P):
        for method, shadow in (group.get("shadow") or NOTHING).items():
            if not isinstance(shadow, Mapping) or "error" in shadow:
                continue
            said = {f"shadow_{method}_{key}": shadow.get(key) for key in SHADOW}
            ours, theirs = group.get("label_accuracy"), shadow.get("label_accuracy")
            if shadow.get("label_agreement") == 0 and ours is not None and theirs is not None:
                said |= {f"theirs:{method}": theirs, f"ours:{method}": ours}
            for name, value in said.items():
                if isinstance(value, int | float):
                    values_P, weights_P = out.setdefault(
                        name, (np.zeros(len(diagnostics_P)), np.zeros(len(diagnostics_P)))
                    )
                    values_P[p], weights_P[p] = float(value), 1.0
    return out


def of_group(line: Line, numbers: Iterable[RunNumber]) -> dict[str, float | None]:
    """Some numbers of one scored group; None where one is not known."""
    group = GroupNumbers.of(line)
    columns = Columns([group])
    totals = {n.name: n.of(columns) for n in numbers if n.of is not None and not n.reply}
    found = {name: float(v[0] / w[0]) if w[0] else None for name, (v, w) in totals.items()}
    return found | {n.name: group.diagnostics.get(n.name) for n in numbers if n.reply}


def pooled(lines: Iterable[Line]) -> dict[str, float]:
    """The numbers of a step by name; `group_errors` is the share of its groups that could not be scored."""
    every = list(lines)
    good = [line for line in every if (line.get("reply") or NOTHING).get("error") is None]
    out = means(sums(Columns([*map(GroupNumbers.of, good)])))
    return out | ({"group_errors": 1 - len(good) / len(every)} if every else {})


# --- charts ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Curve:
    """One line of a chart: its number, its name in the legend, its colour by role."""

    key: str
    name: str
    tone: str = "main"


@dataclass(frozen=True, slots=True)
class Chart:
    """share: the values lie in 0 to 1; labelled: it needs labels; dashed: a level to compare with."""

    name: str
    title: str
    meaning: str
    curves: tuple[Curve, ...]
    unit: str = "share"
    labelled: bool = False
    level: float | None = None


def _chart(name: str, title: str, meaning: str, *, level: float | None = None, labelled: bool | None = None) -> Chart:
    shown = [n for n in NUMBERS if name in n.charts]
    curves = tuple(Curve(n.name, *n.charts[name]) for n in shown)
    labelled = all(n.labels for n in shown) if labelled is None else labelled
    return Chart(name, title, meaning, curves, shown[0].unit, labelled, level)


CHARTS: Final = (
    _chart(
        "truth", "Agreement against truth", "The vote's share beside what the labels say. A share that rises while "
        "pass@1 falls is a consensus on wrong answers.", labelled=True,
    ),
    _chart(
        "agreement", "Agreement", "Votes of the most voted answer over all rollouts, and the share of groups whose "
        "rewards are all equal: these teach nothing.",
    ),
    _chart(
        "distinct", "Distinct answers within a prompt",
        "How many different answers the rollouts of one prompt give, on average.",
    ),
    _chart(
        "across", "Distinct answers across prompts", "Different pseudo-labels of a step over its prompts that have "
        "one. A fall means that different prompts get the same answer.",
    ),
    _chart(
        "reward", "Reward", "Mean over rollouts, and the standard deviation over a group's trained rollouts, which "
        "scales advantages.",
    ),
    _chart(
        "lost", "Pruned, invalid, cut off", "Rollouts whose answer was pruned, rollouts without an answer, and "
        "rollouts that the length limit cut off.",
    ),
    _chart(
        "entropy", "Entropy", "Mean token entropy of a rollout that has an answer: of all, of those that agree with "
        "the pseudo-label, and of those that do not.",
    ),
    _chart(
        "entropy_truth", "Entropy of right and wrong", "Mean token entropy of right and of wrong answers. Entropy can "
        "help only where wrong lies above right.",
    ),
    _chart(
        "auroc", "Does low entropy mean right?", "AUROC inside a group: the chance that a right rollout has the lower "
        "entropy. At .5 entropy is uninformative, below it misleads. In trained models dare broke even with the vote "
        "at .57.", level=0.5,
    ),
    _chart("length", "Length", "Generated tokens of a rollout."),
    _chart(
        "votes", "Rollouts of a prompt", "Rollouts behind the label, and how many of them are trained. With adaptive "
        "voting, the gap to the full number of votes is what was saved.",
    ),
    _chart(
        "flips", "Label flips", "Share of the prompts seen again (by group_id) whose pseudo-label differs from the "
        "last visit's.",
    ),
)  # fmt: skip
_TONES: Final = ("main", "other", "warn", "good", "bad", "quiet")


def shadow_charts(methods: Iterable[str]) -> tuple[Chart, ...]:
    """The chart of the shadow methods of a run, if it has any."""
    curves = tuple(
        Curve(f"shadow_{method}_label_agreement", method, _TONES[i % len(_TONES)]) for i, method in enumerate(methods)
    )
    meaning = "Share of the groups whose label a shadow method would have chosen too."
    return (Chart("shadow", "Other methods, the same label", meaning, curves),) if curves else ()
