"""Calibrate the labelled groups of a run log, window by window: does the exponent that a run trains with still fit?

A window is as many steps as hold enough groups for the rule of `dare_reward.analysis.calibrate`. In it a prompt counts
once, by its last group: groups of one prompt are not independent evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from .._scoring.diagnostics import correctness
from .._scoring.request import UNLIMITED, prepare
from ..analysis.calibrate import GRID, METHOD, MINIMUM, TRIED
from ..analysis.preflight import Preflight, preflight
from ..errors import RequestError
from ..methods import config_id, settle
from .replay import by_step, stored_group

__all__ = ["Window", "exponent_of", "fits", "windows"]

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
    found: Preflight

    @property
    def exponent(self) -> float | None:
        """The one in use at the end; None if unknown, or if there are several."""
        return self.exponents[0] if len(self.exponents) == 1 else None

    @property
    def name(self) -> str:
        """`steps 4 to 7`."""
        unit, first, last = ("step", self.steps[0], self.steps[-1]) if self.steps else ("group", *self.groups)
        return f"{unit} {first}" if first == last else f"{unit}s {first} to {last}"


def windows(
    lines: Iterable[JSON],
    *,
    steps: int | None = None,
    scoring: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> Iterator[Window]:
    """The windows of the lines of one run, oldest first; groups without a truth or an answer are left out.

    steps     of a window, by default as many as hold 32 groups; steps left at the end join the last window if they hold
              fewer than 32 groups and fewer than that window
    scoring   how the run read answers, where it was told
    options   those of `preflight`
    """
    weight = {k: v for k, v in options.items() if k not in {"level", "seed"}}
    for span in _with_the_rest(_spans(lines, steps)):
        own = list(span.lines.values())
        prepared = prepare([stored_group(line, i) for i, line in enumerate(own)], limits=UNLIMITED)
        found = preflight(prepared.groups, correctness(prepared), reading=scoring, **options)
        last = (line for line in own if line["step"] == own[-1]["step"] and line["method"] != "gt")
        scored = {(line["method"], line["config_id"]): exponent_of(line, **weight, **scoring) for line in last}
        exponents = tuple(sorted(set(scored.values()), key=lambda b: (b is None, b)))
        yield Window(tuple(sorted(span.steps)), span.places, exponents, span.count - len(own), found)


def exponent_of(line: JSON, **params: Any) -> float | None:
    """The exponent of GRID that scored a line, by its `config_id`; None if none did, or with another weight.

    params   those of the weight that the window was calibrated with, and how answers were read
    """
    method = str(line.get("method"))
    if method == "ttrl":
        return 0.0
    for b in GRID:
        try:
            chosen, values = settle(method, {"exponent": b, **params})
        except RequestError:  # a method without an exponent
            return None
        if config_id(chosen.name, values) == line.get("config_id"):
            fitted = settle(METHOD, {"exponent": b, **params})[1]
            return b if all(values[name] == fitted[name] for name in WEIGHT) else None
    return None


def fits(exponent: float, found: Sequence[Window]) -> tuple[bool | None, str]:
    """Whether an exponent still fits in the last window, in words; None if its labels cannot tell."""
    last = found[-1]
    still, why = _fits(exponent, last)
    own = f"exponent {exponent:g}" if exponent else "the vote (exponent 0)"
    if still is not None:
        return still, f"In {last.name} {own} {'still fits' if still else 'does not fit'}: {why}."
    words = f"The labels of {last.name} cannot tell whether {own} still fits ({why})."
    told = next((w for w in reversed(found) if w.found.verdict != "undecided"), None)
    return None, words + (f" The last window that could tell, {told.name}, chose {_chosen(told)}." if told else "")


def _fits(exponent: float, window: Window) -> tuple[bool | None, str]:
    c = window.found.calibration
    if c.exponent and c.exponent * exponent <= 0:
        return False, f"the labels choose {c.exponent:g} ({window.found.reason})"
    if window.found.verdict == "undecided" and c.mixed < MINIMUM:
        return None, window.found.reason
    if exponent in GRID and (above := c.above_vote[GRID.index(exponent)]).high < 0:
        low, high = (f"{100 * x:+.1f}" for x in (above.low, above.high))
        return False, f"it names fewer right labels than the vote ({low} to {high} points)"
    if window.found.verdict == "undecided":
        return None, window.found.reason
    if exponent and not c.exponent:
        return False, f"the labels choose the vote ({window.found.reason})"
    better = "" if c.exponent == exponent else f"the sign is right, and {c.exponent:g} fits better; "
    return True, f"{better}{window.found.reason}"


def _chosen(window: Window) -> str:
    exponent = window.found.calibration.exponent
    return f"exponent {exponent:g}" if exponent else "the vote"


@dataclass(slots=True)
class _Span:
    """Steps, how many groups they hold, and the last line of each of their prompts, in the order of these lines."""

    first: int = 1
    count: int = 0
    steps: set[int] = field(default_factory=set)
    lines: dict[Key, JSON] = field(default_factory=dict)

    @property
    def places(self) -> tuple[int, int]:
        return self.first, self.first + self.count - 1

    def add(self, line: JSON) -> None:
        self.count += 1
        self.lines.pop(key := _key(line), None)
        self.lines[key] = line
        if line["step"] is not None:
            self.steps.add(line["step"])

    def take(self, later: _Span) -> None:
        self.count += later.count
        self.steps |= later.steps
        self.lines = {k: v for k, v in self.lines.items() if k not in later.lines} | later.lines


def _spans(lines: Iterable[JSON], steps: int | None) -> Iterator[_Span]:
    span = _Span()
    for batch in by_step({k: line.get(k) for k in KEPT} for line in lines if _is_labelled(line)):
        for line in batch:
            if steps is not None and line["step"] is None:
                raise RequestError("the groups of this log have no `step`: leave out --steps", code="parameter")
            full = span.count >= TRIED if steps is None else len(span.steps) >= steps
            if full and (line["step"] is None or line["step"] not in span.steps):
                yield span
                span = _Span(first=span.places[1] + 1)
            span.add(line)
    if span.count:
        yield span


def _with_the_rest(spans: Iterable[_Span]) -> Iterator[_Span]:
    """The last steps join the window before them if they hold too few groups for one of their own."""
    held: list[_Span] = []
    for span in spans:
        held.append(span)
        if len(held) > 2:
            yield held.pop(0)
    if len(held) == 2 and held[1].count < min(TRIED, held[0].count):
        held[0].take(held.pop())
    yield from held


def _is_labelled(line: JSON) -> bool:
    correct = line.get("correct")
    return line.get("answers") is not None and correct is not None and None not in correct


def _key(line: JSON) -> Key:
    """What tells a prompt from others; an id alone may begin anew at each step, and a place in a request is no name."""
    unnamed = line["named"] is False and not line["prompt"]
    return object() if unnamed else line["prompt"] or line["group_id"], line["label"]
