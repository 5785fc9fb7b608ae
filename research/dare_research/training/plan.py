"""What is run: the sizes of a study, and its cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import MappingProxyType
from typing import Final, cast

from .corpus import Corpus, Regime, hard_facts, held_out, in_first_half
from .families import CHAINS, FURTHER, USUAL, Exercise, Exercises
from .grpo_run import RunSettings
from .pretrain import Pretraining
from .tiny_model import ModelSize

HALVES: Final = "halves"  # the stage that adapts to prompts of the first half of the hard facts alone
WIDE: Final = "wide"  # stage and regime: `informative` with four times the families, prompts and hard facts
# Stages and regimes: `informative` chains by number of steps; of `_half` the box copies half of the answers.
REASONING: Final[Mapping[str, int]] = MappingProxyType({**{f"reasoning_{k}": k for k in CHAINS}, "reasoning_8_half": 8})
DEVELOP_BASE: Final = 100  # the base that is tuned on; confirmed on are 0, 1, 2, ...


@dataclass(frozen=True, slots=True)
class Design:
    """Sizes of a study.

    confirm, develop   families that are adapted to in the confirming runs, and in all runs before them
    adapted, unseen    prompts per family that are trained on, and that are not
    other              prompts per family of the other stage's families
    each, each_between rollouts per prompt at the last evaluation, and at those between
    between            steps of the evaluations before the last
    """

    pretraining: Pretraining = field(default_factory=Pretraining)
    settings: RunSettings = field(default_factory=RunSettings)
    confirm: tuple[str, ...] = ("shift", "sub")
    develop: tuple[str, ...] = ("mirror", "add")
    adapted: int = 64
    unseen: int = 48
    other: int = 32
    each: int = 64
    each_between: int = 8
    between: tuple[int, ...] = (8, 16, 24)

    def evaluated(self, steps: int) -> tuple[int, ...]:
        """The steps of a run's evaluations: those between, then every 16th (at most some 16 in all), and the last."""
        later = range(16, steps, max(16, steps // 16))
        return tuple(sorted({*(s for s in self.between if s < steps), *later, steps}))

    def families(self, stage: str) -> tuple[str, ...]:
        if stage == WIDE:
            return (*self.confirm, *FURTHER)
        if stage in REASONING:
            return CHAINS[REASONING[stage]][:2]
        return self.confirm if stage in {"confirm", "campaign", HALVES, "long", "sensitivity"} else self.develop


DEFAULT: Final = Design()
SMOKE: Final = Design(
    pretraining=Pretraining(shape=ModelSize(hidden=32, layers=1), most=30, finishing=10, every=15, batch=16, probes=2),
    settings=RunSettings(prompts=2, votes=8, trained=4, steps=2),
    adapted=2,
    unseen=2,
    other=2,
    each=8,
    each_between=4,
    between=(1,),
)
# Share of hard facts whose separator tells, so that the within-group AUROC is where the regime wants it.
TELLING: Final = 0.7
DOSES: Final[Mapping[str, float]] = MappingProxyType({f"tells_{dose}": dose / 100 for dose in (10, 20, 35, 50)})


@dataclass(frozen=True, slots=True)
class Cell:
    """One run."""

    stage: str
    regime: str
    base: int
    arm: str
    seed: int
    settings: RunSettings

    @property
    def id(self) -> str:
        s = self.settings
        varied = f"lr{s.lr:g}-t{s.temperature:g}-steps{s.steps}"
        params = "".join(f"-{name}{v:.12g}" if isinstance(v, float) else f"-{name}{v}" for name, v in s.params)
        return f"{self.stage}/{self.regime}/{self.base}/{self.arm}/{self.seed}/{varied}{params}"


def scaled(design: Design, factor: float) -> Design:
    """More of everything, for a larger machine: width, prompts, steps and rollouts grow by `factor`."""
    shape, settings = design.pretraining.shape, design.settings
    wider = max(32, round(shape.hidden * factor / 32) * 32)
    return replace(
        design,
        pretraining=replace(
            design.pretraining, shape=replace(shape, hidden=wider), most=round(design.pretraining.most * factor)
        ),
        settings=replace(
            settings, prompts=max(1, round(settings.prompts * factor)), steps=max(1, round(settings.steps * factor))
        ),
        adapted=max(1, round(design.adapted * factor)),
        unseen=max(1, round(design.unseen * factor)),
        other=max(1, round(design.other * factor)),
        between=tuple(max(1, round(step * factor)) for step in design.between),
    )


def corpus_of(regime: str, base: int = 0) -> Corpus:
    """What a base of a regime learns from. A dose is `informative` for another share of the hard facts."""
    kind = cast("Regime", "informative" if regime in {*DOSES, *REASONING, WIDE} else regime)
    families = CHAINS[REASONING[regime]] if regime in REASONING else (*USUAL, *FURTHER) if regime == WIDE else USUAL
    telling = dict.fromkeys(families, DOSES.get(regime, TELLING))
    return Corpus(kind, families, telling, fact_set(base), copied=not regime.endswith("_half"))


def fact_set(base: int) -> int:
    """The set of hard facts that a base has learned: bases 200 to 299 have the second, 300 to 399 the third, etc."""
    return max(0, base // 100 - 1)


def problems_of(design: Design, stage: str, base: int) -> dict[str, Exercises]:
    """The prompts of a base: adapted to, unseen of the same families, and of other families.

    Of stage `halves`, all of the same families: adapted to, without a hard fact of the second half; unseen with hard
    facts of the second half alone; and, named `known`, unseen with hard facts of the first half alone.
    """
    own = design.families(stage)
    if stage == HALVES:
        return _problems_of_halves(design, own, base)
    known = corpus_of(stage).families if stage in REASONING else (*design.confirm, *design.develop)
    others = tuple(f for f in known if f not in own)
    wanted = {
        "adapted": (own, "adapted", design.adapted),
        "unseen": (own, "unseen", design.unseen),
        "ood": (others, "unseen", design.other),
    }
    return {
        name: [(f, p) for f in families for p in held_out(f, split, count, seed=base)]
        for name, (families, split, count) in wanted.items()
    }


def _problems_of_halves(design: Design, families: Sequence[str], base: int) -> dict[str, Exercises]:
    wanted: Mapping[str, tuple[str, int, Callable[[set[bool]], bool]]] = {
        "adapted": ("adapted", design.adapted, lambda halves: halves <= {True}),
        "unseen": ("unseen", design.unseen, lambda halves: halves == {False}),
        "known": ("unseen", design.unseen, lambda halves: halves == {True}),
    }

    def drawn(family: str, split: str, count: int, among: Callable[[set[bool]], bool]) -> list[Exercise]:
        def is_wanted(problem: Exercise) -> bool:
            return among({in_first_half(fact) for fact in hard_facts(family, problem, fact_set(base))})

        return held_out(family, split, count, seed=base, wanted=is_wanted)

    return {name: [(f, p) for f in families for p in drawn(f, *said)] for name, said in wanted.items()}


def labelled_of(design: Design, stage: str, base: int, count: int) -> Exercises:
    """`count` prompts of the adapted families, from the probe split: those whose labels calibrate an arm."""
    families = design.families(stage)
    return [(f, p) for f in families for p in held_out(f, "probe", count // len(families), seed=base)]


def cells(
    stage: str,
    *,
    regimes: Sequence[str],
    bases: Sequence[int],
    arms: Sequence[str],
    seeds: Sequence[int],
    settings: Sequence[RunSettings],
) -> Iterator[Cell]:
    """All of them: every regime and arm of a base and seed before the next, so that a part of them is balanced."""
    for seed, base, regime, setting, arm in product(seeds, bases, regimes, settings, arms):
        yield Cell(stage, regime, base, arm, seed, setting)
