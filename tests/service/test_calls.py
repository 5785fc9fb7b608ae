"""No request calls more functions of this project than tests/data/calls.json says: see tests/calls.py."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
TABLE = json.loads((TESTS / "data" / "calls.json").read_text())


@pytest.fixture(scope="module")
def counts():
    command = [sys.executable, str(TESTS / "calls.py"), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@pytest.mark.parametrize("request_", TABLE["requests"])
def test_a_request_calls_no_more_than_the_table_says(counts, request_):
    now, allowed = counts[request_], TABLE["requests"][request_]
    assert now["calls"] <= allowed["calls"], "more calls: python tests/calls.py --write --why '...'"
    assert now["calls"] > 20


def test_the_table_names_each_request_and_gives_a_reason_for_each_rise(counts):
    assert list(TABLE["requests"]) == list(counts)
    assert all(reason.partition(": ")[2] for reason in TABLE["raised"])
