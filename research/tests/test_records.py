"""Records of runs: appended as they end, packed without loss, the last of each key."""

import json
import subprocess

import pytest

from dare_research.records import append, pack, read, records
from dare_reward.cli import main


def run(arm, value, **more):
    return {"form": "bare", "size": 8, "arm": arm, "seed": 0, "value": value, **more}


def test_what_is_appended_is_packed_and_a_repeated_run_counts_once(tmp_path):
    append("e", [run("ttrl", 1), {"id": "x", "value": 1}], tmp_path)
    assert pack("e", tmp_path)[0] == tmp_path / "e.jsonl.xz"
    assert not (tmp_path / "e.jsonl").exists()
    append("e", [run("ttrl", 2), run("dare", 3)], tmp_path)
    assert [r["value"] for r in records("e", tmp_path)] == [2, 1, 3]
    pack("e", tmp_path)
    assert [r["value"] for r in records("e", tmp_path)] == [2, 1, 3]
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], check=True, cwd=tmp_path)


def test_a_line_that_was_cut_off_is_left_out_and_the_next_one_is_whole(tmp_path):
    append("e", [run("ttrl", 1)], tmp_path)
    with (tmp_path / "e.jsonl").open("a") as file:
        file.write('{"form": "bare", "si')
    append("e", [run("dare", 2)], tmp_path)
    assert [r["value"] for r in records("e", tmp_path)] == [1, 2]


def test_the_same_records_leave_the_packed_file_as_it_is(tmp_path):
    append("e", [run("ttrl", 1)], tmp_path)
    packed, _ = pack("e", tmp_path)
    before = packed.stat().st_mtime_ns
    pack("e", tmp_path)
    assert packed.stat().st_mtime_ns == before


def test_the_command_adds_all_records_of_its_files_or_none(tmp_path, capsys):
    one, lines, bad = tmp_path / "a.json", tmp_path / "b.jsonl", tmp_path / "c.json"
    one.write_text(json.dumps(run("ttrl", 1)))
    lines.write_text("".join(json.dumps(run(a, 2)) + "\n" for a in ("dare", "ppc")))
    bad.write_text('{"arm": "ttrl"}')
    results = tmp_path / "results"
    assert main(["study", "append", "e", str(one), str(bad), "--results", str(results)]) != 0
    assert "nothing was added" in capsys.readouterr().err
    assert records("e", results) == []
    bad.rename(tmp_path / "before-bare.json")  # train.py keeps it beside its records
    assert main(["study", "append", "e", str(tmp_path), str(lines), "--results", str(results)]) == 0
    assert main(["study", "pack", "e", "--results", str(results)]) == 0
    assert len(read(results / "e.jsonl.xz").splitlines()) == 3


def test_a_record_without_a_key_is_refused(tmp_path):
    with pytest.raises(KeyError):
        append("e", [{"value": 1}], tmp_path)
    assert records("e", tmp_path) == []
