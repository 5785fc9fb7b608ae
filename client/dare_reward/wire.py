"""The binary frame: a request as JSON beside raw arrays, in the safetensors byte layout.  Sans-IO.

    8 bytes   N, little-endian u64, at most 8 MiB
    N bytes   JSON: {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ..., "__metadata__": {"request": "..."}}
    rest      the tensors, little-endian, row major, in the order of their offsets, no holes

`__metadata__.request` is the JSON body of `POST /reward` without the array inputs. A tensor is one array input by its
field name over all rollouts in request order: shape [R] for one value per rollout, [R, D] for a vector of each. Ragged
inputs have shape [sum(lengths)], or [sum(lengths), k] for a row per token, with the tensor `lengths` of shape [R]; one
with other lengths than the rest has them in `<name>.lengths`. A tensor may have no rows; a row holds at least one
number. Types: F64, F32 and BF16 for numbers, I64 and I32 for counts, BOOL and U8 for masks. BF16 is widened; everything
else is a view of the buffer.

Goals: reading costs no copy and no value-sized allocation; whatever the safetensors library refuses is refused; so are
duplicate keys, unknown keys, other types, and lengths that do not add up. Values are checked where all inputs are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ._pattern import pattern
from .errors import FrameError, unknown_name
from .groups import Ragged
from .inputs import FIELDS

MAX_HEADER: Final = 8 << 20
MAX_ROW: Final = 1 << 20  # numbers in a row that nothing is sent of: more than any vocabulary and any embedding
MEDIA_TYPES: Final = ("application/vnd.safetensors", "application/octet-stream")

DTYPES: Final[Mapping[str, str]] = MappingProxyType(
    {"F64": "<f8", "F32": "<f4", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "BOOL": "|u1", "U8": "|u1"}
)
NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {"float64": "F64", "float32": "F32", "int64": "I64", "int32": "I32", "bool": "BOOL", "uint8": "U8"}
)
ACCEPTED: Final = MappingProxyType({"float": ("F64", "F32", "BF16"), "int": ("I64", "I32"), "bool": ("BOOL", "U8")})
LENGTHS: Final = "lengths"
SHAPES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "scalar": ("R",),
        "vector": ("R", "D"),
        "tokens": ("sum(lengths)",),
        "list": ("sum(lengths)",),
        "matrix": ("sum(lengths)", "k"),
    }
)
LONE: Final = pattern("[\ud800-\udfff]")  # half of a pair: JSON can escape it, UTF-8 cannot write it


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What a frame holds: the JSON text of the request and the arrays by field name."""

    request: bytes
    columns: Mapping[str, NDArray[Any] | Ragged]


@dataclass(frozen=True, slots=True)
class _Tensor:
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def pack(body: Mapping[str, Any], columns: Mapping[str, NDArray[Any] | Ragged]) -> bytes:
    """The frame of a request: its JSON, and its arrays. Ragged ones share `lengths` where they can."""
    tensors: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        if not isinstance(column, Ragged):
            tensors[name] = column
            continue
        shared = np.array_equal(tensors.setdefault(LENGTHS, column.lengths), column.lengths)
        if not shared:
            tensors[f"{name}.{LENGTHS}"] = column.lengths
        tensors[name] = column.values
    head: dict[str, Any] = {"__metadata__": {"request": json.dumps(body, separators=(",", ":"))}}
    end = 0
    for name, array in tensors.items():
        dtype = NAMES.get(array.dtype.name)
        if dtype is None:
            raise FrameError(
                f"arrays of {array.dtype} do not travel. Known: {', '.join(NAMES)}", loc=(name,), code="dtype"
            )
        head[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [end, end := end + array.nbytes]}
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise FrameError(
            f"a header of {len(text)} bytes; at most {MAX_HEADER}: split the request by group", code="header"
        )
    raw = (np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"), copy=False)) for a in tensors.values())
    return b"".join([len(text).to_bytes(8, "little"), text, *(a.data.cast("B") if a.size else b"" for a in raw)])


def unpack(buffer: bytes | bytearray | memoryview) -> Frame:
    """The frame in `buffer`, which must outlive the arrays. FrameError names what is wrong with it."""
    view = memoryview(buffer).cast("B")
    if len(view) < 8:
        raise FrameError(f"{len(view)} bytes are no frame", code="frame")
    size = int.from_bytes(view[:8], "little")
    if size > min(MAX_HEADER, len(view) - 8):
        raise FrameError(f"header length {size} exceeds the frame or {MAX_HEADER} bytes", code="frame")
    metadata, tensors = _header(bytes(view[8 : 8 + size]))
    data = view[8 + size :]
    if (end := tensors[-1].end if tensors else 0) != len(data):
        raise FrameError(f"tensors end at byte {end}, the data at {len(data)}", code="frame")
    arrays = {t.name: _array(t, data) for t in tensors}
    return Frame(metadata.get("request", "{}").encode(), _columns(arrays, {t.name: t.dtype for t in tensors}))


def _header(text: bytes) -> tuple[Mapping[str, str], Sequence[_Tensor]]:
    """The metadata and the tensors in the order of their bytes, without holes."""
    try:
        if not text.startswith(b"{"):
            raise ValueError("not an object")
        head = json.loads(text.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"header is not JSON: {str(error)[:80]}", code="frame") from None
    metadata = head.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FrameError("__metadata__ maps strings to strings", code="frame")
    tensors = sorted((_tensor(name, spec) for name, spec in head.items()), key=lambda t: (t.begin, t.end))
    at = 0
    for tensor in tensors:
        if tensor.begin != at:
            raise FrameError("offsets leave a hole or overlap", loc=(tensor.name,), code="frame")
        at = tensor.end
    return metadata, tensors


def _tensor(name: str, spec: Any) -> _Tensor:
    if name not in FIELDS and not _counts(name):
        raise FrameError(unknown_name("tensor", name, [*FIELDS, LENGTHS]), loc=(name[:64],), code="tensor")
    if not isinstance(spec, dict) or spec.keys() != {"dtype", "shape", "data_offsets"}:
        raise FrameError("a tensor has dtype, shape and data_offsets", loc=(name,), code="frame")
    dtype, shape, span = spec["dtype"], spec["shape"], spec["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise FrameError(f"dtype must be one of {', '.join(DTYPES)}", loc=(name,), code="dtype")
    if not (_naturals(shape) and _naturals(span) and len(span) == 2 and len(shape) <= 8):
        raise FrameError("shape and data_offsets are lists of natural numbers", loc=(name,), code="frame")
    if span[1] - span[0] != math.prod(shape) * np.dtype(DTYPES[dtype]).itemsize:
        raise FrameError("offsets, shape and dtype disagree", loc=(name,), code="frame")
    _check_empty(name, shape)
    return _Tensor(name, dtype, tuple(shape), *span)


def _check_empty(name: str, shape: Sequence[int]) -> None:
    """Of a tensor without elements, no bytes show that its dimensions are what they claim."""
    if 0 not in shape:
        return
    if shape[0]:
        raise FrameError("a row holds at least one number", loc=(name,), code="shape")
    if math.prod(d or 1 for d in shape) > MAX_ROW:
        raise FrameError(f"no rows, of more than {MAX_ROW} numbers each", loc=(name,), code="shape")


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(x) is int and 0 <= x < 1 << 63 for x in value)


def _array(tensor: _Tensor, data: memoryview) -> NDArray[Any]:
    array: NDArray[Any] = np.frombuffer(data[tensor.begin : tensor.end], DTYPES[tensor.dtype])
    if tensor.dtype == "BF16":  # the upper half of a float32; widened as [n], since NumPy 1 makes scalars of shape []
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.reshape(tensor.shape)


def _columns(arrays: Mapping[str, NDArray[Any]], dtypes: Mapping[str, str]) -> Mapping[str, NDArray[Any] | Ragged]:
    lengths = {name: _lengths(name, a, dtypes[name]) for name, a in arrays.items() if _counts(name)}
    columns: dict[str, NDArray[Any] | Ragged] = {}
    for name, array in arrays.items():
        if _counts(name):
            continue
        field = FIELDS[name]
        if dtypes[name] not in ACCEPTED[field.type]:
            raise FrameError(f"dtype must be one of {', '.join(ACCEPTED[field.type])}", loc=(name,), code="dtype")
        if array.ndim != len(SHAPES[field.shape]):
            raise FrameError(f"shape must be [{', '.join(SHAPES[field.shape])}]", loc=(name,), code="shape")
        values = _mask(name, array) if field.type == "bool" else array
        columns[name] = (
            _ragged(name, values, lengths.pop(f"{name}.{LENGTHS}", lengths.get(LENGTHS))) if field.ragged else values
        )
    if stray := lengths.keys() - {LENGTHS}:
        raise FrameError("lengths of a tensor that is not there", loc=(min(stray),), code="tensor")
    return columns


def _counts(name: str) -> bool:
    """The tensor holds lengths, of all ragged tensors or of one."""
    field = FIELDS.get(name.removesuffix(f".{LENGTHS}"))
    return name == LENGTHS or (name.endswith(f".{LENGTHS}") and field is not None and field.ragged)


def _lengths(name: str, array: NDArray[Any], dtype: str) -> NDArray[np.int64]:
    if dtype not in ACCEPTED["int"] or array.ndim != 1 or (array < 0).any():
        raise FrameError("lengths are natural numbers, I64 or I32, of shape [R]", loc=(name,), code="length")
    return array.astype(np.int64)


def _mask(name: str, array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.size and array.max() > 1:
        raise FrameError("a mask holds 0 and 1", loc=(name,), code="value")
    return array.view(np.bool_)


def _ragged(name: str, values: NDArray[Any], lengths: NDArray[np.int64] | None) -> Ragged:
    if lengths is None:
        raise FrameError(f"needs the tensor {LENGTHS}", loc=(name,), code="length")
    if len(lengths) and lengths.max() > len(values):  # before the sum, which could wrap around
        raise FrameError("a length exceeds the values", loc=(name,), code="length")
    if (total := int(lengths.sum())) != len(values):
        raise FrameError(f"{len(values)} values, but lengths add up to {total}", loc=(name,), code="length")
    return Ragged(values, lengths)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("duplicate key")
    for text in chain.from_iterable(pairs):
        if isinstance(text, str) and not text.isascii() and LONE.search(text):
            raise ValueError("lone surrogate")
    return out


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")
