"""The old name of `dare_trainer.vllm.token_entropy`, for one release."""

import warnings

from .vllm.token_entropy import *  # noqa: F403

warnings.warn(
    "dare_trainer.token_entropy has moved to dare_trainer.vllm.token_entropy", DeprecationWarning, stacklevel=2
)
