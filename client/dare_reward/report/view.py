"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
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
    ONE_SET,
    RULES,
    RunVerdict,
    Word,
    accuracy_verdict,
    headline,
    rules_by_step,
    run_verdict,
    tone_of,
)

if TYPE_CHECKING:
    from ..analysis.learnt import Learnt
    from ..analysis.verdict import Verdict

BYTES: Final = 3 << 20  # of the groups of all runs in a file
WORST_FIRST: Final = ("bad", "warn")  # the other tones are alike: the newest run first
VOTE: Final = "ttrl"
NONE: Final[Sum] = (0.0, 0.0)
FIRED: Final[tuple[Word, ...]] = ("collapsing", "sharpening")

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

    def _rank(self, told: JSON) -> tuple[bool, bool, bool]:
        """What is bad first; then what is long enough to be judged, then what has several steps: no stray request."""
        points = len(self._runs[told["run"]].states)
        return told["headline"]["tone"] not in WORST_FIRST, points < AT_LEAST, points < 2

    def since(self, version: int) -> JSON:
        """What changed after that version of the book; everything after -1.

        Verdicts from labels are made anew with each step that begins, and for a page that is opened (-1).
        """
        book, share = self.book, self._groups // max(len(self.book.runs), 1)
        self._runs = {name: self._runs.get(name) or RunView(run) for name, run in book.runs.items()}
        for name, run in self._runs.items():
            if run.version != book.runs[name].version:
                run.renew(share)
            run.judge(self._judged_by, whole=version < 0)
        told = [self._runs[name].since(version) for name in reversed(book.runs)]
        ordered = sorted(told, key=self._rank)
        changed = [run for run in ordered if self._runs[run["run"]].version > version]
        if version >= 0:
            return {"order": [run["run"] for run in ordered], "runs": changed}
        return {
            "charts": [asdict(c) for c in CHARTS],
            "tiles": [[n.name, n.tile] for n in NUMBERS if n.tile],
            "reasons": {name: asdict(reason) for name, reason in REASONS.items()},
            "rules": {
                name: {"word": r.word, "tone": tone_of(r.word), "meaning": r.meaning} for name, r in RULES.items()
            },
            "order": [run["run"] for run in ordered],
            "runs": ordered,
        }


class RunView:
    """One run as it is drawn: its columns by step, the rules that fire, its single groups.

    columns   each of NUMBERS by step; `pass@k` is for the greatest k that every labelled group has
    states    the rule that fires at each step
    version   of the book, when this was made
    """

    def __init__(self, run: RunTotals) -> None:
        self.run, self.version = run, -1
        self.columns: dict[str, Floats] = {}
        self.states: list[str | None] = []
        self._totals: Mapping[str, Sum] = {}
        self._k, self._since_k = 0, -1  # the version since when it is this one
        self._cards: dict[int, tuple[int, JSON]] = {}  # each with the version that it came with
        self.learnt: Learnt | None = None
        self.verdict: Verdict | None = None  # from labels
        self._judged = 0, 0  # labelled groups, and steps of these, when it was made

    def judge(self, judged_by: Mapping[str, Any], *, whole: bool) -> None:
        """Make the verdict from labels, if a step with some has begun since it was made, or (`whole`) if any came."""
        own = self.run.labelled
        if own.added != self._judged[0] and (whole or own.begun != self._judged[1]):
            self._judged = own.added, own.begun
            self.verdict = verdict_of(own.groups(), **judged_by)

    def renew(self, size: int = 0) -> None:
        """Take over what came since; single groups of `size` bytes."""
        run, steps = self.run, self.run.steps
        self.version, self.learnt, self._totals = run.version, run.visits.learnt, steps.totals()
        k = largest_k(self._totals)
        if k != self._k:
            self._k, self._since_k = k, self.version
        self.columns = {name: steps.means(f"pass@{k}" if name == "pass@k" else name) for name in _names(run)}
        self.states = rules_by_step(self.columns)
        shown = list(_within(run, size)) if size else []
        self._cards = {c["key"]: self._cards.get(c["key"], (self.version, c)) for c in shown}

    def since(self, version: int) -> JSON:
        """The run, with the columns, rules and single groups that are newer than that version.

        `from` is the index of the first of these steps; `keys` are those of all single groups, in order.
        """
        steps, begin = self.run.steps, 0
        if version >= max(steps.layout, self._since_k):
            begin = next((i for i, of_step in enumerate(steps.versions) if of_step > version), len(steps))
        head = self._head()
        groups = steps.sums("groups")[0][begin:].astype(int).tolist()
        means = {name: _json(column[begin:]) for name, column in self.columns.items()}
        return head | {
            "from": begin,
            "columns": {"step": steps.places[begin:], "groups": groups, **means},
            "states": self.states[begin:],
            "keys": list(self._cards),
            "cards": [card for made, card in self._cards.values() if made > version],
        }

    def _shown(self, verdict: Verdict | None) -> JSON | None:
        """What to train with, by the labels; without any, how many are missing where that is not known."""
        if verdict is not None:
            return asdict(verdict.shown())
        names = unmeasured(self.run)
        return asdict(unlabelled(names)) if names and not self.run.labelled.added else None

    def _head(self) -> JSON:
        """What is counted, verdicts, shadow methods."""
        run, shadows = self.run, _shadows(self.run, self._totals)
        state = ONE_SET if run.one_set else run_verdict(self.columns, self.states)
        accuracy, verdict = accuracy_verdict(run.visits), self.verdict
        if accuracy.since is not None:
            accuracy = replace(accuracy, since=bisect_right(run.steps.places, accuracy.since) - 1)
        misleads = verdict is not None and verdict.use == "line" and verdict.calibration.exponent < 0
        worst = headline(self.states, state, accuracy, misleads=misleads)
        return {
            "run": run.name,
            "unit": run.unit,
            "stepped": run.order.stepped,
            "groups": run.groups,
            "rollouts": run.rollouts,
            "errors": run.errors,
            "estimates": dict(run.estimates),
            "methods": [[*variant, count] for variant, count in run.methods.most_common()],
            "labelled": any(self._totals.get(name, NONE)[1] for name in LABELLED),
            "k": self._k,
            "charts": [asdict(c) for c in shadow_charts(run.shadows)],
            "events": _events(self.states, accuracy),
            "headline": asdict(worst),
            "verdict": asdict(state),
            "calibration": self._shown(verdict),
            "accuracy": asdict(accuracy),
            "learnt": self.learnt and asdict(self.learnt.shown()),
            "shadows": shadows,
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


def _events(states: Sequence[str | None], accuracy: RunVerdict) -> list[JSON]:
    """Where a word other than fine first came, and where accuracy changed: what charts mark."""
    words = [rule and RULES[rule].word for rule in states]
    begins = [(words.index(word), str(word), tone_of(word)) for word in FIRED if word in words]
    if accuracy.since is not None:
        begins.append((accuracy.since, f"accuracy {accuracy.word}", accuracy.tone))
    return [{"at": at, "word": word, "tone": tone} for at, word, tone in sorted(begins)]


def _names(run: RunTotals) -> list[str]:
    """The names of its columns."""
    return [n.name for n in NUMBERS] + [f"shadow_{method}_label_agreement" for method in run.shadows]


def _shadows(run: RunTotals, totals: Mapping[str, Sum]) -> list[JSON]:
    """Of each shadow method over the run: how often it would have chosen otherwise, and who was right then."""

    def total(name: str) -> Sum:
        return totals.get(name, NONE)

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
                "flipped": round(flipped / known, DIGITS) if known else None,
                "judged": int(judged),
                "theirs": int(theirs),
                "ours": int(ours),
                "labelled": int(labelled),
                "right": int(right),
                "right_ours": int(right + ours - theirs),
            }
        )
    return out


def _within(run: RunTotals, size: int) -> Iterator[JSON]:
    """As many of the picked groups as fit."""
    for group in run.picks.cards():
        if found := group.within(size):
            size -= found[1]
            yield found[0]
