"""POST /v1/rollouts: one rollout a call, named."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from dare_reward import estimate
from dare_reward.scoring.score import score

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("plugins")]
MEMBERS = [("4", 0.4), ("5", 0.1), ("4", 0.2), (None, 0.3)]


def body(index: int, *, size: int = 4, group: str = "g", run: str = "r", **rollout: object) -> dict:
    answer, entropy = MEMBERS[index % 4]
    rollout = rollout or {"answer": answer, "mean_entropy": entropy}
    return {"run": run, "group_id": group, "group_size": size, "index": index, "rollout": rollout}


async def test_the_replies_are_the_groups(asgi):
    async with asgi() as (client, _):
        order = [2, 0, 3, 1]
        replies = await asyncio.gather(*(client.post("/v1/rollouts?tau=0.1", json=body(i)) for i in order))
    found = dict(zip(order, (r.json() for r in replies), strict=True))
    group = estimate([{"rollouts": [body(i)["rollout"] for i in range(4)]}], tau=0.1).groups[0]
    assert [found[i]["reward"] for i in range(4)] == list(group.rewards)
    assert [found[i]["answer"] for i in range(4)] == ["4", "5", "4", None]
    assert [found[i]["valid"] for i in range(4)] == [True, True, True, False]
    assert list(found[0]) == ["reward", "valid", "keep", "answer", "flags"]


async def test_texts_and_token_entropies_are_as_good(asgi):
    async with asgi() as (client, _):
        long = [
            body(0, text="so \\boxed{4}", token_entropies=[0.3, 0.5]),
            body(1, text="so \\boxed{5}", token_entropies=[0.1, 9.0], token_mask=[True, False]),
        ]
        replies = await asyncio.gather(*(client.post("/v1/rollouts", json={**b, "group_size": 2}) for b in long))
    wanted = estimate([{"rollouts": [{"answer": "4", "mean_entropy": 0.4}, {"answer": "5", "mean_entropy": 0.1}]}])
    assert [r.json()["reward"] for r in replies] == list(wanted.groups[0].rewards)


async def test_a_retry_gets_the_same_reward_and_other_content_is_409(asgi):
    async with asgi() as (client, _):
        first = await asyncio.gather(*(client.post("/v1/rollouts", json=body(i)) for i in range(4)))
        again = await client.post("/v1/rollouts", json=body(2))
        other = await client.post("/v1/rollouts", json=body(2, answer="9", mean_entropy=0.1))
        sized = await client.post("/v1/rollouts", json={**body(2), "group_size": 5})
        tuned = await client.post("/v1/rollouts?alpha=0.5", json=body(2))
    assert again.json() == first[2].json()
    assert [other.status_code, sized.status_code, tuned.status_code] == [409, 409, 409]
    assert "index 2 " in other.json()["detail"]


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        ("?alpha=0.1", "?alpha=0.9", "alpha"),
        ("?alpha=0.2&tau=0.1", "?alpha=0.9&tau=0.2", "alpha, tau"),
        ("", "?method=ttrl", "method"),
        ("", "?kind=exact", "kind"),
        ("", "?entropy_source=topk", "entropy_source"),
        ("?kind=exact", "?method=ttrl", "method, kind"),
    ],
)
async def test_members_of_a_group_have_one_configuration(asgi, one, other, names):
    async with asgi() as (client, _):
        first = asyncio.ensure_future(client.post(f"/v1/rollouts{one}", json=body(0, size=2)))
        await asyncio.sleep(0.05)
        refused = await client.post(f"/v1/rollouts{other}", json=body(1, size=2))
        good = await client.post(f"/v1/rollouts{one}", json=body(1, size=2))
        late = await client.post(f"/v1/rollouts{other}", json=body(1, size=2))
    assert (refused.status_code, good.status_code, (await first).status_code, late.status_code) == (409, 200, 200, 409)
    assert f" {names};" in refused.json()["detail"]
    assert late.json()["detail"] == refused.json()["detail"]


async def test_after_the_hold_the_missing_are_named_and_the_rollout_keeps_its_place(asgi):
    async with asgi(rollouts_hold=0.2) as (client, _):
        late = await asyncio.gather(*(client.post("/v1/rollouts", json=body(i)) for i in (1, 2)))
        assert [r.status_code for r in late] == [504, 504]
        assert re.match("2 of 4 .* 0.2 s, indices 0, 3;", late[0].json()["detail"])
        rest = await asyncio.gather(*(client.post("/v1/rollouts", json=body(i)) for i in (0, 3)))
        assert [r.status_code for r in rest] == [200, 200]
        assert (await client.post("/v1/rollouts", json=body(1))).status_code == 200


async def test_a_group_that_is_still_scored_after_the_hold_misses_nobody(asgi, monkeypatch):
    """On a machine that is overloaded, say; the retry gets the reward."""
    go_on = threading.Event()

    def slow(*given, **named):
        assert go_on.wait(20)
        return score(*given, **named)

    monkeypatch.setattr("dare_service.joins.rollouts.score", slow)
    async with asgi(rollouts_hold=0.05) as (client, _):
        reply = await client.post("/v1/rollouts", json=body(0, size=1))
        go_on.set()
        again = await client.post("/v1/rollouts", json=body(0, size=1))
        while again.status_code == 503:
            again = await client.post("/v1/rollouts", json=body(0, size=1))
    assert (reply.status_code, reply.headers["Retry-After"], again.status_code) == (503, "1", 200)
    assert reply.json()["detail"].startswith("1 of 1 ")


async def test_many_missing_are_not_all_named(asgi):
    async with asgi(rollouts_hold=0.05) as (client, _):
        reply = await client.post("/v1/rollouts", json=body(0, size=1000))
    assert len(reply.content) < 1000


async def test_runs_and_groups_are_apart(asgi):
    async with asgi() as (client, _):
        posts = [
            client.post("/v1/rollouts", json=body(i, size=2, run=r, group=g))
            for r in "ab"
            for g in "xy"
            for i in (0, 1)
        ]
        replies = await asyncio.gather(*posts)
    assert [r.status_code for r in replies] == [200] * 8


async def test_a_group_that_cannot_be_scored_tells_all_members(asgi):
    async with asgi() as (client, _):
        bodies = [{**body(i, answer="1"), "group_size": 2} for i in (0, 1)]
        replies = await asyncio.gather(*(client.post("/v1/rollouts", json=b) for b in bodies))
    assert [r.status_code for r in replies] == [422, 422]
    assert "2 of 2 " in replies[0].json()["detail"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"index": 4}, "index: "),
        ({"index": "1"}, "index: "),
        ({"group_size": 5000}, "group_size: "),
        ({"run": ""}, "run: "),
        ({"extra": 1}, "'extra'"),
        ({"rollout": {"anser": "1"}}, "'anser'"),
        ({"rollout": {"answer": "1", "mean_entropy": -1}}, "rollout.mean_entropy: "),
        ({"rollout": []}, "rollout: "),
    ],
)
async def test_a_wrong_body_is_told_where(asgi, change, where):
    async with asgi() as (client, _):
        reply = await client.post("/v1/rollouts", json={**body(1), **change})
    assert reply.status_code == 422
    assert where in reply.json()["detail"]


async def test_missing_fields_are_named(asgi):
    async with asgi() as (client, _):
        reply = await client.post("/v1/rollouts", json={"run": "r"})
    assert "group_id, group_size, index, rollout" in reply.json()["detail"]


async def test_the_stop_is_told_at_once(asgi, until):
    async with asgi() as (client, state):
        task = asyncio.ensure_future(client.post("/v1/rollouts", json=body(0)))
        await until(lambda: state.rollouts.join.waiting == 1)
        state.stop_joins()
        assert (await asyncio.wait_for(task, 10)).status_code == 503


async def test_shadow_methods_stand_in_the_reply(asgi):
    async with asgi() as (client, _):
        posts = [client.post("/v1/rollouts?shadow=ttrl,scrl", json=body(i)) for i in range(4)]
        found = [r.json() for r in await asyncio.gather(*posts)]
    group = estimate([{"rollouts": [body(i)["rollout"] for i in range(4)]}], shadow=["ttrl", "scrl"]).groups[0]
    assert [f["reward"] for f in found] == list(group.rewards)
    assert [f["shadow"] for f in found] == [group.diagnostics["shadow"]] * 4


async def test_advantages_are_refused(asgi):
    async with asgi() as (client, _):
        reply = await client.post("/v1/rollouts?method=cocov", json=body(0))
    assert reply.status_code == 422
    assert "cocov returns advantages" in reply.json()["detail"]
