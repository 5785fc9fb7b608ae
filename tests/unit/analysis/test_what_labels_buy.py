"""Right labels by the number of rollouts, the power of a set of labels, several certainties."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from jsonl import write_lines

from dare_reward.analysis.calibrate import bars, calibrate, evidence, tables, winners
from dare_reward.analysis.certainty import ENTROPY, GRID, KNOWN, available
from dare_reward.analysis.group_size import by_size, dealt, sizes_of
from dare_reward.analysis.power import power
from dare_reward.analysis.verdict import LINE, _best, judge
from dare_reward.cli import main
from dare_reward.groups import Groups
from dare_reward.methods import find, read_line
from dare_reward.scoring.score import pseudo_label

BY_VOTE = {"vote": lambda g: g.first_max(g.votes_A)}


def drawn(prompts=40, size=16, *, gap=0.3, right=0.4, seed=0, logprobs=False, answers_only=False):
    """Groups, their truth: right rollouts have less entropy by `gap`, and more probability where it is asked for."""
    rng = np.random.default_rng(seed)
    answers, entropies, sums = [], [], []
    for _ in range(prompts):
        own = np.where(rng.random(size) < right, "7", rng.choice(["8", "8", "9"], size))
        answers.append(own.tolist())
        entropies.append((0.5 - gap * (own == "7") + 0.1 * rng.random(size)).tolist())
        sums.append((-4 + 3 * (own == "7") - rng.random(size)).tolist())
    more = {"sum_logprob": sums, "num_tokens": [[4.0] * size] * prompts} if logprobs else {}
    more |= {"answer_entropy": [[2 * x * x for x in own] for own in entropies]} if logprobs or answers_only else {}
    more |= {"answer_logprob": [[x / 3 for x in own] for own in sums]} if logprobs else {}
    groups = Groups.of(answers, mean_entropy=entropies, **more)
    if logprobs:
        groups = groups.with_column("path", np.arange(prompts * size, dtype=np.float64))
    return groups, np.array([float(a == "7") for own in answers for a in own])


def test_each_rollout_is_dealt_once_and_keeps_its_own():
    groups, _ = drawn(prompts=5, size=10, logprobs=True)
    part, prompt_G, old_A = dealt(groups, np.arange(5) != 2, 4, np.random.default_rng(0))
    assert part.sizes_P.tolist() == [4] * 8
    assert prompt_G.tolist() == [0, 0, 1, 1, 3, 3, 4, 4]
    paths = part.column("path").astype(int)
    assert len(set(paths.tolist())) == 32
    assert (groups.group_R[paths] == prompt_G[part.group_R]).all()
    assert (old_A[part.answer_R] == groups.answer_R[paths]).all()
    assert (part.column("mean_entropy") == groups.column("mean_entropy")[paths]).all()
    first = [part.answer_R[part.group_R == g] for g in range(8)]
    assert all(list(dict.fromkeys(own.tolist())) == sorted(set(own.tolist())) for own in first), "first-seen order"
    whole, _, _ = dealt(groups, np.ones(5, bool), 10, None)
    assert (whole.answer_R == groups.answer_R).all()


def test_sizes_double_up_to_what_nine_of_ten_prompts_have():
    groups = Groups.of([["1"] * m for m in [20] * 9 + [3]])
    assert sizes_of(groups, np.ones(10, bool)) == (3,)
    assert sizes_of(groups, np.arange(10) < 9) == (4, 8, 16, 20)
    assert sizes_of(groups, np.zeros(10, bool)) == ()


def test_the_share_at_the_file_s_own_size_is_that_of_the_method():
    groups, correct_R = drawn(gap=0.1, right=0.3)
    found = by_size(groups, correct_R, BY_VOTE | {"one": lambda g: winners(g, ENTROPY, {}, 1.0)})
    assert (found.sizes, found.prompts) == ((4, 8, 16), 40)
    own = evidence(groups, correct_R, tables(groups, ENTROPY)).right_PB.mean(axis=0)[3:5]
    assert [row.share[-1] for row in found.rows] == pytest.approx(own)


def test_power_grows_with_the_effect_and_the_labels():
    groups, correct_R = drawn(prompts=120, gap=0.1)
    known_R = np.where(groups.group_R < 40, correct_R, np.nan)
    unsure_R, found = groups.column("mean_entropy"), tables(groups, ENTROPY)

    def of(truth_R, auroc):
        return power(groups, unsure_R, evidence(groups, truth_R, found), auroc=auroc)

    few, many = of(known_R, 0.58), of(correct_R, 0.58)
    assert few.share < many.share
    assert few.tested >= few.share
    assert few.share < of(known_R, 0.62).share
    assert of(known_R, 0.5).share <= 0.02
    assert math.isnan(of(known_R, 0.9999).share)


def test_power_is_the_share_of_worlds_in_which_the_rule_says_use():
    """Labels drawn at exponent 2, counted by `calibrate` itself, against `power` at the AUROC which that gives."""
    groups, _ = drawn(prompts=40, gap=0.15)
    found, rng = tables(groups, ENTROPY), np.random.default_rng(1)
    share_A = found.shares_at(groups, 2.0)
    used, aurocs = [], []
    for _ in range(60):
        right_A = groups.first_max(np.log(share_A) + rng.gumbel(size=len(share_A)))
        c = calibrate(groups, groups.spread(right_A.astype(np.float64), fill=0.0))
        used.append(c.exponent > 0)
        aurocs.append(c.auroc.estimate)
    truth_R = groups.spread(right_A.astype(np.float64), fill=0.0)
    e = evidence(groups, truth_R, found)
    own = power(groups, groups.column("mean_entropy"), e, auroc=float(np.mean(aurocs)))
    assert own.share == pytest.approx(np.mean(used), abs=0.2)
    assert 0.1 < own.share < 0.999


def test_a_file_s_certainties_are_those_it_has_the_inputs_of():
    bare, _ = drawn()
    both, _ = drawn(logprobs=True)
    assert available(bare) == [ENTROPY]
    assert available(both) == list(KNOWN)
    twice = both.with_column("mean_entropy", np.full(len(both.answer_R), 0.2))
    assert available(twice)[0] == ENTROPY


@pytest.mark.parametrize("certainty", KNOWN, ids=lambda c: c.name)
def test_a_certainty_with_exponent_1_labels_as_its_method_does(certainty):
    groups, _ = drawn(gap=0.05, right=0.3, logprobs=True)
    method, params = read_line(certainty.line(1.0))
    wins_A = winners(groups, certainty, {}, 1.0)
    assert pseudo_label(groups, find(method)(groups, **params)).tolist() == wins_A.tolist()


def test_entropy_of_the_answer_is_used_where_only_it_tells():
    groups, correct_R = drawn(prompts=60, right=0.3, answers_only=True)
    groups = groups.with_column("mean_entropy", np.full(len(correct_R), 0.5))
    found = judge(groups, correct_R)
    assert (found.use, found.calibration.certainty) == ("line", "entropy of the answer")
    method, params = read_line(found.calibration.params)
    assert (method, params["over"]) == ("calibrated_vote", "answer")
    assert params["exponent"] == found.calibration.exponent > 0


def test_among_several_the_gate_rises_and_the_best_is_used():
    groups, correct_R = drawn(prompts=60, gap=0.0, right=0.3, logprobs=True)
    found = judge(groups, correct_R)
    assert found.use == "line"
    assert found.calibration.certainty != ENTROPY.name
    assert found.calibration.params == next(k for k in KNOWN if k.name == found.calibration.certainty).line(1.0)
    assert {c.gate for c in found.calibrations} == {bars(60, 60, tried=len(KNOWN)).gate}
    gates = [bars(32, 32, tried=n).gate for n in (1, 2, 3, 5)]
    assert gates == sorted(set(gates))
    assert (gates[0], gates[-1]) == (3, pytest.approx(3.46, abs=0.01))
    assert [row.name for row in found.rollouts.rows][::6] == ["plain vote", LINE]


def test_truth_reaches_no_label():
    """What is labelled by group size is the same whatever is right."""
    groups, correct_R = drawn(prompts=6)
    wrong, right = (by_size(groups, truth_R, BY_VOTE) for truth_R in (1 - correct_R, correct_R))
    assert wrong.sizes == right.sizes
    assert wrong.rows[0].share[-1] <= 1 - right.rows[0].share[-1] + 1e-9


def file_of(tmp_path, *, label="7", **options):
    groups, _ = drawn(**options)
    entropy_R = groups.column("mean_entropy").tolist()
    rows = [{"label": label, "group_id": str(p), "rollouts": []} for p in range(len(groups.sizes_P))]
    for p, answer, entropy in zip(groups.group_R.tolist(), groups.answer_R.tolist(), entropy_R, strict=True):
        rows[p]["rollouts"].append({"answer": groups.text_A[answer], "mean_entropy": entropy})
    return str(write_lines(tmp_path / "in.jsonl", rows))


def test_rollouts_are_dealt_at_random_into_smaller_groups():
    """5 to 3 votes: of the halves that 8 rollouts are dealt into, 13 of 14 label as all 8 do, with ties to the first."""
    groups = Groups.of([list("aaaaabbb")] * 600)
    (row,) = by_size(groups, np.tile([1.0] * 5 + [0.0] * 3, 600), BY_VOTE).rows
    least = math.comb(3, 3) * 5 / math.comb(8, 4)  # three b in a half
    tied = math.comb(5, 2) * math.comb(3, 2) / math.comb(8, 4) / 2  # two and two: which comes first is chance
    assert row.share == pytest.approx([1 - least - tied, 1.0], abs=0.03)


def test_the_tokens_of_answers_give_their_entropy_a_line(tmp_path, ran):
    rng = np.random.default_rng(0)
    rows = [{"label": "7", "rollouts": []} for _ in range(40)]
    for row in rows:
        for answer in rng.choice(["7", "8"], 16, p=[0.4, 0.6]):
            sure = 0.1 if answer == "7" else 1.0
            tokens = [*rng.random(4), *(sure + 0.1 * rng.random(2))]
            row["rollouts"].append({"answer": answer, "token_entropies": tokens, "answer_tokens": [4, 5]})
    path = write_lines(tmp_path / "in.jsonl", rows)
    assert "over=answer" in ran(["calibrate", str(path)], 0).out.splitlines()[-1]


def test_labels_that_equal_no_answer_are_warned_of_by_every_command(tmp_path, ran):
    path = file_of(tmp_path, label="Paris", prompts=8)
    assert main(["calibrate", path]) == 2
    err = ran(["report", path, "-o", str(tmp_path / "out.html")], 0).err
    assert err.count("no label equals any answer in 8 prompts") == 2
    assert err.count("label Paris, answer ") == 2


def test_certainties_are_compared_on_prompts_that_lack_none():
    common_P, every = np.arange(4) < 1, [SimpleNamespace(right_PB=np.zeros((4, len(GRID)))) for _ in range(2)]
    every[0].right_PB[1:] = every[1].right_PB[0] = 1
    used = [SimpleNamespace(exponent=1.0, informative=True)] * 2
    assert _best(used, every, common_P) == 1
    assert _best(used, every, ~common_P) == 0


def test_methods_stand_side_by_side_by_rollouts(tmp_path, ran):
    groups, _ = drawn(gap=0.1)
    path = file_of(tmp_path, gap=0.1)

    def told(*words):
        return json.loads(ran(["calibrate", path, "--json", *words], 0, 1).out)

    found = told("--methods", "ttrl,weighted_vote,scrl")["methods"]
    assert found["sizes"] == [4, 8, 16]
    for row in found["rows"]:
        label_A = pseudo_label(groups, find(row["name"])(groups))
        right = [text == "7" for text, on in zip(groups.text_A, label_A, strict=True) if on]
        assert row["share"][-1] == sum(right) / len(groups.sizes_P), row["name"]
    assert "\nempo " in ran(["calibrate", path, "--methods", "ttrl,empo"], 0, 1).out
    near, far = (told("--methods", "dare", "-p", f"eps={eps}")["methods"] for eps in (0.05, 1000))
    assert near != far, "the weight of the verdict is that of the methods"
    found = told("--methods", "ttrl", "--seed", "3")
    (vote, *_), (ttrl,) = found["rollouts"]["rows"], found["methods"]["rows"]
    assert vote["share"] == ttrl["share"], "the same deals"
    assert "--methods gt" in ran(["calibrate", path, "--methods", "ttrl,gt"], 2).err


def test_methods_that_need_no_entropies_are_shown_where_there_are_none(tmp_path, ran):
    rows = [{"label": "a", "rollouts": [{"answer": a} for a in own]} for own in ("aaab", "abbb", "aabb", "bbbb")]
    shown = ran(["calibrate", str(write_lines(tmp_path / "in.jsonl", rows)), "--methods", "ttrl,empo"], 2)
    assert "\nttrl " in shown.out
    assert "no labelled prompt can be scored" in shown.err


def test_pass_and_majority_of_k_of_the_file_are_shown(tmp_path, ran):
    groups, correct_R = drawn(gap=0.1)
    found = json.loads(ran(["calibrate", file_of(tmp_path, gap=0.1), "--json"], 0, 1).out)["accuracy"]
    assert list(found["pass@k"]) == ["1", "2", "4", "8", "16"]
    assert found["pass@k"]["1"]["estimate"] == pytest.approx(correct_R.mean())
    right = [groups.text_A[a] == "7" for a in np.flatnonzero(groups.first_max(groups.votes_A))]
    assert found["maj@k, ties by chance"]["16"]["estimate"] == pytest.approx(np.mean(right), abs=0.02)  # they share it


def test_the_line_s_figures_are_of_prompts_that_took_no_part_in_its_fit():
    groups, correct_R = drawn(prompts=60, gap=0.05, right=0.4)
    found = judge(groups, correct_R)
    assert found.use == "line"
    by_name = {row.name: row for row in found.rollouts.rows}
    gain = by_name[LINE].share[-1] - by_name["plain vote"].share[-1]
    assert gain == pytest.approx(found.calibration.gain.estimate)
    assert f": {100 * gain:+.1f} points" in found.why
