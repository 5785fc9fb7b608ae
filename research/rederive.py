"""Recomputes every figure of README, docs/evidence.md and the result pages from research/results, and prints it.

    python3 research/rederive.py            some three minutes; exit code 1 where a page and the results differ
    python3 research/rederive.py --renew    takes the numbers that are not recomputed as they stand now

Its environment needs dare-reward with SciPy: `pip install -e '.[rpc]'`. Numbers that nothing recomputes are listed by
page with the reason, and may not change unseen: research/dare_research/rederive/held.json holds their fingerprint.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dare_research.rederive.check import ELSEWHERE, Results, check

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=ROOT, help="where README.md, docs and research/docs lie")
    parser.add_argument("--renew", action="store_true", help="hold the other numbers as they are now")
    asked = parser.parse_args()
    outcome = check(asked.root, Results(ROOT), renew=asked.renew)
    print(*outcome.figures, sep="\n")
    print("\nNot recomputed, and held as they are:")
    for page, count, why, _ in outcome.held:
        print(f"{page}: {count} numbers. {why}")
    print("\nNot read:", *(f"{pages}: {why}" for pages, why in ELSEWHERE.items()), sep="\n")
    print(*["", *outcome.wrong], sep="\n")
    print(f"{len(outcome.figures)} figures recomputed, {len(outcome.wrong)} differences")
    return bool(outcome.wrong)


if __name__ == "__main__":
    sys.exit(main())
