"""The forms in which people have rollouts: each gives the rewards of the same rollouts in our own form."""

import gzip
import io
import json
import random
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from jsonl import write_lines

from dare_reward import estimate
from dare_reward.answers.extraction.final_answer import WHY_NONE
from dare_reward.cli import main
from dare_reward.errors import RequestError
from dare_reward.files.entropy_estimates import estimate_of
from dare_reward.files.reader import Reader
from dare_reward.files.shapes import GROUP_NAMES, ROLLOUT_NAMES
from dare_reward.inputs import GROUP_FIELDS, OTHER_NAMES, ROLLOUT_FIELDS
from dare_reward.runs.reader import member
from dare_reward.scoring.request import prepare_file
from dare_reward.topk_entropy import bounds

EXAMPLE = Path(__file__).parents[3] / "examples" / "arithmetic_m64.jsonl"
GROUPS = [json.loads(line) for line in EXAMPLE.read_text().splitlines()][:4]


def lines(values):
    return "".join(json.dumps(v) + "\n" for v in values)


def reader_of(tmp_path, *rows, **options):
    return Reader(str(write_lines(tmp_path / "rows.jsonl", rows)), **options)


def flat(key):
    """One rollout a line, siblings not next to each other."""
    rows = []
    for i in range(64):
        for g in GROUPS:
            shared = {"prompt": g["prompt"], "label": int(g["label"])}
            rows.append({**shared, **({key: g["group_id"]} if key != "prompt" else {}), **g["rollouts"][i]})
    return rows


def parquet(rows):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return buffer.getvalue()


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


PLAIN = lines(GROUPS).encode()
FORMS = {
    "one group a line": lambda: PLAIN,
    "a BOM": lambda: b"\xef\xbb\xbf" + PLAIN,
    "carriage returns and blank lines": lambda: PLAIN.replace(b"\n", b"\r\n\r\n"),
    "an array on a line": lambda: json.dumps(GROUPS).encode(),
    "an array over many lines": lambda: json.dumps(GROUPS, indent=2).encode(),
    "gzip": lambda: gzip.compress(PLAIN),
    "gzip of an array": lambda: gzip.compress(json.dumps(GROUPS, indent=1).encode()),
    "zstd": lambda: zstd(PLAIN),
    "Parquet of groups": lambda: parquet(GROUPS),
    "Parquet of rollouts": lambda: parquet(flat("uid")),
    "a rollout a line by group_id": lambda: lines(flat("group_id")).encode(),
    "a rollout a line by prompt_id": lambda: lines(flat("prompt_id")).encode(),
    "a rollout a line by uid": lambda: lines(flat("uid")).encode(),
    "a rollout a line by prompt": lambda: lines(flat("prompt")).encode(),
    "an array of rollouts": lambda: json.dumps(flat("uid"), indent=1).encode(),
    "lists beside each other": lambda: lines(
        {"id": i, "question": g["prompt"], "ground_truth": int(g["label"]), "responses": [r["text"] for r in g["rollouts"]],
         "entropies": [r["token_entropies"] for r in g["rollouts"]], "is_correct": [int(r["correct"]) for r in g["rollouts"]]}
        for i, g in enumerate(GROUPS)
    ).encode(),
    "messages": lambda: lines(
        {"messages": [{"role": "user", "content": g["prompt"]}], "gold": g["label"], "completions": [
            {"message": [{"role": "assistant", "content": r["text"]}], "token_entropies": r["token_entropies"]}
            for r in g["rollouts"]]}
        for g in GROUPS
    ).encode(),
    "vLLM": lambda: lines(
        {"request_id": i, "prompt": g["prompt"], "prompt_token_ids": [1], "ground_truth": g["label"], "finished": True, "outputs": [
            {"index": k, "text": r["text"], "finish_reason": "stop", "token_entropies": r["token_entropies"]}
            for k, r in enumerate(g["rollouts"])]}
        for i, g in enumerate(GROUPS)
    ).encode(),
    "TRL's completions": lambda: lines(
        {"step": 3, "prompt": r["prompt"], "completion": r["text"], "token_entropies": r["token_entropies"], "reward": 0.5}
        for r in flat("prompt")
    ).encode(),
    "verl's rollouts": lambda: lines(
        {"input": r["prompt"], "output": r["text"], "entropies": r["token_entropies"], "gts": r["label"], "step": 7}
        for r in flat("prompt")
    ).encode(),
}  # fmt: skip


def test_a_data_set_of_verl_with_responses_gives_texts_labels_and_prompts(tmp_path):
    rows = [
        {"data_source": "example", "prompt": [{"role": "user", "content": g["prompt"]}], "ability": "math",
         "reward_model": {"style": "rule", "ground_truth": g["label"]}, "extra_info": {"index": i, "split": "test"},
         "responses": [r["text"] for r in g["rollouts"]]}
        for i, g in enumerate(GROUPS)
    ]  # fmt: skip
    groups = [g for _, g in reader_of(tmp_path, *rows)]
    assert [g["label"] for g in groups] == [g["label"] for g in GROUPS]
    assert [g["prompt"] for g in groups] == [g["prompt"] for g in GROUPS]
    plain = [{"rollouts": [{"text": r["text"]} for r in g["rollouts"]]} for g in GROUPS]
    assert rewards(groups, method="ttrl") == rewards(plain, method="ttrl")


def test_a_sum_of_log_probabilities_is_the_same_estimate(tmp_path):
    """What vLLM says of a completion whether or not it was asked for log-probabilities."""
    tokens = [[-0.5, -0.25, -1.25], [-0.125, -0.375]]
    outputs = [
        {"text": f"so {i}", "token_ids": [7] * len(row), "cumulative_logprob": sum(row), "finish_reason": "stop"}
        for i, row in enumerate(tokens)
    ]
    row = {"request_id": "0", "prompt": "?", "outputs": outputs, "finished": True}
    reader = reader_of(tmp_path, row, missing=estimate_of("logprob"))
    ((_, group),) = reader
    assert [r["mean_entropy"] for r in group["rollouts"]] == [-sum(row) / len(row) for row in tokens]
    assert [r["num_tokens"] for r in group["rollouts"]] == [3, 2]
    assert group["entropy_source"] == "logprob"
    assert not reader.notes.ignored


def test_a_mask_beside_log_probabilities_is_read_as_beside_entropies(tmp_path):
    """What it leaves out is no part of the estimate; all of it leaves none; one of another length is refused."""
    masks = ([True, False, True], [False] * 3, [True, False])
    rows = [{"rollouts": [{"answer": "1", "token_logprobs": [-0.5, -9.0, -1.5], "token_mask": m}]} for m in masks]
    (_, one), (_, none), (_, wrong) = reader_of(tmp_path, *rows, missing=estimate_of("logprob"))
    assert [(r["mean_entropy"], r["num_tokens"]) for g in (one, none) for r in g["rollouts"]] == [(1.0, 2), (None, 0)]
    assert str(wrong) == "rollouts[0].token_mask: 2 entries for 3 tokens"


def test_lists_of_another_length_are_refused(tmp_path):
    ((_, length),) = reader_of(
        tmp_path, {"id": 0, "responses": ["so 1", "so 2", "so 3"], "logprobs": [[-0.5], [-0.25]]}
    )
    assert length.code == "length"
    assert {"2", "3"} <= set(length.message.split()), "both lengths"


def rewards(groups, **options):
    return [g.rewards for g in estimate(groups, **options).groups]


@pytest.fixture(scope="module")
def expected():
    return rewards(GROUPS)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_rewards(form, expected, tmp_path):
    file = tmp_path / "rollouts"
    file.write_bytes(FORMS[form]())
    found = list(Reader(str(file)))
    assert not [g for _, g in found if isinstance(g, RequestError)]
    assert rewards([g for _, g in found]) == expected
    assert all("label" not in g or isinstance(g["label"], str) for _, g in found)


@pytest.mark.parametrize("form", ["gzip", "an array over many lines", "a rollout a line by uid"])
def test_standard_input_takes_them_too(form, expected, tmp_path, monkeypatch):
    (tmp_path / "in").write_bytes(FORMS[form]())
    with (tmp_path / "in").open() as standard:
        monkeypatch.setattr("sys.stdin", standard)
        assert rewards([g for _, g in Reader("-")]) == expected


@pytest.mark.parametrize(
    "reply",
    [
        {"request_id": "0", "outputs": [{"index": 0, "text": "so 4"}], "finished": True, "prompt_token_ids": [1]},
        {"id": "c", "object": "chat.completion", "usage": {}, "choices": [{"message": {"content": "so 4"}}]},
        {"id": "b", "custom_id": "q", "error": None, "response": {"body": {"choices": [{"text": "so 4"}]}}},
    ],
)
def test_what_stands_beside_an_engine_s_completions_is_read_or_told(tmp_path, reply):
    reader = reader_of(tmp_path, reply | {"answer": 5, "difficulty": "hard"})
    assert [g["label"] for _, g in reader] == ["5"]
    assert reader.notes.taken["answer", "label"] == 1
    assert dict(reader.notes.ignored) == {"difficulty": 1}


def test_steps_and_data_of_ones_own_are_kept(tmp_path):
    rows = [{"rollouts": [{"answer": "1"}], **own} for own in ({"step": 9.0}, {"global_step": 8, "meta": {"my": 1}})]
    assert [g["meta"] for _, g in reader_of(tmp_path, *rows)] == [{"step": 9}, {"my": 1, "step": 8}]


def test_a_name_without_a_value_is_not_ignored(tmp_path):
    rows = [{"uid": "a", "response": r"\boxed{1}", "is_correct": mark, "model": mark} for mark in (None, True)]
    told = []
    reader = reader_of(tmp_path, *rows)
    assert len(list(reader)) == 1
    reader.say(told.append)
    assert [said.partition(":")[0] for said in told if said.startswith("ignored")] == ["ignored model (1)"]


@pytest.mark.parametrize("name", ["token_mask", "loss_mask", "response_mask", "action_mask", "completion_mask"])
def test_a_mask_by_any_trainers_name_takes_tool_tokens_out_of_the_entropy(tmp_path, name):
    entropies = [0.1, 0.3, 5.0]
    own = {"uid": "a", "response": r"\boxed{1}", "entropies": entropies}
    masked = [{**own, name: m} for m in ([1, 1.0, 0], [True] * 3)]
    groups = [g for _, g in reader_of(tmp_path, *masked)]
    assert [r["token_mask"] for r in groups[0]["rollouts"]] == [[True, True, False], [True] * 3]
    reply = estimate(groups, method="dare")
    assert [s.uncertainty for s in reply.groups[0].support] == [pytest.approx((0.2 + 1.8) / 2)]
    short = [{**row, name: row[name][:2]} for row in masked]
    (refused,) = [g for _, g in reader_of(tmp_path, *short)]
    with pytest.raises(RequestError, match="token_mask: 2 entries for 3 tokens"):
        estimate([refused], method="dare")


def test_a_trainers_mask_that_masks_nothing_is_left_out(tmp_path):
    rows = [{"uid": "a", "response": r"\boxed{1}", "mean_entropy": 0.2, "loss_mask": [1, 0]}] * 2
    told = []
    reader = reader_of(tmp_path, *rows)
    ((_, group),) = reader
    reader.say(told.append)
    assert not any("token_mask" in r for r in group["rollouts"])
    assert any(said.startswith("ignored loss_mask (2)") for said in told)


def test_openai_replies_with_several_choices(tmp_path):
    def reply(texts):
        said = [{"role": "assistant", "content": t} for t in texts]
        choices = [{"index": i, "message": m, "finish_reason": "stop"} for i, m in enumerate(said)]
        return {"id": "chatcmpl-1", "object": "chat.completion", "model": "m", "choices": choices, "usage": {}}

    texts = ["\\boxed{1}", "\\boxed{1}", "\\boxed{2}"]
    batch = {"id": "b", "custom_id": "q1", "response": {"status_code": 200, "body": reply(texts)}, "error": None}
    old = {"id": "cmpl", "choices": [{"text": t, "logprobs": {"token_logprobs": [-0.5]}} for t in texts]}
    failed = {"custom_id": "q2", "response": {"body": {}}, "error": {"code": 1}}
    parts = reply([[{"type": "text", "text": t[:4]}, {"type": "text", "text": t[4:]}] for t in texts])
    sounds = reply([[{"type": "input_audio"}]] * 3)
    kept = {"id": "own", "prompt": "1+1?", "label": 2, "response": reply(texts)}
    found = [g for _, g in reader_of(tmp_path, reply(texts), batch, old, parts, kept, failed, sounds)]
    assert [g["group_id"] for g in found[:5]] == ["chatcmpl-1", "q1", "cmpl", "chatcmpl-1", "own"]
    assert all([r["text"] for r in g["rollouts"]] == texts for g in found[:5])
    assert isinstance(found[5], RequestError)
    assert "'input_audio'" in found[6].message


def test_an_object_without_content_is_no_empty_text(tmp_path, ran):
    """Its rollouts would have no answer and get 0, whatever the object holds."""
    said = [{"content": "\\boxed{1}"}, {"role": "assistant", "tool_calls": []}, {"choices": []}]
    rows = [{"prompt": "1+1?", "rollouts": [{"text": text, "mean_entropy": 0.1}]} for text in said]
    file = write_lines(tmp_path / "x.jsonl", rows)
    assert "line 3: rollouts[0].text: must be a string or null" in ran(["score", str(file)], 1).err
    assert [g["rollouts"][0]["text"] for _, g in Reader(str(file))][:2] == ["\\boxed{1}", None]


def test_entropies_are_estimated_only_if_asked_and_are_marked(tmp_path, ran):
    outputs = [
        {"text": "\\boxed{1}", "token_ids": [5, 6], "logprobs": [{"5": {"logprob": -0.1}, "9": {"logprob": -3}}, {"6": {"logprob": -0.3}}]},
        {"text": "\\boxed{2}", "token_ids": [7], "logprobs": [{"7": {"logprob": -0.6}}]},
    ]  # fmt: skip
    file = write_lines(tmp_path / "v.jsonl", [{"request_id": "0", "outputs": outputs}])
    ((_, group),) = Reader(str(file))
    assert "mean_entropy" not in group["rollouts"][0]
    assert "entropy_source" not in group
    assert "--entropy logprob" in ran(["score", str(file), "--table"], 1).err
    ((_, group),) = Reader(str(file), missing=estimate_of("logprob"))
    assert group["entropy_source"] == "logprob"
    assert [r["mean_entropy"] for r in group["rollouts"]] == pytest.approx([0.2, 0.6])
    out, err = ran(["score", str(file), "--table", "--entropy", "logprob"], 0)
    assert "entropies logprob" in out
    assert "mean of -log p" in err
    exact = {"rollouts": [{"answer": "1", "mean_entropy": 0.5, "token_logprobs": [-9.0]}]}
    ((_, group),) = reader_of(tmp_path, exact, missing=estimate_of("logprob"))
    assert (group["rollouts"][0]["mean_entropy"], group.get("entropy_source")) == (0.5, None)


@pytest.mark.parametrize("name", ["logprob", "topk"])
def test_a_completion_without_log_probabilities_leaves_its_siblings_theirs(tmp_path, ran, name):
    """An empty completion needs none; one with an answer is what the error counts, and the remedy does not come twice."""
    empty = {"message": {"content": ""}, "logprobs": {"content": []}}
    silent = {"message": {"content": "\\boxed{2}"}, "logprobs": None}
    file = write_lines(tmp_path / "x.jsonl", [{"choices": [CHAT, empty]}, {"choices": [CHAT, CHAT, silent]}])
    first, second = (g for _, g in Reader(str(file), missing=estimate_of(name, 50)))
    assert ["mean_entropy" in r for r in first["rollouts"]] == [True, False]
    assert ["mean_entropy" in r for r in second["rollouts"]] == [True, True, False]
    err = ran(["score", str(file), "--entropy", name, "--vocab-size", "50"], 1).err
    assert "line 2: an answer without entropy in 1 of 3 rollouts" in err
    assert "line 1" not in err


def test_a_token_without_a_number_counts_for_nothing(tmp_path):
    """OpenAI and vLLM write -9999: as a log-probability it is the entropy of the whole trace, or its path's end."""
    top = [{"logprob": x} for x in np.log([0.6, 0.4])]
    content = [{"logprob": x, "top_logprobs": top} for x in (-0.1, -9999.0, -0.3)]
    reply = {"choices": [{"message": {"content": "\\boxed{1}"}, "logprobs": {"content": content}}] * 2}
    ways = [(None, "sum_logprob", -0.4), (estimate_of("logprob"), "mean_entropy", 0.2)]
    for way, name, value in (*ways, (estimate_of("topk", 2), "sum_logprob", -0.4)):
        ((_, group),) = reader_of(tmp_path, reply, missing=way)
        read = prepare_file([group]).groups
        assert read.column(name).tolist() == pytest.approx([value] * 2)
        assert read.column("num_tokens").tolist() == [2, 2]
    rollout = {"answer": "1", "token_logprobs": [-0.1, -9999, -0.2], "token_mask": [1, 1, 1, 1]}
    ((_, group),) = reader_of(tmp_path, {"prompt": "?", "rollouts": [rollout] * 2})
    with pytest.raises(RequestError, match="4 entries for 3 tokens"):
        prepare_file([group])


def test_a_path_keeps_its_probability_where_its_tokens_stand_for_entropies(tmp_path):
    """`calibrate` judges each certainty that the file holds, whatever its entropies are made of."""
    rollouts = [{"text": "\\boxed{1}", "token_logprobs": [-0.1, -9.0, -0.3], "token_mask": [1, 0, 1]}]
    for way in (None, estimate_of("logprob")):
        ((_, group),) = reader_of(tmp_path, {"rollouts": rollouts}, missing=way)
        read = prepare_file([group]).groups
        assert [read.column(name).tolist() for name in ("sum_logprob", "num_tokens")] == [[pytest.approx(-0.4)], [2]]


def test_a_way_to_entropies_that_was_asked_for_is_not_offered_again(tmp_path, ran):
    bare = {"answer": "1", "token_logprobs": [-0.1]}
    file = write_lines(tmp_path / "x.jsonl", [{"rollouts": [bare, {**bare, "mean_entropy": 0.1}]}])
    assert "--entropy logprob" in ran(["score", str(file)], 1).err
    assert "--entropy logprob --entropy" not in ran(["score", str(file), "--entropy", "logprob"], 1).err


def test_entropies_from_the_top_candidates_lie_within_their_bounds(tmp_path, capsys, ran):
    """Of vLLM, whose rows hold the sampled token beside the top k, of OpenAI's two kinds, and of our own column."""
    tops = [[np.log([0.6, 0.2, 0.1]), np.log([0.9, 0.05, 0.01])], [np.log([0.4, 0.3, 0.2])]]
    exact = [[found.estimate for found in map(partial(bounds, vocab_size=50), rows)] for rows in tops]
    text = "\\boxed{1}"
    listed = [[{str(i): {"logprob": x} for i, x in enumerate(row)} for row in rows] for rows in tops]
    vllm = [{"text": text, "token_ids": [0] * len(rows), "logprobs": rows} for rows in listed]
    vllm[0]["logprobs"][0]["9"] = {"logprob": -7.0}
    chat, plain = [], []
    for rows in tops:
        content = [{"logprob": row[0], "top_logprobs": [{"logprob": x} for x in row]} for row in rows]
        chat.append({"message": {"role": "assistant", "content": text}, "logprobs": {"content": content}})
        top = [dict(zip("abc", row, strict=True)) for row in rows]
        plain.append({"text": text, "logprobs": {"token_logprobs": [row[0] for row in rows], "top_logprobs": top}})
    own = [{"answer": "1", "topk_logprobs": [list(row) for row in rows]} for rows in tops]
    rows = [{"request_id": "0", "outputs": vllm}, {"choices": chat}, {"choices": plain}, {"rollouts": own}]
    file = write_lines(tmp_path / "top.jsonl", rows)
    for _, group in Reader(str(file), missing=estimate_of("topk", 50)):
        assert group["entropy_source"] == "topk"
        assert [r["mean_entropy"] for r in group["rollouts"]] == pytest.approx([np.mean(e) for e in exact])
        assert not any("topk_logprobs" in r for r in group["rollouts"])
    assert not any("mean_entropy" in r for _, g in Reader(str(file)) for r in g["rollouts"])
    out, err = ran(["score", str(file), "--table", "--entropy", "topk", "--vocab-size", "50"], 0)
    assert "entropies topk" in out
    assert "k largest log-probabilities of each token (topk)" in err
    assert "--vocab-size" in ran(["score", str(file), "--entropy", "topk"], 2).err
    assert "without --entropy topk" in ran(["score", str(file), "--vocab-size", "50"], 2).err
    assert "integer >= 2" in ran(["score", str(file), "--entropy", "topk", "--vocab-size", "0"], 2).err, "it was k"
    assert main(["score", str(file), "--entropy", "topk", "--vocab-size", "2"]) == 2
    assert "3 log-probabilities of a vocabulary of 2 (3 more like this)" in capsys.readouterr().err


VLLM = {"text": "\\boxed{1}", "token_ids": [5], "logprobs": [{"5": {"logprob": -0.1}, "9": {"logprob": -3}}]}
CHAT = {
    "message": {"content": "\\boxed{1}"},
    "logprobs": {"content": [{"logprob": -0.1, "top_logprobs": [{"logprob": -0.1}, {"logprob": -3}]}]},
}
COMPLETION = {"text": "\\boxed{1}", "logprobs": {"token_logprobs": [-0.1], "top_logprobs": [{"a": -0.1, "b": -3}]}}
LISTED = {"vLLM": {"outputs": [VLLM]}, "chat": {"choices": [CHAT]}, "plain": {"choices": [COMPLETION]}}  # fmt: skip


@pytest.mark.parametrize("engine", LISTED)
@pytest.mark.parametrize("command", [["score"], ["explain"], ["report", "--out=r.html"]])
def test_candidates_of_an_engine_are_offered(tmp_path, ran, monkeypatch, engine, command):
    """The hint names `--entropy topk` for every form that it reads, and the command works."""
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text(lines([LISTED[engine]] * 2))
    ends = 2 if command[0] == "report" else 1  # it writes no page of nothing
    assert "--entropy topk --vocab-size N" in ran([command[0], "x.jsonl", *command[1:]], ends).err
    assert main([command[0], "x.jsonl", *command[1:], "--entropy", "topk", "--vocab-size", "9"]) == 0


@pytest.mark.parametrize("engine", LISTED)
def test_a_method_of_candidates_reads_those_of_an_engine(tmp_path, ran, engine):
    """As many of each token: vLLM lists a sampled one beside the k largest."""
    reply = json.loads(json.dumps(LISTED[engine]))
    if engine == "vLLM":
        reply["outputs"] += [{**VLLM, "logprobs": [{"7": {"logprob": -9.0}, **VLLM["logprobs"][0]}]}]
    file = write_lines(tmp_path / "x.jsonl", [{**reply, "group_id": "g", "label": "1"}])
    (line,) = map(json.loads, ran(["score", str(file), "-m", "deepconf"], 0).out.splitlines())
    own = [{"answer": "1", "topk_logprobs": [[-0.1, -3.0]]}] * len(line["rollouts"])
    assert line["reply"]["rewards"] == list(estimate([{"rollouts": own}], method="deepconf").groups[0].rewards)
    assert "deepconf" in ran(["calibrate", str(file), "--methods", "ttrl,deepconf"]).out


def test_a_sampled_token_of_a_low_rank_is_no_candidate(tmp_path):
    """All tokens of this rollout were sampled beside vLLM's top 2: the third entry is not the third likeliest."""
    row = {"5": {"logprob": -0.4, "rank": 1}, "6": {"logprob": -1.5, "rank": 2}, "7": {"logprob": -9.0, "rank": 40}}
    outputs = [{"text": "\\boxed{1}", "token_ids": [7], "logprobs": [row]}]
    ((_, group),) = reader_of(tmp_path, {"outputs": outputs}, missing=estimate_of("topk", 50))
    assert group["rollouts"][0]["mean_entropy"] == pytest.approx(bounds([[-0.4, -1.5]], 50).estimate[0])


@pytest.mark.parametrize(
    ("name", "rollout", "said"),
    [
        ("topk", {"topk_logprobs": [[0.9, 0.05], [-0.1, -3.0]]}, "topk_logprobs: 0.9 is above 0"),
        ("topk", {"topk_logprobs": [[-0.1, -0.2]]}, "candidates sum to 1.7"),
        ("logprob", {"token_logprobs": [0.9, -0.1]}, "token_logprobs: 0.9 is above 0"),
    ],
)
def test_probabilities_are_no_log_probabilities(tmp_path, name, rollout, said):
    """They would come out as an entropy of 0, the surest of all."""
    ((_, found),) = reader_of(tmp_path, {"rollouts": [{"answer": "1", **rollout}]}, missing=estimate_of(name, 50))
    assert isinstance(found, RequestError)
    assert said in str(found)


@pytest.mark.parametrize(("name", "column"), [("topk", "topk_logprobs"), ("logprob", "token_logprobs")])
@pytest.mark.parametrize(
    "value", [[-0.1, -0.2], [[-0.1, -2.5]], [[-0.1]], [[-0.1, -2.5], -0.2], [-0.2, [-0.1, -2.5]], [None], "no"]
)
def test_columns_of_another_shape_give_no_entropies(tmp_path, name, column, value):
    ((_, group),) = reader_of(tmp_path, {"rollouts": [{"answer": "1", column: value}]}, missing=estimate_of(name, 50))
    fits = value == ([[-0.1, -2.5]] if name == "topk" else [-0.1, -0.2])
    assert ("mean_entropy" in group["rollouts"][0]) == fits


BOXES = [f"\\boxed{{{a}}}" for a in (3, 3, 2)]
ASKED = {"question": "1+1?"}


@pytest.mark.parametrize(
    ("rows", "label"),
    [
        ([ASKED | {"answer": "2", "response": box} for box in BOXES], "2"),
        ([ASKED | {"answer": "2", "text": box} for box in BOXES], "2"),
        ([ASKED | {"answer": "2", "text": box, "label": "5"} for box in BOXES], "5"),
        ([ASKED | {"answer": ["2", "2", "2"], "responses": BOXES}], ["2", "2", "2"]),
        ([ASKED | {"answer": ["2", "two"], "responses": BOXES}], ["2", "two"]),
        ([ASKED | {"answer": [2], "responses": BOXES}], "2"),
        ([ASKED | {"answer": ["2", "2", "2"], "responses": BOXES, "label": None}], ["2", "2", "2"]),
        ([ASKED | {"answer": ["2", "2", "2"], "choices": [{"text": box} for box in BOXES]}], ["2", "2", "2"]),
    ],
)
def test_the_answer_of_a_data_set_is_no_rollout_s_answer(tmp_path, rows, label):
    """An export names the truth `answer`, once or beside each text: it must not become what a rollout says."""
    ((_, group),) = reader_of(tmp_path, *rows)
    assert group["label"] == label
    assert [r["text"] for r in group["rollouts"]] == BOXES
    assert all("answer" not in r for r in group["rollouts"])


@pytest.mark.parametrize("row", [{"prompt": "p"}, {"group_id": "7"}])
@pytest.mark.parametrize("nothing", [None, float("nan")])
@pytest.mark.parametrize("names", [("text",), ("output", "response"), ("response", "text")])
def test_an_answer_beside_the_empty_cell_of_a_text_is_the_rollout_s(tmp_path, row, nothing, names):
    """A table has a cell for each column: read as the data set's answer, the rollouts would lose their votes."""
    cells = [("204", None), ("204", None), ("17", None), (None, "so \\boxed{204}")]
    given = [[nothing if cell is None else cell for cell in pair] for pair in cells]
    empty = row | {"trained": nothing, "mean_entropy": 0.2} | dict.fromkeys(names, nothing)
    rows = [empty | {"answer": a, names[-1]: t} for a, t in given]
    ((_, group),) = reader_of(tmp_path, *rows)
    plain = [{"answer": a} if t is None else {"text": t} for a, t in cells]
    wanted = estimate([{"rollouts": [r | {"mean_entropy": 0.2} for r in plain]}]).groups[0]
    found = estimate([group]).groups[0]
    assert (found.rewards, found.answers) == (wanted.rewards, wanted.answers)
    assert group.get("label") is None
    (_, refused), *_ = reader_of(tmp_path, *[{"prompt": "p", "answer": "204", "text": nothing}] * 2)
    assert isinstance(refused, RequestError)
    assert refused.code == "data"


def test_a_list_of_answers_that_may_be_the_rollouts_own_is_no_truth(tmp_path):
    """As a list of accepted answers it would call every rollout right."""
    ((_, found),) = reader_of(tmp_path, ASKED | {"answer": ["3", "3", "2"], "responses": BOXES})
    assert isinstance(found, RequestError)
    assert str(found).startswith("answer: holds a different entry for each rollout")


def test_names_are_said_once_and_unknown_ones_are_one_warning(tmp_path, ran):
    file = tmp_path / "x.jsonl"
    file.write_text(lines({"prompt_id": i, "dataset": "d", "responses": ["\\boxed{1}"] * 2} for i in range(30)))
    err = ran(["score", str(file), "--method", "ttrl"], 0).err.splitlines()
    assert err[0] == "read prompt_id as group_id, responses as rollouts"
    assert err[1].startswith("ignored dataset (30)")
    assert len(err) == 3


def test_the_tables_of_names_speak_of_inputs_only():
    assert {*GROUP_NAMES, *ROLLOUT_NAMES} == set(OTHER_NAMES)
    for names, fields in ((GROUP_NAMES, GROUP_FIELDS), (ROLLOUT_NAMES, ROLLOUT_FIELDS)):
        every = [other for others in names.values() for other in others]
        assert len(every) == len(set(every))
        assert not set(every) & set(fields)


def test_most_rollouts_without_an_answer_are_a_loud_warning(tmp_path, ran):
    texts = ["<think>so 4", "the", "\\boxed{", "", "\\boxed{4}"]
    cut = {"rollouts": [{"text": "long", "finish_reason": "length"}] * 4}
    file = write_lines(tmp_path / "x.jsonl", [{"rollouts": [{"text": t} for t in texts]}, cut])
    err = ran(["score", str(file), "--method", "ttrl"], 0).err.splitlines()
    assert err[0].startswith(f"WARNING: 8 of 9 rollouts without an answer (mostly: {WHY_NONE['length']})")
    assert err[1].startswith(f"2 groups, 9 rollouts, 8 without an answer (mostly: {WHY_NONE['length']}), ")


@pytest.mark.parametrize(
    ("name", "end", "votes"),
    [
        ("stop_reason", "max_tokens", 0),
        ("finish", "MAX_TOKENS", 0),
        ("finish_reason", "abort", 0),
        ("finish", "eos", 2),
    ],
)
def test_a_text_that_did_not_end_by_itself_is_cut_off(tmp_path, name, end, votes):
    """Whatever an engine calls that: no sentence of it is an answer."""
    ((_, group),) = reader_of(tmp_path, {"rollouts": [{"text": "The answer is 7.", name: end}] * 2})
    (reply,) = estimate([group], method="ttrl").groups
    assert sum(reply.valid) == votes


def test_ends_beside_a_list_of_texts_are_read_in_the_plural_too(tmp_path):
    """Without them, texts that were cut off vote by their last sentences."""
    row = {"prompt": "p", "responses": ["The answer is 7."] * 2, "finish_reasons": ["length", "stop"]}
    ((_, group),) = reader_of(tmp_path, row)
    (reply,) = estimate([group], method="ttrl").groups
    assert reply.valid == (False, True)


def test_an_engines_file_keeps_candidates_of_its_own(tmp_path):
    outputs = [{"text": "\\boxed{1}", "topk_logprobs": [[-0.1, -2.0]]}] * 2
    ((_, group),) = reader_of(tmp_path, {"prompt": "p", "outputs": outputs})
    assert [r["topk_logprobs"] for r in group["rollouts"]] == [[[-0.1, -2.0]]] * 2


def test_labels_that_contradict_each_other_are_told(tmp_path):
    """A flag of each rollout under the name of the right answer left 58 of 60 prompts without a label, and no word."""
    rows = [{"prompt": p, "response": box, "label": int(box == BOXES[0])} for p in "ab" for box in BOXES]
    reader, told = reader_of(tmp_path, *rows), []
    assert ["label" in group for _, group in reader] == [False, False]
    reader.say(told.append)
    assert any(line.startswith("read 2 groups without a label: their rollouts' labels contradict") for line in told)


# --- membership: which rows are one group (`tests/unit/test_membership.py` has the rule) ------------------------------


def said(answer, **fields):
    return {"text": f"\\boxed{{{answer}}}", **fields}


def read(tmp_path, rows):
    """What the reader makes of rows: of each group its answers, or the name of its refusal; what it says; its ledger."""
    reader, told = reader_of(tmp_path, *rows), []
    found = [
        g.code if isinstance(g, RequestError) else "".join(r["text"][-2] for r in g["rollouts"]) for _, g in reader
    ]
    reader.say(told.append)
    return found, told, reader.ledger


PLACES = ("run", "step", "global_step", "epoch", "policy_version", "weight_version")


@pytest.mark.parametrize("name", PLACES)
def test_rows_of_two_runs_steps_epochs_or_versions_are_two_groups(tmp_path, name):
    rows = [said(a, prompt="p", **{name: v}) for a, v in (("1", 1), ("2", 2), ("3", "1"), ("4", 1.0), ("5", "2"))]
    found, told, _ = read(tmp_path, rows)
    assert found == ["134", "25"]
    assert not any("ignored" in line for line in told)


@pytest.mark.parametrize("name", ["question", "problem", "query", "messages"])
def test_rows_of_one_system_prompt_are_told_apart_by_their_questions(tmp_path, name):
    def asks(text):
        return [{"role": "user", "content": text}] if name == "messages" else text

    rows = [said(a, prompt="SYSTEM", **{name: asks(q)}) for a, q in (("1", "a?"), ("2", "b?"), ("3", "a?"))]
    assert read(tmp_path, rows)[0] == ["13", "2"]
    ((_, first), _) = Reader(str(tmp_path / "rows.jsonl"))
    assert first["prompt"] == "SYSTEM\na?"
    whole = [said(a, prompt="Solve: a?", **{name: asks("a?")}) for a in "12"]
    assert read(tmp_path, whole)[0] == ["12"]
    ((_, only),) = Reader(str(tmp_path / "rows.jsonl"))
    assert only["prompt"] == "Solve: a?"


@pytest.mark.parametrize(
    ("one", "other", "name"),
    [
        ({"prompt": "a"}, {"prompt": "b"}, "prompt_conflict"),
        ({"kind": "choice"}, {"kind": "math"}, "kind_conflict"),
        ({"kind": "choice", "options": 4}, {"kind": "choice", "options": 5}, "options_conflict"),
        ({"group_size": 4}, {"group_size": 5}, "size_conflict"),
        ({"entropy_source": "exact"}, {"entropy_source": "topk"}, "entropy_source_conflict"),
        ({"id": "x"}, {"id": "x"}, "index_conflict"),
    ],
)
def test_rows_of_one_key_that_disagree_are_refused_by_name_and_counted(tmp_path, one, other, name):
    rows = [said("1", uid="u", **one), said("2", uid="u", **other), said("3", uid="v"), said("3", uid="v")]
    for order in (rows, rows[::-1]):
        found, told, ledger = read(tmp_path, order)
        assert sorted(found) == ["33", name]
        assert ledger.as_json() == {"read": 1, "merged": 1, "dropped": 0, "refused": 2, "unreadable": 0}
        assert told[-1] == "lines: 1 read, 1 merged, 2 refused"


def test_one_name_in_several_types_is_one_name_and_no_other_prompt(tmp_path):
    rows = [said("1", group_id=1), said("2", group_id="1"), said("3", group_id=1.0), said("4", group_id="1.0")]
    rows += [said("5", prompt="1"), said("6", group_id="001"), said("7", group_id=True)]
    assert read(tmp_path, rows)[0] == ["type", "1234", "5", "6"]


@pytest.mark.parametrize("name", ["step", "global_step"])
def test_a_step_that_stands_twice_is_two_groups_and_mixed_rows_are_one(tmp_path, name):
    blocks = [(3, "12"), (4, "33"), (3, "456"), (4, "7")]
    rows = [said(a, **{name: step}, prompt="p") for step, answers in blocks for a in answers]
    found, told, _ = read(tmp_path, rows)
    assert (found, told) == (["12456", "337"], []), "the last block holds a lone rollout"
    found, told, _ = read(tmp_path, rows[:-1])
    assert found == ["12", "456", "33"]
    assert told == ["1 prompt came again at a step, as after a restart: each time is a group"]
    assert read(tmp_path, [said(a, step=int(a) % 2, prompt="p") for a in "1234"])[0] == ["13", "24"]
    by_file = [said(a, step=step, prompt="p") for step in (1, 10, 2) for a in "12"]
    assert read(tmp_path, by_file)[0] == ["12"] * 3, "as `cat *` orders a trainer's files"


def test_a_rollout_that_stands_again_is_read_once_and_said(tmp_path):
    found, told, ledger = read(tmp_path, [said("1", uid="u", id=7)] * 3 + [said("2", uid="u", id=8)])
    assert found == ["12"]
    assert ledger["dropped"] == 2
    assert told[-1] == "lines: 1 read, 1 merged, 2 dropped (rollouts that stand twice, with one id and one content)"


@pytest.mark.parametrize(("name", "read"), [("1.0", "1.0"), (1.0, "1"), (1e17, f"{10**17}"), (-0.0, "0")])
def test_the_id_of_rows_is_that_of_a_group(tmp_path, name, read):
    """Else a label of section 1.0 found no rows; those that write it otherwise are its rows nevertheless."""
    for rows in ([{"group_id": name, "rollouts": BOXES}], [{"group_id": n, "text": BOXES[0]} for n in (name, read, 7)]):
        assert next(g["group_id"] for _, g in reader_of(tmp_path, *rows)) == read
    assert [len(g["rollouts"]) for _, g in reader_of(tmp_path, *rows)] == [2, 1]


def test_what_only_a_copy_of_a_line_says_of_the_group_counts(tmp_path):
    bare, full = {"uid": "u", "id": 1, "answer": "1"}, {"prompt": "What?", "reference": "r", "top_p": 0.5}
    other = {"uid": "u", "id": 2, "answer": "2", "reference": None, "temperature": float("nan")}
    full["temperature"] = 1.0
    ((_, group),) = reader_of(tmp_path, other, bare, {**bare, **full})
    assert (group["prompt"], group["reference"], group["top_p"], len(group["rollouts"])) == ("What?", "r", 0.5, 2)
    ((_, error),) = reader_of(tmp_path, {**other, "top_p": 1.0}, bare, {**bare, **full})
    assert error.code == "top_p_conflict"


def test_what_pandas_writes_for_nothing_is_nothing(tmp_path):
    nan = float("nan")
    ((_, group),) = reader_of(tmp_path, {"group_id": "a", "label": nan, "rollouts": [{"answer": "1"}, {"answer": nan}]})
    assert ("label" in group, [r["answer"] for r in group["rollouts"]]) == (False, ["1", None])
    known = {"uid": nan, "group_id": None, "prompt": "p", "step": nan}
    rows = [said(a, **known, group_size=size) for a, size in (("1", 3.0), ("2", nan))]
    assert read(tmp_path, rows)[0] == ["12"]
    ((_, group),) = Reader(str(tmp_path / "rows.jsonl"))
    assert (group["group_size"], group["group_id"]) == (3, "line-1")
    own = {"id": 2.0, "num_tokens": 7.0, "verified": 1.0, "correct": 0.0}
    rows = [said("1", uid="u", **own), said("2", uid="u", **dict.fromkeys(own, nan))]
    ((_, group),) = reader_of(tmp_path, *rows)
    first, second = group["rollouts"]
    assert {k: first[k] for k in own} == {**own, "id": "2"}
    assert [type(first[k]) for k in own] == [str, int, int, bool]
    assert {k: second[k] for k in own} == dict.fromkeys(own)
    assert prepare_file([group]).groups.support_P.tolist() == [2]
    assert read(tmp_path, [said("1", uid="u", group_size=s) for s in ("4", True, 4.5)])[0] == ["type"] * 3


def test_replies_with_one_completion_are_siblings_by_their_prompt_or_their_custom_id(tmp_path):
    def reply(answer, **fields):
        return {"choices": [{"message": {"content": f"\\boxed{{{answer}}}"}}], **fields}

    batch = [{"custom_id": i, "response": {"body": reply(a)}} for i, a in (("q", "1"), ("r", "2"), ("q", "3"))]
    assert read(tmp_path, batch)[0] == ["13", "2"]
    engine = [{"request_id": i, "prompt": p, "outputs": [said(a)]} for i, (p, a) in enumerate(("p1", "q2", "p3"))]
    assert read(tmp_path, engine)[0] == ["13", "2"]
    assert read(tmp_path, [reply("1", prompt="p", id="x"), reply("2", prompt="p", id="y")])[0] == ["12"]
    assert read(tmp_path, [reply("1"), reply("2")])[0] == ["1", "2"], "nothing says what they answer"


@pytest.mark.parametrize(("module", "extra"), [("zstandard", "files"), ("pyarrow.parquet", "parquet")])
def test_the_extra_that_reads_a_form_is_named(tmp_path, monkeypatch, module, extra):
    file = tmp_path / "x"
    file.write_bytes(zstd(PLAIN) if module == "zstandard" else parquet(GROUPS))
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(RequestError, match=rf"pip install '\.\[{extra}\]'") as found:
        list(Reader(str(file)))
    assert found.value.code == "file"


@pytest.mark.parametrize("form", ["lines", "gzip", "parquet", "one value", "rollouts that stand alone", "run log"])
def test_what_is_read_of_a_file_tells_how_many_groups_it_holds(tmp_path, form):
    texts = [f"{random.Random(i).randbytes(500).hex()} \\boxed{{{i}}}" for i in range(2000)]
    rows = [{"group_id": f"g{i}", "rollouts": [{"text": text}]} for i, text in enumerate(texts)]
    path = tmp_path / "in"
    if form == "rollouts that stand alone":
        rows = [{"uid": f"g{i // 2}", "output": text} for i, text in enumerate(texts)]
    if form == "parquet":
        pytest.importorskip("pyarrow.parquet").write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), path)
    elif form == "run log":
        path = tmp_path / "20260101T000000000Z-1-01234567-000000.jsonl.gz"
        reply = {"answers": [""], "valid": [True]}
        base = {"v": 2, "time": "", "run": "r", "step": 1, "seconds": 0.0, "reply": reply}
        logged = [json.dumps({**base, **row}).encode() for row in rows]
        path.write_bytes(b"".join(member(logged[at : at + 100], 1) for at in range(0, 2000, 100)))
    else:
        text = json.dumps(rows, indent=1) if form == "one value" else lines(rows)
        path.write_bytes(gzip.compress(text.encode()) if form == "gzip" else text.encode())
    reader = Reader(str(path))
    left = iter(reader)
    groups = len([*islice(left, 500)])
    whole = 1000 if form == "rollouts that stand alone" else 2000
    assert (groups, reader.expected()) == (500, pytest.approx(whole, rel=0.25))
    left.close()
    groups = len([*(reader := Reader(str(path)))])
    assert (groups, reader.expected()) == (whole, whole)
