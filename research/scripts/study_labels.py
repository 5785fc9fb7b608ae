#!/usr/bin/env python3
"""What chosen labels find on the committed bases that random ones do not: sample, and write `results/labels.json.gz`
and `docs/labels.md` (`dare_research/calibration/chosen.py`). A base that is in the results is left alone.

    python research/scripts/study_labels.py [--bases informative-0,confident-0]
"""

import argparse
import json
import sys
from pathlib import Path

from dare_research.calibration.chosen import BASES, POOL, answers_of, labels_page
from dare_research.results import Place, read, write, write_sums
from dare_research.training.examine import examine
from dare_research.training.jobs import CALIBRATED, EXAMINED, load
from dare_research.training.plan import DEFAULT, labelled_of, problems_of


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bases", default=",".join(BASES))
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1])
    arguments = parser.parse_args()
    place = Place(arguments.out)
    file = place.whole("labels")
    found = json.loads(read(file)) if file.exists() else {}
    for name in arguments.bases.split(","):
        if name in found:
            continue
        base = int(name.rsplit("-", 1)[1])
        model, tokenizer = load(Place(Path(__file__).resolve().parents[1]).bases / name)
        sets = {
            "pool": (labelled_of(DEFAULT, "campaign", base, POOL), CALIBRATED),
            "adapted": (problems_of(DEFAULT, "campaign", base)["adapted"], EXAMINED),
        }
        found[name] = {
            part: answers_of(examine(model, tokenizer, problems, each=DEFAULT.each, seed=seed + base))
            for part, (problems, seed) in sets.items()
        }
        write(file, json.dumps(found, separators=(",", ":")) + "\n")
        print(name, flush=True)
    write(place.page("labels"), labels_page(found))
    print(write_sums(file.parent), place.page("labels"), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
