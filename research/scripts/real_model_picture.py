"""The README's first picture: one vote that the weight repairs and one that it breaks, of the real model.

    python research/scripts/real_model_picture.py REPAIRED BROKEN OUT.png [--size 64] [--first 0]

REPAIRED and BROKEN are ids of questions in research/results/real-model-bare.jsonl.gz; each is shown with its rollouts
from the one numbered `first` on. A dot is an entropy, sized by the rollouts that have it, with their number where it is
large.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dare_research.real_model.sample import SampledQuestion, read
from dare_research.real_model.weights import masses

RESULTS = Path(__file__).parents[1] / "results"
ROWS = 3
LARGE = 8  # rollouts at one entropy, from which on their number stands in the dot
GREY, BLUE, RIGHT, WRONG = "#9aa3ab", "#2f5f9e", "#26734d", "#b3402a"


def draw(axes: Any, question: SampledQuestion, group: slice, title: str) -> None:
    """Shares of votes and of weight, and each rollout's entropy, an answer a row."""
    votes, weights = (masses(question, name, group) for name in ("vote", "trace^1"))
    votes, weights = votes / votes.sum(), weights / weights.sum()
    order = np.argsort(-votes, kind="stable")[:ROWS]
    order = order[votes[order] > 0]
    bars, dots = axes
    answers, entropy = question.answer_M[group], question.columns["entropy"][group]
    for y, a in enumerate(order):
        bars.barh(y - 0.19, votes[a], 0.34, color=GREY)
        bars.barh(y + 0.19, weights[a], 0.34, color=BLUE)
        values, counts = np.unique(entropy[answers == a].round(3), return_counts=True)
        dots.scatter(
            values, [y] * len(values), s=12 * counts, color=RIGHT if question.right_A[a] else WRONG, alpha=0.75, lw=0
        )
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if count > LARGE:
                dots.annotate(str(count), (value, y), ha="center", va="center", fontsize=8, color="white")
    names = [question.names_A[a].strip()[:20] + (" ✓" if question.right_A[a] else "") for a in order]
    bars.set_yticks(range(len(order)), names)
    bars.set_ylim(len(order) - 0.4, -0.6)
    for where, name in ((0, "vote"), (1, "weight")):
        chosen = int(np.argmax((votes, weights)[where][order]))
        share = (votes, weights)[where][order[chosen]]
        bars.annotate(f" {name}'s label", (share, chosen + (-0.19, 0.19)[where]), va="center", fontsize=8)
    bars.set(xlim=(0, 1), title=title)
    bars.title.set(horizontalalignment="left", position=(0, 1), fontsize=10)
    dots.set_xlim(0, 2)
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
        one.spines[["left", "bottom"]].set_color(GREY)
        one.tick_params(length=0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repaired")
    parser.add_argument("broken")
    parser.add_argument("out", type=Path)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--first", type=int, nargs=2, default=[0, 0])
    given = parser.parse_args()
    questions = {q.id: q for q in read(RESULTS / "real-model-bare.jsonl.gz")[1]}
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots(2, 2, width_ratios=(1.25, 1), sharey="row")
    for row, name, first, word in zip(
        axes, (given.repaired, given.broken), given.first, ("Repaired", "Broken"), strict=True
    ):
        draw(row, questions[name], slice(first, first + given.size), f"{word}: {questions[name].prompt}")
    axes[1, 0].set_xlabel("share of votes (grey) and of weight (blue)")
    axes[1, 1].set_xlabel("entropy, nats; a dot is sized by its rollouts")
    figure.savefig(given.out, dpi=150)
    return 0


if __name__ == "__main__":
    sys.exit(main())
