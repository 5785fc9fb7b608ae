"""E11's analysis on made rollouts: it finds what was put in, and the plan has a sentence for every outcome."""

import gzip
import json
import re
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from dare_research import e11
from dare_reward import estimate

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "research" / "docs" / "campaign-e11.md"
DATA = ROOT / "examples" / "real_model" / "mathematics.jsonl"

NAMES = ["a", "b1", "b2", "c1", "c2", "d1", "d2", "e", "f1", "f2"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """RPC's mixture takes 0.2 s a group; what is tested here is not it."""
    monkeypatch.setattr(e11, "METHODS", {**e11.METHODS, "rpc": {"method": "rpc", "prune": False}})


def sampled(count=40, *, telling=0.0, box=0.0, greedy=0.5, seed=0):
    """Lines of `measure`: in a third of the problems the right answer leads, in a third it is second. Entropies of right
    rollouts lie lower by `telling` standard deviations, those of their boxes by `box`."""
    rng, many, few = np.random.default_rng(seed), [], []
    for k in range(count):
        share = (0.5, 0.3, 0.15)[k % 3]
        chosen = np.where(rng.random(16) < share, 0, rng.integers(1, 4, 16))
        if k % 3 == 1:
            chosen = np.where((chosen > 0) & (rng.random(16) < 0.5), 1, chosen)
        rollouts = []
        for answer in chosen:
            right = answer == 0
            values = np.exp(rng.normal(-telling * right, 1, 1) * 0.5 + rng.normal(0, 0.05, 6))
            inside = np.exp(rng.normal(-box * right, 1, 1) * 0.5 + rng.normal(0, 0.05, 2))
            rollouts.append({
                "text": f"so \\boxed{{{7 + int(answer)}}}", "finish_reason": "stop", "token_ids": rng.integers(9, 99, 8).tolist(),
                "token_entropies": [*values.tolist(), *inside.tolist()], "token_logprobs": (-rng.exponential(0.3, 8)).tolist(), "answer_tokens": [6, 7],
            })  # fmt: skip
        alone = [{"text": f"\\boxed{{{7 if rng.random() < greedy else 8}}}", "finish_reason": "stop"} for _ in range(2)]
        group = {"group_id": f"p{k}", "kind": "math", "label": "7", "meta": {"family": f"f{k % 3}"}}
        many.append({**group, "meta": {**group["meta"], "greedy": alone[0]}, "rollouts": rollouts})
        few.append({**group, "rollouts": alone[1:]})
    return many, few


def found(*args, **known):
    return e11.problems(map(json.dumps, e11.packed(*sampled(*args, **known))))


def by_name(problems):
    return {bar.name.split(":")[0]: bar for bar in e11.bars(problems)}


def test_numbers_are_kept_as_measure_wrote_them():
    many, few = sampled(3)
    problem = next(iter(e11.problems(map(json.dumps, e11.packed(many, few)))))
    tokens, kept = many[0]["rollouts"][5], problem.rollouts[5]
    assert kept["mean_entropy"] == pytest.approx(np.mean(tokens["token_entropies"]))
    assert kept["answer_entropy"] == pytest.approx(np.mean(tokens["token_entropies"][6:8]))
    assert kept["sum_logprob"] == pytest.approx(sum(tokens["token_logprobs"]))
    assert kept["correct"] == float("{7}" in tokens["text"])
    assert "text" not in kept
    with pytest.raises(KeyError):
        list(e11.packed(many, few[1:]))  # a problem that COOLER lacks is not left out in silence


def test_what_was_put_in_is_found():
    found_ = by_name(found(60, telling=1.5, box=0.0, greedy=0.95))
    assert found_["a"].fate == "above"
    assert found_["b1"].fate != "above"
    assert found_["b2"].fate == "below"
    assert found_["c1"].found.estimate > 0.05
    assert found_["f1"].fate == "above"


def test_nothing_is_found_where_nothing_is():
    problems = found(60, telling=0.0, greedy=0.02)
    found_ = by_name(problems)
    assert found_["a"].fate == "below"
    assert found_["c1"].fate in {"open", "equal"}
    assert found_["f1"].fate == "below"
    # Not of e: probabilities of paths that say nothing are a lottery, which may beat a vote that is often wrong.
    assert sum(bar.holm < 0.05 for name, bar in found_.items() if name not in {"a", "e", "f1", "f2"}) == 0


def test_holm_counts_every_bar_but_the_equivalence():
    bars = by_name(found(20))
    least = min((b for n, b in bars.items() if n != "c2"), key=lambda b: b.found.p)
    assert len(bars) == 10
    assert least.holm == pytest.approx(min(1.0, 9 * least.found.p))
    assert bars["c2"].holm == 1.0


def test_a_vote_that_is_shared_is_shared():
    answers = ["a", "a", "b", "b", None]
    rollouts = tuple({"answer": a, "correct": float(a == "a")} for a in answers)
    assert e11.majority(e11.Problem("x", "f", rollouts, 0.0, 0.0)) == 0.5


def test_calibrate_on_few_labels_says_use_where_entropy_tells_and_its_line_is_applied():
    problems = found(80, telling=2.5)
    told = e11.verdicts(problems, 32, count=4)
    blind = e11.verdicts(found(80), 32, count=4)
    assert told["use"] == 1.0
    assert told["gain"] == told["gain where used"] > 0.05
    assert blind["use"] < 1.0
    assert blind["losing"] <= blind["use"]


def test_the_commands_write_the_table(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(e11, "DRAWN", 2)
    many, few = sampled(50, telling=1.0)
    names = [tmp_path / n for n in ("many.jsonl", "few.jsonl", "out.jsonl.gz")]
    for path, rows in zip(names, (many, few)):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert e11.main(["pack", *map(str, names)]) == 0
    monkeypatch.setattr(e11, "SETS", (40,))
    assert e11.main(["table", str(names[2])]) == 0
    out = capsys.readouterr().out
    assert out.startswith("50 problems x 16 rollouts")
    assert out.count("\n| ") >= 11 + 10 + 1
    (families,) = [part for part in out.split("\n\n") if part.startswith("| family")]
    assert sum(int(row.split(" | ")[1]) for row in families.splitlines()[2:]) == 50
    assert e11.main(["table"]) == 2
    questions, example = tmp_path / "questions.jsonl", tmp_path / "example.jsonl"
    asked = [{"id": g["group_id"], "kind": "math", "prompt": g["group_id"], "label": g["label"]} for g in many]
    questions.write_text("".join(json.dumps(row) + "\n" for row in asked))
    assert e11.main(["example", str(names[2]), str(questions), str(example)]) == 0
    groups = [json.loads(line) for line in example.read_text().splitlines()]
    with gzip.open(names[2], "rt") as file:
        right = [[r["correct"] for r in p.rollouts] for p in e11.problems(file)]
    assert [list(g.rewards) for g in estimate(groups, method="gt").groups] == right


def test_a_run_goes_on_where_its_files_are_not(tmp_path):
    many, few = sampled(6)
    asked = [{"id": row["group_id"], "prompt": "?"} for row in many]
    path = {n: str(tmp_path / n) for n in ("many", "few", "out.gz", "whole.gz", "asked", "rest")}

    def written(name, rows):
        Path(path[name]).write_text("".join(json.dumps(row) + "\n" for row in rows))

    written("asked", asked)
    written("few", few)
    for rows in (many[:2], many[1:4]):  # the second run answered one of the problems again: what was packed stays
        written("many", rows)
        assert e11.main(["pack", path["many"], path["few"], path["out.gz"]]) == 0
    assert e11.main(["rest", path["out.gz"], path["asked"], path["rest"]]) == 0
    assert list(map(json.loads, Path(path["rest"]).read_text().splitlines())) == asked[4:]
    written("many", many)
    for out in ("out.gz", "whole.gz"):
        assert e11.main(["pack", path["many"], path["few"], path[out]]) == 0
    assert Path(path["out.gz"]).read_bytes() == Path(path["whole.gz"]).read_bytes()


def test_the_plan_has_a_sentence_for_every_outcome():
    text = PLAN.read_text(encoding="utf-8")
    said = set(re.findall(r"^\| ([a-f]\d?) \| (above|below|equal|open) \| .{20,}", text, re.MULTILINE))
    wanted = {(name, fate) for name in NAMES for fate in ("above", "below", "open")}
    wanted |= {(name, "equal") for name in NAMES[2:]}
    assert said == wanted - {("c2", "above"), ("c2", "below")}


def test_the_plan_names_the_problems_that_are_committed():
    text, rows = (
        PLAN.read_text(encoding="utf-8"),
        [json.loads(x) for x in DATA.read_text(encoding="utf-8").splitlines()],
    )
    assert sha256(DATA.read_bytes()).hexdigest() in text
    assert sha256("".join(row["id"] + "\n" for row in rows[:300]).encode()).hexdigest() in text
    assert len({row["id"] for row in rows}) == len({row["prompt"] for row in rows}) == 460
