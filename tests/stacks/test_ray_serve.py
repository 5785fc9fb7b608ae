"""The service on Ray Serve: one of two replicas dies under load, no group is lost, and single rollouts are refused."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import yaml
from serving import free_port, wait_for

from dare_reward import AsyncClient, estimate

pytestmark = [pytest.mark.ray, pytest.mark.filterwarnings("ignore")]  # Ray's own warnings
ROOT = Path(__file__).parents[2]
CLIENTS, POSTS = 8, 150


def below(pid):
    """All processes that descend from it."""
    found = [pid]
    for one in found:
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found += map(int, children.read_text().split())
    return found[1:]


def replicas(pid):
    return [p for p in below(pid) if b"ServeReplica" in Path(f"/proc/{p}/cmdline").read_bytes()]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """What deploy/ray_serve.yaml serves, at a free port."""
    folder = tmp_path_factory.mktemp("ray")
    config = yaml.safe_load((ROOT / "deploy" / "ray_serve.yaml").read_text())
    config["http_options"]["port"] = port = free_port()
    (folder / "serve.yaml").write_text(yaml.safe_dump(config))
    environment = {
        **os.environ, "RAY_ADDRESS": "local", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0",
    }  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with (folder / "log").open("w") as log:
        command = [str(Path(sys.executable).parent / "serve"), "run", str(folder / "serve.yaml")]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)

        def ready():
            assert process.poll() is None, (folder / "log").read_text()[-3000:]
            with contextlib.suppress(httpx.TransportError):
                return httpx.get(f"{url}/ready", timeout=10).status_code == 200

        try:
            wait_for(ready, folder / "log", seconds=240)
            yield url, process.pid
        finally:
            every = below(process.pid)
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            for pid in [*every, process.pid]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def group(i):
    return [{"rollouts": [{"answer": str((i + k) % 3), "mean_entropy": 0.1 * (k + 1) + 0.001 * i} for k in range(8)]}]


def test_a_replica_that_dies_under_load_costs_no_reward(served):
    url, pid = served
    seen = []

    async def client(k):
        async with AsyncClient(url) as asking:
            for i in range(POSTS):
                wanted = [list(g.rewards) for g in estimate(group(1000 * k + i)).groups]
                seen.append(await asking.rewards(group(1000 * k + i)) == wanted)

    async def main():
        load = asyncio.gather(*map(client, range(CLIENTS)))
        while len(seen) < CLIENTS * POSTS // 5:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        os.kill(replicas(pid)[0], signal.SIGKILL)
        await load

    asyncio.run(main())
    assert seen == [True] * CLIENTS * POSTS


def test_single_rollouts_are_refused_with_the_reason(served):
    body = {"query": ["2+2? 4"], "prompts": ["2+2?"], "labels": [""]}
    reply = httpx.post(f"{served[0]}/reward?group_size=2&run=r-000000001", json=body, timeout=60)
    assert reply.status_code == 503
    assert "DARE_JOIN=off" in reply.json()["detail"]
