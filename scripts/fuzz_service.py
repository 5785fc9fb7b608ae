"""Fuzz the running service from its own openapi.json: `python3 scripts/fuzz_service.py [--examples N] [--seed S]`.

Starts the service on a free port of loopback and lets schemathesis send requests, valid and broken ones, to every
route. A server error, a reply that openapi.json does not describe, broken data that is accepted or a refusal that is no
small problem document ends it with exit code 1. Other options go to `schemathesis run`. The tests run 5 examples a
route with a fixed seed; use 2000 and no seed after a change of the routes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys

import _venv
from _venv import ROOT, say

# Nobody sends the siblings of a rollout that a fuzzer makes up: it is sent away at once.
HOLDS = {"DARE_JOIN_HOLD": "0.2"}
CONFIG = ROOT / "scripts" / "fuzz_service.toml"


def main() -> int:
    """Serve, fuzz, stop; the exit code of schemathesis, or 1 if the service did not stop in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--examples", type=int, default=1000, help="examples a route (default 1000)")
    parser.add_argument("--seed", type=int, help="always the same examples")
    arguments, rest = parser.parse_known_args()
    if importlib.util.find_spec("schemathesis") is None:
        _venv.enter("test", ["-e .[service,cli]"], groups=["test", "lint"])
    env = {**{k: v for k, v in os.environ.items() if not k.startswith("DARE_")}, "DARE_LOG": "error", **HOLDS}
    serve = [sys.executable, "-c", "import sys; from dare_reward.cli import main; sys.exit(main())", "serve"]
    with subprocess.Popen([*serve, "--port", "0"], env=env, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline() if server.stdout else ""
            url = re.search(r"http://\S+", line)
            if url is None:
                say("error: the service did not start")
                return 1
            command = [sys.executable, "-m", "schemathesis.cli", f"--config-file={CONFIG}", "run"]
            command += [f"{url.group()}/openapi.json", "--checks=all", "--mode=all", "--no-color"]
            command += ["--phases=examples,coverage,fuzzing", f"--max-examples={arguments.examples}"]
            command += [] if arguments.seed is None else [f"--seed={arguments.seed}"]
            fuzzed = subprocess.run([*command, *rest], cwd=ROOT, env=env, check=False).returncode
        finally:
            server.terminate()
    stopped = server.wait()
    say(f"schemathesis ended with {fuzzed}, the service with {stopped}")
    return fuzzed or int(stopped != 0)


if __name__ == "__main__":
    sys.exit(main())
