"""What is told of scored groups, and the page that follows the log: what it shows, and to whom."""

import json
import re
import subprocess
import sys
import threading

import httpx
import pytest

from dare_reward import estimate
from dare_reward.report.book import RunBook
from dare_reward.report.view import view
from dare_reward.runs import log as logs
from dare_reward.runs import read_run
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog
from dare_reward.runs.reader import segments
from dare_reward.scoring.score import score
from dare_service import run_recorder as recorders
from dare_service.app import create_app
from dare_service.log import Runs
from dare_service.metrics import Metrics
from dare_service.page import live
from dare_service.page.live import LivePage
from dare_service.run_recorder import RunRecorder
from dare_service.settings import Settings

GROUP = {"group_id": "g", "rollouts": [{"answer": "4", "mean_entropy": 0.2}, {"answer": "5", "mean_entropy": 0.9}]}
SCORED = score([GROUP], {}, method="dare")
REPLY = SCORED.reply
BODY = {"run": "first", "step": 3, "groups": [{**GROUP, "rollouts": [GROUP["rollouts"][0], *GROUP["rollouts"]]}]}


def record(step, run="r", **options):
    return of_groups([GROUP], REPLY.groups, run=run, step=step, **options)


def write(folder, *records, **options):
    log = RunLog(folder, **options)
    for one in records:
        log.add(one)
    log.close()


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


def add(recorder, step, key=""):
    recorder.record(SCORED, [GROUP], run="r", step=step, key=key)


def steps(folder):
    return [line["step"] for line in read_run(folder)]


def join(name):
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join()


def shown(page):
    return json.loads(page.json())


def test_nothing_is_started_before_it_is_needed(make_recorder):
    before = threading.active_count()
    recorder, _ = make_recorder(page="off")
    assert (recorder.status["flushed"], threading.active_count()) == (0, before)


def test_a_request_that_is_sent_again_is_written_once(make_recorder, tmp_path):
    """By its key alone: two prompts of a step, or two steps, may well get the same reply."""
    recorder, _ = make_recorder()
    for step, key in ((1, "a"), (1, "a"), (2, "a"), (1, "b"), (1, ""), (1, ""), (None, "a"), (None, "a")):
        add(recorder, step, key)
    assert recorder.flush()
    assert sorted(steps(tmp_path), key=str) == [1, 1, 1, 1, 2, None]
    assert recorder.status["repeated"] == 2
    assert shown(recorder.page)["runs"][0]["groups"] == 6


def test_a_repetition_is_known_by_the_client_s_key(make_service, tmp_path):
    service = make_service(run_log=str(tmp_path))
    for key in ("a", "a", "b", None, None):
        assert service.post({"groups": [GROUP]}, headers={"Idempotency-Key": key} if key else {}).status_code == 200
    assert service.state.recorder.flush()
    assert len(list(read_run(tmp_path))) == 4


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


# --- where nobody has named a folder ----------------------------------------------------------------------------------


def test_without_a_folder_the_log_is_private_small_and_goes_with_the_process():
    recorder = RunRecorder(Settings(log="off", run_log_texts="texts"), Runs(Metrics()))
    folder = recorder.log.folder
    assert recorder.asked == {"texts"}
    assert (str(folder), folder.stat().st_mode & 0o777) == (recorder.private, 0o700)
    assert recorder.log.max_bytes == 32 << 20
    add(recorder, 1)
    assert recorder.flush()
    assert shown(recorder.page)["runs"][0]["groups"] == 1
    other = RunRecorder(Settings(log="off"), Runs(Metrics()))
    assert other.private != recorder.private
    recorder.close()
    other.close()
    assert not folder.exists()


def test_off_is_no_log_and_no_page():
    recorder = RunRecorder(Settings(log="off", run_log="off"), Runs(Metrics()))
    assert (recorder.log, recorder.page, recorder.private, recorder.status) == (None, None, "", None)
    add(recorder, 1)
    assert recorder.flush()


def test_where_no_folder_can_be_made_rewards_are_given_all_the_same(make_service, monkeypatch):
    monkeypatch.setattr(recorders.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(OSError(30, "Read-only")))
    service = make_service(page="on", run_log="")
    assert service.post({"groups": [GROUP]}).status_code == 200
    assert "Read-only" in service.get("/info").json()["warnings"][0]["why"]
    assert service.get("/page/data").status_code == 503


# --- the page ---------------------------------------------------------------------------------------------------------


FORK = """
import os, sys, time
from pathlib import Path
from dare_reward.runs.line import of_groups
from dare_reward import estimate
from dare_reward.runs.log import RunLog
from dare_service.page.live import LivePage
groups = [{"rollouts": [{"answer": "4", "mean_entropy": 0.1}] * 8}]
log, page = RunLog(Path(sys.argv[1])), LivePage(Path(sys.argv[1]), print)
for count in (1, 2):
    log.add(of_groups(groups, estimate(groups).groups, run="r", step=1))
    assert log.flush()
    while b'"groups":%d' % count not in page.json():
        time.sleep(0.01)
    if (child := os.fork()):
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_after_a_fork_the_page_goes_on(tmp_path):
    subprocess.run([sys.executable, "-c", FORK, str(tmp_path)], check=True, timeout=60)


def test_lines_are_read_when_somebody_looks_or_there_are_many(make_recorder, monkeypatch):
    recorder, _ = make_recorder()
    add(recorder, 1)
    assert recorder.flush()
    assert (recorder.page.book.lines, shown(recorder.page)["runs"][0]["groups"]) == (0, 1)
    monkeypatch.setattr(live, "NEWEST", 0)
    add(recorder, 2)
    assert recorder.flush()
    join("page")
    assert recorder.page.book.lines == 2


def test_page_and_report_say_the_same(tmp_path):
    """One reader, one book: whatever a log holds, and however it came."""
    groups = [
        {"group_id": "a", "label": "4", "rollouts": [
            {"answer": a, "mean_entropy": 0.1 * i, "num_tokens": i, "trained": i > 1, "finish_reason": end}
            for i, (a, end) in enumerate((("4", "stop"), ("4", "length"), ("5", "stop"), (None, "length")))]},
        {"group_id": "b", "rollouts": [{"answer": None, "mean_entropy": 0.2}] * 2},
        {"group_id": "c", "label": "7", "rollouts": [{"answer": "7"}, {"answer": "8"}]},
        {"rollouts": [{"answer": "1", "mean_entropy": 0.5, "correct": True}, {"answer": "1", "mean_entropy": 0.5}]},
    ]  # fmt: skip
    page = LivePage(tmp_path, print)
    for step in range(12):
        reply = estimate(groups, shadow=["ttrl"])
        write(tmp_path, *(of_groups(groups, reply.groups, run=run, step=step) for run in ("one", "two")))
        page.read()
    book = RunBook()
    for line in read_run(tmp_path):
        book.add(line)
    mine, theirs = shown(page), json.loads(json.dumps(view(book)))
    for run in (*mine["runs"], *theirs["runs"]):
        run["cards"] = len(run["cards"])  # of lines of one millisecond
    assert {run["run"]: run for run in mine["runs"]} == {run["run"]: run for run in theirs["runs"]}


def test_a_view_reads_nothing_twice(tmp_path):
    """However much the log holds, a page that asks again has what came since read, once."""
    page = LivePage(tmp_path, print)
    write(tmp_path, *(record(step, run=run) for step in range(12) for run in ("a", "b")))
    assert [run["groups"] for run in shown(page)["runs"]] == [12, 12]
    assert page.json(shown(page)["now"]) == b""
    for strange in ("x", "-", "12", f"{shown(page)['now'][:8]}-x", "00000000-24"):
        assert len(json.loads(page.json(strange))["runs"]) == 2
    write(tmp_path, record(12, run="a"))
    assert {run["run"]: run["columns"]["step"][-1] for run in shown(page)["runs"]} == {"a": 12, "b": 11}
    assert page.ledger["read"] == page.book.lines == 25


def test_totals_outlive_the_files_that_the_log_deletes(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "PAUSE", 0.0)
    page = LivePage(tmp_path, print)
    log = RunLog(tmp_path, max_bytes=32 << 10, wrote=page.grew, going=page.read)
    for step in range(150):
        log.add(record(step, seconds=step / 7))
        assert log.flush()
    log.close()
    assert len(steps(tmp_path)) < 150
    assert shown(page)["runs"][0]["groups"] == 150
    assert "older files of the log are gone" in shown(page)["source"]


def test_what_is_damaged_is_said_on_the_page(tmp_path):
    write(tmp_path, *(record(step) for step in range(3)))
    (file,) = segments(tmp_path)
    good = file.read_bytes()
    bad = bytearray(good)
    bad[-30] ^= 1
    file.write_bytes(bytes(bad) + good)
    page = LivePage(tmp_path, print)
    assert shown(page)["runs"][0]["groups"] == 3
    assert "3 read; 3 unreadable" in shown(page)["source"]
    assert page.ledger.as_json()["unreadable"] == 3


def test_what_was_logged_of_prompts_and_texts_is_not_shown(tmp_path):
    rollouts = [{"text": f"a secret text \\boxed{{{a}}}", "token_entropies": [0.125, 0.5]} for a in "45"]
    group, asked = {"prompt": "a secret prompt", "rollouts": rollouts}, frozenset({"prompt", "texts"})
    write(tmp_path, of_groups([group], estimate([group]).groups, run="r", step=1, asked=asked))
    assert "secret prompt" in str(list(read_run(tmp_path)))
    page = LivePage(tmp_path, print)
    said = page.json().decode()
    assert '"groups":1' in said
    assert "secret" not in said
    assert "token_entropies" not in said


def test_a_page_that_fails_warns_and_goes_on(tmp_path, monkeypatch):
    told = []
    page = LivePage(tmp_path, lambda event, why: told.append(event))
    monkeypatch.setattr(live.RunBook, "add", lambda book, line: 1 / 0)
    write(tmp_path, record(0))
    page.read()
    monkeypatch.undo()
    assert told == ["page_failed"]
    write(tmp_path, record(1))
    assert shown(page)["runs"][0]["groups"] == 1


# --- the page over HTTP -----------------------------------------------------------------------------------------------


@pytest.fixture
def page(make_service):
    return make_service(page="on")


def runs(page, **headers):
    assert page.state.recorder.flush()
    found = page.get("/page/data", headers=headers)
    assert found.status_code == 200
    return json.loads(found.content)["runs"]


def test_the_page_is_one_file_that_runs_its_own_scripts_alone(page):
    found = page.get("/")
    assert (found.status_code, found.headers["content-security-policy"]) == (200, "frame-ancestors 'none'")
    policy = found.text.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert policy.endswith("connect-src 'self'")
    assert found.text.index(policy) < found.text.index("<style>") < found.text.index("<script>")
    assert not re.search(r"<(?:link rel=.?stylesheet|script src)", found.text)


def test_what_is_scored_is_shown(page):
    assert page.post(BODY).status_code == 200
    (run,) = runs(page)
    assert (run["run"], run["columns"]["step"], run["groups"], run["rollouts"]) == ("first", [3], 1, 3)
    assert run["cards"][0]["pseudo_label"] == "4"
    assert run["cards"][0]["mean_entropies"] == [0.2, 0.2, 0.9]


def test_off(make_service):
    page = make_service(page="off")
    assert page.post(BODY).status_code == 200
    assert page.state.recorder.page is None
    for path in ("/", "/page/data"):
        assert page.get(path).status_code == 404


def test_the_token_guards_all_that_is_known(make_service):
    page = make_service(page="on", token="s3cret")
    bearer = {"Authorization": "Bearer s3cret"}
    assert page.get("/").status_code == 401
    assert "<main" in page.get("/").text  # it asks for the token
    assert page.get("/?token=s3cret").status_code == 200
    assert "s3cret" not in page.get("/?token=s3cret").text
    assert page.get("/page/data").status_code == 401
    assert page.get("/page/data", headers={"Authorization": "Bearer other"}).status_code == 401
    assert runs(page, **bearer) == []


def test_a_page_that_has_seen_it_all_is_sent_nothing(page):
    assert page.post(BODY).status_code == 200
    assert page.state.recorder.flush()
    seen = page.get("/page/data").json()["now"]
    found = page.get(f"/page/data?seen={seen}")
    assert (found.status_code, found.content) == (204, b"")
    assert page.post({**BODY, "step": 4}).status_code == 200
    assert page.state.recorder.flush()
    assert page.get(f"/page/data?seen={seen}").json()["runs"][0]["columns"]["step"] == [3, 4]


def test_another_site_cannot_read_the_page_s_data(page):
    """An image of another site comes without Origin and says by Sec-Fetch-Site what it is."""
    for site in ("cross-site", "same-site"):
        assert page.get("/page/data", headers={"Sec-Fetch-Site": site}).status_code == 403
    for site in ("same-origin", "none"):
        assert page.get("/page/data", headers={"Sec-Fetch-Site": site}).status_code == 200


def test_a_restart_shows_the_runs_of_the_log(make_service, tmp_path):
    first = make_service(page="on", run_log=str(tmp_path))
    for step in (3, 4):
        for run in ("first", "second"):
            assert first.post({**BODY, "run": run, "step": step}).status_code == 200
    assert first.state.recorder.flush()
    before = runs(first)
    first.state.recorder.close()
    again = make_service(page="on", run_log=str(tmp_path))
    after = runs(again)
    assert {run["run"]: (run["columns"], run["groups"]) for run in after} == {
        run["run"]: (run["columns"], run["groups"]) for run in before
    }
    again.post({**BODY, "step": 5})
    assert {run["run"]: run["columns"]["step"] for run in runs(again)} == {"first": [3, 4, 5], "second": [3, 4]}


def test_one_long_answer_hides_no_group(page):
    for answer in ("4", "x" * 200_000, "5"):
        rollouts = [{"answer": answer, "mean_entropy": 0.1}]
        assert page.post({"run": "r", "groups": [{"rollouts": rollouts, "label": answer}]}).status_code == 200
    (run,) = runs(page)
    assert len(run["cards"]) == 3
    assert max(len(card["pseudo_label"]) for card in run["cards"]) < 1000
