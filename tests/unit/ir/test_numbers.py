"""The arithmetic of every element type, against Python's integers and numpy's floats."""

import itertools
import math
import operator
from fractions import Fraction

import numpy as np
import pytest
import scipy.special

from minitensor.errors import ExecutionError, VerifyError
from minitensor.ir import (
    BOOL,
    FALSE,
    INDEX,
    TRUE,
    USER_DTYPES,
    Binary,
    Call,
    Cast,
    Const,
    DType,
    Select,
    Unary,
    Var,
    const,
    evaluate,
    floor_div,
    floor_mod,
    from_bfloat16,
    numpy_dtype,
    to_bfloat16,
    wrap_integer,
)
from tests.unit.ir.build import every_dtype, load, number

NUMPY_FLOATS = ("float64", "float32", "float16")
SPECIAL = [0.0, -0.0, 1.0, -1.5, 2.25, 1e-3, 65504.0, 1e30, -1e-40, 5e-324, math.inf, -math.inf]
FLOATS = [*SPECIAL, math.nan, 1 / 3, 2049.0]


def integers(dtype):
    near = [dtype.min_value, dtype.min_value + 1, dtype.max_value - 1, dtype.max_value]
    return sorted({*near, *(x for x in (-7, -2, -1, 0, 1, 2, 3, 7, 100) if x >= dtype.min_value)})


def compute(op, a, b, dtype):
    return evaluate(Binary(op, const(a, dtype), const(b, dtype)), {})


def same_number(a, b) -> bool:
    """Equal as bits, all NaN being one."""
    a, b = float(a), float(b)
    return (math.isnan(a) and math.isnan(b)) or (
        a == b and math.copysign(1, a) == math.copysign(1, b)
    )


# ---- integers

INTEGER_OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": floor_div,
    "%": floor_mod,
    "min": min,
    "max": max,
}


@pytest.mark.parametrize("op", INTEGER_OPERATIONS)
@pytest.mark.parametrize("dtype", [*every_dtype(("int", "uint")), INDEX])
def test_integers_wrap_and_divide_towards_minus_infinity(dtype, op):
    values = integers(dtype) if dtype != INDEX else [-9, -1, 0, 1, 2, 7]
    for a, b in itertools.product(values, values):
        wanted = wrap_integer(INTEGER_OPERATIONS[op](a, b), dtype)
        got = compute(op, a, b, dtype)
        assert got == wanted, f"{a} {op} {b}"
        assert isinstance(got, int if dtype == INDEX else numpy_dtype(dtype).type)


@pytest.mark.parametrize("dtype", every_dtype(("int", "uint")))
def test_division_at_the_edges(dtype):
    lowest = dtype.min_value
    assert compute("//", 5, 0, dtype) == 0
    assert compute("%", 5, 0, dtype) == 0
    assert compute("//", 0, 0, dtype) == 0
    if dtype.kind == "int":
        assert compute("//", lowest, -1, dtype) == lowest
        assert compute("%", lowest, -1, dtype) == 0
        assert compute("//", -7, 2, dtype) == -4
        assert compute("%", -7, 2, dtype) == 1
        assert compute("//", 7, -2, dtype) == -4
        assert compute("%", 7, -2, dtype) == -1


@pytest.mark.parametrize("dtype", every_dtype(("int", "uint")))
def test_negation_and_absolute_value_wrap(dtype):
    for a in integers(dtype):
        assert evaluate(Unary("-", const(a, dtype)), {}) == wrap_integer(-a, dtype)
        if dtype.kind == "int":
            got = evaluate(Call("abs", (const(a, dtype),), dtype), {})
            assert got == wrap_integer(abs(a), dtype)


@pytest.mark.parametrize("dtype", [*every_dtype(("int", "uint", "float")), INDEX])
def test_comparisons(dtype):
    values = [0, 1, 2, 100] if dtype.kind != "int" else [-2, -1, 0, 1, 100]
    for a, b in itertools.product(values, values):
        assert bool(compute("<", a, b, dtype)) == (a < b)
        assert bool(compute("<=", a, b, dtype)) == (a <= b)
        assert bool(compute("==", a, b, dtype)) == (a == b)
        assert bool(compute("!=", a, b, dtype)) == (a != b)


# ---- bool


@pytest.mark.parametrize("a", [False, True])
@pytest.mark.parametrize("b", [False, True])
def test_logic(a, b):
    x, y = const(a, BOOL), const(b, BOOL)
    assert bool(evaluate(Binary("and", x, y), {})) == (a and b)
    assert bool(evaluate(Binary("or", x, y), {})) == (a or b)
    assert bool(evaluate(Binary("==", x, y), {})) == (a == b)
    assert bool(evaluate(Binary("!=", x, y), {})) == (a != b)
    assert bool(evaluate(Unary("not", x), {})) == (not a)


# ---- floats that numpy has

FLOAT_OPERATIONS = {
    "+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide,
    "min": np.minimum, "max": np.maximum,
}  # fmt: skip


@pytest.mark.parametrize("op", FLOAT_OPERATIONS)
@pytest.mark.parametrize("name", NUMPY_FLOATS)
def test_float_arithmetic_is_numpys(name, op):
    dtype = DType.of(name)
    for a, b in itertools.product(FLOATS, FLOATS):
        with np.errstate(all="ignore"):
            if op in ("min", "max") and np.array([a, b], name).any() == 0:
                continue  # either zero may be the smaller one
            wanted = FLOAT_OPERATIONS[op](np.array([a], name), np.array([b], name))[0]
        got = compute(op, a, b, dtype)
        assert same_number(got, wanted), f"{a} {op} {b}: {got}, not {wanted}"
        assert got.dtype == name


@pytest.mark.parametrize("name", [*NUMPY_FLOATS, "bfloat16"])
def test_min_and_max_propagate_nan(name):
    dtype = DType.of(name)
    for op in ("min", "max"):
        for other in (0.0, 1.0, math.inf, -math.inf, math.nan):
            assert math.isnan(compute(op, math.nan, other, dtype))
            assert math.isnan(compute(op, other, math.nan, dtype))


def test_nan_compares_as_ieee_says():
    for name in (*NUMPY_FLOATS, "bfloat16"):
        dtype = DType.of(name)
        assert not compute("==", math.nan, math.nan, dtype)
        assert compute("!=", math.nan, math.nan, dtype)
        assert not compute("<", math.nan, 1.0, dtype)
        assert not compute("<=", 1.0, math.nan, dtype)


def test_each_float32_operation_is_rounded():
    f32 = DType.of("float32")
    x, y = Var("x", f32), Var("y", f32)
    total = Binary("-", Binary("+", x, y), x)
    values = {"x": np.float32(2**24), "y": np.float32(1.0)}
    assert evaluate(total, values) == 0.0  # in float64 it would be 1


# ---- functions

FUNCTIONS = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "tanh": np.tanh,
    "sigmoid": scipy.special.expit,
    "erf": scipy.special.erf,
    "sin": np.sin,
    "cos": np.cos,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
}


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("float64", 1e-14), ("float32", 1e-6), ("float16", 2e-3), ("bfloat16", 1e-2)],
)
def test_functions_against_numpy_in_double_precision(name, tolerance, function):
    dtype = DType.of(name)
    points = [-2.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.5, 4.0, math.inf, -math.inf, math.nan]
    for x in points:
        with np.errstate(all="ignore"):
            wanted = FUNCTIONS[function](np.float64(x))
        got = evaluate(Call(function, (const(x, dtype),), dtype), {})
        assert got.dtype == ("float32" if name == "bfloat16" else name)
        np.testing.assert_allclose(float(got), wanted, rtol=tolerance, err_msg=f"{function}({x})")


@pytest.mark.parametrize(("name", "x"), [("float16", -12.0), ("float32", -100.0)])
def test_a_sigmoid_may_be_small_though_its_exponential_overflows(name, x):
    dtype = DType.of(name)
    got = evaluate(Call("sigmoid", (const(x, dtype),), dtype), {})
    assert got == np.dtype(name).type(scipy.special.expit(x)) > 0


@pytest.mark.parametrize("bits", [32, 64])
def test_reinterpret_keeps_the_bits_and_changes_the_type(bits):
    real, whole = DType.of(f"float{bits}"), DType.of(f"int{bits}")
    for x in (1.0, -0.0, 5e-324, math.inf, math.nan):
        number = numpy_dtype(real).type(x)
        got = evaluate(Call("reinterpret", (Var("x", real),), whole), {"x": number})
        assert got.dtype == whole
        assert got.tobytes() == number.tobytes()
        back = evaluate(Call("reinterpret", (Var("i", whole),), real), {"i": got})
        assert back.dtype == real
        assert back.tobytes() == number.tobytes()


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_round_takes_ties_to_even(name):
    dtype = DType.of(name)
    rounded = [
        float(evaluate(Call("round", (const(x, dtype),), dtype), {}))
        for x in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 2.75)
    ]
    assert rounded == [-2, -2, 0, 0, 2, 2, 4, 3]
    assert math.copysign(1, rounded[2]) == -1


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
def test_power(name):
    dtype = DType.of(name)
    for a, b in [(2.0, 10.0), (2.0, -1.0), (9.0, 0.5), (0.0, 0.0), (-2.0, 3.0), (-8.0, 1 / 3)]:
        got = float(evaluate(Call("power", (const(a, dtype), const(b, dtype)), dtype), {}))
        with np.errstate(all="ignore"):
            wanted = np.power(np.float64(a), float(evaluate(const(b, dtype), {})))
        np.testing.assert_allclose(got, wanted, rtol=1e-2)


# ---- bfloat16


def nearest_bfloat16(value: float) -> float:
    """The bfloat16 nearest to a finite double, ties to even, found by exact comparison."""
    if value == 0 or math.isinf(value) or math.isnan(value):
        return value
    sign, exact = math.copysign(1.0, value), Fraction(abs(value))
    exponent = max(math.frexp(abs(value))[1] - 1, -126)
    unit = Fraction(2) ** (exponent - 7)
    steps = exact / unit
    low = math.floor(steps)
    rest = steps - low
    up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1)
    rounded = (low + up) * unit
    return sign * (math.inf if rounded >= Fraction(2) ** 128 else float(rounded))


def test_every_bfloat16_survives_the_way_there_and_back():
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = from_bfloat16(bits)
    assert values.dtype == np.float32
    again = to_bfloat16(values)
    nan = np.isnan(values)
    np.testing.assert_array_equal(again[~nan], bits[~nan])
    assert np.isnan(from_bfloat16(again[nan])).all()
    assert nan.sum() == 2 * 127  # both signs, every payload


def test_rounding_to_bfloat16_is_to_nearest_with_ties_to_even():
    rng = np.random.default_rng(0)
    patterns = rng.integers(0, 1 << 32, 4000, dtype=np.uint64).astype(np.uint32)
    base = patterns & np.uint32(0xFFFF0000)
    edges = np.concatenate([base | np.uint32(n) for n in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    values = np.concatenate([patterns, edges]).view(np.float32)
    got = from_bfloat16(to_bfloat16(values))
    for value, rounded in zip(values.tolist(), got.tolist()):
        assert same_number(rounded, nearest_bfloat16(value)), value


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0)], ids=str)
def test_bfloat16_conversions_keep_the_shape(shape):
    bits = np.full(shape, 0x3FC0, np.uint16)
    values = from_bfloat16(bits)
    assert np.shape(values) == shape
    again = to_bfloat16(values)
    assert np.shape(again) == shape
    np.testing.assert_array_equal(again, bits)


def test_bfloat16_conversions_of_arrays_that_are_not_contiguous():
    bits = np.arange(0x3F80, 0x3F80 + 24, dtype=np.uint16).reshape(4, 6)
    for view in (bits.T, bits[::2, ::3], bits[::-1]):
        np.testing.assert_array_equal(to_bfloat16(from_bfloat16(view)), view)


def test_nan_with_a_payload_in_the_low_bits_stays_nan():
    values = np.array([0x7F800001, 0xFF800001, 0x7FFFFFFF, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert np.isnan(from_bfloat16(to_bfloat16(values))).all()


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
def test_bfloat16_arithmetic_is_rounded_once_a_step(op):
    dtype = DType.of("bfloat16")
    rng = np.random.default_rng(1)
    values = from_bfloat16(rng.integers(0x3E00, 0x4200, 60).astype(np.uint16)).tolist()
    exact = {
        "+": lambda a, b: Fraction(a) + Fraction(b),
        "-": lambda a, b: Fraction(a) - Fraction(b),
        "*": lambda a, b: Fraction(a) * Fraction(b),
        "/": lambda a, b: Fraction(a) / Fraction(b),
    }[op]
    for a, b in itertools.product(values[:30], values[30:]):
        wanted = nearest_bfloat16(float(exact(a, b)))
        assert float(compute(op, a, b, dtype)) == wanted, f"{a} {op} {b}"


def test_bfloat16_specials():
    dtype = DType.of("bfloat16")
    assert compute("*", 3e38, 2.0, dtype) == math.inf
    assert math.isnan(compute("-", math.inf, math.inf, dtype))
    assert compute("/", 1.0, 0.0, dtype) == math.inf
    assert same_number(compute("*", -1.0, 0.0, dtype), -0.0)
    assert evaluate(const(3.4e38, dtype), {}) == math.inf


# ---- constants and casts


@pytest.mark.parametrize("dtype", every_dtype())
def test_a_constant_is_held_as_its_type(dtype):
    held = evaluate(const(1, dtype), {})
    assert held == 1
    if dtype.kind != "bool":
        assert held.dtype == ("float32" if dtype == "bfloat16" else dtype)


@pytest.mark.parametrize("name", NUMPY_FLOATS)
def test_a_float_constant_is_rounded(name):
    assert evaluate(const(0.1, DType.of(name)), {}) == np.array(0.1, name)


def converted(value, source, target):
    return evaluate(Cast(DType.of(target), const(value, DType.of(source))), {})


@pytest.mark.parametrize("target", every_dtype(("int", "uint")))
@pytest.mark.parametrize("source", every_dtype(("int", "uint")))
def test_integers_to_integers_wrap(source, target):
    for value in integers(source):
        got = converted(value, source, target)
        assert got == wrap_integer(value, target)
        assert got.dtype == target


@pytest.mark.parametrize("target", every_dtype(("int", "uint")))
@pytest.mark.parametrize("source", ["float64", "float32", "float16", "bfloat16"])
def test_floats_to_integers_are_truncated(source, target):
    for value in (0.0, -0.0, 0.5, 0.99, 1.5, 2.5, 100.0, 100.5):
        assert converted(value, source, target) == int(value)
        if target.kind == "int":
            assert converted(-value, source, target) == int(-value)


@pytest.mark.parametrize("target", NUMPY_FLOATS)
@pytest.mark.parametrize("source", [*every_dtype(("int", "uint", "float")), "bool"])
def test_anything_to_a_float_is_rounded_to_nearest(source, target):
    source = DType.of(source)
    values = integers(source) if source.is_integer else [False, True] if source == BOOL else FLOATS
    for value in values:
        with np.errstate(over="ignore"):
            held = value if source == "bfloat16" else np.array(value, numpy_dtype(source))
            wanted = np.array(nearest_bfloat16(value) if source == "bfloat16" else held)
            wanted = wanted.astype(target)
        assert same_number(converted(value, source, target), wanted), value


@pytest.mark.parametrize("source", every_dtype())
def test_to_bool(source):
    assert converted(0, source, "bool") == False  # noqa: E712
    assert converted(1, source, "bool") == True  # noqa: E712
    if source.is_float:
        assert converted(math.nan, source, "bool")
        assert converted(0.5, source, "bool")
        assert not converted(-0.0, source, "bool")


@pytest.mark.parametrize("source", every_dtype(("int", "uint")))
def test_to_index_and_back(source):
    for value in integers(source):
        got = evaluate(Cast(INDEX, const(value, source)), {})
        assert got == value
        assert type(got) is int
        assert evaluate(Cast(source, Const(value)), {}) == value


@pytest.mark.parametrize("name", USER_DTYPES)
def test_how_arrays_travel(name):
    wanted = "uint16" if name == "bfloat16" else name
    assert numpy_dtype(DType.of(name)) == wanted


# ---- selection

FORBIDDEN = Cast(DType.of("float32"), Call("in_bounds", (Const(9), Const(4)), INDEX))
ONE = number(1.0)


def test_a_lazy_selection_evaluates_the_taken_side_only():
    assert evaluate(Select(TRUE, ONE, FORBIDDEN, lazy=True), {}) == 1
    assert evaluate(Select(FALSE, FORBIDDEN, ONE, lazy=True), {}) == 1


@pytest.mark.parametrize("sides", [(ONE, FORBIDDEN), (FORBIDDEN, ONE)])
@pytest.mark.parametrize("condition", [TRUE, FALSE])
def test_a_selection_evaluates_both_sides(condition, sides):
    with pytest.raises(ExecutionError, match=r"9 = 9 is outside \[0, 4\)"):
        evaluate(Select(condition, *sides), {})


@pytest.mark.parametrize("op", ["and", "or"])
def test_logic_evaluates_both_sides(op):
    forbidden = Binary("==", FORBIDDEN, ONE)
    with pytest.raises(ExecutionError):
        evaluate(Binary(op, Binary("==", ONE, ONE), forbidden), {})
    with pytest.raises(ExecutionError):
        evaluate(Binary(op, Binary("!=", ONE, ONE), forbidden), {})


def test_in_bounds_gives_the_index_or_an_error():
    checked = Call("in_bounds", (Var("n"), Const(4)), INDEX)
    assert [evaluate(checked, {"n": n}) for n in range(4)] == [0, 1, 2, 3]
    for n in (-1, 4):
        with pytest.raises(ExecutionError, match=rf"n = {n} is outside \[0, 4\)") as caught:
            evaluate(checked, {"n": n})
        assert caught.value.kind == "out of bounds"


def test_evaluate_has_no_memory():
    with pytest.raises(VerifyError, match=r"A\[0\] cannot be evaluated: there is no memory here"):
        evaluate(load("A", 0), {})
