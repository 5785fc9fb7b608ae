"""The last labelled groups of a run log: their calibration, the exponent in use, and the sentence that compares them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dare_reward
from dare_reward.analysis.calibrate import calibrate
from dare_reward.cli import main
from dare_reward.runs import read_run
from dare_reward.runs.drift import exponent_of, fits, last_window
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import prepare

COMMITTED = Path(__file__).parents[3] / "research" / "results" / "run-confident-0.jsonl.gz"


def group(rng, name, *, gap, right=0.4, size=16):
    """Right rollouts have less entropy by `gap`."""
    rows = []
    for _ in range(size):
        correct = rng.random() < right
        answer = "7" if correct else str(rng.choice(["8", "8", "9"]))
        rows.append({"answer": answer, "mean_entropy": float(0.6 - gap * correct + 0.1 * rng.random())})
    return {"group_id": name, "label": "7", "rollouts": rows}


def log_of(folder, steps, *, method="calibrated_vote", run="r", **params):
    """A run log with the groups of each step, and the groups."""
    log = RunLog(folder)
    for step, groups in enumerate(steps):
        log.add(of_groups(groups, dare_reward.estimate(groups, method=method, **params), run=run, step=step))
    log.close()
    return folder


def drifting(*gaps, prompts=40):
    rng = np.random.default_rng(0)
    return [[group(rng, f"p{i}", gap=gap) for i in range(prompts)] for gap in gaps]


def test_the_window_is_what_calibrate_says_of_the_last_groups(tmp_path):
    steps = drifting(0.3, -0.3)
    window = last_window(read_run(log_of(tmp_path / "log", steps, exponent=4)))
    prepared = prepare(steps[-1])
    alone = calibrate(prepared.groups, correctness(prepared))
    assert (window.steps, window.groups, window.exponents) == ((1,), (41, 80), (4,))
    assert replace(window.found.calibration, statistic=0) == replace(alone, statistic=0)
    assert window.found.calibration.statistic == pytest.approx(alone.statistic, rel=1e-12)


def test_the_command_says_whether_the_exponent_fits_and_ends_with_the_line_to_use(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(0.3, 0.0, -0.3), exponent=4))
    assert main(["calibrate", folder]) == 1
    out = capsys.readouterr().out
    assert out.startswith("In step 2 exponent 4 does not fit: the labels choose -4")
    assert out.splitlines()[-1] == "method=calibrated_vote&exponent=-4"
    assert "nan" not in out
    assert main(["calibrate", folder, "--exponent", "-2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["exponent"], found["fits"], found["steps"]) == (-2, True, [2])
    assert found["calibration"]["exponent"] == -4


@pytest.mark.parametrize(("size", "steps"), [(8, (6, 7, 8, 9)), (20, (8, 9)), (40, (9,))])
def test_the_window_has_as_many_steps_as_hold_enough_groups(tmp_path, size, steps):
    rng = np.random.default_rng(0)
    sent = [[group(rng, f"p{size * i + k}", gap=0.3) for k in range(size)] for i in range(10)]
    window = last_window(read_run(log_of(tmp_path / "log", sent, exponent=4)))
    assert (window.steps, window.found.calibration.prompts) == (steps, len(steps) * size)


def test_a_prompt_counts_once_by_its_last_group(tmp_path):
    """Two steps of the same 20 prompts are 20 prompts; ids that begin anew with another label are others."""
    lines = list(read_run(log_of(tmp_path / "log", drifting(0.3, -0.3, prompts=20), exponent=4)))
    window = last_window(lines)
    assert (window.steps, window.repeated, window.found.calibration.prompts) == ((0, 1), 20, 20)
    assert window.found.calibration.statistic < 0
    rng = np.random.default_rng(0)
    steps = [[{**group(rng, str(k), gap=0.3), "label": f"{i}{k}"} for k in range(8)] for i in range(4)]
    assert last_window(read_run(log_of(tmp_path / "ids", steps, exponent=4))).found.calibration.prompts == 32


def test_groups_without_an_id_are_prompts_of_their_own(tmp_path):
    (groups,) = drifting(0.3)
    bare = [{k: v for k, v in g.items() if k != "group_id"} for g in groups]
    window = last_window(read_run(log_of(tmp_path / "bare", [bare[:20], bare[20:]], exponent=4)))
    assert (window.found.calibration.prompts, window.repeated) == (40, 0)


def test_a_log_without_steps_has_a_window_of_groups(tmp_path):
    log = RunLog(tmp_path / "log")
    for groups in drifting(0.3, -0.3):
        log.add(of_groups(groups, dare_reward.estimate(groups, method="ttrl"), run="r"))
    log.close()
    window = last_window(read_run(tmp_path / "log"))
    assert window.name == "groups 49 to 80"
    assert fits(0.0, window)[0] is False


@pytest.mark.parametrize(
    ("method", "params", "weight", "expected"),
    [
        ("calibrated_vote", {"exponent": -2}, {}, -2),
        ("calibrated_vote", {"exponent": 2, "eps": 0.01}, {"eps": 0.01}, 2),
        ("calibrated_vote", {"exponent": 2, "eps": 0.01}, {}, None),
        ("calibrated_vote", {"exponent": 3}, {}, None),
        ("dare", {}, {}, 1),
        ("dare", {"alpha": 0.5}, {}, None),
        ("dare_sqrt", {}, {}, None),
        ("dare_robust", {}, {}, None),
        ("dare_literal", {}, {}, None),
        ("dare_literal", {}, {"eps": 1e-6}, 1),
        ("ttrl", {}, {}, 0),
        ("empo", {}, {}, None),
    ],
)
def test_the_exponent_in_use_is_that_of_the_log(tmp_path, method, params, weight, expected):
    log_of(tmp_path / "log", drifting(0.3, prompts=2), method=method, **params)
    for line in read_run(tmp_path / "log"):
        assert exponent_of(line, **weight) == expected


def test_nothing_is_compared_without_one_known_exponent(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(-0.3), method="dare", unmarked="number"))
    (groups,) = drifting(0.3)
    own = [{**g, "params": {"exponent": (-2, 2)[i % 2]}} for i, g in enumerate(groups)]
    kinds = str(log_of(tmp_path / "kinds", [own], exponent=0))
    for log, more, known in (
        (folder, [], None),
        (folder, ["-p", "unmarked=number"], 1),
        (folder, ["--exponent", "1"], 1),
        (kinds, [], None),
        (kinds, ["--exponent", "2"], 2),
    ):
        main(["calibrate", log, "--json", *more])
        found = json.loads(capsys.readouterr().out)
        assert (found["exponent"], found["fits"] is None) == (known, known is None), (log, more)
    assert main(["calibrate", folder, "-p", "unmarked=number"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "method=calibrated_vote&exponent=-4&unmarked=number"
    mixed = [{**g, "method": "gt"} if i % 8 == 7 else g for i, g in enumerate(groups)]
    assert last_window(read_run(log_of(tmp_path / "gt", [mixed], exponent=2))).exponents == (2,)


def test_what_fits(tmp_path):
    lines = list(read_run(log_of(tmp_path / "log", drifting(0.3, 0.0, prompts=60), exponent=4)))
    told, flat = (last_window(line for line in lines if line["step"] == step) for step in (0, 1))
    none = replace(flat, found=replace(flat.found, use="vote", why="too small"))
    dark = replace(flat, found=replace(flat.found, use="open", why="too few"))
    best = told.found.calibration.exponent
    assert best > 0 == flat.found.calibration.exponent
    loses = replace(flat.found.calibration.above_vote[-1], low=-0.4, high=-0.1)
    lost = replace(dark.found.calibration, above_vote=(*dark.found.calibration.above_vote[:-1], loses))
    for exponent, window, still in (
        (best, told, True),
        (0.0, told, False),
        (-1.0, told, False),
        (0.0, none, True),
        (1.0, none, False),
        (1.0, dark, None),
        (4.0, replace(dark, found=replace(dark.found, calibration=lost)), False),
    ):
        assert fits(exponent, window)[0] is still, (exponent, window.found.use)


def test_a_run_log_that_cannot_be_calibrated(tmp_path, capsys):
    (groups,) = drifting(0.3, prompts=3)
    log = str(log_of(tmp_path / "log", [groups], exponent=4))
    bare = [{k: v for k, v in g.items() if k != "label"} for g in groups]
    no_label = str(log_of(tmp_path / "bare", [bare], exponent=4))
    votes = [{**g, "rollouts": [{"answer": r["answer"]} for r in g["rollouts"]]} for g in groups]
    no_entropy = str(log_of(tmp_path / "votes", [votes], method="ttrl"))
    for run in ("one", "other"):
        log_of(tmp_path / "both", [groups], run=run, exponent=4)
    plain = tmp_path / "in.jsonl"
    plain.write_text("".join(json.dumps(g) + "\n" for g in groups))
    for words, named in (
        ([no_label], "label"),
        ([no_entropy], "mean_entropy"),
        ([str(tmp_path / "both")], "one and other"),
        ([log, "--entropy", "logprob"], "--entropy"),
        ([log, "--exponent", "nan"], "--exponent"),
        ([str(plain), "--exponent", "2"], "--exponent"),
    ):
        assert main(["calibrate", *words]) == 2
        assert named in capsys.readouterr().err


def test_groups_without_an_entropy_are_counted(tmp_path, capsys):
    (groups,) = drifting(0.3)
    for made in groups[:5]:
        made["rollouts"][0]["mean_entropy"] = None
    folder = log_of(tmp_path / "some", [groups], method="calibrated_vote", exponent=4, missing_entropy="frequency")
    assert main(["calibrate", str(folder), "--json", "--exponent", "4"]) == 0
    found = json.loads(capsys.readouterr().out)["calibration"]
    assert (found["prompts"], found["left_out"]) == (35, 5)


def test_the_committed_log_of_a_run_that_collapses(capsys):
    """One file of a log; in its last steps every prompt is all right or all wrong. An older version wrote it, so its
    exponent is not known from its `config_id`."""
    assert main(["calibrate", str(COMMITTED), "--exponent", "1"]) == 1
    out = capsys.readouterr().out
    assert "cannot tell whether exponent 1 still fits" in " ".join(out.split())
    assert "nan" not in out
