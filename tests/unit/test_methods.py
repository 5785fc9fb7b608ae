"""What holds for every method, whatever it is: the tests run over the registry."""

import copy
import inspect
import math
from contextlib import nullcontext
from itertools import chain
from operator import attrgetter
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each
from said import said, scored

import dare_reward
from dare_reward import Client
from dare_reward.commands.explain import FLAGS
from dare_reward.errors import RequestError
from dare_reward.estimators.method import Evidence, Method
from dare_reward.methods import find, methods, require_rewards, specs
from dare_service.reward_request import URL_KEYS as REWARD_KEYS

pytestmark = pytest.mark.usefixtures("plugins", "short_fits")

NAMES = [*methods(), "cocov", "gmae", "jury_rl", "t3rl"]  # those of examples/plugins too
CONSENT = "allow_experimental"
LABELLED = {"gt", "rlpr", "verifree"}
OWN = attrgetter("rewards", "advantages", "support", "pseudo_label", "second_rewards", "token_mask")
# The position of a rollout is part of these methods: ties and blocks go by it.
ORDERED = {"scope"}


def values(group, method):
    return group.advantages if find(method).output == "advantages" else group.rewards


@pytest.fixture(params=NAMES)
def method(request):
    return request.param


def test_an_entry_says_what_people_need(method):
    entry = find(method)
    assert entry.summary
    assert entry.cost
    assert entry.paper.startswith("arXiv:") or (entry.evidence == "ours" and not entry.paper)
    assert entry.evidence in get_args(Evidence)
    assert not entry.experimental or entry.unverified
    for spec in entry.specs:
        assert spec.doc, spec.name
        assert spec.source, spec.name
        assert spec.required or spec.check(spec.default) == spec.default


def test_a_parameter_has_a_name_of_its_own(method):
    """One that `estimate`, a client or a URL takes themselves could not be set there; `seed` means the same."""
    calls = (dare_reward.estimate, Client.reward, Client.rewards)
    taken = {*chain(*(inspect.signature(call).parameters for call in calls)), *REWARD_KEYS} - {"seed"}
    assert not taken & {spec.name for spec in specs(find(method))}


def test_one_finite_value_per_rollout(method, full_groups, needed_params):
    sent = full_groups(seed=3)
    reply = dare_reward.estimate(sent, method=method, **needed_params(method))
    assert reply.output == find(method).output
    for group, given_ in zip(reply.groups, sent):
        assert group.error is None
        found = values(group, method)
        assert len(found) == len(given_["rollouts"])
        trained = [r["trained"] for r in given_["rollouts"]]
        if reply.output == "advantages":
            assert group.rewards is None
            assert [x is not None for x in found] == trained
        assert all(math.isfinite(x) for x in found if x is not None)
        for s in group.support:
            assert all(x is None or math.isfinite(x) for x in (s.p_hat, s.p, s.reward, s.bonus, s.uncertainty))


@each("answers", [["1"], [None], ["1"] * 5, [None] * 4, ["1", "2", "3", "4"], ["1", "1", "2", "2"]])
def test_extreme_groups(method, answers, full_groups, needed_params):
    """A single rollout, none with an answer, one answer only, all different, tied."""
    sent = full_groups(seed=1, count=1, size=len(answers))
    for rollout, answer in zip(sent[0]["rollouts"], answers):
        rollout["answer"] = answer
    first = dare_reward.estimate(sent, method=method, **needed_params(method)).groups[0]
    assert first.error is None
    assert all(math.isfinite(x) for x in values(first, method) if x is not None)
    again = dare_reward.estimate(sent, method=method, **needed_params(method)).groups[0]
    assert again == first
    assert ("all_invalid" in first.flags) == (not any(answers))
    assert {*first.flags} <= FLAGS.keys(), "explain has a sentence for each"
    assert first.valid == tuple(a is not None for a in answers)


def test_a_group_does_not_depend_on_its_neighbours_bit_for_bit(method, full_groups, needed_params):
    sent = full_groups(seed=5, count=3)
    together = dare_reward.estimate(sent, method=method, **needed_params(method)).groups
    reversed_ = dare_reward.estimate(sent[::-1], method=method, **needed_params(method)).groups[::-1]
    for group, other, alone in zip(together, reversed_, sent):
        assert dare_reward.estimate([alone], method=method, **needed_params(method)).groups[0] == group == other


@pytest.mark.parametrize("method", [n for n in NAMES if n not in ORDERED])
@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_permuting_the_rollouts_permutes_the_rewards(method, full_groups, needed_params, data):
    sent = full_groups(seed=data.draw(st.integers(0, 40)), count=1, size=7)
    order = data.draw(st.permutations(range(7)))
    rollouts = sent[0]["rollouts"]
    # Without ties: those go to the answer first seen, which permuting may rightly change.
    for rollout, answer in zip(rollouts, ("0", "0", "0", "1", "1", "2", None)):
        rollout["answer"] = answer
    sent[0]["second_group"] = [{"answer": a} for a in ("0", "1", "1", "1")]
    sent[0]["teacher_group"] = [{"answer": a} for a in ("0", "1", "1")]
    moved = [{**sent[0], "rollouts": [rollouts[i] for i in order]}]
    first = values(dare_reward.estimate(sent, method=method, **needed_params(method)).groups[0], method)
    second = values(dare_reward.estimate(moved, method=method, **needed_params(method)).groups[0], method)
    for at, i in enumerate(order):
        assert second[at] == (None if first[i] is None else pytest.approx(first[i], rel=1e-9, abs=1e-12))


def test_labels_never_touch_a_label_free_method(method, full_groups, needed_params):
    sent = full_groups(seed=8, count=3)
    first = dare_reward.estimate(sent, method=method, **needed_params(method)).groups
    rng = np.random.default_rng(0)
    differs = False
    for change in ("permute", "remove", "correct", "accept"):
        other = copy.deepcopy(sent)
        for p, group in enumerate(other):
            group["label"] = {"permute": str(p), "remove": None, "correct": "1", "accept": ["0", "1"]}[change]
            group["reference"] = {"permute": str(p), "remove": None, "correct": "3", "accept": "3"}[change]
            for rollout in group["rollouts"]:
                rollout["correct"] = bool(rng.integers(0, 2)) if change == "correct" else None
        found = dare_reward.estimate(other, method=method, **needed_params(method)).groups
        for one, two in zip(first, found):
            same = OWN(one) == OWN(two)
            assert same or method in LABELLED
            differs |= not same
    assert differs == (method in LABELLED)


def test_only_gt_sees_labels(method, full_groups, needed_params, monkeypatch):
    """No other estimator is handed one, whatever a request holds."""
    seen, run = [], Method.run
    monkeypatch.setattr(Method, "run", lambda self, groups, params: seen.append(groups) or run(self, groups, params))
    dare_reward.estimate(full_groups(), method=method, **needed_params(method))
    assert ("label" in seen[0].columns) == (method == "gt")
    assert not {"correct", "labels"} & seen[0].columns.keys()


def test_missing_inputs_are_one_error_that_names_all(method, needed_params):
    bare = [{"rollouts": [{"answer": "1"}, {"answer": None}, {"answer": "2"}]}]
    entry = find(method)
    params = needed_params(method)
    group = dare_reward.estimate(bare, method=method, **params).groups[0]
    held = [w.name for w in entry.when if w.holds(entry.resolve({k: v for k, v in params.items() if k != CONSENT}))]
    needed = [n for n in (*entry.requires, *held) if n != "answer"]
    if entry.imputes:
        assert group.error.code in {"missing_entropy", "missing_probability"}
    elif needed:
        assert group.error.code == "missing_input"
        assert group.rewards is None
        for name in needed:
            assert name.split("|")[0] in group.error.message, name
    else:
        assert group.error is None


def test_a_group_that_lacks_inputs_does_not_touch_its_neighbours(method, full_groups, needed_params):
    sent = full_groups(seed=2, count=3)
    alone = dare_reward.estimate([sent[0], sent[2]], method=method, **needed_params(method)).groups
    sent[1] = {"group_id": "bare", "rollouts": [{"answer": "1"}, {"answer": "2"}]}
    found = dare_reward.estimate(sent, method=method, **needed_params(method)).groups
    assert (found[0], found[2]) == alone


def test_zero_tokens_need_nothing_and_mean_no_answer(method, full_groups, needed_params):
    sent = full_groups(seed=4, count=1, size=5)
    sent[0]["rollouts"][2] = {"answer": "2", "num_tokens": 0, "format": 0.0}
    group = dare_reward.estimate(sent, method=method, **needed_params(method)).groups[0]
    assert group.error is None
    assert group.valid[2] is False


def test_experimental_methods_need_consent(method, full_groups, needed_params):
    params = needed_params(method)
    if not find(method).experimental:
        with pytest.raises(RequestError, match="allow_experimental"):
            dare_reward.estimate(full_groups(), method=method, **params, allow_experimental=True)
        return
    params["allow_experimental"] = False
    with pytest.raises(RequestError, match=r"unverified|experimental") as caught:
        dare_reward.estimate(full_groups(), method=method, **params)
    assert caught.value.loc == ("params", "allow_experimental")
    with pytest.raises(RequestError):
        dare_reward.estimate(full_groups(), method="ttrl", shadow=[method])


def test_methods_that_return_advantages_are_refused_where_they_would_be_normalised(method):
    own = find(method).output == "advantages"
    with pytest.raises(RequestError, match="normalise them again") if own else nullcontext():
        require_rewards(find(method), consumer="TRL")


def test_the_entropy_of_a_rollout_is_that_of_all_its_tokens():
    rollouts = said("aba", mean_entropy=(0.1, 0.2, 0.3), num_tokens=(3, 4, 5))
    assert scored(rollouts, "em_rl_token").rewards == pytest.approx((-0.3, -0.8, -1.5))
