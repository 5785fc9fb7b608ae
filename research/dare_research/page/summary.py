"""The training study's summary: every number that its page is made of, without the lists by prompt behind them.

records     those of the raw results, with means in place of lists, quarters in place of curves that are not drawn
contrasts   by name: estimate, the ends of each interval, p values, and what they are from
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from ..statistics.contrasts import Contrast, Ends
from ..training.records import KINDS, Score, TrainedRun, parse, rounded
from .figures import SHOWN
from .outcomes import FINAL, Study
from .report import RESAMPLES, training_page
from .side_tables import OTHER_TRAINER

JSON = dict[str, Any]
MEANS = ("parsed", "length", "entropy", "answer_entropy", "distinct", "auroc", "auroc_wrong_mode")
CURVES = ("label_accuracy", "reward_accuracy", "reward_std", "entropy", "pass1")
INTERVALS = ("bootstrap", "over_bases", "over_pairs")
ENDS = ("low", "high", "low90", "high90")
FIGURES = ("estimate", "p", "p_bases", "bases", "pairs", "prompts")


def summarise(records: Sequence[Mapping[str, Any]]) -> JSON:
    """From the raw records. Contrasts are those that the page asks for."""
    study = Study(parse(records), resamples=RESAMPLES)
    training_page(study)
    known = study.records
    runs, bases = {r.id: r for r in known.runs}, {b.id: b for b in known.bases}
    brief = []
    for kept in {r["id"]: r for r in records if r["record"] in KINDS}.values():
        own = dict(kept)
        if own["record"] == "run":
            run = runs[own["id"]]
            own["steps"] = _curves(run)
            own["evaluations"] = [{"step": e.step, "sets": _sets(e.sets, last=e is run.final)} for e in run.evaluations]
        elif own["record"] == "base":
            base = bases[own["id"]]
            own["evaluation"] = {"step": base.evaluation.step, "sets": _sets(base.evaluation.sets, last=True)}
            if base.stage != FINAL:
                own["treatments"], own["temperatures"] = {}, {}
        brief.append(own)
    return {"records": brief, "contrasts": {key: _written(c) for key, c in study.found.items()}}


def restore(summary: Mapping[str, Any], *, command: str) -> Study:
    """The study as its page needs it."""
    found = {key: _contrast(c) for key, c in summary["contrasts"].items()}
    return Study(parse(summary["records"]), command=command, resamples=RESAMPLES, found=found, summarised=True)


def write_summary(summary: Mapping[str, Any]) -> str:
    """As JSON, a record or a contrast a line."""
    records = ",\n".join(_line(r) for r in summary["records"])
    contrasts = ",\n".join(f"{json.dumps(k)}:{_line(c)}" for k, c in summary["contrasts"].items())
    return f'{{"records":[\n{records}\n],"contrasts":{{\n{contrasts}\n}}}}\n'


def _line(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def _sets(sets: Mapping[str, Score], *, last: bool) -> JSON:
    """pass@1 of each set; at the last step its sizes, and the means of the adapted prompts."""
    out = {}
    for name, s in sets.items():
        own: JSON = {"n": s.n, "pass1": s.pass1}
        if last:
            own |= {"prompts": s.prompts, "family": [[f, len(list(same))] for f, same in groupby(s.family_P)]}
        if last and name == "adapted":
            own |= {m: rounded(getattr(s, m)) for m in MEANS}
        out[name] = own
    return out


def _curves(run: TrainedRun) -> JSON:
    """Values of every step where a figure draws them; else means of the quarters of the steps."""
    if run.stage not in {FINAL, OTHER_TRAINER}:
        return {}
    out = {}
    for name in CURVES:
        values = run.steps.get(name, np.zeros(0))
        drawn = name == "label_accuracy" and run.arm in SHOWN
        if len(values):
            kept = values if drawn or len(values) % 4 else values.reshape(4, -1).mean(axis=1)
            out[name] = rounded(kept.tolist())
    return out


def _written(found: Contrast | None) -> JSON | None:
    if found is None:
        return None
    intervals = {name: [_finite(getattr(getattr(found, name), end)) for end in ENDS] for name in INTERVALS}
    return {**{name: getattr(found, name) for name in FIGURES}, **intervals}


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _contrast(written: Mapping[str, Any] | None) -> Contrast | None:
    if written is None:
        return None
    parts: JSON = {**{name: written[name] for name in FIGURES}, **{name: _ends(written[name]) for name in INTERVALS}}
    return Contrast(**parts)


def _ends(values: Sequence[float | None]) -> Ends:
    """An end that is not known is infinite: low, high, low90, high90."""
    unknown = (-np.inf, np.inf, -np.inf, np.inf)
    return Ends(*(u if v is None else v for u, v in zip(unknown, values, strict=True)))
