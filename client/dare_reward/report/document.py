"""The report as one HTML file: no other file, no other host, and a policy that lets nothing run but its own script.

What a rollout says stands in a block of JSON, which no browser executes, and reaches the page as text alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Final

from ..runs.log import finite

ASSETS: Final = ("uplot.css", "report.css", "uplot.js", "report.js")
ALONE: Final = {  # headers of a page whose data no other site and no cache gets
    "Content-Security-Policy": "frame-ancestors 'none'",  # the rest stands in the page
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


def asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text("utf-8")


def document(data: Mapping[str, Any], *, assets: Iterable[str] = ASSETS, block: str = "data", asks: str = "") -> str:
    """The file. `data` is `view(...)` with what the report says of itself.

    assets, block, asks   of another page in the same look: its parts, the name of its data, and where it may send to
    """
    styles, scripts = ([asset(name) for name in assets if name.endswith(kind)] for kind in (".css", ".js"))
    policy = f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; img-src data:; "
    policy += "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    policy += f"; connect-src {asks}" if asks else ""
    head = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    head += "".join(f"<style>{s}</style>" for s in styles)
    body = f'<script type="application/json" id="{block}">{embedded(data)}</script>'
    body += "".join(f"<script>{s}</script>" for s in scripts)
    return asset("shell.html").replace("<!--head-->", head).replace("<!--body-->", body)


def embedded(data: Mapping[str, Any]) -> str:
    """JSON that ends no script block: ASCII, and without the letters that mean something in HTML."""
    text = json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _hashes(texts: list[str]) -> str:
    digests = (base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in texts)
    return " ".join(f"'sha256-{d}'" for d in digests)
