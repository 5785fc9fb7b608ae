"""What the benchmarks share: a service of its own process, its CPU, and a table."""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

RUNS = 5
TESTS = Path(__file__).parents[1]


class Server:
    def __init__(self, process, url):
        self.pid, self.url = process.pid, url

    def children(self):
        """The ids of the processes that it has started."""
        return [int(c) for f in Path(f"/proc/{self.pid}/task").glob("*/children") for c in f.read_text().split()]

    def cpu(self, *, children=False):
        """Seconds on a processor, over all threads; with `children`, those of the processes that it has started too."""
        pids = [self.pid, *(self.children() if children else ())]
        files = [file for pid in pids for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def memory(self, name="VmRSS"):
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{name}:\s+(\d+)", status).group(1)) * 1024

    def cost(self, content, headers, route="/v1/reward?detail=rewards", runs=RUNS):
        """Best server CPU of one request, in milliseconds."""
        best = float("inf")
        with httpx.Client(timeout=60) as client:
            for _ in range(runs):
                before = self.cpu()
                response = client.post(self.url + route, content=content, headers=headers)
                assert response.status_code == 200, response.text[:300]
                best = min(best, self.cpu() - before)
        return best * 1e3

    def probe(self, runs=200):
        """CPU of one GET /health, in milliseconds."""
        with httpx.Client() as client:
            client.get(self.url + "/health")
            before = self.cpu()
            for _ in range(runs):
                client.get(self.url + "/health")
            return (self.cpu() - before) / runs * 1e3


@contextmanager
def started(command):
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "DARE_LOG": "off", **MALLOC}
    )
    url = f"http://127.0.0.1:{command[-1]}"
    try:
        for _ in range(300):
            try:
                httpx.get(url + "/health")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield Server(process, url)
    finally:
        process.terminate()
        process.wait()


# As in the image: without both, a large buffer is given back to the kernel and faulted in again at every request.
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1073741824", "MALLOC_TRIM_THRESHOLD_": "1073741824"}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return str(s.getsockname()[1])


@pytest.fixture(scope="module")
def server():
    code = "import sys; from dare_reward.cli import main; sys.exit(main(sys.argv[1:]))"
    with started([sys.executable, "-c", code, "serve", "--port", free_port()]) as found:
        yield found


@pytest.fixture(scope="module")
def report():
    lines = []
    yield lambda *cells: lines.append(cells)
    print("\n\n| what | measured | floor in the same run | goal |\n|---|---|---|---|")
    for cells in lines:
        print("| " + " | ".join(cells) + " |")


@pytest.fixture(scope="session")
def start_server():
    return started


@pytest.fixture(scope="session")
def inputs_of():
    """`inputs_of("service/test_refusals.py")`: a file of the suite, for the inputs that stand in it."""

    def load(name):
        spec = importlib.util.spec_from_file_location(Path(name).stem, TESTS / name)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="session")
def unused_port():
    return free_port
