import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
import serving

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py, whose name no package claims


@contextmanager
def started(**environment):
    """`dare-reward serve` as a process; yields (url, process)."""
    quiet = {"DARE_LOG": "off", **environment}
    with serving.service(end=signal.SIGKILL, stderr=subprocess.DEVNULL, **quiet) as process:
        yield process.url, process


@pytest.fixture(scope="session")
def live():
    with started() as (url, _):
        yield url


@pytest.fixture
def start_service():
    return started


@pytest.fixture(autouse=True)
def plugin_is_off(monkeypatch):
    """The executor switches the plugin on for its process; tests must not see each other's switch."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "off")
