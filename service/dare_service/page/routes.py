"""The routes of the page: itself, its parts, its data, and the events that say when there is more.

The page and its parts hold nothing of a run; data and events want the token, if one is set, in a header. A browser
opens `/?token=...` once: the page takes the token out of the address bar and keeps it for the tab.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from dare_reward import __version__
from dare_reward.report.document import ALONE, ASSETS, BARRED, asset, shell

from ..auth import authorise
from ..problems import RefusalError, stopping

TICK: Final = 0.25  # seconds between two looks at whether there is more
QUIET: Final = 15.0  # seconds after which a comment keeps proxies from closing the stream
STREAMS: Final = 64  # open at once

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; frame-ancestors 'none'; " + BARRED
)
HEADERS: Final = {**ALONE, "Content-Security-Policy": POLICY}
PARTS: Final = {**ASSETS, "live.js": ASSETS["report.js"]}


def install(app: FastAPI) -> None:
    """Add the routes; they are not part of the API's description."""
    for path, handler in (("/", index), ("/page/data", data), ("/page/events", events), ("/page/{name}", part)):
        app.add_api_route(path, handler, methods=["GET"], response_model=None, include_in_schema=False)


async def index(request: Request) -> Response:
    """The empty page; 401 without the token, and then it asks for it."""
    try:
        authorise(request, request.app.state.dare.settings)
        status = 200
    except RefusalError as refusal:
        status = refusal.status
    mark = f"?v={__version__}"
    styles = "".join(f'<link rel="stylesheet" href="page/{n}{mark}">' for n, kind in PARTS.items() if "css" in kind)
    scripts = "".join(f'<script src="page/{n}{mark}"></script>' for n, kind in PARTS.items() if "javascript" in kind)
    return Response(shell(styles, scripts), status, HEADERS, media_type="text/html; charset=utf-8")


async def part(request: Request) -> Response:
    """A script or a style."""
    name = request.path_params["name"]  # for a declared parameter FastAPI loads pydantic's whole first version
    if name not in PARTS:
        raise RefusalError(404, "no such part of the page", code="route")
    headers = {**HEADERS, "Cache-Control": "no-cache"}
    return Response(asset(name), headers=headers, media_type=PARTS[name])


async def data(request: Request) -> Response:
    """Every run, as `dare_reward.report.view` draws it; a page that asks `again` was told before."""
    state = _asked(request)
    content = await asyncio.to_thread(state.recorder.page.json, anew="again" not in request.query_params)
    return Response(content, headers=HEADERS, media_type="application/json")


async def events(request: Request) -> Response:
    """Server-sent events: how often the log has grown, each time that it does."""
    state = _asked(request)
    if state.draining:
        raise stopping()
    if state.streams >= STREAMS:
        raise RefusalError(503, f"{STREAMS} pages are open already", code="streams", headers={"Retry-After": "30"})
    return StreamingResponse(_events(state), headers=HEADERS, media_type="text/event-stream")


async def _events(state: Any) -> AsyncIterator[bytes]:
    state.streams += 1
    try:
        page, told, quiet = state.recorder.page, -1, 0.0
        while not state.draining:
            if told != page.grown:
                told, quiet = page.grown, 0.0
                yield f"data: {told}\n\n".encode()
            elif quiet >= QUIET:  # no event: the page would draw itself anew, and close what its reader has opened
                quiet = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(TICK)
            quiet += TICK
    finally:
        state.streams -= 1


def _asked(request: Request) -> Any:
    """The state, for a request with the token that no other site has made a browser send."""
    if request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        raise RefusalError(403, "the page's data is for the page alone, and another site asks for it", code="origin")
    state = request.app.state.dare
    authorise(request, state.settings)
    if state.recorder.page is None:
        raise RefusalError(503, "there is no run log that the page could follow: GET /info says why", code="page")
    return state
