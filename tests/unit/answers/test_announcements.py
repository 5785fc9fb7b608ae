"""Every announcement, choice word, token of a turn and unit that extraction knows, written down a second time."""

from functools import partial

from rows import each

from dare_reward.answers import choice_letter, official_key
from dare_reward.answers import extract as extract_all

extract = partial(extract_all, unmarked="none")  # announcements, and nothing else

# what announces, in all its endings; {} is where the content stands
ANNOUNCED = r"""
The answer is {}|The answer: {}|The answer = {}|The answers are {}|Answer: {}|The answer was {}|The answer will be {}
The answer would be {}|The answer would then be {}|The answer should be {}|The answer must be {}|The answer has to be {}
The answer equals {}|The answer comes out to {}|The answer comes out to be {}|The answer turns out to be {}
The answer becomes {}|The answer -> {}|The answer => {}|The answer → {}|The answer of the sum is {}|The answer to it is {}
The answer for n is {}|The answer in cm is {}|The answer as asked is {}|The answer we want is {}|The answer I get is {}
The answer, as we saw, is {}|The answer (rounded) is {}|**Answer:** {}|**Answer**: {}|Answer - {}|Final answer. {}
The answer can be written as {}|The answer can be expressed as {}|the answer of {}|Final Answer\n{}
## Answer\n{}|Step 3. Final Answer\n\n{}|\textbf{Answer:} {}|The answer choice is {}|The answer value is {}|Ans: {}|Ans. {}
Die Antwort ist {}|Die Antwort lautet {}|Die Antwort beträgt {}|Antwort: {}|Die Antwort wäre {}|Die Antwort auf die Frage ist {}
Die Lösung ist {}|Die Lösung lautet {}
Lösung: {}|La respuesta es {}|La respuesta sería {}|La respuesta final es {}|La respuesta correcta es {}|Respuesta: {}
La respuesta definitiva es {}
La réponse est {}|La réponse serait {}|La réponse vaut {}|La réponse finale est {}|La réponse correcte est {}|Réponse: {}
La réponse exacte est {}|La réponse définitive est {}|La réponse à la question est {}
Ответ: {}|Ответ — {}|Ответ равен {}|Ответ это {}
Ответ будет {}|Ответ составляет {}|Ответ на задачу: {}|Ответ на вопрос: {}|答案是{}|答案为{}|答案為{}|答案：{}|答案应该是{}|答案應該是{}|答案就是{}
答案等于{}|答案={}|答：{}|答えは{}|答えが{}|答え：{}|解答は{}|回答は{}|解答：{}|回答：{}
#### {}|A: {}|**A:** {}|Work.\nA: {}|Work.\n**A**: {}
"""
ANNOUNCED_ROWS = [
    r.replace("\\n", "\n") for line in ANNOUNCED.strip().splitlines() for r in line.split("|") if r.strip()
]


BEHIND = ["| Answer | {} |"]  # fmt: skip


@each("row", ANNOUNCED_ROWS + BEHIND)
def test_announced_numbers(row):
    # 37 stands before it, so that no fallback can be right
    assert extract("We tried 37 and then went on.\n" + row.replace("{}", "42")).answer == "42"
    assert extract(row.replace("{}", "42")).source == "phrase"


@each(
    "filler",
    str.split(
        """approximately|approx.|about|around|roughly|exactly|simply|just|therefore|thus|then|indeed|hence|also|now|clearly|probably
likely|given by|equal to|that|actually|ungefähr|environ|approximativement|aproximadamente|donc|daher|somit|folglich|por tanto
portanto|quindi|dunque|≈|~|=|:|a total of|the number|the value|the integer""".replace("\n", "|"),
        "|",
    ),
)
def test_words_between_announcement_and_number(filler):
    assert extract(f"We tried 37.\nThe answer is {filler} 42.").answer == "42"
    assert extract(f"We tried 37.\nThe answer is {filler} $42$, as 5 < 6.").answer == "42"


@each(
    "denial",
    [
        "not",
        "definitely not",
        "certainly not",
        "simply not",
        "never",
        "no longer",
        "nicht",
        "nie",
        "pas",
        "no es",
        "não é",
        "non è",
    ],
)
@each(
    "instead",
    [", but ", " but rather ", ", sondern ", ", sino ", ", mais ", ", rather ", ", instead ", ". It is ", ", it's "],
)
def test_denied_and_said_instead(denial, instead):
    assert extract(f"The answer is {denial} 42.").answer is None
    assert extract(f"The answer is {denial} 42{instead}43.").answer == "43"


@each(
    "word",
    str.split("""let to we first firstly since because based given the|following as|follows as|shown i here this these in on using if it its see above
    below explanation step steps correct incorrect wrong right obtained shown listed found calculated determined expressed written there
    they he she you your what how why when where which who for from by so my our okay ok well sure one|of one|can
    an|integer a|number at|the wait final still clear already always reasonable consistent unclear unknown supposed asked needed required
    ready in|the derived|by hidden|in"""),
)
def test_words_that_begin_an_explanation(word):
    assert extract(f"Answer: {word.replace('|', ' ')} Lima").answer is None


@each(
    "unit",
    str.split("""cm mm km m nm kg g mg lb lbs oz ml l ft inch inches feet foot yard yards yd mile miles mi meter meters metre metres centimeters
    kilometers kilograms grams hour hours hr hrs minute minutes min second seconds sec day days week weeks month months year years
    degree degrees percent mph kmh j kj hz khz n pa kpa mol v w kw ohm ohms cents cent dollar dollars euro euros thousand million
    millions billion billions trillion hundred dozen pm am"""),
)
def test_units_behind_a_number(unit):
    if unit not in {"yd", "mi"}:
        assert extract(f"So the answer is 5 {unit}.").answer == f"5 {unit}"
        assert extract(f"So the answer is $5$ {unit}.").answer == f"5 {unit}"
    assert extract("So the answer is 5 frogs.").answer == "5"


@each(
    "function",
    str.split("sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp sqrt max min gcd lcm cis"),
)
def test_functions_are_no_prose(function):
    assert extract(f"The answer is 2 {function}(3) + 1.").answer == f"2 {function}(3) + 1"


# --- choices ---------------------------------------------------------------------------------------------------------

CHOSEN = r"""
The correct option is {}|The best choice is {}|The right statement is {}|The letter is {}|My selection is {}|The alternative is {}
The best match is {}|Option: {}|Choice: {}|The option would be {}|The option must be {}|The option should be {}|The option will be {}
I choose {}|We choose {}|I select {}|I pick {}|I chose {}|I go with {}|I'm going with {}|I would opt for {}|I am choosing {}|I'll pick {}
So, choose {}|Thus select {}|Eliminating the others leaves {}|Excluding them, leaving {}|They fail; we are left with {}|The closest is {}
Ruling those out leaves only {}|The others were discarded, which leaves us with {}|Response: {}|The response is {}|The best one is {}
The correct one would be {}|The most likely one is {}|选{}|选择{}|选项：{}|选{}。|選{}|選択{}|chọn {}|chọn đáp án {}|выбираю {}|The answer is {}
La opcion correcta es {}|La opción correcta es {}|A opcao correta é {}|A opção correta é {}|L'opzione corretta è {}|L'alternativa corretta è {}
La letra es {}|La lettera è {}|Вариант {}|Phương án đúng là {}|Lựa chọn đúng là {}|विकल्प: {}|الخيار الصحيح هو {}|选项是{}
選項是{}|選択肢は{}|La variante es {}|({}) is the correct answer|({}) is correct|{} is the best answer|({}) seems appropriate
Option {} is better|{} is the closest|({}) is the most likely|{} is the most plausible option|{} must be correct|{} should be right
{} would be correct|{} appears to be correct
Thus, {}.|Hence ({}).|So it must be {}.|Therefore, that is {}.|It is {}.|Only ({}) satisfies both.|Only {} works.|Only {} remains.
The answer is most likely {}|The answer is likely {}|The answer is probably {}|The answer is therefore {}|The answer is clearly {}
The answer is definitely {}|The answer is simply {}|The answer is thus {}|The answer is option {}|The answer is choice {}|The answer is letter {}
The answer is statement {}|Die Antwort ist {}|La respuesta es la opción {}|La réponse est la lettre {}|A resposta é a letra {}
A resposta é a alternativa {}|Ответ: вариант {}|Đáp án: phương án {}|答案是选项{}|答案：選項{}|The answer is the second option, {}
The answer is the last choice, {}|The answer is given by {}|La réponse est donc {}|Die Antwort ist daher {}|Die Antwort ist somit {}
La respuesta es por tanto {}|The answer is 5 m ({}).|The answer is 5 m, which is option {}.
The answer is not A but {}|The answer is not A, rather {}|The answer is not option A; it is {}|The answer is \text{{}}|The answer is **{}**
The answer is `{}`|The answer is $\mathrm{{}}$|The answer is ({}) 5 m|The answer is {}. Because of this|The answer is [{}]|The answer is "{}"
The text matches ({}).|This corresponds to ({}).|The answer is （{}）|Answer: ✅ {}|Answer → {}
"""
CHOSEN_ROWS = [r.replace("\\n", "\n") for line in CHOSEN.strip().splitlines() for r in line.split("|")]


@each("row", CHOSEN_ROWS)
def test_chosen_letters(row):
    assert extract("We read the text.\n" + row.replace("{}", "C"), kind="choice").answer == "C"
    assert extract(row.replace("{}", "C"), kind="choice").answer == "C"
    assert extract("We read the text.\n" + row.replace("{}", "Q"), kind="choice").answer is None


@each(
    "again",
    str.split("""wait actually no correction however reconsider mistake instead rather sorry oops hmm but recheck re-evaluate rethink reexamine reread
    review therefore thus so hence final after upon looking still reflect forgot misread mistook miscalculated overlooked closer 错 更正 重新 因此
    所以 最终 nein sondern doch aber let|me second|thought not|quite revised"""),
)
def test_taken_back(again):
    again = again.replace("|", " ")
    assert extract(f"The answer is B. {again}, the answer is C.", kind="choice").answer == "C"


CHOICES = r"""
C|c|(C)|C.|**C**|$C$|\boxed{C}|\text{(C)}|Option C|Answer: C|C) text|C: Newton|[C]|<C>|【C】|\textbf{C}|\mathrm{C}|\fbox{C}|\bf C|C - text
The answer is C|Final answer: C|The correct option is C|best choice: C|right letter C|richtige Antwort: C|Die Antwort ist C|La réponse est C
La bonne réponse est C|respuesta: C|La opción C|resposta: C|opção C|La risposta è C|opzione C|Đáp án là C|Ответ: C|Вариант C
答案是C|选项C|選項C|选择C|選擇C|選択肢C|答えはC|정답은 C|답: C|C、text|C。|C is the best|C (5 m)|option (C)|\textit{C}|\textsf{C}|\texttt{C}|\mathsf{C}
\operatorname{C}|\left(C\right)|C\quad|Ｃ|“C”|«C»|{C}|choice C|C; 5 m|C, which is red|C — text
"""


@each("raw", [r for line in CHOICES.strip().splitlines() for r in line.split("|")])
def test_letters_of_a_box(raw):
    assert choice_letter(raw) == "C"


# --- turns, boxes, tags ----------------------------------------------------------------------------------------------


@each(
    "token",
    str.split("""<|im_end|> <|im_start|> <|eot_id|> <|eom_id|> <|endoftext|> <|end_of_text|> <|begin_of_text|> <|start_header_id|> <|end|> <|return|>
    <|user|> <|EOT|> <|END_OF_TURN_TOKEN|> <|endofturn|> </s> <eos> <end_of_turn> <start_of_turn> <｜end▁of▁sentence｜> <｜User｜>"""),
)
def test_end_of_turn(token):
    assert extract(rf"So \boxed{{5}}.{token} and \boxed{{6}}").answer == "5"


@each(
    "opening",
    ["<|im_start|>assistant\n", "<|endoftext|>", "<|begin_of_text|>", "<|assistant|>", "<s>", "<start_of_turn>model\n", "<｜begin▁of▁sentence｜>",
     "<｜Assistant｜>", "<|start_header_id|>assistant<|end_header_id|>\n\n", "<s><|im_start|>assistant\n", "<|begin_of_text|><|im_start|>model "],
)  # fmt: skip
def test_opening_of_a_turn(opening):
    assert extract(opening + "5", kind="math").answer == "5"
    assert extract(opening + "B", kind="choice").answer == "B"


@each(
    ("opening", "closing"),
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"), ("◁think▷", "◁/think▷"),
     ("<thought>", "</thought>"), ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<reasoning>", "</reasoning>")],
)  # fmt: skip
def test_thinking(opening, closing):
    assert extract(rf"{opening}\boxed{{4}}{closing} 5").answer == "5"
    assert extract(rf"{opening}\boxed{{4}}{closing}").answer is None
    assert extract(rf"{opening}\boxed{{4}}").answer is None
    assert extract(rf"{opening}\boxed{{4}}", open_think=True).answer == "4"
    assert extract(rf"\boxed{{4}}{closing}\boxed{{5}}").answer == "5"


def test_channels():
    assert extract(r"<|channel|>analysis<|message|>\boxed{4}<|end|><|channel|>final<|message|>\boxed{5}").answer == "5"
    assert extract(r"<|channel|>analysis<|message|>\boxed{4}").answer is None
    assert extract(r"<|channel|>analysis<|message|>\boxed{4}", open_think=True).answer == "4"
    assert extract("so \boxed{7}").answer == "7"


@each(
    "line",
    ["Question:", "Q:", "Problem 2:", "Exercise:", "Human:", "User:", "Instruction:", "Input:", "问题：", "题目：", "Frage:", "Pregunta:", "Вопрос:", "### Question:",
     "**Question 3**:", "# Problem 2\n", "**Problem 2**\n", "## Question 2.\n", "## Exercise 3\n", "## Example 3\n", "> Question 5 :"],
)  # fmt: skip
def test_further_question(line):
    assert extract(f"The answer is 5.\n{line} What is 2+2?\nThe answer is 4.").answer == "5" or line.endswith("\n")
    assert extract(f"The answer is 5.\n{line}\nWhat is 2+2?\nThe answer is 4.").answer == "5"
    assert extract(f"Well.\n{line}\nWhat is 2+2?\nThe answer is 4.").answer == "4"


@each(
    "nothing",
    ["", " ", "...", "…", "?", "_", "~", ",", ":", "$", r"\,", r"\;", r"\:", r"\!", r"\_", r"\dots", r"\ldots", r"\cdots", r"\vdots", r"\quad",
     r"\qquad", r"\square", r"\phantom{}", r"\hspace{}", r"\underline{}", r"\text{answer}", r"\mathrm{answer}", "answer", "your answer", "the answer",
     "final answer", "insert answer here", "<answer>", "[answer]", "ANSWER", "result", "your final result here"],
)  # fmt: skip
def test_boxes_that_hold_nothing(nothing):
    assert extract(rf"So \boxed{{5}}. Put it in \boxed{{{nothing}}}.").answer == "5"
    assert extract(rf"So \boxed{{5{nothing}}}.").answer.startswith("5")


# --- the published runs ----------------------------------------------------------------------------------------------


# --- budgets: at the limit and one beyond ----------------------------------------------------------------------------


@each(
    ("at", "beyond"),
    [
        ("B. " + "x" * 197, "B. " + "x" * 198),  # a reply that is one option: 200 characters
        ("Text.\n\n(C" + " " * 21 + ")", "Text.\n\n(C" + " " * 22 + ")"),  # a last line that is a letter: 24
    ],
)  # fmt: skip
def test_budgets_of_letters(at, beyond):
    assert extract(at, kind="choice").answer in {"B", "C"}
    assert extract(beyond, kind="choice").answer is None


def test_budget_of_a_choice():
    assert choice_letter("C. " + "x" * 3_995 + " D)") == "C"  # what is read ends before the second letter
    assert choice_letter("C. " + "x" * 3_994 + " D)") is None


def test_budget_of_further_questions():
    asked = "".join(f"\nQuestion: {n}?" for n in range(7))
    assert extract(asked + "\nQuestion: a?\nThe answer is 5.\nQuestion: b?\nThe answer is 6.").answer == "6"
    assert extract("\nQuestion: a?" * 6 + "\nThe answer is 5.\nQuestion: b?\nThe answer is 6.").answer == "5"


def test_contradictions_are_near():
    for filler, answer in ((102, None), (103, "C")):
        assert extract(f"The answer is B. {'x' * filler} The answer is C.", kind="choice").answer == answer


def test_words_of_an_answer():
    assert extract("The answer is " + "word " * 11 + "word.").answer == ("word " * 12).strip()
    assert extract("The answer is " + "word " * 12 + "word.").answer is None
    assert extract("The answer is " + "word " * 34 + "just 5 only.").answer is None


def test_budget_of_the_vote():
    assert official_key("1+" * 1_000 + "2") == "1+" * 1_000
    assert official_key("1+" * 999 + "22") == "1+" * 999 + "22"


@each(
    ("text", "answer"),
    [
        (" Sydney", "Sydney"), ("Sydney.\n", "Sydney."), ("went", "went"), ("not guilty", "not guilty"), ("false", "false"), ("São Paulo", "São Paulo"),
        ("It is Sydney", "It is Sydney"), ("Sydney\nMelbourne", None), ("", None), ("Which one?", None), ("I guess Sydney", None), ("Let me think", None),
        ("So Lima is the answer.", None), ("The answer is not Lima.", None), ("The city is:", None), ("It isn't Lima", None), ("x" * 61, None),
    ],
)  # fmt: skip
def test_a_reply_of_one_short_line(text, answer):
    """A small model that was shown bare answers: 703 of 704 of its rollouts were without one."""
    assert extract(text, kind="text", unmarked="sentence").answer == answer
    assert extract(text, kind="text").answer is None
    assert extract(text, kind="text", unmarked="sentence", closed_only=True).answer is None


@each(
    ("text", "kind", "answer"),
    [
        ("It was 3 or 1,234, or", "math", "1,234"), ("It is -3.5 here", "math", "-3.5"), ("It is .5 here", "math", ".5"), ("none", "math", None), ("I think B or C maybe", "choice", "C"), ("A cat I saw", "choice", None),
        ("B then A", "choice", "A"), ("B then Z", "choice", "B"), ("3", "text", None), ("It is −3 here", "math", "−3"),
    ],
)  # fmt: skip
def test_fallbacks(text, kind, answer):
    found = extract(text, kind=kind, unmarked="number")
    assert found.answer == answer
    assert found.source == ("fallback" if answer else "none")
    assert extract(text + r" \boxed{", kind=kind, closed_only=True, unmarked="number").answer is None


@each("word", ["or", "and", "oder", "und", "ou", "et", "o", "y", "或", "和", "или"])
def test_two_boxes_joined_are_no_choice(word):
    assert extract(rf"\boxed{{A}} {word} \boxed{{B}}", kind="choice").answer is None
    assert extract(rf"$\boxed{{A}}$, {word} $\boxed{{A}}$", kind="choice").answer == "A"
    assert extract(r"\boxed{A} then \boxed{B}", kind="choice").answer == "B"
