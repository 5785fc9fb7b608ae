"""`dare-reward analyse` and `dare-reward preflight`, as a user runs them, and the preflight's rule."""

import json
from pathlib import Path

import numpy as np
import pytest

from dare_reward.analysis.bootstrap import Interval
from dare_reward.analysis.preflight import MINIMUM, confident_wrong, decide, preflight
from dare_reward.analysis.summary import powers, same_prompt, summarise
from dare_reward.cli import main
from dare_reward.commands.labelled import read_labelled
from dare_reward.groups import Groups

EXAMPLE = str(Path(__file__).parents[3] / "examples" / "arithmetic_m64.jsonl")


def rollouts(rng, *, right=0.5, gap=0.2, size=16):
    """Right rollouts have less entropy by `gap`; half of the wrong ones agree."""
    out = []
    for _ in range(size):
        correct = rng.random() < right
        answer = "7" if correct else rng.choice(["8", "8", "9", "10"])
        out.append({"answer": str(answer), "mean_entropy": round(float(0.5 - gap * correct + 0.1 * rng.random()), 6)})
    return out


def file_of(tmp_path, groups, name="in.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(g) + "\n" for g in groups))
    return str(path)


def labelled_groups(count, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [{"label": "7", "rollouts": rollouts(rng, **options)} for _ in range(count)]


def test_analyse_prints_every_section(capsys):
    assert main(["analyse", EXAMPLE]) == 0
    out = capsys.readouterr().out
    for word in ("pass@k", "maj@k", "agreement_bias", "within groups", "equally long ones", "MI(R;A)", "dare_sqrt"):
        assert word in out
    assert "nan" not in out


def test_analyse_json_is_what_the_library_says(capsys):
    assert main(["analyse", EXAMPLE, "--json", "--method", "ttrl"]) == 0
    found = json.loads(capsys.readouterr().out)
    data = read_labelled(EXAMPLE)
    expected = summarise(data.groups, data.correct_R, methods=["ttrl"], prompts=data.prompts)
    assert list(found["methods"]) == ["ttrl"]
    assert found["methods"]["ttrl"]["bias"] == pytest.approx(expected["methods"]["ttrl"]["bias"])
    assert found["accuracy"]["pass"]["1"]["estimate"] == pytest.approx(data.correct_R.mean())
    assert found["accuracy"]["majority"]["1"]["estimate"] == pytest.approx(data.correct_R.mean())
    # the vote's bias is the error of ttrl's reward
    assert found["majority"]["agreement_bias"]["estimate"] == pytest.approx(found["methods"]["ttrl"]["bias"])


def test_repeated_prompts_and_token_ids(tmp_path, capsys):
    group = {
        "prompt": "3+4=",
        "label": "7",
        "rollouts": [
            {"answer": "7", "mean_entropy": 0.1, "token_ids": [1, 2, 3]},
            {"answer": "8", "mean_entropy": 0.2, "token_ids": [1, 2, 4, 5]},
        ],
    }
    other = {**group, "rollouts": [{**group["rollouts"][0]}, {**group["rollouts"][0]}]}
    assert main(["analyse", file_of(tmp_path, [group, other]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["overlap"]["multiset"] == pytest.approx((0.5 + 1) / 2)
    assert found["correlation"]["prompts"] == 1
    # C_w = (0 + 1)/2, C_b = 1/2: no correlation beyond the prompt
    assert found["correlation"]["latent_correlation"] == pytest.approx(0.0)
    assert main(["analyse", file_of(tmp_path, [group, other])]) == 0
    out = capsys.readouterr().out
    assert "latent_correlation" in out
    assert "multiset" in out


def test_groups_without_entropy_are_left_out_of_what_needs_it(tmp_path, capsys):
    bare = {"label": "7", "rollouts": [{"answer": "7"}, {"answer": "8"}]}
    assert main(["analyse", file_of(tmp_path, [bare, *labelled_groups(3)]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["methods"]
    assert (found["dare"]["scored"], found["dare"]["failed"]) == (3, 1)
    assert (found["ttrl"]["scored"], found["ttrl"]["failed"]) == (4, 0)
    assert main(["preflight", file_of(tmp_path, [bare])]) == 2
    assert "mean_entropy" in capsys.readouterr().out


def test_bad_lines_are_named(tmp_path, capsys):
    path = tmp_path / "in.jsonl"
    path.write_text("{\n" + json.dumps({"rollouts": []}) + "\n" + json.dumps(labelled_groups(1)[0]) + "\n")
    assert main(["analyse", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["data"]["groups"] == 1
    assert [line.partition(":")[0] for line in err.splitlines()][:-1] == ["line 1", "line 2"]


@pytest.mark.parametrize(
    ("groups", "word"), [([], "is empty"), ([{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}], "label")]
)
def test_nothing_labelled_is_2(tmp_path, capsys, groups, word):
    for command in ("analyse", "preflight"):
        assert main([command, file_of(tmp_path, groups)]) == 2
        assert word in capsys.readouterr().err
    assert main(["analyse", EXAMPLE, "--method", "dre"]) == 2


def test_figures(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    assert main(["analyse", EXAMPLE, "--plot", str(tmp_path / "figures")]) == 0
    names = {p.name for p in (tmp_path / "figures").glob("*.png")}
    assert names == {"accuracy.png", "auroc.png", "direction.png", "entropy.png", "information.png"}
    assert all((tmp_path / "figures" / n).read_bytes().startswith(b"\x89PNG") for n in names)
    assert "accuracy.png" in capsys.readouterr().err


def test_figures_without_matplotlib_are_an_error_in_words(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    assert main(["analyse", EXAMPLE, "--plot", str(tmp_path)]) == 2
    assert "dare-reward[plots]" in capsys.readouterr().err


# preflight


@pytest.mark.parametrize(("gap", "right", "word", "code"), [(0.3, 0.3, "use", 0), (-0.3, 0.5, "do not use", 1)])
def test_preflight_reads_the_entropies(tmp_path, capsys, gap, right, word, code):
    path = file_of(tmp_path, labelled_groups(50, gap=gap, right=right))
    assert main(["preflight", path, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == word
    assert (found["difference"]["low"] > 0) == (word == "use")
    assert (found["auroc"]["estimate"] > 0.9) == (word == "use")
    assert main(["preflight", path]) == code
    assert f"verdict: {word}" in capsys.readouterr().out


def test_preflight_needs_prompts_with_both(tmp_path, capsys):
    path = file_of(tmp_path, labelled_groups(MINIMUM - 1, gap=0.3, right=0.3))
    assert main(["preflight", path]) == 1
    assert f"at least {MINIMUM}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("auroc", "difference", "by_auroc", "by_gain"),
    [
        ((0.55, 0.7), (0.01, 0.02), "use", "use"),
        ((0.55, 0.7), (-0.01, 0.02), "use", "undecided"),
        ((0.55, 0.7), (-0.02, -0.01), "undecided", "do not use"),
        ((0.45, 0.6), (0.01, 0.02), "undecided", "undecided"),
        ((0.45, 0.6), (-0.02, -0.01), "undecided", "do not use"),
        ((0.3, 0.45), (-0.01, 0.02), "do not use", "undecided"),
        ((0.3, 0.45), (-0.02, -0.01), "do not use", "do not use"),
        ((0.3, 0.45), (0.01, 0.02), "undecided", "undecided"),
    ],
)
def test_the_rules(auroc, difference, by_auroc, by_gain):
    for rule, word in (("auroc", by_auroc), ("gain", by_gain)):
        intervals = [Interval(sum(x) / 2, *x, 50) for x in (auroc, difference)]
        assert decide(*intervals, rule=rule)[0] == word
        assert decide(Interval(sum(auroc) / 2, *auroc, MINIMUM - 1), intervals[1], rule=rule)[0] == "undecided"


def test_preflight_of_a_method_against_itself_is_undecided():
    groups = labelled_groups(30)
    entropy = [[r["mean_entropy"] for r in g["rollouts"]] for g in groups]
    data = Groups.of([[r["answer"] for r in g["rollouts"]] for g in groups], mean_entropy=entropy)
    truth = np.array([float(r["answer"] == "7") for g in groups for r in g["rollouts"]])
    found = preflight(data, truth, candidate="ttrl", rival="ttrl", rule="gain")
    assert found.difference.estimate == 0
    assert found.verdict == "undecided"


def test_a_method_without_entropies_is_judged_by_the_difference(tmp_path, capsys):
    """The right answer is second: its share of votes is paid above the mean, the vote pays it nothing."""
    answers = ["8"] * 5 + ["7"] * 4 + ["9"] * 2 + ["10"]
    groups = [{"label": "7", "rollouts": [{"answer": a} for a in answers]} for _ in range(30)]
    assert main(["preflight", file_of(tmp_path, groups), "--method", "empo"]) == 0
    assert "verdict: use (one step of empo gains more than one of ttrl)" in capsys.readouterr().out
    assert main(["preflight", file_of(tmp_path, groups), "--method", "ttrl", "--against", "empo", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "do not use"
    assert main(["preflight", file_of(tmp_path, groups[:19]), "--method", "empo"]) == 1
    assert "19 prompts have right and wrong rollouts" in capsys.readouterr().out


def test_confident_wrong_by_hand():
    groups = Groups.of(
        [["w", "w", "r"], ["w", "w", "r"], ["r", "r", "w"], ["w", "w", None]],
        mean_entropy=[[0.1, 0.1, 0.5], [0.5, 0.5, 0.1], [0.1, 0.1, 0.5], [0.1, 0.1, 0.9]],
    )
    truth = np.array([0, 0, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0], float)
    assert confident_wrong(groups, truth).tolist() == [1, 0, 0, 0]


def test_helpers():
    assert powers(64) == [1, 2, 4, 8, 16, 32, 64]
    assert powers(5) == [1, 2, 4, 5]
    assert powers(0) == []
    groups = Groups.of([["a"], ["b", None], ["c"]])
    assert same_prompt(groups, ["x", "x", None]) == [[["a"], ["b", None]]]
