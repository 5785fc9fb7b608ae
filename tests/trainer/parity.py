"""Generated groups, and both of OpenRLHF's ways for them: with this package in the rollout actor, and without.

An executor runs a group as OpenRLHF runs it (`generate_responses`); each rollout gets what trains. The engine is a fake
that says what the group says; everything behind it is the code that trains.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from urllib.parse import urlencode

import httpx
from fakes import Engine, SamplingParams, Tokenizer, close, completion

from dare_reward import estimate
from dare_reward.methods import settle
from dare_reward.openrlhf import AnswerRules, evaluation, outcomes
from dare_reward.scoring.array_inputs import without_tokens
from dare_trainer.openrlhf import group as reward
from dare_trainer.vllm.token_entropy import token_arrays, token_entropies

GROUPS = 200
UNIT = 2.0**-16
CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
# What both routes say of a rollout; each has keys of its own besides.
SHARED = (
    "majority_ratio", "invalid", "pruned", "entropy", "entropy_source", "votes", "evaluation", "label_accuracy",
    "reward_accuracy", "ground_truth_ratio",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One group: what its rollouts say, how sure the policy was of each, which were cut off, and the run's settings."""

    name: str
    texts: tuple[str, ...]
    entropies: tuple[float, ...]
    cut: tuple[bool, ...]
    label: Any = ""
    kind: str = "math"
    method: str = "dare"
    params: dict[str, Any] = field(default_factory=dict)
    pruned: str = "zero"
    shadow: tuple[str, ...] = ()
    sends: bool = True  # entropies and finish reasons; an OpenRLHF without our package sends text alone

    @property
    def prompt(self) -> str:
        return CHAT.format(f"Question {self.name}?")

    @property
    def query(self) -> str:
        """The URL's query; what only OpenRLHF without this package needs is in it too."""
        values = {
            "group_size": len(self.texts),
            "run": f"{self.name}-000000001",
            "method": self.method,
            "kind": self.kind,
        }
        pruned = {"pruned": self.pruned} if self.pruned != "zero" else {}
        shadow = {"shadow": "+".join(self.shadow)} if self.shadow else {}
        return urlencode({**values, **self._params, **pruned, **shadow}, safe="+")

    @property
    def _params(self) -> dict[str, Any]:
        demands = {"missing_entropy": "error" if self.sends else "frequency"} if self.method.startswith("dare") else {}
        return {**self.params, **demands}


# Those after `ground_truth` mean nothing, all but the last, and count as training without a label.
LABELS: tuple[Any, ...] = (
    "7", "", "  ", None, 7, 7.5, True, "{x | x > 0}", '{"answer": "7"', {"answer": "7"}, {"answer": 7, "split": "train"},
    {"answer": None}, {"answer": "7", "split": "eval"}, {"answer": 7, "split": "eval"}, {"answer": 0.5, "split": "eval"},
    {"answer": [1, 2], "split": "eval"}, {"answer": "7", "split": "eval", "kind": "exact"},
    {"answer": "7.0", "split": "eval", "kind": "exact"}, {"answer": "7.0", "kind": "exact"},
    {"answer": "B", "split": "train", "kind": "choice", "options": 4},
    {"answer": "B", "split": "eval", "kind": "choice", "options": ["A", "B", "C"]},
    {"answer": "B", "kind": "choice"}, {"answer": "7", "options": 4}, {"ground_truth": "7"},
    {"split": "eval"}, {"answer": "", "split": "eval"}, {"answer": " ", "split": "eval"}, {"answer": "7", "split": "test"},
    {"answer": "7", "split": ["eval"]}, {"answer": {"value": "7"}, "split": "eval"},
    {"answer": "7", "split": "eval", "kind": "poetry"}, {"answer": "B", "split": "eval", "kind": "choice", "options": 99},
    {"answer": "B", "split": "eval", "kind": "choice", "options": {"A": 1}},
    '{"answer": ' + "[" * 5000 + "]" * 5000 + "}", [["7"], {"answer": ["7"]}], ["7"],
)  # fmt: skip


def cases() -> list[Case]:
    """Two hundred groups, the same ones always; `name` begins with what the group is about."""
    rng = random.Random(20261122)
    makers = [_truncated, _tied, _invalid, _unit, _choice, _pruned, _shadow, _plain, _labelled, _labelled]
    chosen = [makers[i % len(makers)] for i in range(GROUPS)]
    return [replace(make(rng, i), name=f"{make.__name__[1:]}-{i}") for i, make in enumerate(chosen)]


def _case(rng: random.Random, answers: list[Any], say: str = "So it is \\boxed{{{}}}.", **more: Any) -> Case:
    texts = tuple("I cannot tell." if a is None else say.format(a) for a in answers)
    entropies = tuple(rng.choice([0.1, 0.25, 0.5, 0.75, 1.5]) for _ in texts)
    return Case(**{"name": "", "texts": texts, "entropies": entropies, "cut": (False,) * len(texts), **more})


def _answers(rng: random.Random, least: int = 2) -> list[Any]:
    return [rng.choice(["7", "7", "5", "1/2", None]) for _ in range(rng.randint(least, 8))]


def _either(rng: random.Random, answer: str = "7") -> Any:
    """A label of training or of evaluation, or none."""
    return rng.choice(
        ["", answer, {"answer": answer, "split": "eval"}, json.dumps({"answer": answer, "split": "eval"})]
    )


def _truncated(rng: random.Random, i: int) -> Case:
    """Announced answers, some cut off: they count by the parameter `truncated`, and so in an evaluation."""
    found = _case(
        rng, _answers(rng), rng.choice(["The answer is {}", "So it is \\boxed{{{}}}", "<think>\\boxed{{{}}}"])
    )
    rule = [{}, {"truncated": "as_is"}, {"truncated": "invalid"}, {"open_think": True}][i // 10 % 4]
    cut = tuple(rng.random() < 0.6 for _ in found.texts)
    return replace(found, cut=cut, params=rule, label=_either(rng))


def _tied(rng: random.Random, i: int) -> Case:
    """Every answer has as many votes; entropies decide."""
    answers = rng.sample(["7", "5", "3", "11"], rng.randint(2, 4)) * rng.randint(1, 3)
    found = _case(rng, sorted(answers, key=lambda _: rng.random()), label="7")
    if i % 20 < 10:  # the first seen is the least sure
        first = found.texts[0]
        found = replace(found, entropies=tuple(0.9 if t == first else 0.1 for t in found.texts))
    return replace(found, method=rng.choice(["dare", "dare", "ttrl", "empo"]))


def _invalid(rng: random.Random, i: int) -> Case:
    answers = [None if rng.random() < 0.6 else rng.choice(["7", "5"]) for _ in range(rng.randint(2, 6))]
    found = _case(rng, [None] * 4 if i % 40 < 10 else answers, label=_either(rng))
    return replace(found, texts=("", *found.texts[1:]), cut=(True, *found.cut[1:]))  # and one without a single token


def _unit(rng: random.Random, i: int) -> Case:
    """Rewards that differ by one unit of the grid, which OpenRLHF would turn into advantages of up to 1."""
    base = rng.choice([0.25, 0.5, 1.0])
    middle = _one_unit_more(base)
    found = _case(rng, ["7", "5"], label=rng.choice(["", "7"]))
    entropies = (base, base + middle) if rng.random() < 0.5 else (base + middle, base)
    return replace(found, entropies=entropies, params={"tau": 0.0} if i % 20 < 10 else {})


@cache
def _one_unit_more(base: float) -> float:
    """How much greater one of two entropies is if the rewards differ by one unit."""
    low, high = 0.0, 0.01
    for _ in range(60):
        middle = (low + high) / 2
        spread = _spread(base, middle)
        if spread == UNIT:
            break
        low, high = (middle, high) if spread < UNIT else (low, middle)
    return middle


def _spread(base: float, more: float) -> float:
    rollouts = [{"answer": a, "mean_entropy": u} for a, u in (("7", base), ("5", base + more))]
    rewards = [round(r / UNIT) * UNIT for r in estimate([{"rollouts": rollouts}]).groups[0].rewards]
    return abs(rewards[0] - rewards[1])


def _choice(rng: random.Random, i: int) -> Case:
    """Letters; some are outside of the label's options."""
    answers = [rng.choice(["A", "B", "B", "D", "F", None]) for _ in range(rng.randint(2, 6))]
    label = {
        "answer": "B",
        "split": rng.choice(["train", "eval"]),
        "kind": "choice",
        "options": rng.choice([4, "ABCDEF"]),
    }
    label["options"] = list(label["options"]) if isinstance(label["options"], str) else label["options"]
    say = rng.choice(["So it is \\boxed{{{}}}.", "The answer is ({})."])
    if i % 20 < 10:
        return _case(rng, answers, say, label=rng.choice([label, json.dumps(label)]))
    return _case(rng, answers, say, label=rng.choice(["B", {"answer": "B", "options": 4}]), kind="choice")


def _pruned(rng: random.Random, i: int) -> Case:
    """One odd answer of high entropy among many, and now and then a rollout without an answer."""
    answers = ["7"] * rng.randint(3, 5) + ["5"] * rng.randint(2, 4) + ["99"] + [None] * rng.randint(0, 2)
    found = _case(rng, answers, label="7")
    entropies = tuple(3.0 if "99" in t else u / 5 for t, u in zip(found.texts, found.entropies, strict=True))
    return replace(found, entropies=entropies, pruned=["zero", "neutral"][i // 10 % 2], params={"tau": 0.1})


def _shadow(rng: random.Random, i: int) -> Case:
    names = tuple(rng.sample(["ttrl", "scrl", "rent", "gt", "empo"], rng.randint(1, 3)))
    return _case(rng, _answers(rng), label=_either(rng), shadow=names, method=rng.choice(["dare", "ttrl"]))


def _plain(rng: random.Random, i: int) -> Case:
    """OpenRLHF as it is released: text alone."""
    label = rng.choice([*LABELS[:20], {"split": "eval"}])
    return _case(rng, _answers(rng), label=label, sends=False, method=rng.choice(["dare", "ttrl"]))


def _labelled(rng: random.Random, i: int) -> Case:
    """Every form of a label, right or wrong, among answers that tell them apart."""
    label = LABELS[(i // 10 * 2 + (i % 10 - 8)) % len(LABELS)]
    answers = [rng.choice(["7", "7", "7.0", "B", "Z", "1, 2", "\\frac{1}{2}", None]) for _ in range(rng.randint(2, 6))]
    return _case(rng, answers, label=label)


# --- the routes ------------------------------------------------------------------------------------------------------


def engine_of(case: Case, *, dies: int | None = None, slow: float = 0.0) -> Engine:
    """Its n-th request gets the group's n-th rollout, after up to `slow` seconds; that of number `dies` fails."""

    def say(number: int) -> str:
        if number == dies:
            raise RuntimeError("the engine died")
        return case.texts[number]

    entropy, cut = case.entropies.__getitem__, case.cut.__getitem__
    return Engine(say, entropy=entropy, cut=cut, seed=case.name, delay=slow)


Route = Callable[[Case], Awaitable[list[dict[str, Any]]]]


def calls(executor: Any, case: Case, shared: Any, engine: Any) -> list[Any]:
    """As RolloutRayActor has it: n executions with one sampling_params object."""
    given = {"prompt": case.prompt, "label": case.label, "sampling_params": shared, "max_length": 4096}
    return [executor.execute(**given, hf_tokenizer=Tokenizer(), llm_engine=engine) for _ in case.texts]


async def group(executor: Any, case: Case, shared: Any = None, engine: Any = None) -> list[dict[str, Any]]:
    shared = shared or SamplingParams(max_tokens=64)
    return await asyncio.gather(*calls(executor, case, shared, engine or engine_of(case)))


async def with_package(executor: Any, case: Case) -> list[dict[str, Any]]:
    try:
        return await group(executor, case)
    finally:
        await close(executor)


def at_once(monkeypatch: Any, service: str) -> None:
    """Entropies are on, and nothing is asked at the start of a run but once, which is other tests' business."""
    info = httpx.get(f"{service}/info").json()
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    monkeypatch.setattr(reward, "service_info", lambda *_: info)
    monkeypatch.setattr(reward, "handshake", lambda *_: None)


def request_bytes(body: dict[str, Any]) -> bytes:
    """As aiohttp writes it, to the byte (tests/golden/openrlhf_requests.json)."""
    return json.dumps(body).encode()


# --- what must be equal ----------------------------------------------------------------------------------------------

CASES = cases()
KINDS = sorted({c.name.partition("-")[0] for c in CASES})


async def wrong(kind: str, ours: Route, without: Route) -> list[str]:
    """Where a group of this kind means another thing with the package than without; where entropies count, which only
    the package has, than the estimator in process."""
    out: list[str] = []
    for case in (c for c in CASES if c.name.startswith(f"{kind}-")):
        other = alone(case) if case.sends else await without(case)
        out += differences(case, await ours(case), other)
    return out


def alone(case: Case) -> list[dict[str, Any]]:
    """What a group with entropies gets by the estimator and the meaning of its reply, and by nothing else of ours."""
    rules = AnswerRules(settle(case.method, case.params).values, case.kind)
    label = rules.label(case.label)
    rollouts = [_rollout(*of) for of in zip(case.texts, case.entropies, case.cut, strict=True)]
    if label.split == "eval":
        made = [
            evaluation(rules, r, label, route="actor", entropy=r.get("mean_entropy"), shadow=case.shadow)
            for r in rollouts
        ]
    else:
        group = {
            **{k: v for k, v in rules.group(label).items() if v is not None},
            "entropy_source": "exact",
            "rollouts": rollouts,
        }
        reply = estimate([group], method=case.method, shadow=case.shadow, **case._params).groups[0]
        entropies = [r.get("mean_entropy") for r in rollouts]
        made = outcomes(reply, route="actor", entropies=entropies, pruned=case.pruned, shadow=case.shadow)
    return [{"reward": o.reward, "scores": o.score, "extra_logs": dict(o.logs)} for o in made]


def _rollout(text: str, entropy: float, cut: bool) -> dict[str, Any]:
    done = completion(text, entropy, finish="length" if cut else "stop")
    tokens = token_arrays(done, token_entropies(done)) if done.token_ids else {}
    numbers = {"num_tokens": len(done.token_ids), **(without_tokens(tokens) if tokens else {})}
    return {"text": text, "finish_reason": done.finish_reason, **numbers}


def differences(case: Case, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Where the two disagree; empty where they mean the same. OpenRLHF keeps lists of a reply in some releases."""
    out = []
    for i, (a, b) in enumerate(zip(map(flat, one), map(flat, other), strict=True)):
        found = [("reward", a["reward"], b["reward"]), ("score", a["scores"], b["scores"])]
        names = [*SHARED, *(k for k in b["extra_logs"] if k.startswith("shadow_"))]
        found += [(name, a["extra_logs"][name], b["extra_logs"][name]) for name in names]
        exact = {"reward", "score"}
        for name, x, y in found:
            if x != y if name in exact else abs(x - y) > 1e-9:
                out.append(f"{case.name}[{i}] {name}: {x}, {y}")
    return out


def flat(rollout: dict[str, Any]) -> dict[str, Any]:
    def first(value: Any) -> Any:
        return value[0] if isinstance(value, list) else value

    logs = {name: first(value) for name, value in rollout["extra_logs"].items()}
    return {"reward": first(rollout["reward"]), "scores": first(rollout["scores"]), "extra_logs": logs}
