#!/usr/bin/env python3
"""Measure what needs a GPU: `python3 scripts/gpu.py [--model FOLDER] [--parts kernel,exact,...]`; `--device cpu --small` tries it.

    python3 scripts/gpu.py --model FOLDER             one CUDA GPU, PyTorch, Transformers, Triton; at most --minutes (8)
    python3 scripts/gpu.py --device cpu --small       all of it on a CPU, in environments of its own: that it works
    python3 scripts/gpu.py --pack DIR --model FOLDER  what a node without a network lacks, in pieces of --piece MiB
    python3 DIR/gpu.py                                on that node: joins the pieces that lie beside it, then as above

Each part prints its figure and writes OUT/PART.json as it goes; when one fails, the others go on.

    kernel   the entropy kernel: exact? its time beside a copy of the logits and beside a sampling step
    exact    entropies of a real model's tokens against a float64 forward
    sample   rollouts of E11's problems, in the file format of `dare-reward measure`
    grpo     30 steps of E8's bare form with TRL, by `dare` and `ttrl`, greedy before and after
    vllm     the plugin's entropies against a float32 forward, and tokens per second with it on and off
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MANIFEST = "manifest.json"
JOINED = HERE / "joined"  # on a node: what the pieces held
ROOT = JOINED / "tree" if (HERE / MANIFEST).is_file() else HERE.parent
PARTS = ("kernel", "exact", "sample", "grpo", "vllm")
SHARES = {"sample": 0.35, "grpo": 0.45}  # of --minutes, for the parts that could go on for hours
SOURCES = ("client", "service", "trainer")
TREE = (*SOURCES, "examples/real_model", "scripts", "tests/e2e/openrlhf", "tests/stacks/tiny.py")
THERE = ("torch", "triton", "transformers", "accelerate", "safetensors", "numpy")  # what the node has
NEEDED = ("dare-reward[service]", "trl", "peft", "datasets")


@dataclass(frozen=True)
class Job:
    """What a part is told. `figures` go to a file whenever one is known."""

    part: str
    device: str
    small: bool
    model: str | None
    out: str
    seconds: float

    def put(self, **figures: Any) -> None:
        path = Path(self.out) / f"{self.part}.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        made = path.with_suffix(".part")
        made.write_text(json.dumps(known | figures, indent=1), encoding="utf-8")
        made.replace(path)

    def say(self, text: str) -> None:
        print(f"{self.part}: {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="sizes for a CPU: shows that it works, measures nothing")
    parser.add_argument("--model", help="folder of a model for transformers (default: the packed one, else a tiny one)")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    parser.add_argument("--minutes", type=float, default=8)
    parser.add_argument("--pack", type=Path, metavar="DIR", help="write the pieces, and run nothing")
    parser.add_argument("--piece", type=int, default=48, help="MiB of a piece")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.job:
        return run_part(Job(**json.loads(given.job)))
    if unknown := sorted(set(given.parts.split(",")) - set(PARTS)):
        raise SystemExit(f"error: --parts: {', '.join(unknown)} is none of {', '.join(PARTS)}")
    if given.pack:
        return pack(given.pack, given.model, given.piece)
    if (HERE / MANIFEST).is_file() and not JOINED.is_dir():
        join(HERE, JOINED)
    return run_all(given)


# --- running ----------------------------------------------------------------------------------------------------------


def run_all(given: argparse.Namespace) -> int:
    """Every part in a process of its own; 1 if one failed."""
    packed = JOINED / "model"
    model = given.model or (str(packed) if packed.is_dir() else None)
    given.out.mkdir(parents=True, exist_ok=True)
    end, said = time.monotonic() + 60 * given.minutes, []
    for part in given.parts.split(","):
        seconds = 60 * given.minutes * SHARES.get(part, 1)
        job = Job(part, given.device, given.small, model, str(given.out.resolve()), seconds)
        (given.out / f"{part}.json").unlink(missing_ok=True)
        begun, left = time.monotonic(), end - time.monotonic()
        outcome = launched(job, left) if left > 0 else "not begun: no time was left"
        said.append(f"{part:7} {time.monotonic() - begun:5.0f} s  {outcome}")
    print(*said, f"figures: {given.out}", sep="\n", flush=True)
    return int(any("FAILED" in line or "not begun" in line for line in said))


def launched(job: Job, left: float) -> str:
    """What a part came to."""
    try:
        python = python_of(job)
        words = [str(python), str(Path(__file__).resolve()), "--job", json.dumps(asdict(job))]
        code = subprocess.run(words, env=environment_of(job), check=False, timeout=left).returncode
    except subprocess.TimeoutExpired:
        return "FAILED: stopped, for the time was over; what it knew is in its file"
    except (OSError, subprocess.CalledProcessError) as error:
        return f"FAILED: {error}"
    return {0: "done", 3: "left out: its packages are not here"}.get(code, f"FAILED with exit code {code}")


def python_of(job: Job) -> Path:
    """On a GPU this Python; on a CPU that of the environments in which the released stacks are tested."""
    if job.device == "cuda":
        return Path(sys.executable)
    sys.path.insert(0, str(ROOT / "scripts"))
    from _stacks import CPU_INDEX
    from test_openrlhf_loop import install as loop
    from test_stack import install as stack

    if job.part in {"kernel", "vllm"}:  # Triton and vLLM are there
        return loop(ROOT / ".openrlhf-loop", CPU_INDEX)
    return stack("trl", ROOT / ".stacks", CPU_INDEX, math.inf)


def environment_of(job: Job) -> dict[str, str]:
    paths = [str(ROOT / name) for name in SOURCES]
    site = JOINED / "site"  # the wheel with its entry points, TRL and what it needs
    paths = [str(site)] if site.is_dir() else paths
    own = {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if job.device == "cpu":
        own |= {"CUDA_VISIBLE_DEVICES": "", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        own |= {"TRITON_INTERPRET": "1"} if job.part == "kernel" else {}
    return os.environ | {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"} | own


def run_part(job: Job) -> int:
    try:
        RUN[job.part](job)
    except ModuleNotFoundError as error:
        job.say(f"left out: {error}")
        job.put(left_out=str(error))
        return 3
    return 0


# --- 1. the kernel ----------------------------------------------------------------------------------------------------


def kernel(job: Job) -> None:
    import numpy as np
    import torch

    from dare_trainer.vllm import entropy_torch

    own = entropy_torch._kernel()
    if own is None:
        raise ModuleNotFoundError("Triton")
    size, rows = (4_099, (4,)) if job.small else (151_936, (64, 256, 1024))
    for name in ("bfloat16", "float32"):
        x = torch.randn(max(rows), size, device=job.device).mul_(4).to(getattr(torch, name))
        x[::3, ::7] = -torch.inf
        heat = torch.linspace(0.5, 1.5, len(x), device=job.device)
        asked = np.arange(len(x)) % 2 == 0
        found, part = entropy_torch.entropy(x, heat), entropy_torch.entropy(x, heat, asked)
        error = max(
            float((found[k : k + 64] - in_float64(x[k : k + 64], heat[k : k + 64])).abs().max())
            for k in range(0, len(x), 64)
        )
        left = torch.from_numpy(asked).to(job.device)
        if (
            entropy_torch._failures
            or error > 1e-4
            or not torch.equal(part[left], found[left])
            or not part[~left].isnan().all()
        ):
            raise SystemExit(f"kernel: {name}: error {error:.2e} nats, {entropy_torch._failures}")
        job.say(f"{name}: largest error {error:.1e} nats over {len(x)} rows of {size}")
        job.put(**{f"{name} error": error})
        for count in rows:
            job.put(**{f"{name} {count} rows": timed_rows(job, own, x[:count], heat[:count], entropy_torch.GREEDY)})


def in_float64(logits: Any, heat: Any) -> Any:
    import torch

    return torch.special.entr(torch.softmax(logits.double() / heat.double()[:, None], -1)).sum(-1)


def timed_rows(job: Job, own: Any, x: Any, heat: Any, greedy: float) -> dict[str, float]:
    """Milliseconds of the kernel, alone and in a CUDA graph, of a copy of its logits, and of a sampling step."""
    import torch

    def sampled() -> Any:
        p = torch.softmax(x.float() / heat[:, None], -1)
        return p.div_(torch.empty_like(p).exponential_()).argmax(-1)

    own_time = milliseconds(job, lambda: own.entropy(x, heat, None, greedy=greedy))
    copy, step = milliseconds(job, x.clone), milliseconds(job, sampled)
    figures = {"kernel_ms": own_time, "copy_ms": copy, "sampling_step_ms": step, "bytes": x.numel() * x.element_size()}
    if x.is_cuda:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            inside = own.entropy(x, heat, None, greedy=greedy)
        graph.replay()
        figures["graph_ms"] = milliseconds(job, graph.replay)
        if not torch.equal(inside, own.entropy(x, heat, None, greedy=greedy)):
            raise SystemExit("kernel: inside a CUDA graph it computes something else")
    # A copy reads and writes each byte; the kernel reads it once.
    figures["share_of_the_copys_bandwidth"] = copy / 2 / own_time
    job.say(
        f"{len(x)} rows, {x.dtype}: {own_time:.3f} ms, {copy / 2 / own_time:.0%} of a copy's bandwidth, {own_time / step:.0%} of a sampling step"
    )
    return figures


def milliseconds(job: Job, work: Callable[[], Any]) -> float:
    import torch

    if job.device == "cpu":
        begun = time.perf_counter()
        work()
        return 1000 * (time.perf_counter() - begun)
    for _ in range(3):
        work()
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    first.record()
    for _ in range(20):
        work()
    last.record()
    torch.cuda.synchronize()
    return float(first.elapsed_time(last)) / 20


# --- 2. exact entropies of a real model -------------------------------------------------------------------------------


def exact(job: Job) -> None:
    import torch

    from dare_trainer.vllm import entropy_torch

    model, tokenizer = loaded(job)
    wide = type(model).from_pretrained(folder_of(job), dtype=torch.float64).to(job.device).eval()
    wanted, done, arithmetic, format_, level = (600 if job.small else 10_000), 0, [], [], []
    for problem in problems():
        ids = torch.tensor([tokenizer(problem["prompt"])["input_ids"][:512]], device=job.device)
        if ids.shape[1] < 2:
            continue
        with torch.no_grad():
            logits, plain = model(ids).logits[0], wide(ids).logits[0]
        found = entropy_torch.entropy(logits).double()
        one = torch.ones(len(logits), device=job.device)
        truth = in_float64(plain, one)
        arithmetic.append((found - in_float64(logits, one)).abs())
        format_.append((found - truth).abs())
        level.append(truth)
        done += len(found)
        if done >= wanted:
            break
    gaps = {"arithmetic": torch.cat(arithmetic), "number format": torch.cat(format_)}
    figures = {f"{name} {what}": float(getattr(gap, what)()) for name, gap in gaps.items() for what in ("mean", "max")}
    job.put(tokens=done, dtype=str(model.dtype), mean_entropy=float(torch.cat(level).mean()), **figures)
    job.say(
        f"{done} tokens, {model.dtype}: {figures['arithmetic max']:.1e} nats at most by arithmetic, {figures['number format mean']:.1e} on average by the number format"
    )
    if figures["arithmetic max"] > 3e-4:
        raise SystemExit("exact: the plugin's arithmetic is off")


def folder_of(job: Job) -> str:
    """The model's folder; a tiny model is made where none was named."""
    if job.model:
        return job.model
    made = Path(job.out) / "tiny"
    if not (made / "config.json").is_file():
        maker = ROOT / "tests" / "stacks" / "tiny.py"
        subprocess.run([sys.executable, str(maker), str(made)], check=True)
    return str(made)


def loaded(job: Job) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = folder_of(job)
    dtype = torch.bfloat16 if job.device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype).to(job.device).eval()
    job.put(model=Path(folder).name, device=torch.cuda.get_device_name() if job.device == "cuda" else "cpu")
    return model, AutoTokenizer.from_pretrained(folder)


def problems() -> list[dict[str, Any]]:
    path = ROOT / "examples" / "real_model" / "mathematics.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# --- 3. sampling ------------------------------------------------------------------------------------------------------


def sample(job: Job) -> None:
    """Batches of problems until the time is over; the file is one of `measure`, greedy control included."""
    import torch

    from dare_trainer.evaluation.rollout_file import MeasurePlan, RolloutFile
    from dare_trainer.launch.questions import load_own

    model, tokenizer = loaded(job)
    torch.manual_seed(0)
    asked = load_own(ROOT / "examples" / "real_model" / "mathematics.jsonl")[: 3 if job.small else 300]
    rollouts, longest, at_once = (4, 24, 2) if job.small else (32, 768, 32)
    plan = MeasurePlan(model=Path(folder_of(job)).name, data="own", rollouts=rollouts, max_tokens=longest, top_p=1.0)
    out = Path(job.out) / "rollouts.jsonl"
    out.unlink(missing_ok=True)
    file = RolloutFile(out, asdict(plan), {q.id: q.asks() for q in asked})
    begun, tokens = time.monotonic(), 0
    for start in range(0, len(asked), at_once):
        part = asked[start : start + at_once]
        prompts = [prompt_ids(tokenizer, plan.sent(q)) for q in part]
        greedy = drawn(job, model, tokenizer, prompts, 1, longest, temperature=0.0)
        groups = drawn(job, model, tokenizer, prompts, rollouts, longest, temperature=1.0)
        for question, prompt, many, (alone,) in zip(part, prompts, groups, greedy, strict=True):
            if start == 0 and question is part[0]:
                checked(job, model, prompt, many[0])
            how: dict[str, Any] = {"entropy_source": "exact", "entropy_mode": "temperature"}
            file.add(question.group(many, alone, temperature=1.0, top_p=1.0, **how))
            tokens += sum(len(r["token_ids"]) for r in (*many, alone))
        seconds = time.monotonic() - begun
        job.put(problems=start + len(part), rollouts=rollouts, tokens=tokens, tokens_per_second=tokens / seconds)
        job.say(f"{start + len(part)} problems x {rollouts}, {tokens / seconds:.0f} tokens/s")
        if seconds * (1 + at_once / (start + at_once)) > job.seconds:
            break


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    talk = [{"role": "user", "content": text}]
    shown = (
        tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        if tokenizer.chat_template
        else text
    )
    return list(tokenizer(shown, add_special_tokens=False)["input_ids"])


def drawn(
    job: Job,
    model: Any,
    tokenizer: Any,
    prompts: Sequence[Sequence[int]],
    each: int,
    longest: int,
    *,
    temperature: float,
) -> list[list[dict[str, Any]]]:
    """`each` rollouts of every prompt with exact entropies, from one static cache. Greedy at temperature 0."""
    import torch
    from transformers import StaticCache

    from dare_trainer.vllm import entropy_torch

    rows, width = len(prompts) * each, max(map(len, prompts))
    ends = model.generation_config.eos_token_id
    ends = torch.tensor(
        sorted({*(ends if isinstance(ends, list) else [ends]), tokenizer.eos_token_id} - {None}), device=job.device
    )
    left = [[int(ends[0])] * (width - len(p)) + list(p) for p in prompts for _ in range(each)]
    seen = [[0] * (width - len(p)) + [1] * len(p) for p in prompts for _ in range(each)]
    ids = torch.tensor(left, device=job.device)
    mask = torch.zeros(rows, width + longest, dtype=torch.long, device=job.device)
    mask[:, :width] = torch.tensor(seen, device=job.device)
    place = (mask[:, :width].cumsum(1) - 1).clamp(min=0)
    cache = StaticCache(config=model.config, max_cache_len=width + longest)
    shared: dict[str, Any] = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
    made = torch.zeros(3, rows, longest, dtype=torch.float64, device=job.device)
    alive, count = (
        torch.ones(rows, dtype=torch.bool, device=job.device),
        torch.zeros(rows, dtype=torch.long, device=job.device),
    )
    with torch.no_grad():
        logits = model(input_ids=ids, attention_mask=mask[:, :width], position_ids=place, **shared).logits[:, -1]
        place = place[:, -1:]
        for t in range(longest):
            logp = logits.float().log_softmax(-1)
            noise = (
                torch.empty_like(logp).exponential_().log_() if temperature else 0.0
            )  # Gumbel: argmax of log p - log e
            token = (logp - noise).argmax(-1, keepdim=True)
            made[0, :, t], made[1, :, t] = token[:, 0].double(), entropy_torch.entropy(logits).double()
            made[2, :, t] = logp.gather(1, token)[:, 0].double()
            count += alive
            alive &= ~torch.isin(token[:, 0], ends)
            if t % 16 == 15 and not alive.any():
                break
            if t + 1 < longest:
                mask[:, width + t], place = 1, place + 1
                logits = model(
                    input_ids=token, attention_mask=mask[:, : width + t + 1], position_ids=place, **shared
                ).logits[:, -1]
    lengths, values, ended = count.tolist(), made.cpu(), (~alive).tolist()
    flat = [rollout(tokenizer, values[:, k, :n], ended[k]) for k, n in enumerate(lengths)]
    return [flat[start : start + each] for start in range(0, rows, each)]


def rollout(tokenizer: Any, values: Any, ended: bool) -> dict[str, Any]:
    """A rollout of `measure --tokens`."""
    from dare_reward.openrlhf import AnswerRules
    from dare_reward.stacks.rollout import answer_tokens

    ids = [int(v) for v in values[0].tolist()]
    out: dict[str, Any] = {
        "text": tokenizer.decode(ids, skip_special_tokens=True),
        "finish_reason": "stop" if ended else "length",
    }
    out |= {"token_ids": ids, "token_entropies": [round(max(v, 0.0), 6) for v in values[1].tolist()]}
    out["token_logprobs"] = [round(min(v, 0.0), 6) for v in values[2].tolist()]
    span, _ = answer_tokens(out, ids, tokenizer=tokenizer, rules=AnswerRules({}, "math"))
    return out if span is None else out | {"answer_tokens": list(span)}


def checked(job: Job, model: Any, prompt: Sequence[int], own: dict[str, Any]) -> None:
    """The cache computed what one forward computes."""
    import torch

    ids = torch.tensor([[*prompt, *own["token_ids"]]], device=job.device)
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1]
    plain = in_float64(logits, torch.ones(len(logits), device=job.device)).cpu()
    gap = float((plain - torch.tensor(own["token_entropies"], dtype=torch.float64)).abs().mean())
    job.put(cache_against_forward=gap)
    if gap > (0.05 if job.device == "cuda" else 1e-3):
        raise SystemExit(f"sample: the cache is off by {gap:.3f} nats a token")


# --- 4. training ------------------------------------------------------------------------------------------------------


def grpo(job: Job) -> None:
    """Runs of examples/real_model/train.py, shortest first; each is a record as E8's."""
    import trl

    plan = json.loads((ROOT / "examples" / "real_model" / "forms.json").read_text(encoding="utf-8"))
    text, folder = plan["forms"]["bare"], Path(job.out) / "grpo"
    folder.mkdir(exist_ok=True)
    lines = (ROOT / "examples" / "real_model" / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    rows = list(map(json.loads, lines))
    rows = [row for row in rows if row["id"].endswith(("01", "02", "03"))] if job.small else rows
    shots = {f: "".join(text["shot"].format(**shot) for shot in those) for f, those in plan["shots"].items()}
    asked = [
        row | {"asked": shots[row["family"]] * (not job.small) + text["ask"].format(question=row["prompt"])}
        for row in rows
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked), encoding="utf-8")
    sizes = {"steps": 2, "prompts": 2, "size": 4, "evaluated": 2, "unseen": 1} if job.small else {}
    begun, done = time.monotonic(), 0
    with serving() as url:
        for seed in range(1 if job.small else 3):
            for arm in ("ttrl", "dare"):
                if done and (time.monotonic() - begun) * (1 + 1 / done) > job.seconds:
                    job.say(f"stopped after {done} runs: the time is over")
                    return
                name = f"{arm}-{seed}"
                task = {"form": "bare", "arm": arm, "seed": seed, "model": folder_of(job), "rollouts": None, "url": url, "stop": text["stop"],
                        "questions": str(folder / "questions.jsonl"), "max_tokens": text["max_tokens"], "folder": str(folder / name),
                        "record": str(folder / f"{name}.json"), "before": str(folder / "before.json"), "device": job.device, **sizes}  # fmt: skip
                (folder / name).mkdir(exist_ok=True)
                (folder / f"{name}.task").write_text(json.dumps(task), encoding="utf-8")
                subprocess.run(
                    [sys.executable, ROOT / "examples" / "real_model" / "train.py", folder / f"{name}.task"], check=True
                )
                done += 1
                told(job, name, json.loads((folder / f"{name}.json").read_text(encoding="utf-8")), trl.__version__)


def told(job: Job, name: str, record: dict[str, Any], version: str) -> None:
    known = [n for n in record["before"] if n not in set(record["unseen"])]
    mean = {
        when: sum(record[when][n] for n in known) / len(known) / record["evaluated"] for when in ("before", "after")
    }
    greedy = {
        when: sum(record["controls"][when]["greedy"][n] for n in known) / len(known) for when in ("before", "after")
    }
    job.put(trl=version, **{name: {"pass@1": mean, "greedy": greedy, "seconds": record["seconds"]}})
    job.say(
        f"{name}: pass@1 {mean['before']:.1%} to {mean['after']:.1%}, greedy {greedy['before']:.1%} to {greedy['after']:.1%}, {record['seconds']} s"
    )


class serving:  # noqa: N801
    """`dare-reward serve` on a free port, for the time of a block."""

    def __enter__(self) -> str:
        words = [sys.executable, "-m", "dare_reward", "serve", "--port", "0"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env={**os.environ, "DARE_LOG": "error"}
        )
        line = self.process.stdout.readline() if self.process.stdout else ""
        if "listens on " not in line:
            raise SystemExit("grpo: the service did not start, see above")
        return line.split("listens on ")[1].strip()

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(30)


# --- 5. vLLM ----------------------------------------------------------------------------------------------------------


def vllm(job: Job) -> None:
    import numpy as np
    import vllm as installed

    folder, model = ROOT / "tests" / "e2e" / "openrlhf", folder_of(job)
    options = json.dumps(
        {"n": 4 if job.small else 64, "tokens": 16 if job.small else 128, "temperature": 1.0, "time": 1}
    )
    made, scored, speed = Path(job.out) / "made.json", Path(job.out) / "scored.json", {}
    for mode in ("off", "temperature"):
        environment = os.environ | {"VLLM_TOKEN_ENTROPY": mode, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
        subprocess.run([sys.executable, folder / "generate.py", model, made, options], check=True, env=environment)
        seconds = json.loads(made.read_text(encoding="utf-8"))["seconds"]
        speed[mode] = json.loads(options)["n"] * json.loads(options)["tokens"] / seconds
    subprocess.run([sys.executable, folder / "rescore.py", model, made, scored, "1.0"], check=True)
    rows = json.loads(made.read_text(encoding="utf-8"))["rows"]
    if said := next((row["entropies"] for row in rows if isinstance(row["entropies"], str)), None):
        raise SystemExit(f"vllm: {said}")
    found = np.concatenate([row["entropies"] for row in rows])
    wanted = np.concatenate(json.loads(scored.read_text(encoding="utf-8"))["rows"])
    error = float(abs(found - wanted).max())
    job.put(vllm=installed.__version__, tokens=len(found), error=error, tokens_per_second=speed)
    job.say(
        f"{len(found)} tokens, largest error {error:.1e} nats; {speed['off']:.0f} tokens/s without the plugin, {speed['temperature']:.0f} with it"
    )
    if error > 1e-2:
        raise SystemExit("vllm: the plugin's entropies are off")


RUN = {"kernel": kernel, "exact": exact, "sample": sample, "grpo": grpo, "vllm": vllm}


# --- for a node without a network -------------------------------------------------------------------------------------


def pack(target: Path, model: str | None, piece: int) -> int:
    """This script, and in pieces the sources, the packages that the node lacks, and the model."""
    target.mkdir(parents=True, exist_ok=True)
    if any(target.iterdir()):
        raise SystemExit(f"error: {target} is not empty: name another folder")
    with tempfile.TemporaryDirectory(dir=target) as made:
        folder = Path(made)
        for name in TREE:
            for path in tracked(name):
                (folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / path, folder / "tree" / path)
        packages(folder)
        if model:
            shutil.copytree(Path(model).resolve(), folder / "model")
        whole = folder / "whole.tar"
        with tarfile.open(whole, "w") as archive:
            for name in ("tree", "site", "model"):
                if (folder / name).is_dir():
                    archive.add(folder / name, name)
        count = split(whole, target, piece << 20)
    shutil.copyfile(__file__, target / "gpu.py")
    print(f"{count} pieces in {target}. Copy the folder to the node, and run there: python3 gpu.py")
    return 0


def tracked(name: str) -> list[str]:
    done = subprocess.run(["git", "ls-files", "-z", name], cwd=ROOT, check=True, capture_output=True, text=True)
    return [path for path in done.stdout.split("\0") if path]


LIST = """
import json, re, sys
from importlib.metadata import requires, version
from packaging.requirements import Requirement
def closure(names):
    seen, waiting = {}, [Requirement(n) for n in names]
    while waiting:
        r = waiting.pop()
        key = re.sub(r"[-_.]+", "-", r.name).lower()
        if seen.get(key, set()) >= r.extras and key in seen: continue
        seen[key] = seen.get(key, set()) | r.extras
        try: found = requires(r.name) or []
        except Exception: del seen[key]; continue
        for each in map(Requirement, found):
            if each.marker is None or any(each.marker.evaluate({"extra": e}) for e in ("", *r.extras)): waiting.append(each)
    return set(seen)
there, needed = map(json.loads, sys.argv[1:])
print(json.dumps([f"{n}=={version(n)}" for n in sorted(closure(needed) - closure(there) - {"dare-reward"})]))
"""


def packages(folder: Path) -> None:
    """The wheels that a node with THERE lacks, opened into `site`, with the wheel of this project."""
    python = str(python_of(Job("grpo", "cpu", True, None, "", 0)))
    words = [python, "-c", LIST, json.dumps(THERE), json.dumps(NEEDED)]
    names = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
    print("packing", *names, flush=True)
    pip = [python, "-m", "pip", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder / "wheels"), *names],
        check=True,
    )
    subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(folder / "wheels"), str(ROOT)], check=True)
    for wheel in sorted((folder / "wheels").glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder / "site")


def split(whole: Path, target: Path, size: int) -> int:
    """Pieces of at most `size` bytes, and a manifest with the hash of each."""
    pieces: dict[str, str] = {}
    with whole.open("rb") as source:
        while content := source.read(size):
            name = f"piece-{len(pieces):04}"
            (target / name).write_bytes(content)
            pieces[name] = hashlib.sha256(content).hexdigest()
    (target / MANIFEST).write_text(
        json.dumps({"python": sys.version.split()[0], "pieces": pieces}, indent=1), encoding="utf-8"
    )
    return len(pieces)


def join(folder: Path, target: Path) -> None:
    """What the pieces in `folder` hold; one that is missing or was damaged is named."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    if (packed := manifest["python"].rsplit(".", 1)[0]) != (own := "{}.{}".format(*sys.version_info)):
        print(
            f"warning: packed for Python {packed}, and this is {own}: packages with compiled parts may not load",
            file=sys.stderr,
        )
    whole, made = folder / "whole.tar", target.with_name(target.name + ".part")
    with whole.open("wb") as out:
        for content in sound(folder, manifest["pieces"]):
            out.write(content)
    shutil.rmtree(made, ignore_errors=True)
    with tarfile.open(whole) as archive:
        archive.extractall(made, filter="data")
    whole.unlink()
    made.rename(target)


def sound(folder: Path, pieces: dict[str, str]) -> Iterator[bytes]:
    for name, digest in pieces.items():
        path = folder / name
        content = path.read_bytes() if path.is_file() else None
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise SystemExit(f"error: {path} is {'missing' if content is None else 'damaged'}: copy it again")
        yield content


if __name__ == "__main__":
    sys.exit(main())
