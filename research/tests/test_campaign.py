"""The campaign: its arms, the labels of its calibration, and the commit that stands in every record."""

import os
import signal
import subprocess
from concurrent.futures import Future
from itertools import groupby

import numpy as np
import pytest

from dare_research import train as commands
from dare_research.page.report import WANTED
from dare_research.training import jobs, runner
from dare_research.training.arms import ARMS, CAMPAIGN, DEFAULT, E1B, E1C, E1D, FULL, chosen_params
from dare_research.training.corpus import SPLITS, hard_facts
from dare_research.training.examine import grade
from dare_research.training.families import split_of
from dare_research.training.grpo_run import RunSettings
from dare_research.training.plan import DEFAULT as DESIGN
from dare_research.training.plan import HALVES, Cell, cells, fact_set, labelled_of, problems_of
from dare_research.training.preregistered import registered
from dare_research.training.records import append, read_records
from dare_reward.cli import main
from dare_reward.errors import ConfigError
from dare_reward.methods import find

PAGE = "campaign.md"


def test_the_arms_of_the_campaign():
    assert set(CAMPAIGN) == {
        *("ttrl", "dare", "empo", "rent"),
        *("calibrated_vote", "vote_2", "vote_4", "gt_quarter"),
    }
    assert set(E1B) == {"gmae", "ttrl_gt_quarter"}
    assert set(E1C) == {"dare_waves", "dare_40", "ttrl_masked"}
    assert set(E1D) == {"ddrl", "ear"}
    for name in (*CAMPAIGN, *E1B, *E1C, *E1D):
        arm = ARMS[name]
        given = {"exponent": 1.0} if arm.labels else {}
        assert find(arm.method).resolve({**arm.params, **given}).items() >= arm.params.items()


def test_the_first_study_is_as_it_was():
    """What was planned then does not grow by the arms of now."""
    assert not {"calibrated_vote", "vote_2", "vote_4", "gt_quarter", *E1B, *E1C, *E1D} & {
        *DEFAULT,
        *FULL,
        *(a for *_, a in WANTED),
    }
    assert {"rent", "gt"} <= set(FULL)


def test_a_parameter_of_a_calibrated_arm_can_be_set():
    assert chosen_params(ARMS["calibrated_vote"], {"eps": "0.01"}) == {"eps": 0.01}


def test_the_labelled_prompts_are_in_no_other_set():
    for base in range(2):
        labelled = labelled_of(DESIGN, "campaign", base, 32)
        own = [p.prompt for _, p in labelled]
        assert len(set(own)) == 32
        assert {split_of(p, SPLITS) for p in own} == {"probe"}
        assert {f for f, _ in labelled} == set(DESIGN.confirm)
        others = {p.prompt for part in problems_of(DESIGN, "campaign", base).values() for _, p in part}
        assert not others & set(own)


@pytest.fixture
def stand_in(monkeypatch):
    """Rollouts whose right answers are the sure ones, and a training that only says what it was given."""
    seen = {"examined": [], "trained": []}

    def examine(model, tokenizer, problems, *, each, seed, temperature=1.0):
        seen["examined"].append((tuple(p.prompt for _, p in problems), seed))
        rng = np.random.default_rng(seed)
        rollouts = []
        for _, problem in problems:
            good = rng.random(each) < rng.uniform(0.2, 0.6)
            rollouts.append(
                [
                    {"text": f"\\boxed{{{problem.answer if g else 'x'}}}", "mean_entropy": (0.1 if g else 0.3) + e}
                    for g, e in zip(good, 0.05 * rng.random(each), strict=True)
                ]
            )
        return grade(problems, rollouts, [9] * each * len(problems))

    def train(model, tokenizer, problems, arm, settings, **more):
        seen["trained"].append((arm, [p.prompt for p in problems]))
        seen["asked"] = dict(more["asked"])
        more["evaluate"](types_model, settings.steps)
        return {"settings": settings.record(), "steps": {}, "tokens": 1, "seconds": 1.0}

    class types_model:  # noqa: N801  (stands for a torch module)
        @staticmethod
        def eval():
            pass

        @staticmethod
        def train():
            pass

    monkeypatch.setattr(jobs, "examine", examine)
    monkeypatch.setattr(jobs, "train", train)
    monkeypatch.setattr(jobs, "load", lambda folder: (types_model, None))
    monkeypatch.setattr(jobs, "digest", lambda folder: f"digest of {folder.name}")
    monkeypatch.setattr(jobs, "_one_thread", lambda: None)
    return seen


def cell(arm, base=0):
    return Cell("campaign", "informative", base, arm, 0, RunSettings(steps=1))


def test_the_exponent_comes_from_the_labelled_prompts_alone(stand_in, tmp_path):
    (record,) = jobs.run_cell(DESIGN, cell("calibrated_vote"), tmp_path, "http://unused")
    (arm, prompts) = stand_in["trained"][0]
    labelled = tuple(p.prompt for _, p in labelled_of(DESIGN, "campaign", 0, 32))
    assert stand_in["examined"][0] == (labelled, jobs.CALIBRATED)
    assert arm.method == "calibrated_vote"
    assert arm.params["exponent"] == record["calibration"]["exponent"] > 0
    assert record["calibration"]["labels"] == record["calibration"]["prompts"] == 32
    assert record["calibration"]["statistic"] >= 3
    assert record["weights"] == "digest of informative-0"
    assert len(prompts) == 128
    assert not set(prompts) & set(labelled)
    assert "exponent" not in ARMS["calibrated_vote"].params


def test_other_arms_see_no_labels(stand_in, tmp_path):
    (record,) = jobs.run_cell(DESIGN, cell("vote_4"), tmp_path, "http://unused")
    assert "calibration" not in record
    assert stand_in["trained"][0][0].params == {"exponent": 4.0}
    assert all(seed != jobs.CALIBRATED for _, seed in stand_in["examined"])


def test_a_quarter_of_the_prompts_has_as_many_labels_as_the_calibration(stand_in, tmp_path):
    jobs.run_cell(DESIGN, cell("gt_quarter"), tmp_path, "http://unused")
    jobs.run_cell(DESIGN, cell("ttrl"), tmp_path, "http://unused")
    assert not stand_in["asked"]
    quarter, whole = (set(prompts) for _, prompts in stand_in["trained"])
    assert len(quarter) == ARMS["calibrated_vote"].labels == 32
    assert quarter < whole
    jobs.run_cell(DESIGN, cell("ttrl_gt_quarter"), tmp_path, "http://unused")
    assert stand_in["asked"] == {prompt: {"method": "gt"} for prompt in quarter}
    assert set(stand_in["trained"][-1][1]) == whole
    families = [f for f, p in problems_of(DESIGN, "campaign", 0)["adapted"] if p.prompt in quarter]
    assert {f: families.count(f) for f in families} == dict.fromkeys(DESIGN.confirm, 16)


def test_a_family_has_an_exponent_from_its_own_labels(stand_in, tmp_path):
    (record,) = jobs.run_cell(DESIGN, cell("calibrated_by_family"), tmp_path, "http://unused")
    labelled, fitted = labelled_of(DESIGN, "campaign", 0, 32), record["calibration_by_family"]
    asked_for = [(tuple(p.prompt for f, p in labelled if f == family), jobs.CALIBRATED) for family in DESIGN.confirm]
    assert stand_in["examined"][:2] == asked_for
    assert {f: own["labels"] for f, own in fitted.items()} == dict.fromkeys(DESIGN.confirm, 16)
    problems = problems_of(DESIGN, "campaign", 0)["adapted"]
    assert stand_in["asked"] == {p.prompt: {"params": {"exponent": fitted[f]["exponent"]}} for f, p in problems}
    assert stand_in["trained"][0][0].params == {"exponent": 0.0}


def test_halves_share_no_hard_fact():
    """And differ from the campaign's prompts in nothing else: families, splits, counts."""
    for base in (0, 1, 200):
        found, usual = (problems_of(DESIGN, stage, base) for stage in (HALVES, "campaign"))
        facts = {name: [hard_facts(f, p, fact_set(base)) for f, p in problems] for name, problems in found.items()}
        adapted, known, unseen = (frozenset().union(*facts[name]) for name in ("adapted", "known", "unseen"))
        assert not (adapted | known) & unseen
        assert known & adapted
        assert all(facts["known"])
        assert all(facts["unseen"])
        assert not all(facts["adapted"])
        assert [f for f, _ in found["adapted"]] == [f for f, _ in usual["adapted"]]
        for name in ("known", "unseen"):
            assert [f for f, _ in found[name]] == [f for f, _ in usual["unseen"]]
            assert {split_of(p.prompt, SPLITS) for _, p in found[name]} == {"unseen"}
        assert {split_of(p.prompt, SPLITS) for _, p in found["adapted"]} == {"adapted"}


# the commit


@pytest.fixture
def checkout(tmp_path):
    def git(*words):
        found = subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True, text=True)
        return found.stdout.strip()

    git("init", "-q")
    git("config", "user.email", "a@b.c")
    git("config", "user.name", "n")
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder, git


def test_a_preregistration_is_a_commit(checkout):
    folder, git = checkout
    with pytest.raises(ConfigError, match="does not exist"):
        registered(folder / PAGE)
    (folder / PAGE).write_text("first")
    with pytest.raises(ConfigError, match="not committed"):
        registered(folder / PAGE)
    git("add", "-A")
    git("commit", "-qm", "fixed")
    first = registered(folder / PAGE)
    assert first == dict.fromkeys(("preregistration", "code"), git("rev-parse", "HEAD"))
    (folder / "other.md").write_text("later")
    module = folder.parent / "package" / "module.py"
    module.parent.mkdir()
    module.write_text("")
    git("add", "-A")
    git("commit", "-qm", "later")
    assert registered(folder / PAGE) == {**first, "code": git("rev-parse", "HEAD")}
    (folder / "other.md").write_text("changed")
    assert registered(folder / PAGE) == {**first, "code": git("rev-parse", "HEAD")}
    module.write_text("changed")
    assert registered(folder / PAGE)["code"] == git("rev-parse", "HEAD") + "-dirty"
    (folder / PAGE).write_text("changed")
    with pytest.raises(ConfigError, match="not committed"):
        registered(folder / PAGE)


def test_no_checkout_no_campaign(tmp_path, monkeypatch):
    (tmp_path / PAGE).write_text("text")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="git checkout"):
        registered(tmp_path / PAGE)


def test_the_commit_stands_in_every_record(monkeypatch, tmp_path):
    records = iter(
        [[{"record": "trunk", "id": "trunk-0"}], [{"record": "base", "id": "a"}], [{"record": "run", "id": "b"}]]
    )

    class Pool:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(runner, "_check_weights", lambda *_: None)
    monkeypatch.setattr(runner, "_finished", lambda pool, jobs, *_: [(name, next(records)) for name in jobs])
    file = tmp_path / "training.jsonl"
    left = runner.run(DESIGN, [cell("ttrl")], file=file, bases=tmp_path, url="u", stamp={"preregistration": "abc"})
    assert left == 0
    assert [r["preregistration"] for r in read_records(file)] == ["abc"] * 3


def test_a_base_and_seed_is_done_with_before_the_next():
    wanted = cells(
        "campaign",
        regimes=("informative", "confident"),
        bases=(0, 1),
        arms=("ttrl", "dare"),
        seeds=(0, 1),
        settings=[1],
    )
    blocks = [(key, len(list(own))) for key, own in groupby(wanted, key=lambda c: (c.seed, c.base))]
    assert blocks == [((0, 0), 4), ((0, 1), 4), ((1, 0), 4), ((1, 1), 4)]


def test_sigterm_ends_a_study_after_the_run_in_progress(monkeypatch, tmp_path):
    class Pool:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, job):
            ended = Future()
            ended.set_result(job())
            return ended

    def run_cell(_design, own, *_):
        if own.arm == "dare":
            os.kill(os.getpid(), signal.SIGTERM)
        return [{"record": "run", "id": own.id}]

    monkeypatch.setattr(runner, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(runner, "_check_weights", lambda *_: None)
    monkeypatch.setattr(runner, "saved", lambda *_: True)
    monkeypatch.setattr(runner, "run_cell", run_cell)
    file = tmp_path / "campaign.jsonl"
    append(file, [{"record": "base", "id": "campaign/informative/0"}])
    wanted = [cell("ttrl"), cell("dare"), cell("rent"), cell("empo")]
    before = signal.getsignal(signal.SIGTERM)
    assert runner.run(DESIGN, wanted, file=file, bases=tmp_path, url="u", workers=1) == 2
    assert [r["id"] for r in read_records(file)[1:]] == [c.id for c in wanted[:2]]
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_command_stamps_the_campaign_and_nothing_else(monkeypatch, tmp_path, capsys):
    stamps = []
    monkeypatch.setattr(commands, "find_spec", lambda name: name)
    monkeypatch.setattr(commands, "registered", lambda page: {"preregistration": f"commit of {page.name}"})
    monkeypatch.setattr(commands, "service", lambda url: __import__("contextlib").nullcontext("u"))
    monkeypatch.setattr(commands, "run", lambda *_, stamp, **__: stamps.append(stamp) or 0)
    for stage in ("campaign", "confirm"):
        words = ["study", "train", "--stage", stage, "--arms", "campaign", "--out", str(tmp_path)]
        assert main(words) == 0
    assert stamps == [{"preregistration": "commit of campaign.md"}, {}]
    assert main(["study", "train", "--stage", "campaign", "--arms", "e1b", "--out", str(tmp_path)]) == 0
    assert stamps[-1] == {"preregistration": "commit of campaign-e1b.md"}
    assert main(["study", "train", "--stage", "campaign", "--arms", "e1c", "--out", str(tmp_path)]) == 0
    assert stamps[-1] == {"preregistration": "commit of campaign-e1c.md"}
    assert main(["study", "train", "--stage", "campaign", "--arms", "ttrl,gmae", "--out", str(tmp_path)]) == 2
    assert "that one page registers" in capsys.readouterr().err
    assert main(["study", "train", "--stage", "campaign", "--arms", "campaign", "--list", "--out", str(tmp_path)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8 * 16


def test_a_part_is_what_its_page_plans(monkeypatch, tmp_path, capsys):
    stamps, wanted = [], []
    monkeypatch.setattr(commands, "find_spec", lambda name: name)
    monkeypatch.setattr(commands, "registered", lambda page: {"preregistration": page.name})
    monkeypatch.setattr(commands, "service", lambda url: __import__("contextlib").nullcontext("u"))
    monkeypatch.setattr(commands, "run", lambda _, own, *, stamp, **__: stamps.append(stamp) or wanted.extend(own) or 0)
    part = ["study", "train", "--out", str(tmp_path), "--part"]
    assert main([*part, "e5", "--workers", "1"]) == 0
    assert stamps == [{"preregistration": "campaign-e5.md"}]
    assert {(c.settings.steps, c.seed, c.stage) for c in wanted} == {(96, 0, "campaign")}
    assert len(wanted) == 48
    for more in (["--arms", "ttrl"], ["--seeds", "0"], ["--smoke"], ["--set", "eps=0.1"]):
        assert main([*part, "e5", *more]) == 2
        assert "its page says what is run" in capsys.readouterr().err


def test_a_longer_run_is_looked_at_more_often():
    assert DESIGN.evaluated(32) == (8, 16, 24, 32)
    assert DESIGN.evaluated(96) == (8, 16, 24, 32, 48, 64, 80, 96)
    assert DESIGN.evaluated(512) == (8, 16, 24, *range(48, 512, 32), 512)
