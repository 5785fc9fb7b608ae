"""Every language of the table, every form, for mathematics and choices: the matrix is made from the table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dare_reward.answers import choice_letter, extract
from dare_reward.answers.languages import JOINED, LANGUAGES, VERB_LAST

FORMS = {
    "colon": "{Answer}: {value}",
    "bold": "**{Answer}:** {value}",
    "bold value": "{Answer}: **{value}**",
    "is": "{Answer}{_}{is_}{_}{value}",
    "final": "{Answer} {final}: {value}",
    "heading": "## {Answer}\n{value}",
    "line": "{Answer}:\n{value}",
    "verb last": "{Answer} {value} {is_}.",
}
OPTION_FORMS = ("{Option}: {value}", "{Option} {value}", "{Correct} {option}: {value}")
VALUES = {
    "math": {"18": "18", "$18$": "18", "1,234.5": "1,234.5"},
    "choice": {"B": "B", "(B)": "B", "B)": "B", "**B**": "B"},
}
# MGSM, MMMLU and the languages of Belebele that have most text
REQUIRED = set(
    "ar bn cs da de el es fa fi fr he hi hu id it ja ko ms nl no pl pt ro ru sv sw ta te th tr uk ur vi yo zh".split()  # noqa: SIM905
)


def rows(code: str) -> Iterator[tuple[str, str, str]]:
    """Kind, text and what it says."""
    for language in (row for row in LANGUAGES if row.code == code):
        words = {"is_": language.copula[0], "final": language.correct[-1], "_": "" if code in JOINED else " "}
        for answer in language.answer:
            for name, form in FORMS.items():
                for kind, values in VALUES.items():
                    for written, value in values.items() if name != "verb last" or code in VERB_LAST else ():
                        if not (form.startswith("**{") and "**" in written):
                            yield (
                                kind,
                                form.format(Answer=answer[0].upper() + answer[1:], value=written, **words),
                                value,
                            )
        for form in OPTION_FORMS:
            option, correct = language.option[0], language.correct[0]
            titled = {"Option": option[0].upper() + option[1:], "Correct": correct[0].upper() + correct[1:]}
            yield "choice", form.format(option=option, value="(B)", **titled), "B"


def test_the_table_has_the_languages_of_the_benchmarks():
    assert {row.code for row in LANGUAGES} >= REQUIRED
    assert all(all(column) for row in LANGUAGES for column in row)


@pytest.mark.parametrize("code", sorted({row.code for row in LANGUAGES}))
def test_every_form(code):
    options = list("ABCD")
    wrong = []
    for kind, text, value in rows(code):
        found = extract(f"... 7 ...\n{text}", kind=kind, options=options if kind == "choice" else None, unmarked="none")
        if found.answer != value:
            wrong.append((kind, text, found.answer))
    assert wrong == []


@pytest.mark.parametrize("code", sorted({row.code for row in LANGUAGES}))
def test_an_option_called_by_its_name_is_its_letter(code):
    for language in (row for row in LANGUAGES if row.code == code):
        for option in language.option:
            assert choice_letter(f"{option} B", "ABCD") == "B"
        for answer in language.answer:
            assert choice_letter(f"{answer}: B", "ABCD") == "B"
