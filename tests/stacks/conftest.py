"""The modules of this folder for its tests, and a service that a file of them shares."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # servers.py, tiny.py and others, whose names no package claims

import serving


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """The tiny model that writes boxed digits, in a folder."""
    pytest.importorskip("transformers", reason="needs a stack (python scripts/test_stack.py trl)")
    import tiny

    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def service():
    with serving.service(DARE_DRAIN=0) as server:
        yield server
