"""The line that `dare-reward calibrate` prints: method and parameters, and who takes it on the command line."""

import json
from pathlib import Path

import pytest
from jsonl import read_lines
from rows import each

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.methods import find, methods, read_line, write_line
from dare_reward.stacks.adapter import Scorer

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "arithmetic_m64.jsonl")
LINE = "method=calibrated_vote&exponent=-2&eps=0.01"
PARAMS = {"exponent": -2.0, "eps": 0.01}


@each("name", [n for n in methods() if not find(n).experimental])
def test_what_is_written_is_read(name, needed_params):
    params = {**{s.name: s.default for s in find(name).specs if not s.required}, **needed_params(name)}
    method, found = read_line(write_line(name, params))
    assert method == name
    assert find(name).resolve(found) == find(name).resolve(params)


def test_the_line_has_no_comma_and_no_blank():
    """OpenRLHF splits its reward URL at commas, shells split at blanks."""
    line = write_line("calibrated_vote", {"exponent": 1 / 3, "eps_scale": None, "missing_entropy": "error"})
    assert not set(line) & set(", '\"")
    assert read_line(line)[1]["exponent"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exponent=4", "as `dare-reward calibrate` prints it"),
        ("method=calibrated_vote&exponent=4&exponent=2", "'exponent' is given twice"),
        ("method=calibrated_vote", "missing: exponent"),
        ("method=calibrated_vote&exponent=much", "exponent: must be a finite number"),
        ("method=calibrated_vote&exponent=4&power=2", "unknown parameter 'power'"),
        ("method=calibrated&exponent=4", "unknown method"),
    ],
)
def test_a_line_that_means_nothing(line, words, ran):
    with pytest.raises(RequestError, match=words):
        read_line(line)
    assert words in ran(["score", EXAMPLE, "-m", line], 2).err


def test_score_and_explain_take_the_line(ran):
    groups = read_lines(Path(EXAMPLE))
    for words, method, params in (([], "calibrated_vote", PARAMS), (["-p", "exponent=0"], "ttrl", {})):
        found = map(json.loads, ran(["score", EXAMPLE, "-m", LINE, *words], 0).out.splitlines())
        expected = dare_reward.estimate(groups, method=method, **params).groups
        assert [line["reply"]["rewards"] for line in found] == [list(g.rewards) for g in expected]
    assert "exponent=-2.0" in ran(["explain", EXAMPLE, "--group", groups[0]["group_id"], "-m", LINE], 0).out


def test_the_address_of_a_stack_takes_the_line():
    found = Scorer.of(f"http://127.0.0.1:8000?{LINE}")
    assert (found.method, dict(found.params)) == ("calibrated_vote", PARAMS)
