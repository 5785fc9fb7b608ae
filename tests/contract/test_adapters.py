"""The adapters with light stand-ins of their stacks' objects; tests/stacks drives them by the real ones."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import importlib
import pickle
import re
import sys
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import urlencode

import byte_level
import numpy as np
import pytest
from rows import each
from stack_samples import Sample, TrlTrainer, generated, paid_by_slime

import dare_reward
from dare_reward.answers.extraction.final_answer import WHY_NONE
from dare_reward.errors import ConfigError, ReplyError, RequestError, UnavailableError
from dare_reward.openrlhf import AnswerRules
from dare_reward.options import ADAPTER
from dare_reward.runs import read_run
from dare_reward.runs.line import asked_for
from dare_reward.runs.log import run_log_of
from dare_reward.stacks import adapter as common
from dare_reward.stacks import report, slime, verl
from dare_reward.stacks.report import say_once
from dare_reward.stacks.rollout import outside_answer
from dare_reward.stacks.trl import DareReward
from dare_reward.stacks.trl_rollout import VoteRollout

pytestmark = pytest.mark.usefixtures("plugins")

easyr1, swift = sys.modules["easyr1"], sys.modules["ms_swift"]  # conftest.py loads them by their paths
URL = "http://service"
group = common.Scorer.of(URL).group


def texts_of(answers):
    return [f"\\boxed{{{a}}}" for a in answers]


def rollouts(answers, **columns):
    return [{"text": text, **{k: v[i] for k, v in columns.items()}} for i, text in enumerate(texts_of(answers))]


# --- settings --------------------------------------------------------------------------------------------------------


def test_one_url_carries_everything():
    scorer = common.Scorer.of(
        "http://h:1/prefix?method=dare&alpha=0.3&weight=sqrt&fallback=local&retries=2&timeout=9&token=x&on_error=zero"
    )
    assert (scorer.url, scorer.method, scorer.on_error) == ("http://h:1/prefix", "dare", "zero")
    assert dict(scorer.params) == {"alpha": 0.3, "weight": "sqrt"}
    assert dict(scorer.client) == {"timeout": 9.0, "retries": 2, "fallback": "local", "token": "x"}
    assert common.Scorer.of("http://h?alpha=0.3", alpha=0.5).params == (("alpha", 0.5),)


def test_everything_pickles(service, monkeypatch):
    monkeypatch.setenv("DARE_URL", URL)
    things = DareReward(URL), VoteRollout(1), swift.DareORM(), common.Scorer.of(URL), slime.reward, easyr1.reward
    for thing in things:
        pickle.loads(pickle.dumps(thing))
    reward = DareReward(URL, num_generations=2, method="ttrl")
    reward(["p", "p"], ["\\boxed{1}", "\\boxed{1}"])
    assert pickle.loads(pickle.dumps(reward))(["p", "p"], ["\\boxed{1}", "\\boxed{1}"]) == [1, 1], "after use, too"


ERRORS = (
    RequestError("must be a list", loc=("groups", 0), code="type"), dare_reward.RefusedError(422, {"detail": "no"}),
    dare_reward.GroupError("entropy", "lacks one"), UnavailableError("away"),
)  # fmt: skip


@pytest.mark.parametrize("error", ERRORS)
def test_errors_cross_processes(error):
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))


# --- entropies -------------------------------------------------------------------------------------------------------


def test_sources_are_never_mixed():
    exact = group("g", rollouts("12", token_entropies=[[0.1], [0.2]], logprobs=[[-5.0], [-5.0]]))
    assert [set(r) for r in exact["rollouts"]] == [{"text", "token_entropies", "token_logprobs"}] * 2
    assert "entropy_source" not in exact
    half = [{"text": "a", "token_entropies": [0.1], "logprobs": [-1.0]}, {"text": "b", "logprobs": [-3.0, -1.0]}]
    estimated = group("g", half)
    assert estimated["entropy_source"] == "logprob"
    assert [r["token_logprobs"].tolist() for r in estimated["rollouts"]] == [[-1.0], [-3.0, -1.0]]
    assert [r["token_entropies"].tolist() for r in estimated["rollouts"]] == [[1.0], [3.0, 1.0]]
    lacking = group("g", [{"text": "a", "token_entropies": [0.1]}, {"text": "b"}])
    assert [set(r) for r in lacking["rollouts"]] == [{"text", "token_entropies"}, {"text"}]


def test_no_entropy_anywhere_is_votes_alone_unless_told(service):
    votes = group("g", rollouts("112"))
    ((one, two, three),), _ = common.Scorer.of(URL).score([votes])
    assert one == two > three
    with pytest.raises(ReplyError, match="was not scored"):
        common.Scorer.of(URL, missing_entropy="error").score([votes])


def test_an_answer_whose_probability_cannot_be_told_ends_nothing(service):
    """Its group is scored by votes alone, as where an entropy is missing; the run has one configuration."""
    scorer = common.Scorer.of(f"{URL}?certainty=answer_probability")
    whole = rollouts("112", logprobs=[[-0.1], [-0.2], [-5.0]], answer_tokens=[[0, 1]] * 3)
    lacking = [whole[0], {**whole[1], "answer_tokens": None}, whole[2]]
    replies = [scorer.score([group("g", rows)])[1] for rows in (whole, lacking)]
    assert [r.groups[0].entropy_source for r in replies] == ["logprob", "none"]
    assert len({r.config_id for r in replies}) == 1


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_error", ADAPTER["on_error"].choices)
def test_a_wrong_reply_is_an_error_whatever_on_error_says(service, on_error):
    """tests/unit/test_client.py has the other ways in which a reply is wrong."""
    service.change = lambda reply: reply["groups"][0]["rewards"].pop() and reply
    with pytest.raises(ReplyError, match="2 rewards"):
        common.Scorer.of(URL, on_error=on_error).score([group("g", rollouts("112"))])


def test_one_group_without_rewards_is_left_out(service):
    """What TRL makes of a reward that is None: tests/stacks."""

    def unscored(reply):
        first = reply["groups"][0]
        error = {"group_id": first["group_id"], "error": {"code": "x", "message": "no"}}
        return {**reply, "groups": [dict.fromkeys(first) | error, *reply["groups"][1:]]}

    service.change, logged = unscored, {}
    reward = DareReward(URL, method="ttrl", num_generations=2)
    found = reward([*"ppqq"], texts_of("1112"), log_metric=logged.__setitem__)
    assert (found, logged["dare/abstained"]) == ([None, None, 1.0, 0.0], 0)


# --- the adapters ----------------------------------------------------------------------------------------------------


def test_rollouts_without_answers_are_warned_of_at_once_and_not_at_every_step(service, caplog):
    scorer = common.Scorer.of(URL, method="ttrl")
    silent = group("g", [{"text": "no idea", "finish_reason": "stop"}] * 3 + [{"text": "", "answer": None}])
    for _ in range(9):
        scorer.score([silent])

    def warned():
        said = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        return [words for words in said if "without an answer" in words]

    assert [words.split()[0] for words in warned()] == ["4", "8", "16", "32"]
    assert WHY_NONE["unannounced"] in warned()[0]
    scorer.score([group("h", rollouts("1")), *({**silent, "group_id": str(i)} for i in range(8))])
    caplog.clear()
    common.Scorer.of(URL, method="ttrl", tie="first").score([group("g", rollouts("112"))])
    assert not warned()


def test_copies_of_an_image_are_one_prompt(service):
    prompts = [[{"role": "user", "content": [{"type": "image", "image": object()}]}] for _ in range(2)]
    assert DareReward(f"{URL}?method=ttrl", num_generations=2)(prompts, texts_of("11")) == [1.0, 1.0]


def test_trl_groups_are_named_after_their_prompts(service):
    """In any order and step the same name; a prompt that comes twice in a step has two."""
    reward = DareReward(URL, num_generations=2, method="ttrl")
    texts = ["\\boxed{1}", "\\boxed{2}"]
    chat = [{"role": "user", "content": "r"}]
    for prompts in (["p", chat, "p"], [chat, "q", "p"]):
        reward([p for p in prompts for _ in range(2)], texts * 3)
    one, two = ([g["group_id"] for g in body["groups"]] for body in service.bodies)
    assert one[2] == f"{one[0]}-2"
    assert (two[0], two[2]) == (one[1], one[0])
    assert len({*one, *two}) == 4
    assert not any("prompt" in r for body in service.bodies for g in body["groups"] for r in g["rollouts"])


@pytest.mark.parametrize("texts", ["", "prompt", "all"])
@pytest.mark.parametrize(
    ("prompt", "logged"),
    [
        ("a question", "a question"),
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}], "Be brief.\nWhy?"),
        ([{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]}], "What?"),
    ],
    ids=["text", "messages", "parts"],
)
def test_a_prompt_is_in_the_client_s_run_log_if_asked_for_and_does_not_travel(service, tmp_path, texts, prompt, logged):
    settings = f"method=ttrl&run=r&run_log={tmp_path}&run_log_texts={texts}"
    DareReward(f"{URL}?{settings}", num_generations=2)([prompt] * 2, texts_of("12"))
    paid_by_slime([sample(i, i, prompt=prompt, group_index=7) for i in range(2)], f"{URL}?{settings}")
    assert [set(g) & {"prompt"} for body in service.bodies for g in body["groups"]] == [set(), set()]
    run_log_of(tmp_path, asked_for(texts)).close()
    lines = list(read_run(tmp_path / "r"))
    assert [line.get("prompt") for line in lines] == [logged if texts else None] * 2


def sample(index, answer, logprobs=(-0.1, -0.3), **more):
    """As slime has it once its engine has replied."""
    told = {"prompt": [{"role": "user", "content": "a question"}], "status": Sample.Status.COMPLETED, **more}
    return generated(index, f"\\boxed{{{answer}}}", logprobs, **told)


@pytest.fixture
def one_rank(monkeypatch, stand_in):
    stand_in("accelerate", PartialState=lambda: SimpleNamespace(process_index=0, num_processes=1))
    monkeypatch.setenv("DARE_URL", f"{URL}?method=ttrl")


# --- one table over the adapters --------------------------------------------------------------------------------------


class Paid(NamedTuple):
    """What a stack gets for one group, and what is logged of it."""

    rewards: list
    logged: dict


def by_trl(query, answers, **args):
    logged = {}
    log = TrlTrainer(**args).log_metric if args else logged.__setitem__
    score = DareReward(f"{URL}?{query}", num_generations=len(answers), entropy="none")
    return Paid(score(["p"] * len(answers), texts_of(answers), log_metric=log), logged)


def by_slime(query, answers, **args):
    given = [sample(i, a, None) for i, a in enumerate(answers)]
    return Paid(paid_by_slime(given, f"{URL}?{query}", **args), given[0].metadata)


def by_swift(query, answers, **args):
    logged, columns = {}, {"prompt_id": ["p"] * len(answers), "request_id": list(range(len(answers)))}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DARE_URL", f"{URL}?{query}")
        patch.setattr(report.logger, "isEnabledFor", lambda level: True)
        patch.setattr(report.logger, "info", lambda words, groups, numbers: logged.update(numbers))
        orm = swift.DareORM(SimpleNamespace(**args) if args else None)
        return Paid(asyncio.run(orm(texts_of(answers), **columns)), {f"dare/{k}": v for k, v in logged.items()})


def by_easyr1(query, answers, uids=None, truths=None):
    """Rows of one group, of those that `uids` says, or with their truths, as a validation has them."""
    token = easyr1.UIDS.set(None if truths else uids or ["p"] * len(answers))
    pairs = zip(texts_of(answers), truths or ["2"] * len(answers), strict=True)
    try:
        found = easyr1.reward(
            [{"response": t, "response_length": 2, "ground_truth": x} for t, x in pairs], url=f"{URL}?{query}"
        )
    finally:
        easyr1.UIDS.reset(token)
    return Paid([row["overall"] for row in found], found[0])


BY = {"trl": by_trl, "slime": by_slime, "swift": by_swift, "easyr1": by_easyr1}
# what is paid in a group that is to be dropped: one advantage for all
DROPPED = {"trl": None, "swift": None, "slime": 0.0, "easyr1": 0.0}


@pytest.mark.parametrize("stack", BY)
def test_each_adapter_pays_a_group_or_drops_it(service, one_rank, stack):
    def pay(query, answers):
        return BY[stack](query, answers).rewards

    assert pay("method=ttrl", "11223333") == [0.0] * 4 + [1.0] * 4
    assert len(set(pay("method=empo", "1112"))) == 2
    assert pay("method=empo&settled=0.9", "1112") == [DROPPED[stack]] * 4
    assert pay("method=empo&settled=0.9", "5555") == [1.0] * 4, "one answer has no variance anyway"


def test_swifts_names_of_a_steps_prompts_are_no_names_of_prompts(service, one_rank):
    """prompt_0 is another prompt in the next step: a report would call every new label a flip."""
    for step in range(2):
        columns = {"prompt_id": ["prompt_0"] * 2, "request_id": [f"chatcmpl-{step}{i}" for i in range(2)]}
        asyncio.run(swift.DareORM()(texts_of("12"), **columns, trainer_state=SimpleNamespace(global_step=step)))
    one, two = (body["groups"][0]["group_id"] for body in service.bodies)
    assert one != two
    assert [body["step"] for body in service.bodies] == [0, 1]


@each(
    ("stacks", "query", "fix"),
    [
        *(("trl slime swift easyr1", query, fix) for query, fix in (
            ("alhpa=1", "alpha"), ("alpha=2", "alpha"), ("method=dear", "dare"), ("on_error=ignore", "abstain, zero"),
            ("fallback=lokal", "local"), ("retries=many", "retries"), ("timeout=long", "timeout"),
            ("spans=true", "train_on=reasoning"), ("train_on=thoughts", "all, reasoning"),
            ("method=cocov", "cocov gives advantages"),
        )),
        ("slime easyr1", "on_error=abstain", "not abstain"),
        ("slime swift easyr1", "train_on=reasoning", "leave out train_on"),
        ("swift", "method=ttrl&labelled=gt", "leave out labelled"),  # the others have labels
        ("trl swift easyr1", "method=gmae&advantage=gmae", "leave out advantage"),
        ("swift easyr1", "selection=ddrl", "leave out selection"),  # TRL trains on nothing that has no reward
        ("trl swift easyr1", "reshape=ear", "leave out reshape"),
        ("trl swift easyr1", "method=ddrl", "such as ttrl"),  # its rewards alone are those of ttrl
        ("trl slime swift easyr1", "method=spine&allow_experimental=true", "token_mask.*ttrl"),  # else it would be ttrl
        ("slime", "method=ddrl", "--custom-reward-post-process-path"),
        ("slime", "method=gmae&advantage=gmae", "--custom-reward-post-process-path"),
        ("slime", "method=gmae", "calibration=none"),  # one group a call
        ("easyr1", "method=gmae", "choose another method"),  # its grpo always divides
        ("slime", "adaptive=auto", "votes="),
        ("slime", "method=ddrl&adaptive=auto&votes=16", "votes|selection"),
        ("slime", "method=gt&adaptive=auto&votes=16", "leave adaptive out"),
    ],
)  # fmt: skip
def test_what_an_adapter_cannot_do_is_one_sentence_that_names_the_fix(service, one_rank, stacks, query, fix):
    for stack in stacks.split():
        with pytest.raises((ConfigError, RequestError), match=fix) as caught:
            BY[stack](query, "1122")
        assert "\n" not in str(caught.value)
    assert not service.bodies


@each(
    ("call", "fix"),
    [
        (lambda: common.Scorer.of("127.0.0.1:8000"), "http://"),
        (lambda: DareReward(None), "http://.*None"),  # of a variable that is not set
        (lambda: DareReward(URL, num_generations=-2)(["p"] * 4, texts_of("1111")), "whole groups of num_generations=-2"),
        (lambda: DareReward(URL, entropy="nonee"), "forward, none"),
        (lambda: DareReward(URL, num_generations=3)(["p"] * 8, texts_of("11221122")), "num_generations"),
        (lambda: DareReward(URL, num_generations=1, label="anser")(["p"], texts_of("1"), answer=["1"]), "Did you mean answer"),
        (lambda: DareReward(URL, num_generations=1, label="prompt")(["p"], texts_of("1"), answer=["1"]), "column of right answers"),
        (lambda: DareReward(URL, num_generations=4)(list("abab"), texts_of("1111")), "rows of a prompt together"),
        (lambda: DareReward(URL, num_generations=2)([[{"role": "user", "content": c}] for c in "ab"], texts_of("11")), "2 prompts"),
        (lambda: DareReward(URL, num_generations=2, train_on="reasoning")(["p"] * 2, texts_of("11")), r"VoteRollout\(extra=0\)"),
        (lambda: DareReward(URL, method="ttrl", labelled="gt"), "label"),  # of which column?
        *((lambda more=more: common.Scorer.of(f"{URL}?{more}&labelled=gt"), "labelled") for more in ("method=dare", "method=rpc&reward=share", "")),
        (lambda: VoteRollout(1, url=URL), "adaptive"),
        (lambda: VoteRollout(1, adaptive="auto"), "url"),
        (lambda: VoteRollout(1, adaptive="auto", url=f"{URL}?method=dare"), "dare may pay another one.*: ttrl"),
        (lambda: VoteRollout(1, adaptive="speed=3", url=f"{URL}?method=ttrl"), "speed"),
        (lambda: paid_by_slime(sample(0, 1), URL), "--group-rm"),
        (lambda: paid_by_slime([[sample(0, 1)]], URL), "--group-rm"),
        (lambda: paid_by_slime([sample(i, 1, group_index=i) for i in (1, 2)], URL), "several groups"),
        (lambda: paid_by_slime([sample(0, 1)], None), "--rm-url"),
        (lambda: slime.advantages(SimpleNamespace(rm_url=f"{URL}?method=ttrl"), step()), "advantage="),
        (lambda: asyncio.run(swift.DareORM()(texts_of("11"), prompt_id=["a"] * 2)), "request_id"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_sentence_that_names_the_fix(service, one_rank, call, fix):
    with pytest.raises((ConfigError, RequestError), match=fix) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert not service.bodies


def test_the_environment(monkeypatch):
    monkeypatch.delenv("DARE_URL", raising=False)
    monkeypatch.setenv("DARE_ULR", URL)
    with pytest.raises(RequestError, match=r"verl: set DARE_URL.*DARE_ULR"):
        common.from_environment("verl")
    monkeypatch.setenv("DARE_URL", "http://h?on_error=zero")
    assert common.from_environment("x", on_error="abstain").on_error == "zero"
    monkeypatch.setenv("DARE_URL", "http://h")
    assert common.from_environment("x", on_error="abstain").on_error == "abstain"


class Estimator(str, enum.Enum):  # noqa: UP042 - as in verl
    GRPO = "grpo"
    RLOO = "rloo"


EACH = "multi_objective_aggregation"
PER_FUNCTION, OVER_ALL = {EACH: "normalize_then_sum"}, {EACH: "sum_then_normalize"}
KEPT = {"norm_adv_by_std_in_grpo": False}
REMEDY = {
    "trl": 'scale_rewards="batch"',
    "swift": "--scale_rewards batch",
    "verl": "norm_adv_by_std_in_grpo=false",
    "slime": "--disable-grpo-std",
}


def by_verl(query, answers, **algorithm):
    divides = verl._divides(algorithm)
    common.Scorer.of(GMAE).check_scale("verl", divides=divides, remedy="")  # its own advantages are divided by nobody
    common.Scorer.of(f"{URL}?{query}").check_scale("verl", divides=divides, remedy=verl.SCALE)


# The arguments by which each stack divides, and those by which it does not.
DIVIDES = {
    "trl": (
        [{"scale_rewards": scale} for scale in ("group", True)]
        + [{"scale_rewards": scale, **PER_FUNCTION} for scale in ("batch", "none")],  # whatever scale_rewards says
        [{"scale_rewards": "batch"}, {"scale_rewards": "none"}, {"scale_rewards": "batch", **OVER_ALL}],
    ),
    "swift": (
        [{"scale_rewards": scale} for scale in ("group", True, "gdpo")],
        [{"scale_rewards": scale} for scale in ("batch", "none")],
    ),
    "slime": tuple([{"advantage_estimator": "grpo", "grpo_std_normalization": so}] for so in (True, False)),
    "verl": (
        [{"adv_estimator": name} for name in ("grpo", Estimator.GRPO, "grpo_passk")]
        + [{"adv_estimator": name, **KEPT} for name in ("grpo_vectorized", "gdpo")],
        [{"adv_estimator": name} for name in ("rloo", Estimator.RLOO)]
        + [{"adv_estimator": name, **KEPT} for name in ("grpo", "grpo_passk")],
    ),
}


@each(
    ("stack", "args", "divides"),
    [(stack, args, rows is pair[0]) for stack, pair in DIVIDES.items() for rows in pair for args in rows],
)
def test_a_trainer_that_divides_is_refused_what_must_keep_its_scale(service, one_rank, stack, args, divides):
    pay = {**BY, "verl": by_verl}[stack]
    refused = pytest.raises(RequestError, match=f"undoes gmae.*{re.escape(REMEDY[stack])}")
    with refused if divides else contextlib.nullcontext():
        pay("method=gmae&calibration=none", "1122", **args)
    pay("method=ttrl", "1122", **args)


def by_verls_step(query, answers):
    """What the trainer's step scores and logs, without its queue."""
    scorer = common.Scorer.of(f"{URL}?{query}").require_supported("verl", lacks={"gaps"})
    groups = [group("p", [{"text": text} for text in texts_of(answers)])]
    (rewards,), reply = scorer.score(groups)
    return Paid(rewards, {f"dare/{name}": value for name, value in verl.numbers(reply, groups).items()})


@pytest.mark.parametrize("stack", [*BY, "verl"])
def test_every_adapter_sends_shadow_methods_and_a_seed_and_logs_what_they_say(service, one_rank, stack):
    asked = "method=dare&missing_entropy=frequency&shadow=ttrl+empo&seed=7&kind=text"
    logged = (BY | {"verl": by_verls_step})[stack](asked, "1222").logged
    (body,) = service.bodies
    assert (body["shadow"], body["seed"], body["groups"][0]["kind"]) == (["ttrl", "empo"], 7, "text")
    assert {"dare/shadow_ttrl_flipped", "dare/shadow_empo_flipped"} <= logged.keys()


def test_easyr1_groups_by_uid_and_validates_by_the_truth(service):
    """Rows are shuffled, as _balance_batch leaves them; a validation asks nobody."""
    uids = ["b", "a", "a", "b", "a", "b", "b", "a"]
    assert by_easyr1("method=ttrl", "15625225", uids).rewards == [0, 1, 0, 1, 1, 1, 1, 1]
    assert [len(g["rollouts"]) for g in service.bodies[0]["groups"]] == [4, 4]
    with pytest.raises(RequestError, match=r"8 .*7 "):
        by_easyr1("method=ttrl", "15625225", uids[1:])
    assert by_easyr1("", ["34", "35"], truths=['["34"]', 35]) == ([1.0, 1.0], {"overall": 1.0, "accuracy": 1.0})
    assert len(service.bodies) == 1
    service.down = True
    with pytest.raises(UnavailableError):
        by_easyr1("method=ttrl", "12")
    assert by_easyr1("method=ttrl&on_error=zero", "12").rewards == [0.0, 0.0]
    assert by_easyr1("method=ttrl&fallback=local", "122").rewards == [0.0, 1.0, 1.0]


def test_easyr1_validates_by_the_rules_of_the_training():
    row = {"response": "<think>so \\boxed{5}", "response_length": 9, "ground_truth": "5"}
    assert easyr1.reward([row], url=URL) == [{"overall": 0.0, "accuracy": 0.0}]
    assert easyr1.reward([row], url=f"{URL}?open_think=true") == [{"overall": 1.0, "accuracy": 1.0}]


@pytest.mark.parametrize(
    ("version", "url", "words"),
    [
        *(("0.9.1", f"{URL} {n}", f"DARE_TRAINED={n} must be .* 1 or more") for n in ("0", "-1", "half")),
        ("0.8.0", URL, r"hooks verl 0\.9\.\*, not 0\.8\.0"),
        ("0.9.1", "nowhere", "like http://"),
        ("0.9.1", f"{URL}?on_error=abstain", "not abstain"),
        ("0.9.1", f"{URL}?method=spine&allow_experimental=true", "token_mask"),
    ],
)
def test_verl_ends_rather_than_train_without_rewards(monkeypatch, stand_in, version, url, words):
    """verl swallows what a plugin raises; a process that ends cannot be overlooked."""
    stand_in("verl", __version__=version)
    url, _, trained = url.partition(" ")
    monkeypatch.setenv("DARE_URL", url)
    monkeypatch.setenv("DARE_TRAINED", trained)
    with pytest.raises(SystemExit, match=words):
        importlib.reload(verl)
    monkeypatch.delenv("DARE_URL")
    importlib.reload(verl)


# --- advantages, selections, groups that carry nothing -----------------------------------------------------------------

GMAE = f"{URL}?method=gmae&advantage=gmae"
POST = {"custom_reward_post_process_path": slime.POST_PROCESS}


def step():
    return [
        sample(i, a, group_index=g) for g, row in ((1, "11223"), (2, "33345"), (3, "55555")) for i, a in enumerate(row)
    ]


def in_process(samples, **options):
    groups = {}
    for s in samples:
        groups.setdefault(str(s.group_index), []).append({"answer": s.response[7:-1]})
    return dare_reward.estimate([{"group_id": g, "rollouts": rows} for g, rows in groups.items()], **options).groups


@pytest.mark.parametrize(
    "options",
    [{"method": "gmae", "advantage": "gmae"}, {"method": "ddrl", "advantage": "ddrl", "n_train": 2}],
    ids=["advantages", "selection"],
)
def test_slime_takes_the_advantages_and_the_selection_of_a_whole_step(service, options):
    given, own = step(), {"url": f"{URL}?{urlencode(options)}", **POST}
    rewards, gains = slime.advantages(SimpleNamespace(rm_url=own["url"], **POST), given)
    expected = in_process(given, **options)
    assert rewards == pytest.approx([r for g in expected for r in g.rewards])
    assert gains == pytest.approx([a or 0.0 for g in expected for a in g.advantages])
    assert any(gains)
    taken = [g.select is None or i in g.select for g in expected for i in range(5)]
    assert [not s.remove_sample for s in given] == taken
    assert len(service.bodies) == 1, "one request, or calibration=batch would mean nothing"
    assert paid_by_slime(given[:5], **own) == pytest.approx(list(expected[0].rewards))
    assert "advantage" not in service.bodies[1]


def test_slime_without_the_service_has_no_advantages_or_ends(service):
    service.down = True
    found = slime.advantages(SimpleNamespace(rm_url=f"{GMAE}&on_error=zero", **POST), step())
    assert found == ([0.0] * 15, [0.0] * 15)
    with pytest.raises(UnavailableError):
        slime.advantages(SimpleNamespace(rm_url=GMAE, **POST), step())


def test_slime_filters_groups_that_carry_nothing(service):
    kept = {}
    for given in (step()[:5], step()[10:], [sample(i, 7 if i < 5 else 8) for i in range(6)]):
        paid_by_slime(given, f"{URL}?method=ttrl&settled=0.9")
        kept[given[0].response] = (slime.dynamic_filter(SimpleNamespace(), given), given[0].metadata[slime.DROP])
    assert kept == {
        "\\boxed{1}": (False, "unsettled"),
        "\\boxed{5}": (False, "zero_variance"),
        "\\boxed{7}": (True, None),
    }


# --- masks of answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("generated", ["as the tokenizer writes it", "byte by byte"])
def test_the_answers_tokens_are_masked(generated):
    """A policy may write its text in other tokens than the tokenizer would; no character is cut in two."""
    tokenizer, rules = byte_level.Fast(), AnswerRules({})
    scorer = common.Scorer.of(f"{URL}?method=dare&over=answer&unmarked=none")
    writer = tokenizer.inner if generated == "as the tokenizer writes it" else byte_level.trained(257)
    for text, answer in byte_level.MIXED + byte_level.AGREED:
        ids = writer.encode(text).ids
        mask, lost = outside_answer({"text": text}, [*ids, 0], tokenizer=tokenizer, rules=rules)
        expected = byte_level.outside([tokenizer.inner.id_to_token(i) for i in ids], text, answer)
        assert mask == [*expected, True]
        assert all(mask) == (answer is None)
        assert not lost
        row = {"token_ids": [*ids, 0], "token_entropies": [0.1] * (len(ids) + 1)}
        (found,) = scorer.group("g", [row], tokenizer=tokenizer)["rollouts"]
        inside = [k for k, out in enumerate(expected) if not out]
        assert found.get("answer_tokens") == ([inside[0], inside[-1] + 1] if answer else None), text


def test_an_answer_without_a_place_is_trained_and_told():
    tokenizer = byte_level.Fast()
    rules = AnswerRules({}, kind="text")
    text = "Answer: five"
    said = {"text": text}
    assert outside_answer(said, [1, 2], tokenizer=tokenizer, rules=rules) == ([True, True], True), "ids of another text"
    assert outside_answer({"text": "nothing"}, [1], tokenizer=tokenizer, rules=AnswerRules({})) == ([True], False)


def test_trl_logs_answers_without_a_place(service):
    reward = DareReward(URL, num_generations=2, method="ttrl", train_on="reasoning")
    logged = {}
    reward(["p"] * 2, ["\\boxed{1}"] * 2, no_span=[True, False], log_metric=logged.__setitem__)
    assert logged["dare/no_span"] == 0.5


def test_verl_sessions_that_are_selected_or_carry_nothing():
    """What tests/stacks/test_verl.py does not show of a whole step."""
    names = [f"u{p}_{s}" for p in "ab" for s in range(4)]
    members = {"ua": [0, 1, 2, 3], "ub": [4, 5, 6, 7]}
    groups = [{"group_id": g, "rollouts": [{"answer": a} for a in row]} for g, row in (("ua", "1123"), ("ub", "4455"))]

    def found(trained=None, **options):
        return verl.session_update(names, members, dare_reward.estimate(groups, **options), trained)

    chosen = found(method="ddrl", advantage="ddrl", n_train=2, trained=3)
    assert chosen.trained == {"ua_0", "ua_3", "ub_0", "ub_3"}
    assert chosen.gains["ua_0"] == 1.0
    for row in groups[0]["rollouts"]:
        row["mean_entropy"] = 0.5
    chosen = found(method="dare", selection="ddrl", selection_size=2)
    assert chosen.trained == {"ua_0", "ua_3", "ub_0", "ub_1"}, "of a group without entropies as many as of the other"
    assert chosen.gains == dict.fromkeys(names[4:], 0.0), "whatever verl makes of rewards of 0"
    assert found(method="ttrl", settled=0.6).gains == dict.fromkeys(names[4:], 0.0), "2 to 2 is dropped"
    assert verl.session_update(names, members, None, None).gains == {}


def test_a_trainer_whose_division_is_not_seen_is_warned_of_once(service, monkeypatch, caplog):
    """gmae is undone by it; another method is not, and what the adapter can see needs no warning."""
    say_once.cache_clear()
    texts = ["\\boxed{1}", "\\boxed{1}", "\\boxed{2}"]
    mine = {"custom_reward_post_process_path": "my.post_process"}

    def unseen(method):
        url = f"{URL}?method={method}"
        for _ in range(2):
            DareReward(url, num_generations=3)(["p"] * 3, texts)
            paid_by_slime(step()[:5], url, **mine)
            monkeypatch.setenv("DARE_URL", url)
            swift.DareORM()
        return [r.getMessage() for r in caplog.records if "nothing here shows" in r.getMessage()]

    assert not unseen("ttrl")
    url = f"{URL}?method=gmae&calibration=none"
    DareReward(url, entropy="none")(["p"] * 4, [*texts, "3"], log_metric=TrlTrainer(scale_rewards="none").log_metric)
    paid_by_slime(step()[:5], url)
    monkeypatch.setenv("DARE_URL", url)
    swift.DareORM(SimpleNamespace(scale_rewards="none"))
    paid_by_slime(step()[:5], f"{url}&advantage=gmae", **POST)
    assert not unseen("ttrl")
    trl_, slime_, swift_ = unseen("gmae&calibration=none")
    assert "scale_rewards=" in trl_
    assert re.search(f"my.post_process .*{slime.POST_PROCESS}", slime_)
    assert "--scale_rewards batch" in swift_


# --- ranks -----------------------------------------------------------------------------------------------------------


def test_what_does_not_train_is_in_no_run_log(service, tmp_path):
    """TRL's evaluation, and what slime's rewards ask before the step: no group is logged twice."""
    settings = f"method=ttrl&run=r&run_log={tmp_path}"
    score, trainer = DareReward(f"{URL}?{settings}", entropy="none"), TrlTrainer(scale_rewards="none")
    for training in (True, False):
        trainer.model = SimpleNamespace(training=training)
        assert score(["p"] * 4, texts_of("1112"), log_metric=trainer.log_metric)[:2] == [1.0, 1.0]
    given, url = of_slime("112"), f"{URL}?{settings}&advantage=rloo"
    assert paid_by_slime(given, url, **POST) == [1.0, 1.0, 0.0]
    assert slime.advantages(SimpleNamespace(rm_url=url, **POST), given)[0] == [1.0, 1.0, 0.0]
    assert service.recorded == [True, False, False, True]
    run_log_of(tmp_path, asked_for("")).close()
    assert [len(line["rollouts"]) for line in read_run(tmp_path / "r")] == [4, 3]


# --- votes in waves --------------------------------------------------------------------------------------------------


def half(prompt, number):
    """Prompt a always has the same answer; every other answer of prompt b is another one."""
    return f"\\boxed{{{5 if prompt == 'a' else 5 + number % 2}}}"


def rolled(trainer, url=f"{URL}?method=ttrl", adaptive="wave=4", **more):
    prompts = ["a"] * 8 + ["b"] * 8
    return VoteRollout(1, entropy="logprob", adaptive=adaptive, url=url, **more)(prompts, trainer)


def test_trl_gives_all_votes_where_nobody_can_tell(monkeypatch):
    def broken(*given, **options):
        raise RequestError("unreadable", code="type")

    monkeypatch.setattr(common, "votes_suffice", broken)
    trainer = TrlTrainer(half, 8)
    rolled(trainer)
    assert trainer.calls == [16, 8, 8]


def test_trl_s_own_completions_are_not_decoded_here():
    trainer, decoded = TrlTrainer(half, 8), []
    trainer.processing_class = SimpleNamespace(
        batch_decode=lambda ids, **_: decoded.append(len(ids)) or [""] * len(ids)
    )
    columns = VoteRollout(2, entropy="logprob")(["a"] * 8, trainer)
    assert decoded == [8, 8]  # of the votes
    assert [len(votes) for votes in columns["vote_only"]] == [2] * 8


ROUTER = {
    "sglang_router_ip": "10.0.0.1", "sglang_router_port": 3000, "rollout_temperature": 0.8, "rollout_top_p": 1.0,
    "rollout_top_k": -1, "rollout_max_response_len": 64, "rollout_stop": None, "rollout_stop_token_ids": None,
    "rollout_skip_special_tokens": True,
}  # fmt: skip


@pytest.fixture
def router(stand_in):
    """slime's router: what it was asked for, and what it says."""
    state = SimpleNamespace(asked=[], say=lambda n: f"\\boxed{{{1 + n % 2}}}")

    async def post(url, body):
        assert url == "http://10.0.0.1:3000/generate"
        state.asked.append(body)
        meta = {"finish_reason": {"type": "stop"}, "output_token_logprobs": [[-0.1, 5, None], [-0.3, 6, None]]}
        return {"text": state.say(len(state.asked) - 1), "meta_info": meta}

    stand_in("slime.utils.http_utils", post=post)
    return state


def of_slime(answers):
    return [sample(i, a) for i, a in enumerate(answers)]


WAVES = {"url": f"{URL}?method=ttrl&adaptive=wave%3D4&votes=16", **ROUTER}


def test_slime_asks_its_router_for_votes_only_where_they_matter(service, router):
    given = of_slime([1] * 8)
    assert paid_by_slime(given, **WAVES) == [1.0] * 8
    assert not router.asked
    assert given[0].metadata["dare_votes_saved"] == 8.0

    given = of_slime([1, 2] * 4)
    assert paid_by_slime(given, **WAVES) == [1.0, 0.0] * 4
    assert len(router.asked) == 8
    assert router.asked[0]["input_ids"] == [7, 8, 9]
    assert router.asked[0]["sampling_params"]["temperature"] == 0.8
    assert given[0].metadata["dare_votes_saved"] == 0.0
    scored = service.bodies[-1]["groups"][0]["rollouts"]
    assert [r.get("trained", True) for r in scored] == [True] * 8 + [False] * 8
    assert {round(r["mean_entropy"], 6) for r in scored} == {0.2}


def test_slime_loses_a_vote_and_not_the_reward(service, router):
    def broken(number):
        raise RuntimeError("router")

    router.say = broken
    assert paid_by_slime(of_slime([1, 2] * 4), **WAVES) == [1.0, 0.0] * 4
    assert len(router.asked) == 8
    assert len(service.bodies[-1]["groups"][0]["rollouts"]) == 8


@pytest.mark.parametrize(
    ("more", "sample_", "fix"),
    [
        ({"sglang_enable_deterministic_inference": True}, {}, "leave out adaptive"),
        ({"custom_generate_function_path": "my.generate"}, {}, "leave out adaptive"),
        ({"custom_reward_post_process_path": slime.POST_PROCESS}, {}, "leave out adaptive"),
        ({}, {"multimodal_inputs": {"images": [1]}}, "leave out adaptive"),
        ({}, {"generate_function_path": "my.generate"}, "leave out adaptive"),
        ({"url": f"{URL}?method=ttrl&adaptive=auto&votes=4"}, {}, "samples included"),
    ],
)
def test_slime_votes_are_continuations_of_the_prompt_or_refused(service, router, more, sample_, fix):
    samples = of_slime([1, 2] * 4)
    vars(samples[3]).update(sample_)
    with pytest.raises(ConfigError, match=fix):
        paid_by_slime(samples, **{**WAVES, **more})
    assert not router.asked


def test_trl_settles_votes_by_what_is_paid_and_in_one_process(service):
    trainer = TrlTrainer(half, 8)
    trainer.accelerator.num_processes = 2
    with pytest.raises(RequestError, match="one process"):
        rolled(trainer)
    trainer = TrlTrainer(half, 8)
    trainer.reward_funcs = [DareReward(URL, method="dare")]
    with pytest.raises(RequestError, match="pays"):
        rolled(trainer)
    assert not trainer.calls
    trainer.reward_funcs = [DareReward(URL, method="ttrl"), len]
    rolled(trainer)


def test_groups_with_a_label_are_scored_by_it_where_asked(service):
    groups = [
        group("known", [{"answer": a} for a in "1122"], label="2"),
        group("other", [{"answer": a} for a in "1112"]),
    ]
    plain, gt = (common.Scorer.of(f"{URL}?method=ttrl{more}") for more in ("", "&labelled=gt"))
    assert plain.score(groups)[0] == [[1, 1, 0, 0], [1, 1, 1, 0]]
    assert gt.score(groups)[0] == [[0, 0, 1, 1], [1, 1, 1, 0]]
    assert service.bodies[-1]["labelled"] == "gt"
    assert [c.get("label") for c in groups] == ["2", None]
    common.Scorer.of(f"{URL}?method=perplexity_consistency&labelled=gt")
    score = DareReward(URL, method="ttrl", labelled="gt", label="answer", num_generations=4, entropy="none")
    texts = [f"The answer is {a}." for a in "11221112"]
    assert score(["a"] * 4 + ["b"] * 4, texts, answer=["2"] * 4 + [None] * 4) == [0, 0, 1, 1, 1, 1, 1, 0]


def test_trl_selects_among_what_is_trained_alone(service):
    reward = DareReward(URL, num_generations=8, method="ttrl", selection="ddrl", selection_size=4)
    with pytest.raises(RequestError, match="use extra=0"):
        reward(["p"] * 8, texts_of("11231455"), vote_only=[[{"text": "\\boxed{1}"}]] * 8)


def test_easyr1_wraps_the_copies_that_ray_makes_and_sees_who_was_cut_off(service, stand_in):
    def rows(data):
        given = [{"response": "The answer is 4.", "response_length": n, "ground_truth": "4"} for n in (8, 9, 9)]
        return [one["overall"] for one in easyr1.reward(given, url=f"{URL}?method=ttrl")]

    class Manager:
        def compute_reward_batch(self, data):
            return rows(data)

    class Actor(Manager):
        def compute_reward_batch(self, data):
            return rows(data)

    stand_in("verl.workers.reward.function", BatchFunctionRewardManagerMixin=Manager)
    easyr1.install()
    for uids in ({"uid": ["a"] * 3}, {}):  # responses are padded to the length limit: a row that fills it was cut off
        data = SimpleNamespace(non_tensor_batch=uids, batch={"responses": np.zeros((3, 9))})
        assert Manager().compute_reward_batch(data) == Actor().compute_reward_batch(data) == [1.0, 0.0, 0.0]
