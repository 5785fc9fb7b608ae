"""Killing a process that writes a run log: `kill_at(folder, groups=40)`."""

import random
import subprocess
import sys
import time

WRITER = """
import sys
import dare_reward
from pathlib import Path
from dare_reward.runs import log
from dare_reward.runs.line import of_groups

log.PAUSE = 0.001
groups = [{"rollouts": [{"answer": str(i % 7), "mean_entropy": 0.01 * i, "num_tokens": i} for i in range(64)]}]
reply = dare_reward.estimate(groups)
writer = log.RunLog(Path(sys.argv[1]))
step = 0
while True:
    for _ in range(8):
        writer.add(of_groups(groups, reply.groups, run="r", step=step))
        step += 1
    while writer.status["flushed"] + 400 < step:
        pass
    print(writer.status["flushed"], flush=True)
"""


def kill_at(folder, *, groups, wait=0.0):
    """Start a writer, kill it (SIGKILL) some time after it has acknowledged `groups`; the last count that it told."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        told = 0
        while told < groups:
            told = int(process.stdout.readline())
        time.sleep(random.uniform(0, wait))
        process.kill()
        rest = process.stdout.read().split("\n")
        return max([told, *(int(line) for line in rest[:-1])])
