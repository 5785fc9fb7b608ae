"""Which rollouts are one group: any order of its members, any spelling of their label, any part of what was planned."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dare_reward import estimate
from dare_reward.membership import PLACE, Member, gather, place_of, plain

# Spellings of the answer 4.
FOUR = ["4", "4.0", " 4", r"\boxed{4}", "four", "the answer is 4.", ["4"], ["4", "4.0"], "8/2", r"\frac{8}{2}"]
ANSWERS = ["1", "1", "2", "2", "2", "3", None]


def scored(groups, method):
    """Of each group its rollouts' rewards by their names, or the name of its refusal; and its flags."""
    out = {}
    for n, group in enumerate(groups):
        if group.refusal is not None:
            out |= {item["id"]: (group.refusal.code, ()) for item in group.items}
            continue
        params = {"missing_entropy": "frequency"} if method == "dare" else {}
        sent = {"group_id": str(n), **group.fields(), "rollouts": group.items}
        (reply,) = estimate([sent], method=method, **params).groups
        flags = tuple(f for f in reply.flags or () if f in {"partial", "neutral", "label_conflict"})
        rewards = reply.rewards or [reply.error.code] * len(group.items)
        out |= {item["id"]: (reward, flags) for item, reward in zip(group.items, rewards, strict=True)}
    return out


def members(answers=ANSWERS, labels=(None,) * 7, **known):
    rollouts = [{"id": str(i), "answer": answer} for i, answer in enumerate(answers)]
    known = {"prompt": "p"} | known
    return [
        Member(rollout, label=label, index=i, content=rollout["answer"], **known)
        for i, (rollout, label) in enumerate(zip(rollouts, labels, strict=False))
    ]


def codes(found):
    return [None if group.refusal is None else group.refusal.code for group in found]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), method=st.sampled_from(["ttrl", "dare", "gt"]), stated=st.integers(1, 9))
def test_no_order_of_the_members_and_no_spelling_of_their_labels_changes_a_reward_or_a_refusal(data, method, stated):
    answers = data.draw(st.lists(st.sampled_from(["4", "4.0", "5", "6", None]), min_size=1, max_size=9))
    wanted = data.draw(st.lists(st.sampled_from([*FOUR, "", None, "5", ["5", "4"]]), min_size=9, max_size=9))
    other = data.draw(st.booleans())
    group = members(answers, wanted, size=stated, key="k")
    if other:
        group = [Member(m.item, key="k", prompt=str(m.index % 2), index=m.index) for m in group]
    expected = scored(gather(group), method)
    assert scored(gather(data.draw(st.permutations(group))), method) == expected
    spelt, one, bare = (
        [Member(m.item, key="k", prompt=m.prompt, index=m.index, size=m.size, label=label()) for m in group]
        for label in (lambda: data.draw(st.sampled_from(FOUR)), lambda: "4", lambda: None)
    )
    assert scored(gather(spelt), method) == scored(gather(one), method)
    if method != "gt":
        without = scored(gather(bare), method)
        assert {k: v[0] for k, v in expected.items()} == {k: v[0] for k, v in without.items()}


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 3), size=st.integers(1, 4), method=st.sampled_from(["ttrl", "dare"]))
def test_a_step_gives_the_same_rewards_in_one_request_and_split_between_its_groups(cut, size, method):
    step = [
        Member({"id": f"{p}-{i}", "answer": "12"[(i * p) % 2]}, prompt=f"prompt {p}", size=size)
        for p in range(3)
        for i in range(size)
    ]
    apart = {**scored(gather(step[: cut * size]), method), **scored(gather(step[cut * size :]), method)}
    assert scored(gather(step), method) == apart


@pytest.mark.parametrize("labels", [("4", "5"), ("4", ["4", "5"]), ("5 cm", "5 m"), ("", "4", None, "5")])
def test_labels_that_contradict_each_other_are_none_and_gt_says_so(labels):
    for order in itertools.permutations(labels):
        (group,) = gather(members(labels=[*order, *[order[0]] * 5]))
        assert group.fields() == {"label_conflict": True}
        rewards, bare = ({k: v[0] for k, v in scored(g, "dare").items()} for g in ([group], gather(members())))
        assert rewards == bare
        assert {v[1] for v in scored([group], "ttrl").values()} == {("label_conflict",)}
        assert {v[0] for v in scored([group], "gt").values()} == {"label_conflict"}


def test_labelled_gt_refuses_the_groups_whose_labels_contradict_each_other_and_no_other():
    clear, unclear = ([{"answer": a} for a in "112"] for _ in range(2))
    groups = [{"label": "2", "rollouts": clear}, {"label_conflict": True, "rollouts": unclear}, {"rollouts": clear}]
    found = estimate(groups, method="ttrl", labelled="gt").groups
    assert [g.rewards or g.error.code for g in found] == [(0.0, 0.0, 1.0), "label_conflict", (1.0, 1.0, 0.0)]
    (marked,) = estimate([{**groups[1], "rollouts": [{**r, "correct": True} for r in unclear]}], method="gt").groups
    assert marked.rewards == (1.0, 1.0, 1.0), "flags of the rollouts themselves are no labels"


def test_of_a_choice_the_letters_are_the_options_and_no_other_letter_is_a_label():
    (group,) = gather(members("ABC", ["A", "(A)", "Z"], kind="choice", options=4))
    assert group.fields() == {"kind": "choice", "options": 4, "label": "A"}
    letters = [Member({}, key="k", kind="choice", options=options) for options in (2, ["A", "B"], ("A", "B"), None)]
    assert codes(gather(letters)) == [None]


CONFLICTS = {"prompt": [("p", "q"), ("caf\u00e9", "cafe\u0301")], "kind": [("math", "choice")]}
CONFLICTS |= {"options": [(4, 5)], "size": [(4, 8)]}


@pytest.mark.parametrize(("field", "values"), [(name, pair) for name, pairs in CONFLICTS.items() for pair in pairs])
def test_members_of_one_key_that_disagree_are_refused_in_any_order(field, values):
    for order in itertools.permutations([*values, None]):
        found = gather([Member({"id": str(i)}, key="k", **{field: value}) for i, value in enumerate(order)])
        assert codes(found) == [f"{field}_conflict"]
        assert len(found[0].members) == 3
        again = gather([Member(0, key="k", index=0, content="same", **{field: value}) for value in order])
        assert (codes(again), len(again[0].copies)) == ([f"{field}_conflict"], 2), "nor does the order of copies decide"


def test_a_key_and_a_prompt_of_the_same_text_are_two_groups():
    assert len(gather([Member(1, key="p"), Member(2, prompt="p")])) == 2


@pytest.mark.parametrize("name", PLACE)
def test_two_runs_steps_epochs_or_versions_are_different_groups(name):
    rows = [{name: 1}, {name: 2}, {name: 1.0}, {name: "1"}, {name: "2.0"}, {}, {name: None}, {name: float("nan")}]
    found = gather(Member(i, prompt="p", place=place_of(row)) for i, row in enumerate(rows))
    assert [group.items for group in found] == [[0, 2, 3], [1, 4], [5, 6, 7]]


def test_what_is_no_name_is_refused_by_its_field():
    with pytest.raises(ValueError, match="step: must be a text or a number"):
        place_of({"step": True})
    assert [plain(value) for value in (7, 7.0, "7.0", "007", 1.5, "")] == ["7", "7", "7", "007", "1.5", None]


def test_an_index_twice_is_one_member_with_the_same_content_and_a_refusal_with_another():
    again = [Member(i, key="k", index=i % 2, content=i % 2) for i in range(4)]
    (group,) = gather(again)
    assert (group.items, len(group.copies), group.refusal) == ([0, 1], 2, None)
    for order in ("12", "21"):
        (group,) = gather([Member(0, key="k", index=0, content=0, label=label) for label in order])
        assert (len(group.copies), group.label, group.label_conflict) == (1, None, True)
    assert codes(gather([*again, Member(9, key="k", index=1, content="other")])) == ["index_conflict"]
    assert codes(gather([Member(i, key="k", index=0) for i in range(3)])) == ["index_conflict"]


def test_members_stand_by_their_index():
    assert gather([Member(i, key="k", index=i) for i in (2, 0, 1)])[0].items == [0, 1, 2]


@pytest.mark.parametrize("there", range(1, 9))
def test_more_than_half_of_a_group_is_scored_and_less_gets_equal_rewards(there):
    found = scored(gather(members("12" * 4, [None] * there, size=8, key="k")), "ttrl")
    flags = ("neutral",) if there <= 4 else ("partial",) if there < 8 else ()
    assert {value[1] for value in found.values()} == {flags}
    assert len({value[0] for value in found.values()}) == (1 if there <= 4 else 2)


def test_a_part_of_a_group_that_lacks_all_that_a_method_needs_ends_nothing():
    (reply,) = estimate([{"group_size": 4, "rollouts": [{"answer": "1"}]}], advantage="grpo").groups
    assert (reply.error, reply.rewards, reply.advantages, reply.drop) == (None, (0.0,), (0.0,), "zero_variance")


def test_more_than_the_stated_size_fill_groups_in_order_unless_a_key_says_that_they_are_one():
    found = gather([Member(i, prompt="p", size=4) for i in range(9)])
    assert [group.items for group in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [group.repeated for group in found] == [False, True, True]
    assert codes(gather([Member(i, key="k", size=4) for i in range(5)])) == ["size_conflict"]
    assert codes(gather([Member(i, key="k", size=4, index=i) for i in (0, 4)])) == ["size_conflict"]
    with pytest.raises(ValueError, match="2 rollouts of a group of 1"):
        estimate([{"group_size": 1, "rollouts": [{"answer": "1"}] * 2}])


def test_a_step_that_was_written_twice_is_two_groups_and_mixed_lines_are_one():
    twice = [Member(i, prompt="p", stretch=stretch) for i, stretch in enumerate((0, 0, 1, 1, 1))]
    assert [(group.items, group.repeated) for group in gather(twice)] == [([0, 1], False), ([2, 3, 4], True)]
    mixed = [Member(i, prompt="p", stretch=stretch) for i, stretch in enumerate((0, 1, 1, 2))]
    assert [(group.items, group.repeated) for group in gather(mixed)] == [([0, 1, 2, 3], False)]
    other = [Member(i, prompt="q", stretch=stretch) for i, stretch in enumerate((0, 0, 1, 1))]
    elsewhere = [Member(m.item, prompt="q", stretch=m.stretch, place=place_of({"run": "other"})) for m in other]
    assert [group.items for group in gather([*mixed, *other, *elsewhere])] == [[0, 1, 2, 3]] * 2 + [[0, 1], [2, 3]]


def test_a_member_without_key_and_prompt_is_a_mistake_of_the_caller():
    with pytest.raises(ValueError, match="a key or a prompt"):
        gather([Member(1)])
