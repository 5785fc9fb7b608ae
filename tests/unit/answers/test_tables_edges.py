r"""Where readers end: nesting, brackets and boxes that never close, texts that begin or end with what matters, the values
of functions off the usual path, and words that look like mathematics. Tables, as in test_tables.py."""

from rows import each

from dare_reward.answers import canonical, choice_letter, extract, grade
from dare_reward.answers.cleanup import peel
from dare_reward.answers.extraction.prose_values import unit_after

# how often it may nest and what is too often; what nests, and what stands in the middle
NESTED = {
    (5, 16): [(r"(\begin{pmatrix}%s\end{pmatrix})", "x"), (r"((0,1)\cup %s)", "[2,3]"), (r"x\in \{%s\}", "1")],
    (10, 16): [
        ("(%s,1)", "x"), ("(1,%s)", "x"), ("[%s,1,2]", "x"), ("[%s]", "x"), (r"\{%s,1\}", "x"), (r"\langle %s,1\rangle", "x"),
        (r"\begin{pmatrix}%s&1\end{pmatrix}", "x"), (r"\begin{cases}%s\\y=1\end{cases}", "x=1"), (r"\begin{cases}%s& x>0\\1&x<0\end{cases}", "x"),
        (r"\begin{cases}1& %s\\1&x<0\end{cases}", "x>0"), (r"\begin{aligned}%s\end{aligned}", "x=1"), ("(%s)", "x>1"), ("(x>0, %s)", "x<1"),
    ],
    (4, 36): [(r"\sin^{%s} x", "1")],
    (15, 36): [("1^{1^%s}", "1"), (r"\cos{0}x^{%s}", "1")],
    (25, 36): [
        (r"\frac{%s}{2}", "x"), (r"\frac{1}{%s+2}", "x"), (r"\binom{%s}{1}", "5"), ("1^{%s}", "1"), ("1^-%s", "1"), ("1^+%s", "1"), ("1^{%s!}", "1"),
        ("(|%s|)", "x"), (r"\sqrt{%s}", "x"), (r"\sin -%s", "x"), (r"\log_{%s} x", "2"),
    ],
    (40, 66): [
        ("(%s)", "x"), ("{%s+1}", "x"), ("2[%s+1]", "x"), ("1^%s", "1"), ("(%s)^1", "x"), (r"\lfloor %s\rfloor", "2.5"), (r"\lceil %s\rceil", "2.5"), (r"\sqrt %s", "x"),
        ("sqrt(%s)", "x"), (r"\sqrt[%s]{1}", "1"), ("f(%s)", "x"), ("f(1,%s)", "x"), ("C(%s,1)", "5"), (r"\sin(%s)", "x"), (r"\sin{%s}", "x"), (r"\sin %s", "x"),
        (r"{%s\choose 1}", "5"), (r"{5\choose %s}", "2"), (r"\max(%s,1)", "2"), ("2*(%s)", "x"), ("2/(%s)", "x"), ("(-%s)", "x"), ("x/%s", "x"),
    ],
}  # fmt: skip


@each(("outer", "inner", "fine", "often"), [(*row, *depths) for depths, rows in NESTED.items() for row in rows])
def test_nesting_is_bounded(outer, inner, fine, often):
    """Deep nesting is read; deeper than any answer nests, it is compared as it is written."""
    levels = [inner]
    for _ in range(often):
        levels.append(outer.replace("%s", levels[-1]))
    assert canonical(levels[fine]).kind in {"exact", "structured", "fingerprint"}
    assert canonical(levels[often]).kind in {"opaque", "text"}


@each(
    "text",
    ["(1,2 3", "[0,1 x", r"\{1,2 x", "(1,2", "x_", "x_{1", r"\frac1.5", r"\frac{1}", r"\binom5", r"\sqrt[3", r"\sqrt[3]", "|x", "||x|", "x^", "(x+1", r"\lfloor x", r"\sin(x", "f(x", "f(1,",
     r"\begin{array}{cc 1\end{array}", r"\begin{pmatrix}1", r"1\end{pmatrix}", r"\begin{pmatrix}1\end{bmatrix}", "2x\\in [0,1]", r"x\in", r"\in[0,1]", r"2x\ne 3", r"x\ne", "x<y<\\infty", r"-\infty<x+y<2",
     r"\mathbb{R}^2", r"\mathbb{Z}^+", r"x\equiv 3\equiv 10\pmod 7", r"2x\equiv 3\pmod 7", r"x\equiv 3\pmod 0", r"x\equiv 3\pmod y", "3:-4", "0:4", "x:y", r"\{1,,2\}", r"\{,1\}", "(1,,2)", "(,1)",
     r"\{y|x>1\}", r"\{2x|x>1\}", r"\sin +x", r"\sin(1,2)", r"\operatorname{arccsc} 0", r"\operatorname{artanh} 1", r"10^{30}(1/2)!", r"10^{30}\zeta(3)", r"\sqrt x>2", "x>i", "x^2>i", r"\sqrt x=\sqrt y", r"y^2=\ln(-x)", "x^{20000}>1",  "(mod 7)", r"\sinh^{-1} x", r"\ln_2 8", r"\log_2", r"\sqrt{2,3}", r"\max", r"\gcd()", "3 4", "1.5 1/2", "1.0 1/2", "1 2/2", "2^{6000}\\pi", r"\sqrt2^{6000}", r"(-3)^{2001/2}",
     r"\pi^{20401}", r"\pi+2^{-6000}", "(501.5)!", r"\binom{5}{-1}", "(-1)!!", r"\ln(0)", r"\log_1 2", r"\lfloor\sqrt2+i\rfloor", r"\pi\bmod 3", r"\pi=3=\pi", "x=", "=x=", "x<", "<3", "1<x>", "x!=", "1=x=2"],
)  # fmt: skip
def test_what_no_reader_ends(text):
    assert canonical(text).kind in {"opaque", "text"}
    assert not grade(text, "1")


@each(
    ("a", "b"),
    [
        # arguments of functions
        (r"\sin{x}^2", r"\sin(x^2)"), (r"\sin{2}x", r"\sin 2x"), (r"\sin{x}*2", r"2\sin x"), (r"\sin{x}/y", r"\frac{\sin x}{y}"), (r"\cos{2x}\sin x", r"\sin x\cos(2x)"), (r"\sin{x}(x+1)", r"(x+1)\sin x"),
        (r"\sin x(y+1)", r"(y+1)\sin x"), (r"\sin x|y|", r"|y|\sin x"), (r"\sin 2x/3", r"\sin\frac{2x}{3}"), (r"\sin x\cdot y", r"y\sin x"), (r"\sin x y", r"\sin(xy)"), (r"\sin(x)/2", r"\frac12\sin x"),
        (r"\sin -x", r"-\sin x"), (r"\sin x-y", r"-y+\sin x"), (r"\sin^{-2} x", r"\frac{1}{\sin^2 x}"), (r"\sin^{-1}{x}", r"\arcsin x"), (r"\max\{1,2\}", "2"), (r"\max{1,2}", "2"), (r"\log(8,2)", "3"),
        (r"\log_2 (8)", "3"), (r"\log_2 8 + 1", "4"), (r"\sqrt[3]8", "2"), (r"\sqrt[3]{8}x", "2x"), (r"\sqrt{2}(3)", r"3\sqrt2"), (r"sqrt(2)x", r"x\sqrt 2"), (r"\frac{1}{2}^2", "1/4"), (r"f_1(2)+f_1(2)", "2f_1(2)"),
        ("x'(2)+1", "1+x'(2)"), ("a_1(2)", "2a_1"), ("x(2,3)+1", "1+x(2,3)"), ("f(x)=x(x+1)", "x^2+x"), ("P(x+1)", "xP+P"), ("f (2)", "2f"), (r"{n\choose k}", r"\binom nk"), (r"{5\choose 2}+1", "11"), ("2^{3}!", "64"),
        ("3! !", "720"), ("2^-{x}", "2^{-x}"), ("2^+3", "8"), ("|x||y|", "|xy|"), ("||x|-1|", "|(|x|-1)|"), ("|2|3", "6"), (r"\binom42 3", "18"), ("0 1/2", "1/2"), ("-1 2/3", "-5/3"), ("12 3/4", "51/4"),
        (r"12 \frac{3}{4}", "51/4"), (r"1{\frac{1}{2}}+1", "5/2"), (r"1{\frac{1}{2}x}", "x/2"), (r"2{\frac32}", "3"), (r"1.5\frac12", "3/4"), (r"1\frac02", "0"), ("x_{{a}b}+1", "1+x_{{a}b}"), ("x^2/y/z", r"\frac{x^2}{yz}"),
        ("x/2y", r"\frac{xy}{2}"), ("2^3x", "8x"), ("1/2!", "1/2"), ("5!/3!", "20"), ("5 !", "120"),
        # values off the real line, and near it
        (r"\ln(-\pi)", r"\ln\pi+i\pi"), (r"((-3)^{1/4})^4", "-3"), (r"((-3)^{3/4})^4", "-27"), ("(-4)^{3/2}", "-8i"), ("(-9)^{-1/2}", r"\frac{1}{3i}"), (r"\sqrt{-\pi}", r"i\sqrt\pi"), (r"(\pi+i)+(-\pi+i)", "2i"),
        (r"(1+\pi i)+(1-\pi i)", "2"), (r"(\pi+i)-(\pi+i)", "0"), (r"e^{i\pi/3}+e^{-i\pi/3}", "1"), (r"e^{i\pi/3}-e^{-i\pi/3}", r"i\sqrt3"), (r"\sin i", r"i\sinh 1"), (r"\cos i", r"\cosh 1"), (r"\tan\pi", "0"), (r"i^i", r"e^{-\pi/2}"),
        (r"\sqrt i", r"\frac{1+i}{\sqrt2}"), ("|3-4i|", "5"), (r"|1+i|", r"\sqrt2"), (r"\frac{1}{1+i}", r"\frac{1-i}{2}"), (r"\pi i\cdot\pi i", r"-\pi^2"), (r"(1+i)^{10}", "32i"), (r"\operatorname{cis} 0", "1"), ("0i", "0"), ("3+0i", "3"),
        # roots, powers, factorials that are no integers
        (r"\sqrt[1/2]{3}", "9"), (r"\sqrt[2.5]{32}", "4"), (r"\sqrt[-2]{4}", "1/2"), (r"\sqrt[\pi]{2^\pi}", "2"), (r"\sqrt{\frac{8}{18}}", "2/3"), (r"\sqrt[3]{\frac{-8}{27}}", "-2/3"), ("(4/9)^{-3/2}", "27/8"), ("32^{0.4}", "4"),
        (r"\sqrt[7]{128}", "2"), (r"\sqrt[4]{81}", "3"), (r"\sqrt[3]{9}^3", "9"), (r"\sqrt[10]{1023}^{10}", "1023"), (r"\frac{\pi!}{\pi}", r"\Gamma(\pi)"), (r"(1/2)!", r"\frac{\sqrt\pi}{2}"), (r"\binom{\pi}{2}", r"\frac{\pi(\pi-1)}{2}"),
        (r"\binom{3/2}{1/2}", "3/2"), (r"\binom{x}{2}", r"\frac{x(x-1)}{2}"), (r"\binom x0", "1"), (r"\binom x1", "x"), (r"\binom25", "0"), (r"\binom00", "1"), ("0!", "1"), ("0!!", "1"), ("6!!", "48"), (r"\ln\frac{\pi}{\pi}", "0"), (r"\ln\frac12", r"-\ln2"),
        (r"\log 0.001", "-3"), (r"\log_{1/2} 8", "-3"), (r"\ln e^{50}", "50"), (r"\lceil-\sqrt2\rceil", "-1"), (r"\lfloor-\sqrt2\rfloor", "-2"), (r"\lfloor\sqrt[3]{27}\rfloor", "3"), (r"\sqrt{\pi-\pi}", "0"), (r"e^{\pi-\pi}", "1"), (r"\pi^0", "1"), ("1^{100000}x", "x"),
        # absolute values: of reals, of names of complex numbers
        ("|x|^2", "x^2"), (r"|x-30|", r"\sqrt{(x-30)^2}"), ("|1/x|", "1/|x|"), ("|zw|", "|z||w|"), ("|-x|", "|x|"), ("|x-30|", "|30-x|"), (r"\sqrt{4x^2}", "2|x|"), ("|z|^2", "|z^2|"),
        # spellings of sets, residues, ratios and relations
        ("(1;2)", "(1,2)"), (r"\{1;2\}", r"\{1,2\}"), ("[1;2)", "[1,2)"), ("<1,2>", r"\langle 1,2\rangle"), ("]1,2]", "(1,2]"), ("2:4:6", "1:2:3"), ("1.5:3", "1:2"), (r"\pm 0", "0"),
        (r"1\pm 0", "1"), ("(x>0)", "x>0"), (r"((0,1)\cup(2,3))", r"(0,1)\cup(2,3)"), (r"(5\text{ cm})", "5 cm"), (r"(\text{Lima})", "Lima"), (r"\{x\in\mathbb{R}:x>1\}", "x>1"), (r"(x,y)\in[0,1]", r"(x,y)\in [0,1]"), (r"\begin{array}1&2\\3&4\end{array}", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}"),
        ("x_{{a}b} = 5", "x_{ab} = 5"), (r"(\mathbb{R}\setminus\{1\})", r"x\ne 1"), ("12:30:45:50", "24:60:90:100"),
        ("March~15,~2024", "2024-03-15"), ("New~York", "New York"), (r"x=\text{red~fox}", r"x=\text{red fox}"), ("Route~66", "route 66"), ("5~cm", "5 cm"), (r"5\,\text{cm}", "5 cm"), (r"\binom{-1}{0}", "1"), (r"|\ln(x-30)|", r"|\ln(x-30)|"), (r"(-1)^{2n}", "1"), (r"(-1)^{n+1}", r"-(-1)^n"),
        (r"(17\bmod 5)+1", "3"), (r"\sqrt{17\bmod 8}", "1"), (r"(17\bmod 5)(3\bmod 2)", "2"),  (r"2^{10}\bmod 7=2", "2"), ("|e^x-1|", "|1-e^x|"), ("|x-1|<2", "-1<x<3"), ("e^x=5", "5=e^x"),
        ("x^3=8", "2x^3=16"), ("y^2=x+1", "x=y^2-1"), ("3x=2x+y", "x=y"), ("xy=1", r"y=\frac1x"), ("x+y+z=1", "z=1-x-y"), ("2x+3y=6", r"y=2-\frac{2x}{3}"), ("t=x+1", "x+1"), ("-x>3", "x<-3"), ("3<2x-1<=7", "2<x<=4"), ("2>x>=1", "1<=x<2"), (r"x\le y", r"y\ge x"),
        ("x+y<1", "1>x+y"), ("x+y<1", "-x-y>-1"), ("A=x^2", "x^2"), ("x^2+y^2<=4", "4>=x^2+y^2"), ("x^3+x=2", "2=x+x^3"), (r"\frac1x+\frac1y=1", r"\frac{x+y}{xy}=1"), ("|x|+|y|=1", "1=|y|+|x|"), ("x^2=5x", "x=0, x=5"), ("2x^2=1", r"x=\pm\frac{1}{\sqrt2}"),
        # dates and durations
        ("March 31", "31 March"), ("March the 3rd", "the 3rd of March"), ("1 Jan 2000", "2000-01-01"), ("Dec. 31, 1999", "1999-12-31"), ("1/2/2024", "01/02/2024"), ("2h 3min", "2 hours, and 3 minutes"), ("1 lb. 2 oz.", "1 pound 2 ounces"), ("22nd", r"22^{\text{nd}}"),
        # words and units
        ("one-half", "1/2"), ("a half", "0.5"), ("half", "1/2"), ("a third", "1/3"), ("two-thirds", "2/3"), ("three quarters", "3/4"), ("three halves", "3/2"), ("a quarter", "0.25"), ("one hundredth", "0.01"), ("one thousandth", "0.001"), ("three hundredths", "0.03"),
        ("five twelfths", "5/12"), ("one eleventh", "1/11"), ("one hundred thousand", "100000"), ("one million and five", "1000005"), ("two hundred five", "205"), ("ninety-nine hundredths", "0.99"), ("7 N*m", "7 N m"), ("7 J/(kg K)", "7 J/(kg*K)"), ("7 feet squared", "7 square feet"),
        ("$7 per hour", "7 dollars per hour"), ("7 million people", "7000000"), ("-7 cm", r"-7\text{ cm}"), ("-7 m", r"-7\text{ m}"), ("-5 V", "-5"), ("+5 J", "5 J"), ("-7 apples", "-7"), ("1/2 cm", "0.5 cm"), ("x = 5%", "5%"), ("5 kg/m^3", r"5\text{ kg}/\text{m}^3"), ("5 kg m^{-3}", "5 kg/m^3"), ("5 degrees Celsius", r"5^\circ C"),
        (r"\text{}5", "5"), (r"\mathrm{}5", "5"), (r"\text   {red}", "red"), ("24:59", "24:59"), ("24:60", "2:5"), ("m=n=1", "n=m=1"), ("x = 1, 2,", "x=1, x=2"), (r"\{1\}\cup\{1\}", r"\{1\}"), ("{1,234}", "1,234"),
    ],
)  # fmt: skip
def test_one_value(a, b):
    assert grade(a, b)
    assert canonical(a).kind in {"exact", "structured", "fingerprint", "text"}


@each(
    ("a", "b"),
    [
        ("|x-30|", "x-30"), ("|x+30|", "x+30"), (r"1+|x-30|", "x-29"), (r"\sqrt{(x-30)^2}", "x-30"), (r"\sqrt{x^4}", "x"), ("|z|^2", "z^2"), ("|w|^2+1", "w^2+1"), ("|z+1|^2", "(z+1)^2"), (r"\sin(10^{-5})", "10^{-5}"), ("C_2^2", "1"), ("7 tenths", "7"), ("7 thousandths", "7"), ("7 sixths", "7"), ("7 MeV", "7 keV"), ("7 m^2", "7 m"), ("-7m", "-7 m"), ("-7 V", "-7 J"), ("7 m/s", "7 m/s^2"), ("12 red apples", "12 apples"), ("50 cents", "50 dollars"), ("2 hours", "2 minutes"), ("nineteen", "ninety"),
        (r"\max(x,y)", "x"), ("f(1,2)", "f(2,1)"), ("f_1(2)", "f_2(2)"), ("x'(2)", "x(2)"), ("x_1", "x_2"), (r"\sin{x}/2", r"\sin\frac x3"), ("3!!", "720"), ("x>2", "x>3"), ("3:4", "4:3"), (r"3\pmod 7", "4\\pmod 7"), ("(1,2)", "(1,3)"),
        (r"\lfloor x\rfloor", r"\lceil x\rceil"), (r"\binom{x}{2}", r"\binom{x}{3}"), (r"\sqrt[3]{2}", r"\sqrt2"), ("x!", "x!!"), ("f(x)", "g(x)"), (r"\mathbb{Z}", r"\mathbb{Q}"), ("x<y", "x<=y"), ("x+y<1", "x+y<2"), ("x+y<1", "x+y>1"), ("x^3=8", "x^3=9"), ("x^2+y^2=1", "x^2-y^2=1"), ("1/2/2024", "2/1/2024"), ("2 h 3 min", "3 h 2 min"), ("March 3", "March 3, 2024"), ("22nd", "23rd"), ("(17 \\bmod 5, 2)", "(3,2)"), (r"\{1,2\}", r"\{1,2,2,3\}"), ("1,1,2", "1,2"),
    ],
)  # fmt: skip
def test_two_values(a, b):
    assert not grade(a, b)


@each(
    ("a", "b", "same"),
    [
        (r"x\ne 1, 2", r"x\ne 1, x\ne 2", True), (r"x\ne 1, 2, \text{ and } 3", r"x\ne 3, x\ne 2, x\ne 1", True), (r"x\ne 1\text{ or }2", r"x\ne 2, 1", True), (r"x\ne 1, 2", r"x\ne 1", False),
        (r"x\ne 1, 2", "x=1, 2", False), (r"x\ne 1, y\ne 2", r"y\ne 2, x\ne 1", True), (r"x\ne 1, y=2", r"y=2, x\ne 1", True), ("x>0, y=x+1", "y=x+1, x>0", True), ("x+1, x>0", "y=x+1, x>0", True), ("x=1, 2", "2, 1", True), (r"x\approx 1, y\approx 2", "y=2, x=1", True), (r"x\approx 1, 2", "x=2, x=1", True), ("x=1, y=2", "x=2, y=1", False),
    ],
)  # fmt: skip
def test_lists_of_relations(a, b, same):
    assert grade(a, b) == grade(b, a) == same


def test_powers_of_minus_one():
    names = "nmkxjr"
    assert len({canonical(f"(-1)^{name}") for name in names}) == len(names)
    for name in "abcdfghjklmnopqrstuvwxyz":
        for exponent in (name, f"{name}+1", f"{name}({name}+1)/2", f"{name}({name}-1)/2"):
            assert not grade(f"(-1)^{{{exponent}}}", "1"), exponent
            assert not grade(f"(-1)^{{{exponent}}}", "-1"), exponent


@each(
    ("text", "kind"),
    [
        ("baby", "text"), ("abba", "text"), ("abc", "fingerprint"), ("xyz", "fingerprint"), ("cba", "fingerprint"), ("mn", "fingerprint"), ("pqr", "fingerprint"), ("red", "text"), ("cat", "text"), ("red fox", "text"), (r"\text{red~fox}", "text"),
        (r"\text{red\ fox}", "text"), ("x~y", "fingerprint"), (r"\sin~x", "fingerprint"), ("a and b", "structured"), ("x or y", "structured"), ("cat and dog", "text"), ("a cat", "text"), ("pi", "fingerprint"), ("e", "fingerprint"), ("i", "fingerprint"),
        ("infinity", "structured"), ("km", "text"), ("cm", "text"), ("sin x", "fingerprint"), ("sin", "text"), ("x y", "fingerprint"), ("I", "fingerprint"), ("ok", "text"), ("N/A", "fingerprint"),
    ],
)  # fmt: skip
def test_words_and_products(text, kind):
    assert canonical(text).kind == kind
    if kind == "text":
        assert canonical(text) == canonical(
            " ".join(text.replace(r"\text", "").strip("{}").replace("\\ ", " ").replace("~", " ").split())
        )


@each(
    "text",
    ['"a" and "b"', "**a** and **b**", "`x` + `y`", "*x*y*", "__a__ or __b__", "“a” or “b”", r"\(x\) + \(y\)", r"\[x\] + \[y\]", r"{x}+{y}", r"\text{a} or \text{b}", r"\{x\}", r"**x\**", "x..."],
)  # fmt: skip
def test_what_is_no_dress_of_the_whole(text):
    assert peel(text) == text


# --- extraction ------------------------------------------------------------------------------------------------------


@each("closing", ["</think>", "</thinking>", "[/THINK]", "◁/think▷", "</reasoning>", "<think></think>"])
def test_a_text_may_begin_with_the_end_of_thinking(closing):
    assert extract(closing + "5").answer == "5"
    assert extract(closing + "The answer is 5.").answer == "5"
    assert extract(closing + "C", kind="choice").answer == "C"


@each(
    ("text", "answer"),
    [
        # the end of the sentence
        ("The answer is 5! + 1.", "5! + 1"), ("The answer is n!/2.", "n!/2"), ("The answer is 5! = 120.", "120"), ("The answer is 5! Well done, 6.", "5"), ("The answer is approx. 5. Then 6.", "5"), ("The answer is 5 a. But 6.", "5 a"),
        ("The answer is x = a. Then y.", "x = a"), ("The answer is p. 5 and so.", "p. 5"), ("The answer is $a. b$ and more. Then 6.", "a. b"), ("The answer is $3.5. Then 7.", "3.5"), ("The answer is 5. Then 7.", "5"), ('The answer is "5." He did.', "5"),
        # what stands at its end
        ("The answer is b + a.", "b + a"), ("The answer is x = A.", "x = A"), ("The answer is x - a", "x - a"), ("The answer is 5 or", "5"), ("The answer is 5 and", "5"), ("The answer is 5, and", "5"), ("The answer is 5 a day.", "5"),
        # remarks in brackets are not its unit
        ("The answer is 12 (4 meters per side).", "12"), ("The answer is 12 [4 cm wide] here.", "12"), ("The answer is 2 (2 cm wide) here.", "2"), ("The answer is 42 (2 dozen and so on).", "42"), ("The answer is 42 (6 times 7).", "42"),
        ("The answer is (12 meters).", "12 meters"), ("The answer is (12) meters.", "(12) meters"), ("The answer is 3(4) cm.", "3(4) cm"), ("The answer is 12 meters (4 cm).", "12 meters"), ("The answer is 5) cm.", "5 cm"),
        ("The answer is [3, 5) of it.", "[3, 5)"), ("The answer is (3, 5] of it.", "(3, 5]"), ("The answer is 3, 5 (7 words).", "3, 5"), ("The answer is (x+1)(x+2) here.", "(x+1)(x+2)"),
        # words inside of mathematics
        ("The answer is x_{max} = 5.", "x_{max} = 5"), ("The answer is x_max = 5.", "x_max = 5"), ("The answer is 2^{word} + 1.", "2^{word} + 1"), ("The answer is 2^n words.", "2^n"), (r"The answer is 5 \text{ cm}.", r"5 \text{ cm}"),
        # spans
        ("The answer is 7 times $5$.", "7"), ("The answer is a multiple of $5$.", "5"), ("The answer is given in terms of $x$.", None), ("The answer is $5$ and $6$ and so $7$.", "5, 6"), ("The answer is $5$ and $6$, $7$ or $8$.", "5, 6, 7, 8"),
        (r"The answer is \[5. \] Then", "5"), ("The answer is $$5,$$", "5"), ("The answer is $$5", None), (r"The answer is \(5.", None), (r"The answer is \(5, or $6$.", "6"), ("The answer is between $5-$6 and is $x$.", "x"), ("The answer is x_total = 5.", "x_total = 5"), ("The answer is x^total.", "x^total"),
        ("The answer is 5. No, the answer is not 5.", None), ("The answer is 5. The answer is not 6.", "5"), (r"The answer is \[5", None), (r"The answer is \begin{pmatrix}1\\2\end{pmatrix} or so.", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"The answer is \begin{pmatrix}1\\2", None), (r"The answer is \begin{pmatrix", None), ("The answer is $x$, where $x$ = 5.", "x"), (r"It costs \$4. The answer is \$5.", "5"),
        # shapes are no unit by themselves
        ("The answer is 5 square roots.", "5"), ("The answer is 5 cubic roots.", "5"), ("The answer is 5 sq roots.", "5"), ("The answer is 5 cubic feet.", "5 cubic feet"), ("The answer is 5 sq ft.", "5 sq ft"),
        # replies that are one value
        ("5.", "5"), ("$x=5$", "x=5"), ("$y=x$", None), ("$f(x)=5$", "f(x)=5"), (r"$x=\frac12$", r"x=\frac12"), (r"\(5\)", "5"), (r"\(\frac12\)", r"\frac12"), (r"\((1,2)\)", "(1,2)"), (r"\(5\) or \(6\)", None), ("**$5$**", "5"), ("5\n", "5"), ("5 6", None), ("1,23", None), ("boxed{5}", "5"), ("fbox{5}", "5"),
    ],
)  # fmt: skip
def test_where_an_answer_ends(text, answer):
    assert extract(text).answer == answer


@each(
    ("text", "answer"),
    [
        ("Thus, C.", "C"), ("Only C works.", "C"), ("**(C)**", "C"), ("C. red\n\nB is not, as it fails.", "C"), ("C\n\nreasons", "C"), ("B. Newton\n\nreasons", "B"), ("A. Newton\n\nreasons", None), ("A\n\nreasons", "A"), ("**A**\n\nreasons", "A"),
        ("B. Newton\n\nA. said\nC. x", None), ("It is C or D. Thus, C.", None), ("Thus, (C.", None), ("Thus, C).", None), ("Hmm.\nThus, C.", "C"), ("Hmm.\nIf so, C.", None), ("B\nC", None), ("Text.\n\nB", "B"), ("Text.\nB", None), ("Text.\n\nB.", "B"),
        ("$B$", "B"), ("x\n$B$", "B"), ("A) red\n\n**(C)**", None), ("C) red\n\n**(C)**", "C"), ("The answer is b", "B"), ("The answer is (b), i.e. option A", "A"), ("The answer is a", None), ("Answer: a", "A"), ("The answer is (a)", "A"),
        ("a) red b) blue\nThe answer is b", None), ("b) blue\nThe answer is b", "B"), ("C, maybe", None), ("C? I am not sure", None), ("C: the red one", "C"), ("Maybe C", None), ("C is wrong", None), ("K", None), ("Thus, K.", None), ("Only (C) satisfies both.", "C"),
        ("Only (C satisfies both.", None), ("Only C satisfies both. Or D.", None), ("either C or D works. Thus, D.", None), ("<answer>the answer is C</answer>", "C"), ("<answer>A, B</answer>", None), (r"\boxed{5} as C is 5", None), (r"(C) \boxed{C} and \boxed{5}", "C"),
        # taken back
        ("The answer is C. Wait, the answer is not C.", None), ("The answer is C. The answer is not B.", "C"), ("The answer is C. Wait, the answer is definitely not C.", None), ("The answer is not C. The answer is C.", "C"), ("The answer is B. Wait, the answer is C. No, the answer is not C.", "B"),
        # praise
        ("We read it.\n(C) is the best choice", "C"), ("We say: (C) is not correct", None), ("We say: C is incorrect", None), ("I wonder whether C is correct", None), ("I know that C is correct", None),
        ("We see: C seems the most plausible", "C"), ("Thus option (c) is correct", "C"), ("We say: c is correct", None), ("We say: A and C are correct", None), ("We say: A or C is correct", None), ("A和C正确", None), ("我说C不正确", None),
        ("If C is correct, so is D. D is correct.", "D"), ("We say: C is correct. D is correct.", None), ("We say: C is correct. Wait, D is correct.", "D"), ("We say: C is correct, but D is better.", "D"), ("We say: C is better than D.", "C"),
        # mentions and choices
        ("The worst one is C", None), ("The best one is C", "C"), ("I choose C", "C"), ("Never choose C", None), ("You choose C", None), ("It leaves C", None), ("We are left with C", None), ("As the others are wrong, we are left with C", "C"), ("It is option C", "C"),
        ("The options are A, B and C.", None), ("It is option C and option D", None), ("It is not option C", None), ("But option C (the red one) is wrong", None), ("Consider option C", None), ("It is better than option C", None), ("This corresponds to C.", None), ("It matches C", None),
        ("It matches (C)", "C"), ("It matches option C", "C"), ("The answer is 5 m (C).", "C"), ("The answer is (5) m (C).", None), ("The answer is 5 m, option C or option D.", None),
        # what follows the letter
        ("The answer is C-14", None), ("The answer is C.\nB.", "C"), ("The answer is A.\nB.", None), ("The answer is A\nB) x", None), ("The answer is A: red", "A"), ("The answer is A because", "A"), ("The answer is A dog", None), ("The answer is I think", None), ("The answer is I.", "I"),
        ("The answer is C = 5", None), ("The answer is C/D", None), ("The answer is C/s", None), ("The answer is C + 1", None), ('The answer is "C"?', None), ("The answer is C and red", "C"), ("The answer is C, II", None), ("The answer is Ｃ", "C"), ("The answer is c text", None),
        ("The answer is K. The answer is C.", None), ("The answer is C. The answer is K.", None), ("The answer is neither C nor D, it is B", "B"), ("The answer is not C but not D", None),
        (r"\boxed{A, B}", None), (r"\boxed{AB}", None), (r"\boxed{not B}", None), (r"\boxed{K}", None), (r"The answer is C. \boxed{red}", "C"),
    ],
)  # fmt: skip
def test_letters_without_an_announcement(text, answer):
    assert extract(text, kind="choice").answer == answer


@each(
    ("rest", "unit"),
    [("cm", "cm"), (" cm wide", "cm"), ("miles per hour", "miles per hour"), ("per hour", ""), ("square", ""), ("square cm", "square cm"), ("hours and 20 minutes", "hours and 20 minutes"), ("hours and 20", "hours"), ("frogs", ""), ("", ""),
     ("cm^2 of it", "cm^2"), ("cm²", "cm²"), ("m/s", "m/s"), ("m/s^2 here", "m/s^2"), ("km per", "km"), ("CM", "CM")],
)  # fmt: skip
def test_unit_after_a_number(rest, unit):
    assert unit_after(rest) == unit


def test_options_beyond_the_default():
    assert choice_letter("K", 11) == "K"
    assert choice_letter("J") == "J"
    assert extract("The answer is K.", kind="choice", options=12).answer == "K"
    assert extract("The answer is C.", kind="choice", options=2).answer is None


# --- work, size, rounding --------------------------------------------------------------------------------------------


@each(
    ("item", "joint", "few", "many"),
    [
        (r"\sin x", "+", 40, 110), ("e^x", "+", 40, 110), ("x!", "+", 20, 70), (r"\arctan x", "+", 20, 70), (r"\binom{x}{60}", "+", 4, 20), (r"\binom{x}{9}", "+", 12, 50), (r"\zeta(3)", "+", 10, 30), ("f(x)", "+", 130, 320),
        (r"(1,2)", r"\cup", 50, 140), ("x>1", " or ", 45, 130), ("x^2>1", " or ", 8, 30), ("x^2-x=0", ", ", 8, 30), ("|x|>1", " or ", 20, 70), (r"\sqrt2", ",", 60, 160), ("(x,1)", ",", 30, 100), ("x!=1", ",", 120, 320),
        ("x^9", "*", 30, 90), ("max(x,1)", "+", 35, 100), (r"\{1\}", r"\cup", 90, 220), ("1/3", "+", 150, 330), ("1", ",", 250, 520),
    ],
)  # fmt: skip
def test_work_is_bounded(item, joint, few, many):
    """What costs more than an answer may is compared as it is written, whatever it is that costs."""
    assert canonical(joint.join([item] * few)).kind in {"exact", "structured", "fingerprint"}
    assert canonical(joint.join([item] * many)).kind in {"opaque", "text"}


@each(
    ("a", "b", "other"),
    [
        ("2^{15000}", "4^{7500}", "2^{15001}"), ("2^{-15000}", r"\frac{1}{4^{7500}}", "2^{-15001}"), ("2^{14000}-1", "(2^{7000}-1)(2^{7000}+1)", "2^{14000}+1"), ("-2^{15000}", "-4^{7500}", "2^{15000}"), (r"10^{400}\pi", r"\pi\cdot10^{400}", r"10^{401}\pi"),
        (r"10^{-400}\pi", r"\frac{\pi}{10^{400}}", r"10^{-401}\pi"), ("(2^{15000}, 1)", "(4^{7500}, 1)", "(2^{15001}, 1)"), ("2^{9000}x", "x(4^{4500})", "2^{9001}x"), (r"\frac{\sqrt2\sqrt2}{1001}", r"\frac{2}{1001}", r"\frac{2}{1002}"),
        (r"\sin^2 1+\cos^2 1+10^{-6}", "1.000001", "1"), (r"\frac{(\sqrt5)^2}{123457}", "5/123457", "5/123458"), (r"10^{20}+\sqrt2", r"\sqrt2+10^{20}", "10^{20}"), ("1+10^{-30}", "1.000000000000000000000000000001", "1"), (r"\sqrt2+10^{-20}", r"10^{-20}+\sqrt2", r"\sqrt2"),
        ("[2^{1/2}, 3)", r"[\sqrt2, 3)", r"(\sqrt2, 3)"), (r"(\sqrt2,\sqrt3)\cup(\sqrt3,2)", r"(\sqrt3,2)\cup(\sqrt2,\sqrt3)", r"(\sqrt2,2)"), (r"x>\frac{\sqrt8}{2}", r"x>\sqrt2", r"x>1.4142"), (r"\{\sqrt2,1\}", r"\{1,\frac{2}{\sqrt2}\}", r"\{1,1.414\}"),
        (r"\begin{cases}x<1\\x>2\end{cases}", r"\emptyset", r"x<1 or x>2"), (r"\begin{cases}x>1\\x<2\end{cases}", "1<x<2", "x>1"), (r"\begin{cases}x>1\\x>2\\x<5\end{cases}", "2<x<5", "x>1"), (r"\begin{cases}x+y=3\\x-y=1\end{cases}", r"\begin{cases}x-y=1\\x+y=3\end{cases}", "x+y=3"),
        (r"x<1\text{ and }x>2", r"\emptyset", "x<1, x>2"), ("x^2-2x+1=0", "x=1", "x=-1"), (r"x^2+1=0", r"x=\pm i", r"x=\pm 1"), (r"x^2=2", r"x=\pm\sqrt2", r"x=\sqrt2"), ("x^2-2x-1<0", r"1-\sqrt2<x<1+\sqrt2", r"1-\sqrt2\le x<1+\sqrt2"),
    ],
)  # fmt: skip
def test_size_and_precision(a, b, other):
    assert grade(a, b)
    assert not grade(a, other)


@each(
    ("a", "b", "digits", "same"),
    [
        ("(0.3333,1)", "(1/3,1)", 4, True), ("[0.3333,1)", "[1/3,1)", 4, True), ("[0.3334,1)", "[1/3,1)", 4, False), ("x>0.3333", r"x>\frac13", 4, True), ("x>0.3332", r"x>\frac13", 4, False), ("x=0.3333", "x=1/3", 4, True), ("0.3333 cm", "1/3 cm", 4, True),
        (r"\{0.6667, 1\}", r"\{1, 2/3\}", 4, True), ("1.414, 1.732", r"\sqrt2, \sqrt3", 4, True), ("1.414, 1.732", r"\sqrt2, \sqrt3", 5, False), (r"\begin{pmatrix}0.3333\\1\end{pmatrix}", r"\begin{pmatrix}1/3\\1\end{pmatrix}", 4, True), ("x^2=2", r"x=\pm1.414", 4, True),
        (r"2\begin{pmatrix}0.16667\end{pmatrix}", r"\begin{pmatrix}1/3\end{pmatrix}", 4, True), ("0.00012345", "0.00012346", 4, True), ("0.00012344", "0.00012346", 4, False), ("123449", "123400", 4, True), ("123450", "123400", 4, False), ("-1.5", "-2", 1, True), ("9.99", "10", 2, True),
        ("99", "100", 1, True), ("0.999", "1", 2, True), ("1e-30", "1.04e-30", 2, True), ("1e30", "1.04e30", 2, True), ("1e30", "1.06e30", 2, False), ("y=0.3333x", "y=x/3", 4, False), ("x^2<2", "-1.414<x<1.414", 4, True), ("|x|<0.3333", "|x|<1/3", 4, True), ("x!=0.3333", r"x\ne\frac13", 4, True),
        ("0.3333i", "i/3", 4, False), ("2+0.5=2.5", "2.5", 4, True), ("0", "0", 4, True), ("1", "1.0001", 0, False),
    ],
)  # fmt: skip
def test_rounded_values(a, b, digits, same):
    assert grade(a, b, significant=digits) == grade(b, a, significant=digits) == same


@each(
    ("a", "b", "same"),
    [
        (r"\text{i}", "i", True), (r"z\in\mathbb{C}", r"\mathbb{C}", True), (r"\mathbb{C}", "C", False), ("5, y = 1", "y = 5, 1", False),
        ("doesn’t exist", "does not exist", True), ("x>0, y=1", "y=1, x>0", True), (r"(1/2)^0", "1", True), ("5 cm", "cm", False),
    ],
)  # fmt: skip
def test_small_words_and_letters(a, b, same):
    assert grade(a, b) == same


@each(
    ("text", "answer"),
    [
        ("The answer is 7].", "7"),
        ("The answer is 7).", "7"),
    ],
)
def test_endings_of_answers(text, answer):
    assert extract(text, kind="math").answer == answer
