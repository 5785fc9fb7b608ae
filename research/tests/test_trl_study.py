"""The training study, every code path on tiny sizes: models from scratch, the real GRPOTrainer, the real service.

`python scripts/test_stack.py trl`.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from hashlib import sha256
from itertools import chain
from random import Random

import numpy as np
import pytest

pytest.importorskip("trl", reason="needs trl (python scripts/test_stack.py trl)")
import torch

from dare_research.training import grpo_run, plan, runner, sampling
from dare_research.training import jobs as work
from dare_research.training.arms import ARMS, DEFAULT
from dare_research.training.corpus import REGIMES
from dare_research.training.decoder import LEAST, Decoder
from dare_research.training.kept import keep, kept_file
from dare_research.training.sampling import sample
from dare_research.training.tiny_model import BOX, ModelSize, new_model, new_tokenizer
from dare_reward.cli import main
from dare_reward.errors import ConfigError
from dare_reward.stacks import trl as trl_adapter
from dare_reward.stacks.scorer import Scorer

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


@pytest.mark.parametrize("regime", plan.REASONING)
def test_the_answers_tokens_of_a_chain_are_the_last_before_the_brace(tiny, regime):
    """What the arms over the answer's tokens send: not the same letter in the steps."""
    _, tokenizer = tiny
    scorer, random = Scorer.of("http://t/reward?method=dare&over=answer&kind=exact"), Random(2)
    for _ in range(20):
        text = plan.corpus_of(regime, 400).example(random).solution
        ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
        found = scorer.answer_tokens({"text": text}, ids, tokenizer)
        assert found == {"answer_tokens": [len(ids) - 3, len(ids) - 2]}, text


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
            assert c.logprobs == pytest.approx(expected.log_prob(torch.tensor(c.ids)).numpy(), abs=1e-4)
            assert tokenizer.eos_token_id not in c.ids[:-1]


def test_shared_tokens_go_through_the_model_once_and_draw_as_if_each_row_did(tiny, monkeypatch):
    """Against transformers' own forward of whole rows, with the same draws."""
    monkeypatch.setattr(sampling, "LIVE", 0.0)
    model, tokenizer = tiny
    seen, step = [], Decoder.step
    monkeypatch.setattr(Decoder, "step", lambda self, ids: seen.append(len(ids)) or step(self, ids))
    prompts, each, longest = ids(tokenizer, "A12+34>", "Cab+34>", "A12+34>"), 8, 24
    torch.manual_seed(4)
    found = sample(model, prompts, each=each, longest=longest, end=tokenizer.eos_token_id, temperature=0.05)
    torch.manual_seed(4)
    rows, entropies = torch.tensor([p for p in prompts for _ in range(each)]), []
    with torch.no_grad():
        for _ in range(longest):
            policy = torch.distributions.Categorical(logits=model(rows).logits[:, -1] / 0.05)
            entropies.append(policy.entropy())
            rows = torch.cat([rows, torch.multinomial(policy.probs, 1)], 1)
    for row, plain, c in zip(rows[:, 7:], torch.stack(entropies, 1), chain.from_iterable(found), strict=True):
        assert c.ids == row[: len(c.ids)].tolist()
        assert c.entropies == pytest.approx(plain[: len(c.ids)].numpy(), abs=1e-5)
    texts = [(*prompt, *c.ids) for prompt, group in zip(prompts, found, strict=True) for c in group]
    distinct = [len({text[:n] for text in texts if len(text) > n}) for n in range(7, max(map(len, texts)))]
    assert seen == [max(LEAST, count) for count in distinct]
    assert sum(distinct) < sum(map(len, texts)) - 7 * len(texts)


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
    assert one["report"]["majority_ratio"] == pytest.approx(one["steps"]["majority_ratio"], abs=1e-4)
    assert "report" not in other


def test_a_kept_base_is_its_rounding_and_its_checksum_is_checked(tiny, tmp_path):
    model, tokenizer = tiny
    folder = tmp_path / "informative-0"
    assert not work.saved(tmp_path, folder.name)
    file = keep(model, ModelSize(hidden=32, layers=2), folder)
    assert work.saved(tmp_path, folder.name)
    loaded, other = work.load(folder)
    rounded = {name: value.half().float() for name, value in model.state_dict().items()}
    assert loaded.state_dict().keys() == rounded.keys()
    assert all(torch.equal(value, rounded[name]) for name, value in loaded.state_dict().items())
    assert any(not torch.equal(value, model.state_dict()[name]) for name, value in rounded.items())
    assert other.get_vocab() == tokenizer.get_vocab()
    digest = sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "SHA256SUMS").read_text() == f"{digest}  informative-0.safetensors\n"
    assert work.digest(folder) == digest[:16]
    with pytest.raises(ConfigError, match="exists: runs may have begun from it"):
        keep(model, ModelSize(hidden=32, layers=2), folder)
    keep(model, ModelSize(hidden=32, layers=2), tmp_path / "confident-0")
    file.write_bytes(kept_file(tmp_path / "confident-0").read_bytes()[:-1] + b"\0")
    with pytest.raises(ConfigError, match="is not the file of"):
        work.load(folder)
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.raises(ConfigError, match="is not the file of"):
        work.load(tmp_path / "confident-0")


def test_a_study_begins_from_the_file_of_a_base_and_names_it(tmp_path):
    """No trunk is there, and none is made."""
    design = replace(plan.SMOKE, between=())
    tokenizer = new_tokenizer()
    model = new_model(design.pretraining.shape, tokenizer, seed=1)
    keep(model, design.pretraining.shape, tmp_path / "m" / "informative-0")
    file, stamp = tmp_path / "campaign.jsonl", {"preregistration": "abc"}
    cell = plan.Cell("campaign", "informative", 0, "ttrl", 0, design.settings)
    with runner.service(None) as url:
        left = runner.run(design, [cell], file=file, bases=tmp_path / "m", url=url, workers=1, stamp=stamp)
    assert left == 0
    records = {r["record"]: r for r in map(json.loads, file.read_text().splitlines())}
    assert set(records) == {"base", "preflight", "run"}
    assert records["base"]["weights"] == records["run"]["weights"] == work.digest(tmp_path / "m" / "informative-0")
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == ["SHA256SUMS", "informative-0.safetensors"]


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """Steps of an arm on a random model, whose rollouts are given one of three answers: what the trainer trains on,
    and what the service was asked and said.
    """
    from trl import GRPOTrainer

    design = replace(plan.SMOKE, between=())
    model = new_model(design.pretraining.shape, new_tokenizer(), seed=1)
    keep(model, design.pretraining.shape, tmp_path / "informative-0")
    seen = {"groups": [], "replies": [], "losses": []}
    loss, score = GRPOTrainer._compute_loss, Scorer.score

    def trained(self, model, inputs):
        seen["losses"].append(inputs)
        return loss(self, model, inputs)

    def scored(self, groups, **more):
        rewards, reply = score(self, groups, **more)
        seen["groups"].append(groups)
        seen["replies"].append(reply)
        return rewards, reply

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", trained)
    monkeypatch.setattr(Scorer, "score", scored)
    for module in (grpo_run, trl_adapter):
        name = "described" if module is grpo_run else "rollout"
        monkeypatch.setattr(module, name, lambda trainer, text, ids: {"text": f"\\boxed{{{ids[0] % 3}}}"})

    def run(arm, **settings):
        own = replace(design.settings, **settings)
        with runner.service(None) as url:
            work.run_cell(design, plan.Cell("campaign", "informative", 0, arm, 0, own), tmp_path, url)
        return seen

    return run


@pytest.mark.parametrize("arm", ["gmae", "ddrl", "ear"])
def test_the_advantages_of_the_reply_are_trained_on_as_they_are(watched, arm):
    """What is not selected is in no loss, and its tokens are not counted."""
    seen = watched(arm, prompts=2, votes=8, trained=4, steps=2)
    rows = 8 if arm == "ddrl" else 4
    assert len(seen["replies"]) == len(seen["losses"]) == 2
    for reply, trained in zip(seen["replies"], seen["losses"], strict=True):
        own = [group.advantages[:rows] for group in reply.groups]
        assert all(group.advantages[rows:] == (None,) * (8 - rows) for group in reply.groups)
        expected = sorted(x for a in own for x in a if x is not None)
        masked = trained["completion_mask"].sum(dim=1) == 0
        assert sorted(trained["advantages"][~masked].tolist()) == pytest.approx(expected, abs=1e-6)
        assert int(masked.sum()) == sum(x is None for a in own for x in a) == (8 if arm == "ddrl" else 0)
        assert trained["num_items_in_batch"] == trained["completion_mask"].sum()
        assert set(expected) <= {-1.0, 1.0} if arm == "ddrl" else len({round(x, 6) for x in expected}) > 2


def test_labels_are_rewards_on_a_quarter_and_the_vote_on_the_rest(watched):
    """Of four prompts one: the smoke study has no more."""
    seen = watched("ttrl_gt_quarter", prompts=1, votes=8, trained=4, steps=4)
    methods = [reply.groups[0].method for reply in seen["replies"]]
    asked = [groups[0].get("method") for groups in seen["groups"]]
    assert sorted(map(str, asked)) == ["None", "None", "None", "gt"]
    assert [m == "gt" for m in methods] == [a == "gt" for a in asked]


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
