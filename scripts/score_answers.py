"""Scores of graders on tests/data/answer_pairs.jsonl as a Markdown table: `python scripts/score_answers.py`.

Beside our `grade`: the string vote of the reference implementation (`official_key`, written anew), and Math-Verify
with its defaults, if it is installed. Each pair is judged in both orders; a false merge in either order counts.
Choices, text and exact answers are beyond Math-Verify; it is scored on mathematics, as is every grader in the first table.
"""

import argparse
import json
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dare_reward.answers import canonical, grade, official_key
from dare_reward.answers.keys import _cached_math

PAIRS = Path(__file__).parent.parent / "tests" / "data" / "answer_pairs.jsonl"

Pair = dict[str, Any]
Grader = Callable[[str, str, Pair], bool]


def ours(a: str, b: str, pair: Pair) -> bool:
    _cached_math.cache_clear()
    return grade(a, b, kind=pair["kind"], options=pair.get("options"))


def reference(a: str, b: str, pair: Pair) -> bool:
    return official_key(a, kind=pair["kind"]) == official_key(b, kind=pair["kind"])


def math_verify() -> Grader | None:
    try:
        from math_verify import parse, verify  # noqa: PLC0415 - the comparison is optional
    except ImportError:
        return None

    def judge(a: str, b: str, _: Pair) -> bool:
        return bool(verify(parse(f"\\boxed{{{a}}}"), parse(f"\\boxed{{{b}}}")))

    return judge


def score(grader: Grader, pairs: list[Pair]) -> dict[str, Counter[str]]:
    """Per category and in all: pairs, right ones, false merges, false splits, asymmetries; times in ms under "ms"."""
    out: dict[str, Counter[str]] = defaultdict(Counter)
    times = []
    for pair in pairs:
        start = time.perf_counter()
        there = grader(pair["a"], pair["b"], pair)
        times.append((time.perf_counter() - start) * 1000)
        back = grader(pair["b"], pair["a"], pair)
        for name in (pair["category"], "all"):
            c = out[name]
            c["pairs"] += 1
            c["right"] += there == back == pair["equal"]
            c["merged"] += (there or back) and not pair["equal"]
            c["split"] += not (there and back) and pair["equal"]
            c["asymmetric"] += there != back
    out["all"]["median us"] = round(statistics.median(times) * 1000)
    out["all"]["p95 us"] = round(statistics.quantiles(times, n=20)[-1] * 1000)
    return out


def table(rows: dict[str, dict[str, Counter[str]]], name: str) -> None:
    print("| grader | pairs | right % | false merges | false splits | asymmetric | median ms | p95 ms |")
    print("|---|---|---|---|---|---|---|---|")
    for grader, result in rows.items():
        c = result[name]
        print(
            f"| {grader} | {c['pairs']} | {100 * c['right'] / c['pairs']:.1f} | {c['merged']} | {c['split']} "
            f"| {c['asymmetric']} | {c['median us'] / 1000:.2f} | {c['p95 us'] / 1000:.2f} |"
        )


def by_category(rows: dict[str, dict[str, Counter[str]]]) -> None:
    names = sorted({n for r in rows.values() for n in r} - {"all"})
    print("| category | pairs | " + " | ".join(f"{g}: right %, merges, splits" for g in rows) + " |")
    print("|---|---|" + "---|" * len(rows))
    for n in names:
        cells = []
        for result in rows.values():
            c = result.get(n)
            cells.append(f"{100 * c['right'] / c['pairs']:.0f}, {c['merged']}, {c['split']}" if c else "")
        pairs = max(r[n]["pairs"] for r in rows.values() if n in r)
        print(f"| {n} | {pairs} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=Path, default=PAIRS)
    parser.add_argument("--no-math-verify", action="store_true")
    args = parser.parse_args()
    pairs = [json.loads(line) for line in args.pairs.read_text().splitlines()]
    maths = [p for p in pairs if p["kind"] == "math"]
    canonical(r"\sqrt2")  # mpmath is loaded before anything is timed
    rows = {"dare-reward": score(ours, maths), "reference string vote": score(reference, maths)}
    if not args.no_math_verify and (judge := math_verify()) is not None:
        rows["Math-Verify"] = score(judge, maths)
    print(f"Mathematics, {len(maths)} pairs:\n")
    table(rows, "all")
    print("\nBy category:\n")
    by_category(rows)
    others = [p for p in pairs if p["kind"] != "math"]
    print(f"\nChoices, text and exact answers, {len(others)} pairs:\n")
    table({"dare-reward": score(ours, others), "reference string vote": score(reference, others)}, "all")


if __name__ == "__main__":
    main()
