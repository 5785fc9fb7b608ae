"""What a request costs through Ray Serve, against the plain service in the same run.

Prints the processor time of all processes of each service for one request, and the median that a client waits, in
turns. It runs where Ray is: `.stacks/ray/bin/python -m pytest -m ray tests/bench/test_ray_bench.py -s`.
"""

import asyncio
import json
import os
import statistics
import time
from pathlib import Path

import pytest
from tries import processes, service, step

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]
GROUPS, SIZE, ROUNDS, CALLS = 16, 16, 5, 40
TICK = os.sysconf("SC_CLK_TCK")


def cpu(pid):
    """Seconds of processor time of the process and all below it."""
    known = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        known[int(folder.name)] = (int(words[1]), (int(words[11]) + int(words[12])) / TICK)
    below = {pid}
    for _ in range(8):
        below |= {child for child, (parent, _) in known.items() if parent in below}
    return sum(known[child][1] for child in below if child in known)


async def grouped(url):
    """The median of some grouped requests on one connection."""
    group = {"rollouts": [{"answer": str(i % 5), "mean_entropy": 0.1 * i} for i in range(64)]}
    body = json.dumps({"groups": [group] * 8}).encode()
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /reward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    taken = []
    for _ in range(CALLS):
        begun = time.perf_counter()
        writer.write(head.encode() + body)
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(answer.partition("content-length: ")[2].partition("\r\n")[0]))
        taken.append(time.perf_counter() - begun)
    writer.close()
    return 1e3 * statistics.median(taken)


def measured(process, round_):
    begun, spent = time.perf_counter(), cpu(process.pid)
    found = asyncio.run(step(process.url, GROUPS, SIZE, run=f"r{round_}"))
    seconds, spent = time.perf_counter() - begun, cpu(process.pid) - spent
    assert None not in found
    return {
        "ms of CPU a rollout": 1e3 * spent / len(found),
        "rollouts a second": len(found) / seconds,
        "ms a grouped request": asyncio.run(grouped(process.url)),
    }


def test_what_ray_serve_costs():
    with service() as plain, service("--replicas", "4") as ray_serve:
        processes(ray_serve.url, 4)
        services = {"plain": plain, "Ray Serve": ray_serve}
        rounds = [{name: measured(s, i) for name, s in services.items()} for i in range(ROUNDS)]
    for what in rounds[0]["plain"]:
        one, other = ([r[name][what] for r in rounds[1:]] for name in services)
        ratio = statistics.median(b / a for a, b in zip(one, other, strict=True))
        print(
            f"{what}: plain {statistics.median(one):.2f}, Ray Serve {statistics.median(other):.2f}, ratio {ratio:.2f}"
        )
