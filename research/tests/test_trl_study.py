"""The training study, every code path on tiny sizes: models from scratch, the real GRPOTrainer, the real service.

`python scripts/test_stack.py trl`.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs trl (python scripts/test_stack.py trl)")
import torch

from dare_research.training import jobs as work
from dare_research.training import plan, runner
from dare_research.training.arms import ARMS, DEFAULT
from dare_research.training.corpus import REGIMES
from dare_research.training.sampling import sample
from dare_research.training.tiny_model import BOX, ModelSize, new_model, new_tokenizer
from dare_reward.cli import main

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]
PARTS = {"default": DEFAULT, "others": tuple(a for a in ARMS if a not in DEFAULT)}


@pytest.fixture(scope="module")
def tiny():
    tokenizer = new_tokenizer()
    return new_model(ModelSize(hidden=32, layers=2), tokenizer, seed=3).eval(), tokenizer


def ids(tokenizer, *texts):
    return [tokenizer(t)["input_ids"] for t in texts]


def test_a_box_is_one_token_and_text_survives_the_tokenizer(tiny):
    _, tokenizer = tiny
    text = f"7+8+0=15;{BOX}15}}"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer(BOX)["input_ids"]) == 1


def test_sampled_entropies_are_those_of_a_plain_forward(tiny):
    """Every token of every rollout, prompts of two lengths, the cache cut down as rollouts end."""
    model, tokenizer = tiny
    prompts = ids(tokenizer, "A12+34>", "Cabc4>", "D98-12>")
    torch.manual_seed(0)
    found = sample(model, prompts, each=6, longest=12, end=tokenizer.eos_token_id, temperature=0.8)
    assert [len(g) for g in found] == [6, 6, 6]
    for prompt, group in zip(prompts, found, strict=True):
        for c in group:
            with torch.no_grad():
                logits = model(torch.tensor([[*prompt, *c.ids]])).logits[0, len(prompt) - 1 : -1] / 0.8
            expected = torch.distributions.Categorical(logits=logits)
            assert c.entropies == pytest.approx(expected.entropy().numpy(), abs=1e-5)
            uniform = torch.full_like(expected.probs, 1 / expected.probs.shape[-1])
            kl = (uniform * (uniform.log() - expected.probs.log())).sum(-1)
            assert c.certainties == pytest.approx(kl.numpy(), abs=1e-4)
            assert tokenizer.eos_token_id not in c.ids[:-1]


def test_sampling_follows_the_model(tiny):
    """Frequencies of the first token against its probabilities."""
    model, tokenizer = tiny
    (prompt,) = ids(tokenizer, "A12+34>")
    torch.manual_seed(1)
    first = [c.ids[0] for c in sample(model, [prompt], each=20000, longest=1, end=tokenizer.eos_token_id)[0]]
    with torch.no_grad():
        p = model(torch.tensor([prompt])).logits[0, -1].softmax(-1).numpy()
    seen = np.bincount(first, minlength=len(p)) / len(first)
    assert np.abs(seen - p).max() < 5 * np.sqrt(p.max() / len(first))


def test_training_is_repeatable_and_arms_of_a_pair_begin_alike(tmp_path):
    """The same cell twice gives the same run; another arm sees the same first rollouts."""
    design = replace(plan.SMOKE, between=())
    work.make_trunk(design, 0, tmp_path)
    work.make_base(design, "confirm", "informative", 0, tmp_path)
    with runner.service(None) as url:
        cells = [plan.Cell("confirm", "informative", 0, arm, 5, design.settings) for arm in ("dare", "dare", "format")]
        one, again, other = (work.run_cell(design, c, tmp_path, url)[0] for c in cells)
        settings = replace(design.settings, params=(("alpha", 0.0), ("weight", "none")))
        varied = work.run_cell(design, replace(cells[0], settings=settings), tmp_path, url)[0]
    same = ("steps", "tokens", "evaluations")
    assert {k: one[k] for k in same} == {k: again[k] for k in same}
    assert "params" not in one["settings"]
    assert varied["settings"] == {**one["settings"], "params": {"alpha": 0.0, "weight": "none"}}
    assert varied["id"] == f"{one['id']}-alpha0-weightnone"
    assert one["steps"]["length"][0] == other["steps"]["length"][0] == varied["steps"]["length"][0]
    assert one["steps"]["entropy"][0] == other["steps"]["entropy"][0]


@pytest.mark.parametrize("part", PARTS)
def test_the_smoke_study_runs_is_resumed_and_reports(part, tmp_path, capsys):
    """Every arm; stopped after what fits into no time at all, then finished; the page is rendered from its records."""
    words = [
        "study", "train", "--smoke", "--bases", "1", "--seeds", "1", "--out", str(tmp_path), "--models", str(tmp_path / "m"),
        "--arms", ",".join(PARTS[part]), "--regimes", ",".join(REGIMES if part == "default" else REGIMES[:1]),
    ]  # fmt: skip
    assert main([*words, "--minutes", "0"]) == 0
    begun = time.monotonic()
    assert main(words) == 0
    file = tmp_path / "results" / "training.jsonl"
    records = [json.loads(line) for line in file.read_text().splitlines()]
    runs = [r for r in records if r["record"] == "run"]
    assert len(runs) == len(PARTS[part]) * (3 if part == "default" else 1)
    assert len({r["id"] for r in records}) == len(records)
    for r in runs:
        assert [e["step"] for e in r["evaluations"]] == [1, 2]
        assert len(r["steps"]["loss"]) == 2
    print(f"{len(runs)} runs in {time.monotonic() - begun:.0f} s")
    capsys.readouterr()
    before = file.read_bytes()
    assert main(words) == 0  # nothing is left to do
    assert file.read_bytes() == before
    weights = next((tmp_path / "m").glob("informative-0/*.safetensors"))
    weights.write_bytes(next((tmp_path / "m").glob("trunk-0/*.safetensors")).read_bytes())
    assert main(words) == 2  # the results are from another model
    assert "has other weights" in capsys.readouterr().err
    assert main(["study", "report", "--out", str(tmp_path)]) == 0
    page = (tmp_path / "docs" / "training.md").read_text()
    assert "## Primary contrast" in page
    assert main(["study", "pack", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "docs" / "training.md").read_text() == page
    assert not file.exists()
    capsys.readouterr()
    assert main([*words, "--list"]) == 0  # what is packed is done
    assert "to do" not in capsys.readouterr().out
