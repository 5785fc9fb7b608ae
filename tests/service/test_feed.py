"""What is told of scored groups, and the thread that adds up the page: nothing of it reaches the rewards."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import httpx
import pytest
from pydantic_core import from_json, to_json

from dare_reward import estimate
from dare_reward.report.book import RunBook
from dare_reward.report.view import view
from dare_reward.runs import log as logs
from dare_reward.runs import read_run
from dare_reward.runs.line import ASKED, objects, of_groups, of_scored
from dare_reward.runs.log import RunLog
from dare_reward.scoring.score import score
from dare_service import run_recorder as recorders
from dare_service.app import create_app
from dare_service.metrics import Metrics
from dare_service.page import feed as feeds
from dare_service.page import past as pasts
from dare_service.page.feed import Feed
from dare_service.page.past import load
from dare_service.run_notices import Runs
from dare_service.run_recorder import RunRecorder
from dare_service.settings import Settings

GROUP = {"group_id": "g", "rollouts": [{"answer": "4", "mean_entropy": 0.2}, {"answer": "5", "mean_entropy": 0.9}]}
SCORED = score([GROUP], {}, method="dare")
REPLY = SCORED.reply


def record(step, run="r", **options):
    return of_groups([GROUP], REPLY, run=run, step=step, **options)


@pytest.fixture
def make_recorder(tmp_path):
    made = []

    def make(folder=tmp_path, **settings):
        runs = Runs(Metrics())
        made.append(RunRecorder(Settings(log="off", run_log=str(folder), **settings), runs))
        return made[-1], runs

    yield make
    for recorder in made:
        recorder.close()


def add(recorder, step, key=None):
    recorder.scored(SCORED, [GROUP], run="r", step=step, key=key)


def steps(folder):
    return [line["step"] for line in read_run(folder)]


def test_nothing_is_started_before_it_is_needed(make_recorder, tmp_path):
    before = threading.active_count()
    recorder, _ = make_recorder(page="off")
    assert (recorder.status["flushed"], threading.active_count()) == (0, before)


def test_a_request_that_is_sent_again_is_written_once(make_recorder, tmp_path):
    """By its key alone: two prompts of a step, or two steps, may well get the same reply."""
    recorder, _ = make_recorder()
    for step, key in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, None), (1, None), (None, "a"), (None, "a")):
        add(recorder, step, key)
    assert recorder.settle()
    assert sorted(steps(tmp_path), key=str) == [1, 1, 1, 1, 2, None]
    assert recorder.status["repeated"] == 2
    assert b'"groups":6' in recorder.feed.json()


def test_a_repetition_is_known_by_the_client_s_key(make_service, tmp_path):
    service = make_service(run_log=str(tmp_path))
    for key in ("a", "a", "b", None, None):
        assert service.post({"groups": [GROUP]}, headers={"Idempotency-Key": key} if key else {}).status_code == 200
    assert service.state.recorder.settle()
    assert len(list(read_run(tmp_path))) == 4


def test_other_settings_begin_another_log_and_keep_the_page(make_recorder, tmp_path):
    recorder, _ = make_recorder()
    add(recorder, 1)
    recorder.set_up(Settings(log="off", run_log=str(tmp_path / "other")))
    add(recorder, 2)
    assert recorder.settle()
    for thread in threading.enumerate():
        if thread.name == "last-run-log":
            thread.join()
    assert (steps(tmp_path / "r"), steps(tmp_path / "other")) == ([1], [2])
    assert b'"groups":2' in recorder.feed.json()


def test_what_cannot_be_made_a_record_counts_as_failed(make_recorder, monkeypatch):
    monkeypatch.setattr(recorders, "of_scored", lambda *args, **options: 1 / 0)
    recorder, runs = make_recorder()
    add(recorder, 1)
    assert recorder.status["failed"] == 1
    assert [w["event"] for w in runs.warnings] == ["run_log_failed"]


@pytest.mark.anyio
async def test_the_end_of_the_application_writes_its_log(tmp_path):
    app = create_app(Settings(log="off", run_log=str(tmp_path)))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://t") as client:
        assert (await client.post("/reward", json={"groups": [GROUP]})).status_code == 200
    assert len(list(read_run(tmp_path))) == 1


FORK = """
import os, sys
from dare_reward.runs.line import of_groups
from dare_reward import estimate
from dare_service.page.feed import Feed
groups = [{"rollouts": [{"answer": "4", "mean_entropy": 0.1}] * 8}]
feed = Feed(print)
for _ in range(2):
    feed.add(of_groups(groups, estimate(groups), run="r", step=1), 0.0)
    assert feed.settle()
    if (child := os.fork()):
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_adds_up_what_it_scores():
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


@pytest.mark.parametrize("method", ["dare", "ttrl", "rent", "ttrl beside dare"])
def test_the_columns_of_a_record_are_those_of_its_lines(method):
    """Which the report reads, so page and report say the same."""
    groups = [
        {"group_id": "a", "label": "4", "rollouts": [
            {"answer": a, "mean_entropy": 0.1 * i, "num_tokens": i, "trained": i > 1, "finish_reason": end}
            for i, (a, end) in enumerate((("4", "stop"), ("4", "length"), ("5", "stop"), (None, "length")))]},
        {"group_id": "b", "rollouts": [{"answer": None, "mean_entropy": 0.2}] * 2},
        {"group_id": "c", "label": "7", "rollouts": [{"answer": "7"}, {"answer": "8"}]},
        {"rollouts": [{"answer": "1", "mean_entropy": 0.5, "correct": True}, {"answer": "1", "mean_entropy": 0.5}]},
    ]  # fmt: skip
    if method == "ttrl beside dare":
        groups[0]["method"] = groups[1]["method"] = "ttrl"
        method = "dare"
    found = score(groups, {}, method=method, shadow=["ttrl"])
    for record in (of_scored(found, groups, run="r", step=1), of_groups(groups, found.reply, run="r", step=1)):
        one, other = RunBook(), RunBook()
        one.add_record(record, 1e9)
        for line in objects(record, 1e9):
            other.add(line)
        assert to_json(view(one)) == to_json(view(other))


def test_more_than_the_page_can_add_up_is_left_out_and_said(monkeypatch):
    monkeypatch.setattr(feeds, "WAITING", 4000)
    feed = Feed(print)
    with feed._book:  # the thread waits
        for step in range(8):
            feed.add(record(step), 0.0)
    assert feed.settle()
    (run,) = feed.book.runs.values()
    assert run.groups + feed.left_out == 8
    assert feed.left_out > 0
    assert f"{feed.left_out} groups" in feed.json().decode()


def test_what_cannot_be_added_up_is_left_out(monkeypatch):
    told = []
    feed = Feed(lambda event, why: told.append(event))
    monkeypatch.setattr(feeds.RunBook, "add_record", lambda book, record, when: 1 / 0)
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
