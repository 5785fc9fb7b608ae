"""Each number of a group and of a step has one name and one value wherever it appears, and one declaration."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest

import dare_reward
from dare_reward import numbers as registry
from dare_reward.analysis.auroc import group_auroc
from dare_reward.analysis.passk import pass_at_k
from dare_reward.answers.extraction.final_answer import WHY_NONE
from dare_reward.numbers import BY_NAME, NUMBERS, SHADOW, RunNumber, pooled
from dare_reward.openrlhf import GROUP, outcomes
from dare_reward.report.book import RunBook
from dare_reward.report.view import view
from dare_reward.runs.line import lines, objects, of_groups, of_scored
from dare_reward.runs.log import RunLog, encoded
from dare_reward.scoring.diagnostics import correctness
from dare_reward.scoring.request import prepare
from dare_reward.scoring.score import score
from dare_reward.stacks.report import numbers, watch_answers
from dare_service.metrics import Metrics
from dare_service.page.live import LivePage

SAID = [  # answer, entropy, tokens, cut off
    [("2", 0.2, 4, False), ("2", 0.4, 6, False), ("3", 0.9, 8, False), (None, 3.0, 90, True)],
    [("5", 0.1, 3, False), ("1", 0.3, 5, False), (None, 2.8, 95, True), ("5", 0.25, 2, False)],
    [("7", 0.15, 4, False)] * 4,
    [(None, 3.1, 99, True), (None, 2.5, 99, True), ("8", 0.5, 7, False), ("9", 0.6, 9, False)],
]
LABELS = ["2", "1", "7", "9"]
GROUPS = [
    {"group_id": f"g{p}", "label": label, "prompt": f"{p}?", "rollouts": [
        {"answer": a, "mean_entropy": u, "num_tokens": n, "finish_reason": "length" if cut else "stop",
         "answer_entropy": u if u < 0.5 else None}
        for a, u, n, cut in said]}
    for p, (said, label) in enumerate(zip(SAID, LABELS, strict=True))
]  # fmt: skip


def of_columns(run):
    """The one step of a run as the report and the page draw it."""
    columns = {name: values[0] for name, values in run["columns"].items() if name not in {"step", "groups"}}
    return {(f"pass@{run['k']}" if name == "pass@k" else name): v for name, v in columns.items() if v is not None}


def of_openrlhf(reply):
    each = [
        {k: np.nan if v == -1 else v for k, v in outcome.logs.items()}
        for group, said in zip(reply.groups, SAID, strict=True)
        for outcome in outcomes(group, route="actor", entropies=[u for _, u, _, _ in said], shadow=["ttrl"])
    ]
    means = {name: np.nanmean([own[name] for own in each]) for name in each[0]}
    # OpenRLHF takes the mean over rollouts; an entropy is one over those with an answer.
    answered = [sum(a is not None for a, *_ in said) for said in SAID]
    means["entropy"] = np.average([each[4 * p]["entropy"] for p in range(len(SAID))], weights=answered)
    route = {"entropy_source", "evaluation", "reward_fallback", "no_span", "votes_saved", "settle_risk",
             "reward_wait_ms", "shadow_ttrl_cosine_known"}  # fmt: skip
    return {name: value for name, value in means.items() if name not in route}


def of_metrics(reply):
    metrics = Metrics()
    metrics.observe_groups(reply)
    found = dict(re.findall(r"^dare_(\w+_(?:sum|count)) (\S+)$", metrics.render().decode(), re.MULTILINE))
    names = {name[:-4] for name in found if name.endswith("_sum") and float(found[f"{name[:-4]}_count"])}
    return {name: float(found[f"{name}_sum"]) / float(found[f"{name}_count"]) for name in names}


def of_analysis():
    prepared = prepare(GROUPS)
    correct_R = correctness(prepared)
    sizes, right = prepared.groups.sizes_P, prepared.groups.sum_rollouts(correct_R).astype(int)
    return {
        "entropy_auroc": np.nanmean(group_auroc(prepared.groups, prepared.groups.column("mean_entropy"), correct_R)),
        **{f"pass@{k}": np.mean([pass_at_k(n, c, k) for n, c in zip(sizes, right) if n >= k]) for k in (1, 2, 4)},
    }


def of_page(scoring, folder):
    log, page = RunLog(folder), LivePage(folder, print)
    log.add(of_scored(scoring, GROUPS, run="r", step=1))
    log.close()
    return of_columns(json.loads(page.json())["runs"][0])


@pytest.fixture(scope="module")
def surfaces(tmp_path_factory):
    scoring = score(GROUPS, {"over": "answer"}, method="dare", shadow=["ttrl"])
    reply = scoring.reply
    logged = [json.loads(t) for t in lines(of_groups(GROUPS, reply.groups, run="r", step=1), 0.0, encoded)]
    book = RunBook()
    for line in logged:
        book.add(line)
    told = {k: v for k, v in reply.diagnostics.items() if isinstance(v, float)}
    per_group = {n.name: np.mean([g.diagnostics[n.name] for g in reply.groups]) for n in NUMBERS if n.reply}
    return {
        "reply": told,
        "groups of the reply": per_group,
        "trackers": pooled(logged),
        "report": of_columns(view(book)["runs"][0]),
        "page": of_page(scoring, tmp_path_factory.mktemp("runs")),
        "OpenRLHF": of_openrlhf(reply),
        "adapters": numbers(reply, GROUPS),
        "metrics": of_metrics(reply),
        "analysis": of_analysis(),
    }


BESIDE = {"groups", "rollouts", "abstained", "group_errors", "entropy_missing"}


def family(name):
    return "pass@k" if name.startswith("pass@") and name != "pass@1" else name


def test_every_name_is_declared(surfaces):
    declared = {*BY_NAME, *BESIDE, *(f"shadow_ttrl_{key}" for key in SHADOW)}
    for surface, found in surfaces.items():
        assert {family(name) for name in found} <= declared, surface


def test_a_number_has_one_value_wherever_it_appears(surfaces):
    names = {name for found in surfaces.values() for name in found} - BESIDE
    shared = 0
    for name in names:
        values = {surface: found[name] for surface, found in surfaces.items() if name in found}
        one = next(iter(values.values()))
        assert list(values.values()) == pytest.approx([one] * len(values), abs=1e-5), (name, values)
        shared += len(values) > 1
    assert shared > 25
    assert all(len(found) > 2 for found in surfaces.values())


def test_a_rollout_without_an_answer_is_neither_right_nor_wrong(surfaces):
    assert surfaces["trackers"]["entropy_wrong"] == pytest.approx(np.mean([0.9, 0.1, 0.25, 0.5]))
    assert surfaces["trackers"]["entropy_right"] == pytest.approx(np.mean([0.2, 0.4, 0.3, *[0.15] * 4, 0.6]))


def test_what_a_number_is_a_mean_of_is_as_declared():
    logged = list(objects(of_groups(GROUPS, dare_reward.estimate(GROUPS, over="answer").groups), 0.0))
    for name, (_, weights_P) in registry.sums(registry.Columns([*map(registry.GroupNumbers.of, logged)])).items():
        if name in BY_NAME:
            assert weights_P.max() == 1 or BY_NAME[name].over == "rollouts", name


def test_a_new_number_is_one_entry(monkeypatch):
    """It shows in a report with its tile and curve, in trackers, in OpenRLHF's log and in the docs' table."""
    new = RunNumber(
        "longest", "tokens of a group's longest rollout",
        registry._over_groups(lambda c: np.array([c.num_tokens_R[c.group_R == p].max() for p in range(len(c.sizes_P))])),
        unit="tokens", openrlhf=True, tile="Longest", charts={"length": ("longest", "bad")},
    )  # fmt: skip
    every = (*NUMBERS, new)
    for place in ("dare_reward.numbers", "dare_reward.report.view"):
        monkeypatch.setattr(f"{place}.NUMBERS", every)
    monkeypatch.setattr("dare_reward.openrlhf.GROUP", (*GROUP, new))
    reply = dare_reward.estimate(GROUPS)
    book = RunBook()
    for line in objects(of_groups(GROUPS, reply.groups, step=1), 0.0):
        book.add(line)
    shown = view(book)
    assert shown["runs"][0]["columns"]["longest"] == [pytest.approx((90 + 95 + 4 + 99) / 4)]
    assert ["longest", "Longest"] in shown["tiles"]
    assert numbers(reply, GROUPS)["longest"] == pytest.approx(72)
    assert [c.key for c in registry._chart("length", "Length", "").curves] == ["num_tokens", "longest"]
    assert asdict(replace(new, of=None))["meaning"]


PROBES = [
    {"text": "\\boxed{}"}, {"text": "\\boxed{3} and then \\boxed{4"}, {"text": "  "}, {"text": ""}, {"answer": None},
    {"text": "<think>So \\boxed{3}"}, {"text": "I cannot tell.", "num_tokens": 4}, {"text": "So x", "num_tokens": 0},
    {"text": "so we go on", "finish_reason": "length"}, {"text": "\\boxed{ }"}, {"answer": "  "},
]  # fmt: skip


@pytest.mark.parametrize("probe", PROBES, ids=json.dumps)
def test_why_there_is_no_answer_has_one_catalogue(probe, tmp_path, ran, caplog):
    """The reply counts the reason; `explain`, the closing line and an adapter's warning say the same."""
    group = {"group_id": "g", "rollouts": [probe]}
    reply = dare_reward.estimate([group], method="ttrl")
    ((code, count),) = reply.groups[0].diagnostics["no_answer"].items()
    assert (count, code in WHY_NONE) == (1, True)
    file = tmp_path / "in.jsonl"
    file.write_text(json.dumps(group) + "\n")
    shown = ran(["explain", str(file), "-m", "ttrl", "--group", "g"], 0)
    assert f"none: {WHY_NONE[code]}" in shown.out
    assert f"(mostly: {WHY_NONE[code]})" in shown.err
    watch_answers(object(), [group], reply, {})
    assert f"(mostly: {WHY_NONE[code]})" in caplog.text
