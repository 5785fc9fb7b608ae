"""A run log that somebody else wrote or edited: a line that cannot be used costs itself alone, and is counted."""

import gzip
import json
import zlib

import pytest

from dare_reward.cli import main
from dare_reward.runs import read_run, reader
from dare_reward.runs.line import LINE
from dare_reward.runs.shape import KINDS, fault

LINE_OK = {
    "v": 1,
    "time": "2026-01-01T00:00:00.000Z",
    "run": "</script><b>",
    "step": 1,
    "kind": "math",
    "group_id": "<i>",
    "method": "ttrl",
    "config_id": "x",
    "rewards": [1.0, 0.0],
    "keep": [True, True],
    "valid": [True, True],
    "answers": ["1", "2"],
    "trained": [True, True],
    "pseudo_label": "1",
    "support": [
        {"answer": "1", "key": "exact", "count": 1, "p_hat": 0.5, "p": 0.5, "reward": 1.0, "kept": True},
        {"answer": "2", "key": "exact", "count": 1, "p_hat": 0.5, "p": 0.5, "reward": 0.0, "kept": True},
    ],
    "flags": [],
    "diagnostics": {"majority_ratio": 0.5, "answered": 2, "shadow": {"dare": {"flipped": 0.0}}},
    "error": None,
}
UNFIT = [
    *({"step": x} for x in (10**30, "x", 1.5, True)),
    *({"rewards": x} for x in ("abc", [float("nan"), 1.0], [10**400, 1], [1.0])),
    *({"answers": x} for x in ([1, {}], ["1"], "12", ["1", "2", "3"])),
    *({"support": x} for x in (7, [7], [{"answer": 1, "count": 1}], [{"answer": "1"}])),
    *({"diagnostics": x} for x in ([], {"majority_ratio": []}, {"shadow": 7}, {"shadow": {"m": 7}})),
    *({name: x} for name in ("time", "run", "method", "group_id", "pseudo_label", "kind") for x in (5, {}, ["a"])),
    *({"error": x} for x in ("x", {"code": 1}, {"code": "a"})),
    *({"valid": x} for x in (5, [True] * 3, [1, 0])),
    *({"mean_entropies": x} for x in (["a", None], [1e400, 0.1])),
    *({"num_tokens": x} for x in ([1, 10**400], [1, 2**63], [1.5, 2])),
    *({"correct": x} for x in ([5, "x"],)),
    *({"texts": x} for x in ([1, None],)),
    *({"token_entropies": x} for x in ([[1e400], ["x"]], [1.0, 2.0])),
    *({"inputs": x} for x in ([], {"confidence": 7}, {"confidence": ["x"]})),
    *({"flags": x} for x in (5, [5])),
]
FIT = [
    {},
    {"rewards": None},
    {"answers": [None, "2"]},
    {"diagnostics": None},
    {"diagnostics": {"majority_ratio": 1, "no_answer": {"cut_off": 1}}},
    {"label": {"a": 1}},
    {"num_tokens": [0, None]},
    {"error": {"code": "a", "message": "b"}},
    {"inputs": {"confidence": [None, 1.5]}},
    {"token_entropies": [None, [0.1]]},
    {"unknown": object},
]
COMMANDS = [
    ["report", "-o", "r.html", "--force"],
    ["calibrate"],
    ["explain"],
    ["score", "--method", "ttrl"],
]


def write(path, *lines):
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("change", UNFIT, ids=lambda c: json.dumps(c)[:40])
def test_a_value_of_another_type_is_named(change):
    (name,) = change
    assert fault(LINE_OK | change).startswith(name) or name in {"valid", "rewards", "answers"}
    assert fault(LINE_OK | change)


@pytest.mark.parametrize("change", FIT, ids=str)
def test_what_a_service_may_write_is_fit(change):
    assert fault(LINE_OK | change) == ""
    assert fault({"v": 1}) == ""


def test_every_key_is_checked_as_declared():
    assert {f.holds for f in LINE} == set(KINDS)


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz"])
def test_an_unfit_line_costs_itself_and_no_command_a_traceback(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    unfit = [LINE_OK | change for change in UNFIT]
    file = write(tmp_path / name, LINE_OK, *unfit, "7", LINE_OK | {"step": 2})
    for command, *rest in COMMANDS:
        assert main([command, str(file), *rest]) in {0, 1, 2}, command
        said = capsys.readouterr().err
        assert "Traceback" not in said
        if command in {"report", "plot"}:
            assert f"skipped {len(unfit) + name.endswith('gz')} lines" in said, command
    told = []
    if name.endswith("gz"):
        assert [line["step"] for line in read_run(file, tell=told.append)] == [1, 2]
        assert len(told) == 1


def bomb(path, *pieces):
    packer = zlib.compressobj(1, wbits=31)
    with path.open("wb") as file:
        for piece, times in pieces:
            for _ in range(times):
                file.write(packer.compress(piece))
        file.write(packer.flush())
    return path


@pytest.mark.parametrize(
    "pieces",
    [[(b"\n" * (1 << 18), 8)], [(b'{"rollouts":[{"answer":"', 1), (b"a" * (1 << 24), 8)]],
    ids=["line breaks", "one line"],
)
def test_a_file_that_unpacks_to_a_thousand_times_its_size_is_refused(pieces, tmp_path, monkeypatch, capsys):
    """Their rest is never read."""
    monkeypatch.setattr("dare_reward.files.content.SPARE", 1 << 16)
    file = bomb(tmp_path / "bomb.jsonl.gz", *pieces)
    for command, *rest in (["score", "--method", "ttrl"], ["report", "-o", str(tmp_path / "r.html")]):
        assert main([command, str(file), *rest]) == 2
        assert "unpacks to more than 200 times" in capsys.readouterr().err
    told = []
    assert list(read_run(file, tell=told.append)) == []
    assert "unpacks to more than 200 times" in told[0]


def test_a_line_that_is_too_long_is_refused_and_in_a_run_log_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("dare_reward.files.content.LONGEST", 1000)
    monkeypatch.setattr(reader, "LONGEST", 1000)
    monkeypatch.setattr(reader, "UNPACKED", 64)
    long = LINE_OK | {"step": 7, "label": "x" * 1000}
    plain = write(tmp_path / "rows.jsonl", {"rollouts": [{"answer": "1"}]}, {"rollouts": [{"answer": "2" * 1000}]})
    assert main(["score", str(plain), "--method", "ttrl"]) == 2
    assert "line 2 is longer" in capsys.readouterr().err
    told = []
    log = write(tmp_path / "log.jsonl.gz", LINE_OK | {"support": None}, long, LINE_OK | {"step": 2, "support": None})
    assert [line["step"] for line in read_run(log, tell=told.append)] == [1, 2]
    assert "longer than" in told[0]
