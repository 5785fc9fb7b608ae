"""What one writes who does not take dare-reward: `python tests/bench/peer_servers.py naive|lean|floor PORT`.

naive   FastAPI, pydantic and NumPy: DARE by the paper's equations, answers by the last box and their spelling
lean    the same on bare Starlette with orjson, without models
floor   an application that reads the JSON, or sums up a frame, and writes as many numbers: the least that a reward costs
"""

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import orjson
import uvicorn

BOX = re.compile(r"\\boxed\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
FRAME = b"application/vnd.safetensors"
REWARD = 0.8298225806451613


def last_box(text: str) -> str | None:
    """The answer of a text, as one line of everybody's reward function finds it."""
    found = BOX.findall(text)
    return found[-1].replace(" ", "").strip("$.") if found else None


def dare(rows: Iterable[tuple[str | None, float]], alpha: float = 0.1, tau: float = 0.05) -> list[float]:
    """Eq. 8 to 13 for one group of answers and entropies."""
    rows = list(rows)
    members: dict[str, list[int]] = defaultdict(list)
    for i, (answer, _) in enumerate(rows):
        if answer is not None:
            members[answer].append(i)
    out = [0.0] * len(rows)
    if not members:
        return out
    votes = np.array([len(own) for own in members.values()], float)
    entropy = np.array([sum(rows[i][1] for i in own) / len(own) for own in members.values()])
    share = votes / (entropy + 1e-6)
    share /= share.sum()
    kept = share >= tau
    share = np.where(kept, share, 0.0)
    share = share / share.sum() if kept.any() else share
    bonus = alpha * (1 - votes / max(votes[kept].sum(), 1.0)) * (1 - np.minimum(entropy, 1.0))
    for reward, own in zip(np.where(kept, share + bonus, 0.0).tolist(), members.values(), strict=True):
        for i in own:
            out[i] = reward
    return out


def naive() -> Any:
    from fastapi import FastAPI
    from pydantic import create_model

    app, text, number = FastAPI(), str | None, float | None
    rollout = create_model(
        "Rollout",
        answer=(text, None),
        text=(text, None),
        mean_entropy=(number, None),
        num_tokens=(int | None, None),
        token_entropies=(list[float] | None, None),
    )
    group = create_model("Group", group_id=(str, ...), rollouts=(list[rollout], ...))
    body = create_model("Body", groups=(list[group], ...))
    posted = create_model("Posted", query=(list[str], ...), prompts=(list[str], ...), labels=(list[str], ...))
    waiting: dict[str, list[tuple[str, asyncio.Future[float]]]] = defaultdict(list)

    def rows(members: Iterable[Any]) -> Iterator[tuple[str | None, float]]:
        for r in members:
            entropy = r.mean_entropy if r.mean_entropy is not None else float(np.mean(r.token_entropies))
            yield r.answer if r.answer is not None else last_box(r.text or ""), entropy

    @app.post("/reward")
    def reward(body: body) -> dict[str, list[list[float]]]:
        return {"rewards": [dare(rows(g.rollouts)) for g in body.groups]}

    @app.post("/get_reward")
    async def get_reward(body: posted, group_size: int) -> dict[str, list[float]]:
        """One rollout, which waits for its siblings."""
        own = waiting[body.prompts[0]]
        own.append((body.query[0], asyncio.get_running_loop().create_future()))
        mine = own[-1][1]
        if len(own) == group_size:
            found = dare([(last_box(query), 1.0) for query, _ in waiting.pop(body.prompts[0])])
            for value, (_, future) in zip(found, own, strict=True):
                future.set_result(value)
        value = await mine
        return {"rewards": [value], "scores": [value]}

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    return app


def lean() -> Any:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    def rows(members: Iterable[dict[str, Any]]) -> Iterator[tuple[str | None, float]]:
        for r in members:
            entropy, answer = r.get("mean_entropy"), r.get("answer")
            entropy = float(np.mean(r["token_entropies"])) if entropy is None else entropy
            yield last_box(r.get("text") or "") if answer is None else answer, entropy

    def work(body: bytes) -> bytes:
        return orjson.dumps({"rewards": [dare(rows(g["rollouts"])) for g in orjson.loads(body)["groups"]]})

    async def reward(request: Request) -> Response:
        return Response(await asyncio.to_thread(work, await request.body()), media_type="application/json")

    async def health(_: Request) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    return Starlette(routes=[Route("/reward", reward, methods=["POST"]), Route("/health", health)])


def _groups_of(body: bytearray) -> list[Any]:
    """The groups of a frame, whose tensor is summed up on the way."""
    size = int.from_bytes(body[:8], "little")
    head = orjson.loads(memoryview(body)[8 : 8 + size])
    begin, end = head["token_entropies"]["data_offsets"]
    first, last = head["lengths"]["data_offsets"]
    values = np.frombuffer(body, np.float32, (end - begin) // 4, 8 + size + begin)
    ends = np.cumsum(np.frombuffer(body, np.int64, (last - first) // 8, 8 + size + first))
    np.add.reduceat(values, np.r_[0, ends[:-1]], dtype=np.float64)
    return list(orjson.loads(head["__metadata__"]["request"])["groups"])


async def floor(scope: Any, receive: Any, send: Any) -> None:
    out = b'{"status":"ok"}'
    if scope["method"] == "POST":
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        is_frame = dict(scope["headers"]).get(b"content-type") == FRAME
        groups = _groups_of(body) if is_frame else orjson.loads(body).get("groups")
        out = orjson.dumps({"rewards": [[REWARD] * len(g["rollouts"]) for g in groups]}) if groups else b" " * 700
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(out)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": out})


if __name__ == "__main__":
    made = {"naive": naive, "lean": lean, "floor": lambda: floor}[sys.argv[1]]()
    uvicorn.run(made, port=int(sys.argv[2]), log_level="critical", lifespan="off")
