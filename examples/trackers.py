"""Send a run log to trackio or Weights & Biases: the numbers of each step, under the names that the report has.

pip install trackio                                    # or wandb; WANDB_MODE=offline keeps the run on this machine
python examples/trackers.py runs/exp1 trackio my-project
"""

import sys
from collections import defaultdict
from importlib import import_module
from pathlib import Path

from dare_reward.ledger import Ledger
from dare_reward.numbers import pooled
from dare_reward.runs.reader import read_run


def send(folder: str, tracker: str = "trackio", project: str = "dare-reward") -> int:
    """The number of steps that were sent. A group without a step of its own goes to step 0."""
    steps, ledger = defaultdict(list), Ledger()
    for line in read_run(folder, ledger):
        steps[line["step"] or 0].append(line)
    if ledger.lost:
        print(ledger.sentence)
    module = import_module(tracker)
    module.init(project=project, name=Path(folder).name)
    for step, groups in sorted(steps.items()):
        module.log({f"dare/{name}": value for name, value in pooled(groups).items()}, step=step)
    module.finish()
    return len(steps)


if __name__ == "__main__":
    print(f"sent {send(*sys.argv[1:])} steps")
