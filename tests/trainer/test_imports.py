"""The trainer's modules load without any stack; the two that need one are loaded inside it."""

import json
import pkgutil
import subprocess
import sys

import dare_trainer

INSIDE = {"dare_trainer.vllm.entropy_torch", "dare_trainer.vllm.entropy_triton"}
STACKS = {"torch", "vllm", "openrlhf", "ray", "transformers", "deepspeed", "aiohttp", "fastapi", "dare_service"}


def test_no_module_needs_a_stack():
    names = [m.name for m in pkgutil.walk_packages(dare_trainer.__path__, "dare_trainer.") if m.name not in INSIDE]
    assert {"dare_trainer.openrlhf.group", "dare_trainer.vllm.plugin", "dare_trainer.launch.doctor"} <= set(names)
    code = (
        "import importlib, json, sys\n"
        f"for stack in {sorted(STACKS)!r}: sys.modules[stack] = None\n"
        f"for name in {names!r}: importlib.import_module(name)\n"
        f"print(json.dumps(sorted(s for s in {sorted(STACKS)!r} if sys.modules.get(s))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
