"""Storms over the join: connections that break while groups fill, lost replies, a killed and a stopped service.

Every reward must be its group's, or say that it is not (`partial` or `neutral` in its logs).

    JOIN_STORMS=10 JOIN_PROMPTS=252 pytest tests/bench/test_join_storms.py -s

A storm has JOIN_PROMPTS x 32 rollouts (default 16 x 32), a connection each. Every connection of a first try breaks at a
random moment within 0.6 s, and so do those of every second client's second try: groups fill and are answered in the
middle of it. The server's 200s minus those that clients received are the replies that were lost. Printed too is the
time from the last post of a group's last sibling to each reply of the group. JOIN_TREE names another checkout whose
service is stormed instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import httpx
import pytest

from dare_reward import estimate
from dare_reward.openrlhf import rounded

STORMS, PROMPTS, SAMPLES = int(os.environ.get("JOIN_STORMS", "2")), int(os.environ.get("JOIN_PROMPTS", "16")), 32
TRIES, PAUSE = 5, 1.0
ENTRY = "import sys; from dare_reward.cli import main; sys.exit(main())"
Breaks = Callable[[int], float | None]

pytestmark = pytest.mark.bench


@dataclass(eq=False)
class Rollout:
    group: int
    answer: str
    body: bytes
    reply: Any = None
    statuses: list[Any] = field(default_factory=list)
    sent: float = 0.0
    got: float = 0.0

    def told(self, name: str) -> float:
        return float(self.reply["extra_logs"][name][0])


class Service:
    """`dare-reward serve` as a process that may be killed and started again on its port."""

    def __init__(self, **settings: object) -> None:
        self.environment = {**os.environ, "DARE_LOG": "error", **{f"DARE_{k}": str(v) for k, v in settings.items()}}
        if tree := os.environ.get("JOIN_TREE"):
            self.environment["PYTHONPATH"] = os.pathsep.join(f"{tree}/{room}" for room in ("client", "service"))
        self.port = 0
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-c", ENTRY, "serve", "--port", str(self.port)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen(command, env=self.environment, **pipes)
        self.port = int(self.process.stdout.readline().rpartition(":")[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def counts(self, name: str) -> dict[str, float]:
        text = httpx.get(f"http://127.0.0.1:{self.port}/metrics", trust_env=False).text
        return {k: float(v) for k, v in re.findall(rf"^({name}\S*) (\S+)$", text, re.MULTILINE)}

    def sent(self) -> int:
        return int(self.counts("dare_requests_total").get('dare_requests_total{code="200",route="/reward"}', 0))


def step(prompts: int, seed: int) -> list[Rollout]:
    rng = random.Random(seed)
    found = []
    for group in range(prompts):
        for _ in range(SAMPLES):
            answer = str(rng.randrange(5))
            text = "".join(rng.choices("abcdef \n", k=300)) + f"\\boxed{{{answer}}}"
            prompt = f"storm {seed} prompt {group}\n"
            content = json.dumps({"query": [prompt + text], "prompts": [prompt], "labels": [""]}).encode()
            found.append(Rollout(group, answer, content))
    return found


async def one_try(port: int, run: str, rollout: Rollout, seconds: float | None) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"POST /reward?group_size={SAMPLES}&run={run}-000000001 HTTP/1.1\r\nHost: localhost\r\n"
        size = len(rollout.body)
        head += f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n"
        writer.write(head.encode() + rollout.body)
        rollout.sent = time.perf_counter()
        async with asyncio.timeout(seconds or 180):
            answer = (await reader.readuntil(b"\r\n\r\n")).lower()
            content = await reader.readexactly(int(answer.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
        rollout.statuses.append(int(answer.split()[1]))
        if rollout.statuses[-1] == 200:
            rollout.reply, rollout.got = json.loads(content), time.perf_counter()
    finally:
        writer.close()


async def client(
    port: int,
    run: str,
    rollout: Rollout,
    breaks: Breaks = lambda k: None,
    *,
    start: float = 0.0,
    up: asyncio.Event | None = None,
) -> None:
    """OpenRLHF's: five tries, a second after each. `up`: and no try while the service starts, which may take long."""
    await asyncio.sleep(start)
    for k in range(TRIES):
        try:
            await one_try(port, run, rollout, breaks(k))
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
            rollout.statuses.append(type(error).__name__)
        if rollout.reply is not None:
            return
        await asyncio.sleep(PAUSE)
        if up is not None:
            await up.wait()


def waits(rollouts: list[Rollout]) -> list[float]:
    """Milliseconds from the last sibling's post to each reply, ascending."""
    last: defaultdict[int, float] = defaultdict(float)
    for r in rollouts:
        last[r.group] = max(last[r.group], r.sent)
    return sorted(1e3 * (r.got - last[r.group]) for r in rollouts if r.reply is not None)


def judged(rollouts: list[Rollout]) -> Counter[str]:
    """right, flagged, wrong or none."""
    groups = defaultdict(list)
    for r in rollouts:
        groups[r.group].append(r)
    found: Counter[str] = Counter()
    for members in groups.values():
        batch = [{"rollouts": [{"answer": r.answer} for r in members]}]
        wanted = rounded(estimate(batch, missing_entropy="frequency").groups[0].rewards)
        for r, reward in zip(members, wanted, strict=True):
            if r.reply is None:
                found["none"] += 1
            elif r.told("partial") or r.reply["extra_logs"].get("neutral", [0.0])[0]:
                found["partial" if not r.reply["extra_logs"].get("neutral", [0.0])[0] else "neutral"] += 1
            else:
                found["right" if (r.reply["rewards"][0], r.told("members")) == (reward, len(members)) else "wrong"] += 1
    return found


def breaking(rng: random.Random, twice: bool) -> Breaks:
    def after(k: int) -> float | None:
        if k == 0:
            return 0.02 + 0.6 * rng.random()
        return 0.05 + 0.5 * rng.random() if k == 1 and twice else None

    return after


def test_storms_across_the_filling_of_groups(capsys):
    total: Counter[str] = Counter()
    lost, after = 0, []
    with Service(JOIN_HOLD=100, JOIN_DEADLINE=120) as service:
        for k in range(STORMS):
            rollouts = step(PROMPTS, k)
            before = service.sent()

            async def storm(rollouts: list[Rollout] = rollouts, k: int = k) -> None:
                rng = random.Random(k)
                posts = (
                    client(service.port, f"storm{k}", r, breaking(rng, i % 2 == 0)) for i, r in enumerate(rollouts)
                )
                await asyncio.gather(*posts)

            asyncio.run(storm())
            total += judged(rollouts)
            after += waits(rollouts)
            lost += service.sent() - before - sum(r.statuses.count(200) for r in rollouts)
            with capsys.disabled():
                tries = Counter(status for r in rollouts for status in r.statuses)
                print(f"\nstorm {k}: {dict(judged(rollouts))}; tries {dict(tries)}", end="", flush=True)
        early = service.counts("dare_join_early_total")
    with capsys.disabled():
        print(f"\n{STORMS} storms x {PROMPTS * SAMPLES}: {dict(total)}; replies lost {lost}; early {early}")
        after.sort()
        quantiles = ", ".join(f"p{p} {after[len(after) * p // 100]:.0f}" for p in (50, 90, 99))
        print(f"ms after the last sibling: {quantiles}, slowest {after[-1]:.0f}")
    assert total == {"right": STORMS * PROMPTS * SAMPLES}


@pytest.mark.parametrize("answered", [1, 40, 200])
def test_a_kill_while_replies_are_sent(answered, capsys):
    with Service(JOIN_HOLD=8, JOIN_DEADLINE=15) as service:
        rollouts = step(16, 7)
        rng = random.Random(7)
        rng.shuffle(rollouts)

        async def run() -> None:
            up = asyncio.Event()
            up.set()
            posts = [client(service.port, "kill", r, start=rng.random(), up=up) for r in rollouts]
            tasks = [asyncio.ensure_future(post) for post in posts]
            while sum(r.reply is not None for r in rollouts) < answered:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
            up.clear()
            service.process.kill()
            await asyncio.to_thread(service.process.communicate)
            await asyncio.to_thread(service.start)
            up.set()
            await asyncio.gather(*tasks)

        asyncio.run(run())
        found = judged(rollouts)
    with capsys.disabled():
        print(f"\nkilled after {answered} replies: {dict(found)}")
    assert found["wrong"] == found["none"] == 0


@pytest.mark.parametrize("seconds", [2.2, 4.0])
def test_a_stopped_service_whose_clients_give_up_meanwhile(seconds, capsys):
    with Service(JOIN_HOLD=8, JOIN_DEADLINE=12) as service:
        rollouts = step(8, 4)

        async def run() -> None:
            first = rollouts[:-8]
            posts = [client(service.port, "stop", r, lambda k: 1.5 if k == 0 else None) for r in first]
            tasks = [asyncio.ensure_future(post) for post in posts]
            await asyncio.sleep(0.5)
            service.process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(seconds)
            service.process.send_signal(signal.SIGCONT)
            await asyncio.gather(*tasks, *(client(service.port, "stop", r) for r in rollouts[-8:]))

        asyncio.run(run())
        found = judged(rollouts)
    with capsys.disabled():
        print(f"\nstopped for {seconds} s: {dict(found)}")
    assert found == {"right": len(rollouts)}
