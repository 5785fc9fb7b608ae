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

from fakes import Engine, Tokenizer

PROMPTS, SAMPLES = 8, 64


class Torchlike(Tokenizer):
    """Releases ask with and without tensors."""


def say(number):
    return ["so \\boxed{7}", "so \\boxed{7}", "so \\boxed{5}", "hm"][number % 4]


def actor(executor, engine):
    """What `generate_responses` needs of the Ray actor's class, without Ray."""
    from openrlhf.trainer.ray import vllm_engine

    kind = getattr(vllm_engine, "RolloutRayActor", None) or vllm_engine.LLMRayActor
    kind = getattr(kind, "__ray_metadata__", None).modified_class if hasattr(kind, "__ray_metadata__") else kind
    self = types.SimpleNamespace(executor=executor, generate=engine.generate, llm=engine.llm)

    def call(**arguments):
        # Ray hands each call objects of its own.
        arguments["sampling_params"] = copy.deepcopy(arguments["sampling_params"])
        return kind.generate_responses(self, **arguments)

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

    def engine_of(text):
        engine = Engine(text)
        engine.llm.collective_rpc = collective_rpc
        return engine

    engine = engine_of(say)
    call = actor(executor, engine)
    shared = SamplingParams(temperature=1.0, max_tokens=64)
    common = {"max_length": 256, "hf_tokenizer": Torchlike(), "num_samples": SAMPLES}
    prompts = [f"prompt {max(i, 1)}" for i in range(PROMPTS)]  # the first two are the same
    groups = await asyncio.gather(*[call(prompt=p, label="7", sampling_params=shared, **common) for p in prompts])
    evaluation = await call(
        prompt="eval", label='{"answer": "7", "split": "eval"}', sampling_params=shared, **{**common, "num_samples": 4}
    )

    def broken(number):
        if number == 5:
            raise RuntimeError("lost")
        return "\\boxed{7}"

    dying = engine_of(broken)
    try:
        await actor(executor, dying)(prompt="lost", label="7", sampling_params=shared, **common)
        lost = "survived"
    except RuntimeError as error:
        lost = str(error)
    await asyncio.sleep(0.1)
    route = vars(executor)[patch.ROUTE]
    out = {
        "asked": asked,
        "logprobs": sorted({p.logprobs for p in engine.asked}),
        "shared": shared.logprobs,
        "sizes": [len(g) for g in groups],
        "votes": sorted({number(r["extra_logs"]["votes"]) for g in groups for r in g}),
        "rewards": [[number(r["reward"]) for r in g] for g in groups],
        "fallbacks": sum(number(r["extra_logs"]["reward_fallback"]) for g in groups for r in g),
        "evaluation": [number(r["reward"]) for r in evaluation],
        "lost": lost,
        "left": len(route.siblings.open),
        "running": dying.running,
        "experience": experience([r for g in groups for r in g]),
    }
    for client in route._scorer._clients:
        await client.close()
    return {**out, "tasks": len(asyncio.all_tasks()) - 1}


def number(value):
    """Some releases keep the lists of a reply."""
    return value[0] if isinstance(value, list) else value


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
        "dtype": str(rewards.dtype),
        "actions": [int(m.action_mask.sum()) for m in made[:4]],
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
