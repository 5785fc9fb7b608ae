"""What run log and page cost: `pytest tests/bench/test_run_log_bench.py -s`. Services with and without, in turns."""

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
ROUNDS, BLOCK = 12, 4
CODE = """
import os, sys
os.environ.update(dict(pair.split("=", 1) for pair in sys.argv[1].split()))
if "FLOOR" in os.environ:  # the least that a log in this process could do: a thread appends the replies to a file
    import queue, threading
    from dare_service.run_recorder import RunRecorder
    waiting, file = queue.SimpleQueue(), open(os.environ["FLOOR"], "ab", 0)
    def write():
        while True:
            file.write(b"\\n".join(waiting.get()))
    threading.Thread(target=write, daemon=True).start()
    RunRecorder.record = lambda self, scored, groups, encoded, **rest: waiting.put(encoded)
from dare_reward.cli import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def services(start_server, unused_port, tmp_path_factory):
    """A service without run log and page, one with both, one that does the least; and the folder."""
    folder = tmp_path_factory.mktemp("runs")
    off, on, least = (
        [sys.executable, "-c", CODE, settings, "serve", "--port", unused_port()]
        for settings in (
            "DARE_RUN_LOG=off",
            f"DARE_RUN_LOG={folder}",
            f"DARE_RUN_LOG=off FLOOR={folder.parent / 'floor'}",
        )
    )
    with start_server(off) as off, start_server(on) as on, start_server(least) as least:
        yield {"off": off, "on": on, "floor": least}, folder


def body(groups, rollouts):
    rng = np.random.default_rng(3)
    answers, entropies = rng.integers(0, 12, (groups, rollouts)), rng.gamma(2, 0.1, (groups, rollouts))
    rows = [
        [{"answer": str(a), "mean_entropy": float(h), "num_tokens": 900} for a, h in zip(*pair)]
        for pair in zip(answers.tolist(), entropies.tolist())
    ]
    return {"run": "bench", "groups": [{"group_id": str(p), "rollouts": own} for p, own in enumerate(rows)]}


@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["back to back", "with a pause"])
def test_latency_and_cpu(services, report, pause):
    """Blocks of requests to each service in turns; what is written in a pause counts as CPU too."""
    servers, folder = services
    content = json.dumps(body(128, 64)).encode()
    times, block = {name: [] for name in servers}, 2 if pause else BLOCK
    with httpx.Client(timeout=60) as client:

        def ask(server):
            begun = time.perf_counter()
            assert client.post(server.url + "/reward", content=content, headers=JSON).status_code == 200
            return 1e3 * (time.perf_counter() - begun)

        for server in servers.values():
            for _ in range(5):
                ask(server)
        time.sleep(3)
        before = {name: server.cpu(children=True) for name, server in servers.items()}
        for turn in range(ROUNDS):
            names = list(servers)[turn % 3 :] + list(servers)[: turn % 3]
            for name in names:
                for _ in range(block):
                    times[name].append((turn, ask(servers[name])))
                    time.sleep(pause)
                time.sleep(0.3)  # what is left to do does not disturb the next service
        time.sleep(3)
        spent = {
            name: 1e3 * (server.cpu(children=True) - before[name]) / len(times[name])
            for name, server in servers.items()
        }
        info = client.get(servers["on"].url + "/info").json()["run_log"]
    middle = {name: statistics.median(ms for _, ms in own) for name, own in times.items()}
    best = {
        name: statistics.median(min(ms for t, ms in own if t == turn) for turn in range(ROUNDS))
        for name, own in times.items()
    }

    def more(of, name):
        return f"{100 * (of[name] / of['off'] - 1):+.1f} %"

    report(
        f"log and page, 128 x 64 means, {'back to back' if not pause else f'a pause of {pause} s'}, {len(times['on'])} requests each",
        f"latency {middle['off']:.1f} -> {middle['on']:.1f} ms ({more(middle, 'on')}; best of a block {more(best, 'on')}), "
        f"CPU {spent['off']:.1f} -> {spent['on']:.1f} ms ({more(spent, 'on')})",
        f"a bare thread: latency {more(middle, 'floor')} (best {more(best, 'floor')}), CPU {more(spent, 'floor')}",
        "latency + 3 %, CPU + 50 %",
    )
    assert info["dropped"] == info["failed"] == 0
    assert spent["on"] < 2 * spent["off"]
    assert sum(1 for _ in read_run(folder)) == info["flushed"] > 0
