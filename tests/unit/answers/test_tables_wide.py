"""Tables of what stands around mathematics: languages, markup, species, formulas of chemistry, parts too small to see."""

from functools import partial

from rows import each

from dare_reward.answers import canonical, choice_letter, grade
from dare_reward.answers import extract as extract_all
from dare_reward.answers.algebra.sample_points import WHOLE, step_points
from dare_reward.answers.forms.chemistry import read_formula
from dare_reward.answers.markup import undecorated, without_html
from dare_reward.answers.species import names_species

extract = partial(extract_all, unmarked="none")  # announcements, and nothing else

SAID = r"""
Somit ist die Antwort {}.
Jibu ni {}.|Jibu sahihi ni {}.|Jibu la mwisho ni {}.|Jibu: {}
উত্তর: {}|সুতরাং উত্তর হল {}।
সঠিক উত্তর {}।|คำตอบคือ {}|คำตอบสุดท้ายคือ {}|คำตอบที่ถูกต้องคือ {}
คำตอบ: {}|Правильный вариант ответа: {}
"""
SAID_ROWS = [row for line in SAID.strip().splitlines() for row in line.split("|")]


@each("row", SAID_ROWS)
def test_announced_in_many_languages(row):
    before = "37 = 30 + 7.\n"
    assert extract(before + row.replace("{}", "42")).answer == "42"
    assert extract(before + row.replace("{}", "$4^2$")).answer == "4^2"
    assert extract(row.replace("{}", "C"), kind="choice").answer == "C"
    assert extract(row.replace("{}", "(C)"), kind="choice").answer == "C"


@each("row", ["The final result is {}.", "Final result: {}", "So the final result equals {}."])
def test_a_final_result_is_an_answer(row):
    assert extract(row.replace("{}", "42")).answer == "42"


@each(
    "text",
    ["Cevap şöyle bulunur.", "Odgovor ovisi o x.", "उत्तर है कि हम आगे बढ़ें।", "উত্তর পেতে আমরা যোগ করি।", "คำตอบ", "Försvaret är 42.", "The result is unknown"],
)  # fmt: skip
def test_other_words_announce_nothing(text):
    assert extract(text).answer is None
    assert extract(text, kind="choice").answer is None


@each(
    ("text", "answer"),
    [
        ("That is incorrect\n\nAnswer: 5", "5"),  # the word before belongs to another line
        ("D. Negative - wrong\nAnswer: 5", "5"),
        ("The incorrect answer: 5", None),
        ("[answer] 5 [/answer]", "5"),
        ("[Answer] 5", "5"),
        (r"The answer is $\boxed{\ }$.", None),
        (r"\boxed{\ }", None),
        (r"Final answer: $\boxed{\text{?}}$", None),
        (r"The answer is $\boxed{?}$.", None),
        ('print(f"The answer is {total}")', None),
        (r'print(f"The answer is \\boxed{{{total}}}")', None),
        (r"\boxed{{{total(n)}}}", None),
        (r"The answer is \{1,2\}.", r"\{1,2\}"),
        ("The answer is Rs. 5.", "5"),
        ("The answer is 45 😊", "45"),
        ("The answer is 45 🎉 Great work", "45"),
        ("The answer is <b>5</b>", "5"),
        ("<p>The answer is <strong>5</strong>.</p>", "5"),
        ("<h3>Final Answer</h3>\n<p>5</p>", "5"),
        ("Answer: x<sup>2</sup>", "x^{2}"),
        ("Answer: H<sub>2</sub>O", "H_{2}O"),
        ("Answer: a<b", "a<b"),
        ("Answer: 5<br>Check: 6</br>", "5"),
    ],
)
def test_what_stands_around_an_answer(text, answer):
    assert extract(text).answer == answer


def test_markup_goes_for_text_and_stays_for_exact():
    assert extract("The answer is <b>Paris</b>.", kind="text").answer == "Paris"
    assert extract("Answer: Paris 😊", kind="text").answer == "Paris"
    assert extract("Answer: <b>x</b>", kind="exact").answer == "<b>x</b>"
    assert grade("<b>Paris</b>", "paris", kind="text")
    assert grade("<i>5</i>", "5")
    assert choice_letter("<b>C</b>") == "C"


@each(
    ("text", "without"),
    [
        ("a<b", "a<b"),
        ("a < b </b>", "a < b "),
        ('<span class="x">5</span>', "5"),
        ("<div>5</div>6", "\n5\n6"),
        ("5<br>6", "5\n6"),
        ("x<sup>10</sup>", "x^{10}"),
        ("<answer>5</answer>", "<answer>5</answer>"),
        ("<be>5</be>", "<be>5</be>"),
    ],
)
def test_html(text, without):
    assert without_html(text) == without


@each(
    ("text", "without"),
    [("45 😊", "45"), ("45 ⭐ ✅\ufe0f", "45"), ("😊 45", "😊 45"), ("45 é", "45 é"), ("45 ", "45 "), ("😊", "")],
)
def test_pictures(text, without):
    assert undecorated(text) == without


@each(
    "name",
    ["E. coli", "A. thaliana", "C. elegans", "D. melanogaster", "B. subtilis", "H. pylori", "*E. coli*", "**A.** thaliana", "C. difficile"],
)  # fmt: skip
def test_species_are_no_options(name):
    assert choice_letter(name) is None
    assert extract(f"The answer is {name}.", kind="choice").answer is None
    assert extract(f"Answer: {name}", kind="choice").answer is None
    assert extract(f"The answer is {name}.", kind="text").answer.strip("*") == name.replace("*", "")


def test_options_in_small_letters_are():
    assert not names_species("E", ". coliform")
    assert not names_species("E", ". Coli")
    assert not names_species("K", ". coli")
    assert names_species("E", ". coli cells")
    assert choice_letter("E. increases") == "E"
    assert choice_letter("(E) coli") == "E"
    assert choice_letter("C. lupus") == "C"
    assert extract("The answer is B. mitochondria", kind="choice").answer == "B"


@each(
    ("raw", "letter"),
    [
        ("La respuesta correcta es C", "C"),
        ("La respuesta correcta es la opción C", "C"),
        ("La réponse correcte est C", "C"),
        ("La risposta corretta è la C", "C"),
        ("A resposta certa é C", "C"),
        ("Die richtige Antwort ist C", "C"),
        ("La respuesta correcta es clara", None),
    ],
)
def test_given_answers_in_other_languages(raw, letter):
    assert choice_letter(raw) == letter


@each(
    "text",
    ["None of A, B, C, or D is right.", "None of A, B and D is correct.", "Neither B nor D is correct.", "A, B, or D is correct."],
)  # fmt: skip
def test_praise_of_several_is_no_letter(text):
    assert extract(text, kind="choice").answer is None


@each(
    ("text", "formula"),
    [
        ("H_2O", "H2O"),
        ("H2SO4", "H2SO4"),
        (r"\text{C}_6\text{H}_{12}\text{O}_6", "C6H12O6"),
        (r"\mathrm{Ca(OH)_2}", "Ca(OH)2"),
        (r"\ce{2H2O}", "2H2O"),
        (r"\mathrm{SO_4^{2-}}", "SO4^2-"),
        ("NH_4^+", "NH4^+"),
        ("sp^3", "sp3"),
        (r"\text{sp}^3\text{d}^2", "sp3d2"),
        ("sp2d", "sp2d"),
        ("sp^4", None),
        ("V_1T_2", None),  # of a gas, no substance
        ("O_0C_2", None),
        ("x_2", None),
        ("S_3", None),  # a group
        ("H_2X_3", None),  # no element
        ("CO", None),  # words are text anyway
        ("H_2O = 1", None),
        ("H_2" + "O_2" * 60, None),
    ],
)
def test_formulas_of_chemistry(text, formula):
    assert read_formula(text) == formula


def test_the_order_of_a_formula_counts():
    assert grade("H2O", r"\text{H}_2\text{O}")
    assert not grade("CN_2O", "CON_2")
    assert not grade(r"\mathrm{NO_2^-}", r"\mathrm{NO_2^+}")
    assert canonical("H_2O").kind == "text"


@each(
    ("a", "b", "equal"),
    [
        (r"1+\sqrt2\cdot10^{-40}", r"1+\sqrt3\cdot10^{-40}", False),
        (r"1+\sqrt2\cdot10^{-40}", r"10^{-40}\sqrt2+1", True),
        (r"1+\sqrt2\cdot10^{-50}", "1", False),
        ("1+e^{-100}", "1+e^{-101}", False),
        ("1+e^{-100}", r"1+\frac{1}{e^{100}}", True),
        (r"\cos(\cos(\cos 10^{-30}))", r"\cos(\cos 1)", False),
        (r"\cos(10^{-30})", "1", False),
        (r"\cosh(10^{-30})", "1", False),
        (r"e^{10^{-40}}", "1", False),
        (r"2^{10^{-40}}", "1", False),
        (r"\tanh 50", r"\tanh 60", False),
        (r"\tanh 50", r"\frac{e^{100}-1}{e^{100}+1}", True),
        (r"\arctan(10^{40})", r"\frac{\pi}{2}", False),
        (r"\arccos(10^{-40})", r"\frac{\pi}{2}", False),
        (r"\sqrt2+10^{-40}", r"\sqrt2", False),
        (r"\sqrt2+10^{-300}", r"\sqrt2", False),
        (r"\sqrt2+10^{-300}", r"\sqrt2+10^{-301}", False),
        ("1+e^{-x^2}", r"1+\frac{1}{e^{x^2}}", True),
        ("1+e^{-100x}", r"1+\frac{1}{e^{100x}}", True),
        ("1+e^{-100x}", "1+e^{-101x}", False),
        (r"(\sqrt8-2\sqrt2)\cdot 10^{20}+1", "1", True),
        (r"\sin^2 1+\cos^2 1", "1", True),
        (r"10^{-40}\sqrt2", r"\frac{\sqrt2}{10^{40}}", True),
    ],
)
def test_parts_too_small_for_the_digits_of_a_key(a, b, equal):
    assert grade(a, b) == grade(b, a) == equal


@each(
    ("a", "b", "equal"),
    [
        (r"\lceil x\rceil", r"\lfloor x\rfloor+1", False),
        (r"\lceil x\rceil", r"-\lfloor -x\rfloor", True),
        (r"\lfloor x+1\rfloor", r"1+\lfloor x\rfloor", True),
        (r"\lfloor x+\frac12\rfloor", r"\lceil x-\frac12\rceil", False),
        (r"\lceil x/2\rceil", r"\lfloor (x+1)/2\rfloor", False),
        (r"\lceil n/2\rceil", r"\lfloor (n+1)/2\rfloor", True),
        (r"\lceil n/3\rceil", r"\lfloor (n+2)/3\rfloor", True),
        (r"\lceil n/3\rceil", r"\lfloor (n+1)/3\rfloor", False),
        (r"\lfloor n^2/4\rfloor", r"\lfloor n/2\rfloor\lceil n/2\rceil", True),
        (r"\lfloor n/10\rfloor", r"\lceil n/10\rceil-1", False),
        (r"\lfloor n/1000\rfloor", "0", False),
        (r"\lfloor\sqrt n\rfloor+1", r"\lceil\sqrt n\rceil", False),
        (r"\lfloor 2^n/3\rfloor", r"\lfloor 2^{n+1}/6\rfloor", True),
        (r"\lfloor n/m\rfloor", r"\lceil n/m\rceil", False),
        (r"\lfloor n/2\rfloor", r"\lfloor m/2\rfloor", False),
    ],
)
def test_functions_with_jumps(a, b, equal):
    assert grade(a, b) == grade(b, a) == equal


@each(
    ("a", "b", "equal"),
    [
        ("|x|+|y|", "|x+y|", False),
        ("|x|-|y|", "|x-y|", False),
        ("|xy|", "xy", False),
        ("|abc|", "abc", False),
        (r"\sqrt{x^2y^2}", "xy", False),
        (r"\sqrt{x^2y^2}", "|x||y|", True),
        ("(x^2y^2)^{1/2}", "xy", False),
        (r"\sqrt[4]{x^4y^4}", "xy", False),
        (r"\sqrt[4]{x^4y^4}", "|xy|", True),
        (r"\sqrt{x^4y^4}", "x^2y^2", True),
        (r"\sqrt{(x+y)^2}", "|x+y|", True),
        ("|x-y|", "|y-x|", True),
        ("|x|^2+|y|^2", "x^2+y^2", True),
        ("|x^2+y^2|", "x^2+y^2", True),
        (r"\frac{|x|}{|y|}", r"\left|\frac{x}{y}\right|", True),
        (r"\frac{|x|}{x}", r"\frac{|y|}{y}", False),
        (r"\frac{|x|}{x}", r"\frac{x}{|x|}", True),
        (r"\sqrt{\frac{2h}{g}}", r"\frac{\sqrt{2h}}{\sqrt{g}}", True),
        (r"\ln(x^2)", r"2\ln|x|", True),
        (r"\ln(y^2)", r"|\ln(y^2)|", False),
        ("|f(x)|", "f(x)", False),
        ("|f(2)|", "f(2)", False),
        ("|f(2)|", "-f(2)", False),
        (r"\max(f(1),0)", "f(1)", False),
        (r"\min(f(1),0)", "0", False),
        (r"\lfloor f(1)\rfloor", "9", False),
        (r"\sqrt{f(x)^2}", "f(x)", False),
        (r"|\max(x,-1)|", r"\max(x,-1)", False),
        (r"\max(a,\max(b,c))", r"\max(\max(c,b),a)", True),
        ("f(x)+1", "1+f(x)", True),
        (r"\lfloor 1/x\rfloor", "0", False),
        (r"\lfloor 3/n\rfloor", "0", False),
        (r"\lceil\frac{1}{x^2}\rceil", "1", False),
        (r"\lfloor\sin y\rfloor", r"\lfloor\sin\lceil y\rceil\rfloor", False),
    ],
)
def test_signs_of_several_variables(a, b, equal):
    assert grade(a, b) == grade(b, a) == equal


def test_integers_run_through_all_remainders():
    for name in WHOLE:
        near = [env[name] for env in step_points([name])[:-1]]
        assert {n % 12 for n in near} == set(range(12))
        assert step_points([name])[-1][name] % 27_720 == 0
    assert len({tuple(env[name] for env in step_points([name])[:-1]) for name in WHOLE}) == len(WHOLE)
    integers = [env["x"] for env in step_points(["x"])[:4]]
    assert [n == int(n) for n in integers] == [True, True, False, True]
    assert integers[1] < 0 < integers[0]


@each(
    ("a", "b", "equal"),
    [
        ("p or q", "p and q", False),
        ("p or q", "q or p", True),
        (r"p \text{ or } q", "p or q", True),
        ("p or q", "p, q", False),
        ("2 or 3", "2, 3", True),
        ("x=a or x=b", "x=a, b", True),
        ("DNE", "does not exist", True),
        (r"\text{No solutions}", r"\text{no solution}", True),
        (r"\text{There is no solution}", r"\text{No solution.}", True),
        ("no solution", "no real solution", False),
        ("undefined", "does not exist", False),
        (r"A \times B", r"B \times A", False),
        (r"A \times B", "AB", False),
        (r"\nabla\cdot F", r"\nabla\times F", False),
        (r"\nabla\times\vec F", r"\nabla\cdot\vec F", False),
        (r"3\times 4", "12", True),
        (r"a\times b", "ab", True),
        (r"\left\{\begin{array}{l}x=1\\y=2\end{array}\right.", "x=1, y=2", True),
        (r"\left\{\begin{array}{l}x=1\\y=2\end{array}\right.", "x=2, y=1", False),
        ("x&lt;3", "x&gt;3", False),
        (r"5\text{ N·m}", r"5\ \mathrm{N\cdot m}", True),
        (r"5\text{ N·m}", r"5\text{ N/m}", False),
        ("₹500", "500 rupees", True),
        ("Rs. 500", "₹500", True),
        ("₹500", "$500", False),
        ("₩500", "500 won", True),
        ("500 yuan", "500 yen", False),
        ("100 RUB", "100 rubles", True),
        ("「東京」", "東京", True),
        ("北京。", "北京", True),
        ("«oui»", "oui", True),
    ],
)
def test_further_spellings(a, b, equal):
    assert grade(a, b) == grade(b, a) == equal


@each(
    ("text", "kind", "answer"),
    [
        ("✅ **B**", "choice", "B"),
        ("**B** ✅", "choice", "B"),
        ("I'd say B.", "choice", "B"),
        ("It is clearly B.", "choice", "B"),
        ("Definitely B.", "choice", "B"),
        ("Definitely B cells.", "choice", None),
        ("Final answer: [[B]]", "choice", "B"),
        ("Ans (B)", "choice", "B"),
        (r"\boxed{12 \text{ (B)}}", "choice", "B"),
        (r"\boxed{P(B)}", "choice", None),
        ("Answer 17", "math", "17"),
        ("Answer $17$.", "math", "17"),
        ("Answer 17 of these questions first", "math", None),
        ("The answer is left to the reader.", "math", None),
        ("My answer was marked wrong.", "math", None),
        ("So the final answer is (after simplifying", "math", None),
        ("The answer is (2, 3).", "math", "(2, 3)"),
    ],
)
def test_what_closes_a_reply(text, kind, answer):
    assert extract(text, kind=kind, options=list("ABCD") if kind == "choice" else None).answer == answer


@each(
    ("a", "b", "equal"),
    [
        (r"1.6\times10^{-19} C", r"1.6\times10^{-19}\text{ C}", True),
        (r"1.6\times10^{-19} C", r"1.6\times10^{-19}\text{ J}", False),
        (r"3\times10^{2} K", "300 kelvin", True),
        ("2 C", "2C", True),  # a constant
        (r"x\in(-1,1), x\ne 0", r"(-1,0)\cup(0,1)", True),
        (r"x\in(-1,1)", "(-1,1)", True),
        (r"x\in(a,b)", "(a,b)", True),
    ],
)
def test_letters_behind_powers_of_ten_and_bounded_variables(a, b, equal):
    assert grade(a, b) == grade(b, a) == equal


def test_genes():
    assert not grade("Aa", "aa", kind="text")
    assert not grade("Aa", "AA", kind="text")
    assert grade("As", "as", kind="text")
