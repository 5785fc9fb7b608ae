"""Nobody gets Ray who has not asked for it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from dare_reward.cli import main
from dare_service.app import create_app
from dare_service.settings import Settings
from dare_service.single_process import join_refusal

ROOT = Path(__file__).parents[3]


def test_no_other_install_brings_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    brought = {name for name, needed in extras.items() if any(re.match(r"ray\b", n) for n in needed)}
    assert brought == {"ray"}
    assert not any(re.match(r"ray\b", needed) for needed in project["dependencies"])


def test_the_image_has_none():
    installed = re.findall(r"^([\w.-]+)==", (ROOT / "deploy" / "requirements.txt").read_text(), re.MULTILINE)
    assert "fastapi" in installed
    assert "ray" not in installed


def test_the_service_imports_none():
    code = (
        "import sys, dare_service.app, dare_service.serve, dare_service.server\n"
        "import dare_service.replicas.ingress, dare_service.replicas.ring\n"
        "print('ray' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_without_it_replicas_are_refused_with_the_command_that_installs_it(monkeypatch, capsys):
    for name in [name for name in sys.modules if name.startswith("dare_service.replicas.deploy")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["serve", "--replicas", "2"]) == 2
    assert "pip install '.[service,ray]'" in capsys.readouterr().err


def test_no_replicas_is_a_wrong_number(capsys):
    assert main(["serve", "--replicas", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err


def test_several_workers_refuse_single_rollouts_still():
    assert "2 workers" in join_refusal({}, ["uvicorn", "--workers", "2"])
    assert create_app(Settings(log="off", page="off")).state.dare.shards is None
