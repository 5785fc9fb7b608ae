"""With this package and without, the released executors mean the same: 200 groups of tests/trainer/parity.py.

Without a release: tests/trainer/test_openrlhf_parity.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import httpx
import pytest

from dare_trainer.openrlhf import group, patch

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import parity

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own
]
CASES = parity.cases()
KINDS = sorted({c.name.partition("-")[0] for c in CASES})


@pytest.mark.parametrize("kind", KINDS)
async def test_a_group_means_the_same_with_and_without_the_package(live, release, monkeypatch, kind):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    released = release.agent.SingleTurnAgentExecutor
    more = type("SingleTurnAgentExecutor", (released,), {})
    assert patch.patch_class(more)
    service = live()
    async with httpx.AsyncClient() as client:
        info = (await client.get(service.url.removesuffix("reward") + "info")).json()
    monkeypatch.setattr(group, "service_info", lambda *_: info)  # what is asked at a start is other tests' business
    monkeypatch.setattr(group, "handshake", lambda *_: None)
    wrong = []
    for case in (c for c in CASES if c.name.startswith(f"{kind}-")):
        url = f"{service.url}?{case.query}"
        ours = more([url if case.sends else f"{url}&entropy=none"])
        other = parity.alone(case) if case.sends else await parity.group(released([url]), case)
        wrong += parity.differences(case, await parity.group(ours, case), other)
        await vars(ours)[patch.ROUTE]._scorer.close()
    assert not wrong, "\n".join(wrong[:40])


async def test_one_object_for_two_prompts_is_two_groups(live, release, monkeypatch):
    """It cannot happen through Ray, which unpickles a fresh one for each call; where it does, prompts tell them apart."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    more = type("SingleTurnAgentExecutor", (release.agent.SingleTurnAgentExecutor,), {})
    assert patch.patch_class(more)
    shared, executor = parity.SamplingParams(max_tokens=64), more([live().url])
    one, two = (next(c for c in CASES if c.name.startswith(kind)) for kind in ("tied-", "pruned-"))
    found = await parity.asyncio.gather(*(parity.group(executor, case, shared) for case in (one, two)))
    await vars(executor)[patch.ROUTE]._scorer.close()
    for case, rows in zip((one, two), found, strict=True):
        assert {parity.flat(row)["extra_logs"]["votes"] for row in rows} == {float(len(case.texts))}
