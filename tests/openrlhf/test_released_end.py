"""Why there is no `on_collapse=stop`: how a training of the released trainer ends, and what a rollout can do to it.

If one of these fails, OpenRLHF has a new way out; docs/openrlhf.md says that it has none.
"""

from __future__ import annotations

import contextlib
import os
from types import SimpleNamespace

import pytest

pytestmark = [
    pytest.mark.openrlhf,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.skipif("0.11" not in os.environ.get("OPENRLHF_TREE", ""), reason="the newest release's arguments"),
]


class Loader:
    def __len__(self):
        return 6

    def state_dict(self):
        return {}


@pytest.fixture
def train(release):
    """`train(rollouts)` runs the release's `fit`; returns its finished steps, its saves, and whether it came to its end."""
    pytest.importorskip("torch")

    def run(rollouts):
        trainer = object.__new__(release.module("trainer.ppo_trainer").PPOTrainer)
        steps, saves, closed = [], [], []

        def generate_samples():
            step = len(steps)
            return [rollouts(step)], None, 1, step == len(Loader()) - 1

        def train_step(samples, step):
            steps.append(samples)
            return {}, step + 1

        trainer.args = SimpleNamespace(
            ckpt=SimpleNamespace(path="", load_enable=False), train=SimpleNamespace(num_episodes=1),
            algo=SimpleNamespace(dynamic_filtering_enable=False), eval=SimpleNamespace(steps=float("inf")),
        )  # fmt: skip
        trainer.prompts_dataloader, trainer.eval_dataloader, trainer.generate_kwargs = Loader(), None, {}
        trainer.samples_generator = SimpleNamespace(generate_samples=generate_samples)
        trainer.train_step = train_step
        trainer.save_logs_and_checkpoints = lambda step, *_: saves.append(step)
        trainer.wandb_logger = trainer.tensorboard_logger = SimpleNamespace(close=lambda: closed.append(True))
        with contextlib.suppress(RuntimeError):
            trainer.fit()
        return len(steps), saves, bool(closed)

    return run


def test_it_ends_with_its_data_whatever_the_rollouts_say(train):
    stop = {"reward": 0.0, "scores": 0.0, "extra_logs": {"stop": 1.0, "dare/collapsed": 1.0}, "truncated": True}
    assert train(lambda step: stop) == (6, [1, 2, 3, 4, 5, 6], True)


def test_an_error_of_a_rollout_ends_it_without_a_save(train):
    """In `cli/train_ppo_ray.py`, `ray.get(fit.remote())` raises it again, before the model is saved."""

    def collapses(step):
        if step == 3:
            raise RuntimeError("the run collapses")

    assert train(collapses) == (3, [1, 2, 3], False)


def test_the_model_is_saved_after_the_training_only(release):
    source = (release.tree / "openrlhf" / "cli" / "train_ppo_ray.py").read_text()
    assert source.index("ray.get(ppo_trainer.fit.remote())") < source.index("ray.get(actor_model.async_save_model())")
    assert "finally" not in source
