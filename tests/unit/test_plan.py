"""`dare-reward plan`: the share of labelled prompts in each step, and the files that stacks read."""

import json

import pytest
from pyarrow import parquet

from dare_reward.cli import main
from dare_reward.commands.plan import STACKS, mixed
from dare_reward.openrlhf import AnswerRules, evaluation, read_label
from dare_reward.stacks.rollout import label_of


def group(name, answers, **fields):
    rollouts = [{"answer": a, "mean_entropy": 0.1 + i / 9} for i, a in enumerate(answers)]
    return {"group_id": name, "prompt": f"What is {name}?", "rollouts": rollouts, **fields}


def written(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Nine prompts, of which "a" has a right answer, "b" none, and "c" nobody could tell."""
    rollouts = written(tmp_path / "rollouts.jsonl", *(group(name, "1122") for name in "abcdefghi"))
    rows = [
        {"group_id": "a", "label": "2"},
        {"group_id": "b", "decision": "none"},
        {"group_id": "c", "decision": "unknown"},
    ]
    return rollouts, written(tmp_path / "labels.jsonl", *rows), tmp_path


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
@pytest.mark.parametrize(("known", "others"), [(1, 40), (16, 496), (32, 96), (40, 10), (3, 0)])
def test_the_share_holds_in_every_step(share, known, others):
    order = mixed(range(known), range(known, known + others), share)
    labelled = [i < known for i in order]
    assert sorted(set(order)) == list(range(known + others))
    assert sum(not x for x in labelled) == others
    found = sum(labelled) / len(order)
    assert found == pytest.approx(share, abs=1 / len(order)) or sum(labelled) == known
    for step in (8, 32):
        for start in range(0, len(order) - step, step):
            assert abs(sum(labelled[start : start + step]) - found * step) <= 1
    times = [order.count(i) for i in range(known)]
    assert max(times) - min(times) <= 1


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_gets_its_columns(stack, files, capsys):
    rollouts, labels, folder = files
    out = folder / ("train.parquet" if stack == "verl" else "train.jsonl")
    words = ["plan", rollouts, "--labels", labels, "--stack", stack, "--out", str(out)]
    assert main(words) == 0
    shown = capsys.readouterr()
    assert str(out) in shown.out
    assert "1 prompts left out" in shown.err
    rows = parquet.read_table(out).to_pylist() if stack == "verl" else [*map(json.loads, out.read_text().splitlines())]
    assert len(rows) == 14, "seven others, and one label seven times"
    assert {r["group_id"] for r in rows} == set("acdefghi")
    for row in rows:
        known = row["group_id"] == "a"
        if stack == "verl":
            assert row["prompt"] == [{"role": "user", "content": f"What is {row['group_id']}?"}]
            assert label_of(row["reward_model"]["ground_truth"]) == ("2" if known else None)
        elif stack == "openrlhf":
            label = read_label(row["label"])
            assert (label.answer, label.split, label.problem) == (("2", "eval", "") if known else (None, "train", ""))
        else:
            assert row["label"] == ("2" if known else None)
    out.write_bytes(b"mine")
    assert main(words) == 2, "no file is replaced"
    assert out.read_bytes() == b"mine"
    assert main([*words, "--force"]) == 0
    assert out.read_bytes() != b"mine"


def test_several_accepted_answers_reach_the_stack(files):
    rollouts, _, folder = files
    labels = written(folder / "several.jsonl", {"group_id": "a", "label": ["2", "3"]}, {"group_id": "c", "label": "1"})
    found = {}
    for stack in STACKS:
        out = folder / f"{stack}.parquet"
        assert main(["plan", rollouts, "--labels", labels, "--stack", stack, "--out", str(out)]) == 0
        rows = {row["group_id"]: row for row in parquet.read_table(out).to_pylist()}
        texts = [
            rows[name]["reward_model"]["ground_truth"] if stack == "verl" else rows[name]["label"] for name in "acd"
        ]
        found[stack] = [read_label(t).answer if stack == "openrlhf" else label_of(t) for t in texts]
    assert found.pop("openrlhf") == [("2", "3"), "1", None]
    assert all(own == [["2", "3"], "1", None] for own in found.values())


def test_openrlhf_rewards_a_labelled_row_as_gt_does(files, capsys):
    label = STACKS["openrlhf"].labelled({}, "New York", "text", None)["label"]
    rules, read = AnswerRules({}), read_label(label)
    rewards = [evaluation(rules, {"answer": a}, read, route="agent").reward for a in ("new york", "York", None)]
    assert rewards == [1.0, 0.0, 0.0]


def test_all_prompts_of_a_data_set_keep_their_columns(files, capsys):
    rollouts, labels, folder = files
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is a?"}]}]
    data = written(folder / "data.jsonl", {"question": "What is new?", "level": 3}, {"prompt": messages, "level": 4})
    out = folder / "train.jsonl"
    words = ["--stack", "trl", "--out", str(out), "--data", data, "--params", "method=ttrl"]
    assert main(["plan", rollouts, "--labels", labels, *words]) == 0
    new, known = sorted(map(json.loads, out.read_text().splitlines()), key=lambda row: row["level"])
    assert (new["prompt"], new["label"]) == ("What is new?", None)
    assert (known["prompt"], known["label"]) == (messages, "2")
    assert "method=ttrl&labelled=gt" in capsys.readouterr().out


@pytest.mark.parametrize("stack", STACKS)
def test_messages_stay_messages(stack, tmp_path):
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "q"}]
    rollouts = written(tmp_path / "r.jsonl", group("a", "12", label="1") | {"prompt": chat})
    out = tmp_path / "train.jsonl"
    assert main(["plan", rollouts, "--params", "method=ttrl", "--stack", stack, "--out", str(out)]) == 0
    assert json.loads(out.read_text())["prompt"] == chat


def test_options_are_carried_or_refused(tmp_path, capsys):
    choices = [group(name, "AB", kind="choice", options=n, label="B") for name, n in (("a", 4), ("b", 10))]
    rollouts, out = written(tmp_path / "r.jsonl", *choices), tmp_path / "train.jsonl"
    words = ["plan", rollouts, "--params", "method=ttrl"]
    for stack in STACKS.keys() - {"openrlhf"}:
        assert main([*words, "--stack", stack, "--out", str(out)]) == 2
        assert not out.exists()
    assert main(words) == 0
    assert "\ntrl:" not in capsys.readouterr().out
    assert main([*words, "--stack", "openrlhf", "--out", str(out)]) == 0
    read = {r["group_id"]: read_label(r["label"]) for r in map(json.loads, out.read_text().splitlines())}
    assert [AnswerRules({}).right("E", read[name]) for name in "ab"] == [None, False], "of 4 options E is none"


@pytest.mark.parametrize(("label", "status"), [("Paris", 2), ("E", 2), (["B", "Paris"], 0), ("(B)", 0)], ids=str)
def test_a_label_that_is_no_option_is_refused(label, status, tmp_path, capsys):
    rollouts = written(tmp_path / "r.jsonl", group("capital", "AB", kind="choice", options=4, label=label))
    assert main(["plan", rollouts, "--params", "method=ttrl"]) == status
    assert ("group capital: " in capsys.readouterr().err) == (status == 2)


@pytest.mark.parametrize(
    "words",
    [
        ["--share", "1"],
        ["--out", "x.jsonl"],
        ["--params", "method=dare"],
        ["--params", "method=empo"],
    ],
)
def test_what_has_no_plan(words, files):
    assert main(["plan", files[0], "--labels", files[1], *words]) == 2


def test_the_address_names_the_kind_of_the_answers(files, capsys):
    rollouts, labels, folder = files
    assert main(["plan", rollouts, "--labels", labels, "--stack", "verl"]) == 0
    assert "kind" not in capsys.readouterr().out
    texts = written(folder / "texts.jsonl", *(group(name, ["Riga", "Oslo"], kind="text") for name in "ab"))
    assert main(["plan", texts, "--labels", written(folder / "l.jsonl", {"group_id": "a", "label": "Riga"})]) == 0
    assert capsys.readouterr().out.count("&labelled=gt&kind=text") == 3


def test_without_a_right_answer_there_is_no_plan(files, capsys):
    rollouts, _, folder = files
    labels = written(folder / "none.jsonl", {"group_id": "b", "decision": "none"})
    assert main(["plan", rollouts, "--labels", labels]) == 2
    assert main(["plan", rollouts]) == 2
    assert (
        main(["plan", written(folder / "mixed.jsonl", group("a", "12", label="1"), group("b", "34", kind="exact"))])
        == 2
    )


@pytest.mark.parametrize(
    "bad",
    [{"rollouts": "no"}, {"rollouts": [5]}, {"kind": ["text"]}, {"label": {"a": 1}}, {"group_id": "y"}],
    ids=str,
)
def test_a_group_that_cannot_be_read_costs_no_other(bad, tmp_path, capsys):
    rollouts = written(tmp_path / "r.jsonl", group("a", "12"), group("b", "34") | bad, group("c", "12"))
    rows = [{"group_id": "a", "label": "1"}, {"group_id": "y", "label": "1", "prompt": "another"}]
    out = tmp_path / "train.jsonl"
    words = ["--params", "method=ttrl", "--stack", "trl", "--out", str(out)]
    assert main(["plan", rollouts, "--labels", written(tmp_path / "l.jsonl", *rows), *words]) == 0
    assert {json.loads(line)["group_id"] for line in out.read_text().splitlines()} == {"a", "c"}
    assert "line 2: " in capsys.readouterr().err


def test_a_prompt_with_two_groups_has_one_label(tmp_path):
    wrong = {"rollouts": [{"answer": "3", "correct": False}]}
    first, later = group("a", "12", label="1"), group("a", "12") | wrong
    out = tmp_path / "train.jsonl"
    words = ["--params", "method=ttrl", "--stack", "trl", "--out", str(out)]
    assert main(["plan", written(tmp_path / "r.jsonl", first, later), *words]) == 0
    assert json.loads(out.read_text())["label"] == "1"
    assert main(["plan", written(tmp_path / "r.jsonl", first, later, group("a", "12", label="2")), *words[:2]]) == 2


@pytest.mark.parametrize("prompt", [5, ["a", "b"], []], ids=str)
def test_a_row_of_another_shape_is_named(prompt, files, capsys):
    data = written(files[2] / "data.jsonl", {"prompt": "What is a?"}, {"prompt": prompt})
    assert main(["plan", files[0], "--labels", files[1], "--params", "method=ttrl", "--data", data]) == 2
    assert "line 2: " in capsys.readouterr().err


def test_a_label_that_no_row_of_the_data_takes_is_said(files, capsys):
    rows = [{"group_id": "a", "label": "2"}, {"group_id": "d", "label": "1"}]
    data = written(files[2] / "data.jsonl", {"prompt": "What is a?"}, {"prompt": "What  is d?"})
    labels = written(files[2] / "two.jsonl", *rows)
    assert main(["plan", files[0], "--labels", labels, "--params", "method=ttrl", "--data", data]) == 0
    assert "'What is d?'" in capsys.readouterr().err
