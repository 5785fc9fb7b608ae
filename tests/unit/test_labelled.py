"""`labelled=gt`: groups with a label get the rewards of `gt`, in one step with groups that the method rewards."""

import copy
import json

import numpy as np
import pytest
from jsonl import write_lines
from said import said

import dare_reward
from dare_reward.advantages import ADVANTAGES
from dare_reward.errors import RequestError
from dare_reward.estimators.method import Method
from dare_reward.methods import config_id, find, methods, settle
from dare_reward.scoring.score import score
from dare_reward.scoring.update import Update

KNOWN = (1, 4)


def mixed(full_groups):
    """Six groups with every input; two of them have a label."""
    sent = full_groups(seed=11, count=6)
    for p, group in enumerate(sent):
        for rollout in group["rollouts"]:
            rollout.pop("correct", None)
        if p not in KNOWN:
            group.pop("label", None)
    return sent


def alone(group, method, **options):
    return dare_reward.estimate([group], method=method, **options).groups[0]


@pytest.mark.parametrize("advantage", [None, "grpo"])
@pytest.mark.parametrize("method", ["ttrl", "weighted_vote"])
def test_each_group_is_scored_as_it_would_be_alone(full_groups, method, advantage):
    sent = mixed(full_groups)
    reply = dare_reward.estimate(sent, method=method, labelled="gt", advantage=advantage)
    for p, (group, found) in enumerate(zip(sent, reply.groups, strict=True)):
        expected = alone(group, "gt" if p in KNOWN else method, advantage=advantage)
        paid = ("rewards", "advantages", "keep", "valid", "pseudo_label", "flags")
        for name in ("group_id", "method", "config_id", *paid):
            assert getattr(found, name) == getattr(expected, name), name
        assert [s.reward for s in found.support] == [s.reward for s in expected.support]
    assert (reply.method, reply.config_id) == (method, config_id(method, settle(method, {}).values))
    plain = dare_reward.estimate(sent, method=method, advantage=advantage)
    assert {g.method for g in plain.groups} == {method}
    assert plain.config_id == reply.config_id, "which groups have a label does not change a run's configuration"


@pytest.mark.parametrize("advantage", [None, *ADVANTAGES])
def test_labels_do_not_touch_label_free_groups_beside_labelled_ones(full_groups, monkeypatch, advantage):
    seen, run = [], Method.run
    monkeypatch.setattr(Method, "run", lambda self, g, params: seen.append((self.name, g)) or run(self, g, params))
    sent = mixed(full_groups)
    first = dare_reward.estimate(sent, method="ttrl", labelled="gt", advantage=advantage).groups
    assert {name: "label" in g.columns for name, g in seen} == {"ttrl": False, "gt": True}
    changed = False
    for label in ("0", "1", "2", ["0", "1"]):
        other = copy.deepcopy(sent)
        for p in KNOWN:
            other[p]["label"] = label
        second = dare_reward.estimate(other, method="ttrl", labelled="gt", advantage=advantage).groups
        for p, (one, two) in enumerate(zip(first, second, strict=True)):
            names = ("rewards", "advantages", "support", "pseudo_label", "select", "drop")
            same = all(getattr(one, name) == getattr(two, name) for name in names)
            assert same or p in KNOWN
            changed |= not same
    assert changed


def test_advantages_over_a_request_are_over_all_its_groups_of_a_kind(full_groups):
    """Those that labels rewarded are apart from the others."""
    sent = mixed(full_groups)
    reply = dare_reward.estimate(sent, method="ttrl", labelled="gt", advantage="reinforce_pp")
    on = [[r["trained"] for r in g["rollouts"]] for g in sent]
    for chosen in ((0, 2, 3, 5), KNOWN):
        own = [reply.groups[p] for p in chosen]
        rewards = np.array([r for g, p in zip(own, chosen) for r, o in zip(g.rewards, on[p], strict=True) if o])
        gains = np.array([a for g in own for a in g.advantages if a is not None])
        np.testing.assert_allclose(gains, (rewards - rewards.mean()) / rewards.std(), atol=1e-9)


@pytest.mark.parametrize("method", ["gt", "majority", "perplexity_consistency", "deepconf"])
def test_who_may_share_a_step_with_labels(full_groups, method):
    sent = mixed(full_groups) if method != "gt" else [g for g in mixed(full_groups) if "label" in g]
    reply = dare_reward.estimate(sent, method=method, labelled="gt", shadow=["empo"])
    assert all(g.error is None for g in reply.groups)
    found = [of.diagnostics["shadow"]["empo"]["flipped"] for of in (reply, *reply.groups)]
    assert found[0] == pytest.approx(np.mean(found[1:]))


@pytest.mark.parametrize("method", [name for name, method in methods().items() if method.pays_one])
def test_a_method_that_pays_one_pays_the_label_and_says_nothing_beside_it(
    full_groups, needed_params, short_fits, method
):
    params = needed_params(method)
    for group in dare_reward.estimate(full_groups(seed=5, count=8), method=method, **params).groups:
        assert set(group.rewards) <= {0.0, 1.0}
        assert {s.answer for s in group.support if s.reward == 1} <= {group.pseudo_label} or method == "gt"
        assert (group.advantages, group.second_rewards, group.token_mask, group.select) == (None,) * 4
    if any(spec.name == "reward" for spec in find(method).specs):
        with pytest.raises(RequestError, match="rewards by shares"):
            dare_reward.estimate(mixed(full_groups), method=method, labelled="gt", reward="share", **params)


@pytest.mark.parametrize("method", ["dare", "empo", "rent"])
def test_two_scales_in_one_step_are_refused(full_groups, method):
    with pytest.raises(RequestError, match="rewards by shares") as caught:
        dare_reward.estimate(mixed(full_groups), method=method, labelled="gt")
    assert caught.value.loc == ("labelled",)


@pytest.mark.parametrize(
    ("label", "flags", "by"),
    [
        (" ", [None, None], "ttrl"),  # no answer can equal it
        (None, [True, False], "gt"),
        (None, [True, None], "ttrl"),  # half known
        ("2", [None, None], "gt"),
    ],
)
def test_what_counts_as_a_label(label, flags, by):
    rollouts = [{"answer": a, "correct": c} for a, c in zip("12", flags, strict=True)]
    (found,) = dare_reward.estimate([{"label": label, "rollouts": rollouts}], method="ttrl", labelled="gt").groups
    assert (found.method, found.error) == (by, None)


def test_a_reply_of_both_kinds_travels(full_groups):
    reply = dare_reward.estimate(mixed(full_groups), method="ttrl", labelled="gt", selection="ddrl")
    assert dare_reward.Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply


@pytest.mark.parametrize("key", ["method", "params"])
def test_a_group_has_no_method_of_its_own(key):
    with pytest.raises(RequestError, match=f"{key} belongs to the request"):
        dare_reward.estimate([{key: "gt", "rollouts": [{"answer": "1"}]}], method="ttrl")


def test_spans_know_of_silent_rollouts_in_columns():
    sent = [{"rollouts": [{"text": "so \\boxed{5}"}, {"text": "so \\boxed{5}"}]}]
    columns = {"num_tokens": np.array([0, 4])}
    reply = score(sent, {}, method="ttrl", columns=columns, update=Update(spans=True)).reply
    assert [span is None for span in reply.groups[0].answer_spans] == [True, False]


def test_a_file_may_hold_both_kinds(tmp_path, ran):
    groups = [{"group_id": f"{i}", "label": label, "rollouts": said("112")} for i, label in enumerate((None, "2"))]
    command = ["score", str(write_lines(tmp_path / "rollouts.jsonl", groups)), "--labelled", "gt"]
    lines = [json.loads(line)["reply"] for line in ran([*command, "-m", "ttrl", "--json"], 0).out.splitlines()]
    assert [(line["method"], line["rewards"]) for line in lines] == [("ttrl", [1, 1, 0]), ("gt", [0, 0, 1])]
    told = ran(command, 2)
    assert (told.out, told.err.count("rewards by shares")) == ("", 1)


@pytest.mark.parametrize(
    ("setting", "place"),
    [({"labelled": "GT"}, "labelled: must"), ({"shadow": 1}, "shadow: is"), ({"method": 3}, "method: unknown")],
)
def test_a_setting_of_no_such_value_is_refused_in_process_as_by_the_service(full_groups, setting, place):
    with pytest.raises(RequestError, match=place):
        dare_reward.estimate(mixed(full_groups), **{"method": "ttrl", **setting})
