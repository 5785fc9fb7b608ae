"""Endings written by someone who had not seen the extractor; an extraction is right if it grades equal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dare_reward.answers import extract, grade

ENDINGS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "answer_endings_blind.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda e: f"{e['batch']}-{e['kind']}-{e['category']}-{e['reason']}")
def test_ending(ending):
    found = extract(
        ending["text"],
        kind=ending["kind"],
        options=ending.get("options"),
        closed_only=ending.get("closed_only", False),
    ).answer
    want = ending["expect"]
    if want is None or ending["kind"] == "choice":
        assert found == want
    else:
        assert grade(found, want, kind=ending["kind"]), found
