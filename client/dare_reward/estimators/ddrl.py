"""DDRL: trains on the most and the least frequent answers, with fixed advantages (arXiv:2604.21327, official code).

Of the paper's three parts the code has two: the balanced selection of rollouts, and advantages of +1 and -1. The third
is supervised training after RL, and no part of an estimator.

The release does not do what its paper says. Its "negatives" are the last of the order by votes, whatever they answer:
if the leader has more than N - k- votes, some of them are its rollouts and get +1. An unanimous prompt gives +1 to all.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from ..advantages import ddrl_flags, select_ddrl
from ..groups import Groups
from ..params import Param
from .common import by_answer
from .method import Estimate, Method
from .ttrl import majority


def ddrl(
    groups: Groups,
    *,
    n_train: Annotated[
        int | None,
        Param(
            "K, rollouts to train; default: the number of trained ones where some only vote, else half",
            ge=1,
            source="official script: 32 of 64",
        ),
    ] = None,
    on_all_invalid: Annotated[
        Literal["skip", "negative"],
        Param("a group without any answer: train on none of it; or -1 for the last K, as released", source="ours"),
    ] = "skip",
    unanimous: Annotated[
        Literal["keep", "drop"],
        Param("a group of one answer: +1 for the selected, as released; or dropped", source="official code"),
    ] = "keep",
) -> Estimate:
    """r = 1 for the majority answer (ties: first seen), else 0; select; advantages 2r - 1 of the selected rollouts."""
    label_A = majority(groups)
    rewards_R = groups.spread(label_A.astype(np.float64))
    place_R = select_ddrl(groups, n_train)
    empty_P = groups.support_P == 0
    none_P = empty_P & (on_all_invalid == "skip")
    place_R = np.where(none_P[groups.group_R], -1, place_R)
    flags_P = ddrl_flags(groups, place_R)
    return by_answer(
        groups,
        label_A.astype(np.float64),
        rewards_R=rewards_R,
        label_A=label_A,
        advantages_R=2 * rewards_R - 1,
        place_R=place_R,
        flags_P=flags_P,
        drop_P={"unanimous": flags_P["unanimous"] & (unanimous == "drop")},
    )


METHODS = (
    Method(
        name="ddrl",
        function=ddrl,
        summary="majority vote, trained on the most and the least frequent answers, with advantages of +1 and -1",
        paper="arXiv:2604.21327",
        evidence="verified against official code",
        advantages=True,
        selects=True,
        unverified="the paper's own text; its third part, supervised training after RL",
    ),
)
