"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from ..numbers import CHARTS, LABELLED, NUMBERS, shadow_charts
from ..runs.reasons import REASONS
from .book import RunBook, RunTotals
from .verdict import (
    ONE_SET,
    READING,
    RECENT,
    RULES,
    RunVerdict,
    accuracy_verdict,
    entropy_verdict,
    headline,
    rules_by_step,
    run_verdict,
    word_of,
)

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
        "tiles": [[n.name, n.tile] for n in NUMBERS if n.tile],
        "reasons": {name: asdict(reason) for name, reason in REASONS.items()},
        "rules": {name: {"word": word_of(name), "meaning": meaning} for name, meaning in RULES.items()},
        "runs": [run_view(r, reading=reading) | {"cards": list(_within(r, share))} for r in runs],
    }


def run_view(run: RunTotals, *, reading: bool = False) -> JSON:
    """One run without its groups: what is counted, columns by step, verdicts, shadow methods."""
    by_step = columns(run)
    state, entropy = ONE_SET if run.one_set else run_verdict(by_step), _entropy(run)
    accuracy = accuracy_verdict(run.visits)
    if reading:
        state = entropy = accuracy = READING
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
        "charts": [asdict(c) for c in shadow_charts(run.shadows)],
        "columns": by_step,
        "states": rules_by_step(by_step),
        "headline": asdict(headline(by_step, state, entropy, accuracy)),
        "verdict": asdict(state),
        "entropy": asdict(entropy),
        "accuracy": asdict(accuracy),
        "shadows": _shadows(run),
    }


def columns(run: RunTotals) -> dict[str, list[float | None]]:
    """Each of NUMBERS by step; `pass@k` is for the greatest k that every labelled group has."""
    places = sorted(run.steps)
    totals = [run.steps[p] for p in places]
    k = _largest_k(run)
    names = [n.name for n in NUMBERS] + [f"shadow_{method}_label_agreement" for method in run.shadows]
    out: dict[str, list[float | None]] = {"step": list(places), "groups": [t.groups for t in totals]}
    for name in names:
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
    return entropy_verdict(sum(s for s, _ in sums), sum(t.auroc_squares for t in last), sum(w for _, w in sums))


def _shadows(run: RunTotals) -> list[JSON]:
    """Of each shadow method over the run: how often it would have chosen otherwise, and who was right then."""

    def total(name: str) -> tuple[float, float]:
        found = [step.sums[name] for step in run.steps.values() if name in step.sums]
        return sum(value for value, _ in found), sum(weight for _, weight in found)

    out = []
    for name in run.shadows:
        (same, groups), (flipped, known) = total(f"shadow_{name}_label_agreement"), total(f"shadow_{name}_flipped")
        (theirs, judged), (ours, _) = total(f"theirs:{name}"), total(f"ours:{name}")
        out.append(
            {
                "method": name,
                "groups": int(groups),
                "differs": int(groups - same),
                "flipped": _round(flipped / known) if known else None,
                "judged": int(judged),
                "theirs": int(theirs),
                "ours": int(ours),
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
