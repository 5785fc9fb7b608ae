"""The same questions on a terminal, for machines without a browser."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ..errors import printable
from .session import KEYS, LabelQuestion, Session

HELP: Final = "1-9 this one | =ANSWER another one | n none | c cannot tell | r1 its rollouts | b back | s skip | q quit"
TEXTS: Final = 3  # of an answer that is looked into


def ask_all(session: Session, *, read: Callable[[str], str], write: Callable[[str], None]) -> None:
    """Until all questions are decided, or the person ends it (q, or the end of the input)."""
    at = next((i for i, q in enumerate(session.questions) if q.group_id not in session.labels), 0)
    while session.open and 0 <= at < len(session.questions):
        question, since = session.questions[at], time.monotonic()
        write(_shown(session, at))
        step = None
        while step is None:
            try:
                word = read("> ").strip()
            except EOFError:
                return
            if word == "q":
                return
            step = _answer(session, question, word, time.monotonic() - since, write)
        at = max(at + step, 0) % len(session.questions)
        while step and word not in {"b", "s"} and session.open and session.questions[at] not in session.open:
            at = (at + 1) % len(session.questions)


def _answer(
    session: Session, question: LabelQuestion, word: str, seconds: float, write: Callable[[str], None]
) -> int | None:
    """How many questions to go on by; None where the word decided nothing."""
    place = int(word) if word.isdecimal() and word.isascii() and len(word) == 1 else 0
    if word in {"b", "s"}:
        return -1 if word == "b" else 1
    if word in {"n", "c"}:
        session.decide(question.group_id, "none" if word == "n" else "unknown", None, seconds)
        return 1
    if 0 < place <= min(len(question.choices), KEYS):
        session.decide(question.group_id, "right", question.choices[place - 1].answer, seconds)
        return 1
    if word.startswith("=") and word[1:].strip():
        votes = session.decide(question.group_id, "right", word[1:], seconds)
        write(f"saved; {votes} rollouts give it")
        return 1
    look = word[1:].strip()
    if word[:1] == "r" and look.isdecimal() and 0 < int(look) <= len(question.choices):
        for text, times in question.choices[int(look) - 1].texts[:TEXTS]:
            write(printable(f"--- {times} times:\n{text}", keep="\n"))
        return None
    write(HELP)
    return None


def _shown(session: Session, at: int) -> str:
    question = session.questions[at]
    total = question.silent + sum(c.votes for c in question.choices)
    head = f"\n[{at + 1} of {len(session.questions)}, {len(session.open)} open] {question.group_id}"
    lines = [head, question.prompt or "(no prompt in this file)", ""]
    lines += [f"  {i}  {c.answer}  ({c.votes} of {total})" for i, c in enumerate(question.choices[:KEYS], 1)]
    if len(question.choices) > KEYS:
        lines.append(f"     {len(question.choices) - KEYS} rarer answers: write one with =")
    return printable("\n".join([*lines, HELP]), keep="\n")
