"""What OpenRLHF's labels, scores, logs and evaluation mean, for the service and for the rollout actor alike.

OpenRLHF tells neither of them whether it trains or evaluates, and has one label column for both. So the label decides,
as an object or as its JSON text:

    {"answer": "204", "split": "train" | "eval", "kind": "choice", "options": ["A", "B"]}     all keys are optional
    "204" or ["204", "204.0"]                                              a plain answer, or accepted ones: training
    "" or null                                                                                 no answer: training

The right answer never enters a training reward (except for the method gt, which is made of it). The numbers of a group
in OpenRLHF's log are those of `numbers.NUMBERS` that say so; what only a route knows stands in `LOGS`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from ..answers import Kind, classify, grade, option_letters
from ..answers.labels import read_labels
from ..answers.rollouts import READING, read_answers
from ..answers.rules import DEFAULT, Rules
from ..errors import ConfigError, RequestError
from ..inputs import ACCEPTED, GROUP_FIELDS
from ..membership import label_text
from ..numbers import NUMBERS, of_group
from ..params import parameters
from ..reply import GroupReply
from ..scoring.shadow_methods import UNKNOWN
from ..scoring.shadow_methods import log_names as shadow_log_names
from ..scoring.shadow_methods import logs as shadow_logs

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
DISTINCT: Final = re.compile(r"[0-9]{9}|[0-9a-f]{8}-[0-9a-f]{4}-", re.ASCII | re.IGNORECASE)
Known = Mapping[str, float | Sequence[float]]  # values of the log that only the route knows, under their keys
Split = Literal["train", "eval"]
Route = Literal["url", "actor"]
Pruned = Literal["zero", "neutral", "mask"]
SCALE: Final = (
    "OpenRLHF needs --algo.advantage.estimator dr_grpo, not group_norm (before 0.10.2: --advantage_estimator)"
)

# --- labels ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Label:
    """What a label says. `problem` is the reason why it says nothing; then it counts as training without an answer."""

    answer: str | tuple[str, ...] | None = None
    split: Split = "train"
    kind: Kind | None = None
    options: Any = None
    problem: str = ""


def read_label(value: Any, *, policy: Split = "train") -> Label:
    """The label that `value` writes. Never raises: in a running training nothing of a label may end the run.

    policy   what a plain answer marks
    """
    try:
        if isinstance(value, str) and value.lstrip().startswith("{"):
            with suppress(ValueError):  # a set such as {x | x > 0} is an answer
                value = json.loads(value)
        if isinstance(value, Mapping):
            return _checked(value)
        answer = _answer(value)
    except RequestError as error:
        return Label(problem=error.message)
    except (RecursionError, ValueError):  # of json: too deep, or an integer of thousands of digits
        return Label(problem="it is too deep or too long to be read")
    return Label(answer, policy if answer is not None else "train")


def write_label(label: Label) -> str:
    """The JSON text, without what is not set; ConfigError if it would say nothing."""
    body = {"answer": label.answer, "split": label.split, "kind": label.kind, "options": label.options}
    text = json.dumps({k: v for k, v in body.items() if v is not None})
    if problem := read_label(text).problem:
        raise ConfigError(f"the label {text[:80]} means nothing: {problem}")
    return text


def _checked(label: Mapping[str, Any]) -> Label:
    answer, split, kind = _answer(label.get("answer")), label.get("split"), label.get("kind")
    if split not in (None, *get_args(Split)):
        raise RequestError("split must be train or eval")
    if kind is not None and kind not in GROUP_FIELDS["kind"].choices:
        raise RequestError(f"kind must be {GROUP_FIELDS['kind'].rule}")
    if label.get("options") is not None:
        option_letters(label["options"])
    if split == "eval" and answer is None:
        raise RequestError('an evaluation needs the right answer: {"answer": ..., "split": "eval"}')
    return Label(answer, split or "train", kind, label.get("options"))


def _answer(value: Any) -> str | tuple[str, ...] | None:
    several = value if isinstance(value, list) else [value]
    if several and all(v is None or (isinstance(v, str) and not v.strip()) or v != v for v in several):  # noqa: PLR0124  (NaN)
        return None
    if not 1 <= len(several) <= ACCEPTED or not all(isinstance(v, str | int | float) for v in several):
        raise RequestError(f"the answer must be a string, a number or a list of 1 to {ACCEPTED:,} of them")
    accepted = tuple(json.dumps(v) if isinstance(v, bool) else label_text(v) for v in several)
    return accepted if len(accepted) > 1 else accepted[0]


# --- answers ---------------------------------------------------------------------------------------------------------

COMPARING: Final = frozenset(s.name for s in parameters(grade, skip=frozenset({"kind", "options"})))


class AnswerRules:
    """How a run reads and compares answers: by the same rules in training and in evaluation.

    params    of the run; those that are about answers count
    kind      and `options`, the letters of a choice: where a label does not say
    prompt    what was asked, for rules that read one group alone
    """

    def __init__(
        self,
        params: Mapping[str, Any],
        kind: Kind = "math",
        options: Sequence[str] | None = None,
        *,
        prompt: str | None = None,
    ) -> None:
        self._reading = {k: v for k, v in params.items() if k in READING}
        self._comparing = {k: v for k, v in params.items() if k in COMPARING}
        self._kind: Kind = kind
        self._prompt = prompt
        self._options = options

    def label(self, value: Any, *, policy: Split = "train") -> Label:
        """`read_label`; an answer that no rollout of this run can give is a problem too."""
        label = read_label(value, policy=policy)
        if label.answer is None:
            return label
        kind, options = self._kind_and_options(label)
        if read_labels(label.answer, kind=kind, options=options):
            return label
        letters = f": it must be one of {', '.join(options)}" if options else ""
        problem = f"no answer of kind {kind} equals it{letters}"  # never what it says: services log this
        return replace(label, answer=None, split="train", problem=problem)

    @property
    def needs_text(self) -> bool:
        """Who compares the answers has to see how they were found."""
        return bool(self._reading.get("unmarked") == "number")

    @property
    def comparing(self) -> Rules:
        """By which answers compare, and labels too."""
        return DEFAULT._replace(**self._comparing)

    def group(self, label: Label) -> dict[str, Any]:
        """What a group of `POST /reward` says about its answers. The label is for diagnostics (and the method gt)."""
        kind, options = self._kind_and_options(label)
        return {"kind": kind, "options": options if options is None else list(options), "label": label.answer}

    def read(self, rollout: Mapping[str, Any], label: Label) -> str | None:
        """The answer of a rollout of `POST /reward`: of its `text` or `answer`, `finish_reason` and `num_tokens`; its
        `prompt` is what was asked, where it is not that of all."""
        kind, options = self._kind_and_options(label)
        silent = [rollout.get("num_tokens") == 0]
        asked = rollout.get("prompt", self._prompt)
        return read_answers([rollout], silent, kind=kind, options=options, prompt=asked, **self._reading)[0].answer

    def right(self, answer: str | None, label: Label) -> bool | None:
        """Whether it is one that the label accepts; None if it is no answer."""
        kind, options = self._kind_and_options(label)
        if classify((answer,), kind=kind, options=options, **self._comparing).index[0] < 0:
            return None
        accepted = read_labels(label.answer or (), kind=kind, options=options)
        return grade(answer, accepted, kind=kind, options=options, **self._comparing)

    def _kind_and_options(self, label: Label) -> tuple[Kind, Sequence[str] | None]:
        kind = label.kind or self._kind
        if kind != "choice":
            return kind, None
        return kind, option_letters(self._options if label.options is None else label.options)


# --- rewards ---------------------------------------------------------------------------------------------------------

GRID: Final = 2.0**-16


def rounded(rewards: Iterable[float]) -> list[float]:
    """The rewards of a group as multiples of 2^-16; a spread of one such unit is rounding, and becomes none.

    OpenRLHF normalises in float32: `(r - mean) / (std + 1e-9)`. There the mean of equal but inexact numbers may differ
    from them by one unit in the last place, and equal rewards get advantages of up to 1; so do rewards that differ by
    nothing but rounding. Multiples of 2^-16 have exact sums and means, for groups of any usual size.
    """
    found = [round(r / GRID) * GRID + 0.0 for r in rewards]  # + 0.0: no zero is negative
    return [min(found)] * len(found) if found and max(found) - min(found) <= GRID else found


# --- logs ------------------------------------------------------------------------------------------------------------

SOURCE_NUMBERS: Final = {"none": 0.0, "exact": 1.0, "topk": 2.0, "logprob": 3.0}


@dataclass(frozen=True, slots=True)
class LogKey:
    """One key of OpenRLHF's log. Of a number of the group: -1 where it is not known; else what the route knows, or 0.

    only    the one route that has it
    late    what a rollout has that came after its group was scored; None: the group's
    """

    meaning: str
    only: Route | None = None
    late: float | None = None


# Every rollout of a run carries the keys of its route, those of the run's shadow methods, and no others, as finite
# numbers: OpenRLHF stacks them and fails where two rollouts of a step differ in their keys.
GROUP: Final = tuple(n for n in NUMBERS if n.openrlhf)
LOGS: Final[Mapping[str, LogKey]] = MappingProxyType(
    {n.name: LogKey(n.meaning + (f", in {n.unit}" if n.unit == "nats" else "")) for n in GROUP}
    | {
        "entropy_source": LogKey("0: no entropies, 1: exact, 2: from the top k, 3: from log-probabilities"),
        "evaluation": LogKey("1: the reward is accuracy, because the label said so"),
        "partial": LogKey("1: the group closed before all of its rollouts were there", only="url", late=1.0),
        "neutral": LogKey(
            "1: all rewards of the group are equal, because too few rollouts came, or they contradict each other",
            only="url",
            late=1.0,
        ),
        "repeated": LogKey(
            "1: the prompt filled a group of this step before: two jobs share run=, group_size is too small, or the "
            "data holds the prompt twice",
            only="url",
        ),
        "wait_seconds": LogKey(
            "time from this rollout's first arrival to the closing of its group", only="url", late=0.0
        ),
        "reward_fallback": LogKey(
            "1: computed in the actor, because the service was away; 2: not computed, all rewards are equal",
            only="actor",
        ),
        "no_span": LogKey(
            "1: train_on=reasoning, and the tokens of this rollout's answer were not found: all its tokens train",
            only="actor",
            late=0.0,
        ),
        "votes_saved": LogKey("adaptive: votes that were not asked for, because the group was settled", only="actor"),
        "settle_risk": LogKey("adaptive: probability that the label differs from that of all votes", only="actor"),
        "reward_wait_ms": LogKey(
            "milliseconds from the end of the group's last generation to its rewards", only="actor"
        ),
    }
)


KEYS: Final[Mapping[Route, tuple[str, ...]]] = MappingProxyType(
    {route: tuple(name for name, key in LOGS.items() if key.only in {None, route}) for route in get_args(Route)}
)


def keys_of(route: Route, shadow: Sequence[str] = ()) -> tuple[str, ...]:
    """The keys of the log on this route, in order."""
    return (*KEYS[route], *shadow_log_names(shadow))


def _logs(
    group: Mapping[str, Any], known: Known, places: Iterable[int], route: Route, shadow: Sequence[str]
) -> list[dict[str, float]]:
    """For the rollouts at `places` of a group, which is one as a line of a run log has it."""
    numbers = {name: UNKNOWN if value is None else value for name, value in of_group(group, GROUP).items()}
    values = {name: numbers.get(name, known.get(name, 0.0)) for name in KEYS[route]}
    own = {name: value for name, value in values.items() if isinstance(value, Sequence)}
    shared = {name: UNKNOWN if isinstance(value, Sequence) else float(value) for name, value in values.items()}
    shared |= shadow_logs((group.get("reply") or NOTHING).get("diagnostics") or NOTHING, shadow)
    return [shared | {name: float(column[i]) for name, column in own.items()} for i in places]


# --- what a rollout gets ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RolloutOutcome:
    """What one rollout hands to OpenRLHF. `masked`: only its last token stays an action."""

    reward: float
    score: float
    logs: Mapping[str, float]
    masked: bool = False


def outcomes(
    reply: GroupReply,
    *,
    route: Route,
    entropies: Sequence[float | None] = (),
    trained: Sequence[int] | None = None,
    pruned: Pruned = "zero",
    shadow: Sequence[str] = (),
    known: Known = NOTHING,
) -> list[RolloutOutcome]:
    """One per trained rollout of a group that was scored. Where its rewards are `neutral`, so are its scores.

    entropies   mean entropy of each rollout
    trained     places of the trained rollouts; all of them without it
    pruned      reward of a pruned rollout: zero; neutral: no advantage; mask: nor tokens that train
    """
    if reply.rewards is None or reply.keep is None or reply.valid is None or reply.answers is None:
        raise ValueError("the group has no rewards")
    places = range(len(reply.rewards)) if trained is None else trained
    gone = [v and not k for v, k in zip(reply.valid, reply.keep, strict=True)]
    rewards = [reply.rewards[i] for i in places]
    flags = reply.flags or ()
    equal = "neutral" in flags
    if pruned != "zero":  # they get the mean of the others, hence no advantage
        kept = [reply.rewards[i] for i in places if not gone[i]]
        mean = math.fsum(kept) / len(kept) if kept else 0.0
        rewards = [mean if gone[i] else reply.rewards[i] for i in places]
    scores = [0.0] * len(places) if equal else _scores(reply, places)
    group = {
        "rollouts": [{"mean_entropy": entropy} for entropy in entropies],
        "reply": {"valid": reply.valid, "keep": reply.keep, "diagnostics": reply.diagnostics},
    }
    told = {**known, "partial": float(equal or "partial" in flags), "neutral": float(equal)}
    told["entropy_source"] = SOURCE_NUMBERS[reply.entropy_source or "none"]
    return [
        RolloutOutcome(reward, score, logs, masked=pruned == "mask" and gone[i])
        for i, reward, score, logs in zip(
            places, rounded(rewards), scores, _logs(group, told, places, route, shadow), strict=True
        )
    ]


def _scores(reply: GroupReply, places: Sequence[int]) -> list[float]:
    """What OpenRLHF's dynamic filtering reads as accuracy: the rewards of gt, else agreement with the pseudo-label; of
    a method that names none, with the most voted answer.

    It leaves out groups whose scores are all 0 or all 1. So a group that carries nothing, though its rollouts differ,
    gets zeros.
    """
    rewards, answers, best = reply.rewards or (), reply.answers or (), reply.pseudo_label
    if best is None and reply.support:
        best = max(reply.support, key=lambda s: s.count).answer
    right = [r > 0 for r in rewards] if reply.method == "gt" else [best is not None and a == best for a in answers]
    scores = [float(right[i]) for i in places]
    return scores if reply.drop is None or all(scores) else [0.0] * len(scores)


def is_distinct(run: str) -> bool:
    """Whether a run's name holds what differs from job to job: nine digits in a row, as the time has, or a UUID.

    Nothing in a released client's request tells two jobs on one machine apart but this name.
    """
    return DISTINCT.search(run) is not None


def evaluation(
    rules: AnswerRules,
    rollout: Mapping[str, Any],
    label: Label,
    *,
    route: Route,
    entropy: float | None = None,
    shadow: Sequence[str] = (),
) -> RolloutOutcome:
    """Accuracy of one rollout, whose answer is read as in training."""
    right = rules.right(rules.read(rollout, label), label)
    value = float(right or False)
    said = {"valid": [right is not None], "keep": [True], "diagnostics": {"ground_truth_ratio": value}}
    group = {"rollouts": [{"mean_entropy": entropy}], "reply": said}
    return RolloutOutcome(value, value, _logs(group, {"evaluation": 1.0}, [0], route, shadow)[0])


def neutral(
    count: int, *, votes: int, route: Route, shadow: Sequence[str] = (), known: Known = NOTHING
) -> list[RolloutOutcome]:
    """Equal rewards, hence no advantage: for the `count` rollouts of a group that could not be scored at all."""
    group = {"reply": {"valid": [True] * votes, "keep": [True] * votes}}
    told = {**known, "neutral": 1.0}
    return [RolloutOutcome(0.0, 0.0, logs) for logs in _logs(group, told, [0] * count, route, shadow)]


def late(siblings: Sequence[RolloutOutcome]) -> RolloutOutcome:
    """For a rollout that comes after its group was scored: the mean reward, hence no advantage among its siblings."""
    (mean,) = rounded([math.fsum(o.reward for o in siblings) / len(siblings)])
    own = {name: key.late for name, key in LOGS.items() if key.late is not None}
    return RolloutOutcome(mean, 0.0, {name: own.get(name, value) for name, value in siblings[0].logs.items()})
