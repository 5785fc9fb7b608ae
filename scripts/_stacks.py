"""What the scripts that install released training stacks share: a virtual environment, torch's CPU build, a limit."""

from __future__ import annotations

import math
import os
import shlex
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"  # a version without "+cpu" is met by both builds
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PROJECT = ("-e", f"{ROOT}[service,cli]", "pytest", "hypothesis", "anyio")


class Pip:
    """pip of the virtual environment at `folder`; no call goes on after `end` of the monotonic clock.

    It leaves compiling to the import: a stack's environment holds 14,000 modules or more, of which few are imported.
    """

    def __init__(self, folder: Path, end: float = math.inf) -> None:
        self.python, self.end = folder / "bin" / "python", end

    def __call__(self, *words: object, **environment: str) -> None:
        options = ["--no-compile"] if words[0] == "install" else []
        command = [str(self.python), "-m", "pip", "--disable-pip-version-check", *map(str, words), *options]
        print("$ pip", shlex.join(command[4:]), flush=True)
        subprocess.run(command, check=True, cwd=ROOT, timeout=self.left(), env={**os.environ, **environment})

    def left(self) -> float | None:
        """Seconds until `end`, None where there is no end; an error if it is past."""
        left = self.end - time.monotonic()
        if left <= 0:
            raise subprocess.TimeoutExpired("pip", 0)
        return left if left < math.inf else None

    def torch(self, index: str) -> None:
        """Install torch: the CPU build from where pip looks, else from `index`, else the build that pip finds."""
        unreachable_soon = ["--retries", "1", "--timeout", "15"]
        for words in ([f"{TORCH}+cpu"], [f"{TORCH}+cpu", "--extra-index-url", index, *unreachable_soon]):
            try:
                return self("install", "-q", *words)
            except subprocess.CalledProcessError:
                print("torch's CPU build is not there", flush=True)
        return self("install", "-q", TORCH)


def environment(folder: Path, plan: str, fill: Callable[[Pip], None], end: float = math.inf) -> Path:
    """The Python of the virtual environment at `folder`, made anew by `fill` unless `plan` is what it was made by."""
    pip, mark = Pip(folder, end), folder / "installed"
    if not (mark.is_file() and mark.read_text(encoding="utf-8") == plan):
        begun = time.monotonic()
        pip.left()
        venv.create(folder, with_pip=True, clear=True, symlinks=os.name != "nt")
        fill(pip)
        mark.write_text(plan, encoding="utf-8")
        print(f"{folder.name}: installed in {time.monotonic() - begun:.0f} s", flush=True)
    return pip.python
