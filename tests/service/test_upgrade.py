"""A request that asks for another protocol is answered as any other, and its body is never the next request."""

import json
import time
from contextlib import contextmanager

import pytest
from serving import connect

HELD = json.dumps({"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}]}).encode()
UPGRADES = {
    "none": b"",
    "h2c": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAA\r\n",
    "websocket": b"Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n",
    "unknown": b"Upgrade: x\r\nconnection: upgrade\r\n",
    "without Connection": b"Upgrade: h2c\r\n",
}


def head(name, framing, extra=b"", target=b"/reward"):
    fields = b"Host: localhost\r\nContent-Type: application/json\r\nX-Request-Id: %b\r\n" % name
    return b"POST %b HTTP/1.1\r\n%b%b%b\r\n" % (target, fields, extra, framing)


def sized(body):
    return b"Content-Length: %d\r\n" % len(body), body


def chunked(body):
    half = len(body) // 2
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:], b""))
    return b"Transfer-Encoding: chunked\r\n", pieces


@contextmanager
def connection(url):
    with connect(url) as made:
        yield made, made.makefile("rb")


def reply(stream):
    """The status, the request's id and the body of the next reply, which is read whole."""
    status = int(stream.readline().split()[1])
    fields = dict(line.decode().strip().lower().split(": ", 1) for line in iter(stream.readline, b"\r\n"))
    return status, fields["x-request-id"], json.loads(stream.read(int(fields["content-length"])))


@pytest.mark.parametrize("packets", ["one", "two", "byte by byte"])
@pytest.mark.parametrize("framed", [sized, chunked])
@pytest.mark.parametrize("upgrade", UPGRADES)
def test_the_body_is_read_and_the_connection_takes_the_next_request(live, upgrade, framed, packets):
    framing, body = framed(HELD)
    first, second = head(b"first", framing, UPGRADES[upgrade]), head(b"second", framing, UPGRADES[upgrade])
    cuts = {"one": [first + body], "two": [first, body], "byte by byte": [bytes([b]) for b in first + body]}
    with connection(live) as (made, stream):
        for piece in cuts[packets]:
            made.sendall(piece)
        status, name, read = reply(stream)
        assert (status, name, read["groups"][0]["rewards"]) == (200, "first", [1.0])
        made.sendall(second + body)
        assert reply(stream)[:2] == (200, "second")


@pytest.mark.parametrize("target", [b"/reward", b"/reward?token=wrong&alpha=9", b"/nowhere"])
@pytest.mark.parametrize("upgrade", UPGRADES)
def test_a_request_inside_a_body_is_never_answered(live, upgrade, target):
    inner = head(b"smuggled", sized(HELD)[0]) + HELD
    with connection(live) as (made, stream):
        made.sendall(head(b"outer", sized(inner)[0], UPGRADES[upgrade], target))
        time.sleep(0.05)  # a read of its own
        made.sendall(inner)
        status, name, _ = reply(stream)
        assert (status >= 400, name) == (True, "outer")
        made.sendall(head(b"honest", sized(HELD)[0]) + HELD)
        assert reply(stream)[:2] == (200, "honest")


def test_pipelined_upgrades_are_answered_in_order(live):
    framing, body = sized(HELD)
    names = [f"r{i}" for i in range(50)]
    with connection(live) as (made, stream):
        made.sendall(b"".join(head(n.encode(), framing, UPGRADES["h2c"]) + body for n in names))
        assert [reply(stream)[:2] for _ in names] == [(200, name) for name in names]


def test_a_get_with_an_upgrade_is_answered(live):
    with connection(live) as (made, stream):
        for path in (b"/health", b"/ready"):
            made.sendall(b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % (path, UPGRADES["websocket"]))
            assert reply(stream)[0] == 200


def test_nothing_behind_connect_is_a_request(live):
    inner = head(b"smuggled", sized(HELD)[0]) + HELD
    with connection(live) as (made, stream):
        made.sendall(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost:80\r\n\r\n" + inner)
        assert reply(stream)[0] == 501
        assert b"smuggled" not in stream.read()


def test_what_is_no_http_is_refused_and_closed(live):
    with connection(live) as (made, stream):
        made.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")  # a client that speaks TLS
        status, _, problem = reply(stream)
        assert (status, problem["detail"], stream.read()) == (400, "this is no HTTP/1.1 request", b"")
