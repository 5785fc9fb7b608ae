"""How rollouts that come one by one and name no group become groups.

A member is a content that waits, or whose client is between two tries. Members of one content are exchangeable, so
nobody has to tell a retry from a twin, as long as the end of a connection is known before what its client sends next is
read: `WaitingClient.end` is called in the turn of the loop that reads the end.

    event                              what happens
    `size` members have come           the group is scored once, and all who wait are answered
    a connection ends while it waits   its place is kept for AWAY seconds; the next post of the content takes it
    a connection ends before its reply the content is owed that reply, once: its next try gets it
    the hold is over                   `Held`, for 503: the client comes back, its place is kept
    a reply is lost unseen             the retry comes within RETRY seconds and joins like any other. Where its group
                                       holds only contents just rewarded for SETTLE seconds, each gets what it had
    the deadline is over               more than half is there: scored, `partial`; else equal rewards, `neutral`, or
                                       where a group of the key closed before, its content's reward or the middle
    the service stops                  all who wait get 503
    a process is younger than YOUNG    clients may have tries behind them: a member is due at the end of its first hold
    the memory is full                 kept replies go, the oldest first; then posts get 503

Two things cannot be told: a retry whose first try hangs in silence is another member, until that connection is found
dead; and a second group of a prompt, all of whose texts the first one had, gets its rewards after SETTLE seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal

from dare_reward.errors import DareError

from ..body import Disconnected
from ..problems import RefusalError, stopping

AWAY: Final = 30.0  # seconds for which a member is remembered whose client does not come back: it pauses for one
RETRY: Final = 5.0  # seconds in which a client that lost its reply is back
SETTLE: Final = 5.0  # seconds that such a member waits for siblings that were not there before
YOUNG: Final = 5.0  # seconds for which a process knows that its clients may have tries behind them
KEPT: Final = 900.0  # seconds for which a group's rewards are kept for those who missed them
SAME_STEP: Final = 2.0  # seconds after a group of a key in which another one is of the same step
MEMBER: Final = 1000  # bytes of a member, about
Reason = Literal["full", "deadline"]


class Held(DareError):  # noqa: N818  (an outcome of waiting)
    """The group did not fill while the request was held."""


@dataclass(slots=True, eq=False)
class WaitingMember:
    """content: a digest, equal for a retry; came: when it first did; due: when it waits for siblings no longer; left:
    since when no client waits, or None."""

    content: bytes
    rollout: Any
    came: float
    due: float
    weight: int
    reply: asyncio.Future[bytes]
    left: float | None = None


@dataclass(slots=True, eq=False)
class JoiningGroup:
    """The members that are there; `away` are those whose client is between two tries, by their content.

    repeated   another group of the key filled in the same step: two jobs share a name, the data holds a prompt twice,
               or two versions of a policy answer it. They send the same requests, so nothing can be refused
    """

    key: Hashable
    size: int
    members: list[WaitingMember] = field(default_factory=list)
    away: dict[bytes, list[WaitingMember]] = field(default_factory=dict)
    reason: Reason | None = None  # why it closed
    repeated: bool = False


@dataclass(slots=True)
class ClosedGroup:
    """What the last group of a key got, by content; `middle`: what comes too late; `missed`: who was gone by then.

    Who does not come for it within AWAY of `gone`, when the last of them was found gone, never will: then the content
    is another rollout's, of a later step.
    """

    at: float
    replies: dict[bytes, bytes]
    middle: bytes
    weight: int
    missed: Counter[bytes] = field(default_factory=Counter)
    gone: float = 0.0

    def owes(self, content: bytes, now: float) -> bool:
        """Whether the next post of the content gets its reply at once."""
        return self.missed[content] > 0 and now <= self.gone + AWAY


class WaitingClient:
    """The other end of one request."""

    def __init__(self) -> None:
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.leave: Callable[[], None] | None = None

    def end(self) -> None:
        """To be called in the turn in which it is read that the connection has ended."""
        if not self.gone.done():
            self.gone.set_result(None)
        if self.leave is not None:
            self.leave()


Score = Callable[[JoiningGroup], Awaitable[tuple[Sequence[bytes], bytes]]]  # a reply each, and the middle


class Join:
    """The groups of one process. `hold` and `deadline` in seconds, `memory` in bytes."""

    def __init__(self, score: Score, *, hold: float, deadline: float, memory: int) -> None:
        self._score = score
        self.began = time.monotonic()
        self.hold, self.deadline, self.memory = hold, deadline, memory
        self.open: dict[Hashable, JoiningGroup] = {}
        self.closed: OrderedDict[Hashable, ClosedGroup] = OrderedDict()
        self.waiting = self.bytes = 0
        self._filled: OrderedDict[Hashable, float] = OrderedDict()  # when a group of the key was last full
        self._left: deque[tuple[float, JoiningGroup, WaitingMember]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def reply(
        self, key: Hashable, size: int, content: bytes, rollout: Any, *, weight: int, client: WaitingClient
    ) -> bytes:
        """The member's reply. Raises Held; Disconnected where the client has gone; RefusalError 503 where nobody can
        wait."""
        if self._stopped:
            raise stopping()
        now = asyncio.get_running_loop().time()
        self._forget(now, weight + MEMBER)
        if (closed := self.closed.get(key)) is not None and closed.owes(content, now):
            closed.missed[content] -= 1
            return closed.replies[content]
        group, member = self._arrive(now, key, size, content, rollout=rollout, weight=weight + MEMBER)
        self.waiting += 1
        client.leave = partial(self._leave, group, member)
        try:
            await self._wait(now, group, member, client.gone)
        finally:
            self.waiting -= 1
            client.leave = None
            if not client.gone.done():
                self._leave(group, member)
        if client.gone.done():
            if group.reason is not None or member.reply.done():
                member.reply.add_done_callback(lambda _: self.missed(key, content))
            raise Disconnected
        return member.reply.result()

    def missed(self, key: Hashable, content: bytes) -> None:
        """The client was gone before its reply went out: its next try gets it."""
        if (closed := self.closed.get(key)) is not None and content in closed.replies:
            closed.missed[content] += 1
            closed.gone = self.clock()

    def stop(self) -> None:
        """Who waits is sent away, nobody is let in; what is being scored is finished."""
        self._stopped = True
        for group in self.open.values():
            for member in group.members:
                _fail(member, stopping())

    # --- a member's way ----------------------------------------------------------------------------------------------

    def _arrive(
        self, now: float, key: Hashable, size: int, content: bytes, *, rollout: Any, weight: int
    ) -> tuple[JoiningGroup, WaitingMember]:
        """The member's place: that of an equal one whose client is away, else a new one."""
        group = self.open.get(key)
        if group is not None and (away := group.away.get(content)):
            member = away.pop()
            member.left = None
            return group, member
        if self.bytes + weight > self.memory:
            why = "the memory for waiting rollouts is full; try again"
            raise RefusalError(503, why, code="memory", headers={"Retry-After": "1"})
        group = group or self.open.setdefault(key, JoiningGroup(key, size))
        young = time.monotonic() < self.began + YOUNG
        due = now + min(self.hold, self.deadline) if young else now + self.deadline
        member = WaitingMember(content, rollout, now, due, weight, asyncio.get_running_loop().create_future())
        group.members.append(member)
        self.bytes += weight
        if len(group.members) == size:
            self._close(group, "full")
        return group, member

    async def _wait(self, now: float, group: JoiningGroup, member: WaitingMember, gone: asyncio.Future[None]) -> None:
        """Until there is a reply or no client; Held where the hold ends before."""
        until = min(now + self.hold, member.due)
        if group.key in self.closed:
            if self._before(group) is not None and await _answered(member, gone, min(until - now, SETTLE)):
                return
            now = self.clock()
            if group.reason is None and (before := self._before(group)) is not None:
                before.at = now
                for other in group.members:
                    if not other.reply.done():
                        other.reply.set_result(before.replies[other.content])
        if await _answered(member, gone, until - now):
            return
        if group.reason is None:
            if until < member.due:
                raise Held(f"{len(group.members)} of {group.size} rollouts have come")
            self._close(group, "deadline")
        await _answered(member, gone, None)

    def _before(self, group: JoiningGroup) -> ClosedGroup | None:
        """The group of this key that closed just before, if it rewarded all members of this one."""
        closed = self.closed.get(group.key)
        if closed is None or any(m.content not in closed.replies or m.came > closed.at + RETRY for m in group.members):
            return None
        return closed

    def _leave(self, group: JoiningGroup, member: WaitingMember) -> None:
        if group.reason is not None:
            return
        if member.reply.done():  # answered by an earlier group, or stopped
            self._remove(group, member)
            return
        member.left = self.clock()
        group.away.setdefault(member.content, []).append(member)
        self._left.append((member.left, group, member))

    def _remove(self, group: JoiningGroup, member: WaitingMember) -> None:
        group.members.remove(member)
        self.bytes -= member.weight
        if not group.members and self.open.get(group.key) is group:
            del self.open[group.key]

    # --- closing -----------------------------------------------------------------------------------------------------

    def _close(self, group: JoiningGroup, reason: Reason) -> None:
        group.reason = reason
        del self.open[group.key]
        if reason == "full":
            before = self._filled.pop(group.key, float("-inf"))
            group.repeated = min(member.came for member in group.members) < before + SAME_STEP
            self._filled[group.key] = self.clock()
        self.bytes -= sum(member.weight for member in group.members)
        task = asyncio.ensure_future(self._scored(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _scored(self, group: JoiningGroup) -> None:
        members, closed = group.members, self.closed.get(group.key)
        try:
            if group.reason == "deadline" and closed is not None and 2 * len(members) <= group.size:
                replies: Sequence[bytes] = [closed.replies.get(m.content, closed.middle) for m in members]
            else:
                replies, middle = await self._score(group)
                kept = {m.content: r for m, r in zip(members, replies, strict=True)}
                missed = Counter(m.content for m in members if m.left is not None)
                weight = sum(map(len, replies)) + MEMBER
                now = self.clock()
                self._remember(group.key, ClosedGroup(now, kept, middle, weight, missed, gone=now))
        except Exception as error:  # noqa: BLE001  (it is the error of all who wait)
            for member in members:
                _fail(member, error)
            return
        for member, reply in zip(members, replies, strict=True):
            if not member.reply.done():
                member.reply.set_result(reply)

    # --- time and memory ---------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """The event loop's: what waits is timed by it too."""
        return asyncio.get_running_loop().time()

    def _remember(self, key: Hashable, closed: ClosedGroup) -> None:
        self._drop(key)
        self.closed[key] = closed
        self.bytes += closed.weight

    def _drop(self, key: Hashable) -> None:
        if (closed := self.closed.pop(key, None)) is not None:
            self.bytes -= closed.weight

    def _forget(self, now: float, weight: int) -> None:
        """What was kept for its time, and the oldest replies where there is no room for `weight` more bytes."""
        while self._left and self._left[0][0] + AWAY < now:
            since, group, member = self._left.popleft()
            if group.reason is None and member.left == since:
                group.away[member.content].remove(member)
                self._remove(group, member)
        while self._filled and next(iter(self._filled.values())) + SAME_STEP < now:
            self._filled.popitem(last=False)
        while self.closed:
            key, oldest = next(iter(self.closed.items()))
            if oldest.at + KEPT >= now and self.bytes + weight <= self.memory:
                break
            self._drop(key)


async def _answered(member: WaitingMember, gone: asyncio.Future[None], seconds: float | None) -> bool:
    """Wait for the reply or the client's end, but not longer."""
    done, _ = await asyncio.wait((member.reply, gone), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def _fail(member: WaitingMember, error: BaseException) -> None:
    if not member.reply.done():
        member.reply.set_exception(error)
        member.reply.exception()  # seen: the client may be between two tries
