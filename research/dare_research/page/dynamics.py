"""Tables of what happens on the way: convergence, format, length, entropy, labels, and what treatments change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dare_research.analysis.curves import evaluation_interval, steps_to_threshold

from ..training.arms import ALL_ARMS
from ..training.records import Base, TrainedRun
from .outcomes import ARMS, BASE, FINAL, SETS, Study, curve, in_order, mean_of
from .words import interval, number, pairs, percent, points, sentence, table, verdicts

GAINS = (0.02, 0.05, 0.10, 0.15, 0.20)
VOTING = {"better": "above", "worse": "below", "equivalent": "equal", "undecided": "undecided"}
TREATMENT = ("label_accuracy", "flips", "to_right", "from_right", "cosine_ttrl", "dacc")


def area(run: TrainedRun, base: Base) -> float:
    """Mean pass@1 over the steps, trapezoids between evaluations: what a faster run has more of."""
    steps, values = np.array(curve(run, base), np.float64).reshape(-1, 2).T
    width = np.diff(steps)
    return float(width @ (values[1:] + values[:-1]) / 2 / width.sum()) if width.sum() > 0 else np.nan


def reached(run: TrainedRun, base: Base) -> list[int | None]:
    """The first evaluated step with pass@1 above the base's by each of `GAINS`."""
    values = curve(run, base)
    known = bool(values) and values[0][0] == 0
    return steps_to_threshold(values, [values[0][1] + g for g in GAINS]) if known else [None] * len(GAINS)


def rollouts_until(run: TrainedRun, base: Base | None, target: float) -> tuple[int, bool]:
    """Rollouts generated until an evaluation first has `target` as pass@1 on the adapted prompts, and True; all of the
    run's, and False, where none has."""
    settings = run.settings
    votes = ALL_ARMS[run.arm].votes or settings["votes"]
    by_step = settings["prompts"] * (votes - run.steps.get("votes_saved", np.zeros(settings["steps"])))
    (step,) = steps_to_threshold(curve(run, base), [target])
    return round(by_step[:step].sum()), step is not None


def half_way(study: Study, stage: str, regime: str, arm: str, rival: str) -> dict[tuple[int, int], tuple[int, bool]]:
    """By base and seed, `rollouts_until` the mean of the base's pass@1 and that of the rival's run at its end."""
    ends = study.runs(stage, regime, rival)
    found: dict[tuple[int, int], tuple[int, bool]] = {}
    for key, run in study.runs(stage, regime, arm).items():
        base = study.base(regime, key[0], stage=stage)
        if base is not None and key in ends:
            levels = (base.evaluation.sets["adapted"].pass1, ends[key].final.sets["adapted"].pass1)
            found[key] = rollouts_until(run, base, sum(levels) / 2)
    return found


def spacing(study: Study) -> str:
    """The widest gaps between evaluations that confirm runs have."""
    gaps = {
        evaluation_interval(curve(r, study.base(r.regime, r.base)))
        for r in study.records.runs
        if r.stage == FINAL and r.complete
    }
    return " or ".join(str(g) for g in sorted(g for g in gaps if g is not None)) or "-"


def convergence(study: Study) -> str:
    rows, lines = [], []
    for regime in study.regimes(FINAL):
        for arm in study.arms(FINAL, regime):
            steps = [reached(r, b) for r, b in _based(study, regime, arm)]
            if steps:
                rows.append([regime, arm, str(len(steps)), *map(_median, zip(*steps, strict=True))])
        found = study.of_runs(FINAL, regime, {"dare": 1.0, "ttrl": -1.0}, area)
        what = "mean pass@1 over all steps"
        lines.append(f"* {regime}: {sentence('dare', 'ttrl', found, margin=study.margin, what=what)}")
        lines[-1] += f" {_first(study, regime)}"
    words = (
        "First evaluated step with pass@1 on the adapted prompts above the base's by so many points: the median over "
        "runs, a run that never gets there counted as later than any; in brackets how many do. Evaluations are "
        f"{spacing(study)} steps apart, and steps are known to within that. Stage `{FINAL}`; `{study.command}`."
    )
    head = ("regime", "arm", "runs", *(f"+{100 * g:.0f}" for g in GAINS))
    return "\n\n".join([words, table(head, rows), *(["\n".join(lines)] if lines else [])])


def beyond_majority(study: Study) -> str:
    """Does pass@1 after RL pass what voting on the base already gives?"""
    rows = []
    for regime in study.regimes(FINAL):
        for arm in study.arms(FINAL, regime):
            terms = {(arm, "pass@1"): 1.0, (BASE, "maj@64"): -1.0}
            found = study.contrast(FINAL, regime, terms)
            if found:
                ends, word = found.bootstrap, verdicts(found, margin=study.margin)[0].word
                cells = [pairs(found), points(found.estimate), interval(ends.low, ends.high)]
                rows.append([regime, arm, *cells, VOTING[word]])
    words = f"Adapted prompts, pass@1 at the final step minus maj@64 of the base, points; p not corrected. `{FINAL}`."
    return f"{words}\n\n{table(('regime', 'arm', 'pairs', 'difference', '95%', 'pass@1 against the vote'), rows)}"


def format_gain(study: Study) -> str:
    """pass@1 = parsed x (right among parsed): the gain of each factor at the other's mean of before and after."""
    rows = []
    for regime in study.regimes(FINAL):
        for arm in study.arms(FINAL, regime):
            both = _based(study, regime, arm)
            if both:
                before, after = ([_parsed(r, b)[i] for r, b in both] for i in (0, 1))
                mean = [[mean_of(v[k] for v in values) for values in (before, after)] for k in (0, 1)]
                gains = [mean_of(f(r, b) for r, b in both) for f in (_formatting, reasoning_gain)]
                cells = [f"{percent(a)} to {percent(b)}" for a, b in mean]
                rows.append([regime, arm, str(len(both)), *cells, *map(points, [sum(gains), *gains])])
    words = (
        "Adapted prompts, base to final step, per cent, means over runs. pass@1 = share with an answer x share right "
        "of these; the gain of a factor is taken at the mean of the other before and after, so that both add up. "
        f"Stage `{FINAL}`; `{study.command}`."
    )
    head = ("regime", "arm", "runs", "with an answer", "right of these", "gain", "by format", "by reasoning")
    return f"{words}\n\n{table(head, rows)}"


def reasoning_gain(run: TrainedRun, base: Base) -> float:
    (parsed, right), (parsed_after, right_after) = _parsed(run, base)
    return (right_after - right) * (parsed + parsed_after) / 2


def texture(study: Study) -> str:
    """Length, entropy and diversity, base to final step."""
    reads: Mapping[str, Callable[[Any], float]] = {
        "tokens": lambda s: s.length,
        "nats per token": lambda s: s.entropy,
        "nats of the answers": lambda s: s.answer_entropy,
        "distinct answers": lambda s: s.distinct,
    }
    rows = []
    for regime in study.regimes(FINAL):
        for arm in study.arms(FINAL, regime):
            both = [(b.evaluation.sets["adapted"], r.final.sets["adapted"]) for r, b in _based(study, regime, arm)]
            ends = [[mean_of(read(side[i]) for side in both) for i in (0, 1)] for read in reads.values()]
            if both:
                cells = [f"{number(before)} to {number(after)}" for before, after in ends]
                rows.append([regime, arm, str(len(both)), *cells])
    words = f"Adapted prompts, base to final step, means over runs. Stage `{FINAL}`; `{study.command}`."
    return f"{words}\n\n{table(('regime', 'arm', 'runs', *reads), rows)}"


def labels(study: Study) -> str:
    """How right labels and rewards are, at the start and at the end of training."""
    names = ("label_accuracy", "reward_accuracy", "reward_std", "entropy")
    rows = []
    for regime in study.regimes(FINAL):
        for arm in study.arms(FINAL, regime):
            runs = list(study.runs(FINAL, regime, arm).values())
            cells = []
            for name in names:
                quarters = [_quarters(r.steps[name]) for r in runs if name in r.steps and len(r.steps[name])]
                ends = [mean_of(q[i] for q in quarters) for i in (0, 1)]
                cells.append(f"{number(ends[0])} to {number(ends[1])}" if not np.isnan(ends).all() else "-")
            rows.append([regime, arm, str(len(runs)), *cells])
    words = (
        "On the batches of training: mean of the first quarter of the steps to that of the last; `reward_std` inside a "
        f"group. Stage `{FINAL}`; `{study.command}`."
    )
    return f"{words}\n\n{table(('regime', 'arm', 'runs', *(n.replace('_', ' ') for n in names)), rows)}"


def treatments(study: Study) -> str:
    """How often the arms differ at all, before any training."""
    rows = []
    for regime in study.regimes():
        bases = [b for b in study.bases(regime) if b.treatments]
        for where in in_order({w for b in bases for w in b.treatments}, SETS):
            for arm in in_order({a for b in bases for a in b.treatments.get(where, {})}, ARMS):
                found = [b.treatments[where][arm] for b in bases if arm in b.treatments.get(where, {})]
                rows.append([regime, where, arm, str(len(found)), *(_mean_of_key(found, k) for k in TREATMENT)])
    words = (
        "One step of each arm on the rollouts of the bases before RL, means over bases: share of groups whose label is "
        "right, whose picked answer is not the vote's (flips; to a right one, away from a right one), cosine of its "
        f"advantages with those of `ttrl`, first-order change of accuracy. `{study.command}`."
    )
    return f"{words}\n\n{table(('regime', 'set', 'arm', 'bases', *(n.replace('_', ' ') for n in TREATMENT)), rows)}"


def temperatures(study: Study) -> str:
    """The same at other sampling temperatures, which set how correlated rollouts are."""
    rows = []
    for regime in study.regimes():
        bases = [b for b in study.bases(regime) if b.temperatures]
        for t in sorted({t for b in bases for t in b.by_temperature}, key=float):
            cells = [b.by_temperature[t] for b in bases if t in b.by_temperature]
            rho = _mean_of_key(cells, "rho")
            for arm in in_order({a for c in cells for a, v in c.items() if isinstance(v, Mapping)}, ARMS):
                found = [c[arm] for c in cells if isinstance(c.get(arm), Mapping)]
                rows.append([regime, t, rho, arm, str(len(found)), *(_mean_of_key(found, k) for k in TREATMENT)])
    head = ("regime", "temperature", "rho", "arm", "bases", *(n.replace("_", " ") for n in TREATMENT))
    words = (
        "As above on the adapted prompts, by temperature; `rho` is the intra-group correlation, where it was recorded. "
        f"`{study.command}`."
    )
    return f"{words}\n\n{table(head, rows)}"


def _based(study: Study, regime: str, arm: str) -> list[tuple[TrainedRun, Base]]:
    """Confirm runs whose base is recorded."""
    runs = study.runs(FINAL, regime, arm).values()
    return [(r, b) for r in runs if (b := study.base(regime, r.base)) and "adapted" in r.final.sets]


def _median(steps: tuple[int | None, ...]) -> str:
    """With never as the largest; the lower middle one of an even number."""
    known = sorted(s for s in steps if s is not None)
    middle = (len(steps) - 1) // 2
    return f"{known[middle] if middle < len(known) else 'never'} ({len(known)})"


def _first(study: Study, regime: str) -> str:
    """Who reaches a gain of five points first, pair by pair."""
    at = GAINS.index(0.05)
    runs = [{(r.base, r.seed): reached(r, b)[at] for r, b in _based(study, regime, a)} for a in ("dare", "ttrl")]
    keys = runs[0].keys() & runs[1].keys()
    steps = [[np.inf if (s := r[k]) is None else s for r in runs] for k in keys]
    sooner, later = sum(a < b for a, b in steps), sum(a > b for a, b in steps)
    return f"A gain of 5 points comes sooner with dare in {sooner} of {len(keys)} pairs, later in {later}."


def _parsed(run: TrainedRun, base: Base) -> list[tuple[float, float]]:
    """(share with an answer, share right of these) before and after."""
    scores = (base.evaluation.sets["adapted"], run.final.sets["adapted"])
    return [(s.parsed, s.pass1 / s.parsed if s.parsed > 0 else 0.0) for s in scores]


def _formatting(run: TrainedRun, base: Base) -> float:
    (parsed, right), (parsed_after, right_after) = _parsed(run, base)
    return (parsed_after - parsed) * (right + right_after) / 2


def _quarters(values: Any) -> tuple[float, float]:
    size = max(1, len(values) // 4)
    return mean_of(values[:size]), mean_of(values[-size:])


def _mean_of_key(rows: list[Mapping[str, Any]], key: str) -> str:
    return number(mean_of(np.nan if r.get(key) is None else float(r[key]) for r in rows))
