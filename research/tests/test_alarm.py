"""The page of the alarm says what its script finds in the published runs."""

import importlib.util
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("alarm_evidence", ROOT / "research" / "scripts" / "alarm_evidence.py")
alarm = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(alarm)


def run(accuracy, signal, base=0):
    steps = tuple(range(0, 8 * len(accuracy), 8))
    return alarm.Run(base, steps, tuple(accuracy), dict.fromkeys(alarm.SIGNALS, np.array(signal)))


def test_a_fall_is_one_that_lasts():
    ones = [1.0] * 32
    assert run([0.5, 0.6, 0.55, 0.5, 0.5], ones).fell == 16
    assert run([0.5, 0.6, 0.55, 0.6, 0.59], ones).fell is None


def test_a_rule_warns_only_before_the_fall_shows():
    signal = [1.0] * 19 + [2.0] * 13  # the 20th step
    rule = alarm.threshold("entropy", 1, 1.5)
    late, early, steady = ([0.5, 0.6, 0.55, 0.5, 0.5], [0.5, 0.6, 0.6, 0.55, 0.5], [0.5] * 5)
    found = alarm.judged(rule, [run(curve, signal) for curve in (late, early, steady)])
    assert (found.falls, found.warned, found.lead, found.others, found.false) == (2, 1, 4.0, 1, 1)
    assert np.isclose(found.accuracy, 100 * (0.55 + 0.6 + 0.5) / 3)
    assert rule(run(late, [1.0] * 32)) is None


def test_the_page_is_that_of_the_results():
    page = alarm.PAGE.read_text()
    assert f"<!-- alarm -->\n{alarm.table()}<!-- end -->" in page
