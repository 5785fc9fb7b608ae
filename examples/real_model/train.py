"""One training run of `run.py --train`: TRL's GRPOTrainer with LoRA, its rewards from the running service.

    python train.py TASK.json

TASK.json is written by `run.py`; what it holds is `Task`. The record of the run goes to `task.record` once the run has
ended; a cut run goes on from the last checkpoint in `task.folder`. One process, one thread.

A question's rollouts share its prompt of some hundred tokens and end after three. So the sampler and the trainer's
forward compute each prompt once and no padding: the same numbers as TRL's own forward
(tests/stacks/test_trl_real_model.py) in a third of the time.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.update(HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1", PYTHONWARNINGS="ignore")

import torch
from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer

from dare_reward.analysis.calibrate import calibrate
from dare_reward.answers import grade
from dare_reward.answers.labels import read_labels
from dare_reward.answers.rollouts import read_answers
from dare_reward.commands.labelled import read_labelled
from dare_reward.openrlhf import AnswerRules
from dare_reward.stacks.rollout import answer_tokens
from dare_reward.stacks.trl import DareReward

Row = dict[str, Any]
UNSEEN = 15  # questions of a family that no run trains on
LABELLED = 60  # questions whose labels are rewards, in the arms that have some
FITTED = 32  # questions whose labels choose the exponent of `calibrated_vote`
CONTROLS = {"greedy": (0.0, 1), "0.3": (0.3, 4), "0.6": (0.6, 4)}  # temperature, rollouts: what decoding alone does
ASKED = "asked"  # the dataset's column of a question and whether its label is sent, in JSON
RECORDED = ("form", "arm", "seed", "steps", "prompts", "size", "evaluated", "rate", "rank")
KEPT = ("reward", "reward_std", "loss", "grad_norm", "entropy", "completions/mean_length", "step_time")


@dataclass(frozen=True)
class Task:
    """What one run does.

    arm         a method, `ppc`, `dare_answer`, `gt_quarter` (labels as rewards), or `both` (labels, and
                `calibrated_vote` for the others)
    questions   rows of `run.py`, with what the model is sent (`asked`)
    rollouts    the untrained model's, from which `calibrate` chooses an exponent; None if there are none
    before      right rollouts of the untrained model, shared by the runs of a form; its controls stand beside
    unmarked    whether a text that announces no answer has one, as in `dare_reward`
    size        rollouts of a question in training; `evaluated`: in the evaluations
    """

    form: str
    arm: str
    seed: int
    model: str
    questions: str
    rollouts: str | None
    stop: Sequence[str]
    max_tokens: int
    url: str
    folder: str
    record: str
    before: str
    steps: int = 30
    prompts: int = 8
    size: int = 16
    evaluated: int = 16
    rate: float = 1e-4
    rank: int = 16
    unseen: int = UNSEEN
    unmarked: str = "sentence"
    device: str = "cpu"


# --- which questions, and what is asked for each ---------------------------------------------------------------------


def split(rows: Iterable[Row], unseen: int = UNSEEN) -> tuple[list[Row], list[Row]]:
    """Adapted and unseen questions: of each family the `unseen` with the lowest SHA-256 of `e8:` and the id."""
    families: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: hashlib.sha256(f"e8:{row['id']}".encode()).hexdigest()):
        families[row["family"]].append(row)
    return (
        [row for family in families.values() for row in family[unseen:]],
        [row for family in families.values() for row in family[:unseen]],
    )


def labelled(adapted: Sequence[Row], seed: int) -> list[Row]:
    """The questions of a seed whose labels may be used, in random order."""
    return random.Random(f"labels:{seed}").sample(list(adapted), min(LABELLED, len(adapted)))  # noqa: S311


def schedule(task: Task, adapted: Sequence[Row]) -> list[tuple[Row, bool]]:
    """Each step's questions in turn, and whether the label of each is sent: what the run may know."""
    count, rng = task.steps * task.prompts, random.Random(f"order:{task.seed}")  # noqa: S311
    known = labelled(adapted, task.seed)
    if task.arm == "gt_quarter":
        return [(row, True) for row in passes(known, count, rng)]
    if task.arm == "both":
        ids = {row["id"] for row in known}
        others = passes([row for row in adapted if row["id"] not in ids], count - count // 2, rng)
        pairs = zip(others, passes(known, count // 2, rng), strict=False)
        return [each for other, row in pairs for each in ((other, False), (row, True))]
    return [(row, True) for row in passes(adapted, count, rng)]


def method_of(arm: str, exponent: float | None) -> Row:
    """What an arm asks the service for; where it trains on labels, whatever else has none is left to the vote."""
    fitted = {"method": "calibrated_vote", "exponent": exponent}
    own: Mapping[str, Row] = {
        "gt_quarter": {"method": "gt"},
        "both": {**fitted, "labelled": "gt"},
        "calibrated_vote": fitted,
        "ppc": {"method": "perplexity_consistency"},
        "dare_answer": {"method": "dare", "over": "answer"},
    }
    return own.get(arm, {"method": arm})


def passes(rows: Sequence[Row], count: int, rng: random.Random) -> list[Row]:
    """`count` rows: whole passes in an order of their own, the last one cut."""
    out: list[Row] = []
    while len(out) < count:
        out += rng.sample(list(rows), len(rows))
    return out[:count]


def chosen_exponent(task: Task, adapted: Sequence[Row]) -> float | None:
    """What `calibrate` chooses by the labels of this seed on the untrained model's rollouts; None without need."""
    if task.arm not in {"calibrated_vote", "both"}:
        return None
    if task.rollouts is None:
        raise SystemExit(f"error: {task.arm} needs the untrained model's rollouts: run without --train first")
    known = labelled(adapted, task.seed)
    names = {row["id"] for row in (known if task.arm == "both" else known[:FITTED])}
    data = read_labelled(task.rollouts, only=names, reading={"unmarked": task.unmarked})
    return float(calibrate(data.groups, data.correct_R).exponent)


# --- answers ---------------------------------------------------------------------------------------------------------


def cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop string, which is all that the sampling engine returns."""
    return text[: min((at for s in stop if (at := text.find(s)) >= 0), default=len(text))]


def answered(rollout: Mapping[str, Any], row: Row, unmarked: str) -> tuple[str | None, bool]:
    """Its answer, read as the service reads it, and whether it is one of the accepted spellings."""
    answer = read_answers([rollout], [False], kind=row["kind"], unmarked=unmarked)[0].answer
    return answer, grade(answer, read_labels(row["accepted"], kind=row["kind"]), kind=row["kind"])


class Reward(DareReward):
    """The adapter, with each question's kind, and its label where the run may know it. Texts end at the stop string.

    `correct` is a diagnostic, and what the method `gt` pays.
    """

    def __init__(self, url: str, *, stop: Sequence[str], **settings: Any) -> None:
        super().__init__(url, **settings)
        self.stop, self.unmarked = stop, settings["unmarked"]

    def _rows(self, trainer: Any, prompts: Any, completions: Any, columns: Mapping[str, Any]) -> list[Row]:
        rows = super()._rows(trainer, prompts, completions, columns)
        for row, ids, asked in zip(rows, columns["completion_ids"], columns[ASKED], strict=True):
            row["text"] = cut(row["text"], self.stop)
            if self.scorer.reads_answers:
                rules = AnswerRules(dict(self.scorer.params), json.loads(asked)[0]["kind"])
                span, _ = answer_tokens(row, ids, tokenizer=trainer.processing_class, rules=rules)
                row |= {} if span is None else {"answer_tokens": list(span)}  # noqa: PLW2901
            row[ASKED] = asked
        return rows

    def _groups(self, trainer: Any, rows: Sequence[Mapping[str, Any]]) -> list[Any]:
        groups = super()._groups(trainer, [{k: v for k, v in row.items() if k != ASKED} for row in rows])
        for group, asked in zip(groups, [row[ASKED] for row in rows][:: len(rows) // len(groups)], strict=True):
            question, known = json.loads(asked)
            group["kind"] = question["kind"]
            if known:
                group["label"] = question["label"]
                for rollout in group["rollouts"]:
                    rollout["correct"] = answered(rollout, question, self.unmarked)[1]
        return groups


# --- the model: each prompt is computed once -------------------------------------------------------------------------


@dataclass
class Sampled:
    ids: list[int]
    entropies: list[float]
    logprobs: list[float]
    finish_reason: str


class Sampler:
    """Rollouts with the entropy of every token in nats, full vocabulary; they end as the form says."""

    def __init__(self, tokenizer: Any, stop: Sequence[str], longest: int) -> None:
        self.tokenizer, self.stop, self.longest = tokenizer, stop, longest

    def __call__(
        self, model: Any, prompts: Sequence[Sequence[int]], each: int, temperature: float = 1.0
    ) -> list[list[Sampled]]:
        """`each` rollouts of every prompt: what all begin with, then each rest, padded on the left.

        At temperature 0 the likeliest token; entropies are then those of temperature 1.
        """
        end, device, cache = self.tokenizer.eos_token_id, model.device, DynamicCache(config=model.config)
        low, high = min(prompts)[:-1], max(prompts)[:-1]
        common = list(low[: next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), len(low))])
        rests = [list(prompt[len(common) :]) for prompt in prompts]
        width = max(map(len, rests))
        ids = torch.tensor([[end] * (width - len(rest)) + rest for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * len(common) + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        rows = [Sampled([], [], [], "length") for _ in prompts for _ in range(each)]
        with torch.no_grad():
            place = (mask.cumsum(1) - 1).clamp(min=0)[:, len(common) :]
            shared: Any = {"past_key_values": cache, "use_cache": True, "logits_to_keep": 1}
            if common:
                model(input_ids=torch.tensor([common], device=device), **shared)
                cache.batch_repeat_interleave(len(prompts))
            logits = model(input_ids=ids, attention_mask=mask, position_ids=place, **shared).logits[:, -1]
            cache.batch_repeat_interleave(each)
            logits, mask = logits.repeat_interleave(each, 0), mask.repeat_interleave(each, 0)
            place = place[:, -1:].repeat_interleave(each, 0)
            live: list[Sampled | None] = list(rows)
            for length in range(1, self.longest + 1):
                logp = (logits.float() / (temperature or 1.0)).log_softmax(-1)
                chosen = drawn(logp) if temperature else logp.argmax(-1, keepdim=True)
                entropy, gains = -(logp.exp() * logp).sum(-1), logp.gather(1, chosen)[:, 0]
                for k, (row, token, h, gain) in enumerate(
                    zip(live, chosen[:, 0].tolist(), entropy.tolist(), gains.tolist(), strict=True)
                ):
                    if row is None:
                        continue
                    row.ids.append(token)
                    row.entropies.append(max(h, 0.0))
                    row.logprobs.append(min(gain, 0.0))
                    if token == end or any(s in self.tokenizer.decode(row.ids) for s in self.stop):
                        row.finish_reason, live[k] = "stop", None
                keep = [k for k, row in enumerate(live) if row is not None]
                if not keep or length == self.longest:
                    break
                if len(keep) < 0.9 * len(live):  # a few rows in vain cost less than copying all others
                    left = torch.tensor(keep, device=device)
                    cache.batch_select_indices(left)
                    chosen, mask, place, live = chosen[left], mask[left], place[left], [live[k] for k in keep]
                mask, place = torch.cat([mask, mask.new_ones(len(mask), 1)], 1), place + 1
                logits = model(input_ids=chosen, attention_mask=mask, position_ids=place, **shared).logits[:, -1]
        return [rows[start : start + each] for start in range(0, len(rows), each)]

    def text(self, rollout: Sampled) -> str:
        return cut(self.tokenizer.decode(rollout.ids, skip_special_tokens=True), self.stop)


def drawn(logp: Any) -> Any:
    """A token of each row, [B, 1], by one random number a row, where `torch.multinomial` draws one a token."""
    total = logp.double().exp().cumsum(-1)
    return torch.searchsorted(total, torch.rand(len(logp), 1, dtype=total.dtype, device=logp.device) * total[:, -1:])


class SharedPrompts(GRPOTrainer):  # type: ignore[misc]
    """GRPOTrainer whose forward computes each prompt of a batch once, and no padding."""

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *_: Any, **__: Any
    ) -> tuple[Any, Any, None]:
        prompts: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for row, (ids, mask) in enumerate(zip(input_ids, attention_mask, strict=True)):
            prompts[tuple(ids[:-logits_to_keep][mask[:-logits_to_keep] > 0].tolist())].append(row)
        used = attention_mask[:, -logits_to_keep:] > 0
        logps, entropies = torch.zeros(2, *used.shape, device=used.device).unbind()
        for prompt, rows in prompts.items():
            completions = [input_ids[row, -logits_to_keep:][used[row]] for row in rows]
            places = torch.zeros_like(used).index_copy(0, torch.tensor(rows, device=used.device), used[rows])
            logp, entropy = completion_logps(model, torch.tensor(prompt, device=used.device), completions)
            logps, entropies = logps.masked_scatter(places, logp), entropies.masked_scatter(places, entropy.detach())
        return logps, entropies, None


def completion_logps(model: Any, prompt: Any, completions: Sequence[Any]) -> tuple[Any, Any]:
    """Log-probability and entropy of each token of one prompt's completions, one after the other.

    All are one sequence, in which a completion sees the prompt and itself.
    """
    ids, first = torch.cat([prompt, *completions]), len(prompt)
    lengths = torch.tensor([first, *map(len, completions)], device=ids.device)
    part = torch.arange(len(lengths), device=ids.device).repeat_interleave(lengths)
    starts = lengths.cumsum(0) - lengths
    place = torch.arange(len(ids), device=ids.device)
    position = place - (starts - first * (starts > 0)).repeat_interleave(lengths)
    sees = ((part[:, None] == part) | (part == 0)).tril()
    before = torch.where(position == first, first - 1, place - 1)[first:]
    logits = model(
        input_ids=ids[None],
        attention_mask=sees[None, None],
        position_ids=position[None],
        logits_to_keep=before,
        use_cache=False,
    ).logits[0]
    logp = logits.float().log_softmax(-1)
    return logp.gather(1, ids[first:, None])[:, 0], -(logp.exp() * logp).sum(-1)


# --- the run ---------------------------------------------------------------------------------------------------------


def evaluate(
    model: Any, sampler: Sampler, rows: Sequence[Row], task: Task, *, what: str, how: tuple[float, int] | None = None
) -> tuple[Row, Row]:
    """Right rollouts of each question, and how often it has each answer.

    how   temperature and rollouts; None: temperature 1, `task.evaluated`
    """
    temperature, each = how or (1.0, task.evaluated)
    torch.manual_seed(task.seed)
    right, tally, begun = {}, {}, time.monotonic()
    for start in range(0, len(rows), task.unseen):  # of one family each, whose prompts begin alike
        part = rows[start : start + task.unseen]
        ids = [sampler.tokenizer(row["asked"])["input_ids"] for row in part]
        groups = sampler(model, ids, each, temperature)
        for row, group in zip(part, groups, strict=True):
            rollouts = [{"text": sampler.text(r), "finish_reason": r.finish_reason} for r in group]
            answers, grades = zip(*(answered(r, row, task.unmarked) for r in rollouts), strict=True)
            right[row["id"]] = sum(grades)
            tally[row["id"]] = dict(Counter(a or "" for a in answers).most_common())
        done = start + len(part)
        progress(f"{what}: {done} of {len(rows)} questions", begun, done / len(rows))
    return right, tally


def controls(model: Any, sampler: Sampler, rows: Sequence[Row], task: Task, what: str) -> dict[str, Row]:
    """Right rollouts of each question by each of CONTROLS."""
    return {
        name: evaluate(model, sampler, rows, task, what=f"{what}, {name}", how=how)[0] for name, how in CONTROLS.items()
    }


def progress(what: str, begun: float, share: float) -> None:
    left = (time.monotonic() - begun) * (1 - share) / share / 60
    print(f"{what}, about {left:.0f} min left", flush=True)


def trained(
    model: Any, sampler: Sampler, plan: Sequence[tuple[Row, bool]], task: Task, exponent: float | None
) -> list[dict[str, float]]:
    """Train `model` with LoRA in place of its linear layers; TRL's log of every step."""
    begun = time.monotonic()

    class Progress(TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, _args: Any, state: Any, _control: Any, **_: Any) -> None:
            share = (state.global_step - first) / (task.steps - first)
            progress(f"step {state.global_step} of {task.steps}", begun, share)

    def rollouts(prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        ids = sampler.tokenizer(list(prompts))["input_ids"]
        groups = sampler(trainer.accelerator.unwrap_model(trainer.model), ids[:: task.size], task.size)
        flat = [r for group in groups for r in group]
        return {
            "prompt_ids": ids,
            "completion_ids": [r.ids for r in flat],
            "logprobs": None,  # TRL's, for its importance weights; the service gets the ones below
            "sampled_logprobs": [r.logprobs for r in flat],
            "token_entropies": [r.entropies for r in flat],
            "finish_reason": [r.finish_reason for r in flat],
        }

    folder = Path(task.folder)
    config = GRPOConfig(
        output_dir=str(folder / "checkpoints"),
        use_cpu=task.device == "cpu",
        bf16=False,
        per_device_train_batch_size=task.prompts * task.size,
        num_generations=task.size,
        max_completion_length=task.max_tokens,
        max_steps=task.steps,
        learning_rate=task.rate,
        lr_scheduler_type="linear",
        beta=0.0,
        temperature=1.0,
        gradient_checkpointing=False,
        shuffle_dataset=False,
        logging_steps=1,
        save_strategy="steps",
        save_steps=5,
        save_total_limit=1,
        report_to=[],
        disable_tqdm=True,
        seed=task.seed,
    )
    trainer = SharedPrompts(
        model=model,
        processing_class=sampler.tokenizer,
        reward_funcs=Reward(
            task.url,
            stop=task.stop,
            **method_of(task.arm, exponent),
            unmarked=task.unmarked,
            run=folder.name,
            run_log=str(folder / "log"),
            run_log_texts="prompt,texts",
            on_error="raise",
            retries=10,
        ),
        args=config,
        train_dataset=Dataset.from_list(
            [
                {"prompt": row["asked"], ASKED: json.dumps([{k: row[k] for k in ("kind", "label", "accepted")}, known])}
                for row, known in plan
            ]
        ),
        peft_config=LoraConfig(
            r=task.rank, lora_alpha=2 * task.rank, target_modules="all-linear", task_type="CAUSAL_LM"
        ),
        rollout_func=rollouts,
        callbacks=[Progress()],
    )
    trainer.remove_callback(PrinterCallback)
    last = get_last_checkpoint(config.output_dir) if Path(config.output_dir).is_dir() else None
    first = int(last.rsplit("-", 1)[1]) if last else 0
    trainer.train(resume_from_checkpoint=last)
    trainer.save_model(str(folder / "adapter"))
    log = [entry for entry in trainer.state.log_history if "loss" in entry]
    return [{k: round(float(e[k]), 6) for k in e if k in KEPT or k.startswith("dare/")} for e in log]


def main(task: Task) -> None:
    torch.set_num_threads(1)
    with Path(task.questions).open(encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    adapted, unseen = split(rows, task.unseen)
    tokenizer = AutoTokenizer.from_pretrained(task.model)
    model = AutoModelForCausalLM.from_pretrained(task.model, dtype=torch.float32).to(task.device)
    sampler = Sampler(tokenizer, task.stop, task.max_tokens)
    before = Path(task.before)
    if not before.is_file():
        write(before, evaluate(model.eval(), sampler, adapted + unseen, task, what="before training")[0])
    alone = before.with_name(f"{before.stem}-controls.json")
    if not alone.is_file():
        write(alone, controls(model.eval(), sampler, adapted + unseen, task, "before training"))
    exponent = chosen_exponent(task, adapted)
    begun = time.monotonic()
    steps = trained(model, sampler, schedule(task, adapted), task, exponent)
    after, answers = evaluate(model.eval(), sampler, adapted + unseen, task, what="after training")
    decoded = controls(model, sampler, adapted + unseen, task, "after training")
    record = {
        **{name: getattr(task, name) for name in RECORDED},
        "exponent": exponent,
        "unseen": [row["id"] for row in unseen],
        "before": json.loads(before.read_text(encoding="utf-8")),
        "after": after,
        "answers": answers,
        "controls": {"before": json.loads(alone.read_text(encoding="utf-8")), "after": decoded},
        "log": steps,
        "seconds": round(time.monotonic() - begun),
    }
    write(Path(task.record), record)
    shutil.rmtree(Path(task.folder) / "checkpoints", ignore_errors=True)


def write(path: Path, content: Any) -> None:
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(content), encoding="utf-8")
    part.replace(path)


if __name__ == "__main__":
    main(Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
