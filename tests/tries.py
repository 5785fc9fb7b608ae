"""OpenRLHF's client, try by try; a training step made of such clients; and what the service that they ask shows."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Awaitable, Callable
from typing import Any


async def post(url: str, text: str, *, drop: Awaitable[None] | None = None) -> tuple[int, Any]:
    """One try of OpenRLHF's client: a connection of its own, its headers, its body. It breaks once `drop` is over."""
    address, _, path = url.removeprefix("http://").partition("/")
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    content = text.encode()
    head = (
        f"POST /{path} HTTP/1.1\r\nHost: {address}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
        f"User-Agent: Python/3.11 aiohttp/3.14.5\r\nContent-Length: {len(content)}\r\nContent-Type: application/json\r\n\r\n"
    )
    try:
        writer.write(head.encode() + content)
        if drop is not None:
            await drop
            return 0, None
        answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        size = int(answer.partition("content-length: ")[2].partition("\r\n")[0])
        return int(answer.split(" ")[1]), json.loads(await reader.readexactly(size))
    finally:
        writer.close()


async def client(
    url: str, text: str, *, start: float = 0.0, gap: float = 1.0, after: asyncio.Event | None = None
) -> Any:
    """Five tries, a pause after each failure; None after the last."""
    await asyncio.sleep(start)
    if after is not None:
        await after.wait()
    for _ in range(5):
        try:
            status, reply = await post(url, text)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            status, reply = 0, None
        if status == 200:
            return reply
        await asyncio.sleep(gap)
    return None


def rollout(group: int, number: int, size: int) -> str:
    """A text of the step: more than half of a group agree, so that no order of arrival decides; some texts are the same."""
    answer = group if number < size // 2 + 1 else group + number
    text = f"prompt {group}\n" + "because " * (number % 4) + f"\\boxed{{{answer}}}"
    return json.dumps({"query": [text], "prompts": [f"prompt {group}\n"], "labels": [""]})


async def step(url: str, groups: int, size: int, *, run: str = "r", gap: float = 1.0, last: Any = None) -> list[Any]:
    """The rewards of each rollout, None for a client whose tries are used up. Its clients all wait at once.

    The last one of each group comes when the event `last` is set.
    """
    path = f"{url}/get_reward?run={run}-000000001&group_size={size}&method=ttrl&extra_logs=off"
    asked = [
        client(path, rollout(g, i, size), gap=gap, after=last if i == size - 1 else None)
        for g in range(groups)
        for i in range(size)
    ]
    replies = await asyncio.gather(*asked)
    return [reply and (reply["rewards"], reply["scores"]) for reply in replies]


async def disturbed(
    url: str, groups: int, size: int, disturb: Callable[[], Any], *, run: str = "r", gap: float = 1.0, wait: float = 60
) -> list[Any]:
    """The same, and `disturb` is called when all but the last of each group wait."""
    last = asyncio.Event()
    clients = asyncio.ensure_future(step(url, groups, size, run=run, gap=gap, last=last))
    async with asyncio.timeout(wait):
        while await asyncio.to_thread(count, url, "dare_join_waiting") < groups * (size - 1):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    await asyncio.to_thread(disturb)
    last.set()
    return await clients


def get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as reply:
        text = reply.read().decode()
    return json.loads(text) if text.startswith("{") else text


def count(url: str, metric: str) -> float:
    """The sum of a metric's samples."""
    lines = [line for line in get(f"{url}/metrics").splitlines() if line.startswith(metric)]
    return sum(float(line.split()[-1]) for line in lines)
