"""EasyR1:

    worker.reward.reward_function=examples/stacks/easyr1.py:reward
    worker.reward.reward_function_kwargs.url=http://127.0.0.1:8000

EasyR1 reorders rows before it calls a reward function and tells it neither which row is whose nor which was cut off, so
the manager's call is wrapped to remember each row's uid and the length limit. Validation rows have no uid: they are
graded against their ground truth, and their answers are read as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from math import inf
from typing import Any

from dare_reward.errors import RequestError
from dare_reward.stacks.adapter import Scorer, groups_by, require_complete, scatter_to_rows, zero_dropped
from dare_reward.stacks.report import shadow_numbers
from dare_reward.stacks.rollout import label_of

REWARD_NAME, REWARD_TYPE = "dare", "batch"
UIDS: ContextVar[list[str] | None] = ContextVar("uids", default=None)
LIMIT: ContextVar[float] = ContextVar("limit", default=inf)  # tokens of a response; one that has them all was cut off


def reward(inputs: Sequence[dict[str, Any]], *, url: str, **settings: Any) -> list[dict[str, float]]:
    """One {"overall": reward} per row, in the rows' order, and beside it what shadow methods say, which EasyR1 logs.

    `settings` are those of the URL: reward_function_kwargs may have them too.
    """
    scorer = _scorer(url, **{k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()})
    uids = UIDS.get()
    if uids is None:
        grades = [scorer.grade(_rollout(row), row["ground_truth"]) for row in inputs]
        return [{"overall": right, "accuracy": right} for right in grades]
    if len(uids) != len(inputs):
        raise RequestError(f"EasyR1 passed {len(inputs)} rows for {len(uids)} uids", code="length")
    members = groups_by(uids)
    labels = [label_of(row["ground_truth"], scorer.kind) for row in inputs]
    groups = [
        scorer.group(u, [_rollout(inputs[i]) for i in at], labels=[labels[i] for i in at]) for u, at in members.items()
    ]
    rewards, reply = scorer.score(groups)
    rewards = zero_dropped(rewards, reply, 0.0)
    logged = {f"dare/{name}": value for name, value in shadow_numbers(reply, groups).items()}
    return [
        {"overall": value, **logged}
        for value in require_complete(scatter_to_rows(rewards, members.values(), len(inputs)))
    ]


@cache
def _scorer(url: str, **settings: Any) -> Scorer:
    scorer = Scorer.of(url, **settings).require_supported("EasyR1", lacks={"gaps", "masks"}, takes={"settled"})
    # EasyR1's default, and no setting of it leaves the division out. A reward function is not told the estimator.
    scorer.check_scale("EasyR1's grpo", divides=True, remedy="choose another method, such as ttrl, or another stack")
    return scorer


def _rollout(row: dict[str, Any]) -> dict[str, Any]:
    ended = {"finish_reason": "length"} if row["response_length"] >= LIMIT.get() else {}
    return {"text": row["response"], "num_tokens": int(row["response_length"]), **ended}


def _remembering(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    @wraps(original)
    def compute_reward_batch(self: Any, data: Any) -> Any:
        uids = data.non_tensor_batch.get("uid")
        token = UIDS.set(None if uids is None else [str(u) for u in uids])
        limit = LIMIT.set(data.batch["responses"].shape[-1])  # EasyR1 pads to the longest that it allows
        try:
            return original(self, data)
        finally:
            UIDS.reset(token)
            LIMIT.reset(limit)

    return compute_reward_batch


def install() -> None:
    """Wrap the manager of this process; EasyR1 loads this file in the process where rewards are computed.

    Ray makes a class of its own from the manager, with copies of its methods: those are wrapped too.
    """
    from verl.workers.reward.function import BatchFunctionRewardManagerMixin as Manager  # noqa: PLC0415  (EasyR1)

    for kind in _family(Manager):
        if "compute_reward_batch" in vars(kind):
            kind.compute_reward_batch = _remembering(vars(kind)["compute_reward_batch"])  # type: ignore[attr-defined]


def _family(kind: type) -> list[type]:
    below: list[type] = type.__subclasses__(kind)
    return [kind, *(c for one in below for c in _family(one))]


if __name__ == "custom_reward_fn":  # the name under which EasyR1 loads it
    install()
