"""The campaign's page, written before there were outcomes: nothing before every run is in, then each bar in its word."""

import json
import re
import subprocess
from copy import deepcopy
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dare_research.page import registered
from dare_research.page.bars import BETTER, FLOOR, GAIN, LEVEL, WORSE, verdict
from dare_research.page.campaign import PARTS, campaign_page, label_fates
from dare_research.page.campaign_further import _line
from dare_research.page.figures import draw_campaign
from dare_research.publish import pack, publish
from dare_research.results import SUMS, Place
from dare_research.statistics.contrasts import Contrast, Ends
from dare_research.training.arms import CAMPAIGN
from dare_research.training.corpus import REGIMES
from dare_research.training.parts import PARTS as PLANNED
from dare_research.training.plan import DOSES, HALVES, REASONING, WIDE
from dare_research.training.records import append, read_records, unpack
from dare_reward.cli import main

EARLIER = PARTS[:-2]  # E9 and E10: test_campaign_labels.py
E1, E1B, E1C, E1D, E1E, E2, E3, E4, E5, E6, E7 = EARLIER
NEEDED = sorted(set.union(*(set(part.needed) for part in EARLIER)))
RESEARCH = Place(Path(__file__).parents[1], "campaign")
ABOVE = {"calibrated_vote": (0.12, 0.0, 0.13), "dare": (0.04, 0.0, -0.04), "rent": (0.06, -0.02, -0.12)}
SIX = [["shift", 6], ["sub", 6]]
DOSED = {"plain": 0.0, **DOSES}


def right(regime, base, seed, arm, where, n=64):
    """Right rollouts of 12 prompts: those of the vote, and above them what the arm gains, a little more on some bases."""
    known = REGIMES.index(regime) if regime in REGIMES else 1
    rng = np.random.default_rng((known, base, seed, where == "unseen"))
    vote = 0.4 + 0.02 * (base % 100) + rng.normal(0, 0.05, 12)
    gain = ABOVE.get(arm, (0.0, 0.0, 0.0))[known]
    if regime in DOSED and arm != "ttrl":
        gain = max(0.5 * (DOSED[regime] - 0.15), 0.0 if arm == "calibrated_vote" else -1.0)
    return np.rint(n * (vote + gain * (1 + 0.05 * (base % 100 - 1.5) + 0.02 * seed))).astype(int).tolist()


def run(name):
    stage, regime, base, arm, seed, settings = name.split("/")
    steps = int(settings.rpartition("steps")[2])
    names = ("adapted", "unseen", *(["known"] if stage == HALVES else []))
    sets = {w: {"n": 64, "right": right(regime, int(base), int(seed), arm, w), "family": SIX} for w in names}
    fitted = {"informative": 4.0, "confident": -2.0}.get(regime, 0.0)
    before = [{"step": s, "sets": {"adapted": {"n": 8, "right": [8] * 12}}} for s in (8, 64) if s < steps > 32]
    found = {"exponent": fitted, "fitted": fitted, "statistic": 2 * fitted, "vetoed": False, "mixed": 30}
    return {
        "record": "run", "id": name, "stage": stage, "regime": regime, "base": int(base), "arm": arm, "seed": int(seed),
        "lr": 3e-4, "settings": {"steps": steps, "prompts": 8, "votes": 64}, "tokens": 400_000, "evaluations": [*before, {"step": steps, "sets": sets}], "preregistration": "c0ffee",
        **({"calibration": found} if arm == "calibrated_vote" else {}),
        **({"calibration_by_family": {"shift": found, "sub": found | {"exponent": -2.0}}} if arm == "calibrated_by_family" else {}),
    }  # fmt: skip


def base(stage, regime, number):
    auroc = 0.55 + 0.2 * DOSED.get(regime, 0.75) + 0.01 * (number % 100)
    score = {"n": 64, "right": [32] * 12, "majority": [1.0, 0.0] * 6, "auroc": auroc, "family": SIX}
    sets = dict.fromkeys(("adapted", "unseen", "known"), score)
    return {
        "record": "base", "id": f"{stage}/{regime}/{number}", "stage": stage, "regime": regime, "base": number,
        "parameters": 1, "evaluation": {"step": 0, "sets": sets}, "preregistration": "c0ffee",
    }  # fmt: skip


@pytest.fixture(scope="module")
def full():
    bases = dict.fromkeys(
        (plan.stage, regime, number)
        for part in EARLIER
        for plan in part.plans
        for number in plan.bases
        for regime in plan.regimes
    )
    return [*(base(*key) for key in bases), *map(run, NEEDED)]


@pytest.fixture(scope="module")
def page(full):
    return campaign_page(full, resamples=1000, shown=EARLIER)


def rows(page, title, part="E1"):
    own = page.split(f"\n## {part}\n")[1].split("\n## ")[0]
    lines = own.split(f"### {title}\n")[1].split("\n### ")[0].splitlines()
    return [[c.strip() for c in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


@pytest.mark.parametrize("part", EARLIER, ids=lambda p: p.title)
def test_the_planned_runs_are_those_of_the_preregistration(part):
    text, (plan,) = RESEARCH.page(part.page).read_text().replace("\n", " "), part.plans
    assert f"{len(plan.arms)} arms " in text
    many = f"{len(plan.bases)} base{'s' * (len(plan.bases) > 1)} x {plan.seeds} seed{'s' * (plan.seeds > 1)} = {len(part.planned)} runs"
    assert f"x {len(plan.regimes)} regimes x {many}" in text
    assert all(f"`{name}`" in text for name in (*plan.arms, *(set(plan.regimes) - set(REGIMES))))
    if plan.steps > 32:
        assert f"= {len(part.planned)} runs of {plan.steps} steps" in text


@pytest.mark.parametrize("part", EARLIER, ids=lambda p: p.title)
def test_the_bars_are_those_of_the_preregistration(part):
    text = RESEARCH.page(part.page).read_text()
    stated = [
        [c.strip() for c in line.strip("|").split("|")]
        for line in text.splitlines()
        if "` - `" in line and line.startswith("| ")
    ]
    named = []
    for numbers, contrast, regime, predicted, words in stated:
        for number in map(int, numbers.split(",")):
            own = part.contrasts[number - 1]
            assert contrast.startswith(f"`{own.arm}` - `{own.rival}`")
            assert all((name in contrast) == (own.where == name) for name in ("unseen", "known"))
            assert regime in {own.regime, "each"}
            assert (float(predicted) if predicted else None) == own.predicted
            assert words == own.bars[0].words
            named.append(number)
    assert named == [*range(1, len(part.contrasts) + 1)]


def test_the_second_bars_are_those_of_the_preregistration():
    assert [i for i, own in enumerate(E1.contrasts) if FLOOR in own.bars[1:]] == [0, 1, 2]
    assert "Contrasts 1 to 3 have a second bar" in RESEARCH.page("campaign").read_text()


@pytest.mark.parametrize("missing", [1, 191, 192])
def test_no_outcome_before_all_runs_are_in(full, missing):
    """Not of the second part either, which takes runs of the first."""
    gone = sorted(E1.planned)[-missing:]
    page = campaign_page([r for r in full if r["id"] not in gone], resamples=300, shown=PARTS[:3])
    assert f"**{192 - missing} of 192 runs are in; no outcome is shown before all are.**" in page
    assert "**48 of 48 runs are in; no outcome is shown before all are, and those of E1.**" in page
    assert "|" not in page
    assert "###" not in page
    assert ("commit `c0ffee`" in page.split("## E1b")[0]) == (missing < 192)


def test_the_first_part_is_shown_without_the_second(full):
    page = campaign_page([r for r in full if r.get("arm") != "gmae"], resamples=1000, shown=PARTS[:3])
    one, other = page.split("\n## E1b\n")
    other = other.split("\n## E1c\n")[0]
    assert one.count("###") == 4
    assert "**24 of 48 runs are in" in other
    assert "|" not in other


def test_a_run_without_its_end_or_of_another_design_is_not_in(full):
    (last,) = (r for r in full if r["id"] == max(E1.planned))
    cut = {**last, "evaluations": [{**last["evaluations"][0], "step": 8}]}
    other = {**last, "id": last["id"].replace("steps32", "steps2")}
    for changed in (cut, other):
        page = campaign_page([changed if r is last else r for r in full], resamples=300, shown=PARTS[:1])
        assert "**191 of 192 runs are in" in page


def test_every_bar_has_its_numbers_and_its_word(page):
    found = rows(page, "Bars")
    assert [tuple(r[1:4]) for r in found] == [(x.regime, f"`{x.arm}` - `{x.rival}`", x.where) for x in E1.contrasts]
    words = [r[-1] for r in found]
    assert words[0] == words[2] == "at least +8, and better: **met**; not worse by 1 point: **met**"
    assert words[1] == "within 1 point: **met by identity**; not worse by 1 point: **met by identity**"
    assert words[5] == "better: **missed**"  # no difference at all is no gain
    assert words[8] == "worse: **met**"
    assert found[0][4:6] == ["+12", "+12.1"]
    assert "nan" not in page
    assert [r[-1] for r in rows(page, "Bars", "E1b")[:7:3]] == [
        "within 1 point: **met by identity**",
        "within 1 point: **met by identity**",
        "better: **met**",
    ]


def test_beside_the_bars_stand_all_arms_and_the_exponents(page):
    beside = rows(page, "Every arm beside the vote")
    assert [(r[0], r[1]) for r in beside] == [(g, f"`{a}`") for g in REGIMES for a in CAMPAIGN if a != "ttrl"]
    fitted = rows(page, "Fitted exponents")
    assert [r[:3] for r in fitted[::4]] == [
        ["informative", "0", "+4"],
        ["uninformative", "0", "0"],
        ["confident", "0", "-2"],
    ]
    assert len(fitted) == 12
    assert {r[1] for r in rows(page, "Every arm beside the vote", "E1b")} == {"`gmae`", "`ttrl_gt_quarter`"}
    assert page.count("### Fitted exponents") == 6  # of E1 to E6
    assert fitted[0][-2:] == ["0.700", "50.0"]


def contrast(estimate, low, high, wide=None):
    ends = Ends(low, high, low, high)
    return Contrast(
        estimate, ends, Ends(*wide, *wide) if wide else ends, ends, 0.001, 0.001, bases=4, pairs=8, prompts=9
    )


@pytest.mark.parametrize(
    ("bar", "found", "p", "p_bases", "word"),
    [
        (GAIN, contrast(0.08, 0.01, 0.2), 0.01, 0.04, "met"),
        (GAIN, contrast(0.079, 0.01, 0.2), 0.01, 0.01, "missed"),
        (GAIN, contrast(0.09, -0.01, 0.2), 0.01, 0.01, "open"),
        (GAIN, contrast(0.09, 0.01, 0.2), 0.05, 0.01, "open"),
        (GAIN, contrast(0.09, 0.01, 0.2), 0.01, 0.05, "met by the bootstrap alone"),
        (GAIN, contrast(0.09, 0.01, 0.2, wide=(-0.01, 0.3)), 0.01, 0.01, "met by the bootstrap alone"),
        (BETTER, contrast(0.02, 0.01, 0.2), 0.01, 0.01, "met"),
        (BETTER, contrast(-0.02, -0.2, 0.1), 0.01, 0.01, "missed"),
        (WORSE, contrast(-0.02, -0.2, -0.01), 0.01, 0.01, "met"),
        (WORSE, contrast(-0.02, -0.2, 0.01), 0.01, 0.01, "open"),
        (LEVEL, contrast(0.0, 0.0, 0.0), 1.0, 1.0, "met by identity"),
        (LEVEL, contrast(0.0, -0.005, 0.011), 1.0, 1.0, "open"),
        (LEVEL, contrast(0.0, -0.005, 0.005, wide=(-0.02, 0.02)), 1.0, 1.0, "met by the bootstrap alone"),
        (LEVEL, contrast(0.012, 0.011, 0.013), 1.0, 1.0, "missed"),
        (FLOOR, contrast(-0.005, -0.009, 0.0), 1.0, 1.0, "met"),
        (FLOOR, contrast(0.0, 0.0, 0.0), 1.0, 1.0, "met by identity"),
        (BETTER, contrast(0.0, 0.0, 0.0), 1.0, 1.0, "missed"),
        (FLOOR, contrast(-0.005, -0.02, 0.0), 1.0, 1.0, "open"),
        (FLOOR, contrast(-0.02, -0.03, 0.0), 1.0, 1.0, "missed"),
    ],
)
def test_words(bar, found, p, p_bases, word):
    assert verdict(bar, found, p, p_bases) == word


def test_p_values_are_corrected_over_all_nine(full, monkeypatch):
    """Nine times the least p is what the first bar is judged by."""
    asked = []
    monkeypatch.setattr(registered, "verdict", lambda bar, c, p, p_bases, **_: asked.append((c, p, p_bases)) or "met")
    campaign_page(full, resamples=1000, shown=EARLIER)
    asked_of = iter(asked)
    for part in EARLIER:
        own = [next(asked_of) for registered in part.contrasts for _ in registered.bars]
        for at, corrected in ((lambda a: a[0].p_bases, lambda a: a[2]), (lambda a: a[0].deciding_p, lambda a: a[1])):
            if own:
                least = min(own, key=at)
                assert corrected(least) == pytest.approx(min(1, len(part.contrasts) * at(least)))
        assert all(p >= c.deciding_p for c, p, _ in own)


def test_the_tokens_of_waves_stand_beside_those_of_their_rivals(full):
    fewer = [{**r, "tokens": 300_000} if r.get("arm") == "dare_waves" else r for r in full]
    found = rows(campaign_page(fewer, resamples=300, shown=[E1C]), "Tokens generated", "E1c")
    assert found == [[regime, "300", "400", "400", "400", "400"] for regime in REGIMES]


def test_sets_of_facts_are_the_unit_of_an_interval_of_their_own(page):
    found = rows(page, "Over three sets of facts", "E2")
    assert len(found) == 6
    assert [r[-1] for r in found] == ["yes", "no", "yes", "yes", "no", "yes"]
    means = [float(cell) for cell in found[0][2:5]]  # .12 x (1 + .05 x (number - 1.5) + .02 x seed) on 4, 2, 2 bases
    assert means == pytest.approx([12.1, 11.5, 11.5], abs=0.15)


def test_the_break_even_is_where_the_line_crosses(page, full):
    """Gains of half of (dose - .15), AUROC .55 + .2 x dose: 0 at .58."""
    doses = rows(page, "Break-even", "E3")
    assert len([r for r in doses if r[0] in DOSED]) == 10
    own = next(r for r in doses if r[0] == "the ten bases")
    assert 0.55 < float(own[2]) < 0.61
    assert own[-1] == "between .53 and .62: **met**"
    assert "Not worse by 1 point: **met**" in page
    partly = [r for r in full if r["record"] != "run" or "/20" not in r["id"] or r["id"] in E3.planned]
    assert "E1 and E2 are not all in" in campaign_page(partly, resamples=300, shown=[E3])
    sunk = deepcopy([r for r in full if r.get("regime") not in REGIMES or "96" not in r["id"]])
    for r in sunk:
        if r.get("arm") == "calibrated_vote" and r["regime"] not in REGIMES:
            last = r["evaluations"][-1]["sets"]["adapted"]
            last["right"] = [n - 9 for n in last["right"]]
    assert "Not worse by 1 point: **missed**" in campaign_page(sunk, resamples=300, shown=[E3])


def test_a_line_that_falls_has_no_break_even():
    falling = np.array([[0.5, 0.1], [0.6, 0.0], [0.7, -0.1]])
    slope, _, zero, low, _, flat = _line(falling)
    assert slope < 0
    assert zero == pytest.approx(0.6)
    assert np.isnan(low)
    assert flat == 1


def test_a_run_that_ends_below_its_own_height_fell(page):
    found = rows(page, "Who fell", "E5")
    assert [tuple(r[:2]) for r in found] == [(g, f"`{a}`") for g in REGIMES for a in E5.plans[0].arms]
    assert {r[-3] for r in found} == {"4 of 4"}  # from all right at steps 8 and 64
    assert found[0][2:5] == ["50.0", "100.0", "100.0"]
    assert {r[-2] for r in found[-2:-1]} == {"4 of 4"}  # rent in confident


def test_families_stand_apart_with_their_exponents(page, full):
    better = deepcopy([r for r in full if r["id"] in E4.planned or r["record"] == "base"])
    for r in better:
        if r.get("arm") == "calibrated_by_family":
            own = r["evaluations"][-1]["sets"]["adapted"]
            own["right"] = [n + 8 * (i < 6) for i, n in enumerate(own["right"])]
    found = rows(campaign_page(better, resamples=300, shown=[E4]), "By family", "E4")
    gains = {(r[0], r[1].split("`")[1]): r[2] for r in found if len(r) == 5}
    assert len(gains) == 6
    assert gains["shift", "calibrated_by_family"] == "+12.5"
    assert gains["sub", "calibrated_by_family"] == "0.0"
    assert [r for r in found if len(r) == 3 and r[0].isdigit()] == [
        [str(n), "+0 (+0.0)", "-2 (+0.0)"] for n in E4.plans[0].bases
    ]


def test_halves_are_measured_from_the_base(page):
    found = rows(page, "By half of the hard facts", "E6")
    assert [r[1] for r in found] == [f"`{arm}`" for arm in E6.plans[0].arms] * 3
    assert {r[2] for r in found} == {"50.0"}
    by_arm = {(r[0], r[1]): float(r[3]) for r in found}
    for words in ("adapted: first half", "new prompts, first half", "new prompts, second half"):
        gain = by_arm[words, "`calibrated_vote`"] - by_arm[words, "`ttrl`"]
        assert gain == pytest.approx(12, abs=1)  # ABOVE, whatever the base


def test_packing_keeps_the_records_apart_from_those_of_the_study(full, tmp_path):
    place = Place(tmp_path, "campaign")
    runs = [r for r in full if r["id"] in E1.planned]
    append(place.work, [*full[:12], *runs[:8]])
    (place.root / "results" / "training.jsonl.gz").write_bytes(b"another study's")
    lines = place.work.read_text()
    assert main(["study", "pack", "--study", "campaign", "--out", str(tmp_path)]) == 0
    assert not place.work.exists()
    assert (place.root / "results" / SUMS).read_text().split()[1::2] == ["campaign.jsonl.gz", "training.jsonl.gz"]
    assert "**8 of 192 runs are in" in place.page("campaign-results").read_text()
    assert unpack(place).read_text() == lines
    pack(place)
    append(place.work, runs[8:9])  # of a process that went on
    assert publish(place) == [place.page("campaign-results")]
    assert "**9 of 192 runs are in" in place.page("campaign-results").read_text()
    assert unpack(place).read_text().startswith(lines)
    pack(place)
    assert [r["id"] for r in read_records(place.packed)] == [r["id"] for r in (*full[:12], *runs[:9])]


# what is committed


def test_the_committed_page_is_what_the_committed_records_say():
    assert RESEARCH.page("campaign-results").read_text() == campaign_page(
        read_records(RESEARCH.packed),
        labels=label_fates(json.loads(RESEARCH.summary.with_name("real-model.summary.json").read_text())),
        resamples=4000,
    )


def test_the_committed_bases_are_whole_small_and_stated():
    stated = dict(line.split("  ")[::-1] for line in (RESEARCH.bases / SUMS).read_text().splitlines())
    assert set(stated) == {file.name for file in RESEARCH.bases.iterdir() if file.is_file()} - {SUMS}
    known = {(c.regime, c.base) for part in PLANNED.values() for c in part.cells()} | {*product(REASONING, (400, 401))}
    assert set(stated) <= {f"{regime}-{base}.safetensors" for regime, base in known}
    assert stated
    for name, digest in stated.items():
        data = (RESEARCH.bases / name).read_bytes()
        assert sha256(data).hexdigest() == digest
        assert len(data) < 1_000_000
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        assert header.pop("__metadata__") == {"hidden": "96", "layers": "3"}
        assert {v["dtype"] for v in header.values()} == {"F16"}
        assert sum(int(np.prod(v["shape"])) for v in header.values()) == 348_192


def git(*words):
    return subprocess.run(["git", *words], cwd=RESEARCH.root, capture_output=True, text=True).stdout.split()


def test_every_preregistration_is_in_the_history_but_for_the_one_that_was_lost():
    """E4 and E6 are the exception, as their remark says: `LOST` in page/campaign.py."""
    history, records = set(git("rev-list", "HEAD")), read_records(RESEARCH.packed)
    if not history & {r["preregistration"] for r in records}:
        pytest.skip("this checkout has no history")
    lost = {r["preregistration"] for r in records} - history
    assert lost == {"5d7921737c82d9f5ab478c89c8cb66bd0f76985f"}
    runs = {r["id"] for r in records if r["record"] == "run" and r["preregistration"] in lost}
    assert runs == E4.planned | E6.planned


def test_every_committed_record_names_its_base_file_and_the_preregistration():
    stated = dict(line.split("  ")[::-1] for line in (RESEARCH.bases / SUMS).read_text().splitlines())
    records = read_records(RESEARCH.packed)
    for part in PARTS:
        assert len({r["preregistration"] for r in records if r["id"] in part.planned}) <= 1
    for r in records:
        assert re.fullmatch("[0-9a-f]{40}", r["preregistration"]), r["id"]
        assert re.fullmatch("[0-9a-f]{40}", r["code"]), r["id"]
        if "weights" in r and r["regime"] != WIDE:
            assert stated[f"{r['regime']}-{r['base']}.safetensors"].startswith(r["weights"])
    # Those of WIDE are as the recipe makes them, in float32, and have no file: all runs of one began alike.
    wide = {(r["base"], r["weights"]) for r in records if r.get("regime") == WIDE and "weights" in r}
    assert sorted(base for base, _ in wide) == [400, 401]
    assert all("weights" in r for r in records if r["record"] in {"base", "run"})


def test_the_break_even_is_drawn_once_all_runs_are_in(tmp_path):
    pytest.importorskip("matplotlib")
    records = read_records(RESEARCH.packed)
    (drawn,) = draw_campaign(tmp_path, records)
    before = drawn.read_bytes()
    assert [p.read_bytes() for p in draw_campaign(tmp_path, records)] == [before]
    lacking = E3.planned
    assert draw_campaign(tmp_path, [r for r in records if r["id"] != min(lacking)]) == []
