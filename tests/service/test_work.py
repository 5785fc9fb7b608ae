"""Where the work of a request is done, how much of it there may be, and when it ends."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi import Request
from pydantic_core import to_json
from serving import Local, Told, posted, told

from dare_reward import estimate
from dare_reward.answers.classes import key_of
from dare_service.body import INLINE_BYTES, Disconnected, unless_gone
from dare_service.joins.openrlhf import OpenRLHF
from dare_service.problems import EXCHANGE
from dare_service.reward_request import read_request

pytestmark = pytest.mark.anyio
HARD = [rf"\sqrt{{\tan(\binom{{\pi}}{{a}})+|(a)^{{{i}.1}}-\Gamma(i)|}}" for i in range(6)]
FREQUENCY = "missing_entropy=frequency"


def batch(answers, label=""):
    prompts = [f"p{i}" for i in range(len(answers))]
    query = [f"{p}\\boxed{{{a}}}" for p, a in zip(prompts, answers, strict=True)]
    return {"query": query, "prompts": prompts, "labels": [label] * len(answers)}


def groups(answers):
    return {"groups": [{"rollouts": [{"answer": a}]} for a in answers]}


EVALUATION = json.dumps({"answer": HARD[0], "split": "eval"})
REQUESTS = {
    "whole groups": (f"/reward?{FREQUENCY}", groups(HARD)),
    "a batch of OpenRLHF": ("/get_reward?run=a", batch(HARD)),
    "evaluations": ("/get_reward?run=a", batch(HARD, EVALUATION)),
    "one evaluation": ("/get_reward?run=a", batch(HARD[1:2], EVALUATION)),
    "a rollout of OpenRLHF": ("/get_reward?run=a&group_size=1", batch(HARD[:1])),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_answer_is_compared_on_the_event_loop(service, monkeypatch, name):
    """An answer of a hundred characters may take 50 ms."""
    threads = []

    def noted(*given):
        threads.append(threading.current_thread())
        return key_of(*given)

    monkeypatch.setattr("dare_reward.answers.classes.key_of", noted)
    url, body = REQUESTS[name]
    assert service.post(body, url).status_code == 200
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("size", [1, INLINE_BYTES, 100_000])
@pytest.mark.parametrize("count", [1, 5])
def test_only_one_short_rollout_is_read_on_the_event_loop(service, monkeypatch, size, count):
    read = []
    rollout = OpenRLHF._rollout

    def noted(*given):
        read.append(threading.current_thread() is threading.main_thread())
        return rollout(*given)

    monkeypatch.setattr(OpenRLHF, "_rollout", noted)
    body = batch(["1" + " " * (size // count)] * count)
    assert service.post(body, "/get_reward?run=a&group_size=1").status_code == 200
    assert read == [count == 1 and len(json.dumps(body)) <= INLINE_BYTES] * count


@pytest.mark.parametrize("name", list(REQUESTS)[:3])
def test_the_steps_of_a_request_are_bounded_and_counted_alike_whatever_was_read_before(make_service, name):
    url, body = REQUESTS[name]
    assert make_service().post(body, url).status_code == 200
    service = make_service(max_request_steps=1000)
    first, second = service.post(body, url).json(), service.post(body, url).json()
    assert first["status"] == 413
    assert first["detail"] == second["detail"]
    assert "at most 1000 in one request" in first["detail"]
    assert service.post(groups(["1", "2.5", "3/4"] * 20), f"/reward?{FREQUENCY}").status_code == 200
    assert service.get("/info").json()["settings"]["max_request_steps"] == 1000


def test_a_group_of_single_rollouts_is_never_refused_for_its_steps(make_service):
    assert make_service(max_request_steps=1).post(*reversed(REQUESTS["a rollout of OpenRLHF"])).status_code == 200


async def test_what_has_not_begun_when_its_client_leaves_never_does():
    begun = []
    with ThreadPoolExecutor(1) as executor:
        blocking = threading.Event()
        executor.submit(blocking.wait)
        with pytest.raises(Disconnected):
            await unless_gone(executor, begun.append, Request({"type": "http", "extensions": {EXCHANGE: Gone()}}))
        blocking.set()
    assert begun == []


class Gone(Told):
    """A connection whose client goes as soon as somebody asks."""

    def watch(self, ended):
        if ended is not None:
            asyncio.get_running_loop().call_soon(ended)


@pytest.mark.parametrize(("busy", "free"), [("groups", "joins"), ("joins", "groups")])
async def test_one_kind_of_work_does_not_keep_another_waiting(busy, free):
    local, end = Local(log="off"), threading.Event()
    url, body = {"joins": REQUESTS["a rollout of OpenRLHF"], "groups": REQUESTS["whole groups"]}[free]
    blocked = [getattr(local.state.workers, busy).submit(end.wait) for _ in range(8)]
    try:
        async with local.client() as client:
            assert (await client.post(url, json=body)).status_code == 200
        assert not any(b.done() for b in blocked)
    finally:
        end.set()


@pytest.mark.parametrize("detail", ["full", "rewards"])
def test_a_reply_that_is_written_group_by_group_is_the_same_bytes(service, detail):
    sent = [{"rollouts": [{"answer": a, "mean_entropy": 0.1} for a in HARD]}, {"rollouts": [{}]}]
    for groups_sent in (sent, []):
        reply = estimate(groups_sent).to_json(detail=detail) | {"request_id": "r"}
        found = service.post({"groups": groups_sent}, f"/reward?detail={detail}", headers={"x-request-id": "r"})
        assert found.content == to_json(reply, inf_nan_mode="null")


async def test_a_client_that_leaves_ends_the_reading_of_a_single_group(monkeypatch):
    read, client = [], Told()
    loop = asyncio.get_running_loop()

    def noted(raw, *rest):
        read.append(raw)
        loop.call_soon_threadsafe(client.end)
        time.sleep(0.01)
        return key_of(raw, *rest)

    monkeypatch.setattr("dare_reward.answers.classes.key_of", noted)
    app = Local(log="off").app
    body = json.dumps({"groups": [{"rollouts": [{"answer": str(i)} for i in range(1000)]}]}).encode()
    sent = await posted(told(app, client), f"/reward?{FREQUENCY}", body)
    app.state.dare.workers.groups.shutdown(wait=True)
    assert sent == []
    assert len(read) < 1000


def test_groups_are_left_to_the_base_layer():
    """Nothing else runs while a model is checked: it is the envelope's."""
    content = {"groups": [{"rollouts": [{"answer": 1, "token_entropies": ["x"]}]}, 3]}
    assert read_request(to_json(content)) == content
