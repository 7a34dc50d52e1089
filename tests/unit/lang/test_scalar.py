"""Symbolic scalars: the types of results, and the values, against numpy."""

import contextlib
import itertools
import math
import operator

import numpy as np
import pytest
import scipy.special

import minitensor.lang as mt
from minitensor.errors import ArgumentError
from minitensor.ir import BOOL, FLOAT32, INDEX, INT64, USER_DTYPES, Const, DType, evaluate
from tests.unit.ir.build import ends_within

INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
FLOATS = ("float64", "float32", "float16", "bfloat16")
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul}
COMPARISONS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def value(scalar: mt.Scalar, **values):
    return evaluate(scalar.node, values)


def common(a: str, b: str) -> str | None:
    """The promotion of the documentation, said once more: bool < integer < float."""
    if a == b:
        return a
    floats = [d for d in (a, b) if d in FLOATS]
    if len(floats) == 1:
        return floats[0]
    if floats:
        return "float32" if set(floats) == {"float16", "bfloat16"} else max(floats, key=bits)
    if "bool" in (a, b):
        return b if a == "bool" else a
    promoted = np.promote_types(a, b).name
    return None if promoted.startswith("float") else promoted


def bits(name: str) -> int:
    return DType.of(name).bits


# ---- promotion


@pytest.mark.parametrize("a", USER_DTYPES)
@pytest.mark.parametrize("b", USER_DTYPES)
def test_promotion_of_every_pair(a, b):
    x, y = mt.var("x", a), mt.var("y", b)
    wanted = common(a, b)
    if wanted is None:
        with pytest.raises(
            ArgumentError, match=r"have no common integer type; convert one with \.astype"
        ):
            x + y
        return
    arithmetic = "int64" if a == b == "bool" else wanted
    assert (x + y).dtype == arithmetic
    assert (x * y).dtype == (y * x).dtype == arithmetic
    assert mt.select(True, x, y).dtype == wanted
    assert mt.minimum(x, y).dtype == wanted
    for compare in COMPARISONS.values():
        assert compare(x, y).dtype == BOOL
    wide = wanted if wanted in FLOATS else "float32"
    assert (x / y).dtype == wide


@pytest.mark.parametrize("dtype", USER_DTYPES)
def test_a_number_takes_the_type_of_the_other_operand(dtype):
    x = mt.var("x", dtype)
    kind = x.dtype.kind
    wanted = {"bool": "int64"}.get(kind, dtype)
    for result in (x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x):
        assert result.dtype == wanted
    wanted = dtype if x.dtype.is_float else "float32"
    for result in (x + 1.5, 1.5 + x, x * 0.5, x / 2, 2 / x, x / 2.0):
        assert result.dtype == wanted
    wanted = "int64" if kind == "bool" else dtype
    for result in (x + True, True + x):
        assert result.dtype == wanted


@pytest.mark.parametrize("dtype", USER_DTYPES)
@pytest.mark.parametrize(
    "number", [np.int64(3), np.int8(3), np.float32(1.5), np.float64(1.5), np.float16(1.5)]
)
def test_numbers_of_numpy_count_as_pythons(dtype, number):
    x = mt.var("x", dtype)
    plain = number.item()
    for op in (*ARITHMETIC.values(), operator.truediv, *COMPARISONS.values()):
        assert op(x, number).dtype == op(x, plain).dtype
        assert op(number, x).dtype == op(plain, x).dtype
        assert repr(op(number, x)) == repr(op(plain, x))


def test_a_bool_of_numpy_counts_as_pythons():
    x = mt.var("x", "bool")
    assert repr(mt.logical_and(np.True_, x)) == repr(mt.logical_and(True, x))
    assert repr(mt.select(x, np.True_, False)) == repr(mt.select(x, True, False))


@pytest.mark.parametrize("dtype", USER_DTYPES)
def test_indices_count_as_int64_when_mixed_with_data(dtype):
    i, x = mt.var("i"), mt.var("x", dtype)
    wanted = common("int64", dtype)
    if wanted is None:
        with pytest.raises(ArgumentError, match="no common integer type"):
            i + x
    else:
        assert (i + x).dtype == (x + i).dtype == wanted


def test_indices_alone_stay_indices():
    i, j = mt.var("i"), mt.var("j")
    for result in (i + j, i + 1, 2 * i, i - j, i // 2, i % 2, -i, mt.minimum(i, 3), i**2, abs(i)):
        assert result.dtype == INDEX
    assert (i < j).dtype == BOOL
    assert (i / 2).dtype == "float32"
    assert (i + 0.5).dtype == "float32"
    assert mt.exp(i).dtype == "float32"


@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        ("int8", 128),
        ("int8", -129),
        ("uint8", -1),
        ("uint8", 256),
        ("int64", 2**63),
        ("uint64", -1),
    ],
)
def test_a_number_that_does_not_fit_is_refused(dtype, number):
    x = mt.var("x", dtype)
    for op in (operator.add, operator.lt, operator.floordiv):
        with pytest.raises(ArgumentError, match=rf"number {number} does not fit {dtype}; .*astype"):
            op(x, number)
        with pytest.raises(ArgumentError, match="does not fit"):
            op(number, x)


def test_a_number_that_no_float_holds_is_refused():
    for x in (mt.var("x", "float32"), mt.var("x", "float64")):
        with pytest.raises(ArgumentError):
            x + 10**400


def test_a_number_that_no_index_holds_is_refused():
    with pytest.raises(ArgumentError, match="does not fit index"):
        mt.var("i") + 2**64


# ---- operators


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_operators_against_numpy(dtype):
    x, y = mt.var("x", dtype), mt.var("y", dtype)
    info = np.iinfo(dtype)
    samples = [int(n) for n in (info.min, info.max, 0, 1, 7, 3)] + ([-7] if info.min else [])
    operators = {**ARITHMETIC, **COMPARISONS, "//": operator.floordiv, "%": operator.mod}
    for a, b in itertools.product(samples, samples):
        left, right = np.array([a], dtype), np.array([b], dtype)
        for name, op in operators.items():
            with np.errstate(all="ignore"):
                wanted = op(left, right)[0]
            got = value(op(x, y), x=left[0], y=right[0])
            assert got == wanted, f"{a} {name} {b}"
        assert value(mt.minimum(x, y), x=left[0], y=right[0]) == min(a, b)
        assert value(mt.maximum(x, y), x=left[0], y=right[0]) == max(a, b)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_float_operators_against_numpy(dtype):
    x, y = mt.var("x", dtype), mt.var("y", dtype)
    samples = [0.0, 1.5, -2.25, 0.1, np.inf, -np.inf, np.nan]
    operators = {**ARITHMETIC, **COMPARISONS, "/": operator.truediv, "**": operator.pow}
    for a, b in itertools.product(samples, samples):
        left, right = np.array([a], dtype), np.array([b], dtype)
        for op in operators.values():
            with np.errstate(all="ignore"):
                wanted = op(left, right)[0]
            np.testing.assert_array_equal(value(op(x, y), x=left[0], y=right[0]), wanted)


@pytest.mark.parametrize("op", [*ARITHMETIC.values(), *COMPARISONS.values(), operator.truediv])
def test_numbers_on_either_side(op):
    x = mt.var("x", "float32")
    assert value(op(x, 3), x=np.float32(2)) == op(2.0, 3.0) or op is operator.truediv
    assert value(op(3, x), x=np.float32(2)) == op(3.0, 2.0)
    i = mt.var("i", "int32")
    if op is not operator.truediv:
        assert value(op(i, 3), i=np.int32(2)) == op(2, 3)
        assert value(op(3, i), i=np.int32(2)) == op(3, 2)


def test_reflected_division():
    i = mt.var("i", "int32")
    assert value(7 // i, i=np.int32(-2)) == -4
    assert value(7 % i, i=np.int32(-2)) == -1
    assert value(7 / i, i=np.int32(2)) == 3.5
    assert value(2**i, i=np.int32(3)) == 8.0
    assert value(7 // i, i=np.int32(0)) == 0


def test_true_division_of_integers_is_in_float32():
    x, y = mt.var("x", "int32"), mt.var("y", "int32")
    assert value(x / y, x=np.int32(1), y=np.int32(3)) == np.float32(1) / np.float32(3)
    assert value(x / y, x=np.int32(1), y=np.int32(0)) == np.inf


def test_negation_and_absolute_value():
    for dtype in (*INTEGERS, *FLOATS):
        x = mt.var("x", dtype)
        assert (-x).dtype == abs(x).dtype == dtype
    x = mt.var("x", "int8")
    assert value(-x, x=np.int8(-128)) == -128
    assert value(abs(x), x=np.int8(-128)) == -128
    assert value(mt.abs_(x), x=np.int8(-5)) == 5
    assert value(-mt.var("x", "uint8"), x=np.uint8(1)) == 255
    assert value(abs(mt.var("i") - 5), i=2) == 3


def test_arithmetic_on_conditions_counts_them():
    a, b = mt.var("a", "bool"), mt.var("b", "bool")
    assert value(a + b, a=True, b=True) == 2
    assert value(a - b, a=False, b=True) == -1
    assert value(a * 3, a=True) == 3
    assert (a + b).dtype == "int64"


def test_min_and_max_of_conditions_are_conditions():
    a, b = mt.var("a", "bool"), mt.var("b", "bool")
    for p, q in itertools.product([False, True], repeat=2):
        assert bool(value(mt.minimum(a, b), a=p, b=q)) == min(p, q)
        assert bool(value(mt.maximum(a, b), a=p, b=q)) == max(p, q)


@pytest.mark.parametrize("exponent", range(1, 9))
@pytest.mark.parametrize("dtype", ["int64", "int8", "uint8"])
def test_small_integer_powers_of_integers_are_integers(dtype, exponent):
    x = mt.var("x", dtype)
    assert (x**exponent).dtype == dtype
    with np.errstate(all="ignore"):
        assert (
            value(x**exponent, x=np.array([3], dtype)[0]) == (np.array([3], dtype) ** exponent)[0]
        )


@pytest.mark.parametrize("exponent", [0, -1, 9, 0.5])
def test_other_powers_of_integers_are_computed_in_floats(exponent):
    x = mt.var("x", "int32")
    assert (x**exponent).dtype == "float32"
    np.testing.assert_allclose(value(x**exponent, x=np.int32(3)), 3.0**exponent, rtol=1e-6)


def test_powers_of_floats():
    x = mt.var("x", "float64")
    for exponent in (0, 1, 2, -1, 0.5, 3.0):
        assert value(x**exponent, x=np.float64(2.5)) == 2.5**exponent


# ---- functions


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (mt.exp, np.exp),
        (mt.log, np.log),
        (mt.sqrt, np.sqrt),
        (mt.rsqrt, lambda x: 1 / np.sqrt(x)),
        (mt.tanh, np.tanh),
        (mt.sigmoid, scipy.special.expit),
        (mt.erf, scipy.special.erf),
        (mt.sin, np.sin),
        (mt.cos, np.cos),
        (mt.log1p, np.log1p),
        (mt.expm1, np.expm1),
        (mt.abs_, np.abs),
        (mt.floor, np.floor),
        (mt.ceil, np.ceil),
        (mt.round_, np.round),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_functions_against_numpy(function, reference, dtype):
    x = mt.var("x", dtype)
    assert function(x).dtype == dtype
    for point in (0.25, 0.5, 1.5, 2.5, 3.0, np.inf, np.nan):
        with np.errstate(all="ignore"):
            wanted = reference(np.float64(point))
        got = value(function(x), x=np.array([point], dtype)[0])
        np.testing.assert_allclose(float(got), wanted, rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize(
    "function", [mt.exp, mt.log, mt.sqrt, mt.rsqrt, mt.tanh, mt.sigmoid, mt.erf]
)
@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_functions_convert_integers_to_float32(function, dtype):
    assert function(mt.var("x", dtype)).dtype == "float32"


@pytest.mark.parametrize("function", [mt.floor, mt.ceil, mt.round_])
def test_rounding_leaves_integers_alone(function):
    for dtype in INTEGERS:
        x = mt.var("x", dtype)
        assert function(x).dtype == dtype
        assert repr(function(x)) == "x"


def test_round_takes_ties_to_even_as_numpy():
    x = mt.var("x", "float32")
    points = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    np.testing.assert_array_equal([value(mt.round_(x), x=p) for p in points], np.round(points))


def test_functions_take_numbers():
    for function in (mt.exp, mt.sqrt, mt.floor, mt.abs_, mt.sigmoid):
        assert function(4).dtype == function(4.0).dtype == "float32"
    assert value(mt.sqrt(4)) == 2
    assert value(mt.minimum(3, 5)) == 3
    assert value(mt.power(2.0, 3)) == 8


def test_minimum_and_maximum_propagate_nan():
    x, y = mt.var("x", "float32"), mt.var("y", "float32")
    nan, one = np.float32(np.nan), np.float32(1)
    for function in (mt.minimum, mt.maximum):
        assert math.isnan(value(function(x, y), x=nan, y=one))
        assert math.isnan(value(function(x, y), x=one, y=nan))


def test_selections():
    x = mt.var("x", "int32")
    for select in (mt.select, mt.if_then_else):
        chosen = select(x > 2, x, 0)
        assert chosen.dtype == "int32"
        assert [value(chosen, x=np.int32(n)) for n in (1, 3)] == [0, 3]
        assert select(x, 1.0, 2).dtype == "float32"  # a number as a condition: not 0
        assert [value(select(x, 1.0, 2), x=np.int32(n)) for n in (0, -1)] == [2, 1]


def test_logic():
    a, b, c = (mt.var(n, "bool") for n in "abc")
    for p, q, r in itertools.product([False, True], repeat=3):
        values = {"a": p, "b": q, "c": r}
        assert bool(value(mt.logical_and(a, b, c), **values)) == (p and q and r)
        assert bool(value(mt.logical_or(a, b, c), **values)) == (p or q or r)
        assert bool(value(mt.logical_not(a), **values)) == (not p)
        assert bool(value(a & b, **values)) == (p and q)
        assert bool(value(a | b, **values)) == (p or q)
        assert bool(value(~a, **values)) == (not p)


def test_logic_of_one_condition():
    x = mt.var("x", "float32")
    for join in (mt.logical_and, mt.logical_or):
        assert join(x).dtype == BOOL
        assert [bool(value(join(x), x=np.float32(f))) for f in (0, 0.5)] == [False, True]


def test_logic_of_no_condition_and_of_a_list():
    x, y = (mt.var(name, "bool") for name in "xy")
    for name in ("logical_and", "logical_or"):
        join = getattr(mt, name)
        with pytest.raises(
            ArgumentError, match=rf"one condition or more, mt\.{name}\(a, b\).* got none"
        ):
            join()
        with pytest.raises(
            ArgumentError, match=rf"of a list mt\.{name}\(\*conditions\); but got \[x, y\]"
        ):
            join([x, y])


def test_logic_of_numbers_asks_whether_they_are_zero():
    x, i = mt.var("x", "float32"), mt.var("i")
    both = mt.logical_and(x, i)
    assert both.dtype == BOOL
    assert [bool(value(both, x=np.float32(f), i=n)) for f, n in [(0, 1), (1, 0), (0.5, 2)]] == [
        False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("op", [operator.and_, operator.or_])
def test_logical_operators_take_a_bool_on_either_side(op):
    a = mt.var("a", "bool")
    for p, q in itertools.product([False, True], repeat=2):
        assert bool(value(op(a, q), a=p)) == op(p, q)
        assert bool(value(op(q, a), a=p)) == op(q, p)


# ---- conversions


@pytest.mark.parametrize("dtype", USER_DTYPES)
def test_astype(dtype):
    for source in (*USER_DTYPES, "index"):
        x = mt.var("x", source)
        assert x.astype(dtype).dtype == dtype
    assert mt.var("x", dtype).astype(dtype).node == mt.var("x", dtype).node


def test_astype_truncates_wraps_and_rounds():
    x = mt.var("x", "float64")
    assert value(x.astype("int32"), x=np.float64(-2.9)) == -2
    assert value(x.astype("float32"), x=np.float64(0.1)) == np.float32(0.1)
    assert value(x.astype("bool"), x=np.float64(0.5)) == True  # noqa: E712
    n = mt.var("n", "int32")
    assert value(n.astype("int8"), n=np.int32(300)) == 44
    assert value(n.astype("uint8"), n=np.int32(-1)) == 255
    assert value(mt.var("i").astype("int8"), i=130) == -126


# ---- text, names, identity


def test_repr_is_the_expression():
    i, x = mt.var("i"), mt.var("x", "float32")
    assert repr(i * 8 + 1) == "i*8 + 1"
    assert repr(mt.if_then_else(i < 3, x, 0.0)) == "if_then_else(i < 3, x, 0.0)"
    assert repr(mt.logical_not(x > 1)) == "not 1.0 < x"


def test_scalars_can_be_kept_in_sets_though_equality_is_symbolic():
    i, j = mt.var("i"), mt.var("j")
    assert len({i, j, i}) == 2
    assert repr(i == j) == "i == j"
    assert repr(i != 3) == "i != 3"


def test_var():
    assert mt.var("n").dtype == INDEX
    assert mt.var("n", "int8").dtype == "int8"
    for bad in ("", None, 3):
        with pytest.raises(ArgumentError, match="expected a name, but got name="):
            mt.var(bad)
    with pytest.raises(ArgumentError, match="expected one of float64"):
        mt.var("x", "real")


def test_constants_fold_on_indices_only():
    assert mt.var("i").dtype == INDEX
    two = mt.Scalar(Const(2))
    assert (two * 3 + 1).node == Const(7)
    assert (mt.Scalar(Const(2, INT64)) * 3).dtype == INT64
    assert (mt.Scalar(Const(2.0, FLOAT32)) * 3).dtype == FLOAT32


def test_sharing_an_expression_does_not_blow_it_up():
    """`x = x * x`, 24 times, is 25 nodes to the user and 2 ** 24 as a tree."""
    A = mt.placeholder((2,), "float32", name="A")

    def squared(i):
        x = A[i]
        for _ in range(24):
            x = x * x
        return x

    def built():
        with contextlib.suppress(ArgumentError):  # to refuse it is fine too, if that comes soon
            mt.compute((2,), squared)

    assert ends_within(2.0, built)


def test_an_expression_that_is_large_is_shown_in_a_few_words():
    deep = shared = mt.var("x")
    for _ in range(3000):
        deep = deep + mt.var("y")
    for _ in range(64):
        shared = shared + shared
    assert repr(deep) == "<index expression of 6001 operations, 3001 deep>"
    assert repr(shared) == "<index expression of about 10**19 operations, 65 deep>"
    with pytest.raises(ArgumentError, match="about 10\\*\\*19 operations, 65 deep> has no truth"):
        bool(shared)


# ---- bits


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_and_complements_are_those_of_numpy(dtype):
    info, kind = np.iinfo(dtype), np.dtype(dtype).type
    numbers = np.array([info.min, info.max, info.max // 3, 0, 1, 5], dtype)
    x = mt.var("x", dtype)
    for number in numbers:
        assert value(~x, x=number) == ~number
        for places in (0, 1, 3, info.bits - 2, info.bits - 1):
            with np.errstate(over="ignore"):
                assert value(x << places, x=number) == np.left_shift(number, kind(places))
            assert value(x >> places, x=number) == np.right_shift(number, kind(places))


def test_exclusive_or_of_conditions():
    p, q = mt.var("p", "bool"), mt.var("q", "bool")
    for a, b in [(False, False), (False, True), (True, False), (True, True)]:
        assert value(p ^ q, p=a, q=b) == (a != b)
        assert value(p ^ b, p=a) == value(b ^ p, p=a) == (a != b)
        assert value(p ^ 2, p=a) == (not a)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_of_integers_and_shifts_by_values(dtype):
    info, kind = np.iinfo(dtype), np.dtype(dtype).type
    numbers = np.array([info.min, info.max, info.max // 3, 0, 1, 5, info.bits - 1], dtype)
    x, y = mt.var("x", dtype), mt.var("y", dtype)
    for a in numbers:
        assert value(x & 5, x=a) == a & kind(5) == value(5 & x, x=a)
        for b in numbers:
            assert value(x & y, x=a, y=b) == a & b
            assert value(x | y, x=a, y=b) == a | b
            assert value(x ^ y, x=a, y=b) == a ^ b
            places = kind(int(b) % info.bits)  # of what is negative or too large, modulo the width
            assert value(x << y, x=a, y=b) == np.left_shift(a, places)
            assert value(x >> y, x=a, y=b) == np.right_shift(a, places)
            assert value(1 << y, y=b) == np.left_shift(kind(1), places)


def test_a_shift_keeps_the_type_of_what_is_shifted():
    x, n, i = mt.var("x", "int8"), mt.var("n", "uint64"), mt.var("i")
    assert (x << n).dtype == (x >> i).dtype == "int8"
    assert (i << n).dtype == (1 >> i).dtype == (i & 3).dtype == (i ^ i).dtype == "int64"
    assert value(x << n, x=np.int8(3), n=np.uint64(2**64 - 7)) == 6  # modulo 8


@pytest.mark.parametrize("places", [-1, 32, 1.0, True])
def test_shifts_by_other_than_the_places_of_the_type_are_refused(places):
    for shift in (lambda x: x << places, lambda x: x >> places):
        with pytest.raises(ArgumentError, match="places"):
            shift(mt.var("x", "int32"))


def test_shifts_of_and_by_other_than_integers_are_refused():
    x, n = mt.var("x", "float32"), mt.var("n", "int32")
    with pytest.raises(ArgumentError, match="<< is for integers, but got x of type float32"):
        x << 1
    for shift in (lambda: n >> x, lambda: n << mt.var("p", "bool"), lambda: n << 1.0):
        with pytest.raises(ArgumentError, match="a whole number of places"):
            shift()
    with pytest.raises(ArgumentError, match="from 0 to 31 places"):
        n << mt.const(32, "int32")
    with pytest.raises(ArgumentError, match=r"\^ is for two integers"):
        x ^ 1


def test_a_bool_known_in_python_is_a_number_beside_an_index():
    """So `A[i + (n == axis)]` stays index arithmetic, of which regions are computed."""
    i = mt.var("i")
    for known in (True, np.bool_(True)):
        for made in (i + known, known + i):
            assert made.node.dtype == INDEX
            assert evaluate(made.node, {"i": 4}) == 5
    assert (i * False).node.dtype == INDEX
    assert mt.logical_and(i > 3, True).node.dtype == BOOL
