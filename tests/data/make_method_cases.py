#!/usr/bin/env python3
"""Random groups with the rewards that each method gives them, for tests/unit/test_method_cases.py.

A second implementation, written from the formulas: plain Python, one rollout after the other, nothing imported from this
package and no third-party code. NumPy serves only to draw (and `scope`'s draws are defined as NumPy's).

    python3 tests/data/make_method_cases.py > tests/data/method_cases.json
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

Group = dict[str, Any]
Answers = list[str | None]


def mean(xs: Iterable[float]) -> float:
    xs = list(xs)
    return math.fsum(xs) / len(xs)


def population_std(xs: list[float]) -> float:
    return statistics.pstdev(xs)


def most_common(answers: Answers) -> str | None:
    """The first seen among the most frequent; None if there is none."""
    votes = Counter(a for a in answers if a is not None)
    return votes.most_common(1)[0][0] if votes else None


def quantile(xs: list[float], q: float) -> float:
    xs = sorted(xs)
    place = q * (len(xs) - 1)
    low = math.floor(place)
    high = min(low + 1, len(xs) - 1)
    return xs[low] + (xs[high] - xs[low]) * (place - low)


def answers_of(group: Group) -> Answers:
    return [r["answer"] for r in group["rollouts"]]


def ones(answers: Answers, label: str | None) -> list[float]:
    return [float(a is not None and a == label) for a in answers]


def ttrl(group: Group) -> list[float]:
    return ones(answers_of(group), most_common(answers_of(group)))


def empo(group: Group) -> list[float]:
    answers = answers_of(group)
    return [0.0 if a is None else answers.count(a) / len(answers) for a in answers]


def gt(group: Group) -> list[float]:
    return ones(answers_of(group), group["label"])


def weighted_vote(
    group: Group, eps: float = 0.05, exponent: float = 1.0, eps_scale: float | None = None
) -> list[float]:
    u, n = {}, {}
    for a in dict.fromkeys(a for a in answers_of(group) if a is not None):
        own = [mean(r["token_entropies"]) for r in group["rollouts"] if r["answer"] == a]
        u[a], n[a] = mean(own), len(own)
    if eps_scale is not None and u:
        eps = eps_scale * statistics.median(u.values())
    weight = {a: n[a] / (u[a] + eps) ** exponent for a in u}
    return ones(answers_of(group), max(weight, key=lambda y: weight[y]) if weight else None)


def calibrated_vote(group: Group, exponent: float) -> list[float]:
    return weighted_vote(group, exponent=exponent)


def scrl(group: Group, form: str = "continuous", *, tau_pos: float = 0.375, tau_neg: float = 0.125) -> list[float]:
    tau_marg, lambda_h = 0.125, 0.1
    answers = answers_of(group)
    entropy = [mean(r["token_entropies"]) for r in group["rollouts"]]
    share = {a: answers.count(a) / len(answers) for a in dict.fromkeys(answers) if a is not None}
    u = {y: mean(e for a, e in zip(answers, entropy, strict=True) if a == y) for y in share}
    ranked = sorted(share, key=lambda y: -share[y])
    positive = None
    if ranked and share[ranked[0]] >= tau_pos and (len(ranked) == 1 or share[ranked[0]] - share[ranked[1]] > tau_marg):
        positive = ranked[0]
    out = []
    for a in answers:
        if a is None:
            out.append(-1.0)
            continue
        negative = a != positive and share[a] < tau_neg and u[a] >= mean(entropy)
        if form == "binary":
            out.append(1.0 if a == positive else -1.0 if negative else 0.0)
        else:
            base = share[a] if a == positive else -(tau_neg - share[a]) if negative else 0.0
            out.append(base - lambda_h * (u[a] - mean(entropy)))
    return out


def rent(group: Group) -> list[float]:
    return [-7.0 if r["answer"] is None else -mean(r["token_entropies"]) for r in group["rollouts"]]


def em_rl_token(group: Group) -> list[float]:
    return [-math.fsum(r["token_entropies"]) for r in group["rollouts"]]


def em_rl_sequence(group: Group) -> list[float]:
    return [math.fsum(r["token_logprobs"]) for r in group["rollouts"]]


def intuitor(group: Group) -> list[float]:
    return [mean(r["token_self_certainty"]) for r in group["rollouts"]]


def token_confidences(rollout: Group) -> list[float]:
    return [float(np.round(-mean(row), 3)) for row in rollout["topk_logprobs"]]


def trace_confidence(rollout: Group, trace: str, window: int, tail: int, bottom: float) -> float:
    c = token_confidences(rollout)
    if trace == "mean" or (trace != "tail" and len(c) < window):
        return mean(c)
    if trace == "tail":
        return mean(c[-tail:])
    windows = sorted(mean(c[i : i + window]) for i in range(len(c) - window + 1))
    return windows[0] if trace == "min_window" else mean(windows[: max(1, int(len(windows) * bottom))])


def deepconf(
    group: Group,
    *,
    trace: str = "bottom_window",
    keep: float = 0.1,
    window: int = 2048,
    tail: int = 2048,
    bottom: float = 0.1,
) -> list[float]:
    answers = answers_of(group)
    conf = [trace_confidence(r, trace, window, tail, bottom) for r in group["rollouts"]]
    valid = [c for a, c in zip(answers, conf, strict=True) if a is not None]
    if not valid:
        return [0.0] * len(answers)
    bar = quantile(valid, 1 - keep)
    total = dict.fromkeys((a for a in answers if a is not None), 0.0)
    for a, c in zip(answers, conf, strict=True):
        if a is not None and c >= bar:
            total[a] += c
    return ones(answers, max(total, key=lambda y: total[y]))


def step_confidence(rollout: Group) -> float:
    c = token_confidences(rollout)
    edges = sorted({0, len(c), *[min(e, len(c)) for e in rollout["step_ends"]]})
    return mean(mean(c[a:b]) for a, b in pairwise(edges))


def scope(group: Group, seed: int = 0, votes: float = 0.5, lam: float = 0.7) -> list[float]:
    answers = answers_of(group)
    conf = [step_confidence(r) for r in group["rollouts"]]
    size = len(answers)
    rng = np.random.default_rng([seed, size])
    number = max(round(votes * size), 1)
    candidates = [1 << i for i in range(size.bit_length())]
    first_seen = list(dict.fromkeys(a for a in answers if a is not None))

    def draw(g: int) -> list[list[int]]:
        blocks = -(-size // g)
        order = rng.permuted(np.tile(np.arange(size), (blocks, 1)), axis=1)
        return [[i for i in range(size) if order[b][i] < number] for b in range(blocks)]

    def labels(drawn: list[list[int]], g: int) -> Answers:
        out: Answers = []
        for block in drawn:
            total = dict.fromkeys(first_seen, 0.0)
            for i in block:
                answer = answers[i]
                if answer is not None:
                    total[answer] += conf[i]
            best = max(total, key=lambda y: total[y]) if total else None
            out += [best if best is not None and total[best] > 0 else None] * g
        return out[:size]

    measure, final = [draw(g) for g in candidates], [draw(g) for g in candidates]
    points = []
    for g, drawn in zip(candidates, measure, strict=True):
        label = labels(drawn, g)
        points.append(
            (
                mean(
                    ones(label, None)
                    if not first_seen
                    else [float(a is not None and a == b) for a, b in zip(answers, label, strict=True)]
                ),
                len(set(label)),
            )
        )
    front = [p for p in points if not any(q[0] >= p[0] and q[1] >= p[1] and q != p for q in points)]
    low = [min(p[d] for p in front) for d in (0, 1)]
    high = [max(p[d] for p in front) for d in (0, 1)]

    def distance(p: tuple[float, int]) -> float:
        r, d = ((p[k] - low[k]) / (high[k] - low[k] + 1e-8) for k in (0, 1))
        return math.sqrt(lam * (1 - r) ** 2 + (1 - lam) * (1 - d) ** 2)

    best = min((i for i, p in enumerate(points) if p in front), key=lambda i: distance(points[i]))
    label = labels(final[best], candidates[best])
    return [float(a is not None and a == b) for a, b in zip(answers, label, strict=True)]


def evol_rl(group: Group) -> list[float]:
    answers = answers_of(group)
    valid = [i for i, a in enumerate(answers) if a is not None and any(c.isdigit() for c in a)]
    out = [-1.0] * len(answers)
    if len(valid) < 2:
        return out
    label = most_common([answers[i] for i in valid])
    unit = {}
    for i in valid:
        e = group["rollouts"][i]["embedding"]
        norm = max(math.sqrt(math.fsum(x * x for x in e)), 1e-8)
        unit[i] = [x / norm for x in e]
    sim = {
        (i, j): min(max(math.fsum(x * y for x, y in zip(unit[i], unit[j], strict=True)), 0.0), 1.0)
        for i in valid
        for j in valid
    }
    for leads in (True, False):
        own = [i for i in valid if (answers[i] == label) == leads]
        novelty = {}
        for i in own:
            others = [j for j in valid if j != i]
            near = [j for j in own if j != i] or others
            novelty[i] = 1 - 0.5 * (mean(sim[i, j] for j in near) + max(sim[i, j] for j in others))
        for i in own:
            low, high = min(novelty.values()), max(novelty.values())
            scaled = (novelty[i] - low) / (high - low) if high - low > 1e-9 else 0.5
            base = 0.5 if leads else -1.0
            out[i] = (1.0 if leads else -0.5) if len(own) == 1 else base + 0.5 * scaled
    return out


def co_rewarding_1(group: Group) -> list[float]:
    own, other = answers_of(group), [r["answer"] for r in group["second_group"]]
    return ones(own, most_common(other)) + ones(other, most_common(own))


def co_rewarding_2(group: Group) -> list[float]:
    return ones(answers_of(group), most_common([r["answer"] for r in group["teacher_group"]]))


def self_harmony(group: Group) -> list[float]:
    own, other = answers_of(group), [r["answer"] for r in group["second_group"]]
    best = None
    for y in dict.fromkeys(a for a in own + other if a is not None):
        p, q = own.count(y) / len(own), other.count(y) / len(other)
        if p and q:
            key = (round(2 * p * q / (p + q), 12), own.count(y) + other.count(y))
            if best is None or key > best[0]:
                best = (key, y)
    label = best[1] if best else None
    return ones(own, label) + ones(other, label)


def normalised(values: list[float]) -> list[float]:
    m, n = mean(values), len(values)
    s = math.sqrt(math.fsum((v - m) ** 2 for v in values) / max(n - 1, 1))
    return [(v - m) / (s + 1e-6) for v in values]


def cocov(group: Group, k: int = 4, tau_high: float = 0.6, lam: float = 0.05, cap: float = 2.0) -> list[float]:
    answers = answers_of(group)
    label = most_common(answers)
    if label is None:
        return [0.0] * len(answers)
    n, right = len(answers), answers.count(label)
    fail = math.comb(n - right, k) / math.comb(n, k) if k <= n else 0.0
    s = math.sqrt(fail * (1 - fail))
    plus = minus = 0.0
    if s >= 1e-6 and right < n:
        plus = fail / s
        minus = (fail - math.comb(n - right - 1, k - 1) / math.comb(n - 1, k - 1)) / s
    raw = [plus if a == label else minus for a in answers]
    if right / n <= tau_high or n == 1:
        return raw
    lengths = [float(len(r["token_entropies"])) for r in group["rollouts"]]
    own = [length for length, a in zip(lengths, answers, strict=True) if a == label]
    spread = [
        v + (lam * min(abs(length - mean(own)) / (population_std(own) + 1e-5), cap) if a == label else 0.0)
        for v, length, a in zip(raw, lengths, answers, strict=True)
    ]
    m, sd = mean(spread), population_std(spread)
    scaled = [(v - m) / (sd + 1e-6) for v in spread]
    return [max(v, plus) if a == label else v for v, a in zip(scaled, answers, strict=True)]


def ddrl(group: Group) -> list[float]:
    return ttrl(group)


def rlpr(group: Group, c: float = 0.1) -> list[float]:
    out = []
    for r in group["rollouts"]:
        gain = max(0.0, mean(r["ref_token_probs"]) - r["base_ref_mean_prob"]) if r["answer"] is not None else 0.0
        out.append((1 - c) * gain + c * r["format"])
    return out


def verifree(group: Group) -> list[float]:
    return [math.prod(r["ref_token_probs"]) if r["answer"] is not None else 0.0 for r in group["rollouts"]]


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


VARIANTS: list[tuple[Any, dict[str, Any]]] = [
    *[
        (f, {})
        for f in (ttrl, empo, gt, weighted_vote, scrl, rent, em_rl_token, em_rl_sequence, intuitor, deepconf, scope)
    ],
    *[(f, {}) for f in (evol_rl, co_rewarding_1, co_rewarding_2, self_harmony, cocov, rlpr, verifree)],
    (scrl, {"form": "binary"}),
    (scope, {"seed": 7}),
    (deepconf, {"trace": "mean", "keep": 0.5}),
    (deepconf, {"trace": "tail", "tail": 3, "keep": 0.9}),
    (deepconf, {"trace": "min_window", "window": 4, "keep": 1.0}),
    (deepconf, {"trace": "bottom_window", "window": 3, "bottom": 0.4, "keep": 0.6}),
    (cocov, {"k": 2, "tau_high": 0.3}),
    (ddrl, {}),
    *[(calibrated_vote, {"exponent": b}) for b in (-4.0, -0.5, 0.0, 1.0, 2.5, 4.0)],
    (weighted_vote, {"exponent": 3.0, "eps_scale": 0.5}),
    (weighted_vote, {"exponent": -1.5, "eps_scale": 0.0}),
    (compass, {}),
    (compass, {"conf_sign": 1}),
    (restrain, {"k": 1.0, "sigma": 0.5, "kappa": 2.0, "delta": 1.0}),
    (restrain, {"k": 0.5, "sigma": 0.2, "kappa": 0.0, "delta": 1.0}),
    (spine, {}),
    (t3rl, {}),
    (jury_rl, {"c": 0.5}),
    (jury_rl, {"c": 0.0}),
]


def rollout(rng: np.random.Generator, answers: int) -> Group:
    count = int(rng.integers(1, 16))
    probs = np.sort(rng.dirichlet(np.ones(5), count), axis=1)[:, ::-1][:, :3]

    def numbers(x: Any) -> Any:
        return np.round(x, 6).tolist()

    return {
        "answer": None if rng.random() < 0.15 else str(min(int(rng.geometric(0.45)), answers)),
        "token_entropies": numbers(rng.gamma(0.5, 1.0, count) + 1e-3),
        "token_logprobs": numbers(-rng.gamma(0.5, 1.0, count)),
        "token_self_certainty": numbers(rng.gamma(4.0, 2.0, count)),
        "topk_logprobs": numbers(np.log(probs)),
        "step_ends": sorted(set(rng.integers(1, count + 1, 2).tolist())),
        "ref_token_probs": numbers(rng.random(int(rng.integers(1, 4)))),
        "base_ref_mean_prob": round(float(rng.random()) * 0.3, 6),
        "format": float(rng.integers(0, 2)),
        "verified": int(rng.integers(0, 2)),
        "embedding": numbers(rng.normal(size=3)),
    }


def main() -> int:
    rng = np.random.default_rng(20261120)
    groups = []
    for p in range(24):
        size, answers = int(rng.choice([1, 2, 5, 8, 16, 16])), int(rng.integers(1, 7))
        others = [{"answer": str(min(int(rng.geometric(0.4)), answers))} for _ in range(int(rng.integers(2, 9)))]
        groups.append(
            {
                "group_id": str(p),
                "label": "1",
                "reference": "1",
                "prompt_weight": round(float(rng.random()), 6),
                "second_group": others,
                "teacher_group": [*others[1:], {"answer": None}],
                "rollouts": [rollout(rng, answers) for _ in range(size)],
            }
        )
    cases = [
        {"method": f.__name__, "params": params, "expected": [f(g, **params) for g in groups]} for f, params in VARIANTS
    ]
    json.dump({"groups": groups, "cases": cases}, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
