"""Completions from an OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import httpx

from dare_reward.errors import RefusedError, ReplyError, UnavailableError
from dare_reward.params import Param
from dare_trainer.launch.questions import LabelledQuestion

from .rollout_file import RolloutFile

TRIES = 5
PAUSE = 1.0  # seconds before the second try; doubles
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
TIMEOUT = httpx.Timeout(3600.0, connect=10.0)  # 3,072 tokens on a busy server take minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How the model is asked."""

    model: Annotated[str, Param("The model's name on the server")] = ""
    temperature: Annotated[float, Param("The sampling temperature", ge=0)] = 1.0
    top_p: Annotated[float, Param("The top-p of the sampling", gt=0, le=1)] = 0.95
    max_tokens: Annotated[int, Param("The most tokens of a completion", ge=1)] = 3072
    seed: Annotated[int, Param("The seed of the sampling", ge=0)] = 0
    route: Annotated[Literal["chat", "completions"], Param("Ask by chat, or send the bare question")] = "chat"
    system: Annotated[str | None, Param("A system message, for chat")] = None


async def collect(
    url: str,
    problems: Sequence[LabelledQuestion],
    sampling: Sampling,
    file: RolloutFile,
    *,
    samples: int,
    concurrency: int = 32,
    token: str | None = None,
    done: Callable[[int], None] = lambda _: None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> None:
    """Ask for every completion that the file lacks; `done` is told how many came."""
    gate = asyncio.Semaphore(concurrency)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(
        base_url=url.rstrip("/") + "/", headers=headers, timeout=TIMEOUT, limits=limits, transport=transport
    ) as client:

        async def fill(problem: LabelledQuestion) -> None:
            while (there := len(file.rollouts(problem.id))) < samples:
                async with gate:
                    route, body = _request(problem, sampling, there, samples - there)
                    reply = await _post(client, route, body)
                rollouts = [_rollout(choice) for choice in reply["choices"][: samples - there]]
                tokens = (reply.get("usage") or {}).get("completion_tokens")
                group = problem.group(rollouts)
                file.add(group | {"meta": {**group["meta"], "completion_tokens": tokens}})
                done(len(rollouts))

        try:
            async with asyncio.TaskGroup() as tasks:
                for problem in problems:
                    tasks.create_task(fill(problem))
        except* (RefusedError, ReplyError, UnavailableError) as errors:
            raise errors.exceptions[0] from None


def _request(problem: LabelledQuestion, sampling: Sampling, first: int, count: int) -> tuple[str, dict[str, Any]]:
    """What asks for `count` completions, of which a server that ignores `n` gives one; each has its own seed."""
    digest = hashlib.sha256(json.dumps([sampling.seed, problem.id, first]).encode()).digest()
    body: dict[str, Any] = {
        "model": sampling.model,
        "n": count,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": int.from_bytes(digest[:4], "big") >> 1,
    }
    if sampling.route == "completions":
        return "completions", {**body, "prompt": problem.prompt()}
    system = [] if sampling.system is None else [{"role": "system", "content": sampling.system}]
    return "chat/completions", {**body, "messages": [*system, {"role": "user", "content": problem.prompt()}]}


def _rollout(choice: Mapping[str, Any]) -> dict[str, str]:
    """The text; a server that keeps the reasoning apart from the answer gets only the answer read."""
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    return {
        "text": content if isinstance(content, str) else "",
        "finish_reason": str(choice.get("finish_reason") or "stop"),
    }


async def _post(client: httpx.AsyncClient, route: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """One reply with choices; what passes is tried again, what does not is an error with the server's words."""
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            reply = await client.post(route, json=body)
        except httpx.TransportError as error:
            problem = f"{type(error).__name__} {error}".strip()
            continue
        if reply.status_code in AGAIN:
            problem = f"status {reply.status_code}"
            continue
        if reply.status_code >= 400:
            raise RefusedError(reply.status_code, {"detail": reply.text[:300]})
        try:
            value = reply.json()
        except ValueError:
            raise ReplyError(f"{client.base_url}{route}: not JSON") from None
        if not (isinstance(value, dict) and isinstance(value.get("choices"), list) and value["choices"]):
            raise ReplyError(f"{client.base_url}{route}: a reply without choices")
        return value
    raise UnavailableError(f"{client.base_url}{route}: {problem} ({TRIES} tries)")
