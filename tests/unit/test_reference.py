"""Reference probabilities from vLLM's prompt_logprobs, with a fake engine that has its shape."""

import math
from dataclasses import dataclass
from pathlib import Path

import pytest
from by_path import load

import dare_reward

EXAMPLE = load(Path(__file__).parents[2] / "examples" / "reference_probability.py")
base_mean_probs, mean_probability = EXAMPLE.base_mean_probs, EXAMPLE.mean_probability
probabilities, reference_probs = EXAMPLE.probabilities, EXAMPLE.reference_probs


@dataclass
class Logprob:
    logprob: float
    rank: int = 1


@dataclass
class Output:
    prompt_token_ids: list
    prompt_logprobs: list


def logprob(before, token):
    """A model: the more tokens before, the likelier; never above 1."""
    return -((token % 5) + 1.0) / (1 + before)


class Engine:
    def __init__(self):
        self.calls = []

    def generate(self, prompts, sampling, *, use_tqdm):
        self.calls.append((prompts, sampling, use_tqdm))
        out = []
        for prompt in prompts:
            ids = prompt["prompt_token_ids"]
            entries = [{t: Logprob(logprob(i, t)), 999: Logprob(-9.0)} for i, t in enumerate(ids)]
            out.append(Output(ids, [None, *entries[1:]]))
        return out


def test_probabilities_of_the_last_tokens():
    entries = [None, {7: Logprob(-0.5)}, {8: Logprob(math.log(0.25)), 3: Logprob(-0.1)}, {9: Logprob(1e-9)}]
    assert probabilities(entries, [1, 7, 8, 9], 2) == pytest.approx([0.25, 1.0])
    assert max(probabilities(entries, [1, 7, 8, 9], 3)) <= 1.0


@pytest.mark.parametrize(
    ("entries", "ids", "length"),
    [
        ([None, {7: Logprob(-1.0)}], [1, 7], 0),
        ([None, {7: Logprob(-1.0)}], [1, 7], 2),
        ([None], [1, 7], 1),
        ([None, None], [1, 7], 1),
        ([None, {8: Logprob(-1.0)}], [1, 7], 1),
    ],
)
def test_what_is_no_scoring_pass(entries, ids, length):
    with pytest.raises(ValueError, match=r"answer|log-probability"):
        probabilities(entries, ids, length)


def test_a_pass_over_rollouts_and_what_the_methods_make_of_it():
    engine, sampling = Engine(), object()
    contexts, answers = [[1, 2, 3], [1, 2, 3, 4, 5]], [[6, 7], [6, 7]]
    found = reference_probs(engine, contexts, answers, sampling=sampling)
    expected = [[math.exp(logprob(len(c) + i, t)) for i, t in enumerate(a)] for c, a in zip(contexts, answers)]
    assert found == [pytest.approx(e) for e in expected]
    prompts, used, _ = engine.calls[0]
    assert used is sampling
    assert prompts[0] == {"prompt_token_ids": [1, 2, 3, 6, 7]}

    base = base_mean_probs(engine, [[1]], [[6, 7]], sampling=sampling)[0]
    rollouts = [{"answer": "x", "ref_token_probs": p, "base_ref_mean_prob": base} for p in found]
    groups = [{"reference": "67", "rollouts": rollouts}]
    rlpr = dare_reward.estimate(groups, method="rlpr", format_coefficient=0.0).groups[0].rewards
    assert rlpr == pytest.approx([max(mean_probability(p) - base, 0) for p in found])
    assert rlpr[1] > rlpr[0] > 0
    free = dare_reward.estimate(groups, method="verifree").groups[0].rewards
    assert free == pytest.approx([math.prod(p) for p in found])
