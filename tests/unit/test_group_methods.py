"""Groups with a method of their own: labelled and unlabelled ones in one step."""

import copy
import importlib
import json

import numpy as np
import pytest

import dare_reward
from dare_reward.advantages.from_rewards import ADVANTAGES
from dare_reward.errors import RequestError
from dare_reward.estimators.method import Method
from dare_reward.methods import config_id, methods, settle
from dare_reward.scoring.score import score
from dare_reward.scoring.update import Update

pytestmark = pytest.mark.usefixtures("plugins")

CONSENT = "allow_experimental"


def groups(full_groups, **own):
    """Six groups with every input; `own` says what some of them have by their index."""
    sent = full_groups(seed=11, count=6)
    for at, extra in own.items():
        sent[int(at[1:])] |= extra
    return sent


def alone(group, method, **options):
    plain = {k: v for k, v in group.items() if k not in {"method", "params"}}
    return dare_reward.estimate([plain], method=method, **options).groups[0]


def test_each_group_is_scored_by_its_own_method(full_groups):
    sent = groups(
        full_groups, g1={"method": "gt"}, g2={"method": "empo", "params": {"share_of": "valid"}}, g4={"method": "gt"}
    )
    reply = dare_reward.estimate(sent, method="ttrl", tie="all", advantage="grpo")
    expected = [
        alone(sent[0], "ttrl", tie="all", advantage="grpo"),
        alone(sent[1], "gt", advantage="grpo"),
        alone(sent[2], "empo", share_of="valid", advantage="grpo"),
        alone(sent[3], "ttrl", tie="all", advantage="grpo"),
        alone(sent[4], "gt", advantage="grpo"),
        alone(sent[5], "ttrl", tie="all", advantage="grpo"),
    ]
    assert list(reply.groups) == expected
    assert [g.method for g in reply.groups] == ["ttrl", "gt", "empo", "ttrl", "gt", "ttrl"]
    assert reply.groups[2].config_id == config_id("empo", settle("empo", {"share_of": "valid"}).values)
    assert reply.method == "ttrl"


def test_every_pair_of_methods_of_one_output(full_groups, needed_params):
    """What a method says of a group does not depend on what scores its neighbours."""
    names = [n for n, m in methods().items() if m.output == "rewards"]
    sent = full_groups(seed=3, count=len(names))
    for group, name in zip(sent, names, strict=True):
        group |= {"method": name, "params": needed_params(name)}
    reply = dare_reward.estimate(sent, method="ttrl")
    for group, name, found in zip(sent, names, reply.groups, strict=True):
        assert found == alone(group, name, **needed_params(name)), name


@pytest.mark.parametrize("advantage", [None, *ADVANTAGES])
def test_labels_do_not_touch_label_free_groups_beside_labelled_ones(full_groups, monkeypatch, advantage):
    method, beside = ("ttrl", "calibrated_vote") if advantage == "fixed" else ("dare", "gmae")
    seen, run = [], Method.run
    monkeypatch.setattr(Method, "run", lambda self, g, params: seen.append((self.name, g)) or run(self, g, params))
    own = {"g1": {"method": "gt"}, "g3": {"method": beside}, "g4": {"method": "gt"}}
    if advantage == "fixed":
        own["g3"]["params"] = {"exponent": 2}
    sent = groups(full_groups, **own)
    first = dare_reward.estimate(sent, method=method, advantage=advantage).groups
    assert {name: "label" in g.columns for name, g in seen} == {method: False, "gt": True, beside: False}
    rng = np.random.default_rng(0)
    changed = False
    for label in ("0", "1", ["0", "1"], None):
        other = copy.deepcopy(sent)
        for group in other:
            group["label"] = label
            for rollout in group["rollouts"]:
                rollout["correct"] = bool(rng.integers(0, 2)) if label else None
        second = dare_reward.estimate(other, method=method, advantage=advantage).groups
        for p, (one, two) in enumerate(zip(first, second, strict=True)):
            names = ("rewards", "advantages", "support", "pseudo_label", "select", "drop")
            same = all(getattr(one, name) == getattr(two, name) for name in names)
            assert same or p in {1, 4}
            changed |= not same
    assert changed


def test_the_config_id_covers_all(full_groups):
    plain = dare_reward.estimate(groups(full_groups), method="ttrl")
    assert {g.config_id for g in plain.groups} == {plain.config_id}
    same = dare_reward.estimate(groups(full_groups, g1={"method": "ttrl"}), method="ttrl")
    assert same == plain
    mixed = [
        dare_reward.estimate(groups(full_groups, **own), method="ttrl").config_id
        for own in ({"g1": {"method": "gt"}}, {"g2": {"method": "gt"}}, {"g1": {"method": "empo"}})
    ]
    assert mixed[0] == mixed[1]
    assert len({plain.config_id, *mixed}) == 3


def test_parameters_stand_beside_those_of_the_same_method(full_groups):
    sent = groups(full_groups, g1={"params": {"alpha": 0.3}}, g2={"method": "dare_sqrt", "params": {"alpha": 0.3}})
    reply = dare_reward.estimate(sent, method="dare", tau=0.2)
    assert reply.groups[1] == alone(sent[1], "dare", tau=0.2, alpha=0.3)
    assert reply.groups[2] == alone(sent[2], "dare_sqrt", alpha=0.3), "another method starts from its own defaults"


def test_advantages_over_a_request_are_over_all_its_groups_of_a_kind(full_groups):
    """Those that are scored by labels are apart from the others."""
    sent = groups(full_groups, g1={"method": "gt"}, g2={"method": "empo"}, g4={"method": "gt"})
    reply = dare_reward.estimate(sent, method="ttrl", advantage="reinforce_pp")
    on = [[r["trained"] for r in g["rollouts"]] for g in sent]
    for chosen in ((0, 2, 3, 5), (1, 4)):
        own = [reply.groups[p] for p in chosen]
        rewards = np.array(
            [r for g, p in zip(own, chosen, strict=True) for r, o in zip(g.rewards, on[p], strict=True) if o]
        )
        gains = np.array([a for g in own for a in g.advantages if a is not None])
        np.testing.assert_allclose(gains, (rewards - rewards.mean()) / rewards.std(), atol=1e-9)


def test_shadows_and_diagnostics_of_a_mixed_request(full_groups):
    sent = groups(full_groups, g1={"method": "gt"})
    reply = dare_reward.estimate(sent, method="ttrl", shadow=["empo"])
    assert reply.diagnostics["groups"] == 6
    assert reply.diagnostics["shadow"]["empo"]["flipped"] == pytest.approx(
        np.mean([g.diagnostics["shadow"]["empo"]["flipped"] for g in reply.groups])
    )


@pytest.mark.parametrize(
    ("own", "words", "loc"),
    [
        ({"method": "nope"}, "unknown method.", ("groups", 1, "method")),
        ({"params": {"nope": 1}}, "unknown parameter 'nope'", ("groups", 1, "params")),
        ({"method": "empo", "params": {"tie": "all"}}, "unknown parameter 'tie'", ("groups", 1, "params")),
        ({"params": {"tie": "nope"}}, "tie must be one of", ("groups", 1, "params", "tie")),
        ({"params": {"truncated": "as_is"}}, "one for the whole request", ("groups", 1, "params")),
        ({"params": 3}, "must be an object", ("groups", 1, "params")),
        ({"method": 3}, "must be a string or null", ("groups", 1, "method")),
        ({"method": "guess"}, "allow_experimental", ("groups", 1, "params", CONSENT)),
        ({"method": "cocov"}, r"advantages \(cocov\) and rewards \(ttrl\)", ("groups",)),
    ],
)
def test_what_is_refused(plugin, full_groups, own, words, loc):
    with pytest.raises(RequestError, match=words) as caught:
        dare_reward.estimate(groups(full_groups, g1=own), method="ttrl")
    assert caught.value.loc == loc


def test_one_factor_for_a_batch_of_several_configurations_is_refused(full_groups):
    sent = groups(full_groups, g1={"params": {"group_size": 3}})
    with pytest.raises(RequestError, match=r"one configuration.*calibration=none"):
        dare_reward.estimate(sent, method="gmae", advantage="gmae")
    reply = dare_reward.estimate(sent, method="gmae", advantage="gmae", calibration="none")
    assert reply.groups[1] == alone(sent[1], "gmae", group_size=3, advantage="gmae", calibration="none")
    with pytest.raises(RequestError, match="not of gt"):
        dare_reward.estimate(groups(full_groups, g1={"method": "gt"}), method="gmae", advantage="gmae")


def test_an_error_of_a_group_stays_with_it(full_groups):
    sent = groups(full_groups, g1={"method": "rent"})
    sent[1]["rollouts"] = [{"answer": "1"}]
    reply = dare_reward.estimate(sent, method="ttrl")
    assert reply.groups[1].error.code == "missing_input"
    assert all(g.error is None for p, g in enumerate(reply.groups) if p != 1)


def test_a_reply_of_a_mixed_request_travels(plugin, full_groups):
    sent = groups(full_groups, g1={"method": "gt"}, g2={"method": "guess_tokens", "params": {CONSENT: True}})
    reply = dare_reward.estimate(sent, method="ttrl", selection="ddrl")
    assert dare_reward.Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply
    assert dare_reward.Reply.from_frame(reply.to_frame()) == reply
    assert reply.groups[2].token_mask is not None


def test_each_configuration_is_settled_once(monkeypatch):
    calls = []
    registry = importlib.import_module("dare_reward.methods")  # the package has a function of this name
    real = registry.config_id
    registry._settled.cache_clear()
    monkeypatch.setattr(registry, "config_id", lambda *a: calls.append(a) or real(*a))
    sent = [{"group_id": str(i), "params": {"alpha": i / 200}, "rollouts": [{"answer": "1"}]} for i in range(100)]
    reply = dare_reward.estimate(sent * 1, method="dare", missing_entropy="frequency")
    assert len({g.config_id for g in reply.groups}) == 100
    assert len(calls) == 100


def test_spans_know_of_silent_rollouts_in_columns():
    sent = [{"rollouts": [{"text": "so \\boxed{5}"}, {"text": "so \\boxed{5}"}]}]
    columns = {"num_tokens": np.array([0, 4])}
    reply = score(sent, {}, method="ttrl", columns=columns, update=Update(spans=True)).reply
    assert [span is None for span in reply.groups[0].answer_spans] == [True, False]


def test_a_method_s_other_name_is_the_request_s_method():
    sent = [{"rollouts": [{"answer": a} for a in "1122"], "method": name} for name in ("majority", "ttrl")]
    one, other = dare_reward.estimate(sent, method="majority", tie="all").groups
    assert one.rewards == other.rewards == (1.0, 1.0, 1.0, 1.0)
