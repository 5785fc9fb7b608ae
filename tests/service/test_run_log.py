"""The run log of the service: each route that scores, its settings, and what /info says of it."""

import asyncio
import json
import os
import shutil
import subprocess
import threading
from itertools import zip_longest

import pytest

from dare_reward import estimate
from dare_reward.runs import log as module
from dare_reward.runs import read_run
from dare_reward.runs.line import lines as text_of
from dare_reward.runs.line import of_groups

PROMPT = "What is 2+2?\n"
GROUPS = [
    {"group_id": "a", "label": "4", "prompt": PROMPT, "rollouts": [
        {"text": "so \\boxed{4}", "mean_entropy": 0.1}, {"answer": "5", "mean_entropy": 0.4}, {"answer": None}]},
    {"group_id": "b", "rollouts": [{"answer": "1"}]},
]  # fmt: skip


@pytest.fixture
def logged(make_service, tmp_path):
    """A service with a run log, and its lines."""

    def make(**settings):
        service = make_service(**{"run_log": str(tmp_path / "log"), **settings})

        def lines():
            assert service.state.recorder.flush()
            return list(read_run(tmp_path / "log"))

        return service, lines

    return make


def together(service, requests, headers=()):
    """Several posts at once, as the rollouts of a group come. `headers`: each one's, where they differ."""

    async def run():
        async with service.client() as client:
            each = zip_longest(requests, headers)
            return await asyncio.gather(*(client.post(url, json=body, headers=own) for (url, body), own in each))

    replies = asyncio.run(run())
    assert {r.status_code for r in replies} == {200}, replies[0].text
    return [r.json() for r in replies]


def test_a_request_of_groups(logged, tmp_path):
    service, lines = logged()
    reply = service.post({"run": "exp1", "step": 3, "groups": GROUPS, "shadow": ["ttrl"]}).json()
    found = lines()
    assert [line["reply"] for line in found] == reply["groups"]
    assert [(line["run"], line["step"], line.get("label")) for line in found] == [("exp1", 3, "4"), ("exp1", 3, None)]
    assert [r["correct"] for r in found[0]["rollouts"]] == [True, False, False]
    assert "prompt" not in found[0]
    info = service.get("/info")
    assert info.json()["run_log"]["flushed"] == 2
    assert str(tmp_path) not in info.text
    (alone, _) = (json.loads(t) for t in text_of(of_groups(GROUPS, estimate(GROUPS).groups), 0.0, module.encoded))
    assert found[0].keys() == alone.keys()


def test_the_url_names_run_and_step_too(logged):
    service, lines = logged()
    service.post({"run": "body", "groups": GROUPS[:1]}, "/reward?run=exp1&step=3")
    assert [(line["run"], line["step"]) for line in lines()] == [("exp1", 3)]


def test_the_form_of_the_reply_changes_nothing(logged):
    service, lines = logged()
    service.post({"groups": GROUPS})
    service.post({"groups": GROUPS}, "/reward?detail=rewards")
    rows = [{k: v for k, v in line.items() if k not in {"time", "seconds"}} for line in lines()]
    assert rows[:2] == rows[2:4]


@pytest.mark.parametrize("texts", ["", "prompt texts"])
def test_openrlhf_s_rollouts(logged, texts):
    """Of one request, and one a request."""
    service, lines = logged(run_log_texts=texts)
    bodies = [{"query": [f"{PROMPT}so \\boxed{{{a}}}"], "prompts": [PROMPT], "labels": ["4"]} for a in (4, 4, 5)]
    assert service.post({k: [b[k][0] for b in bodies] for k in bodies[0]}, "/get_reward?run=step").status_code == 200
    (step,) = lines()
    assert step["reply"]["answers"] == ["4", "4", "5"]
    found = together(service, [("/get_reward?group_size=3&run=r", body) for body in bodies])
    (line,) = (line for line in lines() if line["run"] != "step")
    assert sorted(line["reply"]["answers"]) == ["4", "4", "5"]
    assert line["run"] == "r"
    assert sorted(r for f in found for r in f["rewards"]) == pytest.approx(sorted(line["reply"]["rewards"]), abs=2**-16)
    assert sorted(r["correct"] for r in line["rollouts"]) == [False, True, True]
    assert line.get("prompt") == (PROMPT if texts else None)
    told = sorted(r["text"] for r in line["rollouts"] if "text" in r)
    assert told == (sorted(f"so \\boxed{{{a}}}" for a in (4, 4, 5)) if texts else [])


@pytest.mark.parametrize("asking", [1, 2])
def test_what_asks_to_stay_out_is_scored_and_not_logged(logged, asking):
    """A group of several requests stays out by the word of one of them."""
    service, lines = logged()
    no = {"Dare-Record": "no"}
    step = {"query": [f"{PROMPT}\\boxed{{{a}}}" for a in (4, 5)], "prompts": [PROMPT] * 2, "labels": ["4"] * 2}
    alone = [{name: [value[i]] for name, value in step.items()} for i in range(2)]
    assert together(service, [("/get_reward?group_size=2&run=r", body) for body in alone], [no] * asking)
    for url, body in (("/get_reward?run=r", step), ("/reward", step), ("/reward", {"groups": GROUPS})):
        assert service.post(body, url, headers=no).status_code == 200
    service.post({"groups": GROUPS[1:]})
    assert [line["group_id"] for line in lines()] == ["b"]


@pytest.mark.parametrize("place", ["file", "file/below", "shut", "shut/a/b", "link", "link/below", "odd", "odd/below"])
def test_a_place_that_cannot_be_written_is_told_at_the_start(logged, tmp_path, monkeypatch, place):
    (tmp_path / "file").write_text("")
    (tmp_path / "shut").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "odd").symlink_to("n" * 300)  # nobody can look at it, as where a folder above it is another user's
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("shut") and may(path, mode))
    before = threading.active_count()
    service, _ = logged(run_log=str(tmp_path / place))
    (warning,) = service.get("/info").json()["warnings"]
    assert warning["event"] == "run_log_unwritable"
    assert "DARE_RUN_LOG is no folder that can be written" in warning["why"]
    assert str(tmp_path) not in warning["why"]
    assert threading.active_count() <= before  # the log writes nothing before the first group


@pytest.mark.parametrize("place", ["", "new/a/b"])
def test_a_place_that_can_be_written_is_left_as_it_is(logged, tmp_path, place):
    service, _ = logged(run_log=str(tmp_path / place))
    assert service.get("/info").json()["warnings"] == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_no_reward(logged, tmp_path):
    (tmp_path / "file").write_text("")
    service, _ = logged(run_log=str(tmp_path / "file"))
    for _ in range(3):
        assert service.post({"groups": GROUPS}).status_code == 200
    assert service.state.recorder.flush()
    info = service.get("/info").json()
    assert info["run_log"] == {"flushed": 0, "dropped": 0, "failed": 6, "repeated": 0, "bytes": 0}
    (warning,) = [w for w in info["warnings"] if w["event"] == "run_log_failed"]
    assert warning["runs"] == 1


def test_a_copy_of_a_log_that_is_being_written_is_a_backup(logged, tmp_path):
    """`cp -a` as the page has it: the copy reads as the log did, also where a run's folder is copied back alone."""
    service, lines = logged()
    posts = {"run": "exp1", "groups": GROUPS}
    service.post(posts)
    before = lines()
    subprocess.run(["cp", "-a", tmp_path / "log", tmp_path / "backup"], check=True)
    service.post(posts)
    assert [line["group_id"] for line in before] == ["a", "b"]
    assert list(read_run(tmp_path / "backup")) == before
    assert len(lines()) == 4
    shutil.rmtree(tmp_path / "log" / "exp1")
    shutil.copytree(tmp_path / "backup" / "exp1", tmp_path / "log" / "exp1")
    assert list(read_run(tmp_path / "log")) == before
