"""The training study's models through the released OpenRLHF, with vLLM and our plugin and agent, on CPU.

    python scripts/test_openrlhf_loop.py --install-only
    .openrlhf-loop/venv/bin/python research/scripts/study_openrlhf.py --models .study --arms dare,ttrl

Takes the base models that `dare-reward study train` made, the same prompts and the same settings, and appends a record a
run, of stage `openrlhf`, to OUT/results/training.jsonl: two trainers, one service. What differs from TRL is in the page.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from dare_trainer.agent.config import AgentConfig
from dare_trainer.launch.compose import prepare_folder
from dare_trainer.launch.flags import arguments

from dare_research.results import Place
from dare_research.training.arms import ARMS
from dare_research.training.examine import LONGEST, examine, summary
from dare_research.training.jobs import EXAMINED, load
from dare_research.training.plan import DEFAULT, Cell, Design, problems_of
from dare_research.training.records import append, unpack
from dare_reward.openrlhf import Label, write_label

ROOT = Path(__file__).resolve().parents[2]


def _loop() -> Any:
    """What runs the released OpenRLHF on this machine; it belongs to the tests."""
    path = ROOT / "tests" / "e2e" / "openrlhf" / "loop.py"
    spec = spec_from_file_location("dare_loop", path)
    if spec is None or spec.loader is None:
        raise ImportError(path)
    module = sys.modules["dare_loop"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


loop = _loop()
# Of OpenRLHF's log, by the names that TRL's runs have.
KEPT = {
    "label_accuracy": "label_accuracy",
    "reward_accuracy": "reward_accuracy",
    "ground_truth_ratio": "pass1",
    "majority_ratio": "majority_ratio",
    "entropy_loss": "entropy",
    "vllm_kl": "vllm_kl",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", type=Path, default=Path(".study"))
    parser.add_argument("--out", type=Path, default=Path("research"))
    parser.add_argument("--regime", default="informative")
    parser.add_argument("--base", type=int, default=0)
    parser.add_argument("--arms", default="dare,ttrl")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args()
    quiet(given.models / "cache")
    for seed in range(given.seeds):
        for arm in given.arms.split(","):
            cell = Cell("openrlhf", given.regime, given.base, arm, seed, DEFAULT.settings)
            record = run(DEFAULT, cell, given.models.resolve())
            append(unpack(Place(given.out)), [record])
            print(cell.id, record["seconds"], "s", flush=True)
    return 0


def run(design: Design, cell: Cell, models: Path) -> dict[str, Any]:
    """One run; its record."""
    problems = problems_of(design, "confirm", cell.base)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        prompts = folder / "adapted.jsonl"
        prompts.write_text(
            "".join(
                json.dumps({"input": p.prompt, "label": write_label(Label(answer=p.answer)), "datasource": family})
                + "\n"
                for family, p in problems["adapted"]
            )
        )
        record, service = folder / "exchanges.jsonl", loop.Service().start()
        with loop.recording(service.url, record) as url:
            config = agent(cell, url)
            words = flags(design, cell, models / f"{cell.regime}-{cell.base}", folder, prompts)
            prepare_folder(words, config)
            found = loop.run_loop(arguments(words), folder, record, limit=3600)
        service.kill()
        if found.code != 0 or len(found.steps) != cell.settings.steps:
            sys.exit(f"{cell.id}: exit {found.code} after {len(found.steps)} steps\n{found.log[-4000:]}")
        model, tokenizer = load(folder / "model")
        sets = {
            name: summary(examine(model, tokenizer, part, each=design.each, seed=EXAMINED + cell.base))
            for name, part in problems.items()
        }
    identity = {k: getattr(cell, k) for k in ("id", "stage", "regime", "base", "arm", "seed")}
    return {
        "record": "run",
        **identity,
        "lr": cell.settings.lr,
        "settings": cell.settings.record(),
        "steps": {
            own: [s[name] for s in found.steps] for name, own in KEPT.items() if all(name in s for s in found.steps)
        },
        "seconds": round(found.seconds, 1),
        "evaluations": [{"step": cell.settings.steps, "sets": sets}],
    }


def agent(cell: Cell, url: str) -> AgentConfig:
    arm, s = ARMS[cell.arm], cell.settings
    return AgentConfig(
        url=url, run=cell.arm, method=arm.method, params=arm.params, kind="exact", votes_per_prompt=s.votes,
        temperature=s.temperature, retries=8, patience=120.0,
    )  # fmt: skip


def flags(design: Design, cell: Cell, model: Path, folder: Path, prompts: Path) -> dict[str, Any]:
    s = cell.settings
    rows = s.prompts * s.trained
    usual: dict[str, Any] = loop.flags(model, folder, prompts=1, samples=s.trained, batch=s.prompts, lr=s.lr)
    return usual | {
        "data.prompt_dataset": str(prompts),
        "data.apply_chat_template": False,
        "data.max_len": 2 * LONGEST,
        "rollout.max_new_tokens": LONGEST,
        "rollout.micro_batch_size": rows,
        "rollout.temperature": s.temperature,
        "rollout.top_p": 1.0,
        "train.batch_size": rows,
        "train.micro_batch_size": rows // 2,
        "train.num_episodes": s.steps * s.prompts // (design.adapted * len(design.confirm)),
        "train.seed": cell.seed,
        "train.agent_func_path": str(folder / "agent" / "agent.py"),
        "actor.lr_scheduler": "linear",
        "actor.lr_warmup_ratio": 0.0,
        "actor.adam.weight_decay": 0.0,
    }


def quiet(cache: Path) -> None:
    """No network, and compiled kernels that survive between runs."""
    cache.mkdir(parents=True, exist_ok=True)
    os.environ.update(
        HF_HUB_OFFLINE="1", HF_HOME=str(cache / "hf"), VLLM_CACHE_ROOT=str(cache / "vllm"), TRITON_HOME=str(cache / "triton"),
        TORCH_EXTENSIONS_DIR=str(cache / "torch"), TORCHINDUCTOR_CACHE_DIR=str(cache / "inductor"), VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", DO_NOT_TRACK="1", OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
