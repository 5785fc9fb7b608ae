"""Run everything that a change has to pass: `python3 scripts/test.py [--tests-only] [pytest arguments]`.

Makes its own virtual environment (.venv-test), then runs the linter, the formatter's check, the type checker and the
tests, in that order, and goes on after a failure so that one run tells everything. `--quick` runs a selection in a
small environment of its own, `.venv-quick`: the rewards, the command line and the files that it reads. `--tests-only`
runs the tests alone; `--research` runs those of the studies alone, in `.venv-research`; `--lowest` the tests with the
lowest version of each dependency that pyproject.toml allows, in `.venv-lowest`, with Python 3.11.
The tests run in three processes, those of a file in one; `-n 0` runs all in one, which `-s` and `--pdb` need. Other
arguments go to pytest; paths are relative to the repository root. The exit code is 0 only if all passed.
"""

import os
import subprocess
import sys

import _venv  # ends a Python that is too old

REQUIREMENTS = ["-e .[service,cli,files,parquet]"]  # never the trainer extra: it brings torch
GROUPS = ["test", "lint"]
PROCESSES = ("-n", "3")  # some tests wait: a third process uses two cores while they do
# The tests of a file, which share services and what they have read, run in one process; tests/conftest.py says which come
# first.
BY_FILE = (*PROCESSES, "--dist", "loadfile", "--no-loadscope-reorder")
QUICK = [f"tests/unit/{name}" for name in ("test_dare.py", "test_golden.py", "test_cli.py", "files")]
CHECKS = (
    ("ruff check", ["ruff", "check", "."]),
    ("ruff format", ["ruff", "format", "--check", "."]),
    ("mypy", ["mypy"]),
)


def main(arguments: list[str]) -> int:
    """Run the checks, then pytest last, so that its closing line is the last one printed."""
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    options = {"--quick", "--tests-only", "--research", "--lowest"} & set(arguments)
    arguments = [argument for argument in arguments if argument not in options]
    if "--research" in options:
        python = _venv.ensure("research", [*REQUIREMENTS, "-e ./research"], groups=["test"])
        return _module(python, ["pytest", *PROCESSES, "research/tests", *arguments])
    if "--lowest" in options:
        python = _venv.ensure("lowest", [*REQUIREMENTS, *lowest()], groups=["test"])
        return _module(python, ["pytest", *BY_FILE, *arguments])
    if "--quick" in options:
        python = _venv.ensure("quick", ["-e .[cli,files,parquet]"], groups=["quick"])
        return _module(python, ["pytest", *PROCESSES, *QUICK, *arguments])
    python = _venv.ensure("test", REQUIREMENTS, groups=GROUPS)
    failed = []
    for title, command in () if "--tests-only" in options else CHECKS:
        _venv.say(f"== {title}")
        if _module(python, command) != 0:
            failed.append(title)
    if failed:
        _venv.say(f"== failed before the tests: {', '.join(failed)}")
    _venv.say("== pytest")
    tests = _module(python, ["pytest", *BY_FILE, *arguments])
    return tests or int(bool(failed))


def lowest() -> list[str]:
    """The lower bound of every dependency, as a pin."""
    import tomllib  # noqa: PLC0415  an older Python has ended with a sentence before

    project = tomllib.loads((_venv.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *extras["service"], *extras["cli"], *extras["files"], *extras["parquet"]]
    return [bound.partition(";")[0].replace(">=", "==") for bound in bounds]


def _module(python: object, command: list[str]) -> int:
    # The tests start hundreds of interpreters: without kept bytecode each of them compiles the whole project.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([str(python), "-m", *command], check=False, cwd=_venv.ROOT, env=environment).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
