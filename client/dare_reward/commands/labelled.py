"""Reading labelled rollouts for `calibrate`, `measure` and `report`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Unpack

import numpy as np

from dare_reward.analysis.calibrate import DEFAULTS, Options
from dare_reward.analysis.learnt import Learnt, learnt, visit
from dare_reward.analysis.shown import Shown
from dare_reward.analysis.truth import LABELS, is_known, known_groups
from dare_reward.analysis.verdict import Verdict, judge
from dare_reward.answers.classes import listed
from dare_reward.answers.labels import read_label
from dare_reward.answers.rollouts import ANSWER_SPECS, Readings
from dare_reward.errors import RequestError, counted
from dare_reward.files.entropy_estimates import OTHER, OTHERS
from dare_reward.files.reader import Reader
from dare_reward.groups import Groups
from dare_reward.report.last_steps import LastSteps, Order
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import Prepared, fault_of, prepare_file
from dare_reward.segments import Floats, offsets

from .shared_arguments import bar, warn
from .summary import MismatchedLabels, Placed, ReadSummary
from .tables import number, short_answer


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Groups with their truth; `summary` says what was refused.

    given     the groups as the file has them
    other_R   mean entropies by the other estimate, where `--entropy` makes one and the file has what it is made of
    names     what tells the prompt of each group from the others, and the place where the group stands
    """

    groups: Groups
    correct_R: Floats
    given: tuple[Mapping[str, Any], ...]
    other_R: Floats | None
    names: tuple[tuple[str, str], ...]
    summary: ReadSummary


def read_labelled(
    source: str | Reader,
    *,
    reading: Mapping[str, Any] = MappingProxyType({}),
    only: Collection[str] | None = None,
    tell: Callable[..., None] = warn,
) -> Labelled:
    """Every good group of a file; what is wrong with it is said. RequestError if no group has a label.

    reading      values of `ANSWER_SPECS`: how answers are read and compared
    only         the ids of the groups to read (default: all)
    tell         takes the lines on what is wrong with it
    """
    summary = ReadSummary(Reader(source) if isinstance(source, str) else source, done="read", tell=tell)
    read = bar(summary, "group", summary.reader.expected) if tell is warn else summary
    placed = [item for item in read if only is None or item[1].get("group_id") in only]
    return labelled(placed, summary, reading=reading)


def labelled(
    placed: list[Placed], summary: ReadSummary, *, reading: Mapping[str, Any], readings: Readings | None = None
) -> Labelled:
    """Those of the groups that were read of a file that are good. `readings`: what their texts say, if that is known.

    RequestError if no group has a label.
    """
    file, order = summary.reader.file, Order()
    places = [order.place(meta.get("step"), meta.get("log_time")) for meta in (_meta(group) for _, group in placed)]
    runs = {str(run) for _, group in placed if (run := _meta(group).get("run")) is not None}
    if len(runs) > 1:  # two policies
        two = " and ".join(map(short_answer, sorted(runs)[:2]))
        raise RequestError(
            f"{file} holds several runs ({two}). Name the folder, or keep the lines, of one.", code="file"
        )
    if order.is_run:
        placed = _last_steps(placed, places, summary)
    placed, prepared = _read(placed, reading, summary, readings or Readings())
    summary.say_read()
    if not placed:
        raise RequestError(f"{file}: no groups", code="empty")
    names = [(_name(group, summary.reader), f"{summary.reader.unit} {number_}") for number_, group in placed]
    correct_R = correctness(prepared)
    if np.isnan(correct_R).all():
        why, fix = "no group has a label or `correct` flags", f"Label {LABELS} prompts: dare-reward label {file}"
        if stated := [label for label in prepared.labels if label is not None]:
            why = f"no answer can equal any of its {len(stated)} labels, such as {short_answer(stated[0])}"
            fix = "Are `kind` and `options` right?"
        raise RequestError(f"{file}: {why}, so nothing is decided. {fix}", code="label")
    if not order.is_run:  # of one that collapsed, no answer is right any more
        _check_labels([place for _, place in names], prepared, correct_R, summary)
    given = tuple(group for _, group in placed)
    for good, no_answer in zip(given, prepared.unread, strict=True):
        summary.add(good, no_answer)
    return Labelled(prepared.groups, correct_R, given, _other(given, prepared.groups), tuple(names), summary)


def _other(given: Sequence[Mapping[str, Any]], groups: Groups) -> Floats | None:
    """Mean entropies by the other estimate; those that are no estimates stay."""
    kept = [r.get("meta") or {} for group in given for r in group["rollouts"]]
    if all(meta.get(OTHER) is None for meta in kept):
        return None
    own_R = groups.column("mean_entropy").tolist()
    return np.array([meta.get(OTHER, own) for meta, own in zip(kept, own_R, strict=True)], np.float64)


def judged(data: Labelled, **options: Unpack[Options]) -> Verdict:
    """The verdict of these labels. Where another estimate of the entropies would decide otherwise, it says so."""
    found, estimate = judge(data.groups, data.correct_R, **options), data.summary.reader.missing
    if data.other_R is None or estimate is None or not found.calibration.prompts:
        return found
    than = judge(data.groups.with_column("mean_entropy", data.other_R), data.correct_R, **options)
    if not than.calibration.prompts or (than.use, than.line) == (found.use, found.line):
        return found
    note = f"With --entropy {OTHERS[estimate.source]} the verdict is another: {than.headline} ({than.line})."
    return replace(found, warnings=(*found.warnings, note))


def judged_by(params: Mapping[str, Any]) -> dict[str, Any]:
    """What of a method's parameters the labels are judged by: those of the weight, and of reading answers."""
    reading = {s.name: params[s.name] for s in ANSWER_SPECS if s.name in params}
    return {"reading": reading, **{name: params[name] for name in DEFAULTS if name in params}}


def shown_verdict(read: Callable[..., Labelled], **options: Unpack[Options]) -> Shown:
    """What `dare-reward calibrate` shows of what is read of the command's file, or why it has no verdict."""
    try:
        data = read(reading=options.get("reading", {}))
        refuse_repeats(data)
    except RequestError as error:
        return Shown("These labels give no verdict", str(error))
    return judged(data, **options).shown()


def evaluated(before: str, after: str, *, reading: Mapping[str, Any]) -> Learnt:
    """What training changed, by two files of `dare-reward measure`: of the model before it, and of the one after it."""
    was, now = (read_labelled(file, reading=reading, tell=lambda *_: None) for file in (before, after))
    for data in (was, now):
        refuse_repeats(data)
    later = {name: p for p, (name, _) in enumerate(now.names)}
    places = [(p, later[name]) for p, (name, _) in enumerate(was.names) if name in later]
    if not places:
        raise RequestError(f"{after} has none of the labelled prompts of {before}", code="empty")
    first, last = (visit(data.groups, data.correct_R) for data in (was, now))
    at, then = (list(side) for side in zip(*places, strict=True))
    greedy_P, alone = None, [_meta(was.given[p]).get("greedy") for p in at]  # as `measure` samples it
    if all(isinstance(rollout, Mapping) for rollout in alone):
        controls = ({**was.given[p], "rollouts": [rollout]} for p, rollout in zip(at, alone, strict=True))
        greedy_P = correctness(prepare_file(controls, reading))
    return learnt(first.of(at), last.of(then), greedy_P=greedy_P)


def _meta(group: Mapping[str, Any]) -> Mapping[str, Any]:
    return meta if isinstance(meta := group.get("meta"), Mapping) else {}


def _last_steps(placed: Sequence[Placed], places: Sequence[int], summary: ReadSummary) -> list[Placed]:
    """Of a run, the groups that its labels judge (`LastSteps`)."""
    steps = LastSteps[Placed]()
    for place, (number_, group) in zip(places, placed, strict=True):
        known, meta = is_known(group), _meta(group)
        own = {**group, "meta": None} if meta.get("run") or meta.get("log_time") is not None else group
        name, size = _name(own, summary.reader), len(group["rollouts"]) * known
        steps.add(place, (name, known), (number_, group), labelled=known, rollouts=size)
    last = steps.groups()
    if left := len(placed) - len(last):
        why = f"only the last group of each prompt counts, in the last steps that hold {LABELS} labelled groups"
        summary.move("dropped", why, left)
        summary.tell(f"{counted(left, 'group')} left out: {why}")
    return last


def _check_labels(places: Sequence[str], prepared: Prepared, correct_R: Floats, summary: ReadSummary) -> None:
    """How many labels hold more than their answer is said; RequestError if none of many equals any answer."""
    file = summary.reader.file
    inside = sum(
        any(read_label(one, kind=prepared.kinds[p], options=prepared.options[p]) != one for one in listed(label))
        for p, label in enumerate(prepared.labels)
    )
    if inside:
        summary.tell(f'{file}: read the answer inside {inside} labels (after ####, in a box, behind "the answer is")')
    groups, mismatch = prepared.groups, MismatchedLabels()
    right_P = groups.sum_rollouts(np.nan_to_num(correct_R)) > 0
    for p, low in enumerate(offsets(groups.support_P)[:-1]):
        answers = groups.text_A[low : low + groups.support_P[p]]
        mismatch.add(places[p], prepared.labels[p], answers, right=bool(right_P[p]))
    if mismatch.sentence:
        raise RequestError(f"{file}: {mismatch.sentence}", code="unequal_labels")


def _name(group: Mapping[str, Any], reader: Reader) -> str:
    """A digest of its question, else of its id in its step, else of what it holds: groups without names can be copies.

    The label is part of it: one stem can begin several questions, and some number the groups of each step from 0.
    """
    if prompt := group.get("prompt"):
        parts: list[Any] = ["prompt", prompt, group.get("options")]
    elif reader.gave(group["group_id"]):
        parts = ["content", group["rollouts"]]
    else:
        parts = ["id", group["group_id"], group.get("meta")]
    return hashlib.sha256(json.dumps([*parts, group.get("label")], default=str).encode()).hexdigest()


def refuse_repeats(data: Labelled) -> None:
    """RequestError if a labelled prompt has several groups: tests and intervals take each group for a prompt."""
    known_P = known_groups(data.groups, data.correct_R)
    known = [own for own, is_one in zip(data.names, known_P, strict=True) if is_one]
    first = dict(reversed(known))
    again = [(place, first[name]) for name, place in known if place != first[name]]
    if again:
        place, earlier = again[0]
        raise RequestError(
            f"{data.summary.reader.file}: {len(again)} of {len(data.names)} groups have the prompt of an earlier one "
            f"({place} that of {earlier}). Groups of one prompt are not independent evidence: keep one group of each "
            "prompt, or write all rollouts of a prompt into one group. Give different prompts their `prompt` or "
            "different ids.",
            code="duplicate",
        )


def _read(
    placed: list[Placed], reading: Mapping[str, Any], summary: ReadSummary, readings: Readings
) -> tuple[list[Placed], Prepared]:
    """All groups in one pass. If one of them is at fault, each is read by itself before, and these are refused."""
    with suppress(RequestError):
        return placed, prepare_file((g for _, g in placed), reading, readings=readings)
    good: list[Placed] = []
    for number_, group in placed:
        if fault := fault_of(group, readings, reading):
            summary.refuse(number_, fault, group)
        else:
            good.append((number_, group))
    return good, prepare_file((g for _, g in good), reading, readings=readings)


def interval(ends: Mapping[str, Any], digits: int = 3) -> str:
    """`0.612 [0.580, 0.641]`."""
    if np.isnan(ends["estimate"]):
        return "-"
    return f"{number(ends['estimate'], digits)} [{number(ends['low'], digits)}, {number(ends['high'], digits)}]"
