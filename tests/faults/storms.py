"""Thousands of held rollouts over replicas, storm after storm, and in each a replica is killed while they wait.

    python tests/faults/storms.py                                    8,192 rollouts, 4 replicas, 10 storms
    python tests/faults/storms.py --rollouts 512 --storms 2 --replicas 2

Every rollout must be answered, every group scored once, and every reward the one of a single process. Each rollout is
a connection here and at the service: raise `ulimit -n` to four times their number.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from serving import service
from tries import count, disturbed, processes, step

SIZE = 64
CLOSED = 'dare_join_groups_total{reason="full"'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=8192)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--storms", type=int, default=10)
    given = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    groups = given.rollouts // SIZE
    with service() as one:
        expected = asyncio.run(step(one.url, groups, SIZE))
    with service("--replicas", str(given.replicas)) as served:
        for storm in range(given.storms):
            begun, full = time.monotonic(), count(served.url, CLOSED)
            victim = processes(served.url, given.replicas)["replicas"][0]
            kill = lambda: os.kill(victim, signal.SIGKILL)  # noqa: B023, E731  (called before the next turn)
            found = asyncio.run(disturbed(served.url, groups, SIZE, kill, run=f"storm{storm}", wait=600))
            lost, closed = sum(reply is None for reply in found), count(served.url, CLOSED) - full
            same = found == expected
            seconds = time.monotonic() - begun
            print(f"storm {storm}: {lost} lost, {closed:.0f} of {groups} groups scored, same: {same}, {seconds:.0f} s")
            if lost or closed != groups or not same:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
