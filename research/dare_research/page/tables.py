"""Tables of outcomes: the primary contrast, the others, and the mirror of the paper's main table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..statistics.contrasts import Contrast, Nested, holm
from ..statistics.detectable import Spread, minimum_detectable, spread
from .outcomes import BASE, FINAL, MEASURES, SETS, Study, Term
from .words import interval, level, number, pairs, percent, points, sentence, table, verdicts

PRIMARY = "informative"
HEAD = ("pairs", "difference", "95%, bootstrap", "90%, bootstrap", "95%, t over bases", "p")
LEVEL_RESAMPLES = 1000
PLANNED = (4, 4)  # bases, seeds


@dataclass(frozen=True, slots=True)
class Secondary:
    """A contrast beside the primary one; p values corrected for all of them, by the bootstrap and by t over bases."""

    regime: str
    arm: str
    rival: str
    found: Contrast
    p: float
    p_bases: float


def rival_of(arm: str) -> str:
    """An arm with another advantage estimator is compared with voting under the same one."""
    return "ttrl_dr_grpo" if arm == "dare_dr_grpo" else "ttrl"


def primary(study: Study) -> str:
    """The contrast that was written down before the runs, in the regime that it was written down for."""
    found = study.difference(FINAL, PRIMARY, "dare", "ttrl")
    words = "`dare` minus `ttrl`, pass@1 on the adapted prompts at the final step"
    parts = [
        f"{words}, stage `{FINAL}`, regime `{PRIMARY}`; `{study.command}`.",
        sentence("dare", "ttrl", found, margin=study.margin),
    ]
    planned = PLANNED[0] * PLANNED[1]
    if found and found.pairs < planned:
        parts.append(
            f"An interim look: {found.pairs} of the {planned} planned pairs, so this verdict may still change."
        )
    if found:
        both = [study.contrast(FINAL, PRIMARY, {(a, "pass@1"): 1.0}) for a in ("dare", "ttrl")]
        row = [*(level(b) for b in both), *_numbers(found), interval(found.over_pairs.low, found.over_pairs.high)]
        head = ("dare", "ttrl", *HEAD, "95%, t over pairs", "verdict", "by t over bases")
        parts.append(table(head, [[*row, *map(str, verdicts(found, margin=study.margin))]]))
    return "\n\n".join([*parts, _detectable(study)])


def secondary(study: Study) -> list[Secondary]:
    """Every arm against the vote and dare against its shuffled twin, in every regime; less the primary contrast."""
    wanted = []
    for regime in study.regimes(FINAL):
        arms = [a for a in study.arms(FINAL, regime) if a != rival_of(a)]
        wanted += [(regime, a, rival_of(a)) for a in arms if (regime, a) != (PRIMARY, "dare")]
        wanted.append((regime, "dare", "dare_shuffled"))
    found = [(*w, c) for w in wanted if (c := study.difference(FINAL, *w))]
    adjusted = holm([c.deciding_p for *_, c in found]), holm([c.p_bases for *_, c in found])
    return [Secondary(*row, *p) for row, *p in zip(found, *adjusted, strict=True)]


def secondary_table(study: Study) -> str:
    found = secondary(study)
    rows = [
        [s.regime, f"{s.arm} - {s.rival}", *_numbers(s.found), number(s.p, ".3g"), number(s.p_bases, ".2g")]
        + [str(v) for v in verdicts(s.found, margin=study.margin, p=s.p)]
        for s in found
    ]
    words = (
        f"pass@1, adapted prompts, final step, stage `{FINAL}`, points; `{study.command}`. Holm's correction is for "
        f"all {len(rows)} rows; equivalence and the last column are not corrected. The bootstrap's p cannot be below "
        f"{number(2 / (study.resamples + 1), '.2g')}, which few bases of one sign reach; that of the t over bases "
        f"can. {_by_t(found)}"
    )
    head = ("regime", "contrast", *HEAD, "p, Holm", "p by t, Holm", "verdict", "by t over bases")
    return f"{words}\n\n{table(head, rows)}"


def _by_t(found: Sequence[Secondary]) -> str:
    kept = [f"{s.arm} - {s.rival} ({s.regime}, {number(s.p_bases, '.2g')})" for s in found if s.p_bases < 0.05]
    return f"By t and after Holm's correction, {len(kept)} of {len(found)} are below .05: {', '.join(kept) or 'none'}."


def main_table(study: Study) -> str:
    """Arms by sets of prompts, one table per regime: the paper's main table for these tasks."""
    words = (
        "Per cent with 95% intervals (hierarchical bootstrap), final step, mean over the runs of an arm; `base` is the "
        f"model before RL, each once. Stage `{FINAL}`; `{study.command}`."
    )
    parts = [words]
    for regime in study.regimes(FINAL):
        arms = [BASE, *study.arms(FINAL, regime)]
        for where in SETS:
            rows = [row for arm in arms if (row := _main_row(study, regime, arm, where))]
            if rows:
                parts += [f"### {regime}, {where}", table(("arm", "runs", *MEASURES, "pass@1 minus base"), rows)]
    return "\n\n".join(parts if len(parts) > 1 else [*parts, table((), [])])


def factors(study: Study, regime: str) -> dict[str, Contrast | None]:
    """Effects in the 2 x 2: means of two differences, their interaction half the difference of these."""
    names = ("ttrl", "empo", "weighted_vote", "dare_dist")  # hard, soft, hard with entropy, soft with entropy
    signs = {"soft label": (-1, 1, -1, 1), "entropy": (-1, -1, 1, 1), "interaction": (1, -1, -1, 1)}
    return {
        effect: study.contrast(FINAL, regime, {(n, "pass@1"): s / 2 for n, s in zip(names, sign, strict=True)})
        for effect, sign in signs.items()
    }


def factorial(study: Study) -> str:
    rows = [
        [regime, effect, *_numbers(found), *map(str, verdicts(found, margin=study.margin))]
        for regime in study.regimes(FINAL)
        for effect, found in factors(study, regime).items()
        if found
    ]
    words = (
        "`ttrl` (hard), `empo` (soft), `weighted_vote` (hard, entropy), `dare_dist` (soft, entropy); effects are means "
        f"of two differences over the pairs that have all four, p not corrected. Stage `{FINAL}`; `{study.command}`."
    )
    return f"{words}\n\n{table(('regime', 'effect', *HEAD, 'verdict', 'by t over bases'), rows)}"


def entropy_credit(study: Study) -> str:
    """Does entropy earn credit: dare against itself with the entropies permuted inside each group."""
    by = {(s.regime, s.arm, s.rival): s for s in secondary(study)}
    lines = []
    for regime in study.regimes(FINAL):
        twin = by.get((regime, "dare", "dare_shuffled"))
        said = sentence(
            "dare",
            "its twin with shuffled entropies",
            twin.found if twin else None,
            margin=study.margin,
            p=twin.p if twin else None,
        )
        lines.append(f"* {regime}: {said}")
    return "\n".join(lines) if lines else table((), [])


def _numbers(found: Contrast) -> list[str]:
    ends, bases = found.bootstrap, found.over_bases
    return [
        pairs(found),
        points(found.estimate),
        interval(ends.low, ends.high),
        interval(ends.low90, ends.high90),
        interval(bases.low, bases.high),
        number(found.p, ".2g"),
    ]


def _main_row(study: Study, regime: str, arm: str, where: str) -> list[str]:
    found = {m: _level(study, regime, {(arm, m): 1.0}, where) for m in MEASURES}
    if found["pass@1"] is None:
        return []
    gain = (
        None
        if arm == BASE
        else study.contrast(
            FINAL, regime, {(arm, "pass@1"): 1.0, (BASE, "pass@1"): -1.0}, where=where, resamples=LEVEL_RESAMPLES
        )
    )
    change = f"{points(gain.estimate)} {interval(gain.bootstrap.low, gain.bootstrap.high)}" if gain else "-"
    return [arm, "-" if arm == BASE else str(found["pass@1"].pairs), *(level(c) for c in found.values()), change]


def _effective(found: Spread, values: Nested) -> str:
    """How many independent pairs these are worth: N/(1 + (seeds - 1) ICC)."""
    if not found.between or found.between + found.within == 0:
        return ""
    share, count = found.between / (found.between + found.within), sum(map(len, values))
    worth = count / (1 + (count / len(values) - 1) * share)
    return (
        f" The spread between bases is {share:.2f} of the whole (intraclass correlation), so that these {count} pairs "
        f"are worth {worth:.1f} independent ones."
    )


def _level(study: Study, regime: str, terms: dict[Term, float], where: str) -> Contrast | None:
    return study.contrast(FINAL, regime, terms, where=where, resamples=LEVEL_RESAMPLES)


def _detectable(study: Study) -> str:
    """What the planned number of pairs can show, from the pilot; and what the pairs that were run could."""
    parts = []
    for stage in ("pilot", FINAL):
        values = study.pair_means(stage, PRIMARY, "dare", "ttrl")
        found = spread(values)
        count = sum(map(len, values))
        if found is None:
            parts.append(
                f"Stage `{stage}`: too few pairs of one base ({count} in all) for a minimum detectable effect."
            )
            continue
        bases, seeds = PLANNED
        plain, few = (minimum_detectable(found, bases=bases, seeds=seeds, few=f) for f in (False, True))
        known = "unknown, taken as 0: a lower bound" if found.between is None else f"{percent(found.between**0.5)}"
        parts.append(
            f"Stage `{stage}`, {count} pairs on {len(values)} bases: standard deviation of a pair's difference between "
            f"bases {known}, between seeds {percent(found.within**0.5)} points. Minimum detectable effect of "
            f"{bases} bases x {seeds} seeds (80% power, two-sided 5%): {percent(plain)} points as 2.8 standard "
            f"errors, {percent(few)} with t quantiles over the base means.{_effective(found, values)}"
        )
    return "\n\n".join(parts)
