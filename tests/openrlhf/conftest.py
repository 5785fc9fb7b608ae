"""The released OpenRLHF client against a service in this process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import serving
from released import Release

from dare_trainer.openrlhf import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))  # fakes.py, parity.py, whose names no package claims
import fakes


@pytest.fixture(scope="session")
def release() -> Release:
    return Release(Path(os.environ["OPENRLHF_TREE"]))


@pytest.fixture
def born(release) -> Callable[..., Any]:
    """`born(url, ...)`: the release's executor as its rollout actor has it with this package."""
    kind = type("SingleTurnAgentExecutor", (release.agent.SingleTurnAgentExecutor,), {})
    assert patch.patch_class(kind)
    return lambda *urls: kind(list(urls))


@pytest.fixture
def step(release) -> Callable[..., Any]:
    """`await step(url, said)`: what the release's `generate_responses` returns for each prompt, whose rollouts give the
    answers that are `said`, and end in any order."""

    async def run(url: str, said: Mapping[str, Sequence[object]]) -> list[list[dict]]:
        executor = release.agent.SingleTurnAgentExecutor([url])
        module = vars(release.module("trainer.ray.vllm_engine"))  # the actor's name differs between releases
        named = "generate_responses"
        responses = next(vars(c)[named] for c in module.values() if named in getattr(c, "__dict__", ()))
        calls = []
        for prompt, answers in said.items():
            engine = fakes.Engine(lambda n, said=answers: f"It is \\boxed{{{said[n]}}}.", delay=0.1)
            actor = types.SimpleNamespace(executor=executor, generate=engine.generate)
            shared, count = fakes.SamplingParams(), len(answers)
            calls.append(responses(actor, prompt, "", shared, 4096, fakes.Tokenizer(), num_samples=count))
        return list(await asyncio.gather(*calls))

    return run


@pytest.fixture
def live() -> Iterator[Callable[..., str]]:
    """`live(setting=...)`: the URL of a running service that OpenRLHF is given."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: f"{stack.enter_context(serving.Live(**settings)).url}/reward"
