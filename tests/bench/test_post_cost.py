"""What a single rollout costs the server, beside `/health` on a new connection, in the same run.

    pytest tests/bench/test_post_cost.py -s

CPU time of the service's process for each request, every one on a connection of its own at a steady pace: `/health`, a
rollout of 2 kB in a group of 64, and the least that this server could take for such a post: uvicorn with our
connections, an application that reads the JSON and returns a reply of the usual length.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench
ROLLOUTS, SAMPLES, RATE, TRIES = 1536, 64, 600, 3
SERVE = "import sys; from dare_reward.cli import main; sys.exit(main())"
FLOOR = textwrap.dedent("""
    import socket, uvicorn
    from pydantic_core import from_json
    from dare_service.uvicorn_connection import Connection
    async def app(scope, receive, send):
        body = (await receive())["body"]
        from_json(body)
        headers = [(b"content-type", b"application/json"), (b"content-length", b"700")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b" " * 700})
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    server = uvicorn.Server(uvicorn.Config(app, http=Connection, lifespan="off", log_level="error", access_log=False))
    server.run([listener])
""")


class Reply(asyncio.Protocol):
    """One request on one connection; `done` has the status."""

    def __init__(self, request: bytes, done: asyncio.Future[int]) -> None:
        self.request, self.done, self.received = request, done, b""

    def connection_made(self, transport) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.received += data
        head, _, body = self.received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if length and len(body) >= int(length[1]) and not self.done.done():
            self.done.set_result(int(self.received[9:12]))
            self.transport.close()


async def paced(port: int, requests: list[bytes]) -> list[int]:
    loop = asyncio.get_running_loop()
    begun, replies, made = loop.time(), [], []
    for n, request in enumerate(requests):
        await asyncio.sleep(max(begun + n / RATE - loop.time(), 0))
        done = loop.create_future()
        replies.append(done)
        connect = loop.create_connection(lambda r=request, d=done: Reply(r, d), "127.0.0.1", port)
        made.append(asyncio.ensure_future(connect))
    await asyncio.gather(*made)
    return await asyncio.wait_for(asyncio.gather(*replies), 120)


def cpu(process) -> float:
    """Seconds of CPU, of all threads."""
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks) / 1e9


def started(program: str, *arguments: str):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")}
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, int(process.stdout.readline().rpartition(":")[2])


def posts(run: str) -> list[bytes]:
    """Four groups at a time, rollout by rollout."""
    chance, out = random.Random(run), []
    for group in range(0, ROLLOUTS // SAMPLES, 4):
        for _ in range(SAMPLES):
            for prompt in range(group, group + 4):
                text = "".join(chance.choices("abcdef \n", k=2000)) + f" So it is \\boxed{{{chance.randrange(5)}}}."
                body = {"query": [f"Problem {run} {prompt}?{text}"], "prompts": [f"Problem {run} {prompt}?"]}
                content = json.dumps({**body, "labels": [""]}).encode()
                head = f"POST /get_reward?group_size={SAMPLES}&run={run}-000000001 HTTP/1.1\r\nHost: localhost\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
                out.append(head.encode() + content)
    return out


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_single_posts(capsys):
    service, port = started(SERVE, "serve", "--port", "0")
    least, least_port = started(FLOOR)
    health = [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"] * ROLLOUTS

    def cost(process, at: int, requests: list[bytes]) -> float:
        before = cpu(process)
        assert set(asyncio.run(paced(at, requests))) == {200}
        return 1e6 * (cpu(process) - before) / len(requests)

    try:
        cost(service, port, posts("warm"))
        with capsys.disabled():
            print(f"\n{'CPU us a request':18}{'/health':>9}{'rollout':>9}{'least':>9}{'rollout / health':>18}")
            for k in range(TRIES):
                probe, floor = cost(service, port, health), cost(least, least_port, posts(f"f{k}"))
                one = cost(service, port, posts(f"r{k}"))
                print(f"{k + 1:<18}{probe:9.0f}{one:9.0f}{floor:9.0f}{one / probe:18.2f}")
    finally:
        for process in (service, least):
            process.kill()
            process.communicate()
