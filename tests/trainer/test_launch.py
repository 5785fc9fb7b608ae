"""Doctor and data preparation."""

import json

import httpx
import pytest
from jsonl import read_lines, write_lines
from serving import Live, wait_for

from dare_reward.cli import main
from dare_reward.errors import ConfigError
from dare_reward.openrlhf import read_label
from dare_reward.runs import read_run
from dare_trainer.launch.data import prepare
from dare_trainer.launch.doctor import examine
from dare_trainer.launch.questions import read_rows

# --- doctor ---------------------------------------------------------------------------------------------------------


def findings(url, **options):
    return {f.what: f for f in examine(url, **options)}


AWAY = "http://127.0.0.1:9/reward"


def test_the_doctor_finds_a_service(live):
    found = findings(f"{live}/reward?alpha=0.2", environment={})
    assert found["reward service"].good
    assert "alpha=0.2" in found["reward service"].detail
    assert found["entropy plugin"].good


def test_the_doctor_asks_each_url_of_the_flag(live):
    found = findings(f"{live}/reward,{AWAY}", timeout=0.1, environment={})
    assert [found[f"reward service {url}"].good for url in (live, AWAY.removesuffix("/reward"))] == [True, False]


def test_the_doctor_names_what_is_wrong():
    environment = {"VLLM_PLUGINS": "other", "VLLM_TOKEN_ENTROPY": "raw"}
    found = findings(AWAY, timeout=0.1, environment=environment)
    assert {w for w, f in found.items() if f.good is False} == {"reward service", "entropy plugin"}
    with pytest.raises(ConfigError, match="alhpa"):
        findings(f"{AWAY}?alhpa=1")


@pytest.mark.parametrize("allowed", ["other", "", "other,token_entropy"])
def test_the_doctor_sees_whether_vllm_loads_the_plugin(allowed):
    plugin = findings(AWAY, timeout=0.1, environment={"VLLM_PLUGINS": allowed})["entropy plugin"]
    assert plugin.good == ("token_entropy" in allowed)
    assert plugin.good or f"VLLM_PLUGINS={allowed} " in plugin.detail


@pytest.mark.parametrize(
    ("vllm", "openrlhf", "entropy", "good", "words"),
    [
        ("0.19.1", "0.10.2", "plugin", False, ("0.10.2", "entropy=topk")),
        ("0.22.1", "0.10.4", "topk", True, ("0.10.4", "entropy=topk")),
        ("0.27.1", "0.11.0", "plugin", True, ("0.11.0",)),
        (None, "0.11.0", "plugin", None, ()),
    ],
)
def test_the_doctor_says_which_entropies_the_installed_pair_has(vllm, openrlhf, entropy, good, words, monkeypatch):
    installed = {"vllm": vllm, "openrlhf": openrlhf}
    monkeypatch.setattr("dare_trainer.launch.doctor.installed", lambda name="openrlhf": installed.get(name))
    found = findings(f"{AWAY}?entropy={entropy}", timeout=0.1, environment={})
    assert found["vLLM"].good is good
    assert all(word in found["vLLM"].detail for word in words)
    flag = "reward.remote_url" if openrlhf >= "0.10.2" else "remote_rm_url"
    assert flag in found["OpenRLHF"].detail


def test_the_doctors_command_prints_no_token(live, ran):
    assert "reward service" in ran(["doctor", "--reward-url", live], 0).out
    assert "hush" not in ran(["doctor", "--reward-url", f"{live}/reward?token=hush"], 0).out
    assert "FAIL reward service" in ran(["doctor", "--reward-url", "http://127.0.0.1:9", "--timeout", "0.1"], 2).out
    assert "--timeout: must be" in ran(["doctor", "--timeout", "nan"], 2).err


def test_what_the_doctor_asks_is_no_part_of_a_run(tmp_path):
    """The group that every actor sends at its start is this one too."""
    with Live(run_log=str(tmp_path)) as service:
        assert main(["doctor", "--reward-url", service.url]) == 0
        own = {"groups": [{"group_id": "own", "rollouts": [{"answer": "1", "mean_entropy": 0.1}]}]}
        assert httpx.post(f"{service.url}/reward", json=own).status_code == 200
        wait_for(lambda: httpx.get(f"{service.url}/info").json()["run_log"]["flushed"])
        assert [line["group_id"] for line in read_run(tmp_path)] == ["own"]


# --- data -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def made(tmp_path):
    """`made(rows, name)`: the lines of each file that `prepare` makes of the rows."""

    def make(rows, name="mine", **how):
        source = tmp_path / "in.json"
        source.write_text(json.dumps(rows))
        return [read_lines(tmp_path / "data" / file) for file in prepare(name, source, tmp_path / "data", **how).files]

    return make


def command(source, *more, name="mine"):
    return ["data", "prepare", name, "--from", str(source), "--out", str(source.parent / "data"), *more]


def test_mathematics(made):
    rows = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in (*range(12), 3)]
    train, evaluation = made(rows, "aime24")
    assert len(train) == len(evaluation) == 12
    instruction = "Please reason step by step, and put your final answer within \\boxed{}."  # the paper's
    assert train[3]["input"] == f"What is 3 + 1?\n{instruction}"
    assert (read_label(train[3]["label"]).answer, read_label(train[3]["label"]).split) == ("4", "train")
    assert read_label(evaluation[3]["label"]).split == "eval"
    assert train[0]["datasource"] == "aime24"


@pytest.mark.parametrize("key", ["question", "Problem", "PROMPT", "input"])
def test_prompts_of_ones_own(tmp_path, ran, key):
    rows = [{key: "What is 1 + 1?"}, {key: [{"role": "user", "content": "2?"}]}]
    out = ran(command(write_lines(tmp_path / "in.jsonl", rows)), 0).out
    assert "--data.prompt_dataset" in out
    assert "--eval.dataset" not in out
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["mine.jsonl"]
    first, second = read_lines(tmp_path / "data" / "mine.jsonl")
    assert first["input"].startswith("What is 1 + 1?\nPlease reason")
    assert second["input"].startswith("2?\n")
    assert (read_label(first["label"]).answer, read_label(first["label"]).problem) == (None, "")


@pytest.mark.parametrize(
    ("rows", "prompts"),
    [
        ([{"id": 7, "prompt": p, "answer": 1} for p in ("a", "a", "b")], 2),
        ([{"question": "a?"}, {"question": "a?", "answer": "1"}], 1),  # its answer stands in one of both
    ],
)
def test_a_prompt_that_comes_again_is_dropped(made, rows, prompts):
    assert [len(lines) for lines in made(rows)] == [prompts] * 2


@pytest.mark.parametrize("name", ["mine", "gsm8k"])
def test_a_question_with_two_answers_is_in_neither_set_and_is_counted(tmp_path, ran, name):
    rows = [("2+2?", "4"), ("3+3?", "6"), ("2+2?", "5"), ("3+3?", "6.0"), ("4+4?", "8"), ("2+2?", "4")]
    for order in (rows, rows[::-1]):
        source = write_lines(tmp_path / "in.jsonl", [{"question": q, "answer": f"#### {a}"} for q, a in order])
        said = ran(command(source, "--force", name=name), 1).out
        assert "questions: 2 read; 1 dropped (question " in said
        assert "3 refused (question " in said
        assert "'2+2?' comes again with another answer)" in said
        for file in (f"{name}.jsonl", f"{name}-eval.jsonl"):
            asked = sorted(line["input"][:4] for line in read_lines(tmp_path / "data" / file))
            assert asked == ["3+3?", "4+4?"]


def test_one_system_prompt_beside_many_questions_is_many_questions(made):
    rows = [{"prompt": "SYSTEM", "question": f"{i}+1?", "answer": str(i + 1)} for i in range(3)]
    train, _ = made([*rows, {"prompt": "Solve: 7+7?", "question": "7+7?", "answer": "14"}])
    asked = [line["input"].partition("\nPlease")[0] for line in train]
    assert asked == [*(f"SYSTEM\n{i}+1?" for i in range(3)), "Solve: 7+7?"]


def test_an_evaluation_set_of_ones_own_is_part_of_the_command_to_paste(tmp_path, ran):
    row = {"question": "1 + 1? \ud800", "answer": 2, "passage": "Add."}  # half of a character
    out = ran(command(write_lines(tmp_path / "in.jsonl", [row])), 0).out
    assert f"mine.jsonl --eval.dataset {tmp_path / 'data' / 'mine-eval.jsonl'} " in out
    assert "mine.jsonl: 1 prompt\n" in out
    assert read_lines(tmp_path / "data" / "mine.jsonl")[0]["input"].startswith("1 + 1? ?\n")
    assert "left out, for no prompt and no label is made of them: passage\n" in out


def test_a_line_that_is_not_json_is_named_once_with_its_number(tmp_path, ran):
    source = write_lines(tmp_path / "in.jsonl", [{"question": "?"}, "nope"])
    assert f"dare-reward data: {source}: line 2: not JSON" in ran(command(source), 2).err
    source.write_bytes(b"PK\x03\x04zip")
    assert ran(command(source), 2).err.count(str(source)) == 1


def test_a_set_of_ones_own_with_answers_can_be_graded(made):
    _, (line,) = made([{"Question": "1 + 1?", "Answer": "It is <<1+1=2>>2.\n#### 2"}], as_is=True)
    assert line["input"] == "1 + 1?"
    assert (read_label(line["label"]).answer, read_label(line["label"]).split) == ("2", "eval")
    (line,), _ = made([{"prompt": "Which?", "choices": ["this", "that"], "label": 1}], "choice")
    assert "A. this\nB. that" in line["input"]
    assert read_label(line["label"]).answer == "B"


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_line_ends_where_its_format_says(tmp_path, suffix):
    """JSON and quoted CSV may hold what else ends a line."""
    question = "one\u2028two\x85three\x0bfour" + ("\nfive" if suffix == "csv" else "")
    written = {"csv": f'problem,answer\n"{question}",1\n', "jsonl": f'{{"problem": "{question}", "answer": "1"}}\n'}
    source = tmp_path / f"questions.{suffix}"
    source.write_text(written[suffix].replace("\x0b", "\\u000b" if suffix == "jsonl" else "\x0b"), encoding="utf-8")
    prepare("math-500", source, tmp_path)
    (row,) = read_rows(tmp_path / "math-500.jsonl")
    assert row["input"].startswith(question)


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("aime24", [], "a.json"),
        ("aime24", [{"text": "?"}], "question 1: "),
        ("aime24", [{"problem": "?", "answer": ""}], "answer"),
        ("gpqa", [{"Question": "?", "answer": "A"}], "options"),
        ("aime24", [{"problem": "?", "answer": ["7"]}], "question 1: "),
        ("mmlu-pro", [{"question": "?", "options": list(range(27)), "answer": "A"}], "1 to 26"),
        ("mmlu-pro", [{"question": "?", "options": ["x"], "answer": "Q"}], "1 options"),
        ("aime25", [{}], "question 1: "),
        ("gpqa", [{"Question": "\ud800", "Correct Answer": "a", "Incorrect Answer 1": "b"}, {}], "question 2: "),
        ("aime24", None, "a.json"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, ran, name, rows, words):
    file = tmp_path / "a.json"
    file.write_text("{" if rows is None else json.dumps(rows))
    assert words in ran(command(file, name=name), 2).err


def test_prepared_files_are_not_replaced_unless_it_is_said(tmp_path, capsys, ran):
    source, out = tmp_path / "aime.json", tmp_path / "data"
    source.write_text(json.dumps([{"problem": "1+1?", "answer": "2"}]))
    words = command(source, name="aime24")
    assert main(words) == main(words) == 0  # the same content is no loss
    (out / "aime24-eval.jsonl").write_text("edited by hand")
    source.write_text(json.dumps([{"problem": "1+2?", "answer": "3"}]))
    before = (out / "aime24.jsonl").read_text()
    capsys.readouterr()
    assert "--force" in ran(words, 2).err
    assert (out / "aime24.jsonl").read_text() == before
    assert (out / "aime24-eval.jsonl").read_text() == "edited by hand"
    assert main([*words, "--force"]) == 0
    assert "1+2?" in (out / "aime24-eval.jsonl").read_text()
