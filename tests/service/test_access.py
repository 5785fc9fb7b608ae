"""Who may ask, by which name, and what a connection may cost before it has asked anything."""

import json
import socket
import time
from http.client import HTTPResponse

import httpx
import pytest
from serving import connect, head, live_server, request
from starlette.testclient import TestClient

from dare_service.app import create_app
from dare_service.auth import Hosts, hide_token
from dare_service.problems import RefusalError
from dare_service.server import configured
from dare_service.settings import Settings

GOOD = {"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]}
LOOPBACK = ("127.0.0.1", 8000)


def reached(settings, server=LOOPBACK, **headers):
    scope = {"server": server, "headers": [(k.encode(), v.encode()) for k, v in headers.items()]}
    Hosts(settings).check(scope)


OWN = ("127.0.0.1:8000", "localhost", "LOCALHOST:8000", "[::1]:8000", "192.168.1.7:8000", "reward.localhost:8000")
FOREIGN = [{"host": host} for host in ("evil.example:8000", "localhost.evil.example", "[")]


@pytest.mark.parametrize("host", [*OWN, "localhost.", socket.gethostname(), socket.getfqdn()])
def test_addresses_and_the_machine_s_own_name_may_be_used_on_loopback(host):
    for headers in ({"host": host}, {"host": "localhost", "origin": f"http://{host}"}, {}):
        reached(Settings(), **headers)


@pytest.mark.parametrize(
    "headers", [*FOREIGN, *({"host": "localhost", "origin": site} for site in ("https://evil.example", "null"))]
)
def test_another_site_s_name_is_refused_on_loopback(headers):
    with pytest.raises(RefusalError) as caught:
        reached(Settings(), **headers)
    assert caught.value.status == 403
    assert "evil" not in str(caught.value)
    reached(Settings(token="secret"), **headers)
    reached(Settings(), server=("10.0.0.5", 8000), **headers)


def test_one_more_name_is_a_setting():
    for names in ("reward.example other", "other,reward.example"):
        reached(Settings(allowed_hosts=names), host="reward.example:8000")


def test_a_real_server_refuses_a_rebound_name(live):
    refused = httpx.get(f"{live}/info", headers={"host": "evil.example"})
    assert (refused.status_code, refused.headers["content-type"]) == (403, "application/problem+json")
    assert httpx.get(f"{live}/info").headers["x-content-type-options"] == "nosniff"


def test_the_token_leaves_the_scope_before_anything_sees_it(make_service):
    """What traces the whole application, and a middleware that somebody adds."""
    service, seen = make_service(token="hush"), []
    inner = service.app.build_middleware_stack

    class Seeing:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            seen.append((scope["path"], scope["query_string"]))
            await self.app(scope, receive, send)

    service.app.add_middleware(Seeing)
    service.app.build_middleware_stack = lambda: Seeing(inner())
    assert service.post(GOOD, "/reward?detail=rewards&token=hush&alpha=0.2").status_code == 200
    assert seen == [("/reward", b"detail=rewards&alpha=0.2")] * 2


@pytest.mark.parametrize("query", [b"a=%E2%82%AC&token=x&b=", b"token=x&a=%E2%82%AC&b="])
def test_the_rest_of_the_query_stays_what_it_was(query):
    scope = {"type": "http", "query_string": query}
    hide_token(scope)
    assert (scope["query_string"], scope["state"]["token"]) == (b"a=%E2%82%AC&b=", "x")


def test_several_tokens_are_accepted_while_one_is_rotated(make_service):
    service = make_service(token="new old\n")
    for given, status in (("new", 200), ("old", 200), ("new old", 401), ("", 401), ("neu", 401)):
        assert service.post(GOOD, headers={"authorization": f"Bearer {given}"}).status_code == status
    assert service.post(GOOD, "/reward?token=old").status_code == 200
    assert service.post(GOOD, "/reward?token=old&token=old").status_code == 401


@pytest.mark.parametrize(("proxies", "shown"), [("", "127.0.0.1"), ("127.0.0.1", "10.1.2.3")])
def test_a_refused_token_s_line_has_the_client_s_address_also_behind_a_trusted_proxy(proxies, shown, caplog):
    config = configured(create_app(Settings(token="new", trusted_proxies=proxies, page="off")))
    config.load()
    with caplog.at_level("INFO", logger="dare_service"):
        client = TestClient(config.loaded_app, client=("127.0.0.1", 5000))
        for token in ("old", "new"):
            headers = {"authorization": f"Bearer {token}", "x-forwarded-for": "10.1.2.3"}
            client.post("/reward", json=GOOD, headers=headers)
    refused, served = (r.fields for r in caplog.records if r.message == "request")
    assert (refused["status"], refused["client"]) == (401, shown)
    assert (served["status"], "client" in served) == (200, False)


def shortened(name, seconds):
    """Python that runs before the service and sets a bound that no environment does."""
    read = f"lambda *a, **k: dataclasses.replace(read(*a, **k), {name}={seconds})"
    return f"import dataclasses, dare_service.settings as s; read = s.from_environment; s.from_environment = {read}"


def everything(connection):
    received = b""
    while piece := connection.recv(65536):
        received += piece
    return received


def test_silent_and_slow_heads_are_closed():
    with live_server(wrapper=shortened("head_timeout", 1)) as (url, _):
        with connect(url) as silent, connect(url, head("/reward").removesuffix(b"\r\n")) as slow:
            assert everything(silent) == everything(slow) == b""
        for begun in (b"GET /health HTTP/1.1\r\n", b"\r\n"):
            # After a reply the keep-alive time-out rules; then the next head is timed again.
            with connect(url, head("/health", method="GET")) as kept:
                received = b""
                while not received.endswith(b'"ok"}'):
                    received += kept.recv(65536)
                kept.sendall(begun)
                assert everything(kept) == b""


def test_a_head_that_is_slow_behind_a_request_that_waits_is_closed_after_its_reply():
    body = '{"query": ["2 + 2? 4"], "prompts": ["2 + 2?"], "labels": [""]}'
    sent = request("/reward?group_size=2&run=r-000000001", body)
    with live_server(wrapper=shortened("head_timeout", 0.5)) as (url, _), connect(url, sent + b"GET /hea") as slow:
        time.sleep(1)
        with connect(url, sent):
            while b'"rewards"' not in slow.recv(65536):
                pass
        slow.sendall(b"l")  # no time-out between two requests holds any more
        assert everything(slow) == b""


def test_a_head_has_a_limit(live):
    """Also one that does not end and comes in several reads, and one that arrives in one read behind other requests of its
    connection, whose bodies are no part of it."""
    begun = (head("/health", method="GET")[:-2] + b"X-Long: ", b"a" * 60_000, b"a" * 10_000)
    whole = head("/reward", "Content-Type: application/json", "X: " + "y" * 70_000)
    large = request("/reward", json.dumps({**GOOD, "meta": {"x": "y" * 300_000}}))
    for before, pieces in ((0, begun), *((before, [whole]) for before in range(3))):
        with connect(live) as connection:
            for _ in range(before):
                connection.sendall(large[:100_000])
                time.sleep(0.05)
                connection.sendall(large[100_000:])
                with HTTPResponse(connection) as reply:
                    reply.begin()
                    assert (reply.status, len(reply.read()) > 0) == (200, True)
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(0.05)  # a read of its own
            assert connection.recv(65536).startswith(b"HTTP/1.1 431 ")
    assert httpx.get(f"{live}/health").status_code == 200


def test_a_head_whose_end_comes_in_two_reads_is_not_counted_with_its_body(live):
    begun = head("/reward", "Content-Type: application/json", "Content-Length: 200000")
    for cut in (1, 2, 3):
        with connect(live) as connection:
            for piece in (begun[: -cut - 1], begun[-cut - 1 : -cut]):
                connection.sendall(piece)
                time.sleep(0.05)  # a read of its own
            connection.sendall(begun[-cut:] + b" " * 200_000)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400")  # blanks are no JSON


def test_announced_bodies_that_do_not_come_keep_nobody_out(live):
    announced = head("/reward", "Content-Type: application/vnd.safetensors", "Content-Length: 134217728")
    silent = [connect(live, announced) for _ in range(8)]
    assert httpx.post(f"{live}/reward", json=GOOD).status_code == 200
    assert "dare_inflight_bytes 0.0" in httpx.get(f"{live}/metrics").text
    for connection in silent:
        connection.close()


def test_monitors_may_ask_for_the_head_alone(live):
    for path in ("/health", "/ready"):
        reply = httpx.head(f"{live}{path}")
        assert (reply.status_code, reply.content) == (200, b"")


def test_serve_is_one_process_that_joins_and_counts_in_memory_whatever_is_set_for_many(tmp_path):
    many = {"PROMETHEUS_MULTIPROC_DIR": tmp_path / "nowhere", "WEB_CONCURRENCY": 2}
    with live_server(**many, DARE_KEEP_ALIVE=900) as (url, _):
        assert httpx.post(f"{url}/reward", json=GOOD).status_code == 200
        single = {"query": ["2 + 2? 4"], "prompts": ["2 + 2?"], "labels": [""]}
        assert httpx.post(f"{url}/reward?group_size=1&method=ttrl", json=single).json()["rewards"] == [1.0]
        assert "dare_groups_total" in httpx.get(f"{url}/metrics").text
        info = httpx.get(f"{url}/info").json()
        assert info["settings"]["keep_alive"] == 900
        why = {w["event"]: w["why"] for w in info["warnings"]}
        assert "PROMETHEUS_MULTIPROC_DIR is ignored" in why["setting_ignored"]


def test_idle_connections_outlive_those_of_proxies():
    assert configured(create_app(Settings(run_log="off"))).timeout_keep_alive > 600


@pytest.mark.parametrize("way", [{"url": "/reward?token=zzz"}, {"headers": {"authorization": "Bearer zzz"}}])
def test_a_token_for_a_service_without_one_is_warned_of_once_and_a_wrong_one_is_not_called_missing(
    make_service, caplog, way
):
    service, guarded = make_service(), make_service(token="hush")
    assert service.get("/info").json()["warnings"] == []
    for _ in range(2):
        assert service.post(GOOD, **way).status_code == 200
    (warning,) = service.get("/info").json()["warnings"]
    assert warning["event"] == "token_ignored"
    assert [r.message for r in caplog.records].count("token_ignored") == 1
    wrong, missing = guarded.post(GOOD, **way), guarded.post(GOOD)
    assert (wrong.status_code, missing.status_code) == (401, 401)
    assert "the token is wrong" in wrong.text
    assert "zzz" not in wrong.text
    assert "send the token" in missing.text
