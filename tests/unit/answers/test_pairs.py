"""The pairs of answers with a reason: every verdict, in both orders, alone and in a group."""

from collections import Counter
from itertools import combinations
from pathlib import Path

from jsonl import read_lines

from dare_reward.answers import canonical, classify, grade
from dare_reward.answers.keys import is_answer

DATA = Path(__file__).parents[2] / "data"
SETS = {name: read_lines(DATA / name) for name in ("answer_pairs.jsonl", "answer_pairs_blind.jsonl.gz")}
PAIRS = [pair for pairs in SETS.values() for pair in pairs]


def options_of(pair):
    return {"kind": pair["kind"], "options": pair.get("options")}


def test_the_set_is_large_and_mixed():
    assert len(PAIRS) >= 500
    assert {p["kind"] for p in PAIRS} == {"math", "choice", "text", "exact"}
    share = sum(p["equal"] for p in PAIRS) / len(PAIRS)
    assert 0.4 < share < 0.8
    assert all(p["reason"] and p["category"] for p in PAIRS)
    for pairs in SETS.values():
        assert max(Counter((p["a"], p["b"], p["kind"], str(p.get("options"))) for p in pairs).values()) == 1


def test_verdicts():
    wrong = [
        (p["category"], p["a"], p["b"], p["equal"])
        for p in PAIRS
        if not (grade(p["a"], p["b"], **options_of(p)) == grade(p["b"], p["a"], **options_of(p)) == p["equal"])
    ]
    assert wrong == []


def test_grade_is_a_group_of_two():
    for p in PAIRS:
        index = classify([p["a"], p["b"]], **options_of(p)).index
        assert grade(p["a"], p["b"], **options_of(p)) == (index[0] == index[1] >= 0), p


def test_each_answer_equals_itself_unless_it_is_none():
    for p in PAIRS:
        for side in "ab":
            text = p[side]
            some = canonical(text, **options_of(p)) is not None
            assert grade(text, text, **options_of(p)) == is_answer(text, **options_of(p)) == some, text


def test_keys_are_transitive_over_all_texts():
    """Without tags equality is equality of keys; so any triple agrees. The texts of one kind are compared all with all."""
    texts = sorted({p[side] for p in PAIRS for side in "ab" if p["kind"] == "math"})
    keys = {t: canonical(t) for t in texts}
    plain = [t for t in texts if keys[t] is not None and not keys[t].tag]
    by_key = {}
    for t in plain:
        by_key.setdefault(keys[t], []).append(t)
    for same in by_key.values():
        assert all(grade(a, b) for a, b in combinations(same[:6], 2))
    firsts = [same[0] for same in by_key.values()]
    assert not any(grade(a, b) for a, b in combinations(firsts[:150], 2))
