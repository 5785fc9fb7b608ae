"""The service for the tests: `dare-reward serve` as a process, or the application on a thread of this one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

MAIN = "import sys; from dare_reward.cli import main; sys.exit(main())"


def free_port() -> int:
    """Below those that the kernel hands out, so that no client gets it while a service is away."""
    for port in random.sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError("no free port")


def connect(url: str, sent: bytes = b"") -> socket.socket:
    """A connection to the address of a URL, over which this has been sent; what follows is sent by itself."""
    host, port = url.removeprefix("http://").split(":")
    made = socket.create_connection((host, int(port)), timeout=60)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(sent)
    return made


def head(target: str, *fields: str, method: str = "POST") -> bytes:
    """The head of a request as it goes over the wire."""
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *fields, "", ""]).encode()


def request(target: str, body: bytes | str, *fields: str, method: str = "POST") -> bytes:
    """The same with JSON as its body."""
    content = body if isinstance(body, bytes) else body.encode()
    length = f"Content-Length: {len(content)}"
    return head(target, "Content-Type: application/json", length, *fields, method=method) + content


def wait_for(condition: Callable[[], object], about: object = None, seconds: float = 60) -> None:
    """Return once it is true, however long a busy machine takes."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(about)
        time.sleep(0.02)


async def until(condition: Callable[[], object]) -> None:
    """The same, beside an event loop."""
    await asyncio.to_thread(wait_for, condition)


@contextlib.contextmanager
def answering(reply: Callable[[BaseHTTPRequestHandler, bytes], tuple[int, bytes]]) -> Iterator[str]:
    """The address of a server, a thread a connection, whose status and content `reply(handler, body)` says."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_POST(self) -> None:
            status, content = reply(self, self.rfile.read(int(self.headers.get("content-length", 0))))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        do_GET = do_POST

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@contextlib.contextmanager
def service(
    *words: str,
    port: int = 0,
    wrapper: str = "",
    held: socket.socket | None = None,
    end: int = signal.SIGTERM,
    stderr: int | None = None,
    **environment: Any,
) -> Iterator[Any]:
    """`dare-reward serve` with these words, as a process whose `.url` answers; `wrapper` is Python that runs before.

    held   the listening socket that a supervisor, such as systemd, holds and hands over
    end    the signal that ends it
    """
    env = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")}
    env |= {"RAY_ADDRESS": "local", "DARE_LOG": "error", **{k: str(v) for k, v in environment.items()}}
    code = f"{wrapper}\n{MAIN}"
    fds: tuple[int, ...] = ()
    if held is not None:
        fds = (held.fileno(),)
        taken = f"os.dup2({fds[0]}, 3); os.environ |= {{'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid())}}"
        code = f"import os; {taken}\n{code}"
    command = [sys.executable, "-c", code, "serve", "--port", str(port), *words]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=stderr, text=True, pass_fds=fds)
    try:
        for line in process.stdout:  # Ray talks before
            if match := re.search(r"listens on (\S+)", line):
                process.url = match.group(1)
                break
        else:
            raise AssertionError("the service did not start", process.stderr and process.stderr.read())
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(end)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(60)
        if process.poll() is None:
            process.kill()
        process.wait()
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


@contextlib.contextmanager
def live_server(stderr: int = subprocess.PIPE, **environment: Any) -> Iterator[tuple[str, Any]]:
    """The address of a service and its process, which is killed at the end."""
    with service(end=signal.SIGKILL, stderr=stderr, **{"DARE_LOG": "info", **environment}) as process:
        yield process.url, process


class Told:
    """What our server lets a request ask of its connection, where a test has no socket."""

    gone, ended = False, None

    def watch(self, ended: Callable[[], object] | None) -> None:
        self.ended = ended

    def phrase(self, reason: bytes) -> None:
        """No status line is written."""

    def end(self) -> None:
        """The client goes."""
        self.gone = True
        if self.ended is not None:
            self.ended()


def told(app: Any, client: Any = None) -> Any:
    """The application as `dare-reward serve` serves it, for an ASGI transport."""
    from dare_service.problems import EXCHANGE

    return lambda scope, *given: app({**scope, "extensions": {EXCHANGE: client or Told()}}, *given)


async def posted(app: Any, url: str, body: bytes, *, media: bytes = b"application/json") -> list[Any]:
    """What an ASGI application sends in reply to a post."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    path, _, query = url.partition("?")
    headers = [(b"host", b"localhost"), (b"content-type", media), (b"content-length", str(len(body)).encode())]
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": "", "path": path}
    scope |= {"raw_path": path.encode(), "query_string": query.encode("latin-1"), "headers": headers, "state": {}}
    await app({**scope, "client": ("127.0.0.1", 1), "server": ("localhost", 80)}, receive, send)
    return sent


class Local:
    """The application without a socket, asked at once or by a client; without a page, which has a process of its own."""

    def __init__(self, **settings: Any) -> None:
        from dare_service.app import create_app
        from dare_service.settings import Settings

        self.app = create_app(Settings(**{"page": "off", "join_runs": "any", **settings}))
        self.state = self.app.state.dare
        self.state.openrlhf.join.began = float("-inf")  # it has been up for a while

    def client(self) -> Any:
        import httpx

        transport = httpx.ASGITransport(told(self.app), raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://test")

    def request(self, method: str, url: str, **kwargs: Any) -> Any:
        async def run() -> Any:
            async with self.client() as client:
                return await client.request(method, url, **kwargs)

        return asyncio.run(run())

    def get(self, url: str, **kwargs: Any) -> Any:
        return self.request("GET", url, **kwargs)

    def post(self, body: Any, url: str = "/reward", **kwargs: Any) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", **kwargs.pop("headers", {})}
        return self.request("POST", url, content=content, headers=headers, **kwargs)


class Live:
    """The application on a loopback socket, in a thread. It can end as if killed, and start again on its port."""

    def __init__(self, **settings: Any) -> None:
        from dare_service.settings import Settings

        self.settings = Settings(**{"log": "off", "page": "off", "join_runs": "any", **settings})
        self.port = 0

    def __enter__(self) -> Self:
        import uvicorn

        from dare_service.app import create_app
        from dare_service.uvicorn_connection import Connection

        self.app = create_app(self.settings)
        self.state = self.app.state.dare
        self.state.openrlhf.join.began = float("-inf")  # it has been up for a while
        self.listener = socket.create_server(("127.0.0.1", self.port), backlog=4096)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        config = uvicorn.Config(self.app, http=Connection, log_config=None, access_log=False, lifespan="off")
        self.server = uvicorn.Server(config)
        runner = asyncio.Runner(loop_factory=config.get_loop_factory())  # uvloop, as `dare-reward serve` has it
        self.thread = threading.Thread(target=self._serve, args=(runner,))
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.005)
        return self

    def _serve(self, runner: asyncio.Runner) -> None:
        with runner:
            self.loop = runner.get_loop()
            runner.run(self.server.serve(sockets=[self.listener]))

    def __exit__(self, *_: object) -> None:
        self.server.should_exit = True
        self.thread.join(60)
        self.listener.close()
        assert not self.thread.is_alive()

    def kill(self) -> None:
        """Connections break without a reply."""
        self.server.force_exit = True
        self.__exit__()
