"""Which single groups a reader should see: those of each reason, an even sample of the run, and the last ones."""

from __future__ import annotations

import heapq
import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..numbers import NOTHING
from ..runs.reasons import REASONS, reasons

EACH: Final = 8  # groups of a reason
SAMPLE: Final = 32  # groups of the even sample; half of them go when it is full
RECENT: Final = 16
ROLLOUTS: Final = 256  # of a group that are kept
TEXT: Final = 4000  # characters of a text that are kept
TOKENS: Final = 2048  # entropies of a rollout that are kept
ANSWER: Final = 500  # characters of an answer
ANSWERS: Final = 20_000  # characters of a group's answers that are kept for a while without being cut
HEAVY: Final = ("token_entropies", "texts")

Line = Mapping[str, Any]
KEYS: Final = (
    "step", "group_id", "kind", "method", "config_id", "label", "pseudo_label", "entropy_source", "flags",
    "diagnostics", "error",
)  # fmt: skip
COLUMNS: Final = ("answers", "rewards", "advantages", "keep", "valid", "trained", "correct", "num_tokens")


@dataclass(slots=True, eq=False)
class PickedGroup:
    """A group that was picked: its step, its number in the run, `why`, and its line, or what makes it.

    Most are gone before anybody looks at them, so what is shown of a line is made when somebody does, and once.
    """

    place: int
    serial: int
    why: tuple[str, ...]
    line: Line | Callable[[], Line]
    _shown: dict[str, Any] | None = None
    _size: int = 0

    def cut(self) -> PickedGroup:
        """Without the line, of which only what is shown is kept."""
        if self._shown is None:
            line = self.line() if callable(self.line) else self.line
            self._shown = {"key": self.serial, "place": self.place, "why": self.why, **_cut(line)}
            self._size = len(json.dumps(self._shown))
            self.line = NOTHING
        return self

    def within(self, size: int) -> tuple[dict[str, Any], int] | None:
        """As JSON for the report, and its bytes; None if it does not fit.

        One that takes an eighth of the room left goes without its longest parts.
        """
        self.cut()
        shown, length = self._shown or {}, self._size
        for name in HEAVY:
            if length > size // 8 and name in shown:
                shown = {**{k: v for k, v in shown.items() if k != name}, "left_out": True}
                length = len(json.dumps(shown))
        return (shown, length) if length <= size else None


@dataclass(slots=True)
class Picks:
    """Bounded: at most `EACH` groups of each reason, `SAMPLE` over the run, `RECENT` of the end, or a part of them."""

    recent: deque[PickedGroup] = field(default_factory=lambda: deque(maxlen=RECENT))
    _best: dict[str, list[tuple[float, int, PickedGroup]]] = field(default_factory=dict)
    _sample: list[PickedGroup] = field(default_factory=list)
    _stride: int = 1
    _count: int = 0
    _each: int = EACH
    _most: int = SAMPLE

    def add(
        self, line: Line, place: int, whole: Callable[[], Callable[[], Line]] | None = None, *, recent: bool = True
    ) -> None:
        """Pick the group of a line, or not.

        whole    returns what makes the line, where `line` holds its head alone
        recent   False: RECENT others of its request come after it
        """
        serial, why = self._count, reasons(line)
        self._count += 1
        heaps = [(self._best.setdefault(name, []), strength) for name, strength in why.items()]
        best = [(heap, x) for heap, x in heaps if len(heap) < self._each or (x, serial) > heap[0][:2]]
        sampled = serial % self._stride == 0
        if not (recent or best or sampled):
            return
        card = PickedGroup(place, serial, tuple(why), line if whole is None else whole())
        card = card if _is_light(line) else card.cut()
        if recent:
            self.recent.append(card)
        for heap, strength in best:
            (heapq.heappush if len(heap) < self._each else heapq.heappushpop)(heap, (strength, serial, card))
        if sampled:
            self._sample.append(card)
            self._thin()

    def keep(self, part: int) -> None:
        """One of so many parts of what a run alone may keep."""
        self._each, self._most = max(EACH // part, 1), max(SAMPLE // part, 1)
        self.recent = deque(self.recent, max(RECENT // part, 1))
        for heap in self._best.values():
            while len(heap) > self._each:
                heapq.heappop(heap)
        self._thin()

    def _thin(self) -> None:
        while len(self._sample) >= 2 * self._most:
            self._sample = self._sample[::2]
            self._stride *= 2

    def cards(self) -> Iterator[PickedGroup]:
        """The first by reason, reason by reason in turn; then the newest; then the sample. No group twice."""
        ranked = [[c for _, _, c in sorted(self._best.get(r, ()), key=lambda x: x[:2])[::-1]] for r in REASONS]
        turns = [cards[i] for i in range(self._each) for cards in ranked if i < len(cards)]
        seen: set[int] = set()
        for card in (*turns, *reversed(self.recent), *self._sample):
            if card.serial not in seen:
                seen.add(card.serial)
                yield card


def _is_light(line: Line) -> bool:
    """It may wait as it is: there is no text in it, and its answers are few and short."""
    heavy = line.get("prompt") or line.get("texts") or line.get("token_entropies")
    return (
        not heavy
        and len(line.get("valid") or ()) <= ROLLOUTS
        and sum(map(len, filter(None, line.get("answers") or ()))) <= ANSWERS
    )


def _cut(line: Line) -> dict[str, Any]:
    out = {name: _short(line[name]) for name in KEYS if line.get(name) is not None}
    out["size"] = len(line.get("valid") or ())
    for name in COLUMNS:
        if line.get(name) is not None:
            out[name] = [_short(v) for v in line[name][:ROLLOUTS]]
    if line.get("mean_entropies") is not None:
        out["mean_entropies"] = [_short(v) for v in line["mean_entropies"][:ROLLOUTS]]
    if line.get("support") is not None:
        out["support"] = [{k: _short(v) for k, v in row.items()} for row in line["support"][:ROLLOUTS]]
    if line.get("prompt") is not None:
        out["prompt"] = str(line["prompt"])[:TEXT]
    if line.get("texts") is not None:
        out["texts"] = [None if t is None else t[:TEXT] for t in line["texts"][:ROLLOUTS]]
    if line.get("token_entropies") is not None:
        traces = line["token_entropies"][:ROLLOUTS]
        out["token_entropies"] = [None if t is None else [round(float(x), 2) for x in t[:TOKENS]] for t in traces]
    return out


def _short(value: Any) -> Any:
    """A number to six digits, an answer to a length that fits."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return value[:ANSWER] if isinstance(value, str) else value
