"""The real model's labels: weights against a second implementation, spans, fates of bars, and what the pages say."""

import json
import math
from collections import defaultdict
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from dare_research.real_model import derive as derived
from dare_research.real_model import training, training_page
from dare_research.real_model.bootstrap import draws, estimate
from dare_research.real_model.page import evidence, page
from dare_research.real_model.sample import COLUMNS, SampledQuestion, compact, pack_runs, read
from dare_research.real_model.weights import WEIGHTS, label_right
from dare_research.results import read as unpacked
from dare_reward.answers.classes import grades
from dare_reward.answers.labels import read_labels

RESEARCH = Path(__file__).parents[1]
SUMMARY = RESEARCH / "results" / "real-model.summary.json"


def question(seed, *, size=64, answers=4, family="f"):
    rng = np.random.default_rng(seed)
    paths = [(int(rng.integers(-1, answers)), int(rng.integers(1, 5))) for _ in range(12)]
    chosen = rng.integers(0, len(paths), size)
    columns = {name: rng.exponential(1.0, len(paths))[chosen] for name in COLUMNS}
    columns |= {name: -columns[name] for name in COLUMNS if name.endswith("logprob")}
    columns |= {"path": chosen.astype(float), "tokens": np.array([n for _, n in paths], float)[chosen]}
    columns |= {"span": np.maximum(columns["tokens"] - 1, 1)}
    return SampledQuestion(
        f"q{seed}", family, "text", "?", ("0",), ("",) * size, np.array([a for a, _ in paths])[chosen],
        (np.arange(answers) == 0).astype(np.int64), tuple(map(str, range(answers))), columns,
    )  # fmt: skip


# --- a second implementation, in plain Python, group by group ---------------------------------------------------------


def plain_mass(q, weight, group):
    """What each answer of the rollouts `group` weighs."""
    by = defaultdict(list)
    for m in group:
        if q.answer_M[m] >= 0:
            by[int(q.answer_M[m])].append(m)
    c = q.columns
    out = {}
    for answer, own in by.items():
        name, _, power = weight.partition("^")
        if name in {"trace", "answer", "answer_open"}:
            column = {"trace": "entropy", "answer": "closed_entropy", "answer_open": "open_entropy"}[name]
            out[answer] = len(own) / (math.fsum(c[column][m] for m in own) / len(own) + 0.05) ** float(power)
        elif weight == "ppc":
            once = {int(c["path"][m]): m for m in reversed(own)}
            out[answer] = math.fsum(math.exp(c["logprob"][m]) for m in once.values())
        elif weight.startswith("p_answer"):
            column = "open_logprob" if weight.endswith("open") else "closed_logprob"
            out[answer] = math.fsum(math.exp(c[column][m]) for m in own)
        elif weight == "tie":
            out[answer] = (len(own), -math.fsum(c["entropy"][m] for m in own) / len(own))
        else:
            out[answer] = len(own)
    return out


def plain_label(q, weight, size):
    found = []
    for start in range(0, len(q.answer_M), size):
        mass = plain_mass(q, weight, range(start, start + size))
        most = max(mass.values(), default=None)
        if isinstance(most, tuple):
            top = [a for a, w in mass.items() if w == most]
        else:
            top = [a for a, w in mass.items() if w >= most * (1 - 1e-12)]
        found.append(sum(bool(q.right_A[a]) for a in top) / len(top) if top else 0.0)
    return sum(found) / len(found)


def plain_auroc(q, score):
    right = [score[m] for m in range(len(score)) if q.answer_M[m] >= 0 and q.right_A[q.answer_M[m]]]
    wrong = [score[m] for m in range(len(score)) if q.answer_M[m] >= 0 and not q.right_A[q.answer_M[m]]]
    pairs = [(a < b) + 0.5 * (a == b) for a in right for b in wrong]
    return sum(pairs) / len(pairs) if pairs else math.nan


@pytest.mark.parametrize("weight", [name for name in WEIGHTS if name != "rpc"])
def test_labels_agree_with_a_second_implementation(weight):
    for seed in range(12):
        for size in (4, 16, 64):
            q = question(seed)
            assert label_right(q, weight, size) == pytest.approx(plain_label(q, weight, size), abs=1e-12)


def test_aurocs_agree_with_a_second_implementation():
    questions = [question(seed) for seed in range(8)]
    found = derived.aurocs(questions, 64)
    for name, of in derived.CERTAINTIES.items():
        expected = [plain_auroc(q, of(q.columns)) for q in questions]
        assert found[f"auroc: {name}"].tolist() == pytest.approx(expected, nan_ok=True)


def test_rpc_is_that_of_the_product():
    q = question(3)
    assert 0 <= label_right(q, "rpc", 16) <= 1


# --- the small form ---------------------------------------------------------------------------------------------------


def test_the_small_form_tells_the_answers_tokens():
    """One token a character here. The answer's are `Rome`, the line break ends it; the rest is the thought."""

    def rollout(text, end="\n\n"):
        ids = [ord(c) for c in text + end]
        entropies = [1.0] * len(ids)
        if "Rome" in text:
            at = text.index("Rome")
            entropies[at : at + 5] = [0.1, 0.2, 0.3, 0.4, 0.5]
        logprobs = [-h for h in entropies]
        return {
            "text": text,
            "finish_reason": "stop",
            "token_ids": ids,
            "token_entropies": entropies,
            "token_logprobs": logprobs,
        }

    texts = [
        " In Italy.\nAnswer: Rome",
        " In Italy.\nAnswer: Rome",
        " Hm, it is hard to say, and I do not know it at all, so I do not answer.",
        " It is Oslo.\nAnswer: Oslo",
        " Oslo",
    ]
    group = {
        "group_id": "x", "kind": "text", "prompt": "?", "label": "Roma",
        "meta": {"family": "capital", "accepted": ["Rome"]}, "rollouts": [rollout(t) for t in texts],
    }  # fmt: skip
    line = compact(group, lambda ids: "".join(map(chr, ids)), {"unmarked": "none"})
    assert line["answer"] == [0, 0, -1, 1, -1]
    assert line["answers"] == ("Rome", "Oslo")
    assert line["right"] == [1, 0]
    assert line["path"] == [0, 0, 1, 2, 3]
    assert line["span"] == [4, 4, 0, 4, 0]
    assert line["closed_entropy"][:3] == [0.3, 0.3, 1.0]
    assert line["open_entropy"][0] == 0.25
    assert line["first_entropy"][0] == 0.1
    assert line["open_logprob"][0] == -1.0
    assert line["closed_logprob"][0] == -1.5
    assert line["logprob"][0] == pytest.approx(-(len(texts[0]) + 2 - 5) - 1.5)


def test_runs_are_packed_once_and_stay(tmp_path):
    target = tmp_path / "runs.jsonl.gz"
    for number, arm in enumerate(("ttrl", "dare"), 1):
        folder = tmp_path / arm
        folder.mkdir()
        (folder / "before-bare.json").write_text("{}")
        (folder / "x.json").write_text(json.dumps({"form": "bare", "size": 16, "arm": arm, "seed": 0}))
        assert pack_runs(folder, target) == pack_runs(folder, target) == number


# --- intervals and bars -----------------------------------------------------------------------------------------------


def test_draws_keep_each_familys_number():
    drawn = draws(["a", "b", "a", "a"], count=50)
    assert (drawn[:, [0, 2, 3]].sum(axis=1) == 3).all()
    assert (drawn[:, 1] == 1).all()
    assert len({tuple(row) for row in drawn.tolist()}) > 5


def test_an_interval_covers_its_mean_and_leaves_out_what_is_no_number():
    values = np.array([1.0, 2.0, 3.0, np.nan] * 10)
    found = estimate(values, draws(["a"] * 40))
    assert found.questions == 30
    assert found.low < found.low90 < found.estimate == 2.0 < found.high90 < found.high
    assert found.p < 0.001


@pytest.mark.parametrize(
    ("kind", "than", "row", "fate"),
    [
        ("above", 0.0, (0.01, 0.005, 0.02, 0.004), "met"),
        ("above", 0.0, (0.01, 0.005, 0.02, 0.06), "open"),
        ("above", 0.0, (0.01, -0.005, 0.02, 0.004), "open"),
        ("above", 0.0, (-0.01, -0.02, 0.02, 0.5), "missed"),
        ("within", 0.02, (0.01, 0.0, 0.019, 1.0), "met"),
        ("within", 0.02, (0.01, 0.0, 0.03, 1.0), "open"),
        ("within", 0.02, (0.03, 0.0, 0.06, 1.0), "missed"),
        ("not below", -0.02, (0.0, -0.019, 0.02, 1.0), "met"),
        ("not below", -0.02, (0.0, -0.03, 0.02, 1.0), "open"),
        ("not below", -0.02, (-0.03, -0.05, 0.02, 1.0), "missed"),
    ],
)
def test_the_fate_of_a_bar(kind, than, row, fate):
    value, low, high, p = row
    found = {"kind": kind, "than": than, "estimate": value, "low": low, "high": high, "low90": low, "high90": high}
    assert derived._fate(found | ({"holm": p} if kind == "above" else {})) == fate


# --- from rollouts to pages -------------------------------------------------------------------------------------------


def test_all_figures_and_pages_come_of_the_questions(monkeypatch):
    """A form whose right answers have less entropy meets the bars that say so; a family that nobody solves is left out."""
    monkeypatch.setattr(derived, "DRAWN", 4)
    questions = []
    for seed in range(48):
        q = question(seed, family="ab"[seed % 2])
        q.columns["entropy"][:] = np.where(q.right_M > 0, 0.1, 0.9) + q.columns["entropy"] / 10
        questions.append(q)
    hopeless = question(99, family="hopeless")
    hopeless.right_A[:] = 0
    names = [n for n in WEIGHTS if n != "rpc"]
    form = derived.derive([*questions, hopeless], weights=names)
    assert form["left_out"] == ["hopeless"]
    assert form["sizes"]["64"]["label: vote"]["questions"] == 48
    monkeypatch.setattr(derived, "labelled_draws", None)  # another weight draws no labels again
    others = [n for n in names if n != "p_answer_open"]
    again = derived.derive([*questions, hopeless], weights=others, draws_before=form["draws"])
    assert again["draws"] == form["draws"]
    assert form["sizes"]["64"].keys() - again["sizes"]["64"].keys() == {"label: p_answer_open", "gain: p_answer_open"}
    form["weights"] = names
    both = {"forms": {"bare": form, "reasoned": form}}
    both["bars"] = derived.bars(both["forms"])
    assert [b["bar"] for b in both["bars"]] == [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]
    assert both["bars"][0]["fate"] == "met"
    json.dumps(both, allow_nan=False)
    text = page(json.loads(json.dumps(both)))
    assert all(f"E8 {n}" in text and f"E9 {n}" in text for n in range(1, 7))
    assert evidence(both).count("\n") == 11
    assert len(form["flips"]) == text.count("\n* ") / 2


# --- training -----------------------------------------------------------------------------------------------------


def record(form, size, arm, seed, gain, *, noise=0):
    """A run after which each of 24 questions has `gain` more of 16 rollouts right, two seeds `noise` apart."""
    names = [f"q{i}" for i in range(24)]
    before = {n: 4 + i % 3 for i, n in enumerate(names)}
    after = {n: v + gain + noise * (seed - 1) for n, v in before.items()}
    log = [dict.fromkeys(training.CURVES, 0.5 + step / 100) for step in range(6)]
    answers = {n: {"a0": after[n], "a1": 16 - after[n]} for n in names}
    return {"form": form, "size": size, "arm": arm, "seed": seed, "evaluated": 16, "unseen": names[16:], "before": before,
            "after": after, "answers": answers, "exponent": 1.0, "log": log}  # fmt: skip


def trained(gains, seeds=(0, 1, 2)):
    lines = [
        json.dumps(record(form, size, arm, seed, gain, noise=arm == "both"))
        for (form, size, arm), gain in gains.items()
        for seed in seeds
    ]
    sampled = {
        form: [replace(question(i), id=f"q{i}", accepted=("a0", "a5")) for i in range(24)]
        for form in ("bare", "reasoned")
    }
    return training.learnt(lines, sampled)


def arms(name, gain=2):
    form, size, names = training.COMPARED[name]
    return {(form, size, arm): gain for arm in names}


BARE = arms("bare")
OPEN = {10: (None, False), 12: (None, False), 13: (None, False)}


def fates(figures):
    return {b["bar"]: (b["fate"], b["null"]) for b in figures["bars"]}


def test_a_training_bar_needs_both_intervals_and_holm(tmp_path):
    """gt_quarter is 6.25 points above in every seed, met; `both` is above by as much as its seeds differ, open."""
    figures = trained({**BARE, ("bare", 16, "gt_quarter"): 3, ("bare", 16, "both"): 3})
    assert fates(figures) == {7: ("met", True), 8: ("met", False), 9: ("open", False), **OPEN}
    both = figures["bars"][2]["figure"]
    shares = np.array([0, 1, 2]) / 16
    half = scipy.stats.t.ppf(0.975, 2) * shares.std(ddof=1) / 3**0.5
    assert both["t"] == pytest.approx([1 / 16 - half, 1 / 16 + half], abs=1e-5)
    assert both["p"] == pytest.approx(scipy.stats.ttest_1samp(shares, 0).pvalue, abs=1e-5)
    assert figures["bars"][1]["holm"] == pytest.approx(3 * figures["bars"][1]["figure"]["p"])
    text = training_page.page(figures)
    assert text.splitlines()[2].startswith("**A null: `dare` - `ttrl` (bare, adapted)")
    assert "15 of 15 (bare, 16 rollouts), 0 of 12 (reasoned, 8 rollouts), 0 of 6 (bare, 8 rollouts)" in text
    assert all(f"E8 {n}" in text for n in (7, 8, 9, 10))
    assert training_page.evidence(figures).count("\n") == 11
    (drawn,) = training_page.draw(tmp_path, figures)
    assert all(f">{title}<" in drawn.read_text() for title in training.CURVES.values())


@pytest.mark.parametrize(
    ("t", "bootstrap", "holm", "fate"),
    [
        ([0.01, 0.03], [0.01, 0.03], 0.04, "met"),
        ([-0.01, 0.05], [0.01, 0.03], 0.04, "open"),
        ([0.01, 0.03], [-0.01, 0.05], 0.04, "open"),
        ([0.01, 0.03], [0.01, 0.03], 0.06, "open"),
        (None, [0.01, 0.03], 0.04, "open"),
    ],
)
def test_each_interval_alone_keeps_a_training_bar_open(t, bootstrap, holm, fate):
    found = {"kind": "above", "than": 0.0, "holm": holm}
    assert training._fate(found | {"figure": {"estimate": 0.02, "t": t, "bootstrap": bootstrap}}) == fate


def test_the_runs_of_the_other_parts_take_their_places(tmp_path):
    """E8's reasoned runs alone, then E9's: of the bare form with 8 rollouts, and beside `dare` of E8."""
    reasoned = {**BARE, **arms("reasoned"), ("reasoned", 8, "dare"): 3}
    figures = trained(reasoned)
    assert fates(figures)[10] == ("met", False)
    assert fates(figures)[13] == (None, False)
    assert "9 of 12 (reasoned, 8 rollouts)" in training_page.page(figures)
    before = figures["forms"]
    more = {**arms("bare-8", 4), ("bare", 8, "ppc"): 5, ("reasoned", 8, "dare_answer"): 3}
    figures = trained({**reasoned, **more})
    assert {name: figures["forms"][name] for name in before} == before  # `ttrl` with 16 rollouts is that of E8
    assert fates(figures)[12] == ("met", False)
    assert fates(figures)[13] == ("missed", True)
    twelve, thirteen = figures["bars"][4:]
    assert (twelve["contrast"], thirteen["contrast"]) == ("`ppc` - `ttrl`", "`dare_answer` - `dare`")
    assert twelve["figure"]["estimate"] == 1 / 16
    assert twelve["holm"] == 2 * twelve["figure"]["p"]
    text = training_page.page(json.loads(json.dumps(figures)))
    assert "Runs that are in" not in text
    assert "**A null: `dare_answer` - `dare` (reasoned-answer, adapted) is 0.0 points" in text.splitlines()[2]
    assert text.count("minus `dare`") == 1
    assert "the first run of `ppc`" in text
    assert len(training_page.draw(tmp_path, figures)) == 4
    assert all(f"real-model-training-{name}.svg" in text for name in training.COMPARED)


def test_only_whole_blocks_of_the_plan_count():
    runs = [record("bare", 16, arm, seed, 1) for arm in training.COMPARED["bare"].arms for seed in (0, 1, 7)]
    assert set(training.blocks(runs[:-2])["bare"]) == {0}
    assert set(training.blocks(runs)["bare"]) == {0, 1}
    assert training.counts(runs)["bare, 16 rollouts"] == (10, 15)
    assert not training.blocks([{**run, "size": 8} for run in runs])["bare"]


def test_one_seed_decides_nothing():
    figures = trained({**BARE, ("bare", 16, "gt_quarter"): 8}, seeds=(0,))
    assert [b["fate"] for b in figures["bars"]] == ["open", "open", "missed", None, None, None]


# --- what is committed ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def summary():
    return json.loads(SUMMARY.read_text(encoding="utf-8"))


def test_pages_say_what_the_results_say(summary):
    assert summary["bars"] == derived.bars(summary["forms"])
    assert (RESEARCH / "docs" / "real-model.md").read_text(encoding="utf-8") == page(summary)
    tables = [evidence(summary)]
    if runs := summary.get("training"):
        path = RESEARCH / "docs" / "real-model-training.md"
        assert runs["bars"] == training.bars(runs["forms"])
        assert path.read_text(encoding="utf-8") == training_page.page(runs)
        tables.append(training_page.evidence(runs))
    assert all(table in (RESEARCH.parent / "docs" / "evidence.md").read_text(encoding="utf-8") for table in tables)


def test_the_trained_figures_are_those_of_the_committed_runs(summary):
    results = RESEARCH / "results"
    sampled = {form: read(results / f"real-model-{form}.jsonl.gz")[1] for form in ("bare", "reasoned")}
    found = training.learnt(unpacked(results / "real-model-runs.jsonl.gz").splitlines(), sampled)
    assert json.loads(json.dumps(found)) == summary["training"]


def test_the_answers_that_runs_keep_have_their_number_of_right_ones(summary):
    """What the votes are counted from, against what `train.py` graded rollout by rollout."""
    results = RESEARCH / "results"
    questions = {
        form: {q.id: q for q in read(results / f"real-model-{form}.jsonl.gz")[1]} for form in ("bare", "reasoned")
    }
    kept = 0
    for run in map(json.loads, unpacked(results / "real-model-runs.jsonl.gz").splitlines()):
        kept += "answers" in run
        for name, tally in run.get("answers", {}).items():
            q = questions[run["form"]][name]
            right = grades(tally, read_labels(q.accepted, kind=q.kind), kind=q.kind)
            assert sum(n for n, good in zip(tally.values(), right, strict=True) if good) == run["after"][name]
    assert kept == 32


@pytest.mark.parametrize(
    ("tally", "right"),
    [
        ({"Paris": 3, "Rome": 2}, 1.0),
        ({"Paris": 2, "Rome": 2}, 0.5),
        ({"Rome": 3, "paris": 2, "Paris.": 2}, 1.0),
        ({"": 14, "Paris": 2}, 1.0),
        ({"": 16}, 0.0),
        ({}, 0.0),
    ],
)
def test_the_vote_of_what_a_run_answered(tally, right):
    assert training.majority(tally, replace(question(0), accepted=("Paris",))) == right


@pytest.mark.parametrize("form", ["bare", "reasoned"])
def test_headline_figures_follow_from_the_rollouts(summary, form):
    """By the second implementation: what the bars are about."""
    path, found = RESEARCH / "results" / f"real-model-{form}.jsonl.gz", summary["forms"][form]
    assert found["rollouts_sha256"] == sha256(path.read_bytes()).hexdigest()
    assert not found["left_out"]
    _, questions = read(path)
    assert (len(questions), found["questions"], found["rollouts"]) == (360, 360, 64)

    def right(weight, size):
        return sum(plain_label(q, weight, size) for q in questions) / len(questions)

    def auroc(column):
        each = [a for q in questions if not math.isnan(a := plain_auroc(q, q.columns[column]))]
        return sum(each) / len(each)

    assert found["bars"]["auroc above .5"]["estimate"] == pytest.approx(auroc("entropy") - 0.5, abs=1e-5)
    answer = auroc("closed_entropy") - auroc("entropy")
    assert found["bars"]["auroc, answer minus all"]["estimate"] == pytest.approx(answer, abs=1e-5)
    for name, first, second in (
        ("64: trace minus vote", ("trace^1", 64), ("vote", 64)),
        ("8: trace minus vote", ("trace^1", 8), ("vote", 8)),
        ("8: answer minus trace", ("answer^1", 8), ("trace^1", 8)),
        ("8: answer minus tie", ("answer^1", 8), ("tie", 8)),
        ("32: answer minus vote", ("answer^1", 32), ("vote", 32)),
        ("8: ppc minus vote", ("ppc", 8), ("vote", 8)),
        ("ppc at 8 minus vote at 32", ("ppc", 8), ("vote", 32)),
        ("16: ppc minus vote", ("ppc", 16), ("vote", 16)),
    ):
        assert found["bars"][name]["estimate"] == pytest.approx(right(*first) - right(*second), abs=1e-5), name
