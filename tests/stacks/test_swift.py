"""ms-swift: its real plugin loader, reward table and compute_rewards_per_func. `python scripts/test_stack.py swift`."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import servers
import serving
from recorded import compare_or_record

import dare_reward

FILE = Path(__file__).parents[2] / "examples" / "stacks" / "ms_swift.py"
pytestmark = [pytest.mark.swift, pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("plugins")]

# Rows as ms-swift has them after its shuffle: the groups are not contiguous.
ROWS = [("p0", "5"), ("p1", "1"), ("p0", "5"), ("p1", "2"), ("p0", "6"), ("p1", "2"), ("p0", "5"), ("p1", "2")]


@pytest.fixture(scope="module")
def plugin():
    """The plugin as `--external_plugins` loads it."""
    pytest.importorskip("swift", reason="needs ms-swift (python scripts/test_stack.py swift)")
    path = str(FILE)
    from swift.utils.utils import import_external_file

    import_external_file(path)
    from swift.rewards import orms

    return orms["dare"]


@pytest.fixture
def reward(plugin, monkeypatch):
    from swift.rlhf_trainers.utils import resolve_reward_funcs

    def make(url):
        monkeypatch.setenv("DARE_URL", url)
        (function,), names = resolve_reward_funcs(["dare"], args=None)
        assert names == ["DareORM"]
        return function

    return make


def samples(*, infos=None, twice=False, rows=ROWS):
    from swift.rl_core.data import GRPOSample

    out = []
    for i, ((prompt, answer), info) in enumerate(zip(rows, infos or [{}] * len(rows), strict=True)):
        messages = [{"role": "user", "content": prompt}, {"role": "assistant", "content": f"so \\boxed{{{answer}}}"}]
        named = {"prompt_id": prompt, "request_id": f"r{i}", "finish_reason": "stop"}
        out.append(GRPOSample(messages=messages, rollout_infos=info, **named))
    return [*out, *out[:3]] if twice else out


def compute(function, given):
    import torch
    from swift.rl_core.grpo_algorithm import compute_rewards_per_func

    return compute_rewards_per_func(given, [function], [None], torch.device("cpu"))[:, 0].tolist()


def offline(entropies=None, rows=ROWS, **params):
    """The rewards of rows, by the library."""
    numbers = [{}] * len(rows) if entropies is None else [{"mean_entropy": h, "num_tokens": 2} for h in entropies]
    groups, order = [], []
    for prompt in ("p0", "p1"):
        at = [i for i, row in enumerate(rows) if row[0] == prompt]
        groups.append({"group_id": prompt, "rollouts": [{"answer": rows[i][1], **numbers[i]} for i in at]})
        order += at
    rewards = [r for g in groups for r in dare_reward.estimate([g], **params).groups[0].rewards]
    return [reward for _, reward in sorted(zip(order, rewards, strict=True))]


def test_groups_by_prompt(reward, service):
    assert compute(reward(f"{service.url}?method=ttrl"), samples()) == [1, 0, 1, 1, 0, 1, 1, 1]
    function = reward(service.url)
    expected = pytest.approx(offline(method="dare", missing_entropy="frequency"))
    assert compute(function, samples()) == expected
    assert compute(function, samples()) == expected, "ms-swift makes a new event loop for each step"


def test_a_request_counts_once(reward, service):
    """Ranks that share a sequence hold the same rows."""
    plain = compute(reward(service.url), samples())
    assert compute(reward(service.url), samples(twice=True)) == pytest.approx([*plain, *plain[:3]])


def test_entropies_by_rollout_infos(reward, service):
    values = [[0.1 * i, 0.3] for i in range(len(ROWS))]
    exact = compute(reward(service.url), samples(infos=[{"token_entropies": v, "other": 1} for v in values]))
    assert exact == pytest.approx(offline([sum(v) / 2 for v in values], method="dare"))
    with servers.forged() as (url, bodies):
        estimated = compute(reward(url), samples(infos=[{"logprobs": [-x for x in v]} for v in values]))
    assert estimated == pytest.approx(exact)
    assert {g["entropy_source"] for g in bodies[0]["groups"]} == {"logprob"}


def test_bodies_are_the_recorded_ones(reward, service):
    from swift.version import __version__

    with servers.forged() as (url, bodies):
        compute(reward(url), samples())
        compute(reward(url), samples(infos=[{"logprobs": [-0.1 * i, -0.3]} for i in range(len(ROWS))]))
    compare_or_record("swift", __version__, bodies)


def test_service_down_is_nan_and_never_zero(reward):
    rewards = compute(reward(f"http://127.0.0.1:{serving.free_port()}?retries=0&timeout=1"), samples())
    assert all(map(math.isnan, rewards))


def test_the_plugin_shadows_no_package():
    """ms-swift puts the plugin's folder first on sys.path: a trl.py or a swift.py there would be imported for these."""
    code = """import importlib.util, sys
from swift.utils.utils import import_external_file
import_external_file(sys.argv[1])
print(*[importlib.util.find_spec(name).origin for name in ("trl", "swift")])"""
    done = subprocess.run([sys.executable, "-c", code, str(FILE)], capture_output=True, text=True, timeout=120)
    assert "examples" not in done.stdout.splitlines()[-1]
    assert done.returncode == 0


# --- ms-swift's own advantages ---------------------------------------------------------------------------------------


def advantages(function, given, scale):
    """Of its GRPO, over groups by prompt; and the spread by which its dynamic sampling leaves groups out."""
    import torch
    from swift.rl_core.advantage import compute_advantages_dynamic
    from swift.rl_core.grpo_algorithm import compute_rewards_per_func, compute_std_for_dynamic_sampling

    table, weights = compute_rewards_per_func(given, [function], [None], torch.device("cpu")), torch.ones(1)
    prompts, requests = [s.prompt_id for s in given], [s.request_id for s in given]
    gains, _ = compute_advantages_dynamic(table, weights, prompts, requests, scale_rewards=scale)
    at = sorted(range(len(given)), key=lambda i: prompts[i])
    spread = compute_std_for_dynamic_sampling(table[at], weights, len(given) // 2)
    return gains.tolist(), dict(zip((prompts[i] for i in at), spread.tolist(), strict=True))


def test_gmae_keeps_its_weights(reward, service):
    """Centred by prompt and divided by the batch: the chances of gmae, which weigh prompts by how sure the vote is."""
    rows = [(p, "3" if i == 1 else a) for i, (p, a) in enumerate(ROWS)] + [("p0", "5"), ("p1", "1")]
    found, _ = advantages(reward(f"{service.url}?method=gmae&group_size=3"), samples(rows=rows), "batch")
    chances = np.array(offline(method="gmae", group_size=3, rows=rows))
    prompts = np.array([prompt for prompt, _ in rows])
    means = np.array([chances[prompts == p].mean() for p in prompts])
    assert found == pytest.approx((chances - means) / (chances.std(ddof=1) + 1e-4), rel=1e-5, abs=1e-6)
    assert len({round(g, 5) for g in found}) == 4


def test_a_group_to_drop_is_what_dynamic_sampling_leaves_out(reward, service):
    found, spread = advantages(reward(f"{service.url}?method=ttrl"), samples(), "group")
    assert all(found)
    assert all(spread.values())
    found, spread = advantages(reward(f"{service.url}?method=ttrl&settled=0.9"), samples(), "group")
    assert found == [0.0] * len(ROWS)
    assert spread == {"p0": 0.0, "p1": 0.0}
