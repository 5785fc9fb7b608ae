"""Record a run that collapses, for the pictures of docs/report.md: `python research/scripts/collapsing_run.py`.

`dare` trains the base `confident-0` on 48 of the campaign's prompts, at ten times the study's learning rate. The run log
keeps texts and token entropies. It needs TRL (`pip install -e 'research[training]'`) and takes about a minute.
"""

import json
import tempfile
from pathlib import Path

import torch

from dare_research.results import Place, write, write_sums
from dare_research.training.arms import ARMS
from dare_research.training.grpo_run import RunSettings, train
from dare_research.training.jobs import load
from dare_research.training.plan import DEFAULT, problems_of
from dare_research.training.runner import service
from dare_reward.runs import read_run

BASE, PROMPTS, SEED = 0, 48, 0
SETTINGS = RunSettings(prompts=8, votes=16, trained=16, steps=50, lr=10 * DEFAULT.settings.lr)


def main() -> None:
    torch.set_num_threads(1)
    place, name = Place(Path(__file__).resolve().parents[1]), f"confident-{BASE}"
    problems = [problem for _, problem in problems_of(DEFAULT, "campaign", BASE)["adapted"]][:PROMPTS]
    with tempfile.TemporaryDirectory() as folder, service(None) as url:
        logged = f"{url}?run={name}&run_log={folder}&run_log_texts=all"
        train(*load(place.bases / name), problems, ARMS["dare"], SETTINGS, seed=SEED, url=logged)
        lines = [json.dumps(line, separators=(",", ":")) + "\n" for line in read_run(f"{folder}/{name}")]
    write(place.root / "results" / f"run-{name}.jsonl.gz", "".join(lines))
    write_sums(place.root / "results")


if __name__ == "__main__":
    main()
