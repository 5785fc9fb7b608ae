"""Runs at other settings: every trial on the develop families, and the sensitivity of the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..training.records import TrainedRun
from .outcomes import ARMS, FINAL, REGIMES, Study, curve, in_order, mean_of
from .tables import rival_of
from .words import interval, percent, points, table

Setting = tuple[float, tuple[tuple[str, Any], ...]]  # learning rate, whatever else differs by name
RunGroup = tuple[str, str, Setting]  # regime, arm, setting
HEAD = ("regime", "arm", "setting", "runs", "adapted", "change", "unseen", "change", "minus the vote", "95%", "pairs")
OWN = "minus its confirm runs"


def scan(study: Study) -> str:
    """The learning-rate scan, the rates that confirm runs took and how many settings each arm was given."""
    words = (
        "Every setting that was tried on the develop families, per cent: means over runs at the final step, change "
        "against step 0 where that is recorded, adapted pass@1 minus that of the vote's arm at the same setting (but "
        "for parameters of the method, if it was not run with these), base and seed. A setting is a learning rate with "
        f"whatever else differs between these runs. `{study.command}`."
    )
    groups = _groups(study, "develop")
    rates = chosen(study)
    rows = []
    for arm in in_order({*rates, *(a for _, a, _ in groups)}, ARMS):
        means: dict[Setting, list[float]] = {}
        for (_, a, setting), runs in groups.items():
            if a == arm:
                means.setdefault(setting, []).append(_mean(runs))
        top = max(means, key=lambda s: mean_of(means[s])) if means else None
        best = f"{_words(top)} ({percent(mean_of(means[top]))})" if top else "-"
        rows.append([arm, str(len(means)), best, rates.get(arm, "-")])
    head = ("arm", "settings tried", "highest mean over regimes, adapted", "rate of the confirm runs")
    return "\n\n".join([words, table(HEAD, _rows(study, groups, ("develop",))), table(head, rows)])


def chosen(study: Study) -> dict[str, str]:
    """Learning rates of the confirm runs, by arm: more than one only if regimes differ."""
    rates: dict[str, set[float]] = {}
    for r in study.records.runs:
        if r.stage == FINAL and r.complete:
            rates.setdefault(r.arm, set()).add(r.lr)
    return {arm: ", ".join(f"{lr:g}" for lr in sorted(found)) for arm, found in rates.items()}


def sensitivity(study: Study) -> str:
    words = (
        "Confirm families, other settings, per cent: as above; a setting names what differs from the confirm runs too. "
        "The vote is that of the same setting, here or among the confirm runs, again but for parameters of the method; "
        "`-` where it was not run. The last column is adapted pass@1 minus that of the arm's own confirm runs, in "
        "which no parameter was set, by base and seed: with its 95% interval and, in round brackets, the pairs. "
        f"`{study.command}`."
    )
    groups = _groups(study, "sensitivity", beside=(FINAL,))
    rows = _rows(study, groups, ("sensitivity", FINAL))
    both = [[*row, _minus_own(study, runs)] for row, runs in zip(rows, groups.values(), strict=True)]
    return f"{words}\n\n{table((*HEAD, OWN), both)}"


def _groups(study: Study, stage: str, *, beside: Sequence[str] = ()) -> dict[RunGroup, list[TrainedRun]]:
    """Complete runs of a stage by regime, arm and setting, in order; `beside`: stages that a setting differs from."""
    varied = _varied([r for r in study.records.runs if r.stage in {stage, *beside} and r.complete])
    groups: dict[RunGroup, list[TrainedRun]] = {}
    for r in study.records.runs:
        if r.stage == stage and r.complete:
            said = {**_conditions(r), **_params(r)}
            setting = (r.lr, tuple((k, said[k]) for k in varied if k in said))
            groups.setdefault((r.regime, r.arm, setting), []).append(r)
    regimes, arms = in_order({g[0] for g in groups}, REGIMES), in_order({g[1] for g in groups}, ARMS)
    order = sorted(groups, key=lambda g: (regimes.index(g[0]), arms.index(g[1]), _size(g[2])))
    return {g: groups[g] for g in order}


def _varied(runs: Sequence[TrainedRun]) -> list[str]:
    """Names of settings that differ between the runs, but the learning rate; then of all parameters that any sets."""
    conditions = [_conditions(r) for r in runs]
    params = {k for r in runs for k in _params(r)}
    differ = {k for c in conditions for k in c if len({other.get(k) for other in conditions}) > 1}
    return [*sorted(differ - params - {"lr"}), *sorted(params)]


def _conditions(run: TrainedRun) -> dict[str, Any]:
    """All settings but parameters of the method."""
    return {k: _plain(v) for k, v in run.settings.items() if k != "params"} | {"lr": run.lr}


def _params(run: TrainedRun) -> dict[str, Any]:
    return {k: _plain(v) for k, v in run.settings.get("params", {}).items()}


def _plain(value: Any) -> Any:
    """What can be hashed and read."""
    return value if isinstance(value, int | float | str) else json.dumps(value, sort_keys=True)


def _size(setting: Setting) -> tuple[Any, ...]:
    """Numbers by size, before words."""
    return setting[0], [(k, isinstance(v, str), v) for k, v in setting[1]]


def _rows(study: Study, groups: Mapping[RunGroup, Sequence[TrainedRun]], stages: Sequence[str]) -> list[list[str]]:
    """`stages`: where the vote is looked for, the first that has it."""
    rows = []
    for (regime, arm, setting), runs in groups.items():
        cells = []
        for where in ("adapted", "unseen"):
            curves = [c for r in runs if (c := curve(r, study.base(regime, r.base, stage=r.stage), where=where))]
            changes = (c[-1][1] - c[0][1] for c in curves if c[0][0] == 0 < c[-1][0])
            cells += [percent(mean_of(c[-1][1] for c in curves)), points(mean_of(changes))]
        rival = rival_of(arm)
        versus = _versus(study, runs, _rivals(study, runs[0], rival, stages)) if arm != rival else ["-", "-", "-"]
        rows.append([regime, arm, _words(setting), str(len(runs)), *cells, *versus])
    return rows


def _rivals(study: Study, run: TrainedRun, rival: str, stages: Sequence[str]) -> list[TrainedRun]:
    """The rival's runs at this run's setting; its parameters are of a method and may mean nothing to another."""
    alike = [r for r in _complete(study, run.regime, rival) if _conditions(r) == _conditions(run)]
    for stage in stages:
        for params in (_params(run), {}):
            if found := [r for r in alike if r.stage == stage and _params(r) == params]:
                return found
    return []


def _minus_own(study: Study, runs: Sequence[TrainedRun]) -> str:
    """The difference to the confirm runs of the same arm, its interval and the number of pairs."""
    arm = _complete(study, runs[0].regime, runs[0].arm)
    estimate, ends, pairs = _versus(study, runs, [r for r in arm if r.stage == FINAL and not _params(r)])
    return "-" if pairs == "-" else " ".join([estimate, *([ends] if ends != "-" else []), f"({pairs})"])


def _complete(study: Study, regime: str, arm: str) -> list[TrainedRun]:
    return [r for r in study.records.runs if (r.regime, r.arm) == (regime, arm) and r.complete]


def _versus(study: Study, runs: Sequence[TrainedRun], rivals: Sequence[TrainedRun]) -> list[str]:
    """The paired difference, its interval and the number of pairs."""
    found = study.paired(runs, rivals)
    if found is None:
        return ["-", "-", "-"]
    return [points(found.estimate), interval(found.deciding.low, found.deciding.high), str(found.pairs)]


def _mean(runs: Sequence[TrainedRun]) -> float:
    return mean_of(r.final.sets["adapted"].pass1 for r in runs if "adapted" in r.final.sets)


def _words(setting: Setting) -> str:
    return ", ".join([f"lr {setting[0]:g}", *(f"{k} {v}" for k, v in setting[1])])
