"""A rollout as stacks have it: masks, numbers that are not there, whose words are read, labels as data sets write them."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from recorded import compare_or_record
from rows import each
from stack_samples import Sample, TrajectoryID, TrlTrainer, Words, example, generated, paid_by_slime

import dare_reward
from dare_reward.errors import ReplyError, RequestError
from dare_reward.stacks import slime, verl
from dare_reward.stacks.adapter import Scorer
from dare_reward.stacks.rollout import label_of, read_rollout
from dare_reward.stacks.trl import DareReward

URL = "http://service"
easyr1 = sys.modules["easyr1"]  # conftest.py loads it by its path
NAN, NONE = float("nan"), None
SIBLINGS = [[-0.1, -0.2], [-0.3, -0.1], [-2.0, -1.0], [-0.1, -0.1]]


class Torch:
    """What a tensor has that is read of it: bfloat16 on a GPU, with a gradient."""

    def __init__(self, values):
        self.values, self.ndim = np.asarray(values), np.ndim(values)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, at):
        return Torch(self.values[at])

    def detach(self):
        return self

    cpu = float = detach

    def is_floating_point(self):
        return self.values.dtype.kind == "f"

    def numpy(self):
        return self.values


# --- masks -----------------------------------------------------------------------------------------------------------

FLAT = [0, 1, 1, 0]
MASKS = {
    "ints": FLAT, "truth values": [False, True, True, False], "floats": [0.0, 1.0, 1.0, 0.0], "a tuple": tuple(FLAT),
    "numpy ints": np.array(FLAT), "numpy truth values": np.array(FLAT, bool), "numpy floats": np.array(FLAT, np.float32),
    "torch ints": Torch(FLAT), "torch floats": Torch(np.array(FLAT, np.float32)), "a list a turn": [[0, 1], [1, 0]],
    "turns of numpy": [np.array([0, 1]), np.array([1, 0])], "an empty turn": [[0, 1], [], [1, 0]],
}  # fmt: skip


@each("field", ["logprobs", "token_entropies", "token_self_certainty"])
@each("mask", MASKS.values())
def test_a_mask_is_read_in_every_form(mask, field):
    numbers = [9.0, 0.2, 0.4, 8.0]
    numbers = [-x for x in numbers] if field == "logprobs" else numbers
    row = read_rollout({"text": "\\boxed{1}", field: numbers, "token_mask": mask, "token_ids": [5, 6, 7, 8]})
    name = {"logprobs": "token_logprobs"}.get(field, field)
    assert row[name].tolist() == numbers[1:3]
    assert row["token_ids"].tolist() == [6, 7]
    assert "token_mask" not in row


@pytest.mark.parametrize(
    "numbers",
    [[[0.1, 0.2], [0.3]], [0.1, 0.2, 0.3], Torch(np.array([0.1, 0.2, 0.3])), [Torch([0.1, 0.2]), Torch([0.3])]],
)
def test_numbers_are_read_in_every_form(numbers):
    assert read_rollout({"token_entropies": numbers})["token_entropies"].tolist() == pytest.approx([0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    "wrong",
    [
        {"logprobs": [-0.1] * 4, "token_mask": [0]},
        {"logprobs": [-0.1] * 4, "token_mask": [1] * 5},
        {"logprobs": [-0.1] * 4, "token_entropies": [0.1] * 3},
        {"token_entropies": [0.1] * 4, "token_ids": [1, 2], "token_mask": [0, 1, 1, 1]},
        {"token_entropies": [0.1] * 2, "token_mask": []},
    ],
)
def test_what_is_not_aligned_is_one_error_that_names_both(wrong):
    with pytest.raises(
        RequestError, match=r"a rollout has \d entries of \w+ and \d of \w+: pass one for each token"
    ) as caught:
        Scorer.of(URL).group("g", [{"text": "\\boxed{1}", **wrong}])
    assert caught.value.code == "length"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        *(({"token_mask": mask}, r"0 or 1|one number") for mask in (True, "10", [0, 2], ["yes", "no"], [None, 1], [0.5, 1])),
        *(({name: 1}, f"{name} of a rollout must be a list") for name in ("answer_tokens", "token_offsets", "step_ends")),
    ],
)  # fmt: skip
def test_a_mask_of_anything_else_and_places_that_are_no_list_are_refused(given, words):
    with pytest.raises(RequestError, match=words):
        read_rollout({"logprobs": [-0.1] * 2, **given})


def test_reading_again_changes_nothing():
    given = {
        "text": "a", "logprobs": [-0.1, NAN, -0.3, -9.0], "token_mask": [1, 1, 1, 0], "token_ids": [1, 2, 3, 4], "answer_tokens": [2, 3],
        "num_tokens": 4, "meta": {"mine": 1}, "correct": True,
    }  # fmt: skip
    once = read_rollout(given)
    twice = read_rollout(once)
    assert {k: np.asarray(v).tolist() for k, v in once.items()} == {k: np.asarray(v).tolist() for k, v in twice.items()}
    assert once["meta"] == {"mine": 1}


# --- numbers that are not there ------------------------------------------------------------------------------------


def pay(url, rows, **params):
    """Rewards, and what is logged of them."""
    scorer = Scorer.of(f"{url}&fallback=local&retries=0", **params)
    one = scorer.group("g", rows)
    reply = dare_reward.estimate([one], method=scorer.method, **scorer._params)
    (found,) = reply.groups
    assert found.error is None
    return list(found.rewards), found


def told(logprobs, answers="4454"):
    return [{"text": f"\\boxed{{{a}}}", "logprobs": p} for a, p in zip(answers, logprobs, strict=True)]


@each("hole", [NAN, None, float("-inf"), -9999.0, -9999, 0.5, float("inf"), -1e30])
@each("field", ["logprobs", "token_entropies"])
@each("method", ["dare", "ttrl", "empo"])
def test_a_token_without_a_number_is_masked(method, field, hole):
    sign = 1 if field == "logprobs" else -1
    hole = -5.0 if hole == 0.5 and field == "token_entropies" else hole
    rows = [{**r, field: [sign * x for x in r["logprobs"]]} for r in told(SIBLINGS)]
    rows = [{k: v for k, v in r.items() if k in {"text", field}} for r in rows]
    whole, _ = pay(f"{URL}?method={method}", rows)
    holed = [{**rows[0], field: [*rows[0][field][:1], hole, *rows[0][field][1:]]}, *rows[1:]]
    found, _ = pay(f"{URL}?method={method}", holed)
    assert found == pytest.approx(whole)


@pytest.mark.parametrize("hole", [None, [], [NAN, NAN], [None], [-9999.0, float("-inf")]])
@pytest.mark.parametrize("method", ["dare", "ttrl", "empo"])
def test_a_rollout_without_any_number_has_no_entropy_and_ends_nothing(method, hole, caplog):
    rewards, found = pay(f"{URL}?method={method}", told([hole, *SIBLINGS[1:]]))
    assert len(rewards) == 4
    votes, _ = pay(f"{URL}?method={method}", told([None] * 4))
    assert rewards == pytest.approx(votes), "votes alone, unless missing_entropy says otherwise"
    if method == "dare":
        assert found.entropy_source == "none"
        kept, _ = pay(f"{URL}?method=dare", told([hole, *SIBLINGS[1:]]), missing_entropy="group_mean")
        assert kept != pytest.approx(votes)


@pytest.mark.parametrize("numbers", [None, [], [NAN]])
def test_a_member_that_does_not_vote_needs_no_entropy_and_takes_none_away(numbers):
    alone, found = pay(f"{URL}?method=dare", told(SIBLINGS))
    beside, also = pay(f"{URL}?method=dare", [*told(SIBLINGS), {"answer": None, "logprobs": numbers}])
    assert beside == [*alone, 0.0]
    assert (also.entropy_source, also.pseudo_label) == (found.entropy_source, found.pseudo_label) == ("logprob", "4")


@pytest.mark.parametrize(
    "numbers",
    [
        *({"logprobs": ["a", "b"]}, {"topk_logprobs": [[-0.1, -2.0], [-0.1]]}, {"token_entropies": "high"}),
        {"logprobs": np.full((2, 3), -0.1)},
        *({"token_ids": [[]]}, {"topk_logprobs": [[], []]}, {"logprobs": [[], []], "token_mask": [[], []]}),
    ],
)
def test_what_holds_no_numbers_at_all_is_left_out(numbers):
    rows = [{**row, **numbers} for row in told([None] * 4)]
    assert pay(f"{URL}?method=ttrl", rows)[0] == [1.0, 1.0, 0.0, 1.0]
    assert pay(f"{URL}?method=dare", rows)[1].entropy_source == "none"


def test_scalars_that_are_no_numbers_are_left_out():
    for value in (NAN, None, float("inf"), "x", -3.0, 1e9):
        assert "mean_entropy" not in read_rollout({"text": "a", "mean_entropy": value})
    read = read_rollout({"mean_entropy": np.float32(0.5), "num_tokens": np.int64(3)})
    assert read == {"mean_entropy": 0.5, "num_tokens": 3}
    assert read_rollout({"mean_entropy": -1e-6})["mean_entropy"] == 0.0


@pytest.mark.parametrize("method", ["dare", "ttrl"])
def test_trl_goes_on_whatever_vllm_gives_for_a_token(service, method):
    """A policy that is almost deterministic: vLLM's number of a token is None or NaN (TRL issue 6166)."""
    score = DareReward(f"{URL}?method={method}", num_generations=4)
    texts = [f"\\boxed{{{a}}}" for a in "4454"]
    logged = {}
    for column in (
        {"sampled_logprobs": [[None, -0.1], *SIBLINGS[1:]]},
        {"sampled_logprobs": [[NAN, -0.1], *SIBLINGS[1:]]},
        {"sampled_logprobs": [None, *SIBLINGS[1:]]},
        {"token_entropies": [[0.1, 0.2], [NAN, 0.1], [2.0, 1.0], [0.1, 0.1]]},
        {"mean_entropy": [0.1, NAN, 2.0, 0.1]},
        {"mean_entropy": [0.1, None, 2.0, 0.1]},
    ):
        found = score(["p"] * 4, texts, log_metric=logged.__setitem__, **column)
        assert found[0] == found[1] > found[2]
    assert logged["dare/entropy_missing"] == 1.0


# --- slime -----------------------------------------------------------------------------------------------------------


def of_slime():
    said = zip("4454", SIBLINGS, strict=True)
    return [generated(i, f"\\boxed{{{a}}}", p, label="4") for i, (a, p) in enumerate(said)]


def slime_reward(given, query="method=dare&alpha=0.1", **args):
    return paid_by_slime(given, f"{URL}?{query}", **args)


def test_slimes_own_samples_are_rewarded(service):
    assert of_slime()[0].loss_mask == [1, 1]
    expected, _ = pay(f"{URL}?method=dare&alpha=0.1", told(SIBLINGS))
    assert slime_reward(of_slime()) == pytest.approx(expected)
    assert service.bodies[0]["groups"][0]["entropy_source"] == "logprob"


@pytest.mark.parametrize("numbers", [None, []])
@pytest.mark.parametrize("status", ["ABORTED", "FAILED"])
def test_an_aborted_sample_takes_no_entropies_away(service, status, numbers):
    lost = Sample(group_index=1, index=4, prompt="2+2?", status=Sample.Status[status], rollout_log_probs=numbers)
    assert slime_reward([*of_slime(), lost]) == [*slime_reward(of_slime()), 0.0]
    assert service.bodies[0]["groups"][0]["entropy_source"] == "logprob"


def test_what_an_earlier_policy_said_is_read_and_not_counted(service):
    """--mask-offpolicy-in-partial-rollout: the first part of an answer may lie in the masked part."""
    given = of_slime()
    given[2].append_response_tokens(tokens=[6, 6], log_probs=[-0.01, -0.01], text="")
    given[2].loss_mask = [0, 0, 1, 1]
    slime_reward(given, mask_offpolicy_in_partial_rollout=True)
    sent = service.bodies[0]["groups"][0]["rollouts"][2]
    assert (sent["answer"], sent["mean_entropy"], sent["num_tokens"]) == ("5", pytest.approx(0.01), 2)
    given[2].loss_mask = [0] * 4
    slime_reward(given, mask_offpolicy_in_partial_rollout=True)
    assert service.bodies[1]["groups"][0]["rollouts"][2]["answer"] == "5"


def by_slimes_hub(service):
    for logprobs in (True, False):
        given = [
            generated(10 + i, f"so \\boxed{{{a}}}", [-0.1 * (i + 1), -0.2, -0.3] if logprobs else [], label="5")
            for i, a in enumerate("55657")
        ]
        slime_reward(given, "")


def by_easyr1s_manager(service):
    uids = ["b", "a", "a", "b", "a", "b", "b", "a"]
    for query in ("", "?method=ttrl"):
        token = easyr1.UIDS.set(uids)
        rows = [{"response": f"so \\boxed{{{a}}}", "response_length": 12, "ground_truth": "5"} for a in "15625225"]
        easyr1.reward(rows, url=f"{URL}{query}")
        easyr1.UIDS.reset(token)


@pytest.mark.parametrize(
    ("stack", "version", "pay"), [("slime", "624b824", by_slimes_hub), ("easyr1", "b44b311", by_easyr1s_manager)]
)
def test_the_recorded_bodies_are_what_is_sent(service, stack, version, pay):
    """Stacks of the package index record their own."""
    pay(service)
    compare_or_record(stack, version, service.bodies)


def test_what_tools_said_to_slime_is_not_read(service, stand_in):
    """Decoded by slime's tokenizer."""
    words, given = Words(), []
    stand_in("slime.rollout.sglang_rollout", GenerateState=lambda args: SimpleNamespace(tokenizer=words))
    for i, answer in enumerate("445"):
        given.append(Sample(group_index=0, index=i, prompt="?", tokens=[1, 2]))
        for text, own in (("I call.", True), ("\\boxed{99}", False), (f"\\boxed{{{answer}}}", True)):
            ids = words.ids(text)
            given[i].append_response_tokens(tokens=ids, log_probs=[-0.1] * len(ids), text=text, trainable=own)
    assert slime_reward(given, "method=ttrl") == [1.0, 1.0, 0.0]
    assert [r["num_tokens"] for r in service.bodies[0]["groups"][0]["rollouts"]] == [3, 3, 3]
    args = {"rm_url": f"{URL}?method=ttrl&advantage=grpo", "custom_reward_post_process_path": slime.POST_PROCESS}
    assert slime.advantages(SimpleNamespace(**args), given)[0] == [1.0, 1.0, 0.0]


# --- whose words -----------------------------------------------------------------------------------------------------

TURNS = {
    "ends with its own box": ([("I call it.", 1), ("result: The answer is 99.", 0), ("So \\boxed{4}", 1)], "4"),
    "ends with a tool's words": ([("My guess is \\boxed{4} <call>", 1), ("fine. The answer is 99.", 0)], "4"),
    "a tool prints a box": ([("<call>", 1), ("stdout: \\boxed{99}", 0), ("So the answer is 4.", 1)], "4"),
    "cut off after a tool": ([("<call>", 1), ("stdout: \\boxed{99}", 0), ("Hmm, that seems wrong, because", 1)], None),
    "a search result holds a box": ([("Let me search <call>", 1), ("Paper 12: \\boxed{7}", 0)], None),
    "padded": ([("So \\boxed{4}", 1), ("pad pad", 0)], "4"),
    "nothing but the environment": ([("stdout: \\boxed{99}", 0)], None),
}  # fmt: skip


def tokens(words, parts):
    ids = [words.ids(text) for text, _ in parts]
    return [i for turn in ids for i in turn], [m for turn, (_, m) in zip(ids, parts, strict=True) for _ in turn]


def by_verl(words, ids, mask, service):
    columns = {"token_ids": [Torch(ids)], "token_mask": [Torch(mask)], "token_entropies": [Torch([0.1] * len(ids))]}
    trainer = SimpleNamespace(tokenizer=words, config=SimpleNamespace(data=SimpleNamespace(max_response_length=99)))
    return verl.said(trainer, columns, 0)


def by_slime(words, ids, mask, service):
    text = words.decode(ids, skip_special_tokens=True)
    sample = Sample(group_index=0, index=0, prompt="?", tokens=[1, 2, *ids], response=text)
    sample.response_length, sample.loss_mask, sample.rollout_log_probs = len(ids), mask, [-0.1] * len(ids)
    return slime._rollout(SimpleNamespace(), sample)


def by_trl(words, ids, mask, service):
    text = words.decode(ids, skip_special_tokens=True)
    columns = {"completion_ids": [ids], "token_mask": [mask], "token_entropies": [[0.1] * len(ids)]}
    (row,) = DareReward(URL, num_generations=1)._rows(TrlTrainer(), ["p"], [text], columns)
    return {k: v for k, v in row.items() if k not in {"name", "prompt"}}


@pytest.mark.parametrize("stack", [by_verl, by_slime, by_trl])
@pytest.mark.parametrize(("parts", "answer"), TURNS.values(), ids=TURNS)
def test_only_what_the_policy_said_is_read(service, stack, parts, answer):
    words = Words()
    ids, mask = tokens(words, parts)
    scorer = Scorer.of(f"{URL}?method=ttrl")
    sent = scorer.group("g", [{**stack(words, ids, mask, service), "finish_reason": "stop"}], tokenizer=words)
    _, reply = scorer.score([sent])
    assert reply.groups[0].answers == (answer,)
    (row,) = sent["rollouts"]
    assert row.get("num_tokens", len(row.get("token_entropies", row.get("token_logprobs", ())))) == sum(mask)


def test_the_answers_tokens_are_counted_among_the_policys_own():
    words = Words()
    ids, mask = tokens(words, [("I call", 1), ("\\boxed{99}", 0), ("so \\boxed{4} now", 1)])
    scorer = Scorer.of(f"{URL}?method=dare&over=answer")
    entropies = [0.1, 0.1, 9.0, 0.1, 0.7, 0.3]
    one = scorer.group("g", [{"token_ids": ids, "token_mask": mask, "token_entropies": entropies}], tokenizer=words)
    assert one["rollouts"][0]["answer_tokens"] == [3, 4]
    holes = [0.1, 0.1, 9.0, 0.1, NAN, 0.3]
    lost = scorer.group("g", [{"token_ids": ids, "token_mask": mask, "token_entropies": holes}], tokenizer=words)
    assert "answer_tokens" not in lost["rollouts"][0]
    given = {"token_entropies": entropies, "token_mask": mask, "answer_tokens": [4, 5], "step_ends": [2, 3, 6]}
    moved = read_rollout(given)
    assert (moved["answer_tokens"], moved["step_ends"]) == ([3, 4], [2, 5])


# --- SkyRL ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("logprobs", [True, False], ids=["log-probabilities", "none"])
def test_skyrls_output_is_rewarded(service, monkeypatch, logprobs):
    words = Words()
    said = [tokens(words, [("<call>", 1), ("\\boxed{99}", 0), (f"\\boxed{{{a}}}", 1)]) for a in "445"]

    class Generator:
        async def generate(self, input_batch, disable_tqdm=False):
            return {
                "prompt_token_ids": [[1]] * 3, "response_ids": [ids for ids, _ in said], "rewards": [0.0] * 3,
                "stop_reasons": ["stop", "stop", "length"], "loss_masks": [mask for _, mask in said],
                "rollout_logprobs": [[-0.1, 0.0, -0.2]] * 3 if logprobs else None, "trajectory_ids": None, "rollout_metrics": None,
            }  # fmt: skip

    class Base:
        def get_generator(self, cfg, tokenizer, inference_engine_client):
            return Generator()

    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    module = example("skyrl", skyrl__train__entrypoints__main_base={"BasePPOExp": Base})
    module.scorer = Scorer.of(f"{URL}?method=dare")
    generator = module.DareExp().get_generator(None, words, None)
    assert type(generator) is Generator, "a generator for pictures stays one"
    batch = {"trajectory_ids": [TrajectoryID("p0", n) for n in range(3)]}
    first, second, third = asyncio.run(generator.generate(batch))["rewards"]
    assert first == second > third
    sent = service.bodies[0]["groups"][0]
    ends = [(r["answer"], r["finish_reason"]) for r in sent["rollouts"]]
    assert ends == [("4", "stop"), ("4", "stop"), ("5", "length")]
    assert sent.get("entropy_source") == ("logprob" if logprobs else None)


# --- verl: fewer rollouts than planned ------------------------------------------------------------------------------


class Batch:
    partition_id = "train"

    def __init__(self, keys):
        self.keys, self.tags = [*keys], [{}] * len(keys)

    def select_keys(self, kept):
        return Batch(kept)


def kept_of(stand_in, keys, trained=32):
    """The rows that are trained of 8 prompts, where verl trains multiples of 256."""
    cleared = []
    stand_in("transfer_queue", kv_clear=lambda keys, partition_id: cleared.extend(keys))
    names = [k.rsplit("_", 1)[0] for k in keys]
    members = {}
    for i, name in enumerate(names):
        members.setdefault(name.split("_")[0], []).append(i)
    update = verl.session_update(names, members, None, trained)
    trainer = SimpleNamespace(
        actor_rollout_wg=SimpleNamespace(_dispatch_info={"actor": range(8)}),
        _get_required_batch_multiple=lambda ranks: 256,
        _balance_batch=lambda batch, metrics: batch.keys,
    )
    kept = verl.drop_votes(trainer, Batch(keys), {}, update.trained)
    assert {*kept, *cleared} == {*keys}
    return kept


def sessions(*lost):
    return [f"u{p}_{s}_0" for p in range(8) for s in range(64) if (p, s) not in lost]


@pytest.mark.parametrize(
    "lost", [(), ((3, 5),), ((3, 60),), ((3, 5), (3, 6), (4, 0)), tuple((2, s) for s in range(33))]
)
def test_a_failed_session_ends_no_run(stand_in, lost):
    kept = kept_of(stand_in, sessions(*lost))
    assert len(kept) == 256
    for p in range(8):
        there = [s for s in range(64) if (p, s) not in lost]
        first = {f"u{p}_{s}_0" for s in there[:32]}
        assert first <= {*kept}, "the first 32 that are there"


# --- labels that contradict each other -------------------------------------------------------------------------------

AGREE = [["4", "4.0", None, "\\boxed{4}"], [4, '["4"]', {"answer": "4"}, "#### 4"], [None] * 4]
CONTRADICT = [["4", "5", "4", "4"], ["5", "4", "4", "4"], ["4", "4", "4", "5"], [None, "4", None, '["5"]']]


def trl_pays(query, labels, **columns):
    texts = [f"\\boxed{{{a}}}" for a in "4454"]
    score = DareReward(f"{URL}?{query}", num_generations=4, label="answer")
    return score(["p"] * 4, texts, answer=labels, **columns)


@pytest.mark.parametrize("labels", AGREE + CONTRADICT)
@pytest.mark.parametrize("method", ["ttrl", "dare"])
def test_no_label_and_no_order_of_labels_changes_a_label_free_reward(service, method, labels):
    columns = {"sampled_logprobs": SIBLINGS}
    assert trl_pays(f"method={method}", labels, **columns) == trl_pays(f"method={method}", [None] * 4, **columns)


@pytest.mark.parametrize("labels", CONTRADICT)
@pytest.mark.parametrize("query", ["method=gt", "method=ttrl&labelled=gt"])
def test_contradicting_labels_are_refused_by_name(service, caplog, query, labels):
    assert trl_pays(query, labels) == [None] * 4
    assert "label_conflict" in caplog.text
    with pytest.raises(ReplyError, match="label_conflict"):
        trl_pays(f"{query}&on_error=raise", labels)


@pytest.mark.parametrize("labels", AGREE[:2])
def test_labels_of_one_value_are_one_label(service, labels):
    assert trl_pays("method=ttrl&labelled=gt", labels) == [1.0, 1.0, 0.0, 1.0]


def test_a_column_of_another_length_is_one_error_that_names_it(service):
    score = DareReward(URL, num_generations=4, label="answer")
    given = {"prompts": ["p"] * 4, "completions": ["a"] * 4, "answer": ["4"] * 4}
    for wrong in (
        {"token_entropies": [[0.1]] * 3}, {"sampled_logprobs": [[-0.1]] * 5}, {"vote_only": [[]]}, {"answer": ["4"] * 3},
        {"completion_ids": [[1]] * 3}, {"prompts": ["p"] * 3},
    ):  # fmt: skip
        with pytest.raises(RequestError, match=f"{next(iter(wrong))} has [135] entries for 4 completions"):
            score(**{**given, **wrong})


# --- labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "text", "truth"),
    [
        ("math", "\\boxed{34}", "34"), ("math", "\\boxed{34}", 34), ("math", "\\boxed{34}", 34.0),
        ("math", "\\boxed{34}", np.array(["34"], dtype=object)), ("math", "\\boxed{34}", '["34"]'),
        ("math", "\\boxed{\\frac{1}{2}}", '["\\\\frac{1}{2}"]'), ("math", "\\boxed{34}", "\\boxed{34}"),
        ("math", "\\boxed{34}", "so #### 34"), ("math", "\\boxed{34}", {"target": 34, "numbers": [1, 2]}),
        ("math", "\\boxed{34}", {"answer": "34"}), ("math", "\\boxed{34}", '{"answer": "34"}'), ("math", "\\boxed{34}", '{"ground_truth": 34}'),
        ("math", "\\boxed{34}", '["33", "34"]'), ("math", "\\boxed{34}", {"answer": ["33", "34"]}), ("math", "\\boxed{[0, 1]}", "[0, 1]"),
        ("text", "The answer is Paris.", '["Paris", "paris, France"]'), ("text", "Answer: 2", '["2"]'),
        ("choice", "The answer is B.", '["B"]'), ("choice", "The answer is C.", 2), ("choice", "The answer is A.", np.int64(0)),
        ("choice", "The answer is B.", '{"answer": "B"}'), ("choice", "The answer is B.", {"label": 1}),
        ("math", "\\boxed{34}", [np.int64(33), np.float32(34)]), ("choice", "The answer is C.", [np.int64(2)]),
    ],
)  # fmt: skip
def test_labels_are_read_as_data_sets_write_them(service, monkeypatch, kind, text, truth):
    monkeypatch.setenv("DARE_URL", f"{URL}?kind={kind}")
    assert verl.compute_score("any", text, truth) == 1.0
    assert verl.compute_score("any", "nothing", truth) == 0.0
    scorer = Scorer.of(f"{URL}?method=gt&kind={kind}")
    _, reply = scorer.score([scorer.group("g", [{"text": text}, {"text": "nothing"}], label=label_of(truth, kind))])
    assert reply.groups[0].rewards == (1.0, 0.0)


@pytest.mark.parametrize(
    ("label", "answer"), [("[0, 1]", "0"), ('["0", 1]', "0"), ('{"x": "0"}', "0"), ("{0}", "1"), ('["34"', "34")]
)
def test_a_list_of_numbers_is_an_answer_and_not_a_list_of_labels(label, answer):
    (found,) = dare_reward.estimate([{"label": label, "rollouts": [{"answer": answer}]}], method="ttrl").groups
    assert not found.diagnostics.get("label_accuracy")


@pytest.mark.parametrize("kind", ["exact", "literal"])
def test_in_kinds_that_compare_texts_a_json_list_is_a_text(kind):
    groups = [{"kind": kind, "label": '["34"]', "rollouts": [{"answer": '["34"]'}, {"answer": "34"}]}]
    assert dare_reward.estimate(groups, method="gt").groups[0].rewards == (1.0, 0.0)


@pytest.mark.parametrize(
    ("item", "right"),
    [({"answer": "4"}, "4"), ({"answer": 4}, "4"), ({"answer": ["7", "8"]}, "8"), ({"answer": 0}, "0"), ({}, None)],
)
def test_verls_file_holds_the_answers_of_the_data(service, item, right):
    row = example("verl_ttrl_data").row(0, {"prompt": "?", **item}, "AIME-TTT", 64)
    truth = row["reward_model"]["ground_truth"]
    assert verl.compute_score("any", f"\\boxed{{{right}}}", truth) == (right is not None)
    assert (label_of(truth) is None) == (right is None)


def test_verls_rows_without_a_truth_are_label_free():
    for model in ({}, None, {"ground_truth": None}, {"style": "rule"}):
        assert verl.truth_of({"reward_model": [model]}, 0) is None
    assert verl.truth_of({}, 0) is None
    assert verl.truth_of({"reward_model": [{"ground_truth": '["34"]'}]}, 0) == '["34"]'
