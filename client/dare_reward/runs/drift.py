"""Calibrate the last labelled groups of a run log: does the exponent that a run trains with still fit?

The window is the last steps that hold enough groups for the rule of `dare_reward.analysis.calibrate`. In it a prompt
counts once, by its last group: groups of one prompt are not independent evidence.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from ..analysis.calibrate import LABELS
from ..analysis.certainty import ENTROPY, GRID
from ..analysis.verdict import Verdict, judge
from ..answers.classes import listed
from ..errors import RequestError
from ..methods import settle
from ..scoring.diagnostics import correctness
from ..scoring.request import UNLIMITED, prepare
from .stored import by_step, stored_group

JSON = Mapping[str, Any]
Key = tuple[Any, Any]
WEIGHT: Final = ("weight", "eps", "eps_scale", "u_floor")
# What is kept of a line: texts and token entropies of some windows would not fit into memory.
KEPT: Final = (
    *("run", "step", "group_id", "named", "prompt", "label", "method", "config_id"),
    *("answers", "correct", "trained", "mean_entropies", "entropy_source"),
)


@dataclass(frozen=True, slots=True)
class Window:
    """Some steps of a run, and what their labels say.

    groups     places of the first and the last group among those with labels, for a log without steps
    exponents  those in use in its last step, without those of `gt`; None among them: unknown
    repeated   groups whose prompt has a later one in the window
    """

    steps: tuple[int, ...]
    groups: tuple[int, int]
    exponents: tuple[float | None, ...]
    repeated: int
    found: Verdict

    @property
    def exponent(self) -> float | None:
        """The one in use at the end; None if unknown, or if there are several."""
        return self.exponents[0] if len(self.exponents) == 1 else None

    @property
    def name(self) -> str:
        """`steps 4 to 7`."""
        unit, first, last = ("step", self.steps[0], self.steps[-1]) if self.steps else ("group", *self.groups)
        return f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"


def last_window(
    lines: Iterable[JSON], *, scoring: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> Window | None:
    """The last steps of a run that hold 32 groups with a truth and an answer; None if it has no such group.

    lines     of one run
    scoring   how the run read answers, where it was told
    options   those of `analysis.verdict.judge`
    """
    steps, held, count = deque[list[JSON]](), 0, 0
    for batch in by_step({k: line.get(k) for k in KEPT} for line in lines if _is_labelled(line)):
        for line in batch:
            if steps and line["step"] is not None and steps[-1][-1]["step"] == line["step"]:
                steps[-1].append(line)
            else:
                steps.append([line])
            held, count = held + 1, count + 1
            while held - len(steps[0]) >= LABELS:
                held -= len(steps.popleft())
    if not steps:
        return None
    weight = {k: v for k, v in options.items() if k not in {"level", "seed"}}
    latest = {_key(line): line for step in steps for line in step}
    prepared = prepare([stored_group(line, i) for i, line in enumerate(latest.values())], limits=UNLIMITED)
    verdict = judge(prepared.groups, correctness(prepared), reading=scoring, **options)
    last = (line for line in steps[-1] if line["method"] != "gt")
    scored = {(line["method"], line["config_id"]): exponent_of(line, **weight, **scoring) for line in last}
    exponents = tuple(sorted(set(scored.values()), key=lambda b: (b is None, b)))
    numbers = sorted({step[0]["step"] for step in steps} - {None})
    return Window(tuple(numbers), (count - held + 1, count), exponents, held - len(latest), verdict)


def exponent_of(line: JSON, **params: Any) -> float | None:
    """The exponent of GRID that scored a line, by its `config_id`; None if none did, or with another weight.

    params   those of the weight that the window was calibrated with, and how answers were read
    """
    method = str(line.get("method"))
    if method == "ttrl":
        return 0.0
    for b in GRID:
        try:
            configured = settle(method, {"exponent": b, **params})
        except RequestError:  # a method without an exponent
            return None
        if configured.id == line.get("config_id"):
            fitted = settle(ENTROPY.method, {"exponent": b, **params}).values
            return b if all(configured.values[name] == fitted[name] for name in WEIGHT) else None
    return None


def fits(exponent: float, window: Window) -> tuple[bool | None, str]:
    """Whether an exponent still fits, in words; None if the labels cannot tell."""
    still, why = _fits(exponent, window)
    name = f"exponent {exponent:g}" if exponent else "the vote (exponent 0)"
    if still is None:
        return None, f"The labels of {window.name} cannot tell whether {name} still fits ({why})."
    return still, f"In {window.name} {name} {'still fits' if still else 'does not fit'}: {why}."


def _fits(exponent: float, window: Window) -> tuple[bool | None, str]:
    c = window.found.calibration
    if c.exponent and c.exponent * exponent <= 0:
        return False, f"the labels choose {c.exponent:g} ({window.found.why})"
    if window.found.use == "open" and not c.enough:
        return None, window.found.why
    if exponent in GRID and (above := c.above_vote[GRID.index(exponent)]).high < 0:
        low, high = (f"{100 * x:+.1f}" for x in (above.low, above.high))
        return False, f"it names fewer right labels than the vote ({low} to {high} points)"
    if window.found.use == "open":
        return None, window.found.why
    if exponent and not c.exponent:
        return False, f"the labels choose the vote ({window.found.why})"
    better = "" if c.exponent == exponent else f"the sign is right, and {c.exponent:g} fits better; "
    return True, f"{better}{window.found.why}"


def _is_labelled(line: JSON) -> bool:
    correct = line.get("correct")
    return line.get("answers") is not None and correct is not None and None not in correct


def _key(line: JSON) -> Key:
    """What tells a prompt from others; an id alone may begin anew at each step, and a place in a request is no name."""
    unnamed = line["named"] is False and not line["prompt"]
    return object() if unnamed else line["prompt"] or line["group_id"], tuple(listed(line["label"]))
