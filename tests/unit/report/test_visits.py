"""A fall of accuracy is called by each prompt's own first visit; the bars were simulated at commit 3768e86a."""

import random
from itertools import product

import pytest

from dare_reward.report import visits as module
from dare_reward.report.verdict import accuracy_verdict
from dare_reward.report.visits import NEEDED, Visits

ROLLOUTS = 16


def words(seed, *, prompts, pool, labelled=1, steps=60, move=lambda step: 0.0):
    """The verdict after each step."""
    rng, visits, found = random.Random(seed), Visits(), []
    accuracy = [rng.uniform(0.25, 0.75) for _ in range(pool)]
    for step in range(steps):
        for place in range(step * prompts, (step + 1) * prompts):
            prompt = place % pool
            if prompt % labelled == 0:
                right = accuracy[prompt] + move(step)
                said = [rng.random() < right for _ in range(ROLLOUTS)]
                visits.add(prompt, step, (sum(said) / ROLLOUTS, 1.0))
        found.append(accuracy_verdict(visits, range(99)).word)
    return found


@pytest.mark.parametrize("prompts", [8, 32])
@pytest.mark.parametrize("labelled", [1, 4])
def test_where_accuracy_stays_no_step_is_red(prompts, labelled):
    red = sum("falls" in words(seed, prompts=prompts, pool=4 * prompts, labelled=labelled) for seed in range(12))
    assert red <= 1


def test_a_fall_of_20_points_over_20_steps_is_found_within_15():
    begins, late = 20, 0
    for seed in range(8):
        found = words(seed, prompts=32, pool=32, steps=40, move=lambda step: -min(max(step - begins + 1, 0), 20) / 100)
        assert "falls" not in found[:begins]
        late += "falls" not in found[: begins + 15]
    assert late == 0


def test_a_rise_is_no_fall():
    found = words(1, prompts=32, pool=32, move=lambda step: step / 240)
    assert (found[-1], "falls" in found) == ("rises", False)


def fallen(prompts, others=0):
    """All right for 20 steps, then all wrong; `others`: of other prompts."""
    visits = Visits()
    for step, prompt in product(range(40), range(prompts)):
        visits.add(others * (step >= 20) + prompt, step, (float(step < 20), 1.0))
    return visits


def test_too_few_prompts_say_how_many_are_missing():
    found = accuracy_verdict(fallen(NEEDED - 1), ())
    assert (found.rule, str(NEEDED - 1) in found.why, str(NEEDED) in found.why) == ("too-few-visits", True, True)


def test_other_prompts_are_no_evidence():
    """Easy prompts first, then hard ones: the mean falls, and no prompt does."""
    assert accuracy_verdict(fallen(32, others=1000), ()).rule == "accuracy-unclear"


def test_what_is_forgotten_no_longer_counts(monkeypatch):
    """Of more prompts than are remembered, the ones that were seen least lately go, with what they changed."""
    monkeypatch.setattr(module, "PROMPTS", NEEDED)
    visits = fallen(NEEDED)
    for step, prompt in product(range(40, 42), range(100, 100 + NEEDED)):
        visits.add(prompt, step, (0.5, 1.0))
    assert (visits.again, visits.change.gain.estimate) == (NEEDED, 0.0)
    assert visits.learnt.prompts == NEEDED


def test_a_fall_begins_at_the_step_after_which_it_was_sure():
    visits, words = Visits(), []
    for step in range(30):
        for prompt in range(32):
            visits.add(prompt, step, (0.75 if step < 10 else 0.25, 1.0))
        found = accuracy_verdict(visits, range(99))
        words.append(found.word)
    assert words.index("falls") == found.since
    assert 10 <= found.since <= 14
