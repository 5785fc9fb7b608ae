"""The text of openapi.json: made from what parses requests and makes replies, and shipped with the service as a file."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import fields
from typing import Annotated, Any, Final, Literal, NotRequired, Required, get_type_hints

from fastapi.routing import APIRoute
from pydantic import ConfigDict, FailFast, StringConstraints, TypeAdapter
from pydantic import Field as Rule
from typing_extensions import TypedDict

from dare_reward import __version__, estimate
from dare_reward.answers import ANSWERS_VERSION
from dare_reward.inputs import ACCEPTED, ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS, Field
from dare_reward.openrlhf import LOGS, keys_of
from dare_reward.openrlhf.url import RunSettings
from dare_reward.options import BODY, OPTIONS
from dare_reward.params import Spec
from dare_reward.reply import Reply, Support
from dare_reward.scoring.request import LIMITS
from dare_reward.scoring.update import update_specs
from dare_service.app import create_app
from dare_service.problems import MEDIA_TYPE, TITLES
from dare_service.settings import UNMEASURED, UNSAID, Settings

# --- what a request holds ---------------------------------------------------------------------------------------------

# What may stand in the place of a text: a number, and the parts of a chat reply.
_STAND_FOR_TEXT: dict[str, Any] = {
    "answer": Annotated[float, Rule(allow_inf_nan=False)],
    "text": list[dict[str, Any]],
}


def _input(field: Field, rollouts: Any = None) -> Any:
    """The model of one input; `rollouts` is that of its rollouts, if it has any."""
    described = Rule(description=field.doc or None)
    if field.type == "rollouts":
        rules = FailFast(), Rule(min_length=1 if field.required else None, max_length=LIMITS.rollouts), described
        return (
            Required[Annotated[_list(rollouts), *rules]]
            if field.required
            else Annotated[_list(rollouts) | None, *rules]
        )
    value = _value(field)
    if field.ragged or field.shape == "vector":
        if field.shape == "matrix":
            value = Annotated[_list(value), Rule(min_length=1, fail_fast=True)]
        return Annotated[_list(value) | None, Rule(description=field.doc, fail_fast=True)]
    return Annotated[value | None if field.nullable else value, described]


def _value(field: Field) -> Any:
    """One value of an input that is there."""
    if field.name in _STAND_FOR_TEXT:
        return str | _STAND_FOR_TEXT[field.name]
    if field.type == "bool":
        return bool
    if field.type == "int":
        return Annotated[int, Rule(ge=field.ge, le=field.le)]
    if field.type == "float":
        return Annotated[float, Rule(ge=field.ge, le=field.le, allow_inf_nan=False)]
    if field.type == "choice":
        return Literal[field.choices]
    if field.type == "texts":
        return str | Annotated[list[str], Rule(min_length=1, max_length=ACCEPTED)]
    if field.type == "options":
        return list[str] | int
    if field.type == "object":
        return dict[str, Any]
    if field.length:
        return Annotated[str, StringConstraints(min_length=field.length[0], max_length=field.length[1])]
    return str


def _list(item: Any) -> Any:
    return list[item]


def group_model() -> Any:
    """A group with the rules that the base layer checks."""
    answered = strict("AnsweredRollout", {f.name: _input(f) for f in ANSWERED_FIELDS.values()}, "forbid")
    rollout = strict("Rollout", {f.name: _input(f) for f in ROLLOUT_FIELDS.values()}, "forbid")
    keys = {f.name: _input(f, rollout if f.required else answered) for f in GROUP_FIELDS.values()}
    return strict("Group", keys, "forbid")


def _option(spec: Spec) -> Any:
    """The model of a setting."""
    kind: Any = Literal[spec.choices] if spec.choices else list[str] if spec.type is tuple else spec.type
    rules: list[Any] = []
    if spec.type is str and not spec.choices and spec.le is not None:
        rules.append(StringConstraints(max_length=int(spec.le)))
    elif not spec.choices:
        rules.append(Rule(ge=spec.ge, gt=spec.gt, le=spec.le, lt=spec.lt))
    return Annotated[kind | None if spec.optional else kind, *rules, Rule(description=spec.doc)]


def strict(name: str, keys: dict[str, Any], extra: Literal["allow", "forbid"]) -> Any:
    """The model of an object with these keys, none of them required by itself."""
    make: Any = TypedDict
    out = make(name, keys, total=False)
    out.__pydantic_config__ = ConfigDict(strict=True, extra=extra, hide_input_in_errors=True)
    return out


ENVELOPE_KEYS: Final[dict[str, Any]] = {
    **{name: _option(spec) for name, spec in BODY.items()},
    "params": Annotated[dict[str, Any], Rule(description="parameters of the method, see GET /methods")],
    "answers_version": Annotated[str | None, Rule(description="version that extracted the answers")],
    "meta": Annotated[dict[str, Any], Rule(description="your own data, ignored")],
}


def request_model() -> TypeAdapter[dict[str, Any]]:
    """The body of `POST /reward`, likewise."""
    groups = Required[Annotated[_list(group_model()), Rule(max_length=LIMITS.groups), FailFast()]]
    return TypeAdapter(strict("RewardRequest", {**ENVELOPE_KEYS, "groups": groups}, "forbid"))


# --- what single rollouts are posted as, and what the service's own routes reply ---------------------------------------

SHOWN: Final = {f.name: f.metadata["spec"] for f in fields(Settings) if f.name not in UNSAID}


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
    errors: NotRequired[Annotated[list[ProblemEntry], Rule(max_length=10)]]


BODIES: Final = (OpenRLHFPost,)
REPLIES: Final = (OpenRLHFReply, Health, Readiness, Info, MethodList, ProblemDocument)

# --- the document -----------------------------------------------------------------------------------------------------

DESCRIPTION = """Rewards for label-free reinforcement learning, estimated from groups of rollouts.

If the service has a token (`DARE_TOKEN`), send it as `Authorization: Bearer TOKEN` or as `?token=TOKEN`. The routes
under *Service* need none. An error is a problem document (RFC 9457). A group that cannot be scored has an `error` of
its own in a reply of status 200, and the header `Dare-Group-Errors` counts them."""
TAGS: Final = [
    {"name": "Rewards", "description": "Whole groups in, one reward per rollout out."},
    {
        "name": "Single rollouts",
        "description": "For stacks that post one rollout at a time: the service joins siblings.",
    },
    {"name": "Service", "description": "What runs, how, and how it is doing."},
]
# A service without a token asks for none, hence the empty choice.
SECURITY: Final[list[dict[str, list[str]]]] = [{}, {"bearer": []}, {"token": []}]
SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "One of the tokens of DARE_TOKEN."},
    "token": {"type": "apiKey", "in": "query", "name": "token", "description": "For clients that own only a URL."},
}
EXAMPLE: Final[dict[str, Any]] = {
    "method": "dare",
    "run": "exp1",
    "groups": [
        {
            "group_id": "aime-7",
            "rollouts": [
                {"answer": "204", "mean_entropy": 0.21},
                {"text": "... so \\boxed{204}", "mean_entropy": 0.25},
                {"answer": "17", "mean_entropy": 0.93},
                {"answer": None},
            ],
        }
    ],
}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _problem(status: int) -> dict[str, Any]:
    example = {"type": "about:blank", "title": TITLES[status], "status": status, "detail": "what is wrong, and the fix"}
    content = {MEDIA_TYPE: {"schema": _ref("ProblemDocument"), "example": example}}
    return {"description": TITLES[status], "content": content}


def _parameter(name: str, doc: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": doc, "schema": {"type": "string", **schema}}


def _scored() -> dict[str, Any]:
    """What the example gets."""
    reply: dict[str, Any] = _short(estimate(EXAMPLE["groups"], method=EXAMPLE["method"]).to_json())
    return {**reply, "request_id": "6f1c2a7b9d3e4f50"}


def _short(value: Any) -> Any:
    """Four digits, which no machine computes otherwise."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_short(v) for v in value]
    return round(value, 4) if isinstance(value, float) else value


FRAME: Final = {"application/vnd.safetensors": {"schema": {"type": "string", "format": "binary"}}}
SEED: Final = _parameter("seed", "for methods that draw", pattern="^([0-9]+|[Nn][Uu][Ll][Ll]|[Nn][Oo][Nn][Ee])$")
OVER_BODY: Final = _parameter("method", "as in the body, and wins over it; so does every parameter of the method")
BESIDE: Final = _parameter("method", "see GET /methods; each of its parameters may stand beside it")
REFUSALS: Final = (400, 401, 408, 413, 415, 422, 503)


def _options(specs: Iterable[Spec]) -> list[dict[str, Any]]:
    """The query parameters that a declaration makes."""
    return [_parameter(s.name, s.doc if s.name == "advantage" else f"{s.doc}: {s.accepts}") for s in specs]


def _json(name: str, example: Any = None) -> dict[str, Any]:
    return {"application/json": {"schema": _ref(name), **({} if example is None else {"example": example})}}


def _operation(tag: str, reply: dict[str, Any], doc: str, refusals: Iterable[int] = (), **extra: Any) -> dict[str, Any]:
    refused = {status: _problem(status) for status in sorted({403, *refusals})}  # 403 by the name in Host, on any route
    responses = {200: {"description": doc, "content": reply}, **refused}
    return {"tags": [tag], "responses": responses, **extra}


def _post(
    tag: str,
    body: dict[str, Any],
    reply: dict[str, Any],
    doc: str,
    *,
    parameters: list[dict[str, Any]],
) -> dict[str, Any]:
    request = {"required": True, "content": body}
    described = {"security": SECURITY, "requestBody": request, "parameters": parameters}
    return _operation(tag, reply, doc, REFUSALS, openapi_extra=described)


REWARD = _post(
    "Rewards",
    _json("RewardRequest", EXAMPLE) | FRAME,
    _json("Reply", _scored()),
    "Rewards",
    parameters=[
        OVER_BODY,
        _parameter("detail", "rewards: ids, rewards, valid, errors, and what was asked for", enum=["full", "rewards"]),
        *_options((*update_specs(), OPTIONS["labelled"], OPTIONS["run"])),
        {**SEED, "name": "step", "description": OPTIONS["step"].doc},
        _parameter("shadow", "methods to compare with, separated by commas"),
        SEED,
    ],
)
REWARD["responses"][200]["headers"] = {
    "Dare-Group-Errors": {
        "description": "How many groups have an error instead of rewards; absent if none has",
        "schema": {"type": "integer", "minimum": 1},
    }
}
OPENRLHF = _post(
    "Single rollouts",
    _json("OpenRLHFPost", {"query": ["1 + 1? So \\boxed{2}"], "prompts": ["1 + 1?"], "labels": [""]}),
    _json("OpenRLHFReply"),
    "One entry per query",
    parameters=[BESIDE, *_options(s for s in RunSettings.specs().values() if s.name != "method")],
)
MINTED = _operation(
    "Single rollouts", {"text/plain": {"schema": {"type": "string"}}}, "The URL for OpenRLHF's flag", (401, 422, 503)
)
HEALTH = _operation("Service", _json("Health", {"status": "ok"}), "The process runs")
READY = _operation("Service", _json("Readiness", {"status": "ready"}), "The service takes requests", [503])
INFO = _operation(
    "Service",
    _json(
        "Info",
        {
            "version": __version__,
            "answers_version": ANSWERS_VERSION,
            "auth": False,
            "settings": Settings().shown,
            "entropy": {"note": UNMEASURED.format(method=Settings().method), "unmeasured_runs": []},
            "warnings": [],
            "run_log": dict.fromkeys(("flushed", "dropped", "failed", "repeated", "bytes"), 0),
            "page": dict.fromkeys(("read", "merged", "dropped", "refused", "unreadable"), 0),
        },
    ),
    "Versions, effective settings, warnings",
)
METHODS = _operation("Service", _json("MethodList"), "The methods")
METRICS = _operation("Service", {"text/plain": {"schema": {"type": "string"}}}, "Exposition format")
# By path: the operation's name, its summary, and what else it says of itself.
OPERATIONS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "/reward": ("score_groups", "Score groups of rollouts", REWARD),
    "/v1/reward": ("score_groups_v1", "Score groups of rollouts", REWARD),
    "/get_reward": ("score_openrlhf", "Serve OpenRLHF's remote reward model", OPENRLHF),
    "/openrlhf": ("mint_openrlhf_url", "Mint and check the URL for OpenRLHF's flag", MINTED),
    "/methods": ("list_methods", "List the methods and their parameters", METHODS),
    "/health": ("health", "Liveness probe", HEALTH),
    "/ready": ("ready", "Readiness probe", READY),
    "/info": ("info", "Show versions and effective settings", INFO),
    "/metrics": ("metrics", "Prometheus metrics", METRICS),
}


def components() -> dict[str, Any]:
    """JSON schemas of the bodies and the replies, with what they refer to, instead of FastAPI's own error model."""
    row = TypedDict("Support", get_type_hints(Support))  # type: ignore[misc]  # an object in JSON, a tuple in Python
    row.__doc__ = Support.__doc__
    replies = {model.__name__: TypeAdapter(model) for model in (*BODIES, *REPLIES, Reply, row)}
    whole: dict[str, dict[str, Any]] = {}
    for name, adapter in (replies | {"RewardRequest": request_model()}).items():
        mode: Any = "serialization" if name == "Reply" else "validation"
        whole[name] = adapter.json_schema(ref_template="#/components/schemas/{model}", mode=mode)
    whole["Reply"]["required"].remove("answers_version")  # with detail=rewards there is none
    parts = {name: part for schema in whole.values() for name, part in schema.pop("$defs", {}).items()}
    return {"schemas": dict(sorted((parts | whole).items())), "securitySchemes": SCHEMES}


def document() -> str:
    """The text of openapi.json."""
    app = create_app()
    app.description, app.openapi_tags = DESCRIPTION, TAGS
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path in OPERATIONS:
            route.operation_id, route.summary, operation = OPERATIONS[route.path]
            route.tags, route.responses = operation["tags"], operation["responses"]
            route.openapi_extra = operation.get("openapi_extra")
    return json.dumps({**app.openapi(), "components": components()}, indent=1, sort_keys=True) + "\n"
