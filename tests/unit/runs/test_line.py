"""A line of a run log: the group as it was sent, and its reply; the same from a service and from its client."""

import json

import pytest

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.files.shapes import Notes, shape_of
from dare_reward.reply import group_json
from dare_reward.runs import line as module
from dare_reward.runs.line import LINE, asked_for, fault, line, lines, objects, of_groups, of_scored
from dare_reward.runs.log import encoded
from dare_reward.scoring.score import score

ROLLOUTS = [
    {"text": "so \\boxed{2}", "token_entropies": [0.1, 0.30004], "token_mask": [True, True]},
    {"text": "so \\boxed{2.0}", "token_entropies": [0.5, 9.0], "token_mask": [True, False], "trained": False},
    {"answer": "3", "mean_entropy": 0.25, "num_tokens": 7, "confidence": 1.5, "finish_reason": "length"},
    {"answer": None},
]
ABOUT = {"group_id": "a", "label": "2", "prompt": "1+1?", "temperature": 0.7, "meta": {"mine": 1}}
GROUPS = [
    {**ABOUT, "rollouts": ROLLOUTS},
    {"kind": "exact", "rollouts": [{"answer": "x", "correct": True}, {"answer": "y", "correct": None}]},
]


def read(record):
    return [json.loads(text) for text in lines(record, 1e9 + 0.1234, encoded)]


def test_a_line_is_the_group_as_it_was_sent_and_its_reply():
    found = score(GROUPS, {}, method="dare")
    first, second = read(of_scored(found, GROUPS, run="r", step=3))
    assert LINE.keys() | {"group_id", "label", "temperature", "rollouts"} == first.keys()
    assert LINE.keys() | {"kind", "rollouts"} == second.keys(), "nobody gave it an id"
    assert (first["v"], first["time"], first["run"], first["step"]) == (2, "2001-09-09T01:46:40.123Z", "r", 3)
    assert first["rollouts"] == [
        {"answer": "2", "mean_entropy": pytest.approx(0.20002), "num_tokens": 2, "correct": True},
        {"answer": "2", "mean_entropy": 0.5, "num_tokens": 1, "correct": True, "trained": False},
        {"answer": "3", "mean_entropy": 0.25, "num_tokens": 7, "correct": False, "confidence": 1.5,
         "finish_reason": "length"},
        {"answer": None, "correct": False},
    ]  # fmt: skip
    assert second["rollouts"] == [{"answer": "x", "correct": True}, {"answer": "y", "correct": None}]
    assert second["reply"]["error"]["code"] == "missing_entropy"
    written = [json.loads(json.dumps(group_json(g))) for g in found.reply.groups]
    assert [first["reply"], second["reply"]] == written
    assert not any(map(fault, (first, second)))


@pytest.mark.parametrize("asked", ["", "all", "texts"])
def test_a_line_scored_again_gets_its_reply_again(asked):
    """The reader of files takes it as a group, and nothing of it is called unknown."""
    reply = dare_reward.estimate(GROUPS[:1])
    (one,) = read(of_groups(GROUPS[:1], reply.groups, asked=asked_for(asked), run="r", step=3))
    notes = Notes()
    group = shape_of(one, notes, top=False)
    assert not notes.ignored
    scored_by = {"method": "dare", "config_id": reply.config_id}
    assert group["meta"] == {"run": "r", "step": 3, "log_time": one["time"], **scored_by}
    again = dare_reward.estimate([group]).groups[0]
    assert again.rewards == pytest.approx(reply.groups[0].rewards, abs=1e-6)
    assert (again.answers, again.pseudo_label) == (reply.groups[0].answers, reply.groups[0].pseudo_label)


def test_a_client_writes_what_the_service_writes():
    """The service has arrays and, mostly, the reply's bytes; a client has its groups and a reply."""
    found = score(GROUPS, {}, method="dare")
    asked = asked_for("all")
    ready = [encoded(group_json(g)) for g in found.reply.groups]
    expected = read(of_scored(found, GROUPS, asked=asked))
    assert read(of_scored(found, GROUPS, asked=asked, encoded=ready)) == expected
    assert read(of_groups(GROUPS, found.reply.groups, asked=asked, seconds=found.seconds)) == expected
    assert [json.loads(encoded(o)) for o in objects(of_scored(found, GROUPS, asked=asked), 1e9 + 0.1234)] == expected
    alone = line(GROUPS[0], found.reply.groups[0], {})
    bare = read(of_scored(found, GROUPS))[0]
    assert {**bare, "time": None, "seconds": 0.0} == json.loads(encoded(alone))


def test_a_client_writes_of_the_answers_tokens_what_the_service_writes():
    """Also where their places follow from the text."""
    offsets = {"token_entropies": [0.5, 0.1, 0.3], "token_logprobs": [-0.5, -0.1, -0.2]}
    offsets["token_offsets"] = [[0, 7], [7, 8], [8, 9]]
    sent = [{"group_id": "g", "rollouts": [{"text": "\\boxed{4}", **offsets}, {"answer": "5", "mean_entropy": 0.2}]}]
    found = score(sent, {}, method="ttrl")
    lines = (read(of_scored(found, sent)), read(of_groups(sent, found.reply.groups, seconds=found.seconds)))
    assert lines[0] == lines[1]
    assert lines[1][0]["rollouts"][0]["answer_entropy"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("rollout", "known"),
    [
        ({"answer": "4", "correct": None}, {"correct": True}),
        ({"answer": "4", "mean_entropy": None, "token_entropies": [0.5, 0.1]}, {"mean_entropy": 0.3, "num_tokens": 2}),
        ({"text": "\\boxed{4}", "sum_logprob": -1.0, "num_tokens": 3, "path": None}, {"path": "#0", "answer": "4"}),
    ],
)
def test_a_null_is_filled_as_what_is_missing_is(rollout, known):
    sent = [{"group_id": "g", "label": "4", "rollouts": [rollout, dict(rollout)]}]
    found = score(sent, {}, method="ttrl")
    for record in (of_scored(found, sent), of_groups(sent, found.reply.groups)):
        for row in read(record)[0]["rollouts"]:
            assert {name: row.get(name) for name in known} == known


def test_a_line_without_texts_tells_its_paths_apart():
    """So that a log is judged by as many certainties as the file whose groups it holds."""
    rows = [("so \\boxed{4}", [1]), ("so \\boxed{4}", [2, 3]), ("\\boxed{5}", [7]), ("\\boxed{5}", [7])]
    rollouts = [{"text": t, "token_ids": i, "token_logprobs": [-0.7] * len(i)} for t, i in rows]
    sent, how = [{"group_id": "g", "rollouts": rollouts}], {"reward": "share"}
    found = score(sent, how, method="perplexity_consistency")
    for record in (of_scored(found, sent), of_groups(sent, found.reply.groups)):
        (line,) = read(record)
        assert not {"text", "token_ids"} & set().union(*line["rollouts"])
        again = dare_reward.estimate([{"rollouts": line["rollouts"]}], method="perplexity_consistency", **how)
        assert again.groups[0].rewards == found.reply.groups[0].rewards


def test_a_client_grades_where_lines_are_made(monkeypatch):
    """Reading a label costs a training step nothing: a thread of the run log makes the lines."""
    asked, real = [], module.grades
    monkeypatch.setattr(module, "grades", lambda *args, **rest: asked.append(1) or real(*args, **rest))
    record = of_groups(GROUPS, dare_reward.estimate(GROUPS).groups)
    assert asked == []
    assert [r["correct"] for r in read(record)[0]["rollouts"]] == [True, True, False, False]
    assert asked
    assert read(of_groups([], dare_reward.estimate([]).groups)) == []


def test_texts_only_where_asked_for():
    found = score(GROUPS, {}, method="dare")
    first, _ = read(of_scored(found, GROUPS, asked=asked_for("all")))
    assert first["prompt"] == "1+1?"
    assert [r.get("text") for r in first["rollouts"]] == ["so \\boxed{2}", "so \\boxed{2.0}", None, None]
    assert ["answer" in r for r in first["rollouts"]] == [False, False, True, True], "as they were sent"
    assert "boxed" not in json.dumps(read(of_scored(found, GROUPS)))
    assert "mine" not in json.dumps(read(of_scored(found, GROUPS, asked=asked_for("all"))))


def test_what_waits_holds_no_texts_that_nobody_asked_for():
    record = of_scored(score(GROUPS, {}, method="dare"), GROUPS)
    assert "boxed" not in json.dumps(record.groups)
    light = [{"rollouts": [{"answer": "1"}]}]
    assert of_scored(score(light, {}, method="ttrl"), light).groups is light, "nothing is copied"


def test_asked_for():
    found = [asked_for(words) for words in ("", "texts, prompt", "all")]
    assert found == [set(), {"texts", "prompt"}, {"prompt", "texts"}]
    with pytest.raises(RequestError, match="texts"):
        asked_for("text")


def test_what_json_cannot_say_is_null():
    assert json.loads(encoded({"a": [float("nan"), 1.5, {"b": float("inf")}]})) == {"a": [None, 1.5, {"b": None}]}
    assert json.loads(encoded({"a": "\ud800é\x1b[2J"})) == {"a": "?é\x1b[2J"}
    assert b"\x1b" not in encoded({"a": "\x1b[2J\n"})
    assert b"\n" not in encoded({"a": "\n"})


def test_token_masks_are_not_kept(plugin):
    groups = [{"rollouts": [{"answer": "1", "token_entropies": [0.1, 0.2, 3.0]} for _ in range(4)]}]
    found = score(groups, {"allow_experimental": True}, method="guess_tokens")
    assert found.reply.groups[0].token_mask is not None
    ready = [encoded(group_json(g)) for g in found.reply.groups]
    (one,) = read(of_scored(found, groups, encoded=ready))
    assert one["reply"]["token_mask"] is None
    assert one["reply"]["method"] == "guess_tokens"
