"""Score the answers room on real outputs whose truth is known, by source and kind, with what a vote loses.

    python research/scripts/score_outputs.py OUTPUTS.jsonl...
    python research/scripts/score_outputs.py OUTPUTS.jsonl --kind text=literal --show 20
    python research/scripts/score_outputs.py --pairs                     the written pairs and endings of tests/data

A line of an outputs file has `tail` (or `text`), `gold`, `kind`, `correct`, `source`, and maybe `options`, `qid`, `cut`.
A false accept is a wrong output that grades right, a false reject a right one that does not. Of the outputs of one
question, a pair of right ones is split if its classes differ or one has none; a right and a wrong one are merged if they share
a class. `--save` and `--against` name the rows that changed between two trees.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path
from typing import Any

from dare_reward.answers import classify, extract, grade

DATA = Path(__file__).resolve().parents[2] / "tests" / "data"
Row = dict[str, Any]
COLUMNS = ("rows", "right", "false accepts", "false rejects", "right pairs", "split", "mixed pairs", "merged")


def options_of(row: Row) -> list[str] | None:
    """The letters of a choice: a count, letters or the default."""
    options = row.get("options")
    if row["kind"] != "choice" or options is None:
        return None
    return [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:options]] if isinstance(options, int) else options


def judge(row: Row, unmarked: str) -> tuple[str | None, bool]:
    """What is read from an output, and whether it grades right."""
    text, options = row.get("tail", row.get("text")), options_of(row)
    policy: Any = unmarked if not row.get("length") else "none"
    answer = extract(text, kind=row["kind"], options=options, unmarked=policy).answer
    return answer, grade(answer, row["gold"], kind=row["kind"], options=options)


def score(rows: list[Row], unmarked: str) -> tuple[dict[str, Counter[str]], list[tuple[Row, str | None, bool]]]:
    """Counts by "kind | source" and by kind, and each row with what was read and its grade."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    judged = [(row, *judge(row, unmarked)) for row in rows]
    questions = defaultdict(list)
    for row, answer, accepted in judged:
        correct = bool(row["correct"])
        if "qid" in row:
            questions[row["kind"], row["source"], row["qid"]].append((row, answer))
        for c in (counts[f"{row['kind']} | {row['source']}"], counts[row["kind"]]):
            c["rows"] += 1
            c["right"] += accepted == correct
            c["false accepts"] += accepted and not correct
            c["false rejects"] += correct and not accepted
    for (kind, source, _), mates in questions.items():
        index = classify([answer for _, answer in mates], kind=kind, options=options_of(mates[0][0])).index
        for (i, (one, _)), (j, (other, _)) in combinations(enumerate(mates), 2):
            if not (one["correct"] or other["correct"]):
                continue
            same = index[i] == index[j] >= 0
            both = bool(one["correct"] and other["correct"])
            for c in (counts[f"{kind} | {source}"], counts[kind]):
                c["right pairs" if both else "mixed pairs"] += 1
                c["split" if both else "merged"] += both != same
    return counts, judged


def table(counts: dict[str, Counter[str]]) -> None:
    """Markdown: one line a kind, one line a source."""
    print("| | " + " | ".join(COLUMNS) + " | right % | split % |\n|" + "---|" * (len(COLUMNS) + 3))
    for name, c in sorted(counts.items()):
        shares = (f"{100 * c['right'] / c['rows']:.1f}", f"{100 * c['split'] / max(1, c['right pairs']):.1f}")
        print("| " + " | ".join([name.replace(" | ", ": ", 1), *(str(c[k]) for k in COLUMNS), *shares]) + " |")


def pairs() -> None:
    """The written sets: pairs by kind, endings by kind, each with its two errors."""
    for name in ("answer_pairs", "answer_pairs_blind"):
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for pair in read(DATA / f"{name}.jsonl"):
            same = grade(pair["a"], pair["b"], kind=pair["kind"], options=pair.get("options"))
            c = counts[pair["kind"]]
            c["pairs"] += 1
            c["merged"] += same and not pair["equal"]
            c["split"] += pair["equal"] and not same
        print(name, {kind: dict(c) for kind, c in sorted(counts.items())})
    for name in ("answer_endings", "answer_endings_blind"):
        counts = defaultdict(Counter)
        for e in read(DATA / f"{name}.jsonl"):
            closed = e.get("closed_only", False)
            got = extract(
                e["text"], kind=e["kind"], options=e.get("options"), closed_only=closed, unmarked="none"
            ).answer
            c = counts[e["kind"]]
            c["endings"] += 1
            c["right"] += got == e["expect"]
            c["guessed"] += e["expect"] is None and got is not None
        print(name, {kind: dict(c) for kind, c in sorted(counts.items())})


def read(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def show(judged: Iterable[tuple[Row, str | None, bool]], count: int) -> None:
    for row, answer, accepted in judged:
        if accepted == bool(row["correct"]):
            continue
        if (count := count - 1) < 0:
            break
        error = "ACCEPTED" if accepted else "rejected"
        text = re.sub(r"\s*\Z", "", row.get("tail", row.get("text")))[-500:]
        print(f"\n=== {error} {row['kind']} {row['source']}\ngold {row['gold']!r} read {answer!r}\n{text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--pairs", action="store_true", help="score the written sets")
    parser.add_argument("--unmarked", choices=("none", "sentence", "number"), default="sentence")
    parser.add_argument("--kind", action="append", default=[], metavar="OLD=NEW", help="read rows of a kind as another")
    parser.add_argument("--source", default="", help="only sources that contain this")
    parser.add_argument("--show", type=int, default=0, metavar="N", help="print N errors")
    parser.add_argument("--sources", action="store_true", help="a line for each source, not only for each kind")
    parser.add_argument("--save", type=Path, help="write each row's grade")
    parser.add_argument("--against", type=Path, help="show rows whose grade differs from a saved one")
    given = parser.parse_args()
    if given.pairs:
        pairs()
    renamed = dict(pair.split("=", 1) for pair in given.kind)
    for path in given.files:
        rows = [row for row in read(path) if given.source in row["source"]]
        for row in rows:
            row["kind"] = renamed.get(row["kind"], row["kind"])
        start = time.process_time()
        counts, judged = score(rows, given.unmarked)
        print(f"\n{path.name}: {len(rows)} rows, {time.process_time() - start:.1f} s of CPU\n")
        table({k: c for k, c in counts.items() if given.sources or " | " not in k})
        show(judged, given.show)
        if given.save:
            given.save.with_suffix(f".{path.stem}").write_text(json.dumps([[a, g] for _, a, g in judged]))
        if given.against:
            old = json.loads(given.against.with_suffix(f".{path.stem}").read_text())
            for (row, answer, accepted), (was, before) in zip(judged, old, strict=True):
                if accepted != before:
                    word = "WON" if accepted == bool(row["correct"]) else "LOST"
                    print(f"{word} {row['kind']} {row['source']}: gold {row['gold']!r}, was {was!r}, now {answer!r}")
                    print("    ", repr(row.get("tail", row.get("text"))[-160:]))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
