"""Mutation testing: `python3 scripts/mutate.py [ROOM] [--sample N] [--jobs N] [PATTERN ...]`.

Copies the base layer and the tests of one room into build/mutation-ROOM, lets mutmut change one thing at a time and run
the tests that reach it, and prints each mutant that survived, as a difference, and the share of those killed. The exit
code is 0 if at least 85 % were killed.

ROOM is `estimators` (with groups and frame; minutes) or `answers` (days, so draw a sample: `answers --sample 100`).
PATTERN picks mutants by name, such as `dare_reward.wire.*`.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import math
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import _venv
from _venv import ROOT, say

BAR = 0.85
Z = 1.96  # of a 95 % interval
KILLED = frozenset({"killed", "timeout", "segfault"})
UNTRIED = "not checked"
# For each room: the modules that are changed, and the tests that run. Tests that check durations are none of them.
ROOMS = {
    "estimators": (
        ("estimators/dare.py", "estimators/ttrl.py", "estimators/empo.py", "segments.py", "groups.py", "wire.py"),
        [f"test_{n}.py" for n in ("golden", "dare", "exponent", "certainty", "votes", "votes_suffice")]
        + [f"test_{n}.py" for n in ("groups", "labelled", "array_inputs", "segments", "wire", "request", "reply")],
    ),
    "answers": (
        ("answers/*",),
        [f"answers/test_{n}.py" for n in ("answer_rows", "keys", "classes", "choices", "extract")],
    ),
}
# Always the same examples, few of them, and no search for the smallest: one failure is all that a mutant needs. mutmut
# puts a call in front of every function, so the nesting that the answers read takes twice the stack.
PROFILE = """
import sys

from hypothesis import HealthCheck, Phase, settings

phases, unchecked = [Phase.explicit, Phase.generate], list(HealthCheck)
settings.register_profile(
    "mutation", max_examples=40, derandomize=True, database=None, deadline=None, phases=phases, suppress_health_check=unchecked
)
settings.load_profile("mutation")
sys.setrecursionlimit(2 * sys.getrecursionlimit())
"""


def prepare(room: str, folder: Path) -> None:
    """Copy what is needed, so that mutants never touch the working tree."""
    modules, patterns = ROOMS[room]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "client" / "dare_reward", folder / "src" / "dare_reward")
    for name in ("data", "golden"):
        shutil.copytree(ROOT / "tests" / name, folder / "tests" / name)
    for helper in (ROOT / "tests").glob("*.py"):
        shutil.copy2(helper, folder / "tests")
    with (folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(PROFILE)
    tests = [path.relative_to(ROOT) for p in patterns for path in sorted((ROOT / "tests" / "unit").glob(p))]
    for test in tests:
        (folder / test).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / test, folder / test)
    settings = {
        "source_paths": ["src"],
        "only_mutate": [f"src/dare_reward/{name}" for name in modules],
        "pytest_add_cli_args_test_selection": list(map(str, tests)),
        "timeout_constant": 20.0,
        "timeout_multiplier": 5.0,
    }
    lines = [
        "[tool.mutmut]",
        *(f"{name} = {json.dumps(value)}" for name, value in settings.items()),
        "[tool.pytest.ini_options]",
        'addopts = ["--import-mode=importlib"]',
        'pythonpath = ["tests"]',
        'filterwarnings = ["error"]',
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def mutmut(folder: Path, *arguments: str, quiet: bool = False, check: bool = True) -> str:
    """Run mutmut in the copy; its output, or nothing if it goes to the terminal."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} if quiet else {}
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=folder, check=check, text=True, **streams).stdout or ""  # type: ignore[call-overload]


def statuses(folder: Path) -> Iterator[tuple[str, str]]:
    """(name, status) of every mutant."""
    for line in mutmut(folder, "results", "--all", "true", quiet=True).splitlines():
        name, _, status = line.strip().rpartition(": ")
        if name:
            yield name, status


def draw(folder: Path, patterns: list[str], count: int, seed: int) -> list[str]:
    """The names of `count` mutants at random, all with the same chance."""
    # mutmut makes all mutants and times the tests before it finds that none has this name.
    mutmut(folder, "run", "none", quiet=True, check=False)
    names = [n for n, _ in statuses(folder) if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]
    say(f"{len(names)} mutants, {min(count, len(names))} drawn with seed {seed}")
    return random.Random(seed).sample(names, min(count, len(names)))


def report(folder: Path, *, by_module: bool) -> bool:
    """Print the survivors and the shares of those killed; whether all, or each module, reach the bar."""
    found: dict[str, Counter[str]] = {"all": Counter()}
    for name, status in statuses(folder):
        if status != UNTRIED:
            module = name.partition(".x")[0].removeprefix("dare_reward.")
            for key in (module, "all"):
                found.setdefault(key, Counter())[status] += 1
            if status not in KILLED:
                say(mutmut(folder, "show", name, quiet=True).strip() + "\n")
    good = True
    for key, counts in [*((k, c) for k, c in found.items() if k != "all"), ("all", found["all"])]:
        killed, total = sum(counts[s] for s in KILLED), max(counts.total(), 1)
        good &= killed >= BAR * total or not (by_module or key == "all")
        low, high = wilson(killed, total)
        say(f"{key:32} {killed:4} of {total:4} killed = {killed / total:6.1%} ({low:.0%} to {high:.0%})")
    return good


def wilson(part: int, whole: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    share, spread = part / whole, Z * Z / whole
    half = Z * math.sqrt(share * (1 - share) / whole + spread / (4 * whole))
    return (share + spread / 2 - half) / (1 + spread), (share + spread / 2 + half) / (1 + spread)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", nargs="?", choices=ROOMS, default="estimators")
    parser.add_argument("pattern", nargs="*", help="names of mutants, with wildcards (default: all of the room)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N mutants, drawn at random")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default 1)")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at a time (default 2)")
    parser.add_argument("--report", action="store_true", help="only print what the last run found")
    given = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        _venv.enter("mutation", ["-e ."], groups=["test", "mutation"])
    folder = ROOT / "build" / f"mutation-{given.room}"
    if not given.report:
        prepare(given.room, folder)
        names = given.pattern
        if given.sample is not None:
            names = draw(folder, given.pattern, given.sample, given.seed)
        mutmut(folder, "run", "--max-children", str(given.jobs), *names)
    return 0 if report(folder, by_module=given.sample is None) else 1


if __name__ == "__main__":
    sys.exit(main())
