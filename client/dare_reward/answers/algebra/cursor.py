"""The place in the list of tokens that the parser has reached, and how far it looks ahead."""

from __future__ import annotations

from ..unreadable import Unreadable
from .literals import small
from .tokens import Token


class Cursor:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.i = 0
        self.after_command = -1  # where the last \frac or \binom ended: a number may follow it
        self.stops: list[str] = []

    def peek(self, ahead: int = 0) -> Token | None:
        i = self.i + ahead
        return self.tokens[i] if i < len(self.tokens) else None

    def at(self, *texts: str, ahead: int = 0) -> bool:
        i = self.i + ahead
        return i < len(self.tokens) and (t := self.tokens[i]).kind == "op" and t.text in texts

    def take(self, *texts: str) -> bool:
        if self.at(*texts):
            self.i += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise Unreadable(f"{text} is missing")

    def plain_fraction(self) -> tuple[int, int, int] | None:
        if not self.at("/", ahead=1):
            return None
        parts = self.tokens[self.i : self.i + 3]
        if len(parts) == 3 and parts[0].space and parts[0].kind == parts[2].kind == "num":
            return small(parts[0].text), small(parts[2].text), 3
        return None

    def latex_fraction(self) -> tuple[int, int, int] | None:
        if not self.at("frac"):
            return None
        parts = [t.text for t in self.tokens[self.i + 1 : self.i + 7]]
        if len(parts) == 6 and parts[0] == parts[3] == "{" and parts[2] == parts[5] == "}":
            return small(parts[1]), small(parts[4]), 7
        if parts and len(parts[0]) == 2 and parts[0].isdigit():
            return int(parts[0][0]), int(parts[0][1]), 2
        return None
