"""`dare-reward serve`: one uvicorn process, loopback unless told otherwise, an orderly stop."""

from __future__ import annotations

import argparse
import gc
import sys
from typing import Any

from dare_reward.commands.command import add_command

NEEDED = {"fastapi", "uvicorn", "pydantic", "prometheus_client", "starlette", "uvloop", "httptools", "fastapi_offline"}


def register(subparsers: Any) -> None:
    """Entry point of the console script: add the subcommand. Imports nothing that the extra brings."""
    parser = add_command(
        subparsers,
        "serve",
        notes="Configure it by the DARE_* variables of docs/operations.md. It needs the extra `service`.",
        examples=(
            "dare-reward serve",
            "DARE_TOKEN=secret dare-reward serve --host 0.0.0.0 --port 8080",
            "DARE_METHOD=ttrl DARE_LOG=info dare-reward serve --port 0  # any free port",
        ),
        exits="0 after SIGTERM or Ctrl-C, 2 for a wrong setting or a missing extra.",
    )
    parser.add_argument("--host", help="The address to listen on (DARE_HOST; default: 127.0.0.1).")
    parser.add_argument("--port", type=int, help="The port, or 0 for any free one (DARE_PORT; default: 8000).")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT; 0 after an orderly stop, 2 for a wrong setting or a missing extra."""
    gc.disable()  # a start makes objects that stay: looking through them again and again is a tenth of its time
    try:
        from .server import serve  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name not in NEEDED:
            raise
        sys.stderr.write(f"dare-reward serve needs {error.name}; run pip install '.[service]' in your checkout\n")
        return 2
    finally:
        gc.enable()
    from .settings import SettingsError, from_environment  # noqa: PLC0415

    try:
        return serve(from_environment(host=arguments.host, port=arguments.port))
    except (SettingsError, ValueError) as error:
        sys.stderr.write(f"dare-reward serve: {error}\n")
        return 2
