"""A service without a network, for the adapters."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import httpx
import pytest
from stack_samples import INFO, example, replied

from dare_reward.stacks import adapter as common
from dare_reward.stacks import report, slime

easyr1 = example("easyr1")
swift = example("ms_swift", swift__rewards={"orms": {}})


@pytest.fixture
def service(monkeypatch):
    """Clients without a network; `service.bodies` is what was sent and `service.recorded` whether for the run log too,
    `service.change` alters replies, `service.down` ends it."""
    state = SimpleNamespace(bodies=[], recorded=[], change=lambda reply: reply, down=False)

    def answer(request):
        if state.down:
            raise httpx.ConnectError("nobody there")
        if request.url.path == "/info":
            return httpx.Response(200, json=INFO)
        state.bodies.append(json.loads(request.content))
        state.recorded.append(request.headers.get("dare-record") != "no")
        return httpx.Response(200, content=replied(state.bodies[-1], request.headers["x-request-id"], state.change))

    from dare_reward import client

    for kind in ("Client", "AsyncClient"):
        made = partial(getattr(client, kind), transport=httpx.MockTransport(answer), retries=0)
        monkeypatch.setattr(client, kind, made)
    common._client.cache_clear()
    report._seen.clear()
    slime._parsed.cache_clear()
    easyr1._scorer.cache_clear()
    yield state
    common._client.cache_clear()
