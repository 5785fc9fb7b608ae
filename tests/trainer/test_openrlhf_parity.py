"""Both of OpenRLHF's routes mean the same: reward, score, log and evaluation of 200 generated groups.

Here with classes of OpenRLHF's shape and a service in process; tests/openrlhf/test_released_parity.py has the released
ones and sockets.
"""

import asyncio
import json
from pathlib import Path

import httpx
import parity
import pytest

from dare_service.app import create_app
from dare_service.settings import Settings
from dare_trainer.agent import url_route_patch
from dare_trainer.agent.executor import Executor

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/openrlhf_requests.json").read_text())
CASES = parity.cases()
KINDS = sorted({c.name.partition("-")[0] for c in CASES})


@pytest.fixture(scope="module")
def app():
    return create_app(Settings(log="off", page="off"))


@pytest.fixture
def both(app, monkeypatch):
    """`await both(case)`: where the rollouts of a group get something else by the URL than by the agent."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")

    async def post(url, body):
        content, headers = parity.request_bytes(body), {"content-type": GOLDEN["media"]}
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
            reply = await client.post(url, content=content, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply.json()

    monkeypatch.setattr(url_route_patch, "_post", post)

    async def run(case):
        kind = parity.openrlhf_like(f"http://service/reward?{case.query}", post)
        executor = (parity.patched(kind) if case.sends else kind)()
        agent = Executor(case.agent("http://service"), transport=parity.InProcess(app))
        try:
            return parity.differences(case, await parity.group(executor, case), await parity.group(agent, case))
        except AssertionError as error:
            return [f"{case.name}: {error}"]
        finally:
            await agent.close()

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_both_routes_mean_the_same(both, kind):
    chosen = [c for c in CASES if c.name.startswith(f"{kind}-")]
    assert len(chosen) >= 20

    async def main():
        async with asyncio.timeout(120):
            return [line for case in chosen for line in await both(case)]

    wrong = asyncio.run(main())
    assert not wrong, "\n".join(wrong[:40])


def test_the_bytes_are_those_of_the_released_client():
    for case in GOLDEN["requests"]:
        body = {"query": [case["prompt"] + case["response"]], "prompts": [case["prompt"]], "labels": [case["label"]]}
        assert parity.request_bytes(body).decode() == case["body"]
