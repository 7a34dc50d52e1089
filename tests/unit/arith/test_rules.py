"""Every rule of the simplifier, tried on every assignment from [-16, 16]."""

import ast
import itertools

import numpy as np
import pytest

from minitensor.arith import Interval, Linear, rules
from minitensor.arith.rules import CONSTANT_NAMES, Rule, parse_rule
from minitensor.ir import (
    BOOL,
    TRUE,
    Binary,
    Const,
    Expr,
    Unary,
    Var,
    conjunction,
    free_vars,
)
from tests.index_values import value_of

SMALL = np.arange(-16, 17)
INDEX_TABLES = ("QUOTIENT", "REMAINDER", "SUM", "COMPARISON", "EXTREMUM", "INTEGER")
INDEX_RULES = [rule for name in INDEX_TABLES for rule in getattr(rules, name)]


def condition_of(rule: Rule) -> Expr:
    """The condition of a rule as an expression, read from its line apart from `rules`."""
    _, _, text = rule.reading.partition(" if ")
    return _read(ast.parse(text.strip(), mode="eval").body) if text else TRUE


def _read(tree: ast.expr) -> Expr:
    signs = {
        ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%",
        ast.Lt: "<", ast.LtE: "<=", ast.Eq: "==",
    }  # fmt: skip
    match tree:
        case ast.Name(name):
            return Var(name)
        case ast.Constant(number):
            return Const(number)
        case ast.BinOp(a, op, b) | ast.Compare(a, [op], [b]):
            return Binary(signs[type(op)], _read(a), _read(b))
        case ast.BoolOp(ast.And(), parts):
            return conjunction(map(_read, parts))
        case ast.Call(ast.Name(end), [ast.Name(name)]):
            return Var(f"{end}({name})")
    raise ValueError(ast.unparse(tree))


def names_of(*exprs: Expr) -> list[str]:
    return sorted({name for expr in exprs for name in free_vars(expr)})


def assignments(names: list[str], truths: frozenset[str] = frozenset()) -> dict[str, np.ndarray]:
    """All of [-16, 16]^k, or of the truth values for `truths`; lo(x) <= x <= hi(x)."""
    domains = [np.array([False, True]) if name in truths else SMALL for name in names]
    grid = dict(zip(names, (axis.reshape(-1) for axis in np.meshgrid(*domains, indexing="ij"))))
    for name in names:
        if name.startswith("lo("):
            inner = name[3:-1]
            kept = (grid[name] <= grid[inner]) & (grid[inner] <= grid[f"hi({inner})"])
            grid = {n: values[kept] for n, values in grid.items()}
    return grid


def counterexample(rule: Rule, truths: frozenset[str] = frozenset()) -> dict[str, int] | None:
    """An assignment that meets the condition and of which the two sides differ; None if none.

    The domain is every assignment from [-16, 16] to the names of the pattern, and where the rule
    asks for the ends of an interval, every interval there that holds the value.
    """
    condition = condition_of(rule)
    names = names_of(rule.pattern, rule.replacement, condition)
    for name in list(names):
        if name[:3] in ("lo(", "hi("):
            names += [end for end in (f"lo({name[3:]}", f"hi({name[3:]}") if end not in names]
    points = assignments(names, truths)
    meets = value_of(condition, points)
    assert meets.any(), f"the condition of {rule.reading!r} never holds"
    differ = meets & (value_of(rule.pattern, points) != value_of(rule.replacement, points))
    if not differ.any():
        return None
    first = int(np.flatnonzero(differ)[0])
    return {name: int(values[first]) for name, values in points.items()}


@pytest.mark.parametrize("rule", INDEX_RULES, ids=lambda rule: rule.reading)
def test_rule_holds_for_all_small_integers(rule):
    assert counterexample(rule) is None


def truths_of(expr: Expr) -> frozenset[str]:
    """The names that a pattern of LOGIC uses as conditions."""
    if isinstance(expr, Binary):
        return frozenset(names_of(expr))
    return frozenset(names_of(expr.a if isinstance(expr, Unary) else expr.condition))


@pytest.mark.parametrize("rule", rules.LOGIC, ids=lambda rule: rule.reading)
def test_logic_rule_holds_for_all_truth_values(rule):
    assert counterexample(rule, frozenset(names_of(rule.pattern))) is None
    assert counterexample(rule, truths_of(rule.pattern)) is None  # select(x, 3, -7), too


def test_assignments_are_all_of_them():
    assert len(assignments(["c", "g", "q", "r"])["q"]) == 33**4
    points = assignments(["c", "hi(x)", "lo(x)", "x"])
    triples = {t for t in itertools.product(SMALL, repeat=3) if t[0] <= t[1] <= t[2]}
    assert {*zip(points["lo(x)"], points["x"], points["hi(x)"])} == triples
    assert len(points["c"]) == 33 * len(triples)


WRONG = [
    "x // c -> x // (0 - c) if c < 0",
    "x // c -> lo(x) // c if lo(x) // c <= hi(x) // c",
    "x // c -> lo(x) // c if 0 < c and lo(x) == hi(x) - 1",
    "(q*c + r) // c -> q + r // c",
    "(q*g + r) // c -> q // (c // g) if 1 < g and 0 < c and c % g == 0 and 0 <= r and r <= g",
    "(q*g + r) // c -> q // (c // g) if 1 < g and 0 < c and c % g == 0 and r < g",
    "x // d // c -> x // (d * c) if 0 < d",
    "x % d // c -> x // c % (d // c) if 0 < c and 0 < d",
    "x % c -> x if 0 < c and 0 <= x and x <= c",
    "x % c -> -x % (0 - c) if c < 0",
    "(q*c + r) % c -> r",
    "x % d % c -> x % c if 0 < c and 0 < d and c % d == 0",
    "x // c * (c * m) + x % c * m -> x * m",
    "x // d % c * (d * m) + x % d * m -> x % (d * c) * m",
    "0 <= k - x // c -> 0 <= k * c + c - x if 0 < c",
    "min(min(x, c), d) -> min(x, c)",
    "max(x, y) -> x if x <= y",
    "x - x -> x",
]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_rule_is_found(line):
    assert counterexample(parse_rule(line)) is not None


@pytest.mark.parametrize("line", ["x and y -> x", "select(x, y, z) -> y", "not x -> x"])
def test_a_wrong_logic_rule_is_found(line):
    rule = parse_rule(line)
    assert counterexample(rule, truths_of(rule.pattern)) is not None


CAUTIOUS = {
    ("x // c -> -x // (0 - c)", "c < 0"),
    ("x % c -> -(-x % (0 - c))", "c < 0"),
    ("x // d // c -> x // (d * c) if 0 < c", "0 < d"),
    ("x % d % c -> x % c if 0 < d and d % c == 0", "0 < c"),
    ("x // d % c * (d * m) + x % d * m -> x % (d * c) * m if 0 < c", "0 < d"),
    ("(q*c + r) % c -> r % c", "0 < c"),
    (
        "(q*g + r) // c -> q // (c // g) if 0 < c and c % g == 0 and 0 <= r and r < g",
        "1 < g",
    ),
    (
        "(q*g + r) % c -> q % (c // g) * g + r if 0 < c and c % g == 0 and 0 <= r and r < g",
        "1 < g",
    ),
}
"""Rules that are right without a condition: it keeps them from running in circles."""


def without_each_condition() -> list[tuple[Rule, str]]:
    """Each rule without one of its conditions, and which."""
    found = []
    for rule in INDEX_RULES:
        head, _, text = rule.reading.partition(" if ")
        parts = [part.strip() for part in text.split(" and ")] if text else []
        for part in parts:
            rest = " and ".join(p for p in parts if p is not part)
            found.append((parse_rule(head + (f" if {rest}" if rest else "")), part))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "dropped"), without_each_condition(), ids=lambda v: v if isinstance(v, str) else ""
)
def test_a_rule_without_one_of_its_conditions_is_found(rule, dropped):
    wrong = counterexample(rule) is not None
    assert wrong == ((rule.reading, dropped) not in CAUTIOUS)


# ---- conditions are proven from intervals

WITH_CONDITION = [rule for rule in INDEX_RULES if rule.condition is not None]
ENDS = (-6, -5, -1, 0, 1, 2, 3, 5)
CONSTANTS = (-4, -1, 0, 1, 2, 3, 4, 6)


@pytest.mark.parametrize("rule", WITH_CONDITION, ids=lambda rule: rule.reading)
def test_a_condition_that_is_proven_holds_everywhere_in_the_intervals(rule):
    """Constants are bound to numbers, other names to variables that have a range."""
    condition = condition_of(rule)
    used = {n[3:-1] if n[:3] in ("lo(", "hi(") else n for n in free_vars(condition)}
    fixed = sorted(used & CONSTANT_NAMES)
    loose = sorted(used - CONSTANT_NAMES)
    intervals = [Interval(lo, hi) for lo in ENDS for hi in ENDS if lo <= hi]
    proven = 0
    for numbers in itertools.product(CONSTANTS, repeat=len(fixed)):
        for spans in itertools.product(intervals, repeat=len(loose)):
            bound = {name: Linear({}, value) for name, value in zip(fixed, numbers)}
            bound |= {name: Linear({Var(name): 1}) for name in loose}
            ranges = dict(zip(loose, spans))
            if not rule.holds(bound, ranges):
                continue
            proven += 1
            values = {name: np.array([value]) for name, value in zip(fixed, numbers)}
            for name, (lo, hi) in ranges.items():
                values |= {f"lo({name})": np.array([lo]), f"hi({name})": np.array([hi])}
            axes = [np.arange(lo, hi + 1) for lo, hi in spans]
            grid = np.meshgrid(*axes, indexing="ij")
            count = int(np.prod([len(axis) for axis in axes]))
            values = {name: np.repeat(v, count) for name, v in values.items()}
            values |= {name: axis.reshape(-1) for name, axis in zip(loose, grid)}
            assert value_of(condition, values).all(), (rule.reading, numbers, ranges)
    assert proven > 0
    assert not rule.holds({n: Linear({Var(n): 1}) for n in used}, {}), "nothing is known"


# ---- data

UFUNCS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "//": np.floor_divide, "%": np.remainder, "min": np.minimum, "max": np.maximum,
}  # fmt: skip


def on_data(expr: Expr, values: np.ndarray) -> np.ndarray:
    """A side of a rule in x alone, in the type of the values."""
    match expr:
        case Var():
            return values
        case Const(value):
            return np.full_like(values, value)
        case Unary(_, a):
            return -on_data(a, values)
        case Binary(op, a, b):
            return UFUNCS[op](on_data(a, values), on_data(b, values))
    raise ValueError(expr)


FLOATS = {
    "float16": np.arange(1 << 16).astype(np.uint16).view(np.float16),
    "float32": np.array(
        [0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3.4e38], np.float32
    ),
    "float64": np.array([0.0, -0.0, 0.1, np.inf, -np.inf, np.nan, 5e-324, 1.7e308], np.float64),
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rule", rules.FLOAT, ids=lambda rule: rule.reading)
def test_float_rule_holds_bit_for_bit(rule, dtype):
    """Of every float16, zeros of either sign, infinities and NaN (whose bits are not told)."""
    values = FLOATS[dtype]
    with np.errstate(invalid="ignore"):  # a signalling NaN becomes a quiet one
        before, after = on_data(rule.pattern, values), on_data(rule.replacement, values)
    assert before.dtype == after.dtype == values.dtype
    assert np.array_equal(before, after, equal_nan=True)
    number = ~np.isnan(values)
    assert np.array_equal(np.signbit(before)[number], np.signbit(after)[number])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@pytest.mark.parametrize("rule", rules.INTEGER, ids=lambda rule: rule.reading)
def test_integer_rule_holds_when_arithmetic_wraps(rule, dtype):
    """Of every number of the type."""
    values = np.arange(1 << (8 * np.dtype(dtype).itemsize)).astype(dtype)
    assert np.array_equal(on_data(rule.pattern, values), on_data(rule.replacement, values))


def test_constant_names_are_the_documented_ones():
    assert set("cdgmk") == CONSTANT_NAMES


def test_a_condition_on_an_infinite_interval_does_not_hold():
    rule = rules.parse_rule("x // c -> lo(x) // c if lo(x) // c == hi(x) // c")
    assert not rule.holds({"x": Linear({Var("x"): 1}), "c": Linear({}, 4)}, {})


@pytest.mark.parametrize("line", ["x ** 2 -> x", "x -> y if x", "x -> f(x)"])
def test_a_line_that_is_no_rule_is_refused(line):
    with pytest.raises(ValueError, match="not a"):
        rules.parse_rule(line)


def test_bool_constants_are_not_numbers():
    assert rules.LOGIC[0].pattern == Binary("and", Var("x"), Const(True, BOOL))
