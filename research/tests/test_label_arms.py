"""The arms of E10: which prompts get a label, and what half of each step is."""

from collections import Counter
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest

from dare_research.training import jobs
from dare_research.training.arms import ARMS, E10
from dare_research.training.corpus import REGIMES, hard_facts
from dare_research.training.grpo_run import RunSettings
from dare_research.training.jobs import choose, half_labelled, trunk_name
from dare_research.training.parts import PARTS
from dare_research.training.plan import DEFAULT, DOSES, WIDE, corpus_of, fact_set, labelled_of, problems_of
from dare_reward.groups import Groups

SETTINGS = RunSettings()


def groups(count=64, seed=0):
    rng = np.random.default_rng(seed)
    answers = [[str(x) for x in rng.integers(0, 1 + k % 5, 16)] for k in range(count)]
    return Groups.of(answers, mean_entropy=[rng.random(16).tolist() for _ in answers])


def problems(count):
    return [SimpleNamespace(prompt=f"p{i}") for i in range(count)]


def test_the_runs_are_those_of_the_page():
    e1, doses, wide = PARTS["e10"], PARTS["e10_doses"], PARTS["e10_wide"]
    assert len(e1.ids()) == 6 * len(REGIMES) * 4 * 2 == 144
    assert len(doses.ids()) == 3 * (1 + len(DOSES)) * 2 * 2 == 60
    assert len(wide.ids()) == 4 * 2 * 2 == 16
    assert {(cell.settings.steps, cell.base) for cell in wide.cells()} == {(128, 400), (128, 401)}
    assert {cell.seed for part in (e1, doses, wide) for cell in part.cells()} == {10, 11}
    assert not {*e1.ids()} & {i for name, part in PARTS.items() if name != "e10" for i in part.ids()}


def test_the_wide_bases_have_four_times_the_prompts_and_facts():
    """Each fact in four versions, of which as many are hard as before; what other bases learn from stays as it was."""
    usual, many = (problems_of(DEFAULT, stage, 400) for stage in ("campaign", WIDE))
    assert [len(own["adapted"]) for own in (usual, many)] == [128, 512]
    assert len(labelled_of(DEFAULT, WIDE, 400, 32)) == 32
    facts = [
        {fact for family, problem in own["adapted"] for fact in hard_facts(family, problem, fact_set(400))}
        for own in (usual, many)
    ]
    assert facts[0] < facts[1]
    assert len(facts[1]) == pytest.approx(4 * len(facts[0]), rel=0.2)
    assert corpus_of("informative", 400).families == ("add", "mirror", "sub", "shift")
    assert {*DEFAULT.families(WIDE)} < {*corpus_of(WIDE, 400).families}
    assert trunk_name(400, WIDE) != trunk_name(400, "informative") == trunk_name(400) == "trunk-400"
    assert trunk_name(400, "reasoning_8_half") == trunk_name(400, "reasoning_8") == "trunk-reasoning_8-400"


def test_a_tenth_of_the_wide_prompts_have_labels(monkeypatch):
    """51 of 512 as rewards, whatever the arm's own number; 32 of the probe split for an exponent alone."""
    asked = []

    def chosen(found, arm, _):
        asked.append((len(found.sizes_P), arm.labels))
        return np.zeros(len(found.sizes_P), bool)

    monkeypatch.setattr(jobs, "choose", chosen)
    monkeypatch.setattr(
        jobs,
        "examine",
        lambda _, __, pool, **___: SimpleNamespace(groups=groups(len(pool)), correct_R=np.zeros(16 * len(pool))),
    )
    monkeypatch.setattr(jobs, "_figures", lambda *_, **__: {"exponent": 0.0})
    adapted = problems_of(DEFAULT, WIDE, 400)["adapted"]
    for cell in PARTS["e10_wide"].cells():
        if ARMS[cell.arm].choice and (cell.base, cell.seed) == (400, 10):
            jobs._chosen(DEFAULT, cell, adapted, None, None)
    assert asked == [(64, 32), (512, 51), (512, 51)]


def test_the_runs_of_e9_are_those_of_the_page():
    """Every arm trains eight rollouts of each prompt, whatever it generates."""
    part, reasoning = PARTS["e9"], PARTS["e9_reasoning"]
    assert len(part.ids()) == 6 * 4 * 3 == 72
    assert len(reasoning.ids()) == 6 * 2 * 3 == 36
    assert {(cell.stage, cell.regime, cell.base) for cell in reasoning.cells()} == {
        ("reasoning_8", "reasoning_8", base) for base in (400, 401)
    }
    for each in (part, reasoning):
        assert {(cell.settings.trained, cell.seed) for cell in each.cells()} == {(8, seed) for seed in (20, 21, 22)}
    assert part.arms == reasoning.arms
    assert {name: ARMS[name].votes for name in part.arms} == {
        "ttrl_32": 32, "ttrl_8": 8, "dare_8": 8, "dare_answer_8": 8, "rpc_8": 8, "ppc_8": 8
    }  # fmt: skip


@pytest.mark.parametrize("name", [name for name in E10 if ARMS[name].choice])
def test_as_many_prompts_are_chosen_as_the_arm_has_labels(name):
    arm = ARMS[name]
    chosen = choose(groups(2 * arm.labels), arm, Random(1))
    assert chosen.sum() == arm.labels
    again = choose(groups(2 * arm.labels), arm, Random(2))
    assert (chosen == again).all() == (arm.choice != "random")


def test_random_labels_are_those_of_the_seed_whatever_the_arm():
    both, half = (choose(groups(128), ARMS[name], Random("labels/10")) for name in ("both_random", "labels_half"))
    assert (both == half).all()


@pytest.mark.parametrize(("labelled", "others"), [(32, 96), (51, 461), (3, 5)])
def test_half_of_each_step_are_labelled_prompts_in_turn(labelled, others):
    adapted, known = problems(labelled + others), set(range(labelled))
    order = half_labelled(adapted, sorted(known), replace(SETTINGS, prompts=6, steps=40), seed=3)
    steps = [order[i : i + 6] for i in range(0, len(order), 6)]
    assert len(steps) == 40
    for step in steps:
        names = [p.prompt for p in step]
        assert len(set(names)) == 6
        assert sum(int(name[1:]) in known for name in names) == 3
    for side in (True, False):
        visits = Counter(p.prompt for p in order if (int(p.prompt[1:]) in known) is side)
        assert max(visits.values()) - min(visits.values()) <= 1 or len(visits) < (labelled if side else others)


def test_the_order_is_the_seeds():
    adapted = problems(16)
    one, again, other = (half_labelled(adapted, range(4), SETTINGS, seed=s) for s in (1, 1, 2))
    assert one == again != other
