"""No command destroys a file: what is there stays unless the user says so, and nothing is ever half written."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest

from dare_reward import estimate
from dare_reward.cli import main
from dare_reward.errors import RequestError
from dare_reward.files.output import text_file, whole_file, write_files
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

GOOD = {"group_id": "g", "rollouts": [{"answer": "1", "mean_entropy": 0.2}, {"answer": "2", "mean_entropy": 0.4}]}


@pytest.fixture
def rollouts(tmp_path):
    file = tmp_path / "rollouts.jsonl"
    file.write_text(json.dumps(GOOD) + "\n")
    return file


@contextmanager
def standard_input(path):
    """The file is the standard input of this process: the descriptor 0, and what Python calls so."""
    kept = os.dup(0)
    with path.open("rb") as file:
        os.dup2(file.fileno(), 0)
    try:
        with open(0, closefd=False) as stdin, pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", stdin)
            yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize(
    ("words", "source"),
    [
        ("score - --out rollouts.jsonl", "rollouts.jsonl"),
        ("score - --out /dev/stdin", "rollouts.jsonl"),
        ("score /dev/stdin --out rollouts.jsonl", "rollouts.jsonl"),
        ("score /proc/self/fd/0 --out rollouts.jsonl", "rollouts.jsonl"),
        ("score - --labels labels.jsonl --out labels.jsonl", "rollouts.jsonl"),
        ("score rollouts.jsonl --labels - --out labels.jsonl", "labels.jsonl"),
        ("score rollouts.jsonl --labels /dev/stdin --out labels.jsonl", "labels.jsonl"),
        ("report rollouts.jsonl --labels - --out labels.jsonl", "labels.jsonl"),
    ],
)
def test_a_command_never_writes_over_the_file_that_standard_input_is(rollouts, words, source, capsys, monkeypatch):
    monkeypatch.chdir(rollouts.parent)
    labels = rollouts.with_name("labels.jsonl")
    labels.write_text(json.dumps({"group_id": "g", "label": "1"}) + "\n")
    before = {file: file.read_bytes() for file in (rollouts, labels)}
    with standard_input(rollouts.with_name(source)):
        assert main([*words.split(), "--force"]) == 2
    assert "is a file that this command reads" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before


def test_nor_does_it_read_the_file_that_its_output_is_appended_to(rollouts):
    before = rollouts.read_bytes()
    with rollouts.open("ab") as out:
        command = [sys.executable, "-m", "dare_reward", "score", str(rollouts)]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, "where standard output goes" in done.stderr) == (2, True)
    assert rollouts.read_bytes() == before


def test_nor_a_segment_of_the_run_log_that_it_reads(tmp_path, ran):
    folder = tmp_path / "log"
    log = RunLog(folder, warn=lambda *_: None)
    log.add(of_groups([GOOD], estimate([GOOD]).groups, run="r", step=0))
    log.close()
    segment = next(folder.rglob("*.jsonl.gz"))
    before, link = segment.read_bytes(), tmp_path / "link"
    os.link(segment, link)
    for run, out in product((folder, segment), (segment, link)):
        assert "is a file that this command reads" in ran(["report", str(run), "--out", str(out), "--force"], 2).err
        assert segment.read_bytes() == before


def test_an_existing_file_needs_force_and_stays_where_a_command_ends_without_a_result(rollouts, tmp_path, ran):
    out, bad = tmp_path / "mine.txt", tmp_path / "bad.jsonl"
    out.write_text("years of work")
    bad.write_text("{\n")
    for file, force, words in ((rollouts, [], "add --force"), (bad, ["--force"], "was not written")):
        assert words in ran(["score", str(file), "--out", str(out), *force], 2).err
        assert out.read_text() == "years of work"
        assert not list(tmp_path.glob(".*"))
    assert main(["score", str(rollouts), "--out", str(out), "--force"]) == 0
    assert json.loads(out.read_text())["group_id"] == "g"


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_old_file(tmp_path, sign, code):
    """A reader that has written a part of its output and waits for more input is interrupted."""
    out = tmp_path / "out.jsonl"
    out.write_text("old")
    # A shell starts what runs in its background with the signal ignored, and Python then leaves it so.
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    script = f"{heed}; import sys; from dare_reward.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "score", "-", "--out", str(out), "--force"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for i in range(200):
            process.stdin.write(json.dumps({**GOOD, "group_id": str(i)}).encode() + b"\n")
        process.stdin.flush()
        while not list(tmp_path.glob(".out.*.part.jsonl")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(sign)
        process.stdin.close()
        assert process.wait() == code
        assert b"Traceback" not in process.stderr.read()
    assert out.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.jsonl"]


def test_who_handles_the_signal_himself_keeps_his_handler(tmp_path, monkeypatch):
    handler = signal.getsignal(signal.SIGTERM)
    with whole_file(tmp_path / "t") as part:
        assert signal.getsignal(signal.SIGTERM) is not handler
        part.write_text("new")
    assert signal.getsignal(signal.SIGTERM) is handler
    monkeypatch.setattr(signal, "getsignal", lambda number: print)
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("another's handler was replaced"))
    with whole_file(tmp_path / "u") as part:
        part.write_text("new")


@pytest.mark.parametrize("out", ["nowhere/x.jsonl", "."])
def test_a_place_that_cannot_be_written_is_one_sentence(rollouts, tmp_path, ran, out):
    out, err = ran(["score", str(rollouts), "--out", str(tmp_path / out)], 2)
    assert (out, len(err.splitlines())) == ("", 1)


def test_a_device_is_written_to_as_it_is(rollouts):
    assert main(["score", str(rollouts), "--out", os.devnull]) == 0
    assert Path(os.devnull).is_char_device()


def test_an_error_of_the_system_is_one_sentence(rollouts, ran, monkeypatch):
    def fail(*_):
        raise PermissionError(13, "Permission denied", "/somewhere/x")

    monkeypatch.setattr("dare_reward.commands.score.read_groups", fail)
    assert ran(["score", str(rollouts)], 2).err == "dare-reward score: /somewhere/x: Permission denied\n"


def test_the_mode_of_a_replaced_file_and_the_target_of_a_link_stay(tmp_path):
    target, link = tmp_path / "t", tmp_path / "l"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    with text_file(link, force=True) as file:
        file.write("new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    target = tmp_path / "t"

    def race():
        with whole_file(target) as part:
            part.write_text("ours")
            target.write_text("theirs")

    with pytest.raises(RequestError, match="exists"):
        race()
    assert target.read_text() == "theirs"
    assert list(tmp_path.iterdir()) == [target]


def test_several_files_are_written_all_or_none(tmp_path):
    one, two = tmp_path / "1", tmp_path / "2"
    two.write_text("mine")
    with pytest.raises(RequestError, match="--force"):
        write_files({one: "a", two: "b"})
    assert not one.exists()
    write_files({one: "a", two: "mine"})  # what is the same already is no loss
    assert (one.read_text(), two.read_text()) == ("a", "mine")


def test_a_folder_that_may_not_be_written_is_named_by_the_users_path(tmp_path, monkeypatch):
    def refused(self, *_, **__):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refused)
    out = str(tmp_path / "out.jsonl")
    with pytest.raises(PermissionError) as caught, text_file(out):
        pass
    assert caught.value.filename == out
