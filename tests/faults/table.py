"""The table of faults in docs/operations.md: `python tests/faults/table.py [ROW ...]`.

Each row is a function that disturbs a training step and returns what its clients saw. A step is 6 prompts x 8 rollouts
of OpenRLHF's client: five tries, a second apart. Each row holds every reward that a client got against a step that
nothing disturbed, and ends with an error where one differs. `lost` counts the clients without a reward after five tries.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from serving import connect, free_port, request, service
from tries import client, count, disturbed, get, rollout, step

GROUPS, SIZE = 6, 8
QUERY = f"run=r-000000001&group_size={SIZE}&method=ttrl"


class Rows(dict[str, tuple[Callable[..., str], str]]):
    """The functions that let something happen and say what was seen, by name, each with what happens."""

    def __call__(self, fault: str, *, name: str = "") -> Callable[[Callable[..., str]], Callable[..., str]]:
        def declare(function: Callable[..., str]) -> Callable[..., str]:
            self[name or function.__name__] = (function, fault)
            return function

        return declare


row = Rows()


def told(found: list[Any], expected: list[Any]) -> str:
    """What the clients saw; an error if a reward differs."""
    wrong = [(a, b) for a, b in zip(found, expected, strict=True) if a is not None and a != b]
    assert not wrong, f"{len(wrong)} wrong rewards, such as {wrong[0]}"
    lost = sum(reply is None for reply in found)
    return f"{len(found) - lost} of {len(found)} clients have their reward; {lost} lost"


class Bench:
    """An undisturbed step, and the same with something in its middle."""

    def __init__(self) -> None:
        with service() as one:
            self.expected = asyncio.run(step(one.url, GROUPS, SIZE))

    def step(self, url: str, disturb: Callable[[], Any]) -> str:
        return told(asyncio.run(disturbed(url, GROUPS, SIZE, disturb)), self.expected)


@contextlib.contextmanager
def held(**options: Any) -> Iterator[tuple[Callable[[], Any], contextlib.ExitStack]]:
    """What starts a service on a socket that stays, as a supervisor holds it."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener, contextlib.ExitStack() as running:
        yield lambda: running.enter_context(service(held=listener, **options)), running


def limited(served: Any, what: int, value: Callable[[int], int]) -> None:
    """Lower a limit of the process that answers."""
    resource.prlimit(served.pid, what, (value(served.pid), resource.prlimit(served.pid, what)[1]))


def restarted(bench: Bench, sign: int, away: float) -> str:
    """The service ends with all its processes, and `away` seconds later another, which is loaded by then, binds the port."""
    port, seconds = free_port(), []
    with contextlib.ExitStack() as served, tempfile.TemporaryDirectory() as folder:
        here, go = Path(folder) / "here", Path(folder) / "go"
        wait = (
            "import pathlib, time, dare_service.server as s\nbind = s.bind\ndef patient(settings):\n"
            f" pathlib.Path({str(here)!r}).touch()\n"
            f" while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
            " return bind(settings)\n"
            "s.bind = patient"
        )
        process = served.enter_context(service(port=port))

        def back() -> None:
            served.enter_context(service(port=port, wrapper=wait))
            seconds.append(time.monotonic())

        again = threading.Thread(target=back)
        again.start()
        while not here.exists():
            time.sleep(0.1)

        def disturb() -> None:
            seconds.append(time.monotonic())
            process.send_signal(sign)
            process.wait()
            threading.Timer(away - time.monotonic() + seconds[0], go.touch).start()

        try:
            seen = bench.step(f"http://127.0.0.1:{port}", disturb)
        finally:
            again.join()
        return f"{seen}; away for {seconds[1] - seconds[0]:.1f} s"


for away in (1, 4, 10, 60):
    row(f"kill -9, back after {away} s", name=f"kill_{away}")(partial(restarted, sign=signal.SIGKILL, away=away))
row("SIGTERM, another one at once", name="term")(partial(restarted, sign=signal.SIGTERM, away=0))
reboot = "the machine restarts: the socket goes too, and both are back after 10 s"
row(reboot, name="reboot")(partial(restarted, sign=signal.SIGTERM, away=10))


@row("kill -9 while the replies go out, the socket held (DARE_JOIN_HOLD=3)")
def held_kill_reply(bench: Bench) -> str:
    """Who loses a reply comes back to a process that does not remember its group, and its siblings do not."""
    with held(DARE_JOIN_HOLD=3) as (start, _):
        process = start()

        async def run() -> list[Any]:
            last = asyncio.Event()
            clients = posting(process.url, lambda i: {"after": last if i == SIZE - 1 else None})
            while await asyncio.to_thread(count, process.url, "dare_join_waiting") < GROUPS * (SIZE - 1):  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            last.set()
            while not any(one.done() for one in clients):  # noqa: ASYNC110  the first reply is there
                await asyncio.sleep(0)
            process.kill()
            await asyncio.to_thread(start)
            return await asyncio.gather(*clients)

        return told_marked(asyncio.run(run()), bench.expected)


def posting(url: str, when: Callable[[int], dict[str, Any]]) -> list[asyncio.Future[Any]]:
    """The clients of a step, whose whole replies they return; `when` says of a place in a group how its client begins."""
    path = f"{url}/get_reward?{QUERY}"
    posts = (client(path, rollout(g, i, SIZE), **when(i)) for g in range(GROUPS) for i in range(SIZE))
    return [asyncio.ensure_future(post) for post in posts]


def told_marked(found: list[Any], expected: list[Any], most: float = float("inf")) -> str:
    """What the clients saw, where after a kill -9 `most` groups may have equal rewards for want of siblings."""
    neutral = [reply is not None and reply["extra_logs"]["neutral"] == [1.0] for reply in found]
    groups = sum(any(neutral[at : at + SIZE]) for at in range(0, len(neutral), SIZE))
    assert groups <= most, f"{groups} groups with equal rewards, and {most:g} were open at the kill -9"
    right = [reply and (reply["rewards"], reply["scores"]) for reply in found]
    seen = told([w if n else r for n, r, w in zip(neutral, right, expected, strict=True)], expected)
    return f"{seen}, {sum(neutral)} of them with equal rewards, marked neutral"


@row("two SIGTERM and a kill -9 in a step, four busy processes beside, the socket held (DARE_JOIN_HOLD=20)")
def restart_busy(bench: Bench) -> str:
    with held(DARE_JOIN_HOLD=20) as (start, running):
        for _ in range(4):
            running.callback(subprocess.Popen([sys.executable, "-c", "while True: pass"]).kill)
        process = start()

        def replace(process: Any, sign: int) -> Any:
            process.send_signal(sign)
            process.wait()
            return start()

        async def run(process: Any) -> tuple[list[Any], float]:
            spread, opened = random.Random(1), 0.0
            clients = posting(process.url, lambda _: {"start": spread.uniform(0, 25)})
            for sign in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
                await asyncio.sleep(6)
                opened = await asyncio.to_thread(count, process.url, "dare_join_open_groups")
                process = await asyncio.to_thread(replace, process, sign)
            return await asyncio.gather(*clients), opened

        found, opened = asyncio.run(run(process))
    return told_marked(found, bench.expected, opened)


def last(group: int) -> bytes:
    """The try of a group's last client."""
    return request(f"/get_reward?{QUERY}&extra_logs=off", rollout(group, SIZE - 1, SIZE))


@row("a client's connection breaks in its body")
def dropped(bench: Bench) -> str:
    with service() as one:
        return bench.step(one.url, lambda: [connect(one.url, last(g)[:-5]).close() for g in range(GROUPS)])


@row("a client closes its sending side while it waits")
def half_closed(bench: Bench) -> str:
    def disturb(url: str) -> None:
        for group in range(GROUPS):
            with connect(url, last(group)) as connection:
                connection.shutdown(socket.SHUT_WR)
                time.sleep(0.3)
        time.sleep(1)

    with service() as one:
        return bench.step(one.url, lambda: disturb(one.url))


@row("300 connections that send a byte now and then")
def slow_loris(bench: Bench) -> str:
    with service() as one, contextlib.ExitStack() as slow:
        trickling = [slow.enter_context(connect(one.url, b"POST /get_rew")) for _ in range(300)]

        def drip() -> None:
            for connection in trickling:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")

        return bench.step(one.url, drip)


@row("a sibling never comes; five tries used up (DARE_JOIN_HOLD=1)")
def no_sibling(bench: Bench) -> str:
    async def run(url: str, size: int) -> list[Any]:
        path = f"{url}/get_reward?run=r-000000001&group_size={size}&method=ttrl&extra_logs=off"
        return await asyncio.gather(*(client(path, rollout(1, i, SIZE)) for i in range(SIZE - 1)))

    with service(DARE_JOIN_HOLD=1) as short, service() as plain:
        return told(asyncio.run(run(short.url, SIZE)), asyncio.run(run(plain.url, SIZE - 1)))


@row("the wall clock jumps by a day (`time.time` is replaced in every Python process)")
def clock(bench: Bench) -> str:
    with tempfile.TemporaryDirectory() as folder:
        jump = Path(folder) / "jump"
        code = f"import os, time; t = time.time; time.time = lambda: t() + 86400 * os.path.exists({str(jump)!r})\n"
        (Path(folder) / "sitecustomize.py").write_text(code)
        with service(PYTHONPATH=os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])) as served:
            return bench.step(served.url, lambda: (jump.touch(), time.sleep(4)))


@row("20 free file descriptors in each process for 48 clients; then 40 silent connections too")
def descriptors(bench: Bench) -> str:
    def most(pid: int) -> int:
        return 20 + max(int(entry.name) for entry in Path(f"/proc/{pid}/fd").iterdir())

    with service() as served:
        limited(served, resource.RLIMIT_NOFILE, most)
        seen = told(asyncio.run(step(served.url, GROUPS, SIZE)), bench.expected)
        with contextlib.ExitStack() as silent:
            for _ in range(40):
                silent.enter_context(connect(served.url))
            again = told(asyncio.run(step(served.url, GROUPS, SIZE, run="again")), bench.expected)
        return f"{seen}; with 40 silent connections {again}"


@row("the disk of the run log is full (RLIMIT_FSIZE)")
def disk(bench: Bench) -> str:
    with tempfile.TemporaryDirectory() as folder, service(DARE_RUN_LOG=folder) as served:
        limited(served, resource.RLIMIT_FSIZE, lambda _: 256)
        seen = bench.step(served.url, lambda: None)
        while (missing := sum(get(f"{served.url}/info")["run_log"][name] for name in ("failed", "dropped"))) < GROUPS:
            time.sleep(0.5)
        return f"{seen}; {missing} groups are missing in the run log"


def run(rows: Rows, doc: str, who: str, given: Callable[[], Any] = lambda: None) -> int:
    """Print the rows that the command names, each as it ends; 1 if one failed. Each gets what `given` returns."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", choices=[*rows, []], help="all, if you name none")
    wanted, failed, bench = parser.parse_args().rows, 0, given()
    print(f"| fault | what {who} saw | row |\n|---|---|---|", flush=True)
    for name, (function, fault) in ((name, rows[name]) for name in wanted or rows):
        try:
            seen = function(*filter(None, [bench]))
        except Exception as error:
            seen, failed = f"FAILED: {type(error).__name__}: {error}", 1
        print(f"| {fault} | {seen} | `{name}` |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(run(row, __doc__ or "", "the callers", Bench))
