"""What OpenRLHF gets: labels, the grid, pruned rollouts and their advantages, scores, logs, evaluation."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import each

from dare_reward import estimate
from dare_reward.errors import ConfigError
from dare_reward.openrlhf import (
    GRID,
    LOGS,
    AnswerRules,
    Label,
    evaluation,
    keys_of,
    late,
    neutral,
    outcomes,
    read_label,
    rounded,
    write_label,
)

ANSWERS = ["7"] * 5 + ["5"] * 2 + ["1"] + [None]
SEVEN = Label("7", "eval")
ENTROPIES = [0.2] * 5 + [0.3] * 2 + [3.0] + [0.5]


def reply(**params):
    rollouts = [{"answer": a, "mean_entropy": h} for a, h in zip(ANSWERS, ENTROPIES, strict=True)]
    return estimate([{"kind": "exact", "label": "7", "rollouts": rollouts}], method="dare", **params).groups[0]


def settle(pruned="zero", trained=range(9), **params):
    return outcomes(reply(**params), route="actor", trained=trained, entropies=ENTROPIES, pruned=pruned)


def said(text):
    """A rollout of the text, which was cut off where it ends in three dots."""
    cut = {"finish_reason": "length"} if text.endswith("...") else {}
    return {"text": text.removesuffix("..."), "num_tokens": len(text), **cut}


def graded(text="\\boxed{7}", label=SEVEN, *, route="actor", shadow=(), entropy=None, **params):
    return evaluation(AnswerRules(params), said(text), label, route=route, shadow=shadow, entropy=entropy)


def advantages(rewards):
    """OpenRLHF's group_norm, in float32."""
    r = np.array(rewards, np.float32)
    return (r - r.mean()) / (r.std(ddof=1) + np.float32(1e-9))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=64))
def test_rewards_lie_on_the_grid_and_keep_their_order(values):
    found = rounded(values)
    assert all((r * 65536).is_integer() for r in found)
    assert all(abs(a - b) <= 2.0**-16 for a, b in zip(found, values, strict=True))
    for a, x in zip(found, values, strict=True):
        for b, y in zip(found, values, strict=True):
            assert a <= b if x <= y else a >= b


def test_equal_rewards_give_no_advantage():
    """In float32 the mean of equal numbers may differ from them, and every rollout then gets the same large advantage."""
    values = np.random.default_rng(0).random(500)
    assert max(abs(advantages([v] * 33)).max() for v in values) > 0.5
    for size in (8, 32, 33, 64):
        assert max(abs(advantages(rounded([v] * size))).max() for v in values) == 0


@each(
    "rewards, spread",
    [
        ([], 0),
        ([0.5, 0.5 + GRID, 0.5], 0),  # one unit is rounding, and two are a difference
        ([0.5, 0.5 + 2 * GRID], 2),
        ([0.5, 0.5 + GRID, 0.5 + 2 * GRID], 2),
        ([0.5 + GRID / 2, 0.5 + GRID / 2 - 1e-12, 0.5 + GRID / 2 + 1e-12], 0),
    ],
)
def test_what_is_a_difference(rewards, spread):
    found = rounded(rewards)
    assert max(found, default=0) - min(found, default=0) == spread * GRID
    assert found == (rewards if spread else found[:1] * len(found))


def test_pruned_zero_is_the_equation():
    found = settle("zero")
    assert [o.reward for o in found[7:]] == [0.0, 0.0]
    assert {(o.logs["pruned"], o.logs["invalid"], o.masked) for o in found} == {(1 / 9, 1 / 9, False)}
    assert advantages([o.reward for o in found])[7] < -1


@pytest.mark.parametrize("mode", ["neutral", "mask"])
def test_pruned_neutral_has_no_advantage(mode):
    found = settle(mode)
    a = advantages([o.reward for o in found])
    assert abs(a[7]) < 1e-3
    assert [o.masked for o in found] == [mode == "mask" and i == 7 for i in range(9)]
    kept = [i for i in range(9) if i != 7]
    own = advantages([found[i].reward for i in kept])
    ratio = math.sqrt(8 / 7)  # the survivors' own advantages, scaled by sqrt((n - 1) / (|S| - 1))
    assert a[kept] == pytest.approx(own * ratio, abs=1e-3)
    trained = settle(mode, [0, 1, 5, 7])
    assert abs(advantages([o.reward for o in trained])[3]) < 1e-3, "the mean is over the trained"


@each(
    "answers, entropies, method, wanted",
    [
        (ANSWERS, ENTROPIES, "dare", [1] * 5 + [0] * 4),
        ("1122", [0.9, 0.9, 0.1, 0.1], "dare", [0, 0, 1, 1]),  # a tie is decided as the method decides it
        ("1122", [0.1, 0.1, 0.9, 0.9], "dare", [1, 1, 0, 0]),
        ("1122", [0.9, 0.9, 0.1, 0.1], "ttrl", [1, 1, 0, 0]),
        ("11122", [0.9] * 3 + [0.1] * 2, "dare", [0, 0, 0, 1, 1]),  # the method's label may have fewer votes
        # Where a method names no label, the most voted answer counts: else dynamic filtering would drop every prompt.
        ("21122", [0.9, 0.8, 0.7, 0.6, 0.5], "rent", [1, 0, 0, 1, 1]),
        # It drops those whose scores are all 0 or all 1: equal rewards that no agreement shows are 0.
        ("12", [0.3, 0.3], "rent", [0, 0]),
        ("11", [0.3, 0.3], "rent", [1, 1]),
        ("12", [0.3, 0.4], "rent", [1, 0]),
        # Those of gt are its rewards.
        *((answers, [0.1] * len(answers), "gt", [a in "56" for a in answers]) for answers in ("567", "56", "77")),
    ],
)
def test_scores_are_what_dynamic_filtering_reads_as_accuracy(answers, entropies, method, wanted):
    rollouts = [{"answer": a, "mean_entropy": h, "num_tokens": 3} for a, h in zip(answers, entropies, strict=True)]
    (scored,) = estimate([{"label": ["5", "6"], "rollouts": rollouts}], method=method).groups
    assert method != "rent" or scored.pseudo_label is None
    found = outcomes(scored, route="url")
    assert [o.score for o in found] == wanted
    assert method != "gt" or [o.reward for o in found] == wanted


SHADOW = ("ttrl", "gt", "evol_rl")


@pytest.mark.parametrize("shadow", [(), SHADOW])
@pytest.mark.parametrize("route", ["url", "actor"])
def test_logs_are_always_the_same_finite_numbers(route, shadow):
    asked = {"route": route, "shadow": shadow}
    rollouts = [{"answer": "7", "mean_entropy": 0.1}, {"answer": None}]
    every = [
        *outcomes(reply(shadow=shadow), entropies=ENTROPIES, **asked),
        *outcomes(reply(), entropies=ENTROPIES, **asked),
        *outcomes(short(3), **asked),
        *outcomes(estimate([{"rollouts": rollouts}]).groups[0], known={"wait_seconds": [1, 2]}, **asked),
        *neutral(3, votes=6, **asked),
        graded(**asked),
        graded("no answer", entropy=0.3, **asked),
    ]
    for o in every:
        assert tuple(o.logs) == keys_of(route, shadow)
        assert all(type(v) is float and math.isfinite(v) for v in (*o.logs.values(), o.reward, o.score))
    reserved = {"reward", "score", "kl", "return", "logprobs_diff", "group_reward_std", "response_clip_ratio"}
    assert not reserved & {*keys_of(route, shadow)}


@pytest.mark.parametrize("route", ["url", "actor"])
def test_what_differs_among_siblings_is_declared_for_one_that_comes_late(route):
    """Otherwise it would silently have the first sibling's value."""
    per_rollout = {"wait_seconds": [1.0 + i for i in range(9)], "no_span": [float(i % 2) for i in range(9)]}
    siblings = outcomes(reply(), route=route, entropies=ENTROPIES, known=per_rollout)
    differing = {name for name in keys_of(route) if len({o.logs[name] for o in siblings}) > 1}
    assert differing == ({"wait_seconds"} if route == "url" else {"no_span"})
    assert {name: LOGS[name].late for name in differing} == dict.fromkeys(differing, 0.0)
    last = late(siblings)
    assert last.logs.keys() == siblings[0].logs.keys()
    assert all(last.logs[name] == 0.0 for name in differing)
    assert last.reward == pytest.approx(sum(o.reward for o in siblings) / 9, abs=GRID)


def test_logs_of_shadow_methods_change_no_reward_and_are_unknown_where_they_say_nothing():
    told, bare = (reply(shadow=asked) for asked in (SHADOW, ()))
    scored, plain = (outcomes(r, route="actor", entropies=ENTROPIES, shadow=SHADOW) for r in (told, bare))
    assert [(o.reward, o.score) for o in scored] == [(o.reward, o.score) for o in plain]
    found, logs = told.diagnostics["shadow"], scored[0].logs
    assert logs["shadow_ttrl_cosine"] == found["ttrl"]["cosine"]
    assert logs["shadow_ttrl_cosine_known"] == 1.0
    assert logs["shadow_gt_flipped"] == found["gt"]["flipped"]
    evaluated = graded(shadow=SHADOW).logs
    for of, name in ((logs, "evol_rl"), (plain[0].logs, "ttrl"), (evaluated, "ttrl")):
        told_of = {k: v for k, v in of.items() if k.startswith(f"shadow_{name}_")}
        assert told_of.pop(f"shadow_{name}_cosine_known") == 0.0
        assert set(told_of.values()) == {-1.0}


def test_logs_say_what_happened():
    logs = settle()[0].logs
    wanted = {
        "majority_ratio": 5 / 9, "label_accuracy": 1.0, "ground_truth_ratio": 5 / 9, "pruned": 1 / 9, "invalid": 1 / 9,
        "entropy": np.mean(ENTROPIES[:8]), "entropy_source": 1.0, "votes": 9.0,  # the ninth has no answer
    }  # fmt: skip
    assert {name: logs[name] for name in wanted} == pytest.approx(wanted)


def short(size):
    """The reply to two rollouts that agree, of a group of `size`."""
    rollouts = [{"answer": "7", "mean_entropy": 0.1}] * 2
    return estimate([{"rollouts": rollouts, "group_size": size}]).groups[0]


def test_of_half_a_group_rewards_and_scores_are_equal_and_marked():
    every = [o for size in (2, 3, 4) for o in outcomes(short(size), route="url")]
    found = [(o.reward > 0, o.score, o.logs["partial"], o.logs["neutral"]) for o in every]
    assert found == [(True, 1.0, 0.0, 0.0)] * 2 + [(True, 1.0, 1.0, 0.0)] * 2 + [(False, 0.0, 1.0, 1.0)] * 2


def test_the_route_tells_what_only_it_knows():
    known = {"repeated": 1.0, "wait_seconds": [0.5 * i for i in range(9)], "reward_fallback": 1.0}
    found = outcomes(reply(), route="url", known=known)
    assert [o.logs["wait_seconds"] for o in found] == known["wait_seconds"]
    assert {o.logs["repeated"] for o in found} == {1.0}
    assert "reward_fallback" not in found[0].logs
    assert outcomes(reply(), route="actor", known=known)[0].logs["reward_fallback"] == 1.0


def test_of_what_is_not_there_nothing_is_claimed():
    found = outcomes(short(2), route="actor")
    names = ("label_accuracy", "reward_accuracy", "ground_truth_ratio", "entropy")
    assert {found[0].logs[k] for k in names} == {-1.0}
    silent = estimate([{"rollouts": [{"answer": None, "mean_entropy": 0.1}] * 3}]).groups[0]
    assert {(o.reward, o.score) for o in outcomes(silent, route="actor", pruned="neutral")} == {(0.0, 0.0)}


def test_a_group_that_was_not_scored_has_no_outcomes():
    lacking = estimate([{"rollouts": [{"answer": "7"}]}]).groups[0]
    with pytest.raises(ValueError, match="no rewards"):
        outcomes(lacking, route="actor")
    assert {(o.reward, o.score) for o in neutral(2, votes=4, route="actor")} == {(0.0, 0.0)}


@each(
    "text, label, params, value, invalid",
    [
        ("So \\boxed{7}", SEVEN, {}, 1.0, 0.0),
        ("So \\boxed{5}", SEVEN, {}, 0.0, 0.0),
        ("The answer is 7", SEVEN, {}, 1.0, 0.0),
        ("The answer is 7...", SEVEN, {}, 0.0, 1.0),  # cut off: only a closed box counts
        ("The answer is 7...", SEVEN, {"truncated": "as_is"}, 1.0, 0.0),
        ("So \\boxed{7}...", SEVEN, {}, 1.0, 0.0),
        ("So \\boxed{7}...", SEVEN, {"truncated": "invalid"}, 0.0, 1.0),
        ("<think>So \\boxed{7}", SEVEN, {}, 0.0, 1.0),
        ("<think>So \\boxed{7}", SEVEN, {"open_think": True}, 1.0, 0.0),
        ("I cannot tell", SEVEN, {}, 0.0, 1.0),
        ("", SEVEN, {}, 0.0, 1.0),
        # A label's kind and options win.
        ("The answer is (B).", Label("B", "eval", "choice", 4), {}, 1.0, 0.0),
        ("The answer is (F).", Label("B", "eval", "choice", 4), {}, 0.0, 1.0),
        ("\\boxed{7}", Label("7.0", "eval", "exact"), {}, 0.0, 0.0),
        ("\\boxed{7}", Label("7.0", "eval"), {}, 1.0, 0.0),
    ],
)
def test_an_evaluation_reads_answers_as_the_training_does(text, label, params, value, invalid):
    found = graded(text, label, **params, entropy=0.5)
    assert (found.reward, found.score, found.logs["ground_truth_ratio"]) == (value, value, value)
    logs = {"invalid": invalid, "evaluation": 1.0, "votes": 1.0, "entropy": -1.0 if invalid else 0.5}
    assert found.logs.items() >= logs.items()
    group = {**AnswerRules(params).group(label), "rollouts": [{**said(text), "mean_entropy": 0.5}]}
    trained = estimate([group], method="ttrl", **params).groups[0]
    assert (trained.valid[0], trained.diagnostics["ground_truth_ratio"]) == (not invalid, value)


def test_a_runs_own_options():
    rules = AnswerRules({}, "choice", ("A", "B"))
    assert rules.group(Label("A")) == {"kind": "choice", "options": ["A", "B"], "label": "A"}
    assert rules.group(Label("A", options=3))["options"] == ["A", "B", "C"]
    assert rules.group(Label("7", kind="math")) == {"kind": "math", "options": None, "label": "7"}


@each(
    "value, wanted",
    [
        ("", Label()),
        ("  ", Label()),
        (None, Label()),
        ("204", Label("204")),
        (204, Label("204")),
        (0.5, Label("0.5")),
        (["1", 2], Label(("1", "2"))),
        (["1"], Label("1")),
        ({"answer": 7, "split": "eval"}, Label("7", "eval")),
        ('{"answer": "7", "split": "eval"}', Label("7", "eval")),
        (' {"answer": "7", "split": "eval"}', Label("7", "eval")),
        ('{"answer": "B", "split": "train", "kind": "choice", "options": 4}', Label("B", "train", "choice", 4)),
        ("{1, 2}", Label("{1, 2}")),
        ("{x | x > 0}", Label("{x | x > 0}")),
        ({"answer": "", "split": "train"}, Label()),
        ({"answer": "7"}, Label("7")),
        ({"answer": "7", "split": None}, Label("7")),
        ({"ground_truth": "204"}, Label()),
        ({}, Label()),
    ],
)
def test_labels(value, wanted):
    """An object says what it marks; what a plain answer marks, the policy says."""
    assert read_label(value) == wanted
    plain = wanted.answer is not None and not (isinstance(value, dict) or '"answer"' in str(value))
    assert read_label(value, policy="eval") == (replace(wanted, split="eval") if plain else wanted)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({"split": "eval"}, "an evaluation needs the right answer"),
        ({"answer": " ", "split": "eval"}, "an evaluation needs the right answer"),
        ({"answer": "1", "split": "test"}, "split must be train or eval"),
        ({"answer": "1", "split": ["eval"]}, "split must be train or eval"),
        ({"answer": {"value": 1}, "split": "eval"}, "must be a string, a number or a list of 1"),
        ([[1]], "must be a string, a number or a list of 1"),
        ([], "must be a string, a number or a list of 1"),
        ({"answer": "1", "kind": "poetry"}, "kind must be one of math"),
        ({"answer": "A", "kind": "choice", "options": 99}, "options must be a count from 1 to 26"),
        pytest.param('{"answer": ' + "[" * 100_000 + "]" * 100_000 + "}", "too deep or too long", id="depth"),
        pytest.param(10**5000, "too deep or too long", id="digits"),
    ],
)
def test_a_label_that_means_nothing_is_none_and_says_why(value, words):
    label = read_label(value)
    assert words in label.problem
    assert label == Label(problem=label.problem)


WORDS, NAMES = st.sampled_from(["eval", "choice"]), st.sampled_from(["answer", "split", "kind", "options"])
PLAIN = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=9) | WORDS


@given(st.recursive(PLAIN, lambda part: st.lists(part, max_size=3) | st.dictionaries(NAMES, part, max_size=4)))
def test_no_label_raises(value):
    for form in (value, json.dumps(value)):
        label = read_label(form)
        assert label.split == "train" or label.answer is not None
        assert not (label.problem and label.answer)


def test_labels_are_written_as_they_are_read():
    for label in (Label("7", "eval"), Label("B", "train", "choice", 4), Label(None, "train")):
        assert read_label(write_label(label)) == label
    with pytest.raises(ConfigError, match="means nothing: options must be a count"):
        write_label(Label("A", "train", "choice", 99))
