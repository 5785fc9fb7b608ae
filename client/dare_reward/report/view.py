"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from ..runs.reasons import REASONS
from .book import RunBook, RunTotals
from .measures import CHARTS, LABELLED
from .verdict import (
    ONE_SET,
    READING,
    RECENT,
    RULES,
    RunVerdict,
    entropy_verdict,
    headline,
    rules_by_step,
    run_verdict,
    word_of,
)

__all__ = ["columns", "run_view", "view"]

BYTES: Final = 3 << 20  # of the groups of all runs in a file
DIGITS: Final = 5
HEAVY: Final = ("token_entropies", "texts")

JSON = dict[str, Any]


def view(book: RunBook, *, groups: int = BYTES, reading: bool = False) -> JSON:
    """Every run, the last one first. `groups` bounds the bytes of the single groups, which are shared evenly.

    While the book is still `reading` an older log, no run has a verdict.
    """
    runs = list(reversed(book.runs.values()))
    share = groups // max(len(runs), 1)
    return {
        "charts": [asdict(c) for c in CHARTS],
        "reasons": dict(REASONS),
        "rules": {name: {"word": word_of(name), "meaning": meaning} for name, meaning in RULES.items()},
        "runs": [run_view(r, reading=reading) | {"cards": list(_within(r, share))} for r in runs],
    }


def run_view(run: RunTotals, *, reading: bool = False) -> JSON:
    """One run without its groups: what is counted, columns by step, verdicts, shadow methods."""
    by_step = columns(run)
    state, entropy = ONE_SET if run.one_set else run_verdict(by_step), _entropy(run)
    if reading:
        state = entropy = READING
    return {
        "run": run.name,
        "unit": run.unit,
        "stepped": run.stepped,
        "groups": run.groups,
        "rollouts": run.rollouts,
        "errors": run.errors,
        "estimates": dict(run.estimates),
        "methods": [[*variant, count] for variant, count in run.methods.most_common()],
        "first": run.first,
        "last": run.last,
        "labelled": any(x is not None for name in LABELLED for x in by_step[name]),
        "k": _largest_k(run),
        "columns": by_step,
        "states": rules_by_step(by_step),
        "headline": asdict(headline(by_step, state, entropy, stepped=run.stepped)),
        "verdict": asdict(state),
        "entropy": asdict(entropy),
        "shadows": _shadows(run),
    }


def columns(run: RunTotals) -> dict[str, list[float | None]]:
    """Each measure of `CHARTS` by step; `pass@k` is for the greatest k that every labelled group has."""
    places = sorted(run.steps)
    totals = [run.steps[p] for p in places]
    k = _largest_k(run)
    names = dict.fromkeys(c.key for chart in CHARTS for c in chart.curves)
    shadows = dict.fromkeys(n for t in totals for n in t.sums if n.startswith("differs:"))
    out: dict[str, list[float | None]] = {"step": list(places), "groups": [t.groups for t in totals]}
    for name in (*names, *shadows):
        out[name] = [_round(t.mean(f"pass@{k}" if name == "pass@k" else name)) for t in totals]
    return out


def _largest_k(run: RunTotals) -> int:
    """The greatest power of two up to the size of every group that has labels; 0 without any."""
    known = [(name, w) for t in run.steps.values() for name, (_, w) in t.sums.items() if name.startswith("pass@")]
    most = sum(w for name, w in known if name == "pass@1")
    found = {name: sum(w for n, w in known if n == name) for name, _ in known}
    return max((int(name[5:]) for name, w in found.items() if w == most), default=0)


def _entropy(run: RunTotals) -> RunVerdict:
    """Over the last steps, because a policy changes."""
    last = [run.steps[p] for p in sorted(run.steps)[-RECENT:]]
    sums = [t.sums.get("entropy_auroc", [0.0, 0.0]) for t in last]
    squares = [t.sums.get("entropy_auroc_squares", [0.0, 0.0]) for t in last]
    return entropy_verdict(sum(s for s, _ in sums), sum(s for s, _ in squares), sum(w for _, w in sums))


def _shadows(run: RunTotals) -> list[JSON]:
    """Of each shadow method over the run: how often it would have chosen otherwise, and who was right then."""
    sums: dict[str, list[float]] = {}
    for step in run.steps.values():
        for name, (value, weight) in step.sums.items():
            if ":" in name:
                entry = sums.setdefault(name, [0.0, 0.0])
                entry[0] += value
                entry[1] += weight
    out = []
    for name in sorted({n.partition(":")[2] for n in sums}):
        differs, flipped = sums[f"differs:{name}"], sums.get(f"flipped:{name}", [0.0, 0.0])
        theirs, ours = sums.get(f"right:{name}", [0.0, 0.0]), sums.get(f"ours:{name}", [0.0, 0.0])
        out.append(
            {
                "method": name,
                "groups": int(differs[1]),
                "differs": int(differs[0]),
                "flipped": _round(flipped[0] / flipped[1]) if flipped[1] else None,
                "judged": int(theirs[1]),
                "theirs": int(theirs[0]),
                "ours": int(ours[0]),
            }
        )
    return out


def _within(run: RunTotals, size: int) -> Iterator[Mapping[str, Any]]:
    """As many of the picked groups as fit. One that takes an eighth of the room left goes without its longest parts."""
    for card in run.picks.cards():
        shown = card.shown()
        length = len(json.dumps(shown))
        for name in HEAVY:
            if length > size // 8 and name in shown:
                del shown[name]
                shown["left_out"] = True
                length = len(json.dumps(shown))
        if length <= size:
            size -= length
            yield shown


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, DIGITS)
