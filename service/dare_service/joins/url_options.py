"""The URL of OpenRLHF's flag where nothing of ours is installed: what the service asks of it, and how it is minted."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from urllib.parse import urlencode
from uuid import uuid4

from dare_reward.errors import RequestError
from dare_reward.openrlhf import is_distinct
from dare_reward.openrlhf.url import RunSettings
from dare_reward.params import query_texts

from ..settings import Settings


@lru_cache(maxsize=1024)
def run_of(query: str, settings: Settings) -> RunSettings:
    """What the query string of OpenRLHF's flag says. Cached: thousands of posts carry the same one."""
    asked = RunSettings.read(query, method=settings.method, params=settings.default_params)
    if (asked.group_size or 1) > settings.max_rollouts:
        message = f"at most {settings.max_rollouts} (DARE_MAX_ROLLOUTS)"
        raise RequestError(message, loc=("query", "group_size"), code="parameter")
    return asked


def size_of_group(asked: RunSettings, settings: Settings, address: Callable[[], str]) -> int:
    """RequestError, with both ways out, where nothing tells whose sibling a rollout is that comes alone."""
    if asked.group_size is None:
        raise _missing("group_size", "add group_size, your --rollout.n_samples_per_prompt", address(), 8)
    named = is_distinct(asked.run) or (settings.join_runs == "any" and asked.run)
    if asked.group_size > 1 and not named:
        why = "run= must hold nine digits or a UUID: jobs would share groups"
        raise _missing("run", why, address(), asked.group_size)
    return asked.group_size


def minted(query: str, address: str, settings: Settings) -> str:
    """The checked URL for OpenRLHF's flag, with a UUID as its run where it names none; never with the token.

    OpenRLHF splits the flag at commas, so the URL has none.
    """
    if "," in address:
        message = "holds a comma, at which OpenRLHF splits the URL: ask by the name of one host"
        raise RequestError(message, loc=("Host",), code="host")
    texts = query_texts(query)
    texts.pop("token", None)
    texts.setdefault("run", str(uuid4()))
    text = urlencode(texts, safe="/:")
    size_of_group(run_of(text, settings), settings, lambda: address)
    return f"{address}/reward?{text}"


def _missing(name: str, why: str, address: str, size: int) -> RequestError:
    """Short: OpenRLHF's log shows 200 characters."""
    ways = f'Get the URL: curl -sS "{address}/openrlhf?group_size={size}". Or install dare-reward on the rollout nodes'
    return RequestError(f"{why}. {ways}", loc=("query", name), code="missing_parameter")
