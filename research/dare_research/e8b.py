"""E8b, the control and more seeds: every figure of docs/campaign-e8b.md, from packed records of
`examples/real_model/train.py`.

    python -m dare_research.e8b RECORDS.jsonl.xz
    python -m dare_research.e8b RECORDS.jsonl.xz FOLDER/runs    puts the runs back, so that `run.py` goes on after them

Bars of seeds use all eight; controls were kept from seed 3 on. The plan says what a word means.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from dare_reward.segments import Floats

from .contrasts import Contrast, contrast, holm, student
from .real_model import training
from .records import read

Record = Mapping[str, Any]
Fate = Literal["above", "below", "equal", "open"]

SIZES: Final = {"bare": 16, "reasoned": 8}
ARMS: Final = ("ttrl", "dare")
FIRST: Final = 3  # seeds before it are E8's, known when this plan was written
SEEDS: Final = range(8)
CONTROLS: Final = {"greedy": 1, "0.3": 4, "0.6": 4}  # rollouts of a question
PARTS: Final = ("adapted", "unseen")
MARGIN: Final = 0.03


@dataclass(frozen=True, slots=True)
class Bar:
    """A contrast in shares of 1 with its p after Holm's correction; 0 where the plan tests no sign."""

    name: str
    found: Contrast
    p: float
    holm: float

    @property
    def fate(self) -> Fate:
        """Both intervals must agree: Student's t over seeds, and the bootstrap of seeds and questions."""
        ends = (self.found.over_pairs, self.found.bootstrap)
        if self.holm < 0.05 and all(e.low > 0 for e in ends):
            return "above"
        if self.holm < 0.05 and all(e.high < 0 for e in ends):
            return "below"
        return "equal" if all(e.low90 > -MARGIN and e.high90 < MARGIN for e in ends) else "open"


def runs(records: Iterable[Record]) -> dict[str, dict[int, dict[str, Record]]]:
    """By form and seed both arms; of a seed that lacks one, none."""
    return training.blocks(
        records, {form: training.RunsOfForm(form, size, ARMS) for form, size in SIZES.items()}, SEEDS
    )


def names(record: Record, part: str) -> list[str]:
    unseen = set(record["unseen"])
    return [n for n in record["before"] if (n in unseen) == (part == "unseen")]


def after(blocks: Mapping[int, Mapping[str, Record]], arm: str, part: str) -> Floats:
    """pass@1 at temperature 1 after training, [S, Q]."""
    own = [block[arm] for block in blocks.values()]
    return np.array([[r["after"][n] / r["evaluated"] for n in names(own[0], part)] for r in own])


def control(blocks: Mapping[int, Mapping[str, Record]], arm: str, part: str, which: tuple[str, str]) -> Floats:
    """Share of right rollouts by a control, [S, Q]; `which`: (greedy, after), for one."""
    name, when = which
    own = [block[arm] for block in blocks.values()]
    return np.array([[r["controls"][when][name][n] / CONTROLS[name] for n in names(own[0], part)] for r in own])


def bars(forms: Mapping[str, Mapping[int, dict[str, Record]]], part: str = "adapted") -> list[Bar]:
    """The plan's bars, in its order, of the forms that have two whole seeds or more."""
    found = [
        _measured(f"{form}: dare - ttrl", after(forms[form], "dare", part) - after(forms[form], "ttrl", part))
        for form in ("reasoned", "bare")
        if len(forms[form]) > 1
    ]
    for form in ("bare", "reasoned"):
        blocks = kept(forms[form])
        for arm in ARMS if len(blocks) > 1 else ():
            gain = control(blocks, arm, part, ("greedy", "after")) - control(blocks, arm, part, ("greedy", "before"))
            found.append(_measured(f"{form}: greedy after {arm} - greedy before", gain))
    tested = [name for name, *_ in found if name != "bare: dare - ttrl"]
    ps = dict(zip(tested, holm([p for name, _, p in found if name in tested]), strict=True))
    return [Bar(name, measured, p, ps.get(name, 1.0)) for name, measured, p in found]


def kept(blocks: Mapping[int, dict[str, Record]]) -> dict[int, dict[str, Record]]:
    """The blocks whose runs kept their controls."""
    return {seed: block for seed, block in blocks.items() if all("controls" in r for r in block.values())}


def _measured(name: str, gains_SQ: Floats) -> tuple[str, Contrast, float]:
    measured = contrast([list(gains_SQ)])
    assert measured
    return name, measured, max(student(gains_SQ.mean(axis=1))[1], measured.p)


def figures(records: Iterable[Record]) -> dict[str, tuple[float, Any]]:
    """What sentences say, by name: bars by the plan's number and `new FORM` with the wider of their 95% intervals, and
    levels, `FORM PART ARM DECODING`."""
    forms = runs(records)
    found = {f"{n}": _wider(bar.found) for n, bar in enumerate(bars(forms), 1)}
    for form, blocks in forms.items():
        new = {seed: block for seed, block in blocks.items() if seed >= FIRST}
        if len(new) > 1:
            found[f"new {form}"] = _wider(difference(form, new, "adapted")[1])
        for part in PARTS if kept(blocks) else ():
            for arm, at in levels(part, kept(blocks)).items():
                found |= {f"{form} {part} {arm} {name}": (at[name], None) for name in at}
    return found


def difference(form: str, blocks: Mapping[int, Mapping[str, Record]], part: str) -> tuple[str, Contrast, float]:
    """pass@1 after `dare` minus that after `ttrl`."""
    return _measured(f"{form}, {part}: dare - ttrl", after(blocks, "dare", part) - after(blocks, "ttrl", part))


def levels(part: str, blocks: Mapping[int, Mapping[str, Record]]) -> dict[str, dict[str, float]]:
    """pass@1 at temperature 1 and by each control: of the untrained model and after each arm."""
    first = next(iter(blocks.values()))["ttrl"]
    before = np.mean([first["before"][n] for n in names(first, part)]) / first["evaluated"]
    found = {
        "untrained": {"sampled": before, **{n: control(blocks, "ttrl", part, (n, "before")).mean() for n in CONTROLS}}
    }
    for arm in ARMS:
        ends = {name: control(blocks, arm, part, (name, "after")).mean() for name in CONTROLS}
        found[arm] = {"sampled": after(blocks, arm, part).mean(), **ends}
    return found


def _wider(found: Contrast) -> tuple[float, Any]:
    return found.estimate, max((found.over_pairs, found.bootstrap), key=lambda ends: ends.high - ends.low)


def table(records: Iterable[Record]) -> str:
    """Bars, the new seeds alone, and levels of every control, as Markdown; points."""
    forms = runs(records)
    lines = ["| bar (adapted) | estimate | t over seeds | bootstrap | Holm's p | fate |", "|---|---|---|---|---|---|"]
    for bar in bars(forms):
        corrected = "-" if bar.name == "bare: dare - ttrl" else f"{bar.holm:.4f}"
        lines.append(f"| {bar.name} | {_points(bar.found)} | {corrected} | {bar.fate} |")
    lines += ["", "| without a bar | seeds | estimate | t over seeds | bootstrap |", "|---|---|---|---|---|"]
    for form, blocks in forms.items():
        new = {seed: block for seed, block in blocks.items() if seed >= FIRST}
        for part, own in (("adapted", new), ("unseen", blocks)):
            if len(own) > 1:
                name, found, _ = difference(form, own, part)
                lines.append(f"| {name} | {', '.join(map(str, own))} | {_points(found)} |")
    lines += ["", "| form, questions | arm | temperature 1 | greedy | .3 | .6 |", "|---|---|---|---|---|---|"]
    for form, blocks in ((form, kept(blocks)) for form, blocks in forms.items()):
        for part in PARTS if blocks else ():
            for arm, at in levels(part, blocks).items():
                lines.append(f"| {form}, {part} | {arm} | {' | '.join(f'{100 * v:.1f}' for v in at.values())} |")
    return "\n".join(lines)


def _points(found: Contrast) -> str:
    ends = (found.over_pairs, found.bootstrap)
    return " | ".join([f"{100 * found.estimate:+.1f}", *(f"{100 * e.low:.1f} to {100 * e.high:.1f}" for e in ends)])


def put_back(records: Iterable[Record], folder: Path) -> None:
    """Files of `examples/real_model/run.py`, those of the untrained model among them; none is written over."""
    for record in records:
        if record["seed"] >= FIRST and "controls" in record:
            name = "-".join(str(record[key]) for key in ("form", "size", "arm", "seed"))
            before = f"before-{record['form']}"
            files = {name: record, before: record["before"], f"{before}-controls": record["controls"]["before"]}
            for stem, content in files.items():
                if not (path := folder / f"{stem}.json").exists():
                    path.write_text(json.dumps(content), encoding="utf-8")


def main(words: Sequence[str]) -> int:
    if len(words) not in {1, 2}:
        print(__doc__, file=sys.stderr)  # noqa: T201
        return 2
    records = list(map(json.loads, read(Path(words[0])).splitlines()))
    if folder := words[1:]:
        put_back(records, Path(*folder))
    else:
        print(table(records))  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
