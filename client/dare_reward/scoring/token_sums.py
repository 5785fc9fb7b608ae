"""What follows from a rollout's tokens, all of them that a client sends: means, sums, and a digest of the path."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..groups import Ragged
from ..inputs import FIELDS
from .array_inputs import Columns, Table, read_columns

JSON = Mapping[str, Any]
PER_TOKEN: Final = tuple(sorted(f.name for f in FIELDS.values() if f.per_token and f.name != "token_mask"))
TOKENS: Final = frozenset(PER_TOKEN) | {"token_mask", "token_ids", "answer_tokens"}


def without_tokens(rollout: JSON) -> dict[str, Any]:
    """A rollout of `POST /reward` with numbers and a path in place of its tokens."""
    columns = read_columns(Table.of([rollout]), {}, lambda i: ("rollouts", i))
    out = {k: v for k, v in rollout.items() if k not in TOKENS} | token_sums(rollout, 0, columns)
    path = path_digest(rollout)
    return out | ({"path": path} if path and "sum_logprob" in out else {})


def token_sums(rollout: JSON, i: int, columns: Columns, travelling: Collection[str] = ()) -> dict[str, Any]:
    """The numbers that follow from the rollout's per-token inputs, without those of inputs that travel themselves.

    `i` is its place in `columns`. An empty list is an input that is missing.
    """
    out: dict[str, Any] = {}
    for name in PER_TOKEN:
        column = columns.get(name) if name in rollout and name not in travelling else None
        if not isinstance(column, Ragged) or not column.lengths[i]:
            continue
        field = FIELDS[name]
        for target in filter(None, (field.gives and field.gives[0], field.answer)):
            scalar = columns.get(target)
            if isinstance(scalar, np.ndarray) and (target != field.answer or not np.isnan(scalar[i])):
                out[target] = None if np.isnan(scalar[i]) else float(scalar[i])
        out["num_tokens"] = int(columns["num_tokens"][i])  # type: ignore[index]
    return out


def path_digest(rollout: JSON) -> str | None:
    """What tells the path of its tokens from others: a digest of its token ids, else of its text."""
    ids: Sequence[int] | None = rollout.get("token_ids")
    if ids is not None and len(ids):
        made = np.asarray(ids, np.int64).tobytes()
    else:
        made = (rollout.get("text") or "").encode("utf-8", "replace")
    return hashlib.blake2b(made, digest_size=8).hexdigest() if made else None
