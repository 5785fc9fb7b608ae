"""What a request may say, and how it is told that it may not."""

import math
from functools import partial

import numpy as np
import pytest
from refusals import refusal
from rows import each

import dare_reward
from dare_reward.errors import LimitError, RequestError, path
from dare_reward.groups import Ragged
from dare_reward.runs.line import line
from dare_reward.scoring.request import Limits, prepare


def rollout(**changes):
    return {"answer": "1", "mean_entropy": 0.2, **changes}


def group(*rollouts, **changes):
    return {"rollouts": list(rollouts or (rollout(), rollout())), **changes}


refuse = partial(refusal, dare_reward.estimate)


BAD = {
    "not a list": ({"rollouts": []}, "groups", "type"),
    "a string": ("groups", "groups", "type"),
    "group not an object": ([3], "groups[0]", "type"),
    "no rollouts": ([{}], "groups[0].rollouts", "empty_group"),
    "empty group": ([group(), {"rollouts": []}], "groups[1].rollouts", "empty_group"),
    "rollouts a string": ([{"rollouts": "ab"}], "groups[0].rollouts", "empty_group"),
    "unknown group field": ([group(grp=1)], "groups[0]", "unknown_field"),
    "unknown rollout field": ([group(rollout(), rollout(entropy=1))], "groups[0].rollouts[1]", "unknown_field"),
    "rollout not an object": ([group(rollout(), "x")], "groups[0].rollouts[1]", "type"),
    "group_id empty": ([group(group_id="")], "groups[0].group_id", "value"),
    "group_id long": ([group(group_id="x" * 257)], "groups[0].group_id", "value"),
    "duplicate group_id": ([group(group_id="a"), group(group_id="a")], "groups[1].group_id", "duplicate_id"),
    "an id that is another's index": ([group(group_id="1"), group()], "groups[1].group_id", "duplicate_id"),
    "kind": ([group(kind="maths")], "groups[0].kind", "value"),
    "kinds": ([group(kind=np.array(["math", "text"]))], "groups[0].kind", "value"),
    "label a number": ([group(label=4)], "groups[0].label", "type"),
    "duplicate rollout id": ([group(rollout(id="a"), rollout(id="b"), rollout(id="a"))], "groups[0].rollouts[2].id", "duplicate_id"),
    "trained null": ([group(rollout(trained=None))], "groups[0].rollouts[0].trained", "type"),
    "entropy a bool": ([group(rollout(mean_entropy=True))], "groups[0].rollouts[0].mean_entropy", "type"),
    "entropy negative": ([group(rollout(), rollout(mean_entropy=-1e-9))], "groups[0].rollouts[1].mean_entropy", "value"),
    "entropy NaN": ([group(), group(rollout(mean_entropy=math.nan))], "groups[1].rollouts[0].mean_entropy", "value"),
    "entropy infinite": ([group(rollout(mean_entropy=math.inf))], "groups[0].rollouts[0].mean_entropy", "value"),
    "entropy beyond any vocabulary": ([group(rollout(mean_entropy=1001))], "groups[0].rollouts[0].mean_entropy", "value"),
    "entropy a huge integer": ([group(rollout(mean_entropy=10**400))], "groups[0].rollouts[0].mean_entropy", "value"),
    "entropy minus a huge integer": ([group(rollout(mean_entropy=-(10**400)))], "groups[0].rollouts[0].mean_entropy", "value"),
    "answer an integer that Python does not write": ([group(rollout(), rollout(answer=10**5000))], "groups[0].rollouts[1].answer", "value"),
    "num_tokens negative": ([group(rollout(num_tokens=-1))], "groups[0].rollouts[0].num_tokens", "value"),
    "tokens a number": ([group({"token_entropies": 1})], "groups[0].rollouts[0].token_entropies", "type"),
    "tokens a string": ([group({"token_entropies": "12"})], "groups[0].rollouts[0].token_entropies", "type"),
    "a token null": ([group({"token_entropies": [0.1, None]})], "groups[0].rollouts[0].token_entropies[1]", "type"),
    "a token bool": ([group({"token_entropies": [0.1, True]})], "groups[0].rollouts[0].token_entropies[1]", "type"),
    "a token negative": ([group({"token_entropies": [0.1, -0.1]})], "groups[0].rollouts[0].token_entropies[1]", "value"),
    "a token NaN": ([group({"token_entropies": [0.1, 0.2, math.nan]})], "groups[0].rollouts[0].token_entropies[2]", "value"),
    "a huge token": ([group({"token_entropies": [10**400]})], "groups[0].rollouts[0].token_entropies", "type"),
    "a matrix of tokens": ([group({"token_entropies": np.zeros((2, 2))})], "groups[0].rollouts[0].token_entropies", "type"),
    "complex tokens": ([group({"token_entropies": np.zeros(2, complex)})], "groups[0].rollouts[0].token_entropies", "type"),
    "a mask of numbers": ([group({"token_entropies": [0.1], "token_mask": [1]})], "groups[0].rollouts[0].token_mask[0]", "type"),
    "a mask alone": ([group({"token_mask": [True]})], "groups", "conflict"),
    "a mean that its tokens do not have": ([group(rollout(), rollout(token_entropies=[0.1]))], "groups[0].rollouts[1].mean_entropy", "conflict"),
    "a sum that its tokens do not have": ([group({"token_logprobs": [-1.0, -2.0], "sum_logprob": -3.00001})], "groups[0].rollouts[0].sum_logprob", "conflict"),
    "an answer's entropy that its tokens do not have": ([group({"token_entropies": [1.0, 2.0], "answer_tokens": [1, 2], "answer_entropy": 1.5})], "groups[0].rollouts[0].answer_entropy", "conflict"),
    "options": ([group(kind="choice", options=["AB"])], "groups[0].options", None),
}  # fmt: skip


@each("name", BAD)
def test_what_is_refused_with_its_place(name):
    groups, loc, code = BAD[name]
    error = refuse(groups)
    assert (path(error.loc), error.status, error.code) == (loc, 422, code or error.code)
    assert len(str(error)) < 400


@pytest.mark.parametrize("factor", [1, 1 + 5e-7, 1 - 5e-7])
def test_a_scalar_beside_the_tokens_that_give_it_changes_nothing(factor):
    tokens = {"answer": "7", "token_entropies": [0.0, 1.0, 2.5], "token_logprobs": [-0.1, -1.0, -3.0]}
    tokens |= {"token_mask": [True, False, True], "answer_tokens": [2, 3]}
    scalars = {"mean_entropy": 1.25, "sum_logprob": -3.1, "answer_entropy": 2.5, "answer_logprob": -3.0}
    both = tokens | {name: factor * value for name, value in scalars.items()}
    columns = {
        "token_entropies": Ragged(np.array(tokens["token_entropies"], np.float32), np.array([3])),
        "answer_tokens": Ragged(np.array([2, 3]), np.array([2])),
    }
    alone = prepare([group(tokens)]).groups
    frame = prepare([group({k: v for k, v in both.items() if k not in columns})], columns=columns).groups
    for name in scalars:
        assert prepare([group(both)]).groups.column(name) == alone.column(name)
        assert frame.column(name) == pytest.approx(alone.column(name), rel=1e-6)


def test_a_scalar_of_tokens_without_entropy_is_zero():
    assert prepare([group({"token_entropies": [0.0], "mean_entropy": 0.0})]).groups.column("mean_entropy") == 0


@pytest.mark.parametrize(
    ("groups", "limits"),
    [
        ([group(), group()], Limits(groups=1)),
        ([group(rollout(), rollout(), rollout())], Limits(rollouts=2)),
        *(([group({name: "x" * 11})], Limits(text=10)) for name in ("answer", "text")),
        *(([group(**{name: "x" * 11})], Limits(text=10)) for name in ("label", "reference", "prompt")),
        ([group(rollout(), rollout()), group(rollout())], Limits(total=2)),
    ],
)
def test_limits(groups, limits):
    assert refusal(dare_reward.estimate, groups, limits=limits, error=LimitError).status == 413


CUT = {"finish_reason": "length", "mean_entropy": 0.2}
CUTS = [{**CUT, "text": "\\boxed{4}"}, {**CUT, "text": "The answer is 4."}, {**CUT, "answer": "4"}]
BOTH = [{"answer": "7", "text": "\\boxed{8}"}, {"answer": None, "text": "\\boxed{8}"}, {"text": "\\boxed{8}"}]
MASKED = {"answer": "1", "token_entropies": [0.1, 0.2], "token_mask": [False, False]}


@each(
    ("rollouts", "answers", "params"),
    [
        *(([rollout(), {"answer": no}, {"text": no}], ("1", None, None), {}) for no in ("", "   ", "\n", None)),
        ([{"mean_entropy": 0.3}], (None,), {}),
        (BOTH, ("7", None, "8"), {"missing_entropy": "frequency"}),
        ([rollout(), {"answer": "1", "num_tokens": 0}], ("1", None), {}),
        ([{"answer": "1", "token_entropies": [0.3]}, MASKED], ("1", None), {}),
        (CUTS, ("4", None, "4"), {"truncated": "boxed"}),
        *(([{**c, "finish_reason": end} for c in CUTS], ("4", None, "4"), {}) for end in ("abort", "MAX_TOKENS")),
        (CUTS, ("4", "4", "4"), {"truncated": "as_is"}),
        (CUTS, (None, None, None), {"truncated": "invalid"}),
    ],
)
def test_who_has_an_answer(rollouts, answers, params):
    """What is blank, cut off or generated nothing has none, and is no error; `answer` wins, even as null."""
    found = dare_reward.estimate([group(*rollouts)], **params).groups[0]
    assert (found.error, found.answers) == (None, answers)
    assert found.valid == tuple(answer is not None for answer in answers)
    assert found.rewards == tuple(r if ok else 0.0 for r, ok in zip(found.rewards, found.valid, strict=True))


def test_masked_tokens_do_not_count():
    mixed = {"answer": "1", "token_entropies": [0.1, 50.0, 0.3], "token_mask": [True, False, True]}
    found = dare_reward.estimate([group(mixed, {"answer": "2", "token_entropies": [0.2, 0.4]})]).groups[0]
    assert [s.uncertainty for s in found.support] == pytest.approx([0.2, 0.3])


def test_meta_prompt_ids_and_the_kind_of_sequence_are_ignored():
    plain = dare_reward.estimate([group(), group()]).groups
    assert [g.group_id for g in plain] == ["0", "1"]
    own = [rollout(id="a", meta={"x": [1]}), rollout(id="b")]
    dressed = ({"rollouts": tuple(own), "prompt": "?", "meta": {"y": math.nan}},)
    assert dare_reward.estimate(dressed).groups[0].rewards == plain[0].rewards


@pytest.mark.parametrize("kind", [np.float32, np.float64, float])
def test_numpy_numbers_and_arrays_are_welcome_in_process(kind):
    mean = dare_reward.estimate([group(rollout(mean_entropy=kind(0.25)))]).groups[0]
    tokens = dare_reward.estimate([group({"answer": "1", "token_entropies": np.array([0.25, 0.25], kind)})]).groups[0]
    assert mean.support[0].uncertainty == tokens.support[0].uncertainty == 0.25


def test_columns_beside_the_json():
    plain = [{"rollouts": [{"answer": "1"}, {"answer": "2"}]}]
    by_column = dare_reward.estimate(plain, columns={"mean_entropy": np.array([0.1, 0.2])})
    by_field = dare_reward.estimate([group(rollout(mean_entropy=0.1), rollout(answer="2", mean_entropy=0.2))])
    assert by_column.groups == by_field.groups


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"mean_entropy": np.zeros(3)}, "length"),
        ({"mean_entropy": Ragged(np.zeros(2), np.array([1, 1]))}, "shape"),
        ({"token_entropies": np.zeros(2)}, "shape"),
        ({"token_entropies": Ragged(np.zeros(2), np.array([2]))}, "length"),
        ({"logits": np.zeros(2)}, "tensor"),
        ({"num_tokens": np.ones(2)}, "conflict"),
    ],
)
def test_columns_that_do_not_fit(columns, code):
    rollouts = [{"answer": "1", "num_tokens": 1}, {"answer": "2"}]
    assert refuse([{"rollouts": rollouts}], columns=columns).code == code


def test_unknown_method_and_parameters():
    assert "Did you mean dare" in str(refuse([group()], method="dre"))
    assert "Did you mean eps" in str(refuse([group()], esp=0.1))
    assert refuse([group()], eps=-1).loc == ("params", "eps")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [-0.0, 5e-324, 1000.0, np.nextafter(1000, 0)])
def test_the_edges_of_the_range_are_in(dtype, value):
    tokens = np.array([0.5, value, 0.25], dtype)
    assert dare_reward.estimate([group({"answer": "1", "token_entropies": tokens})]).groups[0].error is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("value", [-1e-30, 1000.1, np.inf, -np.inf, np.nan, -np.nan])
def test_the_outside_of_the_range_is_out(dtype, value):
    error = refuse([group({"answer": "1", "token_entropies": np.array([0.5, value, 0.25], dtype)})])
    assert error.loc[-2:] == ("token_entropies", 1)


@pytest.mark.parametrize(
    ("name", "own"),
    [("responses", "rollouts"), ("completion", "rollouts"), ("ground_truth", "label"), ("answer", "label")],
)
def test_the_names_of_other_tools_suggest_ours(name, own):
    with pytest.raises(RequestError, match=f"unknown field '{name}'. Did you mean {own}?"):
        dare_reward.estimate([{"rollouts": [{"answer": "1"}], name: []}])


def test_the_parts_of_a_chat_reply_stand_for_their_text():
    """In a request and in its run log; in a file they come as `message` or `content` of an engine's choices."""
    parts = [{"type": "reasoning", "reasoning": "7"}, {"type": "text", "text": r"So \boxed{1"}, {"text": "2}."}]
    sent = [{"text": parts, "mean_entropy": 0.2}, {"text": r"So \boxed{12}.", "mean_entropy": 0.2}]
    (reply,) = dare_reward.estimate([{"rollouts": sent}]).groups
    assert reply.answers == ("12", "12")
    logged = line({"rollouts": sent}, reply, {}, asked=frozenset({"texts"}))["rollouts"]
    assert [r["text"] for r in logged] == [r"So \boxed{12}."] * 2
    error = refuse([{"rollouts": [sent[1], {"text": [{"type": "image_url", "image_url": "..."}]}]}], method="ttrl")
    assert (error.loc, "'image_url'" in error.message) == (("groups", 0, "rollouts", 1, "text"), True)
