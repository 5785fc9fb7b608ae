"""The service on Ray: an application of Ray Serve, and an actor for each shard.

    serve run dare_service.replicas.deploy:application replicas=4 shards=4
    serve deploy CONFIG.yaml        the same from a file
    dare-reward serve --replicas 4  on this machine

Replicas find the shards by name, and the first that needs one starts it. Ray starts a shard again that dies. A shard
whose replicas are gone, or are of another version or other settings, sends its clients away and ends; the replicas
that need it then start their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import signal
import sys
import threading
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import httpx
import ray
from ray import serve
from ray.serve import Application
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dare_reward import __version__

from ..app import State, create_app
from ..server import address, bind, ready_the_process
from ..settings import Settings, SettingsError, from_environment
from .ingress import ShardLink, Shards
from .shard import Shard

NAMESPACE = "dare-reward"
WAITING = 20_000  # requests at once, most of them waiting for siblings


@ray.remote(num_cpus=0, max_restarts=-1)
class JoinShard(Shard):
    """A shard whose process Ray keeps. It listens on the address that its node has in Ray."""

    def __init__(self, settings: Settings, number: int, fingerprint: str) -> None:
        super().__init__(settings, number, ray.util.get_node_ip_address(), fingerprint)

    def ended(self) -> None:
        ray.kill(ray.get_runtime_context().current_actor)


class _Remote:
    """An actor's methods without `.remote`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Any:
        return getattr(self._actor, method).remote


async def _find(name: str, *arguments: Any) -> _Remote:
    """The shard of that name; a new one if there is none. Asking may wait for Ray's head, so a thread does."""
    options = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    start = JoinShard.options(**options).remote  # type: ignore[attr-defined]
    return _Remote(await asyncio.to_thread(start, *arguments))


def _replica(settings: Settings, shards: int) -> ASGIApp:
    """The application of one replica, in the process that serves it."""
    ready_the_process(settings)
    app = create_app(settings, alone=True)
    state: State = app.state.dare
    context = serve.get_replica_context()
    name = context.replica_id.unique_id
    content = json.dumps([__version__, shards, asdict(settings)], sort_keys=True)
    fingerprint = hashlib.blake2b(content.encode(), digest_size=8).hexdigest()
    finds = (
        partial(_find, f"dare-join {context.app_name} {number} of {shards}", settings, number, fingerprint)
        for number in range(shards)
    )
    links = [ShardLink(name, fingerprint, find) for find in finds]
    state.shards = owners = Shards(name, settings, state.workers, links)
    outer: Any = ProxyHeadersMiddleware(app, settings.trusted_proxies) if settings.trusted_proxies else app  # type: ignore[arg-type]

    async def begun(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            owners.start()
        await outer(scope, receive, send)

    return begun


def application(args: dict[str, Any]) -> Application:
    """What `serve run` and a config file import. Arguments: replicas, shards, and settings by their names.

    Settings that are not given come from the `DARE_*` variables of the process that builds the application.
    """
    arguments = dict(args)
    replicas, shards = int(arguments.pop("replicas", 1)), int(arguments.pop("shards", 0))
    settings = from_environment(**arguments.pop("settings", {}))
    if arguments:
        raise SettingsError(f"unknown argument {min(arguments)!r}. Known: replicas, shards, settings")
    return _bound(settings, replicas, shards or replicas)


def _bound(settings: Settings, replicas: int, shards: int) -> Application:
    def build() -> ASGIApp:
        return _replica(settings, shards)

    deployment = serve.deployment(
        name="dare-reward",
        num_replicas=replicas,
        max_ongoing_requests=WAITING,
        ray_actor_options={"num_cpus": 0},
        graceful_shutdown_timeout_s=10,
        health_check_period_s=2,
        health_check_timeout_s=5,
        logging_config={"enable_access_log": False},  # the application has its own
    )
    return deployment(serve.ingress(build)()).bind()


def serve_here(settings: Settings, replicas: int, joined: str) -> int:
    """Start Ray, or join the one at that address; serve until told to stop; the exit code."""
    stop = threading.Event()
    with bind(settings) as listener:  # before Ray: its proxies would share a port with another process
        url, port = address(listener), listener.getsockname()[1]
    bound = _bound(settings, replicas, replicas)
    try:
        ray.init(joined, namespace=NAMESPACE, include_dashboard=False, logging_level=logging.ERROR)
    except (RuntimeError, ConnectionError) as error:
        raise SettingsError(f"Ray cannot be started or joined: {str(error).splitlines()[0]}") from None
    serve.start(http_options={"host": settings.host, "port": port}, proxy_location="HeadOnly")
    serve.run(bound, name="dare-reward", route_prefix="/")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    while not (stop.is_set() or _answers(f"{url}/ready")):  # Ray's proxy hears of the application a little later
        time.sleep(0.1)
    sys.stdout.write(f"dare-reward listens on {url}\n")
    sys.stdout.flush()
    stop.wait()
    serve.delete("dare-reward")
    ray.shutdown()
    return 0


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False
