"""What the join adds to a training step: the time between a group's last rollout and its last reward.

64 prompts x 64 rollouts, a connection each, as OpenRLHF posts them. The wait for slower siblings is the generation's own
and is not counted. `spread`: the groups of a step end one after the other, each of them over a quarter of it, as an engine
that works through a queue of prompts ends them. `burst`: all 4,096 rollouts end in the same instant, the worst case; the
last reward is then the time that it takes to serve them all. The clients share the machine with the service.

    JOIN_PROMPTS=64 pytest tests/bench/test_join_idle.py -s

Without JOIN_PROMPTS it is a quarter of that step, at the same rate.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import pytest

PROMPTS, SAMPLES = int(os.environ.get("JOIN_PROMPTS", "16")), 64
SECONDS, WIDTH = PROMPTS * 20 / 64, PROMPTS * 5 / 64
TEXT = "We compute the sum of the terms one after the other and simplify. " * 60  # 4 kB, with a box at its end


async def post(url: str, content: bytes) -> tuple[int, float, float]:
    """Status, and when the request was sent and the reply was there."""
    address, _, path = url.removeprefix("http://").partition("/")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /{path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(content)}\r\nContent-Type: application/json\r\n\r\n"
    sent = time.perf_counter()
    writer.write(head.encode() + content)
    answer = await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]))
    done = time.perf_counter()
    writer.close()
    return int(answer.split(b" ")[1]), sent, done


async def run(url: str, seconds: float) -> np.ndarray:
    """Idle time of each group in seconds; the groups end at times spread over `seconds`."""
    rng = random.Random(1)

    async def rollout(prompt: int, wait: float) -> tuple[int, float, float]:
        answer = rng.choice([1, 1, 1, 2, 3, 4])
        query = f"prompt {prompt}\n{TEXT}\\boxed{{{answer}}}<|im_end|>"
        content = json.dumps({"query": [query], "prompts": [f"prompt {prompt}\n"], "labels": [""]}).encode()
        await asyncio.sleep(wait)
        return await post(url, content)

    width = min(WIDTH, seconds)
    starts = [(seconds - width) * p / PROMPTS for p in range(PROMPTS)]
    waits = [[start + rng.random() * width for _ in range(SAMPLES)] for start in starts]
    found = await asyncio.gather(*(rollout(p, w) for p, group in enumerate(waits) for w in group))
    assert {status for status, _, _ in found} == {200}
    times = np.array([f[1:] for f in found]).reshape(PROMPTS, SAMPLES, 2)
    return times[:, :, 1].max(axis=1) - times[:, :, 0].max(axis=1)


@pytest.mark.bench
@pytest.mark.parametrize("seconds", [SECONDS, 0.0], ids=["spread", "burst"])
def test_idle_time_that_the_join_adds(seconds, capsys):
    code = "import sys; from dare_reward.cli import main; sys.exit(main(['serve', '--port', '0']))"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "DARE_LOG": "error"}, **pipes) as service:
        try:
            url = service.stdout.readline().split()[-1] + f"/reward?group_size={SAMPLES}&run=bench"
            idle = 1e3 * asyncio.run(run(url, seconds))
        finally:
            service.terminate()
    with capsys.disabled():
        figures = ", ".join(f"p{q} {np.percentile(idle, q):.1f} ms" for q in (50, 90, 99, 100))
        print(f"\n{PROMPTS} x {SAMPLES} rollouts over {seconds:g} s: idle time added per group: {figures}")
