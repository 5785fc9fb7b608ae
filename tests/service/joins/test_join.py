"""Waiting for siblings, in virtual time: hours pass in milliseconds, to the microsecond."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from dare_service.joins.join import Gone, Held, Join, Scored, Stopped
from dare_service.joins.rendezvous import Arrival, Conflict

HOLD, DEADLINE, STALE, KEEP, TRIES = 170.0, 800.0, 30.0, 900.0, 5


class Book:
    """What the join told of itself."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.dropped = 0
        self.seconds: list[float] = []

    def closed(self, group) -> None:
        self.reasons.append(group.reason)

    def scored(self, group, seconds: float) -> None:
        self.seconds.append(seconds)

    def expired(self, groups: int) -> None:
        self.dropped += groups


class Line:
    """A client's connection."""

    def __init__(self) -> None:
        self.ended = None
        self.closed = False

    def open(self) -> bool:
        return not self.closed

    def watch(self, ended) -> None:
        self.ended = ended

    def end(self, *, delivered: bool) -> None:
        self.closed = True
        if self.ended is not None:
            self.ended(delivered)


class Place:
    """A join whose result for a rollout is (members of its group, the rollout)."""

    def __init__(self, *, cost: float = 0.0, error: Exception | None = None) -> None:
        self.book = Book()
        self.cost = cost
        self.error = error
        self.scores = 0
        self.join: Join = Join(
            self.score, stale=STALE, keep=KEEP, observer=self.book, clock=asyncio.get_running_loop().time
        )
        self.join.began = float("-inf")

    async def score(self, group):
        self.scores += 1
        await asyncio.sleep(self.cost)
        if self.error:
            raise self.error
        return Scored([(len(group.slots), s.arrival.rollout) for s in group.slots])

    async def one_try(self, text, *, size=3, index=None, gone=None, hold=HOLD, key="k", deadline=DEADLINE, lost=False):
        """`gone`: the connection breaks when it is done; `lost`: the reply does not arrive."""
        arrival = Arrival(key, size, text.encode(), text, index, deadline, TRIES)
        line = Line()
        if gone is not None:
            asyncio.ensure_future(gone).add_done_callback(lambda _: line.end(delivered=False))
        result = await self.join.wait(arrival, hold=hold, receipt=line)
        line.end(delivered=not lost)
        return result

    async def client(self, text, *, start=0.0, **given):
        """OpenRLHF's: five tries, a second after each failure; None after the last. Returns when it was served, too."""
        now = asyncio.get_running_loop().time
        await asyncio.sleep(start)
        for _ in range(TRIES):
            try:
                found = await self.one_try(text, **given)
                return now(), found
            except (Held, Stopped):
                await asyncio.sleep(1)
        return now(), None


def test_a_straggler_is_waited_for_over_several_holds(virtual):
    async def main():
        place = Place()
        starts = (("a", 0), ("b", 200.5), ("c", 600))
        found = await asyncio.gather(*(place.client(t, start=s) for t, s in starts))
        assert [f[1] for f in found] == [(3, "a"), (3, "b"), (3, "c")]
        assert all(600 <= f[0] <= 601 for f in found)
        assert place.book.reasons == ["full"]

    virtual(main())


def test_identical_rollouts_are_counted_rightly_over_retries(virtual):
    async def main():
        place = Place()
        # The third identical one comes in the second in which the first two are away.
        starts = (("a", 0), ("a", 0), ("a", 170.5), ("b", 300))
        found = await asyncio.gather(*(place.client(t, start=s, size=4) for t, s in starts))
        assert [f[1] for f in found] == [(4, "a"), (4, "a"), (4, "a"), (4, "b")]

    virtual(main())


def test_a_group_that_cannot_fill_closes_at_its_deadline_while_its_first_client_is_there(virtual):
    async def main():
        place = Place()
        found = await asyncio.gather(place.client("a"), place.client("b", start=500))
        assert [f[1] for f in found] == [(2, "a"), (2, "b")]
        assert all(DEADLINE <= f[0] <= DEADLINE + 1 for f in found)
        assert place.book.reasons == ["deadline"]

    virtual(main())


def test_a_client_on_its_last_try_is_not_sent_away_empty(virtual):
    """Its earlier tries were cut short by broken connections: the deadline would come too late for it."""

    async def main():
        place = Place()
        now = asyncio.get_running_loop().time
        for seconds in (5, 5, 5, 5):
            gone = asyncio.ensure_future(asyncio.sleep(seconds))
            with pytest.raises(Gone):
                await place.one_try("a", gone=gone)
            await asyncio.sleep(1)
        assert await place.one_try("a") == (1, "a")
        assert now() == 24 + HOLD
        assert place.book.reasons == ["patience"]

    virtual(main())


def test_a_broken_connection_keeps_the_vote_and_the_reward(virtual):
    async def main():
        place = Place()
        gone = asyncio.get_running_loop().create_future()
        lost = asyncio.ensure_future(place.one_try("a", gone=gone))
        rest = [asyncio.ensure_future(place.client(t, start=20)) for t in "bc"]
        await asyncio.sleep(19.5)
        gone.set_result(None)
        with pytest.raises(Gone):
            await lost
        assert [(await r)[1] for r in rest] == [(3, "b"), (3, "c")]
        await asyncio.sleep(1)
        assert await place.one_try("a") == (3, "a")
        assert place.scores == 1

    virtual(main())


def test_a_client_that_breaks_while_its_group_is_scored_gets_the_reward_later(virtual):
    async def main():
        place = Place(cost=2.0)
        gone = asyncio.get_running_loop().create_future()
        lost = asyncio.ensure_future(place.one_try("a", size=2, gone=gone))
        rest = asyncio.ensure_future(place.one_try("b", size=2))
        await asyncio.sleep(0.5)
        gone.set_result(None)
        with pytest.raises(Gone):
            await lost
        again = asyncio.ensure_future(place.one_try("a", size=2))
        assert await asyncio.gather(rest, again) == [(2, "b"), (2, "a")]
        assert place.scores == 1
        assert place.book.seconds == [2.0]

    virtual(main())


def test_a_cancelled_request_is_a_broken_connection(virtual):
    async def main():
        place = Place()
        task = asyncio.ensure_future(place.one_try("a", size=2))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.sleep(1)
        found = await asyncio.gather(place.one_try("a", size=2), place.one_try("b", size=2))
        assert found == [(2, "a"), (2, "b")]

    virtual(main())


def test_a_lost_member_does_not_take_its_siblings_with_it(virtual):
    async def main():
        place = Place()
        gone = asyncio.ensure_future(asyncio.sleep(10))
        lost = asyncio.ensure_future(place.one_try("a", size=4, gone=gone))
        found = await asyncio.gather(*(place.client(t, size=4) for t in "bc"))
        assert [f[1] for f in found] == [(2, "b"), (2, "c")]
        assert isinstance(lost.exception(), Gone)

    virtual(main())


def test_a_group_whose_clients_stay_away_is_dropped(virtual):
    async def main():
        place = Place()
        with pytest.raises(Gone):
            await place.one_try("a", gone=asyncio.sleep(1))
        await asyncio.sleep(STALE + 1)
        assert place.book.dropped == 1
        assert place.join.groups.open_groups == 0

    virtual(main())


def test_stopping_tells_everybody_at_once(virtual):
    async def main():
        place = Place()
        now = asyncio.get_running_loop().time
        tasks = [asyncio.ensure_future(place.one_try(t)) for t in "ab"]
        await asyncio.sleep(7)
        place.join.stop()
        assert all(isinstance(e, Stopped) for e in await asyncio.gather(*tasks, return_exceptions=True))
        assert now() == 7
        with pytest.raises(Stopped):
            await place.one_try("c")

    virtual(main())


def test_stopping_lets_a_group_that_is_scored_finish(virtual):
    async def main():
        place = Place(cost=1.0)
        tasks = [asyncio.ensure_future(place.one_try(t, size=2)) for t in "ab"]
        await asyncio.sleep(0.5)
        place.join.stop()
        assert await asyncio.gather(*tasks) == [(2, "a"), (2, "b")]

    virtual(main())


def test_a_failure_of_scoring_reaches_all_and_the_group_may_form_again(virtual):
    async def main():
        place = Place(error=RuntimeError("no"))
        found = await asyncio.gather(*(place.one_try(t, size=2) for t in "ab"), return_exceptions=True)
        assert [str(e) for e in found] == ["no", "no"]
        place.error = None
        assert await asyncio.gather(*(place.one_try(t, size=2) for t in "ab")) == [(2, "a"), (2, "b")]

    virtual(main())


def test_named_rollouts_may_wait_twice(virtual):
    async def main():
        place = Place()
        twice = [asyncio.ensure_future(place.one_try("a", size=2, index=0)) for _ in range(2)]
        await asyncio.sleep(1)
        assert await place.one_try("b", size=2, index=1) == (2, "b")
        assert await asyncio.gather(*twice) == [(2, "a"), (2, "a")]
        with pytest.raises(Conflict):
            await place.one_try("x", size=2, index=1)
        assert await place.one_try("b", size=2, index=1) == (2, "b")

    virtual(main())


def test_nothing_is_left_behind(virtual):
    """After rewards are delivered or kept for their time: no group, no timer, no task."""

    async def main():
        place = Place()
        await asyncio.gather(*(place.client(t) for t in "abc"))
        with pytest.raises(Gone):
            await place.one_try("z", size=1, gone=asyncio.sleep(0))
        await asyncio.sleep(KEEP + STALE)
        assert list(place.join.groups) == []
        assert place.join.waiting == 0
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert asyncio.get_running_loop()._scheduled == []

    virtual(main())


def test_two_thousand_waiters_of_thirty_two_prompts(virtual):
    async def main():
        place = Place()
        tries = [place.client(f"{i % 7}", key=i % 32, size=64, start=(i * 37 % 2048) / 8) for i in range(2048)]
        found = [f[1] for f in await asyncio.gather(*tries)]
        assert Counter(f[0] for f in found) == {64: 2048}
        assert [f[1] for f in found] == [f"{i % 7}" for i in range(2048)]
        assert place.book.reasons == ["full"] * 32

    virtual(main())
