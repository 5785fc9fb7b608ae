"""prime-rl: add the class to `ALGORITHM_CLASSES` of `prime_rl/orchestrator/algo/__init__.py`.

Its name also goes into the configuration's types.

Read only: written against 559b447, never run in that stack.
"""

from uuid import uuid4

from prime_rl.orchestrator.algo.base import Algorithm, iter_trainable_traces
from prime_rl.orchestrator.algo.routing import assign_advantages

from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("prime-rl")


class DareAlgorithm(Algorithm):
    async def score_group(self, episodes):
        traces = [trace for _, trace in iter_trainable_traces(episodes)]
        rollouts = []
        for trace in traces:
            branch = trace.branches[-1]
            said = {"text": trace.last_reply, "finish_reason": "length" if trace.is_truncated else "stop"}
            rollouts.append({**said, "logprobs": branch.logprobs, "token_mask": branch.sampled_mask})
        (rewards,), _ = await scorer.score_async([scorer.group(uuid4().hex, rollouts)])
        values = require_complete(rewards)
        mean = sum(values) / len(values)
        for trace, reward in zip(traces, values, strict=True):
            assign_advantages(trace, reward - mean)
