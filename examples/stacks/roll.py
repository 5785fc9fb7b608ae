"""ROLL: name the worker in `rewards.<domain>.worker_cls`, and set `is_num_return_sequences_expand: false`.

A request then holds all samples of a prompt. ROLL may store rewards as float16: steps of 5e-4 near 0.5.

Read only: written against 8eb27cc, never run in that stack.
"""

from uuid import uuid4

import torch
from roll.distributed.scheduler.decorator import Dispatch, register
from roll.distributed.scheduler.protocol import DataProto
from roll.pipeline.rlvr.rewards.math_rule_reward_worker import MathRuleRewardWorker

from dare_reward.stacks.adapter import Scorer, groups_by, require_complete, scatter_to_rows

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("ROLL")


class DareRewardWorker(MathRuleRewardWorker):
    @register(dispatch_mode=Dispatch.DP_MP_COMPUTE, clear_cache=False)
    def compute_rewards(self, data):
        texts = self.tokenizer.batch_decode(data.batch["responses"], skip_special_tokens=True)
        members = groups_by(data.non_tensor_batch["prompt"])
        groups = [scorer.group(uuid4().hex, [{"text": texts[i]} for i in rows]) for rows in members.values()]
        rewards, _ = scorer.score(groups)
        scores = torch.tensor(require_complete(scatter_to_rows(rewards, members.values(), len(texts))))
        token_level = torch.zeros_like(data.batch["responses"], dtype=torch.float32)
        return DataProto.from_dict(
            tensors={"token_level_rewards": token_level, "response_level_rewards": scores, "scores": scores}
        )
