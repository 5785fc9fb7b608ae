"""Where results and pages lie, below one folder (`research` in a checkout), and how results are kept.

results/NAME.json.gz             a study that is written whole
results/STUDY.jsonl              what `study train` appends to, a record a line; git ignores it
results/STUDY.jsonl.gz           the same records, packed; STUDY is `training`, or `campaign` for that stage
results/training.summary.json    what the page of the training study is rendered from
results/SHA256SUMS               of all but the work file: `sha256sum -c SHA256SUMS`
docs/NAME.md                     the pages
bases/                           base models of the campaign, with checksums of their own
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from dare_reward.files.output import write_files

SUMS = "SHA256SUMS"
STUDIES = ("training", "campaign")  # whose results are records, a line each


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of a study's results and pages."""

    root: Path
    study: str = "training"

    def page(self, name: str) -> Path:
        return self.root / "docs" / f"{name}.md"

    def whole(self, name: str) -> Path:
        return self.root / "results" / f"{name}.json.gz"

    @property
    def work(self) -> Path:
        return self.root / "results" / f"{self.study}.jsonl"

    @property
    def packed(self) -> Path:
        return self.root / "results" / f"{self.study}.jsonl.gz"

    @property
    def summary(self) -> Path:
        return self.root / "results" / f"{self.study}.summary.json"

    @property
    def bases(self) -> Path:
        return self.root / "bases"

    @property
    def records(self) -> tuple[Path, Path]:
        """Where records are: those that were packed, then those appended since."""
        return self.packed, self.work


def read(path: Path) -> str:
    """The text of a file, compressed or not."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def write(path: Path, text: str) -> None:
    """Whole or not at all, compressed if the name ends in .gz. A file with this text is left alone.

    Another zlib compresses to other bytes: the same results must not look like new ones.
    """
    if path.exists() and read(path) == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_files({path: gzip.compress(text.encode(), 9, mtime=0) if path.suffix == ".gz" else text.encode()}, force=True)


def write_sums(folder: Path, *patterns: str) -> Path:
    """SHA256SUMS of the results that are kept, or of the files that are like one of the patterns."""
    kept = sorted(p for pattern in patterns or ("[!.]*.gz", "*.summary.json") for p in folder.glob(pattern))
    path = folder / SUMS
    write(path, "".join(f"{sha256(p.read_bytes()).hexdigest()}  {p.name}\n" for p in kept))
    return path
