"""Which rules of `dare_reward.answers` real rollouts need: each is switched off, and the rollouts that change are counted.

    python research/scripts/answers_rules.py alternatives CORPUS.jsonl...     branches of expressions that never take part
    python research/scripts/answers_rules.py off CORPUS.jsonl...              functions, expressions and table entries

The corpora are those of `answers_corpus.py`; a file of gold answers (`{"gold": ...}` a line) may be among them. A rule
is a private function, a compiled expression or an entry of a table of the room. Off, a function finds nothing (None,
False, the text as it came), an expression matches nothing, and an entry is not there. A rollout changes if its grade does
or if another rollout of its question represents its class; a gold answer changes if its key does.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
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
Rows = list[dict[str, Any]]
Outcome = dict[str, tuple[Any, ...]]


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


def outcome(rows: Rows) -> Outcome:
    """Of each rollout its grade and the first rollout of its class; of each gold answer its key."""
    keys._cached_math.cache_clear()
    said: Outcome = {}
    groups: dict[tuple[str, ...], list[tuple[str, str | None]]] = defaultdict(list)
    for n, r in enumerate(rows):
        if "text" not in r:
            said[f"gold {n}"] = (canonical(r["gold"]),)
            continue
        options = [*"ABCDEFGHIJKLMNOP"[: r["options"]]] if r["kind"] == "choice" else None
        for unmarked in ("none", "sentence") if r["kind"] == "math" else ("none",):
            found = extract(r["text"], kind=r["kind"], options=options, unmarked=unmarked)
            if unmarked == "none" or found.source == "sentence":
                right = grade(found.answer, r["gold"], kind=r["kind"], options=options)
                said[r["id"] + unmarked] = (right,)
                groups[r["kind"], r["source"], r["question"], unmarked].append((r["id"] + unmarked, found.answer))
    for (kind, *_), members in groups.items():
        index = classify([answer for _, answer in members], kind=kind).index
        first: dict[int, str] = {-1: ""}
        for (name, _), place in zip(members, index, strict=True):
            said[name] += (first.setdefault(place, name),)
    return said


def changed(before: Outcome, after: Outcome) -> int:
    return sum(before.get(name) != after.get(name) for name in before.keys() | after.keys())


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


def switches() -> Iterator[tuple[str, Any]]:
    """Each rule with the context in which it is off."""
    room = modules()
    for module in room:
        short = module.__name__.removeprefix("dare_reward.answers.")
        for name, value in list(vars(module).items()):
            places = [(m, n) for m in room for n, v in vars(m).items() if v is value]
            if isinstance(value, FunctionType) and value.__module__ == module.__name__:
                if (stand_in := _nothing(value)) is not None:
                    yield f"{short}.{name}()", replaced(places, stand_in)
            elif isinstance(value, re.Pattern) and name.startswith("_"):
                yield f"{short}.{name}", replaced([(module, name)], NEVER)
            elif isinstance(value, dict) and name.startswith("_") and name not in {"__builtins__", "__annotations__"}:
                for key in list(value):
                    yield f"{short}.{name}[{key!r}]", without(value, key)
            elif isinstance(value, frozenset) and name[:2] != "__":
                for item in sorted(value, key=repr):
                    yield f"{short}.{name} - {item!r}", replaced(places, value - {item})


def off(paths: list[str]) -> None:
    """Prints for each rule how many rollouts change without it; those with none first."""
    rows = read(paths)
    before = outcome(rows)
    print(len(rows), "rollouts and gold answers,", len(before), "outcomes", flush=True)
    for name, context in switches():
        try:
            with context:
                count: int | str = changed(before, outcome(rows))
        except Exception as e:  # noqa: BLE001  what cannot run without the rule needs it
            count = f"fails: {type(e).__name__}"
        print(count, name, sep="\t", flush=True)


# Alternatives of expressions


def alternatives(pattern: str, flags: int) -> tuple[str, list[str]]:
    """The pattern with a mark at the end of each alternative, and the alternatives; none within what must not follow."""
    out: list[str] = []
    found: list[str] = []
    stack: list[tuple[int, bool]] = [(0, False)]  # where the alternative began, whether it must not match

    def close(at: int) -> None:
        begun, negative = stack[-1]
        if not negative:
            found.append(pattern[begun:at])
            out.append(f"(?P<_{len(found) - 1}>)")

    i, verbose = 0, bool(flags & re.VERBOSE)
    assert not verbose, "no expression of the room is verbose"
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            out.append(pattern[i : i + 2])
            i += 2
            continue
        if c == "[":
            first = end = i + 1 + (pattern[i + 1] == "^")
            while end == first or pattern[end] != "]":
                end += 1 + (pattern[end] == "\\")
            out.append(pattern[i : end + 1])
            i = end + 1
            continue
        if c == "(":
            m = re.compile(r"\((?:\?(?:P?<[A-Za-z_]\w*>|<?[=!]|[:>]|[a-zA-Z-]+:|P=\w+\)|\([^)]*\)))?").match(pattern, i)
            assert m is not None
            if m[0].startswith(("(?P=", "(?(")):  # a reference, or a condition whose branches are not marked
                if m[0].startswith("(?("):
                    return pattern, []
                out.append(m[0])
                i = m.end()
                continue
            out.append(m[0])
            stack.append((m.end(), stack[-1][1] or m[0] in {"(?!", "(?<!"}))
            i = m.end()
            continue
        if c == "|":
            close(i)
            stack[-1] = (i + 1, stack[-1][1])
        elif c == ")":
            close(i)
            stack.pop()
        out.append(c)
        i += 1
    close(len(pattern))
    return "".join(out), found


class Watched:
    """An expression that notes which of its alternatives took part in a match."""

    def __init__(self, real: re.Pattern[str]) -> None:
        self.real, self.pattern, self.flags = real, real.pattern, real.flags
        marked, self.found = alternatives(real.pattern, real.flags)
        numbered = re.sub(r"\\(\d)", lambda m: f"(?P=_g{m[1]})", marked) if re.search(r"\\\d", marked) else marked
        self.taken: set[int] = set()
        try:
            self.marked: re.Pattern[str] | None = re.compile(numbered, real.flags & ~re.UNICODE)
        except re.error:
            self.marked = None

    def note(self, match: re.Match[str] | None) -> None:
        if match is not None:
            self.taken |= {int(k[1:]) for k, v in match.groupdict().items() if v is not None and k[1:].isdigit()}

    def _one(self, how: str, *args: Any) -> re.Match[str] | None:
        got: re.Match[str] | None = getattr(self.real, how)(*args)
        if got is not None and self.marked is not None:
            self.note(getattr(self.marked, how)(*args))
        return got

    def match(self, *args: Any) -> re.Match[str] | None:
        return self._one("match", *args)

    def fullmatch(self, *args: Any) -> re.Match[str] | None:
        return self._one("fullmatch", *args)

    def search(self, *args: Any) -> re.Match[str] | None:
        return self._one("search", *args)

    def _all(self, *args: Any) -> None:
        for match in self.marked.finditer(*args) if self.marked is not None else ():
            self.note(match)

    def finditer(self, *args: Any) -> Iterator[re.Match[str]]:
        self._all(*args)
        return self.real.finditer(*args)

    def findall(self, *args: Any) -> list[Any]:
        self._all(*args)
        return self.real.findall(*args)

    def split(self, text: str, *args: Any) -> list[Any]:
        self._all(text)
        return self.real.split(text, *args)

    def sub(self, new: Any, text: str, *args: Any) -> str:
        self._all(text)
        return self.real.sub(new, text, *args)


def taking_part(paths: list[str]) -> None:
    """Prints the alternatives that take part in no match, and the expressions that match nothing."""
    watched: dict[str, Watched] = {}
    for module in modules():
        short = module.__name__.removeprefix("dare_reward.answers.")
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern):
                watched[f"{short}.{name}"] = Watched(value)
                setattr(module, name, watched[f"{short}.{name}"])
            elif isinstance(value, dict) and any(isinstance(v, re.Pattern) for v in value.values()):
                for key, v in list(value.items()):
                    watched[f"{short}.{name}[{key!r}]"] = value[key] = Watched(v)
    outcome(read(paths))
    for name, w in watched.items():
        if w.marked is None or not w.found:
            print("?", name, sep="\t")
        for n, alternative in enumerate(w.found):
            if n not in w.taken and w.marked is not None:
                print("all" if not w.taken else "part", name, alternative, sep="\t")


if __name__ == "__main__":
    {"off": off, "alternatives": taking_part}[sys.argv[1]](sys.argv[2:])
