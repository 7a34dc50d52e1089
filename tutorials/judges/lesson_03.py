"""Judges of lesson 3, expressions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from minitensor import ir
from minitensor.errors import shown

from ..course.tasks import Case, FunctionTask, LackingError, Task, as_python
from .values import brief

_OPERATORS: Final[Sequence[ir.BinaryOp]] = ("+", "-", "*", "//", "%")
_COMPARISONS: Final[Sequence[ir.BinaryOp]] = ("<", "<=", "==", "!=")
_NAMES: Final = "ijk"


class SizeAndDepth(FunctionTask):
    """The first recursion."""

    name, text = "size_and_depth", "count the nodes of a tree"
    without = ("ir.nodes_in", "ir.summary", "arith.size")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        shared = drawn_tree(draw, 2)
        trees = [ir.Var("i"), ir.Const(draw.randint(-9, 9)), ir.Binary("*", shared, shared)]
        chain: ir.Expr = ir.Var("j")
        for _ in range(draw.randint(8, 30)):
            chain = ir.Binary("-", ir.Const(1), chain)
        return [(tree,) for tree in [*trees, chain, *(drawn_tree(draw, 5) for _ in range(8))]]

    def expected(self, expr: ir.Expr) -> tuple[int, int]:
        return size(expr), _depth(expr)


class Evaluate(FunctionTask):
    """The value of an index expression."""

    name, text = "evaluate", "evaluate an index expression"
    without = ("ir.evaluate", "ir.interpret", "interpret", "simplify", "arith.simplify", "build")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        found: list[Case] = []
        i, j = ir.Var("i"), ir.Var("j")
        for op in _OPERATORS:  # both signs, zero, and more than a float holds
            for a, b in [(-7, 2), (7, -2), (draw.randint(1, 9), 0), (draw.getrandbits(70), -3)]:
                found.append((ir.Binary(op, i, j), {"i": a, "j": b}))
        for op in _COMPARISONS:
            tree = ir.Select(ir.Binary(op, i, j), i * 2, j + 1, lazy=draw.random() < 0.5)
            found += [(tree, {"i": a, "j": b}) for a, b in [(1, 2), (2, 2), (3, 2)]]
        for _ in range(40):
            found.append((drawn_tree(draw, 5), {name: draw.randint(-20, 20) for name in _NAMES}))
        return found

    def expected(self, expr: ir.Expr, variables: Mapping[str, int]) -> Any:
        return ir.evaluate(expr, variables)


class Interval(Task):
    """Bounds of an expression."""

    name, text = "interval", "find the bounds of an expression"
    seconds = 5.0
    without = ("arith.interval_of", "arith.span_of", "simplify", "arith.simplify")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        trees = [_each_once(draw, draw.randint(1, 4)) for _ in range(24)]
        trees += [_remainder(_each_once(draw, 2), draw.randint(1, 9)) for _ in range(6)]
        i, j = ir.Var("i"), ir.Var("j")
        trees += [i * i, i - i, (i % 4) * (j % 3) - i, ir.Var("k") // 3 * 3 - j * j]
        found: list[Case] = []
        for tree in trees:
            ranges = {name: _range(draw) for name in sorted(ir.free_vars(tree))}
            if "choose" in ranges:
                ranges["choose"] = (0, 1)
            found.append((tree, ranges))
        return found

    def judge(self, case: Case, got: Any) -> None:
        expr, ranges = case
        call = f"of {ir.print_expr(expr)} for {ranges}"
        low, high = _bounds(got, call)
        exact = _is_exact(expr)
        values = []
        for given in _samples(ranges):
            value = ir.evaluate(expr, given)
            values.append(value)
            if not low <= value <= high:
                lines = [
                    f"value = ir.evaluate({as_python(expr)}, {given})",
                    "assert got[0] <= value <= got[1], (value, got)",
                ]
                text = f"{call} the bounds {_pair(got)} do not hold {value}, the value for {given}"
                raise LackingError(text, lines)
        least, most = min(values), max(values)
        if exact and (low, high) != (least, most):
            lines = [f"assert tuple(got) == {(least, most)}, got"]
            text = f"{call} the bounds {_pair(got)} are too wide; the values are {least} to {most}"
            raise LackingError(text, lines)
        match expr:
            case ir.Binary("%", _, ir.Const(n)) if not 0 <= low <= high < n:
                text = f"{call} the bounds {_pair(got)} are not within 0 and {n - 1}"
                raise LackingError(text, [f"assert 0 <= got[0] and got[1] < {n}, got"])


class Simplify(Task):
    """A small simplifier."""

    name, text = "simplify", "simplify an expression, and keep its value"
    points = 2
    without = ("simplify", "arith.simplify", "arith.Simplifier", "arith.simplified_linear")

    def cases(self, draw: random.Random) -> Sequence[Case]:
        i, j, zero, one = ir.Var("i"), ir.Var("j"), ir.Const(0), ir.Const(1)
        inner = drawn_tree(draw, 2)
        choice = ir.Select(ir.Binary("<", zero, one), i, j)
        from_left: Sequence[tuple[ir.BinaryOp, ir.Expr]] = (("+", zero), ("*", one), ("*", zero))
        found = [
            *(ir.Binary(op, i, zero) for op in ("+", "-", "*")),
            *(ir.Binary(op, i, one) for op in ("*", "//", "%")),
            *(ir.Binary(op, left, i) for op, left in from_left),
            *(ir.Binary("-", left, i) for left in (zero, one)),
            *(ir.Binary("//", left, i) for left in (zero, one)),
            *(ir.Binary(op, ir.Const(draw.randint(-30, 30)), zero) for op in ("//", "%")),
            *(ir.Binary(op, ir.Const(-7), ir.Const(2)) for op in _OPERATORS),
            *(ir.Select(ir.Binary(op, one, one), i, j) for op in _COMPARISONS),
            ir.Binary("+", ir.Binary("*", inner, zero), i),
            ir.Binary("*", i, ir.Binary("//", choice, ir.Binary("-", ir.Const(3), ir.Const(2)))),
            ir.Select(ir.Binary("<", ir.Binary("*", zero, i), one), choice, j),
        ]
        return [(tree,) for tree in [*found, *(drawn_tree(draw, 5) for _ in range(30))]]

    def judge(self, case: Case, got: Any) -> None:
        (expr,) = case
        text = ir.print_expr(expr)
        names = set(ir.free_vars(expr))
        wrong = _malformed(got, names)
        if wrong:
            raise LackingError(f"of {text}: {wrong}", _WELL_FORMED)
        change = f"{text} becomes {ir.print_expr(got)}"
        draws = random.Random(text)
        numbers = [0, 1, -1, 2, -7, *(draws.randint(-40, 40) for _ in range(7))]
        for _ in range(40):
            given = {name: draws.choice(numbers) for name in sorted(names)}
            want, value = ir.evaluate(expr, given), ir.evaluate(got, given)
            if value != want:
                lines = [f"value = ir.evaluate(got, {given})", f"assert value == {want}, value"]
                said = f"{change}: for {given} it is {shown(value)}, not {want}"
                raise LackingError(said, lines)
        if size(got) > size(expr):
            lines = [f"assert len(list(ir.walk(got))) <= {size(expr)}"]
            raise LackingError(f"{change}, which is larger", lines)
        for node in ir.walk(got):
            rule = _rule(node)
            if rule:
                lines = [f"assert {as_python(node)} not in list(ir.walk(got)), got"]
                raise LackingError(f"{change}: there the rule {rule} applies", lines)


def drawn_tree(draw: random.Random, depth: int, names: Sequence[str] = _NAMES) -> ir.Expr:
    """A tree of at most so many levels, with numbers for which rules apply more often."""
    if depth <= 1 or draw.random() < 0.1:
        if draw.random() < 0.5:
            return ir.Var(draw.choice(names))
        return ir.Const(draw.choice([0, 0, 1, 1, 2, 3, -1, -4, draw.randint(-20, 20)]))
    a, b = drawn_tree(draw, depth - 1, names), drawn_tree(draw, depth - 1, names)
    if draw.random() < 0.15:
        left, right = drawn_tree(draw, depth - 2, names), drawn_tree(draw, depth - 2, names)
        condition = ir.Binary(draw.choice(_COMPARISONS), left, right)
        return ir.Select(condition, a, b, lazy=draw.random() < 0.5)
    return ir.Binary(draw.choice(_OPERATORS), a, b)


def size(expr: ir.Expr) -> int:
    """The number of nodes."""
    return sum(1 for _ in ir.walk(expr))


def _depth(expr: Any) -> int:
    return 1 + max([_depth(child) for child in ir.children(expr)], default=0)


# ---- intervals


def _each_once(draw: random.Random, leaves: int) -> ir.Expr:
    """A tree of + - * and // by a positive number in which each variable occurs once."""
    parts: list[ir.Expr] = [ir.Var(name) for name in "ijkl"[:leaves]]
    parts.append(ir.Const(draw.randint(-9, 9)))
    draw.shuffle(parts)
    while len(parts) > 1:
        a, b = parts.pop(), parts.pop()
        joined: ir.Expr = ir.Binary(draw.choice(("+", "-", "*")), a, b)
        if draw.random() < 0.4:
            joined = ir.Binary("//", joined, ir.Const(draw.randint(1, 9)))
        parts.insert(draw.randint(0, len(parts)), joined)
    if draw.random() < 0.25:
        condition = ir.Binary("<", ir.Var("choose"), ir.Const(1))
        other = ir.Binary("+", ir.Var("m"), ir.Const(draw.randint(-50, 50)))
        return ir.Select(condition, parts[0], other)
    return parts[0]


def _remainder(expr: ir.Expr, n: int) -> ir.Expr:
    return ir.Binary("%", expr, ir.Const(n))


def _range(draw: random.Random) -> tuple[int, int]:
    low = draw.choice([0, 0, draw.randint(-30, 30), -(10**6)])
    return low, low + draw.choice([0, 1, 7, draw.randint(2, 60), 10**7])


def _is_exact(expr: ir.Expr) -> bool:
    """Tell whether each variable occurs once and nothing is a remainder."""
    names = [node.name for node in ir.walk(expr) if isinstance(node, ir.Var)]
    remainders = [n for n in ir.walk(expr) if isinstance(n, ir.Binary) and n.op == "%"]
    return len(names) == len(set(names)) and not remainders


def _samples(ranges: Mapping[str, tuple[int, int]]) -> Iterator[dict[str, int]]:
    """Values of the variables: all corners, between which an expression is monotone in each
    variable that occurs once, and some values inside.
    """
    for corner in itertools.product(*ranges.values()):
        yield dict(zip(ranges, corner))
    draw = random.Random(str(ranges))
    for _ in range(60):
        near = {name: (low, min(high, low + 20)) for name, (low, high) in ranges.items()}
        yield {name: draw.randint(*near[name]) for name in ranges}
        yield {name: draw.randint(*pair) for name, pair in ranges.items()}


def _bounds(got: Any, call: str) -> tuple[Any, Any]:
    """The two numbers of an answer to a call. Raises LackingError."""
    pair = got if isinstance(got, (tuple, list)) else ()
    numbers = [n.item() if isinstance(n, np.generic) else n for n in pair]
    if len(numbers) != 2 or any(type(n) not in (int, float) for n in numbers):
        lines = ("assert len(got) == 2 and all(isinstance(n, int) for n in got), got",)
        text = f"{call} a pair of numbers (low, high) is wanted, not {brief(got)}"
        raise LackingError(text, lines)
    return numbers[0], numbers[1]


def _pair(got: Any) -> str:
    return f"({shown(got[0])}, {shown(got[1])})"


# ---- simplified expressions

_WELL_FORMED: Final = (
    "nodes = list(ir.walk(got))",
    "assert all(isinstance(n, (ir.Var, ir.Const, ir.Binary, ir.Select)) for n in nodes), nodes",
    "for n in nodes:",
    "    if isinstance(n, ir.Const):",
    "        assert type(n.value) is (bool if n.dtype == ir.DType.of('bool') else int), n",
    "    if isinstance(n, ir.Select):",
    "        assert n.condition.dtype == ir.DType.of('bool') and n.dtype == ir.INDEX, n",
    "    if isinstance(n, ir.Binary):",
    "        assert n.a.dtype == n.b.dtype == ir.INDEX and n.op in ir.COMPARISONS | set('+-*%')"
    " | {'//'}, n",
    "assert got.dtype == ir.INDEX, got.dtype",
    "raise AssertionError(got)",
)


def _malformed(got: Any, names: set[str]) -> str | None:
    """A sentence on what is no index expression over these variables; None for one that is."""
    if not isinstance(got, ir.Expr):
        return f"an expression is wanted, a node such as ir.Binary, not {brief(got)}"
    for node in ir.walk(got):
        match node:
            case ir.Var(name, dtype) if dtype == ir.INDEX:
                if not isinstance(name, str) or name not in names:
                    return "a variable in it is none of the expression's"
            case ir.Const(value, dtype):
                if type(value) is not (bool if dtype == ir.BOOL else int):
                    return "the value of a constant in it is not a Python int, or bool, as its type"
            case ir.Binary(op, a, b) if op in _OPERATORS or op in _COMPARISONS:
                if a.dtype != ir.INDEX or b.dtype != ir.INDEX:
                    return f"the operands of a {op} in it are not of type index"
            case ir.Select(condition, a, b):
                if condition.dtype != ir.BOOL or a.dtype != b.dtype:
                    return "the condition of a choice in it is no comparison, or its sides differ"
            case _:
                return f"it has a node that the expression has not, a {type(node).__name__}"
    return None if got.dtype == ir.INDEX else "it is of another type than index"


def _rule(node: Any) -> str | None:
    """A rule of the task that applies to a node."""
    match node:
        case ir.Select(ir.Const()):
            return "of a choice with a known condition"
        case ir.Binary(_, ir.Const(), ir.Const()):
            return "of two constants"
        case ir.Binary("+" | "-" as op, _, ir.Const(0)):
            return f"x {op} 0"
        case ir.Binary("*" | "//" | "%" as op, _, ir.Const(1)):
            return f"x {op} 1"
        case ir.Binary("*", _, ir.Const(0)):
            return "x * 0"
        case ir.Binary("+", ir.Const(0), _):
            return "0 + x"
        case ir.Binary("*", ir.Const(0 | 1 as number), _):
            return f"{number} * x"
    return None


TASKS: Sequence[Task] = (SizeAndDepth(), Evaluate(), Interval(), Simplify())
