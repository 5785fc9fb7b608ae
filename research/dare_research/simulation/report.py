"""Raw results to Markdown. Nothing is computed here that the raw results do not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dare_reward.commands.methods import markdown

from .claims import judge_claims
from .tabular import THRESHOLDS

JSON = Mapping[str, Any]
SHOWN = ("label_accuracy", "bias", "variance", "mse", "mi_reward", "mi_advantage")
INTRO = """# Simulation: the paper's claims in its own latent-variable model

Written by `{command}` from its raw results, [simulation.json.gz](../results/simulation.json.gz). A test renders this
page from them again.

Scope: this speaks about the estimators, not about language models. Answers are exchangeable labels, entropies do not
change as the policy sharpens, nothing is shared between prompts. The model is in
`dare_research/simulation/model.py`: accuracy ~ Beta(1.2, 2), one systematic wrong answer, {answers} answers, {rollouts}
rollouts unless said otherwise, {prompts} prompts a cell, one seed, the same draws in all cells that allow it.
Nothing here replicates or refutes the paper's own runs.

`AUROC` is P(entropy of a right rollout < entropy of a wrong one) before confident errors and loops; `rho` the
intra-group correlation; `dacc` the first-order change of accuracy for a unit step along group-normalised advantages,
in 1e-3, with its standard error over prompts; MI in bits, with rewards r and with advantages A."""

TRAINING = """{prompts} prompts, {steps} steps, learning rate {lr:g}, 64 votes, the first {trained} trained; one run.
Final accuracy, difference to ttrl with its standard error over prompts, prompts whose majority became right (of those
where it was wrong) or wrong (of those where it was right), pass@8, entropy of the answers in nats, steps to a score."""
FACTORIAL = """Final accuracy after training, by hard or soft label and without or with entropy. Effects are means of
two differences; the standard error of a single difference is 0.01 to 0.02 (table on training)."""
LOSSES = "Step gain (1e-3) and final accuracy against ttrl, where dare is below it by two standard errors."


def simulation_page(results: JSON, *, command: str) -> str:
    """The page of the simulation."""
    size = results["size"]
    tables, arms = results["tables"], results["arms"]
    parts = [
        INTRO.format(command=command, prompts=size["prompts"], rollouts=64, answers=12),
        "## Verdicts",
        _claims(results),
        "## Where dare loses",
        _losses(results),
        "## What carries the gain: the label or the entropy",
        FACTORIAL,
        _factorial(results["training"]),
        "## Correlation and informativeness",
        _cells(tables["correlation"], arms, ("rho", "nominal_auroc")),
        "## Number of rollouts (rho 0)",
        _cells(tables["rollouts"], arms, ("rollouts", "nominal_auroc")),
        "## Confident wrong answers (rho 0.1, AUROC .70)",
        "Share of prompts whose systematic wrong answer has 0.3 times the entropy.",
        _cells(tables["confident"], arms, ("confident",)),
        "## Repetition loops (rho 0.1)",
        "One wrong answer of middling rarity has an entropy of 0.002 nats in every rollout.",
        _cells(tables["loop"], arms, ("nominal_auroc", "loop")),
        "## Training",
        TRAINING.format(**size["training"]),
        _training(results["training"]),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(results: JSON) -> str:
    rows = [
        [str(i), f"{c.title} ({c.source})", f"**{c.verdict}**", c.finding]
        for i, c in enumerate(judge_claims(results), 1)
    ]
    return markdown(("", "claim", "verdict", "what was found"), rows)


def _losses(results: JSON) -> str:
    """Cells in which one step of dare gains less than one of ttrl, by more than two standard errors."""
    rows = []
    seen = set()
    for cells in results["tables"].values():
        for c in cells:
            arm = c["arms"]["dare"]
            key = tuple(sorted(c["scenario"].items()))
            if arm["dacc_over_ttrl"] < -2 * arm["dacc_over_ttrl_se"] and key not in seen:
                seen.add(key)
                others = ("dare_sqrt", "dare_robust", "dare_shuffled")
                rows.append([_scenario(c["scenario"]), _plus(arm), *(_plus(c["arms"][a]) for a in others)])
    for r in results["training"]:
        arm = r["arms"]["dare"]
        if arm["over_ttrl"] < -2 * arm["over_ttrl_se"]:
            ends = [r["arms"][a]["over_ttrl"] for a in ("dare_sqrt", "dare_shuffled")]
            own = f"final accuracy {arm['over_ttrl']:+.3f} ± {arm['over_ttrl_se']:.3f}"
            rows.append([f"training, {_scenario(r['scenario'])}", own, f"{ends[0]:+.3f}", "-", f"{ends[1]:+.3f}"])
    head = ("where", "dare - ttrl", "dare_sqrt - ttrl", "dare_robust - ttrl", "dare, entropies shuffled - ttrl")
    return f"{LOSSES}\n\n{markdown(head, rows)}"


def _factorial(training: Sequence[JSON]) -> str:
    """The 2 x 2 of the study's arms."""
    rows = []
    for r in training:
        hard, soft, hard_entropy, both = (
            r["arms"][a]["accuracy"] for a in ("ttrl", "empo", "weighted_vote", "dare_dist")
        )
        effects = ((soft - hard + both - hard_entropy) / 2, (hard_entropy - hard + both - soft) / 2)
        cells = (f"{x:.3f}" for x in (hard, soft, hard_entropy, both))
        rows.append([_scenario(r["scenario"]), *cells, *(f"{x:+.3f}" for x in effects)])
    head = ("where", "hard: ttrl", "soft: empo", "hard, entropy: weighted_vote", "soft, entropy: dare_dist")
    return markdown((*head, "effect of soft", "effect of entropy"), rows)


def _plus(arm: JSON) -> str:
    return f"{1000 * arm['dacc_over_ttrl']:+.1f} ± {1000 * arm['dacc_over_ttrl_se']:.1f}"


def _scenario(s: JSON) -> str:
    words = [f"rho {s['rho']:g}", f"AUROC {s['nominal_auroc']:.2f}", f"M {s['rollouts']}"]
    words += [f"{s['confident']:.0%} confident wrong"] if s["confident"] else []
    return ", ".join(words + (["loops"] if s["loop"] else []))


def _cells(cells: Sequence[JSON], arms: Sequence[str], keys: Sequence[str]) -> str:
    rows = [
        [*(_key(c["scenario"][k]) for k in keys), name, *(_number(c["arms"][name][k]) for k in SHOWN), *_gain(c, name)]
        for c in cells
        for name in arms
    ]
    head = [*("AUROC" if k == "nominal_auroc" else k for k in keys), "method", "label acc.", "bias", "var", "MSE"]
    return markdown([*head, "MI(R;r)", "MI(R;A)", "dacc", "minus ttrl", "flips to / from right"], rows)


def _gain(c: JSON, name: str) -> list[str]:
    arm = c["arms"][name]
    gain = f"{1000 * arm['dacc']:.1f} ± {1000 * arm['dacc_se']:.1f}"
    return [gain, _plus(arm), f"{arm['flips']['to_right']:.3f} / {arm['flips']['from_right']:.3f}"]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _training(training: Sequence[JSON]) -> str:
    rows = []
    for r in training:
        for name, arm in r["arms"].items():
            steps = [arm["steps"][f"{t:.2f}"] for t in THRESHOLDS]
            rows.append(
                [
                    _scenario(r["scenario"]),
                    name,
                    f"{arm['accuracy']:.3f}",
                    f"{arm['over_ttrl']:+.3f} ± {arm['over_ttrl_se']:.3f}",
                    f"{arm['minority_flipped']:.2f} / {arm['majority_lost']:.2f}",
                    f"{arm['pass@8']:.3f}",
                    f"{arm['entropy']:.3f}",
                    *("-" if s is None else str(s) for s in steps),
                ]
            )
    head = ["where", "method", "accuracy", "minus ttrl", "won / lost", "pass@8", "entropy"]
    return markdown([*head, *(f"to {t:.2f}" for t in THRESHOLDS)], rows)
