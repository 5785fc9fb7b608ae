"""What was sharpened, learnt and lost: by hand, in a run from first to last visits, and from two files of `measure`."""

import numpy as np
import pytest
from jsonl import page_data, write_lines
from lines import as_line
from said import said

from dare_reward.analysis.learnt import Visit, learnt, visit
from dare_reward.cli import main
from dare_reward.commands.labelled import evaluated
from dare_reward.report.book import RunBook
from dare_reward.report.view import view
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import prepare_file

# Right rollouts of four, before and after: sharpened, learnt, lost, never right.
BEFORE, AFTER = {"a": 3, "b": 1, "c": 3, "d": 0}, {"a": 4, "b": 3, "c": 1, "d": 1}
ROWS = [
    ["sharpened: the vote was right, and is", "1", "25.0", "+6.2"],
    ["learnt: the vote was wrong, and is right", "1", "25.0", "+12.5"],
    ["lost: the vote was right, and is wrong", "1", "25.0", "-12.5"],
    ["never right: the vote was wrong, and is", "1", "25.0", "+6.2"],
]


def test_the_parts_add_up_to_the_gain():
    share = [np.array(list(right.values())) / 4 for right in (BEFORE, AFTER)]
    found = learnt(*(Visit(own, np.round(own)) for own in share), once=3)
    assert {name: part.gain for name, part in found.parts.items()} == {
        "sharpened": 1 / 16, "learnt": 2 / 16, "lost": -2 / 16, "never": 1 / 16
    }  # fmt: skip
    assert sum(p.gain for p in found.parts.values()) == found.after - found.before == 2 / 16
    shown = found.shown()
    assert shown.headline == "pass@1 43.8% to 56.2%, +12.5 points"
    assert shown.why == "Mostly learnt: +12.5 of +12.5 points come from prompts whose vote became right."
    assert shown.notes[0] == "3 labelled prompts were seen once: not counted."


def test_a_vote_that_is_tied_is_not_right_and_what_is_unknown_does_not_count():
    before = Visit(np.array([0.5, np.nan]), np.array([0.5, np.nan]))
    found = learnt(before, Visit(np.array([1.0, 1.0]), np.array([1.0, 1.0])))
    assert (found.prompts, found.parts["learnt"].prompts) == (1, 1)


def rollouts(right):
    return ["7"] * right + ["8"] * (4 - right)


def line(step, name, right):
    return as_line(
        run="r", step=step, group_id=name, label="7", answers=rollouts(right), valid=[True] * 4, rewards=[0.0] * 4,
        correct=[answer == "7" for answer in rollouts(right)], pseudo_label="8",
    )  # fmt: skip


def test_of_a_run_the_first_and_the_last_visit_count():
    book = RunBook()
    for step, right in ((0, BEFORE), (1, dict.fromkeys("abcd", 2)), (2, AFTER)):
        for name, count in right.items():
            book.add(line(step, name, count))
    book.add(line(2, "once", 4))
    (run,) = view(book)["runs"]
    assert [list(row) for row in run["learnt"]["rows"]] == ROWS
    assert "1 labelled prompt was seen once: not counted." in run["learnt"]["notes"]
    assert view(RunBook())["runs"] == []


@pytest.mark.parametrize("wrong", range(3))
def test_a_vote_whose_rollouts_a_checker_judges_both_ways_is_right_where_most_are_in_any_order(wrong):
    """As where two files of `measure` are compared; the last of them said it alone."""
    book, right = RunBook(), [place != wrong for place in range(3)]
    for step, correct in enumerate([right, [True] * 3]):
        own = {"valid": [True] * 3, "rewards": [0.0] * 3, "correct": correct, "pseudo_label": "7"}
        book.add(as_line(run="r", step=step, group_id="a", label="7", answers=["7"] * 3, **own))
    (run,) = book.runs.values()
    groups = [{"rollouts": [{"answer": "7", "correct": flag} for flag in right]}]
    prepared = prepare_file(groups)
    assert visit(prepared.groups, correctness(prepared)).vote_P == pytest.approx([2 / 3])
    assert run.visits.learnt.parts["sharpened"].prompts == 1


def measured(path, right, greedy=None):
    """A file of `measure`: of each prompt, so many right rollouts of four and the greedy answer, if it was sampled."""
    own = {name: said(rollouts(count), mean_entropy=[0.1] * 4) for name, count in right.items()}
    meta = {name: {"greedy": {"answer": greedy[name]}} if greedy else {} for name in right}
    rows = [{"group_id": n, "prompt": f"q{n}", "label": "7", "meta": meta[n], "rollouts": own[n]} for n in right]
    return str(write_lines(path, rows))


def test_two_files_of_measure_say_it_with_the_decoding_control_and_the_page_shows_their_gain_alone(tmp_path):
    before = measured(tmp_path / "before.jsonl", BEFORE, dict(zip("abcd", "7778", strict=True)))
    after = measured(tmp_path / "after.jsonl", AFTER | {"e": 4})  # one more, which nobody saw before
    run, page = tmp_path / "run.jsonl", tmp_path / "run.html"
    write_lines(run, [line(step, f"{n}", 2 + 2 * step) for step in range(2) for n in range(16)])
    assert main(["report", str(run), "-o", str(page)]) == 0
    (of_run,) = page_data(page)["runs"]
    assert ("+50.0 points" in of_run["accuracy"]["why"], "+50.0 points" in of_run["learnt"]["headline"]) == (True, True)
    assert main(["report", str(run), "-o", str(page), "--force", "--evaluated", before, after]) == 0
    (found,) = page_data(page)["runs"]
    assert (found["learnt"]["rows"], found["learnt"]["headline"]) == (ROWS, "pass@1 43.8% to 56.2%, +12.5 points")
    control = "Decoding control: decoded greedily, the untrained model is right on 75.0% (25.0 to 100.0)."
    assert found["learnt"]["notes"][0] == control
    assert (found["accuracy"]["word"], "points" in found["accuracy"]["why"]) == (of_run["accuracy"]["word"], False)


def test_files_without_a_greedy_rollout_have_no_decoding_control(tmp_path):
    found = evaluated(*(measured(tmp_path / f"{len(own)}", own) for own in (BEFORE, AFTER | {"e": 4})), reading={})
    assert (found.greedy, found.prompts, "Decoding" in str(found.shown())) == (None, 4, False)


def test_files_are_of_one_run_and_stay(tmp_path, ran):
    files = [measured(tmp_path / name, BEFORE) for name in ("before", "after")]
    run = write_lines(tmp_path / "run.jsonl", [{**line(0, "a", 4), "run": name} for name in "rs"])
    words = ["report", str(run), "--evaluated", *files, "-o", str(tmp_path / "x.html")]
    assert "choose it with --run NAME" in ran(words, 2).err
    ran([*words, "--run", "s"], 0)
    assert "this command reads" in ran([*words[:-1], files[0], "--run", "s", "--force"], 2).err


def test_files_of_other_prompts_are_refused(tmp_path, ran):
    paths = [tmp_path / "one.jsonl", tmp_path / "other.jsonl", tmp_path / "run.jsonl"]
    for path in paths:
        group = {"group_id": "a", "prompt": path.name, "label": "7", "rollouts": [{"answer": "7"}, {"answer": "8"}]}
        write_lines(path, [group])
    words = ["report", str(paths[2]), "-m", "ttrl", "-o", str(tmp_path / "x.html"), "--evaluated"]
    assert "has none of the labelled prompts of" in ran([*words, *map(str, paths[:2])], 2).err


@pytest.mark.parametrize("change", [0, -1])
def test_a_run_that_did_not_gain_is_not_praised(change):
    before = np.array([0.75, 0.75])
    found = learnt(Visit(before, np.ones(2)), Visit(before + change / 4, np.ones(2))).shown()
    assert found.why == "pass@1 did not rise."
