"""One TRL run on CPU that records what its reward function was called with. Run alone by torchrun, or imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dare_reward.stacks.trl import DareReward
from dare_reward.stacks.trl_rollout import VoteRollout

M = 4


def plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def mean_entropy(trainer, prompt, completion) -> float:
    import torch

    model, given = trainer.accelerator.unwrap_model(trainer.model), torch.tensor([[*prompt, *completion]])
    with torch.no_grad():
        logits = model(given).logits[0, len(prompt) - 1 : -1].float()
    return float(torch.distributions.Categorical(logits=logits / trainer.temperature).entropy().mean())


class Sync(DareReward):
    """Keeps each call's completions, rewards and, by a plain forward of one sequence at a time, entropies."""

    calls: list[dict[str, Any]]

    def __call__(self, prompts, completions, **columns):
        rewards = super().__call__(prompts, completions, **columns)
        trainer = columns["log_metric"].__self__
        ids, generated = trainer._tokenize_prompts(prompts)[0], columns["completion_ids"]
        ends = {trainer._tokenizer.eos_token_id, trainer._tokenizer.pad_token_id}
        self.calls.append(
            {
                "texts": [c if isinstance(c, str) else c[-1]["content"] for c in completions],
                "truncated": [c[-1] not in ends for c in generated],
                "entropy": [mean_entropy(trainer, p, c) for p, c in zip(ids, generated, strict=True)],
                "rewards": rewards,
                "step": trainer.state.global_step,
                "training": trainer.model.training,
                "prompts": prompts,
                "labels": columns[self.label],
                "votes": [[{k: plain(x) for k, x in v.items()} for v in row] for row in columns.get("vote_only", [])],
            }
        )
        return rewards


def train(
    model: Path, url: str, *, trainer: str = "grpo", steps: int = 3, batch: int = 8, evaluate: bool = False,
    chat: bool = True, votes: int | VoteRollout | None = None, prepare: Callable[[Any], None] = lambda trainer: None, on_step: Callable[[int], None] | None = None, out: Path, reward: dict[str, Any] | None = None, data: Any = None, **settings: Any,
) -> dict[str, Any]:  # fmt: skip
    """Train; return the calls, the log and the final step. `prepare` gets the trainer before it starts; `data` are rows
    with a `label`, as docs/advantages.md makes them."""
    import tiny
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer, RLOOConfig, RLOOTrainer

    asked = [tiny.question(i) for i in range(9)]
    prompts = [[{"role": "user", "content": text}] if chat else text for text in asked]
    rows = [{"prompt": prompt, "gold": str(i % 3 + i // 3)} for i, prompt in enumerate(prompts)]
    data, label = (Dataset.from_list(rows), "gold") if data is None else (data, "label")
    config, kind = {"grpo": (GRPOConfig, GRPOTrainer), "rloo": (RLOOConfig, RLOOTrainer)}[trainer]
    function = Sync(url, label=label, **(reward or {}))
    function.calls = []

    class OnStep(TrainerCallback):
        def on_step_end(self, args, state, control, **_):
            if on_step is not None:
                on_step(state.global_step)

    arguments = config(
        output_dir=str(out / "run"), use_cpu=True, bf16=False, per_device_train_batch_size=batch, per_device_eval_batch_size=6, num_generations=M,
        num_generations_eval=2, max_completion_length=settings.pop("width", 16), max_steps=steps, logging_steps=1, save_strategy="no", report_to=[], learning_rate=1e-3,
        temperature=0.9, gradient_checkpointing=False, seed=3, disable_tqdm=True, **settings,
    )  # fmt: skip
    more = {} if votes is None else {"rollout_func": VoteRollout(votes) if isinstance(votes, int) else votes}
    sets = {"train_dataset": data, "eval_dataset": data.select(range(3))}
    run = kind(str(model), function, arguments, callbacks=[OnStep()], **sets, **more)
    prepare(run)
    run.train()
    if evaluate:
        run.evaluate()
    return {"calls": function.calls, "log": run.state.log_history, "step": run.state.global_step}


if __name__ == "__main__":
    import os

    from torch import distributed

    (model, url, out), runs = sys.argv[1:4], json.loads(sys.argv[4])
    results = [train(Path(model), url, out=Path(out), **given) for given in runs]
    Path(out, f"rank{os.environ.get('RANK', '0')}.json").write_text(json.dumps(results))
    # A rank that leaves while the other one's connections are open can be ended by SIGABRT: both close theirs first.
    distributed.barrier()
    distributed.destroy_process_group()
