#!/usr/bin/env python3
"""Set up an RL stack's environment and run its tests: the real classes that call rewards, on CPU.

    python scripts/test_stack.py trl                    one stack
    python scripts/test_stack.py all --budget 600       every stack, as long as the installs fit into ten minutes
    python scripts/test_stack.py slime --source slime=/path/to/slime

Environments go to --envs (default .stacks, which git ignores) and are used again. torch comes as the CPU wheel: where no
local wheel is set up, say --torch-index https://download.pytorch.org/whl/cpu.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0+cpu"


@dataclass(frozen=True)
class Stack:
    """`packages` are installed with what they need, `bare` without; `source` is a repository that is not on PyPI."""

    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()
    source: tuple[str, str] | None = None
    environment: str = ""


VERL = (
    "verl==0.9.1", "transformers==5.10.4", "tensordict==0.10.0", "ray==2.60.0", "TransferQueue==0.1.11", "torchdata", "cachetools", "msgspec", "pyzmq",
)  # fmt: skip
SWIFT = (
    "transformers<5.20", "trl==0.29.0", "accelerate", "datasets<4.8.5", "peft<0.21", "modelscope", "dacite", "aiohttp", "requests", "addict",
    "pillow", "json-repair", "einops", "simplejson", "attrdict", "pandas", "msgspec",
)  # fmt: skip
STACKS = {
    "trl": Stack(("trl==1.16.0", "transformers==5.23.0", "accelerate", "datasets")),
    "verl": Stack(VERL),
    "easyr1": Stack(VERL, source=("https://github.com/hiyouga/EasyR1", "b44b311"), environment="verl"),
    "slime": Stack(
        ("aiohttp", "pylatexenc", "sympy", "numpy", "tqdm", "transformers==5.23.0", "ray==2.60.0"),
        source=("https://github.com/THUDM/slime", "624b824a8"),
    ),
    "swift": Stack(SWIFT, bare=("ms-swift==4.6.0",)),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stacks", nargs="+", choices=[*STACKS, "all"])
    parser.add_argument("--envs", type=Path, default=ROOT / ".stacks")
    parser.add_argument(
        "--budget",
        type=float,
        default=float("inf"),
        help="seconds for all installs; what no longer fits is skipped and said",
    )
    parser.add_argument("--torch-index", help="index of CPU wheels of torch")
    parser.add_argument(
        "--source", action="append", default=[], metavar="NAME=DIR", help="a checkout, instead of cloning"
    )
    parser.add_argument("--pytest", default="-q", help="arguments for pytest")
    given = parser.parse_args()
    sources = dict(item.split("=", 1) for item in given.source)
    left, outcomes = given.budget, {}
    for name in list(STACKS) if "all" in given.stacks else given.stacks:
        if left <= 0:
            outcomes[name] = f"skipped: the installs before it took the {given.budget:g} s"
            continue
        begun = time.monotonic()
        try:
            python = install(name, given.envs, given.torch_index, left)
            source = find_source(name, sources, given.envs)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            outcomes[name] = f"skipped: {failure(error)}"
            left -= time.monotonic() - begun
            continue
        seconds = time.monotonic() - begun
        left -= seconds
        begun = time.monotonic()
        code = run(name, python, source, given.pytest)
        outcomes[name] = (
            f"{'passed' if code == 0 else 'FAILED'} (install {seconds:.0f} s, tests {time.monotonic() - begun:.0f} s)"
        )
    for name, outcome in outcomes.items():
        print(f"{name:8} {outcome}")
    return int(any(o.startswith("FAILED") for o in outcomes.values()))


def install(name: str, envs: Path, torch_index: str | None, limit: float) -> Path:
    """The environment's interpreter; torch first, so that nothing brings another build of it."""
    stack = STACKS[name]
    place = envs / (stack.environment or name)
    python = place / "bin" / "python"
    mark = place / "installed"
    wanted = "\n".join((TORCH, *stack.packages, *stack.bare))
    if mark.exists() and mark.read_text() == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    constraint = place / "torch.txt"
    constraint.write_text(TORCH + "\n")
    pip = [str(python), "-m", "pip", "install", "-q", "-c", str(constraint)]
    end = time.monotonic() + limit
    index = ["--extra-index-url", torch_index] if torch_index else []
    commands = [
        [TORCH, *index],
        list(stack.packages),
        *([["--no-deps", *stack.bare]] if stack.bare else []),
        ["-e", f"{ROOT}[service]", "pytest", "hypothesis", "anyio"],
    ]
    for command in commands:
        subprocess.run(
            [*pip, *command],
            check=True,
            timeout=None if end == float("inf") else max(end - time.monotonic(), 1),
            cwd=ROOT,
        )
    mark.write_text(wanted)
    return python


def find_source(name: str, sources: dict[str, str], envs: Path) -> str | None:
    """A checkout of the tested commit; its code is imported by the tests and never copied from."""
    stack = STACKS[name]
    if stack.source is None or name in sources:
        return sources.get(name)
    url, commit = stack.source
    place = envs / f"{name}-source"
    if not place.exists():
        subprocess.run(["git", "clone", "-q", "--filter=blob:none", url, str(place)], check=True, timeout=300)
        subprocess.run(["git", "-C", str(place), "checkout", "-q", commit], check=True)
    return str(place)


def run(name: str, python: Path, source: str | None, arguments: str) -> int:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TRL_EXPERIMENTAL_SILENCE": "1"}
    if source:
        environment[f"{name.upper()}_SOURCE"] = source
    files = sorted(map(str, (ROOT / "tests" / "stacks").glob(f"test_{name}*.py")))
    command = [str(python), "-m", "pytest", "-m", name, *files, *arguments.split()]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def failure(error: subprocess.CalledProcessError | subprocess.TimeoutExpired) -> str:
    what = error.cmd[0] if Path(error.cmd[0]).name == "git" else "pip"
    return f"{what} {'took too long' if isinstance(error, subprocess.TimeoutExpired) else 'failed'}: {' '.join(map(str, error.cmd[-3:]))}"


if __name__ == "__main__":
    sys.exit(main())
