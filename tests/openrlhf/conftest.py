"""The released OpenRLHF client against a service in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import serving
from released import Engine, Release, Tokenizer


@pytest.fixture(scope="session")
def release() -> Release:
    return Release(Path(os.environ["OPENRLHF_TREE"]))


@pytest.fixture
def step(release) -> Callable[..., Any]:
    """`await step(url, prompts, n)`: what `generate_responses` of the release returns for each prompt."""

    async def run(url: str, prompts: list[tuple[str, Any]], n: int, *, say=None, seed: int = 0) -> list[list[dict]]:

        rng = random.Random(seed)
        say = say or (lambda prompt: (f"It is \\boxed{{{rng.choice([1, 1, 2, 3])}}}.<|im_end|>", rng.random() * 0.5))
        actor = types.SimpleNamespace(
            executor=release.agent.SingleTurnAgentExecutor([url]), generate=Engine(say).generate
        )
        module = vars(release.module("trainer.ray.vllm_engine"))  # the actor's name differs between releases
        responses = next(
            c.generate_responses for c in module.values() if "generate_responses" in getattr(c, "__dict__", ())
        )
        params = types.SimpleNamespace(max_tokens=64, logprobs=None)
        calls = (responses(actor, p, label, params, 4096, Tokenizer(), num_samples=n) for p, label in prompts)
        return list(await asyncio.gather(*calls))

    return run


@pytest.fixture
def live() -> Iterator[Callable[..., str]]:
    """`live(setting=...)`: the URL of a running service that OpenRLHF is given."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: f"{stack.enter_context(serving.Live(**settings)).url}/reward"
