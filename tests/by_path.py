"""Python files that no package holds, as modules and as programs."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def load(path: Path, name: str = "") -> Any:
    """The module that the file is, which `sys.modules` has by this name from then on."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(path: Path, *words: object, **environment: str) -> str:
    """What the file prints as a program, which must end well."""
    command, variables = [sys.executable, str(path), *map(str, words)], {**os.environ, **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-5000:]
    return done.stdout
