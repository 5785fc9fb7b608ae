"""What a run does, in a word, by rules with names. docs/report.md explains each of them.

The rules on the run itself see no label. They are heuristics: their thresholds come from what papers report, and
research/docs/alarm.md judges them on runs that collapse. No label-free number can see a diverse consensus on wrong
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from types import MappingProxyType
from typing import Final, Literal

from ..numbers import MAJORITY
from .visits import NEEDED as PROMPTS
from .visits import Visits

Word = Literal[
    "fine",
    "sharpening",
    "collapsing",
    "too early",
    "no run",
    "unknown",
    "falls",
    "rises",
    "no change seen",
]
Tone = Literal["bad", "warn", "good", "quiet"]
Column = Sequence[float | None]
Columns = Mapping[str, Column]

EARLY: Final = 3  # steps that the others are compared with
LOOKS, NEEDED = 5, 3  # a rule fires where it holds in 3 of the last 5 steps
AT_LEAST: Final = EARLY + LOOKS


@dataclass(frozen=True, slots=True)
class Rule:
    """The word that a rule gives, and where it holds.

    fires   of the rules on the run itself: whether it holds at a step
    shows   the columns that say why, with their names
    """

    word: Word
    meaning: str
    fires: Callable[[Columns, int], bool] | None = None
    shows: tuple[tuple[str, str], ...] = ()


def _early(column: Column) -> float | None:
    known = [x for x in column[:EARLY] if x is not None]
    return sum(known) / len(known) if known else None


def _change(columns: Columns, name: str, i: int) -> tuple[float, float]:
    """The early value and that of a step; NaN, by which no rule fires, where one is not known."""
    early, now = _early(columns[name]), columns[name][i]
    return (nan, nan) if early is None or now is None else (early, now)


def _one_answer(columns: Columns, i: int) -> bool:
    early, now = _change(columns, "distinct_labels", i)
    return now < 0.5 * early


def _vanish(columns: Columns, i: int) -> bool:
    early, now = _change(columns, "invalid", i)
    return now > 3 * early + 0.05


def _learned(columns: Columns, i: int) -> bool:
    equal, flips = columns["frac_reward_zero_std"][i], columns["flips"][i]
    return equal is not None and equal > 0.8 and (flips is None or flips < 0.02)


def _agreed(columns: Columns, i: int) -> bool:
    (early, now), (before, share) = _change(columns, "distinct_answers", i), _change(columns, MAJORITY, i)
    return now < 0.5 * early and share > before + 0.15


ACROSS: Final = ("distinct pseudo-labels per prompt", "distinct_labels")
ABSENT: Final = ("rollouts without an answer", "invalid")
SAME: Final = ("groups with equal rewards", "frac_reward_zero_std")
# Of those that fire, the gravest first: the word is that of the first.
RULES: Final[Mapping[str, Rule]] = MappingProxyType({
    "one-answer-everywhere": Rule(
        "collapsing", "the distinct pseudo-labels per prompt are below half of their early value",
        _one_answer, (ACROSS,),
    ),
    "answers-vanish": Rule(
        "collapsing", "the share of rollouts without an answer is above 3 times its early value plus .05",
        _vanish, (ABSENT,),
    ),
    "nothing-left-to-learn": Rule(
        "sharpening", "more than .8 of the groups have equal rewards, and fewer than .02 of the prompts "
        "that were seen again change their label",
        _learned, (SAME,),
    ),
    "agreement-rises": Rule(
        "sharpening", "the distinct answers within a prompt are below half of their early value, and the majority "
        "ratio is more than .15 above its own",
        _agreed, (("answers within a prompt", "distinct_answers"), ("majority ratio", MAJORITY)),
    ),
    "no-rule-fires": Rule("fine", "none of the rules above holds", shows=(ACROSS, ABSENT, SAME)),
    "too-few-steps": Rule("too early", f"fewer than {AT_LEAST} steps: {EARLY} early ones and {LOOKS} to look at"),
    "one-set": Rule("no run", "the file names no steps, so it is one set of rollouts"),
    "still-reading": Rule("too early", "the service started with an older run log, and has not read all of it"),
    "accuracy-fell": Rule(
        "falls", "later visits of prompts are less often right than earlier ones of the same prompts, by more "
        "than chance however often one looks",
    ),
    "accuracy-rose": Rule("rises", "likewise, more often right"),
    "accuracy-unclear": Rule("no change seen", "later and earlier visits of prompts differ by no more than chance"),
    "too-few-visits": Rule("unknown", f"fewer than {PROMPTS} labelled prompts were seen twice, by group_id"),
})  # fmt: skip
_FIRING: Final = {name: rule.fires for name, rule in RULES.items() if rule.fires is not None}


TONES: Final[Mapping[Word, Tone]] = MappingProxyType(
    {
        **dict.fromkeys(("collapsing", "falls"), "bad"),
        **dict.fromkeys(("fine", "rises"), "good"),
    }
)


def tone_of(word: Word) -> Tone:
    """Red and green need evidence."""
    return TONES.get(word, "quiet")


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A word, the rule of `RULES` that gave it, why in numbers, and the index of the step since when it holds."""

    word: Word
    tone: Tone
    rule: str
    why: str
    since: int | None = None


def _said(rule: str, why: str, since: int | None = None) -> RunVerdict:
    word = RULES[rule].word
    return RunVerdict(word, tone_of(word), rule, why, since)


ONE_SET: Final = _said("one-set", "no rule compares what has no steps")
READING: Final = _said("still-reading", "the page updates by itself")


@dataclass(frozen=True, slots=True)
class Headline:
    """The worst thing that happened: a sentence, a word for a list of runs, the index of the step where it began."""

    text: str
    word: str
    tone: Tone
    since: int | None = None


def headline(
    states: Sequence[str | None], state: RunVerdict, accuracy: RunVerdict, *, misleads: bool = False
) -> Headline:
    """By the rules that fired at each step, and by labels where there are any: a fall of accuracy is worst of all.

    No label has acted on `states` and `state`. `misleads`: the verdict from labels weighs sure answers less.
    """
    if state == READING:
        return Headline("The run log is still being read", "reading", "quiet")
    if accuracy.word == "falls":
        text = "Accuracy fell: prompts are right less often than on their earlier visits"
        return Headline(text, "accuracy falls", "bad", accuracy.since)
    words = [None if rule is None else RULES[rule].word for rule in states]
    if "collapsing" in words:
        begin = words.index("collapsing")
        if state.word == "collapsing":
            return Headline("The run collapsed, as signals without labels show", "collapsing", "bad", begin)
        text = "The run collapsed, as signals without labels show, and recovered"
        return Headline(text, "collapsed, recovered", "bad", begin)
    if misleads:
        text = "Entropy misleads: wrong rollouts are more certain than right ones"
        return Headline(text, "entropy misleads", "bad")
    if accuracy.word == "rises":
        text = "Accuracy rose: prompts are right more often than on their earlier visits"
        return Headline(text, "accuracy rises", "good", accuracy.since)
    if "sharpening" in words:
        usual = "Rollouts of a prompt come to one answer, as in every run that trains on agreement"
        return Headline(usual, "sharpening", "quiet", words.index("sharpening"))
    if state == ONE_SET:
        return Headline("One set of rollouts, not a run: the rules on runs do not apply", "one set", "quiet")
    if state.word == "too early":
        return Headline("Too early to say", "too early", "quiet")
    return Headline("Nothing bad was found", "fine", "good")


def run_verdict(columns: Columns, states: Sequence[str | None]) -> RunVerdict:
    """The state at the last step, by the rules that fired at each."""
    if not states or states[-1] is None:
        return _said("too-few-steps", f"{len(states)} step{'s' * (len(states) != 1)} so far, {AT_LEAST} needed")
    rule = states[-1]
    since = len(states)
    while since > 0 and states[since - 1] == rule:
        since -= 1
    return _said(rule, _why(rule, columns), since)


def accuracy_verdict(visits: Visits) -> RunVerdict:
    """Whether prompts are more or less often right than on their earlier visits. It decides no reward.

    `since` is a step, and not yet its index.
    """
    change = visits.change
    if change is None:
        return _said(
            "too-few-visits", f"{visits.again} such prompt{'s' * (visits.again != 1)} so far, {PROMPTS} needed"
        )
    why = f"later visits {change.mean:+.2f}, over {change.pairs:,} pairs of visits of {visits.again:,} prompts"
    if not change.sure:
        return _said("accuracy-unclear", why)
    return _said("accuracy-rose" if change.mean > 0 else "accuracy-fell", why, change.since)


def rules_by_step(columns: Columns, known: Sequence[str | None] = (), first: int = 0) -> list[str | None]:
    """The rule that fires at each step; None in the first steps, of which too few have been seen.

    `known` are the rules of the steps before `first`, whose figures have not changed since.
    """
    count, first = len(columns["step"]), 0 if first < EARLY else first
    begin = max(first - LOOKS + 1, 0)
    held = {name: [fires(columns, i) for i in range(begin, count)] for name, fires in _FIRING.items()}
    out = list(known[:first])
    for i in range(first, count):
        if i + 1 < AT_LEAST:
            out.append(None)
            continue
        at = i + 1 - begin
        fired = (name for name in _FIRING if sum(held[name][at - LOOKS : at]) >= NEEDED)
        out.append(next(fired, "no-rule-fires"))
    return out


def _why(rule: str, columns: Columns) -> str:
    return "; ".join(
        f"{what}: {_text(_early(columns[name]))} in the first {EARLY} steps, {_text(columns[name][-1])} in the last one"
        for what, name in RULES[rule].shows
    )


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"
