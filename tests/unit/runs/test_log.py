"""The writer of a run log: nothing that `flushed` counts is lost, and nothing that goes wrong ends a run."""

import errno
import os
import pickle
import re
import threading
from pathlib import Path

import pytest
from kills import kill_at

import dare_reward
from dare_reward.runs import log as module
from dare_reward.runs import read_run
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog, folder_of
from dare_reward.runs.reader import SEGMENT, segments

GROUPS = [{"group_id": "q", "rollouts": [{"answer": "1", "mean_entropy": 0.1}, {"answer": "2", "mean_entropy": 0.2}]}]
OPEN_FILES = Path("/proc/self/fd")
REPLY = dare_reward.estimate(GROUPS)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)


@pytest.fixture
def make_log(tmp_path):
    made = []

    def make(folder=tmp_path, **options):
        told = []
        log = RunLog(Path(folder), warn=lambda event, why: told.append((event, why)), **options)
        made.append(log)
        return log, told

    yield make
    for log in made:
        log.close()


def record(run="r", step=None, **options):
    return of_groups(GROUPS, REPLY.groups, run=run, step=step, **options)


def add(log, *records):
    for one in records:
        log.add(one)
    assert log.flush()


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if p.is_file())


def test_what_is_flushed_can_be_read(make_log, tmp_path):
    log, told = make_log()
    add(log, *(record(step=i) for i in range(5)))
    add(log, record(step=5))
    assert [line["step"] for line in read_run(tmp_path)] == list(range(6))
    assert log.status == {"flushed": 6, "dropped": 0, "failed": 0, "bytes": segments(tmp_path)[0].stat().st_size}
    assert told == []


def test_two_writers_share_a_folder(make_log, tmp_path):
    """As two processes do: files of their own, read in the order of time."""
    now = iter(range(1_000_000_000, 2_000_000_000)).__next__
    (one, _), (two, _) = make_log(clock=now), make_log(clock=now)
    for step in range(6):
        add(two if step % 3 else one, record(step=step))
    assert len(files(tmp_path)) == 2
    assert [line["step"] for line in read_run(tmp_path)] == list(range(6))


def test_each_run_has_a_folder(make_log, tmp_path):
    log, _ = make_log()
    add(log, record("exp 1"), record(None), record("exp2"))
    assert {f.rpartition("/")[0] for f in files(tmp_path)} == {"exp 1", "unnamed", "exp2"}
    assert [line["run"] for line in read_run(tmp_path / "exp2")] == ["exp2"]
    assert [line["run"] for line in read_run(tmp_path)] == ["exp 1", None, "exp2"]


@pytest.mark.parametrize("run", ["../../up", "/etc/x", "..", ".", "", "a/b\0c", "é" * 300, "x" * 256, "\x1b[2J", " "])
def test_a_run_s_name_stays_inside_the_folder(make_log, tmp_path, run):
    name = folder_of(run)
    assert re.fullmatch(r"(?!\.)[ -.0-~]{1,128}", name)
    log, _ = make_log(tmp_path / "in")
    add(log, record(run))
    assert [line["run"] for line in read_run(tmp_path / "in" / name)] == [run]
    assert [p.name for p in tmp_path.iterdir()] == ["in"]
    assert folder_of("x" * 200 + "a") != folder_of("x" * 200 + "b"), "long names that differ late differ"


def test_off_the_path(make_log, monkeypatch):
    """`add` returns while the disk hangs, and says so in its counts when too much waits."""
    gate, entered = threading.Event(), threading.Event()
    real = os.pwrite

    def hangs(*args):
        entered.set()
        assert gate.wait(30)
        return real(*args)

    monkeypatch.setattr(os, "pwrite", hangs)
    monkeypatch.setattr(module, "WAITING", 4 * record().weight)
    log, told = make_log()
    log.add(record())
    assert entered.wait(30)
    for _ in range(10):
        log.add(record())
    assert log.status["dropped"] == 10 - 4  # one is being written, four wait
    assert [event for event, _ in told] == ["run_log_full"]
    gate.set()
    assert log.flush()
    assert log.status["flushed"] == 5
    add(log, record())
    assert log.status["flushed"] == 6


def test_a_request_larger_than_the_queue_is_logged(make_log, monkeypatch):
    monkeypatch.setattr(module, "WAITING", 1)
    log, told = make_log()
    add(log, record())
    assert (log.status["flushed"], told) == (1, [])


def test_a_full_disk(make_log, tmp_path, monkeypatch):
    """Half of a member is on the disk when it is full: it is taken back, and what comes later can be read."""
    log, told = make_log()
    add(log, record(step=0))
    real, calls = os.pwrite, []

    def torn(fd, data, at):
        calls.append(at)
        if len(calls) % 2:
            return real(fd, bytes(data[:9]), at)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", torn)
        add(log, record(step=1))
        add(log, record(step=2))
    add(log, record(step=3))
    assert [line["step"] for line in read_run(tmp_path)] == [0, 3]
    assert log.status["failed"] == 2
    assert told == [("run_log_failed", "groups are missing in the run log: No space left on device")]


def test_a_record_that_cannot_be_made_or_encoded(make_log, tmp_path):
    log, told = make_log(encode=lambda line: 1 / 0)
    log.add_made(lambda: 1 / 0, 3)
    add(log, record())
    assert (log.status["failed"], len(told), files(tmp_path)) == (4, 1, [])


def test_a_bug_of_the_writer_does_not_end_it(make_log, monkeypatch):
    log, told = make_log()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", lambda *_: 1 / 0)
        add(log, record())
    add(log, record())
    assert (log.status["failed"], log.status["flushed"], len(told)) == (1, 1, 1)


def test_the_oldest_of_its_own_segments_go(make_log, tmp_path, monkeypatch):
    log, _ = make_log(max_bytes=32 << 10)
    (tmp_path / "r").mkdir()
    others = [tmp_path / "r" / name for name in ("20200101T000000000Z-1-00000000-000000.jsonl.gz", "notes.txt")]
    for file in others:
        file.write_bytes(b"another's")
    most = 0
    for step in range(120):
        add(log, record(step=step, seconds=step / 7))
        most = max(most, log.status["bytes"])
    assert most <= 32 << 10
    assert {file.read_bytes() for file in others} == {b"another's"}
    others[0].unlink()
    kept = [line["step"] for line in read_run(tmp_path)]
    assert 0 < len(kept) < 120
    assert kept == list(range(120 - len(kept), 120))


def test_small_files_count_as_blocks(make_log, tmp_path):
    """A million runs of one group do not make a million files."""
    log, _ = make_log(max_bytes=10 * module.BLOCK)
    for i in range(30):
        add(log, record(f"r{i}"))
    assert len(files(tmp_path)) == 10
    assert len(list(tmp_path.iterdir())) == 10


def test_files_and_folders_are_the_user_s_alone(make_log, tmp_path):
    """Whatever the umask lets through: rollouts are read in them."""
    before = os.umask(0)
    try:
        (tmp_path / "mine").mkdir(mode=0o755)
        log, _ = make_log(tmp_path / "mine" / "new")
        add(log, record())
    finally:
        os.umask(before)
    (file,) = segments(tmp_path)
    modes = [p.stat().st_mode & 0o777 for p in (file, file.parent, file.parent.parent, tmp_path / "mine")]
    assert modes == [0o600, 0o700, 0o700, 0o755]


def test_a_folder_that_another_process_deletes_meanwhile_is_made_again(make_log, tmp_path, monkeypatch):
    """It finds the folder empty, just before this one's file is there."""
    real, made = os.open, []

    def late(path, *args):
        if str(path).endswith(".gz") and len(made) < 3:
            made.append(path)
            Path(path).parent.rmdir()
        return real(path, *args)

    monkeypatch.setattr(os, "open", late)
    log, told = make_log()
    add(log, record(step=4))
    assert [line["step"] for line in read_run(tmp_path)] == [4]
    assert len(made) == 3
    assert told == []


def test_many_runs_hold_no_file_open(make_log, tmp_path):
    log, _ = make_log()
    before = len(list(OPEN_FILES.iterdir()))
    for step in range(4):
        add(log, *(record(f"r{i}", step=step) for i in range(20)))
        assert len(list(OPEN_FILES.iterdir())) <= before
        assert len(segments(tmp_path)) == 20
    assert log.status["flushed"] == 80
    assert len(list(read_run(tmp_path))) == 80
    gone = segments(tmp_path)[0]
    gone.unlink()
    add(log, *(record(f"r{i}", step=4) for i in range(20)))
    assert len(segments(tmp_path)) == 20
    assert not gone.exists()
    assert len(list(read_run(tmp_path))) == 96


def test_a_run_that_is_deleted_while_it_is_written_begins_anew(make_log, tmp_path):
    log, _ = make_log()
    add(log, record(step=0))
    for file in segments(tmp_path):
        file.unlink()
    (tmp_path / "r").rmdir()
    add(log, record(step=1))
    assert [line["step"] for line in read_run(tmp_path)] == [1]


def test_a_forked_child_writes_files_of_its_own(make_log, tmp_path, monkeypatch):
    log, _ = make_log()
    add(log, record(step=0))
    parent = log._thread
    real = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: real + 1)
    add(log, record(step=1))
    assert log.status["flushed"] == 1  # its own
    assert log._thread is not parent
    processes = {SEGMENT.fullmatch(f.name)["process"] for f in segments(tmp_path)}
    assert len(processes) == 2
    assert [line["step"] for line in read_run(tmp_path)] == [0, 1]
    log.close()
    monkeypatch.undo()


def test_closing_writes_what_waits(make_log, tmp_path):
    log, _ = make_log()
    for step in range(20):
        log.add(record(step=step))
    log.close()
    assert len(list(read_run(tmp_path))) == 20
    log.add(record())
    assert log.status["dropped"] == 1


def test_without_a_record_there_is_no_thread_and_no_folder(make_log, tmp_path):
    before = threading.active_count()
    make_log(tmp_path / "runs")[0].close()
    assert (threading.active_count(), (tmp_path / "runs").exists()) == (before, False)


def test_clients_with_a_run_log_are_picklable(tmp_path):
    copy = pickle.loads(pickle.dumps(dare_reward.Client(run_log=tmp_path, run_log_texts="texts")))
    assert (copy._run_log, copy._logged) == (tmp_path, {"texts"})


@pytest.mark.parametrize("after", [1, 40])
def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path, after):
    acknowledged = kill_at(tmp_path, groups=after)
    found = [line["step"] for line in read_run(tmp_path)]
    assert acknowledged >= after
    assert len(found) >= acknowledged
    assert found == list(range(len(found)))


def test_neither_a_name_nor_a_thread_that_cannot_start_ends_anything(make_log, tmp_path, monkeypatch):
    log, told = make_log()
    add(log, record("a\udcff"), record("b"))
    assert log.status["flushed"] == 2
    fresh, told = make_log(tmp_path / "other")

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    fresh.add_made(record, 1)
    assert fresh.status["failed"] == 1
    assert "can't start" in told[0][1]
