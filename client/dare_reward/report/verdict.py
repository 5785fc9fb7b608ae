"""What a run does, in a word, by rules with names. docs/report.md explains each of them.

The rules on the run itself see no label. They are heuristics: their thresholds come from what papers report, and
research/docs/alarm.md judges them on runs that collapse. No label-free number can see a diverse consensus on wrong
answers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from ..analysis.shown import points
from ..errors import counted
from ..numbers import MAJORITY
from ..segments import Bools, Floats
from .visits import NEEDED as PROMPTS
from .visits import SURE, Visits

Tone = Literal["bad", "good", "quiet"]  # red and green need evidence
JSON = dict[str, Any]
Columns = Mapping[str, Floats]  # numbers by step; NaN where one is not known

EARLY: Final = 3  # steps that the others are compared with
LOOKS, NEEDED = 5, 3  # a rule fires where it holds in 3 of the last 5 steps
AT_LEAST: Final = EARLY + LOOKS


@dataclass(frozen=True, slots=True)
class Rule:
    """The word that a rule gives, with its tone, and where it holds.

    fires   of the rules on the run itself: whether it holds at each step
    shows   the columns that say why, with their names
    """

    word: str
    tone: Tone
    meaning: str
    fires: Callable[[Columns], Bools] | None = None
    shows: tuple[tuple[str, str], ...] = ()


def _early(column_S: Floats) -> float:
    known = column_S[:EARLY][~np.isnan(column_S[:EARLY])]
    return float(known.sum() / len(known)) if len(known) else np.nan


ACROSS: Final = ("distinct pseudo-labels per prompt", "distinct_labels")
ABSENT: Final = ("rollouts without an answer", "invalid")
SAME: Final = ("groups with equal rewards", "frac_reward_zero_std")
# Of those that fire, the gravest first: the word is that of the first. None fires where a number is not known: NaN is
# neither below nor above another one.
RULES: Final[Mapping[str, Rule]] = MappingProxyType({
    "one-answer-everywhere": Rule(
        "collapsing", "bad", "the distinct pseudo-labels per prompt are below half of their early value",
        lambda c: c["distinct_labels"] < 0.5 * _early(c["distinct_labels"]), (ACROSS,),
    ),
    "answers-vanish": Rule(
        "collapsing", "bad", "the share of rollouts without an answer is above 3 times its early value plus .05",
        lambda c: c["invalid"] > 3 * _early(c["invalid"]) + 0.05, (ABSENT,),
    ),
    "nothing-left-to-learn": Rule(
        "sharpening", "quiet", "more than .8 of the groups have equal rewards, and fewer than .02 of the prompts "
        "that were seen again change their label",
        lambda c: (c["frac_reward_zero_std"] > 0.8) & ~(c["flips"] >= 0.02), (SAME,),
    ),
    "agreement-rises": Rule(
        "sharpening", "quiet", "the distinct answers within a prompt are below half of their early value, and the "
        "majority ratio is more than .15 above its own",
        lambda c: (c["distinct_answers"] < 0.5 * _early(c["distinct_answers"]))
        & (c[MAJORITY] > _early(c[MAJORITY]) + 0.15),
        (("answers within a prompt", "distinct_answers"), ("majority ratio", MAJORITY)),
    ),
    "no-rule-fires": Rule("fine", "good", "none of the rules above holds", shows=(ACROSS, ABSENT, SAME)),
    "too-few-steps": Rule(
        "too early", "quiet", f"fewer than {AT_LEAST} steps: {EARLY} early ones and {LOOKS} to look at",
    ),
    "one-set": Rule("no run", "quiet", "the file names no steps, so it is one set of rollouts"),
    "accuracy-fell": Rule(
        "falls", "bad", "prompts are less often right on their last visit than on their first, by more than "
        f"{SURE} standard errors of the mean over prompts",
    ),
    "accuracy-rose": Rule("rises", "good", "likewise, more often right"),
    "accuracy-unclear": Rule(
        "no change seen", "quiet", "first and last visits of prompts differ by less than that",
    ),
    "too-few-visits": Rule("unknown", "quiet", f"fewer than {PROMPTS} labelled prompts were seen twice, by group_id"),
})  # fmt: skip
_FIRING: Final = {name: rule.fires for name, rule in RULES.items() if rule.fires is not None}
READ: Final = ("distinct_labels", "invalid", "frac_reward_zero_std", "flips", "distinct_answers", MAJORITY)


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A word, the rule of `RULES` that gave it, why in numbers, and the index of the step since when it holds."""

    word: str
    tone: Tone
    rule: str
    why: str
    since: int | None = None


def _said(rule: str, why: str, since: int | None = None) -> RunVerdict:
    return RunVerdict(RULES[rule].word, RULES[rule].tone, rule, why, since)


ONE_SET: Final = _said("one-set", "no rule compares what has no steps")


# The worst comes first.
HEADLINES: Final[Mapping[str, tuple[Tone, str]]] = MappingProxyType({
    "accuracy falls": ("bad", "Accuracy fell: prompts are right less often than on their first visit"),
    "collapsing": ("bad", "The run collapsed, as signals without labels show"),
    "collapsed, recovered": ("bad", "The run collapsed, as signals without labels show, and recovered"),
    "entropy misleads": ("bad", "Entropy misleads: wrong rollouts are more certain than right ones"),
    "accuracy rises": ("good", "Accuracy rose: prompts are right more often than on their first visit"),
    "sharpening": ("quiet", "Rollouts of a prompt come to one answer, as in every run that trains on agreement"),
    "one set": ("quiet", "One set of rollouts, not a run: the rules on runs do not apply"),
    "too early": ("quiet", "Too early to say"),
    "fine": ("good", "Nothing bad was found"),
})  # fmt: skip


def headline(begun: Mapping[str, int], state: RunVerdict, accuracy: RunVerdict, *, misleads: bool = False) -> JSON:
    """The worst thing that happened: a sentence, a word for a list of runs, the index of the step where it began.

    By the rules that fired, and by labels where there are any: a fall of accuracy is worst of all. No label has acted
    on `begun` and `state`. `misleads`: the verdict from labels weighs sure answers less.
    """
    holds = {
        "accuracy falls": accuracy.word == "falls",
        "collapsing": state.word == "collapsing",
        "collapsed, recovered": "collapsing" in begun,
        "entropy misleads": misleads,
        "accuracy rises": accuracy.word == "rises",
        "sharpening": "sharpening" in begun,
        "one set": state == ONE_SET,
        "too early": state.word == "too early",
    }
    word = next((word for word in HEADLINES if holds.get(word)), "fine")
    since = {"accuracy falls": accuracy.since, "accuracy rises": accuracy.since, "fine": None}
    since["collapsed, recovered"] = begun.get("collapsing")
    tone, text = HEADLINES[word]
    return {"text": text, "word": word, "tone": tone, "since": {**begun, **since}.get(word)}


def begins(states: Sequence[str | None]) -> dict[str, int]:
    """The index of the step where each word first came."""
    words = [RULES[rule].word for rule in states if rule is not None]
    return {word: words.index(word) + states.count(None) for word in dict.fromkeys(words)}


def run_verdict(columns: Columns, states: Sequence[str | None]) -> RunVerdict:
    """The state at the last step, by the rules that fired at each."""
    if not states or states[-1] is None:
        return _said("too-few-steps", f"{counted(len(states), 'step')} so far, {AT_LEAST} needed")
    rule, last = states[-1], next(groupby(reversed(states)))[1]
    return _said(rule, _why(rule, columns), len(states) - len(list(last)))


def accuracy_verdict(visits: Visits, places: Sequence[int]) -> RunVerdict:
    """Whether prompts are more or less often right than on their first visits. It decides no reward.

    places   the first steps of the blocks that the run is drawn by
    """
    if (change := visits.change) is None:
        return _said("too-few-visits", f"{counted(visits.again, 'such prompt')} so far, {PROMPTS} needed")
    why = f"{points(change.gain)} from the first to the last visits of {visits.again:,} prompts, a 95% interval"
    rule = {-1: "accuracy-fell", 0: "accuracy-unclear", 1: "accuracy-rose"}[change.sign]
    return _said(rule, why, None if change.since is None else bisect_right(places, change.since) - 1)


def rules_by_step(columns: Columns) -> list[str | None]:
    """The rule that fires at each step; None in the first steps, of which too few have been seen."""
    count = len(columns[READ[0]])
    if count < AT_LEAST:
        return [None] * count
    held = [np.convolve(fires(columns), np.ones(LOOKS))[:count] >= NEEDED for fires in _FIRING.values()]
    fired = np.select(held, range(len(held)), len(held)).tolist()
    names = [*_FIRING, "no-rule-fires"]
    return [names[i] if at >= AT_LEAST else None for at, i in enumerate(fired, 1)]


def _why(rule: str, columns: Columns) -> str:
    return "; ".join(
        f"{what}: {_text(_early(columns[name]))} in the first {EARLY} steps, {_text(columns[name][-1])} in the last one"
        for what, name in RULES[rule].shows
    )


def _text(value: float) -> str:
    return "unknown" if np.isnan(value) else f"{value:.2f}"
