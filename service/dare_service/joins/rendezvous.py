"""Groups that arrive one rollout at a time: which slot a request takes, when a group closes, what is remembered.

You `arrive` with a request, `leave` when its client has its reply or is gone, and `sweep` now and then. There is no
clock, no socket and no waiting here: `now` is an argument, so every rule is a plain test. `join.py` puts asyncio
around it.

A request waits on a *slot*. A slot is attached while a request waits on it or its reply is on the way, delivered once
there is evidence that the client has the reply, and *away* when all of its requests ended without such evidence.

**Without an index** (unmodified OpenRLHF) a retry is byte for byte the same request as another rollout with the same
text. These rules decide:

1. A request takes a slot of its own content that is away: first one whose group has closed, and it gets that reward;
   then one whose group is open, and it counts once.
2. Any other request is a new rollout. A slot that is attached is never taken: identical texts that wait at the same
   time are legal and common, and a group that takes two of them for one never fills. If it was a retry after all
   (the service has not heard that the first connection is dead), one rollout counts twice, and a sibling is left over.
   Rule 4 catches the sibling; the others' rewards are off by one vote.
3. A delivered slot is never taken either: the next epoch may bring the same text, and its group needs the vote.
4. A group that closes early is one of three things:
   *recalled*, if an earlier group of its key rewarded the content of every member: they are leftovers of that group
   (a proxy acknowledged their replies and lost them), and each gets the reward that it had there;
   *scored*, if more than `min_share` of its members are there, and more than one. Of a group that was split, by a
   restart for example, at most one part has more than half;
   *neutral* otherwise: no reward is made from a few leftovers. A content that is known is still recalled, the others
   get the middle of the earlier group's rewards, or zero where no earlier group is known.

Every rule errs on the side of repeating a reward: the same text a few minutes later would earn nearly the same. A
rollout scored alone earns the full reward for being wrong.

**With an index** slots have names: the same index with the same content is the same rollout and gets the same reply,
other content is a Conflict, and so are members whose `terms` differ. An index that comes after its group has closed is
a Conflict too, unless the client counts its tries: it would end its run over a Conflict, so its rollout is a group of
its own that closes at once, neutral.

A closed group is remembered for `keep` seconds after its last request or reply, without its rollouts: digests and
results only. All slots together take at most `memory` bytes: the group that was used least recently goes first, then
new rollouts are refused with Full.

An arrival costs a few dictionary look-ups, and a scan of its group if slots of it are away. A sweep looks only at
groups for which something is due.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Any, Literal

from dare_reward.errors import DareError

Reason = Literal["full", "deadline", "patience"]
Fate = Literal["scored", "recalled", "neutral"]

AT_ONCE = 1000  # groups that a sweep forgets at most, 3 ms; the next one goes on
SLOT_BYTES = 1000  # what Python needs for a slot, its indices and its share of the group, measured


class Conflict(DareError):  # noqa: N818  (the layer above says it in HTTP)
    """The arrival contradicts what its group already holds."""


class Differs(Conflict):
    """The arrival's terms are not those of its group."""

    def __init__(self, had: Any, has: Any) -> None:
        self.had = had
        self.has = has
        super().__init__("the terms differ from those of an earlier request of this group")


class Full(DareError):  # noqa: N818
    """No memory is left for another rollout."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request.

    key        what siblings share, and nobody else
    size       rollouts of the group
    identity   digest of the content: equal for a retry
    rollout    what the score will see
    index      place in the group, where the client names one
    deadline   seconds from the first arrival after which the group closes with what is there; None: never
    patience   tries that the client makes; None: unknown
    terms      what all members must agree on, compared where slots have names
    min_share  a group that closes early is scored if more than this share of its members is there
    weight     bytes that the rollout takes while it waits
    """

    key: Hashable
    size: int
    identity: bytes
    rollout: Any
    index: int | None = None
    deadline: float | None = None
    patience: int | None = None
    origin: str = ""
    terms: Any = None
    min_share: float = 0.0
    weight: int = 0


@dataclass(slots=True, eq=False)
class Slot:
    """One rollout of a group."""

    arrival: Arrival
    arrived: float
    attached: int = 1
    tries: int = 1
    away_since: float = 0.0
    delivered: bool = False

    @property
    def due_at(self) -> float:
        return float("inf") if self.arrival.deadline is None else self.arrived + self.arrival.deadline

    @property
    def away(self) -> bool:
        """Nobody is attached, and nobody has had its reward."""
        return not self.attached and not self.delivered


@dataclass(slots=True, eq=False)
class JoiningGroup:
    """Slots that share a key.

    away      how many of its slots are
    due_at    when it closes with what is there: counted from the earliest arrival that still counts
    reason    why it closed; None: it is open
    fate      where its rewards come from
    results   one per slot, once known
    middle    what a sibling gets that comes too late
    promise   belongs to the layer above
    """

    key: Any
    size: int
    terms: Any = None
    slots: list[Slot] = field(default_factory=list)
    away: int = 0
    due_at: float = float("inf")
    look_at: float = float("inf")
    reason: Reason | None = None
    fate: Fate = "scored"
    closed_at: float = 0.0
    used_at: float = 0.0
    weight: int = 0
    results: Sequence[Any] | None = None
    middle: Any = None
    promise: Any = None

    @property
    def missing(self) -> list[int]:
        """Indices that have not arrived."""
        return sorted(set(range(self.size)) - {s.arrival.index for s in self.slots if s.arrival.index is not None})

    def result(self, identity: bytes) -> Any:
        """What the content got here, or None."""
        at = next((i for i, s in enumerate(self.slots) if s.arrival.identity == identity), None)
        return None if at is None or self.results is None else self.results[at]


@dataclass(frozen=True, slots=True)
class Swept:
    """expired: open groups that went because all of their clients did; due: groups whose deadline has passed."""

    expired: int
    due: Sequence[JoiningGroup]


@dataclass(slots=True, eq=False)
class _Place:
    """What one key holds: at most one open group, closed ones in the order of their closing, who was rewarded where."""

    open: JoiningGroup | None = None
    closed: dict[JoiningGroup, None] = field(default_factory=dict)
    known: dict[bytes, JoiningGroup] = field(default_factory=dict)


class Rendezvous:
    """Every group in memory.

    stale    seconds after which a slot of an open group that is away is dropped, with its vote
    keep     seconds for which a closed group is remembered after its last request or reply
    memory   bytes of all slots
    """

    def __init__(self, *, stale: float, keep: float, memory: float = float("inf")) -> None:
        self.stale = stale
        self.keep = keep
        self.memory = memory
        self.bytes = 0
        self.open_groups = 0
        self._places: dict[Hashable, _Place] = {}
        self._away: dict[tuple[Hashable, bytes], list[tuple[JoiningGroup, Slot]]] = {}
        self._kept: OrderedDict[JoiningGroup, None] = OrderedDict()
        self._looks: list[tuple[float, int, JoiningGroup]] = []
        self._numbers = count()

    def __iter__(self) -> Iterator[JoiningGroup]:
        """All groups, open and remembered."""
        for place in self._places.values():
            if place.open is not None:
                yield place.open
            yield from place.closed

    def __bool__(self) -> bool:
        return bool(self._places)

    @property
    def remembered(self) -> int:
        """Closed groups."""
        return len(self._kept)

    def arrive(self, arrival: Arrival, now: float) -> tuple[JoiningGroup, Slot]:
        """The slot that the request takes; its group is closed with reason `full` if that was the last one."""
        place = self._places.get(arrival.key)
        if place is not None and place.open is not None and place.open.away:
            self._drop_stale(place.open, now)
            place = self._places.get(arrival.key)
        found = self._named(place, arrival) if arrival.index is not None else self._returning(arrival)
        if found is not None:
            group, slot = found
            self._attach(group, slot, now)
            return found
        self._evict(SLOT_BYTES + arrival.weight)
        if self.bytes + SLOT_BYTES + arrival.weight > self.memory:
            raise Full
        place = self._places.setdefault(arrival.key, _Place())
        group = place.open or self._open(place, arrival)
        slot = Slot(arrival, now)
        group.slots.append(slot)
        self._weigh(group, SLOT_BYTES + arrival.weight)
        group.due_at = min(group.due_at, slot.due_at)
        self._look(group, group.due_at)
        if len(group.slots) == group.size:
            self.close(group, "full", now)
        elif arrival.index is not None and place.closed:
            self.close(group, "deadline", now)
        return group, slot

    def leave(self, group: JoiningGroup, slot: Slot, now: float, *, delivered: bool) -> None:
        """A request on the slot ended; `delivered`: there is evidence that its client has the reward."""
        slot.attached -= 1
        slot.delivered |= delivered
        if slot.away:
            slot.away_since = now
            group.away += 1
            if slot.arrival.index is None and self._holds(group):
                self._away.setdefault((group.key, slot.arrival.identity), []).append((group, slot))
            if group.reason is None:
                self._look(group, now + self.stale)
        self._use(group, now)

    def close(self, group: JoiningGroup, reason: Reason, now: float) -> None:
        """Nobody else joins. Slots are put in the order of their indices, where there are any."""
        place = self._places[group.key]
        place.open = None
        place.closed[group] = None
        self.open_groups -= 1
        group.reason, group.closed_at, group.used_at = reason, now, now
        self._kept[group] = None
        if group.slots[0].arrival.index is not None:
            group.slots.sort(key=lambda s: s.arrival.index or 0)
        if reason != "full":
            known = [s.arrival.identity in place.known for s in group.slots]
            enough = len(group.slots) > max(1, group.slots[0].arrival.min_share * group.size)
            group.fate = "recalled" if all(known) else "scored" if enough else "neutral"

    def leftover(self, group: JoiningGroup) -> bool:
        """Whether all members of the open group were rewarded before: they have tries behind them, in another group."""
        place = self._places.get(group.key)
        return place is not None and all(s.arrival.identity in place.known for s in group.slots)

    def recalled(self, group: JoiningGroup) -> list[Any]:
        """For each slot what an earlier group of the key says: its reward there, else the middle of the last one's."""
        place = self._places.get(group.key)
        if place is None:
            return [None] * len(group.slots)
        middle = next((g.middle for g in reversed(place.closed) if g.middle is not None), None)
        found = []
        for slot in group.slots:
            earlier = place.known.get(slot.arrival.identity)
            result = None if earlier is None else earlier.result(slot.arrival.identity)
            found.append(middle if result is None else result)
        return found

    def keep_results(self, group: JoiningGroup, results: Sequence[Sized], middle: Sized | None = None) -> None:
        """Remember what the members got, and forget their rollouts."""
        group.results, group.middle = results, middle
        if not self._holds(group):
            return
        place = self._places[group.key]
        for slot in group.slots:
            place.known[slot.arrival.identity] = group
            slot.arrival = Arrival(group.key, group.size, slot.arrival.identity, None, slot.arrival.index)
        sizes = sum(map(len, results)) + (0 if middle is None else len(middle))
        self._weigh(group, SLOT_BYTES * len(group.slots) + sizes - group.weight)
        self._evict(0)

    def sweep(self, now: float) -> Swept:
        """Forget what is stale and what was kept for its time. You close what is due."""
        expired, due = 0, []
        while self._looks and self._looks[0][0] <= now:
            when, _, group = heapq.heappop(self._looks)
            if when != group.look_at or group.reason is not None or not self._holds(group):
                continue
            group.look_at = float("inf")
            self._drop_stale(group, now)
            if not group.slots:
                expired += 1
            elif group.due_at <= now:
                due.append(group)
            else:
                stale = (s.away_since + self.stale for s in group.slots if s.away)
                self._look(group, min(group.due_at, *stale) if group.away else group.due_at)
        for oldest in list(islice(self._kept, AT_ONCE)):
            if oldest.used_at + self.keep > now:
                break
            if any(s.attached for s in oldest.slots):
                self._use(oldest, now)
            else:
                self.drop(oldest)
        return Swept(expired, due)

    def drop(self, group: JoiningGroup) -> None:
        """Forget a group: its time is over, or it cannot be scored and its members may form it again."""
        place = self._places.get(group.key)
        if place is None or not self._holds(group):
            return
        if place.open is group:
            place.open = None
            self.open_groups -= 1
        place.closed.pop(group, None)
        self._kept.pop(group, None)
        for slot in group.slots:
            if place.known.get(slot.arrival.identity) is group:
                del place.known[slot.arrival.identity]
            if slot.away:
                self._forget_away(group, slot)
        self._weigh(group, -group.weight)
        if place.open is None and not place.closed:
            del self._places[group.key]

    # --- finding a slot -----------------------------------------------------------------------------------------------

    def _returning(self, arrival: Arrival) -> tuple[JoiningGroup, Slot] | None:
        """Rule 1. Of slots alike the one that has been away longest."""
        away = self._away.get((arrival.key, arrival.identity))
        if not away:
            return None
        return next((found for found in away if found[0].reason is not None), away[0])

    def _named(self, place: _Place | None, arrival: Arrival) -> tuple[JoiningGroup, Slot] | None:
        if place is None:
            return None
        groups = [*place.closed, *([place.open] if place.open is not None else [])]
        for group in groups:
            if group.size != arrival.size:
                raise Conflict(f"group_size is {arrival.size}, and {group.size} in an earlier request of this group")
            if group.terms != arrival.terms:
                raise Differs(group.terms, arrival.terms)
            slot = next((s for s in group.slots if s.arrival.index == arrival.index), None)
            if slot is not None and slot.arrival.identity != arrival.identity:
                raise Conflict(f"index {arrival.index} has arrived before with other content")
            if slot is not None:
                return group, slot
        if place.closed and arrival.patience is None:
            raise Conflict(f"the group has closed without index {arrival.index}")
        return None

    def _attach(self, group: JoiningGroup, slot: Slot, now: float) -> None:
        if slot.away:
            group.away -= 1
            self._forget_away(group, slot)
        slot.attached += 1
        slot.tries += 1
        self._use(group, now)

    def _forget_away(self, group: JoiningGroup, slot: Slot) -> None:
        name = (group.key, slot.arrival.identity)
        away = self._away.get(name)
        if away is not None and (group, slot) in away:
            away.remove((group, slot))
            if not away:
                del self._away[name]

    # --- time and memory ----------------------------------------------------------------------------------------------

    def _open(self, place: _Place, arrival: Arrival) -> JoiningGroup:
        place.open = JoiningGroup(arrival.key, arrival.size, arrival.terms)
        self.open_groups += 1
        return place.open

    def _holds(self, group: JoiningGroup) -> bool:
        """Whether the group is still remembered."""
        place = self._places.get(group.key)
        return place is not None and (place.open is group or group in place.closed)

    def _look(self, group: JoiningGroup, when: float) -> None:
        """See to it that a sweep looks at the open group then."""
        if when < group.look_at:
            group.look_at = when
            heapq.heappush(self._looks, (when, next(self._numbers), group))

    def _use(self, group: JoiningGroup, now: float) -> None:
        if group in self._kept:
            group.used_at = now
            self._kept.move_to_end(group)

    def _drop_stale(self, group: JoiningGroup, now: float) -> None:
        """The group goes with its last slot."""
        stale = [s for s in group.slots if s.away and now - s.away_since >= self.stale]
        if not stale:
            return
        for slot in stale:
            self._forget_away(group, slot)
            self._weigh(group, -SLOT_BYTES - slot.arrival.weight)
        group.away -= len(stale)
        group.slots = [s for s in group.slots if s not in stale]
        group.due_at = min((s.due_at for s in group.slots), default=float("inf"))
        if not group.slots:
            self.drop(group)

    def _weigh(self, group: JoiningGroup, more: int) -> None:
        group.weight += more
        self.bytes += more

    def _evict(self, more: int) -> None:
        """Groups that are scored go, the least recently used first. Whoever waits for their replies still gets them."""
        excess = self.bytes + more - self.memory
        if excess <= 0:
            return
        victims = []
        for group in self._kept:
            if excess <= 0:
                break
            if group.results is not None:
                victims.append(group)
                excess -= group.weight
        for group in victims:
            self.drop(group)
