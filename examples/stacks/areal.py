"""AReaL: a reward function sees one rollout, so wrap the grouped workflow before training starts.

Call `install(tokenizer)`. For workflows that return tensors (`rewards`, `input_ids`, `loss_mask`, `logprobs`).

Read only: written against 4aef98d, never run in that stack.
"""

from uuid import uuid4

from areal.infra import remote_inf_engine

from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("AReaL")


def install(tokenizer):
    original = remote_inf_engine.GroupedRolloutWorkflow.arun_episode

    async def arun_episode(self, engine, data):
        batch = await original(self, engine, data)
        if batch is None:
            return None
        rows = zip(batch["input_ids"], batch["logprobs"], batch["loss_mask"], strict=True)
        rollouts = [{"token_ids": ids, "logprobs": logprobs, "token_mask": mask} for ids, logprobs, mask in rows]
        (rewards,), _ = await scorer.score_async([scorer.group(uuid4().hex, rollouts, tokenizer=tokenizer)])
        batch["rewards"] = batch["rewards"].new_tensor(require_complete(rewards))
        return batch

    remote_inf_engine.GroupedRolloutWorkflow.arun_episode = arun_episode
