"""AUROC and label gain of each weight, against the number of steps, the distinct paths of an answer, and the share of
answers that are copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dare_reward.segments import Floats

from ..real_model.bootstrap import draws, estimate
from ..real_model.derive import SIZES, auroc
from ..real_model.sample import question
from ..real_model.weights import label_right
from ..training.families import CHAINS
from ..training.plan import REASONING

JSON = Mapping[str, Any]
# E9's names: the weight, and what a right rollout is expected to have less of. `tie` goes by the trace's.
WEIGHTS: Final[Mapping[str, str]] = MappingProxyType(
    {"trace": "trace^1", "answer": "answer^1", "ppc": "ppc", "rpc": "rpc", "p_answer": "p_answer", "tie": "tie"}
)
UNCERTAINTIES: Final[Mapping[str, Callable[[Mapping[str, Floats]], Floats]]] = MappingProxyType(
    {
        "trace": lambda c: c["entropy"],
        "answer": lambda c: c["closed_entropy"],
        "ppc": lambda c: -c["logprob"],
        "rpc": lambda c: -c["logprob"] / c["tokens"],
        "p_answer": lambda c: -c["closed_logprob"],
    }
)
BASES: Final = (400, 401)
PATHS: Final = (1.0, 2.0, 4.0, 8.0, np.inf)  # edges of the groups of problems, by distinct paths of an answer
COPIED: Final = (0.0, 0.25, 0.5, 0.75, 1.0)  # and by the share of answers that are copied


@dataclass(frozen=True, slots=True)
class MeasuredProblem:
    """One problem of one base.

    pass1, tokens      shares of right rollouts, mean length
    paths              distinct token sequences for each distinct answer, of the rollouts with an answer
    copied             share of these whose box repeats the last step's result
    values             by size of group: `vote`, `label: WEIGHT` (how often right) and `auroc: WEIGHT`, None for no
                       group with right and wrong rollouts
    """

    regime: str
    base: int
    family: str
    pass1: float
    tokens: float
    paths: float
    copied: float
    values: Mapping[str, Mapping[str, float | None]]


def measured(regime: str, base: int, line: JSON) -> MeasuredProblem:
    own = question(line)
    answered = own.answer_M >= 0
    answers = max(len(set(own.answer_M[answered].tolist())), 1)
    values = {str(size): _values(own, size) for size in SIZES if size <= len(own.answer_M)}
    return MeasuredProblem(
        regime,
        base,
        own.family,
        float(own.right_M.mean()),
        float(own.columns["tokens"].mean()),
        len(set(own.columns["path"][answered].tolist())) / answers,
        float(np.array(line["copied"])[answered].mean()) if answered.any() else np.nan,
        values,
    )


def _values(own: Any, size: int) -> dict[str, float | None]:
    labels = {f"label: {name}": label_right(own, weight, size) for name, weight in WEIGHTS.items()}
    areas = {f"auroc: {name}": auroc(own, of, size) for name, of in UNCERTAINTIES.items()}
    found = {"vote": label_right(own, "vote", size), **labels, **areas}
    return {name: None if np.isnan(value) else round(value, 6) for name, value in found.items()}


def record(problem: MeasuredProblem) -> dict[str, Any]:
    return {k: round(v, 5) if isinstance(v, float) else v for k, v in asdict(problem).items()}


def curves(problems: Sequence[MeasuredProblem]) -> dict[str, dict[str, Any]]:
    """By what they run over, and then by its value: `point` of the problems there.

    Where every answer is copied that share says nothing, so its curve is of the other bases.
    """
    whole = [p for p in problems if not p.regime.endswith("_half")]
    return {
        "steps": {str(k): point(own) for k in CHAINS if (own := [p for p in whole if REASONING[p.regime] == k])},
        "paths": _between(whole, PATHS, lambda p: p.paths),
        "copied": _between([p for p in problems if p.regime.endswith("_half")], COPIED, lambda p: p.copied),
    }


def _between(
    problems: Iterable[MeasuredProblem], edges: Sequence[float], of: Callable[[MeasuredProblem], float]
) -> dict[str, Any]:
    """Problems from one edge to below the next; the last group has its upper edge too."""
    parts: dict[str, list[MeasuredProblem]] = {
        (f"{low:g} to {high:g}" if np.isfinite(high) else f"{low:g} or more"): [] for low, high in pairwise(edges)
    }
    names = list(parts)
    for problem in problems:
        if np.isfinite(value := of(problem)):
            place = min(int(np.searchsorted(edges, value, side="right")) - 1, len(names) - 1)
            parts[names[place]].append(problem)
    return {name: point(own) for name, own in parts.items() if own}


def point(problems: Sequence[MeasuredProblem]) -> dict[str, Any]:
    """Means over problems; intervals draw these within bases and families."""
    drawn = draws([f"{p.regime} {p.base} {p.family}" for p in problems])
    means = {
        n: round(float(np.nanmean([getattr(p, n) for p in problems])), 4)
        for n in ("pass1", "tokens", "paths", "copied")
    }
    sizes = {}
    for size in problems[0].values:
        value = {n: np.array([p.values[size][n] for p in problems], float) for n in problems[0].values[size]}
        gains = {f"gain: {n}": value[f"label: {n}"] - value["vote"] for n in WEIGHTS}
        areas = {n: v for n, v in value.items() if n.startswith("auroc")}
        sizes[size] = {n: estimate(v, drawn).record() for n, v in {"vote": value["vote"], **gains, **areas}.items()}
    return {"problems": len(problems), **means, "sizes": sizes}
