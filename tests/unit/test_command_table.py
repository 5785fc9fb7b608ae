"""What holds for every command: the tables are made from the list of commands, so that a new one is in them."""

import argparse
import gzip
import json
import os
from itertools import product
from pathlib import Path

import pytest
from jsonl import write_lines
from said import said

from dare_reward.cli import command_line, main
from dare_reward.commands.command import Command

FOUR = said("4454", mean_entropy=[0.2, 0.3, 0.6, 0.1])
ROLLOUTS = [{"group_id": f"g{i}", "prompt": f"q{i}", "rollouts": FOUR[1:]} for i in range(4)]
# What an argument is given, by its name, where a table needs a value; an argument without one is left out.
VALUES = {"file": "rollouts.jsonl", "labels": "labels.jsonl", "name": "mine", "model": "m", "out": "out"}
VALUES |= dict.fromkeys(("source", "data"), "questions.jsonl")
FOLDERS = {"data prepare": "mine.jsonl"}  # commands whose --out is a folder, and a file that they write there


def commands(parser=None, name=""):
    """Every command and action by its words, but for those that only hold others."""
    parsers = command_line()[1] if parser is None else parser
    for word, each in parsers.items():
        inner = next((a.choices for a in each._actions if isinstance(a, argparse._SubParsersAction)), None)
        if inner:
            yield from commands(inner, f"{word} ")
        else:
            yield f"{name}{word}", each


def files_of(command: Command) -> tuple[list[argparse.Action], list[argparse.Action]]:
    """Its arguments that name files to read, and those that name a file to write."""
    others = {"name", "model"}
    named = [a for a in command._actions if a.type is Path or (a.dest in VALUES and "FILE" in str(a.metavar or "FILE"))]
    named = [a for a in named if a.dest not in others]
    return [a for a in named if a.dest != "out"], [a for a in named if a.dest == "out"]


def call(name: str, command: Command, given: dict[str, str]) -> list[str]:
    """A command line in which the arguments of `given` have these values, and others as few as there can be."""
    values = VALUES | given
    words = name.split()
    for action in command._actions:
        if action.dest not in given and not (action.required and action.dest in values):
            continue
        value = values[action.dest]
        words += [action.option_strings[-1], value] if action.option_strings else [value]
    return words + ["--force"] * any("--force" in a.option_strings for a in command._actions)


OVER_INPUTS = [
    pytest.param(name, command, read.dest, id=f"{name} {read.dest}")
    for name, command in commands()
    for read, _ in product(*files_of(command))
]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write = {
        "rollouts.jsonl": ROLLOUTS,
        "labels.jsonl": [{"group_id": "g1", "label": "4"}, {"group_id": "g2", "label": "5"}],
        "questions.jsonl": [{"prompt": f"q{i}", "label": "4"} for i in range(4)],
    }
    for name, rows in write.items():
        write_lines(tmp_path / name, rows)
    (tmp_path / "sub").mkdir()
    return tmp_path


@pytest.mark.parametrize(("name", "command", "read"), OVER_INPUTS)
def test_no_command_writes_over_what_it_reads_however_the_path_is_spelt(
    folder, capsys, monkeypatch, name, command, read
):
    source = folder / VALUES[read]
    (folder / "soft").symlink_to(source)
    os.link(source, folder / "hard")
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    spellings = [VALUES[read], f"sub/../{VALUES[read]}", str(source), "soft", "hard"]
    for spelt in spellings:
        out = spelt
        if made := FOLDERS.get(name):
            (folder / "sub" / made).unlink(missing_ok=True)
            os.link(source, folder / "sub" / made)
            out = "sub"
        words = call(name, command, {read: spelt if made else VALUES[read], "out": out})
        assert main(words) == 2, words
        assert "is a file that this command reads" in capsys.readouterr().err
        assert {path: path.read_bytes() for path in before} == before
        assert sorted(p.name for p in folder.iterdir() if p.is_file()) == sorted(p.name for p in before)


def half(**change):
    """Forty labelled groups that can be scored, half of them changed."""
    about = [{"group_id": f"g{i}", "prompt": f"q{i}", "label": "45"[i % 3 == 0]} for i in range(40)]
    good = [{**own, "rollouts": FOUR} for own in about]
    return [group | change if i % 2 else group for i, group in enumerate(good)]


REFUSED = {
    "no entropies": half(rollouts=[{"answer": a} for a in "4454"]),
    "broken JSON": [row for group in half() for row in (group, '{"group_id": "x", "rollouts": [{"answ')][1:],
    "an unknown kind": half(kind="nonsense"),
    "no rollouts": half(rollouts=[]),
    "members that disagree": [
        {"uid": str(i), "prompt": f"q{i}{j % 2 * (i % 2)}", "label": "45"[i % 3 == 0], **rollout}
        for i, (j, rollout) in product(range(40), enumerate(FOUR))
    ],
    "an impossible entropy": half(rollouts=[{"answer": "4", "mean_entropy": -1.0}]),
}
READ_GROUPS = {  # what each command that reads groups is called with, and its code where nothing is refused
    "score": ([], 0, 1),
    "explain": ([], 0, 1),
    "label": ([], 0, 1),
    "report": (["--out", "r.html", "--force"], 0, 1),
    "calibrate": ([], 1, 3),
}
UNLABELLED = {"label"}  # commands whose prompts have no label yet
FORMS = [pytest.param(rows, id=name) for name, rows in REFUSED.items()]


def rows_file(folder, name, rows):
    hidden = {"label"} if name in UNLABELLED else set()
    rows = [row if isinstance(row, str) else {k: v for k, v in row.items() if k not in hidden} for row in rows]
    return str(write_lines(folder / "groups.jsonl", rows))


def test_every_command_that_reads_groups_is_in_the_table():
    takes = {name for name, command in commands() for a in command._actions if a.dest == "file"}
    assert takes == READ_GROUPS.keys()


@pytest.mark.parametrize("rows", FORMS)
@pytest.mark.parametrize("name", READ_GROUPS)
def test_an_exit_code_says_that_groups_were_refused(folder, capsys, name, rows):
    more, whole, refused = READ_GROUPS[name]
    assert main([name, rows_file(folder, name, half()), *more]) == whole
    file = rows_file(folder, name, rows)
    if name == "label" and rows is REFUSED["no entropies"]:
        return  # a label needs none
    assert main([name, file, *more]) == refused
    assert capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"{\n", gzip.compress(json.dumps(half()[0]).encode())[:-9]])
@pytest.mark.parametrize("name", READ_GROUPS)
def test_where_nothing_could_be_read_it_is_2(folder, capsys, name, content):
    (folder / "in.jsonl").write_bytes(content)
    assert main([name, str(folder / "in.jsonl"), *READ_GROUPS[name][0]]) == 2
    assert capsys.readouterr().err
