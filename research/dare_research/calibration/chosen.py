"""What chosen labels find that random ones do not, on rollouts of the bases of the campaign.

A project has a pool of unlabelled prompts of its policy, labels some, lets `dare-reward calibrate` choose the exponent,
and counts right labels on the prompts that the campaign adapts to. Prompts are chosen by their information
(`dare_reward.analysis.label_choice`), or by what `dare-reward label` ranks by, or at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dare_reward.analysis.calibrate import Bars, Evidence, bars, choose, evidence, tables
from dare_reward.analysis.certainty import ENTROPY, GRID, VOTE
from dare_reward.analysis.label_choice import calibration_worth, information, most
from dare_reward.analysis.truth import right_answers
from dare_reward.commands.methods import markdown
from dare_reward.groups import Groups
from dare_reward.segments import Bools, Floats

from ..page.words import points
from .simulate import LOSS

if TYPE_CHECKING:
    from ..training.examine import Graded

Answers = Sequence[tuple[int, int, float]]  # of a prompt: right, votes, mean entropy of each answer
JSON = Mapping[str, Any]
BASES: Final = ("informative-0", "tells_35-200", "tells_35-300", "confident-0", "uninformative-200", "mixed-200")
POOL, UNLABELLED, DRAWS = 128, 64, 300
WORDS: Final = {"random": "random", "information": "chosen", "label": "by `dare-reward label`"}
# Of a sceptic's own sampler, transformer and rule (the first test alone), on other prompts of these bases, in the order
# of the first COLUMNS: per cent of projects that leave the vote, points of label accuracy.
ELSEWHERE: Final = {
    "informative-0": ((52, 8.8), (99, 21.7), (100, 22.7), (100, 22.7)),
    "tells_35-200": ((2, 0.1), (57, 2.7), (100, 5.1), (100, 5.5)),
    "tells_35-300": ((2, 0.0), (38, 0.9), (98, 2.3), (99, 3.5)),
    "confident-0": ((30, 6.2), (92, 20.0), (100, 31.1), (100, 28.1)),
    "uninformative-200": ((0, 0.0),) * 4,
    "mixed-200": ((0, 0.0), (0, 0.0), (0, 0.0), (2, 0.0)),
}
INTRO = """# Labels: chosen against random, on the bases of the campaign

Written by `research/scripts/study_labels.py` from [labels.json.gz](../results/labels.json.gz). A test renders this page
from it again.

A project draws {unlabelled} of {pool} prompts of the probe split, has 64 rollouts of each, labels some, and lets
`calibrate` choose the exponent. Each cell: how many of {draws} projects leave the vote; the mean change of label
accuracy, in points, on the 128 prompts that the campaign adapts to. *Chosen* are the prompts of greatest information.
No project ends below the vote by more than half a point, in this table and in the next."""
GATED = """**The gate alone**, with the likeliest exponent, and without asking for enough labels, contenders or right
labels; in brackets another implementation of it, with its own sampler, on other prompts of the same bases."""
COLUMNS: Final = (("random", 16), ("random", 32), ("information", 16), ("information", 32), ("label", 16))


def answers_of(graded: Graded) -> list[Answers]:
    """What a vote and its exponent are made of; rollouts without an answer are left out."""
    groups = graded.groups
    u_A = groups.sum_by_answer(groups.column("mean_entropy")) / np.maximum(groups.votes_A, 1)
    right_A = right_answers(groups, graded.correct_R) > 0.5
    rows = zip(groups.group_A.tolist(), right_A.tolist(), groups.votes_A.tolist(), u_A.tolist(), strict=True)
    found: list[list[tuple[int, int, float]]] = [[] for _ in groups.sizes_P]
    for p, right, votes, u in rows:
        found[p].append((int(right), int(votes), round(u, 5)))
    return [*found]


def groups_of(prompts: Sequence[Answers]) -> tuple[Groups, Floats]:
    """Groups with these votes and mean entropies, and which rollouts are right."""
    names = [[str(at) for at, (_, votes, _) in enumerate(own) for _ in range(votes)] for own in prompts]
    entropies = [[u for _, votes, u in own for _ in range(votes)] for own in prompts]
    right = [float(x) for own in prompts for x, votes, _ in own for _ in range(votes)]
    return Groups.of(names, mean_entropy=entropies), np.array(right)


def outcomes(name: str, base: JSON, *, draws: int = DRAWS) -> dict[str, dict[str, float]]:
    """By way and number of labels: how many projects leave the vote, their gain, and those that are worse.

    `rule` is that of `calibrate`; `gate` its first test alone, with the likeliest exponent.
    """
    (pool, pool_R), (other, other_R) = (groups_of(base[part]) for part in ("pool", "adapted"))
    e, o = (evidence(g, right_R, tables(g, ENTROPY)) for g, right_R in ((pool, pool_R), (other, other_R)))
    gain_B = o.right_PB.mean(axis=0) - o.right_PB[:, VOTE].mean()
    worth = {"information": information(pool), "label": calibration_worth(pool)}
    rng = np.random.default_rng(BASES.index(name))
    found: dict[str, list[tuple[float, float]]] = {}
    for _ in range(draws):
        order = rng.permutation(len(pool.sizes_P))[:UNLABELLED]
        inside_P = np.isin(np.arange(len(pool.sizes_P)), order)
        for way, count in COLUMNS:
            picked_P = np.zeros(len(inside_P), bool)
            picked_P[order[:count]] = True
            if way != "random":
                picked_P = most(np.where(inside_P, worth[way], 0.0), count)
            found.setdefault(f"{way} {count}", []).append(_exponents(e, picked_P, chosen=way != "random"))
    return {key: _shares(np.array(own), gain_B) for key, own in found.items()}


def _exponents(e: Evidence, labelled_P: Bools, *, chosen: bool) -> tuple[float, float]:
    """By the rule, and by the gate alone."""
    sums = e.sums(labelled_P[None].astype(np.float64))
    to_pass = bars(int(labelled_P.sum()), int((e.mixed_P & labelled_P).sum()), chosen=chosen)
    own = choose(e, sums, to_pass)
    passed = own.t_S[0] * np.sign(own.fitted_S[0]) >= Bars().gate
    return float(own.exponent_S[0]), float(own.fitted_S[0]) if passed else 0.0


def _shares(chosen_SX: Floats, gain_B: Floats) -> dict[str, float]:
    out: dict[str, float] = {}
    for name, own_S in zip(("rule", "gate"), chosen_SX.T, strict=True):
        gain_S = gain_B[np.searchsorted(GRID, own_S)]
        out |= {
            f"{name} left": float((own_S != 0).mean()),
            f"{name} gain": float(gain_S.mean()),
            f"{name} worse": float((gain_S < -LOSS).mean()),
        }
    return out


def labels_page(results: JSON) -> str:
    """The page, from the answers of every base."""
    found = {name: outcomes(name, results[name]) for name in BASES if name in results}
    keys = [f"{way} {count}" for way, count in COLUMNS]
    heads = [f"{count} {WORDS[way]}" for way, count in COLUMNS]
    ruled = [[name, *(_cell(own[key], "rule") for key in keys[1:])] for name, own in found.items()]
    gated = [
        [
            name,
            *(
                f"{_cell(own[k], 'gate')} ({n}%; {points(x / 100)})"
                for k, (n, x) in zip(keys[:-1], ELSEWHERE[name], strict=True)
            ),
        ]
        for name, own in found.items()
    ]
    return "\n\n".join(
        [
            INTRO.format(draws=DRAWS, unlabelled=UNLABELLED, pool=POOL),
            markdown(("base", *heads[1:]), ruled),
            GATED,
            markdown(("base", *heads[:-1]), gated) + "\n",
        ]
    )


def _cell(own: Mapping[str, float], by: str) -> str:
    return f"{own[f'{by} left']:.0%}; {points(own[f'{by} gain'])}"
