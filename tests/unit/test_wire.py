"""The frame against the safetensors library, both ways, and against what a hostile caller can write."""

import json

import numpy as np
import pytest
import safetensors.numpy as st_numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import dare_reward
from dare_reward.errors import FrameError
from dare_reward.groups import Ragged
from dare_reward.wire import MAX_HEADER, pack, unpack

REQUEST = {"groups": [{"rollouts": [{"answer": "1"}, {"answer": "é"}]}]}
TOKENS = Ragged(np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2]))


def raw(head, data=b"", *, pad=True):
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    text += b" " * (-len(text) % 8 if pad else 0)
    return len(text).to_bytes(8, "little") + text + data


def tensor(dtype="F32", shape=(2,), begin=0, end=8):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def accepted_by_library(frame):
    try:
        st_numpy.load(bytes(frame))
    except Exception:
        return False
    return True


def test_round_trip():
    frame = unpack(pack(REQUEST, {"token_entropies": TOKENS, "num_tokens": np.array([1, 2])}))
    assert json.loads(frame.request) == REQUEST
    np.testing.assert_array_equal(frame.columns["token_entropies"].values, TOKENS.values)
    assert frame.columns["token_entropies"].values.dtype == np.float32
    np.testing.assert_array_equal(frame.columns["token_entropies"].lengths, [1, 2])
    np.testing.assert_array_equal(frame.columns["num_tokens"], [1, 2])


def test_the_library_reads_ours():
    mask = Ragged(np.array([True, False, True]), np.array([1, 2]))
    packed = pack(REQUEST, {"token_entropies": TOKENS, "token_mask": mask, "mean_entropy": np.array([0.1, 0.25])})
    theirs = st_numpy.load(packed)
    assert theirs.keys() == {"token_entropies", "token_mask", "mean_entropy", "lengths"}
    np.testing.assert_array_equal(theirs["token_entropies"], TOKENS.values)
    np.testing.assert_array_equal(theirs["token_mask"], mask.values)


def test_we_read_the_library_s():
    tensors = {"mean_entropy": np.array([0.5, 0.25]), "num_tokens": np.array([3, 4], np.int32)}
    frame = unpack(st_numpy.save(tensors, {"request": json.dumps(REQUEST)}))
    np.testing.assert_array_equal(frame.columns["mean_entropy"], tensors["mean_entropy"])
    assert json.loads(frame.request) == REQUEST


def test_bfloat16_is_widened():
    values = np.array([0.5, 1.25, 3.0], np.float32)
    upper = (values.view(np.uint32) >> 16).astype("<u2")
    head = {"token_entropies": tensor("BF16", (3,), 16, 22), "lengths": tensor("I64", (2,), 0, 16)}
    frame = unpack(raw(head, np.array([1, 2]).tobytes() + upper.tobytes()))
    np.testing.assert_array_equal(frame.columns["token_entropies"].values, values)


def test_reading_is_a_view():
    buffer = bytearray(pack({}, {"mean_entropy": np.array([0.5, 0.25])}))
    frame = unpack(buffer)
    buffer[-8:] = np.array([0.75]).tobytes()
    assert frame.columns["mean_entropy"][1] == 0.75


def test_no_tensor_and_no_metadata():
    assert unpack(raw({})).columns == {}
    assert unpack(raw({})).request == b"{}"


def test_empty_arrays():
    frame = unpack(pack({}, {"token_entropies": Ragged(np.zeros(0), np.zeros(3, np.int64))}))
    assert frame.columns["token_entropies"].lengths.tolist() == [0, 0, 0]


BAD = {
    "nothing": b"",
    "seven bytes": b"1234567",
    "header longer than the frame": (100).to_bytes(8, "little") + b"{}",
    "header of 2^63": (1 << 63).to_bytes(8, "little") + b"{}",
    "not JSON": raw(b"{nope}  "),
    "blank before the object": raw(b" {}     "),
    "a list": raw(b"[]      "),
    "not UTF-8": raw(b'{"\xff":1}'),
    "NaN": raw(b'{"a":NaN}'),
    "duplicate key": raw(b'{"__metadata__":{},"__metadata__":{}}'),
    "deep nesting": raw(b"[" * 100_000),
    "metadata not strings": raw({"__metadata__": {"request": 1}}),
    "metadata a list": raw({"__metadata__": []}),
    "lone surrogate in the request": raw(b'{"__metadata__":{"request":"\\ud800"}}'),
    "tensor not an object": raw({"mean_entropy": 1}),
    "tensor without shape": raw({"mean_entropy": {"dtype": "F32", "data_offsets": [0, 0]}}),
    "tensor with an unknown key": raw({"mean_entropy": {**tensor(), "x": 1}}, bytes(8)),
    "unknown dtype": raw({"mean_entropy": tensor("F128")}, bytes(8)),
    "dtype not a string": raw({"mean_entropy": {**tensor(), "dtype": ["F32"]}}, bytes(8)),
    "float16": raw({"mean_entropy": tensor("F16", (4,))}, bytes(8)),
    "shape with a bool": raw({"mean_entropy": {**tensor(), "shape": [True, 2]}}, bytes(8)),
    "negative shape": raw({"mean_entropy": tensor(shape=(-2,))}, bytes(8)),
    "shape with a float": raw({"mean_entropy": tensor(shape=(2.0,))}, bytes(8)),
    "shape product overflow": raw({"mean_entropy": tensor(shape=(1 << 62, 8))}, bytes(8)),
    "many dimensions": raw({"mean_entropy": tensor(shape=(1,) * 200 + (2,))}, bytes(8)),
    "offsets reversed": raw({"mean_entropy": tensor(begin=8, end=0)}, bytes(8)),
    "offsets past the end": raw({"mean_entropy": tensor(end=16, shape=(4,))}, bytes(8)),
    "a hole at the start": raw({"mean_entropy": tensor(begin=4, end=12)}, bytes(12)),
    "an overlap": raw({"mean_entropy": tensor(), "num_tokens": tensor("I32", (2,), 4, 12)}, bytes(12)),
    "trailing bytes": raw({"mean_entropy": tensor()}, bytes(9)),
    "unknown tensor": raw({"entropy": tensor()}, bytes(8)),
    "a matrix": raw({"mean_entropy": tensor(shape=(2, 1))}, bytes(8)),
    "integer entropies": raw({"mean_entropy": tensor("I32")}, bytes(8)),
    "float counts": raw({"num_tokens": tensor()}, bytes(8)),
    "float mask": raw({"token_mask": tensor()}, bytes(8)),
    "tokens without lengths": raw({"token_entropies": tensor()}, bytes(8)),
    "float lengths": raw({"lengths": tensor()}, bytes(8)),
    "negative lengths": raw({"lengths": tensor("I64", (1,))}, b"\xff" * 8),
    "lengths that do not add up": raw(
        {"lengths": tensor("I64", (1,)), "token_entropies": tensor("F32", (2,), 8, 16)},
        (3).to_bytes(8, "little") + bytes(8),
    ),
    "lengths that wrap around": raw(
        {"lengths": tensor("I64", (4,), 0, 32), "token_entropies": tensor("F32", (0,), 32, 32)},
        (1 << 62).to_bytes(8, "little") * 4,
    ),
    "a mask of twos": raw(
        {"lengths": tensor("I64", (1,)), "token_mask": tensor("U8", (2,), 8, 10)},
        (2).to_bytes(8, "little") + b"\x01\x02",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name):
    with pytest.raises(FrameError) as caught:
        unpack(BAD[name])
    assert caught.value.status == 400
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "name", ["tokens without lengths", "lengths that do not add up", "unknown tensor", "integer entropies"]
)
def test_a_refusal_names_the_tensor(name):
    with pytest.raises(FrameError) as caught:
        unpack(BAD[name])
    assert caught.value.loc


def test_a_header_of_more_than_8_mib_is_not_packed():
    with pytest.raises(FrameError, match="split the request by group"):
        pack({"x": "a" * MAX_HEADER}, {})


def test_a_header_of_8_mib_is_the_limit():
    text = b'{"__metadata__":{"request":"' + b" " * (MAX_HEADER - 31) + b'"}}'
    assert len(text) <= MAX_HEADER
    unpack(raw(text))
    with pytest.raises(FrameError, match="header length"):
        unpack(raw(text + b" " * 16))


def test_packing_refuses_other_types_and_other_lengths():
    with pytest.raises(FrameError, match="float16"):
        pack({}, {"mean_entropy": np.zeros(2, np.float16)})
    with pytest.raises(FrameError, match="same lengths"):
        pack({}, {"token_entropies": TOKENS, "token_mask": Ragged(np.ones(3, bool), np.array([2, 1]))})


def test_big_endian_and_strided_arrays_travel():
    values = np.arange(6, dtype=">f8")[::2]
    frame = unpack(pack({}, {"mean_entropy": values}))
    np.testing.assert_array_equal(frame.columns["mean_entropy"], [0, 2, 4])


GOOD = pack(REQUEST, {"token_entropies": TOKENS, "num_tokens": np.array([1, 2])})


@settings(max_examples=1500)
@given(
    st.lists(st.tuples(st.integers(0, len(GOOD) - 1), st.integers(0, 255)), max_size=4),
    st.integers(0, len(GOOD)) | st.just(len(GOOD)),
)
def test_mutated_frames_are_refused_or_read_and_never_more_than_the_library_takes(flips, length):
    frame = bytearray(GOOD)
    for at, value in flips:
        frame[at] = value
    frame = bytes(frame[:length])
    try:
        unpack(frame)
    except FrameError:
        return
    assert accepted_by_library(frame)


@given(st.binary(max_size=200))
def test_arbitrary_bytes(data):
    for frame in (data, raw(data), raw(b"{" + data)):
        try:
            unpack(frame)
        except FrameError:
            continue
        assert accepted_by_library(frame)


@given(st.lists(st.lists(st.floats(0, 20, width=32), max_size=5), min_size=1, max_size=6))
def test_any_entropies_survive(rows):
    column = Ragged(np.array([x for r in rows for x in r], np.float32), np.array([len(r) for r in rows], np.int64))
    found = unpack(pack({}, {"token_entropies": column})).columns["token_entropies"]
    np.testing.assert_array_equal(found.values, column.values)
    np.testing.assert_array_equal(found.lengths, column.lengths)


def test_frame_values_are_checked_with_their_place():
    groups = [{"rollouts": [{"answer": "1"}, {"answer": "1"}]}]
    for bad in (np.nan, np.inf, -0.1, 2000.0):
        tokens = Ragged(np.array([0.1, 0.2, bad]), np.array([1, 2]))
        with pytest.raises(dare_reward.RequestError) as caught:
            dare_reward.estimate(groups, columns={"token_entropies": tokens})
        assert caught.value.loc == ("groups", 0, "rollouts", 1, "token_entropies", 1)
