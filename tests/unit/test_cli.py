"""The command line, as a user runs it."""

import argparse
import io
import json
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonl import write_lines
from rows import each
from said import said

import dare_reward
from dare_reward import cli
from dare_reward.answers.extraction.final_answer import EMPTY, WHY_NONE
from dare_reward.cli import main
from dare_reward.commands.command import HELP_INDEX
from dare_reward.report.picks import REASONS
from dare_reward.runs.reader import member

EXAMPLES = Path(__file__).parents[2] / "examples"
LINE = "method=dare&alpha=0.5&weight=none"  # of a parameter that is given twice, the last value counts
GOOD = {"group_id": "g", "rollouts": [{"answer": "1", "mean_entropy": 0.2}, {"answer": "2", "mean_entropy": 0.4}]}


def write(tmp_path, *lines):
    return str(write_lines(tmp_path / "in.jsonl", lines))


def test_score_writes_what_estimate_says(tmp_path, ran):
    found = json.loads(ran(["score", write(tmp_path, GOOD), "-p", "alpha=1", "-m", LINE, "-p", "weight=sqrt"], 0).out)
    expected = dare_reward.estimate([GOOD], alpha=0.5, weight="sqrt").to_json()["groups"][0]
    assert found["reply"] == json.loads(json.dumps(expected))
    assert {name: found[name] for name in GOOD} == GOOD


def test_every_command_reads_what_score_writes(tmp_path, ran):
    rollouts = said("112", mean_entropy=[0.2, 0.3, 0.6])
    groups = [{"group_id": f"g{i}", "prompt": f"q{i}", "label": "1", "rollouts": rollouts} for i in range(3)]
    file, log = write(tmp_path, *groups), str(tmp_path / "log.jsonl")
    assert main(["score", file, "--out", log]) == 0
    told = []
    for name in (file, log):
        assert main(["calibrate", name]) == 1
        told.append(ran(["explain", name, "--group", "g1"], 0).out)
    assert told[0] == told[1]
    assert json.loads(ran(["score", log], 0).out.splitlines()[0])["reply"]["pseudo_label"] == "1"
    assert main(["report", log, "-o", str(tmp_path / "r.html")]) == 0
    for flags in ("--shadow ttrl", "-m ttrl", "-p tau=0", "--entropy logprob"):  # it was scored, and is shown so
        assert "leave out --" in ran(["report", log, "-o", str(tmp_path / "no.html"), *flags.split()], 2).err


def test_what_is_explained_of_a_log_by_another_method_is_said(tmp_path, ran):
    log = str(tmp_path / "log.jsonl")
    assert main(["score", write(tmp_path, GOOD, {**GOOD, "group_id": "h"}), "-m", "ttrl", "--out", log]) == 0
    for flags, count in ((["--group", "g"], "1 group"), (["--suspicious", "2"], "2 groups")):
        words = rf"ttrl \(\w+\) scored {count} of the log, and you explain dare \("
        assert re.search(words, ran(["explain", log, *flags], 0).err)
        assert "of the log" not in ran(["explain", log, "-m", "ttrl", *flags], 0).err


def test_score_from_standard_input_to_a_file(tmp_path, monkeypatch):
    given, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_text(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "group_id": "h"}))
    with given.open() as standard:
        monkeypatch.setattr("sys.stdin", standard)
        assert main(["score", "-", "--out", str(out)]) == 0
        assert not standard.closed
    assert [json.loads(x)["group_id"] for x in out.read_text().splitlines()] == ["g", "h"]


def test_bad_lines_are_named_and_stop_nothing(tmp_path, ran):
    bad = [{"rollouts": rollouts} for rollouts in ([], [{"answr": "1"}], [{"answer": "1"}])]
    lines = [GOOD, "{", "", "[]", *bad, {**GOOD, "group_id": "h"}]
    out, err = ran(["score", write(tmp_path, *lines)], 1)
    replies = [json.loads(x) for x in out.splitlines()]
    assert [r["group_id"] for r in replies] == ["g", "line-7", "h"]
    assert replies[1]["reply"]["error"]["code"] == "missing_entropy"
    for number, word in ((2, "not JSON"), (4, "object"), (5, "at least one"), (6, "answr"), (7, "without entropy")):
        assert any(x.startswith(f"line {number}: ") and word in x for x in err.splitlines())
    assert "lines: 2 read, 4 refused, 1 unreadable" in err.splitlines()
    assert len(err.splitlines()) == 9
    assert re.match("4 groups, 2 .*, 4 rollouts, 0 ", err.splitlines()[-3])
    assert err.splitlines()[-1].endswith("in.jsonl -p missing_entropy=frequency")


@pytest.mark.parametrize(("command", "done"), [(["score"], "scored"), (["explain", "--suspicious", "1"], "scored")])
def test_the_closing_line_counts_the_groups_that_were_left_out(tmp_path, ran, command, done):
    name, *flags = command
    ragged = {"answer": "1", "mean_entropy": 0.1, "topk_logprobs": [[-0.1, -3], [-0.1, -3], [-0.1]]}
    file = write(tmp_path, {**GOOD, "label": "1"}, {"rollouts": [ragged]}, "[]")
    err = ran([name, file, *flags], 1).err
    assert "rollouts[0].topk_logprobs: token 2 " in err
    assert f"\n2 groups, 1 of them not {done}, " in err


@each(
    ("command", "names"),
    [
        ("score FILE --method dre", "method"),
        ("score FILE -p aplha=1", "aplha"),
        ("score FILE -p alpha", "NAME=VALUE"),
        ("score FILE -p alpha=2", "alpha"),
        ("score absent.jsonl", "absent.jsonl"),
        ("explain FILE --group nobody", "nobody"),
        ("explain FILE --suspicious 0", "suspicious"),
        ("methods dre", "method"),
        ("calibrate FILE --methods gt", "gt"),
        ("calibrate FILE -p alfa=1", "alfa"),
    ],
)
def test_wrong_use_is_2_and_names_what_is_wrong_in_one_line(tmp_path, ran, command, names):
    line, *more = ran(command.replace("FILE", write(tmp_path, GOOD)).split(), 2).err.splitlines()
    assert names in line
    assert more in ([], [f"Try: dare-reward {command.split()[0]} --help"])


def test_a_service_that_is_away_is_2_and_only_url_asks_one(tmp_path, ran, monkeypatch):
    monkeypatch.setattr("dare_reward.client._pause", lambda *_: 0.0)
    file, away = write(tmp_path, GOOD), "http://127.0.0.1:1"
    assert away in ran(["score", file, "--url", away], 2).err
    monkeypatch.setenv("DARE_URL", away)
    assert ran(["score", file], 0).out


def test_score_table(tmp_path, ran):
    many = {"rollouts": [{"answer": str(i % 12), "mean_entropy": 0.2} for i in range(13)]}
    coloured = {**GOOD, "rollouts": [{"answer": "\x1b[31m" + "x" * 50, "mean_entropy": 0.1}]}
    out = ran(["score", write(tmp_path, many, coloured), "--table"], 0).out
    assert re.search(r"line-1: 13 .* 13 .* 0 .* exact", out)
    assert re.search(r"answer.*p-hat", out)
    assert "(2 more" in out  # of twelve answers
    assert "\x1b" not in out


def test_explain(ran, tmp_path):
    last = {**GOOD, "group_id": ["no id"]}
    file = write(tmp_path, "{", GOOD, {**GOOD, "group_id": "bad", "rollouts": [{"answer": "1"}]}, GOOD, last)
    out, err = ran(["explain", file, "--group", "g", "-p", "alpha=0"], 0)
    assert "2 groups have this id. For the next one: --group line-4" in err
    told = ["method dare", "alpha=0.0, the others by default", "config_id", "pseudo-label 1", "rollout"]
    told += ["tie: several answers", "majority_ratio 0.5"]
    assert [words for words in told if words not in out] == []
    ran(["explain", file, "--group", "line-2"], 0)
    assert "missing_entropy" in ran(["explain", file, "--group", "bad"], 1).out


def test_an_unknown_command_names_the_likeliest_one(ran):
    assert "score" in ran(["scroe"], 2).err.partition("help")[0]


@each("words", (["score"], ["explain", "--group", "x"], ["explain"]))
def test_a_file_has_no_limit_of_requests(words, tmp_path, ran):
    file = write(tmp_path, {"group_id": "x", "rollouts": [{"answer": "1"}] * 1025})
    assert "1,025 rollouts" in ran([words[0], file, *words[1:], "-m", "ttrl"], 0).err


def test_methods(ran):
    out = ran(["methods"], 0).out
    listed = {line.split()[0] for line in out.splitlines()[1:] if line}
    assert {"dare", "ttrl", "ddrl", "gt"} <= listed
    assert not {"dare_dist", "rlpr", "verifree"} & listed
    assert "not allowed with argument" in ran(["methods", "dare", "--all"], 2).err
    out = ran(["methods", "--all"], 0).out
    assert all(name in out for name in dare_reward.methods())
    assert "Eq. 13" in ran(["methods", "dare"], 0).out


def test_a_closed_pipe_is_no_traceback(tmp_path):
    file = write(tmp_path, *[{**GOOD, "group_id": str(i)} for i in range(2000)])
    program = f"{sys.executable} -m dare_reward score {file} | head -1"
    result = subprocess.run(program, shell=True, capture_output=True, text=True)
    assert json.loads(result.stdout)["group_id"] == "0"
    assert result.stderr == ""


@pytest.mark.parametrize("words", [["score"], ["calibrate"], ["report", "-o", "r.html", "--force"]], ids=lambda w: w[0])
def test_the_progress_bar_is_for_terminals_that_wait(tmp_path, ran, monkeypatch, words):
    pytest.importorskip("tqdm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dare_reward.commands.shared_arguments.PATIENCE", 0.0)
    file = write(tmp_path, *[{**GOOD, "group_id": str(i), "label": "1"} for i in range(200)])
    assert "200/200" not in ran([words[0], file, *words[1:]], 0, 1).err
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "200/200" in ran([words[0], file, *words[1:]], 0, 1).err
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "200/200" not in ran([words[0], file, *words[1:]], 0, 1).err, "it was done at once"


@pytest.mark.parametrize("words", [["calibrate"], ["report", "-o", "r.html"]], ids=lambda w: w[0])
def test_a_run_log_has_a_bar_too(tmp_path, ran, monkeypatch, words):
    pytest.importorskip("tqdm")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dare_reward.commands.shared_arguments.PATIENCE", 0.0)
    rollouts = [{"answer": a, "mean_entropy": 0.1, "correct": a == "1"} for a in "112"]
    reply = {"answers": list("112"), "valid": [True] * 3}
    base = {"v": 2, "time": "", "run": "r", "step": 1, "seconds": 0.0, "rollouts": rollouts, "reply": reply}
    lines = [json.dumps({**base, "group_id": str(i)}).encode() for i in range(200)]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "20260101T000000000Z-1-01234567-000000.jsonl.gz").write_bytes(member(lines, 1))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "200/200" in ran([words[0], "log", *words[1:]], 0, 1).err


def test_an_id_that_stands_twice_costs_no_line(tmp_path, ran):
    assert len(ran(["score", write(tmp_path, GOOD, GOOD)], 0).out.splitlines()) == 2


def test_a_refusal_of_the_caller_ends_the_command_at_once(tmp_path, capsys, monkeypatch):
    asked = []

    def refuse(groups, params, **_):
        asked.append(len(groups))
        raise dare_reward.RefusedError(401, {"detail": "send the token"})

    monkeypatch.setattr("dare_reward.commands.score.score", refuse)
    assert main(["score", write(tmp_path, *[GOOD] * 9)]) == 2
    assert asked == [9]
    assert "401: send the token" in capsys.readouterr().err


def test_help_is_a_command_too(ran):
    shown = {"help": "COMMAND", "help score": "--out", "help data prepare": "--from", "-V": dare_reward.__version__}
    for words, word in shown.items():
        assert word in ran(words.split(), 0).out


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_terminal(monkeypatch, *words, columns=80, code=0):
    """What a command prints on a terminal of that width."""
    screen = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", screen)
        assert main(list(words)) == code
    return screen.getvalue()


TEXTS = [f"{'and so on ' * 30}\\boxed{{{a}}}" for a in ("7", "7", "x" * 90)]
LONG = {"group_id": "long", "label": "7"}
LONG["rollouts"] = [{"text": text, "mean_entropy": 0.3} for text in (*TEXTS, "no idea", "", "<think> hm", "so we")]
LONG["rollouts"][-1]["finish_reason"] = "length"


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "words", [["score"], ["explain", "--group", "long"], ["explain"], ["methods"], ["methods", "dare"]], ids=" ".join
)
def test_a_table_fits_the_terminal(tmp_path, monkeypatch, words, columns):
    arguments = words if words[0] == "methods" else [words[0], write(tmp_path, LONG, GOOD), *words[1:]]
    lines = on_terminal(monkeypatch, *arguments, columns=columns).splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= columns, max(lines, key=len)


def test_a_pipe_gets_every_column(monkeypatch, ran):
    narrow, wide = on_terminal(monkeypatch, "methods"), ran(["methods"], 0).out
    assert re.search("less -S` shows .*evidence, not verified, paper too", narrow)
    assert "arXiv:2601.21804" in wide
    assert "less -S" not in wide


def test_tables_on_a_terminal_and_lines_in_a_pipe(tmp_path, monkeypatch, ran):
    file = write(tmp_path, GOOD)
    assert "p-hat" in on_terminal(monkeypatch, "score", file)
    assert json.loads(on_terminal(monkeypatch, "score", file, "--json"))["group_id"] == "g"
    assert json.loads(ran(["score", file], 0).out)["group_id"] == "g"


def test_explain_says_why_there_is_no_answer(tmp_path, ran):
    out = ran(["explain", write(tmp_path, LONG), "--group", "long"], 0).out
    assert re.search("label 7: .*right, 2 of 7 ", out)
    for why in ("unannounced", EMPTY, "thinking", "length"):
        assert f"none: {WHY_NONE[why]}" in out, why
    assert "..." + LONG["rollouts"][0]["text"][-57:] in out
    rows = [line.split() for line in out.partition("rollouts\n")[2].splitlines()[2:9]]
    assert [row[0] for row in rows if "yes" in row[:3]] == [row[0] for row in rows[:2]]


def test_the_suspicious_groups(tmp_path, ran):
    overruled = {"group_id": "overruled", "label": "1"}
    overruled["rollouts"] = said("11122", mean_entropy=[0.9] * 3 + [0.01] * 2)
    sure = {"group_id": "sure", "rollouts": [{"answer": "1", "mean_entropy": 0.2}] * 5}
    silent = {"group_id": "silent", "rollouts": [{"text": "hm", "mean_entropy": 0.2}] * 5}
    file = write(tmp_path, sure, overruled, silent)
    out = ran(["explain", file, "--suspicious", "2"], 0).out
    assert out.index("overruled: ") < out.index("silent: ")
    assert "sure: " not in out
    for name in ("overruled", "missed", "silent"):
        assert f"- {REASONS[name].meaning}\n" in out, name
    found = ran(["explain", write(tmp_path, sure)], 0)
    assert (found.out, "suspicious" in found.err) == ("", True)


def test_the_command_that_scores_a_file_without_entropies_is_said(capsys, ran):
    file = str(EXAMPLES / "gsm8k_sample.jsonl")
    for words in (["score", file], ["explain", file], ["explain", file, "--group", "gsm8k-0"]):
        last = ran(words, 1).err.splitlines()[-1]
        command = last.removeprefix("  dare-reward ")
        assert main(shlex.split(command)) == 0, last
        capsys.readouterr()


def test_parameters_of_calibrate(tmp_path, capsys):
    texts = ("so it is 7", "it is 8", "7")
    group = {"label": "7", "rollouts": [{"text": t, "mean_entropy": 0.1 + i / 9} for i, t in enumerate(texts)]}
    file = write(tmp_path, *[{**group, "group_id": str(i)} for i in range(3)])
    assert main(["calibrate", file, "--json", "-p", "unmarked=number", "-p", "eps=0.5"]) == 1
    assert json.loads(capsys.readouterr().out)["calibration"]["prompts"] == 3


def every_command():
    """Each command with its parser, nested ones too."""

    def walk(name, parser):
        inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        yield name, parser
        for action in inner:
            for key, sub in action.choices.items():
                yield from walk(f"{name} {key}", sub)

    return list(walk("dare-reward", cli.command_line()[0]))


@pytest.mark.parametrize(("name", "parser"), every_command(), ids=lambda x: x if isinstance(x, str) else "")
def test_every_help_is_a_sentence_and_every_example_is_understood(name, parser):
    sentence = re.compile(r"[A-Z0-9-].*[.)]", re.DOTALL)
    assert sentence.fullmatch(parser.summary), parser.summary
    if name == "dare-reward":
        return
    assert parser.examples, f"{name} has no example"
    for action in parser._actions:
        if action.help != argparse.SUPPRESS and not isinstance(action, argparse._SubParsersAction):
            assert sentence.fullmatch(action.help or ""), (name, action.dest, action.help)
    for example in parser.examples:
        words = shlex.split(re.split(r" \| (?!dare)| > ", example)[0].rpartition("| ")[2], comments=True)
        words = words[words.index("dare-reward") + 1 :]
        arguments, rest = cli.command_line()[0].parse_known_args(words)
        assert not rest, (example, rest)
        assert arguments.parser.prog.startswith(name), example


def test_python_m_is_the_same_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["dare-reward", "-V"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("dare_reward", run_name="__main__")
    assert ended.value.code == 0
    assert dare_reward.__version__ in capsys.readouterr().out


@pytest.mark.parametrize("words", [["score", "x", "--tabel"], ["data", "prepare", "x", "--from", "y", "--forced"]])
def test_a_misspelt_flag_is_suggested_in_two_lines(ran, words):
    first, second = ran(words, 2).err.splitlines()
    assert "Did you mean --table" in first or "Did you mean --force" in first
    assert second.startswith("Try: dare-reward ")


def test_a_report_of_rollouts_without_answers_warns(tmp_path, ran):
    rollouts = [{"text": text, "mean_entropy": 0.2} for text in ("no idea", "none", "\\boxed{1}")]
    file = write(tmp_path, {"group_id": "a", "rollouts": rollouts})
    assert re.search("WARNING: 2 of 3 ", ran(["report", file, "-o", str(tmp_path / "x.html")], 0).err)


def test_help_lists_what_the_commands_declare():
    """And loads none of them: test_package.py."""
    _, commands = cli.command_line()
    own = {name: c.summary for name, c in commands.items() if name in HELP_INDEX}
    assert own == HELP_INDEX
