"""Labels as data sets ship them are read by the reader of rollouts, on every route; strange ones give no verdict."""

from __future__ import annotations

import json

import pytest

from dare_reward import estimate
from dare_reward.cli import main
from dare_reward.openrlhf import AnswerRules, Label


def test_every_route_reads_them():
    scored = estimate([{"label": "so\n#### 1,056", "rollouts": [{"answer": "1056"}, {"answer": "5"}]}], method="ttrl")
    assert scored.groups[0].diagnostics["ground_truth_ratio"] == 0.5
    assert AnswerRules({}).right("72", Label("48/2 = 24\n#### 72")) is True
    assert AnswerRules({}).right("71", Label("48/2 = 24\n#### 72")) is False


def write(path, labels):
    rollouts = [
        {"answer": "1", "mean_entropy": 0.1, "num_tokens": 3},
        {"answer": "2", "mean_entropy": 0.3, "num_tokens": 3},
    ]
    path.write_text(
        "".join(json.dumps({"group_id": str(i), "label": x, "rollouts": rollouts}) + "\n" for i, x in enumerate(labels))
    )
    return str(path)


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
