"""When votes suffice: published cases, and exact probabilities by enumeration.

That these hold on real votes was shown once: `git show 9b225994:tests/unit/test_votes_suffice.py`.
"""

from itertools import pairwise, product

import pytest

from dare_reward.errors import RequestError
from dare_reward.groups import Groups
from dare_reward.methods import find, methods
from dare_reward.votes import Tally, Waves, flip_risk, locked, require_ballots, tallies, votes_suffice

TTRL = {"tie": "first", "no_answer": "clean"}


def tally(votes, **params):
    return tallies(find("ttrl").ballots(Groups.of([votes]), TTRL | params))[0]


def enumerated(votes, to_come, prior=0.5):
    """P(another label) over all sequences of votes to come; the last answer is one not seen yet."""
    kinds = list(dict.fromkeys(votes))
    label = max(kinds, key=votes.count)
    weights = [votes.count(k) + prior for k in kinds] + [prior]
    flipped = 0.0
    for draws in product(range(len(weights)), repeat=to_come):
        now, p = list(weights), 1.0
        for d in draws:
            p *= now[d] / sum(now)
            now[d] += 1
        more = [*votes, *([*kinds, "new"][d] for d in draws)]
        flipped += p * (max(dict.fromkeys(more), key=more.count) != label)
    return flipped


@pytest.mark.parametrize(
    ("votes", "to_come"), [("aab", 4), ("aabb", 3), ("abb", 4), ("abbb", 5), ("aaabb", 5), ("aaaa", 5)]
)
def test_the_risk_is_that_of_all_sequences(votes, to_come):
    """With one rival besides a new answer, the bound is above by what both could do at once."""
    exact = enumerated(list(votes), to_come)
    assert exact - 1e-12 <= flip_risk(tally(list(votes)), to_come) <= 1.05 * exact + 1e-12


def test_the_risk_bounds_that_of_many_rivals():
    exact = enumerated(list("aabcd"), 4)
    assert exact < flip_risk(tally(list("aabcd")), 4) < 1.2 * exact


def test_risk_falls_with_the_lead_and_with_the_votes_to_come():
    leads = [flip_risk(Tally(16 + k, ((16 - k, False),)), 32) for k in range(0, 16, 3)]
    assert all(a > b for a, b in pairwise(leads))
    horizons = [flip_risk(Tally(18, ((14, False),)), to_come) for to_come in (32, 16, 8, 4, 0)]
    assert all(a >= b for a, b in pairwise(horizons))
    assert horizons[-1] == 0


def test_ties():
    """At equal votes the answer seen first has the label: a later rival needs one vote more."""
    late, early = tally(list("aab")), tally(list("baa"))
    assert (late.rivals, early.rivals) == (((1, False),), ((1, True),))
    assert flip_risk(late, 1) == 0 < flip_risk(early, 1)
    assert locked(late, 1)
    assert not locked(early, 1)
    assert tally(list("ab"), tie="none").leader is None
    assert flip_risk(tally(list("ab"), tie="all"), 3) == 1
    assert tally(list("aab"), tie="none").rivals == ((1, True),)
    assert [flip_risk(tally([None, None]), to_come) for to_come in (4, 0)] == [1, 0], "nobody answered"


@pytest.mark.parametrize("to_come", [0, 1, 5, 8])
def test_locked_is_risk_zero(to_come):
    for lead, rival in product(range(1, 9), range(4)):
        one = Tally(lead, ((rival, False),) if rival else ())
        assert locked(one, to_come) == (flip_risk(one, to_come) == 0)


def asked(answers, **options):
    group = {"rollouts": [{"answer": a} for a in answers]}
    return votes_suffice(group, {}, method="ttrl", waves=Waves(**options))


def test_a_group_asks_for_a_wave_while_its_votes_do_not_suffice():
    assert asked("11112222", votes=64, wave=8).more == 8
    assert asked("11112222", votes=10, wave=8).more == 2
    whole = asked("1122", votes=4)
    assert (whole.more, whole.risk) == (0, 0.0)
    sure, unsure = (asked("1" * 22 + "2" * 10, votes=64, delta=delta) for delta in (0.03, 1e-4))
    assert (sure.more, unsure.more) == (0, 8)
    assert 0 < sure.risk == unsure.risk < 0.03


def test_rollouts_that_a_group_lost_do_not_matter():
    """Votes are counted, not planned: a group that lost some has as many more to come."""
    assert asked("1" * 31, votes=33).more == 0
    assert asked([*"1" * 10, *"2" * 10, *[None] * 11], votes=33, wave=8).more == 2


def test_a_method_that_does_not_pay_the_most_voted_answer_is_refused_before_a_run():
    for name, method in methods().items():
        if method.ballots is None:
            with pytest.raises(RequestError, match=f"{name} may pay another one.*that pays it: ttrl") as caught:
                require_ballots(method)
            assert caught.value.code == "rule"
        else:
            require_ballots(method)
    with pytest.raises(RequestError, match="leave adaptive out"):
        votes_suffice({"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}, {}, method="dare", waves=Waves())


def test_a_line_says_what_the_options_say():
    assert Waves.read("auto") == Waves.read("") == Waves()
    with pytest.raises(RequestError, match="wave: must be an integer >= 1"):
        Waves(wave=0)  # which would ask for no vote, as if those so far sufficed
    assert Waves.read("delta=0.02&wave=4", votes=32) == Waves(votes=32, wave=4, delta=0.02)
    for line in ("wave=x", "wave=0", "votes=0", "delta=2", "wave=2&wave=4", "yes", "rule=predictive", "draws=30"):
        with pytest.raises(RequestError):
            Waves.read(line)
