"""The file that OpenRLHF loads by path: `--train.agent_func_path .../agent.py` (`--agent_func_path` before 0.10.2).

`dare-reward train` copies it next to the run's `dare_agent.toml`; alone, it reads the environment.
"""

from pathlib import Path
from typing import Any

from openrlhf.utils.agent import AgentExecutorBase  # type: ignore[import-not-found,unused-ignore]

from dare_trainer.agent.config import read_config
from dare_trainer.agent.executor import Executor


class AgentExecutor(AgentExecutorBase):  # type: ignore[misc,unused-ignore]
    """One per rollout actor; takes no arguments."""

    def __init__(self) -> None:
        self._executor = Executor(read_config(Path(__file__).resolve().parent))

    async def execute(self, *arguments: Any, **named: Any) -> dict[str, Any]:
        return await self._executor.execute(*arguments, **named)
