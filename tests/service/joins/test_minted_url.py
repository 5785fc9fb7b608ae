"""The lines of docs/openrlhf.md that mint the URL, run by a shell."""

from __future__ import annotations

import shutil
import subprocess

import pytest

LINE = """URL=$(curl -sS --fail-with-body {more} '{url}') || {{ echo "$URL" >&2; exit 1; }}
echo "$URL"
"""
TOKEN = '-H "Authorization: Bearer hush"'


def mint(url, more=TOKEN):
    return subprocess.run(["bash", "-c", LINE.format(url=url, more=more)], capture_output=True, text=True, timeout=60)


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl")
def test_the_line_of_the_docs_mints_a_url_or_ends_the_script_with_the_reason(live):
    address = live(token="hush").url
    asked = f"{address}/openrlhf?group_size=2&alpha=0.1"
    minted = [mint(asked) for _ in range(2)]
    for done in minted:
        assert done.stdout.startswith(f"{address}/reward?group_size=2&alpha=0.1&run="), done.stderr
        assert "hush" not in done.stdout
    assert minted[0].stdout != minted[1].stdout
    refused = {asked: "401", "http://127.0.0.1:9/openrlhf?group_size=2": "curl: (7)"}
    wrong = {f"{asked}&alhpa=1": "Did you mean alpha", f"{address}/openrlhf?alpha=1": "add group_size"}
    for url, words in {**refused, **wrong}.items():
        done = mint(url, TOKEN if url in wrong else "")
        assert (done.returncode, done.stdout, words in done.stderr) == (1, "", True)
