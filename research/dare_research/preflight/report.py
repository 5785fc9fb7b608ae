"""The preflight's calibration as Markdown, from its raw results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from dare_reward.analysis.preflight import RULES, Rule
from dare_reward.commands.methods import markdown

from .calibrate import ALLOWED, LEVELS, MARGIN, choose, outcomes, truth_of, wrong_and_decided

__all__ = ["halves", "preflight_page"]

JSON = Mapping[str, Any]
VERDICTS = ("use", "do not use", "undecided")
TRUTHS = ("better", "equal", "worse")
INTRO = """# Preflight: how often it was right

Written by `{command}` from its raw results, [preflight.json.gz](../results/preflight.json.gz). A test renders this page
from them again.

{count} scenarios of the latent-variable model ([simulation.md](simulation.md)) were drawn at random: rho in 0 to 0.5,
informativeness delta in -0.4 to 0.7, half of them with up to 60 per cent confident wrong answers, M of 16, 32 or 64.
In each, dare and ttrl were trained on {prompts} prompts for {steps} steps; dare is *better* or *worse* if the final
accuracies differ by more than {margin:g} point, else *equal*. {repeats} preflights per scenario and size, each on fresh
prompts, predict it. `use` is wrong unless dare is better, `do not use` is wrong if it is better.

The rule and the level of its intervals were chosen on the first half of the scenarios: of the pairs that are wrong in
at most {allowed:.0%} of their decisions on 50 prompts, the one that decides most. It is **{rule}** at **{level:.0%}**
([analysis.md](../../docs/analysis.md#preflight) states the rules). The second half says how often that is right.

**Scope:** calibrated on the simulation alone, where one step's gain and the outcome of training come from one model.
Calibration on trained language models is open; until then read `use` as "nothing speaks against a trial"."""


def halves(results: JSON) -> tuple[Sequence[JSON], Sequence[JSON]]:
    """Scenarios that the level is chosen on, and those that it is reported on."""
    rows = results["scenarios"]
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def preflight_page(results: JSON, *, command: str) -> str:
    """The page."""
    size = results["size"]
    chosen_on, reported_on = halves(results)
    rule, level = choose(chosen_on)
    truths = [truth_of(r["difference"]) for r in results["scenarios"]]
    intro = INTRO.format(
        command=command,
        count=len(results["scenarios"]),
        prompts=size["training"]["prompts"],
        steps=size["training"]["steps"],
        margin=100 * MARGIN,
        repeats=size["repeats"],
        allowed=ALLOWED,
        rule=rule,
        level=level,
    )
    parts = [
        intro,
        f"Truths: {', '.join(f'{truths.count(t)} {t}' for t in TRUTHS)}.",
        f"## Second half: {rule} at {level:.0%}",
        _confusion(reported_on, rule, level, size["sizes"]),
        "## Every rule and level, both halves, 50 prompts",
        _levels(chosen_on, reported_on),
        "## The pieces, second half, 50 prompts",
        _correlations(reported_on),
    ]
    return "\n\n".join(parts) + "\n"


def _confusion(rows: Sequence[JSON], rule: Rule, level: float, sizes: Sequence[int]) -> str:
    lines = []
    for size in sizes:
        found = outcomes(rows, rule=rule, level=level, prompts=size)
        wrong, decided = wrong_and_decided(found)
        total = sum(found.values())
        for v in VERDICTS:
            counts = [found.get((v, t), 0) for t in TRUTHS]
            lines.append([str(size), v, *map(str, counts), "" if v != VERDICTS[-1] else _right(wrong, decided, total)])
    return markdown(("prompts", "verdict", *(f"truth: {t}" for t in TRUTHS), "decided, right of these"), lines)


def _right(wrong: int, decided: int, total: int) -> str:
    return f"{decided / total:.0%}, {1 - wrong / decided:.0%}" if decided else "0%, -"


def _levels(chosen_on: Sequence[JSON], reported_on: Sequence[JSON]) -> str:
    lines = []
    for rule, level in product(RULES, LEVELS):
        cells = []
        for rows in (chosen_on, reported_on):
            found = outcomes(rows, rule=rule, level=level, prompts=50)
            wrong, decided = wrong_and_decided(found)
            cells.append(_right(wrong, decided, sum(found.values())))
        lines.append([rule, f"{level:.0%}", *cells])
    return markdown(("rule", "level", "first half: decided, right", "second half: decided, right"), lines)


def _correlations(rows: Sequence[JSON]) -> str:
    """How well the sign of each figure alone tells better from not better, without any interval."""
    tries = [(t, truth_of(r["difference"]) == "better") for r in rows for t in r["tries"] if t["prompts"] == 50]
    rules: dict[str, Callable[[JSON], bool]] = {
        "difference of gains > 0": lambda t: bool(t["difference"] > 0),
        "within-group AUROC > 0.5": lambda t: bool(t["auroc"] > 0.5),
        "confident wrong modes < 30% of prompts": lambda t: bool(t["confident_wrong"] < 0.3),
    }
    lines = [
        [name, f"{sum(rule(t) == better for t, better in tries) / len(tries):.0%}"] for name, rule in rules.items()
    ]
    return markdown(("rule", "agrees with better / not better"), lines)
