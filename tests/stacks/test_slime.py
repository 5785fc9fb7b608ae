"""slime: its real hub, training data and filter; tests/contract has the rest by samples of its fields. Needs a checkout: `python scripts/test_stack.py slime --source slime=DIR`."""

from __future__ import annotations

import ast
import asyncio
import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

import dare_reward

pytestmark = [pytest.mark.slime, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("plugins")]

PATH = "dare_reward.stacks.slime.reward"


@pytest.fixture(scope="module")
def hub():
    source = os.environ.get("SLIME_SOURCE")
    if not source:
        pytest.skip("slime is not on PyPI: set SLIME_SOURCE to a checkout of github.com/THUDM/slime")
    sys.path.insert(0, source)
    from slime.rollout import rm_hub

    yield rm_hub
    sys.path.remove(source)


def samples(hub, *, logprobs=True, group=3):
    from slime.utils.types import Sample

    out = []
    for i, answer in enumerate(["5", "5", "6", "5", "7"]):
        sample = Sample(
            group_index=group,
            index=10 + i,
            prompt="?",
            label="5",
            response=f"so \\boxed{{{answer}}}",
            response_length=3,
            status=Sample.Status.COMPLETED,
        )
        if logprobs:
            sample.rollout_log_probs = [-0.1 * (i + 1), -0.2, -0.3]
        out.append(sample)
    return out


def call(hub, url, given):
    args = Namespace(custom_rm_path=PATH, rm_url=url, rm_type=None, group_rm=True)
    return asyncio.run(hub.batched_async_rm(args, given))


# --- slime's own training data ---------------------------------------------------------------------------------------


def training_data(url, given):
    """What slime's rollout manager makes of the samples: its released functions, without what its module imports of GPUs."""
    import torch
    from slime.utils.data import get_source
    from slime.utils.misc import load_function
    from slime.utils.types import Sample

    tree = ast.parse((Path(os.environ["SLIME_SOURCE"]) / "slime" / "ray" / "rollout.py").read_text())
    (manager,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "RolloutManager")
    manager.decorator_list, manager.bases = [], []
    manager.body = [
        node
        for node in manager.body
        if getattr(node, "name", "") in {"_post_process_rewards", "_convert_samples_to_train_data"}
    ]
    names = {"Sample": Sample, "torch": torch, "get_source": get_source}
    exec(compile(ast.Module([manager], []), "rollout.py", "exec"), names)
    own = names["RolloutManager"]()
    own.args = Namespace(rm_url=url)
    own.custom_convert_samples_to_train_data_func = None
    own.custom_reward_post_process_func = load_function("dare_reward.stacks.slime.advantages")
    return own._convert_samples_to_train_data(given)


@pytest.mark.parametrize("query", ["method=gmae&advantage=gmae&group_size=3", "method=ddrl&advantage=ddrl&n_train=2"])
def test_advantages_and_selections_reach_the_training_data(hub, service, query):
    given = samples(hub, group=1) + samples(hub, group=2)
    for sample, answer in zip(given[5:], "11112", strict=True):
        sample.response = f"so \\boxed{{{answer}}}"
    options = dict(part.split("=") for part in query.split("&"))
    sizes = {name: int(options.pop(name)) for name in ("group_size", "n_train") if name in options}
    groups = [{"rollouts": [{"text": s.response} for s in own]} for own in (given[:5], given[5:])]
    expected = dare_reward.estimate(groups, **options, **sizes).groups
    data = training_data(f"{service.url}?{query}", given)
    gains = [a or 0.0 for g in expected for a in g.advantages]
    assert any(gains)
    assert data["rewards"] == pytest.approx(gains, abs=1e-6)
    taken = [g.select is None or i in g.select for g in expected for i in range(5)]
    assert [any(mask) for mask in data["loss_masks"]] == taken
    assert all(taken) == (options["method"] == "gmae")


def test_slimes_filter_gets_the_reason(hub, service):
    from slime.rollout.filter_hub.base_types import call_dynamic_filter
    from slime.utils.misc import load_function

    keep = load_function("dare_reward.stacks.slime.dynamic_filter")
    for settled, reason in ((0.5, None), (0.99, "unsettled")):
        given = samples(hub)
        call(hub, f"{service.url}?method=ttrl&settled={settled}", given)
        found = call_dynamic_filter(keep, Namespace(), given)
        assert (found.keep, found.reason) == (reason is None, reason)
