"""Every method against an independent implementation on random groups: tests/data/make_method_cases.py made the data."""

import json
from pathlib import Path

import pytest

import dare_reward
from dare_reward.methods import methods

DATA = json.loads((Path(__file__).parents[1] / "data" / "method_cases.json").read_text())
PRESETS = {"dare", "dare_literal", "dare_dist", "dare_dist_bonus", "dare_dist_prune", "dare_sqrt", "dare_robust"}
GOLDEN = {"rpc", "perplexity_consistency"}


def test_every_method_has_a_case():
    """dare and its presets and those of GOLDEN have golden files, other packages their own."""
    own = {m.name for m in methods().values() if m.function.__module__.startswith("dare_reward.")}
    assert {c["method"] for c in DATA["cases"]} == own - PRESETS - GOLDEN


@pytest.mark.parametrize("case", DATA["cases"], ids=lambda c: "-".join(map(str, [c["method"], *c["params"].values()])))
def test_case(case):
    method = case["method"]
    reply = dare_reward.estimate(DATA["groups"], method=method, **case["params"])
    for group, expected in zip(reply.groups, case["expected"], strict=True):
        assert group.error is None
        found = group.advantages if reply.output == "advantages" else group.rewards
        found = [*found, *(group.second_rewards or ())]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), group.group_id
