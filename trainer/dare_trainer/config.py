"""The old name of `dare_trainer.agent.config`, for one release. Agent files that older runs copied import it."""

import warnings

from .agent.config import *  # noqa: F403

warnings.warn("dare_trainer.config has moved to dare_trainer.agent.config", DeprecationWarning, stacklevel=2)
