"""Restarts under load, seen by a released OpenRLHF client: row `restart_busy` of docs/operations.md.

    python scripts/test_stack.py openrlhf     makes the environment and unpacks the releases
    OPENRLHF_TREE=... .stacks/openrlhf/bin/python tests/faults/restart_busy.py [--front held|haproxy|none]

The release's own executor posts 12 prompts x 16 rollouts, spread over 25 s; four busy processes run beside. One step
has two restarts by SIGTERM, another these and a kill -9. Each new process starts when the old one ended.

    held      a supervisor holds the listening socket, as systemd does
    haproxy   HAProxy with deploy/haproxy.cfg
    none      each process binds the port; rollouts are lost, and the script says how many

Where the socket is held or HAProxy waits, a rollout without a reward or with a wrong one is a failure, and so are equal
rewards for want of siblings, except those of groups that were open when the process was killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from released import Release, execute
from serving import free_port, service
from tries import count

PROMPTS, SIZE, SPREAD, BUSY = 12, 16, 25.0, 4
SIGNALS = {"two SIGTERM": (7, 15), "two SIGTERM, a kill -9": (7, 14, 21)}  # seconds after the first rollout
HAPROXY = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
Seen = tuple[int, int, float | None, float]  # prompt, rollout, reward, neutral


class Front:
    """What the clients connect to, and a service behind it that can be replaced."""

    def __init__(self, kind: str, running: contextlib.ExitStack) -> None:
        self.running = running
        self.options: dict[str, Any] = {"DARE_JOIN_HOLD": 20, "DARE_PAGE": "off"}
        if kind == "held":
            self.options["held"] = running.enter_context(socket.create_server(("127.0.0.1", 0), backlog=4096))
        else:
            self.options["port"] = free_port()
        if kind == "haproxy":
            self.options |= {"DARE_TRUSTED_PROXIES": "127.0.0.1", "DARE_DRAIN": 0}
        self.start()
        self.direct = self.url = self.process.url
        if kind == "haproxy":
            self.url = running.enter_context(haproxy(self.direct.removeprefix("http://")))

    def start(self) -> None:
        self.process = self.running.enter_context(service(**self.options))

    def replace(self, sign: int) -> float:
        """Seconds from the signal until the next process is ready."""
        begun = time.monotonic()
        self.process.send_signal(sign)
        self.process.wait()
        self.start()
        return time.monotonic() - begun


@contextlib.contextmanager
def haproxy(server: str) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    variables = {**os.environ, "REWARD_BIND": address, "REWARD_SERVER": server}
    process = subprocess.Popen(["haproxy", "-db", "-f", str(HAPROXY)], env=variables, stdout=subprocess.DEVNULL)
    try:
        host, port = address.split(":")
        while socket.socket().connect_ex((host, int(port))):
            assert process.poll() is None
            time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


async def step(
    release: Release, front: Front, signals: tuple[int, ...], run: str
) -> tuple[list[Seen], list[float], float]:
    """What the client saw, how long the service was away each time, and the groups that were open at the kill -9."""
    url = f"{front.url}/reward?run={run}-000000001&group_size={SIZE}&method=ttrl"
    executor, away, open_groups = release.agent.SingleTurnAgentExecutor([url]), [], 0.0

    async def one(prompt: int, i: int) -> Seen:
        answer = prompt if i <= SIZE // 2 else 100 + i
        seconds = random.Random(1000 * prompt + i).uniform(0, SPREAD)
        done = await execute(executor, f"prompt {prompt}\n", "", lambda _: (f"So \\boxed{{{answer}}}.", seconds))
        reward = None if done["reward"] is None else float(done["reward"][0])
        return prompt, i, reward, float(done["extra_logs"].get("neutral", [0.0])[0])

    clients = asyncio.ensure_future(asyncio.gather(*(one(p, i) for p in range(PROMPTS) for i in range(SIZE))))
    begun = time.monotonic()
    for number, second in enumerate(signals):
        await asyncio.sleep(begun + second - time.monotonic())
        if number == 2:
            open_groups = await asyncio.to_thread(count, front.direct, "dare_join_open_groups")
        away.append(await asyncio.to_thread(front.replace, signal.SIGKILL if number == 2 else signal.SIGTERM))
    return await clients, away, open_groups


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--front", choices=["held", "haproxy", "none"], default="held")
    given, failed = parser.parse_args(), False
    release = Release(Path(os.environ["OPENRLHF_TREE"]))
    logging.disable(logging.CRITICAL)  # the client logs each try
    print("| front | restarts | away, s | no reward | wrong | neutral | right | `restart_busy` |\n" + "|---" * 8 + "|")
    with contextlib.ExitStack() as running:
        front = Front(given.front, running)
        for _ in range(BUSY):
            running.callback(subprocess.Popen([sys.executable, "-c", "while True: pass"]).kill)
        for number, (name, signals) in enumerate(SIGNALS.items()):
            seen, away, open_groups = asyncio.run(step(release, front, signals, f"r{number}"))
            lost = [s for s in seen if s[2] is None]
            neutral = [s for s in seen if s[2] is not None and s[3]]
            wrong = [s for s in seen if s[2] is not None and not s[3] and s[2] != float(s[1] <= SIZE // 2)]
            bad = bool(lost or wrong) or len({s[0] for s in neutral}) > open_groups
            failed |= bad and given.front != "none"
            figures = [len(lost), len(wrong), len(neutral), len(seen) - len(lost) - len(neutral) - len(wrong)]
            cells = [given.front, name, ", ".join(f"{s:.1f}" for s in away), *figures, "FAILED" if bad else "passed"]
            print("|", *(f"{cell} |" for cell in cells), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
