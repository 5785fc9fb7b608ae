"""What the URL of a request says, read from what the server received."""

from __future__ import annotations

from fastapi import Request
from starlette.datastructures import URL

from dare_reward.errors import RequestError
from dare_reward.params import query_texts


def query(request: Request) -> dict[str, str]:
    """The query string of a grouped request."""
    raw = request.scope["query_string"]
    out = query_texts(raw.decode("latin-1")) if raw else {}
    if out.get("detail", "full") not in {"full", "rewards"}:
        raise RequestError("must be full or rewards", loc=("query", "detail"), code="value")
    return out


def query_string(request: Request) -> str:
    """The query string as it came. `request.url` takes it for UTF-8, and the Host header for a host."""
    raw: bytes = request.scope["query_string"]
    return raw.decode("latin-1")


def address(request: Request) -> str:
    """The URL that was asked, without its query."""
    return str(URL(scope={**request.scope, "query_string": b""}))
