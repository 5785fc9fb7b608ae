import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from serving import live_server

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py, whose name no package claims


started = partial(live_server, stderr=subprocess.DEVNULL, DARE_LOG="off")  # yields (url, process)


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
