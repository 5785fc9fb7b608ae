"""Errors as RFC 9457 problem documents: what is wrong, where, by which rule. Never the caller's data back."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from dare_reward.errors import DareError, RequestError, path

STOPPING = "the service is stopping; try again in a second"
MEDIA_TYPE = "application/problem+json"
MAX_REASON = 200
EXCHANGE = "dare.exchange"  # the extension of our server: what a request asks of its connection
TITLES = {
    400: "The body is not JSON or not a frame",
    401: "Not authorised",
    403: "Not allowed",
    404: "No such route",
    405: "Method not allowed",
    408: "The body did not arrive in time",
    413: "Request too large",
    415: "Media type not supported",
    422: "Invalid request",
    431: "Request head too large",
    500: "A bug in the service",
    503: "Busy or stopping",
}


class RefusalError(DareError):
    """The service's own refusal of a request, before its content matters."""

    def __init__(self, status: int, detail: str, *, code: str, headers: dict[str, str] | None = None) -> None:
        self.status = status
        self.detail = detail
        self.code = code
        self.headers = headers or {}
        super().__init__(detail)


def stopping() -> RefusalError:
    """For requests that come, or wait, while the service stops."""
    return RefusalError(503, STOPPING, code="draining", headers={"Retry-After": "1"})


class _Problem(Response):
    """A problem document. Its sentence is the reason phrase too: OpenRLHF's clients log that, and read no body."""

    reason = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if server := scope.get("extensions", {}).get(EXCHANGE):
            server.phrase(self.reason)
        await super().__call__(scope, receive, send)


def response(
    status: int,
    detail: str,
    errors: Sequence[dict[str, Any]] = (),
    *,
    request_id: str | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """The document, in ASCII: what says that something is wrong must not fail for the letters in which it says so."""
    body = {"type": "about:blank", "title": TITLES.get(status, "Error"), "status": status, "detail": detail}
    known = {"instance": request_id, "errors": list(errors)}
    body |= {name: value for name, value in known.items() if value}
    problem = _Problem(json.dumps(body), status, headers, MEDIA_TYPE)
    problem.reason = _reason(detail)
    return problem


def from_error(error: DareError, *, request_id: str) -> Response:
    """The document of one of our errors."""
    entries = []
    if isinstance(error, RequestError):
        entries = [{"loc": path(error.loc), "code": error.code, "message": error.message}]
    headers = error.headers if isinstance(error, RefusalError) else None
    return response(error.status, str(error), entries, request_id=request_id, headers=headers)


def _reason(detail: str) -> bytes:
    """One line of printable ASCII, cut between words; a token that stands in the wrong place of a URL is left out."""
    line = re.sub(r"[^ -~]", "?", " ".join(detail[: 4 * MAX_REASON].split()))
    line = re.sub(r"(?i)(token(=|%3d))\S+", r"\1...", line)
    words = textwrap.shorten(line, MAX_REASON, placeholder=" ...", break_long_words=False, break_on_hyphens=False)
    return words.encode()
