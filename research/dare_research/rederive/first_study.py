"""`research/docs/training.md` from `results/training.jsonl.xz`: what every arm reaches, and the corrected contrasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dare_reward.analysis.passk import pass_at_k
from dare_reward.segments import Floats

from ..contrasts import Contrast, contrast, holm
from .campaign import Section, last
from .pages import Figure, Page, Table, interval, percent, points

DRAWS = 1000  # of levels
LEVELS = ("pass@1", "pass@8", "pass@64", "maj@64")


def check(page: Page, study: Section) -> Iterator[Figure]:
    for table in page.tables():
        if table.place == "Secondary contrasts":
            yield from _secondary(page, table, study)
        elif table.place.startswith("What every arm reaches"):
            regime, where = table.place.partition(" / ")[2].split(", ")
            yield from page.check(table, lambda said, r=regime, w=where: _reached(study, r, w, said["arm"]))  # type: ignore[misc]


def _secondary(page: Page, table: Table, study: Section) -> Iterator[Figure]:
    """33 contrasts, corrected by Holm."""
    said = [dict(zip(table.head, (c.text for c in row), strict=True)) for row in table.rows]
    found = [study.contrast(s["regime"], *s["contrast"].split(" - "), "adapted") for s in said]
    corrected, by_t = holm([f.deciding_p for f in found]), holm([f.p_bases for f in found])
    rows = {(s["regime"], s["contrast"]): (f, p, q) for s, f, p, q in zip(said, found, corrected, by_t, strict=True)}

    def row(s: dict[str, str]) -> dict[str, str]:
        f, p, q = rows[s["regime"], s["contrast"]]
        wide = f.deciding
        return {
            "pairs": f"{f.pairs} on {f.bases} bases",
            "difference": points(f.estimate),
            "95%, bootstrap": interval((wide.low, wide.high)),
            "90%, bootstrap": interval((wide.low90, wide.high90)),
            "95%, t over bases": interval((f.over_bases.low, f.over_bases.high)),
            "p": f"{f.deciding_p:.2g}",
            "p, Holm": f"{p:.3g}",
            "p by t, Holm": f"{q:.2g}",
        }

    yield from page.check(table, row)


def _reached(study: Section, regime: str, where: str, arm: str) -> dict[str, str]:
    found = {name: _level(study, regime, where, arm, name) for name in LEVELS}
    said = {name: _words(f) for name, f in found.items()}
    if arm == "base":
        return {"runs": "-", **said, "pass@1 minus base": "-"}
    change = contrast(study.nested(regime, arm, "base", where), resamples=DRAWS)
    minus = f"{points(change.estimate)} {interval((change.bootstrap.low, change.bootstrap.high))}"
    return {"runs": str(found["pass@1"].pairs), **said, "pass@1 minus base": minus}


def _level(study: Section, regime: str, where: str, arm: str, name: str) -> Contrast:
    nested: dict[int, list[Floats]] = {}
    (kind,) = study.kinds(regime)
    if arm == "base":
        numbers = {b for b, _ in study.keys[kind]}
        for base in (n for r, n in study.campaign.bases if r == regime and n in numbers):  # as they were recorded
            nested[base] = [_values(study.campaign.base(regime, base, kind.stage)["evaluation"]["sets"][where], name)]
    for (base, _), run in study.of(kind, arm).items():
        nested.setdefault(base, []).append(_values(last(run)["sets"][where], name))
    return contrast(list(nested.values()), resamples=DRAWS)


def _values(score: Mapping[str, Any], name: str) -> Floats:
    """A measure of each prompt. pass@k: the chance that one of k of its rollouts is right."""
    if name == "maj@64":
        return np.array(score["majority"], np.float64)
    return np.array([pass_at_k(int(score["n"]), int(c), int(name.partition("@")[2])) for c in score["right"]])


def _words(found: Contrast) -> str:
    return f"{percent(found.estimate)} [{percent(found.bootstrap.low)}, {percent(found.bootstrap.high)}]"
