#!/usr/bin/env python3
"""Does a label-free signal of a step tell that pass@1 is about to fall? Written to research/docs/alarm.md with `--write`.

Over the published runs of the training study (stage confirm, arms without labels), and over those of E7 of the campaign,
which a learning rate forces to collapse. A rule is a signal, a direction and a threshold: it fires at the first step,
from the 8th on, at which the mean of the last 4 steps, over that of the first 4 or less it, passes the threshold. Signal and
threshold are chosen on half of the bases of each regime, and judged on the other half; then the halves change places.
The rules of the report are judged as they are. Nothing is trained, and labels are looked at here only.

    python research/scripts/alarm_evidence.py [--write]
"""

import argparse
import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dare_research.training.grpo_run import REPORTED
from dare_research.training.parts import PARTS
from dare_reward.commands.methods import markdown
from dare_reward.report.verdict import RULES, rules_by_step
from dare_reward.segments import Floats

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "alarm.md"
SIGNALS = ("majority_ratio", "reward_std", "entropy", "length", "grad_norm")  # over their early value
WITHIN, SHARES = ("distinct_across", "distinct_within"), ("invalid", "zero_variance")  # over it, and less it
NOT_LABEL_FREE = ("gt", "random", "format")  # labels, and two controls that reward no answer
WINDOW, FIRST = 4, 8
FALL = 0.02  # of pass@1, below the best evaluation so far
HALVES = ((0, 1), (2, 3))  # bases of each regime
RISE = 0.15  # of the majority share over its early value, as the report's `agreement-rises` wants

JUDGED = ("judged on bases", "rule", "where chosen: falls warned of, false alarms", "falls warned of",
          "steps before (median)", "false alarms", "pass@1 at the stop")  # fmt: skip
RULED = [name for name in RULES if RULES[name].word in ("collapsing", "sharpening")]

Rule = Callable[["Run"], int | None]


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Steps of the evaluations with pass@1 on the adapted prompts, and each signal beside its early value by step.

    fired   the report's rule at each step, if the record holds its figures
    forced  to collapse, by its learning rate
    """

    base: int
    steps: tuple[int, ...]
    accuracy: tuple[float, ...]
    signals: dict[str, Floats]
    fired: tuple[str | None, ...] | None = None
    forced: bool = False

    @property
    def fell(self) -> int | None:
        """The first evaluation that lies FALL below the best one before it, if the last one does so too.

        Of a forced run, the first evaluation from which on all lie below half of the best.
        """
        best = np.maximum.accumulate(self.accuracy)
        if self.forced:
            high = np.flatnonzero(np.array(self.accuracy) >= best / 2)[-1]
            return self.steps[high + 1] if high + 1 < len(self.steps) else None
        low = [s for s, a, b in zip(self.steps, self.accuracy, best, strict=True) if a < b - FALL]
        return low[0] if self.accuracy[-1] < best[-1] - FALL else None

    def at(self, stop: int | None) -> float:
        """pass@1 at the last evaluation that is no later than the stop; without one, at the end."""
        seen = [a for s, a in zip(self.steps, self.accuracy, strict=True) if stop is None or s <= stop]
        return seen[-1]


def runs(path: Path = ROOT / "results" / "training.jsonl.gz") -> Iterator[Run]:
    """Those of stage confirm."""
    bases = {}
    for record in _records(path):
        if record.get("stage") != "confirm":
            continue
        if record["record"] == "base":
            bases[record["regime"], record["base"]] = record
        elif record["record"] == "run" and record["arm"] not in NOT_LABEL_FREE:
            run = _run(record, bases[record["regime"], record["base"]])
            share = moving(record["steps"]["majority_ratio"])
            yield replace(run, signals={**run.signals, "rise": share - share[WINDOW - 1]})


def of_part(part: str, path: Path = ROOT / "results" / "campaign.jsonl.gz") -> Iterator[Run]:
    """Those of a part of the campaign; none before all are in."""
    found, wanted = list(_records(path)), PARTS[part].ids()
    own = [r for r in found if r["id"] in wanted]
    if len(own) < len(wanted):
        return
    bases = {_place(r): r for r in found if r["record"] == "base"}
    for record in own:
        run, signals = _run(record, bases[_place(record)]), record.get("report")
        if signals is None:
            yield run
            continue
        # A step in which no prompt has a label has no distinct labels.
        means = {name: moving([x or 0.0 for x in signals[name]]) for name in (*WITHIN, *SHARES)}
        early = {name: values[WINDOW - 1] for name, values in means.items()}
        with np.errstate(invalid="ignore"):
            more = {n: means[n] / early[n] if n in WITHIN else means[n] - early[n] for n in means}
        fired = tuple(rules_by_step({name: signals[recorded] for name, recorded in REPORTED.items()}))
        yield replace(run, signals={**run.signals, **more}, fired=fired, forced=part == "e7")


def _place(record: dict[str, Any]) -> tuple[str, str, int]:
    """A base of E1 stands there again with the prompts of E6."""
    return record["stage"], record["regime"], record["base"]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        yield from map(json.loads, file)


def _run(record: dict[str, Any], base: dict[str, Any]) -> Run:
    looks = [base["evaluation"], *record["evaluations"]]
    accuracy = tuple(float(np.mean(e["sets"]["adapted"]["right"])) / e["sets"]["adapted"]["n"] for e in looks)
    means = {name: moving(record["steps"][name]) for name in SIGNALS}
    signals = {name: values / values[WINDOW - 1] for name, values in means.items()}
    return Run(record["base"], tuple(e["step"] for e in looks), accuracy, signals)


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


def reported(*rules: str) -> Rule:
    """Fires at the first step, counted from 1, at which one of the report's rules does."""
    return lambda run: next((i for i, rule in enumerate(run.fired or (), 1) if rule in rules), None)


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
    for name in (n for n in (*SIGNALS, *WITHIN, *SHARES) if n in some[0].signals):
        seen = np.concatenate([r.signals[name][FIRST - 1 :] for r in some])
        for sign, word in ((1, "above"), (-1, "below")):
            for level in np.unique(np.nanquantile(seen, np.linspace(0.05, 0.95, 19))):
                beside = (
                    f"{word} its early value by {level:+.3g}"
                    if name in SHARES
                    else f"{word} {level:.3g} of its early value"
                )
                yield f"{name} {beside}", threshold(name, sign, float(level))


def separation(rule: Rule, some: Sequence[Run]) -> float:
    """Share of the falls that it warns of, less the share of false alarms."""
    found = judged(rule, some)
    return found.warned / max(found.falls, 1) - found.false / max(found.others, 1)


def rows(every: Sequence[Run], named: Sequence[tuple[str, Rule]], stops: Sequence[int]) -> Iterator[list[str]]:
    """What is chosen on half of the bases, and what `named` says, judged on the other half."""
    for chosen_on, judged_on in (HALVES, HALVES[::-1]):
        known = [r for r in every if r.base in chosen_on]
        asked = [r for r in every if r.base in judged_on]
        best = max(candidates(known), key=lambda c: separation(c[1], known))
        useful = max(candidates(known), key=lambda c: judged(c[1], known).accuracy)
        fixed = max(((f"stop after {n} steps", after(n)) for n in stops), key=lambda c: judged(c[1], known).accuracy)
        rules = (("never stop", never), fixed, ("separates best: " + best[0], best[1]),
                 ("ends highest: " + useful[0], useful[1]), *named)  # fmt: skip
        place = " and ".join(map(str, judged_on))
        for name, rule in rules:
            own = judged(rule, known)
            yield [place, name, f"{own.warned}/{own.falls}, {own.false}/{own.others}", *cells(judged(rule, asked))]
        yield [place, "the best evaluation, which labels tell", "", "", "", "", best_evaluation(asked)]


def cells(found: Judged) -> list[str]:
    lead = "-" if found.lead is None else f"{found.lead:g}"
    return [f"{found.warned}/{found.falls}", lead, f"{found.false}/{found.others}", f"{found.accuracy:.1f}"]


def best_evaluation(some: Sequence[Run]) -> str:
    return f"{100 * float(np.mean([max(r.accuracy) for r in some])):.1f}"


def never(_: Run) -> None:
    """Does not fire."""


def slight() -> str:
    """The runs of the study, whose falls are slight."""
    rise = (f"majority_ratio more than {RISE:g} above its early value", threshold("rise", 1, RISE))
    return falls(list(runs()), "32 steps", [rise], (8, 16, 24))


def longer() -> str:
    """Those of E5, some of which fall far."""
    every = list(of_part("e5"))
    return falls(every, "96 steps", [], (8, 16, 24, 32, 48, 64, 80)) if every else "The runs of E5 are not all in.\n"


def falls(every: Sequence[Run], length: str, named: Sequence[tuple[str, Rule]], stops: Sequence[int]) -> str:
    lowest = min(r.accuracy[-1] - max(r.accuracy) for r in every)
    fell = sum(r.fell is not None for r in every)
    return (
        f"{len(every)} runs of {length}; {fell} fall by more than {100 * FALL:g} points of pass@1 below their best "
        f"evaluation, the worst by {-100 * lowest:.1f}.\n\n{markdown(JUDGED, list(rows(every, named, stops)))}\n"
    )


def collapses() -> str:
    """Those of E7, which a learning rate forces: the report's rules on all of them, then chosen rules as above."""
    every = list(of_part("e7"))
    if not every:
        return "The runs of E7 are not all in.\n"
    collapsing = [name for name in RULED if RULES[name].word == "collapsing"]
    words = [("*collapsing*", reported(*collapsing)), ("*sharpening* or *collapsing*", reported(*RULED))]
    named = [("never stop", never), ("stop after 8 steps", after(8)), *((f"`{n}`", reported(n)) for n in RULED), *words]
    table = []
    for name, rule in named:
        at = [step for run in every if (step := rule(run)) is not None]
        table.append(
            [name, f"{len(at)}/{len(every)}", f"{np.median(at):g}" if at else "-", *cells(judged(rule, every))]
        )
    table.append(["the best evaluation, which labels tell", "", "", "", "", "", best_evaluation(every)])
    fell = [r.fell for r in every if r.fell is not None]
    halves = list(rows(every, words, (8, 16, 24, 32, 48)))
    return (
        f"{len(every)} runs of 64 steps; {len(fell)} collapse: they end below half of their best pass@1. "
        f"{fell.count(8)} had fallen at step 8, the first evaluation.\n\n"
        f"{markdown(('rule', 'fires in', 'at step (median)', *JUDGED[3:]), table)}\n\n{markdown(JUDGED, halves)}\n"
    )


def unforced() -> str:
    """Those of the parts that came later and were not forced: the report's rules, and the one that E5 chose."""
    collapsing = [name for name in RULED if RULES[name].word == "collapsing"]
    named = [("*collapsing*", reported(*collapsing)), ("*sharpening* or *collapsing*", reported(*RULED)),
             ("majority_ratio below 1.02 of its early value", threshold("majority_ratio", -1, 1.02))]  # fmt: skip
    table = []
    for parts, length in ((("e2", "e3", "e4", "e6"), "32"), (("e1e",), "512")):
        every = [run for part in parts for run in of_part(part)]
        for name, rule in named:
            found = judged(rule, every)
            counts = (f"{found.warned}/{found.falls}", f"{found.false}/{found.others}")
            table.append([", ".join(p.replace("e", "E", 1) for p in parts), length, str(len(every)), name, *counts])
    return markdown(("runs of", "steps", "runs", "rule", "falls warned of", "false alarms"), table) + "\n"


BLOCKS = {"alarm": slight, "longer": longer, "unforced": unforced, "forced": collapses}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the table into research/docs/alarm.md")
    if not parser.parse_args().write:
        print("\n".join(made() for made in BLOCKS.values()))
        return 0
    page = PAGE.read_text()
    for name, made in BLOCKS.items():
        begin, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, _, rest = page.partition(begin)
        page = before + begin + made() + end + rest.partition(end)[2]
    PAGE.write_text(page)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
