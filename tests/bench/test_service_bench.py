"""What a request costs the service: `pytest tests/bench -s` prints it, beside a memcpy of the same bytes and an idle probe.

Server CPU is what the scheduler counted for the service's threads; the best of five runs. Machines are noisy, so only
wide ratios are asserted; absolute figures and their goals are printed.
"""

import json
import sys
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from dare_reward.groups import Ragged
from dare_reward.wire import pack

pytestmark = pytest.mark.bench
RUNS = 5
MIB = 1 << 20
JSON = {"content-type": "application/json"}
FRAME = {"content-type": "application/vnd.safetensors"}


@pytest.fixture(scope="module")
def naive(start_server, unused_port):
    with start_server([sys.executable, str(Path(__file__).with_name("naive.py")), unused_port()]) as found:
        yield found


def memcpy(size):
    """Milliseconds to copy so many bytes, best of many."""
    source, target = np.ones(size, np.uint8), np.empty(size, np.uint8)
    best = float("inf")
    for _ in range(30):
        start = time.perf_counter()
        np.copyto(target, source)
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def tokens(groups, rollouts, length):
    rng = np.random.default_rng(0)
    return rng.gamma(0.3, 1.0, (groups, rollouts, length)).astype(np.float32)


def bare(groups, rollouts):
    rng = np.random.default_rng(1)
    return {
        "groups": [
            {"group_id": f"g{p}", "rollouts": [{"answer": str(a)} for a in rng.integers(0, 12, rollouts)]}
            for p in range(groups)
        ]
    }


def frame(values):
    lengths = np.full(values.shape[0] * values.shape[1], values.shape[2])
    return pack(bare(*values.shape[:2]), {"token_entropies": Ragged(values.reshape(-1), lengths)})


def test_frame_against_the_naive_route(server, naive, report):
    values = tokens(32, 64, 1024)
    groups = [
        {"group_id": str(p), "answers": ["1"] * 64, "token_entropies": rows} for p, rows in enumerate(values.tolist())
    ]
    slow = naive.cost(json.dumps({"groups": groups}).encode(), JSON, "/reward", runs=3)
    fast = server.cost(frame(values), FRAME)
    floor = memcpy(values.nbytes)
    report("naive FastAPI route, 32 x 64 x 1,024 entropies", f"{slow:.0f} ms CPU", f"memcpy {floor:.2f} ms", "")
    report(
        "frame, the same",
        f"{fast:.1f} ms CPU, 1/{slow / fast:.0f} of it",
        f"{fast / floor:.0f} x memcpy",
        "at most 1/40",
    )
    assert fast < slow / 15


def test_a_step_of_means(server, report):
    body = bare(128, 64)
    rng = np.random.default_rng(2)
    for group in body["groups"]:
        for rollout in group["rollouts"]:
            rollout |= {"mean_entropy": float(rng.gamma(2, 0.1)), "num_tokens": 900}
    content, probe = json.dumps(body).encode(), server.probe()
    for detail in ("rewards", "full"):
        cost = server.cost(content, JSON, f"/v1/reward?detail={detail}")
        report(
            f"128 x 64 means, answers given, detail={detail}",
            f"{cost:.1f} ms CPU",
            f"{cost / probe:.0f} x an idle probe of {probe * 1e3:.0f} us",
            "at most 60 ms",
        )
        assert cost < 600 * probe


def test_health_while_a_large_frame_arrives(server, report):
    content = frame(tokens(128, 64, 3072))
    assert len(content) > 96 * MIB
    idle = server.memory()
    worst, peak = [], []
    for _ in range(RUNS):
        thread = threading.Thread(target=server.cost, args=(content, FRAME), kwargs={"runs": 1})
        slowest = 0.0
        with httpx.Client() as client:
            client.get(server.url + "/health")
            thread.start()
            while thread.is_alive():
                start = time.perf_counter()
                client.get(server.url + "/health")
                slowest = max(slowest, time.perf_counter() - start)
                peak.append(server.memory())
                time.sleep(0.002)
        thread.join()
        worst.append(slowest * 1e3)
    report(
        "slowest /health while a 96 MiB frame is received and scored",
        f"{min(worst):.0f} ms (runs: {', '.join(f'{w:.0f}' for w in worst)})",
        f"memcpy {memcpy(len(content)):.0f} ms",
        "at most 50 ms",
    )
    extra = (server.memory("VmHWM") - idle) / len(content)
    report("peak memory for it above idle", f"{extra:.2f} x the body", "1 x", "at most 1.5 x")
    assert extra < 1.75
    report(
        "96 MiB frame, whole request",
        f"{server.cost(content, FRAME, runs=3):.0f} ms CPU",
        f"memcpy {memcpy(len(content)):.0f} ms",
        "",
    )


def test_json_of_token_entropies(server, report):
    values = tokens(32, 64, 256)
    body = bare(32, 64)
    for group, rows in zip(body["groups"], values.tolist()):
        for rollout, row in zip(group["rollouts"], rows):
            rollout["token_entropies"] = row
    content = json.dumps(body).encode()
    cost = server.cost(content, JSON, runs=3)
    report(
        f"JSON, 32 x 64 x 256 entropies ({len(content) / MIB:.0f} MiB)",
        f"{cost:.0f} ms CPU",
        f"memcpy {memcpy(len(content)):.1f} ms",
        "use a frame or means",
    )


def test_bad_input(server, report, inputs_of):
    """The suite compares what these cost with parsing good numbers; here are the milliseconds."""
    refusals = inputs_of("service/test_refusals.py")
    numbers = b"[" + b"0.12345," * (refusals.MIB3 // 8) + b"1]"
    start = time.process_time()
    json.loads(numbers)
    floor = 1e3 * (time.process_time() - start)
    with httpx.Client(timeout=60) as client:
        for name, content in (refusals.EXPENSIVE | refusals.TOO_MANY).items():
            best = float("inf")
            for _ in range(RUNS):
                before = server.cpu()
                assert client.post(server.url + "/v1/reward", content=content, headers=JSON).status_code >= 400
                best = min(best, server.cpu() - before)
            report(
                f"refused, {len(content) / MIB:.0f} MiB: {name}",
                f"{1e3 * best:.1f} ms CPU",
                f"json.loads of as many good numbers {floor:.0f} ms",
                "",
            )
