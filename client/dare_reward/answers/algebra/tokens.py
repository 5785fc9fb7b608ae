"""From an answer's text to tokens: LaTeX, plain text and Unicode spellings of one thing become one token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from ..._pattern import pattern
from ..kinds import Unreadable
from ..markup import group_end
from ..tables import listed, spellings, words

MAX_TOKENS = 1_200


class Token(NamedTuple):
    kind: str  # num let word text fn set cmd, or op with the operator itself in text
    text: str
    space: bool = False  # a blank stood before it


Said = dict[str, tuple[str, str]]  # name: the kind and the text of the token that it stands for
CALLED: Said = {name: ("fn", name) for name in listed("functions")}
CALLED |= {alias: ("fn", name) for alias, name in spellings("aliases").items()}
# Spellings of one letter share its name.
_LETTERS: Said = {name: ("let", name) for name in ("pi", *listed("greek"))} | {"varsigma": ("let", "sigma")}
_LETTERS |= {"var" + name: ("let", name) for name in words("epsilon phi theta rho")}
_COMMANDS: Said = _LETTERS | CALLED | {name: ("op", text) for name, text in spellings("commands").items()}
_WORDS: Said = {name: said for name, said in _LETTERS.items() if name == "pi" or (len(name) > 2 and name != "psi")}
_WORDS |= {word: ("op", word.lower()) for word in words("and or choose OR AND")} | CALLED
_WORDS |= dict.fromkeys(words("infinity inf Infinity"), ("op", "oo"))
_SIGNS = {"==": "=", ":=": "=", "**": "^", "+/-": "+-"} | {"\\" + c: c for c in "%$#&_|'-/"}
_FIXED = {"row": "row", "dots": "...", "deg": "deg"}
_SKIPPED, _TEXTUAL, _FONTS, _ACCENTS = (frozenset(listed(name)) for name in ("skipped", "textual", "fonts", "accents"))
_NUMERIC = pattern(r"\d[\d.,]*+(?: [A-Za-z]++)?+")
_ACCENTED = pattern(r"\s*+(?:\{\s*+([A-Za-z]++(?:\s++[A-Za-z])*+)\s*+\}|([A-Za-z]))")
_UNIT_LETTERS = frozenset("msgNJWVKLACFThl")  # an upright letter after a number
_NEST = {"(": 1, "[": 1, "\\{": 1, ")": -1, "]": -1, "\\}": -1}
_TOKEN = pattern(
    r"(?P<space>(?:\s|~|\\[,;:! >]|\\\n)++)"
    r"|(?P<row>\\\\\*?(?:\s*+\[-?[\d.]++\s?(?:pt|em|ex|mm|cm|in)\])?)"
    r"|\\(?P<cmd>[A-Za-z]++\*?)"
    r"|(?P<esc>\\[{}%$#&_|'\-/])"
    r"|(?P<num>(?:\d++(?:\.\d++)?|\.\d++)(?:[eE][+-]?\d++(?![A-Za-z\d^(\\{]))?)"
    r"|(?P<word>[A-Za-z]++)"
    r"|(?P<dots>\.{3,}+)"
    r"|(?P<deg>\^\s*+(?:\{\s*+\\circ\s*+\}|\\circ(?![A-Za-z]))|(?:(?<=\d)|(?<=\d\s))\^(?:o(?![A-Za-z])|\{o\}))"
    r"|(?P<op><=|>=|!=|==|:=|\*\*|\+/-|[-+*/^_=<>()\[\]{},;:!|'%$&€£¥¢.]|[^\x00-\x7f])"
)
_PLAIN_NUMBER = pattern(r"\d++(?![\d.,{\\~eE(])")  # by far the most common
_THOUSANDS = pattern(r"[1-9]\d{0,2}(?:,\d{3})++(?![\d,]*\d)(?:\.\d++)?")
_MARKED_THOUSANDS = pattern(r"[1-9]\d{0,2}(?:(?:\{,\}|,\\! ?|\\,|\\;|\\ |~)\d{3})++(?!\d)(?:\.\d++)?")
_DECIMAL_COMMA = pattern(
    r"\d++(?:\{,\}\d{1,2}|,0\d?|(?<=(?<![\d,])0),\d{1,2}|,\d{1,2}(?=\s?(?:\\?%|€|\\mathrm|\\text)))(?![\d,.{])"
)  # 57{,}50 and 75,00, never a list: 75, 0
_SPACED_THOUSANDS = pattern(r"\s*+[-+]?\s*+([1-9]\d{0,2}(?: \d{3})++(?:\.\d++)?)(?!\d| \d|/| /|\s*\\frac)")
_REPEATING = pattern(
    r"(?P<start>\d++\.\d*+)(?P<cycle>\s*+\\overline\s*+\{?\s*+\d++\s*+\}?|\(\d++\)|\\dot\{?\d\}?(?:\d*+\\dot\{?\d\}?)?|\\bar\{?\d++\}?)"
)
# The product of two vectors that is a vector: \\cross is in no expression, so the two products stay apart.
# So is that of two sets, A \\times B, and the curl beside the divergence.
_CROSS = pattern(
    r"(?:\\(?:vec|mathbf|boldsymbol|bm|overrightarrow)\s*+(?:\{\s*+\\?[A-Za-z]++\s*+\}|[A-Za-z])"
    r"|(?<![A-Za-z\\])[A-Z](?![A-Za-z])|\\nabla(?![a-z]))(?:_\{?\w\}?)?+\s*+"
    r"(?=\\times\s*+(?:\\(?:vec|mathbf|boldsymbol|bm|overrightarrow)\b|[A-Z](?![A-Za-z])))"
)
_SET = pattern(r"\s*+(?P<brace>\{\s*+)?(?P<name>[RZNQCEP])(?(brace)\s*+\})")  # E and P: an expectation, a probability
_ENVIRONMENT = pattern(r"\s*+\{\s*+(?P<name>[A-Za-z]++\*?)\s*+\}(?:\s*+\[[a-z]\])?")
# Brackets in a list of tokens: where it splits, and whether one pair encloses all of it.
_STEPS = dict.fromkeys(words("( [ { \\{ lfloor lceil langle"), 1)
_STEPS |= dict.fromkeys(words(") ] } \\} rfloor rceil rangle"), -1)


def tokenise(s: str) -> list[Token]:
    """The tokens of a cleaned text. Raises Unreadable on what no rule names, and over the budget."""
    if "\\times" in s:
        s = _CROSS.sub(lambda m: m[0] + "\\cross ", s)
    if m := _SPACED_THOUSANDS.match(s):
        s = s[: m.start(1)] + m[1].replace(" ", "") + s[m.end(1) :]
    return _wide_blanks(_Scanner(s).tokens())


class _Scanner:
    """The place in the text, the tokens before it, how many brackets are open, and whether a blank is pending."""

    def __init__(self, s: str) -> None:
        self.s, self.at = s, 0
        self.out: list[Token] = []
        self.depth, self.space = 0, False

    def tokens(self) -> list[Token]:
        s, out = self.s, self.out
        while self.at < len(s):
            if len(out) > MAX_TOKENS:
                raise Unreadable("too many tokens")
            if s[self.at].isdigit() and (number := _number(s, self.at, self.depth)):
                text, self.at = number
                self.put("num", text)
                continue
            m = _TOKEN.match(s, self.at)
            if m is None:
                raise Unreadable("a character outside mathematics")
            self.at = m.end()
            kind, text = m.lastgroup or "", m[0]
            if kind == "space":
                self.space = True
            elif kind == "cmd":
                self.command(m["cmd"])
            else:
                if kind == "word":
                    kind, text = _WORDS.get(text) or ("let" if len(text) == 1 else "word", text)
                elif kind != "num":
                    kind, text = "op", _FIXED.get(kind) or _SIGNS.get(text, text)
                self.put(kind, text)
        return out

    def put(self, kind: str, text: str) -> None:
        self.out.append(Token(kind, text, self.space))
        self.depth += _NEST.get(text, 0) if kind == "op" else 0
        self.space = False

    def command(self, name: str) -> None:
        """What `\\name` stands for, with its argument where it takes one."""
        s = self.s
        if name in _SKIPPED:
            if name in {"quad", "qquad"}:
                self.put("op", "quad")
            self.at += name in {"left", "right"} and s[self.at : self.at + 1] == "."
            self.space = True
        elif name in _TEXTUAL or name in _FONTS:
            self.text(name)
        elif name in _ACCENTS and (m := _ACCENTED.match(s, self.at)):
            self.put("let", f"{name}.{m[1] or m[2]}")
            self.at = m.end()
        elif name in {"begin", "end", "mathbb"}:
            m = (_SET if name == "mathbb" else _ENVIRONMENT).match(s, self.at)
            if m is None:
                raise Unreadable("a set or an environment without a name")
            kind = "op" if name != "mathbb" else "let" if m["name"] in {"E", "P"} else "set"
            self.put(kind, f"{name} {m['name']}" if kind == "op" else m["name"])
            self.at = m.end()
        else:
            self.put(*_COMMANDS.get(name, ("cmd", "\\" + name)))

    def text(self, name: str) -> None:
        """The argument of a text command or a font: mathematics as such, words as one token."""
        s = self.s
        while self.at < len(s) and s[self.at] == " ":
            self.at += 1
        if s[self.at : self.at + 1] != "{":
            self.space = True
            return
        end = group_end(s, self.at)
        if end is None:
            raise Unreadable("open brace")
        raw = s[self.at + 1 : end - 1]
        self.at = end
        said = " ".join(raw.replace("\\cdot", "*").replace("~", " ").replace("\\ ", " ").replace("\\,", " ").split())
        if not said:
            self.space = True
        elif _NUMERIC.fullmatch(said) or (name in _FONTS and not said.replace(" ", "").isalpha()):
            # \\mathbf{x+1} is a font, not a text: what it holds is read as mathematics.
            self.out.extend(tokenise(raw))
            self.space = False
        else:
            self.space = self.space or raw[:1].isspace()
            self.put(*_content(said, name, self.out, subscript=s[end : end + 1] == "_"))
            self.space = raw[-1:].isspace()


def _number(s: str, i: int, depth: int) -> tuple[str, int] | None:
    """The number that begins at `i`, with a point and without marks, and its end; a comma in brackets is none of it."""
    if m := _PLAIN_NUMBER.match(s, i):
        return m[0], m.end()
    if m := _REPEATING.match(s, i):
        return m["start"] + "(" + re.sub(r"\D", "", m["cycle"]) + ")", m.end()
    if (m := _MARKED_THOUSANDS.match(s, i)) or (depth == 0 and (m := _THOUSANDS.match(s, i))):
        return re.sub(r"[^\d.]", "", m[0]), m.end()
    if depth == 0 and (m := _DECIMAL_COMMA.match(s, i)):
        return re.sub(r"\{?,\}?", ".", m[0]), m.end()
    return None


def _content(content: str, name: str, out: list[Token], *, subscript: bool) -> tuple[str, str]:
    """What the words in a \\text or an upright font are: a connective, a function, a variable, a symbol or a text."""
    number = bool(out) and out[-1].kind == "num"
    index = number and len(out) > 1 and out[-2].text == "_"
    letter = "let" if len(content) == 1 else "word"
    if content == "\\$":
        return "op", "$"
    if content.lower() in {"and", "or"}:
        return "op", content.lower()
    capital = content.isalpha() and content[0].isupper() and len(content) < 3
    if capital and (index or not number) and (subscript or index or not out):
        return letter, content  # \\text{CO}_2
    if content in CALLED and not (number and content in {"min", "sec"}):
        return CALLED[content]
    if len(content) == 1 and content.isalpha() and name in _FONTS and not (number and content in _UNIT_LETTERS):
        return letter, content
    return "text", content


def _wide_blanks(tokens: list[Token]) -> list[Token]:
    """`x = 1 \\quad y = 2` is a list; elsewhere a wide blank is a blank."""
    said = [t.text for t in tokens if t.text in {"quad", "="}]
    if "quad" not in said:
        return tokens
    if said == ["=", "quad"] * (len(said) // 2) + ["="]:
        return [Token("op", ",") if t.text == "quad" else t for t in tokens]
    return [t for t in tokens if t.text != "quad"]


def spell(tokens: list[Token]) -> str:
    """One spelling for tokens that are compared as they are written."""
    out: list[str] = []
    for t in tokens:
        if t.text == "}" and len(out) > 1 and out[-2] == "{":
            out[-2:] = [out[-1]]  # x^{2} and x^2
        else:
            out.append(t.text)
    return " ".join(out)


def depth_step(t: Token) -> int:
    """1 for a token that opens a bracket, -1 for one that closes it, 0 for any other."""
    if t.kind != "op":
        return 0
    return _STEPS.get(t.text) or t.text.startswith("begin ") - t.text.startswith("end ")


def split(tokens: Sequence[Token], at: Iterable[str]) -> tuple[list[list[Token]], list[str]]:
    """The parts between the operators `at` outside all brackets, and the operators."""
    wanted = frozenset(at)
    if wanted.isdisjoint([t.text for t in tokens]):
        return [list(tokens)], []
    parts: list[list[Token]] = [[]]
    found: list[str] = []
    depth = 0
    for t in tokens:
        depth += depth_step(t)
        if depth == 0 and t.kind == "op" and t.text in wanted:
            parts.append([])
            found.append(t.text)
        else:
            parts[-1].append(t)
    return parts, found


def closes_at_end(tokens: Sequence[Token]) -> bool:
    """Whether the bracket at the start closes with the last token."""
    depths = accumulate(map(depth_step, tokens))
    return next((n for n, depth in enumerate(depths, 1) if depth == 0), -1) == len(tokens)
