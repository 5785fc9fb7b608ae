"""Votes in waves, counted at the engine: a settled group costs no further wave, and faults stay what they were."""

import asyncio
from urllib.parse import urlencode

import pytest
from fakes import Engine, SamplingParams, answering, away, close, generate_responses, go, logs, route, run

from dare_reward.votes import Waves, votes_suffice

SAME = "\\boxed{7}"


def split(number):
    return f"\\boxed{{{5 + number % 2}}}"


@pytest.fixture
def make(make):
    defaults = {"method": "ttrl", "votes_per_prompt": 16, "adaptive": "auto"}
    return lambda **settings: make(urlencode({**defaults, **settings}))


def test_a_group_whose_votes_suffice_costs_no_further_wave(make):
    engine = Engine(lambda n: SAME, delay=0)
    out = go(make(), engine, n=8)
    assert len(engine.asked) == 8
    assert logs(out, "votes", "votes_saved", "settle_risk", "reward_fallback") == [{8.0}, {8.0}, {0.0}, {0.0}]


def test_an_open_group_gets_all_votes_in_waves(make):
    engine = Engine(split, delay=0)
    out = go(make(adaptive="wave=4"), engine, n=4)
    assert len(engine.asked) == 16
    assert logs(out, "votes", "votes_saved", "settle_risk") == [{16.0}, {0.0}, {0.0}]
    assert engine.running == 0


def test_waves_end_where_the_rule_says(make):
    """The engine gets as many requests as the rule asks for, wave by wave."""
    texts = [*(split(n) for n in range(8)), *[SAME.replace("7", "5")] * 24]
    rollouts = [{"answer": t[7:-1], "trained": i < 8} for i, t in enumerate(texts)]
    votes, waves = 8, Waves(votes=32, wave=4)
    while more := votes_suffice({"rollouts": rollouts[:votes]}, {}, method="ttrl", waves=waves).more:
        votes += more
    assert 8 < votes < 32
    engine = Engine(lambda n: texts[n], delay=0)
    out = go(make(votes_per_prompt=32, adaptive="wave=4"), engine, n=8)
    assert len(engine.asked) == votes
    assert logs(out, "votes", "votes_saved") == [{float(votes)}, {32.0 - votes}]
    assert 0 < out[0]["extra_logs"]["settle_risk"] <= 0.05


def test_no_vote_begins_before_all_trained_rollouts_have_ended(make):
    """Decisions are taken on complete waves: whoever is long is counted like whoever is short."""
    ended = []

    class Slow(Engine):
        async def generate(self, *args, **more):
            if len(self.asked) == 4:
                ended.append(self.running)
            return await super().generate(*args, **more)

    go(make(adaptive="wave=4"), Slow(split, delay=0.01), n=4)
    assert ended == [0]


def test_the_rewards_are_those_of_the_votes_that_were_cast(make):
    """Three of the four trained rollouts say 5, and all votes 6."""
    engine = Engine(lambda n: f"\\boxed{{{5 if n < 3 else 6}}}", delay=0)
    out = go(make(adaptive="wave=4"), engine, n=4)
    assert sorted(r["reward"] for r in out) == [0, 0, 0, 1]


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_rule_that_fails_costs_votes_and_no_reward(make, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("dare_trainer.openrlhf.adaptive_votes.votes_suffice", broken)
    engine = Engine(lambda n: SAME, delay=0)
    out = go(make(method="ttrl"), engine, n=4)
    assert len(engine.asked) == 16
    assert logs(out, "votes", "reward_fallback") == [{16.0}, {0.0}]


def test_without_a_service_votes_still_stop(make):
    engine = Engine(lambda n: SAME, delay=0)
    out = go(answering(make(timeout=0.1), away), engine, n=8)
    assert len(engine.asked) == 8
    assert logs(out, "reward_fallback", "votes_saved") == [{1.0}, {8.0}]


class Hanging(Engine):
    """Requests from number `since` on do not end; `begun` once one of them runs."""

    def __init__(self, say, since):
        super().__init__(say, delay=0)
        self.since, self.begun = since, asyncio.Event()

    async def generate(self, ids, sampling_params, **more):
        if len(self.asked) == self.since:
            self.delay = 1e9
            self.begun.set()
        return await super().generate(ids, sampling_params, **more)


@pytest.mark.parametrize("who", range(4))
def test_a_member_that_is_cancelled_stops_the_wave(make, who):
    """Whether it waits or is the one that asks for votes: nothing runs on, and its siblings have the fallback."""
    executor = make(method="ttrl")

    async def main():
        engine, shared = Hanging(split, 4), SamplingParams()
        members = [asyncio.ensure_future(generate_responses(executor, engine, n=1, params=shared)) for _ in range(4)]
        await engine.begun.wait()
        members[who].cancel()
        out = await asyncio.gather(*members, return_exceptions=True)
        await close(executor)
        assert engine.running == 0
        assert route(executor).siblings.open == {}
        assert [isinstance(r, asyncio.CancelledError) for r in out] == [i == who for i in range(4)]
        assert {r[0]["extra_logs"]["reward_fallback"] for i, r in enumerate(out) if i != who} == {2.0}

    run(main())
