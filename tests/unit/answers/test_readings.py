"""A text is read once in a request, and once in a command that hands its readings on."""

from collections import Counter

import pytest

from dare_reward.answers import rollouts
from dare_reward.answers.rollouts import Readings, read_answers
from dare_reward.scoring.request import prepare
from dare_reward.scoring.score import score

TEXTS = ("So \\boxed{5}.", "\\boxed{6}", "So \\boxed{5}.")
GROUP = {"rollouts": [{"text": text, "mean_entropy": 0.5} for text in TEXTS]}


@pytest.fixture
def read(monkeypatch):
    counted = Counter()

    def read(text, asked):
        counted[text] += 1
        return rollouts_read(text, asked)

    rollouts_read = rollouts.read
    monkeypatch.setattr(rollouts, "read", read)
    return counted


def test_each_text_of_a_request_is_read_once_and_shadow_methods_read_none(read):
    score([{**GROUP, "group_id": "a"}, {**GROUP, "group_id": "b"}], {}, method="dare", shadow=["majority"])
    assert read == {"So \\boxed{5}.": 4, "\\boxed{6}": 2}


def test_a_second_group_is_read_with_the_texts_of_its_own_and_those_once(read):
    second = [{"text": "\\boxed{7}"}, {"text": "\\boxed{6}"}]
    prepare([{**GROUP, "second_group": second}])
    assert read == {"So \\boxed{5}.": 1, "\\boxed{6}": 1, "\\boxed{7}": 1}


def test_a_command_that_checks_and_scores_reads_each_text_once(read):
    readings = Readings()
    prepare([GROUP], readings=readings)
    score([GROUP], {}, method="dare", readings=readings)
    assert set(read.values()) == {1}


def test_another_kind_or_a_cut_text_is_another_reading():
    readings, same = Readings(), {"text": "The answer is (B)."}
    of = [
        read_answers([rollout], [False], kind=kind, readings=readings)[0].answer
        for rollout, kind in ((same, "choice"), (same, "text"), ({**same, "finish_reason": "length"}, "choice"))
    ]
    assert of == ["B", "(B)", None]


def test_readings_forget_the_oldest_texts(read):
    readings = Readings(most=20)
    for text in ("So 12345.", "So 6789.", "So 12345.", "So 1.", "So 2.", "So 3.", "So 12345."):
        read_answers([{"text": text}], [False], readings=readings)
    assert read["So 12345."] == 2
