"""How users write it, for the type checker (mypy reads this file; a test runs it)."""

from typing import assert_type

import dare_reward
from dare_reward import AsyncClient, Client, GroupReply, Groups, Reply

groups = [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]


def in_process() -> list[float]:
    reply = dare_reward.estimate(groups, method="dare", alpha=0.2, weight="sqrt")
    assert_type(reply, Reply)
    assert_type(reply.groups, tuple[GroupReply, ...])
    prepared = dare_reward.estimate(Groups.of([["1", "2", None]], mean_entropy=[[0.1, 0.2, 0.3]]))
    assert_type(prepared.groups[0].rewards, tuple[float, ...] | None)
    return [r for g in reply.groups for r in g.rewards or ()]


def over_http(url: str) -> list[list[float | None]]:
    with Client(url, fallback="local") as client:
        assert_type(client, Client)
        assert_type(client.reward(groups, run="a", step=1), Reply)
        return client.rewards(groups, method="ttrl", tie="first")


async def asynchronously(url: str) -> list[list[float | None]]:
    async with AsyncClient(url) as client:
        assert_type(await client.reward(groups), Reply)
        return await client.rewards(groups)


if __name__ == "__main__":
    assert in_process() == [1.0]
