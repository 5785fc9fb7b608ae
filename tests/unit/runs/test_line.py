"""What a line of a run log holds: the declared keys, the same from a service and from its client."""

import json
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.reply import group_json
from dare_reward.runs import line as module
from dare_reward.runs.line import ASKED, LINE, asked_for, lines, objects, of_groups, of_scored
from dare_reward.runs.log import encoded
from dare_reward.scoring.score import score

OPTIONAL = {"truncated", "named", "inputs", "temperature", "top_p", "logprobs_mode", *ASKED}
GROUPS = [
    {
        "group_id": "a",
        "label": "2",
        "prompt": "1+1?",
        "rollouts": [
            {"text": "so \\boxed{2}", "token_entropies": [0.1, 0.30004], "token_mask": [True, True]},
            {"text": "so \\boxed{2.0}", "token_entropies": [0.5, 9.0], "token_mask": [True, False], "trained": False},
            {"answer": "3", "mean_entropy": 0.25, "num_tokens": 7, "confidence": 1.5},
            {"answer": None},
        ],
    },
    {"kind": "exact", "rollouts": [{"answer": "x", "correct": True}, {"answer": "y", "correct": None}]},
]


def read(record):
    return [json.loads(text) for text in lines(record, 1e9 + 0.1234, encoded)]


def test_every_line_has_the_declared_keys():
    found = read(of_scored(score(GROUPS, {}, method="dare"), GROUPS, run="r", step=3))
    required = {f.name for f in LINE} - OPTIONAL
    assert [set(line) - {"inputs"} for line in found] == [required, required | {"named"}]
    first, second = found
    assert (first["v"], first["time"], first["run"], first["step"]) == (1, "2001-09-09T01:46:40.123Z", "r", 3)
    assert first["answers"] == ["2", "2", "3", None]
    assert first["correct"] == [True, True, False, False]
    assert first["trained"] == [True, False, True, True]
    assert first["mean_entropies"] == [pytest.approx(0.20002), 0.5, 0.25, None]
    assert first["num_tokens"] == [2, 1, 7, None]
    assert first["inputs"] == {"confidence": [None, None, 1.5, None]}
    assert second["error"]["code"] == "missing_entropy"
    assert second["correct"] == [True, None]
    assert second["mean_entropies"] is second["label"] is None


def test_fields_of_the_reply_keep_their_names():
    reply = dare_reward.estimate(GROUPS, advantage="grpo", shadow=["ttrl"])
    for line, group in zip(read(of_groups(GROUPS, reply)), reply.groups):
        written = json.loads(json.dumps(group_json(group)))
        assert {name: line[name] for name in written} == written


def test_a_client_writes_what_the_service_writes():
    """The service has arrays and, mostly, the reply's bytes; a client has its groups and a reply."""
    found = score(GROUPS, {}, method="dare")
    asked = asked_for("all")
    ready = [encoded(group_json(g)) for g in found.reply.groups]
    expected = read(of_scored(found, GROUPS, asked=asked))
    assert read(of_scored(found, GROUPS, asked=asked, encoded=ready)) == expected
    remote = read(of_groups(GROUPS, found.reply, asked=asked, seconds=found.seconds))
    assert remote == expected


def test_a_client_grades_where_lines_are_made(monkeypatch):
    """Reading a label costs a training step nothing: a thread of the run log makes the lines."""
    asked = []
    monkeypatch.setattr(
        module, "grades", lambda *args, real=module.grades, **rest: asked.append(1) or real(*args, **rest)
    )
    record = of_groups(GROUPS, dare_reward.estimate(GROUPS))
    assert asked == []
    assert read(record)[0]["correct"] == [True, True, False, False]
    assert asked
    assert read(of_groups([], dare_reward.estimate([]))) == []


def test_texts_only_where_asked_for():
    found = score(GROUPS, {}, method="dare")
    first, second = read(of_scored(found, GROUPS, asked=asked_for("all")))
    assert first["prompt"] == "1+1?"
    assert first["texts"] == ["so \\boxed{2}", "so \\boxed{2.0}", None, None]
    assert first["token_entropies"] == [[0.1, 0.3], [0.5], [], []]  # masked tokens are not the policy's
    assert second.keys() & OPTIONAL == {"named"}
    assert second["named"] is False
    (only, _) = read(of_scored(found, GROUPS, asked=asked_for("texts")))
    assert OPTIONAL & only.keys() == {"inputs", "texts"}
    assert "boxed" not in json.dumps(read(of_scored(found, GROUPS)))


def test_asked_for():
    assert asked_for("") == frozenset()
    assert asked_for("texts, prompt") == {"texts", "prompt"}
    assert asked_for("all") == set(ASKED)
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
    (line,) = read(of_scored(found, groups, encoded=ready))
    assert line["token_mask"] is None
    assert line["method"] == "guess_tokens"


def test_prepared_groups_have_a_line_too():
    groups = dare_reward.Groups.of([["a", "b", "a"]], mean_entropy=[[0.1, 0.2, np.nan]])
    numbers = count()
    found = score(groups, {"missing_entropy": "frequency"}, method="dare")
    (line,) = read(of_scored(found, [{"rollouts": []}], run=str(next(numbers))))
    assert line["mean_entropies"] == [0.1, 0.2, None]


@pytest.mark.parametrize(("ends", "expected"), [(["length", "stop"], [True, False]), (["length", None], [True, False])])
def test_what_the_length_limit_cut_off(ends, expected):
    groups = [{"rollouts": [{"answer": "1", **({"finish_reason": e} if e else {})} for e in ends]}]
    for record in (
        of_scored(score(groups, {}, method="ttrl"), groups),
        of_groups(groups, dare_reward.estimate(groups)),
    ):
        (line,) = read(record)
        assert line["truncated"] == expected
        assert objects(record, 0.0).__next__()["truncated"] == expected
    bare = [{"rollouts": [{"answer": "1"}]}]
    assert "truncated" not in read(of_scored(score(bare, {}, method="ttrl"), bare))[0]


def test_lines_and_objects_are_the_same():
    found = score(GROUPS, {}, method="dare")
    plain = of_scored(found, GROUPS, run="r", step=3, asked=frozenset(ASKED))
    whole = [json.loads(text) for text in lines(plain, 1e9, encoded)]
    assert [json.loads(encoded(line)) for line in objects(plain, 1e9)] == whole
    bare = replace(plain, texts={}, tokens=None)
    for p in range(len(GROUPS)):
        assert [*objects(plain.only(p), 1e9)] == [[*objects(bare, 1e9)][p]]
