"""Which tokens say how sure a policy is: `over`, `certainty`, `tie=certainty`, and the inputs that they read."""

import json
import math
from functools import partial

import numpy as np
import pytest
from method_params import params_of
from refusals import refusal
from said import said

from dare_reward import estimate
from dare_reward._outgoing import Sending, parts
from dare_reward.groups import Groups
from dare_reward.methods import find, methods
from dare_reward.scoring.array_inputs import path_digest, without_tokens
from dare_reward.stacks.adapter import Scorer
from dare_reward.wire import pack, unpack

READERS = sorted(name for name, m in methods().items() if "mean_entropy" in m.inputs)
# so \boxed{42}. <end>
OFFSETS = [[0, 3], [3, 10], [10, 11], [11, 12], [12, 13], [13, 14], [14, 14]]
TRACE = [0.9, 0.8, 0.1, 0.3, 0.2, 0.5, 0.7]


def rollout(answer="42", shift=0.0, **more):
    own = {"token_entropies": [h + shift for h in TRACE], "token_logprobs": [-h - shift for h in TRACE]}
    return {"text": f"so \\boxed{{{answer}}}.", "token_ids": [*range(7), int(answer)], **own, **more}


def ids(rollouts):
    """As many token ids as tokens."""
    return [{**r, "token_ids": r["token_ids"][1:]} for r in rollouts]


def found_of(rollouts, method="weighted_vote", **params):
    (found,) = estimate([{"rollouts": rollouts}], method=method, **params).groups
    return found


def uncertainty(rollouts, **params):
    return [s.uncertainty for s in found_of(rollouts, **params).support]


def test_every_method_that_reads_entropies_has_the_parameter_once():
    """A new one has it by naming the input."""
    assert {"dare", "weighted_vote", "calibrated_vote", "scrl", "rent", "ttrl"} <= set(READERS)
    for name, method in methods().items():
        assert [s.name for s in method.specs].count("over") == (name in READERS), name


@pytest.mark.parametrize(
    ("over", "expected"),
    [("trace", 0.5), ("answer", 0.2), ("last=1", 0.7), ("last=3", 1.4 / 3), ("last=7", 0.5), ("last=100", 0.5)],
)
@pytest.mark.parametrize("way", [{"answer_tokens": [2, 4]}, {"token_offsets": OFFSETS}])
def test_which_tokens_count(over, expected, way):
    """The answer's are 42 and the brace that ends it, as it is said, or found by the tokens' places in the text."""
    assert uncertainty(ids([rollout(**way)]), over=over) == pytest.approx([expected])


def test_the_token_that_ends_an_answer_counts_and_may_decide():
    """Two answers whose own tokens are equally sure: 4 that might have gone on, and 5 that could not."""
    rollouts = said("45", token_entropies=[[0.3, 0.1, 0.9], [0.3, 0.1, 0.1]], answer_tokens=[[1, 2]] * 2)
    found = found_of(rollouts, over="answer")
    assert found.pseudo_label == "5"
    assert [s.uncertainty for s in found.support] == pytest.approx([0.5, 0.1])
    cut = {"answer": "4", "token_entropies": [0.3, 0.1], "answer_tokens": [1, 2]}
    assert uncertainty([cut], over="answer") == pytest.approx([0.1]), "nothing ends it"


def test_tokens_that_the_policy_did_not_generate_do_not_count():
    masked = rollout(answer_tokens=[2, 4], token_mask=[True, True, True, False, True, True, True])
    assert uncertainty(ids([masked]), over="answer") == pytest.approx([0.15])
    assert uncertainty(ids([masked]), over="last=4") == pytest.approx([(0.1 + 0.2 + 0.5 + 0.7) / 4])


def test_a_rollout_without_the_tokens_counts_with_its_trace_and_is_flagged():
    other = {"answer": "2", "mean_entropy": 0.4, "answer_entropy": 0.1}
    rollouts = [{"answer": "1", "mean_entropy": 0.4}, other, {"answer": None}]
    found = found_of(rollouts, "dare", over="answer")
    assert [s.uncertainty for s in found.support] == [0.4, 0.1]
    assert "trace_entropy" in found.flags
    assert found.diagnostics["trace_entropy"] == 0.5
    assert "trace_entropy" not in found_of(rollouts, "dare").diagnostics


def some_rollouts(rng, count=12):
    def rollout():
        own = {"answer": str(rng.integers(0, 3)), "mean_entropy": rng.random(), "answer_entropy": rng.random()}
        return {**own, "answer_logprob": -rng.random(), "num_tokens": 9}

    return [rollout() for _ in range(count)]


@pytest.mark.parametrize("name", READERS)
def test_over_answer_is_the_method_on_these_entropies(name):
    """Whatever the method does with entropies, it does it with the answer's."""
    params = params_of(name) | ({"tie": "certainty"} if name == "ttrl" else {})
    rollouts = some_rollouts(np.random.default_rng(5))
    swapped = [{**r, "mean_entropy": r["answer_entropy"]} for r in rollouts]
    one = found_of(rollouts, name, **params, over="answer")
    assert one.error is None
    assert one.rewards == found_of(swapped, name, **params).rewards


LINEAR = [name for name in READERS if {"linear"} == {s.default for s in find(name).specs if s.name == "weight"}]
CHOICES = [
    *((name, {"over": "answer"}) for name in READERS),
    *((name, {"certainty": "answer_probability"}) for name in LINEAR),
    ("ttrl", {"tie": "certainty", "over": "answer"}),
]


@pytest.mark.parametrize(("name", "choice"), CHOICES, ids=str)
def test_labels_order_neighbours_and_the_way_there_change_nothing(name, choice):
    rng = np.random.default_rng(6)
    params, rollouts = params_of(name) | choice, some_rollouts(rng)
    groups = [{"group_id": "a", "rollouts": rollouts}]

    def rewards(groups, columns=None):
        return estimate(groups, method=name, columns=columns or {}, **params).groups[-1].rewards

    plain = rewards(groups)
    assert plain is not None
    marked = [{**r, "correct": i % 2 == 0} for i, r in enumerate(rollouts)]
    assert rewards([{"rollouts": marked, "label": "1"}]) == plain
    assert rewards([{"group_id": "b", "rollouts": some_rollouts(rng)}, *groups]) == plain
    order = rng.permutation(len(rollouts))
    assert rewards([{"rollouts": [rollouts[i] for i in order]}]) == pytest.approx([plain[i] for i in order])
    numbers = {k: np.array([r[k] for r in rollouts]) for k in rollouts[0] if k != "answer"}
    request = {"groups": [{"group_id": "a", "rollouts": [{"answer": r["answer"]} for r in rollouts]}]}
    frame = unpack(pack(request, numbers))
    assert rewards(json.loads(frame.request)["groups"], frame.columns) == plain
    body, columns = sent(groups, method=name, **params)
    assert rewards(body, columns) == plain


def test_an_answer_weighs_the_sum_of_its_probabilities():
    rows, params = said("112", answer_logprob=np.log([0.2, 0.3, 0.6]).tolist()), {"certainty": "answer_probability"}
    found = found_of(rows, **params)
    assert found.pseudo_label == "2"
    assert [s.p_hat for s in found.support] == pytest.approx([0.5 / 1.1, 0.6 / 1.1])
    assert [s.uncertainty for s in found.support] == pytest.approx([0.75, 0.4])
    half = found_of(rows, "calibrated_vote", exponent=0.5, **params)
    mass = [0.2**0.5 + 0.3**0.5, 0.6**0.5]
    assert [s.p_hat for s in half.support] == pytest.approx([m / sum(mass) for m in mass])
    assert found_of(rows, exponent=0, **params).pseudo_label == "1"
    improbable = said("12", answer_logprob=[-6000.0, -5990.0])
    assert found_of(improbable, **params).rewards == (0.0, 1.0), "exp(-6000) is 0 in floating point"


def test_a_missing_probability_and_a_weight_that_has_none():
    rows = [*said("12", answer_logprob=[-1.0, -0.1]), {"answer": "1", "mean_entropy": 0.1}]
    scored = partial(found_of, rows, "dare", certainty="answer_probability")
    assert scored().error.code == "missing_probability"
    assert "(index 2)" in scored().error.message
    assert scored(missing_entropy="frequency").pseudo_label == "1"
    assert "missing_entropy_imputed" in scored(missing_entropy="group_mean").flags
    error = refusal(scored, weight="log")
    assert (error.code, error.loc) == ("conflict", ("params", "certainty"))


def test_ties_go_to_the_surer_answer_and_other_votes_do_not():
    tied = [0.5, 0.1, 0.3, 0.4]

    def label(answers, entropies, **params):
        found = found_of(said(answers, mean_entropy=entropies), "ttrl", **params)
        return found.pseudo_label, found.entropy_source

    assert label("1221", tied) == ("1", "none")
    assert label("1221", tied, tie="certainty") == ("2", "exact")
    assert label("12211", [*tied, 9.0], tie="certainty") == ("1", "none")
    assert label("12", [0.2, 0.2], tie="certainty") == ("1", "exact"), "equally sure: the first seen"
    assert found_of(said("1"), "ttrl", tie="certainty").error.code == "missing_input"


def test_a_vote_that_certainty_decides_is_open_until_all_votes_are_in():
    ballots = find("ttrl").ballots
    groups = Groups.of([["1", "2"]], mean_entropy=[[0.5, 0.1]])
    params = find("ttrl").resolve({"tie": "certainty"})
    assert ballots(groups, params).leader_A.tolist() == [True, True]


@pytest.mark.parametrize(
    ("more", "code", "place"),
    [
        ({"answer_tokens": [3]}, "span", ()),
        ({"answer_tokens": [3, 3]}, "span", ()),
        ({"answer_tokens": [4, 3]}, "span", ()),
        ({"answer_tokens": [6, 8]}, "span", ()),
        ({"answer_tokens": [1, -2]}, "value", (1,)),
        ({"answer_tokens": [1, 2.5]}, "type", (1,)),
    ],
)
def test_a_span_that_is_none(more, code, place):
    error = refusal(estimate, [{"rollouts": ids([rollout(), rollout(**more)])}], method="ttrl")
    assert (error.code, error.loc) == (code, ("groups", 0, "rollouts", 1, "answer_tokens", *place))


def refused(*rollouts, **params):
    return refusal(estimate, [{"rollouts": rollouts}], **params)


SURE = {"answer": "1", "mean_entropy": 0.1}


def test_a_span_without_tokens_and_an_answer_twice():
    assert refused({**SURE, "answer_tokens": [0, 1]}).loc[-1] == "answer_tokens"
    assert refused(*ids([rollout(answer_tokens=[2, 4], answer_entropy=0.1)])).code == "conflict"
    assert refused(*ids([rollout(token_offsets=[[0]] * 7)])).loc[-1] == "token_offsets"


@pytest.mark.parametrize("over", ["answers", "last=0", "last=", "last=-1", "LAST=2", "last=12345678", 3])
def test_a_place_that_is_none(over):
    assert refused(SURE, over=over).loc == ("params", "over")


@pytest.mark.parametrize("value", [0.1, math.nan, math.inf, True])
@pytest.mark.parametrize("name", ["answer_logprob", "sum_logprob"])
def test_a_probability_that_is_none(name, value):
    assert refused(SURE, {"answer": "1", name: value}).loc == ("groups", 0, "rollouts", 1, name)


NUMBERS = Sending()


def sent(groups, *, method="weighted_vote", sending=NUMBERS, **params):
    head = {"method": method, "params": params}
    (part,) = parts(groups, head, sending)
    if part.media_type == "application/json":
        return json.loads(part.content)["groups"], {}
    frame = unpack(part.content)
    return json.loads(frame.request)["groups"], frame.columns


@pytest.mark.parametrize("over", ["trace", "answer", "last=2"])
@pytest.mark.parametrize(
    "sending", [Sending(), Sending(text=True), Sending(tokens=True), Sending(text=True, tokens=True)]
)
def test_numbers_travel_and_the_same_rewards_come_of_them(over, sending):
    rollouts = ids([rollout("42", token_offsets=OFFSETS), rollout("17", 0.1, answer_tokens=[2, 4]), rollout("17", 0.3)])
    groups = [{"rollouts": rollouts}]
    here = estimate(groups, method="dare", over=over)
    body, columns = sent(groups, method="dare", sending=sending, over=over)
    there = estimate(body, columns=columns, method="dare", over=over)
    assert there.groups[0].rewards == here.groups[0].rewards
    travelling = {name for g in body for r in g["rollouts"] for name in r} | columns.keys()
    assert "token_offsets" not in travelling
    arrays = {"token_entropies", "answer_tokens"} if over == "last=2" else set()
    if not sending.tokens:
        assert travelling & {"token_entropies", "token_logprobs", "answer_tokens"} == arrays


def test_a_stack_hands_over_tokens_and_the_place_of_the_answer():
    rows = [
        {"text": "\\boxed{1}", "logprobs": [-0.1, -0.2, -0.6], "answer_tokens": [1, 2]},
        {"text": "\\boxed{2}", "logprobs": [-0.1, 1e-6]},
    ]
    one = Scorer.of("http://service").group("a", rows)
    numbers = [without_tokens(r) for r in one["rollouts"]]
    assert [r.get("answer_entropy") for r in numbers] == [pytest.approx(0.4), None]
    assert one["entropy_source"] == "logprob"
    params = {"certainty": "answer_probability", "missing_entropy": "frequency"}
    assert estimate([one], method="weighted_vote", **params).groups[0].error is None
    bad = Scorer.of("http://service").group("a", [{"text": "\\boxed{1}", "mean_entropy": 0.1, "logprobs": [0.5]}])
    assert "token_logprobs" not in bad["rollouts"][0], "a run does not end of a number that its method does not read"


def test_what_follows_from_tokens_and_a_path():
    tokens = {"token_entropies": [0.1, 0.2, 0.3], "token_logprobs": [-0.1, -0.2, -0.3], "token_ids": [5, 6, 7]}
    found = without_tokens({**tokens, "answer_tokens": [0, 1]})
    path = found.pop("path")
    assert found == pytest.approx(
        {"mean_entropy": 0.2, "answer_entropy": 0.15, "sum_logprob": -0.6, "answer_logprob": -0.3, "num_tokens": 3}
    )
    assert path == path_digest({"token_ids": np.array([5, 6, 7], np.int32)}) != path_digest({"token_ids": [5, 6, 8]})
    assert path_digest({"text": ""}) is None
