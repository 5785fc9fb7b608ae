"""scripts/gpu.py: pieces for a node without a network are joined there, and its parts fail one by one. No torch."""

import json
import sys
import tarfile
from pathlib import Path

import pytest
from by_path import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpu():
    return load(ROOT / "scripts" / "gpu.py", "gpu_script")


@pytest.fixture
def pieces(gpu, tmp_path):
    """A folder of pieces of 4 KiB, of a tree with a file that is no multiple of them."""
    tree, folder = tmp_path / "tree", tmp_path / "pieces"
    tree.mkdir()
    folder.mkdir()
    (tree / "weights").write_bytes(bytes(range(256)) * 40 + b"end")
    whole = tmp_path / "whole.tar"
    with tarfile.open(whole, "w") as archive:
        archive.add(tree, "tree")
    assert gpu.split(whole, folder, 4096) == len(list(folder.glob("piece-*"))) >= 3
    assert max(path.stat().st_size for path in folder.glob("piece-*")) == 4096
    return folder


def test_pieces_are_joined_to_what_was_packed(gpu, pieces, tmp_path):
    gpu.join(pieces, tmp_path / "joined")
    assert (tmp_path / "joined" / "tree" / "weights").read_bytes() == bytes(range(256)) * 40 + b"end"
    assert not (pieces / "whole.tar").exists()


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_piece_that_did_not_arrive_whole_is_named_and_nothing_is_joined(gpu, pieces, tmp_path, how):
    piece = pieces / "piece-0001"
    piece.unlink() if how == "missing" else piece.write_bytes(piece.read_bytes()[:-1] + b"?")
    with pytest.raises(SystemExit, match=f"piece-0001 is {how}"):
        gpu.join(pieces, tmp_path / "joined")
    assert not (tmp_path / "joined").exists()


def test_another_python_is_said(gpu, pieces, tmp_path, capsys):
    manifest = json.loads((pieces / gpu.MANIFEST).read_text())
    (pieces / gpu.MANIFEST).write_text(json.dumps(manifest | {"python": "3.7.1"}))
    gpu.join(pieces, tmp_path / "joined")
    assert "packed for Python 3.7" in capsys.readouterr().err


def test_everything_that_a_part_reads_is_packed(gpu):
    packed = {path for name in gpu.TREE for path in gpu.tracked(name)}
    needed = {"examples/real_model/mathematics.jsonl", "examples/real_model/train.py", "examples/real_model/forms.json",
              "tests/e2e/openrlhf/generate.py", "tests/stacks/tiny.py", "trainer/dare_trainer/vllm/entropy_triton.py"}  # fmt: skip
    assert needed <= packed


def test_a_folder_that_holds_something_is_not_packed_into(gpu, pieces):
    before = sorted(pieces.iterdir())
    with pytest.raises(SystemExit, match="not empty"):
        gpu.pack(pieces, None, 48)
    assert sorted(pieces.iterdir()) == before


def test_a_part_that_fails_leaves_the_others_their_turn(gpu, tmp_path, monkeypatch, capsys):
    """Each in a process of its own; what it knew is in its file; the exit code tells."""
    part = tmp_path / "part.py"
    part.write_text(
        "import json, sys, pathlib\njob = json.loads(sys.argv[3])\n"
        "pathlib.Path(job['out'], job['part'] + '.json').write_text('{\"known\": 1}')\n"
        "sys.exit({'kernel': 5, 'vllm': 3}.get(job['part'], 0))\n"
    )
    run = gpu.subprocess.run
    monkeypatch.setattr(gpu, "python_of", lambda job: Path(sys.executable))
    monkeypatch.setattr(gpu.subprocess, "run", lambda words, **how: run([words[0], str(part), *words[1:]], **how))
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--out", str(tmp_path / "out"), "--parts", "kernel,exact,vllm"])
    assert gpu.main() == 1
    said = capsys.readouterr().out
    told = [line.split("s  ")[1] for line in said.splitlines()[:3]]
    assert told == ["FAILED with exit code 5", "done", "left out: its packages are not here"]
    assert (tmp_path / "out" / "exact.json").read_text() == '{"known": 1}'
    assert (tmp_path / "out" / "kernel.json").is_file()


def test_an_unknown_part_is_named(gpu, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--parts", "kernel,gift"])
    with pytest.raises(SystemExit, match="gift"):
        gpu.main()
