"""Whose gain it is: prompts by the hard facts that they hold, and by what the base's vote says of them."""

from __future__ import annotations

from ..training.facts import SUBSETS
from .outcomes import BASE, FINAL, Study
from .tables import PRIMARY
from .words import interval, pairs, points, table

SHOWN = ("ttrl", "dare_shuffled", "dare", "rent", "gt", "random", "format")
HARD = ("without a hard fact", "with a hard fact")
ADAPTED = tuple(name for name in SUBSETS if name.endswith("adapted to"))
HEAD = ("pairs", "difference", "95%, bootstrap", "95%, t over bases")


def by_hardness(study: Study) -> str:
    """The contrast by prompts with and without a hard fact, and each arm's change by what the vote says."""
    rows = [row for regime in study.regimes(FINAL) for name in HARD if (row := _row(study, regime, name, "adapted"))]
    changes = [row for arm in SHOWN if (row := _changes(study, arm))]
    words = (
        "The corpus solves a prompt without a hard fact rightly but for slips. `dare` minus `ttrl`, pass@1, "
        f"adapted prompts, final step, points, not corrected. Stage `{FINAL}`; `{study.command}`."
    )
    parts = [words, table(("regime", "prompts", *HEAD), rows)]
    if changes:
        parts += [
            f"Change of pass@1 against the base, regime `{PRIMARY}`, points; the vote is the base's, of 64 rollouts.",
            table(("arm", HARD[0], "hard fact, vote right", "hard fact, vote wrong"), changes),
        ]
    return "\n\n".join(parts)


def unseen_by_facts(study: Study) -> str:
    """Unseen prompts by whether the adapted ones hold their hard facts."""
    names = (HARD[0], *ADAPTED)
    rows = [row for regime in study.regimes(FINAL) for name in names if (row := _row(study, regime, name, "unseen"))]
    words = (
        "An unseen prompt is new as a text, but its hard facts may occur in the adapted prompts of its base: what "
        "transfers there is the fact. `dare` minus `ttrl`, pass@1, unseen prompts, final step, points, not corrected. "
        f"Stage `{FINAL}`; `{study.command}`."
    )
    return f"{words}\n\n{table(('regime', 'prompts', *HEAD), rows)}"


def _row(study: Study, regime: str, name: str, where: str) -> list[str]:
    terms = {("dare", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}
    found = study.contrast(FINAL, regime, terms, where=where, subset=name)
    if found is None:
        return []
    ends, wide = found.bootstrap, found.over_bases
    return [
        regime,
        name,
        pairs(found),
        points(found.estimate),
        interval(ends.low, ends.high),
        interval(wide.low, wide.high),
    ]


def _changes(study: Study, arm: str) -> list[str]:
    terms = {(arm, "pass@1"): 1.0, (BASE, "pass@1"): -1.0}
    subsets = (HARD[0], f"{HARD[1]}, vote right", f"{HARD[1]}, vote wrong")
    found = [study.contrast(FINAL, PRIMARY, terms, subset=name) for name in subsets]
    return [arm, *(points(c.estimate) if c else "-" for c in found)] if any(found) else []
