"""What every scoring route asks of a request before its body: the token, the query string."""

from __future__ import annotations

import hashlib
import secrets

from fastapi import Request
from starlette.datastructures import URL

from dare_reward.errors import RequestError

from .problems import RefusalError
from .settings import Settings

__all__ = ["address", "authorise", "query", "query_string", "stopping"]


def authorise(request: Request, settings: Settings) -> None:
    """Both sides hashed, so that neither content nor length shows in the time that the comparison takes."""
    if not settings.token:
        return
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    # A header arrives as latin-1, whatever the caller wrote its bytes in; a query is decoded already.
    raw = given.strip().encode("latin-1") if scheme.lower() == "bearer" else _query_token(request)
    digests = (hashlib.sha256(x).digest() for x in (raw, settings.token.encode()))
    if not secrets.compare_digest(*digests):
        raise RefusalError(
            401,
            "send the token as Authorization: Bearer or as ?token=",
            code="token",
            headers={"WWW-Authenticate": "Bearer"},
        )


def query(request: Request) -> dict[str, str]:
    """The query string of a grouped request."""
    out: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in out:
            raise RequestError(f"{name[:64]!r} is given twice", loc=("query",), code="duplicate")
        out[name] = value
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


def stopping() -> RefusalError:
    """For requests that come, or wait, while the service stops."""
    return RefusalError(503, "stopping", code="draining", headers={"Retry-After": "1"})


def _query_token(request: Request) -> bytes:
    return request.query_params.get("token", "").encode("utf-8", "replace")
