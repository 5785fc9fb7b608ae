"""What the service answers to some hundreds of generated requests: JSON and frames, all methods and options, refusals.

    python tests/replies.py                   compares the replies with tests/data/replies.jsonl.gz, to the last bit
    python tests/replies.py --write           records them: for a change that is meant, which `git diff --stat` shows

A request follows from its name alone. What names a version of the answers is not compared.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from method_params import params_of
from serving import told

from dare_reward.advantages import ADVANTAGES
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.methods import methods
from dare_reward.wire import MEDIA_TYPES, pack
from dare_service.app import create_app
from dare_service.settings import Settings

RECORD = Path(__file__).parent / "data" / "replies.jsonl.gz"
VERSIONS = frozenset({"request_id", "instance", "version", "answers_version", "config_id"})
ANSWERS = {
    "math": ["1", "2", "2", "2", "3", "3.0", r"\frac{1}{2}", "1/2", "4 cm", "4", "4 m", "x = 2", "", None],
    "choice": ["A", "B", "B", "(B)", "C", "Z", None],
    "text": ["red fox", "Red  Fox", "blue", " ", None],
    "exact": ["a", "a", "b", None],
    "literal": ["[1, 2]", "[1,2]", "{}", None],
}
WRONG = (None, True, -1, 0.5, 1e300, 2**70, "", "x" * 300, "\u0000", [], [1], ["A"], [[-0.5]], {}, {"a": 1}, [{}])
REFUSALS = 270


def names() -> list[str]:
    scored = [f"{method} {n}" for method in methods() for n in range(8)]
    return [*scored, *(f"refusal {n}" for n in range(REFUSALS))]


def request(name: str) -> dict[str, Any]:
    """URL, body and headers."""
    method, _, _ = name.partition(" ")
    rng = random.Random(name)
    body = _body(rng, method if method in methods() else rng.choice(["dare", "ttrl", "ddrl", "rent"]))
    query = {"detail": "rewards"} if rng.random() < 0.3 else {}
    if rng.random() < 0.2:
        query |= {"method": body.pop("method"), **({"alpha": "0.3"} if method.startswith("dare") else {})}
    headers = {"content-type": "application/json"}
    rng.random()  # the recorded requests drew a form of their reply here
    columns = _columns(body) if method != "refusal" and rng.random() < 0.3 else {}
    if method == "refusal":
        _spoil(rng, body)
    content: str | bytes = json.dumps(body)
    if method == "refusal" and rng.random() < 0.1:
        content = content.replace("0.", rng.choice(["NaN", "1e999", "-Infinity", "[", "\\"]), 1)
    if columns:
        content, headers["content-type"] = pack(body, columns), MEDIA_TYPES[0]
    return {"url": "/v1/reward", "params": query, "content": content, "headers": headers}


def _body(rng: random.Random, method: str) -> dict[str, Any]:
    tokens = rng.random() < 0.5
    keys = {key for key in ("path", "correct", "id", "finish_reason", "trained", "meta") if rng.random() < 0.25}
    body: dict[str, Any] = {"groups": [_group(rng, p, tokens, keys) for p in range(rng.randrange(1, 5))]}
    body |= {"method": method, "params": params_of(method)}
    options = {
        # The recorded requests were drawn when grpo had two names.
        "advantage": lambda: rng.choice(["grpo", *ADVANTAGES, "gmae", "ddrl"]),
        "selection": lambda: "ddrl",
        "reshape": lambda: "ear" if "advantage" in body else None,
        "adv_clip": lambda: 0.5 if "advantage" in body else None,
        "settled": lambda: 0.7,
        "spans": lambda: True,
        "shadow": lambda: rng.sample(["ttrl", "scrl", "dare", "rent"], 2),
        "seed": lambda: 3,
        "step": lambda: 12,
        "answers_version": lambda: "1",
        "meta": lambda: {"a": [1]},
    }
    for name, value in options.items():
        if rng.random() < 0.2:
            body[name] = value()
    reading = {"truncated": "invalid", "units": "ignore", "unmarked": "number", "open_think": True}
    body["params"] |= {name: value for name, value in reading.items() if rng.random() < 0.05}
    return body


def _group(rng: random.Random, p: int, tokens: bool, keys: set[str]) -> dict[str, Any]:
    kind = rng.choice(["math", "math", "math", *ANSWERS])
    size = rng.randrange(1, 9)
    group: dict[str, Any] = {"rollouts": [_rollout(rng, i, kind, tokens, keys) for i in range(size)]}
    seconds = [{"answer": rng.choice(ANSWERS[kind])} for _ in range(rng.randrange(1, 5))]
    optional = {
        "group_id": f"g{p}",
        "kind": kind,
        "label": rng.choice(["2", "B", "red fox", "x"]),
        "reference": "2",
        "prompt": "How many?",
        "prompt_weight": round(rng.random(), 3),
        "entropy_source": rng.choice(["exact", "topk", None]),
        "second_group": seconds,
        "teacher_group": [*seconds, {"text": "So it is \\boxed{2}."}],
    }
    group |= {key: value for key, value in optional.items() if rng.random() < 0.7}
    if kind == "choice":
        group |= {"kind": kind, "options": rng.choice([4, ["A", "B", "C"], None])}
    if rng.random() < 0.1:
        rng.choice("abc")  # drawn once more, so that the other requests stay what they were
    return group


def _rollout(rng: random.Random, i: int, kind: str, tokens: bool, keys: set[str]) -> dict[str, Any]:
    def numbers(count: int, high: float = 1.0) -> list[float]:
        return [round(high * rng.random(), 6) for _ in range(count)]

    count = rng.randrange(1, 6)
    answer = rng.choice(ANSWERS[kind])
    out: dict[str, Any] = (
        {"answer": answer} if rng.random() < 0.7 else {"text": f"Well. The answer is \\boxed{{{answer}}}"}
    )
    out |= {"ref_token_probs": numbers(2), "base_ref_mean_prob": numbers(1)[0], "format": 1.0, "verified": count % 2}
    out |= {"pass_rate": numbers(1)[0], "embedding": numbers(3)}
    of_means = {"mean_entropy": numbers(1, 3.0)[0], "num_tokens": count - 1, "sum_logprob": -numbers(1, 9.0)[0]}
    of_means |= {"mean_self_certainty": numbers(1, 9.0)[0], "confidence": numbers(1, 9.0)[0]}
    of_tokens: dict[str, Any] = {name: numbers(count, 3.0) for name in ("token_entropies", "token_self_certainty")}
    of_tokens |= {"token_logprobs": [-x for x in numbers(count)], "step_ends": [count], "token_ids": [i % 3] * count}
    of_tokens |= {
        "topk_logprobs": [[-0.1, -x] for x in numbers(count)],
        "token_mask": [x > 0.2 for x in numbers(count)],
    }
    out |= of_tokens if tokens else of_means
    optional = {"path": str(i % 3), "correct": bool(i % 2), "id": f"r{i}", "meta": {"i": i}, "trained": i > 0}
    optional["finish_reason"] = rng.choice(["stop", "length", None])
    out |= {key: value for key, value in optional.items() if key in keys}
    lost = rng.choice(list(out)) if rng.random() < 0.05 else ""
    return {key: value for key, value in out.items() if key != lost}


def _columns(body: dict[str, Any]) -> dict[str, Any]:
    """Takes the arrays that every rollout has out of the body."""
    rollouts = [rollout for group in body["groups"] for rollout in group["rollouts"]]
    out: dict[str, Any] = {}
    for name, field in FIELDS.items():
        if all(name in r for r in rollouts):
            values = [r.pop(name) for r in rollouts]
            dtype = {"float": np.float64, "int": np.int64, "bool": np.bool_}[field.type]
            if field.ragged:
                flat = np.array([x for value in values for x in value], dtype)
                out[name] = Ragged(flat, np.array([len(value) for value in values], np.int64))
            else:
                out[name] = np.array(values, dtype)
    return out


def _spoil(rng: random.Random, body: dict[str, Any]) -> None:
    """One value of the body, of a group or of a rollout becomes another, or a key too many."""
    if rng.random() < 0.1:
        body["groups"].append(dict(body["groups"][0]))
    group = rng.choice(body["groups"])
    rollout = rng.choice(group["rollouts"])
    place = rng.choice(
        [body, body, group, group, *(x for x in (group.get("second_group") or [])[:1]), rollout, rollout]
    )
    known = {"params", "groups", "shadow", "seed", "rollouts", "group_id", "kind", "options", "trained", "id", "meta"}
    key = rng.choice(sorted({*place, *rng.sample(sorted(known), 3), "completion", "odd"}))
    place[key] = rng.choice(WRONG)


async def replies(wanted: list[str]) -> dict[str, Any]:
    app = create_app(Settings(page="off"))
    out = {}
    transport = httpx.ASGITransport(app=told(app), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        for name in wanted:
            reply = await client.post(**request(name))
            out[name] = [reply.status_code, _compared(reply.json())]
    return out


def _compared(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _compared(value[key]) for key in sorted(value) if key not in VERSIONS}
    return [_compared(x) for x in value] if isinstance(value, list) else value


def recorded() -> dict[str, Any]:
    with gzip.open(RECORD, "rt") as file:
        return dict(map(json.loads, file))


def differences(a: Any, b: Any, *, tolerance: float = 0.0, place: str = "") -> Iterator[str]:
    """Where the two differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for key in a:
            yield from differences(a[key], b[key], tolerance=tolerance, place=f"{place}.{key}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from differences(x, y, tolerance=tolerance, place=f"{place}[{i}]")
    elif isinstance(a, float) and isinstance(b, float):
        if not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance):
            yield f"{place}: {a!r} was {b!r}"
    elif type(a) is not type(b) or a != b:
        yield f"{place}: {str(a)[:300]} was {str(b)[:300]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="Record the replies.")
    asked = parser.parse_args()
    os.environ["DARE_LOG"] = "off"
    if asked.write:
        lines = (json.dumps(item, separators=(",", ":")) + "\n" for item in asyncio.run(replies(names())).items())
        RECORD.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))
        return 0
    before = recorded()
    now = asyncio.run(replies(list(before)))
    different = [line for name in before for line in differences(now[name], before[name], place=name)]
    print("\n".join([*different, f"{len(before)} replies, {len(different)} differences"]))
    return bool(different)


if __name__ == "__main__":
    sys.exit(main())
