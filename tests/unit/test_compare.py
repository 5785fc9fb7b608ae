"""`dare-reward score --compare`: several methods side by side."""

import json

import pytest

import dare_reward
from dare_reward.analysis.ranks import rank_correlation
from dare_reward.cli import main
from dare_reward.commands.compare import comparison
from dare_reward.errors import RequestError

pytestmark = pytest.mark.usefixtures("plugins")

SURE = [
    {"answer": "1", "mean_entropy": 0.9},
    {"answer": "1", "mean_entropy": 0.9},
    {"answer": "2", "mean_entropy": 0.01},
]
SPLIT = {"group_id": "split", "label": "2", "rollouts": SURE}
AGREED = {"group_id": "agreed", "label": "3", "rollouts": [{"answer": "3", "mean_entropy": 0.1}, {"answer": None}]}


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    monkeypatch.delenv("DARE_URL", raising=False)


def write(tmp_path, *lines):
    file = tmp_path / "in.jsonl"
    file.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n")
    return str(file)


def rows(text):
    return [line.split() for line in text.splitlines() if line]


def test_methods_side_by_side(tmp_path, capsys):
    assert main(["compare", write(tmp_path, SPLIT, AGREED), "--methods", "dare, ttrl,empo"]) == 0
    found = rows(capsys.readouterr().out)
    assert ["dare", "2/2", "2", "1.0000", "1.0000", "0"] in found
    assert ["ttrl", "2/2", "2", "0.5000", "0.5000", "0"] in found
    assert ["split", "2", "(right)", "1", "(wrong)", "1", "(wrong)", "2"] in found  # winners by method, then the label
    assert not any(row[0] == "agreed" for row in found)
    pair = next(row for row in found if row[:2] == ["dare,", "ttrl"])
    assert pair[2:] == ["0.0000", "2", "1/2"]  # -1 on one group, 1 on the other


def test_parameters_go_to_the_methods_that_have_them(tmp_path, capsys):
    assert (
        main(["compare", write(tmp_path, SPLIT), "--methods", "dare,ttrl", "-p", "weight=none", "-p", "alpha=0"]) == 0
    )
    assert "agree on every pseudo-label" in capsys.readouterr().out
    assert main(["compare", write(tmp_path, SPLIT), "--methods", "dare,ttrl", "-p", "nosuch=1"]) == 2


def test_bad_lines_and_groups_are_named(tmp_path, capsys):
    bare = {"group_id": "bare", "rollouts": [{"answer": "1"}]}
    assert main(["compare", write(tmp_path, SPLIT, "{", bare), "--methods", "dare,ttrl"]) == 1
    out, err = capsys.readouterr()
    assert "line 2" in err
    assert ["bare", "(missing_entropy)", "1"] in rows(out)
    assert ["dare", "1/2"] in [row[:2] for row in rows(out)]


def test_unknown_and_experimental_methods_are_refused(plugin, tmp_path, capsys):
    assert main(["compare", write(tmp_path, SPLIT), "--methods", "dare,nosuch"]) == 2
    assert main(["compare", write(tmp_path, SPLIT), "--methods", "dare,guess"]) == 2
    assert "allow_experimental" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([1, 2, 3], [2, 4, 9], 1.0),
        ([1, 2, 3], [3, 2, 1], -1.0),
        ([1, 1, 2, 3], [1, 2, 3, 4], 0.9486832980505138),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_rank_correlation(a, b, expected):
    assert rank_correlation(a, b) == (None if expected is None else pytest.approx(expected))


def test_advantages_compare_with_rewards():
    groups = [{"rollouts": [{"answer": a, "num_tokens": 3} for a in "11122345"]}]
    results = {m: dare_reward.estimate(groups, method=m).groups for m in ("cocov", "ttrl")}
    assert "1.0000" in comparison(results)


def test_a_shadow_with_required_parameters_is_refused():
    with pytest.raises(RequestError, match="not a shadow"):
        dare_reward.estimate([SPLIT], method="ttrl", shadow=["calibrated_vote"])
