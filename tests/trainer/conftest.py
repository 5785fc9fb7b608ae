import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py, whose name no package claims


@contextmanager
def serving(port=0, **environment):
    """`dare-reward serve` as a process; yields (url, process)."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")} | {
        k: str(v) for k, v in environment.items()
    }
    command = [sys.executable, "-m", "dare_reward.cli", "serve", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from dare_reward.cli import main; sys.exit(main())", *command[3:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**env, "DARE_LOG": "off"},
    )
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line).group(), process
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(scope="session")
def live():
    with serving() as (url, _):
        yield url


@pytest.fixture
def start_service():
    return serving


@pytest.fixture(autouse=True)
def plugin_is_off(monkeypatch):
    """The executor switches the plugin on for its process; tests must not see each other's switch."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "off")
