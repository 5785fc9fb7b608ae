"""How rollouts that come one by one and name no group become groups.

A member is a content that waits, or whose client is between two tries. Members of one content are exchangeable, so
nobody has to tell a retry from a twin, as long as the end of a connection is known before what its client sends next is
read: what `Exchange.watch` gets is called in the turn of the loop that reads the end.

    event                              what happens
    `size` members have come           the group is scored once, and all who wait are answered
    a connection ends while it waits   its place is kept for AWAY seconds; the next post of the content takes it, also
                                       while the group is being scored
    a connection ends before its reply the content is owed that reply, once: its next try gets it
    the hold is over                   `Held`, for 503: the client comes back, its place is kept
    a reply is lost unseen             the retry joins like any other. Where it came within RETRY seconds, and its group
                                       holds only contents just rewarded for SETTLE seconds, each gets what it had.
                                       So it does after three holds, where its client heard late of the loss
    the deadline is over               more than half is there: scored, `partial`; else equal rewards, `neutral`, or
                                       where a group of the key closed before, its content's reward or the middle
    the service stops                  all who wait get 503
    a client's last try is held        its end is its group's deadline. A first hold counts as the last in a process
                                       younger than YOUNG, as its clients may have tries behind them
    the memory is full                 kept replies go, the oldest first; then posts get 503

Two things cannot be told: a retry whose first try hangs in silence is another member, until that connection is found
dead; and a second group of a prompt, all of whose texts the first one had, gets its rewards as if they had been lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dare_reward.errors import DareError

from ..body import Disconnected
from ..problems import RefusalError, stopping

if TYPE_CHECKING:
    from ..uvicorn_connection import Exchange

AWAY: Final = 30.0  # seconds for which a member is remembered whose client does not come back: it pauses for one
RETRY: Final = 5.0  # seconds in which a client that lost its reply is back, if it hears of that at once,
LATE: Final = 1.1  # and holds, if it hears of it as its try is over; then it has two tries behind it, seldom more
TRIES: Final = 5  # of a client, a second apart; then it gives up, and its training may end
SETTLE: Final = 5.0  # seconds that such a member waits for siblings that were not there before
YOUNG: Final = 5.0  # seconds for which a process knows that its clients may have tries behind them
KEPT: Final = 900.0  # seconds for which a group's rewards are kept for those who missed them
SAME_STEP: Final = 2.0  # seconds after a group of a key in which another one is of the same step
MEMBER: Final = 1000  # bytes of a member, about
Reply = asyncio.Future[bytes]


class Held(DareError):  # noqa: N818  (an outcome of waiting)
    """The group did not fill while the request was held."""


@dataclass(slots=True, eq=False)
class WaitingMember:
    """content: a digest, equal for a retry; came: when it first did; tries: that its client has behind it; reply: what
    that waits for, None between two tries, and then `expiry` is when its place goes."""

    content: bytes
    rollout: Any
    came: float
    tries: int
    weight: int
    reply: Reply | None = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class JoiningGroup:
    """The members that are there.

    repeated   another group of the key filled in the same step: two jobs share a name, the data holds a prompt twice,
               or two versions of a policy answer it. They send the same requests, so nothing can be refused
    """

    key: Hashable
    size: int
    members: list[WaitingMember] = field(default_factory=list)
    closed: bool = False
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


Score = Callable[[JoiningGroup], Awaitable[tuple[Sequence[bytes], bytes]]]  # a reply each, and the middle


class Join:
    """The groups of one process. `hold` and `deadline` in seconds, `memory` in bytes."""

    def __init__(self, score: Score, *, hold: float, deadline: float, memory: int) -> None:
        self._score = score
        self.began = time.monotonic()
        self.hold, self.deadline, self.memory = hold, deadline, memory
        self.open: dict[Hashable, JoiningGroup] = {}
        self.scoring: dict[Hashable, JoiningGroup] = {}
        self.closed: OrderedDict[Hashable, ClosedGroup] = OrderedDict()
        self.waiting = self.bytes = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    async def reply(
        self, key: Hashable, size: int, content: bytes, rollout: Any, *, weight: int, client: Exchange
    ) -> bytes:
        """The member's reply. Raises Held; Disconnected where the client has gone; RefusalError 503 where nobody can
        wait."""
        await asyncio.sleep(0)  # connections whose end came with their request are read to their end
        if self._stopped:
            raise stopping()
        if client.gone:
            raise Disconnected
        now, weight = self.clock(), weight + MEMBER
        self._forget(now, weight)
        if (closed := self.closed.get(key)) is not None and closed.owes(content, now):
            closed.missed[content] -= 1
            found = closed.replies[content]
        else:
            group, member = self._arrive(now, key, size, content, rollout=rollout, weight=weight)
            member.reply = reply = asyncio.get_running_loop().create_future()
            if not group.closed and len(group.members) == size:
                self._close(group)
            found = await self._wait(now, group, member, reply, client)
        await asyncio.sleep(0)  # the connections that ended meanwhile are read
        if client.gone:
            self._miss(key, content)
            raise Disconnected
        return found

    def stop(self) -> None:
        """Who waits is sent away, as no sibling comes any more, nobody is let in; what is being scored is finished."""
        self._stopped = True
        for group in list(self.open.values()):
            self._end(group)
            self._fail(group, stopping())

    # --- a member's way ----------------------------------------------------------------------------------------------

    def _arrive(
        self, now: float, key: Hashable, size: int, content: bytes, *, rollout: Any, weight: int
    ) -> tuple[JoiningGroup, WaitingMember]:
        """The member's place: that of an equal one whose client is away, else a new one."""
        for group in filter(None, (self.scoring.get(key), self.open.get(key))):
            for member in group.members:
                if member.reply is None and member.content == content:
                    if member.expiry is not None:
                        member.expiry.cancel()
                    return group, member
        if self.bytes + weight > self.memory:
            why = "the memory for waiting rollouts is full; try again"
            raise RefusalError(503, why, code="memory", headers={"Retry-After": "1"})
        group = self.open.setdefault(key, JoiningGroup(key, size))
        tries = TRIES - 1 if time.monotonic() < self.began + YOUNG else 0
        group.members.append(member := WaitingMember(content, rollout, now, tries, weight))
        self.bytes += weight
        return group, member

    async def _wait(
        self, now: float, group: JoiningGroup, member: WaitingMember, reply: Reply, client: Exchange
    ) -> bytes:
        """Until there is a reply or no client; Held where the hold ends before."""
        until = min(now + self.hold, due := member.came + self.deadline)
        client.watch(leave := partial(self._leave, group, member, reply))
        self.waiting += 1
        try:
            if group.key in self.closed and self._before(group, RETRY) is not None:
                await asyncio.wait((reply,), timeout=min(until - now, SETTLE))
                if not reply.done():
                    self._repeat(group, RETRY)
                now = self.clock()
            await asyncio.wait((reply,), timeout=until - now)
            if not reply.done():
                if member.tries >= TRIES - 3:
                    self._repeat(group, LATE * self.hold)
                if not group.closed and until < due and member.tries < TRIES - 1:
                    raise Held(f"{len(group.members)} of {group.size} rollouts have come")
                if not group.closed:
                    self._close(group)
                await asyncio.wait((reply,))
        finally:
            self.waiting -= 1
            client.watch(None)
            leave()
        if reply.cancelled():
            raise Disconnected
        return reply.result()

    def _before(self, group: JoiningGroup, seconds: float) -> ClosedGroup | None:
        """The group of this key that closed just before, if it rewarded all members of this open one."""
        if (closed := self.closed.get(group.key)) is None or group.closed:
            return None
        known = all(m.content in closed.replies and m.came <= closed.at + seconds for m in group.members)
        return closed if known else None

    def _leave(self, group: JoiningGroup, member: WaitingMember, reply: Reply) -> None:
        """No client waits for the reply any more."""
        if reply.cancel():  # there is none yet
            member.reply = None
            member.tries += 1
            if not group.closed:
                member.expiry = asyncio.get_running_loop().call_later(AWAY, self._expire, group, member)

    def _expire(self, group: JoiningGroup, member: WaitingMember) -> None:
        if not group.closed:
            group.members.remove(member)
            self.bytes -= member.weight
            if not group.members:
                self._end(group)

    def _miss(self, key: Hashable, content: bytes) -> None:
        """The client was gone before its reply went out: its next try gets it."""
        if (closed := self.closed.get(key)) is not None and content in closed.replies:
            closed.missed[content] += 1
            closed.gone = self.clock()

    # --- closing -----------------------------------------------------------------------------------------------------

    def _end(self, group: JoiningGroup) -> None:
        group.closed = True
        del self.open[group.key]
        self.bytes -= sum(member.weight for member in group.members)

    def _close(self, group: JoiningGroup) -> None:
        """Its rewards, as far as members are there."""
        self._end(group)
        before = self.closed.get(group.key)
        if len(group.members) == group.size:
            first = min(member.came for member in group.members)
            group.repeated = group.key in self.scoring or (before is not None and first < before.at + SAME_STEP)
        self.scoring[group.key] = group
        task = asyncio.ensure_future(self._scored(group, before))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _repeat(self, group: JoiningGroup, seconds: float) -> None:
        """If they lost their replies, each gets what it had."""
        if (before := self._before(group, seconds)) is not None:
            before.at = self.clock()
            self._end(group)
            self._deliver(group, [before.replies[member.content] for member in group.members])

    async def _scored(self, group: JoiningGroup, before: ClosedGroup | None) -> None:
        members = group.members
        try:
            if before is not None and 2 * len(members) <= group.size:
                replies: Sequence[bytes] = [before.replies.get(m.content, before.middle) for m in members]
            else:
                replies, middle = await self._score(group)
                kept = {m.content: r for m, r in zip(members, replies, strict=True)}
                self._keep(group.key, ClosedGroup(self.clock(), kept, middle, sum(map(len, replies)) + MEMBER))
        except Exception as error:  # noqa: BLE001  (it is the error of all who wait)
            self._fail(group, error)
        else:
            self._deliver(group, replies)
        finally:
            if self.scoring.get(group.key) is group:
                del self.scoring[group.key]

    def _deliver(self, group: JoiningGroup, replies: Sequence[bytes]) -> None:
        """To those who wait; who is between two tries is owed it."""
        for member, reply in zip(group.members, replies, strict=True):
            if member.reply is None:
                self._miss(group.key, member.content)
            else:
                member.reply.set_result(reply)

    def _fail(self, group: JoiningGroup, error: Exception) -> None:
        for member in group.members:
            if member.reply is not None:
                member.reply.set_exception(error)

    # --- time and memory ---------------------------------------------------------------------------------------------

    def clock(self) -> float:
        """The event loop's: what waits is timed by it too."""
        return asyncio.get_running_loop().time()

    def _keep(self, key: Hashable, closed: ClosedGroup | None) -> None:
        """In place of what was kept of the key."""
        if (old := self.closed.pop(key, None)) is not None:
            self.bytes -= old.weight
        if closed is not None:
            self.closed[key] = closed
            self.bytes += closed.weight

    def _forget(self, now: float, weight: int) -> None:
        """Rewards that were kept for their time, and the oldest where there is no room for `weight` more bytes."""
        while self.closed:
            key, oldest = next(iter(self.closed.items()))
            if oldest.at + KEPT >= now and self.bytes + weight <= self.memory:
                break
            self._keep(key, None)
