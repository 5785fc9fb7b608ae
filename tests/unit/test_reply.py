import json

import pytest
from said import said, scored

import dare_reward
from dare_reward.errors import ReplyError
from dare_reward.methods import config_id, methods, settle
from dare_reward.reply import Reply

GROUPS = [
    {"group_id": "a", "label": "4", "rollouts": said("445.", mean_entropy=[0.1, 0.3, 0.7, 0.2])},
    {"group_id": "bad", "rollouts": [{"answer": "4"}]},
]


def test_json_round_trip():
    reply = dare_reward.estimate(GROUPS)
    assert Reply.from_json(json.loads(json.dumps(reply.to_json()))) == reply


def test_detail_rewards():
    short = dare_reward.estimate(GROUPS).to_json(detail="rewards")
    assert short["groups"][0].keys() == {"group_id", "rewards", "valid", "error"}
    assert short["groups"][1]["error"]["code"] == "missing_entropy"
    assert Reply.from_json(json.loads(json.dumps(short))).groups[0].rewards is not None
    asked = dare_reward.estimate([{"rollouts": [{"text": "\\boxed{4}"}]}], method="ttrl", spans=True)
    assert asked.to_json(detail="rewards")["groups"][0]["answer_spans"] == asked.groups[0].answer_spans == ((7, 8),)


@pytest.mark.parametrize(
    "body", [None, [], {}, {"groups": 1}, {"groups": [{}]}, {"groups": [{"group_id": "a", "support": [{}]}]}]
)
def test_what_is_no_reply(body):
    with pytest.raises(ReplyError):
        Reply.from_json(body)


def test_answers_are_representatives_and_support_is_first_seen():
    rollouts = [{"answer": a, "mean_entropy": 0.1} for a in ("7", "1/2", "0.5", "0.5", " 7 ")]
    group = dare_reward.estimate([{"rollouts": rollouts}]).groups[0]
    assert [s.count for s in group.support] == [2, 3]
    assert group.answers[1] == group.answers[2] == group.answers[3] == group.support[1].answer
    assert len(set(group.answers)) == 2


def test_the_pseudo_label_is_the_best_paid_then_most_voted_then_first():
    assert scored(said("aab", mean_entropy=[0.9, 0.9, 0.01]), "dare", eps=0.0).pseudo_label == "b"
    assert scored(said("ba", mean_entropy=[0.5] * 2), "dare").pseudo_label == "b"
    assert scored(said("baa", mean_entropy=[0.5] * 3), "empo").pseudo_label == "a"


def test_config_id_depends_on_method_parameters_and_nothing_else(needed_params):
    ids = {m: dare_reward.estimate(GROUPS, method=m, **needed_params(m)).config_id for m in methods()}
    assert len(set(ids.values())) == len(ids)
    assert ids["dare"] == dare_reward.estimate(GROUPS[:1], alpha=0.1, eps=0.05).config_id
    assert ids["dare"] != dare_reward.estimate(GROUPS, alpha=0.2).config_id
    assert ids["dare"] == config_id("dare", settle("dare", {}).values)


def test_label_diagnostics():
    reply = dare_reward.estimate(GROUPS[:1])
    of_group = {"majority_ratio": 0.5, "label_accuracy": 1.0, "ground_truth_ratio": 0.5, "reward_accuracy": 1.0}
    assert of_group.items() <= reply.groups[0].diagnostics.items()
    expected = {"entropy_auroc": 1.0, "pass@1": 0.5, "pass@2": pytest.approx(1 - 1 / 6)}
    assert {name: reply.diagnostics[name] for name in expected} == expected


def test_correct_flags_serve_without_a_label():
    reply = dare_reward.estimate([{"rollouts": said("xy", mean_entropy=[0.5, 0.1], correct=[True, False])}])
    assert reply.diagnostics["entropy_auroc"] == 0.0
    assert reply.groups[0].diagnostics["label_accuracy"] == 0.0


def test_no_labels_no_label_diagnostics():
    reply = dare_reward.estimate(GROUPS[1:], missing_entropy="frequency")
    assert reply.diagnostics.keys() == {"groups", "rollouts", "majority_ratio", "leader_probability"}


def test_means_over_a_request_are_of_the_groups_that_were_scored():
    right = {"label": "1", "rollouts": said("11", mean_entropy=[0.1, 0.2])}
    unscored = {"label": "1", "rollouts": said("122", mean_entropy=[0.1])}
    alone, both = (dare_reward.estimate(groups) for groups in ([right], [right, unscored]))
    assert both.groups[1].error is not None
    for name in ("majority_ratio", "label_accuracy", "reward_accuracy", "ground_truth_ratio"):
        assert both.diagnostics[name] == alone.diagnostics[name] == 1.0
    assert (both.diagnostics["groups"], both.diagnostics["rollouts"]) == (2, 5)
