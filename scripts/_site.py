"""What `mkdocs.yml` calls: the site has the repository's own layout, so that each link between files leads on there too."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    "service/dare_service/openapi.json",
    "docker-compose.yml",
    "docs/**/*",
    "research/README.md",
]
PAGES += ["research/docs/*", "research/results/*[!l]", "examples/**/*", "deploy/**/*", "tests/data/README.md"]


def on_files(files: Any, config: Any) -> Any:
    """mkdocs: take `PAGES` of the repository in place of one folder of documents."""
    from mkdocs.structure.files import File  # noqa: PLC0415  docs.py imports this file where mkdocs is not installed

    for file in [f for f in files if f.generated_by is None and f.src_dir == config.docs_dir]:
        files.remove(file)
    for path in sorted({p for pattern in PAGES for p in ROOT.glob(pattern) if p.is_file() and p.suffix != ".pyc"}):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


class _Loaded(HTMLParser):
    """Collects the addresses that a browser fetches by itself to show a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            value or "" for name, value in attrs if name in {"src", "srcset"} or (name, tag) == ("href", "link")
        ]


def foreign(folder: Path) -> list[str]:
    """What the pages and styles under `folder` load from another host, as `file: address`."""
    found = []
    for file in sorted(folder.rglob("*.*")):
        loaded: list[str] = []
        if file.suffix == ".html":
            page = _Loaded()
            page.feed(file.read_text(encoding="utf-8"))
            loaded = page.found
        elif file.suffix == ".css":
            loaded = re.findall(r"(?:url\(|@import )[\"']?([^\"')]+)", file.read_text(encoding="utf-8"))
        found += [f"{file.relative_to(folder)}: {at}" for at in loaded if re.match(r"(\w+:)?//", at)]
    return found
