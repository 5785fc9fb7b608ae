"""Shadow methods: what other methods would have said of the same rollouts, beside the method that trains."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..advantages import grpo_population
from ..estimators.method import Estimate, Method
from ..groups import Groups
from ..numbers import SHADOW
from ..segments import Floats

UNKNOWN = -1.0  # in logs, which hold numbers only
# What a trainer's log says of each shadow method, under `shadow_METHOD_KEY`.
LOGS: Mapping[str, str] = MappingProxyType(
    {
        "flipped": "share of the trained rollouts whose advantage it gives the opposite sign",
        "cosine": "of its group-normalised advantages with the method's",
        "cosine_known": "1: there is a cosine; 0: one of the two gives no advantages to this group",
        "label_agreement": "1: it has the method's pseudo-label",
        "label_accuracy": "1: its pseudo-label is right",
    }
)
ROUNDING = 1e-12  # of the greatest reward: a difference below it is none


def normalised(groups: Groups, method: Method, result: Estimate) -> Floats:
    """Group-normalised advantages of the trained rollouts, 0 for the rest; a method's own advantages as they are."""
    trained = groups.trains_R
    values = result.rewards_R
    if method.output == "advantages":
        return np.where(trained, values, 0.0)
    sizes_P = groups.sum_rollouts(trained).astype(np.int64)
    mean_P = groups.mean_rollouts(values, trained)
    scale_P = groups.max_rollouts(np.abs(values))
    centred = np.where(trained, values - mean_P[groups.group_R], 0.0)
    differs = np.abs(centred) > ROUNDING * scale_P[groups.group_R]
    clean = np.where(differs, values, mean_P[groups.group_R])
    out = np.zeros(len(values))
    out[trained] = grpo_population(clean[trained], sizes_P)
    return np.where(differs, out, 0.0)


def compare(
    groups: Groups,
    advantages: tuple[Floats, Floats],
    labels: tuple[Sequence[str | None], Sequence[str | None]],
    entries: Sequence[Mapping[str, Any]],
    result: Estimate,
) -> list[dict[str, Any]]:
    """One dictionary per group for one shadow method; pairs hold what the method says, then what the shadow does.

    flipped   share of the trained rollouts whose advantage has the opposite sign
    cosine    of the two vectors of advantages, None if one is zero
    """
    own_R, other_R = advantages
    count_P = np.maximum(groups.sum_rollouts(groups.trains_R), 1)
    flipped_P = groups.sum_rollouts(own_R * other_R < 0) / count_P
    product_P = groups.sum_rollouts(own_R * other_R)
    norm_P = np.sqrt(groups.sum_rollouts(own_R**2)) * np.sqrt(groups.sum_rollouts(other_R**2))
    cosine_P = np.clip(np.divide(product_P, norm_P, out=np.full(len(norm_P), np.nan), where=norm_P > 0), -1.0, 1.0)
    own_labels, other_labels = labels
    out = []
    for p, entry in enumerate(entries):
        if p in result.errors:
            error = result.errors[p]
            out.append({"error": {"code": error.code, "message": error.message}})
            continue
        cosine = float(cosine_P[p])
        found: dict[str, Any] = {
            "pseudo_label": other_labels[p],
            "flipped": float(flipped_P[p]),
            "cosine": None if np.isnan(cosine) else cosine,
            "label_agreement": float(own_labels[p] == other_labels[p]),
        }
        if "label_accuracy" in entry:
            found["label_accuracy"] = entry["label_accuracy"]
        out.append(found)
    return out


def summary(entries: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Means over the groups of a request, where they are defined, and how many groups could not be scored."""
    columns = {name: [e[name] for e in entries if e.get(name) is not None] for name in SHADOW}
    out = {name: float(np.mean(values)) for name, values in columns.items() if values}
    if failed := sum("error" in e for e in entries):
        out["errors"] = float(failed)
    return out


def needs(method: Method) -> tuple[str, ...]:
    """The inputs without which a shadow, which has its default parameters, cannot be computed."""
    defaults = {s.name: s.default for s in method.specs}
    return (*method.requires, *(w.name for w in method.when if w.holds(defaults)))


def log_names(shadow: Sequence[str]) -> tuple[str, ...]:
    """The keys of `logs`."""
    return tuple(f"shadow_{name}_{key}" for name in shadow for key in LOGS)


def logs(diagnostics: Mapping[str, Any], shadow: Sequence[str]) -> dict[str, float]:
    """A group's diagnostics as finite numbers, under keys that depend on `shadow` alone; UNKNOWN where not told."""
    out: dict[str, float] = {}
    for name in shadow:
        told = (diagnostics.get("shadow") or {}).get(name, {})
        told = {**told, "cosine_known": told.get("cosine") is not None}
        for key in LOGS:
            value = told.get(key)
            out[f"shadow_{name}_{key}"] = UNKNOWN if value is None or not math.isfinite(value) else float(value)
    return out
