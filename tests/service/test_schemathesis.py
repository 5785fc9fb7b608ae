"""Requests made from openapi.json, valid and broken, against the running service: each reply is one that it describes."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "fuzz_service.py"


def test_every_reply_is_as_described():
    """The same few examples each time, of one of two equal routes; the script, without a seed, is for the long runs."""
    command = [sys.executable, str(SCRIPT), "--examples", "5", "--seed", "1", "--exclude-path=/v1/reward"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert counts, done.stdout
    assert int(counts[1]) == int(counts[2]) > 300
