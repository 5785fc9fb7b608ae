"""What pages say of the ledger of what was learnt, on the kept runs of the real model; `rederive.py` checks its tables."""

from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from dare_research.records import records
from dare_research.rederive.real_model import sampled
from dare_reward.analysis.learnt import learnt, visit
from dare_reward.groups import Groups

ROOT = Path(__file__).parents[2]
PAGE, TRAINED = ROOT / "docs" / "report.md", ROOT / "research" / "docs" / "real-model-training.md"


@cache
def questions(form):
    return sampled()[form]


def seen(own, rollouts):
    """What these rollouts of the untrained model say of each question."""
    answers = [[None if a < 0 else q.names_A[a] for a in q.answer_M[rollouts]] for q in own]
    return visit(Groups.of(answers), np.concatenate([q.right_M[rollouts] for q in own]))


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
