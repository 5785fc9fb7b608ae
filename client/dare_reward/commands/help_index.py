"""The commands that this project brings: where `dare-reward --help` lists each, and its sentence.

They stand here so that help and a wrong name load no command, and a command no other. A package beside these declares
its commands where it adds them (`add_command`), and is loaded for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ROLLOUTS: Final = "Score rollouts and understand the rewards"
TRAINING: Final = "Serve rewards and train with them"
LOOKUP: Final = "Look things up"
AUTHORS: Final = "For authors of methods and studies"
GROUPS: Final = (ROLLOUTS, TRAINING, LOOKUP, AUTHORS)

HELP_INDEX: Final[Mapping[str, tuple[str, str]]] = {
    "score": (ROLLOUTS, "Score groups of rollouts from a file."),
    "explain": (ROLLOUTS, "Explain how a group got its rewards, or find suspicious groups in a file."),
    "calibrate": (ROLLOUTS, "Decide from labelled rollouts whether to use entropy or the plain vote."),
    "label": (ROLLOUTS, "Label some of the prompts on a page."),
    "report": (ROLLOUTS, "Show a run as one HTML file."),
    "serve": (TRAINING, "Start the reward service."),
    "doctor": (TRAINING, "Check this node before a run: service, versions, plugin, limits, labels."),
    "data": (TRAINING, "Prepare prompts for OpenRLHF: a benchmark, or your own."),
    "methods": (LOOKUP, "List the estimators, or the parameters of one."),
    "measure": (ROLLOUTS, "Sample a model and measure whether its entropy, or a vote, is worth having."),
}
