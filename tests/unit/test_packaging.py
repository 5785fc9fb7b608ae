"""What is delivered around the code: the image, the compose file, the workflows, the metadata, the scripts' doors."""

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from packaging.requirements import Requirement

import dare_reward
from dare_reward.runs.log import CLOSING
from dare_service.settings import SETTINGS, Settings, from_environment

ROOT = Path(__file__).resolve().parents[2]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


COMPOSE_TEXT = read("docker-compose.yml")
REWARD = yaml.safe_load(COMPOSE_TEXT)["services"]["reward"]
FINAL_STAGE = re.split(r"^FROM ", read("Dockerfile").replace("\\\n", " "), flags=re.MULTILINE)[-1]
PROJECT = tomllib.loads(read("pyproject.toml"))
DEFAULTS = {f"DARE_{name.upper()}": spec.default for name, spec in SETTINGS.items()}
HEAVY = {"torch", "vllm", "openrlhf", "transformers"}


def instruction(name):
    """The value of the only such instruction of the image's stage."""
    (value,) = re.findall(rf"^{name} +(.*)$", FINAL_STAGE, flags=re.MULTILINE)
    return value


def image_environment():
    return dict(setting.split("=", 1) for setting in instruction("ENV").split())


def test_compose_takes_every_privilege_away():
    assert REWARD["read_only"] is True
    assert REWARD["cap_drop"] == ["ALL"]
    assert REWARD["security_opt"] == ["no-new-privileges:true"]
    assert [mount.split(":")[0] for mount in REWARD["tmpfs"]] == ["/tmp"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "user"} & set(REWARD)


def test_compose_keeps_the_run_log_in_a_volume_of_its_own():
    """The one thing that it writes: a named volume, not a folder of the host, which the image gives to its user."""
    (volume,) = REWARD["volumes"]
    name, place = volume.split(":")
    assert name in yaml.safe_load(COMPOSE_TEXT)["volumes"]
    assert REWARD["environment"]["DARE_RUN_LOG"] == f"${{DARE_RUN_LOG:-{place}/runs}}"
    assert f"install -d -o 10001 -g 10001 -m 0700 {place}\n" in read("Dockerfile")


def test_compose_publishes_on_loopback_unless_told_and_starts_the_service_again_after_a_reboot():
    (port,) = REWARD["ports"]
    resolved = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", port)
    assert resolved == f"127.0.0.1:8000:{image_environment()['DARE_PORT']}"
    # It ends with 0 at SIGTERM, and on-failure leaves it down when the daemon comes back.
    assert REWARD["restart"] == "unless-stopped"


def test_compose_waits_for_the_whole_orderly_stop_and_admits_as_many_connections_as_the_service_queues():
    defaults = Settings()
    grace = float(REWARD["stop_grace_period"].removesuffix("s"))
    assert grace > defaults.drain + defaults.grace + CLOSING + 1.0  # the run log is written too
    assert defaults.drain + defaults.grace > defaults.deadline
    assert REWARD["sysctls"]["net.core.somaxconn"] >= defaults.backlog
    assert REWARD["ulimits"]["nofile"]["soft"] > defaults.backlog


def test_compose_hands_through_every_setting_and_says_its_default():
    fixed = {"DARE_HOST", "DARE_PORT", "DARE_DRAIN", "DARE_GRACE"}
    assert set(REWARD["environment"]) == set(DEFAULTS) - fixed
    for name in REWARD["environment"].keys() - {"DARE_RUN_LOG"}:  # in the volume
        assert REWARD["environment"][name] is None, f"{name}: a value here would hide the service's own default"
        (note,) = re.findall(rf"^ +{name}: # ([^;]+);", COMPOSE_TEXT, flags=re.MULTILINE)
        assert note == (str(DEFAULTS[name]) or "none")


def test_image_is_not_root_and_says_how_it_is_started():
    user, _, group = instruction("USER").partition(":")
    assert int(user) == int(group) == 10001
    assert json.loads(instruction("ENTRYPOINT")) == ["dare-reward"]
    assert json.loads(instruction("CMD")) == ["serve"]
    assert instruction("STOPSIGNAL") == "SIGTERM"


def test_image_health_check_is_a_program_and_python_alone():
    options, command = instruction("HEALTHCHECK").split(" CMD ", 1)
    program, flag, code = json.loads(command)
    assert (program, flag) == ("python3", "-c")
    imported = {name.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Import) for name in node.names}
    assert {name.split(".")[0] for name in imported} <= sys.stdlib_module_names
    assert "--timeout=" in options


def test_image_settings_are_settings_and_keep_the_memory_of_the_largest_body():
    settings = {name: value for name, value in image_environment().items() if name.startswith("DARE_")}
    assert set(settings) <= set(DEFAULTS)
    assert from_environment(settings).host == "0.0.0.0"
    for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_"):
        assert int(image_environment()[name]) >= Settings().max_body_bytes


def requirements(*, extra):
    """The installed distribution's requirements: its own, or those that an extra adds."""
    found = [Requirement(text) for text in metadata.requires("dare-reward") or []]
    always = {item.name for item in found if item.marker is None}
    added = {item.name for item in found if item.marker is not None and item.marker.evaluate({"extra": extra})}
    return added if extra else always


def test_base_install_needs_three_packages():
    assert requirements(extra="") == {"numpy", "httpx", "mpmath"}


def test_light_extras_stay_light_and_no_dependency_group_brings_a_framework():
    groups = {Requirement(text).name for group in PROJECT["dependency-groups"].values() for text in group}
    for named in (requirements(extra="service"), requirements(extra="cli"), groups):
        assert named
        assert not named & HEAVY


@pytest.mark.parametrize("builder", [WheelBuilder, SdistBuilder])
def test_no_study_is_delivered(builder, tmp_path):
    (archive,) = builder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(archive) if archive.endswith(".whl") else tarfile.open(archive) as opened:
        found = opened.namelist() if archive.endswith(".whl") else opened.getnames()
    assert [name for name in found if name.endswith("dare_reward/cli.py")]
    assert not [name for name in found if re.search(r"(^|/)(study|research|dare_research)(/|\.py$)", name)]


def test_no_study_is_in_the_image_or_a_command():
    assert "research" not in read(".dockerignore")  # it names what may be copied
    assert "study" not in PROJECT["project"]["entry-points"]["dare_reward.commands"]
    assert "study" not in PROJECT["project"]["optional-dependencies"]


def test_changelog_and_version_agree():
    changelog = read("CHANGELOG.md")
    assert f"## [{PROJECT['project']['version']}]" in changelog
    assert metadata.version("dare-reward") == PROJECT["project"]["version"] == dare_reward.__version__


@pytest.mark.parametrize("path", sorted((ROOT / ".github" / "workflows").glob("*.yml")), ids=lambda path: path.name)
def test_workflows_grant_nothing_by_default_and_pin_what_they_use(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        assert job["permissions"], "each job states what it may do"
        for step in [job, *job.get("steps", [])]:
            if "uses" in step:
                assert re.fullmatch(
                    r"(actions|docker)/[\w-]+@[0-9a-f]{40}|\./\.github/workflows/\w+\.yml", step["uses"]
                )
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False


def test_the_budgets_of_the_whole_check_leave_it_within_45_minutes_and_the_tests_last():
    text = read(".ci/run")
    stages = re.findall(r"^stage (\w+) (\d+) .*scripts/\w+\.py", text, flags=re.MULTILINE)
    assert len(stages) == len(re.findall(r"^stage ", text, flags=re.MULTILINE)) >= 4
    assert sum(int(minutes) for _, minutes in stages) <= 45
    assert stages[-1][0] == "tests"


def test_a_stack_that_there_is_no_time_to_install_is_a_failure(tmp_path):
    command = [sys.executable, str(ROOT / "scripts" / "test_stack.py"), "all", "--budget", "0", "--envs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert len(re.findall(r"^\w+ +FAILED: the installs took longer than their budget", done.stdout, re.MULTILINE)) == 5
    assert "slime    by hand" in done.stdout
    assert not list(tmp_path.iterdir())


def test_the_lock_has_every_dependency_of_the_service_within_its_bounds_and_with_hashes():
    bounds = PROJECT["project"]["dependencies"] + [
        bound for extra in ("service", "cli") for bound in PROJECT["project"]["optional-dependencies"][extra]
    ]
    for name, wanted in (("requirements", bounds), ("requirements-build", PROJECT["build-system"]["requires"])):
        text = (ROOT / "deploy" / f"{name}.txt").read_text(encoding="utf-8").replace("\\\n", " ")
        pins = [line.partition(" --hash=") for line in text.splitlines() if not line.startswith("#")]
        assert all("sha256:" in hashes for _, _, hashes in pins)
        locked = {}
        for pin, _, _ in pins:
            locked.setdefault(Requirement(pin).name, []).append(Requirement(pin).specifier)
        for requirement in map(Requirement, wanted):
            for pin in locked[requirement.name]:
                assert requirement.specifier.contains(str(pin).removeprefix("=="))


def test_the_image_installs_what_is_locked_and_nothing_else():
    text = read("Dockerfile").replace("\\\n", " ")
    installs = re.findall(r"pip (?:--python \S+ )?(?:install|wheel) [^&\n]+", text)
    assert len(installs) == 4
    assert all("--require-hashes" in one or "--no-deps" in one for one in installs)
    assert "--no-build-isolation" in text


def test_the_lock_writes_the_digest_of_the_base_image_and_renews_it(tmp_path, monkeypatch):
    """By a `docker` that answers as `docker buildx imagetools inspect` does: no registry is asked here."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    lock = importlib.import_module("lock")
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@" > "$0.asked"; echo sha256:$(printf %064d 7)\n')
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    content = read("Dockerfile")
    (tag,) = lock.BASE.findall(content)
    found = lock.digest(tag)
    assert found == f"sha256:{7:064}"
    assert (tmp_path / "docker.asked").read_text().split() == [
        "buildx", "imagetools", "inspect", tag, "--format", "{{.Manifest.Digest}}"
    ]  # fmt: skip
    pinned = lock.pinned(content, found)
    assert f"ARG BASE={tag}@{found}\n" in pinned
    assert lock.BASE.findall(pinned) == [tag]
    assert lock.pinned(pinned, found) == pinned
    docker.write_text("#!/bin/sh\necho no such host >&2; exit 1\n")
    assert lock.digest(tag) == ""


def test_the_guide_names_every_script():
    text = read("docs/development.md")
    scripts = [p.name for p in (ROOT / "scripts").glob("*.py") if not p.name.startswith("_")]
    assert [name for name in scripts if f"`{name}" not in text] == []
