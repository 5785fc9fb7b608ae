"""Rows of tests/data/answer_rows.jsonl, each with what it is there for: two answers that are the same or not, or what is
read of a text."""

import json
from pathlib import Path

from rows import each

from dare_reward.answers import ANSWERS_VERSION, canonical, choice_letter, classify, extract, grade
from dare_reward.answers.algebra.parse import Op, parse
from dare_reward.answers.algebra.tokens import tokenise
from dare_reward.answers.algebra.tree import evaluate
from dare_reward.answers.cleanup import fold, peel
from dare_reward.answers.extraction.prose_values import unit_after
from dare_reward.answers.forms.relations import name_of
from dare_reward.answers.forms.written import read_formula
from dare_reward.answers.kinds import Unreadable
from dare_reward.answers.labels import read_label
from dare_reward.answers.markup import undecorated, without_html
from dare_reward.answers.number_words import chinese_number

PATH = Path(__file__).parents[2] / "data" / "answer_rows.jsonl"
ROWS = [json.loads(line) for line in PATH.read_text(encoding="utf-8").splitlines()]


def tree(text):
    def show(node):
        return f"{node.name}({','.join(map(show, node.args))})" if isinstance(node, Op) else str(node)

    tokens = [t._replace(kind="op") if t.text == "mod" else t for t in tokenise(text)]
    return show(parse(tokens))


def readable(read):
    def value(text):
        try:
            return read(text)
        except Unreadable:
            return None

    return value


READ = {
    "extracted": lambda text, **rules: extract(text, **rules).answer,
    "announced": lambda text, **rules: extract(text, unmarked="none", **rules).answer,
    "key": lambda text: [(key := canonical(text)).kind, key.value, key.tag],
    "kind": lambda text: canonical(text).kind,
    "classes": lambda answers: list(classify(answers).index),
    "tree": readable(tree),
    "number": readable(lambda text: evaluate(parse(tokenise(text)), {})),
    "read": lambda text: canonical(text).kind not in {"opaque", "text"},
    "letter": choice_letter,
    "label": read_label,
    "formula of chemistry": read_formula,
    "without html": without_html,
    "undecorated": undecorated,
    "chinese numeral": chinese_number,
    "unit after a number": unit_after,
    "folded": fold,
    "peeled": lambda text: " ".join(peel(text).split()),
    "name": lambda text: name_of(tokenise(text)),
    "tokens": lambda text: [token.text for token in tokenise(text)],
}


def check(*, why, **row):
    if "of" in row:
        assert READ[row.pop("of")](row.pop("text"), **{k: v for k, v in row.items() if k != "value"}) == row["value"]
        return
    a, b, same = (row.pop(name) for name in ("a", "b", "same"))
    assert grade(a, b, **row) == grade(b, a, **row) == same
    for answer in (a, b):
        assert grade(answer, answer, **row) == (canonical(answer, **row) is not None)


def test_keys_are_those_of_this_version():
    """Keys are compared over time and machines: whoever changes one of the rows changes the version."""
    assert ANSWERS_VERSION == "8"


@each("row", ROWS)
def test_rows(row):
    check(**row)
