"""Evidence that a reply arrived: what clients do with their connections, and what the service concludes."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import socket
import struct
import sys
import threading
import time
import types

import pytest
import uvicorn

from dare_service.joins.delivery.receipts import EXTENSION
from dare_service.joins.delivery.tcp import ESTABLISHED, notice_the_dead, state
from dare_service.uvicorn_connection import Connection

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the evidence is Linux's")


class Service:
    """Replies to every request when it is told to, and notes how each reply fared."""

    def __init__(self, loop: str, size: int, keep_alive: int) -> None:
        self.size = size
        self.clients: list[socket.socket] = []
        self.ended: queue.Queue[bool] = queue.Queue()
        self.open: queue.Queue[bool] = queue.Queue()
        self.whole: queue.Queue[bool] = queue.Queue()
        self.arrived = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.listener = socket.create_server(("127.0.0.1", 0))
        notice_the_dead(self.listener)
        config = uvicorn.Config(
            self.app,
            http=Connection,
            loop=loop,
            interface="asgi3",
            log_config=None,
            lifespan="off",
            timeout_keep_alive=keep_alive,
        )
        self.server = uvicorn.Server(config)
        self.factory = config.get_loop_factory()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        with asyncio.Runner(loop_factory=self.factory) as runner:
            runner.run(self.server.serve(sockets=[self.listener]))

    async def app(self, scope, receive, send) -> None:
        receipt = scope["extensions"][EXTENSION]
        receipt.watch(self.ended.put)
        self.whole.put(receipt.arrived)
        self.arrived.release()
        while not self.go.acquire(blocking=False):  # noqa: ASYNC110  (another thread's semaphore)
            await asyncio.sleep(0.005)
        self.open.put(receipt.open())
        length = str(self.size).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": b"x" * self.size})

    def connect(self) -> socket.socket:
        self.clients.append(socket.create_connection(self.listener.getsockname(), timeout=10))
        return self.clients[-1]

    def ask(self, connection: socket.socket, *, headers: str = "") -> None:
        connection.sendall(f"GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        assert self.arrived.acquire(timeout=10)


@pytest.fixture(params=["asyncio", "uvloop"])
def start(request):
    with contextlib.ExitStack() as stack:

        @contextlib.contextmanager
        def running(size: int = 300, keep_alive: int = 60):
            if request.param == "uvloop":
                pytest.importorskip("uvloop")
            service = Service(request.param, size, keep_alive)
            service.thread.start()
            while not service.server.started:
                assert service.thread.is_alive()
            try:
                yield service
            finally:
                service.go.release(100)
                service.server.should_exit = True
                for client in service.clients:  # the server waits for them
                    client.close()
                service.thread.join(30)
                service.listener.close()
                assert not service.thread.is_alive()

        yield lambda **given: stack.enter_context(running(**given))


def read(connection: socket.socket, size: int) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got or len(got.partition(b"\r\n\r\n")[2]) < size:
        got += connection.recv(65536)
    return got


def settled(service: Service) -> bool:
    return service.ended.get(timeout=10)


def test_a_body_that_came_with_its_head_has_arrived(start):
    service = start()
    connection = service.connect()
    service.ask(connection, headers="Content-Length: 4\r\n")
    assert service.whole.get(timeout=10) is False
    connection.sendall(b"body")
    service.go.release()
    read(connection, service.size)
    connection.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody")
    assert service.whole.get(timeout=10) is True


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("size", [300, 4 << 20])
def test_a_client_that_reads_the_reply_and_closes_has_it(start, size):
    service = start(size=size)
    client = service.connect()
    service.ask(client)
    service.go.release()
    read(client, size)
    client.close()
    assert settled(service) is True
    assert service.open.get() is True


def test_a_client_that_closes_while_it_waits_has_nothing(start):
    service = start()
    client = service.connect()
    service.ask(client)
    client.close()
    assert settled(service) is False
    service.go.release()
    assert service.open.get(timeout=10) is False


def test_a_client_that_closes_in_the_turn_in_which_the_reply_is_written_has_nothing(start):
    """The service has not read the end of the connection when it writes: the loop is busy meanwhile."""
    service = start()
    client = service.connect()
    service.ask(client)
    busy = threading.Event()
    service.server.servers[0].get_loop().call_soon_threadsafe(lambda: (busy.set(), time.sleep(0.3)))
    busy.wait(10)
    client.close()
    service.go.release()
    assert settled(service) is False


@pytest.mark.parametrize("end", [socket.socket.close, reset], ids=["close", "reset"])
@pytest.mark.parametrize("size", [300, 4 << 20])
def test_a_client_that_does_not_read_the_reply_has_not_got_it(start, size, end):
    service = start(size=size)
    client = service.connect()
    service.ask(client)
    service.go.release()
    client.recv(1, socket.MSG_PEEK)
    end(client)
    assert settled(service) is False


def test_the_next_request_says_that_the_reply_to_the_last_one_arrived(start):
    service = start()
    client = service.connect()
    for _ in range(3):
        service.ask(client)
        assert service.ended.empty()
        service.go.release()
        read(client, 300)
        service.ask(client)
        assert settled(service) is True
        service.go.release()
        read(client, 300)
        client.close()
        assert settled(service) is True
        client = service.connect()


def test_an_idle_connection_that_the_service_closes_has_its_reply(start):
    service = start(keep_alive=1)
    client = service.connect()
    service.ask(client)
    service.go.release()
    read(client, 300)
    assert settled(service) is True
    assert client.recv(1) == b""


@pytest.mark.parametrize("arrives", [True, False])
def test_connection_close_is_half_closed_and_judged_by_the_clients_end(start, arrives):
    service = start()
    client = service.connect()
    service.ask(client, headers="Connection: close\r\n")
    service.go.release()
    if arrives:
        got = b""
        while more := client.recv(65536):  # to the end of the stream, as such a client does
            got += more
        assert b"connection: close" in got
        assert got.endswith(b"x" * 300)
        assert service.ended.empty()
    else:
        client.recv(1, socket.MSG_PEEK)
    client.close()
    assert settled(service) is arrives


def test_a_system_with_other_numbers_for_states_takes_connections_for_open(monkeypatch):
    """The service goes by what its connections tell there."""
    monkeypatch.setattr(sys, "platform", "freebsd14")
    with socket.socket() as unconnected:
        assert state(types.SimpleNamespace(get_extra_info=lambda _: unconnected)) == ESTABLISHED
