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
from collections import OrderedDict
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
    """A rollout and its place in a group.

    content   a digest, equal for a retry
    came      when it first did
    tries     that its client has behind it
    reply     what that waits for; None between two tries, and then `expiry` is when its place goes
    """

    content: bytes
    rollout: Any
    came: float
    tries: int
    weight: int
    group: JoiningGroup = field(init=False)
    reply: Reply | None = None
    expiry: asyncio.TimerHandle | None = None


@dataclass(slots=True, eq=False)
class JoiningGroup:
    """A group that forms, is scored, and is kept for those who missed its rewards.

    members    who is there; once it was scored, whose client was gone by then
    closed     nobody joins it any more
    repeated   another group of the key filled in the same step: two jobs share a name, the data holds a prompt twice,
               or two versions of a policy answer it. They send the same requests, so nothing can be refused
    replies    what it got, by content, and `middle` is what comes too late: once it was scored, which was `at`
    """

    key: Hashable
    size: int
    members: list[WaitingMember] = field(default_factory=list)
    closed: bool = False
    repeated: bool = False
    replies: dict[bytes, bytes] = field(default_factory=dict)
    middle: bytes = b""
    at: float = 0.0
    weight: int = 0
    task: asyncio.Task[None] | None = None


Score = Callable[[JoiningGroup], Awaitable[tuple[Sequence[bytes], bytes]]]  # a reply each, and the middle


class Join:
    """The groups of one process. `hold` and `deadline` in seconds, `memory` in bytes."""

    def __init__(self, score: Score, *, hold: float, deadline: float, memory: int) -> None:
        self._score, self._stopped = score, False
        self.began = time.monotonic()
        self.hold, self.deadline, self.memory = hold, deadline, memory
        self.open: dict[Hashable, JoiningGroup] = {}
        self.scoring: dict[Hashable, JoiningGroup] = {}
        self.closed: OrderedDict[Hashable, JoiningGroup] = OrderedDict()  # the last of each key
        self.waiting = self.bytes = 0

    async def reply(
        self, key: Hashable, size: int, content: bytes, rollout: Any, *, weight: int, client: Exchange
    ) -> bytes:
        """The member's reply. Raises Held, Disconnected (the client has gone), RefusalError (503: nobody can wait)."""
        await asyncio.sleep(0)  # connections whose end came with their request are read to their end
        if self._stopped:
            raise stopping()
        if client.gone:
            raise Disconnected
        tries = TRIES - 1 if time.monotonic() < self.began + YOUNG else 0
        now = asyncio.get_running_loop().time()  # of the clock that times what waits
        new = WaitingMember(content, rollout, now, tries, weight + MEMBER)
        member = self._place(key, size, new)
        found = await self._wait(now, member, client)
        await asyncio.sleep(0)  # the connections that ended meanwhile are read
        if client.gone:
            member.group.members.append(member)  # it is owed the reply
            self._away(member)
            raise Disconnected
        return found

    def stop(self) -> None:
        """Who waits is sent away, as no sibling comes any more, nobody is let in; what is being scored is finished."""
        self._stopped = True
        for group in list(self.open.values()):
            self._end(group)
            self._fail(group, stopping())

    # --- a member's way ----------------------------------------------------------------------------------------------

    def _place(self, key: Hashable, size: int, new: WaitingMember) -> WaitingMember:
        """An equal member whose client is away, else the new one."""
        self._forget(new.came, new.weight)
        for group in (self.closed.get(key), self.scoring.get(key), self.open.get(key)):
            for member in group.members if group is not None else ():
                if member.reply is None and member.content == new.content:
                    return member
        if self.bytes + new.weight > self.memory:
            why = "the memory for waiting rollouts is full; try again"
            raise RefusalError(503, why, code="memory", headers={"Retry-After": "1"})
        new.group = self.open.get(key) or self.open.setdefault(key, JoiningGroup(key, size))
        new.group.members.append(new)
        self.bytes += new.weight
        return new

    async def _wait(self, now: float, member: WaitingMember, client: Exchange) -> bytes:
        """Until there is a reply or no client; Held where the hold ends before."""
        group, loop = member.group, asyncio.get_running_loop()
        member.reply = reply = Reply(loop=loop)
        if member.expiry is not None:
            member.expiry.cancel()
        if group.replies:
            group.members.remove(member)
            reply.set_result(group.replies.get(member.content, group.middle))
        elif not group.closed and len(group.members) == group.size:
            self._close(group)
        elif (before := self.closed.get(group.key)) is not None and member.came <= before.at + RETRY:
            loop.call_later(SETTLE, self._repeat, group, RETRY)
        until = min(now + self.hold, due := member.came + self.deadline)
        client.watch(leave := partial(self._leave, member, reply))
        self.waiting += 1
        try:
            await asyncio.wait((reply,), timeout=until - now)
            if not reply.done():
                if member.tries >= TRIES - 3:
                    self._repeat(group, LATE * self.hold)
                if not group.closed:
                    if until < due and member.tries < TRIES - 1:
                        raise Held(f"{len(group.members)} of {group.size} rollouts have come after {self.hold:g} s")
                    self._close(group)
                await asyncio.wait((reply,))
        finally:
            self.waiting -= 1
            client.watch(None)
            leave()
        if reply.cancelled():
            raise Disconnected
        return reply.result()

    def _leave(self, member: WaitingMember, reply: Reply) -> None:
        """No client waits for the reply any more."""
        if reply.cancel():  # there is none yet
            member.tries += 1
            self._away(member)

    def _away(self, member: WaitingMember) -> None:
        """Its place is kept for its client's next try."""
        if member.expiry is not None:
            member.expiry.cancel()
        member.reply, member.expiry = None, asyncio.get_running_loop().call_later(AWAY, self._expire, member)

    def _expire(self, member: WaitingMember) -> None:
        group = member.group
        if group.closed and not group.replies:
            return  # it is being scored
        group.members.remove(member)
        if not group.closed:
            self.bytes -= member.weight
            if not group.members:
                self._end(group)

    # --- closing -----------------------------------------------------------------------------------------------------

    def _end(self, group: JoiningGroup) -> None:
        group.closed = True
        del self.open[group.key]
        self.bytes -= sum(member.weight for member in group.members)

    def _close(self, group: JoiningGroup) -> None:
        """Its rewards, as far as members are there."""
        before, count = self.closed.get(group.key), len(group.members)
        if before is not None and 2 * count <= group.size:
            self._pay(group, before)
            return
        self._end(group)
        if count == group.size:
            first = min(member.came for member in group.members)
            group.repeated = group.key in self.scoring or (before is not None and first < before.at + SAME_STEP)
        self.scoring[group.key] = group
        group.task = asyncio.ensure_future(self._scored(group))

    def _repeat(self, group: JoiningGroup, seconds: float) -> None:
        """If all came just after a group of the key that had their contents, they lost its replies, and get them."""
        if (before := self.closed.get(group.key)) is None or group.closed:
            return
        if all(m.content in before.replies and m.came <= before.at + seconds for m in group.members):
            self._pay(group, before)
            before.at = asyncio.get_running_loop().time()

    def _pay(self, group: JoiningGroup, before: JoiningGroup) -> None:
        """Each member gets what its content had in the group before."""
        self._end(group)
        self._deliver(group.members, [before.replies.get(m.content, before.middle) for m in group.members], before)

    async def _scored(self, group: JoiningGroup) -> None:
        try:
            replies, middle = await self._score(group)
        except Exception as error:  # noqa: BLE001  (it is the error of all who wait)
            self._fail(group, error)
        else:
            members, group.members = group.members, []
            group.replies = {m.content: r for m, r in zip(members, replies, strict=True)}
            group.middle, group.at = middle, asyncio.get_running_loop().time()
            group.weight = sum(map(len, replies)) + MEMBER
            if (before := self.closed.pop(group.key, None)) is not None:
                self.bytes -= before.weight
            self.closed[group.key] = group
            self.bytes += group.weight
            self._deliver(members, replies, group)
        finally:
            if self.scoring.get(group.key) is group:
                del self.scoring[group.key]

    def _deliver(self, members: Sequence[WaitingMember], replies: Sequence[bytes], group: JoiningGroup) -> None:
        """To those who wait; who is between two tries has a place in the group whose replies they are."""
        for member, reply in zip(members, replies, strict=True):
            member.group = group
            if member.reply is None:
                group.members.append(member)
                self._away(member)
            else:
                member.reply.set_result(reply)

    def _fail(self, group: JoiningGroup, error: Exception) -> None:
        for member in group.members:
            if member.reply is not None:
                member.reply.set_exception(error)

    def _forget(self, now: float, weight: int) -> None:
        """Rewards that were kept for their time, and the oldest where there is no room for `weight` more bytes."""
        while self.closed:
            oldest = next(iter(self.closed.values()))
            if oldest.at + KEPT >= now and self.bytes + weight <= self.memory:
                break
            self.bytes -= self.closed.popitem(last=False)[1].weight
