"""The routes of the page: itself, and its data, which it asks for each second.

The page holds nothing of a run; data wants the token, if one is set, in a header. A browser opens `/?token=...` once:
the page takes the token out of the address bar and keeps it for the tab.
"""

from __future__ import annotations

import asyncio

from fastapi import FastAPI, Request, Response

from dare_reward.report.document import ALONE, ASSETS, document

from ..auth import authorise
from ..problems import RefusalError


def install(app: FastAPI) -> None:
    """Add the routes; they are not part of the API's description."""
    for path, handler in (("/", index), ("/page/data", data)):
        app.add_api_route(path, handler, methods=["GET"], response_model=None, include_in_schema=False)


async def index(request: Request) -> Response:
    """The empty page; 401 without the token, and then it asks for it."""
    try:
        authorise(request, request.app.state.dare.settings)
        status = 200
    except RefusalError as refusal:
        status = refusal.status
    page = document({}, assets=(*ASSETS, "live.js"), block="live-data", asks="'self'")
    return Response(page, status, ALONE, media_type="text/html; charset=utf-8")


async def data(request: Request) -> Response:
    """Every run, as `dare_reward.report.view` draws it; 204 if the page has `seen` it."""
    if request.headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}:
        raise RefusalError(403, "the page's data is for the page alone, and another site asks for it", code="origin")
    state = request.app.state.dare
    authorise(request, state.settings)
    if state.recorder.page is None:
        raise RefusalError(503, "there is no run log that the page could follow: GET /info says why", code="page")
    content = await asyncio.to_thread(state.recorder.page.json, request.query_params.get("seen", ""))
    return Response(content, 200 if content else 204, ALONE, media_type="application/json")
