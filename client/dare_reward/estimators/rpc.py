"""Each distinct path once, with the probability that the policy gave it: perplexity consistency and RPC.

Bridging Internal Probability and Self-Consistency for Effective and Efficient LLM Reasoning (arXiv:2502.00511): an
answer's mass is the sum of the probabilities of its distinct reasoning paths (perplexity consistency); RPC first prunes
the paths that belong to the improbable one of two Weibull components. The paper's formula takes the probability of the
whole path, its code the geometric mean over tokens.

Masses are worked out in logarithms: 2,000 tokens at -3 nats have a probability of 0 in floating point, and no tie.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any, Final, Literal

import numpy as np

from ..errors import RequestError
from ..groups import Groups
from ..params import Param
from ..segments import Bools, Floats
from .common import by_answer, share_of_exp, share_of_votes, winner
from .method import Estimate, Method, errors_of

# The official code's mixture: weight of the first component, then shape and scale of each.
START: Final = (0.5, 1.0, 1.0, 1.5, 2.0)
BOUNDS: Final = ((0.2, 0.8), *((0.01, None),) * 4)
FIT: Final = 5_000
UNKNOWN: Final = (
    "an answer without the probability of its path in {count} of {size} rollouts (index {where}): send sum_logprob, "
    "num_tokens, and path, token_ids or text, or set missing=vote"
)
NOISE: Final = 0.02  # nats a token between batches of one engine in bfloat16; more is another model or temperature


def rpc(
    groups: Groups,
    *,
    probability: Annotated[
        Literal["sum", "mean"],
        Param(
            "of a path: exp of the sum of its tokens' log-probabilities, or of their mean",
            source="the paper's formula; official code",
        ),
    ] = "mean",
    prune: Annotated[
        bool, Param("leave out the paths of the improbable one of two components", source="official code")
    ] = True,
    reward: Annotated[
        Literal["winner", "share"],
        Param("1 for the label's rollouts, or each answer's share of the mass", source="ours"),
    ] = "winner",
    missing: Annotated[
        Literal["error", "vote"],
        Param(
            "of a rollout with an answer and no probability or path: error refuses its group, vote counts "
            "the group's votes alone",
            source="ours",
        ),
    ] = "error",
) -> Estimate:
    """mass(y) = sum over the distinct paths of y that are kept of exp(l), l = sum or mean of the log-probabilities.

    Needs `sum_logprob` (nats), for the mean `num_tokens`, and of each rollout what tells its path: `path`, or
    `token_ids`, or `text`. The label has the greatest mass (ties: first seen). A path under two probabilities further
    apart than batches of an engine differ is flagged `path_probability`; a fit that fails prunes nothing and is
    flagged `fit_failed`. Where no path repeats, `no_path_repeats` warns: there the probability of a path told right
    from wrong answers worse than votes did. RequestError for `prune` without SciPy.
    """
    logprob_R = path_logprobs(groups, probability)
    path_R = groups.column("path")
    unknown_R = groups.valid_R & (np.isnan(logprob_R) | np.isnan(path_R))
    vote_P: Bools = groups.sum_rollouts(unknown_R) > 0
    counted_R = groups.valid_R & ~vote_P[groups.group_R]
    kept_R, failed_P = _kept(groups, logprob_R, counted_R) if prune else (counted_R, np.zeros(len(vote_P), bool))
    first_R, apart_P = _distinct(groups, path_R, counted_R)
    share_A = share_of_exp(groups, logprob_R, first_R & kept_R)
    share_A = np.where(vote_P[groups.group_A], share_of_votes(groups), share_A)
    label_A = winner(groups, share_A)
    return by_answer(
        groups,
        label_A.astype(np.float64) if reward == "winner" else share_A,
        keep_R=groups.valid_R & (kept_R | vote_P[groups.group_R]),
        support={"p_hat": share_A},
        label_A=label_A,
        flags_P={
            "missing_probability": vote_P,
            "fit_failed": failed_P,
            "path_probability": apart_P,
            "no_path_repeats": (groups.sum_rollouts(first_R) == groups.sum_rollouts(counted_R)) & (groups.sizes_P > 3),
        },
        errors=errors_of(groups, unknown_R, "missing_probability", UNKNOWN) if missing == "error" else {},
    )


def path_logprobs(groups: Groups, probability: str) -> Floats:
    """The logarithm of each path's probability in nats, NaN where it is not known. Shape [R]."""
    total_R = groups.column("sum_logprob")
    if probability == "sum":
        return total_R
    count_R = groups.column("num_tokens")
    mean_R: Floats = np.divide(total_R, count_R, out=np.full(len(total_R), np.nan), where=count_R > 0)
    return mean_R


def _distinct(groups: Groups, path_R: Floats, counted_R: Bools) -> tuple[Bools, Bools]:
    """The first rollout of each path of an answer; and whose paths come with two probabilities. Shapes [R], [P]."""
    place_R = np.flatnonzero(counted_R)
    order = np.lexsort((place_R, path_R[place_R], groups.answer_R[place_R]))
    sorted_R = place_R[order]
    same = (np.diff(groups.answer_R[sorted_R]) == 0) & (np.diff(path_R[sorted_R]) == 0)
    first_R = np.zeros(len(path_R), bool)
    first_R[sorted_R[np.append(True, ~same)[: len(sorted_R)]]] = True
    apart = same & (np.abs(np.diff(path_logprobs(groups, "mean")[sorted_R])) > NOISE)
    apart_P = np.zeros(len(groups.sizes_P), bool)
    apart_P[groups.group_R[sorted_R[1:][apart]]] = True
    return first_R, apart_P


def _kept(groups: Groups, logprob_R: Floats, counted_R: Bools) -> tuple[Bools, Bools]:
    """Who is left after the pruning of section 3.2; and the groups whose fit failed. Shapes [R], [P]."""
    kept_R, failed_P = counted_R.copy(), np.zeros(len(groups.sizes_P), bool)
    with _one_blas_thread():
        for p in np.flatnonzero(groups.sum_rollouts(counted_R)):
            where = np.flatnonzero(counted_R & (groups.group_R == p))
            probable = _probable(np.exp(logprob_R[where]))
            failed_P[p] = probable is None
            kept_R[where] = True if probable is None else probable
    return kept_R, failed_P


_fitting = threading.Lock()  # the number of threads is the process's: without it two fits could leave each other's


@contextmanager
def _one_blas_thread() -> Iterator[None]:
    """SciPy's L-BFGS-B solves systems of 20 unknowns: several threads of BLAS make a fit cost five times as much."""
    try:
        limit = _controller().limit
    except ImportError:
        raise RequestError(
            "needs SciPy where rewards are computed: run pip install '.[rpc]' there, or set prune=false",
            loc=("params", "prune"),
            code="missing_package",
        ) from None
    with _fitting, limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    """Of the libraries that SciPy has loaded."""
    import scipy.optimize  # noqa: F401, PLC0415  an extra
    from threadpoolctl import ThreadpoolController  # noqa: PLC0415

    return ThreadpoolController()


def _probable(probability_N: Floats) -> Bools | None:
    """Whose probability is not (of the lower of two Weibull components, and below the mean); None: no fit."""
    from scipy.optimize import minimize  # noqa: PLC0415
    from scipy.special import gamma  # noqa: PLC0415

    def loss(values: Any) -> float:
        one, two = _components(probability_N, values)
        return float(-np.log(one + two).sum())

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = minimize(loss, START, bounds=BOUNDS)
        if not np.isfinite(fit.x).all():
            return None
        one, two = _components(probability_N, fit.x)
        _, shape_1, scale_1, shape_2, scale_2 = fit.x
        second = scale_1 * gamma(1 + 1 / shape_1) < scale_2 * gamma(1 + 1 / shape_2)  # has the greater mean
        likelier, other = (two, one) if second else (one, two)
        share = likelier / (likelier + other)
        low_N: Bools = (share < 1 - share) & (probability_N < probability_N.mean())
        return ~low_N


def _components(x: Floats, values: Any) -> tuple[Floats, Floats]:
    """The two weighted densities w (k/s) (x/s)^(k-1) exp(-(x/s)^k) of shape k and scale s."""
    weight, shape_1, scale_1, shape_2, scale_2 = values

    def density(k: float, s: float) -> Floats:
        return (k / s) * (x / s) ** (k - 1) * np.exp(-((x / s) ** k))

    return weight * density(shape_1, scale_1), (1 - weight) * density(shape_2, scale_2)


def _steps(groups: Groups, params: Mapping[str, Any]) -> Iterable[int]:
    """What the fit of each group takes, in steps of 5 us, measured for 4 to 1,024 rollouts."""
    return [FIT if params["prune"] else 0] * len(groups.sizes_P)


def _entry(name: str, summary: str, **defaults: Any) -> Method:
    return Method(
        name=name,
        function=rpc,
        summary=summary,
        paper="arXiv:2502.00511",
        evidence="verified against official code",
        requires=("answer", "sum_logprob", "num_tokens", "path"),
        imputes=frozenset({"sum_logprob", "num_tokens", "path"}),
        pays_one=True,
        defaults=defaults,
        cost="the sampled tokens' log-probabilities, summed, and a name for each path",
        steps=_steps,
        unverified="as a reward: the paper uses it to answer, not to train",
    )


METHODS = (
    _entry("rpc", "1 for the answer whose distinct, probable paths have the greatest sum of probabilities, else 0"),
    _entry(
        "perplexity_consistency",
        "1 for the answer whose distinct paths have the greatest sum of probabilities, else 0",
        probability="sum",
        prune=False,
    ),
)
