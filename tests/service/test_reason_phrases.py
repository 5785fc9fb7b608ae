"""The status line of an error carries its sentence, for OpenRLHF's clients log nothing else; raw, as a socket gives it."""

import json
from http.client import HTTPResponse

import pytest
from serving import connect, live_server, request

BODY = json.dumps({"query": ["2+2? 4"], "prompts": ["2+2?"], "labels": [""]}).encode()
TOKEN = "hush-hush"


@pytest.fixture(scope="module")
def guarded():
    with live_server(DARE_TOKEN=TOKEN) as (url, _):
        yield url


def post(connection, target, body=BODY, *, token=None, method="POST"):
    """Status, reason phrase and body of the reply."""
    own = [f"Authorization: Bearer {token}"] if token else []
    connection.sendall(request(target, body, *own, method=method))
    with HTTPResponse(connection) as reply:
        reply.begin()
        assert (reply.version, reply.reason.isascii(), reply.reason.isprintable()) == (11, True, True)
        assert len(reply.reason) <= 200
        return reply.status, reply.reason, reply.read().decode()


@pytest.mark.parametrize("route", ["/reward", "/get_reward"])
@pytest.mark.parametrize(
    ("target", "status", "place"),
    [
        ("?run=r", 422, "query.group_size: add group_size"),
        ("?group_size=8", 422, "query.run: run= must hold nine digits or a UUID: jobs would share groups. Get"),
        ("?group_size=8&run=r&alhpa=1", 422, "unknown parameter of the reward URL 'alhpa'. Did you mean alpha"),
        ("?group_size=8&run=r&alpha=x", 422, "query.alpha: "),
        ("?group_size=9999999&run=r", 422, "DARE_MAX_ROLLOUTS"),
        ("/?group_size=8&run=r", 404, "without a slash"),
    ],
)
def test_a_mistake_in_the_url(live, route, target, status, place):
    with connect(live) as connection:
        found, reason, document = post(connection, route + target)
    assert found == status
    assert place in reason
    assert json.loads(document)["detail"].startswith(reason.removesuffix(" ..."))
    assert place.startswith("query.run") <= (reason == json.loads(document)["detail"]), "the way out is told whole"


@pytest.mark.parametrize(
    ("target", "token"), [("/reward?token=wrong", None), ("/reward", "wrong"), ("/get_reward", None)]
)
def test_a_wrong_or_missing_token(guarded, target, token):
    with connect(guarded) as connection:
        status, reason, document = post(connection, target, token=token)
    assert (status, reason) == (401, json.loads(document)["detail"])
    assert "wrong" not in reason.replace("the token is wrong", "")


def test_other_statuses_have_their_sentence():
    with live_server(DARE_JOIN="off", DARE_MAX_BODY_BYTES=65536) as (url, _), connect(url) as connection:
        for method, target, body, status in (
            ("POST", "/reward?group_size=8&run=r", BODY, 503),
            ("PUT", "/reward", b"", 405),
            ("POST", "/reward", b"{", 400),
            ("POST", "/get_reward", b" " * 65537, 413),
        ):
            found, reason, document = post(connection, target, body, method=method)
            assert found == status
            assert json.loads(document)["detail"].startswith(reason.removesuffix(" ..."))
            assert len(reason) > 20
            if status == 413:
                break  # whose body was not read


def test_a_connection_that_is_kept_has_each_reply_its_own_phrase(live):
    grouped = b'{"groups":[{"rollouts":[{"answer":"1","mean_entropy":0.2}]}]}'
    with connect(live) as connection:
        for _ in range(2):
            assert post(connection, "/reward?run=r")[1].startswith("query.group_size: ")
            assert post(connection, "/reward", grouped)[:2] == (200, "OK")
            assert post(connection, "/reward?group_size=8")[1].startswith("query.run: ")


@pytest.mark.parametrize(
    "query",
    [
        *("a%0d%0aX-Evil:%201=1", "alpha%0D%0A%0D%0A<html>=1", "%00%1b%7f%85=1", "%e2%80%a8%c3%a9%f0%9f%98%80=1"),
        *("%ff%fe=1", "x" * 10_000 + "=1", "run=" + "y" * 10_000, "run=r&group_size=" + "9" * 5_000),
        *("token=hush-hush", "run=a%3Ftoken%3Dhush-hush", "%74oken=hush-hush", "run=r&group_size=8%26token=hush-hush"),
        *("x%3Ftoken=hush-hush", "a%20token%3Dhush-hush=1"),
    ],
)
def test_what_a_caller_writes_cannot_leave_the_line(live, guarded, query):
    for url, token in ((live, None), (guarded, TOKEN)):
        with connect(url) as connection:
            status, reason, _ = post(connection, f"/reward?{query}", token=token)
            assert 400 <= status < 500
            assert TOKEN not in reason
            assert post(connection, "/nowhere")[0] == 404
