"""Fuzz with coverage guidance: `python3 scripts/fuzz.py answers|wire [--seconds N] [libFuzzer options]`.

Atheris grows inputs that reach new branches.

wire      reads each frame with dare_reward.wire and with the safetensors library. Ours may raise FrameError and nothing
          else; what it accepts the library accepts too, with the same tensors in the same bytes; and what it accepts can
          be packed and read again.
answers   makes the key of each text. Every text has one or none, without an exception, in little time, the same one
          twice, and the same one with blanks around it.

The corpus stays in build/fuzz-NAME; a finding ends the run with a traceback and a file there. Linux only (Atheris brings
libFuzzer). scripts/fuzz_service.py fuzzes the running service.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import _venv
from _venv import ROOT, say

if importlib.util.find_spec("atheris") is None:
    _venv.enter("fuzz", ["-e ."], groups=["test", "fuzz"])

import atheris
import numpy as np
from safetensors import SafetensorError, deserialize

with atheris.instrument_imports(include=["dare_reward.wire", "dare_reward.answers"]):
    from dare_reward import wire
    from dare_reward.answers.classes import grade
    from dare_reward.answers.keys import math_key
    from dare_reward.answers.rules import DEFAULT

from dare_reward.errors import FrameError
from dare_reward.groups import Ragged
from dare_reward.inputs import FIELDS

library: Callable[[bytes], list[tuple[str, dict[str, Any]]]] = deserialize
PAIRS = ROOT / "tests" / "data" / "answer_pairs.jsonl"
KEY_LIMIT_S = 0.5  # instrumented code is some ten times slower
WORDS = (
    "__metadata__ request dtype shape data_offsets lengths mean_entropy num_tokens token_entropies token_mask "
    r"F64 F32 BF16 I64 I32 BOOL U8 F16 null true false NaN Infinity -1 1e1 1.0 \\ud800 \\u0000"
)
seen: Counter[str] = Counter()


def frame_of(data: bytes) -> bytes:
    """A frame in one of three ways: the input as it is, with the length of its header put right, or built from it."""
    kind = data[0] % 3 if data else 0
    if kind == 0 or len(data) < 3:
        return data[1:]
    if kind == 1:
        size = int.from_bytes(data[1:3], "little") % len(data)
        return size.to_bytes(8, "little") + data[3:]
    return built(atheris.FuzzedDataProvider(data[1:]))


def built(source: Any) -> bytes:
    """A frame of up to five tensors that mostly fit, so that what stands behind the header is reached."""
    head: dict[str, Any] = {"__metadata__": {"request": '{"groups":[]}'}}
    end = 0
    for _ in range(source.ConsumeIntInRange(0, 5)):
        name = source.PickValueInList([*FIELDS, *["lengths"] * len(FIELDS), "token_mask.lengths", "x"])
        dtype = source.PickValueInList([*wire.DTYPES, "F16"])
        shape = [source.ConsumeIntInRange(-1, 6) for _ in range(source.PickValueInList([1, 1, 1, 2, 2, 0, 3]))]
        begin = end + int(source.ConsumeIntInRange(0, 40) == 40)
        end = begin + max(0, math.prod(shape)) * np.dtype(wire.DTYPES.get(dtype, "<f2")).itemsize
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(head).encode()
    small = bytes(source.ConsumeIntListInRange(end, 0, 2)) if source.ConsumeBool() else source.ConsumeBytes(end)
    return len(text).to_bytes(8, "little") + text + small.ljust(end + int(source.ConsumeIntInRange(0, 40) == 40), b"\0")


def wire_one(data: bytes) -> None:
    """One input through both readers."""
    if seen.total() % 200_000 == 199_999:
        say(f"so far {dict(seen.most_common())}")
    frame = frame_of(data)
    try:
        found = wire.unpack(frame)
    except FrameError as error:
        seen[f"refused: {error.code}"] += 1
        return
    seen["read"] += 1
    try:
        theirs = {name: (info["dtype"], info["shape"], bytes(info["data"])) for name, info in library(frame)}
    except SafetensorError as error:
        raise AssertionError(f"the library refuses what we read: {error}") from None
    compare(found, theirs)
    compare_again(found)


def compare(found: wire.Frame, theirs: dict[str, tuple[str, list[int], bytes]]) -> None:
    """Our columns hold the library's bytes."""
    assert found.columns.keys() == {name for name in theirs if not name.endswith("lengths")}
    for name, column in found.columns.items():
        dtype, shape, data = theirs[name]
        values = column.values if isinstance(column, Ragged) else column
        assert list(values.shape) == shape
        if dtype == "BF16":
            assert values.dtype == np.float32
            values = (values.view(np.uint32) >> 16).astype("<u2")
        assert values.tobytes() == data
        if isinstance(column, Ragged):
            dtype, _, data = theirs.get(f"{name}.lengths") or theirs["lengths"]
            kind = {"I64": "<i8", "I32": "<i4"}[dtype]
            assert column.lengths.tolist() == np.frombuffer(data, kind).tolist()


def compare_again(found: wire.Frame) -> None:
    """Packed and read again it is the same, if its request is an object."""
    try:
        request = json.loads(found.request)
    except (ValueError, RecursionError):
        return
    if not isinstance(request, dict):
        return
    again = wire.unpack(wire.pack(request, found.columns))
    assert again.columns.keys() == found.columns.keys()
    for name, column in found.columns.items():
        other = again.columns[name]
        if isinstance(column, Ragged) and isinstance(other, Ragged):
            assert column.lengths.tolist() == other.lengths.tolist()
            assert column.values.tobytes() == other.values.tobytes()
        else:
            assert np.asarray(column).tobytes() == np.asarray(other).tobytes()


def wire_seeds() -> list[bytes]:
    """Good frames to start from, each with and without its length."""
    lengths = np.array([1, 2])
    columns: list[dict[str, Any]] = [
        {},
        {"mean_entropy": np.array([0.5, 0.25])},
        {"token_entropies": Ragged(np.array([0.1, 0.2, 0.3], np.float32), lengths), "num_tokens": lengths},
        {"token_entropies": Ragged(np.zeros(3), lengths), "token_mask": Ragged(np.ones(3, bool), lengths)},
    ]
    frames = [wire.pack({"groups": [{"rollouts": [{"answer": "1"}, {}]}]}, c) for c in columns]
    bfloat = b'{"token_entropies":{"dtype":"BF16","shape":[1],"data_offsets":[4,6]},'
    bfloat += b'"lengths":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}'
    frames.append(len(bfloat).to_bytes(8, "little") + bfloat + b"\x01\0\0\0\x80\x3f")
    return [b"\0" + f for f in frames] + [b"\1" + f[:2] + f[8:] for f in frames] + [b"\2" + bytes(range(64))]


def answers_one(data: bytes) -> None:
    """One text through the keys."""
    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    start = time.process_time()
    key = math_key(text, DEFAULT)
    took = time.process_time() - start
    assert took < KEY_LIMIT_S, f"slow: {took:.2f} s"
    assert math_key(text, DEFAULT) == key, "not a function"
    assert (key is not None) == grade(text, text), "not reflexive"
    if len(text) < 1_900:
        assert math_key(f" {text}\n", DEFAULT) == key or not text.strip(), "blanks matter"


def answers_seeds() -> list[bytes]:
    """The answers of the written pairs."""
    pairs = [json.loads(line) for line in PAIRS.read_text(encoding="utf-8").splitlines()]
    return [text.encode("utf-8", "surrogatepass") for text in sorted({pair[side] for pair in pairs for side in "ab"})]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=["answers", "wire"])
    parser.add_argument("--seconds", type=int, default=240, help="how long (default 240)")
    given, rest = parser.parse_known_args()
    wired = given.target == "wire"
    folder = ROOT / "build" / f"fuzz-{given.target}"
    corpus = folder / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    say(f"corpus and findings: {folder}")
    for i, seed in enumerate(wire_seeds() if wired else answers_seeds()):
        (corpus / f"seed-{i}").write_bytes(seed)
    options = [
        f"-max_total_time={given.seconds}",
        f"-artifact_prefix={folder}/",
        "-max_len=4096",
        "-print_final_stats=1",
    ]
    if wired:
        words = folder / "words.dict"
        words.write_text("".join(f'"{word}"\n' for word in WORDS.split()), encoding="utf-8")
        options.append(f"-dict={words}")
    atheris.Setup([sys.argv[0], *options, *rest, str(corpus)], wire_one if wired else answers_one)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
