"""OpenRLHF's own single-turn executor, whose reward URL becomes one grouped `POST /reward` per prompt.

vLLM loads `register` in OpenRLHF's rollout actor, and two methods are wrapped in its memory: `execute`, to see who
generates what, and `_fetch_rewards_via_http`, where a member hands its rollout in and waits for its siblings. All else,
from the prompt's tokens to what is stored, is OpenRLHF's. Names and arguments are the same in 0.9.1 to 0.11.2. Where
they are others, or the reward is a file or another server's, the executor is left as it is.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from ..vllm import plugin

if TYPE_CHECKING:
    from .group import ExecutorCall

logger = logging.getLogger("dare_trainer")

MODULE: Final = "openrlhf.utils.agent"
ROUTE: Final = "_dare_route"
ARGUMENTS: Final = {
    "execute": ("self", "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine"),
    "_fetch_rewards_via_http": ("self", "queries_list", "prompts_list", "labels_list"),
}
_member: ContextVar[ExecutorCall | None] = ContextVar("dare_member", default=None)


def register() -> None:
    """Entry point `vllm.general_plugins`: the entropy plugin, and OpenRLHF's executor where OpenRLHF runs."""
    plugin.register()
    if MODULE in sys.modules:
        patch_class(getattr(sys.modules[MODULE], "SingleTurnAgentExecutor", None))


def patch_class(executor: Any) -> bool:
    """Wrap OpenRLHF's executor; False, with the reason in the log, if it has another shape."""
    if ROUTE in getattr(executor, "__dict__", ()):
        return True
    for name, arguments in ARGUMENTS.items():
        function = getattr(executor, name, None)
        names = tuple(inspect.signature(function).parameters) if function else ()
        if names[: len(arguments)] != arguments:
            logger.warning(
                "this OpenRLHF's SingleTurnAgentExecutor.%s takes %s: it posts rollouts one by one, without entropies",
                name,
                names or "nothing",
            )
            return False
    executor.execute = _execute(executor.execute)
    executor._fetch_rewards_via_http = _fetch(executor._fetch_rewards_via_http)  # noqa: SLF001
    setattr(executor, ROUTE, None)
    return True


def _enter(executor: Any, call: dict[str, Any]) -> ExecutorCall | None:
    """One more member of a prompt's group, by the arguments of its `execute`; None where the reward is no server's."""
    urls = executor.reward_endpoints
    if not urls or executor.reward_func is not None or not urls[0].startswith(("http://", "https://")):
        return None
    # Each vLLM process of the environment imports this file, and few of them ever get here.
    from .group import ExecutorCall, GroupReward  # noqa: PLC0415

    if vars(executor).get(ROUTE) is None:
        setattr(executor, ROUTE, GroupReward(urls))
    return ExecutorCall(vars(executor)[ROUTE], call)


def _execute(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def execute(self: Any, *arguments: Any, **named: Any) -> Any:
        bound = signature.bind(self, *arguments, **named)
        member = _enter(self, bound.arguments)
        if member is None:
            return await original(*bound.args, **bound.kwargs)
        reward, token = member.reward, _member.set(member)
        try:
            if await reward.begin(member.engine):
                bound.arguments["llm_engine"] = member
            output = await original(*bound.args, **bound.kwargs)
        finally:
            _member.reset(token)
            reward.siblings.leave(member.group)
        if member.outcome is not None:
            output["action_ranges"] = reward.actions(output["action_ranges"], member.outcome, member.rollouts[0])
        return output

    return execute


def _fetch(original: Any) -> Any:
    @functools.wraps(original)
    async def fetch(self: Any, queries_list: Any, prompts_list: Any, labels_list: Any) -> Any:
        member = _member.get()
        if member is None or not member.rollouts or len(queries_list) != 1:
            return await original(self, queries_list, prompts_list, labels_list)
        outcome = await member.rewarded()
        logs = {name: [value] for name, value in outcome.logs.items()}
        # Lists, as the service writes them: 0.9.10 takes a score of 0.0 for none, and the reward in its place.
        return [{"rewards": [outcome.reward], "scores": [outcome.score], "extra_logs": logs}]

    return fetch
