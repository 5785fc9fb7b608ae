"""What languages call an answer, an option, right, "is" and "or": tables from which patterns, tests and docs are made.

A row of tables/languages.txt is a language: fields with words between commas, in small letters.

    answer, option      the nouns          correct     right or final, before or behind the noun
    is, closing         the copula before and behind a value         article, or, not, but, so, adverb
    choose              "I choose", right before a letter            question    heads a further question
    ending              of nouns in the plural or behind a number
    undecided           says that there is no answer
    ones, tens          number words from 0 and from 20 on, with `/` between spellings; a blank may be left out
    hundreds, powers    from 100 on, where they are words; powers of ten, each with its exponent, or a value from 20 on
    inner, plus         "and" between tens and ones, and behind a hundred or a power

`JOINED` languages put no blanks between words, `VERB_LAST` the verb behind the value, `UNIT_FIRST` ones before tens,
`POWER_FIRST` the hundred before how many there are. English has forms of its own
beside its row, in the rules that read it.
"""

from __future__ import annotations

import re
from functools import cache

from .tables import rows, words

Language = dict[str, tuple[str, ...]]
FIELDS = words(
    "answer option correct is closing article or not but so adverb choose ending question undecided ones tens"
    " hundreds powers inner plus"
)


def _language(row: str) -> Language:
    said = dict(_FIELD.findall(row.replace("\n    ", ", ")))
    return {field: tuple(w for word in said.get(field, "").split(",") if (w := word.strip(" ;"))) for field in FIELDS}


_FIELD = re.compile(r"(\w+)=([^=]*)(?=[,;] \w+=|\Z)")
LANGUAGES = {row[:2]: _language(row[4:]) for row in rows("languages")}
JOINED = frozenset({"ja", "ko", "th", "zh"})
UNIT_FIRST, POWER_FIRST = frozenset({"ar", "da", "de", "nl"}), frozenset({"sw"})
DECIMAL_COMMA = frozenset(words("cs da de el es fi fr it nl no pl pt ro ru sv tr uk vi id"))
VERB_LAST = frozenset({"fa", "hi", "ta", "te", "ur"})


@cache
def every(*fields: str) -> tuple[str, ...]:
    """The words of all languages for these fields, each once, longer ones first."""
    words = {word for language in LANGUAGES.values() for field in fields for word in language[field]}
    return tuple(sorted(words, key=lambda word: (-len(word), word)))


def alternatives(*fields: str) -> str:
    """The words of fields as a part of a pattern: a word ends where its letters do, if its language has blanks."""
    joined = {word for code in JOINED for field in fields for word in LANGUAGES[code][field]}
    spaced = "|".join(word for word in every(*fields) if word not in joined)
    return "|".join([rf"(?:{spaced})(?![^\W\d_])", *sorted(joined, key=len, reverse=True)])


def pointed(content: str, before: str) -> str:
    """`content` with a decimal point, where the words `before` it are of a language that writes a comma."""
    if "," not in content or not (said := before.lower()) or not _COMMA.fullmatch(content):
        return content
    words = {word for code in DECIMAL_COMMA & LANGUAGES.keys() for word in LANGUAGES[code]["answer"]}
    return content.replace(",", ".") if any(word in said for word in words) else content


_COMMA = re.compile(r"[-−+]?\d{1,9},\d{1,9}(?:\s?(?:%|[^\W\d]{1,12}[²³]?)|(?:;\s[-−+]?\d{1,9},\d{1,9})++)?")


def stem(noun: str) -> str:
    """`noun` in small letters without its endings: "apples" and "apple", "рублей" and "рубля" have one stem."""
    said = noun.lower()
    while end := next((end for end in every("ending") if said.endswith(end) and len(said) - len(end) > 2), ""):
        said = said.removesuffix(end)
    return said


@cache
def english(name: str) -> str:
    """The phrases of tables/english.txt under this name as a part of a pattern; "-" ends the beginning of a word."""
    return "|".join(
        re.escape(phrase).replace(r"\ ", r"\s").removesuffix(r"\-") + (r"\w*" if phrase[-1] == "-" else r"\b")
        for phrase in PHRASES[name]
    )


PHRASES = {
    name: tuple(phrase.strip() for phrase in said.replace("\n    ", ",").split(","))
    for name, _, said in (row.partition(":") for row in rows("english"))
}
