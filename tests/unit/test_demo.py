"""scripts/demo.py: the address it ends with is one that answers."""

import sys
from pathlib import Path

import httpx
import pytest
from by_path import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    module = load(ROOT / "scripts" / "demo.py")
    monkeypatch.setattr(module._venv, "ensure", lambda *_: Path(sys.executable))
    monkeypatch.delenv("DARE_URL", raising=False)
    return module


def test_the_demo_gives_an_address_only_while_it_serves(demo, monkeypatch):
    said = []
    monkeypatch.setattr(demo._venv, "say", said.append)
    monkeypatch.setattr(sys, "argv", ["demo.py"])
    assert demo.main() == 0
    assert "http://" in said[0]
    assert "http://" not in said[-1]
    assert said[1].count("pseudo-label") == 3
    assert said[1].endswith("\n3 of 164 groups are shown.")
    assert said[2].startswith("By the labels of this file: Not decided: label ")
    assert "".join(said).count("\n") < 60, "what a person reads"
    page = ROOT / said[3].rpartition(" ")[2]
    assert "How many ways are there to put 5 balls in 2 boxes" in page.read_text()
    with pytest.raises(httpx.ConnectError):
        httpx.get(said[0].partition("POST ")[2].split()[0])


def test_the_kept_demo_gives_the_address_while_it_answers(demo, monkeypatch):
    asked = []

    def say(text):
        if "Ctrl-C" in text:
            url = next(word for word in text.split() if word.startswith("http://"))
            asked.append(httpx.get(f"{url}/health").status_code)
            raise KeyboardInterrupt

    monkeypatch.setattr(demo._venv, "say", say)
    for told in ("verdict", "page"):  # before
        monkeypatch.setattr(demo, told, lambda *_: "")
    monkeypatch.setattr(sys, "argv", ["demo.py", "--keep", "examples/arithmetic_m64.jsonl"])
    assert demo.main() == 0
    assert asked == [200]
