"""TRL: token entropies by the trainer's own forward; `VoteRollout`, a rollout_func with completions that only vote, and
with masks over the answers' tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from ..errors import RequestError
from ..messages import last_reply
from ..methods import find
from ..openrlhf import AnswerRules
from ..votes import Waves, require_ballots
from .adapter import Scorer
from .rollout import outside_answer, prompt_text

OF_TRL: Final = {"prompt_ids", "completion_ids", "logprobs"}  # columns of a sample that hold nothing for a reward
# TRL keeps a rollout_func's `logprobs` to itself; under another name they reach the reward function.
FIELD: Final = {"sampled_logprobs": "logprobs"}


class VoteRollout:
    """`rollout_func=VoteRollout(extra=1)`: beside each trained completion, `extra` more that only vote.

    With num_generations=32 and extra=1 the label comes from 64 votes and 32 are trained, as in TTRL. They come from the
    trainer's own generation, whichever that is. GRPOTrainer only: RLOOTrainer has no rollout_func.

    If a reward function of the trainer says train_on="reasoning", the tokens of the final answer are out of the loss
    and of its KL term; TRL takes the mask as `env_mask`. `VoteRollout(extra=0)` does that alone.

    Args:
        entropy: forward: by one more forward of the trainer; logprob: estimated by the log-probabilities of vLLM
        adaptive: votes in waves, and only for prompts whose votes do not suffice: auto, or a line such as
            delta=0.02&wave=4 (docs/stopping.md); on one process, and for methods that pay the most voted answer
        url: with adaptive: the reward service, as DareReward gets it, with method and parameters; `settings` likewise
    """

    def __init__(
        self, extra: int = 1, *, entropy: Literal["forward", "logprob"] = "forward", adaptive: str = "",
        url: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        if extra < 0:
            raise RequestError(f"extra={extra}: a number of completions per trained one, 0 or more", code="parameter")
        if bool(adaptive) != (url is not None) or (settings and not adaptive):
            raise RequestError(
                "adaptive needs url, the address of the reward service as DareReward has it, and url needs adaptive",
                code="parameter",
            )
        self.extra, self.entropy, self.adaptive = extra, entropy, adaptive
        self.scorer = None if url is None else Scorer.of(url, **settings)
        if self.scorer is not None:
            Waves.read(adaptive)
            require_ballots(find(self.scorer.method))

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, list[Any]]:
        ids = prompt_ids_of(trainer, prompts)
        size = trainer.num_generations if trainer.model.training else trainer.num_generations_eval
        if self.scorer is not None:
            return self._in_waves(trainer, self.scorer, prompts, ids, size)
        columns = self._sample(trainer, ids, size)
        votes = [_votes(trainer, self._sample(trainer, ids, size)) for _ in range(self.extra)]
        columns |= {"vote_only": [[more[i] for more in votes] for i in range(len(prompts))]}
        return columns | loss_masks(trainer, prompts, columns["completion_ids"])

    def _in_waves(
        self, trainer: Any, scorer: Scorer, prompts: Sequence[Any], ids: list[list[int]], size: int
    ) -> dict[str, list[Any]]:
        """The trained completions of all prompts, then votes for the prompts whose votes do not suffice."""
        if trainer.accelerator.num_processes > 1 or len(ids) % size:
            raise RequestError("VoteRollout(adaptive=...) needs whole groups, and so one process: leave adaptive out")
        self._check_same(trainer, scorer)
        waves = Waves.read(self.adaptive, votes=size * (self.extra + 1))
        columns = self._sample(trainer, ids, size)
        trained = _votes(trainer, columns)
        groups = range(len(ids) // size)
        votes: list[list[dict[str, Any]]] = [[] for _ in groups]
        risk, asked, still = dict.fromkeys(groups, 0.0), size, list(groups)
        while still and asked < waves.votes:
            members = [trained[p * size : (p + 1) * size] + [{**v, "trained": False} for v in votes[p]] for p in still]
            sent = [
                scorer.group(str(p), rows, prompt=prompt_text(prompts[p * size]))
                for p, rows in zip(still, members, strict=True)
            ]
            wanted = {p: scorer.votes_suffice(one, waves) for p, one in zip(still, sent, strict=True)}
            risk |= {p: w.risk for p, w in wanted.items() if not w.more}
            still = [p for p in still if wanted[p].more]
            # All groups have as many votes, so a wave is as long for each: one call of the trainer's own generation.
            more = min(waves.wave, waves.votes - asked)
            asked += more
            for p, wave in zip(still, self._wave(trainer, [ids[p * size] for p in still], more), strict=True):
                votes[p] += wave
        columns |= {
            "vote_only": [votes[i // size][i % size :: size] for i in range(len(ids))],
            "votes_saved": [waves.votes - size - len(votes[i // size]) for i in range(len(ids))],
            "settle_risk": [risk[i // size] for i in range(len(ids))],
        }
        return columns | loss_masks(trainer, prompts, columns["completion_ids"])

    def _check_same(self, trainer: Any, scorer: Scorer) -> None:
        """RequestError if no reward function of the trainer pays what settles the votes, or one chooses among all."""
        asked = (scorer.method, scorer.params, scorer.kind)
        paying = [f for f in trainer.reward_funcs if isinstance(getattr(f, "scorer", None), Scorer)]
        if paying and asked not in [(f.scorer.method, f.scorer.params, f.scorer.kind) for f in paying]:
            raise RequestError(
                f"VoteRollout settles votes by {scorer.method} and no reward function pays it: give VoteRollout and "
                "DareReward the same method, parameters and kind",
                code="parameter",
            )
        if any("selection" in dict(f.scorer.update) for f in paying):
            raise RequestError("selection chooses among all votes, and TRL trains its own completions: use extra=0")

    def _wave(self, trainer: Any, prompts: Sequence[list[int]], more: int) -> list[list[dict[str, Any]]]:
        """`more` votes for each prompt."""
        if not prompts:
            return []
        rows = _votes(trainer, self._sample(trainer, [prompt for prompt in prompts for _ in range(more)], more))
        return [rows[start : start + more] for start in range(0, len(rows), more)]

    def _sample(self, trainer: Any, ids: Sequence[list[int]], each: int) -> dict[str, Any]:
        """A completion for each row of `ids`, `each` rows of a prompt after one another: the columns that TRL and its
        reward function are told."""
        completions, logprobs = trainer._generate_single_turn(ids, None, {}, each)  # noqa: SLF001
        if self.entropy == "forward":
            fields = forward_entropies(trainer, ids, completions)
        elif logprobs is None:
            raise RequestError(
                "this generation gives no log-probabilities (only vLLM does): use VoteRollout(entropy='forward')"
            )
        else:
            fields = {"sampled_logprobs": logprobs}
        return {"prompt_ids": ids, "completion_ids": completions, "logprobs": logprobs, **fields}


def loss_masks(trainer: Any, prompts: Sequence[Any], completions: Sequence[Sequence[int]]) -> dict[str, list[Any]]:
    """TRL's mask of the tokens to train, and for each rollout whether its answer's tokens could not be told."""
    asking = [f for f in trainer.reward_funcs if getattr(getattr(f, "scorer", None), "train_on", "all") != "all"]
    if not asking:
        return {}
    rules = AnswerRules(dict(asking[0].scorer.params), asking[0].scorer.kind)
    tokenizer = trainer._tokenizer  # noqa: SLF001
    texts = tokenizer.batch_decode(completions, skip_special_tokens=True)
    masked = [
        outside_answer(
            {**rollout(trainer, text, ids), "prompt": prompt_text(prompt)}, list(ids), tokenizer=tokenizer, rules=rules
        )
        for prompt, text, ids in zip(prompts, texts, completions, strict=True)
    ]
    return {"env_mask": [[int(k) for k in mask] for mask, _ in masked], "no_span": [lost for _, lost in masked]}


def _votes(trainer: Any, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was sampled, as rollouts. To decode them takes time: those that TRL trains on are decoded by itself."""
    completions = columns["completion_ids"]
    texts = trainer.processing_class.batch_decode(completions, skip_special_tokens=True)
    rows = [rollout(trainer, text, ids) for text, ids in zip(texts, completions, strict=True)]
    put_columns(rows, {name: column for name, column in columns.items() if name not in OF_TRL})
    return rows


def put_columns(rows: Sequence[dict[str, Any]], columns: Mapping[str, Sequence[Any]]) -> None:
    """Each row's entry of each column, by the input's own name."""
    for name, column in columns.items():
        for row, value in zip(rows, column, strict=True):
            row[FIELD.get(name, name)] = value


def rollout(trainer: Any, text: str, ids: Sequence[int] | None) -> dict[str, Any]:
    """Text and how it ended: without a last token that ends, it was cut off."""
    if trainer is None or ids is None:
        return {"text": text}
    ends = {*trainer.eos_token_ids, trainer._tokenizer.pad_token_id}  # noqa: SLF001
    ended = "stop" if len(ids) and int(ids[-1]) in ends else "length"
    return {"text": text, "finish_reason": ended, "token_ids": list(map(int, ids))}


def text_of(completion: Any) -> str:
    """The text of a completion: a string, or messages whose last one by the assistant is it."""
    if isinstance(completion, str):
        return completion
    return last_reply(completion) or ""


def prompt_ids_of(trainer: Any, prompts: Sequence[Any]) -> list[list[int]]:
    """The prompts as the trainer tokenises them."""
    ids, images, _ = trainer._tokenize_prompts(prompts)  # noqa: SLF001
    if images is not None or getattr(trainer, "tools", None):
        raise RequestError(
            "with tools or images, a rollout_func of your own must bring token_entropies, or pass entropy='none'"
        )
    return list(ids)


def forward_entropies(
    trainer: Any, prompt_ids: Sequence[Sequence[int]], completion_ids: Sequence[Sequence[int]]
) -> dict[str, list[Any]]:
    """H of each generated token in nats, full vocabulary, and its log-probability, both at the trainer's temperature: a
    float32 array per completion.

    One more forward without gradients, by the trainer's helper and in its chunks.
    """
    import torch
    from trl.models.utils import disable_gradient_checkpointing
    from trl.trainer.utils import pad

    lengths = list(map(len, completion_ids))
    width, device = max([1, *lengths]), trainer.accelerator.device
    pieces = []
    for rows, side in ((prompt_ids, "left"), (completion_ids, "right")):
        tensors = [torch.tensor(list(r), dtype=torch.long) for r in rows]
        filler = trainer._tokenizer.pad_token_id  # noqa: SLF001
        pieces.append((pad(tensors, filler, side), pad([torch.ones_like(t) for t in tensors], 0, side)))
    ids, mask = (torch.cat(part, dim=1).to(device) for part in zip(*pieces, strict=True))
    arguments = trainer.args
    chunk = arguments.per_device_train_batch_size if trainer.model.training else arguments.per_device_eval_batch_size
    plain = disable_gradient_checkpointing(trainer.model, arguments.gradient_checkpointing_kwargs)
    with torch.no_grad(), plain:
        forward = trainer._get_per_token_logps_and_entropies  # noqa: SLF001
        logprobs, entropies, *_ = forward(trainer.model, ids, mask, width, batch_size=chunk, compute_entropy=True)
    if entropies is None:
        raise RequestError(
            "this trainer gives no entropies (Unsloth replaces its forward); use DareReward(..., entropy='none')"
        )
    tables = {"token_entropies": entropies.float().clamp(min=0)}
    if logprobs is not None:
        tables["sampled_logprobs"] = logprobs.float().clamp(max=0)
    return {
        name: [row[:n] for row, n in zip(table.cpu().numpy(), lengths, strict=True)] for name, table in tables.items()
    }
