"""`dare-reward measure` with a stand-in for vLLM that carries entropies as the plugin does."""

import json
import os
import signal
import sys
import types

import numpy as np
import pytest
from jsonl import read_lines, write_lines

from dare_reward.analysis.calibrate import calibrate
from dare_reward.cli import main
from dare_reward.commands.labelled import read_labelled
from dare_trainer.launch.questions import load
from dare_trainer.vllm.token_entropy import SWITCH, encode

PROBLEMS = [{"unique_id": f"p{i}", "problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40)]
CHOICES = [{"question_id": 7, "question": "Which?", "options": ["one", "two", "three"], "answer": "B"}]


class Engine:
    """Right in 3 of 8 completions, with half the entropy; the wrong ones agree, so the vote is wrong."""

    made, asked, special, most, broken, switch = [], [], set(), 0, False, None
    pieces = ["?"] * 5
    chat_template = "{{ messages }}"

    def __init__(self, **options):
        Engine.made.append(options)
        Engine.switch = os.environ.get(SWITCH)
        self.running = []

    def get_tokenizer(self):
        return self

    def apply_chat_template(self, talk, add_generation_prompt, tokenize):
        assert (add_generation_prompt, tokenize) == (True, False)
        return talk[0]["content"]

    def encode(self, text, add_special_tokens):
        """A text of one token; a chat's has its special tokens from the template."""
        Engine.special.add(add_special_tokens)
        return [text]

    def decode(self, ids, skip_special_tokens=False):
        """Token k says the k-th piece of a rollout's text; a test that looks at pieces says which."""
        return "".join(Engine.pieces[k] for k in ids)

    @property
    def llm_engine(self):
        return self

    def get_num_unfinished_requests(self):
        return sum(sampling.n for _, _, sampling in self.running)

    def add_request(self, name, prompt, sampling):
        assert sampling.output_kind == "final"
        self.running.append((name, *prompt["prompt_token_ids"], sampling))
        Engine.most = max(Engine.most, self.get_num_unfinished_requests())

    def step(self):
        """The newest request ends first."""
        print("what an engine prints")
        os.write(1, b"and its libraries\n")
        name, question, sampling = self.running.pop()
        made = self.output(question, sampling)
        going_on = types.SimpleNamespace(request_id="another", finished=False)
        return [going_on, types.SimpleNamespace(request_id=name, finished=True, outputs=made.outputs)]

    def output(self, question, sampling):
        Engine.asked.append((question, sampling))
        if Engine.broken and len(Engine.asked) > 8:
            raise KeyboardInterrupt
        right = "B" if "Which" in question else str(int(question.split()[2]) + 1)
        rng = np.random.default_rng(len(question))
        return types.SimpleNamespace(outputs=[self.completion(i, right, rng) for i in range(sampling.n)])

    def completion(self, i, right, rng):
        good = i % 8 < 3
        values = (0.2 if good else 0.4) + 0.05 * rng.random(5)
        text = f"so \\boxed{{{right if good else 'A' if right == 'B' else '999'}}}"
        ids = list(range(5))
        rows = [{t: types.SimpleNamespace(rank=int(r), logprob=-0.5)} for t, r in zip(ids, encode(values), strict=True)]
        return types.SimpleNamespace(text=text, token_ids=ids, logprobs=rows, finish_reason="stop")


@pytest.fixture
def vllm(monkeypatch, stand_in):
    kinds = types.SimpleNamespace(RequestOutputKind=types.SimpleNamespace(FINAL_ONLY="final"))
    stand_in("vllm", LLM=Engine, SamplingParams=types.SimpleNamespace, sampling_params=kinds)
    for name, value in {"made": [], "asked": [], "special": set(), "most": 0, "broken": False, "switch": None}.items():
        monkeypatch.setattr(Engine, name, value)
    monkeypatch.delenv(SWITCH, raising=False)
    monkeypatch.setenv(SWITCH, "")  # so that what the command sets is undone
    return Engine


@pytest.fixture
def source(tmp_path):
    return write_lines(tmp_path / "math.jsonl", PROBLEMS)


def arguments(source, out, *more, name="math-500"):
    return own(f"{name}={source}", out, "--rollouts", "16", *more)


def own(path, out, *more):
    return ["measure", "--model", "m", "--data", str(path), "--out", str(out), "--rollouts", "8", *more]


def test_one_command_from_prompts_to_the_line(vllm, source, tmp_path, capsys):
    out = tmp_path / "new" / "rollouts.jsonl"
    more = ["--engine", "tensor_parallel_size=2", "--engine", "dtype=float16"]
    assert main(arguments(source, out, "--prompts", "34", *more)) == 0
    printed = capsys.readouterr().out
    groups = read_lines(out)
    assert len(groups) == len({g["group_id"] for g in groups}) == 34
    assert all(len(g["rollouts"]) == 16 for g in groups)
    data = read_labelled(str(out))
    assert data.correct_R.mean() == pytest.approx(6 / 16)
    found = calibrate(data.groups, data.correct_R)
    assert found.exponent > 0
    assert found.auroc_wrong.estimate == 1.0
    assert (found.auroc_wrong.prompts, found.auroc_right.prompts) == (34, 0)
    assert printed.splitlines()[-1] == found.params
    assert "AUROC where the vote is wrong" in printed
    workers = {"tensor_parallel_size": 2}  # are its own
    assert vllm.made == [{"model": "m", "seed": 0, **workers, "dtype": "float16"}]
    assert vllm.switch == "temperature", "the plugin is on before the engine starts"
    _, sampling = vllm.asked[0]
    asked = (sampling.n, sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.logprobs)
    assert asked == (16, 1.0, 0.95, 3072, 0)


def test_the_entropies_are_the_plugins_and_the_prompts_are_the_benchmarks(vllm, source, tmp_path):
    out = tmp_path / "rollouts.jsonl"
    main(arguments(source, out, "--prompts", "3", "--no-chat"))
    known = {p.id: p for p in load("math-500", source)}
    for group in read_lines(out):
        problem = known[group["group_id"]]
        assert (group["prompt"], group["label"]) == (problem.prompt(), problem.label)
        assert (group["entropy_source"], group["entropy_mode"]) == ("exact", "temperature")
        rng = np.random.default_rng(len(group["prompt"]))
        means = [float(np.mean(np.float32((0.2 if i % 8 < 3 else 0.4) + 0.05 * rng.random(5)))) for i in range(16)]
        assert [r["mean_entropy"] for r in group["rollouts"]] == pytest.approx(means, rel=1e-6)
        assert {(r["num_tokens"], r["sum_logprob"]) for r in group["rollouts"]} == {(5, -2.5)}
        assert (group["logprobs_mode"], group["temperature"], group["top_p"]) == ("raw_logprobs", 1.0, 0.95)


def test_a_cut_run_goes_on_where_it_was(vllm, source, tmp_path):
    out = tmp_path / "rollouts.jsonl"
    vllm.broken = True
    assert main(arguments(source, out, "--prompts", "34", "--engine", "max_num_seqs=64")) == 130
    first = read_lines(out)
    assert len(first) == 8
    out.write_text(out.read_text() + '{"group_id": "torn')
    vllm.broken, vllm.asked = False, []
    assert main(arguments(source, out, "--prompts", "34")) == 0
    kept = read_lines(out)
    assert kept[:8] == first
    assert len(kept) == 34, "the torn line is gone"
    assert len(vllm.asked) == 26
    data = read_labelled(str(out))
    assert calibrate(data.groups, data.correct_R).prompts == 34
    vllm.made = []
    assert main(arguments(source, out, "--prompts", "34")) == 0
    assert vllm.made == []


def test_a_file_of_something_else_is_refused_and_untouched(vllm, source, tmp_path, ran):
    """The same questions under another name are another data set's."""
    out, other = tmp_path / "rollouts.jsonl", tmp_path / "other.jsonl"
    assert main(arguments(source, out, "--prompts", "12")) == 1
    other.write_text('{"group_id": "x", "rollouts": []}\n')
    before, asked = (out.read_bytes(), other.read_bytes()), len(vllm.asked)
    assert "--data" in ran(arguments(source, out, "--prompts", "12", name="amc"), 2).err
    assert "no file of sampled groups" in ran(arguments(source, other), 2).err
    assert ((out.read_bytes(), other.read_bytes()), len(vllm.asked)) == (before, asked)


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        ({}, None),
        ({"accepted": ["Bamaco"], "family": "city"}, None),  # the file has neither, and loses nothing
        ({"asked": "Mali?"}, "another asked"),
        ({"prompt": "Capital of Chad?"}, "another prompt"),
        ({"label": "N'Djamena"}, "another label"),
        ({"kind": "exact"}, "another kind"),
        ({"id": "c"}, "a group 'b' that --data lacks"),
    ],
)
def test_a_file_is_compared_by_what_it_stores(vllm, capitals, tmp_path, capsys, row, differs):
    """What was sampled is not sampled again."""
    out = tmp_path / "r.jsonl"
    main(own(capitals, out))
    write_lines(out, [line for line in read_lines(out) if line["group_id"] == "b"])
    before, asked = out.read_text(), len(vllm.asked)
    write_lines(capitals, (CAPITALS[0], CAPITALS[1] | row))
    capsys.readouterr()
    code, printed = main(own(capitals, out)), capsys.readouterr()
    assert out.read_text().startswith(before)
    if differs is None:
        assert (code, len(vllm.asked) - asked) == (1, 1)
    else:
        assert (code, len(vllm.asked) - asked, out.read_text()) == (2, 0, before)
        assert differs in printed.err
        assert "'b'" in printed.err


@pytest.mark.parametrize("flags", [("--as-is",), ()])
def test_a_question_that_comes_to_be_sent_otherwise_is_refused(vllm, capitals, tmp_path, ran, flags):
    """Also where its prompt stays the same to the letter."""
    out, (_, mali, *_) = tmp_path / "r.jsonl", CAPITALS
    plain = {**{k: v for k, v in mali.items() if k != "asked"}, "prompt": "Which is the capital of Mali?"}
    write_lines(capitals, [plain])
    main(own(capitals, out, *flags))
    (line,), before, asked = read_lines(out), out.read_text(), len(vllm.asked)
    write_lines(capitals, [plain | {"prompt": line["prompt"], "asked": "Mali:"}])
    assert "another asked of the group 'b'" in ran(own(capitals, out, *flags), 2).err
    assert (out.read_text(), len(vllm.asked)) == (before, asked)


def test_only_the_chosen_prompts_are_judged(vllm, source, tmp_path, ran):
    out = tmp_path / "rollouts.jsonl"
    assert "34 labelled prompts" in ran(arguments(source, out, "--prompts", "34"), 0).out
    asked = len(vllm.asked)
    assert "9 labelled prompts" in ran(arguments(source, out, "--prompts", "9"), 1).out
    assert len(vllm.asked) == asked == 34  # they are the first of these
    assert "40 labelled prompts" in ran(arguments(source, out, "--prompts", "40"), 0).out
    assert len(vllm.asked) == 40


def test_a_prompt_that_comes_twice_is_asked_once(vllm, tmp_path):
    source = write_lines(tmp_path / "math.jsonl", [p for p in PROBLEMS[:10] for _ in range(3)])
    main(arguments(source, tmp_path / "rollouts.jsonl", "--prompts", "34"))
    assert len(vllm.asked) == len({question for question, _ in vllm.asked}) == 10


def test_a_question_with_two_answers_is_not_asked(vllm, source, tmp_path, ran):
    """As `data prepare` leaves it out of a training set."""
    write_lines(source, [*PROBLEMS[:10], {**PROBLEMS[3], "answer": "7"}])
    said = ran(arguments(source, tmp_path / "r.jsonl", "--prompts", "34")).err
    assert "questions: 9 read; 2 refused (question 11: 'What is 3 + 1?' comes again with another answer)" in said
    assert len(vllm.asked) == 9
    write_lines(source, [PROBLEMS[3], {**PROBLEMS[3], "answer": "7"}])
    assert "every question comes again" in ran(arguments(source, tmp_path / "n.jsonl"), 2).err


def test_multiple_choice(vllm, tmp_path):
    source, out = tmp_path / "mmlu.json", tmp_path / "rollouts.jsonl"
    source.write_text(json.dumps(CHOICES))
    assert main(arguments(source, out, name="mmlu-pro")) == 1
    (group,) = read_lines(out)
    assert (group["kind"], group["options"], group["label"]) == ("choice", ["A", "B", "C"], "B")
    assert read_labelled(str(out)).correct_R.sum() == 6


def test_the_draw_is_seeded(vllm, source, tmp_path):
    drawn = []
    for i, seed in enumerate((1, 1, 2)):
        out = tmp_path / f"{i}.jsonl"
        main(arguments(source, out, "--prompts", "5", "--seed", str(seed)))
        drawn.append([group["group_id"] for group in read_lines(out)])
    assert drawn[0] == drawn[1] != drawn[2]


CAPITALS = [
    {"id": "a", "family": "capital", "prompt": "Capital of Ukraine?", "label": ["Kyiv", "Kiev"], "kind": "text"},
    {"id": "b", "family": "capital", "prompt": "Capital of Mali?", "label": "Bamako", "kind": "text", "asked": "Mali:"},
]  # fmt: skip


@pytest.fixture
def capitals(vllm, tmp_path, monkeypatch):
    """Your own questions, and an engine that answers each with these lines in turn."""
    lines = ["Kiev", " kyiv\n", "Lviv", "I do not know", "Bamako", "Bamako.", "Segou", ""]
    complete = vllm.completion

    def completion(self, i, right, rng):
        made = complete(self, i, right, rng)
        made.text = lines[i % 8]
        return made

    monkeypatch.setattr(vllm, "completion", completion)
    monkeypatch.setattr(vllm, "output", lambda self, text, sampling: self.asked.append((text, sampling)) or types.SimpleNamespace(
        outputs=[self.completion(i, "x", np.random.default_rng(1)) for i in range(sampling.n)]))  # fmt: skip
    return write_lines(tmp_path / "capitals.jsonl", CAPITALS)


def test_your_own_questions(vllm, capitals, tmp_path):
    out = tmp_path / "r.jsonl"
    more = ["--no-chat", "--as-is", "--prefix", "Q: Peru?\\nA: Lima\\n", "--stop", "\\n", "--stop", "Q:"]
    assert main(own(capitals, out, *more)) in {0, 1}
    assert {text for text, _ in vllm.asked} == {"Q: Peru?\nA: Lima\nCapital of Ukraine?", "Q: Peru?\nA: Lima\nMali:"}
    assert vllm.asked[0][1].stop == ["\n", "Q:"]
    groups = {g["group_id"]: g for g in read_lines(out)}
    assert [groups[k]["prompt"] for k in "ab"] == ["Capital of Ukraine?", "Capital of Mali?"]
    assert (groups["a"]["label"], groups["a"]["kind"]) == (["Kyiv", "Kiev"], "text")
    assert (groups["b"]["label"], groups["a"]["meta"]["family"]) == ("Bamako", "capital")
    data = read_labelled(str(out))
    by_name = dict(zip(groups, np.split(data.correct_R, 2), strict=True))
    assert by_name["a"].tolist() == [1, 1] + [0] * 6
    assert by_name["b"].tolist() == [0] * 4 + [1, 1, 0, 0]


def test_the_instruction_is_added_unless_it_is_as_is(vllm, capitals, tmp_path):
    main(own(capitals, tmp_path / "r.jsonl"))
    assert vllm.special == {False}
    assert sum("\\boxed{}" in text for text, _ in vllm.asked) == 1  # not to what a row says is asked
    assert "Mali:" in {text for text, _ in vllm.asked}


@pytest.mark.parametrize(
    "more",
    [
        ["--as-is"], ["--prefix", "Q: "], ["--stop", "Q:"], ["--no-chat"], ["--tokens"], ["--temperature", "0.7"], ["--seed", "1"],
    ],
)  # fmt: skip
def test_each_of_these_settings_tells_files_apart(vllm, capitals, tmp_path, capsys, ran, more):
    out = tmp_path / "r.jsonl"
    main(own(capitals, out, *more))
    before, asked = out.read_bytes(), len(vllm.asked)
    assert main(own(capitals, out, *more)) in {0, 1}
    assert len(vllm.asked) == asked  # the file is known again
    capsys.readouterr()
    assert "not sampled with this" in ran(own(capitals, out), 2).err
    assert out.read_bytes() == before


def test_tokens(vllm, capitals, tmp_path):
    out = tmp_path / "r.jsonl"
    main(own(capitals, out, "--tokens", "--as-is"))
    rollout = read_lines(out)[0]["rollouts"][0]
    assert rollout["token_ids"] == [0, 1, 2, 3, 4]
    assert rollout["token_logprobs"] == [-0.5] * 5
    assert len(rollout["token_entropies"]) == 5
    assert "mean_entropy" not in rollout
    assert read_labelled(str(out)).groups.columns["sum_logprob"][0] == -2.5


def test_the_tokens_of_the_answer_and_the_one_that_ends_it(vllm, source, tmp_path, monkeypatch):
    """Written as the place among the tokens, or as the mean and the sum over them."""
    monkeypatch.setattr(Engine, "pieces", ["so ", "\\boxed{", "99", "9", "}"])
    files = [tmp_path / name for name in ("tokens.jsonl", "sums.jsonl")]
    main(arguments(source, files[0], "--prompts", "1", "--tokens"))
    main(arguments(source, files[1], "--prompts", "1"))
    tokens, sums = (read_lines(f)[0]["rollouts"] for f in files)
    at = [i for i, r in enumerate(tokens) if "999" in r["text"]]
    assert at
    for i in at:
        assert tokens[i]["answer_tokens"] == [2, 4]
        assert sums[i]["answer_entropy"] == pytest.approx(np.mean(tokens[i]["token_entropies"][2:5]), abs=1e-6)
        assert sums[i]["answer_logprob"] == -1.5
        assert not {"token_entropies", "token_ids", "answer_tokens"} & sums[i].keys()
        assert len(sums[i]["path"]) == 16
    read = [read_labelled(str(f)).groups.column("answer_entropy")[at] for f in files]
    assert read[0] == pytest.approx(read[1], abs=1e-6)


def test_a_base_model_is_not_asked_by_chat(vllm, capitals, tmp_path, ran, monkeypatch):
    monkeypatch.setattr(vllm, "chat_template", None)
    assert "--no-chat" in ran(own(capitals, tmp_path / "r.jsonl"), 2).err
    assert main(own(capitals, tmp_path / "r.jsonl", "--no-chat")) in {0, 1}
    assert vllm.special == {True}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"prompt": "Q?"}, "question 2: no answer"),
        ({"prompt": "Q?", "label": "A", "kind": "prose"}, "question 2: kind"),
        ({"prompt": "Q?", "label": "A", "accepted": "A"}, "question 2: accepted must be a list"),
        ({"prompt": "Q?", "label": []}, "question 2: the label is an empty list"),
        ({"prompt": "Q?", "label": "easy", "answer": "2"}, "question 2: label and answer differ"),
        ({"prompt": "Q?", "label": "A", "asked": 3}, "question 2: asked must be"),
        ({"prompt": "Q?", "label": "A", "id": "a"}, "'a'"),
    ],
)
def test_a_row_that_means_nothing_is_named(vllm, tmp_path, ran, row, words):
    path = write_lines(tmp_path / "own.jsonl", [CAPITALS[0], row])
    assert words in ran(own(path, tmp_path / "r.jsonl"), 2).err
    assert vllm.made == []


def test_a_group_says_how_far_how_fast_and_whether_it_is_worth_waiting_for(vllm, source, tmp_path, capsys):
    main(arguments(source, tmp_path / "r.jsonl", "--prompts", "30"))
    said = [line for line in capsys.readouterr().err.splitlines() if "of 30 prompts" in line]
    assert [line.split(",")[0] for line in said] == [f"{n} of 30 prompts" for n in range(1, 31)]
    assert ["min left" in line for line in said] == [True] * 29 + [False]
    assert all("tokens/s, pass@1 37.5%, 0% cut at the limit" in line for line in said)


@pytest.mark.parametrize(("rollouts", "prompts", "most"), [(16, 40, 512), (1, 40, 40), (600, 2, 600)])
def test_the_engine_stays_full_and_has_no_more_than_it_can_begin(vllm, source, tmp_path, rollouts, prompts, most):
    main([*arguments(source, tmp_path / "r.jsonl", "--prompts", str(prompts)), "--rollouts", str(rollouts)])
    assert vllm.most == most


def test_a_problem_is_written_once_both_of_its_parts_are_there(vllm, source, tmp_path):
    """Rollouts and the greedy one end in any order, and other problems between them."""
    out = tmp_path / "r.jsonl"
    vllm.broken = True
    assert main(arguments(source, out, "--prompts", "9", "--greedy")) == 130
    assert len(vllm.asked) == 9
    assert [len(g["rollouts"]) for g in read_lines(out)] == [16] * 4
    assert all(g["meta"]["greedy"] for g in read_lines(out))


def test_the_engine_lives_and_ends_with_the_command(vllm, source, tmp_path, monkeypatch):
    """Its core runs in this process, which SIGTERM ends in order: nothing is left that would burn a core."""
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    monkeypatch.setattr(vllm, "output", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        main(arguments(source, tmp_path / "r.jsonl", "--prompts", "1"))
    assert ended.value.code == 128 + signal.SIGTERM
    assert os.environ.pop("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"
    assert vllm.made[0]["distributed_executor_backend"] == "uni"
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_the_engine_prints_is_no_part_of_the_verdict(vllm, source, tmp_path, capfd):
    main(arguments(source, tmp_path / "r.jsonl", "--prompts", "34"))
    out, err = capfd.readouterr()
    assert "engine prints" not in out
    assert "libraries" not in out
    assert "and its libraries" in err


def greedy_engine(monkeypatch, vllm, right):
    """Right where the question's number says so, when it is decoded greedily."""
    complete = vllm.output

    def output(self, question, sampling):
        made = complete(self, question, sampling)
        if not sampling.temperature:
            number = int(question.split()[2])
            made.outputs[0].text = f"\\boxed{{{number + 1 if right(number) else 0}}}"
            made.outputs[0].finish_reason = "length" if number % 2 else "stop"
        return made

    monkeypatch.setattr(vllm, "output", output)


def test_greedy_is_sampled_beside_the_rollouts_and_compared_with_the_vote(vllm, source, tmp_path, ran, monkeypatch):
    greedy_engine(monkeypatch, vllm, lambda number: number < 36)
    out = tmp_path / "r.jsonl"
    printed = ran(arguments(source, out, "--prompts", "40", "--greedy"), 0).out
    assert printed.startswith("right, in per cent of 40 prompts: greedy 90.0 [")
    assert "(50% cut at the limit), the vote of all rollouts 0.0 [0.0, 0.0], one rollout 37.5 [37.5, 37.5]" in printed
    assert "greedy - vote: +90.0 [+80.0, +97.5] points. Greedy decoding is right more often than the vote" in printed
    groups = read_lines(out)
    assert {len(g["rollouts"]) for g in groups} == {16}
    assert all(g["meta"]["greedy"]["num_tokens"] == 5 for g in groups)
    assert {s.n for _, s in vllm.asked if not s.temperature} == {1}


def test_greedy_is_added_to_a_file_that_lacks_it(vllm, source, tmp_path, monkeypatch, ran):
    greedy_engine(monkeypatch, vllm, lambda number: False)
    out = tmp_path / "r.jsonl"
    main(arguments(source, out, "--prompts", "12"))
    before, asked = read_lines(out), len(vllm.asked)
    assert "is open" in ran(arguments(source, out, "--prompts", "12", "--greedy")).out  # neither is ever right
    assert len(vllm.asked) == asked + 12
    after = read_lines(out)
    assert [g["meta"].pop("greedy") is not None for g in after] == [True] * 12
    assert after == before
    main(arguments(source, out, "--prompts", "12", "--greedy"))
    assert len(vllm.asked) == asked + 12


def test_a_table_of_fewer_prompts_says_so(vllm, source, tmp_path, capsys, ran):
    out = tmp_path / "r.jsonl"
    assert "The tables hold" not in ran(arguments(source, out, "--prompts", "40")).out
    first, *others = read_lines(out)
    del first["rollouts"][3]["mean_entropy"]
    write_lines(out, (first, *others))
    assert main(arguments(source, out, "--prompts", "40")) == 3
    assert "The tables hold 39 of 40 prompts: in the others a rollout lacks a number." in capsys.readouterr().out


def test_without_vllm_or_with_nonsense(source, tmp_path, ran, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    out = tmp_path / "rollouts.jsonl"
    for more, words in (
        ([], "measure needs vLLM or --url"),
        (["--prompts", "0"], "prompts: must be an integer >= 1"),
        (["--concurrency", "0"], "concurrency: must be an integer >= 1"),
        (["--concurrency", "9"], "--concurrency means nothing without --url"),
        (["--engine", "fast"], "NAME=VALUE"),
        *((["--url", "http://h/v1", *flags], "Leave out") for flags in (["--tokens"], ["--engine", "dtype=half"])),
    ):
        assert words in ran(arguments(source, out, *more), 2).err
    assert main(arguments(source, out, name="nothing")) == 2
