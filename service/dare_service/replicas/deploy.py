"""The service on Ray: an application of Ray Serve, and an actor for each owner.

    serve run dare_service.replicas.deploy:application replicas=4 shards=4
    serve deploy CONFIG.yaml        the same from a file
    dare-reward serve --replicas 4  on this machine

Replicas find the owners by name, and the first that needs one starts it. Ray starts an owner again that dies. An owner
whose replicas are gone, or are of another version or other settings, sends its clients away and ends; the replicas
that need it then start their own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import httpx
import ray
from fastapi import FastAPI
from prometheus_client.core import Metric
from ray import serve
from ray.serve import Application
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from dare_reward import __version__

from ..app import State, create_app
from ..server import bind, log_to_stderr, steady
from ..settings import Settings, SettingsError, from_environment
from .ingress import Owners
from .link import ShardLink
from .owner import End, Owner, ShardReply, ShardRequest

__all__ = ["application", "serve_here"]

NAMESPACE = "dare-reward"
UNWANTED = 10.0  # seconds without a replica of its own version and settings, after which an owner ends
WAITING = 20_000  # requests at once, most of them waiting for siblings
SWEEP = 0.5


@ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=WAITING)
class JoinShard:
    """An owner. Ray calls its methods."""

    def __init__(self, settings: Settings, number: int, fingerprint: str) -> None:
        log_to_stderr(settings)
        steady()
        app = create_app(replace(settings, page="off"))  # nobody's address leads to it
        self._state: State = app.state.dare
        self._number = number
        self._owner = Owner(app, fingerprint=fingerprint)
        self._watching: asyncio.Task[None] | None = None

    async def exchange(self, replica: str, fingerprint: str, batch: Sequence[ShardRequest | End]) -> str:
        self._watching = self._watching or asyncio.ensure_future(self._watch())
        return await self._owner.exchange(replica, fingerprint, batch)

    async def results(self, replica: str) -> list[tuple[int, ShardReply | None]]:
        return await self._owner.results(replica)

    async def about(self) -> dict[str, Any]:
        joins = {"openrlhf": self._state.openrlhf.join, "rollouts": self._state.rollouts.join}
        waiting = {name: join.waiting for name, join in joins.items()}
        told = {
            "shard": self._number,
            "pid": os.getpid(),
            "version": __version__,
            "replicas": sorted(self._owner.peers),
        }
        notices = {"warnings": self._state.runs.warnings, "run_log": self._state.recorder.status}
        return {**told, "waiting": waiting, **notices}

    async def metrics(self) -> list[Metric]:
        return list(self._state.metrics.registry.collect())

    async def _watch(self) -> None:
        while not self._owner.unwanted(UNWANTED):
            await asyncio.sleep(SWEEP)
            self._owner.sweep()
        self._state.draining = True
        self._state.stop_joins()
        await asyncio.sleep(2 * SWEEP)  # the refusals go out
        self._state.recorder.close()
        ray.kill(ray.get_runtime_context().current_actor)


class _Remote:
    """An actor as its links see it: its methods without `.remote`."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def __getattr__(self, method: str) -> Any:
        return getattr(self._actor, method).remote


async def _connect(name: str, settings: Settings, number: int, fingerprint: str) -> Any:
    """The owner of that name; a new one if there is none. Asking may wait for Ray's head, so a thread does."""
    options = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "get_if_exists": True}
    start = JoinShard.options(**options).remote  # type: ignore[attr-defined]
    return _Remote(await asyncio.to_thread(start, settings, number, fingerprint))


def replica(settings: Settings, shards: int) -> ASGIApp:
    """The application of one replica, in the process that serves it."""
    log_to_stderr(settings)
    steady()
    app: FastAPI = create_app(settings)
    state: State = app.state.dare
    context = serve.get_replica_context()
    name = context.replica_id.unique_id
    fingerprint = _fingerprint(settings, shards)
    links = []
    for number in range(shards):
        owner = f"dare-join {context.app_name} {number} of {shards}"
        links.append(ShardLink(name, fingerprint, partial(_connect, owner, settings, number, fingerprint)))
    state.owners = Owners(name, settings, state.workers, links)
    outer: Any = ProxyHeadersMiddleware(app, settings.trusted_proxies) if settings.trusted_proxies else app  # type: ignore[arg-type]

    async def begun(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for link in links:
                link.start()
        await outer(scope, receive, send)

    return begun


def _fingerprint(settings: Settings, shards: int) -> str:
    content = json.dumps([__version__, shards, asdict(settings)], sort_keys=True)
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def application(args: dict[str, Any]) -> Application:
    """What `serve run` and a config file import. Arguments: replicas, shards, and settings by their names.

    Settings that are not given come from the `DARE_*` variables of the process that builds the application.
    """
    given = dict(args)
    replicas, shards = int(given.pop("replicas", 1)), int(given.pop("shards", 0))
    settings = from_environment(**given.pop("settings", {}))
    if given:
        raise SettingsError(f"unknown argument {min(given)!r}. Known: replicas, shards, settings")
    return _bound(settings, replicas, shards or replicas)


def _bound(settings: Settings, replicas: int, shards: int) -> Application:
    def build() -> ASGIApp:
        return replica(settings, shards)

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


def serve_here(settings: Settings, replicas: int) -> int:
    """Start or join Ray, serve until told to stop; the exit code."""
    stop = threading.Event()
    port = _free_port(settings)  # before Ray: its proxies would share a port with another process
    bound = _bound(settings, replicas, replicas)
    try:
        address = os.environ.get("RAY_ADDRESS", "local")  # never one that happens to run here
        ray.init(address, namespace=NAMESPACE, include_dashboard=False, logging_level="ERROR")
    except (RuntimeError, ConnectionError) as error:
        raise SettingsError(f"Ray cannot be started or joined: {str(error).splitlines()[0]}") from None
    serve.start(http_options={"host": settings.host, "port": port}, proxy_location="HeadOnly")
    serve.run(bound, name="dare-reward", route_prefix="/")
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: stop.set())
    url = f"http://[{settings.host}]:{port}" if ":" in settings.host else f"http://{settings.host}:{port}"
    while not (stop.is_set() or _answers(f"{url}/ready")):  # Ray's proxy hears of the application a little later
        time.sleep(0.1)
    sys.stdout.write(f"dare-reward listens on {url}\n")
    sys.stdout.flush()
    stop.wait()
    serve.delete("dare-reward")
    ray.shutdown()
    return 0


def _free_port(settings: Settings) -> int:
    with bind(settings) as listener:
        return int(listener.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.HTTPError:
        return False
