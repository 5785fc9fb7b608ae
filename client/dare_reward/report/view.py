"""A book of runs as the JSON that the report and the page draw."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final

from ..methods import reads_entropy
from ..numbers import CHARTS, LABELLED, NUMBERS, shadow_charts
from .book import RunBook, RunTotals
from .last_steps import unlabelled, verdict_of
from .picks import REASONS
from .verdict import (
    AT_LEAST,
    ONE_SET,
    READING,
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
DIGITS: Final = 5
WORST_FIRST: Final = ("bad", "warn")  # the other tones are alike: the newest run first
VOTE: Final = "ttrl"
FIRED: Final[tuple[Word, ...]] = ("collapsing", "sharpening")

JSON = dict[str, Any]


def view(book: RunBook, *, groups: int = BYTES, reading: bool = False) -> JSON:
    """Every run, the worst first, then the last one (`BookView.since` from the beginning)."""
    return BookView(book, groups=groups).since(-1, reading=reading)


class BookView:
    """What the report and the page draw of a book, kept up to date: only what changed is made again.

    groups   bounds the bytes of the single groups, which all runs share evenly
    """

    def __init__(self, book: RunBook, *, groups: int = BYTES) -> None:
        self.book, self._groups = book, groups
        self._runs: dict[str, RunView] = {}

    def _rank(self, told: JSON) -> tuple[bool, bool, bool]:
        """What is bad first; then what is long enough to be judged, then what has several steps: no stray request."""
        points = len(self._runs[told["run"]].columns["step"])
        return told["headline"]["tone"] not in WORST_FIRST, points < AT_LEAST, points < 2

    def since(self, version: int, *, reading: bool = False) -> JSON:
        """What changed after that version of the book; everything after -1.

        Verdicts from labels are made anew with each step that begins, and for a page that is opened (-1). While the
        book is still `reading` an older log, no run has a verdict.
        """
        book, share = self.book, self._groups // max(len(self.book.runs), 1)
        self._runs = {name: self._runs.get(name) or RunView(run) for name, run in book.runs.items()}
        for name, run in self._runs.items():
            if run.version != book.runs[name].version:
                run.renew(share)
            run.judge(whole=version < 0)
        told = [self._runs[name].since(version, reading=reading) for name in reversed(book.runs)]
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
        self.columns: dict[str, list[Any]] = {}
        self.states: list[str | None] = []
        self._made: list[int] = []  # the version of each step
        self._whole = -1  # the version since when no step has another index or other figures
        self._layout: tuple[Any, ...] = ()
        self._cards: dict[int, tuple[int, JSON]] = {}  # each with the version that it came with
        self.learnt: Learnt | None = None
        self.verdict: Verdict | None = None  # from labels
        self._judged = 0, 0  # labelled groups, and steps of these, when it was made

    def judge(self, *, whole: bool) -> None:
        """Make the verdict from labels, if a step with some has begun since it was made, or (`whole`) if any came."""
        own = self.run.labelled
        if own.added != self._judged[0] and (whole or own.begun != self._judged[1]):
            self._judged = own.added, own.begun
            self.verdict = verdict_of(own.groups())

    def renew(self, size: int = 0) -> None:
        """Take over what came since; single groups of `size` bytes."""
        steps, run = self.run.steps, self.run
        k, layout = run.largest_k, (steps.layout, run.largest_k, len(run.shadows))
        self.version, self.learnt = run.version, run.visits.learnt
        if layout != self._layout:
            self._layout, self._whole = layout, self.version
            steps.changed = set(steps.places)
            self.columns = {name: [] for name in ("step", "groups", *_names(run))}
            self._made, self.states = [], []
        changed, steps.changed = sorted(steps.changed), set()
        sums = [(self.columns[name], f"pass@{k}" if name == "pass@k" else name) for name in _names(run)]
        for place in changed:
            at = bisect_left(steps.places, place)
            if at == len(self._made):
                self._made.append(self.version)
                for column in self.columns.values():
                    column.append(None)
            self._made[at] = self.version
            totals = steps[place]
            self.columns["step"][at], self.columns["groups"][at] = place, totals.groups
            for column, name in sums:
                value = totals.mean(name)
                column[at] = None if value is None else round(value, DIGITS)
        if changed:
            self.states = rules_by_step(self.columns, self.states, bisect_left(steps.places, changed[0]))
        shown = list(_within(run, size)) if size else []
        self._cards = {c["key"]: self._cards.get(c["key"], (self.version, c)) for c in shown}

    def since(self, version: int, *, reading: bool = False) -> JSON:
        """The run, with the columns, rules and single groups that are newer than that version.

        `from` is the index of the first of these steps; `keys` are those of all single groups, in order.
        """
        begin = 0
        if version >= self._whole:
            begin = next((i for i, made in enumerate(self._made) if made > version), len(self._made))
        head = self._head(reading=reading)
        return head | {
            "from": begin,
            "columns": {name: column[begin:] for name, column in self.columns.items()},
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

    def _head(self, *, reading: bool) -> JSON:
        """What is counted, verdicts, shadow methods."""
        run, shadows = self.run, _shadows(self.run)
        state = ONE_SET if run.one_set else run_verdict(self.columns, self.states)
        accuracy, verdict = accuracy_verdict(run.visits), self.verdict
        if accuracy.since is not None:
            accuracy = replace(accuracy, since=bisect_right(run.steps.places, accuracy.since) - 1)
        if reading:
            state, accuracy, verdict = READING, READING, None
        misleads = verdict is not None and verdict.use == "line" and verdict.calibration.exponent < 0
        worst = headline(self.states, state, accuracy, misleads=misleads)
        return {
            "run": run.name,
            "unit": run.unit,
            "stepped": run.stepped,
            "groups": run.groups,
            "rollouts": run.rollouts,
            "errors": run.errors,
            "estimates": dict(run.estimates),
            "methods": [[*variant, count] for variant, count in run.methods.most_common()],
            "labelled": any(run.whole.weight(name) for name in LABELLED),
            "k": run.largest_k,
            "charts": [asdict(c) for c in shadow_charts(run.shadows)],
            "events": _events(self.states, accuracy),
            "headline": asdict(worst),
            "verdict": asdict(state),
            "calibration": self._shown(verdict),
            "accuracy": asdict(accuracy),
            "learnt": self.learnt and asdict(self.learnt.shown()),
            "shadows": shadows,
        }


def unmeasured(run: RunTotals) -> list[str]:
    """Its methods that read entropies, of which no label says whether they are informative."""
    run.add_up()
    return [] if run.whole.weight("entropy_auroc") else sorted({name for name, _ in run.methods if reads_entropy(name)})


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


def _shadows(run: RunTotals) -> list[JSON]:
    """Of each shadow method over the run: how often it would have chosen otherwise, and who was right then."""

    def total(name: str) -> tuple[float, float]:
        value, weight = run.whole.sums.get(name, (0.0, 0.0))
        return value, weight

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
