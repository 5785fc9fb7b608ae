"""What rollouts, ids and names of a file say never acts in a terminal: no command prints it as it is."""

import json

import pytest

from dare_reward import estimate
from dare_reward.cli import main
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

# The screen is cleared, the window gets a title, text turns round, a line is written over, a bell rings.
EVIL = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e\u2066\rx\x08\u2028\x7f\ud800\n=1+1"


def rollouts(*answers):
    return [
        {"id": f"{i}{EVIL}", "answer": a, "text": f"{EVIL} \\boxed{{{a}}}{EVIL}", "mean_entropy": 0.1 + 0.3 * i}
        for i, a in enumerate(answers)
    ]


GROUPS = [
    {"group_id": f"a{EVIL}", "label": EVIL, "kind": "exact", "rollouts": rollouts(EVIL, EVIL, "2", None)},
    {"group_id": f"b{EVIL}", "label": "2", "rollouts": rollouts("1", f"2 {EVIL}")},
    {"group_id": f"c{EVIL}", "label": "5", "rollouts": [{"answer": a, "mean_entropy": u} for a, u in
                                                        (("1 m", 1.5), ("1 m", 1.4), ("1", 0.1))]},
    {"group_id": f"d{EVIL}", "prompt": EVIL, "rollouts": [{"answer": EVIL}]},
]  # fmt: skip
WRONG = [
    {"group_id": EVIL, "kind": EVIL, "rollouts": rollouts("1")},
    {"group_id": "e", "rollouts": [{"answer": "1", "mean_entropy": EVIL}]},
    {"group_id": "f", f"name{EVIL}": 1, "rollouts": [{"answer": "1", "mean_entropy": 0.1, f"own{EVIL}": 1}]},
    {"group_id": "g", "rollouts": EVIL},
    {EVIL: EVIL},
]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*GROUPS, *WRONG]) + EVIL.replace("\ud800", ""))
    return str(path)


COMMANDS = [
    "score IN", "score IN --table", "score IN --table -m ttrl", "calibrate IN --methods dare,ttrl,scrl",
    "explain IN", "explain IN --suspicious 9 -m ttrl", "explain IN --group line-1", "explain IN --group line-2",
    "explain IN --group line-3", "explain IN --group line-4", "explain IN --group nothing",
    "calibrate IN", "report IN -o OUT.html",
    "score IN --out OUT.jsonl",
]  # fmt: skip


def assert_harmless(text):
    assert {c for c in text if not c.isprintable()} <= {"\n"}, ascii(text)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_does_not_act_in_the_terminal(command, file, tmp_path, ran):
    out, err = ran([w.replace("IN", file).replace("OUT", str(tmp_path / "out")) for w in command.split()])
    assert out + err
    assert_harmless(out + err)


@pytest.mark.parametrize("command", ["calibrate LOG", "report LOG -o OUT.html --run x"])
def test_a_run_log_does_not_act_in_the_terminal(command, tmp_path, capsys):
    log = RunLog(tmp_path / "log")
    for run in (EVIL, "b"):
        log.add(of_groups(GROUPS, estimate(GROUPS, method="ttrl").groups, run=run, step=1))
    log.close()
    main([w.replace("LOG", str(tmp_path / "log")).replace("OUT", str(tmp_path / "out")) for w in command.split()])
    out, err = capsys.readouterr()
    assert_harmless(out + err)
