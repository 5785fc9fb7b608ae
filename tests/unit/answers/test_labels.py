"""Labels as data sets ship them are read by the reader of rollouts, on every route; strange ones give no verdict."""

from __future__ import annotations

import json

import numpy as np
import pytest
from jsonl import write_lines

from dare_reward import estimate
from dare_reward.answers import grade, option_letters
from dare_reward.cli import main
from dare_reward.commands import labelled
from dare_reward.commands.labelled import read_labelled
from dare_reward.errors import LimitError, RequestError
from dare_reward.openrlhf import AnswerRules, Label, read_label
from dare_reward.runs.line import objects, of_groups
from dare_reward.scoring.request import Limits
from dare_reward.stacks.rollout import label_of


def test_every_route_reads_them():
    scored = estimate([{"label": "so\n#### 1,056", "rollouts": [{"answer": "1056"}, {"answer": "5"}]}], method="ttrl")
    assert scored.groups[0].diagnostics["ground_truth_ratio"] == 0.5
    assert AnswerRules({}).right("72", Label("48/2 = 24\n#### 72")) is True
    assert AnswerRules({}).right("71", Label("48/2 = 24\n#### 72")) is False


def write(path, labels):
    rollouts = [{"answer": a, "mean_entropy": h, "num_tokens": 3} for a, h in (("1", 0.1), ("2", 0.3))]
    return str(
        write_lines(path, ({"group_id": str(i), "label": x, "rollouts": rollouts} for i, x in enumerate(labels)))
    )


def test_labels_of_a_data_set_decide(tmp_path, capsys):
    main(["calibrate", write(tmp_path / "a.jsonl", ["so 1\n#### 1"] * 9)])
    said = capsys.readouterr()
    assert "inside 9 labels" in said.err
    assert "9 with right and wrong answers" in said.out


@pytest.mark.parametrize(("count", "refused"), [(7, False), (8, True)])
def test_labels_that_equal_no_answer_give_no_verdict(tmp_path, capsys, count, refused):
    status = main(["calibrate", write(tmp_path / "a.jsonl", ["99"] * count)])
    said = capsys.readouterr()
    assert ("no label equals any answer" in said.err) == refused
    assert (status != 0 and "99" in said.err and not said.out) if refused else True


ANSWERS = ("Kyiv", "kiev", "Lviv", None)
CITY = {"kind": "text", "label": ["Kyiv", "the answer is Kiev"], "rollouts": [{"answer": a} for a in ANSWERS]}


def logged(group, reply):
    (line,) = objects(of_groups([group], reply.groups[:1]), 0.0)
    return [rollout.get("correct") for rollout in line["rollouts"]]


def test_of_several_accepted_labels_any_is_right(tmp_path):
    reply = estimate([CITY], method="gt")
    assert reply.groups[0].rewards == (1.0, 1.0, 0.0, 0.0)
    assert reply.groups[0].support[0].count == 1  # they merge no votes
    assert logged(CITY, reply) == [True, True, False, False]  # the client's own log
    right = [AnswerRules({}, "text").right(a, Label(("Kyiv", "Kiev"))) for a in ANSWERS]
    assert right == [True, True, False, None]
    path = write_lines(tmp_path / "a.jsonl", [CITY, {"label": [4, "4.5"], "rollouts": [{"answer": "4.5"}]}])
    assert read_labelled(str(path)).correct_R.tolist() == [1, 1, 0, 0, 1]


def test_accepted_labels_join_no_units():
    assert grade("5 cm", ["5 m", "5"])
    assert not grade("5 cm", ["5 m", "6"])


@pytest.mark.parametrize("label", [[], ["4"] * 1025, ["4", 5], [["4"]], {"a": 1}, 4], ids=str)
def test_a_list_of_labels_holds_strings(label):
    with pytest.raises(RequestError) as caught:
        estimate([{"label": label, "rollouts": [{"answer": "4"}]}], method="ttrl")
    assert (caught.value.loc, caught.value.code) == (("groups", 0, "label"), "type")


def test_a_list_may_cost_as_much_as_any_other_answers():
    texts = [f"{n}x^2 + {n}y" for n in range(200)]
    with pytest.raises(LimitError):
        estimate([{"label": texts, "rollouts": [{"answer": "4"}]}], method="ttrl", limits=Limits(steps=200))


@pytest.mark.parametrize(
    ("value", "label"),
    [("4", "4"), (4, "4"), ([4, "5"], ["4", "5"]), (np.array(["4"]), "4"), ("", None), ([], None), (None, None), ({"target": "4"}, "4"), ({"size": "4"}, None),
     (float("nan"), None), (["", " "], None), ([float("nan"), "4"], "4"), (["4"] * 1025, None), (object(), None), ({"answer": None}, None)],
)  # fmt: skip
def test_labels_of_a_trainers_data(value, label):
    assert label_of(value) == label


def test_a_good_file_is_read_in_one_pass_and_a_fault_is_still_named(tmp_path, monkeypatch):
    passes, prepared = [], labelled.prepare_file
    monkeypatch.setattr(labelled, "prepare_file", lambda *groups, **how: passes.append(1) or prepared(*groups, **how))
    path = tmp_path / "a.jsonl"
    assert len(read_labelled(write(path, ["1"] * 9)).names) == 9
    assert len(passes) == 1
    path.write_text(path.read_text() + json.dumps({"label": 4, "rollouts": [{"answer": 4, "mean_entropy": -1}]}) + "\n")
    told = []
    assert (len(read_labelled(str(path), tell=told.append).names), "mean_entropy" in told[0]) == (9, True)


NO_LETTERS = [("Paris", None), ("E", 4), (["Paris", "E"], 4)]
BLANK = ["", " ", [""], ["", " "], "$$", ["$$", " "], r"\boxed{}", r"\(\)", "???", ".", "<b></b>"]
NO_ANSWER = [
    *({"kind": "choice", "options": options, "label": label} for label, options in NO_LETTERS),
    *({"label": label} for label in BLANK),
    *({"kind": kind, "label": label} for kind in ("text", "exact", "literal") for label in ("", [" "])),
    {"kind": "text", "label": "$$"},
]


@pytest.mark.parametrize("group", NO_ANSWER, ids=str)
def test_a_label_that_no_answer_equals_calls_nothing_wrong(group):
    bad = {**group, "rollouts": [{"answer": "A"}, {"answer": "B"}]}
    good = {**bad, "label": ["Paris", "B"]}
    reply = estimate([bad, good], method="gt")
    assert reply.groups[0].error.code == "missing_input"
    assert "label" in reply.groups[0].error.message
    assert reply.groups[1].rewards == (0.0, 1.0)
    voted = estimate([bad], method="ttrl")
    assert "label_accuracy" not in voted.groups[0].diagnostics
    assert logged(bad, voted) == [None, None]
    assert [g.method for g in estimate([bad, good], method="ttrl", labelled="gt").groups] == ["ttrl", "gt"]


@pytest.mark.parametrize(("label", "options"), NO_LETTERS, ids=str)
def test_a_label_of_openrlhf_that_is_no_letter_is_a_problem(label, options):
    found = AnswerRules({}, "choice", option_letters(options)).label(label, policy="eval")
    assert (found.answer, found.split, bool(found.problem)) == (None, "train", True)
    own = AnswerRules({}).label({"answer": label, "split": "eval", "kind": "choice", "options": options})
    assert (own.answer, own.split, own.kind, bool(own.problem)) == (None, "train", "choice", True)


def test_a_label_of_openrlhf_with_nothing_in_it_is_none_and_a_formula_a_problem_that_does_not_repeat_it():
    for blank in (float("nan"), [float("nan")], ["", " "]):
        assert read_label(blank, policy="eval") == Label()
    found = AnswerRules({}).label("$$", policy="eval")
    assert (found.answer, found.split, found.problem) == (None, "train", "no answer of kind math equals it")
