"""Groups inside an actor: sizes, order, failures. None of them may hang or leave anything running."""

import asyncio

import pytest
from virtual_time import VirtualLoop

from dare_trainer.agent.group_barrier import SiblingError, Siblings, together


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


def member(siblings, anchor, i, key="k", delays=None, fail=()):
    async def generate(members):
        await asyncio.sleep(0.01 * (delays[i] if delays else i))
        if i in fail:
            raise ValueError(f"engine {i}")
        return i + 100 * members

    return siblings.run(anchor, key, generate)


def test_each_gets_its_own_result_whatever_the_order():
    async def main():
        s = Siblings(tens, lambda d: -1)
        out = await asyncio.gather(
            *[member(s, anchor, i, delays=[3, 1, 2, 0]) for anchor in [object()] for i in range(4)]
        )
        assert out == [(400 + i, 10 * (400 + i)) for i in range(4)]
        assert len(s) == 0

    run(main())


def test_two_copies_of_a_prompt_stay_apart():
    """Ray unpickles a fresh sampling_params object per call."""

    async def main():
        sizes = []

        async def score(deliveries):
            sizes.append(len(deliveries))
            return deliveries

        s = Siblings(score, lambda d: -1)
        one, two = object(), object()
        await asyncio.gather(*[member(s, one, i) for i in range(8)], *[member(s, two, i) for i in range(3)])
        assert sorted(sizes) == [3, 8]

    run(main())


def test_a_shared_object_is_told_apart_by_prompt():
    async def main():
        s = Siblings(tens, lambda d: -1)
        shared = object()
        out = await asyncio.gather(*[member(s, shared, i, key=k) for k in ("a", "b") for i in range(2)])
        assert {d // 100 for d, _ in out} == {2}

    run(main())


def test_one_failure_resolves_those_who_wait_and_stops_those_who_generate():
    async def main():
        s = Siblings(tens, lambda d: -d)
        calls = [member(s, anchor, i, fail={2}) for anchor in [object()] for i in range(5)]
        out = await asyncio.gather(*calls, return_exceptions=True)
        assert out[:2] == [(500, -500), (501, -501)]
        assert isinstance(out[2], ValueError)
        assert all(isinstance(e, SiblingError) for e in out[3:])
        assert len(s) == 0

    run(main())


def test_a_cancelled_member_stays_cancelled_and_frees_the_others():
    async def main():
        s = Siblings(tens, lambda d: -1)
        anchor = object()
        tasks = [asyncio.ensure_future(member(s, anchor, i, delays=[0, 0, 50])) for i in range(3)]
        await asyncio.sleep(0.05)
        tasks[2].cancel()
        out = await asyncio.gather(*tasks, return_exceptions=True)
        assert [isinstance(o, asyncio.CancelledError) for o in out] == [False, False, True]
        assert out[:2] == [(300, -1), (301, -1)]
        assert len(s) == 0

    run(main())


def test_an_error_of_the_scoring_reaches_everyone():
    async def main():
        async def score(deliveries):
            raise RuntimeError("no")

        s = Siblings(score, lambda d: -1)
        out = await asyncio.gather(
            *[member(s, anchor, i) for anchor in [object()] for i in range(3)], return_exceptions=True
        )
        assert [str(e) for e in out] == ["no"] * 3
        assert len(s) == 0

    run(main())


def test_a_dead_group_does_not_haunt_the_next_one():
    """The object's id may be used again once it is gone."""

    async def main():
        s = Siblings(tens, lambda d: -1)
        anchor = object()
        await asyncio.gather(*[member(s, anchor, i, fail={0}) for i in range(3)], return_exceptions=True)
        out = await asyncio.gather(*[member(s, anchor, i) for i in range(2)])
        assert out == [(200, 2000), (201, 2010)]

    run(main())


@pytest.mark.parametrize("leading", [True, False])
def test_together_stops_everything(leading):
    async def main():
        running = []

        async def work(name, seconds, fails=False):
            running.append(name)
            try:
                await asyncio.sleep(seconds)
                if fails:
                    raise ValueError(name)
                return name
            finally:
                running.remove(name)

        if leading:
            with pytest.raises(ValueError, match="first"):
                await together(work("first", 0.01, fails=True), [work("a", 5), work("b", 5)])
        else:
            out = await together(work("first", 0.01), [work("a", 0.02, fails=True), work("b", 0.01)])
            assert out[0] == "first"
            assert isinstance(out[1], ValueError)
            assert out[2] == "b"
        assert running == []

    run(main())
