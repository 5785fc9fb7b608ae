"""Mutation testing of the estimators and the wire: `python3 scripts/mutate.py [--jobs N] [PATTERN ...]`.

Copies the base layer and the tests that are about these modules into build/mutation, lets mutmut change one thing at a
time and run the tests that reach it, and prints the score per module and every mutant that survived, with its
difference. PATTERN picks mutants by name (`dare_reward.wire.*`), on what an earlier run left. The exit code is 0 if at
least 85 % of the mutants of every module were killed. Takes minutes, so it is no part of the tests.

mutmut leaves alone what is at module level or has a decorator (tables, presets, cached properties): `--by-hand` tests
the changes of that kind that BY_HAND lists, each with all these tests. docs/mutation.md explains the survivors.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import _venv
from _venv import ROOT, say

BAR = 0.85
FOLDER = ROOT / "build" / "mutation"
MODULES = ("estimators/dare.py", "estimators/ttrl.py", "estimators/empo.py", "segments.py", "groups.py", "wire.py")
TESTS = ("golden", "dare", "votes", "groups", "segments", "wire", "request", "reply")
KILLED = frozenset({"killed", "timeout", "segfault"})

# Module, what stands there once, what takes its place.
BY_HAND = (
    ("estimators/dare.py", "TAU_SLACK = 1e-12", "TAU_SLACK = 0.0"),
    ("estimators/dare.py", "TAU_SLACK = 1e-12", "TAU_SLACK = 1e-11"),
    ("estimators/dare.py", "eps=1e-6)", "eps=1e-5)"),
    ("estimators/dare.py", '(Eq. 10)", alpha=0.0, tau=0.0)', '(Eq. 10)", alpha=0.0)'),
    ("estimators/dare.py", '(Eq. 13)", tau=0.0)', '(Eq. 13)")'),
    ("estimators/dare.py", '(Eq. 14)", alpha=0.0)', '(Eq. 14)")'),
    ("estimators/dare.py", "eps=0.1, u_floor=0.02)", "eps=0.1)"),
    ("estimators/dare.py", "eps=0.1, u_floor=0.02)", "u_floor=0.02)"),
    ("groups.py", "np.repeat(np.arange(len(self.sizes_P)), self.sizes_P)", "np.zeros(len(self.answer_R), int)"),
    ("groups.py", "np.repeat(np.arange(len(self.support_P)), self.support_P)", "np.zeros(len(self.text_A), int)"),
    ("groups.py", "return self.answer_R >= 0", "return self.answer_R > 0"),
    ("groups.py", "return self.answer_R >= 0", "return self.answer_R >= -1"),
    ("groups.py", "self.sum_by_answer(np.ones(len(self.answer_R)))", "np.ones(len(self.text_A))"),
    (
        "groups.py",
        "| Ragged] = field(default_factory=lambda: MappingProxyType({}))",
        "| Ragged] = field(default_factory=dict)",
    ),
    ("wire.py", "MAX_HEADER: Final = 8 << 20", "MAX_HEADER: Final = 4 << 20"),
    ("wire.py", "MAX_HEADER: Final = 8 << 20", "MAX_HEADER: Final = (8 << 20) + 8"),
    ("wire.py", '"F64": "<f8"', '"F64": ">f8"'),
    ("wire.py", '"F32": "<f4"', '"F32": "<i4"'),
    ("wire.py", '"BF16": "<u2"', '"BF16": ">u2"'),
    ("wire.py", '"I64": "<i8"', '"I64": "<u8"'),
    ("wire.py", '"I32": "<i4"', '"I32": "<u4"'),
    ("wire.py", '"BOOL": "|u1"', '"BOOL": "|i1"'),
    ("wire.py", '"U8": "|u1"', '"U8": "|i1"'),
    ("wire.py", ', "bool": "BOOL"', ', "bool": "U8"'),
    ("wire.py", ', "uint8": "U8"', ', "uint8": "BOOL"'),
    ("wire.py", '("F64", "F32", "BF16")', '("F64", "F32")'),
    ("wire.py", '("F64", "F32", "BF16")', '("F64", "F32", "BF16", "I32")'),
    ("wire.py", '("I64", "I32")', '("I64",)'),
    ("wire.py", '("BOOL", "U8")', '("BOOL",)'),
    ("wire.py", '("BOOL", "U8")', '("U8",)'),
    ("wire.py", 'LENGTHS: Final = "lengths"', 'LENGTHS: Final = "length"'),
    ("wire.py", "[\\ud800-\\udfff]", "[\\ud800-\\udbff]"),
    ("wire.py", "[\\ud800-\\udfff]", "[\\udc00-\\udfff]"),
    ("wire.py", "[\\ud800-\\udfff]", "[\\ud800-\\uffff]"),
)

CONFIG = """\
[tool.mutmut]
source_paths = ["src"]
only_mutate = {modules}
pytest_add_cli_args_test_selection = {tests}
timeout_constant = 20.0
timeout_multiplier = 5.0

[tool.pytest.ini_options]
addopts = ["--import-mode=importlib"]
filterwarnings = ["error"]
"""

# Always the same examples, few of them, and no search for the smallest: one failure is all that a mutant needs.
PROFILE = """
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
settings.load_profile("mutation")
"""


def prepare(folder: Path) -> None:
    """Copy what is needed, so that mutants never touch the working tree."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "client" / "dare_reward", folder / "src" / "dare_reward")
    tests = [f"tests/unit/test_{name}.py" for name in TESTS]
    for name in (*tests, "tests/conftest.py", "tests/golden/dare.json"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    with (folder / "tests" / "conftest.py").open("a", encoding="utf-8") as conftest:
        conftest.write(PROFILE)
    modules = [f"src/dare_reward/{name}" for name in MODULES]
    config = CONFIG.format(modules=json.dumps(modules), tests=json.dumps(tests))
    (folder / "pyproject.toml").write_text(config, encoding="utf-8")


def mutmut(*arguments: str, quiet: bool = False) -> str:
    """Run mutmut in the copy; its output, or nothing if it goes to the terminal."""
    command = [sys.executable, "-m", "mutmut", *arguments]
    done = subprocess.run(command, cwd=FOLDER, check=True, text=True, stdout=subprocess.PIPE if quiet else None)
    return done.stdout or ""


def by_hand() -> bool:
    """Make each change of BY_HAND in the copy and run the tests; whether all were killed."""
    folder = FOLDER.with_name("mutation-by-hand")
    prepare(folder)
    survived = 0
    command = [sys.executable, "-m", "pytest", "-x", "-q", "tests"]
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, old, new in (("", "", ""), *BY_HAND):
        path = folder / "src" / "dare_reward" / name
        text = path.read_text(encoding="utf-8") if name else ""
        if name:
            assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
            path.write_text(text.replace(old, new), encoding="utf-8")
        done = subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)
        if name:
            path.write_text(text, encoding="utf-8")
        elif done.returncode:
            raise SystemExit(done.stdout)
        if name and done.returncode == 0:
            survived += 1
            say(f"{name}: {old} -> {new}: survived")
    say(f"{'by hand':20} {len(BY_HAND) - survived:4} of {len(BY_HAND):4} killed")
    return survived == 0


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
    parser.add_argument("--by-hand", action="store_true", help="the changes that mutmut does not make")
    arguments = parser.parse_args()
    if importlib.util.find_spec("mutmut") is None:
        _venv.enter("mutation", ["-e ."], groups=["test", "mutation"])
    if arguments.by_hand:
        return 0 if by_hand() else 1
    if not arguments.report:
        if not arguments.pattern:
            prepare(FOLDER)
        mutmut("run", "--max-children", str(arguments.jobs), *arguments.pattern)
    return 0 if report() else 1


if __name__ == "__main__":
    sys.exit(main())
