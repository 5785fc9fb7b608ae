"""What a formula gives the groups of method_cases.json, added there for tests/unit/test_method_cases.py.

    python3 tests/data/add_method_case.py FILE METHOD [NAME=VALUE ...]

FILE holds a function METHOD(group, **params), the formula written again: from the paper, in plain Python, one rollout
after the other, nothing imported from this package. It returns a reward of each rollout, then of each of `second_group`.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))  # by_path.py

from by_path import load

CASES = Path(__file__).with_name("method_cases.json")


def main(file: str, method: str, *given: str) -> None:
    params = {name: ast.literal_eval(value) for name, value in (word.split("=") for word in given)}
    formula, data = getattr(load(Path(file)), method), json.loads(CASES.read_text(encoding="utf-8"))
    others = [c for c in data["cases"] if (c["method"], c["params"]) != (method, params)]
    own = {"method": method, "params": params, "expected": [formula(group, **params) for group in data["groups"]]}
    text = json.dumps({**data, "cases": [*others, own]}, separators=(",", ":"))
    CASES.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
