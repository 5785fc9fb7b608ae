"""One verdict, one figure: every surface shows the same object, and no surface computes one."""

import json
import re
import threading
from http.client import HTTPConnection
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from by_path import load
from jsonl import page_data, read_lines, write_lines
from said import said

from dare_reward import estimate
from dare_reward.analysis.verdict import judge
from dare_reward.cli import main
from dare_reward.commands.label_page import LabelServer
from dare_reward.commands.labelled import read_labelled
from dare_reward.files import reader as file_reader
from dare_reward.report.book import RunBook
from dare_reward.report.last_steps import verdict_of
from dare_reward.report.view import view
from dare_reward.runs.line import objects, of_groups
from dare_reward.runs.log import RunLog
from dare_service.page.live import LivePage

ROOT = Path(__file__).parents[3]


def vllm_dump(path, *, gap, prompts=40, size=16):
    """Labelled replies of vLLM with the log-probabilities of their tokens: right ones are surer by `gap`."""
    rng, rows = np.random.default_rng(7), []
    for p in range(prompts):
        outputs = []
        for right in rng.random(size) < rng.choice([0.9, 0.5, 0.35, 0.2]):
            answer = "7" if right else str(rng.choice(["8", "9"], p=[0.7, 0.3]))
            logprobs = -rng.exponential(0.6 - gap * right, 12)
            outputs.append({
                "text": f"so \\boxed{{{answer}}}", "token_ids": list(range(12)), "finish_reason": "stop",
                "logprobs": [{str(i): {"logprob": float(x)}} for i, x in enumerate(logprobs)],
            })  # fmt: skip
        rows.append({"request_id": str(p), "prompt": f"q{p}", "label": "7", "outputs": outputs, "finished": True})
    return str(write_lines(path, rows))


def figures(text):
    """Gains and shares, as they stand."""
    return re.findall(r"[+-]?\d+\.\d+", text)


def squeezed(text):
    return " ".join(text.split())


@pytest.mark.parametrize("gap", [0.0, 0.1, 0.4], ids=["nothing", "little", "much"])
def test_every_surface_shows_one_verdict_to_the_letter(tmp_path, capsys, ran, gap):
    file, page = vllm_dump(tmp_path / "dump.jsonl", gap=gap), tmp_path / "out.html"
    read = [file, "--entropy", "logprob"]
    code = main(["calibrate", *read, "--json"])
    shown = json.loads(capsys.readouterr().out)["shown"]
    terminal = ran(["calibrate", *read], code).out
    assert main(["report", *read, "-o", str(page)]) == 0
    (run,) = page_data(page)["runs"]
    assert (run["calibration"], run["headline"]["text"]) == (shown, shown["headline"])
    assert terminal.splitlines()[0] == shown["headline"]
    assert terminal.splitlines()[-1] == shown["line"]
    for text in (shown["why"], *shown["notes"], *map(" ".join, shown["rows"])):
        assert squeezed(text) in squeezed(terminal)
    gains = {figure for text in (terminal, page.read_text()) for figure in re.findall(r"\S+ points \(.*?\)", text)}
    assert len(gains) == (" points (" in shown["why"]), "one gain, or none"
    assert (shown["headline"] == "Use this line") == (code == 0)
    assert figures(" ".join(shown["rows"][0])) == figures(next(x for x in terminal.splitlines() if "plain vote " in x))


def test_the_demo_says_the_same(tmp_path, monkeypatch, ran):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    demo = load(ROOT / "scripts" / "demo.py")
    file = str(ROOT / "examples" / "smollm2_m64.jsonl")
    shown = json.loads(ran(["calibrate", file, "--json"]).out)["shown"]
    monkeypatch.setattr(demo.subprocess, "run", lambda words, **_: SimpleNamespace(stdout=ran(words[1:]).out))
    assert demo.verdict("dare-reward", file) == f"By the labels of this file: {shown['headline']}. {shown['why']}\n"


def test_without_labels_the_command_that_makes_them_is_named(tmp_path, ran):
    path = write_lines(tmp_path / "in.jsonl", [{"rollouts": said("1122", mean_entropy=[0.2] * 4)}])
    assert f"Label 32 prompts: dare-reward label {path}" in ran(["calibrate", str(path)], 2).err


def test_another_estimate_of_entropy_that_would_decide_otherwise_is_said(tmp_path, capsys, monkeypatch):
    """The sampled tokens say nothing here, and the candidates of each token say everything. The file is read once."""
    opened, own = [], file_reader.open_records
    monkeypatch.setattr(file_reader, "open_records", lambda file: (opened.append(file), own(file))[1])
    rng, path = np.random.default_rng(0), tmp_path / "in.jsonl"
    rows = []
    for p in range(40):
        right = rng.random(16) < 0.4
        top = [[[-0.01, -5.0, -9.0] if on else [-0.7, -0.8, -9.0]] * 6 for on in right]
        rollouts = said(np.where(right, "7", "8").tolist(), token_logprobs=[[-0.3] * 6] * 16, topk_logprobs=top)
        rows.append({"group_id": str(p), "prompt": f"q{p}", "label": "7", "rollouts": rollouts})
    write_lines(path, rows)
    assert main(["calibrate", str(path), "--entropy", "topk", "--vocab-size", "100"]) == 0
    told = "With --entropy logprob the verdict is another: Use the plain vote"
    assert told in squeezed(capsys.readouterr().out)
    words = ["--entropy", "topk", "--vocab-size", "100", "-o", str(tmp_path / "page.html")]
    assert main(["report", str(path), *words]) == 0
    notes = page_data(tmp_path / "page.html")["runs"][0]["calibration"]["notes"]
    assert [note.startswith(told) for note in notes].count(True) == 1
    assert opened.count(str(path)) == 2  # once a command


def run_of(path, gaps, *, prompts=40, run="r"):
    """A run whose right answers are surer by a gap of each step; every step asks the same prompts."""
    rng, rows = np.random.default_rng(1), []
    for step, p in product(range(len(gaps)), range(prompts)):
        right_R = rng.random(16) < 0.35
        rollouts = [
            {"answer": "7" if right else str(rng.choice(["8", "8", "9"])),
             "mean_entropy": 0.5 - gaps[step] * right + 0.1 * x}
            for right, x in zip(right_R.tolist(), rng.random(16).tolist(), strict=True)
        ]  # fmt: skip
        rows.append({"v": 2, "time": f"2026-01-01T00:00:{step:02d}Z", "run": run, "step": step, "seconds": 0.0,
                     "group_id": str(p), "prompt": f"q{p}", "label": "7", "rollouts": rollouts, "reply": {}})  # fmt: skip
    return write_lines(path, rows)


def test_of_a_run_the_last_steps_count_and_each_prompt_once(tmp_path, capsys, ran):
    log = run_of(tmp_path / "log.jsonl", [0.3, 0.0, -0.3])
    shown = ran(["calibrate", str(log), "--json"], 0)
    found = json.loads(shown.out)
    assert (found["calibration"]["prompts"], found["calibration"]["exponent"] < 0) == (40, True)
    assert "80 groups left out: only the last group of each prompt counts, in the last steps that hold 32" in shown.err
    few = run_of(tmp_path / "few.jsonl", [0.3] * 5, prompts=10)
    assert main(["calibrate", str(few), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["calibration"]["prompts"] == 10, "four steps, and ten prompts in them"


@pytest.mark.parametrize(
    ("gap", "prompts", "steps", "bare"),
    [(0.3, True, True, 0), (0.0, False, True, 1), (-0.3, True, False, 1)],
    ids=["sure is right", "nothing, without prompts", "sure is wrong, without steps"],
)
def test_terminal_report_and_live_page_show_one_verdict_of_a_run(tmp_path, ran, gap, prompts, steps, bare):
    """Of its last steps, by each prompt's last group, whether the log holds prompts and steps or not.

    `bare`: of nine groups so many have a rollout without an entropy.
    """
    groups = read_lines(run_of(tmp_path / "all.jsonl", [0.3, gap, gap]))
    folder, page = tmp_path / "log", tmp_path / "run.html"
    log, asked = RunLog(folder), frozenset({"prompt"} if prompts else ())
    for n, line in enumerate(groups):
        group = {k: line[k] for k in ("group_id", "prompt", "label", "rollouts")}
        if n % 9 < bare:
            del group["rollouts"][0]["mean_entropy"]
        replies = estimate([group]).groups
        log.add(of_groups([group], replies, run="r", step=line["step"] if steps else None, asked=asked))
    log.close()
    shown = json.loads(ran(["calibrate", str(folder), "--json"]).out)["shown"]
    terminal = squeezed(ran(["calibrate", str(folder)]).out)
    assert main(["report", str(folder), "-o", str(page)]) == bare
    live = LivePage(folder, print)
    assert page_data(page)["runs"][0]["calibration"] == json.loads(live.json())["runs"][0]["calibration"] == shown
    for text in (shown["headline"], shown["why"], *shown["notes"], *map(" ".join, shown["rows"])):
        assert squeezed(text) in terminal


@pytest.mark.parametrize("flags", [[], ["-p", "eps=2", "-p", "u_floor=0.3"], ["-p", "unmarked=number"]], ids=str)
def test_parameters_judge_the_labels_of_a_stepped_file_too(tmp_path, ran, flags):
    """In report as in calibrate."""
    rows = read_lines(run_of(tmp_path / "run.jsonl", [0.0, 0.3]))
    for row in rows:
        for name in ("v", "time", "run", "seconds", "reply"):
            del row[name]
        for rollout in row["rollouts"]:
            rollout["text"] = f"{'So' if 'unmarked=number' in flags else 'The answer is'} {rollout.pop('answer')}"
    file, page = str(write_lines(tmp_path / "file.jsonl", rows)), tmp_path / "run.html"
    shown = json.loads(ran(["calibrate", file, *flags, "--json"]).out)["shown"]
    ran(["report", file, *flags, "-o", str(page)], 0)
    assert page_data(page)["runs"][0]["calibration"] == shown
    assert all(flag in shown["line"] for flag in flags if "=" in flag)


@pytest.mark.parametrize(
    "later",
    [
        {"rollouts": [{"answer": "7", "correct": True}, {"answer": "8"}]},
        {"rollouts": [{"answer": "7"}, {"answer": "8"}]},
        {"label": "$$", "rollouts": [{"answer": "7"}, {"answer": "8"}]},
    ],
    ids=["half known", "unknown", "a label that means nothing"],
)
def test_a_group_whose_truth_is_not_whole_is_no_label_of_a_run(tmp_path, later):
    """Neither to terminal nor to page: it makes no earlier step needless, and takes no place of its prompt's group."""
    known = said("78", mean_entropy=[0.1, 0.2], correct=[True, False])
    book, lines = RunBook(), []
    for step, group in ((1, {"rollouts": known}), (2, later)):
        groups = [{"group_id": f"g{n}", **group} for n in range(40)]
        lines += objects(of_groups(groups, estimate(groups, method="ttrl").groups, run="r", step=step), 0.0)
    for one in lines:
        book.add(one)
    (run,) = book.runs.values()
    page = verdict_of(run.labelled.groups())
    data = read_labelled(str(write_lines(tmp_path / "log.jsonl", lines)), tell=lambda *_: None)
    assert (page.calibration.prompts, judge(data.groups, data.correct_R).calibration.prompts) == (40, 40)


def test_a_live_verdict_is_made_anew_at_each_step_and_whole_where_a_page_is_opened():
    book, made = RunBook(), []

    def told(step, *, anew):
        """Whether a group of that step changes the verdict of a page, which is opened then (`anew`)."""
        one = {"answer": "7", "mean_entropy": 0.1, "correct": True}
        reply = {"answers": ["7"], "valid": [True], "group_id": f"g{len(made)}"}
        book.add({"run": "r", "step": step, "group_id": f"g{len(made)}", "rollouts": [one], "reply": reply})
        (run,) = view(book, anew=anew)["runs"]
        made.append(run["calibration"]["notes"][0])
        return made[-1] != (made[-2] if len(made) > 1 else None)

    assert [told(step, anew=False) for step in (1, 1, 2, 2, 3)] == [True, False, True, False, True]
    assert told(3, anew=True)
    assert made[-1].startswith("6 labelled prompts")


def test_two_runs_of_a_log_are_not_one_policy(tmp_path, ran):
    one, other = run_of(tmp_path / "a.jsonl", [0.3]), run_of(tmp_path / "b.jsonl", [0.3], run="s")
    one.write_text(one.read_text() + other.read_text())
    assert "holds several runs (r and s)" in ran(["calibrate", str(one)], 2).err
    rollouts = said("1", mean_entropy=[1])
    sets = [{"run": run, "group_id": "a", "label": "1", "rollouts": rollouts} for run in "rs"]
    assert "holds several runs (r and s)" in ran(["calibrate", str(write_lines(one, sets))], 2).err, "without steps too"


def test_a_run_that_collapsed_is_not_taken_for_wrong_labels(tmp_path, ran):
    log = run_of(tmp_path / "log.jsonl", [0.3])
    log.write_text(log.read_text().replace('"answer": "7"', '"answer": "9"'))
    begin = "Not decided: label 32 more\nEvery labelled prompt is all right or all wrong"
    assert ran(["calibrate", str(log)], 1).out.startswith(begin)


def test_the_label_page_and_its_command_show_what_calibrate_shows(tmp_path, ran, monkeypatch):
    file, labels = vllm_dump(tmp_path / "dump.jsonl", gap=0.4), str(tmp_path / "labels.jsonl")
    rows = read_lines(Path(file))
    write_lines(Path(file), [{k: v for k, v in row.items() if k != "label"} for row in rows])
    write_lines(Path(labels), [{"group_id": row["request_id"], "label": "7"} for row in rows])
    read, serve, page = [file, "--entropy", "logprob", "--labels", labels], LabelServer.serve_forever, []

    def finish(server, *given):
        thread = threading.Thread(target=serve, args=[server, 0.01])
        thread.start()
        connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=60)
        connection.request("POST", f"/{server.token}/finish", "{}", {"Content-Type": "application/json"})
        page.append(json.loads(connection.getresponse().read()))
        connection.close()
        thread.join()

    monkeypatch.setattr(LabelServer, "serve_forever", finish)
    terminal = ran(["label", *read, "--port", "0", "--budget", "40"], 0).out
    shown = json.loads(ran(["calibrate", *read, "--json"], 0).out)["shown"]
    assert page == [{"headline": shown["headline"], "why": shown["why"]}]
    assert f"\n{shown['headline']}\n{shown['why']}\nNext:\n" in terminal
