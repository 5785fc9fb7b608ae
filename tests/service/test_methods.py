"""What requests may ask for beside a method: advantages, the update, methods of a group's own, shadows, seeds.

Over HTTP it is what it is in process, in both wire forms.
"""

import re
from urllib.parse import urlencode

import pytest

import dare_reward
from dare_reward.methods import methods
from dare_reward.reply import Reply
from dare_reward.wire import pack

pytestmark = pytest.mark.usefixtures("plugins")


QUERIES = {
    **dict.fromkeys(("aplha=0.1", "weight=cubic", "detail=all", "method=dre", "method="), "known|must be"),
    **dict.fromkeys(("alpha=x", "alpha=2", "alpha=nan", "weight=", "vocab_size=1.5"), "must be"),
    **dict.fromkeys(("alpha=0.1&alpha=0.2", "method=scope&seed=1&seed=2"), "twice"),
    **dict.fromkeys(("method=guess", "shadow=guess"), "allow_experimental"),
    "shadow=ttrl,nosuch": "shadow: unknown method",
    "advantage=nosuch": "unknown advantage",
    "seed=-1": "seed",
    "method=cocov&advantage=grpo": "normalise",
}


@pytest.mark.parametrize("query", QUERIES)
def test_queries(plugin, service, query):
    reply = service.post({"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]}, f"/reward?{query}")
    assert reply.status_code == 422
    assert re.search(QUERIES[query], reply.json()["detail"])


@pytest.mark.parametrize("name", ["groups", "method", "columns", "limits", "advantage", "shadow", "seed", "params"])
def test_parameters_with_names_of_ours_are_unknown(service, full_groups, name):
    response = service.post({"method": "ttrl", "params": {name: 1}, "groups": full_groups(count=1)})
    assert response.status_code == 422
    assert "unknown parameter" in response.json()["detail"]


def test_experimental_methods_by_url(plugin, service, full_groups):
    response = service.post({"groups": full_groups()}, "/reward?method=guess&allow_experimental=true")
    assert response.status_code == 200
    assert response.json()["method"] == "guess"


def test_methods_lists_what_people_choose_by(plugin, service):
    listed = {m["name"]: m for m in service.get("/methods").json()["methods"]}
    assert listed.keys() == methods().keys()
    for name, entry in listed.items():
        assert entry["evidence"], name
        assert entry["cost"], name
        consent = [p for p in entry["parameters"] if p["name"] == "allow_experimental"]
        assert bool(consent) == (entry["evidence"] == "experimental")
    assert {name: listed[name]["offered"] for name in ("gmae", "rlpr")} == {"gmae": True, "rlpr": False}
    assert listed["gmae"]["advantages"]
    alpha = next(p for p in listed["dare"]["parameters"] if p["name"] == "alpha")
    assert (alpha["default"], alpha["accepts"]) == (0.1, "a finite number >= 0 and <= 1")
    assert "Eq. 13" in alpha["source"]
    assert listed["dare"]["requires"] == ["answer", "mean_entropy"]
    assert {"input": "format", "when": "format_coefficient > 0"} in listed["rlpr"]["requires_when"]


def test_the_group_says_that_embeddings_are_missing(service):
    sent = [{"rollouts": [{"text": "so \\boxed{1}"}] * 2}]
    group = service.post({"method": "evol_rl", "groups": sent}).json()["groups"][0]
    assert group["error"]["code"] == "missing_input"
    assert "embedding" in group["error"]["message"]


# --- the update -----------------------------------------------------------------------------------------------------


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


def same(service, sent, case, by_url=""):
    """What is computed in process, and by both wire forms; with the query, if any, and without what it says."""
    options = {k: v for k, v in case.items() if k not in {"method", "params"}}
    local = dare_reward.estimate(sent, method=case["method"], **case.get("params", {}), **options)
    asked = [({**case, "groups": sent}, "/reward"), (pack({**case, "groups": sent}, {}), "/reward", FRAME)]
    if by_url:
        asked.append(({"groups": sent}, f"/reward?{by_url}"))
    for body, url, *headers in asked:
        found = Reply.from_json(service.post(body, url, headers=dict(*headers)).json())
        for name in ("groups", "config_id", "output", "diagnostics", "flags"):
            assert getattr(found, name) == getattr(local, name)
    return local


@pytest.mark.parametrize("name", CASES)
def test_both_forms_equal_in_process(service, full_groups, name):
    local = same(service, sent_groups(full_groups), CASES[name])
    assert any(g.advantages or g.drop for g in local.groups)


@pytest.mark.parametrize("advantage", [None, "grpo", "reinforce_pp"])
def test_mixed_requests_equal_in_process(service, full_groups, advantage):
    sent = sent_groups(full_groups)
    for p in (0, 2, 3):
        sent[p].pop("label", None)
        sent[p]["rollouts"] = [{k: v for k, v in r.items() if k != "correct"} for r in sent[p]["rollouts"]]
    body = {"method": "ttrl", "labelled": "gt", **({"advantage": advantage} if advantage else {})}
    local = same(service, sent, body, urlencode(body))
    assert [g.method for g in local.groups] == ["ttrl", "gt", "ttrl", "ttrl", "gt"]


def test_the_url_says_it_too(service, full_groups):
    case = {"method": "ttrl", "advantage": "grpo", "reshape": "ear", "ear_floor": None, "selection": "ddrl"}
    case |= {"selection_size": 3, "settled": 0.6}
    same(service, sent_groups(full_groups), case, urlencode(case).replace("None", "null"))


@pytest.mark.parametrize(
    ("body", "loc", "code"),
    [
        *(({name: value}, name, "") for name, value in (("selection_size", 0), ("reshape", "ear"), ("settled", 2))),
        ({"selection": "other"}, "selection", ""),
        ({"advantage": "gmae"}, "advantage", ""),
        ({"method": "gmae", "advantage": "gmae", "groups": [{"rollouts": [{"answer": "1"}]}]}, "", "whole_batch"),
    ],
)
def test_what_is_refused(service, full_groups, body, loc, code):
    reply = service.post({"method": "ttrl", "groups": sent_groups(full_groups), **body})
    (error,) = reply.json()["errors"]
    assert (reply.status_code, error["loc"].startswith(loc), code in {"", error["code"]}) == (422, True, True)
