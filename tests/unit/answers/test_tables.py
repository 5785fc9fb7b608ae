"""Every entry of the tables, written down a second time: units, number words, months, functions, symbols."""

import pytest

from dare_reward.answers import canonical, grade
from dare_reward.answers.rules import Rules

UNITS = """
metre metres meter meters m; centimetres centimeters cm; millimetre millimeters mm; kilometre kilometers km; inch inches in
foot feet ft; yard yards yd; mile miles mi; second seconds sec s; minute minutes mins min; hour hours hrs hr h; day days
week weeks wk; month months; year years yrs; millisecond milliseconds ms; gram grams g; kilogram kilograms kg
milligram milligrams mg; pound pounds lbs lb; ounce ounces oz; ton tons; tonne tonnes; liter liters litre L
milliliter milliliters mL; gallon gallons gal; quart quarts qt; cup cups; degree degrees deg; radian radians rad
unit units; newton newtons N; joule joules J; watt watts W; volt volts V; ampere amperes amps; kelvin K; pascal pascals Pa
hertz Hz; mole moles mol; ohm ohms; tesla teslas T; kilojoule kilojoules kJ; kilowatt kilowatts kW; kilonewton kN
kilohertz kHz; megahertz MHz; gigahertz GHz; megawatt megawatts MW; kilopascal kPa; millivolt mV; milliamp mA
electronvolt eV; calorie calories cal; kilocalorie kcal; dollar dollars bucks USD; euro euros EUR; cent cents
percent pct; bit bits; byte bytes; megabyte MB; gigabyte GB; kilobyte kB KB; acre acres; hectare hectares; decibel dB
"""
UNIT_ROWS = [row.split() for line in UNITS.strip().splitlines() for row in line.split(";")]
NUMBERS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
MONTHS = "January February March April May June July August September October November December"
PARTS = {"third": 3, "fourth": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "ninth": 9, "tenth": 10}


@pytest.mark.parametrize("row", UNIT_ROWS, ids=" ".join)
def test_spellings_of_a_unit(row):
    for other in row[1:]:
        assert grade(f"7 {row[0]}", f"7 {other}"), other


def test_units_are_told_apart():
    keys = [canonical(f"7 {row[0]}") for row in UNIT_ROWS]
    assert all(key is not None and key.value == "7" and key.tag.startswith("unit=") for key in keys)
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("unit", ["N", "J", "W", "V", "A", "Pa", "Hz", "eV", "F", "T"])
def test_prefixes_are_told_apart(unit):
    keys = {canonical(f"7 {prefix}{unit}") for prefix in "kMGmnp"}
    assert len(keys) == 6
    assert {key.value for key in keys} == {"7"}


def test_number_words():
    for n, word in enumerate(NUMBERS.split()):
        assert grade(word, str(n)), word
    for n, word in enumerate(["seventeen", "eighteen", "nineteen", "twenty"], 17):
        assert grade(word, str(n)), word
    for n, word in enumerate(["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"], 2):
        assert grade(word, str(10 * n)), word
        assert grade(f"{word}-three", str(10 * n + 3)), word
    for word, n in PARTS.items():
        assert grade(f"one {word}", f"1/{n}"), word
        assert grade(f"two {word}s", f"2/{n}"), word


@pytest.mark.parametrize(
    ("words", "number"),
    [
        ("one hundred", 100), ("nine hundred and ninety-nine", 999), ("two thousand", 2_000),
        ("two thousand and one", 2_001), ("five million two thousand three hundred", 5_002_300),
        ("one billion", 10**9), ("one trillion", 10**12), ("twelve thousand three hundred forty-five", 12_345),
    ],
)  # fmt: skip
def test_large_number_words(words, number):
    assert grade(words, str(number))


@pytest.mark.parametrize(
    "words",
    ["hundred", "two hundred hundred", "one thousand million", "twenty twelve", "five six", "one hundred and", "zero hundred",
     "ten hundred", "and one", "twenty fifth", "two third", "one second", "one thirds", "two thousand thousand"],
)  # fmt: skip
def test_words_that_are_no_number(words):
    assert canonical(words).kind == "text"


def test_months():
    for n, month in enumerate(MONTHS.split(), 1):
        assert grade(f"{month} 7, 2024", f"2024-{n:02}-07"), month
        assert grade(f"7 {month[:3]} 2024", f"2024-{n:02}-07"), month
        assert grade(f"{month} 2024", f"{month[:3]}. 2024"), month
        assert not grade(f"{month} 2024", f"2024-{n:02}-01")
    assert grade("Sept. 3", "the 3rd of September")
    assert not grade("2024-13-01", "2024-12-01")
    assert canonical("March 32").kind != "exact"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (r"\coth x", r"\frac{\cosh x}{\sinh x}"), (r"\tanh x", r"\frac{\sinh x}{\cosh x}"),
        (r"\operatorname{sech} x", r"\frac{1}{\cosh x}"), (r"\operatorname{csch} x", r"\frac{1}{\sinh x}"),
        (r"\cot x", r"\frac{1}{\tan x}"), (r"\csc x", r"\frac{1}{\sin x}"), (r"\sec x", r"\frac{1}{\cos x}"),
        (r"\operatorname{arsinh} 1", r"\ln(1+\sqrt2)"), (r"\operatorname{arcosh} 2", r"\ln(2+\sqrt3)"),
        (r"\operatorname{artanh} \frac12", r"\frac{\ln 3}{2}"), (r"\arccos 0", r"\frac{\pi}{2}"),
        (r"\operatorname{arccot} 1", r"\frac{\pi}{4}"), (r"\operatorname{arcsec} 2", r"\frac{\pi}{3}"),
        (r"\operatorname{arccsc} 2", r"\frac{\pi}{6}"), ("arccos(1/2)", "pi/3"), ("acos(0)", r"\pi/2"),
        ("tg x", r"\tan x"), ("ctg x", r"\cot x"), ("cbrt(8)", "2"), ("abs(-3)", "3"), (r"\lg 1000", "3"),
        (r"\gcd(12,18)", "6"), (r"\operatorname{lcm}(4,6)", "12"), (r"\max(2,7,3)", "7"), (r"\min(2,7,3)", "2"),
        (r"\Gamma(5)", "24"), (r"\zeta(4)", r"\frac{\pi^4}{90}"), (r"\exp(1)", "e"), (r"17 \bmod 5", "2"), (r"5 \bmod 1", "0"),
        (r"\operatorname{cis}\frac{\pi}{2}", "i"), ("ceil(2.1)", "3"), ("floor(2.9)", "2"),
    ],
)  # fmt: skip
def test_functions(a, b):
    assert grade(a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x ≤ 3", r"x \le 3"), ("x ⩽ 3", r"x \leqslant 3"), ("x ≥ 3", r"x \ge 3"), ("x ≠ 3", r"x \ne 3"), ("3 × 4", "12"),
        ("3 · 4", "12"), ("3 ⋅ 4", "12"), ("6 ÷ 3", "2"), ("6 ∕ 3", "2"), ("∞", r"\infty"), ("2π", r"2\pi"), ("±3", r"\pm 3"),
        ("(0,1) ∪ (2,3)", r"(0,1)\cup(2,3)"), ("∅", r"\emptyset"), ("x ∈ [0,1]", "[0,1]"), ("90°", r"90^\circ"), ("ℝ", r"\mathbb{R}"),
        ("ℤ", r"\mathbb{Z}"), ("⌊2.5⌋", "2"), ("⌈2.5⌉", "3"), ("⟨1,2⟩", r"\langle 1,2\rangle"), ("√9", "3"), ("∛8", "2"), ("∜16", "2"),
        ("x²", "x^2"), ("x⁻¹", "1/x"), ("x₁", "x_1"), ("½", "0.5"), ("¾", "3/4"), ("５", "5"), ("−4", "-4"), ("–4", "-4"), ("1，2", "1,2"),
        ("α", r"\alpha"), ("β", r"\beta"), ("γ", r"\gamma"), ("θ", r"\theta"), ("λ", r"\lambda"), ("μ", r"\mu"), ("φ", r"\varphi"),
        ("ω", r"\omega"), ("Δ", r"\Delta"), ("Σ", r"\Sigma"), ("Ω", r"\Omega"), ("ε", r"\varepsilon"), ("σ", r"\sigma"), ("ρ", r"\rho"),
        ("25℃", "25°C"), ("x ≈ 3", r"x \approx 3"), ("1∶2", "1:2"), ("A∩B", r"A\cap B"), ("p∧q", r"p\land q"), ("p∨q", r"p\lor q"),
    ],
)  # fmt: skip
def test_symbols(a, b):
    assert grade(a, b)


def test_units_that_are_part_of_the_value():
    distinct = Rules(units="distinct")
    assert canonical("5 cm", units=distinct.units) == canonical("5 centimeters", units=distinct.units)
    assert canonical("5 cm", units=distinct.units) != canonical("5", units=distinct.units)
    assert "#unit=cm" in canonical("5 cm", units="distinct").value
