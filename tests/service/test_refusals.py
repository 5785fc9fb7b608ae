"""Every malformed request gets its own clear problem, cheaply, and the next request is served."""

import asyncio
import json
from itertools import product

import numpy as np
import pytest
from growth import assert_cheap
from rows import each
from serving import posted, told

from dare_reward.groups import Ragged
from dare_reward.inputs import GROUP_FIELDS, ROLLOUT_FIELDS
from dare_reward.methods import methods, specs
from dare_reward.wire import pack
from dare_service.problems import response
from dare_service.reward_request import REQUEST_KEYS

GOOD = {"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2}]}]}
FRAME = {"content-type": "application/vnd.safetensors"}


def one(**changes):
    return {"groups": [{"rollouts": [{"answer": "1", "mean_entropy": 0.2, **changes}]}]}


def group(**changes):
    return {"groups": [{**GOOD["groups"][0], **changes}]}


# Values of groups and rollouts are in tests/unit/test_request.py and test_one_check.py, keys that stand twice in
# test_json_body.py, frames in tests/unit/test_wire.py: here, one of each kind.
STEP = "step: must be an integer >= 0 and < 9.223372037e+18 or null"
RUN = "run: must be a string of at most 256 characters or null"
BODIES = {  # what is sent, the status, where it is wrong, and what is said
    "empty": (b"", 400, None),
    "not JSON": (b"{", 400, None),
    "trailing comma": (b'{"groups":[],}', 400, None),
    "not UTF-8": (b'{"groups":[{"group_id":"\xff","rollouts":[]}]}', 400, None),
    "a surrogate in UTF-8": (b'{"a": "\xed\xa0\xbd"}', 400, None),
    "deep": (b"[" * 100_000, 400, None),
    "a list": (b"[]", 422, "", "the body must be an object"),
    "a number": (b"1", 422, ""),
    "null": (b"null", 422, ""),
    "no groups": ({}, 422, "groups"),
    "groups null": ({"groups": None}, 422, "groups"),
    "groups an object": ({"groups": {}}, 422, "groups"),
    "unknown field": ({**GOOD, "grups": []}, 422, ""),
    "a bool": (one(mean_entropy=True), 422, "groups[0].rollouts[0].mean_entropy"),
    "unknown method": ({**GOOD, "method": "dre"}, 422, "method"),
    "method an empty string": ({**GOOD, "method": ""}, 422, "method"),
    "method a number": ({**GOOD, "method": 1}, 422, "method"),
    "unknown parameter": ({**GOOD, "params": {"aplha": 0.1}}, 422, "params"),
    "parameter out of range": ({**GOOD, "params": {"alpha": 1.5}}, 422, "params.alpha"),
    "parameter of another type": ({**GOOD, "params": {"alpha": "0.1"}}, 422, "params.alpha"),
    "parameter a list": ({**GOOD, "params": {"weight": ["linear"]}}, 422, "params.weight"),
    "params a list": ({**GOOD, "params": []}, 422, "params"),
    **{f"step {step!r}": ({**GOOD, "step": step}, 422, "step", STEP) for step in (-1, "1")},
    **{f"run {str(run)[:9]}": ({**GOOD, "run": run}, 422, "run", RUN) for run in (1, "r" * 257)},
    "meta a list": ({**GOOD, "meta": []}, 422, "meta"),
}


def check(response, status):
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == response.headers["x-request-id"]
    assert len(body.get("errors", [])) <= 10
    assert len(response.content) < 4096
    return body


@pytest.mark.parametrize("where", ["group", "rollout"])
def test_a_step_on_a_group_says_where_it_belongs(service, where):
    rollout, group = {"answer": "1", "mean_entropy": 0.1}, {}
    (group if where == "group" else rollout)["step"] = 3
    reply = service.post({"groups": [{"rollouts": [rollout]} | group]})
    (error,) = reply.json()["errors"]
    assert (reply.status_code, error["code"]) == (422, "unknown_field")
    assert error["message"].startswith("step belongs to the request, beside `groups`")


@pytest.mark.parametrize("name", BODIES)
def test_bodies(service, name):
    content, status, loc, *said = BODIES[name]
    body = check(service.post(content), status)
    assert said in ([], [body["detail"]])
    if loc is not None:
        assert body["errors"][0]["loc"] == loc
        assert body["errors"][0]["code"]
        assert body["errors"][0]["message"]
    assert service.post(GOOD).status_code == 200


SECRET = "s3cret"
# A value that its place refuses, in every place of a body; a text that is welcome there is refused for its type.
PLANTED = {
    **{f"rollout {name}": one(**{name: [{"x": SECRET}]}) for name in ROLLOUT_FIELDS},
    **{f"rollout {name}, a string": one(**{name: SECRET}) for name, f in ROLLOUT_FIELDS.items() if f.type != "text"},
    **{f"group {name}": group(**{name: [SECRET, {"x": SECRET}]}) for name in GROUP_FIELDS},
    **{f"request {name}": {**GOOD, name: [[SECRET]]} for name in sorted(REQUEST_KEYS)},
    **{
        f"{method.name} {spec.name}": {**GOOD, "method": method.name, "params": {spec.name: SECRET}}
        for method in methods().values()
        for spec in specs(method)
        if spec.type is not str or spec.choices
    },
    "method": {**GOOD, "method": SECRET},
    "advantage": {**GOOD, "advantage": SECRET},
    "shadow": {**GOOD, "shadow": [SECRET]},
}


@each("name, body", PLANTED.items())
def test_a_refused_value_is_never_repeated(service, name, body):
    found = service.post(body)
    assert found.status_code in {400, 413, 422}, found.text
    assert SECRET not in found.text


@each("url, name", product(["/get_reward", "/reward"], ["method", "shadow", "detail", "alpha", "kind"]))
def test_a_refused_value_of_the_url_is_never_repeated(service, url, name):
    body = {"query": ["a"], "prompts": ["p"], "labels": [""]} if url == "/get_reward" else GOOD
    assert SECRET not in check(service.post(body, f"{url}?{name}={SECRET}"), 422)["detail"]


def test_two_values_that_disagree_are_not_repeated(service):
    body = check(service.post(one(mean_entropy=0.125, token_entropies=[0.5, 0.75])), 422)
    assert body["detail"].startswith("groups[0].rollouts[0].mean_entropy: differs")
    assert not {"0.125", "0.625"} & set(body["detail"].split())


def test_a_text_that_is_no_json_is_not_repeated(service):
    assert SECRET not in service.post(b'{"x":"' + SECRET.encode()).text


def test_a_long_key_is_cut(service):
    """A key says where something is wrong, so it is named, up to 64 characters."""
    long = "k" * 200
    for body in (one(**{long: 1}), {**GOOD, "params": {long: 1}}, {long: 1, **GOOD}):
        text = service.post(body).text
        assert "k" * 64 in text
        assert "k" * 65 not in text


def test_one_long_vector_among_many_rollouts(service):
    """One megabyte that would be 131 GB of missing numbers."""
    sent = {"groups": [{"rollouts": [{}] * 1024} for _ in range(32)]}
    sent["groups"][0]["rollouts"] = [{"embedding": [0] * 500_000}, *[{}] * 1023]
    assert service.post(sent).status_code == 200
    sent["groups"].append({"rollouts": [{}]})
    told = check(service.post(sent), 413)
    assert "32769 rollouts; at most 32768 in one request" in told["detail"]


@pytest.mark.parametrize("host", ["[", "a]b[", "h?group_size=2&run=x", "h#", "", "\xe9\xff", "h:99999999"])
def test_a_host_is_no_query(service, host):
    route, body = "/get_reward", {"query": ["a"], "prompts": ["p"], "labels": [""]}
    headers = {"host": host.encode("latin-1")}
    found = service.post(body, f"{route}?method=dre", headers=headers)
    assert "unknown method" in check(found, 422)["detail"]
    assert check(service.post(body, route, headers=headers), 422)


@pytest.mark.parametrize("route", ["/get_reward", "/reward"])
def test_a_query_that_is_not_utf_8(service, route):
    """httpx escapes such bytes, so this calls the application."""
    sent = asyncio.run(posted(told(service.app), f"{route}?run=\xff\xfe", b'{"query":["a"],"prompts":["p"]}'))
    assert sent[0]["status"] == 422


@pytest.mark.parametrize(
    ("headers", "status", "word"),
    [
        ({"content-type": "text/plain"}, 415, "application/json"),
        ({"content-type": "multipart/form-data; boundary=x"}, 415, "application/json"),
        ({"content-type": ""}, 415, "application/json"),
        ({"content-encoding": "gzip"}, 415, "Content-Encoding"),
        ({"content-encoding": "zstd"}, 415, "Content-Encoding"),
        ({"content-length": "1000"}, 400, "Content-Length"),
        ({"content-length": "3"}, 400, "Content-Length"),
        ({"content-length": "-3"}, 400, "Content-Length"),
        ({"content-length": "1e3"}, 400, "Content-Length"),
        ({"content-length": "999999999999"}, 413, "send a frame"),
        ({"content-length": "9" * 5000}, 413, "send a frame"),
        ({"content-length": "0" * 5000 + "3"}, 400, "Content-Length"),
        ({"content-length": "999999999999", **FRAME}, 413, "DARE_MAX_BODY_BYTES"),
    ],
)
def test_headers(service, headers, status, word):
    assert word in check(service.post(GOOD, headers=headers), status)["detail"]


def test_charset_parameters_are_fine(service):
    assert service.post(GOOD, headers={"content-type": "application/json; charset=utf-8"}).status_code == 200
    assert service.post(GOOD, headers={"content-encoding": "identity"}).status_code == 200


def test_limits_of_a_small_server(make_service):
    service = make_service(max_body_bytes=600, max_json_bytes=400, max_groups=2, max_rollouts=3, max_text=20)
    long = GOOD | {"meta": {"x": "y" * 400}}
    assert "may hold 400 bytes: send a frame" in check(service.post(long), 413)["detail"]
    assert "DARE_MAX_BODY_BYTES" in check(make_service(max_body_bytes=300).post(long), 413)["detail"]
    for groups, rollouts, variable in ((3, 1, "GROUPS"), (1, 4, "ROLLOUTS")):
        sent = {"groups": [{"rollouts": [{"answer": "1"}] * rollouts}] * groups}
        assert f"DARE_MAX_{variable}" in check(service.post(sent), 413)["detail"]
    check(service.post(one(answer="x" * 21)), 413)
    check(service.post(bytes(601), headers=FRAME), 413)
    assert service.post(GOOD).status_code == 200


def test_a_growing_body_meets_the_same_limit(make_service):
    service, headers = make_service(max_json_bytes=1000), {"content-type": "application/json"}

    async def arriving(content):
        for byte in content:
            yield bytes([byte])

    check(service.request("POST", "/reward", content=arriving(b" " * 2000), headers=headers), 413)
    good = arriving(json.dumps(GOOD).encode())
    assert service.request("POST", "/reward", content=good, headers=headers).status_code == 200


def test_frames(service):
    values, nan = np.array([0.1, 0.2]), np.array([0.1, np.nan])
    request = {"groups": [{"rollouts": [{"answer": "1"}, {"answer": "2"}]}]}
    assert service.post(pack(request, {"mean_entropy": values}), headers=FRAME).status_code == 200
    assert check(service.post(b"x" * 100, headers=FRAME), 400)
    assert check(service.post(pack(request, {"mean_entropy": values})[:-1], headers=FRAME), 400)
    bad = check(service.post(pack(request, {"token_entropies": Ragged(nan, np.array([1, 1]))}), headers=FRAME), 422)
    assert bad["errors"][0]["loc"] == "groups[0].rollouts[1].token_entropies[0]"
    short = pack(request, {"mean_entropy": values[:1]})
    assert "1 entries for 2 rollouts" in check(service.post(short, headers=FRAME), 422)["detail"]


def test_a_problem_is_written_whatever_it_names():
    problem = response(422, "half a pair: \ud800", [{"loc": "\ud800"}])
    assert json.loads(problem.body)["detail"] == "half a pair: \ud800"


def test_the_token(make_service):
    service = make_service(token="tökén")
    assert check(service.post(GOOD), 401)
    assert service.post(GOOD).headers["www-authenticate"] == "Bearer"
    assert check(service.post(GOOD, headers={"authorization": "Bearer wrong"}), 401)
    assert check(service.post(GOOD, headers={"authorization": "Basic x"}), 401)
    assert check(service.post(GOOD, "/reward?token=wrong"), 401)
    assert service.post(GOOD, headers={"authorization": "Bearer tökén".encode()}).status_code == 200
    assert service.post(GOOD, "/reward?token=t%C3%B6k%C3%A9n").status_code == 200
    for route in ("/health", "/ready", "/info", "/metrics", "/methods"):
        assert service.get(route).status_code == 200
    assert "tökén" not in service.get("/info").text


def test_routes(service):
    assert check(service.get("/nothing"), 404)
    assert check(service.get("/reward"), 405)
    assert service.get("/reward").headers["allow"] == "POST"


def big(count, piece):
    return b'{"groups":[{"rollouts":[' + b",".join([piece] * count) + b"]}]}"


MIB3 = 3 << 20


def numbers(last):
    return big(1, b'{"answer":"1","token_entropies":[' + b"0.12345," * (MIB3 // 8) + last + b"]}")


def fields():
    return b"{" + b",".join(b'"%08d":1' % i for i in range(MIB3 // 13)) + b"}"


# A hundred thousand unknown fields stand in a request and in a rollout.
EXPENSIVE = {
    "every entropy a string": lambda: big(
        1, b'{"answer":"1","token_entropies":[' + b",".join([b'"0.123"'] * (MIB3 // 8)) + b"]}"
    ),
    "the last entropy a string": lambda: numbers(b'"x"'),
    "the last entropy negative": lambda: numbers(b"-1"),
    "unknown fields": lambda: b'{"groups":[],' + fields()[1:],
    "unknown fields of a rollout": lambda: big(1, fields()),
    "no groups field": lambda: b'{"grups":"' + b"x" * MIB3 + b'"}',
    "a missing brace at the end": lambda: b'{"groups":[' + b" " * MIB3,
    "a long string for a number": lambda: big(1, b'{"answer":"1","mean_entropy":"' + b"1" * MIB3 + b'"}'),
    "a long number": lambda: big(1, b'{"answer":"1","mean_entropy":' + b"1" * MIB3 + b"}"),
    "many bad groups": lambda: b'{"groups":[' + b",".join([b"1"] * (MIB3 // 2)) + b"]}",
    "a long answer": lambda: big(1, b'{"answer":"' + b"1" * MIB3 + b'","mean_entropy":0.1}'),
    "deep meta": lambda: b'{"meta":{"a":' + b"[" * (MIB3 // 2) + b"]" * (MIB3 // 2) + b'},"groups":[]}',
}


@pytest.mark.parametrize(("piece", "count"), [(b"{}", MIB3 // 3), (b'{"rollouts":[{}]}', MIB3 // 19)])
def test_too_many_are_refused(service, make_service, piece, count):
    """A million objects are counted before they are parsed; where memory is plenty, after that."""
    body = big(count, piece) if piece == b"{}" else b'{"groups":[' + b",".join([piece] * count) + b"]}"
    assert "of memory" in check(service.post(body), 413)["detail"]
    assert "1024" in check(make_service(max_request_memory=1 << 30).post(body), 413)["detail"]


@pytest.mark.parametrize("name", EXPENSIVE)
def test_bad_input_is_cheap(service, name):
    """Within a few times what Python needs to parse 3 MiB of good numbers; research/docs/benchmarks.md has the milliseconds."""
    content = EXPENSIVE[name]()
    assert len(content) <= MIB3 + 200
    response = service.post(content)
    check(response, response.status_code)
    assert response.status_code in {400, 413, 422}
    good = b"[" + b"0.12345," * (MIB3 // 8) + b"1]"
    assert_cheap(lambda: service.post(content), lambda: json.loads(good), times=12, what=name)
    assert service.post(GOOD).status_code == 200
