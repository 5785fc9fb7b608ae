"""What is particular to single methods: variants, flags, and the traps of the official codes."""

import json

import numpy as np
import pytest
from said import said, scored

import dare_reward
from dare_reward.errors import RequestError


@pytest.mark.parametrize("method", ["deepconf", "scope"])
def test_one_candidate_per_token_is_refused(method):
    rollouts = said("12", topk_logprobs=[[[-1.0]], [[-2.0]]], token_entropies=[[0.1], [0.1]], step_ends=[[1], [1]])
    error = scored(rollouts, method).error
    assert error.code == "topk"
    assert "surprisal" in error.message


def test_deepconf_takes_a_ready_confidence():
    rollouts = said("aabb.", confidence=[1.0, 1.0, 5.0, 0.5, 9.0])
    group = scored(rollouts, "deepconf", keep=1.0)
    assert group.pseudo_label == "b"
    assert [s.p_hat for s in group.support] == pytest.approx([2 / 7.5, 5.5 / 7.5])
    share = scored(rollouts, "deepconf", keep=1.0, reward="share")
    assert share.rewards == pytest.approx((2 / 7.5, 2 / 7.5, 5.5 / 7.5, 5.5 / 7.5, 0.0))
    kept = scored(rollouts, "deepconf", keep=0.25)
    assert kept.keep == (False, False, True, False, False)
    assert kept.rewards == (0.0, 0.0, 1.0, 1.0, 0.0)


def test_scope_per_batch_shares_one_subgroup_size(full_groups):
    sent = full_groups(count=8, size=16)
    alone = dare_reward.estimate(sent, method="scope").groups
    batch = dare_reward.estimate(sent, method="scope", choose="batch").groups
    assert len({g.diagnostics["subgroup_size"] for g in alone}) > 1
    assert len({g.diagnostics["subgroup_size"] for g in batch}) == 1


def test_scope_with_every_vote_is_the_weighted_majority():
    rollouts = said("aaabb", confidence=[1.0, 1.0, 1.0, 4.0, 4.0])
    group = scored(rollouts, "scope", drawn_share=1.0)
    assert group.rewards == (0.0, 0.0, 0.0, 1.0, 1.0)
    assert group.pseudo_label == "b"


def test_scope_counts_steps_among_the_generated_tokens():
    """Tool tokens are dropped, so the end of a step moves with them."""
    plain = {"answer": "1", "topk_logprobs": [[-1.0, -2]] * 2 + [[-3.0, -4]] * 3, "step_ends": [2]}
    masked = {
        "answer": "1",
        "topk_logprobs": [[-1.0, -2], [-9.0, -9], [-1.0, -2], [-9.0, -9], *[[-3.0, -4]] * 3],
        "token_mask": [True, False, True, False, True, True, True],
        "step_ends": [4],
    }
    rival = {"answer": "2", "confidence": 2.49}
    for first in (plain, masked):  # mean of the steps' 1.5 and 3.5
        assert scored([first, rival], "scope", drawn_share=1.0).rewards == (1.0, 0.0)
        surer = [first, {**rival, "confidence": 2.51}]
        assert scored(surer, "scope", drawn_share=1.0).rewards == (0.0, 1.0)
        assert scored(surer, "scope", drawn_share=1.0, steps="whole").rewards == (1.0, 0.0)


def test_gt_goes_by_flags_and_by_the_label():
    assert scored(said("12."), "gt", {"label": "2"}).rewards == (0.0, 1.0, 0.0)
    flagged = [{"answer": "1", "correct": True}, {"answer": "2", "correct": False}]
    assert scored(flagged, "gt").rewards == (1.0, 0.0)
    assert scored(flagged, "gt", {"label": "2"}).rewards == (1.0, 0.0)
    assert "label" in scored(said("12"), "gt").error.message


def test_evol_rl_needs_a_digit_unless_told_otherwise():
    rollouts = said("aab", embedding=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    strict = scored(rollouts, "evol_rl")
    assert strict.rewards == (-1.0, -1.0, -1.0)
    assert "few_valid" in strict.flags
    free = scored(rollouts, "evol_rl", need_digit=False)
    assert free.rewards == (0.75, 0.75, -0.5)
    assert free.pseudo_label == "a"


def test_evol_rl_does_not_let_rounding_decide():
    """Equal novelties that differ in the last bit stay equal."""
    rng = np.random.default_rng(0)
    one = rng.normal(size=64)
    rollouts = said("1111", embedding=[(one * s).tolist() for s in (1.0, 0.1, 3.0, 7.0)])
    assert scored(rollouts, "evol_rl").rewards == (0.75,) * 4


@pytest.mark.parametrize(
    ("answers", "method", "other", "label", "rewards", "second"),
    [
        pytest.param("ab", "co_rewarding_1", "ba", "b", (0, 1), (0, 1), id="ties go to the answer first said there"),
        pytest.param("aa", "co_rewarding_2", "zz", "z", (0, 0), None, id="a label that the group itself never gave"),
        pytest.param("aa", "self_harmony", "bb", None, (0, 0), (0, 0), id="no common answer"),
    ],
)
def test_two_groups(answers, method, other, label, rewards, second):
    name = "teacher_group" if method == "co_rewarding_2" else "second_group"
    group = scored(said(answers), method, {name: said(other)})
    assert (group.pseudo_label, group.rewards, group.second_rewards) == (label, rewards, second)
    assert ("no_common_answer" in group.flags) == (label is None)


def test_answers_of_both_groups_are_compared_as_answers():
    group = scored(said("1"), "co_rewarding_2", {"teacher_group": [{"text": "so \\boxed{1.0}"}], "kind": "math"})
    assert group.rewards == (1.0,)
    assert group.pseudo_label == "1"


KNOWN = {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 0.7, "allow_experimental": True}


def marked(rollouts, **params):
    return scored(rollouts, "spine", allow_experimental=True, **params)


def test_spine_leave_one_out():
    entropies = [[0.1, 0.2]] * 4
    assert marked(said("aab.", token_entropies=entropies), leave_one_out=True).rewards == (1.0, 1.0, 0.0, 0.0)
    assert marked(said("aaab", token_entropies=entropies), leave_one_out=True).rewards == (1.0, 1.0, 1.0, 0.0)
    assert marked(said("aabb", token_entropies=entropies)).rewards == (1.0, 1.0, 0.0, 0.0)
    assert marked(said("a", token_entropies=entropies), leave_one_out=True).rewards == (0.0,)


@pytest.mark.parametrize(
    ("entropies", "mask"), [([0.1, 2.0, 0.12, 0.11, 2.1, 0.1], (0, 1, 0, 0, 1, 0)), ([0.5, 0.5], (1, 1))]
)
def test_spine_otsu_parts_two_clusters(entropies, mask):
    assert marked(said("a", token_entropies=[entropies]), mask="otsu").token_mask == (mask,)


@pytest.mark.parametrize(
    ("entropies", "low", "high"), [([1.0, 2.0, 3.0, 4.0, 9.0], 3.0 - 1.4826, 3.0), ([0.1, 1.0, 5.0, 9.0], 0.0, 3.0)]
)
def test_spine_mad_band(entropies, low, high):
    found = marked(said("a", token_entropies=[entropies]), fraction=1.0, band="mad").diagnostics
    assert (found["band_low"], found["band_high"]) == (pytest.approx(low), high)


def test_spine_never_marks_a_tool_token():
    rollout = {"answer": "1", "token_entropies": [9.0, 0.1, 0.2, 0.3], "token_mask": [False, True, True, True]}
    group = marked([rollout, {"answer": "1", "token_entropies": [0.3, 0.2]}], fraction=0.3)
    assert group.token_mask == ((False, False, False, True), (True, False))


def test_restrain_needs_its_constants():
    with pytest.raises(RequestError, match="missing: k, sigma, kappa, delta"):
        scored(said("ab"), "restrain", allow_experimental=True)


def test_restrain_penalises_scattered_groups():
    group = scored(said("abc"), "restrain", {"prompt_weight": 0.5}, **KNOWN)
    assert group.advantages == pytest.approx((-0.35,) * 3)
    assert "penalised" in group.flags
    assert group.rewards is None


@pytest.mark.parametrize("sigma", [1e-320, 1e-200, 1e200, 1e308])
def test_restrain_takes_every_width(sigma):
    known = {**KNOWN, "k": 0.5, "sigma": sigma}
    for answers in ("ab", "abc", "aab"):
        group = scored(said(answers), "restrain", prompt_weights="current", **known)
        assert all(np.isfinite(a) for a in group.advantages)


def test_restrain_prompt_weights():
    given = scored(said("aab"), "restrain", {"prompt_weight": 0.25}, **KNOWN)
    one = scored(said("aab"), "restrain", prompt_weights="one", **KNOWN)
    current = scored(said("aab"), "restrain", prompt_weights="current", **KNOWN)
    assert given.advantages == pytest.approx([0.25 * a for a in one.advantages])
    weight = np.exp(-((2 / 3 - 1) ** 2) / 0.5)
    assert current.advantages == pytest.approx([weight * a for a in one.advantages])
    assert current.diagnostics["prompt_weight"] == pytest.approx(weight)
    assert "prompt_weight" in scored(said("aab"), "restrain", **KNOWN).error.message


def test_restrain_normalises_over_the_trained_rollouts():
    both = scored(said("aab", trained=[True, True, False]), "restrain", prompt_weights="one", **KNOWN)
    assert both.advantages == (0.0, 0.0, None)


def test_a_missing_reference_is_an_error_or_flagged():
    rollouts = said("a", ref_token_probs=[[0.5, 0.5]], base_ref_mean_prob=[0.1], format=[1.0])
    for method in ("rlpr", "verifree"):
        assert "reference" in scored(rollouts, method).error.message
        assert "reference" in scored(rollouts, method, {"reference": "  "}).error.message
        pseudo = scored(rollouts, method, missing_reference="pseudo")
        assert "pseudo_reference" in pseudo.flags
        given = scored(rollouts, method, {"reference": "x"})
        assert given.rewards == pseudo.rewards
        assert "pseudo_reference" not in given.flags


def test_no_place_for_the_reference_is_no_credit():
    rollouts = [{"answer": None, "format": 1.0, "ref_token_probs": [0.9], "base_ref_mean_prob": 0.0}]
    assert scored(rollouts, "rlpr", {"reference": "x"}).rewards == (0.1,)
    assert scored(rollouts, "verifree", {"reference": "x"}).rewards == (0.0,)
    impossible = said("a", ref_token_probs=[[0.0, 1.0]])
    assert scored(impossible, "verifree", {"reference": "x"}).rewards == (0.0,), "and no error"


def test_explain_shows_advantages(tmp_path, ran):
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps({"group_id": "g", "rollouts": said("11123", num_tokens=[3] * 5)}))
    known = {**KNOWN, "prompt_weights": "one"}
    params = [word for name, value in known.items() for word in ("-p", f"{name}={str(value).lower()}")]
    assert "advantage" in ran(["explain", str(file), "--group", "g", "--method", "restrain", *params], 0).out
