"""Runs as they come, in bounded memory: totals of every step, and the groups that are worth a look.

A million groups take no more room than a few thousand do: where a run has many steps, a point of the charts is a block
of steps (`Steps`), and of single groups some are picked.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Unpack, get_args

import numpy as np

from ..analysis.truth import is_known
from ..answers import Kind, canonical, read_label
from ..numbers import Columns, GroupNumbers, sums
from .last_steps import BLOCK, LastSteps, Order, group_of, verdict_of
from .picks import Picks, reasons
from .steps import Steps
from .visits import Visits

if TYPE_CHECKING:
    from ..analysis.calibrate import Options
    from ..analysis.verdict import Verdict

TOGETHER: Final = 64  # groups whose numbers are computed at once
PROMPTS: Final = 1 << 14  # prompts whose last label is remembered
RUNS: Final = 1 << 7  # runs that are shown; of more, the one that has been silent for longest goes, and is counted
ESTIMATES: Final = frozenset({"topk", "logprob"})
VARIANTS: Final = 32  # methods with their parameters that are counted

Line = Mapping[str, Any]
# Of a group's pseudo-label: it is new in its step; there is one; it is another than its prompt's last; there was one.
Label = tuple[bool, bool, bool, bool]


@dataclass(slots=True, eq=False)
class RunTotals:
    """One run. `unit` is what its charts go by: steps, or blocks of groups where no step is named."""

    name: str
    order: Order = field(default_factory=Order)
    groups: int = 0
    rollouts: int = 0
    errors: int = 0
    methods: Counter[tuple[str, str]] = field(default_factory=Counter)
    estimates: Counter[str] = field(default_factory=Counter)  # groups by how their entropies were estimated
    picks: Picks = field(default_factory=Picks)
    visits: Visits = field(default_factory=Visits)
    labelled: LastSteps[Line] = field(default_factory=LastSteps)  # the groups that judge what to train with
    shadows: dict[str, None] = field(default_factory=dict)  # the names of its shadow methods
    _verdict: Verdict | None = None  # from labels
    _judged: tuple[int, int] = (0, 0)  # labelled groups, and steps of these, when it was made
    _steps: Steps = field(default_factory=Steps)
    _waiting: list[tuple[int, GroupNumbers, Label]] = field(default_factory=list)
    _seen: OrderedDict[int, tuple[int, str]] = field(default_factory=OrderedDict)

    @property
    def steps(self) -> Steps:
        """The totals of each step, or of each block of steps."""
        self.add_up()
        return self._steps

    @property
    def one_set(self) -> bool:
        return not self.order.is_run

    @property
    def unit(self) -> str:
        if self.one_set:
            return "set of rollouts"
        what, width = "step" if self.order.stepped else f"block of {BLOCK} groups", self._steps.width
        return what if width == 1 else f"{width} {what}s"

    def verdict(self, *, anew: bool = True, **judged_by: Unpack[Options]) -> Verdict | None:
        """What its labels say to train with: all of them or, unless `anew`, those of when its last step began."""
        labelled = (self.labelled.added, self.labelled.begun)
        if labelled[0] != self._judged[0] and (anew or labelled[1] != self._judged[1]):
            self._judged, self._verdict = labelled, verdict_of(self.labelled.groups(), **judged_by)
        return self._verdict

    def add(self, line: Line) -> None:
        """A line of the run log; of one with an error only the labels count, as in `calibrate`."""
        reply = line["reply"]
        self.groups += 1
        self.rollouts += len(reply.get("valid") or ())
        place = self.order.place(line.get("step"), line.get("time"))
        try:
            why, numbers = reasons(line), GroupNumbers.of(line) if reply.get("error") is None else None
        except (AttributeError, TypeError, ValueError):  # a line that somebody edited costs itself alone
            self.errors += 1
            return
        self.picks.add(line, place, why)
        self._keep_labelled(place, line)
        if numbers is None:
            self.errors += 1
            return
        variant = (str(reply.get("method")), str(reply.get("config_id") or "")[:12])
        if variant in self.methods or len(self.methods) < VARIANTS:
            self.methods[variant] += 1
        if reply.get("entropy_source") in ESTIMATES:
            self.estimates[str(reply["entropy_source"])] += 1
        self.shadows |= dict.fromkeys(numbers.diagnostics.get("shadow", ()))
        self._waiting.append((place, numbers, self._label(place, line)))
        if len(self._waiting) >= TOGETHER:
            self.add_up()

    def _keep_labelled(self, place: int, line: Line) -> None:
        """Keep a group whose truth is known, as far as `calibrate` has it known, and the visit of its prompt if that
        has a name and was scored: the share of the rollouts that are right, and of the votes."""
        rollouts, name = line["rollouts"], line.get("group_id")
        if not rollouts or not is_known(line):
            return
        rights = [r.get("correct") for r in rollouts]
        if name is not None and None not in rights and len(line["reply"].get("valid") or ()) == len(rollouts):
            self.visits.add(hash(name), place, (sum(rights) / len(rights), _right_vote(line)))
        if not self.one_set:
            asked = line.get("asked", line.get("prompt") and hash(line["prompt"]))
            # Where nobody names the run, ids may begin anew at each step.
            again = None if line.get("run") or line.get("time") is not None else place
            named = asked or (name or self.groups, again), str(line.get("options")), str(line.get("label"))
            self.labelled.add(place, named, group_of(line), labelled=True, rollouts=len(rollouts))

    def add_up(self) -> None:
        """Compute the numbers of the groups that wait for it."""
        if not self._waiting:
            return
        places, groups, labels = zip(*self._waiting, strict=True)
        self._waiting = []
        summed = sums(Columns(groups))
        summed["groups"] = np.ones(len(groups)), np.ones(len(groups))
        new, labelled, flipped, again = np.array(labels, np.float64).T
        summed |= {"distinct_labels": (new, labelled), "flips": (flipped, again)}
        self._steps.add(places, summed)

    def _label(self, place: int, line: Line) -> Label:
        said, name = line["reply"].get("pseudo_label"), line.get("group_id")  # None where a place gave it the name
        if said is None:
            return False, False, False, False
        label, tag = _value(str(said), str(line.get("kind") or "math"))
        before, tag_before = None, ""
        if name is not None:
            before, tag_before = self._seen.pop(hash(name), (None, ""))
            self._seen[hash(name)] = label, tag
            if len(self._seen) > PROMPTS:
                self._seen.popitem(last=False)
        flipped = before not in {None, label} or "" != tag_before != tag != ""
        return self._steps.is_new(place, label), True, flipped, before is not None


def _right_vote(line: Line) -> float:
    """The share of a group's most voted answers that are right; 0 where nobody answers."""
    answers, rollouts = line["reply"].get("answers") or (), line["rollouts"]
    said = [(a, bool(r.get("correct"))) for a, r in zip(answers, rollouts, strict=False) if a is not None]
    votes = Counter(answer for answer, _ in said)
    leading = [right for answer, right in said if votes[answer] == max(votes.values())]
    return sum(leading) / len(leading) if leading else 0.0


@lru_cache(maxsize=1 << 12)
def _value(label: str, kind: str) -> tuple[int, str]:
    """What a pseudo-label says, whatever its spelling (1/2 or 0.5); and its unit or name, which may be left out."""
    of: Any = kind if kind in get_args(Kind) else "math"
    key = canonical(read_label(label, kind=of), kind=of)
    return (hash(label), "") if key is None else (hash((key.kind, key.value)), key.tag)


@dataclass(slots=True, eq=False)
class RunBook:
    """The runs that are alive, the last one at the end; `lines` that were added; and how many groups of runs are `gone`
    that were silent for longest when there were more than RUNS."""

    runs: OrderedDict[str, RunTotals] = field(default_factory=OrderedDict)
    lines: int = 0
    gone: int = 0

    @property
    def left_out(self) -> str:
        return f"{self.gone:,} groups of runs that were silent for longest are not shown"

    def add(self, line: Line) -> None:
        name = str(line.get("run") or "")[:256]
        self.lines += 1
        if name not in self.runs:
            self.runs[name] = RunTotals(name)
        self.runs.move_to_end(name)
        self.runs[name].add(line)
        if len(self.runs) > RUNS:
            self.gone += self.runs.popitem(last=False)[1].groups
