"""Some steps of the released OpenRLHF on the real model, its rewards by `--reward.remote_url`. `run.py` starts this.

    python openrlhf_steps.py MODEL QUESTIONS FOLDER STEPS

It runs in the environment of scripts/test_openrlhf_loop.py, with the stand-in for CUDA that its tests have. OpenRLHF
has no stop strings, so this model ends at a line break, by its generation config. vLLM's entropies arrive by what
dare-reward adds to OpenRLHF's executor.
"""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2] / "tests" / "e2e" / "openrlhf" / "loop.py"
LINE_BREAK = 198  # token of SmolLM2
BATCH, SAMPLES = 8, 8


def main(model: Path, questions: Path, folder: Path, steps: int) -> int:
    spec = importlib.util.spec_from_file_location("dare_loop", TESTS)
    loop = importlib.util.module_from_spec(spec)
    sys.modules["dare_loop"] = loop
    spec.loader.exec_module(loop)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    rows = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    asked = [json.dumps({"input": row["asked"], "label": row["label"]}) for row in rows]
    (folder / "asked.jsonl").write_text(
        "\n".join(asked[:: max(len(asked) // (BATCH * steps), 1)][: BATCH * steps]) + "\n"
    )
    service = loop.Service().start()
    try:
        flags = loop.flags(ended(model, folder / "base"), folder, prompts=0, samples=SAMPLES, batch=BATCH, lr=1e-6) | {
            "data.prompt_dataset": str(folder / "asked.jsonl"),
            "data.apply_chat_template": False,
            "rollout.max_new_tokens": 16,
            "reward.remote_url": f"{service.url}/reward?run=real-model&kind=text&entropy_mode=raw",
        }
        environment = {"TORCH_EXTENSIONS_DIR": str(built(folder.parent / "extensions"))}
        run = loop.run_loop(loop.arguments(flags), folder, folder / "none.jsonl", environment=environment, limit=3600)
    finally:
        service.kill()
    for number, step in enumerate(run.steps, 1):
        shown = {k: step[k] for k in ("reward", "label_accuracy", "entropy", "response_length") if k in step}
        print(f"step {number}: {shown}")
    print(f"{len(run.steps)} of {steps} steps in {run.seconds / 60:.1f} min; OpenRLHF's log is {folder / 'train.log'}")
    return int(run.code != 0 or len(run.steps) < steps)


def built(folder: Path) -> Path:
    """Where DeepSpeed keeps what it compiles: minutes, once, for which OpenRLHF's processes would not wait."""
    for lock in folder.glob("*/lock"):  # of a run that was killed: it would be waited for without an end
        lock.unlink()
    load = (
        "from deepspeed.accelerator import get_accelerator as accelerator\n"
        "for name in ('ShareMemCommBuilder', 'FusedAdamBuilder'): accelerator().create_op_builder(name).load()"
    )
    environment = os.environ | {"DS_ACCELERATOR": "cpu", "TORCH_EXTENSIONS_DIR": str(folder)}
    subprocess.run([sys.executable, "-c", load], env=environment, check=True)  # noqa: S603
    return folder


def ended(model: Path, folder: Path) -> Path:
    """The model with a line break among its ends. Its weights are linked, not copied."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).symlink_to(file)
    config = folder / "generation_config.json"
    content = json.loads(config.read_text(encoding="utf-8")) if config.exists() else {}
    ends = content.get("eos_token_id", [])
    config.unlink(missing_ok=True)
    content["eos_token_id"] = [*(ends if isinstance(ends, list) else [ends]), LINE_BREAK]
    config.write_text(json.dumps(content), encoding="utf-8")
    return folder


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])))
