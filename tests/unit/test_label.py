"""`dare-reward label`: which prompts it names, and in which order."""

import json

import pytest

from dare_reward.cli import main


def group(name, answers, entropies=(), **fields):
    entropies = entropies or [0.5] * len(answers)
    rollouts = [{"answer": a, "mean_entropy": h} for a, h in zip(answers, entropies, strict=True)]
    return {"group_id": name, "rollouts": rollouts, **fields}


@pytest.fixture
def file(tmp_path):
    groups = [
        group("sure", ["1"] * 4),
        group("contested", ["1", "1", "2", "2"]),
        group("informative", ["1", "1", "1", "2"], [0.1, 0.1, 0.1, 3.0]),
        group("some", ["1", "1", "1", "2"], [0.1, 0.1, 0.1, 0.3]),
        group("labelled", ["1", "2"], [0.1, 3.0], label="1"),
    ]
    path = tmp_path / "rollouts.jsonl"
    path.write_text("".join(json.dumps(g) + "\n" for g in groups))
    return str(path)


@pytest.mark.parametrize(
    ("use", "names"),
    [
        ("calibrate", ["informative", "some"]),
        ("reward", ["contested", "informative", "some"]),
        ("both", ["informative", "contested", "some"]),
    ],
)
def test_the_best_prompts_come_first_and_none_that_is_worth_nothing(use, names, file, capsys):
    assert main(["label", file, "--for", use]) == 0
    assert capsys.readouterr().out.split() == names


def test_a_budget_is_kept(file, capsys):
    assert main(["label", file, "--for", "reward", "--budget", "1"]) == 0
    assert capsys.readouterr().out.split() == ["contested"]


def test_a_group_without_a_name_is_named_by_its_place(tmp_path, capsys):
    bare = group("", ["1", "2"], [0.1, 3.0])
    del bare["group_id"]
    path = tmp_path / "rollouts.jsonl"
    path.write_text(json.dumps(bare) + "\n")
    assert main(["label", str(path)]) == 0
    assert capsys.readouterr().out.strip() == "line-1"


@pytest.mark.parametrize("extra", [["--budget", "0"], []])
def test_nothing_to_choose_is_an_error(extra, tmp_path, capsys):
    path = tmp_path / "rollouts.jsonl"
    path.write_text(json.dumps(group("sure", ["1", "1"])) + "\n")
    assert main(["label", str(path), *extra]) == 2
    assert not capsys.readouterr().out
