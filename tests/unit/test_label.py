"""`dare-reward label`: which prompts it names and in which order, how decisions are kept, and who reads them."""

import errno
import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
from jsonl import read_lines, write_lines
from refusals import refusal
from said import said

from dare_reward.cli import main
from dare_reward.commands import label
from dare_reward.commands.label_page import LabelServer, Session, question_of
from dare_reward.errors import RequestError
from dare_reward.files.labels import FileLabel, LabelFile
from dare_reward.files.output import append_line
from dare_reward.files.reader import Reader
from dare_reward.groups import Groups

SAMPLES = ("smollm2_m64", "arithmetic_m64", "gsm8k_sample", "game24_sample")


def group(name, answers, entropies=(), **fields):
    return {"group_id": name, "rollouts": said(answers, mean_entropy=entropies or [0.5] * len(answers)), **fields}


def written(path, *rows):
    return str(write_lines(path, rows))


@pytest.fixture
def file(tmp_path):
    groups = [
        group("sure", ["1"] * 4),
        group("contested", ["1", "1", "2", "2"]),
        group("informative", ["1", "1", "1", "2"], [0.1, 0.1, 0.1, 3.0]),
        group("some", ["1", "1", "1", "2"], [0.1, 0.1, 0.1, 0.3]),
        group("rivals", ["1", "1", "2", "2"], [0.1, 0.1, 0.9, 0.9]),
        group("labelled", ["1", "2"], [0.1, 3.0], label="1"),
    ]
    return written(tmp_path / "rollouts.jsonl", *groups)


@pytest.mark.parametrize("terminal", [False, True])
def test_an_output_that_is_no_terminal_takes_the_list_best_prompts_first(terminal, file, ran, monkeypatch):
    """`label FILE > ids.txt`, without those worth nothing; --port asks for the page in any case."""
    served = []
    monkeypatch.setattr(label, "_serve", lambda _, port, *__: served.append(port))
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal, raising=False)
    shown = ran(["label", file, "--for", "reward"], 0)
    assert served == ([0] if terminal else [])
    if not terminal:
        assert shown.out.split() == ["contested", "rivals", "informative", "some"]
        assert "--port 0" in shown.err
        assert shown.err.startswith("1 group left out: labelled already\n")
    assert main(["label", file, "--port", "0"]) == 0
    assert served[-1] == 0


def test_random_prompts_are_the_same_ones_each_time_and_no_choice(file, ran):
    def drawn(*words):
        return ran(["label", file, *words], 0).out.split()

    everything = drawn()
    assert sorted(everything) == ["contested", "informative", "rivals", "some", "sure"]  # "sure" is worth nothing
    assert drawn("--budget", "2") == everything[:2]


def test_a_group_without_a_name_is_named_by_its_place(tmp_path, ran):
    bare = {"rollouts": said("12", mean_entropy=[0.1, 3.0])}
    assert ran(["label", written(tmp_path / "rollouts.jsonl", bare)], 0).out.strip() == "line-1"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--budget", "0"], "budget: must be an integer >= 1"),
        (["--port", "70000"], "port: must be an integer >= 0 and <= 65535"),
        (["--for", "reward"], "each needs two different answers\n"),
        ([], "no prompt without a label is left"),
    ],
)
def test_nothing_to_choose_is_an_error(words, why, tmp_path, ran):
    labelled = {} if "--for" in words else {"label": "1"}
    path = written(tmp_path / "rollouts.jsonl", group("sure", ["1", "1"], **labelled))
    shown = ran(["label", path, *words], 2)
    assert why in shown.err
    assert not shown.out


def test_contested_is_the_golden_value_of_another_implementation():
    cases = json.loads((Path(__file__).parents[1] / "golden" / "labels.json").read_text())["cases"]
    groups = Groups.of([[r["answer"] for r in c["rollouts"]] for c in cases])
    assert label.contested(groups) == pytest.approx([c["contested"] for c in cases], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("sample", SAMPLES)
def test_an_answer_that_is_chosen_marks_its_rollouts_and_no_others(sample):
    for _, found in Reader(f"examples/{sample}.jsonl"):
        question = question_of(found)
        assert [question.votes(c.answer) for c in question.choices] == [c.votes for c in question.choices]
        several = json.dumps([c.answer for c in question.choices])
        assert question.votes(several) == sum(c.votes for c in question.choices), "as every command reads a label"


def test_the_order_of_answers_stays_and_does_not_lead_to_the_most_voted():
    groups = [group(f"g{i}", list("1111223")) for i in range(300)]
    first = [question_of(g).choices[0].answer for g in groups]
    assert first == [question_of(g).choices[0].answer for g in groups]
    assert 70 < first.count("1") < 130
    many = question_of(group("many", [*map(str, range(20)), "5", "5"]))
    assert "5" in {c.answer for c in many.choices[:9]}
    assert {c.votes for c in many.choices[9:]} == {1}


def test_equal_texts_are_folded():
    rollouts = [{"text": t} for t in (r"so \boxed{4}", r"so \boxed{4}", r"hence \boxed{4}", "no idea")]
    (choice,) = question_of({"group_id": "a", "rollouts": rollouts}).choices
    assert choice.texts == ((r"so \boxed{4}", 2), (r"hence \boxed{4}", 1))


def session(tmp_path, **fields):
    groups = [group("a", ["1", "2", "2"], prompt="1 + 1?", **fields), group("b", ["3", "4"], prompt="2 + 2?")]
    return Session([question_of(g) for g in groups], tmp_path / "labels.jsonl", tell=print)


def test_decisions_are_lines_and_the_last_one_wins(tmp_path):
    first = session(tmp_path)
    assert first.decide("a", "right", " 1 ") == 1
    assert first.decide("a", "right", "7") == 0
    assert first.decide("b", "unknown", None) == 0
    rows = [(r["group_id"], r["label"], r.get("decision")) for r in read_lines(first.file)]
    assert rows == [("a", "1", None), ("a", "7", None), ("b", None, "unknown")]
    later = session(tmp_path)
    assert later.labels.keys() == {q.group_id for q in later.questions}
    assert (later.labels["a"].label, later.labels["b"].decision) == ("7", "unknown")


def test_each_decision_is_one_whole_line_on_the_disk(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr("os.fsync", lambda place: flushed.append(os.fstat(place).st_size))
    own = [session(tmp_path), session(tmp_path)]  # two windows, or two people
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda s: [s.decide("a", "right", "1" * 500) for _ in range(20)], own))
    assert [row["label"] for row in read_lines(tmp_path / "labels.jsonl")] == ["1" * 500] * 40
    assert len(flushed) == 40
    assert min(flushed) > 500, "flushed after the line is written"


def test_a_line_that_a_full_disk_cuts_costs_no_other(tmp_path, monkeypatch):
    own, write = session(tmp_path), os.write
    own.decide("a", "right", "1")

    def full(place, data):
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(place, data[: len(data) - 10])

    monkeypatch.setattr("os.write", full)
    with pytest.raises(OSError, match="space"):
        own.decide("b", "none", None)
    monkeypatch.undo()
    own.decide("b", "unknown", None)
    read = LabelFile(str(own.file), tell=print).entries
    assert [read[name].decision for name in "ab"] == ["right", "unknown"]


@pytest.mark.parametrize(
    ("row", "known"),
    [
        ({"group_id": 7.0, "label": 5.0}, {"7": "5"}),
        ({"group_id": 7, "label": [5, "six"]}, {"7": ["5", "six"]}),
        ({"group_id": 7, "label": float("nan")}, {}),
    ],
)
def test_numbers_of_a_table_are_read_as_those_of_rollouts(row, known, tmp_path):
    path = written(tmp_path / "labels.jsonl", row)
    assert {k: v.label for k, v in LabelFile(path, tell=print, empty=True).entries.items()} == known


@pytest.mark.parametrize(
    "wrong",
    [("c", "none", None), ("a", "maybe", None), ("a", "right", " "), ("a", "right", None), ("a", "right", "1" * 2001)],
)
def test_a_senseless_decision_is_not_written(wrong, tmp_path):
    own = session(tmp_path)
    with pytest.raises(RequestError):
        own.decide(*wrong)
    assert not (tmp_path / "labels.jsonl").exists()


@pytest.mark.parametrize("tail", ['{"group_id": "b", "lab', '{"group_id": "b", "label": "3"}'])
def test_a_last_line_that_was_cut_off_costs_no_other(tail, tmp_path):
    session(tmp_path).decide("a", "right", "1")
    path = tmp_path / "labels.jsonl"
    path.write_text(path.read_text() + tail)
    whole = tail.endswith("}")
    assert LabelFile(str(path), tell=print).entries.keys() == ({"a", "b"} if whole else {"a"})
    session(tmp_path).decide("b", "right", "4")
    found = LabelFile(str(path), tell=print).entries
    assert {name: label.label for name, label in found.items()} == {"a": "1", "b": "4"}


def test_a_file_of_other_prompts_is_not_continued(tmp_path):
    append_line(tmp_path / "labels.jsonl", FileLabel("a", "none", prompt="another prompt").row())
    with pytest.raises(RequestError):
        session(tmp_path)


def test_what_is_no_file_of_labels_is_left_as_it_is(tmp_path, file, ran):
    single, read = {"text": "so 1", "label": "1"}, {"answer": "2", "label": "1"}
    rows = [{"group_id": "a", **own} for own in (single, read, {"answer": "2", "entropy": 0.5})]
    for name, content in enumerate(("[]", "hello", Path(file).read_text(), *rows)):
        path = write_lines(tmp_path / f"{name}.jsonl", [content])
        before = path.read_bytes()
        assert main(["label", file, "--port", "0", "--labels", str(path)]) == 2
        assert path.read_bytes() == before
    assert ran(["label", file, "--port", "0", "--labels", file], 2).err


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_file_of_labels_holds_none_yet(content, tmp_path):
    path = tmp_path / "labels.jsonl"
    path.write_text(content)
    assert refusal(LabelFile, str(path), tell=print).code == "labels"
    session(tmp_path).decide("a", "right", "1")
    assert LabelFile(str(path), tell=print).entries.keys() == {"a"}


@pytest.fixture
def page(tmp_path):
    with LabelServer(session(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path=None, body=None, **headers):
    address = f"127.0.0.1:{server.server_address[1]}"
    path = f"/{server.token}/{path or ''}" if path is None or not path.startswith("/") else path
    own = {} if body is None else {"Content-Type": "application/json"}
    sent = body if body is None or isinstance(body, str) else json.dumps(body)
    with closing(HTTPConnection(address, timeout=10)) as connection:
        connection.request("POST" if own else "GET", path, sent, {"Host": address, **own, **headers})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()


DECISION = {"group_id": "a", "decision": "right", "label": "1"}


def test_a_decision_is_on_the_disk_before_the_page_goes_on(page):
    status, content = ask(page)
    assert status == 200
    assert "1 + 1?" in content
    assert ask(page, "decision", DECISION) == (200, '{"votes": 1}')
    written = json.loads(page.session.file.read_text())
    assert written == {"group_id": "a", "label": "1", "prompt": "1 + 1?"}
    assert '"decision":"right"' in ask(page)[1]


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/", None, {}, 404),
        ("/wrong/", None, {}, 404),
        ("/wrong/decision", DECISION, {}, 404),
        ("other", DECISION, {}, 404),
        ("other", None, {}, 404),
        (None, None, {"Host": "evil.example"}, 403),
        (None, None, {"Host": "["}, 403),
        ("decision", DECISION, {"Origin": "http://["}, 403),
        ("decision", DECISION, {"Host": "evil.example:80"}, 403),
        ("decision", DECISION, {"Origin": "http://evil.example"}, 403),
        ("decision", DECISION, {"Content-Type": "text/plain"}, 422),
        ("decision", "{", {}, 422),
        ("decision", [1], {}, 422),
        ("decision", "x" * 70_000, {}, 422),
        ("decision", DECISION, {"Content-Length": "9" * 5000}, 422),
        ("decision", {**DECISION, "label": ["1"]}, {}, 422),
        ("decision", {**DECISION, "group_id": "c"}, {}, 422),
        ("decision", {**DECISION, "seconds": 1}, {}, 422),
    ],
)
def test_nobody_but_the_page_writes(page, path, body, headers, status):
    assert ask(page, path, body, **headers)[0] == status
    assert not page.session.file.exists()


def test_the_page_ends_the_command(tmp_path):
    with LabelServer(session(tmp_path)) as server:
        thread = threading.Thread(target=server.serve_forever, args=[0.01])
        thread.start()
        assert ask(server, "finish", {}) == (200, "{}")
        thread.join(10)
        assert not thread.is_alive()


def test_a_full_disk_is_said(page, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dare_reward.commands.label_page.append_line", full)
    assert ask(page, "decision", DECISION)[0] == 500
    assert "a" not in page.session.labels


@pytest.fixture
def two(tmp_path):
    """Two groups, with the labels of both and of one that is not there."""
    path = written(tmp_path / "two.jsonl", group("a", ["1", "2", "2"]), group("b", ["3", "4"]), group("c", ["5"]))
    none = {"group_id": "b", "label": None, "decision": "none"}
    rows = [{"group_id": "a", "label": "2"}, {"id": "a", "gold": 1}, none]
    rows += [{"group_id": "z", "label": "1"}, {"group_id": "c", "label": ""}]
    return path, written(tmp_path / "labels.jsonl", *rows)


def test_every_command_reads_labels(two, tmp_path, ran):
    path, labels = two
    shown = ran(["score", path, "--labels", labels, "-m", "gt", "--json"], 1)  # one has no label
    first, second, _ = (json.loads(line)["reply"]["rewards"] for line in shown.out.splitlines())
    assert (first, second) == ([1, 0, 0], [0, 0])
    shown = ran(["calibrate", path, "--labels", labels, "--json"], 1)
    assert "1 of 3 labels are of no group here, such as z" in shown.err
    assert "lines not used: 1 replaced by a later line, 1 without a label" in shown.err
    found = json.loads(shown.out)["calibration"]
    assert (found["prompts"], found["mixed"]) == (2, 1)
    assert "label 1: " in ran(["explain", path, "--labels", labels, "--group", "a", "-m", "ttrl"], 0).out
    out = tmp_path / "run.html"
    assert main(["report", path, "--labels", labels, "-m", "ttrl", "-o", str(out)]) == 0
    assert '"label":"1"' in out.read_text()


@pytest.mark.parametrize(
    "rows",
    [
        [{"group_id": "z", "label": "1"}],
        [{"label": "1"}],
        [{"group_id": "a"}],
        [{"group_id": "a", "label": {}}],
        [{"group_id": "a", "label": "1", "decision": "maybe"}],
        [group("a", ["1"], label="1")],
        [{"group_id": "a", "label": "1"}, 5],
    ],
)
def test_a_file_without_a_label_of_these_groups_is_refused(rows, tmp_path):
    path = written(tmp_path / "rollouts.jsonl", group("a", ["1", "2"]))
    labels = written(tmp_path / "labels.jsonl", *rows)
    assert refusal(lambda: list(Reader(path, labels=LabelFile(labels, tell=print)))).code == "labels"


@pytest.mark.parametrize(
    ("own", "row"),
    [
        ({"label": "2"}, {"label": "1"}),
        ({"label": "2"}, {"label": None, "decision": "none"}),
        ({"prompt": "this?"}, {"label": "1", "prompt": "that?"}),
        ({"rollouts": [{"answer": "1", "correct": True}]}, {"label": "1"}),
    ],
)
def test_a_group_that_says_something_else_is_named(own, row, tmp_path):
    path = written(tmp_path / "rollouts.jsonl", {**group("a", ["1", "2"]), **own}, group("b", ["1"]))
    labels = LabelFile(written(tmp_path / "labels.jsonl", {"group_id": "a", **row}), tell=print)
    (_, first), (_, second) = Reader(path, labels=labels)
    assert first.code == "conflict"
    assert second["group_id"] == "b"


def test_a_run_log_keeps_its_labels(two, tmp_path, ran):
    path, log = two[0], tmp_path / "log.jsonl"
    assert main(["score", path, "-m", "ttrl", "--out", str(log)]) == 0
    assert "leave out" in ran(["report", str(log), "-o", str(tmp_path / "o.html"), "--labels", two[1]], 2).err
