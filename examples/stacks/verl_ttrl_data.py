"""TTRL's data (a JSON list of {"prompt", "answer", ...}) as verl reads it.

python examples/stacks/verl_ttrl_data.py AIME-TTT/train.json train.parquet --votes 64

`--votes` is the number of rollouts of each prompt, where it differs from verl's rollout.n (that many are trained).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

SYSTEM = "Please reason step by step, and put your final answer within \\boxed{}."


def row(index: int, item: dict[str, Any], source: str, votes: int | None) -> dict[str, Any]:
    """One prompt. The answer is for diagnostics and validation; no reward of training depends on it."""
    answer = "" if item.get("answer") is None else item["answer"]
    out = {
        "data_source": source,
        "prompt": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": item["prompt"]}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": answer if isinstance(answer, str) else json.dumps(answer)},
        "extra_info": {"index": index},
    }
    return out if votes is None else {**out, "__rollout_n__": votes}


def main() -> None:
    import pandas as pd  # noqa: PLC0415  (verl brings it)

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--votes", type=int)
    given = parser.parse_args()
    items = json.loads(given.source.read_text())
    rows = [row(i, item, given.source.parent.name, given.votes) for i, item in enumerate(items)]
    pd.DataFrame(rows).to_parquet(given.target)
    print(f"{len(rows)} prompts in {given.target}")


if __name__ == "__main__":
    main()
