"""`dare-reward explain FILE`: how one group got its rewards, and which groups are worth a look."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dare_reward.answers import classify
from dare_reward.answers.rollouts import ANSWER_SPECS, READING, kind_of, option_tuple, read_answers
from dare_reward.commands.tables import Screen, add_wide, group_table, number, screen_of, short_answer, table, wrapped
from dare_reward.errors import DareError, RequestError
from dare_reward.files.reader import Faults, Reader
from dare_reward.methods import find, settle, specs
from dare_reward.openrlhf import COMPARING
from dare_reward.printable import printable
from dare_reward.reply import GroupReply, Reply
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare
from dare_reward.scoring.score import estimate, score

from .closing import Closing
from .command import add_command
from .group_lines import MISSING, add_file, add_method, chosen_params, read_groups, remedies, warn
from .labelled import finite
from .scoring import score_all
from .suspicious import FLAGS, most_suspicious, signs

JSON = Mapping[str, Any]

END = "end of the text"
APART = 8  # pairs of answers that stayed apart
TAIL = 60  # characters of a rollout's end
SHOWN = 4  # answers of each suspicious group


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "explain",
        notes="It never calls a service: it runs the same estimator in this process.",
        examples=(
            "dare-reward explain rollouts.jsonl --group aime-7",
            "dare-reward explain rollouts.jsonl --group line-3 -m ttrl  # a group without an id",
            "dare-reward explain rollouts.jsonl --suspicious 5",
        ),
        exits="0 if it was explained, 1 if the group cannot be scored, 2 if there is no such group.",
    )
    add_file(parser, "Groups of rollouts")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--group", metavar="ID", help="Explain this group (line-N for one without an id).")
    what.add_argument(
        "--suspicious",
        type=int,
        default=5,
        metavar="N",
        help="Show the N groups that are most worth a look (default: 5, without --group).",
    )
    add_method(parser)
    parser.add_argument("--json", action="store_true", help="Write one JSON object instead of tables.")
    add_wide(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """`--help` says what the exit codes mean."""
    params = chosen_params(arguments)[arguments.method]
    if arguments.suspicious < 1:
        raise RequestError("--suspicious must be at least 1", code="parameter")
    reader = read_groups(arguments)
    if arguments.group is None:
        return _suspicious(arguments, params, reader)
    closing = Closing()
    group = _find(reader, arguments.file, arguments.group)
    reply = score([group], params, method=arguments.method).reply
    group_reply = reply.groups[0]
    closing.add_scored(group, group_reply)
    if arguments.json:
        print(json.dumps(finite(_content(group, reply, params, arguments.method)), indent=1))
    else:
        print("\n\n".join(_report(group, reply, params, arguments)))
    closing.say()
    if group_reply.error is not None:
        _say_remedy(arguments, [group] if group_reply.error.code == MISSING else [], reader)
        return 1
    return 0


def _find(reader: Reader, path: str, group_id: str) -> JSON:
    for place, group in reader:
        if isinstance(group, RequestError):
            continue
        if group["group_id"] == group_id or group_id == f"{reader.unit}-{place}":
            return group
    raise RequestError(f"{path} has no group {group_id!r}", code="group")


def _say_remedy(arguments: argparse.Namespace, lacking: Sequence[JSON], reader: Reader) -> None:
    if lacking:
        has_param = any(s.name == MISSING for s in specs(find(arguments.method)))
        warn(*remedies(arguments.words, lacking, candidates=reader.notes.candidates, param=has_param))


# --- one group --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Row:
    """A rollout as the table shows it; `why` says why there is no answer."""

    id: str
    answer: str | None
    why: str
    right: bool | None
    entropy: float | None
    value: float | None
    kept: bool
    end: str


def _report(group: JSON, reply: Reply, params: JSON, arguments: argparse.Namespace) -> Iterator[str]:
    """The parts of the text."""
    screen, group_reply = screen_of(arguments), reply.groups[0]
    configured = settle(arguments.method, params)
    method, values = configured.method, configured.values
    show = partial(wrapped, on=screen, indent="  ")
    paper = f"{method.paper}; {method.evidence}" if method.paper else method.evidence
    changed = {k: v for k, v in values.items() if arguments.wide or k in params}
    others = "" if arguments.wide else f"{', ' if changed else ''}{'the others' if changed else 'all'} by default"
    yield "\n".join(
        [
            show(f"method {method.name}: {method.summary} [{paper}]"),
            show("parameters: " + ", ".join(f"{k}={v}" for k, v in changed.items()) + others),
            f"config_id {reply.config_id[:12]}",
        ]
    )
    if group_reply.error is not None:
        yield group_table(group_reply, on=screen)
        return
    rows = list(_rows(group, group_reply, values))
    yield "\n".join([group_table(group_reply, on=screen), *_label(group, group_reply, rows)])
    notes = [show(f"{flag}: {FLAGS.get(flag, '')}".rstrip(": ")) for flag in group_reply.flags or ()]
    notes += [show(line) for line in _apart(group, values)]
    if notes:
        yield "\n".join(notes)
    yield "rollouts\n" + _rollouts(rows, group_reply, screen)
    numbers = {k: v for k, v in (group_reply.diagnostics or {}).items() if isinstance(v, int | float)}
    yield show(", ".join(f"{k} {v:.4g}" for k, v in numbers.items()))


def _content(group: JSON, reply: Reply, params: JSON, name: str) -> dict[str, Any]:
    """The same as one object."""
    group_reply, configured = reply.groups[0], settle(name, params)
    method, values = configured.method, configured.values
    rows = list(_rows(group, group_reply, values)) if group_reply.error is None else []
    return {
        "method": method.name,
        "parameters": dict(values),
        "config_id": reply.config_id,
        "label": group.get("label"),
        "reply": reply.to_json()["groups"][0],
        "rollouts": [
            {
                "id": r.id,
                "no_answer_because": r.why or None,
                "right": r.right,
                "mean_entropy": r.entropy,
                "end": r.end,
            }
            for r in rows
        ],
        "notes": _apart(group, values),
    }


def _rows(group: JSON, reply: GroupReply, values: JSON) -> Iterator[_Row]:
    reading = {k: v for k, v in values.items() if k in READING}
    rollouts = group["rollouts"]
    prepared = prepare([group], params={k: values[k] for k in (*READING, *COMPARING)}, limits=UNLIMITED)
    entropy_R, right_R = prepared.groups.column("mean_entropy"), correctness(prepared)
    silent = (prepared.groups.column("num_tokens") == 0).tolist()
    read = read_answers(rollouts, silent, kind=kind_of(group), options=option_tuple(group), **reading)
    results = reply.rewards if reply.rewards is not None else reply.advantages
    for i, (rollout, answer) in enumerate(zip(rollouts, reply.answers or (), strict=True)):
        yield _Row(
            id=str(rollout.get("id", i)),
            answer=answer,
            why="" if answer is not None else read[i].why,
            right=None if np.isnan(right_R[i]) else bool(right_R[i]),
            entropy=None if np.isnan(entropy_R[i]) else float(entropy_R[i]),
            value=results[i] if results else None,
            kept=bool(reply.keep[i]) if reply.keep else True,
            end=_end(rollout),
        )


def _end(rollout: JSON) -> str:
    """The last characters of the text in one printable line."""
    text = printable(" ".join(str(rollout.get("text") or "").split()))
    return text if len(text) <= TAIL else "..." + text[3 - TAIL :]


def _label(group: JSON, reply: GroupReply, rows: Sequence[_Row]) -> list[str]:
    """What the truth is, if the file says it."""
    known = [r.right for r in rows if r.right is not None]
    if not known:
        return []
    label = f"label {short_answer(group['label'])}: " if group.get("label") is not None else ""
    right = (reply.diagnostics or {}).get("label_accuracy")
    verdict = "" if right is None else f"the pseudo-label is {'right' if right else 'wrong'}, "
    return ["", f"{label}{verdict}{sum(known)} of {len(known)} rollouts are right"]


def _apart(group: JSON, values: JSON) -> list[str]:
    """Which answers stayed apart though their values are one or a parameter would merge them, and which one."""
    if values.get("mode") != "clean":
        return []
    kind, options, rollouts = kind_of(group), option_tuple(group), group["rollouts"]
    reading = {k: v for k, v in values.items() if k in READING}
    extractions = read_answers(rollouts, [False] * len(rollouts), kind=kind, options=options, **reading)
    comparing = {k: v for k, v in values.items() if k in COMPARING}
    sort = partial(classify, [e.answer for e in extractions], kind=kind, options=options)
    classes = sort(**comparing)
    why = {frozenset(pair): ["one value under other units or names"] for pair in classes.apart}
    for spec in ANSWER_SPECS if kind == "math" else ():
        for choice in spec.choices if spec.name in COMPARING else ():
            if choice != comparing.get(spec.name, spec.default):
                for pair in _merged(classes.index, sort(**{**comparing, spec.name: choice}).index):
                    why.setdefault(pair, []).append(f"{spec.name}={choice} joins them")
    return [
        f"{' and '.join(short_answer(classes.answers[i]) for i in sorted(pair))} stay apart: {'; '.join(reasons)}"
        for pair, reasons in list(why.items())[:APART]
    ]


def _merged(here: Sequence[int], there: Sequence[int]) -> list[frozenset[int]]:
    """Pairs of classes of `here` that are one class of `there`, each later one with the first."""
    first: dict[int, int] = {}
    pairs = [frozenset({first.setdefault(b, a), a}) for a, b in zip(here, there, strict=True) if min(a, b) >= 0]
    return [pair for pair in dict.fromkeys(pairs) if len(pair) > 1]


def _rollouts(rows: Sequence[_Row], reply: GroupReply, screen: Screen) -> str:
    value = "reward" if reply.rewards is not None else "advantage"
    columns: dict[str, list[str]] = {
        "rollout": [r.id for r in rows],
        "answer": [short_answer(r.answer) if r.answer is not None else f"none: {r.why}" for r in rows],
        "right": ["-" if r.right is None else "yes" if r.right else "no" for r in rows],
        "entropy": [number(r.entropy, 4) for r in rows],
        value: ["-" if r.value is None else f"{r.value:.6f}" for r in rows],
        "kept": ["yes" if r.kept else "no" for r in rows],
        END: [r.end for r in rows],
    }
    known = {name: cells for name, cells in columns.items() if {*cells} - {"-", ""}}
    whole = _table(known, replace(screen, width=None))
    if screen.width is None or max(map(len, whole.splitlines())) <= screen.width or END not in known:
        return _table(known, screen)
    ends = {"rollout": known["rollout"], END: known.pop(END)}
    return f"{_table(known, screen)}\n\n{_table(ends, screen)}"


def _table(columns: Mapping[str, Sequence[str]], screen: Screen) -> str:
    return table(tuple(columns), list(zip(*columns.values(), strict=True)), on=screen)


# --- the suspicious groups -----------------------------------------------------------------------------------------


def _suspicious(arguments: argparse.Namespace, params: JSON, reader: Reader) -> int:
    screen, closing, faults = screen_of(arguments), Closing(), Faults(reader.unit, warn)
    seen: list[tuple[JSON, GroupReply]] = []
    for place, group, reply in score_all(reader, partial(estimate, method=arguments.method, **params)):
        if isinstance(reply, DareError):
            faults.add(place, reply)
            closing.miss(group)
            continue
        closing.add_scored(group, reply)
        seen.append((group, reply))
    faults.say()
    reader.say(warn)
    if not seen:
        raise RequestError(f"{arguments.file}: no groups", code="empty")
    chosen = most_suspicious(seen, arguments.suspicious)
    if arguments.json:
        print(json.dumps([{"group_id": g["group_id"], "signs": signs(g, r)} for g, r in chosen], indent=1))
    for group, reply in [] if arguments.json else chosen:
        print(group_table(reply, top=SHOWN, on=screen))
        print("\n".join(wrapped(f"- {sign}", screen, indent="  ") for sign in signs(group, reply)) + "\n")
    if not chosen:
        warn("no group is suspicious: in each a clear majority gave one answer")
    closing.say()
    _say_remedy(arguments, [g for g, r in seen if r.error is not None and r.error.code == MISSING], reader)
    return int(len(faults) > 0 or all(r.error is not None for _, r in seen))
