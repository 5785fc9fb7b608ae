#!/usr/bin/env python3
"""1,000 random groups with what RPC's official code keeps of them, and its masses, for tests/unit/test_rpc.py.

The official code is read from a checkout of WNJXYK/RPC and not copied here. Its evaluator returns masses only, so that
it runs twice: with rollouts that all have different answers, whose mass is 0 where they are pruned, and as they are.

    python3 tests/data/make_rpc_kept.py CHECKOUT | gzip -n -9 > tests/data/rpc_kept.jsonl.gz
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import gamma

warnings.simplefilter("ignore")
GROUPS = 1000


def official(checkout: Path) -> Any:
    """`wpc_evaluator`, without the imports of the modules that it stands in."""
    names: dict[str, Any] = {"np": np, "minimize": minimize, "gamma": gamma}
    for file, first, last in (
        ("compute_sc.py", "class DSU", "def sc_evaluator"),
        ("compute_rpc.py", "def weibull_pdf", "class RPCEvaluator"),
    ):
        text = (checkout / file).read_text()
        exec(text[text.index(first) : text.index(last)], names)
    return names["wpc_evaluator"]


def drawn(random: np.random.Generator) -> dict[str, list[Any]]:
    """A group of 2 to 64 rollouts; paths repeat more or less often, and are of two families of probability.

    `path` is each rollout's path, the others are by path.
    """
    size = int(random.integers(2, 65))
    path = random.integers(0, max(2, int(size * random.uniform(0.2, 2))), size)
    tokens = random.integers(1, 200, path.max() + 1)
    likely = random.random(path.max() + 1) < random.uniform(0.2, 1)
    mean = np.where(likely, random.gamma(2, 0.1, path.max() + 1), random.gamma(2, 0.8, path.max() + 1))
    answer = random.integers(0, 5, path.max() + 1)
    used, path = np.unique(path, return_inverse=True)
    return {
        "path": path.tolist(),
        "answers": "".join("abcde"[answer[p]] for p in used),
        "num_tokens": tokens[used].tolist(),
        "sum_logprob": [round(float(-mean[p] * tokens[p]), 2) for p in used],
    }


def main() -> None:
    evaluator = official(Path(sys.argv[1]))
    random = np.random.default_rng(33)
    for _ in range(GROUPS):
        group = drawn(random)
        means = [s / n for s, n in zip(group["sum_logprob"], group["num_tokens"], strict=True)]
        logprobs, answers = [means[p] for p in group["path"]], [group["answers"][p] for p in group["path"]]
        each = range(len(logprobs))
        _, apart = evaluator(each, group["path"], logprobs, None, lambda *_: False, lambda *_: False)
        _, joined = evaluator(answers, group["path"], logprobs, None, lambda a, b, *_: a == b, lambda *_: False)
        kept = "".join("1" if mass > 0 else "0" for _, mass, _ in apart)
        print(json.dumps({**group, "kept": kept, "masses": {a: float(m) for a, m, _ in joined}}, separators=(",", ":")))


if __name__ == "__main__":
    main()
