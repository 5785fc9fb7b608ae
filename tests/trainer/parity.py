"""Generated groups, and both of OpenRLHF's ways for them: with this package in the rollout actor, and without.

An executor runs a group as OpenRLHF runs it (`generate_responses`); each rollout gets what trains. The engine is a fake
that says what the group says; everything behind it is the code that trains.
"""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from fakes import Engine, SamplingParams, close, completion, generate_responses

from dare_reward import estimate
from dare_reward.methods import settle
from dare_reward.openrlhf import AnswerRules, evaluation, outcomes
from dare_reward.scoring.array_inputs import without_tokens
from dare_trainer.openrlhf import group as reward
from dare_trainer.vllm.token_entropy import token_arrays, token_entropies

GROUPS = 200
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
        values = {"group_size": len(self.texts), "run": f"{self.name}-000000001", "method": self.method}
        values |= {"kind": self.kind, "pruned": self.pruned, "shadow": "+".join(self.shadow), **self._params}
        return urlencode(
            {k: v for k, v in values.items() if (k, v) not in {("pruned", "zero"), ("shadow", "")}}, safe="+"
        )

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


KINDS = ("truncated", "tied", "invalid", "choice", "pruned", "shadow", "plain", "labelled")


def cases() -> list[Case]:
    """Two hundred groups, the same ones always; `name` begins with what the group is about."""
    rng = random.Random(20261122)
    places = (divmod(i, len(KINDS) + 1) for i in range(GROUPS))  # and labels twice as often
    return [_case(rng, KINDS[min(at, len(KINDS) - 1)], turn, at) for turn, at in places]


def _case(rng: random.Random, kind: str, turn: int, at: int) -> Case:
    """The group of this kind in the turn, as its answers are said, cut off, labelled and scored."""
    pick, say, odd, more = rng.choice, "So it is \\boxed{{{}}}.", turn % 2 == 1, dict[str, Any]()
    answers = [pick(["7", "7", "5", "1/2", None]) for _ in range(rng.randint(2, 8))]
    label = pick(["", "7", {"answer": "7", "split": "eval"}, '{"answer": "7", "split": "eval"}'])
    match kind:
        case "truncated":  # announced, and some cut off: they count by the parameter, and so in an evaluation
            say = pick(["The answer is {}", "So it is \\boxed{{{}}}", "<think>\\boxed{{{}}}"])
            more["params"] = [{}, {"truncated": "as_is"}, {"truncated": "invalid"}, {"open_think": True}][turn % 4]
            more["cut"] = tuple(rng.random() < 0.6 for _ in answers)
        case "tied":  # entropies decide
            answers = rng.sample(["7", "5", "3", "11"], rng.randint(2, 4)) * rng.randint(1, 3)
            rng.shuffle(answers)
            label, more["method"] = "7", pick(["dare", "dare", "ttrl", "empo"])
        case "invalid":
            answers = [None] * 4 if turn % 4 == 0 else [pick(["7", "5", None, None]) for _ in answers]
            more["cut"] = (True, *[False] * (len(answers) - 1))  # and one without a single token
        case "choice":  # some letters are outside of the label's options
            answers = [pick(["A", "B", "B", "D", "F", None]) for _ in answers]
            say, options = pick([say, "The answer is ({})."]), pick([4, list("ABCDEF")])
            label = {"answer": "B", "split": pick(["train", "eval"]), "kind": "choice", "options": options}
            label = pick([label, json.dumps(label)])
            if odd:
                label, more["kind"] = pick(["B", {"answer": "B", "options": 4}]), "choice"
        case "pruned":  # one odd answer of high entropy among many, and now and then a rollout without an answer
            answers = ["7"] * rng.randint(3, 5) + ["5"] * rng.randint(2, 4) + ["99"] + [None] * rng.randint(0, 2)
            label, more["pruned"], more["params"] = "7", ["zero", "neutral"][odd], {"tau": 0.1}
        case "shadow":
            more["shadow"] = tuple(rng.sample(["ttrl", "scrl", "rent", "gt", "empo"], rng.randint(1, 3)))
            more["method"] = pick(["dare", "ttrl"])
        case "plain":  # OpenRLHF as it is released: text alone
            label, more["sends"] = pick([*LABELS[:20], {"split": "eval"}]), False
            more["method"] = pick(["dare", "ttrl"])
        case "labelled":  # every form of a label, right or wrong, among answers that tell them apart
            label = LABELS[(2 * turn + at) % len(LABELS)]
            answers = [pick(["7", "7", "7.0", "B", "Z", "1, 2", "\\frac{1}{2}", None]) for _ in answers]
    texts = ["I cannot tell." if answer is None else say.format(answer) for answer in answers]
    entropies = [pick([0.1, 0.25, 0.5, 0.75, 1.5]) for _ in texts]
    if kind == "invalid":
        texts[0] = ""
    elif kind == "tied" and odd:  # the first seen is the least sure
        entropies = [0.9 if text == texts[0] else 0.1 for text in texts]
    elif kind == "pruned":
        entropies = [3.0 if "99" in text else u / 5 for text, u in zip(texts, entropies, strict=True)]
    name, cut = f"{kind}-{turn}-{at}", (False,) * len(texts)
    return Case(
        **{"name": name, "texts": tuple(texts), "entropies": tuple(entropies), "cut": cut, "label": label, **more}
    )


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
