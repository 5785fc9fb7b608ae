"""Runs at other settings: every trial on the develop families, and the sensitivity of the outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import numpy as np

from .outcomes import ARMS, FINAL, REGIMES, Study, curve, in_order, mean_of
from .records import Run
from .training_tables import rival_of
from .training_words import interval, percent, points, table

__all__ = ["chosen", "scan", "sensitivity"]

Group = tuple[str, str, tuple[float, str]]  # regime, arm, setting
HEAD = ("regime", "arm", "setting", "runs", "adapted", "change", "unseen", "change", "minus the vote", "95%", "pairs")


def scan(study: Study) -> str:
    """The learning-rate scan, the rates that confirm runs took and how many settings each arm was given."""
    words = (
        "Every setting that was tried on the develop families, per cent: means over runs at the final step, change "
        "against step 0 where that is recorded, adapted pass@1 minus that of the vote's arm at the same setting, base "
        f"and seed. A setting is a learning rate with whatever else differs between these runs. `{study.command}`."
    )
    groups = _groups(study, "develop")
    rates = chosen(study)
    rows = []
    for arm in in_order({*rates, *(a for _, a, _ in groups)}, ARMS):
        means: dict[tuple[float, str], list[float]] = {}
        for (_, a, setting), runs in groups.items():
            if a == arm:
                means.setdefault(setting, []).append(_mean(runs))
        top = max(means, key=lambda s: mean_of(means[s])) if means else None
        best = f"{_words(top)} ({percent(mean_of(means[top]))})" if top else "-"
        rows.append([arm, str(len(means)), best, rates.get(arm, "-")])
    head = ("arm", "settings tried", "highest mean over regimes, adapted", "rate of the confirm runs")
    return "\n\n".join([words, table(HEAD, _rows(study, groups, {})), table(head, rows)])


def chosen(study: Study) -> dict[str, str]:
    """Learning rates of the confirm runs, by arm: more than one only if regimes differ."""
    rates: dict[str, set[float]] = {}
    for r in study.records.runs:
        if r.stage == FINAL and r.complete:
            rates.setdefault(r.arm, set()).add(r.lr)
    return {arm: ", ".join(f"{lr:g}" for lr in sorted(found)) for arm, found in rates.items()}


def sensitivity(study: Study) -> str:
    words = (
        "Confirm families, other settings, per cent: as above; the vote at the same setting, or else that of the "
        f"confirm runs. `{study.command}`."
    )
    groups = _groups(study, "sensitivity")
    confirm: dict[tuple[str, str], list[Run]] = {}
    for r in study.records.runs:
        if r.stage == FINAL and r.complete:
            confirm.setdefault((r.regime, r.arm), []).append(r)
    return f"{words}\n\n{table(HEAD, _rows(study, groups, confirm))}"


def _groups(study: Study, stage: str) -> dict[Group, list[Run]]:
    """Complete runs of a stage by regime, arm and setting, in order."""
    runs = [r for r in study.records.runs if r.stage == stage and r.complete]
    keys = {k for r in runs for k in r.settings}
    varied = sorted(k for k in keys if len({json.dumps(r.settings.get(k), sort_keys=True) for r in runs}) > 1)
    groups: dict[Group, list[Run]] = {}
    for r in runs:
        rest = ", ".join(f"{k} {r.settings[k]}" for k in varied if k in r.settings)
        groups.setdefault((r.regime, r.arm, (r.lr, rest)), []).append(r)
    regimes, arms = in_order({g[0] for g in groups}, REGIMES), in_order({g[1] for g in groups}, ARMS)
    order = sorted(groups, key=lambda g: (regimes.index(g[0]), arms.index(g[1]), g[2]))
    return {g: groups[g] for g in order}


def _rows(
    study: Study, groups: Mapping[Group, Sequence[Run]], otherwise: Mapping[tuple[str, str], Sequence[Run]]
) -> list[list[str]]:
    rows = []
    for (regime, arm, setting), runs in groups.items():
        cells = []
        for where in ("adapted", "unseen"):
            curves = [c for r in runs if (c := curve(r, study.base(regime, r.base, stage=r.stage), where=where))]
            changes = (c[-1][1] - c[0][1] for c in curves if c[0][0] == 0 < c[-1][0])
            cells += [percent(mean_of(c[-1][1] for c in curves)), points(mean_of(changes))]
        rival = rival_of(arm)
        rivals = groups.get((regime, rival, setting)) or otherwise.get((regime, rival), ())
        versus = _versus(study, runs, rivals) if arm != rival else ["-", "-", "-"]
        rows.append([regime, arm, _words(setting), str(len(runs)), *cells, *versus])
    return rows


def _versus(study: Study, runs: Sequence[Run], rivals: Sequence[Run]) -> list[str]:
    """The paired difference, its interval and the number of pairs."""
    other = {(r.base, r.seed): r.final.sets.get("adapted") for r in rivals}
    bases: dict[int, list[np.ndarray[tuple[int], np.dtype[np.float64]]]] = {}
    for r in runs:
        a, b = r.final.sets.get("adapted"), other.get((r.base, r.seed))
        if a and b and len(a.right_P) == len(b.right_P):
            bases.setdefault(r.base, []).append(np.asarray(a.right_P / a.n - b.right_P / b.n))
    found = study.interval(list(bases.values()))
    if found is None:
        return ["-", "-", "-"]
    return [points(found.estimate), interval(found.deciding.low, found.deciding.high), str(found.pairs)]


def _mean(runs: Sequence[Run]) -> float:
    scores = [r.final.sets["adapted"] for r in runs if "adapted" in r.final.sets]
    return mean_of(float((s.right_P / s.n).mean()) for s in scores)


def _words(setting: tuple[float, str]) -> str:
    return ", ".join([f"lr {setting[0]:g}", *([setting[1]] if setting[1] else [])])
