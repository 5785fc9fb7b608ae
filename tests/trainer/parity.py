"""Generated groups, and both of OpenRLHF's ways for them: with this package in the rollout actor, and without.

An executor runs a group as OpenRLHF runs it (`generate_responses`); each rollout gets what trains. The engine is a fake
that says what the group says; everything behind it is the code that trains.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from fakes import Engine, SamplingParams, close, completion, generate_responses

from dare_reward import estimate
from dare_reward.methods import settle
from dare_reward.openrlhf import AnswerRules, evaluation, outcomes
from dare_reward.scoring.array_inputs import without_tokens
from dare_trainer.openrlhf import group as reward
from dare_trainer.vllm.token_entropy import token_arrays, token_entropies

CHAT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
# What both routes say of a rollout; each has keys of its own besides.
SHARED = (
    "majority_ratio", "invalid", "pruned", "entropy", "entropy_source", "votes", "evaluation", "label_accuracy",
    "reward_accuracy", "ground_truth_ratio",
)  # fmt: skip
# Forms of a label, right or wrong. Those after `ground_truth` mean nothing, all but the last.
LABELS: tuple[Any, ...] = (
    "7", "", "  ", None, 7, 7.5, True, "{x | x > 0}", '{"answer": "7"', {"answer": "7"}, {"answer": 7, "split": "train"},
    {"answer": None}, {"answer": "7", "split": "eval"}, {"answer": 7, "split": "eval"}, {"answer": 0.5, "split": "eval"},
    '{"answer": "7", "split": "eval"}', {"answer": [1, 2], "split": "eval"},
    {"answer": "7", "split": "eval", "kind": "exact"}, {"answer": "7.0", "split": "eval", "kind": "exact"},
    {"answer": "7.0", "kind": "exact"}, {"answer": "B", "split": "train", "kind": "choice", "options": 4},
    '{"answer": "B", "split": "eval", "kind": "choice", "options": ["A", "B", "C"]}', {"answer": "B", "kind": "choice"},
    {"answer": "7", "options": 4}, {"ground_truth": "7"}, {"split": "eval"}, {"answer": " ", "split": "eval"},
    {"answer": "7", "split": "test"}, {"answer": "7", "split": ["eval"]}, {"answer": {"value": "7"}, "split": "eval"},
    {"answer": "7", "split": "eval", "kind": "poetry"}, {"answer": "B", "split": "eval", "kind": "choice", "options": 99},
    {"answer": "B", "split": "eval", "kind": "choice", "options": {"A": 1}},
    '{"answer": ' + "[" * 5000 + "]" * 5000 + "}", [["7"], {"answer": ["7"]}], ["7"],
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
        """The URL's query, what only OpenRLHF without this package needs included."""
        values = {"group_size": len(self.texts), "run": f"{self.name}-000000001", "method": self.method}
        values |= {"kind": self.kind, "shadow": "+".join(self.shadow), **self._params}
        values |= {"pruned": self.pruned} if self.sends else {}
        return urlencode({name: value for name, value in values.items() if value != ""}, safe="+")

    @property
    def _params(self) -> dict[str, Any]:
        demands = {"missing_entropy": "error" if self.sends else "frequency"} if self.method == "dare" else {}
        return {**self.params, **demands}


# What rollouts say, by what their group is about: cut off, tied, without answers, letters beside the options, one odd
# answer of high entropy among many.
ANSWERS = {
    "mixed": ["7", "7", "7.0", "5", "1/2", "\\frac{1}{2}", "1, 2", "B", "Z", None],
    "cut": ["7", "7", "5", None],
    "few": ["7", "5"],
    "none": [None, None, "5"],
    "choice": ["A", "B", "B", "D", "F", None],
    "odd": ["7", "7", "7", "5", "5"],
}
GROUPS, PARTS = 200, 8


def cases(part: int) -> list[Case]:
    """The same groups always, of which every eighth is in this part."""
    return [_case(random.Random(number), number) for number in range(part, GROUPS, PARTS)]


def _case(rng: random.Random, number: int) -> Case:
    pick, about = rng.choice, list(ANSWERS)[number // PARTS % len(ANSWERS)]
    answers = [pick(ANSWERS[about]) for _ in range(rng.randint(2, 9))]
    entropies = [pick([0.1, 0.25, 0.5, 0.75, 1.5]) for _ in answers]
    if about == "odd":
        answers, entropies = [*answers, "99"], [*(u / 5 for u in entropies), 3.0]
    say = pick(["So it is \\boxed{{{}}}."] * 3 + ["The answer is ({}).", "The answer is {}", "<think>\\boxed{{{}}}"])
    texts = ["I cannot tell." if answer is None else say.format(answer) for answer in answers]
    texts[0] = "" if about == "none" else texts[0]  # without a single token
    sends, method = rng.random() < 0.7, pick(["dare", "dare", "ttrl", "empo"])
    cut = [sends and about == "cut" and rng.random() < 0.6 for _ in texts]
    return Case(
        f"g{number}", tuple(texts), tuple(entropies), tuple(cut), LABELS[number % len(LABELS)],
        kind="choice" if about == "choice" else "math",
        method=method,
        params=pick([{}, {"truncated": "as_is"}, {"truncated": "invalid"}, {"open_think": True}])
        | ({"tau": 0.1} if method == "dare" else {}),
        pruned=pick(["zero", "neutral"]),
        shadow=tuple(rng.sample(["ttrl", "scrl", "rent", "gt", "empo"], rng.randint(0, 2))) if sends else (),
        sends=sends,
    )  # fmt: skip


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


async def group(executor: Any, case: Case, engine: Any = None, **gather: Any) -> list[dict[str, Any]]:
    """What trains of each rollout, by one sampling_params object for all."""
    labels, params = [case.label] * len(case.texts), SamplingParams(max_tokens=64)
    given = {"prompt": case.prompt, "label": labels, "params": params}
    return await generate_responses(executor, engine or engine_of(case), **given, **gather)


# --- what must be equal ----------------------------------------------------------------------------------------------


async def check(part: int, executor: Callable[[str], Any], service: str, without: Route, monkeypatch: Any) -> None:
    """No group means another thing with the package than without or, where entropies count, which only the package has,
    than by the estimator in process. `executor` makes one for a URL."""
    wrong, info = list[str](), reward.service_info([service], 0.0)
    # Entropies are on, and nothing is asked at the start of a run but once, which is other tests' business.
    monkeypatch.setenv("VLLM_TOKEN_ENTROPY", "temperature")
    monkeypatch.setattr(reward, "service_info", lambda *_: info)
    monkeypatch.setattr(reward, "handshake", lambda *_: None)
    for case in cases(part):
        ours = executor(f"{service}/reward?{case.query}{'' if case.sends else '&entropy=none'}")
        found = await group(ours, case)
        await close(ours)
        wrong += differences(case, found, alone(case) if case.sends else await without(case))
    assert not wrong, "\n".join(wrong[:40])


def alone(case: Case) -> list[dict[str, Any]]:
    """What a group with entropies gets by the estimator and the meaning of its reply, and by nothing else of ours."""
    rules = AnswerRules(settle(case.method, case.params).values, case.kind)
    label, shadow = rules.label(case.label), case.shadow
    rollouts = [_rollout(*of) for of in zip(case.texts, case.entropies, case.cut, strict=True)]
    entropies = [r.get("mean_entropy") for r in rollouts]
    if label.split == "eval":
        pairs = zip(rollouts, entropies, strict=True)
        made = [evaluation(rules, r, label, route="actor", entropy=u, shadow=shadow) for r, u in pairs]
    else:
        said = {k: v for k, v in rules.group(label).items() if v is not None}
        group = {**said, "entropy_source": "exact", "rollouts": rollouts}
        reply = estimate([group], method=case.method, shadow=shadow, **case._params).groups[0]
        made = outcomes(reply, route="actor", entropies=entropies, pruned=case.pruned, shadow=shadow)
    return [{"reward": o.reward, "scores": o.score, "extra_logs": dict(o.logs)} for o in made]


def _rollout(text: str, entropy: float, cut: bool) -> dict[str, Any]:
    done = completion(text, entropy, finish="length" if cut else "stop")
    tokens = token_arrays(done, token_entropies(done)) if done.token_ids else {}
    numbers = {"num_tokens": len(done.token_ids), **(without_tokens(tokens) if tokens else {})}
    return {"text": text, "finish_reason": done.finish_reason, **numbers}


def differences(case: Case, one: list[dict[str, Any]], other: list[dict[str, Any]]) -> list[str]:
    """Where the two disagree; empty where they mean the same. OpenRLHF keeps lists of a reply in some releases."""
    return [
        f"{case.name}[{i}] {name}: {a[name]}, {b[name]}"
        for i, (a, b) in enumerate(zip(map(flat, one), map(flat, other), strict=True))
        for name in ("reward", "scores", *SHARED, *(k for k in b if k.startswith("shadow_")))
        if abs(a[name] - b[name]) > (0 if name in {"reward", "scores"} else 1e-9)
    ]


def flat(rollout: dict[str, Any]) -> dict[str, Any]:
    """Reward, score and log of a rollout, by name."""
    found = {"reward": rollout["reward"], "scores": rollout["scores"], **rollout["extra_logs"]}
    return {name: value[0] if isinstance(value, list) else value for name, value in found.items()}
