"""OpenRLHF's executor with our additions, a fake engine and a live service: groups, votes, failures of everything around.

The executor has the shape of the released one (`fakes.released`); the released ones: tests/openrlhf, tests/e2e.
"""

import asyncio
import json
import math
import sys
import time
import types

import httpx
import pytest
from fakes import Engine, SamplingParams, close, generate_responses, go, patched, released, route, run
from serving import Live

from dare_reward import estimate
from dare_reward.errors import ConfigError, UnavailableError
from dare_reward.openrlhf.url import ActorSettings
from dare_trainer.openrlhf import group as group_module
from dare_trainer.openrlhf import patch
from dare_trainer.vllm import plugin
from dare_trainer.vllm.token_entropy import EntropyError

TEXTS = ["so \\boxed{7}", "so \\boxed{7}", "so \\boxed{5}", "no answer"]


def say(number):
    return TEXTS[number % len(TEXTS)]


def said(rollout):
    """The text that a rollout trains on, without its end."""
    (start, _), *_ = rollout["action_ranges"]
    return "".join(chr(token - 10) for token in rollout["observation_tokens"][start:-1])


def logs(out, *names):
    return [{r["extra_logs"][name] for r in out} for name in names]


@pytest.fixture
def make(live, monkeypatch):
    """OpenRLHF's executor of the live service; entropies are on, as `switch_on` leaves them."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    return lambda query="", url=live: patched(f"{url}/reward?{query}")


@pytest.fixture
def stubborn(monkeypatch):
    """One try, so that an outage is over at once."""
    monkeypatch.setattr(group_module, "RETRIES", 0)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_a_group_gets_the_rewards_of_the_estimator(make):
    executor = make()
    out = go(executor, Engine(say), n=4)
    wanted = estimate([{"rollouts": [{"text": said(r), "mean_entropy": 0.25} for r in out]}]).groups[0].rewards
    assert [r["reward"] for r in out] == pytest.approx(wanted, abs=2**-16)
    assert {r["scores"] for r in out} == {0.0, 1.0}
    assert logs(out, "votes", "reward_fallback", "label_accuracy") == [{4.0}, {0.0}, {1.0}]
    assert executor.posts == []
    assert route(executor).siblings.open == {}


def test_many_groups_at_once_each_one_post(make):
    executor = make("votes_per_prompt=16")

    async def main():
        engine = Engine(say, delay=0.05)
        groups = [generate_responses(executor, engine, n=8, prompt=f"prompt {i % 5}") for i in range(16)]
        try:
            return await asyncio.gather(*groups)
        finally:
            await close(executor)

    out = run(main())
    assert [len(g) for g in out] == [8] * 16
    assert all(r["extra_logs"]["votes"] == 16.0 for g in out for r in g)


def test_a_group_is_named_after_its_prompt_so_that_a_report_knows_it_again(make, monkeypatch):
    """Whichever actor a prompt falls to at its next visit."""
    sent = []

    async def noted(self, group):
        sent.append(group)
        return None, 2.0

    monkeypatch.setattr(group_module.GroupScorer, "score", noted)
    for prompts in (("one", "two"), ("two", "one")):
        executor = make("run=r")
        for prompt in prompts:
            go(executor, Engine(say, delay=0), n=2, prompt=prompt)
    assert [g["prompt"] for g in sent] == ["one", "two", "two", "one"]
    names = [g["group_id"] for g in sent]
    assert names == names[::-1]
    assert names[0] != names[1]


@pytest.mark.parametrize("query", ["method=ttrl", "method=ttrl&unmarked=number", "method=ttrl&train_on=reasoning"])
@pytest.mark.parametrize("label", ["", '{"answer": "7", "split": "eval"}'])
def test_the_prompt_tells_which_question_a_text_answers(make, query, label):
    """On all ways on which an answer is read: here, by the service, of an evaluation, and where it stands."""
    again = "Question: What is 3 + 4?\nAnswer: 7\n\nQuestion: What is 2 + 3?\nAnswer: 5"
    prompt = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"
    out = go(
        make(query),
        Engine(["so \\boxed{7}", again, "so \\boxed{7}"].__getitem__, delay=0),
        n=3,
        prompt=prompt,
        label=label,
    )
    assert [r["reward"] for r in out] == [1.0, 1.0, 1.0]
    if "reasoning" in query and not label:
        before, after = out[1]["action_ranges"]
        assert again[before[1] - before[0] : after[0] - before[0]] == "7"


def test_the_shared_parameters_are_left_alone(make):
    shared = SamplingParams(max_tokens=None)
    engine = Engine(say)
    out = go(make(), engine, n=4, params=shared)
    assert (shared.logprobs, shared.max_tokens) == (None, None)
    assert all(p is not shared and p.logprobs == 0 and p.max_tokens == 200 - 14 for p in engine.asked)
    assert all(r["rollout_log_probs"] is None for r in out)
    out = go(make(), Engine(say), n=2, params=SamplingParams(logprobs=1))
    assert all(len(r["rollout_log_probs"]) == len(r["observation_tokens"]) for r in out)


def test_votes_beyond_the_trained(make):
    engine = Engine(say)
    out = go(make("votes_per_prompt=12"), engine, n=4)
    assert len(out) == 4
    assert len(engine.asked) == 12
    assert logs(out, "votes") == [{12.0}]
    assert engine.running == 0
    with pytest.raises(ConfigError, match="votes_per_prompt=10 is not a multiple of the 4"):
        go(make("votes_per_prompt=10"), Engine(say), n=4)


def test_another_number_of_rollouts_later_in_the_run_does_not_end_it(make, caplog):
    """An evaluation has a number of its own, and its labels may not say that it is one."""
    executor = make("votes_per_prompt=8")
    go(executor, Engine(say, delay=0), n=4)
    out = go(executor, Engine(say, delay=0), n=3)
    assert logs(out, "votes", "reward_fallback") == [{6.0}, {0.0}]
    assert "votes_per_prompt=8 is not a multiple of the 3 rollouts" in caplog.text


def test_a_group_that_exceeds_a_services_limits_is_scored_in_process(make):
    out = go(make("votes_per_prompt=1026"), Engine(say, delay=0), n=2)
    assert logs(out, "votes", "reward_fallback") == [{1026.0}, {1.0}]
    assert out[0]["reward"] > 0


def test_a_lost_vote_is_a_vote_less(make):
    def sometimes(number):
        if number == 7:
            raise RuntimeError("engine")
        return "\\boxed{7}"

    out = go(make("votes_per_prompt=8"), Engine(sometimes, delay=0), n=4)
    assert logs(out, "votes") == [{7.0}]


def test_one_rollout_is_no_vote_and_the_log_says_so_once(make, caplog):
    executor = make()
    for _ in range(2):
        go(executor, Engine(say, delay=0), n=1)
    (line,) = [r.message for r in caplog.records if "no vote" in r.message]
    assert "votes_per_prompt=16" in line
    caplog.clear()
    go(make("votes_per_prompt=8"), Engine(say, delay=0), n=1)
    assert "no vote" not in caplog.text


def test_evaluation_is_accuracy_without_a_group(make):
    engine = Engine(say, delay=0)
    out = go(make("votes_per_prompt=64"), engine, n=3, label='{"answer": "7", "split": "eval"}')
    assert [(r["reward"], r["scores"]) for r in out] == [(1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]
    assert len(engine.asked) == 3
    assert logs(out, "evaluation") == [{1.0}]
    out = go(make("label_policy=eval"), Engine(say, delay=0), n=2, label="7")
    assert logs(out, "evaluation") == [{1.0}]


@pytest.mark.parametrize("label", [{"answer": "7", "split": "test"}, '{"answer": "\\ud800", "split": "eval"}'], ids=str)
def test_a_label_that_means_nothing_is_none_and_is_logged_once(make, caplog, label):
    executor = make()
    for _ in range(2):
        out = go(executor, Engine(say, delay=0), n=4, label=label)
        assert logs(out, "label_accuracy") == [{-1.0}]
    assert [r["reward"] for r in out] == [r["reward"] for r in go(make(), Engine(say, delay=0), n=4, label="")]
    (line,) = [r.message for r in caplog.records if "label" in r.message]
    assert line.startswith("a label means nothing, and its rollouts train without one: ")


def test_labels_decide_nothing_about_which_rollouts_are_a_group(make, caplog):
    """OpenRLHF gives the samples of a prompt one label. Should they differ, the group is whole and has none."""
    out = go(make(), Engine(say, seed=3), label=["7", "7", "5", "5"])
    assert logs(out, "votes", "label_accuracy") == [{4.0}, {-1.0}]
    assert [r["reward"] for r in out] == [r["reward"] for r in go(make(), Engine(say, seed=3), label="")]
    assert "one prompt came with several labels" in caplog.text


def test_the_gold_answer_never_reaches_a_training_reward(make):
    rewards = set()
    for label in ("7", "5", "none of them", "", '{"answer": "5", "split": "train"}'):
        out = go(make(), Engine(say, seed=3), n=8, label=label)
        rewards.add(tuple((r["reward"], r["scores"]) for r in out))
    assert len(rewards) == 1


def test_pruned_modes(make):
    """One odd answer of high entropy among many."""

    def odd(number):
        return "\\boxed{99}" if number == 0 else "\\boxed{7}" if number % 2 else "\\boxed{5}"

    rewards, ranges = {}, {}
    for mode in ("zero", "neutral", "mask"):
        engine = Engine(odd, entropy=lambda n: 0.1 if n else 3.0, delay=0)
        out = go(make(f"pruned={mode}"), engine, n=16)
        assert logs(out, "pruned") == [{1 / 16}]
        gone, *others = out
        rewards[mode] = (gone["reward"], sum(r["reward"] for r in others) / len(others))
        ((start, end),) = gone["action_ranges"]
        ranges[mode] = (end - start, end == len(gone["observation_tokens"]))
    assert rewards["zero"][0] == 0.0
    assert rewards["neutral"][0] == pytest.approx(rewards["neutral"][1], abs=2**-16)
    assert rewards["mask"] == rewards["neutral"]
    assert ranges["zero"] == ranges["neutral"] == (11, True)
    assert ranges["mask"] == (1, True)


def test_the_answers_tokens_are_no_actions(make):
    """Loss and KL see what lies in the ranges: all that was generated but the answer, characters of several bytes too."""
    texts = ["so 7: \\boxed{7}, 7", "ответ: \\boxed{½π}🙂", "no answer", "\\boxed{5}"]
    found = go(make("train_on=reasoning"), Engine(lambda n: texts[n]), n=4)
    plain = go(make(), Engine(lambda n: texts[n]), n=4)
    seen = {}
    for masked, whole in zip(found, plain, strict=True):
        end = len(masked["observation_tokens"])
        actions = [i for low, high in masked["action_ranges"] for i in range(low, high)]
        seen[said(whole)] = "".join(chr(masked["observation_tokens"][i] - 10) for i in actions if i < end - 1)
        assert actions[-1] == end - 1, "the end token stays, which OpenRLHF puts the reward on"
        assert masked["reward"] == whole["reward"]
        assert masked["extra_logs"]["no_span"] == 0.0
    assert seen == {
        "so 7: \\boxed{7}, 7": "so 7: \\boxed{}, 7",
        "ответ: \\boxed{½π}🙂": "ответ: \\boxed{}🙂",
        "no answer": "no answer",
        "\\boxed{5}": "\\boxed{}",
    }


def test_an_answer_that_cannot_be_told_is_flagged_and_trained(make, monkeypatch):
    monkeypatch.setattr("dare_reward.stacks.rollout.answer_span", lambda text, read: None)
    found = go(make("train_on=reasoning"), Engine(say), n=4)
    assert all(len(r["action_ranges"]) == 1 for r in found)
    assert sorted(r["extra_logs"]["no_span"] for r in found) == [0.0, 1.0, 1.0, 1.0]


# --- entropies -------------------------------------------------------------------------------------------------------


def test_no_entropies_at_the_start_is_an_error(make):
    with pytest.raises(EntropyError, match=r"at the start of the run.*plugin is not active"):
        go(make(), Engine(say, plugin=False), n=2)


def test_lost_entropies_later_fall_back_to_votes(make):
    executor = make()
    go(executor, Engine(say), n=2)
    out = go(executor, Engine(say, plugin=False, delay=0), n=4)
    assert logs(out, "entropy_source", "reward_fallback") == [{0.0}, {1.0}]
    assert out[0]["reward"] > 0


def test_a_rollout_that_cannot_be_read_is_no_vote_and_ends_no_run(make, monkeypatch, caplog):
    executor, numbers = make(), iter(range(100))
    go(executor, Engine(say), n=2)
    rules = route(executor).settings.rules
    before = rules.read

    def read(*given):
        if next(numbers) == 0:
            raise RecursionError("too deep")
        return before(*given)

    monkeypatch.setattr(rules, "read", read)
    out = go(executor, Engine(lambda n: "\\boxed{7}", delay=0), n=4)
    assert logs(out, "invalid", "votes") == [{0.25}, {4.0}]
    assert sorted(r["reward"] > 0 for r in out) == [False, True, True, True]
    assert "a rollout cannot be read" in caplog.text


@pytest.mark.parametrize(("first", "others", "sources"), [(1e-6, -30.0, {2.0}), (math.nan, math.nan, {0.0})])
def test_log_probabilities_that_are_rounded_or_no_numbers_end_no_run(make, first, others, sources):
    """Float32 puts that of a certain token above 0."""
    executor = make("entropy=topk")
    go(executor, TopK(say), n=2)
    out = go(executor, TopK(say, first=first, others=others), n=4)
    assert logs(out, "entropy_source") == [sources]
    assert out[0]["reward"] > 0


class TopK(Engine):
    """An engine without the plugin that returns 20 log-probabilities, which may be told."""

    def __init__(self, say, *, first=None, others=None):
        super().__init__(say)
        self.first, self.others = first, others

    async def generate(self, prompt_token_ids, sampling_params, **more):
        assert sampling_params.logprobs == 20
        out = await super().generate(prompt_token_ids, sampling_params, **more)
        for row in out.outputs[0].logprobs:
            (entry,) = row.values()
            entry.logprob = entry.logprob if self.first is None else self.first
            low = [-2.5 - 0.3 * i if self.others is None else self.others for i in range(19)]
            row.update({1000 + i: type(entry)(logprob=low[i], rank=i + 2) for i in range(19)})
        return out


@pytest.mark.parametrize(("query", "source"), [("topk", 2.0), ("none", 0.0)])
def test_without_the_plugin_entropies_are_estimates_or_votes_decide(make, query, source):
    out = go(make(f"entropy={query}"), TopK(say) if source else Engine(say, plugin=False), n=4)
    assert logs(out, "entropy_source", "reward_fallback") == [{source}, {0.0}]
    assert all((r["extra_logs"]["entropy"] > 0) == (source > 0) for r in out)


class Workers:
    """`AsyncLLM` for the switch: what its workers are asked to call."""

    def __init__(self, monkeypatch, *, speculative=None):
        self.calls, self.speculative = [], speculative
        monkeypatch.delenv("VLLM_TOKEN_ENTROPY")
        monkeypatch.setattr(plugin, "patch", self.calls.append)

    async def collective_rpc(self, method, args=()):
        await asyncio.sleep(0.01)
        config = types.SimpleNamespace(speculative_config=self.speculative)
        return [method(types.SimpleNamespace(vllm_config=config), *args)]


def test_the_workers_are_asked_once_before_the_first_rollout(make, monkeypatch):
    """OpenRLHF makes the executor before the engine, whose arguments load the plugin: only the executor has the URL."""
    workers, executor, engine = Workers(monkeypatch), make(), Engine(say, delay=0)
    engine.llm.collective_rpc = workers.collective_rpc
    for _ in range(2):
        go(executor, engine, n=4)
    assert (workers.calls, plugin.mode()) == (["temperature"], "temperature")
    assert {p.logprobs for p in engine.asked} == {0}


def test_workers_that_cannot_end_the_run_at_its_first_rollout(make, monkeypatch):
    workers, executor, engine = Workers(monkeypatch, speculative="draft"), make(), Engine(say, delay=0)
    engine.llm.collective_rpc = workers.collective_rpc
    out = go(executor, engine, n=4, return_exceptions=True)
    assert all(isinstance(e, plugin.PluginError) for e in out)
    assert "speculative decoding gives no token entropies" in str(out[0])
    assert "VLLM_TOKEN_ENTROPY=temperature" in str(out[0])
    assert (workers.calls, engine.asked, executor.posts) == ([], [], [])


# --- whose URL it is -------------------------------------------------------------------------------------------------


def test_another_shape_is_left_alone(caplog):
    class Other:
        async def execute(self, request): ...

        async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list): ...

    before = Other.execute
    assert not patch.patch_class(Other)
    assert Other.execute is before
    assert "it posts rollouts one by one, without entropies" in caplog.text
    assert not patch.patch_class(None)


def test_vllm_finds_openrlhfs_executor_in_its_actor(monkeypatch, stand_in):
    kind = released()
    before = kind.execute
    monkeypatch.delitem(sys.modules, patch.MODULE, raising=False)
    patch.register()
    stand_in(patch.MODULE, SingleTurnAgentExecutor=kind)
    assert kind.execute is before
    patch.register()
    wrapped = kind.execute
    assert wrapped is not before
    patch.register()
    assert kind.execute is wrapped


@pytest.mark.parametrize(
    "answer",
    [httpx.DecodingError("no gzip"), b"<html>hello</html>", b"{}", b"[1]", b'{"settings": {}}', b"[" * 200_000],
    ids=repr,
)
def test_another_servers_urls_are_left_alone_bodies_included_whatever_it_answers(monkeypatch, answer):
    """Its queries may differ, and a training run does not die of what it makes of GET /info."""

    def get(url, **_):
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, content=answer)

    monkeypatch.setattr(group_module.httpx, "get", get)
    for urls in (
        ["http://other:8000/score?key=1"],
        [f"http://{n}:8000/score?key={n}&start_timeout=soon" for n in "ab"],
    ):
        executor, engine = patched(*urls), Engine(say, delay=0)
        out = go(executor, engine, n=4)
        assert [r["reward"] for r in out] == [0.25] * 4
        assert len(executor.posts) == 4
        assert {p.logprobs for p in engine.asked} == {None}


def test_a_service_is_where_the_url_says_behind_a_gateways_prefix_too():
    urls = [
        "http://h:8/reward?a=1",
        "http://h/v1/reward/",
        "https://u:p@h/get_reward",
        "http://h",
        "http://gw/dare/reward",
    ]
    found = group_module.RewardUrls.of([*urls, "http://other/score"])
    assert found.services == ("http://h:8", "http://h", "https://h", "http://h", "http://gw/dare", "http://other/score")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_gateway_that_answers_for_a_service_which_starts_is_asked_again(monkeypatch, status):
    replies = iter([httpx.Response(status, text="Bad Gateway"), httpx.Response(200, json={"answers_version": "1"})])
    monkeypatch.setattr(group_module.httpx, "get", lambda url, **_: next(replies))
    monkeypatch.setattr(group_module.time, "sleep", lambda _: None)
    assert group_module.service_info(["http://soon:8000"], 120.0) == {"answers_version": "1"}


def test_an_actor_waits_as_long_as_the_url_says(monkeypatch):
    waited = []
    monkeypatch.setattr(group_module, "service_info", lambda services, patience: waited.append(patience))
    for query in ("start_timeout=600", "alpha=0.1", "start_timeout=soon"):
        go(patched(f"http://slow:8000/reward?{query}"), Engine(say, delay=0), n=2)
    assert waited == [600.0, 120.0, 120.0]


def test_a_reward_file_is_left_alone():
    executor = patched("reward_func.py")
    executor.reward_func = lambda *_: None
    assert go(executor, Engine(say, delay=0), n=2)[0]["reward"] == 0.25


def test_a_service_that_does_not_answer_at_the_start_is_left_to_openrlhf(monkeypatch, caplog):
    def refused(url, **_):
        raise httpx.ConnectError("refused")

    clock = iter([0.0, 60.0, 200.0])
    monkeypatch.setattr(group_module.httpx, "get", refused)
    monkeypatch.setattr(group_module.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(group_module.time, "sleep", lambda _: None)
    found = group_module.service_info(["http://gone:8000"], 120.0)
    assert found is None
    assert "http://gone:8000 does not answer" in caplog.text


# --- the start -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("alhpa=0.2", "the reward URL: query: unknown parameter of the reward URL 'alhpa'. Did you mean alpha"),
        ("method=ddrl", "the reward URL: method: ddrl trains on a selection of rollouts"),
    ],
)
def test_what_does_not_go_ends_the_run_by_name_before_the_first_rollout(make, query, words):
    engine = Engine(say)
    with pytest.raises(ConfigError, match=words) as raised:
        go(make(query), engine, n=2)
    assert "checkpoint" not in str(raised.value)  # that is the advice on on_collapse=stop
    assert engine.asked == []


def test_two_urls_that_say_different_things_end_the_run(live):
    with pytest.raises(ConfigError, match="different queries"):
        go(patched(f"{live}/reward?alpha=0.1", f"{live}/reward"), Engine(say), n=2)


@pytest.mark.parametrize("status", [200, 404])
def test_a_second_url_of_another_server_ends_the_run_before_it_is_sent_anything(live, monkeypatch, status):
    """Neither the token nor a group: only the question whose it is."""
    seen, get = [], httpx.get

    def asked(url, **more):
        if url.startswith(live):
            return get(url, **more)
        seen.append((url, more))
        return httpx.Response(status)

    monkeypatch.setattr(group_module.httpx, "get", asked)
    with pytest.raises(ConfigError, match="http://other:9 does not answer as a dare-reward service"):
        go(patched(f"{live}/reward?token=hush", "http://other:9/reward?token=hush"), Engine(say), n=2)
    assert seen == [("http://other:9/info", {"timeout": 10})]


def test_another_version_at_the_start_ends_the_run(make, monkeypatch):
    monkeypatch.setattr(group_module, "__version__", "0.0.0")
    with pytest.raises(ConfigError, match="same version on both sides"):
        go(make(), Engine(say), n=2)


def test_what_the_url_leaves_out_is_the_services_default_and_pinned(monkeypatch, caplog):
    """So that one URL names one method with this package and without it; the log names it."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    caplog.set_level("WARNING")
    rollouts = [{"text": t, "mean_entropy": 0.25} for t in TEXTS]
    with Live(params='{"alpha": 0.9}', token="hush") as service:
        url = f"{service.url}/reward?token=hush"
        out, named, other = (
            go(patched(url + more), Engine(say, delay=0), n=4) for more in ("", "&alpha=0.1", "&method=ttrl")
        )
    for found, options in ((out, {"alpha": 0.9}), (named, {"alpha": 0.1}), (other, {"method": "ttrl"})):
        wanted = estimate([{"rollouts": rollouts}], **options).groups[0].rewards
        assert [r["reward"] for r in found] == pytest.approx(wanted, abs=2**-16)
        assert logs(found, "reward_fallback") == [{0.0}]
    lines = [r.message for r in caplog.records if r.message.startswith("rewards of run")]
    assert len(lines) == 3
    assert "method=dare" in lines[0]
    assert "alpha=0.9" in lines[0]
    assert "hush" not in caplog.text


def test_a_run_without_a_name_has_one_of_its_own(make, monkeypatch, stand_in):
    """The same in all actors of a Ray job, and unlike any other job's."""
    jobs = {"a": ("session_1", "01000000"), "b": ("session_1", "02000000"), "c": ("session_2", "01000000")}

    def name(job):
        context = types.SimpleNamespace(get_session_name=lambda: jobs[job][0], get_job_id=lambda: jobs[job][1])
        stand_in("ray", get_runtime_context=lambda: context)
        return group_module.job_name()

    assert name("a") == name("a")
    assert len({name(job) for job in jobs}) == 3
    monkeypatch.setitem(sys.modules, "ray", None)
    assert group_module.job_name() != group_module.job_name()


# --- a service that is away ------------------------------------------------------------------------------------------


def test_the_next_url_scores_where_one_is_away(live, monkeypatch, stubborn):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    with Live() as service:
        executor = patched(f"{service.url}/reward", f"{live}/reward")
        go(executor, Engine(say, delay=0), n=4)
        service.kill()
        for _ in range(4):
            assert logs(go(executor, Engine(say, delay=0), n=4), "reward_fallback") == [{0.0}]


def answering(executor, handle):
    """The executor's services answer by `handle(request)` from now on."""
    for client in route(executor)._scorer._clients:
        client._transport = httpx.MockTransport(handle)
        client._connections.clear()


def begun(executor):
    """After its handshake."""
    go(executor, Engine(say, delay=0), n=4)
    return executor


async def hangs(request):
    await asyncio.sleep(60)


def nonsense(status):
    async def answer(request):
        limits = {"max_body_bytes": 10**9, "max_json_bytes": 10**9, "max_groups": 9}
        return httpx.Response(status, json={"settings": limits, "groups": 3})

    return answer


@pytest.mark.parametrize("handle", [hangs, *map(nonsense, (200, 413, 422, 500))])
def test_a_service_that_hangs_or_says_nonsense_is_replaced(make, monkeypatch, handle):
    """After `timeout`, which bounds all tries together."""
    tries = []

    async def seen(request):
        tries.append(request)
        return await handle(request)

    monkeypatch.setattr(group_module, "RETRIES", 3 if handle is hangs else 0)
    executor = begun(make("timeout=0.2" if handle is hangs else ""))
    answering(executor, seen)
    out = go(executor, Engine(say, delay=0), n=4)
    assert logs(out, "reward_fallback") == [{1.0}]
    assert out[0]["reward"] > 0
    assert len(tries) == 1


def test_a_service_that_comes_back_as_another_one_counts_as_away(make, monkeypatch, caplog):
    executor = make()
    before = go(executor, Engine(say, delay=0), n=4)
    scorer = route(executor)._scorer
    monkeypatch.setattr(scorer, "_pinned", (scorer._pinned[0], "9.9.9"))
    after = go(executor, Engine(say, delay=0), n=4)
    assert logs(after, "reward_fallback") == [{1.0}]
    assert [r["reward"] for r in after] == [r["reward"] for r in before]
    assert "another version or configuration than at the start" in caplog.text


def test_groups_that_were_scored_here_reach_the_services_run_log_with_the_next_post(make, stubborn, caplog):
    """One that the service refuses costs no other its line."""
    executor, up, seen = begun(make("run=r")), [], []
    real = httpx.AsyncHTTPTransport()

    async def sometimes(request):
        if not up:
            raise httpx.ConnectError("away")
        if request.method == "POST":
            seen.append(json.loads(request.content))
        if len(seen) == 2:
            return httpx.Response(413, json={})
        return await real.handle_async_request(request)

    answering(executor, sometimes)
    for prompt in ("one", "two"):
        go(executor, Engine(say, delay=0), n=4, prompt=prompt)

    async def again():
        out = await generate_responses(executor, Engine(say, delay=0), n=4, prompt="three")
        await route(executor)._scorer._logging
        await close(executor)
        await real.aclose()
        return out

    up.append(1)
    assert logs(run(again()), "reward_fallback") == [{0.0}]
    names = [[g["group_id"] for g in body["groups"]] for body in seen]
    assert list(map(len, names)) == [1, 1, 1]
    assert len({name for post in names for name in post}) == 3
    assert {body["run"] for body in seen} == {"r"}
    assert "1 groups are missing in the service's run log" in caplog.text


def test_a_group_whose_reply_is_lost_is_logged_once(monkeypatch, stubborn, tmp_path):
    """The service has scored and logged it; this process scores it again, and posts it for the log."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    with Live(run_log=str(tmp_path)) as service:
        executor, lost = begun(patched(f"{service.url}/reward?timeout=0.5")), []
        real = httpx.AsyncHTTPTransport()

        async def late(request):
            reply = await real.handle_async_request(request)
            await reply.aread()
            if request.method == "POST" and not lost:
                lost.append(1)
                await asyncio.sleep(30)
            return reply

        answering(executor, late)

        async def main():
            out = [await generate_responses(executor, Engine(say, delay=0), prompt=p) for p in ("one", "two")]
            await route(executor)._scorer._logging
            await close(executor)
            await real.aclose()
            return out

        one, two = run(main())
        assert logs(one, "reward_fallback") == [{1.0}]
        assert logs(two, "reward_fallback") == [{0.0}]
        while (status := httpx.get(f"{service.url}/info").json()["run_log"])["flushed"] < 3:
            time.sleep(0.05)
    assert (status["flushed"], status["repeated"]) == (3, 1), "that of `begun`, and these two"


@pytest.mark.parametrize("query", ["send=tokens", ""])
def test_an_outage_does_not_fill_the_actors_memory(make, stubborn, monkeypatch, caplog, query):
    """Groups of tokens are large: their bytes are bounded, and each that will not be logged is named."""
    monkeypatch.setattr(group_module, "UNLOGGED_BYTES", 20_000)
    executor = begun(make(query))

    async def gone(request):
        raise httpx.ConnectError("away")

    answering(executor, gone)
    for prompt in ("one", "two", "three"):
        go(executor, Engine(lambda n: "x" * 200 + say(n), delay=0), n=4, prompt=prompt)
    kept = len(route(executor)._scorer._unlogged)
    assert kept == (1 if query else 3)
    assert caplog.text.count("will be missing in the service's run log") == 3 - kept


def test_even_without_any_estimator_there_is_a_reward(make, monkeypatch):
    async def broken(self, group):
        raise ZeroDivisionError

    monkeypatch.setattr(group_module.GroupScorer, "score", broken)
    out = go(make(), Engine(say, delay=0), n=4)
    assert {r["reward"] for r in out} == {0.0}
    assert logs(out, "reward_fallback") == [{2.0}]


def test_a_failing_engine_takes_its_group_along_and_nobody_hangs(make):
    def broken(number):
        if number == 2:
            raise RuntimeError("engine died")
        return "\\boxed{7}"

    executor, engine = make(), Engine(broken, delay=0.01)
    out = go(executor, engine, n=6, return_exceptions=True)
    assert sum(isinstance(r, RuntimeError) and "engine died" in str(r) for r in out) == 1
    for r in out:
        if isinstance(r, dict):
            assert math.isfinite(r["reward"])
            assert r["extra_logs"]["reward_fallback"] == 2.0
    assert engine.running == 0
    assert route(executor).siblings.open == {}


def test_shadow_methods_are_told_by_the_service_and_in_process(monkeypatch, stubborn):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    with Live() as service:
        plain = go(patched(f"{service.url}/reward"), Engine(say, delay=0), n=4)
        executor = patched(f"{service.url}/reward?shadow=ttrl+scrl+rent")
        alive = go(executor, Engine(say, delay=0), n=4)
        graded = go(executor, Engine(say, delay=0), n=4, label='{"answer": "7", "split": "eval"}')
        service.kill()
        dead = go(executor, Engine(say, delay=0), n=4)
    assert [r["reward"] for r in plain] == [r["reward"] for r in alive] == [r["reward"] for r in dead]
    assert logs(alive, "reward_fallback") == [{0.0}]
    assert logs(dead, "reward_fallback") == [{1.0}]
    assert len({tuple(r["extra_logs"]) for r in (*alive, *graded, *dead)}) == 1
    rollouts = [{"text": t, "mean_entropy": 0.25} for t in TEXTS]
    told = estimate([{"label": "7", "rollouts": rollouts}], shadow=["ttrl", "scrl", "rent"]).groups[0].diagnostics
    for found in (alive[0]["extra_logs"], dead[0]["extra_logs"]):
        for name, wanted in told["shadow"].items():
            for key in ("flipped", "label_agreement", "label_accuracy"):
                assert found[f"shadow_{name}_{key}"] == pytest.approx(wanted[key]), (name, key)
    assert logs(graded, "shadow_ttrl_flipped") == [{-1.0}]


def test_the_service_must_be_there_for_the_handshake(make, live):
    settings = ActorSettings(start_timeout=0.1)
    with pytest.raises(UnavailableError, match=r"not ready.*connection refused: is the service started"):
        group_module.handshake("http://127.0.0.1:9", "", settings)


def test_a_labelled_prompt_gets_the_rewards_of_gt_where_the_url_says_so(make):
    """From the service, and in process alike; a prompt without a label gets the method's."""
    executor = make("labelled=gt&method=ttrl")
    right = [float(said(r) == TEXTS[2]) for r in go(executor, Engine(say, delay=0), n=4, label="5")]
    for label, wanted in (("5", right), ("", None)):
        out = go(executor, Engine(say, delay=0), n=4, label=label)
        if wanted is not None:
            assert sorted(r["reward"] for r in out) == sorted(wanted)
        assert logs(out, "reward_fallback") == [{0.0}]
    assert sum(r["reward"] for r in out) == 2.0
