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

LISTED: Final[Mapping[str, tuple[str, str]]] = {
    "score": (ROLLOUTS, "Score groups of rollouts from a file."),
    "compare": (ROLLOUTS, "Compare methods on the same rollouts: winners, accuracy, and where they disagree."),
    "explain": (ROLLOUTS, "Explain how a group got its rewards, or find suspicious groups in a file."),
    "convert": (ROLLOUTS, "Write rollouts of other tools as groups, one per line."),
    "calibrate": (ROLLOUTS, "Fit the exponent of calibrated_vote on labelled rollouts of 32 to 100 prompts."),
    "label": (ROLLOUTS, "Label some of the prompts, on a page or in a terminal."),
    "plan": (TRAINING, "Plan a training on labelled and unlabelled prompts at once, and write its data set."),
    "preflight": (ROLLOUTS, "Give one verdict from labelled rollouts: use entropy, use the vote, or undecided."),
    "report": (ROLLOUTS, "Show a run as one HTML file."),
    "export": (ROLLOUTS, "Send a run log to a tracker: scalars, a table of groups per step, traces."),
    "serve": (TRAINING, "Start the reward service."),
    "train": (TRAINING, "Compose an OpenRLHF training command from a recipe, check it and run it."),
    "doctor": (TRAINING, "Check this node before a run: service, versions, plugin, limits, labels."),
    "data": (TRAINING, "Prepare prompts for OpenRLHF: a benchmark, or your own."),
    "methods": (LOOKUP, "List the estimators, or the parameters of one."),
    "completion": (LOOKUP, "Print a script that completes commands and flags in your shell."),
    "evaluate": (TRAINING, "Measure pass@k and maj@k of a served model on benchmark files."),
    "measure": (ROLLOUTS, "Sample a model with vLLM and measure whether its entropy is informative."),
}
