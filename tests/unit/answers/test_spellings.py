"""Every entry of the tables of units, letters and names: its spellings are one, and it is told apart from the others."""

from rows import each

from dare_reward.answers import canonical, grade
from dare_reward.answers.number_words import POWERS
from dare_reward.answers.tables import listed, rows, words

UNITS = [row.split() for row in rows("units")]
MONTHS = words("January February March April May June July August September October November December")
MATRICES = words("pmatrix bmatrix matrix Bmatrix smallmatrix vmatrix Vmatrix")


@each("row", UNITS)
def test_spellings_of_a_unit(row):
    first = canonical(f"7 {row[-1]}")
    assert (first.kind, first.value, first.tag[:5]) == ("exact", "7", "unit=")
    for other in row:
        assert canonical(f"7 {other}") == first or other in {"l", "A", "C", "F"}, other  # letters are variables


def test_units_are_told_apart():
    units = {prefix + unit for prefix in "kMGmnp" for unit in words("N J W V A Pa Hz eV F T")}
    units |= {row[0] if row[0] != "l" else "L" for row in UNITS} - {"A", "C", "F"}
    assert len({canonical(f"7 {unit}") for unit in units}) == len(units)
    assert canonical("5 cm", units="distinct") == canonical("5 centimeters", units="distinct") != canonical("5")


def test_months():
    for n, month in enumerate(MONTHS, 1):
        assert grade(f"{month} 7, 2024", f"2024-{n:02}-07"), month
        assert grade(f"7 {month[:3]} 2024", f"2024-{n:02}-07"), month
        assert grade(f"{month} 2024", f"{month[:3]}. 2024"), month
        assert not grade(f"{month} 2024", f"2024-{n:02}-01")
    assert grade("Sept. 3", "the 3rd of September")
    assert not grade("2024-13-01", "2024-12-01")
    assert canonical("March 32").kind != "exact"


def test_scale_words():
    for word, scale in {
        "hundred": 100,
        "dozen": 12,
        **{w: POWERS[w] for w in words("thousand million billion")},
    }.items():
        assert canonical(f"3 {word}") == canonical(rf"3 \text{{ {word}}}") == canonical(str(3 * scale))
        assert canonical(f"3 {word} meters").value == str(3 * scale)
        assert canonical(f"3.5 {word.title()}").value == str(35 * scale // 10)


@each("word", listed("other_nouns"))
def test_words_after_a_number_that_were_not_counted(word):
    for text in (f"12 {word}", f"12 {word} apples"):
        key = canonical(text)
        assert not key.tag.startswith("unit=") or key.tag == "unit=in", text


@each("letter", words("m s g h N J W V K L T"))
def test_a_letter_is_a_unit_behind_a_blank_only(letter):
    assert canonical(f"7 {letter}").value == canonical(rf"7\,\mathrm{{{letter}}}").value == "7"
    assert canonical(f"7{letter}").kind == "fingerprint"


def test_letters_are_told_apart():
    names = [
        *(name for name in listed("greek") if name != "zeta"),
        *(rf"{accent}{{x}}" for accent in listed("accents")),
    ]
    keys = {canonical(rf"3\{name}+1") for name in names}
    assert len(keys) == len(names)
    assert {key.kind for key in keys} == {"fingerprint"}
    for name in names:
        assert canonical(rf"\{name}+\{name}") == canonical(rf"2\{name}"), name


@each("name", words("sin cos tan cot sec csc arcsin arccos arctan log exp ln"))
def test_function_joined_to_its_letter(name):
    assert canonical(f"{name}x + 1") == canonical(rf"\{name} x + 1") != canonical("x + 1")


@each("name", MATRICES)
def test_matrices(name):
    body, head = rf"\begin{{{name}}}1&2\\x&\frac12\end{{{name}}}", "det" if name[0] in "vV" else "matrix"
    assert canonical(body).value.startswith(head + "[1,2/")
    assert canonical("2" + body).value.startswith(head + "[2,4/")
    assert canonical("-" + body).kind == "structured"
