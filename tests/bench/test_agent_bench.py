"""What the agent adds to a step: the time between a group's last generated rollout and its rewards.

64 prompts of 64 rollouts in one actor, a live service, rollouts of 3,000 characters that end over ten seconds.
"""

import asyncio
import random
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
from conftest import serving
from fakes import Engine, completion, generate_responses

from dare_trainer.agent.config import AgentConfig
from dare_trainer.agent.executor import Executor

pytestmark = pytest.mark.bench
FILLER = "We reason step by step about the terms of this sum and check each of them again. " * 37


class Paced(Engine):
    """Prompt by prompt over the given time, the siblings of a prompt within half a second. Outputs are made beforehand."""

    def __init__(self, prompts, seconds):
        super().__init__(None)
        self.rng = random.Random(1)
        self.start = {f"p{i}": self.rng.random() * seconds for i in range(prompts)}
        self.made = [completion(f"{FILLER}\\boxed{{\\frac{{{i % 9 + 1}}}{{7}}}}", 0.1 + 0.01 * i) for i in range(32)]
        self.last = 0.0

    async def generate(self, prompt_token_ids, sampling_params, **_):
        prompt = "".join(chr(i - 10) for i in prompt_token_ids)
        await asyncio.sleep(self.start[prompt] + 0.5 * self.rng.random())
        self.last = time.perf_counter()
        return SimpleNamespace(outputs=[self.rng.choice(self.made)])


@pytest.mark.parametrize("seconds", [10.0])
def test_reward_wait(seconds, capsys, monkeypatch):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "off")
    prompts, samples = 64, 64

    async def main(executor):
        engine = Paced(prompts, seconds)
        calls = [generate_responses(executor, engine, prompt=f"p{i}", n=samples) for i in range(prompts)]
        groups = await asyncio.gather(*calls)
        idle = time.perf_counter() - engine.last
        await executor.close()
        return groups, idle

    with serving() as (url, _):
        executor = Executor(AgentConfig(url=url))
        groups, idle = asyncio.run(main(executor))
    waits = np.array([g[0]["extra_logs"]["reward_wait_ms"] for g in groups])
    assert {r["extra_logs"]["reward_fallback"] for g in groups for r in g} == {0.0}
    with capsys.disabled():
        p50, p99 = np.quantile(waits, [0.5, 0.99])
        print(
            f"\n64 x 64: group wait p50 {p50:.1f} ms, p99 {p99:.1f} ms, max {waits.max():.1f} ms; step idle {1e3 * idle:.1f} ms"
        )
