"""Which slot a request takes, when a group closes, what is forgotten when: with a clock that the test holds."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dare_service.joins.rendezvous import Arrival, Conflict, Rendezvous

STALE, KEEP = 30.0, 900.0


def make() -> Rendezvous:
    return Rendezvous(stale=STALE, keep=KEEP)


def said(
    text: str, *, size: int = 3, key: str = "k", index: int | None = None, deadline: float | None = None, **more: object
) -> Arrival:
    return Arrival(key, size, text.encode(), text, index, deadline, **more)


def rollouts(group):
    return [s.arrival.rollout for s in group.slots]


def test_other_keys_are_other_groups():
    r = make()
    one, _ = r.arrive(said("a", key="k"), 0)
    two, _ = r.arrive(said("a", key="l"), 0)
    assert one is not two
    assert r.open_groups == 2


def test_a_retry_takes_its_slot_back():
    r = make()
    group, slot = r.arrive(said("a"), 0)
    r.leave(group, slot, 170, delivered=False)
    again, same = r.arrive(said("a"), 171)
    assert (again, same) == (group, slot)
    assert slot.tries == 2
    assert len(group.slots) == 1


def test_of_two_slots_that_are_away_the_older_one_is_taken():
    r = make()
    group, one = r.arrive(said("a", size=4), 0)
    _, two = r.arrive(said("a", size=4), 0)
    r.leave(group, two, 1, delivered=False)
    r.leave(group, one, 2, delivered=False)
    assert r.arrive(said("a", size=4), 3)[1] is two
    assert r.arrive(said("a", size=4), 3)[1] is one
    assert r.arrive(said("a", size=4), 3)[1] not in {one, two}


def test_a_slot_that_is_away_votes_and_its_reward_waits_for_it():
    r = make()
    group, lost = r.arrive(said("a", size=2), 0)
    r.leave(group, lost, 1, delivered=False)
    _, other = r.arrive(said("b", size=2), 1.5)
    assert group.reason == "full"
    r.leave(group, other, 1.6, delivered=True)
    assert r.arrive(said("a", size=2), 2)[1] is lost


def test_rewards_are_kept_for_their_time_after_the_last_reply_and_no_longer():
    for later, kept in ((KEEP - 1, True), (KEEP + 1, False)):
        r = make()
        group, lost = r.arrive(said("a", size=2), 0)
        r.leave(group, lost, 1, delivered=False)
        r.leave(*r.arrive(said("b", size=2), 1), 100, delivered=True)
        r.sweep(100 + later)
        assert (r.arrive(said("a", size=2), 100 + later)[0] is group) is kept


def test_a_delivered_group_is_remembered_without_its_rollouts_and_then_forgotten():
    r = make()
    taken = [r.arrive(said(t, size=2), 0) for t in "ab"]
    group = taken[0][0]
    r.keep_results(group, [b"1", b"2"])
    for g, slot in taken:
        r.leave(g, slot, 1, delivered=True)
    assert rollouts(group) == [None, None]
    assert (group.result(b"a"), group.result(b"b"), group.result(b"c")) == (b"1", b"2", None)
    assert r.arrive(said("a", size=2), 1)[0] is not group
    r.sweep(2 + STALE)
    r.sweep(1 + KEEP)
    assert r.remembered == 0


def test_a_stale_slot_loses_its_vote():
    r = make()
    group, gone = r.arrive(said("a"), 0)
    r.arrive(said("b"), 0)
    r.leave(group, gone, 1, delivered=False)
    r.arrive(said("c"), 1 + STALE)
    assert rollouts(group) == ["b", "c"]
    assert group.reason is None


def test_a_group_without_clients_is_dropped():
    r = make()
    group, slot = r.arrive(said("a"), 0)
    r.leave(group, slot, 1, delivered=False)
    assert r.sweep(STALE).expired == 0
    assert r.sweep(1 + STALE).expired == 1
    assert list(r) == []


def test_the_next_run_does_not_meet_the_votes_of_a_crashed_one():
    r = make()
    for text in "ab":
        r.leave(*r.arrive(said(text), 0), 1, delivered=False)
    group = [r.arrive(said(t), 100)[0] for t in "xyz"][-1]
    assert rollouts(group) == ["x", "y", "z"]


def test_due_counts_from_the_earliest_arrival_that_still_counts():
    r = make()
    group, early = r.arrive(said("a", deadline=800), 0)
    r.arrive(said("b", deadline=800), 100)
    assert r.sweep(699).due == []
    r.leave(group, early, 700, delivered=False)
    assert r.sweep(800).due == []
    assert r.sweep(899).due == []
    assert r.sweep(900).due == [group]


def test_duplicates_of_a_prompt_form_two_groups_in_order_of_arrival():
    r = make()
    taken = [r.arrive(said(t), i) for i, t in enumerate("abcdef")]
    assert [g.reason for g, _ in taken] == ["full"] * 6
    assert rollouts(taken[0][0]) == ["a", "b", "c"]
    assert rollouts(taken[5][0]) == ["d", "e", "f"]


def test_an_index_is_idempotent_while_open_and_when_closed():
    r = make()
    group, slot = r.arrive(said("a", size=2, index=1), 0)
    assert r.arrive(said("a", size=2, index=1), 1)[1] is slot
    assert slot.attached == 2
    r.arrive(said("b", size=2, index=0), 2)
    assert rollouts(group) == ["b", "a"]
    for s in (slot, slot, group.slots[0]):
        r.leave(group, s, 3, delivered=True)
    assert r.arrive(said("a", size=2, index=1), 4)[1] is slot


def test_contradictions_are_conflicts():
    r = make()
    r.arrive(said("a", size=2, index=0), 0)
    with pytest.raises(Conflict, match="other content"):
        r.arrive(said("b", size=2, index=0), 0)
    with pytest.raises(Conflict, match="group_size"):
        r.arrive(said("b", size=3, index=1), 0)


def test_a_group_that_closed_early_takes_no_late_index():
    r = make()
    group, _ = r.arrive(said("a", size=2, index=0), 0)
    r.close(group, "deadline", 1)
    with pytest.raises(Conflict, match="closed without index 1"):
        r.arrive(said("b", size=2, index=1), 2)


def test_a_late_index_of_a_client_that_counts_its_tries_is_neutral_at_once():
    """Its client would end the run of a Conflict."""
    r = make()
    first, _ = r.arrive(said("a", size=3, index=0, patience=5), 0)
    r.arrive(said("b", size=3, index=1, patience=5), 0)
    r.close(first, "deadline", 1)
    assert first.fate == "scored"
    r.keep_results(first, ["x", "y"], "m")
    for now, index in ((2, 2), (3, 2)):
        late, slot = r.arrive(said("c", size=3, index=index, patience=5), now)
        assert (late.reason, late.fate, r.recalled(late)) == ("deadline", "neutral", ["m"])
        assert late is not first
    assert slot.tries == 2
    assert r.open_groups == 0


@pytest.mark.parametrize(("members", "fate"), [(1, "neutral"), (2, "scored")])
def test_nothing_is_scored_alone_whatever_the_share(members, fate):
    r = make()
    for i in range(members):
        group, _ = r.arrive(said(f"{i}", size=8, min_share=0.0), 0)
    r.close(group, "deadline", 1)
    assert group.fate == fate


SIZE = 4


class Clients(RuleBasedStateMachine):
    """Clients of one prompt that come, are sent away after the hold, and come back within the gap."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.r = make()
        self.waiting: list[tuple] = []
        self.away: list[str] = []
        self.rewarded = 0
        self.started = 0

    @rule(text=st.sampled_from("aab"))
    def start(self, text: str) -> None:
        self.started += 1
        self._arrive(text)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def hold_expires(self, data) -> None:
        text, group, slot = self.waiting.pop(data.draw(st.integers(0, len(self.waiting) - 1)))
        self.r.leave(group, slot, self.now, delivered=False)
        self.away.append(text)

    @precondition(lambda self: self.away)
    @rule(data=st.data())
    def comes_back(self, data) -> None:
        self._arrive(self.away.pop(data.draw(st.integers(0, len(self.away) - 1))))

    @rule(seconds=st.floats(0, 2))
    def time_passes(self, seconds: float) -> None:
        """Less than the stale time in sum while somebody is away: clients pause one second."""
        for text in self.away:
            self._arrive(text)
        self.away = []
        self.now += seconds
        self.r.sweep(self.now)

    def _arrive(self, text: str) -> None:
        group, slot = self.r.arrive(said(text, size=SIZE), self.now)
        self.waiting.append((text, group, slot))
        if group.reason is not None:
            self._deliver(group)

    def _deliver(self, group) -> None:
        for entry in [w for w in self.waiting if w[1] is group]:
            self.waiting.remove(entry)
            self.r.leave(group, entry[2], self.now, delivered=True)
            self.rewarded += 1

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        unpaid = [s for g in self.r for s in g.slots if not s.delivered]
        assert len(self.waiting) <= len(unpaid) <= len(self.waiting) + len(self.away)
        assert self.started == self.rewarded + len(self.waiting) + len(self.away)

    @invariant()
    def groups_are_right(self) -> None:
        for group in self.r:
            assert len(group.slots) <= SIZE
            assert (len(group.slots) == SIZE) is (group.reason == "full")
            assert all(s.attached in {0, 1} for s in group.slots)
            assert group.away == sum(s.away for s in group.slots)

    @invariant()
    def if_all_are_there_all_full_groups_are_paid(self) -> None:
        if not self.away:
            assert self.rewarded == self.started - self.started % SIZE


TestClients = Clients.TestCase
TestClients.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
