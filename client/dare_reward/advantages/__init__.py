"""What becomes of rewards: advantages as the stacks compute them, which rollouts are trained, and what is reshaped.

from_rewards   advantages from rewards, pure functions on flat arrays
selection      which rollouts of a group are trained
reshaping      what follows an advantage

The options of a request that ask for these, and their order, are in `scoring/update.py`.
"""

from __future__ import annotations

from .from_rewards import advantages

__all__ = ["advantages"]
