"""The released OpenRLHF client against a service in this process."""

from __future__ import annotations

import asyncio
import contextlib
import copy
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

NAMED = "generate_responses"


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
def generate(release) -> Callable[..., Any]:
    """`await generate(executor, engine, prompt, n=count)`: the release's `generate_responses`, to which Ray hands objects of
    each call's own."""
    module = vars(release.module("trainer.ray.vllm_engine"))  # the actor's name differs between releases
    responses = next(vars(c)[NAMED] for c in module.values() if NAMED in getattr(c, "__dict__", ()))

    def call(executor, engine, prompt: str, *, label: str = "", n: int, params: Any = None) -> Any:
        actor = types.SimpleNamespace(executor=executor, generate=engine.generate, llm=engine.llm)
        own = copy.deepcopy(params or fakes.SamplingParams())
        return responses(actor, prompt, label, own, 4096, fakes.Tokenizer(), num_samples=n)

    return call


@pytest.fixture
def step(release, generate) -> Callable[..., Any]:
    """`await step(url, said)`: what the release returns for each prompt, whose rollouts give the answers that are `said`,
    and end in any order."""

    async def run(url: str, said: Mapping[str, Sequence[object]]) -> list[list[dict]]:
        executor = release.agent.SingleTurnAgentExecutor([url])
        engines = [fakes.Engine(lambda n, own=own: f"It is \\boxed{{{own[n]}}}.", delay=0.1) for own in said.values()]
        pairs = zip(said.items(), engines, strict=True)
        return list(await asyncio.gather(*(generate(executor, e, prompt, n=len(own)) for (prompt, own), e in pairs)))

    return run


@pytest.fixture
def live() -> Iterator[Callable[..., str]]:
    """`live(setting=...)`: the URL of a running service that OpenRLHF is given."""
    with contextlib.ExitStack() as stack:
        yield lambda **settings: f"{stack.enter_context(serving.Live(**settings)).url}/reward"
