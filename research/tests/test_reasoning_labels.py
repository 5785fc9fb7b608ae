"""Labels of the bases that reason (E9 a): what is kept of a rollout, and the curves from it. Needs no torch."""

import json
import re
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random

import numpy as np
import pytest

from dare_research.reasoning.labels import (
    BASES,
    COPIED,
    PATHS,
    SIZES,
    WEIGHTS,
    MeasuredProblem,
    curves,
    measured,
    record,
)
from dare_research.reasoning.page import OVER, draw, page
from dare_research.reasoning.sample import _line
from dare_research.results import Place, read
from dare_research.training.corpus import Corpus
from dare_research.training.families import FAMILIES
from dare_research.training.plan import DEFAULT, REASONING, corpus_of, problems_of
from dare_research.training.sampling import SampledRollout
from dare_research.training.tiny_model import BOX, CHARACTERS, EOS, PAD

PLACE = Place(Path(__file__).parents[1])
PIECES = (PAD, EOS, BOX, *CHARACTERS)


class Tokenizer:
    """The study's tokens, without transformers."""

    eos_token_id = 1

    def decode(self, ids, skip_special_tokens=False):
        return "".join(PIECES[i] for i in ids if not (skip_special_tokens and i < 2))


def rollout(text, *, answer=0.4, end=0.2, others=0.1):
    """Entropies of the answer's letter, the brace after it, and all other tokens; log-probabilities are minus these."""
    ids = [PIECES.index(piece) for piece in (*re.findall(r"\\boxed\{|.", text), EOS)]
    entropies = np.full(len(ids), others, np.float32)
    entropies[-3:-1] = answer, end
    return SampledRollout(ids, entropies, entropies, -entropies)


def line(*rollouts, answer="d"):
    return _line(Tokenizer(), "chain_K2", "Kc47>", answer, rollouts)


def test_the_answers_tokens_are_its_letter_and_the_brace_after_it():
    """In the reasoning the letter stands too, and twice here."""
    found = line(rollout(r"4d;7d;\boxed{d}"), rollout(r"4g:7e;\boxed{e}", others=0.3))
    assert found["span"] == [1, 1]
    assert found["closed_entropy"] == pytest.approx([0.3, 0.3], abs=1e-5)
    assert found["open_entropy"] == found["first_entropy"] == pytest.approx([0.4, 0.4], abs=1e-5)
    assert found["closed_logprob"] == pytest.approx([-0.6, -0.6], abs=1e-5)
    assert found["tokens"] == [10, 10]
    assert found["entropy"] == pytest.approx([(0.8 + 0.6) / 10, (8 * 0.3 + 0.6) / 10], abs=1e-5)
    assert [found["answers"][a] for a in found["answer"]] == ["d", "e"]
    assert [found["right"][a] for a in found["answer"]] == [1, 0]


def test_an_answer_is_copied_if_the_box_repeats_the_last_steps_result():
    found = line(*map(rollout, (r"4g;7d;\boxed{d}", r"4g;7d;\boxed{e}", r"4g;\boxed{d}", r"4g;7d%\boxed{d}")))
    assert found["copied"] == [1, 0, 0, 1]
    assert found["path"] == [0, 1, 2, 3]


@cache
def problems(regime, base=400, count=4, seed=0):
    """Solutions of the corpus as if a base had written them, 8 of each problem."""
    corpus, random, out = corpus_of(regime, base), Random(seed), []
    for k in range(count):
        family = FAMILIES[corpus.families[k % 2]]
        problem = family.problem(random)
        texts = [Corpus._worked(corpus, random, family, problem).solution for _ in range(8)]
        written = [rollout(text, others=0.01 * random.random()) for text in texts]
        own = _line(Tokenizer(), family.name, problem.prompt, problem.answer, written)
        out.append(measured(regime, base, own))
    return out


def test_measured_is_what_the_lines_say():
    own = line(*[rollout(r"4g;7d;\boxed{d}"), rollout(r"4g;7e;\boxed{e}"), rollout(r"4g,7e;\boxed{e}")] * 4)
    found = measured("reasoning_2", 400, own)
    assert (found.pass1, found.paths, found.copied, found.tokens) == (pytest.approx(1 / 3), 1.5, 1.0, 10)
    assert set(found.values) == {"4", "8"}
    assert found.values["8"]["vote"] == 0
    assert MeasuredProblem(**record(found)).values == found.values


def test_curves_hold_each_problem_once_at_its_place():
    whole, half = problems("reasoning_4") + problems("reasoning_8"), problems("reasoning_8_half")
    found = curves([*whole, *half])
    assert [p["problems"] for p in found["steps"].values()] == [4, 4]
    assert list(found["steps"]) == ["4", "8"]
    assert sum(p["problems"] for p in found["paths"].values()) == 8
    assert sum(p["problems"] for p in found["copied"].values()) == 4
    for curve, edges, of in ((found["paths"], PATHS, "paths"), (found["copied"], COPIED, "copied")):
        for name, p in curve.items():
            low = float(name.split(" ")[0])
            assert low <= p[of] <= edges[edges.index(low) + 1]
    assert {p["copied"] for p in found["steps"].values()} == {1.0}
    at = found["steps"]["8"]["sizes"]["8"]
    own = [p.values["8"] for p in whole if p.regime == "reasoning_8"]
    for name in WEIGHTS:
        gain = np.mean([v[f"label: {name}"] - v["vote"] for v in own])
        assert at[f"gain: {name}"]["estimate"] == pytest.approx(gain, abs=1e-4)
        assert at[f"gain: {name}"]["low"] <= at[f"gain: {name}"]["estimate"] <= at[f"gain: {name}"]["high"]


def test_the_page_shows_every_curve_and_names_what_is_missing(tmp_path):
    pytest.importorskip("matplotlib")
    own = [*problems("reasoning_8"), *problems("reasoning_8_half")]
    text = page(own, ["reasoning_16-400"])
    assert "| reasoning_16-400 | not sampled yet |" in text
    titles = [text_line for text_line in text.splitlines() if text_line.startswith("## ")]
    assert titles == [f"## Over {words}" for words in OVER.values()]
    assert "nan" not in text
    figure = draw(tmp_path, own).read_text()
    assert figure.count("<svg") == 1
    assert all(name in figure for name in WEIGHTS)
    assert draw(tmp_path, own).read_text() == figure
    assert set(own[0].values) <= {*map(str, SIZES)}


# what is committed


def committed():
    return json.loads(read(PLACE.whole("reasoning-labels")))


def test_the_committed_page_is_what_the_committed_results_say():
    found = committed()
    missing = [f"{regime}-{base}" for base in BASES for regime in REASONING if f"{regime}-{base}" not in found]
    own = [MeasuredProblem(**p) for each in found.values() for p in each]
    assert PLACE.page("reasoning-labels").read_text() == page(own, missing)


def test_the_committed_results_are_what_the_samples_of_the_committed_bases_say():
    for name, own in committed().items():
        regime, base = name.rsplit("-", 1)
        head, *lines = map(json.loads, read(PLACE.root / "results" / f"{name}.jsonl.gz").splitlines())
        assert sha256((PLACE.bases / f"{name}.safetensors").read_bytes()).hexdigest().startswith(head["weights"])
        prompts = [p.prompt for _, p in problems_of(DEFAULT, regime, int(base))["adapted"]]
        assert [line["prompt"] for line in lines] == prompts
        assert len(own) == len(lines) == 128
        assert {len(line["answer"]) for line in lines} == {64}
        assert record(measured(regime, int(base), lines[5])) == own[5]
        assert 0.2 < np.mean([p["pass1"] for p in own]) < 0.8


@pytest.mark.parametrize(
    ("steps", "lost", "more", "most", "won"),
    [(2, 340, 319, 2047, 22), (4, 344, 313, 2047, 23), (8, 297, 280, 2048, 15), (16, 282, 266, 2048, 12)],
)
def test_without_pruning_rpc_takes_the_answer_with_the_most_distinct_paths(steps, lost, more, most, won):
    """Of 2,048 groups; means over many sure tokens are much alike. Where it loses a right label of the vote, `lost`,
    its own has more distinct paths than the vote's in all but some. `won`: what it gets right and the vote does not."""
    found = np.zeros(4, int)
    for base in BASES:
        for line in map(
            json.loads, read(PLACE.root / "results" / f"reasoning_{steps}-{base}.jsonl.gz").splitlines()[1:]
        ):
            for start in range(0, 64, 8):
                rows = [line[name][start : start + 8] for name in ("answer", "path", "logprob", "tokens")]
                rollouts = [row for row in zip(*rows, strict=True) if row[0] >= 0]
                paths = {
                    answer: {path: logp / n for a, path, logp, n in rollouts if a == answer} for answer, *_ in rollouts
                }
                vote = max(paths, key=[answer for answer, *_ in rollouts].count)
                label = max(paths, key=lambda a: np.exp(list(paths[a].values())).sum())
                distinct = {a: len(p) for a, p in paths.items()}
                loses = line["right"][vote] and not line["right"][label]
                wins = line["right"][label] and not line["right"][vote]
                found += (
                    loses,
                    loses and distinct[label] > distinct[vote],
                    distinct[label] == max(distinct.values()),
                    wins,
                )
    assert tuple(found) == (lost, more, most, won)
