"""The answers of a group's rollouts: as given, or read from their texts by the parameters of a request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, Final, Literal

import numpy as np

from ..errors import RequestError
from ..params import Param, parameters
from ..segments import Bools
from .choices import option_letters
from .classes import classify
from .extraction.final_answer import EMPTY, WHY_NONE, Asked, Extraction, Unmarked, read
from .kinds import Kind
from .spans import Span, answer_span

JSON = Mapping[str, Any]
# Parts of a reply's content by their type, as OpenAI's two APIs and engines write them.
SPOKEN: Final = frozenset({"text", "output_text"})
UNSPOKEN: Final = frozenset({"reasoning", "thinking", "redacted_thinking", "refusal", "image"})
# How engines and APIs say that a text did not end by itself.
UNFINISHED: Final = frozenset({"length", "max_tokens", "max_new_tokens", "model_length", "abort", "content_filter"})
MOST: Final = 32_000_000  # characters of texts
NO_ANSWER: Final = Extraction(None, "none", EMPTY)


class Readings:
    """What the texts of a command say, or of a request that asks twice, so that each is read once.

    `most`: the characters of texts that are kept, after which the oldest half is forgotten.
    """

    def __init__(self, most: int = MOST) -> None:
        self._half, self._size = most // 2, 0
        self._new: dict[Asked, dict[str, Extraction]] = {}
        self._old: dict[Asked, dict[str, Extraction]] = {}

    def forget(self) -> None:
        """Nothing of what was read is asked again."""
        self._size, self._new, self._old = 0, {}, {}

    def reader(self, asked: Asked) -> Callable[[str], Extraction]:
        """What reads the texts of a group as they are to be read."""
        if self._size > self._half:
            self._old, self._new, self._size = self._new, {}, 0
        new, old = self._new.setdefault(asked, {}), self._old.get(asked, {})

        def of(text: str) -> Extraction:
            found = new.get(text) or old.get(text)
            if found is None:
                found = new[text] = read(text, asked)
                self._size += len(text)
            return found

        return of


def kind_of(group: JSON) -> Kind:
    kind: Kind = group.get("kind") or "math"
    return kind


def option_tuple(group: JSON) -> tuple[str, ...] | None:
    """The letters that a choice group's answers may be; None for another kind."""
    return option_letters(group.get("options")) if group.get("kind") == "choice" else None


def asked_of(group: JSON) -> dict[str, Any]:
    """What a group says of its question, as arguments of `read_answers`."""
    return {"kind": kind_of(group), "options": option_tuple(group), "prompt": group.get("prompt")}


def read_answers(
    rollouts: Sequence[JSON],
    silent: Sequence[bool],
    *,
    kind: Kind = "math",
    options: Sequence[str] | None = None,
    prompt: str | None = None,
    truncated: Annotated[
        Literal["boxed", "as_is", "invalid"],
        Param(
            "a rollout that was cut off votes by a closed box or given answer (boxed), by anything extracted "
            "(as_is), or not at all (invalid)",
            source="ours",
        ),
    ] = "boxed",
    unmarked: Annotated[
        Unmarked,
        Param(
            "a text that announces no answer votes, if it was not cut off, for the one value that its last sentence "
            "states or, of kind text, the one short line that it is (sentence); for nothing (none); or for its last "
            "number or choice letter (number, flagged guessed_answer)",
            source="ours",
        ),
    ] = "sentence",
    open_think: Annotated[bool, Param("also read a text whose <think> block is not closed")] = False,
    readings: Readings | None = None,
) -> list[Extraction]:
    """The raw answer of each rollout and where it stood: as given, or extracted from its text.

    A rollout that generated no token has no answer. `readings`: what was read before, if these are not all texts.
    """
    prompt = prompt if prompt is None or prompt.isascii() else mended(prompt)
    whole = Asked(kind, options and tuple(options), unmarked=unmarked, open_think=open_think, prompt=prompt)
    cut_off = whole._replace(  # of a text that was cut off no last sentence is sure
        closed_only=truncated == "boxed", unmarked="none" if unmarked == "sentence" else unmarked
    )
    readers = [partial(read, asked=a) if readings is None else readings.reader(a) for a in (whole, cut_off)]
    found: list[Extraction] = []
    for rollout, quiet in zip(rollouts, silent, strict=True):
        end = rollout.get("finish_reason")
        cut = end is not None and str(end).casefold() in UNFINISHED
        if quiet or (cut and truncated == "invalid"):
            found.append(NO_ANSWER)
        elif "answer" in rollout:
            given = text_of(rollout["answer"])
            found.append(Extraction(given, "given", why_none(given)))
        else:
            text = rollout.get("text")
            if not isinstance(text, str):
                text = spoken(text)
            if not text:
                found.append(NO_ANSWER)
                continue
            found.append(readers[cut](text if text.isascii() else mended(text)))
    return found


def spoken(content: Any) -> Any:
    """The text of a reply: the parts of its content joined, without reasoning; anything but parts as it is.

    RequestError names a part that is no text.
    """
    if not isinstance(content, list | tuple):
        return content
    return "".join(map(_part, content))


def _part(part: Any) -> str:
    """What one part of a reply's content says."""
    if not isinstance(part, Mapping):
        raise RequestError("must be a string, or parts {type: text, text: ...}", code="type")
    kind, text = str(part.get("type", "text"))[:64], part.get("text")
    if kind in UNSPOKEN:
        return ""
    if kind in SPOKEN and isinstance(text, str):
        return text
    message = f"a part of its content is {kind!r}, no text. Send a string, or parts {{type: text, text: ...}}"
    raise RequestError(message, code="content")


def written(content: Any) -> str:
    """The text of a prompt's message, whose content may be parts; images and other parts are left out."""
    if not isinstance(content, list | tuple):
        return content if isinstance(content, str) else ""
    parts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "".join(part for part in parts if isinstance(part, str))


def text_of(answer: str | float | np.number[Any] | None) -> str | None:
    """An answer as it was sent, where a number stands for its text."""
    if isinstance(answer, int | float | np.number):
        return number_text(answer)
    return answer if answer is None or answer.isascii() else mended(answer)


def mended(text: str) -> str:
    """The text as any JSON would bring it: half of a pair of surrogates is U+FFFD, a whole pair its character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def number_text(value: Any) -> str:
    """4 for 4.0: JSON's writers differ in this, and answers of kind text compare characters."""
    return str(int(value)) if isinstance(value, float | np.floating) and value.is_integer() else str(value)


def why_none(answer: str | None) -> str:
    """The reason of a given answer that turns out to be none."""
    return "blank" if answer else EMPTY


@dataclass(slots=True)
class Unanswered:
    """How many rollouts have no answer and why, over groups: what to look at when most rewards are 0."""

    rollouts: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, rollouts: int, no_answer: Mapping[str, int] | None) -> None:
        """A group of so many rollouts; `no_answer` counts reasons, as in the diagnostics of a reply."""
        self.rollouts += rollouts
        self.reasons.update(no_answer or {})

    @property
    def count(self) -> int:
        """Rollouts without an answer."""
        return self.reasons.total()

    @property
    def most(self) -> bool:
        """Whether more than half of the rollouts have none."""
        return 2 * self.count > self.rollouts

    @property
    def why(self) -> str:
        """The commonest reason in brackets, or nothing."""
        common = self.reasons.most_common(1)
        return f" (mostly: {WHY_NONE[common[0][0]]})" if common and common[0][0] in WHY_NONE else ""

    def __str__(self) -> str:
        """`29 of 640 rollouts without an answer (mostly: it hit its length limit before it closed a box)`."""
        return f"{self.count:,} of {self.rollouts:,} rollouts without an answer{self.why}"


def read_spans(
    groups: Sequence[JSON], silent_R: Bools, before_each: Callable[[], None], reading: Mapping[str, Any]
) -> list[list[Span | None]]:
    """[start, end) of each rollout's answer in its text, None where there is no text that it is read from.

    `silent_R` marks rollouts without a token; `reading` holds the parameters of `read_answers` that a request sets.
    `before_each` may raise where the request may cost no more.
    """
    silent = iter(silent_R.tolist())

    def span(rollout: JSON, group: JSON) -> Span | None:
        if next(silent) or "answer" in rollout or not (said := spoken(rollout.get("text"))):
            return None
        before_each()

        def read(text: str) -> str | None:
            (found,) = read_answers([{**rollout, "text": text}], [False], **asked_of(group), **reading)
            return found.answer

        return answer_span(said, read)

    return [[span(rollout, group) for rollout in group["rollouts"]] for group in groups]


# Keyword parameters of both functions that a group, not a request, sets.
_PER_GROUP: Final = frozenset({"kind", "options", "prompt", "readings"})
READING: Final = frozenset(s.name for s in parameters(read_answers, skip=_PER_GROUP))
ANSWER_SPECS: Final = tuple(s for f in (read_answers, classify) for s in parameters(f, skip=_PER_GROUP))
