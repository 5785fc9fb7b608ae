"""Each loop over groups, rollouts, texts, tokens, steps and runs costs as much more as there is more to go through."""

import random

import numpy as np
from growth import assert_proportional
from jsonl import write_lines
from rows import each

from dare_reward import estimate
from dare_reward.analysis.verdict import judge
from dare_reward.cli import main
from dare_reward.groups import Groups, Ragged
from dare_reward.report.book import RunBook
from dare_reward.report.view import view
from dare_reward.runs.line import objects, of_scored
from dare_reward.scoring.request import prepare
from dare_reward.scoring.score import score
from dare_reward.wire import pack, unpack


def rollouts(count, *, answers=5, seed=0):
    rng = random.Random(seed)
    drawn = [(str(rng.randrange(answers)), rng.random()) for _ in range(count)]
    return [{"answer": a, "mean_entropy": h, "num_tokens": 9} for a, h in drawn]


def groups(count, size=8, **how):
    return [{"group_id": f"g{p}", "label": "1", "rollouts": rollouts(size, seed=p, **how)} for p in range(count)]


def texts(count):
    return [{"rollouts": [{"text": rf"Of {n} ways, \boxed{{{n % 7}}} is left."} for n in range(count)]}]


def tokens(count):
    return [{"rollouts": [{"answer": "1", "token_entropies": [0.5] * count} for _ in range(8)]}]


def framed(count):
    columns = {"token_entropies": Ragged(np.full(8 * count, 0.5), np.full(8, count))}
    return bytes(pack({"groups": [{"rollouts": [{"answer": "1"}] * 8}]}, columns))


def logged(count, place):
    """Lines of a run log, each at its place."""
    sent = groups(4)
    lines = list(objects(of_scored(score(sent, {}, method="dare", shadow=["ttrl"]), sent), 0.0))
    return [{**line, "run": "r", "step": 0, **place(n)} for n in range(count) for line in lines]


def shown(lines):
    book = RunBook()
    for line in lines:
        book.add(line)
    view(book)


def labelled(count):
    """Groups of many shapes with their truth."""
    rng = np.random.default_rng(0)
    answers, entropy = rng.integers(0, 3, (count, 8)), rng.gamma(2, 0.1, (count, 8))
    found = Groups.of(answers.tolist(), mean_entropy=entropy.tolist(), num_tokens=np.full((count, 8), 9).tolist())
    return found, (answers == 0).astype(float).ravel()


def dare(sent):
    estimate(sent, method="dare")


@each(
    "work, made, size",
    [
        (dare, groups, 32),
        (dare, lambda n: groups(1, n), 64),
        (dare, lambda n: groups(1, n, answers=10**6), 32),
        (dare, tokens, 2_000),
        (lambda sent: estimate(sent, method="ttrl"), texts, 40),
        (prepare, lambda n: groups(n, 2), 64),
        (unpack, framed, 200_000),
        (lambda sent: estimate(sent, method="dare", advantage="grpo", shadow=["scrl"]), groups, 32),
    ],
)  # fmt: skip
def test_scoring_goes_once_through_a_request(work, made, size):
    assert_proportional(work, made, size)


@each(
    "place, size",
    [
        (lambda n: {"step": n}, 24),
        (lambda n: {"step": n % 2}, 24),  # groups of a step
        (lambda n: {"run": f"r{n}"}, 4),  # each has a verdict of its own
        (lambda n: {"run": f"r{n % 3}", "step": n}, 24),
        (lambda n: {"step": 999 - n}, 24),  # steps that come late
    ],
)
def test_report_and_page_go_once_through_a_run(place, size):
    assert_proportional(shown, lambda n: logged(n, place), size)


def test_calibrate_goes_once_through_its_groups():
    assert_proportional(lambda given: judge(*given), labelled, 48)


@each("words", [("score", "--out"), ("report", "-o"), ("explain", "--suspicious", "2")])
def test_a_command_goes_once_through_its_file(words, tmp_path, capsys):
    def made(count):
        file = write_lines(tmp_path / f"{count}.jsonl", groups(count))
        out = [str(tmp_path / f"{count}.out"), "--force"] if words[-1].startswith("-") else []
        return [words[0], str(file), *words[1:], *out]

    assert_proportional(main, made, 24)
