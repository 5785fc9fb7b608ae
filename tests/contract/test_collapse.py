"""`on_collapse`: off by default, a warning, or an orderly end by the stack's own means; labels never act on it."""

import logging
import math
from itertools import zip_longest
from types import SimpleNamespace

import pytest
from stack_samples import TrlTrainer

import dare_reward
from dare_reward.stacks import adapter as common
from dare_reward.stacks import verl
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


def train_trl(*, falls=6, trainer=None, **settings):
    """Steps that were done, and the trainer, which may have trained before."""
    trainer = trainer or TrlTrainer(scale_rewards="none")
    *_, done = steps_of(reward_of(**settings), trainer, falls)
    return done, trainer


def steps_of(reward, trainer, falls):
    """The number of steps after each one, until the trainer stops."""
    control = SimpleNamespace(should_training_stop=False)
    for callback in trainer.callbacks:
        callback.on_train_begin(trainer.args, SimpleNamespace(global_step=0), control)
    for step in range(20):
        texts = [f"\\boxed{{{r['answer']}}}" for g in batch(step, collapsed=step >= falls) for r in g["rollouts"]]
        state = SimpleNamespace(global_step=step)
        reward(["p"] * len(texts), texts, log_metric=trainer.log_metric, trainer_state=state)
        for callback in trainer.callbacks:
            callback.on_step_end(trainer.args, state, control)
        yield step + 1
        if control.should_training_stop:
            return


@pytest.fixture
def transformers(stand_in, service):
    """A stand-in where transformers is not installed, and a service."""
    stand_in("transformers", TrainerCallback=type("TrainerCallback", (), {}))


def test_trl_stops_by_its_own_callback(transformers):
    done, trainer = train_trl(on_collapse="stop")
    assert 6 < done < 20
    assert len(trainer.callbacks) == 1
    assert trainer.logged["dare/run_state"] == 2.0


@pytest.mark.parametrize(
    ("settings", "state"), [({}, None), ({"on_collapse": "off"}, None), ({"on_collapse": "warn"}, 2.0)]
)
def test_trl_goes_on_unless_it_is_asked_to_stop(transformers, settings, state):
    done, trainer = train_trl(**settings)
    assert (done, trainer.callbacks) == (20, [])
    assert trainer.logged.get("dare/run_state") == state


def test_the_next_training_of_the_same_trainer_stops_only_if_it_collapses_too(transformers):
    first, trainer = train_trl(on_collapse="stop")
    done, trainer = train_trl(falls=99, trainer=trainer, on_collapse="stop")
    assert done == 20
    assert train_trl(trainer=trainer, on_collapse="stop") == (first, trainer)
    assert len(trainer.callbacks) == 1


def test_two_trainers_with_the_same_settings_have_a_state_each(transformers):
    reward = reward_of(on_collapse="stop")
    ill, well = (TrlTrainer(scale_rewards="none") for _ in range(2))
    steps = list(zip_longest(steps_of(reward, ill, 6), steps_of(reward, well, 99)))
    assert steps[-1] == (None, 20)
    assert (ill.logged["dare/collapsed"], well.logged["dare/collapsed"]) == (1.0, 0.0)


@pytest.mark.parametrize(("asked", "last"), [("off", 500), ("warn", 500), ("stop", 41)])
def test_verl_s_next_step_is_its_last(asked, last):
    scorer = common.Scorer.of("http://h", on_collapse=asked)
    trainer = SimpleNamespace(total_training_steps=500, global_steps=40)
    verl._stop(scorer, trainer, {"dare/collapsed": 0.0})
    assert trainer.total_training_steps == 500
    verl._stop(scorer, trainer, {"dare/collapsed": 1.0})
    verl._stop(scorer, trainer, {"dare/collapsed": 1.0})
    assert trainer.total_training_steps == last


def test_an_alarm_that_breaks_ends_no_training(monkeypatch):
    scorer = common.Scorer.of("http://h", on_collapse="stop")
    assert scorer.watch(None, 3, SimpleNamespace()) is None, "a trainer without a hash"
    monkeypatch.setattr(RunWatch, "see", lambda *given: 1 / 0)
    assert scorer.watch(None, 3).collapsing is False


def test_what_it_may_be_is_said():
    with pytest.raises(dare_reward.RequestError, match="on_collapse: must be one of off, warn, stop"):
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
