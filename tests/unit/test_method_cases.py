"""Every method against an independent implementation on random groups: tests/data/README.md."""

import json
from pathlib import Path

import pytest
from method_params import allowing
from rows import each

import dare_reward
from dare_reward.methods import methods

DATA = json.loads((Path(__file__).parents[1] / "data" / "method_cases.json").read_text())
PRESETS = {"dare", "dare_literal", "dare_dist", "dare_dist_bonus", "dare_dist_prune", "dare_sqrt", "dare_robust"}
GOLDEN = {"rpc", "perplexity_consistency", "gmae"}

pytestmark = pytest.mark.usefixtures("plugins")


def test_every_method_has_a_case():
    """dare and its presets and those of GOLDEN have golden files, and gmae an enumeration of all draws."""
    assert {c["method"] for c in DATA["cases"]} == set(methods()) - PRESETS - GOLDEN


@each("case", DATA["cases"])
def test_case(case):
    method, wanted = case["method"], case["expected"]
    reply = dare_reward.estimate(DATA["groups"], method=method, **case["params"], **allowing(method))
    for group, expected in zip(reply.groups, wanted, strict=True):
        assert group.error is None
        if isinstance(expected, dict):  # spine
            assert [list(m) for m in group.token_mask] == expected["token_mask"]
            for end in ("band_low", "band_high"):
                assert group.diagnostics[end] == pytest.approx(expected[end], abs=1e-9)
            expected = expected["rewards"]  # noqa: PLW2901
        found = group.advantages if reply.output == "advantages" else group.rewards
        found = [*found, *(group.second_rewards or ())]
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), group.group_id
