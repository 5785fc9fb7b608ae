"""A rollout as stacks have it, made into one that the client takes: the one reader of all adapters and recipes.

Stacks disagree about everything: masks are truth values, 0 and 1 or floats, in lists, NumPy or torch, flat or one list
a turn; a token without a number is NaN, None, -inf or -9999; a text holds what tools said. Here they become one form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from numbers import Real
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from ..answers import Kind, Span, answer_span, outside_span, span_tokens
from ..answers.classes import Labels
from ..answers.labels import content_of_label
from ..errors import RequestError
from ..inputs import ACCEPTED, FIELDS, MAX_ENTROPY
from ..membership import label_text
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
PLACES: Final = ("answer_tokens", "step_ends", "token_offsets")  # they move where tokens before them are left out
SCALARS: Final = frozenset(name for name, field in FIELDS.items() if field.shape == "scalar")
READ: Final = frozenset({*NUMBERS, *PLACES, *SCALARS, "logprobs", "token_mask", "token_ids"})


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
    row = {k: v for k, v in given.items() if k not in READ and (v is not None or k == "answer")} | _scalars(given)
    ids, columns, places, own = _aligned(given)
    stretch = own_stretch(own)
    said = ids if own.all() else ids[stretch]
    if tokenizer is not None and len(said) and not row.keys() & {"text", "answer"}:
        row["text"] = tokenizer.decode(said.tolist(), skip_special_tokens=True)
    if rules is not None and tokenizer is not None and len(said) and row.get("text") and "answer_tokens" not in places:
        span, _ = answer_tokens(row, said.tolist(), tokenizer=tokenizer, rules=rules)
        places |= {} if span is None else {"answer_tokens": [stretch.start + n for n in span]}
    kept, numbered = _with_numbers(columns, own)
    if not numbered.all():
        follows = {"num_tokens", *(t for name in columns for t in (FIELDS[name].gives or ())[:1])}
        row = {k: v for k, v in row.items() if k not in follows}
        row |= {} if kept else {"num_tokens": int(own.sum())}
        places = {name: _moved(name, value, numbered) for name, value in places.items()}
    own_ids = ids if own.all() or not len(ids) else ids[own]
    row |= {"token_ids": own_ids} if len(own_ids) else {}
    return row | kept | {k: v for k, v in places.items() if kept and len(v)}


def label_of(value: Any, kind: Kind = "math") -> Labels | None:
    """A data set's label: a text or a number, an object that holds one, or a list of those that are right.

    Of the kind choice an integer is the index of the option, from 0 on, as data sets write it. None for anything else,
    and for more labels than a prompt may have.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    value = content_of_label(value) if isinstance(value, Mapping) else value
    value = value.tolist() if hasattr(value, "tolist") else value
    texts = list[str]()
    for one in value if isinstance(value, list | tuple) else [value]:
        if isinstance(one, str | Real) and one == one:  # noqa: PLR0124
            try:
                texts.append(label_text(cast("str | float", one), kind))
            except RequestError as error:  # which is no reason to end the run
                say_once(f"a label is none: {error.message}")
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
    if own is None or not own.any():
        return slice(0, 0)
    last = len(own) - int(np.argmax(own[::-1]))
    before = np.flatnonzero(~own[:last])
    return slice(int(before[-1]) + 1 if len(before) else 0, last)


# --- parts ----------------------------------------------------------------------------------------------------------


def _scalars(given: JSON) -> dict[str, Any]:
    """The numbers of a whole rollout; those that are none, or out of range, are left out."""
    out = {}
    for name in (name for name, value in given.items() if name in SCALARS and value is not None):
        field, number = FIELDS[name], np.nan
        with suppress(TypeError, ValueError):
            number = float(given[name])
        low, high = field.bounds
        number = 0.0 if low == 0 and -ROUNDING <= number < 0 else number
        if np.isfinite(number) and low <= number <= high:
            out[name] = int(number) if field.type == "int" else number
        else:
            say_once(f"{name} of a rollout is no number that it can be: it is left out")
    return out


def _aligned(given: JSON) -> tuple[NDArray[Any], dict[str, NDArray[Any]], dict[str, Any], NDArray[np.bool_]]:
    """The tokens of a response, their numbers by column, places among them, and which of them the policy generated.

    There may be other ids than numbers (an engine that adds an end token) where no mask tells them apart.
    """
    columns = {name: column for name in NUMBERS if (column := _numbers(name, given)) is not None}
    ids, mask = _joined(given.get("token_ids"), np.int64), _mask(given.get("token_mask"))
    ids = np.zeros(0, np.int64) if ids is None else ids
    places = {k: given[k] for k in PLACES if given.get(k) is not None}
    if wrong := [k for k, v in places.items() if not hasattr(v, "__len__")]:
        raise RequestError(f"{wrong[0]} of a rollout must be a list: {FIELDS[wrong[0]].doc}", code="type")
    entries = {"token_mask": mask, **columns, "token_offsets": places.get("token_offsets")}
    entries["token_ids"] = ids if mask is not None and not mask.all() and len(ids) else None
    counts = {name: len(value) for name, value in entries.items() if value is not None}
    for (one, count), (other, another) in pairwise(counts.items()):
        if count != another:
            raise RequestError(
                f"a rollout has {count} entries of {one} and {another} of {other}: pass one for each token of its "
                "response",
                code="length",
            )
    return ids, columns, places, np.ones(next(iter(counts.values()), len(ids)), bool) if mask is None else mask


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
    kept, numbered = list[str](), own
    for name, column in columns.items():
        low, high = NUMBERS[name]
        good = np.asarray(((column >= low) & (column <= high)).reshape(len(column), -1).all(axis=1))
        if not good[own].all():
            say_once("tokens without a number (NaN, None, -inf, -9999, or out of its range) are masked")
        if (good & own).any():
            kept.append(name)
            numbered = numbered & good
    some = kept if numbered.any() else ()
    return {name: np.clip(columns[name][numbered], FIELDS[name].ge, FIELDS[name].le) for name in some}, numbered


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
