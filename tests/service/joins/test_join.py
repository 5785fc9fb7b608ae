"""Waiting for siblings, in virtual time: hours pass in milliseconds, to the microsecond."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from virtual_time import VirtualLoop

from dare_service.body import Disconnected
from dare_service.joins.join import AWAY, SETTLE, Held, Join, WaitingClient
from dare_service.problems import STOPPING, RefusalError

pytestmark = pytest.mark.anyio
HOLD, DEADLINE, TRIES = 170.0, 800.0, 5
BROKEN, LOST = "the connection breaks", "the reply is written and never read"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": VirtualLoop}


class Place:
    """A join whose result for a rollout is (members of its group, the rollout, the group's number)."""

    def __init__(self, *, cost: float = 0.0, error: Exception | None = None, memory: int = 1 << 20) -> None:
        self.cost, self.error, self.scores = cost, error, 0
        self.join = Join(self.score, hold=HOLD, deadline=DEADLINE, memory=memory)
        self.join.began = float("-inf")

    async def score(self, group):
        self.scores += 1
        number = self.scores
        await asyncio.sleep(self.cost)
        if self.error:
            raise self.error
        return [(len(group.members), m.rollout, number) for m in group.members], (len(group.members), "middle", number)

    async def one_try(self, text, *, size=3, key="k", breaks=None):
        """`breaks`: seconds after which the connection breaks."""
        end = WaitingClient()
        if breaks is not None:
            asyncio.get_running_loop().call_later(breaks, end.end)
        return await self.join.reply(key, size, text.encode(), text, weight=len(text), client=end)

    async def client(self, text, *, start=0.0, troubles=(), **given):
        """OpenRLHF's: five tries, a second after each failure; None after the last. Returns when it was served, too.

        troubles   of its first tries: seconds after which the connection breaks, or LOST
        """
        now = asyncio.get_running_loop().time
        await asyncio.sleep(start)
        for number in range(TRIES):
            trouble = troubles[number] if number < len(troubles) else None
            try:
                found = await self.one_try(text, breaks=None if trouble == LOST else trouble, **given)
                if trouble != LOST:
                    return now(), found
            except (Held, RefusalError, Disconnected):
                pass
            await asyncio.sleep(1)
        return now(), None


async def together(*clients):
    found = await asyncio.gather(*clients)
    return [result for _, result in found]


async def test_siblings_are_scored_together_and_other_keys_are_other_groups():
    place = Place()
    found = await together(*(place.client(t) for t in "abc"), *(place.client(t, key="other", size=2) for t in "de"))
    assert found == [(3, t, 1) for t in "abc"] + [(2, t, 2) for t in "de"]
    assert (place.join.waiting, len(place.join.open)) == (0, 0)


async def test_a_straggler_is_waited_for_over_several_holds():
    place = Place()
    found = await asyncio.gather(place.client("a"), place.client("b"), place.client("c", start=500.0))
    assert [result for _, result in found] == [(3, t, 1) for t in "abc"]
    assert max(at for at, _ in found) < 502


async def test_identical_rollouts_are_counted_rightly_over_retries():
    """Nobody has to tell a retry from a twin: members of one content are exchangeable."""
    place = Place()
    clients = [place.client("same", size=4, troubles=[5.0]), place.client("same", size=4)]
    clients += [place.client("same", size=4, start=300.0), place.client("other", size=4, start=400.0)]
    found = await together(*clients)
    assert Counter(found) == {(4, "same", 1): 3, (4, "other", 1): 1}


async def test_a_group_that_cannot_fill_closes_at_its_deadline():
    place = Place()
    found = await asyncio.gather(*(place.client(t, size=4) for t in "abc"))
    assert [result for _, result in found] == [(3, t, 1) for t in "abc"]
    assert {at for at, _ in found} == {DEADLINE}


async def test_of_half_or_less_a_group_that_closed_before_gives_its_rewards():
    """A known content its own, an unknown one the middle; nobody is scored alone."""
    place = Place()
    await together(*(place.client(t, size=4) for t in "abcd"))
    await asyncio.sleep(100)
    found = await together(place.client("a", size=4), place.client("x", size=4))
    assert found == [(4, "a", 1), (4, "middle", 1)]
    assert place.scores == 1


async def test_a_broken_connection_keeps_its_vote_for_a_while_and_no_longer():
    place = Place()
    with pytest.raises(Disconnected):
        await place.one_try("a", breaks=1.0)
    assert len(place.join.open["k"].members) == 1
    found = await together(place.client("a"), *(place.client(t, start=3.0) for t in "bc"))
    assert found == [(3, t, 1) for t in "abc"]
    with pytest.raises(Disconnected):
        await place.one_try("d", key="other", breaks=1.0)
    await asyncio.sleep(AWAY + 1)
    with pytest.raises(Disconnected):
        await place.one_try("e", key="third", breaks=0.1)  # whatever comes next makes the join look
    assert set(place.join.open) == {"third"}


async def test_a_client_that_breaks_while_its_group_is_scored_is_owed_its_reply_once():
    place = Place(cost=10.0)
    tries = [asyncio.ensure_future(place.one_try(t)) for t in "ab"]
    with pytest.raises(Disconnected):
        await place.one_try("c", breaks=5.0)
    assert [await t for t in tries] == [(3, "a", 1), (3, "b", 1)]
    assert await place.one_try("c") == (3, "c", 1)
    with pytest.raises(Disconnected):  # once: what comes now is a new rollout
        await place.one_try("c", breaks=1.0)
    assert len(place.join.open["k"].members) == 1


async def test_a_client_that_never_comes_for_its_reply_leaves_it_to_nobody_in_a_later_step():
    """Its job was cancelled. A short text of a later step is that step's, and its siblings get it as a vote."""
    place = Place(cost=10.0)
    tries = [asyncio.ensure_future(place.one_try(t)) for t in "ab"]
    with pytest.raises(Disconnected):
        await place.one_try("c", breaks=5.0)
    await asyncio.gather(*tries)
    await asyncio.sleep(AWAY + 1)
    assert await together(*(place.client(t) for t in "cde")) == [(3, t, 2) for t in "cde"]


async def test_a_connection_that_ends_in_the_turn_of_the_reply_is_owed_it():
    place = Place()
    await together(*(place.client(t) for t in "abc"))
    place.join.missed("k", b"b")
    assert await place.one_try("b") == (3, "b", 1)


async def test_a_reply_that_was_lost_unseen_is_repeated_soon():
    """Whatever the hold: the retry joins like any other, and its group holds nothing but what was just rewarded."""
    for lost in ([0], [1, 2], [0, 1, 2]):
        place, began = Place(), asyncio.get_running_loop().time()
        troubles = [[LOST] if i in lost else [] for i in range(3)]
        found = await asyncio.gather(*(place.client(t, troubles=x) for t, x in zip("abc", troubles, strict=True)))
        assert [result[:2] for _, result in found] == [(3, t) for t in "abc"]
        assert max(at for at, _ in found) - began <= 1 + SETTLE + 0.1


async def test_the_next_steps_group_of_the_same_contents_is_scored_anew():
    """Short answers repeat from step to step: nobody gets the old reward while its siblings take their time."""
    place = Place()
    await together(*(place.client(t, size=4) for t in "abcd"))
    for slow in (20.0, 2 * HOLD):
        before = place.scores
        await asyncio.sleep(60)
        clients = [place.client("a", size=4), *(place.client(t, size=4, start=slow) for t in "xyz")]
        assert await together(*clients) == [(4, t, before + 1) for t in "axyz"]


async def test_a_group_that_fills_within_the_pause_of_a_retry_is_a_new_one():
    place = Place()
    await together(*(place.client(t) for t in "abc"))
    found = await together(*(place.client(t, start=1.0) for t in "abc"))
    assert found == [(3, t, 2) for t in "abc"]


async def test_what_comes_to_a_process_that_has_just_begun_is_due_at_the_end_of_its_first_hold(monkeypatch):
    """Its client may have four tries behind it, and no fifth hold before it."""
    place = Place()
    place.join.began = 1000.0
    monkeypatch.setattr("dare_service.joins.join.time.monotonic", lambda: 1002.0)
    found = await asyncio.gather(*(place.client(t, size=4) for t in "abc"))
    assert [result for _, result in found] == [(3, t, 1) for t in "abc"]
    assert {at for at, _ in found} == {HOLD}


async def test_in_a_young_process_the_time_of_arrival_is_the_true_one(monkeypatch):
    """`wait_seconds` is logged from it."""
    place, seen = Place(), []
    place.join.began = 1000.0
    place.join._score = lambda group: seen.extend(m.came for m in group.members) or place.score(group)
    monkeypatch.setattr("dare_service.joins.join.time.monotonic", lambda: 1002.0)
    await asyncio.gather(*(place.client(t) for t in "abc"))
    assert seen == [0.0] * 3


async def test_stopping_tells_everybody_at_once_and_lets_a_group_that_is_scored_finish():
    place = Place(cost=10.0)
    scored = [asyncio.ensure_future(place.one_try(t)) for t in "abc"]
    waits = [asyncio.ensure_future(place.one_try(t, key="other")) for t in "de"]
    await asyncio.sleep(5)
    place.join.stop()
    assert [await t for t in scored] == [(3, t, 1) for t in "abc"]
    for waiting in waits:
        with pytest.raises(RefusalError, match=STOPPING):
            await waiting
    with pytest.raises(RefusalError, match=STOPPING):
        await place.one_try("f")
    assert asyncio.get_running_loop().time() == 10.0


async def test_a_failure_of_scoring_reaches_all_and_the_group_may_form_again():
    place = Place(error=ValueError("no"))
    found = await asyncio.gather(*(place.one_try(t) for t in "abc"), return_exceptions=True)
    assert [str(e) for e in found] == ["no"] * 3
    place.error = None
    assert await together(*(place.client(t) for t in "abc")) == [(3, t, 2) for t in "abc"]


async def test_the_oldest_rewards_go_first_when_memory_is_short_and_then_rollouts_are_refused():
    place = Place(memory=8000)
    for key in "12":
        await together(*(place.client(t, key=key, size=2) for t in "ab"))
    assert list(place.join.closed) == ["1", "2"]
    waits = [asyncio.ensure_future(place.one_try("x" * 900, key=f"w{i}")) for i in range(4)]
    await asyncio.sleep(1)
    assert "1" not in place.join.closed
    with pytest.raises(RefusalError, match="the memory for waiting rollouts is full"):
        await place.one_try("y" * 900, key="more")
    assert place.join.bytes <= 8000
    for waiting in waits:
        waiting.cancel()


async def test_nothing_is_left_behind():
    place = Place()
    for step in range(20):
        await together(*(place.client(f"{step}{t}", key=f"{step}") for t in "abc"))
        await asyncio.sleep(100)
    assert len(place.join.closed) <= 10  # 900 s of them
    await asyncio.sleep(1000)
    with pytest.raises(Disconnected):
        await place.one_try("z", key="last", breaks=0.1)
    assert (len(place.join.closed), place.join.waiting) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
async def test_storms_lose_nothing_and_mix_nothing(seed):
    """Connections that break before, while and after groups close, and replies that get lost: each rollout gets the
    reward of its own group, or is told that it is not."""
    rng, place = random.Random(seed), Place(cost=0.2)
    clients = []
    for key in range(16):
        for i in range(8):
            troubles = [rng.choice([rng.random() * 3, LOST, None]) for _ in range(rng.randrange(4))]
            clients.append(place.client(f"{key}-{i % 6}", key=key, size=8, start=rng.random() * 20, troubles=troubles))
    found = await together(*clients)
    assert None not in found
    for n, (size, text, _) in enumerate(found):
        assert size > 4
        assert text in {f"{n // 8}-{n % 8 % 6}", "middle"}
