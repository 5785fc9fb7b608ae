"""Python files that no package holds, loaded as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load(path: Path, name: str = "") -> Any:
    """The module that the file is, which `sys.modules` has by this name from then on."""
    spec = importlib.util.spec_from_file_location(name or path.stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
