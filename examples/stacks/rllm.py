"""rLLM: pass `traj_grouping_hook=dare_grouping` to the trainer.

Validation goes through the same hook, so its rewards are votes, not truth.

Read only: written against 9beb6e0, never run in that stack.
"""

from uuid import uuid4

from rllm.trainer.algorithms.transform import _default_traj_grouping_hook

from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("rLLM")


def rollout(step):
    ended = getattr(step.model_output, "finish_reason", None)
    return {"text": step.model_response, "logprobs": step.logprobs, "finish_reason": ended}


def dare_grouping(episodes, transform_config, compact_filtering_config=None):
    found = _default_traj_grouping_hook(episodes, transform_config, compact_filtering_config)
    steps = [[t.steps[-1] for t in g.trajectories] for g in found]
    asked = [scorer.group(uuid4().hex, list(map(rollout, of_group))) for of_group in steps]
    rewards, _ = scorer.score(asked)
    for one, values in zip(found, rewards, strict=True):
        for trajectory, reward in zip(one.trajectories, require_complete(values), strict=True):
            trajectory.reward = reward
    return found
