"""DARE, Distribution-Aware Reward Estimation (arXiv:2601.21804, section 3 and the appendix on functional forms).

For an answer y of a group, n(y) its votes (Eq. 8), u(y) the mean over its rollouts of their mean token entropy (Eq. 9):

    w(y)   = n(y) / (u(y) + eps)^b                weight, b = 1        Eq. 10
    p^(y)  = w(y) / sum_y' w(y')                                       Eq. 10
    S      = {y: p^(y) >= tau}                    pruning              Eq. 14
    p~(y)  = p^(y) / sum_S p^(y')                                      Eq. 14, summed over answers
    b~(y)  = (1 - n(y) / M~) (1 - u(y))           bonus, M~ = sum_S n  Eq. 12, on the survivors
    r(y)   = p~(y) + alpha b~(y) on S, else 0                          Eq. 15

p^, u and n are functions of the answer, so pruning removes whole answers and one pass is a fixed point. Where the paper
is silent or its readings differ, the choice is a parameter; research/docs/readings.md gives the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np

from ..errors import GroupError, RequestError
from ..groups import Groups
from ..params import Param
from ..segments import Bools, Floats
from .common import no_groups, share_of_exp
from .method import PROBABILITY, Certainty, Estimate, Method, When, errors_of

EXPONENT = (
    "b of weight=linear, n/(u+eps)^b. 0 is the vote and needs no entropies. Below 0, answers with greater "
    "entropy gain weight. `dare-reward calibrate FILE` fits it on labelled rollouts"
)
CERTAINTY = (
    "entropy weighs as weight says; answer_probability: w(y) is the sum over y's rollouts of p^b, p the probability of "
    "the answer's tokens after what stands before them, b the exponent, and u(y) is 1 - p in the mean"
)
EPS_SCALE = "if set, eps is this times the median of u(y) over the group's answers"
# Entropies end at 1,000 nats. Beyond these bounds products overflow, and all answers would weigh 0 in silence.
NATS, POWER, SCALE = 1e3, 1e3, 1e6
TAU_SLACK = 1e-12  # p^ is a quotient of sums: an answer at exactly tau must not fall to a rounding error

NEEDS = When("answer_logprob", "certainty=answer_probability", lambda params: params["certainty"] == PROBABILITY)
SOURCES: Mapping[str, tuple[str, str, str]] = {
    "mean_entropy": ("missing_entropy", "entropy", "mean_entropy or token_entropies"),
    "answer_logprob": (
        "missing_probability",
        "probability of the answer",
        "answer_logprob, or token_logprobs with answer_tokens",
    ),
}
Bonus = Annotated[
    Literal["main", "inv", "log_inv", "sqrt_freq", "one_minus_sqrt_freq", "inv_sqrt", "zero"],
    Param(
        "b(y): (1-n/M)(1-u), 1/(n+1), ln((M+1)/(n+1)), sqrt(1-n/M)(1-u), (1-sqrt(n/M))(1-u), 1/sqrt(n+1), 0",
        source="Eq. 12; appendix",
    ),
]
UNorm = Annotated[
    Literal["clip", "none", "logv"],
    Param(
        "u inside the bonus: clip takes min(u, 1), none takes u, logv takes u/ln(vocab_size)",
        source="Eq. 12 takes (1-u) with u in nats, which is unbounded",
    ),
]
Alpha = Annotated[
    float,
    Param("strength of the bonus", ge=0, le=1, source="Eq. 13; the value stands in a commented-out paragraph"),
]
Tau = Annotated[
    float,
    Param(
        "answers with p^ below it are pruned",
        ge=0,
        lt=1,
        source="Eq. 14, no value given; about three average votes of 64",
    ),
]
Renorm = Annotated[
    Literal["answers", "rollouts"],
    Param(
        "what Eq. 14's sum runs over",
        source="Eq. 14 says rollouts, the text the retained support; over rollouts the rarest answer is paid best",
    ),
]
BonusM = Annotated[
    Literal["retained", "valid", "all"],
    Param(
        "M in the bonus counts the rollouts that survive (retained), those with an answer (valid), or all",
        source="after Eq. 14: recomputed on the surviving rollouts",
    ),
]
OnAllPruned = Annotated[
    Literal["skip", "keep_all", "keep_argmax"],
    Param(
        "if no answer reaches tau: skip gives all rewards 0, keep_all keeps all, keep_argmax keeps the greatest",
        source="Eq. 14 is 0/0 there",
    ),
]
Pruned = Annotated[
    Literal["zero", "neutral"],
    Param(
        "reward of a pruned rollout: 0 (zero), or the mean of the survivors' rewards (neutral)",
        source="Eq. 14's indicator; the text says removed",
    ),
]


def dare(
    groups: Groups,
    *,
    bonus: Bonus = "main",
    u_norm: UNorm = "clip",
    vocab_size: Annotated[int, Param("V of u_norm=logv", ge=2, source="Qwen2.5")] = 151936,
    alpha: Alpha = 0.1,
    tau: Tau = 0.05,
    renorm: Renorm = "answers",
    bonus_m: BonusM = "retained",
    on_all_pruned: OnAllPruned = "skip",
    pruned: Pruned = "zero",
    **weighting: Annotated[Any, distribution],
) -> Estimate:
    """Rewards p~ + alpha b~ (Eq. 15) for all groups at once.

    A rollout without an answer is no part of n, u, p^ and M, and gets 0. `exponent=0` leaves 1 - u out of the bonus.
    """
    d = distribution(groups, **weighting)
    n_A, p_hat_A = groups.votes_A, d.p_hat_A
    kept_A = p_hat_A >= tau - TAU_SLACK
    all_pruned_P: Bools = (groups.support_P > 0) & (groups.sum_by_group(kept_A) == 0)
    if on_all_pruned != "skip":
        instead = groups.first_max(p_hat_A) if on_all_pruned == "keep_argmax" else np.ones(len(kept_A), bool)
        kept_A = kept_A | (instead & all_pruned_P[groups.group_A])

    p_A = groups.share(p_hat_A * kept_A, counts_A=n_A if renorm == "rollouts" else None)
    q_A = np.clip(d.u_A, 0.0, 1.0) if u_norm == "clip" else d.u_A / (np.log(vocab_size) if u_norm == "logv" else 1.0)
    counted_A = n_A * kept_A if bonus_m == "retained" else n_A
    m_P = groups.sizes_P.astype(np.float64) if bonus_m == "all" else groups.sum_by_group(counted_A)
    bonus_A = _bonus(n_A, np.maximum(m_P, 1.0)[groups.group_A], q_A, bonus)
    reward_A = np.where(kept_A, p_A + alpha * bonus_A, 0.0)
    if pruned == "neutral":
        survivors_P = np.maximum(groups.sum_by_group(n_A * kept_A), 1.0)
        neutral_P = groups.sum_by_group(n_A * reward_A) / survivors_P
        reward_A = np.where(kept_A, reward_A, neutral_P[groups.group_A])

    return Estimate(
        rewards_R=groups.spread(reward_A),
        keep_R=groups.spread(kept_A, fill=False),
        support_A={
            "uncertainty": d.uncertainty_A,
            "p_hat": p_hat_A,
            "p": p_A,
            "bonus": np.where(kept_A, bonus_A, np.nan),
            "reward": reward_A,
            "kept": kept_A,
        },
        used_entropy_P=d.used_P,
        flags_P={"all_pruned": all_pruned_P, **d.flags_P},
        errors=d.errors,
    )


Weight = Annotated[
    Literal["linear", "sqrt", "exp", "log", "none"],
    Param("w(y): n/(u+eps), n/sqrt(u+eps), n exp(-lam u), n/(ln(1+u)+eps), n", source="Eq. 10; appendix"),
]
Eps = Annotated[
    float,
    Param(
        "added to the uncertainty in the weight",
        ge=0,
        le=NATS,
        source="Eq. 10, no value given; by simulation: at 1e-6 one near-zero-entropy loop takes the label",
    ),
]
EpsScale = Annotated[float | None, Param(EPS_SCALE, ge=0, le=SCALE, source="ours: one eps suits one scale of u only")]
Missing = Annotated[
    Literal["error", "group_mean", "frequency"],
    Param(
        "of a rollout with an answer and no entropy: error refuses its group, group_mean gives it the "
        "group's mean, frequency counts votes alone",
        source="ours",
    ),
]


@dataclass(frozen=True, slots=True, eq=False)
class Distribution:
    """p^ of Eq. 10 and what it was made of.

    u_A         u(y) as it entered the weight: floored, 0 where entropies are not used
    used_P      entropies entered
    """

    p_hat_A: Floats
    u_A: Floats
    uncertainty_A: Floats
    used_P: Bools
    flags_P: Mapping[str, Bools]
    errors: Mapping[int, GroupError]


def distribution(
    groups: Groups,
    *,
    weight: Weight = "linear",
    eps: Eps = 0.05,
    exponent: Annotated[float, Param(EXPONENT, ge=-POWER, le=POWER, source="ours; Eq. 10 has 1")] = 1.0,
    certainty: Annotated[Certainty, Param(CERTAINTY, source="ours; Eq. 9 has entropy")] = "entropy",
    eps_scale: EpsScale = None,
    lam: Annotated[float, Param("lambda of weight=exp", ge=0, le=POWER, source="appendix, no value given")] = 1.0,
    u_floor: Annotated[
        float, Param("u(y) is at least this", ge=0, le=NATS, source="ours: guard against repetition loops")
    ] = 0.0,
    missing_entropy: Missing = "error",
) -> Distribution:
    """The distribution of answers, weighted by certainty: p^(y), Eqs. 8-10.

    Needs `mean_entropy` (nats per token, NaN where missing) of every rollout with an answer, or `answer_logprob` for
    `certainty=answer_probability`. `exponent=0` is the vote: it needs neither and uses none. RequestError if `exponent`
    or `certainty` is set and `weight` is not linear.
    """
    for name, usual, value in (("exponent", 1, exponent), ("certainty", "entropy", certainty)):
        if weight != "linear" and value != usual:
            raise RequestError(
                f"{name} belongs to weight=linear, and weight is {weight}: leave one of them out",
                loc=("params", name),
                code="conflict",
            )
    n_A = groups.votes_A
    if exponent == 0:
        return _votes(groups)
    likely = certainty == PROBABILITY
    name = "answer_logprob" if likely else "mean_entropy"
    value_R, imputed_P, lacking_P, errors = _fill(groups, name, missing_entropy)
    unknown_A = lacking_P[groups.group_A]
    value_R = np.where(np.isnan(value_R), 0.0, value_R)
    mean_A = groups.sum_by_answer(1 - np.exp(value_R) if likely else value_R) / n_A
    # Equally sure of every answer where entropies are missing: all confidences are 1, votes alone count.
    u_A = np.where(unknown_A, 0.0, np.maximum(mean_A, u_floor))
    eps_A = np.full(len(u_A), eps) if eps_scale is None else eps_scale * groups.median_by_group(u_A)[groups.group_A]
    if likely:
        p_hat_A = share_of_exp(groups, np.where(lacking_P[groups.group_R], 0.0, exponent * value_R), groups.valid_R)
    else:
        sure_A = _confidence(groups, u_A, weight=weight, eps_A=eps_A, exponent=exponent, lam=lam)
        p_hat_A = groups.share(n_A * sure_A)
    return Distribution(
        p_hat_A=p_hat_A,
        u_A=u_A,
        uncertainty_A=np.where(unknown_A, np.nan, u_A),
        used_P=~lacking_P & (groups.support_P > 0),
        flags_P={
            "missing_entropy_imputed": imputed_P,
            "missing_entropy_frequency": lacking_P & (missing_entropy == "frequency"),
        },
        errors=errors,
    )


def _votes(groups: Groups) -> Distribution:
    """Of exponent 0: the shares of votes. No entropy is looked at."""
    nothing_A, no_P = np.zeros(len(groups.votes_A)), no_groups(groups)
    return Distribution(
        p_hat_A=groups.share(groups.votes_A),
        u_A=nothing_A,
        uncertainty_A=np.full_like(nothing_A, np.nan),
        used_P=no_P,
        flags_P={"missing_entropy_imputed": no_P, "missing_entropy_frequency": no_P},
        errors={},
    )


def _fill(groups: Groups, name: str, policy: str) -> tuple[Floats, Bools, Bools, Mapping[int, GroupError]]:
    """An input with the group mean where the policy says so: which groups that touched, and which lack it still."""
    value_R = groups.column(name)
    missing_R = groups.valid_R & np.isnan(value_R)
    missing_P: Bools = groups.sum_rollouts(missing_R) > 0
    lacking_P = missing_P
    if policy == "group_mean":
        known_R = groups.valid_R & ~missing_R
        known_P = groups.sum_rollouts(known_R) > 0
        value_R = np.where(
            missing_R & known_P[groups.group_R], groups.mean_rollouts(value_R, known_R)[groups.group_R], value_R
        )
        lacking_P = missing_P & ~known_P
    code, what, source = SOURCES[name]
    words = f"an answer without {what} in {{count}} of {{size}} rollouts (index {{where}}): send {source}, or set "
    words += "missing_entropy=group_mean or frequency"
    refused_R = missing_R & (lacking_P & (policy != "frequency"))[groups.group_R]
    return value_R, missing_P & ~lacking_P, lacking_P, errors_of(groups, refused_R, code, words)


def _confidence(groups: Groups, u_A: Floats, *, weight: str, eps_A: Floats, exponent: float, lam: float) -> Floats:
    """w(y)/n(y) relative to the greatest of the group, in [0, 1].

    Relative, because n/u overflows for tiny u; and because the limit u = eps = 0 then falls out: 0/0 is read as 1, so
    the mass is shared by votes among the answers with u = 0. Below exponent 0 the greatest is that of the greatest u;
    where that is 0 too, all answers have it and share the mass by votes.
    """
    if weight == "none":
        return np.ones_like(u_A)
    if weight == "exp":
        least = -groups.max_by_group(-u_A)[groups.group_A]
        with np.errstate(over="ignore", under="ignore"):
            confidence_A: Floats = np.exp(-lam * (u_A - least))
        return confidence_A
    value_A = (np.log1p(u_A) if weight == "log" else u_A) + eps_A
    greatest_A = groups.max_by_group(value_A if exponent < 0 else -value_A)[groups.group_A]
    if exponent < 0:
        ratio_A = np.divide(value_A, greatest_A, out=np.ones_like(u_A), where=greatest_A > 0)
    else:
        ratio_A = np.divide(-greatest_A, value_A, out=np.ones_like(u_A), where=value_A > 0)
    if weight == "sqrt":
        return np.sqrt(ratio_A)
    with np.errstate(under="ignore"):  # at 1 the ratios themselves, bit for bit
        out: Floats = ratio_A if exponent == 1 else ratio_A ** abs(exponent)
    return out


def _bonus(n_A: Floats, m_A: Floats, q_A: Floats, form: str) -> Floats:
    """b(y), Eq. 12 and the appendix; n <= m where the answer is kept, the rest is not used."""
    free_A: Floats = np.maximum(1 - n_A / m_A, 0.0)
    if form == "main":
        return free_A * (1 - q_A)
    if form == "sqrt_freq":
        return np.sqrt(free_A) * (1 - q_A)
    if form == "one_minus_sqrt_freq":
        scarce_A: Floats = np.maximum(1 - np.sqrt(n_A / m_A), 0.0)
        return scarce_A * (1 - q_A)
    if form == "inv":
        return 1 / (n_A + 1)
    if form == "inv_sqrt":
        return 1 / np.sqrt(n_A + 1)
    if form == "log_inv":
        return np.log((m_A + 1) / (n_A + 1))
    return np.zeros_like(n_A)


def weighing(name: str, summary: str, *, defaults: Mapping[str, Any], **entry: Any) -> Method:
    """The entry of a method that weighs votes by `distribution`."""
    return Method(
        name=name,
        summary=summary,
        requires=("answer", "mean_entropy"),
        when=(NEEDS,),
        imputes=frozenset({"mean_entropy", "answer_logprob"}),
        defaults=defaults,
        cost="one entropy per token from the engine or the trainer, averaged",
        **entry,
    )


def _preset(name: str, summary: str, **defaults: Any) -> Method:
    return weighing(
        name,
        summary,
        defaults=defaults,
        function=dare,
        paper="arXiv:2601.21804",
        evidence="from the paper",
        unverified="eps, tau: the paper gives no values; no official code was found",
    )


METHODS = (
    _preset("dare", "the distribution of answers weighted by entropy, with bonus and pruning (Eq. 15)"),
    _preset("dare_literal", "dare with the smallest usual eps, the equation read literally", eps=1e-6),
    _preset("dare_dist", "ablation: the distribution alone (Eq. 10)", alpha=0.0, tau=0.0),
    _preset("dare_dist_bonus", "ablation: distribution and bonus (Eq. 13)", tau=0.0),
    _preset("dare_dist_prune", "ablation: distribution and pruning (Eq. 14)", alpha=0.0),
    _preset("dare_sqrt", "dare with the appendix's square-root weight: tolerates confident errors", weight="sqrt"),
    _preset("dare_robust", "square-root weight, larger guards", weight="sqrt", eps=0.1, u_floor=0.02),
)  # fmt: skip
