#!/usr/bin/env python3
"""Make the base models of the campaign by the recipe of the study, and keep them as files.

A base that has its file is left alone. What is made on the way lies in --models, and is gone on with if it is there.

    python research/scripts/study_bases.py --part e1

It prints what a trunk solves on the way, and pass@1 of each base, both on probe problems.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from dare_research.training.jobs import grow_base, load, make_trunk, saved, trunk_name
from dare_research.training.kept import keep, kept_file
from dare_research.training.parts import PARTS
from dare_research.training.plan import DEFAULT, corpus_of
from dare_research.training.pretrain import solved


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path(".study"))
    parser.add_argument("--out", type=Path, default=Path("research/bases"))
    parser.add_argument("--part", choices=tuple(PARTS), default="e1")
    parser.add_argument("--bases", help="of those of the part only these, commas between")
    parser.add_argument("--regimes", help="instead of those of the part, commas between: reasoning_2,reasoning_4")
    arguments = parser.parse_args()
    part = PARTS[arguments.part]
    for base in map(int, arguments.bases.split(",")) if arguments.bases else part.bases:
        regimes = arguments.regimes.split(",") if arguments.regimes else part.regimes
        missing = [r for r in regimes if not kept_file(arguments.out / f"{r}-{base}").exists()]
        for regime in missing:
            if not saved(arguments.models, trunk_name(base, regime)):
                make_trunk(DEFAULT, base, arguments.models, regime, said=partial(print, flush=True))
            model, tokenizer = load(grow_base(DEFAULT, regime, base, arguments.models))
            rates = solved(model, tokenizer, corpus_of(regime, base).families, DEFAULT.pretraining.probes)
            print(keep(model, DEFAULT.pretraining.shape, arguments.out / f"{regime}-{base}"))
            print(*(f"{family} {rate:.2f}" for family, rate in rates.items()), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
