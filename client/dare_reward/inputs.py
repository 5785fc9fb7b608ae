"""Every input of a request's groups and of their rollouts, declared once: `Group` and `Rollout`.

A key's annotation says what the key holds, in which range, and what it is for. The checks of a request, the service's
JSON models, what a client sends, the frame, `Groups` and the tables of docs/api.md are made of these declarations:
adding an input is one line here.

Shapes of the inputs that hold numbers, for R rollouts:

    scalar   one number per rollout                               [R], may be missing
    tokens   one per generated token                              ragged, same lengths as all other token inputs
    matrix   a row of k numbers per generated token               ragged rows, the same k in the whole request
    list     as many per rollout as it takes                      ragged, with lengths of its own
    vector   a row of D numbers per rollout                       [R, D], a whole row may be missing
"""

# No `from __future__ import annotations`: `Required` is seen in a real annotation only.

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, Required, TypedDict, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from .answers import Kind
from .answers.classes import Labels
from .errors import unknown_name

Shape = Literal["scalar", "tokens", "matrix", "list", "vector"]
Type = Literal["float", "int", "bool", "text", "texts", "choice", "object", "rollouts", "options"]

# More than any vocabulary can give (ln V = 12 for 150,000 tokens): above it is a unit error, and sums stay finite.
MAX_ENTROPY: Final = 1000.0
# Log-probabilities and confidences from engines that mask tokens reach -1e4 and more; beyond this they are not numbers.
MAX_SURPRISAL: Final = 1e6
MAX_TOKENS: Final = 2**31
ACCEPTED: Final = 1024  # labels of a prompt: some question sets list hundreds of aliases

Text = str | None
Answer = str | float | np.number[Any] | None  # a number stands for its text
Content = str | Sequence[Mapping[str, Any]] | None  # parts of a chat reply stand for their text
Flag = bool | np.bool_ | None
Number = float | np.floating[Any] | None
Count = int | np.integer[Any] | None
Numbers = Sequence[float] | NDArray[Any] | None
Counts = Sequence[int] | NDArray[Any] | None
Flags = Sequence[bool] | NDArray[np.bool_] | None
Rows = Sequence[Sequence[float]] | NDArray[Any] | None
Options = Sequence[str] | int | None
Texts = Labels | None
Source = Literal["exact", "topk", "logprob"]
Mode = Literal["temperature", "raw", "unknown"]
LogprobsMode = Literal["raw_logprobs", "processed_logprobs"]


@dataclass(frozen=True)
class Input:
    """What an annotation adds to a key's type.

    ge, le   the range of each number
    length   fewest and most characters of a text
    gives    the scalar that follows from this input, and how: the mean or the sum of its unmasked tokens
    answer   the scalar that follows likewise from the tokens of the answer and the one that ends it
    sent     clients send it as it is; they drop it otherwise, or send what follows from it
    seen     of a whole group's inputs: estimators see it (`Groups.column_P`)
    """

    doc: str
    shape: Shape = "scalar"
    ge: float | None = None
    le: float | None = None
    length: tuple[int, int] | None = None
    gives: tuple[str, Literal["mean", "sum"]] | None = None
    answer: str | None = None
    sent: bool = True
    seen: bool = False


_META = Input("your own data, ignored", sent=False)
_SHARE: Final[Mapping[str, float]] = MappingProxyType({"ge": 0, "le": 1})
_COUNT: Final[Mapping[str, float]] = MappingProxyType({"ge": 0, "le": MAX_TOKENS})
_SUM: Final[Mapping[str, float]] = MappingProxyType({"ge": -1e12, "le": 0})
_NATS: Final[Mapping[str, float]] = MappingProxyType({"ge": 0, "le": MAX_ENTROPY})
_LOGPROB: Final[Mapping[str, float]] = MappingProxyType({"ge": -MAX_SURPRISAL, "le": 0})


class AnsweredRollout(TypedDict, total=False):
    """A rollout of which only the answer counts: those of `second_group` and `teacher_group`."""

    id: Annotated[Text, Input("default: the rollout's index")]
    answer: Annotated[Answer, Input("final answer; wins over text; null: no answer", sent=False)]
    text: Annotated[
        Content,
        Input("generated text, from which the answer is extracted; or the parts of a chat reply's content", sent=False),
    ]
    finish_reason: Annotated[Text, Input("length, max_tokens, abort: cut off, see truncated")]
    meta: Annotated[Mapping[str, Any] | None, _META]


class Rollout(AnsweredRollout, total=False):
    """One rollout of a group. Which of these keys a method needs is in its entry (`dare_reward.methods()`)."""

    trained: Annotated[bool, Input("false: a vote only")]
    path: Annotated[
        Text, Input("a name for its sequence of tokens, the same for equal ones; default: token_ids, then text")
    ]
    correct: Annotated[Flag, Input("for diagnostics only")]
    mean_entropy: Annotated[Number, Input("mean token entropy of the rollout in nats", **_NATS)]
    num_tokens: Annotated[Count, Input("number of tokens that the policy generated", **_COUNT)]
    sum_logprob: Annotated[Number, Input("sum of the sampled tokens' log-probabilities in nats", **_SUM)]
    answer_entropy: Annotated[
        Number, Input("mean entropy of the answer's tokens and of the token that ends it, in nats", **_NATS)
    ]
    answer_logprob: Annotated[Number, Input("sum of the same tokens' log-probabilities in nats", **_SUM)]
    mean_self_certainty: Annotated[
        Number, Input("mean over tokens of KL(uniform || policy), or of it plus ln V", **_NATS)
    ]
    confidence: Annotated[Number, Input("a ready trace confidence, greater is surer", ge=0, le=MAX_SURPRISAL)]
    verified: Annotated[Count, Input("1 if an external check agrees with the rollout's answer, else 0", **_SHARE)]
    pass_rate: Annotated[Number, Input("share of self-verifications that accept the rollout's answer", **_SHARE)]
    format: Annotated[Number, Input("format score of the rollout", **_SHARE)]
    base_ref_mean_prob: Annotated[
        Number, Input("mean probability of the reference's tokens without reasoning", **_SHARE)
    ]
    token_entropies: Annotated[
        Numbers,
        Input(
            "entropy of each generated token in nats",
            "tokens",
            gives=("mean_entropy", "mean"),
            answer="answer_entropy",
            **_NATS,
        ),
    ]
    token_mask: Annotated[Flags, Input("which of these tokens the policy generated (tool output: false)", "tokens")]
    token_logprobs: Annotated[
        Numbers,
        Input(
            "log-probability of each sampled token in nats",
            "tokens",
            gives=("sum_logprob", "sum"),
            answer="answer_logprob",
            **_LOGPROB,
        ),
    ]
    answer_tokens: Annotated[Counts, Input("[start, end) of the answer among these tokens", "list", **_COUNT)]
    token_offsets: Annotated[
        Rows,
        Input(
            "[start, end) of each token in the text, in characters: finds answer_tokens", "matrix", **_COUNT, sent=False
        ),
    ]
    token_self_certainty: Annotated[
        Numbers,
        Input(
            "KL(uniform || policy) of each token, or that plus ln V, in nats",
            "tokens",
            gives=("mean_self_certainty", "mean"),
            **_NATS,
        ),
    ]
    topk_logprobs: Annotated[
        Rows, Input("log-probabilities of the k >= 2 likeliest tokens at each position", "matrix", **_LOGPROB)
    ]
    step_ends: Annotated[
        Counts, Input("index after the last token of each reasoning step, ascending", "list", ge=1, le=MAX_TOKENS)
    ]
    ref_token_probs: Annotated[
        Numbers,
        Input("probability of each token of the reference answer after this rollout's reasoning", "list", **_SHARE),
    ]
    token_ids: Annotated[Counts, Input("generated token ids", "list", **_COUNT)]
    embedding: Annotated[Numbers, Input("embedding of the rollout's reasoning", "vector", ge=-1e6, le=1e6)]


class Group(TypedDict, total=False):
    """The rollouts of one prompt, and what they have in common."""

    group_id: Annotated[str, Input("default: the group's index", length=(1, 256))]
    kind: Annotated[Kind | None, Input("how answers are compared; default math")]
    options: Annotated[Options, Input("kind=choice: letters or their number; default A-J")]
    prompt: Annotated[Text, Input("what was asked: tells which of several questions a text answers", sent=False)]
    label: Annotated[Texts, Input("right answer, or a list of accepted ones, for diagnostics only (and method gt)")]
    label_conflict: Annotated[
        Flag, Input("true: the rollouts' labels contradict each other, so the group has none; gt refuses it")
    ]
    group_size: Annotated[
        Count,
        Input(
            "rollouts that the group should have: it is scored if more than half are there (flag partial), else all "
            "its rewards are equal (flag neutral)",
            ge=1,
            le=MAX_TOKENS,
        ),
    ]
    reference: Annotated[Text, Input("for methods that need a reference answer", seen=True)]
    prompt_weight: Annotated[Number, Input("weight of the prompt, for methods that take one", ge=0, le=1e6, seen=True)]
    entropy_source: Annotated[Source | None, Input("how entropies were made; default exact")]
    entropy_mode: Annotated[Mode | None, Input("the distribution whose entropies these are")]
    logprobs_mode: Annotated[
        LogprobsMode | None, Input("the distribution that log-probabilities come from, in vLLM's words")
    ]
    temperature: Annotated[Number, Input("temperature that the rollouts were sampled at", ge=0, le=1e3)]
    top_p: Annotated[Number, Input("top-p that they were sampled with", ge=0, le=1)]
    rollouts: Required[Annotated[Sequence[Rollout], Input("")]]
    second_group: Annotated[Sequence[AnsweredRollout] | None, Input("rollouts of a paraphrase, for paired methods")]
    teacher_group: Annotated[Sequence[AnsweredRollout] | None, Input("rollouts of a teacher, for co_rewarding_2")]
    meta: Annotated[Mapping[str, Any] | None, _META]


# --- the declarations, for those who make something of them ---------------------------------------------------------

# What other tools call these keys: a file may use such names, a request over HTTP may not.
OTHER_NAMES: Final[Mapping[str, str]] = MappingProxyType({
    "group_id": "prompt_id uid question_id problem_id task_id request_id custom_id idx id",
    "prompt": "question problem query input prompts messages",
    "label": "ground_truth gold gold_answer target gts gt reference_answer expected_answer",
    "group_size": "num_generations n_samples_per_prompt",
    "rollouts": "responses completions outputs samples generations candidates",
    "text": "completion response output generation output_text generated_text content message",
    "finish_reason": "stop_reason finish finish_reasons",
    "correct": "is_correct",
    "mean_entropy": "entropy avg_entropy average_entropy",
    "num_tokens": "completion_tokens response_length output_length",
    "sum_logprob": "cumulative_logprob",
    "token_entropies": "entropies token_entropy",
    "token_mask": "loss_mask response_mask action_mask completion_mask",
    "token_logprobs": "logprobs log_probs output_logprobs",
    "token_offsets": "offset_mapping",
    "token_ids": "completion_ids response_ids output_ids",
})  # fmt: skip

# What a key's hint is called, or else the first thing that it is made of.
_TYPES: Final[Mapping[Any, Type]] = MappingProxyType({
    Texts: "texts", Options: "options", Mapping[str, Any]: "object",
    str: "text", bool: "bool", float: "float", int: "int", Rollout: "rollouts", AnsweredRollout: "rollouts",
})  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Field(Input):
    """One input: a key of `Group` or `Rollout`, and what its annotation says.

    Numbers are finite and within [ge, le]; a scalar or vector may be missing, a list's element not. `nullable`: null is
    as good as no key.
    """

    name: str
    type: Type
    choices: tuple[str, ...] = ()
    nullable: bool = True
    required: bool = False

    @cached_property
    def other_names(self) -> tuple[str, ...]:
        """What other tools call it."""
        return tuple(OTHER_NAMES.get(self.name, "").split())

    @cached_property
    def bounds(self) -> tuple[float, float]:
        """The range of each number."""
        return -np.inf if self.ge is None else self.ge, np.inf if self.le is None else self.le

    @cached_property
    def rule(self) -> str:
        """What a value, or each of its entries, must be."""
        if self.type == "text" and self.length:
            return f"a string of {self.length[0]} to {self.length[1]} characters"
        nouns: Mapping[Type, str] = {
            "float": "a finite number",
            "int": "an integer",
            "bool": "true or false",
            "text": "a string",
            "texts": f"a string or a list of 1 to {ACCEPTED:,} strings",
            "choice": f"one of {', '.join(self.choices)}",
            "object": "an object",
            "rollouts": "a list of at least one rollout",
            "options": "a list of letters or their number",
        }
        low = "" if self.ge is None else f" >= {self.ge:.10g}"
        high = "" if self.le is None else f"{' and' if low else ''} <= {self.le:.10g}"
        return nouns[self.type] + low + high

    @property
    def is_array(self) -> bool:
        """It holds numbers: a column over rollouts, a tensor of a frame."""
        return self.type in {"float", "int"} or (self.type == "bool" and self.ragged)

    @property
    def per_token(self) -> bool:
        return self.shape in {"tokens", "matrix"}

    @cached_property
    def ragged(self) -> bool:
        return self.shape in {"tokens", "matrix", "list"}

    @property
    def unit(self) -> str:
        """What one entry of the input is for."""
        return {
            "scalar": "rollout",
            "tokens": "token",
            "matrix": "token, k of each",
            "list": "entry",
            "vector": "component",
        }[self.shape]


def _read(declaration: type) -> Mapping[str, Field]:
    """The fields of a typed dictionary, in order."""
    required = declaration.__required_keys__  # type: ignore[attr-defined]
    hints = get_type_hints(declaration, include_extras=True)
    return MappingProxyType({name: _field(name, hint, name in required) for name, hint in hints.items()})


def _field(name: str, hint: Any, required: bool) -> Field:
    if required:
        (hint,) = get_args(hint)
    declared, said = get_args(hint)
    members = get_args(declared)
    choices = get_args(next((m for m in (declared, *members) if get_origin(m) is Literal), None))
    return Field(
        **vars(said),
        name=name,
        type="choice" if choices else _type(declared),
        choices=choices,
        nullable=type(None) in members,
        required=required,
    )


def _type(hint: Any) -> Type:
    return _TYPES[hint] if hint in _TYPES else _type(get_args(hint)[0])


KINDS: Final = get_args(Kind)
GROUP_FIELDS: Final = _read(Group)
ROLLOUT_FIELDS: Final = _read(Rollout)
ANSWERED_FIELDS: Final = _read(AnsweredRollout)
# The inputs of a rollout that hold numbers.
FIELDS: Final[Mapping[str, Field]] = MappingProxyType({n: f for n, f in ROLLOUT_FIELDS.items() if f.is_array})


def unknown_field(name: str, known: Collection[str]) -> str:
    """A message for a key that is none of `known`: what other tools mean by it, or the likeliest ones meant."""
    for field in (*GROUP_FIELDS.values(), *ROLLOUT_FIELDS.values()):
        # `answer` of a group is its label; beside a rollout's text a file's `answer` is read as the label too.
        also = (*field.other_names, "answer") if field.name == "label" else field.other_names
        if field.name in known and (name in also or f"{name}s" in also):
            return f"unknown field {name!r}. Did you mean {field.name}?"
    return unknown_name("field", name, known)
