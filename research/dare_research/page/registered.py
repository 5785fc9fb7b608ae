"""The rows of a part's table of bars: what each contrasts over which runs, its fate, and what the plan says follows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from dare_reward.segments import Floats

from ..statistics.contrasts import Contrast, Nested, contrast, holm
from ..training.parts import PlannedPart
from ..training.plan import DOSES
from .bars import Bar, verdict
from .dynamics import half_way
from .outcomes import Study, mean_of
from .words import estimate_cells, number, signed, table

Place = tuple[str, str]  # stage and regime
POOLED: Final[Mapping[str, tuple[str, ...]]] = {"telling": ("informative", "confident"), "doses": ("plain", *DOSES)}
EVERY: Final = "every"  # regime of a part's plans
P_VALUES: Final[tuple[Callable[[Contrast], float], ...]] = (lambda c: c.deciding_p, lambda c: c.p_bases)
HEAD: Final = (
    *("", "regime", "contrast", "prompts", "predicted", "found", "bootstrap", "t over bases"),
    *("p", "p of t", "bars"),
)


@dataclass(frozen=True, slots=True)
class Fate:
    """The word for a bar, and whether its contrast is a null."""

    word: str
    null: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """One contrast of the preregistration: `arm` less `rival`; `predicted` in points.

    regime   one, a name of `POOLED`, or `EVERY`: a base of each regime counts as a base
    better   another rival: the one of both with the higher mean over all runs of the row counts
    by       the arm is the first whose bar here, of those judged elsewhere, is met; `arm` if none is
    """

    arm: str
    rival: str
    regime: str
    bars: tuple[Bar, ...]
    predicted: float | None = None
    where: str = "adapted"
    better: str = ""
    by: tuple[tuple[int, str], ...] = ()
    in_points: ClassVar[bool] = True

    @property
    def title(self) -> str:
        return f"`{self.arm}` - `{self.rival}`{f', better than `{self.better}`' if self.better else ''}"

    def places(self, plans: Sequence[PlannedPart]) -> list[Place]:
        regimes = POOLED.get(self.regime, (self.regime,))
        return [(p.stage, r) for p in plans for r in p.regimes if r in regimes or self.regime == EVERY]

    def resolved(self, study: Study, places: Sequence[Place], elsewhere: Mapping[int, Fate]) -> Registered:
        """With the arm and the rival that count."""
        met = (arm for bar, arm in self.by if bar in elsewhere and elsewhere[bar].word == "met")
        row = replace(self, arm=next(met, self.arm))
        if not self.better:
            return row
        lesser, rival = sorted((self.better, self.rival), key=lambda arm: self._mean(study, places, arm))
        return replace(row, rival=rival, better=lesser)

    def contrast(self, study: Study, places: Sequence[Place]) -> Contrast | None:
        terms = {(self.arm, "pass@1"): 1.0, (self.rival, "pass@1"): -1.0}
        return _over([base for place in places for base in study.scores(*place, terms, where=self.where)], study)

    def identical(self, study: Study, places: Sequence[Place]) -> bool | None:
        """Whether every run of both is the vote, by their exponents; None where the arm has none."""
        own, rival = (
            [run.calibration.get("exponent") for place in places for run in study.runs(*place, arm).values()]
            for arm in (self.arm, self.rival)
        )
        return None if None in own else all(e == 0 for e in (own if self.rival == "ttrl" else own + rival))

    def cells(self, found: Contrast) -> list[str]:
        """Predicted, found, and its two intervals."""
        return [signed(self.predicted), *estimate_cells(found)]

    def null(self, found: Contrast, margin: float) -> bool:
        """Both 90% intervals lie within the margin."""
        ends = (found.deciding, found.over_bases)
        return self.in_points and all(-margin < e.low90 and e.high90 < margin for e in ends)

    def _mean(self, study: Study, places: Sequence[Place], arm: str) -> float:
        runs = (run for place in places for run in study.runs(*place, arm).values())
        return mean_of(run.final.sets[self.where].pass1 for run in runs)


@dataclass(frozen=True, slots=True)
class LeavesVote(Registered):
    """On how many bases the exponent that `arm` has with `seed` is not 0."""

    seed: int = 0
    in_points: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return f"bases on which `{self.arm}` leaves the vote"

    def contrast(self, study: Study, places: Sequence[Place]) -> Contrast | None:
        found = [study.runs(*place, self.arm) for place in places]
        left = [run.calibration["exponent"] != 0 for runs in found for (_, s), run in runs.items() if s == self.seed]
        return contrast([[np.array([float(len(left) * leaves)])] for leaves in left], resamples=1)

    def cells(self, found: Contrast) -> list[str]:
        return [number(self.predicted, "g"), f"{found.estimate:.0f} of {found.bases}", "-", "-"]


@dataclass(frozen=True, slots=True)
class RolloutsGenerated(Registered):
    """Rollouts until half way (`dynamics.half_way`) as a share of those of `rival`, against `than`.

    The contrast is their difference to `than` times the rival's, over the rival's mean: below 0 where the share is
    below `than`.
    """

    than: float = 0.75
    in_points: ClassVar[bool] = False

    @property
    def title(self) -> str:
        return f"`{self.arm}` / `{self.rival}`"

    def contrast(self, study: Study, places: Sequence[Place]) -> Contrast | None:
        counts = [[half_way(study, *place, arm, self.rival) for arm in (self.arm, self.rival)] for place in places]
        usual = mean_of(count for _, rival in counts for count, _ in rival.values())
        if not usual > 0:
            return None
        nested: list[list[Floats]] = []
        for own, rival in counts:
            for base in sorted({b for b, _ in own}):
                pairs = [(own[key][0], rival[key][0]) for key in own if key[0] == base]
                nested.append([np.array([(a - self.than * b) / usual]) for a, b in pairs])
        return _over(nested, study)

    def cells(self, found: Contrast) -> list[str]:
        def share(value: float) -> str:
            return number(self.than + value, ".2f")

        ends = (f"[{share(e.low)}, {share(e.high)}]" for e in (found.deciding, found.over_bases))
        return [number(self.predicted, "g"), share(found.estimate), *ends]


@dataclass(frozen=True, slots=True)
class Consequence:
    """What the plan says follows if these bars are missed, or with `null` if they are missed or nulls."""

    bars: tuple[int, ...]
    words: str
    null: bool = False

    def applies(self, fates: Mapping[int, Fate]) -> str:
        if not fates.keys() >= {*self.bars}:
            return "not known yet"
        found = [fates[bar] for bar in self.bars]
        return "yes" if all(f.word == "missed" or (self.null and f.null) for f in found) else "no"


@dataclass(frozen=True, slots=True)
class JudgedBar:
    """A row with its contrast, its p values after Holm (None outside of it), and a fate for each of its bars."""

    row: Registered
    found: Contrast
    p: float | None
    p_bases: float | None
    fates: tuple[Fate, ...]


def judged(
    study: Study,
    rows: Mapping[int, Registered],
    plans: Sequence[PlannedPart],
    *,
    corrected: Collection[int] | None = None,
    margin: float = 0.0,
    elsewhere: Mapping[int, Fate],
) -> dict[int, JudgedBar]:
    """By number, the rows whose runs are in.

    corrected   the rows of Holm's correction; None: all. One whose runs are not in has a p of 1 there, which makes no
                other smaller
    margin      of a null, 0 where the plan has none
    elsewhere   fates of bars of the same plan that other results decide
    """
    found: dict[int, tuple[Registered, Contrast, bool | None]] = {}
    for at, row in rows.items():
        places = row.places(plans)
        own = row.resolved(study, places, elsewhere)
        if places and own.arm and (one := own.contrast(study, places)):
            found[at] = (own, one, own.identical(study, places))
    family = [at for at in rows if corrected is None or at in corrected]
    p, p_bases = (
        dict(zip(family, holm([value(found[at][1]) if at in found else 1.0 for at in family]), strict=True))
        for value in P_VALUES
    )
    return {
        at: JudgedBar(
            row,
            one,
            p.get(at),
            p_bases.get(at),
            tuple(
                Fate(verdict(bar, one, p.get(at, 1.0), p_bases.get(at, 1.0), same=same), row.null(one, margin))
                for bar in row.bars
            ),
        )
        for at, (row, one, same) in found.items()
    }


def bar_table(found: Mapping[int, JudgedBar]) -> str:
    rows = [
        [
            *(str(at), own.row.regime, own.row.title, own.row.where),
            *own.row.cells(own.found),
            *(number(value, ".2g") for value in (own.p, own.p_bases)),
            "; ".join(_fate(bar, fate) for bar, fate in zip(own.row.bars, own.fates, strict=True)),
        ]
        for at, own in found.items()
    ]
    return table(HEAD, rows)


def consequence_table(consequences: Sequence[Consequence], fates: Mapping[int, Fate]) -> str:
    rows = [
        [f"{' and '.join(map(str, c.bars))} {'null or ' * c.null}missed", c.words, c.applies(fates)]
        for c in consequences
    ]
    return table(("if", "the plan says", "applies"), rows)


def _fate(bar: Bar, fate: Fate) -> str:
    return f"{bar.words}: **{fate.word}**{', a null' * fate.null}"


def _over(nested: Nested, study: Study) -> Contrast | None:
    return contrast(nested, resamples=study.resamples, seed=study.seed, shared=study.shared)
