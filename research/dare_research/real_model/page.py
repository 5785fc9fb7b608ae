"""The page of the real model's labels, and its tables for docs/evidence.md, from the derived figures alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..page.words import number, percent, points, table
from .derive import CERTAINTIES, EQUALLY_LONG, SIZES
from .weights import WEIGHTS

Derived = Mapping[str, Any]
SHORT = ("trace^1", "answer^1", "ppc", "rpc", "p_answer", "tie")
NAMES = {
    "trace^1": "`dare`'s weight, all tokens",
    "answer^1": "the same, the answer's tokens",
    "ppc": "each path once, its probability",
    "rpc": "RPC",
    "p_answer": "probability of the answer's tokens",
    "tie": "ties to the lower entropy",
}


def missing(value: float | None) -> float:
    return float("nan") if value is None else value


def gain(row: Mapping[str, Any]) -> str:
    low, high = (points(missing(row[end])).lstrip("+") for end in ("low", "high"))
    return f"{points(missing(row['estimate']))} ({low} to {high})"


def area(row: Mapping[str, Any]) -> str:
    return f"{number(row['estimate'], '.2f')} ({number(row['low'], '.2f')} to {number(row['high'], '.2f')})"


def headline(derived: Derived) -> str:
    """What comes first: that both certainties failed where they did, else what was met."""
    fates = {(b["plan"], b["bar"]): b for b in derived["bars"]}
    new = [fates["E9", 1], fates["E9", 4]]
    if all(b["fate"] == "missed" or b["null"] for b in new):
        return (
            "**Neither the answer's own tokens nor the probability of paths labels better than what there was**, by "
            "the bars that were fixed beforehand: no documentation recommends either."
        )
    met = [f"{b['plan']} {b['bar']}" for b in derived["bars"] if b["fate"] == "met"]
    short = [f"{b['plan']} {b['bar']} ({b['fate']})" for b in derived["bars"] if b["fate"] != "met"]
    return f"Of {len(derived['bars'])} bars {len(met)} were met; not met: {', '.join(short) or 'none'}."


def evidence(derived: Derived) -> str:
    """The short table of docs/evidence.md: what each weight gains over the vote."""
    rows = []
    known = [w for w in SHORT if all(f"gain: {w}" in f["sizes"]["64"] for f in derived["forms"].values())]
    for form, found in derived["forms"].items():
        for size in SIZES:
            at = found["sizes"][str(size)]
            rows.append(
                [form, str(size), percent(at["label: vote"]["estimate"]), *(gain(at[f"gain: {w}"]) for w in known)]
            )
    return table(["form", "rollouts", "vote", *(NAMES[w] for w in known)], rows)


def bar_table(derived: Derived) -> str:
    rows = []
    for b in derived["bars"]:
        unit = (lambda v: number(v, "+.3f")) if "auroc" in b["contrast"] else points
        interval = f"{unit(b['low'])} to {unit(b['high'])}" if "low" in b else ""
        value = percent(b["estimate"]) + "%" if b["kind"] == "at most" else unit(b["estimate"])
        than = percent(b["than"]) + "%" if b["kind"] == "at most" else points(b["than"])
        fate = b["fate"] + (", a null" if b.get("null") else "")
        holm = number(b.get("holm"), ".4f")
        rows.append(
            [f"{b['plan']} {b['bar']}", b["form"], b["contrast"], f"{b['kind']} {than}", value, interval, holm, fate]
        )
    return table(["", "form", "contrast", "bar", "estimate", "95% interval", "Holm's p", "fate"], rows)


def auroc_table(found: Derived) -> str:
    names = [f"auroc: {name}" for name in CERTAINTIES] + [f"equally long: {name}" for name in EQUALLY_LONG]
    rows = [[name.removeprefix("auroc: "), *(area(found["sizes"][str(s)][name]) for s in SIZES)] for name in names]
    return table(["", *(f"{s} rollouts" for s in SIZES)], rows)


def family_table(found: Derived, names: Sequence[str], show: Any, size: str) -> str:
    families = list(found["pass@1"])
    rows = [
        [f, percent(found["pass@1"][f]), *(show(missing(found["sizes"][size][n]["families"].get(f))) for n in names)]
        for f in families
    ]
    return table(["family", "pass@1", *(n.split(": ", 1)[1] for n in names)], rows)


def weight_table(found: Derived) -> str:
    rows = [
        ["vote: right labels, per cent", *(percent(found["sizes"][str(s)]["label: vote"]["estimate"]) for s in SIZES)]
    ]
    rows += [
        [name, *(gain(found["sizes"][str(s)][f"gain: {name}"]) for s in SIZES)]
        for name in WEIGHTS
        if name != "vote" and f"gain: {name}" in found["sizes"]["64"]
    ]
    return table(["weight", *(f"{s} rollouts" for s in SIZES)], rows)


def draw_table(found: Derived) -> str:
    rows = [
        [
            f"{at['labels']} {how}",
            size,
            percent(at["use"]),
            points(at["gain"]),
            points(missing(at["gain_where_used"])),
            percent(at["losing"]),
        ]
        for size, both in found["draws"].items()
        for how, at in both.items()
    ]
    return table(
        [
            "labels",
            "rollouts",
            "uses entropy, % of draws",
            "gain",
            "gain where used",
            "draws that lose half a point, %",
        ],
        rows,
    )


def flip_lines(found: Derived) -> list[str]:
    out = []
    for flip in found["flips"]:
        word = "gained" if flip["change"] > 0 else "lost" if flip["change"] < 0 else "neither"
        shown = "; ".join(
            f"{a['answer']}{' (right)' if a['right'] else ''} {a['votes']} votes, {a['entropy']:.2f} nats"
            + "".join(f", {w}'s label" for w in a["label"])
            for a in flip["answers"]
        )
        out.append(f"* {word}: {flip['prompt']} **{flip['right']}**. {shown}")
    return out


def page(derived: Derived) -> str:
    """research/docs/real-model.md."""
    lines = [
        "# E8 and E9: which labels a real language model's certainty gives",
        "",
        headline(derived),
        "",
        INTRODUCTION,
    ]
    if absent := [w for w in WEIGHTS if any(w not in found["weights"] for found in derived["forms"].values())]:
        lines += ["", f"Not computed yet: {', '.join(absent)}. No bar is about it."]
    lines += ["", "## Bars", "", bar_table(derived)]
    for form, found in derived["forms"].items():
        left = ", ".join(found["left_out"]) or "none"
        lines += ["", f"## Form: {form}", "", (
            f"{found['questions']} questions, {found['rollouts']} rollouts each, {found['tokens']:.1f} tokens on average; "  # noqa: E501
            f"{percent(found['answered'])}% with an answer, of these {percent(found['with_span'])}% with a span; "
            f"{found['distinct_paths']:.1f} distinct paths a question. Families left out of pooled figures: {left}."
        )]  # fmt: skip
        names = ["auroc: entropy, all tokens", "auroc: entropy, answer", "equally long: entropy, all tokens"]
        gains = [f"gain: {w}" for w in SHORT if f"gain: {w}" in found["sizes"]["64"]]
        lines += ["", "AUROC within questions:", "", auroc_table(found)]
        lines += ["", "By family, 64 rollouts:", "", family_table(found, names, lambda v: number(v, ".2f"), "64")]
        lines += ["", "Right labels, gain over the vote in points:", "", weight_table(found)]
        for size in ("8", "32"):
            lines += ["", f"By family, {size} rollouts:", "", family_table(found, gains, points, size)]
        lines += ["", "What labels would have done to all other questions, 200 draws:", "", draw_table(found)]
        lines += ["", f"Labels that exponent 1 changes at {found['rollouts']} rollouts:", "", *flip_lines(found)]
    return "\n".join(lines) + "\n"


INTRODUCTION = """\
SmolLM2-135M-Instruct on 360 questions of our own, two forms, 64 rollouts each at temperature 1. Plans, landed before
any answer: [E8](campaign-e8.md), [E9](campaign-e9.md). `python research/scripts/real_model.py write` makes this page
from `research/results/real-model-*.jsonl.gz`. Intervals are 95%, over questions within families. `trace^b` is
n / (u + .05)^b with u over all tokens, `answer^b` over the answer's tokens and the one that ends it, `answer_open`
without that one."""
