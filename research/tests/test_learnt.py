"""The product's ledger of what was learnt, on the kept runs of the real model: the shares of `rederive.py`, to the digit."""

from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dare_research.real_model.training import SEEDS
from dare_research.records import records
from dare_research.rederive.real_model import sampled, transitions
from dare_reward.analysis.learnt import Visit, learnt, visit
from dare_reward.groups import Groups
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import UNLIMITED, prepare

ROOT = Path(__file__).parents[2]
PAGE, TRAINED = ROOT / "docs" / "report.md", ROOT / "research" / "docs" / "real-model-training.md"
NAMES = {"kept": "sharpened", "learnt": "learnt", "lost": "lost"}


@cache
def questions(form):
    return sampled()[form]


def seen(own, rollouts):
    """What these rollouts of the untrained model say of each question."""
    answers = [[None if a < 0 else q.names_A[a] for a in q.answer_M[rollouts]] for q in own]
    return visit(Groups.of(answers), np.concatenate([q.right_M[rollouts] for q in own]))


def answered(answers, own):
    """The same of counted answers, as a record keeps them."""
    groups = [
        {
            "group_id": q.id,
            "kind": q.kind,
            "label": list(q.accepted),
            "rollouts": [{"answer": a or None} for a, n in answers[q.id].items() for _ in range(n)],
        }
        for q in own
    ]
    prepared = prepare(groups, limits=UNLIMITED)
    return visit(prepared.groups, correctness(prepared))


@pytest.mark.parametrize(
    ("form", "size", "arm"),
    [
        ("bare", 16, "ttrl"),
        ("bare", 16, "dare"),
        ("bare", 16, "gt_quarter"),
        ("reasoned", 8, "ttrl"),
        ("reasoned", 8, "dare"),
    ],
)
def test_the_ledger_of_the_real_model(form, size, arm):
    runs = records("real-model-runs")
    own = {r["seed"]: r for r in runs if (r["form"], r["size"], r["arm"]) == (form, size, arm) and r["seed"] in SEEDS}
    same = {r["seed"]: r for r in runs if (r["form"], r["size"], r["arm"]) == (form, size, "calibrated_vote")}
    found = []
    for seed, run in own.items():
        adapted = [q for q in questions(form) if q.id not in set(run["unseen"])]
        before, after = (
            np.array([run[when][q.id] / run["evaluated"] for q in adapted]) for when in ("before", "after")
        )
        votes = answered(run.get("answers") or same[seed]["answers"], adapted).vote_P
        found.append(learnt(Visit(before, seen(adapted, slice(0, 64)).vote_P), Visit(after, votes)))
        assert sum(part.gain for part in found[-1].parts.values()) == pytest.approx(found[-1].after - found[-1].before)
    expected = transitions(runs, questions(form), form, size, arm)
    for name, part in NAMES.items():
        assert np.mean([f.parts[part].share for f in found]) == pytest.approx(expected[name], abs=1e-12)
    assert np.mean([f.parts["sharpened"].gain for f in found]) == pytest.approx(expected["points"], abs=1e-12)


def test_the_example_s_table_shows_the_figures_of_the_page(monkeypatch):
    """`examples/real_model/learnt.py` on the kept runs, and research/docs/real-model-training.md."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "real_model"))
    table = import_module("learnt")
    runs = [r for r in records("real-model-runs") if (r["form"], r["size"], r["arm"]) == ("bare", 16, "gt_quarter")]
    sampled = [
        {
            "group_id": q.id,
            "kind": q.kind,
            "label": list(q.accepted),
            "rollouts": [{"answer": None if a < 0 else q.names_A[a]} for a in q.answer_M],
        }
        for q in questions("bare")
    ]
    (_, row, _) = table.ledger(runs, sampled).splitlines()
    (said,) = [x for x in TRAINED.read_text().splitlines() if x.startswith("| bare | gt_quarter | 21.0 | 63.2 |")]
    assert said == "| bare | gt_quarter | 21.0 | 63.2 | 14.6 | 12.2 | 3.5 |"
    assert [cell for cell in row.split("  ") if cell.strip()][1:4] == ["+21.0", " +14.6 (63.2%)", " +6.2 (12.2%)"]
    assert "(3.5%)" in row


@pytest.mark.parametrize("form", ["bare", "reasoned"])
def test_the_noise_of_16_votes_is_as_the_page_says(form):
    """Two sets of 16 rollouts of the untrained model: whatever is learnt or lost between them is chance."""
    own = questions(form)
    found = [learnt(seen(own, slice(first, first + 16)), seen(own, slice(first + 16, first + 32))) for first in (0, 32)]
    shares = [np.mean([100 * f.parts[name].share for f in found]) for name in ("learnt", "lost")]
    assert f"{shares[0]:.1f}% learnt and {shares[1]:.1f}% lost" in " ".join(PAGE.read_text().split())
