"""E11, mathematics by a 1.5B model: every figure of docs/campaign-e11.md, from rollouts of `dare-reward measure`.

    python -m dare_research.e11 pack SAMPLE.jsonl COOLER.jsonl OUT.jsonl.gz     numbers in place of texts and tokens
    python -m dare_research.e11 rest OUT.jsonl.gz QUESTIONS.jsonl REST.jsonl    the questions that OUT has no problem of
    python -m dare_research.e11 table OUT.jsonl.gz                              the table of the results
    python -m dare_research.e11 example OUT.jsonl.gz QUESTIONS.jsonl FILE       a file that `dare-reward` reads

SAMPLE holds 16 rollouts of each problem and its greedy one, COOLER one at temperature .6. `pack` keeps the problems
that OUT has, so that the run can go on where its files are not.
"""

from __future__ import annotations

import gzip
import io
import json
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qsl

import numpy as np

from dare_reward import estimate as rewards
from dare_reward.cli import main as command
from dare_reward.files.output import write_files
from dare_reward.scoring.array_inputs import without_tokens
from dare_reward.segments import Floats

from .contrasts import Resampled, draws, estimate, holm

JSON = dict[str, Any]
Fate = Literal["above", "below", "equal", "open"]

EVEN: Final = 0.57  # within-problem AUROC at which `dare` broke even with the vote in trained models
SIZES: Final = (8, 16)
AT: Final = (("vote", 8), ("dare", 8), ("ties", 8), ("vote", 16), ("ppc", 16))
ORDERS: Final = 4  # of a problem's rollouts: as sampled, and three drawn; of `rpc`, whose mixture is slow, the first
MANY: Final = 64  # after the fact: c1 by four orders moves by half a point from four to four
DRAWN: Final = 100  # sets of labels of each size
SETS: Final = (32, 64)
LOSS: Final = 0.005
AT_ONCE: Final = 1000  # groups of a request in process
NUMBERS: Final = ("mean_entropy", "num_tokens", "answer_entropy", "answer_logprob", "sum_logprob", "path")
METHODS: Final[Mapping[str, JSON]] = {
    "vote": {"method": "ttrl"},
    "dare": {"method": "dare"},
    "ties": {"method": "calibrated_vote", "exponent": 1e-9},
    "rpc": {"method": "rpc"},
    "ppc": {"method": "perplexity_consistency"},
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem's rollouts as numbers. `cooler` and `greedy` are right or wrong alone."""

    id: str
    family: str
    rollouts: tuple[JSON, ...]
    greedy: float
    cooler: float

    @property
    def right_M(self) -> Floats:
        return np.array([r["correct"] for r in self.rollouts], float)

    def column(self, name: str) -> Floats:
        """A number of each rollout; NaN where it is missing or the rollout has no answer."""
        values = [np.nan if r["answer"] is None else r.get(name) for r in self.rollouts]
        return np.array([np.nan if v is None else v for v in values], float)


# --- what is kept of a sample -----------------------------------------------------------------------------------------


def packed(sample: Sequence[JSON], cooler: Sequence[JSON]) -> Iterator[JSON]:
    """Each problem with numbers, answers as the service reads them, and whether these are right."""
    greedy = [{**group, "rollouts": [group["meta"]["greedy"]]} for group in sample]
    other = {group["group_id"]: group for group in cooler}
    alone = [other[group["group_id"]] for group in sample]
    parts = (_graded([_reduced(group) for group in groups]) for groups in (sample, greedy, alone))
    for group, many, (first,), (second,) in zip(sample, *parts, strict=True):
        yield {
            "id": group["group_id"],
            "family": group["meta"]["family"],
            "rollouts": many,
            "greedy": first["correct"],
            "cooler": second["correct"],
        }


def _reduced(group: JSON) -> JSON:
    return {**group, "rollouts": [without_tokens(rollout) for rollout in group["rollouts"]]}


def _graded(groups: Sequence[JSON]) -> Iterator[list[JSON]]:
    read, truth = _estimated(groups, METHODS["vote"]), _estimated(groups, {"method": "gt"})
    for group, found, right in zip(groups, read, truth, strict=True):
        if found.error or right.error:
            raise ValueError(f"{group['group_id']}: {found.error or right.error}")
        yield [
            {"answer": answer, "correct": float(value > 0.5), "cut": rollout["finish_reason"] == "length"}
            | {k: rollout[k] for k in NUMBERS if rollout.get(k) is not None}
            for rollout, answer, value in zip(group["rollouts"], found.answers, right.rewards, strict=True)
        ]


def _estimated(groups: Sequence[JSON], how: JSON) -> list[Any]:
    parts = (groups[start : start + AT_ONCE] for start in range(0, len(groups), AT_ONCE))
    return [found for part in parts for found in rewards(cast("Any", part), **how).groups]


def problems(lines: Iterable[str]) -> list[Problem]:
    rows = map(json.loads, lines)
    return [Problem(r["id"], r["family"], tuple(r["rollouts"]), r["greedy"], r["cooler"]) for r in rows]


def example(rows: Sequence[JSON], questions: Sequence[JSON]) -> Iterator[JSON]:
    """Each problem's question and label with its rollouts' answers and numbers, to six digits, as a group of a file."""
    asked = {question["id"]: question for question in questions}
    for row in rows:
        question = {name: asked[row["id"]][name] for name in ("kind", "prompt", "label")}
        rollouts = [{name: _short(r[name]) for name in ("answer", *NUMBERS) if name in r} for r in row["rollouts"]]
        sources = {"entropy_source": "exact", "entropy_mode": "temperature"}
        yield {"group_id": row["id"], **question, **sources, "rollouts": rollouts}


def _short(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


# --- each problem's figures -------------------------------------------------------------------------------------------


def auroc(problem: Problem, column: str, *, alike: bool = False) -> float:
    """P(a right rollout has less of it than a wrong one), ties one half, among answered ones; NaN without both.

    alike   only pairs whose lengths differ by at most a tenth
    """
    value, right = problem.column(column), problem.right_M > 0
    known = np.isfinite(value)
    good, bad = known & right, known & ~right
    gap = value[good][:, None] - value[bad]
    usable = np.ones(gap.shape, bool)
    if alike:
        length = problem.column("num_tokens")
        usable = np.abs(np.log(length[good])[:, None] - np.log(length[bad])) <= np.log(1.1)
    return float(((gap < 0) + 0.5 * (gap == 0))[usable].mean()) if usable.any() else np.nan


def majority(problem: Problem) -> float:
    """maj@16: whether the commonest answer is right; equally common ones share it, none is wrong."""
    votes: dict[str, list[float]] = {}
    for rollout in problem.rollouts:
        if rollout["answer"] is not None:
            votes.setdefault(rollout["answer"], []).append(rollout["correct"])
    most = max(map(len, votes.values()), default=0)
    return float(np.mean([np.mean(own) for own in votes.values() if len(own) == most])) if most else 0.0


def orders(problem: Problem, place: int, number: int) -> list[list[int]]:
    count = len(problem.rollouts)
    drawn = [np.random.default_rng((place, k)).permutation(count).tolist() for k in range(1, number)]
    return [list(range(count)), *drawn]


def labels(found: Sequence[Problem], size: int, method: str, *, number: int = ORDERS) -> Floats:
    """Share of right labels of a problem's groups of `size`, parts of `number` orders. NaN where all are refused."""
    places, rights = list[int](), list[dict[str, float]]()
    groups: list[JSON] = []
    for place, problem in enumerate(found):
        for order in orders(problem, place, number):
            for start in range(0, len(order) - size + 1, size):
                own = [problem.rollouts[k] for k in order[start : start + size]]
                places.append(place)
                groups.append({"group_id": str(len(groups)), "kind": "exact", "rollouts": list(map(_sent, own))})
                rights.append({r["answer"]: r["correct"] for r in own if r["answer"] is not None})
    replies = _estimated(groups, METHODS[method])
    values = [np.nan if r.error else right.get(r.pseudo_label, 0.0) for r, right in zip(replies, rights, strict=True)]
    return _means(values, places, len(found))


def _sent(rollout: JSON) -> JSON:
    return {k: v for k, v in rollout.items() if k in {"answer", *NUMBERS}}


def _means(values: Sequence[float], places: Sequence[int], count: int) -> Floats:
    by = np.array(places)
    known = np.isfinite(values)
    sums = np.bincount(by[known], np.array(values)[known], count)
    with np.errstate(invalid="ignore"):
        return sums / np.bincount(by[known], minlength=count)


# --- over problems ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bar:
    """A contrast with its fate. `margin`: its 90% interval within this is `equal`; None where no such bar was set."""

    name: str
    found: Resampled
    margin: float | None
    holm: float

    @property
    def fate(self) -> Fate:
        if self.holm < 0.05 and (self.found.low > 0 or self.found.high < 0):
            return "above" if self.found.low > 0 else "below"
        inside = self.margin is not None and -self.margin < self.found.low90 and self.found.high90 < self.margin
        return "equal" if inside else "open"


def contrasts(found: Sequence[Problem]) -> dict[str, tuple[Floats, float | None]]:
    """What the bars a to f are about, a value a problem, in the plan's order. `c2` is not among Holm's."""
    trace, box = (np.array([auroc(p, c) for p in found]) for c in ("mean_entropy", "answer_entropy"))
    at = {(m, n): labels(found, n, m) for m, n in AT}
    rpc = {n: labels(found, n, "rpc", number=1) - labels(found, n, "vote", number=1) for n in SIZES}
    many = np.array([majority(p) for p in found])
    greedy, cooler = (np.array([getattr(p, name) for p in found]) for name in ("greedy", "cooler"))
    return {
        "a: AUROC of the trace - .57": (trace - EVEN, None),
        "b1: AUROC of the box - .5": (box - 0.5, None),
        "b2: AUROC of the box - of the trace": (box - trace, 0.03),
        "c1: dare - vote at 8": (at["dare", 8] - at["vote", 8], 0.01),
        "c2: dare - ties by entropy at 8": (at["dare", 8] - at["ties", 8], 0.01),
        "d1: rpc - vote at 8": (rpc[8], 0.01),
        "d2: rpc - vote at 16": (rpc[16], 0.01),
        "e: perplexity_consistency - vote at 16": (at["ppc", 16] - at["vote", 16], 0.01),
        "f1: greedy - maj@16": (greedy - many, 0.03),
        "f2: temperature .6 - maj@16": (cooler - many, 0.03),
    }


def bars(found: Sequence[Problem]) -> list[Bar]:
    drawn = draws([p.family for p in found])
    measured = {name: (estimate(values, drawn), margin) for name, (values, margin) in contrasts(found).items()}
    corrected = [name for name in measured if not name.startswith("c2")]
    adjusted = dict(zip(corrected, holm([measured[name][0].p for name in corrected]), strict=True))
    return [Bar(name, m, margin, adjusted.get(name, 1.0)) for name, (m, margin) in measured.items()]


DESCRIBED: Final[Mapping[str, Callable[[Problem], float]]] = {  # levels, which no bar is about
    "pass@1": lambda p: float(p.right_M.mean()),
    "maj@16": majority,
    "any of 16": lambda p: float(p.right_M.any()),
    "greedy": lambda p: p.greedy,
    "temperature .6": lambda p: p.cooler,
    "answered": lambda p: float(np.mean([r["answer"] is not None for r in p.rollouts])),
    "cut": lambda p: float(np.mean([r["cut"] for r in p.rollouts])),
    "AUROC, trace": lambda p: auroc(p, "mean_entropy"),
    "AUROC, trace, lengths alike": lambda p: auroc(p, "mean_entropy", alike=True),
    "AUROC, box": lambda p: auroc(p, "answer_entropy"),
    "AUROC, length": lambda p: auroc(p, "num_tokens"),
}


# --- g: what `calibrate` says of few labels ---------------------------------------------------------------------------


def verdicts(found: Sequence[Problem], size: int, *, count: int) -> JSON:
    """`calibrate` on `count` random sets of `size` problems: how often it says use, and what its line does elsewhere.

    The gain is in right labels of the other problems at 16, over the vote; 0 where the vote is kept.
    """
    rng, vote = np.random.default_rng(size), _right_at_16(found, METHODS["vote"])
    used, gains, lines = 0, [], dict[str, Floats]()
    for _ in range(count):
        taken = rng.permutation(len(found))[:size]
        line = calibrated([found[k] for k in taken])
        used += line is not None
        if line is None:
            gains.append(0.0)
            continue
        if line not in lines:
            lines[line] = _right_at_16(found, _settings(line)) - vote
        others = np.setdiff1d(np.arange(len(found)), taken)
        gains.append(float(np.nanmean(lines[line][others])))
    return {
        "labels": size,
        "use": used / count,
        "gain": float(np.mean(gains)),
        "gain where used": float(np.sum(gains) / used) if used else None,
        "losing": float(np.mean(np.array(gains) < -LOSS)),
    }


def calibrated(found: Sequence[Problem]) -> str | None:
    """The line of `dare-reward calibrate`; None for the vote. ValueError if nothing could be measured."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "labelled.jsonl"
        path.write_text("".join(json.dumps(_labelled(p)) + "\n" for p in found), encoding="utf-8")
        said, warned = io.StringIO(), io.StringIO()
        with redirect_stdout(said), redirect_stderr(warned):
            code = command(["calibrate", str(path)])
    if code not in {0, 1}:
        raise ValueError(warned.getvalue())
    return None if code else said.getvalue().strip().splitlines()[-1].strip()


def _labelled(problem: Problem) -> JSON:
    rollouts = [{**_sent(r), "correct": bool(r["correct"])} for r in problem.rollouts]
    return {"group_id": problem.id, "kind": "exact", "rollouts": rollouts}


def _settings(line: str) -> JSON:
    """What `estimate` is told by a line such as `method=calibrated_vote&exponent=2`."""

    def value(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    return {name: value(text) for name, text in parse_qsl(line)}


def _right_at_16(found: Sequence[Problem], how: JSON) -> Floats:
    groups = [{"group_id": p.id, "kind": "exact", "rollouts": list(map(_sent, p.rollouts))} for p in found]
    right = [{r["answer"]: r["correct"] for r in p.rollouts} for p in found]
    replies = _estimated(groups, how)
    return np.array(
        [np.nan if r.error else own.get(r.pseudo_label, 0.0) for r, own in zip(replies, right, strict=True)]
    )


# --- the table --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is shown of the results. `levels` and each family's are described; `labels` is bar g, by its sets."""

    problems: int
    rollouts: int
    levels: Mapping[str, Resampled]
    families: Mapping[str, Mapping[str, float]]
    bars: Sequence[Bar]
    labels: Sequence[JSON]


def figures(found: Sequence[Problem]) -> Figures:
    """Every figure, in some minutes, most of which `rpc` takes."""
    drawn = draws([p.family for p in found])
    each = {name: np.array([f(p) for p in found]) for name, f in DESCRIBED.items()}
    families = {}
    for family in sorted({p.family for p in found}):
        own = np.array([p.family == family for p in found])
        known = {name: values[own][np.isfinite(values[own])] for name, values in each.items()}
        means = {name: float(values.mean()) if len(values) else np.nan for name, values in known.items()}
        families[family] = {"problems": float(own.sum()), **means}
    levels = {name: estimate(values, drawn) for name, values in each.items()}
    often = labels(found, 8, "dare", number=MANY) - labels(found, 8, "vote", number=MANY)
    levels[f"dare - vote at 8, {MANY} orders"] = estimate(often, drawn)
    said = [verdicts(found, size, count=DRAWN) for size in SETS]
    return Figures(len(found), len(found[0].rollouts), levels, families, bars(found), said)


def table(found: Figures) -> str:
    """All of it as Markdown: levels, bars with their fates, what `calibrate` says, and each family."""
    lines = [f"{found.problems} problems x {found.rollouts} rollouts", "", "| | | problems |", "|---|---|---|"]
    for name, value in found.levels.items():
        unit = 1.0 if name.startswith("AUROC") else 100.0
        lines.append(f"| {name} | {_shown(value, unit, '.3f' if unit == 1 else '.1f')} | {value.questions} |")
    lines += ["", "| bar | estimate, 95% interval | problems | Holm's p | fate |", "|---|---|---|---|---|"]
    for bar in found.bars:
        area = "AUROC" in bar.name
        shown = _shown(bar.found, 1.0 if area else 100.0, "+.3f" if area else "+.1f")
        corrected = "-" if bar.name.startswith("c2") else f"{bar.holm:.4f}"
        lines.append(f"| {bar.name} | {shown} | {bar.found.questions} | {corrected} | {bar.fate} |")
    lines += [
        "",
        "| labels | use, % | gain, points | gain where used | sets that lose half a point, % |",
        "|---|---|---|---|---|",
    ]
    for row in found.labels:
        where = "-" if row["gain where used"] is None else f"{100 * row['gain where used']:+.1f}"
        use, losing = (f"{100 * row[name]:.0f}" for name in ("use", "losing"))
        lines.append(f"| {row['labels']} | {use} | {100 * row['gain']:+.1f} | {where} | {losing} |")
    lines += ["", f"| family | problems | {' | '.join(DESCRIBED)} |", "|---" * (len(DESCRIBED) + 2) + "|"]
    for family, own in found.families.items():
        cells = [f"{own[n]:.2f}" if n.startswith("AUROC") else f"{100 * own[n]:.1f}" for n in DESCRIBED]
        lines.append(f"| {family} | {own['problems']:.0f} | {' | '.join(cells)} |".replace("nan", "-"))
    return "\n".join(lines)


def _shown(value: Resampled, unit: float, form: str) -> str:
    return f"{unit * value.estimate:{form}} ({unit * value.low:{form}} to {unit * value.high:{form}})"


def _rows(path: str) -> list[JSON]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


def _packed(path: str) -> dict[str, str]:
    """The lines of a packed file by problem; none where there is no file yet."""
    if not Path(path).exists():
        return {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return {json.loads(line)["id"]: line.rstrip("\n") for line in file}


def _text(lines: Iterable[str]) -> str:
    return "".join(line + "\n" for line in lines)


def main(words: Sequence[str]) -> int:
    match words:
        case ["pack", sample, cooler, out]:
            kept = _packed(out)
            new = [row for row in _rows(sample) if row["group_id"] not in kept]
            lines = [*kept.values(), *(json.dumps(row, separators=(",", ":")) for row in packed(new, _rows(cooler)))]
            write_files({Path(out): gzip.compress(_text(lines).encode(), mtime=0)}, force=True)  # it loses nothing
        case ["rest", packed_file, questions, out]:
            done = _packed(packed_file)
            write_files({Path(out): _text(json.dumps(q) for q in _rows(questions) if q["id"] not in done).encode()})
        case ["example", packed_file, questions, out]:
            rows = map(json.loads, _packed(packed_file).values())
            write_files({Path(out): _text(map(json.dumps, example([*rows], _rows(questions)))).encode()})
        case ["table", path]:
            with gzip.open(path, "rt", encoding="utf-8") as file:
                print(table(figures(problems(file))))  # noqa: T201
        case _:
            print(__doc__, file=sys.stderr)  # noqa: T201
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
