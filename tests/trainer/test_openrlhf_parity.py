"""OpenRLHF's rollouts mean the same with this package and without: reward, score, log and evaluation of 200 groups.

Here with a class of OpenRLHF's shape; tests/openrlhf/test_released_parity.py has the released ones.
"""

import asyncio

import fakes
import httpx
import parity
import pytest
import serving

from dare_service.app import create_app
from dare_service.settings import Settings


@pytest.fixture(scope="module")
def app():
    """Without sockets, single posts arrive in the order in which they were sent: the first seen wins a tie."""
    return create_app(Settings(log="off", page="off"))


@pytest.mark.parametrize("part", range(parity.PARTS))
def test_a_group_means_the_same_with_and_without_the_package(live, app, monkeypatch, part):
    """Where entropies count, which only the package has, by the estimator in process."""

    async def without(case):
        """As unmodified OpenRLHF posts: each rollout alone, as text."""
        async with httpx.AsyncClient(transport=httpx.ASGITransport(serving.told(app))) as client:

            class Plain(fakes.released()):
                async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list):
                    body = {"query": queries_list, "prompts": prompts_list, "labels": labels_list}
                    reply = await client.post(self.reward_endpoints[0], json=body)
                    assert reply.status_code == 200, reply.text
                    return [reply.json()]

            return await parity.group(Plain(f"http://service/reward?{case.query}"), case)

    asyncio.run(parity.check(part, fakes.patched, live, without, monkeypatch))
