"""Score the groups of a run log again by another method, and count what would have changed.

A replay begins at the answers, as the run read them: texts are not read again. It is counterfactual for one step only,
because a policy that had been trained on other rewards would have sampled other rollouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from dare_reward.answers.rollouts import READING
from dare_reward.errors import RequestError
from dare_reward.reply import GroupReply
from dare_reward.runs.stored import by_step, stored_group
from dare_reward.scoring.score import score
from dare_reward.segments import Floats

JSON = Mapping[str, Any]
ROUNDING: Final = 1e-12  # of the greatest reward: a difference below it is none


@dataclass(frozen=True, slots=True)
class Difference:
    """One group, as it was scored and as it would have been.

    before, after            pseudo-labels
    opposite                 trained rollouts whose advantage has the other sign
    trained                  trained rollouts
    before_right, after_right  whether each label is right; None where that is not known
    error                    why the group cannot be scored again
    """

    run: str | None
    step: int | None
    group_id: str
    before: str | None
    after: str | None
    opposite: int
    trained: int
    before_silent: bool
    after_silent: bool
    before_right: bool | None
    after_right: bool | None
    error: str | None = None

    @property
    def flipped(self) -> bool:
        return self.error is None and self.before != self.after


@dataclass(slots=True)
class Totals:
    """Sums over groups. `add` takes each difference.

    failed          groups that cannot be scored again
    flipped         groups with another label
    silent          groups in which all trained rollouts have the same reward, before and after
    known           groups in which both labels are known to be right or wrong; of them, right before and after, and of
                    the flipped ones: the old label right, the new one, neither
    """

    groups: int = 0
    failed: int = 0
    flipped: int = 0
    rollouts: int = 0
    opposite: int = 0
    before_silent: int = 0
    after_silent: int = 0
    known: int = 0
    before_right: int = 0
    after_right: int = 0
    flipped_from_right: int = 0
    flipped_to_right: int = 0
    flipped_wrong: int = 0

    def add(self, one: Difference) -> None:
        if one.error is not None:
            self.failed += 1
            return
        self.groups += 1
        self.flipped += one.flipped
        self.rollouts += one.trained
        self.opposite += one.opposite
        self.before_silent += one.before_silent
        self.after_silent += one.after_silent
        if one.before_right is None or one.after_right is None:
            return
        self.known += 1
        self.before_right += one.before_right
        self.after_right += one.after_right
        if one.flipped:
            self.flipped_from_right += one.before_right
            self.flipped_to_right += one.after_right
            self.flipped_wrong += not one.before_right and not one.after_right

    def to_json(self) -> dict[str, int]:
        return {f.name: getattr(self, f.name) for f in fields(self)}


def replay(lines: Iterable[JSON], method: str, params: Mapping[str, Any]) -> Iterator[Difference]:
    """The difference of each line of a run log; groups that the run itself could not score are left out.

    The groups of a step are scored together, as a method whose advantages are over a step needs them.
    RequestError if a parameter is about reading texts.
    """
    if reads := sorted(READING & params.keys()):
        raise RequestError(f"{reads[0]} reads texts; a replay begins at the answers", loc=("params",), code="parameter")
    scored = (line for line in lines if line.get("answers") is not None)
    for batch in by_step(scored):
        reply = score([stored_group(line, i) for i, line in enumerate(batch)], params, method=method).reply
        for line, found in zip(batch, reply.groups, strict=True):
            yield _difference(line, found, reply.output)


def _difference(line: JSON, found: GroupReply, output: str) -> Difference:
    trained = [bool(t) for t in line.get("trained") or [True] * len(line["answers"])]
    given = line.get("rewards")
    before = _signs(line.get("advantages") if given is None else given, trained, centred=given is None)
    after = _signs(found.rewards if output == "rewards" else found.advantages, trained, centred=output == "advantages")
    error = None if found.error is None else f"{found.error.code}: {found.error.message}"
    return Difference(
        run=line.get("run"),
        step=line.get("step"),
        group_id=str(line.get("group_id")),
        before=line.get("pseudo_label"),
        after=found.pseudo_label,
        opposite=int((before * after < 0).sum()) if error is None else 0,
        trained=sum(trained),
        before_silent=not before.any(),
        after_silent=not after.any(),
        before_right=label_is_right(line, line.get("pseudo_label")),
        after_right=label_is_right(line, found.pseudo_label),
        error=error,
    )


def _signs(values: Sequence[float | None] | None, trained: Sequence[bool], *, centred: bool = False) -> Floats:
    """Sign of each rollout's group-normalised advantage: +1 above the mean of the trained ones, 0 for the others."""
    own = np.array([0.0 if v is None else v for v in values or [0.0] * len(trained)], np.float64)
    on = np.array(trained, bool)
    if not on.any():
        return np.zeros(len(own))
    shifted = own if centred else own - own[on].mean()
    small = np.abs(shifted) <= ROUNDING * np.abs(own).max()
    signs: Floats = np.where(on & ~small, np.sign(shifted), 0.0)
    return signs


def label_is_right(line: JSON, label: str | None) -> bool | None:
    """Whether a line's rollouts with the answer `label` are right; None where that is not known."""
    correct = line.get("correct")
    if correct is None:
        return None
    pairs = list(zip(line["answers"], correct, strict=True))
    own = [right for answer, right in pairs if answer == label and answer is not None]
    if any(right is None for right in own) or (not own and any(right is None for _, right in pairs)):
        return None
    return bool(own) and 2 * sum(own) > len(own)
