"""What we cost beside what one writes oneself, or beside another checkout: the least CPU of many requests sent in turns.

    python tests/bench/peers.py                      every row; minutes on two quiet cores
    python tests/bench/peers.py texts log            the rows whose names hold one of the words
    python tests/bench/peers.py --against main       what a change costs or saves: beside a commit or a folder

CPU milliseconds, threads and children included; behind each peer stands ours / peer. `goal` is what a row should reach.
The peers are a naive FastAPI service, a lean one, the floor, regex + Counter and Math-Verify. They merge answers by
spelling, so rewards are not compared. Another checkout runs in this interpreter: what one of both needs and the other
does not is installed. How many functions each request calls, each checkout's tests/data/calls.json says.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # by_path.py, method_params.py, serving.py

from by_path import load
from method_params import params_of
from serving import free_port

import dare_reward
from dare_reward.answers import classify, extract
from dare_reward.answers.keys import _cached_math
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.methods import find, methods
from dare_reward.wire import pack

ROOT = Path(__file__).parents[2]
JSON, FRAME = {"content-type": "application/json"}, {"content-type": "application/vnd.safetensors"}
SERVE = "import sys; from dare_reward.cli import main; sys.exit(main(['serve', '--port', sys.argv[1]]))"
PEERS = str(Path(__file__).with_name("peer_servers.py"))
QUIET = 0.5  # seconds after a request in which what it leaves behind is done
# As in the image: without both, a large buffer is given back to the kernel and faulted in again at every request.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}
MAIN = "import sys; from dare_reward.cli import main; sys.exit(main(sys.argv[1:]))"
PATHS, DETAIL = dict.fromkeys(("naive", "lean", "floor"), "/reward"), "/v1/reward?detail=rewards"
FLOOR_OF_FILES = """import sys, orjson
for line in open(sys.argv[1], "rb"):
    orjson.dumps({"rewards": [0.5] * len(orjson.loads(line)["rollouts"])})"""


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
    client: httpx.Client, server: Server, path: str, request: tuple[bytes, Any], *, all_of_it: bool = False
) -> float:
    """CPU milliseconds of the server until its reply to a content with its headers, or of all that comes of it."""
    content, headers = request
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
    values, lengths = entropies(groups, rollouts, length).reshape(-1), np.full(groups * rollouts, length)
    return bytes(pack(bare(groups, rollouts), {"token_entropies": Ragged(values, lengths)}))


def encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body).encode()


# --- rows ----------------------------------------------------------------------------------------------------------------


@dataclass
class Bench:
    """How often things are run, recorded outputs, checkouts by name, and the servers, which start once."""

    rounds: int
    stack: ExitStack
    recorded: list[str] = field(default_factory=list)
    trees: dict[str, Path] = field(default_factory=dict)
    _servers: dict[str, Server] = field(default_factory=dict)

    def environment(self, name: str, **settings: str) -> dict[str, str]:
        """With these settings, in which the checkout of this name is imported, if there is one."""
        rooms = ("client", "service", "trainer", ".entries")
        of_tree = {"PYTHONPATH": ":".join(str(self.trees[name] / room) for room in rooms)} if name in self.trees else {}
        return environment(**settings, **of_tree)

    def server(self, name: str, **settings: str) -> Server:
        """That of a peer, or ours, whose first caller says its settings."""
        if name not in self._servers:
            command = [PEERS, name] if name in PATHS else ["-c", SERVE]
            env = self.environment(name, DARE_MAX_REQUEST_MEMORY=str(1 << 30), **settings)
            self._servers[name] = self.stack.enter_context(started(command, env))
        return self._servers[name]

    def texts(self, distinct: int) -> list[list[str]]:
        """128 groups of 64 boxed solutions of about 1 kB, no two alike, with so many answers in each group."""
        if not self.recorded:
            return texts(128, 64, 1000, distinct=distinct)
        rng = random.Random(0)
        pools = [rng.sample(self.recorded, distinct) for _ in range(128)]
        return [[f"Attempt {p} {m}.\n{rng.choice(own)}" for m in range(64)] for p, own in enumerate(pools)]

    def posted(
        self, content: bytes, headers: Mapping[str, str] = JSON, names: str = "ours naive lean floor", **how: bool
    ) -> Row:
        """Our CPU of a request and that of its peers, in turns."""
        with httpx.Client(timeout=300) as client:

            def cost(name: str, _: int) -> float:
                return post(client, self.server(name), PATHS.get(name, DETAIL), (content, headers), **how)

            return Row.of(in_turns(self.rounds, {name: partial(cost, name) for name in names.split()}))


@dataclass
class Row:
    """Our cost and that of peers, in `unit`; `goals` are ratios to peers, or to nothing: figures."""

    ours: float
    peers: Mapping[str, float] = field(default_factory=dict)
    unit: str = "ms"
    goals: Mapping[str, float] = field(default_factory=dict)
    note: str = ""

    @classmethod
    def of(cls, least: Mapping[str, float], **more: Any) -> Row:
        """Of costs by name, the first of which is ours."""
        (_, ours), *peers = least.items()
        return cls(ours, dict(peers), **more)

    def text(self, what: str) -> str:
        compared = [f"{name} {cost:.3g} ({self.ours / cost:.2f})" for name, cost in self.peers.items() if cost]
        goals = []
        for name, most in self.goals.items():
            reached = (self.ours / self.peers[name] if name else self.ours) <= most
            goals.append(f"at most {most:g}{' x ' + name if name else ''}{'' if reached else ': MISSED'}")
        return f"| {what} | {self.ours:.3g} {self.unit} | {'; '.join(compared)} | {'; '.join(goals)} | {self.note} |"


Found = Iterator[tuple[str, Row]]
ROWS: dict[str, Callable[[Bench], Found]] = {}


def row(function: Callable[[Bench], Found]) -> Callable[[Bench], Found]:
    ROWS[function.__name__] = function
    return function


# --- over HTTP --------------------------------------------------------------------------------------------------------


@row
def means(bench: Bench) -> Found:
    yield "128 x 64 answers + means", bench.posted(encoded(with_means(bare(128, 64))))
    yield "one group of 64 means", bench.posted(encoded(with_means(bare(1, 64))))


@row
def texts_over_http(bench: Bench) -> Found:
    for distinct, words in ((8, "8 answers a group"), (64, "64 answers a group")):
        rows = [[{"text": text} for text in group] for group in bench.texts(distinct)]
        content = encoded(with_means(grouped(rows)))
        found = bench.posted(content)
        found.note = f"{len(content) / 1e6:.1f} MB"
        found.goals = {"naive": 1.3} if distinct == 8 else {}
        yield f"128 x 64 boxed solutions of 1 kB, {words}", found


@row
def tokens(bench: Bench) -> Found:
    values, body = entropies(32, 64, 1024).tolist(), bare(32, 64)
    for group, rows in zip(body["groups"], values, strict=True):
        for rollout, own in zip(group["rollouts"], rows, strict=True):
            rollout["token_entropies"] = own
    json_row = bench.posted(encoded(body))
    yield "32 x 64 x 1,024 token entropies as JSON", json_row
    found = bench.posted(frame(32, 64, 1024), FRAME, "ours floor")
    found.peers = {**found.peers, "its JSON": json_row.ours, "naive": json_row.peers["naive"]}
    found.goals = {"its JSON": 1 / 20}
    yield "the same as a frame", found


async def _status(port: int, request: bytes) -> int:
    """The status of the reply to one request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    await reader.readexactly(int(length[1]) if length else 0)
    writer.close()
    return int(head[9:12])


async def _paced(port: int, requests: list[bytes], rate: int = 500) -> set[int]:
    """The statuses of requests that come at a steady pace."""
    loop = asyncio.get_running_loop()
    begun, replies = loop.time(), []
    for n, request in enumerate(requests):
        await asyncio.sleep(max(begun + n / rate - loop.time(), 0))
        replies.append(loop.create_task(_status(port, request)))
    return set(await asyncio.wait_for(asyncio.gather(*replies), 120))


def _rollouts(run: str, groups: int = 16) -> list[bytes]:
    """OpenRLHF's requests: groups of 64 rollouts of 2 kB, four groups at a time, rollout by rollout."""
    rng, out = random.Random(run), []
    for group in range(0, groups, 4):
        for _ in range(64):
            for prompt in range(group, group + 4):
                asked = f"Problem {run} {prompt}?"
                text = f"{asked}{said(rng, 2000)} So it is \\boxed{{{rng.randrange(5)}}}."
                content = encoded({"query": [text], "prompts": [asked], "labels": [""]})
                head = f"POST /get_reward?group_size=64&run={run}-000000001 HTTP/1.1\r\nHost: localhost\r\n"
                head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
                out.append(head.encode() + content)
    return out


@row
def openrlhf(bench: Bench) -> Found:
    health = [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 1024

    def cost(what: str, name: str, n: int) -> float:
        server, requests = bench.server(name), health if what == "/health" else _rollouts(f"{name}{n}")
        begun = server.cpu()
        if asyncio.run(_paced(int(server.url.rpartition(":")[2]), requests)) != {200}:
            raise SystemExit(f"{name}: {what} was refused")
        return 1e3 * (server.cpu() - begun) / len(requests)

    for what in ("an OpenRLHF rollout of 2 kB, new connection", "/health"):
        costs = {name: partial(cost, what, name) for name in ("ours", "naive", "floor")}
        yield what, Row.of(in_turns(min(bench.rounds, 4), costs), unit="us")


# --- in this process --------------------------------------------------------------------------------------------------


@row
def long_texts(bench: Bench) -> Found:
    """`estimate` of texts, as in TRL's process, against one regular expression and a Counter."""
    last_box = _peers().last_box
    for groups, rollouts, length in ((64, 16, 4_000), (16, 16, 64_000), (4, 16, 256_000)):
        own = texts(groups, rollouts, length)
        body = [{"rollouts": [{"text": text} for text in group]} for group in own]
        ours = own_cpu(partial(dare_reward.estimate, body, method="ttrl"), bench.rounds)
        cold = own_cpu(partial(dare_reward.estimate, body, method="ttrl"), 3, before=_cached_math.cache_clear)
        plain = own_cpu(lambda own=own: [Counter(map(last_box, group)).most_common(1) for group in own], bench.rounds)
        note = f"cold {cold:.3g}; {1e6 * ours / groups / rollouts / length:.2g} ns a character"
        yield f"{groups} x {rollouts} texts of {length:,} characters", Row(ours, {"regex + Counter": plain}, note=note)


@row
def math_verify(bench: Bench) -> Found:
    own = texts(8, 16, 4_000)

    def ours() -> object:
        return [classify([extract(text).answer for text in group]) for group in own]

    theirs = {}
    if importlib.util.find_spec("math_verify"):
        import math_verify as verify

        def classes() -> None:
            for group in own:
                first: list[Any] = []
                for answer in map(verify.parse, group):
                    if not any(verify.verify(other, answer) for other in first):
                        first.append(answer)

        theirs["Math-Verify"] = own_cpu(classes, 1)
    note = "" if theirs else "Math-Verify is not installed"
    cold = own_cpu(ours, bench.rounds, before=_cached_math.cache_clear)
    yield "8 x 16 texts of 4,000, cold", Row(cold, theirs, goals={"Math-Verify": 1 / 20} if theirs else {}, note=note)
    yield "the same, warm", Row(own_cpu(ours, bench.rounds), theirs)
    parts = [f"\\frac{{\\sqrt{{{i + 2}}}+\\pi^{{{i % 5 + 2}}}}}{{{i % 97 + 3}}}-\\sin\\frac{{{i % 13 + 1}\\pi}}{{7}}x"
             for i in range(2048)]  # fmt: skip
    dear = own_cpu(lambda: classify(parts), 1, before=_cached_math.cache_clear)
    yield "2,048 distinct hard expressions, cold", Row(dear, goals={"": 1500})


@row
def each_method(bench: Bench) -> Found:
    """`estimate` of 128 groups of 64 with given answers: every method without arrays beside ttrl."""
    rng, out = random.Random(0), []
    for p in range(128):
        rollouts = [
            {
                "answer": str(min(int(rng.expovariate(0.5)), 12)), "mean_entropy": rng.gammavariate(2, 0.2),
                "num_tokens": 256, "sum_logprob": -rng.gammavariate(2, 100), "path": str(i), "format": 1.0,
                "mean_self_certainty": rng.gammavariate(9, 2), "confidence": rng.gammavariate(9, 1),
                "verified": rng.randrange(2), "pass_rate": 0.5, "base_ref_mean_prob": 0.1,
            }
            for i in range(64)
        ]  # fmt: skip
        fields = {"kind": "exact", "label": "1", "reference": "1", "prompt_weight": 0.5}
        second = {name: [{"answer": r["answer"]} for r in rollouts] for name in ("second_group", "teacher_group")}
        out.append({"group_id": str(p), **fields, **second, "rollouts": rollouts})
    base = 0.0
    for name in ("ttrl", *sorted(methods().keys() - {"ttrl"})):
        if any(FIELDS[n].shape != "scalar" for n in find(name).requires if n in FIELDS):
            continue
        work = partial(dare_reward.estimate, out, method=name, **params_of(name))
        if failed := next((g.error for g in work().groups if g.error is not None), None):
            raise SystemExit(f"{name}: {failed.message}")
        spent = own_cpu(work, 1)
        spent = spent if spent > 1e3 else own_cpu(work, 3)
        base = base or spent
        yield f"method {name}, 128 x 64", Row(spent, {"ttrl": base})


# --- files, starts, the page ------------------------------------------------------------------------------------------


def _file(path: Path, *, with_texts: bool, groups: int = 782) -> str:
    """50,000 rollouts of labelled prompts."""
    rng = random.Random(1)
    with path.open("w") as out:
        for p in range(groups):
            right, easy, wrong = contest_answer(rng), rng.random(), [contest_answer(rng) for _ in range(7)]
            rollouts: list[dict[str, Any]] = []
            for _ in range(64):
                answer = right if rng.random() < easy else rng.choice(wrong)
                kept = {"text": f"{said(rng, 900)}\\boxed{{{answer}}}."} if with_texts else {"answer": answer}
                rollouts.append({**kept, "mean_entropy": round(rng.gammavariate(2, 0.12), 6), "num_tokens": 900})
            out.write(json.dumps({"group_id": f"g{p}", "label": right, "rollouts": rollouts}) + "\n")
    return str(path)


@row
def files(bench: Bench) -> Found:
    folder = Path(bench.stack.enter_context(tempfile.TemporaryDirectory()))
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024  # a child's peak is no less than ours at its birth
    for with_texts in (False, True):
        file = _file(folder / f"{with_texts}.jsonl", with_texts=with_texts)
        floor, score = min(command_cpu(FLOOR_OF_FILES, file)[0] for _ in range(2)), 0.0
        out = {
            "score": ["--out", str(folder / "o.jsonl"), "--force"],
            "report": ["-o", str(folder / "o.html"), "--force"],
        }
        for command in ("score", "report", "calibrate", "explain"):
            words = out.get(command, ["--suspicious", "3"] if command == "explain" else [])
            spent, memory = min(command_cpu(MAIN, command, file, *words) for _ in range(2))
            score = score or spent
            peers = {"floor": floor} | ({} if command == "score" else {"score": score})
            goals = {"score": 2.0} if command == "report" else {}
            what = f"{command} of 50,000 {'texts of 900 characters' if with_texts else 'answers'}"
            yield what, Row(spent, peers, goals=goals, note=f"{memory} MiB" if memory > own else "")


@row
def log(bench: Bench) -> Found:
    """A service with run log and page beside one without, in turns; what is written after the reply counts."""
    bench.server("with", DARE_RUN_LOG=bench.stack.enter_context(tempfile.TemporaryDirectory()))
    bench.server("without", DARE_RUN_LOG="off")
    found = bench.posted(encoded(with_means(bare(128, 64))), JSON, "with without", all_of_it=True)
    yield "128 x 64 means with run log and page, all that comes of it", found


# --- another checkout -------------------------------------------------------------------------------------------------

STARTS = {  # programs, with goals of their own
    "import dare_reward": ("import dare_reward", {"": 300}),
    "dare-reward --help": ("from dare_reward.cli import main; main(['--help'])", {"": 350}),
    "import dare_service.app": ("import dare_service.app", {}),
}


def against(bench: Bench) -> Found:
    """This checkout beside another one."""
    for what, (program, goals) in STARTS.items():
        own = {name: bench.environment(name) for name in bench.trees}
        costs = {
            name: lambda _, env=env, program=program: command_cpu(program, env=env)[0] for name, env in own.items()
        }
        yield what, Row.of(in_turns(bench.rounds, costs), goals=goals)
    for what, content, headers, most in (
        ("128 x 64 means", encoded(with_means(bare(128, 64))), JSON, 0.45),
        ("frame 32 x 64 x 1,024", frame(32, 64, 1024), FRAME, 0.9),
        ("frame 96 MiB", frame(128, 64, 3072), FRAME, 0.9),
    ):
        found = bench.posted(content, headers, "ours other")
        found.goals = {"other": most}
        yield what, found
        yield what + ", and after it, with children", bench.posted(content, headers, "ours other", all_of_it=True)
    costs = {name: partial(_rollout_over_health, bench.server(name)) for name in bench.trees}
    yield "rollout post / health", Row.of(in_turns(3, costs), unit="x", goals={"": 1.15})


def _rollout_over_health(server: Server, run: int) -> float:
    """A rollout of a group of 64, all in flight at once, beside `/health` in the same way."""

    async def asked() -> float:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=64)) as client:
            costs = []
            for n in range(5):
                prompt = f"{run} {n}: What is 2+2?"
                sent = {"query": [f"{prompt} It is \\boxed{{4}}."], "prompts": [prompt], "labels": [""]}
                url, begun = f"{server.url}/get_reward?group_size=64&run=r{run}-000000001", server.cpu()
                replies = await asyncio.gather(*(client.post(url, json=sent) for _ in range(64)))
                between = server.cpu()
                await asyncio.gather(*(client.get(server.url + "/health") for _ in range(64)))
                assert {reply.status_code for reply in replies} == {200}
                costs.append((between - begun, server.cpu() - between))
        posts, probes = zip(*costs[1:], strict=True)
        return min(posts) / min(probes)

    return asyncio.run(asked())


def copied(tree: Path, folder: Path) -> Path:
    """The checkout's packages with the commands that its pyproject.toml names, and no other's, in a folder."""
    for room in ("client", "service", "trainer"):
        shutil.copytree(tree / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    commands = tomllib.loads((tree / "pyproject.toml").read_text())["project"]["entry-points"]["dare_reward.commands"]
    lines = [f"{name} = {place}" for name, place in commands.items() if not place.startswith("dare_research")]
    for name, entries in (("dare_reward", ["[dare_reward.commands]", *lines]), ("dare_reward_research", [])):
        (described := folder / ".entries" / f"{name}-0.dist-info").mkdir(parents=True)
        (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0\n")
        (described / "entry_points.txt").write_text("\n".join(entries))
    return folder


def checkouts(what: str, stack: ExitStack) -> dict[str, Path]:
    """Copies of this checkout and of another one: a folder, or a commit's worktree, which is removed at the end."""
    folder, other = Path(stack.enter_context(tempfile.TemporaryDirectory())), Path(what)
    if not other.is_dir():
        other, git = folder / "tree", partial(subprocess.run, check=True, cwd=ROOT)
        git(["git", "worktree", "add", "-q", "--detach", str(other), what])
        stack.callback(git, ["git", "worktree", "remove", "--force", str(other)])
    return {"ours": copied(ROOT, folder / "ours"), "other": copied(other, folder / "other")}


def _peers() -> Any:
    """The peers' functions, of which importing costs nothing here."""
    return load(Path(PEERS))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"Parts of {', '.join(ROWS)} (default: all).")
    parser.add_argument("--rounds", type=int, default=8, help="Requests of each kind and server (default: 8).")
    parser.add_argument(
        "--texts", type=Path, nargs="+", default=[], help="JSON lines whose `tail` holds a box, to send."
    )
    parser.add_argument("--against", help="A folder or a commit to compare with, in place of the rows.")
    asked = parser.parse_args()
    lines = [line for file in asked.texts for line in file.read_text(encoding="utf-8").splitlines()]
    recorded = [tail for tail in (json.loads(line)["tail"] for line in lines) if "\\boxed" in tail]
    print("| what | ours | peers (ours / peer) | goal | |\n|---|---|---|---|---|")
    missed = 0
    with ExitStack() as stack:
        bench = Bench(asked.rounds, stack, recorded, checkouts(asked.against, stack) if asked.against else {})
        for name, function in ({"against": against} if asked.against else ROWS).items():
            if not asked.rows or any(word in name for word in asked.rows):
                for what, found in function(bench):
                    line = found.text(what)
                    missed += "MISSED" in line
                    print(line, flush=True)
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
