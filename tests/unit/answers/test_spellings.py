"""Every entry of the tables, written down a second time: units, number words, months, functions, symbols."""

from rows import each

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


@each("row", UNIT_ROWS)
def test_spellings_of_a_unit(row):
    for other in row[1:]:
        assert grade(f"7 {row[0]}", f"7 {other}"), other


def test_units_are_told_apart():
    keys = [canonical(f"7 {row[0]}") for row in UNIT_ROWS]
    assert all(key is not None and key.value == "7" and key.tag.startswith("unit=") for key in keys)
    assert len(set(keys)) == len(keys)


@each("unit", ["N", "J", "W", "V", "A", "Pa", "Hz", "eV", "F", "T"])
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


def test_months():
    for n, month in enumerate(MONTHS.split(), 1):
        assert grade(f"{month} 7, 2024", f"2024-{n:02}-07"), month
        assert grade(f"7 {month[:3]} 2024", f"2024-{n:02}-07"), month
        assert grade(f"{month} 2024", f"{month[:3]}. 2024"), month
        assert not grade(f"{month} 2024", f"2024-{n:02}-01")
    assert grade("Sept. 3", "the 3rd of September")
    assert not grade("2024-13-01", "2024-12-01")
    assert canonical("March 32").kind != "exact"


def test_units_that_are_part_of_the_value():
    distinct = Rules(units="distinct")
    assert canonical("5 cm", units=distinct.units) == canonical("5 centimeters", units=distinct.units)
    assert canonical("5 cm", units=distinct.units) != canonical("5", units=distinct.units)
    assert "#unit=cm" in canonical("5 cm", units="distinct").value


MORE_UNITS = """
centimetre centimetres centimeter cms cm; millimetre millimetres millimeter mm; kilometre kilometres kilometer kms km
nanometre nanometres nanometer nanometers; yard yds; second secs; week wks; year yr; kilogram kgs ; liter litres L; ml millilitre
millilitre millilitres mL; ampere amp; ohm Omega; kilonewton kilonewtons kN; kilopascal kilopascals kPa
millivolt millivolts mV; milliamp milliamps mA; coulomb coulombs; kWh; keV; MeV; GeV; electronvolt electronvolts eV
mph; kmh kph; megabyte megabytes MB; gigabyte gigabytes GB; kilobyte kilobytes KB; rpm; bpm; atm; psi; hectare ha
celsius Celsius centigrade; fahrenheit Fahrenheit; kelvin kelvins; yen; gbp; kilocalorie kilocalories kcal
"""


@each("row", [r.split() for r in MORE_UNITS.strip().replace("\n", ";").split(";")])
def test_more_spellings_of_a_unit(row):
    first = canonical(f"7 {row[0]}")
    assert (first.kind, first.value, first.tag[:5]) == ("exact", "7", "unit=")
    for other in row[1:]:
        assert canonical(f"7 {other}") == first, other


def test_scale_words():
    for word, scale in {
        "hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 10**9, "trillion": 10**12, "dozen": 12,
    }.items():  # fmt: skip
        assert canonical(f"3 {word}") == canonical(str(3 * scale))
        assert canonical(rf"3 \text{{ {word}}}") == canonical(str(3 * scale))
        assert canonical(f"3 {word} meters").value == str(3 * scale)
        assert canonical(f"3.5 {word.title()}").value == str(35 * scale // 10)


@each(
    "word",
    str.split("""more less than of to from times over under plus minus by divided per if when only not no or and the a an is are was
    below above between but with without for in on at as it negative positive factorial squared cubed mod base modulo
    equals equal choose st nd rd th remainder r repeating approximately about which where each then since because third
    thirds fourth fourths fifth fifths half halves"""),
)
def test_words_after_a_number_that_were_not_counted(word):
    for text in (f"12 {word}", f"12 {word} apples"):
        key = canonical(text)
        assert not key.tag.startswith("unit=") or key.tag == "unit=in", text


@each("letter", ["m", "s", "g", "h", "N", "J", "W", "V", "K", "L", "T"])
def test_a_letter_is_a_unit_behind_a_blank_only(letter):
    assert canonical(f"7 {letter}").value == "7"
    assert canonical(f"7{letter}").kind == "fingerprint"
    assert canonical(rf"7\,\mathrm{{{letter}}}").value == "7"


@each("product", ["nm", "ms", "nN", "pA", "nW", "pV", "GV"])
def test_two_letters_behind_a_number_are_a_product(product):
    a, b = product
    assert canonical(f"7{product}") == canonical(f"7{b}{a}") or canonical(f"7{product}").tag.startswith("unit=")


@each("word", str.split("sin cos tan cot sec csc arcsin arccos arctan sqrt log exp ln"))
def test_function_joined_to_its_letter(word):
    assert (
        canonical(f"{word}x + 1") == canonical(rf"\{word} x + 1") if word != "sqrt" else grade("sqrtx+1", "sqrt(x)+1")
    )
    assert canonical(f"{word}x+1").kind == "fingerprint"


GREEK = """alpha beta gamma delta epsilon eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega Delta
Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar"""


@each("name", GREEK.split())
def test_greek_letters(name):
    assert canonical(rf"\{name}+\{name}") == canonical(rf"2\{name}")
    assert canonical(rf"2\{name}").kind == "fingerprint"


def test_greek_letters_are_told_apart():
    names = GREEK.split()
    assert len({canonical(rf"3\{name}+1") for name in names}) == len(names)


@each("accent", str.split("bar hat vec tilde ddot overrightarrow widehat widetilde check dot overline"))
def test_accents_are_part_of_a_name(accent):
    key = canonical(rf"2\{accent}{{x}} + 1")
    assert key.kind == "fingerprint"
    assert key == canonical(rf"1 + \{accent} x + \{accent}{{x}}")
    assert key != canonical("2x+1")


@each("name", ["pmatrix", "bmatrix", "matrix", "Bmatrix", "smallmatrix", "vmatrix", "Vmatrix"])
def test_matrices(name):
    body = r"\begin{%s}1&2\\x&\frac12\end{%s}"
    key = canonical(body % (name, name))
    assert key.value.startswith("det[" if name in {"vmatrix", "Vmatrix"} else "matrix[1,2/")
    assert canonical("2" + body % (name, name)).value.startswith(
        "det[" if name in {"vmatrix", "Vmatrix"} else "matrix[2,4/"
    )
    assert canonical("-" + body % (name, name)).kind == "structured"
    assert key == canonical((body % (name, name)).replace("0.5", r"\frac12"))
