"""Ray Serve: replicas and shards as processes, killed while thousands of parts of a step wait for each other."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
import pytest
import yaml
from serving import free_port, service
from tries import count, descendants, disturbed, processes, step

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
GROUPS, SIZE, REPLICAS = 12, 8, 3
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def undisturbed():
    with service() as one:
        return asyncio.run(step(one.url, GROUPS, SIZE))


@pytest.fixture(scope="module")
def ray_serve():
    with service("--replicas", str(REPLICAS)) as served:
        processes(served.url, REPLICAS)
        yield served


def full(url):
    return count(url, 'dare_join_groups_total{reason="full"')


def test_a_step_over_replicas_is_that_of_one_process(ray_serve, undisturbed):
    before = full(ray_serve.url)
    assert asyncio.run(step(ray_serve.url, GROUPS, SIZE, run="plain")) == undisturbed
    assert full(ray_serve.url) - before == GROUPS


@pytest.mark.parametrize("kind", ["replicas", "shards"])
def test_a_process_dies_while_rollouts_wait(ray_serve, undisturbed, kind):
    victim = processes(ray_serve.url, REPLICAS)[kind][0]
    found = asyncio.run(disturbed(ray_serve.url, GROUPS, SIZE, lambda: os.kill(victim, signal.SIGKILL), run=kind))
    assert found == undisturbed
    processes(ray_serve.url, REPLICAS)  # all are there again


def test_one_machine_listens_on_loopback_but_for_a_port_of_each_replica(ray_serve):
    """Serve's replica binds its port for other replicas to [::], and no option says otherwise."""
    pids = [ray_serve.pid, *descendants(ray_serve.pid)]
    sockets = set()
    for file in (entry for pid in pids for entry in Path(f"/proc/{pid}/fd").glob("*")):
        with contextlib.suppress(OSError):
            sockets.add(file.readlink().name)
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    listening = [row[1].rpartition(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]
    loopback = ("0100007F", "0" * 24 + "01000000")  # 127.0.0.1, also as an IPv6 address, and ::1
    assert len(listening) > 10
    assert len([address for address in listening if not address.endswith(loopback)]) <= REPLICAS, listening


def test_over_two_nodes(undisturbed):
    """Two raylets on one host, and the application as `serve deploy` builds it."""
    import ray
    from ray import serve
    from ray.cluster_utils import Cluster

    from dare_service.replicas.deploy import application

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        serve.start(http_options={"port": 18765})
        serve.run(application({"replicas": 2, "shards": 2, "settings": {"log": "error"}}))
        url = "http://127.0.0.1:18765"
        processes(url, 2)
        assert asyncio.run(step(url, GROUPS, SIZE)) == undisturbed
    finally:
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture
def own_place(monkeypatch):
    """`ray start` leaves the cluster's address behind, and every later `ray.init` of the machine would look for it."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as place:
        monkeypatch.setenv("RAY_TMPDIR", place)
        yield


@contextlib.contextmanager
def started(*command):
    """A command beside this Python, until SIGTERM ends it."""
    path = Path(sys.executable).with_name(command[0])
    env = {k: v for k, v in os.environ.items() if not k.startswith("DARE_") and (k == "RAY_TMPDIR" or k[:4] != "RAY_")}
    env |= {"DARE_LOG": "error", "RAY_AUTH_MODE": "disabled"}  # this cluster lives on loopback, for this test
    with subprocess.Popen([path, *command[1:]], env=env) as process:
        try:
            yield process
        finally:
            process.terminate()


def answers(url):
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False


def until(condition, process):
    while not condition():
        assert process.poll() is None
        time.sleep(0.5)


@pytest.mark.usefixtures("own_place")
@pytest.mark.parametrize("how", ["run", "deploy"])
def test_the_file_of_the_repository(how, tmp_path, undisturbed):
    """As docs/deployment.md says it: on a Ray that `serve run` starts, and on a cluster that is there."""
    config = yaml.safe_load((ROOT / "examples" / "ray_serve.yaml").read_text())
    port = config["http_options"]["port"] = free_port()
    file = tmp_path / "ray_serve.yaml"
    file.write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{port}"
    with contextlib.ExitStack() as running:
        if how == "run":
            ray = running.enter_context(started("serve", "run", str(file)))
        else:
            gcs, dashboard = free_port(), free_port()
            ports = [f"--port={gcs}", f"--dashboard-port={dashboard}", "--dashboard-agent-listen-port=0"]
            ray = running.enter_context(started("ray", "start", "--head", "--block", "--num-cpus=2", *ports))
            until(lambda: answers(f"http://127.0.0.1:{dashboard}/api/version"), ray)
            with started("serve", "deploy", str(file), "--address", f"http://127.0.0.1:{dashboard}") as deployed:
                assert deployed.wait(120) == 0
        until(lambda: answers(f"{url}/ready"), ray)
        processes(url, config["applications"][0]["args"]["replicas"])
        assert asyncio.run(step(url, GROUPS, SIZE)) == undisturbed
        body = {"groups": [{"rollouts": [{"answer": a} for a in "445"]}]}
        assert httpx.post(f"{url}/v1/reward?method=ttrl", json=body).json()["groups"][0]["rewards"] == [1, 1, 0]


def test_another_version_of_ray_is_refused(monkeypatch):
    import ray

    from dare_service.replicas.deploy import serve_here
    from dare_service.settings import Settings, SettingsError

    def init(*_, **__):
        raise RuntimeError("Version mismatch: The cluster was started with: Ray: 1.0")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(SettingsError, match="started or joined: Version mismatch"):
        serve_here(Settings(port=0), 2, "local")
