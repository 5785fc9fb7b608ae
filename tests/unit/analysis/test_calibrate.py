"""`dare_reward.analysis.calibrate`: the rule by hand, and the command as a user runs it."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jsonl import read_lines, write_lines
from rows import each
from said import said

import dare_reward
from dare_reward.analysis.bootstrap import Interval
from dare_reward.analysis.calibrate import GATE, MIXED, Bars, bars, calibrate, choose, evidence, tables
from dare_reward.analysis.certainty import ENTROPY, GRID, VOTE
from dare_reward.analysis.truth import LABELS
from dare_reward.analysis.verdict import decide, judge, points, warnings
from dare_reward.cli import main
from dare_reward.groups import Groups
from dare_reward.methods import read_line

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "arithmetic_m64.jsonl")


def rollouts(rng, *, right=0.5, gap=0.2, size=16):
    """Right rollouts have less entropy by `gap`; half of the wrong ones agree."""
    out = []
    for _ in range(size):
        correct = rng.random() < right
        answer = "7" if correct else rng.choice(["8", "8", "9", "10"])
        out.append({"answer": str(answer), "mean_entropy": round(float(0.5 - gap * correct + 0.1 * rng.random()), 6)})
    return out


def file_of(tmp_path, groups):
    return str(write_lines(tmp_path / "in.jsonl", groups))


def labelled(count, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [{"label": "7", "rollouts": rollouts(rng, **options)} for _ in range(count)]


def spread(rng, rows):
    """A group whose entropies lie around these."""
    return {"rollouts": [{"answer": a, "mean_entropy": e * rng.uniform(0.8, 1.2)} for a, e in rows]}


def arrays(groups):
    made = Groups.of(
        [[r["answer"] for r in g["rollouts"]] for g in groups],
        mean_entropy=[[r["mean_entropy"] for r in g["rollouts"]] for g in groups],
    )
    return made, np.array([float(r["answer"] == "7") for g in groups for r in g["rollouts"]])


# A second implementation made these, plain Python, a prompt after the other: `git show 9b225994:tests/unit/analysis/test_calibrate.py`.
GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "calibrate.json").read_text())


@each("case", GOLDEN["fits"])
def test_the_fit_against_a_second_implementation(case):
    rng = np.random.default_rng(case["seed"])
    gap, right = float(rng.choice([-0.1, -0.02, 0, 0.01, 0.03, 0.1])), rng.uniform(0.2, 0.6)
    groups = arrays(labelled(36, seed=case["seed"], gap=gap, right=right))
    found = calibrate(*groups, **case["options"])
    assert (found.fitted, found.exponent) == (case["fitted"], case["exponent"])
    assert found.statistic == pytest.approx(case["statistic"])


@pytest.mark.parametrize("case", GOLDEN["gains"], ids=str)
def test_the_expected_gain_is_that_of_prompts_left_out_of_the_fit(case):
    """Each prompt by the exponent that is best for the others: there a fit was made again for every prompt."""
    found = calibrate(*arrays(labelled(34, seed=case["seed"], gap=case["gap"], right=case["right"])))
    assert found.gain.estimate == pytest.approx(case["gain"])
    assert found.gain.low <= found.gain.estimate <= found.gain.high


def test_just_above_a_bar_the_others_need_not_pass_it_again(tmp_path, ran):
    """Without a prompt that gains, t would lie below: of 164 prompts 79 had the vote, and the gain was -1.8 points."""
    for row in (groups := read_lines(Path(EXAMPLE).with_name("qwen_math_m16.jsonl"))):
        row["rollouts"] = [{name: r[name] for name in ("answer", "mean_entropy")} for r in row["rollouts"]]
    found = json.loads(ran(["calibrate", file_of(tmp_path, groups), "--json"], 0).out)
    own = found["calibration"]
    assert 0 <= own["statistic"] - own["gate"] < 0.001
    assert (found["use"], own["exponent"]) == ("line", 1)
    assert own["gain"]["estimate"] == pytest.approx(3 / 164)


def test_every_interval_is_of_the_seed(ran):
    first, second = (json.loads(ran(["calibrate", EXAMPLE, "--json", "--seed", seed]).out) for seed in "01")
    for name in ("pass@k", "maj@k, ties by chance"):
        (one, other) = (found["accuracy"][name]["2"] for found in (first, second))
        assert one["estimate"] == other["estimate"]
        assert one["low"] != other["low"]


def shares_right(groups):
    """By exponent of GRID."""
    arrays_of = arrays(groups)
    return evidence(*arrays_of, tables(arrays_of[0], ENTROPY)).right_PB.mean(axis=0)


def test_accuracy_is_that_of_the_method():
    groups = labelled(30, seed=2, gap=0.05, right=0.35)
    for b, own in zip(GRID, shares_right(groups), strict=True):
        reply = dare_reward.estimate(groups, method="calibrated_vote", exponent=b)
        assert own == pytest.approx(reply.diagnostics["label_accuracy"])
    vote = dare_reward.estimate(groups, method="ttrl").diagnostics["label_accuracy"]
    assert shares_right(groups)[VOTE] == pytest.approx(vote)


@pytest.mark.parametrize(("gap", "sign"), [(0.3, 1), (-0.3, -1)])
def test_the_sign_follows_the_labels(gap, sign):
    found = calibrate(*arrays(labelled(32, gap=gap, right=0.3)))
    assert found.exponent * sign > 0
    assert found.statistic * sign >= GATE
    assert (found.auroc.estimate > 0.9) == (sign > 0)
    assert found.more == 0
    assert found.gain.estimate > 0
    assert read_line(found.params) == ("calibrated_vote", {"exponent": found.exponent})


def test_auroc_is_split_by_the_vote():
    groups, correct_R = arrays(labelled(40, gap=0.02, right=0.4))
    found = calibrate(groups, correct_R)
    votes = found.auroc_right.prompts, found.auroc_wrong.prompts
    assert sum(votes) == found.auroc.prompts == found.mixed
    assert votes[0] > 0 < votes[1]
    total = votes[0] * found.auroc_right.estimate + votes[1] * found.auroc_wrong.estimate
    assert total == pytest.approx(found.mixed * found.auroc.estimate)


def test_an_exponent_that_loses_labels_gives_way_to_a_weaker_one():
    """The likeliest exponent overturns right votes; a weaker one of its sign names more right labels than the vote."""
    sure = {"rollouts": said("888887777", mean_entropy=[0.3] * 5 + [0.2] * 4)}
    turned = {"rollouts": said("7777778888", mean_entropy=[0.3] * 6 + [0.2] * 4)}
    plain = {"rollouts": said("77777788888", mean_entropy=[0.2] * 6 + [0.5] * 5)}
    groups = [plain] * 40 + [sure] * 3 + [turned] * 4
    found, accuracy = calibrate(*arrays(groups)), dict(zip(GRID, shares_right(groups), strict=True))
    assert found.fitted > found.exponent > 0
    assert accuracy[found.fitted] < accuracy[0] < accuracy[found.exponent]


def test_what_cannot_win_decides_nothing():
    """Entropy tells rare answers from the leader in every prompt, and no label hangs on it."""
    rng = np.random.default_rng(0)
    rows = [("7", 0.2)] * 8 + [("9", 0.9)] * 2
    groups = [spread(rng, rows) for _ in range(40)]
    found = calibrate(*arrays(groups))
    assert found.statistic > GATE
    assert (found.exponent, found.contests) == (0.0, 0)
    use, why, _ = decide(found)
    assert (use, "informative here, but" in why) == ("vote", True)
    assert judge(*arrays(groups)).headline == "Use the plain vote"


def test_a_fit_against_the_sign_of_its_test_is_the_vote():
    """Two right answers, one sure and one unsure: near 0 entropy tells for the sure one, far out for the unsure one."""
    rows, rng = [("7", 0.05)] * 5 + [("7.0", 1.1)] * 2 + [("8", 0.4)] * 5 + [("9", 0.06)] * 3, np.random.default_rng(0)
    groups = [spread(rng, rows) for _ in range(36)]
    correct_R = np.array([float(a.startswith("7")) for _ in groups for a, _ in rows])
    found = calibrate(arrays(groups)[0], correct_R)
    assert found.mixed >= MIXED
    assert found.statistic >= GATE
    assert found.fitted < 0
    assert found.exponent == 0


def test_groups_without_truth_or_entropy_are_left_out():
    groups, correct_R = arrays(labelled(40, gap=0.2, right=0.3))
    alone = calibrate(groups, correct_R)
    bigger, truth_R = arrays(labelled(40, gap=0.2, right=0.3) + labelled(6, seed=9, gap=-0.3))
    truth_R[40 * 16 : 43 * 16] = np.nan
    entropy_R = bigger.column("mean_entropy").copy()
    entropy_R[43 * 16 :: 16] = np.nan
    found = calibrate(bigger.with_column("mean_entropy", entropy_R), truth_R)
    assert found.statistic == pytest.approx(alone.statistic)
    assert found.left_out == 3
    same = replace(found, statistic=alone.statistic, contended=alone.contended, left_out=0)
    same = replace(same, exponents_of_others=alone.exponents_of_others)
    assert repr(same) == repr(alone)
    assert found.contended == pytest.approx(alone.contended)
    assert alone.exponent > 0


def test_nothing_measurable():
    groups, correct_R = arrays(labelled(3))
    found = calibrate(groups, np.full(len(correct_R), np.nan))
    assert (found.prompts, found.mixed, found.exponent, found.more) == (0, 0, 0.0, None)
    assert decide(found)[0] == "open"
    rows = [[{"answer": a, "mean_entropy": 0.1 * i} for i, a in enumerate(x, 1)] for x in ("7878", "7888", "7878")]
    assert judge(*arrays([{"rollouts": row} for row in rows])).use == "open"  # without the second, no score deviates


def test_the_verdicts():
    base = calibrate(*arrays(labelled(60, gap=0.0, right=0.4, seed=3)))
    flat = replace(base, exponent=0.0, prompts=100, mixed=90, enough=True)
    assert decide(replace(flat, statistic=0.1))[0] == "vote"
    assert decide(replace(flat, statistic=2.6, more=20))[::2] == ("open", 20)
    assert decide(replace(flat, prompts=34, mixed=22, statistic=1.0, more=5000))[::2] == ("open", 200 - 34)
    few = replace(flat, prompts=16, mixed=12, statistic=5.0, enough=False)
    use, why, more = decide(few)
    assert (use, re.findall(r"\d+", why), more) == ("open", ["32", "16"], 16)
    assert decide(replace(few, prompts=40, mixed=6))[2] == 10, "mixed ones are missing"
    assert decide(replace(flat, mixed=0, telling=0, statistic=math.nan))[0] == "open"
    assert "contradict" in decide(replace(flat, statistic=3.5, fitted=-1.0))[1]
    idle = replace(flat, statistic=3.5, fitted=1.0, contended=0.4, contests=9)
    use, why, _ = decide(idle)
    assert (use, "those that could win" in why) == ("vote", True)
    use, why, _ = decide(replace(idle, contended=2.0))
    assert (use, points(idle.gain) in why) == ("vote", True)  # another reason: no more labels are right
    use, why, _ = decide(replace(flat, exponent=-2.0, statistic=-4.0))
    assert (use, "less sure" in why) == ("line", True)


def test_the_warning_is_of_the_fixed_weight():
    weak = judge(*arrays(labelled(30, gap=0.0, right=0.4)))
    strong = judge(*arrays(labelled(30, gap=0.3, right=0.3)))
    assert weak.calibration.auroc.estimate < 0.6
    assert len(weak.warnings) == 1
    assert "0.60" in weak.warnings[0]
    assert strong.warnings == warnings(strong.calibration) == ()


def test_the_expected_gain_and_its_interval_are_in_the_reason():
    found = calibrate(*arrays(labelled(32, gap=0.3, right=0.3)))
    assert 0 < found.gain.low < found.gain.estimate < found.gain.high
    middle, low, high = (f"{100 * x:+.1f}" for x in (found.gain.estimate, found.gain.low, found.gain.high))
    assert f"{middle} points ({low} to {high}) of label accuracy" in decide(found)[1]
    assert points(Interval(-0.0, -0.0125, 0.0125, 40)) == "+0.0 points (-1.2 to +1.2)"


@pytest.mark.parametrize("size", [31, 32])
@pytest.mark.parametrize("entropy", [0.1, 0.3])
def test_equal_entropies_make_no_test(size, entropy):
    """Their means differ in the last bit, and a t of such differences can be anything."""
    groups = labelled(40, size=size, right=0.4)
    for group in groups:
        for r in group["rollouts"]:
            r["mean_entropy"] = entropy
    found = calibrate(*arrays(groups))
    assert (found.exponent, found.mixed, found.telling) == (0.0, 40, 0)
    assert math.isnan(found.statistic)
    assert decide(found)[0] == "vote"
    assert "alike" in decide(found)[1]  # another reason than that of a test that fails
    groups[0]["rollouts"][0]["mean_entropy"] *= 1.001
    assert calibrate(*arrays(groups)).telling == 1


@pytest.mark.parametrize(("scale", "hint"), [(1e-3, True), (1, False)])
def test_a_test_that_passes_without_an_exponent_is_no_contradiction(scale, hint):
    """Small beside eps, entropies hardly change a weight, and no exponent of the grid is worth its price."""
    groups = labelled(40, gap=0.3, right=0.3)
    for group in groups:
        for r in group["rollouts"]:
            r["mean_entropy"] *= scale
    found = calibrate(*arrays(groups))
    assert found.small == hint
    if not hint:
        found = replace(found, fitted=0.0, exponent=0.0)
    assert found.statistic > GATE
    assert found.fitted == 0
    use, why, _ = decide(found)
    assert (use, "informative here, but" in why) == ("vote", True)
    assert ("eps_scale=0.5" in why) == hint
    assert calibrate(*arrays(groups), eps_scale=0.5).exponent > 0
    assert not calibrate(*arrays(groups), eps_scale=0.5).small


def test_more_labels_sharpen_the_estimate_of_how_many_are_needed():
    """And are at least those of the minimum."""
    found = calibrate(*arrays(labelled(2, gap=0.2)))
    assert math.ceil(2 * ((GATE + 0.84) / found.statistic) ** 2) - 2 < LABELS - 2
    assert found.more == LABELS - 2
    found = calibrate(*arrays(labelled(33, gap=0.004, right=0.4, seed=1)))
    assert 1 < abs(found.statistic) < GATE
    needed = 33 + found.more
    expected = abs(found.statistic) * math.sqrt(needed / 33)  # t grows with the root of the labels
    risen = math.sqrt(GATE**2 + 2 * math.log(needed / 32))  # by labels beyond the first 32: one may have looked between
    assert expected == pytest.approx(risen + 0.84, rel=0.01)


def test_the_bars_are_honest_under_any_number_of_looks():
    """Labels that tell nothing, looked at up to a hundred times the first: 2% at most ever pass. A constant gate lets
    through far more."""
    first = LABELS
    looks = np.arange(first, 100 * first, first // 16)
    steps = np.random.default_rng(0).normal(size=(1500, len(looks))) * np.sqrt(np.diff(looks, prepend=0))
    t = np.cumsum(steps, axis=1) / np.sqrt(looks)
    gates = [bars(int(n), int(n)).gate for n in looks]
    assert (np.abs(t) >= gates).any(axis=1).mean() <= 0.02
    assert (np.abs(t) >= GATE).any(axis=1).mean() > 0.03
    assert gates[0] == bars(first, first).gate == GATE
    enough = [bars(*n).enough for n in ((first - 1, first - 1), (first, first // 2 - 1), (first, first // 2))]
    assert enough == [False, False, True]


@pytest.mark.parametrize(
    ("bar", "used"), [({}, True), ({"gate": 99}, False), ({"rivals": 99}, False), ({"enough": False}, False)]
)
def test_each_bar_alone_keeps_the_vote(bar, used):
    groups, correct_R = arrays(labelled(60, gap=0.3, right=0.3))
    e = evidence(groups, correct_R, tables(groups, ENTROPY))
    assert (choose(e, e.totals(), Bars(**bar)).exponent_S[0] != 0) == used


@pytest.mark.parametrize(
    ("gap", "right", "word", "code"), [(0.3, 0.3, "use", 0), (-0.3, 0.5, "use", 0), (0, 0.5, "", 1)]
)
def test_the_command(tmp_path, ran, gap, right, word, code):
    path = file_of(tmp_path, labelled(50, gap=gap, right=right))
    found = json.loads(ran(["calibrate", path, "--json"], code).out)
    c = found["calibration"]
    assert (found["use"] == "line") == (word == "use")
    out = ran(["calibrate", path], code).out
    assert out.splitlines()[-1] == c["params"] == f"method=calibrated_vote&exponent={c['exponent']:g}"
    assert "nan" not in out
    assert (out.splitlines()[0] == "Use this line") == (word == "use")
    assert ("would have noticed in" in out) == (found["power"]["tested"] is not None)


def test_what_cannot_be_tested_has_no_t(tmp_path, ran):
    out = ran(["calibrate", file_of(tmp_path, labelled(1, gap=0.2))], 1).out
    assert "\n- 1 labelled prompt, 1 with " in out
    assert "nan" not in out
    assert "(1 prompts)" not in out
    out = ran(["calibrate", file_of(tmp_path, labelled(10, right=1.0))], 1).out
    assert "nan" not in out
    assert out.startswith("Not decided: label ")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda g: None, "is empty"),
        (lambda g: {**g, "label": None}, "label"),
        (lambda g: {**g, "label": ""}, "label"),
        (lambda g: {"rollouts": [{**r, "correct": True} if n else r for n, r in enumerate(g["rollouts"])]}, "`label`"),
        (lambda g: {**g, "rollouts": [{"answer": r["answer"]} for r in g["rollouts"]]}, "mean_entropy"),
    ],
)
def test_what_is_lacking_is_named(tmp_path, ran, change, word):
    groups = [made for g in labelled(10, gap=0.3, right=0.3) if (made := change(g))]
    assert word in ran(["calibrate", file_of(tmp_path, groups)], 2).err


def test_labelled_groups_without_an_entropy_are_counted(tmp_path, ran):
    groups = labelled(40, gap=0.3, right=0.3)
    for group in groups[:6]:
        group["rollouts"][3]["mean_entropy"] = None
    out = ran(["calibrate", file_of(tmp_path, groups)], 3).out
    assert re.search("\n- 34 labelled prompts, 34 .* 6 more lack entropy", out)
    assert "\n% of all labelled prompts, by k rollouts " in out  # with the six, unlike the table of right labels


def test_an_empty_label_is_none(tmp_path, ran):
    groups = labelled(44, gap=0.3, right=0.3)
    for group in groups[:10]:
        group["label"] = " "
    found = ran(["calibrate", file_of(tmp_path, groups)], 0)
    assert "\n- 34 labelled prompts, " in found.out
    assert "10 empty labels" in found.err


@pytest.mark.parametrize(
    "names",
    [{"prompt": "3 + 4 ="}, {"group_id": "p7"}, {}],
    ids=["the same prompt", "the same id", "the same content"],
)
def test_groups_of_one_prompt_are_refused(tmp_path, ran, names):
    """One prompt twenty times is one piece of evidence, and had a t of millions."""
    (copy,) = labelled(1, gap=0.3)
    others = labelled(39, seed=1, gap=0.3)
    groups = [*others, *([copy] * 3 if not names else [{**g, **names} for g in labelled(3, gap=0.3)])]
    assert re.search("2 of 42 groups .*line 41 .*line 40", ran(["calibrate", file_of(tmp_path, groups)], 2).err)
    assert main(["calibrate", file_of(tmp_path, groups[:40])]) == 0


def test_ids_that_begin_anew_are_other_prompts(tmp_path, ran):
    """Each step of a training counts from 0; another label under the same id is another prompt."""
    names = [
        lambda i: {"group_id": "0", "label": str(i)},
        lambda i: {"prompt": "Which is right?", "label": str(i)},
        lambda i: {"group_id": str(i % 2), "step": i // 2},  # their labels are all the same
    ]
    for name in names:
        file = file_of(tmp_path, [{**g, **name(i)} for i, g in enumerate(labelled(10))])
        assert "\n- 10 labelled prompts, " in ran(["calibrate", file], 1).out
    assert main(["report", file, "-o", str(tmp_path / "r.html")]) == 0
    assert "10 labelled prompts, " in (tmp_path / "r.html").read_text(), "one verdict"


def test_other_weights_are_fitted_and_written(tmp_path, ran):
    path = file_of(tmp_path, labelled(40, gap=0.3, right=0.3))
    line = ran(["calibrate", path, "-p", "eps_scale=0.5", "-p", "u_floor=0.01"], 0).out.splitlines()[-1]
    method, params = read_line(line)
    assert (method, params["eps_scale"], params["u_floor"]) == ("calibrated_vote", 0.5, 0.01)
    assert main(["calibrate", path, "-p", "exponent=3"]) == 2
    assert "Known: eps, eps_scale, u_floor" in ran(["calibrate", path, "-p", "eps=-1"], 2).err


@pytest.mark.parametrize("command", ["calibrate", "measure"])
@pytest.mark.parametrize("seed", ["-1", "1.5", "x"])
def test_a_seed_that_is_none_ends_before_anything_is_read(ran, command, seed):
    more = ["--model", "m", "--data", "math-500=absent.jsonl", "--out"] if command == "measure" else []
    assert "seed: must be an integer >= 0" in ran([command, *more, "absent", "--seed", seed], 2).err
