"""Run the contract tests against released OpenRLHF clients, on a machine without a GPU.

    python scripts/test_openrlhf_contract.py [--venv DIR] [--releases 0.9.10,0.10.4,0.11.2] [pytest's own arguments]

Makes a virtual environment with this package, aiohttp and torch (CPU is enough), downloads each release's wheel without
its dependencies, unpacks it, and runs `pytest -m openrlhf` once per release. What is there already is used again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RELEASES = "0.9.10,0.10.4,0.11.2"
NEEDS = ("torch==2.13.0", "aiohttp", "pytest", "anyio", "hypothesis", "packaging")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-openrlhf")
    parser.add_argument("--releases", default=RELEASES)
    given, rest = parser.parse_known_args()
    python = environment(given.venv)
    failed = [r for r in given.releases.split(",") if run(python, tree(python, given.venv, r), rest) != 0]
    print(f"failed: {', '.join(failed)}" if failed else f"all pass: {given.releases}")
    return 1 if failed else 0


def environment(place: Path) -> Path:
    """The environment's interpreter."""
    python = place / "bin/python"
    if not python.exists():
        venv.create(place, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *NEEDS, "-e", f"{ROOT}[service]"], check=True)
    return python


def tree(python: Path, place: Path, release: str) -> Path:
    """The directory that holds the release's `openrlhf` package: wheels keep it under `*.data/purelib`."""
    target = place / "releases" / release
    if not target.exists():
        pip = [
            str(python),
            "-m",
            "pip",
            "download",
            "-q",
            "--no-deps",
            f"openrlhf=={release}",
            "-d",
            str(place / "wheels"),
        ]
        subprocess.run(pip, check=True)
        (wheel,) = (place / "wheels").glob(f"openrlhf-{release}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return next(p.parents[1] for p in sorted(target.rglob("openrlhf/__init__.py")))


def run(python: Path, place: Path, rest: list[str]) -> int:
    print(f"== {place.relative_to(place.parents[2])}", flush=True)
    command = [str(python), "-m", "pytest", "-q", "-m", "openrlhf", "tests/openrlhf", *rest]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "OPENRLHF_TREE": str(place)}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
