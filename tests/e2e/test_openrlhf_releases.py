"""Contracts with OpenRLHF's released client code: 0.9.10, 0.10.4, 0.11.2 and the oldest, 0.9.1.

DARE_TEST_OPENRLHF names a folder of `openrlhf-VERSION*.whl`; `scripts/test_openrlhf_loop.py` fills one.
"""

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from by_path import run
from serving import service

from dare_reward import estimate
from dare_reward.cli import command_line
from dare_reward.openrlhf import keys_of
from dare_reward.openrlhf.url import ActorSettings

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
    with service() as running:
        yield running.url


def call(source, script, *words):
    path = [str(source), str(HERE.parent / "trainer"), str(HERE / "openrlhf" / "shim")]
    told = run(HERE / "openrlhf" / script, *words, PYTHONPATH=os.pathsep.join(path), DS_ACCELERATOR="cpu")
    return json.loads(told.splitlines()[-1])


@pytest.mark.parametrize("version", RELEASES)
def test_groups_inside_the_release(released, live, version):
    found = call(released(version), "contract.py", live)
    assert found["asked"] == [[True, "temperature"]]
    assert found["logprobs"] == [0]
    assert found["shared"] is None
    assert found["votes"] == [64.0]
    assert found["fallbacks"] == 0
    # The engine hands its texts out in turn, so each group of 64 has 32, 16 and 16 of them, in some order.
    texts = ["\\boxed{7}", "\\boxed{7}", "\\boxed{5}", "no answer"] * 16
    wanted = estimate([{"rollouts": [{"text": text, "mean_entropy": 0.25} for text in texts]}]).groups[0].rewards
    assert [len(rewards) for rewards in found["rewards"]] == [64] * 8
    for rewards in found["rewards"]:
        assert sorted(rewards) == pytest.approx(sorted(wanted), abs=2**-16)
    assert set(found["evaluation"]) <= {0.0, 1.0}
    assert (found["lost"], found["left"], found["running"], found["tasks"]) == ("engine died", 0, 0, 0)
    e = found["experience"]
    assert set(keys_of("actor")) <= set(e["keys"])
    assert e["same_keys"]
    assert e["finite"]


SCRIPTS = sorted((HERE.parents[1] / "examples" / "openrlhf").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_each_script_has_flags_that_the_releases_own_parser_takes(released, tmp_path, script):
    """What it would run is written down by stand-ins for python, ray and dare-reward."""
    stand_in = '#!/bin/sh\nfor word in "$(basename "$0")" "$@"; do printf "%s\\0" "$word"; done >> "$RECORD"; printf "\\n" >> "$RECORD"\n'
    for name in ("python", "ray", "dare-reward"):
        (tmp_path / name).write_text(stand_in)
        (tmp_path / name).chmod(0o755)
    record, url = tmp_path / "record", "http://HOST:8000/reward"
    environment = {
        **os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "RECORD": str(record), "REWARD_URL": url,
        "RAY_ADDRESS": "http://HEAD:8265", "ADAPTIVE": "auto",
    }  # fmt: skip
    subprocess.run(["bash", str(script)], env=environment, check=True, cwd=tmp_path, capture_output=True, timeout=60)
    commands = [line.split("\0")[:-1] for line in record.read_text().split("\n") if line]
    if script.name == "ray_job.sh":
        ((_, *words),) = commands
        assert words[:2] == ["job", "submit"]
        assert json.loads(words[words.index("--runtime-env-json") + 1])["env_vars"]["REWARD_URL"] == url
        assert (HERE.parents[1] / words[words.index("bash") + 1]).is_file()
        return
    python, *measured = commands
    assert python[:3] == ["python", "-m", "openrlhf.cli.train_ppo_ray"]
    found = call(released("0.11.2"), "parse.py", *python[3:])
    address, _, query = found["reward.remote_url"].partition("?")
    assert address == url
    ActorSettings.read(query)
    assert found["rollout.n_samples_per_prompt"] == 32
    assert len(measured) == (5 if script.name == "paper.sh" else 0)
    for _, *words in measured:
        assert words[0] == "measure"
        command_line("measure")[0].parse_args(words)
