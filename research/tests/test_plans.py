"""The plans whose runs are to come: short, about these questions and no others, and their counts multiply."""

import hashlib
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLANS = {f"campaign-e{n}": (ROOT / "docs" / f"campaign-e{n}.md").read_text(encoding="utf-8") for n in (8, 9, 10)}
QUESTIONS = ROOT.parent / "examples" / "real_model"


@pytest.mark.parametrize("plan", PLANS)
def test_a_plan_is_one_page(plan):
    assert sum(bool(re.search(r"\w", word)) for word in PLANS[plan].split()) <= 700


@pytest.mark.parametrize("name", ["questions.jsonl", "forms.json"])
def test_the_plan_is_about_these_questions(name):
    digest = hashlib.sha256((QUESTIONS / name).read_bytes()).hexdigest()
    assert f"{name.ljust(16)} {digest}" in PLANS["campaign-e8"]


@pytest.mark.parametrize(("plan", "sentences"), [("campaign-e8", 2), ("campaign-e9", 3), ("campaign-e10", 3)])
def test_runs_are_counted(plan, sentences):
    counted = re.findall(r"((?:\d+ \w+\s+x\s+)+\d+\s+seeds)\s+=\s+(\d+)\s+runs", PLANS[plan])
    assert len(counted) == sentences
    for factors, runs in counted:
        assert math.prod(map(int, re.findall(r"\d+", factors))) == int(runs), factors


@pytest.mark.parametrize("plan", PLANS)
def test_bars_are_numbered_and_each_has_one(plan):
    rows = [line.split("|")[1:-1] for line in PLANS[plan].splitlines() if re.match(r"\| \d+ \|", line)]
    assert [int(row[0]) for row in rows] == list(range(1, len(rows) + 1))
    assert all(row[-1].strip() for row in rows)
