"""The URL route's additions, on a class of the shape of OpenRLHF's; the real ones: tests/e2e/test_openrlhf_releases.py."""

import asyncio
import sys
import types
from copy import deepcopy

import pytest
from fakes import Engine, SamplingParams, Tokenizer, generate_responses

from dare_trainer.agent import url_route_patch as single_turn
from dare_trainer.vllm import plugin as vllm_plugin


def released():
    """A fresh class each time, since patching changes it."""

    class SingleTurnAgentExecutor:
        def __init__(self, url):
            self.reward_endpoints = [url] if isinstance(url, str) else url
            self.plain = []

        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
            ids = hf_tokenizer(prompt, add_special_tokens=False, return_tensors="pt")["input_ids"][0].tolist()
            done = (await llm_engine.generate(ids, deepcopy(sampling_params))).outputs[0]
            query = hf_tokenizer.decode(ids + done.token_ids, skip_special_tokens=False)
            (found,) = await self._fetch_rewards_via_http([query], [prompt], [label])
            asked = sampling_params.logprobs is not None and done.logprobs is not None
            return {"reward": found["rewards"], "rollout_log_probs": asked, "observation_tokens": ids + done.token_ids}

        async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list):
            self.plain.append(queries_list)
            return [{"rewards": [0.25]}]

    return SingleTurnAgentExecutor


@pytest.fixture
def posted(monkeypatch):
    bodies = []

    async def post(url, payload):
        bodies.append((url, payload))
        return {"rewards": [0.5]}

    monkeypatch.setattr(single_turn, "_post", post)
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    return bodies


def test_each_rollout_carries_its_place_and_its_entropy(posted):
    kind = released()
    assert single_turn.patch_class(kind)
    assert single_turn.patch_class(kind)  # again: nothing
    executor = kind("http://r/reward?group_size=4")
    shared = SamplingParams()

    async def main():
        engine = Engine(lambda n: f"\\boxed{{{n}}}", entropy=lambda n: 0.5 * n)
        groups = [generate_responses(executor, engine, params=deepcopy(shared)) for _ in range(3)]
        return await asyncio.gather(*groups)

    out = asyncio.run(main())
    assert [[r["reward"] for r in g] for g in out] == [[[0.5]] * 4] * 3
    assert not any(r["rollout_log_probs"] for g in out for r in g)
    groups = {}
    for _, body in posted:
        assert set(body) == {
            "query", "prompts", "labels", "group_key", "index", "num_tokens", "finish_reason", "mean_entropy", "entropy_source", "entropy_mode",
        }  # fmt: skip
        groups.setdefault(body["group_key"][0], []).append(body["index"][0])
        assert (body["entropy_source"], body["entropy_mode"], body["finish_reason"]) == (
            ["exact"],
            ["temperature"],
            ["stop"],
        )
    assert sorted(map(sorted, groups.values())) == [[0, 1, 2, 3]] * 3
    assert sorted(b["mean_entropy"][0] for _, b in posted) == pytest.approx([max(0.5 * n, 1e-30) for n in range(12)])
    assert not single_turn._calls


def test_a_rollout_without_entropy_is_still_sent(posted):
    kind = released()
    single_turn.patch_class(kind)
    asyncio.run(generate_responses(kind("http://r"), Engine(lambda n: "x", plugin=False), n=2))
    assert all("mean_entropy" not in body and "group_key" in body for _, body in posted)


def test_several_urls_are_left_to_openrlhf(posted):
    kind = released()
    single_turn.patch_class(kind)
    executor = kind(["http://a", "http://b"])
    asyncio.run(generate_responses(executor, Engine(lambda n: "x"), n=2))
    assert (len(posted), len(executor.plain)) == (0, 2)


def test_another_shape_is_left_alone(caplog):
    class Other:
        async def execute(self, request):
            pass

        async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list):
            pass

    before = Other.execute
    assert not single_turn.patch_class(Other)
    assert Other.execute is before
    assert "stays without entropies" in caplog.text
    assert not single_turn.patch_class(None)


def test_a_failing_engine_leaves_nothing_behind(posted):
    kind = released()
    single_turn.patch_class(kind)

    def fail(number):
        raise RuntimeError("engine")

    with pytest.raises(RuntimeError, match="engine"):
        asyncio.run(generate_responses(kind("http://r"), Engine(fail, delay=0), n=2))
    assert not single_turn._calls


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        ("http://h:8000/reward?group_size=32&missing_entropy=error", "temperature"),
        ("http://h:8000/reward?missing_entropy=group_mean", "temperature"),
        ("http://h:8000/reward?missing_entropy=frequency", None),
        ("http://h:8000/reward", None),
        ("reward_func.py", None),
    ],
)
def test_the_url_can_demand_entropies(url, wanted):
    assert single_turn.wanted_by_url(url) == wanted


def test_the_plugin_asks_the_actor_that_builds_the_engine(monkeypatch):
    """OpenRLHF's actor holds its executor when the engine's arguments load the plugins."""
    monkeypatch.delenv("VLLM_TOKEN_ENTROPY")
    patched = []
    monkeypatch.setattr(vllm_plugin, "patch", patched.append)

    class Actor:
        def __init__(self, url):
            self.executor = types.SimpleNamespace(reward_endpoints=[url])
            vllm_plugin.register()

    url = "http://h/reward?missing_entropy=error"
    Actor(url)
    assert patched == []  # no OpenRLHF in this process
    monkeypatch.setitem(sys.modules, single_turn.MODULE, types.ModuleType("agent"))
    Actor("http://h/reward")
    assert patched == []
    Actor(url)
    assert patched == ["temperature"]
    assert vllm_plugin.mode() == "temperature"  # the engine core inherits it
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "off")
    Actor(url)
    assert patched == ["temperature"]  # an explicit off stays


def test_tokenizers_of_both_calls():
    assert Tokenizer()("a", return_tensors="pt")["input_ids"][0].tolist() == Tokenizer()(text="a")["input_ids"]
