"""Which rules of `dare_reward.answers` real rollouts need: each is switched off, and the rollouts that change are counted.

    PYTHONUTF8=1 python research/scripts/answers_rules.py CORPUS.jsonl... > rules.tsv
    PYTHONUTF8=1 python research/scripts/answers_rules.py --room forms CORPUS.jsonl...   only rules of that part

The corpora are those of `answers_corpus.py`; a file of gold answers (`{"gold": ...}` a line) may be among them. A rule
is a function of the room that can find nothing, a compiled expression, or an entry of a table. One pass over the
corpora notes in which rollouts each rule takes part: a function finds something, an expression matches, an entry is
looked up. A rule that takes part in none changes none. Each of the others is then switched off over rollouts in which
it takes part (at most `SAMPLE`, with the others of their questions): a function finds nothing, an expression matches
nothing, an entry is not there. A rollout changes if its grade or its class does, a gold answer if its key does.

A line of the output: rollouts that change, rollouts it was tried on, rollouts in which it takes part, the rule. A table that is walked
through is not watched by entries: its entries are all tried.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import dare_reward.answers
from dare_reward.answers import canonical, classify, extract, grade, keys

NEVER = re.compile(r"(?!)")
OTHER_ROOMS = ("ttrl_strings", "effort", "hashes", "rules", "kinds", "unreadable", "spans")
SAMPLE = 12  # rollouts on which a rule is tried: one that changes is enough to keep it
MATES = 12  # other rollouts of a question that are looked at for the class
Rows = list[dict[str, Any]]
Outcome = dict[int, tuple[Any, ...]]
WALKED = -1  # in place of a rollout: all of a table was looked at
taking_part: dict[str, set[int]] = defaultdict(set)
at = 0  # the rollout that is read


def modules() -> list[ModuleType]:
    """The modules of the room that hold rules."""
    found = pkgutil.walk_packages(dare_reward.answers.__path__, "dare_reward.answers.")
    return [importlib.import_module(m.name) for m in found if not m.name.endswith(OTHER_ROOMS)]


def read(paths: list[str]) -> Rows:
    rows = []
    for path in paths:
        with Path(path).open(encoding="utf-8") as lines:
            rows += [json.loads(line) for line in lines]
    return rows


def answers_of(r: dict[str, Any]) -> list[str | None]:
    """What a rollout says, without and with its last sentence."""
    if r["kind"] == "choice":
        return [extract(r["text"], kind="choice", options=options_of(r)).answer]
    found = extract(r["text"])
    return [found.answer, found.answer if found.answer is not None else extract(r["text"], unmarked="sentence").answer]


def options_of(r: dict[str, Any]) -> list[str] | None:
    return [*"ABCDEFGHIJKLMNOP"[: r["options"]]] if r["kind"] == "choice" else None


def grades_of(r: dict[str, Any], said: list[str | None]) -> list[bool]:
    return [grade(a, r["gold"], kind=r["kind"], options=options_of(r)) for a in said]


def outcome(rows: Rows, questions: dict[tuple[str, ...], list[int]], some: list[int]) -> Outcome:
    """Of some rollouts their grades and classes; of gold answers their keys."""
    keys._cached_math.cache_clear()  # noqa: SLF001
    out: Outcome = {}
    told: dict[int, list[str | None]] = {}
    for i in some:
        r = rows[i]
        if "text" not in r:
            out[i] = (canonical(r["gold"]),)
            continue
        mates = [i, *[j for j in questions[question(r)] if j != i][:MATES]]
        for j in mates:
            if j not in told:
                told[j] = answers_of(rows[j])
        same = [classify(column, kind=r["kind"]).index for column in zip(*(told[j] for j in mates), strict=True)]
        out[i] = (grades_of(r, told[i]), [[x >= 0 and x == index[0] for x in index] for index in same])
    return out


def question(r: dict[str, Any]) -> tuple[str, ...]:
    return r["kind"], r["source"], r["question"]


# Switches


def _nothing(function: FunctionType) -> Callable[..., Any] | None:
    """A stand-in for a function that finds nothing; None for one that has no such value."""
    says = str(inspect.signature(function).return_annotation)
    names = list(inspect.signature(function).parameters)
    if says == "bool":
        return lambda *_, **__: False
    if says.endswith("| None"):
        return lambda *_, **__: None
    if says == "str" and names and str(inspect.signature(function).parameters[names[0]].annotation) == "str":
        return lambda first, *_, **__: first
    if says.startswith(("Iterator", "list[")):
        return lambda *_, **__: []
    return None


@contextmanager
def replaced(places: list[tuple[Any, str]], value: object) -> Iterator[None]:
    old = [(where, name, getattr(where, name)) for where, name in places]
    for where, name in places:
        setattr(where, name, value)
    try:
        yield
    finally:
        for where, name, was in old:
            setattr(where, name, was)


@contextmanager
def without(table: dict[Any, Any], key: object) -> Iterator[None]:
    items = list(table.items())
    del table[key]
    try:
        yield
    finally:
        table.clear()
        table.update(items)


def switches() -> Iterator[tuple[str, str, Any]]:  # noqa: C901
    """Each rule, the table that holds it, and the context in which it is off."""
    room = modules()
    for module in room:
        short = module.__name__.removeprefix("dare_reward.answers.")
        for name, value in list(vars(module).items()):
            if not isinstance(value, FunctionType) and rule_name(room, value) != f"{short}.{name}":
                continue
            places = [(m, n) for m in room for n, v in vars(m).items() if v is value]
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                if (stand_in := _nothing(value)) is not None:
                    yield f"{short}.{name}()", "", replaced(places, stand_in)
            elif isinstance(value, re.Pattern):
                yield f"{short}.{name}", "", replaced(places, NEVER)
            elif isinstance(value, dict) and name[:2] != "__":
                for key in list(value):
                    yield f"{short}.{name}[{key!r}]", f"{short}.{name}", without(value, key)
            elif isinstance(value, frozenset) and name[:2] != "__":
                for item in sorted(value, key=repr):
                    yield f"{short}.{name} - {item!r}", f"{short}.{name}", replaced(places, value - {item})


# Watching


class Watched:
    """An expression that notes when it matches."""

    def __init__(self, real: re.Pattern[str], rule: str) -> None:
        self.real, self.rule, self.pattern, self.flags = real, rule, real.pattern, real.flags

    def __getattr__(self, how: str) -> Any:
        method = getattr(self.real, how)

        def watched(*args: Any, **named: Any) -> Any:
            found = method(*args, **named)
            if how in {"sub", "split"}:
                if self.real.search(args[1] if how == "sub" else args[0]):
                    taking_part[self.rule].add(at)
            elif how == "finditer":
                found = list(found)
            if found and how not in {"sub", "split"}:
                taking_part[self.rule].add(at)
            return found

        return watched


def watched_function(real: FunctionType, stand_in: Callable[..., Any], rule: str) -> Callable[..., Any]:
    def watched(*args: Any, **named: Any) -> Any:
        found = real(*args, **named)
        if inspect.isgenerator(found):
            found = list(found)
        if found != stand_in(*args, **named):
            taking_part[rule].add(at)
        return found

    return watched


class Table(dict[Any, Any]):
    """A table that notes which entries are looked up."""

    rule = ""

    def __getitem__(self, key: object) -> Any:
        taking_part[f"{self.rule}[{key!r}]"].add(at)
        return dict.__getitem__(self, key)

    def get(self, key: object, default: Any = None) -> Any:
        return self[key] if dict.__contains__(self, key) else default

    def __contains__(self, key: object) -> bool:
        found = dict.__contains__(self, key)
        if found:
            taking_part[f"{self.rule}[{key!r}]"].add(at)
        return found

    def __iter__(self) -> Iterator[Any]:
        taking_part[self.rule].add(WALKED)
        return dict.__iter__(self)

    def items(self) -> Any:
        taking_part[self.rule].add(WALKED)
        return dict.items(self)


class Set(frozenset[Any]):
    """A set that notes which members are asked for."""

    rule = ""

    def __contains__(self, key: object) -> bool:
        found = frozenset.__contains__(self, key)
        if found:
            taking_part[f"{self.rule} - {key!r}"].add(at)
        return found

    def _walked(self) -> None:
        taking_part[self.rule].add(WALKED)

    def __iter__(self) -> Iterator[Any]:
        self._walked()
        return frozenset.__iter__(self)

    def __and__(self, other: Any) -> Any:
        self._walked()
        return frozenset.__and__(self, other)

    __rand__ = __and__

    def __rsub__(self, other: Any) -> Any:
        self._walked()
        return frozenset(other) - frozenset(self)

    def __ge__(self, other: Any) -> bool:
        self._walked()
        return frozenset.__ge__(self, other)


def watch() -> Callable[[], None]:
    """Every rule notes where it takes part; returns what ends that."""
    undo: list[tuple[ModuleType, str, Any]] = []
    room = modules()
    for module in room:
        for name, value in list(vars(module).items()):
            home = getattr(value, "__module__", module.__name__)
            if isinstance(value, FunctionType) and home.startswith("dare_reward.answers."):
                stand_in = _nothing(value)
                rule = f"{home.removeprefix('dare_reward.answers.')}.{value.__name__}()"
                new: Any = None if stand_in is None else watched_function(value, stand_in, rule)
            elif isinstance(value, re.Pattern):
                new = Watched(value, rule_name(room, value))
            elif isinstance(value, dict) and name[:2] != "__" and value:
                new = Table(value)
                new.rule = rule_name(room, value)
            elif isinstance(value, frozenset):
                new = Set(value)
                new.rule = rule_name(room, value)
            else:
                continue
            if new is not None:
                undo.append((module, name, value))
                setattr(module, name, new)

    def end() -> None:
        for module, name, value in undo:
            setattr(module, name, value)

    return end


def rule_name(room: list[ModuleType], value: object) -> str:
    """Where a value is first defined."""
    return next(
        f"{m.__name__.removeprefix('dare_reward.answers.')}.{n}" for m in room for n, v in vars(m).items() if v is value
    )


def main(paths: list[str]) -> None:
    global at
    part_of = f"{paths[1]}." if paths[:1] == ["--room"] else ""
    paths = paths[2:] if part_of else paths
    rows = read(paths)
    questions: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for i, r in enumerate(rows):
        if "text" in r:
            questions[question(r)].append(i)
    end = watch()
    for at, r in enumerate(rows):  # noqa: B007
        keys._cached_math.cache_clear()  # noqa: SLF001
        if "text" in r:
            grades_of(r, answers_of(r))
        else:
            canonical(r["gold"])
    end()
    print(f"# {len(rows)} rollouts and gold answers", flush=True)
    rng = random.Random(14)
    for rule, table, off in switches():
        if not rule.startswith(part_of):
            continue
        part = taking_part[rule] - {WALKED}
        walked = WALKED in taking_part.get(table, ())
        tried = sorted(rng.sample(sorted(part), min(SAMPLE, len(part))))
        if walked and not part:
            print("?", 0, 0, rule, "(its table is walked through)", sep="\t", flush=True)
            continue
        try:
            before = outcome(rows, questions, tried)
            with off:
                after = outcome(rows, questions, tried)
            count: int | str = sum(before[i] != after[i] for i in tried)
        except Exception as e:  # noqa: BLE001  what cannot run without the rule needs it
            count = f"fails ({type(e).__name__})"
        print(count, len(tried), len(part), rule, sep="\t", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
