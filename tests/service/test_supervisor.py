"""What systemd hands to the service, and what it is told: the socket, readiness, the watchdog, the reload."""

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import pytest
from serving import service, wait_for

from dare_service.server import Supervisor, inherited
from dare_service.settings import Settings, SettingsError, from_environment, with_file

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


class Told:
    """The supervisor's end of the datagram socket."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.settimeout(60)

    def until(self, message):
        seen = []
        while message not in seen:
            seen.append(self.socket.recv(256).decode())
        return seen


def test_an_abstract_socket_is_told_too(tmp_path, request):
    name = f"{tmp_path.name}{os.getpid()}"
    told = Told(f"\0{name}")
    request.addfinalizer(told.socket.close)
    Supervisor({"NOTIFY_SOCKET": f"@{name}"}).tell("READY=1")
    assert told.until("READY=1") == ["READY=1"]


def test_the_supervisor_learns_when_the_service_is_ready_lives_and_stops(tmp_path, request):
    name = str(tmp_path / "notify")
    told = Told(name)
    request.addfinalizer(told.socket.close)
    with service(NOTIFY_SOCKET=name, WATCHDOG_USEC=200_000, DARE_PAGE="off") as process:
        assert told.until("READY=1") == ["READY=1"]
        assert httpx.get(f"{process.url}/ready", timeout=60).status_code == 200
        assert set(told.until("WATCHDOG=1")) == {"WATCHDOG=1"}
        process.send_signal(signal.SIGSTOP)  # a loop that does not turn is silent, so that it is restarted
        time.sleep(0.1)
        told.socket.setblocking(False)
        with suppress(BlockingIOError):
            while told.socket.recv(256):
                pass
        told.socket.settimeout(1.0)
        with pytest.raises(TimeoutError):
            told.socket.recv(256)
        told.socket.settimeout(60)
        process.send_signal(signal.SIGCONT)
        told.until("WATCHDOG=1")
        process.send_signal(signal.SIGTERM)
        told.until("STOPPING=1")
        assert process.wait(60) == 0


def test_a_watchdog_is_told_twice_in_its_time_and_no_other_process_is():
    said = []
    for pid, expected in ((str(os.getpid()), 4), ("1", 0), ("", 4)):
        one = Supervisor({"NOTIFY_SOCKET": "x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": pid})
        one.tell = said.append
        said.clear()
        for tick in range(20):
            one.alive(tick / 10)
        assert said == ["WATCHDOG=1"] * expected
    Supervisor({"NOTIFY_SOCKET": "/nowhere/at/all"}).tell("READY=1")


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


def test_tokens_and_the_run_log_change_without_a_restart(tmp_path):
    file, log = tmp_path / "env", tmp_path / "log"
    file.write_text("# one\nDARE_TOKEN=old\nDARE_GRACE='5'\n")

    def status(url, token):
        return httpx.post(f"{url}/reward", json=GOOD, headers={"authorization": f"Bearer {token}"}).status_code

    redirect = f"import os, sys; os.dup2(os.open({str(log)!r}, os.O_WRONLY | os.O_CREAT), 2)"
    environment = {"DARE_ENV_FILE": file, "DARE_PAGE": "off", "DARE_LOG": "info", "DARE_GRACE": "7"}
    with service(wrapper=redirect, **environment) as process:

        def reloads():
            told = (json.loads(line) for line in log.read_text().splitlines() if line.startswith("{"))
            return [line for line in told if line["event"] == "reload"]

        def reload(text, count):
            file.write_text(text)
            process.send_signal(signal.SIGHUP)
            wait_for(lambda: len(reloads()) == count)
            return reloads()[-1]

        url = process.url
        assert httpx.get(f"{url}/info").json()["settings"]["grace"] == 5
        assert [status(url, t) for t in ("old", "new")] == [200, 401]
        said = reload("DARE_TOKEN=old new\nDARE_GRACE=5\n", 1)
        assert (said["changed"], said["tokens"], "old" in json.dumps(said)) == (["token"], 2, False)
        assert [status(url, t) for t in ("old", "new")] == [200, 200]
        said = reload(f"DARE_TOKEN=new\nDARE_GRACE=9\nDARE_RUN_LOG={tmp_path / 'runs'}\n", 2)
        assert said["changed"] == ["token", "run_log"]
        assert said["unchanged"] == ["grace"]
        assert [status(url, t) for t in ("old", "new")] == [401, 200]
        wait_for(lambda: httpx.get(f"{url}/info").json()["run_log"]["flushed"] == 1)
        assert list((tmp_path / "runs").rglob("*.jsonl.gz"))
        for broken in ("DARE_TOKEN=new\nDARE_PORT=x\n", "nonsense\n"):
            said = reload(broken, len(reloads()) + 1)
            assert said["level"] == "error"
            assert status(url, "new") == 200
        said = reload("", len(reloads()) + 1)
        assert "token" in said["unchanged"]
        assert status(url, "new") == 200


@pytest.mark.parametrize("text", ["x", "PORT=1", "DARE_ENV_FILE=x", "export DARE_PORT=1"])
def test_a_line_of_the_file_that_sets_nothing_is_named(text, tmp_path):
    file = tmp_path / "env"
    file.write_text(f"\n# comment\n{text}\n")
    with pytest.raises(SettingsError, match="line 3"):
        from_environment({"DARE_ENV_FILE": str(file)})
    with pytest.raises(SettingsError, match="DARE_ENV_FILE"):
        from_environment({"DARE_ENV_FILE": str(tmp_path / "absent")})


def test_the_file_wins_over_the_environment_and_flags_over_both(tmp_path):
    file = tmp_path / "env"
    file.write_text('DARE_PORT=1\nDARE_TOKEN="a b"\n')
    environment = {"DARE_ENV_FILE": str(file), "DARE_PORT": "2", "DARE_LOG": "off"}
    assert with_file(environment)["DARE_LOG"] == "off"
    found = from_environment(environment)
    assert (found.port, found.tokens) == (1, ("a", "b"))
    assert from_environment(environment, port=3).port == 3
    assert Settings().env_file == ""
