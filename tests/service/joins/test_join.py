"""Waiting for siblings, in virtual time: hours pass in milliseconds, to the microsecond."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest
from serving import Told
from virtual_time import VirtualLoop

from dare_service.body import Disconnected
from dare_service.joins.join import AWAY, SETTLE, Held, Join
from dare_service.problems import STOPPING, RefusalError

pytestmark = pytest.mark.anyio
HOLD, DEADLINE, TRIES = 170.0, 800.0, 5
LOST = "the reply is written and never read"
SILENT = "the same, and the client hears of it when its 180 s are over"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": VirtualLoop}


class Place:
    """A join whose result for a rollout is (members of its group, the rollout, the group's number)."""

    def __init__(self, *, cost: float = 0.0, error: Exception | None = None, memory: int = 1 << 20) -> None:
        self.cost, self.error, self.groups = cost, error, []
        self.join = Join(self.score, hold=HOLD, deadline=DEADLINE, memory=memory)
        self.join.began = float("-inf")

    async def score(self, group):
        self.groups.append(group)
        size, number = len(group.members), len(self.groups)
        await asyncio.sleep(self.cost)
        if self.error:
            raise self.error
        return [(size, m.rollout, number) for m in group.members], (size, "middle", number)

    async def one_try(self, text, *, size=3, key="k", breaks=None):
        """`breaks`: seconds after which the connection breaks."""
        client = Told()
        if breaks is not None:
            asyncio.get_running_loop().call_later(breaks, client.end)
        try:
            return await self.join.reply(key, size, text.encode(), text, weight=len(text), client=client)
        finally:
            assert client.ended is None, "a connection that is kept would hold the group"

    async def client(self, text, *, start=0.0, troubles=(), **given):
        """OpenRLHF's: five tries, a second after each failure; None after the last. Returns when it was served, too.

        troubles   of its first tries: seconds after which the connection breaks, or LOST, or SILENT
        """
        await asyncio.sleep(start)
        for trouble in (*troubles, *[None] * (TRIES - len(troubles))):
            began, lost = now(), trouble in {LOST, SILENT}
            with contextlib.suppress(Held, RefusalError, Disconnected):
                found = await self.one_try(text, breaks=None if lost else trouble, **given)
                if not lost:
                    return now(), found
            await asyncio.sleep(1 if trouble != SILENT else began + 181 - now())
        return now(), None

    async def clients(self, texts, **given):
        return [result for _, result in await asyncio.gather(*(self.client(t, **given) for t in texts))]

    async def pays(self, text, after=0.0):
        """A try gets what its content is owed, at once or `after` seconds."""
        began = now()
        assert (await self.one_try(text), now()) == ((3, text, 1), began + after)

    async def gone(self, text, **given):
        """A try whose connection breaks."""
        with pytest.raises(Disconnected):
            await self.one_try(text, **given)


def now():
    return asyncio.get_running_loop().time()


async def together(*clients):
    return [result for _, result in await asyncio.gather(*clients)]


async def test_siblings_are_scored_together_and_other_keys_are_other_groups():
    place = Place()
    found = await together(*(place.client(t) for t in "abc"), *(place.client(t, key="other", size=2) for t in "de"))
    assert found == [(3, t, 1) for t in "abc"] + [(2, t, 2) for t in "de"]
    assert (place.join.waiting, len(place.join.open)) == (0, 0)


@pytest.mark.parametrize(("late", "size", "served"), [(500.0, 3, 502.0), (None, 4, DEADLINE)])
async def test_a_straggler_is_waited_for_over_several_holds_and_to_the_deadline(late, size, served):
    place = Place()
    found = await asyncio.gather(*(place.client(t, size=size, start=late or 0 if t == "c" else 0) for t in "abc"))
    assert [result for _, result in found] == [(3, t, 1) for t in "abc"]
    assert served - 2 <= max(at for at, _ in found) <= served


async def test_identical_rollouts_are_counted_rightly_over_retries():
    """Nobody has to tell a retry from a twin: members of one content are exchangeable."""
    place = Place()
    clients = [place.client("same", size=4, troubles=[5.0]), place.client("same", size=4)]
    clients += [place.client("same", size=4, start=300.0), place.client("other", size=4, start=400.0)]
    assert Counter(await together(*clients)) == {(4, "same", 1): 3, (4, "other", 1): 1}


@pytest.mark.parametrize(
    ("texts", "rewards"),
    [("ax", [(4, "a", 1), (4, "middle", 1)]), ("abx", [(3, "a", 2), (3, "b", 2), (3, "x", 2)])],
)
async def test_of_half_or_less_a_group_that_closed_before_gives_its_rewards(texts, rewards):
    """A known content its own, an unknown one the middle; nobody is scored alone."""
    place = Place()
    await place.clients("abcd", size=4)
    await asyncio.sleep(100)
    assert await place.clients(texts, size=4) == rewards


async def test_a_broken_connection_keeps_its_vote_for_a_while_and_no_longer():
    place = Place()
    await place.gone("a", breaks=1.0)
    assert len(place.join.open["k"].members) == 1
    assert await together(place.client("a"), *(place.client(t, start=AWAY + 3) for t in "bc")) == [
        (3, t, 1) for t in "abc"
    ]
    await place.gone("d", breaks=1.0)
    await asyncio.sleep(AWAY + 1)
    kept = sum(closed.weight for closed in place.join.closed.values())
    assert (place.join.open, place.join.bytes) == ({}, kept)


@pytest.mark.parametrize("pause", [0, AWAY + 1])
async def test_who_breaks_while_its_group_is_scored_is_owed_its_reply_once_and_for_a_while(pause):
    """Its job may have been cancelled: a short text of a later step is that step's, and its siblings get its vote."""
    place = Place(cost=10.0)
    await asyncio.sleep(1000)
    tries = [asyncio.ensure_future(place.one_try(t)) for t in "ab"]
    await place.gone("c", breaks=5.0)
    assert await asyncio.gather(*tries) == [(3, "a", 1), (3, "b", 1)]
    await asyncio.sleep(pause)
    if not pause:
        await place.pays("c")
    assert await place.clients("cde") == [(3, t, 2) for t in "cde"]


async def test_who_comes_back_while_its_group_is_scored_takes_its_place_there():
    """It was another member of the next group, for a whole hold, when scoring took longer than its pause."""
    place = Place(cost=10.0)
    found = await asyncio.gather(*(place.client(t, troubles=[5.0] * (t == "c")) for t in "abc"))
    assert found == [(10.0, (3, t, 1)) for t in "abc"]
    assert not place.join.scoring


async def test_a_connection_that_ends_in_the_turn_of_the_reply_is_owed_it():
    place, client = Place(), Told()
    reply = asyncio.ensure_future(place.join.reply("k", 3, b"b", "b", weight=1, client=client))
    others = [asyncio.ensure_future(place.one_try(t)) for t in "ac"]
    while not others[0].done():
        client.gone = bool(place.join.closed.get("k") and place.join.closed["k"].replies)  # nobody listens any more
        await asyncio.sleep(0)
    with pytest.raises(Disconnected):
        await reply
    await place.pays("b")


async def test_who_is_gone_before_it_joins_takes_no_place():
    place, client = Place(), Told()
    client.gone = True
    with pytest.raises(Disconnected):
        await place.join.reply("k", 2, b"a", "a", weight=1, client=client)
    assert not place.join.open


@pytest.mark.parametrize(
    ("troubles", "served"),
    [
        ([LOST], 5 + SETTLE),
        ([LOST, LOST], 6 + 2 * SETTLE),
        ([SILENT], 184 + 3 * HOLD),
        ([0.5, SILENT], 185.5 + 3 * HOLD),
    ],
)
@pytest.mark.parametrize("lost", ["a", "bc", "abcd"])
async def test_a_reply_that_was_lost_unseen_is_repeated(lost, troubles, served):
    """The retry joins like any other, and its group holds nothing but what was just rewarded. Soon, whatever the hold;
    where it comes late, siblings of a next step get three holds, and its client has no fourth."""
    place = Place()
    starts = zip("abcd", (1.0, 1.0, 1.0, 4.0), strict=True)
    clients = [place.client(t, size=4, start=s, troubles=troubles if t in lost else []) for t, s in starts]
    found = await asyncio.gather(*clients)
    assert [result[:2] for _, result in found] == [(4, t) for t in "abcd"]
    assert max(at for at, _ in found) <= served
    assert (place.join.open, len(place.join.closed)) == ({}, 1)


async def test_who_breaks_while_a_lost_reply_is_waited_for_is_owed_it():
    place = Place()
    await place.clients("abc")
    waits = asyncio.ensure_future(place.one_try("a"))
    await place.gone("b", breaks=4.0)
    assert (await waits, now()) == ((3, "a", 1), SETTLE)
    await place.pays("b")


async def test_the_next_steps_group_of_the_same_contents_is_scored_anew():
    """Short answers repeat from step to step: nobody gets the old reward while its siblings take their time; nor one
    beside a text that is new."""
    place = Place()
    await place.clients("abcd", size=4)
    steps = ((1.0, "ax", 20.0), (60.0, "a", 20.0), (60.0, "a", 2.9 * HOLD), (1.2 * HOLD, "a", 4 * HOLD))
    for number, (pause, fast, slow) in enumerate(steps, 2):
        await asyncio.sleep(pause)
        clients = [place.client(t, size=4, start=slow * (t not in fast)) for t in "axyz"]
        assert await together(*clients) == [(4, t, number) for t in "axyz"]


@pytest.mark.parametrize(("pause", "repeated"), [(1.0, True), (3.0, False)])
async def test_a_group_that_fills_within_the_pause_of_a_retry_is_a_new_one(pause, repeated):
    """And of the same step, if it begins within SAME_STEP. It is being scored as the first one's pause ends."""
    place = Place(cost=2.0)
    await place.clients("abc")
    clients = (place.client(t, start=pause + 4 * (t != "a")) for t in "abc")
    assert await together(*clients) == [(3, t, 2) for t in "abc"]
    assert [group.repeated for group in place.groups] == [False, repeated]


@pytest.mark.parametrize(("age", "served"), [(2.0, HOLD), (6.0, DEADLINE)])
async def test_what_comes_to_a_process_that_has_just_begun_is_due_at_the_end_of_its_first_hold(
    monkeypatch, age, served
):
    """Its client may have four tries behind it, and no fifth hold before it. `wait_seconds` counts from the arrival."""
    place = Place()
    place.join.began = 1000.0
    monkeypatch.setattr("dare_service.joins.join.time.monotonic", lambda: 1000.0 + age)
    found = await asyncio.gather(*(place.client(t, size=4) for t in "abc"))
    assert found == [(served, (3, t, 1)) for t in "abc"]
    assert [member.came for member in place.groups[0].members] == [0.0] * 3


async def test_stopping_tells_everybody_at_once_and_lets_a_group_that_is_scored_finish():
    place = Place(cost=10.0)
    scored = [asyncio.ensure_future(place.one_try(t)) for t in "abc"]
    waits = [asyncio.ensure_future(place.one_try(t, key="other", size=4)) for t in "de"]
    await place.gone("f", key="other", size=4, breaks=1.0)
    await asyncio.sleep(4)
    for _ in range(2):  # it is called at every tick of the server
        place.join.stop()
    for waiting in (*waits, place.one_try("g")):
        with pytest.raises(RefusalError, match=STOPPING):
            await waiting
    assert (now(), place.join.waiting) == (5.0, 3)
    assert await asyncio.gather(*scored) == [(3, t, 1) for t in "abc"]


async def test_a_failure_of_scoring_reaches_all_and_leaves_what_the_group_before_got():
    """And the group may form again."""
    place = Place()
    await place.clients("abc")
    place.error = ValueError("no")
    found = await asyncio.gather(*(place.one_try(t) for t in "abc"), return_exceptions=True)
    assert [str(e) for e in found] == ["no"] * 3
    await place.pays("a", after=SETTLE)
    place.error = None
    assert await place.clients("abc") == [(3, t, 3) for t in "abc"]


async def test_the_oldest_rewards_go_first_when_memory_is_short_and_then_rollouts_are_refused():
    place = Place(memory=8000)
    for key in "12":
        await place.clients("ab", key=key, size=2)
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
    await place.gone("z", key="last", breaks=0.1)  # whatever comes next makes the join look
    await asyncio.sleep(AWAY)
    assert (len(place.join.closed), place.join.open, place.join.waiting, place.join.bytes) == (0, {}, 0, 0)


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
