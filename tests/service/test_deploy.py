"""The files of deploy/: they agree with the service's own settings and metrics, and the programs that read them do."""

import itertools
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from serving import connect, free_port, live_server, request, wait_for
from serving import service as started
from tries import count

from dare_reward import estimate
from dare_reward.runs.log import CLOSING
from dare_service.metrics import EVENTS, GROUP_ERRORS, GroupHistogram
from dare_service.settings import Settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
HAPROXY = (DEPLOY / "haproxy.cfg").read_text()
PATH = {"PATH": os.environ["PATH"]}
NGINX = (DEPLOY / "nginx.conf").read_text()
UNIT = (DEPLOY / "dare-reward.service").read_text()
SOCKET = (DEPLOY / "dare-reward.socket").read_text()
MANIFEST = list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))
DEFAULTS = Settings()

ALERTS = DEPLOY / "prometheus-alerts.yml"
RULES = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
ROLLOUT = {"query": ["2+2? 4"], "prompts": ["2+2?"], "labels": [""]}
SECRET = {"DARE_TOKEN": "secret", "DARE_TRUSTED_PROXIES": "127.0.0.1"}


def needs(*names):
    return pytest.mark.skipif(not all(map(shutil.which, names)), reason=f"needs {' and '.join(names)}")


def deployment(name="dare-reward"):
    (found,) = [m for m in MANIFEST if m["kind"] == "Deployment" and m["metadata"]["name"] == name]
    return found


def pod():
    return deployment()["spec"]["template"]["spec"]


def of_unit(name, text=UNIT):
    """What the unit, or the socket, says under a name."""
    return re.search(rf"^{name}=(.+)$", text, re.MULTILINE)[1]


# Times and sizes


def test_the_unit_and_the_pod_wait_for_the_whole_orderly_stop():
    stop = DEFAULTS.drain + DEFAULTS.grace + CLOSING + 1.0  # the run log is written too
    assert float(of_unit("TimeoutStopSec")) > stop
    assert pod()["terminationGracePeriodSeconds"] > stop


def test_the_unit_leaves_the_run_log_to_the_service():
    """A bad setting ends it, and not in a loop; there is a connection for every rollout that waits."""
    assert (of_unit("KillMode"), of_unit("RestartPreventExitStatus")) == ("mixed", "2")
    assert int(of_unit("LimitNOFILE")) > DEFAULTS.backlog


def test_nginx_waits_longer_than_a_rollout_is_held():
    assert float(re.search(r"proxy_read_timeout (\d+)s;", NGINX)[1]) > DEFAULTS.join_hold
    assert int(re.search(r"client_max_body_size (\d+)m;", NGINX)[1]) << 20 == DEFAULTS.max_body_bytes
    assert int(re.search(r"backlog=(\d+);", NGINX)[1]) == DEFAULTS.backlog
    assert int(re.search(r"worker_connections (\d+);", NGINX)[1]) > 2 * DEFAULTS.backlog


def test_kubernetes_never_runs_two_processes():
    assert deployment()["spec"]["replicas"] == 1
    assert deployment()["spec"]["strategy"] == {"type": "Recreate"}


def test_kubernetes_probes_what_the_service_has(service):
    (container,) = pod()["containers"]
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert service.get(container[name]["httpGet"]["path"]).status_code == 200
    assert container["livenessProbe"]["httpGet"]["path"] == "/health"
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_systemd_holds_the_socket_that_nginx_asks():
    assert of_unit("ListenStream", SOCKET) in NGINX
    assert int(of_unit("Backlog", SOCKET)) == DEFAULTS.backlog
    assert "Requires=dare-reward.socket" in UNIT


# Programs


@needs("systemd-analyze")
def test_systemd_reads_the_unit(tmp_path):
    unit = tmp_path / "dare-reward.service"
    unit.write_text(UNIT.replace("/opt/dare-reward/bin/dare-reward", sys.executable))
    shutil.copy(DEPLOY / "dare-reward.socket", tmp_path)
    both = [str(unit), str(tmp_path / "dare-reward.socket")]
    done = subprocess.run(["systemd-analyze", "verify", *both], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def answers(address):
    """Whether somebody listens at a host and port, or at a path."""
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET if host else socket.AF_UNIX) as tried:
        return tried.connect_ex((host, int(port)) if host else address) == 0


@contextmanager
def running(command, ready, **options):
    """A program, once it is ready, until the end of the block."""
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True, **options) as process:
        try:
            wait_for(lambda: process.poll() is not None or ready())
            yield process
        finally:
            process.terminate()


@contextmanager
def nginx(folder, text):
    """nginx with this configuration, its ports and paths in the folder; yields a client."""
    certificate = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    certificate += ["-addext", "subjectAltName=DNS:localhost", "-keyout", "dare-reward.key", "-out", "dare-reward.crt"]
    subprocess.run(certificate, cwd=folder, check=True, capture_output=True)
    # nginx cannot choose a free port itself: a socket in the folder stands for the public one.
    text = text.replace("listen 443 ssl", f"listen unix:{folder}/socket ssl").replace("/etc/nginx", str(folder))
    text = text.replace("/run/nginx.pid", f"{folder}/pid").replace("/var/log/nginx", str(folder))
    text = text.replace("worker_processes auto;", f"worker_processes 1; daemon off; error_log {folder}/nginx.log;")
    for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"):
        text = text.replace("http {", f"http {{ {name}_temp_path {folder}/{name};", 1)
    (folder / "nginx.conf").write_text(text)
    command = ["nginx", "-e", "stderr", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    checked = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "[warn]" not in checked.stderr
    with running(command, lambda: answers(f"{folder}/socket")):
        context = ssl.create_default_context(cafile=str(folder / "dare-reward.crt"))
        transport = httpx.HTTPTransport(uds=f"{folder}/socket", verify=context)
        headers = {"Authorization": "Bearer secret"}
        with httpx.Client(transport=transport, base_url="https://localhost", headers=headers) as client:
            yield client


@pytest.fixture
def behind(tmp_path):
    """`behind(text)`: the service behind nginx as this configuration, such as deploy/nginx.conf, has it; a client."""
    with ExitStack() as running:

        def run(text=NGINX):
            url, _ = running.enter_context(live_server(**SECRET))
            return running.enter_context(nginx(tmp_path, text.replace("127.0.0.1:8000", url.removeprefix("http://"))))

        yield run


@needs("nginx", "openssl")
def test_rewards_through_nginx_are_those_of_the_service(behind, service, tmp_path):
    proxy = behind()
    body = {"groups": [{"rollouts": [{"answer": a, "mean_entropy": 0.1 * i}]} for i, a in enumerate("4458")]}
    through, plain = proxy.post("/reward", json=body), service.post(body)
    assert through.status_code == plain.status_code == 200
    assert [g["rewards"] for g in through.json()["groups"]] == [g["rewards"] for g in plain.json()["groups"]]

    refused = proxy.post("/reward", json=body, headers={"Authorization": "Bearer wrong"})
    assert refused.status_code == 401

    large = {"groups": [{"prompt": "x" * 250_000, "rollouts": [{"answer": "1", "mean_entropy": 0.1}]}] * 40}
    assert proxy.post("/reward", json=large).status_code == 200  # 10 MB: nginx itself would take 1

    def rollout(answer):
        sent = ROLLOUT | {"query": [f"2+2? The answer is {answer}."]}
        reply = proxy.post("/reward?group_size=4&run=nginx-000000001&token=secret", json=sent)
        assert reply.status_code == 200, reply.text
        return reply.json()["rewards"]

    with ThreadPoolExecutor(4) as pool:
        rewards = list(pool.map(rollout, "4454"))
    assert rewards[0] == rewards[1] == rewards[3] > rewards[2]
    assert "secret" not in (tmp_path / "dare-reward.log").read_text()


@needs("nginx")
def test_nginx_reads_what_the_pages_make_of_its_file(tmp_path):
    """The plain HTTP form of the operator's quickstart, and in it the block of operations.md."""
    quickstart, operations = (
        (DEPLOY.parent / "docs" / p).read_text() for p in ("quickstart/operator.md", "operations.md")
    )
    block = re.search(r"```nginx\n(.*?)```", operations, re.DOTALL)[1]
    command = re.search(r"^sed .*(?= deploy/nginx\.conf >)", quickstart, re.MULTILINE)[0]
    text = subprocess.run(f"{command} {DEPLOY}/nginx.conf", shell=True, capture_output=True, text=True).stdout
    assert "ssl" not in text
    text = text.replace("/run/nginx.pid", f"{tmp_path}/pid").replace("/var/log/nginx", str(tmp_path))
    text = re.sub(r"listen [^;]+;", f"listen unix:{tmp_path}/socket;", text)  # port 80 is root's, and -t binds it
    (tmp_path / "nginx.conf").write_text(text.replace("location / ", f"{block}\nlocation / "))
    done = subprocess.run(
        ["nginx", "-e", "stderr", "-t", "-c", tmp_path / "nginx.conf"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@needs("nginx", "openssl")
def test_no_log_of_nginx_has_the_token_while_the_service_is_away(tmp_path):
    with nginx(tmp_path, NGINX.replace("127.0.0.1:8000", f"unix:{tmp_path}/nobody")) as client:
        assert client.post("/reward?token=secret").status_code == 502
        assert client.post("/reward?token=secret", content=bytes(128 << 20 | 1)).status_code == 413
    logged = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert re.search(r'"POST /reward" 502 \d+ \S+ -$', logged, re.MULTILINE)
    assert "secret" not in logged


def overlay(name):
    """The services of a file of Compose, without its tags of what they are laid over."""
    text = re.sub(r"!(override|reset)\b", "", (DEPLOY / f"compose-{name}.yml").read_text())
    return yaml.safe_load(text)["services"]


# HAProxy


def test_haproxy_waits_longer_than_a_rollout_is_held():
    times = {name: float(value) for name, value in re.findall(r"timeout ([a-z-]+) (\d+)s", HAPROXY)}
    assert min(times["client"], times["server"], times["http-keep-alive"]) > DEFAULTS.join_hold
    assert times["http-request"] == DEFAULTS.head_timeout
    assert DEFAULTS.join_hold <= int(re.search(r"retries (\d+)", HAPROXY)[1]) < 180  # a second each, of OpenRLHF's try
    assert re.findall(r"(?:backlog|maxconn) (\d+)", HAPROXY) == [str(DEFAULTS.backlog)] * 2


def test_the_front_of_compose_and_of_kubernetes_find_the_service_where_it_is():
    compose, front = overlay("haproxy"), deployment("dare-reward-front")["spec"]["template"]["spec"]["containers"][0]
    environment = compose["reward"]["environment"]
    address = f"{environment['DARE_HOST']}:{environment['DARE_PORT']}"
    assert f"REWARD_SERVER-{address}" in HAPROXY
    assert compose["front"]["image"] == front["image"]
    services = {m["metadata"]["name"]: m["spec"] for m in MANIFEST if m["kind"] == "Service"}
    name, _, port = front["env"][0]["value"].partition(":")
    assert services[name]["selector"] == deployment()["spec"]["selector"]["matchLabels"]
    assert services[name]["ports"][0]["port"] == int(port)
    assert services["dare-reward"]["selector"] == deployment("dare-reward-front")["spec"]["selector"]["matchLabels"]
    assert {e["name"]: e.get("value") for e in pod()["containers"][0]["env"]}["DARE_DRAIN"] == "0"


@contextmanager
def haproxy(server):
    """HAProxy as deploy/haproxy.cfg has it; yields its address, and its log after the end."""
    address = f"127.0.0.1:{free_port()}"
    environment = {"REWARD_BIND": address, "REWARD_SERVER": server}
    command, log = ["haproxy", "-f", str(DEPLOY / "haproxy.cfg")], []
    checked = subprocess.run([*command, "-c"], env=environment | PATH, capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")
    options = {"env": environment | PATH, "stdout": subprocess.PIPE}
    with running([*command, "-db"], lambda: answers(address), **options) as process:
        try:
            yield f"http://{address}", log
        finally:
            process.terminate()
            log += process.stdout.read().splitlines()


@needs("haproxy")
def test_haproxy_holds_posts_while_the_service_is_away_and_tells_it_who_has_gone():
    port = free_port()
    body = {"groups": [{"rollouts": [{"answer": a} for a in "445"]}]}
    with haproxy(f"127.0.0.1:{port}") as (url, log), ThreadPoolExecutor(4) as pool:
        early = pool.submit(httpx.post, f"{url}/reward?method=ttrl&token=secret", json=body, timeout=60)
        time.sleep(1.5)  # nobody listens yet: a proxy that does not wait has answered by now
        assert not early.done()
        with started(port=port, DARE_DRAIN=0, **SECRET) as process:
            assert early.result().json()["groups"][0]["rewards"] == [1.0, 1.0, 0.0]
            target = f"{url}/reward?group_size=2&run=r-000000001&method=ttrl&token=secret"
            waiting = partial(count, process.url, "dare_join_waiting")
            with connect(url, request(target.removeprefix(url), json.dumps(ROLLOUT))):
                wait_for(lambda: waiting() == 1)
            wait_for(lambda: waiting() == 0)
            both = [pool.submit(httpx.post, target, json=ROLLOUT, timeout=60) for _ in range(2)]
            assert [b.result().json()["rewards"] for b in both] == [[1.0], [1.0]]
    assert any("/reward" in line for line in log)
    assert not any("secret" in line for line in log)


@needs("nginx", "openssl")
def test_two_replicas_behind_nginx_share_grouped_posts_and_refuse_single_rollouts(tmp_path):
    services = overlay("two")
    shell, replicas = services["proxy"]["command"][2], services["reward"]["deploy"]["replicas"]
    with ExitStack() as started:
        environment = {**services["reward"]["environment"], "DARE_TOKEN": "secret"}
        urls = [started.enter_context(live_server(**environment))[0] for _ in range(replicas)]
        written = subprocess.run(
            shell.partition(" > ")[0].replace("/deploy", str(DEPLOY)), shell=True, capture_output=True
        )
        assert b"server reward:8000;" in written.stdout
        both = "; server ".join(url.removeprefix("http://") for url in urls)  # what the name stands for
        client = started.enter_context(nginx(tmp_path, written.stdout.decode().replace("reward:8000", both)))
        body = {"groups": [{"rollouts": [{"answer": a} for a in "445"]}]}
        replies = [client.post("/v1/reward?method=ttrl", json=body).json()["groups"] for _ in range(4)]
        assert replies == [replies[0]] * 4
        counted = 'dare_requests_total{code="200",route="/v1/reward"} 2.0'
        assert all(counted in httpx.get(f"{url}/metrics").text for url in urls)
        for path in ("/get_reward", "/reward"):
            refused = client.post(f"{path}?group_size=2&run=r", json=ROLLOUT)
            assert refused.status_code == 503
            assert "DARE_JOIN=off" in refused.json()["detail"]


@needs("nginx", "openssl")
@pytest.mark.parametrize("token", ["secret", "wrong"])
def test_behind_an_ingress_no_client_gets_another_s_rewards(behind, token):
    """Ingress controllers hand `Upgrade` on and keep the connections to the service."""
    handed_on = "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $connection_upgrade;"
    mapped = "map $http_upgrade $connection_upgrade { default upgrade; '' ''; } upstream reward {"
    text = NGINX.replace('proxy_set_header Connection "";', handed_on).replace("upstream reward {", mapped)
    text = re.sub(r"proxy_request_buffering off;.*", "client_body_buffer_size 1m;", text)  # its default: buffered
    held = b'{"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}]}'
    complete = request("/reward", held, "Authorization: Bearer secret")
    swallowing = b"POST /reward?method=rent HTTP/1.1\r\nX-Swallow: "  # the victim's own head completes it
    asks = {"Connection": "Upgrade", "Upgrade": "x", "Content-Type": "application/json"}
    honest = {"groups": [{"rollouts": [{"answer": a, "mean_entropy": 0.1} for a in "122"]}]}
    client = behind(text)
    for fill, inner in itertools.product((100, 45_000, 50_000, 65_000), (swallowing, complete)):
        body = b"\r\n" * fill + inner
        attacker = client.post("/reward", content=body, headers={**asks, "Authorization": f"Bearer {token}"})
        assert attacker.status_code == {"secret": 400, "wrong": 401}[token], attacker.text
        name = f"victim-{fill}"
        victim = client.post("/reward?method=ttrl", json=honest, headers={"X-Request-Id": name})
        assert (victim.status_code, victim.headers["x-request-id"]) == (200, name)
        assert victim.json()["groups"][0]["rewards"] == [0.0, 1.0, 1.0]


# Metrics


def expressions():
    panels = json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]
    found = {f"alert {rule['alert']}": rule["expr"] for rule in RULES}
    return found | {f"panel {p['title']} {t['refId']}": t["expr"] for p in panels for t in p["targets"]}


@pytest.fixture(scope="module")
def exported(service):
    """The labels of each metric that the service knows, whether it has counted anything or not."""
    found = {}
    metrics = service.app.state.dare.metrics
    for metric in metrics.registry._collector_to_names:
        kinds = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",)}
        of_groups = isinstance(metric, GroupHistogram)
        name, labels = (metric.name, ()) if of_groups else (metric._name, metric._labelnames)
        for suffix in kinds.get("histogram" if of_groups else metric._type, ("",)):
            found[name + suffix] = set(labels) | ({"le"} if suffix == "_bucket" else set())
    return found


def test_what_is_exported_is_what_prometheus_reads(exported, service):
    text = service.get("/metrics").text
    seen = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
    assert {name for name in seen if name.startswith("dare_") and not name.endswith("_created")} <= set(exported)


@pytest.mark.parametrize("name", expressions())
def test_alerts_and_panels_use_metrics_and_labels_that_the_service_exports(name, exported):
    expression = expressions()[name]
    metrics = set(re.findall(r"\bdare_\w+", expression))
    assert metrics
    assert metrics <= set(exported)
    labels = {label for inner in re.findall(r"by \(([^)]*)\)", expression) for label in re.split(r",\s*", inner)}
    labels |= set(re.findall(r"\bdare_\w+\{(\w+)=", expression))
    for metric in metrics:
        assert labels <= exported[metric], f"{metric} has {sorted(exported[metric])}"


def test_every_metric_is_in_the_table_with_its_labels(exported):
    page = (DEPLOY.parent / "docs" / "operations.md").read_text()
    table = page.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    found = re.findall(r"`(dare_\w+)(?:{(.*?)})?`", table)
    listed = {name: set(filter(None, labels.split(","))) for name, labels in found}
    families = {re.sub(r"_(bucket|sum|count)$", "", name): labels - {"le"} for name, labels in exported.items()}
    assert listed == families


def test_every_metric_is_in_a_panel(exported):
    """Except sizes of bodies and what the log says better."""
    drawn = set(re.findall(r"\bdare_\w+", " ".join(expressions().values())))
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in exported}
    missing = {f for f in families if not any(d.startswith(f) for d in drawn)}
    assert missing == {"dare_request_bytes", "dare_ignored_labels_total"}


def ready(address):
    """Whether Prometheus answers queries: its port is open before, and sends 503."""
    return answers(address) and httpx.get(f"http://{address}/-/ready", timeout=60).status_code == 200


@contextmanager
def prometheus(folder, target):
    """A Prometheus that scrapes the target every second; yields what asks it."""
    address = f"127.0.0.1:{free_port()}"
    scrape = {"job_name": "dare-reward", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "scrape_configs": [scrape]}))
    places = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]

    def ask(expression):
        reply = httpx.get(f"http://{address}/api/v1/query", params={"query": expression}, timeout=60).json()
        assert reply["status"] == "success", f"{expression}: {reply}"
        return reply["data"]["result"]

    with running(["prometheus", *places, f"--web.listen-address={address}"], lambda: ready(address)):
        yield ask


@needs("prometheus")
def test_every_query_of_the_dashboard_has_an_answer_from_a_prometheus_that_scrapes_the_service(tmp_path):
    panels = {name: text for name, text in expressions().items() if name.startswith("panel")}
    missing = {name: text.replace("$__rate_interval", "1m") for name, text in panels.items()}
    assert not [name for name, text in missing.items() if "$" in text]
    body = {"groups": [{"rollouts": [{"answer": a, "mean_entropy": 0.1} for a in "445"]}]}
    with live_server() as (url, _), prometheus(tmp_path, url.removeprefix("http://")) as ask:
        scrapes = "sum(count_over_time(dare_build_info[1h]))"
        wait_for(lambda: ask(scrapes) and float(ask(scrapes)[0]["value"][1]) >= 2)  # what begins later has no rate
        for path, content in (("/reward", body), ("/get_reward?group_size=1&run=r-000000001", ROLLOUT)):
            assert httpx.post(url + path, json=content, timeout=60).status_code == 200

        def answered():
            for name in [n for n, text in missing.items() if ask(text)]:
                del missing[name]
            return not missing

        wait_for(answered, about=missing)
        assert len(ask('up{job="dare-reward"}')) == 1


UP = 'up{job="dare-reward",instance="%s"}'
# The series of each alert's cause as it happens once, after half an hour at what the service exports from its start.
CAUSES = {
    "DareRewardDown": [(UP % "b", "1x30 0x30")],
    "DareServerErrors": [('dare_requests_total{route="/reward",code="500"}', "0x30 1x30")],
    "DareRequestsRefused": [('dare_rejected_total{reason="token"}', "0x30 15x30")],
    "DareGroupsNotScored": [('dare_group_errors_total{code="missing_entropy"}', "0x30 3x30")],
    "DareGroupsCloseEarly": [('dare_join_groups_total{end="neutral"}', "0x30 4x30")],
    "DareJoinMemory": [("dare_join_bytes", "0x30 240000000x30")],
    "DareBodiesInFlight": [("dare_inflight_bytes", "0x30 500000000x30")],
    "DareWarnings": [('dare_warnings_total{event="prompt_repeated"}', "0x30 1x30")],
    "DareMajorityCollapse": [("dare_majority_ratio_sum", "0+99x60"), ("dare_majority_ratio_count", "0+100x60")],
}
HEALTHY = {
    "dare_build_info": "1x60",
    UP % "a": "1x60",
    UP % "b": "1x60",
    'dare_requests_total{route="/reward",code="200"}': "0+60x60",
    "dare_majority_ratio_sum": "0+60x60",
    "dare_majority_ratio_count": "0+100x60",
    'dare_rejected_total{reason="held"}': "0+30x60",
    'dare_rejected_total{reason="draining"}': "0+30x60",
    **{series: "0x60" for (series, _), *_ in CAUSES.values() if not series.startswith(("up", "dare_majority"))},
}


@needs("promtool")
def test_each_alert_fires_on_its_cause_and_none_on_an_hour_of_healthy_traffic(tmp_path, exported):
    """Which `promtool check rules` would say no more of."""
    assert {r["alert"] for r in RULES} == set(CAUSES)
    minutes = [f"{m}m" for m in range(5, 60, 5)]
    cases = []
    for cause in (None, *CAUSES):
        series = HEALTHY | dict(CAUSES.get(cause, []))
        quiet = [{"eval_time": m, "alertname": a, "exp_alerts": []} for m in minutes for a in CAUSES if a != cause]
        fires = [{"expr": f'sum(max_over_time(ALERTS{{alertname="{cause}",alertstate="firing"}}[1h]) > bool 0) > bool 0',
                  "eval_time": "60m", "exp_samples": [{"labels": "{}", "value": 1}]}] if cause else []  # fmt: skip
        given = [{"series": name, "values": values} for name, values in series.items()]
        told = {"alert_rule_test": quiet, "promql_expr_test": fires}
        cases.append({"interval": "1m", "input_series": given, **told})
    whole = {"rule_files": [str(ALERTS)], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(whole))
    done = subprocess.run(["promtool", "test", "rules", str(tmp_path / "tests.yml")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_series_of_what_happens_once_are_exported_from_the_start(make_service):
    text = make_service().get("/metrics").text
    for series, _ in (cause for causes in CAUSES.values() for cause in causes):
        name, _, labels = series.rstrip("}").partition("{")
        if name.startswith("dare_") and labels:
            pairs = set(labels.split(","))
            lines = [x for x in text.splitlines() if x.startswith(name + "{")]
            assert any(pairs <= set(x.partition("{")[2].partition("}")[0].split(",")) for x in lines), series


def test_every_warning_event_is_known_before_it_happens():
    source = "".join(f.read_text() for d in ("service", "client/dare_reward/runs") for f in (ROOT / d).rglob("*.py"))
    found = set(re.findall(r"warn\(\s*(?:(?:[\w.]+|\"\"),\s*)?\"(\w+)\"", source))
    assert found | {"kind_conflict", "options_conflict"} == set(EVENTS)  # two refusals of gather


def test_every_code_of_a_group_that_cannot_be_scored_is_known_before_it_happens():
    rollout = {"answer": "1", "correct": True}
    codes = {
        estimate([{"rollouts": [rollout | more]} | group], method=method, **params).groups[0].error.code
        for method, params, more, group in (
            ("dare", {}, {}, {}),
            ("dare", {"certainty": "answer_probability"}, {}, {}),
            ("scrl", {}, {}, {}),
            ("deepconf", {}, {"topk_logprobs": [[-0.1]]}, {}),
            ("gt", {}, {"correct": None}, {"label_conflict": True}),
        )
    }
    assert codes == set(GROUP_ERRORS)


def test_the_alerts_thresholds_are_below_the_limits_they_warn_of():
    rules = {r["alert"]: r["expr"] for r in RULES}
    for alert, limit in (("DareJoinMemory", DEFAULTS.join_memory), ("DareBodiesInFlight", DEFAULTS.max_inflight_bytes)):
        assert 0.8 * limit < float(rules[alert].rpartition("> ")[2]) < limit
