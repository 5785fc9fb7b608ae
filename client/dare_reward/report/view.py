"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from ..analysis.bootstrap import RESAMPLES
from ..errors import RequestError
from ..methods import find
from ..numbers import CHARTS, LABELLED, NUMBERS, shadow_charts
from ..runs.reasons import REASONS
from .book import RunBook, RunTotals
from .verdict import (
    ONE_SET,
    READING,
    RULES,
    Headline,
    RunVerdict,
    Word,
    accuracy_verdict,
    entropy_verdict,
    headline,
    rules_by_step,
    run_verdict,
    tone_of,
)

BYTES: Final = 3 << 20  # of the groups of all runs in a file
DIGITS: Final = 5
HEAVY: Final = ("token_entropies", "texts")
WORST_FIRST: Final = ("bad", "warn")  # the other tones are alike: the newest run first
VOTE: Final = "ttrl"
FIRED: Final[tuple[Word, ...]] = ("collapsing", "sharpening")

JSON = dict[str, Any]


def view(book: RunBook, *, groups: int = BYTES, reading: bool = False) -> JSON:
    """Every run, the worst first, then the last one. `groups` bounds the bytes of the single groups, shared evenly.

    While the book is still `reading` an older log, no run has a verdict.
    """
    share = groups // max(len(book.runs), 1)
    runs = [
        run_view(run, reading=reading) | {"cards": list(_within(run, share))} for run in reversed(book.runs.values())
    ]
    return {
        "charts": [asdict(c) for c in CHARTS],
        "tiles": [[n.name, n.tile] for n in NUMBERS if n.tile],
        "reasons": {name: asdict(reason) for name, reason in REASONS.items()},
        "rules": {name: {"word": r.word, "tone": tone_of(r.word), "meaning": r.meaning} for name, r in RULES.items()},
        "runs": sorted(runs, key=lambda run: run["headline"]["tone"] not in WORST_FIRST),
    }


def run_view(run: RunTotals, *, reading: bool = False) -> JSON:
    """One run without its groups: what is counted, columns by step, verdicts, shadow methods."""
    by_step, shadows = columns(run), _shadows(run)
    state, entropy = ONE_SET if run.one_set else run_verdict(by_step), entropy_verdict(run.auroc)
    accuracy = accuracy_verdict(run.visits)
    if accuracy.since is not None:
        accuracy = replace(accuracy, since=bisect_right(sorted(run.steps), accuracy.since) - 1)
    if reading:
        state = entropy = accuracy = READING
    states = rules_by_step(by_step)
    vote = next((row for row in shadows if row["method"] == VOTE and row["labelled"]), None)
    worst = headline(by_step, state, entropy, accuracy)
    if run.one_set and vote and not reading:
        worst = _against_vote(run.methods.most_common(1)[0][0][0], vote)
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
        "states": states,
        "events": _events(states, accuracy),
        "headline": asdict(worst),
        "verdict": _verdict(state),
        "entropy": _verdict(entropy),
        "accuracy": _verdict(accuracy),
        "unmeasured": unmeasured(run),
        "shadows": shadows,
    }


def unmeasured(run: RunTotals) -> list[str]:
    """Its methods that read entropies, of which no label says whether they are informative."""
    return [] if run.auroc.sums else sorted({name for name, _ in run.methods if reads_entropy(name)})


def reads_entropy(method: str) -> bool:
    """Whether a method weighs rollouts by their entropies."""
    try:
        return "mean_entropy" in find(method).requires
    except RequestError:  # a plug-in that is not installed here
        return False


def _verdict(verdict: RunVerdict) -> JSON:
    return {**asdict(verdict), "tone": verdict.tone}


def _events(states: Sequence[str | None], accuracy: RunVerdict) -> list[JSON]:
    """Where a word other than fine first came, and where accuracy changed: what charts mark."""
    words = [rule and RULES[rule].word for rule in states]
    begins = [(words.index(word), str(word), tone_of(word)) for word in FIRED if word in words]
    if accuracy.since is not None:
        begins.append((accuracy.since, f"accuracy {accuracy.word}", accuracy.tone))
    return [{"at": at, "word": word, "tone": tone} for at, word, tone in sorted(begins)]


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
    weights = {name: sum(w for n, w in known if n == name) for name, _ in known}
    return max((int(name[5:]) for name, w in weights.items() if w == most), default=0)


def _shadows(run: RunTotals) -> list[JSON]:
    """Of each shadow method over the run: how often it would have chosen otherwise, and who was right then.

    gain    right labels of the run's method less its own, in points, with a 95% interval over groups
    """

    def total(name: str) -> tuple[float, float]:
        totals = [step.sums[name] for step in run.steps.values() if name in step.sums]
        return sum(value for value, _ in totals), sum(weight for _, weight in totals)

    out = []
    for name in run.shadows:
        (same, groups), (flipped, known) = total(f"shadow_{name}_label_agreement"), total(f"shadow_{name}_flipped")
        (theirs, judged), (ours, _) = total(f"theirs:{name}"), total(f"ours:{name}")
        right, labelled = total(f"shadow_{name}_label_accuracy")
        out.append(
            {
                "method": name,
                "groups": int(groups),
                "differs": int(groups - same),
                "flipped": _round(flipped / known) if known else None,
                "judged": int(judged),
                "theirs": int(theirs),
                "ours": int(ours),
                "labelled": int(labelled),
                "right": int(right),
                "right_ours": int(right + ours - theirs),
                "gain": _gain(int(ours), int(theirs), int(labelled)),
            }
        )
    return out


def _gain(ours: int, theirs: int, labelled: int) -> list[float]:
    """Points of right labels: `ours` groups where the run's method alone is right, `theirs` where the other is.

    The interval is the percentile bootstrap over groups, whose resamples are draws of these three counts.
    """
    if not labelled:
        return []
    shares = np.array([ours, theirs, max(labelled - ours - theirs, 0)]) / max(labelled, ours + theirs)
    drawn = np.random.default_rng(0).multinomial(labelled, shares, RESAMPLES)
    ends = np.quantile(drawn[:, 0] - drawn[:, 1], [0.025, 0.975])
    return [round(100 * float(x) / labelled, 1) for x in (ours - theirs, *ends)]


def _against_vote(method: str, vote: JSON) -> Headline:
    """The headline of a labelled file."""
    gain, low, high = vote["gain"]
    text = (
        f"{method} labels {vote['right_ours']:,} of {vote['labelled']:,} prompts right, the vote {vote['right']:,} "
        f"({gain:+.0f} point{'s' * (abs(round(gain)) != 1)}, 95% {low:.0f} to {high:.0f})"
    )
    if low <= 0 <= high:
        return Headline(text, "no difference seen", "quiet")
    return Headline(text, "above the vote" if low > 0 else "below the vote", "good" if low > 0 else "bad")


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
