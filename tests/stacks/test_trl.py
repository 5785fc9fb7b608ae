"""TRL for real: GRPOTrainer and RLOOTrainer with a tiny model against a live service. `python scripts/test_stack.py trl`."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pytest
import servers
import serving
from recorded import compare_or_record

import dare_reward
from dare_reward.errors import RequestError

pytestmark = [pytest.mark.trl, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("plugins")]

HERE = Path(__file__).parent
M, M_EVAL = 4, 2
QUICK = {"retries": 1, "timeout": 1.0}


@pytest.fixture
def train(model, tmp_path):
    pytest.importorskip("trl", reason="needs trl (python scripts/test_stack.py trl)")
    import train_trl

    return lambda url, **given: train_trl.train(model, url, out=tmp_path, **given)


def offline(call, **options):
    """Rewards of the trained rollouts, as `scored` has them."""
    size = M if call["training"] else M_EVAL
    return [r for g in scored(call, **options).groups for r in g.rewards[:size]]


def scored(call, *, method="dare", **options):
    """What the library says of a call's logged completions, labels and independently computed entropies."""
    size = M if call["training"] else M_EVAL
    rows = [
        {"text": t, "mean_entropy": h, "num_tokens": 1, "finish_reason": "length" if cut else "stop"}
        for t, h, cut in zip(call["texts"], call["entropy"], call["truncated"], strict=True)
    ]
    votes = call["votes"] or [[] for _ in rows]
    groups = []
    for at in (slice(i, i + size) for i in range(0, len(rows), size)):
        label = {} if call["labels"][at.start] is None else {"label": call["labels"][at.start]}
        own = [*rows[at], *(as_sent(vote) for row in votes[at] for vote in row)]
        groups.append({"group_id": str(at.start), "rollouts": own, **label})
    return dare_reward.estimate(groups, method=method, **options)


def as_sent(vote):
    """A vote as the adapter sends it: a rollout has its log-probabilities under the input's name."""
    return {"token_logprobs" if k == "logprobs" else k: v for k, v in vote.items()} | {"trained": False}


def differ(calls):
    """Some group of the run has more than one reward: equal rewards would prove nothing."""
    return any(len(set(c["rewards"])) > 1 for c in calls)


@pytest.mark.parametrize(("trainer", "chat"), [("grpo", True), ("grpo", False), ("rloo", True)])
def test_rewards_are_those_of_the_logged_completions(train, service, trainer, chat):
    result = train(service.url, trainer=trainer, chat=chat, steps=3, evaluate=True)
    assert result["step"] == 3
    calls = result["calls"]
    assert [c["training"] for c in calls] == [True, True, True, False]
    assert differ(calls)
    for call in calls:
        assert call["rewards"] == pytest.approx(offline(call), abs=2e-4)
    for call, entry in zip(calls, result["log"], strict=False):
        if call["training"]:
            assert entry["rewards/Sync/mean"] == pytest.approx(sum(call["rewards"]) / len(call["rewards"]), abs=1e-6)
            assert entry["dare/abstained"] == 0
            assert 0 <= entry["dare/label_accuracy"] <= 1
    assert any("eval_dare/majority_ratio" in entry for entry in result["log"])


def test_votes_beyond_the_trained(train, service):
    """num_generations=4 and one vote more each: eight vote, four are trained."""
    result = train(service.url, steps=2, votes=1, chat=False)
    assert differ(result["calls"])
    for call in result["calls"]:
        assert [len(row) for row in call["votes"]] == [1] * len(call["texts"])
        assert call["rewards"] == pytest.approx(offline(call), abs=2e-4)
    assert len({g.pseudo_label for call in result["calls"] for g in scored(call).groups}) > 1
    alone = [offline({**c, "votes": []}) for c in result["calls"]]
    assert alone != [pytest.approx(c["rewards"], abs=1e-6) for c in result["calls"]], "the votes changed nothing"


def test_the_documented_data_set_gives_labelled_prompts_gt_rewards(train, service, tmp_path, monkeypatch):
    """The ten lines of docs/advantages.md, on files as `dare-reward label` writes them."""
    import tiny

    page = (HERE.parents[1] / "docs" / "advantages.md").read_text(encoding="utf-8")
    code = page.partition("<!-- run by tests/stacks/test_trl.py -->\n```py\n")[2].partition("```")[0]
    prompts = [tiny.question(i) for i in range(6)]
    rows = [{"group_id": str(i), "prompt": prompt} for i, prompt in enumerate(prompts)]
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "rollouts.labels.jsonl").write_text(json.dumps({"group_id": "4", "label": "2"}) + "\n")
    monkeypatch.chdir(tmp_path)
    found = {}
    exec(code, found)
    data = found["data"]
    assert {row["prompt"] for row in data} == set(prompts)
    assert {row["label"] for row in data if row["prompt"] == prompts[4]} == {"2"}
    assert sum(row["label"] is not None for row in data) > 1, "the labelled prompt is not repeated"
    result = train(f"{service.url}?method=ttrl&labelled=gt", data=data, chat=False, steps=3)
    assert differ(result["calls"])
    for call in result["calls"]:
        assert {*call["labels"]} <= {"2", None}
        assert call["rewards"] == offline(call, method="ttrl", labelled="gt")


def test_votes_in_waves(train, service):
    """A settled group costs no further wave: the sequences that the model generated are the rollouts that were scored."""
    from dare_reward.stacks.trl_rollout import VoteRollout

    made, url = [], f"{service.url}?method=ttrl"

    def count(trainer):
        generate = trainer.model.generate

        def counted(*given, **named):
            found = generate(*given, **named)
            made.append(len(found))
            return found

        trainer.model.generate = counted

    result = train(url, steps=3, votes=VoteRollout(5, adaptive="wave=4", url=url), prepare=count)
    sizes = []
    for call in result["calls"]:
        assert call["rewards"] == offline(call, method="ttrl")
        each = [1 + len(row) for row in call["votes"]]
        sizes += [sum(each[at : at + M]) for at in range(0, len(each), M)]
    assert sum(made) == sum(sizes)
    assert min(sizes) < 6 * M, "no group settled early: the test has lost its point"
    assert all(M <= n <= 6 * M and n % 4 == 0 for n in sizes)
    saved = [entry["dare/votes_saved"] for entry in result["log"] if "dare/votes_saved" in entry]
    assert sum(saved) > 0


def test_logprobs_need_a_generation_that_gives_them(train, service):
    from dare_reward.stacks.trl_rollout import VoteRollout

    with pytest.raises(RequestError, match="only vLLM does"):
        train(service.url, steps=1, votes=VoteRollout(1, entropy="logprob"))


def test_bodies_are_the_recorded_ones(train, service):
    import trl

    with servers.forged() as (url, bodies):
        train(url, steps=1)
        train(url, steps=1, votes=1)
        train(url, steps=1, trainer="rloo", reward={"entropy": "none"})
    compare_or_record("trl", trl.__version__, bodies)


# --- the trainer's own tensors ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bytewise(tmp_path_factory):
    """A model whose tokenizer splits characters."""
    pytest.importorskip("trl", reason="needs trl (python scripts/test_stack.py trl)")
    import byte_level
    import tiny as module

    tokens = byte_level.tokenizer()
    return module.save(tmp_path_factory.mktemp("bytes"), module.untrained(tokens), tokens)


@pytest.fixture
def said(bytewise, tmp_path):
    """A run whose policy says `byte_level`'s texts: what each row of its losses held, with the loss's gradient.

    (text, answer) -> a list over steps of (advantage, token ids, gradient by the log-probability of each token).
    """
    import byte_level
    import train_trl

    texts = byte_level.MIXED + byte_level.AGREED
    rows = {}

    def speak(trainer):
        tokens, forward, loss = trainer._tokenizer, trainer._get_per_token_logps_and_entropies, trainer._compute_loss
        spoken = [[*tokens(text)["input_ids"], tokens.eos_token_id] for text, _ in texts]
        kept = []

        def watched(*given, **options):
            out = forward(*given, **options)
            if out[0].requires_grad:
                out[0].retain_grad()
                kept.append(out[0])
            return out

        def compute_loss(model, inputs):
            out = loss(model, inputs)
            kept[-1].register_hook(lambda gradient: note(inputs, gradient.tolist()))
            return out

        def note(inputs, gradients):
            found = zip(inputs["completion_ids"].tolist(), inputs["advantages"].tolist(), gradients, strict=True)
            for ids, advantage, gradient in found:
                end = ids.index(tokens.eos_token_id) + 1
                assert not any(gradient[end:]), "padding"
                row = texts[spoken.index(ids[:end])]
                rows.setdefault(row, []).append((advantage, tokens.convert_ids_to_tokens(ids[:end]), gradient[:end]))

        trainer._get_per_token_logps_and_entropies, trainer._compute_loss = watched, compute_loss
        trainer._generate_single_turn = lambda ids, *_: (spoken, None)

    def run(url, **given):
        rows.clear()
        how = {"steps": 2, "votes": 0, "chat": False, "width": 48, "prepare": speak, **given}
        return rows, train_trl.train(bytewise, url, out=tmp_path, **how)

    return run


def test_the_answers_tokens_have_no_gradient(said, service):
    """Neither by the policy's loss nor, where all agree, by its KL term; every other token has one."""
    import byte_level

    rows, result = said(f"{service.url}?method=ttrl&train_on=reasoning", beta=0.1)
    assert rows.keys() == {*byte_level.MIXED, *byte_level.AGREED}
    for (text, answer), steps in rows.items():
        (_, tokens, first), (advantage, _, gradient) = steps
        expected = [*byte_level.outside(tokens[:-1], text, answer), True]
        assert all(expected) == (answer is None)
        assert (advantage == 0) == (answer == "€5¥")
        if advantage:
            assert [g != 0 for g in first] == expected
        assert [g != 0 for g in gradient] == expected
    assert [entry["dare/no_span"] for entry in result["log"][:2]] == [0.0, 0.0]


def test_the_methods_and_the_selections_advantages(said, service):
    """gmae by its own weights, where TRL divides by the batch; ddrl's selection, by what TRL makes of no reward."""
    import byte_level

    groups = [{"rollouts": [{"text": t} for t, _ in own]} for own in (byte_level.MIXED, byte_level.AGREED)]
    for options, scale, left_out, different in (
        ({"method": "gmae", "group_size": 3}, "batch", 0, 4),
        ({"method": "ttrl", "selection": "ddrl", "selection_size": 2}, "none", 4, 2),
    ):
        replies = dare_reward.estimate(groups, **options).groups
        taken = [
            [r if g.select is None or i in g.select else math.nan for i, r in enumerate(g.rewards)] for g in replies
        ]
        rewards = np.array(taken)
        assert np.isnan(rewards).sum() == left_out
        spread = rewards.std(ddof=1) + 1e-4 if scale == "batch" else 1.0
        gains = np.nan_to_num((rewards - np.nanmean(rewards, axis=1, keepdims=True)) / spread)
        rows, _ = said(f"{service.url}?{urlencode(options)}", scale_rewards=scale)
        expected = dict(zip(byte_level.MIXED + byte_level.AGREED, gains.ravel(), strict=True))
        assert {row: steps[0][0] for row, steps in rows.items()} == pytest.approx(expected, rel=1e-5, abs=1e-6)
        assert len({round(float(a), 6) for a in gains.ravel()}) >= different


# --- two ranks -------------------------------------------------------------------------------------------------------


def two_ranks(model, out, url, *runs):
    """torchrun on two processes; 6 rows a rank and groups of 4, so that the middle group is on both."""
    runs = json.dumps([{"batch": 6, "steps": 2, **given} for given in runs])
    launch = f"-m torch.distributed.run --nproc-per-node=2 --master-port={serving.free_port()} --log-dir".split()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONFAULTHANDLER": "1"}
    command = [sys.executable, *launch, str(out), str(HERE / "train_trl.py"), str(model), url, str(out), runs]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)


def test_groups_split_over_two_ranks(model, service, tmp_path):
    """Both trainers, one after the other in the same two processes: starting these takes longer than the runs."""
    runs = ({"trainer": "grpo"}, {"trainer": "rloo"})
    done = two_ranks(model, tmp_path, service.url, *runs)
    assert done.returncode == 0, done.stderr[-20000:]  # what the rank said stands above torchrun's own summary
    ranks = [json.loads((tmp_path / f"rank{r}.json").read_text()) for r in (0, 1)]
    for parts in zip(*ranks, strict=True):
        whole = [
            {**a, **{k: a[k] + b[k] for k in ("texts", "truncated", "entropy", "rewards", "labels", "votes")}}
            for a, b in zip(*(part["calls"] for part in parts), strict=True)
        ]
        assert [len(c["texts"]) for c in whole] == [12, 12]
        assert differ(whole)
        for call in whole:
            assert call["rewards"] == pytest.approx(offline(call), abs=2e-4)


def test_a_bad_reply_ends_both_ranks(model, tmp_path):
    """Rank 0 alone talks to the service; its error must not leave rank 1 waiting."""
    with servers.forged(servers.short) as (url, _):
        done = two_ranks(model, tmp_path, url, {})
    assert done.returncode != 0
    assert done.stderr.count("3 rewards for 4 rollouts") >= 2


# --- failures --------------------------------------------------------------------------------------------------------


def nowhere():
    return f"http://127.0.0.1:{serving.free_port()}"


@pytest.mark.parametrize("trainer", ["grpo", "rloo"])
def test_service_down_abstains(train, trainer):
    """No reward is None, never 0.0: the step has no gradient and the reward is not logged as a number."""
    result = train(nowhere(), trainer=trainer, steps=2, reward=QUICK)
    assert result["step"] == 2
    assert all(r is None for c in result["calls"] for r in c["rewards"])
    for entry in result["log"][:2]:
        assert entry["dare/abstained"] == 1
        assert entry["loss"] == 0
        assert entry["grad_norm"] == 0
        assert entry["reward"] is None or math.isnan(entry["reward"])
