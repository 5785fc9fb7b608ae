"""The shipped sample files are what `examples/README.md` says, checked from the files alone; recipes ask for what there is."""

import ast
import json
import math
import operator
import os
import re
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from statistics import fmean, median

import pytest

import dare_reward
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ["arithmetic_m64.jsonl", "game24_sample.jsonl", "gsm8k_sample.jsonl", "smollm2_m64.jsonl"]
VOCABULARY_SIZE = 23  # the 22 characters that the arithmetic model knows, and the end of the text
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


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


def value_and_numbers(expression):
    """Exact value of a sum, difference, product or quotient of whole numbers, and those numbers."""

    def walk(node):
        if isinstance(node, ast.BinOp):
            return OPERATORS[type(node.op)](walk(node.left), walk(node.right))
        assert isinstance(node, ast.Constant)
        numbers.append(node.value)
        return Fraction(node.value)

    numbers = []
    return walk(ast.parse(expression.strip(), mode="eval").body), Counter(numbers)


def test_sizes():
    size = {path.name: path.stat().st_size for path in EXAMPLES.glob("*.jsonl")}
    assert set(size) == set(NAMES)
    assert size["arithmetic_m64.jsonl"] < 900_000
    assert size["smollm2_m64.jsonl"] < 900_000
    assert size["game24_sample.jsonl"] + size["gsm8k_sample.jsonl"] < 200_000


@pytest.mark.parametrize("name", NAMES)
def test_lines_are_json_with_unique_ids(name):
    raw = (EXAMPLES / name).read_bytes()
    assert raw.endswith(b"\n")
    assert b"\r" not in raw
    ids = [group["group_id"] for group in groups_of(name)]
    assert len(set(ids)) == len(ids) == raw.count(b"\n")


def test_arithmetic_shape(arithmetic):
    assert len(arithmetic) == 16
    for group in arithmetic:
        assert set(group) == {"group_id", "kind", "prompt", "label", "entropy_source", "entropy_mode", "rollouts"}
        assert (group["kind"], group["entropy_source"], group["entropy_mode"]) == ("math", "exact", "temperature")
        assert len(group["rollouts"]) == 64
        for rollout in group["rollouts"]:
            assert set(rollout) == {"text", "token_entropies", "finish_reason", "correct"}
            assert len(rollout["text"]) <= 40
            assert type(rollout["correct"]) is bool


def test_arithmetic_labels_are_true(arithmetic):
    for group in arithmetic:
        left, right = re.fullmatch(r"(\d\d)\*(\d\d)=", group["prompt"]).groups()
        assert group["label"] == str(int(left) * int(right))


def test_arithmetic_has_one_entropy_a_token_within_its_bounds(arithmetic):
    for group in arithmetic:
        for rollout in group["rollouts"]:
            entropies = rollout["token_entropies"]
            ends = {"stop": 1, "length": 0}[rollout["finish_reason"]]  # a token is a character or the end
            assert len(entropies) == len(rollout["text"]) + ends > 0
            assert all(type(entropy) is float and 0 <= entropy <= math.log(VOCABULARY_SIZE) for entropy in entropies)


def test_arithmetic_rollouts_share_the_entropies_of_a_shared_prefix(arithmetic):
    """The entropy of a step depends on the text before it alone, so equal prefixes carry equal entropies."""
    for group in arithmetic:
        seen = {}
        for rollout in group["rollouts"]:
            for place, entropy in enumerate(rollout["token_entropies"]):
                first = seen.setdefault(rollout["text"][:place], entropy)
                assert entropy == pytest.approx(first, rel=2e-2, abs=1e-5)


def test_arithmetic_flags_agree_with_the_label(arithmetic):
    for group in arithmetic:
        for rollout in group["rollouts"]:
            right = rollout["finish_reason"] == "stop" and arithmetic_answer(rollout["text"]) == int(group["label"])
            assert rollout["correct"] is right


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


def test_game24():
    groups = groups_of("game24_sample.jsonl")
    assert [len(group["rollouts"]) for group in groups] == [100] * 6
    for group in groups:
        assert set(group) == {"group_id", "kind", "rollouts"}
        assert group["kind"] == "text"
        dealt = []
        for rollout in group["rollouts"]:
            assert set(rollout) == {"text", "correct"}
            if rollout["correct"]:
                expression, _, total = rollout["text"].rpartition("Answer: ")[2].rpartition("=")
                value, numbers = value_and_numbers(expression)
                assert value == int(total) == 24
                assert numbers.total() == 4
                dealt.append(numbers)
        assert all(numbers == dealt[0] for numbers in dealt)


def test_gsm8k():
    groups = groups_of("gsm8k_sample.jsonl")
    assert len(groups) == 40
    for group in groups:
        assert set(group) == {"group_id", "kind", "prompt", "label", "rollouts"}
        assert group["kind"] == "math"
        assert len({rollout["meta"]["model"] for rollout in group["rollouts"]}) == len(group["rollouts"]) == 4
        for rollout in group["rollouts"]:
            assert set(rollout) == {"text", "correct", "meta"}
            answer = rollout["text"].rpartition("\nA: ")[2].replace(",", "")
            assert rollout["correct"] is (answer == group["label"])


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
