"""What single rollouts are posted as and what the service's own routes reply: types that openapi.json is made of.

Whole groups are in `schema.py`, their replies in `dare_reward`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, NotRequired

from pydantic import Field as Rule
from typing_extensions import TypedDict

from dare_reward.openrlhf import LOGS, keys_of

from .problems import MAX_ERRORS
from .settings import SHOWN


class OpenRLHFPost(TypedDict):
    query: Annotated[list[str], Rule(description="prompt and response, decoded")]
    prompts: Annotated[list[str], Rule(description="the prompts")]
    labels: NotRequired[
        Annotated[list[Any], Rule(description="decide whether a rollout is graded: see docs/openrlhf.md")]
    ]


def _typed(name: str, keys: dict[str, Any], *, total: bool = True) -> Any:
    make: Any = TypedDict
    return make(name, keys, total=total)


OpenRLHFLogs: Any = _typed(
    "OpenRLHFLogs",
    {name: Annotated[list[float], Rule(description=LOGS[name].meaning)] for name in keys_of("url")},
    total=False,
)
# The settings that are no secrets, with why each exists.
ShownSettings: Any = _typed(
    "ShownSettings",
    {name: Annotated[spec.type, Rule(description=spec.doc)] for name, spec in SHOWN.items()},
)


class OpenRLHFReply(TypedDict):
    rewards: Annotated[list[float], Rule(description="multiples of 2^-16")]
    scores: Annotated[list[float], Rule(description="1: agrees with the plurality")]
    extra_logs: NotRequired[OpenRLHFLogs]


class Health(TypedDict):
    status: Literal["ok"]


class Readiness(TypedDict):
    status: Literal["ready"]


class RunWarning(TypedDict):
    event: str
    why: str
    runs: Annotated[int, Rule(ge=1)]


class EntropyNote(TypedDict):
    note: Annotated[str | None, Rule(description="what to measure before the default method can be trusted")]
    unmeasured_runs: Annotated[
        list[str], Rule(description="runs on the page whose method reads entropies, without labels that judge them")
    ]


class Info(TypedDict):
    version: str
    answers_version: Annotated[str, Rule(description="the version of the answer rules")]
    auth: Annotated[bool, Rule(description="whether a token is needed")]
    settings: ShownSettings
    entropy: EntropyNote
    run_log: Annotated[
        dict[str, Annotated[int, Rule(ge=0)]] | None,
        Rule(description="counts of groups of the run log; null: there is none"),
    ]
    page: Annotated[
        dict[str, Annotated[int, Rule(ge=0)]] | None,
        Rule(description="where the lines of the run log went that the page read; null: there is no page"),
    ]
    warnings: Annotated[list[RunWarning], Rule(description="what you may not have meant, once each")]


class MethodParameter(TypedDict):
    name: str
    type: str
    default: Annotated[Any, Rule(description="null if it is required or has none")]
    required: bool
    accepts: Annotated[str, Rule(description="the accepted values in words")]
    doc: str
    source: Annotated[str, Rule(description="equation, paper or our choice")]


class RequiredWhen(TypedDict):
    input: str
    when: str


class MethodEntry(TypedDict):
    name: str
    summary: str
    paper: str
    evidence: Annotated[str, Rule(description="how well it could be verified")]
    output: Literal["rewards", "advantages"]
    advantages: Annotated[bool, Rule(description="whether it has advantages of its own")]
    offered: Annotated[bool, Rule(description="false: a preset, experimental, or with references")]
    requires: Annotated[list[str], Rule(description="inputs of rollouts or groups; a|b is either")]
    requires_when: Annotated[list[RequiredWhen], Rule(description="inputs that a parameter makes necessary")]
    optional: list[str]
    cost: str
    unverified: str
    parameters: Annotated[list[MethodParameter], Rule(description="those of the method and of the answers")]


class MethodList(TypedDict):
    default: Annotated[str, Rule(description="the method of requests that name none")]
    methods: Annotated[list[MethodEntry], Rule(description="every method")]


class ProblemEntry(TypedDict):
    loc: str
    code: str
    message: str


class ProblemDocument(TypedDict):
    """RFC 9457; never holds the caller's data"""

    type: str
    title: str
    status: int
    detail: str
    instance: NotRequired[Annotated[str, Rule(description="the request id")]]
    errors: NotRequired[Annotated[list[ProblemEntry], Rule(max_length=MAX_ERRORS)]]


BODIES: Final = (OpenRLHFPost,)
REPLIES: Final = (OpenRLHFReply, Health, Readiness, Info, MethodList, ProblemDocument)
