"""GMAE, Group-Marginalized Advantage Estimation (arXiv:2609.36750), for majority votes (GMAE_0).

A vote over G rollouts depends on which G they are. GMAE averages over all sub-groups of G rollouts of the pool that
hold the rollout: p(a), the share of them in which its answer a wins (Step I). The advantage is the expectation of the
normalised reward where every trained rollout j is paid with chance p_j, independently (Step II). One factor for the
whole batch restores the size of advantages that the base method would have had (Eq. 12 and 13).

The paper draws contexts and enumerates rewards. Both halves have closed forms, which need no seed and no number of
contexts. With N rollouts in the pool, s = G - 1 other seats, m_b votes of an answer b among the other N - 1:

    p(a)   H(k) = chance of k further votes for a among the seats, which are drawn without replacement
           p(a) = sum_k H(k) E[w(t); no answer has more than k + 1], t = answers that have k + 1 as well
           w(t) = 1/(t + 1) split, 1 all, [t = 0] none
    A_i    S = sum of the other trained rollouts' draws, G trained rollouts
           A_i = p_i E sqrt((G-1-S)/(S+1)) - (1-p_i) E sqrt(S/(G-S)),   sum_i A_i = 0

Seats drawn without replacement are independent draws with chance q = s/(N-1), given that s of them come out: so p(a) is
a coefficient of a product of polynomials, one for each answer, and 1/(t + 1) is the integral of z^t from 0 to 1. The
coefficient comes from roots of unity, the integral from Gauss-Legendre nodes, which are exact here. The error is about
1e-14 and nothing overflows.

`tie` is not that of the votes: it shares a win among tied answers and picks none. A sub-group has no order, so that
`split` is the mean of ttrl's `first` over all orders; a pick by certainty would take the entropies of each sub-group,
and has no closed form.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dare_reward.estimators.common import by_answer
from dare_reward.estimators.method import Estimate, Method, WholeBatch
from dare_reward.groups import Groups
from dare_reward.params import Param

Tie = Literal["split", "all", "none"]
Floats = NDArray[np.float64]
Spectrum = NDArray[np.complex128]

CACHED = 1 << 11  # vote counts of groups; an entry is some hundred bytes, 0.1 MB for a thousand different answers
DIGITS = 14  # of p: what is smaller is rounding, and answers that win equally often have equal p
NOTHING = 1e-9  # rms of a batch's advantages below which there is nothing to scale
BLOCK = 1 << 18  # complex numbers at a time


def gmae(
    groups: Groups,
    *,
    group_size: Annotated[
        int | None,
        Param(
            "G, the size of a sub-group, at most the pool; default: the trained rollouts",
            ge=1,
            source="paper: the trained rollouts",
        ),
    ] = None,
    tie: Annotated[
        Tie,
        Param(
            "equally many votes in a sub-group: each winner gets its share, all win, or none wins",
            source="ours: the mean over all orders of the rollouts; the paper has an argmax",
        ),
    ] = "split",
    invalid: Annotated[
        Literal["blank", "exclude"],
        Param(
            "a rollout without an answer keeps its seat and cannot win, or leaves the pool",
            source="ours: the paper is silent",
        ),
    ] = "blank",
    calibration: Annotated[
        Literal["batch", "none"],
        Param(
            "batch: one factor scales the advantages of all groups of the request; none: no scaling",
            source="Eq. 12, 13",
        ),
    ] = "batch",
) -> Estimate:
    """r = p(a), the share of sub-groups in which the rollout's answer wins; advantages beside them (advantage=gmae).

    A vote-only rollout gets p as if it were trained, and no advantage. Where the sub-group is the whole pool, as it is
    by default if no rollout only votes, there is one context, and this is the majority vote (flag `one_context`).
    """
    keys = list(_keys(groups, group_size=group_size, tie=tie, invalid=invalid))
    marginals = [_marginal(*key) for key in keys]
    chance_A, gain_A = (
        np.fromiter((getattr(f, n)[v] for f, v in _answers(groups, marginals)), np.float64, len(groups.text_A))
        for n in ("chance", "gain")
    )
    scale_P = np.array([f.scale for f in marginals], np.float64)
    blank_R = np.array([f.blank_gain for f in marginals], np.float64)[groups.group_R]
    factor = _factor(groups, scale_P) if calibration == "batch" else 1.0
    return by_answer(
        groups,
        chance_A,
        advantages_R=factor * np.where(groups.valid_R, groups.spread(gain_A), blank_R),
        extra_P={"gmae_scale": scale_P, "uncertainty": 1 - scale_P**2},
        flags_P={
            "one_context": np.array([size == _pool(answers, blanks) for answers, blanks, _, size, _ in keys], bool)
        },
        extra={"gmae_lambda": factor} if calibration == "batch" else {},
    )


@dataclass(frozen=True, slots=True)
class Marginal:
    """A group's chances to win and advantages, by the votes that an answer has; and those of a blank."""

    chance: dict[int, float]
    gain: dict[int, float]
    blank_gain: float
    scale: float


def _keys(groups: Groups, *, group_size: int | None, tie: Tie, invalid: str) -> Iterator[tuple[Any, ...]]:
    """What a group's numbers depend on: how many answers have so many votes and trained votes, blanks, seats, ties."""
    votes = groups.votes_A.astype(np.int64).tolist()
    trained = groups.sum_by_answer(groups.trains_R).astype(np.int64).tolist()
    blanks = groups.sum_rollouts(~groups.valid_R).astype(np.int64).tolist()
    idle = groups.sum_rollouts(~groups.valid_R & groups.trains_R).astype(np.int64).tolist()
    starts = [0, *np.cumsum(groups.support_P).tolist()]
    for p, size in enumerate(groups.sizes_P.tolist()):
        at = slice(starts[p], starts[p + 1])
        pool = size if invalid == "blank" else size - blanks[p]
        wanted = group_size or sum(trained[at]) + idle[p] or pool
        answers = tuple(sorted(zip(votes[at], trained[at], strict=True)))
        yield answers, pool - sum(votes[at]), idle[p], max(min(wanted, pool), 1), tie


def _steps(groups: Groups, params: Mapping[str, Any]) -> Iterator[int]:
    """What `_marginal` takes for each group if none is cached, in steps of 5 us, measured: within a factor of two."""
    wanted = {name: params[name] for name in ("group_size", "tie", "invalid")}
    for answers, blanks, _, size, tie in _keys(groups, **wanted):
        pool, counts = _pool(answers, blanks), Counter(votes for votes, _ in answers)
        if not counts or size in {1, pool}:
            yield 1
            continue
        most = max(counts)
        nodes = [_nodes(counts, k, size - 1, tie) for k in range(min(most, size))]
        elements = len(counts) * (pool // 2 + 1)
        yield 25 * len(nodes) + elements * sum(nodes) // 125 + elements * most // 60 + nodes[0] ** 3 // 250


def _nodes(counts: Mapping[int, int], k: int, seats: int, tie: Tie) -> int:
    """Nodes of the integral over z, exact for as many answers as can have k + 1 further votes."""
    ties = min(sum(c for n, c in counts.items() if n > k), (seats - k) // (k + 1))
    return ties // 2 + 1 if tie == "split" else 1


def _pool(answers: Sequence[tuple[int, int]], blanks: int) -> int:
    return sum(votes for votes, _ in answers) + blanks


def _answers(groups: Groups, marginals: Sequence[Marginal]) -> Iterator[tuple[Marginal, int]]:
    """Each answer's group and votes."""
    votes = groups.votes_A.astype(np.int64).tolist()
    return ((marginals[p], n) for p, n in zip(groups.group_A.tolist(), votes, strict=True))


def _factor(groups: Groups, scale_P: Floats) -> float:
    """lambda = max(1, rms of the base method's advantages over rms of ours), over the batch's trained rollouts.

    TTRL's normalised advantages in the trained rollouts have mean square 1, or 0 where all or none are paid.
    """
    trained_P = groups.sum_rollouts(groups.trains_R)
    leader_P = np.maximum(groups.max_by_group(groups.sum_by_answer(groups.trains_R)), 0.0)
    base = float(trained_P[(leader_P > 0) & (leader_P < trained_P)].sum())
    size = float((trained_P * scale_P**2).sum())
    return max(1.0, (base / size) ** 0.5) if size > NOTHING**2 * trained_P.sum() else 1.0


@lru_cache(maxsize=CACHED)
def _marginal(answers: tuple[tuple[int, int], ...], blanks: int, idle: int, size: int, tie: Tie) -> Marginal:
    """`answers` has votes and trained votes of each; `idle` trained rollouts have no answer."""
    counts = {n: sum(1 for votes, _ in answers if votes == n) for n, _ in answers}
    chance = _chances(counts, blanks, size, tie)
    trained: dict[float, int] = {0.0: idle} if idle else {}
    for votes, count in answers:
        if count:
            trained[chance[votes]] = trained.get(chance[votes], 0) + count
    gain = _expected(trained)
    square = sum(c * gain[p] ** 2 for p, c in trained.items()) / max(sum(trained.values()), 1)
    return Marginal(chance, {n: gain.get(p, 0.0) for n, p in chance.items()}, gain.get(0.0, 0.0), square**0.5)


def _chances(counts: dict[int, int], blanks: int, size: int, tie: Tie) -> dict[int, float]:
    """p of an answer by its votes: `counts` answers have so many, in a pool with `blanks`."""
    if not counts:
        return {}
    others, seats = sum(n * c for n, c in counts.items()) + blanks - 1, size - 1
    if not seats:
        return dict.fromkeys(counts, 1.0)
    if seats == others:  # the pool is the only context
        top = max(counts)
        won = {"split": 1 / counts[top], "all": 1.0, "none": float(counts[top] == 1)}[tie]
        return {n: won if n == top else 0.0 for n in counts}
    q = seats / others
    total = dict.fromkeys(counts, 0.0)
    for ks, at_most, exactly, z, weight in _blocks(counts, others + 1, seats, q, tie):
        factors = at_most[:, :, None, :] + z[:, None] * exactly[:, :, None, :]
        of_others = np.einsum("dkzj,z->dkj", _others(factors, list(counts.values())), weight)
        of_others *= _power(_seen(others + 1, q), blanks)
        coefficients = np.fft.irfft(of_others, n=others + 1)
        for d, n in enumerate(counts):
            of_answer = _binomial(n - 1, q)
            inside = ks[ks < n]
            total[n] += float(of_answer[inside] @ coefficients[d, inside - ks[0], seats - inside])
    norm = _binomial(others, q)[seats]
    return {n: round(min(max(value / norm, 0.0), 1.0), DIGITS) for n, value in total.items()}


def _blocks(
    counts: dict[int, int], length: int, seats: int, q: float, tie: Tie
) -> Iterator[tuple[NDArray[np.int64], Spectrum, Spectrum, Floats, Floats]]:
    """Runs of k with, for each of the answers' votes, the polynomial of at most k votes and the term of k + 1.

    They come as values at the roots of unity, with the nodes z and weights of the integral over z.
    """
    omega = np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)

    powers = omega[np.newaxis] ** np.arange(max(counts) + 1)[:, np.newaxis]
    terms = {n: _binomial(n, q)[:, None] * powers[: n + 1] for n in counts}
    sums = {n: np.cumsum(t, axis=0) for n, t in terms.items()}
    for number, run in groupby(range(min(max(counts), seats + 1)), lambda k: _nodes(counts, k, seats, tie)):
        every = np.array(list(run))
        z, weight = _unit_nodes(number) if tie == "split" else (np.array([float(tie == "all")]), np.ones(1))
        step = max(1, BLOCK // (len(counts) * number * len(omega)))
        for ks in (every[i : i + step] for i in range(0, len(every), step)):
            at_most = np.array([sums[n][np.minimum(ks, n)] for n in counts])
            exactly = np.array([np.where((ks < n)[:, None], terms[n][np.minimum(ks + 1, n)], 0.0) for n in counts])
            yield ks, at_most, exactly, z, weight


@lru_cache(maxsize=64)
def _unit_nodes(number: int) -> tuple[Floats, Floats]:
    """Gauss-Legendre on [0, 1]: exact for polynomials of degree 2 number - 1."""
    z, weight = np.polynomial.legendre.leggauss(number)
    return (z + 1) / 2, weight / 2


def _seen(length: int, q: float) -> Spectrum:
    """A rollout that is in the context with chance q."""
    out: Spectrum = 1 - q + q * np.exp(-2j * np.pi * np.arange(length // 2 + 1) / length)
    return out


def _expected(trained: dict[float, int]) -> dict[float, float]:
    """The advantage of a rollout by its chance p, where `trained` rollouts have so great a chance."""
    size = sum(trained.values())
    if len(trained) < 2:
        return dict.fromkeys(trained, 0.0)
    p_D, counts = np.array(list(trained)), list(trained.values())
    omega = np.exp(-2j * np.pi * np.arange(size // 2 + 1) / size)
    paid_DS = np.fft.irfft(_others(1 - p_D[:, None] + p_D[:, None] * omega, counts), n=size)
    s = np.arange(size)
    gain_D = p_D * (paid_DS @ np.sqrt((size - 1 - s) / (s + 1))) - (1 - p_D) * (paid_DS @ np.sqrt(s / (size - s)))
    return dict(zip(trained, gain_D.tolist(), strict=True))


def _others(factors: Spectrum, counts: Sequence[int]) -> Spectrum:
    """For each factor of prod_d factors[d]^counts[d], the product without one of it."""
    out = np.empty_like(factors)
    before = np.ones_like(factors[0])
    for d, count in enumerate(counts):
        out[d] = before * _power(factors[d], count - 1)
        before = out[d] * factors[d]
    after = np.ones_like(factors[0])
    for d in reversed(range(len(counts))):
        out[d] *= after
        after = after * _power(factors[d], counts[d])
    return out


def _power(base: Spectrum, exponent: int) -> Spectrum:
    """By repeated squaring, an order of magnitude faster than `**` for complex numbers."""
    out = np.ones_like(base)
    while exponent:
        if exponent & 1:
            out = out * base
        base, exponent = base * base, exponent >> 1
    return out


@lru_cache(maxsize=1024)  # groups of a run have few sizes, and their answers few votes
def _binomial(n: int, q: float) -> Floats:
    """The chances of 0..n successes, 0 < q < 1: by ratios from the likeliest number on, which neither over- nor
    underflow where it matters."""
    k = np.arange(n)
    ratio = (n - k) / (k + 1) * (q / (1 - q))
    mode = int((n + 1) * q)
    with np.errstate(under="ignore"):
        up = np.cumprod(ratio[mode:])
        down = np.cumprod(1 / ratio[:mode][::-1])[::-1]
    weights: Floats = np.concatenate([down, [1.0], up])
    out: Floats = weights / weights.sum()
    return out


METHODS = (
    Method(
        name="gmae",
        function=gmae,
        summary="the share of sub-groups in which the answer wins; use advantage=gmae for the method proper",
        paper="arXiv:2609.36750",
        evidence="from the paper",
        advantages=True,
        keeps_scale=True,
        whole_batch=WholeBatch(
            "calibration=batch", "set calibration=none", lambda params: params["calibration"] == "batch"
        ),
        steps=_steps,
        unverified="ties and rollouts without an answer; the paper draws contexts, here they are all",
    ),
)
