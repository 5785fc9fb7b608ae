"""What the URL of OpenRLHF's flag says of a run, and the flag itself: all that `--remote_rm_url` lets a user say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Literal
from urllib.parse import urlencode
from uuid import uuid4

from dare_reward.answers import Kind, option_letters
from dare_reward.errors import RequestError, unknown_name
from dare_reward.estimators.method import Method
from dare_reward.methods import find, require_every_rollout, require_rewards, require_steps, settle, specs
from dare_reward.openrlhf import AnswerRules, is_distinct, url_letters
from dare_reward.options import OPENRLHF_URL, OPTIONS
from dare_reward.params import query_texts
from dare_reward.scoring.shadow_methods import needs

from ..settings import Settings

CARRIED: Final = frozenset({"answer", "label"})
INSTALL: Final = "install dare-reward on the rollout nodes (docs/openrlhf.md): then rollouts come as groups"
ACTORS: Final = frozenset(
    {
        "votes_per_prompt", "adaptive", "entropy", "entropy_mode", "train_on", "send", "on_collapse", "timeout",
        "start_timeout", "labelled",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Run:
    """How the rollouts of a run are grouped and scored; `said` is all that its URL says, without the token."""

    said: str
    method: str
    params: tuple[tuple[str, Any], ...] = field(compare=False)
    run: str
    group_size: int | None
    kind: Kind
    options: tuple[str, ...] | None
    extra_logs: str
    label_policy: Literal["train", "eval"]
    shadow: tuple[str, ...]

    @cached_property
    def rules(self) -> AnswerRules:
        """How the run reads and compares answers."""
        return AnswerRules(dict(self.params), self.kind, self.options)

    def size_of_group(self, settings: Settings, address: str) -> int:
        """RequestError, with both ways out, where nothing tells whose sibling a rollout is that comes alone."""
        size = self.group_size
        if size is None:
            raise _missing(
                "group_size",
                f"add group_size, your --rollout.n_samples_per_prompt. {_ways_out(address, 8)}",
            )
        named = is_distinct(self.run) or (settings.join_runs == "any" and self.run)
        if size > 1 and not named:
            raise _missing(
                "run",
                f"run= must hold nine digits or a UUID: jobs would share groups. {_ways_out(address, size)}",
            )
        return size


@lru_cache(maxsize=1024)
def run_of(query: str, settings: Settings) -> Run:
    """What the query string of OpenRLHF's flag says. Cached: thousands of posts carry the same one."""
    texts = query_texts(query)
    texts.pop("token", None)
    said = urlencode(sorted(texts.items()))
    method = find(texts.pop("method", settings.method))
    require_rewards(method, consumer="OpenRLHF")
    require_every_rollout(method, consumer="OpenRLHF")
    _check_inputs(method, method.requires, "method")
    shadow = OPTIONS["shadow"].parse(texts.get("shadow", ""), loc=("query",))
    for name in shadow:
        _check_inputs((other := find(name, loc=("query", "shadow"))), needs(other), "shadow")
    # A name of both is the URL's own; the method's is METHOD.NAME.
    theirs = {f"{method.name}.{s.name}" if s.name in OPENRLHF_URL else s.name: s for s in specs(method, shadow=shadow)}
    params = {"missing_entropy": "frequency"} if "missing_entropy" in theirs else {}
    params |= settings.default_params if method.name == settings.method else {}
    own = {s.name: s.default for s in OPENRLHF_URL.values()}
    for name, text in texts.items():
        if name in own:
            own[name] = OPENRLHF_URL[name].parse(text, loc=("query",))
        elif name in theirs:
            params[theirs[name].name] = theirs[name].parse(text, loc=("query",))
        else:
            raise _unknown(name, [*OPENRLHF_URL, *theirs])
    values = settle(method.name, params, shadow=shadow).values
    require_steps(method, values, consumer="OpenRLHF")
    _check_inputs(method, (w.name for w in method.when if w.holds(values)), "method")
    if (own["group_size"] or 1) > settings.max_rollouts:
        message = f"at most {settings.max_rollouts} (DARE_MAX_ROLLOUTS)"
        raise RequestError(message, loc=("query", "group_size"), code="parameter")
    own |= {"run": own["run"] or "", "options": _letters(own["kind"], own["options"])}
    return Run(said, method.name, tuple(sorted(values.items())), **own)


def minted(query: str, address: str, settings: Settings) -> str:
    """The checked URL for OpenRLHF's flag, with a UUID as its run where it names none; never with the token.

    OpenRLHF splits the flag at commas, so the URL has none.
    """
    if "," in address:
        message = "holds a comma, at which OpenRLHF splits the URL: ask by the name of one host"
        raise RequestError(message, loc=("Host",), code="host")
    texts = query_texts(query)
    texts.pop("token", None)
    texts.setdefault("run", str(uuid4()))
    text = urlencode(texts, safe="/:")
    run_of(text, settings).size_of_group(settings, address)
    return f"{address}/reward?{text}"


def _check_inputs(method: Method, needed: Iterable[str], where: str) -> None:
    """RequestError where the method, or a shadow, could never be computed here."""
    if lacking := sorted(n for n in needed if n != "mean_entropy" and not CARRIED & set(n.split("|"))):
        message = f"{method.name} needs {', '.join(lacking)}, which OpenRLHF does not send: {INSTALL}"
        raise RequestError(message, loc=("query", where), code="method")


def _unknown(name: str, known: list[str]) -> RequestError:
    if name in ACTORS:
        why = f"{name} is done in the rollout actor, and these rollouts come from one without this package: {INSTALL}"
        return RequestError(why, loc=("query", name), code="unknown_parameter")
    message = unknown_name("parameter of the URL", name, ["method", "token", *known], listed=True)
    return RequestError(message, loc=("query",), code="unknown_parameter")


def _letters(kind: str, options: str | None) -> tuple[str, ...] | None:
    if kind != "choice":
        if options is not None:
            raise RequestError("is for kind=choice", loc=("query", "options"), code="conflict")
        return None
    try:
        return option_letters(None) if options is None else url_letters(options)
    except RequestError as error:
        raise RequestError(error.message, loc=("query", "options"), code=error.code) from None


def _ways_out(address: str, size: int) -> str:
    """Short: OpenRLHF's log shows 200 characters."""
    return f'Get the URL: curl -sS "{address}/openrlhf?group_size={size}". Or install dare-reward on the rollout nodes'


def _missing(name: str, why: str) -> RequestError:
    return RequestError(why, loc=("query", name), code="missing_parameter")
