"""OpenRLHF's own single-turn executor, whose reward URL becomes one grouped `POST /reward` per prompt.

vLLM loads `register` in OpenRLHF's rollout actor, and two methods are wrapped in its memory: `execute`, to see who
generates what, and `_fetch_rewards_via_http`, where a member hands its rollout in and waits for its siblings. All else,
from the prompt's tokens to what is stored, is OpenRLHF's. Names and arguments are the same in 0.9.1 to 0.11.2. Where
they are others, or the reward is a file or another server's, the executor is left as it is.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from ..vllm import plugin

if TYPE_CHECKING:
    from dare_reward.openrlhf import RolloutOutcome

    from .group import Delivery
    from .rollout_reader import ReadRollout
    from .siblings import SiblingCall

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


class GroupRoute:
    """What one executor's reward URLs say, and the groups that are open."""

    def __init__(self, urls: Sequence[str]) -> None:
        # Each vLLM process of the environment imports this file, and few of them ever get here.
        from .group import GroupReward  # noqa: PLC0415
        from .siblings import Siblings  # noqa: PLC0415

        self.reward = GroupReward(urls)
        self.siblings: Siblings[Delivery, RolloutOutcome] = Siblings(self.reward.score)
        self._begun: asyncio.Future[bool] | None = None

    async def begin(self, actor: Any) -> bool:
        """Whether the URL is a service of ours, asked once, before the first rollout. What fails here ends the run."""
        if self._begun is None:
            self._begun = asyncio.ensure_future(self.reward.begin(actor))
        return await asyncio.shield(self._begun)


def _route(executor: Any) -> GroupRoute | None:
    urls = executor.reward_endpoints
    if not urls or executor.reward_func is not None or not urls[0].startswith(("http://", "https://")):
        return None
    if vars(executor).get(ROUTE) is None:
        setattr(executor, ROUTE, GroupRoute(urls))
    route: GroupRoute = vars(executor)[ROUTE]
    return route


class _Call:
    """One call of `execute`, and the engine as that call sees it."""

    def __init__(self, route: GroupRoute, member: SiblingCall[Delivery, RolloutOutcome], bound: dict[str, Any]) -> None:
        self.route, self.member, self.bound = route, member, bound
        self.actor = bound["llm_engine"]
        self.delivery: Delivery | None = None
        self.outcome: RolloutOutcome | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.actor, name)

    async def generate(self, ids: Any, sampling_params: Any, **more: Any) -> Any:
        """What OpenRLHF's executor gets of the engine: the continuation that trains. The others only vote."""
        reward = self.route.reward
        label = reward.label(self.bound["label"])

        async def one() -> tuple[Any, ReadRollout]:
            output = await self.actor.generate(list(ids), reward.reader.asked(deepcopy(sampling_params)), **more)
            return output, reward.reader.read(output.outputs[0], label, self.bound["hf_tokenizer"], self.actor)

        def votes() -> int:
            return 1 if label.split == "eval" else reward.votes_each(self.member.group.members)

        (output, first), *others = await self.member.run(lambda: _together(one, votes()))
        rollouts = (first, *(rollout for _, rollout in others))
        self.delivery = reward.delivery(self.bound, label, rollouts, one, sampling_params)
        return output


async def _together(one: Callable[[], Any], count: int) -> list[tuple[Any, ReadRollout]]:
    """The first continuation, whose failure is raised, and those of `count` - 1 others that did not fail."""
    from .siblings import stop  # noqa: PLC0415  as in GroupRoute

    tasks = [asyncio.ensure_future(one()) for _ in range(count)]
    try:
        first = await tasks[0]
        others = await asyncio.gather(*tasks[1:], return_exceptions=True)
    finally:
        for task in tasks:
            await stop(task)
    lost = [other for other in others if isinstance(other, BaseException)]
    if lost:
        logger.warning("%d of %d vote-only rollouts failed: %r", len(lost), count - 1, lost[0])
    return [first, *(other for other in others if not isinstance(other, BaseException))]


def _execute(original: Any) -> Any:
    signature = inspect.signature(original)

    @functools.wraps(original)
    async def execute(self: Any, *arguments: Any, **named: Any) -> Any:
        bound = signature.bind(self, *arguments, **named)
        route = _route(self)
        if route is None:
            return await original(*bound.args, **bound.kwargs)
        member = route.siblings.enter(bound.arguments["sampling_params"], bound.arguments["prompt"])
        call = _Call(route, member, dict(bound.arguments))
        token = None
        try:
            if not await route.begin(call.actor):
                return await original(*bound.args, **bound.kwargs)
            bound.arguments["llm_engine"] = call
            token = _call.set(call)
            output = await original(*bound.args, **bound.kwargs)
        finally:
            if token is not None:
                _call.reset(token)
            route.siblings.leave(call.member)
        if call.outcome is not None and call.delivery is not None:
            output["action_ranges"] = route.reward.actions(output["action_ranges"], call.outcome, call.delivery)
        return output

    return execute


def _fetch(original: Any) -> Any:
    @functools.wraps(original)
    async def fetch(self: Any, queries_list: Any, prompts_list: Any, labels_list: Any) -> Any:
        call = _call.get()
        if call is None or call.delivery is None or len(queries_list) != 1:
            return await original(self, queries_list, prompts_list, labels_list)
        found = await call.route.siblings.result(call.member, call.delivery)
        call.outcome = found if found is not None else call.route.reward.neutral([call.delivery])[0]
        outcome = call.outcome
        logs = {name: [value] for name, value in outcome.logs.items()}
        # Lists, as the service writes them: 0.9.10 takes a score of 0.0 for none, and the reward in its place.
        return [{"rewards": [outcome.reward], "scores": [outcome.score], "extra_logs": logs}]

    return fetch
