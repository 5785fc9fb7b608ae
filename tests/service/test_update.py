"""Options of the update and groups with a method of their own over HTTP: as in process, in both wire forms."""

import json

import pytest

import dare_reward
from dare_reward.reply import Reply
from dare_reward.wire import pack

pytestmark = pytest.mark.usefixtures("plugins")

FRAME = {"content-type": "application/vnd.safetensors"}
CASES = {
    "gmae": {"method": "gmae", "advantage": "gmae", "params": {"group_size": 5}},
    "ddrl": {"method": "ddrl", "advantage": "ddrl", "params": {"n_train": 4}},
    "apart": {"method": "ttrl", "advantage": "fixed", "selection": "ddrl", "selection_size": 4},
    "ear": {"method": "ttrl", "advantage": "grpo", "reshape": "ear", "ear_floor": None, "adv_clip": 1.5},
    "settled": {"method": "empo", "settled": 0.9},
}


def sent_groups(full_groups):
    sent = full_groups(seed=21, count=5)
    for group in sent:
        for rollout in group["rollouts"]:
            rollout["mean_entropy"] = sum(rollout.pop("token_entropies")) / 7
            for name in ("token_logprobs", "token_self_certainty", "topk_logprobs", "step_ends"):
                del rollout[name]
    return sent


def in_process(sent, case):
    options = {k: v for k, v in case.items() if k not in {"method", "params"}}
    return dare_reward.estimate(sent, method=case["method"], **case.get("params", {}), **options)


def same(found, local):
    assert found.groups == local.groups
    assert (found.config_id, found.output, found.diagnostics) == (local.config_id, local.output, local.diagnostics)
    assert found.flags == local.flags


@pytest.mark.parametrize("name", CASES)
def test_both_forms_equal_in_process(service, full_groups, name):
    sent, case = sent_groups(full_groups), CASES[name]
    local = in_process(sent, case)
    assert any(g.advantages or g.drop for g in local.groups)
    same(Reply.from_json(service.post({**case, "groups": sent}).json()), local)
    reply = service.post(pack({**case, "groups": sent}, {}), headers=FRAME)
    same(Reply.from_json(reply.json()), local)


@pytest.mark.parametrize("advantage", [None, "grpo", "reinforce_pp"])
def test_mixed_requests_equal_in_process(service, full_groups, advantage):
    sent = sent_groups(full_groups)
    for p in (0, 2, 3):
        sent[p].pop("label", None)
        sent[p]["rollouts"] = [{k: v for k, v in r.items() if k != "correct"} for r in sent[p]["rollouts"]]
    body = {"method": "ttrl", "labelled": "gt", **({"advantage": advantage} if advantage else {})}
    local = dare_reward.estimate(sent, method="ttrl", labelled="gt", advantage=advantage)
    assert [g.method for g in local.groups] == ["ttrl", "gt", "ttrl", "ttrl", "gt"]
    by_url = service.post({k: v for k, v in body.items() if k != "labelled"} | {"groups": sent}, "/reward?labelled=gt")
    same(Reply.from_json(by_url.json()), local)
    same(Reply.from_json(service.post({**body, "groups": sent}).json()), local)
    reply = service.post(pack({**body, "groups": sent}, {}), headers=FRAME)
    same(Reply.from_json(reply.json()), local)


def test_the_url_says_it_too(service, full_groups):
    sent = sent_groups(full_groups)
    url = "/reward?method=ttrl&advantage=grpo&reshape=ear&ear_floor=null&selection=ddrl&selection_size=3&settled=0.6"
    found = Reply.from_json(service.post({"groups": sent}, url).json())
    options = {"reshape": "ear", "ear_floor": None, "selection": "ddrl", "selection_size": 3, "settled": 0.6}
    same(found, dare_reward.estimate(sent, method="ttrl", advantage="grpo", **options))


@pytest.mark.parametrize(
    ("body", "loc"),
    [
        ({"selection": "other"}, "selection"),
        ({"selection_size": 0}, "selection_size"),
        ({"reshape": "ear"}, "reshape"),
        ({"settled": 2}, "settled"),
        ({"method": "ttrl", "advantage": "gmae"}, "advantage"),
    ],
)
def test_what_is_refused(service, full_groups, body, loc):
    reply = service.post({"method": "ttrl", **body, "groups": sent_groups(full_groups)})
    assert reply.status_code == 422
    assert reply.json()["errors"][0]["loc"].startswith(loc)


def test_one_group_a_call_is_no_batch(service, full_groups):
    one = sent_groups(full_groups)[:1]
    reply = service.post({"method": "gmae", "advantage": "gmae", "groups": one})
    assert (reply.status_code, reply.json()["errors"][0]["code"]) == (422, "whole_batch")
    reply = service.post({}, "/get_reward?method=gmae&group_size=4")
    assert reply.status_code == 422
    assert "calibration=none" in json.dumps(reply.json())
