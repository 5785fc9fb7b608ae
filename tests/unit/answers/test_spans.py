"""Where an answer stands: the edges, and as tokens. By every way of reading one: rows of test_answer_rows.py."""

from itertools import pairwise

import pytest
from byte_level import trained
from hypothesis import given
from hypothesis import strategies as st

import dare_reward
from dare_reward.answers import answer_span, extract, outside_span, span_tokens


def test_no_span():
    assert answer_span("nothing", lambda t: None) is None
    assert answer_span("five", lambda t: "5") is None, "read, but not there as it is"
    given = [{"rollouts": [{"answer": "5"}, {"answer": None}]}]
    (group,) = dare_reward.estimate(given, method="ttrl", spans=True).groups
    assert group.answer_spans == (None, None)
    assert "no_span" in group.flags
    assert dare_reward.estimate(given, method="ttrl").groups[0].answer_spans is None


def test_the_search_for_a_span_is_bounded():
    """Each look at the whole text counts; one answer in a million characters, or ten thousand of one letter."""
    looks = []

    class Counted(str):
        __slots__ = ()

        def rfind(self, *given):
            looks.append(given)
            return super().rfind(*given)

    for text, answer in (("a" * 10**6, "a"), ("a b " * 10**4, "a"), ("ab" * 5000, "abababababab")):
        looks.clear()
        assert answer_span(Counted(text), lambda _, answer=answer: answer) is None
        assert 0 < len(looks) <= 1024
    assert len(looks) == 32
    looks.clear()
    assert answer_span(Counted("a " * 10**4 + "\\boxed{a}"), lambda t: "a" if t.endswith("{a}") else None)
    assert len(looks) == 1


def test_a_cut_off_text_is_read_by_its_rules():
    cut = {"text": "The answer is 5", "finish_reason": "length"}
    for truncated, expected in (("boxed", None), ("as_is", (14, 15))):
        reply = dare_reward.estimate([{"rollouts": [cut]}], method="ttrl", spans=True, truncated=truncated)
        assert reply.groups[0].answer_spans == (expected,)


@given(cuts=st.lists(st.integers(0, 30), min_size=1), low=st.integers(0, 30), width=st.integers(1, 9))
def test_a_token_is_masked_if_it_shares_a_character(cuts, low, width):
    edges = sorted({0, 30, *cuts})
    offsets = [(0, 0), *pairwise(edges)]
    mask = outside_span(offsets, (low, low + width))
    assert mask[0], "a token without characters stays"
    for (start, end), outside in zip(offsets[1:], mask[1:], strict=True):
        assert outside == (not set(range(start, end)) & set(range(low, low + width)))
    assert outside_span(offsets, None) == [True] * len(offsets)


TEXTS = ["Größe 5 €: ответ 🙂 \\boxed{§π½} 🙂 5", "答えは \\boxed{三角形} です", "so \\boxed{12} and 12"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("size", [257, 300, 400])
def test_tokens_of_a_real_tokenizer(text, size):
    """A byte-level BPE, trained here: characters of several bytes are several tokens, at both edges of the answer."""
    tokenizer = trained(size, texts=TEXTS, special=())
    span = answer_span(text, lambda t: extract(t).answer)
    encoded = tokenizer.encode(text)
    mask = outside_span(encoded.offsets, span)
    inside = [i for i, keep in zip(encoded.ids, mask, strict=True) if not keep]
    outside = [(i, o) for i, o, keep in zip(encoded.ids, encoded.offsets, mask, strict=True) if keep]
    assert text[slice(*span)] in tokenizer.decode(inside)
    assert all(end <= span[0] or start >= span[1] for _, (start, end) in outside)
    assert "�" not in tokenizer.decode(inside), "no character is cut in two"
    first, last = span_tokens(text, encoded.ids, tokenizer.decode, span)
    assert mask == [not first <= i < last for i in range(len(mask))], "by ids alone: the same tokens"
    before = [i for i, (_, end) in outside if end <= span[0]]
    assert text.startswith(tokenizer.decode(before))
