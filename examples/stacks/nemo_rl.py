"""NeMo-RL, synchronous rollouts: `register_env("dare", "nemo_rl.DareEnvironment")`.

Asynchronous rollouts and NeMo Gym's `/verify` hold one rollout: collect a prompt's, and score them together.

Read only: written against 7ea279a, never run in that stack.
"""

from uuid import uuid4

import ray
import torch
from nemo_rl.environments.interfaces import EnvironmentInterface, EnvironmentReturn

from dare_reward.messages import last_reply
from dare_reward.stacks.adapter import Scorer, require_complete


@ray.remote
class DareEnvironment(EnvironmentInterface):
    def __init__(self, cfg):
        self.size = cfg["num_generations_per_prompt"]
        self.scorer = Scorer.of(cfg["url"]).rewards_alone("NeMo-RL")

    def step(self, message_log_batch, metadata):
        texts = [last_reply(log) or "" for log in message_log_batch]
        if len(texts) % self.size:
            raise ValueError(f"{len(texts)} rollouts are not whole groups of {self.size}")
        parts = [texts[i : i + self.size] for i in range(0, len(texts), self.size)]
        groups = [self.scorer.group(uuid4().hex, [{"text": t} for t in part]) for part in parts]
        rewards, _ = self.scorer.score(groups)
        flat = torch.tensor([r for g in rewards for r in require_complete(g)])
        done = [{"role": "environment", "content": ""}] * len(texts)
        return EnvironmentReturn(done, metadata, [None] * len(texts), flat, torch.ones_like(flat), None)

    def global_post_process_and_metrics(self, batch):
        return batch, {}
