"""What an expression hides at the ordinary points: signs under absolute values and steps that further points show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..unreadable import Unreadable
from .evaluate import evaluate
from .nodes import Node, Number, Op, variables
from .numbers import Value
from .sample_points import POINTS, further_points, point


def jumps(node: Node) -> bool:
    """Whether the floor or the ceiling of something with a variable is taken."""
    if not isinstance(node, Op):
        return False
    return (node.name in {"floor", "ceil"} and bool(variables(node))) or any(jumps(arg) for arg in node.args)


def hidden(node: Node, names: Sequence[str]) -> list[dict[str, Value]]:
    """The further points, if what stands under absolute values has signs there that no ordinary point shows together.

    So |x - 30| is not 30 - x, and |x| + |y| not |x + y|; |x|^2 is x^2, and |x^2 + 1| needs no further point.
    """
    insides = [*_insides(node)]
    if not insides:
        return []
    shown = {_signs(insides, {name: point(name, j) for name in names}) for j in range(POINTS)}
    further = further_points(names)
    return further if any(None not in (signs := _signs(insides, env)) and signs not in shown for env in further) else []


def _signs(nodes: Sequence[Node], env: Mapping[str, Value]) -> tuple[bool | None, ...]:
    """Whether each is positive; None where it has no real value."""
    found: list[bool | None] = []
    for node in nodes:
        try:
            value = evaluate(node, env)
        except Unreadable:
            value = None
        found.append(None if value is None or hasattr(value, "_mpc_") else bool(value > 0))
    return tuple(found)


def _insides(node: Node) -> Iterator[Node]:
    """Of what `node` takes absolute values, |a| and the root of a^2 b; not of |a|^2."""
    if not isinstance(node, Op):
        return
    base = node.args[0] if node.args else None
    if node.name == "pow" and isinstance(base, Op) and base.name == "abs" and node.args[1] in _EVEN:
        yield from _insides(base.args[0])
        return
    if node.name == "abs" and variables(node):
        yield node.args[0]
    elif node.name == "sqrt":
        yield from _squared(node.args[0], 2)
    elif node.name == "root" and node.args[1] in _EVEN:
        yield from _squared(node.args[0], 2 * (1 + _EVEN.index(node.args[1])))
    elif node.name == "pow" and node.args[1] == Op("div", (Number(1), Number(2))):
        yield from _squared(node.args[0], 2)
    for arg in node.args:
        yield from _insides(arg)


_EVEN = (Number(2), Number(4), Number(6))


def _squared(node: Node, degree: int) -> Iterator[Node]:
    """The bases of the factors of `node` whose roots of this degree may have either sign: x of x^2 y, not of x^4."""
    if not isinstance(node, Op):
        return
    if node.name == "pow":
        power = node.args[1]
        if isinstance(power, Number) and power.value % (2 * degree) == degree and variables(node.args[0]):
            yield node.args[0]
    elif node.name in {"mul", "div"}:
        for arg in node.args:
            yield from _squared(arg, degree)
