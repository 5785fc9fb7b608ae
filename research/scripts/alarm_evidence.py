#!/usr/bin/env python3
"""Does a label-free signal of a step tell that pass@1 is about to fall? Written to research/docs/alarm.md with `--write`.

Over the published runs of the training study (stage confirm, arms without labels). A rule is a signal, a direction and a
threshold: it fires at the first step, from the 8th on, at which the mean of the last 4 steps over that of the first 4
passes the threshold. Signal and threshold are chosen on half of the bases of each regime, and judged on the other half;
then the halves change places. Nothing is trained, and labels are looked at here only.

    python research/scripts/alarm_evidence.py [--write]
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward._segments import Floats

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "alarm.md"
SIGNALS = ("majority_ratio", "reward_std", "entropy", "length", "grad_norm")
NOT_LABEL_FREE = ("gt", "random", "format")  # labels, and two controls that reward no answer
WINDOW, FIRST = 4, 8
FALL = 0.02  # of pass@1, below the best evaluation so far
HALVES = ((0, 1), (2, 3))  # bases of each regime
RISE = 0.15  # of the majority share over its early value, as the report's `agreement-rises` wants

Rule = Callable[["Run"], int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Steps of the evaluations with pass@1 on the adapted prompts, and each signal over its early value by step."""

    base: int
    steps: tuple[int, ...]
    accuracy: tuple[float, ...]
    signals: dict[str, Floats]

    @property
    def fell(self) -> int | None:
        """The first evaluation that lies FALL below the best one before it, if the last one does so too."""
        best = np.maximum.accumulate(self.accuracy)
        low = [s for s, a, b in zip(self.steps, self.accuracy, best, strict=True) if a < b - FALL]
        return low[0] if self.accuracy[-1] < best[-1] - FALL else None

    def at(self, stop: int | None) -> float:
        """pass@1 at the last evaluation that is no later than the stop; without one, at the end."""
        seen = [a for s, a in zip(self.steps, self.accuracy, strict=True) if stop is None or s <= stop]
        return seen[-1]


def runs(path: Path = ROOT / "results" / "training.jsonl.gz") -> Iterator[Run]:
    bases: dict[tuple[str, int], dict[str, Any]] = {}
    with gzip.open(path, "rt") as file:
        for record in map(json.loads, file):
            if record.get("stage") != "confirm":
                continue
            place = (record["regime"], record["base"])
            if record["record"] == "base":
                bases[place] = record["evaluation"]
            elif record["record"] == "run" and record["arm"] not in NOT_LABEL_FREE:
                looks = [bases[place], *record["evaluations"]]
                accuracy = tuple(
                    float(np.mean(e["sets"]["adapted"]["right"])) / e["sets"]["adapted"]["n"] for e in looks
                )
                means = {name: moving(record["steps"][name]) for name in SIGNALS}
                signals = {name: values / values[WINDOW - 1] for name, values in means.items()}
                signals["rise"] = means["majority_ratio"] - means["majority_ratio"][WINDOW - 1]
                yield Run(record["base"], tuple(e["step"] for e in looks), accuracy, signals)


def moving(values: Sequence[float]) -> Floats:
    """Mean of the last WINDOW values at each step; NaN where there are fewer."""
    sums = np.cumsum([0.0, *values])
    return np.concatenate([np.full(WINDOW - 1, np.nan), (sums[WINDOW:] - sums[:-WINDOW]) / WINDOW])


def threshold(name: str, sign: int, level: float) -> Rule:
    """Fires at the first step, counted from 1, at which the signal is above (sign 1) or below (-1) the level."""

    def fires(run: Run) -> int | None:
        passed = sign * run.signals[name][FIRST - 1 :] > sign * level
        return int(passed.argmax()) + FIRST if passed.any() else None

    return fires


def after(steps: int) -> Rule:
    return lambda _: steps


@dataclass(frozen=True, slots=True)
class Judged:
    """What a rule does to runs: of those that fall, how many it stops before the fall shows and by how many steps; of
    the others, how many it stops; mean pass@1 where each run ends."""

    falls: int
    warned: int
    lead: float | None
    others: int
    false: int
    accuracy: float


def judged(rule: Rule, some: Sequence[Run]) -> Judged:
    falling = [r for r in some if r.fell is not None]
    steady = [r for r in some if r.fell is None]
    leads = [r.fell - at for r in falling if r.fell is not None and (at := rule(r)) is not None and at < r.fell]
    return Judged(
        len(falling),
        len(leads),
        float(np.median(leads)) if leads else None,
        len(steady),
        sum(rule(r) is not None for r in steady),
        100 * float(np.mean([r.at(rule(r)) for r in some])),
    )


def candidates(some: Sequence[Run]) -> Iterator[tuple[str, Rule]]:
    """Thresholds at quantiles of what the runs themselves show."""
    for name in SIGNALS:
        seen = np.concatenate([r.signals[name][FIRST - 1 :] for r in some])
        for sign, word in ((1, "above"), (-1, "below")):
            for level in np.quantile(seen, np.linspace(0.05, 0.95, 19)):
                yield f"{name} {word} {level:.3g} of its early value", threshold(name, sign, float(level))


def separation(rule: Rule, some: Sequence[Run]) -> float:
    """Share of the falls that it warns of, less the share of false alarms."""
    found = judged(rule, some)
    return found.warned / found.falls - found.false / found.others


def rows(every: Sequence[Run]) -> Iterator[list[str]]:
    for chosen_on, judged_on in (HALVES, HALVES[::-1]):
        known = [r for r in every if r.base in chosen_on]
        asked = [r for r in every if r.base in judged_on]
        best = max(candidates(known), key=lambda c: separation(c[1], known))
        useful = max(candidates(known), key=lambda c: judged(c[1], known).accuracy)
        fixed = max(
            ((f"stop after {n} steps", after(n)) for n in (8, 16, 24)), key=lambda c: judged(c[1], known).accuracy
        )
        names = (("never stop", lambda _: None), fixed, ("separates best: " + best[0], best[1]),
                 ("ends highest: " + useful[0], useful[1]),
                 (f"majority_ratio more than {RISE:g} above its early value", threshold("rise", 1, RISE)))  # fmt: skip
        for name, rule in names:
            own, other = judged(rule, known), judged(rule, asked)
            lead = "-" if other.lead is None else f"{other.lead:g}"
            yield [
                " and ".join(map(str, judged_on)), name, f"{own.warned}/{own.falls}, {own.false}/{own.others}",
                f"{other.warned}/{other.falls}", lead, f"{other.false}/{other.others}", f"{other.accuracy:.1f}",
            ]  # fmt: skip
        yield [" and ".join(map(str, judged_on)), "the best evaluation, which labels tell", "", "", "", "",
               f"{100 * float(np.mean([max(r.accuracy) for r in asked])):.1f}"]  # fmt: skip


def table() -> str:
    """What `--write` puts into the page."""
    every = list(runs())
    lowest = min(r.accuracy[-1] - max(r.accuracy) for r in every)
    head = ["judged on bases", "rule", "where chosen: falls warned of, false alarms", "falls warned of",
            "steps before (median)", "false alarms", "pass@1 at the stop"]  # fmt: skip
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows(every))]
    fell = sum(r.fell is not None for r in every)
    return (
        f"{len(every)} runs of 32 steps; {fell} fall by more than {100 * FALL:g} points of pass@1 below their best "
        f"evaluation, the worst by {-100 * lowest:.1f}.\n\n" + "\n".join(lines) + "\n"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into research/docs/alarm.md")
    if not parser.parse_args().write:
        print(table())
        return 0
    begin, end = "<!-- alarm -->\n", "<!-- end -->"
    before, _, rest = PAGE.read_text().partition(begin)
    PAGE.write_text(before + begin + table() + end + rest.partition(end)[2])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
