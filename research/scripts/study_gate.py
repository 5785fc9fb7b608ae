#!/usr/bin/env python3
"""What the gate of `dare_plus` (`dare_research/training/gate.py`) sees in base models, before any training.

Per regime and base, over prompts of a stage: how many groups the gate asks (a clear majority with a rival), how often
that majority is right, A, and the mean trust over training on 128 of the prompts in random order, 8 a step, each twice;
`sd` is over 400 choices and orders of prompts (and, in a regime's last line, over its bases). Truth is looked at here
only.

    python research/scripts/study_gate.py --stage develop --bases 100 --prompts 256
    python research/scripts/study_gate.py --stage confirm --bases 0,1,2,3
"""

import argparse
import sys
from pathlib import Path

import numpy as np

from dare_research.training.corpus import REGIMES, held_out
from dare_research.training.examine import examine
from dare_research.training.gate import agreement, trust
from dare_research.training.jobs import load
from dare_research.training.plan import DEFAULT
from dare_reward.analysis.truth import right_answers
from dare_reward.segments import Bools, Floats

PER_RUN, PER_STEP, ORDERS = 128, 8, 400


def asked(models: Path, regime: str, base: int, stage: str, prompts: int) -> tuple[Floats, Bools]:
    """Per prompt A, NaN where the gate does not ask, and whether the majority is right."""
    model, tokenizer = load(models / f"{regime}-{base}")
    families = DEFAULT.families(stage)
    problems = [(f, p) for f in families for p in held_out(f, "adapted", prompts, seed=base)]
    graded = examine(model, tokenizer, problems, each=DEFAULT.settings.votes, seed=base)
    groups = graded.groups
    top_A = groups.first_max(groups.votes_A)
    right_P = groups.sum_by_group(top_A & (right_answers(groups, graded.correct_R) > 0)) > 0
    return agreement(groups, groups.support_P > 0), right_P


def mean_trust(agreement_P: Floats, random: np.random.Generator) -> float:
    """Mean over the steps of two passes over `PER_RUN` of the prompts."""
    chosen = random.permutation(len(agreement_P))[:PER_RUN]
    return float(trust(np.tile(agreement_P[chosen], 2).reshape(-1, PER_STEP)).mean())


def line(name: str, agreement_P: Floats, right_P: Bools, trusts: Floats) -> str:
    known = ~np.isnan(agreement_P)
    figures = (known.sum(), right_P[known].mean(), agreement_P[known].mean(), trusts.mean(), trusts.std())
    return f"{name:20}" + "{:8.0f}{:8.2f}{:8.2f}{:8.2f}{:8.2f}".format(*figures)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=Path(".study"))
    parser.add_argument("--stage", choices=("develop", "confirm"), default="develop")
    parser.add_argument("--bases", default="100", help="commas between")
    parser.add_argument("--prompts", type=int, default=DEFAULT.adapted, help="per family")
    arguments = parser.parse_args()
    if arguments.prompts * len(DEFAULT.families(arguments.stage)) < PER_RUN:
        parser.error(f"a run takes {PER_RUN} prompts: --prompts {PER_RUN // 2} or more")
    print(f"{'':20}{'groups':>8}{'right':>8}{'A':>8}{'trust':>8}{'sd':>8}")
    for regime in REGIMES:
        found = []
        for base in map(int, arguments.bases.split(",")):
            agreement_P, right_P = asked(arguments.models, regime, base, arguments.stage, arguments.prompts)
            random = np.random.default_rng(base)
            found.append((agreement_P, right_P, np.array([mean_trust(agreement_P, random) for _ in range(ORDERS)])))
            print(line(f"{regime} {base}", *found[-1]), flush=True)
        if len(found) > 1:
            print(line(regime, *(np.concatenate(part) for part in zip(*found, strict=True))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
