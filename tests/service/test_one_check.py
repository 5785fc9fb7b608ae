"""Groups are checked by the base layer alone: it refuses all that `openapi.json` forbids, where it stands."""

import copy
import json

import pytest
from described import description
from pydantic import TypeAdapter, ValidationError
from refusals import refusal
from rows import each

from dare_reward.inputs import ANSWERED_FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS
from dare_reward.scoring.request import prepare

SCHEMA = TypeAdapter(description.group_model())  # what openapi.json is written from
GROUP = {"rollouts": [{"answer": "4", "mean_entropy": 0.2}, {}], "second_group": [{"answer": "4"}]}
VALUES = [
    *(None, True, 0, 1, -1, 0.5, 1.0, -0.5, 1e300, 2**31 + 1, 2**63, 2**70, "", "4", "exact", "temperature", "x" * 300),
    *([], [1], [0.5], ["A", "B"], [True], [None], [[-0.5, -0.2]], [["a"]], [[]], [{}], [-0.1, -0.2], [1e300]),
    *({}, {"a": 1}, {"a": True}, {"4": None}, [{"answer": "4"}], [{"answer": 4}], [{"meta": 3}], [{"trained": True}]),
]
PLACES = {
    **{("group", name): lambda g: g for name in GROUP_FIELDS},
    **{("rollout", name): lambda g: g["rollouts"][1] for name in ROLLOUT_FIELDS},
    **{("answered", name): lambda g: g["second_group"][0] for name in ANSWERED_FIELDS},
}


@each("place", PLACES)
def test_what_the_schema_forbids_is_refused_where_it_stands(place):
    refused = 0
    for value in VALUES:
        group = copy.deepcopy(GROUP)
        PLACES[place](group)[place[1]] = value
        try:
            SCHEMA.validate_python(group)
        except ValidationError:
            refused += 1
            assert place[1] in refusal(prepare, [group]).loc, value
    assert refused > 5


@pytest.mark.parametrize("value", [None, 1, "a", [], [1]])
def test_a_group_or_a_rollout_that_is_no_object_is_refused(value):
    for groups, loc in (([value], ("groups", 0)), ([{"rollouts": [{}, value]}], ("groups", 0, "rollouts", 1))):
        assert refusal(prepare, groups).loc == loc


@each("depth", [150, 1000, 1020, 2000])
@each("place", ["params", "group params", "meta", "group meta", "shadow", "options"])
def test_what_is_nested_deep_is_answered(service, place, depth):
    deep = b"[" * depth + b"]" * depth
    name = place.split()[-1].encode()
    inside = b'{"a":' + deep + b"}" if name in {b"params", b"meta"} else deep
    group = b'"rollouts":[{"answer":"1","mean_entropy":0.1}]'
    if place in {"params", "meta", "shadow"}:
        body = b'{"%s":%s,"groups":[{%s}]}' % (name, inside, group)
    else:
        body = b'{"groups":[{"%s":%s,%s}]}' % (name, inside, group)
    assert service.post(body).status_code in {200, 400, 422}


def test_json_that_the_fast_parser_refuses_is_read_again(service):
    for number in (b"NaN", b"-Infinity", b"1e999"):
        reply = service.post(b'{"groups":[{"rollouts":[{"answer":"1","mean_entropy":%s}]}]}' % number)
        assert json.loads(reply.content)["errors"][0]["loc"] == "groups[0].rollouts[0].mean_entropy"
