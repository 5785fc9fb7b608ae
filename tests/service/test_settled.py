"""POST /v1/settled: what it answers is what `settled` says, in both forms, and its refusals are those of /v1/reward."""

import asyncio
import json

import httpx
import numpy as np
import pytest

import dare_reward
from dare_reward import AsyncClient, Client, SettledReply
from dare_reward.errors import ConfigError, RefusedError, ReplyError, UnavailableError
from dare_reward.groups import Ragged
from dare_reward.wire import pack

pytestmark = pytest.mark.usefixtures("plugins")

RNG = np.random.default_rng(4)
FRAME = {"content-type": "application/vnd.safetensors"}
ROUTE = "/v1/settled"


def groups(count=6, size=16, values="1112"):
    """Entropies of three tokens each; a quarter of the votes disagree."""
    return [
        {
            "group_id": f"g{p}",
            "rollouts": [
                {"text": f"\\boxed{{{RNG.choice(list(values))}}}", "token_entropies": RNG.gamma(0.3, 1.0, 3).tolist()}
                for _ in range(size)
            ],
        }
        for p in range(count)
    ]


def as_frame(sent, **head):
    bare = [{**g, "rollouts": [{"text": r["text"]} for r in g["rollouts"]]} for g in sent]
    rows = [np.array(r["token_entropies"]) for g in sent for r in g["rollouts"]]
    return pack(
        {**head, "groups": bare},
        {"token_entropies": Ragged(np.concatenate(rows), np.array([len(r) for r in rows]))},
    )


@pytest.mark.parametrize("method", ["dare", "ttrl", "empo"])
def test_both_forms_equal_in_process(service, method):
    sent = groups()
    local = dare_reward.settled(sent, method=method, votes=32, wave=4)
    assert {g.settled for g in local.groups} <= {True, False}
    head = {"method": method, "votes": 32, "wave": 4}
    for body, headers in ((({**head, "groups": sent}), {}), (as_frame(sent, **head), FRAME)):
        reply = service.post(body, ROUTE, headers=headers)
        found = SettledReply.from_json(reply.json())
        assert (found.groups, found.config_id) == (local.groups, local.config_id)
        assert found.diagnostics == local.diagnostics
        assert reply.headers["x-request-id"] == found.request_id


def test_the_url_wins_over_the_body(service):
    sent = {"method": "dare", "votes": 64, "groups": groups(1)}
    found = SettledReply.from_json(service.post(sent, f"{ROUTE}?method=ttrl&votes=20&wave=3&rule=predictive").json())
    wanted = dare_reward.settled(sent["groups"], method="ttrl", votes=20, wave=3, rule="predictive")
    assert found.groups == wanted.groups


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"rule": "magic"}, 422, "rule"),
        ({"rule": "predictive", "method": "dare"}, 422, "use rule=rewards"),
        ({"method": "ddrl"}, 422, "none of them only votes"),
        ({"votes": 0}, 422, "votes"),
        ({"votes": "64"}, 422, "votes"),
        ({"rule_params": []}, 422, "rule_params"),
        ({"rule_params": {"x": 1}}, 422, "unknown parameter 'x'"),
        ({"shadow": ["ttrl"]}, 422, "unknown field 'shadow'"),
        ({"groups": [{"rollouts": []}]}, 422, "rollouts"),
        ({"groups": groups(5, 1)}, 413, "groups"),
    ],
)
def test_refusals(make_service, change, status, words):
    reply = make_service(max_groups=4).post({"groups": groups(1, 4), **change}, ROUTE)
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert words in reply.json()["detail"]


def test_the_token_is_asked_for(make_service):
    service = make_service(token="secret-secret-secret")
    sent = {"groups": groups(1, 4)}
    assert service.post(sent, ROUTE).status_code == 401
    assert service.post(sent, ROUTE, headers={"authorization": "Bearer secret-secret-secret"}).status_code == 200


def test_what_is_saved_is_counted(make_service):
    service = make_service()
    rollouts = [{"answer": "1"}] * 32
    service.post({"method": "ttrl", "groups": [{"rollouts": rollouts}]}, ROUTE)
    text = service.get("/metrics").text
    assert "dare_votes_saved_total 32.0" in text
    assert 'dare_settled_total{outcome="settled"} 1.0' in text


# --- clients ---------------------------------------------------------------------------------------------------------


def through(service, **options):
    """A client whose requests go to the application without a socket."""
    sent = []

    def handle(request):
        sent.append(request)
        reply = service.request(
            request.method, str(request.url.raw_path, "ascii"), content=request.content, headers=dict(request.headers)
        )
        return httpx.Response(reply.status_code, content=reply.content, headers=reply.headers)

    return Client("http://test", transport=httpx.MockTransport(handle), retries=0, **options), sent


@pytest.mark.parametrize("tokens", [False, True])
def test_a_client_says_what_settled_says(service, tokens):
    client, _ = through(service, send_tokens=tokens)
    sent = groups()
    found = client.settled(sent, method="dare", votes=32, rule_params={"draws": 30}, alpha=0.2)
    wanted = dare_reward.settled(sent, method="dare", votes=32, rule_params={"draws": 30}, alpha=0.2)
    assert (found.groups, found.diagnostics) == (wanted.groups, wanted.diagnostics)


def test_the_asynchronous_client(service):
    sent = groups(2)

    async def ask():
        transport = httpx.ASGITransport(app=service.app)
        async with AsyncClient("http://test", transport=transport) as client:
            return await client.settled(sent, method="ttrl", votes=32)

    assert asyncio.run(ask()).groups == dare_reward.settled(sent, method="ttrl", votes=32).groups


def test_many_groups_travel_in_several_requests(make_service):
    client, sent = through(make_service(max_groups=2))
    many = groups(5)
    found = client.settled(many, method="dare", votes=32)
    wanted = dare_reward.settled(many, method="dare", votes=32)
    assert (found.groups, found.diagnostics) == (wanted.groups, wanted.diagnostics)
    assert [r.url.path for r in sent] == ["/info", *[ROUTE] * 3]


def test_without_a_service():
    sent = groups(2)
    with pytest.raises(UnavailableError):
        Client("http://127.0.0.1:9", retries=0).settled(sent, method="ttrl")
    found = Client("http://127.0.0.1:9", retries=0, fallback="local").settled(sent, method="ttrl")
    assert found.flags == ("local_fallback",)
    assert found.groups == dare_reward.settled(sent, method="ttrl").groups


def test_a_service_of_before_is_an_error_that_says_so(service):
    def handle(request):
        if request.url.path == ROUTE:
            return httpx.Response(404, json={"detail": "no such route"})
        return httpx.Response(200, content=service.get(request.url.path).content)

    with pytest.raises(RefusedError, match="no such route"):
        Client("http://test", transport=httpx.MockTransport(handle), retries=0).settled(groups(1))


@pytest.mark.parametrize(
    "change",
    [
        {"groups": []},
        {"request_id": "another"},
        {"groups": [{"group_id": "g0", "votes": 16, "settled": "yes", "more": 0, "risk": 0.1}]},
        {"groups": [{"group_id": "g0", "votes": 15, "settled": True, "more": 0, "risk": 0.1}]},
        {"method": "rent"},
        {"version": 3},
    ],
)
def test_a_reply_that_does_not_fit_is_refused(service, change):
    def handle(request):
        reply = service.request(
            request.method, request.url.path, content=request.content, headers=dict(request.headers)
        )
        content = reply.json() | (change if request.url.path == ROUTE else {})
        return httpx.Response(200, content=json.dumps(content).encode())

    with pytest.raises(ReplyError):
        Client("http://test", transport=httpx.MockTransport(handle), retries=0).settled(groups(1), method="dare")


def test_votes_stop_by_the_configuration_that_is_trained_on(make_service):
    """A service that changes its defaults within a run is noticed here as it is for rewards."""
    one, other = make_service(), make_service(method="dare", params='{"alpha": 0.5}')
    client, _ = through(one)
    sent = groups(1)
    client.reward(sent, method="dare")
    client._connections.clear()
    client._transport = through(other)[0]._transport
    with pytest.raises(ConfigError, match="Restart the run"):
        client.settled(sent, method="dare")


def test_the_work_of_every_draw_counts(make_service):
    """What a method may take in a request is what all its futures may take."""
    service = make_service(max_request_steps=2_000)
    rollouts = [{"answer": "12"[i % 2]} for i in range(32)]
    body = {"method": "gmae", "params": {"group_size": 16}, "groups": [{"rollouts": rollouts}]}
    assert service.post(body).status_code == 200
    found = service.post({**body, "votes": 48, "rule_params": {"draws": 200}}, ROUTE)
    assert found.status_code == 413
    assert "max_request_steps".upper() in found.json()["detail"].upper()


@pytest.mark.parametrize(
    ("rule", "method", "own"),
    [("rewards", "weighted_vote", {"eps": 0.1}), ("predictive", "ttrl", {"tie": "lexicographic"})],
)
def test_the_votes_to_come_are_work_of_the_request_however_its_groups_are_configured(make_service, rule, method, own):
    """9 kB of groups with parameters of their own took 27 s: each was bounded by itself."""
    bare = [{"rollouts": [{"answer": str(i), "mean_entropy": 0.1} for i in (1, 2)]} for _ in range(64)]
    mixed = [{**g, "method": method, "params": own if i % 2 else {}} for i, g in enumerate(bare)]
    service = make_service(max_request_steps=60_000)
    for sent in (bare, mixed):
        body = {"method": method, "groups": sent, "votes": 1024, "rule": rule}
        assert service.post({**body, "groups": sent[:2]}, ROUTE).status_code == 200
        assert service.post({**body, "votes": 32}, ROUTE).status_code == 200
        refused = service.post(body, ROUTE)
        assert refused.status_code == 413
        (entry,) = refused.json()["errors"]
        assert entry["code"] == "steps"
        assert entry["loc"].startswith("groups[")
