"""What a page of many groups holds and does: `pytest tests/bench/test_page_growth.py -s`. Counted, not timed."""

import pickle
import random
import sys

import pytest

from dare_reward.report.book import RunBook
from dare_reward.report.view import view

pytestmark = pytest.mark.bench

LOOKS = (40_000, 80_000, 1_000_000)
BATCH = 1000


def line(i, draw):
    votes = [draw.randint(1, 9) for _ in range(4)]
    return {
        "v": 1, "run": "r", "step": i // 8, "group_id": f"prompt {i % 20_000}", "method": "ttrl", "config_id": "c", "error": None,
        "answers": ["1", "1", str(votes[0]), None], "rewards": [1.0, 1.0, 0.0, 0.0], "keep": [True, True, False, False],
        "valid": [True, True, True, False], "pseudo_label": str(votes[1]), "flags": [], "correct": [True, False, True, False],
        "diagnostics": {"majority_ratio": 0.5, "label_accuracy": votes[2] % 2}, "num_tokens": [3, 5, 8, 4],
        "mean_entropies": [0.1, 0.2, 0.1 * votes[3], None],
        "support": [{"answer": "1", "count": 2, "kept": True}, {"answer": str(votes[0]), "count": 1, "kept": False}],
    }  # fmt: skip


def calls(function):
    """How many functions of Python or C it calls."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


def test_a_million_groups_do_not_grow_the_page(report):
    book, draw, found, at = RunBook(), random.Random(3), [], 0

    def add():
        for i in range(at, at + BATCH):
            book.add(line(i, draw))

    for look in LOOKS:
        while at < look - BATCH:
            add()
            at += BATCH
        adding = calls(add)
        at += BATCH
        found.append((len(pickle.dumps(book)), calls(lambda: view(book)), adding))
    for what, *values in zip(("bytes of the book, pickled", "calls of a view", "calls of 1,000 groups"), *found):
        report(
            f"a page of {', '.join(f'{n:,}' for n in LOOKS)} groups: {what}",
            ", ".join(f"{v:,}" for v in values),
            "",
            "bounded",
        )
        assert values[2] <= 1.5 * max(values[:2])
