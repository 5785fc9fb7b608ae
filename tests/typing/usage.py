"""How users write it, for the type checker (mypy reads this file; a test runs it)."""

import json
from typing import Any, assert_type

import numpy as np

import dare_reward
from dare_reward import AsyncClient, Client, Group, GroupReply, Reply, Rollout

groups: list[Group] = [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]


def in_process() -> list[float]:
    reply = dare_reward.estimate(groups, method="dare", alpha=0.2, weight="sqrt")
    assert_type(reply, Reply)
    assert_type(reply.groups, tuple[GroupReply, ...])
    assert_type(reply.groups[0].rewards, tuple[float, ...] | None)
    return [r for g in reply.groups for r in g.rewards or ()]


def from_json(line: str) -> Reply:
    """What json.loads returns needs no annotation."""
    return dare_reward.estimate([json.loads(line)])


def from_dictionaries(rows: list[dict[str, Any]]) -> Reply:
    """Dictionaries of any keys are not groups for a type checker, which could see no typo in them: say that they are."""
    dare_reward.estimate(rows)  # type: ignore[arg-type]
    known: Any = rows
    return dare_reward.estimate(known)


def with_arrays() -> Rollout:
    tokens = np.array([0.1, 0.2], np.float32)
    return {"text": "...", "token_entropies": tokens, "num_tokens": np.int64(2), "mean_entropy": tokens.mean()}


def typos(client: Client) -> None:
    """Each of these lines is an error, or mypy would say that its comment is not needed."""
    dare_reward.estimate([{"rollouts": [{"answr": "1"}]}])  # type: ignore[typeddict-unknown-key]
    dare_reward.estimate([{"rollouts": [{"answer": "1"}], "promt_weight": 1.0}])  # type: ignore[typeddict-unknown-key]
    dare_reward.estimate([{"rollouts": [{"answer": "1"}], "kind": "maths"}])  # type: ignore[typeddict-item]
    dare_reward.estimate([{"rollouts": [{"answer": [1]}]}])  # type: ignore[typeddict-item]
    dare_reward.estimate([{"kind": "math"}])  # type: ignore[typeddict-item]
    client.rewards([{"rollouts": [{"mean_entropie": 0.1}]}])  # type: ignore[typeddict-unknown-key]
    rollout: Rollout = {"answer": "1", "token_entropy": [0.1]}  # type: ignore[typeddict-unknown-key]
    client.rewards([{"rollouts": [rollout]}])


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
