"""`on_collapse=warn` in the rollout actor: off by default; labels never act on it."""

import logging
import math

import pytest

import dare_reward
from dare_trainer.openrlhf.collapse import RunWatch
from dare_trainer.openrlhf.group import GroupScorer
from dare_trainer.openrlhf.settings import RewardUrls

PROMPTS, SIZE = 64, 4


def batch(step, *, collapsed, label=None):
    """Every prompt its own answer, or one answer everywhere."""
    told = {} if label is None else {"label": label}
    return [
        {
            "group_id": f"p{p}",
            **told,
            "rollouts": [{"answer": "7" if collapsed else str(100 * p + (i % 2) * step)} for i in range(SIZE)],
        }
        for p in range(PROMPTS)
    ]


def run(watch, *, falls=6, steps=16, label=None):
    """The words after each step."""
    words = []
    for step in range(steps):
        watch.see(dare_reward.estimate(batch(step, collapsed=step >= falls, label=label), method="ttrl"))
        words.append(watch.word)
    return words


def test_the_word_of_each_whole_step():
    words = run(RunWatch())
    assert (words[0], words[-1]) == ("too early", "collapsing")
    assert run(RunWatch(), falls=99)[-1] == "fine"


def test_long_answers_count_as_others_do():
    watch, rollouts = RunWatch(), [{"answer": str(i) * 2000} for i in range(16)]
    watch.see(dare_reward.estimate([{"rollouts": rollouts}], method="ttrl"))
    assert watch.columns["distinct_answers"].tolist() == [16.0]


def test_flips_are_known_of_prompts_that_have_names():
    watch = RunWatch()
    for step in range(3):
        watch.see(dare_reward.estimate(batch(step, collapsed=step == 2), method="ttrl"))
    assert watch.columns["flips"].tolist() == [pytest.approx(math.nan, nan_ok=True), 0.0, 1.0]


@pytest.mark.parametrize("label", ["7", "100"])
def test_labels_do_not_act(label):
    assert run(RunWatch(), label=label) == run(RunWatch())


def test_one_warning_for_each_change_where_it_is_asked_for(caplog):
    def scorer(query):
        urls = RewardUrls.of([f"http://h?method=ttrl&entropy=none{query}"])
        return GroupScorer(urls, urls.settings(), "r")

    watching = scorer("&on_collapse=warn")
    with caplog.at_level(logging.WARNING, "dare_trainer"):
        for step in range(16):
            for group in batch(step, collapsed=step >= 6):
                watching._seen(dare_reward.estimate([group], method="ttrl"))
    (told,) = [r.getMessage() for r in caplog.records if "the run is collapsing" in r.getMessage()]
    assert "one-answer-everywhere" in told
    assert scorer("")._watch is None
