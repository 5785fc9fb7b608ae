"""The frame against the safetensors library, both ways, and against what a hostile caller can write."""

import json
import re

import numpy as np
import pytest
import safetensors.numpy as st_numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal
from rows import each

from dare_reward.errors import FrameError
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS
from dare_reward.wire import MAX_HEADER, MAX_ROW, pack, unpack

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


def test_reading_is_a_view():
    buffer = bytearray(pack({}, {"mean_entropy": np.array([0.5, 0.25])}))
    frame = unpack(buffer)
    buffer[-8:] = np.array([0.75]).tobytes()
    assert frame.columns["mean_entropy"][1] == 0.75


def test_no_tensor_and_no_metadata():
    assert unpack(raw({})).columns == {}
    assert unpack(raw({})).request == b"{}"


# Each rule once: its place, its code, its sentence (or how that begins, where the rest is Python's), and the frames that
# break it.
RULES = [
    (("embedding",), "shape", "shape must be [R, D]", {"a vector input with one value of each": raw({"embedding": tensor()}, bytes(8))}),
    (("token_ids.lengths",), "tensor", "lengths of a tensor that is not there", {
        "lengths of a tensor that is not there": raw({"token_ids.lengths": tensor("I64", (1,))}, bytes(8)),
        "lengths of two tensors that are not there": raw({"token_mask.lengths": tensor("I64", (1,)), "token_ids.lengths": tensor("I64", (1,), 8, 16)}, bytes(16)),
    }),
    (("token_mask",), "value", "a mask holds 0 and 1", {
        "a mask of 255": raw({"lengths": tensor("I64", (1,)), "token_mask": tensor("U8", (1,), 8, 9)}, (1).to_bytes(8, "little") + b"\xff"),
        "a BOOL of 255": raw({"lengths": tensor("I64", (1,)), "token_mask": tensor("BOOL", (1,), 8, 9)}, (1).to_bytes(8, "little") + b"\xff"),
        "a mask of twos": raw({"lengths": tensor("I64", (1,)), "token_mask": tensor("U8", (2,), 8, 10)}, (2).to_bytes(8, "little") + b"\x01\x02"),
    }),
    ((), "frame", "header is not JSON: not an object", {
        "eight bytes": bytes(8),
        "blank before the object": raw(b" {}     "),
        "a list": raw(b"[]      "),
        "deep nesting": raw(b"[" * 100_000),
    }),
    ((), "frame", "header length 3 exceeds the frame or 8388608 bytes", {
        "a header one byte longer than the frame": (3).to_bytes(8, "little") + b"{}",
    }),
    ((), "frame", "0 bytes are no frame", {"nothing": b""}),
    ((), "frame", "7 bytes are no frame", {"seven bytes": b"1234567"}),
    ((), "frame", "header length 100 exceeds the frame or 8388608 bytes", {"header longer than the frame": (100).to_bytes(8, "little") + b"{}"}),
    ((), "frame", "header length 9223372036854775808 exceeds the frame or 8388608 bytes", {
        "header of 2^63": (1 << 63).to_bytes(8, "little") + b"{}",
    }),
    ((), "frame", "header is not JSON: ", {
        "not JSON": raw(b"{nope}  "),
        "not UTF-8": raw(b'{"\xff":1}'),
        "deep nesting in an object": raw(b'{"a":' + b"[" * 100_000),
    }),
    ((), "frame", "header is not JSON: NaN is not JSON", {"NaN": raw(b'{"a":NaN}')}),
    ((), "frame", "header is not JSON: duplicate key", {"duplicate key": raw(b'{"__metadata__":{},"__metadata__":{}}')}),
    ((), "frame", "__metadata__ maps strings to strings", {
        "metadata not strings": raw({"__metadata__": {"request": 1}}),
        "metadata a list": raw({"__metadata__": []}),
    }),
    ((), "frame", "header is not JSON: lone surrogate", {
        "lone surrogate in the request": raw(b'{"__metadata__":{"request":"\\ud800"}}'),
        "lone surrogate as a name": raw(b'{"\\udfff":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'),
        "lone surrogate in metadata nobody reads": raw(b'{"__metadata__":{"x":"a\\udc00"}}'),
    }),
    (("mean_entropy",), "frame", "a tensor has dtype, shape and data_offsets", {
        "tensor not an object": raw({"mean_entropy": 1}),
        "tensor without shape": raw({"mean_entropy": {"dtype": "F32", "data_offsets": [0, 0]}}),
        "tensor with an unknown key": raw({"mean_entropy": {**tensor(), "x": 1}}, bytes(8)),
    }),
    (("mean_entropy",), "dtype", "dtype must be one of F64, F32, BF16, I64, I32, BOOL, U8", {
        "unknown dtype": raw({"mean_entropy": tensor("F128")}, bytes(8)),
        "dtype not a string": raw({"mean_entropy": {**tensor(), "dtype": ["F32"]}}, bytes(8)),
        "float16": raw({"mean_entropy": tensor("F16", (4,))}, bytes(8)),
    }),
    (("mean_entropy",), "frame", "shape and data_offsets are lists of natural numbers", {
        "shape with a bool": raw({"mean_entropy": {**tensor(), "shape": [True, 2]}}, bytes(8)),
        "negative shape": raw({"mean_entropy": tensor(shape=(-2,))}, bytes(8)),
        "shape with a float": raw({"mean_entropy": tensor(shape=(2.0,))}, bytes(8)),
        "many dimensions": raw({"mean_entropy": tensor(shape=(1,) * 200 + (2,))}, bytes(8)),
        "nine dimensions": raw({"mean_entropy": tensor(shape=(1,) * 8 + (2,))}, bytes(8)),
        "three offsets": raw({"mean_entropy": {**tensor(), "data_offsets": [0, 8, 8]}}, bytes(8)),
        "a shape of 2^63": raw({"mean_entropy": tensor(shape=(1 << 63,))}, bytes(8)),
        "a shape that is no list": raw({"mean_entropy": {**tensor(), "shape": 2}}, bytes(8)),
        "offsets that are no list": raw({"mean_entropy": {**tensor(), "data_offsets": {"0": 8}}}, bytes(8)),
    }),
    (("mean_entropy",), "frame", "offsets, shape and dtype disagree", {
        "shape product overflow": raw({"mean_entropy": tensor(shape=(1 << 62, 8))}, bytes(8)),
        "offsets reversed": raw({"mean_entropy": tensor(begin=8, end=0)}, bytes(8)),
    }),
    ((), "frame", "tensors end at byte 16, the data at 8", {"offsets past the end": raw({"mean_entropy": tensor(end=16, shape=(4,))}, bytes(8))}),
    (("mean_entropy",), "frame", "offsets leave a hole or overlap", {
        "a hole at the start": raw({"mean_entropy": tensor(begin=4, end=12)}, bytes(12)),
    }),
    (("num_tokens",), "frame", "offsets leave a hole or overlap", {
        "an overlap": raw({"mean_entropy": tensor(), "num_tokens": tensor("I32", (2,), 4, 12)}, bytes(12)),
    }),
    ((), "frame", "tensors end at byte 8, the data at 9", {"trailing bytes": raw({"mean_entropy": tensor()}, bytes(9))}),
    (("entropy",), "tensor", "unknown tensor 'entropy'. Did you mean mean_entropy or answer_entropy or token_entropies?", {
        "unknown tensor": raw({"entropy": tensor()}, bytes(8)),
    }),
    (("mean_entropy",), "shape", "shape must be [R]", {
        "a matrix": raw({"mean_entropy": tensor(shape=(2, 1))}, bytes(8)),
        "eight dimensions": raw({"mean_entropy": tensor(shape=(1,) * 7 + (2,))}, bytes(8)),
        "one number in no dimension": raw({"mean_entropy": tensor(shape=(), end=4)}, bytes(4)),
        "one BF16 in no dimension": raw({"mean_entropy": tensor("BF16", (), end=2)}, bytes(2)),
    }),
    (("mean_entropy",), "dtype", "dtype must be one of F64, F32, BF16", {"integer entropies": raw({"mean_entropy": tensor("I32")}, bytes(8))}),
    (("num_tokens",), "dtype", "dtype must be one of I64, I32", {"float counts": raw({"num_tokens": tensor()}, bytes(8))}),
    (("token_mask",), "dtype", "dtype must be one of BOOL, U8", {"float mask": raw({"token_mask": tensor()}, bytes(8))}),
    (("token_entropies",), "length", "needs the tensor lengths", {"tokens without lengths": raw({"token_entropies": tensor()}, bytes(8))}),
    (("lengths",), "length", "lengths are natural numbers, I64 or I32, of shape [R]", {
        "float lengths": raw({"lengths": tensor()}, bytes(8)),
        "negative lengths": raw({"lengths": tensor("I64", (1,))}, b"\xff" * 8),
        "one negative length of two": raw({"lengths": tensor("I64", (2,), 0, 16)}, bytes(8) + b"\xff" * 8),
        "a matrix of lengths": raw({"lengths": tensor("I32", (1, 2))}, bytes(8)),
    }),
    (("token_entropies",), "length", "a length exceeds the values", {
        "lengths that do not add up": raw({"lengths": tensor("I64", (1,)), "token_entropies": tensor("F32", (2,), 8, 16)}, (3).to_bytes(8, "little") + bytes(8)),
        "lengths that wrap around": raw({"lengths": tensor("I64", (4,), 0, 32), "token_entropies": tensor("F32", (0,), 32, 32)}, (1 << 62).to_bytes(8, "little") * 4),
    }),
    (("x" * 64,), "tensor", f"unknown tensor '{'x' * 64}'", {"a long name": raw({"x" * 65: 1})}),
    ((), "frame", "tensors end at byte 0, the data at 1", {"data without a tensor": raw({}, bytes(1))}),
    (("token_entropies",), "shape", "shape must be [sum(lengths)]", {
        "a matrix of tokens": raw({"lengths": tensor("I64", (1,)), "token_entropies": tensor("F32", (2, 1), 8, 16)}, bytes(16)),
    }),
    (("token_entropies",), "length", "2 values, but lengths add up to 1", {
        "lengths that fall short": raw({"lengths": tensor("I64", (2,), 0, 16), "token_entropies": tensor("F32", (2,), 16, 24)}, (1).to_bytes(8, "little") + bytes(16)),
    }),
    (("token_entropies",), "length", "2 values, but lengths add up to 0", {
        "no lengths for some tokens": raw({"lengths": tensor("I64", (0,), 0, 0), "token_entropies": tensor("F32", (2,))}, bytes(8)),
    }),
    (("embedding",), "shape", "a row holds at least one number", {"two rows without a component": raw({"embedding": tensor(shape=(2, 0), end=0)})}),
    (("topk_logprobs",), "shape", "a row holds at least one number", {
        "four rows without a candidate": raw({"topk_logprobs": tensor(shape=(4, 0), end=0), "lengths": tensor("I64", (2,), 0, 16)}, (2).to_bytes(8, "little") * 2),
    }),
    (("mean_entropy",), "shape", "a row holds at least one number", {
        "2^62 rows without a number": raw({"mean_entropy": tensor("F64", (1 << 62, 0), end=0)}),
    }),
    (("mean_entropy",), "shape", "no rows, of more than 1048576 numbers each", {
        "no rows of 2^62": raw({"mean_entropy": tensor("F64", (0, 1 << 62), end=0)}),
    }),
    (("topk_logprobs",), "shape", "no rows, of more than 1048576 numbers each", {
        "no rows of 2^62 of a matrix": raw({"topk_logprobs": tensor(shape=(0, 1 << 62), end=0), "lengths": tensor("I64", (1,), 0, 8)}, bytes(8)),
    }),
    (("embedding",), "shape", "no rows, of more than 1048576 numbers each", {
        "no rows of a product of 2^124": raw({"embedding": tensor(shape=(0, 1 << 62, 1 << 62), end=0)}),
        "no rows of a product of 2^21": raw({"embedding": tensor(shape=(0, 1 << 21), end=0)}),
    }),
]  # fmt: skip
BROKEN = {name: (frame, *rule) for *rule, frames in RULES for name, frame in frames.items()}


@each("name", BROKEN)
def test_what_is_refused(name):
    frame, loc, code, message = BROKEN[name]
    caught = refusal(unpack, frame, error=FrameError)
    assert caught.status == 400
    assert (caught.loc, caught.code) == (loc, code)
    assert caught.message.startswith(message)
    assert message in {caught.message, "header is not JSON: "}
    assert len(caught.message) < 200


@pytest.mark.parametrize("shape", [(0, 20), (0, 0), (0, MAX_ROW)])
def test_no_rows_are_no_tokens(shape):
    """An engine that returned no top k for any rollout sends its empty array as it is."""
    frame = unpack(pack({}, {"topk_logprobs": Ragged(np.zeros(shape, np.float32), np.zeros(2, np.int64))}))
    assert frame.columns["topk_logprobs"].values.shape == shape


def test_a_header_of_8_mib_is_packed_and_a_longer_one_is_not():
    empty = len('{"__metadata__":{"request":"{\\"x\\":\\"\\"}"}}')
    text = "a" * (MAX_HEADER - empty)
    frame = pack({"x": text}, {})
    assert len(frame) == 8 + MAX_HEADER
    assert json.loads(unpack(frame).request) == {"x": text}
    assert "header length" in str(refusal(unpack, raw(frame[8:] + b" " * 8), error=FrameError))
    for size in (MAX_HEADER + 1, MAX_HEADER + empty):
        caught = refusal(pack, {"x": "a" * (size - empty)}, {}, error=FrameError)
        assert caught.code == "header"
        sent = size + -size % 8
        assert caught.message == f"a header of {sent} bytes; at most {MAX_HEADER}: split the request by group"


def test_the_bytes_of_a_frame():
    """The layout of the module's docstring, to the byte; every length from 8 on is a multiple of 8 (alignment)."""
    found = pack({"a": [1, 2]}, {"mean_entropy": np.array([0.5]), "num_tokens": np.array([7, 8], np.int32)})
    head = (
        b'{"__metadata__":{"request":"{\\"a\\":[1,2]}"},'
        b'"mean_entropy":{"dtype":"F64","shape":[1],"data_offsets":[0,8]},'
        b'"num_tokens":{"dtype":"I32","shape":[2],"data_offsets":[8,16]}}'
    )
    head += b" " * (-len(head) % 8)
    assert found == len(head).to_bytes(8, "little") + head + np.array([0.5]).tobytes() + b"\7\0\0\0\x08\0\0\0"


@pytest.mark.parametrize("pad", range(8))
def test_the_header_is_padded_to_eight_bytes(pad):
    frame = pack({"x": "a" * pad}, {})
    size = int.from_bytes(frame[:8], "little")
    assert (size % 8, len(frame)) == (0, 8 + size)
    assert re.search(rb"[^ ]} {0,7}$", frame)


BF16 = np.array([0x3F00, 0x3FA0, 0x4040], "<u2").tobytes()
READ = {
    "BF16 is widened": (
        raw({"token_entropies": tensor("BF16", (3,), 16, 22), "lengths": tensor("I64", (2,), 0, 16)}, np.array([1, 2]).tobytes() + BF16),
        {"token_entropies": [0.5, 1.25, 3.0]},
    ),
    "I32 lengths, one for all values": (
        raw({"lengths": tensor("I32", (2,)), "token_mask": tensor("U8", (3,), 8, 11)}, np.array([0, 3], "<i4").tobytes() + b"\1\0\1"),
        {"token_mask": [True, False, True]},
    ),
    "any order": (
        raw({"num_tokens": tensor("I32", (1,), 8, 12), "mean_entropy": tensor("F64", (1,))}, np.array([0.5]).tobytes() + b"\7\0\0\0"),
        {"mean_entropy": [0.5], "num_tokens": [7]},
    ),
    "an empty tensor, which begins where another does": (
        raw({"num_tokens": tensor("I32", (1,), 0, 4), "mean_entropy": tensor("F64", (0,), 0, 0)}, b"\7\0\0\0"),
        {"mean_entropy": [], "num_tokens": [7]},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("frame", "expected"), READ.values(), ids=READ)
def test_what_other_writers_may_send(frame, expected):
    columns = unpack(frame).columns
    assert {n: getattr(c, "values", c).tolist() for n, c in columns.items()} == expected
    assert all(c.lengths.dtype == np.int64 for c in columns.values() if isinstance(c, Ragged))


FLOATS = ((np.float64, "F64"), (np.float32, "F32"))


@pytest.mark.parametrize(
    ("name", "dtype", "wire", "shape"),
    [
        *((name, *kind, [3]) for name in ("mean_entropy", "token_entropies") for kind in FLOATS),
        *(("num_tokens", *kind, [3]) for kind in ((np.int64, "I64"), (np.int32, "I32"))),
        *(("token_mask", *kind, [3]) for kind in ((np.bool_, "BOOL"), (np.uint8, "U8"))),
        ("embedding", np.float32, "F32", [3, 2]),
        ("topk_logprobs", np.float64, "F64", [3, 2]),
        ("token_ids", np.int64, "I64", [3]),
    ],
)
def test_every_type_and_shape_travels(name, dtype, wire, shape):
    values = (np.arange(np.prod(shape)) % 2 == 0).reshape(shape).astype(dtype)
    ragged = FIELDS[name].ragged
    frame = pack({}, {name: Ragged(values, np.array([2, 0, 1])) if ragged else values})
    assert f'"{name}":{{"dtype":"{wire}","shape":{json.dumps(shape, separators=(",", ":"))}'.encode() in frame
    column = unpack(frame).columns[name]
    found = column.values if ragged else column
    assert found.dtype == (np.bool_ if name == "token_mask" else dtype)
    np.testing.assert_array_equal(found, values)
    assert not ragged or column.lengths.tolist() == [2, 0, 1]


def test_a_name_outside_of_ascii_is_no_lone_surrogate():
    with pytest.raises(FrameError, match="unknown tensor"):
        unpack(raw('{"é𝔘":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'.encode()))
    assert unpack(raw(b'{"__metadata__":{"request":"\\ud83d\\ude00"}}')).request == "😀".encode()
    assert unpack(raw('{"__metadata__":{"request":"\ue000Ａ\uffff"}}'.encode())).request == "\ue000Ａ\uffff".encode()


def test_packing_refuses_other_types():
    caught = refusal(pack, {}, {"mean_entropy": np.zeros(2, np.float16)}, error=FrameError)
    assert (caught.loc, caught.code) == (("mean_entropy",), "dtype")
    assert caught.message == "arrays of float16 do not travel. Known: float64, float32, int64, int32, bool, uint8"


def test_other_lengths_travel_beside_the_shared_ones():
    columns = {"token_entropies": TOKENS, "token_ids": Ragged(np.arange(3), np.array([2, 1]))}
    packed = pack({}, columns)
    assert b'"token_ids.lengths"' in packed
    assert b'"token_entropies.lengths"' not in packed
    found = unpack(packed).columns
    for name, column in columns.items():
        np.testing.assert_array_equal(found[name].values, column.values)
        np.testing.assert_array_equal(found[name].lengths, column.lengths)


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
