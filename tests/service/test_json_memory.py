"""What a JSON body holds is counted outside of its strings, wherever a piece of it ends."""

import json
import tracemalloc

import pytest
from growth import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from dare_reward.errors import LimitError
from dare_service import json_body
from dare_service.json_body import LIST, OBJECT, OWN, STRING, VALUE, check_json, json_memory

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
