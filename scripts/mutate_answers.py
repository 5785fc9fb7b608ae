"""An estimate of how much of the answers is tested: `python3 scripts/mutate_answers.py [--mutants 100] [--seed 1]`.

Draws places in client/dare_reward/answers at random, changes one in a copy, and runs the fast tests of the answers on
it until one fails. A mutant that no test notices within the time limit of a run survived. The draw is of all places of
all kinds with equal chance, so the share of those killed estimates the share of all, with Wilson's interval. It is a
sample, for a room whose every mutant would take days; scripts/mutate.py tests every mutant of the estimators.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _venv import ROOT
from mutate import PROFILE

SOURCE = ROOT / "client" / "dare_reward"
MODULES = Path("client", "dare_reward", "answers")
TESTS = (
    "test_tables.py",
    "test_tables_extract.py",
    "test_tables_edges.py",
    "test_tables_wide.py",
    "test_pairs.py",
    "test_keys.py",
    "test_classes.py",
    "test_choices.py",
    "test_extract.py",
    "test_official.py",
    "test_extract_blind.py",
)
Z = 1.96  # of a 95 % interval

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """(kind, node) of all that may be changed; annotations, docstrings and what is exported are no code."""
    skipped = set(_inert(tree))
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
            yield "comparison", node
        elif isinstance(node, ast.BoolOp):
            yield "boolean", node
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield "negation", node
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield "arithmetic", node
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | str) and node.value != "":
            yield "constant", node
        elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield "return", node
        elif isinstance(node, ast.FunctionDef | ast.If | ast.For | ast.While):
            said = (s for s in node.body if id(s) not in skipped)
            yield from (("statement", s) for s in said if isinstance(s, ast.Expr | ast.Assign | ast.AugAssign))


def _inert(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts = [node]
        elif isinstance(node, ast.FunctionDef):
            parts = [node.returns, *(a.annotation for a in (*node.args.args, *node.args.kwonlyargs))]
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif isinstance(node, ast.Raise):
            parts = [node.exc]  # the words of a message
        elif isinstance(node, ast.ImportFrom | ast.JoinedStr) or _exports(node):
            parts = [node]
        for part in parts:
            if part is not None:
                yield from (id(inner) for inner in ast.walk(part))


def _exports(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def changed(kind: str, node: ast.AST) -> ast.AST:
    """What takes the place of `node`."""
    if isinstance(node, ast.Compare):
        return ast.Compare(node.left, [COMPARISONS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    if isinstance(node, ast.BoolOp):
        return ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.UnaryOp):
        return node.operand
    if isinstance(node, ast.BinOp):
        return ast.BinOp(node.left, ARITHMETIC[type(node.op)](), node.right)
    if isinstance(node, ast.Constant):
        return ast.Constant(_other(node.value))
    return ast.Return(ast.Constant(None)) if kind == "return" else ast.Pass()


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else f"XX{value}"


class Swap(ast.NodeTransformer):
    """Puts `new` where `old` is."""

    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.copy_location(self.new, node) if node is self.old else super().generic_visit(node)


def draw(folder: Path, seed: int, count: int) -> list[tuple[Path, int]]:
    """(file, number of the place in it) of `count` different places."""
    found = [
        (path, n)
        for path in sorted((folder / MODULES).glob("*.py"))
        for n, _ in enumerate(places(ast.parse(path.read_text(encoding="utf-8"))))
    ]
    print(f"{len(found)} places, {count} drawn with seed {seed}", flush=True)
    return random.Random(seed).sample(found, min(count, len(found)))


def prepare(folder: Path) -> None:
    """A copy of the package and of its tests, so that no mutant touches the working tree."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCE, folder / "client" / "dare_reward", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "tests" / "unit" / "answers").mkdir(parents=True)
    shutil.copytree(ROOT / "tests" / "data", folder / "tests" / "data")
    for name in TESTS:
        shutil.copy2(ROOT / "tests" / "unit" / "answers" / name, folder / "tests" / "unit" / "answers" / name)
    (folder / "tests" / "conftest.py").write_text(PROFILE, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\naddopts = --hypothesis-profile=mutation --import-mode=importlib --assert=plain -p no:cacheprovider\n"
    )


def survives(folder: Path, limit: float) -> bool:
    """Whether all tests pass on the copy; a run past the limit was stopped, so that mutant does not survive."""
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", *(f"tests/unit/answers/{name}" for name in TESTS)]
    env = os.environ | {"PYTHONPATH": str(folder / "client")}
    try:
        done = subprocess.run(command, cwd=folder, env=env, check=False, capture_output=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def wilson(part: int, whole: int) -> tuple[float, float]:
    share, spread = part / whole, Z * Z / whole
    middle = (share + spread / 2) / (1 + spread)
    half = Z * math.sqrt(share * (1 - share) / whole + spread / (4 * whole)) / (1 + spread)
    return middle - half, middle + half


def mutant(path: Path, n: int) -> tuple[str, int, str, str]:
    """(kind, line, the changed module, what was changed into what)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    kind, node = list(places(tree))[n]
    line, before = getattr(node, "lineno", 0), ast.unparse(node)
    new = changed(kind, node)
    text = ast.unparse(ast.fix_missing_locations(Swap(node, new).visit(tree)))
    return kind, line, text, f"{before} -> {ast.unparse(new)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=float, default=180, help="seconds that the tests of one mutant may take")
    parser.add_argument("--log", type=Path, help="one line of JSON for each mutant is added here")
    args = parser.parse_args()
    folder = ROOT / "build" / f"mutation-answers-{args.seed}"
    prepare(folder)
    if not survives(folder, args.limit):
        sys.exit("the tests fail, or are over the limit, without a mutant")
    killed, drawn = 0, Counter[str]()
    for count, (path, n) in enumerate(draw(folder, args.seed, args.mutants), 1):
        kind, line, text, change = mutant(path, n)
        original = path.read_text(encoding="utf-8")
        path.write_text(text, encoding="utf-8")
        alive = survives(folder, args.limit)
        path.write_text(original, encoding="utf-8")
        killed += not alive
        drawn[f"{kind}, {'survived' if alive else 'killed'}"] += 1
        if alive:
            print(f"survived: {path.name}:{line} {kind}: {change[:160]}", flush=True)
        if args.log:
            with args.log.open("a", encoding="utf-8") as log:
                entry = {"seed": args.seed, "file": path.name, "line": line, "kind": kind, "change": change[:200]}
                log.write(json.dumps(entry | {"killed": not alive}) + "\n")
        low, high = wilson(killed, count)
        print(f"{killed} of {count} killed, {100 * low:.0f} to {100 * high:.0f} %", flush=True)
    print("\n".join(f"{name}: {number}" for name, number in sorted(drawn.items())))


if __name__ == "__main__":
    main()
