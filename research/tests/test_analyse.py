"""`dare-reward analyse`, as a user runs it."""

import doctest
import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dare_research.analysis.summary import same_prompt, summarise
from dare_reward.cli import main
from dare_reward.commands.labelled import read_labelled
from dare_reward.groups import Groups

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "arithmetic_m64.jsonl")


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


def test_bad_lines_are_named(tmp_path, capsys):
    path = tmp_path / "in.jsonl"
    path.write_text("{\n" + json.dumps({"rollouts": []}) + "\n" + json.dumps(labelled_groups(1)[0]) + "\n")
    assert main(["analyse", str(path), "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["data"]["groups"] == 1
    assert [line.partition(":")[0] for line in err.splitlines()][:2] == ["line 1", "line 2"]


def test_groups_of_one_prompt():
    groups = Groups.of([["a"], ["b", None], ["c"]])
    assert same_prompt(groups, ["x", "x", None]) == [[["a"], ["b", None]]]


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
