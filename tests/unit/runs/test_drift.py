"""A run log calibrated window by window: the windows, the exponent in use, and the sentence that compares them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dare_reward
from dare_reward._scoring.diagnostics import correctness
from dare_reward._scoring.request import prepare
from dare_reward.analysis.calibrate import calibrate
from dare_reward.cli import main
from dare_reward.runs import read_run
from dare_reward.runs.drift import exponent_of, fits, windows
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

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


def test_a_window_is_what_calibrate_says_of_its_groups(tmp_path):
    steps = drifting(0.3, 0.0, -0.3)
    found = list(windows(read_run(log_of(tmp_path / "log", steps, exponent=4))))
    assert [w.steps for w in found] == [(0,), (1,), (2,)]
    assert [w.exponent for w in found] == [4, 4, 4]
    for window, groups in zip(found, steps, strict=True):
        prepared = prepare(groups)
        alone = calibrate(prepared.groups, correctness(prepared))
        assert replace(window.found.calibration, statistic=0) == replace(alone, statistic=0)
        assert window.found.calibration.statistic == pytest.approx(alone.statistic, rel=1e-12)
    assert found[0].found.calibration.exponent > 0 > found[2].found.calibration.exponent


@pytest.mark.parametrize("command", ["calibrate", "preflight"])
def test_the_command_shows_first_and_last_and_says_what_fits(tmp_path, capsys, command):
    folder = str(log_of(tmp_path / "log", drifting(0.3, 0.0, -0.3), exponent=4))
    assert main([command, folder]) == 1
    out = capsys.readouterr().out
    rows = [line.split()[:2] for line in out.splitlines()]
    assert [["step", str(i)] in rows for i in range(4)] == [True, True, True, False]
    assert "step 0" in next(line for line in out.splitlines() if line.startswith("measure"))
    assert "In step 2 exponent 4 does not fit: the labels choose -4" in out
    assert out.splitlines()[-1] == "method=calibrated_vote&exponent=-4"
    assert "nan" not in out
    assert main([command, folder, "--exponent", "-2"]) == 0
    out = capsys.readouterr().out
    assert "In step 2 exponent -2 still fits: the sign is right, and -4 fits better" in out
    assert "method=" not in out


def test_json_has_every_window(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(*[0.3] * 15, prompts=32), exponent=4))
    assert main(["calibrate", folder]) == 0
    assert "(3 more windows; --json has all)" in capsys.readouterr().out
    assert main(["calibrate", folder, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [w["steps"] for w in found["windows"]] == [[i] for i in range(15)]
    assert (found["exponent"], found["fits"]) == (4, True)
    assert found["windows"][0]["calibration"]["exponent"] == 4


def test_a_window_has_as_many_steps_as_hold_enough_prompts(tmp_path):
    rng = np.random.default_rng(0)
    steps = [[group(rng, f"p{8 * i + k}", gap=0.3) for k in range(8)] for i in range(10)]
    lines = list(read_run(log_of(tmp_path / "log", steps, exponent=4)))
    found = list(windows(lines))
    assert [w.steps for w in found] == [(0, 1, 2, 3), (4, 5, 6, 7, 8, 9)]  # the rest is too small for its own
    assert [w.found.calibration.prompts for w in found] == [32, 48]
    assert [w.steps for w in windows(lines, steps=5)] == [(0, 1, 2, 3, 4), (5, 6, 7, 8, 9)]


def test_a_prompt_counts_once_in_a_window_by_its_last_group(tmp_path):
    """Two steps of the same 20 prompts are 20 prompts."""
    lines = list(read_run(log_of(tmp_path / "log", drifting(0.3, -0.3, prompts=20), exponent=4)))
    (both,) = windows(lines)
    assert both.found.calibration.prompts == 20
    (last,) = windows(line for line in lines if line["step"] == 1)
    assert both.found == last.found
    assert both.found.calibration.exponent < 0


def test_few_prompts_a_step_that_come_again_fill_windows(tmp_path):
    rng = np.random.default_rng(0)
    steps = [[group(rng, f"p{rng.integers(60)}", gap=0.3)] for _ in range(100)]
    found = list(windows(read_run(log_of(tmp_path / "log", steps, exponent=4))))
    assert [w.name for w in found] == ["steps 0 to 31", "steps 32 to 63", "steps 64 to 99"]
    assert all(20 < w.found.calibration.prompts < 32 for w in found)


def test_the_exponent_in_use_is_that_of_the_last_group(tmp_path):
    steps = drifting(0.3, 0.3, prompts=20)
    log_of(tmp_path / "log", [steps[0]], exponent=4)
    log = RunLog(tmp_path / "log")
    changed = steps[1][:4]
    log.add(of_groups(changed, dare_reward.estimate(changed, method="calibrated_vote", exponent=-2), run="r", step=1))
    log.close()
    (found,) = windows(read_run(tmp_path / "log"))
    assert found.exponent == -2


def test_ids_that_begin_anew_are_other_prompts(tmp_path):
    rng = np.random.default_rng(0)
    steps = [[{**group(rng, str(k), gap=0.3), "label": f"{i}{k}"} for k in range(8)] for i in range(4)]
    (found,) = windows(read_run(log_of(tmp_path / "log", steps, exponent=4)))
    assert found.found.calibration.prompts == 32


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


def test_nothing_is_compared_without_a_known_exponent(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(-0.3, -0.3), method="dare", unmarked="number"))
    assert main(["calibrate", folder]) == 1
    out = capsys.readouterr().out
    assert "which exponent was in use, so it compares nothing. Give it with --exponent B" in " ".join(out.split())
    for given in (["-p", "unmarked=number"], ["--exponent", "1"]):
        assert main(["calibrate", folder, *given]) == 1
        assert "In step 1 exponent 1 does not fit: the labels choose -4" in capsys.readouterr().out


def test_the_line_says_how_answers_were_read(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(-0.3), method="dare", unmarked="number"))
    assert main(["calibrate", folder, "-p", "unmarked=number"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "method=calibrated_vote&exponent=-4&unmarked=number"


def test_several_exponents_in_use_are_not_taken_for_one(tmp_path, capsys):
    (groups,) = drifting(0.3)
    own = [{**g, "params": {"exponent": (-2, 2)[i % 2]}} for i, g in enumerate(groups)]
    folder = str(log_of(tmp_path / "kinds", [own], exponent=0))
    assert main(["calibrate", folder]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "Several exponents (-2 and 2) were in use at the end of step 0" in out
    assert "above the vote" not in out
    assert main(["calibrate", folder, "--exponent", "2"]) == 0
    mixed = [{**g, "method": "gt"} if i % 8 == 7 else g for i, g in enumerate(groups)]
    (found,) = windows(read_run(log_of(tmp_path / "gt", [mixed], exponent=2)))
    assert found.exponents == (2,)


def test_groups_without_an_id_are_prompts_of_their_own(tmp_path, capsys):
    (groups,) = drifting(0.3)
    bare = [{k: v for k, v in g.items() if k != "group_id"} for g in groups]
    folder = log_of(tmp_path / "bare", [bare[:20], bare[20:]], exponent=4)
    assert [line["group_id"] for line in read_run(folder)] == [*map(str, range(20))] * 2
    (found,) = windows(read_run(folder))
    assert (found.found.calibration.prompts, found.repeated) == (40, 0)
    assert main(["calibrate", str(log_of(tmp_path / "twice", [groups[:20]] * 2, exponent=4))]) != 2
    assert "20 groups left out: the prompt has a later group in the same window." in capsys.readouterr().out


def test_one_prompt_decides_nothing(tmp_path, capsys):
    rng = np.random.default_rng(0)
    sent = [[{**group(rng, "p", gap=-0.5, right=0.6)}]]
    assert main(["calibrate", str(log_of(tmp_path / "log", sent, method="dare"))]) == 1
    out = capsys.readouterr().out
    assert "cannot tell whether exponent 1 still fits" in out
    assert "method=" not in out


def test_what_fits(tmp_path):
    lines = read_run(log_of(tmp_path / "log", drifting(0.3, 0.0, prompts=60), exponent=4))
    told, flat = windows(lines)
    none = replace(flat, found=replace(flat.found, verdict="vote", reason="too small"))
    dark = replace(flat, found=replace(flat.found, verdict="undecided", reason="too few"))
    best = told.found.calibration.exponent
    assert best > 0 == flat.found.calibration.exponent
    assert fits(best, [told])[0] is True
    assert fits(0.0, [told])[0] is False
    assert fits(-1.0, [told])[0] is False
    assert fits(0.0, [none]) == (True, "In step 1 the vote (exponent 0) still fits: too small.")
    assert fits(1.0, [none])[1] == "In step 1 exponent 1 does not fit: the labels choose the vote (too small)."
    assert fits(1.0, [dark])[0] is None
    assert fits(1.0, [told, dark])[1] == (
        "The labels of step 1 cannot tell whether exponent 1 still fits (too few). The last window that could tell, step 0, "
        f"chose exponent {best:g}."
    )
    loses = replace(flat.found.calibration.above_vote[-1], low=-0.4, high=-0.1)
    lost = replace(dark.found.calibration, above_vote=(*dark.found.calibration.above_vote[:-1], loses))
    still, words = fits(4.0, [replace(dark, found=replace(dark.found, calibration=lost))])
    assert still is False
    assert "fewer right labels than the vote (-40.0 to -10.0 points)" in words


def test_a_log_without_labels_or_of_several_runs_is_named(tmp_path, capsys):
    bare = [[{k: v for k, v in g.items() if k != "label"} for g in step] for step in drifting(0.3, prompts=3)]
    assert main(["calibrate", str(log_of(tmp_path / "bare", bare, exponent=4))]) == 2
    assert "no group of the run log has a label" in capsys.readouterr().err
    for run in ("one", "other"):
        log_of(tmp_path / "both", drifting(0.3, prompts=3), run=run, exponent=4)
    assert main(["calibrate", str(tmp_path / "both")]) == 2
    assert "several runs (one and other)" in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "both" / "one")]) == 1


def test_groups_without_an_entropy_are_counted(tmp_path, capsys):
    steps = drifting(0.3, 0.3)
    for made in steps[0][:5]:
        made["rollouts"][0]["mean_entropy"] = None
    log_of(tmp_path / "some", steps, method="calibrated_vote", exponent=4, missing_entropy="frequency")
    assert main(["calibrate", str(tmp_path / "some"), "--exponent", "4"]) == 0
    out = capsys.readouterr().out
    assert "5 labelled groups left out: an entropy is missing." in out
    assert out.splitlines()[2].split()[:3] == ["step", "0", "35"]
    bare = [[{**g, "rollouts": [{"answer": r["answer"]} for r in g["rollouts"]]} for g in step] for step in steps]
    log_of(tmp_path / "none", bare, method="ttrl")
    assert main(["calibrate", str(tmp_path / "none")]) == 2
    assert "no labelled group of the run log has the entropies" in capsys.readouterr().err


def test_a_log_without_steps_has_windows_of_groups(tmp_path, capsys):
    log = RunLog(tmp_path / "log")
    for groups in drifting(0.3, -0.3):
        log.add(of_groups(groups, dare_reward.estimate(groups, method="ttrl"), run="r"))
    log.close()
    assert main(["calibrate", str(tmp_path / "log")]) == 1
    out = capsys.readouterr().out
    assert "groups 1 to 32" in out
    assert main(["calibrate", str(tmp_path / "log"), "--steps", "1"]) == 2
    assert "the groups of this log have no `step`: leave out --steps" in capsys.readouterr().err
    assert main(["calibrate", str(tmp_path / "log")]) == 1
    out = capsys.readouterr().out
    assert "In groups 33 to 80 the vote (exponent 0) does not fit: the labels choose -4" in out


def test_what_a_run_log_cannot_take(tmp_path, capsys):
    folder = str(log_of(tmp_path / "log", drifting(0.3, prompts=3), exponent=4))
    assert main(["calibrate", folder, "--entropy", "logprob"]) == 2
    assert "is a run log, which holds entropies" in capsys.readouterr().err
    assert main(["calibrate", folder, "--exponent", "nan"]) == 2
    assert "--exponent must be a finite number" in capsys.readouterr().err
    assert main(["calibrate", folder, "--steps", "0"]) == 2
    assert "--steps must be at least 1" in capsys.readouterr().err
    plain = tmp_path / "in.jsonl"
    plain.write_text("".join(json.dumps(g) + "\n" for g in drifting(0.3)[0]))
    assert main(["calibrate", str(plain), "--steps", "2"]) == 2
    assert "apply only to a run log" in capsys.readouterr().err


def test_the_committed_log_of_a_run_that_collapses(capsys):
    """One file of a log, under another name; in its last steps every prompt is all right or all wrong."""
    assert main(["calibrate", str(COMMITTED)]) == 1
    out = capsys.readouterr().out
    assert "steps 0 to 3" in out
    assert "The labels of steps 44 to 49 cannot tell whether exponent 1 still fits" in out
    assert "The last window that could tell, steps 0 to 3, chose exponent -2." in out
    assert "nan" not in out
