"""The worked examples of other methods and of advantages in tests/golden/dare.json hold to 1e-9."""

import json
from pathlib import Path

import numpy as np
import pytest
from exact import exact
from said import said, scored

import dare_reward
from dare_reward.advantages import advantages, pass_at_k_pair

pytestmark = pytest.mark.usefixtures("plugins")

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "dare.json").read_text())
CASES = GOLDEN["baseline_cases"]
TOLERANCE = GOLDEN["tolerance"]


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=TOLERANCE)


def score(rollouts, method, group=(), **params):
    found = scored(rollouts, method, dict(group), **params)
    assert found.error is None, found.error
    return found


def test_every_worked_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(CASES) <= tested


def test_empo():
    case = CASES["empo"]
    close(score(said(case["answers"]), "empo").rewards, case["expected"]["exclude_invalid_from_reward"])
    found = score(said(case["answers"]), "empo", no_answer="singleton").rewards
    close(found, case["expected"]["verl_release_empty_is_singleton"])


def test_scrl():
    case = CASES["scrl"]
    config = case["config"]
    names = {
        "tau_pos": "tau_pos",
        "tau_marg": "tau_marg",
        "tau_neg": "tau_neg",
        "lambda_h": "lambda_h",
        "invalid": "invalid",
    }
    rollouts = [
        {"answer": a, "mean_entropy": e} for a, e in zip(case["answers"], case["rollout_mean_entropy"], strict=True)
    ]
    group = score(rollouts, "scrl", **{names[k]: v for k, v in config.items()})
    close(group.rewards, case["expected"]["rewards"])
    assert group.pseudo_label == case["expected"]["positive"]
    assert group.diagnostics["negatives"] == len(case["expected"]["negatives"])
    binary = score(rollouts, "scrl", form="binary").rewards
    negatives = case["expected"]["negatives"]
    assert binary == tuple(
        -1.0 if a is None or a in negatives else float(a == case["expected"]["positive"]) for a in case["answers"]
    )


def test_rent():
    case = CASES["rent"]
    rollouts = [
        {"answer": "1" if ok else None, "token_entropies": e}
        for ok, e in zip(case["extractable"], case["token_entropies"], strict=True)
    ]
    group = score(rollouts, "rent", invalid_entropy=case["config"]["invalid_entropy"])
    close(group.rewards, case["expected"]["format_on"])
    close(score(rollouts, "rent", format_rule=False).rewards, case["expected"]["format_off"])


def test_em_rl():
    case = CASES["em_rl"]
    logprobs = [{"answer": None, "token_logprobs": x} for x in case["token_logprobs"]]
    close(score(logprobs, "em_rl_sequence").rewards, case["expected"]["sequence"])
    entropies = [{"answer": None, "token_entropies": x} for x in case["token_entropies"]]
    close(score(entropies, "em_rl_token").rewards, case["expected"]["token"])


def test_intuitor():
    case = CASES["intuitor"]
    logits = np.array(case["logits"])[0]
    certainty = np.log(np.exp(logits).sum(axis=1)) - logits.mean(axis=1)
    rollouts = [{"answer": "1", "token_self_certainty": certainty.tolist()}]
    close(score(rollouts, "intuitor").rewards, [case["expected"]["code_value"]])
    kl = score(rollouts, "intuitor", returned="kl", vocab_size=logits.shape[1]).rewards
    close(kl, [case["expected"]["kl_uniform"]])
    back = [{"answer": "1", "mean_self_certainty": kl[0]}]
    found = score(back, "intuitor", sent="kl", returned="code", vocab_size=logits.shape[1]).rewards
    close(found, [case["expected"]["code_value"]])


def test_evol_rl():
    case = CASES["evol_rl"]
    rows = zip(case["embeddings"], case["majority"], case["valid"], strict=True)
    # Any answers with that majority class: the minority of three is of three different answers.
    rollouts = [
        {"answer": ("7" if m else f"1{i}") if ok else "none", "embedding": e} for i, (e, m, ok) in enumerate(rows)
    ]
    close(score(rollouts, "evol_rl").rewards, case["expected"])


def test_self_harmony():
    case = CASES["self_harmony"]
    group = score(said(case["view_0"]), "self_harmony", {"second_group": said(case["view_1"])})
    assert group.pseudo_label == case["expected"]["label"]
    close(group.rewards, case["expected"]["rewards_0"])
    close(group.second_rewards, case["expected"]["rewards_1"])


def test_co_rewarding_1():
    case = CASES["co_rewarding_1"]
    group = score(said(case["original"]), "co_rewarding_1", {"second_group": said(case["paraphrase"])})
    assert group.pseudo_label == case["expected"]["label_for_original"]
    close(group.rewards, case["expected"]["rewards_original"])
    close(group.second_rewards, case["expected"]["rewards_paraphrase"])


def test_rlpr():
    case = CASES["rlpr"]
    rollouts = [
        {"answer": "1", "ref_token_probs": p, "base_ref_mean_prob": case["base_mean_prob"], "format": f}
        for p, f in zip(case["ref_token_probs"], case["format"], strict=True)
    ]
    group = score(rollouts, "rlpr", {"reference": "1"}, **case["config"])
    close(group.rewards, case["expected"])


def test_verifree():
    case = CASES["verifree"]
    rollouts = [{"answer": "1", "ref_token_probs": p} for p in case["ref_token_probs"]]
    close(score(rollouts, "verifree", {"reference": "1"}).rewards, case["expected"])


def test_cocov_pass_at_k_advantage():
    for name, expected in CASES["cocov_pass_at_k_advantage"].items():
        n, failed, k = (int(part.split("=")[1]) for part in name.split(","))
        close(pass_at_k_pair(n, failed, k), [expected["a_pos"], expected["a_neg"]])
        rollouts = [{"answer": "1" if i >= failed else f"x{i}"} for i in range(n)]
        if n - failed > 1:
            group = score(rollouts, "cocov", k=k, tau_high=1.0, length_weight=0.0)
            close(group.advantages, [expected["a_neg"]] * failed + [expected["a_pos"]] * (n - failed))
            assert group.rewards is None


@pytest.mark.parametrize("case", GOLDEN["majority_vote_cases"], ids=lambda c: c["tie"])
def test_majority_vote(case):
    close(score(said(case["input"]["answers"]), "ttrl", tie=case["tie"]).rewards, case["expected"])


@pytest.mark.parametrize("case", GOLDEN["advantage_cases"], ids=lambda c: c["from_case"])
def test_advantages(case):
    rewards = np.array(case["rewards"])
    for name, expected in case["expected"].items():
        close(advantages(name, rewards, np.array([len(rewards)])), expected)


def test_weighted_vote_is_the_hard_label_of_dares_distribution():
    rng = np.random.default_rng(0)
    said = [[*map(str, rng.integers(0, 4, 16))] for _ in range(20)]
    groups = exact(said, mean_entropy=[rng.gamma(1, 0.3, 16).tolist() for _ in said])
    soft = dare_reward.estimate(groups, method="dare_dist").groups
    hard = dare_reward.estimate(groups, method="weighted_vote").groups
    for one, two in zip(soft, hard, strict=True):
        best = max(one.support, key=lambda s: s.p_hat).answer
        assert two.pseudo_label == best
        assert two.rewards == tuple(float(a == best) for a in two.answers)
        assert [s.p_hat for s in one.support] == [s.p_hat for s in two.support]
