import math

import numpy as np
import pytest

from minitensor.ir import (
    BOOL,
    FALSE,
    FLOAT32,
    INDEX,
    TRUE,
    Binary,
    Broadcast,
    Cast,
    Const,
    DType,
    Lanes,
    Load,
    Ramp,
    Select,
    Unary,
    Var,
    at_most,
    conjunction,
    conjuncts,
    const,
    equal,
    floor_div,
    floor_mod,
    less,
    print_expr,
    wrap_integer,
)
from tests.unit.ir.build import every_dtype, i, j, number

F64 = DType.of("float64")

# ---- constants


def test_zeros_of_different_sign_are_different_constants():
    assert Const(0.0, FLOAT32) != Const(-0.0, FLOAT32)
    assert Const(0.0, FLOAT32) == Const(0.0, FLOAT32)
    assert len({Const(0.0, FLOAT32), Const(-0.0, FLOAT32), Const(0.0, FLOAT32)}) == 2


def test_nan_is_equal_to_itself_as_a_constant():
    one, other = Const(math.nan, FLOAT32), Const(float("nan"), FLOAT32)
    assert one == other
    assert hash(one) == hash(other)
    assert one != Const(math.inf, FLOAT32)


def test_constants_of_different_types_differ():
    assert Const(1) != Const(1, DType.of("int64"))
    assert Const(1.0, FLOAT32) != Const(1.0, F64)
    assert Const(True, BOOL) != Const(1)
    assert Const(1) != 1
    assert Const(math.inf, FLOAT32) != Const(-math.inf, FLOAT32)


def test_equality_reaches_into_expressions():
    assert Unary("-", Const(0.0, FLOAT32)) != Unary("-", Const(-0.0, FLOAT32))
    assert Binary("+", i, Const(1)) == Binary("+", Var("i"), Const(1))
    assert Binary("+", i, Const(1)) != Binary("+", Const(1), i)
    assert Select(TRUE, i, j) != Select(TRUE, i, j, lazy=True)


@pytest.mark.parametrize("dtype", every_dtype(("int", "uint")))
def test_const_wraps_integers(dtype):
    span = 1 << dtype.bits
    for value in (0, 1, -1, dtype.max_value, dtype.min_value, dtype.max_value + 1, 3 * span + 5):
        held = const(value, dtype).value
        assert dtype.min_value <= held <= dtype.max_value
        assert (held - value) % span == 0


def test_const_takes_the_python_type_of_its_dtype():
    assert type(const(1, FLOAT32).value) is float
    assert type(const(1, BOOL).value) is bool
    assert type(const(True).value) is int
    assert type(const(np.int32(3)).value) is int  # type: ignore[arg-type]


def test_index_does_not_wrap():
    assert wrap_integer(1 << 100, INDEX) == 1 << 100


# ---- operators


@pytest.mark.parametrize(
    ("built", "value"),
    [
        (Const(7) + 3, 10),
        (3 + Const(7), 10),
        (Const(7) - 10, -3),
        (10 - Const(7), 3),
        (Const(-7) // 2, -4),
        (Const(-7) % 2, 1),
        (Const(7) // 0, 0),
        (Const(7) % 0, 0),
        (Const(6) * -2, -12),
        (-2 * Const(6), -12),
    ],
)
def test_operators_fold_index_constants(built, value):
    assert built == Const(value)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (i + 1, "i + 1"),
        (1 + i, "1 + i"),
        (i - j, "i - j"),
        (5 - i, "5 - i"),
        (i * 8 + j, "i*8 + j"),
        (8 * i, "8*i"),
        (i // 4 % 2, "i//4%2"),
        (less(i, 3), "i < 3"),
        (at_most(0, i), "0 <= i"),
        (equal(i, j), "i == j"),
    ],
)
def test_operators_build_nodes(built, text):
    assert print_expr(built) == text


def test_operators_fold_constants_of_data_types_nowhere():
    one = number(1, "int8")
    assert isinstance(one + one, Binary)


@pytest.mark.parametrize("a", [-7, -1, 0, 1, 7])
@pytest.mark.parametrize("b", [-3, -1, 1, 3])
def test_floor_div_and_mod_are_pythons(a, b):
    assert (floor_div(a, b), floor_mod(a, b)) == divmod(a, b)
    assert (floor_div(a, 0), floor_mod(a, 0)) == (0, 0)


# ---- types


def test_types_follow_from_operands():
    x = Var("x", FLOAT32)
    assert Binary("+", x, x).dtype == FLOAT32
    for op in ("<", "<=", "==", "!="):
        assert Binary(op, x, x).dtype == BOOL
    assert Binary("and", TRUE, FALSE).dtype == BOOL
    assert Unary("-", x).dtype == FLOAT32
    assert Select(TRUE, x, x).dtype == FLOAT32
    assert Cast(INDEX, x).dtype == INDEX
    assert Load("A", (), FLOAT32).dtype == FLOAT32


def test_types_of_vectors():
    assert Ramp(i, 1, 4).dtype == "indexx4"
    assert Broadcast(number(1), 8).dtype == "float32x8"
    assert Lanes("l", 2, less(Var("l"), 1)).dtype == "boolx2"
    ramp = Ramp(i, 1, 4)
    assert Binary("<", ramp, ramp).dtype == "boolx4"


# ---- conditions


def test_conjunction_leaves_out_what_adds_nothing():
    a, b, c = less(i, 1), less(i, 2), less(i, 3)
    assert conjunction([]) == TRUE
    assert conjunction([TRUE, TRUE]) == TRUE
    assert conjunction([a]) is a
    assert conjunction([a, TRUE, b, a]) == Binary("and", a, b)
    assert conjunction([Binary("and", a, b), Binary("and", b, c)]) == Binary(
        "and", Binary("and", a, b), c
    )


def test_conjuncts_undo_conjunction():
    parts = (less(i, 1), less(j, 2), Binary("or", less(i, 3), less(j, 4)))
    assert conjuncts(conjunction(parts)) == parts
    assert conjuncts(TRUE) == ()
    assert conjuncts(FALSE) == (FALSE,)
