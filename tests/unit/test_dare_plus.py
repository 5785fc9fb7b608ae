"""dare_plus: entropy counts as far as clear majorities with a rival say that it can be trusted."""

import asyncio
import pickle
from types import SimpleNamespace

import pytest

import dare_reward
from dare_reward.errors import ReplyError, RequestError
from dare_reward.stacks import slime
from dare_reward.stacks.scorer import Scorer
from dare_reward.stacks.trl import DareReward

SURE = {"prior": 0.0}  # no doubt is counted in: A^ is the mean of A


def group(name, *rollouts):
    return {
        "group_id": name,
        "kind": "exact",
        "rollouts": [{"answer": a, "mean_entropy": h} for a, h in rollouts],
    }


def clear(name, majority, *others):
    """Rollouts of the majority and of its rival, by their entropies."""
    return group(name, *(("a", h) for h in majority), *(("b", h) for h in others))


HARD = group("hard", ("x", 0.1), ("y", 0.4), ("y", 0.4), ("z", 0.2), ("w", 0.3), (None, 0.3))
LOWER = [clear(f"low{i}", (0.1, 0.2, 0.1), 0.5) for i in range(4)]  # A = 1
HIGHER = [clear(f"high{i}", (0.4, 0.5, 0.4), 0.1) for i in range(4)]  # A = 0
BARE = {"group_id": "bare", "kind": "exact", "rollouts": [{"answer": a} for a in "aab"]}
VOTES = [0.2, 0.4, 0.4, 0.2, 0.2, 0.0]


def rewards(groups, method="dare_plus", **params):
    consent = {"allow_experimental": True} if method == "dare_plus" else {}
    return dare_reward.estimate(groups, method=method, **params, **consent).groups


def trust(groups, **params):
    return rewards([*groups, HARD], **params)[-1].diagnostics["entropy_trust"]


def test_trusted_entropy_gives_the_distribution_of_dare():
    found = rewards([*LOWER, HARD], **SURE)
    expected = rewards([*LOWER, HARD], "dare_dist")
    for one, other in zip(found, expected, strict=True):
        assert one.rewards == pytest.approx(other.rewards, abs=1e-12)
        assert one.entropy_source == "exact"
    assert found[-1].rewards[0] > found[-1].rewards[1] / 2  # the surer single vote gains


@pytest.mark.parametrize("others", [HIGHER, []], ids=["misleading", "alone"])
@pytest.mark.parametrize("params", [{}, SURE], ids=["prior", "no prior"])
def test_otherwise_votes_alone_count(others, params):
    found = rewards([*others, HARD], **params)[-1]
    assert found.rewards == pytest.approx(VOTES)
    assert found.entropy_source == "none"
    assert "entropy_not_trusted" in found.flags


def test_trust_between_is_an_exponent():
    """Of four clear groups three have A = 1 and one A = 0, so A^ = 3/4: half trusted if 1 is full."""
    found = rewards([*LOWER[:3], HIGHER[0], HARD], full=1.0, **SURE)[-1]
    weights = {"x": 1 / 0.15**0.5, "y": 2 / 0.45**0.5, "z": 1 / 0.25**0.5, "w": 1 / 0.35**0.5}
    total = sum(weights.values())
    assert found.rewards == pytest.approx([weights[a] / total for a in "xyyzw"] + [0.0], rel=1e-12)
    assert found.diagnostics["entropy_trust"] == pytest.approx(0.5)


def test_few_groups_say_little():
    """A^ = (4/2 + n) / (4 + n) where all n groups agree."""
    for n in range(1, 5):
        assert trust(LOWER[:n], full=1.0) == pytest.approx(2 * ((2 + n) / (4 + n) - 0.5))


def test_earlier_groups_count_like_those_of_this_request():
    assert trust(LOWER[:1], full=1.0, agreement=1.0, agreement_groups=3) == pytest.approx(trust(LOWER, full=1.0))
    assert trust(LOWER[:1], full=1.0, agreement=0.0, agreement_groups=3) == 0


def test_ties_in_entropy_are_one_half():
    same = [clear(str(i), (0.2, 0.2, 0.2), 0.2) for i in range(4)]
    assert [g.diagnostics["entropy_agreement"] for g in rewards(same)] == [0.5] * 4
    assert trust(same, **SURE) == 0


def test_only_clear_majorities_with_a_rival_are_asked():
    unclear = group("unclear", ("a", 0.1), ("b", 0.9), ("c", 0.9))
    alone = group("alone", *(("a", 0.1),) * 3)
    slips = group("slips", *(("a", 0.1),) * 30, ("b", 0.9))
    rival = group("rival", *(("a", 0.1),) * 30, ("b", 0.9), ("b", 0.9), ("c", 0.0))
    found = [g.diagnostics["entropy_agreement"] for g in rewards([unclear, alone, slips, rival])]
    assert found == [None, None, None, 1.0]
    assert rewards([unclear], majority=0.3)[0].diagnostics["entropy_agreement"] == 1.0
    assert rewards([slips], rival=0.02)[0].diagnostics["entropy_agreement"] == 1.0


def test_a_group_without_entropies_neither_judges_nor_is_harmed():
    found = rewards([*LOWER, BARE, HARD], missing_entropy="frequency")
    assert found[-2].rewards == pytest.approx([2 / 3, 2 / 3, 1 / 3])
    assert found[-1].rewards == pytest.approx(rewards([*LOWER, HARD])[-1].rewards)
    failed = rewards([*LOWER, BARE, HARD])
    assert failed[-2].error.code == "missing_entropy"
    assert failed[-1].rewards == pytest.approx(found[-1].rewards)


def test_imputed_entropies_do_not_judge():
    half = group("half", ("a", 0.1), ("a", 0.1), ("a", 0.1), ("b", None))
    del half["rollouts"][-1]["mean_entropy"]
    found = rewards([half, *LOWER], missing_entropy="group_mean")
    assert [g.diagnostics["entropy_agreement"] for g in found] == [None, 1.0, 1.0, 1.0, 1.0]
    assert "missing_entropy_imputed" in found[0].flags


class TestAdaptersRemember:
    """Three steps through an adapter's scorer: what the third is told of the first two."""

    def scorer(self, method="dare_plus", **settings):
        nowhere = "http://127.0.0.1:9"  # refused at once: the fallback scores here
        consent = {"allow_experimental": True} if method == "dare_plus" else {}
        return Scorer.of(nowhere, method=method, fallback="local", retries=0, **consent, **settings)

    def test_the_running_mean(self):
        scorer = self.scorer()
        assert scorer.memory.params == {}
        scorer.score([LOWER[0], HARD])
        scorer.score([*HIGHER[:2], LOWER[1]])
        assert scorer.memory.params == {"agreement": 0.5, "agreement_groups": 4}
        _, reply = scorer.score([*LOWER, HARD])
        alone = dare_reward.estimate(
            [*LOWER, HARD], method="dare_plus", allow_experimental=True, agreement=0.5, agreement_groups=4
        )
        assert reply.groups == alone.groups

    def test_one_configuration_for_all_steps(self):
        """What is remembered is data: the client's pin on the first reply's configuration holds."""
        scorer = self.scorer()
        replies = [scorer.score(step)[1] for step in (LOWER, HIGHER, [HARD])]
        assert len({r.config_id for r in replies}) == 1
        ids = [
            dare_reward.estimate([HARD], method="dare_plus", allow_experimental=True, **params).config_id
            for params in ({}, {"agreement": 0.7, "agreement_groups": 2}, {"full": 0.9})
        ]
        assert ids[0] == ids[1] == replies[0].config_id
        assert ids[2] != ids[0]

    def test_an_adapter_has_its_own(self):
        one, other = self.scorer(), self.scorer()
        one.score(LOWER)
        assert one == other
        assert hash(one) == hash(other)
        assert other.memory.params == {}
        assert pickle.loads(pickle.dumps(one)).memory == one.memory

    def test_a_resumed_run_begins_with_what_the_user_gives(self):
        scorer = self.scorer(agreement=1.0, agreement_groups=96)
        scorer.score(HIGHER)
        assert scorer.memory.params == {"agreement": 0.96, "agreement_groups": 100}
        _, reply = scorer.score([HARD])
        assert reply.groups[-1].diagnostics["entropy_trust"] == 1.0

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"agreement": 0.9}, "go together"),
            ({"agreement_groups": 9}, "go together"),
            ({"agreement": 1.5, "agreement_groups": 9}, "agreement must be"),
        ],
    )
    def test_half_a_memory_is_refused(self, given, said):
        with pytest.raises(RequestError, match=said):
            self.scorer(**given)

    def test_other_methods_remember_nothing(self):
        scorer = self.scorer("dare")
        scorer.score(LOWER)
        assert scorer.memory.params == {}

    def test_groups_that_failed_are_left_out(self):
        scorer = self.scorer(on_error="abstain")
        scorer.score([LOWER[0], BARE])
        assert scorer.memory.params == {"agreement": 1.0, "agreement_groups": 1}

    def test_a_step_that_failed_is_not_remembered(self):
        """It will be sent again."""
        scorer = self.scorer()
        with pytest.raises(ReplyError, match="bare"):
            scorer.score([LOWER[0], BARE])
        assert scorer.memory.params == {}

    def test_an_evaluation_leaves_training_as_it_is(self):
        scorer = self.scorer()
        scorer.score(LOWER, trains=False)
        assert scorer.memory.params == {}
        asyncio.run(scorer.score_async(LOWER, trains=False))
        assert scorer.memory.params == {}
        asyncio.run(scorer.score_async(LOWER))
        assert scorer.memory.params == {"agreement": 1.0, "agreement_groups": 4}


def test_slime_which_sends_groups_one_by_one_is_refused():
    with pytest.raises(RequestError, match="one by one"):
        slime._scorer("http://127.0.0.1:9?method=dare_plus&allow_experimental=true")


def test_trl_says_whether_it_evaluates():
    rows = [{"answer": a, "mean_entropy": h} for a, h in (("a", 0.1), ("a", 0.2), ("a", 0.1), ("b", 0.5))]
    reward = DareReward("http://127.0.0.1:9", method="dare_plus", allow_experimental=True, fallback="local", retries=0)
    for training, count in ((False, 0), (True, 1), (False, 1), (True, 2)):
        trainer = SimpleNamespace(num_generations=4, num_generations_eval=4, model=SimpleNamespace(training=training))
        reward._score(trainer, rows, {})
        assert reward.scorer.memory.params.get("agreement_groups", 0) == count
