"""The paper's claims that the simulation can test, each with its verdict: pure functions of the raw results.

A difference with a standard error counts if it is more than two of them from zero. `holds`: in every cell looked at;
`fails`: in none; `in part`: the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

JSON = Mapping[str, Any]
ClaimVerdict = Literal["holds", "in part", "fails"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, where the paper makes it, what the simulation says and the numbers it says it with."""

    title: str
    source: str
    verdict: ClaimVerdict
    finding: str


def judge_claims(results: JSON) -> list[Claim]:
    return [claim(results) for claim in CLAIMS]


def cell(results: JSON, table: str = "correlation", **wanted: Any) -> JSON:
    """The row of a table (or of `training`) whose scenario has these values."""
    rows: Sequence[JSON] = results["training"] if table == "training" else results["tables"][table]
    return next(r for r in rows if all(r["scenario"][k] == v for k, v in wanted.items()))


def _verdict(checks: Sequence[bool]) -> ClaimVerdict:
    return "holds" if all(checks) else "in part" if any(checks) else "fails"


def _arm(row: JSON, name: str, key: str) -> float:
    return float(row["arms"][name][key])


def information(results: JSON) -> Claim:
    cells = results["tables"]["correlation"]
    raw = [_arm(c, "dare", "mi_reward") > _arm(c, "ttrl", "mi_reward") for c in cells]
    shaped = [_arm(c, "dare", "mi_advantage") > _arm(c, "ttrl", "mi_advantage") for c in cells]
    flat = cell(results, rho=0.0, delta=0.0)
    return Claim(
        "a majority vote loses information about being right that the distribution keeps",
        "Theorem 2.1",
        _verdict([*raw, *shaped]),
        f"Raw rewards of dare carry more in {sum(raw)} of {len(raw)} cells. After group normalisation, which is what "
        f"trains, in {sum(shaped)}: with uninformative entropy and rho 0 {_arm(flat, 'dare', 'mi_advantage'):.3f} "
        f"against {_arm(flat, 'ttrl', 'mi_advantage'):.3f} bits. Pooled raw rewards know which prompts are easy; "
        "advantages do not.",
    )


def bias(results: JSON) -> Claim:
    row = [cell(results, rho=r, delta=0.3) for r in (0.0, 0.1, 0.3, 0.6)]
    vote, dare = ([_arm(c, name, "bias") for c in row] for name in ("ttrl", "dare"))
    mode = [float(c["mode_bias"]) for c in row]
    grows = vote == sorted(vote)
    avoided = dare[-1] - dare[0] < 0.5 * (vote[-1] - vote[0])
    mode_grows = mode == sorted(mode)
    return Claim(
        "correlated rollouts bias the vote's reward, the distribution's not",
        "Theorem 2.2, Proposition 2.3",
        _verdict([grows, avoided, mode_grows]),
        f"From rho 0 to 0.6 the bias mean(r - R) of the vote goes from {vote[0]:.3f} to {vote[-1]:.3f}, that of dare "
        f"from {dare[0]:.3f} to {dare[-1]:.3f}. The quantity of the proof, R(mode) - R, goes from {mode[0]:.3f} "
        f"to {mode[-1]:.3f}: correlation {'raises' if mode_grows else 'lowers'} it. (AUROC .70.)",
    )


def robustness(results: JSON) -> Claim:
    checks, parts = [], []
    for delta in (0.0, 0.3):
        low, high = cell(results, rho=0.0, delta=delta), cell(results, rho=0.6, delta=delta)
        kept = {a: _arm(high, a, "dacc") / _arm(low, a, "dacc") for a in ("ttrl", "dare")}
        gap = _arm(high, "dare", "dacc_over_ttrl")
        checks.append(gap > 2 * _arm(high, "dare", "dacc_over_ttrl_se"))
        parts.append(
            f"AUROC {low['scenario']['nominal_auroc']:.2f}: of the step gain at rho 0, rho 0.6 leaves the vote "
            f"{kept['ttrl']:.0%} and dare {kept['dare']:.0%} (difference there {1000 * gap:+.1f}e-3)"
        )
    return Claim(
        "dare degrades less than the vote as rollouts become correlated",
        "section 4.5, figure on correlation",
        _verdict(checks),
        ". ".join(parts) + ". Robustness comes from informative entropy alone.",
    )


def minority(results: JSON) -> Claim:
    cells = [cell(results, rho=0.0, delta=d) for d in (0.0, 0.3, 0.7, -0.4)]
    share = {a: [_arm(c, a, "minority_positive") for c in cells] for a in ("ttrl", "empo", "dare")}
    checks = [d > e for d, e in zip(share["dare"], share["empo"], strict=True)]
    text = ", ".join(
        f"{d:.2f} at AUROC {c['scenario']['nominal_auroc']:.2f}" for c, d in zip(cells, share["dare"], strict=True)
    )
    return Claim(
        "right answers without a majority get a positive signal",
        "sections 1 and 3.2",
        _verdict(checks),
        f"Share of right rollouts outside the majority with positive advantage: the vote {share['ttrl'][0]:.2f}, dare "
        f"{text}. The plain share of votes (empo) gives {share['empo'][0]:.2f}; it holds where dare exceeds that.",
    )


def bonus(results: JSON) -> Claim:
    cells = results["tables"]["correlation"]
    change = [_arm(c, "dare_dist_bonus", "dacc_over_dist") for c in cells]
    error = [_arm(c, "dare_dist_bonus", "dacc_over_dist_se") for c in cells]
    helps = [d > 2 * e for d, e in zip(change, error, strict=True)]
    hurts = [d < -2 * e for d, e in zip(change, error, strict=True)]
    moved = [abs(_arm(c, "dare_dist_bonus", "label_accuracy") - _arm(c, "dare_dist", "label_accuracy")) for c in cells]
    return Claim(
        "the exploration bonus helps",
        "section 3.2, ablation table",
        _verdict(helps),
        f"alpha 0.1 changes the step gain by {1000 * min(change):+.2f}e-3 to {1000 * max(change):+.2f}e-3 and the "
        f"label accuracy by at most {max(moved):.3f}: it helps in {sum(helps)} of {len(helps)} cells and hurts in "
        f"{sum(hurts)}.",
    )


def pruning(results: JSON) -> Claim:
    cells = results["tables"]["correlation"]
    within = [_arm(c, "dare_dist_prune", "within_variance") - _arm(c, "dare_dist", "within_variance") for c in cells]
    gain = [_arm(c, "dare_dist_prune", "dacc") - _arm(c, "dare_dist", "dacc") for c in cells]
    first = cell(results, rho=0.0, delta=0.3)
    return Claim(
        "pruning reduces the variance of rewards",
        "figure 1b, section 3.3",
        _verdict([w < 0 for w in within]),
        f"The variance of rewards inside a group rises in {sum(w > 0 for w in within)} of {len(within)} cells (rho 0, "
        f"AUROC .70: {_arm(first, 'dare_dist', 'within_variance'):.4f} to "
        f"{_arm(first, 'dare_dist_prune', 'within_variance'):.4f}), because what is pruned drops to 0 and the rest is "
        f"scaled up. The step gain changes by {1000 * min(gain):+.2f}e-3 to {1000 * max(gain):+.2f}e-3.",
    )


def convergence(results: JSON) -> Claim:
    checks, twins, parts = [], [], []
    for row in results["training"]:
        dare, vote, twin = (row["arms"][a] for a in ("dare", "ttrl", "dare_shuffled"))
        checks.append(dare["over_ttrl"] > 2 * dare["over_ttrl_se"])
        twins.append(twin["over_ttrl"] > 2 * twin["over_ttrl_se"])
        s = row["scenario"]
        where = f"rho {s['rho']:g}, AUROC {s['nominal_auroc']:.2f}"
        where += f", {s['confident']:.0%} confident wrong" if s["confident"] else ""
        steps = " and ".join(str(a["steps"]["0.50"] or "never") for a in (dare, vote))
        parts.append(f"{where}: {dare['accuracy']:.3f} against {vote['accuracy']:.3f} (0.50 at step {steps})")
    first = results["training"][0]["arms"]
    return Claim(
        "training with dare converges faster, ends higher and collapses less",
        "sections 4.2 and 4.6",
        _verdict(checks),
        f"Final accuracy of dare against ttrl: {'; '.join(parts)}. Higher in {sum(checks)} of {len(checks)} regimes, "
        f"its twin with shuffled entropies in {sum(twins)}. Diversity is not protected: the answers' entropy ends at "
        f"{first['dare']['entropy']:.3f} (dare) and {first['ttrl']['entropy']:.3f} nats (ttrl) from "
        f"{first['ttrl']['start_entropy']:.2f}.",
    )


CLAIMS = (information, bias, robustness, minority, bonus, pruning, convergence)
