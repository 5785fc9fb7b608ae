"""SkyRL: train with `DareExp`. Validate with `BasePPOExp`: its generator would be this one too.

Step-wise trajectories are not covered.

Read only: written against a956457, never run in that stack.
"""

from skyrl.train.entrypoints.main_base import BasePPOExp
from skyrl.train.generators.skyrl_gym_generator import SkyRLGymGenerator

from dare_reward.stacks.scorer import Scorer, group, groups_by, require_complete, spread

scorer = Scorer.of("http://127.0.0.1:8000?method=dare")


class DareGenerator(SkyRLGymGenerator):
    async def generate(self, input_batch, disable_tqdm=False):
        out = await super().generate(input_batch, disable_tqdm)
        count = len(out["response_ids"])
        members = groups_by(t.instance_id for t in out.get("trajectory_ids") or input_batch["trajectory_ids"])
        columns = (
            {"logprobs": out["rollout_logprobs"], "token_mask": out["loss_masks"]}
            if out.get("rollout_logprobs")
            else {}
        )
        texts = [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in out["response_ids"]]
        rollouts = [{"text": texts[i], **{k: v[i] for k, v in columns.items()}} for i in range(count)]
        rewards, _ = await scorer.score_async([group(k, [rollouts[i] for i in rows]) for k, rows in members.items()])
        return {**out, "rewards": require_complete(spread(rewards, members.values(), count))}


class DareExp(BasePPOExp):
    def get_generator(self, cfg, tokenizer, inference_engine_client):
        generator = super().get_generator(cfg, tokenizer, inference_engine_client)
        generator.__class__ = DareGenerator
        return generator
