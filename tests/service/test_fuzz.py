"""Mutated bodies against the application without a socket: whatever comes, the reply is one that a trainer can use.

Always the same few hundred; `scripts/fuzz_service.py` sends more, to a running service.
"""

import asyncio
import copy
import json
import logging
import math
import random
from collections import Counter
from dataclasses import dataclass, field

from dare_reward.inputs import GROUP_FIELDS
from dare_reward.methods import methods
from dare_reward.reply import Reply
from dare_reward.wire import unpack
from dare_service.app import create_app
from dare_service.settings import Settings

JSON, FRAME = "application/json", "application/vnd.safetensors"
HARD = r"\sqrt{\tan(\binom{\pi}{a})+|(a)^{0.1}-\Gamma(i)|}"
ANSWERS = [HARD, "1", "2", "\\frac{1}{2}", "0.5", "(A)", "x+1", "x^{2^{2^9}}", "\\{1, 2\\}", "10^{400}", "é", "", None]
STRANGE = [
    *(None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, 5e-324, -1e400, math.nan, 2**31, 2**63, 10**30, 10**400),
    *("", "a", "1", "nan", "\ud800", "\0", "é" * 3, "[" * 3000, "\\frac{" * 50, "9" * 5000, "a" * 5000, "\\boxed{1}"),
    *([], [[]], [[], []], [0.1], [0.1, 0.2], [-0.5, -1.5], [[-0.1, -2.0]] * 2, [True], ["1"], [None], {}, {"a": []}),
]
TEXTS = ["\\boxed{1}", "The answer is 2.", "so 3", "<think> 4", "", "\\boxed{\\frac{1}{2}}"]
PER_ROLLOUT = {
    "answer": ANSWERS,
    "text": TEXTS,
    "mean_entropy": [0.1, 0.7, 3],
    "num_tokens": [0, 3, 10],
    "token_entropies": [[0.1, 0.2, 0.4]],
    "token_logprobs": [[-0.1, -0.2, -0.4]],
    "token_mask": [[True, False, True]],
    "topk_logprobs": [[[-0.1, -2.0], [-0.5, -1.0], [-0.2, -3.0]]],
    "embedding": [[0.1, 0.2], [0.3, -0.4]],
    "step_ends": [[1, 3]],
    "token_ids": [[5, 6, 7]],
    "sum_logprob": [-3.0],
    "finish_reason": ["stop", "length"],
    "trained": [True, False],
    "correct": [True, None],
}
PER_GROUP = {
    "kind": ["math", "exact", "choice", "text"],
    "options": [["A", "B"], 4],
    "label": [*ANSWERS, HARD + "+0" * 200],
    "reference": ["1"],
    "prompt": ["p"],
    **{name: [0.5] for name, field in GROUP_FIELDS.items() if field.type == "float"},
    "meta": [{"a": [[]] * 50}],
    "entropy_source": ["topk"],
    "second_group": [[{"answer": "1"}, {"answer": "2"}]],
    "teacher_group": [[{"answer": "1"}]],
}
SETTINGS = {"params": '{"missing_entropy": "frequency"}', "join_hold": 1.0, "join_deadline": 2.0}
# Small, so that the refusals beyond them are met too.
BOUNDS = {"max_request_rollouts": 100, "max_request_steps": 20_000, "max_request_memory": 100_000, "max_text": 6000}


@dataclass
class Sent:
    """One request."""

    route: str
    query: str
    content: bytes
    media_type: str = JSON

    @property
    def joins(self):
        """It may wait for siblings."""
        return self.route != "/reward" or b'"query"' in self.content or b'"prompts"' in self.content


@dataclass
class Seen:
    """What came of all of them."""

    statuses: Counter = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


# --- what is sent ----------------------------------------------------------------------------------------------------


def some(rng, options, chance):
    return {name: rng.choice(values) for name, values in options.items() if rng.random() < chance}


def grouped(rng):
    columns = [name for name in PER_ROLLOUT if rng.random() < 0.3]
    groups = [
        {
            "rollouts": [
                {name: rng.choice(PER_ROLLOUT[name]) for name in columns if rng.random() < 0.9}
                for _ in range(rng.randint(1, 5))
            ],
            **some(rng, PER_GROUP, 0.15),
        }
        for _ in range(rng.randint(0, 3))
    ]
    return {"groups": groups, **some(rng, {"method": NAMES, "advantage": ["grpo", "rloo"], "seed": [3]}, 0.3)}


def query(rng, **options):
    given = some(rng, {"method": NAMES, "alpha": ["0.3", "0.1", "0", "x"], "shadow": ["ttrl", "rent"], **options}, 0.25)
    if given.get("method") and rng.random() < 0.7:
        given["allow_experimental"] = "true"
    return "&".join(f"{name}={value}" for name, value in given.items())


def json_request(rng):
    body = shaken(rng, grouped(rng), 0.45)
    return Sent("/reward", query(rng, detail=["rewards", "full"], seed=["1"]), broken(rng, body))


def sparse_request(rng):
    """Many rollouts without anything and a few with a lot, or many small values under any key."""
    rollouts = [{} for _ in range(rng.choice([1, 30, 99, 101, 300]))]
    for name in rng.sample(sorted(PER_ROLLOUT), rng.randint(0, 3)):
        value = rng.choice(PER_ROLLOUT[name])
        rng.choice(rollouts)[name] = value * rng.choice([1, 100, 1000]) if isinstance(value, list) else value
    body = {"groups": [{"rollouts": rollouts, **some(rng, PER_GROUP, 0.1)}], **some(rng, {"method": NAMES}, 0.5)}
    if rng.random() < 0.3:
        filling = rng.choice([[], {}, 0, "", [0], {"a": 0}, [[]]])
        body[rng.choice(["meta", "x", "params"])] = {"a": [filling] * rng.choice([10, 1000, 20_000])}
    return Sent("/reward", query(rng, detail=["rewards"]), broken(rng, shaken(rng, body, 0.2)))


def batch_request(rng):
    """A step of OpenRLHF in one request, at its limits."""
    count = rng.choice([5, 99, 101])
    labels = [rng.choice(["", "1", HARD, '{"answer": "1", "split": "eval"}', "x" * 6001]) for _ in range(3)]
    prompt = rng.choice(["p", "a" * 63 + "c", "x" * 6001])
    query = [rng.choice([prompt, "a " * 3000, ""]) + "\\boxed{" + rng.choice(["1", HARD]) + "}" for _ in range(count)]
    body = {"query": query, "prompts": [prompt] * count, "labels": [rng.choice(labels) for _ in query]}
    return Sent("/get_reward", "run=b", broken(rng, shaken(rng, body, 0.2)))


def frame_request(rng):
    body = grouped(rng)
    count = sum(len(g["rollouts"]) for g in body["groups"])
    for rollout in (r for g in body["groups"] for r in g["rollouts"]):
        for name in [n for n in rollout if n not in {"answer", "text", "finish_reason"}]:
            del rollout[name]
    head = {"__metadata__": {"request": dumped(shaken(rng, body, 0.1)).decode("utf-8", "surrogatepass")}}
    data = b""
    shapes = {
        "mean_entropy": ("F64", [count]),
        "num_tokens": ("I32", [count]),
        "token_entropies": ("F32", [3 * count]),
        "token_mask": ("BOOL", [3 * count]),
        "topk_logprobs": ("BF16", [3 * count, 2]),
        "embedding": ("F32", [count, 2]),
        "step_ends": ("I64", [3 * count]),
    }
    chosen = {name: shape for name, shape in shapes.items() if rng.random() < 0.3}
    if any(name.startswith(("to", "st")) for name in chosen):
        chosen["lengths"] = ("I64", [count])
    for name, (dtype, shape) in chosen.items():
        width = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "BF16": 2, "BOOL": 1}[dtype]
        size = width * math.prod(shape)
        content = (
            (3).to_bytes(8, "little") * count if name == "lengths" else rng.choice([bytes(size), rng.randbytes(size)])
        )
        head[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += content
    head = shaken(rng, head, 0.25)
    if rng.random() < 0.3 and len(head) > 1:
        spec = head.get(rng.choice(list(head)))
        if isinstance(spec, dict) and "shape" in spec:
            spec["shape"] = [rng.choice([0, 1, 2, count, 1 << 20, 1 << 31, 1 << 62]) for _ in range(rng.randint(0, 3))]
            if rng.random() < 0.7:
                spec["data_offsets"] = [len(data), len(data)]
    text = dumped(head)
    return Sent("/reward", query(rng), damaged(rng, len(text).to_bytes(8, "little") + text + data, 0.15), FRAME)


def openrlhf_request(rng):
    count = rng.choice([1, 1, 2, 4])
    prompts = [rng.choice(["p", "What is 1+1?"]) for _ in range(count)]
    labels = [
        rng.choice(["", "1", '{"answer": "1", "split": "eval"}', '{"kind": "choice"}', '{"x": [', None])
        for _ in prompts
    ]
    body = {"query": [p + rng.choice(TEXTS) for p in prompts], "prompts": prompts, "labels": labels}
    extra = {"mean_entropy": [0.1, None], "num_tokens": [3], "finish_reason": ["stop", "length"]}
    for name, values in extra.items():
        if rng.random() < 0.3:
            body[name] = [rng.choice(values) for _ in prompts]
    sizes = rng.choice(["group_size=1", "group_size=1", "group_size=2", "group_size=0", ""])
    route = rng.choice(["/get_reward", "/reward"])
    return Sent(route, f"{sizes}&{query(rng, label_policy=['never'])}", broken(rng, shaken(rng, body, 0.4)))


NAMES = list(methods())
MAKERS = (
    json_request,
    frame_request,
    openrlhf_request,
    sparse_request,
    batch_request,
)


# --- how it is changed -----------------------------------------------------------------------------------------------


def shaken(rng, value, chance):
    """With `chance`, some places of a tree hold something else, or nothing, or what stood in another place."""
    value = json.loads(json.dumps(value))
    if rng.random() >= chance:
        return value
    for _ in range(rng.randint(1, 3)):
        places = list(walk(value))
        if not places:
            break
        parent, key = rng.choice(places)
        action = rng.random()
        if action < 0.6:
            parent[key] = copy.deepcopy(rng.choice(STRANGE))
        elif action < 0.75:
            del parent[key]
        elif action < 0.9:
            other, place = rng.choice(places)
            parent[key] = json.loads(dumped(other[place])) if not isinstance(other[place], float) else other[place]
        elif isinstance(parent, dict):
            parent[rng.choice(["unknown", "groups", "rollouts", "label", "embedding"])] = copy.deepcopy(
                rng.choice(STRANGE)
            )
    return value


def walk(value):
    """(container, key) of every place in a tree of lists and objects."""
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in list(keys):
        yield value, key
        yield from walk(value[key])


def dumped(value):
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def broken(rng, value):
    return damaged(rng, dumped(value), 0.15)


def damaged(rng, content, chance):
    """With `chance`, bytes of it are lost, added, doubled or changed."""
    if rng.random() >= chance or not content:
        return content
    at, to = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    new = rng.choice(
        [b"", rng.randbytes(3), content[at:to] * 2, b"1e999", b"\\ud800", b"[" * 2000, b"{}", b'"', b"\xff"]
    )
    return content[:at] + new + content[min(to, at + 8) :]


# --- what must come back ---------------------------------------------------------------------------------------------


async def call(app, sent):
    """(status, content); the caller leaves soon after its body, so whoever waits for siblings gives up."""
    parts = [{"type": "http.request", "body": sent.content, "more_body": False}]
    said = {"status": None, "content": b""}

    async def receive():
        if parts:
            return parts.pop()
        await asyncio.sleep(0.02 if sent.joins else 60)
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.start":
            said["status"] = message["status"]
        else:
            said["content"] += message.get("body", b"")

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": sent.route,
        "raw_path": sent.route.encode(),
        "query_string": sent.query.encode(),
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", sent.media_type.encode()),
            (b"content-length", str(len(sent.content)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "state": {},
    }
    await app(scope, receive, send)
    return said["status"], said["content"]


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def finite(text):
    value = float(text)
    assert math.isfinite(value), text
    return value


def check(sent, status, content):
    if status is None:
        assert sent.joins
        return
    assert status < 500 or status == 503
    reply = json.loads(content.decode("utf-8"), parse_constant=refuse, parse_float=finite)
    if status != 200:
        assert reply["status"] == status
        assert reply["title"]
        assert reply["detail"]
    elif "rewards" in reply:
        count = len(json.loads(sent.content)["query"])
        lists = [
            v for v in (reply["rewards"], reply.get("scores"), *reply.get("extra_logs", {}).values()) if v is not None
        ]
        assert {len(values) for values in lists} == {count}
        assert all(isinstance(v, int | float) for v in reply["rewards"])
    else:
        check_groups(sent, Reply.from_json(reply))


def check_groups(sent, reply):
    body = json.loads(bytes(unpack(sent.content).request) if sent.media_type == FRAME else sent.content)
    assert len(reply.groups) == len(body["groups"])
    for found, group in zip(reply.groups, body["groups"], strict=True):
        values = found.rewards if reply.output == "rewards" else found.advantages
        assert (values is None) == (found.error is not None)
        assert values is None or len(values) == len(group["rollouts"])
        assert reply.output != "rewards" or found.advantages is None or len(found.advantages) == len(group["rollouts"])


def fuzz(count, seed):
    """Send `count` bodies of all kinds. A failure says what came of what, where a reply is not as it must be."""
    rng, seen = random.Random(seed), Seen()

    async def run():
        app = create_app(Settings(log="off", page="off", **SETTINGS, **BOUNDS))
        logging.getLogger("dare_service").setLevel(logging.CRITICAL + 1)
        for _ in range(count):
            sent = rng.choice(MAKERS)(rng)
            status, content = await call(app, sent)
            try:
                check(sent, status, content)
            except Exception as error:
                seen.failures.append(f"{error!r}: {status} {content[:400]!r} for {sent}")
            seen.statuses[sent.route, status] += 1

    asyncio.run(run())
    return seen


def test_mutated_bodies_have_usable_replies():
    seen = fuzz(400, seed=1)
    assert not seen.failures, seen.failures[0]
    good = {route for route, status in seen.statuses if status == 200}
    assert good == {"/reward", "/get_reward"}
    assert {400, 422} <= {status for _, status in seen.statuses}
