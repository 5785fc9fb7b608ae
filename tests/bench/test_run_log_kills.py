"""A run log whose writer is killed at 50 random moments, or finds no room: `pytest tests/bench/test_run_log_kills.py -s`."""

import os
import random
import resource
import signal
import subprocess
import sys
import threading
import time

import httpx
import pytest
from kills import kill_at

from dare_reward.runs import read_run

pytestmark = pytest.mark.bench

MOMENTS = 50
MANY = 100_000  # requests after which what is waited for does not come
CODE = "import os, sys; os.environ['DARE_RUN_LOG'] = sys.argv[1]; from dare_reward.cli import main; main(sys.argv[2:])"
GROUPS = [{"rollouts": [{"answer": str(i % 7), "mean_entropy": 0.01 * i, "num_tokens": i} for i in range(64)]}]


def steps(folder):
    return [line["step"] for line in read_run(folder)] if any(folder.glob("*/*")) else []


def whole(folder):
    """How many groups can be read: every one up to the last."""
    found = steps(folder)
    assert found == list(range(len(found)))
    return len(found)


def test_a_thread_loses_nothing_that_was_acknowledged(tmp_path, report):
    more = []
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        acknowledged = kill_at(folder, groups=random.randint(1, 4000), wait=0.1)
        more.append(whole(folder) - acknowledged)
    say(report, "a writer's thread", more)


def test_a_service_loses_nothing_that_info_counted(start_server, unused_port, tmp_path, report):
    """At every other moment its keeper is killed with it; else the keeper writes what it was given."""
    more = []
    for moment in range(MOMENTS):
        folder = tmp_path / str(moment)
        command = [sys.executable, "-c", CODE, str(folder), "serve", "--port", unused_port()]
        with start_server(command) as server, Load(server) as load:
            load.until(random.randint(1, 200))
            counted = load.later()
            for pid in [server.pid, *server.children()][: 1 + moment % 2]:
                os.kill(pid, signal.SIGKILL)
            more.append(whole(folder) - counted)
    say(report, "a service", more)


def test_a_service_whose_keeper_is_killed_loses_nothing_that_info_counted(start_server, unused_port, tmp_path, report):
    """Scoring goes on, one warning comes, and what the count does not hold is said to have failed."""
    more = []
    command = [sys.executable, "-c", CODE, str(tmp_path), "serve", "--port", unused_port()]
    with start_server(command) as server:
        with Load(server, pause=0.01) as load:
            for _ in range(MOMENTS):
                load.until(load.counted() + random.randint(1, 200))
                counted = load.later()
                os.kill(*server.children(), signal.SIGKILL)
                found = len({*steps(tmp_path)})
                more.append(found - counted)
                load.until(counted + 1)
        log = load.settled()
        assert load.warnings() == ["run_log_failed"]
    assert log["flushed"] + log["failed"] == load.sent
    found = steps(tmp_path)
    assert log["flushed"] <= len(found) == len({*found})
    say(report, "a keeper", more)


def say(report, victim, more):
    """`more`: groups that were there beyond those that had been acknowledged, at each moment."""
    lost = -sum(min(0, n) for n in more)
    report(
        f"kill -9 of {victim}, {MOMENTS} moments",
        f"{lost} acknowledged groups lost",
        f"{min(more)} to {max(more)} more were there",
        "0",
    )
    assert lost == 0


@pytest.fixture(params=["limit", "tmpfs"])
def disk(request, tmp_path):
    """A folder; what makes the keeper's disk full, and what gives it room again."""
    if request.param == "limit":  # no file of the process grows

        def limit(keeper, size=None):
            hard = resource.prlimit(keeper, resource.RLIMIT_FSIZE)[1]
            resource.prlimit(keeper, resource.RLIMIT_FSIZE, (size or hard, hard))

        yield tmp_path, limit, limit
        return
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    ballast = tmp_path / "ballast"

    def fill(keeper, size):
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    yield tmp_path, fill, lambda keeper: ballast.unlink()
    subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_costs_no_reward_and_one_warning(disk, start_server, unused_port, report):
    folder, fill, clear = disk
    command = [sys.executable, "-c", CODE, str(folder / "runs"), "serve", "--port", unused_port()]
    with start_server(command) as server:
        with Load(server) as load:
            load.until(300)
            (keeper,) = server.children()
            fill(keeper, load.log()["bytes"])
            while load.log()["failed"] < 300:
                assert not load.failed
                assert load.sent < MANY
            clear(keeper)
            load.until(load.log()["flushed"] + 300)
        log = load.settled()
        assert load.warnings() == ["run_log_failed"]
        assert log["flushed"] + log["failed"] == load.sent
        found = steps(folder / "runs")
        assert len(found) == len(set(found)) == log["flushed"]
    report("a full disk", f"{log['failed']} of {load.sent} groups not logged, all scored", "one warning", "one")


class Load:
    """Posts one group a step as fast as a service takes them, from another thread."""

    def __init__(self, server, pause=0.0):
        self.url, self.pause, self.sent, self.failed, self.stop = server.url, pause, 0, False, threading.Event()
        self.thread = threading.Thread(target=self.post)

    def post(self):
        with httpx.Client(timeout=20) as client:
            while not self.stop.is_set():
                try:
                    body = {"run": "r", "step": self.sent, "groups": GROUPS}
                    ok = client.post(f"{self.url}/reward", json=body).status_code == 200
                except httpx.TransportError:
                    ok = False
                if not ok:
                    self.failed = True
                    break
                self.sent += 1
                time.sleep(self.pause)

    def info(self):
        time.sleep(0.02)
        return httpx.get(f"{self.url}/info", timeout=20).json()

    def log(self):
        return self.info()["run_log"]

    def counted(self):
        return self.log()["flushed"]

    def warnings(self):
        return [warning["event"] for warning in self.info()["warnings"]]

    def until(self, groups):
        while (found := self.counted()) < groups:
            assert not self.failed
            assert self.sent < MANY
        return found

    def later(self):
        """The last count of a while."""
        end = time.monotonic() + random.uniform(0, 0.3)
        found = self.counted()
        while time.monotonic() < end:
            found = self.counted()
        return found

    def settled(self):
        while (log := self.log())["flushed"] + log["failed"] < self.sent:
            pass
        return log

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()
