"""Replies that are lost, services that are killed or stall: nobody is rewarded for being alone, and nobody counts twice.

The rules first, one test each; then thousands of random schedules against the rules alone, with a clock that the test
holds.
"""

from __future__ import annotations

import heapq
import random
from collections import Counter
from itertools import count

import pytest

from dare_service.joins.rendezvous import Arrival, Conflict, Differs, Full, Rendezvous

STALE, KEEP, HOLD, DEADLINE, PAUSE, TRIES = 30.0, 900.0, 170.0, 800.0, 1.0, 5


def make(**given) -> Rendezvous:
    return Rendezvous(**{"stale": STALE, "keep": KEEP, **given})


def said(text: str, *, size: int = 4, key: str = "k", share: float = 0.5, **more) -> Arrival:
    return Arrival(key, size, text.encode(), text, deadline=DEADLINE, patience=TRIES, min_share=share, **more)


def reward(group) -> list[str]:
    """The share of each answer, as a text; the answer is a rollout's first character."""
    votes = Counter(s.arrival.rollout[0] for s in group.slots)
    return [f"{votes[s.arrival.rollout[0]]}/{len(group.slots)}" for s in group.slots]


def closed(r: Rendezvous, texts, now: float = 0.0, *, lost=()) -> tuple:
    """A group that filled and was answered; the replies at the places `lost` did not arrive."""
    taken = [r.arrive(said(t, size=len(texts)), now) for t in texts]
    group = taken[-1][0]
    r.keep_results(group, reward(group), middle="middle")
    for i, (g, slot) in enumerate(taken):
        r.leave(g, slot, now, delivered=i not in lost)
    return group, [slot for _, slot in taken]


@pytest.mark.parametrize("lost", [[3], [0], [2, 3], [0, 1, 2], [0, 1, 2, 3]])
def test_a_retry_whose_reply_was_lost_finds_its_group(lost):
    r = make()
    group, slots = closed(r, ["4a", "4b", "4c", "5d"], lost=lost)
    for i in lost:
        again, slot = r.arrive(said(["4a", "4b", "4c", "5d"][i]), 1.0)
        assert (again, slot) == (group, slots[i])
    assert r.open_groups == 0


def test_a_retry_finds_its_group_however_often_its_reply_is_lost_and_as_late_as_the_last_try():
    r = make()
    group, _ = closed(r, ["4a", "5b"], lost=[1])
    for k in range(1, TRIES):
        now = k * 181.0
        r.sweep(now)
        again, slot = r.arrive(said("5b", size=2), now)
        assert again is group
        r.leave(again, slot, now, delivered=k == TRIES - 1)


def test_a_new_epoch_with_the_same_text_forms_a_group_of_its_own():
    r = make()
    group, _ = closed(r, ["4a", "4a", "5b"])
    later = [r.arrive(said(t, size=3), 300.0)[0] for t in ("4a", "4c", "5b")]
    assert later[0] is later[1] is later[2] is not group
    assert later[0].reason == "full"
    assert later[0].fate == "scored"


def test_a_duplicate_of_a_prompt_is_not_taken_for_a_retry_while_replies_are_on_their_way():
    r = make()
    first = [r.arrive(said("4a", size=2), 0)[0] for _ in range(2)]
    second = [r.arrive(said("4a", size=2), 0)[0] for _ in range(2)]
    assert first[0] is first[1]
    assert second[0] is second[1] is not first[0]


@pytest.mark.parametrize("lost", [[3], [0], [2, 3], [0, 1, 2]])
def test_leftovers_whose_replies_a_proxy_lost_get_their_groups_rewards_at_the_end_of_a_hold(lost):
    """Their replies were acknowledged, so they open a group; three of four are more than half of it."""
    texts = ["4a", "4b", "4c", "5d"]
    r = make()
    closed(r, texts)
    for i in lost:
        group, _ = r.arrive(said(texts[i]), 1.0)
        assert r.leftover(group)
    r.close(group, "patience", 1.0 + HOLD)
    assert group.fate == "recalled"
    assert r.recalled(group) == [("1/4" if texts[i] == "5d" else "3/4") for i in lost]


def test_all_replies_lost_by_a_proxy_form_the_same_group_again():
    r = make()
    closed(r, ["4a", "4b", "4c", "5d"])
    group = [r.arrive(said(t), 1.0)[0] for t in ("5d", "4b", "4a", "4c")][-1]
    assert (group.reason, group.fate) == ("full", "scored")
    assert sorted(reward(group)) == ["1/4", "3/4", "3/4", "3/4"]


def test_a_sibling_that_was_left_over_gets_the_middle_of_its_group_and_never_a_reward_for_being_alone():
    r = make()
    closed(r, ["4a", "4a", "4b", "4c"])  # 4a counted twice: its first connection was dead, and nobody knew
    group, _ = r.arrive(said("5d"), 1.0)
    assert not r.leftover(group)
    assert r.sweep(1.0 + DEADLINE).due == [group]
    r.close(group, "deadline", 1.0 + DEADLINE)
    assert group.fate == "neutral"
    assert r.recalled(group) == ["middle"]


def test_a_few_leftovers_with_unknown_ones_are_neutral_and_the_known_ones_recalled():
    r = make()
    closed(r, ["4a", "4b", "4c", "5d"])
    for text in ("5d", "6x"):
        group, _ = r.arrive(said(text), 1.0)
    r.close(group, "deadline", DEADLINE)
    assert group.fate == "neutral"
    assert r.recalled(group) == ["1/4", "middle"]


@pytest.mark.parametrize(("there", "share", "fate"), [(1, 0.5, "neutral"), (2, 0.5, "neutral"), (3, 0.5, "scored")])
def test_a_group_that_closes_early_is_scored_above_its_share(there, share, fate):
    r = make()
    for i in range(there):
        group, _ = r.arrive(said(f"4{i}", share=share), 0)
    r.close(group, "deadline", DEADLINE)
    assert group.fate == fate
    assert r.recalled(group) == [None] * there


def test_after_a_kill_the_worst_is_neutral():
    """Three of four had their replies when the service was killed; the fourth comes back to a service without memory."""
    r = make()
    closed(r, ["4a", "4b", "4c", "5d"], lost=[3])
    r = make()
    group, _ = r.arrive(said("5d"), 2.0)
    r.close(group, "deadline", DEADLINE)
    assert group.fate == "neutral"


def test_the_first_end_of_a_connection_is_enough_for_the_retry_that_is_read_in_the_same_turn():
    """After a stall the service reads broken connections and their clients' next tries at once, in this order."""
    r = make()
    taken = [r.arrive(said(t), 0.0) for t in ("4a", "4b", "4c")]
    for group, slot in taken:
        r.leave(group, slot, 4.0, delivered=False)
    back = [r.arrive(said(t), 4.0) for t in ("4c", "4a", "4b")]
    assert {id(s) for _, s in back} == {id(s) for _, s in taken}
    assert r.arrive(said("5d"), 4.0)[0].reason == "full"


def test_a_retry_beside_its_open_first_try_counts_twice_and_says_nothing_of_its_siblings():
    """Nothing tells it from an identical text. The one that is left over is not scored alone."""
    r = make()
    for text in ("4a", "4a", "4b", "4c"):
        group, _ = r.arrive(said(text), 0.0)
    assert group.reason == "full"
    r.keep_results(group, reward(group), middle="middle")
    late, _ = r.arrive(said("5d"), 0.0)
    r.close(late, "deadline", DEADLINE)
    assert r.recalled(late) == ["middle"]


def test_members_with_other_terms_are_a_conflict():
    r = make()
    r.arrive(Arrival("k", 2, b"a", "a", index=0, terms="alpha=0.1"), 0)
    with pytest.raises(Differs) as found:
        r.arrive(Arrival("k", 2, b"b", "b", index=1, terms="alpha=0.9"), 0)
    assert (found.value.had, found.value.has) == ("alpha=0.1", "alpha=0.9")
    assert isinstance(found.value, Conflict)


def test_the_oldest_rewards_go_first_when_memory_is_short_and_then_rollouts_are_refused():
    r = make(memory=10_000)
    for k in range(20):
        texts = [f"4{k}", f"5{k}"]
        closed(r, texts, float(k), lost=[0])
        assert r.bytes <= 10_000
    assert 0 < r.remembered < 5
    assert r.arrive(said("419", size=2), 21)[0].results is not None
    assert r.arrive(said("40", size=2), 21)[0].results is None
    for k in range(9):
        r.arrive(said(f"x{k}", size=64, key="other"), 22)
    assert r.remembered == 0
    with pytest.raises(Full):
        r.arrive(said("y", size=64, key="other"), 22)


def test_nothing_is_left_of_what_was_forgotten():
    r = make()
    for k in range(50):
        closed(r, [f"4{k}", f"5{k}"], float(k), lost=[k % 2])
    r.arrive(said("z"), 50)
    r.leave(*r.arrive(said("y", key="l"), 50), 50, delivered=False)
    r.sweep(60)
    r.sweep(60 + DEADLINE)
    for group in list(r):
        r.drop(group)
    assert not r
    assert (r.bytes, r.remembered, r.open_groups, r._away, dict(r._kept)) == (0, 0, 0, {}, {})


def test_a_sweep_does_not_look_at_what_is_remembered(monkeypatch):
    """10,000 groups that are remembered cost a sweep nothing: counted in looks, not in seconds."""
    r = make()
    for k in range(10_000):
        closed(r, [f"4{k}"], 0.0)
    looks = Counter()
    monkeypatch.setattr(r, "_holds", lambda group: looks.update(["holds"]) or True)
    monkeypatch.setattr(r, "drop", lambda group: looks.update(["drop"]))
    assert r.remembered == 10_000
    r._looks = [look for look in r._looks if look[0] > 1.0]
    r.sweep(1.0)
    assert looks == Counter()


# --- random schedules -------------------------------------------------------------------------------------------------


class Told(str):  # noqa: SLOT000
    """A reply, and whether it says of itself that its group was not complete."""

    flagged: bool


def told(text: str, *, flagged: bool) -> Told:
    made = Told(text)
    made.flagged = flagged
    return made


class Client:
    """One rollout's client, as OpenRLHF's: five tries, a second apart, until it has a reply."""

    def __init__(self, key: str, text: str) -> None:
        self.key, self.text = key, text
        self.tries = 0
        self.got: tuple | None = None
        self.on: tuple | None = None


class World:
    """Clients, a service that may stall or be killed, and connections that break.

    troubles   which may happen: drop (while waiting), lose (the reply; the service sees it), swallow (the reply; a proxy
               has acknowledged it), kill (the service, with its memory), stall (what clients do meanwhile is read at once)
    """

    def __init__(self, seed: int, troubles: frozenset[str], *, size: int = 6, prompts: int = 3, same: bool = False):
        self.random = random.Random(seed)
        self.troubles = troubles
        self.size = size
        self.now = 0.0
        self.events: list = []
        self.numbers = count()
        self.r = make()
        self.killed = False
        self.scored: list = []
        self.stalled_until = 0.0
        self.inbox: list = []
        self.clients = [
            Client(f"p{p}", f"{self.random.choice('445')}{'' if same and self.random.random() < 0.6 else i}")
            for p in range(prompts)
            for i in range(size)
        ]
        self.right = {}
        for p in range(prompts):
            group = [c for c in self.clients if c.key == f"p{p}"]
            votes = Counter(c.text[0] for c in group)
            for c in group:
                self.right[c.key, c.text] = f"{votes[c.text[0]]}/{size}"
        for c in self.clients:
            self.at(self.random.random() * 20, self.post, c)
        if "kill" in troubles:
            self.at(self.random.random() * 20, self.kill)
        if "stall" in troubles:
            for _ in range(3):
                self.at(self.random.random() * 20, self.stall)
        self.at(2.0, self.tick)

    def at(self, delay: float, what, *args) -> None:
        heapq.heappush(self.events, (self.now + delay, next(self.numbers), what, args))

    def run(self) -> None:
        while any(c.got is None for c in self.clients) and self.events and self.now < 5000:
            self.now, _, what, args = heapq.heappop(self.events)
            what(*args)

    def often(self, trouble: str, share: float) -> bool:
        return trouble in self.troubles and self.random.random() < share

    # what clients do

    def post(self, c: Client) -> None:
        c.tries += 1
        token = object()
        c.on = token
        self.deliver(self.arrived, c, token)
        if c.tries < TRIES and self.often("drop", 0.4):
            self.at(self.random.random() * 10, self.breaks, c, token)

    def breaks(self, c: Client, token: object) -> None:
        if c.on is token and c.got is None:
            c.on = None
            self.deliver(self.left, c, token)
            self.at(PAUSE, self.post, c)

    # what the service does with it, at once or after its stall

    def deliver(self, what, *args) -> None:
        if self.now < self.stalled_until:
            self.inbox.append((what, args))
        else:
            what(*args)

    def stall(self) -> None:
        self.stalled_until = self.now + 2 + 8 * self.random.random()
        self.at(self.stalled_until - self.now, self.wake)

    def wake(self) -> None:
        if self.now < self.stalled_until:
            return
        inbox, self.inbox = self.inbox, []
        for what, args in inbox:
            what(*args)

    def kill(self) -> None:
        """Everything is gone; who waited comes back a second later."""
        self.r = make()
        self.killed = True
        self.inbox = []
        self.waiting_at_the_service = {}
        for c in self.clients:
            if c.on is not None and c.got is None:
                c.on = None
                self.at(PAUSE + self.random.random() * 2, self.post, c)

    waiting_at_the_service: dict

    def arrived(self, c: Client, token: object) -> None:
        if c.on is not token:  # dead on arrival
            return
        group, slot = self.r.arrive(said(c.text, size=self.size, key=c.key), self.now)
        if group.promise is None:
            group.promise = []
        group.promise.append((c, token, slot))
        if group.reason is not None:
            self.score(group)
        else:
            self.at(HOLD, self.held, c, token, group)

    def left(self, c: Client, token: object) -> None:
        for group in list(self.r):
            for entry in [e for e in group.promise or [] if e[1] is token]:
                group.promise.remove(entry)
                self.r.leave(group, entry[2], self.now, delivered=False)

    def held(self, c: Client, token: object, group) -> None:
        entry = next((e for e in group.promise if e[1] is token), None)
        if entry is None or c.on is not token or group.reason is not None:
            return
        if self.r.leftover(group):
            self.r.close(group, "patience", self.now)
            self.score(group)
            return
        group.promise.remove(entry)
        self.r.leave(group, entry[2], self.now, delivered=False)
        c.on = None
        self.at(PAUSE, self.post, c)

    def tick(self) -> None:
        for group in self.r.sweep(self.now).due:
            self.r.close(group, "deadline", self.now)
            self.score(group)
        self.at(2.0, self.tick)

    def score(self, group) -> None:
        if group.results is None:
            made = ["neutral"] * len(group.slots)
            if group.fate == "scored":
                made = reward(group)
                self.scored.append((group.key, group.reason, Counter(s.arrival.identity for s in group.slots)))
            known = self.r.recalled(group) if group.fate != "scored" else made
            results = [m if k is None else k for k, m in zip(known, made, strict=True)]
            flagged = group.reason != "full" and group.fate != "recalled"
            results = [told(x, flagged=flagged or getattr(x, "flagged", False)) for x in results]
            self.r.keep_results(group, results, told("middle", flagged=True))
        waiting, group.promise = group.promise, []
        for c, token, slot in waiting:
            self.reply(c, token, group, slot, group.results[group.slots.index(slot)])

    def reply(self, c: Client, token: object, group, slot, result) -> None:
        arrives = c.on is token
        last = c.tries == TRIES
        if arrives and not last and self.often("lose", 0.4):
            arrives = False
        swallowed = arrives and not last and self.often("swallow", 0.3)
        self.r.leave(group, slot, self.now, delivered=arrives)
        if arrives and not swallowed:
            c.got, c.on = (result, result.flagged), None
        elif c.on is token:
            c.on = None
            self.at(PAUSE, self.post, c)


TROUBLES = [
    "drop",
    "lose",
    "drop lose",
    "drop lose stall",
    "swallow",
    "drop lose swallow",
    "kill",
    "drop lose kill",
    "drop lose swallow kill stall",
]


@pytest.mark.parametrize("same", [False, True], ids=["distinct", "identical"])
@pytest.mark.parametrize("troubles", TROUBLES)
def test_every_reward_is_its_groups_or_says_that_it_is_not(troubles, same):
    troubles = frozenset(troubles.split())
    wrong, unflagged, seen = [], 0, Counter()
    for seed in range(150):
        world = World(seed, troubles, same=same)
        world.run()
        members = {k: Counter(c.text.encode() for c in world.clients if c.key == k) for k in ("p0", "p1", "p2")}
        for key, reason, votes in world.scored:
            assert votes <= members[key], (seed, "a rollout counted twice")
            assert reason != "full" or votes == members[key], (seed, "a group is not its siblings")
            assert votes.total() > 3, (seed, "a few leftovers were scored")
        if not troubles & {"kill", "swallow"}:
            assert world.now < HOLD, (seed, "what the service could see was not made good at once")
        for c in world.clients:
            assert c.got is not None, (seed, c.text, c.tries)
            got, flagged = c.got
            unflagged += not flagged
            seen[got == world.right[c.key, c.text], flagged] += 1
            if not flagged and got != world.right[c.key, c.text]:
                wrong.append((seed, c.key, c.text, got))
    assert wrong == []
    assert unflagged > 0.9 * seen.total() or "kill" in troubles
    if not troubles & {"kill", "swallow"}:
        assert set(seen) == {(True, False)}, "what the service could see, it made good"
