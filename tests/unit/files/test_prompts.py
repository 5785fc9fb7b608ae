"""The results of a batch hold no prompts: docs/data.md adds them, and labels go on whether or not they are there."""

import json
import re
from pathlib import Path

import pytest
from jsonl import write_lines

from dare_reward.cli import main
from dare_reward.commands import label
from dare_reward.files.reader import Reader

DATA = Path(__file__).parents[3] / "docs" / "data.md"
ASKED = ["What is 2 + 5?", "What is 3 + 5?", "What is 4 + 5?"]


@pytest.fixture
def rollouts(tmp_path, monkeypatch):
    """What the docs make of a batch of vLLM or OpenAI and its result, four replies to each request."""
    monkeypatch.chdir(tmp_path)
    texts = [r"so \boxed{7}", r"so \boxed{7}", r"so \boxed{8}", r"so \boxed{8}"]
    choices = [{"index": i, "message": {"role": "assistant", "content": t}} for i, t in enumerate(texts)]
    asked = [[{"role": "system", "content": "Be brief."}, {"role": "user", "content": a}] for a in ASKED]
    sent = [{"custom_id": f"{q}", "method": "POST", "body": {"model": "m", "messages": m}} for q, m in enumerate(asked)]
    write_lines(Path("batch_input.jsonl"), reversed(sent))
    got = [{"custom_id": f"{q}", "response": {"body": {"choices": choices}}, "error": None} for q in range(len(ASKED))]
    write_lines(Path("batch_output.jsonl"), got)
    exec(re.search(r"```python\n(import json.*?batch_input.*?)```", DATA.read_text(), re.DOTALL).group(1), {})
    return "rollouts.jsonl"


def test_the_prompts_of_a_batch_are_those_of_its_replies(rollouts):
    assert [(g["group_id"], g["prompt"]) for _, g in Reader(rollouts)] == [
        (f"{q}", f"Be brief.\n{asked}") for q, asked in enumerate(ASKED)
    ]


def test_the_label_page_asks_them_and_keeps_them_beside_the_labels(rollouts, monkeypatch):
    pages = []
    monkeypatch.setattr(label, "_serve", lambda session, *_: pages.append(session))
    assert main(["label", rollouts, "--port", "0"]) == 0
    assert sorted(q.prompt for q in pages[0].questions) == [f"Be brief.\n{a}" for a in ASKED]
    pages[0].decide("1", "right", "8")
    assert json.loads(Path("rollouts.labels.jsonl").read_text())["prompt"] == "Be brief.\nWhat is 3 + 5?"
    assert main(["label", "batch_output.jsonl", "--labels", "rollouts.labels.jsonl", "--port", "0"]) == 0
    assert pages[1].labels.keys() == {"1"}, "without the prompts the labels go on"


def test_the_command_that_decides_reads_the_file_as_the_page_did(rollouts, monkeypatch, ran):
    monkeypatch.setattr(label, "_serve", lambda *_: None)
    flags = ["--entropy", "topk", "--vocab-size", "50"]
    said = ran(["label", rollouts, *flags, "--labels", "l.jsonl", "--port", "0"], 0).out
    assert said.endswith(f"\ndare-reward calibrate {rollouts} {' '.join(flags)} --labels {Path('l.jsonl').resolve()}\n")
