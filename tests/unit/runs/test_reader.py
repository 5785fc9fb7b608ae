"""Reading a run log, whatever state its files are in: nothing that is lost is lost without a word."""

import gzip
import json
import os
import random

import pytest
from growth import calls
from lines import as_line

from dare_reward.errors import RequestError
from dare_reward.files.reader import Reader
from dare_reward.ledger import Ledger
from dare_reward.runs import read_run
from dare_reward.runs.reader import Follower, member

NAME = "20260101T000000000Z-{}-0000000{}-{:06d}.jsonl.gz"


def text(step, **more):
    line = as_line(step=step, time=f"2026-01-01T00:00:{step:02d}.000Z", answers=["1"], valid=[True])
    return json.dumps({**line, **more}).encode()


def of(*steps, **more):
    """A member with these steps."""
    return member([text(step, **more) for step in steps], 1)


def write(folder, *members, process=1, number=0):
    folder.mkdir(exist_ok=True)
    file = folder / NAME.format(process, process, number)
    file.write_bytes(b"".join(members))
    return file


def steps(path, ledger=None):
    return [line["step"] for line in read_run(path, ledger)]


def test_a_torn_end(tmp_path):
    """Wherever the last member ends, all lines of the whole ones are there, nothing that was not written, and a word."""
    whole, torn = of(1, 2), of(3, 4, 5)
    for cut in range(len(torn)):
        ledger = Ledger()
        assert steps(write(tmp_path, whole, torn[:cut]), ledger) == [1, 2]
        assert ledger["read"] == 2
        assert (ledger["unreadable"] > 0) == (cut > 0)
        assert ledger.exit_code == int(cut > 0)


@pytest.mark.parametrize("what", ["bit", "zeros", "hole"])
def test_damage_costs_one_member_and_is_counted(tmp_path, what):
    """Wherever it is: every other line is read, no line is read wrong, and no loss is silent."""
    rng = random.Random(0)
    members = [of(*range(4 * i, 4 * i + 4), note="x" * 50) for i in range(10)]
    whole = b"".join(members)
    expected = {line["step"]: line for line in read_run(write(tmp_path, whole))}
    for _ in range(200):
        data, at = bytearray(whole), rng.randrange(len(whole))
        if what == "bit":
            data[at] ^= 1 << rng.randrange(8)
        else:
            data[at : at + 20] = b"\0" * 20 if what == "zeros" else b""
        ledger = Ledger()
        found = list(read_run(write(tmp_path, bytes(data)), ledger))
        assert all(line == expected[line["step"]] for line in found)
        lost = 40 - len(found)
        assert lost in {0, 4, 8}
        assert (lost > 0) <= (ledger["unreadable"] > 0)


def test_a_bit_in_what_a_member_holds_costs_exactly_its_lines(tmp_path):
    first, second, third = of(1, 2), of(3, 4, 5), of(6)
    for at in range(len(first) + 20, len(first) + len(second)):
        data = bytearray(first + second + third)
        data[at] ^= 4
        ledger = Ledger()
        assert steps(write(tmp_path, bytes(data)), ledger) == [1, 2, 6]
        assert ledger["unreadable"] == 3
        assert "damaged" in ledger.sentence


def test_what_other_tools_wrote_is_read_too(tmp_path):
    """gzip itself writes no number of lines."""
    members = gzip.compress(text(1) + b"\n" + text(2)), of(3), gzip.compress(text(4))
    assert steps(write(tmp_path, *members)) == [1, 2, 3, 4]
    file = tmp_path / "copy.gz"
    file.write_bytes(of(1, 2))
    assert steps(file) == [1, 2]


def test_segments_of_several_processes_are_merged_by_time(tmp_path):
    write(tmp_path, of(1, 4), of(9), process=1)
    write(tmp_path, of(2, 3), process=2, number=0)
    write(tmp_path, of(8), process=2, number=1)
    write(tmp_path / "other run", of(5, 6), process=2, number=2)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6, 8, 9]


def test_a_process_that_begins_later_is_opened_later(tmp_path):
    """A run that was restarted a thousand times does not hold a thousand files open."""
    for n in range(1, 9):
        name = f"20260101T0000{n:02d}000Z-1-0000000{n}-000000.jsonl.gz"
        (tmp_path / name).write_bytes(of(n))
    lines = read_run(tmp_path)
    assert next(lines)["step"] == 1
    later = tmp_path / "20260101T000008000Z-1-00000008-000000.jsonl.gz"
    later.write_bytes(of(8, 9))
    assert [line["step"] for line in lines] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path, of(1))
    (tmp_path / "notes.jsonl.gz").write_bytes(b"not gzip")
    (tmp_path / "notes.txt").write_text("mine")
    assert steps(tmp_path) == [1]


WRONG = [
    b'{"v": 2, "ste', b"[1]", b'"x"', b"[" * 100_000, b"{}", text(1, v=1), text(1, v=3), text(1, v=None),
    text(1, rollouts=[1]), text(1, rollouts={}), text(1, reply=[]), text(1, reply={"valid": [True, True]}),
    text(1, reply={"rewards": ["a"]}), text(1, reply={"answers": [["a"]]}), text(1, reply={"support": [{"answer": 1}]}),
    text(1, reply={"flags": [1]}), text(1, reply={"flags": True}), text(1, reply={"diagnostics": [1]}), text(1, reply={"diagnostics": {"shadow": [1]}}),
    text(1, reply={"diagnostics": {"no_answer": 1}}),
    text(1, reply={"error": "x"}), text(1, rollouts=[{"mean_entropy": "x"}]), text(1, rollouts=[{"correct": 1}]),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=range(len(WRONG)))
def test_a_line_that_somebody_edited_costs_itself_alone(tmp_path, wrong):
    ledger = Ledger()
    assert steps(write(tmp_path, member([text(1), wrong, text(2)], 1)), ledger) == [1, 2]
    assert (ledger["read"], ledger.lost) == (2, 1)
    assert str(tmp_path) in ledger.sentence


def test_nothing_to_read(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RequestError, match="no run log"):
            list(read_run(place))


def test_the_reader_of_files_reads_a_run_log(tmp_path):
    """Its groups, and at the end what could not be read of it."""
    write(tmp_path, of(1, 2), of(3, 4)[:-3])
    reader = Reader(str(tmp_path))
    *groups, _, error = [group for _, group in reader]
    assert [group["meta"]["step"] for group in groups] == [1, 2]
    assert [group["rollouts"] for group in groups] == [[{"answer": "1"}]] * 2
    assert str(tmp_path) in str(error)
    assert reader.ledger.as_json() == {"read": 2, "merged": 0, "dropped": 0, "refused": 0, "unreadable": 2}


def new(follower):
    return [line["step"] for line in follower.new()]


def test_a_log_that_grows_is_read_once(tmp_path):
    follower = Follower(tmp_path / "runs", 1 << 20)
    assert new(follower) == []
    file = write(tmp_path / "runs", of(1))
    assert new(follower) == [1]
    assert new(follower) == []
    with file.open("ab") as more:
        more.write(of(2, 3) + of(4)[:-9])
    write(tmp_path / "runs", of(5), number=1)
    assert new(follower) == [2, 3, 5]
    assert new(follower) == []
    assert follower.ledger.as_json()["unreadable"] == 0, "somebody may be writing the rest of it"
    with file.open("ab") as more:
        more.write(of(4)[-9:])
    assert new(follower) == [4]


def test_segments_that_go_are_counted_and_what_was_read_stays_read(tmp_path):
    follower = Follower(tmp_path, 1 << 20)
    file = write(tmp_path, of(1, 2))
    assert new(follower) == [1, 2]
    file.unlink()
    write(tmp_path, of(3), number=1)
    assert new(follower) == [3]
    assert (follower.gone, follower.ledger["read"]) == (1, 3)


def test_of_a_long_log_the_newest_segments_are_read_at_first_and_the_others_counted(tmp_path):
    files = [write(tmp_path, of(*range(3 * n, 3 * n + 3)), number=n) for n in range(5)]
    for age, file in enumerate(files):
        os.utime(file, (1e9 + age, 1e9 + age))
    follower = Follower(tmp_path, sum(f.stat().st_size for f in files[-2:]))
    write(tmp_path, of(*range(15, 99)), number=5)  # what comes later is no part of these
    assert new(follower) == [*range(9, 99)]
    assert follower.older == 3
    with files[0].open("ab") as more:
        more.write(of(20))
    assert new(follower) == [20]


def test_reading_what_is_new_costs_what_is_new(tmp_path):
    """A line more costs as many calls after 20 lines as after 2,000."""

    def one_more(count):
        folder = tmp_path / str(count)
        file = write(folder, *(of(*range(20)) for _ in range(count // 20)))
        follower = Follower(folder, 1 << 30)
        assert len(new(follower)) == count
        with file.open("ab") as more:
            more.write(of(1))
        return calls(lambda: list(follower.new()))

    assert one_more(2000) <= one_more(20) + 20
