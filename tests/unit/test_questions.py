"""The question set of examples/real_model: that the answers room can read and tell its spellings. Its shape: test_examples.py."""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from dare_reward.answers import canonical, extract

HERE = Path(__file__).parents[2] / "examples" / "real_model"
QUESTIONS = [json.loads(line) for line in (HERE / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
FAMILIES = ("capital", "city", "continent", "currency", "element", "opposite", "past", "times")


def keys(row):
    return {canonical(spelling, kind=row["kind"]) for spelling in row["accepted"]}


def test_spellings_are_read():
    """Each by itself, and as the reasoned form announces it."""
    for row in QUESTIONS:
        for spelling in row["accepted"]:
            announced = extract(f"A thought.\nAnswer: {spelling}", kind=row["kind"]).answer
            key = canonical(spelling, kind=row["kind"])
            assert key is not None, row["id"]
            assert canonical(announced, kind=row["kind"]) == key, (row["id"], spelling)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_spelling_is_that_of_another_label(family):
    """Within a family: a spelling that two labels accept would make one of them right by accident."""
    labels = defaultdict(set)
    for row in QUESTIONS:
        if row["family"] == family:
            for key in keys(row):
                labels[key].add(row["label"])
    assert [sorted(found) for found in labels.values() if len(found) > 1] == []
