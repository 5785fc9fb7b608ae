"""From records to the nested values that contrasts are made of. Only the final step of complete runs counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb

import numpy as np

from dare_reward.errors import RequestError
from dare_reward.segments import Bools, Floats

from ..statistics.contrasts import MARGIN, RESAMPLES, Contrast, Nested, Shared, contrast
from ..training.arms import ALL_ARMS
from ..training.facts import subset as prompts_of
from ..training.records import Base, Evaluation, Records, Score, TrainedRun

ARMS = tuple(ALL_ARMS)
REGIMES = ("informative", "uninformative", "confident")
SETS = ("adapted", "unseen", "ood")
FINAL = "confirm"  # the stage that counts
BASE = "base"  # the arm that stands for the model before RL

Term = tuple[str, str]  # arm, measure
Of = Callable[[TrainedRun, Base], float]


def _passes(score: Score, k: int) -> Floats:
    """pass@k of each prompt (`dare_reward.analysis.passk.pass_at_k`); NaN below k rollouts."""
    if score.n < k:
        return np.full(len(score.right_P), np.nan)
    all_ways = comb(score.n, k)
    return np.array([1 - comb(score.n - int(c), k) / all_ways for c in score.right_P])


MEASURES: Mapping[str, Callable[[Score], Floats]] = {
    "pass@1": lambda score: score.right_P / score.n,
    "pass@8": lambda score: _passes(score, 8),
    "pass@64": lambda score: _passes(score, 64),
    "maj@64": lambda score: score.majority_P if score.n == 64 else np.full(len(score.right_P), np.nan),
}


@dataclass(frozen=True, slots=True)
class Study:
    """Records, and how contrasts are computed from them. `found` remembers contrasts that were asked for.

    summarised   the records have no lists by prompt: `found` has every contrast, and no other can be computed
    """

    records: Records
    command: str = "dare-reward study train"
    resamples: int = RESAMPLES
    seed: int = 0
    shared: Shared = "base"
    margin: float = MARGIN
    found: dict[str, Contrast | None] = field(default_factory=dict, repr=False, compare=False)
    summarised: bool = False

    def base(self, regime: str, number: int, *, stage: str = FINAL) -> Base | None:
        """The base on the prompts of a stage; if that is not recorded, on those of another."""
        found = [b for b in self.records.bases if (b.regime, b.base) == (regime, number)]
        return next((b for b in found if b.stage == stage), found[0] if found else None)

    def bases(self, regime: str | None = None) -> list[Base]:
        """Those of the confirm runs."""
        return [b for b in self.records.bases if b.stage == FINAL and regime in {None, b.regime}]

    def runs(self, stage: str, regime: str, arm: str) -> dict[tuple[int, int], TrainedRun]:
        """Complete runs by base and seed."""
        return {
            (r.base, r.seed): r
            for r in self.records.runs
            if (r.stage, r.regime, r.arm) == (stage, regime, arm) and r.complete
        }

    def arms(self, stage: str, regime: str | None = None) -> list[str]:
        return in_order(
            {r.arm for r in self.records.runs if r.stage == stage and regime in {None, r.regime} and r.complete}, ARMS
        )

    def regimes(self, stage: str | None = None) -> list[str]:
        """Regimes with complete runs of a stage, or with any record."""
        runs = {r.regime for r in self.records.runs if stage is None or (r.stage == stage and r.complete)}
        return in_order(runs | ({b.regime for b in self.bases()} if stage is None else set()), REGIMES)

    def contrast(
        self,
        stage: str,
        regime: str,
        terms: Mapping[Term, float],
        *,
        where: str = "adapted",
        family: str | None = None,
        subset: str = "",
        resamples: int = 0,
    ) -> Contrast | None:
        """The weighted sum of arms' measures over the pairs that have all of them.

        `subset` is one of `training.facts.SUBSETS`; `NAME, vote right` and `NAME, vote wrong` split it by the base.
        """
        weighed = [(f"{arm} {measure}", weight) for (arm, measure), weight in sorted(terms.items())]
        key = _key(stage, regime, where, family or "", subset, f"{resamples} draws" if resamples else "", weighed)
        return self._found(
            key, lambda: self.scores(stage, regime, terms, where=where, family=family, subset=subset), resamples
        )

    def difference(
        self, stage: str, regime: str, arm: str, rival: str, *, measure: str = "pass@1", where: str = "adapted"
    ) -> Contrast | None:
        return self.contrast(stage, regime, {(arm, measure): 1.0, (rival, measure): -1.0}, where=where)

    def of_runs(self, stage: str, regime: str, weights: Mapping[str, float], value: Of) -> Contrast | None:
        """The weighted sum of a number of each run: bases > seeds > that number."""
        key = _key(stage, regime, value.__name__, sorted(weights.items()))
        return self._found(key, lambda: self.numbers(stage, regime, weights, value))

    def paired(self, runs: Sequence[TrainedRun], rivals: Sequence[TrainedRun]) -> Contrast | None:
        """Runs less their rivals by base and seed: pass@1 on the adapted prompts at the final step."""
        other = {(r.base, r.seed): r for r in rivals}
        both = [(r, other[r.base, r.seed]) for r in runs if (r.base, r.seed) in other]

        def values() -> Nested:
            bases: dict[int, list[Floats]] = {}
            for run, rival in both:
                a, b = (r.final.sets.get("adapted") for r in (run, rival))
                if a and b and len(a.right_P) == len(b.right_P):
                    bases.setdefault(run.base, []).append(a.right_P / a.n - b.right_P / b.n)
            return list(bases.values())

        return self._found("; ".join(f"{run.id} - {rival.id}" for run, rival in both), values)

    def pair_means(self, stage: str, regime: str, arm: str, rival: str) -> Nested:
        """bases > seeds > the difference of pass@1 on the adapted prompts, one number."""
        runs = [self.runs(stage, regime, a) for a in (arm, rival)]

        def at(key: tuple[int, int]) -> Floats | None:
            one, other = (r[key].final.sets.get("adapted") for r in runs)
            return np.array([one.pass1 - other.pass1]) if one and other else None

        return _nested(_keys(runs), at)

    def scores(
        self,
        stage: str,
        regime: str,
        terms: Mapping[Term, float],
        *,
        where: str = "adapted",
        family: str | None = None,
        subset: str = "",
    ) -> Nested:
        """bases > seeds > the weighted sum on each prompt (of a family, of a subset).

        Pairs that lack an arm or a value are out, and bases whose prompts are not those of the design.
        """
        runs = {arm: self.runs(stage, regime, arm) for arm, _ in terms if arm != BASE}

        def at(key: tuple[int, int]) -> Floats | None:
            total: Floats | None = None
            for (arm, measure), weight in terms.items():
                found = self._evaluation(stage, regime, key, arm, runs)
                if found is None or where not in found.sets:
                    return None
                values = weight * MEASURES[measure](found.sets[where])
                if family is not None:
                    values = values[[f == family for f in found.sets[where].family_P]]
                if total is not None and len(total) != len(values):
                    return None
                total = values if total is None else total + values
            if total is not None and subset:
                chosen = self._subset(subset, stage, regime, key[0], where)
                total = total[chosen] if len(chosen) == len(total) else None
            return None if total is None or np.isnan(total).any() else total

        alone = [(b.base, 0) for b in self.bases(regime)]
        return _nested(_keys(runs.values()) if runs else alone, at)

    def numbers(self, stage: str, regime: str, weights: Mapping[str, float], value: Of) -> Nested:
        runs = {arm: self.runs(stage, regime, arm) for arm in weights}

        def at(key: tuple[int, int]) -> Floats | None:
            base = self.base(regime, key[0], stage=stage)
            total = sum(w * value(runs[a][key], base) for a, w in weights.items()) if base else np.nan
            return None if np.isnan(total) else np.array([total])

        return _nested(_keys(runs.values()), at)

    def _subset(self, name: str, stage: str, regime: str, number: int, where: str) -> Bools:
        """Which prompts of a base are in a subset."""
        name, _, vote = name.partition(", vote ")
        chosen = prompts_of(name, stage=stage, base=number, where=where)
        base = self.base(regime, number, stage=stage)
        if not vote or base is None or len(base.evaluation.sets[where].majority_P) != len(chosen):
            return chosen
        right: Bools = base.evaluation.sets[where].majority_P >= 0.5
        return chosen & (right if vote == "right" else ~right)

    def _evaluation(
        self,
        stage: str,
        regime: str,
        key: tuple[int, int],
        arm: str,
        runs: Mapping[str, Mapping[tuple[int, int], TrainedRun]],
    ) -> Evaluation | None:
        if arm != BASE:
            return runs[arm][key].final
        base = self.base(regime, key[0], stage=stage)
        return base.evaluation if base else None

    def _found(self, key: str, values: Callable[[], Nested], resamples: int = 0) -> Contrast | None:
        if key not in self.found:
            if self.summarised:
                raise RequestError(f"the summary has no contrast {key!r}: run `dare-reward study pack`", code="file")
            draws = resamples or self.resamples
            self.found[key] = contrast(values(), resamples=draws, seed=self.seed, shared=self.shared)
        return self.found[key]


def in_order(names: Iterable[str], order: Sequence[str]) -> list[str]:
    """Known names first, in their order; then the rest by name."""
    return sorted(names, key=lambda n: (order.index(n) if n in order else len(order), n))


def curve(run: TrainedRun, base: Base | None, *, where: str = "adapted") -> list[tuple[int, float]]:
    """(step, pass@1) of every evaluation that has the set, from step 0 on.

    Step 0 is the run's own evaluation, or else the base's if that is of prompts of the same families (a run on the
    develop families is not compared with the base's confirm prompts). Without either the curve starts later.
    """
    found = [e for e in run.evaluations if where in e.sets]
    if base and found and found[0].step > 0:
        start = base.evaluation.sets.get(where)
        if start is not None and start.family_P == found[-1].sets[where].family_P:
            found = [base.evaluation, *found]
    return [(e.step, e.sets[where].pass1) for e in found]


def mean_of(values: Iterable[float]) -> float:
    """Mean of what is known; NaN of nothing."""
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else np.nan


def _key(*parts: str | Sequence[tuple[str, float]]) -> str:
    """A contrast's name in the summary: `confirm informative adapted +1 dare pass@1 -1 ttrl pass@1`."""
    words = (p if isinstance(p, str) else " ".join(f"{weight:+g} {name}" for name, weight in p) for p in parts)
    return " ".join(w for w in words if w)


def _keys(runs: Iterable[Mapping[tuple[int, int], TrainedRun]]) -> list[tuple[int, int]]:
    """Base and seed of the pairs that every arm has."""
    sets = [set(r) for r in runs]
    return sorted(set.intersection(*sets)) if sets else []


def _nested(keys: Sequence[tuple[int, int]], at: Callable[[tuple[int, int]], Floats | None]) -> Nested:
    bases: dict[int, list[Floats]] = {}
    for key in keys:
        values = at(key)
        if values is not None and len(values):
            bases.setdefault(key[0], []).append(values)
    return list(bases.values())
