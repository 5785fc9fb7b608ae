"""A service without a network, for the adapters."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import httpx
import pytest
from stack_samples import example

import dare_reward
from dare_reward.scoring.update import update_specs
from dare_reward.stacks import adapter as common
from dare_reward.stacks import report, slime

OPTIONS = {s.name for s in update_specs()}
SETTINGS = {"max_groups": 1024, "max_json_bytes": 1 << 26, "max_body_bytes": 1 << 27}

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
            return httpx.Response(200, json={"settings": SETTINGS})
        body = json.loads(request.content)
        state.bodies.append(body)
        state.recorded.append(request.headers.get("dare-record") != "no")
        update = {name: body[name] for name in (*OPTIONS, "shadow", "seed", "labelled") if name in body}
        reply = dare_reward.estimate(body["groups"], method=body["method"], **body["params"], **update).to_json()
        reply["request_id"] = request.headers["x-request-id"]
        return httpx.Response(200, content=json.dumps(state.change(json.loads(json.dumps(reply)))))

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
