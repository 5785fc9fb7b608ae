"""Verdicts per answer beside `verified` per rollout."""

import json

import pytest

import dare_reward
from dare_reward.errors import RequestError
from dare_reward.scoring import request

CONSENT = {"allow_experimental": True}


def group(answers, verdicts=None, **more):
    return {
        "rollouts": [{"answer": a} for a in answers],
        **({} if verdicts is None else {"verdicts": verdicts}),
        **more,
    }


def score(sent, **params):
    return dare_reward.estimate([sent], method="t3rl", **CONSENT, **params).groups[0]


def test_a_verdict_is_on_every_rollout_with_the_answer():
    told = score(group(["1", "1", "0.5", "1/2", "3"], {"\\frac{1}{2}": True, "1": False}))
    assert told.pseudo_label == "0.5"
    each = {"rollouts": [{"answer": a, "verified": v} for a, v in zip("11223", (0, 0, 1, 1, 0), strict=True)]}
    assert told.rewards == score(each).rewards
    assert [s.p_hat for s in told.support] == [s.p_hat for s in score(each).support]


def test_what_could_not_be_told_counts_as_one_vote():
    assert score(group("1122", {"2": None})).rewards == score(group("1122", {"1": False, "2": False})).rewards
    assert score(group("1122", {"2": None})).error is None, "null is a verdict, not a missing input"
    assert score(group("1122", {"9": True})).rewards == (1.0, 1.0, 0.0, 0.0), "on an answer that nobody gives"


def test_a_group_without_any_verdict_lacks_an_input():
    with_, without = dare_reward.estimate(
        [group("112", {"2": True}, group_id="a"), group("112", group_id="b")], method="t3rl", **CONSENT
    ).groups
    assert with_.pseudo_label == "2"
    assert without.error.message == "no verified or verdicts for 3 rollouts (0, 1, 2)"


@pytest.mark.parametrize(
    ("verdicts", "words"),
    [
        ([True], "an object of true"),
        ({"1": "yes"}, "an object of true"),
        ({"1/2": True, "0.5": False}, "true and false for two spellings"),
    ],
)
def test_what_is_refused(verdicts, words):
    with pytest.raises(RequestError, match=words) as caught:
        score(group(["0.5", "1"], verdicts))
    assert caught.value.loc == ("groups", 0, "verdicts")


def test_a_verdict_is_on_the_answer_as_the_group_holds_it():
    three = ["5", "5 cm", "5 m"]
    marked = {name: name == "5 cm" for name in three}
    for verdicts, label in ((marked, "5 cm"), ({"5": True}, "5"), ({"5 m": True}, "5 m")):
        found = score(group([*three, *three], verdicts))
        assert found.pseudo_label == label
        assert found.rewards == tuple(float(a == label) for a in [*three, *three])
    assert score(group(["5", "5", "6"], {"5 cm": False, "6": True})).pseudo_label == "6", "5 is 5 cm in this group"
    assert score(group(["5", "6"], {"5": True, "5 m": False})).pseudo_label == "5", "its own verdict comes first"
    assert score(group(["6", "6", "5"], {"5": True, "5 m": False, "5 cm": False})).pseudo_label == "5"
    open_ = score(group(["5", "5", "6"], {"5 cm": True, "5 m": False}))
    assert open_.rewards == score(group(["5", "5", "6"], {"5": None})).rewards, "one of them, and nobody knows which"
    declined = score(group(["5 cm", "5 cm", "6", "6", "6"], {"5": True, "5 cm": None}))
    assert declined.pseudo_label == "6", "who could not tell of 5 cm has not proved it"
    with pytest.raises(RequestError, match="two spellings of one answer"):
        score(group(["1", "2"], {"9": True, "9.0": False}))
    assert score(group("665", {"5.0": True}), mode="ttrl_official").pseudo_label == "5"


def test_many_verdicts_take_one_reading_each(monkeypatch):
    read, key_of = [], request.key_of
    monkeypatch.setattr(request, "key_of", lambda raw, *rest: read.append(raw) or key_of(raw, *rest))
    answers = [f"x+{i}" for i in range(300)]
    assert score(group(answers, dict.fromkeys(answers, True))).error is None
    assert len(read) == 300


def test_both_are_refused():
    sent = {"rollouts": [{"answer": "1", "verified": 1}], "verdicts": {"1": True}}
    with pytest.raises(RequestError, match="two answers to one question"):
        score(sent)


def test_no_other_method_sees_verdicts():
    for method in ("ttrl", "empo", "gmae", "ddrl"):
        plain = dare_reward.estimate([group("1122")], method=method).groups
        assert dare_reward.estimate([group("1122", {"2": True})], method=method).groups == plain
    assert json.loads(json.dumps(group("12", {"1": None})))["verdicts"] == {"1": None}


def test_a_proof_is_paid_and_no_proof_sums_to_zero():
    def jury(verdicts):
        return dare_reward.estimate([group("11123", verdicts)], method="jury_rl", c=0.5, **CONSENT).groups[0]

    proved = jury({"1": True})
    assert proved.rewards == (1.0, 1.0, 1.0, 0.0, 0.0)
    assert proved.pseudo_label == "1"
    refuted, silent = jury({"1": False}), jury({"1": None})
    assert refuted.rewards == silent.rewards == jury({"2": True}).rewards, "only a proof of the plurality counts"
    assert sum(refuted.rewards) == pytest.approx(0, abs=1e-12)
    assert max(refuted.rewards[:3]) < min(refuted.rewards[3:])
    assert "unproved" in refuted.flags
    assert refuted.pseudo_label is None
