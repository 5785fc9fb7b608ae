"""The agent with a fake engine and a live service: groups, votes, failures of everything around it."""

import asyncio
import math

import httpx
import pytest
from fakes import Engine, SamplingParams, generate_responses, go, run

from dare_reward import estimate
from dare_reward.errors import ConfigError, RequestError, UnavailableError
from dare_reward.report.book import RunBook
from dare_reward.runs import read_run
from dare_reward.runs.log import run_log_of
from dare_trainer.agent.config import AgentConfig
from dare_trainer.agent.executor import Executor
from dare_trainer.vllm.token_entropy import EntropyError

pytestmark = pytest.mark.usefixtures("plugins")

TEXTS = ["so \\boxed{7}", "so \\boxed{7}", "so \\boxed{5}", "no answer"]


def say(number):
    return TEXTS[number % len(TEXTS)]


def make(url, **settings):
    return Executor(AgentConfig(url=url, **settings))


def test_a_group_gets_the_rewards_of_the_estimator(live):
    engine = Engine(say)
    out = go(make(live), engine, n=4)
    texts = ["".join(chr(t - 10) for t in r["observation_tokens"][r["action_ranges"][0][0] : -1]) for r in out]
    rollouts = [{"text": t, "mean_entropy": 0.25} for t in texts]
    wanted = estimate([{"rollouts": rollouts}], method="dare").groups[0].rewards
    assert [r["reward"] for r in out] == pytest.approx(wanted, abs=2**-16)
    assert {r["scores"] for r in out} == {0.0, 1.0}
    assert [set(r) for r in out] == [
        {
            "prompt", "label", "images", "mm_train_inputs", "observation_tokens", "action_ranges", "rollout_log_probs",
            "truncated", "reward", "scores", "extra_logs",
        }
    ] * 4  # fmt: skip
    assert out[0]["extra_logs"]["votes"] == 4.0
    assert out[0]["extra_logs"]["reward_fallback"] == 0.0
    assert out[0]["extra_logs"]["label_accuracy"] == 1.0


def test_a_group_is_named_after_its_prompt_so_that_flips_are_seen(live, tmp_path):
    """Whichever actor a prompt falls to at its next visit."""
    for said, prompts in (("5", ("one", "two")), ("7", ("two", "one"))):
        executor = make(live, method="ttrl", run="r", run_log=str(tmp_path), run_log_texts="prompt")
        for prompt in prompts:
            go(executor, Engine(lambda _, said=said: f"\\boxed{{{said}}}", delay=0), n=2, prompt=prompt)
    run_log_of(tmp_path, frozenset({"prompt"})).close()
    lines = list(read_run(tmp_path / "r"))
    assert [line["prompt"] for line in lines] == ["one", "two", "two", "one"]
    ids = [line["group_id"] for line in lines]
    assert ids == ids[::-1]
    assert ids[0] != ids[1]
    book = RunBook()
    for line in lines:
        book.add(line)
    assert sum(totals.sums["flips"][0] for totals in book.runs["r"].steps.values()) == 2


def test_the_shared_parameters_are_left_alone(live):
    shared = SamplingParams(max_tokens=None)
    engine = Engine(say)
    out = go(make(live), engine, n=4, params=shared)
    assert (shared.logprobs, shared.max_tokens) == (None, None)
    assert all(p is not shared and p.logprobs == 0 and p.max_tokens == 200 - 14 for p in engine.asked)
    assert all(r["rollout_log_probs"] is None for r in out)


def test_log_probabilities_where_openrlhf_asks_for_them(live):
    out = go(make(live), Engine(say), n=2, params=SamplingParams(logprobs=1))
    for r in out:
        assert len(r["rollout_log_probs"]) == len(r["observation_tokens"])
        start = r["action_ranges"][0][0]
        assert r["rollout_log_probs"][:start] == [0.0] * start
        assert set(r["rollout_log_probs"][start:]) == {-0.5}


def test_votes_beyond_the_trained(live):
    engine = Engine(say)
    out = go(make(live, votes_per_prompt=12), engine, n=4)
    assert len(out) == 4
    assert len(engine.asked) == 12
    assert {r["extra_logs"]["votes"] for r in out} == {12.0}
    assert engine.running == 0


def test_votes_that_do_not_divide_are_an_error(live):
    with pytest.raises(ConfigError, match="votes_per_prompt=10 is not a multiple of the 4"):
        go(make(live, votes_per_prompt=10), Engine(say), n=4)


def test_a_lost_vote_is_a_vote_less(live):
    def sometimes(number):
        if number == 7:
            raise RuntimeError("engine")
        return "\\boxed{7}"

    out = go(make(live, votes_per_prompt=8), Engine(sometimes, delay=0), n=4)
    assert {r["extra_logs"]["votes"] for r in out} == {7.0}


def test_many_groups_at_once(live):
    executor = make(live, votes_per_prompt=16)

    async def main():
        engine = Engine(say, delay=0.05)
        groups = [generate_responses(executor, engine, n=8, prompt=f"prompt {i % 5}") for i in range(16)]
        try:
            return await asyncio.gather(*groups)
        finally:
            await executor.close()

    out = run(main())
    assert [len(g) for g in out] == [8] * 16
    assert all(r["extra_logs"]["votes"] == 16.0 for g in out for r in g)
    assert len(executor._siblings) == 0


def test_evaluation_is_accuracy_without_a_group(live):
    executor = make(live, votes_per_prompt=64)
    engine = Engine(say, delay=0)
    out = go(executor, engine, n=3, label='{"answer": "7", "split": "eval"}')
    assert [(r["reward"], r["scores"]) for r in out] == [(1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]
    assert len(engine.asked) == 3
    assert {r["extra_logs"]["evaluation"] for r in out} == {1.0}


@pytest.mark.parametrize("label", [{"answer": "7", "split": "test"}, '{"answer": "\\ud800", "split": "eval"}'], ids=str)
def test_a_label_that_means_nothing_is_none_and_is_counted_and_logged_once(live, caplog, label):
    executor = make(live)
    for _ in range(2):
        out = go(executor, Engine(say, delay=0), n=4, label=label)
        assert {r["extra_logs"]["label_accuracy"] for r in out} == {-1.0}
    assert [r["reward"] for r in out] == [r["reward"] for r in go(make(live), Engine(say, delay=0), n=4, label="")]
    assert executor.ignored_labels == 8
    (line,) = [r.message for r in caplog.records if "label" in r.message]
    assert line.startswith("a label means nothing, and its rollouts train without one: ")


def test_the_agent_says_once_that_openrlhf_must_not_divide(start_service, caplog):
    """It does not learn the trainer's estimator, and OpenRLHF has no place for the flag `centre_only`."""
    with start_service() as (url, _):  # which finds the plug-in
        executor = make(url, method="gmae", params={"calibration": "none"}, votes_per_prompt=4)
        for _ in range(2):
            go(executor, Engine(say, delay=0), n=2)
        (line,) = [r.message for r in caplog.records if "nothing here shows" in r.message]
        assert line.startswith("dividing a group's rewards by their deviation undoes gmae, and nothing here shows")
        assert "--algo.advantage.estimator dr_grpo, not group_norm" in line
        caplog.clear()
        make(url, method="ttrl")
        assert "dr_grpo" not in caplog.text


def test_another_temperature_than_the_runs_is_an_evaluation(live):
    executor = make(live, temperature=1.0)
    out = go(executor, Engine(say, delay=0), n=2, params=SamplingParams(temperature=0.6))
    assert {r["extra_logs"]["evaluation"] for r in out} == {1.0}
    out = go(make(live, temperature=1.0), Engine(say, delay=0), n=2)
    assert {r["extra_logs"]["evaluation"] for r in out} == {0.0}


def test_the_gold_answer_never_reaches_a_training_reward(live):
    rewards = set()
    for label in ("7", "5", "none of them", "", '{"answer": "5", "split": "train"}'):
        out = go(make(live), Engine(say, seed=3), n=8, label=label)
        rewards.add(tuple((r["reward"], r["scores"]) for r in out))
    assert len(rewards) == 1


def test_pruned_modes(live):
    """One odd answer of high entropy among many."""

    def entropy(number):
        return 3.0 if number == 0 else 0.1

    def odd(number):
        return "\\boxed{99}" if number == 0 else "\\boxed{7}" if number % 2 else "\\boxed{5}"

    rewards, ranges = {}, {}
    for mode in ("zero", "neutral", "mask"):
        out = go(make(live, pruned=mode), Engine(odd, entropy=entropy, delay=0), n=16)
        assert {r["extra_logs"]["pruned"] for r in out} == {1 / 16}
        pruned, *others = out
        others = [r["reward"] for r in others]
        rewards[mode] = (pruned["reward"], sum(others) / len(others))
        (start, end) = pruned["action_ranges"][0]
        ranges[mode] = (end - start, end == len(pruned["observation_tokens"]))
    assert rewards["zero"][0] == 0.0
    assert rewards["neutral"][0] == pytest.approx(rewards["neutral"][1], abs=2**-16)
    assert rewards["mask"] == rewards["neutral"]
    assert ranges["zero"] == ranges["neutral"] == (11, True)
    assert ranges["mask"] == (1, True)


# --- what fails -----------------------------------------------------------------------------------------------------


def test_no_service_at_the_start_is_an_error():
    with pytest.raises(UnavailableError, match="not ready"):
        make("http://127.0.0.1:9", start_timeout=0.1, retries=0)


def test_another_version_at_the_start_is_an_error(live, monkeypatch):
    monkeypatch.setattr("dare_trainer.agent.scoring.__version__", "0.0.0")
    with pytest.raises(ConfigError, match="same version on both sides"):
        make(live)


def test_a_server_default_does_not_enter_the_run(start_service):
    with start_service(DARE_PARAMS='{"alpha": 0.9}') as (url, _):
        executor = make(url)
        out = go(executor, Engine(say, delay=0), n=4)
        wanted = (
            estimate([{"rollouts": [{"text": t, "mean_entropy": 0.25} for t in TEXTS]}], method="dare")
            .groups[0]
            .rewards
        )
        assert [r["reward"] for r in out] == pytest.approx(wanted, abs=2**-16)
        assert out[0]["extra_logs"]["reward_fallback"] == 0.0


class Counting(httpx.AsyncHTTPTransport):
    """The network, and how often it was tried."""

    tries = 0

    async def handle_async_request(self, request):
        self.tries += 1
        return await super().handle_async_request(request)


def test_a_dead_service_costs_as_many_tries_as_allowed_and_short_pauses(start_service, monkeypatch):
    pauses, sleep = [], asyncio.sleep

    async def noted(seconds, *result):
        pauses.append(seconds)
        return await sleep(seconds, *result)

    with start_service() as (url, process):
        executor = make(url, retries=2)
        alive = go(executor, Engine(say, delay=0), n=4)
        process.kill()
        process.wait()
        executor._estimation._client._transport = network = Counting()
        monkeypatch.setattr(asyncio, "sleep", noted)
        dead = go(executor, Engine(say, delay=0), n=4)
    assert network.tries == 3
    first, second = (seconds for seconds in pauses if seconds > 0)
    assert 0.3 < first < 0.7
    assert 0.7 < second < 1.3
    assert [r["reward"] for r in dead] == [r["reward"] for r in alive]
    assert {r["extra_logs"]["reward_fallback"] for r in dead} == {1.0}


def test_a_service_that_hangs_is_left_after_the_patience(live):
    async def never(request):
        await asyncio.sleep(60)

    executor = make(live, patience=0.2)
    executor._estimation._client._transport = httpx.MockTransport(never)
    out = go(executor, Engine(say, delay=0), n=4)
    assert {r["extra_logs"]["reward_fallback"] for r in out} == {1.0}
    assert out[0]["reward"] > 0


def test_a_service_that_changes_in_mid_run_is_not_believed(live, monkeypatch):
    """A newer version behind the same address, same configuration: the run keeps its own."""
    executor = make(live)
    before = go(executor, Engine(say, delay=0), n=4)
    monkeypatch.setattr("dare_trainer.agent.scoring.__version__", "9.9.9")
    after = go(executor, Engine(say, delay=0), n=4)
    assert {r["extra_logs"]["reward_fallback"] for r in after} == {1.0}
    assert [r["reward"] for r in after] == [r["reward"] for r in before]


@pytest.mark.parametrize("status", [200, 413, 422, 500])
def test_nonsense_from_the_service_is_replaced(live, status):
    async def nonsense(request):
        return httpx.Response(
            status, json={"settings": {"max_body_bytes": 10**9, "max_json_bytes": 10**9, "max_groups": 9}, "groups": 3}
        )

    executor = make(live, retries=0)
    executor._estimation._client._transport = httpx.MockTransport(nonsense)
    out = go(executor, Engine(say, delay=0), n=4)
    assert {r["extra_logs"]["reward_fallback"] for r in out} == {1.0}


def test_even_without_any_estimator_there_is_a_reward(live, monkeypatch):
    async def broken(self, group):
        raise ZeroDivisionError

    executor = make(live)
    monkeypatch.setattr("dare_trainer.agent.scoring.Estimation.score", broken)
    out = go(executor, Engine(say, delay=0), n=4)
    assert {r["reward"] for r in out} == {0.0}
    assert {r["extra_logs"]["reward_fallback"] for r in out} == {2.0}


def test_a_failing_engine_frees_the_siblings(live):
    def broken(number):
        if number == 2:
            raise RuntimeError("engine died")
        return "\\boxed{7}"

    executor = make(live)
    engine = Engine(broken, delay=0.01)
    out = go(executor, engine, n=6, return_exceptions=True)
    assert sum(isinstance(r, RuntimeError) and "engine died" in str(r) for r in out) == 1
    for r in out:
        if isinstance(r, dict):
            assert math.isfinite(r["reward"])
            assert r["extra_logs"]["reward_fallback"] == 2.0
    assert engine.running == 0
    assert len(executor._siblings) == 0


def test_no_entropies_at_the_start_is_an_error(live):
    with pytest.raises(EntropyError, match=r"at the start of the run.*plugin is not active"):
        go(make(live), Engine(say, plugin=False), n=2)


def test_lost_entropies_later_fall_back_to_votes(live):
    executor = make(live)
    go(executor, Engine(say), n=2)
    out = go(executor, Engine(say, plugin=False, delay=0), n=4)
    assert {r["extra_logs"]["entropy_source"] for r in out} == {0.0}
    assert {r["extra_logs"]["reward_fallback"] for r in out} == {1.0}
    assert out[0]["reward"] > 0


def test_topk_is_said_to_be_an_estimate(live):
    out = go(make(live, entropy="topk", params={"missing_entropy": "error"}), TopK(say), n=4)
    assert {r["extra_logs"]["entropy_source"] for r in out} == {2.0}
    assert all(r["extra_logs"]["entropy"] > 0 for r in out)


class TopK(Engine):
    """An engine without the plugin that returns 20 log-probabilities."""

    async def generate(self, prompt_token_ids, sampling_params, **more):
        assert sampling_params.logprobs == 20
        out = await super().generate(prompt_token_ids, sampling_params, **more)
        done = out.outputs[0]
        for row in done.logprobs:
            (entry,) = row.values()
            row.update({1000 + i: type(entry)(logprob=-2.5 - 0.3 * i, rank=i + 2) for i in range(19)})
        return out


def test_without_entropies_votes_decide(live):
    out = go(make(live, entropy="none", params={"missing_entropy": "frequency"}), Engine(say, plugin=False), n=4)
    assert {r["extra_logs"]["entropy_source"] for r in out} == {0.0}
    assert {r["extra_logs"]["reward_fallback"] for r in out} == {0.0}


def test_shadow_methods_are_told_by_the_service_and_in_process(start_service):
    with start_service() as (url, process):
        plain = go(make(url), Engine(say, delay=0), n=4)
        executor = make(url, shadow=("ttrl", "scrl", "rent"), retries=1)
        alive = go(executor, Engine(say, delay=0), n=4)
        graded = go(executor, Engine(say, delay=0), n=4, label='{"answer": "7", "split": "eval"}')
        process.kill()
        process.wait()
        dead = go(executor, Engine(say, delay=0), n=4)
    assert [r["reward"] for r in plain] == [r["reward"] for r in alive] == [r["reward"] for r in dead]
    assert {r["extra_logs"]["reward_fallback"] for r in alive} == {0.0}
    assert {r["extra_logs"]["reward_fallback"] for r in dead} == {1.0}
    assert len({tuple(r["extra_logs"]) for r in (*alive, *graded, *dead)}) == 1
    rollouts = [{"text": t, "mean_entropy": 0.25} for t in TEXTS]
    told = estimate([{"label": "7", "rollouts": rollouts}], shadow=["ttrl", "scrl", "rent"]).groups[0].diagnostics
    for logs in (alive[0]["extra_logs"], dead[0]["extra_logs"]):
        for name, found in told["shadow"].items():
            for key in ("flipped", "label_agreement", "label_accuracy"):
                assert logs[f"shadow_{name}_{key}"] == pytest.approx(found[key]), (name, key)
    assert alive[0]["extra_logs"]["shadow_ttrl_cosine"] == pytest.approx(told["shadow"]["ttrl"]["cosine"])
    assert {r["extra_logs"]["shadow_ttrl_flipped"] for r in graded} == {-1.0}


def test_a_method_that_returns_advantages_does_not_start():
    with pytest.raises(RequestError, match="cocov returns advantages and OpenRLHF would normalise them again"):
        make("http://127.0.0.1:9", method="cocov")


def test_the_answers_tokens_are_no_actions(live):
    """Loss and KL see what lies in the ranges: all that was generated but the answer, characters of several bytes too."""
    texts = ["so 7: \\boxed{7}, 7", "ответ: \\boxed{½π}🙂", "no answer", "\\boxed{5}"]
    found = go(make(live, train_on="reasoning"), Engine(lambda n: texts[n]), n=4)
    plain = go(make(live), Engine(lambda n: texts[n]), n=4)
    seen = {}
    for masked, whole in zip(found, plain, strict=True):
        ((start, end),) = whole["action_ranges"]
        assert end == len(masked["observation_tokens"])
        actions = [i for low, high in masked["action_ranges"] for i in range(low, high)]
        said = "".join(chr(t - 10) for t in masked["observation_tokens"][start:-1])
        seen[said] = "".join(chr(masked["observation_tokens"][i] - 10) for i in actions if i < end - 1)
        assert actions[-1] == end - 1, "the end token stays, which OpenRLHF puts the reward on"
        assert masked["reward"] == whole["reward"]
        assert masked["extra_logs"]["no_span"] == 0.0
    assert seen == {
        "so 7: \\boxed{7}, 7": "so 7: \\boxed{}, 7",
        "ответ: \\boxed{½π}🙂": "ответ: \\boxed{}🙂",
        "no answer": "no answer",
        "\\boxed{5}": "\\boxed{}",
    }


def test_an_answer_that_cannot_be_told_is_flagged_and_trained(live, monkeypatch):
    monkeypatch.setattr("dare_reward.stacks.answer_tokens.answer_span", lambda text, read: None)
    found = go(make(live, train_on="reasoning"), Engine(say), n=4)
    assert all(len(r["action_ranges"]) == 1 for r in found)
    assert sorted(r["extra_logs"]["no_span"] for r in found) == [0.0, 1.0, 1.0, 1.0]
