"""The old name of `dare_trainer.agent.executor`, for one release. Agent files that older runs copied import it."""

import warnings

from .agent.executor import *  # noqa: F403

warnings.warn("dare_trainer.executor has moved to dare_trainer.agent.executor", DeprecationWarning, stacklevel=2)
