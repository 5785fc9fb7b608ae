r"""What `answers_version` 3 reads anew: `\log` by a parameter, computations that end a derivation, V and V_max, and why
a rollout has no answer. Each derivation is from a real rollout's box, shortened."""

import pytest

import dare_reward
from dare_reward.answers import classify, grade


@pytest.mark.parametrize(
    ("one", "other", "decimal", "natural"),
    [
        (r"\log 8", r"\ln 8", False, True),
        (r"3\log 2", r"\log 8", True, True),
        (r"\log 100", "2", True, False),
        (r"\log_2 8", "3", True, True),
        (r"\lg 100", "2", True, True),
    ],
)
def test_log_without_a_base(one, other, decimal, natural):
    assert grade(one, other) is decimal
    assert grade(one, other, log="natural") is natural


@pytest.mark.parametrize(
    ("box", "value"),
    [
        (r"x = 2,\ y = 8 \implies x = 2,\ x + y = 2 + 8 = 10", "10"),
        (r"\text{Given } u = -6, \ v = u + 2 = -6 + 2 = -4", "-4"),
    ],
)
def test_a_derivation_ends_with_its_last_computation(box, value):
    assert grade(box, value)
    assert not grade(box, "2")


def test_a_pair_of_equations_stays_a_pair():
    assert not grade(r"x = 2,\ y = 8", "8")


def test_a_name_is_the_same_name_with_a_word_for_its_index():
    assert classify([r"V_{\text{max}} = 12", "V = 12", "12"]).index == (0, 0, 0)
    assert classify(["x_{1} = 12", "x_{2} = 12"]).index == (0, 1)


def test_a_reply_counts_why_there_is_no_answer():
    texts = [r"so \boxed{1}", "perhaps", "<think> first", "", "still none"]
    groups = [{"rollouts": [{"text": text} for text in texts]}]
    (group,) = dare_reward.estimate(groups, method="ttrl").groups
    assert group.diagnostics["no_answer"] == {"empty": 1, "thinking": 1, "unannounced": 2}
    assert sum(group.diagnostics["no_answer"].values()) == group.valid.count(False)
