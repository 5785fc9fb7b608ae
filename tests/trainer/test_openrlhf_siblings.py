"""Groups inside an actor: sizes, order, failures. None of them may hang or leave anything running."""

import asyncio

import pytest
from virtual_time import VirtualLoop

from dare_trainer.openrlhf.siblings import SiblingError, Siblings


def run(coroutine):
    """In virtual time: on a busy machine two timers that are 10 ms apart may fire together."""

    async def limited():
        async with asyncio.timeout(60):
            out = await coroutine
        assert len(asyncio.all_tasks()) == 1, "something is still running"
        return out

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(limited())


async def tens(deliveries):
    await asyncio.sleep(0)
    return [10 * d for d in deliveries]


async def member(siblings, anchor, i, key="k", delays=None, fail=()):
    """A member's delivery (its place, and 100 for each member) and its result."""
    me = siblings.enter(anchor, key)

    async def generate():
        await asyncio.sleep(0.01 * (delays[i] if delays else i))
        if i in fail:
            raise ValueError(f"engine {i}")
        return i + 100 * me.group.members

    try:
        delivery = await me.group.run(generate)
        return delivery, await siblings.result(me, delivery)
    finally:
        siblings.leave(me)


@pytest.mark.parametrize("apart", ["object", "prompt"])
def test_two_groups_stay_apart(apart):
    """By the object, of which Ray unpickles a fresh one per prompt; and one object for two prompts is two groups."""

    async def main():
        sizes = []

        async def score(deliveries):
            sizes.append(len(deliveries))
            return deliveries

        s, one = Siblings(score), object()
        two, key = (object(), "k") if apart == "object" else (one, "another")
        await asyncio.gather(*[member(s, one, i) for i in range(8)], *[member(s, two, i, key=key) for i in range(3)])
        assert sorted(sizes) == [3, 8]

    run(main())


def test_one_failure_resolves_those_who_wait_and_stops_those_who_generate():
    async def main():
        s, anchor = Siblings(tens), object()
        out = await asyncio.gather(*[member(s, anchor, i, fail={2}) for i in range(5)], return_exceptions=True)
        assert out[:2] == [(500, None), (501, None)]
        assert isinstance(out[2], ValueError)
        assert all(isinstance(e, SiblingError) for e in out[3:])
        assert s.open == {}
        again = await asyncio.gather(*[member(s, anchor, i) for i in range(2)])  # a dead group haunts no later one
        assert again == [(200, 2000), (201, 2010)]

    run(main())


def test_a_cancelled_member_stays_cancelled_and_frees_the_others():
    async def main():
        s, anchor = Siblings(tens), object()
        tasks = [asyncio.ensure_future(member(s, anchor, i, delays=[0, 0, 50])) for i in range(3)]
        await asyncio.sleep(0.05)
        tasks[2].cancel()
        out = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(o, asyncio.CancelledError) for o in out] == [False, False, True]
        assert out[:2] == [(300, None), (301, None)]
        assert s.open == {}

    run(main())
