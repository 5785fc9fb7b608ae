"""Check Dockerfile and docker-compose.yml without a Docker engine: `python3 scripts/check_docker.py`.

The compose file is held against the official compose-spec schema, both files are linted, and the Dockerfile's own steps
are carried out: the sources that it copies, its RUN lines word for word, its ENTRYPOINT, CMD and HEALTHCHECK, with /opt
moved into a temporary folder and this machine's Python in place of the base image's. What such a run cannot show is
what belongs to the engine: the base image, the user, the read-only file system, limits and published ports.
`scripts/build_image_rootless.sh` builds and starts the real image where buildah is installed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import IO, TYPE_CHECKING

import _checks
import _venv

if TYPE_CHECKING:
    from collections.abc import Iterator

DOCKERFILE = _venv.ROOT / "Dockerfile"
COMPOSE = _venv.ROOT / "docker-compose.yml"
FORBIDDEN = ("torch", "vllm", "openrlhf", "transformers", "pip")
KEPT_VARIABLES = re.compile(r"PIP_.*|SSL_CERT_.*|REQUESTS_CA_BUNDLE|(http|https|no|all)_proxy|HOME", re.IGNORECASE)
START_LIMIT_S = 30.0
STOP_LIMIT_S = 15.0


def compose_schema() -> str:
    """docker-compose.yml keeps to the compose-spec JSON schema."""
    _checks.tool(["check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE)])
    return ""


def compose_engine() -> str:
    """docker-compose.yml is read by Docker Compose itself."""
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], check=False, capture_output=True).returncode:
        raise _checks.SkippedError("docker and its compose plugin are not installed")
    _checks.tool(["docker", "compose", "--file", str(COMPOSE), "config", "--quiet"])
    return ""


def compose_lint() -> str:
    """docker-compose.yml passes dclint."""
    # Off: `image` names what `build` makes; the published address is a variable, and tests/unit/test_packaging.py holds
    # its default to loopback; the keys are ordered by subject, each with its reason beside it.
    rules = ["no-build-and-image", "no-unbound-port-interfaces", "service-keys-order"]
    off = [part for rule in rules for part in ("--disable-rule", rule)]
    _checks.tool(["npx", "--yes", "dclint@3", str(COMPOSE), "--max-warnings", "0", *off])
    return ""


def dockerfile_lint() -> str:
    """Dockerfile passes hadolint."""
    _checks.tool(["hadolint", "--failure-threshold", "style", str(DOCKERFILE)])
    return ""


def dockerignore() -> str:
    """.dockerignore lets in what the Dockerfile copies."""
    lines = (_venv.ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*", "it does not begin with *, so it is no allowlist"
    admitted = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = {
        source for stage in _stages() for sources, _, origin in stage.copies() if not origin for source in sources
    }
    assert copied == admitted, f"copied {sorted(copied)}, let in {sorted(admitted)}"
    return ", ".join(sorted(copied))


def dockerfile_steps() -> str:
    """The steps of Dockerfile install and start the service."""
    with tempfile.TemporaryDirectory(prefix="dare-image-") as folder:
        root = Path(folder).resolve()
        build, final = _stages()
        for instruction, value in build.steps:
            if instruction == "RUN":
                _run_step(build, value, root)
            elif instruction == "COPY":
                _copy(build, value, root)
        assert all(name != "RUN" for name, _ in final.steps), (
            "the final stage runs something: copy from a stage instead"
        )
        for sources, _, origin in final.copies():
            assert origin == build.name, f"COPY --from={origin}"
            for source in sources:
                assert Path(_moved(source, root)).exists(), f"{source} was not built"
        installed = _installed(root)
        unwanted = sorted(set(FORBIDDEN) & set(installed))
        assert not unwanted, f"the image would hold {', '.join(unwanted)}"
        assert "dare-reward" in installed, f"dare-reward is not among {sorted(installed)}"
        _serve(final, root)
        size = sum(path.lstat().st_size for path in Path(_moved("/opt/dare", root)).rglob("*"))
        names = ", ".join(f"{name} {version}" for name, version in sorted(installed.items()))
        return f"{len(installed)} distributions, {size / 1e6:.0f} MB, neither torch nor vllm: {names}"


class Stage:
    """One stage of a Dockerfile: its name, its steps in order and its environment."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: list[tuple[str, str]] = []

    def last(self, instruction: str) -> str:
        """Return the value of the last such instruction, which is the one in force."""
        return [value for name, value in self.steps if name == instruction][-1]

    def environment(self) -> dict[str, str]:
        """All ENV settings, in the form NAME=VALUE that this Dockerfile keeps to."""
        settings: dict[str, str] = {}
        for name, value in self.steps:
            if name == "ENV":
                settings.update((key, text) for key, _, text in (part.partition("=") for part in value.split()))
        return settings

    def copies(self) -> Iterator[tuple[list[str], str, str]]:
        """Sources, destination and stage of origin ('' for the build context) of each COPY."""
        for name, value in self.steps:
            if name == "COPY":
                words = value.split()
                origin = "".join(word.removeprefix("--from=") for word in words if word.startswith("--from="))
                *sources, target = [word for word in words if not word.startswith("--")]
                yield sources, target, origin


def _stages() -> list[Stage]:
    import dockerfile_parse  # noqa: PLC0415  there only inside the environment

    structure = dockerfile_parse.DockerfileParser(str(DOCKERFILE), env_replace=False).structure
    stages: list[Stage] = []
    for step in structure:
        if step["instruction"] == "FROM":
            words = step["value"].split()
            stages.append(Stage(words[2] if len(words) > 2 else ""))
        elif stages and step["instruction"] != "COMMENT":
            stages[-1].steps.append((step["instruction"], step["value"]))
    return stages


def _moved(text: str, root: Path) -> str:
    """The text with /opt moved under `root`; it must name no other absolute path."""
    others = [path for path in re.findall(r"(?<![\w.:/}-])/[\w.-]+", text) if path != "/opt"]
    assert not others, f"a step names {', '.join(others)}, and only what lies under /opt can be moved"
    return re.sub(r"(?<![\w./-])/opt(?=/|\s|$)", f"{root}/opt", text)


def _clean_environment() -> dict[str, str]:
    """Nothing of this process but how it reaches package indexes: the PATH is the base Python's."""
    kept = {name: value for name, value in os.environ.items() if KEPT_VARIABLES.fullmatch(name)}
    base = Path(getattr(sys, "_base_executable", sys.executable)).parent
    return kept | {"PATH": f"{base}:/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}


def _workdir(stage: Stage, root: Path) -> Path:
    folder = Path(_moved(stage.last("WORKDIR"), root))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run_step(stage: Stage, value: str, root: Path) -> None:
    command = _moved(re.sub(r"^(--mount=\S+\s+)+", "", value), root)
    shell = ["/bin/sh", "-c", command]
    environment = _clean_environment() | {name: _moved(text, root) for name, text in stage.environment().items()}
    done = subprocess.run(
        shell, check=False, cwd=_workdir(stage, root), env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"`{command}` ended with exit code {done.returncode}\n{done.stdout}{done.stderr}"


def _copy(stage: Stage, value: str, root: Path) -> None:
    *sources, target = value.split()
    for source in sources:
        origin, aim = _venv.ROOT / source, _workdir(stage, root) / target
        if origin.is_dir():
            shutil.copytree(origin, aim, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(origin, aim)


def _installed(root: Path) -> dict[str, str]:
    """Name and version of what the shipped environment holds, asked of its own Python."""
    question = (
        "import importlib.metadata as m, json; "
        "print(json.dumps({d.metadata['Name'].lower().replace('_', '-'): d.version for d in m.distributions()}))"
    )
    python = Path(_moved("/opt/dare/bin/python", root))
    answer = subprocess.run(
        [python, "-c", question], check=True, env=_clean_environment(), capture_output=True, text=True
    )
    found: dict[str, str] = json.loads(answer.stdout)
    return found


def _serve(final: Stage, root: Path) -> None:
    """Start the image's process as the image does, ask it what the image asks, and stop it as the engine does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clean = _clean_environment()
    settings = {name: text.replace("${PATH}", clean["PATH"]) for name, text in final.environment().items()}
    settings["PATH"] = settings["PATH"].replace("/opt/dare", _moved("/opt/dare", root), 1)
    environment = clean | settings | {"DARE_HOST": "127.0.0.1", "DARE_PORT": str(port)}
    entry = json.loads(final.last("ENTRYPOINT"))
    health = json.loads(final.last("HEALTHCHECK").split(" CMD ", 1)[1])
    program = shutil.which(entry[0], path=environment["PATH"])
    assert program is not None, f"{entry[0]} is not on the image's PATH"
    assert Path(program).is_relative_to(root), f"{entry[0]} is found at {program}, outside the image"

    def healthy() -> bool:
        probe = [shutil.which(health[0], path=environment["PATH"]) or health[0], *health[1:]]
        return subprocess.run(probe, check=False, env=environment, capture_output=True).returncode == 0

    overview = subprocess.run(
        [program, "--help"], check=True, env=environment, capture_output=True, text=True, cwd=root
    )
    assert "serve" in overview.stdout, f"--help does not name serve:\n{overview.stdout}"
    assert not healthy(), "HEALTHCHECK succeeds before the service is started"
    with tempfile.TemporaryFile("w+") as log:
        command = [program, *entry[1:], *json.loads(final.last("CMD"))]
        process = subprocess.Popen(command, cwd=root, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            deadline = time.monotonic() + START_LIMIT_S
            while not healthy():
                assert process.poll() is None, f"the service ended with exit code {process.returncode}\n{_text(log)}"
                assert time.monotonic() < deadline, f"not healthy after {START_LIMIT_S:.0f} s\n{_text(log)}"
                time.sleep(0.1)
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with opener.open(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
                assert reply.status == 200, f"/health answered {reply.status}"
            process.send_signal(getattr(signal, final.last("STOPSIGNAL")))
            code = process.wait(STOP_LIMIT_S)
            assert code == 0, f"after {final.last('STOPSIGNAL')} the service ended with exit code {code}\n{_text(log)}"
        finally:
            process.kill()
            process.wait()


def _text(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


if __name__ == "__main__":
    _venv.enter("delivery", [], groups=["delivery"])
    sys.exit(
        _checks.run([compose_schema, compose_engine, compose_lint, dockerfile_lint, dockerignore, dockerfile_steps])
    )
