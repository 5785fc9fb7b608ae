"""What the benches share: CPU of processes as the scheduler counts it, servers, and the texts and bodies that are sent."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from serving import free_port

JSON, FRAME = {"content-type": "application/json"}, {"content-type": "application/vnd.safetensors"}
SERVE = "import sys; from dare_reward.cli import main; sys.exit(main(['serve', '--port', sys.argv[1]]))"
PEERS = str(Path(__file__).with_name("peer_servers.py"))
QUIET = 0.5  # seconds after a request in which what it leaves behind is done
# As in the image: without both, a large buffer is given back to the kernel and faulted in again at every request.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


class Server:
    """A process of somebody's, and the address that it serves."""

    def __init__(self, pid: int, url: str) -> None:
        self.pid, self.url = pid, url

    def cpu(self) -> float:
        """Milliseconds on a processor, over all threads, of it and of the processes that it has started."""
        pids, spent = [self.pid], 0
        for pid in pids:
            for task in Path(f"/proc/{pid}/task").glob("*"):
                try:
                    spent += int((task / "schedstat").read_text().split()[0])
                    pids += map(int, (task / "children").read_text().split())
                except OSError:  # it has just ended
                    continue
        return spent / 1e6


def environment(**more: str) -> dict[str, str]:
    """This process's, without settings of the service, which a bench brings itself."""
    without = "PYTHONDONTWRITEBYTECODE"  # else each start compiles everything anew
    kept = {k: v for k, v in os.environ.items() if not k.startswith("DARE_") and k != without}
    return {**kept, **MALLOC, "DARE_LOG": "off", **more}


@contextmanager
def started(command: Sequence[str], env: Mapping[str, str]) -> Iterator[Server]:
    """The server that the command starts, with a port behind it, once it answers."""
    port = str(free_port())
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, *command, port], env=dict(env), **quiet)
    url = f"http://127.0.0.1:{port}"
    try:
        while True:
            try:
                httpx.get(url + "/health")
                break
            except httpx.TransportError:
                if process.poll() is not None:
                    raise SystemExit(f"{' '.join(command)} ended with {process.returncode}") from None
                time.sleep(0.02)
        yield Server(process.pid, url)
    finally:
        process.terminate()
        process.wait()


def post(
    client: httpx.Client,
    server: Server,
    content: bytes,
    headers: Mapping[str, str],
    path: str,
    *,
    all_of_it: bool = False,
) -> float:
    """CPU milliseconds of the server until its reply, or of all that comes of the request."""
    before = server.cpu()
    reply = client.post(server.url + path, content=content, headers=headers)
    done = server.cpu()
    if reply.status_code != 200:
        raise SystemExit(f"{path}: {reply.text[:300]}")
    time.sleep(QUIET)
    return (server.cpu() if all_of_it else done) - before


def in_turns(rounds: int, costs: Mapping[str, Callable[[int], float]]) -> dict[str, float]:
    """The least that each costs in so many rounds, after one that warms up."""
    spent = [{name: cost(n) for name, cost in costs.items()} for n in range(rounds + 1)]
    return {name: min(each[name] for each in spent[1:]) for name in costs}


def own_cpu(work: Callable[[], object], times: int, *, before: Callable[[], object] = lambda: None) -> float:
    """CPU milliseconds of this process, the least of many times; `before` each it is made cold."""
    least = float("inf")
    for _ in range(times):
        before()
        begun = time.process_time()
        work()
        least = min(least, 1e3 * (time.process_time() - begun))
    return least


def command_cpu(program: str, *arguments: str, env: Mapping[str, str] | None = None) -> tuple[float, int]:
    """CPU milliseconds and the peak of memory in MiB of a process that runs a program of Python."""
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([sys.executable, "-c", program, *arguments], env=dict(env or environment()), **silent)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in {0, 1}:  # 1: calibrate's "the vote, or undecided"
        raise SystemExit(f"{' '.join(arguments) or program} ended with {process.returncode}")
    return 1e3 * (used.ru_utime + used.ru_stime), used.ru_maxrss // 1024


# --- what is sent -----------------------------------------------------------------------------------------------------

SAID = (
    "We expand the product and collect the terms, so that $x^2 - {a}x + {b} = 0$.\n",
    "The sum of the roots is {a}, and their product is {b}: both are positive.\n",
    r"Hence \(\frac{{{a}}}{{{b}}} < 1\), and the inequality holds for every $n \ge {a}$. ",
    "Let me check this with a small case: for n = {b} we get {a} ways, which is right.\n\n",
    r"\[ \sum_{{k=1}}^{{{b}}} k = \frac{{{b} \cdot ({b}+1)}}{{2}} \]" + "\n",
    "**Step {a}:** if the first is odd, then the second is even, and there are {b} such pairs. ",
)


def said(rng: random.Random, length: int) -> str:
    """A solution of about so many characters, without its answer."""
    parts: list[str] = []
    while sum(map(len, parts)) < length:
        parts.append(rng.choice(SAID).format(a=rng.randrange(2, 99), b=rng.randrange(2, 99)))
    return "".join(parts)[:length]


def contest_answer(rng: random.Random) -> str:
    """As in AIME, AMC and MATH-500: mostly integers and fractions, now and then a root, a multiple of pi, a pair."""
    n, m = rng.randint(-50, 999), rng.randint(2, 60)
    rare = [f"{n}/{m}", f"{n / 8}", f"{m}\\sqrt{{{abs(n) + 2}}}", f"{m}\\pi", f"({n}, {m})", f"{m}\\%", f"x = {n}"]
    return rng.choice([str(n)] * 14 + [f"\\frac{{{n}}}{{{m}}}"] * 2 + rare)


def texts(groups: int, rollouts: int, length: int, *, distinct: int = 6, seed: int = 0) -> list[list[str]]:
    """Groups of boxed solutions that share `distinct` answers."""
    rng = random.Random(seed)
    pools = [[contest_answer(rng) for _ in range(distinct)] for _ in range(groups)]
    return [
        [f"{said(rng, length)}\nSo it is $\\boxed{{{rng.choice(pool)}}}$." for _ in range(rollouts)] for pool in pools
    ]


def grouped(rows: Sequence[Sequence[Mapping[str, Any]]], **more: Any) -> dict[str, Any]:
    """A request with these rollouts."""
    return {**more, "groups": [{"group_id": f"g{p}", "rollouts": list(own)} for p, own in enumerate(rows)]}


def bare(groups: int, rollouts: int) -> dict[str, Any]:
    drawn = np.random.default_rng(1).integers(0, 12, (groups, rollouts)).tolist()
    return grouped([[{"answer": str(a)} for a in row] for row in drawn])


def with_means(body: dict[str, Any], seed: int = 2) -> dict[str, Any]:
    """The request, with the mean entropy and the length of each rollout."""
    rng = np.random.default_rng(seed)
    for group in body["groups"]:
        for rollout in group["rollouts"]:
            rollout |= {"mean_entropy": float(rng.gamma(2, 0.1)), "num_tokens": 900}
    return body


def entropies(groups: int, rollouts: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).gamma(0.3, 1.0, (groups, rollouts, length)).astype(np.float32)


def frame(groups: int, rollouts: int, length: int) -> bytes:
    from dare_reward.groups import Ragged
    from dare_reward.wire import pack

    values, lengths = entropies(groups, rollouts, length).reshape(-1), np.full(groups * rollouts, length)
    return bytes(pack(bare(groups, rollouts), {"token_entropies": Ragged(values, lengths)}))


def encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()
