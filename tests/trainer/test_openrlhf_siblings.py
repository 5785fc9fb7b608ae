"""Groups inside an actor: sizes, order, failures. None of them may hang or leave anything running.

In virtual time: on a busy machine two timers that are 10 ms apart may fire together.
"""

import asyncio
from functools import partial

import pytest
from fakes import run
from virtual_time import VirtualLoop

from dare_trainer.openrlhf.siblings import SiblingError, Siblings, together

run = partial(run, loop=VirtualLoop)
ONE, TWO = object(), object()


async def tens(deliveries):
    await asyncio.sleep(0)
    return [10 * d for d in deliveries]


async def member(siblings, i, anchor=ONE, key="k", fail=()):
    """A member's delivery (its place, and 100 for each member) and its result. It generates for 10 ms times its place;
    what is in `fail` it raises, or is cancelled."""
    group, place = siblings.enter(anchor, key)

    async def generate():
        await asyncio.sleep(0.01 * i)
        if i in fail:
            raise ValueError(f"engine {i}")
        return i + 100 * group.members

    try:
        delivery = await group.run(generate)
        return delivery, await siblings.result(group, place, delivery)
    finally:
        siblings.leave(group)


@pytest.mark.parametrize("other", [{"anchor": TWO}, {"key": "another"}], ids=["anchor", "key"])
def test_two_groups_stay_apart(other):
    """By the object, of which Ray unpickles a fresh one per prompt; and one object for two prompts is two groups."""

    async def main():
        s = Siblings(tens)
        found = await asyncio.gather(*[member(s, i) for i in range(8)], *[member(s, i, **other) for i in range(3)])
        return found, s.open

    found = [(i + 100 * n, 10 * (i + 100 * n)) for n in (8, 3) for i in range(n)]
    assert run(main()) == (found, {})


@pytest.mark.parametrize("ends", [ValueError, asyncio.CancelledError])
def test_the_end_of_one_resolves_those_who_wait_and_stops_those_who_generate(ends):
    """And who is cancelled stays so."""

    async def main():
        s = Siblings(tens)
        tasks = [asyncio.ensure_future(member(s, i, fail={2} if ends is ValueError else ())) for i in range(5)]
        await asyncio.sleep(0.015)
        if ends is not ValueError:
            tasks[2].cancel()
        out = await asyncio.gather(*tasks, return_exceptions=True)
        assert out[:2] == [(500, None), (501, None)]
        assert [type(one) for one in out[2:]] == [ends, SiblingError, SiblingError]
        assert s.open == {}
        again = await asyncio.gather(*[member(s, i) for i in range(2)])  # a dead group haunts no later one
        assert again == [(200, 2000), (201, 2010)]

    run(main())


@pytest.mark.parametrize("who", range(4))
def test_the_end_of_one_stops_the_scoring_of_its_group(who):
    """Whether it waits or is the one that scores: nothing that was asked for to score the group runs on."""

    async def main():
        asked = []

        async def forever():
            asked.append(1)
            try:
                await asyncio.sleep(1e9)
            finally:
                asked.pop()

        s = Siblings(lambda deliveries: together([forever] * 8))
        tasks = [asyncio.ensure_future(member(s, i)) for i in range(4)]
        await asyncio.sleep(1)
        assert len(asked) == 8
        tasks[who].cancel()
        out = await asyncio.gather(*tasks, return_exceptions=True)
        assert (asked, s.open) == ([], {})
        assert [type(one) for one in out] == [asyncio.CancelledError if i == who else tuple for i in range(4)]
        assert [one[1] for i, one in enumerate(out) if i != who] == [None] * 3

    run(main())
