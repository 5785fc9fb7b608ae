"""Rebuilds the corpus of real rollouts behind `research/docs/answers_rollouts.md` from clones of public repositories.

    python research/scripts/answers_corpus.py CLONES OUT
    python research/scripts/answers_corpus.py CLONES OUT fresh
    python research/scripts/answers_corpus.py CLONES OUT golds

CLONES holds one git directory for each repository, `owner+name` (bare, or with `.git` or `repo` inside); OUT gets
`build.jsonl` and `report.jsonl`. No text of another project is kept here: only how to find it, and the checksums of
what was found. A question belongs to the report half if the first byte of the SHA-256 of its letters and digits is odd.

`fresh` writes `fresh.jsonl`, a second sample that nothing was built on: other files and other questions of the same
repositories, and other repositories. It leaves out what is in `build.jsonl` and `report.jsonl`, which OUT must hold.

`golds` writes `golds.jsonl`: the distinct gold answers of fourteen benchmarks, for `answers_rules.py`.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SHA256 = {
    "build": "7ca3d24d3d87eb0932b95ea54031d3abad002bb9e79b504d2a7ad98c26b2b2b8",
    "report": "882a8b36aacb178b95ee24071add11ae698b8cb8ea270b72af694849efce791b",
    "fresh": "852ca65fc800fcc93023cc1778c1812ebae407596f3bc3ce9e07d8c995df007c",
}

csv.field_size_limit(10_000_000)


class Row(NamedTuple):
    """One rollout: what was asked, what was written, and what the repository says of it."""

    source: str
    model: str
    kind: str
    question: str
    gold: str
    text: str
    score: bool | None = None  # the repository's own
    options: int = 0


class Clone:
    """The newest commit of a clone."""

    def __init__(self, root: Path, name: str) -> None:
        base = root / name.replace("/", "+")
        self.git = next((d for d in (base / "repo", base / ".git") if d.exists()), base)

    def paths(self, pattern: str) -> list[str]:
        listed = self._run("ls-tree", "-r", "--name-only", "HEAD").decode().splitlines()
        return sorted(p for p in listed if re.search(pattern, p))

    def bytes(self, path: str) -> bytes:
        return self._run("show", f"HEAD:{path}")

    def json(self, path: str) -> Any:
        return json.loads(self.bytes(path))

    def lines(self, path: str) -> Iterator[Any]:
        return (json.loads(line) for line in self.bytes(path).decode().split("\n") if line.strip())

    def _run(self, *args: str) -> bytes:
        return subprocess.run(
            ["git", "-c", "core.quotepath=off", "--git-dir", str(self.git), *args], capture_output=True, check=True
        ).stdout


def letters(question: str) -> str:
    return "".join(c for c in question.casefold() if c.isalnum())


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def in_report(question: str) -> bool:
    return digest(letters(question))[0] % 2 == 1


def one_in(n: int, question: str) -> bool:
    """A sample of whole questions; the byte of the split is not used again."""
    return int.from_bytes(digest(letters(question))[1:4], "big") % n == PART


def omni_math(c: Clone, files: str = r"^inference/results/(?!.*(BACKUP|test|summary)).*\.jsonl$") -> Iterator[Row]:
    for path in c.paths(files):
        model = Path(path).stem
        for r in c.lines(path):
            gold, said = r.get("answer") or r.get("answer_gt"), r.get("model_generation")
            if gold and said:
                yield Row("arka-ritual/omni-math-rule-ca", model, "math", r["problem"], gold, said)


def grounding(c: Clone) -> Iterator[Row]:
    for path in c.paths(r"^SEAL/.*baseline_predictions\.json$"):
        for r in c.lines(path):
            yield Row(c_name(c), path.split("/")[1], "math", r["problem"], r["answer"], r["model_generation"])


def c_name(c: Clone) -> str:
    name = c.git.name if "+" in c.git.name else c.git.parent.name
    return name.replace("+", "/", 1)


def results_jsonl(c: Clone) -> Iterator[Row]:
    for r in c.lines("results.jsonl"):
        gold = r["parsed_gold_answer"]
        yield Row(c_name(c), "chrishayuk", "math", r["question"], gold, r["predicted_answer_text"], r["correct"])


def variants(c: Clone) -> Iterator[Row]:
    for path in ("results/stable_results.jsonl", "results/mathcheck_results.jsonl"):
        for r in c.lines(path):
            yield Row(
                c_name(c), Path(path).stem, "math", r["variant_problem"], r["gold"], r["raw_response"], r["correct"]
            )


def small_models(c: Clone) -> Iterator[Row]:
    d = c.json("Experiment1/inference_results.json")
    for part in ("original", "enhanced"):
        for model, found in d.get(part, {}).items():
            for r in found["results"]:
                gold = r["ground_truth_extracted"]
                if gold is not None and r["full_model_output"]:
                    yield Row(c_name(c), model, "math", r["question"], gold, r["full_model_output"], r["correct"])


def passes(c: Clone) -> Iterator[Row]:
    for path in c.paths(r"^experiment_results.*\.jsonl$"):
        for r in c.lines(path):
            outputs = r.get("model_outputs") or [r]
            for o in outputs:
                if said := o.get("model_output"):
                    yield Row(c_name(c), path.split("/")[0], "math", r["question"], r["reference_answer"], said)


def best_of_n(c: Clone) -> Iterator[Row]:
    for r in csv.DictReader(io.StringIO(c.bytes("test.csv").decode())):
        yield Row(
            c_name(c), "qwen2", "math", r["problem"], r["answer"], r["greedy_response"], r["greedy_accuracy"] == "True"
        )
        try:
            said = ast.literal_eval(
                r["diverse_response"].replace("\n", ",\n") if "'\n" in r["diverse_response"] else r["diverse_response"]
            )
        except (SyntaxError, ValueError):
            continue
        for text in said:
            if isinstance(text, str):
                yield Row(c_name(c), "qwen2", "math", r["problem"], r["answer"], text)


def asynchronous(c: Clone) -> Iterator[Row]:
    """Drafts and what replaced them, joined turn by turn."""
    gold = {letters(r["question"]): r["answer"] for r in Clone(ROOT, MATH500).lines("data/eval/math500/test.jsonl")}
    for path in c.paths(
        r"^results/self_(opt|prefill)_deepseek-ai_DeepSeek-R1-Distill-Llama-8B_math500\S*/problem_0\d+\.json$"
    ):
        r = c.json(path)
        turns = {h["turn"]: h["output"] for h in r["full_history"] if h.get("output")}
        known = gold.get(letters(r["question"]))
        if known and turns:
            text = "".join(turns[t] for t in sorted(turns))
            yield Row(c_name(c), "DeepSeek-R1-Distill-Llama-8B", "math", r["question"], known, text)


MATH500 = "donglinkang2021/cs336-assignment5-alignment"


def majority_sample(c: Clone) -> Iterator[Row]:
    for r in c.lines("evaluation/data/eval_rm_maj_example/math_cot_100.jsonl"):
        for text, score in zip(r["code"], r["score"], strict=True):
            yield Row(c_name(c), "Qwen2.5-Math", "math", r["question"], r["gt"], text, score)


def languages(c: Clone) -> Iterator[Row]:
    """MGSM in eleven languages, with the turns of the chat template in the text."""
    for path in c.paths(
        r"language_forcing/artifacts/(3B|7B|14B|32B)_(prefix|combined|system|wait)/(en|de|es|fr|ru|zh|ja|sw|th|bn)/s1_infer_8000\.jsonl$"
    ):
        model = "s1.1-" + path.split("/")[3]
        try:
            rows = list(c.lines(path))
        except subprocess.CalledProcessError:
            continue  # too large for the snapshot
        for n, r in enumerate(rows):
            if one_in(6, f"mgsm {n}"):
                said = r["output"].partition("<|im_start|>assistant")[2]
                yield Row(c_name(c), model, "math", f"mgsm {n}", str(r["gold_answer"]), said)


def plan_and_solve(c: Clone) -> Iterator[Row]:
    for path in c.paths(r"^generated_result/(gsm8k|SVAMP|MultiArith|AddSub|SingleEq).*\.json$"):
        for r in c.json(path):
            gold = r["answer"]
            gold = str(int(gold)) if isinstance(gold, float) and gold == int(gold) else str(gold)
            if one_in(3, r["question"]):
                yield Row(c_name(c), "text-davinci-003", "math", r["question"], gold, r["chain-of-thought"], r["ans"])


def mmlu_pro(c: Clone) -> Iterator[Row]:
    for path in c.paths(r"^eval_results/.*\.zip$"):
        try:
            packed = zipfile.ZipFile(io.BytesIO(c.bytes(path)))
        except subprocess.CalledProcessError:
            continue  # too large for the snapshot
        name = next(n for n in packed.namelist() if n.endswith("json") and "MACOSX" not in n)
        model = Path(path).stem.removeprefix("model_outputs_").removesuffix("_5shots")
        for r in json.loads(packed.read(name)):
            if not isinstance(r, dict):
                continue
            said = r.get("model_outputs") or r.get("generated_text")
            if isinstance(said, str) and said.strip() and one_in(40, r["question"]):
                known = r.get("pred") == r["answer"]
                yield Row(c_name(c), model, "choice", r["question"], r["answer"], said, known, len(r["options"]))


def channels(c: Clone) -> Iterator[Row]:
    """Gemma's raw channels."""
    for path in c.paths(r"^outputs/.*traces\.jsonl$"):
        try:
            rows = list(c.lines(path))
        except subprocess.CalledProcessError:
            continue
        for r in rows:
            if one_in(2, r["question"]):
                said = r["generated_answer"] == r["answer"]
                yield Row(
                    c_name(c),
                    "gemma-4-12b",
                    "choice",
                    r["question"],
                    r["answer"],
                    r["raw_response"],
                    said,
                    len(r["options"]),
                )


def medicine(c: Clone) -> Iterator[Row]:
    asked = {n: r["question"] for n, r in enumerate(c.json("data/datasets/medqa_focused_1030.json"))}
    for path in c.paths(r"^results/(base_runs_full|instruct_runs|cot_vs_direct)/.*_results\.json$"):
        try:
            rows = c.json(path)
        except subprocess.CalledProcessError:
            continue
        for r in rows:
            n = r["question_id"]
            if n in asked and one_in(60, asked[n]):
                yield Row(
                    c_name(c), path.split("/")[2], "choice", asked[n], r["correct"], r["response"], r["is_correct"], 4
                )


def permuted(c: Clone) -> Iterator[Row]:
    """Four orders of the options of each question; the column names the right one."""
    for path in c.paths(r"^gpqa_diamond_.*_eval\.csv$"):
        for n, r in enumerate(csv.DictReader(io.StringIO(c.bytes(path).decode()))):
            for k in "1234":
                if said := r.get("r" + k):
                    yield Row(c_name(c), Path(path).stem, "choice", f"gpqa row {n}", r["a" + k], said, None, 4)


def omni_math_rest(c: Clone) -> Iterator[Row]:
    """The runs that the first sample left out."""
    return omni_math(c, r"^inference/results.*(BACKUP|/test_|-test|summary).*\.jsonl$")


def asynchronous_rest(c: Clone) -> Iterator[Row]:
    """Sixteen rollouts of each of 100 questions, by a small model alone and by two in turn."""
    gold = {letters(r["question"]): r["answer"] for r in Clone(ROOT, MATH500).lines("data/eval/math500/test.jsonl")}
    pair = r"deepseek-ai_DeepSeek-R1-Distill-Llama-8B_Qwen_QwQ-32B_math500_sm500_em500_t15_smt0\.8_sct0\.8_emt0\.8_smc16_emc4"
    fork = r"self_reject_fork_deepseek-ai_DeepSeek-R1-Distill-Llama-8B_math500_sm500_t15_temp0\.8_thr0\.6_att3_a0\.01"
    for path in c.paths(rf"^results/({pair}|{fork})/problem_\d+\.json$"):
        r = c.json(path)
        known = gold.get(letters(r["question"]))
        said: dict[int, str] = {}
        for h in r["full_history"]:
            if h.get("output"):
                said[h["turn"]] = h["output"]  # what a larger model wrote anew replaces the draft of a turn
        if known and said:
            model = "DeepSeek-R1-Distill-Llama-8B" + (", QwQ-32B" if "QwQ" in path else "")
            yield Row(c_name(c), model, "math", r["question"], known, "".join(said[t] for t in sorted(said)))


def coursework(c: Clone) -> Iterator[Row]:
    for run in ("deepseek_v4_flash", "deepseek_v4_pro", "qwen25_math_15b_few_shot_512"):
        for path in c.paths(rf"/runs/{run}/test_predictions\.jsonl$"):
            for r in c.lines(path):
                if one_in(3, r["question"]):
                    yield Row(
                        c_name(c), run, "math", r["question"], r["gold_final"], r["prediction"], r["strict_correct"]
                    )


def gsm_plus(c: Clone) -> Iterator[Row]:
    for model in ("gpt-3.5-turbo", "gpt4", "abel_7b", "abel_70b", "metamath_7b", "metamath_70b"):
        for r in c.json(f"results/gsm8k_results/{model}.json"):
            asked = r.get("question") or r["input"].partition("### Instruction:\n")[2].partition("\n\n### Resp")[0]
            said = r.get("model_prediction") or r.get("completion")
            gold = str(r.get("gold") or str(r["answer"]).rpartition("#### ")[2])
            if said and one_in(6, asked):
                yield Row(c_name(c), model, "math", asked, gold, said, r["result"])


def gaokao(c: Clone) -> Iterator[Row]:
    """Fourteen questions of 2026 in up to 40 settings, in Chinese: numbers, sets, and letters of four options."""
    for path in c.paths(r"^eval/results/.*quanguo1(_\d)?\.json$"):
        run = c.json(path)
        for case in run["task_states"]["cases"].values():
            gold, said = case["expected"], case["response"]
            if not gold or not said:
                continue
            kind, options = ("choice", 4) if re.fullmatch(r"[A-D]", gold) else ("math", 0)
            if not re.fullmatch(r"[A-D]{2,4}", gold):  # of these, several options are right
                model = run["model_name"]
                yield Row(c_name(c), model, kind, case["prompt"], gold, said, case["correct"], options)


SOURCES: dict[str, Callable[[Clone], Iterator[Row]]] = {
    "arka-ritual/omni-math-rule-ca": omni_math,
    "7174Andy/grounding-llm-gsm8k": grounding,
    "chrishayuk/gsm8k": results_jsonl,
    "lunaatang/llm-math-reasoning-eval": variants,
    "hoangsonpham727/slm-math-reasoning": small_models,
    "Fomaldehyde/Test-Time-Scaling-for-Math-Reasoning-CSC5051-": passes,
    "SorenDreano/MATH-500-subset-qwen2-answers-evaluated-by-open-PRM": best_of_n,
    "menik1126/Asynchronous-Test-Time-Scaling": asynchronous,
    "QwenLM/Qwen2.5-Math": majority_sample,
    "protimroy/crosslingual-test-time-scaling": languages,
    "AGI-Edgerunners/Plan-and-Solve-Prompting": plan_and_solve,
    "TIGER-AI-Lab/MMLU-Pro": mmlu_pro,
    "tobypullan/logit_cot_overthinking": channels,
    "tadsligar/MedQA2026": medicine,
    "HaveFunWithAI/gpqa_diamond_exp": permuted,
}
FRESH: dict[str, Callable[[Clone], Iterator[Row]]] = {
    "arka-ritual/omni-math-rule-ca": omni_math_rest,
    "menik1126/Asynchronous-Test-Time-Scaling": asynchronous_rest,
    "protimroy/crosslingual-test-time-scaling": languages,
    "AGI-Edgerunners/Plan-and-Solve-Prompting": plan_and_solve,
    "handsomeZR-netizen/nnu-nlp-gsm8k-coursework-2026": coursework,
    "qtli/GSM-Plus": gsm_plus,
    "iamyb/llm-gaokao-math-eval": gaokao,
    "TIGER-AI-Lab/MMLU-Pro": mmlu_pro,
    "tobypullan/logit_cot_overthinking": channels,
    "tadsligar/MedQA2026": medicine,
}
ROOT = Path()
PART = 0  # which part of the questions `one_in` takes


def main(root: str, out: str, sample: str = "halves") -> None:
    global ROOT, PART  # noqa: PLW0603
    ROOT = Path(root)
    seen: set[str] = set()
    found: dict[str, list[str]] = {"build": [], "report": []} if sample == "halves" else {"fresh": []}
    if sample == "fresh":
        PART = 1
        for half in ("build", "report"):
            with (Path(out) / f"{half}.jsonl").open(encoding="utf-8") as lines:
                seen |= {_unique(Row(**{k: v for k, v in json.loads(line).items() if k != "id"})) for line in lines}
    for name, read in (SOURCES if sample == "halves" else FRESH).items():
        counts = dict.fromkeys(found, 0)
        for row in read(Clone(ROOT, name)):
            said = digest("\0".join(str(v) for v in row)).hex()[:16]
            if row.gold is None or not row.text.strip() or _unique(row) in seen:
                continue
            seen.add(_unique(row))
            part = "fresh" if sample == "fresh" else "report" if in_report(row.question) else "build"
            counts[part] += 1
            found[part].append(
                json.dumps({"id": said, **row._asdict(), "gold": str(row.gold)}, ensure_ascii=True, sort_keys=True)
            )
        print(name, counts, flush=True)
    for part, rows in found.items():
        text = "\n".join(sorted(rows)) + "\n"
        (Path(out) / f"{part}.jsonl").write_text(text, encoding="utf-8")
        sha = hashlib.sha256(text.encode()).hexdigest()
        print(part, len(rows), "rollouts,", "as published" if sha == SHA256[part] else f"other than published: {sha}")


BENCHMARKS = (
    *("aime24", "amc23", "asdiv", "carp_en", "cmath", "cn_middle_school", "college_math", "gaokao2023en"),
    *("gaokao_math_cloze", "gsm8k", "mawps", "minerva_math", "olympiadbench", "svamp"),
)


def golds(root: str, out: str) -> None:
    """Gold answers as each benchmark writes them: a field, a list of several, the end of a solution, its last box."""
    clone, found = Clone(Path(root), "QwenLM/Qwen2.5-Math"), dict[str, None]()
    for name in BENCHMARKS:
        for r in clone.lines(f"evaluation/data/{name}/test.jsonl"):
            said = next((r[k] for k in ("final_answer", "answer", "Answer", "target", "solution") if r.get(k)), "")
            listed = isinstance(said, str) and said.startswith("[")
            for one in ast.literal_eval(said) if listed and name == "olympiadbench" else [said]:
                boxed = re.findall(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}", str(one))
                found[boxed[-1] if boxed else str(one).rpartition("####")[2].strip()] = None
    lines = "".join(json.dumps({"gold": gold}) + "\n" for gold in found if gold)
    (Path(out) / "golds.jsonl").write_text(lines, encoding="utf-8")
    print(len(found), "gold answers")


def _unique(row: Row) -> str:
    return digest("\0".join((row.kind, row.question, str(row.gold), row.text))).hex()


if __name__ == "__main__":
    golds(*sys.argv[1:3]) if sys.argv[3:] == ["golds"] else main(*sys.argv[1:])
