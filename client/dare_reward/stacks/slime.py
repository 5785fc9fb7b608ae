"""slime: `--group-rm --custom-rm-path dare_reward.stacks.slime.reward --rm-url 'http://127.0.0.1:8000?method=dare'`.

slime hands over one group and the log-probabilities of its sampled tokens; entropies exist only later, in the actor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from ..errors import RequestError
from .scorer import Scorer, certain, group

__all__ = ["reward"]


async def reward(args: Any, samples: Any, **_: Any) -> list[float]:
    """One reward per sample of one group, in order."""
    if not isinstance(samples, Sequence) or any(isinstance(s, Sequence) for s in samples):
        raise RequestError(
            "slime called the reward without a whole group of samples: add --group-rm, and no generation that fans out"
        )
    if len({s.group_index for s in samples}) > 1:
        raise RequestError("slime called the reward with samples of several groups; one is expected")
    if not getattr(args, "rm_url", None):
        raise RequestError("slime needs --rm-url with the address of the reward service")
    one = group(str(samples[0].group_index), [_rollout(s) for s in samples], label=_text(samples[0].label))
    (rewards,), _reply = await _scorer(args.rm_url).score_async([one])
    return certain(rewards)


@cache
def _scorer(url: str) -> Scorer:
    return Scorer.of(url).certain("slime")


def _rollout(sample: Any) -> dict[str, Any]:
    """A sample that was aborted or failed has no vote; masked tokens (tools, environments) no entropy."""
    status = sample.status.value
    row: dict[str, Any] = {"id": str(sample.index), "finish_reason": "length" if status == "truncated" else "stop"}
    row |= {"answer": None} if status in {"aborted", "failed"} else {"text": sample.response}
    if sample.rollout_log_probs is not None:
        row |= {"logprobs": sample.rollout_log_probs}
        row |= {} if sample.loss_mask is None else {"token_mask": sample.loss_mask}
    return row | {"trained": not sample.remove_sample}


def _text(label: Any) -> str | None:
    return label if isinstance(label, str) else None
