"""Some hundreds of generated requests are answered as recorded, and broken ones in a form that a trainer can use."""

import asyncio
import json
import math
import random
from collections import Counter

import httpx
import replies

from dare_reward.methods import methods
from dare_reward.reply import Reply
from dare_reward.wire import MEDIA_TYPES, unpack
from dare_service.app import create_app
from dare_service.settings import Settings

RECORDED = replies.recorded()


def test_replies_are_those_recorded():
    now = asyncio.run(replies.replies(list(RECORDED)))
    # Another processor may round an exponential or a logarithm otherwise in the last bit.
    changed = list(replies.differences(now, RECORDED, tolerance=1e-12))
    assert not changed, "a change that is meant: python tests/replies.py --write"


def test_the_record_holds_replies_and_refusals():
    assert len(RECORDED) >= 500
    assert {status for status, _ in RECORDED.values()} == {200, 400, 422}


# --- broken ones -----------------------------------------------------------------------------------------------------

# Small, so that the refusals beyond them are met too.
BOUNDS = {"max_request_rollouts": 25, "max_request_steps": 20_000, "max_request_memory": 100_000, "max_text": 6000}
LABELS = ["", "1", '{"answer": "1", "split": "eval"}', '{"kind": "choice"}', '{"x": [', "x" * 6001, None]


def step_of_openrlhf(rng):
    """Rollouts of OpenRLHF, in one request or alone."""
    count = rng.choice([1, 2, 24, 26])
    prompts = [rng.choice(["p", "What is 1+1?"]) for _ in range(count)]
    query = [p + rng.choice(["\\boxed{1}", "The answer is 2.", "<think> 4", "", "a " * 3001]) for p in prompts]
    body = {"query": query, "prompts": prompts, "labels": [rng.choice(LABELS) for _ in prompts]}
    content = json.dumps(body).replace("null", rng.choice(["null", "[3]", '"\\ud800"']), 1)
    return {
        "url": rng.choice(["/get_reward", "/reward"]),
        "params": {"run": "b", "group_size": rng.choice(["1", "1", "0"])},
        "content": content,
        "headers": {"content-type": "application/json"},
    }


def damaged(rng, content):
    """Some bytes are lost, doubled or become others."""
    content = content if isinstance(content, bytes) else content.encode()
    at, to = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    other = [b"", b"\xff", b"1e999", b"\\ud800", b"[" * 2000, b'"', b"{}", rng.randbytes(3), content[at:to] * 2]
    return content[:at] + rng.choice(other) + content[min(to, at + 8) :]


def broken(rng, number):
    method = rng.choice(list(methods()))
    sent = step_of_openrlhf(rng) if number % 4 == 0 else replies.request(f"{rng.choice(['refusal', method])} {number}")
    return sent | {"content": damaged(rng, sent["content"])} if rng.random() < 0.5 else sent


def finite(text):
    assert math.isfinite(float(text)), text
    return float(text)


def check(sent, reply):
    assert reply.status_code < 500 or reply.status_code == 503
    groups = json.loads(reply.content, parse_constant=finite, parse_float=finite)
    if reply.status_code != 200:
        assert groups["status"] == reply.status_code
        assert groups["title"]
        assert groups["detail"]
    elif "rewards" in groups:
        columns = (groups["rewards"], groups["scores"], *groups["extra_logs"].values())
        assert {len(values) for values in columns} == {len(json.loads(sent["content"])["query"])}
        assert all(isinstance(value, int | float) for value in groups["rewards"])
    else:
        frame = sent["headers"]["content-type"] == MEDIA_TYPES[0]
        asked = json.loads(bytes(unpack(sent["content"]).request) if frame else sent["content"])["groups"]
        for group, own in zip(Reply.from_json(groups).groups, asked, strict=True):
            values = [column for column in (group.rewards, group.advantages) if column is not None]
            assert bool(values) == (group.error is None)
            assert {len(column) for column in values} <= {len(own["rollouts"])}


async def answers(count, seed):
    rng, statuses = random.Random(seed), Counter()
    transport = httpx.ASGITransport(create_app(Settings(log="off", page="off", **BOUNDS)))
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for number in range(count):
            sent = broken(rng, 1000 + number)
            reply = await client.post(**sent)
            try:
                check(sent, reply)
            except Exception as error:
                raise AssertionError(f"{reply.status_code} {reply.content[:400]!r} for {sent}") from error
            statuses[sent["url"], reply.status_code] += 1
    return statuses


def test_broken_bodies_have_usable_replies():
    statuses = asyncio.run(answers(400, seed=1))
    assert {url for url, status in statuses if status == 200} == {"/v1/reward", "/reward", "/get_reward"}
    assert {400, 413, 422} <= {status for _, status in statuses}
