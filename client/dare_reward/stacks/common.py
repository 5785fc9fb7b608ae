"""The old name of `dare_reward.stacks.scorer`, for one release."""

import warnings

from .scorer import *  # noqa: F403

warnings.warn("dare_reward.stacks.common has moved to dare_reward.stacks.scorer", DeprecationWarning, stacklevel=2)
