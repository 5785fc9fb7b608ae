"""dare_plus: entropy counts as far as clear majorities say that it can be trusted."""

import pytest

import dare_reward


def group(name, *rollouts):
    return {
        "group_id": name,
        "kind": "exact",
        "rollouts": [{"answer": a, "mean_entropy": h} for a, h in rollouts],
    }


def clear(name, majority, other):
    """Three of four agree; entropies of the majority's rollouts and of the other."""
    return group(name, *(("a", h) for h in majority), ("b", other))


HARD = group("hard", ("x", 0.1), ("y", 0.4), ("y", 0.4), ("z", 0.2), ("w", 0.3), (None, 0.3))
LOWER = [clear(f"low{i}", (0.1, 0.2, 0.1), 0.5) for i in range(4)]  # A = 1
HIGHER = [clear(f"high{i}", (0.4, 0.5, 0.4), 0.1) for i in range(4)]  # A = 0


def rewards(groups, method="dare_plus", **params):
    consent = {"allow_experimental": True} if method == "dare_plus" else {}
    return dare_reward.estimate(groups, method=method, **params, **consent).groups


def test_trusted_entropy_gives_the_distribution_of_dare():
    found = rewards([*LOWER, HARD])
    expected = rewards([*LOWER, HARD], "dare_dist")
    for one, other in zip(found, expected, strict=True):
        assert one.rewards == pytest.approx(other.rewards, abs=1e-12)
        assert one.entropy_source == "exact"
    assert found[-1].rewards[0] > found[-1].rewards[1] / 2  # the surer single vote gains


@pytest.mark.parametrize("others", [HIGHER, LOWER[:2], []], ids=["misleading", "too few", "alone"])
def test_otherwise_votes_alone_count(others):
    found = rewards([*others, HARD])[-1]
    assert found.rewards == pytest.approx([0.2, 0.4, 0.4, 0.2, 0.2, 0.0])
    assert found.entropy_source == "none"
    assert "entropy_not_trusted" in found.flags


def test_trust_between_is_an_exponent():
    """Of four clear groups three have A = 1 and one A = 0, so A = 3/4: half trusted if 1 is full."""
    found = rewards([*LOWER[:3], HIGHER[0], HARD], full=1.0)[-1]
    weights = {"x": 1 / 0.15**0.5, "y": 2 / 0.45**0.5, "z": 1 / 0.25**0.5, "w": 1 / 0.35**0.5}
    total = sum(weights.values())
    assert found.rewards == pytest.approx([weights[a] / total for a in "xyyzw"] + [0.0], rel=1e-12)


def test_ties_in_entropy_are_one_half():
    same = [clear(str(i), (0.2, 0.2, 0.2), 0.2) for i in range(4)]
    assert "entropy_not_trusted" in rewards([*same, HARD])[-1].flags
    half = [*same[:2], *LOWER[:2]]  # A = 3/4
    assert rewards([*half, HARD], full=1.0)[-1].rewards == pytest.approx(
        rewards([*LOWER[:3], HIGHER[0], HARD], full=1.0)[-1].rewards
    )


def test_only_clear_majorities_are_asked():
    unclear = [group(str(i), ("a", 0.1), ("b", 0.9), ("c", 0.9)) for i in range(9)]
    assert "entropy_not_trusted" in rewards([*unclear, HARD])[-1].flags
    assert "entropy_not_trusted" not in (rewards([*unclear, HARD], majority=0.3)[-1].flags or ())


def test_a_group_without_entropies_neither_judges_nor_is_harmed():
    bare = {"group_id": "bare", "kind": "exact", "rollouts": [{"answer": a} for a in "aab"]}
    found = rewards([*LOWER, bare, HARD], missing_entropy="frequency")
    assert found[-2].rewards == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert found[-1].rewards == pytest.approx(rewards([*LOWER, HARD])[-1].rewards)
    failed = rewards([*LOWER, bare, HARD])
    assert failed[-2].error.code == "missing_entropy"
    assert failed[-1].rewards == pytest.approx(found[-1].rewards)
