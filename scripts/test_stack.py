#!/usr/bin/env python3
"""Set up an RL stack's environment and run its tests: the real classes that call rewards, on CPU.

    python3 scripts/test_stack.py trl                    one stack
    python3 scripts/test_stack.py all --budget 1200      every expected stack; together their installs take at most 20 minutes
    python3 scripts/test_stack.py slime --source slime=/path/to/slime

An install that fails or runs over the budget is a failure, and so is a stack of which no test ran. Environments stay in
--envs (default .stacks, which git ignores). torch is the CPU build where pip or --torch-index has one.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from _stacks import CPU_INDEX, PROJECT, ROOT, TORCH, Pip, environment


@dataclass(frozen=True)
class Stack:
    """`packages` are installed with what they need, `bare` without; of `releases` only the code is unpacked."""

    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()
    releases: tuple[str, ...] = ()
    environment: str = ""
    torch: bool = True


VERL = (
    "verl==0.9.1", "transformers==5.10.4", "tensordict==0.10.0", "ray==2.60.0", "TransferQueue==0.1.11", "torchdata", "cachetools", "msgspec", "pyzmq",
)  # fmt: skip
SWIFT = (
    "transformers<5.20", "trl==0.29.0", "accelerate", "datasets<4.8.5", "peft<0.21", "modelscope", "dacite", "aiohttp", "requests", "addict",
    "pillow", "json-repair", "einops", "simplejson", "attrdict", "pandas", "msgspec",
)  # fmt: skip
# What `all` installs and tests; each comes from the package index, so it must install on every machine.
EXPECTED = {
    "trl": Stack(("trl==1.16.0", "transformers==5.23.0", "accelerate", "datasets", "peft==0.21.2")),
    "verl": Stack(VERL),
    "swift": Stack(SWIFT, bare=("ms-swift==4.6.0",)),
    "openrlhf": Stack(("aiohttp", "packaging"), releases=("0.9.1", "0.9.10", "0.10.4", "0.11.2")),
    "ray": Stack(("ray[serve]==2.60.0",), torch=False),
}
# By hand, from a checkout: these are on no package index, and not every machine reaches their git host.
BY_HAND = {
    "slime": Stack(("aiohttp", "pylatexenc", "sympy", "numpy", "tqdm", "transformers==5.23.0", "ray==2.60.0")),
    "easyr1": Stack(VERL, environment="verl"),
}
CHECKOUTS = {
    "slime": "https://github.com/THUDM/slime at 624b824a8",
    "easyr1": "https://github.com/hiyouga/EasyR1 at b44b311",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", nargs="+", choices=[*EXPECTED, *BY_HAND, "all"])
    parser.add_argument("--envs", type=Path, default=ROOT / ".stacks")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds that all installs take together")
    parser.add_argument("--torch-index", default=CPU_INDEX, help="index of CPU builds of torch, if pip finds none")
    parser.add_argument("--source", action="append", default=[], metavar="NAME=DIR", help="a stack's checkout")
    parser.add_argument("--pytest", default="-q", help="arguments for pytest")
    given = parser.parse_args()
    sources = dict(item.split("=", 1) for item in given.source)
    names = list(EXPECTED) if "all" in given.stacks else given.stacks
    if missing := [name for name in names if name in BY_HAND and name not in sources]:
        parser.error("; ".join(f"--source {name}=DIR is needed, a checkout of {CHECKOUTS[name]}" for name in missing))
    left, outcomes = given.budget, {}

    def made(name: str) -> Path:
        nonlocal left
        begun = time.monotonic()
        try:
            return install(name, given.envs, given.torch_index, begun + left)
        finally:
            left -= time.monotonic() - begun

    with ThreadPoolExecutor(1) as installer:  # the next one is installed while one is tested: each keeps a core busy
        for name, python in [(name, installer.submit(made, name)) for name in names]:
            try:
                outcomes[name] = test(name, python.result(), sources.get(name), given.pytest.split())
            except subprocess.TimeoutExpired:
                outcomes[name] = f"FAILED: the installs took longer than their budget of {given.budget:g} s"
            except subprocess.CalledProcessError as error:
                outcomes[name] = f"FAILED: pip {' '.join(error.cmd[4:8])} ... ended with exit code {error.returncode}"
    for name, outcome in outcomes.items():
        print(f"{name:8} {outcome}")
    if "all" in given.stacks:
        print(*(f"{n:8} by hand: {sys.argv[0]} {n} --source {n}=DIR, {CHECKOUTS[n]}" for n in BY_HAND), sep="\n")
    return int(any(outcome.startswith("FAILED") for outcome in outcomes.values()))


def install(name: str, envs: Path, index: str, end: float) -> Path:
    """The environment's Python; torch first, so that nothing brings another build of it."""
    stack = {**EXPECTED, **BY_HAND}[name]
    place = (envs / (stack.environment or name)).resolve()

    def fill(pip: Pip) -> None:
        constraint = place / "torch.txt"
        constraint.write_text(TORCH + "\n", encoding="utf-8")
        if stack.torch:
            pip.torch(index)
        pip("install", "-q", "-c", constraint, *stack.packages)
        if stack.bare:
            pip("install", "-q", "--no-deps", *stack.bare)
        for release in stack.releases:
            pip("download", "-q", "--no-deps", "-d", place / "wheels", f"{name}=={release}")
            (wheel,) = (place / "wheels").glob(f"{name}-{release}-*.whl")
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(place / "releases" / release)
        pip("install", "-q", "-c", constraint, *PROJECT)

    plan = "\n".join((sys.version, TORCH, *stack.packages, *stack.bare, *stack.releases, *PROJECT))
    return environment(place, plan, fill, end)


def test(name: str, python: Path, source: str | None, arguments: list[str]) -> str:
    """What the stack's tests came to; none at all is a failure."""
    begun, ran, skipped, codes = time.monotonic(), 0, 0, []
    files = sorted(map(str, (ROOT / "tests" / "stacks").glob(f"test_{name}*.py"))) or [f"tests/{name}"]
    for variables in runs(name, python, source):
        print("==", name, *variables.values(), flush=True)
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.xml"
            command = [str(python), "-m", "pytest", "-m", name, f"--junitxml={report}", *files, *arguments]
            settings = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TRL_EXPERIMENTAL_SILENCE": "1", **variables}
            codes.append(subprocess.run(command, cwd=ROOT, env=settings, check=False).returncode)
            for suite in ET.parse(report).iter("testsuite") if report.exists() else ():
                ran += int(suite.attrib["tests"]) - int(suite.attrib["skipped"])
                skipped += int(suite.attrib["skipped"])
    verdict = "FAILED" if any(codes) or not ran else "passed"
    return f"{verdict}: {ran} tests ran and {skipped} were skipped in {time.monotonic() - begun:.0f} s"


def runs(name: str, python: Path, source: str | None) -> Iterator[dict[str, str]]:
    """The variables of each run of the tests: one for each release, where there are several."""
    if name in BY_HAND and source:
        yield {f"{name.upper()}_SOURCE": str(Path(source).resolve())}
    elif name in EXPECTED and EXPECTED[name].releases:
        for release in EXPECTED[name].releases:  # wheels keep the package under *.data/purelib
            (init,) = (python.parents[1] / "releases" / release).rglob(f"{name}/__init__.py")
            yield {f"{name.upper()}_TREE": str(init.parents[1])}
    else:
        yield {}


if __name__ == "__main__":
    sys.exit(main())
