#!/usr/bin/env python3
"""What the signed exponent and the relative eps must give, for tests/unit/test_exponent.py.

A second implementation in exact fractions, written from the formulas and without this package or NumPy:

    w(y) = n(y) / (u(y) + eps)^b,  p^ = w / sum w;   with eps_scale, eps = eps_scale * median of u over the answers
    b = 0: w = n, and no entropy is used; the bonus of `dare` then has no factor 1 - u
    limits: u = eps = 0 and b > 0: votes among the answers with u = 0; b < 0 and all u = 0: votes among all

    python3 tests/data/make_exponent_cases.py > tests/data/exponent_cases.json
"""

from __future__ import annotations

import json
import random
import statistics
import sys
from fractions import Fraction
from typing import Any

ALPHA, TAU = Fraction(1, 10), Fraction(1, 20)  # the defaults of `dare`


def tally(answers: list[str | None], entropies: list[str]) -> dict[str, tuple[int, Fraction]]:
    """Votes and mean entropy of each answer, in first-seen order."""
    own: dict[str, list[Fraction]] = {}
    for a, e in zip(answers, entropies, strict=True):
        if a is not None:
            own.setdefault(a, []).append(Fraction(e))
    return {y: (len(es), sum(es) / len(es)) for y, es in own.items()}


def shares(found: dict[str, tuple[int, Fraction]], b: int, eps: Fraction) -> dict[str, Fraction]:
    base = {y: u + eps for y, (_, u) in found.items()}
    if b > 0 and 0 in base.values():
        weight = {y: Fraction(n if base[y] == 0 else 0) for y, (n, _) in found.items()}
    elif b == 0 or not any(base.values()):
        weight = {y: Fraction(n) for y, (n, _) in found.items()}
    else:
        weight = {
            y: Fraction(n) / base[y] ** b if b > 0 else Fraction(n) * base[y] ** -b for y, (n, _) in found.items()
        }
    total = sum(weight.values())
    return {y: w / total for y, w in weight.items()}


def hard(answers: list[str | None], p: dict[str, Fraction]) -> list[int]:
    label = max(p, key=lambda y: p[y]) if p else None
    return [int(a is not None and a == label) for a in answers]


def soft(
    answers: list[str | None], found: dict[str, tuple[int, Fraction]], p: dict[str, Fraction], b: int
) -> list[Fraction]:
    """`dare` with its other parameters at their defaults: prune, renormalise, add the bonus (Eqs. 12-15)."""
    kept = {y for y in p if p[y] >= TAU}
    mass, votes = sum((p[y] for y in kept), Fraction(0)), sum(found[y][0] for y in kept)
    reward = {}
    for y in kept:
        n, u = found[y]
        sure = 1 - (min(u, Fraction(1)) if b else Fraction(0))
        reward[y] = p[y] / mass + ALPHA * (1 - Fraction(n, votes)) * sure
    return [reward.get(a, Fraction(0)) if a is not None else Fraction(0) for a in answers]


def case(answers: list[str | None], entropies: list[str], b: int, eps: str, scale: str | None) -> dict[str, Any]:
    found = tally(answers, entropies)
    real = Fraction(eps) if scale is None else Fraction(scale) * statistics.median(u for _, u in found.values())
    p = shares(found, b, real)
    params = {"exponent": b, "eps": float(eps)} | ({} if scale is None else {"eps_scale": float(scale)})
    return {
        "answers": answers,
        "entropies": [float(e) for e in entropies],
        "params": params,
        "p_hat": {y: float(x) for y, x in p.items()},
        "weighted_vote": hard(answers, p),
        "dare": [float(x) for x in soft(answers, found, p, b)],
    }


def main() -> int:
    rng = random.Random(20261122)
    groups: list[tuple[list[str | None], list[str]]] = [
        (["a", "a", "b", "c"], ["0.2", "0", "0", "0"]),  # u = 0 for two of three
        (["a", "a", "b"], ["0", "0", "0"]),  # for all
        (["a", "b", "b"], ["0", "0.3", "0.1"]),
        (["a", "a", "a", "b", "b"], ["0.3", "0.3", "0.3", "0.1", "0.1"]),  # overturned from exponent 1 on
    ]
    for _ in range(12):
        size = rng.choice([3, 8, 16, 32])
        answers = [rng.choice(["1", "1", "1", "2", "2", "3", "4", None]) for _ in range(size)]
        answers[0] = "1"
        groups.append((answers, [f"{rng.randint(1, 1500) / 1000:.3f}" for _ in range(size)]))
    settings = [("0.05", None), ("0", None), ("0.05", "0.25"), ("0.05", "0")]
    cases = [
        case(answers, entropies, b, eps, scale)
        for answers, entropies in groups
        for b in (-4, -2, -1, 0, 1, 2, 4)
        for eps, scale in settings
    ]
    json.dump(cases, sys.stdout, separators=(",", ":"))
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
