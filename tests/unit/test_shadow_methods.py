"""Shadow methods: what the others would have done, without a touch on what is done."""

from operator import attrgetter

import numpy as np
import pytest
from said import said, scored

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.methods import settle

pytestmark = pytest.mark.usefixtures("plugins")

ROLLOUTS = said("11122", mean_entropy=[0.9] * 3 + [0.01] * 2)
GROUPS = [{"group_id": "a", "label": "2", "rollouts": ROLLOUTS}]


def test_a_shadow_changes_nothing_but_the_diagnostics(full_groups):
    sent = full_groups()
    plain = dare_reward.estimate(sent)
    shadowed = dare_reward.estimate(sent, shadow=["ttrl", "scrl", "rent", "cocov"])
    assert shadowed.config_id == plain.config_id
    own = attrgetter("rewards", "support", "flags", "pseudo_label")
    for one, two in zip(plain.groups, shadowed.groups, strict=True):
        assert own(one) == own(two)
        assert {k: v for k, v in two.diagnostics.items() if k != "shadow"} == one.diagnostics


def test_what_is_measured():
    reply = dare_reward.estimate(GROUPS, shadow=["ttrl", "dare_dist", "dare"])
    found = reply.groups[0].diagnostics["shadow"]
    assert reply.groups[0].pseudo_label == "2"
    opposite = {"flipped": 1.0, "cosine": pytest.approx(-1.0), "label_agreement": 0.0, "label_accuracy": 0.0}
    assert found["ttrl"] == {"pseudo_label": "1", **opposite}
    same = {"flipped": 0.0, "cosine": pytest.approx(1.0), "label_accuracy": 1.0}
    assert {name: found["dare"][name] for name in same} == same
    assert reply.diagnostics["shadow"]["ttrl"] == opposite


def ttrl_beside_empo(answers):
    return scored(said(answers), "empo", shadow=["ttrl"]).diagnostics["shadow"]["ttrl"]


def test_cosine_and_flips_by_hand():
    found = ttrl_beside_empo("11123")
    own, other = np.array([0.6, 0.6, 0.6, 0.2, 0.2]), np.array([1.0, 1, 1, 0, 0])
    a, b = own - own.mean(), other - other.mean()
    assert found["cosine"] == pytest.approx(a @ b / np.sqrt((a @ a) * (b @ b)))
    assert found["flipped"] == 0.0
    assert "label_accuracy" not in found
    # Equal rewards have no direction. Thirds do not add up to one exactly: rounding must not count as a flip.
    found = ttrl_beside_empo("123")
    assert (found["flipped"], found["cosine"]) == (0.0, None)


def test_only_trained_rollouts_count():
    rollouts = said("1122", mean_entropy=[0.9, 0.9, 0.01, 0.01], trained=[True, True, True, False])
    found = scored(rollouts, "dare", eps=0.0, shadow=["ttrl"])
    assert found.diagnostics["shadow"]["ttrl"]["flipped"] == 1.0


def test_a_shadow_that_lacks_inputs_says_so():
    reply = dare_reward.estimate(GROUPS, shadow=["evol_rl"])
    assert reply.groups[0].error is None
    assert "embedding" in reply.groups[0].diagnostics["shadow"]["evol_rl"]["error"]["message"]
    assert reply.diagnostics["shadow"]["evol_rl"] == {"errors": 1.0}


def test_experimental_shadows_need_consent(plugin):
    rollouts = [{"answer": "1", "verified": 1}, {"answer": "2", "verified": 0}]
    with pytest.raises(RequestError, match="allow_experimental"):
        dare_reward.estimate([{"rollouts": rollouts}], method="ttrl", shadow=["guess"])
    reply = dare_reward.estimate([{"rollouts": rollouts}], method="ttrl", shadow=["guess"], allow_experimental=True)
    assert reply.groups[0].diagnostics["shadow"]["guess"]["pseudo_label"] == "1"


@pytest.mark.parametrize("shadow", ["ttrl", ["ttrl", "ttrl"]])
def test_a_shadow_is_a_list_of_different_names(shadow):
    with pytest.raises(RequestError, match="different names"):
        dare_reward.estimate(GROUPS, shadow=shadow)


def test_the_seed_reaches_methods_that_draw(full_groups):
    sent = full_groups(count=12, size=16)
    one = [g.rewards for g in dare_reward.estimate(sent, method="scope", seed=1).groups]
    assert one == [g.rewards for g in dare_reward.estimate(sent, method="scope", seed=1).groups]
    assert one != [g.rewards for g in dare_reward.estimate(sent, method="scope", seed=2).groups]
    assert dare_reward.estimate(sent, seed=1).groups == dare_reward.estimate(sent, seed=2).groups
    ids = {dare_reward.estimate(sent, method="scope", seed=s).config_id for s in (1, 2)}
    assert len(ids) == 1
    with pytest.raises(RequestError, match="parameter too"):
        settle("scope", {"seed": 2}, seed=1)
