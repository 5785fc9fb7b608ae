"""`dare-reward measure --url` against a local server that speaks the OpenAI protocol."""

import json
import threading
from contextlib import contextmanager

import pytest
from jsonl import read_lines, write_lines
from serving import answering

from dare_reward.cli import main
from dare_trainer.evaluation import endpoint

QUESTIONS = [{"id": f"q{i}", "prompt": f"What is {i} + 1?", "label": str(i + 1)} for i in range(5)]


class Server:
    """Answers i + 1 right in the first `right` rollouts of each question, and counts what it is asked."""

    def __init__(self, *, right=2, most=64, fail_first=0, broken=None):
        self.right, self.most, self.fail_first, self.broken = right, most, fail_first, broken
        self.gone = "no such question"
        self.bodies, self.heads, self.given, self.lock = [], [], {}, threading.Lock()

    def reply(self, path, body):
        with self.lock:
            self.bodies.append((path, body))
            if len(self.bodies) <= self.fail_first:
                return 503, {"error": "loading"}
            if self.broken is not None:
                return self.broken
            question = body["prompt"] if "prompt" in body else body["messages"][-1]["content"]
            if self.gone in question:
                return 404, {"error": "gone"}
            begin = self.given.get(question, 0) if body["temperature"] else 0
            count = min(body["n"], self.most)
            self.given[question] = begin + count * (body["temperature"] > 0)
        texts = [self.text(question, i) for i in range(begin, begin + count)]
        key = (lambda t: {"text": t}) if "prompt" in body else (lambda t: {"message": {"content": t}})
        return 200, {"choices": [{"index": i, "finish_reason": "stop", **key(t)} for i, t in enumerate(texts)]}

    def text(self, question, i):
        number = int(question.split()[2])
        return f"... \\boxed{{{number + 1}}}" if i < self.right else "I do not know" if i % 2 else "\\boxed{0}"

    def answer(self, handler, content):
        self.heads.append(dict(handler.headers))
        status, value = self.reply(handler.path, json.loads(content))
        return status, value if isinstance(value, bytes) else json.dumps(value).encode()

    @contextmanager
    def running(self):
        with answering(self.answer) as address:
            self.url = f"{address}/v1"
            yield self


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(endpoint, "PAUSE", 0.001)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


@pytest.fixture
def command(tmp_path):
    def make(server, *more):
        data = write_lines(tmp_path / "q.jsonl", QUESTIONS)
        words = ["measure", "--data", data, "--model", "m", "--out", tmp_path / "r.jsonl", "--url", server.url]
        return [*map(str, words), "--rollouts", "4", *more]

    return make


def groups(tmp_path):
    return read_lines(tmp_path / "r.jsonl")


def test_accuracies_of_a_served_model_beside_the_greedy_control(command, tmp_path, capsys):
    with Server().running() as server:
        assert main(command(server, "--greedy")) == 1
    out, err = capsys.readouterr()
    assert "greedy 100.0 [100.0, 100.0] (0% cut at the limit), the vote of all rollouts 100.0" in out
    assert [line.split()[1:] for line in out.splitlines() if line.startswith("pass@k")] == [["50.0", "83.3", "100.0"]]
    assert "5 of 5 prompts, pass@1 50.0%" in err
    assert {len(g["rollouts"]) for g in groups(tmp_path)} == {4}
    assert all("mean_entropy" not in r for g in groups(tmp_path) for r in g["rollouts"])
    assert main(["calibrate", str(tmp_path / "r.jsonl")]) == 2  # it needs entropies


def test_a_file_of_vllm_is_not_gone_on_with_by_an_endpoint(command, tmp_path, capsys):
    with Server().running() as server:
        main(command(server))
        before = (tmp_path / "r.jsonl").read_bytes()
        words = command(server)
        assert main([w for w in words if w not in {"--url", server.url}]) == 2
    assert "was not sampled with this --url" in capsys.readouterr().err
    assert (tmp_path / "r.jsonl").read_bytes() == before


def test_what_is_sent(command, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    with Server().running() as server:
        main(command(server, "--prompts", "1", "--stop", "\\n", "--greedy"))
        assert server.heads[0]["Authorization"] == "Bearer secret"
        (path, greedy), (_, body) = server.bodies
        assert path == "/v1/chat/completions"
        assert (greedy["temperature"], greedy["top_p"], greedy["n"]) == (0.0, 1.0, 1)
        assert (body["temperature"], body["top_p"], body["max_tokens"], body["n"]) == (1.0, 0.95, 3072, 4)
        assert body["stop"] == ["\n"]
        assert [m["role"] for m in body["messages"]] == ["user"]
        assert body["messages"][0]["content"].endswith("within \\boxed{}.")
        main(command(server, "--no-chat", "--prompts", "2", "--out", str(tmp_path / "bare.jsonl")))
        bare = [b for p, b in server.bodies if p == "/v1/completions"]
        assert len(bare) == 2
        assert bare[0]["seed"] != bare[1]["seed"]
        assert "secret" not in (tmp_path / "r.jsonl").read_text()


def test_a_server_that_ignores_n_or_comes_up_late(command, tmp_path):
    with Server(most=1, fail_first=3).running() as server:
        main(command(server))
        assert len(server.bodies) == 3 + 20
        assert len({b["seed"] for _, b in server.bodies}) == 20
    assert [len(g["rollouts"]) for g in groups(tmp_path)] == [4] * 5


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ((400, {"error": "no such model"}), "no such model"),
        ((200, {"choices": []}), "without choices"),
        ((200, b"<html>"), "not JSON"),
        *(((200, x), "without choices") for x in ([], {"choices": [None]}, {"choices": [{"delta": {}}]})),
        ((200, {"choices": [{"message": {"content": [{"type": "image_url"}]}}]}), "'image_url', no text"),
        ((503, {}), "5 tries"),
    ],
)
def test_errors_name_what_happened(command, capsys, broken, words):
    with Server(broken=broken).running() as server:
        assert main(command(server)) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("dare-reward")]
    assert len(said) == 1
    assert words in said[0]


def test_what_came_before_an_error_is_kept(command, tmp_path, capsys):
    with Server().running() as server:
        main(command(server, "--out", str(tmp_path / "whole.jsonl"), "--concurrency", "1"))
        order = [group["group_id"] for group in read_lines(tmp_path / "whole.jsonl")]
        server.gone = f"What is {order[3][1:]} "
        assert main(command(server, "--concurrency", "1")) == 2
    assert "gone" in capsys.readouterr().err
    assert [g["group_id"] for g in groups(tmp_path)] == order[:3]
