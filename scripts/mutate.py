"""Mutation testing of the estimators and the wire: `python3 scripts/mutate.py [--jobs N] [PATTERN ...]`.

Copies the base layer and the tests that are about these modules into build/mutation, lets mutmut change one thing at a
time and run the tests that reach it, and prints the score per module and every mutant that survived, with its
difference. PATTERN picks mutants by name (`dare_reward.wire.*`), on what an earlier run left. The exit code is 0 if at
least 85 % of the mutants of every module were killed. Takes minutes, so it is no part of the tests.

mutmut leaves alone what is at module level or has a decorator (tables, cached properties). docs/mutation.md says what
stands in for that, and explains the survivors.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
from collections import Counter

import _venv
from _venv import ROOT, say

BAR = 0.85
FOLDER = ROOT / "build" / "mutation"
MODULES = ("estimators/dare.py", "estimators/ttrl.py", "estimators/empo.py", "segments.py", "groups.py", "wire.py")
TESTS = ("golden", "dare", "votes", "groups", "segments", "wire", "request", "reply")
KILLED = frozenset({"killed", "timeout", "segfault"})

CONFIG = """\
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
pytest_add_cli_args = ["--hypothesis-profile=mutation"]
pytest_add_cli_args_test_selection = {tests}
timeout_constant = 20.0
timeout_multiplier = 5.0

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
filterwarnings = ["error"]
"""

# Always the same examples, few of them, and no search for the smallest: one failure is all that a mutant needs.
PROFILE = """\
from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "mutation",
    max_examples=40,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""


def prepare() -> None:
    """Copy what is needed, so that mutants never touch the working tree."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    shutil.copytree(ROOT / "client" / "dare_reward", FOLDER / "src" / "dare_reward")
    tests = [f"tests/unit/test_{name}.py" for name in TESTS]
    for name in (*tests, "tests/golden/dare.json"):
        (FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, FOLDER / name)
    (FOLDER / "tests" / "conftest.py").write_text(PROFILE, encoding="utf-8")
    modules = [f"src/dare_reward/{name}" for name in MODULES]
    config = CONFIG.format(modules=json.dumps(modules), tests=json.dumps(tests))
    (FOLDER / "pyproject.toml").write_text(config, encoding="utf-8")


def mutmut(*arguments: str, quiet: bool = False) -> str:
    """Run mutmut in the copy; its output, or nothing if it goes to the terminal."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=FOLDER, check=True, text=True, stdout=subprocess.PIPE if quiet else None)
    return done.stdout or ""


def report() -> bool:
    """Print the survivors and the score per module; whether every module reaches the bar."""
    found: dict[str, Counter[str]] = {}
    for line in mutmut("results", "--all", "true", quiet=True).splitlines():
        name, _, status = line.strip().rpartition(": ")
        if not name:
            continue
        module = name.partition(".x")[0].removeprefix("dare_reward.")
        found.setdefault(module, Counter())[status] += 1
        if status not in KILLED:
            say(mutmut("show", name, quiet=True).strip() + "\n")
    good = True
    for module, statuses in found.items():
        killed, total = sum(statuses[s] for s in KILLED), statuses.total()
        good &= killed >= BAR * total
        say(f"{module:20} {killed:4} of {total:4} killed = {killed / total:6.1%}   {dict(statuses)}")
    killed, total = (sum(c[s] for c in found.values() for s in KILLED), sum(c.total() for c in found.values()))
    say(f"{'all':20} {killed:4} of {total:4} killed = {killed / total:6.1%}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=2, help="mutants tested at a time (default 2)")
    parser.add_argument("--report", action="store_true", help="only print what the last run found")
    parser.add_argument("pattern", nargs="*", help="names of mutants to run again, with wildcards")
    arguments = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        _venv.enter("mutation", ["-e ."], groups=["test", "mutation"])
    if not arguments.report:
        if not arguments.pattern:
            prepare()
        mutmut("run", "--max-children", str(arguments.jobs), *arguments.pattern)
    return 0 if report() else 1


if __name__ == "__main__":
    sys.exit(main())
