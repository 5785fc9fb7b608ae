"""Who may ask: the token, and on loopback the name that the service was reached by."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import socket
from functools import lru_cache
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import Request
from starlette.types import Scope

from .problems import RefusalError
from .settings import Settings


def hide_token(scope: Scope) -> None:
    """Move `token` from the query string to the request's state: whatever traces or logs the scope never sees it."""
    raw = scope.get("query_string", b"")
    if scope["type"] != "http" or b"token=" not in raw:
        return
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, encoding="utf-8", errors="surrogateescape")
    tokens = [value for name, value in pairs if name == "token"]
    others = [pair for pair in pairs if pair[0] != "token"]
    scope["query_string"] = urlencode(others, errors="surrogateescape").encode()
    scope.setdefault("state", {})["token"] = tokens[0] if len(tokens) == 1 else ""


class Hosts:
    """The names by which a request may reach the loopback address while no token is set.

    A page of any site can make its own name point at 127.0.0.1 (DNS rebinding) and then post as if from the same
    origin. Its name stays in Host and Origin. With a token there is nothing to protect: the page does not know it.
    """

    def __init__(self, settings: Settings) -> None:
        self._off = bool(settings.tokens)
        names = {socket.gethostname(), socket.getfqdn(), *settings.allowed_hosts.replace(",", " ").split()}
        self._names = frozenset(name.lower().rstrip(".") for name in names)

    def check(self, scope: Scope) -> None:
        """RefusalError 403 for a name that is not the machine's own."""
        server = scope.get("server")
        if self._off or not server or not _is_loopback(server[0]):
            return
        for name, value in scope["headers"]:
            if name in {b"host", b"origin"} and not _known(value, name == b"origin", self._names):
                raise RefusalError(
                    403,
                    f"the {name.decode()} header is not an address, localhost or this machine's name; "
                    "set DARE_ALLOWED_HOSTS to allow one more name, or protect the service with DARE_TOKEN",
                    code="host",
                )


@lru_cache(1024)
def _known(value: bytes, origin: bool, names: frozenset[str]) -> bool:
    host = _host(value.decode("latin-1") if origin else f"//{value.decode('latin-1')}")
    if not host:  # HTTP/1.0 may name no host; an origin without one is a sandboxed page
        return host == "" and not origin
    host = host.rstrip(".")
    return host in names or host == "localhost" or host.endswith(".localhost") or _is_address(host)


def _host(url: str) -> str | None:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return None


def _is_address(host: str | None) -> bool:
    try:
        ipaddress.ip_address(host or "")
    except ValueError:
        return False
    return True


@lru_cache(64)
def _is_loopback(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def authorise(request: Request, settings: Settings) -> None:
    """Both sides hashed, so that neither content nor length shows in the time that the comparison takes."""
    if not settings.tokens:
        return
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    # A header arrives as latin-1, whatever the caller wrote its bytes in; a query is decoded already.
    raw = request.scope["state"].get("token", "").encode("utf-8", "surrogateescape")
    if scheme.lower() == "bearer":
        raw = bearer.strip().encode("latin-1")
    digest = hashlib.sha256(raw).digest()
    if not sum(secrets.compare_digest(digest, hashlib.sha256(x.encode()).digest()) for x in settings.tokens):
        raise RefusalError(
            401,
            "the token is wrong: it is not the service's DARE_TOKEN"
            if raw
            else "send the token as Authorization: Bearer or as ?token= (clients and commands take it from DARE_TOKEN)",
            code="token",
            headers={"WWW-Authenticate": "Bearer"},
        )


def has_token(request: Request) -> bool:
    """Whether the caller sent one, right or wrong."""
    return "authorization" in request.headers or "token" in request.scope["state"]
