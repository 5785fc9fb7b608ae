"""Tables beside the confirm runs: long runs, cost, preflight, and what was not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dare_reward.segments import Floats

from ..training.records import TrainedRun
from .outcomes import ARMS, FINAL, REGIMES, Study, curve, in_order, mean_of
from .words import number, percent, points, table

Wanted = Mapping[tuple[str, str, str], int]  # (stage, regime, arm): pairs
OTHER_TRAINER = "openrlhf"
NONE: Floats = np.zeros(0)
WORDS = ("use", "do not use", "undecided")
TRUTHS = ("better", "equal", "worse")
LEVEL_WITH = 0.01  # dare and the vote end level


def long_runs(study: Study) -> str:
    """Collapse: the highest point of the mean curve says where it turned, and is no result."""
    rows = []
    for regime in study.regimes("long"):
        for arm in study.arms("long", regime):
            runs = list(study.runs("long", regime, arm).values())
            curves: dict[int, list[float]] = {}
            for r in runs:
                for step, value in curve(r, study.base(regime, r.base, stage="long")):
                    curves.setdefault(step, []).append(value)
            means = {step: mean_of(v) for step, v in sorted(curves.items()) if len(v) == len(runs)}
            if not means:
                continue
            top = max(means, key=means.__getitem__)
            finals = [r.final.sets["adapted"] for r in runs if "adapted" in r.final.sets]
            ends = (percent(mean_of(s.parsed for s in finals)), number(mean_of(s.answer_entropy for s in finals)))
            first, last = min(means), max(means)
            cells = (percent(means[first]), f"{percent(means[top])} at {top}", percent(means[last]))
            rows.append([regime, arm, str(len(runs)), str(last), *cells, *ends])
    head = (
        "regime",
        "arm",
        "runs",
        "steps",
        "pass@1 first",
        "highest",
        "last",
        "with an answer",
        "nats of the answers",
    )
    words = f"Stage `long`, adapted prompts, means over runs by step. `{study.command}`."
    return f"{words}\n\n{table(head, rows)}"


def cost(study: Study) -> str:
    """Time and generated tokens."""
    rows = []
    runs = study.records.runs
    for stage in in_order({r.stage for r in runs}, ("pilot", "develop", FINAL, "sensitivity", "long")):
        for arm in _arms([r for r in runs if r.stage == stage]):
            own = [r for r in runs if (r.stage, r.arm) == (stage, arm)]
            hours = sum(r.seconds for r in own if r.seconds > 0) / 3600
            each = (mean_of(r.seconds for r in own), mean_of(r.tokens for r in own))
            rows.append([stage, arm, str(len(own)), number(each[0], ".0f"), number(each[1], ",.0f"), f"{hours:.2f}"])
    trained = [t.seconds for t in study.records.trunks if t.seconds > 0]
    trained += [float(b.pretraining.get("seconds") or 0) for b in study.records.bases]
    trunks = f" from {len(study.records.trunks)} trunks" if study.records.trunks else ""
    pretraining = f"{len({(b.regime, b.base) for b in study.records.bases})} bases{trunks}"
    words = (
        f"Means per run; {len(runs)} runs, {sum(r.seconds for r in runs if r.seconds > 0) / 3600:.1f} hours. "
        f"Pretraining: {pretraining}, {sum(trained) / 3600:.1f} hours recorded. `{study.command}`."
    )
    return f"{words}\n\n{table(('stage', 'arm', 'runs', 'seconds', 'generated tokens', 'hours in all'), rows)}"


def trainers(study: Study) -> str:
    """The same bases, prompts and settings in two trainers."""
    rows = []
    for r in sorted((r for r in study.records.runs if r.stage == OTHER_TRAINER and r.complete), key=lambda r: r.id):
        start = study.base(r.regime, r.base)
        same = [own for (base, _), own in study.runs(FINAL, r.regime, r.arm).items() if base == r.base]
        ends = [own.final.sets["adapted"].pass1 for own in same]
        begun = start.evaluation.sets["adapted"] if start else None
        cells = (
            percent(begun.pass1) if begun else "-",
            percent(r.final.sets["adapted"].pass1),
            f"{percent(mean_of(ends))} ({percent(min(ends))} to {percent(max(ends))})" if ends else "-",
            " / ".join(percent(v) for v in _quarters(r.steps.get("pass1", NONE))),
            " / ".join(
                percent(mean_of(q)) for q in zip(*(_quarters(o.steps.get("pass1", NONE)) for o in same), strict=False)
            ),
        )
        rows.append([r.regime, str(r.base), r.arm, str(len(same)), *cells])
    words = (
        "pass@1 on adapted prompts, one run each in the released OpenRLHF (vLLM with the plugin, the agent, one "
        "grouped request a prompt; bf16) beside those of TRL (fp32) on the same base, with the same service: at the "
        "end, and on the batches of training by quarter of the steps. `python research/scripts/study_openrlhf.py`."
    )
    head = ("regime", "base", "arm", "TRL runs", "base model", "OpenRLHF", "TRL", "quarters, OpenRLHF", "quarters, TRL")
    return f"{words}\n\n{table(head, rows)}"


def _quarters(values: Floats) -> list[float]:
    count = len(values)
    return [mean_of(values[i * count // 4 : (i + 1) * count // 4]) for i in range(4)] if count >= 4 else []


def truth_of(difference: float) -> str:
    return "better" if difference > LEVEL_WITH else "worse" if difference < -LEVEL_WITH else "equal"


def wrong_and_decided(found: Mapping[tuple[str, str], int]) -> tuple[int, int]:
    """`use` is wrong unless better, `do not use` is wrong if better: an equal method is not worth its cost."""
    better = ("do not use", "better")
    wrong = sum(n for (v, t), n in found.items() if (v == "use" and t != "better") or (v, t) == better)
    return wrong, sum(n for (v, _), n in found.items() if v != "undecided")


def preflight(study: Study) -> str:
    """The word of the preflight of that time against what training did to the same base."""
    rows, counts = [], dict[int, dict[tuple[str, str], int]]()
    for record in study.records.preflights:
        values = _of_base(study, record.regime, record.base)
        if not values:
            continue
        outcome = mean_of(values)
        truth = truth_of(outcome)
        tries = [t for t in record.tries if "exponent" not in t]  # of the rule of that time
        for t in tries:
            table_of = counts.setdefault(int(t["prompts"]), {})
            table_of[t["verdict"], truth] = table_of.get((t["verdict"], truth), 0) + 1
        if not tries:
            continue
        said = [sum(t["verdict"] == w for t in tries) for w in WORDS]
        auroc = mean_of(float(t["auroc"]) for t in tries if t.get("auroc") is not None)
        rows.append([record.regime, str(record.base), number(auroc, ".2f"), points(outcome), truth, *map(str, said)])
    words = (
        "The words are those of the rule of that time, which compared one step's gain of `dare` with that of the vote "
        "and AUROC with .5. It is gone: `dare-reward preflight` now compares label accuracy and fits an exponent "
        "([calibration.md](calibration.md)). The outcome of a base is its mean `dare` minus `ttrl` (pass@1, adapted "
        "prompts, final step, confirm runs), without an interval: *better* or *worse* by more than a point. `use` is "
        "wrong unless dare is better, `do not use` is wrong if it is. Preflights of one base share its outcome. "
        f"`{study.command}`."
    )
    parts = [words, table(("regime", "base", "AUROC", "dare - ttrl", "outcome", *WORDS), rows)]
    lines = [
        [str(size), w, *(str(found.get((w, t), 0)) for t in TRUTHS), _right(found) if w == WORDS[-1] else ""]
        for size, found in sorted(counts.items())
        for w in WORDS
    ]
    if lines:
        head = ("prompts", "verdict", *(f"outcome: {t}" for t in TRUTHS), "decided, right of these")
        parts.append(table(head, lines))
    return "\n\n".join(parts)


def _right(found: Mapping[tuple[str, str], int]) -> str:
    wrong, decided = wrong_and_decided(found)
    return f"{decided / sum(found.values()):.0%}, {1 - wrong / decided:.0%}" if decided else "0%, -"


def missing(study: Study, wanted: Wanted) -> str:
    """Planned cells that have fewer complete runs than planned, and runs that did not end."""
    rows = []
    for stage, regime, arm in sorted(wanted, key=lambda k: (k[0], *_rank(k[1], REGIMES), *_rank(k[2], ARMS))):
        count = len(study.runs(stage, regime, arm))
        if count < wanted[stage, regime, arm]:
            rows.append([stage, regime, arm, str(wanted[stage, regime, arm]), str(count)])
    parts = [table(("stage", "regime", "arm", "planned", "run"), rows) if rows else "Every planned cell was run."]
    broken = [r.id for r in study.records.runs if not r.complete]
    if broken:
        parts.append(f"Runs without an evaluation at their last step, left out: {', '.join(sorted(broken))}.")
    seen: dict[tuple[object, ...], int] = {}
    for r in study.records.runs:
        if r.stage == FINAL and r.complete:
            key = (r.regime, r.base, r.arm, r.seed)
            seen[key] = seen.get(key, 0) + 1
    if twice := ["/".join(map(str, key)) for key, count in seen.items() if count > 1]:
        parts.append(f"Confirm runs at more than one setting, of which the last counts: {', '.join(twice)}.")
    orphans = {(r.regime, r.base) for r in study.records.runs if not study.base(r.regime, r.base)}
    if orphans:
        names = ", ".join(f"{regime}/{base}" for regime, base in sorted(orphans))
        parts.append(f"Bases with runs but without a record, so without a step 0: {names}.")
    return "\n\n".join(parts)


def _of_base(study: Study, regime: str, base: int) -> list[float]:
    """Differences per seed of one base."""
    runs = [study.runs(FINAL, regime, a) for a in ("dare", "ttrl")]
    keys = [k for k in runs[0].keys() & runs[1].keys() if k[0] == base]
    scores = [[r[k].final.sets["adapted"] for r in runs] for k in sorted(keys)]
    return [a.pass1 - b.pass1 for a, b in scores]


def _arms(runs: Sequence[TrainedRun]) -> list[str]:
    return in_order({r.arm for r in runs}, ARMS)


def _rank(name: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)
