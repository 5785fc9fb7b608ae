"""The script that writes openapi.json, whose models say what a request may hold."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "scripts"))  # at the end: a script there is called test

import _openapi as description

__all__ = ["description"]
