"""What another method would have said of a run log's groups."""

import json

import pytest

import dare_reward
from dare_research.replay import replay as module
from dare_research.replay.replay import Totals, label_is_right, replay
from dare_reward.cli import main
from dare_reward.errors import RequestError
from dare_reward.runs import read_run
from dare_reward.runs.line import objects, of_groups
from dare_reward.runs.log import RunLog
from dare_reward.runs.stored import stored_group


def group(group_id, answers, entropies, **more):
    rows = [{"answer": a, "mean_entropy": h} for a, h in zip(answers, entropies)]
    return {"group_id": group_id, **more, "rollouts": rows}


# By votes 1 wins both; 2 is much surer, and DARE takes it.
GROUPS = [
    group("right", ["1", "1", "1", "2", "2"], [0.9, 0.9, 0.9, 0.05, 0.05], label="2"),
    group("wrong", ["1", "1", "1", "2", "2"], [0.9, 0.9, 0.9, 0.05, 0.05], label="1.0"),
    group("same", ["1", "1", None], [0.2, 0.2, None], label="1"),
    group("unknown", ["1", "1", "1", "x", "x"], [0.9, 0.9, 0.9, 0.05, 0.05]),
]


@pytest.fixture
def folder(tmp_path):
    log = RunLog(tmp_path / "log")
    log.add(of_groups(GROUPS, dare_reward.estimate(GROUPS), run="r", step=1))
    log.add(
        of_groups([{"rollouts": [{"answer": "1"}]}], dare_reward.estimate([{"rollouts": [{"answer": "1"}]}]), run="r")
    )
    log.close()
    return tmp_path / "log"


def totals(folder, method, **params):
    out = Totals()
    for one in replay(read_run(folder), method, params):
        out.add(one)
    return out


def test_the_same_method_changes_nothing(folder):
    found = totals(folder, "dare")
    assert (found.groups, found.flipped, found.opposite, found.failed) == (4, 0, 0, 0)
    assert found.before_right == found.after_right == 2


def test_the_vote(folder):
    found = totals(folder, "ttrl")
    assert found.flipped == 3
    assert found.opposite == 15  # every rollout of the three groups
    assert (found.known, found.before_right, found.after_right) == (3, 2, 2)
    assert (found.flipped_from_right, found.flipped_to_right, found.flipped_wrong) == (1, 1, 0)
    labels = {d.group_id: (d.before, d.after) for d in replay(read_run(folder), "ttrl", {})}
    assert labels == {"right": ("2", "1"), "wrong": ("2", "1"), "same": ("1", "1"), "unknown": ("x", "1")}


def test_parameters_count(folder):
    assert totals(folder, "dare", weight="none", bonus="zero").flipped == 3


def test_a_stored_group_scores_as_the_first_time(folder):
    """Bit for bit, for what the line holds."""
    for line in read_run(folder):
        if line["error"] is None:
            (again,) = dare_reward.estimate([stored_group(line)]).groups
            assert list(again.rewards) == line["rewards"]
            assert again.pseudo_label == line["pseudo_label"]


def test_answers_are_classes_already(tmp_path):
    """Spellings that math would merge, but this run kept apart, stay apart."""
    line = {"answers": ["1/2", "0.5", "0.5"], "rewards": [0.0, 0.0, 0.0], "pseudo_label": "0.5", "trained": None}
    (found,) = dare_reward.estimate([stored_group(line)], method="ttrl").groups
    assert [s.answer for s in found.support] == ["1/2", "0.5"]


def test_the_groups_of_a_step_are_scored_together_wherever_they_stand(monkeypatch):
    """Steps and runs are mixed in a log where sampling is asynchronous."""
    asked = []
    real = module.score

    def told(groups, *args, **kwargs):
        asked.append(len(groups))
        return real(groups, *args, **kwargs)

    monkeypatch.setattr(module, "score", told)
    group = {"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}
    record = of_groups([group], dare_reward.estimate([group]))
    (line,) = objects(record, 0.0)
    mixed = [{**line, "run": run, "step": step} for step in (1, 2, 1, 3, 2, 1) for run in "ab"]
    found = list(replay(mixed, "dare", {}))
    assert asked == [3, 3, 2, 2, 1, 1]
    assert [(d.run, d.step) for d in found] == [
        (r, s) for s, n in ((1, 3), (2, 2), (3, 1)) for r in "ab" for _ in range(n)
    ]
    many = [{**line, "run": "a", "step": step} for step in range(40)]
    assert len(list(replay(many, "dare", {}))) == 40


def test_what_the_log_does_not_hold(folder):
    found = totals(folder, "intuitor")
    assert (found.groups, found.failed) == (0, 4)


def test_further_inputs_are_replayed(tmp_path):
    rows = [{"answer": a, "mean_self_certainty": c} for a, c in (("1", 3.0), ("2", 5.0))]
    groups = [{"rollouts": rows}]
    log = RunLog(tmp_path)
    log.add(of_groups(groups, dare_reward.estimate(groups, method="intuitor")))
    log.close()
    found = totals(tmp_path, "intuitor")
    assert (found.groups, found.flipped, found.opposite) == (1, 0, 0)


def test_what_reads_texts_is_refused(folder):
    with pytest.raises(RequestError, match="begins at the answers"):
        totals(folder, "dare", unmarked="number")


@pytest.mark.parametrize(
    ("correct", "label", "right"),
    [
        (None, "a", None),
        ([True, False, True], "a", True),
        ([True, False, True], "b", False),
        ([True, None, True], "b", None),
        ([True, False, True], None, False),
        ([True, False, None], None, None),
    ],
)
def test_whether_a_label_is_right(correct, label, right):
    assert label_is_right({"answers": ["a", "b", "a"], "correct": correct}, label) is right


def test_the_command(folder, tmp_path, capsys):
    out = tmp_path / "changed.jsonl"
    assert main(["replay", str(folder), "--method", "majority", "--out", str(out)]) == 0
    said, told = capsys.readouterr()
    assert "another label" in said
    assert "75.0 %" in said
    assert told == f"4 groups of {folder} scored again by majority, 3 changed; wrote {out}\n"
    rows = [json.loads(row) for row in out.read_text().splitlines()]
    assert {row["group_id"] for row in rows} == {"right", "wrong", "unknown"}
    assert main(["replay", str(folder), "--method", "dare", "--json"]) == 0
    said, told = capsys.readouterr()
    assert json.loads(said)["flipped"] == 0
    assert told == f"4 groups of {folder} scored again by dare, 0 changed\n"


def test_the_command_on_what_it_cannot_score(folder, tmp_path, capsys):
    assert main(["replay", str(folder), "--method", "intuitor"]) == 2
    assert "4 groups cannot be scored by intuitor: missing_input" in capsys.readouterr().err
    assert main(["replay", str(tmp_path / "nowhere")]) == 2
    segment = next(folder.rglob("*.gz"))
    before = segment.read_bytes()
    assert main(["replay", str(folder), "--method", "ttrl", "--out", str(segment), "--force"]) == 2
    assert segment.read_bytes() == before


def test_hostile_answers_do_not_act_in_a_terminal(tmp_path, capsys):
    evil = "\x1b[2J\x9b31m"
    groups = [group(evil, [evil + "1"] * 3 + [evil + "2"] * 2, [0.9] * 3 + [0.05] * 2, kind="exact")]
    log = RunLog(tmp_path)
    log.add(of_groups(groups, dare_reward.estimate(groups), run=evil))
    log.close()
    assert main(["replay", str(tmp_path), "--method", "ttrl"]) == 0
    said = capsys.readouterr().out
    assert "another label" in said
    assert not {"\x1b", "\x9b"} & set(said)
