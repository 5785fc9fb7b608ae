"""The golden cases of tests/golden/dare.json (two independent implementations made them) hold to 1e-9."""

import json
from pathlib import Path

import numpy as np
from rows import each
from said import said, scored

import dare_reward
from dare_reward.segments import segment_means

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "dare.json").read_text())
TOLERANCE = GOLDEN["tolerance"]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def config(case):
    """The golden names are the contract's, but for the two that DESIGN of the golden file merges into bonus_m."""
    out = {k: v for k, v in case["config"].items() if k not in {"bonus_M", "M_pre"}}
    out["bonus_m"] = {"retained": "retained", "all": case["config"]["M_pre"]}[case["config"]["bonus_M"]]
    return out


def score(answers, entropies, **params):
    return scored(said(answers, mean_entropy=entropies), "dare", **params)


@each("case", GOLDEN["cases"])
def test_dare(case):
    given, expected = case["input"], case["expected"]
    group = score(given["answers"], given["rollout_mean_entropy"], **config(case))
    assert [s.answer for s in group.support] == expected["answers"]
    assert [s.answer for s in group.support if s.kept] == expected["kept"]
    assert list(group.keep) == expected["keep_mask"]
    close([s.count for s in group.support], expected["n"])
    close([s.uncertainty for s in group.support], expected["u"])
    close([s.p_hat for s in group.support], expected["p_hat"])
    close([s.p for s in group.support], expected["p_tilde"])
    close([s.bonus for s in group.support if s.kept], [b for s, b in zip(group.support, expected["b_tilde"]) if s.kept])
    close([s.reward for s in group.support], expected["answer_reward"])
    close(group.rewards, expected["rewards"])
    if expected["flag"]:
        assert expected["flag"] in group.flags
    weights = np.array(expected["w"])
    if weights.size:
        close([s.p_hat for s in group.support], weights / weights.sum())


@each("case", GOLDEN["cases"])
def test_the_bonus_before_pruning(case):
    """Without pruning nothing is recomputed, so b~ is the golden column `bonus`."""
    given, expected = case["input"], case["expected"]
    group = score(given["answers"], given["rollout_mean_entropy"], **{**config(case), "tau": 0.0, "bonus_m": "valid"})
    close([s.bonus for s in group.support], expected["bonus"])


def test_entropy_aggregation():
    """Eq. 9 is a mean of per-rollout means, not of pooled tokens."""
    case = GOLDEN["token_entropy_cases"][0]
    rows = case["token_entropies"]
    means = segment_means(np.concatenate([np.array(r) for r in rows]), np.array([len(r) for r in rows]))
    close(means, case["expected"]["rollout_mean"])
    rollouts = [{"answer": a, "token_entropies": r} for a, r in zip(case["answers"], rows)]
    group = dare_reward.estimate([{"rollouts": rollouts}]).groups[0]
    wanted = case["expected"]["u_mean_of_means"]
    close([s.uncertainty for s in group.support], [wanted[s.answer] for s in group.support])
