"""The service on Ray Serve: `serve run deploy/ray_serve.yaml`.

Groups are scored from what their request holds, so replicas share nothing. Rollouts that come one by one are refused:
their siblings would wait in another replica. Settings are the `DARE_*` variables of the application's `runtime_env`.
"""

from __future__ import annotations

from fastapi import FastAPI
from ray import serve

from .app import create_app
from .server import ready_the_process
from .settings import from_environment


def build() -> FastAPI:
    """The application of one replica, in its process."""
    settings = from_environment()
    ready_the_process(settings)
    return create_app(settings)


application = serve.deployment(name="dare-reward", ray_actor_options={"num_cpus": 0})(serve.ingress(build)()).bind()
