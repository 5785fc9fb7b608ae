"""Every input is declared once: what is declared is checked in process as over HTTP, sent, seen, and documented."""

import json

import numpy as np
import pytest
from described import description
from fields import good
from pydantic import TypeAdapter, ValidationError
from refusals import refusal
from rows import each

import dare_reward
from dare_reward._outgoing import parts
from dare_reward.errors import RequestError
from dare_reward.inputs import ANSWERED_FIELDS, FIELDS, GROUP_FIELDS, ROLLOUT_FIELDS
from dare_reward.scoring.request import prepare

SCHEMA = TypeAdapter(description.group_model())  # of openapi.json
ROLLOUT = {"answer": "1", "mean_entropy": 0.1}
HEAD = {"method": "dare", "params": {}}
PER_GROUP = [f for f in GROUP_FIELDS.values() if not f.required]


def group(**inputs):
    return {"rollouts": [dict(ROLLOUT)], **inputs}


def arrived(group):
    """What of the group a client sends."""
    (part,) = parts([group], {"method": "ttrl", "params": {}})
    return json.loads(part.content)["groups"][0]


def refused(group):
    return refusal(dare_reward.estimate, [group], method="ttrl")


@pytest.mark.parametrize("field", PER_GROUP, ids=lambda f: f.name)
def test_an_input_of_a_group_is_taken_and_sent(field):
    own = {"method": "empo", "params": {"tie": "all"}}  # what they may hold is a method's, not any text or object
    value = own.get(field.name) or good(field)
    sent = group(**{field.name: value}, **({"kind": "choice"} if field.name == "options" else {}))
    assert dare_reward.estimate([sent], method="ttrl").groups[0].error is None
    SCHEMA.validate_python(sent)
    assert (field.name in arrived(sent)) == field.sent


@pytest.mark.parametrize("field", PER_GROUP, ids=lambda f: f.name)
def test_null_is_the_same_in_process_and_over_http(field):
    sent, refused = group(**{field.name: None}), []
    for read in (lambda: dare_reward.estimate([sent], method="ttrl"), lambda: SCHEMA.validate_python(sent)):
        try:
            read()
        except (RequestError, ValidationError):
            refused.append(read)
    assert len(refused) == (0 if field.nullable else 2)


@pytest.mark.parametrize("given", [{}, {"token_entropies": [0.1, 0.3], "mean_entropy": None}])
def test_nulls_of_rollouts_are_as_good_as_no_keys(given):
    """All at once, as a model's dump writes them."""
    nulls = {f.name: None for f in ROLLOUT_FIELDS.values() if f.nullable and f.name not in {"answer", "text"}}
    sent = [{"rollouts": [{**nulls, **ROLLOUT, **given}, {**nulls, **ROLLOUT, **given}]}]
    bare = [{"rollouts": [{k: v for k, v in (ROLLOUT | given).items() if v is not None}] * 2}]
    assert dare_reward.estimate(sent).groups == dare_reward.estimate(bare).groups
    assert len({part.content for groups in (sent, bare) for part in parts(groups, HEAD)}) == 1


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, int, float])
def test_a_number_of_a_group_may_be_numpy_s(kind):
    """The typed dictionaries say so; the clients send Python's."""
    sent = group(prompt_weight=kind(1))
    assert prepare([sent]).groups.column_P("prompt_weight").tolist() == [1.0]
    assert arrived(sent)["prompt_weight"] == 1
    for bad in (np.float64("nan"), np.True_, True, "1"):
        assert refused(group(prompt_weight=bad)).loc == ("groups", 0, "prompt_weight")


@pytest.mark.parametrize("field", [f for f in PER_GROUP if f.type in {"float", "int"}], ids=lambda f: f.name)
@pytest.mark.parametrize("side", ["below", "above", "nan", "text"])
def test_a_range_is_the_same_in_process_and_over_http(field, side):
    value = {"below": (field.ge or 0) - 1, "above": 2 * (field.le or 0) + 1, "nan": float("nan"), "text": "1"}[side]
    found = refused(group(**{field.name: value}))
    assert found.loc == ("groups", 0, field.name)
    assert field.rule in found.message
    with pytest.raises(ValidationError):
        SCHEMA.validate_python(group(**{field.name: value}))


@pytest.mark.parametrize("field", [f for f in PER_GROUP if f.seen], ids=lambda f: f.name)
def test_what_estimators_see_of_a_group(field):
    """A number as a number, a text only as given; the group without it has none."""
    groups = prepare([group(group_id="a", **{field.name: good(field)}), group(group_id="b")]).groups
    value = 1.0 if field.type == "text" else good(field)
    np.testing.assert_array_equal(groups.column_P(field.name), [value, np.nan])


def test_estimators_see_no_texts_and_no_labels():
    sent = [group(**{f.name: good(f) for f in PER_GROUP if f.name not in {"options", "group_id"}})]
    groups = prepare(sent).groups
    assert set(groups.columns_P) == {f.name for f in PER_GROUP if f.seen}
    assert all(column.dtype == np.float64 for column in groups.columns_P.values())
    assert not {"label", "prompt"} & set(groups.columns_P)


def test_the_typed_dictionaries_and_the_models_of_http_are_the_declarations():
    schemas = description.components()["schemas"]
    for name, fields in (("Group", GROUP_FIELDS), ("Rollout", ROLLOUT_FIELDS), ("AnsweredRollout", ANSWERED_FIELDS)):
        declared = getattr(dare_reward, name)
        assert list(declared.__annotations__) == list(schemas[name]["properties"]) == list(fields)
        assert declared.__required_keys__ == {f.name for f in fields.values() if f.required}
    for name, field in FIELDS.items():
        text = json.dumps(schemas["Rollout"]["properties"][name])
        for key, bound in (("minimum", field.ge), ("maximum", field.le)):
            assert (f'"{key}": {json.dumps(bound)}' in text) == (bound is not None), (name, key)


@each("field", ROLLOUT_FIELDS.values())
def test_an_input_of_a_rollout_is_taken(field):
    beside = {"token_mask": {"token_entropies": [0.1]}}
    beside["answer_tokens"] = {"token_entropies": [0.1], "answer_tokens": [0, 1]}
    rollout = {"answer": "1", field.name: good(field)} | beside.get(field.name, {})
    reply = dare_reward.estimate([{"rollouts": [rollout]}], method="ttrl")
    assert reply.groups[0].error is None
