"""Embeddings of the rollouts' texts from an OpenAI-compatible endpoint that the operator configures (vLLM serves one).

Only the operator names the endpoint: a URL in a request would let any caller make this process fetch it. Requests that
carry `embedding` themselves need none of this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from .problems import RefusalError

__all__ = ["BATCH", "Embedder"]

BATCH = 128  # texts in one call
JSON = Mapping[str, Any]


class Embedder:
    """A client of one endpoint; its connections live as long as the process.

    url       base of the API, to which `/embeddings` is added
    tail      characters of a text that are sent, the last ones: models have a limit, and the end holds the conclusion
    """

    def __init__(self, url: str, model: str, *, token: str = "", tail: int = 64_000, timeout: float = 60.0) -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        self._http = httpx.Client(timeout=timeout, headers=headers)
        self._url = url.rstrip("/") + "/embeddings"
        self._model = model
        self._tail = tail

    def fill(self, groups: Sequence[JSON], watch: Callable[[], None]) -> list[JSON]:
        """The groups with an `embedding` in every rollout that has a text and none; RefusalError 503 on failure.

        `watch` is called before each call of the endpoint, and raises where nobody waits any more.
        """
        places = [
            (p, i)
            for p, group in enumerate(groups)
            for i, rollout in enumerate(group["rollouts"])
            if rollout.get("embedding") is None and (rollout.get("text") or "").strip()
        ]
        texts = [groups[p]["rollouts"][i]["text"][-self._tail :] for p, i in places]
        found: dict[tuple[int, int], list[float]] = {}
        for start in range(0, len(texts), BATCH):
            watch()
            part = texts[start : start + BATCH]
            found.update(zip(places[start : start + BATCH], self._embed(part), strict=True))
        return [
            {
                **group,
                "rollouts": [
                    {**rollout, "embedding": found[p, i]} if (p, i) in found else rollout
                    for i, rollout in enumerate(group["rollouts"])
                ],
            }
            for p, group in enumerate(groups)
        ]

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self._model, "input": [_portable(t) for t in texts], "encoding_format": "float"}
        try:
            response = self._http.post(self._url, json=body)
            response.raise_for_status()
            rows = {entry["index"]: entry["embedding"] for entry in response.json()["data"]}
            vectors = [[float(x) for x in rows[i]] for i in range(len(texts))]
        except httpx.HTTPStatusError as error:
            raise _away(f"answered {error.response.status_code}") from None
        except httpx.HTTPError as error:
            raise _away(type(error).__name__) from None
        except (KeyError, TypeError, ValueError):
            raise _away("sent something else than embeddings") from None
        if len({len(v) for v in vectors}) > 1 or not all(math.isfinite(x) for v in vectors for x in v):
            raise _away("sent vectors of several lengths, or not finite")
        return vectors

    def close(self) -> None:
        self._http.close()


def _away(what: str) -> RefusalError:
    return RefusalError(
        503,
        f"the service's embeddings endpoint (DARE_EMBEDDINGS_URL) {what}: send `embedding` yourself, or try again",
        code="embeddings",
        headers={"Retry-After": "5"},
    )


def _portable(text: str) -> str:
    """Lone surrogates do not travel."""
    return text.encode("utf-8", "replace").decode()
