"""The worked examples of other methods and of advantages in tests/golden/dare.json hold to 1e-9."""

import json
from pathlib import Path

import numpy as np
import pytest
from said import exact, said, scored

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


def silent(name):
    return lambda case: said("." * len(case[name]), **{name: case[name]})


def rented(case):
    return said(["1" if ok else None for ok in case["extractable"]], token_entropies=case["token_entropies"])


def embedded(case):
    """Any answers with that majority class: the minority of three is of three different answers."""
    rows = enumerate(zip(case["majority"], case["valid"], strict=True))
    answers = [("7" if most else f"1{i}") if ok else "none" for i, (most, ok) in rows]
    return said(answers, embedding=case["embeddings"])


def referred(case):
    probabilities, format_ = case["ref_token_probs"], case.get("format")
    base = [case.get("base_mean_prob")] * len(probabilities) if format_ else None
    return said("1" * len(probabilities), ref_token_probs=probabilities, format=format_, base_ref_mean_prob=base)


# The example, the method, its rollouts, its further inputs, its parameters, and what of the reply is which expectation.
EXAMPLES = [
    ("empo", "empo", lambda c: said(c["answers"]), {}, {}, {"rewards": "exclude_invalid_from_reward"}),
    ("empo", "empo", lambda c: said(c["answers"]), {}, {"no_answer": "singleton"}, {"rewards": "verl_release_empty_is_singleton"}),
    ("rent", "rent", rented, {}, CASES["rent"]["config"], {"rewards": "format_on"}),
    ("rent", "rent", rented, {}, {"format_rule": False}, {"rewards": "format_off"}),
    ("em_rl", "em_rl_sequence", silent("token_logprobs"), {}, {}, {"rewards": "sequence"}),
    ("em_rl", "em_rl_token", silent("token_entropies"), {}, {}, {"rewards": "token"}),
    ("evol_rl", "evol_rl", embedded, {}, {}, {"rewards": None}),
    ("self_harmony", "self_harmony", lambda c: said(c["view_0"]), {"second_group": "view_1"}, {}, {
        "pseudo_label": "label", "rewards": "rewards_0", "second_rewards": "rewards_1"}),
    ("co_rewarding_1", "co_rewarding_1", lambda c: said(c["original"]), {"second_group": "paraphrase"}, {}, {
        "pseudo_label": "label_for_original", "rewards": "rewards_original", "second_rewards": "rewards_paraphrase"}),
    ("rlpr", "rlpr", referred, {"reference": "1"}, CASES["rlpr"]["config"], {"rewards": None}),
    ("verifree", "verifree", referred, {"reference": "1"}, {}, {"rewards": None}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "method", "made", "group", "params", "compared"), EXAMPLES, ids=lambda x: x if isinstance(x, str) else "")  # fmt: skip
def test_worked_example(name, method, made, group, params, compared):
    case = CASES[name]
    own = {key: said(case[value]) if key == "second_group" else value for key, value in group.items()}
    found = score(made(case), method, own, **params)
    for field, key in compared.items():
        expected = case["expected"] if key is None else case["expected"][key]
        if field == "pseudo_label":
            assert found.pseudo_label == expected
        else:
            close(getattr(found, field), expected)


def test_every_worked_example_is_tested():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(CASES) <= tested | {name for name, *_ in EXAMPLES}


def test_scrl():
    case = CASES["scrl"]
    expected = case["expected"]
    rollouts = said(case["answers"], mean_entropy=case["rollout_mean_entropy"])
    group = score(rollouts, "scrl", **case["config"])
    close(group.rewards, expected["rewards"])
    assert group.pseudo_label == expected["positive"]
    assert group.diagnostics["negatives"] == len(expected["negatives"])
    negatives = {None, *expected["negatives"]}
    binary = [-1.0 if a in negatives else float(a == expected["positive"]) for a in case["answers"]]
    assert list(score(rollouts, "scrl", form="binary").rewards) == binary
    for entropy in (0.1, 0.3, 0.7, 0.0):  # whose means differ by rounding
        equal = [{"answer": str(max(i - 15, 0)), "mean_entropy": entropy} for i in range(32)]
        assert list(score(equal, "scrl", form="binary").rewards) == [1] * 16 + [-1] * 16
    led = [{"answer": "a" * (i < 11) or "bcd"[max(i - 17, 0)], "mean_entropy": 0.3} for i in range(20)]  # 11, 7, 1, 1
    assert score(led, "scrl", tau_marg=0.2).pseudo_label is None  # 4 of 20: no more than the margin


def test_intuitor():
    case = CASES["intuitor"]
    logits = np.array(case["logits"])[0]
    certainty = np.log(np.exp(logits).sum(axis=1)) - logits.mean(axis=1)
    rollouts = said("1", token_self_certainty=[certainty.tolist()])
    close(score(rollouts, "intuitor").rewards, [case["expected"]["code_value"]])
    kl = score(rollouts, "intuitor", returned="kl", vocab_size=logits.shape[1]).rewards
    close(kl, [case["expected"]["kl_uniform"]])
    back = said("1", mean_self_certainty=kl)
    found = score(back, "intuitor", sent="kl", returned="code", vocab_size=logits.shape[1]).rewards
    close(found, [case["expected"]["code_value"]])


def test_cocov_pass_at_k_advantage():
    for name, expected in CASES["cocov_pass_at_k_advantage"].items():
        n, failed, k = (int(part.split("=")[1]) for part in name.split(","))
        close(pass_at_k_pair(n, failed, k), [expected["a_pos"], expected["a_neg"]])
        rollouts = said(["1" if i >= failed else f"x{i}" for i in range(n)])
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
    answers = [[*map(str, rng.integers(0, 4, 16))] for _ in range(20)]
    groups = exact(answers, mean_entropy=[rng.gamma(1, 0.3, 16).tolist() for _ in answers])
    soft = dare_reward.estimate(groups, method="dare_dist").groups
    hard = dare_reward.estimate(groups, method="weighted_vote").groups
    for one, two in zip(soft, hard, strict=True):
        best = max(one.support, key=lambda s: s.p_hat).answer
        assert two.pseudo_label == best
        assert two.rewards == tuple(float(a == best) for a in two.answers)
        assert [s.p_hat for s in one.support] == [s.p_hat for s in two.support]
