"""One run of test-time RL: TRL's GRPOTrainer on a base model, its rewards from the service over HTTP.

Of the votes of a prompt the first `trained` are trained, the others only vote. Truth goes along as a label, which the
service keeps from every method but `gt` and reports accuracies from.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, Final

from dare_reward.stacks.collapse import RunWatch, watch_of
from dare_reward.stacks.trl import DareReward
from dare_reward.stacks.trl_rollout import FIELD, VoteRollout, loss_masks
from dare_reward.stacks.trl_rollout import rollout as described

from .arms import Arm
from .examine import LONGEST
from .families import Exercise
from .rewards import ASKED, AskedByPrompt, OwnAdvantages
from .sampling import sample

# Of TRL's log: what a step is remembered by.
KEPT: Final = {
    "dare/label_accuracy": "label_accuracy",
    "dare/reward_accuracy": "reward_accuracy",
    "dare/ground_truth_ratio": "pass1",
    "dare/majority_ratio": "majority_ratio",
    "dare/votes_saved": "votes_saved",
    "reward_std": "reward_std",
    "completions/mean_length": "length",
    "grad_norm": "grad_norm",
    "loss": "loss",
    "entropy": "entropy",
}
# Of the report's numbers, what its rules on a run look at, under the names that the committed records have.
REPORTED: Final = {
    "step": "step",
    "distinct_labels": "distinct_across",
    "distinct_answers": "distinct_within",
    "invalid": "invalid",
    "frac_reward_zero_std": "zero_variance",
    "majority_ratio": "majority_ratio",
    "flips": "flips",
}
Evaluate = Callable[[Any, int], None]
ParamValue = float | str
NOTHING: Mapping[str, Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunSettings:
    """A step takes `prompts` prompts with `votes` rollouts each. The learning rate falls linearly to 0.

    params   parameters of the method, by name; they win over the arm's own
    """

    prompts: int = 8
    votes: int = 64
    trained: int = 32
    steps: int = 32
    lr: float = 3e-4
    temperature: float = 1.0
    params: tuple[tuple[str, ParamValue], ...] = ()

    def record(self) -> dict[str, Any]:
        """What a run's record says of them: nothing of parameters where none was set, as before there were any."""
        said = {k: v for k, v in asdict(self).items() if k != "params"}
        return said | ({"params": dict(self.params)} if self.params else {})


class RolloutSource:
    """TRL's rollout_func: the study's own sampler, and what the arm tells of each rollout."""

    def __init__(self, arm: Arm, settings: RunSettings, random: Random) -> None:
        self.arm, self.settings, self.random = arm, settings, random
        self.tokens = 0

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        s, tokenizer = self.settings, trainer.processing_class
        ids = tokenizer(list(prompts))["input_ids"]
        model = trainer.accelerator.unwrap_model(trainer.model)
        groups = sample(
            model,
            ids[:: s.trained],
            each=self.arm.votes or s.votes,
            longest=LONGEST,
            end=tokenizer.eos_token_id,
            temperature=s.temperature,
        )
        self.tokens += sum(len(c.ids) for group in groups for c in group)
        told = [self.arm.tell(group, self.random) for group in groups]
        texts = [tokenizer.batch_decode([c.ids for c in group], skip_special_tokens=True) for group in groups]
        votes = [
            [
                described(trainer, text, c.ids) | {FIELD.get(n, n): x for n, x in fields.items()}
                for text, c, fields in zip(*columns, strict=True)
            ]
            for columns in zip(texts, groups, told, strict=True)
        ]
        names = told[0][0]
        trained = [c.ids for group in groups for c in group[: s.trained]]
        return {
            "prompt_ids": ids,
            "completion_ids": trained,
            "logprobs": None,
            "vote_only": list(chain.from_iterable(_dealt(group[s.trained :], s.trained) for group in votes)),
            **{n: [fields[n] for group in told for fields in group[: s.trained]] for n in names},
            **loss_masks(trainer, trained),
        }


class WavesSource(VoteRollout):
    """TRL's rollout_func of an arm whose votes come in waves: the adapter's own, with the study's own sampler."""

    def __init__(self, arm: Arm, settings: RunSettings, url: str) -> None:
        extra = settings.votes // settings.trained - 1
        super().__init__(extra, adaptive=arm.waves, url=url, kind="exact", method=arm.method, **arm.params)
        self.temperature, self.tokens = settings.temperature, 0

    def _sample(
        self, trainer: Any, ids: Sequence[list[int]], each: int
    ) -> tuple[list[list[int]], None, dict[str, Any]]:
        found = sample(
            trainer.accelerator.unwrap_model(trainer.model),
            ids[::each],
            each=each,
            longest=LONGEST,
            end=trainer.processing_class.eos_token_id,
            temperature=self.temperature,
        )
        rollouts = list(chain.from_iterable(found))
        self.tokens += sum(len(r.ids) for r in rollouts)
        return [r.ids for r in rollouts], None, {"token_entropies": [r.entropies for r in rollouts]}


def _dealt(votes: Sequence[Any], hands: int) -> list[list[Any]]:
    """The votes that are not trained, handed to the group's rows in turn."""
    return [list(votes[i::hands]) for i in range(hands)]


def train(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Exercise],
    arm: Arm,
    settings: RunSettings,
    *,
    seed: int,
    url: str,
    evaluate: Evaluate = lambda _model, _step: None,
    at: Sequence[int] = (),
    asked: Mapping[str, Mapping[str, Any]] = NOTHING,
    in_order: bool = False,
) -> dict[str, Any]:
    """Train `model` in place; `evaluate(model, step)` is called after the steps in `at`. Returns the run's figures.

    `asked`: by prompt, what its group asks for instead of the arm's method and parameters.
    `in_order`: the problems are those of all steps, one after the other; else they are shuffled and come again.
    """
    os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
    import torch
    from datasets import Dataset
    from transformers import PrinterCallback, TrainerCallback
    from trl import GRPOTrainer

    class Evaluating(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            if state.global_step in at:
                evaluate(model, state.global_step)

    class AsTold(GRPOTrainer):  # type: ignore[misc]
        """Trains on the advantages of the reply. A row that has none is neither in the loss nor in its tokens."""

        def _generate_and_score_completions(self, inputs: Any) -> Any:
            found = super()._generate_and_score_completions(inputs)
            told = torch.tensor([torch.nan if a is None else a for a in reward.advantages])
            mask = found["completion_mask"] * ~told.isnan()[:, None]
            return {**found, "advantages": told.nan_to_num(), "completion_mask": mask, "num_items_in_batch": mask.sum()}

    if arm.selects:
        settings = replace(settings, trained=settings.votes)
    reward = _reward(arm, settings, url, seed, by_prompt=bool(asked))
    rollouts = WavesSource(arm, settings, url) if arm.waves else RolloutSource(arm, settings, Random(seed))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trainer = (AsTold if arm.own else GRPOTrainer)(
            model=model,
            processing_class=tokenizer,
            reward_funcs=reward,
            args=_config(arm, settings, seed, Path(folder), shuffled=not in_order),
            train_dataset=Dataset.from_list(
                [{"prompt": p.prompt, "gold": p.answer, ASKED: json.dumps(asked.get(p.prompt, {}))} for p in problems]
            ),
            callbacks=[Evaluating()],
            rollout_func=rollouts,
        )
        trainer.remove_callback(PrinterCallback)
        torch.manual_seed(seed)
        trainer.train()
    return {
        "settings": settings.record(),
        "steps": _curves(trainer.state.log_history),
        **({"report": _reported(watch_of(reward.scorer, trainer))} if arm.local is None else {}),
        "tokens": rollouts.tokens,
        "seconds": round(time.monotonic() - begun, 1),
    }


def _reported(watch: RunWatch) -> dict[str, list[float | None]]:
    """What the report's rules look at, by step."""
    return {recorded: watch.columns[name] for name, recorded in REPORTED.items()}


def _reward(arm: Arm, settings: RunSettings, url: str, seed: int, *, by_prompt: bool = False) -> Any:
    if arm.local is None:
        params = {**arm.params, **dict(settings.params)}
        own = {"own": arm.own} if arm.own else {}
        kind = OwnAdvantages if own else AskedByPrompt if by_prompt else DareReward
        words = {"method": arm.method, "train_on": arm.train_on, **own, **params}
        return kind(url, label="gold", kind="exact", on_error="raise", on_collapse="warn", **words)
    local, random = arm.local, Random(seed)

    def reward(completions: Sequence[str], **_: Any) -> list[float]:
        return [local(text, random) for text in completions]

    reward.__name__ = arm.name
    return reward


def _config(arm: Arm, settings: RunSettings, seed: int, folder: Path, *, shuffled: bool) -> Any:
    from trl import GRPOConfig

    return GRPOConfig(
        output_dir=str(folder),
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=settings.prompts * settings.trained,
        num_generations=settings.trained,
        max_completion_length=LONGEST,
        max_steps=settings.steps,
        shuffle_dataset=shuffled,
        learning_rate=settings.lr,
        lr_scheduler_type="linear",
        max_grad_norm=1.0,
        weight_decay=0.0,
        temperature=settings.temperature,
        beta=0.0,
        loss_type=arm.loss,
        scale_rewards="none" if arm.own or arm.loss == "dr_grpo" else "group",
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        seed=seed,
    )


def _curves(log: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    rows = [entry for entry in log if "loss" in entry]
    found = {}
    for source, name in KEPT.items():
        if rows and all(source in row for row in rows):
            found[name] = [round(float(row[source]), 5) for row in rows]
    return found
