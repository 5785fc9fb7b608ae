"""Array inputs of every shape, as lists and as tensors: what is taken, what is refused and where."""

from functools import partial

import numpy as np
import pytest
from refusals import refusal

from dare_reward.groups import Groups, Ragged
from dare_reward.inputs import FIELDS
from dare_reward.scoring.array_inputs import Table, read_columns


def where(i):
    return ("groups", 0, "rollouts", i)


def read(*rollouts, **tensors):
    return read_columns(Table.of(list(rollouts)), tensors, where)


refuse = partial(refusal, read)


def test_every_shape_as_lists_and_as_tensors():
    rollouts = [
        {"topk_logprobs": [[-0.1, -2.0], [-1, -1]], "embedding": [1, 2.5], "token_ids": [3, 4, 5], "verified": 1},
        {"topk_logprobs": None, "embedding": None, "token_ids": None, "verified": None},
    ]
    found = read(*rollouts)
    assert found["topk_logprobs"].values.shape == (2, 2)
    assert found["topk_logprobs"].lengths.tolist() == [2, 0]
    assert found["embedding"].values.tolist() == [[1, 2.5]]
    assert found["embedding"].lengths.tolist() == [1, 0]
    assert found["token_ids"].values.tolist() == [3, 4, 5]
    assert found["num_tokens"][0] == 2
    assert np.isnan(found["num_tokens"][1])
    again = read({}, {}, **{n: found[n] for n in ("topk_logprobs", "token_ids")})
    assert again["topk_logprobs"].values is found["topk_logprobs"].values
    arrays = read({"topk_logprobs": np.log([[0.9, 0.1]]), "embedding": np.ones(3, np.float32)})
    assert arrays["embedding"].values.shape == (1, 3)


def test_what_follows_from_tokens():
    mask = [True, False, True]
    tokens = {"token_entropies": [0.1, 9.0, 0.3], "token_logprobs": [-1.0, -9.0, -2.0], "token_mask": mask}
    found = read({**tokens, "token_self_certainty": [4.0, 9.0, 6.0]}, {"token_logprobs": [-1.0, -1.0]})
    assert found["mean_entropy"][0] == pytest.approx(0.2)
    assert np.isnan(found["mean_entropy"][1])
    assert found["sum_logprob"].tolist() == [-3.0, -2.0]
    assert found["mean_self_certainty"][0] == 5.0
    assert found["num_tokens"].tolist() == [2.0, 2.0]
    assert found["token_mask"].values.tolist() == [*mask, True, True]
    groups = Groups(np.array([2]), np.array([-1, -1]), np.array([0]), (), found)
    assert groups.generated("token_entropies").values.tolist() == [0.1, 0.3]
    assert groups.generated("token_logprobs").values.tolist() == [-1.0, -2.0, -1.0, -1.0]
    assert groups.generated("token_logprobs").lengths.tolist() == [2, 2]


@pytest.mark.parametrize(
    ("rollout", "loc"),
    [
        ({"token_logprobs": [0.1]}, ("token_logprobs", 0)),
        ({"token_logprobs": "x"}, ("token_logprobs",)),
        ({"topk_logprobs": [[-1.0, 0.5]]}, ("topk_logprobs", 0, 1)),
        ({"topk_logprobs": [[-1.0], [-1.0, -2.0]]}, ("topk_logprobs",)),
        ({"topk_logprobs": [-1.0]}, ("topk_logprobs",)),
        ({"topk_logprobs": [["a"]]}, ("topk_logprobs",)),
        ({"token_ids": [1.5]}, ("token_ids", 0)),
        ({"token_ids": [1, -2]}, ("token_ids", 1)),
        ({"token_ids": [1 << 70]}, ("token_ids",)),
        ({"embedding": [1.0, float("nan")]}, ("embedding", 1)),
        ({"embedding": 3}, ("embedding",)),
        ({"ref_token_probs": [1.5]}, ("ref_token_probs", 0)),
        ({"verified": 2}, ("verified",)),
        ({"verified": True}, ("verified",)),
        ({"sum_logprob": 1.0}, ("sum_logprob",)),
        ({"token_entropies": [0.1], "token_logprobs": [-1.0, -1.0]}, ("token_entropies",)),
        ({"token_entropies": [0.1], "token_mask": [True, True]}, ("token_mask",)),
        ({"token_entropies": [0.1], "num_tokens": 2}, ("num_tokens",)),
        ({"token_logprobs": [-0.1], "sum_logprob": -0.2}, ("sum_logprob",)),
    ],
)
def test_what_is_refused_and_where(rollout, loc):
    assert refuse({}, rollout).loc == (*where(1), *loc)


def test_shapes_over_all_rollouts():
    assert "2 and of 3" in str(refuse({"topk_logprobs": [[-1.0, -2]]}, {"topk_logprobs": [[-1.0, -2, -3]]}))
    assert "2 and of 3" in str(refuse({"embedding": [1, 2]}, {"embedding": [1, 2, 3]}))
    assert "must be a list" in str(refuse({"embedding": []}))
    assert "another input per token" in str(refuse({"token_mask": [True]}))
    assert "tensor and in a rollout" in str(refuse({"mean_entropy": 1.0}, mean_entropy=np.ones(1)))
    assert "Did you mean token_entropies" in str(refuse({}, token_entropy=np.ones(1)))
    # A row holds a number, however it is sent: methods look at the first, and divide by the number of candidates.
    assert "a list" in str(refuse({"topk_logprobs": [[], []]}))
    assert "a list" in str(refuse({"topk_logprobs": np.ones((2, 0))}))
    assert "without a number" in str(refuse({}, topk_logprobs=Ragged(np.ones((2, 0)), np.array([2]))))
    assert "without a number" in str(refuse({}, embedding=np.ones((1, 0))))


def test_one_long_vector_is_not_spread_over_all_rollouts():
    """A few kilobytes of JSON would become gigabytes of missing numbers."""
    found = read({}, {"embedding": [0.5] * 4097}, *[{}] * 4096)["embedding"]
    assert found.values.shape == (1, 4097)
    assert found.lengths.tolist() == [0, 1] + [0] * 4096


# A span is two numbers, which test_certainty.py checks.
@pytest.mark.parametrize("name", [n for n, f in FIELDS.items() if f.type != "bool" and n != "answer_tokens"])
def test_tensors_are_checked_like_lists(name):
    field = FIELDS[name]
    kind = np.int64 if field.type == "int" else np.float64
    shape = {"scalar": (3,), "vector": (3, 2), "matrix": (3, 2)}.get(field.shape, (3,))
    values = np.full(shape, 1 if field.ge is None or field.ge >= 0 else -1, kind)
    column = Ragged(values, np.array([1, 2])) if field.ragged else values
    count = 2 if field.ragged else 3
    assert name in read(*[{}] * count, **{name: column})
    bad = values.copy()
    bad[(2, *[1] * (len(shape) - 1))] = (field.le or 1) + 1
    broken = Ragged(bad, np.array([1, 2])) if field.ragged else bad
    place = (*where(1), name, 1) if field.ragged else (*where(2), name)
    assert refuse(*[{}] * count, **{name: broken}).loc == (*place, *[1] * (len(shape) - 1))
    assert "entries for" in str(refuse({}, **{name: column}))
    wrong = values if field.ragged else Ragged(values, np.array([1, 2]))
    assert "per" in str(refuse(*[{}] * count, **{name: wrong}))
