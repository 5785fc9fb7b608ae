"""Every setting, its environment variable and why it exists. `/info` returns the effective values."""

from __future__ import annotations

import ipaddress
import json
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from dare_reward.errors import DareError, RequestError, misspelt_variables, placed
from dare_reward.methods import read_line
from dare_reward.params import Spec
from dare_reward.runs.line import asked_for
from dare_reward.scoring.request import Limits

MIB = 1 << 20
BYTES: Final[dict[str, Any]] = {"ge": 64 << 10, "le": 1 << 40}  # of what a request needs
ELSEWHERE = frozenset({"DARE_URL", "DARE_TRAINED"})  # read by the clients and adapters
UNMEASURED = (
    "nobody has measured whether entropy is informative for your policy, and {method} weighs votes by it: run "
    "dare-reward calibrate on 32 labelled prompts, or send labels with some groups"
)
SECRET = frozenset({"token"})  # never shown
UNSAID = SECRET | {"host", "port", "run_log"}  # of /info, which needs no token: where things are


class SettingsError(DareError, ValueError):
    """An environment variable does not hold what it should."""


def _setting(default: Any, why: str, **limits: Any) -> Any:
    """A number has a range: outside of it the service would start and then serve nobody, or never stop."""
    usual: dict[type, dict[str, Any]] = {float: {"ge": 0.01, "le": 86_400}, int: {"ge": 1, "le": 1 << 30}}
    spec = Spec(doc=why, type=type(default), default=default, **usual.get(type(default), {}) | limits)
    return field(default=default, metadata={"spec": spec})


def _bound(default: Any, why: str) -> Any:
    """What bounds the service and no environment sets."""
    return field(default=default, metadata={"spec": Spec(doc=why, type=type(default), default=default), "bound": True})


@dataclass(frozen=True)
class Settings:
    """A field `name` is set by `DARE_NAME`; the last ones are bounds that no environment sets."""

    host: str = _setting("127.0.0.1", "Loopback: whoever can reach the port can use the CPU. 0.0.0.0 in a container.")
    port: int = _setting(8000, "Where `--remote_rm_url` and the clients point.", ge=0, le=65535)
    token: str = _setting(
        "",
        "If set, every POST, `/openrlhf` and what the page shows want `Authorization: Bearer <token>` or `?token=`; "
        "`/health`, `/ready`, `/info`, `/metrics`, `/methods` and the API's description stay open. Several, separated "
        "by spaces, are all accepted: rotate one by setting both, moving the clients, and dropping the old one.",
    )
    allowed_hosts: str = _setting(
        "",
        "Further names, separated by spaces or commas, by which a browser or a proxy on this machine may reach the "
        "loopback address when no token is set. A web page whose own name is pointed at 127.0.0.1 is refused.",
    )
    trusted_proxies: str = _setting(
        "",
        "Addresses or networks, separated by commas, whose X-Forwarded-For is believed. Empty: none, so that nobody "
        "can pose as another client.",
    )
    method: str = _setting("dare", "The method of a request that names none.")
    params: str = _setting(
        "{}",
        "JSON object: parameters of that method where a request sets none. Or the line that `dare-reward calibrate` "
        "prints, which names the method too.",
    )
    max_body_bytes: int = _setting(
        128 * MIB,
        "The largest stated step, 128 x 64 x 3072 entropies, is a frame of 96 MiB.",
        **BYTES,
    )
    max_inflight_bytes: int = _setting(
        512 * MIB,
        "Bodies held at once; more are answered 503 + Retry-After instead of exhausting memory.",
        **BYTES,
    )
    max_groups: int = _setting(1024, "Groups of one request; clients split.")
    max_rollouts: int = _setting(1024, "Rollouts of one group.")
    max_text: int = _setting(
        256 << 10,
        "Characters of one text, answer, label, reference or prompt. OpenRLHF's queries are read from the end.",
        ge=256,
    )
    deadline: float = _setting(
        100.0, "Seconds for a request body to arrive. Below slime's 120 s and OpenRLHF's 180 s per try."
    )
    keep_alive: float = _setting(
        620.0,
        "Seconds that an idle connection stays open: more than those of a proxy in front (nginx and AWS 60, "
        "cloudflared 90, Google Cloud 600), which else sends a request into a connection that has just been closed.",
    )
    drain: float = _setting(
        1.0,
        "Seconds between SIGTERM and closing the port, so that load balancers see /ready turn 503.",
        ge=0,
        le=3600,
    )
    grace: float = _setting(105.0, "Seconds that requests in flight get to finish after that.", ge=0, le=3600)
    join: str = _setting(
        "on",
        "off: single rollouts are refused. For replicas behind one address, each of which would get a part of a group.",
        choices=("on", "off"),
    )
    join_hold: float = _setting(
        170.0,
        "Seconds that an OpenRLHF rollout waits for its siblings: its client gives up after 180 s and comes back.",
        le=179,
    )
    page: str = _setting(
        "on",
        "off: no page at `GET /`. It follows the run log, so `DARE_RUN_LOG=off` turns it off too.",
        choices=("on", "off"),
    )
    log: str = _setting(
        "info",
        "info: one JSON line a request, or a group of single rollouts, never a body; error: only failures; off.",
        choices=("info", "error", "off"),
    )

    run_log: str = _setting(
        "",
        "Folder to which every scored group is appended, one line each ([run-log.md](run-log.md)). Two processes "
        "may have the same one. Empty: for the page, a private temporary folder of at most 32 MiB, which goes with the "
        "process. off: none.",
    )
    run_log_texts: str = _setting(
        "",
        "What the lines hold beside numbers and answers: any of `prompt`, `texts`, or `all`.",
    )
    run_log_max_bytes: int = _setting(
        1 << 30,
        "Bytes that the run log of this process may take; then its own oldest segments are deleted.",
        ge=MIB,
        le=1 << 40,
    )

    # What nobody has had to change; `/info` shows them too.
    max_json_bytes: int = _bound(
        64 * MIB,
        "JSON of that step is 489 MiB and seconds of CPU: beyond this, send a frame or means.",
    )
    max_request_memory: int = _bound(
        64 * MIB,
        "Bytes that one request may take beside 4 x its body; more is answered 413. Few bytes of JSON can stand for a "
        "large object.",
    )
    max_request_rollouts: int = _bound(
        32_768, "Rollouts of one request, over all of its groups: a step of 512 prompts x 64. Clients split."
    )
    max_request_steps: int = _bound(
        2_000_000,
        "Steps, of about 5 us, that one request may take for reading its answers and for gmae; "
        "more is answered 413. An answer takes 100 on average and 8,000 at most. A group of single "
        "rollouts is bounded by its size instead.",
    )
    body_idle: float = _bound(
        10.0, "Seconds without a byte after which the upload of a body ends: a stalled one must not hold memory."
    )
    head_timeout: float = _bound(
        10.0, "Seconds that a connection gets for a complete request head: silent ones must not use up all sockets."
    )
    max_head_bytes: int = _bound(
        64 << 10,
        "Bytes of a request's line and headers; more are answered 431 before the token is looked at.",
    )
    join_runs: str = _bound(
        "distinct", "The run= of single rollouts holds nine digits in a row or a UUID: no two jobs then have the same."
    )
    join_deadline: float = _bound(
        800.0,
        "Seconds after which a group closes with what has arrived. It closes before as a client's fifth try ends, its "
        "last.",
    )
    join_memory: int = _bound(
        256 * MIB,
        "Bytes of rollouts that wait and of rewards that are kept for who missed them. The oldest rewards go first; "
        "where rollouts alone fill it, more are answered 503.",
    )
    backlog: int = _bound(
        8192,
        "Connections waiting to be accepted: stacks that post one rollout a call open thousands at once.",
    )

    def __hash__(self) -> int:
        """Cheap: thousands of requests look up what their URL says under these settings."""
        return hash((self.method, self.params))

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        return tuple(self.token.split())

    @property
    def shown(self) -> dict[str, Any]:
        """What `/info` tells of them."""
        return {name: value for name, value in asdict(self).items() if name not in UNSAID}

    @cached_property
    def limits(self) -> Limits:
        return Limits(
            groups=self.max_groups,
            rollouts=self.max_rollouts,
            text=self.max_text,
            steps=self.max_request_steps,
            total=self.max_request_rollouts,
        )

    @cached_property
    def default_params(self) -> Mapping[str, Any]:
        try:
            value = json.loads(self.params)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise SettingsError(
                'DARE_PARAMS must be a JSON object, such as {"alpha": 0.5}, or a line, such as method=dare&alpha=0.5'
            )
        return value


SETTINGS: Final = {
    f.name: replace(f.metadata["spec"], name=f.name) for f in fields(Settings) if "bound" not in f.metadata
}


def from_environment(environment: Mapping[str, str] = os.environ, **flags: Any) -> Settings:
    """Settings from `DARE_*`; `flags` (a command line's flags) win."""
    texts = {name: environment[f"DARE_{name.upper()}"] for name in SETTINGS if f"DARE_{name.upper()}" in environment}
    values = {name: _checked(SETTINGS[name], text) for name, text in texts.items()} | _line(texts)
    values |= {name: _checked(SETTINGS[name], value) for name, value in flags.items() if value is not None}
    settings = Settings(**values)
    if settings.token and not settings.tokens:
        raise SettingsError("DARE_TOKEN holds nothing but spaces; leave it unset for a service without a token")
    _check_host(settings.host)
    _check_proxies(settings.trusted_proxies)
    try:
        asked_for(settings.run_log_texts)
    except RequestError as error:
        raise SettingsError(f"DARE_RUN_LOG_TEXTS: {error.message}") from None
    return settings


def _checked(spec: Spec, value: Any) -> Any:
    try:
        return spec.parse(value) if isinstance(value, str) and spec.type is not str else spec.check(value)
    except RequestError:
        flag = f" (--{spec.name})" if spec.name in {"host", "port"} else ""
        raise SettingsError(f"DARE_{spec.name.upper()}{flag} must be {spec.accepts}") from None


def _check_host(host: str) -> None:
    """An empty variable, and an address in short, are taken for every interface by the system."""
    if not host.strip():
        raise SettingsError(
            "DARE_HOST (--host) is empty; leave it unset for 127.0.0.1, or name an address: 0.0.0.0 is every interface"
        )
    with suppress(OSError, UnicodeError):  # the name of a host, or an address of IPv6
        if (full := socket.inet_ntoa(socket.inet_aton(host))) != host:
            raise SettingsError(f"DARE_HOST (--host) is short for {full}: write the whole address")


def _check_proxies(proxies: str) -> None:
    """uvicorn takes what is no address for the name of a socket, which never matches."""
    for proxy in [] if proxies == "*" else filter(None, map(str.strip, proxies.split(","))):
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            raise SettingsError(
                "DARE_TRUSTED_PROXIES must be addresses or networks, such as 127.0.0.1,10.0.0.0/8, or *: "
                f"{proxy[:64]!r} is none"
            ) from None


def unread(environment: Mapping[str, str] = os.environ) -> list[str]:
    """A sentence for each `DARE_*` variable that no part of the project reads."""
    known = [f"DARE_{name.upper()}" for name in SETTINGS]
    foreign = [n for n in environment if n in ELSEWHERE or n.startswith("DARE_TEST_")]
    names = [n for n in environment if n.startswith("DARE_") and n not in {*known, *foreign}]
    near = misspelt_variables(known, names)
    hinted = {sentence.split()[2] for sentence in near}
    return [*near, *(f"the variable {n[:64]} is not read." for n in sorted(names) if n[:64] not in hinted)]


def _line(values: Mapping[str, Any]) -> dict[str, Any]:
    """Method and parameters, if DARE_PARAMS is a line that names both."""
    text = str(values.get("params", "{}"))
    if "method=" not in text or text.lstrip().startswith("{"):
        return {}
    try:
        method, params = read_line(text)
    except RequestError as error:
        raise SettingsError(f"DARE_PARAMS: {placed(error, 1)}") from None
    if values.get("method", method) != method:
        raise SettingsError(f"DARE_PARAMS names the method {method}: leave DARE_METHOD out, or let it be the same")
    return {"method": method, "params": json.dumps(params)}
