import sys
from pathlib import Path

import pytest
from serving import Live

sys.path.insert(0, str(Path(__file__).parent))  # fakes.py, whose name no package claims
import fakes


@pytest.fixture(scope="session")
def live():
    with Live() as service:
        yield service.url


@pytest.fixture
def make(live, monkeypatch):
    """OpenRLHF's executor of a service; entropies are on, as `switch_on` leaves them."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    return lambda query="", *urls: fakes.patched(*(f"{url}/reward?{query}" for url in urls or (live,)))


@pytest.fixture(autouse=True)
def plugin_is_off(monkeypatch):
    """The executor switches the plugin on for its process; tests must not see each other's switch."""
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "off")
