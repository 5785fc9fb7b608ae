"""rLLM: pass `traj_grouping_hook=dare_grouping` to the trainer.

Validation goes through the same hook, so its rewards are votes, not truth.

Read only: written against 9beb6e0, never run in that stack.
"""

from rllm.trainer.algorithms.transform import _default_traj_grouping_hook

from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare")


def dare_grouping(episodes, transform_config, compact_filtering_config=None):
    found = _default_traj_grouping_hook(episodes, transform_config, compact_filtering_config)
    steps = [[t.steps[-1] for t in g.trajectories] for g in found]
    asked = [
        scorer.group(str(n), [{"text": s.model_response, "logprobs": s.logprobs} for s in of_group])
        for n, of_group in enumerate(steps)
    ]
    rewards, _ = scorer.score(asked)
    for one, values in zip(found, rewards, strict=True):
        for trajectory, reward in zip(one.trajectories, require_complete(values), strict=True):
            trajectory.reward = reward
    return found
