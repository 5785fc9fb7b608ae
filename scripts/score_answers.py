"""Scores how `dare_reward.answers` reads recorded outputs: as grades, and as votes.

    python scripts/score_answers.py real_outputs.jsonl … [--cases cases.jsonl] [--rows KIND]

A row of recorded outputs has `tail` (the text, or its end), `gold`, `kind`, `options`, `correct` (true, false, or null
where readers differ) and, where the file has them, `regime` and `qid` (rollouts of one question). For each regime:

    right      of the judged rows: the answer equals the gold exactly where `correct` says so
    accepts    wrong rollouts that were accepted; rejects: right ones that were not
    split      pairs of right rollouts of one question that do not vote together
    merged     pairs of a right and a wrong rollout that do
    missed     right rollouts without an answer
    spurious   wrong rollouts that vote for another value than the gold: some of them announce none, so the number is a bound
    junk       answers of kind math that are three words or more: prose as a vote

Replies to a few-shot prompt of which only the end was kept are a regime of their own: how a reply opens says which of
its questions was asked.

A case has `text`, `label`, `want`, `what` (extract, pair, label or classes), `question_kind` and `firm`. It is right,
unread (no answer, words, or a split pair) or a wrong value. --rows prints the rows of a kind, such as rejects or split.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter, defaultdict
from itertools import combinations
from pathlib import Path
from typing import Any

from dare_reward.answers import Key, canonical, classify, extract, grade, read_label

Row = dict[str, Any]
COLUMNS = ("rows", "right", "accepts", "rejects", "pairs", "split", "mixed", "merged", "missed", "spurious", "junk")


def score(path: Path, shown: str) -> None:
    """Print a line for each regime of a file of recorded outputs."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    questions: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        if row["basis"] == "python literal":
            row["kind"] = "literal"
        row["of"] = {"kind": row["kind"], "options": row["options"]}
        row["answer"] = extract(row["tail"], **row["of"]).answer
        begins = row.get("length", 0) <= len(row["tail"]) or "few-shot" not in row["regime"]
        row["regime"] = f"{row['kind']}: {row.get('regime', 'all')}{'' if begins else ', end'}"
        for name in _kinds_of(row):
            counts[row["regime"]][name] += 1
            _show(row, name, shown)
        if row.get("qid"):
            questions[row["source"], row["qid"], row["regime"]].append(row)
    for (*_, regime), same in questions.items():
        _votes(same, counts[regime], shown)
    print(path.name)
    print(f"  {'':40}" + "".join(f"{name:>9}" for name in COLUMNS))
    for regime, found in sorted(counts.items()):
        judged = found["judged"]
        right = judged - found["accepts"] - found["rejects"]
        cells = [f"{right / judged:.4f}" if name == "right" and judged else str(found[name]) for name in COLUMNS]
        print(f"  {regime:40}" + "".join(f"{cell:>9}" for cell in cells))


def _kinds_of(row: Row) -> list[str]:
    answer, correct = row["answer"], row["correct"]
    accepted = grade(answer, row["gold"], **row["of"])
    key = None if answer is None else canonical(answer, **row["of"])
    found = {
        "rows": True,
        "judged": correct is not None,
        "accepts": correct is False and accepted,
        "rejects": correct is True and not accepted,
        "missed": correct is True and key is None,
        "spurious": correct is False and key is not None and not accepted,
        "junk": row["kind"] == "math" and key is not None and _is_words(key) and len(str(answer).split()) > 2,
    }
    return [name for name, so in found.items() if so]


def _votes(rows: list[Row], found: Counter[str], shown: str) -> None:
    index = classify([row["answer"] for row in rows], **rows[0]["of"]).index
    for (i, a), (j, b) in combinations(enumerate(rows), 2):
        together = index[i] == index[j] >= 0
        if a["correct"] and b["correct"]:
            found["pairs"] += 1
            if not together:
                found["split"] += 1
                _show({**a, "answer": (a["answer"], b["answer"])}, "split", shown)
        elif True in {a["correct"], b["correct"]} and False in {a["correct"], b["correct"]}:
            found["mixed"] += 1
            if together:
                found["merged"] += 1
                _show({**a, "answer": (a["answer"], b["answer"])}, "merged", shown)


def _is_words(key: Key) -> bool:
    return key.kind in {"text", "opaque"}


def _show(row: Row, name: str, shown: str) -> None:
    if name == shown:
        print(f"{row['regime']} | {row['answer']!r} | {row['gold']!r} | …{row['tail'][-300:]!r}")


def score_cases(path: Path, shown: str) -> None:
    """Print what a file of small cases gives."""
    cases = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found: Counter[tuple[str, bool, str]] = Counter()
    for case in cases:
        verdict, got = _verdict(case)
        found[case["what"], case["firm"], verdict] += 1
        if verdict == shown:
            print(f"{case['what']} {case['text']!r} | wanted {case['want']!r} of {case['label']!r} | got {got!r}")
    print(path.name)
    for firm in (True, False):
        for what in ("extract", "pair", "label", "classes"):
            line = {verdict: n for (w, f, verdict), n in sorted(found.items()) if w == what and f == firm}
            print(f"  {'firm' if firm else 'convention':12}{what:10}{line}")
    wrong = sum(n for (_, _, verdict), n in found.items() if verdict == "wrong")
    firm_right = sum(n for (_, firm, verdict), n in found.items() if firm and verdict != "wrong")
    print(
        f"  wrong values {wrong / len(cases):.3f}, firm ones right or unread {firm_right / sum(c['firm'] for c in cases):.3f}"
    )


def _verdict(case: Row) -> tuple[str, object]:
    kind, text, want = case["question_kind"], case["text"], case["want"]
    if case["what"] == "extract":
        got = extract(text, kind=kind).answer
        key = None if got is None else canonical(got, kind=kind)
        if (key is None and want is None) or (want is not None and grade(got, want, kind=kind)):
            return "right", got
        return ("unread" if key is None or (kind == "math" and _is_words(key)) else "wrong"), got
    if case["what"] == "classes":
        index = [*classify(text.split(" | "), kind=kind).index]
        return ("right" if index == want else "unread"), index
    label = read_label(case["label"], kind=kind) if case["what"] == "label" else case["label"]
    same = grade(label, text, kind=kind)
    return ("right" if same == want else "wrong" if same else "unread"), same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("outputs", nargs="*", type=Path, help="files of recorded outputs")
    parser.add_argument("--cases", nargs="*", default=[], type=Path, help="files of small cases")
    parser.add_argument("--rows", default="", help="print the rows that are this: accepts, rejects, split, wrong, …")
    args = parser.parse_args()
    for path in args.outputs:
        score(path, args.rows)
    for path in args.cases:
        score_cases(path, args.rows)


if __name__ == "__main__":
    main()
