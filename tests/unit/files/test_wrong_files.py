"""Sixty files that cannot be scored as they are: each gives few lines, names what is wrong, and stays as it was."""

import gzip
import json
import pickle

from rows import each

from dare_reward.cli import main

GROUP = {"group_id": "g", "rollouts": [{"answer": "1", "mean_entropy": 0.2}, {"answer": "2", "mean_entropy": 0.4}]}
LINE = json.dumps(GROUP)
MANY = 40


def group(**more):
    return {**GROUP, **more}


def rollout(**more):
    return {"rollouts": [{"answer": "1", "mean_entropy": 0.2, **more}]}


def bare(**fields):
    return {"rollouts": [fields]}


def of(value):
    """The same mistake on every line."""
    return (json.dumps(value) + "\n").encode() * MANY


WRONG = [
    # kinds of files
    ("an empty file", b"", "is empty"),
    ("blank lines", b"\n \n\n", "is empty"),
    ("CSV", b"prompt,response,label\n" + b"1+1?,2,2\n" * MANY, "CSV"),
    ("TSV", b"prompt\tresponse\n" + b"1+1?\t2\n" * MANY, "TSV"),
    ("a web page", b"<!DOCTYPE html>\n<html></html>\n" * MANY, "web page"),
    ("plain text", b"The answer is 4.\n" * MANY, "not JSON"),
    ("YAML", b"- prompt: 1+1\n  answer: 2\n" * MANY, "not JSON"),
    ("UTF-16", LINE.encode("utf-16"), "UTF-16"),
    ("UTF-16 without a mark", LINE.encode("utf-16-le"), "UTF-16"),
    ("a pickle", pickle.dumps([GROUP] * MANY), "pickle"),
    ("a pickle of protocol 2", pickle.dumps([GROUP], protocol=2), "pickle"),
    ("a zip archive", b"PK\x03\x04" + bytes(200), "zip archive"),
    ("NumPy", b"\x93NUMPY\x01\x00" + bytes(200), "NumPy"),
    ("bzip2", b"BZh91AY&SY" + bytes(50), "bunzip2"),
    ("xz", b"\xfd7zXZ\x00" + bytes(50), "unxz"),
    ("Arrow", b"ARROW1\x00\x00" + bytes(50), "Arrow"),
    ("HDF5", b"\x89HDF\r\n\x1a\n" + bytes(50), "HDF5"),
    ("SQLite", b"SQLite format 3\x00" + bytes(50), "SQLite"),
    ("a PDF", b"%PDF-1.7\n" + b"x" * 50, "PDF"),
    ("a picture", b"\x89PNG\r\n\x1a\n" + bytes(50), "picture"),
    ("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
    ("zeros", bytes(500), "binary"),
    ("gzip cut off", gzip.compress(of(GROUP))[:-20], "gzip file is damaged or cut off"),
    ("gzip damaged", b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 60, "gzip file is damaged"),
    ("gzip of CSV", gzip.compress(b"a,b\n1,2\n" * MANY), "CSV"),
    ("gzip of a pickle", gzip.compress(pickle.dumps(GROUP)), "pickle"),
    ("Parquet cut off", b"PAR1" + bytes(100), "Parquet"),
    ("zstd damaged", b"\x28\xb5\x2f\xfd" + b"\xff" * 60, "zstd"),
    # text that is nearly JSON
    ("Python dictionaries", (repr(GROUP) + "\n").encode() * MANY, "double quotes"),
    ("a line cut off", (LINE + "\n" + LINE[:-9] + "\n").encode(), "line 2: not JSON"),
    ("an array cut off", ("[" + LINE + ",\n" + LINE[:-9]).encode(), "not JSON"),
    ("a pretty object with a trailing comma", json.dumps(GROUP, indent=1)[:-2].encode() + b",\n}\n", "not JSON"),
    ("objects without a line between", (LINE * 3).encode(), "not JSON"),
    ("comments", b"// rollouts\n" + of(GROUP), "not JSON"),
    ("too deep", b"[" * 100_000 + b"\n", "not JSON"),
    ("numbers", b"[1, 2, 3]\n" * MANY, "must be an object, not a number"),
    ("texts", b'["a", "b"]\n' * MANY, "must be an object, not a text"),
    ("null", b"[null]\n" * MANY, "must be an object, not null"),
    # objects that are something else
    ("a data set without rollouts", of({"question": "1+1?", "answer": "2"}), "data set"),
    ("prompts only", of({"prompt": "1+1?"}), "its keys are prompt"),
    ("an object of settings", of({"model": "m", "temperature": 1}), "its keys are model, temperature"),
    ("rollouts without a key", of({"response": "\\boxed{1}"}), "group_id, prompt_id, uid"),
    ("a failed batch", of({"custom_id": "1", "response": {"status_code": 500, "body": {}}, "error": None}), "batch failed"),
    ("another name of the text", of({"group_id": "g", "rollouts": [{"txt": "a"}]}), "did you mean text"),
    ("a misspelt answer", of({"rollouts": [{"answr": "1", "mean_entropy": 0.1}]}), "did you mean answer"),
    # groups with wrong values
    ("no rollouts", of(group(rollouts=[])), "at least one rollout"),
    ("rollouts that are no list", of(group(rollouts={"a": 1})), "must be a list"),
    ("rollouts that are numbers", of(group(rollouts=[1, 2])), "must be an object"),
    ("entropies as texts", of(bare(answer="1", token_entropies=["0.1", "0.2"])), "token_entropies"),
    ("nested entropies", of(bare(answer="1", token_entropies=[[0.1], [0.2]])), "token_entropies"),
    ("NaN", of(bare(answer="1", mean_entropy=float("nan"))), "mean_entropy"),
    ("infinity", of(bare(answer="1", mean_entropy=float("inf"))), "mean_entropy"),
    ("a negative entropy", of(bare(answer="1", mean_entropy=-0.1)), "mean_entropy"),
    ("an entropy in percent", of(bare(answer="1", mean_entropy=4000.0)), "mean_entropy"),
    ("a positive log-probability", of(rollout(token_logprobs=[0.5])), "token_logprobs"),
    ("lengths that differ", of(rollout(token_logprobs=[-0.5], token_mask=[True, True])), "token"),
    ("mean and tokens", of(rollout(token_entropies=[0.2])), "not both"),
    ("a mask of numbers", of(bare(answer="1", token_entropies=[0.1], token_mask=[2])), "token_mask"),
    ("a label that is an object", of(group(label={"answer": 1})), "label"),
    ("a label that is true", of(group(label=True)), "label"),
    ("an unknown kind", of(group(kind="maths")), "kind"),
    ("options without letters", of(group(kind="choice", options=["yes", "no"])), "options"),
    ("an unknown source", of(group(entropy_source="guess")), "entropy_source"),
    ("an empty id", of(group(group_id="")), "group_id"),
    ("a number of tokens below 0", of(rollout(num_tokens=-1)), "num_tokens"),
    ("correct as a text", of(rollout(correct="yes")), "correct"),
    ("trained as a text", of(rollout(trained="no")), "trained"),
    ("no entropies", of({"rollouts": [{"text": "\\boxed{1}"}]}), "-p missing_entropy=frequency"),
    ("log-probabilities only", of(bare(answer="1", token_logprobs=[-0.1])), "--entropy logprob"),
]  # fmt: skip


def test_there_are_sixty():
    assert len(WRONG) >= 60
    assert len({name for name, _, _ in WRONG}) == len(WRONG)


@each("name, content, word", WRONG)
def test_a_wrong_file_is_named_in_few_lines_and_stays(name, content, word, tmp_path, capsys):
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes(content)
    for command in (["score", str(file)], ["convert", str(file)], ["analyse", str(file)], ["compare", str(file)]):
        code = main(command)
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert len(err.splitlines()) <= 12, err
        assert file.read_bytes() == content
        if command[0] == "score":
            assert code in {1, 2}, out
            assert word in err, err
            assert max(map(len, err.splitlines())) < 400, err


def test_a_file_of_a_hundred_mistakes_is_given_up(tmp_path, capsys):
    file = tmp_path / "x.jsonl"
    bad = [{"rollouts": [{"answer": "1", chr(97 + i) * 9: 1, "mean_entropy": [i]}]} for i in range(3)]
    bad += [{"rollouts": [{f"{chr(97 + i)}{chr(98 + i)}": 1}]} for i in range(24)]
    file.write_text("".join(json.dumps(b) + "\n" for b in bad))
    out = tmp_path / "out.jsonl"
    assert main(["score", str(file), "--out", str(out)]) == 2
    err = capsys.readouterr().err
    assert "more than 10 kinds of mistakes" in err
    assert len(err.splitlines()) == 11
    assert not out.exists()


@each(
    "value",
    [
        {"uid": "a", "response": "\\boxed{1}", "label": ["1", "2"]},
        {"uid": "a", "response": "\\boxed{1}", "label": {"target": "1"}},
        {"uid": "a", "response": "\\boxed{1}", "correct": [1]},
        {"uid": "a", "response": "\\boxed{1}", "token_logprobs": [-0.1], "token_mask": 5},
    ],
)
def test_values_of_other_kinds_are_no_tracebacks(value, tmp_path, capsys):
    file = tmp_path / "rollouts.jsonl"
    file.write_bytes((json.dumps(value) + "\n").encode() * 2)
    assert main(["score", str(file), "--entropy", "logprob", "-p", "missing_entropy=frequency"]) in {0, 1, 2}
    assert "Traceback" not in capsys.readouterr().err


def test_messages_in_blocks_are_read(tmp_path, capsys):
    blocks = [{"type": "text", "text": "so "}, {"type": "text", "text": "\\boxed{7}"}]
    value = {
        "prompt": [{"role": "user", "content": blocks[:1]}],
        "completion": [{"role": "assistant", "content": blocks}],
    }
    file = tmp_path / "rollouts.jsonl"
    file.write_text(json.dumps(value) + "\n")
    assert main(["score", str(file), "-m", "ttrl", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pseudo_label"] == "7"
