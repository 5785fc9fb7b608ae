"""Atropos: the `score` of an environment gets the whole group (names as in `environments/gsm8k_server.py`).

The base environment drops groups of equal scores by default.

Read only: written against 296a0bc, never run in that stack.
"""

from uuid import uuid4

from dare_reward.messages import last_reply
from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("Atropos")


async def score(self, rollout_group_data):
    rollouts = []
    for item in rollout_group_data:
        said = {"text": last_reply(item["messages"]) or "", "finish_reason": item.get("finish_reason")}
        sampled = [m != -100 for m in item["masks"]]
        rollouts.append({**said, "logprobs": item["logprobs"], "token_mask": sampled})
    (rewards,), _ = await scorer.score_async([scorer.group(uuid4().hex, rollouts)])
    return {
        "tokens": [item["tokens"] for item in rollout_group_data],
        "masks": [item["masks"] for item in rollout_group_data],
        "inference_logprobs": [item["logprobs"] for item in rollout_group_data],
        "scores": require_complete(rewards),
    }
