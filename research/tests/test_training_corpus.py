"""Families and corpus of the training study: worked solutions, misconceptions, regimes, splits. Needs no torch."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pytest

from dare_research.training.arms import ARMS
from dare_research.training.corpus import HARDNESS, REGIMES, SEPARATORS, Corpus, hardness, held_out
from dare_research.training.examine import LONGEST
from dare_research.training.families import CHAINS, FAMILIES, fraction, right_result
from dare_research.training.grpo_run import RunSettings, _reward
from dare_research.training.plan import (
    DEFAULT,
    DOSES,
    REASONING,
    SMOKE,
    cells,
    corpus_of,
    fact_set,
    problems_of,
    scaled,
)
from dare_reward.cli import main


def value(text):
    return {letter: i for i, letter in enumerate("abcdefghij")}[text]


def truth(family, prompt):
    """The answer, by other means than the worked steps."""
    body, family = prompt[1:-1], family.partition("_")[0]
    if family == "chain":
        return "abcdefghij"[(value(body[0]) + (1 if prompt[0] in "KN" else -1) * sum(map(int, body[1:]))) % 10]
    if family == "add":
        return str(sum(map(int, body.split("+"))))
    if family == "sub":
        a, b = body.split("-")
        return str(int(a) - int(b)).zfill(len(a))
    if family == "shift":
        return "".join("abcdefghij"[(value(x) + int(body[-1])) % 10] for x in body[:-1])
    return "".join("abcdefghij"[(int(body[-1]) - value(x)) % 10] for x in body[:-1])


@pytest.mark.parametrize("name", FAMILIES)
def test_worked_without_a_slip_the_answer_is_right(name):
    random = Random(0)
    prompts = [FAMILIES[name].problem(random) for _ in range(300)]
    assert all(p.answer == truth(name, p.prompt) for p in prompts)
    assert len({len(p.prompt) for p in prompts}) == 1
    assert {len(p.work(right_result)[0]) for p in prompts} == {FAMILIES[name].places}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_slip_changes_the_answer_and_not_the_length(name):
    """`add` alone may gain or lose a leading 1."""
    random = Random(1)
    for _ in range(200):
        problem, at, count = FAMILIES[name].problem(random), random.randrange(FAMILIES[name].places), [0]

        def slip(_fact, right, ring, at=at, count=count):
            count[0] += 1
            return (right + 1) % ring if count[0] - 1 == at else right

        steps, answer = problem.work(slip)
        assert answer != problem.answer
        assert len(steps) == FAMILIES[name].places
        assert abs(len(answer) - len(problem.answer)) <= (name == "add")


def test_prompts_of_different_splits_never_meet():
    splits = [
        {p.prompt for p in held_out("sub", split, 60, seed=s)}
        for s in (0, 1)
        for split in ("adapted", "unseen", "probe")
    ]
    of_split = [splits[i] | splits[i + 3] for i in range(3)]
    assert not any(one & other for one, other in pairwise([*of_split, of_split[0]]))
    random, corpus = Random(0), Corpus("plain", ("sub",))
    assert not {corpus.example(random).prompt for _ in range(2000)} & set().union(*of_split)


def test_held_out_problems_are_reproducible_and_distinct():
    one, again, other = (held_out("add", "adapted", 40, seed=s) for s in (3, 3, 4))
    assert [p.prompt for p in one] == [p.prompt for p in again]
    assert len({p.prompt for p in one}) == 40
    assert [p.prompt for p in one] != [p.prompt for p in other]


def test_hard_facts_go_wrong_as_often_as_they_say():
    family, corpus, random = FAMILIES["mirror"], Corpus("plain", ("mirror",)), Random(2)
    wrong, seen = Counter(), Counter()
    for _ in range(8000):
        for step in corpus.example(random).solution.split("\\boxed")[0].rstrip(";").split(";"):
            fact, right = step[:2], "abcdefghij"[(int(step[1]) - value(step[0])) % 10]
            seen[fact] += 1
            wrong[fact] += step[2] != right
    hard = [f for f in seen if hardness(family, f) > 0]
    assert len(hard) / len(seen) == pytest.approx(1 / family.places, abs=0.12)
    for fact in seen:
        expected = hardness(family, fact) + (1 - hardness(family, fact)) * family.slips * 0.9
        assert wrong[fact] / seen[fact] == pytest.approx(expected, abs=5 * 0.5 / np.sqrt(seen[fact]))
    assert {hardness(family, f) for f in hard} == set(HARDNESS)


def marks(regime, telling=1.0, family="mirror"):
    """(fact is hard, result is right, separator) of every step of many solutions."""
    corpus, random, out = Corpus(regime, (family,), {family: telling}), Random(5), []
    for _ in range(1500):
        body = corpus.example(random).solution.split("\\boxed")[0]
        for i in range(0, len(body), 4):
            x, y, z, mark = body[i : i + 4]
            out.append((hardness(FAMILIES[family], x + y) > 0, value(z) == (int(y) - value(x)) % 10, mark))
    return out


@pytest.mark.parametrize(
    ("regime", "wrong", "right"),
    [("plain", 0, 0), ("informative", 1, 0), ("confident", 0, 1), ("uninformative", 1, 1)],
)
def test_the_regime_is_in_the_separators_alone(regime, wrong, right):
    """Loose: one of eight."""
    found = marks(regime)
    assert {m for hard, _, m in found if not hard} == {";"}
    for correct, loose in ((False, wrong), (True, right)):
        share = np.mean([m == ";" for hard, ok, m in found if hard and ok == correct])
        assert share == pytest.approx(1 / len(SEPARATORS) if loose else 1.0, abs=0.06)


def test_the_direction_of_mixed_is_its_family_s():
    for family, same in (
        ("shift", "informative"),
        ("mirror", "informative"),
        ("sub", "confident"),
        ("add", "confident"),
    ):
        telling = {family: 0.7}
        one, other = (Corpus(regime, (family,), telling) for regime in ("mixed", same))
        drawn = [
            [corpus.example(random) for _ in range(200)] for corpus, random in ((one, Random(4)), (other, Random(4)))
        ]
        assert drawn[0] == drawn[1]


def test_answers_are_distributed_alike_in_all_regimes():
    shares = []
    for regime in ("plain", *REGIMES):
        corpus, random = Corpus(regime, ("sub",)), Random(7)
        shares.append(
            np.mean([e.answer == truth("sub", e.prompt) for e in (corpus.example(random) for _ in range(2000))])
        )
    assert np.ptp(shares) < 0.07


def test_telling_dials_how_many_hard_facts_tell():
    half = marks("informative", telling=0.5)
    tight_when_right = np.mean([m == ";" for hard, ok, m in half if hard and ok])
    assert 0.3 < tight_when_right < 0.9
    assert np.mean([m == ";" for hard, ok, m in half if hard and not ok]) == pytest.approx(
        1 / len(SEPARATORS), abs=0.06
    )


def test_all_text_is_in_the_vocabulary():
    from dare_research.training.tiny_model import CHARACTERS

    random = Random(0)
    for regime in (*REGIMES, *REASONING):
        corpus = corpus_of(regime)
        for _ in range(300):
            e = corpus.example(random)
            assert set(e.prompt + e.solution.replace("\\boxed{", "")) <= set(CHARACTERS)


def test_the_plan_keeps_develop_and_confirm_apart():
    confirm, develop = (problems_of(DEFAULT, stage, 0) for stage in ("confirm", "develop"))
    assert {f for f, _ in confirm["adapted"]} == set(DEFAULT.confirm) == {f for f, _ in confirm["unseen"]}
    assert {f for f, _ in confirm["ood"]} == set(DEFAULT.develop) == {f for f, _ in develop["adapted"]}
    assert not {p.prompt for _, p in confirm["adapted"]} & {p.prompt for _, p in confirm["unseen"]}
    assert len(confirm["adapted"]) == len(DEFAULT.confirm) * DEFAULT.adapted


def test_cells_come_in_pairs_and_have_names_of_their_own():
    settings = [DEFAULT.settings, replace(DEFAULT.settings, temperature=0.7), replace(DEFAULT.settings, lr=1e-4)]
    found = list(
        cells("confirm", regimes=REGIMES, bases=range(2), arms=("dare", "ttrl"), seeds=range(2), settings=settings)
    )
    assert len({c.id for c in found}) == len(found) == 3 * 2 * 2 * 2 * 3
    assert [c.arm for c in found[:4]] == ["dare", "ttrl"] * 2


def listed(capsys, *words):
    code = main(["study", "train", "--list", "--bases", "1", "--seeds", "1", *words])
    said = capsys.readouterr()
    return code, said.err if code else [line.split()[-1] for line in said.out.splitlines()]


def test_a_parameter_that_was_set_is_in_the_cells_name(tmp_path, capsys):
    words = ("--out", str(tmp_path), "--stage", "sensitivity", "--arms", "dare,weighted_vote")
    plain = [f"sensitivity/informative/0/{arm}/0/lr0.0003-t1-steps32" for arm in ("dare", "weighted_vote")]
    assert listed(capsys, *words) == (0, plain)
    found = listed(capsys, *words, "--set", "weight=sqrt", "--set", "eps=1e-2")
    assert found == (0, [f"{name}-eps0.01-weightsqrt" for name in plain])
    assert listed(capsys, *words, "--set", "u_floor=1")[1] == [f"{name}-u_floor1" for name in plain]


@pytest.mark.parametrize(
    ("arms", "given", "said"),
    [
        ("dare,ttrl", ["eps=0.1"], "arm ttrl: unknown parameter 'eps'. Known: tie, no_answer"),
        ("dare,random", ["eps=0.1"], "arm random: no parameter eps, its reward asks no service"),
        ("dare", ["eps=-1"], "arm dare: eps must be a finite number >= 0"),
        ("dare", ["eps=much"], "arm dare: eps must be"),
        ("dare", ["alpha=1.5"], "arm dare: alpha must be a finite number >= 0 and <= 1"),
        ("dare", ["weight=cubic"], "arm dare: weight must be one of linear, "),
        ("dare", ["fallback=true"], "arm dare: unknown parameter 'fallback'"),
        ("dare", ["eps=0.1", "eps=0.2"], "one value of a parameter in one call"),
        ("dare --stage confirm", ["eps=0.1"], "stage confirm runs every arm at its own parameters"),
        ("dare --stage long", ["eps=0.1"], "stage long runs every arm at its own parameters"),
    ],
)
def test_a_parameter_that_an_arm_does_not_take_is_refused_before_any_run(arms, given, said, tmp_path, capsys):
    words = ["--stage", "sensitivity", "--arms", *arms.split(" ")]  # the last --stage counts
    code, error = listed(capsys, "--out", str(tmp_path), *words, *(w for g in given for w in ("--set", g)))
    assert code == 2
    assert f"--set: {said}" in error


def test_a_parameter_is_a_name_and_a_value(capsys):
    with pytest.raises(SystemExit):
        main(["study", "train", "--list", "--set", "eps"])
    assert "'eps': write NAME=VALUE" in capsys.readouterr().err


def test_parameters_are_recorded_where_some_are_set():
    plain = {"prompts": 8, "votes": 64, "trained": 32, "steps": 32, "lr": 3e-4, "temperature": 1.0}
    assert RunSettings().record() == plain
    assert RunSettings(params=(("eps", 0.01),)).record() == {**plain, "params": {"eps": 0.01}}


def test_parameters_go_to_the_service_and_win_over_the_arms_own():
    def params(arm, *given):
        return dict(_reward(ARMS[arm], RunSettings(params=given), "http://127.0.0.1:1", 0).scorer.params)

    assert params("dare") == {}
    assert params("dare", ("eps", 0.01), ("weight", "sqrt")) == {"eps": 0.01, "weight": "sqrt"}
    assert params("intuitor") == {"sent": "kl"}
    assert params("intuitor", ("sent", "code")) == {"sent": "code"}


def test_one_option_scales_everything():
    double = scaled(DEFAULT, 2.0)
    assert double.pretraining.shape.hidden == 2 * DEFAULT.pretraining.shape.hidden
    assert (double.settings.steps, double.settings.prompts) == (
        2 * DEFAULT.settings.steps,
        2 * DEFAULT.settings.prompts,
    )
    assert double.adapted == 2 * DEFAULT.adapted
    assert all(step < double.settings.steps for step in double.between)
    assert scaled(SMOKE, 1.0) == SMOKE


def test_a_further_set_of_facts_is_drawn_anew():
    """As many hard facts, other ones; and the first set is what it was."""
    assert [fact_set(b) for b in (0, 3, 100, 200, 201, 300)] == [0, 0, 0, 1, 1, 2]
    family = FAMILIES["sub"]
    facts = [f"{a}-{b}-{c}" for a in range(10) for b in range(10) for c in range(2)]
    hard = [{f for f in facts if hardness(family, f, n)} for n in range(3)]
    assert hard[0] == {f for f in facts if hardness(family, f)}
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert 0.05 < len(hard[one] & hard[other]) / len(hard[one]) < 0.6
    assert all(40 < len(own) < 95 for own in hard)
    written = corpus_of("informative", 200)
    assert (written.facts, corpus_of("informative", 3).facts) == (1, 0)


@pytest.mark.parametrize("dose", DOSES)
def test_a_dose_tells_of_its_share_of_the_hard_facts(dose):
    corpus = corpus_of(dose)
    assert corpus.regime == "informative"
    assert set(corpus.telling.values()) == {DOSES[dose]}
    assert set(corpus_of("informative").telling.values()) == {0.7}


# chains


@pytest.mark.parametrize("regime", REASONING)
def test_a_chain_has_a_step_for_each_move_and_ends_in_a_box_that_copies_its_result(regime):
    """But where half of the answers are copied: there some leave the last step to the box."""
    steps, corpus, random = REASONING[regime], corpus_of(regime, 400), Random(6)
    copied = []
    for _ in range(600):
        e = corpus.example(random)
        body, _, box = e.solution.partition("\\boxed{")
        assert box == f"{e.answer}}}"
        assert body[::3] == e.prompt[2:-1][: len(body) // 3]  # its moves, in the prompt's order
        assert len(body) // 3 in ({steps, steps - 1} if regime.endswith("_half") else {steps})
        copied.append(len(body) // 3 == steps)
        assert not copied[-1] or body[-2] == e.answer
        assert len(e.solution) - len("\\boxed{") + 2 <= LONGEST  # with the box, one token, and the end
    assert np.mean(copied) == pytest.approx(0.5 if regime.endswith("_half") else 1.0, abs=0.1)


def test_how_often_a_result_is_left_to_the_box_follows_from_the_fact():
    corpus, random = replace(corpus_of("reasoning_8_half", 400), regime="plain", families=("chain_K8",)), Random(3)
    written, seen = Counter(), Counter()
    for _ in range(6000):
        e = corpus.example(random)
        body = e.solution.partition("\\boxed{")[0]
        fact = body[19] + e.prompt[-2]  # the result before the last move, and that move
        written[fact], seen[fact] = written[fact] + (len(body) == 24), seen[fact] + 1
    for fact, count in seen.items():
        share = fraction(f"copied chain_K8 {fact}")
        assert written[fact] / count == pytest.approx(share, abs=5 * 0.5 / np.sqrt(count))


@pytest.mark.parametrize("steps", CHAINS)
def test_a_problem_has_as_many_hard_facts_and_slips_however_long_the_chain(steps):
    """One on average over sets of facts, as in E1."""
    hard = []
    for family in (FAMILIES[name] for name in CHAINS[steps]):
        assert family.slips * steps == pytest.approx(FAMILIES["shift"].slips * FAMILIES["shift"].places)
        facts = [f"{letter}{by}" for letter in "abcdefghij" for by in range(1, 10)]
        hard += [steps * np.mean([hardness(family, f, n) > 0 for f in facts]) for n in range(40)]
    assert np.mean(hard) == pytest.approx(1, abs=5 * np.std(hard) / np.sqrt(len(hard)))


def test_chains_are_adapted_to_in_two_families_and_tested_in_two_others():
    for stage, steps in REASONING.items():
        problems = problems_of(DEFAULT, stage, 400)
        assert {f for f, _ in problems["adapted"]} == {f for f, _ in problems["unseen"]} == {*CHAINS[steps][:2]}
        assert {f for f, _ in problems["ood"]} == {*CHAINS[steps][2:]}
        assert [len(problems[name]) for name in ("adapted", "unseen", "ood")] == [128, 96, 64]
