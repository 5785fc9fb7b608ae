"""What a run does, in a word, by rules with names. docs/report.md explains each of them.

The rules on the run itself see no label. They are heuristics: their thresholds come from what papers report, and
research/docs/alarm.md judges them on runs that collapse. No label-free number can see a diverse consensus on wrong
answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from types import MappingProxyType
from typing import Final, Literal

from .visits import NEEDED as PROMPTS
from .visits import Visits

Word = Literal[
    "fine",
    "sharpening",
    "collapsing",
    "too early",
    "no run",
    "informative",
    "uninformative",
    "misleads",
    "unknown",
    "falls",
    "rises",
    "no change seen",
]
Column = Sequence[float | None]
Columns = Mapping[str, Column]

EARLY: Final = 3  # steps that the others are compared with
LOOKS, NEEDED = 5, 3  # a rule fires where it holds in 3 of the last 5 steps
AT_LEAST: Final = EARLY + LOOKS
MINIMUM: Final = 8  # groups with right and wrong rollouts, before entropy is judged
RECENT: Final = 5  # steps that entropy is judged by

RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "one-answer-everywhere": "the distinct pseudo-labels per prompt are below half of their early value",
        "answers-vanish": "the share of rollouts without an answer is above 3 times its early value plus .05",
        "nothing-left-to-learn": "more than .8 of the groups have equal rewards, and fewer than .02 of the prompts "
        "that were seen again change their label",
        "agreement-rises": "the distinct answers within a prompt are below half of their early value, and the majority "
        "ratio is more than .15 above its own",
        "no-rule-fires": "none of the rules above holds",
        "too-few-steps": f"fewer than {AT_LEAST} steps: {EARLY} early ones and {LOOKS} to look at",
        "one-set": "the file names no steps, so it is one set of rollouts",
        "still-reading": "the service started with an older run log, and has not read all of it",
        "auroc-above-half": "the 95% interval of the entropy AUROC is above .5",
        "auroc-around-half": "the 95% interval of the entropy AUROC contains .5",
        "auroc-below-half": "the 95% interval of the entropy AUROC is below .5",
        "accuracy-fell": "later visits of prompts are less often right than earlier ones of the same prompts, by more "
        "than chance however often one looks",
        "accuracy-rose": "likewise, more often right",
        "accuracy-unclear": "later and earlier visits of prompts differ by no more than chance",
        "too-few-visits": f"fewer than {PROMPTS} labelled prompts were seen twice, by group_id",
        "too-few-mixed-groups": f"fewer than {MINIMUM} groups have right and wrong rollouts with entropies",
    }
)


WORDS: Final[Mapping[str, Word]] = MappingProxyType(
    {
        "no-rule-fires": "fine",
        "too-few-steps": "too early",
        "one-set": "no run",
        "still-reading": "too early",
        "auroc-above-half": "informative",
        "auroc-around-half": "uninformative",
        "auroc-below-half": "misleads",
        "too-few-mixed-groups": "unknown",
        "accuracy-fell": "falls",
        "accuracy-rose": "rises",
        "accuracy-unclear": "no change seen",
        "too-few-visits": "unknown",
    }
)


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """A word, the rule of `RULES` that gave it, why in numbers, and the index of the step since when it holds."""

    word: Word
    rule: str
    why: str
    since: int | None = None


ONE_SET: Final = RunVerdict("no run", "one-set", "no rule compares what has no steps")
READING: Final = RunVerdict("too early", "still-reading", "the page updates by itself")


@dataclass(frozen=True, slots=True)
class Headline:
    """The worst thing that happened: a sentence, how bad it is, and the index of the step at which it began."""

    text: str
    tone: Literal["bad", "warn", "good", "quiet"]
    since: int | None = None


def headline(columns: Columns, state: RunVerdict, entropy: RunVerdict, accuracy: RunVerdict) -> Headline:
    """By labels where there are any, which `state` does not look at: a fall of accuracy is worse than any rule."""
    if state == READING:
        return Headline("The run log is still being read", "quiet")
    if accuracy.word == "falls":
        return Headline("Accuracy fell: prompts are right less often than on their earlier visits", "bad")
    words = [None if rule is None else word_of(rule) for rule in rules_by_step(columns)]
    if "collapsing" in words:
        over = "" if state.word == "collapsing" else ", and recovered"
        return Headline(f"The run collapsed, as signals without labels show{over}", "bad", words.index("collapsing"))
    if entropy.word == "misleads":
        return Headline("Entropy misleads: wrong rollouts are more certain than right ones", "bad")
    if "sharpening" in words:
        usual = "Rollouts of a prompt come to one answer, as in every run that trains on agreement"
        return Headline(usual, "quiet", words.index("sharpening"))
    if state == ONE_SET:
        return Headline("One set of rollouts, not a run: the rules on runs do not apply", "quiet")
    if state.word == "too early":
        return Headline("Too early to say", "quiet")
    return Headline("Nothing bad was found", "good")


def run_verdict(columns: Columns) -> RunVerdict:
    """The state at the last step."""
    states = rules_by_step(columns)
    if not states or states[-1] is None:
        return _said("too-few-steps", f"{len(states)} step{'s' * (len(states) != 1)} so far, {AT_LEAST} needed")
    rule = states[-1]
    since = len(states)
    while since > 0 and states[since - 1] == rule:
        since -= 1
    return RunVerdict(word_of(rule), rule, _why(rule, columns), since)


def accuracy_verdict(visits: Visits) -> RunVerdict:
    """Whether prompts are more or less often right than on their earlier visits. It decides no reward."""
    change = visits.change
    if change is None:
        return _said(
            "too-few-visits", f"{visits.again} such prompt{'s' * (visits.again != 1)} so far, {PROMPTS} needed"
        )
    why = f"later visits {change.mean:+.2f}, over {change.pairs:,} pairs of visits of {visits.again:,} prompts"
    if not change.sure:
        return _said("accuracy-unclear", why)
    return _said("accuracy-rose" if change.mean > 0 else "accuracy-fell", why)


def _said(rule: str, why: str) -> RunVerdict:
    return RunVerdict(word_of(rule), rule, why)


def rules_by_step(columns: Columns) -> list[str | None]:
    """The rule that fires at each step; None in the first steps, of which too few have been seen."""
    count = len(columns["step"])
    held = {name: [rule(columns, i) for i in range(count)] for name, (_, rule) in _RULES.items()}
    out: list[str | None] = []
    for i in range(count):
        if i + 1 < AT_LEAST:
            out.append(None)
            continue
        fired = (name for name in _RULES if sum(held[name][i + 1 - LOOKS : i + 1]) >= NEEDED)
        out.append(next(fired, "no-rule-fires"))
    return out


def word_of(rule: str) -> Word:
    """The word that a rule of `RULES` stands for."""
    return _RULES[rule][0] if rule in _RULES else WORDS[rule]


def _early(column: Column) -> float | None:
    known = [x for x in column[:EARLY] if x is not None]
    return sum(known) / len(known) if known else None


def _one_answer(columns: Columns, i: int) -> bool:
    early, now = _early(columns["distinct_labels"]), columns["distinct_labels"][i]
    return early is not None and now is not None and now < 0.5 * early


def _vanish(columns: Columns, i: int) -> bool:
    early, now = _early(columns["invalid"]), columns["invalid"][i]
    return early is not None and now is not None and now > 3 * early + 0.05


def _learned(columns: Columns, i: int) -> bool:
    equal, flips = columns["frac_reward_zero_std"][i], columns["flips"][i]
    return equal is not None and equal > 0.8 and (flips is None or flips < 0.02)


def _agreed(columns: Columns, i: int) -> bool:
    early, now = _early(columns["distinct_answers"]), columns["distinct_answers"][i]
    before, share = _early(columns["majority_ratio"]), columns["majority_ratio"][i]
    if early is None or now is None or before is None or share is None:
        return False
    return now < 0.5 * early and share > before + 0.15


# The gravest first: the word is that of the first rule that fires.
_RULES: Final[Mapping[str, tuple[Word, Callable[[Columns, int], bool]]]] = MappingProxyType(
    {
        "one-answer-everywhere": ("collapsing", _one_answer),
        "answers-vanish": ("collapsing", _vanish),
        "nothing-left-to-learn": ("sharpening", _learned),
        "agreement-rises": ("sharpening", _agreed),
    }
)


def _why(rule: str, columns: Columns) -> str:
    def then_now(name: str) -> str:
        return f"{_text(_early(columns[name]))} in the first {EARLY} steps, {_text(columns[name][-1])} in the last one"

    if rule == "one-answer-everywhere":
        return f"distinct pseudo-labels per prompt: {then_now('distinct_labels')}"
    if rule == "answers-vanish":
        return f"rollouts without an answer: {then_now('invalid')}"
    if rule == "nothing-left-to-learn":
        return f"groups with equal rewards: {then_now('frac_reward_zero_std')}"
    if rule == "agreement-rises":
        return f"answers within a prompt: {then_now('distinct_answers')}; majority ratio: {then_now('majority_ratio')}"
    return (
        f"distinct pseudo-labels per prompt {then_now('distinct_labels')}; without an answer {then_now('invalid')}; "
        f"groups with equal rewards {then_now('frac_reward_zero_std')}"
    )


def _text(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def entropy_verdict(total: float, squares: float, count: float) -> RunVerdict:
    """Whether low entropy means right, by the mean AUROC of `count` groups and its normal 95% interval."""
    if count < MINIMUM:
        return _said("too-few-mixed-groups", f"{count:.0f} such group{'s' * (count != 1)} found, {MINIMUM} needed")
    mean = total / count
    half = 1.96 * sqrt(max(squares / count - mean * mean, 0.0) / (count - 1))
    why = f"AUROC {mean:.2f}, 95% interval {mean - half:.2f} to {mean + half:.2f}, over {count:.0f} groups"
    if mean - half > 0.5:
        return _said("auroc-above-half", why)
    if mean + half < 0.5:
        return _said("auroc-below-half", why)
    return _said("auroc-around-half", why)
