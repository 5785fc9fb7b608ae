"""What is read of a text, and which answers are the same: the rows and pairs of tests/data/, each with what it is there
for, and the rulings of docs/reference/answers.md."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

from jsonl import read_lines
from rows import each

import dare_reward
from dare_reward.answers import ANSWERS_VERSION, answer_span, canonical, choice_letter, classify, extract, grade
from dare_reward.answers.algebra.parse import Op, parse
from dare_reward.answers.algebra.tokens import tokenise
from dare_reward.answers.algebra.tree import evaluate
from dare_reward.answers.cleanup import fold, peel
from dare_reward.answers.extraction.prose_values import unit_after
from dare_reward.answers.forms.relations import name_of
from dare_reward.answers.forms.written import read_formula
from dare_reward.answers.keys import is_answer
from dare_reward.answers.kinds import Unreadable
from dare_reward.answers.labels import read_label
from dare_reward.answers.markup import undecorated, without_html
from dare_reward.answers.number_words import chinese_number

ROOT = Path(__file__).parents[3]
ROWS, *SETS = (
    read_lines(ROOT / "tests" / "data" / name)
    for name in ("answer_rows.jsonl", "answer_pairs.jsonl", "answer_pairs_blind.jsonl.gz")
)
PAIRS = [pair for pairs in SETS for pair in pairs]
PAGE = (ROOT / "docs" / "reference" / "answers.md").read_text()
RULED = re.compile(r"^\| `(.+?)` \| `(.+?)` \| (yes|no) \| .+ \|$", re.MULTILINE)
RULINGS = [(a.replace("\\|", "|"), b.replace("\\|", "|"), same == "yes") for a, b, same in RULED.findall(PAGE)]


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


def marked(text, **given):
    """The text with its answer in marks, which is where a reply says that it stands."""
    answer, (low, high) = extract(text, **given).answer, answer_span(text, lambda t: extract(t, **given).answer)
    group = {**given, "rollouts": [{"text": text}, {"text": text}, {"text": "Let me see"}]}
    (reply,) = dare_reward.estimate([group], method="ttrl", spans=True).groups
    assert (reply.answers, reply.answer_spans) == ((answer, answer, None), ((low, high), (low, high), None))
    assert "no_span" not in reply.flags
    return f"{text[:low]}»{text[low:high]}«{text[high:]}"


READ = {
    "extracted": lambda text, **rules: extract(text, **rules).answer,
    "announced": lambda text, **rules: extract(text, unmarked="none", **rules).answer,
    "unmarked": lambda text, **rules: [(found := extract(text, **rules)).answer, found.source],
    "marked": marked,
    "key": lambda text, **rules: [(key := canonical(text, **rules)).kind, key.value, key.tag],
    "kind": lambda text: canonical(text).kind,
    "classes": lambda answers: list(classify(answers).index),
    "representatives": lambda answers: list(classify(answers).answers),
    "apart": lambda answers: [list(pair) for pair in classify(answers).apart],
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


def check(a, b, same, **how):
    """The verdict on two answers, in both orders and as a group of two; each of them equals itself if it is an answer."""
    assert grade(a, b, **how) == grade(b, a, **how) == same
    one, other = classify([a, b], **how).index
    assert (one == other >= 0) == same
    for answer in (a, b):
        assert grade(answer, answer, **how) == (canonical(answer, **how) is not None)


def test_keys_are_those_of_this_version():
    """Keys are compared over time and machines: whoever changes one of the rows changes the version."""
    assert ANSWERS_VERSION == "8"


@each("row", ROWS)
def test_rows(row):
    how = {name: value for name, value in row.items() if name not in {"of", "text", "value", "why"}}
    if "of" in row:
        assert READ[row["of"]](row["text"], **how) == row["value"]
    else:
        check(**how)


def test_the_pairs_are_many_and_mixed():
    assert len(PAIRS) >= 500
    assert {p["kind"] for p in PAIRS} == {"math", "choice", "text", "exact"}
    assert 0.4 < sum(p["equal"] for p in PAIRS) / len(PAIRS) < 0.8
    assert all(p["reason"] and p["category"] for p in PAIRS)
    for pairs in SETS:
        assert max(Counter((p["a"], p["b"], p["kind"], str(p.get("options"))) for p in pairs).values()) == 1


@each("pair", PAIRS)
def test_pairs(pair):
    how = {"kind": pair["kind"], "options": pair.get("options")}
    check(pair["a"], pair["b"], pair["equal"], **how)
    for answer in (pair["a"], pair["b"]):
        assert is_answer(answer, **how) == (canonical(answer, **how) is not None)


def test_the_rulings_are_read():
    assert len(RULINGS) == PAGE.count(" | yes | ") + PAGE.count(" | no | ") > 30


@each("a, b, same", RULINGS)
def test_rulings(a, b, same):
    check(a, b, same)


def test_keys_are_transitive_over_all_texts():
    """Without tags equality is equality of keys; so any triple agrees. The texts of one kind are compared all with all."""
    by_key = {}
    for text in sorted({p[side] for p in PAIRS for side in "ab" if p["kind"] == "math"}):
        key = canonical(text)
        if key is not None and not key.tag:
            by_key.setdefault(key, []).append(text)
    for same in by_key.values():
        assert all(grade(a, b) for a, b in combinations(same[:6], 2))
    firsts = [same[0] for same in by_key.values()]
    assert not any(grade(a, b) for a, b in combinations(firsts[:150], 2))
