"""The lines of docs/openrlhf.md that mint the URL, run by a shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
LINE = """URL=$(curl -sS --fail-with-body {more} '{url}') || {{ echo "$URL" >&2; exit 1; }}
echo "$URL"
"""


def mint(url, more=""):
    return subprocess.run(["bash", "-c", LINE.format(url=url, more=more)], capture_output=True, text=True, timeout=60)


def test_the_line_of_the_docs_mints_a_url_that_the_route_takes(live):
    service = live(token="hush")
    asked = f"{service.url}/openrlhf?group_size=2&alpha=0.1"
    done = mint(asked, '-H "Authorization: Bearer hush"')
    assert done.returncode == 0, done.stderr
    url = done.stdout.strip()
    assert url.startswith(f"{service.url}/reward?group_size=2&alpha=0.1&run=")
    assert "hush" not in url
    assert mint(asked, '-H "Authorization: Bearer hush"').stdout != done.stdout
    refused = mint(asked)
    assert refused.returncode == 1
    assert "401" in refused.stderr


def test_a_wrong_parameter_and_an_unreachable_host_end_the_script_with_their_reason(live):
    url = live().url
    wrong = {"group_size=2&alhpa=1": "Did you mean alpha", "alpha=1": "add group_size"}
    asked = {f"{url}/openrlhf?{query}": words for query, words in wrong.items()}
    for address, words in {**asked, "http://127.0.0.1:9/openrlhf?group_size=2": "curl: (7)"}.items():
        done = mint(address)
        assert (done.returncode, done.stdout, words in done.stderr) == (1, "", True)
