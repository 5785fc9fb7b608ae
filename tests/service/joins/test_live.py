"""The join on a socket: recorded requests, thousands of waiters, broken connections, the process's own stop."""

from __future__ import annotations

import asyncio
import json
import random
import signal
import socket
import struct
import threading
from itertools import pairwise
from typing import Any

import pytest
import serving
from serving import connect, head, request, until
from tries import client, count, get, post

from dare_reward import estimate
from dare_reward.openrlhf import rounded as on_grid
from dare_service.problems import STOPPING

pytestmark = pytest.mark.anyio
PATH = "/reward?group_size=2&run=r"


def body(answer: object, prompt: str = "p\n") -> str:
    return json.dumps({"query": [f"{prompt}\\boxed{{{answer}}}<|im_end|>"], "prompts": [prompt], "labels": [""]})


def stopped(service: Any) -> threading.Event:
    """The service's loop stands still from now on, until the event is set."""
    stands, free = threading.Event(), threading.Event()
    service.loop.call_soon_threadsafe(lambda: (stands.set(), free.wait()))
    stands.wait(60)
    return free


@pytest.fixture
def service(live):
    return live()


async def waiting(service: Any, count: int) -> None:
    await until(lambda: service.state.openrlhf.join.waiting == count)


async def have_read(service: Any) -> None:
    """The service has read what was sent before."""
    await asyncio.to_thread(get, f"{service.url}/health")


@pytest.mark.parametrize("waits", [True, False])
async def test_an_end_is_known_before_the_work_on_what_is_read_with_it(service, waits):
    """A proxy cuts a client off and sends its next try over a connection that it kept: a busy loop reads both at once,
    and the try that ended too, where it has not read that before."""
    sent = request(PATH, body(1))
    with connect(service.url, head("/health", method="GET")) as kept, connect(service.url) as cut:
        await asyncio.to_thread(kept.recv, 1 << 16)
        if waits:
            cut.sendall(sent)
            await waiting(service, 1)
        free = stopped(service)
        if not waits:
            cut.sendall(sent)
        kept.sendall(sent)
        cut.close()
        free.set()
        await have_read(service)
        await waiting(service, 1)
        (group,) = service.state.openrlhf.join.open.values()
        assert len(group.members) == 1, "the try took its own place"
        kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await waiting(service, 0)  # a reset is an end too


async def test_an_end_is_known_behind_a_body_that_uvicorn_reads_in_parts(service):
    """Its last part is more than 64 KiB: the service has all of it, and reads on."""
    sent = request(PATH, body("x" * 100_000))
    service.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    with connect(service.url, sent[:1000]) as cut:
        await until(lambda: service.state.admission.held > 0)
        free = stopped(service)
        cut.sendall(sent[1000:])
        free.set()
        await waiting(service, 1)
    await waiting(service, 0)


@pytest.mark.parametrize(("ahead", "at_once"), [(1, 2), (1, 1), (12, 1)])
async def test_an_end_is_known_behind_requests_that_did_not_wait_for_their_replies(service, caplog, ahead, at_once):
    """uvicorn reads no more behind one, and the last one alone would learn of the end: the log would have an error. A
    client that is always ahead is not remembered for longer than its replies."""
    texts = [body(1, prompt=f"p{i}\n") for i in range(ahead + 1)]
    with connect(service.url, b"".join(request(PATH, text) for text in texts[:at_once])) as cut:
        await waiting(service, 1)
        for number, (sibling, text) in enumerate(pairwise(texts[at_once - 1 :]), 1):
            cut.sendall(request(PATH, text))
            if number < ahead:
                assert (await post(service.url + PATH, sibling))[0] == 200
                await waiting(service, 1)
        await have_read(service)
    await waiting(service, 0)
    await have_read(service)
    assert "ASGI" not in caplog.text


async def test_a_client_that_half_closes_is_gone(live):
    """HTTP clients do not do this; an answer of any kind would count as a failure of the service."""
    service = live(join_hold=1.0, join_deadline=2.0)
    for size in (1, 2):
        with connect(service.url, request(f"/reward?group_size={size}&run=r", body(size))) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert await asyncio.to_thread(connection.recv, 1 << 16) == b""


async def test_small_storms_across_the_filling_of_groups(live, monkeypatch):
    """Tries that break before and after their groups close, and come again."""
    monkeypatch.setattr("dare_service.joins.join.SETTLE", 1.0)
    monkeypatch.setattr("dare_service.joins.join.RETRY", 60.0)  # a busy machine takes its time
    service = live(join_hold=20.0)  # a busy machine takes its time
    rng = random.Random(1)
    for k in range(3):
        url = f"{service.url}/reward?group_size=8&run=storm{k}"
        answers = [[rng.randrange(3) for _ in range(8)] for _ in range(8)]

        async def rollout(prompt: int, i: int, answer: int, url: str = url) -> Any:
            text = body(f"{answer}.{'0' * i}", prompt=f"p{prompt}\n")
            for _ in range(2):
                await post(url, text, drop=asyncio.sleep(0.3 * rng.random()))
                await asyncio.sleep(0.1)
            return await client(url, text, gap=0.1)

        tries = [rollout(p, i, a) for p, said in enumerate(answers) for i, a in enumerate(said)]
        replies = await asyncio.gather(*tries)
        groups = [{"rollouts": [{"answer": str(a)} for a in said]} for said in answers]
        wanted = [on_grid(group.rewards) for group in estimate(groups, missing_entropy="frequency").groups]
        assert [r["rewards"][0] for r in replies] == [reward for group in wanted for reward in group]
        assert {r["extra_logs"]["votes"][0] for r in replies} == {8.0}


async def test_who_waited_for_a_process_that_was_slow_to_start_is_due_at_the_end_of_its_first_hold():
    """A supervisor holds the socket, and the machine is busy: its client may have no other try."""
    slow = "import dare_service.server as s\ncreate = s.create_app\ndef long_ago(settings):\n app = create(settings)\n"
    slow += " app.state.dare.openrlhf.join.began = float('-inf')\n return app\ns.create_app = long_ago"
    with serving.service(wrapper=slow, DARE_JOIN_HOLD=0.5) as process:
        status, reply = await post(f"{process.url}/reward?group_size=2&run=r-000000001", body(1))
    assert (status, reply["extra_logs"]["neutral"]) == (200, [1.0])


async def test_sigterm_sends_held_requests_away_at_once_and_the_exit_is_clean():
    with serving.service(DARE_DRAIN=0.5) as process:
        url = process.url
        task = asyncio.ensure_future(post(f"{url}/reward?group_size=2&run=r-000000001", body(1)))
        await until(lambda: count(url, "dare_join_waiting") == 1)
        process.send_signal(signal.SIGTERM)
        status, reply = await asyncio.wait_for(task, 60)
        assert (status, reply["detail"]) == (503, STOPPING)
        assert await asyncio.to_thread(process.wait, 60) == 0
