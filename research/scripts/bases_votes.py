"""Record the votes of two base models of the campaign, for `stopping_frontier.py`: `python research/scripts/bases_votes.py`.

64 rollouts each of 64 prompts that the campaign adapts to, at temperature 1: their answers and mean entropies.
"""

import json
from pathlib import Path

from dare_research.results import Place, write, write_sums
from dare_research.training.examine import examine
from dare_research.training.jobs import EXAMINED, load
from dare_research.training.plan import DEFAULT, problems_of

BASES = (("informative", 0), ("uninformative", 1))


def main() -> None:
    place = Place(Path(__file__).resolve().parents[1])
    for regime, base in BASES:
        problems = problems_of(DEFAULT, "campaign", base)["adapted"][::2]
        graded = examine(*load(place.bases / f"{regime}-{base}"), problems, each=DEFAULT.each, seed=EXAMINED + base)
        groups, entropy_R = graded.groups, graded.groups.column("mean_entropy")
        ends, lines = groups.sizes_P.cumsum(), []
        for (_, problem), start, end in zip(problems, ends - groups.sizes_P, ends, strict=True):
            answers = [groups.text_A[a] if a >= 0 else None for a in groups.answer_R[start:end]]
            rollouts = [
                {"answer": answer, "mean_entropy": round(float(h), 5)}
                for answer, h in zip(answers, entropy_R[start:end], strict=True)
            ]
            lines.append(json.dumps({"group_id": problem.prompt, "kind": "exact", "rollouts": rollouts}) + "\n")
        write(place.root / "results" / f"votes-{regime}-{base}.jsonl.gz", "".join(lines))
    write_sums(place.root / "results")


if __name__ == "__main__":
    main()
