"""The parts of the campaign: what each preregistration adds to its runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from .arms import CAMPAIGN, E1B, E1C, E1D, E9, E10, E10_DOSES, E10_WIDE
from .corpus import REGIMES
from .plan import DEFAULT, DOSES, HALVES, WIDE, Cell, cells

STAGE: Final = "campaign"
CALIBRATED: Final = ("ttrl", "dare", "calibrated_vote")


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """One preregistration: its page in `docs`, and the runs that it adds.

    stage   whose prompts they are given (`plan.problems_of`)
    """

    page: str
    arms: tuple[str, ...]
    regimes: tuple[str, ...] = REGIMES
    bases: tuple[int, ...] = (0, 1, 2, 3)
    seeds: int = 2
    first_seed: int = 0
    steps: int = DEFAULT.settings.steps
    lr: float = DEFAULT.settings.lr
    trained: int = DEFAULT.settings.trained
    stage: str = STAGE

    def cells(self, *others: str) -> Iterator[Cell]:
        """Its runs, with those of `others` among its arms."""
        return cells(
            self.stage,
            regimes=self.regimes,
            bases=self.bases,
            arms=(*self.arms, *others),
            seeds=range(self.first_seed, self.first_seed + self.seeds),
            settings=[replace(DEFAULT.settings, steps=self.steps, lr=self.lr, trained=self.trained)],
        )

    def ids(self, others: Sequence[str] = ()) -> frozenset[str]:
        return frozenset(cell.id for cell in self.cells(*others))


PARTS: Final[Mapping[str, PlannedPart]] = MappingProxyType(
    {
        "e1": PlannedPart("campaign", CAMPAIGN),
        "e1b": PlannedPart("campaign-e1b", E1B),
        "e1c": PlannedPart("campaign-e1c", E1C),
        "e1d": PlannedPart("campaign-e1d", E1D),
        "e1e": PlannedPart("campaign-e1e", ("ttrl", "ttrl_masked", "ddrl"), bases=(0,), seeds=1, steps=512),
        "e2": PlannedPart("campaign-e2", CALIBRATED, bases=(200, 201, 300, 301)),
        "e3": PlannedPart("campaign-e3", CALIBRATED, regimes=("plain", *DOSES), bases=(200, 300)),
        "e4": PlannedPart(
            "campaign-e4", (*CALIBRATED, "calibrated_by_family"), regimes=("mixed",), bases=(200, 201, 300, 301)
        ),
        "e5": PlannedPart("campaign-e5", ("ttrl", "dare", "rent", "calibrated_vote"), seeds=1, steps=96),
        "e6": PlannedPart("campaign-e6", ("ttrl", "calibrated_vote", "gt"), regimes=("informative",), stage=HALVES),
        "e7": PlannedPart("campaign-e7", ("ttrl", "dare", "rent"), seeds=1, steps=64, lr=3e-3),
        "e9": PlannedPart("campaign-e9", E9, regimes=("informative",), seeds=3, first_seed=20, trained=8),
        "e9_reasoning": PlannedPart(
            "campaign-e9", E9, ("reasoning_8",), (400, 401), seeds=3, first_seed=20, trained=8, stage="reasoning_8"
        ),
        "e10": PlannedPart("campaign-e10", E10, first_seed=10),
        "e10_doses": PlannedPart("campaign-e10", E10_DOSES, regimes=("plain", *DOSES), bases=(200, 300), first_seed=10),
        "e10_wide": PlannedPart(
            "campaign-e10", E10_WIDE, regimes=(WIDE,), bases=(400, 401), first_seed=10, steps=128, stage=WIDE
        ),
    }
)
