"""Rerun the commands of the documentation: `python scripts/docs.py [--check]`.

A block under a line `<!-- output of: COMMAND -->` is what COMMAND prints, run by bash from the repository root with a
service on the address that the documents use. `--check` changes nothing and fails if a block differs.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"<!-- output of: (?P<command>.+?) -->\n(?P<fence>```\w*\n)(?P<body>.*?)(?P<end>\n?```)", re.DOTALL)
MARKDOWN = re.compile(r"<!-- table of: (?P<command>.+?) -->\n(?P<body>.*?)\n?<!-- end -->", re.DOTALL)
ADDRESS = "127.0.0.1:8000"
ENTRY = "import sys; from dare_reward.cli import main; sys.exit(main())"


@contextmanager
def service() -> Iterator[str]:
    """A service on a free port; yields host:port."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")} | {"DARE_LOG": "off"}
    command = [sys.executable, "-c", ENTRY, "serve", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        line = process.stdout.readline()
        try:
            yield line.strip().rpartition("//")[2]
        finally:
            process.terminate()


def output(command: str, address: str) -> str:
    """What `command` prints, with the documents' address in it."""
    folder = Path(sys.executable).parent
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DARE_")} | {
        "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
    }
    real = command.replace(ADDRESS, address)
    found = subprocess.run(
        ["bash", "-c", real],
        cwd=ROOT,
        env=environment,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return found.stdout.rstrip().replace(address, ADDRESS)


def renew(text: str, address: str) -> str:
    """`text` with every block as its command prints it now. Without curl, blocks of curl are left alone."""

    def fresh(match: re.Match[str]) -> str:
        command = match["command"]
        if command.startswith("curl") and shutil.which("curl") is None:
            return match.group()
        body = output(command, address)
        if "fence" in match.groupdict():
            return f"<!-- output of: {command} -->\n{match['fence']}{body}\n```"
        return f"<!-- table of: {command} -->\n{body}\n<!-- end -->"

    return MARKDOWN.sub(fresh, BLOCK.sub(fresh, text))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    files = [f.resolve() for f in arguments.files] or [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    stale = []
    with service() as address:
        for file in files:
            text = file.read_text(encoding="utf-8")
            if (fresh := renew(text, address)) != text:
                stale.append(file)
                if not arguments.check:
                    file.write_text(fresh, encoding="utf-8")
    for file in stale:
        print(f"{'stale' if arguments.check else 'renewed'}: {file.relative_to(ROOT)}")
    return int(arguments.check and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
