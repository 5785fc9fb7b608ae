"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..methods import reads_entropy
from ..numbers import CHARTS, LABELLED, NUMBERS, shadow_charts
from .book import RunBook, RunTotals
from .last_steps import unlabelled
from .picks import REASONS
from .steps import DIGITS, Sum
from .verdict import (
    AT_LEAST,
    HEADLINES,
    ONE_SET,
    RULES,
    RunVerdict,
    accuracy_verdict,
    begins,
    headline,
    rules_by_step,
    run_verdict,
)

if TYPE_CHECKING:
    from ..analysis.verdict import Verdict

BYTES: Final = 3 << 20  # of the groups of all runs in a file
VOTE: Final = "ttrl"
NONE: Final[Sum] = (0.0, 0.0)

JSON = dict[str, Any]


def view(book: RunBook, *, groups: int = BYTES, anew: bool = True, **judged_by: Any) -> JSON:
    """What the report and the page draw of a book: every run, the worst first, then the last one.

    Args:
        groups: bounds the bytes of the single groups, which all runs share evenly
        anew: judge by all labels, else by those of when the last step began
        judged_by: options of `calibrate`, by which labels are judged
    """
    share = groups // max(len(book.runs), 1)
    runs = [_drawn(run, share, run.verdict(anew=anew, **judged_by)) for run in reversed(book.runs.values())]
    return {
        "charts": [asdict(c) for c in CHARTS],
        "tiles": [[n.name, n.tile] for n in NUMBERS if n.tile],
        "reasons": {name: asdict(reason) for name, reason in REASONS.items()},
        "rules": {name: {"word": r.word, "tone": r.tone, "meaning": r.meaning} for name, r in RULES.items()},
        "runs": sorted(runs, key=_rank),
    }


def _rank(run: JSON) -> tuple[bool, bool, bool]:
    """What is bad first; then what is long enough to be judged, then what has several steps: no stray request."""
    points = len(run["states"])
    return run["headline"]["tone"] != "bad", points < AT_LEAST, points < 2


def _drawn(run: RunTotals, size: int, verdict: Verdict | None) -> JSON:
    """What is counted, by step and of all; verdicts, shadow methods, single groups of `size` bytes."""
    totals = run.steps.totals()
    k = largest_k(totals)
    shadows = [f"shadow_{method}_label_agreement" for method in run.shadows]
    columns = run.steps.means([*(n.name for n in NUMBERS), *shadows])
    columns["pass@k"] = run.steps.means([f"pass@{k}"])[f"pass@{k}"]
    states = rules_by_step(columns)
    state = ONE_SET if run.one_set else run_verdict(columns, states)
    accuracy, begun = accuracy_verdict(run.visits, run.steps.places), begins(states)
    misleads = verdict is not None and verdict.use == "line" and verdict.calibration.exponent < 0
    learnt, shown = run.visits.learnt, verdict and verdict.shown()
    if verdict is None and not run.labelled.added and (names := unmeasured(run)):
        shown = unlabelled(names)
    return {
        "run": run.name,
        "unit": run.unit,
        "stepped": run.order.stepped,
        "groups": run.groups,
        "rollouts": run.rollouts,
        "errors": run.errors,
        "estimates": dict(run.estimates),
        "methods": [[*variant, count] for variant, count in run.methods.most_common()],
        "labelled": any(totals.get(name, NONE)[1] for name in LABELLED),
        "k": k,
        "charts": [asdict(c) for c in shadow_charts(run.shadows)],
        "events": _events(begun, accuracy),
        "headline": headline(begun, state, accuracy, misleads=misleads),
        "verdict": asdict(state),
        "calibration": shown and asdict(shown),
        "accuracy": asdict(accuracy),
        "learnt": learnt and asdict(learnt.shown()),
        "shadows": [_shadow(name, totals) for name in run.shadows],
        "columns": {
            "step": run.steps.places,
            "groups": run.steps.counts(),
            **{name: np.where(np.isnan(c), np.array(None), c).tolist() for name, c in columns.items()},
        },
        "states": states,
        "cards": list(run.picks.within(size)),
    }


def largest_k(totals: Mapping[str, Sum]) -> int:
    """The greatest power of two up to the size of every group that has labels; 0 without any."""
    most = totals.get("pass@1", NONE)[1]
    sizes = (int(name[5:]) for name in totals if name.startswith("pass@"))
    return max((k for k in sizes if totals[f"pass@{k}"][1] == most), default=0)


def unmeasured(run: RunTotals) -> list[str]:
    """Its methods that read entropies, of which no label says whether they are informative."""
    known = run.steps.totals().get("entropy_auroc", NONE)[1]
    return [] if known else sorted({name for name, _ in run.methods if reads_entropy(name)})


def _events(begun: Mapping[str, int], accuracy: RunVerdict) -> list[JSON]:
    """Where a word other than fine first came, and where accuracy changed: what charts mark."""
    found = [(at, word, HEADLINES[word][0]) for word, at in begun.items() if word != "fine"]
    if accuracy.since is not None:
        found.append((accuracy.since, f"accuracy {accuracy.word}", accuracy.tone))
    return [{"at": at, "word": word, "tone": tone} for at, word, tone in sorted(found)]


def _shadow(name: str, totals: Mapping[str, Sum]) -> JSON:
    """Of a shadow method over the run: how often it would have chosen otherwise, and who was right then."""

    def total(number: str) -> Sum:
        return totals.get(number, NONE)

    (same, groups), (flipped, known) = total(f"shadow_{name}_label_agreement"), total(f"shadow_{name}_flipped")
    (theirs, judged), (ours, _) = total(f"theirs:{name}"), total(f"ours:{name}")
    right, labelled = total(f"shadow_{name}_label_accuracy")
    return {
        "method": name,
        "groups": int(groups),
        "differs": int(groups - same),
        "flipped": round(flipped / known, DIGITS) if known else None,
        "judged": int(judged),
        "theirs": int(theirs),
        "ours": int(ours),
        "labelled": int(labelled),
        "right": int(right),
        "right_ours": int(right + ours - theirs),
    }
