"""`research/docs/real-model.md` and `real-model-training.md` from the sampled rollouts and the training records.

The fits of RPC's weight and of 200 draws of labels took ten minutes. `results/real-model-slow.json.xz` keeps what they
gave; what fitted them stands at commit d445c929.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dare_reward.analysis.learnt import Visit, learnt

from ..real_model.derive import CERTAINTIES, SIZES, bars, derive
from ..real_model.sample import SampledQuestion, read
from ..real_model.training import COMPARED, SEEDS, majority
from ..real_model.training import learnt as trained_runs
from ..real_model.weights import label_right
from ..records import RESULTS
from ..records import read as unpacked
from .pages import Figure, Page, Row, Table, gain, percent, points, reach

FORMS = ("bare", "reasoned")
SLOW = RESULTS / "real-model-slow.json.xz"
NAMES = {
    "`dare`'s weight, all tokens": "trace^1",
    "the same, the answer's tokens": "answer^1",
    "each path once, its probability": "ppc",
    "RPC": "rpc",
    "probability of the answer's tokens": "p_answer",
    "ties to the lower entropy": "tie",
}
LEDGER = ("% right before and after", "% learnt", "% lost")
Questions = Mapping[str, Sequence[SampledQuestion]]
Found = Mapping[str, Any]


def sampled(folder: Path = RESULTS) -> dict[str, list[SampledQuestion]]:
    return {form: read(folder / f"real-model-{form}.jsonl.xz") for form in FORMS}


def labelled(questions: Questions) -> dict[str, Any]:
    """Every figure of both forms, and the bars of both plans."""
    kept = json.loads(unpacked(SLOW))
    forms = {form: derive(own, kept=kept[form]) for form, own in questions.items()}
    return {"forms": forms, "bars": bars(forms)}


# --- research/docs/real-model.md ------------------------------------------------------------------------------------


def check(page: Page, found: Found) -> Iterator[Figure]:
    for table in page.tables():
        form = found["forms"].get(table.place.removeprefix("Form: "))
        if table.place == "Bars":
            yield from page.check(table, lambda said: _bar(found, said))
        elif form and (row := _row(table, form, page)):
            yield from page.check(table, row)
    met = [b for b in found["bars"] if b["fate"] == "met"]
    short = ", ".join(f"{b['plan']} {b['bar']} ({b['fate']})" for b in found["bars"] if b["fate"] != "met")
    told = {"all": str(len(found["bars"])), "met": str(len(met))}
    yield from page.says("Of {all} bars {met} were met; not met: " + short, told.__getitem__)
    for form in found["forms"].values():
        begin = "{questions} questions, {rollouts} rollouts each, {tokens:.1f} tokens on average; ".format_map(form)
        shares = "{answered} with an answer, of these {with_span} with a span; {paths} distinct paths"
        words = {name: percent(form[name]) + "%" for name in ("answered", "with_span")}
        words["paths"] = f"{form['distinct_paths']:.1f}"
        yield from page.says(begin + shares, words.__getitem__)
        yield from page.lines(_flips(form))


def _bar(found: Found, said: dict[str, str]) -> dict[str, str]:
    bar, judged = _judged(found, said)
    figure, counted = bar["figure"], bar["kind"] == "at most"
    unit = "{:+.3f}".format if "auroc" in bar["contrast"] else points
    return {
        "estimate": percent(figure["estimate"]) + "%" if counted else unit(figure["estimate"]),
        "95% interval": "" if counted else f"{unit(figure['low'])} to {unit(figure['high'])}",
        **judged,
    }


def _judged(found: Found, said: dict[str, str]) -> tuple[Found, dict[str, str]]:
    """The bar of a row, and what the plan says of it."""
    (b,) = (b for b in found["bars"] if f"{b['plan']} {b['bar']}" == said[""])
    p = f"{b['holm']:.4f}" if "holm" in b else "-"
    return b, {"Holm's p": p, "fate": b["fate"] + (", a null" if b["null"] else "")}


def _row(table: Table, form: Found, page: Page) -> Row | None:
    first, *names = table.head
    sizes = {f"{s} rollouts": form["sizes"][str(s)] for s in SIZES}
    if first == "":
        return lambda said: {n: _area(at[_certainty(said[""])]) for n, at in sizes.items()}
    if first == "weight":
        return lambda said: {n: _weight(at, said["weight"]) for n, at in sizes.items()}
    if first == "labels":
        return lambda said: _drawn(form["draws"][said["rollouts"]], said["labels"].split(" ")[1])
    if "trace^1" not in names:
        areas = ("auroc: entropy, all tokens", "auroc: entropy, answer", "equally long: entropy, all tokens")
        return lambda said: _by_family(form, said["family"], names, "64", areas, shown="{:.2f}".format)
    earlier = page.text[: table.rows[0][0].start].rsplit("By family, ", 1)[1].split(" ")[0]
    gains = [f"gain: {name}" for name in names[1:]]
    return lambda said: _by_family(form, said["family"], names, earlier, gains, shown=points)


def _certainty(name: str) -> str:
    return f"auroc: {name}" if name in CERTAINTIES else name


def _area(row: Found) -> str:
    return f"{row['estimate']:.2f} ({row['low']:.2f} to {row['high']:.2f})"


def _weight(at: Found, name: str) -> str:
    if name.startswith("vote"):
        return percent(at["label: vote"]["estimate"])
    row = at[f"gain: {name}"]
    return gain(row["estimate"], (row["low"], row["high"]))


def _drawn(at: Found, how: str) -> dict[str, str]:
    own = at[how]
    used = own["gain_where_used"]
    return {
        "uses entropy, % of draws": percent(own["use"]),
        "gain": points(own["gain"]),
        "gain where used": "-" if used is None else points(used),
        "draws that lose half a point, %": percent(own["losing"]),
    }


def _by_family(
    form: Found, family: str, columns: Sequence[str], size: str, rows: Sequence[str], *, shown: Callable[[float], str]
) -> dict[str, str]:
    """pass@1, and the family's figure of each of these rows of a size."""
    values = [form["sizes"][size][name]["families"].get(family) for name in rows]
    cells = ["-" if v is None else shown(v) for v in values]
    return dict(zip(columns, [percent(form["pass@1"][family]), *cells], strict=True))


def _flips(form: Found) -> Iterator[str]:
    for flip in form["flips"]:
        word = "gained" if flip["change"] > 0 else "lost" if flip["change"] < 0 else "neither"
        shown = "; ".join(
            f"{a['answer']}{' (right)' if a['right'] else ''} {a['votes']} votes, {a['entropy']:.2f} nats"
            + "".join(f", {w}'s label" for w in a["label"])
            for a in flip["answers"]
        )
        yield f"* {word}: {flip['prompt']} **{flip['right']}**. {shown}"


def labels_row(found: Found, said: dict[str, str]) -> dict[str, str]:
    """A row of a table that shows some weights: form, rollouts, the vote, and gains over it."""
    at = found["forms"][said["form"]]["sizes"][said["rollouts"]]
    out = {name: _weight(at, NAMES[name]) for name in said if name in NAMES}
    return {"vote": _weight(at, "vote"), **out}


# --- research/docs/real-model-training.md ---------------------------------------------------------------------------


def trained(runs: Sequence[Found], questions: Questions) -> dict[str, Any]:
    """What the training runs learnt, and by question what they taught, sharpened and lost."""
    found = trained_runs(runs, questions)
    ledger = {(f, arm): transitions(runs, questions[f], f, size, arm)
              for f, size, arms in (("bare", 16, ("ttrl", "dare", "gt_quarter")), ("reasoned", 8, ("ttrl", "dare")))
              for arm in arms}  # fmt: skip
    return {**found, "ledger": ledger, "answerless": answerless(runs, questions["reasoned"])}


def transitions(
    runs: Sequence[Found], questions: Sequence[SampledQuestion], form: str, size: int, arm: str
) -> dict[str, float]:
    """Shares of the adapted questions whose vote, of 64 before and of 16 after, stays right, becomes right, is lost;
    and of the gain of pass@1 what those give that stay right. A run that kept no answers is the one of
    `calibrated_vote`, which fitted 0: its counts are the same."""
    own = {r["seed"]: r for r in runs if (r["form"], r["size"], r["arm"]) == (form, size, arm) and r["seed"] in SEEDS}
    same = {r["seed"]: r for r in runs if (r["form"], r["size"], r["arm"]) == (form, size, "calibrated_vote")}
    out = []
    for seed, run in sorted(own.items()):
        answers = run.get("answers") or same[seed]["answers"]
        assert "answers" in run or same[seed]["after"] == run["after"]
        adapted = [q for q in questions if q.id not in set(run["unseen"])]
        shares = [np.array([run[when][q.id] / run["evaluated"] for q in adapted]) for when in ("before", "after")]
        votes = [
            [label_right(q, "vote", len(q.answer_M)) for q in adapted],
            [majority(answers[q.id], q) for q in adapted],
        ]
        found = learnt(*(Visit(own, np.array(vote)) for own, vote in zip(shares, votes, strict=True))).parts
        out.append([*(found[part].share for part in ("sharpened", "learnt", "lost")), found["sharpened"].gain])
    return dict(zip(("kept", "learnt", "lost", "points"), np.mean(out, axis=0).tolist(), strict=True))


def answerless(runs: Sequence[Found], questions: Sequence[SampledQuestion]) -> dict[str, float]:
    """Share of rollouts without an answer on the adapted questions: of the untrained model, and after arms."""
    unseen = set(runs[0]["unseen"])
    out = {"before": float(np.mean([(q.answer_M < 0).mean() for q in questions if q.id not in unseen]))}
    for arm in ("ttrl", "dare"):
        own = [r for r in runs if (r["form"], r["size"], r["arm"]) == ("reasoned", 8, arm) and r["seed"] in SEEDS]
        shares = [
            tally.get("", 0) / r["evaluated"] for r in own for n, tally in r["answers"].items() if n not in unseen
        ]
        out[arm] = float(np.mean(shares))
    return out


def check_training(page: Page, found: Found, greedy: Found) -> Iterator[Figure]:
    for table in page.tables():
        if table.place == "Bars" or "bar" in table.head:
            yield from page.check(table, lambda said: _trained_bar(found, said))
        elif "untrained, greedy" in table.head:
            yield from page.check(table, lambda said: control(found, greedy, said))
        elif LEDGER[0] in table.head:
            yield from page.check(table, lambda said: _ledger(found, said))
        elif (name := table.place.rpartition("Form: ")[2]) in COMPARED:
            yield from page.check(table, lambda said, name=name: arm_row(found, name, said))  # type: ignore[misc]


def control(found: Found, greedy: Found, said: dict[str, str]) -> dict[str, str]:
    """A row of the decoding control: sampled before and after, greedy (as published), and the vote."""
    form, part = said["form"], said["questions"]
    own = found["forms"][form]
    before = own["arms"][part]["ttrl"]["before"]
    out = {"untrained, sampled": percent(before), "untrained, greedy": greedy[form][part]}
    for arm in ("ttrl", "dare", "gt_quarter"):
        if f"after `{arm}`" in said:
            at = own["arms"][part].get(arm)
            out[f"after `{arm}`"] = percent(before + at["gain"]["estimate"]) if at else "-"
    votes = own["majority"][part]
    after = [share for share in votes["after"]["calibrated_vote"] if share is not None]  # all of `ttrl`, and its first
    if "maj@16, untrained" in said:
        out["maj@16, untrained"] = percent(votes["before"])
    else:
        out["maj@16 untrained; after `ttrl`"] = f"{percent(votes['before'])}; {percent(float(np.mean(after)))}"
    return out


def _ledger(found: Found, said: dict[str, str]) -> dict[str, str]:
    own = found["ledger"][said["form"], said["arm"]]
    gained = found["forms"][said["form"]]["arms"]["adapted"][said["arm"]]["gain"]["estimate"]
    shares = dict(zip(LEDGER, (percent(own[n]) for n in ("kept", "learnt", "lost")), strict=True))
    return {"gain": percent(gained), "gain from these": percent(own["points"]), **shares}


def _wider(figure: Found) -> str:
    return gain(figure["estimate"], max(figure["t"], figure["bootstrap"], key=lambda p: p[1] - p[0]))


def arm_row(found: Found, name: str, said: dict[str, str]) -> dict[str, str]:
    """A row of the arms of a form."""
    form, part, arm = found["forms"][name], said["questions"], said["arm"]
    at, base = form["arms"][part][arm], COMPARED[name].arms[0]
    minus = next(n for n in said if n.startswith("minus"))
    votes = next(n for n in said if n.startswith("maj@16"))
    after = ", ".join("-" if s is None else percent(s) for s in form["majority"][part]["after"][arm])
    return {
        "pass@1 before": percent(at["before"]),
        "gain": _wider(at["gain"]),
        minus: "" if arm == base else _wider(at[f"minus {base}"]),
        votes: f"{percent(form['majority'][part]['before'])}; {after}",
    }


def _trained_bar(found: Found, said: dict[str, str]) -> dict[str, str]:
    bar, judged = _judged(found, said)
    figure = bar["figure"]
    return {
        "points": points(figure["estimate"]),
        "95%, t over seeds": reach(figure["t"]),
        "95%, bootstrap": reach(figure["bootstrap"]),
        **judged,
    }
