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
import fakes
import parity

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own
]


@pytest.mark.parametrize("kind", parity.KINDS)
async def test_a_group_means_the_same_with_and_without_the_package(live, release, monkeypatch, kind):
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    released = release.agent.SingleTurnAgentExecutor
    more = type("SingleTurnAgentExecutor", (released,), {})
    assert patch.patch_class(more)
    service = live()
    async with httpx.AsyncClient() as client:
        info = (await client.get(service.removesuffix("reward") + "info")).json()
    monkeypatch.setattr(group, "service_info", lambda *_: info)  # what is asked at a start is other tests' business
    monkeypatch.setattr(group, "handshake", lambda *_: None)

    async def ours(case):
        url = f"{service}?{case.query}"
        executor = more([url if case.sends else f"{url}&entropy=none"])
        try:
            return await parity.group(executor, case)
        finally:
            await fakes.close(executor)

    async def without(case):
        return await parity.group(released([f"{service}?{case.query}"]), case)

    wrong = await parity.wrong(kind, ours, without)
    assert not wrong, "\n".join(wrong[:40])
