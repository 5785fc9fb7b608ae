"""The old name of `dare_trainer.vllm.reference_probability`, for one release."""

import warnings

from .vllm.reference_probability import *  # noqa: F403

warnings.warn(
    "dare_trainer.reference has moved to dare_trainer.vllm.reference_probability", DeprecationWarning, stacklevel=2
)
