"""A reverse proxy that writes every reward request with its reply to a file, one JSON line each.

    python recorder.py UPSTREAM FILE     prints the port

While the upstream is away it answers 502, which clients take as a reason to come back.
"""

import base64
import json
import sys
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HOP = {"content-length", "transfer-encoding", "connection", "host"}


def create(upstream, path):
    client = httpx.AsyncClient(base_url=upstream, timeout=180, limits=httpx.Limits(max_connections=None))
    file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115  (as long as the process)

    async def forward(request: Request) -> Response:
        body = await request.body()
        target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {k: v for k, v in request.headers.items() if k not in HOP}
        try:
            reply = await client.request(request.method, target, content=body, headers=headers)
            status, content, kind = reply.status_code, reply.content, reply.headers.get("content-type")
        except httpx.TransportError as error:
            status, content, kind = 502, str(error).encode(), "text/plain"
        if request.method == "POST":
            line = {
                "path": target,
                "type": request.headers.get("content-type"),
                "body": base64.b64encode(body).decode(),
                "status": status,
                "reply": content.decode(),
            }
            file.write(json.dumps(line) + "\n")
            file.flush()
        return Response(content, status, media_type=kind)

    return Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])


def main():
    config = uvicorn.Config(create(sys.argv[1], sys.argv[2]), host="127.0.0.1", port=0, log_level="error")
    listener = config.bind_socket()
    print(listener.getsockname()[1], flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
