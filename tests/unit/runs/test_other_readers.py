"""What docs/run-log.md says of DuckDB, run as it stands there."""

import re
from pathlib import Path

import pytest

import dare_reward
from dare_reward.runs.line import of_groups
from dare_reward.runs.log import RunLog

PAGE = Path(__file__).parents[3] / "docs" / "run-log.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run of three steps, one group of which could not be scored."""
    folder = tmp_path_factory.mktemp("runs")
    log = RunLog(folder)
    for step in range(3):
        rows = [{"answer": str(i % 3), "mean_entropy": 0.1 * i} for i in range(6)]
        groups = [{"group_id": "a", "label": "1", "rollouts": rows}, {"group_id": "b", "rollouts": [{"answer": "1"}]}]
        log.add(of_groups(groups, dare_reward.estimate(groups).groups, run="exp1", step=step))
    log.close()
    return folder / "exp1"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_duckdb(run):
    import duckdb

    first, second = (duckdb.sql(sql.replace("runs/exp1", str(run))).fetchall() for sql in blocks("sql"))
    assert [row[0] for row in first] == [0, 1, 2]
    assert [row[1] for row in first] == [pytest.approx(1 / 3)] * 3
    assert [(step, ok) for step, ok, _ in second] == [(s, ok) for s in range(3) for ok in (False, True)]


def test_our_own_reader(run):
    (code,) = blocks("python")
    told = []
    exec(code.replace("runs/exp1", str(run)), {"print": lambda *row: told.append(row)})
    assert [row[0] for row in told] == [0, 0, 1, 1, 2, 2]
