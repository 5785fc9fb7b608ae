"""The result table of the Qwen protocol: `python3 research/scripts/qwen_table.py [FOLDER] [--write]`.

Reads FOLDER/NAME/report.json of each evaluation. Without a folder every cell says "not run". `--write` puts the table
into research/docs/qwen-protocol.md.
"""

import argparse
import json
import re
import sys
from pathlib import Path

from dare_reward.commands.methods import markdown
from dare_trainer.evaluation.commands import BENCHMARKS
from dare_trainer.evaluation.paper import rows

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "qwen-protocol.md"
MODEL = "Qwen2.5-Math-1.5B"
ADAPTED = ("aime24", "amc", "math-500")
ARMS = {"ttrl": "TTRL", "dare": "DARE"}
BLOCK = re.compile(r"<!-- results -->\n.*?<!-- end results -->", re.DOTALL)
EMPTY = "not run"


def table(folder: Path | None) -> str:
    """pass@1 in per cent with 95% intervals; the paper's rows stand above ours."""
    paper = [
        [f"paper: {r.method}", *(f"{r.scores[b]:.1f}" for b in BENCHMARKS)]
        for r in rows()
        if r.model == MODEL and r.method in {"Raw model", *ARMS.values()}
    ]
    names = ["raw", *(f"{arm}-{name}" for name in ADAPTED for arm in ARMS)]
    own = [[f"ours: {name}", *(cell(folder, name, benchmark) for benchmark in BENCHMARKS)] for name in names]
    return markdown(("row", *(BENCHMARKS.values())), [*paper, *own])


def cell(folder: Path | None, name: str, benchmark: str) -> str:
    path = None if folder is None else folder / name / "report.json"
    if path is None or not path.exists():
        return EMPTY
    found = json.loads(path.read_text(encoding="utf-8"))["benchmarks"].get(benchmark, {})
    if "pass" not in found:
        return EMPTY
    first = found["pass"]["1"]
    return f"{100 * first['estimate']:.1f} [{100 * first['low']:.1f}, {100 * first['high']:.1f}]"


def renew(text: str, folder: Path | None) -> str:
    return BLOCK.sub(lambda _: f"<!-- results -->\n{table(folder)}\n<!-- end results -->", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    print(table(arguments.folder))
    if arguments.write:
        DOCUMENT.write_text(renew(DOCUMENT.read_text(encoding="utf-8"), arguments.folder), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
