"""The page of the alarm says what its script finds in the published runs."""

import importlib.util
from dataclasses import replace
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


def test_a_collapse_is_a_loss_of_half_that_lasts():
    def forced(accuracy):
        return replace(run(accuracy, [1.0] * 32), forced=True)

    assert forced([0.5, 0.6, 0.29, 0.4, 0.2, 0.1]).fell == 32
    assert forced([0.5, 0.6, 0.29, 0.1, 0.2, 0.3]).fell is None
    assert forced([0.5, 0.6, 0.5, 0.5, 0.5, 0.31]).fell is None


def test_the_rules_of_the_report_fire_at_the_step_that_they_name():
    fired = (None,) * 7 + ("no-rule-fires", "agreement-rises", "answers-vanish")
    own = replace(run([0.5, 0.4], [1.0] * 10), fired=fired)
    assert alarm.reported("answers-vanish")(own) == 10
    assert alarm.reported("answers-vanish", "agreement-rises")(own) == 9
    assert alarm.reported("one-answer-everywhere")(own) is None


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
    for name, made in alarm.BLOCKS.items():
        assert f"<!-- {name} -->\n{made()}<!-- end -->" in page
