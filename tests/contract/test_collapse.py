"""`on_collapse`: off by default, or a warning; labels never act on it."""

import logging
import math
from types import SimpleNamespace

import pytest
from stack_samples import TrlTrainer

import dare_reward
from dare_reward.stacks import adapter as common
from dare_reward.stacks.adapter import Scorer
from dare_reward.stacks.collapse import RunWatch, watch_of
from dare_reward.stacks.trl import DareReward
from dare_trainer.openrlhf.group import GroupScorer
from dare_trainer.openrlhf.settings import RewardUrls

PROMPTS, SIZE = 8, 4


def batch(step, *, collapsed, label=None):
    """Every prompt its own answer, or one answer everywhere."""
    told = {} if label is None else {"label": label}
    return [
        {**told, "rollouts": [{"answer": "7" if collapsed else str(100 * p + (i % 2) * step)} for i in range(SIZE)]}
        for p in range(PROMPTS)
    ]


def run(watch, *, falls=6, steps=16, label=None):
    """The words after each step."""
    words = []
    for step in range(steps):
        groups = batch(step, collapsed=step >= falls, label=label)
        watch.see(dare_reward.estimate(groups, method="ttrl"), step)
        words.append(watch.word)
    return words


def test_the_word_of_each_whole_step():
    watch = RunWatch()
    words = run(watch)
    assert words[0] == "too early"
    assert words[-1] == "collapsing"
    assert watch.collapsing
    assert watch.numbers == {"run_state": 2.0, "collapsed": 1.0}
    calm = RunWatch()
    run(calm, falls=99)
    assert (calm.word, calm.collapsing, calm.numbers) == ("fine", False, {"run_state": 0.0, "collapsed": 0.0})


def test_long_answers_do_not_end_a_training():
    watch, rollouts = RunWatch(), [{"answer": str(i) * 2000} for i in range(16)]
    watch.see(dare_reward.estimate([{"rollouts": rollouts}], method="ttrl"), 0)
    assert watch.columns["distinct_answers"].tolist() == [16.0]


def test_flips_are_known_of_prompts_that_have_names():
    watch = RunWatch()
    for step in range(3):
        groups = [{"group_id": f"p{i}", **g} for i, g in enumerate(batch(step, collapsed=step == 2))]
        watch.see(dare_reward.estimate(groups, method="ttrl"), step)
    assert watch.columns["flips"].tolist() == [pytest.approx(math.nan, nan_ok=True), 0.0, 1.0]


@pytest.mark.parametrize(("kind", "flips"), [("math", 0.0), ("exact", 1.0)])
def test_flips_are_those_of_the_kind_of_the_answers(kind, flips):
    watch = watch_of(Scorer.of("http://127.0.0.1:8000", kind=kind), None)
    for step, answer in enumerate(("1/2", "0.5", "0.5")):
        rollouts = [{"answer": answer, "mean_entropy": 0.1}] * 2
        watch.see(dare_reward.estimate([{"group_id": "p", "kind": kind, "rollouts": rollouts}]), step)
    assert watch.columns["flips"].tolist()[1:] == [flips, 0.0]


@pytest.mark.parametrize("label", [None, "7", "100"])
def test_labels_do_not_act(label):
    assert run(RunWatch(), label=label) == run(RunWatch())


def test_one_warning_for_each_change(caplog):
    with caplog.at_level(logging.WARNING, "dare_reward.stacks"):
        run(RunWatch(), steps=24)
    told = [r.getMessage() for r in caplog.records if "the run is collapsing" in r.getMessage()]
    assert len(told) == 1
    assert "one-answer-everywhere" in told[0]


def reward_of(**settings):
    return DareReward("http://service", method="ttrl", entropy="none", **settings)


def train(reward, trainer, falls=6):
    for step in range(20):
        texts = [f"\\boxed{{{r['answer']}}}" for g in batch(step, collapsed=step >= falls) for r in g["rollouts"]]
        state = SimpleNamespace(global_step=step)
        reward(["p"] * len(texts), texts, log_metric=trainer.log_metric, trainer_state=state)
    return trainer.logged.get("dare/run_state")


@pytest.mark.parametrize(
    ("settings", "state"), [({}, None), ({"on_collapse": "off"}, None), ({"on_collapse": "warn"}, 2.0)]
)
def test_trl_s_tracker_learns_it_if_asked(service, settings, state):
    assert train(reward_of(**settings), TrlTrainer(scale_rewards="none")) == state


def test_each_training_and_each_trainer_has_a_state_of_its_own(service):
    reward, ill, well = reward_of(on_collapse="warn"), *(TrlTrainer(scale_rewards="none") for _ in range(2))
    assert (train(reward, ill), train(reward, well, 99)) == (2.0, 0.0)
    assert (ill.logged["dare/collapsed"], well.logged["dare/collapsed"]) == (1.0, 0.0)
    assert (train(reward, ill, 99), ill.logged["dare/collapsed"]) == (0.0, 0.0)


def test_an_alarm_that_breaks_ends_no_training(monkeypatch):
    scorer = common.Scorer.of("http://h", on_collapse="warn")
    assert scorer.watch(None, 3, SimpleNamespace()) is None, "a trainer without a hash"
    monkeypatch.setattr(RunWatch, "see", lambda *given: 1 / 0)
    assert scorer.watch(None, 3).collapsing is False


def test_what_it_may_be_is_said():
    with pytest.raises(dare_reward.RequestError, match="on_collapse: must be one of off, warn"):
        common.Scorer.of("http://h", on_collapse="yes")


def test_the_rollout_actor_warns(caplog):
    def scorer(query):
        urls = RewardUrls.of([f"http://h?method=ttrl&entropy=none{query}"])
        return GroupScorer(urls, urls.settings(), "r")

    watching = scorer("&on_collapse=warn")
    with caplog.at_level(logging.WARNING, "dare_reward.stacks"):
        for step in range(16):
            replies = [dare_reward.estimate([g], method="ttrl") for g in batch(step, collapsed=step >= 6)]
            for reply in replies * 8:
                watching._seen(reply)
    assert any("the run is collapsing" in r.getMessage() for r in caplog.records)
    assert scorer("")._watch is None
