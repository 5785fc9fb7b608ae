"""Recipes, commands in both dialects, doctor and data preparation."""

import csv
import json
import re
import shlex
import subprocess
import time
import types
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from dare_reward.cli import main
from dare_reward.errors import ConfigError, RequestError
from dare_reward.openrlhf import read_label
from dare_reward.runs import read_run
from dare_trainer.agent.config import parse_setting, read_config
from dare_trainer.launch.compose import JOB, Launch, command, plan, prepare_folder, shell
from dare_trainer.launch.data import prepare
from dare_trainer.launch.doctor import asked, examine
from dare_trainer.launch.flags import FLAT, dialect, flags_of, translate
from dare_trainer.launch.questions import read_rows
from dare_trainer.launch.recipes import find_recipe, names, recipe_file

pytestmark = pytest.mark.usefixtures("plugins")


def test_every_recipe_composes():
    assert len(names()) == 5 * 4 * (8 + 24)
    for name in names():
        recipe = find_recipe(name)
        assert recipe.name == name
        flags, config = plan(recipe, Launch("http://r:8000"))
        assert set(flags) <= set(FLAT) | {"algo.advantage.no_std_norm"}
        assert config.run == name
        assert recipe.data in {recipe.benchmark, recipe_file("benchmarks")[recipe.benchmark]["labelled"]}


def test_the_papers_set_up():
    flags, config = plan(find_recipe("aime24-qwen2.5-math-1.5b"), Launch("http://r:8000"))
    paper = {
        "rollout.n_samples_per_prompt": 32,
        "rollout.temperature": 1.0,
        "rollout.top_p": 0.95,
        "rollout.max_new_tokens": 3072,
        "actor.adam.lr": 5e-7,
        "actor.lr_scheduler": "cosine",
        "algo.advantage.estimator": "group_norm",
        "train.colocate_all": True,
    }
    assert {k: flags[k] for k in paper} == paper
    assert (config.votes_per_prompt, config.every_param["alpha"], config.entropy_mode) == (64, 0.1, "temperature")


def test_functional_forms():
    recipe = find_recipe("amc-qwen3-1.7b-form-sqrt-log_inv")
    assert dict(recipe.params) == {"weight": "sqrt", "bonus": "log_inv"}
    assert "--" not in recipe.title


@pytest.mark.parametrize("name", ["aime25-qwen3-1.7b", "aime24-llama", "aime24-qwen3-1.7b-mystery", ""])
def test_unknown_recipes_list_the_known(name):
    with pytest.raises(ConfigError, match="mmlu-pro"):
        find_recipe(name)


def test_dialects():
    assert [dialect(v) for v in ("0.9.1", "0.9.10", "0.10.0", "0.10.1", "0.10.2", "0.11.2")] == ["flat"] * 4 + [
        "nested"
    ] * 2
    with pytest.raises(ConfigError, match=r"0.9.1 or later"):
        dialect("0.8.11")
    flags = {"rollout.batch_size": 8, "reward.remote_url": "u", "data.max_len": 4096, "rollout.max_new_tokens": 3072}
    assert translate(flags, "0.11.2") == flags
    assert translate(flags, "0.9.10") == {
        "rollout_batch_size": 8,
        "remote_rm_url": "u",
        "max_len": 4096,
        "max_new_tokens": 3072,
    }
    old = frozenset({"rollout_batch_size", "remote_rm_url", "generate_max_len", "prompt_max_len", "bf16"})
    assert translate(flags, "0.9.1", old) == {
        "rollout_batch_size": 8, "remote_rm_url": "u", "generate_max_len": 3072, "prompt_max_len": 1024, "bf16": True,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"'data.max_len"):
        translate(flags, "0.11.2", frozenset({"reward.remote_url"}))
    with pytest.raises(ConfigError, match=r"ds\.param_dtype"):
        translate({"ds.param_dtype": "bf16"}, "0.9.10")


def test_flags_are_read_from_source():
    source = 'p.add_argument("--a.b", type=int)\nfor prefix in X:\n    p.add_argument(f"--{prefix}.adam.lr")\np.add_argument("x")\n'
    assert flags_of(source) == {"a.b", "actor.adam.lr", "critic.adam.lr", "x"}


def test_the_url_route_names_shadow_methods_without_a_comma():
    """OpenRLHF splits the flag at commas."""
    launch = Launch("http://r:8000/", route="url", agent={"shadow": parse_setting("shadow", "ttrl,scrl")})
    url = plan(find_recipe("aime24-qwen3-1.7b"), launch)[0]["reward.remote_url"]
    assert "," not in url
    assert parse_qs(urlsplit(url).query)["shadow"] == ["ttrl scrl"]


def test_the_url_route_is_one_flag():
    recipe = find_recipe("aime24-qwen3-1.7b")
    flags, config = plan(recipe, Launch("http://r:8000/", route="url"))
    url = flags["reward.remote_url"]
    assert re.match(r"http://r:8000/reward\?group_size=32&run=aime24-qwen3-1.7b-\d+-\d+&method=dare", url)
    shown = shell(
        ["--reward.remote_url", plan(recipe, Launch("http://r:8000/", route="url", job=JOB))[0]["reward.remote_url"]]
    )
    names = [subprocess.run(["sh", "-c", f"echo {shown}"], capture_output=True, text=True).stdout for _ in range(2)]
    assert all(re.search(r"run=aime24-qwen3-1.7b-\d+-\d+&", name) for name in names)
    assert names[0] != names[1]
    assert "missing_entropy=error" in url
    assert "train.agent_func_path" not in flags
    words = command(flags, Launch("http://r:8000", route="url", release="0.10.0"))
    assert words[words.index("--remote_rm_url") + 1] == url
    assert prepare_folder(flags, config) is None


def test_parameters_of_the_user_win_in_the_address():
    launch = Launch("http://r:8000", route="url", agent={"params": {"missing_entropy": "frequency"}})
    url = plan(find_recipe("aime24-qwen3-1.7b"), launch)[0]["reward.remote_url"]
    assert parse_qs(urlsplit(url).query)["missing_entropy"] == ["frequency"]


@pytest.mark.parametrize(
    "given", ["http://r:8000", "http://r:8000/", "http://r:8000/reward", "http://r:8000?token=hush"]
)
def test_the_token_rides_in_the_address_and_is_not_printed(capsys, monkeypatch, given):
    """OpenRLHF sends a reward model nothing but the address."""
    monkeypatch.setenv("DARE_TOKEN", "hush old")
    main(["train", "--recipe", "aime24-qwen3-1.7b", "--reward-url", given, "--route", "url", "--dry-run"])
    out, err = capsys.readouterr()
    words = shlex.split(out, comments=True)
    url = urlsplit(words[words.index("--reward.remote_url") + 1])
    assert (url.netloc, url.path, parse_qs(url.query)["token"]) == ("r:8000", "/reward", ["TOKEN"])
    assert "hush" not in out + err
    flags, _ = plan(find_recipe("aime24-qwen3-1.7b"), Launch("http://r:8000", route="url", agent={"token": "hush"}))
    assert "&token=hush" in flags["reward.remote_url"]


def test_mistakes_are_found_before_the_gpus_are():
    recipe = find_recipe("aime24-qwen3-1.7b")
    for changes, words in (
        ({"rollout.n_samples_per_prompt": 48}, "48"),
        ({"train.batch_size": 100}, "100"),
        ({"data.max_len": 3072}, "data.max_len"),
    ):
        with pytest.raises(ConfigError, match=words):
            plan(recipe, Launch("http://r", changes=changes))


def test_the_agents_folder_is_complete(tmp_path):
    recipe = find_recipe("gpqa-qwen3-4b-dare-dist")
    flags, config = plan(recipe, Launch("http://r:8000", out=tmp_path, agent={"pruned": "neutral"}))
    folder = prepare_folder(flags, config)
    assert (folder / "agent.py").read_text().count("class AgentExecutor") == 1
    found = read_config(folder, {})
    assert (found.method, found.kind, found.pruned, found.votes_per_prompt) == ("dare_dist", "choice", "neutral", 64)
    assert found == config


def test_the_command_line(capsys):
    url = ["--reward-url", "http://r:8000"]
    train = ["train", "--recipe", "aime24-qwen2.5-math-1.5b", "--dry-run"]
    assert main([*train, *url, "--set", "rollout.batch_size=16"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[2].startswith("  --")  # a flag a line, which a shell reads as one command
    assert "0.11.2" in err
    words = shlex.split(out, comments=True)
    assert words[:3] == ["python", "-m", "openrlhf.cli.train_ppo_ray"]
    assert words[words.index("--rollout.batch_size") + 1] == "16"
    assert words[words.index("--train.agent_func_path") + 1].endswith("agent.py")
    assert main(train) == 2
    assert "--reward-url" in capsys.readouterr().err
    assert main(["train", "--list"]) == 0
    out = capsys.readouterr().out
    assert "640 recipes" in out
    assert "qwen3-1.7b" in out
    assert len(out.splitlines()) < 40
    assert main(["train", "--list", "aime24", "qwen3-1.7b", "ttrl"]) == 0
    assert capsys.readouterr().out.splitlines()[2].startswith("aime24-qwen3-1.7b-ttrl  Qwen3-1.7B | TTRL | AIME 2024")
    assert main(["train", "--list", "aime25"]) == 2
    assert main(["train", "--recipe", "aime24-qwen3-1.7b", *url]) == 2  # no OpenRLHF here
    assert "OpenRLHF" in capsys.readouterr().err


def test_a_run_is_prepared_and_started(live, tmp_path, monkeypatch, capsys):
    """All but OpenRLHF itself, which is asked for by `python -m`."""
    started = []

    def run(words, **options):
        started.append((words, options))
        return types.SimpleNamespace(returncode=7)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DARE_TOKEN", "secret")
    monkeypatch.setattr("dare_trainer.launch.commands.installed", lambda: "0.11.2")
    monkeypatch.setattr("dare_trainer.launch.commands.subprocess.run", run)
    words = ["train", "--recipe", "aime24-qwen3-1.7b", "--reward-url", live, "--agent", "votes_per_prompt=32"]
    assert main(words) == 2
    assert re.search("aime24.jsonl .*dare-reward data prepare aime24 --from FILE", capsys.readouterr().err)
    source = tmp_path / "aime.json"
    source.write_text(json.dumps([{"problem": "1 + 1?", "answer": 2}]))
    assert main(["data", "prepare", "aime24", "--from", str(source)]) == 0
    assert main([*words, "--", "--train.seed", "7"]) == 7
    ((command_line, options),) = started
    assert command_line[1:3] == ["-m", "openrlhf.cli.train_ppo_ray"]
    assert command_line[-2:] == ["--train.seed", "7"]
    assert options["env"]["DARE_TOKEN"] == "secret"
    agent = tmp_path / "runs" / "aime24-qwen3-1.7b" / "agent"
    assert command_line[command_line.index("--train.agent_func_path") + 1] == str(agent / "agent.py")
    found = read_config(agent, {})
    assert (found.votes_per_prompt, found.url, found.token) == (32, live, "")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--set", "rollout.n_samples_per_promt=8"], "--rollout.n_samples_per_prompt"),
        (["--set", "nonsense=8", "--openrlhf", "1.0"], "'--nonsense'"),
        (["--reward-url", "127.0.0.1:8000"], "http://127.0.0.1:8000"),
        (["--reward-url", "http://r:8000/reward?group_size=8"], "address"),
        (["--set", "rollout.n_samples_per_prompt=eight"], "--set rollout.n_samples_per_prompt: "),
        (["--set", "actor.adam.lr=abc"], "--set actor.adam.lr: "),
        (["--set", "reward.remote_url=http://x"], "reward.remote_url"),
        (["--agent", "votes_per_promt=8"], "votes_per_prompt?"),
        (["--recipe", "aime24"], "'aime24'"),
    ],
)
def test_what_no_release_has_is_refused_before_the_run(capsys, words, names):
    url = ["--reward-url", "http://r:8000"]
    assert main(["train", "--recipe", "aime24-qwen3-1.7b", *url, "--dry-run", *words]) == 2
    out, err = capsys.readouterr()
    assert names in err
    assert not out


# --- doctor ---------------------------------------------------------------------------------------------------------


def findings(config, **options):
    return {f.what: f for f in examine(config, **options)}


def test_the_doctor_finds_a_service(live, tmp_path):
    found = findings(read_config(tmp_path, {"DARE_AGENT_URL": live}), waiters=1, environment={})
    assert found["reward service"].good
    assert found["entropy plugin"].good
    assert found["open files"].good


def test_the_doctor_names_what_is_wrong(tmp_path):
    config = read_config(tmp_path, {"DARE_AGENT_URL": "http://127.0.0.1:9", "DARE_AGENT_START_TIMEOUT": "0.1"})
    found = findings(config, waiters=10**7, environment={"VLLM_PLUGINS": "other", "VLLM_TOKEN_ENTROPY": "raw"})
    assert {w for w, f in found.items() if f.good is False} == {"reward service", "entropy plugin", "open files"}
    assert "ulimit -n" in found["open files"].detail


@pytest.mark.parametrize("allowed", ["other", "", "other,token_entropy"])
def test_the_doctor_sees_whether_vllm_loads_the_plugin(tmp_path, allowed):
    config = read_config(tmp_path, {"DARE_AGENT_URL": "http://127.0.0.1:9", "DARE_AGENT_START_TIMEOUT": "0.1"})
    plugin = findings(config, waiters=1, environment={"VLLM_PLUGINS": allowed})["entropy plugin"]
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
def test_the_doctor_says_which_entropies_the_installed_pair_has(
    vllm, openrlhf, entropy, good, words, tmp_path, monkeypatch
):
    installed = {"vllm": vllm, "openrlhf": openrlhf}
    monkeypatch.setattr("dare_trainer.launch.doctor.installed", lambda name="openrlhf": installed.get(name))
    environment = {
        "DARE_AGENT_URL": "http://127.0.0.1:9",
        "DARE_AGENT_START_TIMEOUT": "0.1",
        "DARE_AGENT_ENTROPY": entropy,
    }
    found = findings(read_config(tmp_path, environment), waiters=1, environment={})["vLLM"]
    assert found.good is good
    assert all(word in found.detail for word in words)


def test_the_doctors_command(live, capsys):
    assert main(["doctor", "--reward-url", live, "--waiters", "10"]) == 0
    assert "reward service" in capsys.readouterr().out
    assert main(["doctor", "--reward-url", "http://127.0.0.1:9", "--timeout", "0.1", "--waiters", "10"]) == 2
    assert "FAIL reward service" in capsys.readouterr().out


def test_what_the_doctor_asks_is_no_part_of_a_run(start_service, tmp_path):
    """The group that every actor sends at its start is this one too."""
    with start_service(DARE_RUN_LOG=tmp_path) as (url, _):
        assert main(["doctor", "--reward-url", url, "--waiters", "10"]) == 0
        own = {"groups": [{"group_id": "own", "rollouts": [{"answer": "1", "mean_entropy": 0.1}]}]}
        assert httpx.post(f"{url}/reward", json=own).status_code == 200
        for _ in range(600):
            if httpx.get(f"{url}/info").json()["run_log"]["flushed"]:
                break
            time.sleep(0.05)
        assert [line["group_id"] for line in read_run(tmp_path)] == ["own"]


def test_the_doctor_takes_the_address_of_openrlhfs_flag(tmp_path):
    config = read_config(tmp_path, {})
    found = asked(config, "http://h:8000/reward?group_size=32&run=exp1&token=hush&method=dare&alpha=0.2")
    assert (found.url, found.token, found.method) == ("http://h:8000/reward", "hush", "dare")
    assert dict(found.params) == {"alpha": 0.2}
    with pytest.raises(ConfigError, match="alhpa"):
        asked(config, "http://h:8000?alhpa=1")
    with pytest.raises(ConfigError, match="dare"):
        asked(config, "http://h:8000?method=ttrl", "dare")


def test_the_doctor_prints_no_token(live, capsys):
    url = f"{live}/reward?group_size=32&run=a"
    assert main(["doctor", "--reward-url", f"{url}-000000001&token=hush", "--waiters", "10"]) == 0
    assert "hush" not in capsys.readouterr().out
    assert main(["doctor", "--reward-url", url, "--waiters", "10"]) == 2
    assert "FAIL run name" in capsys.readouterr().out


def test_the_doctor_refuses_labels_that_mean_nothing(live, tmp_path, capsys):
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    rows = [{"input": "?", "label": label} for label in ("7", "", {"answer": 7, "split": "eval"})]
    good.write_text("\n".join(map(json.dumps, rows)))
    bad.write_text("\n".join(map(json.dumps, [*rows, {"input": "?", "label": {"split": "eval"}}])))
    command = ["doctor", "--reward-url", live, "--waiters", "10", "--data"]
    assert main([*command, str(good)]) == 0
    assert "good.jsonl: 2 labels " in capsys.readouterr().out
    assert main([*command, str(good), str(bad)]) == 2
    assert "row 4: " in capsys.readouterr().out
    bad.write_text(json.dumps({"input": "?", "label": {"answer": "E", "kind": "choice", "options": 4}}))
    assert main([*command, str(bad)]) == 2
    assert "row 1: " in capsys.readouterr().out
    assert main([*command, str(bad), "--label-key", "other"]) == 2
    assert re.search("bad.jsonl: .*'other'", capsys.readouterr().out)


# --- data -----------------------------------------------------------------------------------------------------------


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_mathematics(tmp_path):
    rows = [{"problem": f"What is {i} + 1?", "answer": i + 1} for i in (*range(12), 3)]
    source = tmp_path / "aime.json"
    source.write_text(json.dumps(rows))
    written = prepare("aime24", source, tmp_path / "data")
    assert written == {"aime24.jsonl": 12, "aime24-eval.jsonl": 12}
    train, evaluation = (lines(tmp_path / "data" / f"aime24{s}.jsonl") for s in ("", "-eval"))
    instruction = "Please reason step by step, and put your final answer within \\boxed{}."  # the paper's
    assert train[3]["input"] == f"What is 3 + 1?\n{instruction}"
    assert (read_label(train[3]["label"]).answer, read_label(train[3]["label"]).split) == ("4", "train")
    assert read_label(evaluation[3]["label"]).split == "eval"
    assert train[0]["datasource"] == "aime24"


@pytest.mark.parametrize("key", ["question", "Problem", "PROMPT", "input"])
def test_prompts_of_ones_own(tmp_path, capsys, key):
    source = tmp_path / "mine.jsonl"
    source.write_text(
        json.dumps({key: "What is 1 + 1?"}) + "\n" + json.dumps({key: [{"role": "user", "content": "2?"}]})
    )
    assert main(["data", "prepare", "mine", "--from", str(source), "--out", str(tmp_path / "data")]) == 0
    out = capsys.readouterr().out
    assert "--set data.prompt_dataset=" in out
    assert sorted(p.name for p in (tmp_path / "data").iterdir()) == ["mine.jsonl"]
    first, second = lines(tmp_path / "data" / "mine.jsonl")
    assert first["input"].startswith("What is 1 + 1?\nPlease reason")
    assert second["input"].startswith("2?\n")
    assert (read_label(first["label"]).answer, read_label(first["label"]).problem) == (None, "")


def test_a_prompt_that_comes_again_with_its_id_is_dropped(tmp_path):
    source = tmp_path / "mine.json"
    source.write_text(json.dumps([{"id": 7, "prompt": p, "answer": 1} for p in ("a", "a", "b")]))
    assert prepare("mine", source, tmp_path) == {"mine.jsonl": 2, "mine-eval.jsonl": 2}


@pytest.mark.parametrize("name", ["mine", "gsm8k"])
def test_a_question_with_two_answers_is_in_neither_set_and_is_counted(tmp_path, capsys, name):
    rows = [("2+2?", "4"), ("3+3?", "6"), ("2+2?", "5"), ("3+3?", "6.0"), ("4+4?", "8"), ("2+2?", "4")]
    for order in (rows, rows[::-1]):
        source = tmp_path / "in.jsonl"
        source.write_text("".join(json.dumps({"question": q, "answer": f"#### {a}"}) + "\n" for q, a in order))
        out = tmp_path / "data"
        command = ["data", "prepare", name, "--from", str(source), "--out", str(out), "--force"]
        assert main(command) == 1
        said = capsys.readouterr().out
        assert "questions: 2 read; 1 dropped (question " in said
        assert "3 refused (question " in said
        assert "'2+2?' comes again with another answer)" in said
        for file in (f"{name}.jsonl", f"{name}-eval.jsonl"):
            asked = sorted(line["input"][:4] for line in lines(out / file))
            assert asked == ["3+3?", "4+4?"]


def test_one_system_prompt_beside_many_questions_is_many_questions(tmp_path):
    source = tmp_path / "in.json"
    rows = [{"prompt": "SYSTEM", "question": f"{i}+1?", "answer": str(i + 1)} for i in range(3)]
    source.write_text(json.dumps([*rows, {"prompt": "Solve: 7+7?", "question": "7+7?", "answer": "14"}]))
    assert prepare("mine", source, tmp_path)["mine.jsonl"] == 4
    asked = [line["input"].partition("\nPlease")[0] for line in lines(tmp_path / "mine.jsonl")]
    assert asked == [*(f"SYSTEM\n{i}+1?" for i in range(3)), "Solve: 7+7?"]


def test_a_question_that_comes_again_without_its_answer_keeps_it(tmp_path):
    source = tmp_path / "in.json"
    source.write_text(json.dumps([{"question": "a?"}, {"question": "a?", "answer": "1"}]))
    assert prepare("mine", source, tmp_path) == {"mine.jsonl": 1, "mine-eval.jsonl": 1}


def test_an_evaluation_set_of_ones_own_is_part_of_the_command_to_paste(tmp_path, capsys):
    source = tmp_path / "mine.jsonl"
    source.write_text(json.dumps({"question": "1 + 1?", "answer": 2}))
    assert main(["data", "prepare", "mine", "--from", str(source), "--out", str(tmp_path / "data")]) == 0
    out = capsys.readouterr().out
    assert f"mine.jsonl --set eval.dataset={tmp_path / 'data' / 'mine-eval.jsonl'}`" in out
    assert "mine.jsonl: 1 prompt\n" in out


def test_a_line_that_is_not_json_is_named_once_with_its_number(tmp_path, capsys):
    source = tmp_path / "mine.jsonl"
    source.write_text('{"question": "?"}\nnope\n')
    assert main(["data", "prepare", "mine", "--from", str(source), "--out", str(tmp_path)]) == 2
    assert f"dare-reward data: {source}: line 2: not JSON" in capsys.readouterr().err
    source.write_bytes(b"PK\x03\x04zip")
    assert main(["data", "prepare", "mine", "--from", str(source), "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count(str(source)) == 1


def test_a_set_of_ones_own_with_answers_can_be_graded(tmp_path):
    source = tmp_path / "gsm.json"
    source.write_text(json.dumps([{"Question": "1 + 1?", "Answer": "It is <<1+1=2>>2.\n#### 2"}]))
    assert prepare("gsm", source, tmp_path, as_is=True).keys() == {"gsm.jsonl", "gsm-eval.jsonl"}
    (line,) = lines(tmp_path / "gsm-eval.jsonl")
    assert line["input"] == "1 + 1?"
    assert (read_label(line["label"]).answer, read_label(line["label"]).split) == ("2", "eval")
    options = tmp_path / "choice.json"
    options.write_text(json.dumps([{"prompt": "Which?", "choices": ["this", "that"], "label": 1}]))
    prepare("choice", options, tmp_path)
    (line,) = lines(tmp_path / "choice.jsonl")
    assert "A. this\nB. that" in line["input"]
    assert read_label(line["label"]).answer == "B"


def test_solutions_give_their_boxed_answer(tmp_path):
    source = tmp_path / "math.jsonl"
    source.write_text('{"problem": "p", "solution": "so \\\\boxed{\\\\frac{1}{2}} is it"}\n\n')
    prepare("math-500", source, tmp_path)
    assert read_label(lines(tmp_path / "math-500.jsonl")[0]["label"]).answer == "\\frac{1}{2}"


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


def test_choices_by_index_and_by_letter(tmp_path):
    source = tmp_path / "mmlu.jsonl"
    rows = [{"question": "q", "options": ["x", "y", "z"], "answer": a} for a in ("B", "z")] + [
        {"question": "r", "options": ["x", "y"], "answer_index": 0}
    ]
    rows[1]["question"] = "s"
    source.write_text("\n".join(map(json.dumps, rows)))
    prepare("mmlu-pro", source, tmp_path)
    found = lines(tmp_path / "mmlu-pro.jsonl")
    labels = [read_label(row["label"]) for row in found]
    assert [(label.answer, label.options) for label in labels] == [("B", 3), ("C", 3), ("A", 2)]
    assert {label.kind for label in labels} == {"choice"}
    assert found[0]["input"].startswith("q\nA. x\nB. y\nC. z\n")


def test_choices_with_the_right_one_apart(tmp_path):
    source = tmp_path / "gpqa.csv"
    with source.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["Question", "Correct Answer", *(f"Incorrect Answer {i}" for i in (1, 2, 3))])
        writer.writeheader()
        for i in range(40):
            writer.writerow(
                {"Question": f"q{i}", "Correct Answer": "yes", **{f"Incorrect Answer {j}": f"no{j}" for j in (1, 2, 3)}}
            )
    prepare("gpqa", source, tmp_path)
    found = lines(tmp_path / "gpqa.jsonl")
    letters = [read_label(row["label"]).answer for row in found]
    assert set(letters) == set("ABCD")  # not always in one place
    for row, letter in zip(found, letters, strict=True):
        assert f"\n{letter}. yes\n" in row["input"]


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
        ("aime24", None, "a.json"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, capsys, name, rows, words):
    file = tmp_path / "a.json"
    file.write_text("{" if rows is None else json.dumps(rows))
    assert main(["data", "prepare", name, "--from", str(file), "--out", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_an_estimator_that_undoes_the_method_is_refused_with_what_to_set():
    agent = {"method": "gmae", "params": {"calibration": "none"}}
    recipe = find_recipe("aime24-qwen3-1.7b")
    with pytest.raises(RequestError, match=r"group_norm.*algo\.advantage\.estimator=dr_grpo"):
        plan(recipe, Launch("http://r:8000", agent=agent))
    changes = {"algo.advantage.estimator": "dr_grpo"}
    flags, config = plan(recipe, Launch("http://r:8000", agent=agent, changes=changes))
    assert (config.method, flags["algo.advantage.estimator"]) == ("gmae", "dr_grpo")


def test_a_parameter_of_the_urls_own_name_keeps_its_method():
    agent = {"method": "gmae", "params": {"calibration": "none", "group_size": 16}}
    changes = {"algo.advantage.estimator": "dr_grpo"}
    launch = Launch("http://r:8000", route="url", agent=agent, changes=changes)
    url = plan(find_recipe("aime24-qwen3-1.7b"), launch)[0]["reward.remote_url"]
    query = parse_qs(urlsplit(url).query)
    assert (query["group_size"], query["gmae.group_size"]) == (["32"], ["16"])


def test_prepared_files_are_not_replaced_unless_it_is_said(tmp_path, capsys):
    source, out = tmp_path / "aime.json", tmp_path / "data"
    source.write_text(json.dumps([{"problem": "1+1?", "answer": "2"}]))
    command = ["data", "prepare", "aime24", "--from", str(source), "--out", str(out)]
    assert main(command) == 0
    assert main(command) == 0  # the same content is no loss
    (out / "aime24-eval.jsonl").write_text("edited by hand")
    source.write_text(json.dumps([{"problem": "1+2?", "answer": "3"}]))
    before = (out / "aime24.jsonl").read_text()
    capsys.readouterr()
    assert main(command) == 2
    assert "--force" in capsys.readouterr().err
    assert (out / "aime24.jsonl").read_text() == before
    assert (out / "aime24-eval.jsonl").read_text() == "edited by hand"
    assert main([*command, "--force"]) == 0
    assert "1+2?" in (out / "aime24-eval.jsonl").read_text()


@pytest.mark.parametrize(
    ("name", "value"), [("train_on", "reasoning"), ("adaptive", "auto"), ("votes_per_prompt", "64")]
)
def test_the_url_route_refuses_what_only_the_agent_can_do(name, value):
    launch = Launch("http://r:8000", route="url", agent={name: parse_setting(name, value)})
    with pytest.raises(ConfigError, match=f"{name}: "):
        plan(find_recipe("aime24-qwen3-1.7b"), launch)
