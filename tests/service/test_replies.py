"""Some hundreds of generated requests are answered as recorded: rewards, tables, flags, and each refusal's sentence."""

import asyncio

import pytest
import replies

RECORDED = replies.recorded()


@pytest.fixture(scope="module")
def now():
    return asyncio.run(replies.replies(list(RECORDED)))


@pytest.mark.parametrize("topic", dict.fromkeys(name.partition(" ")[0] for name in RECORDED))
def test_replies_are_those_recorded(now, topic):
    names = [name for name in RECORDED if name.partition(" ")[0] == topic]
    # Another processor may round an exponential or a logarithm otherwise in the last bit.
    changed = [
        line for name in names for line in replies.differences(now[name], RECORDED[name], tolerance=1e-12, place=name)
    ]
    assert not changed, "a change that is meant: python tests/replies.py --write"


def test_the_record_holds_replies_and_refusals():
    assert len(RECORDED) >= 500
    assert {status for status, _ in RECORDED.values()} == {200, 400, 422}
