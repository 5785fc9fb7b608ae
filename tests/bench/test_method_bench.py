"""`estimate` on 128 groups of 64 rollouts with answers given: every method against ttrl in the same run.

pytest tests/bench/test_method_bench.py -s
"""

import gc
import time

import numpy as np
import pytest

import dare_reward
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.methods import find, methods

pytestmark = pytest.mark.bench

GROUPS, ROLLOUTS, TOKENS, TOPK, DIMENSION = 128, 64, 256, 5, 1024
RATIO = 5.0


def is_large(name):
    """Takes an array per token, an embedding, or rewards for each of a second group: stated apart."""
    return any(n in FIELDS and FIELDS[n].shape != "scalar" for n in find(name).requires)


def requests():
    """Scalars in the JSON, arrays as tensors: as a frame would bring them."""
    rng = np.random.default_rng(0)
    said = [[str(a) for a in rng.geometric(0.4, ROLLOUTS)] for _ in range(GROUPS)]
    groups = [
        {
            "group_id": str(p),
            "kind": "exact",
            "label": "1",
            "reference": "1",
            "prompt_weight": 0.5,
            "rollouts": [
                {
                    "answer": a,
                    "mean_entropy": float(rng.gamma(2, 0.2)),
                    "num_tokens": TOKENS,
                    "sum_logprob": -float(rng.gamma(2, 100)),
                    "path": str(i),
                    "mean_self_certainty": float(rng.gamma(9, 2)),
                    "confidence": float(rng.gamma(9, 1)),
                    "verified": int(rng.integers(0, 2)),
                    "format": 1.0,
                    "base_ref_mean_prob": 0.1,
                }
                for i, a in enumerate(answers)
            ],
        }
        for p, answers in enumerate(said)
    ]
    paired = [{**g, "second_group": [{"answer": a} for a in said[p]]} for p, g in enumerate(groups)]
    return groups, [{**g, "teacher_group": g["second_group"]} for g in paired]


RNG = np.random.default_rng(1)
COUNT = GROUPS * ROLLOUTS
LENGTHS = np.full(COUNT, TOKENS)
COLUMNS = {
    "token_entropies": lambda: Ragged(RNG.gamma(0.5, 1.0, COUNT * TOKENS).astype(np.float32), LENGTHS),
    "topk_logprobs": lambda: Ragged(-RNG.gamma(1.0, 1.0, (COUNT * TOKENS, TOPK)).astype(np.float32), LENGTHS),
    "embedding": lambda: RNG.normal(size=(COUNT, DIMENSION)).astype(np.float32),
    "ref_token_probs": lambda: Ragged(RNG.random(COUNT * 8), np.full(COUNT, 8)),
}


def columns(name):
    return {n: make() for n, make in COLUMNS.items() if n in find(name).requires}


def params_of(name, needed):
    return {**needed(name), **({"steps": "whole"} if name == "scope" else {})}


def seconds(call, repeats):
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
    return best


def drop(groups, names):
    """Without what follows from arrays that are sent."""
    given = {FIELDS[n].gives[0] for n in names if FIELDS[n].gives} | ({"confidence"} & set(names))
    if not given:
        return groups
    return [{**g, "rollouts": [{k: v for k, v in r.items() if k not in given} for r in g["rollouts"]]} for g in groups]


def test_every_method_against_ttrl(needed_params):
    plain, paired = requests()
    gc.collect()
    gc.disable()
    try:
        base = seconds(lambda: dare_reward.estimate(plain, method="ttrl"), 7)
        measured = {}
        for name in methods():
            arrays = columns(name)
            sent = paired if {"second_group", "teacher_group"} & set(find(name).requires) else plain
            sent, params = drop(sent, arrays), params_of(name, needed_params)
            reply = dare_reward.estimate(sent, method=name, columns=arrays, **params)
            assert all(g.error is None for g in reply.groups), name
            measured[name] = seconds(
                lambda: dare_reward.estimate(sent, method=name, columns=arrays, **params),  # noqa: B023
                2 if is_large(name) else 5,
            )
        large = {n: t for n, t in measured.items() if is_large(n)}
        for name in ("deepconf", "scope"):  # they take a ready confidence, or this
            topk = {"topk_logprobs": COLUMNS["topk_logprobs"]()}
            sent, params = drop(plain, {**topk, "confidence": None}), params_of(name, needed_params)
            large[f"{name} (top-k)"] = seconds(
                lambda: dare_reward.estimate(sent, method=name, columns=topk, **params),  # noqa: B023
                2,
            )
    finally:
        gc.enable()
    small = {n: t for n, t in measured.items() if not is_large(n)}
    print(f"\n{GROUPS} x {ROLLOUTS}, ttrl {base * 1e3:.1f} ms of CPU")
    for name, t in sorted(small.items(), key=lambda x: -x[1]):
        print(f"  {name:20} {t * 1e3:8.1f} ms  {t / base:5.2f} x ttrl")
    print(f"with arrays ({TOKENS} tokens, k = {TOPK}, embeddings of {DIMENSION}):")
    for name, t in sorted(large.items(), key=lambda x: -x[1]):
        print(f"  {name:20} {t * 1e3:8.1f} ms  {t / base:5.2f} x ttrl")
    slow = {n: round(t / base, 2) for n, t in small.items() if t > RATIO * base}
    assert not slow
