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


@each(
    ("words", "number"),
    [
        ("one hundred", 100), ("nine hundred and ninety-nine", 999), ("two thousand", 2_000),
        ("two thousand and one", 2_001), ("five million two thousand three hundred", 5_002_300),
        ("one billion", 10**9), ("one trillion", 10**12), ("twelve thousand three hundred forty-five", 12_345),
    ],
)  # fmt: skip
def test_large_number_words(words, number):
    assert grade(words, str(number))


@each(
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


@each(
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


@each(
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


@each(
    ("text", "tag"),
    [
        ("7 m", "m"), ("7 centimetres", "cm"), ("7 nanometers", "nm"), ("7 in", "in"), ("7 g", "g"), ("7 ha", "hectare"),
        ("$7", "usd"), ("€7", "eur"), ("£7", "gbp"), ("¥7", "yen"), ("7 €", "eur"), ("US$7", "usd"), ("USD 7", "usd"),
        ("EUR 7", "eur"), ("7 yen", "yen"), ("7 cents", "cent"), ("7¢", "cent"), ("7%", "%"), (r"7\%", "%"), ("7 pct", "%"),
        (r"\$7", "usd"), ("$7 million", "usd"), ("7 million dollars", "usd"), ("$7 per hour", "usd /h"), ("-$7", "usd"),
        ("7 square meters", "m^2"), ("7 sq ft", "ft^2"), ("7 sq. ft", "ft^2"), ("7 cubic meters", "m^3"), ("7 cu ft", "ft^3"),
        ("7 m^2", "m^2"), (r"7\text{ m}^2", "m^2"), (r"7\text{ cm}^{3}", "cm^3"), ("7 meters squared", "m^2"),
        ("7 meters cubed", "m^3"), ("7 m/s", "m /s"), ("7 meters per second", "m /s"), ("7 m/s^2", "m /s^2"),
        (r"7 \text{ m s}^{-1}", "m /s"), (r"7\text{ m}\text{ s}^{-2}", "m /s^2"), ("7 miles per hour", "mph"),
        ("7 mi/h", "mph"), ("7 km/h", "kmh"), ("7 km per hour", "kmh"), ("7 kph", "kmh"), ("7 degrees Celsius", "degC"),
        ("7 degrees Fahrenheit", "degF"), ("7°C", "degC"), ("7°F", "degF"), (r"7^\circ\text{C}", "degC"), ("7 degrees C", "degC"),
        ("7 degrees F", "degF"), ("7 degrees fahrenheit", "degF"), ("7 degrees celsius", "degC"), (r"7^\circ", "deg"),
        ("7 apples", "apple"), ("7 red apples", "red apple"), ("7 Apples", "apple"), ("7 bus", "bus"), ("7 boxes", "boxe"),
        ("7 glass", "glass"), ("7 km", "km"), ("7 am", "am"), ("7 PM", "pm"), ("7 AM", "am"), ("7 p.m.", "pm"),
    ],
)  # fmt: skip
def test_name_of_a_unit(text, tag):
    key = canonical(text)
    assert key.kind == "exact"
    assert key.value in {"7", "-7", "7000000"}
    assert key.tag == f"unit={tag}"


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


@each(
    ("a", "b"),
    [("varepsilon", "epsilon"), ("varphi", "phi"), ("vartheta", "theta"), ("varrho", "rho"), ("varsigma", "sigma")],
)
def test_variants_of_greek_letters(a, b):
    assert canonical(rf"3\{a}+1") == canonical(rf"3\{b}+1")


@each(
    ("a", "b"),
    [
        ("3 × 4", "12"), ("3 ∙ 4", "12"), ("3 • 4", "12"), ("3 ∗ 4", "12"), ("6 ⁄ 3", "2"), ("𝜋+1", r"\pi+1"),
        ("x ≦ 3", r"x \le 3"), ("x ≧ 3", r"x \ge 3"), ("x ⩾ 3", r"x \ge 3"), ("⌀", r"\emptyset"), ("∓3", r"\mp 3"),
        (r"ℝ∖\{1\}", r"\mathbb{R}\setminus\{1\}"), ("90º", r"90^\circ"), ("90˚", r"90^\circ"), ("77℉", r"77^\circ F"),
        ("f′(x)", "f'(x)"), ("f″(x)", "f''(x)"), ("f’(x)", "f'(x)"), ("f‘(x)", "f'(x)"), ("〈1,2〉", r"\langle 1,2\rangle"),
        ("ℕ", r"\mathbb{N}"), ("ℚ", r"\mathbb{Q}"), ("ℂ", r"\mathbb{C}"), ("1,2,…", r"1,2,\ldots"), ("1,2,⋯", r"1,2,\cdots"),
        ("∠A = 30", r"\angle A = 30"), ("△ABC", r"\triangle ABC"), ("∣x∣", "|x|"), ("a≡b", r"a\equiv b"), ("50％", "50%"),
        ("1、2", "1,2"), ("5。", "5"), ("(1；2)", "(1;2)"), ("1：2", "1:2"), ("＄5", "$5"), ("￥5", "¥5"), ("p⇔q", r"p\iff q"),
        ("‐4", "-4"), ("‑4", "-4"), ("‒4", "-4"), ("—4", "-4"), ("―4", "-4"), ("﹣4", "-4"), ("－4", "-4"), ("➖4", "-4"),
        ("＋4", "4"), ("1＋1", "2"),
    ],
)  # fmt: skip
def test_more_symbols(a, b):
    assert grade(a, b)


@each(
    ("symbol", "name"),
    [
        ("α", "alpha"), ("β", "beta"), ("γ", "gamma"), ("δ", "delta"), ("ε", "epsilon"), ("ϵ", "epsilon"), ("ζ", "zeta"),
        ("η", "eta"), ("θ", "theta"), ("ϑ", "theta"), ("ι", "iota"), ("κ", "kappa"), ("λ", "lambda"), ("μ", "mu"), ("µ", "mu"),
        ("ν", "nu"), ("ξ", "xi"), ("ρ", "rho"), ("σ", "sigma"), ("τ", "tau"), ("υ", "upsilon"), ("φ", "phi"), ("ϕ", "phi"),
        ("χ", "chi"), ("ψ", "psi"), ("ω", "omega"), ("Γ", "Gamma"), ("Δ", "Delta"), ("Θ", "Theta"), ("Λ", "Lambda"), ("Ξ", "Xi"),
        ("Π", "Pi"), ("Σ", "Sigma"), ("Φ", "Phi"), ("Ψ", "Psi"), ("Ω", "Omega"), ("ℓ", "ell"), ("ℏ", "hbar"),
    ],
)  # fmt: skip
def test_greek_symbols(symbol, name):
    assert canonical(f"3{symbol}+1") == canonical(rf"3\{name} +1")


@each(
    ("a", "b"),
    [
        (r"3\cdot 4", "12"), (r"3\times 4", "12"), (r"3\ast 4", "12"), (r"3\bullet 4", "12"), (r"6\div 3", "2"),
        (r"x\le 3", "x<=3"), (r"x\leq 3", "x<=3"), (r"x\leqslant 3", "x<=3"), (r"x\leqq 3", "x<=3"), (r"x\ge 3", "x>=3"),
        (r"x\geq 3", "x>=3"), (r"x\geqslant 3", "x>=3"), (r"x\geqq 3", "x>=3"), (r"x\ne 3", "x!=3"), (r"x\neq 3", "x!=3"),
        (r"x\lt 3", "x<3"), (r"x\gt 3", "x>3"), (r"x\approx 3", "x=3"), (r"x\simeq 3", "x=3"), (r"x\doteq 3", "x=3"),
        (r"x\thickapprox 3", "x=3"), (r"x\in[0,1]", "0<=x<=1"), (r"[0,1]\cup[1,2]", "[0,2]"),
        (r"\mathbb{R}\setminus\{1\}", r"x\ne 1"), (r"\mathbb{R}\backslash\{1\}", r"x\ne 1"), (r"1\colon 2", "1:2"),
        (r"(0,\infty)", "x>0"), (r"1,2,\ldots", "1,2,..."), (r"1,2,\dots", "1,2,..."), (r"1,2,\cdots", "1,2,..."),
        (r"1,2,\dotsc", "1,2,..."), (r"f\prime(x)", "f'(x)"), (r"\vert -3\vert", "3"), (r"\lvert -3\rvert", "3"),
        (r"\{x\mid x>2\}", "x>2"), (r"x>1\land x<2", "1<x<2"), (r"x>1\wedge x<2", "1<x<2"), (r"x<1\lor x>2", "x<1 or x>2"),
        (r"x<1\vee x>2", "x<1 or x>2"), (r"\emptyset", r"\{\}"), (r"\varnothing", r"\{\}"), (r"\pm 3", "3, -3"), (r"\mp 3", "3, -3"),
        (r"90\degree", "90°"), (r"90\textdegree", "90°"), (r"\lfloor 2.5\rfloor", "2"), (r"\lceil 2.5\rceil", "3"),
        (r"\langle 1,2\rangle", "<1,2>"), (r"\lbrace 1,2\rbrace", r"\{1,2\}"), (r"\lbrack 1,2\rbrack", "[1,2]"),
        (r"\lparen 1,2\rparen", "(1,2)"), (r"17\bmod 5", "2"), (r"17 \mod 5", "2"),
        (r"\frac12", "0.5"), (r"\dfrac12", "0.5"), (r"\tfrac12", "0.5"), (r"\cfrac12", "0.5"), (r"\binom52", "10"),
        (r"\dbinom52", "10"), (r"\tbinom52", "10"), (r"{5\choose 2}", "10"), (r"5\choose 2", "10"), (r"0.\overline{3}", "1/3"),
        (r"0.\dot{3}", "1/3"), (r"0.\dot3", "1/3"), (r"0.\bar{3}", "1/3"), (r"0.\dot12\dot3", "41/333"), (r"0.(3)", "1/3"),
        (r"1.2\overline{34}", "611/495"), (r"\pounds 5", "£5"), (r"\euro 5", "€5"), (r"\textdollar 5", "$5"), (r"5\cent", "5 cents"),
        (r"5\percent", "5%"), (r"5\textpercent", "5%"), (r"\lcm(4,6)", "12"), (r"p\iff q", r"p\Leftrightarrow q"),
        ("x == 3", "x = 3"), ("x := 3", "x = 3"), ("2**5", "32"), ("+/-3", r"\pm 3"), ("infinity", "inf"), ("Infinity", r"\infty"),
        ("pi+1", r"\pi+1"), ("1{,}234", "1234"), (r"1\,234", "1234"), ("1 234 567", "1234567"), (r"1\;234", "1234"), ("1~234", "1234"),
        (r"12\ 345.5", "12345.5"), ("1,234", "1234"), ("12,345,678.5", "12345678.5"), (r"1,\!234", "1234"), ("1e3", "1000"), ("2.5e-1", "1/4"),
        (".5", "1/2"), ("asin(1)", r"\pi/2"), ("atan(1)", r"\pi/4"), ("arcsinh(1)", r"\operatorname{arsinh} 1"), ("acosh(2)", "arcosh(2)"),
        ("arccosh(2)", "arcosh(2)"), ("arctanh(0.5)", "artanh(0.5)"), ("asinh(1)", "arsinh(1)"), ("atanh(0.5)", "artanh(0.5)"),
        ("cosec(1)", r"\csc 1"), ("arctg(1)", r"\pi/4"), ("cotan(1)", r"\cot 1"), ("ceiling(2.1)", "3"), ("root(9)", "3"),
    ],
)  # fmt: skip
def test_commands(a, b):
    assert grade(a, b)


@each(
    "command",
    str.split("""left( right) bigl( bigr) Bigl( Bigr) biggl( biggr) Biggl( Biggr) big( Big( bigg( Bigg( middle| displaystyle textstyle
    scriptstyle limits nolimits quad qquad enspace thinspace medspace thickspace negthinspace hfill nonumber notag rm bf it
    sf tt small large Large normalsize allowbreak nobreak mathstrut strut"""),
)
def test_commands_that_say_nothing(command):
    name = command.rstrip("()|")
    assert canonical(rf"(1+\{name} x)^2 + 3") == canonical("(1+x)^2+3")


@each("command", str.split("text textbf textit textrm textsf texttt textnormal mbox hbox emph textup textsc"))
def test_text_commands(command):
    assert canonical(rf"7 \{command}{{ apples}} ") == canonical("7 apples")
    assert canonical(rf"x = 1 \{command}{{ or }} x = 2") == canonical("x = 1 or x = 2")


@each(
    "command",
    str.split("mathrm mathbf mathit mathsf mathtt mathnormal boldsymbol bm operatorname operatorname* mathcal pmb"),
)
def test_fonts(command):
    assert canonical(rf"\{command}{{x}}+1") == canonical("x+1")
    assert canonical(rf"1+\{command}{{x+1}}") == canonical("x+2")


@each("accent", str.split("bar hat vec tilde ddot overrightarrow widehat widetilde check dot overline"))
def test_accents_are_part_of_a_name(accent):
    key = canonical(rf"2\{accent}{{x}} + 1")
    assert key.kind == "fingerprint"
    assert key == canonical(rf"1 + \{accent} x + \{accent}{{x}}")
    assert key != canonical("2x+1")


@each("left", ["boxed", "fbox", "framebox", "text", "textbf", "textit", "mbox", "mathrm", "boldsymbol", "emph", "tag"])
def test_what_is_peeled(left):
    assert canonical(rf"\{left}{{x+\frac12}}") == canonical(r"x+\frac12")


@each(
    "dress",
    ["$$%s$$", "$%s$", r"\(%s\)", r"\[%s\]", "**%s**", "__%s__", "`%s`", "*%s*", '"%s"', "“%s”", r"\,%s", r"\;%s", r"\!%s", r"\:%s",
     r"\ %s", r"%s\,", r"%s\;", r"%s\!", r"%s\:", r"\displaystyle %s", r"\textstyle %s", r"\large %s", r"\Large %s", r"\bf %s",
     r"\rm %s", "%s.", "%s,", "%s;", "%s:", "{%s}", "~%s", "%s~", "\u3000%s", r"%s\text{ }"],
)  # fmt: skip
def test_dress_of_the_whole(dress):
    assert canonical(dress % "Lima Peru") == canonical("lima peru")
    assert canonical(dress % r"\frac{x}{3}") == canonical(r"\frac{x}{3}")


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


def test_arrays():
    assert grade(r"\left(\begin{array}{cc}1&2\\3&4\end{array}\right)", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}")
    assert grade(r"\begin{array}{c|c}1&2\\3&4\\\end{array}", r"\begin{bmatrix}1&2\\3&4\end{bmatrix}")
    assert not grade(r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\4&3\end{pmatrix}")


@each("name", ["cases", "aligned", "align", "align*", "gathered", "gather*"])
def test_rows(name):
    assert grade(rf"\begin{{{name}}}x=1,\\ y=2\end{{{name}}}", "x=1, y=2")
    assert grade(rf"\begin{{{name}}}x&=1\\ y&=2\end{{{name}}}", "y=2, x=1")


@each("word", ["if", "for", "when", "where", "If"])
def test_cases_of_a_function(word):
    spelled = rf"\begin{{cases}}x & \text{{{word} }} x>0\\ -x, & x<0\end{{cases}}"
    key = canonical(spelled)
    assert key.kind == "structured"
    assert key == canonical(r"\begin{cases}-x & x<0\\ x & x>0\end{cases}")


@each(
    ("word", "base"),
    {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
     "twelve": 12, "sixteen": 16}.items(),
)  # fmt: skip
def test_bases(word, base):
    for text in (
        f"101 base {word}",
        f"101_{{{base}}}",
        rf"101_{{\text{{{word}}}}}",
        rf"101\text{{ base {base}}}",
        f"(101)_{{{base}}}",
    ):
        key = canonical(text)
        assert (key.kind, key.value, key.tag) == ("exact", "101", f"unit=base {base}"), text


@each(
    ("text", "value"),
    [
        ("2 years 3 months", "2 year 3 month"), ("3 months 2 weeks", "3 month 2 week"), ("2 weeks, 3 days", "2 week 3 day"),
        ("2 days and 5 hours", "2 day 5 h"), ("2 hours 30 minutes", "2 h 30 min"), ("2 min 3 s", "2 min 3 s"), ("1 s 5 ms", "1 s 5 ms"),
        ("1 mile 3 yards", "1 mi 3 yd"), ("2 yards 1 foot", "2 yd 1 ft"), ("5 feet, and 3 inches", "5 ft 3 in"), ("2 lb 3 oz", "2 lb 3 oz"),
        ("1 km 200 m", "1 km 200 m"), ("3 m 5 cm", "3 m 5 cm"), ("3 cm 5 mm", "3 cm 5 mm"), ("2 kg 5 g", "2 kg 5 g"), ("2 g 5 mg", "2 g 5 mg"),
        ("1 day 2 hours 3 minutes 4 seconds", "1 day 2 h 3 min 4 s"), ("1.5 hours 2 minutes", "3/2 h 2 min"),
    ],
)  # fmt: skip
def test_durations(text, value):
    assert (canonical(text).kind, canonical(text).value) == ("structured", value)


@each("text", ["3 inches 5 feet", "2 hours 3 hours", "2 hours 3 feet", "2 lb 3 g", "1 day 2 hours 3 min 4 s 5 ms"])
def test_no_durations(text):
    assert " " not in canonical(text).value[2:].strip() or canonical(text).kind != "structured"


@each(
    ("text", "value"),
    [
        ("March 15, 2024", "d:2024-3-15"), ("March the 15th, 2024", "d:2024-3-15"), ("15th of March 2024", "d:2024-3-15"),
        ("the 1st of May", "d:-5-1"), ("May 2nd", "d:-5-2"), ("3rd June 1999", "d:1999-6-3"), ("3/15/2024", "d:3/15/2024"),
        ("03/05/2024", "d:3/5/2024"), ("2024-03-15", "d:2024-3-15"), ("March 2024", "d:month 2024-3-1"), ("Mar. 2024", "d:month 2024-3-1"),
        ("Dec 31", "d:-12-31"), ("Jan 1", "d:-1-1"),
    ],
)  # fmt: skip
def test_dates_and_ordinals(text, value):
    assert (canonical(text).kind, canonical(text).value) == ("text", value)


@each(
    "text",
    [
        "March 0",
        "March 32",
        "2024-00-10",
        "2024-13-10",
        "Foo 3, 2024",
        "3 Foo 2024",
        "Foo 2024",
        "the 3rd of Foo",
        "Foo 3",
    ],
)
def test_no_dates(text):
    assert not canonical(text).value.startswith("d:")


@each(
    ("a", "b"),
    [
        (r"\sin^{-1}\frac12", r"\arcsin\frac12"), (r"\cos^{-1}\frac12", r"\arccos\frac12"), (r"\tan^{-1} 2", r"\arctan 2"),
        (r"\cot^{-1} 2", r"\operatorname{arccot} 2"), (r"\sec^{-1} 2", r"\operatorname{arcsec} 2"),
        (r"\csc^{-1} 2", r"\operatorname{arccsc} 2"), (r"\sin^2 x", r"(\sin x)^2"), (r"\log_2 8", "3"), (r"\log 100", "2"),
        (r"\log_{10} x", r"\lg x"), (r"\sqrt[3]{8}", "2"), ("sqrt(16)", "4"), ("7!!", "105"), ("5!", "120"), ("x!", r"\Gamma(x+1)"),
        ("C(5,2)", "10"), ("C_5^2", "10"), ("C^2_5", "10"), (r"\sin 30^\circ", "1/2"),
        (r"1\frac12", "3/2"), ("1 1/2", "3/2"), (r"1{\frac{1}{2}}", "3/2"), (r"2\frac{3}{2}", "3"), ("|-3|", "3"), ("||-3|-5|", "2"),
        (r"\left|\frac{-1}{2}\right|", "1/2"), ("[2+1]", "[3]"), ("(1)(2)(3)", "6"), ("{2}^{3}", "8"), ("2^-1", "1/2"), ("2^{+1}", "2"),
        ("2^{3!}", "64"), ("--3", "3"), ("1 - -3", "4"), ("i^2", "-1"), ("e^{i\\pi}", "-1"), ("0x1F", "1F_{16}"), ("0b101", "101_2"), ("3:4", "6:8"), ("1:2:3", "2:4:6"), ("3:45 pm", "3:45 PM"), ("03:45", "3:45"),
        (r"\mathbb{R}^+", "x>0"), (r"\mathbb{R}^{+}", "(0,\\infty)"), (r"\mathbb{R}_+", "x>0"), (r"\mathbb{R}_{+}", "x>0"),
        (r"\mathbb{R}", r"(-\infty,\infty)"), ("all real numbers", r"\mathbb{R}"), ("all reals", r"\mathbb{R}"), ("real numbers", r"\mathbb{R}"),
        ("the set of all real numbers", r"\mathbb{R}"), ("all real values", r"\mathbb{R}"), ("empty set", r"\emptyset"),
        ("the empty set", r"\emptyset"), ("null set", r"\emptyset"), ("Option C", "C"), ("Choice (D)", "D"), ("answer B", "B"),
        (r"x = \pi k, k \in \mathbb{Z}", r"\pi k"), (r"\pi n, \text{where } n \in \mathbb Z", r"\pi n"), (r"\pi m \quad m\in\mathbf{Z}", r"\pi m"),
    ],
)  # fmt: skip
def test_spellings(a, b):
    assert grade(a, b)


@each("name", list("fghFGHJYK"))
def test_calls_are_no_products(name):
    assert not grade(f"{name}(2)", f"2{name}")
    assert not grade(f"{name}(x)", f"{name}x")
    assert grade(f"{name}(x)+{name}(x)", f"2{name}(x)")


@each("name", ["a", "x", "y", "k"])
def test_products_are_no_calls(name):
    assert grade(f"{name}(3)", f"3{name}")


@each(
    "named",
    [r"x", r"x_1", r"x_{12}", r"f(x)", r"f'(x)", r"f^{-1}(x)", "AB", r"\angle ABC", r"\triangle ABC", r"\overline{AB}", "|AB|", "[ABC]",
     r"\overrightarrow{AB}", r"\vec{a}", r"\hat{p}", r"\bar{x}", "P(X>2)", "P(X<2)", r"P(X\le 2)", r"P(X\ge 2)", "P(X=2)", "P(A|B)", "P(A,B)",
     r"\frac{dy}{dx}", "dy/dx", r"\frac{a}{b}", r"\frac{AB}{CD}", r"\text{Area}", "area", r"\frac{d^2y}{dx^2}", "m", "f(x,y)", "F''(x)"],
)  # fmt: skip
def test_names_of_values(named):
    key = canonical(f"{named} = 37")
    assert (key.kind, key.value, key.tag[:5]) == ("exact", "37", "name=")
    assert grade(f"{named} = 37", "37")


def test_budgets_at_their_limits():
    at = {
        "factorial": ("2100!", "2101!"), "binomial": (r"\binom{5000}{2}", r"\binom{5001}{2}"),
        "items": (";".join(["7"] * 500), ";".join(["7"] * 501)),
        "cells": (r"\begin{pmatrix}" + r"\\".join(["&".join("1" * 20)] * 20) + r"\end{pmatrix}",
                  r"\begin{pmatrix}" + r"\\".join(["&".join("1" * 20)] * 20 + ["&".join("1" * 20)]) + r"\end{pmatrix}"),
        "signs": (r"\pm1\pm2\pm4\pm8", r"\pm1\pm2\pm4\pm8\pm16"), "power": ("2^{20399}", "2^{20400}"), "angle": (r"\sin(10^{12})", r"\sin(10^{12}+1)"),
        "log": (r"\cosh(2000)", r"\cosh(2001)"), "zeta": (r"\zeta(60)", r"\zeta(61)"), "exponent": ("1e4000", "1e4001"), "bars": ("||x||", "|||x|||"),
        "postfix": ("3!!!!", "3!!!!!!!!!!"),
        "minus": ("1---3", "1-----3"),
    }  # fmt: skip
    for name, (below, above) in at.items():
        assert canonical(below).kind != "opaque", name
        assert canonical(above).kind == "opaque", name


@each(
    ("text", "value", "tag"),
    [
        ("x>2", "(2;oo)", "name=x"), ("x>=2", "[2;oo)", "name=x"), ("x<2", "(-oo;2)", "name=x"), ("x<=2", "(-oo;2]", "name=x"),
        ("2>x", "(-oo;2)", "name=x"), ("2<=x", "[2;oo)", "name=x"), ("2x+1>5", "(2;oo)", "name=x"), ("1-x>=0", "(-oo;1]", "name=x"),
        ("1<x<2", "(1;2)", "name=x|open"), ("1<=x<2", "[1;2)", "name=x"), ("1<x<=2", "(1;2]", "name=x"), ("1<=x<=2", "[1;2]", "name=x"),
        ("2>x>1", "(1;2)", "name=x|open"), ("x<2<5", None, None), (r"-\infty<x<2", "(-oo;2)", "name=x"), (r"2<x<\infty", "(2;oo)", "name=x"),
        (r"2<x<+\infty", "(2;oo)", "name=x"), ("x!=2", "(-oo;2)u(2;oo)", "name=x"),
        ("|x|<2", "(-2;2)", "name=x|open"), ("|x|<=2", "[-2;2]", "name=x"), ("|x|>2", "(-oo;-2)u(2;oo)", "name=x"), ("2>|x|", "(-2;2)", "name=x|open"),
        ("|x-1|>=2", "(-oo;-1]u[3;oo)", "name=x"), ("x^2<4", "(-2;2)", "name=x|open"), ("x^2>=4", "(-oo;-2]u[2;oo)", "name=x"), ("-x^2>-4", "(-2;2)", "name=x|open"),
        ("x^2>4", "(-oo;-2)u(2;oo)", "name=x"), ("x^2+1>0", "(-oo;oo)", "name=x"), ("x^2+1<0", "{}", "name=x"), ("x^2<=0", "{0}", "name=x"),
        ("x^2>=0", "(-oo;oo)", "name=x"), ("x^2-3x+2<=0", "[1;2]", "name=x"), ("x<1 or x>2", "(-oo;1)u(2;oo)", "name=x"), ("x>1 and x<2", "(1;2)", "name=x|open"),
        ("x>1, x<2", "(1;2)", "name=x|open"), ("x<1, x>2", "(-oo;1)u(2;oo)", "name=x"), (r"x<1 \cup x>2", "(-oo;1)u(2;oo)", "name=x"),
        ("x>1 or x>2", "(1;oo)", "name=x"), ("x>1 and x>2", "(2;oo)", "name=x"), ("[1,2)", "[1;2)", ""), ("(1,2]", "(1;2]", ""), ("]1,2]", "(1;2]", ""),
        ("[1,2[", "[1;2)", ""), (r"(1,\infty)", "(1;oo)", ""), (r"(-\infty,1]", "(-oo;1]", ""), (r"[1,\infty]", "[1;oo)", ""), (r"[-\infty,1]", "(-oo;1]", ""),
        (r"(0,1)\cup(2,3)", "(0;1)u(2;3)", ""), (r"(2,3)\cup(0,1)", "(0;1)u(2;3)", ""), (r"(0,2)\cup(1,3)", "(0;3)", "open"), (r"(0,1]\cup[1,3)", "(0;3)", "open"),
        (r"[0,1)\cup(1,3]", "[0;1)u(1;3]", ""), (r"[0,3]\cup[1,2]", "[0;3]", ""), (r"[0,2]\cup[0,2)", "[0;2]", ""), (r"(0,2]\cup[0,2)", "[0;2]", ""),
        (r"\{1\}\cup\{2\}", "{1;2}", ""), (r"[0,2]\setminus\{1\}", "[0;1)u(1;2]", ""), (r"\mathbb{R}-\{1\}", "(-oo;1)u(1;oo)", ""), (r"x\in(0,1)", "(0;1)", "name=x|open"),
        (r"x\in[0,1]", "[0;1]", "name=x"), (r"\{x|x>1\}", "(1;oo)", ""), (r"\{x:x>1\}", "(1;oo)", ""), (r"\{x\in\mathbb{R}|x>1\}", "(1;oo)", ""),
        (r"\mathbb{R}", "(-oo;oo)", ""), (r"\mathbb{Z}", "set Z", ""), (r"\infty", "oo", ""), (r"+\infty", "oo", ""), (r"-\infty", "-oo", ""), (r"\{\}", "{}", ""),
        (r"\{1,2,2\}", "{1;2}", ""), (r"\{2,1\}", "{1;2}", ""), ("1, 2, 2", "{1;2;2}", ""), ("2 and 1", "{1;2}", ""), ("1; 2", "{1;2}", ""), ("1, 2, and 3", "{1;2;3}", ""),
        ("1, 2, ...", None, None), ("(1,2,3)", "(1;2;3)", ""), ("[1,2,3]", "[1;2;3]", ""), (r"\langle 1,2\rangle", "<1;2>", ""), ("(2,1,3)", "(2;1;3)", ""),
        ("x=1, y=2", "(1;2)", "name=(x,y)"), ("y=2, x=1", "(1;2)", "name=(x,y)"), ("(x,y)=(1,2)", "(1;2)", "name=(x,y)"), ("(y,x)=(2,1)", "(1;2)", "name=(x,y)"),
        ("x=1, x=2", "{1;2}", "name=x"), ("x=1, 2", "{1;2}", "name=x"), ("x=1 or 2", "{1;2}", "name=x"), ("x=y=3", "(3;3)", "name=(x,y)"), ("x^2=4", "{-2;2}", "name=x"),
        ("x^2-3x+2=0", "{1;2}", "name=x"), (r"x=\pm 2", "{-2;2}", "name=x"), (r"\pm 2", "{-2;2}", ""), (r"1\pm 2", "{-1;3}", ""), (r"1, \pm 2", "{-2;1;2}", ""),
        (r"\mp 2, 1", "{-2;1;2}", ""), (r"\pm1\pm2", "{-1;-3;1;3}", ""), (r"\pm1\mp2", "{-1;1}", ""),
        ("3:45", "3:45", ""), ("3:45 pm", "3:45", "unit=pm"), ("3:45 p.m.", "3:45", "unit=pm"), ("03:45 AM", "3:45", "unit=am"), ("1:2:4", "1:2:4", ""),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "matrix[1,2/3,4]", ""), (r"\begin{vmatrix}1&2\\3&4\end{vmatrix}", "det[1,2/3,4]", ""),
        (r"2\begin{pmatrix}1\\3\end{pmatrix}", "matrix[2/6]", ""), (r"\frac12\begin{pmatrix}1&4\end{pmatrix}", "matrix[1/2,2]", ""), (r"2*\begin{pmatrix}1\end{pmatrix}", "matrix[2]", ""),
        ("1F_{16}", "1F", "unit=base 16"), ("1A_{12}", "1A", "unit=base 12"), ("x=1, y=2 or x=3, y=4", "{(1;2)#name=(x,y);(3;4)#name=(x,y)}", ""),
        ("x>0 or y>0", None, None), ("(1,2),(3,4)", "{(1;2);(3;4)}", ""), (r"\{(1,2)\}", "{(1;2)}", ""), ("((1,2),3)", "((1;2);3)", ""),
    ],
)  # fmt: skip
def test_values_of_structures(text, value, tag):
    key = canonical(text)
    if value is None:
        assert key.tag == ""
        assert not grade(text, "2")
    else:
        assert (key.kind, key.value, key.tag) == ("structured", value, tag)


@each(
    ("text", "value", "tag"),
    [
        ("x=5", "5", "name=x"), ("5=x", "5", "name=x"), ("2x=10", "5", "name=x"), ("2x+1=x+6", "5", "name=x"), ("x-5=0", "5", "name=x"), ("3=6/2", "3", ""), ("[3]", "3", "name=[]"), ("5th", "5", "unit=th"), (r"5\text{th}", "5", "unit=th"), (r"21^{\text{st}}", "21", "unit=th"),
        ("x=2+3=5", "5", "name=x"), ("2+3=5", "5", ""), ("=5", "5", ""), (r"x\approx 5", "5", "name=x"), (r"\frac{1}{2}\approx 0.5", "1/2", ""), ("x^2-10x+25=0", "5", "name=x"),
        ("5 or 10/2", "5", ""), ("3:4", "3/4", "unit=ratio"),
        ("101_2", "101", "unit=base 2"), ("-101_2", "-101", "unit=base 2"), ("0011_2", "11", "unit=base 2"), ("101_{36}", "101", "unit=base 36"),
        ("total area = 5", "5", "name=total area"), ("Total Area = 5", "5", "name=total area"), ("P(A|B) = 0.5", "1/2", "name=P(A|B)"),
        ("x_{12} = 5", "5", "name=x_12"), ("f^{-1}(x) = 5", "5", "name=f^-1(x)"), (r"\frac{dy}{dx} = 5", "5", "name=dy/dx"),
        (r"\frac{AB}{CD} = 5", "5", "name=AB/CD"), ("5.50", "11/2", ""), ("0.1(6)", "1/6", ""), ("1e-2", "1/100", ""), ("-0", "0", ""), ("007", "7", ""), ("6/4", "3/2", ""),
        ("6/-4", "-3/2", ""), (r"-\frac{6}{4}", "-3/2", ""), ("2^{10}", "1024", ""), ("(-8)^{1/3}", "-2", ""), ("4^{-1/2}", "1/2", ""), (r"\sqrt{16/9}", "4/3", ""), ("5!!", "15", ""),
        (r"\sqrt[3]{-27}", "-3", ""), (r"\binom{1/2}{2}", "-1/8", ""), ("(1/2)!^2*4/\\pi", "1", ""), ("\\log_4 2", "1/2", ""), (r"\sin\frac{\pi}{6}", "1/2", ""), (r"\tan 45^\circ", "1", ""),
        (r"|3+4i|", "5", ""), (r"\sqrt{2}\sqrt{8}", "4", ""), (r"(\sqrt2)^4", "4", ""), ("e^{\\ln 3}", "3", ""), (r"\max(1,2)+\min(3,4)", "5", ""), (r"\lfloor -2.5\rfloor", "-3", ""),
        (r"\lceil -2.5\rceil", "-2", ""), (r"\lfloor\pi\rfloor", "3", ""), (r"\lceil\pi\rceil", "4", ""), ("17 mod 5 + 1", None, None), ("cbrt 8 + 1", "3", ""), ("-2^2", "-4", ""), ("2^3^2", "512", ""),
        ("1/2/2", "1/4", ""), ("8/2*4", "16", ""), ("2-3-4", "-5", ""), (r"\frac{1}{2}3", "3/2", ""), (r"\frac34 2", "3/2", ""), ("x-x+5", "5", ""), (r"\sin^2 x+\cos^2 x", "1", ""), ("7 sec", "7", "unit=s"),
        (r"7\text{ sec}", "7", "unit=s"), (r"7\text{ min}", "7", "unit=min"), ("7 min", "7", "unit=min"), ("i^4", "1", ""), (r"\Gamma(1/2)^2/\pi", "1", ""), (r"6\zeta(2)/\pi^2", "1", ""), ("abs(-5)", "5", ""),
    ],
)  # fmt: skip
def test_values_of_numbers(text, value, tag):
    key = canonical(text)
    if value is None:
        assert key.value != "2"
    else:
        assert (key.kind, key.value, key.tag) == ("exact", value, tag)


@each(
    "text",
    ["${a*b}", "{{a*b}}", "#{a*b}", "1/0", "0^0", "0^{-1}", r"\ln 0", r"\log_2 0", "x1", "2 3x", r"\frac{d}{dx}", r"AB^{-1}", r"\sqrt[0]{2}", "1,,,,2", "x > i",
     "1---- -3", "(1,2", "1,2)", "17 mod 0", r"17\bmod{-5}", r"\frac1", "2^", "(-1)!", r"\gcd(1.5,2)", r"\max(i,2)", r"\zeta(1)", r"\lfloor i\rfloor", "3=4", "1<2", r"\sin", "|x", r"x\equiv y\pmod 7",
     "10°70'", "10°30'70''", r"\begin{pmatrix}1&2\\3\end{pmatrix}", r"\begin{foo}1\end{foo}", r"\mathbb{X}", r"\foo", "1=2=3", r"\sin_2 3", r"\ln^{-1} x", r"[0,3]\setminus[1,2]"],
)  # fmt: skip
def test_what_is_no_mathematics(text):
    assert canonical(text).kind in {"opaque", "text"}


@each(
    ("a", "b"),
    [
        ("1,2", "(1,2)"), ("(1,2)", "(2,1)"), ("[1,2]", "(1,2)"), (r"\{1,2\}", "(1,2)"), ("x>2", "x>=2"), ("x<2", "x>2"), ("y=2x", "y=3x"), ("AB", "BA"), ("f(2)", "f(3)"), ("x=1, y=2", "x=2, y=1"),
        ("|x|", "x"), ("|x-30|", "x-30"), ("(-1)^n", "1"), ("(-1)^n", "(-1)^m"), (r"\sin x", r"\sin y"), (r"\vec a\times\vec b", r"\vec a\cdot\vec b"), ("1, 2, ...", "2, 1, ..."), ("2 cm", "2 m"), ("NaCl", "NACL"),
        ("AaBb", "aabb"), ("CO", "Co"), ("n", "N"), (r"\lbrace 1,234\rbrace", r"\{1234\}"), (r"\lbrack 1,234\rbrack", "[1234]"), ("x=1, y=2 or x=3, y=4", "x=1, y=4 or x=3, y=2"), ("3:45", "0.066666"), ("x<y", "x>y"),
        (r"\frac{dy}{dx}", r"\frac{y}{x}"), ("101_2", "101_3"), (r"3\pmod 7", r"3\pmod 5"), (r"\begin{pmatrix}1&2\end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"), ("x>0 or y>0", "x>0 and y>0"),
        ("x^2+y^2=1", "x^2+y^2=2"), ("x^2+y^2<1", "x^2+y^2>1"), ("x^2+y^2<1", "x^2+y^2<=1"), ("5!", "5"), ("1e5", "1e6"), ("0.333...", "0.333"), ("C_1^2", "1"), ("e^{10}", "22026.4657948"), ("March 2", "March 3"),
    ],
)  # fmt: skip
def test_what_stays_apart(a, b):
    assert not grade(a, b)
    assert grade(a, a)
    assert grade(b, b)


@each(
    ("a", "b"),
    [
        ("y=2x+1", "2x-y+1=0"), ("y=2x+1", "y-1=2x"), ("x^2+y^2=1", "2x^2+2y^2=2"), ("x^2+y^2=1", "1-x^2-y^2=0"), ("x+y<1", "2x+2y<2"), ("x^2+y^2<1", "1>x^2+y^2"), ("x^2+y^2<1", "-x^2-y^2>-1"), ("z=x+y", "x+y-z=0"),
        ("A = 2x", "2x = A"), (r"\lbrack 1,234\rbrack", "[1,234]"), (r"\lbrace 1,234\rbrace", r"\{1,234\}"), ("x y z", "xyz"), ("2(x+1)", "2x+2"), (r"\sin 2x", r"2\sin x\cos x"), (r"\frac{x^2-1}{x-1}", "x+1"),
        (r"\sqrt{x^2}", "|x|"), (r"\ln x^2", r"\ln(x^2)"), ("max(a,b)", "max(b,a)"), (r"\log_b a", r"\frac{\ln a}{\ln b}"), ("x/2y", "x*y/2"), ("f(x)", "f(x)"), (r"\sin x/2", r"\sin(x/2)"), (r"\cos -x", r"\cos x"),
        ("x<1 or x>2", "x>2 or x<1"), ("x=1, y=2 or x=3, y=4", "x=3, y=4 or x=1, y=2"), (r"\{x_1, x_2\}", r"\{x_2, x_1\}"), ("a_{n+1}", "a_{n+1}"), ("Lima, Peru", "LIMA, PERU"), ("in two", "IN TWO"), ("x = 1 \\quad y = 2", "x=1, y=2"),
        (r"2\,\text{or}\,3", "2, 3"), (r"2\text{ and }3", "3, 2"), ("1, 2,", "1, 2"), (r"[1,2]\text{ }", "[1,2]"), ("12 cm and 5 mm", "12 cm, 5 mm"), (r"\$5", "$5"), ("3.0 cm", "3 cm"), ("1e3 m", "1000 m"), (r"3\%", "3 percent"),
    ],
)  # fmt: skip
def test_what_is_one_answer(a, b):
    assert grade(a, b)
    assert canonical(a) is not None
