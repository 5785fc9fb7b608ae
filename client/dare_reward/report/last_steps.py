"""What of a run its labels judge: each prompt's last group in the last steps that hold LABELS labelled groups.

The policy moves while it trains, and groups of one prompt are no independent evidence. `calibrate`, report and page
take these groups of a run, and so come to one verdict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack

from ..analysis.shown import Shown
from ..analysis.truth import LABELS
from ..errors import RequestError

if TYPE_CHECKING:
    from ..analysis.calibrate import Options
    from ..analysis.verdict import Verdict

BLOCK: Final = 64  # groups that count as a step where none is named
ROLLOUTS: Final = 1 << 15  # that are kept at most, in whole steps; of a step with more, its first ones
T = TypeVar("T")
JSON = Mapping[str, Any]


@dataclass(slots=True, eq=False)
class Order:
    """The places of groups in a run: their steps, or blocks of them where none is named.

    Groups that name no step and were not scored as a run went on, as those of a file, are one set, and no run.
    """

    groups: int = 0
    stepped: bool = False
    is_run: bool = False
    last: int = 0

    def place(self, step: Any, time: Any) -> int:
        """Of the next group, which was scored at `time`."""
        self.groups += 1
        self.is_run |= isinstance(step, int) or time is not None
        if isinstance(step, int):
            self.stepped, self.last = True, step
        elif not self.stepped:
            self.last = (self.groups - 1) // BLOCK if self.is_run else 0
        return self.last


@dataclass(slots=True, eq=False)
class _Step(Generic[T]):
    step: Any
    labels: int = 0
    rollouts: int = 0
    groups: dict[Hashable, T] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class LastSteps(Generic[T]):
    """Takes the groups of a run in order, and counts those that were added, and the steps that they began."""

    added: int = 0
    begun: int = 0
    _steps: deque[_Step[T]] = field(default_factory=deque)

    def add(self, step: Any, name: Hashable, group: T, *, labelled: bool, rollouts: int) -> None:
        """Take a group of the prompt with this name."""
        self.added += 1
        if not self._steps or self._steps[-1].step != step:
            self._steps.append(_Step(step))
            self.begun += 1
        last = self._steps[-1]
        if last.groups and last.rollouts + rollouts > ROLLOUTS:
            return
        last.labels += labelled
        last.rollouts += rollouts
        last.groups[name] = group
        while len(self._steps) > 1:
            labels, held = sum(s.labels for s in self._steps), sum(s.rollouts for s in self._steps)
            if labels - self._steps[0].labels < LABELS and held <= ROLLOUTS:
                break
            self._steps.popleft()  # later labels do without it

    def groups(self) -> list[T]:
        """Of each prompt its last group, in their order."""
        found: dict[Hashable, T] = {}
        for step in self._steps:
            for name, group in step.groups.items():
                found.pop(name, None)
                found[name] = group
        return list(found.values())


def group_of(line: JSON) -> JSON:
    """The group of a line of a run log, with the answers that were read in its texts, and without these."""
    rollouts, answers = line["rollouts"], line["reply"].get("answers")
    if answers and "text" in set().union(*rollouts):
        bare = ({k: v for k, v in r.items() if k != "text"} for r in rollouts)
        rollouts = [{**r, "answer": answer} for r, answer in zip(bare, answers, strict=True)]
    known = ("kind", "options", "label", "label_conflict")
    return {**{k: line[k] for k in known if line.get(k) is not None}, "rollouts": rollouts}


def unlabelled(methods: Sequence[str]) -> Shown:
    """What is said of a run of methods that read entropies, where nobody knows whether these tell anything."""
    return Shown(
        f"Not decided: label {LABELS} more",
        f"{' and '.join(methods)} reads entropies, and no label says whether they tell right answers from wrong ones.",
        ("`dare-reward label FILE` opens a page to label prompts on.",),
    )


def verdict_of(groups: Sequence[JSON], **options: Unpack[Options]) -> Verdict | None:
    """What `dare-reward calibrate` decides on these groups by its options; None if they lack what it reads."""
    from ..analysis.verdict import judge  # noqa: PLC0415  (most pages have no labels)
    from ..scoring.diagnostics import correctness  # noqa: PLC0415
    from ..scoring.request import prepare_file  # noqa: PLC0415

    with suppress(RequestError):
        prepared = prepare_file(groups, options.get("reading", {}))
        found = judge(prepared.groups, correctness(prepared), **options)
        return found if found.calibration.prompts else None
    return None
