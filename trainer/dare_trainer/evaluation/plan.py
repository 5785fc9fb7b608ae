"""What a model is asked, and how: a file of rollouts belongs to one plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from dare_reward.params import Param

from ..launch.questions import LabelledQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurePlan:
    """What the model is asked, and how. A file of rollouts belongs to one of these.

    data   the benchmark's name
    url    an endpoint was asked, which tells no entropies
    """

    model: str
    data: str
    url: bool = False
    seed: int = 0
    rollouts: Annotated[int, Param("Rollouts of each prompt", ge=1)] = 64
    temperature: Annotated[float, Param("The temperature that you will train with", ge=0)] = 1.0
    top_p: Annotated[float, Param("The top-p that you will train with", gt=0, le=1)] = 0.95
    max_tokens: Annotated[int, Param("The most new tokens of a rollout", ge=1)] = 3072
    chat: Annotated[
        bool, Param("Ask by the model's chat template; --no-chat sends the bare text, which a base model goes on with")
    ] = True
    as_is: Annotated[bool, Param("Add no instruction to reason and to put the answer into \\boxed{}")] = False
    prefix: Annotated[str, Param("Put this before every prompt; \\n is a line break")] = ""
    stop: tuple[str, ...] = ()
    tokens: Annotated[bool, Param("Write each token's id, entropy and log-probability, not their means alone")] = False

    def sent(self, problem: LabelledQuestion) -> str:
        """What the model is sent of a problem."""
        return self.prefix + (problem.asked or problem.prompt(as_is=self.as_is))


@dataclass(frozen=True, slots=True)
class Want:
    """What a problem still lacks: so many rollouts, and the greedy one."""

    problem: LabelledQuestion
    rollouts: int
    greedy: bool

    @property
    def sequences(self) -> int:
        return self.rollouts + self.greedy
