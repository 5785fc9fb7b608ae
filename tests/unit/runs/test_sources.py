"""Who writes a run log beside the service: clients, and the adapters through them."""

import httpx
import pytest

from dare_reward import AsyncClient, Client
from dare_reward.errors import RequestError
from dare_reward.runs import log as module
from dare_reward.runs import read_run
from dare_reward.runs.log import run_log_of

GROUPS = [{"group_id": "q", "label": "1", "prompt": "?", "rollouts": [
    {"text": "\\boxed{1}", "mean_entropy": 0.1}, {"answer": "2", "mean_entropy": 0.2, "trained": False}]}]  # fmt: skip


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.0)
    yield
    run_log_of.cache_clear()


def away(request):
    raise httpx.ConnectError("nobody there")


AWAY = {"retries": 0, "fallback": "local", "transport": httpx.MockTransport(away)}


def lines(folder, asked=frozenset()):
    log = run_log_of(folder, asked)
    assert log.flush()
    found = list(read_run(folder))
    log.close()
    return found


def test_a_client_logs_what_it_returns(tmp_path):
    reply = Client(**AWAY, run_log=tmp_path).reward(GROUPS, run="exp1", step=7)
    (line,) = lines(tmp_path)
    assert (line["run"], line["step"], line["label"]) == ("exp1", 7, "1")
    assert line["reply"]["rewards"] == list(reply.groups[0].rewards)
    assert line["rollouts"] == [
        {"answer": "1", "mean_entropy": 0.1, "correct": True},
        {"answer": "2", "mean_entropy": 0.2, "trained": False, "correct": False},
    ]


@pytest.mark.anyio
async def test_an_asynchronous_client_too(tmp_path):
    client = AsyncClient(**AWAY, run_log=str(tmp_path), run_log_texts="prompt,texts")
    await client.reward(GROUPS)
    (line,) = lines(tmp_path, frozenset({"prompt", "texts"}))
    assert (line["prompt"], [r.get("text") for r in line["rollouts"]]) == ("?", ["\\boxed{1}", None])


def test_wrong_parts_are_refused_at_once(tmp_path):
    with pytest.raises(RequestError, match="prompt, texts"):
        Client(run_log=tmp_path, run_log_texts="tokens")


def test_a_log_that_fails_costs_no_reward(tmp_path, caplog):
    (tmp_path / "file").write_text("mine")
    client = Client(**AWAY, run_log=tmp_path / "file")
    for _ in range(2):
        assert client.rewards(GROUPS)
        assert run_log_of(tmp_path / "file", frozenset()).flush()
    assert run_log_of(tmp_path / "file", frozenset()).status["failed"] == 2
    assert sum("run_log_failed" in r.getMessage() for r in caplog.records) == 1
    run_log_of(tmp_path / "file", frozenset()).close()
