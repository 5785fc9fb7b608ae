"""Score answer graders and extractors on the written sets, beside the published ones.

    python research/scripts/score_answers.py pairs                       graders on tests/data/answer_pairs.jsonl
    python research/scripts/score_answers.py endings                     extractors on answer_endings.jsonl and on two real corpora
    python research/scripts/score_answers.py endings --show 20           and twenty disagreements of each kind, to read
    python research/scripts/score_answers.py endings --wrong             and every ending that our extractor gets wrong

Beside ours: the reference implementation's, written anew, and Math-Verify with its defaults if it is installed
(`pip install "math-verify[antlr4_13_2]"`). Math-Verify grades mathematics alone. Each pair is judged in both orders; a
false merge in either order counts.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import random
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from dare_reward.answers import canonical, extract, grade, official_key
from dare_reward.answers.choices import choice_letter
from dare_reward.answers.extraction.boxes import boxes
from dare_reward.answers.keys import _cached_math
from dare_reward.answers.ttrl_strings import official_answer

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
CORPORA = ("gsm8k_4models", "game24_gpt4_m100")
MATH_VERIFY = importlib.util.find_spec("math_verify") is not None

Item = dict[str, Any]
Grader = Callable[[str, str, Item], bool]
Extractor = Callable[[Item], Any]


def read(name: str) -> list[Item]:
    """The lines of a file of tests/data."""
    data = (DATA / name).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    return [json.loads(line) for line in text.split("\n") if line]


def table(head: str, rows: Sequence[Sequence[object]]) -> None:
    """A Markdown table; `head` has its columns between bars."""
    print(f"| {head} |\n|{'---|' * (head.count(' | ') + 1)}")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


# Pairs


def grade_ours(a: str, b: str, pair: Item) -> bool:
    _cached_math.cache_clear()
    return grade(a, b, kind=pair["kind"], options=pair.get("options"))


def grade_reference(a: str, b: str, pair: Item) -> bool:
    return official_key(a, kind=pair["kind"]) == official_key(b, kind=pair["kind"])


def grade_math_verify(a: str, b: str, _: Item) -> bool:
    from math_verify import parse, verify  # noqa: PLC0415  the comparison is optional

    return bool(verify(parse(f"\\boxed{{{a}}}"), parse(f"\\boxed{{{b}}}")))


def score_pairs(grader: Grader, pairs: list[Item]) -> dict[str, Counter[str]]:
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


def pairs_tables() -> None:
    graders: dict[str, Grader] = {"dare-reward": grade_ours, "reference string vote": grade_reference}
    pairs = read("answer_pairs.jsonl")
    maths = [p for p in pairs if p["kind"] == "math"]
    canonical(r"\sqrt2")  # mpmath is loaded before anything is timed
    verify: dict[str, Grader] = {"Math-Verify": grade_math_verify} if MATH_VERIFY else {}
    results = {name: score_pairs(grader, maths) for name, grader in (graders | verify).items()}
    print(f"Mathematics, {len(maths)} pairs:\n")
    graders_table(results)
    print("\nBy category:\n")
    found = [
        (
            name,
            c["pairs"],
            *(
                f"{100 * r[name]['right'] / c['pairs']:.0f}, {r[name]['merged']}, {r[name]['split']}"
                for r in results.values()
            ),
        )
        for name, c in sorted(results["dare-reward"].items())
        if name != "all"
    ]
    table("category | pairs | " + " | ".join(f"{name}: right %, merges, splits" for name in results), found)
    others = [p for p in pairs if p["kind"] != "math"]
    print(f"\nChoices, text and exact answers, {len(others)} pairs:\n")
    graders_table({name: score_pairs(grader, others) for name, grader in graders.items()})


def graders_table(results: dict[str, dict[str, Counter[str]]]) -> None:
    rows = [
        (
            *(name, c["pairs"], f"{100 * c['right'] / c['pairs']:.1f}", c["merged"], c["split"], c["asymmetric"]),
            *(f"{c[time] / 1000:.2f}" for time in ("median us", "p95 us")),
        )
        for name, c in ((name, result["all"]) for name, result in results.items())
    ]
    table("grader | pairs | right % | false merges | false splits | asymmetric | median ms | p95 ms", rows)


# Endings


def extract_ours(ending: Item) -> str | None:
    closed = ending.get("closed_only", False)
    return extract(ending["text"], kind=ending["kind"], options=ending.get("options"), closed_only=closed).answer


def extract_reference(ending: Item) -> str | None:
    """The re-implemented TTRL extractor; its empty string counts as abstaining, which is kind to it."""
    return official_answer(ending["text"], kind=ending["kind"]) or None


def boxed_only(ending: Item) -> str | None:
    box = next(iter(boxes(ending["text"], 1)), None)
    content = None if box is None else box.content
    if content is None or ending["kind"] != "choice":
        return content
    return choice_letter(content, ending.get("options"))


def extract_math_verify(ending: Item) -> Any:
    """Math-Verify's `parse` with its defaults; letters by its string extraction."""
    from math_verify import StringExtractionConfig, parse  # noqa: PLC0415  the comparison is optional

    if ending["kind"] != "choice":
        return parse(ending["text"]) or None
    letters = tuple(ending.get("options") or "ABCDEFGHIJ")
    found = parse(ending["text"], extraction_config=[StringExtractionConfig(strings=letters, lowercase=False)])
    return str(found[0]) if found else None


def same(got: Any, want: str) -> bool:
    """Lenient to the others: equal after the reference's rewriting, or by Math-Verify's own judgement."""
    if isinstance(got, str):
        return got == want or official_key(got) == official_key(want)
    from math_verify import parse, verify  # noqa: PLC0415  only its own results get here

    strings = {official_key(part) for part in got if isinstance(part, str)}
    return official_key(want) in strings or verify(parse(f"${want}$"), got) or verify(parse(f"\\boxed{{{want}}}"), got)


def score_endings(endings: list[Item], extractor: Extractor, *, strict: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for ending in endings:
        got, want = extractor(ending), ending["expect"]
        if want is None:
            found["abstains" if got is None else "guesses"] += 1
        elif got is None:
            found["missed"] += 1
        else:
            found["right" if (got == want if strict else same(got, want)) else "wrong"] += 1
    return found


def endings_tables(*, wrong: bool, show: int) -> None:
    endings = read("answer_endings.jsonl")
    extractors: dict[str, Extractor] = {"ours": extract_ours, "reference (TTRL)": extract_reference}
    extractors |= {"Math-Verify `parse`": extract_math_verify} if MATH_VERIFY else {}
    extractors["boxed only"] = boxed_only
    for title, kinds in (("Mathematics", {"math"}), ("Choices", {"choice"}), ("Text and exact", {"text", "exact"})):
        chosen = [e for e in endings if e["kind"] in kinds]
        with_answer = sum(e["expect"] is not None for e in chosen)
        print(f"\n{title}: {with_answer} with an answer, {len(chosen) - with_answer} without\n")
        rows = []
        for name, extractor in extractors.items():
            n = score_endings(chosen, extractor, strict=extractor is extract_ours)
            share = 100 * (n["right"] + n["abstains"]) / len(chosen)
            counts = (n[key] for key in ("right", "wrong", "missed", "abstains", "guesses"))
            rows.append((name, *counts, f"{share:.1f}"))
        table("extractor | right | wrong | missed | abstains rightly | guesses | % right", rows)
    for ending in endings if wrong else ():
        if (got := extract_ours(ending)) != ending["expect"]:
            print(
                f"\n{ending['category']} / {ending['reason']}: want {ending['expect']!r}, got {got!r}\n{ending['text']!r}"
            )
    print()
    compared = {name: compare(read(f"{name}.jsonl.gz")) for name in CORPORA}
    rest = "different | only the reference answers | of these marked right | CPU ours, ms | CPU reference, ms"
    table(f"corpus | rollouts | same | {rest}", [(name, *row) for name, (row, _) in compared.items()])
    random.seed(0)
    for name, (_, differing) in compared.items():
        for verdict in ("none", "different") if show else ():
            sample = [text for found, text in differing if found == verdict]
            for text in random.sample(sample, min(show, len(sample))):
                print(f"\n{name} {verdict} {text}")


def compare(groups: list[Item]) -> tuple[list[object], list[tuple[str, str]]]:
    """Our extractor and the reference's on a corpus: a row of the table, and (verdict, text) of what differs."""
    rollouts = [(group["kind"], rollout) for group in groups for rollout in group["rollouts"]]
    start = time.process_time()
    mine = [extract(rollout["text"], kind=kind).answer for kind, rollout in rollouts]
    middle = time.process_time()
    theirs = [official_answer(rollout["text"], kind=kind) for kind, rollout in rollouts]
    spent = (f"{1e3 * (middle - start):.0f}", f"{1e3 * (time.process_time() - middle):.0f}")
    counts: Counter[str] = Counter()
    differing = []
    for (_, rollout), own, other in zip(rollouts, mine, theirs, strict=True):
        verdict = "none" if own is None else "same" if official_key(own) == official_key(other) else "different"
        counts[verdict] += 1
        counts["lost"] += own is None and rollout["correct"]
        if verdict != "same":
            marked = f"correct={rollout['correct']} ours={own!r} reference={other[:80]!r}\n{rollout['text'][-160:]!r}"
            differing.append((verdict, marked))
    return [len(rollouts), *(counts[key] for key in ("same", "different", "none", "lost")), *spent], differing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("pairs", help="graders on pairs of answers")
    endings = commands.add_parser("endings", help="extractors on the endings of rollouts")
    endings.add_argument("--show", type=int, default=0, metavar="N", help="print N disagreements of each kind")
    endings.add_argument("--wrong", action="store_true", help="print the endings that our extractor gets wrong")
    given = parser.parse_args()
    if given.command == "pairs":
        pairs_tables()
    else:
        endings_tables(wrong=given.wrong, show=given.show)


if __name__ == "__main__":
    main()
