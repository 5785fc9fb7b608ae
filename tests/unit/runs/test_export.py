"""`dare-reward export` into the released trackers, offline, read back from their own files (where they are installed)."""

import json
import os
import struct
import subprocess
import sys

import pytest

import dare_reward
from dare_reward.cli import main
from dare_reward.runs.line import asked_for, of_groups
from dare_reward.runs.log import RunLog

EVIL = "<img src=x onerror=alert(1)> ![](http://evil/x.png) \x1b[2J"
CODE = "import sys; from dare_reward.cli import main; sys.exit(main())"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of three steps, whose rollouts attack."""
    folder = tmp_path_factory.mktemp("runs")
    log = RunLog(folder)
    for step in range(3):
        rows = [{"text": f"{EVIL} \\boxed{{{i % 3}}}", "mean_entropy": 0.1 * i, "num_tokens": 5} for i in range(6)]
        evil = {
            "group_id": "e",
            "prompt": EVIL,
            "kind": "exact",
            "rollouts": [{"answer": f"=1+{EVIL}", "mean_entropy": 0.1}],
        }
        groups = [{"group_id": "a", "label": "1", "rollouts": rows}, evil]
        log.add(of_groups(groups, dare_reward.estimate(groups), asked=asked_for("all"), run="exp1", step=step))
    log.close()
    return folder / "exp1"


def exported(run, to, folder, **environment):
    """The tracker's folder after the export."""
    env = {**os.environ, "HOME": str(folder), "HF_HUB_OFFLINE": "1", **environment}
    command = [sys.executable, "-c", CODE, "export", str(run), "--to", to, "--project", "p"]
    found = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stderr.splitlines()[-1] == f"sent 6 groups of 3 steps to {to}, project p, run exp1"
    return folder


def check_rows(rows):
    assert {row["group_id"] for row in rows} == {"a", "e"}
    evil = next(row for row in rows if row["group_id"] == "e")
    assert evil["pseudo_label"].startswith("'=1+&lt;img")
    assert "\x1b" not in json.dumps(rows)
    assert "<img" not in json.dumps(rows)
    assert "](http" not in json.dumps(rows)


def trackio_logs(folder):
    """The logs and traces of the run exp1 of the project p."""
    code = (
        "import json; from trackio.sqlite_storage import SQLiteStorage as S\n"
        "print(json.dumps([S.get_logs('p', 'exp1'), S.get_traces('p', 'exp1')], default=str))"
    )
    env = {**os.environ, "TRACKIO_DIR": str(folder)}
    told = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return json.loads(told.stdout.splitlines()[-1])


def test_trackio(run, tmp_path):
    exported(run, "trackio", tmp_path, TRACKIO_DIR=str(tmp_path / "trackio"))
    logs, traces = trackio_logs(tmp_path / "trackio")
    assert [row["step"] for row in logs] == [0, 1, 2]
    for row in logs:
        assert row["dare/label_accuracy"] in {0.0, 1.0}
        assert row["dare/invalid"] == 0
        check_rows(row["dare/table"]["_value"])
    assert len(traces) == 3 * 7
    assert "<img" not in json.dumps(traces)
    assert "\\boxed" in json.dumps(traces)


def test_tensorboard(run, tmp_path):
    exported(run, "tensorboard", tmp_path)
    code = (
        "import json, sys; from tensorboard.backend.event_processing.event_accumulator import EventAccumulator as E\n"
        "e = E(sys.argv[1]); e.Reload(); tags = e.Tags()\n"
        "texts = [x.tensor_proto.string_val[0].decode() for x in e.Tensors('dare/table/text_summary')]\n"
        "print(json.dumps([{t: [s.step for s in e.Scalars(t)] for t in tags['scalars']}, texts]))"
    )
    place = str(tmp_path / "tensorboard_log" / "p" / "exp1")
    told = subprocess.run([sys.executable, "-c", code, place], capture_output=True, text=True, check=True)
    scalars, texts = json.loads(told.stdout.splitlines()[-1])
    assert scalars["dare/label_accuracy"] == scalars["dare/frac_reward_zero_std"] == [0, 1, 2]
    assert len(texts) == 3
    assert texts[0].startswith("group_id | pseudo_label")
    assert "<img" not in texts[0]


def records(file):
    """The records of W&B's own file: LevelDB's log format behind a header of seven bytes."""
    data, at, part = file.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        part += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in {1, 4}:
            yield part
            part = b""


def wandb_history(place):
    """What the one offline run below `place` logged, and its tables' rows."""
    (folder,) = (place / "wandb").glob("offline-run-*")
    from wandb.proto.wandb_internal_pb2 import Record

    history = []
    for data in records(next(folder.glob("*.wandb"))):
        record = Record()
        record.ParseFromString(data)
        if record.WhichOneof("record_type") == "history":
            items = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
            history.append(items)
    tables = [json.loads((folder / "files" / row["dare/table/path"]).read_text()) for row in history]
    return history, [[dict(zip(table["columns"], values)) for values in table["data"]] for table in tables]


def test_wandb(run, tmp_path):
    exported(run, "wandb", tmp_path, WANDB_MODE="offline", WANDB_DIR=str(tmp_path), WANDB_SILENT="true")
    history, tables = wandb_history(tmp_path)
    assert [row["_step"] for row in history] == [0, 1, 2]
    for row, rows in zip(history, tables, strict=True):
        assert row["dare/invalid"] == 0
        check_rows(rows)


LIVE = """
import importlib, json, os, sys
import dare_reward
from dare_reward.stacks.report import log_groups
tracker, groups = importlib.import_module(sys.argv[1]), json.loads(sys.argv[2])
tracker.init(project="p", name="exp1", **({"embed": False} if sys.argv[1] == "trackio" else {}))
for step in range(2):
    tracker.log({"loss": 0.5}, step=step)
    log_groups(dare_reward.estimate(groups), groups, step)
tracker.finish()
"""


@pytest.mark.parametrize("tracker", ["wandb", "trackio"])
def test_the_table_of_a_training_is_in_its_tracker_s_run(tracker, tmp_path):
    """As the adapter of verl logs it: into the run that the trainer has opened."""
    rollouts = [{"answer": f"=1+{EVIL}", "mean_entropy": 0.1}]
    groups = [{"group_id": name, "kind": "exact", "prompt": EVIL, "rollouts": rollouts} for name in "ae"]
    trackio = tmp_path / "trackio"
    offline = {"WANDB_MODE": "offline", "WANDB_DIR": str(tmp_path), "TRACKIO_DIR": str(trackio), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", LIVE, tracker, json.dumps(groups)]
    env = {**os.environ, "HOME": str(tmp_path), **offline}
    subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
    if tracker == "wandb":
        history, tables = wandb_history(tmp_path)
        assert [row["_step"] for row in history] == [0, 1]
    else:
        tables = [row["dare/table"]["_value"] for row in trackio_logs(trackio)[0] if "dare/table" in row]
    assert len(tables) == 2
    for rows in tables:
        check_rows(rows)


def test_several_runs_are_not_mixed(run, tmp_path, capsys):
    log = RunLog(tmp_path)
    for name in ("one", "two"):
        groups = [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}]
        log.add(of_groups(groups, dare_reward.estimate(groups), run=name))
    log.close()
    assert main(["export", str(tmp_path), "--to", "trackio"]) == 2
    assert "holds 2 runs; name the folder of one: one, two" in capsys.readouterr().err


def test_a_tracker_that_is_not_installed_is_named(run, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["export", str(run), "--to", "wandb"]) == 2
    assert "pip install wandb" in capsys.readouterr().err
