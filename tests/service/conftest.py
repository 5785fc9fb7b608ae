import asyncio
import json

import httpx
import pytest
from serving import live_server, told

from dare_service.app import create_app
from dare_service.settings import Settings


class Local:
    """The application without a socket, called synchronously; without a page, which has a process of its own."""

    def __init__(self, **settings):
        self.app = create_app(Settings(**{"page": "off", "join_runs": "any", **settings}))
        self.state = self.app.state.dare

    def request(self, method, url, **kwargs):
        async def run():
            transport = httpx.ASGITransport(app=told(self.app), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                return await client.request(method, url, **kwargs)

        return asyncio.run(run())

    def get(self, url, **kwargs):
        return self.request("GET", url, **kwargs)

    def post(self, body, url="/reward", **kwargs):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": "application/json", **kwargs.pop("headers", {})}
        return self.request("POST", url, content=content, headers=headers, **kwargs)


@pytest.fixture(scope="session")
def service():
    return Local()


@pytest.fixture
def make_service():
    made = []

    def make(**settings):
        made.append(Local(**settings))
        return made[-1]

    yield make
    for service in made:
        service.state.recorder.close()


@pytest.fixture(scope="session")
def live():
    with live_server() as (url, _):
        yield url
