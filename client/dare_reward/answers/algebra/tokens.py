"""From an answer's text to tokens: LaTeX, plain text and Unicode spellings of one thing become one token."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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


FUNCTIONS = frozenset(listed("functions"))
ALIASES = spellings("aliases")
# LaTeX name -> the name of the variable that it is; spellings of one letter share it.
_GREEK = {name: name for name in listed("greek")} | {"varsigma": "sigma"}
_GREEK |= {"var" + name: name for name in words("epsilon phi theta rho")}
_OPERATORS = spellings("commands")
_SKIPPED, _TEXTUAL, _FONTS, _ACCENTS = (frozenset(listed(name)) for name in ("skipped", "textual", "fonts", "accents"))
_NUMERIC = pattern(r"\d[\d.,]*+(?: [A-Za-z]++)?+")
_ACCENTED = pattern(r"\s*+(?:\{\s*+([A-Za-z]++(?:\s++[A-Za-z])*+)\s*+\}|([A-Za-z]))")
_UNIT_LETTERS = frozenset("msgNJWVKLACFThl")  # an upright letter after a number
_SETS = {"R": "R", "Z": "Z", "N": "N", "Q": "Q", "C": "C"}
_NEST = {"(": 1, "[": 1, "\\{": 1, ")": -1, "]": -1, "\\}": -1}
_TOKEN = pattern(
    r"(?P<space>(?:\s|~|\\[,;:! >]|\\\n)++)"
    r"|(?P<row>\\\\\*?(?:\s*+\[-?[\d.]++\s?(?:pt|em|ex|mm|cm|in)\])?)"
    r"|\\(?P<cmd>[A-Za-z]++\*?)"
    r"|\\(?P<esc>[{}%$#&_|'\-/])"
    r"|(?P<num>(?:\d++(?:\.\d++)?|\.\d++)(?:[eE][+-]?\d++(?![A-Za-z\d^(\\{]))?)"
    r"|(?P<word>[A-Za-z]++)"
    r"|(?P<dots>\.{3,}+)"
    r"|(?P<op><=|>=|!=|==|:=|\*\*|\+/-|[-+*/^_=<>()\[\]{},;:!|'%$&€£¥¢.]|[^\x00-\x7f])"
)
_PLAIN_NUMBER = pattern(r"\d++(?![\d.,{\\~eE(])")  # by far the most common
_THOUSANDS = pattern(r"[1-9]\d{0,2}(?:,\d{3})++(?![\d,]*\d)(?:\.\d++)?")
_MARKED_THOUSANDS = pattern(r"[1-9]\d{0,2}(?:(?:\{,\}|,\\! ?|\\,|\\;|\\ |~)\d{3})++(?!\d)(?:\.\d++)?")
_DECIMAL_COMMA = pattern(
    r"(\d++)(?:\{,\}(\d{1,2})|,(0\d?)|(?<=(?<![\d,])0),(\d{1,2})|,(\d{1,2})(?=\s?(?:\\?%|€|\\mathrm|\\text)))(?![\d,.{])"
)  # 57{,}50 and 75,00, never a list: 75, 0
_SPACED_THOUSANDS = pattern(r"\s*+[-+]?\s*+([1-9]\d{0,2}(?: \d{3})++(?:\.\d++)?)(?!\d| \d|/| /|\s*\\frac)")
_REPEATING = pattern(
    r"(\d++)\.(\d*+)(?:\s*+\\overline\s*+\{?\s*+(\d++)\s*+\}?|\((\d++)\)|\\dot\{?(\d)\}?(?:(\d*+)\\dot\{?(\d)\}?)?|\\bar\{?(\d++)\}?)"
)
# The product of two vectors that is a vector: \\cross is in no expression, so the two products stay apart.
# So is that of two sets, A \\times B, and the curl beside the divergence.
_CROSS = pattern(
    r"(?:\\(?:vec|mathbf|boldsymbol|bm|overrightarrow)\s*+(?:\{\s*+\\?[A-Za-z]++\s*+\}|[A-Za-z])"
    r"|(?<![A-Za-z\\])[A-Z](?![A-Za-z])|\\nabla(?![a-z]))(?:_\{?\w\}?)?+\s*+"
    r"(?=\\times\s*+(?:\\(?:vec|mathbf|boldsymbol|bm|overrightarrow)\b|[A-Z](?![A-Za-z])))"
)
_NAME = pattern(r"\s*+(?:\{\s*+([A-Za-z]++)\s*+\}|([A-Z]))")
_ENVIRONMENT = pattern(r"\s*+\{\s*+([A-Za-z]++\*?)\s*+\}(?:\s*+\[[a-z]\])?")
# Brackets in a list of tokens: where it splits, and whether one pair encloses all of it.
_OPEN = frozenset({"(", "[", "{", "\\{", "lfloor", "lceil", "langle"})
_CLOSE = frozenset({")", "]", "}", "\\}", "rfloor", "rceil", "rangle"})


def tokenise(s: str) -> list[Token]:
    """The tokens of a cleaned text. Raises Unreadable on what no rule names, and over the budget."""
    out: list[Token] = []
    depth = 0
    space = False
    i = 0
    if "\\times" in s:
        s = _CROSS.sub(lambda m: m[0] + "\\cross ", s)
    if m := _SPACED_THOUSANDS.match(s):
        s = s[: m.start(1)] + m[1].replace(" ", "") + s[m.end(1) :]
    while i < len(s):
        if len(out) > MAX_TOKENS:
            raise Unreadable("too many tokens")
        if s[i].isdigit() and (read := _number(s, i, depth)):
            text, i = read
            out.append(Token("num", text, space))
            space = False
            continue
        m = _TOKEN.match(s, i)
        if m is None:
            raise Unreadable("a character outside mathematics")
        i = m.end()
        kind = m.lastgroup
        if kind == "space":
            space = True
            continue
        if kind == "cmd":
            i, space = _command(s, i, m["cmd"], out, space=space)
            if out and out[-1].kind == "op":
                depth += _NEST.get(out[-1].text, 0) if m["cmd"] in {"lbrace", "rbrace", "lbrack", "rbrack"} else 0
            continue
        token = _plain(kind or "", m[0], space=space)
        depth += _NEST.get(token.text, 0) if token.kind == "op" else 0
        out.extend(_split_word(token) if token.kind == "word" else [token])
        space = False
    return _degrees(_wide_blanks(out))


def _wide_blanks(tokens: list[Token]) -> list[Token]:
    """`x = 1 \\quad y = 2` is a list; elsewhere a wide blank is a blank."""
    if not any(t.text == "quad" for t in tokens):
        return tokens
    equations = [0]
    for t in tokens:
        if t.text == "quad":
            equations.append(0)
        equations[-1] += t.text == "="
    if all(n == 1 for n in equations):
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


def _number(s: str, i: int, depth: int) -> tuple[str, int] | None:
    m = _PLAIN_NUMBER.match(s, i)
    if m is not None:
        return m[0], m.end()
    if m := _REPEATING.match(s, i):
        whole, lead = m[1], m[2]
        cycle = m[3] or m[4] or m[8] or (m[5] + (m[6] or "") + (m[7] or ""))
        return f"{whole}.{lead}({cycle})", m.end()
    if m := _MARKED_THOUSANDS.match(s, i):
        return re.sub(r"[^\d.]", "", m[0]), m.end()
    if depth == 0 and (m := _DECIMAL_COMMA.match(s, i)):
        return f"{m[1]}.{next(filter(None, m.groups()[1:]))}", m.end()
    if depth == 0 and (m := _THOUSANDS.match(s, i)):
        return m[0].replace(",", ""), m.end()
    return None


def _plain(kind: str, text: str, *, space: bool) -> Token:
    if kind == "num":
        return Token("num", text, space)
    if kind == "word":
        return Token("let" if len(text) == 1 else "word", text, space)
    if kind in {"row", "dots"}:
        return Token("op", "row" if kind == "row" else "...", space)
    if kind == "esc":
        return Token("op", {"\\{": "\\{", "\\}": "\\}"}.get(text, text[1:]), space)
    return Token("op", {"==": "=", ":=": "=", "**": "^", "+/-": "+-"}.get(text, text), space)


def _split_word(token: Token) -> list[Token]:
    text = token.text
    if text in FUNCTIONS or text in ALIASES:
        return [Token("fn", ALIASES.get(text, text), token.space)]
    if text in {"and", "or", "choose", "OR", "AND"}:
        return [Token("op", text.lower(), token.space)]
    if text == "pi" or (text in _GREEK and len(text) > 2 and text != "psi"):
        return [Token("let", _GREEK.get(text, text), token.space)]
    if text in {"infinity", "inf", "Infinity"}:
        return [Token("op", "oo", token.space)]
    return [token]


def _command(s: str, i: int, name: str, out: list[Token], *, space: bool) -> tuple[int, bool]:
    """Appends what `\\name` stands for; returns the place after it and whether a blank is pending."""
    if name in _SKIPPED:
        if name in {"quad", "qquad"}:
            out.append(Token("op", "quad", space))
        closing = name in {"left", "right"} and s[i : i + 1] == "."
        return i + closing, True
    if name in _TEXTUAL or name in _FONTS:
        return _text(s, i, name, out, space=space)
    if name in _ACCENTS and (m := _ACCENTED.match(s, i)):
        out.append(Token("let", f"{name}.{m[1] or m[2]}", space))
        return m.end(), False
    if name in {"begin", "end", "mathbb"}:
        return _argument(s, i, name, out, space=space)
    out.append(_symbol(name, space=space))
    return i, False


def _symbol(name: str, *, space: bool) -> Token:
    if name in _OPERATORS:
        return Token("op", _OPERATORS[name], space)
    if name in FUNCTIONS or name in ALIASES:
        return Token("fn", ALIASES.get(name, name), space)
    if name in _GREEK or name == "pi":
        return Token("let", _GREEK.get(name, name), space)
    return Token("cmd", "\\" + name, space)


def _argument(s: str, i: int, name: str, out: list[Token], *, space: bool) -> tuple[int, bool]:
    """`\\mathbb{R}` and the ends of environments."""
    if name == "mathbb":
        m = _NAME.match(s, i)
        if m is None:
            raise Unreadable("a set without a name")
        letter = m[1] or m[2]
        if letter not in _SETS and letter not in {"E", "P"}:  # an expectation, a probability
            raise Unreadable("a set without a name")
        out.append(Token("set" if letter in _SETS else "let", letter, space))
    else:
        m = _ENVIRONMENT.match(s, i)
        if m is None:
            raise Unreadable("an environment without a name")
        out.append(Token("op", f"{name} {m[1]}", space))
    return m.end(), False


def _text(s: str, i: int, name: str, out: list[Token], *, space: bool) -> tuple[int, bool]:
    while i < len(s) and s[i] == " ":
        i += 1
    if i >= len(s) or s[i] != "{":
        return i, True
    end = group_end(s, i)
    if end is None:
        raise Unreadable("open brace")
    raw = s[i + 1 : end - 1]
    content = " ".join(raw.replace("\\cdot", "*").replace("~", " ").replace("\\ ", " ").replace("\\,", " ").split())
    if not content:
        return end, True
    if _NUMERIC.fullmatch(content) or (name in _FONTS and not content.replace(" ", "").isalpha()):
        # \\mathbf{x+1} is a font, not a text: what it holds is read as mathematics.
        out.extend(tokenise(raw))
        return end, False
    out.append(_content(content, name, out, subscript=s[end : end + 1] == "_", space=space or raw[:1].isspace()))
    return end, raw[-1:].isspace()


def _content(content: str, name: str, out: list[Token], *, subscript: bool, space: bool) -> Token:
    """What the words in a \\text or an upright font are: a connective, a function, a variable, a symbol or a text."""
    number = bool(out) and out[-1].kind == "num"
    index = number and len(out) > 1 and out[-2].text == "_"
    capital = content.isalpha() and content[0].isupper() and len(content) < 3
    if content == "\\$":
        return Token("op", "$", space)
    if content.lower() in {"and", "or"}:
        return Token("op", content.lower(), space)
    if capital and (index or not number) and (subscript or index or not out):
        return Token("let" if len(content) == 1 else "word", content, space)  # \\text{CO}_2
    if (content in FUNCTIONS or content in ALIASES) and not (number and content in {"min", "sec"}):
        return Token("fn", ALIASES.get(content, content), space)
    if len(content) == 1 and content.isalpha() and name in _FONTS and not (number and content in _UNIT_LETTERS):
        return Token("let", content, space)
    return Token("text", content, space)


_CIRCLES = ("^\\circ", "^{\\circ}", "^o", "^{o}")


def _degrees(tokens: list[Token]) -> list[Token]:
    """`^\\circ` and `^{\\circ}` are one token."""
    out: list[Token] = []
    i = 0
    while i < len(tokens):
        here = "".join([t.text for t in tokens[i : i + 4]]) if tokens[i].text == "^" else ""
        circle = next((c for c in _CIRCLES if here.startswith(c)), "")
        if circle and ("\\" in circle or (out and out[-1].kind == "num")):
            out.append(Token("op", "deg", tokens[i].space))
            i += 4 if "{" in circle else 2
        else:
            out.append(tokens[i])
            i += 1
    return out


def depth_step(t: Token) -> int:
    """1 for a token that opens a bracket, -1 for one that closes it, 0 for any other."""
    if t.kind != "op":
        return 0
    if t.text in _OPEN or t.text.startswith("begin "):
        return 1
    if t.text in _CLOSE or t.text.startswith("end "):
        return -1
    return 0


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
    depth = 0
    for n, t in enumerate(tokens):
        depth += depth_step(t)
        if depth == 0:
            return n == len(tokens) - 1
    return False
