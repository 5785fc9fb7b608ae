"""`research/docs/campaign-results.md` from `results/campaign.jsonl.xz`: each table's rows by what the row itself names.

A section's runs are those that name its commit. A row's contrast is over the bases and seeds of these runs: where both
of its arms have a run, of whichever section, in the same stage with the same steps and learning rate.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from dare_reward.segments import Floats

from ..analysis.measures import steps_to_threshold
from ..contrasts import Contrast, Ends, contrast, fate, holm, student, within
from .pages import Figure, Page, Row, Table, interval, percent, points

JSON = Mapping[str, Any]
DRAWS = 4000
POOLED = {
    "telling": ("informative", "confident"),
    "doses": ("plain", "tells_10", "tells_20", "tells_35", "tells_50"),
    "every": ("informative", "reasoning_8"),
}
ORDER = ("informative", "uninformative", "confident")
NULLS = {"E9": 0.03, "E10": 0.01}  # margins that these plans name
CHOSEN_ON = {("informative", 0), ("tells_35", 300)}  # bases on which E10's rule of choice was found
HALVES = {"adapted: first half": "adapted", "new prompts, first half": "known", "new prompts, second half": "unseen"}
FELL = 0.05
Key = tuple[int, int]  # base, seed


class Kind(NamedTuple):
    """What runs that are compared share."""

    stage: str
    way: str  # learning rate, temperature, steps
    regime: str


# What tells the runs of plans that one commit holds apart.
PLANS: Mapping[str, Callable[[Kind, int], bool]] = {  # of what they share, and the seed
    "E2": lambda kind, _: kind.regime in ORDER and kind.way.endswith("steps32"),
    "E3": lambda kind, _: kind.regime in POOLED["doses"],
    "E4": lambda kind, _: kind.regime == "mixed",
    "E5": lambda kind, _: kind.way.endswith("steps96"),
    "E6": lambda kind, _: kind.stage == "halves",
    "E9": lambda _, seed: seed >= 20,
    "E10": lambda _, seed: seed < 20,
}


class Campaign:
    """Runs and bases by what names them."""

    def __init__(self, records: Sequence[JSON]) -> None:
        self.runs: dict[tuple[Kind, str], dict[Key, JSON]] = defaultdict(dict)
        self.bases: dict[tuple[str, int], list[JSON]] = defaultdict(list)
        for r in records:
            if r["record"] == "run" and last(r)["step"] >= r["settings"]["steps"]:
                self.runs[_kind(r), r["arm"]][int(r["base"]), int(r["seed"])] = r
            elif r["record"] == "base":
                self.bases[r["regime"], int(r["base"])].append(r)

    def base(self, regime: str, number: int, stage: str) -> JSON:
        found = self.bases[regime, number]
        return next((b for b in found if b["stage"] == stage), found[0])

    def section(self, title: str, commits: Sequence[str]) -> Section:
        mine = PLANS.get(title)
        own = [(k, arm, key) for (k, arm), runs in self.runs.items() for key, r in runs.items()
               if r["preregistration"] in commits and (mine is None or mine(k, key[1]))]  # fmt: skip
        return Section(self, own)


class Section:
    """The runs of one preregistration, and contrasts over their bases and seeds."""

    def __init__(self, campaign: Campaign, own: Sequence[tuple[Kind, str, Key]]) -> None:
        self.campaign = campaign
        self.keys: dict[Kind, set[Key]] = defaultdict(set)
        for kind, _, key in own:
            self.keys[kind].add(key)

    def kinds(self, regime: str) -> list[Kind]:
        wanted = POOLED.get(regime, (regime,))
        return [k for r in wanted for k in self.keys if k.regime == r]

    def of(self, kind: Kind, arm: str) -> dict[Key, JSON]:
        """The arm's runs with the bases and seeds of the section, in their order."""
        runs = self.campaign.runs.get((kind, arm), {})
        return {key: runs[key] for key in sorted(self.keys[kind] & runs.keys())}

    def nested(
        self, regime: str, arm: str, rival: str, where: str, *, family: str = "", but: Any = ()
    ) -> list[list[Floats]]:
        """bases > seeds > the difference on each prompt."""
        out = []
        for kind in self.kinds(regime):
            runs = {key: last(run) for key, run in self.of(kind, arm).items() if (kind.regime, key[0]) not in but}
            rivals = {key: last(run) for key, run in self.of(kind, rival).items()}
            found: dict[int, list[Floats]] = defaultdict(list)
            for key, one in runs.items():
                other = self.start(kind, key[0]) if rival == "base" else rivals.get(key, {"sets": ()})
                if where in one["sets"] and where in other["sets"]:
                    value = _pass(one, where) - _pass(other, where)
                    if family:
                        value = value[np.array(_families(one["sets"][where])) == family]
                    found[key[0]].append(value)
            out += [found[n] for n in sorted(found)]
        return out

    @cache  # noqa: B019  a section lives as long as the check
    def contrast(self, regime: str, arm: str, rival: str, where: str, *, family: str = "", but: Any = ()) -> Contrast:
        return contrast(self.nested(regime, arm, rival, where, family=family, but=but), resamples=DRAWS)

    def runs(self, regime: str, arm: str) -> list[JSON]:
        return [r for k in self.kinds(regime) for r in self.of(k, arm).values()]

    def mean(self, regime: str, arm: str) -> float:
        return float(np.mean([_pass(last(r), "adapted").mean() for r in self.runs(regime, arm)]))

    def exponents(self, regime: str, arm: str) -> list[float | None]:
        """What was fitted for each of the arm's runs; None where nothing was."""
        return [r.get("calibration", {}).get("exponent") for r in self.runs(regime, arm)]

    def start(self, kind: Kind, base: int) -> JSON:
        """The evaluation before training."""
        found: JSON = self.campaign.base(kind.regime, base, kind.stage)["evaluation"]
        return found

    def gain(self, kind: Kind, arm: str, base: int) -> float:
        """On one base, mean of the seeds, minus `ttrl`."""
        rivals = self.of(kind, "ttrl")
        own = [_pass(last(r), "adapted").mean() - _pass(last(rivals[key]), "adapted").mean()
               for key, r in self.of(kind, arm).items() if key[0] == base]  # fmt: skip
        return float(np.mean(own))


def sections_of(page: Page, records: Sequence[JSON]) -> dict[str, Section]:
    """The page's sections by title, with the runs that their commits name."""
    campaign = Campaign(records)
    commits = {title: re.findall(r"`([0-9a-f]{40})`", text.split("###")[0]) for title, text in _texts(page).items()}
    return {title: campaign.section(title, own) for title, own in commits.items()}


def _texts(page: Page) -> dict[str, str]:
    return dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", page.text, re.DOTALL | re.MULTILINE))


def check(page: Page, sections: Mapping[str, Section]) -> Iterator[Figure]:
    """Every table of the page but those that need the facts of a prompt."""
    texts = _texts(page)
    for table in page.tables():
        title, _, name = table.place.partition(" / ")
        section, text = sections[title], texts[title]
        if name == "Bars" and table.head[1] == "regime":
            yield from _bars(page, table, section, title, text)
        elif name.startswith("Without the bases"):
            yield from _bars(page, table, section, title, text, but=CHOSEN_ON)
        elif name == "Over three sets of facts":
            yield from page.check(table, lambda said, own=section: _by_set((own, sections["E1"]), said))  # type: ignore[misc]
        elif name == "Break-even":
            yield from _break_even(page, table, section, sections)
        elif row := _row(name, section, table, text):
            yield from page.check(table, row)


def _row(name: str, section: Section, table: Table, text: str) -> Row | None:
    rows: dict[str, Row] = {
        "Every arm beside the vote": lambda said: _beside(section, said, text),
        "Tokens generated": lambda said: _tokens(section, said),
        "Fitted exponents": lambda said: _fitted(section, said),
        "Who fell": lambda said: _fell(section, said),
        "Rollouts until half way": lambda said: _half_way(section, said, table.head[3].split("`")[1]),
        "Every fit": lambda said: _fits(section, said),
        "By half of the hard facts": lambda said: _by_half(section, said),
        "By family": lambda said: _by_family(section, said) if "family" in said else _exponents(section, said),
    }
    return rows.get(name)


def _beside(section: Section, said: dict[str, str], text: str) -> dict[str, str]:
    (rival,) = re.findall(r"final step minus `(\w+)`, in points\.\n\n\| regime", text)
    out: dict[str, str] = {}
    for where, second in (("adapted", ""), ("unseen", " 2")):
        out |= _cells(section.contrast(said["regime"], _arm(said["arm"]), rival, where), where, second)
    return out


def _cells(found: Contrast, name: str = "gain", second: str = "") -> dict[str, str]:
    """A contrast in three columns: the estimate, of this name, and both intervals, numbered by `second`."""
    ends = {f"bootstrap{second}": found.deciding, f"t over bases{second}": found.over_bases}
    return {name: points(found.estimate), **{column: _ends(e) for column, e in ends.items()}}


def _ends(ends: Ends) -> str:
    return interval((ends.low, ends.high)) if np.isfinite(ends.low) else "-"


def _tokens(section: Section, said: dict[str, str]) -> dict[str, str]:
    out = {}
    for name in list(said)[1:]:
        found = [r["tokens"] for r in section.runs(said["regime"], _arm(name))]
        out[name] = f"{np.mean(found) / 1000:.0f}" if found else "-"
    return out


def _fitted(section: Section, said: dict[str, str]) -> dict[str, str]:
    (kind,) = section.kinds(said["regime"])
    number = int(said["base"])
    runs = [r for (k, _), rs in section.campaign.runs.items() if k == kind for key, r in rs.items()
            if key in section.keys[kind] and key[0] == number and r.get("calibration")]  # fmt: skip
    own = runs[-1]["calibration"]
    start = section.start(kind, number)["sets"]["adapted"]
    return {
        "exponent": _signed(own["exponent"]),
        "best": _signed(own["fitted"]),
        "statistic": f"{own['statistic']:+.1f}",
        "vetoed": "yes" if own.get("vetoed") else "no",
        "mixed prompts": str(own["mixed"]),
        "AUROC": f"{start['auroc']:.3f}",
        "vote": f"{100 * np.mean(start['majority']):.1f}",
    }


def _fits(section: Section, said: dict[str, str]) -> dict[str, str]:
    (kind,) = section.kinds(said["regime"])
    out: dict[str, str] = {}
    for name in list(said)[2:]:
        own = [r["calibration"] for key, r in section.of(kind, _arm(name)).items() if key[0] == int(said["base"])]
        out[name] = "; ".join(f"{_signed(c['exponent'])} ({c['statistic']:+.1f}, {c['q']:.2f})" for c in own) or "-"
    return out


def _curve(section: Section, kind: Kind, base: int, run: JSON) -> list[tuple[int, float]]:
    """(step, pass@1 on the adapted prompts), from the base on."""
    found = sorted((e for e in run["evaluations"] if "adapted" in e["sets"]), key=lambda e: e["step"])
    if found[0]["step"] > 0:
        found = [section.start(kind, base), *found]
    return [(e["step"], float(_pass(e, "adapted").mean())) for e in found]


def _fell(section: Section, said: dict[str, str]) -> dict[str, str]:
    (kind,) = section.kinds(said["regime"])
    runs = section.of(kind, _arm(said["arm"]))
    curves = [_curve(section, kind, base, run) for (base, _), run in runs.items()]
    levels = np.array([[level for _, level in curve] for curve in curves])
    fell = int((levels[:, -1] <= levels[:, 1:-1].max(axis=1) - FELL).sum())
    below = int((levels[:, -1] < levels[:, 0]).sum())
    entropy = np.mean([last(r)["sets"]["adapted"]["entropy"] for r in runs.values()])
    return {
        **{str(step): percent(level) for (step, _), level in zip(curves[0], levels.mean(axis=0), strict=True)},
        "fell": f"{fell} of {len(curves)}",
        "below": f"{below} of {len(curves)}",
        "entropy": f"{entropy:.3f}",
    }


def until_half_way(section: Section, kind: Kind, arm: str, rival: str) -> dict[Key, tuple[int, bool]]:
    """Rollouts until an evaluation is half way from the base to the end of the rival's run, and if one is."""
    out = {}
    ends = section.of(kind, rival)
    for key, run in section.of(kind, arm).items():
        if key not in ends:
            continue
        curve = _curve(section, kind, key[0], run)
        start = float(_pass(section.start(kind, key[0]), "adapted").mean())
        target = (start + float(_pass(last(ends[key]), "adapted").mean())) / 2
        (step,) = steps_to_threshold(curve, [target])
        settings = run["settings"]
        asked = re.search(r"_(8|32|40)$", arm)
        votes = int(asked[1]) if asked else settings["votes"]
        saved = np.array(run["steps"].get("votes_saved", np.zeros(settings["steps"])), float)
        out[key] = (round((settings["prompts"] * (votes - saved))[:step].sum()), step is not None)
    return out


def _half_way(section: Section, said: dict[str, str], rival: str) -> dict[str, str]:
    (kind,) = section.kinds(said["regime"])
    own, usual = (until_half_way(section, kind, arm, rival).values() for arm in (_arm(said["arm"]), rival))
    mean, of = (float(np.mean([n for n, _ in found])) for found in (own, usual))
    reached = f"{sum(done for _, done in own)} of {len(own)}"
    return {"rollouts": f"{mean:,.0f}", f"of those of `{rival}`": f"{mean / of:.3f}", "got there": reached}


def _by_half(section: Section, said: dict[str, str]) -> dict[str, str]:
    where = HALVES[said["prompts"]]
    (kind,) = section.kinds("informative")
    bases = sorted({b for b, _ in section.keys[kind]})
    base = percent(float(np.mean([_pass(section.start(kind, b), where).mean() for b in bases])))
    return {"base": base, **_cells(section.contrast("informative", _arm(said["arm"]), "base", where))}


def _by_family(section: Section, said: dict[str, str]) -> dict[str, str]:
    arm, rival = re.findall(r"`(\w+)`", said["contrast"])
    return _cells(section.contrast("mixed", arm, rival, "adapted", family=said["family"]))


def _exponents(section: Section, said: dict[str, str]) -> dict[str, str]:
    (kind,) = section.kinds("mixed")
    runs = section.of(kind, "calibrated_by_family")
    own = next(r["calibration_by_family"] for key, r in runs.items() if key[0] == int(said["base"]))
    return {f: f"{own[f]['exponent']:+g} ({own[f]['statistic']:+.1f})" for f in ("shift", "sub")}


def _by_set(sections: Sequence[Section], said: dict[str, str]) -> dict[str, str]:
    """Gains by the set of hard facts that a base learned: E1's bases have the first, 200 to 299 the second, etc."""
    arm, _ = re.findall(r"`(\w+)`", said["contrast"])
    by_set: dict[int, list[float]] = defaultdict(list)
    for section in sections:
        for kind in section.kinds(said["regime"]):
            for base in sorted({b for b, _ in section.of(kind, arm)}):
                by_set[max(0, base // 100 - 1)].append(section.gain(kind, arm, base))
    means = np.array([np.mean(by_set[n]) for n in sorted(by_set)])
    ends, _ = student(means)
    names = ("first set", "second", "third")
    survives = "yes" if ends.low > 0 or ends.high < 0 else "no"
    return {**dict(zip(names, map(points, means), strict=True)), "t over sets": _ends(ends), "survives": survives}


def dose_points(section: Section, regimes: Sequence[str]) -> dict[tuple[str, int], tuple[float, float, float]]:
    """By regime and base: the AUROC before training, and the gains of `dare` and of `calibrated_vote`."""
    return {
        (kind.regime, base): (
            section.start(kind, base)["sets"]["adapted"]["auroc"],
            *(section.gain(kind, arm, base) for arm in ("dare", "calibrated_vote")),
        )
        for regime in regimes
        for kind in section.kinds(regime)
        for base in sorted({b for b, _ in section.of(kind, "ttrl")})
    }


def line(points_BX: Floats) -> tuple[float, ...]:
    """Slope and level of the least-squares line, where it crosses 0, that point's 95% ends, draws that do not rise."""
    drawn = points_BX[np.random.default_rng(0).integers(len(points_BX), size=(DRAWS, len(points_BX)))]
    slopes, levels = _lines(drawn)
    rising = slopes > 1e-12
    low, high = np.quantile(-levels[rising] / slopes[rising], [0.025, 0.975])
    (slope,), (level,) = _lines(points_BX[None])
    return slope, level, -level / slope, float(low), float(high), float(1 - rising.mean())


def _lines(points_DBX: Floats) -> tuple[Floats, Floats]:
    x, y = points_DBX[..., 0], points_DBX[..., 1]
    away = x - x.mean(axis=1)[:, None]
    spread = (away**2).sum(axis=1)
    slopes = np.divide((away * y).sum(axis=1), spread, out=np.zeros_like(spread), where=spread > 1e-12)
    return slopes, y.mean(axis=1) - slopes * x.mean(axis=1)


def break_even(section: Section, others: Sequence[Section]) -> dict[str, tuple[float, ...]]:
    """The line of E3's ten bases, and with those of E1 and E2."""
    own = dose_points(section, POOLED["doses"])
    beside = {k: v for other in others for k, v in dose_points(other, ORDER).items()}
    every = own | {(r, b): beside[r, b] for r in ORDER for b in sorted(b for q, b in beside if q == r)}
    return {
        "the ten bases": line(np.array([v[:2] for v in own.values()])),
        "with those of E1 and E2": line(np.array([v[:2] for v in every.values()])),
    }


def _break_even(page: Page, table: Table, section: Section, sections: Mapping[str, Section]) -> Iterator[Figure]:
    if "base" in table.head:
        own = dose_points(section, POOLED["doses"])

        def point(said: dict[str, str]) -> dict[str, str]:
            auroc, dare, calibrated = own[said["regime"], int(said["base"])]
            return {"AUROC": f"{auroc:.3f}", table.head[3]: points(dare), table.head[4]: points(calibrated)}

        yield from page.check(table, point)
        return
    found = break_even(section, [sections["E1"], sections["E2"]])

    def told(said: dict[str, str]) -> dict[str, str]:
        slope, level, zero, low, high, flat = found[said[""]]
        cells = (
            f"{100 * slope:+.1f} x AUROC {100 * level:+.1f}",
            f"{zero:.3f}",
            f"[{low:.3f}, {high:.3f}]",
            f"{100 * flat:.1f}%",
        )
        return dict(zip(table.head[1:5], cells, strict=True))

    yield from page.check(table, told)
    whole = section.contrast("doses", "calibrated_vote", "ttrl", "adapted")
    ends = (whole.deciding.low, whole.deciding.high, whole.over_bases.low, whole.over_bases.high)
    named = {"gain": points(whole.estimate), **dict(zip("abcd", map(points, ends), strict=True))}
    words = "over the ten bases: {gain}, bootstrap [{a}, {b}], t over bases [{c}, {d}]."
    yield from page.says(words, named.__getitem__)


# --- bars -----------------------------------------------------------------------------------------------------------


class Bar(NamedTuple):
    """A row of a table of bars: its contrast, and whether every run of both arms is the vote."""

    found: Contrast
    cells: dict[str, str]
    same: bool | None = None


def _bars(page: Page, table: Table, section: Section, title: str, text: str, *, but: Any = ()) -> Iterator[Figure]:
    rows = {cells[0].text: dict(zip(table.head, (c.text for c in cells), strict=True)) for cells in table.rows}
    found = {at: _bar(section, said, but) for at, said in rows.items()}
    named = re.search(r"corrected by Holm over ([\d, ]+), of each interval", text)
    family = [] if but else named[1].split(", ") if named else list(rows)
    ps = dict(zip(family, holm([found[at].found.deciding_p for at in family]), strict=True))
    p_bases = dict(zip(family, holm([found[at].found.p_bases for at in family]), strict=True))

    def row(said: dict[str, str]) -> dict[str, str]:
        at = said[""]
        bar = found[at]
        fates = [f"{words}: **{_fate(words, bar, ps.get(at, 1.0), p_bases.get(at, 1.0))}**" for words in
                 re.findall(r"(?:^|; )([^:*]+): \*\*", said["bars"])]  # fmt: skip
        intervals = (bar.found.deciding, bar.found.over_bases)
        null = at and not but and bar.found.prompts > 1 and within(NULLS.get(title, 0.0), intervals)
        shown = {"p": ps.get(at), "p of t": p_bases.get(at)}
        words = {name: "-" if value is None else f"{value:.2g}" for name, value in shown.items()}
        return {**bar.cells, **words, "bars": "; ".join(fates) + (", a null" if null else "")}

    yield from page.check(table, row)


def _bar(section: Section, said: dict[str, str], but: Any) -> Bar:
    arms = re.findall(r"`(\w+)`", said["contrast"])
    regime = said["regime"]
    if said["contrast"].startswith("bases on which"):
        left = [r["calibration"]["exponent"] != 0 for k in section.kinds(regime) for (b, s), r in
                section.of(k, arms[0]).items() if s == 10 and (k.regime, b) not in but]  # fmt: skip
        counted = contrast([[np.array([float(len(left) * leaves)])] for leaves in left], resamples=1)
        return Bar(counted, {"found": f"{sum(left)} of {len(left)}", "bootstrap": "-", "t over bases": "-"})
    if " / " in said["contrast"]:
        return _generated(section, regime, *arms)
    arm, rival = arms[0], max(arms[1:], key=lambda a: section.mean(regime, a)) if len(arms) == 3 else arms[1]
    measured = section.contrast(regime, arm, rival, said["prompts"], but=frozenset(but))
    own, other = (section.exponents(regime, a) for a in (arm, rival))
    same = None if None in own else all(e == 0 for e in (own if rival == "ttrl" else own + other))
    return Bar(measured, _cells(measured, "found"), same)


def _generated(section: Section, regime: str, arm: str, rival: str, than: float = 0.75) -> Bar:
    """Rollouts until half way as a share of the rival's, against `than`."""
    counts = [
        (until_half_way(section, k, arm, rival), until_half_way(section, k, rival, rival))
        for k in section.kinds(regime)
    ]
    usual = float(np.mean([n for _, of in counts for n, _ in of.values()]))
    nested = [
        [np.array([(own[key][0] - than * of[key][0]) / usual]) for key in own if key[0] == base]
        for own, of in counts
        for base in sorted({b for b, _ in own})
    ]
    found = contrast(nested, resamples=DRAWS)
    wide, narrow = (f"[{than + e.low:.2f}, {than + e.high:.2f}]" for e in (found.deciding, found.over_bases))
    return Bar(found, {"found": f"{than + found.estimate:.2f}", "bootstrap": wide, "t over bases": narrow})


def _fate(words: str, bar: Bar, p: float, p_bases: float) -> str:
    """Met if both intervals show it, open if the estimate is on its side, met by identity if it could not fail."""
    found, ends = bar.found, bar.found.deciding
    zero = found.estimate == ends.low == ends.high == 0 if bar.same is None else bar.same
    if zero and words.startswith(("within", "not worse")):
        return "met by identity"
    number = float(re.sub(r"[^\d.]", "", words) or 0)
    if words.startswith("at least"):
        if found.estimate < (number / 100 if "+" in words else number):
            return "missed"
        if not words.endswith("better"):
            return "met"
    inside, tested = words.startswith("within"), words.endswith(("better", "worse"))
    falls = words.startswith(("worse", "below"))  # what lies below 0 is the opposite difference above it
    than = number / 100 if inside else -number / 100 if words.startswith("not worse") else 0.0

    def by(ends: Ends, p: float) -> str:
        own, estimate = (-ends, -found.estimate) if falls else (ends, found.estimate)
        return fate("within" if inside else "above", than, estimate, [own], p if tested else 0.0)

    decided = by(ends, p)
    return decided if decided != "met" or by(found.over_bases, p_bases) == "met" else "met by the bootstrap alone"


# --- records --------------------------------------------------------------------------------------------------------


def _kind(run: JSON) -> Kind:
    return Kind(run["stage"], run["id"].split("/")[5], run["regime"])


def last(run: JSON) -> JSON:
    last: JSON = max(run["evaluations"], key=lambda e: e["step"])
    return last


def _pass(evaluation: JSON, where: str) -> Floats:
    own = evaluation["sets"][where]
    return np.array(own["right"], np.float64) / int(own["n"])


def _families(score: JSON) -> list[str]:
    return [name for f in score["family"] for name in ([f] if isinstance(f, str) else [f[0]] * f[1])]


def _arm(cell: str) -> str:
    return cell.strip("`")


def _signed(value: float) -> str:
    return f"{value:+g}" if value else "0"
