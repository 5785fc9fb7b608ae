"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..methods import reads_entropy
from ..numbers import CHARTS, LABELLED, NUMBERS, shadow_charts
from ..segments import Floats
from .book import RunBook, RunTotals
from .last_steps import unlabelled, verdict_of
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


def view(book: RunBook, **judged_by: Any) -> JSON:
    """Every run, the worst first, then the last one (`BookView.since` from the beginning)."""
    return BookView(book, **judged_by).since(-1)


class BookView:
    """What the report and the page draw of a book, kept up to date: only what changed is made again.

    groups      bounds the bytes of the single groups, which all runs share evenly
    judged_by   options of `calibrate`, by which labels are judged
    """

    def __init__(self, book: RunBook, *, groups: int = BYTES, **judged_by: Any) -> None:
        self.book, self._groups, self._judged_by = book, groups, judged_by
        self._runs: dict[str, RunView] = {}

    def since(self, version: int) -> JSON:
        """What changed after that version of the book; everything after -1.

        Verdicts from labels are made anew with each step that begins, and for a page that is opened (-1).
        """
        book, share = self.book, self._groups // max(len(self.book.runs), 1)
        known, self._runs = self._runs, {}
        for name, run in reversed(book.runs.items()):
            own = known.get(name)
            self._runs[name] = own = own if own and own.run is run else RunView(run)
            own.renew(share, self._judged_by, whole=version < 0)
        ordered = sorted(self._runs.values(), key=lambda own: own.rank)
        told = {
            "order": [own.run.name for own in ordered],
            "runs": [own.since(version) for own in ordered if own.version > version],
        }
        if version >= 0:
            return told
        return {
            "charts": [asdict(c) for c in CHARTS],
            "tiles": [[n.name, n.tile] for n in NUMBERS if n.tile],
            "reasons": {name: asdict(reason) for name, reason in REASONS.items()},
            "rules": {name: {"word": r.word, "tone": r.tone, "meaning": r.meaning} for name, r in RULES.items()},
            **told,
        }


@dataclass(slots=True, eq=False)
class RunView:
    """One run as it is drawn."""

    run: RunTotals
    version: int = -1  # of the book, when this was made
    columns: dict[str, Floats] = field(default_factory=dict)  # by step; pass@k for the largest k of all labelled groups
    states: list[str | None] = field(default_factory=list)  # the rule that fires at each step
    head: JSON = field(default_factory=dict)  # what is not by step
    verdict: Verdict | None = None  # from labels
    _judged: tuple[int, int] = (0, 0)  # labelled groups, and steps of these, when it was made
    _k: int = 0
    _cards: dict[int, tuple[int, JSON]] = field(default_factory=dict)  # each with the version that it came with

    def renew(self, size: int, judged_by: Mapping[str, Any], *, whole: bool) -> None:
        """Take over what came since; single groups of `size` bytes.

        The verdict from labels is made anew if a step with some has begun since it was made, or (`whole`) if any came.
        """
        run, own = self.run, self.run.labelled
        judges = own.added != self._judged[0] and (whole or own.begun != self._judged[1])
        if judges:
            self._judged, self.verdict = (own.added, own.begun), verdict_of(own.groups(), **judged_by)
        if self.version != run.version:
            self._add_up()
            shown = run.picks.within(size)
            self._cards = {c["key"]: self._cards.get(c["key"], (run.version, c)) for c in shown}
        elif not judges:
            return
        self.version = run.version
        self.head = self._head()

    def _add_up(self) -> None:
        run, steps = self.run, self.run.steps
        k = largest_k(steps.totals())
        if k != self._k:
            self._k = k
            steps.change()
        names = [n.name for n in NUMBERS] + [f"shadow_{method}_label_agreement" for method in run.shadows]
        self.columns = {name: steps.means(f"pass@{k}" if name == "pass@k" else name) for name in names}
        self.states = rules_by_step(self.columns)

    @property
    def rank(self) -> tuple[bool, bool, bool]:
        """What is bad first; then what is long enough to be judged, then what has several steps: no stray request."""
        points = len(self.states)
        return self.head["headline"]["tone"] != "bad", points < AT_LEAST, points < 2

    def since(self, version: int) -> JSON:
        """The run, with the columns, rules and single groups that are newer than that version.

        `from` is the index of the first of these steps; `keys` are those of all single groups, in order.
        """
        steps = self.run.steps
        begin = next((i for i, of_step in enumerate(steps.versions) if of_step > version), len(steps))
        groups = steps.sums("groups")[0][begin:].astype(int).tolist()
        means = {name: _json(column[begin:]) for name, column in self.columns.items()}
        return self.head | {
            "from": begin,
            "columns": {"step": steps.places[begin:], "groups": groups, **means},
            "states": self.states[begin:],
            "keys": list(self._cards),
            "cards": [card for made, card in self._cards.values() if made > version],
        }

    def _head(self) -> JSON:
        """What is counted, verdicts, shadow methods."""
        run, verdict, totals = self.run, self.verdict, self.run.steps.totals()
        state = ONE_SET if run.one_set else run_verdict(self.columns, self.states)
        accuracy, begun = accuracy_verdict(run.visits), begins(self.states)
        if accuracy.since is not None:
            accuracy = replace(accuracy, since=bisect_right(run.steps.places, accuracy.since) - 1)
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
            "k": self._k,
            "charts": [asdict(c) for c in shadow_charts(run.shadows)],
            "events": _events(begun, accuracy),
            "headline": asdict(headline(begun, state, accuracy, misleads=misleads)),
            "verdict": asdict(state),
            "calibration": shown and asdict(shown),
            "accuracy": asdict(accuracy),
            "learnt": learnt and asdict(learnt.shown()),
            "shadows": [_shadow(name, totals) for name in run.shadows],
        }


def _json(column: Floats) -> list[float | None]:
    """Its entries; None where one is not known."""
    return [None if gone else x for x, gone in zip(column.tolist(), np.isnan(column).tolist(), strict=True)]


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
