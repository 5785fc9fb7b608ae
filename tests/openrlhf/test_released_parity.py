"""Both routes mean the same with the released classes: the client's executor and the base class of the agent.

The groups and what must be equal: tests/trainer/parity.py; without a release: tests/trainer/test_openrlhf_parity.py.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from dare_trainer.agent import url_route_patch
from dare_trainer.launch.compose import prepare_folder

sys.path.insert(0, str(Path(__file__).parents[1] / "trainer"))
import parity

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # torch's own
]
CASES = parity.cases()
KINDS = sorted({c.name.partition("-")[0] for c in CASES})


@pytest.fixture
def executors(release, monkeypatch):
    """The released executor: as it is, and with what our package adds on the rollout nodes."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    released = release.agent.SingleTurnAgentExecutor
    more = type("SingleTurnAgentExecutor", (released,), {})
    assert url_route_patch.patch_class(more)
    return {False: released, True: more}


@pytest.mark.parametrize("kind", KINDS)
async def test_both_routes_mean_the_same(live, release, executors, tmp_path, kind):
    load = release.module("trainer.ray.vllm_engine")._load_agent_executor
    service = live()
    wrong = []
    for case in (c for c in CASES if c.name.startswith(f"{kind}-")):
        folder = tmp_path / case.name
        prepare_folder(
            {"train.agent_func_path": str(folder / "agent.py")}, case.agent(service.url.removesuffix("/reward"))
        )
        executor = executors[case.sends]([f"{service.url}?{case.query}"])
        agent = await asyncio.to_thread(load, str(folder / "agent.py"))
        assert isinstance(agent, release.agent.AgentExecutorBase)
        by_url, by_agent = await parity.group(executor, case), await parity.group(agent, case)
        await agent._executor.close()
        wrong += parity.differences(case, by_url, by_agent)
    assert not wrong, "\n".join(wrong[:40])
