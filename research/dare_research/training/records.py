"""Records of the training study: one JSON object a line, appended as bases and runs end. Unknown keys are ignored.

A line with the id of an earlier one replaces it: a run that was repeated counts once.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.errors import RequestError
from dare_reward.segments import Floats

from ..results import Place, read, write

JSON = Mapping[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One set of prompts at one step. A value that was not recorded is NaN.

    n                  rollouts per prompt; right_P of these are right, their mean share is pass1
    prompts            how many; a summary has no lists by prompt
    majority_P         chance that maj@n is right
    distinct           distinct answers of a prompt, mean
    parsed, length     share of rollouts with an answer, mean tokens
    entropy            mean nats per token; answer_entropy of the answers of a prompt
    auroc              mean over prompts of P(entropy of a right rollout < of a wrong one); auroc_wrong_mode over those
                       whose plurality is wrong, auroc_length the same with length for entropy
    """

    n: int
    prompts: int
    pass1: float
    right_P: Floats
    majority_P: Floats
    distinct: float
    family_P: tuple[str, ...]
    parsed: float
    length: float
    entropy: float
    answer_entropy: float
    auroc: float
    auroc_wrong_mode: float
    auroc_length: float


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    step: int
    sets: Mapping[str, Score]


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """A model before RL: step 0 of its runs in a stage. `treatments`: what each arm would do, by set and arm."""

    id: str
    stage: str
    regime: str
    base: int
    parameters: int
    pretraining: JSON
    families: Mapping[str, Sequence[str]]
    evaluation: Evaluation
    treatments: Mapping[str, Mapping[str, JSON]]
    temperatures: Mapping[str, Mapping[str, Any]]

    @property
    def by_temperature(self) -> Mapping[str, Mapping[str, Any]]:
        """Treatments of the adapted prompts; those at 1 are the ones of every run."""
        usual = self.treatments.get("adapted")
        known = {float(t) for t in self.temperatures}
        return {**({"1": usual} if usual and 1.0 not in known else {}), **self.temperatures}


@dataclass(frozen=True, slots=True, eq=False)
class TrainedRun:
    """A run of RL. `steps`: a value per step and name; `evaluations`: by step, the last is the outcome.

    calibration   what was fitted on its labels, if anything was
    labelled      adapted prompts whose label was the reward, of an arm that chooses them
    """

    id: str
    stage: str
    regime: str
    base: int
    arm: str
    seed: int
    lr: float
    settings: JSON
    steps: Mapping[str, Floats]
    tokens: float
    seconds: float
    evaluations: tuple[Evaluation, ...]
    calibration: JSON
    labelled: tuple[int, ...]

    @property
    def final(self) -> Evaluation:
        return self.evaluations[-1]

    @property
    def complete(self) -> bool:
        """It has an evaluation at the step that it was to end with. Without `steps` in its settings, it has any."""
        return bool(self.evaluations) and self.final.step >= self.settings.get("steps", 0)


@dataclass(frozen=True, slots=True, eq=False)
class RecordedPreflight:
    regime: str
    base: int
    tries: Sequence[JSON]


@dataclass(frozen=True, slots=True, eq=False)
class Trunk:
    """A pretraining that bases of all regimes go on from."""

    id: str
    seconds: float


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    bases: tuple[Base, ...]
    runs: tuple[TrainedRun, ...]
    preflights: tuple[RecordedPreflight, ...]
    trunks: tuple[Trunk, ...]


def read_records(*files: Path) -> list[dict[str, Any]]:
    """Records of packed and work files, in their order. A line that was cut off is left out.

    A record that a later file repeats counts there. Repeats inside one file stay; `parse` takes the last.
    """
    out: list[dict[str, Any]] = []
    for file in files:
        found = list(_whole(read(file))) if file.exists() else []
        own = {r["id"] for r in found}
        out = [*(r for r in out if r["id"] not in own), *found]
    return out


def _whole(text: str) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def lines(records: Iterable[JSON]) -> str:
    return "".join(json.dumps(r, separators=(",", ":"), allow_nan=False) + "\n" for r in records)


def unpack(place: Place) -> Path:
    """The work file. Records that were packed are in it, so that no run is repeated."""
    with locked(place.work.parent):
        if len(records := read_records(*place.records)) > len(read_records(place.work)):
            write(place.work, lines(records))
    return place.work


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Where a work file is replaced or removed, no other process appends to it meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as held:  # on NFS a lock needs a file that is open for writing
        flock(held, LOCK_EX)
        yield


def append(file: Path, records: Sequence[JSON]) -> None:
    """On the disk before anything else is run; after a line that was cut off, on a line of their own."""
    with locked(file.parent), file.open("a", encoding="utf-8") as out:
        whole = file.read_bytes()[-1:] in {b"", b"\n"}
        out.write("" if whole else "\n")
        out.write(lines(map(rounded, records)))
        out.flush()
        os.fsync(out.fileno())


def parse(lines: Iterable[str | JSON]) -> Records:
    """Records from lines, or from what these hold. RequestError with the number of a line that is none."""
    found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    for number, line in enumerate(lines, 1):
        if isinstance(line, str) and not line.strip():
            continue
        try:
            record = json.loads(line) if isinstance(line, str) else line
            kind = record["record"]
            if kind in KINDS:
                key = record["id"] if kind != "preflight" else f"{record['regime']}/{record['base']}"
                found[kind][key] = KINDS[kind](record)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RequestError(f"line {number} is not a record: {error!r}", code="file") from error
    return Records(*(tuple(found[kind].values()) for kind in KINDS))


def _base(r: JSON) -> Base:
    return Base(
        id=r["id"],
        stage=r.get("stage", "confirm"),
        regime=r["regime"],
        base=int(r["base"]),
        parameters=int(r["parameters"]),
        pretraining=r.get("pretraining", {}),
        families=r.get("families", {}),
        evaluation=_evaluation(r["evaluation"]),
        treatments=r.get("treatments") or {},
        temperatures=r.get("temperatures") or {},
    )


def _run(r: JSON) -> TrainedRun:
    return TrainedRun(
        id=r["id"],
        stage=r["stage"],
        regime=r["regime"],
        base=int(r["base"]),
        arm=r["arm"],
        seed=int(r["seed"]),
        lr=float(r["lr"]),
        settings=r.get("settings", {}),
        steps={name: _floats(values) for name, values in r.get("steps", {}).items()},
        tokens=_number(r.get("tokens")),
        seconds=_number(r.get("seconds")),
        evaluations=tuple(sorted((_evaluation(e) for e in r["evaluations"]), key=lambda e: e.step)),
        calibration=r.get("calibration", {}),
        labelled=tuple(r.get("labelled", ())),
    )


def _preflight(r: JSON) -> RecordedPreflight:
    return RecordedPreflight(r["regime"], int(r["base"]), r["tries"])


def _trunk(r: JSON) -> Trunk:
    return Trunk(r["id"], _number(r.get("seconds")))


KINDS = {"base": _base, "run": _run, "preflight": _preflight, "trunk": _trunk}  # in the order of Records


def _evaluation(e: JSON) -> Evaluation:
    return Evaluation(int(e["step"]), {name: _score(s) for name, s in e["sets"].items()})


def _score(s: JSON) -> Score:
    right_P = _floats(s.get("right", ()))
    nothing = [None] * len(right_P)
    numbers = ("parsed", "length", "entropy", "answer_entropy", "auroc", "auroc_wrong_mode", "auroc_length")
    n, distinct = int(s["n"]), s.get("distinct")
    return Score(
        n=n,
        prompts=s.get("prompts", len(right_P)),
        pass1=_number(s["pass1"]) if "pass1" in s else float((right_P / n).mean()),
        right_P=right_P,
        majority_P=_floats(s.get("majority", nothing)),
        distinct=float(np.mean(_floats(distinct))) if isinstance(distinct, list) and distinct else _number(distinct),
        family_P=tuple(chain.from_iterable([f] if isinstance(f, str) else repeat(*f) for f in s.get("family", ()))),
        **{name: _number(s.get(name)) for name in numbers},
    )


def _number(value: Any) -> float:
    return np.nan if value is None else float(value)


def _floats(values: Sequence[Any]) -> Floats:
    return np.array([_number(v) for v in values], np.float64)


def rounded(value: Any) -> Any:
    """Six significant digits, and null for what is not defined: the page is rendered from what the file says."""
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value
