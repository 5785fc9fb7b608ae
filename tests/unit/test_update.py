"""What becomes of rewards: selection, fixed advantages, reshaping, and what carries nothing."""

import json
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from said import said

import dare_reward
from dare_reward.advantages import ear
from dare_reward.errors import ReplyError, RequestError
from dare_reward.methods import methods
from dare_reward.reply import check_fit
from dare_reward.scoring.diagnostics import leader_probability
from dare_reward.scoring.update import Update, update_specs

pytestmark = pytest.mark.usefixtures("plugins")

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "new_methods.json").read_text())
ANSWERS = st.lists(st.sampled_from([*"aaaabbcde", None]), min_size=1, max_size=16)


def group(answers, *, entropies=None, trained=None, **more):
    return {"kind": "exact", "rollouts": said(answers, mean_entropy=entropies, trained=trained), **more}


def score(answers, method="ttrl", **params):
    inputs = {k: params.pop(k) for k in ("entropies", "trained") if k in params}
    return dare_reward.estimate([group(answers, **inputs)], method=method, **params).groups[0]


def test_options_and_parameters_have_different_names():
    options = {s.name for s in update_specs()}
    for method in methods().values():
        assert not options & {s.name for s in method.specs}, method.name
    assert Update.of({}).asked() == {}
    assert Update.of({"selection": "ddrl", "ear_floor": None}).asked() == {"selection": "ddrl", "ear_floor": None}


@pytest.mark.parametrize("case", GOLDEN["ddrl"], ids=lambda c: c["id"])
def test_ddrl_golden(case):
    expected, size = case["expected"], case["config"]["n_train"]
    whole = score(case["input"]["answers"], "ddrl", advantage="ddrl", n_train=size, on_all_invalid="negative")
    apart = score(case["input"]["answers"], advantage="fixed", selection="ddrl", selection_size=size)
    for found in (whole, apart):
        assert list(found.select) == expected["select"]
        assert list(found.rewards) == expected["rewards"]
        assert list(found.advantages) == expected["advantages"]
        assert found.pseudo_label == expected["pseudo_label"]


def released(answers, size):
    """The released selection, from its description: counts, a stable sort, the two ends of it."""
    counts = Counter(a for a in answers if a is not None)
    ordered = sorted(range(len(answers)), key=lambda i: counts.get(answers[i], 0), reverse=True)
    ratio = max(counts.values(), default=0) / len(answers)
    high = min(int(ratio * len(answers)), size // 2)
    return ordered[:high] + ordered[-(size - high) :]


@settings(max_examples=300)
@given(answers=ANSWERS, data=st.data())
def test_selection_is_the_released_one(answers, data):
    """Up to 16 rollouts, where the release's product of floats is exact."""
    size = data.draw(st.integers(1, len(answers)))
    if any(int(c / len(answers) * len(answers)) != c for c in range(1, len(answers))):
        return
    assert list(score(answers, selection="ddrl", selection_size=size).select) == released(answers, size)


def test_how_many_are_selected():
    eight = [*"aaabbcde"]
    assert len(score(eight, selection="ddrl").select) == 4, "half of all"
    assert len(score(eight, selection="ddrl", trained=[True] * 3 + [False] * 5).select) == 3, "as many as are trained"
    assert len(score(eight, selection="ddrl", selection_size=99).select) == 8
    assert score(["a"], selection="ddrl").select == (0,)


def test_ddrl_flags_what_its_release_does():
    assert "unanimous" in score([*"aaaa"], "ddrl").flags
    assert "positive_negatives" in score([*"aaaaaaab"], "ddrl").flags
    assert "tied_positives" in score([*"babaabcd"], "ddrl").flags
    plain = score([*"aaabbcde"], "ddrl").flags
    assert not {"unanimous", "positive_negatives", "tied_positives"} & set(plain)


@given(answers=ANSWERS, size=st.integers(1, 20))
def test_ddrl_in_parts_has_the_flags_of_the_whole(answers, size):
    own = {"unanimous", "positive_negatives", "tied_positives"}
    whole = score(answers, "ddrl", advantage="ddrl", n_train=size, on_all_invalid="negative")
    apart = score(answers, "ttrl", advantage="fixed", selection="ddrl", selection_size=size)
    assert own & set(apart.flags) == own & set(whole.flags)
    other = score(answers, "empo", selection="ddrl", selection_size=size)
    assert own & set(other.flags) == own & set(apart.flags), "they are about the selection, not about the rewards"
    assert not own & set(score(answers, "ttrl", advantage="fixed").flags)


def test_ddrl_skips_what_nobody_answers():
    found = score("...", "ddrl", advantage="ddrl")
    assert (found.select, found.advantages, found.drop) == ((), (None, None, None), "all_invalid")
    found = score("....", "ddrl", advantage="ddrl", on_all_invalid="negative")
    assert (found.select, found.advantages) == ((2, 3), (None, None, -1.0, -1.0))
    assert found.drop is None, "minus one for each is something"


@given(answers=ANSWERS)
def test_advantages_are_over_what_is_selected(answers):
    found = score(answers, "empo", selection="ddrl", advantage="grpo_population")
    chosen = [i in found.select for i in range(len(answers))]
    assert [a is not None for a in found.advantages] == chosen
    rewards = np.array([r for r, on in zip(found.rewards, chosen, strict=True) if on])
    expected = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    np.testing.assert_allclose([a for a in found.advantages if a is not None], expected, atol=1e-6)


OWN = {"method": "gmae", "advantage": "gmae", "calibration": "none"}


@pytest.mark.parametrize(
    ("options", "loc", "words"),
    [
        # a method's own advantages are over all trained rollouts: a selection would only hide some of them
        (OWN | {"selection": "ddrl"}, "selection", "selection=ddrl cannot go with gmae's own advantages"),
        ({"method": "cocov", "selection": "ddrl"}, "selection", "selection=ddrl cannot go with cocov's own advantages"),
        *(
            ({"method": "ddrl", "selection": "ddrl", "advantage": own}, "selection", "ddrl selects by itself")
            for own in (None, "fixed", "ddrl")
        ),
        ({"advantage": "grpo", "selection_size": 2}, "selection_size", "there is no selection: set selection too"),
        ({"advantage": "grpo", "ear_floor": 0.5}, "ear_floor", "there is no reshape: set reshape too"),
        ({"advantage": "grpo", "ear_floor": None}, "ear_floor", "there is no reshape: set reshape too"),
        ({"reshape": "ear"}, "reshape", "set advantage too"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, loc, words):
    with pytest.raises(RequestError, match=words) as caught:
        score([*"aabc"], **options)
    assert (caught.value.loc, caught.value.code) == ((loc,), "conflict")


def test_a_method_selects_exactly_if_its_entry_says_so(full_groups, needed_params):
    for method in methods().values():
        reply = dare_reward.estimate(full_groups(count=1), method=method.name, **needed_params(method.name))
        assert (reply.groups[0].select is not None) == method.selects, method.name


EAR = [c for c in GOLDEN["ear"] if c["config"]["variant"] == "adv_res"]


@pytest.mark.parametrize("case", EAR, ids=lambda c: c["id"])
def test_ear_golden(case):
    sent, expected = case["input"], case["expected"]
    base = np.array([np.nan if a is None else a for a in expected["base_advantages"]])
    trained = np.array(sent["trained"])
    found = ear(
        base, np.array(sent["mean_entropy"]), np.array([len(base)]), trained_R=trained, floor=case["config"]["floor"]
    )
    np.testing.assert_allclose(found, [np.nan if a is None else a for a in expected["advantages"]], rtol=0, atol=1e-12)


IN_REPLIES = [c for c in GOLDEN["ear"] if c["config"]["advantage"] == "grpo" and c["id"] != "single"]


@pytest.mark.parametrize("case", IN_REPLIES, ids=lambda c: c["id"])
def test_ear_in_the_reply(case):
    """From rewards as `ttrl` gives them, by the advantages of verl; a group of one (`single`) has another base there."""
    sent, expected, config = case["input"], case["expected"], case["config"]
    answers = ["a" if r else f"b{i}" for i, r in enumerate(sent["rewards"])]
    reshaped = {"reshape": "ear", "ear_floor": config["floor"]} if config["variant"] == "adv_res" else {}
    clip = {} if config["beta"] is None else {"adv_clip": config["beta"]}
    inputs = {"entropies": sent["mean_entropy"], "trained": sent["trained"]}
    found = score(answers, advantage="grpo", **inputs, **reshaped, **clip)
    assert found.rewards == tuple(sent["rewards"])
    for one, two in zip(found.advantages, expected["advantages"], strict=True):
        assert one == (None if two is None else pytest.approx(two, abs=1e-12))


def test_ear_changes_signs_only_without_a_floor():
    given_ = {"entropies": [0.1, 0.1, 0.1, 1.7], "advantage": "dr_grpo", "reshape": "ear"}
    plain = score([*"aaba"], "ttrl", entropies=given_["entropies"], advantage="dr_grpo").advantages
    bounded = score([*"aaba"], **given_).advantages
    literal = score([*"aaba"], **given_, ear_floor=None).advantages
    assert plain[3] > 0
    assert bounded[3] == 0
    assert literal[3] < 0
    assert bounded[:3] == literal[:3]


def test_ear_follows_any_advantage():
    entropies = [0.2, 0.4, 0.4, 0.6]
    for method, advantage in (("ddrl", "ddrl"), ("gmae", "gmae"), ("ttrl", "rloo")):
        more = {"calibration": "none"} if method == "gmae" else {}
        base = score([*"aabc"], method, entropies=entropies, advantage=advantage, **more)
        found = score([*"aabc"], method, entropies=entropies, advantage=advantage, reshape="ear", **more)
        chosen = [i for i, a in enumerate(base.advantages) if a is not None]
        mean = np.mean([entropies[i] for i in chosen])
        for i in chosen:
            assert found.advantages[i] == pytest.approx(base.advantages[i] * max(2 - entropies[i] / mean, 0))


def test_clip_comes_last():
    """On both sides: reshaped they are 1, .25, -1 and 0."""
    found = score([*"aabc"], entropies=[0.0, 1.5, 0.0, 2.5], advantage="dr_grpo", reshape="ear", adv_clip=0.6)
    assert found.advantages == pytest.approx((0.6, 0.25, -0.6, 0.0))


def test_what_reshaping_needs():
    entropies, voting = [0.1, 0.2, 0.3], {"entropies": [0.1, 0.2], "trained": [True, True, False]}
    groups = [
        group("aab", group_id=f"{i}", **own)
        for i, own in enumerate(({"entropies": entropies}, voting, {"entropies": [0.1]}))
    ]
    *whole, lacking = dare_reward.estimate(groups, method="ttrl", advantage="grpo", reshape="ear").groups
    assert [g.error for g in whole] == [None] * 2
    assert lacking.error.code == "missing_input"
    assert "for 2 rollouts (1, 2), for reshape" in lacking.error.message
    silent = {"answer": None, "num_tokens": 0, "finish_reason": "abort"}
    aborted = {"rollouts": [*group("aab", entropies=entropies)["rollouts"], silent]}
    plain, told = (
        dare_reward.estimate([aborted], method="ttrl", advantage="dr_grpo", reshape=how).groups[0].advantages
        for how in (None, "ear")
    )
    assert told == pytest.approx([*(a * (2 - h / 0.2) for a, h in zip(plain, entropies, strict=False)), plain[3]])


@pytest.mark.parametrize(
    ("answers", "drop", "options"),
    [
        *((answers, drop, {"advantage": advantage})
          for answers, drop in (("aab", None), ("aaa", "zero_variance"), ("..", "all_invalid"), ("a.", None))
          for advantage in (None, "grpo", "dr_grpo")),
        # of the trained rollouts
        ("aab", "zero_variance", {"trained": [True, True, False]}),
        ("aaaab", None, {"selection": "ddrl", "selection_size": 2}),
        # unsettled votes: dropped is what lies below
        ("aaaaaaab", None, {"settled": 0.95}),
        ("aabb.", "unsettled", {"settled": 0.95}),
        ("aabb.", None, {"settled": 0.5}),
        ("aabb.", None, {}),
        # of the fixed advantages of DDRL +1 for all, as released; without them nothing is left
        ("aaaa", None, {"method": "ddrl", "advantage": "ddrl"}),
        ("aaaa", "unanimous", {"method": "ddrl", "advantage": "ddrl", "unanimous": "drop"}),
        ("aaaa", "zero_variance", {"method": "ddrl"}),
    ],
)  # fmt: skip
def test_drop(answers, drop, options):
    assert score(answers, **options).drop == drop


@pytest.mark.parametrize("case", GOLDEN["adaptive_consistency"], ids=lambda c: c["id"])
def test_leader_probability_is_the_exact_beta(case):
    for leader, other, chance, _ in case["expected"]["trace"]:
        assert leader_probability(leader, other) == pytest.approx(chance, abs=1e-12)


def test_leader_probability_of_a_group():
    """By the second answer, not the last."""
    found = [score(votes).diagnostics["leader_probability"] for votes in ("aaab.", "aaabbc", "aabb.", ".")]
    assert found == [leader_probability(3, 1), leader_probability(3, 2), 0.5, None]
    assert leader_probability(1024, 0) == 1.0


def test_a_reply_whose_selection_does_not_fit_is_refused():
    sent = [group([*"aabc"])]
    reply = dare_reward.estimate(sent, method="ttrl", selection="ddrl", advantage="grpo")
    head = {"method": "ttrl", "advantage": "grpo"}
    asked = partial(check_fit, head=head, groups=sent, request_id="r", output="rewards")

    def changed(**fields):
        body = json.loads(json.dumps(reply.to_json())) | {"request_id": "r"}
        body["groups"][0] |= fields
        return dare_reward.Reply.from_json(body)

    asked(changed())
    with pytest.raises(ReplyError, match="no advantage"):
        asked(changed(select=[0, 1, 2, 3]))
