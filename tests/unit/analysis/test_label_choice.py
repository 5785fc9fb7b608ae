"""`dare_reward.commands.label` against values of another implementation."""

import json
from pathlib import Path

import pytest

from dare_reward.commands.label import contested
from dare_reward.groups import Groups

CASES = json.loads((Path(__file__).parents[2] / "golden" / "labels.json").read_text(encoding="utf-8"))["cases"]


def test_contested_is_the_golden_value():
    groups = Groups.of([[r["answer"] for r in c["rollouts"]] for c in CASES])
    assert contested(groups) == pytest.approx([c["contested"] for c in CASES], rel=1e-9, abs=1e-12)
