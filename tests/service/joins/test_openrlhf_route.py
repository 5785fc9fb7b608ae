"""OpenRLHF's body on /reward and /get_reward, without a socket."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import random

import httpx
import pytest
from serving import told, until

from dare_reward import estimate
from dare_reward.openrlhf import UNKNOWN, keys_of
from dare_reward.scoring.shadow_methods import LOGS as SHADOW_LOGS
from dare_service.app import create_app
from dare_service.metrics import EVENTS
from dare_service.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("plugins")]
PROMPT = "<|im_start|>user\nWhat is 2+2? Put it in \\boxed{}.<|im_end|>\n<|im_start|>assistant\n"


def one(answer: object, *, prompt: str = PROMPT, label: object = "", **more: object) -> dict:
    """The body of releases since 0.9.1."""
    said = "I do not know." if answer is None else f"So it is \\boxed{{{answer}}}." if answer != AGAIN else AGAIN
    sent = {"query": f"{prompt}{said}<|im_end|>", "prompts": prompt, "labels": label, **more}
    return {name: [value] for name, value in sent.items()}


def step(rows) -> dict:
    """The body of releases up to 0.9.0: (prompt, answer, label) in one request."""
    return body([one(a, prompt=p, label=label) for p, a, label in rows])


def expected(answers, **params) -> list[float]:
    """The estimator's own rewards, on the grid."""
    rollouts = [{"answer": None if a is None else str(a)} for a in answers]
    reply = estimate([{"rollouts": rollouts}], **{"missing_entropy": "frequency", **params})
    return [round(r * 65536) / 65536 for r in reply.groups[0].rewards]


def body(bodies):
    """One body of several."""
    return {key: [b[key][0] for b in bodies] for key in (bodies or [one(1)])[0]}


async def together(client, url: str, bodies) -> list[dict]:
    replies = await asyncio.gather(*(client.post(url, json=b) for b in bodies))
    assert [r.status_code for r in replies] == [200] * len(bodies), replies[0].text
    assert all(r.headers["content-type"] == "application/json" for r in replies)
    return [r.json() for r in replies]


AGAIN = "Question: What is 2+2? Put it in \\boxed{}.\nAnswer: 4\n\nQuestion: What is 2+3?\nAnswer: 5"
MIXED, NEUTRAL = [4, 4, 5, 4, 6, 5, 4, None], {"neutral": 1.0, "votes": 3.0}
EVALUATED = {"evaluation": 1.0, "neutral": 0.0}
CHOICE = {"answer": "A", "kind": "choice"}


def labelled(answers, *labels):
    """The rows of one prompt."""
    return [(PROMPT, a, label) for a, label in zip(answers, labels or [""] * len(answers), strict=True)]


@pytest.mark.parametrize(
    ("query", "rows", "rewards", "logs", "event"),
    [
        ("", labelled(MIXED), expected(MIXED), {"invalid": 1 / 8, "evaluation": 0.0, "neutral": 0.0}, None),
        ("method=ttrl", labelled(MIXED), [float(a == 4) for a in MIXED], {"votes": 8.0}, None),
        ("method=ttrl", [(f"p{i % 2}", a, "") for i, a in enumerate("13141424")], [1, 0, 1, 1, 1, 1, 0, 1], {}, None),
        # The prompt tells which question a text answers.
        ("method=ttrl", labelled([4, 4, 5, AGAIN]), [1, 1, 0, 1], {}, None),
        # An evaluation is accuracy at once; gt is made of labels, and gives no advantage without one.
        ("", labelled([4], {"answer": "5", "split": "eval"}), [0], EVALUATED, None),
        ("", labelled([4, 5], *['{"answer": 4, "split": "eval"}'] * 2), [1, 0], EVALUATED, None),
        ("label_policy=eval", labelled([4], "4"), [1], EVALUATED, None),
        ("method=gt", labelled([4, 5], "4", "4"), [1, 0], {"neutral": 0.0}, None),
        ("method=gt", labelled([4, 4], {"split": "eval"}, ""), [0, 0], {"neutral": 1.0}, None),
        # Labels that contradict each other are none; rollouts that disagree are refused by name.
        ("method=ttrl", labelled("122", "1", "2", "2"), [0, 1, 1], {"label_accuracy": UNKNOWN}, "label_conflict"),
        ("method=gt", labelled("122", "1", "2", "2"), [0, 0, 0], {"neutral": 1.0}, "label_conflict"),
        ("method=ttrl", labelled("AAB", CHOICE, "", ""), [0, 0, 0], NEUTRAL, "kind_conflict"),
        (
            "method=ttrl",
            [*labelled("AAA", *({"kind": "choice", "options": n} for n in (4, 5, 4))), *(("q", a, "") for a in "112")],
            [0, 0, 0, 1, 1, 0],
            {"neutral": [1.0] * 3 + [0.0] * 3},
            "options_conflict",
        ),
    ],
)  # fmt: skip
async def test_what_a_rollout_gets_alone_and_in_a_step(asgi, query, rows, rewards, logs, event):
    """By one post each, and by one for all, in whatever order they stand: groups are told by their prompts."""
    turns = [[*rows[at:], *rows[:at]] for at in range(len(rows))]
    async with asgi() as (client, state):
        size = len(rows) // len({prompt for prompt, *_ in rows}) if not logs.get("evaluation") else 64
        bodies = [one(a, prompt=p, label=label) for p, a, label in rows]
        alone = await together(client, f"/get_reward?group_size={size}&run=alone&{query}", bodies)
        found = await together(client, f"/v1/reward?run=step&{query}", [step(turn) for turn in turns])
        assert state.openrlhf.join.waiting == 0
        assert {w["event"] for w in state.openrlhf._runs.warnings} == ({event} if event else set()) <= set(EVENTS)
    found = [{name: [*v[-at:], *v[:-at]] if at else v for name, v in flat(f).items()} for at, f in enumerate(found)]
    found.append({name: [flat(f)[name][0] for f in alone] for name in found[0]})
    for reply in found:
        assert reply["rewards"] == rewards
        for name, value in logs.items():
            assert reply[name] == (value if isinstance(value, list) else [value] * len(rows)), name


def flat(reply):
    return {"rewards": reply["rewards"], "scores": reply["scores"], **reply["extra_logs"]}


# How a data set's column, a text of JSON and nothing at all write the label 4, what only looks like it, and other labels.
SPELT = [
    "4", "4.0", 4, 4.0, " 4", "\\boxed{4}", "four", ["4"], {"answer": "4"}, {"answer": 4}, '{"answer": "4"}',
    '{"split": "train", "answer": "4"}', "", None, 1, {"answer": "2", "split": "train"},
]  # fmt: skip


@pytest.mark.parametrize("method", ["ttrl", "dare"])
async def test_no_label_changes_a_training_reward(asgi, method):
    """Whatever it says, however it is spelt, whatever the siblings' say: it decides nothing but diagnostics."""
    answers = [1, 1, 2, 2, 2]
    pairs = [*itertools.combinations_with_replacement(SPELT, 2)]
    rows = [(f"p{k} ", a, pair[i > 1]) for k, pair in enumerate(pairs) for i, a in enumerate(answers)]
    async with asgi(log="off") as (client, _):
        (whole,) = await together(client, f"/get_reward?method={method}&run=x", [step(rows)])
        singles = [one(a, prompt=p, label=label) for p, a, label in rows]
        alone = await together(client, f"/reward?method={method}&run=y&group_size=5", singles)
    wanted = expected(answers) if method == "dare" else [0.0, 0.0, 1.0, 1.0, 1.0]
    for rewards in (whole["rewards"], [f["rewards"][0] for f in alone]):
        assert rewards == wanted * len(pairs)
    accuracies = [whole["extra_logs"]["label_accuracy"], [f["extra_logs"]["label_accuracy"][0] for f in alone]]
    assert accuracies[0] == accuracies[1]
    assert {*accuracies[0]} == {UNKNOWN, 0.0, 1.0}, "the labels were never read, so this test shows nothing"


@pytest.mark.parametrize("label", ['{"split": "eval"}', '{"answer": "4", "split": "test"}', '{"answer": {"x": "4"}}',
                                   r'"{\"answer\": \"\\ud800\", \"split\": \"eval\"}"',
                                   '{"answer": NaN, "split": "eval"}', "NaN", "[NaN]",
                                   pytest.param("[" * 1000 + "]" * 1000, id="deep")])  # fmt: skip
async def test_a_label_that_means_nothing_is_none_and_is_counted_and_logged_once(asgi, caplog, label):
    """OpenRLHF would end the run of a refusal. NaN is what pandas and `json.dumps` write for an empty cell."""
    answers, counted = [4, 4, 5], label not in {"NaN", "[NaN]"}  # those are empty, as "" is
    bodies = [*(one(a, label="LABEL") for a in answers), step([("p", a, "LABEL") for a in answers])]
    async with asgi() as (client, _):
        sent = (json.dumps(b).replace('"LABEL"', label) for b in bodies)
        headers = {"content-type": "application/json"}
        posts = (client.post("/reward?group_size=3&run=r", content=content, headers=headers) for content in sent)
        *alone, whole = [reply.json() for reply in await asyncio.gather(*posts)]
        text = (await client.get("/metrics")).text
    assert [f["rewards"][0] for f in alone] == whole["rewards"] == expected(answers)
    assert {value for f in (*alone, whole) for value in f["extra_logs"]["label_accuracy"]} == {UNKNOWN}
    assert ("dare_ignored_labels_total 6.0" in text) == counted
    lines = [r for r in caplog.records if r.message == "label_ignored"]
    assert [line.fields["run"] for line in lines] == ["r"] * counted
    assert all("a label means nothing, and its rollouts train without one: " in line.fields["why"] for line in lines)


async def test_a_demand_for_entropies_that_do_not_come_names_the_remedy(asgi):
    async with asgi() as (client, _):
        url = "/reward?group_size=2&run=r&missing_entropy=error"
        replies = await asyncio.gather(*(client.post(url, json=one(a)) for a in (1, 2)))
    assert all("install dare-reward on the rollout nodes" in r.json()["detail"] for r in replies)


@pytest.mark.parametrize(("there", "neutral"), [(1, 1.0), (2, 1.0), (3, 0.0)])
async def test_a_group_that_does_not_fill_is_explained_and_scored_above_half_only_joined_and_in_a_step(
    asgi, caplog, monkeypatch, there, neutral
):
    recorded, held = [], []
    async with asgi(join_hold=0.2, join_deadline=0.3) as (client, state):
        monkeypatch.setattr(state.recorder, "record", lambda *_, run, **__: recorded.append(run))
        bodies = [one(a) for a in (1, 1, 2)[:there]]

        async def until_answered(sent):
            while (reply := await client.post("/reward?group_size=4&run=r", json=sent)).status_code == 503:
                held.append((reply.headers["retry-after"], reply.json()["detail"]))
            return reply.json()

        found = await asyncio.gather(*map(until_answered, bodies))
        assert recorded == ([] if neutral else ["r"])
        info, text = (await client.get("/info")).json(), (await client.get("/metrics")).text
        whole = await until_answered(body([*bodies, *(one(a, prompt="Other? ") for a in (1, 1, 1, 2))]))
    assert {(after, detail[:37]) for after, detail in held} == {("1", f"{there} of 4 rollouts have come after 0.2 s")}
    assert [(w["event"], w["runs"]) for w in info["warnings"]] == [("group_unfilled", 1)]
    assert [r.fields["run"] for r in caplog.records if r.message == "group_unfilled"] == ["r"]
    end = f'dare_join_groups_total{{end="{"neutral" if neutral else "partial"}"}} 1.0'
    assert {end, 'dare_warnings_total{event="group_unfilled"} 1.0'} <= {*text.splitlines()}
    rewards = [0.0] * there if neutral else expected((1, 1, 2)[:there])
    scores = [0.0 if neutral else s for s in (1.0, 1.0, 0.0)[:there]]
    assert [(f["rewards"][0], f["scores"][0]) for f in found] == list(zip(rewards, scores, strict=True))
    assert (whole["rewards"][:there], whole["scores"]) == (rewards, [*scores, 1.0, 1.0, 1.0, 0.0])
    for logs in (reply["extra_logs"] for reply in (*found, whole)):
        assert (logs["partial"][0], logs["neutral"][0], logs["votes"][0]) == (1.0, neutral, float(there))
    assert all(f["extra_logs"]["wait_seconds"][0] > 0 for f in found)
    (line,) = [r for r in caplog.records if r.message == "group"]
    assert (line.levelname, line.fields["rollouts"], line.fields["group_size"]) == ("WARNING", there, 4)


@pytest.mark.parametrize("sent", [one("x" * 1000), one(1, label="x" * 1000)])
async def test_rollouts_that_wait_are_bounded_and_told(asgi, sent):
    async with asgi(join_memory=5000) as (client, state):
        url = "/reward?group_size=4&run=r&kind=text"
        waiting = [asyncio.ensure_future(client.post(url, json=sent)) for _ in range(2)]
        await until(lambda: 4000 <= state.openrlhf.join.bytes <= 5000)
        refused = await client.post(url, json=sent)
        assert f"dare_join_bytes {float(state.openrlhf.join.bytes)}" in (await client.get("/metrics")).text
        for task in waiting:
            task.cancel()
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
    assert "the memory for waiting rollouts is full" in refused.json()["detail"]


async def test_two_jobs_that_copied_a_name_get_no_reward_of_each_other(asgi, caplog):
    """Two trainers on one machine with the same prompts, as released clients post: 186 of 512 rewards were wrong."""

    async def jobs(client, *runs):
        """What each job gets, whose rollouts come in turns with the others' and have an answer of their own."""
        posts = [client.post(f"/get_reward?group_size=8&method=ttrl{run}", json=one(answer, prompt=f"p{p}"))
                 for _ in range(8) for p in range(16) for answer, run in enumerate(runs)]  # fmt: skip
        replies = [(r.status_code, *r.json().get("rewards", ())) for r in await asyncio.gather(*posts)]
        return [{*replies[job :: len(runs)]} for job in range(len(runs))]

    async with asgi(join_runs="distinct") as (client, state):
        for name in ("", "&run=", "&run=same", "&run=qwen-7b-s42"):
            assert await jobs(client, name, name) == [{(422,)}] * 2
        assert not state.openrlhf.join.open
        reply = await client.post("/get_reward?group_size=8&run=same", json=one(1))
        assert reply.json()["errors"][0]["loc"] == "query.run"
        mint = 'curl -sS "http://test/openrlhf?group_size=8"'
        for way in ("nine digits or a UUID", mint, "install dare-reward on the rollout"):
            assert way in reply.json()["detail"]
        (line,) = [r for r in caplog.records if r.message == "refused missing_parameter"]
        assert mint in line.fields["why"], "the client shows no more than the status"
        # What cannot mix needs no name: a group of one, a whole step.
        sent = [client.post("/reward?group_size=1", json=one(1)), client.post("/reward", json=step([("p", 1, "")] * 2))]
        assert [r.status_code for r in await asyncio.gather(*sent)] == [200] * 2
        names = ("&run=same-1763971200-11", "&run=same-1763971200-12", "&run=f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
        assert await jobs(client, *names) == [{(200, 1.0)}] * 3


@pytest.mark.parametrize("seed", range(4))
async def test_each_of_two_jobs_that_share_a_whole_name_sees_it_in_its_own_log(asgi, seed, monkeypatch):
    """Nothing can be refused, but wherever votes mixed, both jobs have a rollout of the prompt that is `repeated`."""
    monkeypatch.setattr("dare_service.joins.join.SAME_STEP", 60.0)  # a busy machine takes its time
    draw, url = random.Random(seed), "/get_reward?group_size=8&run=r-1763971200-11&method=ttrl"

    async def post(client, job, prompt):
        await asyncio.sleep(draw.random() * 0.2)
        reply = (await client.post(url, json=one(job, prompt=f"p{prompt}"))).json()
        return job, prompt, reply["rewards"] != [1.0], reply["extra_logs"]["repeated"] == [1.0]

    rollouts = [(job, prompt) for job in (1, 2) for prompt in range(8) for _ in range(8)]
    async with asgi(join_runs="distinct") as (client, _):
        seen = await asyncio.gather(*(post(client, *rollout) for rollout in rollouts))
        (warning,) = (await client.get("/info")).json()["warnings"]
        alone = await asyncio.gather(*(post(client, 1, 100 + prompt) for prompt in range(8) for _ in range(8)))
    mixed = {prompt for _, prompt, wrong, _ in seen if wrong}
    marked = {(job, prompt) for job, prompt, _, repeated in seen if repeated}
    assert mixed
    assert {(job, prompt) for job in (1, 2) for prompt in mixed} <= marked
    assert not any(wrong or repeated for *_, wrong, repeated in alone)
    assert (warning["event"], warning["runs"]) == ("prompt_repeated", 1)
    assert "group_size is less than" in warning["why"]


async def test_nothing_of_the_caller_is_in_the_log(asgi, caplog):
    caplog.set_level(logging.DEBUG)
    secret = "Zq9unlikely"
    async with asgi(token=secret) as (client, _):
        sent = [one(secret, prompt=secret, label=secret)] * 2
        await together(client, f"/reward?group_size=2&run=r&token={secret}", sent)
        await client.post(f"/reward?token={secret}", json=one(secret, label={"answer": secret, "kind": "choice"}))
        await client.post("/reward?group_size=2&token=wrong", json=one(secret))
    lines = [json.dumps([r.message, getattr(r, "fields", {})]) for r in caplog.records if r.name == "dare_service"]
    assert len(lines) >= 5
    assert not [line for line in lines if secret in line]


GMAE = "&method=gmae&calibration=none&gmae.group_size=2"


@pytest.mark.parametrize(
    ("query", "more", "event", "words"),
    [
        ("", {}, "entropy_source=none", "without entropies dare goes by vote shares"),
        (GMAE, {}, "centre_only", "--algo.advantage.estimator dr_grpo, not group_norm"),
        # Of a later release.
        ("", {"images": None}, "unknown_keys", "keys of the body that this version does not know"),
    ],
)
async def test_the_log_says_once_per_run_what_the_reply_has_no_place_for(asgi, caplog, query, more, event, words):
    bodies = [one(a, **more) for a in (1, 1, 2, 3)]
    async with asgi() as (client, _):
        for run in ("one", "one", "two"):
            await together(client, f"/reward?group_size=4&run={run}{query}", bodies)
        await together(client, f"/reward?group_size=4&run=three{query}", [body(bodies)])
        await together(client, "/reward?group_size=4&run=four&method=ttrl", [one(1)] * 4)
    said = [r.fields for r in caplog.records if r.message == event]
    assert [line["run"] for line in said] == ["one", "two", "three"]
    assert words in said[0]["why"]
    assert said[0].get("keys", []) == [*more]


@pytest.mark.parametrize(("settings", "server"), [({"join": "off"}, told), ({}, lambda app: app)])
async def test_who_must_not_join_still_scores_whole_steps_and_mints_no_url(settings, server):
    """A replica that is told so, and a process that may be one of several and hears of no connection's end."""
    app = server(create_app(Settings(page="off", **settings)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        single = await client.post("/reward?group_size=2", json=one(1))
        minted = await client.get("/openrlhf?group_size=2")
        whole = await client.post("/reward", json=step([("p", 1, "")] * 2))
    assert [single.status_code, minted.status_code, whole.status_code] == [503, 503, 200]
    assert "DARE_JOIN=off" in single.json()["detail"] == minted.json()["detail"]


@pytest.mark.parametrize(
    ("body", "status", "where"),
    [
        ('{"query": [', 400, ""),
        ({"query": ["a"]}, 422, "must be an object"),
        ({"query": "a", "prompts": ["p"]}, 422, "query: must be a list"),
        ({"query": ["a"], "prompts": ["p", "q"]}, 422, "prompts: 2 entries for 1 queries"),
        ({"query": [1], "prompts": ["p"]}, 422, "query[0]: must be a string"),
        ({"query": ["a"], "prompts": ["p"], "labels": "x"}, 422, "labels: must be a list"),
        ({"query": ["a"], "prompts": ["p" * 9]}, 413, "prompts[0]: 9 characters; at most 8"),
        ({"query": ["a"], "prompts": ["p"], "labels": [["x" * 9]]}, 413, "labels[0]: 13 characters; at most 8"),
    ],
)
async def test_a_wrong_body_is_told_where(asgi, body, status, where):
    content, headers = body if isinstance(body, str) else json.dumps(body), {"content-type": "application/json"}
    async with asgi(max_text=8) as (client, _):
        reply = await client.post("/get_reward?group_size=2", content=content, headers=headers)
        frame = await client.post("/get_reward", headers={"content-type": "application/vnd.safetensors"})
    assert (reply.status_code, frame.status_code) == (status, 415)
    assert where in reply.json()["detail"]


@pytest.mark.parametrize("shadow", [(), ("ttrl", "scrl", "dare")])
async def test_every_reply_has_the_same_keys_and_finite_floats(asgi, shadow):
    """For one, for many and for none; also where a group has no answer, no difference, or no label."""
    evaluated = {"answer": "7", "split": "eval"}
    async with asgi() as (client, _):
        url = f"/reward?group_size=4&run=r&method=empo&shadow={'+'.join(shadow)}"
        sent = [[one(a, label="5") for a in "4456"], [one(1, prompt="q")] * 4, [one(None, prompt="r")] * 4]
        sent += [[one(7, label=evaluated)], [step([("p", 1, ""), ("q", 2, evaluated), ("p", 3, "")])]]
        replies = [r for bodies in (*sent, [body([])]) for r in await together(client, url, bodies)]
        alone = await client.post("/reward?group_size=1&method=ttrl", json=one(4))
        (without,) = await together(client, "/reward?extra_logs=off", [step([("p", 1, "")] * 2)])
    keys = [*keys_of("url"), *(f"shadow_{m}_{k}" for m in shadow for k in SHADOW_LOGS)]
    for reply in replies:
        assert list(reply) == ["rewards", "scores", "extra_logs"]
        assert list(reply["extra_logs"]) == keys
        for values in (reply["rewards"], reply["scores"], *reply["extra_logs"].values()):
            assert len(values) == len(reply["rewards"])
            assert all(type(v) is float and abs(v) < 1e9 for v in values)
    assert [len(reply["rewards"]) for reply in replies] == [1] * 13 + [3, 0]
    assert '"rewards":[1.0],"scores":[1.0]' in alone.text, "integers crash torch's std in most releases"
    assert list(without) == ["rewards", "scores"]
    rollouts = [{"answer": a} for a in "4456"]
    told = estimate([{"label": "5", "rollouts": rollouts}], method="empo", shadow=shadow[:1]).groups[0]
    assert [r["rewards"][0] for r in replies[:4]] == [*told.rewards], "shadow methods change none"
    for key in ("flipped", "label_agreement", "label_accuracy", "cosine") if shadow else ():
        assert replies[0]["extra_logs"][f"shadow_ttrl_{key}"] == [told.diagnostics["shadow"]["ttrl"][key]], key


async def test_a_prompt_that_a_step_holds_twice_is_two_groups_of_the_stated_size(asgi):
    rows = [(p, a, "") for p, answers in (("p? ", "1112"), ("q? ", "1111"), ("p? ", "2221")) for a in answers]
    async with asgi() as (client, _):
        (found,) = await together(client, "/reward?run=r&group_size=4&method=ttrl", [step(rows)])
    assert found["rewards"] == [1.0, 1.0, 1.0, 0.0] + [1.0] * 4 + [1.0, 1.0, 1.0, 0.0]
    assert found["extra_logs"]["repeated"] == [0.0] * 8 + [1.0] * 4
