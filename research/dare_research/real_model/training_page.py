"""The page of the real model's training runs, its table for docs/evidence.md, and its curves, all from the figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..page.figures import drawn
from ..page.words import number, percent, points, table
from .training import COMPARED, CURVES, PARTS, WINDOW

Figures = Mapping[str, Any]


def ends(pair: Sequence[float] | None) -> str:
    return f"{points(pair[0]).lstrip('+')} to {points(pair[1]).lstrip('+')}" if pair else "-"


def gain(figure: Figures) -> str:
    """An estimate with the wider of its two 95% intervals."""
    pairs = [p for p in (figure["t"], figure["bootstrap"]) if p]
    return f"{points(figure['estimate'])} ({ends(max(pairs, key=lambda p: p[1] - p[0]))})"


def headline(figures: Figures) -> str:
    """Nulls first, as the plans want; then the fate of every bar, and how many runs are in while some lack."""
    nulls = [b for b in figures["bars"] if b["null"]]
    fates = [f"{b['bar']} {b['fate'] or 'not run'}" for b in figures["bars"]]
    first = "".join(
        f"**A null: {b['contrast']} ({b['form']}, {b['questions']}) is {points(b['figure']['estimate'])} points, and "
        "its 90% intervals lie within 3.** "
        for b in nulls
    )
    lack = any(count < planned for count, planned in figures["runs"].values())
    runs = ", ".join(f"{count} of {planned} ({name})" for name, (count, planned) in figures["runs"].items())
    return f"{first}Bars: {', '.join(fates)}." + f" Runs that are in: {runs}." * lack


def bar_table(figures: Figures) -> str:
    rows = []
    for b in figures["bars"]:
        figure, fate = b["figure"], (b["fate"] or "not run") + (", a null" if b["null"] else "")
        than = f"{b['kind']} {points(b['than']).lstrip('+')}"
        shown = [points(figure["estimate"]), ends(figure["t"]), ends(figure["bootstrap"])] if figure else ["-"] * 3
        holm = number(b.get("holm"), ".4f") if figure else "-"
        rows.append([f"{b['plan']} {b['bar']}", b["form"], b["contrast"], b["questions"], than, *shown, holm, fate])
    return table(
        [
            "",
            "form",
            "contrast",
            "questions",
            "bar",
            "points",
            "95%, t over seeds",
            "95%, bootstrap",
            "Holm's p",
            "fate",
        ],
        rows,
    )


def arm_rows(name: str, form: Figures) -> list[list[str]]:
    base = COMPARED[name].arms[0]
    return [
        [
            part,
            arm,
            percent(at["before"]),
            gain(at["gain"]),
            "" if arm == base else gain(at[f"minus {base}"]),
            votes(form["majority"][part], arm),
        ]
        for part in PARTS
        for arm, at in form["arms"][part].items()
    ]


def votes(majority: Figures, arm: str) -> str:
    after = ", ".join("-" if share is None else percent(share) for share in majority["after"][arm])
    return f"{percent(majority['before'])}; {after}"


def evidence(figures: Figures) -> str:
    """The short table of docs/evidence.md."""
    rows = [[name, *row] for name, form in figures["forms"].items() for row in arm_rows(name, form)]
    rival = "minus `ttrl` (`dare_answer`: minus `dare`)"
    return table(["form", "questions", "arm", "pass@1 before", "gain", rival, "maj@16 before; after"], rows)


def group_lines(form: Figures) -> list[str]:
    def shares(tally: Mapping[str, float]) -> str:
        return ", ".join(f"{a or '(none)'} {100 * share:.0f}%" for a, share in tally.items())

    return [
        f"* {g['prompt']} **{g['right']}**. pass@1 {percent(g['passed'][0])}% to {percent(g['passed'][1])}%. "
        f"Before: {shares(g['before'])}. After: {shares(g['after'])}."
        for g in form["groups"]
    ]


def page(figures: Figures) -> str:
    """research/docs/real-model-training.md."""
    lines = ["# E8 and E9: training a real language model on two cores", "", headline(figures), "", INTRODUCTION]
    lines += ["", "## Bars", "", bar_table(figures)]
    for name, form in figures["forms"].items():
        part = COMPARED[name]
        asked = ", ".join(f"{form['questions'][which]} {which}" for which in PARTS)
        lines += ["", f"## Form: {name}", ""]
        lines += [f"{part.size} rollouts of a question in training; {form['seeds']} seeds; questions: {asked}."]
        if form["exponents"]:
            lines[-1] += f" `calibrated_vote` fitted the exponents {', '.join(f'{e:g}' for e in form['exponents'])}."
        head = ["questions", "arm", "pass@1 before", "gain", f"minus `{part.arms[0]}`", "maj@16 before; after, by seed"]
        lines += [
            "",
            table(head, arm_rows(name, form)),
            "",
            f"![Curves of the {name} runs](real-model-training-{name}.svg)",
        ]
        lines += ["", "One step has 8 questions, so these curves also show which questions came."]
        if "both" in part.arms:
            lines[-1] += " `gt_quarter` and `both` were given others."
        first = f"the first run of `{part.arms[1]}`"
        lines += ["", f"The question that gained most in {first}, and the one that lost most:", ""]
        lines += group_lines(form)
    return "\n".join(lines) + "\n"


def draw(folder: Path, figures: Figures) -> list[Path]:
    """`real-model-training-FORM.svg`: what the trained groups showed, step by step."""
    return [
        drawn(folder / f"real-model-training-{name}.svg", _curves, name, form)
        for name, form in figures["forms"].items()
    ]


def _curves(figure: Any, name: str, form: Figures) -> None:
    keys = [k for k in CURVES if all(k in form["curves"][arm] for arm in COMPARED[name].arms)]
    figure.set_size_inches(3.2 * len(keys), 2.8)
    for axes, key in zip(np.atleast_1d(figure.subplots(1, len(keys))), keys, strict=True):
        scale = 100 if "per cent" in CURVES[key] else 1
        for arm in COMPARED[name].arms:
            smooth = np.convolve(form["curves"][arm][key], np.ones(WINDOW) / WINDOW, "valid") * scale
            axes.plot(range(WINDOW, WINDOW + len(smooth)), smooth, linewidth=1.2, label=arm)
        axes.set(xlabel=f"step (mean of {WINDOW})", title=CURVES[key])
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(COMPARED[name].arms), frameon=False
    )


INTRODUCTION = f"""\
SmolLM2-135M-Instruct, 30 steps of 8 questions with TRL's GRPOTrainer and our adapter, LoRA of rank 16, float32 on CPU.
pass@1 before and after is of 16 rollouts of each question, in points. The plans, [E8](campaign-e8.md) and
[E9](campaign-e9.md), landed before any answer. `ppc` is `perplexity_consistency`; `dare_answer` is `dare` with
`over=answer`. `python research/scripts/real_model.py write` makes this page from
`research/results/real-model-runs.jsonl.gz`. Only whole blocks count: all arms of a form and seed. A gain shows the
wider of two 95% intervals: t over seeds, and the bootstrap of seeds and questions. Curves are means of {WINDOW} steps.
maj@16 is the share of questions whose vote of 16 rollouts is right; no plan asked for it. The first bare run of `ttrl`
kept no answers; that of `calibrated_vote` is the same run.
Three seeds see differences of some 5 points.

Two departures from E8: the bare runs were compared before the reasoned ones had ended, after which nothing was changed;
and the bootstrap draws questions once for all seeds, not in each. Drawn in each seed it is narrower (bar 10: 0.9 to
3.9). No fate hangs on it."""
