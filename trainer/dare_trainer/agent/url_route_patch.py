"""The URL route with entropies: OpenRLHF's own single-turn executor sends what the plugin knows with each rollout.

Unmodified OpenRLHF posts `query`, `prompts` and `labels` of one rollout. Where this package is installed on the rollout
nodes, vLLM loads it in OpenRLHF's rollout actor (`register`), and the executor is wrapped in the actor's memory. While
the entropy plugin is on, each rollout then carries, in lists of the same length:

    group_key, index   the call of generate_responses that the rollout belongs to, and its place there
    mean_entropy, num_tokens, finish_reason, entropy_source, entropy_mode

The plugin is on by VLLM_TOKEN_ENTROPY, or because the reward URL demands entropies (`missing_entropy=error` or
`group_mean` in its query). OpenRLHF makes its executor before vLLM loads plugins, so the engine starts without them;
the wrapped `execute` reads its own URL and asks the engine's workers to switch on before the first rollout.

Two methods are wrapped, whose names and arguments are the same in 0.9.1 to 0.11.2: `execute` (to see the engine's
output) and `_fetch_rewards_via_http` (to post more fields; tries and time-outs are as there). Where they are missing,
or several URLs are given, the executor is left as it is and the route works without entropies.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import os
import sys
import uuid
from collections.abc import Mapping
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from ..vllm import plugin
from ..vllm.token_entropy import SWITCH, EntropyError, Mode, mean, token_entropies

logger = logging.getLogger("dare_trainer.agent.url_route_patch")

MODULE: Final = "openrlhf.utils.agent"
MARK: Final = "_dare_url_route"
SWITCHING: Final = "_dare_switching_on"
TRIES: Final = 5
SECONDS: Final = 180.0
ARGUMENTS: Final = {
    "execute": ("self", "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine"),
    "_fetch_rewards_via_http": ("self", "queries_list", "prompts_list", "labels_list"),
}


@dataclass(slots=True, eq=False)
class _GroupCall:
    """One call of generate_responses: its members share the `sampling_params` object that is kept here."""

    anchor: Any
    key: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: int = 0
    live: int = 0


@dataclass(slots=True, eq=False)
class _SingleRollout:
    """What is known of the rollout that this task is about."""

    call: _GroupCall
    index: int
    completion: Any = None


_rollout: ContextVar[_SingleRollout | None] = ContextVar("dare_rollout", default=None)
_calls: dict[int, _GroupCall] = {}


def register() -> None:
    """Entry point `vllm.general_plugins`: the entropy plugin, and OpenRLHF's executor where OpenRLHF runs."""
    plugin.register()
    if MODULE in sys.modules:
        patch_class(getattr(sys.modules[MODULE], "SingleTurnAgentExecutor", None))


def wanted_by_url(url: str) -> Mode | None:
    """The reward URL demands entropies."""
    wants = parse_qs(urlsplit(url).query).get("missing_entropy", [])
    return "temperature" if {"error", "group_mean"} & set(wants) else None


def patch_class(executor: Any) -> bool:
    """Wrap OpenRLHF's executor; False, with the reason in the log, if it has another shape."""
    if getattr(executor, MARK, False):
        return True
    for name, arguments in ARGUMENTS.items():
        function = getattr(executor, name, None)
        names = tuple(inspect.signature(function).parameters) if function else ()
        if names[: len(arguments)] != arguments:
            logger.warning(
                "this OpenRLHF's SingleTurnAgentExecutor.%s takes %s: the URL route stays without entropies",
                name,
                names or "nothing",
            )
            return False
    executor.execute = _execute(executor.execute)
    executor._fetch_rewards_via_http = _fetch(executor._fetch_rewards_via_http)  # noqa: SLF001
    setattr(executor, MARK, True)
    return True


async def _switch_on(executor: Any, actor: Any) -> None:
    """What this executor's URL demands, before its first rollout and once; an explicit off stays."""
    if not hasattr(executor, SWITCHING):
        wanted = next((mode for url in executor.reward_endpoints if (mode := wanted_by_url(url))), None)
        if wanted is None or os.environ.get(SWITCH):
            return
        setattr(executor, SWITCHING, asyncio.ensure_future(_switch_workers_on(actor, wanted)))
    await asyncio.shield(getattr(executor, SWITCHING))


async def _switch_workers_on(actor: Any, wanted: Mode) -> None:
    """OpenRLHF allows vLLM to send functions to its workers (VLLM_ALLOW_INSECURE_SERIALIZATION)."""
    try:
        await actor.llm.collective_rpc(plugin.switch_on, args=(wanted,))
    except Exception as error:
        raise plugin.PluginError(
            f"the reward URL demands entropies and vLLM's workers could not switch them on ({error}): set "
            f"{SWITCH}={wanted} in the environment of the rollout actors, or take missing_entropy out of the URL"
        ) from error
    plugin.turn_on(wanted)


class _RecordingEngine:
    """The actor, with requests that ask for the sampled token's log-probability and outputs that are kept."""

    def __init__(self, actor: Any, rollout: _SingleRollout) -> None:
        self._actor = actor
        self._rollout = rollout

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)

    async def generate(self, prompt_token_ids: Any, sampling_params: Any, **kwargs: Any) -> Any:
        params = deepcopy(sampling_params)
        params.logprobs = 0
        output = await self._actor.generate(prompt_token_ids, params, **kwargs)
        self._rollout.completion = output.outputs[0]
        return output


def _execute(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def execute(self: Any, *arguments: Any, **named: Any) -> Any:
        bound = signature.bind(self, *arguments, **named)
        actor, sampling_params = bound.arguments["llm_engine"], bound.arguments["sampling_params"]
        await _switch_on(self, actor)
        if plugin.mode() is None:
            return await original(*bound.args, **bound.kwargs)
        call = _calls.setdefault(id(sampling_params), _GroupCall(sampling_params))
        rollout = _SingleRollout(call, call.started)
        call.started += 1
        call.live += 1
        token = _rollout.set(rollout)
        bound.arguments["llm_engine"] = _RecordingEngine(actor, rollout)
        try:
            return await original(*bound.args, **bound.kwargs)
        finally:
            _rollout.reset(token)
            call.live -= 1
            if not call.live:
                _calls.pop(id(sampling_params), None)

    return execute


def _fetch(original: Any) -> Any:
    @functools.wraps(original)
    async def fetch(self: Any, queries_list: Any, prompts_list: Any, labels_list: Any) -> Any:
        rollout = _rollout.get()
        if rollout is None or rollout.completion is None or len(queries_list) != 1 or len(self.reward_endpoints) != 1:
            return await original(self, queries_list, prompts_list, labels_list)
        payload = {"query": queries_list, "prompts": prompts_list, "labels": labels_list, **_knowledge(rollout)}
        return [await _post(self.reward_endpoints[0], payload)]

    return fetch


def _knowledge(rollout: _SingleRollout) -> dict[str, list[Any]]:
    known: dict[str, list[Any]] = {
        "group_key": [rollout.call.key],
        "index": [rollout.index],
        "num_tokens": [len(rollout.completion.token_ids)],
        "finish_reason": [str(rollout.completion.finish_reason) if rollout.completion.finish_reason else None],
    }
    try:
        value = mean(token_entropies(rollout.completion))
    except (EntropyError, AttributeError, TypeError) as error:
        logger.warning("a rollout without entropy: %s", error)
        return known
    return {**known, "mean_entropy": [value], "entropy_source": ["exact"], "entropy_mode": [plugin.mode() or "unknown"]}


async def _post(url: str, payload: Mapping[str, Any]) -> Any:
    """As OpenRLHF posts: five tries of 180 s, a second apart. Its errors show no query: it may hold a token."""
    aiohttp = import_module("aiohttp")
    problem = ""
    for _ in range(TRIES):
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SECONDS)) as session,
                session.post(url, json=payload) as response,
            ):
                response.raise_for_status()
                return await response.json()
        except Exception as error:  # noqa: BLE001
            problem = f"{type(error).__name__} {getattr(error, 'status', '')}".rstrip()
            logger.info("reward request failed: %s", problem)
        await asyncio.sleep(1)
    raise RuntimeError(f"{url.partition('?')[0]}: no reward after {TRIES} tries ({problem})")
