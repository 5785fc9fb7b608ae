"""Runs as they come, in bounded memory: totals of every step, and the groups that are worth a look.

A million groups take no more room than a few thousand do. Where a run has more steps than `STEPS`, neighbours are put
together, and what the charts show is then a block of steps.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, get_args

from ..answers import Kind, canonical
from .measures import measures
from .picks import Picks

__all__ = ["RunBook", "RunTotals", "StepTotals"]

STEPS: Final = 512  # steps of a run; twice as many are put together in pairs
BLOCK: Final = 64  # groups that count as a step where none is named
PROMPTS: Final = 1 << 14  # prompts whose last label is remembered
LABELS: Final = 1 << 12  # distinct labels that are counted in a step
RUNS: Final = 16
ESTIMATES: Final = frozenset({"topk", "logprob"})
VARIANTS: Final = 32  # methods with their parameters that are counted

Line = Mapping[str, Any]


@dataclass(slots=True)
class StepTotals:
    """Sums over the groups of a step, which add up; `labels` are the hashes of its pseudo-labels."""

    sums: dict[str, list[float]] = field(default_factory=dict)
    groups: int = 0
    labels: set[int] = field(default_factory=set)
    distinct: int = 0  # labels of steps that were put into this one
    labelled: int = 0  # groups with a pseudo-label

    def add(self, name: str, value: float, weight: float = 1.0) -> None:
        entry = self.sums.setdefault(name, [0.0, 0.0])
        entry[0] += value
        entry[1] += weight

    def take(self, other: StepTotals) -> None:
        """Put a later step into this one."""
        for name, (value, weight) in other.sums.items():
            self.add(name, value, weight)
        self.groups += other.groups
        self.distinct += len(self.labels) + len(other.labels) + other.distinct
        self.labelled += other.labelled
        self.labels = set()

    def mean(self, name: str) -> float | None:
        """None where nothing is known."""
        if name == "distinct_across":
            return (self.distinct + len(self.labels)) / self.labelled if self.labelled else None
        value, weight = self.sums.get(name, (0.0, 0.0))
        return value / weight if weight else None

    def weight(self, name: str) -> float:
        return self.sums.get(name, (0.0, 0.0))[1]


@dataclass(slots=True, eq=False)
class RunTotals:
    """One run. `unit` is what its charts go by: steps, or blocks of groups where no step is named.

    loose   groups without a step are one set of rollouts, as in a file, and no run
    """

    name: str
    loose: bool = False
    steps: dict[int, StepTotals] = field(default_factory=dict)
    stepped: bool = False
    merged: int = 1  # steps in one point of a chart
    groups: int = 0
    rollouts: int = 0
    errors: int = 0
    methods: Counter[tuple[str, str]] = field(default_factory=Counter)
    estimates: Counter[str] = field(default_factory=Counter)  # groups by how their entropies were estimated
    first: str = ""
    last: str = ""
    picks: Picks = field(default_factory=Picks)
    _seen: OrderedDict[int, tuple[int, str]] = field(default_factory=OrderedDict)

    @property
    def one_set(self) -> bool:
        return self.loose and not self.stepped

    @property
    def unit(self) -> str:
        if self.one_set:
            return "set of rollouts"
        what = "step" if self.stepped else f"block of {BLOCK} groups"
        return what if self.merged == 1 else f"{self.merged} {what}s"

    def add(self, line: Line) -> None:
        """A line of the run log; one with an error counts as such and no further."""
        self.groups += 1
        self.rollouts += len(line.get("valid") or ())
        self.first = self.first or str(line.get("time") or "")
        self.last = str(line.get("time") or "")
        place = self._place(line.get("step"))
        self.picks.add(line, place)
        if line.get("error") is not None:
            self.errors += 1
            return
        variant = (str(line.get("method")), str(line.get("config_id") or "")[:12])
        if variant in self.methods or len(self.methods) < VARIANTS:
            self.methods[variant] += 1
        if line.get("entropy_source") in ESTIMATES:
            self.estimates[str(line["entropy_source"])] += 1
        step = self._step(place)
        step.groups += 1
        sums = step.sums
        for name, (value, weight) in measures(line).items():
            if name in sums:
                entry = sums[name]
                entry[0] += value
                entry[1] += weight
            else:
                sums[name] = [value, weight]
        self._label(step, line)

    def _place(self, step: Any) -> int:
        if isinstance(step, int):
            self.stepped = True
            return step
        if self.stepped:
            return max(self.steps, default=0)
        return 0 if self.loose else (self.groups - 1) // BLOCK

    def _step(self, place: int) -> StepTotals:
        if place not in self.steps:
            if len(self.steps) >= 2 * STEPS:
                self._halve()
            self.steps[place] = StepTotals()
        return self.steps[place]

    def _halve(self) -> None:
        self.merged *= 2
        places = sorted(self.steps)
        for kept, gone in zip(places[::2], places[1::2], strict=False):
            self.steps[kept].take(self.steps.pop(gone))

    def _label(self, step: StepTotals, line: Line) -> None:
        """Count the pseudo-label, and whether it differs from the one that this prompt had before."""
        if line.get("pseudo_label") is None:
            return
        label, tag = _value(line)
        prompt = hash(line.get("group_id"))
        step.labelled += 1
        if len(step.labels) < LABELS:
            step.labels.add(label)
        if line.get("group_id") is None or line.get("named") is False:
            return
        if prompt in self._seen:
            before, tag_before = self._seen.pop(prompt)
            step.add("flips", float(before != label or "" != tag_before != tag != ""))
        self._seen[prompt] = label, tag
        if len(self._seen) > PROMPTS:
            self._seen.popitem(last=False)


def _value(line: Line) -> tuple[int, str]:
    """What the pseudo-label says, whatever its spelling (1/2 or 0.5); and its unit or name, which may be left out."""
    label = str(line["pseudo_label"])
    kind: Kind = line["kind"] if line.get("kind") in get_args(Kind) else "math"
    key = canonical(label, kind=kind)
    return (hash(label), "") if key is None else (hash((key.kind, key.value)), key.tag)


@dataclass(slots=True, eq=False)
class RunBook:
    """The runs that were seen last. `version` grows with every line; `loose` is that of `RunTotals`."""

    loose: bool = False
    runs: OrderedDict[str, RunTotals] = field(default_factory=OrderedDict)
    version: int = 0

    def add(self, line: Line) -> None:
        name = str(line.get("run") or "")[:256]
        run = self.runs.setdefault(name, RunTotals(name, self.loose))
        self.runs.move_to_end(name)
        run.add(line)
        self.version += 1
        while len(self.runs) > RUNS:
            self.runs.popitem(last=False)
