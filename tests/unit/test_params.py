from typing import Annotated, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dare_reward.errors import RequestError
from dare_reward.params import Param, parameters, resolve


def function(
    x: int,
    *,
    rate: Annotated[float, Param("a rate", ge=0, lt=1, source="Eq. 1")] = 0.5,
    count: Annotated[int, Param("a count", gt=0, le=9)] = 3,
    form: Literal["a", "b"] = "a",
    flag: bool = False,
    needed: Annotated[float | None, Param("no default")],
) -> None: ...


SPECS = {s.name: s for s in parameters(function)}


def test_a_signature_says_everything_and_accepted_values_in_words():
    rate, needed = SPECS["rate"], SPECS["needed"]
    assert (rate.type, rate.default, rate.ge, rate.lt, rate.doc, rate.source) == (float, 0.5, 0, 1, "a rate", "Eq. 1")
    assert SPECS["form"].choices == ("a", "b")
    assert (needed.required, needed.optional, rate.required) == (True, True, False)
    assert {name: spec.accepts for name, spec in SPECS.items()} == {
        "rate": "a finite number >= 0 and < 1",
        "count": "an integer > 0 and <= 9",
        "form": "one of a, b",
        "flag": "true or false",
        "needed": "a finite number or null",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("rate", v) for v in (-0.1, 1, 1.0, float("nan"), float("inf"), True, "0.5", None, [0.5], 10**400)],
        *[("count", v) for v in (0, 10, 1.0, "3", True, None, 10**400)],
        *[("form", v) for v in ("c", "", 1, None, True)],
        *[("flag", v) for v in (0, 1, "true", None)],
        ("needed", float("inf")),
    ],
)
def test_what_is_refused(name, value):
    with pytest.raises(RequestError) as caught:
        SPECS[name].check(value, loc=("params",))
    assert caught.value.loc == ("params", name)
    assert SPECS[name].accepts in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("rate", v) for v in (0, 0.999, np.float32(0.25))),
        *(("count", v) for v in (9, np.int64(4))),
        *(("flag", v) for v in (True, np.bool_(True))),
        ("form", "b"),
        ("needed", None),
    ],
)
def test_what_is_taken(name, value):
    """An integer becomes a float."""
    found = SPECS[name].check(value)
    assert (found, type(found)) == (value, type(None) if value is None else SPECS[name].type)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rate", "0.25", 0.25),
        ("count", "4", 4),
        ("form", "b", "b"),
        ("flag", "true", True),
        ("flag", "0", False),
        ("needed", "null", None),
    ],
)
def test_parsing(name, text, value):
    assert SPECS[name].parse(text) == value


@given(st.text(max_size=8))
def test_parsing_refuses_or_returns_a_checked_value(text):
    for spec in SPECS.values():
        try:
            assert spec.check(spec.parse(text)) == spec.parse(text)
        except RequestError as error:
            assert error.status == 422


@pytest.mark.parametrize("text", ["0_05", "\u0660.\u0661", "\uff11"])
def test_what_python_alone_takes_for_a_number_is_none(text):
    """0_05 was 5."""
    for name in ("rate", "count"):
        with pytest.raises(RequestError, match=rf"^{name}: must be "):
            SPECS[name].parse(text)
    with pytest.raises(RequestError, match=r"0\.05") as error:
        SPECS["rate"].parse("0,05")
    assert error.value.code == "parameter", "a decimal comma is named"


def test_resolve_fills_in_and_refuses_the_unknown():
    specs = tuple(SPECS.values())
    assert resolve(specs, {"needed": 1}) == {"rate": 0.5, "count": 3, "form": "a", "flag": False, "needed": 1.0}
    with pytest.raises(RequestError, match=r"unknown parameter 'rat'\. Did you mean rate"):
        resolve(specs, {"needed": 1, "rat": 1})
    with pytest.raises(RequestError, match="missing: needed"):
        resolve(specs, {})
