"""The latent-variable model of the paper's section 2, as a source of groups with known truth.

    prompt      accuracy ~ Beta(1.2, 2), one systematic wrong answer with share ~ Beta(2, 3) of the rest, the other
                answers share what is left by Dirichlet(1); p is the marginal distribution
    latent      p_z ~ Dirichlet(p (1 - rho)/rho), so E[p_z] = p and rho is the intra-group correlation
    rollouts    M answers from p_z
    entropies   0.3 exp(-delta [right] + 0.2 z_answer + 0.35 z_rollout) nats; z_answer belongs to prompt and answer

delta sets how informative entropy is: P(e_right < e_wrong) = Phi(delta / sqrt(2 (0.2^2 + 0.35^2))).
Answers are labels 0..K-1: 0 is right, 1 the systematic wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import erf, sqrt

import numpy as np

from dare_reward.groups import Groups
from dare_reward.segments import Floats, Ints

SCALE = 0.3
ANSWER_NOISE = 0.2
ROLLOUT_NOISE = 0.35
CONFIDENT = 0.3  # factor on the entropy of a confident wrong answer
LOOP = 0.002  # nats, of a repetition loop


@dataclass(frozen=True, slots=True)
class Scenario:
    """One cell of the simulation.

    rho         intra-group correlation
    delta       informativeness of entropy, see above; negative: right answers are the uncertain ones
    spread      standard deviation of delta over prompts: the direction varies
    follows     the shift by delta is on the most probable answer, right or wrong: entropy knows the vote, not truth
    confident   share of prompts whose systematic wrong answer has 0.3 times the entropy
    loop        a wrong answer of middling rarity is a repetition loop of 0.002 nats
    rollouts    M
    """

    rho: float = 0.0
    delta: float = 0.0
    confident: float = 0.0
    loop: bool = False
    rollouts: int = 64
    answers: int = 12
    spread: float = 0.0
    follows: bool = False

    @property
    def auroc(self) -> float:
        """P(e_right < e_wrong) without confident wrong answers and loops; of the vote, if entropy follows it."""
        return 0.5 * (1 + erf(self.delta / sqrt(2 * (ANSWER_NOISE**2 + ROLLOUT_NOISE**2) + self.spread**2) / sqrt(2)))


@dataclass(frozen=True, slots=True, eq=False)
class Prompts:
    """p_PK, the marginal distribution of each prompt's answers, and the entropy scale of each answer in nats."""

    policy_PK: Floats
    scale_PK: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Groups, the answer label of each of their answers, and truth per rollout."""

    groups: Groups
    label_A: Ints
    correct_R: Floats

    def policy(self, policy_PK: Floats) -> Floats:
        """p(y) of each answer that was drawn."""
        return policy_PK[self.groups.group_A, self.label_A]


def draw_prompts(scenario: Scenario, count: int, rng: np.random.Generator) -> Prompts:
    right = rng.beta(1.2, 2.0, count)
    systematic = rng.beta(2.0, 3.0, count) * (1 - right)
    rest = rng.dirichlet(np.ones(scenario.answers - 2), count) * (1 - right - systematic)[:, None]
    policy = np.concatenate([right[:, None], systematic[:, None], np.sort(rest, axis=1)[:, ::-1]], axis=1)
    noise = ANSWER_NOISE * rng.standard_normal(policy.shape)
    delta = scenario.delta + (scenario.spread * rng.standard_normal(count) if scenario.spread else 0.0)
    noise[np.arange(count), policy.argmax(axis=1) if scenario.follows else 0] -= delta
    scale = SCALE * np.exp(noise)
    scale[rng.random(count) < scenario.confident, 1] *= CONFIDENT
    if scenario.loop:
        scale[:, scenario.answers // 2] = LOOP
    return Prompts(policy, scale)


def draw_sample(
    scenario: Scenario, prompts: Prompts, rng: np.random.Generator, *, policy_PK: Floats | None = None
) -> Sample:
    """M rollouts of each prompt from its policy (or from `policy_PK`, once training has moved it)."""
    policy = prompts.policy_PK if policy_PK is None else policy_PK
    latent = policy
    if scenario.rho > 0:
        gamma = rng.standard_gamma(policy * (1 - scenario.rho) / scenario.rho) + 1e-300
        latent = gamma / gamma.sum(axis=1, keepdims=True)
    cumulative = np.cumsum(latent, axis=1)
    uniform = rng.random((len(policy), scenario.rollouts)) * cumulative[:, -1:]
    label = (uniform[:, :, None] >= cumulative[:, None, :-1]).sum(axis=2)
    noise = np.exp(ROLLOUT_NOISE * rng.standard_normal(label.shape))
    entropy = np.take_along_axis(prompts.scale_PK, label, axis=1) * noise
    return group_rollouts(label, entropy, answers=policy.shape[1])


def drawn_entropies(scenario: Scenario, sample: Sample, rng: np.random.Generator) -> Floats:
    """Entropies drawn anew for the answers of a sample, as by another certainty. Shape [R]."""
    groups = sample.groups
    delta_P = scenario.delta + scenario.spread * rng.standard_normal(len(groups.sizes_P))
    shifted_A = groups.first_max(groups.votes_A) if scenario.follows else sample.label_A == 0
    noise_A = ANSWER_NOISE * rng.standard_normal(len(groups.votes_A)) - np.where(shifted_A, delta_P[groups.group_A], 0)
    noise_R = ROLLOUT_NOISE * rng.standard_normal(len(groups.answer_R))
    return SCALE * np.exp(groups.spread(noise_A) + noise_R)


def group_rollouts(label_PM: Ints, entropy_PM: Floats, *, answers: int) -> Sample:
    """`Groups` of labels and entropies given as matrices, answers numbered in first-seen order."""
    count, size = label_PM.shape
    first = np.full((count, answers), size)
    for k in range(answers):
        at = label_PM == k
        first[:, k] = np.where(at.any(axis=1), at.argmax(axis=1), size)
    order = np.argsort(first, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(answers), order.shape), axis=1)
    support = (first < size).sum(axis=1)
    starts = np.cumsum(support) - support
    index = starts[:, None] + np.take_along_axis(rank, label_PM, axis=1)
    label_A = order[np.arange(answers) < support[:, None]]
    groups = Groups(
        np.full(count, size, np.int64),
        index.ravel().astype(np.int64),
        support.astype(np.int64),
        tuple(map(str, label_A.tolist())),
        {"mean_entropy": entropy_PM.ravel()},
    )
    return Sample(groups, label_A.astype(np.int64), (label_PM == 0).ravel().astype(np.float64))


def shuffled(groups: Groups, rng: np.random.Generator) -> Groups:
    """The same groups with the entropies permuted inside each: what entropy says of correctness is destroyed."""
    order = np.lexsort((rng.random(len(groups.answer_R)), groups.group_R))
    return groups.with_column("mean_entropy", groups.column("mean_entropy")[order])
