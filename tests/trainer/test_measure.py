"""`dare-reward measure` with a stand-in for vLLM that carries entropies as the plugin does."""

import os
import signal
import sys
import types
from functools import partial

import numpy as np
import pytest
from jsonl import read_lines, write_lines

from dare_reward.analysis.calibrate import calibrate
from dare_reward.commands.labelled import read_labelled
from dare_trainer.launch.questions import load
from dare_trainer.vllm.token_entropy import SWITCH, encode

PROBLEMS = [{"unique_id": f"p{i}", "problem": f"What is {i} + 1?", "answer": str(i + 1)} for i in range(40)]
CHOICES = [{"question_id": 7, "question": "Which?", "options": ["one", "two", "three"], "answer": "B"}]
CAPITALS = [
    {"id": "a", "family": "capital", "prompt": "Capital of Ukraine?", "label": ["Kyiv", "Kiev"], "kind": "text"},
    {"id": "b", "family": "capital", "prompt": "Capital of Mali?", "label": "Bamako", "kind": "text", "asked": "Mali:"},
]  # fmt: skip


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
        name, question, sampling = self.running.pop()
        made = self.output(question, sampling)
        going_on = types.SimpleNamespace(request_id="another", finished=False)
        return [going_on, types.SimpleNamespace(request_id=name, finished=True, outputs=made.outputs)]

    def output(self, question, sampling):
        Engine.asked.append((question, sampling))
        if Engine.broken and len(Engine.asked) > 8:
            raise KeyboardInterrupt
        rng = np.random.default_rng(len(question))
        return types.SimpleNamespace(outputs=[self.completion(i, question, rng) for i in range(sampling.n)])

    def text(self, i, question):
        if "Which" in question:
            return f"so \\boxed{{{'B' if i % 8 < 3 else 'A'}}}"
        return f"so \\boxed{{{int(question.split()[2]) + 1 if i % 8 < 3 else 999}}}"

    def completion(self, i, question, rng):
        values, ids = (0.2 if i % 8 < 3 else 0.4) + 0.05 * rng.random(5), list(range(5))
        rows = [{t: types.SimpleNamespace(rank=int(r), logprob=-0.5)} for t, r in zip(ids, encode(values), strict=True)]
        text = self.text(i, question)
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


@pytest.fixture
def out(tmp_path):
    return tmp_path / "new" / "rollouts.jsonl"


@pytest.fixture
def capitals(vllm, tmp_path, monkeypatch):
    """Your own questions, and an engine that answers each with these lines in turn."""
    lines = ["Kiev", " kyiv\n", "Lviv", "I do not know", "Bamako", "Bamako.", "Segou", ""]
    monkeypatch.setattr(vllm, "text", lambda self, i, question: lines[i % 8])
    return write_lines(tmp_path / "capitals.jsonl", CAPITALS)


def words(data, out, *flags):
    return ["measure", "--model", "m", "--data", str(data), "--out", str(out), "--rollouts", "16", *flags]


@pytest.fixture
def measure(vllm, source, out, ran):
    """What the command prints, which ends with one of the `codes`, the groups of its file, and what it asks the engine."""

    def measure(*flags, codes=(), name="math-500", data=None, to=out):
        before = len(vllm.asked)
        said = ran(words(data or f"{name}={source}", to, *flags), *codes)
        groups = read_lines(to) if to.exists() else []
        return types.SimpleNamespace(out=said.out, err=said.err, groups=groups, asked=vllm.asked[before:])

    return measure


@pytest.fixture
def own(measure, capitals):
    """The same of your own questions, of which each has 8 rollouts."""
    return partial(measure, "--rollouts", "8", data=capitals)


def test_one_command_from_prompts_to_the_line(vllm, measure, out):
    said = measure("--prompts", "34", "--engine", "tensor_parallel_size=2", "--engine", "dtype=float16", codes=[0])
    assert len(said.groups) == len({g["group_id"] for g in said.groups}) == 34
    assert all(len(g["rollouts"]) == 16 for g in said.groups)
    data = read_labelled(str(out))
    assert data.correct_R.mean() == pytest.approx(6 / 16)
    found = calibrate(data.groups, data.correct_R)
    assert found.exponent > 0
    assert found.auroc_wrong.estimate == 1.0
    assert (found.auroc_wrong.prompts, found.auroc_right.prompts) == (34, 0)
    assert said.out.splitlines()[-1] == found.params
    assert "AUROC where the vote is wrong" in said.out
    workers = {"tensor_parallel_size": 2}  # are its own
    assert vllm.made == [{"model": "m", "seed": 0, **workers, "dtype": "float16"}]
    assert vllm.switch == "temperature", "the plugin is on before the engine starts"
    _, sampling = said.asked[0]
    asked = (sampling.n, sampling.temperature, sampling.top_p, sampling.max_tokens, sampling.logprobs)
    assert asked == (16, 1.0, 0.95, 3072, 0)


def test_the_entropies_are_the_plugins_and_the_prompts_are_the_benchmarks(measure, source):
    known = {p.id: p for p in load("math-500", source)}
    for group in measure("--prompts", "3", "--no-chat").groups:
        problem = known[group["group_id"]]
        assert (group["prompt"], group["label"]) == (problem.prompt(), problem.label)
        assert (group["entropy_source"], group["entropy_mode"]) == ("exact", "temperature")
        rng = np.random.default_rng(len(group["prompt"]))
        means = [float(np.mean(np.float32((0.2 if i % 8 < 3 else 0.4) + 0.05 * rng.random(5)))) for i in range(16)]
        assert [r["mean_entropy"] for r in group["rollouts"]] == pytest.approx(means, rel=1e-6)
        assert {(r["num_tokens"], r["sum_logprob"]) for r in group["rollouts"]} == {(5, -2.5)}
        assert (group["logprobs_mode"], group["temperature"], group["top_p"]) == ("raw_logprobs", 1.0, 0.95)


def test_a_cut_run_goes_on_where_it_was(vllm, measure, out):
    vllm.broken = True
    first = measure("--prompts", "34", "--engine", "max_num_seqs=64", codes=[130]).groups
    assert len(first) == 8
    out.write_text(out.read_text() + '{"group_id": "torn')
    vllm.broken, vllm.asked = False, []
    kept = measure("--prompts", "34", codes=[0])
    assert kept.groups[:8] == first
    assert len(kept.groups) == 34, "the torn line is gone"
    assert len(kept.asked) == 26
    data = read_labelled(str(out))
    assert calibrate(data.groups, data.correct_R).prompts == 34
    vllm.made = []
    measure("--prompts", "34", codes=[0])
    assert vllm.made == []


def test_a_file_of_something_else_is_refused_and_untouched(vllm, measure, out, tmp_path):
    """The same questions under another name are another data set's."""
    measure("--prompts", "12", codes=[1])
    other = write_lines(tmp_path / "other.jsonl", [{"group_id": "x", "rollouts": []}])
    before, asked = (out.read_bytes(), other.read_bytes()), len(vllm.asked)
    assert "--data" in measure("--prompts", "12", name="amc", codes=[2]).err
    assert "no file of sampled groups" in measure(to=other, codes=[2]).err
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
def test_a_file_is_compared_by_what_it_stores(own, capitals, out, row, differs):
    """What was sampled is not sampled again."""
    write_lines(out, [line for line in own().groups if line["group_id"] == "b"])
    before = out.read_text()
    write_lines(capitals, (CAPITALS[0], CAPITALS[1] | row))
    found = own(codes=[2 if differs else 1])
    assert out.read_text().startswith(before)
    assert len(found.asked) == (0 if differs else 1)
    if differs is not None:
        assert out.read_text() == before
        assert differs in found.err
        assert "'b'" in found.err


@pytest.mark.parametrize("flags", [("--as-is",), ()])
def test_a_question_that_comes_to_be_sent_otherwise_is_refused(own, capitals, out, flags):
    """Also where its prompt stays the same to the letter."""
    plain = {**{k: v for k, v in CAPITALS[1].items() if k != "asked"}, "prompt": "Which is the capital of Mali?"}
    write_lines(capitals, [plain])
    (line,), before = own(*flags).groups, out.read_text()
    write_lines(capitals, [plain | {"prompt": line["prompt"], "asked": "Mali:"}])
    again = own(*flags, codes=[2])
    assert "another asked of the group 'b'" in again.err
    assert (out.read_text(), again.asked) == (before, [])


def test_only_the_chosen_prompts_are_judged(measure):
    """The 9 are the first of the 34."""
    for count, code, asked in ((34, 0, 34), (9, 1, 0), (40, 0, 6)):
        found = measure("--prompts", str(count), codes=[code])
        assert f"{count} labelled prompts" in found.out
        assert len(found.asked) == asked


def test_a_question_is_asked_once_and_one_with_two_answers_is_not(measure, source, tmp_path):
    """As `data prepare` leaves it out of a training set."""
    write_lines(source, [*PROBLEMS[:10], *PROBLEMS[:3], {**PROBLEMS[3], "answer": "7"}])
    said = measure("--prompts", "34")
    assert "questions: 9 read; 3 dropped" in said.err
    assert "2 refused (question 14: 'What is 3 + 1?' comes again with another answer)" in said.err
    assert len(said.asked) == len({question for question, _ in said.asked}) == 9
    write_lines(source, [PROBLEMS[3], {**PROBLEMS[3], "answer": "7"}])
    assert "every question comes again" in measure(to=tmp_path / "n.jsonl", codes=[2]).err


def test_multiple_choice(measure, source, out):
    write_lines(source, CHOICES)
    (group,) = measure(name="mmlu-pro", codes=[1]).groups
    assert (group["kind"], group["options"], group["label"]) == ("choice", ["A", "B", "C"], "B")
    assert read_labelled(str(out)).correct_R.sum() == 6


def test_the_draw_is_seeded(measure, tmp_path):
    drawn = []
    for i, seed in enumerate("112"):
        groups = measure("--prompts", "5", "--seed", seed, to=tmp_path / f"{i}.jsonl").groups
        drawn.append([group["group_id"] for group in groups])
    assert drawn[0] == drawn[1] != drawn[2]


def test_your_own_questions(own, out):
    prefix = ["--prefix", "Q: Peru?\\nA: Lima\\n", "--stop", "\\n", "--stop", "Q:"]
    found = own("--no-chat", "--as-is", *prefix, codes=[0, 1])
    assert {text for text, _ in found.asked} == {"Q: Peru?\nA: Lima\nCapital of Ukraine?", "Q: Peru?\nA: Lima\nMali:"}
    assert found.asked[0][1].stop == ["\n", "Q:"]
    groups = {g["group_id"]: g for g in found.groups}
    assert [groups[k]["prompt"] for k in "ab"] == ["Capital of Ukraine?", "Capital of Mali?"]
    assert (groups["a"]["label"], groups["a"]["kind"]) == (["Kyiv", "Kiev"], "text")
    assert (groups["b"]["label"], groups["a"]["meta"]["family"]) == ("Bamako", "capital")
    by_name = dict(zip(groups, np.split(read_labelled(str(out)).correct_R, 2), strict=True))
    assert by_name["a"].tolist() == [1, 1] + [0] * 6
    assert by_name["b"].tolist() == [0] * 4 + [1, 1, 0, 0]


def test_the_instruction_is_added_unless_it_is_as_is(vllm, own):
    texts = [text for text, _ in own().asked]
    assert vllm.special == {False}
    assert sum("\\boxed{}" in text for text in texts) == 1  # not to what a row says is asked
    assert "Mali:" in texts


@pytest.mark.parametrize(
    "flags",
    [
        ["--as-is"], ["--prefix", "Q: "], ["--stop", "Q:"], ["--no-chat"], ["--tokens"], ["--temperature", "0.7"], ["--seed", "1"],
    ],
)  # fmt: skip
def test_each_of_these_settings_tells_files_apart(own, out, flags):
    own(*flags)
    before = out.read_bytes()
    assert own(*flags, codes=[0, 1]).asked == []  # the file is known again
    assert "not sampled with this" in own(codes=[2]).err
    assert out.read_bytes() == before


def test_tokens(own, out):
    rollout = own("--tokens", "--as-is").groups[0]["rollouts"][0]
    assert rollout["token_ids"] == [0, 1, 2, 3, 4]
    assert rollout["token_logprobs"] == [-0.5] * 5
    assert len(rollout["token_entropies"]) == 5
    assert "mean_entropy" not in rollout
    assert read_labelled(str(out)).groups.columns["sum_logprob"][0] == -2.5


def test_the_tokens_of_the_answer_and_the_one_that_ends_it(measure, tmp_path, monkeypatch):
    """Written as the place among the tokens, or as the mean and the sum over them."""
    monkeypatch.setattr(Engine, "pieces", ["so ", "\\boxed{", "99", "9", "}"])
    files = [tmp_path / name for name in ("tokens.jsonl", "sums.jsonl")]
    written = [measure("--prompts", "1", *more, to=file) for file, more in zip(files, (["--tokens"], []), strict=True)]
    tokens, sums = (found.groups[0]["rollouts"] for found in written)
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


def test_a_base_model_is_not_asked_by_chat(vllm, own, monkeypatch):
    monkeypatch.setattr(vllm, "chat_template", None)
    assert "--no-chat" in own(codes=[2]).err
    own("--no-chat", codes=[0, 1])
    assert vllm.special == {True}


@pytest.mark.parametrize(
    ("row", "said"),
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
def test_a_row_that_means_nothing_is_named(vllm, own, capitals, row, said):
    write_lines(capitals, [CAPITALS[0], row])
    assert said in own(codes=[2]).err
    assert vllm.made == []


def test_a_group_says_how_far_and_whether_it_is_worth_waiting_for(measure):
    said = [line for line in measure("--prompts", "30").err.splitlines() if "of 30 prompts" in line]
    assert [line.split(",")[0] for line in said] == [f"{n} of 30 prompts" for n in range(1, 31)]
    assert ["min left" in line for line in said] == [True] * 29 + [False]
    assert all("of 30 prompts, pass@1 37.5%" in line for line in said)


@pytest.mark.parametrize(("rollouts", "prompts", "most"), [(16, 40, 512), (1, 40, 40), (600, 2, 600)])
def test_the_engine_stays_full_and_has_no_more_than_it_can_begin(vllm, measure, rollouts, prompts, most):
    measure("--prompts", str(prompts), "--rollouts", str(rollouts))
    assert vllm.most == most


def test_a_problem_is_written_once_both_of_its_parts_are_there(vllm, measure):
    """Rollouts and the greedy one end in any order, and other problems between them."""
    vllm.broken = True
    found = measure("--prompts", "9", "--greedy", codes=[130])
    assert len(found.asked) == 9
    assert [len(g["rollouts"]) for g in found.groups] == [16] * 4
    assert all(g["meta"]["greedy"] for g in found.groups)


def test_the_engine_lives_and_ends_with_the_command(vllm, measure, monkeypatch):
    """Its core runs in this process, which SIGTERM ends in order: nothing is left that would burn a core."""
    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)
    monkeypatch.setattr(vllm, "output", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    before = signal.getsignal(signal.SIGTERM)
    measure("--prompts", "1", codes=[128 + signal.SIGTERM])
    assert os.environ.pop("VLLM_ENABLE_V1_MULTIPROCESSING") == "0"
    assert os.environ.pop("VLLM_LOGGING_STREAM") == "ext://sys.stderr"
    assert vllm.made[0]["distributed_executor_backend"] == "uni"
    assert signal.getsignal(signal.SIGTERM) is before


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


def test_greedy_is_sampled_beside_the_rollouts_and_compared_with_the_vote(vllm, measure, monkeypatch):
    greedy_engine(monkeypatch, vllm, lambda number: number < 36)
    found = measure("--prompts", "40", "--greedy", codes=[0])
    assert found.out.startswith("right, in per cent of 40 prompts: greedy 90.0 [")
    assert "(50% cut at the limit), the vote of all rollouts 0.0 [0.0, 0.0], one rollout 37.5 [37.5, 37.5]" in found.out
    assert "greedy - vote: +90.0 [+80.0, +97.5] points. Greedy decoding is right more often than the vote" in found.out
    assert {len(g["rollouts"]) for g in found.groups} == {16}
    assert all(g["meta"]["greedy"]["num_tokens"] == 5 for g in found.groups)
    assert {s.n for _, s in found.asked if not s.temperature} == {1}


def test_greedy_is_added_to_a_file_that_lacks_it(vllm, measure, monkeypatch):
    greedy_engine(monkeypatch, vllm, lambda number: False)
    before, added = measure("--prompts", "12").groups, measure("--prompts", "12", "--greedy")
    assert "is open" in added.out  # neither is ever right
    assert len(added.asked) == 12
    assert [g["meta"].pop("greedy") is not None for g in added.groups] == [True] * 12
    assert added.groups == before
    assert measure("--prompts", "12", "--greedy").asked == []


def test_a_table_of_fewer_prompts_says_so(measure, out):
    whole = measure("--prompts", "40")
    assert "The tables hold" not in whole.out
    del whole.groups[0]["rollouts"][3]["mean_entropy"]
    write_lines(out, whole.groups)
    said = measure("--prompts", "40", codes=[3]).out
    assert "The tables hold 39 of 40 prompts: in the others a rollout lacks a number." in said


def test_without_vllm_or_with_nonsense(measure, monkeypatch):
    monkeypatch.setitem(sys.modules, "vllm", None)
    for more, said in (
        ([], "measure needs vLLM or --url"),
        (["--prompts", "0"], "prompts: must be an integer >= 1"),
        (["--concurrency", "0"], "concurrency: must be an integer >= 1"),
        (["--concurrency", "9"], "--concurrency means nothing without --url"),
        (["--engine", "fast"], "NAME=VALUE"),
        *((["--url", "http://h/v1", *flags], "Leave out") for flags in (["--tokens"], ["--engine", "dtype=half"])),
    ):
        assert said in measure(*more, codes=[2]).err
    measure(name="nothing", codes=[2])
