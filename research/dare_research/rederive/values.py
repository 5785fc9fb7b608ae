"""The figures that sentences are made of, by name.

E1 informative dare-ttrl           points of pass@1 between two arms of a section of campaign-results.md, with the t
                                   interval over bases; then `unseen` or `known` for other prompts, and `low`, `high`,
                                   `lost` (without the sign), `least`, `most` (ends of a loss),
                                   `estimate` for a part of it
first confident dare-ttrl          the same of the first study (training.md), with the bootstrap
labels bare 8 trace^1              points over the vote; `labels bare 8 vote`; `.. ppc over vote 32`; `trace^1 over` ..
auroc bare entropy, all tokens     within questions
trained bare adapted ttrl gain     before, gain, minus, after of a training run
ledger bare ttrl learnt            kept, learnt, lost, points; `answerless before`
greedy bare adapted ttrl           points of the published greedy decoding, untrained, above the trained model's pass@1
rpc most                           points of the published certainty over the vote, at their largest
math c1                            a bar of E11; `math pass@1`, `math AUROC, trace`: a level; `math 32 use`: bar g
control 1                          a bar of E8b, with the wider interval; `control bare adapted dare greedy`: a level;
                                   `control new reasoned`: the new seeds alone
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contrasts import contrast
from .campaign import POOLED, Campaign, Section, break_even
from .pages import gain, percent, points

PARTS = ("low", "high", "least", "most", "lost", "estimate")


class Values:
    """Looks a figure up by its name in `results`, the `Results` of check.py."""

    def __init__(self, results: Any) -> None:
        self.of = results
        campaign = Campaign([r for r in results.first if r["record"] != "run" or r["stage"] == "confirm"])
        self.first = Section(campaign, [(k, arm, key) for (k, arm), runs in campaign.runs.items() for key in runs])

    def __call__(self, name: str) -> str:
        kind, *rest = name.split()
        if kind == "ledger":
            return percent(self.of.trained["ledger"][rest[0], rest[1]][rest[2]])
        part = rest.pop() if rest and rest[-1] in PARTS else ""
        if kind in self.of.sections or kind == "first":
            return self._of_arms(kind, rest, part)
        found: dict[str, Any] = {
            "labels": self._labels, "auroc": self._auroc, "trained": self._trained, "math": self._math,
            "control": lambda rest: self.of.control[" ".join(rest)],
        }  # fmt: skip
        if kind in found:
            estimate, ends = found[kind](rest)
            return _part(estimate, ends, part)
        if kind == "greedy":
            after, _ = self._trained([*rest, "after"])
            decoded = self.of.published["greedy"][rest[0]][rest[1]].split()[0]
            return f"{float(decoded) - float(percent(after)):.1f}"
        if kind == "rpc":
            return f"{max(rpc - vote for *_, vote, rpc, _ in self.of.published['rpc']['rows']):.1f}"
        if kind == "answerless":
            return f"{100 * self.of.trained['answerless'][rest[0]]:.0f}"
        if kind == "line":  # of E3: where it crosses 0, its ends
            own = break_even(self.of.sections["E3"], [])["the ten bases"]
            said = f"{own[{'zero': 2, 'short': 2, 'low': 3, 'high': 4}[part or rest[0]]]:.2f}"
            return said.removeprefix("0") if "short" in rest else said
        raise KeyError(name)

    def _of_arms(self, kind: str, rest: list[str], part: str) -> str:
        regime, arms, *where = rest
        arm, rival = arms.split("-")
        section = self.of.sections.get(kind, self.first)
        if regime == "pooled":  # over the means of the trunks: bases of all regimes with one number
            found = contrast(_by_trunk(section, arm, rival), resamples=1)
        else:
            found = section.contrast("doses" if kind == "E3" else regime, arm, rival, *(where or ("adapted",)))
        ends = found.bootstrap if kind == "first" else found.over_bases
        if not part and found.estimate == ends.low == ends.high == 0:
            return "0, it is the vote"
        return _part(found.estimate, ends, part)

    def _labels(self, rest: list[str]) -> tuple[float, Any]:
        form, size, weight = rest[:3]
        sizes = self.of.labels["forms"][form]["sizes"]
        if len(rest) > 3:  # `over`: a contrast of the plans, by its name there
            row = self.of.labels["forms"][form]["bars"][" ".join(rest[4:])]
        else:
            row = sizes[size]["label: vote" if weight == "vote" else f"gain: {weight}"]
        return (row["estimate"], (row["low"], row["high"])) if weight != "vote" else (row["estimate"], None)

    def _auroc(self, rest: list[str]) -> tuple[float, Any]:
        row = self.of.labels["forms"][rest[0]]["sizes"]["64"]["auroc: " + " ".join(rest[1:])]
        return row["estimate"], ("auroc", row["low"], row["high"])

    def _math(self, rest: list[str]) -> tuple[float, Any]:
        name, found = " ".join(rest), self.of.mathematics
        if rest[0] in {"32", "64"}:  # what `calibrate` says of so many labels
            return next(row[" ".join(rest[1:])] for row in found.labels if row["labels"] == int(rest[0])), None
        named = found.levels.items() if name in found.levels else ((b.name, b.found) for b in found.bars)
        full, own = next((n, o) for n, o in named if n == name or n.startswith(f"{name}:"))
        return own.estimate, (*(("auroc",) if "AUROC" in full else ()), own.low, own.high)

    def _trained(self, rest: list[str]) -> tuple[float, Any]:
        name, where, arm, what = rest
        own = self.of.trained["forms"][name]["arms"][where][arm]
        if what in {"before", "after"}:
            return own["before"] + (own["gain"]["estimate"] if what == "after" else 0.0), None
        row = own["gain"] if what == "gain" else next(v for k, v in own.items() if k.startswith("minus"))
        return row["estimate"], max((row["t"], row["bootstrap"]), key=lambda p: p[1] - p[0])


def _part(estimate: float, ends: Any, part: str) -> str:
    if ends is None:
        return percent(estimate)
    if ends[0] == "auroc":
        shown = {"": estimate, "low": ends[1], "high": ends[2]}[part]
        return f"{shown:.2f}".replace("0.", ".", 1)
    low, high, *_ = ends
    least, most = sorted(map(abs, (low, high)))
    unsigned = {"lost": abs(estimate), "least": least, "most": most, "low": low, "high": high}
    if part in unsigned:
        return points(unsigned[part]).lstrip("+")
    return points(estimate) if part else gain(estimate, (low, high))


def _by_trunk(section: Section, arm: str, rival: str) -> list[list[Any]]:
    trunks: dict[int, list[float]] = {}
    for regime in POOLED["telling"]:
        for kind in section.kinds(regime):
            for base in sorted({b for b, _ in section.keys[kind]}):
                trunks.setdefault(base, []).append(section.gain(kind, arm, base) - section.gain(kind, rival, base))
    return [[np.array([np.mean(v)])] for _, v in sorted(trunks.items())]
