"""Totals, verdicts and picks of a run, and the HTML file: what it says, how large it gets, what cannot act in it."""

import base64
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from jsonl import page_data, write_lines
from lines import as_line
from rows import each

from dare_reward.answers import rollouts as reading
from dare_reward.cli import main
from dare_reward.files.reader import Reader
from dare_reward.numbers import CHARTS, LABELLED, NUMBERS, Columns, GroupNumbers, sums
from dare_reward.report import book as books
from dare_reward.report import steps as step_totals
from dare_reward.report.book import RunBook
from dare_reward.report.document import asset, document
from dare_reward.report.picks import reasons
from dare_reward.report.steps import STEPS, Steps
from dare_reward.report.verdict import AT_LEAST, rules_by_step
from dare_reward.report.verdict import run_verdict as judged
from dare_reward.report.view import view
from dare_reward.runs.line import objects, of_scored
from dare_reward.runs.reader import member
from dare_reward.scoring.score import score

EXAMPLE = "examples/arithmetic_m64.jsonl"


def line(step=0, group_id="g", label="1", **keys):
    """A line of a run log with what the totals read."""
    base = {
        "run": "r", "step": step, "group_id": group_id, "method": "ttrl", "config_id": "c", "error": None,
        "answers": [label, label, "2", None], "rewards": [1.0, 1.0, 0.0, 0.0], "keep": [True, True, False, False],
        "valid": [True, True, True, False], "pseudo_label": label, "flags": [], "diagnostics": {"majority_ratio": 0.5},
        "mean_entropies": [0.1, 0.2, 0.4, None], "num_tokens": [3, 5, 8, 4],
        "support": [{"answer": label, "count": 2, "kept": True}, {"answer": "2", "count": 1, "kept": False}],
    }  # fmt: skip
    return as_line(**{**base, **({"label": keys.pop("truth")} if "truth" in keys else {}), **keys})


def book_of(lines):
    book = RunBook()
    for one in lines:
        book.add(one)
    return book


def only(lines):
    (found,) = view(book_of(lines))["runs"]
    return found


def test_tiles_show_measures_and_no_label_that_is_none():
    """What is counted without labels is never called a label: a pseudo-label is the vote's."""
    tiles = {n.name: n.tile for n in NUMBERS if n.tile}
    assert len(tiles) > 10
    assert tiles.keys() <= only([line()])["columns"].keys()
    assert len(set(tiles.values())) == len(tiles)
    curves = {c.key: c.name for chart in CHARTS for c in chart.curves}
    for names in (tiles, curves):
        assert {k for k, name in names.items() if re.search(r"(?<!pseudo-)label", name, re.IGNORECASE)} <= {*LABELLED}


def test_columns_of_one_step():
    found = only([line(), line(group_id="h", label="7", correct=[True, True, False, False])])["columns"]
    expected = {
        "step": [0], "groups": [2], "majority_ratio": [0.5], "distinct_answers": [2.0], "distinct_labels": [1.0],
        "frac_reward_zero_std": [0.0], "pruned": [0.25], "invalid": [0.25], "reward": [0.5], "reward_std": [0.5],
        "entropy": [0.23333], "entropy_agrees": [0.15], "entropy_differs": [0.4], "entropy_right": [0.15],
        "entropy_wrong": [0.4], "entropy_auroc": [1.0], "num_tokens": [5.0], "pass@1": [0.5], "pass@k": [1.0],
    }  # fmt: skip
    assert {k: found[k] for k in expected} == expected


def test_what_only_some_groups_say_is_of_these():
    """Votes that waves saved beside those that train: one prompt was settled by its trained rollouts, one took a wave
    of four. And the share that was cut off, where it is known how rollouts ended."""
    plain = line()["reply"]
    waved = {"trained": [True] * 4 + [False] * 4, **{k: plain[k] * 2 for k in ("valid", "keep", "answers", "rewards")}}
    found = only([line(finish_reason=["length", "stop", "stop", "stop"]), line(group_id="h", **waved)])["columns"]
    assert (found["votes"], found["votes_trained"], found["truncated"]) == ([6.0], [4.0], [0.25])
    assert only([line()])["columns"]["truncated"] == [None]


def test_totals_agree_with_the_reply_of_the_file():
    groups = [g for _, g in Reader(EXAMPLE)]
    scoring = score(groups, {}, method="dare", shadow=["scrl"])
    reply, found = scoring.reply, only(objects(of_scored(scoring, groups), 0.0))
    by_name = {k: v[0] for k, v in found["columns"].items() if k != "step"}
    for name in ("majority_ratio", "label_accuracy", "reward_accuracy", "entropy_auroc", "pass@1"):
        assert by_name[name] == pytest.approx(reply.diagnostics[name], abs=1e-5), name
    differ = sum(g.diagnostics["shadow"]["scrl"]["label_agreement"] == 0 for g in reply.groups)
    assert found["shadows"][0]["differs"] == differ > 0
    assert found["k"] == 64


@each(
    ("visits", "flips"),
    [
        ([(0, "a", "1"), (0, "b", "1"), (1, "a", "5"), (1, "b", "1"), (1, "c", "1")], [None, 0.5]),
        # another spelling is no flip, nor is a unit or a name that one of two leaves out
        ([(s, "p", said) for s, said in enumerate(("1/2", "0.5", "\\frac{1}{2}", "0.6", "3/5"))], [None, 0, 0, 1, 0]),
        ([(s, "p", said) for s, said in enumerate(("5 cm", "5", "5 m", "5 cm", "x = 5", "5"))], [None, 0, 0, 1, 1, 0]),
        ([(0, "p", "1"), (1, "p", "2"), (2, None, "1"), (3, None, "2")], [None, 1, None, None]),
    ],
)
def test_flips_count_prompts_that_are_seen_again(visits, flips):
    assert only([line(*visit) for visit in visits])["columns"]["flips"] == flips


def test_many_steps_are_put_together_and_nothing_is_lost(monkeypatch):
    monkeypatch.setattr(step_totals, "STEPS", 8)
    monkeypatch.setattr(books, "PROMPTS", 50)
    book = book_of(line(s, f"g{s}", str(s % 3), num_tokens=[s] * 4) for s in range(1000))
    run = book.runs["r"]
    assert len(run.steps.places) <= 16
    values, weights = run.steps.totals()["num_tokens"]
    assert sum(run.steps.counts()) == 1000
    assert values / weights == pytest.approx(499.5)
    assert run.unit == "128 steps"
    assert len(run._seen) == 50
    assert len(list(run.picks.cards())) <= 16 + 64


def put(steps, *at, number=1.0):
    """A group at each of these steps."""
    steps.add(at, {"groups": (np.ones(len(at)), np.ones(len(at))), "x": (np.full(len(at), number), np.ones(len(at)))})


@pytest.mark.parametrize("count", [30_000, 200_000])
def test_a_long_run_is_blocks_of_one_width_after_its_first_steps(count, monkeypatch):
    steps, moved = Steps(), Counter()
    widen = Steps._widen
    monkeypatch.setattr(Steps, "_widen", lambda self: (moved.update(["times"]), widen(self)))
    for step in range(count):
        put(steps, step, number=step)
    places, groups = steps.places, steps.counts()
    assert places[:3] == [0, 1, 2]
    assert set(groups[:3]) == {1}
    assert STEPS < len(places) <= 2 * STEPS
    assert steps.width == 1 << (count // (2 * STEPS)).bit_length()
    assert set(groups[4:-1]) == {steps.width}, "every block holds as many steps"
    assert all(p % steps.width == 0 for p in places[4:])
    assert steps.totals()["x"] == (count * (count - 1) / 2, count)
    assert moved["times"] <= (count // STEPS).bit_length(), "blocks are not put together again at every step"


def test_labels_are_counted_within_a_step():
    """A label is new once in its step, however the groups of steps are mixed, and no longer kept for steps long gone."""
    steps = Steps()
    assert [steps.is_new(step, label) for step, label in ((0, 1), (1, 1), (0, 1), (0, 2), (1, 1))] == [
        True, True, False, True, False,
    ]  # fmt: skip
    for step in range(2, 3 * STEPS):
        assert steps.is_new(step, 1)
    assert len(steps._labels) == 2 * STEPS


def test_steps_that_come_late_or_are_far_apart_find_their_blocks():
    steps = Steps()
    for step in range(0, 1 << 40, 1 << 28):
        put(steps, step)
    assert sum(steps.counts()) == 1 << 12
    before = len(steps.places)
    assert before <= 2 * STEPS
    for step in (5, 1 << 28, (1 << 39) + 1, -3):
        put(steps, step)
    assert len(steps.places) <= before + 1
    assert sum(steps.counts()) == (1 << 12) + 4


def test_a_long_run_that_collapses_is_called_collapsing():
    """Three groups a step; from step 1,500 of 10,000 every prompt gets one answer."""
    slim = as_line(run="r", valid=[True], answers=["1"], rewards=[1.0], keep=[True], support=[{"count": 1}])
    labels = (["0"] * 3 if s >= 1500 else [f"{3 * s + i}" for i in range(3)] for s in range(10_000))
    found = only(
        {**slim, "step": s, "reply": {**slim["reply"], "pseudo_label": label}}
        for s, every in enumerate(labels)
        for label in every
    )
    assert found["verdict"]["word"] == "collapsing"
    assert found["unit"] == "16 steps"
    assert 1500 <= found["columns"]["step"][found["verdict"]["since"]] <= 1600


def test_runs_that_come_in_turn_keep_all_their_groups(monkeypatch):
    """A sweep of 81 runs, each of 40 steps: no group is lost. Where there are more than may be shown, the one that was
    silent for longest goes, and is counted."""
    book = book_of(line(step, run=f"r{i}") for step in range(40) for i in range(81))
    found = view(book)["runs"]
    assert (len(found), book.gone) == (81, 0)
    assert {sum(run["columns"]["groups"]) for run in found} == {40}
    assert {run["verdict"]["word"] for run in found} != {"too early"}
    monkeypatch.setattr(books, "RUNS", 32)
    book = book_of(line(run=f"r{i}") for i in range(40))
    assert (list(book.runs), book.gone) == ([f"r{i}" for i in range(8, 40)], 8)


def test_groups_without_a_step_count_in_blocks():
    found = only([line(None, f"g{i}") for i in range(130)])
    assert (found["columns"]["step"], found["columns"]["groups"]) == ([0, 1, 2], [64, 64, 2])
    assert found["unit"] == "block of 64 groups"


def test_a_file_without_steps_is_one_set_and_no_run(tmp_path):
    page = tmp_path / "run.html"
    one = {"rollouts": [{"answer": "1", "token_logprobs": [-0.1]}, {"answer": "2", "token_logprobs": [-0.4]}]}
    file = write_lines(tmp_path / "in.jsonl", [one] * 70)
    assert main(["report", str(file), "--entropy", "logprob", "-o", str(page)]) == 0
    (found,) = page_data(page)["runs"]
    assert (found["columns"]["groups"], found["unit"]) == ([70], "set of rollouts")
    assert found["headline"]["text"].startswith("One set of rollouts")
    assert (found["verdict"]["word"], found["estimates"]) == ("no run", {"logprob": 70})


# --- verdict ----------------------------------------------------------------------------------------------------------


def columns(count=12, **given):
    base = {"distinct_labels": 0.9, "invalid": 0.02, "frac_reward_zero_std": 0.1, "flips": 0.3}
    base |= {"distinct_answers": 6.0, "majority_ratio": 0.5}
    out = {name: [value] * count for name, value in base.items()}
    for name, values in given.items():
        out[name][-len(values) :] = values
    return arrays(out)


def arrays(columns):
    """Numbers by step, NaN where there is none."""
    return {name: np.array(column, np.float64) for name, column in columns.items()}


VERDICTS = [
    ({}, "fine", "no-rule-fires"),
    ({"distinct_labels": [0.4, 0.4, 0.4]}, "collapsing", "one-answer-everywhere"),
    ({"distinct_labels": [0.4, 0.4]}, "fine", "no-rule-fires"),
    ({"distinct_labels": [0.46, 0.46, 0.46]}, "fine", "no-rule-fires"),
    ({"distinct_labels": [0.4, 0.9, 0.4, 0.9, 0.4]}, "collapsing", "one-answer-everywhere"),
    ({"distinct_labels": [0.4, 0.4, 0.4, 0.9, 0.9, 0.9]}, "fine", "no-rule-fires"),
    ({"invalid": [0.12, 0.12, 0.12]}, "collapsing", "answers-vanish"),
    ({"invalid": [0.1, 0.1, 0.1]}, "fine", "no-rule-fires"),
    ({"frac_reward_zero_std": [0.9, 0.9, 0.9], "flips": [0.0, 0.0, 0.0]}, "sharpening", "nothing-left-to-learn"),
    ({"frac_reward_zero_std": [0.9, 0.9, 0.9], "flips": [None, None, None]}, "sharpening", "nothing-left-to-learn"),
    ({"frac_reward_zero_std": [0.9, 0.9, 0.9]}, "fine", "no-rule-fires"),
    ({"frac_reward_zero_std": [0.9] * 3, "flips": [0.0] * 3, "invalid": [0.5] * 3}, "collapsing", "answers-vanish"),
    ({"distinct_answers": [2.9] * 3, "majority_ratio": [0.66] * 3}, "sharpening", "agreement-rises"),
    ({"distinct_answers": [2.9] * 3, "majority_ratio": [0.64] * 3}, "fine", "no-rule-fires"),
    ({"distinct_answers": [3.1] * 3, "majority_ratio": [0.9] * 3}, "fine", "no-rule-fires"),
    ({"distinct_labels": [None, None, None]}, "fine", "no-rule-fires"),
]


def run_verdict(columns):
    return judged(columns, rules_by_step(columns))


@each("given, word, rule", VERDICTS)
def test_rules(given, word, rule):
    found = run_verdict(columns(**given))
    assert (found.word, found.rule) == (word, rule)


def test_the_verdict_says_since_when_and_needs_steps():
    found = run_verdict(columns(20, distinct_labels=[0.3] * 6))
    assert found.since == 16  # the third of the six steps
    assert found.why == "distinct pseudo-labels per prompt: 0.90 in the first 3 steps, 0.30 in the last one"
    rules = [run_verdict(columns(count)).rule for count in (0, AT_LEAST - 1, AT_LEAST)]
    assert rules == ["too-few-steps", "too-few-steps", "no-rule-fires"]


def run_of(*, truth=None, across=(0, 0), **keys):
    """20 steps of 16 prompts, which have one label in the steps `across`; how many of three rollouts are right in each."""
    for step in range(20):
        if truth is not None:
            keys["correct"] = [k < truth[step] for k in range(3)] + [False]
        for i in range(16):
            yield line(step, f"{i}", "1" if across[0] <= step < across[1] else str(i), **keys)


@each(
    ("run", "begins", "ends", "tone"),
    [
        ({"truth": [3] * 8 + [1] * 12}, "Accuracy fell", "", "bad"),
        ({"truth": [3] * 8 + [1] * 12, "across": (5, 20)}, "Accuracy fell", "", "bad"),
        ({"truth": [3] * 20}, "", "", "good"),
        ({"truth": [1] * 8 + [3] * 12}, "Accuracy rose", "", "good"),
        ({"across": (5, 20)}, "The run collapsed", "show", "bad"),
        ({"across": (5, 12)}, "The run collapsed", "and recovered", "bad"),
    ],
)
def test_the_headline_is_the_worst_thing_that_happened(run, begins, ends, tone):
    """A fall of accuracy before any rule; a collapse that is over stays."""
    found = only(run_of(**run))["headline"]
    assert (found["text"].startswith(begins), found["text"].endswith(ends), found["tone"]) == (True, True, tone)
    assert "truth" in run or found["since"] == 7, "the third step of five"


def test_labels_never_act_on_the_verdict_of_the_run():
    """The same rollouts with the truth, with the opposite, and without."""

    cases = [
        {"correct": [True, True, False, False], "diagnostics": {"label_accuracy": 1.0, "reward_accuracy": 1.0}},
        {"correct": [False, False, True, False], "diagnostics": {"label_accuracy": 0.0, "reward_accuracy": 0.2}},
        {"diagnostics": {}},
    ]
    found = [only(run_of(across=(7, 20), **told)) for told in cases]
    assert len({json.dumps([f["verdict"], f["states"]]) for f in found}) == 1
    assert found[0]["verdict"]["rule"] == "one-answer-everywhere"
    assert [f["labelled"] for f in found] == [True, True, False]


def test_an_unmeasured_entropy_is_said_where_the_method_reads_it():
    bare, labelled = line(method="dare"), line(method="dare", correct=[True, True, False, False])
    found = [only([x])["calibration"] for x in (bare, line(), labelled)]
    assert found[0]["headline"] == "Not decided: label 32 more"
    assert found[1] is None
    assert found[2]["headline"] == "Not decided: label 31 more"


# --- several runs -----------------------------------------------------------------------------------------------------


def test_the_worst_run_is_first_and_then_the_newest_that_can_be_judged():
    """After these come those of several steps, then what came once: a stray request is no run to open."""
    book = book_of([*run_of(run="bad", across=(8, 20)), *run_of(run="older"), *run_of(run="newer")])
    runs = view(book)["runs"]
    assert [(r["run"], r["headline"]["tone"]) for r in runs] == [("bad", "bad"), ("newer", "good"), ("older", "good")]
    for stray in (*(line(s, run="short") for s in range(3)), line(run="curl")):
        book.add(stray)
    assert [r["run"] for r in view(book)["runs"]] == ["bad", "newer", "older", "short", "curl"]


def test_events_are_marked_at_their_steps():
    (event,) = only(run_of(across=(8, 20)))["events"]
    assert (event["at"], event["word"], event["tone"]) == (10, "collapsing", "bad")
    falls = list(run_of(truth=[3] * 8 + [1] * 12))
    found = only(falls)
    (event,) = found["events"]
    assert (event["word"], event["at"]) == ("accuracy falls", found["headline"]["since"])
    assert 8 <= event["at"] <= 12
    assert found["accuracy"]["why"].startswith("-50.0 points (-50.0 to -50.0) from the first to the last visits of 16")
    assert "-50.0 points" in found["learnt"]["headline"], "one gain on one screen"
    before = only([x for x in falls if x["step"] < event["at"]])
    assert before["accuracy"]["word"] != "falls"


# --- which groups -----------------------------------------------------------------------------------------------------


def shadow(**said):
    return {"diagnostics": {"majority_ratio": 0.5, "shadow": {"ttrl": said}}}


SURE = {"valid": True, "mean_entropies": 0.1, "num_tokens": 1, "answers": "1", "rewards": 1.0, "keep": True}
REASONS = [
    ({}, set()),
    (shadow(label_agreement=0.0, flipped=0.1), {"flip"}),
    (shadow(label_agreement=1.0, flipped=0.1), {"flip"}),
    (shadow(label_agreement=1.0, flipped=0.0), set()),
    (shadow(error={"code": "missing"}), set()),
    ({"diagnostics": {"majority_ratio": 0.6, "label_accuracy": 0.0}}, {"wrong"}),
    ({"diagnostics": {"majority_ratio": 0.4, "label_accuracy": 0.0}}, set()),
    ({"diagnostics": {"majority_ratio": 0.4, "label_accuracy": 0.0, "ground_truth_ratio": 0.2}}, {"missed"}),
    (
        {"diagnostics": {"majority_ratio": 0.6, "label_accuracy": 0.0, "ground_truth_ratio": 0.6}, "pseudo_label": "2"},
        {"missed", "overruled"},
    ),
    ({"valid": [True] * 2 + [False] * 2}, set()),
    ({"valid": [True] + [False] * 3}, {"silent"}),
    *(({name: [value] * n for name, value in SURE.items()}, found) for n, found in ((10, set()), (11, {"scattered"}))),
    ({"flags": ["tie", "all_pruned"]}, {"tie", "pruned"}),
    ({"error": {"code": "missing_entropy", "message": "m"}}, {"failed"}),
]


@each("keys, expected", REASONS)
def test_reasons(keys, expected):
    assert set(reasons(line(**keys))) == expected


@pytest.mark.parametrize("edited", [{"majority_ratio": "x"}, {"shadow": {"a": {"flipped": "x"}}}], ids=str)
def test_a_line_that_somebody_edited_costs_itself_alone(edited):
    found = only([line(), line(diagnostics=edited), line()])
    assert (found["groups"], found["errors"], found["columns"]["groups"], len(found["cards"])) == (3, 1, [2], 2)


def test_a_group_that_was_not_scored_is_counted_and_shown():
    found = only([line(), as_line(run="r", step=0, group_id="f", error={"code": "c", "message": "m"})])
    assert (found["groups"], found["errors"]) == (2, 1)
    assert found["cards"][0]["why"] == ("failed",)


# --- the file ---------------------------------------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    '"><img src=x onerror=alert(1)>',
    "<style>*{display:none}</style><link rel=stylesheet href=//evil>",
    "\u2028\u2029\u202e\x00\x1b[31m]]>",
    "\ud800",
    "&lt;b&gt;&quot;",
]


class Elements(HTMLParser):
    """Every element with its attributes, and the content of scripts and styles."""

    def __init__(self):
        super().__init__()
        self.found, self.raw, self.inside = [], [], False

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        self.raw.append("")
        self.inside = tag in {"script", "style"}

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.raw[-1] += data


def parsed(html):
    elements = Elements()
    elements.feed(html)
    return elements


def page_of(lines):
    return document({"live": False, "title": "t", "source": "s", "made": "m", "version": "0", **view(book_of(lines))})


def test_what_rollouts_say_adds_no_element():
    plain = [tag for tag, _ in parsed(page_of([line()])).found]
    for text in HOSTILE:
        keys = dict.fromkeys(("prompt", "group_id", "run", "truth", "method", "kind"), text)
        support = [{"answer": text, "count": 4, "kept": True}]
        shadow = {"shadow": {text: {}}}
        hostile = line(**keys, texts=[text] * 4, answers=[text] * 4, flags=[text], diagnostics=shadow, support=support)
        html = page_of([hostile, line(error={"code": text, "message": text})])
        elements = parsed(html)
        assert [tag for tag, _ in elements.found] == plain, text
        data = next(raw for (_, a), raw in zip(elements.found, elements.raw) if a.get("id") == "data")
        cards = [c for r in json.loads(data)["runs"] for c in r["cards"]]
        assert text in {c.get("prompt") for c in cards}


def test_the_file_needs_nothing_else_and_runs_nothing_else():
    elements = parsed(page_of([line()]))
    policy = next(a["content"] for tag, a in elements.found if a.get("http-equiv") == "Content-Security-Policy")
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for (tag, attributes), raw in zip(elements.found, elements.raw):
        assert not {"src", "srcset", "style"} & attributes.keys()
        assert not [name for name in attributes if name.startswith("on")]
        assert attributes.get("href", "data:,") in {"#page", "data:,"}
        if tag in {"script", "style"} and attributes.get("type") != "application/json":
            digest = base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert not re.search(r"innerHTML|insertAdjacent|document\.write|\beval\b|new Function", "".join(elements.raw))


def test_the_file_stays_small():
    """Texts of 200 groups that would be 50 MB, and more steps than a screen has points."""
    long = {"texts": ["<" * 9000] * 4, "token_entropies": [[0.123456] * 5000] * 4}
    html = page_of(line(s, f"g{s}", **(long if s % 50 == 0 else {})) for s in range(10_000))
    assert len(html) < 5_000_000
    data = next(r for (_, a), r in zip(parsed(html).found, parsed(html).raw) if a.get("id") == "data")
    (run,) = json.loads(data)["runs"]
    assert 0 < len(run["cards"]) < run["groups"] == 10_000


# --- commands ---------------------------------------------------------------------------------------------------------


def test_report_of_rollouts_and_of_a_log(tmp_path, capsys, ran):
    out = tmp_path / "a.html"
    assert main(["report", EXAMPLE, "--shadow", "ttrl,scrl", "-o", str(out)]) == 0
    assert "16 groups of 1 run; 16 to read one by one" in capsys.readouterr().err
    assert "--force" in ran(["report", EXAMPLE, "-o", str(out)], 2).err
    said = ran(["report", EXAMPLE, "--shadow", "scrll", "-o", str(tmp_path / "b.html")], 2).err
    assert said.startswith("dare-reward report: --shadow: unknown method. Did you mean scrl?")
    log = tmp_path / "log"
    log.mkdir()
    told = [line(s, run=name) for s in range(3) for name in ("one", "two")]
    texts = [json.dumps(x).encode() for x in told]
    (log / "x.jsonl").write_bytes(b"\n".join(texts))
    (log / "20260101T000000000Z-1-01234567-000000.jsonl.gz").write_bytes(member(texts, 1))
    for source in (log, log / "x.jsonl"):
        assert main(["report", str(source), "--run", "two", "-o", str(tmp_path / "b.html"), "--force"]) == 0
        assert "3 groups of 1 run;" in capsys.readouterr().err
    assert main(["report", str(log), "--run", "three", "-o", str(tmp_path / "c.html")]) == 2
    assert not (tmp_path / "c.html").exists()


def test_runs_that_are_not_shown_are_counted_aloud(tmp_path, ran, monkeypatch):
    monkeypatch.setattr(books, "RUNS", 2)
    source = write_lines(tmp_path / "log.jsonl", [line(run=name) for name in "abbc"])
    said = ran(["report", str(source), "-o", str(tmp_path / "r.html")], 0).err
    assert "1 groups of runs that were silent for longest are not shown: choose one with --run" in said


@pytest.mark.parametrize("form", ["folder", "file"])
def test_a_log_that_lost_groups_says_so_in_exit_code_and_source_line(tmp_path, ran, form):
    failed = as_line(run="r", step=0, error={"code": "missing_entropy", "message": "m"})
    texts = [json.dumps(x).encode() for x in [*(line(s) for s in range(5)), failed, {**line(), "v": 1}]]
    (tmp_path / "log").mkdir()
    path = tmp_path / "log" / "20260101T000000000Z-1-01234567-000000.jsonl.gz"
    path.write_bytes(member(texts, 1) + member(texts, 1)[:-20] + member(texts, 1))
    if form == "file":
        (path := tmp_path / "log.jsonl").write_bytes(b"\n".join([*texts, b"{", *texts, b"["]))
    said = ran(["report", str(path.parent if form == "folder" else path), "-o", str(tmp_path / "r.html")], 1).err
    assert "10 read; 4 refused (" in said
    assert f"{2 if form == 'file' else 7} unreadable (" in said
    data = page_data(tmp_path / "r.html")
    assert "10 read; 4 refused" in data["source"]
    if form == "folder":
        path.write_bytes(b"x" * 99)
        assert main(["report", str(path.parent), "-o", str(tmp_path / "x.html")]) == 2
        assert not (tmp_path / "x.html").exists()


def labelled_file(path, prompts):
    """`dare` labels all of these prompts right, the vote two thirds."""
    rows = []
    for i in range(prompts):
        right = {"answer": "1", "mean_entropy": 0.1 + i / 1000}
        wrong = {"answer": "2", "mean_entropy": 2.0}
        rows.append({"prompt": f"p{i}", "label": "1", "rollouts": [right, right] + [wrong] * (1 + 2 * (i % 3 == 0))})
    write_lines(path, rows)


@pytest.mark.parametrize("shadow", ["", "scrl,ttrl"])
def test_the_report_of_a_labelled_file_answers_the_question(tmp_path, shadow):
    labelled_file(tmp_path / "in.jsonl", 39)
    page = tmp_path / "out.html"
    assert main(["report", str(tmp_path / "in.jsonl"), "--shadow", shadow, "-o", str(page)]) == 0
    data = page_data(page)
    said, headline = data["runs"][0]["calibration"], data["runs"][0]["headline"]
    assert headline["word"] == headline["text"] == said["headline"]
    assert (said["headline"], said["line"].partition("=")[0]) == ("Use this line", "method")
    assert main(["calibrate", str(tmp_path / "in.jsonl")]) == 0
    assert main(["score", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "scored.jsonl")]) == 0
    assert main(["report", str(tmp_path / "scored.jsonl"), "-o", str(page), "--force"]) == 0
    assert page_data(page)["runs"][0]["calibration"] == said, "what was scored is one set too"


@pytest.mark.parametrize("step", [None, 3], ids=["a set", "a run"])
@pytest.mark.parametrize(
    "words", [["score"], ["report", "--shadow", "ttrl,scrl", "-o"], ["calibrate"]], ids=lambda w: w[0]
)
def test_a_command_reads_each_text_once(tmp_path, monkeypatch, capsys, words, step):
    """However many methods, shadows and verdicts ask, and where some groups of the file are refused."""
    texts = [rf"Rollout {n}: \boxed{{{n % 3}}}" for n in range(130 * 3)]
    rollouts = [{"text": text, "mean_entropy": 0.1 + n / 1000} for n, text in enumerate(texts)]
    place = {} if step is None else {"run": "r", "step": step}
    groups = [{"prompt": f"p{n}", "label": "1", **place, "rollouts": rollouts[3 * n : 3 * n + 3]} for n in range(130)]
    bad = {"prompt": "q", "rollouts": [{"text": "7", "mean_entropy": -1.0}]}
    write_lines(tmp_path / "in.jsonl", [*groups, bad])
    read, own = Counter(), reading.read
    monkeypatch.setattr(reading, "read", lambda text, asked: (read.update([text]), own(text, asked))[1])
    out = [str(tmp_path / "out.html")] if "-o" in words else []
    assert main([words[0], str(tmp_path / "in.jsonl"), *words[1:], *out]) == {"calibrate": 3}.get(words[0], 1)
    assert {text: read[text] for text in texts} == dict.fromkeys(texts, 1)


def test_a_labelled_file_with_a_prompt_twice_is_not_calibrated(tmp_path):
    file, page = tmp_path / "in.jsonl", tmp_path / "out.html"
    labelled_file(file, 3)
    file.write_text(file.read_text() * 2)
    assert main(["report", str(file), "-o", str(page)]) == 0
    found = page_data(page)["runs"][0]["calibration"]
    assert (found["line"], "keep one group of each prompt" in found["why"]) == ("", True)


def test_a_file_without_entropies_gets_the_remedy_and_no_page(tmp_path, capsys, ran):
    bare = {"rollouts": [{"answer": "1"}, {"answer": "2"}]}
    whole = {"rollouts": [{"answer": "1", "mean_entropy": 0.1}, {"answer": "2", "mean_entropy": 0.2}]}
    source, out = tmp_path / "f.jsonl", tmp_path / "a.html"
    write_lines(source, [bare] * 2)
    assert main(["report", str(source), "-o", str(out)]) == 2
    assert not out.exists()
    said = capsys.readouterr().err
    assert "line 1: an answer without entropy in 2 of 2 rollouts (1 more like this)" in said
    assert "-p missing_entropy=frequency" in said
    write_lines(source, [bare, whole])
    assert "lines: 1 read, 1 refused" in ran(["report", str(source), "-o", str(out)], 1).err
    assert out.exists()


def test_step_and_run_of_a_file_are_kept(tmp_path, capsys):
    rollouts, page = [{"answer": a} for a in "112"], tmp_path / "run.html"
    loose = [{"prompt_id": "p", "global_step": 4, "run": "z", "text": r"\boxed{1}"}] * 2
    rows = [{"run": "z", "step": 3, "rollouts": rollouts}, {"step": 3, "rollouts": rollouts}, *loose]
    source = write_lines(tmp_path / "f.jsonl", rows)
    assert main(["report", str(source), "-m", "ttrl", "-o", str(page)]) == 0
    data = page_data(page)
    assert {r["run"]: (r["columns"]["step"], r["columns"]["groups"]) for r in data["runs"]} == {
        "z": ([3, 4], [1, 1]), "": ([3], [1]),
    }  # fmt: skip
    assert {card["pseudo_label"] for r in data["runs"] for card in r["cards"]} == {"1"}
    assert "ignored" not in capsys.readouterr().err


def test_the_spread_is_that_of_the_trained_rollouts():
    """Rollouts that only vote have no advantage: 64 votes of which two train on equal rewards have no spread."""
    keys = {"rewards": [1.0, 1.0, 0.0, 0.0], "trained": [True, True, False, False], "valid": [True] * 4}
    found = sums(Columns([GroupNumbers.of(as_line(**own)) for own in (keys, {**keys, "rewards": None})]))
    assert (found["reward_std"][0].tolist(), found["reward_std"][1].tolist()) == ([0.0, 0.0], [1.0, 0.0])
    assert (found["reward"][0].tolist(), found["reward"][1].tolist()) == ([2.0, 0.0], [4.0, 0.0])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_small_text_can_be_read(scheme):
    """WCAG's 4.5 to 1 of each colour of text, on the page and on a card."""
    blocks = re.findall(r":root \{(.*?)\}", asset("report.css"), re.DOTALL)
    tones = dict(re.findall(r"--(\w+): (#\w{6})", blocks[scheme == "dark"]))

    def light(tone):
        parts = [int(tone[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.05 + sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear))

    for text in ("ink", "soft", "faint", "bad", "warn", "good"):
        for ground in ("page", "card"):
            dark, bright = sorted((light(tones[text]), light(tones[ground])))
            assert bright / dark >= 4.5, (text, ground)
