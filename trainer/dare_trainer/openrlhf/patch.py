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
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from ..vllm import plugin

if TYPE_CHECKING:
    from dare_reward.openrlhf import RolloutOutcome

    from .group import Delivery, GroupReward
    from .rollout_reader import ReadRollout

logger = logging.getLogger("dare_trainer")

MODULE: Final = "openrlhf.utils.agent"
ROUTE: Final = "_dare_route"
ARGUMENTS: Final = {
    "execute": ("self", "prompt", "label", "sampling_params", "max_length", "hf_tokenizer", "llm_engine"),
    "_fetch_rewards_via_http": ("self", "queries_list", "prompts_list", "labels_list"),
}
_call: ContextVar[_Call | None] = ContextVar("dare_call", default=None)


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


def _reward(executor: Any) -> GroupReward | None:
    """What rewards an executor's rollouts; None where that is no server."""
    urls = executor.reward_endpoints
    if not urls or executor.reward_func is not None or not urls[0].startswith(("http://", "https://")):
        return None
    if vars(executor).get(ROUTE) is None:
        # Each vLLM process of the environment imports this file, and few of them ever get here.
        from .group import GroupReward  # noqa: PLC0415

        setattr(executor, ROUTE, GroupReward(urls))
    reward: GroupReward = vars(executor)[ROUTE]
    return reward


class _Call:
    """One call of `execute`, and the engine as that call sees it."""

    def __init__(self, reward: GroupReward, arguments: dict[str, Any]) -> None:
        self.reward, self.arguments, self.actor = reward, dict(arguments), arguments["llm_engine"]
        self.member = reward.siblings.enter(arguments["sampling_params"], arguments["prompt"])
        self.delivery: Delivery | None = None
        self.outcome: RolloutOutcome | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.actor, name)

    async def generate(self, ids: Any, sampling_params: Any, **more: Any) -> Any:
        """What OpenRLHF's executor gets of the engine: the continuation that trains. The others only vote."""
        from . import group, rollout_reader, siblings  # noqa: PLC0415  as in _reward

        reward, members, call = self.reward, self.member.group, self.arguments
        label = reward.label(call["label"])

        async def one() -> tuple[Any, ReadRollout]:
            output = await self.actor.generate(list(ids), reward.reader.asked(deepcopy(sampling_params)), **more)
            return output, reward.reader.read(
                output.outputs[0], call["prompt"], label, call["hf_tokenizer"], self.actor
            )

        async def vote() -> ReadRollout:
            return (await one())[1]

        found = await members.run(
            lambda: siblings.together([one] * reward.votes_each(members.members, label), needed=1)
        )
        self.delivery = group.Delivery(
            prompt=call["prompt"],
            images=call.get("images"),
            label=label,
            rollouts=tuple(rollout for _, rollout in found),
            one=vote,
            sampling=rollout_reader.sampled_with(sampling_params, self.actor),
        )
        return found[0][0]


def _execute(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def execute(self: Any, *arguments: Any, **named: Any) -> Any:
        bound = signature.bind(self, *arguments, **named)
        reward = _reward(self)
        if reward is None:
            return await original(*bound.args, **bound.kwargs)
        call = _Call(reward, bound.arguments)
        token = None
        try:
            if not await reward.begin(call.actor):
                return await original(*bound.args, **bound.kwargs)
            bound.arguments["llm_engine"] = call
            token = _call.set(call)
            output = await original(*bound.args, **bound.kwargs)
        finally:
            if token is not None:
                _call.reset(token)
            reward.siblings.leave(call.member)
        if call.outcome is not None and call.delivery is not None:
            output["action_ranges"] = reward.actions(output["action_ranges"], call.outcome, call.delivery)
        return output

    return execute


def _fetch(original: Any) -> Any:
    @functools.wraps(original)
    async def fetch(self: Any, queries_list: Any, prompts_list: Any, labels_list: Any) -> Any:
        call = _call.get()
        if call is None or call.delivery is None or len(queries_list) != 1:
            return await original(self, queries_list, prompts_list, labels_list)
        found = await call.reward.siblings.result(call.member, call.delivery)
        call.outcome = outcome = found or call.reward.neutral([call.delivery])[0]
        logs = {name: [value] for name, value in outcome.logs.items()}
        # Lists, as the service writes them: 0.9.10 takes a score of 0.0 for none, and the reward in its place.
        return [{"rewards": [outcome.reward], "scores": [outcome.score], "extra_logs": logs}]

    return fetch
