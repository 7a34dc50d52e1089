import itertools
import operator

import minitensor as mt
from minitensor import arith, ir

# ---- size_and_depth


def size_and_depth(expr):
    match expr:
        case ir.Binary(_, a, b):
            below = [size_and_depth(a), size_and_depth(b)]
        case ir.Select(condition, a, b):
            below = [size_and_depth(condition), size_and_depth(a), size_and_depth(b)]
        case _:
            return 1, 1
    return 1 + sum(n for n, _ in below), 1 + max(d for _, d in below)


def size_and_depth_by_levels(expr):
    level, size, depth = [expr], 0, 0
    while level:
        size, depth = size + len(level), depth + 1
        level = [child for node in level for child in ir.children(node)]
    return size, depth


def size_and_depth_with_a_stack(expr):
    size = deepest = 0
    stack = [(expr, 1)]
    while stack:
        node, depth = stack.pop()
        size, deepest = size + 1, max(deepest, depth)
        names = {ir.Binary: "ab", ir.Select: ("condition", "a", "b")}.get(type(node), ())
        stack += [(getattr(node, name), depth + 1) for name in names]
    return [size, deepest]


def size_of_different_nodes(expr):
    return len(set(ir.walk(expr))), size_and_depth(expr)[1]


def depth_in_steps(expr):
    size, depth = size_and_depth(expr)
    return size, depth - 1


def size_without_the_conditions(expr):
    match expr:
        case ir.Binary(_, a, b) | ir.Select(_, a, b):
            (m, d), (n, e) = map(size_without_the_conditions, (a, b))
            return 1 + m + n, 1 + max(d, e)
    return 1, 1


def size_only(expr):
    return size_and_depth(expr)[0]


# ---- evaluate

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}


def evaluate(expr, variables):
    match expr:
        case ir.Var(name):
            return variables[name]
        case ir.Const(value):
            return value
        case ir.Select(condition, a, b):
            return evaluate(a if evaluate(condition, variables) else b, variables)
        case ir.Binary(op, a, b):
            return OPERATORS[op](evaluate(a, variables), evaluate(b, variables))


def evaluate_from_the_leaves(expr, variables):
    def value(node):
        match node:
            case ir.Var(name):
                return ir.Const(variables[name])
            case ir.Select(ir.Const(condition), a, b):
                return a if condition else b
            case ir.Binary(op, ir.Const(a), ir.Const(b)):
                result = OPERATORS[op](a, b)
                return ir.Const(result, node.dtype)
        return node

    return ir.rewrite(expr, value).value


def evaluate_on_a_stack(expr, variables):
    values = []
    for node in reversed(list(ir.walk(expr))):
        match node:
            case ir.Var(name):
                values.append(variables[name])
            case ir.Const(value):
                values.append(value)
            case ir.Select():
                condition, a, b = values.pop(), values.pop(), values.pop()
                values.append(a if condition else b)
            case ir.Binary(op):
                a, b = values.pop(), values.pop()
                if op == "//":  # by hand: down, also where the remainder is negative
                    quotient = abs(a) // abs(b) if b else 0
                    exact = b == 0 or abs(a) % abs(b) == 0
                    same = (a < 0) == (b < 0)
                    values.append(quotient if same else -quotient - (not exact))
                else:
                    values.append(OPERATORS[op](a, b))
    return values[0]


def _with(**others):
    def found(expr, variables):
        match expr:
            case ir.Binary(op, a, b) if op in others:
                return others[op](found(a, variables), found(b, variables))
            case ir.Binary(op, a, b):
                return OPERATORS[op](found(a, variables), found(b, variables))
            case ir.Select(condition, a, b):
                return found(a if found(condition, variables) else b, variables)
        return evaluate(expr, variables)

    return found


def evaluate_as_in_c(expr, variables):
    def div(a, b):
        return int(a / b) if b else 0

    return _with(**{"//": div, "%": lambda a, b: a - div(a, b) * b})(expr, variables)


def evaluate_with_errors(expr, variables):
    return _with(**{"//": operator.floordiv, "%": operator.mod})(expr, variables)


def evaluate_rounded(expr, variables):
    return _with(**{"//": lambda a, b: (a / b) // 1 if b else 0})(expr, variables)


def evaluate_the_wrong_side(expr, variables):
    match expr:
        case ir.Select(condition, a, b):
            first, second = (evaluate_the_wrong_side(e, variables) for e in (a, b))
            return second if evaluate(condition, variables) else first
        case ir.Binary(op, a, b):
            sides = (evaluate_the_wrong_side(e, variables) for e in (a, b))
            return OPERATORS[op](*sides)
    return evaluate(expr, variables)


def evaluate_by_the_system(expr, variables):
    return ir.evaluate(expr, variables)


# ---- interval


def interval(expr, ranges):
    match expr:
        case ir.Var(name):
            return ranges[name]
        case ir.Const(value):
            return value, value
        case ir.Select(_, a, b):
            (p, q), (r, s) = interval(a, ranges), interval(b, ranges)
            return min(p, r), max(q, s)
        case ir.Binary("%", _, ir.Const(n)):
            return 0, n - 1
        case ir.Binary(op, a, b):
            pairs = itertools.product(interval(a, ranges), interval(b, ranges))
            corners = [OPERATORS[op](x, y) for x, y in pairs]
            return min(corners), max(corners)


def interval_by_cases(expr, ranges):
    if isinstance(expr, ir.Var):
        return list(ranges[expr.name])
    if isinstance(expr, ir.Const):
        return [expr.value] * 2
    low, high = interval_by_cases(expr.a, ranges)
    least, most = interval_by_cases(expr.b, ranges)
    if isinstance(expr, ir.Select):
        return [min(low, least), max(high, most)]
    if expr.op == "+":
        return [low + least, high + most]
    if expr.op == "-":
        return [low - most, high - least]
    if expr.op == "*":
        products = low * least, low * most, high * least, high * most
        return [min(products), max(products)]
    if expr.op == "//":
        return [low // least, high // least]
    fits = low // least == high // least
    return [low % least, high % least] if fits else [0, least - 1]


def interval_of_all_corners(expr, ranges):
    def bounds(node, below):
        match node:
            case ir.Var(name):
                return set(ranges[name])
            case ir.Const(value):
                return {value}
            case ir.Select():
                return below[1] | below[2]
            case ir.Binary("%", _, ir.Const(n)):
                return {0, n - 1}
            case ir.Binary(op):
                found = {OPERATORS[op](x, y) for x in below[0] for y in below[1]}
                return {min(found), max(found)}

    found = ir.measured(expr, bounds)
    return min(found), max(found)


def _interval_with(expr, ranges, join):
    """The bounds, where `join` may have others for a node."""
    match expr:
        case ir.Var() | ir.Const():
            return interval(expr, ranges)
        case ir.Select(_, a, b) | ir.Binary(_, a, b):
            first, second = (_interval_with(e, ranges, join) for e in (a, b))
            found = join(expr, first, second)
            node = ir.Select(ir.TRUE, ir.Var("?"), ir.Var("!"))
            if isinstance(expr, ir.Binary):
                fixed = expr.b if isinstance(expr.b, ir.Const) else ir.Var("!")
                node = ir.Binary(expr.op, ir.Var("?"), fixed)
            return found or interval(node, {"?": first, "!": second})


def interval_of_positive_products(expr, ranges):
    def join(node, a, b):
        return (a[0] * b[0], a[1] * b[1]) if getattr(node, "op", "") == "*" else None

    return _interval_with(expr, ranges, join)


def interval_of_differences_end_by_end(expr, ranges):
    def join(node, a, b):
        return (a[0] - b[0], a[1] - b[1]) if getattr(node, "op", "") == "-" else None

    return _interval_with(expr, ranges, join)


def interval_of_remainders_as_given(expr, ranges):
    def join(node, a, b):
        return (a[0] % b[0], a[1] % b[0]) if getattr(node, "op", "") == "%" else None

    return _interval_with(expr, ranges, join)


def interval_of_one_side(expr, ranges):
    def join(node, a, b):
        return a if isinstance(node, ir.Select) else None

    return _interval_with(expr, ranges, join)


def interval_too_wide(expr, ranges):
    low, high = interval(expr, ranges)
    return low - 1, high


def interval_without_end(expr, ranges):
    return float("-inf"), float("inf")


def interval_one_number(expr, ranges):
    return interval(expr, ranges)[0]


def interval_by_the_system(expr, ranges):
    found = arith.interval_of(expr, {n: arith.Interval(*pair) for n, pair in ranges.items()})
    return tuple(found)


# ---- simplify


def _node(node, op_of=OPERATORS):
    """A node with operands that are simple already."""
    match node:
        case ir.Select(ir.Const(condition), a, b):
            return a if condition else b
        case ir.Binary(op, ir.Const(a), ir.Const(b)):
            return ir.const(op_of[op](a, b), node.dtype)
        case ir.Binary("+" | "-", a, ir.Const(0)) | ir.Binary("*" | "//", a, ir.Const(1)):
            return a
        case ir.Binary("+", ir.Const(0), b) | ir.Binary("*", ir.Const(1), b):
            return b
        case ir.Binary("*", ir.Const(0), _) | ir.Binary("*", _, ir.Const(0)):
            return ir.Const(0)
        case ir.Binary("%", _, ir.Const(1)):
            return ir.Const(0)
    return node


def simplify(expr):
    match expr:
        case ir.Binary(op, a, b):
            return _node(ir.Binary(op, simplify(a), simplify(b)))
        case ir.Select(condition, a, b, lazy):
            return _node(ir.Select(simplify(condition), simplify(a), simplify(b), lazy))
    return expr


def simplify_until_nothing_changes(expr):
    while True:
        found = simplify_from_the_root(expr)
        if found == expr:
            return found
        expr = found


def simplify_and_more(expr):
    def better(node):
        node = _node(node)
        match node:
            case ir.Binary("-", a, b) if a == b:
                return ir.Const(0)
            case ir.Select(_, a, b) if a == b:
                return a
            case ir.Binary("+", ir.Const() as a, b):
                return ir.Binary("+", b, a)
        return node

    return ir.rewrite(expr, better)


def simplify_from_the_root(expr):
    found = _node(expr)
    if found != expr:
        return found
    return ir.map_children(expr, simplify_from_the_root)


def simplify_once(expr):
    return _node(expr)


def simplify_numbers_only(expr):
    def fold(node):
        match node:
            case ir.Binary(op, ir.Const(a), ir.Const(b)):
                return ir.const(OPERATORS[op](a, b), node.dtype)
        return node

    return ir.rewrite(expr, fold)


def simplify_zero_minus(expr):
    def rule(node):
        match node:
            case ir.Binary("-", ir.Const(0), b):
                return b
        return _node(node)

    return ir.rewrite(expr, rule)


def simplify_as_in_c(expr):
    others = {**OPERATORS, "//": lambda a, b: int(a / b) if b else 0}
    return ir.rewrite(expr, lambda node: _node(node, others))


def simplify_with_errors(expr):
    others = {**OPERATORS, "//": operator.floordiv, "%": operator.mod}
    return ir.rewrite(expr, lambda node: _node(node, others))


def simplify_with_numbers_for_truth(expr):
    def fold(node):
        match node:
            case ir.Binary(op, ir.Const(a), ir.Const(b)):
                return ir.Const(int(OPERATORS[op](a, b)))
            case ir.Select(condition, a, b):
                known = {ir.TRUE: a, ir.FALSE: b}
                return known.get(condition, node)
        return _node(node)

    return ir.rewrite(expr, fold)


def simplify_to_a_value(expr):
    found = simplify(expr)
    return found.value if isinstance(found, ir.Const) else found


def simplify_larger(expr):
    return simplify(expr) * 2 // 2


def simplify_nothing(expr):
    return expr


def simplify_by_the_system(expr):
    return mt.simplify(expr)


RIGHT = {
    "size_and_depth": [size_and_depth, size_and_depth_by_levels, size_and_depth_with_a_stack],
    "evaluate": [evaluate, evaluate_from_the_leaves, evaluate_on_a_stack],
    "interval": [interval, interval_by_cases, interval_of_all_corners],
    "simplify": [simplify, simplify_until_nothing_changes, simplify_and_more],
}
WRONG = {
    "size_and_depth": [
        (size_of_different_nodes, "right is"),
        (depth_in_steps, "right is"),
        (size_without_the_conditions, "right is"),
        (size_only, "right is"),
    ],
    "evaluate": [
        (evaluate_as_in_c, "right is"),
        (evaluate_with_errors, "ZeroDivisionError"),
        (evaluate_rounded, "right is"),
        (evaluate_the_wrong_side, "right is"),
        (evaluate_by_the_system, "is to do without"),
    ],
    "interval": [
        (interval_of_positive_products, "do not hold"),
        (interval_of_differences_end_by_end, "do not hold"),
        (interval_of_remainders_as_given, "do not hold"),
        (interval_of_one_side, "do not hold"),
        (interval_too_wide, "are too wide"),
        (interval_without_end, "are too wide"),
        (interval_one_number, "a pair of numbers"),
        (interval_by_the_system, "is to do without"),
    ],
    "simplify": [
        (simplify_once, "applies"),
        (simplify_from_the_root, "applies"),
        (simplify_numbers_only, "applies"),
        (simplify_zero_minus, "it is"),
        (simplify_as_in_c, "it is"),
        (simplify_with_errors, "ZeroDivisionError"),
        (simplify_with_numbers_for_truth, "no comparison"),
        (simplify_to_a_value, "an expression is wanted"),
        (simplify_larger, "larger"),
        (simplify_nothing, "applies"),
        (simplify_by_the_system, "is to do without"),
    ],
}
