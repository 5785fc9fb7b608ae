"""When a vote is settled: published cases, exact probabilities by enumeration, and calibration on real votes."""

import gzip
import json
import math
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

import dare_reward
from dare_reward.errors import LimitError, RequestError
from dare_reward.groups import Groups
from dare_reward.methods import find
from dare_reward.scoring.request import Limits, prepare
from dare_reward.stopping.futures import outlook
from dare_reward.stopping.rules import Tally, flip_risk, locked, predictive, tallies
from dare_reward.stopping.settled import certain
from dare_reward.stopping.waves import Waves

ROOT = Path(__file__).parents[2]
TTRL = {"tie": "first", "no_answer": "clean"}


def tally(votes, **params):
    return tallies(find("ttrl").ballots(Groups.of([votes]), TTRL | params))[0]


# --- the finite horizon ----------------------------------------------------------------------------------------------


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
    found = flip_risk([tally(list(votes))], np.array([to_come]))[0]
    assert exact - 1e-12 <= found <= 1.05 * exact + 1e-12


def test_the_risk_bounds_that_of_many_rivals():
    exact, found = enumerated(list("aabcd"), 4), flip_risk([tally(list("aabcd"))], np.array([4]))[0]
    assert exact < found < 1.2 * exact


def test_risk_falls_with_the_lead_and_with_the_votes_to_come():
    leads = flip_risk([Tally(16 + k, ((16 - k, False),)) for k in range(0, 16, 3)], np.full(6, 32))
    assert all(a > b for a, b in pairwise(leads))
    horizons = flip_risk([Tally(18, ((14, False),))] * 5, np.array([32, 16, 8, 4, 0]))
    assert all(a >= b for a, b in pairwise(horizons))
    assert horizons[-1] == 0


def test_ties():
    """At equal votes the answer seen first has the label: a later rival needs one vote more."""
    late, early = tally(list("aab")), tally(list("baa"))
    assert (late.rivals, early.rivals) == (((1, False),), ((1, True),))
    assert flip_risk([late], np.array([1]))[0] == 0 < flip_risk([early], np.array([1]))[0]
    assert locked(late, 1)
    assert not locked(early, 1)
    assert tally(list("ab"), tie="none").leader is None
    assert flip_risk([tally(list("ab"), tie="all")], np.array([3]))[0] == 1
    assert tally(list("aab"), tie="none").rivals == ((1, True),)


def test_nobody_answered():
    silent = tally([None, None])
    assert flip_risk([silent], np.array([4]))[0] == 1
    assert not predictive([silent], np.array([4]))[0]
    assert predictive([silent], np.array([0]))[0]


@pytest.mark.parametrize("to_come", [0, 1, 5, 8])
def test_locked_is_risk_zero(to_come):
    for lead, rival in product(range(1, 9), range(4)):
        one = Tally(lead, ((rival, False),) if rival else ())
        assert locked(one, to_come) == (flip_risk([one], np.array([to_come]))[0] == 0)


# --- calibration -----------------------------------------------------------------------------------------------------


def real_votes(name):
    path = ROOT / name
    read = gzip.open if path.suffix == ".gz" else open
    with read(path, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def game():
    """Real votes as numbers, a row a group: GPT-4's on the game of 24, half of whose groups have no clear leader."""
    groups = prepare(real_votes("tests/data/game24_gpt4_m100.jsonl.gz")).groups
    return groups.answer_R.reshape(len(groups.sizes_P), -1)


def orders(rows, count, votes=64, seed=5):
    """Random orders of each group's votes, cut to as many as vote."""
    rng = np.random.default_rng(seed)
    return [rng.permutation(row)[:votes].tolist() for _ in range(count) for row in rows]


def as_groups(rows):
    return Groups.of([[None if a < 0 else a for a in row] for row in rows])


def labels(rows):
    groups = as_groups(rows)
    lead = find("ttrl").ballots(groups, TTRL).leader_A
    text = dict(zip(groups.group_A[lead].tolist(), np.array(groups.text_A, object)[lead], strict=True))
    return [text.get(p) for p in range(len(rows))]


def played(rule, rows, *, first=32, wave=8, **params):
    """For each group that stopped early: the risk that was named, and whether its label differs at the end."""
    open_, final, out = list(range(len(rows))), labels(rows), []
    for n in range(first, len(rows[0]), wave):
        now = [rows[i][:n] for i in open_]
        tallied = tallies(find("ttrl").ballots(as_groups(now), TTRL))
        to_come = np.full(len(now), len(rows[0]) - n)
        done, risk = rule(tallied, to_come, **params), flip_risk(tallied, to_come)
        label = labels(now)
        out += [(risk[j], label[j] != final[i]) for j, i in enumerate(open_) if done[j]]
        open_ = [i for j, i in enumerate(open_) if not done[j]]
    return np.array(out)


def at_least(flips, count, share):
    """P(X >= flips) of `count` draws: small where more labels flip than `share` allows."""
    return 1 - sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(flips))


@pytest.mark.parametrize("delta", [0.02, 0.05, 0.1])
def test_of_the_groups_stopped_at_delta_at_most_delta_flip(game, delta):
    stopped = played(predictive, orders(game, 6), delta=delta)
    assert len(stopped) > 80
    assert stopped[:, 0].max() <= delta
    assert at_least(int(stopped[:, 1].sum()), len(stopped), delta) > 0.025


def test_the_risk_that_is_named_is_the_share_that_flips(game):
    stopped = played(predictive, orders(game, 6, seed=8), delta=0.5)
    assert at_least(int(stopped[:, 1].sum()), len(stopped), max(stopped[:, 0].mean(), 1e-3)) > 0.025


def test_the_test_of_calibration_can_fail(game):
    """Without any rule, as many labels flip as no delta allows."""
    rows = orders(game, 6)
    flips = sum(a != b for a, b in zip(labels([r[:32] for r in rows]), labels(rows), strict=True))
    assert at_least(flips, len(rows), 0.1) < 1e-6


# --- rewards ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arithmetic():
    """A trained model's rollouts, with entropies: 16 groups of 64."""
    groups = real_votes("examples/arithmetic_m64.jsonl")
    return [
        {"group_id": g["group_id"], "rollouts": [
            {"text": r["text"], "mean_entropy": float(np.mean(r["token_entropies"])), "num_tokens": 9}
            for r in g["rollouts"]
        ]}
        for g in groups
    ]  # fmt: skip


def cut(groups, order, votes, trained=32):
    return [
        {**g, "group_id": f"{i}", "rollouts": [{**g["rollouts"][j], "trained": k < trained} for k, j in
         enumerate(row[:votes])]}
        for i, (g, row) in enumerate(zip(groups, order, strict=True))
    ]  # fmt: skip


def normalised(reply):
    out = []
    for g in reply.groups:
        r = np.array(g.rewards[:32])
        out.append((r - r.mean()) / (r.std() or 1))
    return out


@pytest.mark.parametrize("method", ["dare", "empo"])
def test_rewards_stop_where_the_advantages_are_those_of_all_votes(arithmetic, method):
    rng = np.random.default_rng(3)
    flips, cosines = 0, []
    for _ in range(2):
        order = [rng.permutation(64) for _ in arithmetic]
        now = cut(arithmetic, order, 48)
        found = dare_reward.settled(now, method=method, rule_params={"draws": 30})
        early, late = (dare_reward.estimate(x, method=method) for x in (now, cut(arithmetic, order, 64)))
        for g, a, b, x, y in zip(
            found.groups, early.groups, late.groups, normalised(early), normalised(late), strict=True
        ):
            if g.settled:
                flips += a.pseudo_label != b.pseudo_label
                length = np.linalg.norm(x) * np.linalg.norm(y)
                cosines.append(x @ y / length if length else 1.0)
                assert g.risk <= 0.05
                assert g.change <= 0.03
    assert len(cosines) > 12
    assert np.mean(cosines) >= 0.99
    assert at_least(flips, len(cosines), 0.05) > 0.025


def test_a_group_that_is_complete_is_settled(arithmetic):
    whole = cut(arithmetic, [np.arange(64)] * 16, 64)
    for method in ("ttrl", "dare"):
        found = dare_reward.settled(whole, method=method).groups
        assert all((g.settled, g.more, g.risk) == (True, 0, 0.0) for g in found)


def test_draws_do_not_depend_on_the_neighbours(arithmetic):
    some = cut(arithmetic, [np.arange(64)] * 16, 32)
    options = {"method": "dare", "rule_params": {"draws": 20}}
    together = dare_reward.settled(some, **options).groups
    alone = [dare_reward.settled([g], **options).groups[0] for g in some]
    assert list(together) == alone
    again = dare_reward.settled(some, method="dare", rule_params={"draws": 20, "seed": 1}).groups
    assert again != together


def test_the_futures_are_weighed_as_the_votes_are():
    """With one vote to come, the label turns as often as the urn draws the rival or, tied, the leader."""
    groups = Groups.of([["a", "a", "b", "b", None]])
    draws = 4000
    found = outlook(groups, lambda g: find("ttrl").run(g, TTRL), np.array([1]), draws=draws, prior=0.5, seed=0)
    wanted = 2.5 / (2.5 + 2.5 + 0.5 + 1)
    assert found.risk_P[0] == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / draws))


# --- what is refused -------------------------------------------------------------------------------------------------

GROUP = [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}] * 4}]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "dare", "rule": "predictive"}, "use rule=rewards"),
        ({"method": "ddrl"}, "none of them only votes"),
        ({"method": "co_rewarding_1"}, "second_group, which cannot be foreseen .* that has a rule: dare, .*ttrl"),
        ({"rule": "magic"}, "one of predictive, rewards"),
        ({"votes": 0}, "votes must be an integer >= 1"),
        ({"wave": 0}, "wave must be an integer >= 1"),
        ({"rule_params": {"confidence": 0.9}}, "unknown parameter 'confidence'. Known: change, delta"),
        ({"method": "ttrl", "rule_params": {"delta": 2}}, "delta must be a finite number > 0 and < 1"),
        ({"taau": 1}, "unknown parameter 'taau'"),
    ],
)
def test_what_is_wrong_is_said(options, words):
    with pytest.raises(RequestError, match=words):
        dare_reward.settled(GROUP, **{"method": "dare", **options})


@pytest.mark.parametrize("name", ["gt", "evol_rl", "rlpr", "verifree", "ddrl", *("co_rewarding_1", "self_harmony")])
def test_a_method_that_no_rule_can_foresee_is_refused_before_a_run(name):
    """`rule_of` is what the adapters and the agent ask when they start; the message names methods that have a rule."""
    with pytest.raises(RequestError) as caught:
        Waves().rule_of(find(name))
    named = caught.value.message.partition("that has a rule: ")[2].split(", ")
    assert {"dare", "ttrl", "empo"} <= set(named)
    assert name not in named
    for other in named:
        assert Waves().rule_of(find(other)) == ("predictive" if other == "ttrl" else "rewards")


def test_more_draws_than_a_request_may_cost():
    many = [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}]}] * 20
    many = [{**g, "group_id": str(i)} for i, g in enumerate(many)]
    with pytest.raises(LimitError, match="split it by group"):
        dare_reward.settled(many, votes=1024, rule_params={"draws": 1000}, limits=Limits(steps=1_000_000))


def test_a_group_that_cannot_be_judged_does_not_stop_its_neighbours():
    groups = [{"rollouts": [{"answer": "1"}] * 4}, {"rollouts": [{"answer": "1", "mean_entropy": 0.1}] * 32}]
    bad, good = dare_reward.settled(groups, method="dare").groups
    assert (bad.error.code, bad.settled, bad.more) == ("missing_entropy", None, None)
    assert (good.settled, good.more, good.risk) == (True, 0, 0.0)


def test_groups_with_a_method_of_their_own_have_their_own_rule():
    rollouts = [{"answer": "1", "mean_entropy": 0.1}] * 8
    groups = [{"method": "ttrl", "rollouts": rollouts}, {"rollouts": rollouts}]
    found = dare_reward.settled(groups, method="dare", votes=10)
    assert [(g.method, g.rule) for g in found.groups] == [("ttrl", "predictive"), ("dare", "rewards")]


def test_a_line_says_what_the_options_say():
    assert Waves.read("auto") == Waves()
    read = Waves.read("rule=predictive&delta=0.02&wave=4", votes=32)
    assert (read.rule, read.wave, read.votes, dict(read.rule_params)) == ("predictive", 4, 32, {"delta": 0.02})
    assert Waves.of(read.asked()) == read
    for line in ("rule=no", "wave=x", "rule=predictive&rule=rewards", "yes", "rule=predictive&draws=30"):
        with pytest.raises(RequestError):
            Waves.read(line)


@pytest.mark.parametrize("method", ["ttrl", "dare"])
def test_rollouts_that_a_group_lost_do_not_matter(method):
    """Votes are counted, not planned: a group that lost some has as many more to come."""
    groups = [{"rollouts": [{"answer": "1", "mean_entropy": 0.1}] * 31}]
    (found,) = dare_reward.settled(groups, method=method, votes=33).groups
    assert found.votes == 31
    assert found.settled


def test_a_label_is_certain_in_any_order_of_votes():
    """With tie=first a rival that is begun earlier and comes later may win the tie: 3 of 6 votes are in, and all say C."""
    votes = [{"answer": None}, {"answer": None}, *[{"answer": "C"}] * 3]
    assert not certain({"rollouts": votes}, {"tie": "first"}, method="ttrl", votes=8)
    assert certain({"rollouts": [*votes, {"answer": "C"}]}, {"tie": "first"}, method="ttrl", votes=8)
