"""The arms of the training study, declared once: what scores each, what it is told, where it is planned and shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from dare_reward.errors import RequestError
from dare_reward.methods import find

from .sampling import SampledRollout

Fields = list[dict[str, Any]]
Tell = Callable[[Sequence[SampledRollout], Random], Fields]


def entropies(group: Sequence[SampledRollout], _: Random) -> Fields:
    return [{"token_entropies": c.entropies} for c in group]


def shuffled(group: Sequence[SampledRollout], random: Random) -> Fields:
    """The mean entropies of the group, dealt out to other rollouts.

    What `simulation.model.shuffled` does to arrays of many groups, drawn as the committed runs drew it.
    """
    means = [float(c.entropies.mean()) for c in group]
    random.shuffle(means)
    return [{"mean_entropy": h} for h in means]


def lengths(group: Sequence[SampledRollout], _: Random) -> Fields:
    """Length as uncertainty, scaled to the mean entropy of the group."""
    length = np.array([len(c.ids) for c in group], np.float64)
    scale = np.mean([c.entropies.mean() for c in group]) / length.mean()
    return [{"mean_entropy": float(x)} for x in length * scale]


def certainties(group: Sequence[SampledRollout], _: Random) -> Fields:
    return [{"token_self_certainty": c.certainties} for c in group]


def log_probabilities(group: Sequence[SampledRollout], _: Random) -> Fields:
    return [{"sampled_logprobs": c.logprobs} for c in group]


@dataclass(frozen=True, slots=True)
class Arm:
    """`method` with `params` through the service; or `local`, a reward that needs no service (a placebo).

    loss        TRL's loss_type; dr_grpo goes without division by the group's standard deviation
    everywhere  planned in every regime, not in the informative one alone, and shown in the figures
    compared    its first step is compared with the vote's on every base, before training
    contender   a label-free method that may pass the bar; the others are controls
    retired     the method has left dare-reward: its results stay, it cannot be run again
    labels      labelled prompts on which the exponent is fitted before the run, with the base: the first of the probe
                split, or, with `choice`, as many of `pool` of them
    choice      which: random (by the run's seed), information (`analysis.label_choice`), or contested
    half        they are adapted prompts instead, and half of each step: their true label is the reward
    by_family   each family has an exponent of its own, from its own labelled prompts
    share       of the adapted prompts that it trains on
    supervised  share of the adapted prompts whose true label is the reward, instead of the method's
    own         what is asked beside rewards; the advantages of the reply are trained on, as they are
    selects     every vote is a row of the trainer, and the reply selects those to train on
    votes       rollouts of a prompt, the trained ones included; 0: as many as the settings say
    waves       votes come in waves, by this line of `VoteRollout`
    train_on    as of `DareReward`
    stages      where it is planned: `confirm`; a page of the campaign that registers it, as `campaign-e1b`
    """

    name: str
    method: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)
    tell: Tell = entropies
    local: Callable[[str, Random], float] | None = None
    loss: str = "dapo"
    everywhere: bool = False
    compared: bool = False
    contender: bool = True
    retired: bool = False
    labels: int = 0
    pool: int = 0
    choice: str = ""
    half: bool = False
    by_family: bool = False
    share: float = 1.0
    supervised: float = 0.0
    own: Mapping[str, str] = field(default_factory=dict)
    selects: bool = False
    votes: int = 0
    waves: str = ""
    train_on: str = "all"
    stages: tuple[str, ...] = ("confirm",)

    @property
    def fits(self) -> bool:
        """Its labelled prompts decide its exponent."""
        return bool(self.labels) and self.method == "calibrated_vote"


BOTH: Final = ("confirm", "campaign")
CAMPAIGN_ONLY: Final = ("campaign",)


def _box(text: str, _: Random) -> float:
    return float("\\boxed{" in text and text.endswith("}"))


def _coin(_: str, random: Random) -> float:
    return float(random.random() < 0.5)


# In the order of the page.
_DECLARED: Final = (
    Arm("ttrl", "ttrl", everywhere=True, compared=True, contender=False, stages=BOTH),
    Arm("weighted_vote", "weighted_vote", everywhere=True, compared=True),
    Arm("empo", "empo", everywhere=True, compared=True, stages=BOTH),
    Arm("dare_dist", "dare_dist", everywhere=True, compared=True),
    Arm("dare", "dare", everywhere=True, compared=True, stages=BOTH),
    Arm("dare_shuffled", "dare", tell=shuffled, everywhere=True, compared=True, contender=False),
    Arm("dare_length", "dare", tell=lengths, contender=False),
    Arm("dare_dist_bonus", "dare_dist_bonus"),
    Arm("dare_dist_prune", "dare_dist_prune"),
    Arm("dare_plus", everywhere=True, retired=True),
    Arm("dare_sqrt", "dare_sqrt", compared=True),
    Arm("dare_robust", "dare_robust", compared=True),
    Arm("scrl", "scrl", compared=True),
    Arm("rent", "rent", stages=BOTH),
    Arm("intuitor", "intuitor", {"sent": "kl"}, tell=certainties),
    Arm("ttrl_dr_grpo", "ttrl", loss="dr_grpo", contender=False),
    Arm("dare_dr_grpo", "dare", loss="dr_grpo", contender=False),
    Arm("gt", "gt", contender=False),
    Arm("random", local=_coin, contender=False),
    Arm("format", local=_box, contender=False),
    Arm("calibrated_vote", "calibrated_vote", labels=32, stages=CAMPAIGN_ONLY),
    Arm("vote_2", "weighted_vote", {"exponent": 2.0}, stages=CAMPAIGN_ONLY),
    Arm("vote_4", "weighted_vote", {"exponent": 4.0}, stages=CAMPAIGN_ONLY),
    Arm("gt_quarter", "gt", share=0.25, contender=False, stages=CAMPAIGN_ONLY),
    Arm("gmae", "gmae", own={"advantage": "gmae"}, stages=("campaign-e1b",)),
    Arm("ttrl_gt_quarter", "ttrl", supervised=0.25, contender=False, stages=("campaign-e1b",)),
    Arm("dare_waves", "dare", waves="auto", stages=("campaign-e1c",)),
    Arm("dare_40", "dare", votes=40, stages=("campaign-e1c",)),
    Arm("ttrl_masked", "ttrl", train_on="reasoning", stages=("campaign-e1c",)),
    Arm("ddrl", "ttrl", own={"selection": "ddrl", "advantage": "fixed"}, selects=True, stages=("campaign-e1d",)),
    Arm("ear", "ttrl", own={"advantage": "grpo", "reshape": "ear"}, stages=("campaign-e1d",)),
    Arm(
        "calibrated_by_family", "calibrated_vote", {"exponent": 0.0}, labels=32, by_family=True, stages=("campaign-e4",)
    ),
    Arm("ttrl_32", "ttrl", votes=32, contender=False, stages=("campaign-e9",)),
    Arm("ttrl_8", "ttrl", votes=8, contender=False, stages=("campaign-e9",)),
    Arm("dare_8", "dare", votes=8, stages=("campaign-e9",)),
    Arm("dare_answer_8", "dare", {"over": "answer"}, votes=8, stages=("campaign-e9",)),
    Arm("rpc_8", "rpc", tell=log_probabilities, votes=8, stages=("campaign-e9",)),
    Arm("ppc_8", "perplexity_consistency", tell=log_probabilities, votes=8, stages=("campaign-e9",)),
    Arm("calibrated_32", "calibrated_vote", labels=32, pool=64, choice="random", stages=("campaign-e10",)),
    Arm("calibrated_chosen", "calibrated_vote", labels=16, pool=64, choice="information", stages=("campaign-e10",)),
    Arm("labels_half", "ttrl", labels=32, choice="random", half=True, contender=False, stages=("campaign-e10",)),
    Arm("both_random", "calibrated_vote", labels=32, choice="random", half=True, stages=("campaign-e10",)),
    Arm("both_contested", "calibrated_vote", labels=32, choice="contested", half=True, stages=("campaign-e10",)),
)
ALL_ARMS: Final[Mapping[str, Arm]] = MappingProxyType({a.name: a for a in _DECLARED})
ARMS: Final[Mapping[str, Arm]] = MappingProxyType({a.name: a for a in _DECLARED if not a.retired})
# The 2 x 2 of hard or soft label by with or without entropy; dare; and its twin whose entropies say nothing.
DEFAULT: Final = tuple(a.name for a in ARMS.values() if a.everywhere)
FULL: Final = tuple(a.name for a in ARMS.values() if "confirm" in a.stages)
CAMPAIGN: Final = tuple(a.name for a in ARMS.values() if "campaign" in a.stages)
E1B: Final = tuple(a.name for a in ARMS.values() if "campaign-e1b" in a.stages)
E1C: Final = tuple(a.name for a in ARMS.values() if "campaign-e1c" in a.stages)
E1D: Final = tuple(a.name for a in ARMS.values() if "campaign-e1d" in a.stages)
E9: Final = tuple(a.name for a in ARMS.values() if "campaign-e9" in a.stages)
E10: Final = ("ttrl", *(a.name for a in ARMS.values() if "campaign-e10" in a.stages))
E10_DOSES: Final = ("ttrl", *(name for name in E10 if name.startswith("calibrated_")))
E10_WIDE: Final = ("ttrl", "calibrated_32", "labels_half", "both_random")


def chosen_params(arm: Arm, given: Mapping[str, str]) -> dict[str, Any]:
    """The given method parameters, typed and checked by the method's own declarations, or RequestError.

    Only the method's: what answers are read by is one for the whole study.
    """
    if not given:
        return {}
    if arm.local is not None:
        raise RequestError(
            f"arm {arm.name}: no parameter {', '.join(given)}, its reward asks no service", code="unknown_parameter"
        )
    method = find(arm.method)
    known = {s.name: s for s in method.specs}
    try:
        values = {n: known[n].parse(text) if n in known else text for n, text in given.items()}
        method.resolve({**arm.params, **({"exponent": 0.0} if arm.fits else {}), **values})
    except RequestError as error:
        raise RequestError(f"arm {arm.name}: {error.message}", code=error.code) from None
    return values
