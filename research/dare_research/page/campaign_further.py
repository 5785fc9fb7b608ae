"""What the campaign's page shows beside bars: sets and halves of facts, families, the break-even, and who fell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

import numpy as np

from dare_reward.segments import Floats

from ..statistics.contrasts import contrast
from ..training.arms import ALL_ARMS
from ..training.corpus import REGIMES
from ..training.facts import beside_labels
from ..training.parts import PARTS, STAGE, PlannedPart
from ..training.plan import DEFAULT, fact_set
from ..training.records import TrainedRun, parse
from .bars import FLOOR, verdict
from .dynamics import half_way
from .outcomes import BASE, Study, curve, mean_of
from .registered import Registered, bar_table, judged
from .words import NOTHING, estimate_cells, interval, number, percent, points, signed, table

Plans = Sequence[PlannedPart]
Lines = Sequence[Mapping[str, Any]]
Further = Callable[[Plans, Study, Lines], str]
FELL: Final = 0.05
BREAK_EVEN: Final = (0.53, 0.62)

SETS = """With the runs of E1, whose four bases have the first set of hard facts: mean gain of each set, pass@1 on the
adapted prompts at the final step, in points, and the t interval over the three means."""
DOSES = """Gain on the adapted prompts at the final step, in points, mean of the seeds. AUROC: of the base on these
prompts before training."""
LINE = """| | least-squares line of `dare` - `ttrl` | crosses 0 at | 95% interval | draws that do not rise | bar |
| --- | --- | --- | --- | --- | --- |
| the ten bases | {own} | between .53 and .62: **{word}** |
| with those of E1 and E2 | {all} | |

`calibrated_vote` - `ttrl` over the ten bases: {gain}, bootstrap {ends}, t over bases {over}.
Not worse by 1 point: **{floor}**, on {same} bases by identity, because their exponent is 0."""
ENDS: Final = ("gain", "bootstrap", "t over bases")
FAMILIES = """pass@1 at the final step on the adapted prompts of one family, in points. In `shift` low entropy is a sign
of right answers, in `sub` of wrong ones."""
EXPONENTS = (
    "Exponent of each family, by `calibrate` from its own 16 labelled prompts; in brackets the test's statistic."
)
HALF = """pass@1 at the final step less that of the base, in points. All prompts but some of the adapted ones have a
hard fact."""
HALVES: Final = {
    "adapted": "adapted: first half",
    "known": "new prompts, first half",
    "unseen": "new prompts, second half",
}
CURVES = """Mean pass@1 on the adapted prompts, in per cent, by step; 8 rollouts a prompt between, 64 at the ends.
*Fell*: 5 points or more below the run's own highest evaluation before. *Below*: below its base. *Entropy*: at the end,
in nats a token, mean of the runs."""

HALF_WAY = """Mean rollouts that a run generates until an evaluation (every 8 steps) has a
pass@1 half way from its base to the end of the vote's run of its seed; all of its rollouts where none has, and none
where the vote's run ends below its base."""
FITS = "By `calibrate`, of each seed: exponent (t, Q)."
BY_LABELS = """pass@1 at the final step minus `ttrl`, in points, with the t interval over base means. An arm without
labels as rewards is split by those of `labels_half` of its base and seed. Prompts of the last two columns share no hard
fact with a labelled one."""
LABELS: Final = "labels_half"


def by_family(plans: Plans, study: Study, records: Lines) -> str:
    """Each arm beside the vote on the prompts of one family, and the exponent of each family and base."""
    (plan,) = plans
    (regime,) = plan.regimes
    rows = []
    for family, arm in product(DEFAULT.confirm, plan.arms[1:]):
        found = study.contrast(plan.stage, regime, {(arm, "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}, family=family)
        rows.append([family, f"`{arm}` - `ttrl`", *estimate_cells(found)])
    fitted = {r["base"]: r["calibration_by_family"] for r in records if "calibration_by_family" in r}
    exponents = [
        [
            str(base),
            *(f"{fitted[base][f]['exponent']:+g} ({fitted[base][f]['statistic']:+.1f})" for f in DEFAULT.confirm),
        ]
        for base in sorted(fitted)
    ]
    gains = table(("family", "contrast", *ENDS), rows)
    return f"{FAMILIES}\n\n{gains}\n\n{EXPONENTS}\n\n{table(('base', *DEFAULT.confirm), exponents)}"


def by_half(plans: Plans, study: Study, _: Lines) -> str:
    """What each arm gains over its base, on prompts of either half of the hard facts."""
    (plan,) = plans
    (regime,) = plan.regimes
    rows = []
    for (where, words), arm in product(HALVES.items(), plan.arms):
        start = mean_of(
            base.evaluation.sets[where].pass1
            for number in plan.bases
            if (base := study.base(regime, number, stage=plan.stage))
        )
        found = study.contrast(plan.stage, regime, {(arm, "pass@1"): 1.0, (BASE, "pass@1"): -1.0}, where=where)
        rows.append([words, f"`{arm}`", percent(start), *estimate_cells(found)])
    return f"{HALF}\n\n{table(('prompts', 'arm', 'base', *ENDS), rows)}"


def fact_sets(_: Plans, __: Study, records: Lines) -> str:
    """The gains of each set of facts, with E1's runs, and the t interval over their means."""
    wanted = PARTS["e1"].ids() | PARTS["e2"].ids()
    study = Study(parse([r for r in records if r["record"] != "run" or r["id"] in wanted]))
    rows = []
    for arm, regime in product(("calibrated_vote", "dare"), REGIMES):
        runs, rivals = (study.runs(STAGE, regime, a) for a in (arm, "ttrl"))
        by_base = {base: _gain(runs, rivals, base) for base, _ in runs}
        numbers = sorted({fact_set(base) for base in by_base})
        means = [mean_of(gain for base, gain in by_base.items() if fact_set(base) == n) for n in numbers]
        over = contrast([[np.array([mean])] for mean in means], resamples=1)
        ends = over.over_bases if over else None
        survives = "-" if ends is None else "yes" if ends.low > 0 or ends.high < 0 else "no"
        said = interval(ends.low, ends.high) if ends else "-"
        rows.append([regime, f"`{arm}` - `ttrl`", *map(points, means), said, survives])
    head = ("regime", "contrast", "first set", "second", "third", "t over sets", "survives")
    return f"{SETS}\n\n{table(head, rows)}"


def dose_response(_: Plans, study: Study, records: Lines) -> str:
    """Gain over AUROC: where the line crosses 0, and whether the calibrated vote is ever below the vote."""
    own, others = _dose_points(study, records)
    rows = [
        [regime, str(base), number(auroc), points(dare), points(calibrated)]
        for (regime, base), (auroc, dare, calibrated) in own.items()
    ]
    line = _line(np.array([v[:2] for v in own.values()]))
    both = np.array([v[:2] for v in (own | others).values()])
    told = _told(_line(both)) if others else "E1 and E2 are not all in | | |"
    nested = [
        base
        for regime in PARTS["e3"].regimes
        for base in study.scores(STAGE, regime, {("calibrated_vote", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0})
    ]
    found = contrast(nested, resamples=study.resamples)
    if found is None:
        return NOTHING
    said = LINE.format(
        own=_told(line),
        all=told,
        word="met" if line[0] > 0 and BREAK_EVEN[0] <= line[2] <= BREAK_EVEN[1] else "missed",
        gain=points(found.estimate),
        ends=interval(found.deciding.low, found.deciding.high),
        over=interval(found.over_bases.low, found.over_bases.high),
        floor=verdict(FLOOR, found, 0.0, 0.0),
        same=sum(calibrated == 0 for _, _, calibrated in own.values()),
    )
    head = ("regime", "base", "AUROC", "`dare` - `ttrl`", "`calibrated_vote` - `ttrl`")
    return f"{DOSES}\n\n{table(head, rows)}\n\n![break-even](campaign-break-even.svg)\n\n{said}"


def draw_break_even(figure: Any, study: Study, records: Lines) -> None:
    """The gains of `dose_response` over AUROC, beside those of E1 and E2, and the line of the ten bases."""
    own, others = _dose_points(study, records)
    figure.set_size_inches(6, 4)
    axes = figure.add_subplot()
    series = (
        (others, 1, "dare, E1 and E2", {"color": "#999999", "s": 22}),
        (own, 1, "dare, E3", {"color": "#2b5f9e", "s": 30}),
        (own, 2, "calibrated_vote, E3", {"color": "#b5442e", "s": 30, "marker": "x"}),
    )
    for found, at, label, style in series:
        axes.scatter([v[0] for v in found.values()], [100 * v[at] for v in found.values()], label=label, **style)
    slope, level, zero, *_ = _line(np.array([v[:2] for v in own.values()]))
    ends = np.array([min(v[0] for v in own.values()), max(v[0] for v in own.values())])
    axes.plot(ends, 100 * (slope * ends + level), color="#2b5f9e", linewidth=1)
    axes.axhline(0, color="grey", linewidth=1)
    axes.axvline(zero, color="#2b5f9e", linewidth=1, linestyle=":")
    axes.set(xlabel="AUROC of entropy within prompts, before training", ylabel="gain over the vote, points of pass@1")
    axes.set_title(f"one point a base; the line of dare crosses 0 at {zero:.2f}")
    axes.legend()


def collapsed(plans: Plans, study: Study, _: Lines) -> str:
    """The mean curves of a part's arms, and how many runs ended below what they had reached."""
    rows = []
    steps: list[int] = []
    for stage, regime, arm in _arms(plans):
        runs = study.runs(stage, regime, arm)
        curves = [curve(run, study.base(regime, base, stage=stage)) for (base, _), run in runs.items()]
        steps = [step for step, _ in curves[0]]
        levels = np.array([[level for _, level in own] for own in curves])
        fell = int((levels[:, -1] <= levels[:, 1:-1].max(axis=1) - FELL).sum())
        below = int((levels[:, -1] < levels[:, 0]).sum())
        cells = [percent(level) for level in levels.mean(axis=0)]
        entropy = mean_of(run.final.sets["adapted"].entropy for run in runs.values())
        counts = (f"{count} of {len(curves)}" for count in (fell, below))
        rows.append([regime, f"`{arm}`", *cells, *counts, number(entropy)])
    return f"{CURVES}\n\n{table(('regime', 'arm', *map(str, steps), 'fell', 'below', 'entropy'), rows)}"


def until_half_way(rival: str, words: str, plans: Plans, study: Study, _: Lines) -> str:
    """Rollouts that each arm generates until it is half way from the base to where the rival of its seed ends."""
    rows = []
    for plan, regime in regimes(plans):
        usual = np.nan
        for arm in (rival, *(arm for arm in plan.arms if arm != rival)):
            found = half_way(study, plan.stage, regime, arm, rival).values()
            mean = mean_of(count for count, _ in found)
            usual = mean if arm == rival else usual
            reached = f"{sum(reached for _, reached in found)} of {len(found)}"
            rows.append([regime, f"`{arm}`", f"{mean:,.0f}", number(mean / usual if usual else np.nan), reached])
    return f"{words}\n\n{table(('regime', 'arm', 'rollouts', f'of those of `{rival}`', 'got there'), rows)}"


def bars_without(
    rows: Mapping[int, Registered], bases: Collection[tuple[str, int]], plans: Plans, study: Study, _: Lines
) -> str:
    """These bars again, without some bases: their regimes and numbers."""
    runs = tuple(run for run in study.records.runs if (run.regime, run.base) not in bases)
    left = replace(study, records=replace(study.records, runs=runs), found={})
    return bar_table(judged(left, rows, plans, corrected=(), elsewhere={}))


def by_labels(plans: Plans, study: Study, _: Lines) -> str:
    """What each arm gains on adapted prompts that are labelled, share a hard fact with one, or share none."""
    rows: list[list[str]] = []
    names: Sequence[str] = ()
    for stage, regime, arm in _arms([plan for plan in plans if LABELS in plan.arms], but="ttrl"):
        runs, votes, labels = (study.runs(stage, regime, name) for name in (arm, "ttrl", LABELS))
        gains: dict[str, dict[int, list[Floats]]] = {}
        for (base, seed), run in runs.items():
            split = beside_labels(run.labelled or labels[base, seed].labelled, stage=stage, base=base)
            names = tuple(split)
            own, vote = (r.final.sets["adapted"] for r in (run, votes[base, seed]))
            gain_P = own.right_P / own.n - vote.right_P / vote.n
            for name, chosen in split.items():
                if chosen.any():
                    gains.setdefault(name, {}).setdefault(base, []).append(np.array([gain_P[chosen].mean()]))
        found = [contrast(list(gains.get(name, {}).values()), resamples=1) for name in names]
        rows.append([regime, f"`{arm}`", *(" ".join(estimate_cells(c)[::2]) for c in found)])
    return f"{BY_LABELS}\n\n{table(('regime', 'arm', *names), rows)}"


def fits(plans: Plans, study: Study, _: Lines) -> str:
    """Exponent, t and Q of every fit."""
    arms = list(dict.fromkeys(arm for plan in plans for arm in plan.arms if ALL_ARMS[arm].fits))
    rows = []
    for plan, regime in regimes(plans):
        found = [study.runs(plan.stage, regime, arm) for arm in arms]
        for base in plan.bases:
            own = ([_fit_words(run.calibration) for (b, _), run in sorted(runs.items()) if b == base] for runs in found)
            rows.append([regime, str(base), *("; ".join(words) or "-" for words in own)])
    return f"{FITS}\n\n{table(('regime', 'base', *(f'`{arm}`' for arm in arms)), rows)}"


def _fit_words(fit: Mapping[str, Any]) -> str:
    return f"{signed(fit['exponent'])} ({number(fit['statistic'], '+.1f')}, {number(fit['q'], '.2f')})"


def regimes(plans: Plans) -> list[tuple[PlannedPart, str]]:
    return [(plan, regime) for plan in plans for regime in plan.regimes]


def _arms(plans: Plans, *, but: str = "") -> list[tuple[str, str, str]]:
    """Stage, regime and arm of all runs."""
    return [(plan.stage, regime, arm) for plan, regime in regimes(plans) for arm in plan.arms if arm != but]


def _gain(runs: Mapping[tuple[int, int], TrainedRun], rivals: Mapping[tuple[int, int], TrainedRun], base: int) -> float:
    """Mean over the seeds of a base of the difference of pass@1 on the adapted prompts."""
    return mean_of(
        run.final.sets["adapted"].pass1 - rivals[key].final.sets["adapted"].pass1
        for key, run in runs.items()
        if key[0] == base and key in rivals
    )


Points = dict[tuple[str, int], tuple[float, float, float]]


def _dose_points(study: Study, records: Lines) -> tuple[Points, Points]:
    """Of the bases of E3, and of those of E1 and E2 if these are all in: AUROC, and the gains of `_doses`."""
    own, beside = _doses(study, PARTS["e3"].regimes), PARTS["e1"].ids() | PARTS["e2"].ids()
    if not beside <= {r["id"] for r in records if r["record"] == "run"}:
        return own, {}
    whole = Study(parse([r for r in records if r["record"] != "run" or r["id"] in beside]))
    return own, _doses(whole, REGIMES)


def _doses(study: Study, regimes: Sequence[str]) -> Points:
    """By regime and base: AUROC, and the gains of `dare` and of `calibrated_vote`."""
    found: Points = {}
    for regime in regimes:
        rivals, *arms = (study.runs(STAGE, regime, arm) for arm in ("ttrl", "dare", "calibrated_vote"))
        for base in sorted({base for base, _ in rivals}):
            start = study.base(regime, base, stage=STAGE)
            auroc = start.evaluation.sets["adapted"].auroc if start else np.nan
            dare, calibrated = (_gain(runs, rivals, base) for runs in arms)
            found[regime, base] = (auroc, dare, calibrated)
    return found


def _line(points_BX: Floats, draws: int = 4000) -> tuple[float, float, float, float, float, float]:
    """Slope and level of the least-squares line, where it crosses 0, the percentiles of that, the draws without it."""
    chosen = np.random.default_rng(0).integers(len(points_BX), size=(draws, len(points_BX)))
    slopes, levels = _fit(points_BX[chosen])
    rising = slopes > 1e-12
    zeros = -levels[rising] / slopes[rising]
    low, high = np.quantile(zeros, [0.025, 0.975]) if len(zeros) else (np.nan, np.nan)
    (slope,), (level,) = _fit(points_BX[None])
    return slope, level, -level / slope, float(low), float(high), float(1 - rising.mean())


def _fit(points_DBX: Floats) -> tuple[Floats, Floats]:
    """Slopes and levels of lines through draws of (x, y)."""
    x_DB, y_DB = points_DBX[..., 0], points_DBX[..., 1]
    middle_D, height_D = x_DB.mean(axis=1), y_DB.mean(axis=1)
    away_DB = x_DB - middle_D[:, None]
    spread_D = (away_DB**2).sum(axis=1)
    slopes_D = np.divide((away_DB * y_DB).sum(axis=1), spread_D, out=np.zeros_like(spread_D), where=spread_D > 1e-12)
    return slopes_D, height_D - slopes_D * middle_D


def _told(line: tuple[float, ...]) -> str:
    slope, level, zero, low, high, flat = line
    return f"{100 * slope:+.1f} x AUROC {100 * level:+.1f} | {zero:.3f} | [{low:.3f}, {high:.3f}] | {100 * flat:.1f}%"
