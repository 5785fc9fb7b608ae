"""The address of a service, checked where it is given and not where it first fails."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from .errors import RequestError

__all__ = ["split_address"]


def split_address(url: str) -> SplitResult:
    """RequestError unless it has a scheme of HTTP and a host."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        known = False
    if not known:
        raise RequestError(f"the address of the reward service is like http://127.0.0.1:8000, not {url!r}", code="url")
    return parts
