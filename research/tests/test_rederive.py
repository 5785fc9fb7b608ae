"""What `research/rederive.py` does: every figure follows from the results, and a changed digit is red."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from dare_research.contrasts import Resampled
from dare_research.e11 import Bar, Figures
from dare_research.rederive.check import EVIDENCE, HELD, Results, check
from dare_research.rederive.pages import APART, NUMBER, Page
from dare_research.rederive.values import Values

HERE = Path(__file__).parents[1]
ROOT = HERE.parent
PAGES = [HERE / "README.md", *sorted((HERE / "docs").glob("*.md"))]


def test_every_figure_follows_from_the_results_and_one_changed_digit_is_red(tmp_path):
    """One test, because the results take a minute to read."""
    results = Results(ROOT)
    whole = check(ROOT, results)
    assert whole.wrong == []
    assert len(whole.figures) > 4000
    assert all(why for _, count, why, _ in whole.held if count)
    (tmp_path / "docs").mkdir()
    text = (ROOT / EVIDENCE).read_text()
    code = [m.span() for m in APART.finditer(text)]
    numbers = [m for m in NUMBER.finditer(text) if not any(a <= m.start() < b for a, b in code)]
    places = [at for m in numbers for at in range(*m.span()) if text[at].isdigit()]
    for at in places[:: len(places) // 12]:
        digit = str((int(text[at]) + 1) % 10)
        (tmp_path / EVIDENCE).write_text(text[:at] + digit + text[at + 1 :])
        assert check(tmp_path, results, only=[EVIDENCE]).wrong, text[at - 40 : at + 20]


PAGE = """# T

## A

| name | gain | gain |
|---|---|---|
| `x` 1 | +1.5 (0.2 to 2.8) | 3 |

It gains 4.2
points (1 to 7), of 100 with `k=3` and [8](p9.md).
"""


def page():
    return Page("p.md", PAGE)


def test_a_table_is_checked_by_the_names_of_its_columns():
    own = page()
    (table,) = own.tables()
    assert (table.place, table.head) == ("A", ("name", "gain", "gain 2"))
    figures = list(own.check(table, lambda said: {"gain": "+1.5 (0.2 to 2.8)", "gain 2": str(len(said))}))
    assert [f.same for f in figures] == [True, True]
    assert own.rest() == ["1", "4.2", "1", "7", "100", "8"]


def test_a_sentence_is_found_wherever_its_lines_break_and_its_figures_are_compared():
    own = page()
    figures = list(own.says("gains {a} points ({b} to {c})", {"a": "4.2", "b": "1", "c": "8"}.__getitem__))
    assert [(f.said, f.found) for f in figures] == [("4.2", "4.2"), ("1", "1"), ("7", "8")]
    (gone,) = own.says("It loses {a}", {"a": "1"}.__getitem__)
    assert not gone.same
    (line,) = own.lines(iter(["| `x` 1 | +1.5 (0.2 to 2.8) | 3 |"]))
    assert line.same


def test_a_sentence_names_a_bar_or_a_level():
    level = Resampled(0.6412, 0.58, 0.7049, 0.59, 0.69, 0.01, 150)
    bar = Bar("c1: dare - vote at 8", Resampled(0.0151, 0.002, 0.028, 0.004, 0.026, 0.02, 150), 0.01, 0.04)
    box = Bar("b2: AUROC of the box - of the trace", Resampled(-0.03, -0.09, 0.03, -0.08, 0.02, 0.3, 150), 0.03, 0.3)
    labels = [{"labels": 32, "use": 0.09, "gain where used": 0.01}]
    found = Figures(150, 16, {"AUROC, trace": level}, {}, [bar, box], labels)
    control = {"3": (0.021, (-0.01, 0.05)), "bare unseen dare greedy": (0.654, None)}  # of E8b
    values = Values(SimpleNamespace(sections={}, first=[], mathematics=found, control=control))
    said = ["math c1", "math c1 low", "math AUROC, trace", "math AUROC, trace high", "math b2 low", "math 32 use"]
    assert [values(name) for name in said] == ["+1.5 (0.2 to 2.8)", "0.2", ".64", ".70", "-.09", "9.0"]
    said = ["control 3", "control 3 lost", "control bare unseen dare greedy"]
    assert [values(name) for name in said] == ["+2.1 (-1.0 to 5.0)", "2.1", "65.4"]


@pytest.mark.parametrize("text", ["+1.5", ".57", "4,608", "-0.2", "±3", "65.4"])
def test_a_number_is_seen_as_a_whole(text):
    assert NUMBER.findall(f"of {text} points") == [text]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_what_is_held_names_pages_that_there_are():
    assert [name for name in json.loads(HELD.read_text()) if not (ROOT / name).exists()] == []
