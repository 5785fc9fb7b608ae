"""Keys: what they are made of, budgets at their edges, and what each module promises to its neighbours."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each

from dare_reward.answers import canonical, classify, grade
from dare_reward.answers.algebra.fingerprint import WHOLE, constant_key, point, step_points
from dare_reward.answers.algebra.numbers import BUDGET, charge, digits, number, rational, real, start_budget
from dare_reward.answers.cleanup import MAX_CHARS, clean
from dare_reward.answers.forms.intervals import REALS, Endpoint, intersect, interval, spelled, union, without
from dare_reward.answers.hashes import short
from dare_reward.answers.keys import CACHE_CHARS
from dare_reward.answers.kinds import Unreadable
from dare_reward.params import parameters


def test_the_judgement_calls_are_parameters_of_all_three():
    calls = [
        {s.name: s for s in parameters(f) if s.name not in {"kind", "options"}} for f in (canonical, classify, grade)
    ]
    assert calls[0] == calls[1] == calls[2]
    assert list(calls[0]) == ["percent", "units", "names", "list_order", "intervals", "significant", "log"]
    assert all(s.doc and s.default is not None for s in calls[0].values())


def test_long_answers_of_other_kinds():
    long = "x" * (CACHE_CHARS + 1)
    assert canonical(long, kind="exact") != canonical(long + "y", kind="exact")
    assert len(canonical(long, kind="exact").value) < 40
    huge = "word " * 10_000
    assert canonical(huge, kind="text") == canonical(huge + "\n", kind="text") != canonical(huge + "x", kind="text")


def test_the_length_budget():
    edge = "1+" * (MAX_CHARS // 2 - 1) + "11"
    assert len(edge) == MAX_CHARS
    assert clean(edge) == edge
    assert clean(edge + "1") is None
    assert canonical("9" * MAX_CHARS).kind == "exact"
    assert canonical("9" * (MAX_CHARS + 1)).kind == "opaque"


def test_work_is_counted_not_timed():
    start_budget()
    charge(BUDGET)
    with pytest.raises(Unreadable):
        charge(1)
    start_budget()
    charge(1)


@each("text", ["1e5000", "1e-5000", "1e1234567890", "1" * 4_001])
def test_numbers_over_budget(text):
    with pytest.raises(Unreadable):
        number(text)


def test_digits_are_the_same_for_exact_and_computed_values():
    for q in (Fraction(1, 3), Fraction(-22, 7), Fraction(10**20, 3), Fraction(1, 3 * 10**20)):
        assert digits(q) == digits(real(q) if abs(q) < 10**18 else q)
    assert digits(0) == "0"
    assert digits(Fraction(1, 3)) == "3" * 32 + "e-32"


def test_recognition_wants_many_digits():
    near = real(Fraction(1, 3) + Fraction(1, 10**35))
    assert rational(near) is None
    assert rational(real(Fraction(1, 3))) == Fraction(1, 3)
    assert rational(real(Fraction(4))) == 4
    assert rational(real(Fraction(0))) == 0


def test_points_are_fixed_and_one_is_negative():
    assert [point("x", j) for j in range(3)] == [point("x", j) for j in range(3)]
    assert [point("x", j) > 0 for j in range(3)] == [True, True, False]
    assert len({point(n, j) for n in "xyzabc" for j in range(3)}) == 18
    assert all(point("x", j).denominator == 49_999 for j in range(3))


def test_short_texts_stay_readable():
    assert short("x" * 80) == "x" * 80
    assert len(short("x" * 81)) == 32
    assert short("\ud800" * 100) != short("\ud801" * 100)


def test_rounding():
    assert constant_key(Fraction(2, 3), 3)[1] == str(Fraction(667, 1000))
    assert constant_key(Fraction(-2, 3), 3)[1] == str(Fraction(-667, 1000))
    assert constant_key(1250, 2)[1] == "1300"
    assert constant_key(0, 2)[1] == "0"


ENDS = st.integers(-6, 6).map(lambda n: Endpoint(Fraction(n), str(n)))
PIECES = st.builds(
    lambda low, high, closed: interval(low, high, closed=closed), ENDS, ENDS, st.sampled_from(["", "[", "]", "[]"])
)


def holds(pieces, x):
    return any(
        (p.start.at.order < x or (p.start.at.order == x and not p.start.behind))
        and (x < p.end.at.order or (x == p.end.at.order and p.end.behind))
        for p in pieces
    )


@given(st.lists(PIECES, max_size=5), st.lists(PIECES, max_size=4))
@settings(max_examples=300)
def test_interval_unions_are_sets(a, b):
    grid = [Fraction(n, 2) for n in range(-14, 15)]
    u, v = union(a), union(b)
    both = intersect(u, v)
    for x in grid:
        assert holds(u, x) == holds(a, x)
        assert holds(both, x) == (holds(a, x) and holds(b, x))
    assert union(u) == u
    assert spelled(union(list(reversed(a)))) == spelled(u)


def test_points_taken_out():
    zero = Endpoint(Fraction(0), "0")
    assert spelled(without([REALS], [zero])) == "(-oo;0)u(0;oo)"
    assert spelled([]) == "{}"
    assert spelled([interval(zero, zero, closed="[]")]) == "{0}"


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_polynomials_by_value(a, b, c):
    assert grade(f"(x+{a})({c}x+{b})", f"{c}x^2+({b}+{a}*{c})x+({a})({b})")
    assert not grade(f"(x+{a})({c}x+{b})", f"{c}x^2+({b}+{a}*{c})x+({a})({b})+1")


@given(st.integers(1, 20), st.integers(-20, 20), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_lines_in_all_forms(m, b, k):
    assert grade(f"y={m}x+({b})", f"{k}y-({k * m})x=({k * b})")
    assert not grade(f"y={m}x+({b})", f"{k}y-({k * m})x=({k * b + 1})")


@given(st.integers(-9, 9), st.integers(-9, 9))
@settings(max_examples=60, deadline=None)
def test_quadratic_inequalities(p, q):
    low, high = sorted((p, q))
    text = f"(x-({p}))(x-({q}))"
    assert grade(text + "<0", f"{low}<x<{high}" if low < high else r"\emptyset")
    assert grade(text + ">=0", rf"x\le{low} or x\ge{high}" if low < high else r"\mathbb{R}")


@given(st.fractions(min_value=-(10**12), max_value=10**12).filter(bool), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_rounding_keeps_so_many_digits(q, n):
    rounded = Fraction(constant_key(q, n)[1])
    unit = Fraction(10) ** (len(str(int(abs(q)))) - n if abs(q) >= 1 else -n - 40)
    if abs(q) >= 1:
        assert abs(rounded - q) <= unit / 2
        assert (rounded / unit).denominator == 1
    assert abs(rounded - q) * 10 ** (n - 1) <= abs(q)


def test_integers_run_through_all_remainders():
    for name in WHOLE:
        near = [env[name] for env in step_points([name])[:-1]]
        assert {n % 12 for n in near} == set(range(12))
        assert step_points([name])[-1][name] % 27_720 == 0
    assert len({tuple(env[name] for env in step_points([name])[:-1]) for name in WHOLE}) == len(WHOLE)
    integers = [env["x"] for env in step_points(["x"])[:4]]
    assert [n == int(n) for n in integers] == [True, True, False, True]
    assert integers[1] < 0 < integers[0]
