"""What systemd hands to the service: the socket."""

import os
import signal
import socket
import threading
from contextlib import ExitStack

import httpx
import pytest
from serving import service, wait_for

from dare_service.server import inherited
from dare_service.settings import SettingsError

GOOD = {"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]}


def handed(**more):
    return {"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid()), **more}


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX])
def test_a_listening_socket_is_taken_over(family, tmp_path):
    address = {socket.AF_INET: ("127.0.0.1", 0), socket.AF_INET6: ("::1", 0)}.get(family, str(tmp_path / "s"))
    given = socket.socket(family)
    given.bind(address)
    given.listen()
    environment = handed(LISTEN_FDNAMES="x", OTHER="1")
    with inherited(environment, first=os.dup(given.fileno())) as taken:
        assert taken.getsockname() == given.getsockname()
        assert not taken.get_inheritable()
    assert environment == {"OTHER": "1"}
    given.close()


@pytest.mark.parametrize("environment", [{}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "1"}])
def test_a_socket_that_is_meant_for_another_process_is_left_alone(environment):
    assert inherited(environment, first=0) is None
    assert environment == {}


@pytest.mark.parametrize("what", ["several", "no socket", "not listening", "datagrams", "closed"])
def test_what_cannot_be_served_on_is_refused_in_a_sentence(what, tmp_path):
    with ExitStack() as stack:
        plain = stack.enter_context(socket.socket())
        packets = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        file = stack.enter_context((tmp_path / "f").open("wb"))
        first = {"no socket": file, "datagrams": packets}.get(what, plain).fileno()
        environment = handed(LISTEN_FDS="2") if what == "several" else handed()
        with pytest.raises(SettingsError):
            inherited(environment, first=10_000 if what == "closed" else os.dup(first))


def test_restarts_with_a_held_socket_refuse_nobody():
    """Two planned ones and a kill -9: who connects while nobody is there waits for the next process."""
    done, replies = threading.Event(), []

    def ask(url):
        while not done.is_set():
            try:
                reply = httpx.post(f"{url}/reward", json=GOOD, timeout=120)
                replies.append((reply.status_code, reply.headers.get("retry-after")))
            except httpx.HTTPError as error:
                replies.append((0, type(error).__name__))

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, ExitStack() as served:
        process = served.enter_context(service(held=listener, DARE_PAGE="off"))
        url = process.url
        assert url.endswith(f":{listener.getsockname()[1]}")
        thread = threading.Thread(target=ask, args=(url,))
        thread.start()
        for sign in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
            process.send_signal(sign)
            process.wait()
            begun = len(replies)
            process = served.enter_context(service(held=listener, DARE_PAGE="off"))
            wait_for(lambda begun=begun: len(replies) >= begun + 3)
        done.set()
        thread.join()
    assert {status for status, _ in replies} <= {200, 503, 0}
    assert [why for status, why in replies if status == 0] in ([], ["ReadError"], ["RemoteProtocolError"])
    assert all(after == "1" for status, after in replies if status == 503)
    assert replies[-1][0] == 200


def test_a_unix_socket_serves_both_routes(tmp_path):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen(16)
        transport = httpx.HTTPTransport(uds=str(tmp_path / "s"))
        with service(held=listener), httpx.Client(transport=transport, base_url="http://x", timeout=60) as client:
            assert client.post("/reward", json=GOOD).json()["groups"][0]["rewards"] == [1.0]
            rollout = {"query": ["1 + 1? 2"], "prompts": ["1 + 1?"], "labels": [""]}
            single = client.post("/get_reward?method=ttrl&group_size=1", json=rollout)
            assert single.json()["rewards"] == [1.0]
