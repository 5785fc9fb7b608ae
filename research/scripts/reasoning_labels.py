#!/usr/bin/env python3
"""What certainty says of the labels of the bases that reason: sample them, measure, and write the page and its figure.

    python research/scripts/reasoning_labels.py                    every base in research/bases that is not measured yet
    python research/scripts/reasoning_labels.py --measured         only the page again, from what is measured

A base is sampled once, into research/results/reasoning_K-BASE.jsonl.gz. What follows from the samples lies in
research/results/reasoning-labels.json.gz; it is written after each base, so the command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from dare_research.reasoning.labels import BASES, MeasuredProblem, measured, record
from dare_research.reasoning.page import draw, page
from dare_research.reasoning.sample import sampled
from dare_research.results import Place, read, write, write_sums
from dare_research.training.jobs import EXAMINED, digest, load
from dare_research.training.kept import kept_file
from dare_research.training.plan import DEFAULT, REASONING, problems_of


def samples(place: Place, regime: str, base: int) -> list[dict[str, Any]]:
    """The base's lines, sampled unless they are there."""
    file = place.root / "results" / f"{regime}-{base}.jsonl.gz"
    if not file.exists():
        folder = place.bases / f"{regime}-{base}"
        problems = problems_of(DEFAULT, regime, base)["adapted"]
        head = {"regime": regime, "base": base, "weights": digest(folder), "temperature": 1.0, "seed": EXAMINED + base}
        lines = [head, *sampled(*load(folder), problems, each=DEFAULT.each, seed=EXAMINED + base)]
        write(file, "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return [json.loads(line) for line in read(file).splitlines()[1:]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1])
    parser.add_argument("--measured", action="store_true")
    arguments = parser.parse_args()
    place = Place(arguments.out)
    file = place.whole("reasoning-labels")
    found: dict[str, list[dict[str, Any]]] = json.loads(read(file)) if file.exists() else {}
    names = {f"{regime}-{base}": (regime, base) for base in BASES for regime in REASONING}
    for name, (regime, base) in names.items():
        if arguments.measured or name in found or not kept_file(place.bases / name).exists():
            continue
        found[name] = [record(measured(regime, base, line)) for line in samples(place, regime, base)]
        write(file, json.dumps(found, separators=(",", ":")) + "\n")
        print(name, flush=True)
    problems = [MeasuredProblem(**p) for own in found.values() for p in own]
    write(place.page("reasoning-labels"), page(problems, [n for n in names if n not in found]))
    print(write_sums(file.parent), place.page("reasoning-labels"), draw(place.root / "docs", problems), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
