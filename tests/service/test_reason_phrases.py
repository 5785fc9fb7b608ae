"""The status line of an error carries its sentence, for OpenRLHF's clients log nothing else; raw, as a socket gives it."""

import json

import pytest
from serving import connect

BODY = json.dumps({"query": ["2+2? 4"], "prompts": ["2+2?"], "labels": [""]}).encode()
TOKEN = "hush-hush"


@pytest.fixture(scope="module")
def guarded(start_server):
    with start_server(DARE_TOKEN=TOKEN) as (url, _):
        yield url


def post(connection, target, body=BODY, *, token=None, method=b"POST"):
    """Status, reason phrase and body of the reply."""
    head = method + b" " + target + b" HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {token}\r\n".encode() if token else b""
    connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    with connection.makefile("rb") as stream:
        line = stream.readline()
        fields = dict(iter(lambda: tuple(stream.readline().lower().rstrip().partition(b": ")[::2]), (b"", b"")))
        document = stream.read(int(fields[b"content-length"])).decode()
    version, status, reason = line.removesuffix(b"\r\n").split(b" ", 2)
    assert version == b"HTTP/1.1"
    assert len(reason) <= 200
    assert all(0x20 <= byte < 0x7F for byte in reason)
    return int(status), reason.decode(), document


@pytest.mark.parametrize("route", [b"/reward", b"/get_reward"])
@pytest.mark.parametrize(
    ("target", "status", "place"),
    [
        (b"?run=r", 422, "query.group_size: add group_size"),
        (b"?group_size=8", 422, "query.run: run= must hold nine digits or a UUID: jobs would share groups. Get"),
        (b"?group_size=8&run=r&alhpa=1", 422, "unknown parameter of the reward URL 'alhpa'. Did you mean alpha"),
        (b"?group_size=8&run=r&alpha=x", 422, "query.alpha: "),
        (b"?group_size=9999999&run=r", 422, "DARE_MAX_ROLLOUTS"),
        (b"/?group_size=8&run=r", 404, "without a slash"),
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
    ("target", "token"), [(b"/reward?token=wrong", None), (b"/reward", "wrong"), (b"/get_reward", None)]
)
def test_a_wrong_or_missing_token(guarded, target, token):
    with connect(guarded) as connection:
        status, reason, document = post(connection, target, token=token)
    assert (status, reason) == (401, json.loads(document)["detail"])
    assert "wrong" not in reason.replace("the token is wrong", "")


def test_other_statuses_have_their_sentence(start_server):
    with start_server(DARE_JOIN="off", DARE_MAX_BODY_BYTES=65536) as (url, _), connect(url) as connection:
        for method, target, body, status in (
            (b"POST", b"/reward?group_size=8&run=r", BODY, 503),
            (b"PUT", b"/reward", b"", 405),
            (b"POST", b"/reward", b"{", 400),
            (b"POST", b"/get_reward", b" " * 65537, 413),
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
            assert post(connection, b"/reward?run=r")[1].startswith("query.group_size: ")
            assert post(connection, b"/reward", grouped)[:2] == (200, "OK")
            assert post(connection, b"/reward?group_size=8")[1].startswith("query.run: ")


@pytest.mark.parametrize(
    "query",
    [
        b"a%0d%0aX-Evil:%201=1",
        b"alpha%0D%0A%0D%0A<html>=1",
        b"%00%1b%7f%85=1",
        b"%e2%80%a8%c3%a9%f0%9f%98%80=1",
        b"%ff%fe=1",
        b"x" * 10_000 + b"=1",
        b"run=" + b"y" * 10_000,
        b"run=r&group_size=" + b"9" * 5_000,
        b"token=hush-hush",
        b"run=a%3Ftoken%3Dhush-hush",
        b"%74oken=hush-hush",
        b"run=r&group_size=8%26token=hush-hush",
        b"x%3Ftoken=hush-hush",
        b"a%20token%3Dhush-hush=1",
    ],
)
@pytest.mark.parametrize("server", ["live", "guarded"])
def test_what_a_caller_writes_cannot_leave_the_line(server, query, request):
    url = request.getfixturevalue(server)
    with connect(url) as connection:
        status, reason, _ = post(connection, b"/reward?" + query, token=TOKEN if server == "guarded" else None)
        assert 400 <= status < 500
        assert TOKEN not in reason
        assert post(connection, b"/nowhere")[0] == 404
