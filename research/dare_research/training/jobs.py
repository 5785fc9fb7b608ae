"""What one process does: make a base, or run a cell. Everything else is scheduling."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from dare_reward.analysis.calibrate import calibrate

from .arms import ARMS, Arm
from .examine import examine, preflights, summary, treatments
from .families import FAMILIES
from .grpo_run import train
from .kept import kept_file, load_kept
from .plan import Cell, Design, Exercises, corpus_of, labelled_of, problems_of
from .pretrain import finish, grow, solved

__all__ = ["EXAMINED", "digest", "grow_base", "load", "make_base", "make_trunk", "run_cell", "saved", "trunk_name"]

JSON = dict[str, Any]
T = TypeVar("T")
EXAMINED = 1_000_003  # seeds of evaluations, far from those of training
CALIBRATED = 2_000_003  # and of the labelled rollouts
TEMPERATURES = (0.7, 1.3)


def trunk_name(base: int) -> str:
    return f"trunk-{base}"


def saved(root: Path, name: str) -> bool:
    return (root / name / "config.json").exists() or kept_file(root / name).exists()


def make_trunk(design: Design, base: int, root: Path) -> list[JSON]:
    """Train a trunk from nothing and save it."""
    _one_thread()
    begun = time.monotonic()
    model, tokenizer, steps = grow(corpus_of("plain", base), design.pretraining, seed=base)
    _save(model, tokenizer, root / trunk_name(base))
    seconds = round(time.monotonic() - begun, 1)
    return [{"record": "trunk", "id": trunk_name(base), "base": base, "steps": steps, "seconds": seconds}]


def grow_base(design: Design, regime: str, base: int, root: Path) -> Path:
    """The folder of a base of a regime, made from its trunk unless it is there."""
    _one_thread()
    folder = root / f"{regime}-{base}"
    if not saved(root, folder.name):
        model, tokenizer = load(root / trunk_name(base))
        finish(model, tokenizer, corpus_of(regime, base), design.pretraining, seed=1000 + base)
        _save(model, tokenizer, folder)
    return folder


def make_base(design: Design, stage: str, regime: str, base: int, root: Path) -> list[JSON]:
    """A base of a regime: what it can do on the stage's prompts, and what the preflight says of it."""
    folder = grow_base(design, regime, base, root)
    model, tokenizer = load(folder)
    probe = solved(model, tokenizer, tuple(FAMILIES), design.pretraining.probes)
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
    labelled = labelled_of(design, cell.stage, cell.base, arm.labels) if arm.labels else ()
    arm, calibration, asked = _calibrated(
        arm, labelled, problems["adapted"], partial(_fit, design, cell, model, tokenizer)
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
        _spread(adapted, arm.share, least=least),
        arm,
        cell.settings,
        seed=cell.seed,
        url=url,
        evaluate=evaluate,
        at=design.evaluated(cell.settings.steps),
        asked=asked,
    )
    identity = {k: getattr(cell, k) for k in ("id", "stage", "regime", "base", "arm", "seed")}
    begun = {"lr": cell.settings.lr, "weights": digest(folder), **calibration}
    return [{"record": "run", **identity, **begun, **figures, "evaluations": evaluations}]


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
    found = calibrate(graded.groups, graded.correct_R)
    kept = ("exponent", "fitted", "statistic", "vetoed", "prompts", "mixed")
    return {"labels": len(labelled), **{name: getattr(found, name) for name in kept}}


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
