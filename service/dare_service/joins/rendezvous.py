"""Groups that arrive one rollout at a time: which slot a request takes, when a group is full, what is forgotten when.

Wanted: `arrive` a request, let it `leave`, ask what is `due`, `sweep` what is stale. No clock, no sockets, no waiting:
`now` is an argument, so that every rule is a plain test. `join.py` puts asyncio around it.

Two kinds of group.

Without an index (unmodified OpenRLHF) a retry is byte for byte the same request as another rollout with the same text;
only liveness tells them apart. A slot is *attached* while a request waits on it and *detached* when that request ended
without its reward. A request takes a detached slot with its own content first, and opens a new slot otherwise. So the
number of slots is the largest number of identical requests that were ever waiting at once, which is the number of
rollouts as long as requests are held much longer than clients pause between tries.

With an index, slots are named: the same index with the same content is the same rollout, with other content a Conflict.

Cost: a dictionary look-up and a scan of one key's detached slots per arrival; a sweep looks into groups that have any.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from dare_reward.errors import DareError

__all__ = ["Arrival", "Conflict", "Group", "Reason", "Rendezvous", "Slot"]

Reason = Literal["full", "deadline", "patience"]


class Conflict(DareError):  # noqa: N818  (the layer above says it in HTTP)
    """The arrival contradicts what its group already holds."""


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
    """

    key: Hashable
    size: int
    identity: bytes
    rollout: Any
    index: int | None = None
    deadline: float | None = None
    patience: int | None = None
    origin: str = ""


@dataclass(slots=True, eq=False)
class Slot:
    """One rollout of a group."""

    arrival: Arrival
    arrived: float
    attached: int = 1
    tries: int = 1
    detached_at: float = 0.0
    delivered: bool = False

    @property
    def due_at(self) -> float:
        return float("inf") if self.arrival.deadline is None else self.arrived + self.arrival.deadline

    @property
    def waits_in_vain(self) -> bool:
        """Nobody is attached, and nobody has had its reward."""
        return not self.attached and not self.delivered


@dataclass(slots=True, eq=False)
class Group:
    """Slots that share a key.

    due_at    when it closes with what is there: counted from the earliest arrival that still counts
    reason    why it closed
    promise   belongs to the layer above
    """

    key: Hashable
    size: int
    slots: list[Slot] = field(default_factory=list)
    detached: int = 0
    due_at: float = float("inf")
    reason: Reason | None = None
    closed_at: float = 0.0
    promise: Any = None

    @property
    def indexed(self) -> bool:
        return bool(self.slots) and self.slots[0].arrival.index is not None

    @property
    def missing(self) -> list[int]:
        """Indices that have not arrived."""
        return sorted(set(range(self.size)) - {s.arrival.index for s in self.slots if s.arrival.index is not None})

    def detached_slot(self, identity: bytes) -> Slot | None:
        """The slot with this content that has waited longest for its client to come back."""
        if not self.detached:
            return None
        found = (s for s in self.slots if s.arrival.identity == identity and s.waits_in_vain)
        return min(found, key=lambda s: s.detached_at, default=None)


@dataclass(slots=True, eq=False)
class _Place:
    """What one key holds: at most one open group, and closed ones whose rewards are kept."""

    open: Group | None = None
    closed: list[Group] = field(default_factory=list)


class Rendezvous:
    """Every group in memory.

    stale   seconds after which a detached slot of an open group is dropped, with its vote
    keep    seconds for which the rewards of a closed group stay readable
    """

    def __init__(self, *, stale: float, keep: float) -> None:
        self.stale = stale
        self.keep = keep
        self._places: dict[Hashable, _Place] = {}

    def __iter__(self) -> Iterator[Group]:
        """All groups, open and kept."""
        for place in self._places.values():
            if place.open is not None:
                yield place.open
            yield from place.closed

    @property
    def open_groups(self) -> int:
        return sum(place.open is not None for place in self._places.values())

    def arrive(self, arrival: Arrival, now: float) -> tuple[Group, Slot]:
        """The slot that the request takes; its group is closed with reason `full` if that was the last one."""
        place = self._places.setdefault(arrival.key, _Place())
        if place.open is not None:
            self._drop_stale(place, place.open, now)
        found = self._named(place, arrival) if arrival.index is not None else self._unnamed(place, arrival)
        if found is not None:
            group, slot = found
            group.detached -= slot.waits_in_vain
            slot.attached += 1
            slot.tries += 1
            return group, slot
        group = place.open or Group(arrival.key, arrival.size)
        slot = Slot(arrival, now)
        group.slots.append(slot)
        group.due_at = min(group.due_at, slot.due_at)
        place.open = group
        if len(group.slots) == group.size:
            self.close(group, "full", now)
        return group, slot

    def leave(self, group: Group, slot: Slot, now: float, *, delivered: bool) -> None:
        """The request on the slot ended; `delivered`: with its reward, on a live connection."""
        slot.attached -= 1
        slot.delivered |= delivered
        if slot.waits_in_vain:
            slot.detached_at = now
            group.detached += 1
        elif (
            group.reason is not None
            and not group.indexed
            and not group.detached
            and all(s.delivered for s in group.slots)
        ):
            self._forget(group)

    def close(self, group: Group, reason: Reason, now: float) -> None:
        """Nobody else joins. Slots are put in the order of their indices, where there are any."""
        place = self._places[group.key]
        place.open = None
        place.closed.append(group)
        group.reason, group.closed_at = reason, now
        if group.indexed:
            group.slots.sort(key=lambda s: s.arrival.index or 0)

    def due(self, now: float) -> list[Group]:
        """Open groups whose deadline has passed. `sweep` first: a stale slot's deadline does not count."""
        return [p.open for p in self._places.values() if p.open is not None and p.open.due_at <= now]

    def sweep(self, now: float) -> int:
        """Forget what is stale; returns how many open groups went because all their clients did."""
        gone = 0
        for key, place in list(self._places.items()):
            if place.open is not None:
                self._drop_stale(place, place.open, now)
                gone += place.open is None
            place.closed = [g for g in place.closed if not self._outlived(g, now)]
            if place.open is None and not place.closed:
                del self._places[key]
        return gone

    def drop(self, group: Group) -> None:
        """Forget a group that cannot be scored, so that its members may form it again."""
        self._forget(group)

    def _named(self, place: _Place, arrival: Arrival) -> tuple[Group, Slot] | None:
        groups = [*place.closed, *([place.open] if place.open is not None else [])]
        for group in groups:
            if group.size != arrival.size:
                raise Conflict(f"group_size is {arrival.size}, and {group.size} in an earlier request of this group")
            slot = next((s for s in group.slots if s.arrival.index == arrival.index), None)
            if slot is not None and slot.arrival.identity != arrival.identity:
                raise Conflict(f"index {arrival.index} has arrived before with other content")
            if slot is not None:
                return group, slot
        if place.closed:
            raise Conflict(f"the group has closed without index {arrival.index}")
        return None

    def _unnamed(self, place: _Place, arrival: Arrival) -> tuple[Group, Slot] | None:
        """Rewards that wait for their client come before an open group: their client has waited longer."""
        for group in (*place.closed, place.open):
            slot = None if group is None else group.detached_slot(arrival.identity)
            if group is not None and slot is not None:
                return group, slot
        return None

    def _drop_stale(self, place: _Place, group: Group, now: float) -> None:
        if not group.detached:
            return
        kept = [s for s in group.slots if not (s.waits_in_vain and now - s.detached_at >= self.stale)]
        group.detached -= len(group.slots) - len(kept)
        group.slots = kept
        group.due_at = min((s.due_at for s in kept), default=float("inf"))
        if not kept:
            place.open = None

    def _outlived(self, group: Group, now: float) -> bool:
        if now - group.closed_at < self.keep or any(s.attached for s in group.slots):
            return False
        since = max((s.detached_at for s in group.slots if s.waits_in_vain), default=group.closed_at)
        return now - max(since, group.closed_at) >= self.keep

    def _forget(self, group: Group) -> None:
        place = self._places.get(group.key)
        if place is None:
            return
        if place.open is group:
            place.open = None
        place.closed = [g for g in place.closed if g is not group]
        if place.open is None and not place.closed:
            del self._places[group.key]
