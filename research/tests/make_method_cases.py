"""A second implementation of the experimental estimators, on the groups of tests/data/make_method_cases.py.

python3 research/tests/make_method_cases.py > research/tests/method_cases.json
"""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
sys.path.insert(0, str(DATA))

from make_method_cases import Group, answers_of, mean, most_common, normalised, ones, population_std, quantile, ttrl  # noqa: E402


def compass(group: Group, conf_sign: int = -1) -> list[float]:
    answers = answers_of(group)
    gaps = [[math.exp(row[0]) - math.exp(row[1]) for row in r["topk_logprobs"]] for r in group["rollouts"]]
    conf = [math.exp(conf_sign * population_std(g)) for g in gaps]
    valid = [c for a, c in zip(answers, conf, strict=True) if a is not None]
    if not valid:
        return [0.0] * len(answers)
    total: dict[str, float] = {}
    for a, c in zip(answers, conf, strict=True):
        if a is not None:
            total[a] = total.get(a, 0.0) + c
    label = max(total, key=lambda y: total[y])
    credible = max(c for a, c in zip(answers, conf, strict=True) if a == label) / max(valid)
    out = []
    for a, g, r in zip(answers, gaps, group["rollouts"], strict=True):
        h = r["token_entropies"]
        path = math.fsum(x * y for x, y in zip(h, g, strict=True)) / math.fsum(h)
        out.append(0.0 if a is None else credible * (a == label) + path)
    return out


def restrain(
    group: Group, *, k: float = 1.0, sigma: float = 0.5, kappa: float = 2.0, delta: float = 1.0
) -> list[float]:
    answers = answers_of(group)
    counts = Counter(a for a in answers if a is not None)
    u = group["prompt_weight"]
    if not counts:
        return [u * -delta] * len(answers)
    g = {y: math.exp(-((n / len(answers) - k) ** 2) / (2 * sigma**2)) for y, n in counts.items()}
    if max(counts.values()) < kappa:
        return [-u * delta] * len(answers)
    total = [0.0] * len(answers)
    for y in counts:
        for i, a in enumerate(normalised([float(x == y) for x in answers])):
            total[i] += g[y] / math.fsum(g.values()) * a
    return [u * t for t in total]


def t3rl(group: Group, weight: float = 5.0) -> list[float]:
    total: dict[str, float] = {}
    for r in group["rollouts"]:
        if r["answer"] is not None:
            total[r["answer"]] = total.get(r["answer"], 0.0) + (weight if r["verified"] else 1.0)
    return ones(answers_of(group), max(total, key=lambda y: total[y]) if total else None)


def jury_rl(group: Group, c: float = 0.5) -> list[float]:
    answers, checks = answers_of(group), [r["verified"] for r in group["rollouts"]]
    label, m = most_common(answers), len(answers)
    agree = [a is not None and a == label for a in answers]
    if any(a and v for a, v in zip(agree, checks, strict=True)):
        return [float(a) for a in agree]
    rest = [a for a, own in zip(answers, agree, strict=True) if not own]
    share = sum(agree) / m
    z = [0.0 if a is None or len(rest) < 2 else (rest.count(a) - 1) / (len(rest) - 1) for a in rest]
    level = mean(z) if z else 0.0
    support = iter(z)
    return [c * share**2 + (-c * share if own else share * (next(support) - level)) for own in agree]


def spine(group: Group, fraction: float = 0.2) -> dict[str, Any]:
    """TTRL's rewards, then the mask of each rollout and the band."""
    masks, picked = [], []
    for r in group["rollouts"]:
        h = r["token_entropies"]
        top = sorted(range(len(h)), key=lambda i: (-h[i], i))[: math.ceil(fraction * len(h))]
        masks.append([i in top for i in range(len(h))])
        picked += [h[i] for i in top]
    return {
        "rewards": ttrl(group),
        "token_mask": masks,
        "band_low": quantile(picked, 0.1),
        "band_high": quantile(picked, 0.5),
    }


VARIANTS = [
    (compass, {}),
    (t3rl, {}),
    (spine, {}),
    (restrain, {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 1.0}),
    (restrain, {"k": 0.5, "sigma": 0.2, "kappa": 0.0, "delta": 1.0}),
    (compass, {"conf_sign": 1}),
    (jury_rl, {"c": 0.5}),
    (jury_rl, {"c": 0.0}),
]

if __name__ == "__main__":
    groups = json.loads((DATA / "method_cases.json").read_text())["groups"]
    rows = [{"method": f.__name__, "params": p, "expected": [f(g, **p) for g in groups]} for f, p in VARIANTS]
    json.dump({"groups": groups, "cases": rows}, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
