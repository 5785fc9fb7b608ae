"""A request that asks which groups are settled, from its body's bytes to the reply's: what `POST /v1/settled` runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from pydantic_core import to_json

from dare_reward.answers import ANSWERS_VERSION
from dare_reward.answers.effort import Effort
from dare_reward.options import chosen
from dare_reward.stopping.settled import SettledReply, decide
from dare_reward.stopping.waves import Waves, wave_specs

from .reward_request import Call, ScoredRequest, read_body, read_options, read_params
from .schema import SETTLED_KEYS, Parser
from .settings import Settings

WAVES = {s.name: s for s in wave_specs()}
SETTINGS = WAVES | chosen("method", "seed")


def answer_settled(
    settings: Settings, parser: Parser, call: Call, watch: Callable[[], None]
) -> ScoredRequest[SettledReply]:
    """The reply's bytes. What the URL says wins over the body, and the body over the server's defaults."""
    begun = time.perf_counter()
    query = call.query
    content, columns = read_body(settings, call, parser, SETTLED_KEYS, watch)
    named = read_options(SETTINGS, content, query)
    method, seed = named.pop("method", settings.method), named.pop("seed", None)
    params = read_params(settings, content, query, method, ("token", *SETTINGS))
    waves = Waves.of(named | {name: content[name] for name in ("rule_params",) if name in content})
    read = time.perf_counter()
    reply = decide(
        content["groups"],
        params,
        method=method,
        waves=waves,
        columns=columns,
        limits=settings.limits,
        seed=seed,
        effort=Effort(settings.limits.steps, watch),
    )
    stale = content.get("answers_version") not in {None, ANSWERS_VERSION}
    reply = replace(reply, request_id=call.request_id, flags=("answers_version",) if stale else ())
    notes = {k: content[k] for k in ("run", "step") if content.get(k) is not None}
    notes |= {"groups": len(reply.groups), "reward_method": method} | {
        name: reply.diagnostics[name] for name in ("settled", "votes_used", "votes_saved")
    }
    out = to_json(reply.to_json(), inf_nan_mode="null")
    return ScoredRequest(out, reply, 1e3 * (read - begun), 1e3 * (time.perf_counter() - read), notes)
