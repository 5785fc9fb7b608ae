"""verl 0.9: the real PPOTrainer._compute_advantage over a real TransferQueue, hooked. `python scripts/test_stack.py verl`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import servers
import serving
from recorded import compare_or_record

import dare_reward
from dare_reward.errors import ConfigError, RequestError, UnavailableError

pytestmark = [pytest.mark.verl, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("plugins")]

M, LIMIT = 4, 24
ANSWERS = [["1", "1", "2", "1"], ["3", "4", "4", "3"], ["7", "7", "7", "8"]]
SETTINGS = f"""
    data.max_response_length={LIMIT} actor_rollout_ref.rollout.n={M} algorithm.adv_estimator=grpo
    transfer_queue.enable=true transfer_queue.backend.SimpleStorage.num_data_storage_units=1
    actor_rollout_ref.actor.ppo_mini_batch_size=1 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1
    actor_rollout_ref.actor.use_kl_loss=true
"""


@pytest.fixture(scope="module")
def trainer(service):
    """A trainer with verl's own default configuration, its queue, and the hook as verl's plugin loader installs it."""
    pytest.importorskip("transfer_queue", reason="needs verl (python scripts/test_stack.py verl)")
    os.environ["DARE_URL"] = service.url
    import ray
    import tiny
    import verl
    from hydra import compose, initialize_config_dir
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    assert PPOTrainerSync._compute_advantage.__module__ == "dare_reward.stacks.verl", (
        "import verl did not install the hook"
    )
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        config = compose("ppo_trainer", SETTINGS.split())
    ray.init(num_cpus=4, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    import transfer_queue as tq

    tq.init(config.transfer_queue)
    out = PPOTrainerSync.__new__(PPOTrainerSync)
    out.config, out.tokenizer, out.use_critic, out.global_steps = config, tiny.tokenizer(), False, 1
    out.actor_rollout_wg = SimpleNamespace(_dispatch_info={"actor": [0, 0]})
    yield out
    tq.close()
    ray.shutdown()


def put(trainer, partition, *, entropy=True, logprobs=False, outputs=1, pad=0, said=None, truths=(), asked=()):
    """Rollouts into the queue as verl's agent loop puts them, shuffled, with verl's own padding rows.

    `said` are the texts of each group, else they are made of ANSWERS; `truths` their `reward_model` of the data set,
    and `asked` what they were asked.
    """
    import torch
    import transfer_queue as tq
    from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    rng = np.random.default_rng(0)
    fields, keys = [], []
    for p, texts in enumerate(said or [[f"so \\boxed{{{a}}}" for a in answers] for answers in ANSWERS]):
        for session, own in enumerate(texts):
            for index in range(outputs):
                text = own if index == outputs - 1 else "a tool call of 9"
                response = torch.tensor([*trainer.tokenizer(text)["input_ids"], trainer.tokenizer.eos_token_id])
                prompt = torch.tensor(trainer.tokenizer(asked[p])["input_ids"] if asked else [5, 6, 7])
                mask = torch.ones(len(response), dtype=torch.int64)
                mask[1] = 0  # a token of the environment
                row = {
                    "prompts": prompt, "responses": response, "response_mask": mask, "loss_mask": mask,
                    "input_ids": torch.cat([prompt, response]), "position_ids": torch.arange(len(response) + len(prompt)),
                    "attention_mask": torch.ones(len(response) + len(prompt), dtype=torch.int64), "rm_scores": torch.zeros(len(response)),
                    "old_log_probs": torch.zeros(len(response)), "uid": f"uid_{p}", "reward_model": truths[p] if truths else {"style": "rule", "ground_truth": "1"},
                }  # fmt: skip
                drawn = torch.tensor(rng.exponential(0.3, len(response)), dtype=torch.float32)
                if entropy:
                    row["entropy"] = drawn
                if logprobs:
                    row["rollout_log_probs"] = -drawn
                fields.append(row)
                keys.append(f"uid_{p}_{session}_{index}")
    order = rng.permutation(len(keys)).tolist()
    keys, fields = [keys[i] for i in order], [fields[i] for i in order]
    lengths = {"seq_len": "input_ids", "prompt_len": "prompts", "response_len": "responses"}
    sizes = [{name: len(row[field]) for name, field in lengths.items()} for row in fields]
    tags = [{"status": "success", "global_steps": 1, **own} for own in sizes]
    tq.kv_batch_put(keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id=partition)
    batch = tq.KVBatchMeta(partition_id=partition, keys=keys, tags=tags)
    if pad:
        batch = upsample_batch_to_divisible_size(batch, pad, trainer.tokenizer.eos_token_id)
    return batch, dict(zip(keys, fields, strict=True))


def read(batch, *names):
    import transfer_queue as tq

    data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(names))
    return [[x.tolist() for x in data[name].unbind()] for name in names]


def offline(rows, method, *, outputs=1, **params):
    """session key -> reward, from the rows as they were put."""
    out = {}
    for p, answers in enumerate(ANSWERS):
        rollouts = []
        for s, answer in enumerate(answers):
            row = rows[f"uid_{p}_{s}_{outputs - 1}"]
            own = row["entropy"][row["response_mask"].bool()].double()
            rollouts.append({"answer": answer, "mean_entropy": float(own.mean()), "num_tokens": len(own)})
        (group,) = dare_reward.estimate([{"group_id": "g", "rollouts": rollouts}], method=method, **params).groups
        out.update({f"uid_{p}_{s}": r for s, r in enumerate(group.rewards)})
    return out


@pytest.fixture
def advantage(trainer, service, monkeypatch):
    """The real step with the hook on another address or method."""
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer

    from dare_reward.stacks import verl as adapter
    from dare_reward.stacks.adapter import Scorer

    def run(batch, url="", trained=None):
        if url:
            original = PPOTrainer._compute_advantage.__closure__
            plain = next(c.cell_contents for c in original if callable(c.cell_contents))
            monkeypatch.setattr(PPOTrainer, "_compute_advantage", plain)
            monkeypatch.setattr(PPOTrainer, "_build_replay_buffer", PPOTrainer._build_replay_buffer)  # put back after
            adapter.install(Scorer.of(url), trained)
        metrics = {}
        out = trainer._compute_advantage(batch, metrics)
        return metrics if trained is None else out

    return run


def check(batch, expected):
    """Each row's reward stands on its last token; advantages are the group's normalised rewards."""
    scores, advantages, masks = read(batch, "rm_scores", "advantages", "response_mask")
    for key, score, gain, mask in zip(batch.keys, scores, advantages, masks, strict=True):
        session = key.rsplit("_", 1)[0]
        assert score[:-1] == [0.0] * (len(score) - 1)
        assert score[-1] == pytest.approx(expected.get(session, 0.0), abs=1e-6)
        if session not in expected:
            continue
        group = [r for s, r in expected.items() if s.rsplit("_", 1)[0] == session.rsplit("_", 1)[0]]
        spread = np.std(group, ddof=1)
        want = (expected[session] - np.mean(group)) / (spread + 1e-6)
        assert gain == pytest.approx([want if m else 0.0 for m in mask], abs=1e-3)


def of_sessions(batch):
    """Each session's advantage, which is the same at every token that the policy generated and 0 elsewhere."""
    (advantages, masks), out = read(batch, "advantages", "response_mask"), {}
    for key, gain, mask in zip(batch.keys, advantages, masks, strict=True):
        inside = {g for g, m in zip(gain, mask, strict=True) if m}
        assert len(inside) == 1
        assert not any(g for g, m in zip(gain, mask, strict=True) if not m)
        out[key.rsplit("_", 1)[0]] = inside.pop()
    return out


def replies(method, **options):
    groups = [{"group_id": f"uid_{p}", "rollouts": [{"answer": a} for a in own]} for p, own in enumerate(ANSWERS)]
    return dare_reward.estimate(groups, method=method, **options).groups


def test_the_prompt_tells_which_question_a_text_answers(trainer, advantage, service):
    """A base model answers what it was asked and asks itself another question: the vote is on the first."""
    asked = "Question: What is 2 + 2 equal to?\nAnswer:"
    both = f"  {asked} \\boxed{{4}}\n\nQuestion: What is 3 + 3 equal to?\nAnswer: \\boxed{{6}}"
    batch, _ = put(trainer, "asked", said=[[both, both, "so \\boxed{4}", "so \\boxed{6}"]], asked=[asked])
    advantage(batch, f"{service.url}?method=ttrl")
    check(batch, {"uid_0_0": 1.0, "uid_0_1": 1.0, "uid_0_2": 1.0, "uid_0_3": 0.0})


def test_the_selected_rollouts_are_trained_by_the_services_advantages(trainer, advantage, service, monkeypatch):
    """Which sessions and which advantages these are: tests/contract."""
    batch, _ = put(trainer, "ddrl")
    monkeypatch.setattr(trainer, "_get_required_batch_multiple", lambda ranks: 2 * ranks)
    kept = advantage(batch, f"{service.url}?method=ddrl&advantage=ddrl&n_train=2", trained=M)
    found, expected = of_sessions(kept), {}
    for p, group in enumerate(replies("ddrl", advantage="ddrl", n_train=2)):
        expected |= {f"uid_{p}_{s}": group.advantages[s] for s in group.select}
    assert found == expected
    assert len({*found.values()}) > 1


def test_a_group_to_drop_has_no_advantage(trainer, advantage, service):
    batch, _ = put(trainer, "settled")
    advantage(batch, f"{service.url}?method=ttrl&settled=0.7")
    found = of_sessions(batch)
    dropped = {p for p, group in enumerate(replies("ttrl", settled=0.7)) if group.drop == "unsettled"}
    assert dropped == {1}
    for session, gain in found.items():
        assert (gain == 0) == (int(session.split("_")[1]) in dropped)


def test_verls_division_is_refused_where_it_undoes_the_method(trainer, advantage, service):
    batch, _ = put(trainer, "scale")
    with pytest.raises(RequestError, match="norm_adv_by_std_in_grpo=false"):
        advantage(batch, f"{service.url}?method=gmae")


@pytest.mark.parametrize("pad", [0, 8])
def test_rewards_and_advantages(trainer, advantage, pad):
    """Where verl pads 12 rollouts to 16 too: a row of zero mask would make the mean entropy undefined."""
    batch, rows = put(trainer, f"padded-{pad}", pad=pad)
    assert len(batch.keys) == (16 if pad else 12)
    metrics = advantage(batch)
    expected = offline(rows, "dare")
    assert len(set(expected.values())) > 4
    check(batch, expected)
    assert metrics["dare/groups"] == 3
    assert metrics["dare/label_accuracy"] == pytest.approx(1 / 3)


def test_the_last_output_of_a_session_is_scored(trainer, advantage):
    batch, rows = put(trainer, "multi", outputs=2)
    advantage(batch)
    scores = dict(zip(batch.keys, (s[-1] for s in read(batch, "rm_scores")[0]), strict=True))
    expected = offline(rows, "dare", outputs=2)
    assert {k.rsplit("_", 1)[0]: v for k, v in scores.items() if k.endswith("_1")} == pytest.approx(expected, abs=1e-6)
    assert all(scores[k] == scores[k[:-1] + "1"] for k in batch.keys), (
        "verl gives a session's reward to each of its outputs"
    )


def test_service_down(trainer, advantage):
    batch, _ = put(trainer, "down")
    url = f"http://127.0.0.1:{serving.free_port()}?retries=0&timeout=1"
    with pytest.raises(UnavailableError):
        advantage(batch, url)
    advantage(batch, f"{url}&on_error=zero")
    check(batch, {})


def test_votes_beyond_the_trained(trainer, advantage, service, monkeypatch):
    """All four vote, the first two of each prompt are trained: the labels of TTRL, from more votes than it trains."""
    import transfer_queue as tq

    batch, rows = put(trainer, "votes-only", pad=8)
    monkeypatch.setattr(trainer, "_get_required_batch_multiple", lambda ranks: 2 * ranks)
    left = advantage(batch, f"{service.url}?method=ttrl", trained=2)
    assert sorted(left.keys) == [f"uid_{p}_{s}_0" for p in range(3) for s in range(2)]
    expected = offline(rows, "ttrl")
    scores, advantages = read(left, "rm_scores", "advantages")
    for key, score, gain in zip(left.keys, scores, advantages, strict=True):
        assert score[-1] == expected[key.rsplit("_", 1)[0]]
        pair = [expected[f"{key.rsplit('_', 2)[0]}_{s}"] for s in range(2)]
        assert gain[0] == pytest.approx((score[-1] - np.mean(pair)) / (np.std(pair, ddof=1) + 1e-6), abs=1e-3)
    assert set(tq.kv_list(partition_id="votes-only")["votes-only"]) == set(left.keys), "the votes stayed in the queue"
    monkeypatch.setattr(trainer, "_get_required_batch_multiple", lambda ranks: 4 * ranks)
    with pytest.raises(ConfigError, match="multiples of 4"):
        advantage(put(trainer, "votes-odd")[0], f"{service.url}?method=ttrl", trained=2)


def test_bodies_are_the_recorded_ones(trainer, advantage, service):
    import verl

    with servers.forged() as (url, bodies):
        advantage(put(trainer, "record")[0], url)
        advantage(put(trainer, "record-ttrl")[0], f"{url}?method=ttrl")
        advantage(put(trainer, "record-bypass", entropy=False, logprobs=True)[0], url)
    compare_or_record("verl", verl.__version__, bodies)


# --- verl's own filter -----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def altered(trainer, **algorithm):
    """The trainer with other settings of its algorithm."""
    from omegaconf import OmegaConf

    before = trainer.config
    trainer.config = OmegaConf.merge(before, {"algorithm": algorithm})
    try:
        yield
    finally:
        trainer.config = before


def test_a_filter_by_the_truth_is_refused(trainer):
    with altered(trainer, filter_groups={"enable": True, "metric": "acc"}), pytest.raises(ConfigError, match="disable"):
        trainer._build_replay_buffer()


def test_the_recipe_of_ttrl(trainer, tmp_path):
    """Every argument of the script exists in verl's configuration, its data reads, and its verifier loads and grades."""
    import json

    import verl
    from hydra import compose, initialize_config_dir
    from verl.trainer.ppo.reward import get_custom_reward_fn
    from verl.utils.dataset.rl_dataset import RLHFDataset

    examples = Path(__file__).parents[2] / "examples" / "stacks"
    (tmp_path / "AIME-TTT").mkdir()
    rows = [{"prompt": "1+1?", "answer": "2"}, {"prompt": "2+2?", "answer": 4}]
    (tmp_path / "AIME-TTT" / "train.json").write_text(json.dumps(rows))
    words = [str(examples / "verl_ttrl_data.py"), "AIME-TTT/train.json", "train.parquet", "--votes", "64"]
    subprocess.run([sys.executable, *words], cwd=tmp_path, check=True)
    environment = {**os.environ, "PYTHON": "echo", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    said = subprocess.run(
        ["bash", str(examples / "verl_ttrl.sh")], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    assert said[:2] == ["-m", "verl.trainer.main_ppo"]
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        config = compose("ppo_trainer", said[2:])
    assert config.actor_rollout_ref.rollout.n == 32
    function = get_custom_reward_fn(config)
    assert function("AIME-TTT", "so \\boxed{2}", "2", None) == 1.0
    assert function("AIME-TTT", "so \\boxed{3}", "2", None) == 0.0
    data = RLHFDataset(data_files=str(tmp_path / "train.parquet"), tokenizer=trainer.tokenizer, config=config.data)
    assert data[1]["__rollout_n__"] == 64
    assert data[1]["reward_model"]["ground_truth"] == "4"


def test_without_an_address_verl_is_untouched():
    code = (
        "import verl, sys; assert 'dare_reward.stacks.verl' in sys.modules; assert 'verl.trainer' not in sys.modules or "
        "'verl.trainer.ppo.v1.trainer_base' not in sys.modules; from verl.trainer.ppo.v1.trainer_base import PPOTrainer; "
        "print(PPOTrainer._compute_advantage.__module__)"
    )
    environment = {k: v for k, v in os.environ.items() if k != "DARE_URL"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split()[-1] == "verl.trainer.ppo.v1.trainer_base", done.stderr[-1000:]
