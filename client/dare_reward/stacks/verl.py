"""verl 0.9:

    DARE_URL=http://127.0.0.1:8000 VERL_USE_EXTERNAL_MODULES=dare_reward.stacks.verl python -m verl.trainer.main_ppo ...

verl computes rewards one rollout at a time and before entropies. So this hooks the trainer's advantage step, which has
whole groups and full-vocabulary entropies, and writes the rewards there. Without DARE_URL it does nothing.

DARE_TRAINED=32: of each prompt's rollouts the first 32 that are there are trained, the others only vote (TTRL: 64
votes, 32 trained).
With `selection=...` in the URL the selected ones are trained instead. With `advantage=...` the service's advantages
take the place of verl's; those of a group that is to be dropped are 0.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ..answers import Kind
from ..answers.classes import Labels
from ..errors import ConfigError
from ..inputs import Group
from ..reply import Reply
from .adapter import EQUAL, Scorer, from_environment, groups_by, require_complete, scatter_to_rows
from .report import numbers
from .rollout import label_of, prompt_text

# A rollout's inputs, and verl's columns that hold them.
TOKENS: Final[Mapping[str, str]] = {
    "token_ids": "responses",
    "token_mask": "response_mask",
    "token_entropies": "entropy",
    "logprobs": "rollout_log_probs",
}
TESTED: Final = "0.9"
SCALE: Final = "set algorithm.adv_estimator=grpo and algorithm.norm_adv_by_std_in_grpo=false"


def install(scorer: Scorer, trained: int | None = None) -> None:
    """Hook `PPOTrainer._compute_advantage`, once; and what builds its replay buffer, which must not filter."""
    version = sys.modules["verl"].__version__
    if not version.startswith(f"{TESTED}."):
        raise ConfigError(
            f"dare_reward.stacks.verl hooks verl {TESTED}.*, not {version}: install 'verl=={TESTED}.*', or unset "
            "DARE_URL"
        )
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    original, build = PPOTrainer._compute_advantage, PPOTrainer._build_replay_buffer  # noqa: SLF001
    if getattr(original, "scorer", None) is not None:
        return

    def compute_advantage(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        scorer.check_scale("verl", divides=_divides(self.config.algorithm), remedy=SCALE)
        logged, update = score_batch(scorer, self, batch, trained)
        metrics.update(logged)
        kept = batch if update.trained is None else drop_votes(self, batch, metrics, update.trained)
        out = original(self, kept, metrics)
        return put_advantages(out, update.gains) if update.gains else out

    def build_replay_buffer(self: Any) -> Any:
        if (self.config.algorithm.get("filter_groups") or {}).get("enable"):
            raise ConfigError(
                "algorithm.filter_groups filters by the ground truth, before the service has scored anything: disable "
                "it. A group that carries nothing has no advantage"
            )
        return build(self)

    compute_advantage.scorer = scorer  # type: ignore[attr-defined]
    PPOTrainer._compute_advantage = compute_advantage  # noqa: SLF001
    PPOTrainer._build_replay_buffer = build_replay_buffer  # noqa: SLF001


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """What becomes of a step's sessions.

    trained   those that are trained on; None: all
    gains     advantages that replace verl's
    """

    trained: frozenset[str] | None
    gains: Mapping[str, float]


def session_update(
    names: Sequence[str], members: Mapping[str, Sequence[int]], reply: Reply | None, trained: int | None
) -> SessionUpdate:
    """By the reply to the groups `members`, whose entries number the sessions `names`.

    Where the others select, a group that could not be scored trains as many of its sessions as they do, from the first
    on: verl trains multiples of a number, and a step must not end the run for one group. Its advantages are 0.
    """
    on = None if trained is None else trained_sessions(names, members.values(), trained)
    if reply is None:
        return SessionUpdate(on, {})
    chosen: set[str] = set()
    gains: dict[str, float] = {}
    selected = [len(one.select) for one in reply.groups if one.select is not None]
    for at, one in zip(members.values(), reply.groups, strict=True):
        sessions = [names[i] for i in at]
        chosen |= set(sessions[: max(selected, default=0)]) if one.select is None else {sessions[i] for i in one.select}
        if one.error is not None or one.drop not in EQUAL:
            gains |= dict.fromkeys(sessions, 0.0)
        elif one.advantages is not None:
            gains |= {name: 0.0 if a is None else a for name, a in zip(sessions, one.advantages, strict=True)}
    return SessionUpdate(frozenset(chosen) if selected else on, gains)


def _divides(algorithm: Any) -> bool:
    """verl's advantages are divided by the deviation of their group."""
    estimator = algorithm.get("adv_estimator")
    name = getattr(estimator, "value", estimator)
    if name in {"grpo_vectorized", "gdpo"}:  # verl does not hand them its setting
        return True
    return name in {"grpo", "grpo_passk"} and bool(algorithm.get("norm_adv_by_std_in_grpo", True))


def score_batch(
    scorer: Scorer, trainer: Any, batch: Any, trained: int | None = None
) -> tuple[dict[str, float], SessionUpdate]:
    """Score the last output of each session and write the session's reward to all its rows.

    Returns diagnostics, and what else becomes of the sessions.
    """
    import torch

    data = columns_of(batch.keys, batch.partition_id, ["prompts", *TOKENS.values(), "reward_model"])
    masks = data["response_mask"].unbind()
    padding = [bool(tag.get("is_padding")) or not int(m.sum()) for tag, m in zip(batch.tags, masks, strict=True)]
    names, members, groups = groups_of(scorer, trainer, batch.keys, data, padding=padding, trained=trained)
    rewards, reply = scorer.score(groups, step=getattr(trainer, "global_steps", None))
    every = require_complete(scatter_to_rows(rewards, members.values(), len(names)))
    of_session = dict(zip(names, every, strict=True))
    scores = []
    for key, response in zip(batch.keys, data["responses"].unbind(), strict=True):
        scores.append(torch.zeros(len(response), dtype=torch.float32))
        scores[-1][-1] = of_session.get(session_of(key), 0.0)
    put_columns(batch, {"rm_scores": scores})
    logged = {f"dare/{name}": value for name, value in numbers(reply, groups, dict(scorer.params)).items()}
    return logged, session_update(names, members, reply, trained)


def put_advantages(batch: Any, gains: Mapping[str, float]) -> Any:
    """Write advantages of sessions to the tokens that the policy generated; those of other sessions stay verl's."""
    import torch

    names = ("advantages", "returns")
    data = columns_of(batch.keys, batch.partition_id, ["response_mask", *names])
    masks, columns = data["response_mask"].unbind(), {}
    for name in names:
        columns[name] = [
            mask.to(torch.float32) * gains[session_of(key)] if session_of(key) in gains else row.to(torch.float32)
            for key, mask, row in zip(batch.keys, masks, data[name].unbind(), strict=True)
        ]
    return put_columns(batch, columns)


def drop_votes(trainer: Any, batch: Any, metrics: dict[str, Any], trained: frozenset[str]) -> Any:
    """The batch of the sessions that are trained on, balanced over the ranks again.

    Where sessions failed, fewer may be there than verl's step takes. Then verl's padding, which trains nothing, and
    after it votes of the other prompts stand in for them: no run ends over a failed session.
    """
    import transfer_queue as tq

    rows = list(zip(batch.keys, batch.tags, strict=True))
    padding = [k for k, tag in rows if tag.get("is_padding")]
    real = [k for k, tag in rows if not tag.get("is_padding")]
    kept, votes = ([k for k in real if (session_of(k) in trained) is on] for on in (True, False))
    ranks = max(trainer.actor_rollout_wg._dispatch_info["actor"]) + 1  # noqa: SLF001
    multiple = trainer._get_required_batch_multiple(ranks)  # noqa: SLF001
    if lacking := -len(kept) % multiple:
        whole = len({*Counter(name.rsplit("_", 1)[0] for name in {*map(session_of, real)}).values()}) == 1
        spare = [*padding, *votes]
        if (whole and not padding) or len(spare) < lacking:
            raise ConfigError(
                f"{len(kept)} rollouts are to be trained (DARE_TRAINED, selection); verl trains multiples of "
                f"{multiple} (of the ranks and of ppo_mini_batch_size * rollout.n)"
            )
        kept += spare[:lacking]
    tq.kv_clear(keys=sorted({*batch.keys} - {*kept}), partition_id=batch.partition_id)
    return trainer._balance_batch(batch.select_keys(kept), metrics)  # noqa: SLF001


def columns_of(keys: Sequence[str], partition: str, names: Sequence[str]) -> Any:
    """What verl's queue holds of these rows."""
    import transfer_queue as tq

    return tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=names)


def put_columns(batch: Any, columns: Mapping[str, Sequence[Any]]) -> Any:
    """Write columns, a tensor of its own length for each row of the batch."""
    import torch
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    fields = {name: torch.nested.as_nested_tensor(rows, layout=torch.jagged) for name, rows in columns.items()}
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=tu.get_tensordict(fields))


# --- rows: keys are {uid}_{session}_{index} ---------------------------------------------------------------------------


def final_rows(keys: Sequence[str], padding: Sequence[bool]) -> dict[str, int]:
    """The row of the last output of each session; keys are {uid}_{session}_{index}, padding rows are no session.

    In the order of the sessions, not of the rows, which verl shuffles: a tie goes to the answer that was seen first.
    """
    real = (i for i, pad in enumerate(padding) if not pad)
    return {session_of(keys[i]): i for i in sorted(real, key=lambda i: [*map(int, keys[i].rsplit("_", 2)[1:])])}


def groups_of(
    scorer: Scorer, trainer: Any, keys: Sequence[str], data: Any, *, padding: Sequence[bool], trained: int | None
) -> tuple[list[str], dict[str, list[int]], list[Group]]:
    """The sessions of these rows, for each prompt the numbers of its sessions among them, and the prompts' groups, of
    the columns of `data` that are there.

    A session is the first `trained` of its prompt's, or only votes. Those that failed are missing: verl numbers them.
    """
    last, asked = final_rows(keys, padding), prompts_of(trainer, keys, data)
    names, members = list(last), groups_by(map(uid_of, last))
    columns = {name: data[field].unbind() for name, field in TOKENS.items() if field in data}
    on = trained_sessions(names, members.values(), trained)
    rows = [said(trainer, columns, i) | {"trained": name in on} for name, i in last.items()]
    labels = [truth_of(data, i, scorer.kind) for i in last.values()]
    groups = [
        scorer.group(
            prompt,
            [rows[j] for j in at],
            tokenizer=trainer.tokenizer,
            prompt=asked.get(prompt),
            labels=[labels[j] for j in at],
            size=1 + max(number_of(names[j]) for j in at),
        )
        for prompt, at in members.items()
    ]
    return names, members, groups


def prompts_of(trainer: Any, keys: Sequence[str], data: Any) -> dict[str, str]:
    """The text of each prompt by its uid, as its sessions' first output was asked: it tells the asked question."""
    if "prompts" not in data:
        return {}
    first = {uid_of(session_of(key)): i for i, key in enumerate(keys) if key.endswith("_0")}
    column = data["prompts"].unbind()
    texts = {uid: trainer.tokenizer.decode(column[i].tolist(), skip_special_tokens=True) for uid, i in first.items()}
    return {uid: text for uid, words in texts.items() if (text := prompt_text(words))}


def said(trainer: Any, columns: Mapping[str, Sequence[Any]], i: int) -> dict[str, Any]:
    """The tokens of a response, their numbers and mask, and how it ended; the reader of rollouts decodes those that
    the policy generated. Without entropies (rollout_correction.bypass_mode) log-probabilities stand in for them."""
    row = {name: column[i] for name, column in columns.items()}
    full = len(row["token_ids"]) >= trainer.config.data.max_response_length
    return row | {"finish_reason": "length" if full else "stop"}


def truth_of(data: Any, i: int, kind: Kind = "math") -> Labels | None:
    """The ground truth of a row: for diagnostics, and for `labelled=gt`. A row of label-free data has none."""
    model: Any = data["reward_model"][i] if "reward_model" in data else None
    return label_of(model.get("ground_truth") if hasattr(model, "get") else model, kind)


def trained_sessions(names: Sequence[str], members: Iterable[Sequence[int]], trained: int | None) -> frozenset[str]:
    """The sessions to train on: of each prompt the first `trained` that are there; None: all."""
    return frozenset(names[i] for rows in members for i in rows[:trained])


def session_of(key: str) -> str:
    return key.rsplit("_", 1)[0]


def number_of(session: str) -> int:
    return int(session.rsplit("_", 1)[1])


def uid_of(session: str) -> str:
    return session.rsplit("_", 1)[0]


# --- how verl loads this ----------------------------------------------------------------------------------------------


def _load() -> None:
    """What both loaders of verl (VERL_USE_EXTERNAL_MODULES and the entry point) run. verl swallows an exception of an
    entry point and would train on without rewards, so a failure ends the process."""
    if os.environ.get("DARE_URL") and "verl" in sys.modules:
        try:
            trained = os.environ.get("DARE_TRAINED") or None
            if trained and not (trained.isdecimal() and int(trained)):
                raise ConfigError(f"DARE_TRAINED={trained} must be the rollouts of each prompt that train, 1 or more")
            install(
                from_environment("verl").require_supported("verl", lacks={"gaps", "masks"}), trained and int(trained)
            )
        except (ConfigError, ValueError, ImportError, AttributeError) as error:
            raise SystemExit(f"dare-reward: {error}") from error


def compute_score(data_source: Any, solution_str: str, ground_truth: Any, extra_info: Any = None, **_: Any) -> float:
    """1.0 if the answer in `solution_str` equals `ground_truth`, else 0.0: what validation needs.

    `reward.custom_reward_function.path=pkg://dare_reward.stacks.verl`. The answer is read as DARE_URL says. In training
    the hook replaces what this returns.
    """
    return _scorer(os.environ.get("DARE_URL") or "http://127.0.0.1:8000").grade({"text": solution_str}, ground_truth)


@cache
def _scorer(url: str) -> Scorer:
    return Scorer.of(url)


_load()
