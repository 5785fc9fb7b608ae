"""OpenRLHF's executor with our additions, a fake engine and a live service: groups, votes, failures of everything around.

The executor has the shape of the released one (`fakes.released`); the released ones: tests/openrlhf, tests/e2e.
"""

import asyncio
import json
import math
import sys
import types
from contextlib import nullcontext
from functools import partial
from unittest.mock import Mock

import fakes
import httpx
import pytest
import serving
from fakes import TEXTS, Engine, answering, away, boxed, forwarded, go, logs, patched, rewards, route, say
from serving import Live

from dare_reward import Client, estimate
from dare_reward.errors import ConfigError, ReplyError, UnavailableError
from dare_reward.openrlhf import keys_of
from dare_reward.votes import Waves, votes_suffice
from dare_trainer.openrlhf import group as group_module
from dare_trainer.openrlhf import patch
from dare_trainer.openrlhf.siblings import SiblingError
from dare_trainer.vllm import plugin
from dare_trainer.vllm.token_entropy import EntropyError

CHAT = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n"
AGAIN = "Question: What is 3 + 4?\nAnswer: 7\n\nQuestion: What is 2 + 3?\nAnswer: 5"
EVALUATED = '{"answer": "7", "split": "eval"}'


def said(rollout):
    """The text that a rollout trains on, without its end."""
    (start, _), *_ = rollout["action_ranges"]
    return "".join(chr(token - 10) for token in rollout["observation_tokens"][start:-1])


def near(values):
    return pytest.approx(values, abs=2**-16)


def paid(texts=TEXTS, entropy=0.25, **options):
    """The estimator's own rewards."""
    rollouts = [{"text": text, "mean_entropy": entropy} for text in texts]
    return list(estimate([{"rollouts": rollouts}], limits=group_module.BOUNDLESS, **options).groups[0].rewards)


@pytest.fixture
def unscored(monkeypatch):
    """The groups, none of which can be scored."""
    groups = []

    async def broken(self, group):
        groups.append(group)
        raise ZeroDivisionError

    monkeypatch.setattr(group_module.GroupScorer, "score", broken)
    return groups


# --- groups ----------------------------------------------------------------------------------------------------------

GRADED = {"label": EVALUATED, "n": 3}, 3, [1.0, 1.0, 0.0], {"evaluation": 1.0, "reward_fallback": 0.0}
WAVES = "method=ttrl&votes_per_prompt=16&adaptive="
READ = [boxed(7)(0), AGAIN, boxed(7)(0)].__getitem__
SURE, WAVE = "56565555", Waves(votes=16, wave=4)
RISK = votes_suffice({"rollouts": [{"answer": a} for a in SURE]}, {}, method="ttrl", waves=WAVE).risk
assert 0 < RISK <= WAVE.delta


@pytest.mark.parametrize(
    ("query", "text", "given", "asked", "rewarded", "told"),
    [
        ("", say, {}, 4, paid(), {"votes": 4.0, "entropy_source": 1.0}),
        ("votes_per_prompt=12", say, {}, 12, paid(TEXTS * 3)[:4], {"votes": 12.0}),
        # A lost vote is a vote less, and more than a service takes are scored in process.
        ("votes_per_prompt=8", boxed(7, dies=7), {}, 8, paid([boxed(7)(0)] * 7)[:4], {"votes": 7.0}),
        ("votes_per_prompt=1028", say, {}, 1028, paid(TEXTS * 257)[:4], {"votes": 1028.0, "reward_fallback": 1.0}),
        ("entropy=none", say, {}, 4, paid(entropy=None, missing_entropy="frequency"), {"entropy_source": 0.0}),
        # An evaluation is accuracy, without a group.
        ("votes_per_prompt=64", say, *GRADED),
        ("label_policy=eval", say, {"label": "7", "n": 3}, *GRADED[1:]),
        ("shadow=ttrl+scrl+rent", say, *GRADED[:3], GRADED[3] | {"shadow_ttrl_flipped": -1.0}),
        ("shadow=ttrl+scrl+rent", say, {}, 4, paid(), {"shadow_ttrl_flipped": 0.0}),
        # The prompt tells which question a text answers, wherever it is read.
        *(
            (f"method=ttrl{more}", READ, {"prompt": CHAT, "n": 3, "label": label}, 3, [1.0] * 3, known)
            for more in ("", "&unmarked=number", "&train_on=reasoning")
            for label, known in (("", {}), (EVALUATED, GRADED[3]))
        ),
        # A prompt with a label gets the rewards of gt where the URL says so, one without the method's.
        ("labelled=gt&method=ttrl", say, {"label": "5"}, 4, [0, 0, 1, 0], {}),
        ("labelled=gt&method=ttrl", say, {"label": ""}, 4, [1, 1, 0, 0], {}),
        # Votes in waves: as many as the rule asks for, and the rewards are those of all that were cast.
        (f"{WAVES}auto", boxed(7), {"n": 8}, 8, [1] * 8, {"votes": 8.0, "votes_saved": 8.0, "settle_risk": 0.0}),
        (f"{WAVES}wave%3D4", boxed(5, 6), {}, 16, [1, 0, 1, 0], {"votes_saved": 0.0, "settle_risk": 0.0}),
        (f"{WAVES}wave%3D4", boxed(*"555", *"6" * 13), {}, 12, [0, 0, 0, 1], {"votes": 12.0, "votes_saved": 4.0}),
        (f"{WAVES}wave%3D4", boxed(*SURE), {}, 8, [1, 0, 1, 0], {"votes_saved": 8.0, "settle_risk": RISK}),
    ],
)  # fmt: skip
def test_what_a_group_gets_from_the_service_and_in_process(make, query, text, given, asked, rewarded, told):
    """The same, while the service is away: reward, score and log."""
    seen = []
    for executor, fallback in ((make(query), 0.0), (answering(make(query), away), 1.0)):
        engine = Engine(text)
        out = go(executor, engine, **given)
        assert (len(engine.asked), engine.running) == (asked, 0)
        if "adaptive" in query:  # whoever is long is counted like whoever is short
            assert {*engine.beside[len(out) :: 4]} <= {0}
        assert sorted(rewards(out)) == near(sorted(rewarded))
        values = {"reward_fallback": fallback, **told}
        assert logs(out, *values) == [{value} for value in values.values()]
        own = {"reward_fallback", "reward_wait_ms"}
        seen.append([{**r["extra_logs"], **dict.fromkeys(own), "paid": (r["reward"], r["scores"])} for r in out])
        assert {tuple(r["extra_logs"]) for r in out} == {keys_of("actor", route(executor).settings.shadow)}
        assert (executor.posts, route(executor).siblings.open) == ([], {})
    assert seen[0] == seen[1]


def test_groups_at_once_stay_apart(make):
    executor, by_text = make(), dict(zip(TEXTS, paid(), strict=True))
    prompts = (fakes.generate_responses(executor, Engine(say, delay=0.05), prompt=f"p{i % 5}") for i in range(16))
    for out in fakes.at_once(executor, *prompts):
        assert rewards(out) == near([by_text[said(r)] for r in out])
        assert logs(out, "votes", "reward_fallback", "label_accuracy") == [{4.0}, {0.0}, {1.0}]


def test_an_engine_that_dies_at_a_trained_rollout_stops_all_of_its_group(make):
    engine, executor = Engine(boxed(7, dies=0), delay=0, hangs=range(1, 8)), make("votes_per_prompt=8")
    out = go(executor, engine, return_exceptions=True)
    assert [type(one) for one in out] == [RuntimeError, *[SiblingError] * 3]
    assert (len(engine.asked), engine.running, route(executor).siblings.open) == (8, 0, {})


def test_a_group_is_named_after_its_prompt_so_that_a_report_knows_it_again(make, unscored):
    """Whichever actor a prompt falls to at its next visit. Where even the estimator fails there is a reward."""
    for prompts in (("one", "two"), ("two", "one")):
        executor = make("run=r")
        out = [go(executor, n=2, prompt=prompt) for prompt in prompts]
        assert [(rewards(o), logs(o, "reward_fallback")) for o in out] == [([0.0] * 2, [{2.0}])] * 2
    names = [group["group_id"] for group in unscored]
    assert (names, len({*names})) == (names[::-1], 2)


def test_the_shared_parameters_are_left_alone(make):
    shared = fakes.SamplingParams(max_tokens=None)
    out = go(make(), engine := Engine(say), params=shared)
    assert (shared.logprobs, shared.max_tokens) == (None, None)
    assert all(p is not shared and p.logprobs == 0 and p.max_tokens == 200 - 14 for p in engine.asked)
    assert all(r["rollout_log_probs"] is None for r in out)
    out = go(make(), n=2, params=fakes.SamplingParams(logprobs=1))
    assert all(len(r["rollout_log_probs"]) == len(r["observation_tokens"]) for r in out)


def test_votes_that_do_not_add_up_end_the_run_at_its_first_group_only(make, caplog):
    """An evaluation has a number of its own, and its labels may not say that it is one."""
    with pytest.raises(ConfigError, match="votes_per_prompt=10 is not a multiple of the 4"):
        go(make("votes_per_prompt=10"))
    executor = make("votes_per_prompt=8")
    go(executor)
    for n, votes in ((3, 6.0), (9, 9.0)):
        assert logs(go(executor, n=n), "votes", "reward_fallback") == [{votes}, {0.0}]
    assert "votes_per_prompt=8 is not a multiple of the 3 rollouts" in caplog.text


@pytest.mark.parametrize(("query", "lines"), [("", 1), ("votes_per_prompt=8", 0)])
def test_one_rollout_is_no_vote_and_the_log_says_so_once(make, caplog, query, lines):
    executor = make(query)
    for _ in range(2):
        go(executor, n=1)
    said_so = [r.message for r in caplog.records if "no vote" in r.message]
    assert ["votes_per_prompt=16" in line for line in said_so] == [True] * lines


NOTHING, SEVERAL = "a label means nothing, and its rollouts train without one: ", "one prompt came with several labels"


@pytest.mark.parametrize(
    ("label", "words"),
    [
        ("7", None),
        ("5", None),
        ("none of them", None),
        ('{"answer": "5", "split": "train"}', None),
        ({"answer": "7", "split": "test"}, NOTHING),
        ('{"answer": "\\ud800", "split": "eval"}', NOTHING),
        (["7", "7", "5", "5"], SEVERAL),  # OpenRLHF gives the samples of a prompt one
    ],
    ids=str,
)
def test_the_gold_answer_reaches_no_training_reward_and_no_group(make, caplog, label, words):
    """What means nothing is none, and is logged once."""
    without, executor = go(make(), label=""), make()
    for _ in range(2):
        out = go(executor, label=label)
        assert [(r["reward"], r["scores"]) for r in out] == [(r["reward"], r["scores"]) for r in without]
        assert (logs(out, "votes"), logs(out, "label_accuracy") == [{-1.0}]) == ([{4.0}], words is not None)
    lines = [r.message for r in caplog.records if "label" in r.message]
    assert [line.startswith(words) for line in lines] == [True] * (words is not None)


def test_pruned_modes(make):
    """One odd answer of high entropy among many."""
    odd, unsure = boxed(99, *[7, 5] * 8), lambda n: 0.1 if n else 3.0
    for mode, left in (("neutral", 11), ("mask", 1)):
        out = go(make(f"pruned={mode}"), Engine(odd, entropy=unsure, delay=0), n=16)
        assert logs(out, "pruned") == [{1 / 16}]
        gone, *others = out
        assert gone["reward"] == near(sum(rewards(others)) / len(others))
        end = len(gone["observation_tokens"])
        assert gone["action_ranges"] == [(end - left, end)]


@pytest.mark.parametrize("told", [True, False])
def test_the_answers_tokens_are_no_actions(make, monkeypatch, told):
    """Loss and KL see what lies in the ranges: all that was generated but the answer, characters of several bytes too.

    An answer that cannot be told is flagged and trained.
    """
    trained = {
        "so 7: \\boxed{7}, 7": "so 7: \\boxed{}, 7",
        "ответ: \\boxed{½π}🙂": "ответ: \\boxed{}🙂",
        "no answer": "no answer",
        AGAIN: AGAIN.replace("7", "", 1),
    }
    if not told:
        monkeypatch.setattr("dare_reward.stacks.rollout.answer_span", lambda text, read: None)
    found = go(make("train_on=reasoning"), Engine(list(trained).__getitem__))
    plain = go(make(), Engine(list(trained).__getitem__))
    for masked, whole in zip(found, plain, strict=True):
        text, end = said(whole), len(masked["observation_tokens"])
        actions = [i for low, high in masked["action_ranges"] for i in range(low, high)]
        seen = "".join(chr(masked["observation_tokens"][i] - 10) for i in actions if i < end - 1)
        assert seen == (trained[text] if told else text)
        assert actions[-1] == end - 1, "the end token stays, which OpenRLHF puts the reward on"
        assert masked["reward"] == whole["reward"]
        assert masked["extra_logs"]["no_span"] == (not told and text != "no answer")
    assert {said(whole) for whole in plain} == {*trained}


def test_a_rule_that_fails_costs_votes_and_no_reward(make, monkeypatch):
    monkeypatch.setattr(group_module, "votes_suffice", None)
    out = go(make(f"{WAVES}auto"), engine := Engine(boxed(7), delay=0))
    assert len(engine.asked) == 16
    assert logs(out, "votes", "reward_fallback") == [{16.0}, {0.0}]


# --- entropies -------------------------------------------------------------------------------------------------------


def test_a_rollout_that_cannot_be_read_is_no_vote_and_ends_no_run(make, monkeypatch, caplog):
    executor = make()
    go(executor, n=2)
    answers = Mock(side_effect=[RecursionError("too deep"), "7", "7", "7"])
    monkeypatch.setattr(route(executor).settings.rules, "read", answers)
    out = go(executor, Engine(boxed(7), delay=0))
    assert logs(out, "invalid", "votes") == [{0.25}, {4.0}]
    assert sorted(reward > 0 for reward in rewards(out)) == [False, True, True, True]
    assert "a rollout cannot be read" in caplog.text


@pytest.mark.parametrize(
    ("query", "told", "lost"),
    [
        ("plugin", {"plugin": False}, "plugin is not active"),
        ("topk", {"plugin": False}, None),
        ("topk", {"first": 1e-6, "others": -30.0}, None),  # float32 puts that of a certain token above 0
        ("topk", {"first": math.nan, "others": math.nan}, "an entropy is no number"),
    ],
)
def test_without_entropies_a_run_ends_at_its_start_and_goes_by_votes_later(make, query, told, lost):
    executor, engine = make(f"entropy={query}"), Engine(say, **told)
    if lost:
        with pytest.raises(EntropyError, match=f"at the start of the run.*{lost}"):
            go(make(f"entropy={query}"), engine, n=2)
    go(executor, n=2)
    out = go(executor, engine)
    assert logs(out, "entropy_source", "reward_fallback") == [{0.0 if lost else 2.0}, {0.0}]
    assert {p.logprobs for p in engine.asked} == {20 if query == "topk" else 0}
    assert out[0]["reward"] > 0


def test_what_the_top_k_is_of_is_what_vllm_says(make, unscored):
    """After top-p it is neither the raw distribution nor the one at the temperature."""
    for mode in ("raw_logprobs", "processed_logprobs"):
        engine = Engine(say, delay=0)
        engine.llm.model_config.logprobs_mode = mode
        go(make("entropy=topk"), engine, n=2)
    assert [group["entropy_mode"] for group in unscored] == ["raw", "unknown"]


@pytest.mark.parametrize("speculative", [None, "draft"])
def test_the_workers_are_asked_once_before_the_first_rollout(make, monkeypatch, speculative):
    """OpenRLHF makes the executor before the engine, whose arguments load the plugin: only the executor has the URL.

    Workers that cannot end the run there.
    """
    executor, engine, calls = make(), Engine(say, delay=0), []
    monkeypatch.delenv("VLLM_TOKEN_ENTROPY")
    monkeypatch.setattr(plugin, "patch", calls.append)

    worker = types.SimpleNamespace(vllm_config=types.SimpleNamespace(speculative_config=speculative))

    async def collective_rpc(method, args=()):
        await asyncio.sleep(0.01)
        return [method(worker, *args)]

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


def test_vllm_finds_openrlhfs_executor_in_its_actor_and_leaves_another_shape_alone(monkeypatch, stand_in, caplog):
    other = type("Other", (fakes.released(),), {"execute": (before := lambda self, request: None)})
    assert [patch.patch_class(shape) for shape in (other, None)] == [False, False]
    assert other.execute is before
    assert "it posts rollouts one by one, without entropies" in caplog.text
    kind = fakes.released()
    known = [kind.execute]
    monkeypatch.delitem(sys.modules, patch.MODULE, raising=False)
    patch.register()
    stand_in(patch.MODULE, SingleTurnAgentExecutor=kind)
    for _ in range(3):
        known.append(kind.execute)
        patch.register()
    assert known[0] is known[1] is not known[2] is known[3] is kind.execute


def info(monkeypatch, handle):
    """What GET /info comes to."""
    monkeypatch.setattr(group_module, "Client", partial(Client, transport=httpx.MockTransport(handle)))


@pytest.mark.parametrize("content", [b"<html>hello</html>", b"{}", b"[1]", b'{"settings": {}}', b"[" * 200_000, None])
@pytest.mark.parametrize("urls", [["/score?key=1"], ["/score?key=a&start_timeout=soon", "/score?key=b"]])
def test_another_servers_urls_are_left_alone_bodies_included_whatever_it_answers(monkeypatch, content, urls):
    """Its queries may differ, and a training run does not die of what it makes of GET /info."""
    zipped = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"no gzip"))
    info(monkeypatch, lambda request: zipped if content is None else httpx.Response(200, content=content))
    executor, engine = patched(*(f"http://other:8000{path}" for path in urls)), Engine(say, delay=0)
    assert rewards(go(executor, engine)) == [0.25] * 4
    assert len(executor.posts) == 4
    assert {p.logprobs for p in engine.asked} == {None}


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "socks5://127.0.0.1:9"])
def test_a_proxy_of_the_environment_hides_no_service_of_this_machine_and_ends_no_run(make, monkeypatch, proxy):
    monkeypatch.setenv("http_proxy" if proxy.startswith("http:") else "all_proxy", proxy)
    if proxy.startswith("http:"):
        assert logs(go(make("start_timeout=0")), "reward_fallback") == [{0.0}]
    assert rewards(go(patched("http://other:8000/score?start_timeout=0"))) == [0.25] * 4


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


def test_a_post_after_the_group_is_openrlhfs_own(make):
    executor = make()

    async def twice():
        await executor.execute("p", "", fakes.SamplingParams(), 200, fakes.Tokenizer(), Engine(say))
        return await executor._fetch_rewards_via_http(["q"], ["p"], [""])

    assert fakes.at_once(executor, twice()) == [[{"rewards": [0.25], "scores": [0.0]}]]


@pytest.mark.parametrize("status", [429, 502, 503, 504, None])
def test_who_starts_is_asked_again_and_who_does_not_answer_in_time_is_left_to_openrlhf(monkeypatch, status):
    """A gateway may answer for a service that is not there yet."""
    here = {"settings": {"max_groups": 1, "max_json_bytes": 1, "max_body_bytes": 1}}
    answers = iter([httpx.Response(status or 503, text="Bad Gateway"), httpx.Response(200, json=here)])
    info(monkeypatch, (lambda request: next(answers)) if status else away)
    clock = iter([0.0, 60.0, 200.0])
    monkeypatch.setattr(group_module, "time", types.SimpleNamespace(monotonic=clock.__next__, sleep=lambda _: None))
    with nullcontext() if status else pytest.raises(UnavailableError, match="http://soon:8 does not answer"):
        assert group_module.service_info(["http://soon:8"], 120.0) == here


def test_an_actor_waits_as_long_as_the_url_says(monkeypatch):
    monkeypatch.setattr(group_module, "service_info", asked := Mock(side_effect=UnavailableError))
    for query in ("start_timeout=600", "alpha=0.1", "start_timeout=soon"):
        go(patched(f"http://slow:8000/reward?{query}"), n=2)
    assert [patience for (_, patience), _ in asked.call_args_list] == [600.0, 120.0, 120.0]


# --- the start -------------------------------------------------------------------------------------------------------


AWAY = "http://127.0.0.1:9/reward?start_timeout=0"


def otherwise(groups, **options):
    """An estimator that is not the service's."""
    return estimate(groups, method="rent")


@pytest.mark.parametrize(
    ("error", "here", "urls", "words"),
    [
        (ConfigError, {}, ["?alhpa=0.2"], "^the reward URL: query: unknown parameter .* 'alhpa'. Did you mean alpha"),
        (ConfigError, {}, ["?method=spine&allow_experimental=true"], "trains on some tokens.*token_mask"),
        (ConfigError, {}, ["?method=ddrl"], "^the reward URL: method: ddrl trains on a selection.*such as ttrl$"),
        (ConfigError, {}, ["?alpha=0.1", ""], "different queries"),
        (ConfigError, {}, ["?on_collapse=stop"], "one of off, warn"),
        (ConfigError, {"__version__": "0.0.0"}, [""], "same version on both sides"),
        (ConfigError, {"estimate": otherwise}, [""], "this process score the same group as"),
        (UnavailableError, {}, ["?start_timeout=0", AWAY], "not answer: connection refused: is the service started"),
        # Rewards would be made of these entropies under the other's name.
        (plugin.PluginError, {}, ["?entropy_mode=raw"], "VLLM_TOKEN_ENTROPY=temperature is set, and raw is wanted"),
    ],
)
def test_what_does_not_go_ends_the_run_before_its_first_rollout(live, monkeypatch, error, here, urls, words):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    for name, value in here.items():
        monkeypatch.setattr(group_module, name, value)
    with pytest.raises(error, match=words):
        go(patched(*(url if url == AWAY else f"{live}/reward{url}" for url in urls)), engine := Engine(say), n=2)
    assert engine.asked == []


@pytest.mark.parametrize("status", [200, 404])
def test_a_second_url_of_another_server_ends_the_run_before_it_is_sent_anything(live, status):
    """Neither the token nor a group: only the question whose it is."""
    seen = []

    def reply(handler, content):
        seen.append((handler.command, handler.path, handler.headers["authorization"]))
        return status, b"{}"

    with serving.answering(reply) as other, pytest.raises(ReplyError, match="/info is not that of a reward service"):
        go(patched(f"{live}/reward?token=hush", f"{other}/reward?token=hush"), n=2)
    assert seen == [("GET", "/info", None)]


def test_what_the_url_leaves_out_is_the_services_default_and_pinned(make, caplog):
    """So that one URL names one method with this package and without it; the log names it."""
    caplog.set_level("WARNING")
    asked = {"": {"alpha": 0.9}, "&alpha=0.1": {}, "&method=ttrl": {"method": "ttrl"}}
    with Live(params='{"alpha": 0.9}', token="hush") as service:
        for query, options in asked.items():
            out = go(make(f"token=hush{query}", service.url))
            assert (rewards(out), logs(out, "reward_fallback")) == (near(paid(**options)), [{0.0}])
    lines = [r.message for r in caplog.records if r.message.startswith("rewards of run")]
    named = [("method=dare" in line, "alpha=0.9" in line) for line in lines]
    assert named == [(True, True), (True, False), (False, False)]
    assert "hush" not in caplog.text


def test_a_run_without_a_name_has_one_of_its_own(monkeypatch, stand_in):
    """The same in all actors of a Ray job, and unlike any other job's."""
    jobs = [("session_1", "01000000"), ("session_1", "02000000"), ("session_2", "01000000")]

    def name(session, job):
        context = types.SimpleNamespace(get_session_name=lambda: session, get_job_id=lambda: job)
        stand_in("ray", get_runtime_context=lambda: context)
        return group_module.job_name()

    assert len({name(*job) for job in jobs * 2}) == 3
    monkeypatch.setitem(sys.modules, "ray", None)
    assert group_module.job_name() != group_module.job_name()


# --- a service that is away ------------------------------------------------------------------------------------------


def test_services_take_turns_and_the_next_one_scores_where_one_is_away(live, make):
    asked = []

    def seen(request):
        asked.append((request.method, str(request.url)))
        return forwarded(request)

    with Live() as service:
        executor = answering(make("", service.url, live), seen)
        for _ in range(4):
            go(executor)
        assert [asked.count(("POST", f"{url}/v1/reward")) for url in (service.url, live)] == [2, 2]
        service.kill()
        for _ in range(4):
            assert logs(go(executor), "reward_fallback") == [{0.0}]


async def hangs(request):
    await asyncio.sleep(60)


def nonsense(status):
    limits = {"max_body_bytes": 10**9, "max_json_bytes": 10**9, "max_groups": 9}
    return lambda request: httpx.Response(status, json={"settings": limits, "groups": 3})


def another(name):
    return lambda request: httpx.Response(200, json=forwarded(request).json() | {name: "9"})


AT_THE_START, IN_TIME = "another version or configuration than at the start", "TimeoutError()"


@pytest.mark.parametrize(
    ("handle", "words"),
    [
        (hangs, IN_TIME),
        *((nonsense(status), None) for status in (200, 413, 422, 500)),
        *((another(name), AT_THE_START) for name in ("version", "config_id")),
    ],
)
def test_a_service_that_hangs_says_nonsense_or_is_another_one_counts_as_away(make, caplog, handle, words):
    """After `timeout`, which bounds all tries together."""
    executor = answering(make("timeout=0.2"), handle, retries=3) if handle is hangs else answering(make(), handle)
    for _ in range(2):
        out = go(executor)
        assert (rewards(out), logs(out, "reward_fallback")) == (near(paid()), [{1.0}])
    assert (words or "") in caplog.text
    assert "allow_change" not in caplog.text, "which no URL can say"


def logged(executor, *prompts):
    """The groups of prompts, one after another, once what was missed is in the service's run log."""

    async def main():
        out = [await fakes.generate_responses(executor, Engine(say, delay=0), prompt=prompt) for prompt in prompts]
        await route(executor)._scorer._logging
        await fakes.close(executor)
        return [logs(rollouts, "reward_fallback") for rollouts in out]

    return fakes.run(main())


def test_groups_that_were_scored_here_reach_the_services_run_log_with_the_next_post(make, caplog):
    """One that the service refuses costs no other its line; and none is lost where the service goes away once more."""
    answers, seen = [], []

    def sometimes(request):
        answer = answers.pop(0) if answers else away
        if answer is not away and request.method == "POST":
            seen.append(json.loads(request.content))
        return answer(request)

    executor = answering(make("run=r&votes_per_prompt=8&unmarked=number"), sometimes)
    for prompt in ("one", "two"):
        go(executor, prompt=prompt)
    for answers[:], left in (([forwarded, away], 2), ([forwarded, nonsense(413), forwarded], 0)):
        assert logged(executor, "three") == [[{0.0}]]
        assert len(route(executor)._scorer._unlogged) == left
    groups = [group for body in seen for group in body["groups"]]
    assert (len(seen), len(groups), len({group["group_id"] for group in groups})) == (4, 4, 3)
    assert {tuple(r["trained"] for r in group["rollouts"]) for group in groups} == {(True,) * 4 + (False,) * 4}
    assert {body["run"] for body in seen} == {"r"}
    assert all("text" in r for group in groups for r in group["rollouts"]), "where answers may be guesses"
    assert caplog.text.count("will be missing in the service's run log") == 1


def test_a_group_whose_reply_is_lost_is_logged_once(make, tmp_path):
    """The service has scored and logged it; this process scores it again, and posts it for the log."""
    lost = []

    async def late(request):
        reply = forwarded(request)
        if request.method == "POST" and not lost:
            lost.append(1)
            await asyncio.sleep(30)
        return reply

    with Live(run_log=str(tmp_path)) as service:
        executor = answering(make("timeout=2", service.url), late)
        assert logged(executor, "one", "two") == [[{1.0}], [{0.0}]]
        serving.wait_for(lambda: httpx.get(f"{service.url}/info").json()["run_log"]["flushed"] == 3)
        status = httpx.get(f"{service.url}/info").json()["run_log"]
    assert status["repeated"] == 1, "of three: that of `answering`, and these two"


@pytest.mark.parametrize(
    ("bound", "value", "query", "kept"),
    [("UNLOGGED_BYTES", 20_000, "send=tokens", 1), ("UNLOGGED_BYTES", 20_000, "", 3), ("UNLOGGED", 2, "", 2)],
)
def test_an_outage_does_not_fill_the_actors_memory(make, monkeypatch, caplog, bound, value, query, kept):
    """Groups of tokens are large: their bytes are bounded, and each that will not be logged is named."""
    monkeypatch.setattr(group_module, bound, value)
    executor = answering(make(query), away)
    for prompt in ("one", "two", "three"):
        go(executor, Engine(lambda n: "x" * 200 + say(n), delay=0), prompt=prompt)
    assert len(route(executor)._scorer._unlogged) == kept
    assert caplog.text.count("will be missing in the service's run log") == 3 - kept
