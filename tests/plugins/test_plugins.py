"""examples/plugins: installed as a user does it, found by entry point, and what is particular to each method but gmae."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from said import said, scored

from dare_reward.methods import find

PLUGINS = Path(__file__).parents[2] / "examples" / "plugins"

pytestmark = pytest.mark.usefixtures("plugins")


ASK = """
import json
import dare_reward
from dare_reward.methods import methods
own = {m.name: m.function.__module__ for m in methods().values() if not m.function.__module__.startswith("dare_reward.")}
group = {"rollouts": [{"answer": a, "num_tokens": 3} for a in "11223"]}
print(json.dumps([own, dare_reward.estimate([group], method="cocov", k=2).groups[0].advantages]))
"""


def test_pip_installs_four_methods_and_each_is_one_word_away(tmp_path):
    copy = shutil.copytree(PLUGINS, tmp_path / "plugins", ignore=shutil.ignore_patterns("__pycache__"))
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--no-deps", "--no-build-isolation", "--target", tmp_path / "site", copy], check=True)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n{ASK}"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # the fixture's
    told = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=env, cwd=tmp_path
    )
    own, advantages = json.loads(told.stdout)
    assert own == {name: f"dare_plugins.{name}" for name in ("cocov", "gmae", "jury_rl", "t3rl")}
    assert advantages[0] == advantages[1] > 0 > advantages[2]


def test_each_says_how_far_it_was_checked():
    assert {name: find(name).evidence for name in ("cocov", "gmae", "jury_rl", "t3rl")} == {
        "cocov": "verified against official code",
        "gmae": "from the paper",
        "jury_rl": "experimental",
        "t3rl": "experimental",
    }


def test_cocov_verified_labels():
    rollouts = said("aabbc", pass_rate=[0.2, 0.2, 0.9, 0.9, 0.6], num_tokens=[5] * 5)
    routed = scored(rollouts, "cocov", tau_low=0.5, k=2)
    assert routed.pseudo_label == "b"
    assert "verified_label" in routed.flags
    assert scored(rollouts, "cocov", k=2).pseudo_label == "a"
    none = scored(said("aabbc", pass_rate=[0.2] * 5, num_tokens=[5] * 5), "cocov", tau_low=0.5)
    assert none.advantages == (0.0,) * 5
    assert "no_label" in none.flags


def test_cocov_lengths_matter_only_above_the_threshold():
    lengths = [10, 20, 90, 10, 20]
    low = scored(said("aaabc", num_tokens=lengths), "cocov", tau_high=0.6, k=2).advantages
    high = scored(said("aaabc", num_tokens=lengths), "cocov", tau_high=0.5, k=2).advantages
    assert low[0] == low[1] == low[2] > 0 > low[3] == low[4]
    assert high[2] > high[0] > 0
    assert min(high[:3]) >= low[0]


def test_a_proof_is_paid_and_no_proof_sums_to_zero():
    def score_of(*verified):
        return scored(said("11123", verified=verified), "jury_rl", c=0.5, allow_experimental=True)

    assert score_of(1, 0, 0, 0, 0).rewards == (1.0, 1.0, 1.0, 0.0, 0.0)
    unproved = score_of(0, 0, 0, 1, 0)
    assert "unproved" in unproved.flags
    assert sum(unproved.rewards) == pytest.approx(0, abs=1e-12)


def test_a_proved_rollout_outweighs_others():
    assert scored(said("1112", verified=(0, 0, 0, 1)), "t3rl", allow_experimental=True).pseudo_label == "2"
