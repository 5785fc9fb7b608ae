"""Every figure of README, docs and the result pages: recomputed where the results allow it, else held as it was."""

from __future__ import annotations

import gzip
import json
import re
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .. import e8b, e11
from ..records import RESULTS, read, records
from . import campaign, first_study, real_model, reasoning
from .pages import Figure, Page
from .values import Values

HERE = Path(__file__).parent
CAMPAIGN = "research/docs/campaign-results.md"
FINDINGS = "research/docs/findings.md"
TRAINING = "research/docs/training.md"
REASONING = "research/docs/reasoning-labels.md"
LABELS, TRAINED = "research/docs/real-model.md", "research/docs/real-model-training.md"
MATHEMATICS = "research/docs/mathematics.md"
CONTROL = "research/docs/decoding-control.md"
EVIDENCE, README = "docs/evidence.md", "README.md"
PROSE = {README: "prose: its intervals are recomputed, each of them"}
ELSEWHERE = {  # pages that restate figures, and those whose figures are no result of a run
    "docs/methods.md, docs/entropy.md": "the break-even is of research/docs/training.md, chosen and missed labels of "
    "research/docs/findings.md; .53 and .48 are published",
    "docs/stopping.md": "of E1c in research/docs/campaign-results.md, and of research/docs/stopping.md",
    "docs/report.md": "votes that flip by chance: research/tests/test_learnt.py computes them again",
    "docs/deployment.md, docs/operations.md, docs/openrlhf.md": "times of one machine, of research/docs/benchmarks.md",
}
HELD = HERE / "held.json"
INTERVAL = re.compile(r"\([-+]?\.?\d[\d.]* to [-+]?\.?\d[\d.]*")


class Outcome(NamedTuple):
    """Figures that were recomputed; of each page the numbers that were not, why, and whether they are as they were."""

    figures: list[Figure]
    held: list[tuple[str, int, str, bool]]

    @property
    def wrong(self) -> list[str]:
        changed = [f"{page}: a number changed that nothing recomputes; if that was meant: rederive.py --renew"
                   for page, _, _, same in self.held if not same]  # fmt: skip
        return [str(f) for f in self.figures if not f.same] + changed


class Results:
    """What pages are compared with: made once, from research/results."""

    def __init__(self, root: Path) -> None:
        questions = real_model.sampled()
        self.first, self.runs = records("training"), records("real-model-runs")
        with ProcessPoolExecutor() as pool:  # each of these takes a minute
            mathematics = pool.submit(_mathematics)
            labels = pool.submit(real_model.labelled, questions)
            trained = pool.submit(real_model.trained, self.runs, questions)
        self.mathematics, self.labels, self.trained = mathematics.result(), labels.result(), trained.result()
        self.sections = campaign.sections_of(Page.of(root, CAMPAIGN), records("campaign"))
        self.reasoning = reasoning.points_of(json.loads(read(RESULTS / "reasoning-labels.json.xz")))
        self.published = json.loads((RESULTS / "published.json").read_text(encoding="utf-8"))
        self.values = Values(self)

    @cached_property
    def control(self) -> dict[str, tuple[float, Any]]:
        """E8b's, of the seeds that are whole."""
        return e8b.figures(self.runs)


def _mathematics() -> e11.Figures:
    with gzip.open(RESULTS / "e11.jsonl.gz", "rt", encoding="utf-8") as file:
        return e11.figures(e11.problems(file))


def check(root: Path, results: Results, *, only: Sequence[str] = (), renew: bool = False) -> Outcome:
    """Compares the pages below `root`, or `only` these."""
    pages = {name: Page.of(root, name) for name in only or _pages(root)}
    figures = [figure for page in pages.values() for figure in _figures(page, results)]
    reasons = json.loads(HELD.read_text(encoding="utf-8"))
    if renew:
        for name, page in pages.items():
            if name not in PROSE:
                reasons.setdefault(name, {"why": ""})
                reasons[name] |= {"numbers": len(page.rest()), "sha256": page.print_of_rest()}
        HELD.write_text(json.dumps(reasons, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    held = []
    for name, page in pages.items():
        own = reasons.get(name, {"why": PROSE.get(name, ""), "sha256": ""})
        same = not _open_intervals(page) if name in PROSE else page.print_of_rest() == own["sha256"]
        held.append((name, len(page.rest()), own["why"], same))
    return Outcome(figures, held)


def _pages(root: Path) -> list[str]:
    """README, the evidence, and every page of research that is no plan."""
    docs = sorted((root / "research" / "docs").glob("*.md"))
    plans = re.compile(r"campaign(-e\w+)?|preregistration|qwen-protocol|analysis")
    return [README, EVIDENCE, *(f"research/docs/{p.name}" for p in docs if not plans.fullmatch(p.stem))]


def _open_intervals(page: Page) -> list[str]:
    """Intervals that no sentence of claims.toml covers."""
    return [m.group() for m in INTERVAL.finditer(page.text) if not any(a <= m.end() - 1 < b for a, b in page.covered)]


def _figures(page: Page, results: Results) -> Iterator[Figure]:
    claims = tomllib.loads((HERE / "claims.toml").read_text(encoding="utf-8"))
    for template in claims.get(page.name, {}).get("says", ()):
        yield from page.says(template, results.values)
    tables = {
        CAMPAIGN: lambda: campaign.check(page, results.sections),
        REASONING: lambda: reasoning.check(page, results.reasoning),
        LABELS: lambda: real_model.check(page, results.labels),
        TRAINED: lambda: real_model.check_training(page, results.trained, results.published["greedy"]),
        MATHEMATICS: lambda: page.lines(filter(None, e11.table(results.mathematics).splitlines())),
        CONTROL: lambda: page.lines(filter(None, e8b.table(results.runs).splitlines())),
        TRAINING: lambda: first_study.check(page, results.values.first),
        **dict.fromkeys((EVIDENCE, FINDINGS), lambda: _summary(page, results)),
    }
    if page.name in tables:
        yield from tables[page.name]()


def _summary(page: Page, results: Results) -> Iterator[Figure]:
    """The tables of the short pages."""
    for table in page.tables():
        if "untrained, greedy" in table.head:
            yield from page.check(table, lambda s: real_model.control(results.trained, results.published["greedy"], s))
        elif {"form", "rollouts", "vote"} <= {*table.head}:
            yield from page.check(table, lambda s: real_model.labels_row(results.labels, s))
        elif "arm" in table.head and "form" in table.head:
            yield from page.check(table, lambda s: real_model.arm_row(results.trained, s["form"], s))
        elif table.head[0] == "problems":
            yield from page.check(table, lambda s: _rpc(results.published["rpc"]["rows"], s))
        elif table.head[0] == "task":
            rows = results.published["qwen3_8b"]["rows"]
            yield from page.check(table, lambda s, rows=rows: dict(zip([*s][1:], rows[s["task"]], strict=True)))  # type: ignore[misc]


def _rpc(rows: Any, said: dict[str, str]) -> dict[str, str]:
    ((vote, rpc, best),) = (r[3:] for r in rows if [r[0], r[1]] == [said["problems"], said["model"]])
    return {
        "vote": f"{vote:.2f}",
        "RPC minus vote": f"{rpc - vote:+.2f}",
        "likeliest path minus vote": f"{best - vote:+.2f}",
    }
