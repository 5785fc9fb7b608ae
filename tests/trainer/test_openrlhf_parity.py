"""OpenRLHF's rollouts mean the same with this package and without: reward, score, log and evaluation of 200 groups.

Here with a class of OpenRLHF's shape; tests/openrlhf/test_released_parity.py has the released ones.
"""

import asyncio
import json
from functools import partial
from pathlib import Path

import fakes
import httpx
import parity
import pytest
import serving

from dare_service.app import create_app
from dare_service.settings import Settings

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/openrlhf_requests.json").read_text())


@pytest.fixture(scope="module")
def service():
    with serving.Live() as live:
        yield live.url


@pytest.fixture(scope="module")
def app():
    """Without sockets, single posts arrive in the order in which they were sent: the first seen wins a tie."""
    return create_app(Settings(log="off", page="off"))


async def without_package(case, app):
    """As unmodified OpenRLHF posts: each rollout alone, as text."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(serving.told(app))) as client:

        class Plain(fakes.released()):
            async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list):
                body = {"query": queries_list, "prompts": prompts_list, "labels": labels_list}
                content, headers = parity.request_bytes(body), {"content-type": GOLDEN["media"]}
                reply = await client.post(self.reward_endpoints[0], content=content, headers=headers)
                assert reply.status_code == 200, reply.text
                return [reply.json()]

        return await parity.group(Plain(f"http://service/reward?{case.query}"), case)


@pytest.mark.parametrize("kind", parity.KINDS)
def test_a_group_means_the_same_with_and_without_the_package(service, app, monkeypatch, kind):
    """Where entropies count, which only the package has, by the estimator in process."""
    parity.at_once(monkeypatch, service)

    def ours(case):
        url = f"{service}/reward?{case.query}{'' if case.sends else '&entropy=none'}"
        return parity.with_package(fakes.patched(url), case)

    wrong = asyncio.run(parity.wrong(kind, ours, partial(without_package, app=app)))
    assert not wrong, "\n".join(wrong[:40])


def test_the_bytes_are_those_of_the_released_client():
    for case in GOLDEN["requests"]:
        body = {"query": [case["prompt"] + case["response"]], "prompts": [case["prompt"]], "labels": [case["label"]]}
        assert parity.request_bytes(body).decode() == case["body"]
