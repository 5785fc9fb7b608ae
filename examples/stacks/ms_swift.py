"""ms-swift 4.6:

DARE_URL=http://127.0.0.1:8000 swift rlhf --external_plugins examples/stacks/ms_swift.py --reward_funcs dare

ms-swift puts a plugin's folder first on sys.path, so no file here may be called swift.py or trl.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from swift.rewards import orms

from dare_reward.errors import RequestError
from dare_reward.stacks.adapter import (
    Scorer,
    from_environment,
    groups_by,
    scatter_to_rows,
    scored_together,
    zero_dropped,
)

CARRIED = {"token_entropies", "logprobs", "token_mask", "answer_tokens", "token_offsets"}
DIVIDE = (True, "group", "gdpo")  # values of scale_rewards by which a group's deviation divides; gdpo: of each function


class DareORM:
    """An AsyncORM of ms-swift. Groups are rows of one `prompt_id`, over all ranks; a `request_id` counts once.

    A multi-turn scheduler may put `token_entropies` or `logprobs` (and `token_mask`) into `rollout_infos`, and where
    the answer is: `answer_tokens`, or `token_offsets`.
    """

    def __init__(self, args: Any = None, **_: Any) -> None:
        self.args = args
        scorer = from_environment("ms-swift", on_error="abstain")
        self.scorer: Scorer = scorer.require_supported("ms-swift", lacks={"masks", "labels"}, takes={"settled"})
        scaled = getattr(args, "scale_rewards", None)  # ms-swift sets it; None: it did not hand over its arguments
        divides = None if scaled is None else scaled in DIVIDE
        self.scorer.check_scale("ms-swift", divides=divides, remedy="pass --scale_rewards batch (or none)")

    async def __call__(self, completions: Sequence[str], **columns: Any) -> list[float | None]:
        """It does not yield: ms-swift makes an event loop per step, and ranks must gather in one order."""
        from accelerate import PartialState  # noqa: PLC0415  (ms-swift brings it)

        if missing := {"prompt_id", "request_id"} - columns.keys():
            raise RequestError(f"ms-swift did not pass {min(missing)}; version 4.6 or later is needed")
        names = ("prompt_id", "request_id", "finish_reason", "rollout_infos", "response_token_ids")
        fields = [columns.get(n) or [None] * len(completions) for n in names]
        rows = [_row(text, *values) for text, *values in zip(completions, *fields, strict=True)]
        state, step = PartialState(), getattr(columns.get("trainer_state"), "global_step", None)
        score = partial(self._score, step=step)
        return scored_together(rows, score, rank=state.process_index, ranks=state.num_processes)

    def _score(self, rows: list[dict[str, Any]], step: int | None) -> list[float | None]:
        once = list({r["request_id"]: r for r in rows}.values())
        members = groups_by(r["prompt_id"] for r in once)
        # ms-swift counts the prompts of a step, so that prompt_0 is another one in the next.
        names = [str(once[at[0]]["request_id"]) for at in members.values()]
        rollouts = [[once[i]["rollout"] for i in at] for at in members.values()]
        groups = [self.scorer.group(name, rows) for name, rows in zip(names, rollouts, strict=True)]
        rewards = zero_dropped(*self.scorer.score(groups, step=step))
        by_request = dict(
            zip((r["request_id"] for r in once), scatter_to_rows(rewards, members.values(), len(once)), strict=True)
        )
        return [by_request[r["request_id"]] for r in rows]


def _row(text: str, prompt_id: Any, request_id: Any, *fields: Any) -> dict[str, Any]:
    finish_reason, infos, ids = fields
    rollout: dict[str, Any] = {"text": text, "finish_reason": finish_reason if isinstance(finish_reason, str) else None}
    rollout |= {k: v for k, v in (infos or {}).items() if k in CARRIED}
    rollout["token_ids"] = ids  # of each turn, or of the one that there is
    return {"prompt_id": prompt_id, "request_id": request_id, "rollout": rollout}


orms["dare"] = DareORM
