"""Objects of the shape that OpenRLHF's actor and vLLM hand to an executor."""

import asyncio
import random
from copy import deepcopy
from dataclasses import dataclass, field
from types import SimpleNamespace

import httpx

from dare_trainer.openrlhf import patch
from dare_trainer.vllm.token_entropy import encode

END = 1
TEXTS = ("so \\boxed{7}", "so \\boxed{7}", "so \\boxed{5}", "no answer")


def say(number):
    return TEXTS[number % len(TEXTS)]


def boxed(*answers, dies=None):
    """What an engine says, whose request of number `dies` fails."""

    def text(number):
        if number == dies:
            raise RuntimeError("engine died")
        return f"\\boxed{{{answers[number % len(answers)]}}}"

    return text


def rewards(out):
    return [r["reward"] for r in out]


def logs(out, *names):
    """The values of each key over the rollouts."""
    return [{r["extra_logs"][name] for r in out} for name in names]


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


def completion(text, entropy, *, asked=0, finish="stop", plugin=True, first=-0.5, others=-6.0):
    """A CompletionOutput: text, its tokens with an end token, and for each as many log-probabilities as were asked for,
    one at least; the ranks of the sampled tokens, which are the `first`, carry `entropy`."""
    ids = [ord(c) + 10 for c in text] + [END] * (finish == "stop")
    ranks = encode([entropy] * len(ids)).tolist() if plugin else [1] * len(ids)
    low = {1000 + i: SimpleNamespace(logprob=others, rank=i) for i in range(2, 1 + (asked or 0))}
    rows = [{t: SimpleNamespace(logprob=first, rank=r), **low} for t, r in zip(ids, ranks, strict=True)]
    full = text + "<|im_end|>" * (finish == "stop")
    return SimpleNamespace(token_ids=ids, text=full, logprobs=None if asked is None else rows, finish_reason=finish)


class Engine:
    """The rollout actor. `say(n)` gives the n-th request's text, or raises; requests finish in a random order, those in
    `hangs` never. `beside` says how many others ran as each was asked."""

    def __init__(self, say, *, entropy=lambda n: 0.25, cut=lambda n: False, seed=0, delay=0.003, hangs=(), **more):
        self.say, self.entropy, self.cut, self.delay, self.hangs, self.more = say, entropy, cut, delay, hangs, more
        self.rng = random.Random(seed)
        self.asked, self.beside = [], []
        self.running = 0
        self.llm = SimpleNamespace(model_config=SimpleNamespace(get_vocab_size=lambda: 300))

    async def generate(self, prompt_token_ids, sampling_params, **_):
        number = len(self.asked)
        self.asked.append(sampling_params)
        self.beside.append(self.running)
        self.running += 1
        try:
            await asyncio.sleep(1e9 if number in self.hangs else self.rng.random() * self.delay)
            text = self.say(number)
            told = {"asked": sampling_params.logprobs, "finish": "length" if self.cut(number) else "stop", **self.more}
            return SimpleNamespace(outputs=[completion(text, self.entropy(number), **told)])
        finally:
            self.running -= 1


def released():
    """A fresh class of the shape of OpenRLHF's SingleTurnAgentExecutor; `posts` are the rollouts that it sends alone."""

    class SingleTurnAgentExecutor:
        reward_func = None

        def __init__(self, *urls):
            self.reward_endpoints, self.posts = list(urls), []

        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
            ids, params = hf_tokenizer(text=prompt, add_special_tokens=False)["input_ids"], deepcopy(sampling_params)
            if params.max_tokens is None:
                params.max_tokens = max_length - len(ids)
            done = (await llm_engine.generate(ids, params)).outputs[0]
            whole = ids + done.token_ids
            query = hf_tokenizer.decode(whole, skip_special_tokens=False)
            (found,) = await self._fetch_rewards_via_http([query], [prompt], [label])
            asked = sampling_params.logprobs is not None and done.logprobs is not None
            return {
                "prompt": prompt,
                "label": label,
                "observation_tokens": whole,
                "action_ranges": [(len(ids), len(whole))],
                "rollout_log_probs": [0.0] * len(ids) + [-0.5] * len(done.token_ids) if asked else None,
                "reward": found["rewards"][0],
                "scores": found["scores"][0],
                "extra_logs": {name: value for name, (value,) in found.get("extra_logs", {}).items()},
            }

        async def _fetch_rewards_via_http(self, queries_list, prompts_list, labels_list):
            self.posts.append(queries_list)
            return [{"rewards": [0.25], "scores": [0.0]}]

    return SingleTurnAgentExecutor


def patched(*urls):
    """OpenRLHF's executor as the rollout actor has it with this package."""
    kind = released()
    assert patch.patch_class(kind)
    return kind(*urls)


def route(executor):
    """What the patch keeps of an executor."""
    return vars(executor)[patch.ROUTE]


def answering(executor, handle, *, retries=0):
    """The executor after its handshake, whose services answer by `handle(request)` from now on, to so many tries."""
    go(executor)
    for client in route(executor)._scorer._clients:
        client._transport, client.retries = httpx.MockTransport(handle), retries
        client._connections.clear()
    return executor


async def away(request):
    """A service that is not there, for `answering`."""
    raise httpx.ConnectError("away")


def forwarded(request):
    """What the service itself answers, for `answering`."""
    reply = httpx.request(request.method, request.url, headers=request.headers, content=request.content)
    return httpx.Response(reply.status_code, headers=reply.headers, content=reply.content)


async def generate_responses(executor, engine, *, prompt="What is 3 + 4?", label="7", n=4, params=None, **gather):
    """As RolloutRayActor has it: n executions with one sampling_params object. `label` is of all, or a list."""
    shared = params or SamplingParams()
    labels = label if isinstance(label, list) else [label] * n
    calls = [executor.execute(prompt, each, shared, 200, Tokenizer(), engine) for each in labels]
    return await asyncio.gather(*calls, **gather)


async def close(executor):
    """Connections do not outlive the event loop."""
    if (known := vars(executor).get(patch.ROUTE)) is not None and hasattr(known, "_scorer"):
        for client in known._scorer._clients:
            await client.close()


def run(coroutine, loop=None):
    """To its end, which is soon, and with nothing that still runs; `loop` makes the event loop."""

    async def limited():
        async with asyncio.timeout(60):
            out = await coroutine
        assert len(asyncio.all_tasks()) == 1, "something is still running"
        return out

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(limited())


def at_once(executor, *calls):
    """What comes of groups of the executor that are generated at once."""

    async def main():
        try:
            return await asyncio.gather(*calls)
        finally:
            await close(executor)

    return run(main())


def go(executor, engine=None, **options):
    """The rollouts of one prompt."""
    (out,) = at_once(executor, generate_responses(executor, engine or Engine(say, delay=0), **options))
    return out
