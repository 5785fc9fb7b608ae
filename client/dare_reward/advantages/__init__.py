"""What becomes of rewards: advantages as the stacks compute them, which rollouts are trained, and what is reshaped.

from_rewards   advantages from rewards, pure functions on flat arrays
selection      which rollouts of a group are trained
reshaping      what follows an advantage
update         the options of a request that ask for these, and their order
"""

from __future__ import annotations

from .from_rewards import (
    ADVANTAGES,
    Advantage,
    advantages,
    dr_grpo,
    find_advantage,
    fixed,
    grpo_openrlhf,
    grpo_population,
    grpo_verl,
    pass_at_k_advantage,
    pass_at_k_pair,
    reinforce,
    reinforce_pp,
    reinforce_pp_baseline,
    rloo,
)
from .reshaping import ear
from .selection import select_ddrl

__all__ = [
    "ADVANTAGES",
    "Advantage",
    "advantages",
    "dr_grpo",
    "ear",
    "find_advantage",
    "fixed",
    "grpo_openrlhf",
    "grpo_population",
    "grpo_verl",
    "pass_at_k_advantage",
    "pass_at_k_pair",
    "reinforce",
    "reinforce_pp",
    "reinforce_pp_baseline",
    "rloo",
    "select_ddrl",
]
