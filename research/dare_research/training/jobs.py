"""What one process does: make a base, or run a cell. Everything else is scheduling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import numpy as np

from dare_reward.analysis.calibrate import calibrate
from dare_reward.analysis.label_choice import EPS, contested, information, log_uncertainty, most
from dare_reward.analysis.truth import known_groups, right_answers
from dare_reward.estimators.common import share_of
from dare_reward.groups import Groups
from dare_reward.segments import Bools, Floats

from .arms import ARMS, Arm
from .examine import examine, preflights, summary, treatments
from .families import Exercise, Exercises
from .grpo_run import RunSettings, train
from .kept import kept_file, load_kept
from .plan import REASONING, WIDE, Cell, Design, corpus_of, labelled_of, problems_of
from .pretrain import Say, finish, grow, solved

JSON = dict[str, Any]
T = TypeVar("T")
EXAMINED = 1_000_003  # seeds of evaluations, far from those of training
CALIBRATED = 2_000_003  # and of the labelled rollouts
TEMPERATURES = (0.7, 1.3)


def trunk_name(base: int, regime: str = "plain") -> str:
    own = f"{regime.removesuffix('_half')}-" if regime in {WIDE, *REASONING} else ""
    return f"trunk-{own}{base}"


def saved(root: Path, name: str) -> bool:
    return (root / name / "config.json").exists() or kept_file(root / name).exists()


def make_trunk(
    design: Design, base: int, root: Path, regime: str = "plain", *, said: Say = lambda _: None
) -> list[JSON]:
    """Train the trunk of a base of this regime from nothing and save it."""
    _one_thread()
    begun = time.monotonic()
    corpus = replace(corpus_of(regime, base), regime="plain", copied=True)
    model, tokenizer, steps = grow(corpus, design.pretraining, seed=base, said=said)
    name = trunk_name(base, regime)
    _save(model, tokenizer, root / name)
    seconds = round(time.monotonic() - begun, 1)
    return [{"record": "trunk", "id": name, "base": base, "steps": steps, "seconds": seconds}]


def grow_base(design: Design, regime: str, base: int, root: Path) -> Path:
    """The folder of a base of a regime, made from its trunk unless it is there."""
    _one_thread()
    folder = root / f"{regime}-{base}"
    if not saved(root, folder.name):
        model, tokenizer = load(root / trunk_name(base, regime))
        finish(model, tokenizer, corpus_of(regime, base), design.pretraining, seed=1000 + base)
        _save(model, tokenizer, folder)
    return folder


def make_base(design: Design, stage: str, regime: str, base: int, root: Path) -> list[JSON]:
    """A base of a regime: what it can do on the stage's prompts, and what the preflight says of it."""
    folder = grow_base(design, regime, base, root)
    model, tokenizer = load(folder)
    probe = solved(model, tokenizer, corpus_of(regime, base).families, design.pretraining.probes)
    problems = problems_of(design, stage, base)
    graded = {
        name: examine(model, tokenizer, part, each=design.each, seed=EXAMINED + base) for name, part in problems.items()
    }
    warmer = {
        f"{t:g}": examine(model, tokenizer, problems["adapted"], each=design.each, seed=EXAMINED + base, temperature=t)
        for t in TEMPERATURES
    }
    place = {"stage": stage, "regime": regime, "base": base}
    name = f"{stage}/{regime}/{base}"
    record = {
        "record": "base",
        "id": name,
        **place,
        "parameters": sum(p.numel() for p in model.parameters()),
        "weights": digest(folder),
        "pretraining": {"probe": probe},
        "families": {"confirm": design.confirm, "develop": design.develop},
        "evaluation": {"step": 0, "sets": {name: summary(g) for name, g in graded.items()}},
        "treatments": {name: treatments(g) for name, g in graded.items()},
        "temperatures": {t: treatments(g) for t, g in warmer.items()},
    }
    tries = preflights(graded["unseen"], prompts=min(50, len(problems["unseen"])))
    return [record, {"record": "preflight", "id": f"preflight/{name}", **place, "tries": tries}]


def _spread(prompts: Sequence[T], share: float, *, least: int) -> Sequence[T]:
    """That share of the prompts, evenly spread, and no fewer than a step takes: of fewer no step would be made."""
    return prompts[:: max(1, min(round(1 / share), len(prompts) // least))]


def run_cell(design: Design, cell: Cell, root: Path, url: str) -> list[JSON]:
    """Train one arm from its base; the record of the run."""
    _one_thread()
    folder = root / f"{cell.regime}-{cell.base}"
    model, tokenizer = load(folder)
    problems = problems_of(design, cell.stage, cell.base)
    arm = ARMS[cell.arm]
    if arm.choice:
        arm, calibration, labelled = _chosen(design, cell, problems["adapted"], model, tokenizer)
        asked = {problems["adapted"][at][1].prompt: {"method": "gt"} for at in labelled}
    else:
        first = labelled_of(design, cell.stage, cell.base, arm.labels) if arm.labels else ()
        arm, calibration, asked = _calibrated(
            arm, first, problems["adapted"], partial(_fit, design, cell, model, tokenizer)
        )
    evaluations: list[JSON] = []

    def evaluate(model: Any, step: int) -> None:
        last = step == cell.settings.steps
        names = tuple(problems) if last else ("adapted", "unseen")
        each = design.each if last else design.each_between
        model.eval()
        graded = {n: examine(model, tokenizer, problems[n], each=each, seed=EXAMINED + cell.base) for n in names}
        model.train()
        sets = {n: summary(g, brief=not last) for n, g in graded.items()}
        evaluations.append({"step": step, "sets": sets})

    adapted, least = [p for _, p in problems["adapted"]], cell.settings.prompts
    if arm.supervised:
        asked = {p.prompt: {"method": "gt"} for p in _spread(adapted, arm.supervised, least=least)}
    figures = train(
        model,
        tokenizer,
        half_labelled(adapted, labelled, cell.settings, seed=cell.seed)
        if arm.half
        else _spread(adapted, arm.share, least=least),
        arm,
        cell.settings,
        seed=cell.seed,
        url=url,
        evaluate=evaluate,
        at=design.evaluated(cell.settings.steps),
        asked=asked,
        in_order=arm.half,
    )
    identity = {k: getattr(cell, k) for k in ("id", "stage", "regime", "base", "arm", "seed")}
    begun = {"lr": cell.settings.lr, "weights": digest(folder), **calibration}
    return [{"record": "run", **identity, **begun, **figures, "evaluations": evaluations}]


def _chosen(
    design: Design, cell: Cell, adapted: Exercises, model: Any, tokenizer: Any
) -> tuple[Arm, JSON, Sequence[int]]:
    """The arm with the exponent that its chosen prompts say, what the record keeps of that, and which adapted prompts
    have labels as rewards. Prompts are chosen from rollouts of the base, without labels."""
    arm = ARMS[cell.arm]
    if cell.stage == WIDE and arm.half:
        arm = replace(arm, labels=len(adapted) // 10)
    pool = adapted if arm.half else labelled_of(design, cell.stage, cell.base, arm.pool)
    graded = examine(model, tokenizer, pool, each=design.each, seed=CALIBRATED + cell.base)
    chosen_P = choose(graded.groups, arm, Random(f"labels/{cell.seed}"))
    labelled = np.flatnonzero(chosen_P).tolist() if arm.half else []
    if not arm.fits:
        return arm, {"labelled": labelled}, labelled
    correct_R = graded.correct_R[chosen_P[graded.groups.group_R]]
    fit = _figures(graded.groups.take(chosen_P), correct_R, chosen=arm.choice == "information")
    record = {"calibration": fit, "labelled": labelled, "asked": np.flatnonzero(chosen_P).tolist()}
    return replace(arm, params={**arm.params, "exponent": fit["exponent"]}), record, labelled


def choose(groups: Groups, arm: Arm, random: Random) -> Bools:
    """The prompts that the arm has labels of: `arm.labels` of them, but no more than half, by `arm.choice`."""
    prompts = len(groups.sizes_P)
    count = min(arm.labels, prompts // 2)
    if arm.choice == "random":
        return np.isin(np.arange(prompts), random.sample(range(prompts), count))
    worth = {"information": information, "contested": contested}[arm.choice]
    return most(worth(groups), count)


def half_labelled(
    adapted: Sequence[Exercise], labelled: Sequence[int], settings: RunSettings, *, seed: int
) -> list[Exercise]:
    """The prompts of all steps in order: half of each are labelled ones in turn, the others unlabelled ones in turn."""
    known = {*labelled}
    parts = ([p for i, p in enumerate(adapted) if (i in known) is side] for side in (True, False))
    count = settings.prompts // 2
    takers = [
        _turns(part, each, Random(f"half/{seed}/{each}"))
        for part, each in zip(parts, (count, settings.prompts - count), strict=True)
    ]
    return [p for _ in range(settings.steps) for taker in takers for p in next(taker)]


def _turns(items: Sequence[T], each: int, random: Random) -> Iterator[list[T]]:
    """`each` of the items at a time, in rounds: all of them before any comes again, and none twice at a time."""
    left: list[T] = []
    while True:
        if len(left) < each:
            following = [item for item in items if item not in left]
            random.shuffle(following)
            left = [*left, *following, *left]
        yield left[:each]
        left = left[each:]


def _calibrated(
    arm: Arm, labelled: Exercises, adapted: Exercises, fit: Callable[[Exercises], JSON]
) -> tuple[Arm, JSON, dict[str, JSON]]:
    """The arm with the exponent that its labelled prompts say, what the record keeps of that, and what is asked for
    single prompts. Labels end here."""
    if not labelled:
        return arm, {}, {}
    if not arm.by_family:
        said = fit(labelled)
        return replace(arm, params={**arm.params, "exponent": said["exponent"]}), {"calibration": said}, {}
    families = dict.fromkeys(family for family, _ in labelled)
    fitted = {family: fit([(f, p) for f, p in labelled if f == family]) for family in families}
    asked = {p.prompt: {"params": {"exponent": fitted[family]["exponent"]}} for family, p in adapted}
    return arm, {"calibration_by_family": fitted}, asked


def _fit(design: Design, cell: Cell, model: Any, tokenizer: Any, labelled: Exercises) -> JSON:
    """What `calibrate` says of labelled prompts, from rollouts of the base."""
    graded = examine(model, tokenizer, labelled, each=design.each, seed=CALIBRATED + cell.base)
    return _figures(graded.groups, graded.correct_R)


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """Of each group: U and V, NaN unless its right answer is known and it has wrong ones too; `q`, NaN without any."""

    score_P: Floats
    variance_P: Floats

    @property
    def q(self) -> float:
        known_P = ~np.isnan(self.score_P)
        total = float(self.variance_P[known_P].sum())
        return float((self.score_P[known_P] ** 2).sum()) / total if total else float("nan")


def direction(groups: Groups, correct_R: Floats, *, eps: float = EPS) -> Direction:
    """U and V of each labelled group. `correct_R`: 1 right, 0 wrong, NaN unknown, per rollout."""
    log_A, share_A = log_uncertainty(groups, eps), share_of(groups, groups.votes_A)
    right_A = share_A * (right_answers(groups, correct_R) > 0.5)
    share_P = groups.sum_by_group(right_A)
    mixed_P = known_groups(groups, correct_R) & (share_P > 0) & (groups.sum_by_group(share_A - right_A) > 0)
    right_P = groups.sum_by_group(right_A * log_A) / np.where(mixed_P, share_P, 1.0)
    score_P = groups.sum_by_group(share_A * log_A) - right_P
    return Direction(np.where(mixed_P, score_P, np.nan), np.where(mixed_P, information(groups, eps=eps), np.nan))


def _figures(groups: Groups, correct_R: Floats, *, chosen: bool = False) -> JSON:
    found = calibrate(groups, correct_R, chosen=chosen)
    kept = ("exponent", "fitted", "statistic", "prompts", "mixed")
    q = direction(groups, correct_R).q
    return {"labels": len(groups.sizes_P), **{name: getattr(found, name) for name in kept}, "q": round(q, 6)}


def digest(folder: Path) -> str:
    """Of a saved model's weights: the first 16 digits of what SHA256SUMS says of a kept file."""
    file = kept_file(folder)
    return sha256((file if file.exists() else folder / "model.safetensors").read_bytes()).hexdigest()[:16]


def _one_thread() -> None:
    import torch

    torch.set_num_threads(1)


def load(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer, from the model's file if it is kept as one."""
    if (file := kept_file(folder)).exists():
        return load_kept(file)
    from transformers import AutoModelForCausalLM, AutoTokenizer, logging

    logging.disable_progress_bar()
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def _save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Whole or not at all: a run that was stopped leaves no half of a model behind."""
    part = folder.with_name(folder.name + ".part")
    model.save_pretrained(part)
    tokenizer.save_pretrained(part)
    part.rename(folder)
