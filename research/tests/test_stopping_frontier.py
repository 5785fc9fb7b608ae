"""The frontier of adaptive voting on the votes of two base models, on which no default was chosen."""

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "stopping_frontier.py"
BASES = ("votes-informative-0", "votes-uninformative-1")
ORDERS = 4


@pytest.fixture(scope="module")
def frontier():
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[SCRIPT.stem] = module  # its dataclasses look there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[SCRIPT.stem]


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("method", ["ttrl", "dare"])
def test_of_the_groups_that_stop_at_a_risk_at_most_so_many_flip(frontier, name, method):
    played = frontier.games(frontier.recorded(f"research/results/{name}.jsonl.gz"), method, ORDERS)
    assert len(played) == 64 * ORDERS
    if method == "ttrl":
        knobs = {delta: lambda look, d=delta: look.flip <= d for delta in (0.01, 0.03, 0.1, 0.2)}
    else:
        knobs = {0.05: lambda look: look.change <= 0.03 and look.risk <= 0.05}
    for delta, rule in knobs.items():
        for wave in (4, 8):
            found = frontier.outcome(played, rule, wave)
            assert found.of_stopped <= delta
            assert found.saved > 0.4


def test_the_recorded_votes_are_sixty_four_with_their_entropies(frontier):
    for name in BASES:
        answers, entropies = frontier.recorded(f"research/results/{name}.jsonl.gz")
        assert [len(own) for own in answers] == [64] * 64
        assert all(h > 0 for own in entropies for h in own)
