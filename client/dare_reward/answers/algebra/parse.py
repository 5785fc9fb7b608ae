"""Recursive descent from tokens to an expression tree. No evaluation happens here."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ..._pattern import pattern
from ..kinds import Unreadable
from .literals import letters, number, refuse
from .nodes import Constant, Node, Number, Op, Variable
from .tokens import Token

MAX_DEPTH = 60
MAX_POSTFIX = 5
MAX_SIGNS = 3
MAX_BARS = 2
_CLOSERS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil"}
_PRODUCT_FUNCTIONS = frozenset("fghFGHJYK")


def parse(tokens: Sequence[Token]) -> Node:
    """The tree of a whole expression."""
    refuse(tokens)
    parser = _Parser(letters(tokens))
    node = parser.sum(0)
    if parser.take("choose"):
        node = Op("binom", (node, parser.sum(0)))
    if parser.i != len(parser.tokens):
        raise Unreadable("something follows the expression")
    return node


_AFTER_NUMBER = frozenset("+-*^)}]")
_PART = pattern(
    r"(?P<brace>\{ )?frac (?:\{ (\d{1,11}) \} \{ (\d{1,11}) \}|(\d)(\d))(?!\S)(?(brace) \})"
    r"|(\d{1,11}) / (\d{1,11})(?!\S)"
)


class _Cursor:
    """The place in the list of tokens that the parser has reached, and how far it looks ahead."""

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


class _Parser(_Cursor):
    def sum(self, depth: int) -> Node:
        terms = [self.term(depth)]
        while self.at("+", "-"):
            minus = self.take("-") or not self.take("+")
            node = self.term(depth)
            terms.append(Op("neg", (node,)) if minus else node)
        return terms[0] if len(terms) == 1 else Op("add", tuple(terms))

    def term(self, depth: int) -> Node:
        factors = [self.signed(depth)]
        quotients = 0
        while True:
            if self.take("*"):
                factors.append(self.signed(depth))
            elif self.at("/", "mod"):
                name = "div" if self.take("/") else "mod"
                self.i += name == "mod"
                quotients += 1
                if depth + quotients > MAX_DEPTH:
                    raise Unreadable("too deep")
                factors = [Op(name, (_product(factors), self.signed(depth)))]
            elif self.starts_factor():
                before = self.tokens[self.i - 1]
                here = self.tokens[self.i]
                apart = self.i == self.after_command or (here.space and _is_power(factors[-1]))  # 2^6 3^5
                if here.kind == "num" and before.kind == "num" and not apart:
                    raise Unreadable("two numbers side by side")
                if here.kind == "num" and before.kind == "let" and not here.space and self.i != self.after_command:
                    raise Unreadable("an index or a power that lost its sign")  # x1 is not x, x2 not 2x
                factors.append(self.power(depth))
            else:
                return _product(factors)

    def starts_factor(self) -> bool:
        t = self.peek()
        if t is None:
            return False
        if t.kind in {"num", "let", "fn"}:
            return True
        if t.text == "|":
            return "|" not in self.stops
        return t.kind == "op" and t.text in {"(", "[", "{", "\\{", "lfloor", "lceil", "frac", "binom"}

    def signed(self, depth: int) -> Node:
        minus = False
        for _ in range(MAX_SIGNS):
            if self.take("-"):
                minus = not minus
            elif not self.take("+"):
                break
        node = self.power(depth)
        return Op("neg", (node,)) if minus else node

    def power(self, depth: int) -> Node:
        node = self.primary(depth)
        for _ in range(MAX_POSTFIX):
            if (t := self.peek()) is None or t.kind != "op":
                return node
            if self.take("!"):
                double = self.at("!") and not self.tokens[self.i].space and self.take("!")
                node = Op("factorial2" if double else "factorial", (node,))
            elif self.take("deg"):
                node = Op("deg", (node,))
            elif self.take("^"):
                return Op("pow", (node, self.exponent(depth + 1)))
            else:
                return node
        raise Unreadable("too many signs after a number")

    def exponent(self, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        if self.take("-"):
            return Op("neg", (self.exponent(depth + 1),))
        if self.take("+"):
            return self.exponent(depth + 1)
        base = self.primary(depth, mixed=False)
        if self.take("^"):
            return Op("pow", (base, self.exponent(depth + 1)))
        if self.take("!"):
            return Op("factorial", (base,))
        return base

    def primary(self, depth: int, *, mixed: bool = True) -> Node:
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        t = self.peek()
        if t is None:
            raise Unreadable("an operand is missing")
        self.i += 1
        if t.kind == "num":
            return self.mixed(t) if mixed else Number(number(t.text))
        if t.kind == "let":
            return self.letter(t, depth)
        if t.kind == "fn":
            return self.function(t.text, depth)
        if t.kind == "op":
            if t.text in _CLOSERS:
                return self.group(t.text, depth)
            if t.text == "|" and len(self.stops) < MAX_BARS:
                self.stops.append("|")
                node = self.sum(depth + 1)
                self.stops.pop()
                self.expect("|")
                return Op("abs", (node,))
            if t.text in {"frac", "binom"}:
                args = (self.argument(depth + 1), self.argument(depth + 1))
                self.after_command = self.i
                return Op("div" if t.text == "frac" else "binom", args)
        raise Unreadable("no operand")

    def group(self, opener: str, depth: int) -> Node:
        stops, self.stops = self.stops, []
        node = self.sum(depth + 1)
        if opener == "{" and self.take("choose"):
            node = Op("binom", (node, self.sum(depth + 1)))
        self.expect(_CLOSERS[opener])
        self.stops = stops
        return Op({"lfloor": "floor", "lceil": "ceil"}[opener], (node,)) if opener in {"lfloor", "lceil"} else node

    def mixed(self, t: Token) -> Node:
        """`1 1/2` and `1\\frac{1}{2}` are one and a half; `2\\frac{3}{2}` is a product."""
        whole = Number(number(t.text))
        following = self.peek()
        if following is None or following.text in _AFTER_NUMBER or not t.text.isdigit():
            return whole
        m = _PART.match(" ".join([t.text for t in self.tokens[self.i : self.i + 9]]))
        top, bottom = (int(digits) for digits in m.groups()[1:] if digits) if m else (0, 0)
        if m is None or not 0 < top < bottom or not (following.space or following.kind == "op"):
            return whole
        self.i += m[0].count(" ") + 1
        return Number(whole.value + Fraction(top, bottom))

    def argument(self, depth: int) -> Node:
        """What \\frac or \\binom takes: a group or one character, so that \\frac12 is a half."""
        t = self.peek()
        if t is None:
            raise Unreadable("an argument is missing")
        if t.kind == "num" and len(t.text) > 1:
            if not t.text.isdigit():
                raise Unreadable("an argument without braces")
            self.tokens[self.i] = Token("num", t.text[1:])
            return Number(int(t.text[0]))
        return self.primary(depth, mixed=False)

    def letter(self, t: Token, depth: int) -> Node:
        name = t.text
        if self.at("_"):
            name += "_" + self.subscript()
        while self.take("'"):
            name += "'"
        if self.at("(", "[") and self.is_call(name):
            closer = _CLOSERS[self.tokens[self.i].text]
            self.i += 1
            args = self.arguments(depth + 1, closer)
            if name == "C" and len(args) == 2:
                return Op("binom", args)
            return Op("call " + name, args)
        if name in {"pi", "e", "i"}:
            return Constant(name)
        return Variable(name)

    def is_call(self, name: str) -> bool:
        """f(x) is a value of f, x(x+1) is a product; J_0(2x) is not 2 J_0(x)."""
        if self.peek() is None or (t := self.peek()) is None or t.space:
            return False
        if name[0] in _PRODUCT_FUNCTIONS or "'" in name:
            return True
        inner: list[Token] = []
        for t in self.tokens[self.i + 1 :]:
            if t.text in {")", "]"}:
                break
            inner.append(t)
        if any(t.text == "," for t in inner):
            return True
        return name[0].isupper() and len(name) < 4 and not any(t.text in {"+", "-", "("} for t in inner)

    def arguments(self, depth: int, closer: str) -> tuple[Node, ...]:
        stops, self.stops = self.stops, []
        args = [self.sum(depth)]
        while self.take(","):
            args.append(self.sum(depth))
        self.expect(closer)
        self.stops = stops
        return tuple(args)

    def subscript(self) -> str:
        self.expect("_")
        t = self.peek()
        if t is None:
            raise Unreadable("a subscript is missing")
        self.i += 1
        if t.text != "{":
            return t.text
        parts: list[str] = []
        depth = 1
        while True:
            t = self.peek()
            if t is None:
                raise Unreadable("open brace")
            self.i += 1
            depth += (t.text == "{") - (t.text == "}")
            if depth == 0:
                return "".join(parts)
            parts.append(t.text)

    def function(self, name: str, depth: int) -> Node:
        base: Node | None = None
        index: Node | None = None
        exponent: Node | None = None
        if name == "sqrt" and self.take("["):
            index = self.sum(depth + 1)
            self.expect("]")
        while self.at("_", "^"):
            if self.take("_"):
                base = self.primary(depth + 1, mixed=False)
            elif self.take("^"):
                exponent = self.exponent(depth + 1)
        args = self.function_arguments(name, depth)
        if index is not None:
            node: Node = Op("root", (args[0], index))
        elif base is not None:
            if name != "log" or len(args) != 1:
                raise Unreadable("a function with a subscript")
            node = Op("div", (Op("ln", args), Op("ln", (base,))))
        else:
            node = Op(name, args)
        if exponent is None:
            return node
        if exponent == Op("neg", (Number(1),)):
            return Op("arc" + name, args)  # of a function that has none: no such function
        return Op("pow", (node, exponent))

    def function_arguments(self, name: str, depth: int) -> tuple[Node, ...]:
        if self.take("("):
            return self.arguments(depth + 1, ")")
        if name in {"sqrt", "cbrt"}:
            return (self.primary(depth + 1, mixed=False),)
        if self.take("\\{"):
            return self.arguments(depth + 1, "\\}")
        if self.take("{"):
            args = self.arguments(depth + 1, "}")
            if not self.at("^", "/", "*") and not self.starts_factor():
                return args
            return (self.loose(depth + 1, args[0]),)
        return (self.loose(depth + 1, None),)

    def loose(self, depth: int, first: Node | None) -> Node:
        """The argument of `\\sin 2x`: the factors up to the next function, sign or written product."""
        if depth > MAX_DEPTH:
            raise Unreadable("too deep")
        if first is None and self.take("-"):
            return Op("neg", (self.loose(depth + 1, None),))
        if first is not None and self.take("^"):
            first = Op("pow", (first, self.exponent(depth + 1)))
        factors = [self.power(depth) if first is None else first]
        while True:
            t = self.peek()
            if t is not None and t.kind != "fn" and self.starts_factor() and not self.at("(", "|", "[", "\\{"):
                factors.append(self.power(depth))
            elif (
                t is not None
                and t.text == "/"
                and self.tokens[self.i - 1].kind in {"num", "let"}
                and (n := self.peek(1))
                and n.kind == "num"
            ):
                self.i += 1
                return Op("div", (_product(factors), self.power(depth)))
            else:
                return _product(factors)


def _is_power(node: Node) -> bool:
    return isinstance(node, Op) and node.name == "pow"


def _product(factors: Sequence[Node]) -> Node:
    return factors[0] if len(factors) == 1 else Op("mul", tuple(factors))
