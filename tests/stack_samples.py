"""Samples with the fields and types that the sources of slime, SkyRL and EasyR1 give them: these are on no package index."""

from __future__ import annotations

import asyncio
import json
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from by_path import load

import dare_reward
from dare_reward.scoring.update import update_specs

STACKS = Path(__file__).parents[1] / "examples" / "stacks"


INFO = {"settings": {"max_groups": 1024, "max_json_bytes": 1 << 26, "max_body_bytes": 1 << 27}}


def replied(body: dict[str, Any], request_id: str, change: Callable[[Any], Any] = lambda reply: reply) -> bytes:
    """What the service says to a request, as `change` alters it."""
    options = ("shadow", "seed", "labelled", *(spec.name for spec in update_specs()))
    update = {name: body[name] for name in options if name in body}
    reply = dare_reward.estimate(body["groups"], method=body["method"], **body["params"], **update).to_json()
    return json.dumps(change(json.loads(json.dumps({**reply, "request_id": request_id})))).encode()


def example(name: str, as_name: str = "", **modules: dict[str, Any]) -> Any:
    """A file of examples/stacks, loaded by its path, over stand-ins of the stack's modules that it imports (a__b for a.b)."""
    for module, members in modules.items():
        parts = module.split("__")
        for n in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:n]), types.ModuleType(".".join(parts[:n])))
        vars(sys.modules[".".join(parts)]).update(members)
    return load(STACKS / f"{name}.py", as_name)


@dataclass
class Sample:
    """slime 624b824, slime/utils/types.py: fields that are read and, of its methods, what an engine's reply goes through."""

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str | list[dict[str, str]] = ""
    tokens: list[int] = field(default_factory=list)
    multimodal_inputs: dict[str, Any] | None = None
    response: str = ""
    response_length: int = 0
    label: str | None = None
    reward: float | dict[str, Any] | None = None
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    remove_sample: bool = False

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    status: Status = Status.PENDING
    metadata: dict = field(default_factory=dict)
    generate_function_path: str | None = None

    def append_response_tokens(
        self, args=None, *, tokens=None, log_probs=None, trainable=True, meta_info=None, text=None
    ):
        tokens = [int(token) for token in tokens or ()]
        if tokens and not trainable:
            log_probs = [0.0] * len(tokens)
        if text is not None:
            self.response += text
        before = self.response_length
        if tokens:
            self.tokens += tokens
            self.response_length += len(tokens)
            if self.loss_mask is None:
                self.loss_mask = [1] * before
            self.loss_mask += [1 if trainable else 0] * len(tokens)
        if log_probs is not None:
            if self.rollout_log_probs is None:
                self.rollout_log_probs = [0.0] * before
            self.rollout_log_probs += log_probs


def generated(index: int, text: str, logprobs: Sequence[float] | None, **more: Any) -> Sample:
    """As slime's rollout makes a sample of an engine's reply."""
    sample = Sample(index=index, **{"group_index": 1, "prompt": "2+2?", "tokens": [7, 8, 9], **more})
    given = [5] * (2 if logprobs is None else len(logprobs))
    sample.append_response_tokens(tokens=given, log_probs=logprobs and list(logprobs), text=text)
    return sample


def paid_by_slime(samples: Any, url: str | None, **args: Any) -> list[float]:
    """What slime's hub gets for samples, of a run with these arguments."""
    from dare_reward.stacks import slime

    return asyncio.run(slime.reward(SimpleNamespace(rm_url=url, **args), samples))


class TrlTrainer:
    """What is read of TRL's trainers, whose arguments these are: `say(prompt, number)` is a prompt's n-th completion, and
    `calls` the number of those that were generated at once."""

    model, reward_funcs = SimpleNamespace(training=True), ()
    eos_token_ids, _tokenizer = [0], SimpleNamespace(pad_token_id=0)

    def __init__(self, say: Callable[[str, int], str] = lambda prompt, number: "", size: int = 4, **args: Any) -> None:
        self.args, self.say, self.num_generations, self.num_generations_eval = SimpleNamespace(**args), say, size, 2
        self.accelerator = SimpleNamespace(process_index=0, num_processes=1)
        self.processing_class = SimpleNamespace(batch_decode=lambda ids, **_: ["".join(map(chr, i[:-1])) for i in ids])
        self.calls: list[int] = []
        self.made: dict[str, int] = {}
        self.logged: dict[str, float] = {}

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, None]:
        return [[ord(c) for c in p] for p in prompts], None, None

    def _generate_single_turn(self, ids: list[list[int]], images: None, fields: Any, count: int) -> tuple[list, list]:
        assert all(ids[start : start + count] == [ids[start]] * count for start in range(0, len(ids), count))
        self.calls.append(len(ids))
        out = []
        for prompt in ("".join(map(chr, i)) for i in ids):
            number = self.made[prompt] = self.made.get(prompt, -1) + 1
            out.append([*map(ord, self.say(prompt, number)), 0])
        return out, [[-0.1] * len(o) for o in out]

    def log_metric(self, name: str, value: float) -> None:
        self.logged[name] = value


@dataclass
class TrajectoryID:
    """SkyRL a956457, skyrl/train/generators/base.py."""

    instance_id: str
    repetition_id: int


class Words:
    """A tokenizer whose tokens are words."""

    is_fast, all_special_ids = False, ()

    def __init__(self) -> None:
        self.words: dict[str, int] = {}

    def ids(self, text: str) -> list[int]:
        return [self.words.setdefault(word, len(self.words) + 1) for word in text.split(" ")]

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        back = {number: word for word, number in self.words.items()}
        return " ".join(back[i] for i in ids)
