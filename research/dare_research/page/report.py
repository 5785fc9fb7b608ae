"""The training study's raw results as a Markdown page. It renders from any subset of runs and says what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ..statistics.blocks import blocked_p, break_even
from ..training.arms import ALL_ARMS
from .breakdown import bar, families
from .claims import judge_training
from .dynamics import beyond_majority, convergence, format_gain, labels, temperatures, texture, treatments
from .facts import by_hardness, unseen_by_facts
from .figures import Gain, figures, gains, rank_correlation
from .outcomes import FINAL, REGIMES, Study, in_order
from .settings import scan, sensitivity
from .side_tables import Wanted, cost, long_runs, missing, preflight, trainers
from .tables import PRIMARY, entropy_credit, factorial, main_table, primary, secondary_table
from .words import number, points, sentence, table

JSON = Mapping[str, Any]
RESAMPLES = 4000
PAIRS, SECONDARY_PAIRS = 16, 8
WANTED: Wanted = {
    **{
        (FINAL, regime, arm.name): SECONDARY_PAIRS
        for arm in ALL_ARMS.values()
        if FINAL in arm.stages
        for regime in (REGIMES if arm.everywhere else (PRIMARY,))
    },
    **{(FINAL, PRIMARY, arm): PAIRS for arm in ("ttrl", "dare")},
}

INTRO = """# Training: does it learn?

Entropy tells, says nothing or misleads here by construction: the corpora mark wrong, all, or right hard steps by loose
separators. So the study asks whether a reward uses what entropy tells, not whether entropy tells.

Written by `{command}`. The raw results are in [training.jsonl.gz](../results/training.jsonl.gz), one base or run a
line. Every number below comes from their summary, [training.summary.json](../results/training.summary.json), from which
`dare-reward study report` writes this page without running anything. Tests compare the three.

**Scope:** {scope} Nothing here replicates or refutes the paper's own runs.

A *pair* is two runs from one base with one seed, an arm each. Intervals of differences are from a hierarchical
bootstrap (bases, in them seeds, in them prompts; {resamples} draws); *better* and *worse* need a 95% interval on one
side of 0, *equivalent* a 90% interval within ±{margin:g} point, anything else is *undecided*. Below 4 bases the wider
of the bootstrap and the t interval over base means decides. With 4 bases the bootstrap alone is too sure if bases
differ more than seeds do (`dare_research/statistics/contrasts.py`): the t interval stands beside it, a claim is said to
hold only if both agree. Always the final step, never the best one."""

GAIN = """One row a base: AUROC before RL against the mean of `dare` minus `ttrl` over its seeds (pass@1, adapted
prompts, final step, stage `confirm`; `{command}`)."""


def training_page(study: Study, *, wanted: Wanted = WANTED) -> str:
    """The page."""
    drawn = figures(study)
    sections: dict[str, Callable[[Study], str]] = {
        "Verdicts": _claims,
        "Primary contrast": primary,
        "The same contrast in the other regimes": _others,
        "Secondary contrasts": secondary_table,
        "What every arm reaches": main_table,
        "By family of tasks": families,
        "By hard facts": by_hardness,
        "Unseen prompts, by their facts": unseen_by_facts,
        "Hard or soft label, without or with entropy": factorial,
        "Does entropy earn credit?": entropy_credit,
        "Gain against informativeness of entropy": _gain,
        "Which method passes the bar?": bar,
        "Convergence": convergence,
        "Does training pass the base's own vote?": beyond_majority,
        "Format or reasoning": format_gain,
        "Length, entropy and diversity": texture,
        "Labels and rewards": labels,
        "How often the arms differ": treatments,
        "Correlated rollouts": temperatures,
        "What was tried on develop": scan,
        "Sensitivity": sensitivity,
        "Long runs": long_runs,
        "Preflight": preflight,
        "Two trainers, one service": trainers,
        "Cost": cost,
        "What was not run": partial(missing, wanted=wanted),
    }
    pictures = {
        "Secondary contrasts": ["contrasts"],
        "Gain against informativeness of entropy": ["gain-auroc"],
        "Convergence": ["curves", "thresholds"],
        "Labels and rewards": ["labels"],
    }
    parts = [
        INTRO.format(
            command=study.command,
            scope=_scope(study),
            resamples=study.resamples,
            margin=100 * study.margin,
        )
    ]
    for title, section in sections.items():
        parts += [f"## {title}", section(study)]
        parts += [f"![{name}](training-{name}.svg)" for name in pictures.get(title, ()) if name in drawn]
    return "\n\n".join(parts) + "\n"


def _scope(study: Study) -> str:
    """Sizes that the records say: of the models, the tasks and the runs."""
    records, known = study.records, study.bases()
    if not records.bases and not records.runs:
        return "no run has been recorded."
    parameters = sorted({b.parameters for b in known})
    families = in_order({f for b in known for f in b.families.get(FINAL, ())}, ())
    confirm = [r for r in records.runs if r.stage == FINAL and r.complete]
    prompts = sorted({s.prompts for r in confirm if (s := r.final.sets.get("adapted"))})
    steps = sorted({r.final.step for r in confirm})
    bases = {r: sum(b.regime == r for b in known) for r in in_order({b.regime for b in known}, REGIMES)}
    said = [
        f"models of {_span(parameters, ',')} parameters, pretrained here from scratch" if parameters else "",
        f"procedural tasks ({', '.join(families)})" if families else "procedural tasks",
        f"bases: {', '.join(f'{count} {regime}' for regime, count in bases.items())}" if bases else "",
        f"{len(confirm)} confirm runs of {_span(steps)} steps on {_span(prompts)} prompts" if confirm else "",
    ]
    return f"{'; '.join(s for s in said if s)}."


def _span(values: Sequence[int], form: str = "") -> str:
    ends = dict.fromkeys(format(v, form) for v in (values[0], values[-1])) if values else ["-"]
    return " to ".join(ends)


def _claims(study: Study) -> str:
    rows = [
        [str(i), f"{c.title} ({c.source})", f"**{c.verdict}**", c.finding, c.scope]
        for i, c in enumerate(judge_training(study), 1)
    ]
    words = (
        "Of these runs alone. `holds`: in every contrast that was run; `in part`: in some; `does not hold`: none, and "
        "all decided; `does not hold where decided`: none, and some are open; `undecided`: all are. Differences in "
        "points with 95% intervals, not corrected; each is judged by both intervals."
    )
    return f"{words}\n\n{table(('', 'claim', 'verdict', 'what was found', 'regimes'), rows)}"


def _others(study: Study) -> str:
    lines = []
    for regime in [r for r in study.regimes(FINAL) if r != PRIMARY]:
        found = study.difference(FINAL, regime, "dare", "ttrl")
        lines.append(f"* {regime}: {sentence('dare', 'ttrl', found, margin=study.margin)}")
    return "\n".join(lines) if lines else table((), [])


def _inside(found: Sequence[Gain]) -> str:
    parts = []
    for regime in dict.fromkeys(g.regime for g in found):
        own = [g for g in found if g.regime == regime]
        rho, _ = rank_correlation([g.auroc for g in own], [g.difference for g in own])
        parts.append(f"{number(rho, '+.1f')} {regime}")
    return ", ".join(parts)


def _gain(study: Study) -> str:
    found = gains(study)
    rows = [[g.regime, str(g.base), number(g.auroc), points(g.difference), str(g.seeds)] for g in found]
    aurocs, differences, trunks = [g.auroc for g in found], [g.difference for g in found], [g.base for g in found]
    rho, p = rank_correlation(aurocs, differences)
    blocked, even = blocked_p(aurocs, differences, trunks), break_even(aurocs, differences, trunks)
    words = GAIN.format(command=study.command)
    if found:
        regimes = len({g.regime for g in found})
        words += (
            f" Spearman's rank correlation over these {len(found)} bases: {number(rho, '+.2f')}, permutation p "
            f"{number(p, '.2g')} if bases were independent. They are not: each trunk gave a base to every regime, and "
            f"the regimes set the AUROC. With trunks as blocks the exact p is {number(blocked, '.2g')}; it is a "
            f"comparison of {regimes} settings, not a regression over {len(found)} models. Inside the regimes the "
            f"correlations are {_inside(found)}.\n\nThe least-squares line crosses 0, where `dare` gains nothing, at "
            f"an AUROC of **{number(even[0])}** (95% {number(even[1])} to {number(even[2])}, bootstrap over trunks), "
            "not at .5."
        )
    return f"{words}\n\n{table(('regime', 'base', 'AUROC', 'dare - ttrl', 'seeds'), rows)}"
