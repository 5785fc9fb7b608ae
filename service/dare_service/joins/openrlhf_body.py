"""OpenRLHF's request body as members of groups; the wire form is in `openrlhf.py`.

With it: where the response begins in a `query`, which holds the prompt too.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from dare_reward.errors import RequestError
from dare_reward.inputs import FIELDS, GROUP_FIELDS
from dare_reward.openrlhf import AnswerRules, Label, Split, read_label

from ..problems import RefusalError

__all__ = ["Member", "OpenRLHFBody", "looks_like", "read_body", "read_members", "response"]

TEXTS = ("query", "prompts", "group_key", "finish_reason", "entropy_source", "entropy_mode")
NUMBERS = ("mean_entropy", "num_tokens", "index")
KEYS = (*TEXTS, *NUMBERS, "labels")
OPENING = re.compile(rb'\s*\{\s*"(?:' + "|".join(KEYS).encode() + rb')"\s*:')
# Where an assistant's turn begins, if the prompt cannot be found in the query.
TURN = re.compile(
    r"<\|im_start\|>assistant|<\|start_header_id\|>assistant<\|end_header_id\|>|<start_of_turn>model|<｜Assistant｜>|<\|assistant\|>|\[/INST\]"
)
TAILS = (1024, 256, 64)
SPACELESS = 64


@dataclass(frozen=True, slots=True)
class OpenRLHFBody:
    """The body's lists; `given` are the optional ones, `unknown` the keys that were ignored."""

    query: list[str]
    prompts: list[str]
    labels: list[Any]
    given: Mapping[str, list[Any]]
    unknown: list[str]


@dataclass(frozen=True, slots=True)
class Member:
    """One rollout, ready to be scored.

    group      what it shares with its siblings: the group key, or a digest of prompt and label
    identity   digest of the content; a retry has the same
    rollout    in the form of `POST /reward`: answer, entropy, number of tokens
    found      the prompt stood in the query
    """

    group: str
    identity: bytes
    index: int | None
    label: Label
    rollout: Mapping[str, Any]
    entropy: tuple[str, str]
    found: bool


def looks_like(body: bytes | bytearray) -> bool:
    """The body's first key is one of OpenRLHF's, which no grouped request has: cheaper than parsing it twice."""
    return OPENING.match(body) is not None


def read_body(body: bytes | bytearray) -> OpenRLHFBody:
    try:
        content = from_json(bytes(body))
    except ValueError as error:
        raise RefusalError(400, f"not JSON: {error}", code="json") from None
    if not isinstance(content, dict) or "query" not in content or "prompts" not in content:
        raise RequestError("must be an object with the lists query, prompts and labels", code="type")
    count = len(_list(content, "query"))
    given = {}
    for key in KEYS:
        if key in content:
            given[key] = _list(content, key)
            if len(given[key]) != count:
                raise RequestError(f"{len(given[key])} entries for {count} queries", loc=(key,), code="length")
    if ("group_key" in given) != ("index" in given):
        raise RequestError("group_key and index come together or not at all", loc=("group_key",), code="conflict")
    for key in TEXTS:
        _check_texts(key, given.get(key, []), optional=key == "finish_reason")
    for key in NUMBERS:
        for i, value in enumerate(given.get(key, [])):
            _check_number(key, value, i)
    query, prompts, labels = given.pop("query"), given.pop("prompts"), given.pop("labels", [None] * count)
    return OpenRLHFBody(query, prompts, labels, given, sorted(k[:64] for k in content.keys() - set(KEYS))[:8])


def read_members(body: OpenRLHFBody, rules: AnswerRules, policy: Split, max_text: int) -> list[Member]:
    """Every rollout's response found, its answer read, its label read."""
    return [_member(body, i, rules, policy, max_text) for i in range(len(body.query))]


def _member(body: OpenRLHFBody, i: int, rules: AnswerRules, policy: Split, max_text: int) -> Member:
    query, prompt, own = body.query[i], body.prompts[i], {k: v[i] for k, v in body.given.items()}
    label = read_label(body.labels[i], policy=policy)
    text, found = response(query, prompt)
    numbers = {k: own[k] for k in ("mean_entropy", "num_tokens") if own.get(k) is not None}
    # The answer stands at the end; a refused rollout would end the training run.
    raw = {"text": text[-max_text:], "finish_reason": own.get("finish_reason"), **numbers}
    return Member(
        group=own.get("group_key") or _digest(prompt, json.dumps(body.labels[i], sort_keys=True)).hex(),
        identity=_digest(query, repr(sorted(own.items()))),
        index=own.get("index"),
        label=label,
        rollout={"answer": rules.read(raw, label), **numbers},
        entropy=(own.get("entropy_source", "exact"), own.get("entropy_mode", "unknown")),
        found=found,
    )


def response(query: str, prompt: str) -> tuple[str, bool]:
    """The generated part of `query`, and whether the prompt was found in it.

    A query is decode(encode(prompt) + response), with special tokens: it may begin with a token that the prompt lacks,
    its spaces may differ, and of a long prompt only the end may be there. So after the whole prompt its last characters
    are looked for, then the same without regard to spaces.
    """
    if query.startswith(prompt):
        return query[len(prompt) :], True
    for length in TAILS:
        tail = prompt[-length:]
        at = query.find(tail)
        if tail and at >= 0:
            return query[at + len(tail) :], True
    marks = "".join(prompt.split())[-SPACELESS:]
    if marks and (found := re.search(r"\s*".join(map(re.escape, marks)), query)):
        return query[found.end() :], True
    turns = list(TURN.finditer(query))
    return query[turns[-1].end() if turns else 0 :], False


def _digest(*parts: str) -> bytes:
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        state.update(len(content).to_bytes(8, "little"))
        state.update(content)
    return state.digest()


def _list(content: Mapping[str, Any], key: str) -> list[Any]:
    value = content[key]
    if not isinstance(value, list):
        raise RequestError("must be a list", loc=(key,), code="type")
    return value


def _check_texts(key: str, values: Sequence[Any], *, optional: bool) -> None:
    choices = GROUP_FIELDS[key].choices if key in GROUP_FIELDS else None
    for i, value in enumerate(values):
        if value is None and optional:
            continue
        if not isinstance(value, str) or (key == "group_key" and not 1 <= len(value) <= 256):
            raise RequestError(
                "must be a string" + (" of 1 to 256 characters" if key == "group_key" else ""),
                loc=(key, i),
                code="type",
            )
        if choices is not None and value not in choices:
            raise RequestError(f"must be one of {', '.join(choices)}", loc=(key, i), code="value")


def _check_number(key: str, value: Any, i: int) -> None:
    if key == "index":
        if type(value) is not int or value < 0:
            raise RequestError("must be an integer >= 0", loc=(key, i), code="value")
        return
    field = FIELDS[key]
    good = (
        value is None or type(value) is int or (type(value) is float and field.type == "float" and math.isfinite(value))
    )
    if not good or (value is not None and not (field.ge or 0) <= value <= (field.le or math.inf)):
        raise RequestError(f"must be {field.rule} or null", loc=(key, i), code="value")
