"""Completions from an OpenAI-compatible endpoint, kept in a JSONL file as they come, so that a run can be resumed."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Self

import httpx

from dare_reward.errors import ConfigError, RefusedError, ReplyError, UnavailableError
from dare_trainer.launch.questions import LabelledQuestion

TRIES = 5
PAUSE = 1.0  # seconds before the second try; doubles
OPENING = b'{"sampling": '
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
TIMEOUT = httpx.Timeout(3600.0, connect=10.0)  # 3,072 tokens on a busy server take minutes


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the model is asked. A cache belongs to one of these.

    prompt_version   2: the instruction of `data prepare`, GPQA's options in its order; files without it are older
    """

    model: str
    samples: int = 16
    temperature: float = 1.0
    top_p: float = 0.95
    max_tokens: int = 3072
    seed: int = 0
    route: str = "chat"
    system: str | None = None
    prompt_version: int = 2


@dataclass(frozen=True, slots=True)
class Completion:
    """One sampled answer; `tokens` is the mean over the answers of its request, None where the server does not say."""

    id: str
    index: int
    text: str
    finish_reason: str | None = None
    tokens: float | None = None


class Cache:
    """A JSONL file: a line with the sampling, then one line a completion. A torn last line is dropped and redone."""

    def __init__(self, path: Path, sampling: Sampling) -> None:
        self.path = path
        self.found: dict[tuple[str, int], Completion] = {}
        self._sampling = asdict(sampling)
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        good = self._read() if self.path.exists() else 0
        self._file = self.path.open("r+" if self.path.exists() else "w", encoding="utf-8", newline="\n")
        self._file.truncate(good)
        self._file.seek(good)
        if not good:
            self._write({"sampling": self._sampling})
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, completion: Completion) -> None:
        self.found[completion.id, completion.index] = completion
        self._write(asdict(completion))

    def missing(self, problem: LabelledQuestion, samples: int) -> list[int]:
        return [i for i in range(samples) if (problem.id, i) not in self.found]

    def of(self, problem: LabelledQuestion, samples: int) -> list[Completion]:
        return [self.found[problem.id, i] for i in range(samples) if (problem.id, i) in self.found]

    def _write(self, value: Mapping[str, Any]) -> None:
        assert self._file is not None
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()

    def _read(self) -> int:
        """Take over what is there; returns the bytes that are whole lines. ConfigError if it was sampled otherwise."""
        good = 0
        for line in self.path.read_bytes().splitlines(keepends=True):
            try:
                value = json.loads(line)
            except ValueError:
                if not good and line[: len(OPENING)] != OPENING[: len(line)]:  # a file of somebody else is not cut
                    raise ConfigError(f"{self.path} is no file of completions") from None
                break
            if not line.endswith(b"\n"):
                break
            if not good:
                self._check(value)
            else:
                self.found[value["id"], value["index"]] = Completion(**value)
            good += len(line)
        return good

    def _check(self, value: Any) -> None:
        """More samples of the same kind may be added; anything else is another experiment."""
        before = value.get("sampling") if isinstance(value, dict) else None
        if not isinstance(before, dict):
            raise ConfigError(f"{self.path} is no file of completions")
        names = self._sampling.keys() | before.keys()
        if changed := sorted(n for n in names - {"samples"} if before.get(n) != self._sampling.get(n)):
            raise ConfigError(f"{self.path} was sampled with another {', '.join(changed)}: choose another --out")


async def collect(
    url: str,
    problems: Sequence[LabelledQuestion],
    sampling: Sampling,
    cache: Cache,
    *,
    concurrency: int = 32,
    token: str | None = None,
    done: Callable[[int], None] = lambda _: None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> None:
    """Ask for every completion that the cache lacks; `done` is told how many came."""
    gate = asyncio.Semaphore(concurrency)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(
        base_url=url.rstrip("/") + "/", headers=headers, timeout=TIMEOUT, limits=limits, transport=transport
    ) as client:

        async def fill(problem: LabelledQuestion) -> None:
            while wanted := cache.missing(problem, sampling.samples):
                async with gate:
                    got = await _ask(client, problem, sampling, wanted)
                for completion in got:
                    cache.add(completion)
                done(len(got))

        try:
            async with asyncio.TaskGroup() as group:
                for problem in problems:
                    group.create_task(fill(problem))
        except* (RefusedError, ReplyError, UnavailableError) as errors:
            raise errors.exceptions[0] from None


async def _ask(
    client: httpx.AsyncClient, problem: LabelledQuestion, sampling: Sampling, wanted: Sequence[int]
) -> list[Completion]:
    """At least one of the wanted completions; a server that ignores `n` gives one."""
    route, body = _request(problem, sampling, wanted)
    reply = await _post(client, route, body)
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ReplyError(f"{client.base_url}{route}: a reply without choices")
    used = (reply.get("usage") or {}).get("completion_tokens")
    tokens = used / len(choices) if isinstance(used, int) else None
    return [
        Completion(problem.id, index, _text(choice), choice.get("finish_reason"), tokens)
        for index, choice in zip(wanted, choices, strict=False)
    ]


def _request(problem: LabelledQuestion, sampling: Sampling, wanted: Sequence[int]) -> tuple[str, dict[str, Any]]:
    digest = hashlib.sha256(json.dumps([sampling.seed, problem.id, wanted[0]]).encode()).digest()
    body: dict[str, Any] = {
        "model": sampling.model,
        "n": len(wanted),
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_tokens": sampling.max_tokens,
        "seed": int.from_bytes(digest[:4], "big") >> 1,
    }
    if sampling.route == "completions":
        return "completions", {**body, "prompt": problem.prompt()}
    system = [] if sampling.system is None else [{"role": "system", "content": sampling.system}]
    return "chat/completions", {**body, "messages": [*system, {"role": "user", "content": problem.prompt()}]}


def _text(choice: Mapping[str, Any]) -> str:
    """The text; a server that keeps the reasoning apart from the answer gets only the answer read."""
    message = choice.get("message")
    content = message.get("content") if isinstance(message, dict) else choice.get("text")
    return content if isinstance(content, str) else ""


async def _post(client: httpx.AsyncClient, route: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """One reply; what passes is tried again, what does not is an error with the server's words."""
    problem = ""
    for attempt in range(TRIES):
        if attempt:
            await asyncio.sleep(PAUSE * 2 ** (attempt - 1))
        try:
            reply = await client.post(route, json=body)
        except httpx.TransportError as error:
            problem = f"{type(error).__name__} {error}".strip()
            continue
        if reply.status_code in AGAIN:
            problem = f"status {reply.status_code}"
            continue
        if reply.status_code >= 400:
            raise RefusedError(reply.status_code, {"detail": reply.text[:300]})
        try:
            value = reply.json()
        except ValueError:
            raise ReplyError(f"{client.base_url}{route}: not JSON") from None
        if not isinstance(value, dict):
            raise ReplyError(f"{client.base_url}{route}: not an object")
        return value
    raise UnavailableError(f"{client.base_url}{route}: {problem} ({TRIES} tries)")
