"""One prompt, one reply and one label say the same to every way in."""

import json
from functools import partial

import pytest
from jsonl import write_lines

from dare_reward.errors import ConfigError, RequestError
from dare_reward.files.labels import LabelFile
from dare_reward.files.reader import Reader
from dare_reward.files.shapes import Notes, prompt_texts, shape_of
from dare_reward.openrlhf import AnswerRules, Label, read_label
from dare_reward.runs.line import objects, of_groups, of_scored
from dare_reward.scoring.score import score
from dare_reward.stacks.adapter import Scorer
from dare_reward.stacks.rollout import label_of, prompt_text
from dare_reward.stacks.trl_rollout import text_of
from dare_trainer.launch.questions import load_own


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


user, said, system = (partial(turn, role) for role in ("user", "assistant", "system"))
IMAGE, TOOL = {"type": "image_url", "image_url": {}}, turn("tool", "4")


def text_part(text):
    return {"type": "text", "text": text}


def question(tmp_path, value, name):
    file = tmp_path / "questions.jsonl"
    file.write_text(json.dumps({name: value, "label": "1"}))
    (found,) = load_own(file)
    return found.text


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Why?", "Why?"),
        ([user("Why?")], "Why?"),
        ([system("Be brief."), user("Why?")], "Be brief.\nWhy?"),
        ([system(""), user("Why?")], "Why?"),
        ([user("1?"), said("one"), user("2?")], "1?\none\n2?"),
        ([user("2 + 2?"), said(None, tool_calls=[{}]), TOOL, user("And?")], "2 + 2?\n4\nAnd?"),
    ],
)
def test_a_prompt_asks_all_that_its_messages_say(tmp_path, prompt, text):
    for name in ("prompt", "messages"):
        assert (prompt_text(prompt), prompt_texts({name: prompt}), question(tmp_path, prompt, name)) == (
            text, (text,), text
        )  # fmt: skip


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ([user([IMAGE, text_part("What?")])], "What?"),
        ([user([text_part("Wh"), text_part("y?")])], "Why?"),
        ([system("Be brief.")], "Be brief."),
        ([user(None)], None),
        ([], None),
        (user("Why?"), None),
        (["Why?"], None),
    ],
)
def test_what_no_text_asks_is_no_question(tmp_path, prompt, text):
    """Rollouts of it may be scored: their prompt is what they say of it."""
    assert (prompt_text(prompt), prompt_texts({"prompt": prompt})) == (text, text and (text,))
    with pytest.raises(ConfigError, match="question"):
        question(tmp_path, prompt, "prompt")


def test_the_last_reply_of_a_conversation_is_not_asked(tmp_path):
    """In a field that holds prompts it is the beginning of the reply, which no question can send."""
    whole = [user("1?"), said("one"), user("2?"), said("two")]
    assert prompt_texts({"messages": whole}) == ("1?\none\n2?",)
    assert {question(tmp_path, whole, name) for name in ("prompt", "messages")} == {"1?\none\n2?"}
    assert {prompt_text(whole), *prompt_texts({"prompt": whole})} == {"1?\none\n2?\ntwo"}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("plain", "plain"),
        ([said("a"), TOOL, said("b")], "b"),
        ([said("a"), TOOL], "a"),
        ([said("a"), said(None, tool_calls=[{}])], None),
        ([said([text_part("x"), {"type": "image"}])], "x"),
        ([said([{"type": "thinking", "thinking": "y"}, {"type": "reasoning", "text": "y"}, {"text": "x"}])], "x"),
        ([user("a")], None),
        ([], None),
    ],
)
def test_a_reply_is_what_the_assistant_says_last(reply, text):
    group = shape_of({"group_id": "g", "rollouts": [{"text": reply}]}, Notes(), top=False)
    assert (text_of(reply), group["rollouts"][0]["text"] or None) == (text or "", text)


def test_a_part_that_is_no_text_is_refused_by_name():
    reply = [said([{"type": "audio", "audio": "..."}])]
    for read in (text_of, lambda r: shape_of({"rollouts": [{"text": r}]}, Notes(), top=False)):
        try:
            found = read(reply)
        except RequestError as error:
            found = error
        assert isinstance(found, RequestError)
        assert "'audio'" in str(found)


def labels_of(tmp_path, value, kind):
    """The label as a stack, a file, a file of labels and a question have it; a refusal as its code."""
    how = {"kind": "choice", "options": 5} if kind == "choice" else {"kind": kind}
    group = {"group_id": "g", "prompt": "?", **how, "rollouts": [{"answer": "1"}]}
    rows = {"whole": {**group, "label": value}, "group": group, "labels": {"group_id": "g", "label": value}}
    rows["question"] = {"prompt": "?", "label": value, **how} | ({"options": list("vwxyz")} if kind == "choice" else {})
    files = {name: write_lines(tmp_path / f"{name}.jsonl", [row]) for name, row in rows.items()}
    yield label_of(value, kind)
    for file, labels in (("whole", None), ("group", LabelFile(str(files["labels"]), tell=lambda _: None))):
        ((_, found),) = Reader(str(files[file]), labels=labels)
        yield getattr(found, "code", None) or found["label"]
    try:
        yield load_own(files["question"])[0].label
    except ConfigError as error:
        yield str(error)


@pytest.mark.parametrize(
    ("value", "kind", "label"),
    [
        (4, "text", "4"),
        (4.0, "text", "4"),
        (4.5, "text", "4.5"),
        (1e20, "math", "100000000000000000000"),
        ("4.0", "text", "4.0"),
        (2, "choice", "C"),
        (2.0, "choice", "C"),
        ("C", "choice", "C"),
        (0, "choice", "A"),
    ],
)
def test_a_label_is_one_text(tmp_path, value, kind, label):
    """A whole number has no point, and of a choice it is an option's index."""
    assert {*labels_of(tmp_path, value, kind)} == {label}
    if kind != "choice":
        assert read_label(json.dumps({"answer": value})).answer == label


def test_an_index_of_no_option_is_no_label(tmp_path):
    """As where a data set counts options from 1."""
    stack, whole, joined, question = labels_of(tmp_path, 12, "choice")
    assert (stack, whole, joined) == (None, "label", "label")
    assert "12 is the index of no option" in question


def test_labels_that_mean_nothing_are_not_called_missing(tmp_path, ran):
    group = {"kind": "choice", "label": "Paris", "rollouts": [{"answer": "A", "mean_entropy": 0.2}]}
    file = write_lines(tmp_path / "in.jsonl", [group] * 3)
    assert "no answer can equal any of its 3 labels, such as Paris" in ran(["calibrate", str(file)], 2).err


def logged(group, params, method):
    """What a group gets, and its line in a service's run log and in a client's."""
    scored = score([group], params, method=method)
    records = of_scored(scored, [group]), of_groups([group], scored.reply.groups, params=params)
    return scored.reply.groups[0], [line for record in records for line in objects(record, 0.0)]


@pytest.mark.parametrize(
    ("rule", "value", "answer", "label", "right"),
    [
        ("significant", 3, "3.14159", "3.14", True),
        ("units", "ignore", "3 cm", "3 m", True),
        ("units", "distinct", "3 cm", "3", False),
        ("percent", "fraction", "50%", "0.5", True),
        ("percent", "distinct", "50%", "50", False),
        ("names", "ignore", "x = 3", "y = 3", True),
        ("names", "distinct", "x = 3", "3", False),
        ("list_order", "keep", "2, 3", "3, 2", False),
        ("log", "natural", r"\log e", "1", True),
        ("log", "natural", r"\log 100", "2", False),
        ("intervals", "distinct", "(1,2)", "1 < x < 2", False),
    ],
)
def test_an_answer_equals_its_label_by_the_rules_of_the_run(rule, value, answer, label, right):
    """By default each of these would be the other way round."""
    group, params = {"label": label, "rollouts": [{"answer": answer}, {"answer": "17"}]}, {rule: value}
    scored, lines = logged(group, params, method="gt")
    assert scored.rewards == (right, 0.0)
    assert AnswerRules(params).right(answer, Label(label)) is right
    assert Scorer.of("http://localhost:1", method="gt", **params).grade({"answer": answer}, label) == right
    assert [line["rollouts"][0]["correct"] for line in lines] == [right] * 2
    assert score([group], {}, method="gt").reply.groups[0].rewards[0] != right


def test_of_a_group_that_was_not_scored_every_log_has_what_its_texts_say():
    group = {"label": "4", "rollouts": [{"text": r"\boxed{4}"}, {"text": "so 5", "mean_entropy": 0.2}, {"text": "no"}]}
    scored, lines = logged(group, {"unmarked": "number"}, method="dare")
    assert scored.error.code == "missing_entropy"
    told = [[(r["answer"], r["correct"]) for r in line["rollouts"]] for line in lines]
    assert told == [[("4", True), ("5", False), (None, False)]] * 2


def test_labels_that_contradict_each_other_grade_nothing_in_a_client_s_log():
    group = {"label": "1", "label_conflict": True, "rollouts": [{"answer": "1"}]}
    _, lines = logged(group, {}, method="ttrl")
    assert [r.get("correct") for line in lines for r in line["rollouts"]] == [None] * 2
