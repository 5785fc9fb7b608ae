"""Objects of the shape that OpenRLHF's actor and vLLM hand to an executor."""

import asyncio
import random
from dataclasses import dataclass, field
from types import SimpleNamespace

from dare_trainer.vllm.token_entropy import encode

END = 1


@dataclass
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int | None = 64
    logprobs: int | None = None
    extra: dict = field(default_factory=dict)


class Tokenizer:
    """One token per character; token 1 ends a text."""

    all_special_ids = (END,)

    def __call__(self, text, add_special_tokens=True, return_tensors=None):
        ids = [ord(c) + 10 for c in text]
        if return_tensors:
            return {"input_ids": [SimpleNamespace(tolist=lambda: ids)]}
        return {"input_ids": ids}

    def decode(self, ids, skip_special_tokens=False):
        return "".join(chr(i - 10) if i != END else "" if skip_special_tokens else "<|im_end|>" for i in ids)


def completion(text, entropy, *, asked=0, finish="stop", plugin=True):
    """A CompletionOutput: text, its tokens with an end token, and log-probabilities whose ranks carry `entropy`."""
    ids = [ord(c) + 10 for c in text] + [END] * (finish == "stop")
    ranks = encode([entropy] * len(ids)).tolist() if plugin else [1] * len(ids)
    rows = (
        None if asked is None else [{t: SimpleNamespace(logprob=-0.5, rank=r)} for t, r in zip(ids, ranks, strict=True)]
    )
    full = text + "<|im_end|>" * (finish == "stop")
    return SimpleNamespace(token_ids=ids, text=full, logprobs=rows, finish_reason=finish)


class Engine:
    """The rollout actor. `say(n)` gives the n-th request's text, or raises; requests finish in a random order."""

    def __init__(self, say, *, entropy=lambda n: 0.25, plugin=True, seed=0, delay=0.003):
        self.say, self.entropy, self.plugin, self.delay = say, entropy, plugin, delay
        self.rng = random.Random(seed)
        self.asked = []
        self.running = 0
        self.llm = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 300))

    async def generate(self, prompt_token_ids, sampling_params, **_):
        number = len(self.asked)
        self.asked.append(sampling_params)
        self.running += 1
        try:
            await asyncio.sleep(self.rng.random() * self.delay)
            text = self.say(number)
            return SimpleNamespace(
                outputs=[completion(text, self.entropy(number), asked=sampling_params.logprobs, plugin=self.plugin)]
            )
        finally:
            self.running -= 1


async def generate_responses(executor, engine, *, prompt="What is 3 + 4?", label="7", n=4, params=None, **gather):
    """As RolloutRayActor has it: n executions with one sampling_params object."""
    shared = params or SamplingParams()
    calls = [
        executor.execute(
            prompt=prompt,
            label=label,
            sampling_params=shared,
            max_length=200,
            hf_tokenizer=Tokenizer(),
            llm_engine=engine,
        )
        for _ in range(n)
    ]
    return await asyncio.gather(*calls, **gather)


def run(coroutine, seconds=60):
    """To its end, which is soon, and with nothing that still runs."""

    async def limited():
        async with asyncio.timeout(seconds):
            out = await coroutine
        assert len(asyncio.all_tasks()) == 1, "something is still running"
        return out

    return asyncio.run(limited())


def go(executor, engine, **options):
    """The rollouts of one prompt; connections do not outlive the event loop."""

    async def main():
        try:
            return await generate_responses(executor, engine, **options)
        finally:
            await executor.close()

    return run(main())
