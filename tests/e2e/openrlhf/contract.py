"""Our side against a released OpenRLHF's own client code; prints one JSON object.

    PYTHONPATH=<purelib of a wheel>:tests/trainer python contract.py URL

The real SingleTurnAgentExecutor with our additions, and the real `generate_responses`: 8 prompts x 64 rollouts, two of
them the same prompt, a lost member, an evaluation; then the real conversion into an Experience.
"""

import asyncio
import copy
import json
import sys
import types

import fakes
from parity import flat

SAMPLES = 64


def actor(executor, engine):
    """`generate_responses` of the Ray actor's class, without Ray, which hands each call objects of its own."""
    from openrlhf.trainer.ray import vllm_engine

    kind = getattr(vllm_engine, "RolloutRayActor", None) or vllm_engine.LLMRayActor
    kind = getattr(kind, "__ray_metadata__", None).modified_class if hasattr(kind, "__ray_metadata__") else kind
    self = types.SimpleNamespace(executor=executor, generate=engine.generate, llm=engine.llm)

    def call(prompt, params, *, label="7", samples=SAMPLES):
        more = {"max_length": 256, "hf_tokenizer": fakes.Tokenizer(), "num_samples": samples}
        return kind.generate_responses(self, prompt, label, copy.deepcopy(params), **more)

    return call


async def main(url):
    from openrlhf.utils import agent as released
    from vllm import SamplingParams

    from dare_trainer.openrlhf import patch
    from dare_trainer.vllm import plugin

    # As in OpenRLHF's actor: the executor first, then the engine's arguments, which load the plugin.
    executor = released.SingleTurnAgentExecutor(f"{url}/reward")
    patch.register()
    asked = []

    async def collective_rpc(method, args=()):
        asked.append([method is plugin.switch_on, *args])

    engine, dying = fakes.Engine(fakes.say), fakes.Engine(fakes.boxed(7, dies=5))
    engine.llm.collective_rpc = dying.llm.collective_rpc = collective_rpc
    call, shared = actor(executor, engine), SamplingParams(temperature=1.0, max_tokens=64)
    prompts = ["prompt 1", *(f"prompt {i}" for i in range(1, 8))]  # the first two are the same
    groups = await asyncio.gather(*(call(prompt, shared) for prompt in prompts))
    evaluation = await call("eval", shared, label='{"answer": "7", "split": "eval"}', samples=4)
    try:
        await actor(executor, dying)("lost", shared)
        lost = "survived"
    except RuntimeError as error:
        lost = str(error)
    await asyncio.sleep(0.1)
    rollouts = [flat(r) for group in groups for r in group]
    out = {
        "asked": asked,
        "logprobs": sorted({p.logprobs for p in engine.asked}),
        "shared": shared.logprobs,
        "votes": sorted({r["votes"] for r in rollouts}),
        "rewards": [[flat(r)["reward"] for r in group] for group in groups],
        "fallbacks": sum(r["reward_fallback"] for r in rollouts),
        "evaluation": [flat(r)["reward"] for r in evaluation],
        "lost": lost,
        "left": len(fakes.route(executor).siblings.open),
        "running": dying.running,
        "experience": experience([r for group in groups for r in group]),
    }
    await fakes.close(executor)
    return {**out, "tasks": len(asyncio.all_tasks()) - 1}


def experience(responses):
    """Through the release's own conversion, and its advantages where they stand alone."""
    import torch

    try:
        from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
    except ImportError:  # before 0.9.9
        from openrlhf.trainer.ppo_utils.experience_maker import SamplesGenerator

    self = types.SimpleNamespace(args=None)
    convert = SamplesGenerator._process_response_into_experience
    made = [convert(self, r, max_len=256) for r in responses]
    rewards = torch.cat([m.rewards for m in made]).reshape(-1, SAMPLES).float()
    advantages = (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-9)
    return {
        "keys": sorted(made[0].info),
        "same_keys": all(m.info.keys() == made[0].info.keys() for m in made),
        "finite": bool(torch.isfinite(advantages).all()),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
