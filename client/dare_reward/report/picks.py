"""Why a group is worth reading, and which ones are shown: of each reason, an even sample of the run, and the last."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from ..numbers import majority


@dataclass(frozen=True, slots=True)
class Reason:
    """In a few words, and in a sentence."""

    short: str
    meaning: str


SCATTERED: Final = 0.2
# The first to read comes first.
REASONS: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "failed": Reason("not scored", "the group could not be scored"),
        "wrong": Reason("confident and wrong", "the label says that a confident majority is wrong"),
        "missed": Reason("right answer lost", "the pseudo-label is wrong, and some rollouts are right"),
        "silent": Reason("few answers", "more than half of the rollouts have no answer"),
        "overruled": Reason("votes overruled", "another answer than the most voted one won"),
        "flip": Reason(
            "a shadow method differs",
            "a shadow method would have chosen another label, or given advantages of the other sign",
        ),
        "pruned": Reason("nothing kept", "every answer was pruned"),
        "scattered": Reason("scattered", "the most voted answer has less than a fifth of the votes"),
        "tie": Reason("tie", "several answers have the most votes"),
    }
)


def reasons(line: Mapping[str, Any]) -> dict[str, float]:
    """Those of REASONS that hold for a line of a run log, in their order, each with how much it does."""
    reply = line["reply"]
    if reply.get("error") is not None:
        return {"failed": 0.0}
    diagnostics, flags = reply.get("diagnostics") or {}, reply.get("flags") or ()
    valid, support = reply.get("valid") or (), reply.get("support") or ()
    votes = {s.get("answer"): s["count"] for s in support}
    most, share, right = max(votes.values(), default=0), majority(diagnostics), diagnostics.get("ground_truth_ratio")
    won = votes.get(reply.get("pseudo_label"), most)
    out = {}
    if diagnostics.get("label_accuracy") == 0 and won == most and share > 0.5:
        out["wrong"] = share
    elif diagnostics.get("label_accuracy") == 0 and right:
        out["missed"] = right
    if 2 * valid.count(False) > len(valid):
        out["silent"] = valid.count(False) / len(valid)
    if won < most:
        out["overruled"] = float(most - won)
    shadows = [s for s in (diagnostics.get("shadow") or {}).values() if isinstance(s, Mapping) and "error" not in s]
    if shadows and (strength := max(_differs(s) for s in shadows)) > 0:
        out["flip"] = strength
    if "all_pruned" in flags:
        out["pruned"] = float(len(support))
    if 0 < most < SCATTERED * len(valid):
        out["scattered"] = 1 - share
    if "tie" in flags:
        out["tie"] = share
    return out


def _differs(shadow: Mapping[str, Any]) -> float:
    return (1.0 - float(shadow.get("label_agreement", 1.0))) + float(shadow.get("flipped") or 0.0)


EACH: Final = 8  # groups of a reason
SAMPLE: Final = 64  # groups of the even sample
RECENT: Final = 4  # of the end: an open page is sent them at every step
LIMITS: Final = MappingProxyType({**dict.fromkeys(REASONS, EACH), "recent": RECENT, "sample": SAMPLE})
GOLDEN: Final = (5**0.5 - 1) / 2  # the first n multiples of it, modulo 1, leave no wide gap, for any n
ROLLOUTS: Final = 256  # of a group that are kept
TEXT: Final = 4000  # characters of a text that are kept
ANSWER: Final = 500  # characters of an answer
ANSWERS: Final = 20_000  # characters of a group's answers that are kept for a while without being cut

Line = Mapping[str, Any]
Card = dict[str, Any]  # what the page draws of a group, or its `line`
KEYS: Final = ("step", "kind", "label")
SAID: Final = (
    "group_id", "method", "config_id", "pseudo_label", "entropy_source", "flags", "diagnostics", "error",
)  # fmt: skip
COLUMNS: Final = ("answers", "rewards", "advantages", "keep", "valid")  # of the reply, an entry a rollout
OF_ROLLOUT: Final = MappingProxyType({
    "trained": "trained", "correct": "correct", "num_tokens": "num_tokens", "mean_entropies": "mean_entropy",
})  # fmt: skip


@dataclass(slots=True)
class Picks:
    """Bounded by LIMITS: of each reason the groups where it holds most, an even sample, the end.

    Most are gone before anybody looks at them, so what is shown of a `line` is made when somebody does.
    """

    _best: dict[str, list[tuple[float, int, Card]]] = field(default_factory=lambda: {n: [] for n in LIMITS})
    _count: int = 0

    def add(self, line: Line, place: int, why: Mapping[str, float]) -> None:
        """Pick the group of a line, for the `reasons` that hold."""
        serial = self._count
        self._count += 1
        card = {"key": serial, "place": place, "why": tuple(why), "line": line}
        if not _is_light(line):
            _show(card)
        for name, strength in {**why, "recent": 0.0, "sample": 1 - serial * GOLDEN % 1}.items():
            heapq.heappush(self._best[name], (strength, serial, card))
            if len(self._best[name]) > LIMITS[name]:
                heapq.heappop(self._best[name])

    def cards(self) -> list[Card]:
        """The first by reason, reason by reason in turn; then the newest; then the sample. No group twice."""
        ranked = {name: [card for *_, card in sorted(best, reverse=True)] for name, best in self._best.items()}
        turns = [card for turn in zip_longest(*(ranked[name] for name in REASONS)) for card in turn if card]
        sample = sorted(ranked["sample"], key=itemgetter("key"))
        return list({card["key"]: card for card in (*turns, *ranked["recent"], *sample)}.values())

    def within(self, size: int) -> Iterator[Card]:
        """What is shown of those that fit into so many bytes, the first to read first.

        One that takes an eighth of the room left goes without its texts.
        """
        for card in self.cards():
            _show(card)
            shown, length = card, len(json.dumps(card))
            if length > size // 8 and "texts" in card:
                shown = {**{k: v for k, v in card.items() if k != "texts"}, "left_out": True}
                length = len(json.dumps(shown))
            if length <= size:
                size -= length
                yield shown


def _show(card: Card) -> None:
    """Make what is shown of its line, which is let go."""
    if (line := card.pop("line", None)) is not None:
        card |= _cut(line)


def _is_light(line: Line) -> bool:
    """It may wait as it is: there is no text in it, and its answers are few and short."""
    rollouts, answers = line["rollouts"], line["reply"].get("answers") or ()
    heavy = line.get("prompt") or "text" in set().union(*rollouts)
    return not heavy and len(rollouts) <= ROLLOUTS and sum(map(len, filter(None, answers))) <= ANSWERS


def _cut(line: Line) -> dict[str, Any]:
    """What the page draws of a group: columns over its first ROLLOUTS rollouts."""
    reply, sent = line["reply"], line["rollouts"]
    rollouts = sent[:ROLLOUTS]
    out = {name: _short(line[name]) for name in KEYS if line.get(name) is not None}
    out |= {name: _short(reply[name]) for name in SAID if reply.get(name) is not None}
    out["size"] = len(sent)
    out |= {name: [_short(v) for v in reply[name][:ROLLOUTS]] for name in COLUMNS if reply.get(name) is not None}
    for name, own in OF_ROLLOUT.items():
        if any(own in r for r in rollouts):
            out[name] = [_short(r.get(own, True if own == "trained" else None)) for r in rollouts]
    if reply.get("support") is not None:
        out["support"] = [{k: _short(v) for k, v in row.items()} for row in reply["support"][:ROLLOUTS]]
    if line.get("prompt") is not None:
        out["prompt"] = str(line["prompt"])[:TEXT]
    if any(r.get("text") is not None for r in rollouts):
        out["texts"] = [None if (t := r.get("text")) is None else t[:TEXT] for r in rollouts]
    return out


def _short(value: Any) -> Any:
    """A number to six digits, an answer to a length that fits."""
    if isinstance(value, float):
        return round(value, 6) if abs(value) >= 0.1 else float(f"{value:.6g}")
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    return value[:ANSWER] if isinstance(value, str) else value
