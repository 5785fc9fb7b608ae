"""What the run log costs: `pytest tests/bench/test_run_log_bench.py -s`. Two services, one with it, in turns."""

import json
import statistics
import sys
import time

import httpx
import numpy as np
import pytest

from dare_reward.runs import read_run

pytestmark = pytest.mark.bench
JSON = {"content-type": "application/json"}
ROUNDS, BLOCK = 10, 4
CODE = "import os, sys; os.environ['DARE_RUN_LOG'] = sys.argv[1]; from dare_reward.cli import main; sys.exit(main(sys.argv[2:]))"


@pytest.fixture(scope="module")
def pair(start_server, unused_port, tmp_path_factory):
    """A service without and one with a run log, and the folder."""
    folder = tmp_path_factory.mktemp("runs")
    off_command, on_command = (
        [sys.executable, "-c", CODE, where, "serve", "--port", unused_port()] for where in ("", str(folder))
    )
    with start_server(off_command) as off, start_server(on_command) as on:
        yield off, on, folder


def body(groups, rollouts):
    rng = np.random.default_rng(3)
    answers, entropies = rng.integers(0, 12, (groups, rollouts)), rng.gamma(2, 0.1, (groups, rollouts))
    rows = [
        [{"answer": str(a), "mean_entropy": float(h), "num_tokens": 900} for a, h in zip(*pair)]
        for pair in zip(answers.tolist(), entropies.tolist())
    ]
    return {"run": "bench", "groups": [{"group_id": str(p), "rollouts": own} for p, own in enumerate(rows)]}


@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["back to back", "with a pause"])
def test_latency_and_cpu(pair, report, pause):
    """Blocks of requests to one service and the other in turns; what the log writes in a pause counts as CPU too."""
    off, on, folder = pair
    content = json.dumps(body(128, 64)).encode()
    times, cpu = {off.url: [], on.url: []}, {}
    with httpx.Client(timeout=60) as client:
        for server in (off, on):
            for _ in range(5):
                client.post(server.url + "/reward", content=content, headers=JSON)
        time.sleep(1)
        before = {server.url: server.cpu() for server in (off, on)}
        for turn in range(ROUNDS):
            for server in (off, on) if turn % 2 else (on, off):
                for _ in range(BLOCK if not pause else 2):
                    begun = time.perf_counter()
                    assert client.post(server.url + "/reward", content=content, headers=JSON).status_code == 200
                    times[server.url].append(1e3 * (time.perf_counter() - begun))
                    time.sleep(pause)
        time.sleep(2)
        cpu = {server.url: 1e3 * (server.cpu() - before[server.url]) for server in (off, on)}
        info = client.get(on.url + "/info").json()["run_log"]
    medians = {url: statistics.median(found) for url, found in times.items()}
    count = len(times[on.url])
    scoring, extra = cpu[off.url] / count, (cpu[on.url] - cpu[off.url]) / count
    report(
        f"run log, 128 x 64 means, {'back to back' if not pause else f'a pause of {pause} s'}, {count} requests",
        f"latency {medians[off.url]:.1f} -> {medians[on.url]:.1f} ms ({100 * (medians[on.url] / medians[off.url] - 1):+.1f} %)",
        f"CPU {scoring:.1f} ms, and {extra:.1f} ms of the log ({100 * extra / scoring:.0f} %)",
        "latency + 3 %, CPU + 50 %",
    )
    assert info["dropped"] == info["failed"] == 0
    assert extra < scoring
    assert sum(1 for _ in read_run(folder)) == info["flushed"]
