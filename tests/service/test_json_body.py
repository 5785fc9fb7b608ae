"""What a JSON body may hold, and how much: cut emojis, keys that stand once, numbers as answers, and what to send."""

import json
import tracemalloc

import pytest
from growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st
from rows import each

import dare_reward
from dare_reward.errors import LimitError, RequestError
from dare_service import json_body
from dare_service.json_body import LIST, OBJECT, OWN, STRING, VALUE, check_json, json_memory, read_json

GOOD = b'{"groups": [{"rollouts": [{"answer": "4", "mean_entropy": 0.1}, {"answer": "5", "mean_entropy": 0.2}]}]}'
OPENRLHF = b'{"query": ["p: \\\\boxed{4}"], "prompts": ["p: "], "labels": [""]}'


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        (rb'"a\ud83d"', "a\ufffd"),
        (rb'"\ud83dz\ud83d\ude00"', "\ufffdz\U0001f600"),
        (rb'"\ude00\ud83d"', "\ufffd\ufffd"),
        (rb'"\\ud83d \uD83D"', "\\ud83d \ufffd"),
        (rb'"\\\ud83d"', "\\\ufffd"),
    ],
)
def test_a_lone_surrogate_is_a_replacement_character(sent, read):
    assert read_json(b'{"a": ' + sent + b"}") == {"a": read}


def test_rollouts_of_agents_with_cut_emojis_are_rewarded(service):
    text = "I am done \\U0001f600 \\\\boxed{4} \ud83d"
    group = {"rollouts": [{"text": text, "mean_entropy": 0.1}] * 2}
    assert service.post(json.dumps({"groups": [group]}).encode()).json()["groups"][0]["answers"] == ["4", "4"]
    body = {"query": [f"p: {text}"], "prompts": ["p: "], "labels": [""]}
    reply = service.post(json.dumps(body).encode(), "/get_reward?group_size=1&run=r&method=ttrl")
    assert reply.json()["rewards"] == [1.0]


TWICE = {
    "groups": GOOD[:-1] + b', "groups": []}',
    "rollouts": GOOD.replace(b'"rollouts"', b'"rollouts": [], "rollouts"', 1),
    "answer": GOOD.replace(b'"answer": "4"', b'"answer": "4", "answer": "5"'),
    "mean_entropy": GOOD.replace(b'"mean_entropy": 0.1', b'"mean_entropy": 0.1, "mean_\\u0065ntropy": 0.1'),
    "method": b'{"method": "ttrl", "method": "dare", ' + GOOD[1:],
    "alpha": b'{"params": {"alpha": 0.1, "alpha": 0.2}, ' + GOOD[1:],
    "quoted": rb'{"meta": {"quoted": "say \":\" or \" :", "quoted": ":)"}, ' + GOOD[1:],
    "back\\": rb'{"meta": {"back\\": 1, "back\\" : "\\\":"}, ' + GOOD[1:],
    "early": b'{"meta": {"early": ":", "early" :1}, ' + GOOD[1:],
    "x": b'{"meta": {"x": [{"x": 1, "x": 2}], "y": ": : :"}, ' + GOOD[1:],
}


@pytest.mark.parametrize("key", TWICE)
def test_a_key_that_stands_twice_is_refused_by_its_name(service, key):
    reply = service.post(TWICE[key])
    assert reply.status_code == 400
    assert f"{key!r} stands twice" in reply.json()["detail"]


def test_openrlhf_s_keys_stand_once_too(service):
    assert service.post(OPENRLHF, "/get_reward?group_size=1&run=r").status_code == 200
    twice = OPENRLHF[:-1] + b', "labels": ["1"]}'
    assert "'labels' stands twice" in service.post(twice, "/get_reward?group_size=1&run=r").json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        GOOD,
        GOOD.replace(b'"4"', b'"4:5 \\": \\" : "'),
        b'{"meta": {"a": {"b": [{"c": ":"}, {"c": 1}]}}, ' + GOOD[1:],
        GOOD.replace(b'"answer": "4"', b'"answer": "4", "meta": {"answer": "4"}'),
        *(
            GOOD.replace(b'"4"', json.dumps(text).encode())
            for text in ('{"a":1, "a":2}', '\\":', '\\\\": "b":', "a: 1")
        ),
    ],
)
def test_colons_elsewhere_are_no_keys(service, body):
    assert service.post(body).status_code == 200


@each("odd", [b"true", b"1", b"null", b'"x"', b"[]", b"[1]", b'["a", {}]', b'{"a": 1}'])
@each("key", [b'"params"', b'"groups"', b'"rollouts"', b'"meta"'])
def test_what_is_of_another_type_is_refused_by_its_own_name(service, key, odd):
    bodies = {b'"groups"': b'{"groups": %b}' % odd, b'"rollouts"': b'{"groups": [{"rollouts": %b}]}' % odd}
    body = bodies.get(key, b"{%b: %b, %b" % (key, odd, GOOD[1:]))
    assert service.post(body).status_code in {200, 422}
    assert service.post(odd).status_code == 422


def test_bodies_whose_keys_stand_once_are_parsed_once(monkeypatch):
    """Python's parser, which takes ten times as long, is asked where something is wrong."""
    monkeypatch.setattr("json.loads", lambda *_, **__: pytest.fail("parsed twice"))
    read_json(GOOD.replace(b'"4"', b'"a: b"'))
    with pytest.raises(pytest.fail.Exception):
        read_json(TWICE["answer"])


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"prompt": "p", "response": "r", "label": "4"}, "--group-rm"),
        ({"prompt": "p", "completions": ["a", "b"]}, '{"text": COMPLETION}'),
        ({"answers": [1]}, '{"groups": [{"rollouts"'),
    ],
)
def test_the_body_of_another_service_is_told_what_to_send(service, body, words):
    reply = service.post(body)
    assert (reply.status_code, reply.json()["errors"][0]["loc"]) == (422, "groups")
    assert words in reply.json()["detail"]


@pytest.mark.parametrize("kind", ["math", "text"])
def test_numbers_are_answers(service, kind):
    given = ["4", 4, 4.0, 2.5, None]
    rollouts = [{"answer": a, "mean_entropy": 0.1} for a in given]
    body = {"method": "ttrl", "groups": [{"kind": kind, "rollouts": rollouts, "second_group": [{"answer": 4}]}]}
    (group,) = service.post(body).json()["groups"]
    assert group["answers"] == ["4", "4", "4", "2.5", None]
    with pytest.raises(RequestError, match="must be"):
        dare_reward.estimate([{"rollouts": [{"answer": float("nan")}]}], method="ttrl")
    assert service.post({"groups": [{"rollouts": [{"answer": True}]}]}).status_code == 422


# --- how much: counted outside of strings, wherever a piece of it ends ------------------------------------------------


TEXT = st.text('ab"\\,[]{}\n', max_size=12)
TREE = st.recursive(TEXT | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(TEXT, x), max_leaves=20)


def counted(value):
    """The same by walking the tree: a comma between two entries."""
    if isinstance(value, str):
        return STRING
    if isinstance(value, dict):
        inside = sum(STRING + counted(v) for v in value.values())
    elif isinstance(value, list):
        inside = sum(map(counted, value))
    else:
        return 0
    return (OBJECT if isinstance(value, dict) else LIST) + VALUE * max(len(value) - 1, 0) + inside


@given(TREE, st.integers(1, 40))
def test_pieces_change_nothing(tree, piece):
    body = json.dumps(tree).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_body, "PIECE", piece)
        assert json_memory(body) == len(body) + counted(tree)


def test_a_long_text_of_escaped_quotes_is_read_once():
    """Each of them looks like the start of a string that does not end in its piece."""
    assert_linear(lambda text: json_memory(text.encode()), lambda n: '{"a":"' + '\\"' * n + '"}', 30_000)


def test_what_is_surely_small_is_not_looked_at(monkeypatch):
    monkeypatch.setattr(json_body, "json_memory", lambda body: pytest.fail("counted"))
    check_json(b"[" + b"{}," * 100_000 + b"0]", 64 << 20)


def test_texts_may_be_as_long_as_they_are():
    body = json.dumps(['\\frac{1}{2}, [3, 4], "5" ' * 100_000]).encode()
    assert json_memory(body) < 1.1 * len(body)
    check_json(body, 0)


def test_the_refusal_says_the_figures():
    body = b"[" + b"[]," * 400_000 + b"[]]"
    with pytest.raises(LimitError) as caught:
        check_json(body, 2_000_000)
    assert caught.value.code == "memory"
    sizes = (len(body), json_memory(body), 2_000_000 + OWN * len(body), 2_000_000)
    for word in (*(f"{size / 1e6:.1f} MB" for size in sizes), "a frame"):
        assert word in str(caught.value)


def test_keys_are_counted_without_a_second_body():
    """What a request holds is counted in bytes of bodies (`DARE_MAX_INFLIGHT_BYTES`): a copy would stand beside it."""
    text = {"text": "x" * (4 << 20), "meta": {"a": {"b": 1}}}  # objects within a rollout, whose keys are not the usual
    body = bytearray(json.dumps({"groups": [{"rollouts": [text]}]}).encode())
    content = json.loads(body)
    tracemalloc.start()
    json_body._check_keys(body, content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(body) / 4
