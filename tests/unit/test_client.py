"""The clients against a service without sockets, and against every way in which a service can be away or wrong."""

import asyncio
import gc
import itertools
import json
import os
import pickle
import random
import re
import socket
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress

import httpx
import numpy as np
import pytest
from refusals import refusal
from serving import Live, answering

import dare_reward
import dare_reward.client
from dare_reward import AsyncClient, Client, ConfigError, RefusedError, ReplyError, RequestError, UnavailableError
from dare_reward._outgoing import Sending, parts
from dare_reward.client import environment_token
from dare_reward.errors import DareError
from dare_reward.methods import methods
from dare_reward.runs.log import run_log_of
from dare_reward.runs.reader import read_run
from dare_reward.scoring.score import estimate, score
from dare_reward.wire import MEDIA_TYPES, Frame, unpack
from dare_service.app import create_app
from dare_service.json_body import read_json
from dare_service.settings import Settings

pytestmark = pytest.mark.usefixtures("plugins", "short_fits")

RNG = np.random.default_rng(3)


def groups(count=3, size=6):
    def rollout():
        text, length = f"so \\boxed{{{RNG.integers(0, 3)}}}", int(RNG.integers(1, 9))
        return {"text": text, "token_entropies": RNG.gamma(0.3, 1, length).tolist(), "meta": {"x": 1}}

    own = {"label": "1", "prompt": "never sent"}
    return [{"group_id": f"g{p}", **own, "rollouts": [rollout() for _ in range(size)]} for p in range(count)]


class Wire(httpx.ASGITransport):
    """The application as a transport; keeps what was sent, and lets a test change what comes back."""

    def __init__(self, change=None, **settings):
        super().__init__(create_app(Settings(**{"page": "off", **settings})))
        self.sent, self.change = [], change or (lambda request, response: response)

    async def handle_async_request(self, request):
        self.sent.append(request)
        if (early := self.change(request, None)) is not None:
            return early
        response = await super().handle_async_request(request)
        response = httpx.Response(response.status_code, headers=response.headers, content=await response.aread())
        return self.change(request, response) or response

    @property
    def posts(self):
        return [r for r in self.sent if r.method == "POST"]


def client(change=None, settings=None, **options):
    return Client("http://t", transport=Wire(change, **(settings or {})), **options)


def failing(make, tries=range(99)):
    """In these tries of posts the service says what `make` returns, or the connection does what it raises."""
    count = itertools.count()

    def change(request, response):
        return make() if request.method == "POST" and response is None and next(count) in tries else None

    return change


def raising(error):
    def make(*_):
        raise error

    return make


def busy():
    return httpx.Response(503, headers={"retry-after": "7"}, json={"detail": "busy"})


lost = raising(httpx.ReadError("lost"))


def posted(make):
    """Replies to posts are what `make` makes of them."""
    return lambda request, response: make(response) if response is not None and request.method == "POST" else None


def said(content, status=200, **headers):
    return posted(lambda _: httpx.Response(status, headers=headers, content=content))


def edit(function):
    def changed(response):
        body = json.loads(response.content)
        function(body)
        return httpx.Response(200, json=body)

    return posted(changed)


def head(**changes):
    return edit(lambda body: body.update(changes))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    """The pauses that the clients would have made, and none of them made."""
    slept, real = [], dare_reward.client._pause

    def pause(attempt, outcome):
        slept.append(real(attempt, outcome))
        return 0.0

    monkeypatch.setattr("dare_reward.client._pause", pause)
    return slept


@pytest.mark.parametrize("send", ["", "text", "tokens", "text tokens"])
def test_local_equals_remote_bit_for_bit_in_every_form(send):
    sent = groups()
    before = json.dumps(sent)
    assert client(**{f"send_{form}": True for form in send.split()}).reward(sent).groups == estimate(sent).groups
    assert json.dumps(sent) == before, "groups are not changed"


@pytest.mark.parametrize(("options", "params"), [({}, {}), ({"send_text": True}, {}), ({}, {"unmarked": "number"})])
def test_a_reply_in_parts_travels_as_its_text(options, params):
    parts = [{"type": "thinking", "thinking": "\\boxed{5}"}, {"type": "text", "text": "so \\boxed{4}"}]
    sent = [{"rollouts": [{"text": parts}, {"text": "\\boxed{5}"}]}]
    (found,) = client(**options).reward(sent, method="ttrl", **params).groups
    assert found.answers == ("4", "5")
    assert found.rewards == estimate(sent, method="ttrl", **params).groups[0].rewards


def test_a_prompt_that_no_request_may_hold_costs_no_group():
    """Texts take along as much of it as they are read by."""
    asked = "What is the capital of Lithuania?"
    again = f"Question: {asked}\nAnswer: 1\n\nQuestion: What is 1 + 1?\nAnswer: 2"
    group = {"prompt": f"{'A long document.' * 40_000}\n{asked}", "rollouts": [{"text": again}, {"text": "Answer: 1"}]}
    for options in ({}, {"send_text": True}):
        (reply,) = client(**options).reward([group], method="ttrl").groups
        assert reply.answers == ("1", "1")


def test_only_what_is_needed_travels_and_calls_that_are_no_part_of_a_run_say_so():
    c = client()
    c.reward(groups(), run="r", step=3)
    (post,) = c._transport.posts
    body = json.loads(post.content)
    assert body.keys() == {"method", "params", "answers_version", "run", "step", "groups"}
    assert body["groups"][0].keys() == {"group_id", "label", "rollouts"}
    assert body["groups"][0]["rollouts"][0].keys() == {"answer", "mean_entropy", "num_tokens"}
    apart = client(record=False)
    apart.reward(groups())
    assert [r.headers.get("dare-record") for r in (post, *apart._transport.posts)] == [None, "no"]


def test_tokens_travel_as_a_frame():
    c = client(send_tokens=True)
    rollouts = [{"token_entropies": np.ones(3, np.float32)}, {"mean_entropy": 0.5}]
    sent = [{"rollouts": [{"answer": "1", **rollout} for rollout in rollouts]}]
    reply = c.reward(sent)
    frame = unpack(c._transport.posts[0].content)
    assert frame.columns["token_entropies"].values.dtype == np.float32
    assert frame.columns["token_entropies"].lengths.tolist() == [3, 0]
    assert reply.groups[0].support[0].uncertainty == 0.75
    assert reply.groups == estimate(sent).groups


@pytest.mark.parametrize("change", [None, failing(lost)])
def test_numpy_parameters_travel(change):
    c = client(change, retries=0, fallback="local")
    reply = c.reward(groups(), alpha=np.float32(0.25), vocab_size=np.int64(50), open_think=np.bool_(True))
    own = estimate(groups(), alpha=np.float32(0.25), vocab_size=np.int64(50), open_think=np.bool_(True))
    assert reply.config_id == own.config_id == estimate([], alpha=0.25, vocab_size=50, open_think=True).config_id
    with pytest.raises(DareError, match=r"shadow: (must be|is) a list"):
        c.reward(groups(), shadow="ttrl")


@pytest.mark.parametrize("options", [{}, {"send_text": True}])
def test_numpy_s_scalars_in_rollouts_are_python_s_in_requests_and_in_the_run_log(options, tmp_path):
    """Means of float32 arrays took their whole group from the client's run log."""
    own = {"answer": 4.5, "mean_entropy": 0.5, "correct": True, "trained": False, "finish_reason": "stop", "id": "a"}
    other = {"answer": 4, "mean_entropy": 0.25, "correct": False, "trained": True}
    kinds = {str: np.str_, bool: np.bool_, float: np.float32, int: np.int64}
    sent = [{"rollouts": [{k: kinds[type(v)](v) for k, v in r.items()} for r in (own, other)]}]
    expected = estimate([{"rollouts": [own, other]}], method="empo").groups
    c = client(run_log=tmp_path, **options)
    assert c.reward(sent, method="empo").groups == estimate(sent, method="empo").groups == expected
    assert expected[0].answers == ("4.5", "4")
    run_log_of(tmp_path, frozenset()).close()
    (line,) = read_run(tmp_path)
    assert [{k: r[k] for k in own if k in r} for r in line["rollouts"]] == [own, other]


@pytest.mark.parametrize(
    ("method", "rollout"),
    [
        ("dare", {"token_entropies": [float("nan"), 1.0]}),
        ("dare", {"token_entropies": [-1.0, 3.0]}),
        ("dare", {"token_entropies": ["1", "2"]}),
        ("dare", {"token_entropies": 3.0}),
        ("dare", {"token_entropies": [[1.0], [2.0, 3.0]]}),
        ("dare", {"token_entropies": [1.0], "mean_entropy": 2.0}),
        ("dare", {"token_entropies": [1.0, 2.0], "num_tokens": 5}),
        ("dare", {"token_entropies": [1.0, 2.0], "token_mask": [True]}),
        ("dare", {"token_entropies": [1.0, 2.0], "token_mask": [1, 0]}),
        ("dare", {"token_entropies": [1.0, 2.0], "token_logprobs": [-1.0]}),
        ("dare", {"mean_entropy": 1.0, "token_mask": [True]}),
        ("deepconf", {"topk_logprobs": [[-1.0, -2.0], [-1.0]]}),
        ("evol_rl", {"embedding": []}),
    ],
)
@pytest.mark.parametrize("options", [{}, {"send_tokens": True}])
def test_inputs_that_mean_nothing_are_the_error_that_they_are_in_process(method, rollout, options):
    """A mean hides the tokens that it was made of, so whoever makes it checks them."""
    sent = [*groups(1), {"rollouts": [{"answer": "2", "mean_entropy": 0.5}, {"answer": "1", **rollout}]}]
    c, local = client(**options), str(refusal(estimate, sent[1:], method=method))
    assert str(refusal(c.reward, sent, method=method)) == local.replace("groups[0]", "groups[1]")
    assert not c._transport.posts


@pytest.mark.parametrize("options", [{}, {"send_tokens": True}])
@pytest.mark.parametrize("empty", [{"mean_entropy": 0.3, "num_tokens": 5}, {"mean_entropy": 0.3}, {}])
def test_an_empty_list_of_tokens_is_a_missing_one(options, empty):
    sent = [{"rollouts": [{"answer": "1", "token_entropies": [], **empty}, {"answer": "2", "mean_entropy": 0.5}]}]
    assert client(**options).reward(sent).groups == estimate(sent).groups


@pytest.mark.parametrize(("method", "name"), [("deepconf", "topk_logprobs"), ("evol_rl", "embedding")])
def test_rows_of_two_widths_in_two_groups(method, name):
    rows = ([-1.0, -2.0], [-1.0, -2.0, -3.0])
    sent = [{"rollouts": [{"answer": "1", name: [row] if name == "topk_logprobs" else row}]} for row in rows]
    assert name in str(refusal(client().reward, sent, method=method))


def test_lone_surrogates_cost_no_more_than_a_label():
    texts = [{"answer": "a\ud800", "mean_entropy": 0.1}, {"text": "\\boxed{b\udfff}", "mean_entropy": 0.1}]
    sent = [{"kind": "text", "rollouts": texts}]
    assert client().reward(sent).groups[0].rewards == estimate(sent).groups[0].rewards
    rollouts = [{"answer": "1"}, {"answer": "2"}]
    sent = [{"label": label, "rollouts": rollouts} for label in ("\ud800", "1", ["2", "\ud800"])]
    reply = client().reward(sent, method="gt")
    assert [g.rewards for g in reply.groups] == [None, (1.0, 0.0), (0.0, 1.0)]
    assert reply.groups == estimate(sent, method="gt").groups
    assert reply.groups[0].error.code == "missing_input"


@pytest.mark.parametrize("kind", ["math", "text", "exact", "literal"])
@pytest.mark.parametrize("key", ["answer", "text"])
def test_half_of_a_cut_emoji_is_one_character_by_every_way(kind, key):
    """A whole pair of surrogates is its character, as in any JSON."""
    said = ["a\ud83d", "a\ud83d", "a?", "b", "\ud83d\ude00", "\U0001f600", "7\ud83d", "7"]
    said = [f"'{one}'" for one in said] if kind == "literal" else said
    rollouts = [{key: one if key == "answer" else f"\\boxed{{{one}}}", "mean_entropy": 0.1} for one in said]
    sent = [{"kind": kind, "rollouts": rollouts, "prompt": "\ud83d?"}]
    local = estimate(sent).groups[0]
    assert local.answers[0] == local.answers[1] != local.answers[2]
    assert local.answers[4] == local.answers[5] != local.answers[3]
    assert local.answers[6] != local.answers[7]
    read = read_json(json.dumps({"groups": sent}).encode())["groups"]
    found = [client().reward(sent), client(send_text=True).reward(sent), estimate(read)]
    assert [reply.groups[0].rewards for reply in found] == [local.rewards] * 3


def test_rewards_are_lists_with_none_for_a_failed_group():
    sent = [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}, {"rollouts": [{"answer": "1"}, {"answer": "2"}]}]
    assert client().rewards(sent) == [[1.0], [None, None]]


@pytest.mark.parametrize("params", [{"unmarked": "number"}, {"truncated": "as_is"}, {"open_think": True}])
def test_answers_are_read_by_the_parameters_that_the_operator_set(params):
    texts = ("so it must be 7", "so \\boxed{8}", "<think> so \\boxed{9}")
    rollouts = [{"text": t, "mean_entropy": 0.1, "finish_reason": f} for t in texts for f in ("stop", "length")]
    sent = [{"rollouts": [*rollouts, {"text": "The answer is 6", "finish_reason": "length", "mean_entropy": 0.1}]}]
    assert client(settings={"params": json.dumps(params)}).reward(sent).groups == estimate(sent, **params).groups
    assert estimate(sent, **params).groups[0].answers != estimate(sent).groups[0].answers


@pytest.mark.parametrize("of_call", [False, True])
def test_its_run_log_compares_labels_by_the_parameters_of_the_service_and_of_the_call(tmp_path, of_call):
    sent, params = [{"label": "y = 3", "rollouts": [{"answer": "x = 3"}]}], {"names": "ignore"}
    settings = {} if of_call else {"method": "majority", "params": json.dumps(params)}
    client(settings=settings, run_log=tmp_path).reward(sent, method="ttrl", run="r", **params if of_call else {})
    run_log_of(tmp_path, frozenset()).close()
    assert [r["correct"] for line in read_run(tmp_path / "r") for r in line["rollouts"]] == [True]


@pytest.mark.parametrize(
    ("limit", "value", "posts"),
    [
        ("groups", 2, [3]),
        ("request_rollouts", 12, [3]),
        ("json_bytes", 1500, range(2, 6)),
        ("body_bytes", 3000, range(2, 6)),
    ],
)
def test_it_splits_by_group_to_fit_the_limits(limit, value, posts):
    c, sent = client(settings={f"max_{limit}": value}, send_tokens=limit == "body_bytes"), groups(5)
    reply = c.reward(sent)
    assert reply.groups == estimate(sent).groups
    assert len(reply.diagnostics["parts"]) == len(c._transport.posts) in posts


def test_groups_of_a_call_that_is_split_have_their_places_for_names():
    c, nameless = client(settings={"max_groups": 2}), [{"rollouts": g["rollouts"]} for g in groups(5)]
    assert [g.group_id for g in c.reward(nameless).groups] == list("01234")
    bodies = [json.loads(post.content) for post in c._transport.posts]
    assert not any("group_id" in g for body in bodies for g in body["groups"]), "a place is no prompt's name in a log"
    assert c.rewards([]) == []


def test_advantages_over_a_request_are_not_those_of_its_parts():
    sent, c = groups(5), client(settings={"max_groups": 2})
    for name in ("reinforce_pp", "reinforce_pp_baseline"):
        with pytest.raises(RequestError, match="advantage"):
            c.reward(sent, advantage=name)
        assert c.reward(sent[:2], advantage=name).groups == estimate(sent[:2], advantage=name).groups
    assert c.reward(sent, advantage="grpo").groups == estimate(sent, advantage="grpo").groups
    with pytest.raises(RequestError, match="set calibration=none") as caught:
        c.reward(sent, method="gmae", advantage="gmae")
    assert caught.value.loc == ("advantage",)
    asked = {"method": "gmae", "advantage": "gmae", "calibration": "none"}
    assert c.reward(sent, **asked).groups == estimate(sent, **asked).groups


@pytest.mark.parametrize(
    ("make", "pauses"),
    [
        (busy, [(7, 7)] * 2),  # as Retry-After says
        (lambda: httpx.Response(503, headers=[(b"retry-after", b"\xb2")]), [(0.375, 0.625)]),  # a digit of no number
        (lost, [(0.375, 0.625), (0.75, 1.25), (1.5, 2.5)]),
    ],
)
def test_what_passes_is_tried_again_after_pauses_that_grow(no_pauses, make, pauses):
    assert client(failing(make, range(len(pauses)))).rewards(groups())
    assert all(low <= made <= high for made, (low, high) in zip(no_pauses, pauses, strict=True))


BUG = {"headers": {"content-type": "application/problem+json"}, "json": {"detail": "bug"}}


@pytest.mark.parametrize(
    ("status", "reply", "error", "words", "tries"),
    [
        *((n, {"json": {"detail": "no"}}, RefusedError, f"{n}", 1) for n in (400, 401, 404, 409, 413, 415, 422)),
        # what passes; 500 is that of a proxy whose replica died over the request
        *((n, {"text": "down"}, UnavailableError, "3 tries", 3) for n in (408, 500, 502, 503, 504)),
        (500, BUG, UnavailableError, "bug", 1),
    ],
)
def test_what_passes_is_retried_and_then_told_and_a_refusal_or_a_bug_at_once(status, reply, error, words, tries):
    c = client(failing(lambda: httpx.Response(status, **reply)), retries=2)
    told = refusal(c.rewards, groups(), error=error)
    assert (words in str(told), len(c._transport.posts)) == (True, tries)
    assert error is not RefusedError or told.status == status


def test_the_local_fallback_says_so_takes_what_would_be_split_and_refuses_what_the_service_refuses(caplog):
    c, sent = client(failing(lost), retries=0, fallback="local"), groups()
    reply = c.reward(sent)
    assert (reply.groups, reply.flags) == (estimate(sent).groups, ("local_fallback",))
    assert "scoring in process" in caplog.text
    assert len(c.reward([{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}] * 1100).groups) == 1100
    long = [{"rollouts": [{"text": "so " * 100_000 + f"\\boxed{{{answer}}}"} for answer in "112"]}]
    found = [one.rewards(long, method="ttrl") for one in (client(), c)]  # no text travels
    assert found == [[[1.0, 1.0, 0.0]]] * 2
    for name in ("limits", "columns"):  # arguments of `estimate` are no parameters of a method
        with pytest.raises(RequestError, match=f"'{name}'"):
            c.reward(sent, **{name: {}})


def test_a_fallback_scores_as_the_operator_set_and_under_another_configuration_is_an_error():
    sent, away, how = groups(), failing(lost, range(1, 99)), {"retries": 0, "fallback": "local"}
    c = client(away, settings={"params": '{"alpha": 0.5}'}, **how)
    assert c.reward(sent).groups == c.reward(sent).groups == estimate(sent, alpha=0.5).groups
    drawing = client(away, settings={"method": "scope", "params": '{"seed": 1}'}, **how)
    assert drawing.reward([], method="scope", seed=2).config_id == estimate([], method="scope", seed=2).config_id
    other, away = edit(lambda body: body.update(config_id="other")), failing(lost, range(1, 99))
    c = client(lambda request, response: away(request, response) or other(request, response), **how)
    assert c.rewards(sent)
    with pytest.raises(ConfigError, match="in process"):
        c.rewards(sent)


@pytest.mark.parametrize("name", ["config_id", "version"])
def test_another_configuration_or_version_in_mid_run_is_an_error_unless_allowed(name):
    """Other parameters have their own."""
    for allowed in (False, True):
        replies = iter("aab")
        c = client(edit(lambda body, replies=replies: body.update({name: next(replies)})), allow_change=allowed)
        for _ in range(2):
            c.rewards(groups())
        with nullcontext() if allowed else pytest.raises(ConfigError, match="Restart the run"):
            c.rewards(groups())
    c = client()
    for asked in ({"alpha": 0.1}, {"alpha": 0.2}, {"method": "ttrl"}):
        c.rewards(groups(), **asked)


def test_another_answers_version_is_a_warning():
    c = client(head(answers_version="other"))
    with pytest.warns(RuntimeWarning, match="version other"):
        c.rewards(groups())


def test_the_token_of_any_letters_travels_in_the_header_only():
    for token in ("t0k", "ключ"):
        c = client(settings={"token": token}, token=token)
        assert c.rewards(groups())
        assert not any(token in text for text in (repr(c), *(str(r.url) for r in c._transport.sent)))
    with pytest.raises(RefusedError):
        client(settings={"token": "t0k"}).rewards(groups())


@pytest.mark.parametrize("name", ["reward", "rewards", "wait_ready", "info"])
def test_methods_of_the_synchronous_client_are_its_own(name):
    """Pools of processes pickle what they are to call."""
    method = getattr(Client, name)
    assert pickle.loads(pickle.dumps(method)) is method
    assert f"Client.{name} of Client(" in repr(getattr(Client(), name))


def test_clients_pickle_with_their_pins(live_url):
    with Client(live_url) as c:
        c.rewards(groups())
        copy = pickle.loads(pickle.dumps(c))
    assert copy._pins == c._pins
    assert copy.rewards(groups())
    copy.close()


@pytest.fixture(scope="module")
def live_url():
    with Live() as service:
        yield service.url


@pytest.mark.anyio
async def test_async(live_url):
    async with AsyncClient(live_url) as c:
        await c.wait_ready(5)
        sent = groups()
        replies = await asyncio.gather(*(c.reward(sent) for _ in range(5)))
        assert all(r.groups == estimate(sent).groups for r in replies)
        assert await c.rewards(sent, method="ttrl") == [list(g.rewards) for g in estimate(sent, method="ttrl").groups]


@pytest.mark.anyio
async def test_async_retries_and_falls_back(no_pauses):
    away = httpx.MockTransport(raising(httpx.ConnectError("refused")))
    async with AsyncClient("http://t", transport=away, retries=2, fallback="local") as c:
        assert "local_fallback" in (await c.reward(groups())).flags
    async with AsyncClient("http://t", transport=away, retries=0) as c:
        with pytest.raises(UnavailableError):
            await c.reward(groups())
        with pytest.raises(UnavailableError, match="started"):
            await c.wait_ready(0)
    assert len(no_pauses) == 2


def test_wait_ready():
    answers = iter([httpx.Response(503), httpx.Response(200)])
    Client("http://t", transport=httpx.MockTransport(lambda _: next(answers))).wait_ready(5)


VERIFY = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed (_ssl.c:1)"


@pytest.mark.parametrize(
    ("met", "said"),
    [
        (lambda _: httpx.Response(503), "started"),
        (raising(httpx.ConnectError(VERIFY)), "set SSL_CERT_FILE="),
        (raising(httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version (_ssl.c:1)")), "does not speak TLS"),
    ],
)
def test_wait_ready_names_the_last_error(met, said):
    with pytest.raises(UnavailableError, match=said):
        Client("https://t", transport=httpx.MockTransport(met)).wait_ready(0)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])  # of several addresses httpx says only that all failed
def test_wait_ready_says_that_nobody_listens(host):
    with pytest.raises(UnavailableError, match="connection refused: is the service started"):
        Client(f"http://{host}:9").wait_ready(0)


def test_nothing_is_sent_before_the_first_call():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Client("http://nowhere.invalid")


def test_a_client_of_an_older_version_sends_everything_for_a_method_it_does_not_know():
    head = {"method": "from_the_future", "params": {}}
    sent = [{"rollouts": [{"answer": "1", "token_entropies": [0.1]}]}]
    part = next(parts(sent, head))
    assert part.media_type == "application/vnd.safetensors"
    assert "token_entropies" in unpack(part.content).columns


@pytest.mark.parametrize("method", list(methods()))
@pytest.mark.parametrize("tokens", [False, True])
def test_every_method_over_the_wire_is_what_it_is_in_process(method, tokens, full_groups, needed_params):
    sent, params = full_groups(), needed_params(method)
    advantage = None if methods()[method].output == "advantages" else "rloo"
    asked = {"advantage": advantage, "shadow": ["ttrl", "rent"], "seed": 4}
    wire = Wire()
    with Client(transport=wire, send_tokens=tokens) as client:
        found = client.reward(sent, method=method, **asked, **params)
    local = estimate(sent, method=method, **asked, **params)
    for one, two in zip(found.groups, local.groups, strict=True):
        assert one.error is None
        for name in ("rewards", "advantages", "second_rewards", "token_mask", "support", "pseudo_label", "flags"):
            assert getattr(one, name) == getattr(two, name), name
        assert one.diagnostics["shadow"] == two.diagnostics["shadow"]


@pytest.mark.parametrize("method", list(methods()))
def test_what_travels_of_rollouts_that_lack_something_scores_as_they_do(method, full_groups, needed_params):
    """Whatever is missing, null or masked: groups without what they need have the error that they have here."""
    draw, sent, params = random.Random(7), full_groups(count=4), needed_params(method)
    for rollout in (r for g in sent for r in g["rollouts"]):
        rollout["token_mask"] = [draw.random() < 0.7 for _ in rollout["token_entropies"]]
        lacks = draw.sample([name for name in rollout if name != "answer"], draw.choice((0, 0, 3, 8)))
        for name in lacks:
            rollout[name] = None
        for name in {*lacks[::2], "trained"} & {*lacks}:
            del rollout[name]
        if draw.random() < 0.3:
            rollout["answer"] = None
    local = score(sent, params, method=method).reply.groups
    for sending in (Sending(), Sending(tokens=True), Sending(text=True)):
        (part,) = parts(sent, {"method": method, "params": params}, sending)
        frame = unpack(part.content) if part.media_type in MEDIA_TYPES else Frame(part.content, {})
        body = json.loads(frame.request)
        found = score(body["groups"], params, method=method, columns=frame.columns).reply.groups
        for name in ("error", "rewards", "second_rewards", "token_mask", "support", "pseudo_label", "flags"):
            assert [getattr(g, name) for g in found] == [getattr(g, name) for g in local], (sending, name)


@pytest.mark.parametrize("send", [{}, {"send_tokens": True}, {"send_text": True}])
def test_a_rollout_whose_tokens_are_all_masked_has_no_answer_for_one_reason_wherever_it_is_read(send):
    tokens = {"token_entropies": [0.1, 0.2], "token_mask": [False, False]}
    sent = [{"rollouts": [{"text": "\\boxed{4}", "mean_entropy": 0.1}, {"text": "So \\boxed{4", **tokens}]}]
    found = client(**send).reward(sent).groups[0]
    assert found.diagnostics["no_answer"] == estimate(sent).groups[0].diagnostics["no_answer"] == {"empty": 1}


@pytest.mark.parametrize("name", [{}, {"path": ""}], ids=str)
@pytest.mark.parametrize("options", [{}, {"send_tokens": True}, {"send_text": True}], ids=str)
def test_a_path_is_that_of_its_tokens_however_it_travels(options, name):
    """Two paths to one text are two, and count twice. A blank name tells no path from another."""
    rows = [("4", [1, 2]), ("4", [3]), ("5", [7]), ("5", [7])]
    rollouts = [
        {"text": f"\\boxed{{{a}}}", "token_ids": ids, "token_logprobs": [-0.7] * len(ids), **name} for a, ids in rows
    ]
    sent, method = [{"rollouts": rollouts}], "perplexity_consistency"
    found, local = (of(sent, method=method, reward="share").groups for of in (client(**options).reward, estimate))
    assert found == local
    assert found[0].rewards[0] > found[0].rewards[2]


def test_a_method_that_returns_advantages_has_no_rewards(full_groups):
    with Client(transport=Wire()) as client:
        with pytest.raises(RequestError, match="advantages"):
            client.rewards(full_groups(), method="cocov")
        assert client.reward(full_groups(), method="cocov").groups[0].advantages


# --- what a reply may be ---------------------------------------------------------------------------------------------


def first(**changes):
    return edit(lambda body: body["groups"][0].update(changes))


def only(**said):
    return edit(lambda body: body["groups"].__setitem__(0, said))


def text_of_reply(old, new):
    """The text of a reply with `old` replaced: what `json.dumps` would not write."""
    return posted(lambda response: httpx.Response(200, content=response.content.replace(old, new, 1)))


def entry(name, value):
    return edit(lambda body: body["groups"][0][name].__setitem__(0, value))


DEEP = b"[" * 100_000 + b"]" * 100_000
# What a service may say, and why it is not believed.
UNFIT = {
    "a group too few": (edit(lambda body: body["groups"].pop()), "groups"),
    "another order": (edit(lambda body: body["groups"].reverse()), "groups"),
    "a support without a count": (edit(lambda body: body["groups"][0]["support"][0].pop("count")), "another version"),
    "no groups": (edit(lambda body: body.pop("groups")), "groups"),
    "another shape": (edit(lambda body: body["groups"][0].pop("group_id")), "group_id"),
    "a reward too few": (edit(lambda body: body["groups"][0]["rewards"].pop()), "5 rewards for 6"),
    "no rewards": (first(rewards=None), "rewards"),
    "a reward null": (entry("rewards", None), "no reward for a rollout"),
    "a reward a string": (entry("rewards", "NaN"), "rewards are not numbers"),
    "true for a reward": (entry("rewards", True), "rewards are not numbers"),
    "a reward of 400 digits": (text_of_reply(b'"rewards":[', b'"rewards":[' + b"9" * 400 + b","), "of 400 digits"),
    "a reward of 1e400": (text_of_reply(b'"rewards":[', b'"rewards":[1e400,'), "1e400"),
    "rewards in a string": (first(rewards="111111"), "rewards is not a list"),
    "rewards in an object": (first(rewards={"0": 1}), "rewards is not a list"),
    "an error without a code": (only(group_id="g0", error={}), "another version"),
    "no error and nothing else": (only(group_id="g0"), "no "),
    "no advantages": (first(advantages=None), "no advantages"),
    "advantages too few": (first(advantages=[1.0]), "1 advantages for 6"),
    "an advantage NaN": (text_of_reply(b'"advantages":[', b'"advantages":[NaN,'), "NaN"),
    "an advantage a string": (entry("advantages", "a"), "advantages are not numbers"),
    "an advantage null of what is trained on": (entry("advantages", None), "no advantage"),
    "keep too short": (first(keep=[True]), "1 keep for 6"),
    "valid too short": (first(valid=[]), "0 valid for 6"),
    "answers too many": (first(answers=["1"] * 7), "7 answers for 6"),
    "second rewards of nobody": (first(second_rewards=[1.0], second_advantages=[1.0]), "1 second_rewards for 0"),
    "second advantages of nobody": (first(second_advantages=[1.0]), "1 second_advantages for 0"),
    "masks too few": (first(token_mask=[None]), "1 token_mask for 6"),
    "a group that is a list": (edit(lambda body: body["groups"].__setitem__(0, [])), "another version"),
    "a group id that is a number": (first(group_id=0), "other groups"),
    "another method": (head(method="ttrl"), "'ttrl'"),
    "another output": (head(output="advantages"), "advantages of 'dare'"),
    "an output of its own": (head(output="bonus"), "the reply has bonus"),
    "deep": (said(DEEP), "nested"),
    "deep in the diagnostics": (text_of_reply(b'"diagnostics":{', b'"diagnostics":{"x":' + DEEP + b","), "nested"),
    "latin-1": (said(b'{"a":"\xe9"}'), "not JSON: 'utf-8'"),
    "nothing": (said(b""), "not JSON"),
    "not a number": (said(b"NaN"), "NaN"),
    "a page": (said(b"<html>"), "not JSON"),
    "a list": (said(b"[]"), "another version"),
    "null": (said(b"null"), "another version"),
    "an infinite reward": (text_of_reply(b'"rewards":[', b'"rewards":[Infinity,'), "Infinity"),
    "the reply to somebody else": (head(request_id="somebody-else"), "'somebody-else'"),
    "a reply to nobody": (head(request_id=None), "'None'"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_nothing_of_an_unfit_reply_is_handed_on_and_the_fallback_replaces_it(name, caplog):
    (change, words), sent, asked = UNFIT[name], groups(), {"advantage": "grpo"}
    c = client(change)
    assert words in str(refusal(c.reward, sent, error=ReplyError, **asked))
    assert not c._pins
    reply = client(change, fallback="local").reward(sent, **asked)
    assert (reply.groups, "local_fallback" in reply.flags) == (estimate(sent, **asked).groups, True)
    assert "scoring in process" in caplog.text


@pytest.mark.parametrize("times", [1, 99])
def test_a_reply_to_somebody_else_is_asked_for_again_by_its_key_on_another_connection(times):
    count, sent, crossed = itertools.count(), groups(), head(request_id="somebody-else")

    def change(request, response):
        other = crossed(request, response)
        return other if other is not None and next(count) < times else None

    c = client(change)
    if times == 1:
        assert c.reward(sent).groups == estimate(sent).groups
    else:
        assert "'somebody-else'" in str(refusal(c.rewards, sent, error=ReplyError))
        assert not c._connections
    tries = [(r.headers["x-request-id"], r.headers["idempotency-key"]) for r in c._transport.posts]
    assert len({one for one, _ in tries}) == len(tries) > 1
    assert len({key for _, key in tries}) == 1


def test_what_a_reply_may_leave_open(plugin):
    """A rollout that only votes has no advantage; one that sent no tokens has no mask; a failed group has neither."""
    rollouts = [{"answer": a, "token_entropies": [0.1, 3.0]} for a in "112"]
    sent = [{"rollouts": [*rollouts, {"answer": "2", "trained": False}]}, {"rollouts": [{"answer": "1"}]}]
    ways = {"method": "guess_tokens", "allow_experimental": True}, {"method": "dare", "missing_entropy": "error"}
    for asked in ways:
        reply = client().reward(sent, advantage="grpo", **asked)
        assert reply.groups == estimate(sent, advantage="grpo", **asked).groups
        assert reply.groups[0].advantages is None or reply.groups[0].advantages[3] is None
    assert reply.groups[1].error is not None


def test_second_groups_have_second_advantages():
    sent = [{"rollouts": [{"answer": "1"}], "second_group": [{"answer": "2"}, {"answer": "1"}]}]
    asked = {"method": "co_rewarding_1", "advantage": "grpo"}
    assert client().reward(sent, **asked).groups == estimate(sent, **asked).groups
    with pytest.raises(ReplyError, match="no second_advantages"):
        client(first(second_advantages=None)).reward(sent, **asked)


# --- what a connection may bring -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", ["DecodingError", "TooManyRedirects", "StreamError", "InvalidURL", "ProxyError", "PoolTimeout", "OSError"]
)
def test_whatever_comes_of_a_try_is_an_error_of_the_tree(kind):
    lost = failing(raising(getattr(httpx, kind, OSError)("no")))
    with pytest.raises(UnavailableError, match="2 tries"):
        client(lost, retries=1).rewards(groups())
    assert "local_fallback" in client(lost, retries=0, fallback="local").reward(groups()).flags


@pytest.mark.parametrize("answered", [b"", b"HTTP/1.1 403 No\r\n", b"HTTP/1.1 502 No\r\n", b"HTTP/1.1 200 OK\r\n"])
def test_a_proxy_of_the_environment_is_named(monkeypatch, answered):
    """It gets what was meant for the service, and what it says is not the service's word."""
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def serve():
            connection, _ = proxy.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answered and answered + b"Content-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("HTTP_PROXY", f"http://me:secret@127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "elsewhere")
        with pytest.raises(DareError) as caught, Client("http://192.0.2.2:8000", retries=0, timeout=30) as c:
            c.reward(groups())
        thread.join()
    assert "the proxy 127.0.0.1:" in str(caught.value)
    assert "NO_PROXY=192.0.2.2" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_no_reply(status):
    """Even if its body is one."""
    moved = {"location": "http://elsewhere/"}
    c = client(posted(lambda response: httpx.Response(status, headers=moved, content=response.content)))
    with pytest.raises(ReplyError, match=f"{status}: redirected to http://elsewhere/"):
        c.rewards(groups())
    assert len(c._transport.posts) == 1


@pytest.mark.parametrize(
    "content",
    [
        b'{"settings": {"max_body_bytes": 1e400, "max_groups": 1, "max_json_bytes": 1}}',
        b'{"settings": {"max_body_bytes": ' + b"9" * 400 + b', "max_groups": 1, "max_json_bytes": 1}}',
        b'{"settings": {"max_body_bytes": 9, "max_groups": 0, "max_json_bytes": 9}}',
        *(
            b'{"settings": {"max_body_bytes": 9, "max_groups": 1, "max_json_bytes": 9, "params": %s}}' % params
            for params in (b'"[1]"', b'"%s"' % DEEP, b"3")
        ),
        b'{"settings": []}',
        DEEP,
        b"\xff",
    ],
)
def test_an_info_that_is_none(content):
    def change(request, response):
        return httpx.Response(200, content=content) if request.url.path == "/info" else None

    with pytest.raises(ReplyError, match="address"):
        client(change, fallback="local").rewards(groups(1, 1))


class Pieces(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body that is made as it is read; `taken` counts how much of it was."""

    def __init__(self, count, piece):
        self.count, self.piece, self.taken = count, piece, 0

    def __iter__(self):
        for _ in range(self.count):
            self.taken += len(self.piece)
            yield self.piece

    async def __aiter__(self):
        for piece in self:
            yield piece


def answer_with(status, stream, headers=()):
    def answer(request):
        if request.method == "GET":
            return httpx.Response(200, json={"settings": {"max_groups": 9, "max_json_bytes": 9, "max_body_bytes": 9}})
        return httpx.Response(status, headers=dict(headers), stream=stream)

    return httpx.MockTransport(answer)


def both(url="http://t", **options):
    """The same call by both clients."""

    def call():
        with Client(url, retries=0, **options) as c:
            return c.rewards(groups(1, 1))

    async def run():
        async with AsyncClient(url, retries=0, **options) as c:
            return await c.rewards(groups(1, 1))

    return call, lambda: asyncio.run(run())


def test_a_reply_is_read_as_far_as_it_may_be_long():
    stream = Pieces(1000, b" " * (1 << 20))
    for call in both(transport=answer_with(200, stream)):
        stream.taken = 0
        with pytest.raises(ReplyError, match="a reply of more than"):
            call()
        assert 1 << 20 <= stream.taken <= 3 << 20


def test_an_endless_refusal_is_a_refusal():
    for call in both(transport=answer_with(422, Pieces(100, b"x" * (1 << 20)))):
        assert len(str(refusal(call, error=RefusedError))) < 300


def test_a_reply_in_an_encoding_is_not_unpacked():
    """256 KiB of gzip can be 256 MiB of blanks; nobody asked for it."""
    bomb = Pieces(1, b"not even gzip")
    for call in both(transport=answer_with(200, bomb, {"content-encoding": "gzip"})):
        with pytest.raises(ReplyError, match="'gzip'"):
            call()
    assert not bomb.taken
    for call in both(transport=answer_with(503, bomb, {"content-encoding": "gzip"})):
        with pytest.raises(UnavailableError, match="503"):
            call()
    c = client()
    c.rewards(groups())
    assert {r.headers["accept-encoding"] for r in c._transport.sent} == {"identity"}


def test_the_longest_honest_replies_are_read():
    """Rollouts without content, many groups, every shadow: what a reply says most of, in proportion."""
    free = [m for m in methods().values() if not (m.requires or m.experimental or any(s.required for s in m.specs))]
    shadows = [m.name for m in free]
    sent = [{"rollouts": [{"answer": "1"}]}] * 300
    assert len(client().reward(sent, method="ttrl", shadow=shadows[:8], advantage="grpo").groups) == 300
    one = [{"rollouts": [{"answer": str(i)} for i in range(1024)]}]
    assert client().reward(one, method="ttrl").groups[0].answers[-1] == "1023"


def test_a_call_has_one_key_in_all_its_tries_and_a_repetition_may_have_the_same():
    """By which the service logs it once; each request of a call that is split has its own."""

    def keys(c, **call):
        before = len(c._transport.sent)
        c.reward(groups(4), **call)
        return [r.headers["idempotency-key"] for r in c._transport.sent[before:] if r.method == "POST"]

    c = client(failing(busy, range(1)), settings={"max_groups": 2})
    one, other = keys(c, key="again"), keys(c, key="again")
    assert one[0] == one[1] == other[0] != one[2] == other[1]
    assert not {*keys(c)} & {*one, *keys(c)}
    long = keys(c, key="步" * 200)  # no header holds it, and a service reads 128 characters of one
    assert len({*long}) == 2
    assert all(key.isascii() and len(key) <= 128 for key in long)
    ids = [r.headers["x-request-id"] for r in c._transport.sent]
    assert len(set(ids)) == len(ids), "every try has an id of its own"
    assert {*map(len, ids)} == {32}


# --- real sockets ----------------------------------------------------------------------------------------------------


@contextmanager
def sockets(answer):
    """A server whose `answer(connection, head)` writes what it likes after each request; yields its address."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(connection):
        with connection, suppress(OSError):
            reader = connection.makefile("rb")
            while head := b"".join(iter(reader.readline, b"\r\n")) if reader.peek(1) else b"":
                size = re.search(rb"content-length: (\d+)", head.lower())
                reader.read(int(size[1]) if size else 0)
                answer(connection, head)

    def accept():
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    with listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


INFO = json.dumps({"settings": {"max_groups": 9, "max_json_bytes": 10**6, "max_body_bytes": 10**6}}).encode()
SLOWLY = {
    "its head": b"HTTP/1.1 200 OK\r\n%scontent-length: 2\r\n\r\n{}",
    "its body": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%s2\r\n{}\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("where", SLOWLY)
def test_the_timeout_is_for_the_whole_try(where):
    """A byte every 0.1 s for five seconds keeps any timeout of one read from ending."""
    early, late = SLOWLY[where].split(b"%s")
    finished = threading.Event()
    piece = b"x: y\r\n" if where == "its head" else b"1\r\n \r\n"

    def answer(connection, head):
        if head.startswith(b"GET"):
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(INFO), INFO))
            return
        connection.sendall(early)
        for _ in range(50):
            connection.sendall(piece)
            time.sleep(0.1)
        connection.sendall(late)
        finished.set()

    with sockets(answer) as url:
        for call in both(url, timeout=0.5):
            with pytest.raises(UnavailableError, match="ReadTimeout"):
                call()
            assert not finished.is_set()


def test_garbage_instead_of_http():
    for garbage in (b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n", b""):

        def answer(connection, head, garbage=garbage):
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_RDWR)

        with sockets(answer) as url:
            with pytest.raises(UnavailableError):
                Client(url, retries=0).rewards(groups(1, 1))
            assert "local_fallback" in Client(url, retries=0, fallback="local").reward(groups(1, 1)).flags


FORK = """
import os, sys
from dare_reward import Client, estimate

def groups(n):
    return [{"rollouts": [{"answer": str(i % n), "mean_entropy": 0.1 * i} for i in range(12)]}]

client = Client(sys.argv[1], retries=0, timeout=20)
right = client.rewards(groups(2)) == [list(g.rewards) for g in estimate(groups(2)).groups]
for n in range(3, 9):
    child = os.fork()
    mine = n + 10 * (not child)
    right &= client.rewards(groups(mine)) == [list(g.rewards) for g in estimate(groups(mine)).groups]
    if not child:
        os._exit(not right)
    right &= os.waitpid(child, 0)[1] == 0
sys.exit(not right)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_connections_stay_in_their_process():
    """Parent and child must not read from one socket. The parent's connection outlives each child."""
    seen = []

    def reply(handler, content):
        if handler.command == "GET":
            return 200, INFO
        seen.append(handler.client_address)
        said = estimate(json.loads(content)["groups"]).to_json() | {"request_id": handler.headers["x-request-id"]}
        return 200, json.dumps(said).encode()

    with answering(reply) as url:
        done = subprocess.run([sys.executable, "-c", FORK, url], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    counts = sorted(seen.count(address) for address in set(seen))
    assert counts == [1] * 6 + [7]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the first loop was closed before its connections were
def test_connections_stay_in_their_event_loop(live_url):
    """asyncio.run twice, as scripts do."""
    c = AsyncClient(live_url)
    sent = groups()
    for _ in range(2):
        assert asyncio.run(c.reward(sent)).groups == estimate(sent).groups
    del c
    gc.collect()


def test_a_client_is_shared_between_threads(live_url):
    sent = [groups(2, n) for n in range(1, 9)]
    expected = [[list(g.rewards) for g in estimate(s).groups] for s in sent]
    with Client(live_url) as c, ThreadPoolExecutor(8) as pool:
        assert list(pool.map(c.rewards, sent * 4)) == expected * 4


def is_direct(url):
    with httpx.Client(**Client(url)._options()) as made:
        return made._transport_for_url(httpx.URL(f"{url}/info")) is made._transport


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://localhost:8000", "http://[::1]:8000", "http://127.1.2.3"]
)
def test_proxies_of_the_environment_are_not_for_loopback(monkeypatch, url):
    for name in ("http_proxy", "all_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://proxy.invalid:3128")
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert is_direct(url)
    assert not is_direct("http://reward.example:8000")
    monkeypatch.setenv("NO_PROXY", "reward.example")
    assert is_direct("http://reward.example:8000")


@pytest.mark.parametrize(
    ("url", "environment"),
    [
        ("http://reward.example", {"http_proxy": "gopher://proxy:70"}),
        ("https://127.0.0.1", {"SSL_CERT_FILE": "/none"}),
        ("http://reward.example", {"http_proxy": "https://proxy:70", "SSL_CERT_FILE": "/none"}),
    ],
)
def test_an_environment_that_httpx_cannot_use(monkeypatch, url, environment):
    monkeypatch.delenv("no_proxy", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RequestError, match="environment"):
        Client(url).rewards(groups())


def test_no_authority_is_read_where_no_tls_can_be(monkeypatch, live_url):
    monkeypatch.setenv("SSL_CERT_FILE", "/none")
    with Client(live_url) as c:
        assert c.rewards(groups())


def test_options_of_the_update_travel_and_spans_bring_their_texts():
    """And groups with a label do not change the configuration of a run, whichever part of it they come in."""
    sent = [
        {"group_id": str(p), "rollouts": [{"text": f"so \\boxed{{{a}}}", "mean_entropy": 0.3} for a in row]}
        for p, row in enumerate(("1123", "4455", "6677"))
    ]
    options = {"advantage": "fixed", "selection": "ddrl", "reshape": "ear", "settled": 0.6, "spans": True}
    options |= {"labelled": "gt"}
    c = client(settings={"max_groups": 2})
    for labels in ({}, {1: "4"}, dict(enumerate("147"))):
        step = [{**g, "label": labels[p]} if p in labels else g for p, g in enumerate(sent)]
        found, local = (of(step, method="ttrl", **options) for of in (c.reward, estimate))
        assert (found.groups, found.config_id) == (local.groups, local.config_id)
    assert len(c._pins) == 1
    body = json.loads(c._transport.posts[-1].content)
    assert {k: body[k] for k in options} == options
    assert body["params"] == {}
    assert all("text" in r for g in body["groups"] for r in g["rollouts"])


@pytest.mark.parametrize(
    "address",
    ["http://h:1/p", "http://h:1/p/", "http://h:1/p/reward", "http://h:1/p/v1/reward/", "http://h:1/p/get_reward"],
)
def test_an_address_may_have_the_route_and_the_token(address):
    assert Client(address).url == "http://h:1/p"
    client = Client(f"{address}?token=a%20b")
    assert (client.url, client._token) == ("http://h:1/p", "a b")
    assert Client(f"{address}?token=a", token="b")._token == "b"
    with pytest.raises(RequestError, match="'method'"):
        Client(f"{address}?method=dare")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_client_takes_the_first_token_of_the_environment(kind, monkeypatch):
    monkeypatch.setenv("DARE_TOKEN", " new old ")
    assert kind("http://h")._token == "new"
    assert kind("http://h?token=own")._token == "own"
    assert kind("http://h", token="")._token is None
    assert environment_token({}) is environment_token({"DARE_TOKEN": " "}) is None


@pytest.mark.parametrize(
    "option", [{"timeout": 0}, {"timeout": "10"}, {"retries": -1}, {"fallback": "locally"}], ids=str
)
def test_an_option_with_a_wrong_value_is_an_error_at_once(option):
    (name,) = option
    for kind in (Client, AsyncClient):
        with pytest.raises(RequestError, match=f"^{name}: "):
            kind("http://reward", **option)


def test_none_is_the_default_as_in_an_adapter():
    c, usual = client(timeout=None, retries=None), client()
    assert (c.timeout, c.retries) == (usual.timeout, usual.retries) == (120.0, 4)
    assert c.reward(groups())


@pytest.mark.parametrize(
    "url", ["r:8000/reward?token=hush", "http://r:99999?token=hush", "ftp://u:hush@r", "host:8000", "http://", ""]
)
def test_a_wrong_address_is_said_at_once_without_its_secrets(url):
    """And not tried as if the service were away."""
    with pytest.raises(RequestError, match=r"is like http://127\.0\.0\.1:8000, not ") as caught:
        Client(url)
    assert "hush" not in str(caught.value)
