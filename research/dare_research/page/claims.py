"""The paper's claims on models that were trained: each with a verdict per regime, in words that the numbers allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..statistics.contrasts import Contrast, Judgement, judge
from ..training.records import Base, TrainedRun
from .dynamics import area
from .outcomes import FINAL, REGIMES, Study, mean_of
from .tables import PRIMARY, factors, secondary
from .words import interval, number, pairs, points


@dataclass(frozen=True, slots=True)
class TrainedClaim:
    """One claim, where the paper makes it, what these runs say, the numbers, and which regimes they are from."""

    title: str
    source: str
    verdict: str
    finding: str
    scope: str


JSON = Mapping[str, Any]
ContrastRow = tuple[str, str, Contrast | None]  # regime, what is contrasted, numbers


def judge_training(study: Study) -> list[TrainedClaim]:
    return [claim(study) for claim in CLAIMS]


def overall(words: Sequence[str]) -> str:
    """One verdict from those of the parts; `better` is what the claim says."""
    if not words:
        return "not run"
    better = sum(w == "better" for w in words)
    if better == len(words):
        return "holds"
    if better:
        return "in part"
    decided = sum(w != "undecided" for w in words)
    if not decided:
        return "undecided"
    return "does not hold" if decided == len(words) else "does not hold where decided"


def _claim(
    study: Study, title: str, source: str, rows: Sequence[ContrastRow], *, extra: str = "", margin: float | None = None
) -> TrainedClaim:
    known = [
        (regime, what, found, _judged(found, study.margin if margin is None else margin))
        for regime, what, found in rows
        if found
    ]
    parts: dict[str, list[str]] = {}
    for regime, what, found, word in known:
        parts.setdefault(what, []).append(f"{regime} {_numbers(found)}, {word}")
    finding = ". ".join(f"{what}: {'; '.join(said)}" for what, said in parts.items())
    absent = [r for r in REGIMES if r not in {regime for regime, *_ in known}]
    scope = ", ".join(dict.fromkeys(regime for regime, *_ in known)) or "no regime"
    return TrainedClaim(
        title,
        source,
        overall([word.word for *_, word in known]),
        f"{finding or 'No run says anything of it'}.{extra}",
        scope + (f" (not run: {', '.join(absent)})" if absent else ""),
    )


def _judged(found: Contrast, margin: float) -> Judgement:
    """By the wider of the bootstrap and the t interval: a claim is about the method, not about these bases."""
    p = max(found.deciding_p, found.p_bases)
    return judge(found.deciding.wider(found.over_bases), margin=margin, p=p)


def _numbers(found: Contrast) -> str:
    ends = found.deciding
    return f"{points(found.estimate)} {interval(ends.low, ends.high)} ({pairs(found)})"


def _each(study: Study, arm: str, rival: str, *, measure: str = "pass@1", where: str = "adapted") -> list[ContrastRow]:
    what = f"{arm} - {rival}" + (f" on {where}" if where != "adapted" else "")
    return [
        (regime, what, study.difference(FINAL, regime, arm, rival, measure=measure, where=where))
        for regime in study.regimes(FINAL)
    ]


def final_accuracy(study: Study) -> TrainedClaim:
    first = study.difference(FINAL, PRIMARY, "dare", "ttrl")
    extra = "" if first else f" The primary contrast (regime {PRIMARY}) was not run."
    return _claim(study, "dare ends above ttrl", "section 4.2, main table", _each(study, "dare", "ttrl"), extra=extra)


def baselines(study: Study) -> TrainedClaim:
    rows = [row for rival in ("intuitor", "rent", "empo", "scrl") for row in _each(study, "dare", rival)]
    return _claim(study, "dare ends above the other label-free methods", "section 4.2, main table", rows)


def faster(study: Study) -> TrainedClaim:
    rows: list[ContrastRow] = [
        (regime, "mean pass@1 over all steps, dare - ttrl", study.of_runs(FINAL, regime, {"dare": 1, "ttrl": -1}, area))
        for regime in study.regimes(FINAL)
    ]
    return _claim(study, "training with dare converges faster than with ttrl", "section 4.6", rows)


def generalises(study: Study) -> TrainedClaim:
    rows = [row for where in ("unseen", "ood") for row in _each(study, "dare", "ttrl", where=where)]
    title = "dare generalises better than ttrl to what it was not adapted on"
    extra = ' Most hard facts of unseen prompts occur in adapted ones: see "Unseen prompts, by their facts".'
    return _claim(study, title, "section 4.3", rows, extra=extra)


def distribution(study: Study) -> TrainedClaim:
    rows = [*_each(study, "empo", "ttrl"), *_each(study, "dare_dist", "ttrl")]
    effects = [(r, factors(study, r)) for r in study.regimes(FINAL)]
    parts = [
        f"{regime} soft label {points(e['soft label'].estimate)}, entropy {points(e['entropy'].estimate)}"
        for regime, e in effects
        if e["soft label"] and e["entropy"]
    ]
    extra = f" Effects in the 2 x 2: {'; '.join(parts)}." if parts else ""
    return _claim(study, "a reward from the distribution of answers beats the vote", "section 4.4", rows, extra=extra)


def components(study: Study) -> TrainedClaim:
    rows = [row for arm in ("dare_dist_bonus", "dare_dist_prune", "dare") for row in _each(study, arm, "dare_dist")]
    return _claim(study, "bonus and pruning each add to the distribution reward", "section 4.4, ablation table", rows)


def entropy(study: Study) -> TrainedClaim:
    """The twin is what earns the credit; the AUROC says where it could."""
    twins: list[ContrastRow] = [
        (s.regime, "dare - its shuffled twin", s.found) for s in secondary(study) if s.rival == "dare_shuffled"
    ]
    parts = []
    for regime in study.regimes():
        scores = [b.evaluation.sets["adapted"] for b in study.bases(regime)]
        aurocs = [mean_of(getattr(s, name) for s in scores) for name in ("auroc", "auroc_wrong_mode")]
        if not np.isnan(aurocs).all():
            parts.append(f"{regime} {number(aurocs[0], '.2f')} ({number(aurocs[1], '.2f')} where the vote is wrong)")
    extra = f" Within-group AUROC of entropy: {', '.join(parts)}." if parts else ""
    title = "low entropy marks right answers, and the reward gains by it"
    return _claim(study, title, "sections 1 and 3.1", twins, extra=extra)


def pruning(study: Study) -> TrainedClaim:
    rows: list[ContrastRow] = [
        (
            regime,
            "within-group deviation of rewards (x 100), dare_dist - dare_dist_prune",
            study.of_runs(FINAL, regime, {"dare_dist": 1, "dare_dist_prune": -1}, reward_deviation),
        )
        for regime in study.regimes(FINAL)
    ]
    # A deviation of rewards has no margin that means anything: nothing is called equivalent.
    return _claim(study, "pruning reduces the variance of rewards", "figure 1b, section 3.3", rows, margin=0.0)


def diversity(study: Study) -> TrainedClaim:
    rows = _each(study, "dare", "ttrl", measure="pass@64")
    return _claim(study, "dare keeps more of the answers' diversity (pass@64)", "sections 1 and 4.2", rows)


def correlation(study: Study) -> TrainedClaim:
    """One step at other temperatures: not training, so it is described and not judged."""
    parts = []
    for regime in study.regimes():
        found = []
        for t in sorted({t for b in study.bases(regime) for t in b.by_temperature}, key=float):
            cells = [b.by_temperature[t] for b in study.bases(regime) if t in b.by_temperature]
            paths = (("ttrl", "dacc"), ("dare", "dacc"), ("rho",))
            vote, dare, rho = (mean_of(_known(c, path) for c in cells) for path in paths)
            if not np.isnan([vote, dare]).any():
                correlated = "" if np.isnan(rho) else f" (rho {rho:.2f})"
                found.append(f"ttrl {vote:+.3f} and dare {dare:+.3f} at temperature {t}{correlated}")
        parts += [f"{regime} {', '.join(found)}"] if len(found) > 1 else []
    trained = any(r.settings.get("temperature", 1) != 1 for r in study.records.runs)
    end = "Runs at other temperatures are under Sensitivity." if trained else "No training at other temperatures."
    return TrainedClaim(
        "dare degrades less than the vote as rollouts become correlated",
        "section 4.5",
        "described only" if parts else "not run",
        f"Change of accuracy by one step before RL: {'; '.join(parts)}. {end}" if parts else "No record says anything.",
        ", ".join(p.split()[0] for p in parts) or "no regime",
    )


def _known(cell: JSON, path: Sequence[str]) -> float:
    value: Any = cell
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return np.nan if value is None else float(value)


def reward_deviation(run: TrainedRun, _: Base) -> float:
    return mean_of(run.steps.get("reward_std", ()))


CLAIMS: tuple[Callable[[Study], TrainedClaim], ...] = (
    final_accuracy,
    faster,
    generalises,
    baselines,
    distribution,
    components,
    entropy,
    correlation,
    diversity,
    pruning,
)
