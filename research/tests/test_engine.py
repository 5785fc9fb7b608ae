"""The simulated engine: what can be computed by hand."""

import pytest

from dare_research.simulation.engine import Engine, compared, step_time

EVEN = Engine(slots=4, knee=4.0, mean=100.0, sigma=1e-9)  # every rollout has 100 tokens


@pytest.mark.parametrize(
    ("waves", "time"),
    [
        ([[1]], 125),  # one sequence: each token takes 1 + 1/4
        ([[4]], 200),
        ([[8]], 400),  # two rounds of the four slots
        ([[4, 4]], 400),
        ([[2, 2]], 300),  # half of the engine idles, twice
        ([[2], [2]], 200),
        ([[2, 2], [2]], 350),  # the second wave runs alone
    ],
)
def test_steps_of_equal_rollouts(waves, time):
    found, tokens = step_time(EVEN, waves, seed=0)
    assert found == pytest.approx(time, rel=1e-6)
    assert tokens == pytest.approx(100 * sum(map(sum, waves)), rel=1e-6)


def test_waves_save_time_on_a_full_engine_and_cost_some_on_an_empty_one():
    never = (0.7, 0.0, 0.0, 0.0, 0.3)
    time, tokens = compared(Engine(slots=32, knee=8.0, sigma=0.3), 32, never, seeds=3)
    assert time < 0.9
    assert tokens < 0.9
    time, tokens = compared(Engine(slots=4096, knee=1024.0, sigma=0.3), 8, never, seeds=3)
    assert time > 1.2
    assert tokens < 0.9
