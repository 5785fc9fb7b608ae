"""The scripts of examples/openrlhf, by the parser of the released OpenRLHF 0.11.2. Its client: tests/openrlhf."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from by_path import run

from dare_reward.cli import command_line
from dare_reward.openrlhf.url import ActorSettings

pytestmark = pytest.mark.openrlhf_loop
HERE = Path(__file__).parent
SCRIPTS = sorted((HERE.parents[1] / "examples" / "openrlhf").glob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_each_script_has_flags_that_the_releases_own_parser_takes(tmp_path, script):
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
    shim = {"PYTHONPATH": str(HERE / "openrlhf" / "shim"), "DS_ACCELERATOR": "cpu"}
    found = json.loads(run(HERE / "openrlhf" / "parse.py", *python[3:], **shim).splitlines()[-1])
    address, _, query = found["reward.remote_url"].partition("?")
    assert address == url
    ActorSettings.read(query)
    assert found["rollout.n_samples_per_prompt"] == 32
    assert len(measured) == (5 if script.name == "paper.sh" else 0)
    for _, *words in measured:
        assert words[0] == "measure"
        command_line("measure")[0].parse_args(words)
