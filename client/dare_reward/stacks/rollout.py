"""A rollout as stacks have it, made into one that the client takes: the one reader of all adapters and recipes.

Stacks disagree about everything: masks are truth values, 0 and 1 or floats, in lists, NumPy or torch, flat or one list
a turn; a token without a number is NaN, None, -inf or -9999; a text holds what tools said. Here they become one form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ..answers import Kind, Span, answer_span, outside_span, span_tokens
from ..answers.classes import Labels
from ..answers.labels import content_of_label
from ..errors import RequestError
from ..inputs import ACCEPTED, FIELDS, MAX_ENTROPY, Group
from ..membership import Member, gather, label_text
from ..messages import asked_text
from ..openrlhf import AnswerRules, Label
from ..scoring.request import LIMITS
from .report import say_once

JSON = Mapping[str, Any]
ROUNDING: Final = 1e-3  # nats that a log-probability may be above 0, and an entropy below it
# What a number of one token is at least and at most. A sampled token of probability exp(-1000) was never sampled:
# -9999 is what vLLM's API writes for -inf, None and NaN.
NUMBERS: Final[Mapping[str, tuple[float, float]]] = {
    "token_entropies": (-ROUNDING, MAX_ENTROPY),
    "token_self_certainty": (-ROUNDING, MAX_ENTROPY),
    "token_logprobs": (-MAX_ENTROPY, ROUNDING),
    "topk_logprobs": (-np.inf, ROUNDING),
}
ENTROPIES: Final = frozenset({"token_entropies", "mean_entropy"})
PLACES: Final = ("answer_tokens", "step_ends", "token_offsets")  # they move where tokens before them are left out
READ: Final = frozenset({*NUMBERS, *PLACES, "logprobs", "token_mask", "token_ids"})


def read_rollout(given: JSON, *, tokenizer: Any = None, rules: AnswerRules | None = None) -> dict[str, Any]:
    """The rollout with what its policy generated, and nothing else; reading it again changes nothing.

    Args:
        given: the keys of `dare_reward.Rollout`, and `logprobs` for `token_logprobs`; None is as good as no key, but
            `answer=None` is a rollout that does not vote. `text` is what the policy said last; where it is missing it
            is decoded from `token_ids`, of which `token_mask` names those that the policy generated
        tokenizer: of `token_ids`; to decode them, and to find the answer's tokens
        rules: by which the run reads answers, where the method's certainty is over the answer's tokens

    A token without a number is masked, and a rollout without any number has no entropy.

    Raises:
        RequestError: what should have one entry for each token has not, or a mask holds more than 0 and 1.
    """
    row = {k: v for k, v in given.items() if k not in READ and (v is not None or k == "answer")}
    row = {k: v for k, v in row.items() if k not in FIELDS or FIELDS[k].shape != "scalar"} | _scalars(row)
    tokens = _Tokens.of(given)
    said = tokens.last_said
    if tokenizer is not None and len(said) and not row.keys() & {"text", "answer"}:
        row["text"] = tokenizer.decode(said.tolist(), skip_special_tokens=True)
    places = dict(tokens.places)
    if rules is not None and tokenizer is not None and len(said) and row.get("text") and "answer_tokens" not in places:
        span, _ = answer_tokens(row, said.tolist(), tokenizer=tokenizer, rules=rules)
        places |= {} if span is None else {"answer_tokens": [tokens.stretch.start + n for n in span]}
    columns, numbered = _with_numbers(tokens.columns, tokens.own)
    if not numbered.all():
        follows = {"num_tokens", *(t for name in tokens.columns for t in (FIELDS[name].gives or ())[:1])}
        row = {k: v for k, v in row.items() if k not in follows}
        row |= {} if columns else {"num_tokens": int(tokens.own.sum())}
        places = {name: _moved(name, value, numbered) for name, value in places.items()}
    row |= {"token_ids": tokens.own_ids} if len(tokens.own_ids) else {}
    return row | columns | {k: v for k, v in places.items() if columns and len(v)}


def group(
    group_id: str,
    rollouts: Sequence[JSON],
    *,
    tokenizer: Any = None,
    rules: AnswerRules | None = None,
    labels: Sequence[Labels | None] = (),
    kind: Kind = "math",
    size: int | None = None,
    **more: Any,
) -> Group:
    """One group of the request, its entropies from one source.

    Args:
        group_id: the group's name in the request
        rollouts: as `read_rollout` takes them; `tokenizer` and `rules` are its own
        labels: of the rollouts, as `label_of` reads them; those that contradict each other are no label
        kind: by which labels are compared
        size: rollouts that the group was to have
        more: further keys of `dare_reward.Group`

    Entropies of the full vocabulary are exact. Where more of the rollouts that may vote have log-probabilities of their
    sampled tokens, -log p takes the place of each token's entropy, an unbiased estimate that is labelled `logprob`. A
    rollout that has neither has no entropy, which `missing_entropy` decides about.
    """
    rows = [read_rollout(r, tokenizer=tokenizer, rules=rules) for r in rollouts]
    voting = [r for r in rows if r.get("answer", "") is not None]  # one that was aborted was given without an answer
    source = {}
    if sum("token_logprobs" in r for r in voting) > sum(not r.keys().isdisjoint(ENTROPIES) for r in voting):
        source["entropy_source"] = "logprob"
        rows = [_estimated(r) for r in rows]
    own: dict[str, Any] = {}
    if any(labels) or size is not None:
        said = [*labels, *[None] * (len(rows) - len(labels))]
        members = [Member(r, key=group_id, kind=kind, label=x, size=size) for r, x in zip(rows, said, strict=True)]
        own = gather(members)[0].fields()
    fields = {k: v for k, v in (own | more).items() if v is not None and k != "kind"}
    return cast("Group", {"group_id": group_id, **source, **fields, "rollouts": rows})


def label_of(value: Any, kind: Kind = "math") -> Labels | None:
    """A data set's label: a text or a number, an object that holds one, or a list of those that are right.

    Of the kind choice an integer is the index of the option, from 0 on, as data sets write it. None for anything else,
    and for more labels than a prompt may have.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    value = content_of_label(value) if isinstance(value, Mapping) else value
    value = value.tolist() if hasattr(value, "tolist") else value
    several = value if isinstance(value, list | tuple) else [value]
    texts = [_label(v, kind) for v in several if isinstance(v, str | Real) and v == v]  # noqa: PLR0124
    texts = [text for text in texts if text.strip()]
    if len(texts) > ACCEPTED:  # the request would be refused, and the run would end
        say_once(f"a prompt with {len(texts):,} labels has none: at most {ACCEPTED:,} are accepted. Shorten its list")
        return None
    return texts if len(texts) > 1 else next(iter(texts), None)


def prompt_text(prompt: Any) -> str | None:
    """The text of a prompt, or of its messages, as far as a request may hold it.

    Answers are read by it, and the client's run log holds it if asked for.
    """
    return asked_text(prompt)[-LIMITS.text :] or None


def own_stretch(mask: Any) -> slice:
    """Where in a response its policy spoke last: the last run of tokens that the mask names."""
    own = _mask(mask)
    return slice(0, 0) if own is None else slice(*_last_stretch(own))


@dataclass(frozen=True, slots=True, eq=False)
class _Tokens:
    """The tokens of a response: numbers by column, places among them, and which of them the policy generated.

    There may be other ids than numbers (an engine that adds an end token) where no mask tells them apart.
    """

    ids: NDArray[Any]
    columns: Mapping[str, NDArray[Any]]
    places: Mapping[str, Any]
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, given: JSON) -> _Tokens:
        columns = {name: column for name in NUMBERS if (column := _numbers(name, given)) is not None}
        ids, mask = _joined(given.get("token_ids"), np.int64), _mask(given.get("token_mask"))
        ids = np.zeros(0, np.int64) if ids is None else ids
        places = {k: given[k] for k in PLACES if given.get(k) is not None}
        if wrong := [k for k, v in places.items() if not hasattr(v, "__len__")]:
            raise RequestError(f"{wrong[0]} of a rollout must be a list: {FIELDS[wrong[0]].doc}", code="type")
        counts = {} if mask is None else {"token_mask": len(mask)}
        counts |= {name: len(column) for name, column in columns.items()}
        counts |= {name: len(value) for name, value in places.items() if name == "token_offsets"}
        if mask is not None and not mask.all() and len(ids):
            counts["token_ids"] = len(ids)
        for (one, count), (other, another) in pairwise(counts.items()):
            if count != another:
                raise RequestError(
                    f"a rollout has {count} entries of {one} and {another} of {other}: pass one for each token of its "
                    "response",
                    code="length",
                )
        own = np.ones(next(iter(counts.values()), len(ids)), bool) if mask is None else mask
        return cls(ids, columns, places, own)

    @property
    def stretch(self) -> slice:
        """Where the policy spoke last."""
        return slice(*_last_stretch(self.own))

    @property
    def last_said(self) -> NDArray[Any]:
        return self.ids if self.own.all() else self.ids[self.stretch]

    @property
    def own_ids(self) -> NDArray[Any]:
        return self.ids if self.own.all() or not len(self.ids) else self.ids[self.own]


# --- parts ----------------------------------------------------------------------------------------------------------


def _label(value: Any, kind: Kind) -> str:
    try:
        return label_text(value, kind)
    except RequestError as error:  # which is no reason to end the run
        say_once(f"a label is none: {error.message}")
        return ""


def _scalars(row: JSON) -> dict[str, Any]:
    """The numbers of a whole rollout; those that are none, or out of range, are left out."""
    out = {}
    for name, value in row.items():
        if name not in FIELDS or FIELDS[name].shape != "scalar":
            continue
        number, field = _number(value), FIELDS[name]
        number = 0.0 if field.ge == 0 and -ROUNDING <= number < 0 else number
        good = field.ge is None or number >= field.ge
        if np.isfinite(number) and good and (field.le is None or number <= field.le):
            out[name] = int(number) if field.type == "int" else number
        else:
            say_once(f"{name} of a rollout is no number that it can be: it is left out")
    return out


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _numbers(name: str, given: JSON) -> NDArray[Any] | None:
    """A column of numbers, one entry or one row of them a token; None where there is none."""
    value = given.get(name)
    if name == "token_logprobs" and value is None:
        value = given.get("logprobs")
    try:
        column = _joined(value, np.float64, rows=name == "topk_logprobs")
    except RequestError:
        say_once(f"{name} of a rollout is not one number for each token: it is left out")
        return None
    return column if column is not None and column.size else None


def _joined(value: Any, dtype: Any, *, rows: bool = False, turns: bool = True) -> NDArray[Any] | None:
    """One array over the tokens of all turns, from lists, NumPy or torch; None where there is none."""
    if value is None:
        return None
    if hasattr(value, "detach"):  # torch, whose bfloat16 and gradients NumPy does not take
        value = value.detach().cpu()
        value = (value.float() if value.is_floating_point() else value).numpy()
    if isinstance(value, np.ndarray) and value.dtype == np.float32 and dtype is np.float64:
        dtype = np.float32
    try:
        column = np.asarray(value, dtype)
    except (TypeError, ValueError, OverflowError):  # turns of different lengths, or no numbers
        column = np.zeros(())
    if column.ndim == 1 + rows or (not column.size and column.ndim == 1):
        return column
    table = isinstance(value, np.ndarray) and not rows and column.ndim == 2 and min(column.shape) > 1
    if table or not turns or not isinstance(value, Sequence | np.ndarray) or isinstance(value, str):
        raise RequestError("must be one number for each token", code="type")
    read = (_joined(turn, dtype, rows=rows, turns=False) for turn in value)
    parts = [part for part in read if part is not None and len(part)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype)


def _mask(value: Any) -> NDArray[np.bool_] | None:
    """A mask as truth values, from these or from 0 and 1 of any type."""
    mask = _joined(value, np.float64)
    if mask is None:
        return None
    if not np.isin(mask, (0, 1)).all():
        raise RequestError("token_mask: must be one truth value, or 0 or 1, for each token", code="type")
    return mask.astype(bool)


def _last_stretch(own: NDArray[np.bool_]) -> tuple[int, int]:
    """[first, last) of the last run of True."""
    if not own.any():
        return 0, 0
    last = len(own) - int(np.argmax(own[::-1]))
    before = np.flatnonzero(~own[:last])
    return (int(before[-1]) + 1 if len(before) else 0), last


def _moved(name: str, value: Any, own: NDArray[np.bool_]) -> Any:
    """Places of tokens, counted among the policy's own."""
    if name == "token_offsets":
        return np.asarray(value)[own]
    before = np.concatenate([[0], np.cumsum(own)])
    places = [int(before[min(int(i), len(own))]) for i in value]
    if name == "answer_tokens":
        return places if places[:1] < places[1:] else []
    return sorted({place for place in places if place})


def _with_numbers(
    columns: Mapping[str, NDArray[Any]], own: NDArray[np.bool_]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]:
    """The columns of the policy's tokens that have a number in each, and which tokens these are.

    A column without any number is no column.
    """
    kept, numbered = {}, own
    for name, column in columns.items():
        low, high = NUMBERS[name]
        good = (column >= low) & (column <= high)
        good = np.asarray(good if good.ndim == 1 else good.all(axis=1))
        if not good[own].all():
            say_once("tokens without a number (NaN, None, -inf, -9999, or out of its range) are masked")
        if (good & own).any():
            kept[name], numbered = column, numbered & good
    kept = {
        name: np.clip(column[numbered], FIELDS[name].ge, FIELDS[name].le)
        for name, column in kept.items()
        if numbered.any()
    }
    return kept, numbered


def _estimated(row: JSON) -> dict[str, Any]:
    """-log p of each sampled token in place of its entropy."""
    out = {k: v for k, v in row.items() if k not in ENTROPIES}
    logprobs = row.get("token_logprobs")
    return out if logprobs is None else out | {"token_entropies": np.maximum(-logprobs, 0.0)}


# --- which tokens the final answer stands in --------------------------------------------------------------------------
#
# For `over=answer`, whose entropies these are, and for `train_on=reasoning`, where they are trained neither by the loss
# nor by its KL term (OM-GRPO, arXiv:2608.03119).

NO_LABEL = Label()


def answer_tokens(
    rollout: Mapping[str, Any], ids: Sequence[int], *, tokenizer: Any, rules: AnswerRules, label: Label = NO_LABEL
) -> tuple[Span | None, bool]:
    """[first, last) of the generated tokens `ids` that share a character with the answer as the run reads it, and
    whether there is an answer whose tokens cannot be told.

    `rollout` has the `text` that `ids` decode to without special tokens; a stop string may be cut off its end.
    """
    text = rollout["text"]

    def read(part: str) -> str | None:
        return rules.read({**rollout, "text": part}, label)

    span = answer_span(text, read)
    tokens = None if span is None else _tokens(text, ids, span, tokenizer)
    return tokens, tokens is None and (span is not None or bool(read(text)))


def outside_answer(
    rollout: Mapping[str, Any], ids: Sequence[int], *, tokenizer: Any, rules: AnswerRules
) -> tuple[list[bool], bool]:
    """Which of the generated tokens `ids` to train: without an answer, and without its place, every one. And whether
    there is an answer whose tokens cannot be told."""
    span, lost = answer_tokens(rollout, ids, tokenizer=tokenizer, rules=rules)
    first, last = span or (0, 0)
    return [not first <= k < last for k in range(len(ids))], lost


def _tokens(text: str, ids: Sequence[int], span: Span, tokenizer: Any) -> Span | None:
    """By the tokenizer's offsets, if it writes the text in the very tokens that were generated; else by decoding."""
    special = set(getattr(tokenizer, "all_special_ids", ()))
    ordinary = [k for k, token in enumerate(ids) if token not in special]
    if getattr(tokenizer, "is_fast", False):
        again = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        if list(again["input_ids"]) == [ids[k] for k in ordinary]:
            outside = outside_span(again["offset_mapping"], span)
            inside = [k for k, out in zip(ordinary, outside, strict=True) if not out]
            return (inside[0], inside[-1] + 1) if inside else None
    return span_tokens(text, ids, lambda some: tokenizer.decode(some, skip_special_tokens=True), span)
