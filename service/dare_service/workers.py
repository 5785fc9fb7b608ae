"""The threads that work beside the event loop, and the rule that nobody works for a client that has gone.

Each kind of work has threads of its own: a storm of whole groups does not keep rollouts from being joined.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from .body import Disconnected

T = TypeVar("T")

Watch = Callable[[], None]

INLINE_BYTES = 8 << 10  # of one rollout, whose answer is then read on the event loop: 3 ms at most


class Workers:
    """Executors by kind of work.

    joins    single rollouts and their groups
    groups   requests of whole groups
    """

    def __init__(self) -> None:
        self.joins = ThreadPoolExecutor(2, "join")
        self.groups = ThreadPoolExecutor(2, "estimate")

    def stop(self) -> None:
        """What has not begun will not; what runs is not waited for."""
        for executor in (self.joins, self.groups):
            executor.shutdown(wait=False, cancel_futures=True)


async def run(executor: Executor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(executor, work)


async def unless_gone(executor: Executor, work: Callable[[Watch], T], receive: Callable[[], Awaitable[Any]]) -> T:
    """`work(watch)` on a thread, or Disconnected as soon as the client is gone.

    Work that has not begun then never does; what runs ends where it calls `watch`, which raises.
    """
    gone = threading.Event()

    def watch() -> None:
        if gone.is_set():
            raise Disconnected

    begun = executor.submit(work, watch)
    result = asyncio.wrap_future(begun)
    client = asyncio.ensure_future(until_gone(receive))
    try:
        await asyncio.wait((result, client), return_when=asyncio.FIRST_COMPLETED)
        if not result.done():
            raise Disconnected
        return result.result()
    finally:
        gone.set()
        begun.cancel()
        result.cancel()
        client.cancel()


async def until_gone(receive: Callable[[], Awaitable[Any]]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
