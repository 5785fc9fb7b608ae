"""The campaign's page: the bars of each part once its runs are in, and before that only how many are.

A part is a preregistration: `research/docs/campaign.md` and the pages `campaign-e*.md`. Its contrasts stand here in its
order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ..statistics.contrasts import RESAMPLES, Contrast, holm
from ..training.arms import CAMPAIGN
from ..training.corpus import REGIMES
from ..training.parts import PARTS as PLANNED
from ..training.parts import PlannedPart
from ..training.records import parse
from .bars import BETTER, FLOOR, GAIN, LEVEL, WORSE, Bar, verdict
from .campaign_further import Further, by_family, by_half, collapsed, dose_response, fact_sets, until_half_way
from .outcomes import Study, in_order
from .words import interval, number, points, table

JSON = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Registered:
    """One contrast of the preregistration; `predicted` in points."""

    arm: str
    rival: str
    regime: str
    bars: tuple[Bar, ...]
    predicted: float | None = None
    where: str = "adapted"


@dataclass(frozen=True, slots=True)
class CampaignPart:
    """One preregistration: its runs, its contrasts, the arms of E1 that these take, and its further sections.

    remark   what a reader must know before the first figure
    """

    title: str
    plan: PlannedPart
    contrasts: tuple[Registered, ...] = ()
    others: tuple[str, ...] = ()
    further: Mapping[str, Further] = field(default_factory=dict)
    remark: str = ""

    @property
    def planned(self) -> frozenset[str]:
        return self.plan.ids()

    @property
    def needed(self) -> frozenset[str]:
        return self.plan.ids(self.others)


E1: Final = (
    Registered("calibrated_vote", "ttrl", "informative", (GAIN, FLOOR), 12),
    Registered("calibrated_vote", "ttrl", "uninformative", (LEVEL, FLOOR), 0),
    Registered("calibrated_vote", "ttrl", "confident", (GAIN, FLOOR), 13),
    Registered("calibrated_vote", "dare", "informative", (FLOOR,), 8),
    *(Registered("calibrated_vote", "gt_quarter", regime, (BETTER,), where="unseen") for regime in REGIMES),
    Registered("rent", "ttrl", "uninformative", (WORSE,), -7),
    Registered("rent", "ttrl", "confident", (WORSE,), -12),
)
FURTHER: Final = (
    *(Registered(arm, "ttrl", regime, (LEVEL,), 0) for arm in ("gmae", "empo") for regime in REGIMES),
    *(
        Registered("calibrated_vote", "ttrl_gt_quarter", regime, (bar,), predicted, "unseen")
        for regime, bar, predicted in zip(REGIMES, (BETTER, WORSE, BETTER), (6, -3, 6), strict=True)
    ),
)
FEWER: Final = (("dare_waves", "dare", LEVEL), ("dare_waves", "dare_40", BETTER), ("ttrl_masked", "ttrl", LEVEL))
LAST: Final = tuple(Registered(arm, rival, regime, (bar,), 0) for arm, rival, bar in FEWER for regime in REGIMES)
RESHAPED: Final = tuple(
    Registered(arm, "ttrl", regime, (bar,), predicted)
    for arm, bars, gains in (("ddrl", (LEVEL, LEVEL, LEVEL), (0, 0, 0)), ("ear", (BETTER, LEVEL, WORSE), (1, 0, -1)))
    for regime, bar, predicted in zip(REGIMES, bars, gains, strict=True)
)
MISCONCEPTIONS: Final = tuple(
    Registered(arm, "ttrl", regime, (bar,), predicted)
    for arm, bars, gains in (
        ("calibrated_vote", (GAIN, LEVEL, GAIN), (10, 0, 10)),
        ("dare", (BETTER, LEVEL, WORSE), (4, 0, -3)),
    )
    for regime, bar, predicted in zip(REGIMES, bars, gains, strict=True)
)
DIRECTIONS: Final = (
    Registered("calibrated_vote", "ttrl", "mixed", (FLOOR,), 0),
    Registered("calibrated_by_family", "ttrl", "mixed", (BETTER,), 7),
    Registered("calibrated_by_family", "calibrated_vote", "mixed", (BETTER,), 7),
    Registered("dare", "ttrl", "mixed", (LEVEL,), 0),
)
HALF: Final = tuple(
    Registered(arm, "ttrl", "informative", (bar,), predicted, where)
    for arm, bar, predicted, where in (
        ("calibrated_vote", BETTER, 9, "adapted"),
        ("calibrated_vote", BETTER, 9, "known"),
        ("calibrated_vote", BETTER, 3, "unseen"),
        ("gt", BETTER, 3, "unseen"),
    )
)
LOST: Final = """That commit and the one that ran are not in this repository. The commits of that day were lost before
they were published, and the page and the results were committed again in one go. So you cannot check here that the
page is older than the runs."""
LONGER: Final = tuple(
    Registered(arm, "ttrl", regime, (bar,), predicted)
    for arm, bars, gains in (
        ("calibrated_vote", (GAIN, LEVEL, GAIN), (15, 0, 15)),
        ("dare", (BETTER, LEVEL, WORSE), (6, 0, -4)),
        ("rent", (BETTER, WORSE, WORSE), (3, -8, -20)),
    )
    for regime, bar, predicted in zip(REGIMES, bars, gains, strict=True)
)
PARTS: Final = (
    CampaignPart("E1", PLANNED["e1"], E1),
    CampaignPart("E1b", PLANNED["e1b"], FURTHER, others=CAMPAIGN),
    CampaignPart(
        "E1c",
        PLANNED["e1c"],
        LAST,
        others=CAMPAIGN,
        further={"Rollouts until half way": partial(until_half_way, PLANNED["e1c"], "ttrl")},
    ),
    CampaignPart("E1d", PLANNED["e1d"], RESHAPED, others=("ttrl",)),
    CampaignPart("E1e", PLANNED["e1e"], further={"Who fell": partial(collapsed, PLANNED["e1e"])}),
    CampaignPart("E2", PLANNED["e2"], MISCONCEPTIONS, further={"Over three sets of facts": fact_sets}),
    CampaignPart("E3", PLANNED["e3"], further={"Break-even": dose_response}),
    CampaignPart("E4", PLANNED["e4"], DIRECTIONS, further={"By family": by_family}, remark=LOST),
    CampaignPart("E5", PLANNED["e5"], LONGER, further={"Who fell": partial(collapsed, PLANNED["e5"])}),
    CampaignPart("E6", PLANNED["e6"], HALF, further={"By half of the hard facts": by_half}, remark=LOST),
    CampaignPart("E7", PLANNED["e7"], further={"Who fell": partial(collapsed, PLANNED["e7"])}),
)

INTRO = """# Campaign: results

`dare-reward study report` renders this page from `results/campaign.jsonl.gz`, one base or run a line."""
FIXED = "[{page}.md]({page}.md) says what was fixed before the first of these runs{commits}."
WAITING = "**{done} of {planned} runs are in; no outcome is shown before all are{others}.**"
BARS = """pass@1 at the final step, in points. Intervals: hierarchical bootstrap (bases, in them seeds, in them prompts;
{resamples} draws), and t over base means. p: corrected by Holm over these contrasts, of each interval. A bar is *met*
if both intervals show it; *open*: the estimate is on its right side, the bootstrap does not show it; *met by identity*:
it could not fail, because the exponent is 0 in every run, which is the vote."""
BESIDE = "Not preregistered as bars and not corrected: pass@1 at the final step minus `ttrl`, in points."
TOKENS = "Mean of a run, in thousands: of all votes, without the evaluations."
FITTED = """By `calibrate`, from 32 labelled prompts of the probe split before training. `best`: before gate and veto;
the gate needs a |statistic| of 3. AUROC and vote: of the base on its adapted prompts, 64 rollouts each."""


def campaign_page(records: Sequence[JSON], *, resamples: int = RESAMPLES, shown: Sequence[CampaignPart] = PARTS) -> str:
    """The page, from raw records."""
    done = {run.id for run in parse(records).runs if run.complete}
    parts = [f"## {part.title}\n\n{_part(part, records, done, resamples)}" for part in shown]
    return "\n\n".join([INTRO, *parts]) + "\n"


def _part(part: CampaignPart, everything: Sequence[JSON], done: Collection[str], resamples: int) -> str:
    records = [r for r in everything if r["record"] != "run" or r["id"] in part.needed]
    own = sorted({r["preregistration"] for r in records if r["record"] == "run" and r["id"] in part.planned})
    fixed = FIXED.format(page=part.plan.page, commits="".join(f", in commit `{commit}`" for commit in own))
    if not part.needed.issubset(done):
        numbers = {"done": len(part.planned.intersection(done)), "planned": len(part.planned)}
        others = ", and those of E1" if part.others else ""
        return f"{fixed} {WAITING.format(**numbers, others=others)}"
    study, sections = Study(parse(records), resamples=resamples), {}
    if part.contrasts:
        sections["Bars"] = f"{BARS.format(resamples=study.resamples)}\n\n{_bars(study, part)}"
    sections |= {title: tell(study, everything) for title, tell in part.further.items()}
    sections["Every arm beside the vote"] = f"{BESIDE}\n\n{_beside(study, part.plan)}"
    sections["Tokens generated"] = f"{TOKENS}\n\n{_tokens(records, part)}"
    if fitted := [r for r in records if r["id"] in part.planned and r.get("calibration")]:
        sections["Fitted exponents"] = f"{FITTED}\n\n{_fitted(study, part.plan.stage, fitted)}"
    head = [fixed, part.remark] if part.remark else [fixed]
    return "\n\n".join([*head, *(f"### {title}\n\n{text}" for title, text in sections.items())])


def _bars(study: Study, part: CampaignPart) -> str:
    found = [study.difference(part.plan.stage, r.regime, r.arm, r.rival, where=r.where) for r in part.contrasts]
    known = [(r, c) for r, c in zip(part.contrasts, found, strict=True) if c]
    p, p_bases = holm([c.deciding_p for _, c in known]), holm([c.p_bases for _, c in known])
    rows = [
        [
            *(str(order), r.regime, f"`{r.arm}` - `{r.rival}`", r.where, _signed(r.predicted)),
            *_numbers(c),
            *(number(value, ".2g") for value in (one, two)),
            "; ".join(f"{bar.words}: **{verdict(bar, c, one, two)}**" for bar in r.bars),
        ]
        for order, ((r, c), one, two) in enumerate(zip(known, p, p_bases, strict=True), 1)
    ]
    head = (
        "",
        "regime",
        "contrast",
        "prompts",
        "predicted",
        "found",
        "bootstrap",
        "t over bases",
        "p",
        "p of t",
        "bars",
    )
    return table(head, rows)


def _beside(study: Study, plan: PlannedPart) -> str:
    rows = []
    for regime in plan.regimes:
        for arm in [a for a in plan.arms if a != "ttrl"]:
            found = [study.difference(plan.stage, regime, arm, "ttrl", where=where) for where in ("adapted", "unseen")]
            rows.append([regime, f"`{arm}`", *(cell for c in found for cell in (_numbers(c) if c else "---"))])
    head = ("regime", "arm", "adapted", "bootstrap", "t over bases", "unseen", "bootstrap", "t over bases")
    return table(head, rows)


def _tokens(records: Sequence[JSON], part: CampaignPart) -> str:
    """Of the part's arms and of those that they are compared with."""
    arms = list(dict.fromkeys((*part.plan.arms, *(contrast.rival for contrast in part.contrasts))))
    rows = []
    for regime in part.plan.regimes:
        own = [[r["tokens"] for r in records if (r.get("arm"), r.get("regime")) == (arm, regime)] for arm in arms]
        rows.append([regime, *(number(sum(found) / len(found) / 1000, ".0f") for found in own)])
    return table(("regime", *(f"`{arm}`" for arm in arms)), rows)


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+g}" if value else "0"


def _numbers(found: Contrast) -> list[str]:
    ends = (found.deciding, found.over_bases)
    return [points(found.estimate), *(interval(e.low, e.high) for e in ends)]


def _fitted(study: Study, stage: str, records: Sequence[JSON]) -> str:
    """One row a base: the calibration of its runs is the same."""
    said = {(r["regime"], r["base"]): r["calibration"] for r in records}
    rows = []
    regimes = in_order({regime for regime, _ in said}, REGIMES)
    for regime, base in sorted(said, key=lambda key: (regimes.index(key[0]), key[1])):
        own = said[regime, base]
        start = study.base(regime, base, stage=stage)
        score = start.evaluation.sets["adapted"] if start else None
        rows.append(
            [
                *(
                    regime,
                    str(base),
                    _signed(own["exponent"]),
                    _signed(own["fitted"]),
                    number(own["statistic"], "+.1f"),
                ),
                *("yes" if own.get("vetoed") else "no", str(own["mixed"])),
                *(("-", "-") if score is None else (number(score.auroc), number(100 * score.majority_P.mean(), ".1f"))),
            ]
        )
    return table(("regime", "base", "exponent", "best", "statistic", "vetoed", "mixed prompts", "AUROC", "vote"), rows)
