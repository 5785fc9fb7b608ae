"""The bodies that stacks sent, as tests/contract/STACK.json has them."""

import json
import os
from pathlib import Path

import dare_reward

CONTRACT = Path(__file__).with_name("contract")


def compare_or_record(stack, version, bodies):
    """The same names and types are sent; with DARE_RECORD=1 the file is written anew, with the replies."""
    path = CONTRACT / f"{stack}.json"
    if os.environ.get("DARE_RECORD"):
        replies = [dare_reward.estimate(b["groups"], method=b["method"], **b["params"]).to_json() for b in bodies]
        pairs = [{"request": b, "reply": r} for b, r in zip(bodies, replies, strict=True)]
        path.write_text(json.dumps({"stack": stack, "version": version, "exchanges": pairs}, indent=1) + "\n")
    recorded = [e["request"] for e in json.loads(path.read_text())["exchanges"]]
    assert shape(bodies) == shape(recorded), "the stack sends other bodies than recorded: DARE_RECORD=1"


def shape(value):
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    return [shape(v) for v in value] if isinstance(value, list) else type(value).__name__
