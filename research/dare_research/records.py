"""Where results lie and how they are kept: records of runs, a JSON object a line, appended as runs end and then packed.

results/STUDY.jsonl       what `dare-reward study append` has added since; git ignores it
results/STUDY.jsonl.xz    the same records, packed by `dare-reward study pack`
results/NAME.json.xz      results that were written whole
results/SHA256SUMS        of all that is packed: `sha256sum -c SHA256SUMS`

A record with the key of an earlier one replaces it: a run that was repeated counts once.
"""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, flock
from hashlib import sha256
from pathlib import Path
from typing import Any

JSON = Mapping[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
SUMS = "SHA256SUMS"


def read(path: Path) -> str:
    """The text of a file, compressed or not."""
    unpack = {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)
    return unpack(path.read_bytes()).decode()


def write(path: Path, text: str) -> None:
    """Whole or not at all, compressed if the name ends in .xz. A file with this text is left alone: another liblzma
    compresses to other bytes, and the same results must not look like new ones."""
    if path.exists() and read(path) == text:
        return
    data = text.encode()
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as out:
        out.write(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME) if path.suffix == ".xz" else data)
        out.flush()
        os.fsync(out.fileno())
    beside.replace(path)


def write_sums(folder: Path) -> Path:
    """SHA256SUMS of the results that are kept."""
    kept = sorted([*folder.glob("[!.]*.xz"), *folder.glob("[!.]*.gz")])
    write(folder / SUMS, "".join(f"{sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in kept))
    return folder / SUMS


def records(study: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The records of a study: those that were packed, then those appended since, the last of each key."""
    return list(_by_key(folder / f"{study}.jsonl.xz", folder / f"{study}.jsonl").values())


def append(study: str, added: Iterable[JSON], folder: Path = RESULTS) -> int:
    """Adds records to the work file and says how many: on the disk before anything else is run."""
    lines = [_line(record) for record in added]
    file = folder / f"{study}.jsonl"
    with _locked(folder), file.open("a+", encoding="utf-8") as out:
        out.write("\n" if file.read_bytes()[-1:] not in {b"", b"\n"} else "")  # after a line that was cut off
        out.writelines(lines)
        out.flush()
        os.fsync(out.fileno())
    return len(lines)


def pack(study: str, folder: Path = RESULTS) -> list[Path]:
    """Packs what was appended with what was packed before, removes the work file, renews the checksums."""
    packed, work = folder / f"{study}.jsonl.xz", folder / f"{study}.jsonl"
    with _locked(folder):  # a run may end while this packs
        write(packed, "".join(map(_line, _by_key(packed, work).values())))
        work.unlink(missing_ok=True)
        return [packed, write_sums(folder)]


def key(record: JSON) -> str:
    """What makes two records the same run."""
    return str(record["id"]) if "id" in record else "/".join(str(record[n]) for n in ("form", "size", "arm", "seed"))


def _by_key(*files: Path) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for file in files:
        for record in _whole(read(file) if file.exists() else ""):
            out[key(record)] = record
    return out


def _whole(text: str) -> Iterator[dict[str, Any]]:
    """The lines that are JSON: the last one may have been cut off."""
    for line in text.splitlines():
        with suppress(ValueError):
            yield json.loads(line)


def _line(record: JSON) -> str:
    key(record)
    return json.dumps(record, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Where a work file is replaced or removed, no other process appends to it meanwhile."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as held:  # on NFS a lock needs a file that is open for writing
        flock(held, LOCK_EX)
        yield


def read_added(files: Sequence[Path]) -> Iterator[JSON]:
    """Records of files: a JSON object each, or a line each. Of a folder all JSON files but `before-*.json`, which
    `examples/real_model/train.py` keeps beside its records."""
    found = (sorted(f.glob("*.json")) if f.is_dir() else [f] for f in files)
    for file in (f for own in found for f in own if not f.name.startswith("before-")):
        text = read(file)
        yield from (
            map(json.loads, filter(str.strip, text.splitlines())) if ".jsonl" in file.name else [json.loads(text)]
        )
