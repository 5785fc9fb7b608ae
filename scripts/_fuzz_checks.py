"""What scripts/fuzz_service.py adds to schemathesis: one more check, and sense in valid requests."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import schemathesis

from dare_reward import methods

MAX_PROBLEM = 64 << 10


@schemathesis.check
def refusals_are_problems(ctx: Any, response: Any, case: Any) -> None:
    """A refusal is RFC 9457, small, and about this very request."""
    if response.status_code < 400:
        return
    media = response.headers.get("content-type")
    assert media == ["application/problem+json"], f"a refusal of type {media}"
    assert len(response.content) <= MAX_PROBLEM, f"a refusal of {len(response.content)} bytes"
    if case.method.upper() == "HEAD":
        return
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code
    assert problem["title"]
    assert problem["detail"]
    assert problem["instance"] == response.headers["x-request-id"][0]


@schemathesis.hook
def before_call(ctx: Any, case: Any, kwargs: Any) -> None:
    """Three of four valid bodies get the agreements that no schema can state, so that they are scored, not refused."""
    generation = getattr(case.meta, "generation", None)
    if generation is None or not generation.mode.is_positive or not isinstance(case.body, dict):
        return
    if "rollout" in case.body:
        case.body |= {"group_id": uuid4().hex, "group_size": 1, "index": 0}
        if isinstance(case.body["rollout"], dict):
            _agree(case.body["rollout"])
    groups = case.body.get("groups")
    if not isinstance(groups, list) or len(json.dumps(groups, default=str)) % 4 == 0:
        return
    names = list(methods())
    case.body |= {"params": {}, "method": names[len(groups) % len(names)]}
    case.query.pop("method", None)
    for group in groups:
        group.pop("group_id", None)
        if group.get("kind") == "choice":
            group["options"] = len(group["rollouts"]) % 26 + 1
        for rollout in group["rollouts"]:
            _agree(rollout)


def _agree(rollout: dict[str, Any]) -> None:
    """Tokens, mask, mean and count that fit together."""
    rollout.pop("id", None)
    tokens, mask = rollout.get("token_entropies"), rollout.get("token_mask")
    if tokens is None:
        rollout.pop("token_mask", None)
        return
    rollout.pop("mean_entropy", None)
    rollout.pop("num_tokens", None)
    if mask is not None:
        rollout["token_mask"] = [*mask, *[True] * len(tokens)][: len(tokens)]
