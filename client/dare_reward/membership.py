"""Which rollouts are one group, and what a disagreement is: one rule, which every way in uses.

A rollout comes as a `Member`: your own `item`, and what it says of its group. `gather` returns the groups:

    for group in gather(Member(row, prompt=row["prompt"], label=row["label"], size=8) for row in rows):
        group.refusal     # None, or a RequestError whose code names the disagreement: score nothing of this group
        group.items       # your rollouts, in order
        group.fields()    # what stands beside them in a group of POST /reward

Members of one place (run, step, version: `place_of`) that share a key are one group. Without a key the prompt tells
them apart. A label never does. What a member does not state, it does not dispute.

    members of one group                          the group
    ------------------------------------------    --------------------------------------------------------------------
    two prompts, kinds, options or sizes          refused: prompt_, kind_, options_ or size_conflict
    one index twice, with other content           refused: index_conflict; with the same content they are one member
    more under a key than the stated size         refused: size_conflict
    more of one prompt, and no index              in order, as many groups as the stated size fills, and a rest
    a key again, in a later stretch of a file     two groups, unless its run is mixed: some stretch has a lone rollout
    more than half of the stated size             scored, and flagged `partial`
    half of it or fewer                           equal rewards, flagged `neutral`
    labels of one value, however they are spelt   has that label
    labels that contradict each other             has none, flagged `label_conflict`; the method `gt` refuses it
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final, Generic, TypeVar

from .answers import Kind, option_letters
from .answers.classes import Labels, classes_of, listed
from .answers.labels import read_labels
from .answers.rollouts import number_text
from .answers.rules import DEFAULT, Rules
from .errors import RequestError

T = TypeVar("T")
Place = tuple[str | None, ...]
PLACE: Final = ("run", "step", "global_step", "epoch", "policy_version", "weight_version")
NOWHERE: Final[Place] = (None,) * len(PLACE)
WHOLE: Final = re.compile(r"(-?(?:0|[1-9]\d*))(?:\.0+)?")  # 7 and 7.0, but not 007, which may be a name


def plain(value: Any, *loc: str) -> str | None:
    """A name or a number as one text, so that 1, 1.0, "1" and "1.0" are one; None for nothing.

    RequestError at `loc` for what is neither.
    """
    if value is None or value == "" or value != value:  # noqa: PLR0124  (NaN, which pandas writes for nothing)
        return None
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise RequestError("must be a text or a number", loc=loc, code="type")
    whole = WHOLE.fullmatch(text := value if isinstance(value, str) else number_text(value))
    return whole[1] if whole else text


def place_of(record: Mapping[str, Any]) -> Place:
    """Where in training a record's rollouts belong: its fields of `PLACE`. RequestError for one that is no name."""
    return tuple([plain(record.get(name), name) for name in PLACE])


@dataclass(frozen=True, slots=True)
class Member(Generic[T]):
    """One rollout, and what it says of its group; None for what it does not say.

    item      your own; `gather` does not look at it
    key       what siblings share, and nobody else of this place
    prompt    what the rollout answers, as a text or anything that compares
    size      rollouts that the group was to have
    index     the rollout's own place or id within the group
    content   what tells the rollout from another with its index; without it every two differ
    stretch   of the stretches of a file in which its step stands, as where a resumed run writes it again, the rollout's
    """

    item: T
    key: str | None = None
    prompt: Hashable = None
    place: Place = NOWHERE
    kind: Kind | None = None
    options: Any = None
    label: Labels | None = None
    size: int | None = None
    index: int | str | None = None
    content: Hashable = field(default_factory=object)
    stretch: int = 0


@dataclass(frozen=True, slots=True)
class FormedGroup(Generic[T]):
    """The members of one group, and what they agree on.

    label_conflict   their labels contradict each other, so `label` is None
    copies           members that came again with the same index and content, and are left out
    repeated         another group of this key or prompt stands before it
    refusal          why nothing of it is scored
    """

    members: tuple[Member[T], ...]
    prompt: Hashable = None
    kind: Kind | None = None
    options: Any = None
    label: Labels | None = None
    label_conflict: bool = False
    size: int | None = None
    copies: tuple[Member[T], ...] = ()
    repeated: bool = False
    refusal: RequestError | None = None

    @property
    def items(self) -> list[T]:
        """The rollouts, by their indices where all have a number, else in the order in which they came."""
        return [member.item for member in self.members]

    def fields(self) -> dict[str, Any]:
        """What stands beside the rollouts in a group of `POST /reward`; not its name and its prompt, which you have."""
        short = None if self.size == len(self.members) else self.size
        known = {"kind": self.kind, "options": self.options, "label": self.label, "group_size": short}
        known["label_conflict"] = self.label_conflict or None
        return {name: value for name, value in known.items() if value is not None}


def gather(
    members: Iterable[Member[T]], *, rules: Rules = DEFAULT, after_each: Callable[[], None] = lambda: None
) -> list[FormedGroup[T]]:
    """The groups, in the order of their first members.

    rules       by which answers, and so labels, compare
    after_each  is called after each label that is read, and may raise to end the work
    """
    found: dict[tuple[Place, bool, Hashable], dict[int, list[Member[T]]]] = {}
    for member in members:
        if member.key is None and member.prompt is None:
            raise ValueError("a member needs a key or a prompt")
        name = (member.place, member.key is None, member.prompt if member.key is None else member.key)
        found.setdefault(name, {}).setdefault(member.stretch, []).append(member)
    lone = (name for name, parts in found.items() if len(parts) > 1 and min(map(len, parts.values())) < 2)
    mixed = {place[0] for place, *_ in lone}
    out = []
    for (place, *_), stretches in found.items():
        for n, part in enumerate(_parts(list(stretches.values()), mixed=place[0] in mixed)):
            out.append(_formed(part, repeated=n > 0, rules=rules, after_each=after_each))
    return out


def _parts(parts: Sequence[Sequence[Member[T]]], *, mixed: bool) -> Iterator[Sequence[Member[T]]]:
    """A group for each stretch, and for each stated size of it. In a run whose lines are mixed, stretches are none."""
    for part in [[member for each in parts for member in each]] if mixed else parts:
        sizes = {m.size for m in part if m.size is not None}
        unnamed = len(sizes) == 1 and all(m.key is None and m.index is None for m in part)
        step = min(sizes) if unnamed else len(part)
        yield from (part[at : at + step] for at in range(0, len(part), step))


def _formed(
    members: Sequence[Member[T]], *, repeated: bool, rules: Rules, after_each: Callable[[], None]
) -> FormedGroup[T]:
    unique, copies = _without_copies(members)
    if all(isinstance(m.index, int) for m in unique):
        unique.sort(key=lambda m: int(m.index or 0))
    stated: dict[str, list[Any]] = {
        "prompt": _stated(m.prompt for m in members),
        "kind": _stated(m.kind for m in members),
        "options": _stated(_letters(m.options) for m in members),
        "size": _stated(m.size for m in members),
    }
    first = {name: values[0] if values else None for name, values in stated.items()}
    labels, kind, options = [m.label for m in members], first["kind"], first["options"]
    label, conflict = agreed_label(labels, kind, options, rules=rules, after_each=after_each)
    first["options"] = next((m.options for m in members if m.options is not None), None)  # as they were written
    return FormedGroup(
        tuple(unique), **first, label=label, label_conflict=conflict, copies=tuple(copies), repeated=repeated,
        refusal=_refusal(unique, stated),
    )  # fmt: skip


def _without_copies(members: Sequence[Member[T]]) -> tuple[list[Member[T]], list[Member[T]]]:
    """The members without those that came again, and these."""
    seen: set[Hashable] = set()
    out: tuple[list[Member[T]], list[Member[T]]] = [], []
    for member in members:
        name = (member.index, member.content)
        out[member.index is not None and name in seen].append(member)
        seen.add(name)
    return out


def _stated(values: Iterable[Any]) -> list[Any]:
    """The different ones that are stated."""
    return list(dict.fromkeys(value for value in values if value is not None))


def _letters(options: Any) -> Hashable:
    """The letters of a choice: 4 and A to D are one. What is no such thing stays, for what scores the group to say."""
    if options is None:
        return None
    try:
        return tuple(option_letters(options))
    except RequestError:
        return options if isinstance(options, Hashable) else repr(options)


def _refusal(members: Sequence[Member[Any]], stated: Mapping[str, Sequence[Any]]) -> RequestError | None:
    """The first disagreement, in an order that is not the members'."""
    for name, values in stated.items():
        if len(values) > 1:
            why = f"its rollouts disagree in {name}: give each group a key of its own"
            return RequestError(why, code=f"{name}_conflict")
    counts = Counter(m.index for m in members if m.index is not None)
    if twice := sorted((str(index) for index, count in counts.items() if count > 1)):
        message = f"rollout {twice[0][:64]} stands twice with other content: give each rollout an index of its own"
        return RequestError(message, code="index_conflict")
    for size in stated["size"]:
        outside = [m.index for m in members if isinstance(m.index, int) and not 0 <= m.index < size]
        if outside or len(members) > size:
            why = f"rollout {min(outside)}" if outside else f"{len(members)} rollouts"
            return RequestError(f"{why} of a group of {size}: one group has one size", code="size_conflict")
    return None


def label_text(value: str | float, kind: Kind | None = None, options: Any = None) -> str:
    """One right answer as a text: of the kind choice a whole number is the index of the option, from 0 on, as data sets
    write it, and stands for its letter. RequestError for an index of no option."""
    if isinstance(value, str | bool):
        return str(value)
    text = number_text(value)
    if kind != "choice" or not text.isdecimal():
        return text
    letters = _letters(options) or option_letters(None)
    if not isinstance(letters, tuple) or int(text) >= len(letters):
        raise RequestError(f"{text} is the index of no option: the first is 0", loc=("label",), code="label")
    return str(letters[int(text)])


def agreed_label(
    labels: Iterable[Labels | None],
    kind: Kind | None = None,
    options: Any = None,
    *,
    rules: Rules = DEFAULT,
    after_each: Callable[[], None] = lambda: None,
) -> tuple[Labels | None, bool]:
    """The label that all of these are, in its shortest spelling, and whether they contradict each other.

    Labels agree that accept the same answers. One that no answer can equal says nothing.
    """
    spelt = sorted({tuple(listed(label)) for label in labels if label}, key=lambda each: (sum(map(len, each)), each))
    if len(spelt) > 1:
        kind, letters = kind or "math", _letters(options)
        letters = letters if isinstance(letters, tuple) else None
        read = {each: read_labels(each, kind=kind, options=letters) for each in spelt}
        spelt = [each for each in spelt if read[each]] or spelt[:1]
        answers = [answer for each in spelt for answer in read[each]]
        index = iter(classes_of(answers, kind, letters, rules, after_each=after_each).index)
        if len({frozenset(next(index) for _ in read[each]) for each in spelt}) > 1:
            return None, True
    label: Any = list(spelt[0]) if spelt else [None]
    return label[0] if len(label) == 1 else label, False
