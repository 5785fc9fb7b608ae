"""The contrast by family of tasks, and the bar that a default must pass in all regimes."""

from __future__ import annotations

from collections.abc import Mapping

from ..training.arms import ALL_ARMS
from .outcomes import FINAL, REGIMES, SETS, Study, mean_of
from .tables import PRIMARY
from .words import interval, number, pairs, points, table, verdicts

CONTROLS = {a.name for a in ALL_ARMS.values() if not a.contender}


def families(study: Study) -> str:
    """dare minus ttrl by family."""
    rows = []
    for regime in study.regimes(FINAL):
        runs = study.runs(FINAL, regime, "dare").values()
        for where in SETS:
            names = sorted({f for r in runs if where in r.final.sets for f in r.final.sets[where].family_P})
            for name in names:
                terms = {("dare", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}
                found = study.contrast(FINAL, regime, terms, where=where, family=name)
                if found:
                    ends, wide = found.bootstrap, found.over_bases
                    cells = [interval(ends.low, ends.high), interval(wide.low, wide.high)]
                    rows.append([regime, where, name, pairs(found), points(found.estimate), *cells])
    words = f"`dare` minus `ttrl`, pass@1, final step, points, not corrected. Stage `{FINAL}`; `{study.command}`."
    head = ("regime", "set", "family", "pairs", "difference", "95%, bootstrap", "95%, t over bases")
    return f"{words}\n\n{table(head, rows)}"


def bar(study: Study) -> str:
    """Which label-free method is never worse than the vote and better where entropy is informative."""
    rows, passing, nearest, better = [], [], dict[str, float](), set[str]()
    for arm in [a for a in study.arms(FINAL) if a not in CONTROLS]:
        found = {r: study.difference(FINAL, r, arm, "ttrl") for r in REGIMES}
        words = {r: verdicts(c, margin=study.margin)[0].word for r, c in found.items() if c}
        known = {r: c.estimate for r, c in found.items() if c}
        if not known:
            continue
        if "worse" in words.values() or words.get(PRIMARY, "better") != "better":
            said = "does not pass"
        elif len(known) < len(REGIMES):
            said = "open: not run in " + ", ".join(r for r in REGIMES if r not in known)
        else:
            said = "passes"
            passing.append(arm)
        if len(known) == len(REGIMES):
            nearest[arm] = min(known.values())
            better |= {arm} if words[PRIMARY] == "better" else set()
        cells = [f"{points(known[r])} {words[r]}" if r in known else "-" for r in REGIMES]
        seconds = [mean_of(x.seconds for r in known for x in study.runs(FINAL, r, a).values()) for a in (arm, "ttrl")]
        rows.append([arm, *cells, number(seconds[0] / seconds[1], ".2f") if seconds[1] > 0 else "-", f"**{said}**"])
    intro = (
        "Against `ttrl`, pass@1, adapted prompts, final step, points: the bar is *better* in the informative regime "
        "and *worse* in none, by the interval that decides, not corrected. Not worse is not the same as equivalent. "
        "Cost is seconds of a run against `ttrl`, at other times on a machine that had other work beside; every arm "
        f"generates and trains the same number of rollouts. Stage `{FINAL}`; `{study.command}`."
    )
    parts = [intro, table(("arm", *REGIMES, "cost", "bar"), rows)]
    if nearest and not passing:
        sentences = [f"No arm that was run in all regimes passes. {_nearest('Of these', nearest)}"]
        if gaining := {a: low for a, low in nearest.items() if a in better}:
            sentences.append(_nearest(f"Of those that are better in the {PRIMARY} regime", gaining))
        parts.append(" ".join(sentences))
    elif passing:
        parts.append(f"Passing: {', '.join(passing)}.")
    return "\n\n".join(parts)


def _nearest(which: str, lowest: Mapping[str, float]) -> str:
    best = max(lowest, key=lowest.__getitem__)
    return f"{which} {best} has the highest lowest difference, {points(lowest[best])} points."
