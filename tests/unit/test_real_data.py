"""Real rollouts (tests/data/README.md), scored by votes and compared with a count that shares no code with ours."""

import gzip
import json
import operator
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import pytest

import dare_reward
import dare_reward.answers

DATA = Path(__file__).parents[1] / "data"
ALPHA, TAU = 0.1, 0.05


def load(name):
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def last_after(text, mark):
    found = re.findall(mark + r"[ ]*(.*)", text)
    return found[-1].strip() if found else ""


def words(text):
    """The text rule: blanks folded, words of two or more letters without case, a final full stop dropped."""
    folded = re.sub(r"[^\W\d_]{2,}", lambda m: m[0].lower(), " ".join(text.split()))
    return folded.removesuffix(".").strip(' "')


def number(text):
    found = text.replace(",", "").replace("$", "").strip()
    return Fraction(found) if re.fullmatch(r"-?\d+(\.\d+)?", found) else None


def expected_rewards(keys):
    """DARE without entropies (missing_entropy=frequency), from the equations."""
    votes = Counter(k for k in keys if k)
    total = sum(votes.values())
    kept = {k: n for k, n in votes.items() if n / total >= TAU - 1e-12}
    survivors = sum(kept.values())
    return [kept[k] / survivors + ALPHA * (1 - kept[k] / survivors) if k in kept else 0.0 for k in keys]


def check(group, reply, keys):
    """Same partition, same votes, same rewards."""
    pairs = {(k, a) for k, a in zip(keys, reply.answers)}
    assert len(pairs) == len({k for k, _ in pairs}) == len({a for _, a in pairs}), group["group_id"]
    assert reply.valid == tuple(bool(k) for k in keys)
    votes = Counter(k for k in keys if k)
    assert sorted(s.count for s in reply.support) == sorted(votes.values())
    assert max((s.count for s in reply.support), default=0) == max(votes.values(), default=0)
    assert list(reply.rewards) == pytest.approx(expected_rewards(keys), abs=1e-12)


def test_game24():
    groups = load("game24_gpt4_m100")
    assert len(groups) == 50
    reply = dare_reward.estimate(groups, missing_entropy="frequency")
    for group, found in zip(groups, reply.groups):
        check(group, found, [words(last_after(r["text"], "(?:Answer:|the answer is)")) for r in group["rollouts"]])


def test_gsm8k():
    groups = load("gsm8k_4models")
    assert len(groups) == 330
    reply = dare_reward.estimate(groups, missing_entropy="frequency")
    checked = 0
    for group, found in zip(groups, reply.groups):
        keys = [number(last_after(r["text"], "(?m:^)A:")) for r in group["rollouts"]]
        if None not in keys:  # an answer that is no plain number: the independent count does not judge it
            check(group, found, [str(k) for k in keys])
            checked += 1
    assert checked >= 300


def test_grading_agrees_with_the_published_marks():
    """Two small models of the file, wrong or right by the authors' own check."""
    groups = load("gsm8k_4models")
    rollouts = [(g["label"], r) for g in groups for r in g["rollouts"]]
    marks = [rollout.pop("correct") for _, rollout in rollouts]
    reply = dare_reward.estimate(groups, missing_entropy="frequency")
    answers = [a for f in reply.groups for a in f.answers]
    ours = [a is not None and dare_reward.answers.grade(a, label) for a, (label, _) in zip(answers, rollouts)]
    assert sum(map(operator.eq, ours, marks)) / len(rollouts) > 0.99
