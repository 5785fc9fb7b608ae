"""EasyR1: its real AutoRewardManager loads and calls the adapter; tests/contract has the rest. Needs a checkout: `python scripts/test_stack.py easyr1 --source easyr1=DIR`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

FILE = Path(__file__).parents[2] / "examples" / "stacks" / "easyr1.py"
pytestmark = [pytest.mark.easyr1, pytest.mark.filterwarnings("default")]

# Shuffled, as _balance_batch leaves them.
ROWS = [("b", "1"), ("a", "5"), ("a", "6"), ("b", "2"), ("a", "5"), ("b", "2"), ("b", "2"), ("a", "5")]


@pytest.fixture(scope="module")
def reward_module():
    source = os.environ.get("EASYR1_SOURCE")
    if not source:
        pytest.skip("EasyR1 is not on PyPI: set EASYR1_SOURCE to a checkout of github.com/hiyouga/EasyR1")
    sys.path.insert(0, source)
    from verl.workers.reward import function

    assert source in function.__file__, "another package is called verl too"
    yield function
    sys.path.remove(source)


@pytest.fixture(scope="module")
def tokenizer():
    import tiny

    return tiny.tokenizer()


@pytest.fixture
def compute(reward_module, tokenizer):
    """compute(url, data): through EasyR1's loader and manager."""
    from verl.workers.reward.config import RewardConfig

    path = str(FILE)

    def run(url, given):
        config = RewardConfig(reward_function=f"{path}:reward", reward_function_kwargs={"url": url})
        config.post_init()
        return reward_module.AutoRewardManager(config, tokenizer).compute_reward(given)

    return run


def data(tokenizer, *, uid=True, truth="5"):
    import torch
    from verl.protocol import DataProto

    texts = [f"so \\boxed{{{answer}}}" for _, answer in ROWS]
    ids = torch.tensor([tokenizer(t)["input_ids"] + [tokenizer.pad_token_id] * 3 for t in texts])
    mask = (ids != tokenizer.pad_token_id).long()
    more = {"ground_truth": np.array([truth] * len(ROWS), dtype=object)}
    if uid:
        more["uid"] = np.array([u for u, _ in ROWS], dtype=object)
    return DataProto.from_dict(tensors={"responses": ids, "response_mask": mask}, non_tensors=more)


def test_groups_by_uid(compute, service, tokenizer):
    tensor, metrics = compute(f"{service.url}?method=ttrl", data(tokenizer))
    assert tensor.sum(-1).tolist() == metrics["overall"] == [0, 1, 0, 1, 1, 1, 1, 1]
    assert (tensor != 0).sum(-1).max() == 1


def test_in_a_ray_actor(service, tokenizer, reward_module, monkeypatch):
    """As EasyR1 does: the manager is a Ray actor and the file is loaded in its process."""
    ray = pytest.importorskip("ray")
    from verl.workers.reward.config import RewardConfig

    path = str(FILE)
    config = RewardConfig(
        reward_function=f"{path}:reward", reward_function_kwargs={"url": f"{service.url}?method=ttrl"}
    )
    config.post_init()
    environment = {"PYTHONPATH": os.pathsep.join([os.environ["EASYR1_SOURCE"], str(Path(__file__).parent)])}
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        logging_level="ERROR",
        log_to_driver=False,
        runtime_env={"env_vars": environment},
    )
    try:
        manager = ray.remote(reward_module.AutoRewardManager).options(num_cpus=1).remote(config, tokenizer)
        tensor, _ = ray.get(manager.compute_reward.remote(data(tokenizer)), timeout=180)
    finally:
        ray.shutdown()
    assert tensor.sum(-1).tolist() == [0, 1, 0, 1, 1, 1, 1, 1]
