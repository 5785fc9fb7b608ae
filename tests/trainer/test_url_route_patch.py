"""The URL route's additions, on a class of the shape of OpenRLHF's; the real ones: tests/e2e/test_openrlhf_releases.py."""

import asyncio
import sys
import types
from copy import deepcopy

import pytest
from fakes import Engine, SamplingParams, Tokenizer, generate_responses

from dare_trainer.agent import url_route_patch
from dare_trainer.vllm import plugin


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

    monkeypatch.setattr(url_route_patch, "_post", post)
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    return bodies


def test_each_rollout_carries_its_place_and_its_entropy(posted):
    kind = released()
    assert url_route_patch.patch_class(kind)
    assert url_route_patch.patch_class(kind)  # again: nothing
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
    assert not url_route_patch._calls


def test_a_rollout_without_entropy_is_still_sent(posted):
    kind = released()
    url_route_patch.patch_class(kind)
    asyncio.run(generate_responses(kind("http://r"), Engine(lambda n: "x", plugin=False), n=2))
    assert all("mean_entropy" not in body and "group_key" in body for _, body in posted)


def test_several_urls_are_left_to_openrlhf(posted):
    kind = released()
    url_route_patch.patch_class(kind)
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
    assert not url_route_patch.patch_class(Other)
    assert Other.execute is before
    assert "stays without entropies" in caplog.text
    assert not url_route_patch.patch_class(None)


def test_a_failing_engine_leaves_nothing_behind(posted):
    kind = released()
    url_route_patch.patch_class(kind)

    def fail(number):
        raise RuntimeError("engine")

    with pytest.raises(RuntimeError, match="engine"):
        asyncio.run(generate_responses(kind("http://r"), Engine(fail, delay=0), n=2))
    assert not url_route_patch._calls


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
    assert url_route_patch.wanted_by_url(url) == wanted


DEMANDS = "http://r/reward?group_size=4&missing_entropy=error"


class Workers:
    """`AsyncLLM` for the switch: what its workers are asked to call."""

    def __init__(self, monkeypatch, *, speculative=None):
        self.calls, self.speculative = [], speculative
        monkeypatch.delenv("VLLM_TOKEN_ENTROPY")
        monkeypatch.setattr(plugin, "patch", self.calls.append)

    async def collective_rpc(self, method, args=()):
        await asyncio.sleep(0.01)
        return [
            method(types.SimpleNamespace(vllm_config=types.SimpleNamespace(speculative_config=self.speculative)), *args)
        ]


def rollouts(url, workers, n=4):
    """Of one prompt through the patched executor, and the engine that they ran in."""
    kind = released()
    url_route_patch.patch_class(kind)
    executor, engine = kind(url), Engine(lambda n: "x", delay=0)
    engine.llm.collective_rpc = workers.collective_rpc

    async def main():
        first = await generate_responses(executor, engine, n=n, return_exceptions=True)
        return first + await generate_responses(executor, engine, n=n, return_exceptions=True)

    return asyncio.run(main()), executor, engine


def test_the_executor_asks_the_workers_once_before_its_first_rollout(posted, monkeypatch):
    """OpenRLHF makes the executor before the engine, whose arguments load the plugin: only the executor has the URL."""
    workers = Workers(monkeypatch)
    out, executor, engine = rollouts(DEMANDS, workers)
    assert workers.calls == ["temperature"]
    assert plugin.mode() == "temperature"
    assert [r["reward"] for r in out] == [[0.5]] * 8
    assert all("mean_entropy" in body for _, body in posted)
    assert executor.plain == []
    assert {p.logprobs for p in engine.asked} == {0}


@pytest.mark.parametrize(("url", "switch"), [("http://r/reward", None), (DEMANDS, "off"), ("reward.py", None)])
def test_where_nothing_is_demanded_the_executor_does_what_it_did(posted, monkeypatch, url, switch):
    workers = Workers(monkeypatch)
    if switch:
        monkeypatch.setenv("VLLM_TOKEN_ENTROPY", switch)  # an explicit off stays
    out, executor, engine = rollouts(url, workers)
    assert (workers.calls, posted, plugin.mode()) == ([], [], None)
    assert len(executor.plain) == len(out) == 8
    assert {p.logprobs for p in engine.asked} == {None}


def test_workers_that_cannot_end_the_run_at_its_first_rollout(posted, monkeypatch):
    workers = Workers(monkeypatch, speculative="draft")
    out, executor, _ = rollouts(DEMANDS, workers)
    assert all(isinstance(e, plugin.PluginError) for e in out)
    assert "the reward URL demands entropies" in str(out[0])
    assert "speculative decoding gives no token entropies" in str(out[0])
    assert "VLLM_TOKEN_ENTROPY=temperature" in str(out[0])
    assert (workers.calls, posted, executor.plain) == ([], [], [])


def test_vllm_finds_openrlhfs_executor_in_its_actor(monkeypatch):
    kind = released()
    before = kind.execute
    monkeypatch.delitem(sys.modules, url_route_patch.MODULE, raising=False)
    url_route_patch.register()
    agent = types.ModuleType("agent")
    agent.SingleTurnAgentExecutor = kind
    monkeypatch.setitem(sys.modules, url_route_patch.MODULE, agent)
    assert kind.execute is before
    url_route_patch.register()
    assert kind.execute is not before


def test_tokenizers_of_both_calls():
    assert Tokenizer()("a", return_tensors="pt")["input_ids"][0].tolist() == Tokenizer()(text="a")["input_ids"]


def test_what_fails_is_told_without_the_token_of_the_address(monkeypatch, caplog):
    class RefusedError(Exception):
        status = 401

    class Session:
        def __init__(self, **_): ...

        async def __aenter__(self):
            return self

        async def __aexit__(self, *_): ...

        def post(self, url, **_):
            raise RefusedError(f"401, url={url}")

    async def at_once(_):
        return None

    stand_in = types.SimpleNamespace(ClientSession=Session, ClientTimeout=lambda **_: None)
    monkeypatch.setattr(url_route_patch, "import_module", lambda _: stand_in)
    monkeypatch.setattr(url_route_patch.asyncio, "sleep", at_once)
    caplog.set_level("INFO")
    with pytest.raises(
        RuntimeError, match=r"^http://r/reward: no reward after 5 tries \(RefusedError 401\)$"
    ) as caught:
        asyncio.run(url_route_patch._post("http://r/reward?token=hush", {}))
    assert "hush" not in caplog.text
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
