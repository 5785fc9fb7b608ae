"""Every language of the table, every form, every kind: the matrix and the tables of docs/reference/answers.md are made from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dare_reward.answers import choice_letter, extract
from dare_reward.answers.languages import JOINED, LANGUAGES, VERB_LAST

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "answers.md"
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
ENGLISH = {"final": "Final {Answer}: {value}"}
OPTION_FORMS = {
    "option": "{Option}: {value}",
    "option, no colon": "{Option} {value}",
    "right option": "{Correct} {option}: {value}",
}
VALUES = {
    "math": {"18": "18", "$18$": "18", "1,234.5": "1,234.5"},
    "choice": {"B": "B", "(B)": "B", "B)": "B", "**B**": "B"},
    "text": {"Lima": "Lima"},
    "exact": {"Lima 7": "Lima 7"},
    "literal": {"[1, 2]": "[1, 2]"},
}
NEWLINE, BREAK = "\n", "`, below it `"
# MGSM, MMMLU and the languages of Belebele that have most text
REQUIRED = set(
    "ar bn cs da de el en es fa fi fr he hi hu id it ja ko ms nl no pl pt ro ru sv sw ta te th tr uk ur vi yo zh".split()  # noqa: SIM905
)


def titled(word: str) -> str:
    return word[0].upper() + word[1:]


def applies(form: str, code: str, kind: str) -> bool:
    """Not: a verb behind the value elsewhere; words between them, which may be a clause; marks that are part of `exact`."""
    if kind in {"text", "exact"} and (form == "verb last" or (form == "is" and code in VERB_LAST)):
        return False
    return (form != "verb last" or code in VERB_LAST) and (kind, form) != ("exact", "bold value")


def announced(code: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """Form, text and what is read in it: all announcements of a language for a kind."""
    row, blank = LANGUAGES[code], "" if code in JOINED else " "
    for answer in row["answer"]:
        words = {"Answer": titled(answer), "is_": row["is"][0], "final": row["correct"][-1], "_": blank}
        for name, form in (FORMS | ENGLISH if code == "en" else FORMS).items():
            for written, value in VALUES[kind].items() if applies(name, code, kind) else ():
                if not (form.startswith("**{") and "**" in written):
                    yield name, form.format(value=written, **words), value
    for name, form in OPTION_FORMS.items() if kind == "choice" else ():
        words = {"option": row["option"][0], "Option": titled(row["option"][0]), "Correct": titled(row["correct"][0])}
        yield name, form.format(value="(B)", **words), "B"


def read(text: str, kind: str) -> str | None:
    options = list("ABCD") if kind == "choice" else None
    return extract(f"... 7 ...\n{text}", kind=kind, options=options, unmarked="none").answer


def test_the_table_has_the_languages_of_the_benchmarks():
    assert LANGUAGES.keys() >= REQUIRED
    assert all(row[f] for row in LANGUAGES.values() for f in ("answer", "correct", "is", "option", "or", "undecided"))


def test_every_form():
    forms = [(kind, *form) for code in LANGUAGES for kind in VALUES for form in announced(code, kind)]
    assert [(text, found) for kind, _, text, value in forms if (found := read(text, kind)) != value] == []


@pytest.mark.parametrize("kind", ["math", "choice"])
@pytest.mark.parametrize("code", sorted(LANGUAGES))
def test_no_answer_is_none_however_it_is_said(code, kind):
    row = LANGUAGES[code]
    both = [f"A {word} D" for word in row["or"]] if kind == "choice" else []
    texts = [
        form.format(said, said[0].upper() + said[1:])
        for said in (*row["undecided"], *both)
        for form in (titled(row["answer"][0]) + ": {1}", r"\boxed{{\text{{{0}}}}}", "<answer>{0}.</answer>")
    ]
    assert {text: found for text in texts if (found := read(text, kind)) is not None} == {}


def test_an_option_called_by_its_name_is_its_letter():
    said = [f"{option} B" for row in LANGUAGES.values() for option in row["option"]]
    said += [f"{answer}: B" for row in LANGUAGES.values() for answer in row["answer"]]
    assert [text for text in said if choice_letter(text, "ABCD") != "B"] == []


def tables() -> str:
    """The tables of docs/reference/answers.md: what is read of a form, by kind; the words of each language in four forms."""
    lines = [
        "| form | example | " + " | ".join(f"`{kind}`" for kind in VALUES) + " |",
        "|---" * (len(VALUES) + 2) + "|",
    ]
    for name in (*FORMS, *OPTION_FORMS):
        code = "hi" if name == "verb last" else "de"
        texts = {kind: text for kind in VALUES for form, text, _ in reversed([*announced(code, kind)]) if form == name}
        cells = [f"`{read(texts[kind], kind)}`" if kind in texts else "" for kind in VALUES]
        lines.append(f"| {name} | `{next(iter(texts.values())).replace(NEWLINE, BREAK)}` | " + " | ".join(cells) + " |")
    lines += ["", "| language | 18, of `math` | | B, of `choice` | | no answer |", "|---" * 6 + "|"]
    for code in sorted(LANGUAGES):
        maths, letters = (
            {form: text for form, text, _ in reversed([*announced(code, kind)])} for kind in ("math", "choice")
        )
        shown = maths["colon"], maths["is"], letters["option"], letters["right option"], LANGUAGES[code]["undecided"][0]
        lines.append(f"| {code} | " + " | ".join(f"`{text}`" for text in shown) + " |")
    return "\n".join(lines)


def test_the_page_shows_what_is_read():
    assert tables() in PAGE.read_text(encoding="utf-8"), "python scripts/docs.py docs/reference/answers.md"


if __name__ == "__main__":
    print(tables())
