"""Endings written by someone who had not seen the extractor; an extraction is right if it grades equal."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from dare_reward.answers import extract as extract_all
from dare_reward.answers import grade

extract = partial(extract_all, unmarked="none")  # announcements, and nothing else

ENDINGS = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "data" / "answer_endings_blind.jsonl")
    .read_text(encoding="utf-8")
    .splitlines()
]


def wrong(ending):
    """What was found instead, if it is not what is expected."""
    found = extract(
        ending["text"],
        kind=ending["kind"],
        options=ending.get("options"),
        closed_only=ending.get("closed_only", False),
    ).answer
    want = ending["expect"]
    if want is None or ending["kind"] == "choice":
        return [] if found == want else [(ending, found)]
    return [] if grade(found, want, kind=ending["kind"]) else [(ending, found)]


def test_the_set_is_large():
    assert len(ENDINGS) >= 2_100
    assert sum(e["expect"] is not None for e in ENDINGS) > 1_000


@pytest.mark.parametrize(("batch", "kind"), sorted({(e["batch"], e["kind"]) for e in ENDINGS}))
def test_endings(batch, kind):
    chosen = [e for e in ENDINGS if (e["batch"], e["kind"]) == (batch, kind)]
    assert [found for ending in chosen for found in wrong(ending)] == []
