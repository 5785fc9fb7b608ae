"""SkyRL: train with `DareExp`. Validate with `BasePPOExp`: its generator would be this one too.

Step-wise trajectories are not covered.

Read only: written against a956457, never run in that stack.
"""

from skyrl.train.entrypoints.main_base import BasePPOExp

from dare_reward.stacks.adapter import Scorer, groups_by, require_complete, scatter_to_rows

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("SkyRL")


def rewarded(generate, tokenizer):
    """SkyRL's `generate`, whose rewards are the service's."""

    async def dare_generate(input_batch, disable_tqdm=False):
        out = await generate(input_batch, disable_tqdm)
        count = len(out["response_ids"])
        members = groups_by(t.instance_id for t in out.get("trajectory_ids") or input_batch["trajectory_ids"])
        names = {"response_ids": "token_ids", "loss_masks": "token_mask", "rollout_logprobs": "logprobs"}
        names |= {"stop_reasons": "finish_reason"}
        columns = {name: out[column] for column, name in names.items() if out.get(column)}
        rollouts = [{name: column[i] for name, column in columns.items()} for i in range(count)]
        groups = [scorer.group(k, [rollouts[i] for i in at], tokenizer=tokenizer) for k, at in members.items()]
        rewards, _ = await scorer.score_async(groups)
        return {**out, "rewards": require_complete(scatter_to_rows(rewards, members.values(), count))}

    return dare_generate


class DareExp(BasePPOExp):
    def get_generator(self, cfg, tokenizer, inference_engine_client):
        generator = super().get_generator(cfg, tokenizer, inference_engine_client)
        generator.generate = rewarded(generator.generate, tokenizer)
        return generator
