"""Virtual environments of the project's own, made with the standard library alone.

`ensure("test", ["-e .[service]"], groups=["test"])` returns the Python of `.venv-test`, which holds exactly what was
asked for. The environment is kept and used again until something that decides its content changes: the requests
themselves, the packaging tables of pyproject.toml, this file or the Python that runs it. Then it is made anew, so that
a dependency that was dropped cannot linger and hide an import error.

Importing this file ends an older Python with one sentence. So it and the scripts that a new user starts import nothing
from `__future__`, where Python 3.6 would already fail, and keep to syntax that such a Python can read.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036  that is the point
    raise SystemExit(
        "error: Python 3.11 or newer is needed, and {} is {}.{}.{}.".format(sys.executable, *sys.version_info[:3])
    )

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
PIP = "pip>=25.1"  # the first that knows --group
STAMP = "dare-stamp.json"


def say(text: str) -> None:
    """Print one line at once, also into a pipe, so that it stands before what a child process prints."""
    print(text, flush=True)


def fail(text: str) -> NoReturn:
    """End the program with one sentence on the error stream."""
    raise SystemExit(f"error: {text}")


def require_modules() -> None:
    """End with one sentence where this Python cannot make virtual environments."""
    for module in ("venv", "ensurepip"):
        try:
            __import__(module)
        except ImportError:
            fail(
                f"{sys.executable} cannot make virtual environments because its module {module!r} is missing "
                f"(on Debian and Ubuntu: apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv)."
            )


def ensure(name: str, requirements: Sequence[str], *, groups: Sequence[str] = ()) -> Path:
    """Return the Python of the virtual environment `name`, made or remade where it is not there as asked.

    `requirements` are pip's, one each, relative paths from the repository root, `-e .[extra]` included; `groups` are
    dependency groups of pyproject.toml. A plain local path (`.[extra]`) is a copy of the sources as they were, so an
    environment with one is remade each time: ask for `-e` where that is not wanted.
    """
    require_modules()
    folder = _folder(name)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / STAMP
    wanted = _fingerprint(requirements, groups)
    with _locked(folder):
        copies_sources = any(text.startswith((".", "/")) for text in requirements)
        if not copies_sources and stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted and _starts(python):
            say(f"{folder.name}: ready")
            return python
        version = ".".join(map(str, sys.version_info[:3]))
        say(f"{folder.name}: creating with Python {version}")
        if folder.exists():
            shutil.rmtree(folder)
        _run([sys.executable, "-m", "venv", str(folder)], f"{folder.name} could not be created")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--upgrade", PIP], f"pip could not be upgraded in {folder.name}")
        asked = [part for text in requirements for part in (shlex.split(text) if text.startswith("-") else [text])]
        asked += [part for group in groups for part in ("--group", group)]
        say(f"{folder.name}: installing {' '.join(asked)}")
        _run([*pip, *asked], f"{folder.name} could not be filled")
        stamp.write_text(wanted, encoding="utf-8")
    return python


def enter(name: str, requirements: Sequence[str], *, groups: Sequence[str] = ()) -> None:
    """Go on in the virtual environment `name`: run this very script again with its Python, unless that is the one."""
    if Path(sys.prefix).resolve() == _folder(name):
        return
    python = ensure(name, requirements, groups=groups)
    raise SystemExit(subprocess.run([str(python), *sys.argv], check=False).returncode)


def _folder(name: str) -> Path:
    return ROOT / (name if name.startswith(".venv") else f".venv-{name}")


def _fingerprint(requirements: Sequence[str], groups: Sequence[str]) -> str:
    """Everything that decides what an environment holds, as text."""
    tables = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaging = {key: tables.get(key) for key in ("build-system", "project", "dependency-groups")}
    packaging["hatch"] = tables.get("tool", {}).get("hatch")
    content = json.dumps(packaging, sort_keys=True).encode() + Path(__file__).read_bytes()
    research = ROOT / "research" / "pyproject.toml"
    content += research.read_bytes() if research.exists() else b""
    return json.dumps(
        {
            "python": [sys.version, sys.base_prefix],
            "requirements": list(requirements),
            "groups": list(groups),
            "packaging": hashlib.sha256(content).hexdigest(),
            "root": str(ROOT),
        },
        sort_keys=True,
    )


def _starts(python: Path) -> bool:
    """Whether that interpreter runs: the one that it was made from may have been removed since."""
    try:
        return subprocess.run([str(python), "-c", ""], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


def _run(command: list[str], complaint: str) -> None:
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONHOME", "PYTHONPATH"}}
    done = subprocess.run(command, check=False, cwd=ROOT, env=environment)
    if done.returncode != 0:
        fail(f"{complaint}: `{shlex.join(command)}` ended with exit code {done.returncode}.")


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep a second script that asks for the same environment waiting while the first one makes it."""
    try:
        import fcntl  # noqa: PLC0415  not on Windows, where two at a time are left to the user
    except ImportError:
        yield
        return
    with folder.with_name(f"{folder.name}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"{folder.name}: waiting for another script that is making it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
