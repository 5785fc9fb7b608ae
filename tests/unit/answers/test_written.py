"""Answers as models write them: derivations in a box, announced sentences, last sentences, turns, plainest spellings.

The rows have the forms of real rollouts (research/docs/answers_rollouts.md); their numbers are ours.
"""

from rows import each

from dare_reward.answers import Extraction, classify, extract, grade

DERIVATIONS = [
    (r"\text{Total }=6+3+1=10\text{ ways.}", "10"),
    (r"n-2=17 \implies n=19.", "19"),
    (r"2\angle CBD+160^\circ=180^\circ\ \Rightarrow\ \angle CBD=\angle CDB=10^\circ.", "10"),
    (r"\text{Let }x\text{ be the mean. Then }5x=7+9+10+11+18=55,\text{ so }x=11.", "11"),
    (r"25\% \text{ of } 60 = 0.25 \times 60 = 15", "15"),
    (r"\text{So, }26\text{ spotted animals have horns.}", "26"),
    (r"\frac{3}{18}=\frac{1}{6}\text{, so }\square=6", "6"),
    (r"3-5+7=5,\ \text{so }5=6-x\Rightarrow x=1", "1"),
    ("\\begin{aligned}\n5 \\nabla 2 &= 22,\\\\\n22 \\nabla 2 &= 4\\cdot 22 + 2 = 90.\n\\end{aligned}", "90"),
    ("\\begin{aligned}\n&g(x)=(x+1).\\\\\n&\\text{Then }f(1)=g(1)-1^2=24-1=23.\n\\end{aligned}", "23"),
    (r"3^{x+2}=3^x\cdot 3^2=5\cdot 9=45", "45"),
    (r"\text{Oblong numbers are }n(n+1).\ \text{The 7th is }7\cdot 8=56.", "56"),
    (r"C_n=\frac{1}{2n}\quad\text{for all integers }n\ge 2.", r"\frac1{2n}"),
    (r"x=1,\ \text{so the }x\text{-intercept is }(1,0).", "(1,0)"),
    (r"Each of the digits has 5 choices. Thus the total is \(4\cdot 5^3 = 500\).", "500"),
]


@each("derivation, value", DERIVATIONS)
def test_a_derivation_is_the_value_that_it_ends_with(derivation, value):
    assert grade(derivation, value)
    assert grade(value, derivation)
    assert not grade(derivation, "7")


@each(
    "equation, value",
    [
        (r"\frac{V}{\pi}=75", "75"),
        (r"\mathbb E[k]=100.", "100"),
        (r"BC^{2}=2(\sqrt{17}-1)", r"2\sqrt{17}-2"),
        (r"\frac{X_1+X_2}{2}=\frac{\pi}{4}", r"\frac\pi4"),
        (r"\min_{z\in S}\tan\theta=\sqrt7.", r"\sqrt7"),
    ],
)
def test_an_expression_and_its_value_join_the_bare_value(equation, value):
    assert grade(equation, value)
    other = equation.split("=")[0] + "+1=" + equation.split("=")[1]
    assert not grade(equation, other)


@each(
    "a, b",
    [
        ("x^2 = 9", "9"), ("y = 2x + 1", "1"), ("x > 3", "3"), ("2 = 3", "3"), ("a = b", "b = c"),
        (r"\text{Yes, } 5", r"\text{No, } 5"), (r"3 \times 3\text{ grid}", "9"), ("ax = ay", "x = y"),
        ("1 = 1", "x = 1"), ("1 = 1", "1"), ("0 = 0", "x = 0"),
        (r"\text{If all are destroyed, then }13023", "13023"),
        (r"\text{so there are }3\text{ boys and }4\text{ girls.}", "4"),
        (r"2^{1006}\sqrt{2^{2010}+2}-2^{2011}", r"2^{1006}\sqrt{2^{2010}+1}-2^{2011}"),
        (r"2^{1006}\sqrt{2^{2010}+2}-2^{2011}", "0"),
        (r"\sqrt{1+2^{-2009}}-1", "0"),
    ],
)  # fmt: skip
def test_what_says_something_else_stays_apart(a, b):
    assert not grade(a, b)
    assert not grade(b, a)


def test_large_differences_are_one_value_however_they_are_written():
    spellings = [
        r"2^{1006}\sqrt{2^{2010}+2}-2^{2011}",
        r"2^{2011}(\sqrt{1+2^{-2009}}-1)",
        r"a_{2012} = -2^{2011}+2^{1005}\sqrt{2^{2012}+8}",
    ]
    assert set(classify(spellings).index) == {0}
    assert not grade(spellings[0], "2")


@each(
    "a, b",
    [
        (r"12^{\text{th}}", "12"), (r"12^{\mathrm{th}} \text{ grade}", r"12^{\text{th}}"), (r"11,\! 111", "11111"),
        ("2^6 3^5 5^4", "9720000"), ("7{,}294{,}927", "7294927"), ("three feet", "3"), ("sixty-two dollars", r"\$62"),
        ("[11]", "11"), ("4 OR 5", "4 or 5"), (r"x \ne 1", r"1 \ne x"), ("a = 2b+1", "-2b-1 = -a"),
        ("75,00", "75"), ("57{,}50", "57.5"), (r"\binom{4020}{3015}", r"\binom{4020}{1005}"),
    ],
)  # fmt: skip
def test_spellings_of_one_answer(a, b):
    assert grade(a, b)
    assert grade(b, a)


SENTENCES = [
    ("Mrs. Hilt will have 6 rows of 5 pies each.", "6"),
    ("Aiden will need 10 tablespoons of his seasoning for 80 meatballs.", "10"),
    ("Each of the 10 guests had 18 cookies.", "18"),
    ("The turtle can crawl 120 feet in 40 seconds.", "120 feet"),
    ("After 60 days, Cynthia will spend $16.00 on ice cream.", "16.00"),
    ("Each bagel will cost $1.00 after Russell orders 4 packs with a 10% discount.", "1.00"),
    ("It will take the builder 56 hours to install the remaining 7 windows.", "56 hours"),
    ("Paul can buy 2 5 dollar toys with the 10 dollars he has.", "2"),
    ("There are 10 more orchids than roses in the vase now.", "10"),
    ("There are 20 kids in the class who are not allergic to anything.", "20"),
    ("The loaf of bread will last for 4 days.", "4 days"),
    ("Together, they found 665 shells.", "665"),
    ("The largest $n$ is 34.", "34"),
    ("The balance by the end of 12 months will be $220.", "220"),
    ("Debby has 99 bottles left (264 - 165 = 99).", "99"),
    ("180 − 130 = **50**", "50"),
]


@each("sentence, value", SENTENCES)
def test_an_announced_sentence_is_the_one_value_that_it_states(sentence, value):
    assert extract("Answer: " + sentence).answer == value
    assert extract("We add them.\n\nAnswer:\n" + sentence).answer == value
    assert extract("The final answer is $10,455$. I hope it is correct.").answer == "10,455"


@each("text", ["Jake has 7 peaches and Jill has 65 peaches.", "A group of 5 friends spent $20.", "It is 540 or 9."])
def test_a_sentence_with_several_values_states_none(text):
    assert extract(text, unmarked="sentence").answer is None


@each(
    "json, answer",
    [
        ('{"answer": "theta^2"}', "theta^2"), ('{"answer": "No, $X$ is not prime"}', "No"),
        ('{"answer": ["B","F"]}', "B, F"), ('{"answer": {"x": 3, "y": 4}}', "x = 3, y = 4"),
        ('{"answer": false}', "false"), ('{"answer": [1, 2]}', "[1, 2]"), ('{"answer": "$\\\\frac12$"}', r"\frac12"),
    ],
)  # fmt: skip
def test_json_says_what_it_holds(json, answer):
    assert extract(json).answer == answer


def test_unmarked_texts_vote_as_asked():
    text = "He bought 3 ties.\nSo, John spent $800 on ties."
    assert extract(text, unmarked="none") == Extraction(None, "none")
    assert extract(text) == extract(text, unmarked="sentence") == Extraction("800", "sentence")
    assert extract(text, unmarked="number") == Extraction("800", "fallback")
    for doubtful in (
        "If it rains, he spends $800.",
        "He might need 5 of them.",
        "so 3 + 4 = 7 and then",
        "we get $x = 5",
    ):
        assert extract(doubtful, unmarked="sentence").answer is None, doubtful
    assert extract(text, unmarked="sentence", closed_only=True).answer is None
    assert extract("It could be B.", kind="choice", unmarked="sentence").answer is None


@each(
    "text, answer",
    [
        ("<|channel>thought\nmaybe \\boxed{3}<channel|>The answer is 7.<turn|>", "7"),
        ("<|channel>thought\nmaybe \\boxed{3}", None),
        ("thought\nx<channel|>\\boxed{4}<turn|>\n<|turn>user\nnext \\boxed{9}", "4"),
        ("<|START_THINKING|>\\boxed{1}<|END_THINKING|><|START_RESPONSE|>The answer is 2.<|END_RESPONSE|>", "2"),
        ("<|inner_prefix|>\\boxed{1}<|inner_suffix|>\\boxed{2}", "2"),
        ("Here are my reasoning steps:\n\\boxed{1}\n[BEGIN FINAL RESPONSE]\nThe answer is 5.\n<|end|>", "5"),
        ("\\boxed{1}<|close|>think<|sep|><|open|>response<|sep|>\\boxed{2}<|close|>response<|sep|>", "2"),
        ("<|open|>think<|sep|>\\boxed{1}", None),
        ("<longcat_think>\\boxed{1}</longcat_think>\\boxed{2}", "2"),
        ("[unused16]\\boxed{1}[unused17]\\boxed{2}", "2"),
        ("<|im_start|>think\n\\boxed{1}\n<|im_start|>answer\nAnswer: 6", "6"),
        ('<|channel|>final <|constrain|>json<|message|>{"answer": "4"}<|return|>', "4"),
        ("<|channel|>analysis<|message|>x \\boxed{1}", None),
        ("The roots are \\(\\boxed{1}\\) and \\(\\boxed{-2}\\).", "1, -2"),
        ("First \\boxed{1}. Then we double it and get \\boxed{2}.", "2"),
    ],
)
def test_only_the_reply_of_a_template_counts(text, answer):
    assert extract(text).answer == answer


@each(
    "text, letter",
    [
        ("The most likely diagnosis is (D) Aortic dissection.", "D"),
        ("The uncertainty in P_z is **B. h/2**.", "B"),
        ("The correct sequence of reagents is:\n\n**D. 1. NaNH2**\n\nThis works.", "D"),
        ("Therefore, option B is the best approach for such a kit.", "B"),
        ("Option C (6) is the closest to our values.", "C"),
        ("A. one: no.\nB. two: yes.\n\nThe data fits two.\n\nB", "B"),
        ("<|channel>thought\nA or C?<channel|>C", "C"),
        ("B is wrong: the sum is 4.\n\nQED ==> D", "D"),
        ("The next step is not **B. water**.", None),
        ("One of them is (A) water.", None),
        ("A. one\nB. two\n\nD", None),
    ],
)
def test_letters_under_another_noun(text, letter):
    assert extract(text, kind="choice", options=list("ABCD")).answer == letter


def test_the_plainest_spelling_stands_for_a_class_in_any_order():
    spellings = [r"\text{1560}", "1,560", "1560.0", "x = 1560", "1560", r"\text{1560}", r"\text{1560}"]
    for turn in range(len(spellings)):
        assert classify(spellings[turn:] + spellings[:turn]).answers == ("1560",)
    assert classify([r"\frac{1}{2}", "0.5"]).answers == ("0.5",)


def test_classes_say_what_stayed_apart():
    assert classify(["5 cm", "5 m", "5"]).apart == ((0, 1), (1, 2))
    assert classify(["5 cm", "5", "6"]).apart == ()


@each(
    "text, why",
    [
        ("<think>hm", "thinking"), ("so \\boxed{5", "closes"), ("I do not know.", "announces"),
    ],
)  # fmt: skip
def test_an_extraction_says_why_there_is_no_answer(text, why):
    assert why in extract(text).why
    assert "limit" in extract("The answer is 5.", closed_only=True).why
    assert "option" in extract(r"\boxed{A, B}", kind="choice").why
