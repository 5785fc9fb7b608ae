"""Files that cannot be scored as they are: each gives few lines, names what is wrong, and stays as it was."""

import gzip
import io
import json
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from jsonl import write_lines
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


def parquet(rows, end=None):
    """Written by the test: each process that collects this file would load what writes it."""

    def written():
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), buffer)
        return buffer.getvalue()[:end]

    return written


FOREIGN = "is neither JSON lines, JSON nor Parquet (plain, gzip or zstd). Write one JSON object a line"

# What is wrong, the file, and what the message says: the kind of mistake where nothing can be done, else the fix.
WRONG = [
    # kinds of files
    ("an empty file", b"", "Name a file that holds rollouts"),
    ("blank lines", b"\n \n\n", "is empty"),
    ("CSV", b"prompt,response,label\n" + b"1+1?,2,2\n" * MANY, FOREIGN),
    ("a web page", b"<!DOCTYPE html>\n<html></html>\n" * MANY, FOREIGN),
    ("plain text", b"The answer is 4.\n" * MANY, FOREIGN),
    ("UTF-16", LINE.encode("utf-16"), FOREIGN),
    ("a pickle", pickle.dumps([GROUP] * MANY), FOREIGN),
    ("Latin-1", (LINE.replace('"g"', '"café"') + "\n").encode("latin-1") * MANY, "iconv -f LATIN1 -t UTF-8"),
    ("a name of its own", of({"id": 1, "options": ["a"]}), "only id, options. docs/data.md"),
    ("nearly a name of the rollouts", of({"id": 1, "responzes": ["a"]}), "Did you mean responses?"),
    ("a zip archive", b"PK\x03\x04" + bytes(200), FOREIGN),
    ("bzip2", b"BZh91AY&SY" + bytes(50), FOREIGN),
    ("a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", FOREIGN),
    ("zeros", bytes(500), FOREIGN),
    ("gzip cut off", gzip.compress(of(GROUP))[:-20], "the file is damaged or cut off (Compressed file ended"),
    ("gzip damaged", b"\x1f\x8b\x08" + bytes(7) + b"\xff" * 60, "Write or copy it again"),
    ("gzip of CSV", gzip.compress(b"a,b\n1,2\n" * MANY), FOREIGN),
    ("Parquet cut off", parquet([GROUP] * MANY, -20), "the file is damaged or cut off"),
    ("Parquet in name only", b"PAR1" + bytes(100), "Write or copy it again"),
    ("Parquet of a data set", parquet([{"question": "1+1?", "answer": "2"}] * MANY), "Generate rollouts for it"),
    ("Parquet without texts", parquet([{"prompt": "1+1?", "tokens": [1]}] * MANY), "only prompt, tokens"),
    ("zstd damaged", b"\x28\xb5\x2f\xfd" + b"\xff" * 60, "the file is damaged or cut off"),
    # text that is nearly JSON
    ("Python dictionaries", (repr(GROUP) + "\n").encode() * MANY, "Write each object on one line, as json.dumps(...)"),
    ("a line cut off", (LINE + "\n" + LINE[:-9] + "\n").encode(), "line 2: not JSON, because it ends in the middle"),
    ("the first line cut off", (LINE[:-9] + "\n" + LINE).encode(), "line 1: not JSON, because it ends"),
    ("an array cut off", ("[" + LINE + ",\n" + LINE[:-9]).encode(), "line 2: not JSON, because it ends in the middle"),
    ("a pretty object with a trailing comma", json.dumps(GROUP, indent=1)[:-2].encode() + b",\n}\n", "Write each object on one line, as json.dumps(...)"),
    ("a value that is not there", b'{"text": }\n', "not JSON at character 10 (expecting value)"),
    ("pretty objects one after another", (json.dumps(GROUP, indent=1) + "\n").encode() * 2, "Write each object on one line, as json.dumps(...)"),
    ("an empty object", b"{}\n", "only an empty object"),
    ("objects without a line between", (LINE * 3).encode(), "Write each object on one line, as json.dumps(...)"),
    ("too deep", b"[" * 100_000 + b"\n", "nested too deeply. Write one"),
    ("names without quotes", b"{answer: 1}\n" * MANY, "Write each object on one line, as json.dumps(...)"),
    ("Python's None", b'{"answer": None}\n' * MANY, "at character 12 (expecting value)"),
    ("numbers", b"[1, 2, 3]\n" * MANY, "must be an object with a rollout or a group, not a number"),
    ("texts", b'["a", "b"]\n' * MANY, "must be an object with a rollout or a group, not a text"),
    ("null", b"[null]\n" * MANY, "must be an object with a rollout or a group, not null"),
    ("a key twice", LINE.replace('"answer": "1"', '"answer": "1", "answer": "2"').encode() + b"\n", "the key 'answer' stands twice. Keep one"),
    ("a key twice in an array", b'[{"a": 1,\n"a": 2}]', "the key 'a' stands twice. Keep one of them"),
    # objects that are something else
    ("a data set without rollouts", of({"question": "1+1?", "answer": "2"}), "Generate rollouts for it"),
    ("prompts only", of({"prompt": "1+1?"}), "only prompt. docs/data.md lists the names"),
    ("a request", of({"groups": [GROUP]}), "not a request of several: write each on a line"),
    ("an object of settings", of({"model": "m", "temperature": 1}), "only model, temperature. docs/data.md lists"),
    ("rollouts without a key", of({"response": "\\boxed{1}"}), "Give it one of group_id, prompt_id, uid"),
    ("a failed batch", of({"custom_id": "1", "response": {"status_code": 500, "body": {}}, "error": None}), "failed and has no choices. Send it again"),
    ("another name of the text", of({"group_id": "g", "rollouts": [{"txt": "a"}]}), "Did you mean text"),
    ("a misspelt answer", of({"rollouts": [{"answr": "1", "mean_entropy": 0.1}]}), "Did you mean answer"),
    # groups with wrong values, the others: tests/unit/test_request.py and tests/service/test_one_check.py
    ("no rollouts", of(group(rollouts=[])), "at least one rollout"),
    ("NaN", of(bare(answer="1", mean_entropy=float("nan"))), "mean_entropy"),
    ("a group larger than its size", of(group(group_size=1)), "2 rollouts of a group of 1"),
    ("a size of none", of(group(group_size=0)), "group_size"),
    ("a positive log-probability", of(rollout(token_logprobs=[0.5])), "token_logprobs"),
    ("mean and tokens", of(rollout(token_entropies=[0.3])), "from what token_entropies gives"),
    ("a label that is an object", of(group(label={"answer": 1})), "label"),
    ("a label that is true", of(group(label=True)), "label"),
    ("an unknown kind", of(group(kind="maths")), "kind"),
    ("a kind that is a list", of({"prompt": "?", "text": "a", "kind": []}), "kind: must be one of math"),
    ("a run that is an object", of(group(run={"id": 1})), "run: must be a text or a number"),
    ("data of one's own that is a number", of(group(meta=1, label="1")), "meta"),
    ("options without letters", of(group(kind="choice", options=["yes", "no"])), "options"),
    ("no entropies", of({"rollouts": [{"text": "\\boxed{1}"}]}), "-p missing_entropy=frequency"),
    ("log-probabilities only", of(bare(answer="1", token_logprobs=[-0.1])), "--entropy logprob"),
]  # fmt: skip


READERS = ("score", "calibrate", "explain")


@pytest.mark.parametrize("command", READERS)
def test_every_command_reads_a_run_log(command, ran):
    """Under another name and packed as one: 400 groups of 16 rollouts. A verdict is about the last steps of a run."""
    err = ran([command, str(LOG)], 0, 1).err
    if command == "calibrate":
        assert "374 groups left out" in err
    assert ("26 groups, 416 rollouts" if command == "calibrate" else "400 groups, 6,400 rollouts") in err


LOG = Path(__file__).parents[3] / "research" / "results" / "run-confident-0.jsonl.gz"


def test_a_run_log_under_another_name_is_read_by_the_same_rules(tmp_path, ran):
    lines = gzip.decompress(LOG.read_bytes()).splitlines(keepends=True)
    plain, later, torn = (tmp_path / name for name in ("plain.jsonl", "later.jsonl", "torn.jsonl.gz"))
    plain.write_bytes(b"".join(lines))
    later.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"v":2', b'"v":3'))
    torn.write_bytes(gzip.compress(b"".join(lines))[:-2000])
    version = "399 read; 1 refused (line 400: a line of version 3, and this release reads version 2)"
    for file, words, *codes in ((plain, f"{len(lines)} groups", 0), (later, version, 1), (torn, "damaged", 1, 2)):
        said = ran(["report", str(file), "-o", str(tmp_path / "out.html"), "--force"], *codes).err
        assert words in said.splitlines()[-1]


@pytest.mark.parametrize("command", READERS)
def test_a_folder_and_a_file_that_is_not_there(command, tmp_path, ran):
    for path, words in (
        (tmp_path, "holds no run log, whose files are *.jsonl.gz. Name a file."),
        (tmp_path / "no.jsonl", "No such file"),
    ):
        (line,) = ran([command, str(path)], 2).err.splitlines()
        assert f"{path}" in line
        assert words in line


@each("name, content, word", WRONG)
def test_a_wrong_file_is_named_in_few_lines_and_stays(name, content, word, tmp_path, capsys):
    file = tmp_path / "rollouts.jsonl"
    content = content() if callable(content) else content
    file.write_bytes(content)
    others = READERS[1:]
    for command in ("score", others[len(name) % len(others)]):  # by turns: each command costs its parsers
        code = main([command, str(file)])
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert len(err.splitlines()) <= 12, err
        assert [f.name for f in tmp_path.iterdir()] == [file.name]
        assert file.read_bytes() == content
        if command == "score":
            assert code in {1, 2}, out
            assert word in err, err
            assert max(map(len, err.splitlines())) < 400, err


def test_a_file_of_a_hundred_mistakes_is_given_up(tmp_path, ran):
    bad = [{"rollouts": [{"answer": "1", chr(97 + i) * 9: 1, "mean_entropy": [i]}]} for i in range(3)]
    bad += [{"rollouts": [{f"{chr(97 + i)}{chr(98 + i)}": 1}]} for i in range(24)]
    file, out = write_lines(tmp_path / "x.jsonl", bad), tmp_path / "out.jsonl"
    err = ran(["score", str(file), "--out", str(out)], 2).err
    assert "more than 10 kinds of mistakes" in err
    assert len(err.splitlines()) == 11
    assert not out.exists()


ONE = {"text": "\\boxed{1}"}


@each(
    "value",
    [
        {"uid": "a", **ONE, "label": ["1", "2"]},
        {"uid": "a", **ONE, "label": {"target": "1"}},
        {"uid": "a", **ONE, "correct": [1]},
        {"uid": "a", **ONE, "token_logprobs": [-0.1], "token_mask": 5},
        {"prompt": "?", "choices": [{**ONE, "logprobs": {"content": [None, "x"]}}]},
        {"prompt": "?", "outputs": [{**ONE, "token_ids": [[5]], "logprobs": [{"5": {"logprob": -0.1}}]}]},
    ],
)
def test_values_of_other_kinds_are_no_tracebacks(value, tmp_path, ran):
    file = write_lines(tmp_path / "rollouts.jsonl", [value] * 2)
    asked = ["--entropy", "logprob", "-p", "missing_entropy=frequency"]
    assert "Traceback" not in ran(["score", str(file), *asked], 0, 1, 2).err


def test_messages_in_blocks_are_read(tmp_path, ran):
    blocks = [{"type": "text", "text": "so "}, {"type": "text", "text": "\\boxed{7}"}]
    asked, said = {"role": "user", "content": blocks[:1]}, {"role": "assistant", "content": blocks}
    file = write_lines(tmp_path / "rollouts.jsonl", [{"prompt": [asked], "completion": [said]}])
    assert json.loads(ran(["score", str(file), "-m", "ttrl", "--json"], 0).out)["reply"]["pseudo_label"] == "7"
