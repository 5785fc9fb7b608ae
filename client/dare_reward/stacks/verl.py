"""verl 0.9:

    DARE_URL=http://127.0.0.1:8000 VERL_USE_EXTERNAL_MODULES=dare_reward.stacks.verl python -m verl.trainer.main_ppo ...

verl computes rewards one rollout at a time and before entropies. So this hooks the trainer's advantage step, which has
whole groups and full-vocabulary entropies, and writes the rewards there. Without DARE_URL it does nothing.

DARE_TRAINED=32: of each prompt's rollouts the first 32 that are there are trained, the others only vote (TTRL: 64
votes, 32 trained).
With `selection=...` in the URL the selected ones are trained instead. With `advantage=...` the service's advantages
take the place of verl's; those of a group that is to be dropped are 0. With `train_on=reasoning` the tokens of the
final answers are out of the loss. With algorithm.filter_groups, metric `dare`, verl samples other prompts for the
groups that the votes, or with `labelled=gt` their labels, say to drop.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from ..errors import ConfigError
from ..openrlhf import AnswerRules
from .adapter import EQUAL, Scorer, from_environment, groups_by, require_complete, scatter_to_rows
from .answer_tokens import outside_answer
from .report import log_groups, numbers, say_once
from .rollout import own_stretch
from .verl_filter import by_votes, filter_groups, filters
from .verl_rows import TOKENS, final_rows, groups_of, padding_of, said, session_of, trained_sessions

if TYPE_CHECKING:
    from ..reply import Reply

TESTED: Final = "0.9"
SCALE: Final = "set algorithm.adv_estimator=grpo and algorithm.norm_adv_by_std_in_grpo=false"
FIELDS: Final = ["uid", *TOKENS.values(), "reward_model"]


def install(scorer: Scorer, trained: int | None = None) -> None:
    """Hook `PPOTrainer._compute_advantage`, and what builds its replay buffer, once."""
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
        _check_masks(scorer, self)
        logged, update = score_batch(scorer, self, batch, trained)
        metrics.update(logged)
        _stop(scorer, self, logged)
        kept = batch if update.trained is None else drop_votes(self, batch, metrics, update.trained)
        out = original(self, kept, metrics)
        if update.gains:
            out = put_advantages(out, update.gains)
        return out if scorer.train_on == "all" else mask_answers(scorer, self, out, metrics)

    def build_replay_buffer(self: Any) -> Any:
        asked, buffer = filters(self.config), build(self)
        if asked and getattr(buffer, "filter_groups_metric", None):  # a sampler of the user's own filters by itself
            filter_groups(by_votes(scorer), self, buffer, trained)
        return buffer

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
    chosen: set[str] = set()
    gains: dict[str, float] = {}
    selected = [len(one.select) for one in (reply.groups if reply else ()) if one.select is not None]
    for at, one in zip(members.values(), reply.groups if reply else (), strict=reply is not None):
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
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    filters(trainer.config)
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=FIELDS)
    last = final_rows(batch.keys, padding_of(batch, data["response_mask"].unbind()))
    members = groups_by(data["uid"][i] for i in last.values())
    groups = groups_of(scorer, trainer, data, last, members, trained=trained)
    step = getattr(trainer, "global_steps", None)
    rewards, reply = scorer.score(groups, step=step)
    log_groups(reply, groups, step)
    of_session = dict(zip(last, require_complete(scatter_to_rows(rewards, members.values(), len(last))), strict=True))
    scores = []
    for key, response in zip(batch.keys, data["responses"].unbind(), strict=True):
        scores.append(torch.zeros(len(response), dtype=torch.float32))
        scores[-1][-1] = of_session.get(session_of(key), 0.0)
    fields = tu.get_tensordict({"rm_scores": torch.nested.as_nested_tensor(scores, layout=torch.jagged)})
    tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)
    watch = scorer.watch(reply, step, trainer)
    state = {} if watch is None else watch.numbers
    logged = {f"dare/{name}": value for name, value in {**numbers(reply, groups), **state}.items()}
    return logged, session_update(list(last), members, reply, trained)


def _stop(scorer: Scorer, trainer: Any, logged: Mapping[str, float]) -> None:
    """Where the run collapses, the next step is verl's last one: it saves and validates as at its usual end."""
    if scorer.on_collapse == "stop" and logged.get("dare/collapsed"):
        trainer.total_training_steps = min(trainer.total_training_steps, trainer.global_steps + 1)
        say_once("the run collapses: the training ends after the next step (on_collapse=stop)")


def put_advantages(batch: Any, gains: Mapping[str, float]) -> Any:
    """Write advantages of sessions to the tokens that the policy generated; those of other sessions stay verl's."""
    import torch
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    names = ("advantages", "returns")
    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask", *names])
    masks, fields = data["response_mask"].unbind(), {}
    for name in names:
        rows = [
            mask.to(torch.float32) * gains[session_of(key)] if session_of(key) in gains else row.to(torch.float32)
            for key, mask, row in zip(batch.keys, masks, data[name].unbind(), strict=True)
        ]
        fields[name] = torch.nested.as_nested_tensor(rows, layout=torch.jagged)
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=tu.get_tensordict(fields))


def mask_answers(scorer: Scorer, trainer: Any, batch: Any, metrics: dict[str, Any]) -> Any:
    """Take the tokens of the final answers out of the masks that verl's losses read, after the advantages are made: an
    estimator that sums rewards backwards would stop at them."""
    import torch
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=batch.partition_id, select_fields=["responses", "response_mask"]
    )
    responses, masks = data["responses"].unbind(), list(data["response_mask"].unbind())
    rules, lost = AnswerRules(dict(scorer.params), scorer.kind), []
    for i in final_rows(batch.keys, padding_of(batch, masks)).values():
        own = own_stretch(masks[i])
        ids = responses[i][own].tolist()
        row = said(trainer, {"token_ids": responses}, i) | {
            "text": trainer.tokenizer.decode(ids, skip_special_tokens=True)
        }
        keep, untold = outside_answer(row, ids, tokenizer=trainer.tokenizer, rules=rules)
        masks[i] = masks[i].clone()
        masks[i][own] *= torch.tensor(keep, dtype=masks[i].dtype, device=masks[i].device)
        lost.append(untold)
    metrics["dare/no_span"] = sum(lost) / max(len(lost), 1)
    fields = dict.fromkeys(("response_mask", "loss_mask"), torch.nested.as_nested_tensor(masks, layout=torch.jagged))
    return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=tu.get_tensordict(fields))


def _check_masks(scorer: Scorer, trainer: Any) -> None:
    """ConfigError where a part of verl would still learn the answers' tokens, or not learn what it should."""
    if scorer.train_on == "all":
        return
    if trainer.config.algorithm.use_kl_in_reward:
        raise ConfigError(
            "train_on=reasoning cannot leave the answers out of a KL term in the reward: set "
            "algorithm.use_kl_in_reward=false and actor_rollout_ref.actor.use_kl_loss=true"
        )
    if trainer.use_critic:
        raise ConfigError(
            "train_on=reasoning would leave the critic untrained at the answers' tokens: choose an adv_estimator "
            "without a critic, such as grpo"
        )


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


def _load() -> None:
    """What both loaders of verl (VERL_USE_EXTERNAL_MODULES and the entry point) run. verl swallows an exception of an
    entry point and would train on without rewards, so a failure ends the process."""
    if os.environ.get("DARE_URL") and "verl" in sys.modules:
        try:
            trained = os.environ.get("DARE_TRAINED")
            install(
                from_environment("verl").require_supported("verl", lacks={"gaps"}), int(trained) if trained else None
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
