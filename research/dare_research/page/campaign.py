"""The campaign's page: the bars of each part once its runs are in, and before that only how many are.

A part is a preregistration: `research/docs/campaign.md` and the pages `campaign-e*.md`. Its contrasts stand here in its
order.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from ..statistics.contrasts import RESAMPLES
from ..training.arms import ALL_ARMS, CAMPAIGN
from ..training.corpus import REGIMES
from ..training.parts import PARTS as PLANNED
from ..training.parts import PlannedPart
from ..training.plan import WIDE
from ..training.records import parse
from .bars import BELOW, BETTER, FLOOR, GAIN, LEVEL, WORSE, count, floor, gain, within
from .campaign_further import (
    HALF_WAY,
    Further,
    bars_without,
    by_family,
    by_half,
    by_labels,
    collapsed,
    dose_response,
    fact_sets,
    fits,
    regimes,
    until_half_way,
)
from .outcomes import Study, in_order, mean_of
from .registered import (
    EVERY,
    Consequence,
    Fate,
    LeavesVote,
    Registered,
    RolloutsGenerated,
    bar_table,
    consequence_table,
    judged,
)
from .words import estimate_cells, number, signed, table

JSON = Mapping[str, Any]
NO_FATES: Final[Mapping[int, Fate]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CampaignPart:
    """One preregistration: its runs, its contrasts, the arms of E1 that these take, and its further sections.

    plans         sets of runs: what is shown is of those that are all in
    contrasts     of bars `first`, `first` + 1, ...; those before are decided elsewhere
    corrected     the bars of Holm's correction; None: all
    margin        of a null; 0: the page plans none
    consequences  what the page says of missed bars
    vote          the arm that every other stands beside
    remark        what a reader must know before the first figure
    """

    title: str
    plans: tuple[PlannedPart, ...]
    contrasts: tuple[Registered, ...] = ()
    first: int = 1
    others: tuple[str, ...] = ()
    corrected: tuple[int, ...] | None = None
    margin: float = 0.0
    consequences: tuple[Consequence, ...] = ()
    further: Mapping[str, Further] = field(default_factory=dict)
    vote: str = "ttrl"
    remark: str = ""

    @property
    def page(self) -> str:
        return self.plans[0].page

    @property
    def rows(self) -> dict[int, Registered]:
        return dict(enumerate(self.contrasts, self.first))

    @property
    def planned(self) -> frozenset[str]:
        return frozenset().union(*(plan.ids() for plan in self.plans))

    @property
    def needed(self) -> frozenset[str]:
        return frozenset().union(*(plan.ids(self.others) for plan in self.plans))


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
TRAINED: Final = (
    Registered("dare_answer_8", "dare_8", EVERY, (within(2),), 0),
    Registered("ppc_8", "ttrl_8", EVERY, (BETTER,), 2),
    Registered("rpc_8", "ttrl_8", EVERY, (BETTER,), 2),
    Registered("", "ttrl_32", EVERY, (floor(2),), 0, by=((4, "ppc_8"), (1, "dare_answer_8"))),
    RolloutsGenerated("ppc_8", "ttrl_32", EVERY, (BELOW,), 0.4, "rollouts"),
)
TRAINED_WORDS: Final = """Bars 1 to 6 are about labels: [real-model.md](real-model.md). In 10 the arm is `ppc_8` if bar
4 is met, else `dare_answer_8` if bar 1 is. 11 is a share. Its interval is that of the difference from .75 of the
rollouts of `ttrl_32`, divided by their mean. A null: both 90% intervals lie within 3 points."""
LABELS: Final = (
    Registered("calibrated_chosen", "calibrated_32", "telling", (FLOOR,), 1),
    LeavesVote("calibrated_chosen", "", "doses", (count(6),), 8, "-", seed=10),
    *(
        Registered(arm, "calibrated_32", "telling", (gain(2),), predicted, better="labels_half")
        for arm, predicted in (("both_random", 3), ("both_contested", 6))
    ),
    Registered("calibrated_chosen", "ttrl", "uninformative", (LEVEL,), 0),
    Registered("calibrated_32", "labels_half", WIDE, (gain(5),), 12),
)
LABELS_WORDS: Final = """*Telling*: `informative` and `confident`. The intervals take their 8 bases as independent,
though these stand on 4 trunks. In 3 and 4 the rival is the one of `calibrated_32` and `labels_half` with the higher
mean. A null: both 90% intervals lie within 1 point. The results on E1's bases were shown before the
other runs had ended."""
FALLS: Final = {"Who fell": collapsed}
PARTS: Final = (
    CampaignPart("E1", (PLANNED["e1"],), E1),
    CampaignPart("E1b", (PLANNED["e1b"],), FURTHER, others=CAMPAIGN),
    CampaignPart(
        "E1c",
        (PLANNED["e1c"],),
        LAST,
        others=CAMPAIGN,
        further={"Rollouts until half way": partial(until_half_way, "ttrl", f"Not preregistered here. {HALF_WAY}")},
    ),
    CampaignPart("E1d", (PLANNED["e1d"],), RESHAPED, others=("ttrl",)),
    CampaignPart("E1e", (PLANNED["e1e"],), further=FALLS),
    CampaignPart("E2", (PLANNED["e2"],), MISCONCEPTIONS, further={"Over three sets of facts": fact_sets}),
    CampaignPart("E3", (PLANNED["e3"],), further={"Break-even": dose_response}),
    CampaignPart("E4", (PLANNED["e4"],), DIRECTIONS, further={"By family": by_family}, remark=LOST),
    CampaignPart("E5", (PLANNED["e5"],), LONGER, further=FALLS),
    CampaignPart("E6", (PLANNED["e6"],), HALF, further={"By half of the hard facts": by_half}, remark=LOST),
    CampaignPart("E7", (PLANNED["e7"],), further=FALLS),
    CampaignPart(
        "E9",
        (PLANNED["e9"], PLANNED["e9_reasoning"]),
        TRAINED,
        first=7,
        corrected=(8, 9),
        margin=0.03,
        consequences=(Consequence((1, 4), "no documentation recommends either certainty", null=True),),
        further={"Rollouts until half way": partial(until_half_way, "ttrl_32", HALF_WAY), **FALLS},
        vote="ttrl_8",
        remark=TRAINED_WORDS,
    ),
    CampaignPart(
        "E10",
        (PLANNED["e10"], PLANNED["e10_doses"], PLANNED["e10_wide"]),
        LABELS,
        corrected=(3, 4, 6),
        margin=0.01,
        consequences=(
            Consequence((1,), "the documentation keeps asking for 32 random labels"),
            Consequence((2,), "choosing labels is described, not recommended"),
            Consequence((3, 4), '"both" is not recommended', null=True),
            Consequence((6,), "nothing is said of large sets"),
        ),
        further={
            "Without the bases on which the rule of choice was found": partial(
                bars_without, dict(enumerate(LABELS[:2], 1)), {("informative", 0), ("tells_35", 300)}
            ),
            "By the facts of labelled prompts": by_labels,
            "Every fit": fits,
        },
        remark=LABELS_WORDS,
    ),
)

INTRO = """# Campaign: results

`dare-reward study report` renders this page from `results/campaign.jsonl.gz`, one base or run a line."""
FIXED = "[{page}.md]({page}.md) says what was fixed before the first of these runs{commits}."
WAITING = "**{done} of {planned} runs are in; no outcome is shown before all are{others}.**"
PARTLY = "**This is not the whole plan: what follows is over {shown} of {bases} bases.**"
BARS = """pass@1 at the final step, in points. Intervals: hierarchical bootstrap (bases, in them seeds, in them prompts;
{resamples} draws), and t over base means. p: corrected by Holm over {family}, of each interval. A bar is *met*
if both intervals show it; *open*: the estimate is on its right side, the bootstrap does not show it; *met by identity*:
it could not fail, because the exponent is 0 in every run, which is the vote."""
BESIDE = "Not preregistered as bars and not corrected: pass@1 at the final step minus `{vote}`, in points."
TOKENS = "Mean of a run, in thousands: of all votes, without the evaluations."
FITTED = """By `calibrate`, from 32 labelled prompts of the probe split before training. `best`: before gate and veto;
the gate needs a |statistic| of 3. AUROC and vote: of the base on its adapted prompts, 64 rollouts each."""


def campaign_page(
    records: Sequence[JSON],
    *,
    labels: Mapping[int, Fate] = NO_FATES,
    resamples: int = RESAMPLES,
    shown: Sequence[CampaignPart] = PARTS,
) -> str:
    """The page, from raw records; `labels` are the fates of E9's bars about labels."""
    done = {run.id for run in parse(records).runs if run.complete}
    parts = [f"## {part.title}\n\n{_part(part, records, done, labels, resamples)}" for part in shown]
    return "\n\n".join([INTRO, *parts]) + "\n"


def label_fates(summary: JSON) -> dict[int, Fate]:
    """The fates of E9's bars about labels, from the summary of the real model."""
    return {b["bar"]: Fate(b["fate"], b["null"]) for b in summary["bars"] if b["plan"] == "E9"}


def _part(
    part: CampaignPart,
    everything: Sequence[JSON],
    done: Collection[str],
    labels: Mapping[int, Fate],
    resamples: int,
) -> str:
    own = sorted({r["preregistration"] for r in everything if r["record"] == "run" and r["id"] in part.planned})
    fixed = FIXED.format(page=part.page, commits="".join(f", in commit `{commit}`" for commit in own))
    plans = [plan for plan in part.plans if plan.ids(part.others).issubset(done)]
    if waiting := _waiting(part, plans, done):
        fixed = f"{fixed} {waiting}"
    if not plans:
        return fixed
    shown: frozenset[str] = frozenset().union(*(plan.ids(part.others) for plan in plans))
    records = [r for r in everything if r["record"] != "run" or r["id"] in shown]
    study, sections = Study(parse(records), resamples=resamples), {}
    if part.contrasts:
        sections["Bars"] = _bars(study, part, plans, labels)
    sections |= {title: tell(plans, study, everything) for title, tell in part.further.items()}
    sections["Every arm beside the vote"] = f"{BESIDE.format(vote=part.vote)}\n\n{_beside(study, plans, part.vote)}"
    sections["Tokens generated"] = f"{TOKENS}\n\n{_tokens(records, part, plans)}"
    fitted = [r for r in records if r["id"] in part.planned and r.get("calibration")]
    if once := [r for r in fitted if not ALL_ARMS[r["arm"]].choice]:
        sections["Fitted exponents"] = f"{FITTED}\n\n{_fitted(study, plans[0].stage, once)}"
    head = [fixed, part.remark] if part.remark else [fixed]
    return "\n\n".join([*head, *(f"### {title}\n\n{text}" for title, text in sections.items())])


def _waiting(part: CampaignPart, plans: Sequence[PlannedPart], done: Collection[str]) -> str:
    """How many runs of the other sets are in; if some are shown, that they are not the whole plan."""
    said = []
    for plan in (plan for plan in part.plans if plan not in plans):
        name = f"{', '.join(plan.regimes)}: " if len(part.plans) > 1 else ""
        others = ", and those of E1" if part.others else ""
        said.append(name + WAITING.format(done=len(plan.ids() & {*done}), planned=len(plan.ids()), others=others))
    if plans and said:
        bases, shown = (sum(len(p.regimes) * len(p.bases) for p in those) for those in (part.plans, plans))
        said.append(PARTLY.format(shown=shown, bases=bases))
    return " ".join(said)


def _bars(study: Study, part: CampaignPart, plans: Sequence[PlannedPart], labels: Mapping[int, Fate]) -> str:
    labels = {at: fate for at, fate in labels.items() if at < part.first}
    found = judged(study, part.rows, plans, corrected=part.corrected, margin=part.margin, elsewhere=labels)
    family = "these contrasts" if part.corrected is None else ", ".join(map(str, part.corrected))
    if part.corrected and not found.keys() >= {*part.corrected}:
        family += " (p = 1 where runs are not in)"
    parts = [BARS.format(resamples=study.resamples, family=family), bar_table(found)]
    if part.consequences:
        parts.append(consequence_table(part.consequences, labels | {at: own.fates[0] for at, own in found.items()}))
    return "\n\n".join(parts)


def _beside(study: Study, plans: Sequence[PlannedPart], vote: str) -> str:
    rows = []
    for plan, regime in regimes(plans):
        for arm in [a for a in plan.arms if a != vote]:
            found = [study.difference(plan.stage, regime, arm, vote, where=where) for where in ("adapted", "unseen")]
            rows.append([regime, f"`{arm}`", *(cell for c in found for cell in estimate_cells(c))])
    head = ("regime", "arm", "adapted", "bootstrap", "t over bases", "unseen", "bootstrap", "t over bases")
    return table(head, rows)


def _tokens(records: Sequence[JSON], part: CampaignPart, plans: Sequence[PlannedPart]) -> str:
    """Of the part's arms and of those that they are compared with."""
    rivals = (row.rival for row in part.contrasts if row.rival)
    arms = list(dict.fromkeys((*(arm for plan in plans for arm in plan.arms), *rivals)))
    rows = []
    for _, regime in regimes(plans):
        own = [[r["tokens"] for r in records if (r.get("arm"), r.get("regime")) == (arm, regime)] for arm in arms]
        rows.append([regime, *(number(mean_of(found) / 1000, ".0f") for found in own)])
    return table(("regime", *(f"`{arm}`" for arm in arms)), rows)


def _fitted(study: Study, stage: str, records: Sequence[JSON]) -> str:
    """One row a base: the calibration of its runs is the same."""
    said = {(r["regime"], r["base"]): r["calibration"] for r in records}
    rows = []
    order = in_order({regime for regime, _ in said}, REGIMES)
    for regime, base in sorted(said, key=lambda key: (order.index(key[0]), key[1])):
        own = said[regime, base]
        start = study.base(regime, base, stage=stage)
        score = start.evaluation.sets["adapted"] if start else None
        rows.append(
            [
                *(
                    regime,
                    str(base),
                    signed(own["exponent"]),
                    signed(own["fitted"]),
                    number(own["statistic"], "+.1f"),
                ),
                *("yes" if own.get("vetoed") else "no", str(own["mixed"])),
                *(("-", "-") if score is None else (number(score.auroc), number(100 * score.majority_P.mean(), ".1f"))),
            ]
        )
    return table(("regime", "base", "exponent", "best", "statistic", "vetoed", "mixed prompts", "AUROC", "vote"), rows)
