"""Contracts with OpenRLHF's released client code: 0.9.10, 0.10.4, 0.11.2 (and the oldest, 0.9.1, on the URL route).

DARE_TEST_OPENRLHF names a folder of `openrlhf-VERSION*.whl`; `scripts/test_openrlhf_loop.py` fills one.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from dare_trainer.agent.config import AgentConfig
from dare_trainer.launch.compose import Launch, plan, prepare_folder
from dare_trainer.launch.flags import NEWEST, RELEASE, arguments, dialect, flags_of, translate

from dare_reward import estimate
from dare_reward.openrlhf import keys_of
from dare_trainer.launch.recipes import find_recipe, names

pytestmark = pytest.mark.openrlhf_loop
HERE = Path(__file__).parent
RELEASES = ["0.9.1", "0.9.10", "0.10.4", "0.11.2"]


@pytest.fixture(scope="session")
def released(tmp_path_factory):
    """The folder that has a release's packages; wheels keep them under *.data/purelib."""
    wheels = Path(os.environ.get("DARE_TEST_OPENRLHF") or pytest.fail("DARE_TEST_OPENRLHF names no folder of wheels"))
    root = tmp_path_factory.mktemp("releases")

    def unpack(version):
        (wheel,) = wheels.glob(f"openrlhf-{version}-*.whl")
        target = root / version
        if not target.exists():
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(target)
        return target / f"openrlhf-{version}.data" / "purelib"

    return unpack


@pytest.fixture(scope="module")
def live(quiet):
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("dare_loop_service", HERE / "openrlhf" / "loop.py")
    module = module_from_spec(spec)
    sys.modules["dare_loop_service"] = module
    spec.loader.exec_module(module)
    service = module.Service().start()
    yield service.url
    service.kill()


def test_the_flags_that_are_checked_against_are_the_newest_releases(released):
    assert flags_of((released(RELEASE) / "openrlhf" / "cli" / "train_ppo_ray.py").read_text()) == NEWEST


def call(source, what, url, folder):
    path = [str(source), str(HERE.parent / "trainer"), str(HERE / "openrlhf" / "shim")]
    done = subprocess.run(
        [sys.executable, str(HERE / "openrlhf" / "contract.py"), what, url, str(folder)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "DS_ACCELERATOR": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("version", RELEASES[1:])
def test_the_agent_inside_the_release(released, live, tmp_path, version):
    config = AgentConfig(url=live, run="contract", timeout=60.0)
    folder = prepare_folder({"train.agent_func_path": str(tmp_path / "agent" / "agent.py")}, config)
    found = call(released(version), "agent", live, folder)
    assert found["sizes"] == [64] * 8
    assert found["votes"] == [64.0]
    assert found["fallbacks"] == 0
    texts = ["\\boxed{7}", "\\boxed{7}", "\\boxed{5}", "hm"] * 128
    for i, rewards in enumerate(found["rewards"]):
        # The engine hands its texts out in turn, so each group of 64 has 32, 16 and 16 of them, in some order.
        wanted = estimate(
            [{"rollouts": [{"text": t, "mean_entropy": 0.25} for t in texts[64 * i : 64 * i + 64]]}]
        ).groups[0]
        assert sorted(rewards) == pytest.approx(sorted(wanted.rewards), abs=2**-16)
    assert set(found["evaluation"]) <= {0.0, 1.0}
    assert (found["lost"], found["left"], found["running"], found["tasks"]) == ("lost", 0, 0, 0)
    e = found["experience"]
    assert set(keys_of("agent")) <= set(e["keys"])
    assert e["same_keys"]
    assert e["finite"]
    assert e["real_advantages"] < 1e-5


@pytest.mark.parametrize("version", RELEASES)
def test_the_url_route_of_the_release_carries_entropies(released, tmp_path, version):
    found = call(released(version), "url", "-", tmp_path)
    assert found["asked"] == [[True, "temperature"]]
    assert found["logprobs"] == [0] * 8
    assert found["shared"] is None
    assert found["log_probs"] == [None] * 8
    assert found["rewards"] == [[0.5]] * 8
    assert found["left"] == 0
    bodies = found["bodies"]
    assert len(bodies) == 9  # one came back after its 503
    assert sum(b == bodies[2] for b in bodies) == 2
    for b in bodies:
        assert set(b) == {
            "query", "prompts", "labels", "group_key", "index", "num_tokens", "finish_reason", "mean_entropy", "entropy_source", "entropy_mode",
        }  # fmt: skip
        assert all(isinstance(v, list) and len(v) == 1 for v in b.values())
        assert (b["prompts"], b["labels"], b["entropy_source"]) == (["p"], ["7"], ["exact"])
    groups = {}
    for b in bodies:
        groups.setdefault(b["group_key"][0], set()).add(b["index"][0])
    assert list(groups.values()) == [{0, 1, 2, 3}] * 2
    assert {b["mean_entropy"][0] for b in bodies} == {0.125 * (i + 1) for i in range(8)}


@pytest.mark.parametrize("version", RELEASES)
def test_every_command_is_one_that_the_release_understands(released, tmp_path, version):
    known = flags_of((released(version) / "openrlhf" / "cli" / "train_ppo_ray.py").read_text())
    for recipe in (find_recipe(name) for name in names() if "-form-" not in name):
        for route in ("agent", "url"):
            flags, _ = plan(recipe, Launch("http://reward:8000", route=route, release=version, out=tmp_path))
            words = arguments(translate(flags, version, known))
            assert {w.removeprefix("--") for w in words if w.startswith("--")} <= known
    assert dialect(version) == ("nested" if version >= "0.10.2" and not version.startswith("0.9") else "flat")
