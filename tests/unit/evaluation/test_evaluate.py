"""The evaluation harness against a local server that speaks the OpenAI protocol."""

import asyncio
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from dare_reward.cli import main
from dare_reward.errors import ConfigError, DareError, RefusedError, ReplyError, UnavailableError
from dare_trainer.evaluation import completions
from dare_trainer.evaluation.commands import BENCHMARKS
from dare_trainer.evaluation.completions import Sampling, collect
from dare_trainer.evaluation.paper import models, rows
from dare_trainer.evaluation.rollout_file import RolloutFile
from dare_trainer.evaluation.scores import score
from dare_trainer.launch.questions import LabelledQuestion, load

AIME = [{"id": i, "problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(5)]
MMLU = [
    {"question_id": 70, "question": "The second?", "options": ["one", "two", "three"], "answer": "B", "answer_index": 1}
]
SAMPLING = Sampling(model="m")


class Server:
    """Answers i + 1 right in the choices below `right` of each problem, and counts what it is asked."""

    def __init__(self, *, right=2, most=64, fail_first=0, broken=None):
        self.right, self.most, self.fail_first, self.broken = right, most, fail_first, broken
        self.bodies, self.heads, self.given, self.lock = [], [], {}, threading.Lock()

    def reply(self, path, body):
        with self.lock:
            self.bodies.append((path, body))
            if len(self.bodies) <= self.fail_first:
                return 503, {"error": "loading"}
            if self.broken is not None:
                return self.broken
            question = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
            begin = self.given.get(question, 0)
            count = min(body["n"], self.most)
            self.given[question] = begin + count
        texts = [self.text(question, i) for i in range(begin, begin + count)]
        key = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"message": {"content": t}})
        choices = [{"index": i, "finish_reason": "stop", **key(t)} for i, t in enumerate(texts)]
        return 200, {"choices": choices, "usage": {"completion_tokens": 10 * count}}

    def text(self, question, i):
        if "second" in question:
            return "\\boxed{B}" if i < self.right else "The answer is (C)."
        number = int(question.split()[2])
        return f"... \\boxed{{{number + 1}}}" if i < self.right else "I do not know" if i % 2 else "\\boxed{0}"

    def __enter__(self):
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.heads.append(dict(self.headers))
                status, value = outer.reply(self.path, body)
                data = value if isinstance(value, bytes) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(completions, "PAUSE", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def write(path, rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def command(tmp_path, server, *more, samples=4):
    data = write(tmp_path / "aime.jsonl", AIME)
    return [
        "evaluate", "--data", f"aime24={data}", "--url", server.url, "--model", "m",
        "--out", str(tmp_path / "out"), "--samples", str(samples), *more,
    ]  # fmt: skip


def test_figures_and_the_paper_s_rows(tmp_path, capsys):
    other = write(tmp_path / "mmlu.jsonl", MMLU)
    with Server() as server:
        arguments = command(tmp_path, server, "--data", f"mmlu-pro={other}", "--paper", "Qwen2.5-Math-1.5B")
        assert main(arguments) == 0
    out = capsys.readouterr().out
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = report["benchmarks"]["aime24"]
    assert found["pass"]["1"]["estimate"] == 0.5
    assert found["pass"]["2"]["estimate"] == pytest.approx(1 - 1 / 6)
    assert found["pass"]["4"]["estimate"] == 1
    # two right ones against one that says 0 and one that says nothing
    assert found["majority"]["4"]["estimate"] == 1
    assert found["parsed"] == 0.75
    assert found["mean_tokens"] == 10
    assert report["sampling"]["temperature"] == 1.0
    assert (report["sampling"]["top_p"], report["sampling"]["max_tokens"]) == (0.95, 3072)
    assert report["benchmarks"]["mmlu-pro"]["pass"]["1"]["estimate"] == 0.5
    assert "ours: pass@1" in out
    assert "paper: DARE" in out
    assert "42.20" in out  # the computed average, not the printed 44.2 alone
    assert "44.2" in out


def test_a_finished_run_asks_nothing_and_more_samples_ask_the_rest(tmp_path, capsys):
    with Server() as server:
        assert main(command(tmp_path, server)) == 0
        asked = len(server.bodies)
        assert main(command(tmp_path, server)) == 0
        assert len(server.bodies) == asked
        assert main(command(tmp_path, server, samples=6)) == 0
        assert [b["n"] for _, b in server.bodies[asked:]] == [2] * 5
        capsys.readouterr()
        asked = ["evaluate", "--data", f"aime24={tmp_path / 'aime.jsonl'}", "--out", str(tmp_path / "out"), "--report"]
        assert main([*asked, "--samples", "8"]) == 1
        assert "5 x 6" in capsys.readouterr().out


def test_a_report_says_what_the_file_was_sampled_with(tmp_path, capsys):
    """Not what this command line, or its defaults, would sample with."""
    report = ["evaluate", "--data", f"aime24={tmp_path / 'aime.jsonl'}", "--out", str(tmp_path / "out"), "--report"]
    with Server() as server:
        assert main(command(tmp_path, server, "--temperature", "0.6", samples=6)) == 0
    for more, k, code in ([], 6, 0), (["--samples", "4"], 4, 0), (["--samples", "32"], 6, 1):
        capsys.readouterr()
        assert main([*report, *more]) == code
        printed = capsys.readouterr().out
        assert printed.count(f"(k={k})") == printed.count("(k=") == 2
        content = json.loads((tmp_path / "out" / "report.json").read_text())
        assert (content["sampling"]["temperature"], content["sampling"]["model"]) == (0.6, "m")
        assert list(content["benchmarks"]["aime24"]["pass"])[-1] == str(k)
    path = tmp_path / "out" / "aime24.rollouts.jsonl"
    path.write_text("".join(x for x in path.read_text().splitlines(True) if json.loads(x)["group_id"] != "0"))
    assert main([*report, "--limit", "1"]) == 1  # no completion of the one question


def test_a_torn_line_is_made_again(tmp_path):
    with Server() as server:
        assert main(command(tmp_path, server)) == 0
        path = tmp_path / "out" / "aime24.rollouts.jsonl"
        path.write_bytes(path.read_bytes()[:-25])
        whole = path.read_text().splitlines()[:-1]
        asked = len(server.bodies)
        assert main(command(tmp_path, server)) == 0
        assert [b["n"] for _, b in server.bodies[asked:]] == [4]
    lines = path.read_text().splitlines()
    assert lines[:4] == whole
    assert [len(json.loads(line)["rollouts"]) for line in lines] == [4] * 5


def test_another_sampling_is_another_run(tmp_path, capsys):
    with Server() as server:
        assert main(command(tmp_path, server)) == 0
        assert main(command(tmp_path, server, "--temperature", "0.6")) == 2
        assert "not sampled with this --temperature" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--report"]])
def test_answers_to_other_prompts_are_not_graded_as_answers_to_these(tmp_path, capsys, monkeypatch, more):
    """Their ids are the same; a label that is corrected is graded anew."""
    with Server() as server:
        assert main(command(tmp_path, server)) == 0
        monkeypatch.setitem(AIME[0], "answer", "9")
        assert main(command(tmp_path, server, *more)) == 0
        assert json.loads((tmp_path / "out" / "report.json").read_text())["benchmarks"]["aime24"]["pass"]["1"][
            "estimate"
        ] == pytest.approx(0.4)
        monkeypatch.setitem(AIME[0], "problem", "What is 0 + 9?")
        assert main(command(tmp_path, server, *more)) == 2
    assert "--data" in capsys.readouterr().err


def test_rollouts_are_groups_that_other_commands_read(tmp_path, capsys):
    with Server() as server:
        assert main(command(tmp_path, server)) == 0
    assert main(["score", "--method", "ttrl", str(tmp_path / "out" / "aime24.rollouts.jsonl")]) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 5


def test_what_is_sent(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Server() as server:
        assert main(command(tmp_path, server, "--system", "Be brief.", "--limit", "1")) == 0
        assert server.heads[0]["Authorization"] == "Bearer secret"
        path, body = server.bodies[0]
        assert path == "/v1/chat/completions"
        assert (body["temperature"], body["top_p"], body["max_tokens"], body["n"]) == (1.0, 0.95, 3072, 4)
        assert [m["role"] for m in body["messages"]] == ["system", "user"]
        assert body["messages"][1]["content"].endswith("within \\boxed{}.")
        assert (
            main(command(tmp_path, server, "--route", "completions", "--out", str(tmp_path / "o2"), "--limit", "2"))
            == 0
        )
        bare = [b for p, b in server.bodies if p == "/v1/completions"]
        assert len(bare) == 2
        assert bare[0]["seed"] != bare[1]["seed"]
        assert "secret" not in (tmp_path / "out" / "aime24.rollouts.jsonl").read_text()


def test_a_server_that_ignores_n_or_comes_up_late(tmp_path):
    with Server(most=1, fail_first=3) as server:
        assert main(command(tmp_path, server)) == 0
        assert len(server.bodies) == 3 + 20
        assert len({b["seed"] for _, b in server.bodies}) == 20
    groups = [json.loads(line) for line in (tmp_path / "out" / "aime24.rollouts.jsonl").read_text().splitlines()]
    assert len({group["group_id"] for group in groups}) == 5
    assert [(len(g["rollouts"]), g["meta"]["completion_tokens"]) for g in groups] == [(4, 40)] * 5


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ((400, {"error": "no such model"}), RefusedError),
        ((200, {"choices": []}), ReplyError),
        ((200, b"<html>"), ReplyError),
        ((200, []), ReplyError),
        ((503, {}), UnavailableError),
    ],
)
def test_errors_name_what_happened(tmp_path, broken, error):
    problems = [LabelledQuestion("0", "What is 1 + 1?", "2", "math")]
    with Server(broken=broken) as server, pytest.raises(error):
        asyncio.run(collect(server.url, problems, SAMPLING, RolloutFile(tmp_path / "c.jsonl", {}, {}), samples=2))


def test_no_server_is_2_in_one_line(tmp_path, capsys):
    with Server() as server:
        arguments = command(tmp_path, server)
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "5 tries" in err
    assert len(err.splitlines()) == 1


def test_what_came_before_an_error_is_kept(tmp_path):
    problems = [LabelledQuestion(str(i), f"What is {i} + 1?", str(i + 1), "math") for i in range(4)]

    def answer(request):
        body = json.loads(request.content)
        if "What is 3" in body["messages"][0]["content"]:
            return httpx.Response(404, text="gone")
        return httpx.Response(200, json={"choices": [{"message": {"content": "\\boxed{1}"}, "finish_reason": "stop"}]})

    transport = httpx.MockTransport(answer)
    asked = {p.id: p.asks() for p in problems}
    file, options = (
        RolloutFile(tmp_path / "c.jsonl", {}, asked),
        {"samples": 1, "concurrency": 1, "transport": transport},
    )
    with pytest.raises(RefusedError, match="gone"):
        asyncio.run(collect("http://x/v1", problems, SAMPLING, file, **options))
    assert RolloutFile(tmp_path / "c.jsonl", {}, asked).lines.keys() == {"0", "1", "2"}


def test_wrong_use(tmp_path, capsys):
    data = write(tmp_path / "a.jsonl", AIME)
    base = ["evaluate", "--out", str(tmp_path / "o")]
    assert main([*base, "--data", f"aime24={data}"]) == 2
    assert main([*base, "--data", "aime", "--url", "u", "--model", "m"]) == 2
    assert main([*base, "--data", f"aime24={data}", "--report"]) == 2
    assert main([*base, "--data", f"aime24={data}", "--url", "u", "--model", "m", "--samples", "0"]) == 2
    assert main([*base, "--data", f"aime24={data}", "--url", "u", "--model", "m", "--concurrency", "0"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 5
    for flag, value in (
        ("--temperature", "-1"),
        ("--top-p", "2"),
        ("--max-tokens", "0"),
        ("--seed", "x"),
        ("--route", "y"),
    ):
        with pytest.raises(SystemExit) as ended:
            main([*base, "--data", f"aime24={data}", "--url", "u", "--model", "m", flag, value])
        assert (ended.value.code, flag in capsys.readouterr().err) == (2, True)
    for other in ('{"x": 1}\n', '{"group_id": "0", "meta": {"sampling": {}}}\n'):
        (tmp_path / "c.jsonl").write_text(other)
        with pytest.raises(ConfigError):
            RolloutFile(tmp_path / "c.jsonl", {}, {"0": {}})


# benchmarks


def test_the_forms_in_which_the_sets_are_published(tmp_path):
    math = [{"problem": "p", "answer": "\\frac{1}{2}", "unique_id": "test/1.json"}, {"problem": "q", "answer": 3.0}]
    found = load("math-500", write(tmp_path / "m.jsonl", math))
    assert [(p.id, p.label) for p in found] == [("test/1.json", "\\frac{1}{2}"), ("1", "3")]
    amc = tmp_path / "amc.json"
    amc.write_text(
        json.dumps([{"id": 0, "problem": "p", "answer": 27.0}, {"id": 1, "question": "q", "solution": "so \\boxed{5}"}])
    )
    assert [p.label for p in load("amc", amc)] == ["27", "5"]
    found = load(
        "mmlu-pro", write(tmp_path / "p.jsonl", [*MMLU, {"question": "q", "options": ["x", "y"], "answer_index": 0}])
    )
    assert [(p.label, p.options[1]) for p in found] == [("B", "two"), ("A", "y")]
    assert "A. one\nB. two\nC. three" in found[0].prompt()
    for i, name in enumerate(("answer", "label", "expected_answer", "solution")):
        for benchmark in ("math-500", "aime24", "amc"):
            assert load(benchmark, write(tmp_path / f"{benchmark}{i}", [{"prompt": "p", name: "7"}]))[0].label == "7"
    for i, benchmark in enumerate(("mmlu-pro", "gpqa")):
        row = {"problem": "p", "choices": ["x", "y"], "answer_index": 1}
        assert load(benchmark, write(tmp_path / f"c{i}", [row]))[0].label == "B"


def test_gpqa_is_shuffled_by_its_question(tmp_path):
    data = [
        {
            "Record ID": f"rec{i}",
            "Question": f"q{i}",
            "Correct Answer": "yes",
            **{f"Incorrect Answer {j}": f"no{j}" for j in (1, 2, 3)},
        }
        for i in range(40)
    ]
    path = write(tmp_path / "g.jsonl", data)
    found = load("gpqa", path)
    assert found == load("gpqa", path)
    assert all(p.options["ABCD".index(p.label)] == "yes" and len(p.options) == 4 for p in found)
    assert {p.label for p in found} == set("ABCD")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("math-500", {"problem": "p"}),
        ("mmlu-pro", {"question": "q", "answer": "A"}),
        ("mmlu-pro", {"question": "q", "answer": "D", "options": ["x", "y"]}),
        ("gpqa", {"Question": "q", "answer": "neither", "options": ["x", "y"]}),
        ("nothing", {}),
    ],
)
def test_rows_that_mean_nothing(tmp_path, name, row):
    with pytest.raises(DareError):
        load(name, write(tmp_path / "x.jsonl", [row]))


def test_files_that_are_none(tmp_path):
    for text in ("", "{", "[1]"):
        (tmp_path / "x.jsonl").write_text(text)
        with pytest.raises(ConfigError):
            load("amc", tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="no such file"):
        load("amc", tmp_path / "absent")


def test_repeated_ids_become_places(tmp_path):
    same = [{"id": 1, "problem": f"p{i}", "answer": "1"} for i in range(3)]
    assert [p.id for p in load("amc", write(tmp_path / "x.jsonl", same))] == ["0", "1", "2"]


# scores


def test_equivalent_answers_vote_together_and_cut_ones_need_a_box(tmp_path):
    problem = LabelledQuestion("0", "q", "\\frac{1}{2}", "math")
    texts = [("\\boxed{0.5}", "stop"), ("\\boxed{1/2}", "stop"), ("\\boxed{3}", "stop"), ("The answer is 3", "length")]
    other = replace(problem, id="1")
    file = RolloutFile(tmp_path / "c.jsonl", {}, {})
    for text, reason in texts:
        group = problem.group([{"text": text, "finish_reason": reason}])
        file.add({**group, "meta": {"completion_tokens": 7}})
    found = score([problem, other], file, samples=4, ks=[1, 4])
    assert found["pass"]["1"]["estimate"] == 0.5
    assert found["majority"]["4"]["estimate"] == 1
    assert (found["parsed"], found["truncated"], found["mean_tokens"]) == (0.75, 0.25, 7)
    assert (found["problems"], found["answered_problems"]) == (2, 1)
    assert score([other], file, samples=1, ks=[1]) == {"problems": 1, "answered_problems": 0}


# the paper


def test_the_paper_s_rows():
    assert models() == ("Qwen2.5-Math-1.5B", "Qwen3-1.7B", "Qwen3-4B", "Qwen2.5-Math-7B")
    found = {(r.model, r.method): r for r in rows()}
    assert len(found) == len(rows()) == 40
    assert all(r.scores.keys() == BENCHMARKS.keys() for r in rows())
    dare, ttrl = found["Qwen2.5-Math-1.5B", "DARE"], found["Qwen2.5-Math-1.5B", "TTRL"]
    assert (dare.average, dare.printed) == (pytest.approx(42.20), 44.2)
    assert (ttrl.average, ttrl.printed) == (pytest.approx(39.56), 41.5)
    assert found["Qwen3-1.7B", "DARE"].average == pytest.approx(48.62)
    assert dare.scores["aime24"] / ttrl.scores["aime24"] == pytest.approx(1.253, abs=5e-4)  # the headline


@pytest.mark.parametrize("name", ["aime24.rollouts.jsonl", "report.json"])
def test_files_of_somebody_else_are_not_replaced(tmp_path, capsys, name):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).write_text("years of work\n")
    data = write(tmp_path / "aime24.json", [{"id": "1", "problem": "1+1?", "answer": "2"}])
    asked = ["--url", "http://127.0.0.1:1/v1", "--model", "m", "--samples", "1"]
    assert main(["evaluate", "--data", f"aime24={data}", "--out", str(folder), *asked]) == 2
    assert name in capsys.readouterr().err
    assert (folder / name).read_text() == "years of work\n"
