"""`dare-reward analyse`, as a user runs it."""

import doctest
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from dare_research.analysis.command import summarise
from dare_reward.cli import main
from dare_reward.commands.labelled import read_labelled

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "arithmetic_m64.jsonl")


GROUP = {"label": "7", "rollouts": [{"answer": a, "mean_entropy": h} for a, h in (("7", 0.1), ("8", 0.3), ("7", 0.2))]}


def file_of(tmp_path, groups, name="in.jsonl"):
    path = tmp_path / name
    path.write_text("".join(json.dumps(g) + "\n" for g in groups))
    return str(path)


def test_analyse_prints_every_section(capsys):
    assert main(["analyse", EXAMPLE]) == 0
    out = capsys.readouterr().out
    for word in ("pass@64", "maj@64", "agreement_bias", "AUROC, within", "AUROC, controlled", "MI(R;A)", "dare_sqrt"):
        assert word in out
    assert "nan" not in out


def test_analyse_json_is_what_the_library_says(capsys):
    assert main(["analyse", EXAMPLE, "--json", "--method", "ttrl"]) == 0
    found = json.loads(capsys.readouterr().out)
    data = read_labelled(EXAMPLE)
    expected = summarise(data.groups, data.correct_R, methods={"ttrl": {}})
    assert list(found["methods"]) == ["ttrl"]
    assert found["methods"]["ttrl"]["bias"] == pytest.approx(expected["methods"]["ttrl"]["bias"])
    assert found["accuracy"]["pass"]["1"]["estimate"] == pytest.approx(data.correct_R.mean())
    assert found["accuracy"]["majority"]["1"]["estimate"] == pytest.approx(data.correct_R.mean())
    # the vote's bias is the error of ttrl's reward
    assert found["majority"]["agreement_bias"]["estimate"] == pytest.approx(found["methods"]["ttrl"]["bias"])


def test_token_ids_add_their_overlap(tmp_path, capsys):
    rollouts = [
        {"answer": "7", "mean_entropy": 0.1, "token_ids": [1, 2, 3]},
        {"answer": "8", "mean_entropy": 0.2, "token_ids": [1, 2, 4, 5]},
    ]
    file = file_of(tmp_path, [{"label": "7", "rollouts": rollouts}, {"label": "7", "rollouts": [rollouts[0]] * 2}])
    assert main(["analyse", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overlap"] == pytest.approx((0.5 + 1) / 2)
    assert main(["analyse", file]) == 0
    assert "overlap" in capsys.readouterr().out


def test_groups_without_entropy_are_left_out_of_what_needs_it(tmp_path, capsys):
    bare = {"label": "7", "rollouts": [{"answer": "7"}, {"answer": "8"}]}
    assert main(["analyse", file_of(tmp_path, [bare, *[GROUP] * 3]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["methods"]
    assert (found["dare"]["scored"], found["dare"]["failed"]) == (3, 1)
    assert (found["ttrl"]["scored"], found["ttrl"]["failed"]) == (4, 0)


def test_bad_lines_are_named(tmp_path, capsys):
    path = tmp_path / "in.jsonl"
    path.write_text("{\n" + json.dumps({"rollouts": []}) + "\n" + json.dumps(GROUP) + "\n")
    assert main(["analyse", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["data"]["groups"] == 1
    assert [line.partition(":")[0] for line in err.splitlines()][:2] == ["line 1", "line 2"]


def test_the_command_that_scores_a_file_without_entropies_is_said(capsys):
    assert main(["analyse", str(Path(EXAMPLE).with_name("gsm8k_sample.jsonl"))]) == 0
    command = capsys.readouterr().err.splitlines()[-1].removeprefix("  dare-reward ")
    assert main([*shlex.split(command), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["methods"]["dare"]["scored"] == 40


def test_outputs_and_sessions_of_the_page():
    """`python scripts/docs.py research/docs/analysis.md` renews the outputs."""
    root = Path(__file__).parents[2]
    page = root / "research" / "docs" / "analysis.md"
    assert doctest.testfile(str(page), module_relative=False).failed == 0
    subprocess.run([sys.executable, root / "scripts" / "docs.py", "--check", page], check=True)
