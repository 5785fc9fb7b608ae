"""The names that other tools have for our inputs. A file may use them; a request over HTTP may not.

Declared once: the reader goes by these tables, and docs/data.md shows them. Our name wins over the others, and of
these an earlier one over a later one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from ..errors import unknown_name
from ..inputs import GROUP_FIELDS, ROLLOUT_FIELDS

__all__ = ["GROUPING", "GROUP_NAMES", "ROLLOUT_NAMES", "RUN_LOG_COMMANDS", "named", "unknown_field"]

RUN_LOG_COMMANDS: Final = "calibrate, preflight, report, plot or export"  # all others read rollouts

GROUP_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "group_id": (
            "prompt_id",
            "uid",
            "question_id",
            "problem_id",
            "task_id",
            "request_id",
            "custom_id",
            "idx",
            "id",
        ),
        "rollouts": ("responses", "completions", "outputs", "samples", "generations", "candidates"),
        "label": ("ground_truth", "gold", "gold_answer", "target", "gts", "gt", "reference_answer", "expected_answer"),
        "prompt": ("question", "problem", "query", "input", "prompts", "messages"),
    }
)
ROLLOUT_NAMES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "text": (
            "completion",
            "response",
            "output",
            "generation",
            "output_text",
            "generated_text",
            "content",
            "message",
        ),
        "token_entropies": ("entropies", "token_entropy"),
        "mean_entropy": ("entropy", "avg_entropy", "average_entropy"),
        "token_logprobs": ("logprobs", "log_probs", "output_logprobs"),
        "sum_logprob": ("cumulative_logprob",),
        "token_ids": ("completion_ids", "response_ids", "output_ids"),
        "num_tokens": ("completion_tokens", "response_length", "output_length"),
        "correct": ("is_correct",),
        "finish_reason": ("stop_reason", "finish"),
    }
)
# What tells the groups of a file with one rollout a line, the first that is there. `step` is always part of it.
GROUPING: Final = ("group_id", "prompt_id", "uid", "question_id", "problem_id", "task_id", "prompt")


def unknown_field(name: str, known: Collection[str]) -> str:
    """A message for a key that is none of `known`: what other tools mean by it, or the likeliest ones meant."""
    others = {**GROUP_NAMES, **ROLLOUT_NAMES}
    others["label"] += ("answer",)  # of a group; beside a rollout's text a file's `answer` is read as the label too
    own = [own for own, names in others.items() if own in known and (name in names or f"{name}s" in names)]
    return f"unknown field {name!r}. Did you mean {own[0]}?" if own else unknown_name("field", name, known)


def named(record: Mapping[str, Any], *, group: bool) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """`record` by our names; which other name stood for which of ours; and the names that mean nothing here."""
    fields, others = (GROUP_FIELDS, GROUP_NAMES) if group else (ROLLOUT_FIELDS, ROLLOUT_NAMES)
    out = {name: value for name, value in record.items() if name in fields}
    used: dict[str, str] = {}
    for own, names in others.items():
        if out.get(own) is None:
            other = next((n for n in names if record.get(n) is not None), None)
            if other is not None:
                out[own], used[other] = record[other], own
    return out, used, [name for name in record if name not in fields and name not in used]
