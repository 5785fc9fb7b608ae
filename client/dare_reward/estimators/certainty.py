"""Which tokens say how sure a policy is of an answer: all, those of the answer, or the last ones.

Declared once. Every method that reads `mean_entropy` has the parameter `over`, and sees in that column what it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import numpy as np

from ..groups import Groups, Ragged
from ..params import Spec
from ..segments import Bools, Floats, Ints, offsets, segment_means

Certainty = Literal["entropy", "answer_probability"]
PROBABILITY: Final = "answer_probability"

TRACE: Final = "trace"
ANSWER: Final = "answer"
LAST: Final = "last="
FALLBACK: Final = "trace_entropy"  # flag of groups, and share of their answered rollouts, that fell back to the trace
OVER: Final = Spec(
    "over",
    str,
    TRACE,
    doc="tokens whose mean entropy counts: all (trace), the answer's and the one that ends it (answer), or the last K "
    "(last=K). A rollout without them counts with its trace",
    source="Eq. 9 has the trace; answer: ours, docs/entropy.md; last: RENT, arXiv:2505.22660",
    pattern=r"trace|answer|last=[1-9][0-9]{0,6}",
    words="trace, answer or last=K with K from 1 on",
)


def last_tokens(over: object) -> int:
    """K of last=K; 0 for anything else."""
    return int(over.removeprefix(LAST)) if isinstance(over, str) and over.startswith(LAST) else 0


def reads_answers(params: Mapping[str, Any]) -> bool:
    """A method with these parameters wants the answer's tokens found."""
    return params.get(OVER.name) == ANSWER or params.get("certainty") == PROBABILITY


def entropies_over(groups: Groups, over: str) -> tuple[Groups, Bools]:
    """The groups with the entropies that `over` names as `mean_entropy`, and the rollouts that lack them: these keep
    the mean of their whole trace."""
    count = last_tokens(over)
    values_R = _means_of_last(groups.generated("token_entropies"), count) if count else groups.column("answer_entropy")
    trace_R = groups.column("mean_entropy")
    missing_R = np.isnan(values_R)
    return groups.with_column("mean_entropy", np.where(missing_R, trace_R, values_R)), missing_R & ~np.isnan(trace_R)


def _means_of_last(tokens: Ragged, count: int) -> Floats:
    """Mean over the last tokens of each rollout, NaN where it has none. Shape [R]."""
    lengths: Ints = np.minimum(tokens.lengths, count)
    inside_T = np.arange(len(tokens.values)) >= np.repeat(offsets(tokens.lengths)[1:] - lengths, tokens.lengths)
    return segment_means(tokens.values[inside_T], lengths)[0]
