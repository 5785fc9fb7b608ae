"""Start a built image as docker-compose.yml says, without a Docker engine: `python3 scripts/check_image.py [IMAGE]`.

The image's file system is mounted by buildah and handed to runc with what the image and the compose file state: user,
environment, command, health check, read-only root, tmpfs, capabilities, no-new-privileges, limits, sysctls. Needs Linux,
root, buildah and runc (Debian and Ubuntu: apt install buildah runc). Not covered are what the engine itself adds: the
published port and its network, its seccomp profile and its restarts.
"""

from __future__ import annotations

import json
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import _checks
import _venv

START_LIMIT_S = 30.0
STOP_LIMIT_S = 30.0
STATUS = """
import os, pathlib
print(os.getuid(), os.getgid())
fields = dict(line.split(":", 1) for line in pathlib.Path("/proc/1/status").read_text().splitlines())
print(*(int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapInh", "CapAmb")), int(fields["NoNewPrivs"]))
print(pathlib.Path("/proc/sys/net/core/somaxconn").read_text().strip())
"""
WRITE = """
import os, pathlib
for folder in ("/", "/opt/dare", "/etc", "/var/tmp"):
    try:
        (pathlib.Path(folder) / "written").touch()
    except OSError:
        continue
    raise SystemExit(f"could write into {folder}")
pathlib.Path("/tmp/written").write_text("x")
"""
REWARD = """
import http.client, json, os
answers = ["4", "4", "5"]
rollouts = [{"answer": answer, "mean_entropy": 0.2, "num_tokens": 9} for answer in answers]
body = json.dumps({"groups": [{"group_id": "g", "rollouts": rollouts}]})
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["DARE_PORT"]), timeout=10)
connection.request("POST", "/reward", body, {"Content-Type": "application/json"})
reply = connection.getresponse()
text = reply.read().decode()
assert reply.status == 200, text
print(json.loads(text)["groups"][0]["rewards"])
"""


class Container:
    """One container of the image under the compose file's service `reward`."""

    def __init__(self, image: str, bundle: Path) -> None:
        self.name = f"dare-{secrets.token_hex(4)}"
        self.bundle = bundle
        inspected = json.loads(_checks.tool(["buildah", "inspect", "--type", "image", image]))
        self.image: dict[str, Any] = inspected["Docker"]["config"]
        self.working = _checks.tool(["buildah", "from", "--pull-never", image])
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, service: dict[str, Any]) -> None:
        """Write the bundle's configuration and start it."""
        root = _checks.tool(["buildah", "mount", self.working])
        _checks.tool(["runc", "spec", "--bundle", str(self.bundle)])
        path = self.bundle / "config.json"
        path.write_text(json.dumps(self._configured(json.loads(path.read_text()), service, root)))
        with self.log.open("wb") as log:
            command = ["runc", "run", "--bundle", str(self.bundle), self.name]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)

    @property
    def log(self) -> Path:
        """Where the service's output goes."""
        return self.bundle / "log"

    def _configured(self, spec: dict[str, Any], service: dict[str, Any], root: str) -> dict[str, Any]:
        user, _, group = self.image["User"].partition(":")
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        ceiling = hard if hard != resource.RLIM_INFINITY else sys.maxsize
        spec["root"] = {"path": root, "readonly": service["read_only"]}
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": int(user), "gid": int(group)},
            "args": self.image["Entrypoint"] + self.image["Cmd"],
            "env": self.image["Env"],
            "cwd": self.image["WorkingDir"] or "/",
            "noNewPrivileges": "no-new-privileges:true" in service["security_opt"],
            "rlimits": [
                {"type": f"RLIMIT_{name.upper()}"} | {key: min(value, ceiling) for key, value in limits.items()}
                for name, limits in service["ulimits"].items()
            ],
        }
        assert service["cap_drop"] == ["ALL"], "only a container without any capability is known here"
        spec["process"]["capabilities"] = {}
        for mount in service["tmpfs"]:
            target, _, options = mount.partition(":")
            spec["mounts"].append(
                {"destination": target, "type": "tmpfs", "source": "tmpfs", "options": options.split(",")}
            )
        spec["linux"]["sysctl"] = {name: str(value) for name, value in service["sysctls"].items()}
        spec["linux"]["resources"]["pids"] = {"limit": service["pids_limit"]}
        return spec

    def inside(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the container, as the engine's exec does."""
        return subprocess.run(["runc", "exec", self.name, *command], check=False, capture_output=True, text=True)

    def python(self, code: str) -> str:
        """Run Python code in the container; what it printed."""
        done = self.inside("python3", "-c", code)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def remove(self) -> None:
        """Leave nothing behind."""
        subprocess.run(["runc", "delete", "--force", self.name], check=False, capture_output=True)
        subprocess.run(["buildah", "rm", self.working], check=False, capture_output=True)


def main(image: str) -> int:
    """Check one image."""
    import yaml  # noqa: PLC0415  there only inside the environment

    for program in ("buildah", "runc"):
        if shutil.which(program) is None:
            _venv.fail(f"{program} is not installed (apt install {program}).")
    if os.geteuid() != 0:
        _venv.fail("runc and the image's file system need root here.")
    service: dict[str, Any] = yaml.safe_load((_venv.ROOT / "docker-compose.yml").read_text(encoding="utf-8"))[
        "services"
    ]["reward"]
    with ExitStack() as stack:
        container = Container(image, Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="dare-bundle-"))))
        stack.callback(container.remove)

        def healthy() -> str:
            """It starts under the compose file's constraints and its own health check succeeds."""
            container.start(service)
            deadline = time.monotonic() + START_LIMIT_S
            while container.inside(*container.image["Healthcheck"]["Test"][1:]).returncode != 0:
                assert container.process is not None
                assert container.process.poll() is None, f"it ended:\n{container.log.read_text()}"
                assert time.monotonic() < deadline, f"not healthy in time:\n{container.log.read_text()}"
                time.sleep(0.2)
            return ""

        def powerless() -> str:
            """It runs as user 10001 without any capability and cannot gain one."""
            user, powers, somaxconn = container.python(STATUS).splitlines()
            assert user == "10001 10001", f"user and group are {user}"
            assert powers == "0 0 0 0 0 1", f"capability sets and no_new_privs are {powers}"
            assert somaxconn == str(service["sysctls"]["net.core.somaxconn"]), f"somaxconn is {somaxconn}"
            return f"somaxconn {somaxconn}"

        def read_only() -> str:
            """It can write into /tmp and nowhere else."""
            return container.python(WRITE)

        def rewards() -> str:
            """It answers POST /reward."""
            return container.python(REWARD)

        def stops() -> str:
            """It ends with exit code 0 on its stop signal."""
            assert container.process is not None
            number = signal.Signals[container.image["StopSignal"]].name
            subprocess.run(["runc", "kill", container.name, re.sub("^SIG", "", number)], check=True)
            code = container.process.wait(STOP_LIMIT_S)
            assert code == 0, f"exit code {code}:\n{container.log.read_text()}"
            return number

        return _checks.run([healthy, powerless, read_only, rewards, stops])


if __name__ == "__main__":
    _venv.enter("delivery", [], groups=["delivery"])
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "localhost/dare-reward:local"))
