"""The experimental estimators: by hand, and against an independent implementation on random groups."""

import json
from pathlib import Path

import numpy as np
import pytest

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.methods import find, methods

CASES = json.loads(Path(__file__).with_name("method_cases.json").read_text())


def score(rollouts, method, group=(), **params):
    return dare_reward.estimate(
        [{"kind": "exact", **dict(group), "rollouts": rollouts}], method=method, **params
    ).groups[0]


def said(text, **columns):
    """One rollout per letter; a dot is no answer."""
    return [
        {"answer": None if a == "." else a, **{name: values[i] for name, values in columns.items()}}
        for i, a in enumerate(text)
    ]


KNOWN = {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 0.7, "allow_experimental": True}


def test_compass_sign_decides_who_is_sure():
    steady, shaky = np.log([[0.6, 0.1]] * 4).tolist(), np.log([[0.9, 0.05], [0.4, 0.3]] * 2).tolist()
    rollouts = said("ab", topk_logprobs=[steady, shaky], token_entropies=[[1.0] * 4] * 2)
    assert score(rollouts, "compass", allow_experimental=True).pseudo_label == "a"
    assert score(rollouts, "compass", allow_experimental=True, conf_sign=1).pseudo_label == "b"
    path = score(rollouts, "compass", allow_experimental=True).rewards
    assert path[0] == pytest.approx(1 + 0.5)
    assert path[1] == pytest.approx((0.85 + 0.1) / 2)


def spine(rollouts, **params):
    return score(rollouts, "spine", allow_experimental=True, **params)


def test_spine_leave_one_out():
    entropies = [[0.1, 0.2]] * 4
    assert spine(said("aab.", token_entropies=entropies), leave_one_out=True).rewards == (1.0, 1.0, 0.0, 0.0)
    assert spine(said("aab.", token_entropies=entropies), leave_one_out=True).rewards == (1.0, 1.0, 0.0, 0.0)
    assert spine(said("aaab", token_entropies=entropies), leave_one_out=True).rewards == (1.0, 1.0, 1.0, 0.0)
    assert spine(said("aabb", token_entropies=entropies)).rewards == (1.0, 1.0, 0.0, 0.0)
    assert spine(said("a", token_entropies=entropies), leave_one_out=True).rewards == (0.0,)


def test_spine_otsu_parts_two_clusters():
    group = spine(said("a", token_entropies=[[0.1, 2.0, 0.12, 0.11, 2.1, 0.1]]), mask="otsu")
    assert group.token_mask == ((False, True, False, False, True, False),)
    flat = spine(said("a", token_entropies=[[0.5, 0.5]]), mask="otsu")
    assert flat.token_mask == ((True, True),)


def test_spine_mad_band():
    entropies = [[1.0, 2.0, 3.0, 4.0, 9.0]]
    group = spine(said("a", token_entropies=entropies), fraction=1.0, band="mad")
    assert group.diagnostics["band_high"] == 3.0
    assert group.diagnostics["band_low"] == pytest.approx(3.0 - 1.4826)
    wide = spine(said("a", token_entropies=[[0.1, 1.0, 5.0, 9.0]]), fraction=1.0, band="mad")
    assert wide.diagnostics["band_low"] == 0.0


def test_spine_never_marks_a_tool_token():
    rollout = {"answer": "1", "token_entropies": [9.0, 0.1, 0.2, 0.3], "token_mask": [False, True, True, True]}
    group = spine([rollout, {"answer": "1", "token_entropies": [0.3, 0.2]}], fraction=0.3)
    assert group.token_mask == ((False, False, False, True), (True, False))


def test_restrain_needs_its_constants():
    with pytest.raises(RequestError, match="missing: k, sigma, kappa, delta"):
        score(said("ab"), "restrain", allow_experimental=True)


def test_restrain_penalises_scattered_groups():
    group = score(said("abc"), "restrain", {"prompt_weight": 0.5}, **KNOWN)
    assert group.advantages == pytest.approx((-0.35,) * 3)
    assert "penalised" in group.flags
    assert group.rewards is None


@pytest.mark.parametrize("sigma", [1e-320, 1e-200, 1e200, 1e308])
def test_restrain_takes_every_width(sigma):
    known = {**KNOWN, "k": 0.5, "sigma": sigma}
    for answers in ("ab", "abc", "aab"):
        group = score(said(answers), "restrain", prompt_weights="current", **known)
        assert all(np.isfinite(a) for a in group.advantages)


def test_restrain_prompt_weights():
    given = score(said("aab"), "restrain", {"prompt_weight": 0.25}, **KNOWN)
    one = score(said("aab"), "restrain", prompt_weights="one", **KNOWN)
    current = score(said("aab"), "restrain", prompt_weights="current", **KNOWN)
    assert given.advantages == pytest.approx([0.25 * a for a in one.advantages])
    weight = np.exp(-((2 / 3 - 1) ** 2) / 0.5)
    assert current.advantages == pytest.approx([weight * a for a in one.advantages])
    assert current.diagnostics["prompt_weight"] == pytest.approx(weight)
    assert "prompt_weight" in score(said("aab"), "restrain", **KNOWN).error.message


def test_restrain_normalises_over_the_trained_rollouts():
    both = score(said("aab", trained=[True, True, False]), "restrain", prompt_weights="one", **KNOWN)
    assert both.advantages == (0.0, 0.0, None)


@pytest.mark.parametrize("case", CASES["cases"], ids=lambda c: "-".join(map(str, [c["method"], *c["params"].values()])))
def test_case(case):
    """`research/tests/make_method_cases.py` made the data."""
    reply = dare_reward.estimate(CASES["groups"], method=case["method"], **case["params"], allow_experimental=True)
    for group, expected in zip(reply.groups, case["expected"], strict=True):
        assert group.error is None
        if case["method"] == "spine":
            assert [list(m) for m in group.token_mask] == expected["token_mask"]
            assert group.diagnostics["band_low"] == pytest.approx(expected["band_low"], abs=1e-9)
            assert group.diagnostics["band_high"] == pytest.approx(expected["band_high"], abs=1e-9)
        found = group.advantages if reply.output == "advantages" else group.rewards
        assert list(found) == pytest.approx(
            expected["rewards"] if case["method"] == "spine" else expected, rel=1e-9, abs=1e-9
        ), group.group_id


def test_every_plugin_is_experimental_and_has_a_case():
    own = {m.name for m in methods().values() if m.function.__module__.startswith("dare_research.")}
    assert own == {c["method"] for c in CASES["cases"]}
    assert all(find(name).experimental and not find(name).offered for name in own)


def test_a_proof_is_paid_and_no_proof_sums_to_zero():
    def score_of(*verified):
        rows = [{"answer": a, "verified": v} for a, v in zip("11123", verified, strict=True)]
        return score(rows, "jury_rl", c=0.5, allow_experimental=True)

    assert score_of(1, 0, 0, 0, 0).rewards == (1.0, 1.0, 1.0, 0.0, 0.0)
    unproved = score_of(0, 0, 0, 1, 0)
    assert "unproved" in unproved.flags
    assert sum(unproved.rewards) == pytest.approx(0, abs=1e-12)


def test_a_proved_rollout_outweighs_others():
    rows = [{"answer": a, "verified": v} for a, v in zip("1112", (0, 0, 0, 1), strict=True)]
    assert score(rows, "t3rl", allow_experimental=True).pseudo_label == "2"
