"""Groups born in a released OpenRLHF's rollout actor, and what faults around it cost them.

    python scripts/test_stack.py openrlhf     makes the environment and unpacks the releases
    OPENRLHF_TREE=... .stacks/openrlhf/bin/python tests/faults/births.py [ROW ...]

Each row is a step of the release's own executor with this package, of 16 rollouts a prompt. Every reward, score and log
is held against the estimator in this process, to the last bit of reward and score; where one is lost or differs, the
row has failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))

import parity
import table
from released import Release
from serving import answering, free_port, service
from tries import count

from dare_trainer.openrlhf import patch

SIZE, PROMPTS = 16, 8
row = table.Rows()
RELEASE = Release(Path(os.environ["OPENRLHF_TREE"]))
Born = type("SingleTurnAgentExecutor", (RELEASE.agent.SingleTurnAgentExecutor,), {})


def cases(seed: str, *, count: int = PROMPTS, size: int = SIZE, label: Any = "1") -> list[parity.Case]:
    """What the rollouts of prompts p0, p1 ... say, by the seed, and how sure the policy was."""
    out = []
    for i in range(count):
        rng = random.Random(f"{seed} {i}")
        texts = tuple(f"It is \\boxed{{{rng.choice('1123')}}}." for _ in range(size))
        entropies = tuple(rng.random() for _ in texts)
        out.append(parity.Case(f"p{i}", texts, entropies, (False,) * size, label))
    return out


async def step(executor: Any, of: Sequence[parity.Case], slow: float = 0.05) -> list[list[Any]]:
    return await asyncio.gather(*(parity.group(executor, case, parity.engine_of(case, slow=slow)) for case in of))


async def begun(*urls: str) -> Any:
    """An executor after its handshake, which is before the first rollout."""
    executor = Born([f"{url}/reward" for url in urls])
    await step(executor, cases("begin", count=1))
    return executor


def told(of: Sequence[parity.Case], found: Sequence[list[Any]]) -> str:
    """Where the rewards came from; an error where one is lost or wrong."""
    rows = [row for group in found for row in group]
    assert not (lost := sum(row["reward"] is None for row in rows)), f"{lost} lost"
    wrong = [
        w for case, group in zip(of, found, strict=True) for w in parity.differences(case, group, parity.alone(case))
    ]
    assert not wrong, f"{len(wrong)} wrong, such as {wrong[0]}"
    here = sum(parity.flat(row)["reward_fallback"] == 1.0 for row in rows)
    return f"{len(rows)} of {len(rows)} rollouts have their reward, {here} of them computed in the actor"


def served(main: Callable[[str], Coroutine[Any, Any, str]]) -> Callable[[], str]:
    """A row beside one service, whose URL `main` gets; how many groups the service has scored is told too."""

    @wraps(main)
    def run() -> str:
        with service() as one:
            seen = asyncio.run(main(one.url))
            return f"{seen}; {count(one.url, 'dare_estimate_seconds_count'):g} posts, with the handshake"

    return run


@row("nothing")
@served
async def same(url: str) -> str:
    return told(cases("a"), await step(Born([f"{url}/reward"]), cases("a")))


@row("the engine dies at one rollout of a prompt")
@served
async def engine_dies(url: str) -> str:
    executor, (case,) = await begun(url), cases("a", count=1)
    engine = parity.engine_of(case, slow=0.3, dies=2)
    start = time.monotonic()
    found = await parity.group(executor, case, engine, return_exceptions=True)
    seconds = time.monotonic() - start
    assert (engine.running, vars(executor)[patch.ROUTE].siblings.open) == (0, {}), "something runs on"
    if seconds >= 1:
        raise TimeoutError(f"{seconds:.1f} s")
    stopped = sum(isinstance(one, Exception) for one in found)
    return f"its group ends after {seconds:.1f} s: {stopped} stopped, {SIZE - stopped} with equal rewards"


def gone(services: int, slow: float, after: float) -> str:
    """The last of them, so long after the step began."""

    async def main(running: Sequence[Any]) -> str:
        executor, of = await begun(*(one.url for one in running)), cases("a")
        begin = asyncio.ensure_future(step(executor, of, slow=slow))
        await asyncio.sleep(after)
        running[-1].kill()
        return told(of, await begin)

    with contextlib.ExitStack() as stack:
        return asyncio.run(main([stack.enter_context(service()) for _ in range(services)]))


row("the service is killed in the step, for ever", name="gone")(partial(gone, 1, slow=3, after=0.5))
row("two reward URLs, one service killed in the step", name="two_urls")(partial(gone, 2, slow=1, after=0.3))


def restarted(sign: int, away: float) -> str:
    """Under load; steps go on until the service scores again."""
    port = free_port()

    async def main(stack: contextlib.ExitStack) -> str:
        running = stack.enter_context(service(port=port))
        executor, of = await begun(running.url), cases("a", count=24)
        first = asyncio.ensure_future(step(executor, of, slow=2.5))
        await asyncio.sleep(1.9)
        start = time.monotonic()
        running.send_signal(sign)
        await asyncio.to_thread(running.wait)

        async def again() -> float:
            await asyncio.sleep(away)
            await asyncio.to_thread(stack.enter_context, service(port=port))
            return time.monotonic() - start

        back = asyncio.ensure_future(again())
        seen, steps, later = told(of, await first), 0, ""
        while not back.done() or ", 0 of" not in later:
            later, steps = told(of, await step(executor, of, slow=2.5)), steps + 1
            assert not back.done() or back.exception() is None, "the service did not come back"
        return f"{seen}; away for {back.result():.1f} s; step {steps} after is the service's alone again"

    with contextlib.ExitStack() as stack:
        return asyncio.run(main(stack))


row("SIGTERM under load", name="term")(partial(restarted, signal.SIGTERM, 0))
row("kill -9 under load", name="kill")(partial(restarted, signal.SIGKILL, 0))
row("kill -9, back after 60 s", name="away_60")(partial(restarted, signal.SIGKILL, 58))


@row("two jobs post the same prompts at once, without names")
@served
async def two_jobs(url: str) -> str:
    jobs = [(await begun(url), cases(seed)) for seed in "ab"]
    found = await asyncio.gather(*(step(executor, of) for executor, of in jobs))
    return "; ".join(told(of, rows) for (_, of), rows in zip(jobs, found, strict=True))


async def among(url: str, more: Sequence[parity.Case]) -> str:
    """A step with these groups among its own."""
    of = [*cases("a"), *more]
    return told(of, await step(await begun(url), of))


EVALUATED = cases("b", size=4, label={"answer": "1", "split": "eval"})
row("evaluations among training", name="evaluation")(served(partial(among, more=EVALUATED)))
row("each prompt twice in a batch", name="duplicates")(served(partial(among, more=cases("b"))))


@row("another reward server, where this package is installed too")
def foreign() -> str:
    bodies = []

    def reply(handler: BaseHTTPRequestHandler, content: bytes) -> tuple[int, bytes]:
        if handler.command == "GET":
            return 404, b"{}"
        bodies.append(json.loads(content))
        return 200, b'{"rewards": [0.25], "scores": [0.5], "extra_logs": {}}'

    with answering(reply) as url:
        found = asyncio.run(step(Born([f"{url}/score"]), cases("a")))
    rewards = {parity.flat(row)["reward"] for group in found for row in group}
    assert (rewards, {tuple(body) for body in bodies}) == ({0.25}, {("query", "prompts", "labels")})
    return f"{len(bodies)} posts of one rollout, as without this package; its rewards are untouched"


if __name__ == "__main__":
    os.environ["VLLM_TOKEN_ENTROPY"] = "temperature"
    assert patch.patch_class(Born)
    logging.getLogger("dare_trainer").setLevel(logging.CRITICAL)
    sys.exit(table.run(row, __doc__ or "", "the actor"))
