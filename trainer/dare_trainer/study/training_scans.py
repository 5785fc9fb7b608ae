"""Tables beside the confirm runs: develop, sensitivity, long runs, cost, preflight, and what was not run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from .calibrate import truth_of, wrong_and_decided
from .outcomes import ARMS, REGIMES, Study, curve, in_order, mean_of
from .records import Run
from .training_tables import FINAL
from .training_words import number, percent, points, table

__all__ = ["Wanted", "chosen", "cost", "long_runs", "missing", "preflight", "scan", "sensitivity"]

Wanted = Mapping[tuple[str, str, str], int]  # (stage, regime, arm): pairs
WORDS = ("use", "do not use", "undecided")
TRUTHS = ("better", "equal", "worse")


def scan(study: Study) -> str:
    """The learning-rate scan, the rates that confirm runs took and how many settings each arm was given."""
    words = (
        "Every setting that was tried on the develop families; means over runs, change against the base. A setting "
        f"is a learning rate with whatever else differs between these runs. `{study.command}`."
    )
    parts = [words, _settings_table(study, "develop")]
    runs = [r for r in study.records.runs if r.stage == "develop" and r.complete]
    varied = _varied(runs)
    tried = {arm: len({_setting(r, varied) for r in runs if r.arm == arm}) for arm in _arms(runs)}
    rates = chosen(study)
    rows = [[arm, str(tried.get(arm, 0)), rates.get(arm, "-")] for arm in in_order({*tried, *rates}, ARMS)]
    return "\n\n".join([*parts, table(("arm", "settings tried", "rate of the confirm runs"), rows)])


def chosen(study: Study) -> dict[str, str]:
    """Learning rates of the confirm runs, by arm: more than one only if regimes differ."""
    rates: dict[str, set[float]] = {}
    for r in study.records.runs:
        if r.stage == FINAL and r.complete:
            rates.setdefault(r.arm, set()).add(r.lr)
    return {arm: ", ".join(f"{lr:g}" for lr in sorted(found)) for arm, found in rates.items()}


def sensitivity(study: Study) -> str:
    words = f"Confirm families, other settings; means over runs, change against the base. `{study.command}`."
    return f"{words}\n\n{_settings_table(study, 'sensitivity')}"


def long_runs(study: Study) -> str:
    """Collapse: the highest point of the mean curve says where it turned, and is no result."""
    rows = []
    for regime in study.regimes("long"):
        for arm in study.arms("long", regime):
            runs = list(study.runs("long", regime, arm).values())
            curves: dict[int, list[float]] = {}
            for r in runs:
                for step, value in curve(r, study.base(regime, r.base)):
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
            hours = sum(r.seconds for r in own if r.seconds == r.seconds) / 3600
            each = (mean_of(r.seconds for r in own), mean_of(r.tokens for r in own))
            rows.append([stage, arm, str(len(own)), number(each[0], ".0f"), number(each[1], ",.0f"), f"{hours:.2f}"])
    pretraining = [float(b.pretraining.get("seconds") or 0) for b in study.records.bases]
    words = (
        f"Means per run; {len(runs)} runs, {sum(r.seconds for r in runs if r.seconds > 0) / 3600:.1f} hours, and "
        f"{len(pretraining)} bases pretrained in {sum(pretraining) / 3600:.1f} hours. `{study.command}`."
    )
    return f"{words}\n\n{table(('stage', 'arm', 'runs', 'seconds', 'generated tokens', 'hours in all'), rows)}"


def preflight(study: Study) -> str:
    """The preflight's word against what training did to the same base."""
    rows, counts = [], dict[tuple[str, str], int]()
    for record in study.records.preflights:
        values = [seed.mean() for seed in _of_base(study, record.regime, record.base)]
        if not values:
            continue
        outcome = mean_of(values)
        truth = truth_of(outcome)
        for t in record.tries:
            counts[t["verdict"], truth] = counts.get((t["verdict"], truth), 0) + 1
        said = [sum(t["verdict"] == w for t in record.tries) for w in WORDS]
        auroc = mean_of(float(t["auroc"]) for t in record.tries if t.get("auroc") is not None)
        rows.append([record.regime, str(record.base), number(auroc, ".2f"), points(outcome), truth, *map(str, said)])
    words = (
        "The outcome of a base is its mean `dare` minus `ttrl` (pass@1, adapted prompts, final step, confirm runs), "
        "without an interval: *better* or *worse* by more than a point. `use` is wrong unless dare is better, "
        f"`do not use` is wrong if it is. `{study.command}`."
    )
    parts = [words, table(("regime", "base", "AUROC", "dare - ttrl", "outcome", *WORDS), rows)]
    if counts:
        wrong, decided = wrong_and_decided(counts)
        total = sum(counts.values())
        right = f"{1 - wrong / decided:.0%} of these right" if decided else "none to be right"
        parts.append(f"{total} preflights on {len(rows)} bases: {decided / total:.0%} decided, {right}.")
        parts.append(
            table(
                ("verdict", *(f"outcome: {t}" for t in TRUTHS)),
                [[w, *(str(counts.get((w, t), 0)) for t in TRUTHS)] for w in WORDS],
            )
        )
    return "\n\n".join(parts)


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
    orphans = {(r.regime, r.base) for r in study.records.runs if study.base(r.regime, r.base) is None}
    if orphans:
        names = ", ".join(f"{regime}/{base}" for regime, base in sorted(orphans))
        parts.append(f"Bases with runs but without a record, so without a step 0: {names}.")
    return "\n\n".join(parts)


def _of_base(study: Study, regime: str, base: int) -> Sequence[Any]:
    """Differences per seed of one base."""
    runs = [study.runs(FINAL, regime, a) for a in ("dare", "ttrl")]
    keys = [k for k in runs[0].keys() & runs[1].keys() if k[0] == base]
    scores = [[r[k].final.sets["adapted"] for r in runs] for k in sorted(keys)]
    return [a.right_P / a.n - b.right_P / b.n for a, b in scores]


def _settings_table(study: Study, stage: str) -> str:
    runs = [r for r in study.records.runs if r.stage == stage and r.complete]
    varied = _varied(runs)
    groups: dict[tuple[str, str, str], list[Run]] = {}
    for r in runs:
        groups.setdefault((r.regime, r.arm, _setting(r, varied)), []).append(r)
    rows = []
    for key in sorted(groups, key=lambda k: (*_rank(k[0], REGIMES), *_rank(k[1], ARMS), k[2])):
        cells = []
        for where in ("adapted", "unseen"):
            ends = [curve(r, study.base(r.regime, r.base), where=where) for r in groups[key]]
            known = [(e[0][1], e[-1][1]) for e in ends if e]
            cells += [percent(mean_of(b for _, b in known)), points(mean_of(b - a for a, b in known))]
        rows.append([*key, str(len(groups[key])), *cells])
    head = ("regime", "arm", "setting", "runs", "adapted", "change", "unseen", "change")
    return table(head, rows)


def _varied(runs: Sequence[Run]) -> list[str]:
    """Settings that are not the same in all runs."""
    keys = {k for r in runs for k in r.settings}
    return sorted(k for k in keys if len({json.dumps(r.settings.get(k), sort_keys=True) for r in runs}) > 1)


def _setting(run: Run, varied: Sequence[str]) -> str:
    return ", ".join([f"lr {run.lr:.0e}", *(f"{k} {run.settings.get(k)}" for k in varied)])


def _arms(runs: Sequence[Run]) -> list[str]:
    return in_order({r.arm for r in runs}, ARMS)


def _rank(name: str, order: Sequence[str]) -> tuple[int, str]:
    return (order.index(name) if name in order else len(order), name)
