"""The names that other tools have for our inputs, as `inputs.py` declares them. A file may use them.

Our name wins over the others, and of these an earlier one over a later one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..inputs import GROUP_FIELDS, ROLLOUT_FIELDS

GROUP_NAMES, ROLLOUT_NAMES = (
    {f.name: f.also for f in fields.values() if f.also} for fields in (GROUP_FIELDS, ROLLOUT_FIELDS)
)
# What tells the groups of a file with one rollout a line, the first that is there; without any the prompt does.
GROUPING: Final = ("group_id", "prompt_id", "uid", "question_id", "problem_id", "task_id")


def named(record: Mapping[str, Any], *, group: bool) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """`record` by our names; which other name stood for which of ours; and the names that mean nothing here."""
    fields, others = (GROUP_FIELDS, GROUP_NAMES) if group else (ROLLOUT_FIELDS, ROLLOUT_NAMES)
    out = {name: value for name, value in record.items() if name in fields}
    used: dict[str, str] = {}
    for ours, names in others.items():
        if out.get(ours) is None:
            other = next((n for n in names if record.get(n) is not None), None)
            if other is not None:
                out[ours], used[other] = record[other], ours
    return out, used, [name for name in record if name not in fields and name not in used]
