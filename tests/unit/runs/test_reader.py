"""Reading a run log, whatever state its files are in."""

import gzip
import json

import pytest

from dare_reward.errors import RequestError
from dare_reward.runs import read_run

NAME = "20260101T000000000Z-{}-0000000{}-{:06d}.jsonl.gz"


def member(*steps, v=1, **more):
    rows = [{"v": v, "time": f"2026-01-01T00:00:{s:02d}.000Z", "step": s, **more} for s in steps]
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def write(folder, *members, process=1, number=0):
    folder.mkdir(exist_ok=True)
    file = folder / NAME.format(process, process, number)
    file.write_bytes(b"".join(members))
    return file


def steps(path):
    return [line["step"] for line in read_run(path)]


def test_a_torn_end(tmp_path):
    """Wherever the last member ends, all lines of the whole ones are there, and nothing that was not written."""
    whole, torn = member(1, 2), member(3, 4, 5)
    for cut in range(len(torn)):
        file = write(tmp_path, whole, torn[:cut])
        found = steps(file)
        assert found == [1, 2, 3, 4, 5][: len(found)]
        assert len(found) >= 2


def test_damage_costs_the_rest_of_a_segment_only(tmp_path):
    write(tmp_path, member(1), b"\0" * 20, member(2), number=0)
    write(tmp_path, member(3), number=1)
    assert steps(tmp_path) == [1, 3]


def test_segments_of_several_processes_are_merged_by_time(tmp_path):
    write(tmp_path, member(1, 4), member(9), process=1)
    write(tmp_path, member(2, 3), process=2, number=0)
    write(tmp_path, member(8), process=2, number=1)
    write(tmp_path / "other run", member(5, 6), process=2, number=2)
    assert steps(tmp_path) == [1, 2, 3, 4, 5, 6, 8, 9]


def test_a_process_that_begins_later_is_opened_later(tmp_path):
    """A run that was restarted a thousand times does not hold a thousand files open."""
    for n in range(1, 9):
        name = f"20260101T0000{n:02d}000Z-1-0000000{n}-000000.jsonl.gz"
        (tmp_path / name).write_bytes(member(n))
    lines = read_run(tmp_path)
    assert next(lines)["step"] == 1
    later = tmp_path / "20260101T000008000Z-1-00000008-000000.jsonl.gz"
    later.write_bytes(member(8, 9))
    assert [line["step"] for line in lines] == [2, 3, 4, 5, 6, 7, 8, 9]


def test_other_files_are_left_alone(tmp_path):
    write(tmp_path, member(1))
    (tmp_path / "notes.jsonl.gz").write_bytes(b"not gzip")
    (tmp_path / "notes.txt").write_text("mine")
    assert steps(tmp_path) == [1]


def test_lines_that_are_none_are_skipped(tmp_path):
    odd = gzip.compress(b'{"v": 1, "ste\n[1]\n"x"\n\n' + b"[" * 100_000 + b"\n")
    write(tmp_path, odd, member(2))
    assert steps(tmp_path) == [2]


@pytest.mark.parametrize("version", [2, "1", None])
def test_a_newer_version_is_refused_in_words(tmp_path, version):
    write(tmp_path, member(1), member(2, v=version))
    with pytest.raises(RequestError, match="reads up to 1"):
        steps(tmp_path)


def test_nothing_to_read(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RequestError, match="no run log"):
            list(read_run(place))


def test_a_single_file_is_read_under_any_name(tmp_path):
    file = tmp_path / "copy.gz"
    file.write_bytes(member(1, 2))
    assert steps(file) == [1, 2]
