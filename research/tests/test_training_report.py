"""The training study's page: what its records say, from any subset of them, and never more."""

import gzip
import json
import re
import sys
import threading
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from dare_research.page.breakdown import bar, families
from dare_research.page.claims import CLAIMS, judge_training, overall
from dare_research.page.dynamics import GAINS, _formatting, area, reached, reasoning_gain, rollouts_until
from dare_research.page.figures import draw_training, figures, gains, rank_correlation
from dare_research.page.outcomes import ARMS, BASE, REGIMES, Study, curve
from dare_research.page.report import training_page
from dare_research.page.settings import scan, sensitivity
from dare_research.page.side_tables import missing
from dare_research.page.summary import restore, summarise, write_summary
from dare_research.page.tables import factors, secondary
from dare_research.page.words import sentence
from dare_research.publish import COMMAND, pack
from dare_research.results import SUMS, Place, read, write
from dare_research.statistics.contrasts import contrast
from dare_research.training.arms import ALL_ARMS
from dare_research.training.arms import ARMS as RUNNABLE
from dare_research.training.records import append, lines, locked, parse, read_records, unpack
from dare_reward.cli import main
from dare_reward.errors import RequestError
from dare_reward.methods import methods

STUDY = Place(Path(__file__).parents[1])
PROMPTS, N = 12, 64


def score(rng, share, *, n=N, parsed=0.9, auroc=0.7):
    chance = np.clip(share + rng.normal(0, 0.05, PROMPTS), 0, parsed)
    right = rng.binomial(n, chance)
    return {
        "n": n,
        "right": right.tolist(),
        "majority": (right > n / 2).astype(float).tolist(),
        "distinct": [5] * PROMPTS,
        "family": ["shift", "sub"] * (PROMPTS // 2),
        "parsed": parsed,
        "length": 30.0,
        "entropy": 0.2,
        "answer_entropy": 1.1,
        "auroc": auroc,
        "auroc_wrong_mode": None,
        "auroc_length": 0.5,
        "unknown": "ignored",
    }


def evaluation(rng, step, share, *, sets=("adapted", "unseen", "ood"), **knobs):
    return {"step": step, "sets": {name: score(rng, share, **knobs) for name in sets}}


def base(regime="informative", number=0, *, share=0.3, **knobs):
    rng = np.random.default_rng((REGIMES.index(regime), number))
    effect = {
        "label_accuracy": 0.5,
        "flips": 0.1,
        "to_right": 0.08,
        "from_right": 0.01,
        "cosine_ttrl": 0.8,
        "dacc": 0.2,
    }
    return {
        "record": "base",
        "id": f"{regime}/{number}",
        "regime": regime,
        "base": number,
        "parameters": 341856,
        "pretraining": {"steps": 100, "examples": 6400, "seconds": 120.0, "probe": 0.36},
        "families": {"confirm": ["shift", "sub"], "develop": ["sort"]},
        "evaluation": evaluation(rng, 0, share, auroc=0.7 if regime == "informative" else 0.4, **knobs),
        "treatments": {"adapted": {"dare": effect, "ttrl": {**effect, "flips": 0.0}}},
        "temperatures": {
            t: {"rho": rho, "dare": {**effect, "dacc": 0.3 - rho}, "ttrl": effect}
            for t, rho in (("0.7", 0.3), ("1.0", 0.1))
        },
    }


def run(
    arm, *, stage="confirm", regime="informative", number=0, seed=0, share=0.4, lr=1e-4, steps=4, ended=True, **settings
):
    rng = np.random.default_rng((number, seed, ARMS.index(arm), REGIMES.index(regime)))
    last = steps if ended else steps - 2
    return {
        "record": "run",
        "id": f"{stage}/{regime}/{number}/{arm}/{seed}/{lr}/{settings}",
        "stage": stage,
        "regime": regime,
        "base": number,
        "arm": arm,
        "seed": seed,
        "lr": lr,
        "settings": {"steps": steps, "votes": 64, **settings},
        "steps": {"label_accuracy": [0.5, None, 0.6, 0.7], "reward_std": [0.2, 0.2, 0.1, 0.1], "entropy": []},
        "tokens": 1000,
        "seconds": 60.0,
        "evaluations": [
            *([evaluation(rng, 2, (0.3 + share) / 2, sets=("adapted", "unseen"), n=16)] if ended else []),
            evaluation(rng, last, share),
        ],
    }


def grid(shares, *, regime="informative", bases=4, seeds=4, **knobs):
    return [
        run(arm, regime=regime, number=b, seed=s, share=share, **knobs)
        for arm, share in shares.items()
        for b, s in product(range(bases), range(seeds))
    ]


def everything():
    records = [base(r, b) for r, b in product(REGIMES, range(4))]
    shares = {"ttrl": 0.35, "weighted_vote": 0.4, "empo": 0.36, "dare_dist": 0.42, "dare": 0.43, "dare_shuffled": 0.35}
    others = dict.fromkeys(("dare_dist_bonus", "dare_dist_prune", "gt", "dare_dr_grpo", "ttrl_dr_grpo"), 0.4)
    records += grid({**shares, **others}, seeds=2)
    records += grid(dict.fromkeys(shares, 0.35), regime="uninformative", seeds=2)
    records += grid({"ttrl": 0.45, "dare": 0.30}, regime="confident", seeds=2)
    records += grid({"ttrl": 0.35, "dare": 0.43}, stage="pilot", bases=2, seeds=2)
    records += [run(a, stage="develop", lr=lr) for a in ("ttrl", "dare") for lr in (3e-5, 1e-4)]
    records += [run("dare", stage="sensitivity", params={"alpha": a}) for a in (0.3, 1.0)]
    records += [run("dare", stage="long", steps=8), run("gt", number=3, seed=9, ended=False)]
    tries = [{"prompts": 50, "verdict": v, "auroc": 0.7, "low": 0.6, "high": 0.8} for v in ("use", "use", "undecided")]
    records += [
        {"record": "preflight", "id": f"preflight/{b}", "regime": "informative", "base": b, "tries": tries}
        for b in (0, 1)
    ]
    return [*records, {"record": "note", "text": "other kinds are ignored"}]


@pytest.fixture(scope="module")
def full():
    return everything()


def study(records, **knobs):
    return Study(parse(records), resamples=300, **knobs)


def page(records, **knobs):
    return training_page(study(records), **{"wanted": {}, **knobs})


def section(text, title):
    return text.partition(f"## {title}\n")[2].partition("\n## ")[0]


# records


def test_the_rollouts_of_a_committed_run_until_it_has_an_accuracy():
    """Votes in waves: what each step left out is not generated. All of them, if no evaluation gets there."""
    kept = read_records(Place(Path(__file__).parents[1], "campaign").packed)
    raw = next(r for r in kept if r.get("arm") == "dare_waves")
    own = parse([r for r in kept if r["id"] in {raw["id"], f"campaign/{raw['regime']}/{raw['base']}"}])
    by_step = [8 * (64 - saved) for saved in raw["steps"]["votes_saved"]]
    first, second = (sum(e["sets"]["adapted"]["right"]) for e in raw["evaluations"][:2])
    prompts = len(raw["evaluations"][0]["sets"]["adapted"]["right"])
    assert second > first, "else the second evaluation reaches nothing new"
    until = partial(rollouts_until, own.runs[0], own.bases[0])
    assert until(second / prompts / 8) == (round(sum(by_step[:16])), True)
    assert until(1.0) == (round(sum(by_step)), False)
    assert until(0.0) == (0, True)


def test_lines_and_objects_are_the_same(full):
    lines = [json.dumps(r) for r in full]
    found = parse(["", *lines])
    assert [r.id for r in found.runs] == [r.id for r in parse(full).runs]
    assert len(found.bases) == 12
    assert np.isnan(found.bases[0].evaluation.sets["adapted"].auroc_wrong_mode)
    assert np.isnan(found.runs[0].steps["label_accuracy"][1])
    assert [r.id for r in found.runs if not r.complete] == [full[-4]["id"]]


def test_a_repeated_run_counts_once():
    twice = parse([run("dare", share=0.2), {**run("dare", share=0.8), "seconds": 7}])
    assert [r.seconds for r in twice.runs] == [7]


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"record":"run","id":"a"}', '{"record":"base","id":"b","regime":"x","base":0}']
)
def test_a_line_that_is_no_record_is_named(line):
    with pytest.raises(RequestError, match="line 2 is not a record"):
        parse([json.dumps(base()), line])


def test_a_base_is_that_of_the_stage():
    develop = {**base(share=0.8), "id": "develop/informative/0", "stage": "develop"}
    records = [develop, {**base(), "stage": "confirm"}, {"record": "trunk", "id": "trunk-0", "seconds": 3600.0}]
    found = study(records)
    assert found.base("informative", 0).stage == "confirm"
    assert found.base("informative", 0, stage="develop").stage == "develop"
    assert found.base("informative", 0, stage="long").stage == "develop"  # whatever there is
    assert [b.stage for b in found.bases()] == ["confirm"]
    text = page(records)
    assert "bases: 1 informative." in text
    assert "1 bases from 1 trunks, 1.1 hours recorded" in text
    assert set(found.bases()[0].by_temperature) == {"0.7", "1.0"}
    assert set(parse([{**base(), "temperatures": None}]).bases[0].by_temperature) == {"1"}


def test_pairs_that_were_run_at_two_settings_are_named():
    text = missing(study([base(), run("dare", lr=1e-4), run("dare", lr=3e-4), run("ttrl")]), {})
    assert "more than one setting" in text
    assert "informative/0/dare/0" in text
    assert "ttrl" not in text


# outcomes


def test_scores_are_paired_by_base_seed_and_prompt():
    records = [base(), run("dare", seed=0), run("dare", seed=1), run("ttrl", seed=1), run("ttrl", seed=2)]
    found = study(records)
    terms = {("dare", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}
    [[values]] = found.scores("confirm", "informative", terms)
    right = [np.array(r["evaluations"][-1]["sets"]["adapted"]["right"]) for r in (records[2], records[3])]
    np.testing.assert_allclose(values, (right[0] - right[1]) / N)
    assert found.scores("confirm", "confident", terms) == []
    gain = found.scores("confirm", "informative", {("dare", "pass@1"): 1.0, (BASE, "maj@64"): -1.0})
    assert [len(b) for b in gain] == [2]
    [[alone]] = found.scores("confirm", "informative", {(BASE, "pass@1"): 1.0})
    np.testing.assert_allclose(alone, np.array(records[0]["evaluation"]["sets"]["adapted"]["right"]) / N)


def test_the_final_step_counts_and_not_the_best():
    record = run("dare", share=0.2)
    record["evaluations"][0]["sets"]["adapted"]["right"] = [16] * PROMPTS
    found = study([base(), record])
    [[values]] = found.scores("confirm", "informative", {("dare", "pass@1"): 1.0})
    np.testing.assert_allclose(values, np.array(record["evaluations"][-1]["sets"]["adapted"]["right"]) / N)


def test_the_factorial_is_the_hand_made_one():
    shares = {"ttrl": 10, "empo": 20, "weighted_vote": 40, "dare_dist": 58}
    records = grid(shares, bases=1, seeds=1)
    for r in records:
        r["evaluations"][-1]["sets"]["adapted"]["right"] = [shares[r["arm"]]] * PROMPTS
    found = factors(study([base(), *records]), "informative")
    assert found["soft label"].estimate == pytest.approx((10 + 18) / 2 / N)
    assert found["entropy"].estimate == pytest.approx((30 + 38) / 2 / N)
    assert found["interaction"].estimate == pytest.approx((18 - 10) / 2 / N)


def test_convergence_measures():
    records = parse([base(), run("dare")])
    r, b = records.runs[0], records.bases[0]
    start, middle, end = (
        np.mean(np.array(e["sets"]["adapted"]["right"]) / e["sets"]["adapted"]["n"])
        for e in (base()["evaluation"], *run("dare")["evaluations"])
    )
    assert area(r, b) == pytest.approx((start + 2 * middle + end) / 4)
    steps = reached(r, b)
    for gain, step in zip(GAINS, steps):
        assert step == (2 if middle >= start + gain else 4 if end >= start + gain else None)


def test_format_and_reasoning_add_up():
    record = run("dare", share=0.5)
    record["evaluations"][-1]["sets"]["adapted"]["parsed"] = 0.99
    records = parse([base(), record])
    r, b = records.runs[0], records.bases[0]
    total = np.mean(r.final.sets["adapted"].right_P - b.evaluation.sets["adapted"].right_P) / N
    assert _formatting(r, b) + reasoning_gain(r, b) == pytest.approx(total)
    assert _formatting(r, b) > 0


def test_a_curve_starts_at_a_step_0_of_the_same_families():
    def curve_of(own, of_base):
        records = parse([of_base, own])
        return curve(records.runs[0], records.bases[0])

    assert [step for step, _ in curve_of(run("dare"), base())] == [0, 2, 4]
    foreign = base()
    foreign["evaluation"]["sets"]["adapted"]["family"] = ["sort"] * PROMPTS
    assert [step for step, _ in curve_of(run("dare"), foreign)] == [2, 4]
    own = run("dare")
    own["evaluations"].append(evaluation(np.random.default_rng(0), 0, 0.9))
    found = curve_of(own, foreign)
    assert [step for step, _ in found] == [0, 2, 4]
    assert found[0][1] > 0.7
    records = parse([foreign, run("dare")])
    assert reached(records.runs[0], records.bases[0]) == [None] * len(GAINS)
    assert [step for step, _ in curve(records.runs[0], None)] == [2, 4]


def test_a_family_is_its_prompts():
    records = [run("dare"), run("ttrl")]
    for r, right in zip(records, (40, 20)):
        r["evaluations"][-1]["sets"]["adapted"]["right"] = [right, 10] * (PROMPTS // 2)
    terms = {("dare", "pass@1"): 1.0, ("ttrl", "pass@1"): -1.0}
    found = study(records)
    assert found.contrast("confirm", "informative", terms, family="shift").estimate == pytest.approx(20 / N)
    assert found.contrast("confirm", "informative", terms, family="sub").estimate == 0
    assert found.contrast("confirm", "informative", terms).estimate == pytest.approx(10 / N)
    assert "| informative | adapted | shift | 1 on 1 base | +31.2 |" in families(found)


def test_the_bar():
    shares = {"informative": 0.45, "uninformative": 0.36, "confident": 0.37}
    records = [r for g, s in shares.items() for r in grid({"ttrl": 0.36, "dare_plus": s}, regime=g, seeds=2)]
    records += grid({"dare": 0.45}, seeds=2)
    text = bar(study(records))
    assert re.search(r"\| dare_plus \|.*\*\*passes\*\* \|", text)
    assert "| dare |" in text
    assert text.endswith("Passing: dare_plus.")


def test_what_comes_nearest_to_the_bar():
    shares = {"dare": (0.48, 0.36, 0.12), "dare_plus": (0.45, 0.36, 0.20), "empo": (0.36, 0.36, 0.36)}
    at = list(zip(("informative", "uninformative", "confident"), zip(*shares.values(), strict=True), strict=True))
    records = [
        r for g, found in at for r in grid({"ttrl": 0.36, **dict(zip(shares, found, strict=True))}, regime=g, seeds=2)
    ]
    said = bar(study(records)).splitlines()[-1]
    assert "No arm that was run in all regimes passes. Of these empo has the highest lowest difference" in said
    assert "Of those that are better in the informative regime dare_plus has the highest lowest difference" in said


def test_runs_at_other_settings_meet_the_vote_at_theirs_or_that_of_confirm():
    def at(right, arm, stage="sensitivity", **knobs):
        record = run(arm, stage=stage, **{"temperature": 1.0, **knobs})
        record["settings"]["lr"] = record["lr"]
        record["evaluations"][-1]["sets"]["adapted"]["right"] = [right] * PROMPTS
        return record

    records = [
        at(30, "ttrl", "confirm"),
        at(44, "ttrl", "confirm", seed=1),
        at(36, "dare", "confirm"),
        at(0, "dare", "confirm", seed=1, params={"eps": 9.0}),
        at(40, "dare", params={"eps": 0.01}),
        at(42, "dare", params={"eps": 0.1}),
        at(42, "dare", params={"weight": "sqrt"}),
        at(40, "dare", temperature=0.7),
        at(20, "ttrl", temperature=0.7),
        at(44, "dare", temperature=0.7, params={"eps": 0.1}),
        at(40, "dare", temperature=1.3),
        at(40, "dare", lr=3e-4),
        at(41, "dare", params={"eps": 0.01}, seed=1),
        at(40, "weighted_vote", params={"eps": 1e-6}),
    ]
    lines = [line.strip("| ").split(" | ") for line in sensitivity(study(records)).splitlines() if "| lr " in line]
    rows = {(c[1], c[2]): [c[3], *c[-4:]] for c in lines}
    assert list(rows) == [
        ("ttrl", "lr 0.0001, temperature 0.7"),
        ("weighted_vote", "lr 0.0001, temperature 1.0, eps 1e-06"),
        ("dare", "lr 0.0001, temperature 0.7"),
        ("dare", "lr 0.0001, temperature 0.7, eps 0.1"),
        ("dare", "lr 0.0001, temperature 1.0, eps 0.01"),
        ("dare", "lr 0.0001, temperature 1.0, eps 0.1"),
        ("dare", "lr 0.0001, temperature 1.0, weight sqrt"),
        ("dare", "lr 0.0001, temperature 1.3"),
        ("dare", "lr 0.0003, temperature 1.0"),
    ]
    nothing = ["-", "-", "-"]
    assert rows["ttrl", "lr 0.0001, temperature 0.7"] == ["1", *nothing, "-15.6 (1)"]
    assert rows["weighted_vote", "lr 0.0001, temperature 1.0, eps 1e-06"] == ["1", "+15.6", "-", "1", "-"]
    assert rows["dare", "lr 0.0001, temperature 0.7"] == ["1", "+31.2", "-", "1", "+6.2 (1)"]
    assert rows["dare", "lr 0.0001, temperature 0.7, eps 0.1"] == ["1", "+37.5", "-", "1", "+12.5 (1)"]
    assert rows["dare", "lr 0.0001, temperature 1.0, eps 0.01"] == ["2", "+5.5", "-", "2", "+6.2 (1)"]
    assert rows["dare", "lr 0.0001, temperature 1.0, weight sqrt"] == ["1", "+18.8", "-", "1", "+9.4 (1)"]
    assert rows["dare", "lr 0.0001, temperature 1.3"] == ["1", *nothing, "+6.2 (1)"]
    assert rows["dare", "lr 0.0003, temperature 1.0"] == ["1", *nothing, "+6.2 (1)"]


def test_a_vote_with_the_same_parameter_comes_first():
    records = [run(a, stage="sensitivity", params={"no_answer": "official"}) for a in ("empo", "ttrl")]
    records += [run("ttrl", stage="sensitivity"), run("ttrl")]
    for r, right in zip(records, (40, 20, 30, 30)):
        r["evaluations"][-1]["sets"]["adapted"]["right"] = [right] * PROMPTS
    assert re.search(
        r"\| empo \| lr 0.0001, no_answer official \| .* \| \+31.2 \| - \| 1 \| - \|", sensitivity(study(records))
    )


def test_a_setting_says_the_learning_rate_once():
    records = [run(a, stage="develop", lr=lr) for a in ("dare", "ttrl") for lr in (1e-4, 3e-4)]
    records.append(run("dare", stage="develop", lr=1e-4, seed=1, params={"eps": 0.01}))
    for r in records:
        r["settings"]["lr"] = r["lr"]
    text = scan(study(records))
    assert "| lr 0.0003 |" in text
    assert "| lr 0.0001, eps 0.01 |" in text
    assert ", lr" not in text


def test_a_develop_run_never_meets_a_confirm_run():
    text = scan(study([run("dare", stage="develop"), run("ttrl")]))
    assert re.search(r"\| dare \| lr 0.0001 \| .* \| - \| - \| - \|", text)


def test_rank_correlation():
    assert rank_correlation([1, 2, 3, 4, 5], [1, 4, 9, 16, 25])[0] == pytest.approx(1)
    rho, p = rank_correlation([1, 2, 3, 4, 5], [5, 4, 3, 2, 1])
    assert rho == pytest.approx(-1)
    assert p == pytest.approx(2 / 120, abs=0.01)
    assert rank_correlation([1, 2, 2, 4], [1, 3, 2, 4])[0] == pytest.approx(0.9486833)  # ties: Pearson of mean ranks
    assert np.isnan(rank_correlation([1, 2], [1, 2])[0])
    assert np.isnan(rank_correlation([1, 1, 1], [1, 2, 3])[0])


# sentences


def constant(value, noise=0.0, *, bases=4):
    rng = np.random.default_rng(0)
    return contrast([[value + rng.normal(0, noise, 6) for _ in range(4)] for _ in range(bases)], resamples=500)


def test_sentences_say_what_the_interval_allows():
    def say(found, **knobs):
        return sentence("A", "B", found, margin=0.01, **knobs)

    assert say(constant(0.05, 0.01)).startswith("Better: A minus B is +5.")
    assert say(constant(-0.05, 0.01)).startswith("Worse: A minus B is -")
    assert say(constant(0.004, 0.001)).startswith("Better, by less than 1 point: ")
    assert say(constant(0.0, 0.005)).startswith("Equivalent: ")
    undecided = say(constant(0.02, 0.5))
    assert undecided.startswith("Undecided: ")
    assert "do not tell" in undecided
    assert "Better" not in undecided
    assert say(constant(0.05, 0.01), p=0.2).startswith("Undecided, Holm-corrected")
    assert say(None) == "A against B: not run."
    single = say(constant(0.05, 0.01, bases=1))
    assert single.startswith("Undecided")
    assert "no interval from a single base" in single
    disagreeing = contrast([[np.full(6, v)] * 4 for v in (0.01, 0.02, 0.05, 0.2)], resamples=2000)
    assert disagreeing.over_bases.low < 0 < disagreeing.bootstrap.low
    assert say(disagreeing).startswith("Better: ")
    assert say(disagreeing).endswith("says undecided.")


def test_overall_verdicts():
    assert overall([]) == "not run"
    assert overall(["better", "better"]) == "holds"
    assert overall(["better", "undecided"]) == overall(["better", "worse"]) == "in part"
    assert overall(["undecided", "undecided"]) == "undecided"
    assert overall(["worse", "equivalent"]) == "does not hold"
    assert overall(["worse", "undecided"]) == "does not hold where decided"


def test_claims_follow_the_numbers(full):
    claims = {c.title: c for c in judge_training(study(full))}
    assert len(claims) == len(CLAIMS)
    first = claims["dare ends above ttrl"]
    assert first.verdict == "in part"
    assert re.search(r"informative \+\d+\.\d \[.*?\] \(8 on 4 bases\), better", first.finding)
    assert re.search(r"confident -\d+\.\d \[.*?\] \(8 on 4 bases\), worse", first.finding)
    assert claims["dare ends above the other label-free methods"].scope.endswith("(not run: confident)")
    assert claims["dare degrades less than the vote as rollouts become correlated"].verdict == "described only"
    assert {c.verdict for c in judge_training(study([]))} == {"not run"}


def test_undecided_runs_are_called_undecided():
    rng = np.random.default_rng(5)
    records = [base(number=b) for b in range(4)]
    for b, s, arm in product(range(4), range(2), ("dare", "ttrl")):
        records.append(run(arm, number=b, seed=s, share=0.4 + rng.normal(0, 0.1)))
    text = page(records)
    assert "Undecided: dare minus ttrl" in section(text, "Primary contrast")
    claims = {c.title: c.verdict for c in judge_training(study(records))}
    assert claims["dare ends above ttrl"] == "undecided"
    assert "holds" not in claims.values()


# the page


def test_the_page_of_everything(full):
    text = page(full, wanted={("confirm", "informative", "dare"): 16, ("confirm", "confident", "gt"): 6})
    assert "nan" not in text
    assert "inf]" not in text
    assert "341,856 parameters" in text
    assert "Better: dare minus ttrl" in section(text, "Primary contrast")
    assert "An interim look: 8 of the 16 planned pairs" in section(text, "Primary contrast")
    assert "Stage `pilot`, 4 pairs on 2 bases" in section(text, "Primary contrast")
    assert "* confident: Worse: dare minus ttrl" in section(text, "The same contrast in the other regimes")
    assert "dare_dr_grpo - ttrl_dr_grpo" in section(text, "Secondary contrasts")
    assert "### informative, ood" in section(text, "What every arm reaches")
    assert "| base | - |" in section(text, "What every arm reaches")
    assert "lr 3e-05" in section(text, "What was tried on develop")
    assert re.search(r"\| dare \| 2 \| lr .* \| 0.0001 \|", section(text, "What was tried on develop"))
    assert re.search(r"\| dare \| lr 0.0001, alpha 0.3 \| 1 \| .* \| 1 \| .* \(1\) \|", section(text, "Sensitivity"))
    assert "| informative | ood | shift | 8 on 4 bases |" in section(text, "By family of tasks")
    bars = section(text, "Which method passes the bar?")
    assert "| dare_dist_bonus |" in bars
    assert "**open: not run in uninformative, confident**" in bars
    assert "No arm that was run in all regimes passes. Of these dare has" in bars
    assert "| 50 | use | 4 | 0 | 0 |" in section(text, "Preflight")
    assert "| 50 | undecided | 2 | 0 | 0 | 67%, 100% |" in section(text, "Preflight")
    open_cells = section(text, "What was not run")
    assert "| confirm | informative | dare | 16 | 8 |" in open_cells
    assert "| confirm | confident | gt | 6 | 0 |" in open_cells
    assert "confirm/informative/3/gt/9" in open_cells
    for name in figures(study(full)):
        assert f"(training-{name}.svg)" in text


def test_holm_covers_every_row_but_the_primary(full):
    rows = secondary(study(full))
    names = [(s.regime, s.arm, s.rival) for s in rows]
    assert len(set(names)) == len(names)
    assert ("informative", "dare", "ttrl") not in names
    assert ("confident", "dare", "ttrl") in names
    assert ("informative", "dare", "dare_shuffled") in names
    assert all(s.p >= s.found.deciding_p for s in rows)


@pytest.mark.parametrize(
    "keep",
    [
        lambda r: False,
        lambda r: r["record"] == "base",
        lambda r: r["record"] == "run",
        lambda r: r["record"] == "preflight",
        lambda r: r.get("stage") == "pilot",
        lambda r: r["record"] == "base" or r.get("arm") == "ttrl",
        lambda r: r.get("regime") == "confident" and r.get("base") == 0,
        lambda r: r.get("stage") in {"develop", "long", "sensitivity"},
    ],
)
def test_the_page_of_any_subset(full, keep):
    text = page([r for r in full if keep(r)], wanted={("confirm", "informative", "dare"): 16})
    assert "nan" not in text
    assert "| confirm | informative | dare | 16 |" in section(text, "What was not run") or "dare" in text


def test_bare_records_do():
    bare = {k: v for k, v in base().items() if k not in {"treatments", "temperatures", "families", "pretraining"}}
    records = [bare, *grid({"dare": 0.4, "ttrl": 0.3}, bases=1, seeds=2)]
    for r in records[1:]:
        r["steps"] = {}
        r["evaluations"] = r["evaluations"][-1:]
        del r["evaluations"][0]["sets"]["ood"], r["settings"]
    text = page(records)
    assert "Undecided: dare minus ttrl" in text
    assert "nan" not in text


def test_nothing_is_missing_when_all_is_there():
    found = study([base(), run("dare")])
    assert missing(found, {("confirm", "informative", "dare"): 1}) == "Every planned cell was run."
    assert "informative/0" in missing(study([run("dare")]), {})


def test_figures(full, tmp_path):
    pytest.importorskip("matplotlib")
    found = study(full)
    paths = draw_training(tmp_path, found)
    assert [p.name for p in paths] == [f"training-{name}.svg" for name in figures(found)]
    assert len(paths) == 5
    assert all(p.read_text().startswith("<?xml") for p in paths)
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in draw_training(tmp_path, found)] == before
    assert len(gains(found)) == 12
    assert draw_training(tmp_path / "none", study([])) == []


@pytest.fixture
def place(full, tmp_path):
    """A folder with the records of a few runs in a work file."""
    found = Place(tmp_path)
    append(found.work, [r for r in full if r["record"] != "note" and r.get("base") == 0])
    return found


def test_pack_keeps_every_record_and_the_page_follows_from_the_summary(place, monkeypatch, capsys):
    monkeypatch.setattr("dare_research.page.summary.RESAMPLES", 300)
    monkeypatch.setattr("dare_research.publish.RESAMPLES", 300)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    command = ["study", "report", "--out", str(place.root)]
    work = place.work.read_text()
    assert main(command) == 0
    assert "'.[plots]'" in capsys.readouterr().err
    page = place.page("training").read_text()
    assert main(["study", "pack", "--out", str(place.root)]) == 0
    assert not place.work.exists()
    assert read(place.packed) == work
    assert place.page("training").read_text() == page
    place.page("training").unlink()
    assert main(command) == 0
    assert place.page("training").read_text() == page
    assert unpack(place).read_text() == work
    assert main(["study", "pack", "--out", str(place.root / "nowhere")]) == 2


@pytest.fixture
def records_alone(monkeypatch):
    """Packing makes neither summary nor page."""
    monkeypatch.setattr("dare_research.publish.summarise", lambda records: {"records": [], "contrasts": {}})
    monkeypatch.setattr("dare_research.publish.publish", lambda place: [])


@pytest.fixture(params=[pack, unpack])
def rewrite(request, place, records_alone):
    """What replaces or removes the work file; `unpack` finds the records packed."""
    if request.param is unpack:
        pack(place)
    return request.param


@pytest.mark.usefixtures("records_alone")
def test_packing_again_changes_no_byte_and_loses_no_record(place):
    ids = [r["id"] for r in read_records(place.work)]
    pack(place)
    packed = place.packed.read_bytes()
    place.packed.write_bytes(gzip.compress(gzip.decompress(packed), 1, mtime=0))  # as another zlib would
    other = place.packed.read_bytes()
    unpack(place)
    pack(place)
    assert place.packed.read_bytes() == other != packed
    append(place.work, [{"record": "trunk", "id": "trunk-9"}])
    pack(place)
    assert [r["id"] for r in read_records(place.packed)] == [*ids, "trunk-9"]


def test_a_run_that_ends_while_others_are_packed_or_unpacked_is_kept(place, monkeypatch, rewrite):
    """The other process waits, and appends to what is there then."""
    ids = [r["id"] for r in read_records(*place.records)]
    ends, late = threading.Event(), [{"record": "trunk", "id": "trunk-9"}]
    other = threading.Thread(target=lambda: (ends.wait(60), append(place.work, late)))
    other.start()

    def write_while_a_run_ends(path, text):
        if not ends.is_set():
            ends.set()
            other.join(0.2)
            assert other.is_alive()
        write(path, text)

    monkeypatch.setattr(
        f"{'dare_research.publish' if rewrite is pack else read_records.__module__}.write", write_while_a_run_ends
    )
    rewrite(place)
    other.join(60)
    assert [r["id"] for r in read_records(*place.records)] == [*ids, "trunk-9"]


def test_a_run_that_ends_just_before_or_after_the_lock_is_kept(place, monkeypatch, rewrite):
    ids = [r["id"] for r in read_records(*place.records)]

    def ends(name):
        with place.work.open("a") as file:
            file.write(lines([{"record": "trunk", "id": name}]))

    @contextmanager
    def held(folder):
        ends("before")
        with locked(folder):
            yield
        ends("after")

    monkeypatch.setattr(f"{rewrite.__module__}.locked", held)
    rewrite(place)
    assert [r["id"] for r in read_records(*place.records)] == [*ids, "before", "after"]


def test_an_empty_work_file_says_nothing_new(place, monkeypatch):
    """A process that was killed before its first record leaves one."""
    records = read_records(place.work)
    write(place.packed, place.work.read_text())
    place.work.write_text("")
    assert read_records(*place.records) == records
    assert unpack(place).read_text() == read(place.packed)
    place.packed.unlink()
    place.work.write_text("")
    assert read_records(*place.records) == []


def test_a_line_that_was_cut_off_costs_no_other(tmp_path):
    file = tmp_path / "training.jsonl"
    append(file, [{"id": "a"}, {"id": "b"}])
    file.write_bytes(file.read_bytes()[:-4])
    append(file, [{"id": "c"}])
    assert [r["id"] for r in read_records(file)] == ["a", "c"]


def test_a_summary_says_what_it_lacks(full):
    summary = summarise([r for r in full if r["record"] == "base" and r["base"] == 0])
    found = restore(summary, command=COMMAND)
    with pytest.raises(RequestError, match=r"no contrast 'confirm informative adapted \+1 dare pass@8'"):
        found.contrast("confirm", "informative", {("dare", "pass@8"): 1.0})


# what is committed


def test_the_committed_checksums_are_those_of_the_committed_results():
    folder = STUDY.packed.parent
    stated = dict(reversed(line.split("  ")) for line in (folder / SUMS).read_text().splitlines())
    assert set(stated) == {p.name for p in folder.glob("[!.]*") if p.suffix != ".jsonl"} - {SUMS}
    for name, digest in stated.items():
        assert sha256((folder / name).read_bytes()).hexdigest() == digest, name


def test_the_committed_page_is_what_the_committed_summary_says():
    found = restore(json.loads(read(STUDY.summary)), command=COMMAND)
    assert STUDY.page("training").read_text() == training_page(found)


def test_the_committed_summary_is_what_the_committed_results_say():
    """As far as another NumPy computes the same: in the last digits it may not."""
    committed = json.loads(read(STUDY.summary))
    found = json.loads(write_summary(summarise(read_records(STUDY.packed))))
    assert found["records"] == committed["records"]
    assert found["contrasts"].keys() == committed["contrasts"].keys()
    for key, stated in committed["contrasts"].items():
        assert numbers(found["contrasts"][key]) == pytest.approx(numbers(stated), rel=1e-9, abs=1e-12), key


def numbers(stated):
    """All numbers of a contrast, an end that is not known as 0."""
    values = [v for part in (stated or {}).values() for v in (part if isinstance(part, list) else [part])]
    return [0.0 if v is None else v for v in values]


def test_every_arm_with_results_is_declared_and_a_retired_one_cannot_be_run(capsys):
    arms = {r["arm"] for r in json.loads(read(STUDY.summary))["records"] if r["record"] == "run"}
    assert {a.name for a in ALL_ARMS.values() if "confirm" in a.stages} <= arms <= set(ALL_ARMS)
    assert set(ALL_ARMS) - set(RUNNABLE) == {"dare_plus"}
    assert all(a.local or a.method in methods() for a in RUNNABLE.values())
    with pytest.raises(SystemExit):
        main(["study", "train", "--list", "--arms", "dare_plus"])
    assert "'dare_plus' is none of ttrl, " in capsys.readouterr().err


def test_two_trainers_stand_side_by_side():
    """One OpenRLHF run beside the TRL runs of its base: ends, and quarters of the training curve."""
    from dare_research.page.outcomes import Study
    from dare_research.page.side_tables import trainers
    from dare_research.training.records import parse

    def run(stage, seed, right, curve):
        sets = {"adapted": {"n": 4, "right": right}}
        return {
            "record": "run", "id": f"{stage}/{seed}", "stage": stage, "regime": "informative", "base": 0, "arm": "dare", "seed": seed,
            "lr": 3e-4, "settings": {"steps": 8}, "steps": {"pass1": curve}, "evaluations": [{"step": 8, "sets": sets}],
        }  # fmt: skip

    records = [run("openrlhf", 0, [4, 2], [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4])]
    records += [run("confirm", s, right, [0.5] * 8) for s, right in enumerate(([2, 2], [4, 4]))]
    page = trainers(Study(parse(records)))
    row = next(line for line in page.splitlines() if line.startswith("| informative"))
    assert [c.strip() for c in row.strip("|").split("|")] == [
        "informative", "0", "dare", "2", "-", "75.0", "75.0 (50.0 to 100.0)", "10.0 / 20.0 / 30.0 / 40.0", "50.0 / 50.0 / 50.0 / 50.0",
    ]  # fmt: skip
