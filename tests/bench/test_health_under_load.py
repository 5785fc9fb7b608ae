"""`/health` while the worst bodies of up to 1 MiB are answered, beside an idle service, in one run.

    pytest tests/bench/test_health_under_load.py -s

Every body goes to one service, one after the other, while another connection asks for `/health` every 20 ms. The figure is
the worst `/health` of a try, and the best try of three: on a busy machine one in many probes waits for a processor,
whatever the service does. HEALTH_BODIES names some of the bodies.

The second test asks what the service itself is to blame for. It scores the bodies in process on a thread, and prints the
most CPU time that passed while another thread, which only wants to wake up every millisecond, could not.
"""

from __future__ import annotations

import contextlib
import gc
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest

from dare_reward.groups import Ragged
from dare_reward.wire import pack
from dare_service.body import form
from dare_service.reward_request import Call, RequestScorer, work
from dare_service.run_recorder import RunRecorder
from dare_service.server import steady
from dare_service.settings import Settings

pytestmark = pytest.mark.bench
MIB, TRIES = 1 << 20, 3
SERVE = "import sys; from dare_reward.cli import main; sys.exit(main())"
FRAME = "application/vnd.safetensors"
HARD = r"\binom{x}{e}+|(a)^{0.1}-\Gamma(i)|\pm \sqrt{\tan(\binom{\pi}{a})+|(a)^{%d.1}-\Gamma(i)|}"
FREQUENCY = "/reward?missing_entropy=frequency"


def dumped(body: Any) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def empty(rollouts: int, size: int = 1024, first: Any = None) -> bytes:
    groups = [{"rollouts": [{}] * size} for _ in range(rollouts // size)]
    if first is not None:
        groups[0] = {"rollouts": [first, *[{}] * (size - 1)]}
    return dumped({"groups": groups})


def ids(lengths: list[int], *, distinct: bool) -> bytes:
    values = np.arange(sum(lengths)) if distinct else np.zeros(sum(lengths))
    rollouts = {"groups": [{"rollouts": [{"answer": "1"}] * len(lengths)}]}
    return pack(rollouts, {"token_ids": Ragged(values.astype(np.int32), np.array(lengths))})


def filled(element: str, key: str = "meta", size: int = MIB) -> bytes:
    entries = ",".join([element] * ((size - 40) // (len(element) + 1)))
    return (f'{{"groups":[],"meta":{{"a":[{entries}]}}}}' if key == "meta" else f'{{"{key}":[{entries}]}}').encode()


def traces(element: str) -> bytes:
    entries = ",".join([element] * ((MIB - 80) // (len(element) + 1)))
    return f'{{"groups":[{{"rollouts":[{{"answer":"1","topk_logprobs":[{entries}]}}]}}]}}'.encode()


def batch(count: int, **lists: Any) -> bytes:
    body = {"query": [""] * count, "prompts": [str(i // 8) for i in range(count)], "labels": [""] * count, **lists}
    return dumped(body)


def answers(count: int, form: str = HARD, **group: Any) -> bytes:
    return dumped({"groups": [{**group, "rollouts": [{"answer": form % i} for i in range(count)]}]})


def label(text: str, kind: str) -> bytes:
    rollouts = [{"answer": a, "mean_entropy": 0.1} for a in "ABCDEFGH"]
    return dumped({"groups": [{"kind": kind, "label": text, "rollouts": rollouts}]})


def evaluations(count: int) -> bytes:
    lists = {"query": ["p\\boxed{%s}" % (HARD % i) for i in range(count)], "prompts": ["p"] * count}
    return dumped(
        {**lists, "labels": [json.dumps({"answer": HARD % (i + 10**6), "split": "eval"}) for i in range(count)]}
    )


LONG = HARD % 0 + "+" + "0+" * 90 + "0"
LABELS = {"frac": "\\frac{1}{" * 20_000, "list": "1," * 100_000, "tags": "<b>" * 80_000, "marks": "\u0301" * 80_000}
SEARCHED = {"query": ["a " * (MIB // 2 - 100) + "b"], "prompts": ["a" * 63 + "c"]}
BODIES: dict[str, tuple[str, bytes]] = {
    "one embedding among 32,768": ("/reward", empty(32_768, first={"embedding": [0] * 4000})),
    "one embedding of 400,000": ("/reward", empty(32_768, first={"embedding": [0] * 400_000})),
    "one trace among 16,384": ("/reward?method=deepconf", empty(16_384, first={"topk_logprobs": [[0, -1]] * 2000})),
    "distinct token ids": (FREQUENCY, ids([4000] * 64, distinct=True)),
    "one long rollout of ids": (FREQUENCY, ids([250_000] + [1] * 63, distinct=False)),
    "rollouts without anything": ("/reward", empty(32_768)),
    "350,000 rollouts": ("/reward", empty(348_160)),
    "empty lists": ("/reward", filled("[]")),
    "empty objects": ("/reward", filled("{}")),
    "zeros": ("/reward", filled("0")),
    "keys": ("/reward", dumped({"groups": [], "meta": {str(i): 0 for i in range(90_000)}})),
    "rows of one": ("/reward?method=deepconf", traces("[0]")),
    "rows of two": ("/reward?method=deepconf", traces("[0,0]")),
    "rows of two, half as many": ("/reward?method=deepconf", traces("[0.25,-1.5]")),
    "distinct answers": (FREQUENCY, dumped({"groups": [{"rollouts": [{"answer": str(i)} for i in range(1024)]}] * 32})),
    "72 hard answers, 8 KiB": (FREQUENCY, answers(72)),
    "1,024 hard answers": (FREQUENCY, answers(1024)),
    "a long label, 200 answers": (FREQUENCY, answers(200, "%d", label=LONG)),
    "a long label, 1,024 answers": (FREQUENCY, answers(1024, "%d", label=LONG)),
    **{
        f"label of {n}, {kind}": ("/reward", label(text, kind))
        for n, text in LABELS.items()
        for kind in ("math", "text")
    },
    "the prompt's characters, spread": ("/get_reward?group_size=2&run=x", dumped({**SEARCHED, "labels": [""]})),
    "OpenRLHF, unknown key": ("/get_reward?group_size=2", filled("[]", "query")),
    "OpenRLHF, 32,768 rollouts": ("/get_reward", batch(32_768)),
    "OpenRLHF, 32,768 groups": ("/get_reward", batch(32_768, prompts=[str(i) for i in range(32_768)])),
    "OpenRLHF, 64 hard evaluations": ("/get_reward", evaluations(64)),
    "OpenRLHF, 2,048 hard evaluations": ("/get_reward", evaluations(2048)),
}


class Probe:
    """Asks for `/health` on new connections until it is told to stop."""

    def __init__(self, port: int) -> None:
        self.port, self.seconds, self.end = port, [], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.end.wait(0.02):
            begun = time.perf_counter()
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            connection.request("GET", "/health")
            assert connection.getresponse().status == 200
            connection.close()
            self.seconds.append(time.perf_counter() - begun)

    def worst(self) -> float:
        """Milliseconds."""
        self.end.set()
        self.thread.join()
        return 1e3 * max(self.seconds)


def tried(client: httpx.Client, port: int, path: str, body: bytes) -> tuple[float, float, float, int | str]:
    """The worst `/health` while the body is answered and beforehand, in ms; the seconds; the status."""
    probe = Probe(port)
    time.sleep(0.5)
    idle, probe = probe.worst(), Probe(port)
    time.sleep(0.1)
    status: int | str = "waits"
    begun = time.perf_counter()
    with contextlib.suppress(httpx.ReadTimeout):
        media = "application/json" if body[:1] == b"{" else FRAME
        status = client.post(path, content=body, headers={"content-type": media}).status_code
    return probe.worst(), idle, time.perf_counter() - begun, status


def chosen() -> dict[str, tuple[str, bytes]]:
    names = os.environ.get("HEALTH_BODIES", "")
    return {name: BODIES[name] for name in names.split(";")} if names else BODIES


def test_health(capsys) -> None:
    command = [sys.executable, "-c", SERVE, "serve", "--port", "0"]
    service = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = int(service.stdout.readline().rpartition(":")[2])
    client = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10, trust_env=False)
    try:
        with capsys.disabled():
            print(f"\n{'body':36}{'KiB':>7}{'status':>8}{'s':>7}{'/health ms':>12}{'idle ms':>9}{'ratio':>7}")
            for name, (path, body) in chosen().items():
                tries = [tried(client, port, path, body) for _ in range(TRIES)]
                worst, _, seconds, status = min(tries)
                idle = min(t[1] for t in tries)
                line = f"{name:36}{len(body) / 1024:7.0f}{status:>8}{seconds:7.2f}{worst:12.0f}{idle:9.0f}"
                print(f"{line}{worst / idle:7.1f}")
    finally:
        client.close()
        service.kill()
        service.communicate()


def longest_hold(scorer: RequestScorer, call: Call) -> float:
    """Milliseconds of CPU."""

    def score() -> None:
        with contextlib.suppress(Exception):  # a refusal is work too
            work(scorer, call, lambda: None)

    gaps = [0.0]
    thread = threading.Thread(target=score)
    thread.start()
    while thread.is_alive():
        before = time.process_time()
        time.sleep(1e-3)
        gaps.append(time.process_time() - before)
    thread.join()
    return 1e3 * max(gaps)


def test_longest_holds(capsys) -> None:
    settings = Settings(log="off")
    scorer, before = (
        RequestScorer.of(settings, RunRecorder(settings, None)),
        (sys.getswitchinterval(), gc.get_threshold()),
    )
    steady()  # as the service does
    try:
        with capsys.disabled():
            print(f"\n{'body':36}{'ms of CPU':>11}")
            for name, (path, body) in chosen().items():
                if not path.startswith("/reward"):
                    continue
                asked = dict(pair.split("=") for pair in path.partition("?")[2].split("&") if pair)
                kind = form({"content-type": "application/json" if body[:1] == b"{" else FRAME}, settings)
                call = Call(bytearray(body), kind, asked, "id", "application/json")
                print(f"{name:36}{min(longest_hold(scorer, call) for _ in range(TRIES)):11.1f}", flush=True)
    finally:
        sys.setswitchinterval(before[0])
        gc.set_threshold(*before[1])
