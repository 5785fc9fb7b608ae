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
from fakes import (
    TEXTS,
    Engine,
    SamplingParams,
    answering,
    away,
    close,
    generate_responses,
    go,
    logs,
    patched,
    released,
    route,
    run,
    say,
)
from serving import Live

from dare_reward import estimate
from dare_reward.errors import ConfigError, UnavailableError
from dare_reward.openrlhf.url import ActorSettings
from dare_trainer.openrlhf import group as group_module
from dare_trainer.openrlhf import patch
from dare_trainer.vllm import plugin
from dare_trainer.vllm.token_entropy import EntropyError

ROLLOUTS = [{"text": text, "mean_entropy": 0.25} for text in TEXTS]


def said(rollout):
    """The text that a rollout trains on, without its end."""
    (start, _), *_ = rollout["action_ranges"]
    return "".join(chr(token - 10) for token in rollout["observation_tokens"][start:-1])


def rewards(out):
    return [r["reward"] for r in out]


def wanted(**options):
    """The estimator's own rewards."""
    return pytest.approx(estimate([{"rollouts": ROLLOUTS}], **options).groups[0].rewards, abs=2**-16)


@pytest.fixture
def stubborn(monkeypatch):
    """One try, so that an outage is over at once."""
    monkeypatch.setattr(group_module, "RETRIES", 0)


# --- groups ----------------------------------------------------------------------------------------------------------


def test_groups_get_the_rewards_of_the_estimator_each_by_one_post(make):
    executor = make()

    async def main():
        try:
            groups = (generate_responses(executor, Engine(say, delay=0.05), prompt=f"p{i % 5}") for i in range(16))
            return await asyncio.gather(*groups)
        finally:
            await close(executor)

    found = run(main())
    assert len(found) == 16
    for out in found:
        by_text = dict(zip(TEXTS, estimate([{"rollouts": ROLLOUTS}]).groups[0].rewards, strict=True))
        assert rewards(out) == pytest.approx([by_text[said(r)] for r in out], abs=2**-16)
        assert {r["scores"] for r in out} == {0.0, 1.0}
        assert logs(out, "votes", "reward_fallback", "label_accuracy") == [{4.0}, {0.0}, {1.0}]
    assert (executor.posts, route(executor).siblings.open) == ([], {})


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
            go(executor, n=2, prompt=prompt)
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
    engine = Engine(["so \\boxed{7}", again, "so \\boxed{7}"].__getitem__, delay=0)
    out = go(make(query), engine, n=3, prompt=prompt, label=label)
    assert rewards(out) == [1.0, 1.0, 1.0]
    if "reasoning" in query and not label:
        before, after = out[1]["action_ranges"]
        assert again[before[1] - before[0] : after[0] - before[0]] == "7"


def test_the_shared_parameters_are_left_alone(make):
    shared = SamplingParams(max_tokens=None)
    engine = Engine(say)
    out = go(make(), engine, params=shared)
    assert (shared.logprobs, shared.max_tokens) == (None, None)
    assert all(p is not shared and p.logprobs == 0 and p.max_tokens == 200 - 14 for p in engine.asked)
    assert all(r["rollout_log_probs"] is None for r in out)
    out = go(make(), n=2, params=SamplingParams(logprobs=1))
    assert all(len(r["rollout_log_probs"]) == len(r["observation_tokens"]) for r in out)


def dies_at(number):
    """An engine whose request of this number fails."""

    def broken(n):
        if n == number:
            raise RuntimeError("engine died")
        return "\\boxed{7}"

    return Engine(broken, delay=0.01)


@pytest.mark.parametrize(
    ("votes", "engine", "n", "found"),
    [
        (12, Engine(say), 4, (12.0, 0.0)),
        (1026, Engine(say, delay=0), 2, (1026.0, 1.0)),  # more than a service takes: scored in process
        (8, dies_at(7), 4, (7.0, 0.0)),  # a lost vote is a vote less
    ],
)
def test_votes_beyond_the_trained(make, votes, engine, n, found):
    out = go(make(f"votes_per_prompt={votes}"), engine, n=n)
    assert (len(out), len(engine.asked), engine.running) == (n, votes, 0)
    assert logs(out, "votes", "reward_fallback") == [{value} for value in found]
    assert out[0]["reward"] > 0


def test_votes_that_do_not_add_up_end_the_run_at_its_first_group_only(make, caplog):
    """An evaluation has a number of its own, and its labels may not say that it is one."""
    with pytest.raises(ConfigError, match="votes_per_prompt=10 is not a multiple of the 4"):
        go(make("votes_per_prompt=10"))
    executor = make("votes_per_prompt=8")
    go(executor)
    assert logs(go(executor, n=3), "votes", "reward_fallback") == [{6.0}, {0.0}]
    assert "votes_per_prompt=8 is not a multiple of the 3 rollouts" in caplog.text


@pytest.mark.parametrize(("query", "lines"), [("", 1), ("votes_per_prompt=8", 0)])
def test_one_rollout_is_no_vote_and_the_log_says_so_once(make, caplog, query, lines):
    executor = make(query)
    for _ in range(2):
        go(executor, n=1)
    said_so = [r.message for r in caplog.records if "no vote" in r.message]
    assert ["votes_per_prompt=16" in line for line in said_so] == [True] * lines


@pytest.mark.parametrize(
    ("query", "label"), [("votes_per_prompt=64", '{"answer": "7", "split": "eval"}'), ("label_policy=eval", "7")]
)
def test_evaluation_is_accuracy_without_a_group(make, query, label):
    engine = Engine(say, delay=0)
    out = go(make(query), engine, n=3, label=label)
    assert [(r["reward"], r["scores"]) for r in out] == [(1.0, 1.0), (1.0, 1.0), (0.0, 0.0)]
    assert (len(engine.asked), logs(out, "evaluation")) == (3, [{1.0}])


WORDS = {
    "means nothing": "a label means nothing, and its rollouts train without one: ",
    "several": "one prompt came with several labels",
}


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("7", None),
        ("5", None),
        ("none of them", None),
        ('{"answer": "5", "split": "train"}', None),
        ({"answer": "7", "split": "test"}, "means nothing"),
        ('{"answer": "\\ud800", "split": "eval"}', "means nothing"),
        (["7", "7", "5", "5"], "several"),  # OpenRLHF gives the samples of a prompt one
    ],
    ids=str,
)
def test_the_gold_answer_reaches_no_training_reward_and_no_group(make, caplog, label, words):
    """What means nothing is none, and is logged once."""
    without, executor = go(make(), Engine(say, seed=3), label=""), make()
    for _ in range(2):
        out = go(executor, Engine(say, seed=3), label=label)
        assert [(r["reward"], r["scores"]) for r in out] == [(r["reward"], r["scores"]) for r in without]
        assert logs(out, "votes") == [{4.0}]
        assert (logs(out, "label_accuracy") == [{-1.0}]) == (words is not None)
    lines = [r.message for r in caplog.records if "label" in r.message]
    assert [line.startswith(WORDS[words]) for line in lines] == ([True] if words else [])


def test_pruned_modes(make):
    """One odd answer of high entropy among many."""

    def odd(number):
        return "\\boxed{99}" if number == 0 else "\\boxed{7}" if number % 2 else "\\boxed{5}"

    paid, ranges = {}, {}
    for mode in ("neutral", "mask"):
        out = go(make(f"pruned={mode}"), Engine(odd, entropy=lambda n: 0.1 if n else 3.0, delay=0), n=16)
        assert logs(out, "pruned") == [{1 / 16}]
        gone, *others = out
        paid[mode] = (gone["reward"], sum(rewards(others)) / len(others))
        ((start, end),) = gone["action_ranges"]
        ranges[mode] = (end - start, end == len(gone["observation_tokens"]))
    assert paid["neutral"][0] == pytest.approx(paid["neutral"][1], abs=2**-16)
    assert paid["mask"] == paid["neutral"]
    assert ranges == {"neutral": (11, True), "mask": (1, True)}


def test_the_answers_tokens_are_no_actions(make):
    """Loss and KL see what lies in the ranges: all that was generated but the answer, characters of several bytes too."""
    trained = {
        "so 7: \\boxed{7}, 7": "so 7: \\boxed{}, 7",
        "ответ: \\boxed{½π}🙂": "ответ: \\boxed{}🙂",
        "no answer": "no answer",
        "\\boxed{5}": "\\boxed{}",
    }
    found = go(make("train_on=reasoning"), Engine(list(trained).__getitem__))
    plain = go(make(), Engine(list(trained).__getitem__))
    for masked, whole in zip(found, plain, strict=True):
        end = len(masked["observation_tokens"])
        actions = [i for low, high in masked["action_ranges"] for i in range(low, high)]
        seen = "".join(chr(masked["observation_tokens"][i] - 10) for i in actions if i < end - 1)
        assert seen == trained.pop(said(whole))
        assert actions[-1] == end - 1, "the end token stays, which OpenRLHF puts the reward on"
        assert masked["reward"] == whole["reward"]
        assert masked["extra_logs"]["no_span"] == 0.0
    assert not trained


def test_an_answer_that_cannot_be_told_is_flagged_and_trained(make, monkeypatch):
    monkeypatch.setattr("dare_reward.stacks.rollout.answer_span", lambda text, read: None)
    found = go(make("train_on=reasoning"), Engine(say))
    assert all(len(r["action_ranges"]) == 1 for r in found)
    assert sorted(r["extra_logs"]["no_span"] for r in found) == [0.0, 1.0, 1.0, 1.0]


# --- entropies -------------------------------------------------------------------------------------------------------


def test_without_entropies_a_run_ends_at_its_start_and_goes_by_votes_later(make):
    with pytest.raises(EntropyError, match=r"at the start of the run.*plugin is not active"):
        go(make(), Engine(say, plugin=False), n=2)
    executor = make()
    go(executor, n=2)
    out = go(executor, Engine(say, plugin=False, delay=0))
    assert logs(out, "entropy_source", "reward_fallback") == [{0.0}, {1.0}]
    assert out[0]["reward"] > 0


def test_a_rollout_that_cannot_be_read_is_no_vote_and_ends_no_run(make, monkeypatch, caplog):
    executor, numbers = make(), iter(range(100))
    go(executor, n=2)
    rules = route(executor).settings.rules
    before = rules.read

    def read(*given):
        if next(numbers) == 0:
            raise RecursionError("too deep")
        return before(*given)

    monkeypatch.setattr(rules, "read", read)
    out = go(executor, Engine(lambda n: "\\boxed{7}", delay=0))
    assert logs(out, "invalid", "votes") == [{0.25}, {4.0}]
    assert sorted(reward > 0 for reward in rewards(out)) == [False, True, True, True]
    assert "a rollout cannot be read" in caplog.text


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


@pytest.mark.parametrize(
    ("query", "engine", "source"),
    [
        ("none", Engine(say, plugin=False), 0.0),
        ("topk", TopK(say), 2.0),
        ("topk", TopK(say, first=1e-6, others=-30.0), 2.0),  # float32 puts that of a certain token above 0
        ("topk", TopK(say, first=math.nan, others=math.nan), 0.0),
    ],
)
def test_without_the_plugin_entropies_are_estimates_or_votes_decide(make, query, engine, source):
    executor = make(f"entropy={query}")
    go(executor, TopK(say) if query == "topk" else engine, n=2)
    out = go(executor, engine)
    lost = query == "topk" and not source
    assert logs(out, "entropy_source", "reward_fallback") == [{source}, {float(lost)}]
    assert out[0]["reward"] > 0
    assert all((r["extra_logs"]["entropy"] >= 0) == (source > 0) for r in out)


@pytest.mark.parametrize("speculative", [None, "draft"])
def test_the_workers_are_asked_once_before_the_first_rollout(make, monkeypatch, speculative):
    """OpenRLHF makes the executor before the engine, whose arguments load the plugin: only the executor has the URL.

    Workers that cannot end the run there.
    """
    executor, engine, calls = make(), Engine(say, delay=0), []
    monkeypatch.delenv("VLLM_TOKEN_ENTROPY")
    monkeypatch.setattr(plugin, "patch", calls.append)

    async def collective_rpc(method, args=()):
        await asyncio.sleep(0.01)
        config = types.SimpleNamespace(speculative_config=speculative)
        return [method(types.SimpleNamespace(vllm_config=config), *args)]

    engine.llm.collective_rpc = collective_rpc
    found = [go(executor, engine, return_exceptions=True) for _ in range(2)]
    if speculative is None:
        assert (calls, plugin.mode()) == (["temperature"], "temperature")
        assert {p.logprobs for p in engine.asked} == {0}
        return
    assert all(isinstance(e, plugin.PluginError) for out in found for e in out)
    assert "speculative decoding gives no token entropies" in str(found[0][0])
    assert "VLLM_TOKEN_ENTROPY=temperature" in str(found[0][0])
    assert (calls, engine.asked, executor.posts) == ([], [], [])


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


@pytest.mark.parametrize("answer", [httpx.DecodingError("no gzip"), b"<html>hello</html>", b"{}", b"[1]",
                                    b'{"settings": {}}', b"[" * 200_000], ids=repr)  # fmt: skip
@pytest.mark.parametrize("urls", [["/score?key=1"], ["/score?key=a&start_timeout=soon", "/score?key=b"]])
def test_another_servers_urls_are_left_alone_bodies_included_whatever_it_answers(monkeypatch, answer, urls):
    """Its queries may differ, and a training run does not die of what it makes of GET /info."""

    def get(url, **_):
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(200, content=answer)

    monkeypatch.setattr(group_module.httpx, "get", get)
    executor, engine = patched(*(f"http://other:8000{path}" for path in urls)), Engine(say, delay=0)
    assert rewards(go(executor, engine)) == [0.25] * 4
    assert len(executor.posts) == 4
    assert {p.logprobs for p in engine.asked} == {None}


def test_a_reward_file_is_left_alone():
    executor = patched("reward_func.py")
    executor.reward_func = lambda *_: None
    assert rewards(go(executor, n=2)) == [0.25] * 2


def test_a_service_is_where_the_url_says_behind_a_gateways_prefix_too():
    places = {
        "http://h:8/reward?a=1": "http://h:8",
        "http://h/v1/reward/": "http://h",
        "https://u:p@h/get_reward": "https://h",
        "http://h": "http://h",
        "http://gw/dare/reward": "http://gw/dare",
        "http://other/score": "http://other/score",
    }
    assert group_module.RewardUrls.of(list(places)).services == tuple(places.values())


@pytest.mark.parametrize("status", [429, 502, 503, 504, None])
def test_who_starts_is_asked_again_and_who_does_not_answer_in_time_is_left_to_openrlhf(monkeypatch, caplog, status):
    """A gateway may answer for a service that is not there yet."""
    clock, replies = iter([0.0, 60.0, 200.0]), iter([httpx.Response(status or 502, text="Bad Gateway")])

    def get(url, **_):
        if status is None:
            raise httpx.ConnectError("refused")
        return next(replies, httpx.Response(200, json={"answers_version": "1"}))

    monkeypatch.setattr(group_module.httpx, "get", get)
    monkeypatch.setattr(group_module, "time", types.SimpleNamespace(monotonic=clock.__next__, sleep=lambda _: None))
    found = group_module.service_info(["http://soon:8000"], 120.0)
    assert found == (None if status is None else {"answers_version": "1"})
    assert ("http://soon:8000 does not answer" in caplog.text) == (status is None)


def test_an_actor_waits_as_long_as_the_url_says(monkeypatch):
    waited = []
    monkeypatch.setattr(group_module, "service_info", lambda services, patience: waited.append(patience))
    for query in ("start_timeout=600", "alpha=0.1", "start_timeout=soon"):
        go(patched(f"http://slow:8000/reward?{query}"), n=2)
    assert waited == [600.0, 120.0, 120.0]


# --- the start -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        (["?alhpa=0.2"], "the reward URL: query: unknown parameter of the reward URL 'alhpa'. Did you mean alpha"),
        (["?method=ddrl"], "the reward URL: method: ddrl trains on a selection of rollouts"),
        (["?alpha=0.1", ""], "different queries"),
        (["?on_collapse=stop"], "OpenRLHF gives a reward nothing that ends a training with a checkpoint"),
    ],
)
def test_what_does_not_go_ends_the_run_by_name_before_the_first_rollout(live, paths, words):
    engine = Engine(say)
    with pytest.raises(ConfigError, match=words) as raised:
        go(patched(*(f"{live}/reward{path}" for path in paths)), engine, n=2)
    assert ("checkpoint" in str(raised.value)) == ("on_collapse" in paths[0])
    assert engine.asked == []


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
        go(patched(f"{live}/reward?token=hush", "http://other:9/reward?token=hush"), n=2)
    assert seen == [("http://other:9/info", {"timeout": 10})]


def test_another_version_at_the_start_ends_the_run(make, monkeypatch):
    monkeypatch.setattr(group_module, "__version__", "0.0.0")
    with pytest.raises(ConfigError, match="same version on both sides"):
        go(make(), n=2)


def test_the_service_must_be_there_for_the_handshake():
    with pytest.raises(UnavailableError, match=r"not ready.*connection refused: is the service started"):
        group_module.handshake("http://127.0.0.1:9", "", ActorSettings(start_timeout=0.1))


def test_what_the_url_leaves_out_is_the_services_default_and_pinned(make, caplog):
    """So that one URL names one method with this package and without it; the log names it."""
    caplog.set_level("WARNING")
    with Live(params='{"alpha": 0.9}', token="hush") as service:
        for query, options in (("", {"alpha": 0.9}), ("&alpha=0.1", {}), ("&method=ttrl", {"method": "ttrl"})):
            out = go(make(f"token=hush{query}", service.url))
            assert rewards(out) == wanted(**options)
            assert logs(out, "reward_fallback") == [{0.0}]
    lines = [r.message for r in caplog.records if r.message.startswith("rewards of run")]
    assert len(lines) == 3
    assert "method=dare" in lines[0]
    assert "alpha=0.9" in lines[0]
    assert "hush" not in caplog.text


def test_a_run_without_a_name_has_one_of_its_own(monkeypatch, stand_in):
    """The same in all actors of a Ray job, and unlike any other job's."""
    jobs = [("session_1", "01000000"), ("session_1", "02000000"), ("session_2", "01000000")]

    def name(session, job):
        context = types.SimpleNamespace(get_session_name=lambda: session, get_job_id=lambda: job)
        stand_in("ray", get_runtime_context=lambda: context)
        return group_module.job_name()

    assert name(*jobs[0]) == name(*jobs[0])
    assert len({name(*job) for job in jobs}) == 3
    monkeypatch.setitem(sys.modules, "ray", None)
    assert group_module.job_name() != group_module.job_name()


# --- a service that is away ------------------------------------------------------------------------------------------


def test_the_next_url_scores_where_one_is_away(live, make, stubborn):
    with Live() as service:
        executor = make("", service.url, live)
        go(executor)
        service.kill()
        for _ in range(4):
            assert logs(go(executor), "reward_fallback") == [{0.0}]


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
    out = go(answering(make("timeout=0.2" if handle is hangs else ""), seen))
    assert logs(out, "reward_fallback") == [{1.0}]
    assert rewards(out) == wanted()
    assert len(tries) == 1


def test_a_service_that_comes_back_as_another_one_counts_as_away(make, monkeypatch, caplog):
    executor = make()
    go(executor)
    scorer = route(executor)._scorer
    monkeypatch.setattr(scorer, "_pinned", (scorer._pinned[0], "9.9.9"))
    out = go(executor)
    assert logs(out, "reward_fallback") == [{1.0}]
    assert rewards(out) == wanted()
    assert "another version or configuration than at the start" in caplog.text


async def logged(executor, real, *prompts):
    """The groups of prompts, one after another, and what was missed is in the service's run log."""
    out = [await generate_responses(executor, Engine(say, delay=0), prompt=prompt) for prompt in prompts]
    await route(executor)._scorer._logging
    await close(executor)
    await real.aclose()
    return [logs(rollouts, "reward_fallback") for rollouts in out]


def test_groups_that_were_scored_here_reach_the_services_run_log_with_the_next_post(make, stubborn, caplog):
    """One that the service refuses costs no other its line."""
    up, seen, real = [], [], httpx.AsyncHTTPTransport()

    async def sometimes(request):
        if not up:
            return await away(request)
        if request.method == "POST":
            seen.append(json.loads(request.content))
        if len(seen) == 2:
            return httpx.Response(413, json={})
        return await real.handle_async_request(request)

    executor = answering(make("run=r"), sometimes)
    for prompt in ("one", "two"):
        go(executor, prompt=prompt)
    up.append(1)
    assert run(logged(executor, real, "three")) == [[{0.0}]]
    names = [group["group_id"] for body in seen for group in body["groups"]]
    assert (len(seen), len(names), len(set(names))) == (3, 3, 3)
    assert {body["run"] for body in seen} == {"r"}
    assert "1 groups are missing in the service's run log" in caplog.text


def test_a_group_whose_reply_is_lost_is_logged_once(make, stubborn, tmp_path):
    """The service has scored and logged it; this process scores it again, and posts it for the log."""
    lost, real = [], httpx.AsyncHTTPTransport()

    async def late(request):
        reply = await real.handle_async_request(request)
        await reply.aread()
        if request.method == "POST" and not lost:
            lost.append(1)
            await asyncio.sleep(30)
        return reply

    with Live(run_log=str(tmp_path)) as service:
        executor = answering(make("timeout=2", service.url), late)
        assert run(logged(executor, real, "one", "two")) == [[{1.0}], [{0.0}]]
        while (status := httpx.get(f"{service.url}/info").json()["run_log"])["flushed"] < 3:
            time.sleep(0.05)
    assert (status["flushed"], status["repeated"]) == (3, 1), "that of `answering`, and these two"


@pytest.mark.parametrize(
    ("bound", "value", "query", "kept"),
    [("UNLOGGED_BYTES", 20_000, "send=tokens", 1), ("UNLOGGED_BYTES", 20_000, "", 3), ("UNLOGGED", 2, "", 2)],
)
def test_an_outage_does_not_fill_the_actors_memory(make, stubborn, monkeypatch, caplog, bound, value, query, kept):
    """Groups of tokens are large: their bytes are bounded, and each that will not be logged is named."""
    monkeypatch.setattr(group_module, bound, value)
    executor = answering(make(query), away)
    for prompt in ("one", "two", "three"):
        go(executor, Engine(lambda n: "x" * 200 + say(n), delay=0), prompt=prompt)
    assert len(route(executor)._scorer._unlogged) == kept
    assert caplog.text.count("will be missing in the service's run log") == 3 - kept


def test_even_without_any_estimator_there_is_a_reward(make, monkeypatch):
    async def broken(self, group):
        raise ZeroDivisionError

    monkeypatch.setattr(group_module.GroupScorer, "score", broken)
    out = go(make())
    assert rewards(out) == [0.0] * 4
    assert logs(out, "reward_fallback") == [{2.0}]


def test_shadow_methods_are_told_by_the_service_and_in_process(make, stubborn):
    executor = make("shadow=ttrl+scrl+rent")
    alive, graded = go(executor), go(executor, label='{"answer": "7", "split": "eval"}')
    dead = go(answering(executor, away))
    assert rewards(alive) == rewards(dead) == wanted()
    assert [logs(out, "reward_fallback") for out in (alive, dead)] == [[{0.0}], [{1.0}]]
    assert len({tuple(r["extra_logs"]) for r in (*alive, *graded, *dead)}) == 1
    names = [name for name in alive[0]["extra_logs"] if name.startswith("shadow_")]
    assert logs(alive, *names) == logs(dead, *names)
    assert (len(names) >= 9, logs(graded, "shadow_ttrl_flipped")) == (True, [{-1.0}])


def test_a_labelled_prompt_gets_the_rewards_of_gt_where_the_url_says_so(make, stubborn):
    """From the service, and in process alike; a prompt without a label gets the method's."""
    executor = make("labelled=gt&method=ttrl")
    for fallback in (0.0, 1.0):
        for label, paid in (("5", [0, 0, 0, 1]), ("", [0, 0, 1, 1])):
            out = go(executor, label=label)
            assert (sorted(rewards(out)), logs(out, "reward_fallback")) == (paid, [{fallback}])
        answering(executor, away)
