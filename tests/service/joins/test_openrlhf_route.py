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
from dare_service.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("plugins")]
PROMPT = "<|im_start|>user\nWhat is 2+2? Put it in \\boxed{}.<|im_end|>\n<|im_start|>assistant\n"
RESERVED = {"reward", "score", "kl", "return", "logprobs_diff", "group_reward_std", "response_clip_ratio"}


def one(answer: object, *, prompt: str = PROMPT, label: object = "", **more: object) -> dict:
    """The body of releases since 0.9.1."""
    said = "I do not know." if answer is None else f"So it is \\boxed{{{answer}}}." if answer != AGAIN else AGAIN
    return {
        "query": [f"{prompt}{said}<|im_end|>"],
        "prompts": [prompt],
        "labels": [label],
        **{k: [v] for k, v in more.items()},
    }


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
    return {key: [b[key][0] for b in bodies] for key in bodies[0]}


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
        assert {w["event"] for w in state.openrlhf._runs.warnings} == ({event} if event else set())
    found = [{name: [*v[-at:], *v[:-at]] if at else v for name, v in flat(f).items()} for at, f in enumerate(found)]
    found.append({name: [flat(f)[name][0] for f in alone] for name in found[0]})
    for reply in found:
        assert reply["rewards"] == rewards
        for name, value in logs.items():
            assert reply[name] == (value if isinstance(value, list) else [value] * len(rows)), name


def flat(reply):
    return {"rewards": reply["rewards"], "scores": reply["scores"], **reply["extra_logs"]}


@pytest.mark.parametrize("say", [
    str, lambda t: {"answer": str(t), "split": "train"}, lambda t: json.dumps({"answer": t, "split": "train"}),
])  # fmt: skip
@pytest.mark.parametrize("single", [True, False])
async def test_permuted_labels_give_bit_identical_training_rewards(asgi, say, single):
    """Ground truth decides nothing but diagnostics."""
    rng, truths, seen, accuracies = random.Random(11), [1, 2, 3, 1, 2, 3], set(), set()
    rows = [(p, rng.choice([1, 1, 2, 3, None])) for p in range(6) for _ in range(5)]
    for _ in range(5):
        bodies = [one(a, prompt=f"prompt {p}", label=say(truths[p])) for p, a in rows]
        async with asgi(log="off") as (client, _):
            found = await together(client, "/reward?group_size=5&run=x", bodies if single else [body(bodies)])
        seen.add(tuple((*f["rewards"], *f["scores"]) for f in found))
        accuracies.add(tuple(value for f in found for value in f["extra_logs"]["label_accuracy"]))
        rng.shuffle(truths)
    assert len(seen) == 1
    assert len(accuracies) > 1, "the labels were never read, so this test shows nothing"


@pytest.mark.parametrize("label", ['{"split": "eval"}', '{"answer": "4", "split": "test"}', '{"answer": {"x": "4"}}',
                                   r'"{\"answer\": \"\\ud800\", \"split\": \"eval\"}"',
                                   '{"answer": NaN, "split": "eval"}', "NaN", "[NaN]"])  # fmt: skip
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


async def test_two_runs_do_not_meet(asgi):
    async with asgi() as (client, state):
        first = asyncio.ensure_future(client.post("/reward?group_size=2&run=a", json=one(1)))
        both = await together(client, "/reward?group_size=2&run=b", [one(2), one(2)])
        assert both[0]["extra_logs"]["majority_ratio"] == [1.0]
        assert state.openrlhf.join.waiting == 1
        first.cancel()


@pytest.mark.parametrize(("there", "neutral"), [(1, 1.0), (2, 1.0), (3, 0.0)])
async def test_a_group_that_closes_early_is_scored_above_half_only_joined_and_in_a_step(
    asgi, caplog, monkeypatch, there, neutral
):
    recorded = []
    async with asgi(join_hold=0.2, join_deadline=0.3) as (client, state):
        monkeypatch.setattr(state.recorder, "record", lambda *_, run, **__: recorded.append(run))
        bodies = [one(a) for a in (1, 1, 2)[:there]]

        async def until_answered(sent):
            while (reply := await client.post("/reward?group_size=4&run=r", json=sent)).status_code == 503:
                pass
            return reply.json()

        found = await asyncio.gather(*map(until_answered, bodies))
        assert recorded == ([] if neutral else ["r"])
        text = (await client.get("/metrics")).text
        whole = await until_answered(body([*bodies, *(one(a, prompt="Other? ") for a in (1, 1, 1, 2))]))
    assert all(f["extra_logs"]["wait_seconds"][0] > 0 for f in found)
    rewards = [0.0] * there if neutral else expected((1, 1, 2)[:there])
    scores = [0.0 if neutral else s for s in (1.0, 1.0, 0.0)[:there]]
    assert [(f["rewards"][0], f["scores"][0]) for f in found] == list(zip(rewards, scores, strict=True))
    assert (whole["rewards"][:there], whole["scores"][:there]) == (rewards, scores)
    assert whole["scores"][there:] == [1.0, 1.0, 1.0, 0.0]
    for reply in (*found, whole):
        logs = reply["extra_logs"]
        assert (logs["partial"][0], logs["neutral"][0], logs["votes"][0]) == (1.0, neutral, float(there))
    assert f'dare_join_groups_total{{end="{"neutral" if neutral else "partial"}"}} 1.0' in text
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


async def test_a_group_that_does_not_fill_is_explained_after_its_first_hold(asgi, caplog):
    async with asgi(join_hold=0.3, join_deadline=1.4) as (client, _):
        bodies = [one(a) for a in (1, 2, 3)]
        replies = await asyncio.gather(*(client.post("/reward?group_size=6&run=r", json=b) for b in bodies))
        info, text = (await client.get("/info")).json(), (await client.get("/metrics")).text
    for reply in replies:
        assert reply.status_code == 503
        assert "3 of 6 rollouts have come after 0.3 s" in reply.json()["detail"]
        assert reply.headers["retry-after"] == "1"
    (line,) = [r for r in caplog.records if r.message == "group_unfilled"]
    assert line.fields["run"] == "r"
    (warning,) = info["warnings"]
    assert (warning["event"], warning["runs"]) == ("group_unfilled", 1)
    assert 'dare_warnings_total{event="group_unfilled"} 1.0' in text


async def test_two_jobs_that_copied_a_name_get_no_reward_of_each_other(asgi):
    """Two trainers on one machine with the same prompts, as released clients post: 186 of 512 rewards were wrong."""

    async def job(client, run, answer, prompts=16):
        posts = [client.post(f"/get_reward?group_size=8&method=ttrl{run}", json=one(answer, prompt=f"p{p}"))
                 for _ in range(8) for p in range(prompts)]  # fmt: skip
        replies = await asyncio.gather(*posts)
        return {(r.status_code, *r.json().get("rewards", ())) for r in replies}

    async with asgi(join_runs="distinct") as (client, state):
        for name in ("", "&run=", "&run=same", "&run=qwen-7b-s42"):
            assert await asyncio.gather(*(job(client, name, i, 2) for i in (1, 2))) == [{(422,)}] * 2
        assert not state.openrlhf.join.open
        reply = await client.post("/get_reward?group_size=8&run=same", json=one(1))
        assert reply.json()["errors"][0]["loc"] == "query.run"
        ways = (
            "nine digits or a UUID",
            'curl -sS "http://test/openrlhf?group_size=8"',
            "install dare-reward on the rollout",
        )
        assert all(way in reply.json()["detail"] for way in ways)
        # What cannot mix needs no name: a group of one, a whole step.
        sent = [client.post("/reward?group_size=1", json=one(1)), client.post("/reward", json=step([("p", 1, "")] * 2))]
        assert [r.status_code for r in await asyncio.gather(*sent)] == [200] * 2
        names = ("&run=same-1763971200-11", "&run=same-1763971200-12", "&run=f81d4fae-7dec-11d0-a765-00a0c91e6bf6")
        found = await asyncio.gather(*(job(client, name, i) for i, name in enumerate(names)))
        assert found == [{(200, 1.0)}] * 3


@pytest.mark.parametrize("seed", range(4))
async def test_each_of_two_jobs_that_share_a_whole_name_sees_it_in_its_own_log(asgi, seed, monkeypatch):
    """Nothing can be refused, but wherever votes mixed, both jobs have a rollout of the prompt that is `repeated`."""
    monkeypatch.setattr("dare_service.joins.join.SAME_STEP", 60.0)  # a busy machine takes its time
    draw, headers, url = random.Random(seed), [], "/get_reward?group_size=8&run=r-1763971200-11&method=ttrl"

    async def post(client, job, prompt):
        await asyncio.sleep(draw.random() * 0.2)
        got = await client.post(url, json=one(job, prompt=f"p{prompt}"))
        headers.append(got.headers.get("dare-warning", ""))
        reply = got.json()
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
    assert any("group_size is less than" in header for header in headers)


async def test_nothing_of_the_caller_is_in_the_log(asgi, caplog):
    caplog.set_level(logging.DEBUG)
    secret = "Zq9unlikely"
    async with asgi(token=secret) as (client, _):
        await together(
            client, f"/reward?group_size=2&run=r&token={secret}", [one(secret, prompt=secret, label=secret)] * 2
        )
        await client.post(f"/reward?token={secret}", json=one(secret))
        await client.post("/reward?group_size=2&token=wrong", json=one(secret))
    lines = [json.dumps([r.message, getattr(r, "fields", {})]) for r in caplog.records if r.name == "dare_service"]
    assert len(lines) >= 5
    assert not [line for line in lines if secret in line]


@pytest.mark.parametrize(
    ("query", "event", "words"),
    [
        ("", "entropy_source=none", "without entropies dare goes by vote shares"),
        (
            "&method=gmae&calibration=none&gmae.group_size=2",
            "centre_only",
            "--algo.advantage.estimator dr_grpo, not group_norm",
        ),
    ],
)
async def test_the_log_says_once_per_run_what_the_reply_has_no_place_for(asgi, caplog, query, event, words):
    bodies = [one(a) for a in (1, 1, 2, 3)]
    async with asgi() as (client, _):
        for run in ("one", "one", "two"):
            await together(client, f"/reward?group_size=4&run={run}{query}", bodies)
        await together(client, f"/reward?group_size=4&run=three{query}", [body(bodies)])
        await together(client, "/reward?group_size=4&run=four&method=ttrl", bodies)
    said = [r for r in caplog.records if r.message == event]
    assert [r.fields["run"] for r in said] == ["one", "two", "three"]
    assert words in said[0].fields["why"]


@pytest.mark.parametrize(("settings", "server"), [({"join": "off"}, told), ({}, lambda app: app)])
async def test_who_must_not_join_still_scores_whole_steps(settings, server):
    """A replica that is told so, and a process that may be one of several and hears of no connection's end."""
    app = server(create_app(Settings(page="off", **settings)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        single = await client.post("/reward?group_size=2", json=one(1))
        whole = await client.post("/reward", json=step([("p", 1, "")] * 2))
    assert [single.status_code, whole.status_code] == [503, 200]
    assert "DARE_JOIN=off" in single.json()["detail"]


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


async def test_what_the_reply_has_no_place_for_is_in_the_log(asgi, caplog):
    """Keys that a later release may add, and once a refusal, of which the client shows no more than its status."""
    async with asgi() as (client, _):
        await together(client, "/reward?group_size=1&run=r", [{**one(1), "images": [None]}])
        for _ in range(3):
            assert (await client.post("/reward", json=one(1))).status_code == 422
    assert [r.fields["keys"] for r in caplog.records if r.message == "unknown_keys"] == [["images"]]
    (line,) = [r for r in caplog.records if r.message == "refused missing_parameter"]
    assert "openrlhf?group_size=8" in line.fields["why"]


def test_serve_is_one_process_and_joins_whatever_other_servers_are_asked_for(start_server):
    with start_server(WEB_CONCURRENCY="2") as (url, _):
        joined = httpx.post(f"{url}/reward?group_size=1&method=ttrl", json=one(1))
    assert (joined.status_code, joined.json()["rewards"]) == (200, [1.0])


SHADOW = "&shadow=ttrl+scrl+dare"


@pytest.mark.parametrize("shadow", ["", SHADOW])
async def test_every_reply_has_the_same_keys_and_finite_floats(asgi, shadow):
    """For one, for many and for none; also where a group has no answer, no difference, or no label."""
    evaluated = {"answer": "7", "split": "eval"}
    async with asgi() as (client, _):
        url = f"/reward?group_size=2&run=r{shadow}"
        replies = [
            *await together(client, url, [one(1, label="1"), one(2, label="1")]),
            *await together(client, url, [one(1, prompt="unanimous"), one(1, prompt="unanimous")]),
            *await together(client, url, [one(None, prompt="silent"), one(None, prompt="silent")]),
            *await together(client, url, [one(7, label=evaluated)]),
            *await together(client, url, [step([("p", 1, ""), ("q", 2, evaluated), ("p", 3, "")])]),
            *await together(client, url, [{"query": [], "prompts": [], "labels": []}]),
        ]
        alone = await client.post("/reward?group_size=1&method=ttrl", json=one(4))
        (without,) = await together(client, "/reward?extra_logs=off", [step([("p", 1, "")] * 2)])
    keys = [f"shadow_{m}_{k}" for m in ("ttrl", "scrl", "dare") if shadow for k in SHADOW_LOGS]
    for reply in replies:
        assert list(reply) == ["rewards", "scores", "extra_logs"]
        assert list(reply["extra_logs"]) == [*keys_of("url"), *keys]
        for values in (reply["rewards"], reply["scores"], *reply["extra_logs"].values()):
            assert len(values) == len(reply["rewards"])
            assert all(type(v) is float and abs(v) < 1e9 for v in values)
    assert [len(reply["rewards"]) for reply in replies] == [1] * 7 + [3, 0]
    assert not RESERVED & {*keys_of("url"), *keys}
    assert '"rewards":[1.0],"scores":[1.0]' in alone.text, "integers crash torch's std in most releases"
    assert list(without) == ["rewards", "scores"]
    if shadow:
        unanimous = replies[2]["extra_logs"]
        assert (unanimous["shadow_ttrl_cosine"], unanimous["shadow_ttrl_cosine_known"]) == ([UNKNOWN], [0.0])
        assert (unanimous["shadow_ttrl_flipped"], unanimous["shadow_ttrl_label_accuracy"]) == ([0.0], [UNKNOWN])


async def test_shadow_methods_are_told_in_the_logs_and_change_no_reward(asgi):
    answers = [4, 4, 5, 4, 6, None]
    bodies = [one(a, label="5") for a in answers]
    async with asgi() as (client, _):
        url = "/reward?group_size=6&method=empo"
        plain, found = [await together(client, f"{url}&run=a{more}", bodies) for more in ("", SHADOW)]
    assert [(f["rewards"], f["scores"]) for f in found] == [(f["rewards"], f["scores"]) for f in plain]
    rollouts = [{"answer": None if a is None else str(a)} for a in answers]
    told = estimate([{"label": "5", "rollouts": rollouts}], method="empo", shadow=["ttrl"]).groups[0].diagnostics
    logs = found[0]["extra_logs"]
    for key in ("flipped", "label_agreement", "label_accuracy", "cosine"):
        assert logs[f"shadow_ttrl_{key}"] == [told["shadow"]["ttrl"][key]], key
    assert logs["shadow_ttrl_cosine_known"] == [1.0]
    assert logs["shadow_dare_flipped"] == logs["shadow_dare_cosine"] == [UNKNOWN], "its default is to want entropies"


# --- which rollouts are one group (`tests/unit/test_membership.py` has the rule) ---------------------------------------

ANSWERS = [1, 1, 2, 2, 2]
# How a data set's column, a text of JSON and nothing at all write the label 4, and what only looks like it.
SPELT = [
    "4", "4.0", 4, 4.0, " 4", "\\boxed{4}", "four", ["4"], {"answer": "4"}, {"answer": 4}, '{"answer": "4"}',
    '{"split": "train", "answer": "4"}', "", None,
]  # fmt: skip


@pytest.mark.parametrize("method", ["ttrl", "dare"])
async def test_no_spelling_of_the_siblings_labels_changes_a_reward(asgi, method):
    wanted = expected(ANSWERS) if method == "dare" else [0.0, 0.0, 1.0, 1.0, 1.0]
    pairs = list(itertools.combinations(SPELT, 2))
    bodies = [step([(PROMPT, a, x if i < 2 else y) for i, a in enumerate(ANSWERS)]) for x, y in pairs]
    async with asgi() as (client, _):
        found = await together(client, f"/get_reward?method={method}&run=x", bodies)
        singles = [one(a, label=SPELT[i % len(SPELT)]) for i, a in enumerate(ANSWERS)]
        alone = await together(client, f"/reward?method={method}&run=y&group_size=5", singles)
    assert [f["rewards"] for f in found] == [wanted] * 91
    assert [f["rewards"][0] for f in alone] == wanted


async def test_a_prompt_that_a_step_holds_twice_is_two_groups_of_the_stated_size(asgi):
    rows = [(p, a, "") for p, answers in (("p? ", "1112"), ("q? ", "1111"), ("p? ", "2221")) for a in answers]
    async with asgi() as (client, _):
        (found,) = await together(client, "/reward?run=r&group_size=4&method=ttrl", [step(rows)])
    assert found["rewards"] == [1.0, 1.0, 1.0, 0.0] + [1.0] * 4 + [1.0, 1.0, 1.0, 0.0]
    assert found["extra_logs"]["repeated"] == [0.0] * 8 + [1.0] * 4
