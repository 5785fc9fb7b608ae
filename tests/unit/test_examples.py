"""The shipped sample files are those that were checked; recipes ask for what there is."""

import ast
import hashlib
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dare_reward
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

EXAMPLES = Path(__file__).parents[2] / "examples"
# What lies in these files was checked once, by what they are alone: entropies within their bounds and equal over a shared
# prefix, marks that exact arithmetic gives again, ids that stand once, the figures of examples/README.md and of pictures
# (`git log -S test_game24 -- tests/unit/test_examples.py`, and test_questions.py of that time).
CHECKED = {
    "arithmetic_m64.jsonl": "e22080d3a260cee0220eb4325729584a6075cdcc0b79b52784f39c38586f8414",
    "game24_sample.jsonl": "c6bcb68d1b9777fc8ad523decd1f87fa5e77c227397c2d3fa00072fb71cab1b8",
    "gsm8k_sample.jsonl": "f29595000b4fedb47dd8c03feacb2bd4d7e749fbaac7fb931aec8a2a113df824",
    "qwen_math_m16.jsonl": "5f4145a68b5805d61cba64c4ebf0b76a957099f2d3ee7b6fbe1a7bc1dd705392",
    "smollm2_m64.jsonl": "cb00d206537e62a9d6745bd954a14d556f9026a2d64b49844f2ad6ae79ac3b17",
    "real_model/forms.json": "e5062a574d2cfc3e5504178dc016af4f2794e589e1d3fc5370a5a660580e9627",
    "real_model/questions.jsonl": "f55823bfb04926c9dd17af396b4435d1f1542ade567b3704e1ff4cd6d946d2f1",
}


def test_the_files_are_those_that_were_checked():
    assert {path.name for path in EXAMPLES.glob("*.jsonl")} == {name for name in CHECKED if "/" not in name}
    assert {name: hashlib.sha256((EXAMPLES / name).read_bytes()).hexdigest() for name in CHECKED} == CHECKED


RECIPES = sorted(file for file in (EXAMPLES / "stacks").glob("*.py") if "Read only" in file.read_text(encoding="utf-8"))


@pytest.mark.parametrize("file", RECIPES, ids=lambda file: file.stem)
def test_a_recipe_asks_for_what_the_adapters_have(file):
    text = file.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    froms = (n for n in nodes if isinstance(n, ast.ImportFrom) and n.module == "dare_reward.stacks.adapter")
    names = {name.name for node in froms for name in node.names}
    assert names <= set(vars(import_module("dare_reward.stacks.adapter")))
    assert "Scorer" in names
    assert ".rewards_alone(" in text, "what it does not do it refuses"
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    called = {ast.unparse(c.args[0]) for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "group"}
    assert called <= {"uuid4().hex", "k"}, "a place in the batch is another prompt in the next, and its label a flip"


def test_the_page_of_recipes_names_each_file():
    page = (EXAMPLES.parent / "docs" / "stacks" / "recipes.md").read_text(encoding="utf-8")
    assert {file.name for file in RECIPES} == set(re.findall(r"examples/stacks/(\w+\.py)\)", page))


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
