"""dare-reward: reward estimation for label-free (test-time) reinforcement learning of language models.

    import dare_reward
    reply = dare_reward.estimate(groups, method="dare", alpha=0.1)      in process
    with dare_reward.Client("http://127.0.0.1:8000") as client:         over HTTP
        rewards = client.rewards(groups, method="dare", alpha=0.1)

Importing this package loads NumPy and nothing else; the clients load httpx on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__
from .errors import (
    ConfigError,
    DareError,
    FrameError,
    GroupError,
    LimitError,
    RefusedError,
    ReplyError,
    RequestError,
    ServiceError,
    UnavailableError,
)
from .groups import Groups, Ragged
from .inputs import AnsweredRollout, Group, Rollout
from .methods import methods
from .reply import GroupReply, Reply, Support
from .scoring.score import estimate
from .votes import Waves, votes_suffice

if TYPE_CHECKING:
    from .client import AsyncClient, Client

__all__ = [
    "AnsweredRollout",
    "AsyncClient",
    "Client",
    "ConfigError",
    "DareError",
    "FrameError",
    "Group",
    "GroupError",
    "GroupReply",
    "Groups",
    "LimitError",
    "Ragged",
    "RefusedError",
    "Reply",
    "ReplyError",
    "RequestError",
    "Rollout",
    "ServiceError",
    "Support",
    "UnavailableError",
    "Waves",
    "__version__",
    "estimate",
    "methods",
    "votes_suffice",
]


def __getattr__(name: str) -> Any:
    if name in {"AsyncClient", "Client"}:
        from . import client  # noqa: PLC0415  (httpx costs 180 ms and a base layer may never need it)

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
