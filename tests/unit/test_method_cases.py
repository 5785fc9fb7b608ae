"""Every method against an independent implementation on random groups: tests/data/make_method_cases.py made the data."""

import json
from pathlib import Path

import pytest

import dare_reward
from dare_reward.methods import find, methods

DATA = json.loads((Path(__file__).parents[1] / "data" / "method_cases.json").read_text())
PRESETS = {"dare", "dare_literal", "dare_dist", "dare_dist_bonus", "dare_dist_prune", "dare_sqrt", "dare_robust"}
GOLDEN = {"rpc", "perplexity_consistency"}


def test_every_method_has_a_case():
    """dare and its presets, and what stands in GOLDEN, have a golden file."""
    assert {c["method"] for c in DATA["cases"]} == set(methods()) - PRESETS - GOLDEN


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: "-".join(map(str, [c["method"], *c["params"].values()])))
def test_case(case):
    method = case["method"]
    consent = {"allow_experimental": True} if find(method).experimental else {}
    reply = dare_reward.estimate(DATA["groups"], method=method, **case["params"], **consent)
    for group, expected in zip(reply.groups, case["expected"], strict=True):
        assert group.error is None
        found = group.advantages if reply.output == "advantages" else group.rewards
        if method == "spine":
            assert [list(m) for m in group.token_mask] == expected["token_mask"]
            assert group.diagnostics["band_low"] == pytest.approx(expected["band_low"], abs=1e-9)
            assert group.diagnostics["band_high"] == pytest.approx(expected["band_high"], abs=1e-9)
        rewards = expected["rewards"] if method == "spine" else expected
        found = [*found, *(group.second_rewards or ())]
        assert found == pytest.approx(rewards, rel=1e-9, abs=1e-9), group.group_id
