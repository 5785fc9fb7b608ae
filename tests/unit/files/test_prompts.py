"""`--prompts`: what a batch asked is joined to what it returned, by id, in every command that reads rollouts."""

import json
from pathlib import Path

import pytest
from jsonl import page_data, write_lines

from dare_reward.cli import main
from dare_reward.commands import label
from dare_reward.errors import RequestError
from dare_reward.files.labels import PromptFile
from dare_reward.files.reader import Reader

ASKED = ["What is 2 + 5?", "What is 3 + 5?", "What is 4 + 5?"]


def written(path, rows):
    return str(write_lines(path, rows))


@pytest.fixture
def output(tmp_path):
    """The result of a batch of vLLM or OpenAI: four replies to each request, and no prompt."""
    texts = [r"so \boxed{7}", r"so \boxed{7}", r"so \boxed{8}", r"so \boxed{8}"]
    choices = [{"index": i, "message": {"role": "assistant", "content": t}} for i, t in enumerate(texts)]
    rows = [
        {"custom_id": f"request-{q}", "response": {"body": {"choices": choices}}, "error": None}
        for q in range(len(ASKED))
    ]
    return written(tmp_path / "batch_output.jsonl", rows)


def chat(q, asked):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": asked}]
    return {"custom_id": f"request-{q}", "method": "POST", "body": {"model": "m", "messages": messages}}


SHAPES = {
    "a chat batch": (chat, "Be brief.\n{}"),
    "a completions batch": (lambda q, asked: {"custom_id": f"request-{q}", "body": {"prompt": asked}}, "{}"),
    "a table": (lambda q, asked: {"id": f"request-{q}", "question": asked, "answer": "7"}, "{}"),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_prompts_of_a_batch_are_those_of_its_replies(shape, tmp_path, output):
    row, text = SHAPES[shape]
    rows = [row(q, asked) for q, asked in enumerate(ASKED)]
    prompts = PromptFile(written(tmp_path / "asked.jsonl", reversed(rows)))
    assert [group["prompt"] for _, group in Reader(output, prompts=prompts)] == [text.format(a) for a in ASKED]


@pytest.fixture
def asked(tmp_path):
    return written(tmp_path / "batch_input.jsonl", [chat(q, asked) for q, asked in enumerate(ASKED)])


def test_the_label_page_asks_them_and_keeps_them_beside_the_labels(output, asked, tmp_path, monkeypatch):
    pages = []
    monkeypatch.setattr(label, "_serve", lambda session, *_: pages.append(session))
    assert main(["label", output, "--prompts", asked, "--port", "0"]) == 0
    assert sorted(q.prompt for q in pages[0].questions) == [f"Be brief.\n{a}" for a in ASKED]
    pages[0].decide("request-1", "right", "8")
    row = json.loads((tmp_path / "batch_output.labels.jsonl").read_text())
    assert row["prompt"] == "Be brief.\nWhat is 3 + 5?"
    assert main(["label", output, "--port", "0"]) == 0, "without the prompts the labels go on"
    assert pages[0].labels.keys() == pages[1].labels.keys() == {"request-1"}


def test_report_and_explain_show_them_and_score_as_without(output, asked, tmp_path, capsys):
    for name, words in (("with", ["--prompts", asked]), ("without", [])):
        assert main(["report", output, "-m", "ttrl", *words, "-o", str(tmp_path / f"{name}.html")]) == 0
    cards = {name: page_data(tmp_path / f"{name}.html")["runs"][0]["cards"] for name in ("with", "without")}
    assert {card.pop("prompt") for card in cards["with"]} == {f"Be brief.\n{a}" for a in ASKED}
    assert cards["with"] == cards["without"]
    capsys.readouterr()
    assert main(["explain", output, "-m", "ttrl", "--group", "request-2", "--prompts", asked]) == 0
    assert "\nprompt: Be brief. What is 4 + 5?\n" in capsys.readouterr().out
    assert main(["explain", output, "-m", "ttrl", "--prompts", asked, "--suspicious", "1"]) == 0
    assert "\n- prompt: Be brief. What is 2 + 5?\n" in capsys.readouterr().out


def test_calibrate_and_the_label_page_read_by_them(output, tmp_path, monkeypatch, capsys, ran):
    """Each reads the file itself: two groups that ask one prompt are no two witnesses."""
    asked = written(tmp_path / "asked.jsonl", [chat(q, ASKED[0]) for q in range(len(ASKED))])
    rows = [{"custom_id": f"request-{q}", "label": "7"} for q in range(len(ASKED))]
    labels = written(tmp_path / "labels.jsonl", rows)
    assert main(["calibrate", output, "--prompts", asked, "--labels", labels]) == 2
    assert "2 of 3 groups have the prompt of an earlier one" in capsys.readouterr().err
    monkeypatch.setattr(label, "_serve", lambda *_: None)
    said = ran(["label", output, "--prompts", asked, "--labels", labels, "--port", "0"], 0).out
    assert said.endswith(f"\ndare-reward calibrate {output} --prompts {asked} --labels {labels}\n")
    with Path(asked).open() as standard:
        monkeypatch.setattr("sys.stdin", standard)
        said = ran(["label", output, "--prompts", "-", "--labels", labels, "--port", "0"], 0).out
    assert "verdict" not in said, "standard input can be read once only"
    flags = ["--entropy", "topk", "--vocab-size", "50"]
    said = ran(["label", output, *flags, "--labels", labels, "--port", "0"], 0).out
    assert said.endswith(f"\ndare-reward calibrate {output} {' '.join(flags)} --labels {labels}\n")


def test_a_prompt_of_the_file_stays_and_a_group_without_one_is_said(tmp_path):
    rollouts = [{"answer": "7"}, {"answer": "8"}]
    groups = [{"group_id": "a", "rollouts": rollouts, "prompt": "mine"}, {"group_id": "b", "rollouts": rollouts}]
    prompts = PromptFile(written(tmp_path / "p.jsonl", [{"group_id": "a", "prompt": "yours"}]))
    reader, said = Reader(written(tmp_path / "in.jsonl", groups), prompts=prompts), []
    assert [group["prompt"] for _, group in reader] == ["mine", None]
    reader.say(said.append)
    assert said == [f"{tmp_path}/p.jsonl: has no prompt for 1 of the groups, such as b"]


def test_prompts_of_other_groups_are_refused_with_an_id_of_each_side(output, tmp_path):
    prompts = PromptFile(written(tmp_path / "p.jsonl", [{"request_id": "0", "prompt": "?"}]))
    with pytest.raises(RequestError, match="its first id is '0', of a group 'request-0'"):
        list(Reader(output, prompts=prompts))


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ([{"prompt": "?"}], "it has no group_id"),
        ([{"group_id": "a", "text": "?"}], "it has no prompt"),
        ([{"group_id": "a", "prompt": "?"}, {"group_id": "a", "prompt": "!"}], "line 2: 'a' had another prompt above"),
        (['"a"'], "must be an object with group_id and prompt"),
        (['{"group_id": "b", "pro'], "line 2: not JSON"),
    ],
)
def test_a_file_that_tells_no_prompts_says_where(rows, why, tmp_path):
    with pytest.raises(RequestError, match=why):
        PromptFile(written(tmp_path / "p.jsonl", [{"group_id": "c", "prompt": "?"}] * isinstance(rows[0], str) + rows))


def test_a_run_log_takes_no_prompts(tmp_path, asked, capsys):
    line = {"v": 2, "time": "2026-01-01T00:00:00Z", "seconds": 0.0, "group_id": "0", "rollouts": [], "reply": {}}
    log = written(tmp_path / "log.jsonl", [line])
    assert main(["report", log, "--prompts", asked, "-o", str(tmp_path / "out.html")]) == 2
    assert "shows groups as they were sent and scored: leave out --prompts" in capsys.readouterr().err
