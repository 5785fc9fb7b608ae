"""Renew what the image is made of: `python3 scripts/lock.py`, then run the tests and commit what changed.

`deploy/requirements.txt` has the newest versions of the extras `service` and `cli` with their hashes, for every
platform and Python from 3.11 on, and `deploy/requirements-build.txt` those of the build backend. Where Docker is
installed, the base image of the Dockerfile gets the digest that its tag has now. Without Docker it stays as it is.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import _venv
from _venv import ROOT, say

COMPILE = ("uv", "pip", "compile", "--universal", "--python-version", "3.11", "--generate-hashes", "--no-annotate")
QUIET = ("--quiet", "--upgrade", "--no-emit-index-url", "--custom-compile-command", "python3 scripts/lock.py")
BASE = re.compile(r"^ARG BASE=([^@\s]+)(?:@\S+)?$", re.MULTILINE)


def compiled(name: str, *words: str, text: str | None = None) -> None:
    """Write `deploy/name` by uv."""
    command = [*COMPILE, *QUIET, "--output-file", f"deploy/{name}", *words]
    command[0] = str(Path(sys.prefix) / "bin" / "uv")
    subprocess.run(command, check=True, cwd=ROOT, input=text, text=True)
    say(f"deploy/{name} renewed")


def digest(tag: str) -> str:
    """The digest that a tag of an image has now, for all platforms; empty where it cannot be asked for."""
    if not shutil.which("docker"):
        return ""
    command = ["docker", "buildx", "imagetools", "inspect", tag, "--format", "{{.Manifest.Digest}}"]
    found = subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    return found if re.fullmatch(r"sha256:[0-9a-f]{64}", found) else ""


def pinned(dockerfile: str, found: str) -> str:
    """The Dockerfile with the digest of its base image."""
    return BASE.sub(rf"ARG BASE=\1@{found}", dockerfile)


def main() -> int:
    compiled("requirements.txt", "pyproject.toml", "--extra", "service", "--extra", "cli")
    backend = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    compiled("requirements-build.txt", "-", text="\n".join(backend))
    dockerfile = ROOT / "Dockerfile"
    content = dockerfile.read_text(encoding="utf-8")
    tag = BASE.findall(content)[0]
    if found := digest(tag):
        dockerfile.write_text(pinned(content, found), encoding="utf-8")
        say(f"Dockerfile: {tag}@{found}")
    else:
        say(f"Dockerfile: without Docker and its registry the digest of {tag} stays as it is")
    return 0


if __name__ == "__main__":
    _venv.enter("lock", [], groups=["lock"])
    sys.exit(main())
