"""Score answer extractors on the set of rollout endings, and compare two of them on the real corpora.

    python scripts/score_extraction.py                  both tables
    python scripts/score_extraction.py --show 20        and twenty disagreements of each kind, to read
    python scripts/score_extraction.py --wrong          and every ending that our extractor gets wrong

Math-Verify is scored if it is installed (`pip install "math-verify[antlr4_13_2]"`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dare_reward.answers.choices import choice_letter
from dare_reward.answers.extraction.boxes import boxes
from dare_reward.answers.extraction.final_answer import extract
from dare_reward.answers.ttrl_strings import official_answer, official_key

DATA = Path(__file__).resolve().parent.parent / "tests" / "data"
CORPORA = ("gsm8k_4models", "game24_gpt4_m100")

Ending = dict[str, Any]
Extractor = Callable[[Ending], Any]


def ours(ending: Ending) -> str | None:
    return extract(
        ending["text"],
        kind=ending["kind"],
        options=ending.get("options"),
        closed_only=ending.get("closed_only", False),
    ).answer


def reference(ending: Ending) -> str | None:
    """The re-implemented TTRL extractor; its empty string counts as abstaining, which is kind to it."""
    answer = official_answer(ending["text"], kind=ending["kind"])
    return answer or None


def boxed_only(ending: Ending) -> str | None:
    box = next(iter(boxes(ending["text"], 1)), None)
    content = None if box is None else box.content
    if content is None or ending["kind"] != "choice":
        return content
    return choice_letter(content, ending.get("options"))


def math_verify() -> Extractor | None:
    """Math-Verify's `parse` with its defaults; letters by its string extraction."""
    try:
        from math_verify import StringExtractionConfig, parse  # noqa: PLC0415  an optional comparison
    except ImportError:
        return None

    def run(ending: Ending) -> Any:
        if ending["kind"] != "choice":
            return parse(ending["text"]) or None
        letters = tuple(ending.get("options") or "ABCDEFGHIJ")
        found = parse(ending["text"], extraction_config=[StringExtractionConfig(strings=letters, lowercase=False)])
        return str(found[0]) if found else None

    return run


def same(got: Any, want: str) -> bool:
    """Lenient to the others: equal after the reference's rewriting, or by Math-Verify's own judgement."""
    if isinstance(got, str):
        return got == want or official_key(got) == official_key(want)
    from math_verify import parse, verify  # noqa: PLC0415  only its own results get here

    strings = {official_key(part) for part in got if isinstance(part, str)}
    return official_key(want) in strings or verify(parse(f"${want}$"), got) or verify(parse(f"\\boxed{{{want}}}"), got)


def score(endings: list[Ending], extractor: Extractor, *, strict: bool) -> Counter[str]:
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


def endings_table(endings: list[Ending]) -> None:
    extractors: list[tuple[str, Extractor]] = [
        ("ours", ours),
        ("reference (TTRL)", reference),
        ("boxed only", boxed_only),
    ]
    if (verify := math_verify()) is not None:
        extractors.insert(2, ("Math-Verify `parse`", verify))
    for name, kinds in (("Mathematics", {"math"}), ("Choices", {"choice"}), ("Text and exact", {"text", "exact"})):
        chosen = [e for e in endings if e["kind"] in kinds]
        with_answer = sum(e["expect"] is not None for e in chosen)
        print(f"\n{name}: {with_answer} with an answer, {len(chosen) - with_answer} without\n")
        print(
            "| extractor | right | wrong | missed | abstains rightly | guesses | % right |\n|---|---|---|---|---|---|---|"
        )
        for label, extractor in extractors:
            n = score(chosen, extractor, strict=extractor is ours)
            share = 100 * (n["right"] + n["abstains"]) / len(chosen)
            print(
                f"| {label} | {n['right']} | {n['wrong']} | {n['missed']} | {n['abstains']} | {n['guesses']} | {share:.1f} |"
            )


def show_wrong(endings: list[Ending]) -> None:
    for ending in endings:
        got = ours(ending)
        if got != ending["expect"]:
            print(
                f"\n{ending['category']} / {ending['reason']}: want {ending['expect']!r}, got {got!r}\n{ending['text']!r}"
            )


def read_gzip(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def corpora_table(show: int) -> None:
    print(
        "\n| corpus | rollouts | same | different | only the reference answers | of these marked right | CPU ours, ms | CPU reference, ms |"
    )
    print("|---|---|---|---|---|---|---|---|")
    shown: list[tuple[str, str, dict[str, Any], str | None, str]] = []
    for name in CORPORA:
        groups = read_gzip(name)
        rollouts = [(group["kind"], rollout) for group in groups for rollout in group["rollouts"]]
        start = time.process_time()
        mine = [extract(rollout["text"], kind=kind).answer for kind, rollout in rollouts]
        middle = time.process_time()
        theirs = [official_answer(rollout["text"], kind=kind) for kind, rollout in rollouts]
        end = time.process_time()
        counts: Counter[str] = Counter()
        for (_, rollout), own, other in zip(rollouts, mine, theirs, strict=True):
            verdict = "none" if own is None else "same" if official_key(own) == official_key(other) else "different"
            counts[verdict] += 1
            counts["lost"] += own is None and rollout["correct"]
            if verdict != "same":
                shown.append((name, verdict, rollout, own, other))
        print(
            f"| {name} | {len(rollouts)} | {counts['same']} | {counts['different']} | {counts['none']} | {counts['lost']}"
            f" | {1e3 * (middle - start):.0f} | {1e3 * (end - middle):.0f} |"
        )
    if not show:
        return
    random.seed(0)
    for name in CORPORA:
        for verdict in ("none", "different"):
            sample = [s for s in shown if s[:2] == (name, verdict)]
            for _, _, rollout, own, other in random.sample(sample, min(show, len(sample))):
                print(
                    f"\n{name} {verdict} correct={rollout['correct']} ours={own!r} reference={other[:80]!r}\n{rollout['text'][-160:]!r}"
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N disagreements of each kind")
    parser.add_argument("--wrong", action="store_true", help="print the endings that our extractor gets wrong")
    given = parser.parse_args()
    lines = (DATA / "answer_endings.jsonl").read_text(encoding="utf-8").splitlines()
    endings: list[Ending] = [json.loads(line) for line in lines]
    endings_table(endings)
    if given.wrong:
        show_wrong(endings)
    corpora_table(given.show)


if __name__ == "__main__":
    main()
