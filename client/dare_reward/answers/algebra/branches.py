"""What an expression hides at the ordinary points: signs, branches and jumps that only further points show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..unreadable import Unreadable
from .evaluate import evaluate
from .nodes import Node, Number, Op, variables
from .numbers import Value
from .sample_points import CLOSE, FAR, POINTS, mixed_points, point

__all__ = ["bends_far_away", "doubted", "folds", "jumps", "winds"]


def bends_far_away(node: Node) -> bool:
    """Whether an absolute value in `node` is one expression at all points and another one far from them: |x - 30|."""
    if not isinstance(node, Op):
        return False
    folded = _folded(node)
    if folded is not None and (inner := variables(folded)):
        near = {_rises(folded, {name: point(name, j) for name in inner}) for j in range(POINTS)}
        far = {_rises(folded, dict.fromkeys(inner, at)) for at in (FAR + CLOSE if _logarithm(folded) else FAR)}
        if len(near) == 1 and near != far and None not in near | far:
            return True
    return any(bends_far_away(arg) for arg in node.args)


def winds(node: Node) -> bool:
    """Whether the ordinary points see one branch only: arctan(tan(ln x)) is ln x there, and tan|x| is |tan x|."""
    if not isinstance(node, Op):
        return False
    if node.name in _ODD and any(_holds(arg, _FOLDS) for arg in node.args):
        return True
    if node.name in _ARCS and any(_holds(arg, _PERIODIC) for arg in node.args):
        return True
    return any(winds(arg) for arg in node.args)


_ODD = frozenset({"sin", "tan", "cot", "csc"})
_PERIODIC = _ODD | {"cos", "sec"}
_ARCS = frozenset({"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc"})
_FOLDS = frozenset({"abs"})


def _holds(node: Node, names: frozenset[str]) -> bool:
    """Whether one of these functions is taken of something with a variable."""
    if not isinstance(node, Op):
        return False
    found = node.name in names or ("abs" in names and _folded(node) is not None)
    return (found and bool(variables(node))) or any(_holds(arg, names) for arg in node.args)


def _logarithm(node: Node) -> bool:
    return isinstance(node, Op) and (node.name in {"ln", "lg", "log"} or any(_logarithm(arg) for arg in node.args))


def folds(node: Node, names: Sequence[str]) -> bool:
    """Whether an absolute value changes with the signs of several variables: |xy|, sqrt(x^2 y^2); not |x|^2 + |y|^2."""
    if not isinstance(node, Op):
        return False
    if node.name == "abs" and _turns(node.args[0], names):
        return True
    degree = _degree(node)
    if degree % 2 == 0 and _has_power(node.args[0], degree):
        return True
    return any(folds(arg, names) for arg in _unsquared(node))


def _unsquared(node: Op) -> Sequence[Node]:
    """The arguments; of |a|^2, that of the absolute value."""
    base = node.args[0] if node.args else None
    if node.name == "pow" and isinstance(base, Op) and base.name == "abs" and node.args[1] in _EVEN:
        return base.args
    return node.args


_EVEN = (Number(2), Number(4), Number(6))


def _turns(node: Node, names: Sequence[str]) -> bool:
    """Whether a real value has both signs: at the ordinary points, those with mixed signs, far away, close to zero."""
    places = [{name: point(name, j) for name in names} for j in range(POINTS)]
    far = [dict.fromkeys(names, at) for at in FAR + CLOSE]
    return len({_rises(node, env) for env in (*places, *mixed_points(names), *far)}) > 1


def _has_power(node: Node, degree: int) -> bool:
    """Whether a power is a factor of `node` whose root of this degree may have either sign."""
    if not isinstance(node, Op):
        return False
    if node.name == "pow":
        power = node.args[1]
        return isinstance(power, Number) and power.value % (2 * degree) == degree and bool(variables(node.args[0]))
    return node.name in {"mul", "div"} and any(_has_power(arg, degree) for arg in node.args)


def _degree(node: Op) -> int:
    """Of the root that `node` takes, 1 where it takes none."""
    if node.name == "sqrt":
        return 2
    if node.name not in {"root", "pow"}:
        return 1
    at = node.args[1]
    if node.name == "pow" and isinstance(at, Op) and at.name == "div":
        at = at.args[1]
    elif node.name == "pow":
        return 1
    return int(at.value) if isinstance(at, Number) else 1


def jumps(node: Node) -> bool:
    """Whether the floor or the ceiling of something with a variable is taken."""
    if not isinstance(node, Op):
        return False
    return (node.name in {"floor", "ceil"} and bool(variables(node))) or any(jumps(arg) for arg in node.args)


def _folded(node: Op) -> Node | None:
    """Of what `node` is the absolute value: |a|, sqrt(a^2)."""
    arg = node.args[0]
    if node.name == "abs":
        return arg
    if node.name == "sqrt" and isinstance(arg, Op) and arg.name == "pow" and arg.args[1] == Number(2):
        return arg.args[0]
    return None


def _rises(node: Node, env: Mapping[str, Value]) -> bool | None:
    """Whether a real value is positive; None where there is none."""
    try:
        value = evaluate(node, env)
    except Unreadable:
        return None
    return None if hasattr(value, "_mpc_") else bool(value > 0)


def doubted(node: Node) -> bool:
    """Whether something depends on the sign or size of such a function, which nobody knows: |f(2)|, max(f(1), 0)."""
    if not isinstance(node, Op):
        return False
    if node.name in _SIZES and any(_undefined(arg, node.name) for arg in node.args):
        return True
    if _degree(node) % 2 == 0 and _undefined(node.args[0], "sqrt"):
        return True
    return any(doubted(arg) for arg in node.args)


_SIZES = frozenset({"abs", "floor", "ceil", "max", "min"})


def _undefined(node: Node, inside: str) -> bool:
    if not isinstance(node, Op):
        return False
    extreme = node.name in {"max", "min"} and inside not in {"max", "min"} and bool(variables(node))
    return extreme or node.name.startswith("call ") or any(_undefined(arg, inside) for arg in node.args)
