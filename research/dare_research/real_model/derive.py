"""Every figure that the plans of E8 and E9 (a) name for labels, from the sampled rollouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dare_reward.segments import Floats, Ints

from ..contrasts import Ends, Resampled, draws, estimate, judged, within
from .sample import SampledQuestion
from .weights import WEIGHTS, heaviest, label_right, masses

SIZES = (4, 8, 16, 32, 64)
LOWEST, HIGHEST = 0.03, 0.97  # of a family's pass@1, for its form's pooled figures

# What a right rollout is expected to have less of.
CERTAINTIES: Mapping[str, Callable[[Mapping[str, Floats]], Floats]] = {
    "entropy, all tokens": lambda c: c["entropy"],
    "entropy, answer": lambda c: c["closed_entropy"],
    "entropy, answer without the end": lambda c: c["open_entropy"],
    "entropy, answer's first token": lambda c: c["first_entropy"],
    "log-probability, mean": lambda c: -c["logprob"] / c["tokens"],
    "log-probability, sum": lambda c: -c["logprob"],
}
EQUALLY_LONG = ("entropy, all tokens", "entropy, answer")
Values = dict[str, Floats]


def screened(questions: Sequence[SampledQuestion]) -> dict[str, float]:
    """pass@1 of each family."""
    families = sorted({q.family for q in questions})
    return {f: float(np.mean([q.right_M.mean() for q in questions if q.family == f])) for f in families}


def derive(questions: Sequence[SampledQuestion], *, kept: Mapping[str, Any]) -> dict[str, Any]:
    """All figures of one form. `kept` are those of RPC's weight and of the draws of labels, which take minutes."""
    passed = screened(questions)
    asked = [q for q in questions if LOWEST <= passed[q.family] <= HIGHEST]
    drawn = draws([q.family for q in asked])
    values = {size: {**aurocs(asked, size), **labels(asked, size)} for size in SIZES}
    return {
        "questions": len(questions),
        "rollouts": len(questions[0].answer_M),
        "pass@1": {f: round(p, 5) for f, p in passed.items()},
        "answered": share(questions, lambda q: q.answer_M >= 0),
        "with_span": share(questions, lambda q: q.columns["span"][q.answer_M >= 0] > 0),
        "distinct_paths": round(float(np.mean([len(set(q.columns["path"])) for q in questions])), 2),
        "tokens": round(float(np.mean([q.columns["tokens"].mean() for q in questions])), 2),
        "sizes": {str(size): sized(values[size], asked, drawn) | kept["rpc"][str(size)] for size in SIZES},
        "draws": kept["draws"],
        "flips": flips(questions),
        "bars": {name: found.record() for name, found in contrasts(values, drawn).items()},
    }


def share(questions: Sequence[SampledQuestion], of: Callable[[SampledQuestion], Any]) -> float:
    return round(float(np.concatenate([of(q) for q in questions]).mean()), 5)


# --- each question's figures ----------------------------------------------------------------------------------------


def aurocs(questions: Sequence[SampledQuestion], size: int) -> Values:
    """`auroc: CERTAINTY` and, among rollouts with equally many answer tokens, `equally long: CERTAINTY`."""
    found = {f"auroc: {name}": np.array([auroc(q, of, size) for q in questions]) for name, of in CERTAINTIES.items()}
    for name in EQUALLY_LONG:
        found[f"equally long: {name}"] = np.array([auroc(q, CERTAINTIES[name], size, equal=True) for q in questions])
    return found


def auroc(
    question: SampledQuestion, of: Callable[[Mapping[str, Floats]], Floats], size: int, *, equal: bool = False
) -> float:
    """Mean over the groups that have right and wrong rollouts; NaN without one."""
    score, right, answered = of(question.columns), question.right_M > 0, question.answer_M >= 0
    found = []
    for start in range(0, len(score), size):
        part = slice(start, start + size)
        good, bad = right[part] & answered[part], ~right[part] & answered[part]
        gap = score[part][good][:, None] - score[part][bad]
        usable = np.ones(gap.shape, bool)
        if equal:
            length = question.columns["span"][part]
            usable = length[good][:, None] == length[bad]
        if usable.any():
            found.append(float(((gap < 0) + 0.5 * (gap == 0))[usable].mean()))
    return float(np.mean(found)) if found else np.nan


def labels(questions: Sequence[SampledQuestion], size: int) -> Values:
    """`label: WEIGHT`: how often the heaviest answer is right."""
    return {f"label: {name}": np.array([label_right(q, name, size) for q in questions]) for name in WEIGHTS}


# --- over questions -------------------------------------------------------------------------------------------------


def sized(values: Values, questions: Sequence[SampledQuestion], drawn: Ints) -> dict[str, Any]:
    """Each figure over all questions and, without interval, by family; weights also as points above the vote."""
    out: dict[str, Any] = {}
    families = np.array([q.family for q in questions])
    for name, found in values.items():
        out[name] = _row(found, families, drawn)
        if name.startswith("label: ") and name != "label: vote":
            out[name.replace("label", "gain")] = _row(found - values["label: vote"], families, drawn)
    return out


def _row(values: Floats, families: Any, drawn: Ints) -> dict[str, Any]:
    means = {f: values[(families == f) & np.isfinite(values)] for f in sorted(set(families))}
    by_family = {f: round(float(own.mean()), 5) if len(own) else None for f, own in means.items()}
    return estimate(values, drawn).record() | {"families": by_family}


def contrasts(values: Mapping[int, Values], drawn: Ints) -> dict[str, Resampled]:
    """What the bars of both plans are about, by name; a form has bars on some of them."""

    def label(name: str, size: int) -> Floats:
        return values[size][f"label: {name}"]

    trace, answer = (values[64][f"auroc: entropy, {where}"] for where in ("all tokens", "answer"))
    found = {
        "auroc above .5": trace - 0.5,
        "auroc, answer minus all": answer - trace,
        "64: trace minus vote": label("trace^1", 64) - label("vote", 64),
        "8: trace minus vote": label("trace^1", 8) - label("vote", 8),
        "8: answer minus trace": label("answer^1", 8) - label("trace^1", 8),
        "8: answer minus tie": label("answer^1", 8) - label("tie", 8),
        "32: answer minus vote": label("answer^1", 32) - label("vote", 32),
        "8: ppc minus vote": label("ppc", 8) - label("vote", 8),
        "ppc at 8 minus vote at 32": label("ppc", 8) - label("vote", 32),
        "16: ppc minus vote": label("ppc", 16) - label("vote", 16),
    }
    return {name: estimate(each, drawn) for name, each in found.items()}


# --- which labels entropy changes -------------------------------------------------------------------------------------


def flips(questions: Sequence[SampledQuestion]) -> list[dict[str, Any]]:
    """Every label that exponent 1 changes at 64, with the answers that have at least a twentieth of the votes."""
    out = []
    for q in questions:
        everything = slice(None)
        votes, weights = masses(q, "vote", everything), masses(q, "trace^1", everything)
        before, after = heaviest(votes), heaviest(weights)
        if set(before) == set(after):
            continue
        order = np.argsort(-votes, kind="stable")
        shown = [a for a in order if votes[a] >= 0.05 * votes.sum() or a in before or a in after]
        answers = [
            {
                "answer": q.names_A[a],
                "votes": int(votes[a]),
                "entropy": round(float(q.columns["entropy"][q.answer_M == a].mean()), 4),
                "right": bool(q.right_A[a]),
                "label": [w for w, top in (("vote", before), ("weight", after)) if a in top],
            }
            for a in shown
        ]
        change = float(q.right_A[after].mean() - q.right_A[before].mean())
        out.append({"prompt": q.prompt, "right": q.accepted[0], "change": round(change, 4), "answers": answers})
    return out


# --- bars -----------------------------------------------------------------------------------------------------------

BARS = (
    ("E8", 1, "bare", "auroc above .5", "above", 0.0),
    ("E8", 2, "reasoned", "auroc above .5", "above", 0.0),
    ("E8", 3, "reasoned", "auroc, answer minus all", "above", 0.0),
    ("E8", 4, "bare", "64: trace minus vote", "within", 0.02),
    ("E8", 5, "reasoned", "8: trace minus vote", "above", 0.0),
    ("E9", 1, "reasoned", "8: answer minus trace", "above", 0.0),
    ("E9", 2, "reasoned", "8: answer minus tie", "above", 0.0),
    ("E9", 3, "reasoned", "32: answer minus vote", "above", 0.0),
    ("E9", 4, "bare", "8: ppc minus vote", "above", 0.0),
    ("E9", 5, "bare", "ppc at 8 minus vote at 32", "not below", -0.02),
    ("E9", 6, "reasoned", "16: ppc minus vote", "within", 0.04),
)
NULL = 0.02


def bars(forms: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each bar of both plans with its fate, and whether it is a null, which E9 names for contrasts of labels."""
    rows = [
        {"plan": plan, "bar": n, "form": f, "contrast": c, "kind": k, "than": t, "figure": forms[f]["bars"][c]}
        for plan, n, f, c, k, t in BARS
    ]
    out = judged(rows, _ends)
    for row in out:
        named = row["plan"] == "E9" and "auroc" not in row["contrast"]
        row["null"] = named and within(NULL, _ends(row["figure"]))
    losing = forms["bare"]["draws"]["64"]["chosen"]["losing"]
    fate = "met" if losing <= 0.05 else "missed"
    chosen = "64: draws of 16 chosen labels that lose"
    shown = {"kind": "at most", "than": 0.05, "figure": {"estimate": losing}, "fate": fate, "null": False}
    out.insert(5, {"plan": "E8", "bar": 6, "form": "bare", "contrast": chosen, **shown})
    return out


def _ends(figure: Mapping[str, Any]) -> list[Ends]:
    return [Ends(*(figure[name] for name in ("low", "high", "low90", "high90")))]
