"""The command line, as a user runs it."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import dare_reward
from dare_reward import cli
from dare_reward.cli import main

EXAMPLES = Path(__file__).parents[2] / "examples"
GOOD = {"group_id": "g", "rollouts": [{"answer": "1", "mean_entropy": 0.2}, {"answer": "2", "mean_entropy": 0.4}]}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    monkeypatch.delenv("DARE_URL", raising=False)
    monkeypatch.delenv("DARE_TOKEN", raising=False)


def write(tmp_path, *lines):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return str(file)


def test_score_writes_what_estimate_says(tmp_path, capsys):
    assert main(["score", write(tmp_path, GOOD), "-p", "alpha=0.5", "-p", "weight=sqrt"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = dare_reward.estimate([GOOD], alpha=0.5, weight="sqrt").to_json()["groups"][0]
    assert found == json.loads(json.dumps(expected))


def test_score_from_standard_input_to_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(GOOD) + "\n\n" + json.dumps({**GOOD, "group_id": "h"})))
    out = tmp_path / "out.jsonl"
    assert main(["score", "-", "--out", str(out)]) == 0
    assert [json.loads(x)["group_id"] for x in out.read_text().splitlines()] == ["g", "h"]


def test_bad_lines_are_named_and_stop_nothing(tmp_path, capsys):
    lines = [
        GOOD,
        "{",
        "",
        "[]",
        {"rollouts": []},
        {"rollouts": [{"answr": "1"}]},
        {"rollouts": [{"answer": "1"}]},
        {**GOOD, "group_id": "h"},
    ]
    assert main(["score", write(tmp_path, *lines)]) == 1
    out, err = capsys.readouterr()
    replies = [json.loads(x) for x in out.splitlines()]
    assert [r["group_id"] for r in replies] == ["g", "line-7", "h"]
    assert replies[1]["error"]["code"] == "missing_entropy"
    for number, word in ((2, "not JSON"), (4, "object"), (5, "at least one"), (6, "answr"), (7, "missing_entropy=")):
        assert any(x.startswith(f"line {number}: ") and word in x for x in err.splitlines())
    assert len(err.splitlines()) == 6
    assert err.splitlines()[-1].startswith("3 groups, 4 rollouts, 0 without an answer, ")


def test_duplicate_ids_within_a_batch_do_not_cost_the_lines(tmp_path, capsys):
    assert main(["score", write(tmp_path, GOOD, GOOD)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_nothing_scored_is_2(tmp_path, capsys):
    assert main(["score", write(tmp_path, "{", "[")]) == 2
    assert main(["score", str(tmp_path / "absent.jsonl")]) == 2
    assert "No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--method", "dre"], "unknown method"),
        (["-p", "aplha=1"], "aplha"),
        (["-p", "alpha"], "NAME=VALUE"),
        (["-p", "alpha=2"], "<= 1"),
    ],
)
def test_wrong_use_is_2_and_one_line(tmp_path, capsys, arguments, word):
    assert main(["score", write(tmp_path, GOOD), *arguments]) == 2
    err = capsys.readouterr().err
    assert word in err
    assert len(err.splitlines()) == 1


def test_a_service_that_is_away_is_2(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("dare_reward.client._pause", lambda *_: 0.0)
    assert main(["score", write(tmp_path, GOOD), "--url", "http://127.0.0.1:1"]) == 2
    assert "http://127.0.0.1:1" in capsys.readouterr().err


def test_local_wins_over_the_environment(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DARE_URL", "http://127.0.0.1:1")
    assert main(["score", write(tmp_path, GOOD), "--local"]) == 0
    assert capsys.readouterr().out


def test_score_table(tmp_path, capsys):
    many = {
        "rollouts": [{"answer": str(i), "mean_entropy": 0.2} for i in range(12)]
        + [{"answer": "0", "mean_entropy": 0.2}]
    }
    assert (
        main(
            [
                "score",
                write(tmp_path, many, {**GOOD, "rollouts": [{"answer": "\x1b[31m" + "x" * 50, "mean_entropy": 0.1}]}),
                "--table",
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "line-1: 13 rollouts, 13 with an answer | pseudo-label 0 | entropies exact" in out
    assert "answer" in out
    assert "p-hat" in out
    assert "(2 more answers)" in out
    assert "\x1b" not in out


def test_explain(capsys, tmp_path):
    file = write(tmp_path, "{", GOOD, {**GOOD, "group_id": "bad", "rollouts": [{"answer": "1"}]})
    assert main(["explain", file, "--group", "g", "-p", "alpha=0"]) == 0
    out = capsys.readouterr().out
    for word in (
        "method dare",
        "alpha=0.0",
        "config_id",
        "pseudo-label 1",
        "rollout",
        "tie: several answers",
        "majority_ratio 0.5",
    ):
        assert word in out
    assert main(["explain", file, "--group", "line-2"]) == 0
    capsys.readouterr()
    assert main(["explain", file, "--group", "bad"]) == 1
    assert "missing_entropy" in capsys.readouterr().out
    assert main(["explain", file, "--group", "nobody"]) == 2


def test_methods(capsys):
    assert main(["methods"]) == 0
    out = capsys.readouterr().out
    listed = {line.split()[0] for line in out.splitlines()[1:] if line}
    assert {"dare", "ttrl", "gmae", "ddrl", "gt"} <= listed
    assert not {"dare_dist", "compass", "spine", "restrain", "t3rl", "rlpr", "verifree"} & listed
    assert main(["methods", "--all"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in dare_reward.methods())
    assert main(["methods", "dare"]) == 0
    assert "Eq. 13" in capsys.readouterr().out
    assert main(["methods", "ttrl", "--markdown"]) == 0
    assert "| tie | first |" in capsys.readouterr().out
    assert main(["methods", "dre"]) == 2


def test_every_flag_of_every_method_is_explained():
    from dare_reward.commands.explain import FLAGS

    used = {
        "all_invalid",
        "single_answer",
        "tie",
        "zero_variance",
        "all_pruned",
        "low_entropy",
        "u_gt_1",
        "no_answer_label",
    }
    used |= {"missing_entropy_imputed", "missing_entropy_frequency"}
    assert used <= FLAGS.keys()


def test_a_closed_pipe_is_no_traceback(tmp_path):
    file = write(tmp_path, *[{**GOOD, "group_id": str(i)} for i in range(2000)])
    program = (
        f"{sys.executable} -c 'import sys; from dare_reward.cli import main; sys.exit(main())' score {file} | head -1"
    )
    result = subprocess.run(program, shell=True, capture_output=True, text=True)
    assert json.loads(result.stdout)["group_id"] == "0"
    assert result.stderr == ""


def test_the_progress_bar_is_for_terminals_only(tmp_path, capsys, monkeypatch):
    file = write(tmp_path, *[{**GOOD, "group_id": str(i)} for i in range(200)])
    assert main(["score", file]) == 0
    assert len(capsys.readouterr().err.splitlines()) == 1
    pytest.importorskip("tqdm")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert main(["score", file]) == 0
    assert "200/200" in capsys.readouterr().err


def test_real_samples_score_without_a_server(capsys):
    assert main(["score", str(EXAMPLES / "arithmetic_m64.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 16
    for name in ("game24_sample", "gsm8k_sample"):
        assert main(["score", str(EXAMPLES / f"{name}.jsonl"), "-p", "missing_entropy=frequency"]) == 0


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert dare_reward.__version__ in capsys.readouterr().out


def test_study_says_where_it_comes_from_if_it_is_not_installed(monkeypatch, capsys):
    entries = [e for e in cli.entry_points(group=cli.GROUP) if e.name != "study"]
    monkeypatch.setattr(cli, "entry_points", lambda group: entries)
    with pytest.raises(SystemExit) as ended:
        main(["study", "report"])
    assert ended.value.code == 2
    assert "pip install -e . -e research" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["stud"])
    assert "unknown command 'stud'" in capsys.readouterr().err


def test_a_misspelt_variable_is_warned_of(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("DARE_ULR", "http://127.0.0.1:1")
    assert main(["score", write(tmp_path, GOOD)]) == 0
    assert "the variable DARE_ULR is not read; did you mean DARE_URL?" in capsys.readouterr().err


def test_a_refusal_of_the_caller_ends_the_command_at_once(tmp_path, capsys, monkeypatch):
    asked = []

    def refuse(groups, **_):
        asked.append(len(groups))
        raise dare_reward.RefusedError(401, {"detail": "send the token"})

    monkeypatch.setattr("dare_reward.commands.score.estimate", refuse)
    assert main(["score", write(tmp_path, *[GOOD] * 9)]) == 2
    assert asked == [9]
    assert capsys.readouterr().err == "dare-reward score: 401: send the token\n"


def test_a_misspelt_command_is_suggested(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["scroe", "x"])
    assert ended.value.code == 2
    assert "unknown command 'scroe'; did you mean score" in capsys.readouterr().err


def test_help_is_a_command_too(capsys):
    for words, shown in ((["help"], "COMMAND"), (["help", "score"], "--out"), (["-V"], dare_reward.__version__)):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == 0
        assert shown in capsys.readouterr().out


def test_majority_is_another_name_of_ttrl(tmp_path, capsys):
    file = write(tmp_path, GOOD)
    assert main(["score", file, "--method", "majority"]) == 0
    found = capsys.readouterr().out
    assert main(["score", file, "--method", "ttrl"]) == 0
    assert found == capsys.readouterr().out
    one, other = (dare_reward.estimate([GOOD], method=m) for m in ("majority_vote", "ttrl"))
    assert (one.method, one.config_id, one.groups) == (other.method, other.config_id, other.groups)
    assert main(["score", file, "--method", "TTRLL"]) == 2
    assert "did you mean ttrl" in capsys.readouterr().err
