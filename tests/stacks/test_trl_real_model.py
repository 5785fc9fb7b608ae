"""examples/real_model/train.py with a tiny model and the real TRL: its numbers, its arms, a cut run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import servers
import serving
from by_path import load

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default")]
EXAMPLE = Path(__file__).parents[2] / "examples" / "real_model" / "train.py"
FAMILIES = ("sum", "more")


@pytest.fixture(scope="module")
def example():
    pytest.importorskip("trl", reason="needs trl (python scripts/test_stack.py trl)")
    pytest.importorskip("peft", reason="needs peft (python scripts/test_stack.py trl)")
    return load(EXAMPLE, "real_model_train")


@pytest.fixture
def task(example, model, tmp_path):
    same = {"kind": "math", "prompt": "?", "label": "3", "accepted": ["3"]}
    rows = [
        {"id": f"{f}-{i}", "family": f, "asked": f"{i}+{k}?", **same} for k, f in enumerate(FAMILIES) for i in range(6)
    ]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "form": "bare", "arm": "ttrl", "seed": 1, "model": str(model), "questions": str(tmp_path / "q.jsonl"), "rollouts": None,
        "stop": ["\n"], "max_tokens": 12, "folder": str(tmp_path / "run"), "record": str(tmp_path / "run.json"),
        "before": str(tmp_path / "before.json"), "steps": 6, "prompts": 2, "size": 4, "evaluated": 4, "unseen": 2, "url": "",
    }  # fmt: skip


def loaded(model):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(model, dtype="float32"), AutoTokenizer.from_pretrained(model)


def test_the_shared_prompt_changes_no_number(example, model, tmp_path):
    """Log-probabilities, entropies and gradients are those of TRL's own forward."""
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    net, tokenizer = loaded(model)
    config = GRPOConfig(
        str(tmp_path), use_cpu=True, bf16=False, num_generations=2, per_device_train_batch_size=2, report_to=[]
    )
    trainer = example.SharedPrompts(
        net, lambda completions, **_: [0.0] * len(completions), config, Dataset.from_list([{"prompt": "1+1?"}]),
        processing_class=tokenizer,
    )  # fmt: skip
    prompts = [tokenizer(text)["input_ids"] for text in ("1+1?", "1+1?", "what is 1+2?", "1+1?")]
    completions = [tokenizer(text)["input_ids"] for text in ("so 2\n", "3", "abc", "2\n")]
    width, length = max(map(len, prompts)), max(map(len, completions))
    pad = tokenizer.pad_token_id
    rows = list(zip(prompts, completions, strict=True))
    ids = torch.tensor([[pad] * (width - len(p)) + p + c + [pad] * (length - len(c)) for p, c in rows])
    mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p + c) + [0] * (length - len(c)) for p, c in rows])
    used = mask[:, -length:] > 0
    found = []
    for forward in (example.SharedPrompts, GRPOTrainer):
        net.zero_grad()
        logps, entropies, _ = forward._get_per_token_logps_and_entropies(
            trainer, trainer.model, ids, mask, length, compute_entropy=True
        )
        (logps[used] * torch.arange(1.0, used.sum() + 1)).sum().backward()
        found.append((logps[used], entropies[used], [p.grad.clone() for p in net.parameters() if p.grad is not None]))
    ours, theirs = found
    assert torch.allclose(ours[0], theirs[0], atol=1e-5)
    assert torch.allclose(ours[1], theirs[1], atol=1e-5)
    assert len(ours[2]) == len(theirs[2]) > 10
    assert all(torch.allclose(a, b, atol=1e-4, rtol=1e-4) for a, b in zip(ours[2], theirs[2], strict=True))


@pytest.mark.parametrize(
    ("texts", "temperature"),
    [(("1+1?", "a longer one: 2+2?"), 1.0), (("1+1?", "1+1 or 7: 3?", "1+1"), 1.0), (("1+1?", "2+2?"), 0.0), (("1+1?", "2+2?"), 0.5)],
)  # fmt: skip
def test_the_sampler_tells_what_it_drew(example, model, texts, temperature):
    """Entropies and log-probabilities of a plain forward, whose logits are divided by the temperature, at 0 of the likeliest
    path; the end at the first stop string, the cut elsewhere."""
    import torch

    net, tokenizer = loaded(model)
    sampler = example.Sampler(tokenizer, ["7"], 8)
    prompts = [tokenizer(text)["input_ids"] for text in texts]
    torch.manual_seed(0)
    groups = sampler(net.eval(), prompts, 64 if temperature == 1 else 4, temperature)
    for prompt, group in zip(prompts, groups, strict=True):
        for rollout in group:
            with torch.no_grad():
                logits = net(torch.tensor([[*prompt, *rollout.ids]])).logits[0, len(prompt) - 1 : -1]
            logp = (logits / (temperature or 1.0)).log_softmax(-1)
            own = logp.gather(1, torch.tensor(rollout.ids)[:, None])[:, 0]
            assert torch.allclose(own, torch.tensor(rollout.logprobs), atol=1e-4)
            assert torch.allclose(-(logp.exp() * logp).sum(1), torch.tensor(rollout.entropies), atol=1e-4)
            text = tokenizer.decode(rollout.ids)
            ended = rollout.ids[-1] == tokenizer.eos_token_id or "7" in text
            assert (rollout.finish_reason == "stop") == ended
            assert ended or len(rollout.ids) == 8
            assert "7" not in text[:-1]
            assert sampler.text(rollout) == text.replace("7", "").replace(tokenizer.eos_token, "")
            if not temperature:
                assert rollout.ids == group[0].ids == logits.argmax(-1).tolist()
    if temperature == 1:
        assert {rollout.finish_reason for group in groups for rollout in group} == {"stop", "length"}


def test_tokens_are_drawn_by_their_probability(example):
    """Chi square over 8 tokens in 20,000 rows, one of them impossible; its 99.9% point is 22.5."""
    import torch

    p = torch.tensor([0.4, 0.2, 0.0, 0.15, 0.1, 0.1, 0.049, 0.001])
    torch.manual_seed(0)
    counts = torch.bincount(example.drawn(p.log().repeat(20_000, 1))[:, 0], minlength=len(p))
    expected = 20_000 * p
    assert counts[2] == 0
    assert ((counts - expected)[p > 0] ** 2 / expected[p > 0]).sum() < 22.5


def test_arms_ask_for_what_the_plan_says(example, task, monkeypatch):
    rows = [json.loads(line) for line in Path(task["questions"]).read_text().splitlines()]
    adapted, unseen = example.split(rows, 2)
    assert (len(adapted), len(unseen)) == (8, 4)
    assert not {r["id"] for r in adapted} & {r["id"] for r in unseen}
    ids = [r["id"] for r in adapted]

    def plan(arm):
        return example.schedule(example.Task(**{**task, "arm": arm}), adapted)

    votes = plan("ttrl")
    assert sorted(row["id"] for row, _ in votes[:8]) == sorted(ids)
    assert [row["id"] for row, _ in votes] == [row["id"] for row, _ in plan("dare")]
    assert example.method_of("calibrated_vote", 2.0) == {"method": "calibrated_vote", "exponent": 2.0}
    assert example.method_of("both", 1.0) == {"method": "calibrated_vote", "exponent": 1.0, "labelled": "gt"}
    monkeypatch.setattr(example, "LABELLED", 3)
    known = {row["id"] for row in example.labelled(adapted, 1)}
    assert {row["id"] for row, _ in plan("gt_quarter")} == known
    both = plan("both")
    for row, told in both:
        assert told == (row["id"] in known)
    assert [told for _, told in both] == [False, True] * 6


@pytest.mark.parametrize("arm", ["ttrl", "ppc", "dare_answer"])
def test_the_service_gets_what_a_method_needs_of_the_tokens(example, task, monkeypatch, arm):
    """Of each rollout the sum of its log-probabilities and its path; for `dare_answer` the mean entropy of the tokens in
    the box and of the one that closes it. One token a character."""
    asked = {
        "ttrl": ("ttrl", {}), "ppc": ("perplexity_consistency", {}), "dare_answer": ("dare", {"over": "answer"}),
    }  # fmt: skip
    sampled, spans = [], 0
    draw = example.Sampler.__call__

    def kept(self, *words):
        sampled.append(draw(self, *words))
        return sampled[-1]

    monkeypatch.setattr(example.Sampler, "__call__", kept)
    with servers.forged() as (url, bodies):
        example.main(example.Task(**{**task, "arm": arm, "url": url, "steps": 1, "size": 16}))
    (body,) = bodies
    assert len(body["groups"]) == 2
    method, params = asked[arm]
    assert body["method"] == method
    assert params.items() <= body.get("params", {}).items()
    (trained,) = (groups for groups in sampled if len(groups[0]) == 16)
    for group, rollouts in zip(body["groups"], trained, strict=True):
        for row, rollout in zip(group["rollouts"], rollouts, strict=True):
            text = "".join(example_tokens(task["model"], rollout.ids))
            first, last = text.find("\\boxed{") + 7, text.find("}")
            assert row["num_tokens"] == len(rollout.ids)
            if arm != "ttrl":
                assert row["mean_entropy"] == pytest.approx(sum(rollout.entropies) / len(rollout.ids))
                assert row["sum_logprob"] == pytest.approx(sum(rollout.logprobs))
            if arm == "dare_answer" and row["answer"] and 7 <= first < last:
                closed = rollout.entropies[first : last + 1]
                assert row["answer_entropy"] == pytest.approx(sum(closed) / len(closed))
                spans += 1
            else:
                assert "answer_entropy" not in row
        if arm == "ppc":
            paths = [tuple(rollout.ids) for rollout in rollouts]
            assert len({row["path"] for row in group["rollouts"]}) == len(set(paths)) < 16
    assert spans >= 8 * (arm == "dare_answer")


def example_tokens(model, ids):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model).convert_ids_to_tokens(ids)


def test_a_cut_run_goes_on_from_its_checkpoint(example, task, monkeypatch, capsys):
    """Labels reach no method but `gt`; the record has every question; the log has every step, also those before the cut."""
    with serving.service(DARE_DRAIN=0) as server:
        task = example.Task(**{**task, "url": server.url})
        step = example.SharedPrompts.training_step
        calls = []

        def cut(self, *words):
            calls.append(self.state.global_step)
            if len(calls) == 6:
                raise KeyboardInterrupt
            return step(self, *words)

        monkeypatch.setattr(example.SharedPrompts, "training_step", cut)
        with pytest.raises(KeyboardInterrupt):
            example.main(task)
        assert not Path(task.record).exists()
        example.main(task)
    record = json.loads(Path(task.record).read_text())
    assert calls == [0, 1, 2, 3, 4, 5, 5]
    assert len(record["log"]) == 6
    assert set(record["before"]) == set(record["after"])
    assert len(record["before"]) == 12
    assert len(record["unseen"]) == 4
    assert all(0 <= n <= 4 for n in record["after"].values())
    assert {name: sum(each.values()) for name, each in record["answers"].items()} == dict.fromkeys(record["after"], 4)
    assert all("dare/label_accuracy" in step for step in record["log"])
    asked = set(record["after"])
    for decoded in (record["controls"][when] for when in ("before", "after")):
        assert {name: set(each) for name, each in decoded.items()} == dict.fromkeys(example.CONTROLS, asked)
        assert all(0 <= n <= example.CONTROLS[name][1] for name, each in decoded.items() for n in each.values())
    assert (Path(task.folder) / "adapter" / "adapter_model.safetensors").is_file()
    assert "min left" in capsys.readouterr().out
    assert not (Path(task.folder) / "checkpoints").exists()
    assert list((Path(task.folder) / "log").rglob("*.jsonl.gz"))
