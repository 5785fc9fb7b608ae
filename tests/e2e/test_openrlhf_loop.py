"""The whole loop by one flag: released OpenRLHF 0.11.2, Ray, DeepSpeed, vLLM, our plugin, our service, no GPU.

Needs the environment of `scripts/test_openrlhf_loop.py`, which runs this file. The only thing that is not as released
is what openrlhf/at_start changes, and the shim beside it: they stand in for CUDA.
"""

import itertools
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from by_path import load

from dare_reward.openrlhf import keys_of, rounded

pytestmark = pytest.mark.openrlhf_loop

loop = load(Path(__file__).parent / "openrlhf" / "loop.py")
BATCH, SAMPLES, VOTES, STEPS = 8, 4, 8, 4


@pytest.fixture(scope="module")
def grouped(tiny, tmp_path_factory):
    """Four steps, twice as many votes as trained rollouts, evaluations; the service dies after the second."""
    folder = tmp_path_factory.mktemp("grouped")
    more = {
        "algo.advantage.is_correction_level": "token",
        "eval.dataset": str(loop.write_prompts(folder / "eval.jsonl", "eval", 12)),
        "eval.steps": 2,
        "eval.n_samples_per_prompt": 2,
        "eval.temperature": 1.0,
        # A micro-batch per step: over several, OpenRLHF's entropy_loss is sum(e n^2) / sum(n)^2 times their number, for
        # the mean entropies e of their n tokens. That is no mean per token where n differs (it was a fifth too high).
        "train.micro_batch_size": BATCH * SAMPLES,
    }
    sizes = {"prompts": BATCH * STEPS, "samples": SAMPLES, "batch": BATCH, "lr": 2e-3, "killed_after": 2 * BATCH + 3}
    return loop.train(tiny, folder, f"votes_per_prompt={VOTES}&send=tokens", more=more, **sizes)


def test_all_steps_are_reached_although_the_service_died(grouped):
    assert len(grouped.steps) == STEPS
    assert any(x.status == 502 for x in grouped.exchanges), "no request met the dead service"


def alone(run):
    """The requests in which a group was scored; those that were scored in the actor come later, for the run log."""
    return [x for x in run.scored if len(x.body["groups"]) == 1]


def undisturbed(run):
    """The steps before the outage, each with its requests."""
    steps = list(itertools.takewhile(lambda step: step["reward_fallback"] == 0, run.steps))
    assert len(steps) >= 2
    return [(step, alone(run)[i * BATCH : (i + 1) * BATCH]) for i, step in enumerate(steps)]


def test_every_group_reaches_the_service_in_one_run_although_it_died(grouped):
    names = {g["group_id"] for x in grouped.scored for g in x.body["groups"]}
    assert len(names) == BATCH * STEPS
    (name,) = {x.body["run"] for x in grouped.scored}
    assert name.startswith("openrlhf-")
    assert {step["reward_fallback"] for step in grouped.steps} <= {n / BATCH for n in range(BATCH + 1)}


def test_every_request_is_a_whole_group_with_an_entropy_per_token(grouped):
    for x in alone(grouped):
        (group,) = x.body["groups"]
        assert (group["entropy_source"], group["entropy_mode"]) == ("exact", "temperature")
        assert [r["trained"] for r in group["rollouts"]] == [True] * SAMPLES + [False] * (VOTES - SAMPLES)
        entropies = x.columns["token_entropies"]
        assert entropies.lengths.tolist() == [r["num_tokens"] for r in group["rollouts"]]
        assert np.isfinite(entropies.values).all()
        assert entropies.values.max() > 0.1


def test_openrlhf_trains_on_the_rewards_of_the_service(grouped):
    for step, requests in undisturbed(grouped):
        groups = [x.reply["groups"][0] for x in requests]
        rewards = [r for g in groups for r in rounded(g["rewards"][:SAMPLES])]
        assert step["rollout/reward_mean"] == pytest.approx(np.mean(rewards), abs=1e-6)
        assert step["rollout/reward_std"] == pytest.approx(np.std(rewards, ddof=1), abs=1e-5)
        assert step["rollout/num_samples"] == BATCH * SAMPLES
        assert step["votes"] == VOTES
        assert step["majority_ratio"] == pytest.approx(
            np.mean([g["diagnostics"]["majority_ratio"] for g in groups]), abs=1e-5
        )


def test_weights_really_reach_vllm(grouped):
    """vLLM and the trainer agree on log-probabilities and on entropies, while the policy moves."""
    kl = [s["vllm_kl"] for s in grouped.steps]
    ours, theirs = [], [step["entropy_loss"] for step, _ in undisturbed(grouped)]
    for _, requests in undisturbed(grouped):
        total = count = 0.0
        for x in requests:
            column = x.columns["token_entropies"]
            trained = int(column.lengths[:SAMPLES].sum())
            total, count = total + float(column.values[:trained].sum()), count + trained
        ours.append(total / count)
    print(f"\nvllm_kl {kl}\nentropy per token, plugin  {ours}\nentropy per token, trainer {theirs}")
    assert max(map(abs, kl)) < 0.01
    assert ours == pytest.approx(theirs, rel=0.02, abs=0.002)
    assert np.ptp([step["entropy_loss"] for step in grouped.steps]) > 0.02  # the policy moves, over all steps
    assert np.ptp(ours) > 0.5 * np.ptp(theirs)  # and vLLM's with it, over those in which the service was asked


def test_no_number_is_nan_and_all_logs_are_there(grouped):
    for step in grouped.steps:
        assert set(keys_of("actor")) <= step.keys()
        assert all(math.isfinite(v) for v in step.values() if isinstance(v, float | int))
    for step, requests in undisturbed(grouped):
        groups = [x.reply["groups"][0] for x in requests]
        answered = [any(g["valid"]) for g in groups]  # entropies weigh answers: a group without any uses none
        assert step["entropy_source"] == pytest.approx(np.mean(answered))
        assert any(answered)


def test_evaluation_is_accuracy(grouped):
    assert len(grouped.evaluations) == STEPS // 2
    for found in grouped.evaluations:
        assert found["eval_num_samples"] == 12 * 2 or found["eval_num_samples"] == 12
        assert 0 <= found["eval_sums_pass1"] <= found["eval_sums_pass2"] <= 1
        assert (found["eval_sums_pass1"] * 24) == pytest.approx(round(found["eval_sums_pass1"] * 24), abs=1e-4)


def test_without_the_package_votes_count(tiny, tmp_path):
    """The plain flag: `VLLM_PLUGINS` keeps our additions out, as where nothing of ours is installed."""
    samples, sizes = 8, {"prompts": 16, "samples": 8, "batch": BATCH}
    query = f"group_size={samples}&run=url-000000001"
    run = loop.train(tiny, tmp_path, query, environment={"VLLM_PLUGINS": ""}, **sizes)
    assert len(run.steps) == 2
    scored = [x for x in run.scored if "query" in x.body]
    assert len(scored) == 2 * BATCH * samples
    for i, step in enumerate(run.steps):
        part = scored[i * BATCH * samples : (i + 1) * BATCH * samples]
        assert step["rollout/reward_mean"] == pytest.approx(np.mean([x.reply["rewards"][0] for x in part]), abs=1e-6)
        assert step["entropy_source"] == 0
        assert step["votes"] == samples
    assert all(set(x.body) == {"query", "prompts", "labels"} for x in scored)


def test_votes_in_waves(tiny, tmp_path):
    """A settled group costs no further wave: the requests that vLLM got are the rollouts that were scored."""
    votes, wave, requests = 24, 4, tmp_path / "requests.txt"
    query = f"method=ttrl&votes_per_prompt={votes}&adaptive=wave%3D{wave}"
    sizes = {"prompts": 2 * BATCH, "samples": SAMPLES, "batch": BATCH}
    run = loop.train(tiny, tmp_path, query, environment={"DARE_TEST_REQUESTS": str(requests)}, **sizes)
    sizes = [len(x.body["groups"][0]["rollouts"]) for x in run.scored]
    print(f"votes a group {sorted(sizes)}")
    assert len(run.steps) == 2
    assert len(sizes) == 2 * BATCH
    assert sorted(Counter(requests.read_text().splitlines()).values()) == sorted(sizes)
    assert min(sizes) < votes, "no group settled early: the test has lost its point"
    assert all(SAMPLES <= n <= votes and (n - SAMPLES) % wave == 0 for n in sizes)
    for i, step in enumerate(run.steps):
        part = sizes[i * BATCH : (i + 1) * BATCH]
        assert step["votes"] == pytest.approx(np.mean(part))
        assert step["votes_saved"] == pytest.approx(votes - np.mean(part))
        assert 0 <= step["settle_risk"] <= 0.5
