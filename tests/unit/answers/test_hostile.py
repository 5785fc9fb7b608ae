"""Any str whatever: no exception, little work, little memory, never equal to an ordinary number."""

import random
import tracemalloc
from functools import partial

import pytest
from growth import assert_calls, assert_cheap, scan
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import each

from dare_reward.answers import canonical, classify, grade
from dare_reward.answers.keys import _cached_math, math_key
from dare_reward.answers.rules import DEFAULT

ORDINARY = {canonical(str(n)).value for n in range(-1000, 1001)} | {"1/2", "1/10"}
CALLS = 300_000  # twice what the dearest of these texts takes: about what the budget of steps allows
PLAIN, SCANS = "a" * 20_000, 200  # the dearest of these texts costs about 30

TOWERS = [
    "9^{9^{9^9}}", "9^9^9^9", "2^{2^{2^{2^{2^2}}}}", "99999999!", "((((9!)!)!)!)", "9!!!!!!", "(2100!)^{2100}",
    r"\binom{10^7}{5\cdot10^6}", r"\binom{x}{10^9}", "(1+x)^{100000}", "1E+99999999999999", "1e-99999999999",
    "10^{10^{10}}", r"\sqrt[100000]{2}", "e^{e^{e^{e^e}}}", "e^{1999}", r"\Gamma(300.3)", r"\zeta(59.5)e^{1990}", "227!27!!x!xi", "2046!2p46!", "2000!x", "e^{1990}x!y!", r"\sin(10^{100})", r"\zeta(1.0000001)",
    "1/0", "0/0", "0^0", "0^{-1}", r"\ln 0", r"\log_1 5", r"\tan(\pi/2)", r"\gcd(10^{50000},7)", "10^{40000}",
]  # fmt: skip
NESTS = [
    "(" * 10_000, "{" * 10_000, "(" * 10_000 + "1" + ")" * 10_000, "{" * 10_000 + "1" + "}" * 10_000,
    "(" * 900 + "1" + ")" * 900, "{" * 900 + "1" + "}" * 900, r"\frac{" * 330 + "1", r"\sqrt{" * 250 + "2" + "}" * 250,
    "-" * 1_999 + "1", "+" * 1_999 + "1", "-" * 50 + "1", "|" * 1_999, "|" * 50 + "1" + "|" * 50, "9" + "!" * 1_998,
    "^" * 1_999, "_" * 1_999, "$" * 100_000, "\\" * 1_999, "\\" * 1_998 + "1", "=" * 1_999, "1=" * 999 + "2",
    "2^{" * 400 + "2" + "}" * 400, "x^" * 900 + "x", r"\boxed{" * 10_000, r"\boxed{1}" * 10_000, r"\boxed{1}" * 200,
    r"\text{" * 300, r"\begin{pmatrix}" * 100, r"\lfloor" * 200 + "1" + r"\rfloor" * 200, r"\sin " * 390 + "1",
    "f(" * 400 + "x" + ")" * 400, r"\{" * 999, "((1,2)," * 250, r"\left(" * 180 + "1" + r"\right)" * 180,
]  # fmt: skip
LONG = [
    "1" * 4_301, "1" * 100_000, "0" * 1_999 + "1", "1e" + "9" * 1_990, r"\frac{1}{2}" * 9_000, "a" * 100_000,
    "word " * 400, "1," * 999 + "1", "1<" * 999 + "x", "1:" * 999 + "1", "," * 1_999, "$1$" * 600, "**1**" * 300,
    r"\pm1" * 400, r"\sin x+" * 280 + "1", r"\Gamma(x)\Gamma(y)" * 100, r"\zeta(1.5)+" * 150 + "1", r"\binom{x}{60}+" * 120 + "1",
    "2000!+" * 280 + "1", "x^{1000}+" * 200 + "1", "e^{1999}+" * 200 + "1", r"\sqrt2," * 250 + "1", r"[\sqrt2,\sqrt3]\cup" * 90 + "[1,2]",
    "y=e^{1000x}+" + "e^{999x}+" * 140 + "1", "z=" + r"\sin x\cos y+" * 110 + "1", "x<1 or " * 250 + "x<2", r"x\ne 1," * 190 + "2",
    "5 " + "cm" * 900, "5 " + "cm " * 600, "5" + " m/s" * 400, "$5 " * 500, "1 1/2 " * 300, "204_" * 400, r"\begin{pmatrix}" + "1&" * 300 + r"1\end{pmatrix}",
    r"\log_{" * 300, "x" + "'" * 1_990, "_5" * 900, r"\infty" * 300, "1\\frac12" * 200 + "+x" * 50,
]  # fmt: skip
CODE = [
    "__import__('os').system('true')", "exec('x=1')", "breakpoint()", "eval('1')", "().__class__.__bases__[0]", "{{7*7}}",
    "${7*7}", "#{7*7}", "%s%n", "lambda: 1", r"\input{/etc/passwd}", r"\def\x{\x\x}\x", "os.system('ls')", "'; DROP TABLE x; --",
]  # fmt: skip
STRANGE = [
    "\ud800", "1\udfff", "\x00", "1\x00", "\x001", "\u202e1", "1\u202e2", "\u200f1", "\u200e42", "\u2066" * 1000 + "1",
    "\ufeff" * 1000, "\u200b" * 1999, "\u0301" * 1999, "1" + "\u0301" * 500, "½" * 1000, "²" * 1999, "1²" * 900, "√" * 1999,
    "∪" * 1999, "\U0001f600" * 500, "ﷺ" * 1000, "İ" * 1000, "\x1b[31m1", "\x7f1", "\u0085", "\ufffe",
]  # fmt: skip
MARKED = [
    "&lt;" * 499, "&" * 1999, "&a" * 900, "<b>" * 660, "</b>" * 499, "<sup>1</sup>" * 160, "<sup>" * 399, "<br " * 499,
    r"\left\{\begin{array}{l}" * 80, r"\left\{\begin{array}{l}" + "x" * 1900, "H_2" * 600, "(H2)" * 30, "(" * 60 + "H2" + ")" * 60,
    "C2" * 60, r"\lfloor x" * 200, r"\lfloor " * 40 + "n" + r"\rfloor " * 40, "+".join([r"\lfloor n/2\rfloor"] * 60),
    "+".join(rf"\sqrt{n}\cdot10^{{-4{n}}}" for n in range(10, 60)), r"1+e^{-100}" * 1, r"\cos(" * 40 + "10^{-30}" + ")" * 40,
    "+".join(["e^{-100x}"] * 80), r"A \times " * 150 + "B",
]  # fmt: skip
HOSTILE = MARKED + TOWERS + NESTS + LONG + CODE + STRANGE


def soup(seed):
    rng = random.Random(seed)
    pieces = [
        *"0123456789+-*/^_{}()[]|!<>=,.;:%$ xyabein\\",
        r"\frac", r"\sqrt", r"\sin", r"\ln", r"\pm", r"\cup", r"\text{", r"\left", r"\begin{pmatrix}", r"\end{pmatrix}", "&", r"\\",
        r"\{", r"\}", r"\pi", r"\binom", r"\log_", r"\infty", " and ", " or ", "cm", r"\le", r"\in", "_5", "°",
    ]  # fmt: skip
    return ["".join(rng.choices(pieces, k=rng.choice([3, 8, 20, 60, 300]))) for _ in range(400)]


def assert_bounded(*texts):
    """Calls are counted, which finds work without a budget; CPU is compared, which finds an expression that backtracks."""
    for text in texts:
        assert_calls(partial(math_key, text, DEFAULT), CALLS, text[:80])
    read = lambda: [math_key(text, DEFAULT) for text in texts]  # noqa: E731
    assert_cheap(read, partial(scan, PLAIN), times=SCANS, what=texts)


@each("text", HOSTILE)
def test_hostile_text_is_bounded_work_with_a_short_key_and_no_ordinary_number(text):
    canonical(r"\sqrt2")  # mpmath is loaded
    assert_bounded(text)
    key = canonical(text)
    assert key is None or key.kind != "exact" or key.value not in ORDINARY or key.tag
    assert key is None or len(key.value) < 300
    assert not grade(text, ["1", "2"])
    assert not grade("0", text)


@pytest.mark.parametrize("seed", range(3))
def test_token_soup(seed):
    texts = soup(seed)
    for i in range(0, len(texts), 20):
        assert_bounded(*texts[i : i + 20])
    for text in texts:
        assert canonical(text) == canonical(text)


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=60))
@settings(max_examples=400, deadline=None)
def test_any_text_has_a_key(text):
    key = math_key(text, DEFAULT)
    assert canonical(text) == key
    assert grade(text, text) == (key is not None)
    for kind in ("text", "exact", "choice"):
        other = canonical(text, kind=kind)
        assert grade(text, text, kind=kind) == (other is not None)
    assert (canonical(text, kind="exact") is None) == (not text.strip())


@given(st.text("0123456789+-*/^(){}[]|,.<>=!% xyei\\", max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_formula_has_a_key(text):
    key = math_key(text, DEFAULT)
    assert math_key(f" {text} ", DEFAULT) == key


@given(st.integers(), st.integers())
def test_integers_are_what_they_are(a, b):
    assert grade(str(a), str(b)) == (a == b)


@given(st.fractions(), st.sampled_from(["{}/{}", r"\frac{{{}}}{{{}}}", "({})/({})", r"\dfrac{{{}}}{{{}}}"]))
def test_fractions_are_what_they_are(q, form):
    assert grade(form.format(q.numerator, q.denominator), form.format(3 * q.numerator, 3 * q.denominator))
    assert not grade(form.format(q.numerator, q.denominator), form.format(q.numerator + 1, q.denominator))


def test_memory_does_not_grow():
    some = HOSTILE[::6]
    for text in some:  # what is loaded once and kept
        canonical(text)
    _cached_math.cache_clear()
    tracemalloc.start()
    try:
        for text in some:
            canonical(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * 2**20


def test_the_cache_is_bounded_and_keeps_no_long_text():
    info = _cached_math.cache_info()
    assert info.maxsize == 100_000
    before = info.currsize
    canonical("7" * 300)
    assert _cached_math.cache_info().currsize == before


def test_a_group_of_hostile_texts():
    c = classify([*HOSTILE, "1", "2"])
    assert c.answers.count("1") == 1
    assert c.index[-2] not in c.index[:-2]
