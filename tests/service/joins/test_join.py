"""Waiting for siblings, in virtual time: hours pass in milliseconds, to the microsecond."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from serving import Told
from virtual_time import VirtualLoop

from dare_service.body import Disconnected
from dare_service.joins.join import AWAY, SETTLE, TRIES, Held, Join
from dare_service.problems import STOPPING, RefusalError

pytestmark = pytest.mark.anyio
HOLD = 170.0
LOST = "the reply is written and never read"
SILENT = "the same, and the client hears of it when its 180 s are over"


@pytest.fixture
def anyio_backend():
    return "asyncio", {"loop_factory": VirtualLoop}


class Place:
    """A join whose result for a rollout is (members of its group, the rollout, the group's number)."""

    def __init__(self, *, cost: float = 0.0, error: Exception | None = None, memory: int = 1 << 20) -> None:
        self.cost, self.error, self.groups = cost, error, []
        self.join = Join(self.score, hold=HOLD, deadline=800.0, memory=memory)
        self.join.began = float("-inf")

    async def score(self, group):
        self.groups.append((group, [member.came for member in group.members]))
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

    async def client(self, text, start=0.0, *troubles, tries=TRIES, **given):
        """OpenRLHF's: five tries, a second after each failure; None after the last. Returns when it was served, too.

        troubles   of its first tries: seconds after which the connection breaks, or LOST, or SILENT
        """
        await asyncio.sleep(start)
        for trouble in (*troubles, *[None] * (tries - len(troubles))):
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


def at(start, texts, *troubles, **given):
    """Clients that begin together."""
    return [(text, start, *troubles, given) for text in texts]


OTHER, FOUR, ONCE = {"key": "other", "size": 2}, {"size": 4}, {"tries": 1}
STEPS = ((1.0, "ax", 20.0), (60.0, "a", 20.0), (60.0, "a", 2.9 * HOLD), (1.2 * HOLD, "a", 4 * HOLD))
SCENES = {  # what it costs to score, the clients, and what each gets: members, content, number of its group, time
    "siblings are scored together, and other keys are other groups":
        (0, at(0, "abc") + at(0, "de", **OTHER), "3a1@0 3b1@0 3c1@0 2d2@0 2e2@0"),
    "a straggler is waited for over several holds":
        (0, at(0, "ab") + at(500, "c"), "3a1@500 3b1@500 3c1@500"),
    "and to the deadline":
        (0, at(0, "abc", **FOUR), "3a1@800 3b1@800 3c1@800"),
    # Nobody's fifth try ends without a reward.
    "and to the end of a client's last try":
        (0, at(0, "a", 0.5, **FOUR) + at(0, "bc", **FOUR), "3a1@684.5 3b1@684.5 3c1@684.5"),
    "which is another one after each break":
        (0, at(0, "a", 1.0, 1.0, 1.0, 1.0, **FOUR) + at(0, "b", **FOUR), "2a1@178 2b1@178"),
    "nobody has to tell a retry from a twin":
        (0, at(0, "s", 5.0, **FOUR) + at(0, "s", **FOUR) + at(300, "s", **FOUR) + at(400, "o", **FOUR),
         "4s1@400 4s1@400 4s1@400 4o1@400"),
    "of half or less, a group before gives what its content had, or the middle":
        (0, at(0, "abcd", **FOUR) + at(100, "ax", **FOUR), "4a1@0 4b1@0 4c1@0 4d1@0 4a1@900 4middle1@900"),
    "of more than half it is scored":
        (0, at(0, "abcd", **FOUR) + at(100, "abx", **FOUR), "4a1@0 4b1@0 4c1@0 4d1@0 3a2@900 3b2@900 3x2@900"),
    "a broken connection keeps its vote":
        (0, at(0, "a", 1.0, **ONCE) + at(30, "a") + at(90, "bc"), "lost 3a1@90 3b1@90 3c1@90"),
    "and no longer than a while":
        (0, at(0, "a", 1.0, **ONCE) + at(32, "ab"), "lost 2a1@832 2b1@832"),
    "who comes back while its group is scored takes its place there, and is no member of the next one":
        (10, at(0, "ab") + at(0, "c", 5.0), "3a1@10 3b1@10 3c1@10"),
    "who breaks while its group is scored is owed its reply, once":
        (10, at(0, "ab") + at(0, "c", 5.0, **ONCE) + at(12, "c") + at(20, "cde"),
         "3a1@10 3b1@10 lost 3c1@12 3c2@30 3d2@30 3e2@30"),
    "and so is its twin":
        (10, at(0, "a") + at(0, "ss", 5.0, **ONCE) + at(12, "ss"), "3a1@10 lost lost 3s1@12 3s1@12"),
    # Its job may have been cancelled: a short text of a later step is that step's, and its siblings get its vote.
    "and for a while":
        (10, at(0, "ab") + at(0, "c", 5.0, **ONCE) + at(11 + AWAY, "cde"), "3a1@10 3b1@10 lost 3c2@51 3d2@51 3e2@51"),
    "who breaks while a lost reply is waited for is owed it":
        (0, at(0, "abc") + at(1, "a") + at(1, "b", 3.0, **ONCE) + at(7, "b"), "3a1@0 3b1@0 3c1@0 3a1@6 lost 3b1@7"),
    # Short answers repeat from step to step: nobody gets the old reward, while its siblings take their time or at once.
    **{f"a group of a next step, {step}": (
        0, at(0, "abcd", **FOUR) + at(step[0], step[1], **FOUR) + at(step[0] + step[2], {*"axyz"} - {*step[1]}, **FOUR),
        "4a1@0 4b1@0 4c1@0 4d1@0 " + " ".join(f"4{t}2@{step[0] + step[2]:g}" for t in "axyz")) for step in STEPS},
}  # fmt: skip


@pytest.mark.parametrize("scene", SCENES)
async def test_what_clients_get(scene):
    """And nothing of them is left behind: rewards are kept for 900 s."""
    cost, clients, wanted = SCENES[scene]
    place = Place(cost=cost)
    found = await asyncio.gather(*(place.client(*client, **given) for *client, given in clients))
    shown = [f"{''.join(map(str, got))}@{when:g}" if got else "lost" for when, got in found]
    assert sorted(shown) == sorted(wanted.split())
    await asyncio.sleep(901)
    await place.gone("z", key="last", breaks=0.1)  # whatever comes next makes the join look
    await asyncio.sleep(AWAY)
    left = (place.join.open, place.join.scoring, place.join.closed, place.join.waiting, place.join.bytes)
    assert left == ({}, {}, {}, 0, 0)


async def test_a_connection_that_ends_in_the_turn_of_the_reply_is_owed_it():
    place, client = Place(), Told()
    reply = asyncio.ensure_future(place.join.reply("k", 3, b"b", "b", weight=1, client=client))
    others = [asyncio.ensure_future(place.one_try(t)) for t in "ac"]
    while not others[0].done():
        client.gone = "k" in place.join.closed and not place.join.waiting  # nobody listens any more
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
    [([LOST], 5 + SETTLE), ([LOST] * 2, 6 + 2 * SETTLE), ([SILENT], 184 + 3 * HOLD), ([0.5, SILENT], 185.5 + 3 * HOLD)],
)
@pytest.mark.parametrize("lost", ["a", "bc", "abcd"])
async def test_a_reply_that_was_lost_unseen_is_repeated(lost, troubles, served):
    """The retry joins like any other, and its group holds nothing but what was just rewarded. Soon, whatever the hold;
    where it comes late, siblings of a next step get three holds, and its client has no fourth."""
    place = Place()
    starts = zip("abcd", (1.0, 1.0, 1.0, 4.0), strict=True)
    clients = [place.client(t, s, *troubles if t in lost else (), size=4) for t, s in starts]
    found = await asyncio.gather(*clients)
    assert [result[:2] for _, result in found] == [(4, t) for t in "abcd"]
    assert max(at for at, _ in found) <= served
    assert (place.join.open, len(place.join.closed)) == ({}, 1)


@pytest.mark.parametrize(("pause", "repeated"), [(1.0, True), (3.0, False)])
async def test_a_group_that_fills_within_the_pause_of_a_retry_is_a_new_one(pause, repeated):
    """And of the same step, if it begins within SAME_STEP. It is being scored as the first one's pause ends."""
    place = Place(cost=2.0)
    await place.clients("abc")
    clients = (place.client(t, pause + 4 * (t != "a")) for t in "abc")
    assert await together(*clients) == [(3, t, 2) for t in "abc"]
    assert [group.repeated for group, _ in place.groups] == [False, repeated]


@pytest.mark.parametrize(("age", "deadline", "served"), [(2.0, 800.0, HOLD), (6.0, 800.0, 800.0), (6.0, 300.0, 300.0)])
async def test_what_comes_to_a_process_that_has_just_begun_is_due_at_the_end_of_its_first_hold(
    monkeypatch, age, deadline, served
):
    """Its client may have four tries behind it, and no fifth hold before it. `wait_seconds` counts from the arrival."""
    place = Place()
    place.join.began, place.join.deadline = 1000.0, deadline
    monkeypatch.setattr("dare_service.joins.join.time.monotonic", lambda: 1000.0 + age)
    found = await asyncio.gather(*(place.client(t, size=4) for t in "abc"))
    assert found == [(served, (3, t, 1)) for t in "abc"]
    assert place.groups[0][1] == [0.0] * 3


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


@pytest.mark.parametrize("seed", range(6))
async def test_storms_lose_nothing_and_mix_nothing(seed):
    """Connections that break before, while and after groups close, and replies that get lost: each rollout gets the
    reward of its own group, or is told that it is not."""
    rng, place = random.Random(seed), Place(cost=0.2)
    clients = []
    for key in range(16):
        for i in range(8):
            troubles = [rng.choice([rng.random() * 3, LOST, None]) for _ in range(rng.randrange(4))]
            clients.append(place.client(f"{key}-{i % 6}", rng.random() * 20, *troubles, key=key, size=8))
    found = await together(*clients)
    assert None not in found
    for n, (size, text, _) in enumerate(found):
        assert size > 4
        assert text in {f"{n // 8}-{n % 8 % 6}", "middle"}
