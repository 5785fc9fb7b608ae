"""A run log whose process is killed at 50 random moments: `pytest tests/bench/test_run_log_kills.py -s`."""

import random

import pytest
from kills import kill_at

from dare_reward.runs import read_run

pytestmark = pytest.mark.bench


def test_nothing_that_was_acknowledged_is_lost(tmp_path, report):
    lost, more = 0, []
    for moment in range(50):
        folder = tmp_path / str(moment)
        acknowledged = kill_at(folder, groups=random.randint(1, 4000), wait=0.1)
        found = [line["step"] for line in read_run(folder)]
        assert found == list(range(len(found)))
        lost += max(0, acknowledged - len(found))
        more.append(len(found) - acknowledged)
    report(
        "kill -9 at 50 moments", f"{lost} acknowledged groups lost", f"{min(more)} to {max(more)} more were there", "0"
    )
    assert lost == 0
