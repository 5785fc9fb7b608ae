"""TRL: `reward_funcs=DareReward("http://127.0.0.1:8000")` for GRPOTrainer and RLOOTrainer.

TRL passes a rank's rows and not how many of them are a group, and a group may be split over ranks. So rows are gathered
from all ranks, scored at one place, and each rank gets its own rewards back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal

from ..errors import ConfigError, RequestError, unknown_name
from ..inputs import Group
from ..reply import Reply
from .adapter import Rewards, Scorer, scored_together, zero_dropped
from .report import numbers, say_once
from .rollout import label_of, prompt_text
from .trl_rollout import forward_entropies, prompt_ids_of, put_columns, rollout, text_of

# What a rollout_func may bring. A dataset column of one of these names would be taken for it.
EXTRAS = (
    "token_entropies", "mean_entropy", "sampled_logprobs", "token_mask", "topk_logprobs",
    "token_self_certainty", "vote_only", "finish_reason",
)  # fmt: skip
SCALE = 'set scale_rewards="batch" (or "none") in GRPOConfig'
EACH = "normalize_then_sum"  # multi_objective_aggregation: each function's rewards by their group's deviation
SUM = 'set multi_objective_aggregation="sum_then_normalize" and scale_rewards="batch" (or "none") in GRPOConfig'
UNSEEN = f"async_grpo does; in GRPOTrainer {SCALE}"
MASKS = (
    "train_on=reasoning needs rollout_func=VoteRollout(extra=0) of dare_reward.stacks.trl_rollout (GRPOTrainer only)"
)
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # of an image, which each row of a prompt may hold a copy of
SELECTS = frozenset({"settled", "selection", "selection_size"})
OF_GROUP = {"name", "prompt", "label", "vote_only"}  # keys of a row that are no inputs of its rollout
SOURCES = {"token_entropies", "mean_entropy", "sampled_logprobs"}


class DareReward:
    """A reward function. `settings` are those of `Scorer.of`; if the service stays away it returns None (abstains).

    Args:
        num_generations: only where the trainer does not call it itself (async_grpo): rollouts of a group
        entropy: forward: the trainer's own forward, unless a rollout_func brings entropies; none: votes alone
        label: a dataset column with the true answer: for diagnostics, and for `labelled="gt"`

    With `train_on="reasoning"` the trainer's rollout_func (`VoteRollout`) masks the answers' tokens. With
    `selection="ddrl"` what is not selected has no reward (None), which TRL leaves out of a group's mean and advantages.
    """

    def __init__(
        self, url: str, *, num_generations: int | None = None, entropy: Literal["forward", "none"] = "forward",
        label: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        if entropy not in (choices := ("forward", "none")):
            raise RequestError(f"entropy must be one of {', '.join(choices)}, not {entropy!r}", code="parameter")
        self.scorer = Scorer.of(url, defaults={"on_error": "abstain"}, **settings).require_supported(
            "TRL", takes=SELECTS
        )
        if self.scorer.labelled == "gt" and label is None:
            raise ConfigError("labelled=gt needs label=COLUMN: without it no group has a label")
        self.num_generations, self.entropy, self.label = num_generations, entropy, label

    def __call__(self, prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        trainer = _trainer(columns)
        self._check_scale(trainer)
        rows = self._rows(trainer, prompts, completions, columns)
        scored = scored_together(rows, lambda every: self._score(trainer, every, columns), **_place(trainer))
        return _logged(scored, columns)

    def _check_scale(self, trainer: Any) -> None:
        """RequestError if the trainer divides by a group's deviation what must keep its scale, and a warning where no
        trainer calls (async_grpo)."""
        args = getattr(trainer, "args", None)
        each = getattr(args, "multi_objective_aggregation", None) == EACH  # whatever scale_rewards is
        divides = None if args is None else each or getattr(args, "scale_rewards", None) in (True, "group")
        self.scorer.check_scale("TRL", divides=divides, remedy=UNSEEN if args is None else SUM if each else SCALE)

    def _rows(
        self, trainer: Any, prompts: Sequence[Any], completions: Sequence[Any], columns: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        self._check_label(columns)
        self._log_masks(columns)
        extras = {k: columns[k] for k in EXTRAS if k in columns}
        ids = columns.get("completion_ids") or [None] * len(completions)
        labels = {} if self.label is None else {self.label: columns[self.label]}
        for name, column in {"prompts": prompts, "completion_ids": ids, **labels, **extras}.items():
            if len(column) != len(completions):
                raise RequestError(
                    f"{name} has {len(column)} entries for {len(completions)} completions: a rollout_func and a data "
                    "set give one for each",
                    code="length",
                )
        rows = [
            {"name": _digest(p), "prompt": prompt_text(p), **rollout(trainer, text_of(c), i)}
            for p, c, i in zip(prompts, completions, ids, strict=True)
        ]
        self._check_order(trainer, prompts)
        if self.entropy == "forward" and trainer is not None and not extras.keys() & SOURCES:
            extras |= forward_entropies(trainer, prompt_ids_of(trainer, prompts), ids)
        if self.label is not None:
            extras["label"] = [label_of(x, self.scorer.kind) for x in columns[self.label]]
        put_columns(rows, extras)
        for row, completion in zip(rows, completions, strict=True):
            if isinstance(completion, str) and row.keys() >= {"token_mask", "token_ids"}:
                del row["text"]  # it holds what tools said: the policy's own words are decoded
        return rows

    def _check_label(self, columns: Mapping[str, Any]) -> None:
        if self.label is None or self.label in columns:
            return
        known = [name for name, column in columns.items() if isinstance(column, list) and name != "completion_ids"]
        why = unknown_name("column of the dataset", self.label, known, listed=True)
        if self.label in {"prompt", "completion"}:
            why = f"{self.label!r} holds no answers. Name the dataset's column of right answers"
        raise RequestError(f"DareReward(label=...): {why}")

    def _check_order(self, trainer: Any, prompts: Sequence[Any]) -> None:
        """RequestError where a group holds rows of several prompts. TRL orders the rows of its trainers, and an
        environment may write into a prompt, so a trainer's run gets a warning instead."""
        size = self._size(trainer)
        if not size or _place(trainer)["ranks"] > 1:
            return
        for start in range(0, len(prompts), size):
            different = {ADDRESS.sub("", repr(prompt)) for prompt in prompts[start : start + size]}
            if len(different) > 1:
                text = (
                    f"rows {start} to {min(start + size, len(prompts)) - 1} are one group of num_generations={size} "
                    f"but hold {len(different)} prompts: keep the rows of a prompt together"
                )
                if trainer is None:
                    raise RequestError(text, code="groups")
                say_once(text)
                return

    def _log_masks(self, columns: Mapping[str, Any]) -> None:
        if self.scorer.train_on == "all":
            return
        if "no_span" not in columns:
            raise RequestError(MASKS)
        lost = columns["no_span"]
        columns.get("log_metric", lambda *_: None)("dare/no_span", sum(lost) / max(len(lost), 1))

    def _groups(self, trainer: Any, rows: Sequence[Mapping[str, Any]]) -> list[Group]:
        """Consecutive rows; after a group's own come its votes, which are scored and not trained.

        A group is named after its prompt, so that the report knows the prompt again in a later step.
        """
        size = self._size(trainer)
        if not size or size < 0 or len(rows) % size:
            raise RequestError(
                f"{len(rows)} completions are not whole groups of num_generations={size}; pass num_generations"
            )
        out, seen = list[Group](), Counter[str]()
        for start in range(0, len(rows), size):
            trained = rows[start : start + size]
            name, prompt = (trained[0][key] for key in ("name", "prompt"))
            seen[name] += 1
            members = [{k: v for k, v in r.items() if k not in OF_GROUP} for r in trained]
            votes = [{**v, "trained": False} for r in trained for v in r.get("vote_only") or ()]
            once = name if seen[name] == 1 else f"{name}-{seen[name]}"
            labels = [r.get("label") for r in trained]
            tokenizer = getattr(trainer, "_tokenizer", None)
            out.append(self.scorer.group(once, members + votes, tokenizer=tokenizer, labels=labels, prompt=prompt))
        return out

    def _size(self, trainer: Any) -> int | None:
        if trainer is None or self.num_generations:
            return self.num_generations
        return int(trainer.num_generations if _trains(trainer) else trainer.num_generations_eval)

    def _score(self, trainer: Any, rows: Sequence[Mapping[str, Any]], columns: Mapping[str, Any]) -> list[_Result]:
        """Of each rollout that is trained on; of an evaluation without the state of the run."""
        groups, state = self._groups(trainer, rows), columns.get("trainer_state")
        step, trains = (None if state is None else int(state.global_step)), _trains(trainer)
        rewards, reply = (self.scorer if trains else self.scorer.unlogged).score(groups, step=step)
        shared = {f"dare/{name}": value for name, value in numbers(reply, groups, dict(self.scorer.params)).items()}
        size = self._size(trainer)
        paid = _selected(zero_dropped(rewards, reply), reply, size)
        return [_Result(reward, shared) for of_group in paid for reward in of_group[:size]]


@dataclass(frozen=True, slots=True)
class _Result:
    """What one place found of a rollout: its reward, and the step's numbers, which all rollouts share."""

    reward: float | None
    shared: Mapping[str, float]


def _digest(prompt: Any) -> str:
    return blake2b(repr(prompt).encode("utf-8", "replace"), digest_size=6).hexdigest()


def _logged(scored: Sequence[_Result], columns: Mapping[str, Any]) -> list[float | None]:
    """The rewards, after each rank has told TRL the same numbers."""
    metric = columns.get("log_metric", lambda *_: None)
    waves = {f"dare/{name}": value for name, value in _waves(columns).items()}
    for name, value in {**scored[0].shared, **waves}.items() if scored else ():
        metric(name, value)
    return [one.reward for one in scored]


def _selected(rewards: Rewards, reply: Reply | None, size: int | None) -> Rewards:
    """Rewards of what the reply selects; None for the others."""
    if reply is None:
        return rewards
    out = []
    for of_group, one in zip(rewards, reply.groups, strict=True):
        if one.select is not None and size is not None and len(of_group) > size:
            raise RequestError("selection chooses among all votes, and TRL trains its own completions: use extra=0")
        out.append([r if one.select is None or i in one.select else None for i, r in enumerate(of_group)])
    return out


def _trainer(columns: Mapping[str, Any]) -> Any:
    """The trainer that calls: `log_metric` is its method. None where something else calls (async_grpo)."""
    owner = getattr(columns.get("log_metric"), "__self__", None)
    return owner if hasattr(owner, "num_generations") else None


def _trains(trainer: Any) -> bool:
    return trainer is None or bool(trainer.model.training)


def _waves(columns: Mapping[str, Any]) -> dict[str, float]:
    """Of a rollout_func whose votes come in waves: votes saved of a prompt, and the risk that was taken."""
    sent = {name: columns[name] for name in ("votes_saved", "settle_risk") if columns.get(name)}
    return {name: sum(map(float, column)) / len(column) for name, column in sent.items()}


def _place(trainer: Any) -> dict[str, int]:
    if trainer is None:
        return {"rank": 0, "ranks": 1}
    return {"rank": trainer.accelerator.process_index, "ranks": trainer.accelerator.num_processes}
