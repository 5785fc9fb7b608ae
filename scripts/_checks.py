"""A list of named checks, run to the end, with one line each and an exit code for all."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from _venv import ROOT, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class SkippedError(Exception):
    """A check that this machine cannot run; the text says what is missing."""


def run(checks: Sequence[Callable[[], str]]) -> int:
    """Run each check and print its first docstring line with `ok`, `skipped` or `FAILED`, and what it returned."""
    passed = failed = skipped = 0
    for check in checks:
        title = (check.__doc__ or check.__name__).strip().splitlines()[0].rstrip(".")
        begin = time.monotonic()
        try:
            note = check()
        except SkippedError as reason:
            skipped += 1
            say(f"skipped  {title}: {reason}")
        except (AssertionError, OSError, ValueError, LookupError, subprocess.SubprocessError) as problem:
            failed += 1
            say(f"FAILED   {title}: {problem}")
        else:
            passed += 1
            say(f"ok       {title}{': ' if note else ''}{note} ({time.monotonic() - begin:.1f} s)")
    say(f"{passed} passed, {failed} failed, {skipped} skipped")
    return int(failed > 0)


def tool(command: list[str]) -> str:
    """Run a tool of this environment (or of the machine) at the root and return its output, an error if it fails."""
    path = shutil.which(command[0], path=f"{sys.prefix}/bin:{sys.prefix}/Scripts") or shutil.which(command[0])
    if path is None:
        raise SkippedError(f"{command[0]} is not installed")
    done = subprocess.run([path, *command[1:]], check=False, cwd=ROOT, capture_output=True, text=True)
    output = (done.stdout + done.stderr).strip()
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} ended with exit code {done.returncode}\n{output}")
    return output
