"""The table of faults in docs/operations.md: `python tests/faults/table.py [--replicas N] [ROW ...]`.

Each row is a function that disturbs a training step and returns what its clients saw. A step is 6 prompts x 8 rollouts
of OpenRLHF's client: five tries, a second apart. Each row holds every reward that a client got against a step that
nothing disturbed, and ends with an error where one differs. `lost` counts the clients without a reward after five tries.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tries import client, disturbed, get, post, processes, rollout, service, step

GROUPS, SIZE = 6, 8
ROWS: dict[str, tuple[Callable[..., str], str, str]] = {}
ONE, REPLICAS = "one process", "replicas"


def row(fault: str, *, where: str, do: str) -> Callable[[Callable[..., str]], Callable[..., str]]:
    """Declare a row. `where`: for which form of the service; `do`: what a person should do."""

    def declare(function: Callable[..., str]) -> Callable[..., str]:
        ROWS[function.__name__] = (function, fault, do)
        function.where = where  # type: ignore[attr-defined]
        return function

    return declare


def told(found: list[Any], expected: list[Any]) -> str:
    """What the clients saw; an error if a reward differs."""
    wrong = [(a, b) for a, b in zip(found, expected, strict=True) if a is not None and a != b]
    assert not wrong, f"{len(wrong)} wrong rewards, such as {wrong[0]}"
    lost = sum(reply is None for reply in found)
    return f"{len(found) - lost} of {len(found)} clients have their reward; {lost} lost"


class Bench:
    """How the service is started in these rows, and an undisturbed step."""

    def __init__(self, replicas: int) -> None:
        self.words = ("--replicas", str(replicas)) if replicas else ()
        self.replicas = replicas
        with service() as one:
            self.expected = asyncio.run(step(one.url, GROUPS, SIZE))

    def serve(self, **options: Any) -> contextlib.AbstractContextManager[Any]:
        return service(*self.words, **options)

    def step(self, url: str, disturb: Callable[[], Any], **options: Any) -> str:
        return told(asyncio.run(disturbed(url, GROUPS, SIZE, disturb, **options)), self.expected)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def restarted(bench: Bench, sign: int, away: float) -> str:
    """The service ends, and is there again after `away` seconds, or as soon as it can be."""
    port, begun = free_port(), time.monotonic()
    with contextlib.ExitStack() as served:
        process = served.enter_context(bench.serve(port=port))
        start = time.monotonic() - begun

        def back() -> None:
            died = time.monotonic()
            time.sleep(max(0.0, away - start))
            served.enter_context(bench.serve(port=port))
            print(f"  back after {time.monotonic() - died:.1f} s; a start takes {start:.1f} s", file=sys.stderr)

        again = threading.Thread(target=back)

        def disturb() -> None:
            process.send_signal(sign)
            process.wait()
            again.start()

        try:
            return bench.step(f"http://127.0.0.1:{port}", disturb)
        finally:
            again.join()


@row("kill -9, back within 1 s (or as soon as it starts)", where=ONE, do="Let a supervisor restart it at once.")
def kill_1(bench: Bench) -> str:
    return restarted(bench, signal.SIGKILL, 1)


@row("kill -9, back within 4 s", where=ONE, do="As above.")
def kill_4(bench: Bench) -> str:
    return restarted(bench, signal.SIGKILL, 3.5)


@row("kill -9, back after 10 s", where=ONE, do="Resume the run from its last checkpoint: OpenRLHF has given up.")
def kill_10(bench: Bench) -> str:
    return restarted(bench, signal.SIGKILL, 10)


@row("kill -9, back after 60 s", where=ONE, do="As for 10 s.")
def kill_60(bench: Bench) -> str:
    return restarted(bench, signal.SIGKILL, 60)


@row("SIGTERM, back as soon as it starts", where=ONE, do="Nothing, if the new one listens within four seconds.")
def term(bench: Bench) -> str:
    return restarted(bench, signal.SIGTERM, 0)


def killed(bench: Bench, kind: str, sign: int) -> str:
    with bench.serve() as served:
        victim = processes(served.url, bench.replicas)[kind][0]
        return bench.step(served.url, lambda: os.kill(victim, sign))


@row("kill -9 of a replica", where=REPLICAS, do="Nothing. Ray starts another one.")
def replica_kill(bench: Bench) -> str:
    return killed(bench, "replicas", signal.SIGKILL)


@row("SIGTERM of a replica", where=REPLICAS, do="Nothing.")
def replica_term(bench: Bench) -> str:
    return killed(bench, "replicas", signal.SIGTERM)


@row("kill -9 of a shard", where=REPLICAS, do="Nothing. Its groups form again of its clients' next tries.")
def shard_kill(bench: Bench) -> str:
    return killed(bench, "shards", signal.SIGKILL)


@row("SIGTERM of a shard", where=REPLICAS, do="Nothing.")
def shard_term(bench: Bench) -> str:
    return killed(bench, "shards", signal.SIGTERM)


@row("kill -9 of Ray's head (its GCS)", where=REPLICAS, do="Restart the service; resume the run from its checkpoint.")
def head_kill(bench: Bench) -> str:
    with bench.serve() as served:
        (head,) = children(served.pid, "gcs_server")
        seen = bench.step(served.url, lambda: os.kill(head, signal.SIGKILL))
        with contextlib.suppress(Exception):
            served.wait(90)
        return f"{seen}; the service's exit code is {served.poll()}"


def children(pid: int, name: str) -> list[int]:
    """Descendants of the process whose program is `name`."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (folder / "stat").read_text()
            parents[int(folder.name)] = (int(text.rpartition(")")[2].split()[1]), text.split("(")[1].partition(")")[0])
    below = {pid}
    for _ in range(8):
        below |= {child for child, (parent, _) in parents.items() if parent in below}
    return [child for child in below if parents.get(child, (0, ""))[1] == name]


def raw(url: str, content: bytes) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    connection.sendall(content)
    return connection


def request(text: str, cut: int = 0) -> bytes:
    path = f"/get_reward?run=r&group_size={SIZE}&method=ttrl&extra_logs=off"
    body = text.encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + (body[:-cut] if cut else body)


@row("a client's connection breaks in its body", where="both", do="Nothing: the next try brings the vote.")
def dropped(bench: Bench) -> str:
    with bench.serve() as served:
        texts = [rollout(g, SIZE - 1, SIZE) for g in range(GROUPS)]
        return bench.step(served.url, lambda: [raw(served.url, request(t, cut=5)).close() for t in texts])


@row(
    "a client closes its sending side while it waits",
    where="both",
    do="Nothing: it counts as gone; its next try counts.",
)
def half_closed(bench: Bench) -> str:
    def disturb(url: str) -> None:
        for group in range(GROUPS):
            connection = raw(url, request(rollout(group, SIZE - 1, SIZE)))
            connection.shutdown(socket.SHUT_WR)
            time.sleep(0.3)
            connection.close()
        time.sleep(1)

    with bench.serve() as served:
        return bench.step(served.url, lambda: disturb(served.url))


@row("a named rollout comes twice at once (`/v1/rollouts`)", where="both", do="Nothing: it has one vote.")
def twice(bench: Bench) -> str:
    def body(i: int) -> str:
        text = f"\\boxed{{{i % 3}}}"
        return json.dumps({"run": "r", "group_id": "g", "group_size": SIZE, "index": i, "rollout": {"text": text}})

    async def run(url: str, copies: int) -> list[Any]:
        path = f"{url}/v1/rollouts?method=ttrl"
        return await asyncio.gather(*(post(path, body(i)) for i in range(SIZE) for _ in range(copies)))

    with service() as plain, bench.serve() as served:
        expected = asyncio.run(run(plain.url, 1))
        return told(asyncio.run(run(served.url, 2)), [x for x in expected for _ in range(2)])


@row(
    "a sibling never comes; five tries used up (DARE_JOIN_HOLD=1)",
    where="both",
    do="See why a rollout is missing. Set deadline=.",
)
def no_sibling(bench: Bench) -> str:
    async def run(url: str, size: int) -> list[Any]:
        path = f"{url}/get_reward?run=r&group_size={size}&method=ttrl&extra_logs=off"
        return await asyncio.gather(*(client(path, rollout(1, i, SIZE)) for i in range(SIZE - 1)))

    with bench.serve(DARE_JOIN_HOLD=1, DARE_JOIN_DEADLINE=4) as served, service() as plain:
        return told(asyncio.run(run(served.url, SIZE)), asyncio.run(run(plain.url, SIZE - 1)))


@row("the wall clock jumps by a day (time.time is replaced)", where=ONE, do="Nothing: only the times in the logs jump.")
def clock(bench: Bench) -> str:
    jump = "import time; t = time.time; b = t(); time.time = lambda: t() + 86400 * (t() - b > 3)"
    with bench.serve(wrapper=jump) as served:
        return bench.step(served.url, lambda: time.sleep(4))


@row(
    "64 file descriptors for 48 clients, then 40 silent connections too",
    where=ONE,
    do="Raise `ulimit -n`; a proxy keeps strangers off.",
)
def descriptors(bench: Bench) -> str:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    with bench.serve(before=limit, DARE_HEAD_TIMEOUT=1) as served:
        seen = told(asyncio.run(step(served.url, GROUPS, SIZE)), bench.expected)
        silent = [raw(served.url, b"") for _ in range(40)]
        again = told(asyncio.run(step(served.url, GROUPS, SIZE, run="again")), bench.expected)
        for connection in silent:
            connection.close()
        return f"{seen}; with 40 silent connections {again}"


@row(
    "the disk of the run log is full (RLIMIT_FSIZE)",
    where=ONE,
    do="Free space: `run_log.failed` of /info counts what is missing.",
)
def disk(bench: Bench) -> str:
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (256, 256))  # noqa: E731
    ignore = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)"
    with (
        tempfile.TemporaryDirectory() as folder,
        bench.serve(DARE_RUN_LOG=folder, before=limit, wrapper=ignore) as served,
    ):
        seen = bench.step(served.url, lambda: None)
        time.sleep(2)
        status = get(f"{served.url}/info")["run_log"]
        assert status["failed"] + status["dropped"] > 0, status
        return f"{seen}; {status['failed'] + status['dropped']} groups are missing in the run log"


@row("DARE_JOIN_MEMORY holds two groups", where=ONE, do="Raise it: 503 `memory` in the log names it.")
def memory(bench: Bench) -> str:
    with bench.serve(DARE_JOIN_MEMORY=2 * SIZE * 1200) as served:
        found = asyncio.run(step(served.url, GROUPS, SIZE))
        return told(found, bench.expected)


@row(
    "300 connections that send a byte now and then", where="both", do="A proxy in front of a port that strangers reach."
)
def slow_loris(bench: Bench) -> str:
    with bench.serve() as served:
        slow = [raw(served.url, b"POST /get_rew") for _ in range(300)]

        def drip() -> None:
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")

        try:
            return bench.step(served.url, drip)
        finally:
            for connection in slow:
                connection.close()


@row("a rolling upgrade in the middle of a step", where=REPLICAS, do="Nothing, if the number of shards stays.")
def upgrade(bench: Bench) -> str:
    """Replicas and owners of other settings take the place of the old ones, as `serve deploy` does it."""
    wrapper = (
        "import signal, threading\n"
        "def upgrade():\n"
        "    from ray import serve; from dare_service.replicas.deploy import application\n"
        f"    new = {{'replicas': {bench.replicas}, 'settings': {{'log': 'error', 'drain': 2.0}}}}\n"
        "    serve.run(application(new), name='dare-reward')\n"
        "signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=upgrade).start())\n"
    )
    with bench.serve(wrapper=wrapper) as served:
        old = processes(served.url, bench.replicas)

        def renewed() -> None:
            served.send_signal(signal.SIGUSR1)
            while get(f"{served.url}/info")["settings"]["drain"] != 2.0:
                time.sleep(0.2)

        seen = bench.step(served.url, renewed)
        end = time.monotonic() + 120
        while time.monotonic() < end:
            if not set(old["shards"]) & set(processes(served.url, 1)["shards"]):
                return f"{seen}; then the old shards end"
            time.sleep(1)
        raise AssertionError("the old shards are there still")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=0)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="all that fit, if you name none")
    given = parser.parse_args()
    form, failed = (REPLICAS if given.replicas else ONE), 0
    bench = Bench(given.replicas)
    print("| fault | what the callers saw | what to do | row |\n|---|---|---|---|", flush=True)
    for name, (function, fault, do) in ROWS.items():
        fits = function.where in {form, "both"}  # type: ignore[attr-defined]
        if (given.rows and name not in given.rows) or not fits:
            continue
        try:
            seen = function(bench)
        except Exception as error:
            seen, failed = f"FAILED: {type(error).__name__}: {error}", 1
        print(f"| {fault} | {seen} | {do} | `{name}` |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
