"""OpenRLHF's reward URLs in the rollout actor: which services they name, for which run, and by which settings."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from importlib import import_module
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from dare_reward.client import environment_token
from dare_reward.errors import ConfigError, RequestError
from dare_reward.openrlhf import NOTHING
from dare_reward.openrlhf.url import ActorSettings

ROUTE: Final = re.compile(r"(/v1/reward|/get_reward|/reward)?/?$")  # behind the prefix of a gateway


@dataclass(frozen=True, slots=True)
class RewardUrls:
    """The servers of OpenRLHF's `reward_endpoints`, whoever they are: without our route, query and password.

    A group asks the next one where one is away.

    patience   seconds to wait for the first of them: `start_timeout` of the first URL where it can be read
    """

    services: tuple[str, ...]
    queries: frozenset[str]
    token: str = field(repr=False)
    patience: float

    @classmethod
    def of(cls, urls: Sequence[str], environment: Mapping[str, str] = os.environ) -> Self:
        split = [urlsplit(url) for url in urls]
        bare = [at._replace(path=ROUTE.sub("", at.path), netloc=at.netloc.rpartition("@")[2]) for at in split]
        services = tuple(urlunsplit((at.scheme, at.netloc, at.path, "", "")) for at in bare)
        said = [dict(parse_qsl(at.query)) for at in split]
        token = said[0].get("token") or environment_token(environment) or ""
        wait, patience = ActorSettings.specs()["start_timeout"], []
        for texts in said:
            with suppress(KeyError, RequestError):
                patience.append(wait.parse(texts[wait.name]))
        return cls(services, frozenset(at.query for at in split), token, [*patience, wait.default][0])

    def settings(self, info: Mapping[str, Any] = NOTHING) -> ActorSettings:
        """What the URLs say; what they leave out is the default that a service names in `info`.

        ConfigError names what is wrong, and what you may have meant.
        """
        if len(self.queries) > 1:
            raise ConfigError(
                "the reward URLs have different queries: a group goes to any of them, so they must be the same"
            )
        (query,), served = self.queries, info.get("settings") or {}
        params = json.loads(served.get("params") or "{}")
        try:
            return ActorSettings.read(query, method=served.get("method", "dare"), params=params)
        except RequestError as error:
            raise ConfigError(f"the reward URL: {error}") from None


def job_name() -> str:
    """A run's name where the URL has none: the same in all rollout actors of a Ray job, unlike any other job's."""
    try:
        context = import_module("ray").get_runtime_context()
        said = f"{context.get_session_name()} {context.get_job_id()}"
    except Exception:  # noqa: BLE001  (no Ray, or none that runs: this process is all there is of the run)
        said = uuid.uuid4().hex
    return f"openrlhf-{blake2b(said.encode(), digest_size=6).hexdigest()}"
