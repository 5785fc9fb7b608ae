"""Questions of benchmarks, in the forms in which these are published."""

from contextlib import nullcontext

import pytest
from jsonl import write_lines

from dare_reward.answers import read_label
from dare_reward.errors import ConfigError
from dare_trainer.launch.questions import load, load_own

OPTIONS = ["one", "two", "three"]
MMLU = [{"question_id": 70, "question": "The second?", "options": OPTIONS, "answer": "B", "answer_index": 1}]


@pytest.fixture
def found(tmp_path):
    """`found(name, row, ...)`: the questions of a benchmark's file with these rows."""
    return lambda name, *rows: load(name, write_lines(tmp_path / "q.jsonl", rows))


def test_the_forms_in_which_the_sets_are_published(found):
    math = [{"problem": "p", "answer": "\\frac{1}{2}", "unique_id": "test/1.json"}, {"problem": "q", "answer": 3.0}]
    assert [(p.id, p.label) for p in found("math-500", *math)] == [("test/1.json", "\\frac{1}{2}"), ("1", "3")]
    amc = [{"id": 0, "problem": "p", "answer": 27.0}, {"id": 1, "question": "q", "solution": "so \\boxed{5}"}]
    assert [p.label for p in found("amc", *amc)] == ["27", "5"]
    mmlu = found("mmlu-pro", *MMLU, {"question": "q", "options": ["x", "y"], "answer_index": 0})
    assert [(p.label, p.options[1]) for p in mmlu] == [("B", "two"), ("A", "y")]
    assert "A. one\nB. two\nC. three" in mmlu[0].prompt()
    for name in ("answer", "label", "expected_answer", "solution"):
        for benchmark in ("math-500", "aime24", "amc"):
            assert found(benchmark, {"prompt": "p", name: "7"})[0].label == "7"
    for benchmark in ("mmlu-pro", "gpqa"):
        assert found(benchmark, {"problem": "p", "choices": ["x", "y"], "answer_index": 1})[0].label == "B"


ARC = {"question": "q", "choices": {"text": ["x", "y", "z"], "label": ["1", "2", "3"]}, "answerKey": "2"}
TRUTH = {"ground_truth": "7", "style": "rule"}
VERL = {"prompt": [{"role": "user", "content": "q"}], "reward_model": TRUTH, "ability": "m"}


@pytest.mark.parametrize(
    ("row", "label", "options", "meta"),
    [
        (ARC, "B", ("x", "y", "z"), {}),
        (ARC | {"answerKey": "C", "choices": {"text": [*"xCz"], "label": [*"ABC"]}}, "C", ("x", "C", "z"), {}),
        (VERL, "7", None, {"ability": "m"}),
    ],
)
def test_the_forms_of_other_sets(tmp_path, row, label, options, meta):
    (found,) = load_own(write_lines(tmp_path / "q.jsonl", [row]))
    assert (found.text, found.label, found.options, found.meta) == ("q", label, options, meta)


@pytest.mark.parametrize("choices", ["x, y", {"A": "x", "B": "y"}, {"text": ["x", "y"], "label": ["A"]}])
def test_options_of_another_form_are_refused_where_no_answer_is_known_too(tmp_path, choices):
    """The prompt would ask to choose, and list nothing to choose from."""
    with pytest.raises(ConfigError, match="question 1: the options must be a list"):
        load_own(write_lines(tmp_path / "q.jsonl", [{"question": "q", "choices": choices}]), labelled=False)


@pytest.mark.parametrize(
    ("answer", "kind", "label"),
    [
        ("so\n#### 1,056", "math", "1,056"),
        ("We get \\boxed{7}.", "math", "7"),
        ("The answer is 12.", "math", "12"),
        ("Answer: Paris", "text", "Paris"),
        ("a #### b", "exact", "a #### b"),
        ("\\boxed{}", "math", None),
        ("#### ", "math", None),
        ("$$", "math", None),
        ([None], "math", None),
    ],
)
def test_an_answer_is_read_as_a_run_reads_its_label(tmp_path, answer, kind, label):
    path = write_lines(tmp_path / "q.jsonl", [{"prompt": "p", "answer": answer, "kind": kind}])
    with nullcontext() if label else pytest.raises(ConfigError, match="the answer is empty"):
        assert load_own(path)[0].label == label == read_label(label, kind=kind)


def test_gpqa_is_shuffled_by_its_question(found):
    options = {"Correct Answer": "yes", **{f"Incorrect Answer {j}": f"no{j}" for j in (1, 2, 3)}}
    data = [{"Record ID": f"rec{i}", "Question": f"q{i}", **options} for i in range(40)]
    shuffled = found("gpqa", *data)
    assert shuffled == found("gpqa", *data)
    assert all(p.options["ABCD".index(p.label)] == "yes" and len(p.options) == 4 for p in shuffled)
    assert {p.label for p in shuffled} == set("ABCD")


def test_files_that_are_none(tmp_path):
    for text in ("", "{", "[1]"):
        (tmp_path / "x.jsonl").write_text(text)
        with pytest.raises(ConfigError):
            load("amc", tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="no such file"):
        load("amc", tmp_path / "absent")
    (tmp_path / "x.csv").write_text("problem,answer\nHow many, in all?,2\n")
    with pytest.raises(ConfigError, match="question 1 has more cells than columns: quote cells with a comma"):
        load("amc", tmp_path / "x.csv")


def test_repeated_ids_become_places(found):
    same = [{"id": 1, "problem": f"p{i}", "answer": "1"} for i in range(3)]
    assert [p.id for p in found("amc", *same)] == ["0", "1", "2"]
