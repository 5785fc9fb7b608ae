"""The shipped sample files are what `examples/README.md` says, checked from the files alone; recipes ask for what there is."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import Counter
from importlib import import_module
from pathlib import Path
from statistics import fmean, median

import pytest

import dare_reward
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

EXAMPLES = Path(__file__).parents[2] / "examples"
# What lies in these files was checked once, by what they are alone: entropies within their bounds and equal over a shared
# prefix, marks that exact arithmetic gives again, ids that stand once (`git log -S test_game24 -- tests/unit/test_examples.py`).
CHECKED = {
    "arithmetic_m64.jsonl": "e22080d3a260cee0220eb4325729584a6075cdcc0b79b52784f39c38586f8414",
    "game24_sample.jsonl": "c6bcb68d1b9777fc8ad523decd1f87fa5e77c227397c2d3fa00072fb71cab1b8",
    "gsm8k_sample.jsonl": "f29595000b4fedb47dd8c03feacb2bd4d7e749fbaac7fb931aec8a2a113df824",
    "smollm2_m64.jsonl": "cb00d206537e62a9d6745bd954a14d556f9026a2d64b49844f2ad6ae79ac3b17",
    "real_model/questions.jsonl": "f55823bfb04926c9dd17af396b4435d1f1542ade567b3704e1ff4cd6d946d2f1",
}


def groups_of(name):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    lines = (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


@pytest.fixture(scope="module")
def arithmetic():
    return groups_of("arithmetic_m64.jsonl")


def arithmetic_answer(text):
    lines = text.split("\n")
    digits = lines[-1].removeprefix("Answer:").strip()
    return int(digits) if lines[-1].startswith("Answer:") and digits.isdigit() else None


def test_arithmetic_labels_are_true(arithmetic):
    for group in arithmetic:
        left, right = re.fullmatch(r"(\d\d)\*(\d\d)=", group["prompt"]).groups()
        assert group["label"] == str(int(left) * int(right))


def test_the_files_are_those_that_were_checked():
    assert {path.name for path in EXAMPLES.glob("*.jsonl")} == {name for name in CHECKED if "/" not in name}
    assert {name: hashlib.sha256((EXAMPLES / name).read_bytes()).hexdigest() for name in CHECKED} == CHECKED


def test_arithmetic_answers_are_spread(arithmetic):
    """The numbers that `examples/README.md` gives for the file."""
    votes = [Counter(arithmetic_answer(rollout["text"]) for rollout in group["rollouts"]) for group in arithmetic]
    without_answer = sum(counts.pop(None, 0) for counts in votes)
    labels = [int(group["label"]) for group in arithmetic]
    right = sum(rollout["correct"] for group in arithmetic for rollout in group["rollouts"])
    wrong = [label for counts, label in zip(votes, labels, strict=True) if counts.most_common(1)[0][0] != label]
    assert median(map(len, votes)) == 7
    assert (min(map(len, votes)), max(map(len, votes))) == (4, 40)
    assert len(wrong) == 7
    assert without_answer == 42
    assert round(right / (16 * 64), 3) == 0.408


def test_arithmetic_entropies_rank_right_and_wrong_as_stated(arithmetic):
    """Chance that a right rollout has less mean entropy than a wrong one of its group; the mean over the groups."""
    aurocs = []
    for group in arithmetic:
        means = {True: [], False: []}
        for rollout in group["rollouts"]:
            if arithmetic_answer(rollout["text"]) is not None:
                means[rollout["correct"]].append(fmean(rollout["token_entropies"]))
        pairs = [(right, wrong) for right in means[True] for wrong in means[False]]
        aurocs.append(fmean((right < wrong) + 0.5 * (right == wrong) for right, wrong in pairs))
    assert fmean(aurocs) == pytest.approx(0.537, abs=0.002)


RECIPES = sorted(file for file in (EXAMPLES / "stacks").glob("*.py") if "Read only" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_asks_for_what_the_adapters_have(file):
    names = {
        name.name
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dare_reward.stacks.adapter"
        for name in node.names
    }
    assert names <= set(vars(import_module("dare_reward.stacks.adapter")))
    assert "Scorer" in names


def test_the_page_of_recipes_names_each_file():
    page = (EXAMPLES.parent / "docs" / "stacks" / "recipes.md").read_text(encoding="utf-8")
    assert {file.name for file in RECIPES} == set(re.findall(r"examples/stacks/(\w+\.py)\)", page))


# --- the real model -----------------------------------------------------------------------------------------------------


def test_the_real_models_votes_are_the_pictures():
    """Lithuania leads by votes and Vilnius by n / (u + .05); of "see" it is the other way round."""
    groups = {g["group_id"]: g for g in groups_of("smollm2_m64.jsonl")}
    assert Counter(name.split("-")[0] for name in groups) == {"capital": 45, "past": 45}
    assert {len(g["rollouts"]) for g in groups.values()} == {64}
    for name, by_votes, by_weight in (("capital-32", "Lithuania", "Vilnius"), ("past-02", "saw", "seen")):
        entropies = {}
        for rollout in groups[name]["rollouts"]:
            entropies.setdefault(rollout["text"].strip(), []).append(rollout["mean_entropy"])
        assert max(entropies, key=lambda a: len(entropies[a])) == by_votes
        assert max(entropies, key=lambda a: len(entropies[a]) / (fmean(entropies[a]) + 0.05)) == by_weight


def test_a_run_log_reaches_an_installed_tracker(tmp_path):
    """examples/trackers.py into the released trackio, read back from its own file."""
    pytest.importorskip("trackio", reason="needs trackio")
    groups = [{"group_id": "a", "label": "1", "rollouts": [{"answer": a, "mean_entropy": 0.1} for a in "1121"]}]
    log = RunLog(tmp_path / "runs", warn=lambda *_: None)
    for step in range(3):
        log.add(of_groups(groups, dare_reward.estimate(groups).groups, run="exp1", step=step))
    log.close()
    env = {**os.environ, "HOME": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio"), "HF_HUB_OFFLINE": "1"}
    words = [str(EXAMPLES / "trackers.py"), str(tmp_path / "runs" / "exp1"), "trackio", "p"]
    code = (
        "import json, runpy, sys\ndel sys.argv[0]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
        "from trackio.sqlite_storage import SQLiteStorage as S\nprint(json.dumps(S.get_logs('p', 'exp1'), default=str))"
    )
    told = subprocess.run([sys.executable, "-c", code, *words], env=env, capture_output=True, text=True)
    assert "sent 3 steps" in told.stdout.splitlines(), told.stderr
    rows = json.loads(told.stdout.splitlines()[-1])
    assert [(row["step"], row["dare/label_accuracy"], row["dare/majority_ratio"]) for row in rows] == [
        (step, 1.0, 0.75) for step in range(3)
    ]
