"""The pages of E9 (b) and E10, written before anyone read a run: each bar met, missed and open in worlds made for it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from dare_research.page.campaign import PARTS, CampaignPart, campaign_page, label_fates
from dare_research.page.registered import Consequence, Fate
from dare_research.statistics.contrasts import Contrast, Ends
from dare_research.training.arms import ALL_ARMS
from dare_research.training.facts import beside_labels
from dare_research.training.plan import WIDE

RESEARCH = Path(__file__).parents[1]
E9, E10 = PARTS[-2:]
OURS, REASONED = E9.plans
USUAL, DOSES, LARGE = E10.plans
PROMPTS = {USUAL.stage: 128, WIDE: 512}
TELLING = ("informative", "confident")
# Gains over the vote in points where entropy tells, and on the large bases.
MET = {"calibrated_32": 10, "calibrated_chosen": 10, "labels_half": 4, "both_random": 13, "both_contested": 16}


def gains(**others):
    """As in `MET` where entropy tells and on the large bases, none elsewhere; `others` win, as numbers or functions."""

    def gain(regime, base, seed, arm):
        own = {**MET, **others}.get(arm, 0)
        return own(regime, base, seed) if callable(own) else own if regime in {*TELLING, WIDE} else 0

    return gain


def tells(regime, _base, _seed):
    return 0.0 if regime in {"uninformative", "plain", "tells_10"} else 2.0


def run(part, name, gain, exponent, *, between=lambda *_: 40):
    stage, regime, base, arm, seed, settings = name.split("/")
    where, declared, steps = (regime, int(base), int(seed)), ALL_ARMS[arm], int(settings.rpartition("steps")[2])
    prompts = PROMPTS.get(stage, 12) if part is E10 else 12
    labels = [
        int(i) for i in np.random.default_rng([int(seed), arm == "both_contested"]).permutation(prompts)[: prompts // 4]
    ]
    right = [gain(*where, arm)] * prompts if np.isscalar(gain(*where, arm)) else gain(*where, arm)
    sets = {w: {"n": 1000, "right": [400 + 10 * g for g in right]} for w in ("adapted", "unseen")}
    early = [{"step": s, "sets": {"adapted": {"n": 100, "right": [between(arm, int(base), s)] * prompts}}} for s in (8, 16, 24)]  # fmt: skip
    fit = {"exponent": exponent(*where), "fitted": 2.0, "statistic": 4.0, "mixed": 30, "q": 0.5}
    return {
        "record": "run", "id": name, "stage": stage, "regime": regime, "base": int(base), "arm": arm, "seed": int(seed), "lr": 3e-4,
        "settings": {"steps": steps, "prompts": 8, "votes": 64}, "tokens": 400_000, "evaluations": [*early, {"step": steps, "sets": sets}],
        "preregistration": "c0ffee", **({"calibration": fit} if declared.fits else {}),
        **({"labelled": labels if declared.half else []} if declared.choice else {}),
    }  # fmt: skip


def base(stage, regime, number):
    return {
        "record": "base", "id": f"{stage}/{regime}/{number}", "stage": stage, "regime": regime, "base": number, "parameters": 1,
        "evaluation": {"step": 0, "sets": {"adapted": {"n": 100, "right": [40] * 12}}},
    }  # fmt: skip


def records(part, gain, exponent=tells, **more):
    bases = [base(plan.stage, r, b) for plan in part.plans for r in plan.regimes for b in plan.bases]
    return [*bases, *(run(part, name, gain, exponent, **more) for name in sorted(part.planned))]


def page(part, lines, **more):
    return campaign_page(lines, resamples=200, shown=[part], **more)


def rows(text, title):
    found = text.split(f"### {title}\n")[1].split("\n### ")[0].splitlines()
    return [[c.strip() for c in line.strip("|").split("|")] for line in found if line.startswith("|")]


def bars(text, title="Bars"):
    """The cells of each bar by its number."""
    return {int(row[0]): row[1:] for row in rows(text, title) if row[0].isdigit()}


def applies(text):
    return [row[-1] for row in rows(text, "Bars") if "missed" in row[0]]


def words(text):
    return {at: re.findall(r"\*\*(.*?)\*\*", row[-1])[0] for at, row in bars(text).items()}


def uneven(low, high):
    """On every other base, whichever its numbers are."""
    return lambda _regime, base, _seed: high if base % 100 % 2 else low


WORLDS = {
    "met": (gains(), tells, "met"),
    1: (gains(calibrated_chosen=7), tells, "missed"),
    -1: (gains(calibrated_chosen=uneven(1, 19)), tells, "open"),
    2: (gains(), lambda regime, b, s: tells(regime, b, s) * (regime != "tells_50"), "missed"),
    3: (gains(both_random=11), tells, "missed"),
    -3: (gains(both_random=uneven(0, 30)), tells, "open"),
    4: (gains(both_contested=11.9), tells, "missed"),
    -4: (gains(both_contested=uneven(0, 30)), tells, "open"),
    5: (gains(calibrated_chosen=lambda regime, *_: 10 if regime in TELLING else -2), lambda *_: 2.0, "missed"),
    -5: (
        gains(calibrated_chosen=lambda r, b, _: 10 if r in TELLING else 4 * (b % 2) - 2),
        lambda *_: 2.0,
        "open",
    ),
    6: (gains(labels_half=6), tells, "missed"),
    -6: (gains(labels_half=lambda regime, b, _: 4 * (regime in TELLING) + 8 * (b == 401)), tells, "open"),
}


@pytest.mark.parametrize("bar", WORLDS)
def test_each_bar_of_e10_has_its_word(bar):
    """Alone, and the others are met: `calibrated_chosen` is the vote in `uninformative`."""
    gain, exponent, word = WORLDS[bar]
    found = words(page(E10, records(E10, gain, exponent)))
    met = {1: "met", 2: "met", 3: "met", 4: "met", 5: "met by identity", 6: "met"}
    if bar == "met":
        assert found == met
    elif abs(bar) == 5:
        assert found[5] == word
    else:
        assert found == {**met, abs(bar): word}


def test_what_the_plan_says_of_missed_bars_is_read_from_the_fates():
    met, none = (
        page(E10, records(E10, gain, exponent)) for gain, exponent in ((gains(), tells), (lambda *_: 0, lambda *_: 0.0))
    )
    assert applies(met) == ["no"] * 4
    assert words(none) == {
        1: "met by identity",
        2: "missed",
        **dict.fromkeys((3, 4), "missed"),
        5: "met by identity",
        6: "missed",
    }
    assert applies(none) == ["no", "yes", "yes", "yes"]
    assert [row[1] for row in rows(none, "Bars") if "missed" in row[0]] == [c.words for c in E10.consequences]
    text = " ".join((RESEARCH / "docs" / "campaign-e10.md").read_text().split())
    assert all(f"{c.words}." in text for c in E10.consequences)


@pytest.mark.parametrize(
    ("fates", "null", "said"),
    [
        ({3: Fate("missed"), 4: Fate("missed")}, True, "yes"),
        ({3: Fate("missed"), 4: Fate("open", null=True)}, True, "yes"),
        ({3: Fate("missed"), 4: Fate("open", null=True)}, False, "no"),
        ({3: Fate("missed"), 4: Fate("open")}, True, "no"),
        ({3: Fate("missed")}, True, "not known yet"),
    ],
)
def test_all_bars_of_a_sentence_decide_it(fates, null, said):
    assert Consequence((3, 4), "", null=null).applies(fates) == said


def test_an_arm_that_is_the_vote_is_not_its_rival_for_that():
    lines = records(E10, gains())
    for r in lines:
        if r.get("arm") == "calibrated_chosen":
            r["calibration"]["exponent"] = 0.0
    assert words(page(E10, lines))[1] == "met"


@pytest.mark.parametrize(("wide", "null"), [(0.009, True), (0.011, False)])
def test_a_null_needs_both_intervals(wide, null):
    narrow = Ends(-0.001, 0.001, -0.001, 0.001)
    found = Contrast(0.0, narrow, Ends(-wide, wide, -wide, wide), narrow, 1.0, 1.0, bases=4, pairs=8, prompts=9)
    assert E10.contrasts[0].null(found, E10.margin) is null


def test_a_null_is_marked():
    """Both 90% intervals within 1 point: here +.5 on every base."""
    found = bars(page(E10, records(E10, gains(calibrated_chosen=lambda r, *_: 10.5 if r in TELLING else 0))))
    assert found[1][-1].endswith("**met**, a null")
    assert not found[3][-1].endswith("a null")


def test_telling_pools_two_regimes_and_the_better_rival_is_named():
    """+4 and -6 on the two regimes are -1; labels as rewards, better on all runs together, are the rival of 3 and 4."""
    chosen = gains(calibrated_chosen=lambda r, *_: {"informative": 14, "confident": 4}.get(r, 0), labels_half=12)
    found = bars(page(E10, records(E10, chosen)))
    assert found[1][0] == "telling"
    assert found[1][4] == "-1.0"
    assert found[3][1] == "`both_random` - `labels_half`, better than `calibrated_32`"
    assert found[3][4] == "+1.0"
    assert found[4][4] == "+4.0"
    assert bars(page(E10, records(E10, gains())))[3][1] == "`both_random` - `calibrated_32`, better than `labels_half`"


def test_exponents_of_the_first_seed_count_bases():
    found = bars(page(E10, records(E10, gains(), lambda r, b, s: 2.0 if s == 11 or (r, b) == ("plain", 300) else 0.0)))
    assert found[2][:5] == ["doses", "bases on which `calibrated_chosen` leaves the vote", "-", "8", "1 of 10"]


def test_an_exponent_of_0_in_every_run_is_the_vote():
    """Where one run has another exponent, the bar could fail."""
    one = page(E10, records(E10, gains(calibrated_chosen=lambda r, *_: 10 if r in TELLING else 0.5), lambda *_: 0.0))
    other = page(E10, records(E10, gains(calibrated_chosen=lambda r, *_: 10 if r in TELLING else 0.5), tells))
    assert words(one)[5] == words(other)[5] == "met by identity"
    some = records(
        E10, gains(calibrated_chosen=lambda r, *_: 10 if r in TELLING else 0.5), lambda r, b, s: float(s == 11)
    )
    assert words(page(E10, some))[5] == "met"


def test_two_bars_stand_again_without_the_bases_of_the_rule():
    hit = gains(calibrated_chosen=lambda r, b, _: 10 * (r in TELLING) - 8 * ((r, b) == ("informative", 0)))
    text = page(E10, records(E10, hit, lambda r, b, _: 2.0 * ((r, b) == ("tells_35", 300))))
    all_bases, fewer = bars(text), bars(text, "Without the bases on which the rule of choice was found")
    assert [*fewer] == [1, 2]
    assert {cell for row in fewer.values() for cell in row[-3:-1]} == {"-"}
    assert (all_bases[1][4], fewer[1][4]) == ("-1.0", "0.0")
    assert (all_bases[2][4], fewer[2][4]) == ("1 of 10", "0 of 9")


def test_holm_corrects_the_bars_of_the_plan():
    """3, 4 and 6 together, whether the large bases are in or not: a p that is not known counts as 1."""
    noisy = gains(both_random=uneven(12, 16), both_contested=uneven(13, 20))
    lines = records(E10, noisy)
    whole, half = (bars(page(E10, own)) for own in (lines, [r for r in lines if r.get("stage") != WIDE]))
    assert {at for at, row in whole.items() if row[-3] != "-"} == {3, 4, 6}
    assert {*half} == {1, 2, 3, 4, 5}
    assert all(float(half[at][-3]) >= float(whole[at][-3]) > 0 for at in (3, 4))
    assert "p = 1 where runs are not in" not in page(E10, lines)
    assert "p = 1 where runs are not in" in page(E10, [r for r in lines if r.get("stage") != WIDE])


@pytest.mark.parametrize("missing", [USUAL, DOSES, LARGE])
def test_a_set_of_runs_with_one_missing_shows_nothing(missing):
    lines = records(E10, gains())
    text = page(E10, [r for r in lines if r["id"] != max(missing.ids())], labels=LABELLED)
    assert f"{len(missing.ids()) - 1} of {len(missing.ids())} runs are in; no outcome" in text
    assert "This is not the whole plan" in text
    shown = {
        row[0] for title in ("Every arm beside the vote", "Tokens generated", "Every fit") for row in rows(text, title)
    }
    assert not shown & {*missing.regimes}
    assert {*bars(text)} == {USUAL: {2, 6}, DOSES: {1, 3, 4, 5, 6}, LARGE: {1, 2, 3, 4, 5}}[missing]
    assert "not known yet" in applies(text)


def test_nothing_is_shown_while_all_sets_lack_runs():
    least = {max(plan.ids()) for plan in E10.plans}
    text = page(E10, [r for r in records(E10, gains()) if r["id"] not in least])
    assert "###" not in text
    assert "|" not in text
    assert [f"{len(p.ids()) - 1} of {len(p.ids())} runs" in text for p in E10.plans] == [True] * 3


def test_labels_as_rewards_are_split_by_what_they_teach():
    """A gain on labelled prompts and on those that share a hard fact with them, and none elsewhere."""
    lines = records(E10, gains())
    for r in lines:
        if r.get("arm") in {"labels_half", "both_contested"}:
            parts = beside_labels(r["labelled"], stage=r["stage"], base=r["base"])
            assert sum(part.astype(int) for part in parts.values()).tolist() == [1] * len(parts["labelled"])
            own = r["evaluations"][-1]["sets"]["adapted"]
            own["right"] = [400 + 200 * a + 100 * b for a, b in zip(*list(parts.values())[:2], strict=True)]
    found = {(row[0], row[1]): row[2:] for row in rows(page(E10, lines), "By the facts of labelled prompts")}
    taught = ["+20.0 [+20.0, +20.0]", "+10.0 [+10.0, +10.0]", *["0.0 [0.0, 0.0]"] * 2]
    assert found["informative", "`labels_half`"] == found["informative", "`both_contested`"] == taught
    assert found[WIDE, "`calibrated_32`"][0] == "+10.0 [+10.0, +10.0]"
    assert {regime for regime, _ in found} - {"regime", "---"} == {*USUAL.regimes, WIDE}


def test_every_fit_is_shown():
    found = {(row[0], row[1]): row[2:] for row in rows(page(E10, records(E10, gains())), "Every fit")}
    assert len(found) == 2 + 12 + 10 + 2  # head and line
    assert found["informative", "0"] == ["+2 (+4.0, 0.50); +2 (+4.0, 0.50)"] * 4
    assert found["plain", "200"] == [*["0 (+4.0, 0.50); 0 (+4.0, 0.50)"] * 2, "-", "-"]


# the second half of E9

LABELLED = {at: Fate("met") for at in range(1, 7)}
ARMS = {"ttrl_32": 10, "ttrl_8": 4, "dare_8": 6, "dare_answer_8": 6.5, "rpc_8": 8, "ppc_8": 9}


def trained(**others):
    own = {**ARMS, **others}
    return lambda regime, base, seed, arm: own[arm](regime, base, seed) if callable(own[arm]) else own[arm]


def climbing(arm, base, step):
    """`ppc_8` is half way at step 8, where it has made 512 rollouts; `ttrl_32`, at 16, has made 4,096."""
    return 46 if step >= {"ppc_8": 8, "ttrl_32": 16}.get(arm, 24) else 40


TRAINED = {
    "met": (trained(), climbing, "met"),
    7: (trained(dare_answer_8=8.1), climbing, "missed"),
    -7: (trained(dare_answer_8=uneven(3, 9)), climbing, "open"),
    8: (trained(ppc_8=3), climbing, "missed"),
    -8: (trained(ppc_8=uneven(-2, 12)), climbing, "open"),
    9: (trained(rpc_8=4), climbing, "missed"),
    -9: (trained(rpc_8=uneven(-2, 12)), climbing, "open"),
    10: (trained(ppc_8=7.9), climbing, "missed"),
    -10: (trained(ppc_8=uneven(6, 12)), climbing, "open"),
    11: (trained(), lambda arm, _, step: 46 if arm == "ttrl_32" else 40, "missed"),
    -11: (trained(), lambda arm, b, step: 46 if arm == "ttrl_32" or (b % 100 and step >= 16) else 40, "open"),
}  # fmt: skip


@pytest.mark.parametrize("bar", TRAINED)
def test_each_bar_of_e9_has_its_word(bar):
    gain, between, word = TRAINED[bar]
    found = words(page(E9, records(E9, gain, between=between), labels=LABELLED))
    met = {7: "met", 8: "met", 9: "met", 10: "met", 11: "met"}
    if bar == "met":
        assert found == met
    else:
        assert found[abs(bar)] == word
        assert all(found[at] == "met" for at in met if at != abs(bar) and abs(bar) not in {8, 10})


@pytest.mark.parametrize(
    ("fates", "arm"),
    [
        ({1: "met", 4: "met"}, "`ppc_8` - `ttrl_32`"),
        ({1: "met", 4: "open"}, "`dare_answer_8` - `ttrl_32`"),
        ({1: "missed", 4: "open"}, None),
        ({}, None),
    ],
)
def test_bars_about_labels_choose_the_arm_of_the_tenth(fates, arm):
    labels = {at: Fate(word) for at, word in fates.items()}
    found = bars(page(E9, records(E9, trained()), labels=labels))
    assert (found[10][1] if 10 in found else None) == arm


def test_the_fates_of_bars_about_labels_are_those_of_the_committed_results():
    summary = json.loads((RESEARCH / "results" / "real-model.summary.json").read_text())
    found = label_fates(summary)
    assert [*found] == [1, 2, 3, 4, 5, 6]
    assert {at: fate.word for at, fate in found.items()} == {
        b["bar"]: b["fate"] for b in summary["bars"] if b["plan"] == "E9"
    }
    for labels, said in ((found, "no"), ({1: Fate("missed"), 4: Fate("met", null=True)}, "yes"), ({}, "not known yet")):
        assert applies(page(E9, records(E9, trained()), labels=labels)) == [said]


def test_rollouts_are_counted_until_half_way():
    text = page(E9, records(E9, trained(), between=climbing), labels=LABELLED)
    assert bars(text)[11][3:7] == ["0.4", "0.12", "[0.12, 0.12]", "[0.12, 0.12]"]  # 512 of 4,096
    found = {(row[0], row[1]): row[2:] for row in rows(text, "Rollouts until half way")}
    assert found["informative", "`ttrl_32`"] == ["4,096", "1.000", "12 of 12"]
    assert found["reasoning_8", "`ppc_8`"] == ["512", "0.125", "6 of 6"]


def test_a_vote_that_ends_below_its_base_asks_for_no_rollouts():
    found = page(E9, records(E9, trained(ttrl_32=-1)), labels=LABELLED)
    assert 11 not in bars(found)


def test_the_bases_of_e1_alone_are_not_the_whole_plan():
    lines = records(E9, trained(), between=climbing)
    absent = page(E9, [r for r in lines if r["stage"] != "reasoning_8"], labels=LABELLED)
    lacking = page(E9, [r for r in lines if r["id"] != max(REASONED.ids())], labels=LABELLED)
    for text in (absent, lacking):
        assert "This is not the whole plan: what follows is over 4 of 6 bases." in text
        assert {*words(text)} == {7, 8, 9, 10, 11}
    assert "reasoning_8: **35 of 36 runs are in; no outcome" in lacking
    assert not any(row[0] == "reasoning_8" for row in rows(lacking, "Every arm beside the vote"))
    assert "not the whole plan" not in page(E9, lines, labels=LABELLED)
    gone = page(E9, [r for r in lines if r["id"] != max(OURS.ids())], labels=LABELLED)
    assert "71 of 72 runs are in" in gone
    assert "over 2 of 6 bases" in gone


# the plans


@pytest.mark.parametrize("part", [E9, E10], ids=lambda p: p.title)
def test_the_bars_are_those_of_the_plan(part: CampaignPart):
    lines = (RESEARCH / "docs" / f"{part.page}.md").read_text().splitlines()
    stated = [[c.strip() for c in line.strip("|").split("|")] for line in lines if re.match(r"\| \d+ \|", line)]
    if part is E9:
        stated = [[at, "", *cells] for at, *cells in stated if 7 <= int(at) <= 11]
    assert [int(row[0]) for row in stated] == [*part.rows]
    for own, (_, _, contrast, predicted, bar) in zip(part.rows.values(), stated, strict=True):
        assert own.arm in contrast or own.by
        assert own.rival in contrast or own.better
        assert float(predicted.split()[0]) == own.predicted
        assert own.bars[0].words in {bar, f"{bar} point", f"{bar} points"} or bar.startswith(own.bars[0].words)
    (*_, holm) = re.findall(r"Holm (?:over|corrects) ([\d, and]+)", " ".join(lines))
    assert [*map(int, re.findall(r"\d+", holm))] == [*part.corrected]
