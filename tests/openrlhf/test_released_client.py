"""The contract with OpenRLHF, held against its own released code."""

from __future__ import annotations

import asyncio
import json
import random
import types
from pathlib import Path

import fakes
import parity
import pytest
from fakes import Engine, SamplingParams, Tokenizer
from released import MARKS
from serving import answering

from dare_reward import estimate
from dare_reward.openrlhf import keys_of, rounded
from dare_trainer.vllm import plugin
from dare_trainer.vllm.token_entropy import SWITCH

GOLDEN = Path(__file__).parents[1] / "golden/openrlhf_requests.json"
pytestmark = [*MARKS, pytest.mark.usefixtures("plugins")]


def execute(executor, prompt, label, response):
    """One rollout through the release's executor, to be awaited."""
    engine = Engine(lambda _: response, cut=lambda _: True, delay=0)
    return executor.execute(prompt, label, SamplingParams(), 4096, Tokenizer(), engine)


def rewards(responses) -> list[float]:
    assert all(type(r["reward"]) is list and len(r["reward"]) == 1 for r in responses)
    return [r["reward"][0] for r in responses]


async def test_the_recorded_requests_are_what_the_release_sends(release):
    """tests/golden/openrlhf_requests.json, which the default tests replay."""
    seen, golden = [], json.loads(GOLDEN.read_text())

    def record(handler, content):
        seen.append({"media": handler.headers["content-type"], "body": content.decode()})
        return 200, b'{"rewards":[0]}'

    with answering(record) as url:
        for case in golden["requests"]:
            executor = release.agent.SingleTurnAgentExecutor([f"{url}/reward"])
            await execute(executor, case["prompt"], case["label"], case["response"])
    assert seen == [{"media": golden["media"], "body": c["body"]} for c in golden["requests"]]


MISTAKES = {  # in the URL, and what the log then says
    "/reward?token=hush&run=r": "message='query.group_size: add group_size, your --rollout.n_samples_per_prompt",
    "/reward?token=hush&group_size=8": "message='query.run: run= must hold nine digits or a UUID",
    "/reward?token=hush&group_size=8&run=r&alhpa=0.1": "unknown parameter of the reward URL 'alhpa'. Did you mean alpha",
    "/reward?token=wrong&group_size=8&run=r": "the token is wrong: it is not the service's DARE_TOKEN",
    "/reward/?token=hush&group_size=8&run=r": "rewards are at POST /reward, without a slash at the end",
}


async def test_the_training_log_says_what_is_wrong(live, release, monkeypatch):
    address, lines = live(token="hush").removesuffix("/reward"), []
    monkeypatch.setattr(release.agent, "logger", types.SimpleNamespace(info=lines.append))
    executors = [release.agent.SingleTurnAgentExecutor([address + mistake]) for mistake in MISTAKES]
    calls = (execute(executor, "p\n", "", "\\boxed{1}") for executor in executors)
    await asyncio.gather(*calls, return_exceptions=True)  # releases differ in what they make of a lost reward
    tries = [line for line in lines if line.startswith("Request error, please check: ")]
    assert [sum(sentence in line for line in tries) for sentence in MISTAKES.values()] == [5] * len(MISTAKES), lines


async def test_groups_inside_the_release(live, release, born, generate, monkeypatch):
    """8 prompts x 64 rollouts, two of them the same prompt, an evaluation, and a lost member, of which nothing runs on; the
    workers are asked for entropies once, and the release's own conversion keeps every log."""
    torch = pytest.importorskip("torch")
    monkeypatch.setenv(SWITCH, "")  # undone, whatever is set
    executor, asked, before = born(live()), [], asyncio.all_tasks()

    async def collective_rpc(method, args=()):
        asked.append([method is plugin.switch_on, *args])

    engine, dying, shared = Engine(fakes.say), Engine(fakes.boxed(7, dies=5)), SamplingParams()
    engine.llm.collective_rpc = dying.llm.collective_rpc = collective_rpc
    prompts = ["prompt 1", *(f"prompt {i}" for i in range(1, 8))]
    groups = await asyncio.gather(*(generate(executor, engine, prompt, n=64, params=shared) for prompt in prompts))
    assert (asked, {p.logprobs for p in engine.asked}, shared.logprobs) == ([[True, "temperature"]], {0}, None)
    # The engine hands its texts out in turn, so each group of 64 has 32, 16 and 16 of them, in some order.
    rollouts = [{"text": text, "mean_entropy": 0.25} for text in fakes.TEXTS * 16]
    wanted = pytest.approx(sorted(estimate([{"rollouts": rollouts}]).groups[0].rewards), abs=2**-16)
    for group in groups:
        found = [parity.flat(rollout) for rollout in group]
        assert sorted(r["reward"] for r in found) == wanted
        assert {(r["votes"], r["reward_fallback"]) for r in found} == {(64.0, 0.0)}
    evaluated = await generate(executor, engine, "eval", label='{"answer": "7", "split": "eval"}', n=4, params=shared)
    assert {parity.flat(rollout)["reward"] for rollout in evaluated} <= {0.0, 1.0}
    with pytest.raises(RuntimeError, match="engine died"):
        await generate(executor, dying, "lost", n=64, params=shared)
    await asyncio.sleep(0.1)
    assert (fakes.route(executor).siblings.open, dying.running) == ({}, 0)
    await fakes.close(executor)
    assert asyncio.all_tasks() == before
    convert = release.samples.SamplesGenerator._process_response_into_experience
    made = [convert(types.SimpleNamespace(args=None), r, max_len=256) for group in groups for r in group]
    assert {frozenset(m.info) for m in made} == {frozenset(made[0].info)}
    assert {*keys_of("actor")} <= made[0].info.keys()
    rewards = torch.cat([m.rewards for m in made]).reshape(-1, 64).float()
    advantages = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-9)
    assert torch.isfinite(advantages).all()


async def test_advantages_of_a_group_with_equal_rewards_are_exactly_zero(live, step, release):
    """float32 group normalisation through the release's own experience maker, where unrounded rewards fall into a trap."""
    torch = pytest.importorskip("torch")
    service, n = live(), 32

    def normalised(reward: float) -> float:
        group = torch.full((n,), reward)
        return ((group - group.mean()) / (group.std() + 1e-9)).abs().max().item()

    alpha = next(a / 100 for a in range(1, 100) if normalised(1 / n + a / 100 * (1 - 1 / n)) > 0.1)
    url = f"{service}?group_size={n}&run=a&tau=0&alpha={alpha}"
    equal = await step(url, {"p\n": range(n)})
    assert rewards(equal[0]) == pytest.approx([1 / n + alpha * (1 - 1 / n)] * n, abs=2**-16)
    assert _advantages(torch, release, equal[0]) == [0.0] * n
    mixed = await step(f"{service}?group_size={n}&run=b", {"p\n": random.Random(4).choices([1, 1, 2, 3], k=n)})
    values = torch.tensor(rewards(mixed[0]), dtype=torch.float64)
    exact = ((values - values.mean()) / (values.std() + 1e-9)).tolist()
    assert _advantages(torch, release, mixed[0]) == pytest.approx(exact, abs=1e-4)


async def test_gmae_keeps_its_weights(live, step, release):
    """`dr_grpo` centres and does not divide: a prompt whose vote is surer still counts more, as gmae's chances say."""
    torch = pytest.importorskip("torch")
    url, spreads = f"{live()}?group_size=8&run=r&method=gmae&calibration=none&gmae.group_size=3", []
    for responses in await step(url, {"sure\n": "11111112", "open\n": "11122345"}):
        texts = (Tokenizer().decode(r["observation_tokens"], skip_special_tokens=True) for r in responses)
        group = [{"rollouts": [{"text": text} for text in texts]}]
        (scored,) = estimate(group, method="gmae", calibration="none", group_size=3).groups
        chances = torch.tensor(rounded(scored.rewards))
        gains = _advantages(torch, release, responses, "dr_grpo")
        assert gains == pytest.approx((chances - chances.mean()).tolist(), abs=1e-6)
        spreads.append(max(gains) - min(gains))
    assert min(spreads) > 0.05
    assert max(spreads) > 1.3 * min(spreads), "division by a group's deviation would bring them together"


async def test_dynamic_filtering_leaves_out_what_the_reply_drops(live, step, release, monkeypatch):
    """The release's own loop over its own rollouts: it samples other prompts for groups that carry nothing."""
    torch = pytest.importorskip("torch")
    service = live()
    said = {"unanimous": "1" * 8, "scattered": "12345678", "silent": " " * 8, "one": "11112233", "two": "12222345"}
    found = await step(f"{service}?group_size=8&run=r&method=ttrl&tie=none", said)
    groups = [{"group_id": name, "rollouts": [{"answer": a} for a in own]} for name, own in said.items()]
    dropped = [group.drop for group in estimate(groups, method="ttrl", tie="none").groups]
    assert dropped == ["zero_variance", "zero_variance", "all_invalid", None, None]
    module, by_prompt = release.samples, dict(zip(said, found, strict=True))
    ray = types.SimpleNamespace(wait=lambda refs, **_: (refs[:1], refs[1:]), get=lambda ref: ref)
    monkeypatch.setattr(module, "ray", ray)
    generator = module.SamplesGenerator(types.SimpleNamespace(args=arguments(8)), None, None, None, [])
    monkeypatch.setattr(generator, "_dispatch_prompts_to_vllm", lambda asked, *_, **__: [by_prompt[p] for p in asked])
    images = ([None],) if "images" in found[0][0] else ()  # since 0.10.0
    for filtering, kept in ((False, {"unanimous", "scattered"}), (True, {"one", "two"})):
        loader = iter([("set", [prompt], [""], *images) for prompt in said])
        trained, consumed, _ = generator._generate_vllm(loader, 2, dynamic_filtering=filtering, max_len=4096)
        assert {e.prompts[0] for e in trained} == kept
        assert (len(trained), consumed) == (16, 5 if filtering else 2)
    paid = torch.cat([e.rewards for e in trained]).flatten().tolist()
    assert paid == [1, 1, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0]


def _advantages(torch, release, responses, estimator="group_norm") -> list[float]:
    maker = release.module("trainer.ppo_utils.experience_maker").RemoteExperienceMaker
    make = release.samples.SamplesGenerator._process_response_into_experience
    experiences = [make(types.SimpleNamespace(), r, max_len=4096) for r in responses]
    for i, e in enumerate(experiences):
        e.index = [i]
        for name in ("sequences", "attention_mask", "action_mask"):
            setattr(e, name, getattr(e, name).reshape(1, -1))
        e.kl = torch.zeros(e.action_mask.shape)
    args, kl = arguments(len(responses), estimator), types.SimpleNamespace(value=0.0)
    strategy = types.SimpleNamespace(args=args)
    own = types.SimpleNamespace(strategy=strategy, args=args, kl_ctl=kl, advantage_estimator=estimator)
    own.get_cumulative_returns = types.MethodType(maker.get_cumulative_returns, own)
    done = maker.compute_advantages_and_returns(own, experiences)
    return [e.advantages[e.action_mask.bool()][0].item() for e in done]


class Off(types.SimpleNamespace):
    """Arguments; what is not said is off."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)


def arguments(n: int, estimator: str = "group_norm") -> Off:
    """What the path reads, under the names of both dialects."""
    filtered, clipped, discounts = (0.0, 1.0), (-10, 10), {"gamma": 1.0, "lambd": 1.0}
    algo = Off(advantage=Off(estimator=estimator, no_std_norm=False, **discounts), dynamic_filtering_range=filtered)
    new = {"rollout": Off(n_samples_per_prompt=n), "algo": algo, "reward": Off(clip_range=clipped)}
    old = {"advantage_estimator": estimator, "dynamic_filtering_reward_range": filtered, "reward_clip_range": clipped}
    return Off(n_samples_per_prompt=n, **discounts, **old, **new)
