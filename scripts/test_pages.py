"""Test the report and the page of the service in headless Chromium: `python3 scripts/test_pages.py [--pictures DIR | --docs]`.

Needs Chromium and its driver (Debian: apt-get install chromium chromium-driver); everything else goes into an
environment of its own, .venv-pages. `--pictures` keeps screenshots of the whole page at 1280 and 390 pixels, light and dark.
`--docs` draws the pictures in docs/images of a run that was trained, and runs that test alone.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import _venv  # ends a Python that is too old


def main() -> int:
    """The exit code of pytest; 2 without a browser."""
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("--pictures", type=Path, help="a folder for screenshots")
    parser.add_argument("--docs", action="store_true", help="draw the pictures of README and docs/report.md again")
    arguments = parser.parse_args()
    for name in ("chromium", "chromedriver"):
        if not shutil.which(name):
            _venv.say(f"{name} is not there: apt-get install chromium chromium-driver")
            return 2
    environment = dict(os.environ)
    if arguments.pictures:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
        environment["DARE_TEST_PICTURES"] = str(arguments.pictures.resolve())
    chosen = []
    if arguments.docs:
        environment["DARE_DOCS_PICTURES"] = str(_venv.ROOT / "docs" / "images")
        chosen = ["-k", "test_a_run_log_is_the_same_in_report_and_page"]
    python = _venv.ensure("pages", ["-e .[service]"], groups=("test", "browser"))
    command = [str(python), "-m", "pytest", "tests/browser", "-m", "browser", "-s", "-q", *chosen]
    return subprocess.run(command, check=False, cwd=_venv.ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
