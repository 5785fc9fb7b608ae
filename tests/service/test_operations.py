"""What an operator sees: probes, metrics, logs, limits, an orderly stop."""

import asyncio
import json
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import fields

import httpx
import numpy as np
import pytest
from described import description
from serving import connect, head, live_server, request, wait_for

from dare_reward.errors import misspelt_variables
from dare_reward.groups import Ragged
from dare_reward.reply import Reply
from dare_reward.wire import pack
from dare_service.app import create_app
from dare_service.body import RESERVE, Admission, Lease
from dare_service.log import JSONLines, logger
from dare_service.problems import RefusalError
from dare_service.server import _warn, bind
from dare_service.settings import SETTINGS, Settings, SettingsError, from_environment

GOOD = {"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]}


def test_probes(service):
    assert service.get("/health").json() == {"status": "ok"}
    assert service.get("/ready").json() == {"status": "ready"}
    assert "swagger" in service.get("/docs").text.lower()


def test_info_has_the_effective_limits(make_service):
    body = make_service(max_groups=7, token="secret").get("/info").json()
    assert body["settings"]["max_groups"] == 7
    assert body["auth"] is True
    assert "secret" not in json.dumps(body)


def test_info_says_whose_entropy_nobody_has_measured(make_service):
    service = make_service(page="on")
    assert "calibrate" in service.get("/info").json()["entropy"]["note"]

    def post(run, label):
        rollouts = [{"answer": "1", "mean_entropy": 0.1}, {"answer": "2", "mean_entropy": 0.4}]
        service.post({"run": run, "groups": [{"rollouts": rollouts} | label]})
        assert service.state.recorder.flush()
        return service.get("/info").json()["entropy"]

    assert post("bare", {})["unmeasured_runs"] == ["bare"]
    assert post("labelled", {"label": "1"})["unmeasured_runs"] == ["bare"]
    assert post("bare", {"label": "1"}) == {"note": None, "unmeasured_runs": []}
    assert make_service(method="ttrl").get("/info").json()["entropy"]["note"] is None


def test_metrics(make_service):
    service = make_service()
    service.post(GOOD)
    service.post({"groups": [{"rollouts": [{"answer": "1"}]}]})
    service.post(b"{")
    service.get("/nothing/at/all")
    lines = service.get("/metrics").text.splitlines()
    for line in (
        'dare_requests_total{code="200",route="/reward"} 2.0',
        'dare_requests_total{code="400",route="/reward"} 1.0',
        'dare_requests_total{code="404",route="other"} 1.0',
        'dare_groups_total{method="dare"} 1.0',
        'dare_rollouts_total{method="dare"} 1.0',
        'dare_group_errors_total{code="missing_entropy"} 1.0',
        'dare_rejected_total{reason="json"} 1.0',
        "dare_inflight_bytes 0.0",
        "dare_votes_count 1.0",
        "dare_majority_ratio_count 1.0",
    ):
        assert line in lines
    assert any(x.startswith("dare_build_info{version=") for x in lines)
    assert any(x.startswith('dare_request_seconds_bucket{le="0.005",route="/reward"}') for x in lines)


@pytest.mark.parametrize("given", ["abc-123", "a" * 128, "run:1/step=2"])
@pytest.mark.parametrize("detail", ["full", "rewards"])
def test_the_caller_s_request_id_is_echoed(service, given, detail):
    """The client takes a reply for its own by it."""
    response = service.post(GOOD, f"/reward?detail={detail}", headers={"x-request-id": given})
    assert response.headers["x-request-id"] == Reply.from_json(response.json()).request_id == given


@pytest.mark.parametrize("given", ["a" * 129, "a b", 'a"b', ""])
def test_an_unfit_request_id_is_replaced(service, given):
    minted = service.post(GOOD, headers={"x-request-id": given}).headers["x-request-id"]
    assert minted != given
    assert len(minted) == 16


def test_the_log_has_one_line_a_request_or_a_joined_group_and_no_body(make_service, caplog):
    service, secret = make_service(log="info"), "very-secret-answer"
    logger.propagate = True
    logger.setLevel(logging.INFO)
    good, bad = ({"rollouts": [{"answer": secret, "mean_entropy": entropy}]} for entropy in (0.2, -1))
    single = {"query": [rf"p\boxed{{{secret}}}"], "prompts": ["p"], "labels": [""]}
    with caplog.at_level(logging.INFO, logger="dare_service"):
        service.post({"run": "exp7", "step": 3, "groups": [good]}, "/reward?token=hush")
        service.post({"groups": [bad]})
        service.post(single, "/get_reward?run=a&group_size=1")
    first, second, group = (r.fields for r in caplog.records if r.message in {"request", "group"})
    assert (first["status"], first["run"], first["step"], first["rollouts"]) == (200, "exp7", 3, 1)
    assert (second["status"], second["refused"]) == (422, "value")
    assert [group[name] for name in ("rollouts", "group_size", "end", "run")] == [1, 1, "full", "a"]
    assert not re.search("hush|" + secret, str([r.__dict__ for r in caplog.records if r.name == "dare_service"]))


def test_a_bug_is_a_500_without_a_trace(make_service, monkeypatch):
    service = make_service()

    def broken(*_, **__):
        raise ZeroDivisionError("inner secret")

    monkeypatch.setattr("dare_service.reward_request.score", broken)
    response = service.post(GOOD)
    assert response.status_code == 500
    assert "secret" not in response.text
    assert response.headers["content-type"] == "application/problem+json"


def test_admission_counts_bytes():
    admission = Admission(2 * RESERVE)
    with Lease(admission) as first, Lease(admission) as second:
        assert admission.held == 0  # a body that was announced and did not come holds nothing
        first.grow(RESERVE + 1)
        second.grow(RESERVE - 1)
        with pytest.raises(RefusalError) as caught:
            second.grow(2)
        assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "1"})
        with Lease(admission) as small:
            small.grow(RESERVE)  # a single rollout is never refused
            assert admission.held == 3 * RESERVE
    assert admission.held == 0
    with Lease(admission) as alone:
        alone.grow(1000 * RESERVE)  # alone it is let in, or it would never be
        assert admission.held == 1000 * RESERVE


@pytest.mark.parametrize(
    ("settings", "words"), [({"deadline": 0.05}, "DARE_DEADLINE"), ({"body_idle": 0.05}, "no byte of the body")]
)
def test_a_slow_body_is_given_up(make_service, settings, words):
    service = make_service(**settings)

    async def slow():
        yield b"{"
        await asyncio.sleep(5)

    response = service.request("POST", "/reward", content=slow(), headers={"content-type": "application/json"})
    assert response.status_code == 408
    assert words in response.json()["detail"]
    assert service.state.admission.held == 0


def test_settings_from_the_environment():
    found = from_environment(
        {"DARE_PORT": "9", "DARE_DEADLINE": "2.5", "DARE_TOKEN": "t", "OTHER": "x"}, host=None, port=None
    )
    assert (found.port, found.deadline, found.token, found.host) == (9, 2.5, "t", "127.0.0.1")
    assert from_environment({"DARE_PORT": "9"}, port=10).port == 10
    for proxies in ("*", "127.0.0.1, ::1,10.0.0.0/8,"):
        assert from_environment({"DARE_TRUSTED_PROXIES": proxies}).trusted_proxies == proxies
    with pytest.raises(SettingsError):
        _ = from_environment({"DARE_PARAMS": "[]"}).default_params


def test_a_setting_of_zero_is_refused_or_leaves_a_service_that_scores():
    numbers = {f"DARE_{s.name.upper()}" for s in SETTINGS.values() if s.type in {int, float}}
    allowed = set()
    for name in numbers:
        with pytest.raises(SettingsError, match=name):
            from_environment({name: "-1"})
        try:
            from_environment({name: "0"})
            allowed.add(name)
        except SettingsError as error:
            assert name in str(error)
    assert {"DARE_DRAIN", "DARE_GRACE"} <= allowed < numbers
    rollout = {"query": ["1 + 1? 2"], "prompts": ["1 + 1?"], "labels": [""]}
    with live_server(**dict.fromkeys(allowed, "0")) as (url, _):
        whole = httpx.post(f"{url}/reward?method=ttrl", json={"groups": [{"rollouts": [{"answer": "2"}]}]})
        single = httpx.post(f"{url}/reward?method=ttrl&group_size=1", json=rollout)
    assert (whole.json()["groups"][0]["rewards"], single.json()["rewards"]) == ([1.0], [1.0])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("DARE_HOST", host) for host in ("", " ", "0", "0x0", "127.1")),
        *(("DARE_PORT", port) for port in ("x", "8_000", "\u0668\u0660", "x" * 100_000)),
        *((f"DARE_{name}", "1e308") for name in ("DRAIN", "GRACE")),
        *(("DARE_DEADLINE", seconds) for seconds in ("inf", "nan")),
        *(("DARE_METHOD", ""), ("DARE_JOIN_HOLD", "180"), ("DARE_MAX_GROUPS", "-1"), ("DARE_LOG", "loud")),
        *(("DARE_MAX_BODY_BYTES", "1"), ("DARE_RUN_LOG_TEXTS", "txt"), ("DARE_RUN_LOG_MAX_BYTES", "1000")),
    ],
)
def test_a_setting_with_which_the_service_would_serve_nobody_everybody_or_for_ever_is_refused(name, value):
    with pytest.raises(SettingsError, match=name) as caught:
        create_app(from_environment({name: value}))
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "127.0.0.1", "localhost", "node-7.cluster", "10.0.0.5"])
def test_an_address_in_full_and_a_name_are_taken(host):
    assert from_environment({"DARE_HOST": host}).host == host


def test_every_number_s_default_lies_in_its_range():
    numbers = [s for s in SETTINGS.values() if s.type in {int, float}]
    assert len(numbers) > 10
    for setting in numbers:
        assert {setting.ge, setting.gt} != {None} != {setting.le, setting.lt}
        assert setting.check(setting.default) == setting.default


def test_every_setting_says_why_it_exists():
    assert len([name for name in SETTINGS if not name.startswith("join")]) <= 23, "25 with those of joins"
    for setting in fields(Settings):
        assert len(setting.metadata["spec"].doc) > 20


def test_the_docs_page_asks_no_other_host(service):
    page = service.get("/docs").text
    assert "//" not in re.sub(r"<!--.*?-->|// .*", "", page)
    for path in re.findall(r'(?:href|src)="(docs/[^"]+)"', page):
        found = service.get(f"/{path}")
        assert found.status_code == 200
        assert len(found.content) > 100_000
    assert service.get("/docs/assets/../../app.py").status_code == 404
    assert service.get("/docs/assets/nothing.js").status_code == 404


def test_openapi_says_how_to_log_in_and_shows_an_example_of_each_body(service):
    document = service.get("/openapi.json").json()
    assert document["components"]["securitySchemes"].keys() == {"bearer", "token"}
    tags = {tag["name"] for tag in document["tags"]}
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            assert set(operation["tags"]) < tags, path
            assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", operation["operationId"])
            assert (verb == "post") == ("security" in operation)
            if verb == "post":
                example = operation["requestBody"]["content"]["application/json"]["example"]
                query = "?group_size=1&run=r" if path == "/get_reward" else ""
                assert service.post(example, path + query).status_code == 200, path
    post = document["paths"]["/reward"]["post"]
    example = post["requestBody"]["content"]["application/json"]["example"]
    shown = post["responses"]["200"]["content"]["application/json"]["example"]
    (given,), (found,) = shown["groups"], service.post(example).json()["groups"]
    assert given["rewards"] == pytest.approx(found["rewards"], abs=1e-4)
    assert given.keys() <= found.keys()


@pytest.mark.parametrize("path", ["/info", "/methods", "/health", "/ready"])
def test_what_runs_is_as_openapi_describes_it(service, path):
    jsonschema = pytest.importorskip("jsonschema_rs")
    document = service.get("/openapi.json").json()
    reply = service.get(path).json()
    content = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    models = document["components"]["schemas"]
    assert jsonschema.is_valid({**content, "components": document["components"]}, reply)
    model = content["$ref"].rpartition("/")[2]
    assert models[model]["properties"].keys() == reply.keys()
    if path == "/info":
        assert models["ShownSettings"]["properties"].keys() == reply["settings"].keys()
        assert not jsonschema.is_valid({**content, "components": document["components"]}, {**reply, "auth": 1})
    if path == "/methods":
        assert models["MethodEntry"]["properties"].keys() == reply["methods"][0].keys()


def test_a_line_of_the_log_has_milliseconds_and_a_zone():
    record = logging.LogRecord("dare_service", logging.INFO, "", 0, "request", (), None)
    record.created = 1_700_000_000.1234
    assert json.loads(JSONLines().format(record))["time"] == "2023-11-14T22:13:20.123+00:00"


def test_the_description_that_is_served_is_that_of_the_code(service):
    assert service.get("/openapi.json").text == description.document(), "run: python scripts/docs.py"


# --- a real process --------------------------------------------------------------------------------------------------


def test_a_real_server_answers_both_forms(live):
    assert httpx.post(f"{live}/reward", json=GOOD).json()["groups"][0]["rewards"] == [1.0]
    frame = pack(
        {"groups": [{"rollouts": [{"answer": "1"}]}]},
        {"token_entropies": Ragged(np.ones(3, np.float32), np.array([3]))},
    )
    response = httpx.post(f"{live}/reward", content=frame, headers={"content-type": "application/vnd.safetensors"})
    assert response.json()["groups"][0]["support"][0]["uncertainty"] == 1.0


def test_a_lying_content_length_and_a_lost_client_leave_the_server_alone(live):

    def sized(length):
        return head("/reward", "Content-Type: application/json", f"Content-Length: {length}")

    connect(live, sized(1000) + b"{").close()
    for sent, status in ((sized("abc") + b"{}", b"400"), (sized(9999999999), b"413")):
        with connect(live, sent) as connection:
            assert status in connection.recv(65536).split(b"\r\n", 1)[0]
    assert httpx.post(f"{live}/reward", json=GOOD).status_code == 200


def test_sigterm_drains_and_exits_zero():
    """/ready turns 503 while the port is still open, a request in flight is finished, the exit code is 0."""
    with live_server(DARE_DRAIN=3.0) as (url, process), httpx.Client(base_url=url, timeout=60) as others:
        body = json.dumps(GOOD).encode()
        seen, drained = {}, threading.Event()

        def slow():
            def chunks():
                yield body[:10]
                drained.wait(60)
                yield body[10:]

            seen["slow"] = httpx.post(
                f"{url}/reward", content=chunks(), headers={"content-type": "application/json"}, timeout=60
            )

        thread = threading.Thread(target=slow)
        thread.start()
        wait_for(lambda: "dare_inflight_bytes 0.0" not in others.get("/metrics").text)
        os.kill(process.pid, signal.SIGTERM)
        wait_for(lambda: others.get("/ready").status_code == 503)
        for refused in (others.get("/ready"), others.post("/reward", json=GOOD)):
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert others.get("/health").status_code == 200
        drained.set()
        thread.join()
        assert seen["slow"].status_code == 200
        assert process.wait(60) == 0
        entries = [json.loads(line) for line in process.stderr.read().splitlines()]
        start = entries[0]
        assert start["event"] == "start", "it says first where it listens"
        assert (start["address"], start["auth"], start["settings"]) == (url, False, {"drain": 3.0, "port": 0})
        assert entries[-1]["event"] == "stop"
        assert not {"setting_ignored", "no_token"} & {entry["event"] for entry in entries}


HARD = r"\binom{x}{e}+|(a)^{0.1}-\Gamma(i)|\pm \sqrt{\tan(\binom{\pi}{a})+|(a)^{%d.1}-\Gamma(i)|}"


@pytest.mark.parametrize(
    ("grace", "drain", "signals"), [(1.0, 0.1, [signal.SIGTERM]), (60.0, 600.0, [signal.SIGINT, signal.SIGINT])]
)
def test_work_that_outlasts_the_grace_period_does_not_keep_the_process(grace, drain, signals):
    """Threads cannot be stopped, so the process ends around them: at the end of the grace, or at a second signal."""
    rollouts = [{"answer": HARD % i} for i in range(1024)]
    body = json.dumps({"params": {"missing_entropy": "frequency"}, "groups": [{"rollouts": rollouts}] * 4})
    with live_server(DARE_GRACE=grace, DARE_DRAIN=drain) as (url, process), connect(url, request("/reward", body)):
        wait_for(lambda: "dare_inflight_bytes 0.0" not in httpx.get(f"{url}/metrics").text)
        for sign in signals[:-1]:
            process.send_signal(sign)
            wait_for(lambda: httpx.get(f"{url}/ready", timeout=60).status_code == 503)
        process.send_signal(signals[-1])
        assert process.wait(60) == 0  # the work itself takes minutes


@pytest.fixture
def set_only(monkeypatch):
    """Makes these the only variables of the service."""

    def set_only(environment):
        for name in [name for name in os.environ if name.startswith("DARE_")]:
            monkeypatch.delenv(name)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return set_only


TAKEN = object()  # a port that is in use


@pytest.mark.parametrize(
    ("arguments", "environment", "word"),
    [
        ([], {"DARE_PORT": "x"}, "DARE_PORT"),
        ([], {"DARE_PORT": "80000"}, "DARE_PORT (--port) must be an integer >= 0 and <= 65535"),
        (["--port", "80000"], {}, "DARE_PORT (--port) must be an integer >= 0 and <= 65535"),
        (["--host", ""], {}, "DARE_HOST (--host) is empty"),
        ([], {"DARE_METHOD": "dre"}, "DARE_METHOD: unknown method"),
        ([], {"DARE_PARAMS": "alpha=1"}, "DARE_PARAMS must be a JSON object"),
        ([], {"DARE_PARAMS": "alpha=0.1&tua=0.2"}, "or a line, such as method=dare&alpha=0.5"),
        ([], {"DARE_PARAMS": "method=dare&tua=1"}, "serve: DARE_PARAMS: unknown parameter 'tua'. Did you mean tau"),
        ([], {"DARE_PARAMS": '{"aplha": 1}'}, "DARE_PARAMS: "),
        ([], {"DARE_PARAMS": '{"alpha": 2}'}, "DARE_PARAMS: alpha"),
        ([], {"DARE_TOKEN": " "}, "DARE_TOKEN"),
        ([], {"DARE_TRUSTED_PROXIES": "127.0.0.1, nginx"}, "such as 127.0.0.1,10.0.0.0/8, or *: 'nginx' is none"),
        ([], {"DARE_TRUSTED_PROXIES": "10.0.0.1/8"}, "'10.0.0.1/8' is none"),  # uvicorn would believe nobody
        (["--port", "-1"], {}, "DARE_PORT (--port) must be an integer >= 0 and <= 65535"),
        ([], {"DARE_MAX_GROUPS": "0"}, "DARE_MAX_GROUPS must be an integer >= 1"),
        ([], {"DARE_JOIN": "yes"}, "DARE_JOIN must be one of on, off"),
        (["--host", "256.1.1.1", "--port", "0"], {}, "cannot listen"),
        (["--host", "a" * 70 + ".b", "--port", "0"], {}, "cannot listen"),
        (["--port", TAKEN], {}, "cannot listen"),
    ],
)
def test_serve_says_what_is_wrong_with_a_setting(arguments, environment, word, set_only, ran):
    set_only(environment)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = str(taken.getsockname()[1])
        said = ran(["serve", *(port if argument is TAKEN else argument for argument in arguments)], 2).err
    assert word in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "events", "words"),
    [
        (
            {"DARE_HOST": "0.0.0.0", "DARE_MAXGROUPS": "5", "DARE_WORKERS": "2", "DARE_TEST_RUN": "x"},
            {"setting_ignored", "no_token"},
            ("the variable DARE_MAXGROUPS is not read. Did you mean DARE_MAX_GROUPS?", "DARE_WORKERS"),
        ),
        (
            {"DARE_TRUSTED_PROXIES": "127.0.0.1", "DARE_TOKN": "x"},
            {"setting_ignored", "no_token"},
            ("DARE_TRUSTED_PROXIES names a proxy",),
        ),
        ({"DARE_TOKEN": ""}, {"no_token"}, ("DARE_TOKEN is set but empty",)),
        ({"DARE_MAX_GROUPS": "5"}, set(), ()),
    ],
)
def test_settings_that_nobody_may_have_meant_are_warned_of_at_the_start(set_only, environment, events, words):
    set_only(environment)
    settings = from_environment(port=0)
    state = create_app(settings).state.dare
    with bind(settings) as listener:
        _warn(settings, listener, state)
    found = {w["event"]: w["why"] for w in state.runs.warnings}
    assert found.keys() == events
    assert all(word in " ".join(found.values()) for word in words)
    assert "DARE_TEST_RUN" not in str(found)
    assert found.get("no_token", ": set DARE_TOKEN").endswith(": set DARE_TOKEN")


def test_no_setting_of_the_service_looks_like_a_mistake_to_a_client():
    names = [f"DARE_{name.upper()}" for name in SETTINGS]
    assert misspelt_variables(["DARE_URL", "DARE_TOKEN"], names) == []
    assert misspelt_variables(["DARE_URL", "DARE_TOKEN"], ["DARE_ULR", "DARE_TOKENS", "OTHER"]) != []


def test_serve_without_its_extra_says_so():
    """A base install has the command and not its packages."""
    code = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"fastapi", "uvicorn", "pydantic"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
from dare_reward.cli import main
sys.exit(main(["serve"]))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert result.returncode == 2
    assert "pip install '.[service]'" in result.stderr
    assert "Traceback" not in result.stderr
