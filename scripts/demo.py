"""Install the service, start it, score real rollouts through it: `python3 scripts/demo.py [--keep]`.

Makes its own virtual environment (.venv-demo), starts the service on a free loopback port and sends it a shipped file of
grouped rollouts over HTTP. It prints the tables of three groups (answers with votes, uncertainty, probability, bonus,
pruning and reward), whether entropy beats the vote by the file's labels, and where the page of all groups is. `--keep`
leaves the service running until Ctrl-C, with its live page; `--port N` chooses its port.
"""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

import _venv  # ends a Python that is too old

SAMPLE = Path("examples/qwen_math_m16.jsonl")
PAGE = Path("build/demo.html")
SHOWN = 3  # groups whose tables are printed
LEGEND = (
    "u: the entropy of an answer; p-hat: its weighted share of the votes; p: the same among the answers that are kept"
)


def main() -> int:
    """0 if every group was scored."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--keep", action="store_true", help="leave the service running until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="port of the service (default: a free one)")
    parser.add_argument("file", nargs="?", default=str(SAMPLE), help=f"groups to score (default: {SAMPLE})")
    arguments = parser.parse_args()
    python = _venv.ensure("demo", ["-e .[service,cli]"])
    command = str(python.with_name("dare-reward"))
    server = subprocess.Popen(
        [command, "serve", "--port", str(arguments.port)],
        cwd=_venv.ROOT,
        env={**os.environ, "DARE_LOG": "error"},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        line = server.stdout.readline().strip() if server.stdout else ""
        if not line:
            _venv.fail("the service did not start; its message stands above.")
        url = line.split()[-1]
        _venv.say(f"{line}; scoring {arguments.file} through POST {url}/v1/reward\n")
        score = [command, "score", arguments.file, "--url", url, "--table"]
        result = subprocess.run(score, check=False, cwd=_venv.ROOT, stdout=subprocess.PIPE, text=True)
        tables = result.stdout.strip().split("\n\n")
        _venv.say(
            "\n\n".join(tables[:SHOWN]) + f"\n\n{LEGEND}\n{min(SHOWN, len(tables))} of {len(tables)} groups are shown."
        )
        _venv.say(verdict(command, arguments.file))
        _venv.say(page(command, arguments.file))
        if arguments.keep:
            _venv.say(f"The service runs until Ctrl-C. Its live page: {url}   its documentation: {url}/docs")
            server.wait()
        else:
            _venv.say("The service has done its work and stops. To try it yourself: python3 scripts/demo.py --keep")
    except KeyboardInterrupt:
        return 0
    else:
        return result.returncode
    finally:
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
        server.wait()
        if server.stdout:
            server.stdout.close()


def verdict(command: str, file: str) -> str:
    """What `calibrate` says of the file against the vote; a file without labels has no verdict."""
    said = subprocess.run([command, "calibrate", file], check=False, cwd=_venv.ROOT, capture_output=True, text=True)
    headline, _, rest = said.stdout.partition("\n")
    return f"By the labels of this file: {headline}. {rest.partition(chr(10))[0]}\n" if said.stdout else ""


def page(command: str, file: str) -> str:
    """Where the page is on which each group can be read."""
    (_venv.ROOT / PAGE).parent.mkdir(exist_ok=True)
    report = [command, "report", file, "-o", str(PAGE), "--force"]
    written = subprocess.run(report, check=False, cwd=_venv.ROOT, capture_output=True).returncode == 0
    return f"Read every group in a browser: {PAGE}" if written else ""


if __name__ == "__main__":
    sys.exit(main())
