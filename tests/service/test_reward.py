"""POST /reward: what it answers, in both forms, and that it is what `estimate` says."""

import json

import numpy as np

import dare_reward
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.reply import Reply
from dare_reward.wire import pack

RNG = np.random.default_rng(7)


def groups(count=5, size=9, *, tokens=False):
    def rollout(i):
        answer, length = RNG.integers(0, 4), int(RNG.integers(1, 30))
        said = {"text": f"I get \\boxed{{{answer}}}.", "finish_reason": "stop"} if i % 2 else {"answer": str(answer)}
        entropies = RNG.gamma(0.3, 1.0, length)
        return said | ({"token_entropies": entropies.tolist()} if tokens else {"mean_entropy": float(entropies.mean())})

    own = {"kind": "math", "label": "2"}
    return [{"group_id": f"g{p}", **own, "rollouts": [rollout(i) for i in range(size)]} for p in range(count)]


FRAME = {"content-type": "application/vnd.safetensors"}


ARRAYS = [f for f in FIELDS.values() if f.shape != "scalar"]


def as_frame(sent, *, floats=np.float64, **head):
    """Every array input as a tensor, the rest as JSON."""
    names = {f.name for f in ARRAYS}
    bare = [{**g, "rollouts": [{k: v for k, v in r.items() if k not in names} for r in g["rollouts"]]} for g in sent]
    columns = {}
    for field in ARRAYS:
        rows = [r.get(field.name) for g in sent for r in g["rollouts"]]
        if all(row is None for row in rows):
            continue
        kind = {"float": floats, "int": np.int64, "bool": np.bool_}[field.type]
        arrays = [np.array(row, kind) for row in rows]
        lengths = np.array([len(a) for a in arrays])
        columns[field.name] = Ragged(np.concatenate(arrays), lengths) if field.ragged else np.array(arrays)
    return pack({**head, "groups": bare}, columns)


def test_frames_and_json_carry_masks(plugin, service, full_groups, needed_params):
    sent = full_groups()
    for group in sent:
        for rollout in group["rollouts"]:
            count = len(rollout["token_entropies"])
            rollout["token_mask"] = [i % 3 != 1 for i in range(count)]
    for method in ("dare", "guess_tokens", "deepconf", "scope", "em_rl_sequence", "intuitor"):
        params = needed_params(method)
        local = dare_reward.estimate(sent, method=method, **params)
        assert all(g.error is None for g in local.groups)
        frame_ = service.post(as_frame(sent, method=method, params=params), headers=FRAME).json()
        assert Reply.from_json(frame_).groups == local.groups
        json_ = service.post({"method": method, "params": params, "groups": sent}).json()
        assert Reply.from_json(json_).groups == local.groups


def test_float32_frames_equal_float32_arrays_in_process(service):
    sent = groups(tokens=True)
    narrow = [
        {**g, "rollouts": [{**r, "token_entropies": np.array(r["token_entropies"], np.float32)} for r in g["rollouts"]]}
        for g in sent
    ]
    found = Reply.from_json(service.post(as_frame(sent, floats=np.float32), headers=FRAME).json())
    assert found.groups == dare_reward.estimate(narrow).groups


def test_octet_stream_is_a_frame_too(service):
    octets = {"content-type": "application/octet-stream"}
    assert service.post(as_frame(groups(tokens=True)), headers=octets).status_code == 200


def test_the_head_of_a_reply(service):
    """Its body is as recorded: test_replies.py."""
    response = service.post({"groups": groups(1)})
    body, head = response.json(), response.headers
    assert (head["content-type"], head["x-request-id"]) == ("application/json", body["request_id"])
    assert head["x-dare-version"] == body["version"] == dare_reward.__version__
    times = {part.partition(";")[0].strip() for part in head["server-timing"].split(",")}
    assert (times, len(body["config_id"])) == ({"recv", "decode", "estimate"}, 64)


def test_groups_fail_alone(service):
    """The status stays 200, because stacks check for it; a script that looks at headers sees them counted there."""
    good = {"group_id": "good", "rollouts": [{"answer": "1", "mean_entropy": 0.2}]}
    bad = {"group_id": "bad", "rollouts": [{"answer": "1"}]}
    alone, found = service.post({"groups": [good]}), service.post({"groups": [bad, good, {**bad, "group_id": "b"}]})
    assert "dare-group-errors" not in alone.headers
    assert (found.status_code, found.headers["dare-group-errors"]) == (200, "2")
    group, beside, _ = found.json()["groups"]
    assert group["error"]["code"] == "missing_entropy"
    assert {k for k, v in group.items() if v is not None} == {"group_id", "error"}
    assert beside == alone.json()["groups"][0]


def test_the_url_overrides_the_body(service):
    sent = groups(2)
    by_body = service.post({"method": "dare", "params": {"alpha": 0.0, "weight": "sqrt"}, "groups": sent}).json()
    by_url = service.post(
        {"method": "ttrl", "params": {"alpha": 0.7}, "groups": sent}, "/reward?method=dare&alpha=0&weight=sqrt"
    ).json()
    assert by_url["config_id"] == by_body["config_id"]
    assert by_url["groups"] == by_body["groups"]


def test_the_server_s_defaults(make_service):
    service = make_service(method="ttrl", params='{"tie": "none"}')
    tied = [{"group_id": "t", "rollouts": [{"answer": "1"}, {"answer": "2"}]}]
    assert service.post({"groups": tied}).json()["groups"][0]["rewards"] == [0, 0]
    assert service.post({"params": {"tie": "all"}, "groups": tied}).json()["groups"][0]["rewards"] == [1, 1]
    assert service.post({"method": "empo", "groups": tied}).json()["groups"][0]["rewards"] == [0.5, 0.5]


def test_the_seed_of_a_request_wins_over_the_server_s(make_service):
    rng = np.random.default_rng(4)
    drawn = [{"answer": str(n), "confidence": c} for n, c in zip(rng.integers(3, size=32), rng.uniform(1, 9, size=32))]
    asked = {"groups": [{"rollouts": drawn}], "method": "scope"}
    first, own = (make_service(method="scope", params=json.dumps({"seed": seed})) for seed in (1, 2))
    expected, other = (one.post(asked).json()["groups"] for one in (own, first))
    assert expected != other
    for path, more in (("", {"seed": 2}), ("?seed=2", {}), ("", {"params": {"seed": 2}})):
        assert first.post({**asked, **more}, f"/reward{path}").json()["groups"] == expected
    assert first.post({**asked, "seed": None}).json()["groups"] == other
    both = first.post({**asked, "seed": 2, "params": {"seed": 2}})
    assert (both.status_code, "as a parameter too" in both.text) == (422, True)


def test_the_answers_version_is_compared(service):
    mine = service.post({"groups": []}).json()["answers_version"]
    assert service.post({"answers_version": mine, "groups": []}).json()["flags"] == []
    assert service.post({"answers_version": "0.0", "groups": []}).json()["flags"] == ["answers_version"]


def test_the_same_request_gives_the_same_bytes_at_both_addresses(service):
    sent, headers = {"groups": groups()}, {"x-request-id": "one"}
    first, second, other = (
        service.post(sent, p, headers=headers).content for p in ("/reward", "/reward", "/v1/reward")
    )
    assert first == second == other


def test_real_floats_survive(service):
    """Shortest round-trip notation on both sides: no bit is lost in JSON."""
    values = [5e-324, 0.1 + 0.2, 1 / 3, 999.9999999999999]
    rollouts = [{"answer": str(i), "mean_entropy": v} for i, v in enumerate(values)]
    body = service.post({"groups": [{"rollouts": rollouts}]}).json()
    assert [s["uncertainty"] for s in body["groups"][0]["support"]] == values
    assert json.loads(json.dumps(values)) == values
