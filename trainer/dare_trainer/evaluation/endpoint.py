"""Rollouts from an OpenAI-compatible endpoint: texts, without entropies."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from dare_reward.answers.rollouts import spoken
from dare_reward.errors import DareError, RefusedError, ReplyError, UnavailableError

from .rollout_file import MeasurePlan, Want

JSON = dict[str, Any]
TRIES = 5
PAUSE = 1.0  # seconds before the second try; doubles
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
TIMEOUT = httpx.Timeout(3600.0, connect=10.0)  # 3,072 tokens on a busy server take minutes


async def collect(
    url: str,
    plan: MeasurePlan,
    wants: Sequence[Want],
    take: Callable[[JSON], None],
    *,
    concurrency: int,
    token: str | None,
) -> None:
    """Ask for every rollout that is wanted; `take` gets each problem's as they come, a part of a group at a time."""
    gate = asyncio.Semaphore(concurrency)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=concurrency)
    base = url.rstrip("/") + "/"
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=TIMEOUT, limits=limits) as client:

        async def ask(want: Want, first: int, count: int) -> list[JSON]:
            async with gate:
                choices = await _choices(client, *_request(plan, want, first, count))
            return [_rollout(choice) for choice in choices[: count or 1]]

        async def fill(want: Want) -> None:
            if want.greedy:
                take(want.problem.group([], *await ask(want, 0, 0), as_is=plan.as_is))
            first, last = plan.rollouts - want.rollouts, plan.rollouts
            while first < last:  # a server that ignores `n` gives one at a time
                rollouts = await ask(want, first, last - first)
                first += len(rollouts)
                take(want.problem.group(rollouts, as_is=plan.as_is))

        try:
            async with asyncio.TaskGroup() as tasks:
                for want in wants:
                    tasks.create_task(fill(want))
        except* DareError as errors:
            raise errors.exceptions[0] from None


def _request(plan: MeasurePlan, want: Want, first: int, count: int) -> tuple[str, JSON]:
    """What asks for `count` rollouts from the `first` on, each with a seed of its own; 0: for the greedy one."""
    digest = hashlib.sha256(json.dumps([plan.seed, want.problem.id, first]).encode()).digest()
    body: JSON = {
        "model": plan.model,
        "n": count or 1,
        "temperature": plan.temperature if count else 0.0,
        "top_p": plan.top_p if count else 1.0,
        "max_tokens": plan.max_tokens,
        "seed": int.from_bytes(digest[:4], "big") >> 1,
        **({"stop": list(plan.stop)} if plan.stop else {}),
    }
    text = plan.sent(want.problem)
    if not plan.chat:
        return "completions", {**body, "prompt": text}
    return "chat/completions", {**body, "messages": [{"role": "user", "content": text}]}


def _rollout(choice: Mapping[str, Any]) -> JSON:
    """The text; of a server that keeps the reasoning apart from the answer the answer alone."""
    message = choice.get("message")
    content = spoken(message.get("content")) if isinstance(message, dict) else choice.get("text")
    return {
        "text": content if isinstance(content, str) else "",
        "finish_reason": str(choice.get("finish_reason") or "stop"),
    }


async def _choices(client: httpx.AsyncClient, route: str, body: Mapping[str, Any]) -> list[JSON]:
    """Those of one reply; what passes is tried again, what does not is an error with the server's words."""
    problem, address = "", f"{client.base_url}{route}"
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            reply = await client.post(route, json=body)
        except httpx.RequestError as error:
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
            raise ReplyError(f"{address}: not JSON") from None
        choices: Any = value.get("choices") if isinstance(value, dict) else None
        told = isinstance(choices, list) and all(isinstance(c, dict) and {"message", "text"} & {*c} for c in choices)
        if not (told and choices):
            raise ReplyError(f"{address}: a reply without choices that hold a message or a text")
        return list(choices)
    raise UnavailableError(f"{address}: {problem} ({TRIES} tries)")
