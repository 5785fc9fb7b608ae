"""What requests may ask for beside a method: advantages, shadows, seeds, frames as replies, embeddings."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import numpy as np
import pytest

import dare_reward
from dare_reward.methods import methods
from dare_reward.reply import Reply

ACCEPT = {"accept": "application/vnd.safetensors"}


def test_advantages_shadows_and_seeds_equal_in_process_bit_for_bit(service, full_groups):
    sent = full_groups()
    asked = {"advantage": "grpo_openrlhf", "shadow": ["ttrl", "scrl", "scope"], "seed": 3}
    local = dare_reward.estimate(sent, method="empo", **asked)
    found = Reply.from_json(service.post({"method": "empo", **asked, "groups": sent}).json())
    assert found.groups == local.groups
    assert found.diagnostics == local.diagnostics
    url = "/reward?method=empo&advantage=grpo_openrlhf&shadow=ttrl,scrl,scope&seed=3"
    assert Reply.from_json(service.post({"groups": sent}, url).json()).groups == local.groups


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("/reward?shadow=ttrl,nosuch", "shadow: unknown method"),
        ("/reward?advantage=nosuch", "unknown advantage"),
        ("/reward?seed=-1", "seed"),
        ("/reward?method=cocov&advantage=grpo", "normalise"),
        ("/reward?method=t3rl", "allow_experimental"),
        ("/reward?shadow=t3rl", "allow_experimental"),
        ("/reward?method=scope&seed=1&seed=2", "twice"),
    ],
)
def test_what_is_refused(service, full_groups, url, word):
    response = service.post({"groups": full_groups(count=1)}, url)
    assert response.status_code == 422
    assert word in response.json()["detail"]


@pytest.mark.parametrize("name", ["groups", "method", "columns", "limits", "advantage", "shadow", "seed", "params"])
def test_parameters_with_names_of_ours_are_unknown(service, full_groups, name):
    response = service.post({"method": "ttrl", "params": {name: 1}, "groups": full_groups(count=1)})
    assert response.status_code == 422
    assert "unknown parameter" in response.json()["detail"]


def test_a_seed_is_a_parameter_or_of_the_request(service, full_groups):
    sent = full_groups(count=2)
    one = service.post({"method": "scope", "params": {"seed": 5}, "groups": sent}).json()
    assert one["groups"] == service.post({"method": "scope", "seed": 5, "groups": sent}).json()["groups"]
    both = service.post({"method": "scope", "seed": 5, "params": {"seed": 5}, "groups": sent})
    assert both.status_code == 422


def test_experimental_methods_by_url(service, full_groups):
    response = service.post({"groups": full_groups()}, "/reward?method=t3rl&allow_experimental=true")
    assert response.status_code == 200
    assert response.json()["method"] == "t3rl"


@pytest.mark.parametrize("method", ["dare", "spine", "co_rewarding_1", "cocov"])
@pytest.mark.parametrize("detail", ["full", "rewards"])
def test_a_reply_may_be_a_frame(service, full_groups, needed_params, method, detail):
    sent = [*full_groups(), {"group_id": "bare", "rollouts": [{"answer": "1"}]}]
    body = {"method": method, "params": needed_params(method), "groups": sent}
    response = service.post(body, f"/reward?detail={detail}", headers=ACCEPT)
    assert response.headers["content-type"].startswith("application/vnd.safetensors")
    plain = Reply.from_json(service.post(body, f"/reward?detail={detail}").json())
    found = Reply.from_frame(response.content)
    assert found.groups == plain.groups
    if detail == "full":
        assert (found.groups[0].token_mask is not None) == (method == "spine")


def test_methods_lists_what_people_choose_by(service):
    listed = {m["name"]: m for m in service.get("/methods").json()["methods"]}
    assert listed.keys() == methods().keys()
    for name, entry in listed.items():
        assert entry["evidence"], name
        assert entry["cost"], name
        consent = [p for p in entry["parameters"] if p["name"] == "allow_experimental"]
        assert bool(consent) == (entry["evidence"] == "experimental")
    assert {"input": "format", "when": "format_coefficient > 0"} in listed["rlpr"]["requires_when"]


class Endpoint(BaseHTTPRequestHandler):
    """An embeddings endpoint: the vector of a text is made of its first characters; `reply` overrides the answer."""

    reply = None
    seen: ClassVar[list] = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        type(self).seen.append((self.path, self.headers.get("authorization"), body))
        data = [{"index": i, "embedding": vector(t)} for i, t in enumerate(body["input"])]
        status, content = self.reply or (200, json.dumps({"data": data[::-1]}).encode())
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args):
        pass


def vector(text):
    rng = np.random.default_rng([ord(c) for c in text[:8]])
    return rng.normal(size=4).tolist()


@pytest.fixture
def endpoint():
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    Endpoint.reply, Endpoint.seen = None, []
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


def texts():
    rollouts = [{"text": f"{i} way \\boxed{{{i % 2}}}", "answer": str(i % 2)} for i in range(5)]
    return [{"rollouts": [*rollouts, {"answer": None}]}, {"rollouts": rollouts[:3]}]


@pytest.fixture
def configured(make_service, endpoint):
    local = make_service(embeddings_url=endpoint, embeddings_model="embedder", embeddings_token="secret")
    yield local
    local.state.scorer.embedder.close()


def test_embeddings_come_from_the_operators_endpoint(configured):
    found = Reply.from_json(configured.post({"method": "evol_rl", "groups": texts()}).json())
    given = [
        {"rollouts": [{**r, "embedding": vector(r["text"])} if "text" in r else r for r in g["rollouts"]]}
        for g in texts()
    ]
    assert found.groups == dare_reward.estimate(given, method="evol_rl").groups
    path, token, body = Endpoint.seen[0]
    assert (path, token, body["model"]) == ("/v1/embeddings", "Bearer secret", "embedder")
    assert len(body["input"]) == 8


def test_no_other_method_asks_for_embeddings(configured):
    configured.post({"method": "ttrl", "groups": texts()})
    assert not Endpoint.seen
    configured.post({"method": "ttrl", "shadow": ["evol_rl"], "groups": texts()})
    assert Endpoint.seen


def test_given_embeddings_are_not_asked_for(configured):
    sent = [{"rollouts": [{"text": "x", "answer": "1", "embedding": [1.0, 0.0]}] * 2}]
    assert configured.post({"method": "evol_rl", "groups": sent}).status_code == 200
    assert not Endpoint.seen


@pytest.mark.parametrize(
    "reply", [(500, b"no"), (200, b"no"), (200, b'{"data":[]}'), (200, b'{"data":[{"index":0,"embedding":[1]}]}')]
)
def test_an_endpoint_that_fails_is_503_and_named_by_its_variable(configured, reply):
    Endpoint.reply = reply
    response = configured.post({"method": "evol_rl", "groups": texts()})
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert "DARE_EMBEDDINGS_URL" in response.json()["detail"]
    assert "127.0.0.1" not in response.text


def test_info_does_not_tell_the_endpoint(configured):
    text = configured.get("/info").text
    assert "127.0.0.1" not in text
    assert "secret" not in text
    assert "embedder" in text


def test_a_request_cannot_name_an_endpoint(service):
    response = service.post({"groups": texts(), "embeddings_url": "http://127.0.0.1:1/v1"})
    assert response.status_code == 422


def test_without_an_endpoint_the_group_says_what_is_missing(service):
    group = service.post({"method": "evol_rl", "groups": texts()}).json()["groups"][0]
    assert group["error"]["code"] == "missing_input"
    assert "embedding" in group["error"]["message"]
