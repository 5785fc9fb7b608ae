"""The process that writes the run log and adds up the page: nothing that happens to it reaches the rewards."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from pydantic_core import from_json

from dare_reward import estimate
from dare_reward.runs import log as logs
from dare_reward.runs import read_run
from dare_reward.runs.line import ASKED, of_groups
from dare_reward.runs.log import RunLog
from dare_service.app import create_app
from dare_service.keeper import feed as feeds
from dare_service.keeper import link as links
from dare_service.keeper import past as pasts
from dare_service.keeper.feed import Feed
from dare_service.keeper.link import Link
from dare_service.keeper.messages import Setup
from dare_service.keeper.past import load
from dare_service.settings import Settings

GROUP = {"group_id": "g", "rollouts": [{"answer": "4", "mean_entropy": 0.2}, {"answer": "5", "mean_entropy": 0.9}]}
REPLY = estimate([GROUP])


def record(step, run="r", **options):
    return of_groups([GROUP], REPLY, run=run, step=step, **options)


@pytest.fixture
def make_link(tmp_path):
    made = []

    def make(folder=tmp_path, *, page=False):
        told = []
        setup = Setup(str(folder), frozenset(), 1 << 30, 0.0, page=page)
        made.append(Link(setup, lambda event, why: told.append((event, why))))
        return made[-1], told

    yield make
    for link in made:
        link.close()


def steps(folder):
    return [line["step"] for line in read_run(folder)]


def test_nothing_is_started_before_it_is_needed(make_link):
    before = threading.active_count()
    link, _ = make_link()
    assert (link.pid, link.log_status["flushed"], threading.active_count()) == (0, 0, before)


def test_a_keeper_that_is_killed_is_started_again(make_link, tmp_path, monkeypatch):
    monkeypatch.setattr(links, "AGAIN", 0.0)
    link, told = make_link(page=True)
    link.add(record(0))
    assert link.settle()
    first, version = link.pid, link.version
    os.kill(first, signal.SIGKILL)
    link._process.wait()
    link.add(record(1))
    assert link.settle()
    assert link.pid != first
    assert link.version > version
    assert steps(tmp_path) == [0, 1]
    assert link.log_status["flushed"] == 2
    assert link.log_status["failed"] == 0
    assert [event for event, _ in told] == ["run_log_failed"]
    assert b'"groups":2' in link.view()  # the page has read what was there before


def test_what_a_killed_keeper_had_and_had_not_written_counts_as_failed(make_link, tmp_path, monkeypatch):
    monkeypatch.setattr(links, "AGAIN", 0.0)
    link, told = make_link()
    link.add(record(0))
    assert link.settle()
    os.kill(link.pid, signal.SIGSTOP)  # it takes what comes into the pipe, and writes none of it
    for step in range(1, 5):
        link.add(record(step))
    with link._more:
        while link._sent < 5:
            link._more.wait(0.01)
    os.kill(link.pid, signal.SIGKILL)
    link._process.wait()
    link.add(record(9))
    assert link.settle()
    assert steps(tmp_path) == [0, 9]
    assert (link.log_status["flushed"], link.log_status["failed"]) == (2, 4)
    assert len(told) == 1


def test_a_signal_to_all_processes_does_not_end_the_keeper(make_link, tmp_path):
    link, told = make_link()
    link.add(record(0))
    assert link.settle()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(link.pid, number)
    link.add(record(1))
    assert link.settle()
    link.close()
    assert link._process.returncode == 0
    assert (steps(tmp_path), told) == ([0, 1], [])


def test_the_keeper_is_in_no_group_of_the_service(make_link):
    link, _ = make_link()
    link.add(record(0))
    assert link.settle()
    assert os.getpgid(link.pid) == link.pid


@pytest.mark.parametrize("full", [False, True])
def test_a_keeper_that_is_stuck_is_waited_for_once_and_not_replaced(make_link, monkeypatch, full):
    link, told = make_link()
    link.add(record(0))
    assert link.settle()
    first = link.pid
    os.kill(first, signal.SIGSTOP)
    for step in range(1, 4000 if full else 2):  # the pipe is full, or not
        link.add(record(step))
    waits, join, wait = [], link._thread.join, link._process.wait
    monkeypatch.setattr(links, "CLOSING", 0.5)
    clock = SimpleNamespace(monotonic=lambda: sum(waits), time=time.time, sleep=time.sleep)
    monkeypatch.setattr(links, "time", clock)  # time passes by what is waited for
    monkeypatch.setattr(link._thread, "join", lambda seconds: (waits.append(seconds), join(seconds)))
    monkeypatch.setattr(link._process, "wait", lambda seconds=None: (waits.append(seconds or 0.0), wait(seconds))[1])
    link.close()
    assert waits[:2] == [0.5, 0.0]
    assert link.pid == first
    assert link._process.returncode == -signal.SIGKILL
    assert not link._thread.is_alive()
    assert [event for event, _ in told] == ["run_log_failed"]


def test_a_first_keeper_is_started_for_what_waits_at_the_stop(make_link, tmp_path, monkeypatch):
    monkeypatch.setattr(links, "CLOSING", 60.0)
    link, told = make_link()
    link.add(record(0))
    link.close()
    assert (steps(tmp_path), told) == ([0], [])


@pytest.mark.anyio
async def test_the_end_of_the_application_ends_its_keeper(tmp_path):
    app = create_app(Settings(log="off", run_log=str(tmp_path)))
    async with app.router.lifespan_context(app):
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
            assert (await client.post("/reward", json={"groups": [GROUP]})).status_code == 200
        keeper = app.state.dare.recorder.keeper
        assert await asyncio.to_thread(keeper.settle)
        assert keeper._process.poll() is None
    assert keeper._process.poll() == 0


def test_a_keeper_that_cannot_start_costs_no_more_than_its_groups(make_link, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError("no more processes")

    monkeypatch.setattr(links, "AGAIN", 0.0)
    monkeypatch.setattr(subprocess, "Popen", refuse)
    link, told = make_link(page=True)
    link.add(record(0))
    assert link.view() is None
    assert link.log_status["failed"] == 1
    assert len(told) == 1
    assert "no more processes" in told[0][1]


def test_more_than_waits_is_dropped_and_counted(make_link, tmp_path, monkeypatch):
    monkeypatch.setattr(links, "WAITING", 1)
    link, told = make_link()
    hold = threading.Event()
    monkeypatch.setattr(link, "_hand_over", lambda item, real=link._hand_over: (hold.wait(20), real(item)))
    for step in range(4):
        link.add(record(step))
    assert link.log_status["dropped"] == 3
    hold.set()
    assert link.settle()
    assert steps(tmp_path) == [0]
    assert [event for event, _ in told] == ["run_log_full"]


def test_a_request_that_is_sent_again_is_written_once(make_link, tmp_path):
    """By its key alone: two prompts of a step, or two steps, may well get the same reply."""
    link, _ = make_link(page=True)
    for step, key in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, None), (1, None), (None, "a"), (None, "a")):
        link.add(replace(record(step), key=key))
    assert link.settle()
    assert sorted(steps(tmp_path), key=str) == [1, 1, 1, 1, 2, None]
    assert link.log_status["repeated"] == 2
    assert b'"groups":6' in link.view()


def test_a_repetition_is_known_by_the_client_s_key(make_service, tmp_path):
    service = make_service(run_log=str(tmp_path))
    for key in ("a", "a", "b", None, None):
        assert service.post({"groups": [GROUP]}, headers={"Idempotency-Key": key} if key else {}).status_code == 200
    assert service.state.recorder.keeper.settle()
    assert len(list(read_run(tmp_path))) == 4


def test_two_keepers_write_one_folder_at_the_same_time(make_link, tmp_path):
    """Two services on one machine with the same settings."""
    (one, told), (other, told_too) = make_link(), make_link()
    for step in range(0, 400, 2):
        one.add(record(step))
        other.add(record(step + 1))
    assert one.settle()
    assert other.settle()
    assert one.pid != other.pid
    assert [link.log_status["flushed"] for link in (one, other)] == [200, 200]
    assert sorted(steps(tmp_path)) == list(range(400))
    assert told == told_too == []


PARENT = """
import os, sys, time
from dare_reward import estimate
from dare_reward.runs.line import of_groups
from dare_service.keeper.link import Link
from dare_service.keeper.messages import Setup
group = {"rollouts": [{"answer": "4", "mean_entropy": 0.1}] * 8}
reply = estimate([group])
link = Link(Setup(sys.argv[1], frozenset(), 1 << 30, 0.0, page=False), print)
step = 0
while True:
    for _ in range(8):
        link.add(of_groups([group], reply, run="r", step=step))
        step += 1
    while link.log_status["flushed"] + 64 < step:
        time.sleep(0.001)
    print(link.log_status["flushed"], link.pid, flush=True)
"""


@pytest.mark.parametrize("victims", ["service", "both"])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, victims):
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as process:
        told = 0
        while told < 30:
            told, keeper = map(int, process.stdout.readline().split())
        process.kill()
        if victims == "both":
            os.kill(keeper, signal.SIGKILL)
        rest = process.stdout.read().split("\n")[:-1]
    told = max([told, *(int(line.split()[0]) for line in rest)])
    found = steps(tmp_path)
    assert len(found) >= told
    assert found == list(range(len(found)))


@pytest.mark.parametrize(
    "form", [lambda r: r, lambda r: r.written(links._encode)], ids=["replies", "as the link sends"]
)
def test_more_than_the_page_can_add_up_is_left_out_and_said(monkeypatch, form):
    monkeypatch.setattr(feeds, "WAITING", 4000)
    feed = Feed(print)
    with feed._book:  # the thread waits
        for step in range(8):
            feed.add(form(record(step)), 0.0)
    assert feed.settle()
    (run,) = feed.book.runs.values()
    assert run.groups + feed.left_out == 8
    assert feed.left_out > 0
    assert f"{feed.left_out} groups" in feed.json().decode()


def test_what_cannot_be_added_up_is_left_out(monkeypatch):
    told = []
    feed = Feed(lambda event, why: told.append(event))
    monkeypatch.setattr(feeds.RunBook, "add", lambda book, line: 1 / 0)
    feed.add(record(0), 0.0)
    assert feed.settle()
    assert feed.left_out == 1
    assert told == ["page_failed"]


def test_only_the_end_of_a_long_log_is_read_at_the_start(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "PAUSE", 0.0)
    for step in range(5):  # five starts of a service
        log = RunLog(tmp_path, clock=lambda step=step: 1e9 + step)
        log.add(record(step))
        log.close()
    files = sorted(tmp_path.rglob("*.gz"))
    for age, file in enumerate(files):
        os.utime(file, (1e9 + age, 1e9 + age))
    whole = load(tmp_path)
    assert not whole.cut
    assert [line["step"] for line in whole.lines] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(pasts, "BYTES", sum(f.stat().st_size for f in files[-2:]))
    part = load(tmp_path)
    assert part.cut
    assert [line["step"] for line in part.lines] == [3, 4]
    assert list(load(tmp_path / "nowhere").lines) == []


def test_so_many_lines_of_a_log_are_read_at_the_start_the_last_ones(tmp_path, monkeypatch):
    for step, runs in enumerate("aaab"):
        log = RunLog(tmp_path, clock=lambda step=step: 1e9 + step)
        for i in range(5):
            log.add(record(10 * step + i, run=runs))
        log.close()
    for age, file in enumerate(sorted(tmp_path.rglob("*.gz"), key=lambda f: f.name)):
        os.utime(file, (1e9 + age, 1e9 + age))
    monkeypatch.setattr(pasts, "LINES", 12)
    part = load(tmp_path)
    assert part.cut
    assert [line["step"] for line in part.lines] == [13, 14, 20, 21, 22, 23, 24, 30, 31, 32, 33, 34]
    monkeypatch.setattr(pasts, "LINES", 20)
    whole = load(tmp_path)
    assert not whole.cut
    assert len(list(whole.lines)) == 20


def test_what_was_logged_of_prompts_and_texts_is_not_shown_after_a_restart(tmp_path):
    group = {
        "prompt": "a secret prompt",
        "rollouts": [
            {"text": f"a secret text \\boxed{{{a}}}", "answer": a, "token_entropies": [0.125, 0.5]} for a in "45"
        ],
    }
    log = RunLog(tmp_path, frozenset(ASKED))
    log.add(of_groups([group], estimate([group]), run="r", step=1, asked=frozenset(ASKED)))
    log.close()
    (line,) = read_run(tmp_path)
    assert line.keys() >= set(ASKED)
    feed = Feed(print)
    feed.begin(lambda: load(tmp_path))
    assert feed.settle()
    shown = feed.json().decode()
    assert '"groups":1' in shown
    assert "secret" not in shown
    assert not any(name in shown for name in ASKED[1:])


def test_while_an_older_log_is_read_no_run_has_a_verdict(tmp_path):
    log = RunLog(tmp_path)
    for step in range(12):
        log.add(record(step), 0.0)
    log.close()
    half, rest = threading.Event(), threading.Event()

    def slowly():
        past = load(tmp_path)

        def lines():
            for number, line in enumerate(past.lines):
                if number == 6:
                    half.set()
                    assert rest.wait(30)
                yield line

        return replace(past, lines=lines())

    feed = Feed(print)
    feed.begin(slowly)
    assert half.wait(30)
    version, (run,) = feed.version, from_json(feed.json())["runs"]
    assert run["headline"]["text"] == "The run log is still being read"
    assert run["verdict"]["rule"] == run["entropy"]["rule"] == "still-reading"
    rest.set()
    assert feed.settle(30)
    assert feed.version > version
    (run,) = from_json(feed.json())["runs"]
    assert run["headline"]["text"] != "The run log is still being read"
    assert "still-reading" not in (run["verdict"]["rule"], run["entropy"]["rule"])


def test_an_old_log_that_cannot_be_read_hides_nothing_new():
    def broken():
        raise ValueError("newer")

    told = []
    feed = Feed(lambda event, why: told.append(event))
    feed.begin(broken)
    feed.add(record(0), 0.0)
    assert feed.settle()
    assert len(feed.book.runs) == 1
    assert told == ["page_failed"]
