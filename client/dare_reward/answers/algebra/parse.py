"""From tokens to an expression tree, by recursive descent. No evaluation happens here.

Short runs of letters are products of them; products of matrices and derivatives only look like products.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..._pattern import pattern
from ..kinds import Unreadable
from ..tables import listed
from .numbers import number
from .tokens import Token
from .tree import Node, Op

MAX_DEPTH = 60
MAX_POSTFIX = 5
MAX_SIGNS = 3
MAX_BARS = 2
_CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil", "|": "|"}
_WRAPS = {"lfloor": "floor", "lceil": "ceil", "|": "abs"}  # what a bracket makes of what it holds
_COMMANDS = {"frac": "div", "binom": "binom"}
_OPENS = frozenset({*_CLOSERS, *_COMMANDS}) - {"|"}
_PRODUCT_FUNCTIONS = frozenset("fghFGHJYK")
_AFTER_NUMBER = frozenset("+-*^)}]")
_PART = pattern(
    r"(?P<brace>\{ )?frac (?:\{ (\d{1,11}) \} \{ (\d{1,11}) \}|(\d)(\d))(?!\S)(?(brace) \})"
    r"|(\d{1,11}) / (\d{1,11})(?!\S)"
)
_END = Token("end", "")
# Words that stand for something else than a product of their letters.
_WORDS = frozenset(listed("letter_words"))

# `\frac{d}{dx}` and `\frac{dy}{dx}`, whose d is no factor.
_DERIVATIVE = pattern(r"frac\{d(?:\^\{?\d\}?)?[A-Za-z]?\}\{d[A-Za-z](?:\^\{?\d\}?)?\}")
_MARK = r"\^(?:\{-1\}|-1|\{?(?:T|\\top)\}?)"
_MATRICES = pattern(rf"(?<![A-Za-z])[A-Z]{_MARK}\*?[A-Z](?![a-z])|(?<![A-Za-z])[A-Z]\*?[A-Z]{_MARK}")
_BEFORE, _AFTER = frozenset("{(^+-*/"), frozenset("})^+-*/")


def parse(tokens: Sequence[Token]) -> Node:
    """The tree of a whole expression."""
    texts = "".join([t.text for t in tokens])
    if "frac{d" in texts and _DERIVATIVE.search(texts):
        raise Unreadable("a derivative")
    if "^" in texts and _MATRICES.search(texts):
        raise Unreadable("a product of matrices")  # beside an inverse or transposed one a capital letter is a matrix
    parser = _Parser([*_letters(tokens), _END])
    node = parser.choice(0)
    if parser.here.kind != "end":
        raise Unreadable("something follows the expression")
    return node


class _Parser:
    """The place in the list of tokens; each method reads what its name says, from there on."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.here = tokens[0]
        self.i = 0
        self.after_command = -1  # where the last \frac or \binom ended: a number may follow it
        self.bars = 0  # how many | are open, within the innermost bracket

    def next(self) -> Token:
        token = self.here
        if token.kind == "end":
            raise Unreadable("an operand is missing")
        self.i += 1
        self.here = self.tokens[self.i]
        return token

    def at(self, *texts: str) -> bool:
        return self.here.kind == "op" and self.here.text in texts

    def take(self, text: str) -> bool:
        if self.here.kind != "op" or self.here.text != text:
            return False
        self.next()
        return True

    def choice(self, depth: int) -> Node:
        node = self.sum(depth)
        return Op("binom", (node, self.sum(depth))) if self.take("choose") else node

    def sum(self, depth: int) -> Node:
        terms = [self.term(depth)]
        while self.at("+", "-"):
            terms.append(_signed(self.next().text == "-", self.term(depth)))
        return terms[0] if len(terms) == 1 else Op("add", tuple(terms))

    def term(self, depth: int) -> Node:
        factors = [self.signed(depth)]
        quotients = 0
        while True:
            if self.take("*"):
                factors.append(self.signed(depth))
            elif self.at("/", "mod"):
                name = "div" if self.next().text == "/" else "mod"
                quotients += 1
                if depth + quotients > MAX_DEPTH:
                    raise Unreadable("too deep")
                factors = [Op(name, (_product(factors), self.signed(depth)))]
            elif self.starts_factor():
                before, here = self.tokens[self.i - 1], self.here
                if here.kind == "num" and self.i != self.after_command:
                    apart = here.space and isinstance(factors[-1], Op) and factors[-1].name == "pow"  # 2^6 3^5
                    if before.kind == "num" and not apart:
                        raise Unreadable("two numbers side by side")
                    if before.kind == "let" and not here.space:
                        raise Unreadable("an index or a power that lost its sign")  # x1 is not x, x2 not 2x
                factors.append(self.power(depth))
            else:
                return _product(factors)

    def starts_factor(self) -> bool:
        t = self.here
        if t.kind == "op":
            return t.text in _OPENS or (t.text == "|" and not self.bars)
        return t.kind in {"num", "let", "fn"}

    def signed(self, depth: int) -> Node:
        minus = False
        for _ in range(MAX_SIGNS):
            if not self.at("+", "-"):
                break
            minus ^= self.next().text == "-"
        return _signed(minus, self.power(depth))

    def power(self, depth: int, *, exponent: bool = False) -> Node:
        """A factor with what stands behind it; an exponent takes no mixed number and no degrees."""
        node = self.primary(depth, mixed=not exponent)
        for _ in range(MAX_POSTFIX):
            if self.here.kind != "op":
                return node
            if self.take("!"):
                double = self.at("!") and not self.here.space and self.take("!")
                node = Op("factorial2" if double else "factorial", (node,))
            elif not exponent and self.take("deg"):
                node = Op("deg", (node,))
            elif self.take("^"):
                return Op("pow", (node, self.exponent(depth + 1)))
            else:
                return node
        raise Unreadable("too many signs after a number")

    def exponent(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        if self.at("+", "-"):
            return _signed(self.next().text == "-", self.exponent(depth + 1))
        return self.power(depth, exponent=True)

    def primary(self, depth: int, *, mixed: bool = False) -> Node:
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        t = self.next()
        if t.kind == "num":
            return self.mixed(t) if mixed else number(t.text)
        if t.kind == "let":
            return self.letter(t, depth)
        if t.kind == "fn":
            return self.function(t.text, depth)
        if t.kind != "op":
            raise Unreadable("no operand")
        if t.text in _COMMANDS:
            first, second = self.argument(depth + 1), self.argument(depth + 1)
            self.after_command = self.i
            return Op(_COMMANDS[t.text], (first, second))
        bars = self.bars + 1 if t.text == "|" else 0
        if t.text not in _CLOSERS or bars > MAX_BARS:
            raise Unreadable("no operand")
        args = self.enclosed(t.text, depth + 1, bars)
        if len(args) > 1:
            raise Unreadable("a tuple in an expression")
        return Op(_WRAPS[t.text], args) if t.text in _WRAPS else args[0]

    def enclosed(self, opener: str, depth: int, bars: int = 0) -> tuple[Node, ...]:
        """What stands between commas up to the bracket that closes the one before."""
        outside, self.bars = self.bars, bars
        args = [self.choice(depth)]
        while self.take(","):
            args.append(self.choice(depth))
        if not self.take(_CLOSERS[opener]):
            raise Unreadable("an open bracket")
        self.bars = outside
        return tuple(args)

    def mixed(self, t: Token) -> Node:
        """`1 1/2` and `1\\frac{1}{2}` are one and a half; `2\\frac{3}{2}` is a product."""
        whole = number(t.text)
        following = self.here
        if following.kind == "end" or following.text in _AFTER_NUMBER or not t.text.isdigit():
            return whole
        m = _PART.match(" ".join([t.text for t in self.tokens[self.i : self.i + 9]]))
        top, bottom = (int(digits) for digits in m.groups()[1:] if digits) if m else (0, 0)
        if m is None or not 0 < top < bottom or not (following.space or following.kind == "op"):
            return whole
        self.i += m[0].count(" ") + 1
        self.here = self.tokens[self.i]
        return whole + Fraction(top, bottom)

    def argument(self, depth: int) -> Node:
        """What \\frac or \\binom takes: a group or one character, so that \\frac12 is a half."""
        t = self.here
        if t.kind != "num" or len(t.text) == 1:
            return self.primary(depth)
        if not t.text.isdigit():
            raise Unreadable("an argument without braces")
        self.here = self.tokens[self.i] = Token("num", t.text[1:])
        return int(t.text[0])

    def letter(self, t: Token, depth: int) -> Node:
        name = t.text
        if self.take("_"):
            name += "_" + self.subscript()
        while self.take("'"):
            name += "'"
        if self.at("(", "[") and self.is_call(name):
            args = self.enclosed(self.next().text, depth + 1)
            return Op("binom" if name == "C" and len(args) == 2 else "call " + name, args)
        return name

    def subscript(self) -> str:
        t = self.next()
        if t.text != "{":
            return t.text
        said, depth = "", 1
        while depth:
            said += (t := self.next()).text
            depth += (t.text == "{") - (t.text == "}")
        return said[:-1]

    def is_call(self, name: str) -> bool:
        """f(x) is a value of f, x(x+1) is a product; J_0(2x) is not 2 J_0(x)."""
        if self.here.space:
            return False
        if name[0] in _PRODUCT_FUNCTIONS or "'" in name:
            return True
        rest = [t.text for t in self.tokens[self.i + 1 :]]
        inner = frozenset(rest[: next((n for n, text in enumerate(rest) if text in {")", "]"}), None)])
        return "," in inner or (name[0].isupper() and len(name) < 4 and inner.isdisjoint("+-("))

    def function(self, name: str, depth: int) -> Node:
        index = self.enclosed("[", depth + 1) if name == "sqrt" and self.take("[") else ()
        base = exponent = None
        while self.at("_", "^"):
            if self.next().text == "_":
                base = self.primary(depth + 1)
            else:
                exponent = self.exponent(depth + 1)
        args = self.function_arguments(name, depth)
        if index:
            node = Op("root", (args[0], *index))
        elif base is not None:
            if name != "log" or len(args) != 1:
                raise Unreadable("a function with a subscript")
            node = Op("div", (Op("ln", args), Op("ln", (base,))))
        else:
            node = Op(name, args)
        if exponent == Op("neg", (1,)):
            return Op("arc" + name, args)  # of a function that has none: no such function
        return node if exponent is None else Op("pow", (node, exponent))

    def function_arguments(self, name: str, depth: int) -> tuple[Node, ...]:
        if self.take("("):
            return self.enclosed("(", depth + 1)
        if name in {"sqrt", "cbrt"}:
            return (self.primary(depth + 1),)
        if self.take("\\{"):
            return self.enclosed("\\{", depth + 1)
        if not self.take("{"):
            return (self.loose(depth + 1, None),)
        args = self.enclosed("{", depth + 1)
        return (self.loose(depth + 1, args[0]),) if self.at("^", "/", "*") or self.starts_factor() else args

    def loose(self, depth: int, first: Node | None) -> Node:
        """The argument of `\\sin 2x`: the factors up to the next function, sign or written product."""
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        if first is None and self.take("-"):
            return Op("neg", (self.loose(depth + 1, None),))
        if first is not None and self.take("^"):
            first = Op("pow", (first, self.exponent(depth + 1)))
        factors = [self.power(depth) if first is None else first]
        while self.here.kind != "fn" and self.starts_factor() and not self.at("(", "|", "[", "\\{"):
            factors.append(self.power(depth))
        node = _product(factors)
        plain = self.tokens[self.i - 1].kind in {"num", "let"}
        if plain and self.at("/") and self.tokens[self.i + 1].kind == "num":
            self.next()
            node = Op("div", (node, self.power(depth)))
        return node


def _signed(minus: bool, node: Node) -> Node:
    return Op("neg", (node,)) if minus else node


def _product(factors: Sequence[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Op("mul", tuple(factors))


def _letters(tokens: Sequence[Token]) -> list[Token]:
    """Short runs of letters become products; longer ones are words, which no expression holds."""
    if not any(t.kind == "word" for t in tokens):
        return [*tokens]
    out: list[Token] = []
    beside = [Token("op", ""), *tokens, Token("op", "")]
    for before, t, after in zip(beside, tokens, beside[2:], strict=False):
        # Where mathematics stands on both sides, two letters are a product, whatever word they make: e^{at}.
        left = before.kind == "fn" or before.text in _BEFORE or (before.kind == "num" and after.text in {"+", "-"})
        within = len(t.text) == 2 and left and after.text in _AFTER
        out += _split_letters(t, within=within) if t.kind == "word" else [t]
    return out


def _split_letters(t: Token, *, within: bool) -> list[Token]:
    word = t.text
    for name in ("arcsin", "arccos", "arctan", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "log", "exp", "ln"):
        rest = word.removeprefix(name)
        if rest != word and len(rest) <= 1:
            return [Token("fn", name, t.space), *(Token("let", c) for c in rest)]
    if word.startswith("pi") and len(word) == 3:
        return [Token("let", "pi", t.space), Token("let", word[2])]
    if len(word) > 3 or (word.lower() in _WORDS and not within):
        raise Unreadable("a word")
    return [Token("let", c, t.space and n == 0) for n, c in enumerate(word)]
