"""Figures of a run, and of an analysis."""

import json

from dare_reward.cli import main


def line(step=0, group_id="g", label="1", **keys):
    """A line of a run log with what a figure shows."""
    base = {
        "v": 1, "run": "r", "step": step, "group_id": group_id, "method": "ttrl", "config_id": "c", "error": None,
        "answers": [label, label, "2", None], "rewards": [1.0, 1.0, 0.0, 0.0], "keep": [True, True, False, False],
        "valid": [True, True, True, False], "pseudo_label": label, "flags": [], "diagnostics": {"majority_ratio": 0.5},
        "mean_entropies": [0.1, 0.2, 0.4, None], "num_tokens": [3, 5, 8, 4],
        "support": [{"answer": label, "count": 2, "kept": True}, {"answer": "2", "count": 1, "kept": False}],
    }  # fmt: skip
    return {**base, **keys}


def test_plot(tmp_path, capsys):
    log = tmp_path / "log.jsonl"
    hostile = {"support": [{"answer": "$\\frac{", "count": 3, "kept": True, "p_hat": 0.7, "reward": 1.0}]}
    log.write_text("".join(json.dumps(line(s, **hostile)) + "\n" for s in range(9)))
    out = tmp_path / "a.png"
    assert main(["plot", str(log), "-o", str(out)]) == 0
    assert out.read_bytes().startswith(b"\x89PNG")
    out = tmp_path / "g.svg"
    assert main(["plot", str(log), "--figure", "group", "-o", str(out)]) == 0
    first = out.read_bytes()
    assert main(["plot", str(log), "--figure", "group", "-o", str(out), "--force"]) == 0
    assert out.read_bytes() == first
    assert capsys.readouterr().err.endswith(f"wrote {out}: group g\n")
    assert b">g</text>" in first
    group = {"group_id": "a", "label": "4", "rollouts": [{"answer": x, "mean_entropy": 0.1} for x in "445"]}
    (tmp_path / "in.jsonl").write_text(json.dumps(group) + "\n")
    assert main(["plot", str(tmp_path / "in.jsonl"), "--figure", "group", "-o", str(out), "--force"]) == 0
    assert ("4 (right)" in out.read_text(), "5 (right)" in out.read_text()) == (True, False)
    assert main(["plot", str(log), "--figure", "auroc", "-o", str(tmp_path / "x.png")]) == 2
    assert main(["plot", str(log), "-o", str(tmp_path / "x.jpg")]) == 2
    assert "no data" in capsys.readouterr().err


def test_figures_are_refused_before_the_work_and_replaced_by_force(tmp_path, capsys):
    file, folder = tmp_path / "r.jsonl", tmp_path / "figures"
    rollouts = [{"answer": str(i % 2), "mean_entropy": 0.1 + i / 10, "correct": i % 2 == 0} for i in range(6)]
    file.write_text("".join(json.dumps({"prompt": f"q{i}", "rollouts": rollouts}) + "\n" for i in range(4)))
    folder.mkdir()
    (folder / "auroc.png").write_text("mine")
    assert main(["analyse", str(file), "--plot", str(folder)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "auroc.png exists" in err
    assert (folder / "auroc.png").read_text() == "mine"
    assert main(["analyse", str(file), "--plot", str(folder), "--force"]) == 0
    assert (folder / "auroc.png").read_bytes()[:4] == b"\x89PNG"
    (tmp_path / "occupied").write_text("")
    capsys.readouterr()
    assert main(["analyse", str(file), "--plot", str(tmp_path / "occupied" / "x")]) == 2
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
