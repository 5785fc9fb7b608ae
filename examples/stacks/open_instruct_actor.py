"""open-instruct: import this in the process of the vLLM actor, before it starts.

Read only: written against e6c3044, never run in that stack.
"""

from uuid import uuid4

from open_instruct import vllm_utils

from dare_reward.stacks.adapter import Scorer, require_complete

scorer = Scorer.of("http://127.0.0.1:8000?method=dare").rewards_alone("open-instruct")


async def compute_rewards(actor, result, example):
    texts = actor.llm_engine.tokenizer.batch_decode(result.responses, skip_special_tokens=True)
    logprobs = result.logprobs or [None] * len(texts)
    rollouts = [
        {"text": t, "logprobs": p, "finish_reason": f}
        for t, p, f in zip(texts, logprobs, result.finish_reasons, strict=True)
    ]
    (rewards,), _ = await scorer.score_async([scorer.group(uuid4().hex, rollouts)])
    return require_complete(rewards), {}


vllm_utils.compute_rewards = compute_rewards
