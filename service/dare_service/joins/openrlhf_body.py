"""OpenRLHF's request body as members of groups; the wire form is in `openrlhf.py`."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dare_reward.errors import RequestError
from dare_reward.inputs import FIELDS, GROUP_FIELDS
from dare_reward.openrlhf import AnswerRules, Label, Split
from dare_reward.scoring.request import Limits

from ..json_body import read_json
from ..json_size import check_json
from .response_start import response_start

TEXTS = ("query", "prompts", "group_key", "finish_reason", "entropy_source", "entropy_mode")
NUMBERS = ("mean_entropy", "num_tokens", "index")
KEYS = (*TEXTS, *NUMBERS, "labels")
OPENING_BYTES = 4096  # a body that begins with more white space is no client's
OPENING = re.compile(rb'\s*\{\s*"(?:' + "|".join(KEYS).encode() + rb')"\s*:')


@dataclass(frozen=True, slots=True)
class OpenRLHFBody:
    """The body's lists; `given` are the optional ones, `unknown` the keys that were ignored."""

    query: list[str]
    prompts: list[str]
    labels: list[Any]
    given: Mapping[str, list[Any]]
    unknown: list[str]


@dataclass(frozen=True, slots=True)
class BodyRollout:
    """One rollout, ready to be scored.

    group      what it shares with its siblings: the group key, or a digest of its prompt; never a label
    asked      digest of its prompt
    identity   digest of the content; a retry has the same
    rollout    in the form of `POST /reward`: answer, entropy, number of tokens
    found      the prompt stood in the query
    """

    group: str
    asked: bytes
    identity: bytes
    index: int | None
    label: Label
    rollout: Mapping[str, Any]
    entropy: tuple[str, str]
    found: bool
    prompt: str | None = None  # kept for a run log only


def looks_like(body: bytes | bytearray) -> bool:
    """The body's first key is one of OpenRLHF's, which no grouped request has: cheaper than parsing it twice."""
    return OPENING.match(body, 0, OPENING_BYTES) is not None


def read_body(body: bytes | bytearray, limits: Limits, memory: int) -> OpenRLHFBody:
    check_json(body, memory)
    content = _content(body)
    given = {key: content[key] for key in KEYS if key in content}
    count = len(given["query"])
    limits.check_total(count, ("query",))
    if ("group_key" in given) != ("index" in given):
        raise RequestError("group_key and index come together or not at all", loc=("group_key",), code="conflict")
    for key, values in given.items():
        if len(values) != count:
            raise RequestError(f"{len(values)} entries for {count} queries", loc=(key,), code="length")
        if key in TEXTS:
            _check_texts(key, values, optional=key == "finish_reason")
        elif key in NUMBERS:
            for i, value in enumerate(values):
                _check_number(key, value, i)
    query, prompts, labels = given.pop("query"), given.pop("prompts"), given.pop("labels", [None] * count)
    _check_lengths(prompts, labels, limits)
    return OpenRLHFBody(query, prompts, labels, given, sorted(k[:64] for k in content.keys() - set(KEYS))[:8])


def _content(body: bytes | bytearray) -> dict[str, Any]:
    content = read_json(body)
    if not isinstance(content, dict) or "query" not in content or "prompts" not in content:
        raise RequestError("must be an object with the lists query, prompts and labels", code="type")
    for key in KEYS:
        if not isinstance(content.get(key, []), list):
            raise RequestError("must be a list", loc=(key,), code="type")
    return content


def read_members(
    body: OpenRLHFBody,
    rules: AnswerRules,
    policy: Split,
    max_text: int,
    watch: Callable[[], None] | None = None,
    *,
    logged: frozenset[str] = frozenset(),
) -> list[BodyRollout]:
    """Every rollout's response found, its answer read, its label read. `watch` is called before each; of texts is kept
    what is `logged`."""
    out = []
    for i in range(len(body.query)):
        if watch is not None:
            watch()
        out.append(_member(body, i, rules, policy, max_text, logged=logged))
    return out


def _member(
    body: OpenRLHFBody, i: int, rules: AnswerRules, policy: Split, max_text: int, *, logged: frozenset[str]
) -> BodyRollout:
    query, prompt, columns = body.query[i], body.prompts[i], {k: v[i] for k, v in body.given.items()}
    label = rules.label(body.labels[i], policy=policy)
    start, is_known = response_start(query, prompt)
    numbers = {k: columns[k] for k in ("mean_entropy", "num_tokens") if columns.get(k) is not None}
    # The answer stands at the end; a refused rollout would end the training run.
    raw = {"text": query[max(start, len(query) - max_text) :], "finish_reason": columns.get("finish_reason"), **numbers}
    kept = {"text": raw["text"]} if "texts" in logged else {}  # the answer is given beside it, and wins
    asked = _digest(prompt)
    return BodyRollout(
        group=columns.get("group_key") or asked.hex(),
        asked=asked,
        identity=_digest(query, repr(sorted(columns.items()))),
        index=columns.get("index"),
        label=label,
        rollout={"answer": rules.read(raw, label), **numbers, **kept},
        entropy=(columns.get("entropy_source", "exact"), columns.get("entropy_mode", "unknown")),
        found=is_known,
        prompt=prompt if "prompt" in logged else None,
    )


def _digest(*parts: str) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.digest()


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


def _check_lengths(prompts: Sequence[str], labels: Sequence[Any], limits: Limits) -> None:
    """Queries may be longer: a response that runs away must not end the training run."""
    for i, (prompt, label) in enumerate(zip(prompts, labels, strict=True)):
        limits.check_text(len(prompt), ("prompts", i))
        limits.check_text(len(label if isinstance(label, str) else json.dumps(label)), ("labels", i))


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
