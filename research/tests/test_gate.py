"""The gate of the retired method, against its definition; and examining answers as the service does."""

from itertools import product

import numpy as np
import pytest

import dare_reward
from dare_research.training.examine import grade
from dare_research.training.families import Exercise
from dare_research.training.gate import MAJORITY, RIVAL, agreement, trust
from dare_reward.groups import Groups


def plain(answers, entropies):
    """A by comparing every pair of rollouts."""
    names = sorted(set(answers), key=lambda a: (-answers.count(a), answers.index(a)))
    if len(names) < 2 or answers.count(names[0]) < MAJORITY * len(answers):
        return np.nan
    if answers.count(names[1]) < max(RIVAL * len(answers), 1):
        return np.nan
    own, other = ([h for a, h in zip(answers, entropies) if a == name] for name in names[:2])
    return np.mean([(x < y) + (x == y) / 2 for x, y in product(own, other)])


def test_agreement_is_the_chance_over_all_pairs():
    rng = np.random.default_rng(0)
    answers = [rng.choice(list("aaaabc"), size=24).tolist() for _ in range(40)] + [["a"] * 24, ["a", "b"] * 12]
    entropies = np.round(rng.random((42, 24)), 1).tolist()
    groups = Groups.of(answers, mean_entropy=entropies)
    expected = [plain(a, h) for a, h in zip(answers, entropies)]
    assert 5 < np.isnan(expected).sum() < 40
    np.testing.assert_allclose(agreement(groups, np.ones(42, bool)), expected)
    assert np.isnan(agreement(groups, np.zeros(42, bool))).all()


def test_trust_grows_with_what_was_seen():
    # A^ = (2 + 1) / (4 + 1) = .6 after one group with A = 1, which is full trust; (2 + 1) / 6 = .5 with one of A = 0
    found = trust(np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]]))
    assert found.tolist() == pytest.approx([1.0, 0.0, 0.0])
    assert trust(np.array([[0.625]])).tolist() == pytest.approx([0.5])  # A^ = 2.625 / 5 = .525


def test_the_study_grades_what_the_service_grades():
    """Cut off without a box, cut off behind a closed one, ended without an answer, an empty rollout."""
    texts = [
        ("\\boxed{42}", "stop", 5),
        ("\\boxed{41}", "stop", 5),
        ("The answer is 42", "length", 5),
        ("The answer is 42", "stop", 5),
        ("\\boxed{42} and so", "length", 5),
        ("\\boxed{4", "length", 5),
        ("no", "stop", 1),
        ("", "stop", 0),
    ]
    rollouts = [{"text": t, "finish_reason": f, "num_tokens": n, "mean_entropy": 0.1} for t, f, n in texts]
    exercises = [("sub", Exercise("D50-8>", lambda _: ([], "42")))] * 2
    found = grade(exercises, [rollouts, rollouts[::-1]], [5] * 16)
    groups = [
        {"group_id": str(i), "kind": "exact", "label": "42", "rollouts": r}
        for i, r in enumerate((rollouts, rollouts[::-1]))
    ]
    reply = dare_reward.estimate(groups, method="gt")
    assert found.correct_R.tolist() == [r for g in reply.groups for r in g.rewards]
    assert found.correct_R[:8].tolist() == [1, 0, 0, 1, 1, 0, 0, 0]
    assert found.groups.valid_R.tolist() == [v for g in reply.groups for v in g.valid]
