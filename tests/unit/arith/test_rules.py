"""Every rule of the simplifier, tried on every assignment from [-16, 16]."""

import itertools

import numpy as np
import pytest

from minitensor.arith import Linear, rules
from minitensor.arith.rules import CONSTANT_NAMES, Rule
from minitensor.ir import BOOL, Binary, Const, Expr, Unary, Var, evaluate, walk

SMALL = np.arange(-16, 17)
TABLES = {
    name: getattr(rules, name)
    for name in ("QUOTIENT", "REMAINDER", "SUM", "COMPARISON", "EXTREMUM", "INTEGER")
}


def value(expr: Expr, values: dict[str, int]) -> int:
    """The expression's value; `lo(x)` and `hi(x)` of a point are x."""
    ends = {f"{end}({name})": v for name, v in values.items() for end in ("lo", "hi")}
    return evaluate(expr, {**values, **ends})


def names(rule: Rule) -> list[str]:
    return sorted({n.name for n in walk(rule.pattern) if isinstance(n, Var)})


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule", [r for t in TABLES.values() for r in t], ids=lambda rule: rule.reading
)
def test_rule_holds_for_all_small_integers(rule):
    variables = names(rule)
    tried = held = 0
    domain = SMALL if len(variables) < 4 else SMALL[::2] if len(variables) == 4 else SMALL[::3]
    for point in itertools.product(domain.tolist(), repeat=len(variables)):
        values = dict(zip(variables, point))
        tried += 1
        if rule.holds({n: Linear({}, v) for n, v in values.items()}, {}):
            held += 1
            before, after = value(rule.pattern, values), value(rule.replacement, values)
            assert before == after, (rule.reading, values)
    assert held > 0, f"the condition of {rule.reading!r} held for none of {tried}"


@pytest.mark.parametrize("rule", rules.LOGIC, ids=lambda rule: rule.reading)
def test_logic_rule_holds_for_all_truth_values(rule):
    for point in itertools.product((False, True), repeat=len(names(rule))):
        values = dict(zip(names(rule), point))
        assert value(rule.pattern, values) == value(rule.replacement, values)


@pytest.mark.parametrize("rule", rules.FLOAT, ids=lambda rule: rule.reading)
def test_float_rule_holds_bit_for_bit(rule):
    special = np.array([0.0, -0.0, 1.5, -2.25, np.inf, -np.inf, np.nan, 1e-45], np.float32)
    ops = {
        "*": np.multiply, "/": np.divide, "-": np.subtract,
        "min": np.minimum, "max": np.maximum,
    }  # fmt: skip

    def run(expr):
        match expr:
            case Var():
                return special
            case Const(value):
                return np.float32(value)
            case Unary(_, a):
                return -run(a)
            case Binary(op, a, b):
                return ops[op](run(a), run(b))

    assert run(rule.pattern).tobytes() == run(rule.replacement).tobytes()


def test_integer_rules_hold_when_arithmetic_wraps():
    ops = {
        "+": np.add, "-": np.subtract, "*": np.multiply,
        "//": np.floor_divide, "%": np.remainder, "min": np.minimum, "max": np.maximum,
    }  # fmt: skip
    values = np.arange(-128, 128).astype(np.int8)

    def run(expr):
        match expr:
            case Var():
                return values
            case Const(value):
                return np.int8(value)
            case Unary(_, a):
                return -run(a)
            case Binary(op, a, b):
                return ops[op](run(a), run(b))

    for rule in rules.INTEGER:
        assert np.array_equal(*np.broadcast_arrays(run(rule.pattern), run(rule.replacement)))


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
