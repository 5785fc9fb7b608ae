"""Questions from local files, of a benchmark or your own: labels, options, and the prompt that asks them."""

from __future__ import annotations

import csv
import io
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from dare_reward.answers import Kind, option_letters
from dare_reward.answers.labels import read_label, read_labels
from dare_reward.errors import ConfigError, RequestError
from dare_reward.files.content import open_records
from dare_reward.files.output import opened
from dare_reward.files.shapes import GROUP_NAMES, of_verl, prompt_texts
from dare_reward.inputs import KINDS
from dare_reward.ledger import Ledger
from dare_reward.membership import Member, gather, label_text
from dare_reward.messages import ASSISTANT, asked_text, is_messages

JSON = Mapping[str, Any]
Fields = Mapping[str, Sequence[str]]  # the names, in order of trial, of each thing that a question needs
INSTRUCTION: Final = "\nPlease reason step by step, and put {what} within \\boxed{{}}."
# Where a set of your own keeps what a question needs, in lower case.
OWN: Final[Fields] = {
    "question": ("prompt", *GROUP_NAMES["prompt"]),
    "answer": ("label", "answer", *GROUP_NAMES["label"], "solution", "answerkey"),
    "options": ("options", "choices"),
    "id": ("id", "unique_id", "question_id", "record id"),
    "own": ("kind", "accepted", "asked", "reward_model"),
}


@dataclass(frozen=True, slots=True)
class LabelledQuestion:
    """One question.

    label      its answer, of multiple choice the letter; "" if it is not known
    options    of multiple choice
    accepted   further answers that are right
    asked      what the model is sent, where that is not the question
    meta       the other columns of a file of your own
    """

    id: str
    text: str
    label: str
    kind: Kind
    options: tuple[str, ...] | None = None
    accepted: tuple[str, ...] = ()
    asked: str | None = None
    meta: JSON = field(default_factory=dict)

    @property
    def labels(self) -> str | tuple[str, ...]:
        """All that is right."""
        return (self.label, *self.accepted) if self.accepted else self.label

    def prompt(self, *, as_is: bool = False) -> str:
        """The question as it is asked; `as_is`: without the instruction to reason and to box the answer."""
        letters = option_letters(len(self.options)) if self.options else ()
        listed = [f"{letter}. {option}" for letter, option in zip(letters, self.options or (), strict=True)]
        what = "the letter of your choice" if self.options else "your final answer"
        return "\n".join([self.text, *listed]) + ("" if as_is else INSTRUCTION.format(what=what))

    def sent(self, *, as_is: bool = False) -> str:
        """What the model is sent."""
        return self.asked or self.prompt(as_is=as_is)

    def asks(self, *, as_is: bool = False) -> dict[str, Any]:
        """What decides the rollouts and their grading."""
        return {
            "kind": self.kind,
            **({"options": option_letters(len(self.options))} if self.options else {}),
            "prompt": self.text if self.asked else self.prompt(as_is=as_is),
            "label": self.labels,
            **({"asked": self.asked} if self.asked else {}),
        }

    def group(
        self, rollouts: Sequence[JSON], greedy: JSON | None = None, *, as_is: bool = False, **known: Any
    ) -> dict[str, Any]:
        """Its group of `POST /reward`, with its `greedy` rollout, if any, and what is `known` of the sampling."""
        asks = self.asks(as_is=as_is)
        meta = {**self.meta, **({"asked": asks.pop("asked")} if self.asked else {})}
        meta |= {} if greedy is None else {"greedy": greedy}
        return {"group_id": self.id, **asks, **known, "meta": meta, "rollouts": rollouts}


@cache
def benchmarks() -> Mapping[str, Any]:
    """The benchmarks that `dare-reward data prepare` and `measure` know by name."""
    text = files(__package__).joinpath("recipes", "benchmarks.toml").read_text(encoding="utf-8")
    return MappingProxyType(tomllib.loads(text))


def benchmark_facts(name: str) -> JSON | None:
    """The entry of a benchmark, or of the labelled set that belongs to one; None for a set of your own."""
    known = benchmarks().items()
    return next((facts for key, facts in known if name in {key, facts["labelled"]}), None)


def load(name: str, path: Path) -> list[LabelledQuestion]:
    """The questions of a benchmark's file, in its order. ConfigError names the row, the rule and the fix."""
    facts = benchmark_facts(name)
    if facts is None:
        raise RequestError(f"unknown benchmark {name!r}. Known: {', '.join(benchmarks())}", code="name")
    how = facts["fields"], facts["kind"]
    questions = [_named(path, i, _benchmark, row, *how) for i, row in enumerate(read_rows(path))]
    if len({q.id for q in questions}) < len(questions):  # ids that are no ids
        return [replace(q, id=str(i)) for i, q in enumerate(questions)]
    return questions


def load_own(path: Path, *, kind: str | None = None, labelled: bool = True) -> list[LabelledQuestion]:
    """Your questions, in the file's order. ConfigError names the row, the rule and the fix.

    A row has a `prompt` and a `label`, or a list of accepted ones; `kind`, `accepted`, `asked`, `options` and `id` if
    it likes. `prompt`, `label` and `id` may have the usual names of benchmarks, in any case; every other column becomes
    `meta`.

    kind      how all answers compare; None: a row's own, else choice with options and math without
    labelled  False: a row may lack its label, and ids may repeat
    """
    rows, used = read_rows(path), {name for names in OWN.values() for name in names}
    more = [{k: v for k, v in row.items() if k.casefold() not in used} for row in rows]
    questions = [replace(_named(path, i, _own, row, kind, labelled), meta=more[i]) for i, row in enumerate(rows)]
    repeated = [name for name, count in Counter(q.id for q in questions).items() if count > 1]
    if labelled and repeated:
        raise ConfigError(f"{path}: {len(repeated)} ids come twice, {repeated[0]!r} first: give each question its own")
    return questions


def unique(questions: Sequence[LabelledQuestion], ledger: Ledger) -> list[LabelledQuestion]:
    """Each question once, with its answer where one of the rows has it; without those of two answers."""
    out = []
    for group in gather(
        Member(i, prompt=q.sent(), kind=q.kind, options=q.options and len(q.options), label=q.labels or None)
        for i, q in enumerate(questions)
    ):
        same = [questions[i] for i in group.items]
        if group.refusal is not None or group.label_conflict:
            why = f"question {group.items[-1] + 1}: {same[0].text[:40]!r} comes again with another answer"
            ledger.count("refused", why, len(same))
            continue
        out.append(next((q for q in same if q.label), same[0]))
        ledger.count("read")
        if len(same) > 1:
            ledger.count("dropped", f"question {group.items[1] + 1} comes again", len(same) - 1)
    return out


def read_rows(source: Path) -> list[JSON]:
    """The objects of a file of JSON, JSON lines, CSV or Parquet."""
    if not source.is_file():
        raise ConfigError(f"{source}: no such file")
    try:
        if source.suffix.lower() == ".csv":
            opened(source)
            rows: list[Any] = list(csv.DictReader(io.StringIO(source.read_text(encoding="utf-8-sig"), newline="")))
            if long := next((i for i, row in enumerate(rows, 1) if None in row), 0):
                raise ConfigError(f"{source}: question {long} has more cells than columns: quote cells with a comma")
        else:
            rows = []
            with closing(open_records(str(source))) as values:
                for number, value in values.items:
                    if isinstance(value, RequestError):
                        raise ConfigError(f"{source}: {values.unit} {number}: {value}")
                    rows += value if isinstance(value, list) else [value]
    except RequestError as error:  # it names the file
        raise ConfigError(str(error)) from None
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{source}: {error}") from None
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ConfigError(f"{source}: must hold at least one object per question")
    return rows


def _named(path: Path, index: int, make: Callable[..., LabelledQuestion], row: JSON, *how: Any) -> LabelledQuestion:
    """What is made of a row whose keys are in lower case; of two that differ in case alone the first counts."""
    try:
        return make({str(k).casefold(): v for k, v in reversed(list(of_verl(row).items()))}, str(index), *how)
    except (ConfigError, RequestError) as error:
        raise ConfigError(f"{path}: question {index + 1}: {error}") from None


def _benchmark(row: JSON, place: str, fields: Fields, kind: Kind) -> LabelledQuestion:
    text = _prompt_text(_first(row, fields["question"], "question"))
    answer = _first(row, fields["answer"], "answer")
    label, options = _choice(text, answer, row, fields) if kind == "choice" else (_value(answer, kind), None)
    return LabelledQuestion(_id(row, place), text, label, kind, options)


def _own(row: JSON, place: str, kind: Any, labelled: bool) -> LabelledQuestion:
    listed, _ = _options(row, OWN)
    kind = kind or row.get("kind") or ("math" if listed is None else "choice")
    if kind not in KINDS:
        raise ConfigError(f"kind {kind!r} must be one of {', '.join(KINDS)}")
    accepted, asked = row.get("accepted") or [], row.get("asked")
    if not isinstance(accepted, list) or not all(isinstance(a, str) and a.strip() for a in accepted):
        raise ConfigError("accepted must be a list of texts")
    if asked is not None and not (isinstance(asked, str) and asked):
        raise ConfigError("asked must be the text that the model is sent")
    text = _question(row)
    answer = _first(row, OWN["answer"], "answer", needed=labelled)
    more: list[str] = []
    if answer is None:
        label = ""
    elif kind == "choice":
        label, listed = _choice(text, answer, row, OWN)
    elif answer == []:
        raise ConfigError("the label is an empty list: write the right answers into it")
    else:
        label, *more = (_value(one, kind) for one in (answer if isinstance(answer, list) else [answer]))
        if isinstance(row.get("answer"), int | float | str) and _value(row["answer"], kind) not in {label, *more}:
            raise ConfigError("label and answer differ: keep the column that holds the right answer")
    further = dict.fromkeys(a for a in (*more, *accepted) if a != label)
    return LabelledQuestion(_id(row, place), text, label, kind, listed, tuple(further), asked)


def _id(row: JSON, place: str) -> str:
    name = _first(row, OWN["id"], "id", needed=False)
    return place if name is None else str(name)


def _value(answer: Any, kind: Kind) -> str:
    """The answer itself, as a run reads it in a label: of a solution's box, what follows GSM8K's ####, 27 for 27.0."""
    if isinstance(answer, list | dict):
        raise ConfigError("the answer must be a string or a number, or in a file of your own a list of these")
    value = read_label(label_text("" if answer is None else answer).strip(), kind=kind).strip()
    if not value.strip("#") or not read_labels(value, kind=kind):
        raise ConfigError("the answer is empty")
    return value


def _choice(text: str, answer: Any, row: JSON, fields: Fields) -> tuple[str, tuple[str, ...]]:
    """The letter of the right option, and all. One that is listed apart from the wrong ones is put there by hash."""
    wrong = [str(row[n]).strip() for n in map(str.casefold, fields.get("wrong", ())) if row.get(n)]
    options, named = _options(row, fields, needed=not wrong)
    if options is None:
        right = str(answer).strip()
        texts = sorted([right, *wrong], key=lambda t: sha256(f"{text}\0{t}".encode("utf-8", "replace")).digest())
        return option_letters(len(texts))[texts.index(right)], tuple(texts)
    return _letter_of(answer, options, named), options


def _options(row: JSON, fields: Fields, *, needed: bool = False) -> tuple[tuple[str, ...] | None, Sequence[Any]]:
    """The options, and what their set calls them: in ARC and its like `choices` is {"text": [...], "label": [...]}."""
    named: list[Any] = []
    options = _first(row, fields["options"], "options", needed=needed)
    if isinstance(options, Mapping) and isinstance(options.get("label"), list):
        named, options = options["label"], options.get("text")
    if options is None:
        return None, ()
    if not isinstance(options, list | tuple) or (named and len(named) != len(options)):
        raise ConfigError("the options must be a list")
    return tuple(str(o).strip() for o in options), named


def _letter_of(answer: Any, texts: Sequence[str], named: Sequence[Any]) -> str:
    """The letter of the right option, given by what its set calls it, or by its place, its letter or its text."""
    letters = option_letters(len(texts))
    if answer in named:
        return letters[named.index(answer)]
    value = label_text(answer, "choice", letters).strip() if isinstance(answer, str | int | float) else str(answer)
    if value.upper() in letters:
        return value.upper()
    if value in texts:
        return letters[texts.index(value)]
    raise ConfigError(f"the answer {value[:40]!r} is none of {len(texts)} options")


def _question(row: JSON) -> str:
    """All that a row asks: behind one system prompt, it is the other column that tells its questions apart."""
    asked = {name: _prompt_text(row.get(name)) for name in OWN["question"]}
    _first(asked, OWN["question"], "question")
    return "\n".join(prompt_texts(asked) or ())


def _prompt_text(value: Any) -> str:
    """What a prompt, or a conversation before its last reply, asks. ConfigError for what a text cannot ask."""
    if isinstance(value, list | Mapping):
        turns = [m for m in value if m["role"] != ASSISTANT] if is_messages(value) else []
        if not any(m["role"] == "user" for m in turns) or not all(isinstance(m.get("content"), str) for m in turns):
            raise ConfigError("a prompt must be a text, or messages {role, content} with the text of a user")
        return asked_text(value, whole=True).strip()
    return "" if value is None else str(value).strip()


def _first(row: JSON, names: Sequence[str], what: str, *, needed: bool = True) -> Any:
    """The first of the fields that holds something; the names of `row` are in lower case."""
    for name in map(str.casefold, names):
        if row.get(name) not in (None, ""):
            return row[name]
    if needed:
        raise ConfigError(f"no {what}: none of the fields {', '.join(names)} holds one")
    return None
