"""The service call of one group, with what happens when it fails. After the start nothing here raises.

At the start the service scores a synthetic group: if it cannot be reached, refuses, or would score by another version
or configuration than this process, the run must not begin. Later, a service that is away, slow, or has changed is
replaced by the same estimator in process, under the configuration that was pinned at the start.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from dare_reward import AsyncClient, Client, GroupReply, Reply, __version__
from dare_reward.errors import ConfigError, ReplyError
from dare_reward.methods import config_id
from dare_reward.runs.line import asked_for, of_scored
from dare_reward.runs.log import run_log_of
from dare_reward.scoring.score import ScoredGroups, score
from dare_reward.stacks.collapse import RunWatch

from .config import AgentConfig

logger = logging.getLogger("dare_trainer")

Group = Any  # `dare_reward.Group`, which the executor builds key by key


def synthetic_group(entropies: bool = True) -> Group:
    """Four rollouts, two answers."""
    rows = [("7", 0.2), ("7", 0.3), ("7", 0.25), ("5", 0.4)]
    known = {"num_tokens": 10, "sum_logprob": -2.0, "answer_logprob": -0.5}
    rollouts = [
        {"answer": a, **({"mean_entropy": h, "answer_entropy": h, "path": str(i), **known} if entropies else {})}
        for i, (a, h) in enumerate(rows)
    ]
    return {"group_id": "handshake", "kind": "exact", "rollouts": rollouts}


def handshake(config: AgentConfig, *, transport: Any = None) -> Reply:
    """What the service says of the synthetic group, which no run log counts; ConfigError if it differs here."""
    options: dict[str, Any] = {"token": config.token or None, "timeout": config.timeout, "retries": config.retries}
    group, params = synthetic_group(), config.every_param
    with Client(config.url, **options, record=False, transport=transport) as client:
        client.wait_ready(config.start_timeout)
        remote = client.reward([group], method=config.method, run=config.run or None, shadow=config.shadow, **params)
    here = config_id(config.method, params)
    if (remote.config_id, remote.version) != (here, __version__):
        raise ConfigError(
            f"{config.url} runs dare-reward {remote.version} and scores by {remote.config_id[:12]}; this process is "
            f"{__version__} and would fall back to {here[:12]}. Install the same version on both sides"
        )
    local = score([group], params, method=config.method, shadow=config.shadow).reply
    if (remote.groups[0].error is None) != (local.groups[0].error is None) or not _agree(
        remote.groups[0], local.groups[0]
    ):
        raise ConfigError(
            f"{config.url} scores the synthetic group as {remote.groups[0].rewards}, "
            f"this process as {local.groups[0].rewards}"
        )
    return remote


def _agree(one: GroupReply, other: GroupReply) -> bool:
    if one.rewards is None or other.rewards is None:
        return one.rewards is other.rewards
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(one.rewards, other.rewards, strict=True))


class Estimation:
    """One per actor. `fallbacks` counts the groups that the service did not score."""

    def __init__(self, config: AgentConfig, *, transport: Any = None) -> None:
        self.config = config
        self.params = config.every_param
        self.fallbacks = 0
        self._watch = RunWatch() if config.on_collapse == "warn" else None
        options: dict[str, Any] = {"token": config.token or None, "timeout": config.timeout, "retries": config.retries}
        logged: dict[str, Any] = {"run_log": config.run_log or None, "run_log_texts": config.run_log_texts}
        tokens = config.send == "tokens"
        self._client = AsyncClient(config.url, **options, **logged, send_tokens=tokens, transport=transport)

    async def score(self, group: Group) -> tuple[GroupReply | None, float]:
        """The group's reply and how it was got: 0 by the service, 1 in process, 2 not at all (None)."""
        try:
            async with asyncio.timeout(self.config.patience):
                reply = await self._client.reward(
                    [group],
                    method=self.config.method,
                    run=self.config.run or None,
                    shadow=self.config.shadow,
                    **self.params,
                )
            if reply.groups[0].error is None:
                if (reply.config_id, reply.version) != (config_id(self.config.method, self.params), __version__):
                    raise ConfigError("the service scores by another version or configuration than at the start")
                self._see(reply)
                return reply.groups[0], 0.0
            raise ReplyError(f"{reply.groups[0].error.code}: {reply.groups[0].error.message}")
        except Exception as error:  # noqa: BLE001  (a training run does not die of its rewards)
            why = error
        self.fallbacks += 1
        logger.warning(
            "group %s is scored in process (%d so far): %s: %s",
            group.get("group_id"),
            self.fallbacks,
            type(why).__name__,
            why,
        )
        return self._in_process(group)

    def _in_process(self, group: Group) -> tuple[GroupReply | None, float]:
        attempts: Sequence[Mapping[str, Any]] = [self.params]
        if "missing_entropy" in self.params:
            attempts = [self.params, {**self.params, "missing_entropy": "frequency"}]
        for params in attempts:
            try:
                scored = score([group], params, method=self.config.method, shadow=self.config.shadow)
                reply = scored.reply.groups[0]
            except Exception:
                logger.exception("group %s could not be scored in process", group.get("group_id"))
                continue
            if reply.error is None:
                self._log(scored, group)
                self._see(scored.reply)
                return reply, 1.0
            logger.error("group %s: %s", group.get("group_id"), reply.error.message)
        return None, 2.0

    def _see(self, reply: Reply) -> None:
        """Say where the run collapses, if that was asked for; 64 groups count as a step."""
        if self._watch is None:
            return
        try:
            self._watch.see(reply)
        except Exception:
            logger.exception("the state of the run is not known")
            self._watch = None

    def _log(self, scored: ScoredGroups, group: Group) -> None:
        """A group that was scored here; the client logs those that the service scored."""
        if self.config.run_log:
            asked, run = asked_for(self.config.run_log_texts), self.config.run or None
            make = partial(of_scored, scored, [group], asked=asked, run=run)
            run_log_of(Path(self.config.run_log).absolute(), asked).add_made(make, 1)

    async def close(self) -> None:
        await self._client.close()
