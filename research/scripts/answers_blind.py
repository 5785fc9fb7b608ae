"""Blinded judging of the rollouts on which graders disagree: writes the items, and scores what two readers said.

    python research/scripts/answers_blind.py write CORPUS.jsonl VERDICTS.json OUT [SIZE]
    python research/scripts/answers_blind.py score CORPUS.jsonl VERDICTS.json OUT READER_A.json READER_B.json [MORE.json]

VERDICTS maps the id of a rollout to `{"grader": true, false or null}`; null is "does not judge such questions". `write`
puts `items.json` (question, gold, kind, end of the rollout; shuffled, no word on who said what) and `key.json` into OUT.
Rollouts are sampled by strata: what the graders said of them. A stratum in which all agree is sampled thinly, to see
mistakes that all share. READER files map the id of an item to `right`, `wrong` or `unclear`: whether the rollout claims
the gold answer. `score` prints Cohen's kappa and, of each grader, false accepts and false rejects: the share in each
stratum's sample by the stratum's size. MORE holds verdicts of further graders, such as the rules after a change.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

END = 1_600  # characters of a rollout that a reader sees
AGREED = 8  # items of a stratum in which all graders agree
SEED = 14

Verdicts = dict[str, dict[str, bool | None]]
Strata = dict[tuple[Any, ...], list[str]]


def read_rows(path: str) -> dict[str, dict[str, Any]]:
    with Path(path).open(encoding="utf-8") as lines:
        return {r["id"]: r for r in map(json.loads, lines)}


def load(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def strata(rows: dict[str, dict[str, Any]], verdicts: Verdicts) -> Strata:
    """Ids by kind and by what each grader said."""
    found: Strata = defaultdict(list)
    for name, said in sorted(verdicts.items()):
        if name in rows:
            found[rows[name]["kind"], *sorted(said.items())].append(name)
    return found


def agreed(stratum: tuple[Any, ...]) -> bool:
    return len({v for _, v in stratum[1:] if v is not None}) == 1


def shares(found: Strata, size: int) -> dict[tuple[Any, ...], int]:
    """How many items of each stratum: thinly where all agree, else by the root of its size, at least two."""
    out = {s: min(len(ids), AGREED) for s, ids in found.items() if agreed(s)}
    apart = {s: math.sqrt(len(ids)) for s, ids in found.items() if not agreed(s)}
    left, total = size - sum(out.values()), sum(apart.values())
    return out | {s: min(len(found[s]), max(2, round(left * root / total))) for s, root in apart.items()}


def write(corpus: str, verdicts: str, out: str, size: str = "200") -> None:
    rows, rng = read_rows(corpus), random.Random(SEED)
    found = strata(rows, load(verdicts))
    wanted = shares(found, int(size))
    while sum(wanted.values()) > int(size):
        largest = max(wanted, key=lambda s: wanted[s])
        wanted[largest] -= 1
    ids = [i for s in sorted(found, key=repr) for i in rng.sample(found[s], wanted[s])]
    rng.shuffle(ids)
    items = []
    for n, i in enumerate(ids, 1):
        r, text = rows[i], rows[i]["text"].rstrip()
        end = text if len(text) <= END else "[...] " + text[-END:]
        items.append({"id": n, "kind": r["kind"], "question": r["question"], "gold": r["gold"], "end_of_rollout": end})
    Path(out).mkdir(parents=True, exist_ok=True)
    (Path(out) / "items.json").write_text(json.dumps(items, indent=1, ensure_ascii=False), encoding="utf-8")
    (Path(out) / "key.json").write_text(json.dumps(dict(enumerate(ids, 1))), encoding="utf-8")
    print(len(items), "items of", len(found), "strata")


def kappa(a: dict[str, str], b: dict[str, str]) -> float:
    """Cohen's kappa of two readers over the items that both judged."""
    both = [i for i in a if i in b]
    same = sum(a[i] == b[i] for i in both) / len(both)
    ca, cb = Counter(a[i] for i in both), Counter(b[i] for i in both)
    chance = sum(ca[v] * cb[v] for v in ca) / len(both) ** 2
    return 1.0 if chance == 1 else (same - chance) / (1 - chance)


def score(corpus: str, verdicts: str, out: str, *readings: str) -> None:
    first, second, more = (*readings, None) if len(readings) == 2 else readings
    rows, said, key = read_rows(corpus), load(verdicts), load(Path(out) / "key.json")
    readers = [{k: v["verdict"] if isinstance(v, dict) else v for k, v in load(p).items()} for p in (first, second)]
    a, b = readers
    both = [i for i in a if i in b]
    same = sum(a[i] == b[i] for i in both)
    print(f"{len(both)} items of {len(key)} by both, the same verdict on {same}, Cohen's kappa {kappa(a, b):.3f}")
    print(Counter((a[i], b[i]) for i in both))
    truth = {key[i]: a[i] == "right" for i in both if a[i] == b[i] != "unclear"}
    print(len(truth), "items on which both are sure and say the same; the others count for nothing")
    found, further = strata(rows, said), load(more) if more else {}
    graders = sorted({g for v in said.values() for g in v} | {g for v in further.values() for g in v})
    for kind in ("math", "choice"):
        total = sum(len(ids) for s, ids in found.items() if s[0] == kind)
        print(f"\n{kind}, {total} rollouts")
        for grader in graders:
            figures = {"false accepts": (0.0, 0.0, 0), "false rejects": (0.0, 0.0, 0)}
            judged = 0
            for s, ids in found.items():
                sample = [i for i in ids if i in truth]
                verdict = {i: {**said[i], **further.get(i, {})}.get(grader) for i in sample}
                if s[0] != kind or not sample or all(v is None for v in verdict.values()):
                    continue
                judged += len(ids)
                for name, bad in (
                    ("false accepts", [bool(verdict[i]) and not truth[i] for i in sample]),
                    ("false rejects", [truth[i] and not verdict[i] for i in sample]),
                ):
                    p, n = sum(bad) / len(bad), len(bad)
                    spread = 0.0 if n == len(ids) else p * (1 - p) / max(n - 1, 1) * (1 - n / len(ids))
                    count, variance, seen = figures[name]
                    figures[name] = (count + p * len(ids), variance + spread * len(ids) ** 2, seen + sum(bad))
            if judged:
                told = ", ".join(
                    f"{name} {count:.0f} = {100 * count / judged:.2f}% +- {196 * math.sqrt(variance) / judged:.2f} ({seen} seen)"
                    for name, (count, variance, seen) in figures.items()
                )
                print(f"  {grader}, of {judged}: {told}")


if __name__ == "__main__":
    {"write": write, "score": score}[sys.argv[1]](*sys.argv[2:])
